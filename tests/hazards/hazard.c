/*
 * hazard.c - see hazard.h.
 */
#include "tests/hazards/hazard.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/cutin.h"

static struct hazard *hazards;

CUdevice device;
CUcontext context;
CUmodule module;
CUfunction mix, fill, spin, mix_spin;
unsigned int hold_ms = 25;
_Atomic bool told;

void hazard_add(struct hazard *h)
{
    h->next = hazards;
    hazards = h;
}

CUresult say_answer(const char *what, CUresult r)
{
    printf("%s = %d\n", what, (int)r);
    return r;
}

void give_up(const char *why)
{
    printf("gave up: %s\n", why);
    fflush(stdout);
    exit(99);
}

void must(const char *what, CUresult r)
{
    if (r == CUDA_SUCCESS)
        return;
    say_answer(what, r);
    give_up(what);
}

void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void until_told(void *unused)
{
    (void)unused;
    while (!atomic_load(&told))
        nap();
}

/* ---- a GPU --------------------------------------------------------------------------------- */

char *kernels_text(void)
{
    const char *path = getenv("KERNELS_PTX"); /* for a program that was built on another machine */
    FILE *f = fopen(path ? path : SOURCE_DIR "/examples/kernels.ptx", "r");
    char *text = calloc(1, 1 << 20);
    if (!f || !text || fread(text, 1, (1 << 20) - 1, f) == 0)
        give_up("kernels.ptx");
    fclose(f);
    return text;
}

void gpu_open(void)
{
    char *text = kernels_text();
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, text));
    free(text);
    MUST(cuModuleGetFunction(&mix, module, "mix"));
    MUST(cuModuleGetFunction(&fill, module, "fill"));
    MUST(cuModuleGetFunction(&spin, module, "spin"));
    MUST(cuModuleGetFunction(&mix_spin, module, "mix_spin"));
}

/* Drivers of CUDA 12 have this version, too, but newer headers do not declare it. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

CUcontext context_new(void)
{
    CUcontext ctx;
    MUST(cuCtxCreate_v2(&ctx, 0, device));
    return ctx;
}

CUstream stream_new(unsigned int flags)
{
    CUstream s;
    MUST(cuStreamCreate(&s, flags));
    return s;
}

CUevent event_new(void)
{
    CUevent e;
    MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

CUdeviceptr buffer_new(uint32_t value)
{
    CUdeviceptr x;
    MUST(cuMemAlloc(&x, BYTES));
    MUST(cuMemsetD32(x, value, N));
    MUST(cuCtxSynchronize());
    return x;
}

uint32_t *pinned_new(uint32_t value)
{
    void *p;
    MUST(cuMemHostAlloc(&p, BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    for (int i = 0; i < N; i++)
        ((uint32_t *)p)[i] = value;
    return p;
}

CUresult launch_mix(CUdeviceptr x, uint32_t a, uint32_t b, CUstream s)
{
    uint32_t n = N;
    void *params[] = {&x, &a, &b, &n};
    CUresult r = cuLaunchKernel(mix, N / 256, 1, 1, 256, 1, 1, 0, s, params, NULL);
    x = 0;
    a = b = n = 0xdead;
    return r;
}

const CUDA_KERNEL_NODE_PARAMS *mix_node(struct mix_node *m, CUdeviceptr x, uint32_t a, uint32_t b)
{
    *m = (struct mix_node){.x = x,
                           .a = a,
                           .b = b,
                           .n = N,
                           .params = {&m->x, &m->a, &m->b, &m->n},
                           .node = {.func = mix,
                                    .gridDimX = N / 256,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = m->params}};
    return &m->node;
}

CUresult launch_slow(CUdeviceptr x, uint32_t a, uint32_t b, uint32_t us, CUstream s)
{
    uint32_t n = N;
    uint64_t ns = (uint64_t)us * 1000;
    void *params[] = {&x, &a, &b, &n, &ns};
    return cuLaunchKernel(mix_spin, N / 256, 1, 1, 256, 1, 1, 0, s, params, NULL);
}

void warm(CUstream s)
{
    CUdeviceptr x = buffer_new(1);
    MUST(launch_mix(x, 1, 0, s));
    MUST(launch_slow(x, 1, 0, 1, s));
    MUST(cuStreamSynchronize(s));
    MUST(cuMemFree(x));
}

void show_host(const char *what, const uint32_t *x)
{
    uint32_t sum = 2166136261u;
    for (int i = 0; i < N; i++)
        sum = (sum ^ x[i]) * 16777619u;
    printf("%s: %u .. %u, sum %08x\n", what, x[0], x[N - 1], sum);
}

void show(const char *what, CUdeviceptr x)
{
    static _Thread_local uint32_t host[N];
    memset(host, 0xee, sizeof(host));
    CUresult r = cuMemcpyDtoH(host, x, BYTES);
    if (r != CUDA_SUCCESS)
        say_answer(what, r);
    else
        show_host(what, host);
}

/* ---- holds --------------------------------------------------------------------------------- */

enum { HOLDS = 16 };
struct held {
    CUstream stream;
    CUcontext context;
    pthread_t helper;
    unsigned int patience_ms;
    _Atomic bool over; /* the helper's patience has ended, or release() was called */
    bool used, held;
};
static struct held holds[HOLDS];

static void held_end(struct held *h)
{
    if (!atomic_exchange(&h->over, true) && h->held)
        cutin_stream_release(h->stream);
}

static void *helper_main(void *arg)
{
    struct held *h = arg;
    cuCtxSetCurrent(h->context);
    for (unsigned int i = 0; i < h->patience_ms && !atomic_load(&h->over); i++)
        nap();
    held_end(h);
    return NULL;
}

/* A per-thread stream can be released by its own thread only, and is never buffered. */
static bool special(CUstream s)
{
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    if (!s)
        return true;
#endif
    return s == CU_STREAM_PER_THREAD;
}

static struct held *held_find(CUstream s)
{
    for (int i = 0; i < HOLDS; i++)
        if (holds[i].used && holds[i].stream == s)
            return &holds[i];
    return NULL;
}

static bool profiled(void)
{
    return !!getenv("CUDA_INJECTION64_PATH");
}

void hold_for(unsigned int ms)
{
    hold_ms = profiled() ? 5 : ms;
}

/* The test is to find a deliberate bug (tests/mutants.h). */
static bool mutant(void)
{
    return !!getenv("CUTIN_MUTANT");
}

void time_to_go(void)
{
    for (int ms = mutant() ? 1000 : 50; ms > 0; ms--)
        nap();
}

void hold(CUstream s)
{
    struct held *h = holds;
    if (!cutin_version() || special(s))
        return;
    while (h->used)
        h++;
    *h = (struct held){.stream = s, .used = true, .patience_ms = hold_ms};
    cuCtxGetCurrent(&h->context);
    h->held = cutin_stream_hold(s) == CUDA_SUCCESS;
    if (pthread_create(&h->helper, NULL, helper_main, h) != 0)
        give_up("no thread");
}

void release(CUstream s)
{
    struct held *h = cutin_version() ? held_find(s) : NULL;
    if (!h)
        return;
    held_end(h);
    pthread_join(h->helper, NULL);
    h->used = false;
}

bool held(CUstream s)
{
    struct held *h = cutin_version() ? held_find(s) : NULL;
    return h && h->held && !atomic_load(&h->over);
}

void buffered(CUstream s)
{
    struct held *h = cutin_version() ? held_find(s) : NULL;
    if (!h || !h->held || profiled())
        return;
    bool empty = cuStreamQuery(s) != CUDA_ERROR_NOT_READY;
    if (empty && !atomic_load(&h->over))
        give_up("nothing is buffered in a held stream");
}

void still_held(CUstream s)
{
    struct held *h = cutin_version() ? held_find(s) : NULL;
    if (h && h->held && !profiled() && atomic_load(&h->over))
        give_up("a call has waited for a hold");
}

/* ---- threads ------------------------------------------------------------------------------- */

struct thread {
    pthread_t id;
    void (*fn)(void *);
    void *arg;
    _Atomic pid_t tid;
};

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    MUST(cuCtxSetCurrent(context));
    atomic_store(&t->tid, (pid_t)syscall(SYS_gettid));
    t->fn(t->arg);
    return NULL;
}

struct thread *thread_start(void (*fn)(void *), void *arg)
{
    struct thread *t = calloc(1, sizeof(*t));
    if (!t)
        give_up("no memory");
    *t = (struct thread){.fn = fn, .arg = arg};
    if (pthread_create(&t->id, NULL, thread_main, t) != 0)
        give_up("no thread");
    return t;
}

void thread_join(struct thread *t)
{
    pthread_join(t->id, NULL);
    free(t);
}

/* Bytes for a thread's system call: its number, six arguments, stack and instruction. */
enum { CALL = 256 };

static void call_of(pid_t thread, char call[static CALL])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)thread);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(call, 1, CALL - 1, f) : 0;
    if (n == 0)
        give_up(path);
    fclose(f);
    call[n] = '\0';
}

/* A thread that waits for the GPU, in the driver or in cutin, waits for a futex word or sleeps
 * between looks. In other system calls, above all those for memory, the kernel may make it wait for
 * a lock, and it may hold malloc's lock then. A wait for another thread's lock is a FUTEX_WAIT
 * without a time limit. */
static bool waits_in(const char *call, struct place *where)
{
    long number = -1;
    unsigned int operation = 0;
    unsigned long limit = 0;
    sscanf(call, "%ld %*s %x %*s %lx %*s %*s %lx %lx", &number, &operation, &limit, &where->stack,
           &where->instruction);
    if (number == SYS_futex && ((int)operation & FUTEX_CMD_MASK) == FUTEX_WAIT)
        return limit != 0;
    return number == SYS_futex || number == SYS_clock_nanosleep;
}

/* The thread is at the same place at two looks, or looks from there now and then for what it waits
 * for. */
struct place id_waits(pid_t id)
{
    char before[CALL], call[CALL];
    struct place where;
    call_of(id, call);
    do {
        memcpy(before, call, sizeof(before));
        nap();
        call_of(id, call);
    } while (!waits_in(call, &where) || strcmp(call, before) != 0);
    return where;
}

struct place id_waits_long(pid_t id)
{
    id_waits(id);
    nanosleep(&(struct timespec){.tv_nsec = 110000000}, NULL);
    return id_waits(id);
}

/* With a small budget a call enters the driver only after the 100 ms of id_waits_long. */
void thread_waits(const struct thread *t)
{
    UNTIL(atomic_load(&t->tid));
    if (getenv("CUTIN_BUDGET_US"))
        id_waits_long(atomic_load(&t->tid));
    else
        id_waits(atomic_load(&t->tid));
}

static void *watch(void *why)
{
    const char *set = getenv("HAZARD_HANG_S");
    for (int i = 0, ms = (set ? atoi(set) : 120) * 1000; i < ms; i++)
        nap();
    give_up(why);
}

void hang_watch(const char *why)
{
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch, (void *)(uintptr_t)why) != 0)
        give_up("no thread");
}

/* ---- main ---------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (mutant()) /* its effect happens while the stream is held, however late */
        hold_ms = 500;
    for (struct hazard *h = hazards; h; h = h->next) {
        if (argc > 1 && strcmp(argv[1], "--list") == 0)
            puts(h->name);
        if (argc > 1 && strcmp(argv[1], h->name) == 0) {
            if (!h->raw)
                gpu_open();
            h->run();
            puts("end");
            return 0;
        }
    }
    return argc > 1 && strcmp(argv[1], "--list") == 0 ? 0 : 2;
}
