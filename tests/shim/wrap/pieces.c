/*
 * pieces.c - large copies go to the driver in pieces; only the device's log shows that.
 */
#include "tests/shim/wrap/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 4096, ROWS = 32, BYTES = ROWS * PIECE, WORDS = BYTES / 4 };

static char log_path[64];

static void open_logged(void)
{
    snprintf(log_path, sizeof(log_path), "/tmp/cutin-pieces-%d.log", (int)getpid());
    rig_open_with("SIMGPU_LOG", log_path);
}

static void close_logged(void)
{
    rig_close();
    unlink(log_path);
}

TestSuite(pieces, .init = open_logged, .fini = close_logged);

/* Counts copies that the device has made; memsets do not count. */
static int copies(void)
{
    char line[1024];
    int n = 0;
    FILE *f = fopen(log_path, "r");
    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, "kind=copy") && strstr(line, " bytes=");
    if (f)
        fclose(f);
    return n;
}

static void fill(uint32_t *x, uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++)
        x[i] = seed + i * 2654435761u;
}

static uint32_t *pinned(uint32_t seed)
{
    uint32_t *x;
    ok(cuMemHostAlloc((void **)&x, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    fill(x, seed);
    return x;
}

static uint32_t *pageable(uint32_t seed)
{
    uint32_t *x = malloc(BYTES);
    fill(x, seed);
    return x;
}

static CUdeviceptr device(uint32_t seed)
{
    uint32_t *from = pinned(seed);
    CUdeviceptr x;
    ok(cuMemAlloc(&x, BYTES));
    for (int i = 0; i < ROWS; i++) /* each row is one piece */
        ok(cuMemcpyHtoD(x + i * PIECE, (char *)from + i * PIECE, PIECE));
    ok(cuMemFreeHost(from));
    return x;
}

static void device_is(CUdeviceptr x, uint32_t seed)
{
    static uint32_t got[PIECE / 4];
    for (uint32_t row = 0; row < ROWS; row++) {
        ok(cuMemcpyDtoH(got, x + row * PIECE, PIECE));
        for (uint32_t i = 0; i < PIECE / 4; i++)
            cr_assert_eq(got[i], seed + (row * PIECE / 4 + i) * 2654435761u, "row %u", row);
    }
}

static void host_is(const uint32_t *x, uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++)
        cr_assert_eq(x[i], seed + i * 2654435761u, "word %u", i);
}

/* ---- every form ------------------------------------------------------------------------------ */

enum { A = 11, B = 22 };
static CUdeviceptr to, from;
static uint32_t *host;

#define FORM(name, memory, call, result)                                                           \
    Test(pieces, name)                                                                             \
    {                                                                                              \
        CUstream s = rig_stream();                                                                 \
        to = device(A), from = device(B), host = memory;                                           \
        int before = copies();                                                                     \
        ok(call);                                                                                  \
        ok(cuStreamSynchronize(s));                                                                \
        ok(cuCtxSynchronize());                                                                    \
        cr_assert_eq(copies() - before, ROWS);                                                     \
        result;                                                                                    \
    }
FORM(upload, pinned(3), cuMemcpyHtoDAsync(to, host, BYTES, s), device_is(to, 3))
FORM(download, pinned(3), cuMemcpyDtoHAsync(host, from, BYTES, s), host_is(host, B))
FORM(within, NULL, cuMemcpyDtoDAsync(to, from, BYTES, s), device_is(to, B))
FORM(any, pinned(3), cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)host, BYTES, s), device_is(to, 3))
FORM(pageable_upload, pageable(3), cuMemcpyHtoDAsync(to, host, BYTES, s), device_is(to, 3))
FORM(pageable_download, pageable(3), cuMemcpyDtoHAsync(host, from, BYTES, s), host_is(host, B))
FORM(synchronous_upload, pageable(3), cuMemcpyHtoD(to, host, BYTES), device_is(to, 3))
FORM(synchronous_download, pinned(3), cuMemcpyDtoH(host, from, BYTES), host_is(host, B))
FORM(synchronous_within, NULL, cuMemcpyDtoD(to, from, BYTES), device_is(to, B))

#define SIDE(side, type, memory, pitch)                                                            \
    .side##MemoryType = CU_MEMORYTYPE_##type, .side##memory, .side##Pitch = (pitch)

/* Two rows of the rectangle are a piece. */
static CUDA_MEMCPY2D rectangle(size_t height)
{
    return (CUDA_MEMCPY2D){SIDE(src, HOST, Host = host, PIECE),
                           SIDE(dst, DEVICE, Device = to, PIECE),
                           .srcXInBytes = 8,
                           .dstXInBytes = 8,
                           .srcY = 1,
                           .dstY = 1,
                           .WidthInBytes = PIECE / 2,
                           .Height = height};
}

/* It has layers of four rows, of which three are copied: six rows of a piece are two layers. */
static CUDA_MEMCPY3D box(size_t depth)
{
    return (CUDA_MEMCPY3D){SIDE(src, HOST, Host = host, PIECE / 2),
                           .srcHeight = 4,
                           SIDE(dst, DEVICE, Device = to, PIECE / 2),
                           .dstHeight = 4,
                           .srcZ = 1,
                           .dstZ = 1,
                           .WidthInBytes = PIECE / 6,
                           .Height = 3,
                           .Depth = depth};
}

/* Checks what a copy of rows has made of `to`. */
static void rows_are(size_t first, size_t rows, size_t x, size_t width, size_t pitch, size_t skip)
{
    static unsigned char want[BYTES], got[BYTES];
    fill((uint32_t *)(void *)want, A);
    for (size_t r = first; r < first + rows; r++)
        if (!skip || r % skip != skip - 1)
            memcpy(want + r * pitch + x, (const char *)host + r * pitch + x, width);
    for (int i = 0; i < ROWS; i++)
        ok(cuMemcpyDtoH(got + i * PIECE, to + i * PIECE, PIECE));
    cr_assert_eq(memcmp(got, want, BYTES), 0);
}

static void copies_rows(CUresult (*copy)(CUstream s), int wanted)
{
    CUstream s = rig_stream();
    to = device(A), host = pinned(3);
    int before = copies();
    ok(copy(s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(copies() - before, wanted);
}

static CUresult copy_rectangle(CUstream s)
{
    CUDA_MEMCPY2D c = rectangle(ROWS - 1);
    CUresult r = cuMemcpy2DAsync(&c, s);
    memset(&c, 0, sizeof(c));
    return r;
}
static CUresult copy_rectangle_now(CUstream s)
{
    CUDA_MEMCPY2D c = rectangle(ROWS - 1);
    return cuMemcpy2D(&c);
}
static CUresult copy_box(CUstream s)
{
    CUDA_MEMCPY3D c = box(15);
    CUresult r = cuMemcpy3DAsync(&c, s);
    memset(&c, 0, sizeof(c));
    return r;
}

Test(pieces, rectangle_copy_is_cut_into_rows)
{
    copies_rows(copy_rectangle, (ROWS - 1 + 1) / 2);
    rows_are(1, ROWS - 1, 8, PIECE / 2, PIECE, 0);
}

Test(pieces, synchronous_rectangle_copy_is_cut_into_rows)
{
    copies_rows(copy_rectangle_now, (ROWS - 1 + 1) / 2);
    rows_are(1, ROWS - 1, 8, PIECE / 2, PIECE, 0);
}

Test(pieces, box_copy_is_cut_into_layers)
{
    copies_rows(copy_box, 8);
    rows_are(4, 60, 0, PIECE / 6, PIECE / 2, 4);
}

/* ---- to the program it is one copy ----------------------------------------------------------- */

struct gate {
    _Atomic uint32_t *word;
    CUdeviceptr at;
};

static struct gate gate_new(void)
{
    struct gate g;
    ok(cuMemHostAlloc((void **)&g.word, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&g.at, (void *)g.word, 0));
    atomic_store(g.word, 0);
    return g;
}

static void until_in_flight(CUstream s)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    for (int i = 0; i < 20000 && !state.in_flight; i++, rig_nap())
        ok(cutin_stream_state(s, &state));
    cr_assert(state.in_flight);
}

/* The device waits in front of the first piece, so there is no room for many. After 100 ms without
 * progress there is: on a host so late before the hold, their number is not judged. */
Test(pieces, hold_pauses_begun_copy)
{
    CUstream s = rig_stream();
    struct gate g = gate_new();
    CUevent e;
    to = device(A), host = pinned(3);
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    int before = copies();
    uint64_t began = rig_now_ms();
    ok(cuStreamWaitValue32(s, g.at, 1, CU_STREAM_WAIT_VALUE_EQ));
    ok(cuMemcpyHtoDAsync(to, host, BYTES, s));
    ok(cuEventRecord(e, s));
    ok(cuMemcpyDtoDAsync(to, to + PIECE, PIECE, s)); /* behind the last piece */
    until_in_flight(s);
    ok(cutin_stream_hold(s));
    bool in_time = rig_now_ms() - began < 90;
    atomic_store(g.word, 1);
    for (int i = 0; i < 20; i++)
        rig_nap();
    cr_assert(!in_time || copies() - before < ROWS / 2, "%d copies", copies() - before);
    answers(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cutin_stream_release(s));
    ok(cuEventSynchronize(e));
    cr_assert_geq(copies() - before, ROWS);
    ok(cuStreamSynchronize(s));
    cr_assert_eq(copies() - before, ROWS + 1);
    fill(host, 3);
    memcpy(host, (char *)host + PIECE, PIECE);
    static uint32_t got[PIECE / 4];
    ok(cuMemcpyDtoH(got, to, PIECE));
    cr_assert_eq(memcmp(got, host, PIECE), 0);
    if (!in_time)
        cr_skip_test("the host was too late before the hold to judge how many copies went");
}

/* More than any allocation: a copy might go on into the next one, but so far there is none. */
enum { FAR = 1 << 30 };

Test(pieces, refused_copy_moves_nothing)
{
    CUstream s = rig_stream();
    to = device(A), from = device(B), host = pinned(3);
    CUDA_MEMCPY2D two = rectangle(FAR / PIECE);
    CUDA_MEMCPY3D three = box(FAR / PIECE), low = box(15);
    low.srcHeight = 2; /* lower than what is copied */
    int before = copies();
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(to, host, FAR, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(host, from, FAR, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(to, from, FAR, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(to, host, FAR));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpy2DAsync(&two, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync(&three, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync(&low, s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(copies(), before);
    device_is(to, A);
}

/* The end of this memory is not there. */
Test(pieces, copy_from_partly_unmapped_memory_moves_nothing)
{
    CUstream s = rig_stream();
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    to = device(A);
    munmap(at + BYTES - PIECE, PIECE);
    int before = copies();
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(to, at, BYTES, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(to, at, BYTES));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(copies(), before);
    device_is(to, A);
}

Test(pieces, captured_copy_stays_whole)
{
    CUstream s = rig_stream();
    CUgraph graph;
    size_t nodes = 0;
    to = device(A), host = pinned(3);
    ok(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemcpyHtoDAsync(to, host, BYTES, s));
    ok(cuStreamEndCapture(s, &graph));
    ok(cuGraphGetNodes(graph, NULL, &nodes));
    cr_assert_eq(nodes, 1);
}

/* A copy onto itself is not cut: the driver has to judge it. */
Test(pieces, overlapping_copy_stays_whole)
{
    CUstream s = rig_stream();
    to = device(A);
    int before = copies();
    ok(cuMemcpyDtoDAsync(to + PIECE, to, BYTES - PIECE, s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(copies() - before, 1);
}

/* A copy that has begun is not dropped. */
Test(pieces, begun_copy_survives_reset)
{
    CUstream s = rig_stream();
    struct gate g = gate_new();
    to = device(A), host = pinned(3);
    ok(cuStreamWaitValue32(s, g.at, 1, CU_STREAM_WAIT_VALUE_EQ));
    ok(cuMemcpyHtoDAsync(to, host, BYTES, s));
    until_in_flight(s);
    ok(cutin_stream_hold(s));
    cr_assert_eq(cutin_stream_reset(s), 0);
    atomic_store(g.word, 1);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    device_is(to, 3);
}
