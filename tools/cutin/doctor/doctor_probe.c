/*
 * doctor_probe.c - the processes of `cutin doctor` that open the driver: what it can do, what it
 * costs, and whether a hold holds.
 */
#include "tools/cutin/subcommand.h"
#include "doctor.h"
#include "tools/cutin/driver.h"
#include "tools/cutin/progress.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels_ptx.h"

enum {
    SHARED_FD = 3,
    PATIENCE_S = 60, /* a first cuInit on a big machine takes seconds */
    THREADS = 256,
    CALLS = 200, /* timed calls of a kind; a stream takes about 1000 before a call waits */
    GATES = 200,
    OPENINGS = 15,
    TURNS = 300, /* kernels of each context that takes turns */
    TURN_NS = 100000,
};

/* By the names that every driver since 12.0 has, whatever cuda.h renames. */
struct entries {
    struct driver cu;
    CUresult (*ctx_create)(CUcontext *, unsigned, CUdevice);
    CUresult (*elapsed)(float *, CUevent, CUevent);
    CUresult (*host_register)(void *, size_t, unsigned);
    CUresult (*host_unregister)(void *);
    CUresult (*host_pointer)(CUdeviceptr *, void *, unsigned);
    CUresult (*write_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    CUresult (*batch)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
    CUresult (*param_info)(CUfunction, size_t, size_t *, size_t *);
};

static const struct {
    const char *name;
    size_t offset;
} optional[] = {
    {"cuCtxCreate_v2", offsetof(struct entries, ctx_create)},
    {"cuEventElapsedTime", offsetof(struct entries, elapsed)},
    {"cuMemHostRegister_v2", offsetof(struct entries, host_register)},
    {"cuMemHostUnregister", offsetof(struct entries, host_unregister)},
    {"cuMemHostGetDevicePointer_v2", offsetof(struct entries, host_pointer)},
    {"cuStreamWriteValue32_v2", offsetof(struct entries, write_value)},
    {"cuStreamBatchMemOp_v2", offsetof(struct entries, batch)},
    {"cuFuncGetParamInfo", offsetof(struct entries, param_info)},
};

static struct entries e;
static struct probe *found;
static CUdevice device;
static CUcontext context;
static CUfunction spin, fill;
static CUstream stream;
/* In a registered page of a memfd, or where that cannot be in the driver's own memory. */
static _Atomic uint32_t *words;
static CUdeviceptr words_device;
enum { GATE_WORD, MARKER_WORD, FILL_WORD };

static int give_up(CUresult r, const char *what)
{
    const char *text = NULL;

    if (e.cu.cuGetErrorString)
        e.cu.cuGetErrorString(r, &text);
    snprintf(found->why, sizeof(found->why), "%s: %s (%d)", what, text ? text : "unknown error",
             (int)r);
    return -EIO;
}

#define TRY(what, call)                                                                            \
    do {                                                                                           \
        CUresult try_r = (call);                                                                   \
        if (try_r != CUDA_SUCCESS)                                                                 \
            return give_up(try_r, what);                                                           \
    } while (0)

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void nap(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n ? v[n / 2] : 0;
}

static CUdeviceptr word_at(int word)
{
    return words_device + (CUdeviceptr)word * 64;
}

static _Atomic uint32_t *word(int which)
{
    return words + which * 16;
}

/* ---- the driver and the GPU ---------------------------------------------------------------- */

static int open_driver(void)
{
    void *library;
    int rc = driver_open(&e.cu, found->why, sizeof(found->why));

    if (rc != 0)
        return rc;
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        *(void **)((char *)&e + optional[i].offset) = dlsym(library, optional[i].name);
    /* Needs no GPU. */
    TRY("cuDriverGetVersion", e.cu.cuDriverGetVersion(&found->driver_version));
    functions_look(library, found);
    found->stage = PROBE_DRIVER;
    return 0;
}

static int attribute(CUdevice_attribute which, int otherwise)
{
    int value;

    return e.cu.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
}

static int load_kernels(CUfunction *spin_out, CUfunction *fill_out)
{
    CUmodule module;

    TRY("cuModuleLoadData", e.cu.cuModuleLoadData(&module, kernels_ptx));
    TRY("cuModuleGetFunction", e.cu.cuModuleGetFunction(spin_out, module, "spin"));
    TRY("cuModuleGetFunction", e.cu.cuModuleGetFunction(fill_out, module, "fill"));
    return 0;
}

static int open_gpu(void)
{
    enum { MPS_ENABLED = 133 }; /* cuda.h since 12.4 */

    TRY("cuInit", e.cu.cuInit(0));
    TRY("cuDeviceGet", e.cu.cuDeviceGet(&device, 0));
    TRY("cuDeviceGetName", e.cu.cuDeviceGetName(found->gpu, sizeof(found->gpu), device));
    found->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    found->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    found->processors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1);
    found->compute_mode = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT);
    found->mps = attribute((CUdevice_attribute)MPS_ENABLED, -1);
    TRY("cuDevicePrimaryCtxRetain", e.cu.cuDevicePrimaryCtxRetain(&context, device));
    TRY("cuCtxSetCurrent", e.cu.cuCtxSetCurrent(context));
    TRY("cuStreamCreate", e.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (load_kernels(&spin, &fill) != 0)
        return -EIO;
    size_t offset, size;
    found->param_info = e.param_info && e.param_info(fill, 0, &offset, &size) == CUDA_SUCCESS;
    found->stage = PROBE_GPU;
    return 0;
}

/* A page as the scheduler shares it. */
static void *shared_page(void)
{
    int fd = memfd_create("cutin-doctor", MFD_CLOEXEC);
    void *at = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, 4096) == 0)
        at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static int open_words(void)
{
    void *page = shared_page();

    found->registration = CUDA_ERROR_NOT_SUPPORTED;
    if (page && e.host_register && e.host_pointer)
        found->registration = (int32_t)e.host_register(page, 4096, CU_MEMHOSTREGISTER_DEVICEMAP);
    if (found->registration != CUDA_SUCCESS)
        TRY("cuMemAllocHost", e.cu.cuMemAllocHost(&page, 4096));
    words = page;
    if (!e.host_pointer)
        return 0;
    TRY("cuMemHostGetDevicePointer", e.host_pointer(&words_device, page, 0));
    return 0;
}

/* ---- what calls cost ----------------------------------------------------------------------- */

static CUresult launch_spin(CUfunction f, CUstream s, unsigned blocks, uint64_t ns)
{
    void *args[] = {&ns};

    return e.cu.cuLaunchKernel(f, blocks, 1, 1, THREADS, 1, 1, 0, s, args, NULL);
}

static CUresult call_launch(void)
{
    return launch_spin(spin, stream, 1, 0);
}

static CUresult call_marker(void)
{
    return e.write_value ? e.write_value(stream, word_at(MARKER_WORD), 1, 0)
                         : CUDA_ERROR_NOT_SUPPORTED;
}

/* A marker and a gate in one: on with the stream once the gate's word is zero. */
static CUresult call_gate(void)
{
    CUstreamBatchMemOpParams op[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = word_at(MARKER_WORD),
                        .value = 1}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = word_at(GATE_WORD),
                       .value = 0,
                       .flags = CU_STREAM_WAIT_VALUE_EQ}},
    };

    return e.batch ? e.batch(stream, 2, op, 0) : CUDA_ERROR_NOT_SUPPORTED;
}

/* Median time of a call, in nanoseconds of the calling thread; 0: it does not work. */
static double time_of(CUresult (*call)(void))
{
    double ns[CALLS];

    if (call() != CUDA_SUCCESS || e.cu.cuStreamSynchronize(stream) != CUDA_SUCCESS)
        return 0;
    for (int i = 0; i < CALLS; i++) {
        double before = now_ns();

        if (call() != CUDA_SUCCESS)
            return 0;
        ns[i] = now_ns() - before;
    }
    return e.cu.cuStreamSynchronize(stream) == CUDA_SUCCESS ? median(ns, CALLS) : 0;
}

/* What an open gate costs the stream: all of them are in the queue before the first may go. */
static int measure_gates_on_device(void)
{
    CUevent start, end;
    float ms = 0;

    TRY("cuEventCreate", e.cu.cuEventCreate(&start, CU_EVENT_DEFAULT));
    TRY("cuEventCreate", e.cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
    atomic_store(word(GATE_WORD), 1);
    call_gate();
    e.cu.cuEventRecord(start, stream);
    for (int i = 0; i < GATES; i++)
        call_gate();
    e.cu.cuEventRecord(end, stream);
    atomic_store(word(GATE_WORD), 0);
    TRY("cuStreamSynchronize", e.cu.cuStreamSynchronize(stream));
    TRY("cuEventElapsedTime", e.elapsed(&ms, start, end));
    found->gate_device_ns = (double)ms * 1e6 / GATES;
    TRY("cuEventDestroy", e.cu.cuEventDestroy(start));
    TRY("cuEventDestroy", e.cu.cuEventDestroy(end));
    return 0;
}

/* From the word's write to the marker behind the gate, as the host sees it. */
static int measure_opening(void)
{
    double ns[OPENINGS];

    found->gate_holds = true;
    for (int i = 0; i < OPENINGS; i++) {
        double start, limit;

        atomic_store(word(GATE_WORD), 1);
        TRY("cuStreamBatchMemOp", call_gate());
        TRY("cuStreamWriteValue32", e.write_value(stream, word_at(MARKER_WORD), 2, 0));
        nap(300000);
        found->gate_holds &= atomic_load(word(MARKER_WORD)) != 2;
        start = now_ns();
        limit = start + 1e9;
        atomic_store(word(GATE_WORD), 0);
        while (atomic_load(word(MARKER_WORD)) != 2 && now_ns() < limit)
            sched_yield();
        ns[i] = now_ns() - start;
        TRY("cuStreamSynchronize", e.cu.cuStreamSynchronize(stream));
    }
    found->gate_open_ns = median(ns, OPENINGS);
    return 0;
}

static int measure_calls(void)
{
    found->launch_ns = time_of(call_launch);
    found->marker_ns = words_device ? time_of(call_marker) : 0;
    found->memops = found->marker_ns > 0;
    found->gate_ns = found->memops ? time_of(call_gate) : 0;
    found->batch = found->gate_ns > 0;
    if (!found->batch)
        return 0;
    return measure_gates_on_device() != 0 || measure_opening() != 0 ? -EIO : 0;
}

/* ---- turns --------------------------------------------------------------------------------- */

struct turns {
    CUcontext context;
    CUfunction spin;
    CUstream stream;
    CUevent end[TURNS];
};

static int turns_open(struct turns *t, CUcontext own)
{
    CUfunction unused;

    t->context = own;
    TRY("cuCtxSetCurrent", e.cu.cuCtxSetCurrent(own));
    if (load_kernels(&t->spin, &unused) != 0)
        return -EIO;
    TRY("cuStreamCreate", e.cu.cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < TURNS; i++)
        TRY("cuEventCreate", e.cu.cuEventCreate(&t->end[i], CU_EVENT_DEFAULT));
    TRY("cuLaunchKernel", launch_spin(t->spin, t->stream, 1, 0)); /* loads it */
    TRY("cuStreamSynchronize", e.cu.cuStreamSynchronize(t->stream));
    return 0;
}

static int turns_launch(struct turns *t, int i)
{
    TRY("cuCtxSetCurrent", e.cu.cuCtxSetCurrent(t->context));
    TRY("cuLaunchKernel",
        launch_spin(t->spin, t->stream, (unsigned)found->processors * 8, TURN_NS));
    TRY("cuEventRecord", e.cu.cuEventRecord(t->end[i], t->stream));
    return 0;
}

/*
 * Two contexts keep the GPU busy. Where they take turns, one's kernels come in bursts, and a pause is
 * the other's turn with a switch before and after it. Only the first two thirds count: then one of
 * them is done.
 */
static int turns_read(struct turns *t)
{
    double pause[TURNS], period[TURNS], last = 0, at = 0;
    size_t pauses = 0, periods = 0;

    TRY("cuCtxSetCurrent", e.cu.cuCtxSetCurrent(t->context));
    TRY("cuStreamSynchronize", e.cu.cuStreamSynchronize(t->stream));
    for (int i = 1; i < TURNS * 2 / 3; i++) {
        float ms;

        TRY("cuEventElapsedTime", e.elapsed(&ms, t->end[i - 1], t->end[i]));
        double ns = (double)ms * 1e6;
        at += ns;
        if (ns < 2.0 * TURN_NS)
            continue;
        pause[pauses++] = ns - TURN_NS;
        if (last > 0)
            period[periods++] = at - last;
        last = at;
    }
    if (periods < 2)
        return 0;
    double pause_ns = median(pause, pauses), period_ns = median(period, periods);
    found->slices = true;
    found->slice_ns = period_ns - pause_ns;
    found->switch_ns = pause_ns > found->slice_ns ? (pause_ns - found->slice_ns) / 2 : 0;
    return 0;
}

static int measure_turns(void)
{
    static struct turns a, b;
    CUcontext second;

    if (!e.ctx_create || !e.elapsed)
        return 0;
    TRY("cuCtxCreate", e.ctx_create(&second, 0, device));
    if (turns_open(&a, context) != 0 || turns_open(&b, second) != 0)
        return -EIO;
    for (int i = 0; i < TURNS; i++)
        if (turns_launch(&a, i) != 0 || turns_launch(&b, i) != 0)
            return -EIO;
    return turns_read(&a);
}

/* ---- under libcutin.so --------------------------------------------------------------------- */

static CUresult (*stream_hold)(CUstream), (*stream_release)(CUstream);
static _Atomic bool launched;

/* Releases the stream some time after the launch, whether or not that returned meanwhile. */
static void *release_later(void *unused)
{
    nap(30000000);
    found->held = atomic_load(word(FILL_WORD)) == 0;
    found->buffered = atomic_load(&launched);
    stream_release(stream);
    return NULL;
}

static CUresult launch_fill(uint32_t value)
{
    CUdeviceptr to = word_at(FILL_WORD);
    uint32_t n = 1;
    void *args[] = {&to, &value, &n};

    return e.cu.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL);
}

static bool in_front(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    Dl_info info;

    return dladdr(dlsym(library, name), &info) && info.dli_fname &&
           strstr(info.dli_fname, "libcutin.so");
}

static void look_preload(void)
{
    const char *(*version)(void);

    *(void **)&version = dlsym(RTLD_DEFAULT, "cutin_version");
    *(void **)&stream_hold = dlsym(RTLD_DEFAULT, "cutin_stream_hold");
    *(void **)&stream_release = dlsym(RTLD_DEFAULT, "cutin_stream_release");
    found->loaded = version && stream_hold && stream_release;
    if (!found->loaded)
        return;
    snprintf(found->version, sizeof(found->version), "%s", version());
    found->in_front = in_front("cuLaunchKernel");
}

static int try_hold(void)
{
    pthread_t helper;

    if (!found->loaded)
        return 0;
    TRY("cuLaunchKernel", launch_fill(0)); /* a kernel that was never launched is not queued */
    TRY("cuLaunchKernel", launch_fill(0));
    TRY("cuStreamSynchronize", e.cu.cuStreamSynchronize(stream));
    found->hold = (int32_t)stream_hold(stream);
    if (found->hold != CUDA_SUCCESS)
        return 0;
    if (pthread_create(&helper, NULL, release_later, NULL) != 0)
        return -ENOMEM;
    CUresult r = launch_fill(1);
    atomic_store(&launched, true);
    pthread_join(helper, NULL);
    TRY("cuLaunchKernel", r);
    TRY("cuStreamSynchronize", e.cu.cuStreamSynchronize(stream));
    found->released = atomic_load(word(FILL_WORD)) == 1;
    return 0;
}

/* ---- the process --------------------------------------------------------------------------- */

static int probe(bool bare)
{
    int rc = open_driver();

    if (rc == 0 && !bare)
        look_preload();
    if (rc == 0)
        rc = open_gpu();
    if (rc == 0)
        rc = open_words();
    if (rc == 0)
        rc = bare ? measure_calls() : try_hold();
    if (rc == 0 && bare)
        rc = measure_turns();
    if (rc == 0)
        found->stage = PROBE_MEASURED;
    return rc;
}

int probe_main(const char *kind)
{
    void *at = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);

    if (at == MAP_FAILED)
        return EXIT_FAILURE;
    found = at;
    return probe(strcmp(kind, "bare") == 0) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int set_environment(const struct doctor *d, bool preloaded)
{
    char id[32];
    int rc = environment_remove_preload("libcutin.so");

    snprintf(id, sizeof(id), "doctor-%d", (int)getppid());
    if (rc == 0 && d->sim)
        rc = environment_prepend("LD_LIBRARY_PATH", d->paths.simulator);
    if (rc == 0 && d->sim && setenv("SIMGPU_ID", id, 1) != 0)
        rc = -ENOMEM;
    if (rc != 0 || !preloaded)
        return rc;
    if (setenv("CUTIN_PRIORITY", "be", 1) != 0 || setenv("CUTIN_PROFILE", "off", 1) != 0 ||
        setenv("CUTIN_SOCKET", "", 1) != 0)
        return -ENOMEM;
    return environment_prepend("LD_PRELOAD", d->paths.library);
}

_Noreturn static void become_probe(const struct doctor *d, bool preloaded, int fd, pid_t parent)
{
    setpgid(0, 0); /* out of reach of the terminal's Ctrl-C */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || set_environment(d, preloaded) != 0 ||
        (fd == SHARED_FD ? fcntl(fd, F_SETFD, 0) : dup2(fd, SHARED_FD)) < 0)
        _exit(EXIT_CANNOT_RUN);
    /* stdout carries the verdicts alone. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(d->paths.self, "cutin", "doctor", "--worker", preloaded ? "preloaded" : "bare",
          (char *)NULL);
    _exit(EXIT_CANNOT_RUN);
}

static void wait_for(pid_t pid, struct probe *p, const char *what)
{
    int status = 0;

    for (int ms = 0; waitpid(pid, &status, WNOHANG) == 0; ms += 5) {
        progress_show(0, 0, what);
        nap(5000000);
        if (progress_cancel) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            snprintf(p->why, sizeof(p->why), "interrupted");
            return;
        }
        if (ms >= PATIENCE_S * 1000) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            snprintf(p->why, sizeof(p->why), "the driver did not answer for %d s", PATIENCE_S);
            return;
        }
    }
    if (WIFSIGNALED(status))
        snprintf(p->why, sizeof(p->why), "the process was ended by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (status != 0 && !p->why[0])
        snprintf(p->why, sizeof(p->why), "the process could not be started");
}

struct probe *probe_run(const struct doctor *d, bool preloaded)
{
    int fd = memfd_create("cutin-doctor", MFD_CLOEXEC);
    void *at = MAP_FAILED;
    pid_t parent = getpid(), pid;

    if (fd >= 0 && ftruncate(fd, sizeof(struct probe)) == 0)
        at = mmap(NULL, sizeof(struct probe), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct probe *p = at;
    p->mps = -1;
    p->registration = CUDA_ERROR_NOT_SUPPORTED;
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        become_probe(d, preloaded, fd, parent);
    close(fd);
    if (pid < 0)
        snprintf(p->why, sizeof(p->why), "no process: %s", strerror(errno));
    else
        wait_for(pid, p, preloaded ? "a hold" : "the driver");
    return p;
}
