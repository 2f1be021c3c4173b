/*
 * driver.h - the CUDA driver as the command's own worker processes use it.
 *
 * Opened at run time: most subcommands need no driver, and what is preloaded in front of it is met
 * the way applications meet it (dlopen, then dlsym).
 */
#ifndef CUTIN_TOOLS_CUTIN_DRIVER_H
#define CUTIN_TOOLS_CUTIN_DRIVER_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* cuda.h's macros turn the names into the versions that its prototypes are. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuGetErrorString)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocHost)                                                                              \
    X(cuMemFree)                                                                                   \
    X(cuMemFreeHost)                                                                               \
    X(cuMemcpyDtoDAsync)                                                                           \
    X(cuMemsetD8Async)                                                                             \
    X(cuFuncSetAttribute)                                                                          \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                 \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuStreamCreate)                                                                              \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuCtxGetStreamPriorityRange)                                                                 \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamDestroy)                                                                             \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventSynchronize)                                                                          \
    X(cuEventDestroy)                                                                              \
    X(cuGraphCreate)                                                                               \
    X(cuGraphAddKernelNode)                                                                        \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphLaunch)                                                                               \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphDestroy)                                                                              \
    X(cuLaunchKernel)

struct driver {
#define DRIVER_MEMBER(name) __typeof__(&name) name;
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

struct device {
    CUdevice id;
    CUcontext context; /* the primary one */
    char name[96];
    int driver_version;
    int processors, threads_per_processor, blocks_per_processor;
};

/* The driver and its first device, whose primary context is the thread's now. Returns 0, -ENOENT or
 * -EIO with one line in `why`. The driver stays open for the life of the process. */
int driver_open(struct driver *driver, struct device *device, char *why, size_t why_bytes);
/* 0, or -EIO with "CALL: the driver's text (number)" in `why`. */
int driver_check(const struct driver *driver, CUresult result, const char *call, char *why,
                 size_t why_bytes);
/* Inside functions that return 0 or -errno and hold nothing; `why` is an array, `call` the name
 * without its version. */
#define DRIVER_TRY(driver, why, call, name, ...)                                                   \
    do {                                                                                           \
        int try_rc = driver_check(driver, (driver)->name(__VA_ARGS__), call, why, sizeof(why));    \
        if (try_rc != 0)                                                                           \
            return try_rc;                                                                         \
    } while (0)

#endif
