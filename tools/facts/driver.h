/*
 * driver.h - the CUDA driver, for the processes that measure it.
 *
 * It is opened at run time, because most subcommands need no driver. So these processes meet what
 * is preloaded in front of it as applications do (dlopen, then dlsym).
 */
#ifndef CUTIN_TOOLS_FACTS_DRIVER_H
#define CUTIN_TOOLS_FACTS_DRIVER_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* cuda.h's macros turn these names into the versions that its prototypes have. */
#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceTotalMem)                                                                            \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxGetStreamPriorityRange)                                                                 \
    X(cuCtxSynchronize)                                                                            \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuFuncSetAttribute)                                                                          \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                 \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemAllocHost)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemHostGetDevicePointer)                                                                   \
    X(cuMemHostRegister)                                                                           \
    X(cuMemHostUnregister)                                                                         \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemsetD8)                                                                                  \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyDtoDAsync)                                                                           \
    X(cuMemsetD8Async)                                                                             \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuStreamCreate)                                                                              \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamQuery)                                                                               \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamWriteValue32)                                                                        \
    X(cuStreamWaitValue32)                                                                         \
    X(cuStreamBatchMemOp)                                                                          \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphCreate)                                                                               \
    X(cuGraphAddKernelNode)                                                                        \
    X(cuGraphAddBatchMemOpNode)                                                                    \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphLaunch)                                                                               \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphDestroy)                                                                              \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventSynchronize)                                                                          \
    X(cuEventDestroy)                                                                              \
    X(cuLaunchKernel)

#define DRIVER_MEMBER(name) __typeof__(&name) name;
struct driver {
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
};

/* A kernel node with blocks and threads in one dimension and no shared memory. */
static inline CUDA_KERNEL_NODE_PARAMS driver_kernel_node(CUfunction function, unsigned int blocks,
                                                         unsigned int threads, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function,
                                     .gridDimX = blocks,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

struct device {
    CUdevice id;
    CUcontext context; /* the primary context */
    char name[96];
    int driver_version;
    int processors, threads_per_processor, blocks_per_processor;
};

/* Opens the driver for the life of the process. `library` gets what dlopen returned. Returns 0, or
 * with one line in `why` -ENOENT (no driver) or -ENOSYS (it is too old). */
int driver_load(struct driver *driver, void **library, char *why, size_t why_bytes);
/* Opens the driver and its first device, and makes its primary context the thread's current one.
 * Returns the same, or -EIO. */
int driver_open(struct driver *driver, struct device *device, char *why, size_t why_bytes);
/* Returns 0, or -EIO with "CALL: the driver's text (number)" in `why`. */
int driver_check(const struct driver *driver, CUresult result, const char *call, char *why,
                 size_t why_bytes);
/* For functions that return 0 or -errno and have nothing to free. `why` is an array, `call` is the
 * name without its version. */
#define DRIVER_TRY(driver, why, call, name, ...)                                                   \
    do {                                                                                           \
        int try_rc = driver_check(driver, (driver)->name(__VA_ARGS__), call, why, sizeof(why));    \
        if (try_rc != 0)                                                                           \
            return try_rc;                                                                         \
    } while (0)

#endif
