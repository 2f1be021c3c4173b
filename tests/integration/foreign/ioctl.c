/*
 * ioctl.c - the library has an `ioctl` in front of libc's, for the driver's calls
 * (shim/suspend/groups.h). Other programs and the kernel notice nothing of it.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(ioctl, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_ioctl"
static const char *const bare[] = {"LD_PRELOAD", NULL};
static const char *const off[] = {PRELOAD, NULL};
static const char *const on[] = {PRELOAD, "CUTIN_SUSPEND=on", NULL};

static void expect_alike(const char *const env[])
{
    const char *const argv[] = {PROGRAM, NULL};
    struct process *expected = process_run(argv, bare, 20), *p = process_run(argv, env, 20);

    cr_expect_eq(p->status, 0);
    cr_expect_not_null(strstr(process_out(expected), "5 bytes, Directory not empty"));
    cr_expect_str_eq(process_out(p), process_out(expected));
    cr_expect_str_eq(process_err(p), "");
    process_free(p);
    process_free(expected);
}

Test(ioctl, calls_return_the_same_by_default)
{
    expect_alike(off);
}

Test(ioctl, calls_return_the_same_with_suspend_on)
{
    expect_alike(on);
}

/* The system calls between the first and last line that the program prints. */
static char *trace(const char *const env[])
{
    const char *file = sandbox_path("trace");
    const char *const argv[] = {"strace", "-f",          "-o",    file,
                                "-E",     env[0],        "-E",    env[1] ? env[1] : "X=",
                                "-e",     "signal=none", PROGRAM, NULL};
    struct process *p = process_run(argv, NULL, 60);
    char *text = NULL, *begin, *end;

    if (p->status == 0) {
        text = file_text(file);
        begin = strstr(text, "\"begin");
        end = begin ? strstr(begin, "exit_group") : NULL;
        cr_assert(begin && end, "%s", text);
        memmove(text, begin, (size_t)(end - begin));
        text[end - begin] = '\0';
    }
    process_free(p);
    return text;
}

/* Replaces numbers, such as process ids and addresses, since they differ between runs. */
static void blur(char *text)
{
    char *to = text;

    for (char *from = text; *from;) {
        if (strncmp(from, "0x", 2) == 0) {
            from += 2;
            from += strspn(from, "0123456789abcdef");
            *to++ = '@';
        } else if (*from >= '0' && *from <= '9') {
            from += strspn(from, "0123456789");
            *to++ = '#';
        } else
            *to++ = *from++;
    }
    *to = '\0';
}

Test(ioctl, program_without_gpu_makes_no_extra_system_call)
{
    char *expected = trace((const char *[]){"LD_PRELOAD=", NULL}), *seen;

    if (!expected)
        cr_skip_test("there is no strace, or it may not trace here");
    seen = trace((const char *[]){"LD_PRELOAD=" LIBRARY, "CUTIN_SUSPEND=on", NULL});
    cr_assert_not_null(seen);
    blur(expected);
    blur(seen);
    cr_expect_not_null(strstr(seen, "FIONREAD"), "%s", seen);
    cr_expect_str_eq(seen, expected);
    free(seen);
    free(expected);
}
