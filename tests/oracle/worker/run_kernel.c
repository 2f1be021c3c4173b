/*
 * run_kernel.c - runs ops that launch kernels, and ops about the kernels' modules.
 */
#include "machine.h"

#include <time.h>

#include "kernels_ptx.h"
#include "trace.h"

static CUresult launch(const struct op *o, CUfunction f, void **params)
{
    unsigned blocks = o->variant & 16 ? 4 : 1, threads = o->variant & 32 ? 128 : WORDS;
    return CALL(cuLaunchKernel, o, f, blocks, 1, 1, threads, 1, 1, 0, handle(o), params, NULL);
}

/* The same launch, with the parameters in one packed buffer. */
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
    spoil(&packed, sizeof(packed));
    return r;
}

static CUresult launch_attribute(const struct op *o, CUfunction f, void **params,
                                 CUlaunchAttribute *attribute)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = WORDS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = handle(o),
                             .attrs = attribute,
                             .numAttrs = 1};
    CUresult r = CALL(cuLaunchKernelEx, o, &config, f, params, NULL);
    spoil(attribute, sizeof(*attribute));
    spoil(&config, sizeof(config));
    return r;
}

static CUresult launch_ex(const struct op *o, CUfunction f, void **params)
{
    CUlaunchAttribute attribute = {.id = o->variant & 16 ? CU_LAUNCH_ATTRIBUTE_PRIORITY
                                                         : CU_LAUNCH_ATTRIBUTE_IGNORE};
    attribute.value.priority = 0;
    return launch_attribute(o, f, params, &attribute);
}

/* Two attributes have an event at the same place, the second one from 12.3 on. */
static CUresult launch_event(const struct op *o, CUfunction f, void **params)
{
    enum { COMPLETION_EVENT = 12 };
    bool early = CUDA_VERSION >= 12030 && !(o->variant & 16);
    CUlaunchAttribute attribute = {.id = early ? (CUlaunchAttributeID)COMPLETION_EVENT
                                               : CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    attribute.value.programmaticEvent.event = m.event[o->event];
    return launch_attribute(o, f, params, &attribute);
}

struct passing {
    const struct op *o;
    uint32_t index;
    CUfunction f;
    void **params;
    CUresult r;
};

static void *pass(void *arg)
{
    struct passing *p = arg;
    unsigned long long id = 0;
    p->r = cuCtxSetCurrent(stream_base(p->o->stream) == OTHER ? m.other : m.ctx);
    p->r = p->r ? p->r : CALL(cuStreamGetId, p->o, handle(p->o), &id);
    trace_stream(p->index, id);
    p->r = p->r ? p->r : launch(p->o, p->f, p->params);
    return NULL;
}

/* Another thread launches, and then ends. */
static CUresult launch_passing(const struct op *o, CUfunction f, void **params, uint32_t index)
{
    struct passing p = {o, index, f, params, CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    if (pthread_create(&thread, NULL, pass, &p) == 0)
        pthread_join(thread, NULL);
    return p.r;
}

/* The kernel lives until this thread has let it go on `rounds` times, without the driver. */
static CUresult launch_await(const struct op *o, CUfunction f, uint64_t x, uint32_t index)
{
    _Atomic uint32_t *word = &m.awaited[index];
    uint32_t a = o->a, b = o->b, n = WORDS, rounds = await_rounds(o->variant);
    CUresult r = launch(o, f, (void *[]){&x, &a, &b, &n, &word, &rounds});
    for (uint32_t i = 1; i <= rounds; i++) {
        *word = i;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return r;
}

CUresult run_kernel(const struct op *o, uint32_t index)
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
    case OP_MIX_EVENT:
        r = launch_event(o, f->mix, (void *[]){&dst, &a, &b, &n});
        break;
    case OP_MIX_PASSING:
        r = launch_passing(o, f->mix_spin, (void *[]){&dst, &a, &b, &n, &ns}, index);
        break;
    case OP_MIX_AWAIT:
        r = launch_await(o, f->await_mix, dst, index);
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
    spoil(&dst, sizeof(dst));
    spoil(&src, sizeof(src));
    spoil(&a, sizeof(a));
    spoil(&b, sizeof(b));
    spoil(&n, sizeof(n));
    spoil(&ns, sizeof(ns));
    return r;
}

/* ---- shared memory that a kernel has to be allowed ------------------------------------------- */

static const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

static CUresult allow_kernel(CUdevice device, bool much)
{
    return cuKernelSetAttribute(shared, much ? SHARED_MUCH : SHARED_LITTLE, (CUkernel)m.k.mix,
                                device);
}

/* The setting of a context's function overrides the kernel's, whichever is set first. */
static CUresult allow_function(CUdevice device, bool much, bool before)
{
    CUfunction f;
    CUresult r = before ? allow_kernel(device, !much) : CUDA_SUCCESS;
    r = r ? r : cuKernelGetFunction(&f, (CUkernel)m.k.mix);
    r = r ? r : cuFuncSetAttribute(f, shared, much ? SHARED_MUCH : SHARED_LITTLE);
    return r || before ? r : allow_kernel(device, !much);
}

static CUresult allow(const struct op *o)
{
    CUdevice device = o->b ? m.second_device : m.device;
    m.allowed = true;
    return o->flag ? allow_function(device, o->a, o->variant & 16) : allow_kernel(device, o->a);
}

CUresult run_allow(const struct op *o, uint32_t index)
{
    (void)index;
    bool other = stream_base(o->stream) == OTHER;
    uint64_t x = o->kind == OP_MIX_MUCH ? address(o->dst)
                 : other                ? m.other_buffer[0]
                                        : m.device_buffer[0];
    uint32_t a = o->a, b = o->b, n = WORDS;
    pthread_rwlock_rdlock(&m.functions);
    CUresult r = o->kind == OP_ALLOW
                     ? allow(o)
                     : CALL(cuLaunchKernel, o, m.k.mix, 1, 1, 1, WORDS, 1, 1, SHARED_MUCH,
                            handle(o), (void *[]){&x, &a, &b, &n}, NULL);
    pthread_rwlock_unlock(&m.functions);
    return r;
}

CUresult run_reload(const struct op *o, uint32_t index)
{
    (void)index;
    CUresult r;
    pthread_rwlock_wrlock(&m.functions);
    if (o->kind == OP_MODULE_RELOAD) {
        r = cuModuleUnload(m.second);
        r = r ? r : cuModuleLoadData(&m.second, kernels_ptx);
        r = r ? r : machine_load_functions(m.second, &m.g);
    } else {
        r = cuLibraryUnload(m.library);
        r = r ? r : machine_load_library();
    }
    pthread_rwlock_unlock(&m.functions);
    return r;
}

CUresult run_bad(const struct op *o, uint32_t index)
{
    (void)index;
    uint32_t a = 1, b = 1, n = WORDS;
    bool other = stream_base(o->stream) == OTHER;
    CUfunction f = other ? m.o.mix : m.f.mix;
    uint64_t x = other ? m.other_buffer[0] : m.device_buffer[0];
    void *params[] = {&x, &a, &b, &n};
    switch (o->kind) {
    case OP_BAD_GRID:
        return CALL(cuLaunchKernel, o, f, o->variant & 4 ? 0 : 1, 1, 1, o->variant & 4 ? 32 : 4096,
                    1, 1, 0, handle(o), params, NULL);
    case OP_BAD_STREAM:
        return cuStreamQuery((CUstream)&m.arena[0]);
    case OP_BAD_EVENT:
        return cuEventRecord((CUevent)&m.arena[0], handle(o));
    default:
        return CALL(cuLaunchKernel, o, f, 1, 1, 1, 32, 1, 1, 1u << 30, handle(o), params, NULL);
    }
}
