/*
 * program_lookup.c - a CUDA program that finds the driver itself, as most do: dlopen, dlsym, and
 * cuGetProcAddress. Prints what it found. Exit status 3: there is no driver.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef CUresult (*lookup_fn)(const char *, void **, int, cuuint64_t,
                              CUdriverProcAddressQueryResult *);

int main(void)
{
    static const char *const names[] = {"cuInit", "cuLaunchKernel", "cuStreamCreate",
                                        "cuEventRecord", "cuMemcpyAsync"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUdriverProcAddressQueryResult status;
    CUresult (*init)(unsigned int);
    lookup_fn lookup;
    void *address;

    if (!driver) {
        printf("no driver\n");
        return 3;
    }
    lookup = (lookup_fn)dlsym(driver, "cuGetProcAddress_v2");
    if (!lookup) {
        printf("a driver without cuGetProcAddress_v2\n");
        return 3;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CUresult rc = lookup(names[i], &address, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status);
        printf("%s: %d %s\n", names[i], (int)rc, rc == CUDA_SUCCESS && address ? "found" : "-");
    }
    init = (CUresult (*)(unsigned int))dlsym(driver, "cuInit");
    printf("cuInit says %d\n", (int)init(0));
    return EXIT_SUCCESS;
}
