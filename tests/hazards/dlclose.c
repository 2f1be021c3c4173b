/*
 * dlclose.c - programs that open the driver, or libraries that use it, and close them again.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <string.h>

typedef int work_fn(int destructor);

static void *library_open(work_fn **work)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        give_up(dlerror());
    *(void **)work = dlsym(library, "library_work");
    return library;
}

HAZARD_RAW(library_that_uses_cuda_is_closed_and_opened_again)
{
    for (int i = 0; i < 5; i++) {
        work_fn *work;
        void *library = library_open(&work);
        printf("work %d\n", work(0));
        printf("closed %d\n", dlclose(library));
    }
    gpu_open();
    CUdeviceptr x = buffer_new(3);
    SAY(launch_mix(x, 5, 7, NULL));
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD_RAW(destructor_of_a_closed_library_calls_cuda)
{
    work_fn *work;
    void *library = library_open(&work);
    printf("work %d\n", work(1));
    printf("closed %d\n", dlclose(library));
}

HAZARD_RAW(destructor_of_a_library_that_stays_calls_cuda)
{
    work_fn *work;
    library_open(&work);
    printf("work %d\n", work(1));
    printf("it ends\n");
}

HAZARD_RAW(driver_is_opened_and_closed_by_name)
{
    for (int i = 0; i < 5; i++) {
        CUresult (*version)(int *);
        int v = 0;
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!driver)
            give_up(dlerror());
        *(void **)&version = dlsym(driver, "cuDriverGetVersion");
        SAY(version(&v));
        printf("version %d closed %d\n", v, dlclose(driver));
    }
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **);
    *(void **)&launch = dlsym(driver, "cuLaunchKernel");
    printf("closed %d\n", dlclose(driver));
    uint32_t a = 11, b = 2, n = N;
    void *params[] = {&x, &a, &b, &n};
    SAY(launch(mix, 4, 1, 1, 256, 1, 1, 0, s, params, NULL)); /* from a closed handle, still good */
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}
