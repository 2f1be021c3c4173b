/*
 * pool.c - allocation in stream order while frees are buffered: the pool does not grow by them, and
 * the program sees nothing of it.
 */
#include <string.h>

#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

TestSuite(pool, .init = rig_open, .fini = rig_close);

enum { MB = 1 << 20, BOUND_MB = 64, ROUNDS = 200 };

static CUmemoryPool pool_new(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, rig_device}};
    CUmemoryPool pool;
    ok(cuMemPoolCreate(&pool, &props));
    return pool;
}

static uint64_t amount(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    ok(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static CUdeviceptr from(CUmemoryPool pool, size_t bytes, CUstream s)
{
    CUdeviceptr at = 0;
    ok(cuMemAllocFromPoolAsync(&at, bytes, pool, s));
    cr_assert_neq(at, 0);
    return at;
}

static CUstream held_stream(void)
{
    CUstream s = rig_stream();
    rig_warm(s);
    ok(cutin_stream_hold(s));
    return s;
}

/* Returns a block that was freed in a held stream. */
static CUdeviceptr freed_block(CUmemoryPool pool, CUstream s)
{
    CUdeviceptr at = from(pool, MB, s);
    ok(rig_launch(at, 5, 7, s));
    ok(cuMemFreeAsync(at, s));
    return at;
}

/* Natively one block serves all rounds. */
Test(pool, does_not_grow_with_buffered_frees)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream();
    CUdeviceptr sum = rig_buffer(3);
    uint32_t want = 3;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CUdeviceptr at = from(pool, 16 * MB, s);
        ok(cuMemcpyDtoDAsync(at, sum, N * sizeof(uint32_t), s));
        ok(rig_launch(at, 5, i, s));
        ok(cuMemcpyDtoDAsync(sum, at, N * sizeof(uint32_t), s));
        ok(cuMemFreeAsync(at, s));
        want = rig_mixed(want, 5, i);
    }
    cr_assert_leq(amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 16 * MB);
    cr_assert_leq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 16 * MB);
    ok(cutin_stream_release(s));
    rig_expect(sum, want, s);
    cr_assert_eq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

/* Only the cap keeps the frees from the driver here. */
Test(pool, does_not_grow_while_cap_delays_frees)
{
    CUmemoryPool pool = pool_new();
    CUstream s = rig_stream();
    uint64_t ns = 50000;
    void *params[] = {&ns};
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CUdeviceptr at = from(pool, 16 * MB, s);
        ok(cuLaunchKernel(rig_spin, 108, 1, 1, 256, 1, 1, 0, s, params, NULL));
        ok(cuMemFreeAsync(at, s));
    }
    ok(cuStreamSynchronize(s));
    cr_assert_leq(amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 16 * MB);
}

/* ---- what fits no freed block -------------------------------------------------------------- */

struct growing {
    CUmemoryPool pool;
    CUstream s;
    CUstream frees; /* where the blocks are freed */
    _Atomic uint32_t rounds;
};

/* Allocates and frees blocks of sizes that do not serve each other. */
static void grow(void *user)
{
    struct growing *g = user;
    for (uint32_t mb = 8; mb < 40; mb++) {
        CUdeviceptr at = from(g->pool, mb * MB, g->s);
        ok(rig_launch(at, 5, 7, g->frees));
        ok(cuMemFreeAsync(at, g->frees));
        atomic_fetch_add(&g->rounds, 1);
    }
}

static void waits_beyond_the_bound(CUstream s, CUstream frees)
{
    struct growing g = {pool_new(), s, frees, 0};
    struct rig_thread t;
    rig_warm(frees);
    ok(cutin_stream_hold(frees));
    rig_start(&t, grow, &g);
    /* These fit below the bound. */
    for (int naps = 0; atomic_load(&g.rounds) <= 3 && naps < 20000; naps++)
        rig_nap();
    cr_assert_gt(atomic_load(&g.rounds), 3);
    rig_blocked(&t);
    /* Memory that is not free, natively, and not in the driver: within a block of the bound. */
    cr_assert_leq(amount(g.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), (BOUND_MB + 40) * MB);
    ok(cutin_stream_release(frees));
    rig_join(&t);
    ok(cuStreamSynchronize(frees));
    cr_assert_eq(amount(g.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

Test(pool, allocation_beyond_bound_waits_for_frees)
{
    CUstream s = rig_stream();
    waits_beyond_the_bound(s, s);
}

Test(pool, allocation_beyond_bound_waits_for_frees_of_other_stream)
{
    waits_beyond_the_bound(rig_stream(), rig_stream());
}

/* ---- which call reuses a block --------------------------------------------------------------- */

Test(pool, freed_block_is_reused_once_only_in_its_stream)
{
    CUmemoryPool pool = pool_new(), other = pool_new();
    CUstream s = held_stream(), elsewhere = rig_stream();
    CUdeviceptr at = freed_block(pool, s), got;
    cr_assert_neq(from(pool, MB, elsewhere), at);
    cr_assert_neq(from(other, MB, s), at);
    cr_assert_neq(from(pool, MB - 4, s), at);
    ok(cuMemAllocAsync(&got, MB, s));
    cr_assert_neq(got, at);
    cr_assert_eq(from(pool, MB, s), at);
    cr_assert_neq(from(pool, MB, s), at);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
}

Test(pool, reused_block_stays_allocated)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream();
    CUdeviceptr at = freed_block(pool, s);
    cr_assert_eq(from(pool, MB, s), at);
    ok(cuMemsetD32Async(at, 4, N, s));
    ok(cutin_stream_release(s));
    rig_expect(at, 4, s);
    cr_assert_eq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), MB);
    ok(cuMemFreeAsync(at, s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

Test(pool, destroyed_pool_gives_no_block)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream();
    CUdeviceptr got = 0;
    freed_block(pool, s);
    ok(cuMemPoolDestroy(pool));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&got, MB, pool, s));
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
}

Test(pool, allocation_uses_current_pool)
{
    CUmemoryPool pool = pool_new(), of = NULL;
    CUstream s = held_stream();
    CUdeviceptr at, got;
    ok(cuMemAllocAsync(&at, MB, s));
    ok(cuMemFreeAsync(at, s));
    ok(cuDeviceSetMemPool(rig_device, pool));
    ok(cuMemAllocAsync(&got, MB, s));
    ok(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, got));
    cr_assert_eq(of, pool);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
}

Test(pool, block_with_own_attributes_is_not_reused)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream();
    CUdeviceptr at = from(pool, MB, s);
    int yes = 1;
    ok(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    ok(cuMemFreeAsync(at, s));
    cr_assert_neq(from(pool, MB, s), at);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
}

/* ---- which calls may use a pool ----------------------------------------------------------- */

static CUmemoryPool host_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {(CUmemLocationType)2, 0}}; /* the host, from 12.2 on */
    CUmemoryPool pool;
    ok(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUresult pool_let(CUmemoryPool pool, CUmemAccess_flags flags)
{
    CUmemAccessDesc to = {{CU_MEM_LOCATION_TYPE_DEVICE, rig_device}, flags};
    return cuMemPoolSetAccess(pool, &to, 1);
}

Test(pool, copies_from_host_pool_are_deferred)
{
    CUmemoryPool pool = host_pool();
    ok(pool_let(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CUstream s = held_stream();
    CUdeviceptr at = from(pool, N * sizeof(uint32_t), s), x = rig_buffer(3);
    uint32_t *host = (uint32_t *)(uintptr_t)at;
    for (int i = 0; i < N; i++)
        host[i] = 1;
    ok(cuMemcpyHtoDAsync(x, host, N * sizeof(uint32_t), s));
    for (int i = 0; i < N; i++)
        host[i] = 8; /* the copy reads this when it is called */
    ok(cuMemFreeAsync(at, s));
    ok(cutin_stream_release(s));
    rig_expect(x, 8, s);
    cr_assert_eq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

struct copying {
    CUdeviceptr to, from;
    CUstream s;
    CUresult r;
};

static void copying(void *user)
{
    struct copying *c = user;
    c->r = cuMemcpyAsync(c->to, c->from, N * sizeof(uint32_t), c->s);
}

Test(pool, copy_without_access_to_host_pool_fails_the_call)
{
    struct copying c = {.to = rig_buffer(3), .s = held_stream()};
    struct rig_thread t;
    c.from = from(host_pool(), N * sizeof(uint32_t), c.s);
    rig_start(&t, copying, &c);
    rig_blocked(&t);
    ok(cutin_stream_release(c.s));
    rig_join(&t);
    cr_assert_eq(c.r, CUDA_ERROR_INVALID_VALUE);
    rig_expect(c.to, 3, c.s);
}

struct taking {
    CUmemoryPool pool;
    CUresult r;
};

static unsigned launches(void)
{
    return watch_count(WATCH_cuLaunchKernel) + watch_count(WATCH_cuLaunchKernelEx);
}

static _Atomic unsigned launches_at_taking;

/* In fact nothing is taken: a kernel on its way may still need it, as natively. */
static int at_taking(const intptr_t *argument)
{
    (void)argument;
    launches_at_taking = launches();
    return WATCH_DONE;
}

static void taking(void *user)
{
    struct taking *t = user;
    t->r = pool_let(t->pool, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

Test(pool, access_change_waits_for_buffered_work)
{
    struct taking take = {.pool = host_pool()};
    struct rig_thread t;
    ok(pool_let(take.pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CUstream s = held_stream();
    CUdeviceptr at = from(take.pool, N * sizeof(uint32_t), s);
    unsigned before = launches();
    ok(rig_launch(at, 5, 7, s));
    watch_before(WATCH_cuMemPoolSetAccess, at_taking);
    rig_start(&t, taking, &take);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    watch_before(WATCH_cuMemPoolSetAccess, NULL);
    ok(take.r);
    cr_assert_eq(launches_at_taking - before, 1);
    ok(cuStreamSynchronize(s));
}

/* ---- errors ---------------------------------------------------------------------------------- */

Test(pool, double_free_is_refused_while_first_is_buffered)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream(), other = rig_stream();
    CUdeviceptr at = freed_block(pool, s);
    answers(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at, s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at, other));
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    answers(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at, s));
    ok(cuStreamSynchronize(s));
}

Test(pool, refused_free_keeps_block)
{
    CUmemoryPool pool = pool_new();
    CUstream s = rig_stream();
    CUdeviceptr at = from(pool, MB, s);
    answers(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(at + 256, s));
    ok(cuMemFreeAsync(at, s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

Test(pool, dropped_free_keeps_block)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream();
    CUdeviceptr at = freed_block(pool, s);
    cr_assert_gt(cutin_stream_reset(s), 0);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
    cr_assert_neq(from(pool, MB, s), at);
    ok(cuMemFreeAsync(at, s));
    ok(cuStreamSynchronize(s));
    cr_assert_eq(amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), MB);
}

Test(pool, refused_allocation_reuses_no_block)
{
    CUmemoryPool pool = pool_new();
    CUstream s = held_stream();
    CUdeviceptr at = freed_block(pool, s);
    answers(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(NULL, MB, pool, s));
    cr_assert_eq(from(pool, MB, s), at);
    ok(cutin_stream_release(s));
    ok(cuStreamSynchronize(s));
}
