/*
 * variants.h - one body, two symbols. Most stream-ordered calls exist twice. In the plain one a
 * NULL stream is the legacy stream. In the one with _ptsz (it has a stream argument) or _ptds (it
 * has none) it is the calling thread's own. A constant named `ptds` tells the body which one it is.
 *
 *   STREAM_API(cuMemFreeAsync, (CUdeviceptr ptr, CUstream s), free_async(ptr, s, ptds))
 */
#ifndef CUTIN_TOOLS_SIMGPU_FACE_VARIANTS_H
#define CUTIN_TOOLS_SIMGPU_FACE_VARIANTS_H

/* A function that is called in the thread of each such call, before and after it, as CUPTI calls
 * subscribers of the driver's functions. A program sets it by dlsym. */
typedef void sim_subscriber(const char *function, int behind);
extern SIM_EXPORT _Atomic(sim_subscriber *) cuSimgpuSubscriber;

#define VARIANT(symbol, per_thread, params, call)                                                  \
    SIM_EXPORT CUresult symbol params;                                                             \
    SIM_EXPORT CUresult symbol params                                                              \
    {                                                                                              \
        const bool ptds = per_thread;                                                              \
        (void)ptds;                                                                                \
        sim_subscriber *told = cuSimgpuSubscriber;                                                 \
        if (!told)                                                                                 \
            return call;                                                                           \
        told(#symbol, 0);                                                                          \
        CUresult result = call;                                                                    \
        told(#symbol, 1);                                                                          \
        return result;                                                                             \
    }
#define STREAM_API(symbol, params, call)                                                           \
    VARIANT(symbol, false, params, call)                                                           \
    VARIANT(symbol##_ptsz, true, params, call)
#define SYNC_API(symbol, params, call)                                                             \
    VARIANT(symbol, false, params, call)                                                           \
    VARIANT(symbol##_ptds, true, params, call)

#endif
