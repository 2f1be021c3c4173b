/*
 * delay.c - delays in stream order (see distance.h).
 *
 * The delay is a kernel of one thread that looks at the clock. It is a CUkernel of a library, which
 * belongs to no context, so contexts may come and go.
 */
#include "tools/lab/distance/distance.h"

/* The simulated driver knows this kernel by its name. */
static const char ptx[] = ".version 6.5\n"
                          ".target sm_52\n"
                          ".address_size 64\n"
                          ".visible .entry distance(.param .u64 distance_ns)\n"
                          "{\n"
                          "    .reg .pred %p;\n"
                          "    .reg .b64 %ns, %start, %now, %past;\n"
                          "    ld.param.u64 %ns, [distance_ns];\n"
                          "    mov.u64 %start, %globaltimer;\n"
                          "AGAIN:\n"
                          "    mov.u64 %now, %globaltimer;\n"
                          "    sub.u64 %past, %now, %start;\n"
                          "    setp.lt.u64 %p, %past, %ns;\n"
                          "    @%p bra AGAIN;\n"
                          "    ret;\n"
                          "}\n";

static _Atomic(CUkernel) kernel; /* NULL: not loaded yet */
static _Atomic bool off;         /* the driver refuses the kernel */

static void disable(CUresult why)
{
    if (!atomic_exchange(&off, true))
        SAY(LOG_WARN,
            "CUTIN_DISTANCE_US has no effect: the driver refuses the delay kernel (error %d)",
            (int)why);
}

/* True if the driver has no libraries (before CUDA 12.0) or cannot translate the kernel, which
 * shows at its first launch on a device. The program's own call will meet any other error, too. */
static bool is_refusal(CUresult r)
{
    return r == CUDA_ERROR_NOT_FOUND || r == CUDA_ERROR_NOT_SUPPORTED ||
           r == CUDA_ERROR_INVALID_PTX || r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           r == CUDA_ERROR_NO_BINARY_FOR_GPU || r == CUDA_ERROR_JIT_COMPILER_NOT_FOUND ||
           r == CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

/* Holds no lock across driver calls. If several threads come at once, the first one wins and the
 * others unload what they loaded. A capture in this thread is not disturbed. */
static bool kernel_load(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool relaxed = DRIVER(cuThreadExchangeStreamCaptureMode)(&mode) == CUDA_SUCCESS;
    CUlibrary library;
    CUkernel made = NULL, none = NULL;
    CUresult r = DRIVER(cuLibraryLoadData)(&library, ptx, NULL, NULL, 0, NULL, NULL, 0);
    bool loaded = r == CUDA_SUCCESS;
    if (loaded)
        r = DRIVER(cuLibraryGetKernel)(&made, library, "distance");
    if (r == CUDA_SUCCESS)
        r = link_measure(made);
    if (is_refusal(r))
        disable(r);
    if (loaded && (r != CUDA_SUCCESS || !atomic_compare_exchange_strong(&kernel, &none, made)))
        DRIVER(cuLibraryUnload)(library);
    if (relaxed)
        DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    return r == CUDA_SUCCESS;
}

bool distance_applies(CUstream stream)
{
    if (atomic_load_explicit(&off, memory_order_relaxed) || !distance_behind()->applies(stream))
        return false;
    return atomic_load_explicit(&kernel, memory_order_acquire) || kernel_load();
}

void distance_delay(CUstream stream, uint64_t ns)
{
    CUkernel k = atomic_load_explicit(&kernel, memory_order_acquire);
    uint64_t own_ns = link_get().delay_ns; /* how long an empty delay takes */
    CUresult r = link_delay(k, stream, ns > own_ns ? ns - own_ns : 0);
    if (unlikely(is_refusal(r)))
        disable(r);
}
