/*
 * lookup.c - programs find the driver in two ways, by the CUDA runtime (cuGetProcAddress) and by
 * linking libcuda.so.1. Both lead to cutin.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(lookup, .init = sandbox_enter, .fini = sandbox_leave);

static const char *const debug_env[] = {SIMULATOR, PRELOAD, "CUTIN_LOG=debug",
                                        "CUTIN_SOCKET=", NULL};

static void shows_resolved(struct process *p, const char *const names[])
{
    for (; *names; names++)
        cr_expect_not_null(strstr(process_err(p), *names), "%s is not shown as resolved", *names);
}

Test(lookup, linked_driver_functions_resolve_to_cutin)
{
    struct process *p =
        process_run((const char *[]){EXAMPLE("be_training"), "--steps", "20", NULL}, debug_env, 30);

    cr_expect_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    shows_resolved(p, (const char *[]){"cuLaunchKernel", "cuStreamCreate", "cuEventRecord", NULL});
    process_free(p);
}

Test(lookup, get_proc_address_resolves_to_cutin)
{
    struct process *p =
        process_run((const char *[]){BIN_DIR "/tests/program_lookup", NULL}, debug_env, 30);

    cr_expect_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    shows_resolved(p, (const char *[]){"cuLaunchKernel", "cuStreamCreate", "cuEventRecord", NULL});
    process_free(p);
}

/* The runtime asks for its entries before it first needs the GPU. How far it gets on a simulated
 * driver is not tested here, only that it gets as far as without cutin. */
static void runs_with_the_runtime(const char *kind, const char *libraries)
{
    const char *program = sandbox_path("runtime");
    const char *const compile[] = {
        NVCC, "-cudart", kind,
        "-o", program,   SOURCE_DIR "/tests/integration/foreign/program_runtime.cu",
        NULL};
    const char *const run[] = {program, NULL};
    const char *const env[] = {libraries, PRELOAD, "CUTIN_LOG=debug", "CUTIN_SOCKET=", NULL};
    struct process *p, *bare;

    if (strcmp(NVCC, "") == 0)
        cr_skip_test("no nvcc");
    p = process_run(compile, NULL, 90);
    if (p->status != 0) {
        fprintf(stderr, "%s%s", process_out(p), process_err(p));
        process_free(p);
        cr_skip_test("nvcc does not work here");
    }
    process_free(p);
    bare = process_run(run, (const char *[]){libraries, NULL}, 20);
    p = process_run(run, env, 20);
    cr_expect_lt(p->status, 127, "status %d, %s", p->status, process_err(p));
    cr_expect_eq(p->status, bare->status);
    cr_expect_str_eq(process_out(p), process_out(bare));
    shows_resolved(p, (const char *[]){"cuLaunchKernel", "cuStreamCreate", "cuEventRecord", NULL});
    process_free(bare);
    process_free(p);
}

Test(lookup, static_runtime_resolves_to_cutin)
{
    runs_with_the_runtime("static", SIMULATOR);
}

Test(lookup, shared_runtime_resolves_to_cutin)
{
    runs_with_the_runtime("shared", SIMULATOR ":" CUDART_FOLDER);
}
