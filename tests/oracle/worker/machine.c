/*
 * machine.c - the driver's objects that a program uses (see machine.h).
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hold.h"
#include "kernels_ptx.h"
#include "trace.h"

enum { PAGE = 4096 };

struct machine m;

void broken(const char *what)
{
    if (!m.out->broken[0])
        snprintf(m.out->broken, sizeof(m.out->broken), "%s", what);
}

/* The compiler may not drop these stores. */
void spoil(void *data, size_t bytes)
{
    memset(data, 0xee, bytes);
    __asm__ volatile("" : : "r"(data) : "memory");
}

void *host_address(int buffer)
{
    return buffer < PAGEABLE ? m.pinned[buffer - PINNED] : m.pageable[buffer - PAGEABLE];
}

CUdeviceptr address(int buffer)
{
    if (buffer < PINNED)
        return m.device_buffer[buffer];
    if (buffer < POOLED)
        return (CUdeviceptr)(uintptr_t)host_address(buffer);
    return buffer < OTHER_DEVICE ? m.pooled[buffer - POOLED]
                                 : m.other_buffer[buffer - OTHER_DEVICE];
}

CUcontext buffer_context(int buffer)
{
    return buffer < OTHER_DEVICE ? m.ctx : m.other;
}

bool use_ptsz(const struct op *o)
{
    int role = stream_role(o->stream);
    return role >= PER_THREAD && role < CREATED && (o->variant & 2);
}

CUstream handle(const struct op *o)
{
    int role = stream_role(o->stream);
    if (role == LEGACY)
        return o->variant & 2 ? NULL : CU_STREAM_LEGACY;
    if (role < CREATED)
        return o->variant & 2 ? NULL : CU_STREAM_PER_THREAD;
    return m.stream[o->stream];
}

uint64_t stream_id(const struct op *o)
{
    unsigned long long id;
    if (!m.stream_id[o->stream] && CALL(cuStreamGetId, o, handle(o), &id) == CUDA_SUCCESS)
        m.stream_id[o->stream] = id;
    return m.stream_id[o->stream];
}

const struct funcs *functions(const struct op *o)
{
    bool other = stream_base(o->stream) == OTHER;
    switch (o->variant >> 2 & 3) {
    case 0:
        return other ? &m.o : &m.g;
    case 1:
        return m.p->forms >= FORMS_PLACES && !other && (o->b & 1) ? &m.l : &m.k;
    default:
        return other ? &m.o : &m.f;
    }
}

/* ---- modules ------------------------------------------------------------------------------- */

CUresult machine_load_functions(CUmodule module, struct funcs *f)
{
    CUresult r = cuModuleGetFunction(&f->mix, module, "mix");
    r = r ? r : cuModuleGetFunction(&f->mix_spin, module, "mix_spin");
    r = r ? r : cuModuleGetFunction(&f->fill, module, "fill");
    r = r ? r : cuModuleGetFunction(&f->copy, module, "copy");
    r = r ? r : cuModuleGetFunction(&f->await_mix, module, "await_mix");
    return r ? r : cuModuleGetFunction(&f->spin, module, "spin");
}

/* In another order each time, so that handles are used again for kernels with other parameters. */
static CUresult load_by_module(void)
{
    static unsigned turn;
    static const char *const names[] = {"mix", "mix_spin", "fill", "copy", "spin", "await_mix"};
    CUfunction *const to[] = {&m.l.mix,  &m.l.mix_spin, &m.l.fill,
                              &m.l.copy, &m.l.spin,     &m.l.await_mix};
    enum { KERNELS = sizeof(to) / sizeof(*to) };
    CUmodule module;
    CUresult r = cuLibraryGetModule(&module, m.library);
    turn++;
    for (unsigned i = 0; i < KERNELS && !r; i++)
        r = cuModuleGetFunction(to[(i + turn) % KERNELS], module, names[(i + turn) % KERNELS]);
    return r;
}

CUresult machine_load_library(void)
{
    CUresult r = cuLibraryLoadData(&m.library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0);
    if (r)
        return r;
    struct funcs *k = &m.k;
    r = load_by_module();
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->mix, m.library, "mix");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->mix_spin, m.library, "mix_spin");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->fill, m.library, "fill");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->copy, m.library, "copy");
    r = r ? r : cuLibraryGetKernel((CUkernel *)&k->await_mix, m.library, "await_mix");
    return r ? r : cuLibraryGetKernel((CUkernel *)&k->spin, m.library, "spin");
}
/* ---- the second context -------------------------------------------------------------------- */

CUresult machine_other_open(void)
{
    CUcontext current;
    uint32_t words[WORDS];
    CUresult r = cuCtxCreate_v2(&m.other, 0, m.p->devices > 1 ? m.second_device : m.device);
    if (!r)
        stream_id(&(struct op){.stream = OTHER + LEGACY});
    r = r ? r : cuModuleLoadData(&m.others, kernels_ptx);
    r = r ? r : machine_load_functions(m.others, &m.o);
    for (int s = OTHER + CREATED; s < GREEN && !r; s++)
        r = machine_stream_create(s);
    for (int e = MAIN_EVENTS; e < EVENTS && !r; e++)
        r = cuEventCreate(&m.event[e], CU_EVENT_DISABLE_TIMING);
    for (int b = OTHER_DEVICE; b < BUFFERS && !r; b++) {
        buffer_seed(words, (uint32_t)b);
        r = cuMemAlloc_v2(&m.other_buffer[b - OTHER_DEVICE], BYTES);
        r = r ? r : cuMemcpyHtoD_v2(address(b), words, BYTES);
    }
    r = r ? r : cuCtxSynchronize();
    CUresult popped = cuCtxPopCurrent_v2(&current);
    return r ? r : popped;
}

/* All that is in the context goes with it. */
CUresult machine_other_close(void)
{
    for (int s = OTHER + CREATED; s < GREEN; s++)
        hold_end(s);
    CUresult r = cuCtxDestroy_v2(m.other);
    m.other = NULL;
    memset(m.stream_id + OTHER, 0, (GREEN - OTHER) * sizeof(*m.stream_id));
    memset(m.other_buffer, 0, sizeof(m.other_buffer));
    return r;
}

/* ---- the green context --------------------------------------------------------------------- */

CUresult machine_stream_create(int slot)
{
    CUstream *s = &m.stream[slot];
#if CUDA_VERSION >= 12050
    if (stream_base(slot) == GREEN)
        return cuGreenCtxStreamCreate(s, m.green, CU_STREAM_NON_BLOCKING,
                                      m.p->stream_priority[slot]);
#endif
    return cuStreamCreateWithPriority(s, m.p->stream_flags[slot], m.p->stream_priority[slot]);
}

#if CUDA_VERSION >= 12050
CUresult machine_green_open(void)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    unsigned int parts = 1;
    CUresult r = cuDeviceGetDevResource(m.device, &all, CU_DEV_RESOURCE_TYPE_SM);
    r = r ? r : cuDevSmResourceSplitByCount(&part, &parts, &all, NULL, 0, 8);
    r = r ? r : cuDevResourceGenerateDesc(&desc, &part, 1);
    r = r ? r : cuGreenCtxCreate(&m.green, desc, m.device, CU_GREEN_CTX_DEFAULT_STREAM);
    r = r ? r : cuCtxFromGreenCtx(&m.green_ctx, m.green);
    for (int s = GREEN + CREATED; s < STREAMS && !r; s++)
        r = machine_stream_create(s);
    return r;
}

CUresult machine_green_close(void)
{
    for (int s = GREEN + CREATED; s < STREAMS; s++) {
        hold_end(s);
        cuStreamDestroy_v2(m.stream[s]);
    }
    m.green_ctx = NULL;
    return cuGreenCtxDestroy(m.green);
}
#else
CUresult machine_green_open(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult machine_green_close(void)
{
    return CUDA_SUCCESS;
}
#endif

/* ---- which context is current in a call ------------------------------------------------------ */

/* The default stream of a green context has no other name. Created ones are also used from the
 * primary one, as by a thread that asks in a loop: it must not keep others from the green one. */
static CUcontext own_context(const struct op *o)
{
    if (stream_base(o->stream) == OTHER)
        return m.other;
    bool green = stream_base(o->stream) == GREEN && o->kind != OP_ASK &&
                 (stream_role(o->stream) == LEGACY || (o->variant & 128));
    return green ? m.green_ctx : m.ctx;
}

static CUcontext elsewhere(CUcontext own, const struct op *o)
{
    if (own != m.ctx)
        return m.ctx;
    bool green = m.green_ctx && o->kind != OP_ASK && (!m.other || (o->variant & 64));
    return green ? m.green_ctx : m.other ? m.other : own;
}

static void place_none(struct place *at)
{
    CUcontext current = NULL;
    while (at->count < 4 && cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        cuCtxPopCurrent_v2(&at->popped[at->count++]);
}

void place_enter(struct place *at, const struct op *o, enum where where)
{
    CUcontext current = NULL, to = own_context(o);
    *at = (struct place){0};
    if (where == WHERE_NOWHERE) {
        place_none(at);
        return;
    }
    if (where == WHERE_ELSEWHERE)
        to = elsewhere(to, o);
    cuCtxGetCurrent(&current);
    if (to == current)
        return;
    at->green = to == m.green_ctx;
    if (at->green)
        pthread_mutex_lock(&m.green_current);
    at->pushed = (at->green || (o->variant & 128)) && cuCtxPushCurrent_v2(to) == CUDA_SUCCESS;
    at->set = !at->pushed && cuCtxSetCurrent(to) == CUDA_SUCCESS;
    at->popped[0] = current;
}

/* A context that was set has replaced the one before; one that was pushed has not. */
void place_leave(struct place *at)
{
    CUcontext current;
    while (at->count > 0)
        cuCtxPushCurrent_v2(at->popped[--at->count]);
    if (at->pushed)
        cuCtxPopCurrent_v2(&current);
    if (at->set)
        cuCtxSetCurrent(at->popped[0]);
    if (at->green)
        pthread_mutex_unlock(&m.green_current);
}

/* ---- one program --------------------------------------------------------------------------- */

CUresult machine_set_up(void)
{
    CUresult r = m.p->contexts > 1 ? machine_other_open() : CUDA_SUCCESS;
    if (m.p->green && !r)
        r = machine_green_open();
    for (int s = CREATED; s < OTHER && !r; s++)
        r = machine_stream_create(s);
    for (int t = 0; t < THREADS && !r; t++) {
        r = cuStreamCreate(&m.side[t], CU_STREAM_NON_BLOCKING);
        r = r ? r : cuEventCreate(&m.fork_event[t], CU_EVENT_DISABLE_TIMING);
    }
    for (int e = 0; e < MAIN_EVENTS && !r; e++)
        r = cuEventCreate(&m.event[e], e % 2 ? CU_EVENT_DISABLE_TIMING : 0);
    r = r ? r : cuMemsetD32_v2(m.flags, 0, 2 * FLAGS);
    memset(m.stream_id, 0, sizeof(m.stream_id));
    for (int w = 0; w < ORDER_WORDS; w++)
        m.order[w] = 0;
    for (int i = 0; i < MAX_OPS; i++)
        m.awaited[i] = 0;
    for (int i = 0; i < RACES; i++)
        m.told[i] = 0;
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

/* Reads the final contents of every buffer. All work is complete. */
static void read_buffers(void)
{
    for (int b = 0; b < BUFFERS; b++) {
        uint32_t words[WORDS];
        if (b >= PINNED && b < POOLED)
            memcpy(words, host_address(b), BYTES);
        else if (!address(b) || cuMemcpyDtoH_v2(words, address(b), BYTES))
            continue;
        m.out->final_hash[b] = buffer_hash(words);
    }
}

/* The library's kernels outlive the program, and no call takes a function's attribute back. */
static void machine_disallow(void)
{
    if (m.allowed && (cuLibraryUnload(m.library) || machine_load_library()))
        broken("the library cannot be loaded again");
    m.allowed = false;
}

void machine_take_down(void)
{
    CUcontext current;
    char why[sizeof(m.out->broken)];
    CUresult r = m.other ? cuCtxPushCurrent_v2(m.other) : CUDA_SUCCESS;
    if (m.other && !r) {
        r = cuCtxSynchronize();
        cuCtxPopCurrent_v2(&current);
    }
    r = r ? r : cuCtxSynchronize();
    if (r)
        broken("the last synchronisation failed");
    else if (trace_end(m.p, why, sizeof(why)))
        broken(why);
    read_buffers();
    for (int b = 0; b < OTHER_DEVICE - POOLED; b++)
        if (m.pooled[b])
            cuMemFree_v2(m.pooled[b]);
    for (int e = 0; e < EXECS; e++) {
        if (m.exec[e])
            cuGraphExecDestroy(m.exec[e]);
        if (m.graph[e])
            cuGraphDestroy(m.graph[e]);
    }
    for (int s = CREATED; s < OTHER; s++) {
        hold_end(s);
        cuStreamDestroy_v2(m.stream[s]);
    }
    for (int t = 0; t < THREADS; t++) {
        cuStreamDestroy_v2(m.side[t]);
        cuEventDestroy_v2(m.fork_event[t]);
    }
    for (int e = 0; e < MAIN_EVENTS; e++)
        cuEventDestroy_v2(m.event[e]);
    if (m.other)
        machine_other_close();
    if (m.green_ctx)
        machine_green_close();
    for (int b = 0; b < POOLED - PAGEABLE; b++)
        if (m.registered[b])
            cuMemHostUnregister(m.pageable[b]);
    memset(m.registered, 0, sizeof(m.registered));
    machine_disallow();
    memset(m.exec, 0, sizeof(m.exec));
    memset(m.graph, 0, sizeof(m.graph));
    memset(m.pooled, 0, sizeof(m.pooled));
    m.arena_used = 0;
}

/* Any context may be current when a copy is made, and its device has to reach the pool. */
static CUresult pool_open(CUmemoryPool pool, CUdevice device)
{
    CUmemAccessDesc to = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return pool ? cuMemPoolSetAccess(pool, &to, 1) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pools_open(void)
{
    CUmemoryPool here = NULL, there = NULL;
    CUresult r = cuDeviceGetDefaultMemPool(&here, m.device);
    r = r ? r : cuDeviceGetDefaultMemPool(&there, m.second_device);
    r = r ? r : pool_open(m.pool, m.second_device);
    r = r ? r : pool_open(here, m.second_device);
    return r ? r : pool_open(there, m.device);
}

int run_open(void)
{
    int devices = 1;
    pthread_rwlock_init(&m.functions, NULL);
    pthread_mutex_init(&m.green_current, NULL);
    CUresult r = cuInit(0);
    r = r ? r : cuDeviceGet(&m.device, 0);
    r = r ? r : cuDeviceGetCount(&devices);
    r = r ? r : cuDeviceGet(&m.second_device, devices > 1);
    r = r ? r : cuDevicePrimaryCtxRetain(&m.ctx, m.device);
    r = r ? r : cuCtxSetCurrent(m.ctx);
    r = r ? r : cuModuleLoadData(&m.module, kernels_ptx);
    r = r ? r : cuModuleLoadData(&m.second, kernels_ptx);
    r = r ? r : machine_load_functions(m.module, &m.f);
    r = r ? r : machine_load_functions(m.second, &m.g);
    r = r ? r : machine_load_library();
    trace_open();
    for (int b = 0; b < PINNED && !r; b++)
        r = cuMemAlloc_v2(&m.device_buffer[b], BYTES);
    for (int b = 0; b < PAGEABLE - PINNED && !r; b++)
        r = cuMemAllocHost_v2(&m.pinned[b], BYTES);
    for (int b = 0; b < POOLED - PAGEABLE && !r; b++)
        r = (m.pageable[b] = aligned_alloc(PAGE, PAGE)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    r = r ? r : cuMemAlloc_v2(&m.flags, FLAGS * 8);
    r = r ? r : cuMemAllocHost_v2((void **)&m.order, ORDER_WORDS * sizeof(*m.order));
    r = r ? r : cuMemAllocHost_v2((void **)&m.awaited, MAX_OPS * sizeof(*m.awaited));
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m.device}};
    r = r ? r : cuMemPoolCreate(&m.pool, &props);
    r = r ? r : pools_open();
    r = r ? r : cuMemAllocManaged(&m.managed, BYTES, CU_MEM_ATTACH_GLOBAL);
    if (r)
        fprintf(stderr, "cutin-oracle: the driver answered %d while opening the device\n", (int)r);
    return r ? -1 : 0;
}

void run_close(void)
{
    cuDevicePrimaryCtxRelease_v2(m.device);
}
