/*
 * library_trap.c - functions whose names begin with "cu" but that are not the driver's; some have
 * names of driver functions.
 */
#define TRAP(name)                                                                                 \
    __attribute__((visibility("default"))) int name(void);                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }
TRAP(cudnnCreate)
TRAP(cublasCreate_v2)
TRAP(cuFoo)
TRAP(cuLaunchKernelFoo)
TRAP(cuLaunchKerne)
TRAP(cuLaunchKernel)
TRAP(cuDriverGetVersion)
