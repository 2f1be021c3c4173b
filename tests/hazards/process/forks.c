/*
 * forks.c - a busy program forks in every way, and no child hangs. Eight threads launch, make and
 * destroy streams, record, allocate and look up meanwhile. So whichever lock there is, one of them
 * has it now and then when another thread forks.
 *
 * HAZARD_FORKS=N makes N children of each kind, instead of CHILDREN. A child that takes longer than
 * HAZARD_HANG_S=N seconds hangs.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Sanitizers have locks in their run time that they do not free in a child, so children do not
 * allocate there. They are slow, too. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHILDREN = 20, ALLOCATES = false };
#else
enum { CHILDREN = 1000, ALLOCATES = true };
#endif

enum { BUSY = 8, HANG_S = 100 };

/* ---- the busy program ------------------------------------------------------------------------ */

static _Atomic bool stop;
static _Atomic uint32_t rounds[BUSY];

static void launches(CUstream s, CUdeviceptr x)
{
    for (int i = 0; i < 32; i++)
        MUST(launch_mix(x, 1, 0, s));
    MUST(cuStreamSynchronize(s));
}

static void streams(CUstream s, CUdeviceptr x)
{
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    MUST(launch_mix(x, 1, 0, other));
    MUST(cuStreamSynchronize(other));
    MUST(cuStreamDestroy(other));
}

static void events(CUstream s, CUdeviceptr x)
{
    CUevent e = event_new();
    MUST(launch_mix(x, 1, 0, s));
    MUST(cuEventRecord(e, s));
    MUST(cuStreamWaitEvent(s, e, 0));
    MUST(cuEventSynchronize(e));
    MUST(cuEventDestroy(e));
}

static void lookups(CUstream s, CUdeviceptr x)
{
    CUdeviceptr p;
    void *found = dlsym(RTLD_NEXT, "cuMemAlloc_v2"), *memory = malloc(1 << 16);
    MUST(found && memory ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
    MUST(cuMemAllocAsync(&p, BYTES, s));
    MUST(launch_mix(x, 1, 0, s));
    MUST(cuMemFreeAsync(p, s));
    MUST(cuStreamSynchronize(s));
    free(memory);
}

static void busy(void *number)
{
    static void (*const ways[BUSY])(CUstream, CUdeviceptr) = {launches, streams, events,  lookups,
                                                              launches, streams, streams, streams};
    uintptr_t n = (uintptr_t)number;
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    while (!atomic_load(&stop)) {
        ways[n](s, x);
        atomic_fetch_add(&rounds[n], 1);
    }
    MUST(cuMemFree(x));
    MUST(cuStreamDestroy(s));
}

static struct thread *threads[BUSY];
static CUstream stream;
static CUdeviceptr words;

static void busy_start(void)
{
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    words = buffer_new(3);
    warm(stream);
    for (uintptr_t i = 0; i < BUSY; i++)
        threads[i] = thread_start(busy, (void *)i);
    for (int i = 0; i < BUSY; i++)
        UNTIL(atomic_load(&rounds[i]) > 2);
}

static void busy_end(void)
{
    atomic_store(&stop, true);
    for (int i = 0; i < BUSY; i++)
        thread_join(threads[i]);
    SAY(cuStreamSynchronize(stream));
    show("words", words);
}

/* ---- children -------------------------------------------------------------------------------- */

static int setting(const char *name, int standard)
{
    const char *n = getenv(name);
    return n ? atoi(n) : standard;
}

static int wanted(void)
{
    return setting("HAZARD_FORKS", CHILDREN);
}

/* The child must end with `status`. The first one that hangs fails the program. */
static void ends(pid_t pid, int status)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    int is = 0, n;
    if (pid < 0)
        give_up("no child process");
    while ((n = poll(&end, 1, setting("HAZARD_HANG_S", HANG_S) * 1000)) < 0 && errno == EINTR)
        ;
    close(end.fd);
    if (n == 0)
        kill(pid, SIGKILL);
    waitpid(pid, &is, 0);
    if (n == 0)
        give_up("a child hangs");
    if (!WIFEXITED(is) || WEXITSTATUS(is) != status)
        give_up("a child ended with another status");
}

/* Calls that POSIX does not permit in a child, but that work natively. */
static _Noreturn void child(void)
{
    CUdeviceptr p;
    CUstream s;
    int wrong = 0;
    wrong += launch_mix(words, 1, 0, stream) == CUDA_SUCCESS;
    wrong += cuStreamSynchronize(stream) == CUDA_SUCCESS;
    wrong += cuMemAlloc(&p, BYTES) == CUDA_SUCCESS;
    wrong += cuStreamCreate(&s, 0) == CUDA_SUCCESS;
    wrong += cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
    wrong += !dlsym(RTLD_NEXT, "cuMemFree_v2");
    if (ALLOCATES) {
        free(malloc(1 << 16));
        wrong += !dlopen(LIBRARY, RTLD_NOW);
    }
    exit(wrong ? 1 : 7);
}

static void forks(int children)
{
    for (int i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid == 0)
            child();
        ends(pid, 7);
    }
}

HAZARD(children_of_a_busy_program_end)
{
    busy_start();
    forks(wanted());
    busy_end();
}

static void forks_of_a_thread(void *unused)
{
    forks(wanted() / 2);
}

HAZARD(children_of_two_forking_threads_end)
{
    struct thread *t[2];
    busy_start();
    for (int i = 0; i < 2; i++)
        t[i] = thread_start(forks_of_a_thread, NULL);
    for (int i = 0; i < 2; i++)
        thread_join(t[i]);
    busy_end();
}

HAZARD(children_that_call_exec_end)
{
    busy_start();
    for (int i = 0; i < wanted(); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execlp("true", "true", (char *)NULL);
            _exit(127);
        }
        ends(pid, 0);
    }
    busy_end();
}

HAZARD(children_of_vfork_end)
{
    busy_start();
    for (int i = 0; i < wanted(); i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execlp("true", "true", (char *)NULL);
            _exit(127);
        }
        ends(pid, 0);
    }
    busy_end();
}

HAZARD(spawned_children_end)
{
    char *const argv[] = {"true", NULL};
    busy_start();
    for (int i = 0; i < wanted(); i++) {
        pid_t pid;
        if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ) != 0)
            give_up("posix_spawn");
        ends(pid, 0);
    }
    busy_end();
}
