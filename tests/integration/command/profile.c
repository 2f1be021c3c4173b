/*
 * profile.c - what best effort learned about its kernels is there in the next run, and does not
 * change what a program computes.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(profile, .init = sandbox_enter, .fini = sandbox_leave);

static void train(const char *setting, const char *expected)
{
    const char *const argv[] = {CUTIN,     "run", "--sim", "--no-daemon", EXAMPLE("be_training"),
                                "--steps", "80",  NULL};
    const char *const env[] = {setting, NULL};
    struct process *p = process_run(argv, setting ? env : NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_empty(process_err(p));
    cr_expect_not_null(strstr(process_out(p), expected), "%s, not %s", process_out(p), expected);
    process_free(p);
}

/* The file's path, or NULL if there is none. */
static const char *file(void)
{
    static char path[512];
    glob_t found;
    bool any = glob(sandbox_path("cutin/*.profile"), 0, NULL, &found) == 0;

    if (any)
        snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
    globfree(&found);
    return any ? path : NULL;
}

/* The number of launches of a kernel in `cutin profile`; 0 if the kernel is not in it. */
static json_int_t launches(const char *function)
{
    struct process *p = process_run((const char *[]){CUTIN, "profile", "--json", NULL}, NULL, 30);
    json_t *root = json_loads(process_out(p), 0, NULL), *gpu, *kernel;
    json_int_t sum = 0;
    size_t i, k;

    cr_assert_eq(p->status, 0);
    cr_assert_not_null(root, "%s", process_out(p));
    json_array_foreach(json_object_get(root, "gpus"), i, gpu)
    {
        json_array_foreach(json_object_get(gpu, "kernels"), k, kernel)
        {
            if (strcmp(json_string_value(json_object_get(kernel, "function")), function) != 0)
                continue;
            sum += json_integer_value(json_object_get(kernel, "launches"));
            cr_expect_gt(json_real_value(json_object_get(kernel, "mean_us")), 0);
            cr_expect_gt(json_real_value(json_object_get(kernel, "p99_us")), 0);
        }
    }
    json_decref(root);
    process_free(p);
    return sum;
}

Test(profile, launches_accumulate_over_runs)
{
    char expected[32];
    json_int_t once;

    undisturbed_checksum(80, expected);
    cr_assert_eq(launches("mix_spin"), 0);
    train(NULL, expected);
    once = launches("mix_spin");
    cr_assert_gt(once, 0);
    train(NULL, expected);
    cr_assert_gt(launches("mix_spin"), once);
}

/* On a machine without time a launch takes long and its kernel is not timed. A kernel without a
 * time is left out of the profile; launches of others count. */
Test(profile, slow_launches_are_counted)
{
    char expected[32];
    json_int_t once;

    undisturbed_checksum(80, expected);
    train("SIMGPU_LAUNCH_NS=200000", expected);
    once = launches("mix_spin"); /* checks its times, if it is listed */
    train(NULL, expected);
    cr_assert_gt(launches("mix_spin"), once);
    once = launches("mix_spin");
    train("SIMGPU_LAUNCH_NS=200000", expected);
    cr_assert_gt(launches("mix_spin"), once);
}

Test(profile, off_writes_no_file)
{
    char expected[32];

    undisturbed_checksum(80, expected);
    train("CUTIN_PROFILE=off", expected);
    cr_assert_null(file());
}

Test(profile, damaged_file_or_unwritable_folder_changes_no_result)
{
    char expected[32];
    FILE *f;

    undisturbed_checksum(80, expected);
    train(NULL, expected);
    cr_assert_not_null(file());
    f = fopen(file(), "w");
    cr_assert_not_null(f);
    for (int i = 0; i < 1000; i++)
        fputs("no profile ", f);
    fclose(f);
    train(NULL, expected);
    cr_assert_gt(launches("mix_spin"), 0);
    train("XDG_CACHE_HOME=/proc/self/nowhere", expected);
}
