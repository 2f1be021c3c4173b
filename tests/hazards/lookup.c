/*
 * lookup.c - asks cuGetProcAddress for every name, before and after the library in between has used
 * the driver for its own ends. Every runtime in a process asks anew, the second one after the first
 * has worked.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <string.h>

typedef CUresult get4_fn(const char *, void **, int, cuuint64_t);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static get4_fn *get4;
static get5_fn *get5;

static const int versions[] = {2000, 11040, 11080, 12000, 12040, 12080, 13000};
enum { VERSIONS = sizeof(versions) / sizeof(*versions), FLAGS = 3 };

/* '!' means success without an address. */
static char answer4(const char *name, int version, cuuint64_t flags)
{
    void *function = NULL;
    if (get4(name, &function, version, flags) != CUDA_SUCCESS)
        return '-';
    return function ? '4' : '!';
}

/* A digit is the status where there is no address. */
static char answer5(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    void *function = NULL;
    if (get5(name, &function, version, flags, &status) != CUDA_SUCCESS)
        return '-';
    if (!function)
        return (char)('0' + (int)status);
    return status == CU_GET_PROC_ADDRESS_SUCCESS ? 'y' : '?';
}

static void ask(const char *name)
{
    char answers[VERSIONS * FLAGS * 2 + 1] = "", *out = answers;
    for (int v = 0; v < VERSIONS; v++)
        for (cuuint64_t flags = 0; flags < FLAGS; flags++) {
            *out++ = answer4(name, versions[v], flags);
            *out++ = answer5(name, versions[v], flags);
        }
    printf("%s %s\n", name, answers);
}

static void ask_all(void)
{
    static const char *const names[] = {
#define API_PASS(symbol, function, name, ...) #name,
#define API_DRAIN                             API_PASS
#define API_WRAP                              API_PASS
#include "shim/lookup/api.def"
        "cuNoSuchFunction"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&get4 = dlsym(driver, "cuGetProcAddress");
    *(void **)&get5 = dlsym(driver, "cuGetProcAddress_v2");
    if (!get4 || !get5)
        give_up("cuGetProcAddress");
    for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            ask(names[i]);
}

HAZARD_RAW(every_name_is_found_before_the_gpu_is_used)
{
    ask_all();
}

HAZARD(every_name_is_found_after_work_was_held)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    MUST(launch_mix(x, 5, 7, s));
    buffered(s);
    release(s);
    MUST(cuStreamSynchronize(s));
    show("x", x);
    ask_all();
}

/* The library exports these names for programs that are linked with CUPTI. */
HAZARD_RAW(cupti_is_found_only_where_it_is_loaded)
{
    static const char *const names[] = {"cuptiActivityEnable",
                                        "cuptiActivityEnableAndDump",
                                        "cuptiActivityEnableContext",
                                        "cuptiActivityEnable_v2",
                                        "cuptiActivityEnableAndDump_v2",
                                        "cuptiActivityDisable",
                                        "cuptiActivityDisableContext",
                                        "cuptiActivityDisable_v2",
                                        "cuptiUnsubscribe",
                                        "cuptiFinalize"};
    void *program = dlopen(NULL, RTLD_NOW);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        printf("%s: %d", names[i], !!dlsym(RTLD_DEFAULT, names[i]));
        printf(" %d", !!dlsym(RTLD_NEXT, names[i]));
        printf(" %d", !!dlsym(program, names[i]));
        printf(" %d\n", !!dlvsym(RTLD_DEFAULT, names[i], "libcupti.so.13"));
    }
}
