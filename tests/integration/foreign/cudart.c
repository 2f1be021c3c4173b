/*
 * cudart.c - the CUDA runtime, shared and static, unmodified, on the simulated driver: bare and
 * under cutin. CUTIN_CUDART names the folders of runtimes, with a colon between them. Otherwise
 * those are taken that tools/test got from PyPI, and those of a toolkit.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cudart, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_cudart"
#define SOURCE  SOURCE_DIR "/tests/integration/foreign/program_cudart.c"
#define PTX     SOURCE_DIR "/examples/kernels.ptx"

static void add(glob_t *found, const char *folder, const char *name)
{
    char pattern[512];
    snprintf(pattern, sizeof(pattern), "%s/%s", folder, name);
    glob(pattern, found->gl_pathc ? GLOB_APPEND : 0, NULL, found);
}

/* All files of this name in the folders. */
static glob_t runtimes(const char *name)
{
    static const char standard[] =
        SOURCE_DIR "/build/cudart/*/nvidia/*/lib:" CUDA_INCLUDE "/../lib64:" CUDA_INCLUDE "/../lib";
    const char *folders = getenv("CUTIN_CUDART");
    char *list = strdup(folders ? folders : standard);
    glob_t found = {.gl_pathc = 0};
    for (char *rest = list, *folder; (folder = strtok_r(rest, ":", &rest));)
        add(&found, folder, name);
    free(list);
    if (found.gl_pathc == 0)
        cr_skip_test("no CUDA runtime here: tools/test fetches them from PyPI into build/cudart");
    return found;
}

#ifdef SIMGPU_RUNTIME
static void runs(const char *program, const char *library, const char *const env[])
{
    struct process *p = process_run((const char *[]){program, library, PTX, NULL}, env, 30);
    cr_expect_eq(p->status, 0, "%s %s: status %d, %s%s", program, library, p->status,
                 process_out(p), process_err(p));
    cr_expect_str_empty(process_err(p));
    cr_expect_not_null(strstr(process_out(p), "1 device: ok"));
    process_free(p);
}

static const char *const bare[] = {SIMULATOR, NULL};
static const char *const preloaded[] = {SIMULATOR, PRELOAD, "CUTIN_SOCKET=", NULL};

Test(cudart, shared_runtime_works_bare_and_preloaded)
{
    glob_t found = runtimes("libcudart.so.*");
    for (size_t i = 0; i < found.gl_pathc; i++) {
        runs(PROGRAM, found.gl_pathv[i], bare);
        runs(PROGRAM, found.gl_pathv[i], preloaded);
    }
    globfree(&found);
}

Test(cudart, static_runtime_works_bare_and_preloaded)
{
    glob_t found = runtimes("libcudart_static.a");
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *program = sandbox_path("program");
        struct process *p =
            process_run((const char *[]){"cc", "-w", "-DCUDART_STATIC", "-o", program, SOURCE,
                                         found.gl_pathv[i], "-ldl", "-lrt", "-lpthread", NULL},
                        NULL, 60);
        cr_assert_eq(p->status, 0, "%s: %s", found.gl_pathv[i], process_err(p));
        process_free(p);
        runs(program, found.gl_pathv[i], bare);
        runs(program, found.gl_pathv[i], preloaded);
    }
    globfree(&found);
}
#else
/* The simulator is built without tables for the runtime. */
Test(cudart, missing_support_names_build_option)
{
    glob_t found = runtimes("libcudart.so.*");
    struct process *p = process_run((const char *[]){CUTIN, "run", "--sim", "--no-daemon", PROGRAM,
                                                     found.gl_pathv[0], PTX, NULL},
                                    NULL, 30);
    cr_expect_eq(p->status, 3, "status %d", p->status);
    cr_expect_not_null(strstr(process_err(p), "-DSIMGPU_RUNTIME=ON"), "%s", process_err(p));
    process_free(p);
    globfree(&found);
}
#endif
