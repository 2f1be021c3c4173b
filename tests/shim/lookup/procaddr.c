/*
 * procaddr.c - cuGetProcAddress: every name, several versions, every stream mode, both argument
 * counts. The program runs bare and with cutin. Where the driver's answer is an intercepted symbol,
 * ours must be our function of that symbol; all other answers must be the driver's.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(procaddr, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_procaddr"
#define PRELOAD PRELOAD_FIRST CUTIN
#define OURS    "libcutin" /* .so, or _probe.so */

static bool intercepted(const char *symbol)
{
    static const char *const names[] = {
#define API_PASS(symbol, ...)
#define API_DRAIN(symbol, ...) #symbol,
#define API_WRAP(symbol, ...)  #symbol,
#include "shim/lookup/api.def"
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], symbol) == 0)
            return true;
    return false;
}

static struct process *ask(const char *which, const char *driver, const char *preload,
                           const char *fake)
{
    const char *const argv[] = {PROGRAM, which, NULL};
    const char *const env[] = {driver, preload, fake, NULL};
    struct process *p = process_run(argv, env, 60);

    cr_assert_eq(p->status, 0, "status %d: %s", p->status, process_err(p));
    return p;
}

struct line {
    char question[512], library[512], symbol[512]; /* question: with result and status */
};

/* Reads the next line of a program's output; false at its end. */
static bool line_next(const char **text, struct line *l)
{
    char all[512];
    size_t length = strcspn(*text, "\n");

    if (!**text)
        return false;
    cr_assert_lt(length, sizeof(all));
    memcpy(all, *text, length);
    all[length] = '\0';
    *text += length + ((*text)[length] == '\n');
    char *symbol = strrchr(all, ' ');
    *symbol++ = '\0';
    char *library = strrchr(all, ' ');
    *library++ = '\0';
    strcpy(l->question, all);
    strcpy(l->library, library);
    strcpy(l->symbol, symbol);
    return true;
}

static bool is_ours(const struct line *l)
{
    return strncmp(l->library, OURS, sizeof(OURS) - 1) == 0;
}

static bool right(const struct line *bare, const struct line *with)
{
    bool ours = strcmp(bare->library, "libcuda.so.1") == 0 && intercepted(bare->symbol);

    return strcmp(bare->question, with->question) == 0 &&
           (ours ? is_ours(with) : strcmp(with->library, bare->library) == 0) &&
           (!ours || strcmp(with->symbol, bare->symbol) == 0);
}

/* Returns how many answers were ours. */
static int compare(const char *bare, const char *with)
{
    struct line b, w;
    int ours = 0, lines = 0, wrong = 0;

    while (line_next(&bare, &b)) {
        cr_assert(line_next(&with, &w), "cutin's output ends early");
        if (!right(&b, &w) && wrong++ < 10) /* reports a few, counts all */
            cr_expect(false, "%s is %s %s, bare %s is %s %s", w.question, w.library, w.symbol,
                      b.question, b.library, b.symbol);
        ours += is_ours(&w);
        lines++;
    }
    cr_expect_eq(*with, '\0');
    cr_expect_gt(lines, 8000);
    cr_expect_eq(wrong, 0, "%d answers are wrong", wrong);
    return ours;
}

static void matrix(const char *which, const char *driver, const char *preload)
{
    struct process *bare = ask(which, driver, "LD_PRELOAD", NULL);
    struct process *with = ask(which, driver, preload, NULL);

    cr_expect_gt(compare(process_out(bare), process_out(with)), 1000);
    process_free(bare);
    process_free(with);
}

Test(procaddr, answers_every_name_version_and_stream_mode)
{
    matrix("5", FAKE_DRIVER, PRELOAD);
}

Test(procaddr, four_argument_form_answers_every_name)
{
    matrix("4", FAKE_DRIVER, PRELOAD);
}

#ifdef SIM_DRIVER
Test(procaddr, answers_every_name_of_simulator)
{
    matrix("5", SIM_DRIVER, PRELOAD);
    matrix("4", SIM_DRIVER, PRELOAD);
}
#endif

/* First the probe calls every function of the driver. */
Test(procaddr, answers_every_name_after_shim_used_all)
{
    matrix("5", FAKE_DRIVER, PRELOAD_PROBE);
    matrix("4", FAKE_DRIVER, PRELOAD_PROBE);
#ifdef SIM_DRIVER
    matrix("5", SIM_DRIVER, PRELOAD_PROBE);
#endif
}

Test(procaddr, intercepts_functions_driver_does_not_export)
{
    struct process *bare = ask("5", FAKE_DRIVER, "LD_PRELOAD", NULL);
    struct process *with = ask("5", FAKE_DRIVER, PRELOAD, "FAKE_INTERNAL=1");

    cr_expect_gt(compare(process_out(bare), process_out(with)), 1000);
    process_free(bare);
    process_free(with);
}

Test(procaddr, version_selects_form_of_itself)
{
    struct process *p = ask("5", FAKE_DRIVER, PRELOAD, NULL);
    const char *out = process_out(p);

    cr_expect(strstr(out, "cuGetProcAddress 11080 0: 0 0 libcutin.so cuGetProcAddress\n"));
    cr_expect(strstr(out, "cuGetProcAddress 12000 0: 0 0 libcutin.so cuGetProcAddress_v2\n"));
    cr_expect(strstr(out, "cuGetProcAddress 13000 2: 0 0 libcutin.so cuGetProcAddress_v2\n"));
    process_free(p);
}

Test(procaddr, version_selects_form_of_changed_function)
{
    struct process *p = ask("5", FAKE_DRIVER, PRELOAD, NULL);
    const char *out = process_out(p);

    cr_expect(strstr(out, "cuCtxSynchronize 12080 0: 0 0 libcutin.so cuCtxSynchronize\n"));
    cr_expect(strstr(out, "cuCtxSynchronize 13000 0: 0 0 libcutin.so cuCtxSynchronize_v2\n"));
    cr_expect(strstr(out, "cuMemcpyBatchAsync 12080 2: 0 0 libcutin.so cuMemcpyBatchAsync_ptsz\n"));
    cr_expect(strstr(out, "cuMemcpyBatchAsync 13000 0: 0 0 libcutin.so cuMemcpyBatchAsync_v2\n"));
    cr_expect(strstr(out, "cuMemcpyBatchAsync 12040 0: 500 2 null -\n"));
    process_free(p);
}

/* Nine of ten calls of PyTorch are of these. They must cost nothing: cutin must not intercept them,
 * neither at first nor after the shim has used the functions itself. */
Test(procaddr, frequent_pytorch_calls_are_not_intercepted)
{
    static const char *const answers[] = {
        "cuCtxGetDevice 12000 0: 0 0 libcuda.so.1 cuCtxGetDevice\n",
        "cuCtxGetDevice 12080 2: 0 0 libcuda.so.1 cuCtxGetDevice\n",
        "cuCtxGetDevice 13000 0: 0 0 libcuda.so.1 cuCtxGetDevice_v2\n",
        "cuDevicePrimaryCtxGetState 12000 0: 0 0 libcuda.so.1 cuDevicePrimaryCtxGetState\n",
        "cuDevicePrimaryCtxGetState 13000 2: 0 0 libcuda.so.1 cuDevicePrimaryCtxGetState\n",
    };
    static const char *const preloads[] = {PRELOAD, PRELOAD_PROBE};

    for (size_t i = 0; i < sizeof(preloads) / sizeof(*preloads); i++) {
        struct process *p = ask("5", FAKE_DRIVER, preloads[i], NULL);
        for (size_t k = 0; k < sizeof(answers) / sizeof(*answers); k++)
            cr_expect(strstr(process_out(p), answers[k]), "not so: %s", answers[k]);
        process_free(p);
    }
}

/* 13.6 is newer than the table. */
Test(procaddr, newer_form_gets_pool_thunk)
{
    struct process *p = ask("5", FAKE_DRIVER, PRELOAD, "FAKE_NEWER=1");
    const char *out = process_out(p);

    cr_expect(strstr(out, "cuLaunchKernel 13000 0: 0 0 libcutin.so cuLaunchKernel\n"));
    cr_expect(strstr(out, "cuLaunchKernel 13060 0: 0 0 libcutin.so -\n")); /* a thunk of the pool */
    cr_expect(strstr(out, "cuEventRecord 13060 2: 0 0 libcutin.so cuEventRecord_ptsz\n"));
    process_free(p);
}

Test(procaddr, disabled_cutin_gives_driver_answers)
{
    const char *const argv[] = {PROGRAM, "5", NULL};
    const char *const env[] = {FAKE_DRIVER, PRELOAD, "CUTIN_DISABLE=1", NULL};
    struct process *bare = ask("5", FAKE_DRIVER, "LD_PRELOAD", NULL);
    struct process *with = process_run(argv, env, 60);

    cr_expect(strcmp(process_out(with), process_out(bare)) == 0);
    process_free(bare);
    process_free(with);
}

/* The comparison itself must be able to fail. */
Test(procaddr, comparison_rejects_wrong_answers)
{
    const struct line bare = {"q", "libcuda.so.1", "cuLaunchKernel"};
    const struct line pass = {"q", "libcuda.so.1", "cuDriverGetVersion"};
    const struct line ours = {"q", "libcutin.so", "cuLaunchKernel"};
    const struct line other = {"q", "libcutin.so", "cuLaunchKernel_ptsz"};

    cr_expect(right(&bare, &ours));
    cr_expect(right(&pass, &pass));
    cr_expect_not(right(&bare, &bare));
    cr_expect_not(right(&bare, &other));
    cr_expect_not(right(&pass, &ours));
}
