/*
 * clock.c - a step of the time of day changes nothing: no file of the library or the daemon reads
 * that clock, or waits by it. One exception: how long ago a row of the profile was used has to
 * survive the process, and decides only which rows leave a full file.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of what reads CLOCK_REALTIME, or takes a deadline on it. */
static const char *const words[] = {
    "CLOCK_REALTIME",
    "CLOCK_TAI",
    "gettimeofday",
    "time",
    "ftime",
    "timespec_get",
    "pthread_timedjoin_np",
    "sem_timedwait",
    "pthread_mutex_timedlock",
    "mq_timedsend",
    "mq_timedreceive",
    "pthread_cond_timedwait",
};

static bool names(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at += n) {
        bool alone = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');

        if (alone && (isupper((unsigned char)*word) ? true : at[n] == '('))
            return true;
    }
    return false;
}

static void read_file(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "r");
    size_t n;

    cr_assert_not_null(f, "%s", path);
    n = fread(text, 1, size - 1, f);
    cr_assert_lt(n, size - 1, "%s", path);
    text[n] = '\0';
    fclose(f);
}

/* Files compare ages with it: the machine may have been off in between. */
static bool compares_with_files(const char *path)
{
    return strcmp(path, SOURCE_DIR "/shim/learn/profile.c") == 0 ||
           strcmp(path, SOURCE_DIR "/common/record.c") == 0;
}

Test(clock, sources_do_not_read_wall_clock)
{
    static const char *const folders[] = {"scheduler/*", "common", "vhq", "shim/*"};
    static char text[1 << 20];
    size_t files = 0;

    for (size_t i = 0; i < 4; i++) {
        char pattern[512];
        glob_t found;

        snprintf(pattern, sizeof(pattern), SOURCE_DIR "/%s/*.[ch]", folders[i]);
        cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "%s", pattern);
        for (size_t f = 0; f < found.gl_pathc; f++, files++) {
            if (compares_with_files(found.gl_pathv[f]))
                continue;
            read_file(found.gl_pathv[f], text, sizeof(text));
            for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
                cr_expect_not(names(text, words[w]), "%s: %s", found.gl_pathv[f], words[w]);
        }
        globfree(&found);
    }
    cr_assert_gt(files, 50);
}

Test(clock, word_search_finds_calls_but_not_parts_of_words)
{
    cr_expect(names("clock_gettime(CLOCK_REALTIME, &t)", "CLOCK_REALTIME"));
    cr_expect(names("x = time(NULL);", "time"));
    cr_expect_not(names("strftime(buffer); last_time(x); a time without end", "time"));
}
