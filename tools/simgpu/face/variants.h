/*
 * variants.h - one body, two symbols. Most stream-ordered calls exist twice: plain, where stream
 * NULL means the legacy stream, and with _ptsz (stream argument) or _ptds (no stream argument),
 * where it means the calling thread's own. The body sees which by a constant named `ptds`.
 *
 *   STREAM_API(cuMemFreeAsync, (CUdeviceptr ptr, CUstream s), free_async(ptr, s, ptds))
 */
#ifndef CUTIN_TOOLS_SIMGPU_FACE_VARIANTS_H
#define CUTIN_TOOLS_SIMGPU_FACE_VARIANTS_H

/* Told of each of these calls in its thread, before and behind it: what CUPTI tells subscribers of
 * the driver's functions. A program sets it by dlsym. */
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
