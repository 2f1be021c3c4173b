/*
 * copy.c - copies and memsets of every form keep their place behind buffered launches.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/shim/wrap/rig.h"

TestSuite(copy, .init = rig_open, .fini = rig_close);

enum { BYTES = N * sizeof(uint32_t) };

static uint32_t *pinned(uint32_t value)
{
    uint32_t *p;
    ok(cuMemHostAlloc((void **)&p, BYTES, 0));
    for (int i = 0; i < N; i++)
        p[i] = value;
    return p;
}

/* Each form copies `src`, which a buffered launch will still change, to `dst`. */
typedef CUresult (*form)(CUdeviceptr dst, CUdeviceptr src, CUstream s);

static CUresult by_dtod(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    return cuMemcpyDtoDAsync(dst, src, BYTES, s);
}
static CUresult by_generic(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    return cuMemcpyAsync(dst, src, BYTES, s);
}
static CUresult by_peer(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    return cuMemcpyPeerAsync(dst, rig_context, src, rig_context, BYTES, s);
}
static CUresult by_2d(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = src,
                       .srcPitch = BYTES / 4,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = dst,
                       .dstPitch = BYTES / 4,
                       .WidthInBytes = BYTES / 4,
                       .Height = 4};
    CUresult r = cuMemcpy2DAsync(&c, s);
    memset(&c, 0, sizeof(c));
    return r;
}
static CUresult by_3d(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = src,
                       .srcPitch = BYTES / 8,
                       .srcHeight = 2,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = dst,
                       .dstPitch = BYTES / 8,
                       .dstHeight = 2,
                       .WidthInBytes = BYTES / 8,
                       .Height = 2,
                       .Depth = 4};
    CUresult r = cuMemcpy3DAsync(&c, s);
    memset(&c, 0, sizeof(c));
    return r;
}
#if CUDA_VERSION >= 13000
static CUresult by_batch(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    CUdeviceptr dsts[] = {dst, dst + BYTES / 2}, srcs[] = {src, src + BYTES / 2};
    size_t sizes[] = {BYTES / 2, BYTES / 2}, idx[] = {0};
    CUmemcpyAttributes attr = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUresult r = cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, idx, 1, s);
    memset(dsts, 0, sizeof(dsts));
    memset(srcs, 0, sizeof(srcs));
    memset(sizes, 0, sizeof(sizes));
    return r;
}

/* From CUDA 13.2; older headers do not declare them. */
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                     CUmemcpyAttributes *attr, CUstream s);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                       CUstream s);

static CUresult by_attributes(CUdeviceptr dst, CUdeviceptr src, CUstream s)
{
    CUmemcpyAttributes attr = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUresult r = cuMemcpyWithAttributesAsync(dst, src, BYTES, &attr, s);
    memset(&attr, 0, sizeof(attr));
    return r;
}
#endif

static void copies_the_result(form copy)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(0);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    CUresult r = copy(y, x, s);
    if (r == CUDA_ERROR_NOT_SUPPORTED) {
        ok(cutin_stream_release(s));
        cr_skip_test("the driver has no such copy");
    }
    ok(r);
    ok(rig_launch(x, 11, 1, s));
    ok(cutin_stream_release(s));
    rig_expect(y, rig_mixed(3, 5, 7), s);
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), s);
}

#define COPIES(name, form)                                                                         \
    Test(copy, name##_keeps_its_place)                                                             \
    {                                                                                              \
        copies_the_result(form);                                                                   \
    }
COPIES(device_to_device, by_dtod)
COPIES(generic, by_generic)
COPIES(peer, by_peer)
COPIES(two_dimensional, by_2d)
COPIES(three_dimensional, by_3d)
#if CUDA_VERSION >= 13000
COPIES(batch, by_batch)
COPIES(attributes, by_attributes)

/* The driver judges what cutin cannot look into. */
Test(copy, batch_without_sizes_is_refused)
{
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(0);
    size_t idx = 0;
    CUmemcpyAttributes attr = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream s = rig_stream();
    rig_warm(s);
    CUresult r = cuMemcpyBatchAsync(&y, &x, NULL, 1, &attr, &idx, 1, s);
    if (r == CUDA_ERROR_NOT_SUPPORTED)
        cr_skip_test("the driver has no such copy");
    cr_assert_eq(r, CUDA_ERROR_INVALID_VALUE);
    rig_expect(y, 0, s);
}

struct box {
    CUDA_MEMCPY3D_BATCH_OP op;
    CUstream s;
};

static void copy_box(void *user)
{
    struct box *b = user;
    ok(cuMemcpy3DWithAttributesAsync(&b->op, 0, b->s));
}

Test(copy, three_dimensional_with_attributes_waits_for_launch)
{
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(0);
    struct box b = {.op = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = x},
                           .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = y},
                           .extent = {BYTES, 1, 1},
                           .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                    .s = rig_stream()};
    struct rig_thread t;
    rig_warm(b.s);
    ok(cutin_stream_hold(b.s));
    ok(rig_launch(x, 5, 7, b.s));
    rig_start(&t, copy_box, &b);
    rig_blocked(&t);
    ok(cutin_stream_release(b.s));
    rig_join(&t);
    rig_expect(y, rig_mixed(3, 5, 7), b.s);
}
#endif

Test(copy, memsets_keep_their_place)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuMemsetD32Async(x, 9, N, s));
    ok(rig_launch(x, 2, 1, s));
    ok(cuMemsetD2D32Async(x, BYTES / 4, 4, 1, 1, s)); /* one element */
    ok(cuMemsetD32Async(x, rig_mixed(9, 2, 1), 1, s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(9, 2, 1), s);
}

Test(copy, pinned_source_is_read_when_the_copy_runs)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(0);
    uint32_t *from = pinned(4), *to = pinned(0);
    ok(cutin_stream_hold(s));
    ok(cuMemcpyHtoDAsync(x, from, BYTES, s));
    ok(rig_launch(x, 3, 1, s));
    ok(cuMemcpyDtoHAsync(to, x, BYTES, s));
    cr_assert_eq(to[0], 0);
    for (int i = 0; i < N; i++)
        from[i] = 9;
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    for (int i = 0; i < N; i++)
        cr_assert_eq(to[i], rig_mixed(9, 3, 1));
}

struct pageable {
    CUstream s;
    CUdeviceptr x;
};

static void copy_from_stack(void *user)
{
    struct pageable *p = user;
    uint32_t *host = malloc(BYTES);
    for (int i = 0; i < N; i++)
        host[i] = 6;
    ok(cuMemcpyHtoDAsync(p->x, host, BYTES, p->s));
    memset(host, 0xff, BYTES);
    free(host);
    ok(rig_launch(p->x, 3, 1, p->s));
}

Test(copy, pageable_source_may_be_reused_after_call)
{
    struct pageable p = {rig_stream(), rig_buffer(0)};
    struct rig_thread t;
    rig_warm(p.s);
    ok(cutin_stream_hold(p.s));
    rig_start(&t, copy_from_stack, &p);
    rig_blocked(&t); /* it cannot be deferred and must not overtake */
    ok(cutin_stream_release(p.s));
    rig_join(&t);
    rig_expect(p.x, rig_mixed(6, 3, 1), p.s);
}

/* ---- synchronous -------------------------------------------------------------------------- */

struct read_back {
    CUdeviceptr x;
    uint32_t host[N];
};

static void read_back(void *user)
{
    struct read_back *r = user;
    ok(cuMemcpyDtoH(r->host, r->x, BYTES));
}

static void reads_fresh_data(CUstream s)
{
    static struct read_back r;
    struct rig_thread t;
    rig_warm(s);
    r.x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(r.x, 5, 7, s));
    rig_start(&t, read_back, &r);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    for (int i = 0; i < N; i++)
        cr_assert_eq(r.host[i], rig_mixed(3, 5, 7));
}

Test(copy, synchronous_read_gets_result_of_buffered_kernel)
{
    reads_fresh_data(rig_stream_blocking());
}

Test(copy, synchronous_read_gets_result_of_default_stream)
{
    reads_fresh_data(NULL);
}

Test(copy, synchronous_memset_keeps_its_place)
{
    CUstream s = rig_stream_blocking();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 5, 7, s));
    ok(cuMemsetD32(x, 8, N));
    ok(rig_launch(x, 3, 1, s));
    rig_expect(x, rig_mixed(8, 3, 1), NULL);
}

/* ---- stream-ordered allocation ------------------------------------------------------------ */

Test(copy, allocation_returns_address_while_held)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3), y = 0;
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuMemAllocAsync(&y, BYTES, s));
    cr_assert_neq(y, 0);
    ok(cuMemsetD32Async(y, 2, N, s));
    ok(rig_launch(y, 3, 1, s));
    ok(cuMemcpyDtoDAsync(x, y, BYTES, s));
    ok(cuMemFreeAsync(y, s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(2, 3, 1), s);
}

static void free_memory(void *user)
{
    ok(cuMemFree(*(CUdeviceptr *)user));
}

Test(copy, free_waits_for_buffered_work)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(0);
    struct rig_thread t;
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuMemcpyDtoDAsync(y, x, BYTES, s));
    rig_start(&t, free_memory, &x);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    rig_expect(y, rig_mixed(3, 5, 7), s);
}

Test(copy, bad_address_fails_the_call)
{
    CUstream s = rig_stream();
    uint32_t *p = pinned(0);
    answers(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(0x10, p, BYTES, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(0x10, 0, N, s));
    ok(cuStreamSynchronize(s));
}
