/*
 * direct.c - what calls of a real-time process cost: counts of what they do beside the driver call.
 */
#include "tests/shim/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/watch.h"

static CUstream stream;
static CUdeviceptr words;

static void open_direct(void)
{
    rig_open();
    stream = rig_stream();
    words = rig_buffer(3);
    rig_warm(stream);
}

TestSuite(direct, .init = open_direct, .fini = rig_close);

/* Walks of this thread over a whole table. */
static _Thread_local unsigned walks;

__attribute__((visibility("default"))) void cutin_stop(const char *here);
void cutin_stop(const char *here)
{
    walks += strcmp(here, "table_each") == 0;
}

static CUkernel kernel_new(void)
{
    static char text[1 << 20];
    FILE *f = fopen(SOURCE_DIR "/examples/kernels.ptx", "r");
    CUlibrary library;
    CUkernel kernel;
    cr_assert(f && fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&kernel, library, "mix"));
    return kernel;
}

Test(direct, attributes_of_functions_cost_the_drivers_call_alone)
{
    const CUfunction_attribute limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUkernel kernel = kernel_new();
    unsigned asked = watch_count(WATCH_cuCtxGetCurrent), before = walks;
    unsigned set = watch_count(WATCH_cuKernelSetAttribute) + watch_count(WATCH_cuFuncSetAttribute);
    for (int i = 0; i < 10; i++) {
        ok(cuKernelSetAttribute(limit, 1024 * (i + 1), kernel, rig_device));
        ok(cuFuncSetAttribute(rig_mix, limit, 1024 * (i + 1)));
    }
    cr_assert_eq(walks, before);
    cr_assert_lt(watch_count(WATCH_cuCtxGetCurrent) - asked, 10, "the client's thread may ask");
    cr_assert_eq(watch_count(WATCH_cuKernelSetAttribute) + watch_count(WATCH_cuFuncSetAttribute),
                 set + 20);
}
