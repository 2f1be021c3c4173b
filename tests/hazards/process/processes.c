/*
 * processes.c - fork at every moment, exec, vfork, and a program that closes all descriptors.
 */
#include "tests/hazards/hazard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void say_end(const char *who, pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        give_up("waitpid");
    if (WIFSIGNALED(status))
        printf("%s: signal %d\n", who, WTERMSIG(status));
    else
        printf("%s: exit status %d\n", who, WEXITSTATUS(status));
}

static pid_t child(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    return pid;
}

static void some_work(uint32_t a)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_mix(x, a, 7, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD_RAW(parent_and_child_forked_before_init_use_the_gpu)
{
    pid_t pid = child();
    gpu_open();
    if (pid == 0) {
        some_work(11);
        exit(7);
    }
    say_end("child", pid);
    some_work(5);
}

/* Programs with thousands of threads ask for this. */
HAZARD_RAW(small_default_thread_stacks_suffice)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    if (pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + 6144) ||
        pthread_setattr_default_np(&attr))
        give_up("the thread attributes cannot be set");
#endif
    gpu_open();
    some_work(5);
    for (int i = 0; i < 300; i++)
        nap();
    some_work(7);
    printf("end\n");
}

/* The driver does not work in the child, and its calls say so. */
static void child_asks(CUstream s, CUdeviceptr x)
{
    CUdeviceptr p = 0;
    CUstream made = NULL;
    CUcontext now = NULL;
    uint32_t host[4];
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamQuery(s));
    SAY(cuStreamSynchronize(s));
    SAY(cuMemAlloc(&p, BYTES));
    SAY(cuStreamCreate(&made, 0));
    SAY(cuMemcpyDtoH(host, x, sizeof(host)));
    SAY(cuCtxGetCurrent(&now));
    SAY(cuCtxSynchronize());
    SAY(cuMemFree(x));
    SAY(cuStreamDestroy(s));
    SAY(cuInit(0));
}

HAZARD(child_forked_after_init_gets_the_drivers_answers)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    pid_t pid = child();
    if (pid == 0) {
        child_asks(s, x);
        exit(7);
    }
    say_end("child", pid);
    some_work(5);
}

HAZARD(forked_child_does_not_run_buffered_work)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold_ms = 500;
    hold(s);
    for (uint32_t i = 0; i < 20; i++)
        MUST(launch_mix(x, 5, i, s));
    buffered(s);
    pid_t pid = child();
    if (pid == 0) {
        child_asks(s, x);
        exit(7); /* exit handlers run: they must not drain anything */
    }
    say_end("child", pid);
    pid = child();
    if (pid == 0)
        _exit(8);
    say_end("child", pid);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* Sandboxes clone like this. No fork handler runs; the child must neither end nor complain about
 * what belongs to the parent. */
HAZARD(cloned_child_prints_nothing_about_buffered_work)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    char said[256];
    int ends[2];
    warm(s);
    hold_ms = 500;
    hold(s);
    MUST(launch_mix(x, 5, 7, s));
    buffered(s);
    if (pipe(ends) != 0)
        give_up("pipe");
    fflush(stdout);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        exit(7);
    }
    close(ends[1]);
    printf("child: %zd bytes\n", read(ends[0], said, sizeof(said)));
    close(ends[0]);
    say_end("child", pid);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

static CUstream busy_stream;
static CUdeviceptr busy_words;
static _Atomic bool stop;
static _Atomic uint32_t launched;

static void launch_on(void *user)
{
    while (!atomic_load(&stop)) {
        MUST(launch_mix(busy_words, 1, 0, busy_stream));
        atomic_fetch_add(&launched, 1);
    }
}

/* The child's calls return, whatever locks other threads held at the fork. */
HAZARD(child_forked_while_other_threads_launch_ends)
{
    struct thread *t[2];
    busy_stream = stream_new(CU_STREAM_NON_BLOCKING);
    busy_words = buffer_new(3);
    warm(busy_stream);
    for (int i = 0; i < 2; i++)
        t[i] = thread_start(launch_on, NULL);
    UNTIL(atomic_load(&launched) > 100);
    for (int i = 0; i < 20; i++) {
        pid_t pid = child();
        if (pid == 0) {
            CUdeviceptr p;
            cuStreamQuery(busy_stream);
            launch_mix(busy_words, 1, 0, busy_stream);
            cuMemAlloc(&p, BYTES);
            exit(i);
        }
        say_end("child", pid);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        thread_join(t[i]);
    SAY(cuStreamSynchronize(busy_stream));
    show("x", busy_words);
}

HAZARD(children_may_fork_and_execute_other_programs)
{
    pid_t pid = child();
    if (pid == 0) {
        pid = child();
        if (pid == 0) {
            execlp("echo", "echo", "grandchild", (char *)NULL);
            _exit(127);
        }
        say_end("grandchild", pid);
        exit(5);
    }
    say_end("child", pid);
    printf("system: %d\n", system("exit 3"));
    some_work(5);
}

HAZARD(vfork_and_posix_spawn_lose_no_buffered_work)
{
    char *const argv[] = {"echo", "spawned", NULL};
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    pid_t pid;
    warm(s);
    hold_ms = 300;
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    fflush(stdout);
    pid = vfork();
    if (pid == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(127);
    }
    say_end("vfork", pid);
    if (posix_spawnp(&pid, "echo", NULL, NULL, argv, environ) != 0)
        give_up("posix_spawn");
    say_end("spawned", pid);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* The program executes itself again while it uses the GPU. The new one starts from nothing. */
HAZARD(program_may_execute_itself_with_work_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    fflush(stdout);
    execl("/proc/self/exe", "hazard", "parent_and_child_forked_before_init_use_the_gpu",
          (char *)NULL);
    give_up("exec");
}

/* ---- what a process sees of itself ----------------------------------------------------------- */

static void handlers_and_umask(const char *when)
{
    struct sigaction action;
    int n = 0;
    mode_t mask = umask(022);
    umask(mask);
    for (int i = 1; i < 32; i++)
        n += sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    printf("%s: handlers %d umask %o\n", when, n, (unsigned int)mask);
}

HAZARD_RAW(umask_and_signal_handlers_are_left_alone)
{
    umask(027);
    handlers_and_umask("before");
    gpu_open();
    some_work(5);
    handlers_and_umask("after");
}

HAZARD(errno_is_kept)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    errno = 1234;
    MUST(launch_mix(x, 5, 7, s));
    MUST(cuStreamQuery(s) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : CUDA_SUCCESS);
    MUST(cuMemFree(x));
    MUST(cuStreamSynchronize(s));
    printf("errno %d\n", errno);
    release(s);
}

/* Daemons and sandboxes close everything from 3 on; then the numbers are used again. */
HAZARD(all_descriptors_may_be_closed)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    int fd[8];
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < 8; i++)
        fd[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamSynchronize(s));
    for (int i = 0; i < 8; i++)
        printf("%d still open: %d\n", i, fcntl(fd[i], F_GETFD) >= 0);
    show("x", x);
}

/* No descriptor of the library may have a number that a program expects, or survive an exec. */
HAZARD_RAW(descriptors_are_close_on_exec)
{
    gpu_open();
    some_work(5);
    int leaking = 0;
    for (int i = 3; i < 256; i++) {
        int flags = fcntl(i, F_GETFD);
        leaking += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    printf("without close-on-exec: %d\n", leaking);
}
