/*
 * distance.c - delays in stream order, and what gets one: launches of kernels and graphs, memsets;
 * copies are in distance_copy.c (see distance.h).
 *
 * The delay is a kernel of one thread that looks at the clock. It is a CUkernel of a library, so it
 * belongs to no context: nothing has to be followed when contexts come and go.
 */
#include "shim/path/distance.h"

#include "shim/path/op.h"

/* The simulated driver knows it by its name. */
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

struct distance distance_get(void)
{
    const struct config *c = config_get();
    return (struct distance){.rtt_ns = c->distance_ns, .tags = c->distance_tags};
}

/* ---- the delay ------------------------------------------------------------------------------ */

static _Atomic(CUkernel) kernel; /* NULL: not loaded yet */
static _Atomic bool off;         /* the driver does not take it */

static void refused(CUresult why)
{
    if (!atomic_exchange(&off, true))
        log_line(LOG_WARN,
                 "CUTIN_DISTANCE_US: the driver refuses the kernel that delays (error %d); the GPU "
                 "stays as near as it is",
                 (int)why);
}

/* The driver knows no libraries (before CUDA 12.0), or cannot translate the kernel, which is found
 * at its first launch on a device. Any other error is one that the program's own call finds too. */
static bool refusal(CUresult r)
{
    return r == CUDA_ERROR_NOT_FOUND || r == CUDA_ERROR_NOT_SUPPORTED ||
           r == CUDA_ERROR_INVALID_PTX || r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           r == CUDA_ERROR_NO_BINARY_FOR_GPU || r == CUDA_ERROR_JIT_COMPILER_NOT_FOUND ||
           r == CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

static CUresult kernel_make(CUlibrary *library, CUkernel *made)
{
    CUresult r = REAL(cuLibraryLoadData)(library, ptx, NULL, NULL, 0, NULL, NULL, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = REAL(cuLibraryGetKernel)(made, *library, "distance");
    if (r == CUDA_SUCCESS)
        r = distance_link_measure(*made);
    if (r != CUDA_SUCCESS)
        REAL(cuLibraryUnload)(*library);
    return r;
}

/* No lock is held across the driver's calls: of threads that come at once one is first, the others
 * give back what they loaded. A capture in this thread must not notice. */
static bool kernel_load(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUlibrary library;
    CUkernel made = NULL, none = NULL;
    bool exchanged = REAL(cuThreadExchangeStreamCaptureMode)(&mode) == CUDA_SUCCESS;
    CUresult r = kernel_make(&library, &made);
    if (refusal(r))
        refused(r);
    if (r == CUDA_SUCCESS && !atomic_compare_exchange_strong(&kernel, &none, made))
        REAL(cuLibraryUnload)(library);
    if (exchanged)
        REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    return r == CUDA_SUCCESS;
}

bool distance_applies(CUstream stream)
{
    if (atomic_load_explicit(&off, memory_order_relaxed) || shim_bypassed() ||
        (capture_any() && capture_active(stream)))
        return false;
    return atomic_load_explicit(&kernel, memory_order_acquire) || kernel_load();
}

CUresult distance_delay_by(CUkernel k, CUstream stream, uint64_t ns)
{
    void *params[] = {&ns};
    return DRIVER(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

void distance_delay(CUstream stream, uint64_t ns)
{
    CUkernel k = atomic_load_explicit(&kernel, memory_order_acquire);
    uint64_t own_ns = distance_link_get().delay_ns; /* of a kernel that ends at once */
    CUresult r = distance_delay_by(k, stream, ns > own_ns ? ns - own_ns : 0);
    if (unlikely(refusal(r)))
        refused(r);
}

/* ---- what stands in front of the driver ------------------------------------------------------ */

static void delay(CUstream stream)
{
    const struct distance d = distance_get();
    if (distance_applies(stream))
        distance_delay(stream, distance_delta_ns(&d));
}

#define LAUNCH_PARAMS                                                                              \
    CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,    \
        unsigned shared, CUstream stream, void **params
#define LAUNCH_VALUES f, gx, gy, gz, bx, by, bz, shared, stream, params

static CUresult far_launch(LAUNCH_PARAMS, void **extra)
{
    delay(stream);
    return DRIVER(cuLaunchKernel)(LAUNCH_VALUES, extra);
}

static CUresult far_cooperative(LAUNCH_PARAMS)
{
    delay(stream);
    return DRIVER(cuLaunchCooperativeKernel)(LAUNCH_VALUES);
}

static CUresult far_launch_ex(const CUlaunchConfig *config, CUfunction f, void **params,
                              void **extra)
{
    if (config)
        delay(config->hStream);
    return DRIVER(cuLaunchKernelEx)(config, f, params, extra);
}

/* One command: what is inside of it the GPU fetched before. */
static CUresult far_graph(CUgraphExec exec, CUstream stream)
{
    delay(stream);
    return DRIVER(cuGraphLaunch)(exec, stream);
}

#define MEMSET(sym, ...)                                                                           \
    static CUresult far_##sym##Async(EACH(OP_PARAM, __VA_ARGS__) CUstream stream)                  \
    {                                                                                              \
        delay(stream);                                                                             \
        return DRIVER(sym##Async)(EACH(OP_VALUE, __VA_ARGS__) stream);                             \
    }                                                                                              \
    static CUresult far_##sym(OP_COMMAS(EACH(OP_PARAM_, __VA_ARGS__)))                             \
    {                                                                                              \
        delay(CU_STREAM_LEGACY);                                                                   \
        return DRIVER(sym##_v2)(OP_COMMAS(EACH(OP_VALUE_, __VA_ARGS__)));                          \
    }                                                                                              \
    static CUresult far_##sym##_ptds(OP_COMMAS(EACH(OP_PARAM_, __VA_ARGS__)))                      \
    {                                                                                              \
        delay(CU_STREAM_PER_THREAD);                                                               \
        return DRIVER(sym##_v2_ptds)(OP_COMMAS(EACH(OP_VALUE_, __VA_ARGS__)));                     \
    }
#define MEMSETS(bits, type)                                                                        \
    MEMSET(cuMemsetD##bits, (CUdeviceptr, dst), (type, value), (size_t, n))                        \
    MEMSET(cuMemsetD2D##bits, (CUdeviceptr, dst), (size_t, pitch), (type, value), (size_t, width), \
           (size_t, height))
MEMSETS(8, unsigned char)
MEMSETS(16, unsigned short)
MEMSETS(32, unsigned int)

#define ROWS(sym)                                                                                  \
    {API_##sym##Async, (void *)far_##sym##Async}, {API_##sym##_v2, (void *)far_##sym},             \
    {                                                                                              \
        API_##sym##_v2_ptds, (void *)far_##sym##_ptds                                              \
    }

static const struct stand_in commands[] = {
    {API_cuLaunchKernel, (void *)far_launch},
    {API_cuLaunchCooperativeKernel, (void *)far_cooperative},
    {API_cuLaunchKernelEx, (void *)far_launch_ex},
    {API_cuGraphLaunch, (void *)far_graph},
    ROWS(cuMemsetD8),
    ROWS(cuMemsetD16),
    ROWS(cuMemsetD32),
    ROWS(cuMemsetD2D8),
    ROWS(cuMemsetD2D16),
    ROWS(cuMemsetD2D32),
    {0, NULL},
};

static void *find(const struct stand_in *table, int row)
{
    while (table->function && (int)table->row != row)
        table++;
    return table->function;
}

void *shim_stand_in(int row)
{
    const struct distance d = distance_get();
    void *found = distance_delta_ns(&d) ? find(commands, row) : NULL;
    return found || !distance_delta_ns(&d) ? found : find(distance_copies, row);
}
