/*
 * dlsym.c - lookups by dlsym and dlvsym. Each test runs a program bare and with cutin, and
 * compares: where the bare program finds the driver's function of an intercepted name, the other
 * must find ours. All else, messages included, must be the same.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dlsym, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM       BIN_DIR "/tests/program_dlsym"
#define LIBRARY(name) LIB_DIR "/tests/liblookup_" name ".so"
#define ASK(...)                                                                                   \
    (const char *const[])                                                                          \
    {                                                                                              \
        PROGRAM, __VA_ARGS__, NULL                                                                 \
    }
#define NO_DRIVER "LD_LIBRARY_PATH=/nonexistent"

/* PRELOAD_FIRST is "LD_PRELOAD=", and the sanitizer's run time if there is one. */
static char *preload(const char *const libraries[])
{
    static char text[2][4096];
    static int turn;
    char *out = text[turn++ % 2];

    strcpy(out, PRELOAD_FIRST);
    for (; *libraries; libraries++)
        sprintf(out + strlen(out), "%s:", *libraries);
    return out;
}
#define PRELOAD(...) preload((const char *const[]){__VA_ARGS__, NULL})

static struct process *run(const char *const argv[], const char *driver, const char *preloads)
{
    const char *const env[] = {driver, preloads, NULL};
    struct process *p = process_run(argv, env, 30);

    cr_assert_eq(p->status, 0, "status %d: %s%s", p->status, process_out(p), process_err(p));
    return p;
}

/* The expected output: in lines about intercepted names the driver's library becomes ours. */
static char *expected(const char *bare, const char *const intercepted[])
{
    char *out = calloc(1, strlen(bare) * 2 + 1), *copy = strdup(bare), *save = NULL;

    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *driver = strstr(line, ": libcuda.so.1");
        bool swap = false;
        for (const char *const *name = intercepted; driver && *name; name++) {
            size_t length = strlen(*name);
            swap |= driver - line > (long)length && driver[-(long)length - 1] == ' ' &&
                    strncmp(driver - length, *name, length) == 0;
        }
        if (swap)
            sprintf(driver, ": libcutin.so"); /* shorter */
        strcat(strcat(out, line), "\n");
    }
    free(copy);
    return out;
}

static const char *const intercepted[] = {"cuLaunchKernel", "cuStreamCreate",      "cuEventRecord",
                                          "cuMemFree_v2",   "cuStreamSynchronize", NULL};

/* Runs the program twice. `with` lists the preloads of the second run, cutin among them. */
static void same(const char *const argv[], const char *driver, char *bare_preload, char *with)
{
    struct process *bare = run(argv, driver, bare_preload), *p = run(argv, driver, with);
    char *want = expected(process_out(bare), intercepted);

    cr_expect_str_eq(process_out(p), want, "with %s\ngot\n%swant\n%s", with, process_out(p), want);
    cr_expect_str_empty(process_err(p));
    free(want);
    process_free(bare);
    process_free(p);
}

static void same_alone(const char *const argv[], const char *driver)
{
    same(argv, driver, PRELOAD(""), PRELOAD(CUTIN));
}

/* The comparison itself must be able to fail. */
Test(dlsym, expected_output_swaps_only_intercepted_names)
{
    char *want = expected("sym cuLaunchKernel: libcuda.so.1\nsym cuDriverGetVersion: libcuda.so.1\n"
                          "sym cuEventRecord: null, x\n",
                          intercepted);

    cr_expect_str_eq(want, "sym cuLaunchKernel: libcutin.so\nsym cuDriverGetVersion: libcuda.so.1\n"
                           "sym cuEventRecord: null, x\n");
    free(want);
}

Test(dlsym, intercepts_on_driver_handle)
{
    same_alone(ASK("open", "libcuda.so.1", "sym", "cuLaunchKernel", "sym", "cuStreamCreate", "sym",
                   "cuEventRecord", "sym", "cuMemFree_v2", "sym", "cuDriverGetVersion", "sym",
                   "cuGetErrorName", "sym", "cuLaunchKernel", "sym", "cuNoSuchFunction", "sym",
                   "printf"),
               FAKE_DRIVER);
}

Test(dlsym, intercepts_on_driver_opened_by_full_path)
{
    same_alone(ASK("open", FAKE_DIR "/libcuda.so.1", "sym", "cuLaunchKernel", "sym",
                   "cuDriverGetVersion", "sym", "cuEventRecord"),
               NO_DRIVER);
}

Test(dlsym, dlvsym_intercepts_like_dlsym)
{
    same_alone(ASK("open", "libcuda.so.1", "vsym", "cuLaunchKernel", "vsym", "cuDriverGetVersion",
                   "vsym", "cuNoSuchFunction", "open", "libc.so.6", "vsym", "printf"),
               FAKE_DRIVER);
}

Test(dlsym, repeated_lookups_are_all_intercepted)
{
    same_alone(ASK("open", "libcuda.so.1", "sym", "cuLaunchKernel", "sym", "cuLaunchKernel", "sym",
                   "cuLaunchKernel", "open", "libcuda.so.1", "sym", "cuLaunchKernel"),
               FAKE_DRIVER);
}

Test(dlsym, other_library_keeps_its_cu_names)
{
    same_alone(ASK("open", LIBRARY("trap"), "sym", "cudnnCreate", "sym", "cublasCreate_v2", "sym",
                   "cuFoo", "sym", "cuLaunchKernelFoo", "sym", "cuLaunchKerne", "sym",
                   "cuLaunchKernel", "sym", "cuDriverGetVersion", "sym", "cuEventRecord"),
               FAKE_DRIVER);
}

Test(dlsym, global_library_keeps_its_driver_names)
{
    same_alone(ASK("global", LIBRARY("trap"), "default", "cuLaunchKernel", "main", "cuLaunchKernel",
                   "next", "cuLaunchKernel", "default", "cudnnCreate"),
               FAKE_DRIVER);
}

Test(dlsym, intercepts_driver_in_global_order)
{
    same_alone(ASK("global", "libcuda.so.1", "default", "cuLaunchKernel", "main", "cuEventRecord",
                   "next", "cuStreamCreate", "default", "cuDriverGetVersion", "main",
                   "cuDriverGetVersion", "next", "cuDriverGetVersion", "default",
                   "cuNoSuchFunction"),
               FAKE_DRIVER);
}

/* The program must not find driver functions that only we export. */
Test(dlsym, program_without_driver_finds_no_driver_function)
{
    const char *const argv[] = {
        PROGRAM,          "default", "cuLaunchKernel",     "next", "cuLaunchKernel", "main",
        "cuLaunchKernel", "default", "cuDriverGetVersion", NULL};
    struct process *p = run(argv, NO_DRIVER, PRELOAD(CUTIN));

    cr_expect(strstr(process_out(p), "default cuLaunchKernel: null, "), "%s", process_out(p));
    cr_expect(strstr(process_out(p), "next cuLaunchKernel: null, "), "%s", process_out(p));
    cr_expect(strstr(process_out(p), "main cuLaunchKernel: null, "), "%s", process_out(p));
    cr_expect_null(strstr(process_out(p), "no message"), "%s", process_out(p));
    cr_expect_str_empty(process_err(p));
    process_free(p);
}

Test(dlsym, error_messages_without_driver_are_unchanged)
{
    same_alone(ASK("open", "libcuda.so.1", "open", "libc.so.6", "sym", "cuLaunchKernel", "sym",
                   "cuDriverGetVersion", "default", "cuDriverGetVersion", "main",
                   "cuDriverGetVersion"),
               NO_DRIVER);
}

Test(dlsym, intercepts_in_plugin_linked_with_driver)
{
    same_alone(ASK("open", LIBRARY("user"), "call", "user_default", "cuLaunchKernel", "call",
                   "user_default", "cuDriverGetVersion", "call", "user_default", "cuNoSuchFunction",
                   "call", "user_next", "cuLaunchKernel", "call", "user_next", "cuDriverGetVersion",
                   "call", "user_next", "cuNoSuchFunction", "call", "user_linked",
                   "cuStreamSynchronize", "sym", "cuLaunchKernel", "sym", "cuDriverGetVersion"),
               FAKE_DRIVER);
}

Test(dlsym, intercepts_in_constructor_before_ours)
{
    char *bare = PRELOAD(LIBRARY("early")), *with = PRELOAD(CUTIN, LIBRARY("early"));
    struct process *p = run(ASK("page", "0"), FAKE_DRIVER, with);

    cr_expect(strstr(process_out(p), "early cuLaunchKernel: libcutin.so"), "%s", process_out(p));
    process_free(p);
    same(ASK("page", "0"), FAKE_DRIVER, bare, with);
    same(ASK("page", "0"), FAKE_DRIVER, bare, PRELOAD(LIBRARY("early"), CUTIN));
    same(ASK("page", "0"), NO_DRIVER, PRELOAD(LIBRARY("early")), PRELOAD(CUTIN, LIBRARY("early")));
}

/* What a preloaded sibling finds by RTLD_NEXT, in both orders of preloading. */
static void both_orders(const char *const argv[], const char *driver, const char *sibling)
{
    same(argv, driver, PRELOAD(sibling), PRELOAD(CUTIN, sibling));
    same(argv, driver, PRELOAD(sibling), PRELOAD(sibling, CUTIN));
}

Test(dlsym, sibling_finds_next_library_in_both_orders)
{
    static const char *const siblings[] = {LIBRARY("sibling"), LIBRARY("sibling_dlsym")};

    for (int i = 0; i < 2; i++) {
        both_orders(ASK("page", "0", "call", "sibling_next", "getpagesize"), FAKE_DRIVER,
                    siblings[i]);
        both_orders(ASK("call", "sibling_next", "cuDriverGetVersion", "page", "0"), NO_DRIVER,
                    siblings[i]);
    }
}

/* Where another library has a name before us, the program's search order decides. */
Test(dlsym, preloaded_sibling_keeps_its_search_order)
{
    static const char *const siblings[] = {LIBRARY("sibling"), LIBRARY("sibling_dlsym")};

    both_orders(ASK("default", "cuLaunchKernel", "main", "cuLaunchKernel", "next", "cuLaunchKernel",
                    "default", "cuDriverGetVersion", "main", "cuDriverGetVersion"),
                FAKE_DRIVER, siblings[0]);
    both_orders(ASK("main", "cuLaunchKernel", "page", "0", "default", "cuDriverGetVersion"),
                FAKE_DRIVER, siblings[1]);
    for (int i = 0; i < 2; i++)
        both_orders(ASK("global", "libcuda.so.1", "main", "cuLaunchKernel", "main", "cuEventRecord",
                        "main", "cuDriverGetVersion"),
                    FAKE_DRIVER, siblings[i]);
}

/* Our exports are no driver, as for a program. (The message may name us, not the caller.) */
Test(dlsym, sibling_without_driver_finds_no_driver_function)
{
    static const char *const siblings[] = {LIBRARY("sibling"), LIBRARY("sibling_dlsym")};
    const char *const argv[] = {PROGRAM, "call", "sibling_next", "cuLaunchKernel", NULL};

    for (int i = 0; i < 4; i++) {
        const char *sibling = siblings[i / 2];
        struct process *p =
            run(argv, NO_DRIVER, i % 2 ? PRELOAD(CUTIN, sibling) : PRELOAD(sibling, CUTIN));
        cr_expect(strstr(process_out(p), "next from sibling cuLaunchKernel: null, "), "%s",
                  process_out(p));
        cr_expect(strstr(process_out(p), "undefined symbol: cuLaunchKernel\n"), "%s",
                  process_out(p));
        process_free(p);
    }
}

Test(dlsym, intercepts_on_driver_handle_beside_sibling)
{
    static const char *const siblings[] = {LIBRARY("sibling"), LIBRARY("sibling_dlsym")};

    for (int i = 0; i < 2; i++)
        both_orders(ASK("open", "libcuda.so.1", "sym", "cuLaunchKernel", "sym", "cuEventRecord",
                        "sym", "cuDriverGetVersion", "page", "0"),
                    FAKE_DRIVER, siblings[i]);
}

/* The calls go app -> sibling -> cutin -> driver, although the sibling may be behind us. */
Test(dlsym, wrapping_sibling_calls_our_function)
{
    const char *const argv[] = {BIN_DIR "/tests/program_linked", NULL};

    same(argv, FAKE_DRIVER, PRELOAD(LIBRARY("sibling")), PRELOAD(LIBRARY("sibling"), CUTIN));
    struct process *p = run(argv, FAKE_DRIVER, PRELOAD(CUTIN, LIBRARY("sibling")));
    cr_expect(strstr(process_out(p), "next from sibling cuLaunchKernel: libcutin.so"), "%s",
              process_out(p));
    process_free(p);
}
