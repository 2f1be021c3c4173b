/*
 * unsupported.c - every function of NVML exists. Those that nvml.c does not define answer
 * NVML_ERROR_NOT_SUPPORTED. Programs look names up one by one, and some call even what they have
 * not found.
 */
enum { NOT_SUPPORTED = 3 };

#define NVML(name)                                                                                 \
    int name(void);                                                                                \
    __attribute__((weak, visibility("default"))) int name(void)                                    \
    {                                                                                              \
        return NOT_SUPPORTED;                                                                      \
    }
#include "tools/simgpu/nvml/names.def"
