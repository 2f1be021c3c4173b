/*
 * request.c - what users of Slurm write, and what a job's comment shows.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/text.h"
#include "scheduler/slurm/site.h"

Test(request, levels_are_be_1_2_rt_and_off)
{
    static const char *const words[] = {"be", "1", "2", "rt"};

    for (int level = 0; level < 4; level++) {
        cr_assert_eq(request_level(words[level]), level);
        cr_assert_str_eq(request_level_name(level), words[level]);
    }
    cr_assert_eq(request_level("off"), REQUEST_OFF);
    cr_assert_str_eq(request_level_name(REQUEST_OFF), "off");
    cr_assert_str_eq(request_level_name(REQUEST_NONE), "");
    cr_assert_eq(request_level(""), -EINVAL);
    cr_assert_eq(request_level("3"), -EINVAL);
    cr_assert_eq(request_level("RT"), -EINVAL);
}

Test(request, malformed_and_out_of_range_numbers_are_refused)
{
    static const char *const wrong[] = {"",   "0",  "-1",   "+1",
                                        "1x", " 1", "1001", "99999999999999999999"};
    uint64_t n = 0;

    cr_assert(number_read("1000", 1, 1000, &n));
    cr_assert_eq(n, 1000);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        cr_assert_not(number_read(wrong[i], 1, 1000, &n), "%s", wrong[i]);
}

Test(request, comment_carries_at_most_one_cutin_word)
{
    static const struct {
        int level;
        const char *old, *new;
    } cases[] = {
        {3, "", "cutin=rt"},
        {0, "my words", "my words cutin=be"},
        {2, "cutin=rt", "cutin=2"},
        {2, "my cutin=rt  words", "my words cutin=2"},
        {REQUEST_OFF, "my words cutin=rt", "my words"},
        {REQUEST_NONE, "cutin", "cutin"},
    };
    char out[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        request_comment(cases[i].level, cases[i].old, out, sizeof(out));
        cr_assert_str_eq(out, cases[i].new);
    }
}

Test(request, full_comment_keeps_only_users_words)
{
    char out[16];

    request_comment(3, "fourteen_chars", out, sizeof(out));
    cr_assert_str_eq(out, "fourteen_chars");
    request_comment(3, "seven_c", out, sizeof(out));
    cr_assert_str_eq(out, "seven_c");
    request_comment(3, "six_ch", out, sizeof(out));
    cr_assert_str_eq(out, "six_ch cutin=rt");
}
