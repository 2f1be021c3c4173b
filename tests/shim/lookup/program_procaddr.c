/*
 * program_procaddr.c - asks cuGetProcAddress (argument "4": the 4-argument one) for every name of
 * api.def in several versions and stream modes, as the CUDA runtime does. One line each: name,
 * version, flags, result, status, library and symbol of the answer. Under the probe the shim has
 * called every function before.
 */
#include <stdint.h>
#include <stdlib.h>

#include "tests/shim/lookup/lookup_say.h"

extern __attribute__((weak)) void cutin_test_use_all(void);

static int (*get4)(const char *, void **, int, uint64_t);
static int (*get5)(const char *, void **, int, uint64_t, int *);

static void one(const char *name, int version, uint64_t flags)
{
    int status = -1, result;
    void *function = NULL;
    Dl_info info;

    result = get4 ? get4(name, &function, version, flags)
                  : get5(name, &function, version, flags, &status);
    printf("%s %d %d: %d %d ", name, version, (int)flags, result, status);
    if (!function)
        printf("null -\n");
    else if (!dladdr(function, &info))
        printf("nobody -\n");
    else
        printf("%s %s\n", lookup_owner(function),
               info.dli_saddr == function && info.dli_sname ? info.dli_sname : "-");
}

static void each(const char *name)
{
    static const int versions[] = {11040, 11080, 12000, 12040, 12080, 13000, 13050, 13060};

    for (unsigned v = 0; v < sizeof(versions) / sizeof(*versions); v++)
        for (uint64_t flags = 0; flags <= 2; flags++)
            one(name, versions[v], flags);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
#define API_PASS(symbol, function, name, ...) #name,
#define API_DRAIN                             API_PASS
#define API_WRAP                              API_PASS
#include "shim/lookup/api.def"
        "cuNoSuchFunction", ""};
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);

    if (!handle)
        return 1;
    if (argc > 1 && strcmp(argv[1], "4") == 0)
        *(void **)&get4 = dlsym(handle, "cuGetProcAddress");
    else
        *(void **)&get5 = dlsym(handle, "cuGetProcAddress_v2");
    if (!get4 && !get5)
        return 2;
    if (cutin_test_use_all)
        cutin_test_use_all();
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            each(names[i]);
    return 0;
}
