/*
 * run.c - executing a program through the CUDA Driver API (see run.h).
 *
 * One pthread per program thread walks the op list and executes its own; BARRIER ops are where they
 * meet. Only what the driver returns and what memory holds is recorded: the comparison is
 * elsewhere.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hold.h"
#include "kernels_ptx.h"

enum { BYTES = WORDS * 4, ARENA = MAX_OPS * GRAPH_OPS };

struct host_call { /* argument of a host function */
    uint32_t *x, a, b;
    uint64_t *answer; /* not NULL: calls CUDA, and this is what the driver said */
};

struct machine {
    const struct program *p;
    struct outcome *out;
    CUdevice device;
    CUcontext ctx;
    CUmodule module, second; /* `second` is unloaded and loaded again by programs */
    CUlibrary library;
    struct funcs {
        CUfunction mix, mix_spin, fill, copy, spin;
    } f, g, k; /* of module, second, and the library's kernels */
    CUstream stream[STREAMS], side[THREADS];
    CUevent event[EVENTS], fork_event[THREADS];
    CUdeviceptr device_buffer[PINNED], pooled[BUFFERS - POOLED];
    void *pinned[PAGEABLE - PINNED];
    uint32_t pageable[POOLED - PAGEABLE][WORDS];
    CUdeviceptr flags, managed;
    CUmemoryPool pool; /* the program's own; half of the allocations come from it */
    CUgraph graph[EXECS];
    CUgraphExec exec[EXECS];
    pthread_barrier_t meet;
    struct host_call arena[ARENA];
    _Atomic unsigned arena_used;
    pthread_rwlock_t functions; /* reloads of `second` and the library against launches of it */
};

static struct machine m;

static void broken(const char *what)
{
    if (!m.out->broken[0])
        snprintf(m.out->broken, sizeof m.out->broken, "%s", what);
}

/* What was given to a call is the caller's again afterwards: whoever kept a pointer reads rubbish.
 * Not a store that the compiler may drop. */
static void spoil(void *data, size_t bytes)
{
    memset(data, 0xee, bytes);
    __asm__ volatile("" : : "r"(data) : "memory");
}

static void *host_address(int buffer)
{
    return buffer < PAGEABLE ? m.pinned[buffer - PINNED] : m.pageable[buffer - PAGEABLE];
}

/* Unified addressing: every buffer has one address that all calls accept. */
static CUdeviceptr address(int buffer)
{
    if (buffer < PINNED)
        return m.device_buffer[buffer];
    if (buffer < POOLED)
        return (CUdeviceptr)(uintptr_t)host_address(buffer);
    return m.pooled[buffer - POOLED];
}

/* How this op names its stream: NULL through the per-thread symbol, or an explicit handle. */
static bool use_ptsz(const struct op *o)
{
    return o->stream >= PER_THREAD && o->stream < CREATED && (o->variant & 2);
}

static CUstream handle(const struct op *o)
{
    if (o->stream == LEGACY)
        return o->variant & 2 ? NULL : CU_STREAM_LEGACY;
    if (o->stream < CREATED)
        return o->variant & 2 ? NULL : CU_STREAM_PER_THREAD;
    return m.stream[o->stream];
}
#define CALL(fn, o, ...) (use_ptsz(o) ? fn##_ptsz(__VA_ARGS__) : fn(__VA_ARGS__))

/* ---- host functions ------------------------------------------------------------------------ */

static struct host_call *host_call_new(uint32_t *x, uint32_t a, uint32_t b)
{
    struct host_call *c = &m.arena[m.arena_used++ % ARENA];
    *c = (struct host_call){.x = x, .a = a, .b = b};
    return c;
}

static void host_function(void *data)
{
    struct host_call *c = data;
    if (c->x)
        buffer_mix(c->x, c->a, c->b);
    if (c->answer) {
        size_t free_bytes, total_bytes;
        *c->answer = 1 + (uint64_t)cuMemGetInfo_v2(&free_bytes, &total_bytes);
    }
}

static void CUDA_CB callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    if (status != CUDA_SUCCESS)
        broken("a callback got an error status");
    host_function(data);
}

/* ---- kernels ------------------------------------------------------------------------------- */

static CUresult load_functions(CUmodule module, struct funcs *f)
{
    CUresult r = cuModuleGetFunction(&f->mix, module, "mix");
    r = r ? r : cuModuleGetFunction(&f->mix_spin, module, "mix_spin");
    r = r ? r : cuModuleGetFunction(&f->fill, module, "fill");
    r = r ? r : cuModuleGetFunction(&f->copy, module, "copy");
    return r ? r : cuModuleGetFunction(&f->spin, module, "spin");
}

static CUresult load_library(void)
{
    CUresult r = cuLibraryLoadData(&m.library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0);
    if (r)
        return r;
    struct funcs *k = &m.k;
    r = cuLibraryGetKernel((CUkernel *)&k->mix, m.library, "mix");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->mix_spin, m.library, "mix_spin");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->fill, m.library, "fill");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->copy, m.library, "copy");
    return r ? r : cuLibraryGetKernel((CUkernel *)&k->spin, m.library, "spin");
}

static const struct funcs *functions(const struct op *o)
{
    switch (o->variant >> 2 & 3) {
    case 0:
        return &m.g;
    case 1:
        return &m.k;
    default:
        return &m.f;
    }
}

static CUresult launch(const struct op *o, CUfunction f, void **params)
{
    unsigned blocks = o->variant & 16 ? 4 : 1, threads = o->variant & 32 ? 128 : WORDS;
    return CALL(cuLaunchKernel, o, f, blocks, 1, 1, threads, 1, 1, 0, handle(o), params, NULL);
}

/* The same launch spelt with one packed buffer. */
static CUresult launch_extra(const struct op *o, CUfunction f, uint64_t x, uint32_t a, uint32_t b)
{
    struct {
        uint64_t x;
        uint32_t a, b, n;
    } packed = {x, a, b, WORDS};
    size_t bytes = 20;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUresult r = CALL(cuLaunchKernel, o, f, 1, 1, 1, WORDS, 1, 1, 0, handle(o), NULL, extra);
    spoil(&packed, sizeof packed);
    return r;
}

static CUresult launch_ex(const struct op *o, CUfunction f, void **params)
{
    CUlaunchAttribute attribute = {.id = o->variant & 16 ? CU_LAUNCH_ATTRIBUTE_PRIORITY
                                                         : CU_LAUNCH_ATTRIBUTE_IGNORE};
    attribute.value.priority = 0;
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = WORDS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = handle(o),
                             .attrs = &attribute,
                             .numAttrs = 1};
    CUresult r = CALL(cuLaunchKernelEx, o, &config, f, params, NULL);
    spoil(&attribute, sizeof attribute);
    spoil(&config, sizeof config);
    return r;
}

static CUresult do_kernel(const struct op *o)
{
    uint64_t dst = address(o->dst), src = address(o->src), ns = o->ns;
    uint32_t a = o->a, b = o->b, n = WORDS;
    pthread_rwlock_rdlock(&m.functions);
    const struct funcs *f = functions(o);
    CUresult r;
    switch (o->kind) {
    case OP_MIX_EXTRA:
        r = launch_extra(o, f->mix, dst, a, b);
        break;
    case OP_MIX_EX:
        r = launch_ex(o, f->mix, (void *[]){&dst, &a, &b, &n});
        break;
    case OP_MIX_COOP:
        r = CALL(cuLaunchCooperativeKernel, o, f->mix, 1, 1, 1, WORDS, 1, 1, 0, handle(o),
                 (void *[]){&dst, &a, &b, &n});
        break;
    case OP_FILL:
        r = launch(o, f->fill, (void *[]){&dst, &a, &n});
        break;
    case OP_COPY_KERNEL:
        r = launch(o, f->copy, (void *[]){&dst, &src, &n});
        break;
    case OP_SPIN:
        r = launch(o, f->spin, (void *[]){&ns});
        break;
    default:
        r = ns ? launch(o, f->mix_spin, (void *[]){&dst, &a, &b, &n, &ns})
               : launch(o, f->mix, (void *[]){&dst, &a, &b, &n});
    }
    pthread_rwlock_unlock(&m.functions);
    spoil(&dst, sizeof dst);
    spoil(&src, sizeof src);
    spoil(&a, sizeof a);
    spoil(&b, sizeof b);
    spoil(&n, sizeof n);
    spoil(&ns, sizeof ns);
    return r;
}

/* ---- copies -------------------------------------------------------------------------------- */

static CUresult copy_2d(const struct op *o)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .srcDevice = address(o->src),
                       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .dstDevice = address(o->dst),
                       .srcPitch = BYTES / 4,
                       .dstPitch = BYTES / 4,
                       .WidthInBytes = BYTES / 4,
                       .Height = 4};
    if (o->src >= PAGEABLE && o->src < POOLED) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = host_address(o->src);
    }
    CUresult r = CALL(cuMemcpy2DAsync_v2, o, &c, handle(o));
    spoil(&c, sizeof c);
    return r;
}

static CUresult copy_3d(const struct op *o)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .srcDevice = address(o->src),
                       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                       .dstDevice = address(o->dst),
                       .srcPitch = BYTES / 4,
                       .dstPitch = BYTES / 4,
                       .srcHeight = 2,
                       .dstHeight = 2,
                       .WidthInBytes = BYTES / 4,
                       .Height = 2,
                       .Depth = 2};
    CUresult r = CALL(cuMemcpy3DAsync_v2, o, &c, handle(o));
    spoil(&c, sizeof c);
    return r;
}

static CUresult copy_batch(const struct op *o)
{
#if CUDA_VERSION >= 13000
    CUdeviceptr dst[2] = {address(o->dst), address(o->dst) + BYTES / 2};
    CUdeviceptr src[2] = {address(o->src), address(o->src) + BYTES / 2};
    size_t bytes[2] = {BYTES / 2, BYTES / 2}, first = 0;
    CUmemcpyAttributes attribute = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    if (o->stream < CREATED) /* batches refuse the NULL streams */
        return CALL(cuMemcpyAsync, o, dst[0], src[0], BYTES, handle(o));
    CUresult r = cuMemcpyBatchAsync_v2(dst, src, bytes, 2, &attribute, &first, 1, handle(o));
    spoil(dst, sizeof dst);
    spoil(src, sizeof src);
    return r;
#else
    return CALL(cuMemcpyAsync, o, address(o->dst), address(o->src), BYTES, handle(o));
#endif
}

static CUresult do_copy(const struct op *o)
{
    CUdeviceptr dst = address(o->dst), src = address(o->src);
    bool ptds = o->variant & 1;
    switch (o->kind) {
    case OP_H2D:
        return CALL(cuMemcpyHtoDAsync_v2, o, dst, host_address(o->src), BYTES, handle(o));
    case OP_D2H:
        return CALL(cuMemcpyDtoHAsync_v2, o, host_address(o->dst), src, BYTES, handle(o));
    case OP_D2D:
        if (o->variant & 16)
            return CALL(cuMemcpyPeerAsync, o, dst, m.ctx, src, m.ctx, BYTES, handle(o));
        return CALL(cuMemcpyDtoDAsync_v2, o, dst, src, BYTES, handle(o));
    case OP_COPY_ANY:
        return CALL(cuMemcpyAsync, o, dst, src, BYTES, handle(o));
    case OP_COPY_2D:
        return copy_2d(o);
    case OP_COPY_3D:
        return copy_3d(o);
    case OP_COPY_BATCH:
        return copy_batch(o);
    case OP_MEMSET8:
        return CALL(cuMemsetD8Async, o, dst, (unsigned char)o->a, BYTES, handle(o));
    case OP_MEMSET16:
        return CALL(cuMemsetD16Async, o, dst, (unsigned short)o->a, BYTES / 2, handle(o));
    case OP_MEMSET32:
        return CALL(cuMemsetD32Async, o, dst, o->a, WORDS, handle(o));
    case OP_MEMSET2D:
        return CALL(cuMemsetD2D32Async, o, dst, BYTES / 4, o->a, WORDS / 4, 4, handle(o));
    case OP_SYNC_H2D:
        return ptds ? cuMemcpyHtoD_v2_ptds(dst, host_address(o->src), BYTES)
                    : cuMemcpyHtoD_v2(dst, host_address(o->src), BYTES);
    case OP_SYNC_D2H:
        return ptds ? cuMemcpyDtoH_v2_ptds(host_address(o->dst), src, BYTES)
                    : cuMemcpyDtoH_v2(host_address(o->dst), src, BYTES);
    case OP_SYNC_D2D:
        return ptds ? cuMemcpyDtoD_v2_ptds(dst, src, BYTES) : cuMemcpyDtoD_v2(dst, src, BYTES);
    case OP_SYNC_ANY:
        return ptds ? cuMemcpy_ptds(dst, src, BYTES) : cuMemcpy(dst, src, BYTES);
    default:
        return ptds ? cuMemsetD32_v2_ptds(dst, o->a, WORDS) : cuMemsetD32_v2(dst, o->a, WORDS);
    }
}

/* ---- memory, host functions, memops -------------------------------------------------------- */

static CUresult do_host(const struct op *o, uint32_t index)
{
    uint32_t *x = o->kind == OP_HOST_FUNC_CUDA ? NULL : host_address(o->dst);
    switch (o->kind) {
    case OP_HOST_WRITE:
        buffer_seed(x, o->a);
        return CUDA_SUCCESS;
    case OP_HOST_READ:
        m.out->value[index] = buffer_hash(x);
        return CUDA_SUCCESS;
    case OP_CALLBACK:
        return CALL(cuStreamAddCallback, o, handle(o), callback, host_call_new(x, o->a, o->b), 0);
    default: {
        struct host_call *c = host_call_new(x, o->a, o->b);
        if (!x)
            c->answer = &m.out->value[index];
        return CALL(cuLaunchHostFunc, o, handle(o), host_function, c);
    }
    }
}

static CUresult do_flag(const struct op *o)
{
    CUdeviceptr word = m.flags + 4u * o->flag;
    if (o->kind == OP_FLAG_WRITE)
        return CALL(cuStreamWriteValue32_v2, o, handle(o), word, o->a, 0);
    if (o->kind == OP_FLAG_WAIT)
        return CALL(cuStreamWaitValue32_v2, o, handle(o), word, o->a, CU_STREAM_WAIT_VALUE_GEQ);
    CUstreamBatchMemOpParams batch[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = word,
                        .value = o->a}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = word,
                       .value = o->a,
                       .flags = CU_STREAM_WAIT_VALUE_GEQ}}};
    CUresult r = CALL(cuStreamBatchMemOp_v2, o, handle(o), 2, batch, 0);
    spoil(batch, sizeof batch);
    return r;
}

static CUresult do_memory(const struct op *o)
{
    CUdeviceptr *pooled = o->kind == OP_ALLOC_FREE ? NULL : &m.pooled[o->dst - POOLED];
    CUdeviceptr temporary;
    CUresult r;
    switch (o->kind) {
    case OP_ALLOC_ASYNC:
        r = o->variant & 16 ? CALL(cuMemAllocFromPoolAsync, o, pooled, BYTES, m.pool, handle(o))
                            : CALL(cuMemAllocAsync, o, pooled, BYTES, handle(o));
        if (r)
            return r;
        if (!*pooled)
            broken("cuMemAllocAsync returned no address");
        return CALL(cuMemsetD32Async, o, *pooled, o->a, WORDS, handle(o));
    case OP_FREE_ASYNC:
        r = CALL(cuMemFreeAsync, o, *pooled, handle(o));
        *pooled = 0;
        return r;
    default:
        r = cuMemAlloc_v2(&temporary, 4096);
        return r ? r : cuMemFree_v2(temporary);
    }
}

/* ---- events, streams, modules -------------------------------------------------------------- */

/* Queries may answer either way, unless the model knows. */
static CUresult judge_query(const struct op *o, CUresult r)
{
    if (r == CUDA_ERROR_NOT_READY && o->must_be_done)
        broken("a query said not ready although its work had been waited for");
    return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

static void poll_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static CUresult event_poll(CUevent event)
{
    CUresult r;
    while ((r = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        poll_nap();
    return r;
}

static CUresult stream_poll(const struct op *o)
{
    CUresult r;
    while ((r = CALL(cuStreamQuery, o, handle(o))) == CUDA_ERROR_NOT_READY)
        poll_nap();
    return r;
}

static CUresult do_event(const struct op *o)
{
    CUevent *event = &m.event[o->event];
    float ms;
    switch (o->kind) {
    case OP_RECORD:
        return o->variant & 4 ? CALL(cuEventRecordWithFlags, o, *event, handle(o), 0)
                              : CALL(cuEventRecord, o, *event, handle(o));
    case OP_WAIT:
        return CALL(cuStreamWaitEvent, o, handle(o), *event, 0);
    case OP_EVENT_SYNC:
        return cuEventSynchronize(*event);
    case OP_EVENT_POLL:
        return event_poll(*event);
    case OP_EVENT_QUERY:
        return judge_query(o, cuEventQuery(*event));
    case OP_ELAPSED: {
        CUresult r = cuEventElapsedTime(&ms, *event, *event);
        return r == CUDA_ERROR_NOT_READY || r == CUDA_ERROR_INVALID_HANDLE ? CUDA_SUCCESS : r;
    }
    default: {
        CUresult r = cuEventDestroy_v2(*event);
        return r ? r : cuEventCreate(event, 0);
    }
    }
}

static CUresult prefetch(const struct op *o)
{
#if CUDA_VERSION >= 12020
    CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m.device};
    return CALL(cuMemPrefetchAsync_v2, o, m.managed, BYTES, there, 0, handle(o));
#else
    return CALL(cuMemPrefetchAsync, o, m.managed, BYTES, m.device, handle(o));
#endif
}

static CUresult do_stream(const struct op *o)
{
    switch (o->kind) {
    case OP_STREAM_SYNC:
        return CALL(cuStreamSynchronize, o, handle(o));
    case OP_STREAM_QUERY:
        return judge_query(o, CALL(cuStreamQuery, o, handle(o)));
    case OP_STREAM_POLL:
        return stream_poll(o);
    case OP_HOLD:
        hold_begin(o->stream, handle(o), 1 + o->a % (o->variant & 2 ? 100 : 1000));
        return CUDA_SUCCESS;
    case OP_PREFETCH:
        return prefetch(o);
    case OP_SET_ATTRIBUTE: {
        CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_AUTO};
        if (o->stream < CREATED)
            return CUDA_SUCCESS;
        if (o->variant & 16)
            return cuStreamCopyAttributes(handle(o), m.side[o->thread]);
        return cuStreamSetAttribute(handle(o), CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    }
    default: {
        CUstream *s = &m.stream[o->stream];
        hold_end(o->stream);
        CUresult r = cuStreamDestroy_v2(*s);
        return r ? r
                 : cuStreamCreateWithPriority(s, m.p->stream_flags[o->stream],
                                              m.p->stream_priority[o->stream]);
    }
    }
}

static CUresult do_reload(const struct op *o)
{
    CUresult r;
    pthread_rwlock_wrlock(&m.functions);
    if (o->kind == OP_MODULE_RELOAD) {
        r = cuModuleUnload(m.second);
        r = r ? r : cuModuleLoadData(&m.second, kernels_ptx);
        r = r ? r : load_functions(m.second, &m.g);
    } else {
        r = cuLibraryUnload(m.library);
        r = r ? r : load_library();
    }
    pthread_rwlock_unlock(&m.functions);
    return r;
}

static CUresult do_bad(const struct op *o)
{
    uint32_t a = 1, b = 1, n = WORDS;
    uint64_t x = m.device_buffer[0];
    void *params[] = {&x, &a, &b, &n};
    switch (o->kind) {
    case OP_BAD_GRID:
        return CALL(cuLaunchKernel, o, m.f.mix, o->variant & 4 ? 0 : 1, 1, 1,
                    o->variant & 4 ? 32 : 4096, 1, 1, 0, handle(o), params, NULL);
    case OP_BAD_STREAM:
        return cuStreamQuery((CUstream)&m.arena[0]);
    case OP_BAD_EVENT:
        return cuEventRecord((CUevent)&m.arena[0], handle(o));
    default:
        return CALL(cuLaunchKernel, o, m.f.mix, 1, 1, 1, 32, 1, 1, 1u << 30, handle(o), params,
                    NULL);
    }
}

/* ---- graphs -------------------------------------------------------------------------------- */

static CUresult capture_step(const struct graph_op *g, CUstream s)
{
    uint64_t dst = address(g->dst), src = address(g->src);
    uint32_t a = g->a, b = g->b, n = WORDS;
    switch (g->kind) {
    case OP_MIX:
        return cuLaunchKernel(m.f.mix, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&dst, &a, &b, &n},
                              NULL);
    case OP_FILL:
        return cuLaunchKernel(m.f.fill, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&dst, &a, &n}, NULL);
    case OP_COPY_KERNEL:
        return cuLaunchKernel(m.f.copy, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&dst, &src, &n},
                              NULL);
    case OP_MEMSET32:
        return cuMemsetD32Async(dst, a, WORDS, s);
    case OP_D2D:
        return cuMemcpyDtoDAsync_v2(dst, src, BYTES, s);
    default:
        return cuLaunchHostFunc(s, host_function, host_call_new(host_address(g->dst), a, b));
    }
}

static CUresult do_capture(const struct op *o)
{
    CUstream s = o->stream < CREATED ? CU_STREAM_PER_THREAD : m.stream[o->stream];
    CUstream side = m.side[o->thread];
    CUevent event = m.fork_event[o->thread];
    CUgraph *graph = &m.graph[o->exec];
    CUgraphExec *exec = &m.exec[o->exec];
    if (*exec)
        cuGraphExecDestroy(*exec);
    if (*graph)
        cuGraphDestroy(*graph);
    *exec = NULL;
    *graph = NULL;
    CUresult r = cuStreamBeginCapture_v2(s, o->variant & 8 ? CU_STREAM_CAPTURE_MODE_RELAXED
                                                           : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (int i = 0; !r && i < o->graph_count; i++) {
        if (!o->graph[i].fork) {
            r = capture_step(&o->graph[i], s);
            continue;
        }
        r = cuEventRecord(event, s);
        r = r ? r : cuStreamWaitEvent(side, event, 0);
        r = r ? r : capture_step(&o->graph[i], side);
        r = r ? r : cuEventRecord(event, side);
        r = r ? r : cuStreamWaitEvent(s, event, 0);
    }
    CUresult end = cuStreamEndCapture(s, graph);
    r = r ? r : end;
    return r ? r : cuGraphInstantiateWithFlags(exec, *graph, 0);
}

static CUresult graph_update(const struct op *o)
{
    CUgraphNode root;
    size_t count = 1;
    uint64_t dst = address(o->dst);
    uint32_t a = o->a, b = o->b, n = WORDS;
    CUresult r = cuGraphGetRootNodes(m.graph[o->exec], &root, &count);
    if (r)
        return r;
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = m.f.mix,
                                         .gridDimX = 1,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = WORDS,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = (void *[]){&dst, &a, &b, &n}};
    return cuGraphExecKernelNodeSetParams_v2(m.exec[o->exec], root, &params);
}

static CUresult do_graph(const struct op *o)
{
    CUresult r;
    switch (o->kind) {
    case OP_CAPTURE:
        return do_capture(o);
    case OP_GRAPH_LAUNCH:
        return CALL(cuGraphLaunch, o, m.exec[o->exec], handle(o));
    case OP_GRAPH_UPDATE:
        return graph_update(o);
    default:
        r = cuGraphExecDestroy(m.exec[o->exec]);
        m.exec[o->exec] = NULL;
        return r;
    }
}

/* ---- one program --------------------------------------------------------------------------- */

static CUresult execute(const struct op *o, uint32_t index)
{
    switch (o->kind) {
    case OP_BARRIER:
        pthread_barrier_wait(&m.meet);
        return CUDA_SUCCESS;
    case OP_MIX:
    case OP_MIX_EXTRA:
    case OP_MIX_EX:
    case OP_MIX_COOP:
    case OP_FILL:
    case OP_COPY_KERNEL:
    case OP_SPIN:
        return do_kernel(o);
    case OP_HOST_WRITE:
    case OP_HOST_READ:
    case OP_HOST_FUNC:
    case OP_CALLBACK:
    case OP_HOST_FUNC_CUDA:
        return do_host(o, index);
    case OP_RECORD:
    case OP_WAIT:
    case OP_EVENT_SYNC:
    case OP_EVENT_POLL:
    case OP_EVENT_QUERY:
    case OP_ELAPSED:
    case OP_EVENT_DESTROY:
        return do_event(o);
    case OP_STREAM_QUERY:
    case OP_STREAM_POLL:
    case OP_STREAM_SYNC:
    case OP_STREAM_DESTROY:
    case OP_HOLD:
    case OP_SET_ATTRIBUTE:
    case OP_PREFETCH:
        return do_stream(o);
    case OP_CTX_SYNC:
        return cuCtxSynchronize();
    case OP_FLAG_WRITE:
    case OP_FLAG_WAIT:
    case OP_FLAG_BATCH:
        return do_flag(o);
    case OP_ALLOC_ASYNC:
    case OP_FREE_ASYNC:
    case OP_ALLOC_FREE:
        return do_memory(o);
    case OP_CAPTURE:
    case OP_GRAPH_LAUNCH:
    case OP_GRAPH_UPDATE:
    case OP_GRAPH_DESTROY:
        return do_graph(o);
    case OP_MODULE_RELOAD:
    case OP_LIBRARY_RELOAD:
        return do_reload(o);
    case OP_BAD_GRID:
    case OP_BAD_STREAM:
    case OP_BAD_EVENT:
    case OP_BAD_PARAMS:
        return do_bad(o);
    default:
        return do_copy(o);
    }
}

static void *thread_main(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    cuCtxSetCurrent(m.ctx);
    for (uint32_t i = 0; i < m.p->op_count; i++) {
        const struct op *o = &m.p->ops[i];
        if (o->kind == OP_BARRIER)
            execute(o, i);
        else if (o->thread == me)
            m.out->code[i] = (int32_t)execute(o, i);
    }
    return NULL;
}

static CUresult set_up(void)
{
    CUresult r = CUDA_SUCCESS;
    for (int s = CREATED; s < STREAMS && !r; s++)
        r = cuStreamCreateWithPriority(&m.stream[s], m.p->stream_flags[s], m.p->stream_priority[s]);
    for (int t = 0; t < THREADS && !r; t++) {
        r = cuStreamCreate(&m.side[t], CU_STREAM_NON_BLOCKING);
        r = r ? r : cuEventCreate(&m.fork_event[t], CU_EVENT_DISABLE_TIMING);
    }
    for (int e = 0; e < EVENTS && !r; e++)
        r = cuEventCreate(&m.event[e], e % 2 ? CU_EVENT_DISABLE_TIMING : 0);
    r = r ? r : cuMemsetD32_v2(m.flags, 0, FLAGS);
    for (int b = 0; b < POOLED && !r; b++) {
        uint32_t words[WORDS];
        buffer_seed(words, (uint32_t)b);
        if (b < PINNED)
            r = cuMemcpyHtoD_v2(address(b), words, BYTES);
        else
            memcpy(host_address(b), words, BYTES);
    }
    return r ? r : cuCtxSynchronize();
}

static void take_down(void)
{
    CUresult r = cuCtxSynchronize();
    if (r)
        broken("the last synchronisation failed");
    for (int b = 0; b < BUFFERS; b++) {
        uint32_t words[WORDS];
        if (b >= PINNED && b < POOLED)
            memcpy(words, host_address(b), BYTES);
        else if (!address(b) || cuMemcpyDtoH_v2(words, address(b), BYTES))
            continue;
        m.out->final_hash[b] = buffer_hash(words);
    }
    for (int b = 0; b < BUFFERS - POOLED; b++)
        if (m.pooled[b])
            cuMemFree_v2(m.pooled[b]);
    for (int e = 0; e < EXECS; e++) {
        if (m.exec[e])
            cuGraphExecDestroy(m.exec[e]);
        if (m.graph[e])
            cuGraphDestroy(m.graph[e]);
    }
    for (int s = CREATED; s < STREAMS; s++) {
        hold_end(s);
        cuStreamDestroy_v2(m.stream[s]);
    }
    for (int t = 0; t < THREADS; t++) {
        cuStreamDestroy_v2(m.side[t]);
        cuEventDestroy_v2(m.fork_event[t]);
    }
    for (int e = 0; e < EVENTS; e++)
        cuEventDestroy_v2(m.event[e]);
    memset(m.exec, 0, sizeof m.exec);
    memset(m.graph, 0, sizeof m.graph);
    memset(m.pooled, 0, sizeof m.pooled);
    m.arena_used = 0;
}

void run_program(const struct program *p, struct outcome *out)
{
    memset(out, 0, sizeof *out);
    m.p = p;
    m.out = out;
    if (set_up()) {
        broken("set-up failed");
        out->done = 1;
        return;
    }
    pthread_barrier_init(&m.meet, NULL, p->threads);
    pthread_t threads[THREADS];
    for (uintptr_t t = 1; t < p->threads; t++)
        pthread_create(&threads[t], NULL, thread_main, (void *)t);
    thread_main(0);
    for (uintptr_t t = 1; t < p->threads; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&m.meet);
    take_down();
    out->done = 1;
}

int run_open(void)
{
    pthread_rwlock_init(&m.functions, NULL);
    CUresult r = cuInit(0);
    r = r ? r : cuDeviceGet(&m.device, 0);
    r = r ? r : cuDevicePrimaryCtxRetain(&m.ctx, m.device);
    r = r ? r : cuCtxSetCurrent(m.ctx);
    r = r ? r : cuModuleLoadData(&m.module, kernels_ptx);
    r = r ? r : cuModuleLoadData(&m.second, kernels_ptx);
    r = r ? r : load_functions(m.module, &m.f);
    r = r ? r : load_functions(m.second, &m.g);
    r = r ? r : load_library();
    for (int b = 0; b < PINNED && !r; b++)
        r = cuMemAlloc_v2(&m.device_buffer[b], BYTES);
    for (int b = 0; b < PAGEABLE - PINNED && !r; b++)
        r = cuMemAllocHost_v2(&m.pinned[b], BYTES);
    r = r ? r : cuMemAlloc_v2(&m.flags, FLAGS * 4);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m.device}};
    r = r ? r : cuMemPoolCreate(&m.pool, &props);
    r = r ? r : cuMemAllocManaged(&m.managed, BYTES, CU_MEM_ATTACH_GLOBAL);
    if (r)
        fprintf(stderr, "cutin-oracle: the driver answered %d while opening the device\n", (int)r);
    return r ? -1 : 0;
}

void run_close(void)
{
    cuDevicePrimaryCtxRelease_v2(m.device);
}
