/*
 * program_linked.c - linked with the driver. Asks a preloaded sibling, if there is one, what it
 * calls.
 */
#include "tests/shim/lookup/lookup_say.h"

long cuStreamSynchronize(void);

int main(void)
{
    void (*sibling_call)(const char *) = NULL;

    lookup_say("linked", "cuStreamSynchronize", (void *)cuStreamSynchronize);
    lookup_say("default", "cuEventRecord", dlsym(RTLD_DEFAULT, "cuEventRecord"));
    lookup_say("next", "cuEventRecord", dlsym(RTLD_NEXT, "cuEventRecord"));
    lookup_say("default", "cuDriverGetVersion", dlsym(RTLD_DEFAULT, "cuDriverGetVersion"));
    *(void **)&sibling_call = dlsym(RTLD_DEFAULT, "sibling_call");
    if (sibling_call)
        sibling_call("");
    return 0;
}
