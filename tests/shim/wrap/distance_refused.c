/*
 * distance_refused.c - a GPU at a distance, where the driver refuses what that needs: there is one
 * message, and the program's calls go as they would without it. The driver is watched.
 */
#include "tests/shim/wrap/rig.h"
#include "tests/shim/wrap/watch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The library writes to the standard error that it was loaded with, so that has to be a file. */
static int captured;
static off_t before;

static void setup(void)
{
    struct stat is;
    rig_open();
    cr_assert_eq(fstat(STDERR_FILENO, &is), 0);
    cr_assert(S_ISREG(is.st_mode), "standard error has to be a file: run it with ctest");
    captured = open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(captured, 0);
    before = lseek(captured, 0, SEEK_END);
}

TestSuite(distance_refused, .init = setup, .fini = rig_close);

static void said_once(const char *what)
{
    static char text[4096];
    ssize_t n = pread(captured, text, sizeof(text) - 1, before);
    text[n > 0 ? n : 0] = '\0';
    const char *first = strstr(text, what);
    cr_assert(first, "%s", text);
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

Test(distance_refused, missing_library_support_is_reported_once)
{
    CUstream s = rig_stream();
    watch_before(WATCH_cuLibraryLoadData, no_library);
    unsigned launches = watch_count(WATCH_cuLaunchKernel);
    spin_often(s);
    cr_expect_eq(watch_count(WATCH_cuLaunchKernel) - launches, 3);
    said_once("CUTIN_DISTANCE_US");
}

/* A driver that translates late finds the fault only at the launch. */
static int no_kernel(const intptr_t *argument)
{
    return (CUfunction)argument[0] == rig_spin ? 0 : CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

Test(distance_refused, unsupported_ptx_is_reported_once)
{
    CUstream s = rig_stream();
    watch_before(WATCH_cuLaunchKernel, no_kernel);
    unsigned launches = watch_count(WATCH_cuLaunchKernel);
    spin_often(s);
    cr_expect_eq(watch_count(WATCH_cuLaunchKernel) - launches, 4);
    said_once("CUTIN_DISTANCE_US");
}
