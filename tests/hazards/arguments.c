/*
 * arguments.c - right and wrong arguments for whatever may be deferred, drawn from a seed, in a
 * stream that is held and in one that is not. The driver judges at the call: each answers what it
 * answers natively, and no call pays for another one's arguments.
 *
 *   HAZARD_SEED=7 HAZARD_CALLS=100000 hazard_compare .../hazard_arguments drawn
 */
#include "tests/hazards/hazard.h"

#include <string.h>

enum { LINE = 64, ROOM = 4 * BYTES };

/* ---- draws ---------------------------------------------------------------------------------- */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

static CUdeviceptr x, y, managed, pooled, gone;
static uint32_t *pinned, *pages;
static CUstream stream;
static CUevent event;
static CUgraphExec graph;
static CUcontext other;
static CUfunction others; /* a function of the other context */

/* Mostly right. */
static CUdeviceptr address(void)
{
    const CUdeviceptr right[] = {x, y, x + 4, y + BYTES / 2, managed, pooled};
    const CUdeviceptr wrong[] = {0,     1,           x + 1,
                                 x + 2, x + BYTES,   x + BYTES - 4,
                                 gone,  managed + 1, (CUdeviceptr)(uintptr_t)pinned};
    return draw(2) ? right[draw(sizeof(right) / sizeof(*right))]
                   : wrong[draw(sizeof(wrong) / sizeof(*wrong))];
}

/* What lies behind it is read and written natively, too, whatever the length: there are ROOM. */
static void *host(void)
{
    void *const any[] = {pinned, pinned + 1, pages, NULL};
    return draw(2) ? pinned : any[draw(4)];
}

static size_t host_length(void)
{
    const size_t any[] = {0, 1, 3, 4, 64, BYTES / 2, BYTES, BYTES + 1};
    return any[draw(sizeof(any) / sizeof(*any))];
}

static size_t length(void)
{
    const size_t any[] = {0, 1, 3, 4, 64, BYTES / 2, BYTES, BYTES + 1, (size_t)1 << 40, SIZE_MAX};
    return draw(2) ? 64 : any[draw(sizeof(any) / sizeof(*any))];
}

static size_t pitch(void)
{
    const size_t any[] = {0, 1, 63, 64, 66, 128, (size_t)1 << 32, SIZE_MAX};
    return draw(2) ? 128 : any[draw(sizeof(any) / sizeof(*any))];
}

static unsigned flag(void)
{
    const unsigned any[] = {0, 1, 2, 4, 8, 3, 1u << 30, ~0u};
    return draw(3) ? 0 : any[draw(sizeof(any) / sizeof(*any))];
}

static CUcontext any_context(void)
{
    CUcontext any[] = {context, other, NULL};
    return draw(2) ? context : any[draw(3)];
}

/* What lies behind it is nobody's, or the library's. */
static bool is_pinned(CUdeviceptr at)
{
    return at == (CUdeviceptr)(uintptr_t)pinned;
}

static void near_by(size_t *at, size_t *rows_apart, size_t *width)
{
    *at %= 64;
    *rows_apart = *rows_apart > 128 ? 128 : *rows_apart;
    *width = *width > 128 ? 64 : *width;
}

/* Of arrays there is none, and of no rows nothing to refuse. */
#define KEEP_INSIDE(c)                                                                             \
    do {                                                                                           \
        if ((c).srcMemoryType == CU_MEMORYTYPE_ARRAY || (c).dstMemoryType == CU_MEMORYTYPE_ARRAY)  \
            (c).Height = 0;                                                                        \
        if ((c).srcMemoryType != CU_MEMORYTYPE_DEVICE || is_pinned((c).srcDevice))                 \
            near_by(&(c).srcXInBytes, &(c).srcPitch, &(c).WidthInBytes);                           \
        if ((c).dstMemoryType != CU_MEMORYTYPE_DEVICE || is_pinned((c).dstDevice))                 \
            near_by(&(c).dstXInBytes, &(c).dstPitch, &(c).WidthInBytes);                           \
    } while (0)

static CUmemorytype any_type(CUmemorytype right)
{
    return draw(4) ? right : (CUmemorytype)draw(6);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static CUresult set(void)
{
    switch (draw(6)) {
    case 0:
        return cuMemsetD8Async(address(), 1, length(), stream);
    case 1:
        return cuMemsetD16Async(address(), 2, length() / 2, stream);
    case 2:
        return cuMemsetD32Async(address(), 3, length() / 4, stream);
    case 3:
        return cuMemsetD2D8Async(address(), pitch(), 4, length(), draw(4), stream);
    case 4:
        return cuMemsetD2D16Async(address(), pitch(), 5, length() / 2, draw(4), stream);
    default:
        return cuMemsetD2D32Async(address(), pitch(), 6, length() / 4, draw(4), stream);
    }
}

static CUresult copy(void)
{
    switch (draw(5)) {
    case 0:
        return cuMemcpyHtoDAsync(address(), host(), host_length(), stream);
    case 1:
        return cuMemcpyDtoHAsync(host(), address(), host_length(), stream);
    case 2:
        return cuMemcpyDtoDAsync(address(), address(), length(), stream);
    case 3:
        return cuMemcpyAsync(address(), address(), host_length(), stream);
    default:
        return cuMemcpyPeerAsync(address(), any_context(), address(), any_context(), length(),
                                 stream);
    }
}

static CUresult copy_2d(void)
{
    CUDA_MEMCPY2D c = {.srcXInBytes = draw(3) ? 0 : length(),
                       .srcY = draw(3),
                       .srcMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                       .srcHost = host(),
                       .srcDevice = address(),
                       .srcPitch = pitch(),
                       .dstXInBytes = draw(3) ? 0 : length(),
                       .dstY = draw(3),
                       .dstMemoryType =
                           any_type(draw(2) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST),
                       .dstHost = host(),
                       .dstDevice = address(),
                       .dstPitch = pitch(),
                       .WidthInBytes = length(),
                       .Height = draw(4)};
    KEEP_INSIDE(c);
    return cuMemcpy2DAsync(&c, stream);
}

static CUresult copy_3d(void)
{
    CUDA_MEMCPY3D c = {.srcZ = draw(2),
                       .srcLOD = draw(8) ? 0 : 1,
                       .srcMemoryType = any_type(CU_MEMORYTYPE_UNIFIED),
                       .srcHost = host(),
                       .srcDevice = address(),
                       .srcPitch = pitch(),
                       .srcHeight = draw(4),
                       .dstMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                       .dstHost = host(),
                       .dstDevice = address(),
                       .dstPitch = pitch(),
                       .dstHeight = draw(4),
                       .reserved1 = draw(8) ? NULL : &state,
                       .WidthInBytes = length(),
                       .Height = draw(3),
                       .Depth = draw(3)};
    KEEP_INSIDE(c);
    return cuMemcpy3DAsync(&c, stream);
}

static CUresult copy_3d_peer(void)
{
    CUDA_MEMCPY3D_PEER c = {.srcMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                            .srcDevice = address(),
                            .srcHost = host(),
                            .srcContext = any_context(),
                            .srcPitch = pitch(),
                            .srcHeight = draw(4),
                            .dstMemoryType = any_type(CU_MEMORYTYPE_DEVICE),
                            .dstDevice = address(),
                            .dstHost = host(),
                            .dstContext = any_context(),
                            .dstPitch = pitch(),
                            .dstHeight = draw(4),
                            .WidthInBytes = length(),
                            .Height = draw(3),
                            .Depth = draw(3)};
    KEEP_INSIDE(c);
    return cuMemcpy3DPeerAsync(&c, stream);
}

static CUresult launch(void)
{
    uint32_t a = 3, b = 1, n = N;
    void *params[] = {&x, &a, &b, &n};
    const unsigned sizes[] = {0, 1, 4, 256, 1025, 65536, ~0u};
    unsigned grid[3] = {4, 1, 1}, block[3] = {256, 1, 1};
    if (draw(2))
        (draw(2) ? grid : block)[draw(3)] = sizes[draw(7)];
    CUfunction f = draw(8) ? mix : draw(2) ? others : NULL;
    if (f == mix && grid[0] * grid[1] * grid[2] > 64)
        grid[0] = grid[1] = grid[2] = ~0u; /* refused, or never done */
    return cuLaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                          draw(8) ? 0 : 1u << 30, stream, params, NULL);
}

static CUresult managed_call(void)
{
    CUmemLocation to = {.type = (CUmemLocationType)draw(6), .id = (int)draw(3) - 1};
    CUdeviceptr at = draw(2) ? managed : address();
    size_t bytes = draw(2) ? BYTES : length();
    switch (draw(3)) {
    case 0:
        return cuMemPrefetchAsync_v2(at, bytes, to, flag(), stream);
    case 1:
        return cuMemPrefetchAsync_v2(
            at, bytes, (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, 0,
            stream);
    default: /* what belongs to a stream is the host's meanwhile, or not */
        return cuStreamAttachMemAsync(stream, at, draw(2) ? 0 : bytes,
                                      draw(2) ? CU_MEM_ATTACH_GLOBAL : flag());
    }
}

static CUresult ordered(void)
{
    const CUdeviceptr not_freed[] = {x, managed,    gone,
                                     0, pooled + 4, (CUdeviceptr)(uintptr_t)pinned};
    switch (draw(8)) {
    case 0:
        return cuEventRecord(draw(4) ? event : NULL, stream);
    case 1:
        return cuEventRecordWithFlags(event, stream, flag());
    case 2:
        return cuStreamWaitEvent(stream, draw(4) ? event : NULL, flag());
    case 3:
        return cuGraphLaunch(draw(4) ? graph : NULL, stream);
    case 4:
        return cuGraphUpload(draw(4) ? graph : NULL, stream);
    case 5:
        return cuStreamWriteValue32(stream, address(), 1, flag());
    case 6:
        return cuLaunchHostFunc(stream, NULL, NULL);
    default:
        return cuMemFreeAsync(not_freed[draw(6)], stream);
    }
}

static CUresult any_call(void)
{
    CUresult (*const calls[])(void) = {set,          copy,   copy_2d,      copy_3d,
                                       copy_3d_peer, launch, managed_call, ordered};
    return calls[draw(sizeof(calls) / sizeof(*calls))]();
}

/* ---- the hazard ----------------------------------------------------------------------------- */

static unsigned long setting(const char *name, unsigned long standard)
{
    const char *value = getenv(name);
    return value ? strtoul(value, NULL, 0) : standard;
}

static void make_objects(void)
{
    CUgraphNode node;
    CUgraph made;
    CUmodule module_there;
    CUDA_MEMSET_NODE_PARAMS p = {.elementSize = 4, .value = 9, .width = N, .height = 1};
    x = buffer_new(3);
    y = buffer_new(1);
    MUST(cuMemAllocHost((void **)&pinned, ROOM));
    memset(pinned, 0, ROOM);
    pages = calloc(1, ROOM);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    event = event_new();
    MUST(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    MUST(cuMemAllocAsync(&pooled, BYTES, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemAlloc(&gone, BYTES));
    MUST(cuMemFree(gone));
    p.dst = y;
    MUST(cuGraphCreate(&made, 0));
    MUST(cuGraphAddMemsetNode(&node, made, NULL, 0, &p, context));
    MUST(cuGraphInstantiate(&graph, made, 0));
    other = context_new();
    char *text = kernels_text();
    MUST(cuModuleLoadData(&module_there, text));
    MUST(cuModuleGetFunction(&others, module_there, "mix"));
    free(text);
    MUST(cuCtxSetCurrent(context));
}

/* Held for some calls, then not: what the driver is asked at once, and what is buffered. */
static void some_calls(unsigned round)
{
    char line[LINE * 5 + 1];
    int at = 0;
    if (round % 2)
        hold(stream);
    for (int i = 0; i < LINE; i++)
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %d", (int)any_call());
    release(stream);
    printf("%u:%s; %d\n", round, line, cuStreamSynchronize(stream));
}

HAZARD(drawn)
{
    unsigned long calls = setting("HAZARD_CALLS", 12800);
    state = setting("HAZARD_SEED", 1);
    hold_ms = 2;
    make_objects();
    warm(stream);
    for (unsigned round = 0; round < calls / LINE; round++)
        some_calls(round);
    SAY(cuCtxSynchronize());
    show("x", x);
    show("y", y);
    show_host("pinned", pinned);
}
