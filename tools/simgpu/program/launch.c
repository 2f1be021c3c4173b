/*
 * launch.c - kernel launches: checks them as the driver does before the call returns, packs the
 * parameters into the function's layout, and submits the work.
 */
#include "tools/simgpu/program/module.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/submit.h"

#include <dlfcn.h>
#include <stdio.h>

/* ---- parameters ------------------------------------------------------------------------------ */

/* `extra` is CU_LAUNCH_PARAM_BUFFER_POINTER p, CU_LAUNCH_PARAM_BUFFER_SIZE &n, CU_LAUNCH_PARAM_END.
 * The buffer may be shorter than the parameters: NCCL gives 144 bytes of 4096. */
static CUresult pack_extra(const struct image_entry *e, void **extra, void *packed)
{
    const void *buffer = NULL;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (e->packed_bytes && !buffer)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes < e->packed_bytes)
        memset((char *)packed + bytes, 0, e->packed_bytes - bytes);
    if (buffer)
        memcpy(packed, buffer, bytes < e->packed_bytes ? bytes : e->packed_bytes);
    return CUDA_SUCCESS;
}

static CUresult pack(const struct image_entry *e, void **params, void **extra, void *packed)
{
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->packed_bytes > LAUNCH_PACKED_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra)
        return pack_extra(e, extra, packed);
    if (!params)
        return e->param_count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < e->param_count; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy((char *)packed + e->params[i].offset, params[i], e->params[i].size);
    }
    return CUDA_SUCCESS;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static CUresult shape_check(const CUlaunchConfig *c, const struct sim_function *f,
                            struct sim_context *ctx)
{
    enum { GRID_X = 0x7fffffff, GRID_YZ = 65535, BLOCK_XY = 1024, BLOCK_Z = 64 };
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    if (!c->gridDimX || !c->gridDimY || !c->gridDimZ || !threads)
        return CUDA_ERROR_INVALID_VALUE;
    if (c->gridDimX > GRID_X || c->gridDimY > GRID_YZ || c->gridDimZ > GRID_YZ)
        return CUDA_ERROR_INVALID_VALUE;
    if (c->blockDimX > BLOCK_XY || c->blockDimY > BLOCK_XY || c->blockDimZ > BLOCK_Z ||
        threads > BLOCK_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (c->sharedMemBytes > (unsigned int)function_setting(f, ctx, MAX_DYNAMIC_SMEM))
        return CUDA_ERROR_INVALID_VALUE;
    return threads > f->entry->max_threads ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
}

static uint64_t blocks_of(const CUlaunchConfig *c)
{
    return (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ;
}

static CUresult cluster_check(const CUlaunchConfig *c, unsigned int x, unsigned int y,
                              unsigned int z)
{
    enum { CLUSTER_BLOCKS = 8 };
    if (!x || !y || !z || (uint64_t)x * y * z > CLUSTER_BLOCKS)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    bool divides = c->gridDimX % x == 0 && c->gridDimY % y == 0 && c->gridDimZ % z == 0;
    return divides ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

static CUresult attribute_check(const CUlaunchConfig *c, const CUlaunchAttribute *a,
                                const struct sim_function *f)
{
    enum { LAST_KNOWN = 16 };
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a->value.cooperative) {
        /* All blocks have to be resident at once. */
        uint64_t most = (uint64_t)launch_blocks_per_sm(f, c) * config_context_sms();
        return blocks_of(c) > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
    }
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return cluster_check(c, a->value.clusterDim.x, a->value.clusterDim.y,
                             a->value.clusterDim.z);
    if (a->id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) /* for streams only */
        return CUDA_ERROR_INVALID_VALUE;
    return (int)a->id < 0 || (int)a->id > LAST_KNOWN ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult attributes_check(const CUlaunchConfig *c, const struct sim_function *f,
                                 struct sim_context *ctx)
{
    unsigned int width = (unsigned int)function_setting(f, ctx, CLUSTER);
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < c->numAttrs; i++) {
        TRY(attribute_check(c, &c->attrs[i], f));
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            width = 0;
    }
    return width == 0 ? CUDA_SUCCESS
                      : cluster_check(c, width, (unsigned int)function_setting(f, ctx, CLUSTER + 1),
                                      (unsigned int)function_setting(f, ctx, CLUSTER + 2));
}

/* ---- the work -------------------------------------------------------------------------------- */

static CUresult fault_effect(struct work *w)
{
    (void)w;
    return (CUresult)config_get()->fault_error;
}

/* SIMGPU_FAULT: the nth launch of the named kernel ends in an error. */
static bool fault_hits(const char *name)
{
    static _Atomic int launches;
    const struct sim_config *c = config_get();
    if (c->fault_kernel[0] == '\0' || strcmp(c->fault_kernel, name) != 0)
        return false;
    return atomic_fetch_add(&launches, 1) + 1 == c->fault_nth;
}

/* ---- times of kernels that the simulator does not know --------------------------------------- */

static struct times *table; /* NULL: there is none */

/* "default" means the file beside this library. */
static void table_open(void)
{
    const char *path = config_get()->kernel_times;
    char beside[4096];
    Dl_info here;
    if (!strcmp(path, "default") && dladdr(&table, &here) && strchr(here.dli_fname, '/')) {
        int folder = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
        snprintf(beside, sizeof(beside), "%.*s/kernel.times", folder, here.dli_fname);
        path = beside;
    }
    if (*path != '\0')
        table = times_open(path);
}

static uint64_t unknown_cost_ns(const CUlaunchConfig *c, struct sim_function *f)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t otherwise = (uint64_t)config_get()->kernel_us * 1000u;
    pthread_once(&once, table_open);
    if (!table)
        return otherwise;
    const struct times_list *list = atomic_load_explicit(&f->times, memory_order_acquire);
    if (!list) {
        list = times_of(table, f->entry->name);
        atomic_store_explicit(&f->times, list, memory_order_release);
    }
    int per_sm = launch_blocks_per_sm(f, c);
    uint64_t wave = (uint64_t)(per_sm > 0 ? per_sm : 1) * config_context_sms();
    struct times_shape shape = {.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                                .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                                .waves = (blocks_of(c) + wave - 1) / wave};
    return times_ns(list, &shape, otherwise);
}

static void work_fill(const CUlaunchConfig *c, struct sim_function *f, void *packed, struct work *w)
{
    const struct kernel_model *model = f->model;
    uint64_t blocks = blocks_of(c);
    *w = (struct work){.kind = WORK_KERNEL,
                       .blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX,
                       .threads = c->blockDimX * c->blockDimY * c->blockDimZ,
                       .smem = c->sharedMemBytes + (uint32_t)f->entry->static_smem,
                       .blob = packed,
                       .blob_bytes = f->entry->packed_bytes,
                       .node_type = CU_GRAPH_NODE_TYPE_KERNEL,
                       .func = f};
    w->name = f->entry->name;
    w->cost_ns = model ? kernel_model_cost_ns(model, packed) : unknown_cost_ns(c, f);
    w->effect = model ? model->effect : NULL;
    w->step = model ? model->step : NULL;
    w->zero_sms = model && model->zero_sms;
    const unsigned int shape[] = {c->gridDimX,  c->gridDimY,  c->gridDimZ,      c->blockDimX,
                                  c->blockDimY, c->blockDimZ, c->sharedMemBytes};
    for (size_t i = 0; i < sizeof(shape) / sizeof(*shape); i++)
        w->args.u64[i] = shape[i];
}

CUresult launch_prepare(struct sim_context *ctx, const CUlaunchConfig *config, CUfunction handle,
                        void **params, void **extra, void *packed, struct work *w)
{
    struct sim_function *f = function_find(handle);
    if (!f || (f->module && context_base(f->module->context) != context_base(ctx)))
        return CUDA_ERROR_INVALID_HANDLE;
    TRY(shape_check(config, f, ctx));
    TRY(attributes_check(config, f, ctx));
    TRY(pack(f->entry, params, extra, packed));
    function_load(f);
    work_fill(config, f, packed, w);
    return CUDA_SUCCESS;
}

/* ---- launching ------------------------------------------------------------------------------- */

/* The events that launch attributes name are recorded behind the kernel. */
static CUresult attribute_events(const CUlaunchConfig *c, bool ptds)
{
    CUresult rc = CUDA_SUCCESS;
    for (unsigned int i = 0; i < c->numAttrs && rc == CUDA_SUCCESS; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        CUevent event = NULL;
        if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            event = a->value.programmaticEvent.event;
#if CUDA_VERSION >= 12030
        if (a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            event = a->value.launchCompletionEvent.event;
#endif
        if (event)
            rc = ptds ? cuEventRecord_ptsz(event, c->hStream) : cuEventRecord(event, c->hStream);
    }
    return rc;
}

/* Most launches need little room for their parameters. */
static CUresult launch_in(struct sim_context *ctx, struct sim_stream *s, const CUlaunchConfig *c,
                          CUfunction handle, void **params, void **extra)
{
    enum { SMALL = 1024 };
    _Alignas(16) unsigned char small[SMALL];
    const struct sim_function *f = function_find(handle);
    void *large = f && f->entry->packed_bytes > SMALL ? malloc(LAUNCH_PACKED_MAX) : small;
    struct work w;
    CUresult rc =
        large ? launch_prepare(ctx, c, handle, params, extra, large, &w) : CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS && fault_hits(w.name))
        w.effect = fault_effect, w.step = NULL;
    if (rc == CUDA_SUCCESS)
        rc = work_submit_stream(s, &w, NULL);
    if (large != small)
        free(large);
    return rc;
}

/* CUDA_LAUNCH_BLOCKING=1: a launch returns when it is complete, unless the stream captures. */
static bool launch_blocks(void)
{
    static _Atomic int known; /* 0 not asked yet, 1 no, 2 yes; every thread finds the same */
    if (!atomic_load_explicit(&known, memory_order_relaxed)) {
        const char *value = getenv("CUDA_LAUNCH_BLOCKING");
        atomic_store_explicit(&known, value && atoi(value) ? 2 : 1, memory_order_relaxed);
    }
    return atomic_load_explicit(&known, memory_order_relaxed) == 2;
}

static CUresult launch_wait(CUstream s, bool ptds)
{
    CUstreamCaptureStatus status;
    CUresult rc = ptds ? cuStreamIsCapturing_ptsz(s, &status) : cuStreamIsCapturing(s, &status);
    if (rc != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_SUCCESS;
    return ptds ? cuStreamSynchronize_ptsz(s) : cuStreamSynchronize(s);
}

static CUresult launch(const CUlaunchConfig *c, CUfunction f, void **params, void **extra,
                       bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *s;
    uint64_t start_ns = config_get()->null_mode ? 0 : sim_now_ns();
    CUresult rc = context_current_ok(&ctx); /* any context will do, but there must be one */
    if (rc == CUDA_SUCCESS)
        rc = stream_arg(c->hStream, ptds, &ctx, &s);
    if (rc == CUDA_SUCCESS)
        rc = launch_in(ctx, s, c, f, params, extra);
    if (rc == CUDA_SUCCESS && c->numAttrs)
        rc = attribute_events(c, ptds);
    if (start_ns)
        host_spend(start_ns, (uint64_t)config_get()->launch_ns);
    if (rc == CUDA_SUCCESS && launch_blocks())
        rc = launch_wait(c->hStream, ptds);
    return rc;
}

static CUlaunchConfig config_of(const unsigned int grid[3], const unsigned int block[3],
                                unsigned int smem, CUstream s, bool cooperative)
{
    static CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                         .value.cooperative = 1};
    return (CUlaunchConfig){.gridDimX = grid[0],
                            .gridDimY = grid[1],
                            .gridDimZ = grid[2],
                            .blockDimX = block[0],
                            .blockDimY = block[1],
                            .blockDimZ = block[2],
                            .sharedMemBytes = smem,
                            .hStream = s,
                            .attrs = cooperative ? &together : NULL,
                            .numAttrs = cooperative};
}

static CUresult launch_kernel(CUfunction f, const unsigned int grid[3], const unsigned int block[3],
                              unsigned int smem, CUstream s, void **params, void **extra,
                              bool cooperative, bool ptds)
{
    CUlaunchConfig c = config_of(grid, block, smem, s, cooperative);
    return launch(&c, f, params, extra, ptds);
}

#define XYZ(x, y, z)                                                                               \
    (const unsigned int[])                                                                         \
    {                                                                                              \
        x, y, z                                                                                    \
    }

STREAM_API(cuLaunchKernel,
           (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
            unsigned int by, unsigned int bz, unsigned int smem, CUstream s, void **params,
            void **extra),
           launch_kernel(f, XYZ(gx, gy, gz), XYZ(bx, by, bz), smem, s, params, extra, false, ptds))
STREAM_API(cuLaunchCooperativeKernel,
           (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
            unsigned int by, unsigned int bz, unsigned int smem, CUstream s, void **params),
           launch_kernel(f, XYZ(gx, gy, gz), XYZ(bx, by, bz), smem, s, params, NULL, true, ptds))
STREAM_API(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f, void **params, void **extra),
           c ? launch(c, f, params, extra, ptds) : CUDA_ERROR_INVALID_VALUE)

/* ---- several devices at once ----------------------------------------------------------------- */

SIM_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list,
                                                         unsigned int count, unsigned int flags)
{
    enum {
        KNOWN = CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC
    };
    CUresult rc = context_current_ok(NULL);
    if (rc == CUDA_SUCCESS && (!list || !count || count > (unsigned int)config_get()->devices ||
                               flags & ~(unsigned)KNOWN))
        rc = CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count && rc == CUDA_SUCCESS; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        CUlaunchConfig c = config_of(XYZ(p->gridDimX, p->gridDimY, p->gridDimZ),
                                     XYZ(p->blockDimX, p->blockDimY, p->blockDimZ),
                                     p->sharedMemBytes, p->hStream, true);
        struct sim_stream *s;
        rc = stream_of_any_context(p->hStream, &s) /* default streams are refused */
                 ? launch_in(s->context, s, &c, p->function, p->kernelParams, NULL)
                 : CUDA_ERROR_INVALID_HANDLE;
    }
    return rc;
}

/* ---- launches as before CUDA 4.0 ------------------------------------------------------------- */

static CUresult old_enter(CUfunction handle, struct sim_function **out)
{
    TRY(context_current_ok(NULL));
    struct sim_function *f = function_find(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!f->old)
        f->old = calloc(1, sizeof(*f->old));
    *out = f;
    return f->old ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z)
{
    struct sim_function *f;
    TRY(old_enter(handle, &f));
    if (x < 1 || y < 1 || z < 1)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(f->old->block, XYZ((unsigned int)x, (unsigned int)y, (unsigned int)z),
           sizeof(f->old->block));
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncSetSharedSize(CUfunction handle, unsigned int bytes)
{
    struct sim_function *f;
    TRY(old_enter(handle, &f));
    f->old->smem = bytes;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuParamSetSize(CUfunction handle, unsigned int bytes)
{
    struct sim_function *f;
    TRY(old_enter(handle, &f));
    if (bytes > sizeof(f->old->packed))
        return CUDA_ERROR_INVALID_VALUE;
    f->old->packed_bytes = bytes;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuParamSetv(CUfunction handle, int at, void *value, unsigned int bytes)
{
    struct sim_function *f;
    TRY(old_enter(handle, &f));
    if (at < 0 || !value || (size_t)at > sizeof(f->old->packed) ||
        bytes > sizeof(f->old->packed) - (size_t)at)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(f->old->packed + at, value, bytes);
    return CUDA_SUCCESS;
}

SIM_CALL(cuParamSeti, (CUfunction f, int at, unsigned int value),
         cuParamSetv(f, at, &value, sizeof(value)))
SIM_CALL(cuParamSetf, (CUfunction f, int at, float value),
         cuParamSetv(f, at, &value, sizeof(value)))

SIM_EXPORT CUresult cuParamSetTexRef(CUfunction handle, int unit, CUtexref ref)
{
    struct sim_function *f;
    CUresult rc = old_enter(handle, &f);
    (void)ref;
    return rc == CUDA_SUCCESS && unit != CU_PARAM_TR_DEFAULT ? CUDA_ERROR_INVALID_VALUE : rc;
}

SIM_EXPORT CUresult cuLaunchGridAsync(CUfunction handle, int width, int height, CUstream s)
{
    struct sim_function *f;
    TRY(old_enter(handle, &f));
    if (width < 1 || height < 1)
        return CUDA_ERROR_INVALID_VALUE;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, f->old->packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &f->old->packed_bytes, CU_LAUNCH_PARAM_END};
    return launch_kernel(handle, XYZ((unsigned int)width, (unsigned int)height, 1), f->old->block,
                         f->old->smem, s, NULL, extra, false, false);
}

SIM_CALL(cuLaunch, (CUfunction f), cuLaunchGridAsync(f, 1, 1, NULL))
SIM_CALL(cuLaunchGrid, (CUfunction f, int width, int height),
         cuLaunchGridAsync(f, width, height, NULL))
