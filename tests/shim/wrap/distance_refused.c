/*
 * distance_refused.c - a GPU at a distance, where the driver does not take what that needs: one
 * message, and the program's calls go as they would. The driver is watched.
 */
#include "tests/shim/wrap/rig.h"
#include "tests/shim/wrap/watch.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int captured, before;

static void setup(void)
{
    captured = memfd_create("stderr", MFD_CLOEXEC);
    before = dup(STDERR_FILENO);
    rig_open();
    cr_assert_geq(dup2(captured, STDERR_FILENO), 0);
}

TestSuite(distance_refused, .init = setup, .fini = rig_close);

static void said_once(const char *what)
{
    static char text[4096];
    ssize_t n = pread(captured, text, sizeof(text) - 1, 0);
    dup2(before, STDERR_FILENO);
    text[n > 0 ? n : 0] = '\0';
    /* What is said goes to the standard error of the start, which is this file's only where the
     * library was loaded behind it. */
    const char *first = strstr(text, what);
    if (first)
        cr_expect_not(strstr(first + 1, what), "%s", text);
}

static void spin_often(CUstream s)
{
    for (int i = 0; i < 3; i++) {
        uint64_t ns = 0;
        void *params[] = {&ns};
        ok(cuLaunchKernel(rig_spin, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
    }
    ok(cuStreamSynchronize(s));
}

static int no_library(const intptr_t *argument)
{
    (void)argument;
    return CUDA_ERROR_NOT_SUPPORTED;
}

Test(distance_refused, a_driver_without_libraries_is_said_once)
{
    CUstream s = rig_stream();
    watch_before(WATCH_cuLibraryLoadData, no_library);
    unsigned launches = watch_count(WATCH_cuLaunchKernel);
    spin_often(s);
    cr_expect_eq(watch_count(WATCH_cuLaunchKernel) - launches, 3);
    said_once("CUTIN_DISTANCE_US");
}

/* Found at the launch, in a driver that translates late. */
static int no_kernel(const intptr_t *argument)
{
    return (CUfunction)argument[0] == rig_spin ? 0 : CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

Test(distance_refused, a_driver_that_translates_no_such_kernel_is_said_once)
{
    CUstream s = rig_stream();
    watch_before(WATCH_cuLaunchKernel, no_kernel);
    unsigned launches = watch_count(WATCH_cuLaunchKernel);
    spin_often(s);
    cr_expect_eq(watch_count(WATCH_cuLaunchKernel) - launches, 4);
    said_once("CUTIN_DISTANCE_US");
}
