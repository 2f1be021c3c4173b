/*
 * draw.c - numbers and objects that arguments are drawn from (see draw.h).
 */
#include "draw.h"

#include <string.h>

/* ---- numbers -------------------------------------------------------------------------------- */

static uint64_t state;
static bool wild;

void draw_seed(uint64_t seed)
{
    state = seed;
}

uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

void draw_mood(void)
{
    wild = draw(5) < 2;
}

bool odd(void)
{
    return wild && draw(3) == 0;
}

/* ---- objects -------------------------------------------------------------------------------- */

CUstream stream;
CUdeviceptr x, y, managed, pooled, nowhere, words;
uint32_t *pinned, *pages;
CUevent event, others_event;
CUcontext other;
CUfunction others;
CUkernel kernel;
CUarray flat, row;
CUmemoryPool pool;

static void arrays_new(void)
{
    CUDA_ARRAY_DESCRIPTOR of = {.Width = 32, .Format = CU_AD_FORMAT_UNSIGNED_INT32};
    uint32_t zeros[32 * 16] = {0};
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = zeros,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .WidthInBytes = 128,
                       .Height = 16};
    of.NumChannels = 1;
    MUST(cuArrayCreate_v2(&row, &of));
    MUST(cuMemcpyHtoA_v2(row, 0, zeros, 128));
    of.Height = 16;
    MUST(cuArrayCreate_v2(&flat, &of));
    c.dstArray = flat;
    MUST(cuMemcpy2D_v2(&c));
}

/* Memory between the objects, since a range may reach into the next allocation, natively too. */
static void room_new(void)
{
    CUdeviceptr room;
    MUST(cuMemAlloc_v2(&room, ROOM));
}

static void memory_new(void)
{
    uint64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    words = buffer_new(0);
    MUST(cuMemcpyHtoD_v2(words, ones, sizeof(ones)));
    room_new();
    x = buffer_new(3);
    y = buffer_new(1);
    room_new();
    MUST(cuMemAllocHost_v2((void **)&pinned, ROOM));
    memset(pinned, 0, ROOM);
    pages = calloc(1, ROOM);
    MUST(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    room_new();
    MUST(cuMemAllocAsync(&pooled, BYTES, stream));
    room_new();
    MUST(cuMemsetD8Async(pooled, 0, BYTES, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemPoolCreate(&pool, &props));
    MUST(cuMemAddressReserve(&nowhere, (size_t)2 << 20, 0, 0, 0));
}

void objects_new(void)
{
    CUmodule there;
    CUlibrary library;
    char *text = kernels_text();
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    event = event_new();
    memory_new();
    arrays_new();
    MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "mix"));
    other = context_new();
    others_event = event_new();
    MUST(cuModuleLoadData(&there, text));
    MUST(cuModuleGetFunction(&others, there, "mix"));
    free(text);
    MUST(cuCtxSetCurrent(context));
}

/* ---- arguments ------------------------------------------------------------------------------ */

CUdeviceptr address(void)
{
    const CUdeviceptr yes[] = {x, y, x + 64, y + BYTES / 2, managed, pooled};
    const CUdeviceptr no[] = {0,
                              1,
                              x + 1,
                              x + 2,
                              x + 4,
                              x + BYTES,
                              x + BYTES - 4,
                              nowhere,
                              managed + 1,
                              (CUdeviceptr)(uintptr_t)pinned};
    return EITHER(yes, no);
}

bool is_pinned(CUdeviceptr at)
{
    return at == (CUdeviceptr)(uintptr_t)pinned;
}

void *host(void)
{
    void *const yes[] = {pinned, pinned, pinned, pages};
    void *const no[] = {pinned + 1, NULL};
    return EITHER(yes, no);
}

size_t host_length(void)
{
    const size_t yes[] = {64, 64, 4, BYTES / 2};
    const size_t no[] = {0, 1, 3, BYTES, BYTES + 1};
    return EITHER(yes, no);
}

size_t length(void)
{
    const size_t yes[] = {64, 64, 4, BYTES / 2};
    const size_t no[] = {0, 1, 3, BYTES, BYTES + 1, (size_t)1 << 40, SIZE_MAX};
    return EITHER(yes, no);
}

size_t pitch(void)
{
    const size_t yes[] = {128};
    const size_t no[] = {0, 1, 63, 64, 66, (size_t)1 << 32, SIZE_MAX};
    return EITHER(yes, no);
}

unsigned flag(void)
{
    const unsigned yes[] = {0};
    const unsigned no[] = {1, 2, 4, 8, 3, 1u << 30, ~0u};
    return EITHER(yes, no);
}

CUcontext any_context(void)
{
    CUcontext yes[] = {context}, no[] = {other, NULL};
    return EITHER(yes, no);
}

CUevent any_event(void)
{
    CUevent yes[] = {event}, no[] = {others_event, NULL};
    return EITHER(yes, no);
}

CUarray any_array(void)
{
    CUarray yes[] = {flat}, no[] = {row, NULL};
    return EITHER(yes, no);
}

CUarray any_row(void)
{
    CUarray yes[] = {row}, no[] = {flat, NULL};
    return EITHER(yes, no);
}

CUmemLocation place(void)
{
    CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    if (odd())
        there.type = (CUmemLocationType)draw(6);
    if (odd())
        there.id = (int)draw(3) - 1;
    return there;
}

void nothing(void *unused)
{
    (void)unused;
}
