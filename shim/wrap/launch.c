/*
 * launch.c - kernel launches: cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel.
 *
 * A launch is deferred only if that cannot be noticed. Its parameters are copied by the layout that
 * the driver reports. The driver has accepted a launch of the same shape before, so lazy loading
 * and errors of the shape have shown where they do natively. Errors that the grid alone can cause
 * are ruled out. The calling thread makes any other launch itself, in its turn.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/objects/event.h"
#include "shim/learn/function.h"
#include "shim/path/drain.h"
#include "shim/pace/pad.h"
#include "shim/path/traced.h"

#include <string.h>

enum launch_kind { LAUNCH_PLAIN, LAUNCH_EX, LAUNCH_COOPERATIVE };
enum { MAX_ATTRIBUTES = 32, PREFERRED_CLUSTER = 11 /* an attribute, 12.8 */ };
#define COMPLETION_EVENT ((CUlaunchAttributeID)12) /* from 12.3 on */

/* The kernel, and where it goes. It comes first in a copy, as VHQ_LEARNS demands. */
struct launch_head {
    const struct vhq_learned *learned;
    CUstream stream;
    CUfunction function;
    unsigned grid[3], block[3], shared;
    enum launch_kind kind;
    struct estimate *estimate;
    struct shim_context *ctx;
    struct traced_label who;
};

/* A launch as the application made it. */
struct launch {
    struct launch_head k;
    const CUlaunchConfig *config; /* LAUNCH_EX */
    void **params, **extra;
    const void *extra_data;
    size_t extra_bytes;
    struct shim_function *known; /* NULL: it goes straight to the driver */
    bool beside; /* of a real-time stream, timed while best effort may go beside it */
    uint64_t shape;
    uint32_t room; /* blocks of this shape that fit the context at a time; 0: not known */
    bool accepted; /* the driver has accepted a launch of this shape */
};

/* The copy. Behind it lie the attributes, then the parameters. */
struct launch_copy {
    struct launch_head k;
    uint32_t attributes;
    uint32_t params; /* PARAMS_EXTRA: they are `extra` */
    uint32_t param_bytes;
    const struct profile_param *layout; /* the function outlives its buffered launches */
    _Alignas(16) unsigned char data[];
};
#define PARAMS_EXTRA UINT32_MAX

/* ---- to the driver ------------------------------------------------------------------------ */

/* Makes the call, perhaps between the events of a trace record and those of a function's sample. */
static CUresult driver_launch(const struct launch_head *k, bool beside,
                              const CUlaunchConfig *config, void **params, void **extra)
{
    struct sample *sample = !k->estimate ? NULL
                            : beside
                                ? estimate_begin_beside(k->estimate, k->ctx, k->stream, pad_sample)
                                : estimate_begin(k->estimate, k->ctx, k->stream);
    struct timing *timing = unlikely(k->who.op) ? traced_begin(k->ctx, k->stream, &k->who) : NULL;
    CUresult r;
    if (k->kind == LAUNCH_EX)
        r = REAL(cuLaunchKernelEx)(config, k->function, params, extra);
    else if (k->kind == LAUNCH_COOPERATIVE)
        r = REAL(cuLaunchCooperativeKernel)(k->function, k->grid[0], k->grid[1], k->grid[2],
                                            k->block[0], k->block[1], k->block[2], k->shared,
                                            k->stream, params);
    else
        r = REAL(cuLaunchKernel)(k->function, k->grid[0], k->grid[1], k->grid[2], k->block[0],
                                 k->block[1], k->block[2], k->shared, k->stream, params, extra);
    if (unlikely(timing))
        traced_end(timing, k->stream, r);
    if (unlikely(sample))
        estimate_end(sample, k->stream);
    return r;
}

static int launch_now(void *args)
{
    const struct launch *l = args;
    CUresult r = driver_launch(&l->k, l->beside, l->config, l->params, l->extra);
    if (r == CUDA_SUCCESS && l->known && !l->accepted) {
        uint32_t room;
        if (!function_shape_known(l->known, l->shape, &room)) {
            function_accepted(l->known, l->k.ctx->base);
            function_cluster_ask(l->known, l->k.function, l->k.ctx->gpu);
            /* How many blocks of this shape fit a multiprocessor at a time. */
            int each = 0, threads = (int)(l->k.block[0] * l->k.block[1] * l->k.block[2]);
            struct context_scope scope = context_push_other(l->k.ctx);
            CUresult fits = REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&each, l->k.function,
                                                                              threads, l->k.shared);
            context_pop(scope);
            room = fits == CUDA_SUCCESS && each > 0 ? (uint32_t)each * l->k.ctx->processors : 0;
            function_shape_add(l->known, l->shape, room);
        }
        function_seed(l->known, l->k.function, l->k.ctx->gpu);
    }
    return (int)r;
}

static int launch_run(void *payload)
{
    struct launch_copy *copy = payload;
    unsigned char *params = copy->data + align16(copy->attributes * sizeof(CUlaunchAttribute));
    size_t bytes = copy->param_bytes;
    bool packed = copy->params == PARAMS_EXTRA;
    void *pointer[packed || !copy->params ? 1 : copy->params];
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    for (uint32_t i = 0; !packed && i < copy->params; i++)
        pointer[i] = params + copy->layout[i].offset;
    if (MUTANT(stale_parameters) && !packed && copy->params)
        memcpy(pointer, params, sizeof(*pointer));
    const struct launch_head *k = &copy->k;
    CUlaunchConfig config = {.gridDimX = k->grid[0],
                             .gridDimY = k->grid[1],
                             .gridDimZ = k->grid[2],
                             .blockDimX = k->block[0],
                             .blockDimY = k->block[1],
                             .blockDimZ = k->block[2],
                             .sharedMemBytes = k->shared,
                             .hStream = k->stream,
                             .attrs = (CUlaunchAttribute *)(void *)copy->data,
                             .numAttrs = copy->attributes};
    return (int)driver_launch(k, false, &config, packed || !copy->params ? NULL : pointer,
                              packed ? extra : NULL);
}

static struct estimate *launch_estimate(const struct launch *l)
{
    uint64_t blocks = (uint64_t)l->k.grid[0] * l->k.grid[1] * l->k.grid[2];
    return &l->known->estimate[estimate_bucket(blocks)];
}

/* ---- the copy ----------------------------------------------------------------------------- */

static uint32_t launch_attributes(const struct launch *l)
{
    return l->config ? l->config->numAttrs : 0;
}

static void launch_pack(void *payload, const void *args)
{
    const struct launch *l = args;
    struct launch_copy *copy = payload;
    uint32_t attributes = launch_attributes(l);
    *copy = (struct launch_copy){.k = l->k,
                                 .attributes = attributes,
                                 .params = l->extra ? PARAMS_EXTRA : l->known->params,
                                 .param_bytes = (uint32_t)l->extra_bytes,
                                 .layout = l->known->param};
    if (attributes)
        memcpy(copy->data, l->config->attrs, attributes * sizeof(CUlaunchAttribute));
    unsigned char *params = copy->data + align16(attributes * sizeof(CUlaunchAttribute));
    if (l->extra && l->extra_bytes)
        memcpy(params, l->extra_data, l->extra_bytes);
    const struct profile_param *to = copy->layout;
    for (uint32_t i = 0, n = l->extra ? 0 : copy->params; i < n; i++)
        if (likely(to[i].size == sizeof(void *))) /* most have this size, and cost no call */
            memcpy(params + to[i].offset, l->params[i], sizeof(void *));
        else
            memcpy(params + to[i].offset, l->params[i], to[i].size);
    if (MUTANT(stale_parameters) && !l->extra && l->known->params)
        memcpy(params, l->params, sizeof(*l->params));
}

/* ---- may it be deferred? ------------------------------------------------------------------ */

/* `plain`: the value is complete in itself; other values name events or are written to. `from`,
 * `bytes`: the part that may make the driver refuse a launch; not every program initialises what
 * lies behind a value. */
static const struct attribute {
    bool plain;
    uint8_t from, bytes;
} attributes[MAX_ATTRIBUTES] = {
#define VALUE(field) true, 0, sizeof(((CUlaunchAttributeValue *)NULL)->field)
    [CU_LAUNCH_ATTRIBUTE_IGNORE] = {true},
    [CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW] = {true, offsetof(CUaccessPolicyWindow, num_bytes),
                                                  offsetof(CUaccessPolicyWindow, missProp) +
                                                      sizeof(CUaccessProperty) -
                                                      offsetof(CUaccessPolicyWindow, num_bytes)},
    [CU_LAUNCH_ATTRIBUTE_COOPERATIVE] = {VALUE(cooperative)},
    [CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY] = {VALUE(syncPolicy)},
    [CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION] = {VALUE(clusterDim)},
    [CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] = {VALUE(
        clusterSchedulingPolicyPreference)},
    [CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION] = {VALUE(
        programmaticStreamSerializationAllowed)},
    [CU_LAUNCH_ATTRIBUTE_PRIORITY] = {VALUE(priority)},
    [CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP] = {VALUE(memSyncDomainMap)},
    [CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN] = {VALUE(memSyncDomain)},
    [PREFERRED_CLUSTER] = {VALUE(clusterDim)}, /* of the same type */
    [14 /* PREFERRED_SHARED_MEMORY_CARVEOUT, 12.5 */] = {true, 0, sizeof(int)},
    [16 /* NVLINK_UTIL_CENTRIC_SCHEDULING, 13.0 */] = {true, 0, sizeof(int)},
#undef VALUE
};

/* True if it may begin before its predecessor has ended: nothing must come between the two. */
static bool attributes_close(const CUlaunchConfig *config)
{
    for (unsigned i = 0; config && config->attrs && i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        if ((a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
             a->value.programmaticStreamSerializationAllowed) ||
            a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            return true;
    }
    return false;
}

/* Visits the events that the launch records; such a launch is never deferred. */
static void attributes_events(const CUlaunchConfig *config, void (*each)(CUevent event))
{
    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        CUevent event; /* the first member of the value of both */
        if (a->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT && a->id != COMPLETION_EVENT)
            continue;
        memcpy(&event, &a->value, sizeof(event));
        each(event);
    }
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    return hash * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = mix(hash, word);
    }
    for (; bytes; p++, bytes--)
        hash = mix(hash, *p);
    return hash;
}

/* A hash of what decides whether the driver accepts a launch, besides what grid_valid looks at. For
 * cooperative launches that includes all of the grid. 0: not all attributes can be copied. */
static uint64_t launch_shape(const struct launch *l)
{
    if (likely(l->shape)) /* launch_begin has computed it */
        return l->shape;
    uint32_t n = launch_attributes(l);
    if (n > MAX_ATTRIBUTES || (n && !l->config->attrs))
        return 0;
    uint64_t hash = mix((uint64_t)l->k.kind + 1, l->k.block[0]);
    hash = mix(hash, (uint64_t)l->k.block[1] << 32 | l->k.block[2]);
    hash = mix(hash, l->k.shared);
    bool cooperative = l->k.kind == LAUNCH_COOPERATIVE;
    for (uint32_t i = 0; i < n; i++) {
        const CUlaunchAttribute *a = &l->config->attrs[i];
        unsigned id = (unsigned)a->id;
        if (id >= MAX_ATTRIBUTES || !attributes[id].plain)
            return 0;
        hash = mix_bytes(mix(hash, id), (const char *)&a->value + attributes[id].from,
                         attributes[id].bytes);
        cooperative |= id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a->value.cooperative;
    }
    if (cooperative)
        hash = mix_bytes(hash, l->k.grid, sizeof(l->k.grid));
    return hash | 1;
}

static bool grid_divides(const unsigned grid[3], unsigned x, unsigned y, unsigned z)
{
    return x && y && z && grid[0] % x == 0 && grid[1] % y == 0 && grid[2] % z == 0;
}

static bool grid_valid(const struct launch *l)
{
    const uint32_t *most = l->k.ctx->gpu->max_grid;
    for (int i = 0; i < 3; i++)
        if (!l->k.grid[i] || l->k.grid[i] > most[i])
            return false;
    /* Clusters must be whole: those of the launch, or else those of the function's code. */
    uint64_t own = atomic_load_explicit(&l->known->cluster, memory_order_relaxed);
    for (uint32_t i = 0; i < launch_attributes(l); i++) {
        const CUlaunchAttribute *a = &l->config->attrs[i];
        const __typeof__(a->value.clusterDim) *d = &a->value.clusterDim;
        if (a->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && (int)a->id != PREFERRED_CLUSTER)
            continue;
        if (!grid_divides(l->k.grid, d->x, d->y, d->z))
            return false;
        own = 0;
    }
    return !own || grid_divides(l->k.grid, own & 0xffff, own >> 16 & 0xffff, own >> 32 & 0xffff);
}

static bool params_copyable(struct launch *l)
{
    if (l->params && l->extra)
        return false;
    if (l->extra) {
        /* `extra`: a buffer, its size, an end mark. The driver judges anything else. */
        const size_t *bytes = NULL;
        unsigned i = 0;
        for (; i < 8 && l->extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (l->extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                l->extra_data = l->extra[i + 1];
            else if (l->extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = l->extra[i + 1];
            else
                return false;
        }
        l->extra_bytes = i < 8 && bytes ? *bytes : 0;
        return i < 8 && l->extra_data && bytes;
    }
    if (!l->known->copyable || (l->known->params && !l->params))
        return false;
    for (uint32_t i = 0; i < l->known->params; i++)
        if (!l->params[i])
            return false;
    return true;
}

/* True if the driver has accepted a launch like this one. */
static bool launch_known(struct launch *l)
{
    if (!l->known || !(l->shape = launch_shape(l)))
        return false;
    l->accepted = function_shape_known(l->known, l->shape, &l->room);
    return l->accepted &&
           (atomic_load_explicit(&l->known->accepted, memory_order_relaxed) == l->k.ctx->base ||
            MUTANT(kernel_shape_shared)) &&
           grid_valid(l);
}

/* True if it may be timed: a sample's events would come between launches that overlap. What comes
 * behind this launch is not known yet, but what came before it is. */
static bool launch_timed(bool close, struct shim_stream *s)
{
    enum { EXPECTED = 8 };
    uint32_t left = atomic_load_explicit(&s->overlaps, memory_order_relaxed);
    if (unlikely(close))
        atomic_store_explicit(&s->overlaps, left = EXPECTED, memory_order_relaxed);
    else if (unlikely(left))
        atomic_store_explicit(&s->overlaps, left - 1, memory_order_relaxed);
    return !left && !(MUTANT(per_thread_untimed) && s->per_thread);
}

static void launch_prepare(struct launch *l, struct call *c, struct shim_stream *s)
{
    bool close = attributes_close(l->config), timed = launch_timed(close, s);
    l->k.ctx = s->ctx;
    l->known = function_of(l->k.function, s->ctx);
    struct estimate *e = l->known ? launch_estimate(l) : NULL;
    c->req.est_ns = e && !MUTANT(estimates_constant) ? estimate_ns(e) : VHQ_UNKNOWN_NS;
    bool waits =
        waiting_any() && l->known && waiting_kernel(l->known, l->k.function, e, l->k.ctx->gpu);
    if (waits) {
        c->req.est_ns = (uint64_t)config_get()->budget_us * 1000;
        c->req.flags |= VHQ_WAITS;
        if (c->record)
            c->record->kernel.waits = 1;
    }
    c->req.flags |= MUTANT_OVERTAKES(launch_overtakes);
    c->req.flags |= MUTANT(stream_uncounted) ? VHQ_UNCOUNTED : 0u;
    if (close)
        c->req.flags |= VHQ_OVERLAPS;
    if (!launch_known(l)) { /* the driver may load the kernel in the call, between the events */
        if (MUTANT(loading_timed) && timed)
            l->k.estimate = e;
        return;
    }
    c->req.parts = vhq_parts((uint64_t)l->k.grid[0] * l->k.grid[1] * l->k.grid[2], l->room);
    if (l->room && estimate_known(e) && !waits)
        c->req.flags |= VHQ_MAY_PAD;
    if (timed && !waits) /* one that the driver may refuse is no sample */
        l->k.estimate = e;
    if (params_copyable(l)) {
        c->run = launch_run;
        l->k.learned = &e->learned;
        if (unlikely(estimate_unsettled(e)) && !waits && !MUTANT(estimates_constant))
            c->req.flags |= VHQ_LEARNS;
        size_t params = l->extra ? l->extra_bytes : l->known->bytes;
        c->req.bytes =
            (uint32_t)(sizeof(struct launch_copy) +
                       align16(launch_attributes(l) * sizeof(CUlaunchAttribute)) + align16(params));
    }
}

/* Notes a launch into a real-time stream that best effort may go beside: it may be learned from.
 * Cooperative launches and those with attributes are not noted, so they leave no room. */
static void launch_note(struct launch *l, struct shim_stream *s)
{
    if (l->k.kind == LAUNCH_COOPERATIVE || launch_attributes(l) ||
        !pad_note(s, l->k.function, l->k.grid, l->k.block, l->k.shared))
        return;
    struct shim_function *f = function_of(l->k.function, s->ctx);
    l->shape = function_shape_plain(l->k.block, l->k.shared);
    l->k.ctx = s->ctx;
    if (!f || !l->shape)
        return;
    l->known = f;
    l->beside = true;
    if (pad_lesson(s, estimate_known(launch_estimate(l))))
        l->k.estimate = launch_estimate(l);
}

static CUresult launch_go(struct launch *l, struct shim_stream *s)
{
    struct call_inline at_once = {.flags = VHQ_MUST_INLINE, .kernel = true};
    /* In a stream without a queue it goes at once, if it may. */
    if (!(s && s->q) && call_inline_begin(&at_once, s)) {
        if (unlikely(s->pad))
            launch_note(l, s);
        return call_inline_end(&at_once, s, (CUresult)launch_now(l));
    }
    struct call c = {.now = launch_now, .pack = launch_pack, .args = l, .kernel = true};
    struct trace_record record;
    if (s && trace_on()) {
        struct shim_function *f = function_of(l->k.function, s->ctx);
        record = (struct trace_record){.kind = TRACE_KERNEL,
                                       .name = f ? function_trace_name(f, l->k.function) : 0};
        record.kernel.op = trace_op_next();
        record.kernel.shared = l->k.shared;
        for (int i = 0; i < 3; i++) {
            record.kernel.grid[i] = l->k.grid[i];
            record.kernel.block[i] = (uint16_t)(l->k.block[i] <= UINT16_MAX ? l->k.block[i] : 0);
        }
        l->k.ctx = s->ctx;
        l->k.who = (struct traced_label){s->id, record.name, record.kernel.op, (uint16_t)s->level};
        c.record = &record;
    }
    if (s && s->q)
        launch_prepare(l, &c, s);
    else if (s && s->pad)
        launch_note(l, s);
    return call_on(&c, s);
}

#define LAUNCH                                                                                     \
    (CUfunction, f), (unsigned int, gridDimX), (unsigned int, gridDimY), (unsigned int, gridDimZ), \
        (unsigned int, blockDimX), (unsigned int, blockDimY), (unsigned int, blockDimZ),           \
        (unsigned int, sharedMemBytes), (CUstream, hStream), (void **, kernelParams)
/* The first members of a launch, of these names. */
#define LAUNCH_OF(kind_, stream_, shared_, params_)                                                \
    .k = {.stream = stream_,                                                                       \
          .function = f,                                                                           \
          .grid = {grid[0], grid[1], grid[2]},                                                     \
          .block = {block[0], block[1], block[2]},                                                 \
          .shared = shared_,                                                                       \
          .kind = kind_},                                                                          \
    .params = params_

/* Deliberate bugs. */
static void launch_mutants(const struct shim_stream *s)
{
    if (MUTANT(launch_longer))
        for (volatile int i = 0; i < 6; i++)
            ;
    for (s = MUTANT(launch_scans) && s ? s->ctx->streams : NULL; s; s = s->next)
        atomic_load_explicit(&s->busy, memory_order_relaxed);
}

/* Most launches go at once and leave no record; into a stream with a queue those that are like
 * earlier ones. True: the caller makes the driver call now, and then calls call_inline_end. Else
 * the launch goes on with the shape that was found here. */
static inline __attribute__((always_inline)) bool
launch_begin(struct call_inline *c, CUfunction f, const unsigned grid[3], const unsigned block[3],
             unsigned shared, struct shim_stream *s, uint64_t *shape)
{
    struct estimate *e = NULL;
    launch_mutants(s);
    if (s && s->q) {
        *shape = function_shape_plain(block, shared);
        if (!*shape || waiting_any() || atomic_load_explicit(&s->overlaps, memory_order_relaxed) ||
            MUTANT(stream_uncounted) || MUTANT(estimates_constant))
            return false;
        struct shim_function *known = function_of(f, s->ctx);
        if (!known || !function_shape_known(known, *shape, &c->room))
            return false;
        c->blocks = (uint64_t)grid[0] * grid[1] * grid[2];
        e = &known->estimate[estimate_bucket(c->blocks)];
        c->est_ns = estimate_ns(e);
        if (!call_untimed(c, s, e))
            return false;
    }
    if (!s || s->pad || !call_inline_begin(c, s))
        return false;
    if (c->locked && e) /* without `e`: it had no queue at the look above */
        estimate_count(e);
    return true;
}

static inline __attribute__((always_inline)) CUresult
cuLaunchKernel_call(bool ptds EACH(OP_PARAM_, LAUNCH, (void **, extra)));
BOTH(cuLaunchKernel, LAUNCH, (void **, extra))
{
    struct shim_stream *s = call_stream(&hStream, ptds);
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
    const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
    struct call_inline at_once = {.kernel = true};
    uint64_t shape = 0;
    if (launch_begin(&at_once, f, grid, block, sharedMemBytes, s, &shape))
        return call_inline_end(&at_once, s,
                               REAL(cuLaunchKernel)(f, gridDimX, gridDimY, gridDimZ, blockDimX,
                                                    blockDimY, blockDimZ, sharedMemBytes, hStream,
                                                    kernelParams, extra));
    struct launch l = {LAUNCH_OF(LAUNCH_PLAIN, hStream, sharedMemBytes, kernelParams),
                       .extra = extra, .shape = shape};
    return launch_go(&l, s);
}

BOTH(cuLaunchCooperativeKernel, LAUNCH)
{
    const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
    const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
    struct launch l = {LAUNCH_OF(LAUNCH_COOPERATIVE, hStream, sharedMemBytes, kernelParams)};
    return launch_go(&l, call_stream(&l.k.stream, ptds));
}

BOTH(cuLaunchKernelEx, (const CUlaunchConfig *, config), (CUfunction, f), (void **, params),
     (void **, extra))
{
    if (!config)
        return REAL(cuLaunchKernelEx)(config, f, params, extra);
    CUstream stream = config->hStream;
    struct shim_stream *s = call_stream(&stream, ptds);
    CUlaunchConfig named;
    if (unlikely(config->hStream != stream)) { /* it was NULL */
        named = *config;
        named.hStream = stream;
        config = &named;
    }
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    struct call_inline at_once = {.kernel = true};
    uint64_t shape = 0;
    if (likely(!config->numAttrs) &&
        launch_begin(&at_once, f, grid, block, config->sharedMemBytes, s, &shape))
        return call_inline_end(&at_once, s, REAL(cuLaunchKernelEx)(config, f, params, extra));
    struct launch l = {LAUNCH_OF(LAUNCH_EX, stream, config->sharedMemBytes, params),
                       .config = config, .extra = extra, .shape = shape};
    if (unlikely(config->numAttrs) && s) {
        /* Some attributes may name events. */
        if (!MUTANT(launch_event_unseen))
            attributes_events(config, drain_before_record);
        CUresult r = launch_go(&l, s);
        if (!capture_any() || !capture_ask(s, l.k.stream))
            attributes_events(config, event_clear_captured);
        return r;
    }
    return launch_go(&l, s);
}
