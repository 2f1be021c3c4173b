/*
 * library_early.c - a preload whose constructor looks up the driver before cutin's has run.
 */
#include "tests/shim/lookup/lookup_say.h"

__attribute__((constructor)) static void early(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);

    lookup_say("early", "cuLaunchKernel", handle ? dlsym(handle, "cuLaunchKernel") : NULL);
    lookup_say("early", "cuDriverGetVersion", handle ? dlsym(handle, "cuDriverGetVersion") : NULL);
}
