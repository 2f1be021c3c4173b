/*
 * procaddr.c - cuGetProcAddress against the API table: every name, at every version, with either
 * stream flag, in both ABIs.
 */
/* No macro may rename one version to another: the names are read as they are written. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *symbol, *name;
    int version, per_thread;
};

static const struct row rows[] = {
#define ROW(symbol, function, name, version, per_thread) {#symbol, #name, version, per_thread},
#define API_PASS(symbol, function, name, version, per_thread, ...)                                 \
    ROW(symbol, function, name, version, per_thread)
#define API_DRAIN(symbol, function, name, version, per_thread, ...)                                \
    ROW(symbol, function, name, version, per_thread)
#define API_WRAP(symbol, function, name, version, per_thread, ...)                                 \
    ROW(symbol, function, name, version, per_thread)
#include "shim/lookup/api.def"
};
enum { ROWS = sizeof(rows) / sizeof(*rows) };

typedef CUresult (*get_v1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_v2)(const char *, void **, int, cuuint64_t,
                           CUdriverProcAddressQueryResult *);

static void *driver;
static get_v1 old_get;
static get_v2 get;

static void driver_load(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    cr_assert_not_null(driver, "%s", dlerror());
    old_get = (get_v1)dlsym(driver, "cuGetProcAddress");
    get = (get_v2)dlsym(driver, "cuGetProcAddress_v2");
    cr_assert(old_get && get);
}

TestSuite(procaddr, .init = driver_load);

/* The newest symbol of the name that exists in `version`; NULL if there is none. */
static const char *expected(const char *name, int version, int per_thread)
{
    const struct row *best = NULL, *plain = NULL;
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0 || rows[i].version > version)
            continue;
        const struct row **slot = rows[i].per_thread ? &best : &plain;
        if (!*slot || rows[i].version > (*slot)->version)
            *slot = &rows[i];
    }
    if (per_thread && best)
        return best->symbol;
    return plain ? plain->symbol : NULL;
}

Test(procaddr, every_symbol_is_exported)
{
    for (int i = 0; i < ROWS; i++)
        cr_assert_not_null(dlsym(driver, rows[i].symbol), "%s", rows[i].symbol);
}

static bool in_table(const char *symbol)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].symbol, symbol) == 0)
            return true;
    return false;
}

Test(procaddr, every_real_driver_symbol_is_in_table_and_exported)
{
    FILE *names = fopen(SOURCE_DIR "/tests/simgpu/libcuda.names", "r");
    char line[128];
    int n = 0;
    cr_assert_not_null(names);
    while (fgets(line, sizeof(line), names)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line == '#')
            continue;
        cr_expect(in_table(line), "%s has no row in api.def", line);
        cr_expect_not_null(dlsym(driver, line), "the simulator lacks %s", line);
        n++;
    }
    fclose(names);
    cr_expect_geq(n, 636);
}

Test(procaddr, profiler_succeeds_and_gl_interop_is_unsupported)
{
    CUresult (*start)(void) = (CUresult (*)(void))dlsym(driver, "cuProfilerStart");
    CUresult (*map)(CUdeviceptr *, size_t *, unsigned, CUstream) = (CUresult (*)(
        CUdeviceptr *, size_t *, unsigned, CUstream))dlsym(driver, "cuGLMapBufferObjectAsync_v2");
    CUresult (*init)(unsigned) = (CUresult (*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult (*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain");
    CUresult (*use)(CUcontext) = (CUresult (*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
    CUdeviceptr at;
    size_t size;
    CUcontext ctx;

    cr_assert_eq(init(0), CUDA_SUCCESS);
    cr_expect_eq(start(), CUDA_ERROR_INVALID_CONTEXT);
    cr_assert_eq(retain(&ctx, 0), CUDA_SUCCESS);
    cr_assert_eq(use(ctx), CUDA_SUCCESS);
    cr_expect_eq(start(), CUDA_SUCCESS);
    cr_expect_eq(((CUresult (*)(void))dlsym(driver, "cuProfilerStop"))(), CUDA_SUCCESS);
    cr_expect_eq(map(&at, &size, 1, NULL), CUDA_ERROR_NOT_SUPPORTED);
}

Test(procaddr, every_name_version_and_flag_resolves_by_the_table)
{
    static const int versions[] = {11040, 11080, 12000, 12040, 12080, 13000,
                                   13010, 13020, 13030, 13040, 13050};
    setenv("SIMGPU_DRIVER_VERSION", "13050", 1);
    for (int i = 0; i < ROWS; i++)
        for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++)
            for (int per_thread = 0; per_thread < 2; per_thread++) {
                CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
                void *address = NULL;
                const char *want = expected(rows[i].name, versions[v], per_thread);
                cr_assert_eq(get(rows[i].name, &address, versions[v],
                                 per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                            : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                 &status),
                             CUDA_SUCCESS);
                cr_assert_eq(address, want ? dlsym(driver, want) : NULL, "%s at %d, %d",
                             rows[i].name, versions[v], per_thread);
                cr_assert_eq(status, want ? CU_GET_PROC_ADDRESS_SUCCESS
                                     : rows[i].version > 13050
                                         ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                         : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
            }
}

Test(procaddr, version_selects_the_matching_abi)
{
    void *old_one = NULL, *new_one = NULL;
    cr_assert_eq(get("cuCtxSynchronize", &old_one, 12000, 0, NULL), CUDA_SUCCESS);
    cr_assert_eq(get("cuCtxSynchronize", &new_one, 13000, 0, NULL), CUDA_SUCCESS);
    cr_assert_eq(old_one, dlsym(driver, "cuCtxSynchronize"));
    cr_assert_eq(new_one, dlsym(driver, "cuCtxSynchronize_v2"));
}

Test(procaddr, unknown_name_is_not_found)
{
    CUdriverProcAddressQueryResult status;
    void *address = &status;
    cr_assert_eq(get("cudnnCreate", &address, 13000, 0, &status), CUDA_SUCCESS);
    cr_assert_null(address);
    cr_assert_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    cr_assert_eq(old_get("cudnnCreate", &address, 11040, 0), CUDA_ERROR_NOT_FOUND);
    cr_assert_eq(old_get("cuInit", &address, 11040, 0), CUDA_SUCCESS);
    cr_assert_eq(address, dlsym(driver, "cuInit"));
}

Test(procaddr, invalid_arguments_are_refused)
{
    void *address;
    cr_assert_eq(get(NULL, &address, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(get("cuInit", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(get("cuInit", &address, 12000, 77, NULL), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(get("cuInit", &address, 99000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(procaddr, older_driver_lacks_newer_functions)
{
    setenv("SIMGPU_DRIVER_VERSION", "12000", 1);
    CUdriverProcAddressQueryResult status;
    void *address;
    cr_assert_eq(get("cuFuncGetParamInfo", &address, 12000, 0, &status), CUDA_SUCCESS);
    cr_assert_null(address);
    cr_assert_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}
