/*
 * seam.c - the functions of libc in which time passes or a thread waits. They stand before libc's,
 * for processes with SIMGPU_CLOCK=step in their environment (see step.h). Others get libc's.
 *
 * Locks and conditions are libc's own, so threads without a seat (which libc is ending) and robust
 * locks work as ever. But no thread sleeps in them.
 */
#include "step.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEAM    __attribute__((visibility("default")))
#define BILLION UINT64_C(1000000000)
/* How far the calendar is ahead of the clock. So a time shows to which of them it belongs. */
#define CALENDAR_NS (1700000000 * BILLION)

enum { LOCK_RETRY_NS = 50000 };

/* libc's function, looked up at its first use. */
#define REAL(name)                                                                                 \
    ({                                                                                             \
        static __typeof__(&name) real_;                                                            \
        __typeof__(&name) is_ = __atomic_load_n(&real_, __ATOMIC_RELAXED);                         \
        if (!is_) {                                                                                \
            is_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                      \
            __atomic_store_n(&real_, is_, __ATOMIC_RELAXED);                                       \
        }                                                                                          \
        is_;                                                                                       \
    })

static long fail(long rc)
{
    if (rc < 0 && rc > -4096) {
        errno = (int)-rc;
        return -1;
    }
    return rc;
}

static uint64_t key_of(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static uint64_t spec_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * BILLION + (uint64_t)t->tv_nsec;
}

/* From an absolute time of the calendar or of the clock. */
static uint64_t until_ns(const struct timespec *t)
{
    uint64_t ns = t ? spec_ns(t) : STEP_NEVER;
    return ns != STEP_NEVER && ns >= CALENDAR_NS ? ns - CALENDAR_NS : ns;
}

/* ---- time ------------------------------------------------------------------------------------ */

SEAM int clock_gettime(clockid_t id, struct timespec *t)
{
    /* What processors did. CLOCK_BOOTTIME, too, is the machine's: it tells how long people wait. */
    bool of_machine = id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID ||
                      id == CLOCK_BOOTTIME || id < 0;
    if (!step_process_on() || of_machine)
        return (int)fail(step_syscall(SYS_clock_gettime, id, (long)t, 0, 0, 0, 0));
    if (step_thread_on())
        step_spend(STEP_CLOCK);
    uint64_t ns = step_now();
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI)
        ns += CALENDAR_NS;
    *t = (struct timespec){(time_t)(ns / BILLION), (long)(ns % BILLION)};
    return 0;
}

SEAM int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

SEAM time_t time(time_t *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}

SEAM int clock_nanosleep(clockid_t id, int flags, const struct timespec *t, struct timespec *left)
{
    if (!step_thread_on())
        return (int)-step_syscall(SYS_clock_nanosleep, id, flags, (long)t, (long)left, 0, 0);
    step_spend(STEP_CALL);
    step_block(STEP_SLEEP, 0, flags & TIMER_ABSTIME ? until_ns(t) : step_now() + spec_ns(t));
    return 0;
}

SEAM int nanosleep(const struct timespec *t, struct timespec *left)
{
    if (step_thread_on())
        return clock_nanosleep(CLOCK_MONOTONIC, 0, t, NULL);
    return (int)fail(step_syscall(SYS_nanosleep, (long)t, (long)left, 0, 0, 0, 0));
}

SEAM int usleep(useconds_t us)
{
    return nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

SEAM int sched_yield(void)
{
    if (!step_thread_on())
        return (int)fail(step_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0));
    step_spend(STEP_YIELD);
    step_yield();
    return 0;
}

/* ---- futexes --------------------------------------------------------------------------------- */

static uint64_t word_key(const void *word, int op)
{
    return op & FUTEX_PRIVATE_FLAG ? key_of(word) : key_of(word) % 4096;
}

static long word_wait(uint32_t *word, int op, uint32_t seen, const struct timespec *t)
{
    bool relative = (op & FUTEX_CMD_MASK) == FUTEX_WAIT, shared = !(op & FUTEX_PRIVATE_FLAG);
    step_spend(STEP_CALL);
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != seen)
        return -EAGAIN;
    uint64_t until = t && relative ? step_now() + spec_ns(t) : until_ns(t);
    do { /* others of the same place in a page wake it, too */
        if (!step_block(shared ? STEP_SHARED : STEP_WORD, word_key(word, op), until))
            return -ETIMEDOUT;
    } while (shared && __atomic_load_n(word, __ATOMIC_ACQUIRE) == seen);
    return 0;
}

static long word_wake(uint32_t *word, int op, uint32_t most)
{
    bool shared = !(op & FUTEX_PRIVATE_FLAG);
    uint32_t n =
        step_wake(shared ? STEP_SHARED : STEP_WORD, word_key(word, op), shared ? UINT32_MAX : most);
    if (step_thread_on())
        step_spend(STEP_CALL);
    return n;
}

SEAM long syscall(long n, ...)
{
    long a[6];
    va_list list;
    va_start(list, n);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    int command = (int)a[1] & FUTEX_CMD_MASK;
    if (n == SYS_futex && step_process_on()) {
        if ((command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) && step_thread_on())
            return fail(word_wait((uint32_t *)a[0], (int)a[1], (uint32_t)a[2],
                                  (const struct timespec *)a[3]));
        if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET)
            return word_wake((uint32_t *)a[0], (int)a[1], (uint32_t)a[2]);
    }
    if (n == SYS_clock_nanosleep && step_thread_on())
        return -clock_nanosleep((clockid_t)a[0], (int)a[1], (const struct timespec *)a[2], NULL);
    return fail(step_syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* Processes may know one shared lock by several addresses, so the key of all of these is 0. */
static uint64_t mutex_key(const pthread_mutex_t *m)
{
    enum { PROCESS_SHARED = 128 };
    return m->__data.__kind & PROCESS_SHARED ? 0 : key_of(m);
}

static int mutex_take(pthread_mutex_t *m, uint64_t until)
{
    int rc;
    step_spend(STEP_LOCK);
    while ((rc = REAL(pthread_mutex_trylock)(m)) == EBUSY)
        if (!step_block(STEP_MUTEX, mutex_key(m), until))
            return ETIMEDOUT;
    return rc;
}

SEAM int pthread_mutex_lock(pthread_mutex_t *m)
{
    return step_thread_on() ? mutex_take(m, STEP_NEVER) : REAL(pthread_mutex_lock)(m);
}

SEAM int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict t)
{
    return step_thread_on() ? mutex_take(m, until_ns(t)) : REAL(pthread_mutex_timedlock)(m, t);
}

SEAM int pthread_mutex_trylock(pthread_mutex_t *m)
{
    if (step_thread_on())
        step_spend(STEP_LOCK);
    return REAL(pthread_mutex_trylock)(m);
}

SEAM int pthread_mutex_unlock(pthread_mutex_t *m)
{
    int rc = REAL(pthread_mutex_unlock)(m);
    if (step_process_on())
        step_wake(STEP_MUTEX, mutex_key(m), UINT32_MAX);
    return rc;
}

static int rwlock_take(pthread_rwlock_t *l, __typeof__(&pthread_rwlock_tryrdlock) take)
{
    int rc;
    step_spend(STEP_LOCK);
    while ((rc = take(l)) == EBUSY)
        step_block(STEP_MUTEX, key_of(l), STEP_NEVER);
    return rc;
}

SEAM int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
    return step_thread_on() ? rwlock_take(l, REAL(pthread_rwlock_tryrdlock))
                            : REAL(pthread_rwlock_rdlock)(l);
}

SEAM int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
    return step_thread_on() ? rwlock_take(l, REAL(pthread_rwlock_trywrlock))
                            : REAL(pthread_rwlock_wrlock)(l);
}

SEAM int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
    int rc = REAL(pthread_rwlock_unlock)(l);
    if (step_process_on())
        step_wake(STEP_MUTEX, key_of(l), UINT32_MAX);
    return rc;
}

static int condition_wait(pthread_cond_t *c, pthread_mutex_t *m, uint64_t until)
{
    step_spend(STEP_CALL);
    pthread_mutex_unlock(m); /* no other thread runs before this one waits */
    bool woken = step_block(STEP_CONDITION, key_of(c), until);
    int rc = mutex_take(m, STEP_NEVER);
    return rc ? rc : woken ? 0 : ETIMEDOUT;
}

SEAM int pthread_cond_wait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m)
{
    return step_thread_on() ? condition_wait(c, m, STEP_NEVER) : REAL(pthread_cond_wait)(c, m);
}

SEAM int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                                const struct timespec *restrict t)
{
    return step_thread_on() ? condition_wait(c, m, until_ns(t))
                            : REAL(pthread_cond_timedwait)(c, m, t);
}

SEAM int pthread_cond_signal(pthread_cond_t *c)
{
    if (step_process_on())
        step_wake(STEP_CONDITION, key_of(c), 1);
    return REAL(pthread_cond_signal)(c);
}

SEAM int pthread_cond_broadcast(pthread_cond_t *c)
{
    if (step_process_on())
        step_wake(STEP_CONDITION, key_of(c), UINT32_MAX);
    return REAL(pthread_cond_broadcast)(c);
}

/* ---- threads --------------------------------------------------------------------------------- */

static pthread_key_t ending;
static pthread_once_t ending_once = PTHREAD_ONCE_INIT;

/* Comes behind the destructors of the program's own keys, which may call functions of this file. */
static void thread_ends(void *rounds)
{
    uintptr_t left = (uintptr_t)rounds;
    if (left > 1)
        pthread_setspecific(ending, (void *)(left - 1));
    else if (step_thread_on())
        step_leave();
}

static void ending_make(void)
{
    pthread_key_create(&ending, thread_ends);
}

struct beginning {
    void *(*main)(void *);
    void *arg;
    struct seat *seat;
};

static void *thread_begins(void *arg)
{
    struct beginning b = *(struct beginning *)arg;
    free(arg);
    pthread_setspecific(ending, (void *)(uintptr_t)3);
    step_take_seat(b.seat);
    return b.main(b.arg);
}

SEAM int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                        void *(*main)(void *), void *restrict arg)
{
    struct beginning *b = step_thread_on() ? malloc(sizeof(*b)) : NULL;
    if (b)
        *b = (struct beginning){main, arg, step_reserve(STEP_THREAD)};
    if (!b || !b->seat) {
        free(b);
        return REAL(pthread_create)(thread, attr, main, arg);
    }
    pthread_once(&ending_once, ending_make);
    struct seat *seat = b->seat;
    int rc = REAL(pthread_create)(thread, attr, thread_begins, b);
    if (rc) {
        step_cancel_seat(seat);
        free(b);
    } else { /* it cannot run before this thread passes the turn */
        step_set_key(seat, (uint64_t)*thread);
    }
    step_spend(STEP_THREAD);
    return rc;
}

SEAM int pthread_join(pthread_t thread, void **value)
{
    if (!step_thread_on())
        return REAL(pthread_join)(thread, value);
    while (step_seated((uint64_t)thread))
        step_block(STEP_JOIN, (uint64_t)thread, STEP_NEVER);
    /* It has left its seat. libc still has to end it. */
    step_wait_outside(true);
    int rc = REAL(pthread_join)(thread, value);
    step_wait_outside(false);
    return rc;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static bool is_regular(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* What was written may be what a thread waits for. */
static long wake_after(int fd, long rc)
{
    if (step_thread_on())
        step_spend(STEP_CALL);
    if (step_process_on() && step_awaited(STEP_DESCRIPTOR) && !is_regular(fd))
        step_wake(STEP_DESCRIPTOR, 0, UINT32_MAX);
    return fail(rc);
}

static long looked(struct pollfd *fds, nfds_t n)
{
    struct timespec none = {0, 0};
    return step_syscall(SYS_ppoll, (long)fds, (long)n, (long)&none, 0, 0, 0);
}

static int descriptors_wait(struct pollfd *fds, nfds_t n, uint64_t until)
{
    long rc;
    step_spend(STEP_SEND);
    while ((rc = looked(fds, n)) == 0)
        if (!step_block(STEP_DESCRIPTOR, 0, until))
            return (int)fail(looked(fds, n));
    return (int)fail(rc);
}

SEAM int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    if (!step_thread_on())
        return (int)fail(step_syscall(SYS_ppoll, (long)fds, (long)n, (long)t, (long)mask, 8, 0));
    return descriptors_wait(fds, n, t ? step_now() + spec_ns(t) : STEP_NEVER);
}

SEAM int poll(struct pollfd *fds, nfds_t n, int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    return ms == 0 ? (int)fail(looked(fds, n)) : ppoll(fds, n, ms < 0 ? NULL : &t, NULL);
}

SEAM int epoll_wait(int epoll, struct epoll_event *events, int most, int ms)
{
    long rc;
    if (!step_thread_on())
        return (int)fail(step_syscall(SYS_epoll_pwait, epoll, (long)events, most, ms, 0, 8));
    uint64_t until = ms < 0 ? STEP_NEVER : step_now() + (uint64_t)ms * 1000000;
    step_spend(STEP_SEND);
    while ((rc = step_syscall(SYS_epoll_pwait, epoll, (long)events, most, 0, 0, 8)) == 0 && ms != 0)
        if (!step_block(STEP_DESCRIPTOR, 0, until))
            ms = 0;
    return (int)fail(rc);
}

/* A call that would wait for the descriptor waits here instead. */
static void ready_wait(int fd, int flags)
{
    struct pollfd p = {fd, POLLIN, 0};
    if (step_thread_on() && !(flags & MSG_DONTWAIT) && !is_regular(fd))
        descriptors_wait(&p, 1, STEP_NEVER);
}

SEAM ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
    ready_wait(fd, flags);
    return fail(step_syscall(SYS_recvfrom, fd, (long)to, (long)bytes, flags, 0, 0));
}

SEAM ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    ready_wait(fd, flags);
    return fail(step_syscall(SYS_recvmsg, fd, (long)m, flags, 0, 0, 0));
}

SEAM ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
    return wake_after(fd, step_syscall(SYS_sendto, fd, (long)from, (long)bytes, flags, 0, 0));
}

SEAM ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    return wake_after(fd, step_syscall(SYS_sendmsg, fd, (long)m, flags, 0, 0, 0));
}

SEAM ssize_t write(int fd, const void *from, size_t bytes)
{
    return wake_after(fd, step_syscall(SYS_write, fd, (long)from, (long)bytes, 0, 0, 0));
}

SEAM int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return (int)wake_after(fd, step_syscall(SYS_connect, fd, (long)address, bytes, 0, 0, 0));
}

SEAM int shutdown(int fd, int how)
{
    return (int)wake_after(fd, step_syscall(SYS_shutdown, fd, how, 0, 0, 0, 0));
}

SEAM int close(int fd)
{
    bool other = step_process_on() && step_awaited(STEP_DESCRIPTOR) && !is_regular(fd);
    int rc = (int)fail(step_syscall(SYS_close, fd, 0, 0, 0, 0, 0));
    if (other)
        step_wake(STEP_DESCRIPTOR, 0, UINT32_MAX);
    return rc;
}

/* The lock may belong to another thread, which does not run while this one waits in the kernel. */
static int locked(int fd, struct flock *lock, int command)
{
    long rc;
    while ((rc = step_syscall(SYS_fcntl, fd, command, (long)lock, 0, 0, 0)) == -EAGAIN ||
           rc == -EACCES)
        step_block(STEP_SLEEP, 0, step_now() + LOCK_RETRY_NS);
    return (int)fail(rc);
}

SEAM int flock(int fd, int operation)
{
    int at_once = step_thread_on() ? LOCK_NB : 0;
    long rc;
    while ((rc = step_syscall(SYS_flock, fd, operation | at_once, 0, 0, 0, 0)) == -EAGAIN &&
           !(operation & LOCK_NB))
        step_block(STEP_SLEEP, 0, step_now() + LOCK_RETRY_NS);
    return (int)fail(rc);
}

SEAM int fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *arg = va_arg(list, void *);
    va_end(list);
    if (command == F_SETLKW && step_thread_on())
        return locked(fd, arg, F_SETLK);
    if (command == F_OFD_SETLKW && step_thread_on())
        return locked(fd, arg, F_OFD_SETLK);
    return (int)fail(step_syscall(SYS_fcntl, fd, command, (long)arg, 0, 0, 0));
}

SEAM int fcntl(int fd, int command, ...) __attribute__((alias("fcntl64")));

/* ---- processes ------------------------------------------------------------------------------- */

static __thread struct seat *child_seat __attribute__((tls_model("initial-exec")));

/* Registered before all others, so it is the first one to run in the child. */
static void child_sits(void)
{
    if (child_seat)
        step_take_seat(child_seat);
    child_seat = NULL;
}

__attribute__((constructor(102))) static void fork_watch(void)
{
    if (step_process_on())
        pthread_atfork(NULL, NULL, child_sits);
}

SEAM pid_t fork(void)
{
    struct seat *seat = step_thread_on() ? step_reserve(STEP_FORK) : NULL;
    child_seat = seat;
    pid_t pid = REAL(fork)();
    child_seat = NULL;
    if (pid < 0 && seat)
        step_cancel_seat(seat);
    if (pid > 0 && seat) {
        step_seat_child(seat, pid);
        step_spend(STEP_FORK);
    }
    return pid;
}

/* Shells start programs by this. Until then the child may just as well have memory of its own. */
SEAM pid_t vfork(void)
{
    return fork();
}

/* When a process is reaped the kernel clears what it has cached of it in /proc. It sleeps while
 * others read there, as threads do that look after the running one. */
static long reaped(pid_t pid, int *status, int options, struct rusage *usage)
{
    step_wait_outside(true);
    long rc = step_syscall(SYS_wait4, pid, (long)status, options | WNOHANG, (long)usage, 0, 0);
    step_wait_outside(false);
    return rc;
}

SEAM pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    long rc;
    if (!step_thread_on())
        return (pid_t)fail(step_syscall(SYS_wait4, pid, (long)status, options, (long)usage, 0, 0));
    while ((rc = reaped(pid, status, options, usage)) == 0 && !(options & WNOHANG))
        step_block(STEP_CHILD, 0, STEP_NEVER);
    return (pid_t)fail(rc);
}

SEAM pid_t waitpid(pid_t pid, int *status, int options)
{
    return wait4(pid, status, options, NULL);
}

/* Some shells wait by this, others for a signal. */
SEAM pid_t wait3(int *status, int options, struct rusage *usage)
{
    return wait4(-1, status, options, usage);
}

SEAM int sigsuspend(const sigset_t *mask)
{
    struct timespec none = {0, 0};
    if (!step_thread_on())
        return (int)fail(step_syscall(SYS_rt_sigsuspend, (long)mask, 8, 0, 0, 0, 0));
    step_spend(STEP_CALL);
    while (step_syscall(SYS_ppoll, 0, 0, (long)&none, (long)mask, 8, 0) == 0)
        step_block(STEP_CHILD, 0, STEP_NEVER);
    errno = EINTR;
    return -1;
}

SEAM int kill(pid_t pid, int sig)
{
    int rc = (int)fail(step_syscall(SYS_kill, pid, sig, 0, 0, 0, 0));
    if (rc || !step_thread_on() || sig == 0)
        return rc;
    if (sig == SIGKILL && pid > 0)
        step_reap(pid); /* before one of its threads could get a turn */
    step_spend(STEP_CALL);
    step_wake(STEP_DESCRIPTOR, 0, UINT32_MAX);
    return 0;
}

SEAM void _exit(int status)
{
    if (step_process_on())
        step_leave_process();
    for (;;)
        step_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

__attribute__((destructor)) static void process_ends(void)
{
    if (step_process_on())
        step_leave_process();
}
