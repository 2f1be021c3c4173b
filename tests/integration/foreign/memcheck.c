/*
 * memcheck.c - a best-effort program under valgrind, with the library preloaded: it accesses no
 * memory that is not its own, and has the same result as without both. Leaks are left to
 * LeakSanitizer: valgrind would walk the whole memory of the simulated GPU.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/process.h"

#define STEPS "--steps", "4"

TestSuite(memcheck, .init = sandbox_enter, .fini = sandbox_leave);

static void checksum(struct process *p, char *word, size_t size)
{
    cr_assert_eq(p->status, 0, "status %d\n%s", p->status, process_err(p));
    cr_assert(word_after(process_out(p), "checksum", word, size), "%s", process_out(p));
    process_free(p);
}

Test(memcheck, training_has_no_error_and_the_same_result)
{
    static const char *const bare[] = {"LD_LIBRARY_PATH=" LIB_DIR "/simgpu", NULL};
    static const char *const preloaded[] = {"LD_LIBRARY_PATH=" LIB_DIR "/simgpu",
                                            "LD_PRELOAD=" LIB_DIR "/libcutin.so",
                                            "CUTIN_PRIORITY=be", NULL};
    char expected[64], got[64];

    if (system("command -v valgrind >/dev/null") != 0)
        cr_skip_test("valgrind is not installed");
    checksum(process_run((const char *[]){BIN_DIR "/examples/be_training", STEPS, NULL}, bare, 60),
             expected, sizeof(expected));
    checksum(process_run((const char *[]){"valgrind", "-q", "--error-exitcode=99",
                                          "--fair-sched=yes", "--leak-check=no",
                                          BIN_DIR "/examples/be_training", STEPS, NULL},
                         preloaded, 100),
             got, sizeof(got));
    cr_assert_str_eq(got, expected);
}
