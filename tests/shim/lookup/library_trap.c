/*
 * library_trap.c - functions that begin with "cu" and are not the driver's, and some that even have
 * the names of the driver's.
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
