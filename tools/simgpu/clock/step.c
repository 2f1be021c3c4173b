/*
 * step.c - seats and turns (see step.h), in a file of shared memory.
 *
 * Only the thread that runs changes seats, except those that come from outside of the time, and
 * those that look after the running one when it has run for long. The spin lock is for these.
 *
 * A thread that runs for long without a call holds up all others. If it sleeps in the kernel, it
 * waits for something outside of these functions. If it has used SPIN_NS of a processor, it spins
 * on memory. Either way it is *lost*: others go on without it, and it is back with its next call.
 * What happens then differs from run to run; `lost` counts such threads.
 */
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SEATS = 512,
    SLACK_NS = 1000,      /* the running thread may be so far ahead of the next one */
    LOOK_NS = 20000000,   /* of the machine: how often the giver of a turn looks after its taker */
    SELDOM = 10,          /* so much longer others wait: the giver may have been killed */
    SPIN_NS = 2000000000, /* of a processor, without a call: the thread spins */
    MAGIC = 0x53544551,
    LOOKS = 25,
    PATIENCE = 100, /* looks that find the lock taken, before one waits for it */
    GONE_LOOK_US = 50,
};
#define BEGIN_NS UINT64_C(1000000000000)
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum seat_state { SEAT_FREE, SEAT_READY, SEAT_RUNNING, SEAT_WAITING, SEAT_LOST };

struct seat {
    _Atomic uint32_t state;
    uint32_t go; /* futex: its turn has come */
    int32_t pid, tid;
    uint64_t now_ns, until_ns;
    enum step_wait wait;
    bool woken;
    uint64_t key;   /* what it waits for */
    uint64_t self;  /* others wait for this until it ends */
    uint64_t order; /* smaller ones have waited for longer */
};

struct step_shared {
    uint32_t magic;
    _Atomic uint32_t lock;    /* the owner's thread id */
    uint32_t running;         /* place + 1; 0: no thread can run */
    int32_t leaving;          /* a process: no thread goes on until it is gone */
    uint32_t waits_outside;   /* the running thread waits for something from outside */
    uint32_t used;            /* all seats from here on are free */
    _Atomic uint32_t gave;    /* the last thread that gave a turn: place + 1 */
    uint64_t now_ns;          /* of the last turn */
    _Atomic uint64_t next_ns; /* when another thread can run */
    uint64_t turns, orders, lost;
    _Atomic uint32_t waiting[STEP_CHILD + 1];
    char whom[256]; /* the last thread that was lost */
    struct seat seats[SEATS];
};

static struct step_shared *shared;
static __thread struct seat *me __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)
long step_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}
#elif defined(__aarch64__)
long step_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#endif
#define SYSTEM(n, a, b, c, d) step_syscall(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* ---- reading /proc --------------------------------------------------------------------------- */

/*
 * A file that a thread opens takes the number that the program's next one should get. So one thread
 * reads for the whole process, with its own table of descriptors. It begins while no other thread
 * of the process runs. The thread that begins it waits until it has closed its copies of what was
 * open, so that they do not keep ends of pipes open. If there can be no such thread (close_range
 * came with Linux 5.9), each thread reads by itself.
 */
enum reader_state { READER_NONE, READER_BEGINS, READER_READY, READER_ASKED };

static struct {
    uint32_t state; /* futex; the kernel clears it when the thread ends */
    uint32_t taken; /* by the thread that asks */
    int32_t pid;
    const char *path;
    char *text;
    size_t room;
    int rc;
    _Alignas(16) unsigned char stack[16384];
} reader;

/* 0, or the kernel's error: -ENOENT and -ESRCH if the thread or process is gone. */
static int file_read_direct(const char *path, char *text, size_t room)
{
    int fd = (int)SYSTEM(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long n = SYSTEM(SYS_read, fd, text, room - 1, 0);
    SYSTEM(SYS_close, fd, 0, 0, 0);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? 0 : n < 0 ? (int)n : -EIO;
}

static void reader_set_state(enum reader_state state)
{
    __atomic_store_n(&reader.state, state, __ATOMIC_RELEASE);
    SYSTEM(SYS_futex, &reader.state, FUTEX_WAKE, 1, 0);
}

/* Waits until the other side has changed the state. Returns the new one. */
static enum reader_state reader_await(enum reader_state from)
{
    uint32_t is;
    while ((is = __atomic_load_n(&reader.state, __ATOMIC_ACQUIRE)) == from)
        SYSTEM(SYS_futex, &reader.state, FUTEX_WAIT, from, NULL);
    return is;
}

/* It has the thread-local memory of the thread that began it, so it calls nothing of libc. */
static int reader_main(void *unused)
{
    (void)unused;
    if (SYSTEM(SYS_close_range, 0, UINT32_MAX, 0, 0) != 0)
        return 0;
    reader_set_state(READER_READY);
    while (reader_await(READER_READY) == READER_ASKED) {
        reader.rc = file_read_direct(reader.path, reader.text, reader.room);
        reader_set_state(READER_READY);
    }
    return 0;
}

static void reader_begin(void)
{
    enum {
        FLAGS = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_CHILD_CLEARTID
    };
    uint64_t every = UINT64_MAX, mask; /* signals are for the program's threads */
    reader.state = READER_BEGINS;
    reader.taken = 0;
    reader.pid = (int32_t)SYSTEM(SYS_getpid, 0, 0, 0, 0);
    SYSTEM(SYS_rt_sigprocmask, SIG_SETMASK, &every, &mask, sizeof(mask));
    if (clone(reader_main, reader.stack + sizeof(reader.stack), FLAGS, NULL, NULL, NULL,
              &reader.state) < 0)
        reader.state = READER_NONE;
    SYSTEM(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
    reader_await(READER_BEGINS);
}

static int file_read(const char *path, char *text, size_t room)
{
    if (reader.pid != SYSTEM(SYS_getpid, 0, 0, 0, 0)) /* a child that libc does not know */
        return file_read_direct(path, text, room);
    while (__atomic_exchange_n(&reader.taken, 1, __ATOMIC_ACQUIRE))
        SYSTEM(SYS_sched_yield, 0, 0, 0, 0);
    reader.path = path;
    reader.text = text;
    reader.room = room;
    uint32_t ready = READER_READY;
    if (__atomic_compare_exchange_n(&reader.state, &ready, READER_ASKED, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
        SYSTEM(SYS_futex, &reader.state, FUTEX_WAKE, 1, 0);
    int rc =
        reader_await(READER_ASKED) == READER_READY ? reader.rc : file_read_direct(path, text, room);
    __atomic_store_n(&reader.taken, 0, __ATOMIC_RELEASE);
    return rc;
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* The stat file from the state on, as in the kernel. 'X': there is none; '?': it cannot be told. */
static const char *stat_read(const char *path, char text[512])
{
    int rc = file_read(path, text, 512);
    const char *name_end = rc ? NULL : strrchr(text, ')');
    return name_end ? name_end + 2 : rc == -ENOENT || rc == -ESRCH ? "X" : "?";
}

/* Whether its last thread, and so its descriptors, are gone. The first is a zombie before. */
static bool is_gone(int pid)
{
    enum { THREADS = 17 }; /* words behind the state */
    char path[32], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const char *state = stat_read(path, text);
    if (*state != 'Z' && *state != 'X')
        return false;
    for (int i = 0; i < THREADS && state; i++)
        state = strchr(state + 1, ' ');
    return !state || strtol(state, NULL, 10) <= 1;
}

static char thread_state(int pid, int tid)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
    return *stat_read(path, text);
}

static void seats_mend(void);

static uint32_t my_tid(void)
{
    return me && me->tid ? (uint32_t)me->tid : (uint32_t)SYSTEM(SYS_gettid, 0, 0, 0, 0);
}

/* A thread that was killed while it looked after the running one would hold the lock for ever. */
static void lock(void)
{
    enum { SPINS = 1000 };
    uint32_t mine = my_tid(), owner = 0;
    for (int i = 1; !atomic_compare_exchange_weak_explicit(
             &shared->lock, &owner, mine, memory_order_acquire, memory_order_relaxed);
         i++) {
        if (i % SPINS == 0 && owner && strchr("XZ", thread_state((int)owner, (int)owner)) &&
            atomic_compare_exchange_strong(&shared->lock, &owner, mine)) {
            seats_mend();
            return;
        }
        SYSTEM(SYS_sched_yield, 0, 0, 0, 0);
        owner = 0;
    }
}

/* For callers that can look later. But at some point they wait: its owner may be dead. */
static bool lock_soon(uint32_t *refused)
{
    uint32_t mine = my_tid(), owner = 0;
    if (atomic_compare_exchange_strong(&shared->lock, &owner, mine))
        return true;
    if (++*refused % PATIENCE != 0)
        return false;
    lock();
    return true;
}

static void unlock(void)
{
    atomic_store_explicit(&shared->lock, 0, memory_order_release);
}

/* ---- turns (locked) -------------------------------------------------------------------------- */

static uint64_t seat_due(const struct seat *s)
{
    uint32_t state = s->state; /* clang does not switch on atomics */
    switch (state) {
    case SEAT_READY:
        return s->now_ns;
    case SEAT_WAITING:
        return s->until_ns == STEP_NEVER ? STEP_NEVER : s->until_ns + STEP_WAKE;
    default:
        return STEP_NEVER;
    }
}

static uint32_t seat_number(const struct seat *s)
{
    return s ? (uint32_t)(s - shared->seats) + 1 : 0;
}

/* The thread that runs. NULL: none does, or it has left its seat. */
static struct seat *seat_running(void)
{
    return shared->running ? &shared->seats[shared->running - 1] : NULL;
}

/* The next thread. Also notes when the one after that can run. */
static struct seat *seat_next(void)
{
    struct seat *next = NULL;
    uint64_t due = STEP_NEVER, after = STEP_NEVER;
    for (uint32_t i = 0; i < shared->used; i++) {
        struct seat *s = &shared->seats[i];
        uint64_t is = seat_due(s);
        if (is < due) {
            after = due;
            due = is;
            next = s;
        } else if (is < after) {
            after = is;
        }
    }
    atomic_store_explicit(&shared->next_ns, after, memory_order_relaxed);
    return next;
}

static void seat_ready(struct seat *s, uint64_t ns)
{
    if (s->state == SEAT_WAITING)
        atomic_fetch_sub(&shared->waiting[s->wait], 1);
    s->state = SEAT_READY;
    s->now_ns = s->now_ns > ns ? s->now_ns : ns;
    if (s->now_ns < atomic_load_explicit(&shared->next_ns, memory_order_relaxed))
        atomic_store_explicit(&shared->next_ns, s->now_ns, memory_order_relaxed);
}

static void seat_free(struct seat *s)
{
    if (s->state == SEAT_WAITING)
        atomic_fetch_sub(&shared->waiting[s->wait], 1);
    s->state = SEAT_FREE;
    while (shared->used && shared->seats[shared->used - 1].state == SEAT_FREE)
        shared->used--;
}

/* If no thread runs, gives the turn to the next one. NULL: to none. */
static struct seat *turn_assign(void)
{
    const struct seat *runs = seat_running();
    if (runs && runs->state == SEAT_RUNNING)
        return NULL;
    struct seat *s = seat_next();
    shared->running = 0;
    if (!s)
        return NULL;
    seat_ready(s, seat_due(s));
    s->state = SEAT_RUNNING;
    shared->running = seat_number(s);
    shared->gave = seat_number(me);
    shared->turns++;
    if (s->now_ns > shared->now_ns)
        shared->now_ns = s->now_ns;
    if (s != me) /* before unlock: a look then finds that it is coming */
        __atomic_store_n(&s->go, 1, __ATOMIC_RELEASE);
    return s;
}

static void turn_wake(struct seat *s)
{
    if (s && s != me)
        SYSTEM(SYS_futex, &s->go, FUTEX_WAKE, 1, 0);
}

static uint32_t wake_locked(enum step_wait wait, uint64_t key, int pid, uint32_t most, uint64_t ns)
{
    uint32_t woken = 0;
    for (; woken < most && atomic_load(&shared->waiting[wait]); woken++) {
        struct seat *first = NULL;
        for (uint32_t i = 0; i < shared->used; i++) {
            struct seat *s = &shared->seats[i];
            if (s->state == SEAT_WAITING && s->wait == wait && s->key == key &&
                (!pid || s->pid == pid) && (!first || s->order < first->order))
                first = s;
        }
        if (!first)
            break;
        first->woken = true;
        seat_ready(first, ns + STEP_WAKE);
    }
    return woken;
}

/* Frees the seats of a process, except one. */
static void seats_free(int pid, const struct seat *but)
{
    for (uint32_t i = 0; i < shared->used; i++) {
        struct seat *s = &shared->seats[i];
        if (s != but && s->state != SEAT_FREE && s->pid == pid)
            seat_free(s);
    }
}

/* Frees the seats of a process that is gone, and wakes threads that may notice that. */
static void process_remove(int pid, uint64_t ns)
{
    seats_free(pid, NULL);
    wake_locked(STEP_DESCRIPTOR, 0, 0, UINT32_MAX, ns);
    wake_locked(STEP_CHILD, 0, 0, UINT32_MAX, ns);
    /* A robust lock tells the next thread that asks. */
    for (uint32_t i = 0; i < shared->used; i++) {
        struct seat *s = &shared->seats[i];
        if (s->state == SEAT_WAITING && (s->wait == STEP_MUTEX || s->wait == STEP_SHARED)) {
            s->woken = true;
            seat_ready(s, ns + STEP_WAKE);
        }
    }
}

/* The owner of the lock was killed. It may have been about to pass a turn or to wake a thread. A
 * thread that is woken for nothing asks once more. */
static void seats_mend(void)
{
    shared->running = 0;
    for (uint32_t i = 0; i <= STEP_CHILD; i++)
        atomic_store(&shared->waiting[i], 0);
    for (uint32_t i = 0; i < shared->used; i++) {
        struct seat *s = &shared->seats[i];
        if (s->state == SEAT_RUNNING)
            shared->running = i + 1;
        else if (s->state == SEAT_WAITING)
            atomic_fetch_add(&shared->waiting[s->wait], 1);
    }
    process_remove(0, shared->now_ns);
}

/* ---- lost threads ---------------------------------------------------------------------------- */

static __thread struct {
    uint64_t turns, used_ns;
    uint32_t asleep;
} seen __attribute__((tls_model("initial-exec")));

/* How much of processors the thread has used. False: it cannot be told. */
static bool thread_used(const struct seat *s, uint64_t *ns)
{
    char path[64], text[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", s->pid, s->tid);
    if (file_read(path, text, sizeof(text)))
        return false;
    *ns = strtoull(text, NULL, 10);
    return true;
}

/* A line about the thread in /proc, without the newline. */
static const char *thread_line(const struct seat *s, const char *name, char line[64])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", s->pid, s->tid, name);
    if (file_read(path, line, 64))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static void lost_note(const struct seat *s, char state)
{
    char name[64], where[64], call[64];
    snprintf(shared->whom, sizeof(shared->whom), "thread %d of process %d (%s) %s (%s, call %s)",
             s->tid, s->pid, thread_line(s, "comm", name),
             state == 'S'   ? "waits"
             : state == 'T' ? "is stopped"
                            : "spins",
             thread_line(s, "wchan", where), thread_line(s, "syscall", call));
}

/* Call it without the lock. It writes only if that does not wait for a reader. */
static void lost_warn(const char *whom)
{
    char text[512];
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct timespec none = {0, 0};
    int n = snprintf(text, sizeof(text),
                     "simgpu: SIMGPU_CLOCK=step: %s outside the simulated time; other threads "
                     "continue, so this run is not reproducible\n",
                     whom);
    if (step_syscall(SYS_ppoll, (long)&to, 1, (long)&none, 0, 8, 0) == 1 && to.revents & POLLOUT)
        SYSTEM(SYS_write, STDERR_FILENO, text, n, 0);
}

/* How many looks of the turn's giver one look of the calling thread is worth. */
static uint32_t looks_worth(void)
{
    return shared->gave == seat_number(me) ? 1 : SELDOM;
}

/* The calling thread has waited for long. What does the running one do? Several checks of the same
 * turn have to agree. */
static struct seat *lost_check(void)
{
    struct seat *s = seat_running();
    uint64_t used, before = seen.turns;
    seen.turns = 0; /* until this check has seen it */
    if (!s)
        return turn_assign();
    if (s == me) /* the giver of the turn was killed before it could tell */
        return s;
    if (is_gone(s->pid)) {
        process_remove(s->pid, shared->now_ns);
        return turn_assign();
    }
    if (!s->tid || shared->waits_outside)
        return NULL; /* it is on its way */
    char state = thread_state(s->pid, s->tid);
    if (state == 'X' || state == 'Z') { /* another of its threads has executed a program */
        seat_free(s);
        return turn_assign();
    }
    bool off_cpu = state == 'S' || state == 'T'; /* asleep, or stopped by a signal */
    if (!off_cpu && __atomic_load_n(&s->go, __ATOMIC_ACQUIRE))
        return NULL; /* it waits for a processor */
    if (state == '?' || !thread_used(s, &used))
        return NULL;
    if (before != shared->turns) {
        seen.used_ns = used;
        seen.asleep = 0;
    }
    seen.asleep = off_cpu && !shared->waits_outside ? seen.asleep + looks_worth() : 0;
    seen.turns = shared->turns;
    if (seen.asleep >= LOOKS || used > seen.used_ns + SPIN_NS) {
        lost_note(s, state);
        s->state = SEAT_LOST;
        shared->lost++;
        return turn_assign();
    }
    return NULL;
}

void step_wait_outside(bool waits_outside)
{
    shared->waits_outside = waits_outside;
}

void step_reap(int pid)
{
    struct timespec nap = {0, GONE_LOOK_US * 1000};
    step_wait_outside(true);
    while (!is_gone(pid))
        SYSTEM(SYS_nanosleep, &nap, NULL, 0, 0);
    step_wait_outside(false);
    lock();
    process_remove(pid, me->now_ns);
    unlock();
}

static void leaving_wait(void)
{
    int pid = shared->leaving;
    shared->leaving = 0;
    if (pid)
        step_reap(pid);
}

/* Waits until it is the calling thread's turn. */
static void turn_wait(void)
{
    uint32_t refused = 0;
    while (!__atomic_load_n(&me->go, __ATOMIC_ACQUIRE)) {
        struct timespec look = {0, LOOK_NS * looks_worth()};
        long rc = SYSTEM(SYS_futex, &me->go, FUTEX_WAIT, 0, &look);
        if (rc == -ETIMEDOUT && lock_soon(&refused)) {
            char whom[sizeof(shared->whom)] = "";
            uint64_t lost = shared->lost;
            struct seat *next = lost_check();
            if (next == me)
                __atomic_store_n(&me->go, 1, __ATOMIC_RELEASE);
            if (lost != shared->lost)
                memcpy(whom, shared->whom, sizeof(whom));
            unlock();
            turn_wake(next);
            if (whom[0])
                lost_warn(whom);
        }
    }
    __atomic_store_n(&me->go, 0, __ATOMIC_RELEASE);
    leaving_wait();
}

/* Locked, unlocks: the calling thread is ready or waits, and another one may run. */
static void turn_pass(void)
{
    struct seat *next = turn_assign();
    unlock();
    if (next == me)
        return;
    turn_wake(next);
    turn_wait();
}

/* ---- the calling thread ---------------------------------------------------------------------- */

bool step_process_on(void)
{
    return shared;
}

static void lost_return(void)
{
    lock();
    if (me->state == SEAT_LOST && seat_running() != me) {
        seat_ready(me, shared->now_ns);
        turn_pass();
        return;
    }
    if (me->state == SEAT_LOST) /* its finder was killed before it passed the turn */
        me->state = SEAT_RUNNING;
    unlock();
}

bool step_thread_on(void)
{
    if (!me)
        return false;
    if (atomic_load_explicit(&me->state, memory_order_relaxed) == SEAT_LOST)
        lost_return();
    return true;
}

uint64_t step_now(void)
{
    return me ? me->now_ns : shared->now_ns;
}

void step_yield(void)
{
    lock();
    me->state = SEAT_READY;
    turn_pass();
}

void step_spend(uint64_t ns)
{
    me->now_ns += ns;
    if (me->now_ns > atomic_load_explicit(&shared->next_ns, memory_order_relaxed) + SLACK_NS)
        step_yield();
}

bool step_block(enum step_wait wait, uint64_t key, uint64_t until)
{
    lock();
    me->state = SEAT_WAITING;
    me->wait = wait;
    me->key = key;
    me->until_ns = until == STEP_NEVER ? until : until > me->now_ns ? until : me->now_ns;
    me->woken = false;
    me->order = shared->orders++;
    atomic_fetch_add(&shared->waiting[wait], 1);
    turn_pass();
    return me->woken;
}

uint32_t step_wake(enum step_wait wait, uint64_t key, uint32_t most)
{
    bool everywhere = wait == STEP_SHARED || wait == STEP_DESCRIPTOR || wait == STEP_CHILD ||
                      (wait == STEP_MUTEX && !key);
    if (!atomic_load(&shared->waiting[wait]))
        return 0;
    lock();
    int pid = me ? me->pid : (int)getpid();
    uint32_t woken = wake_locked(wait, key, everywhere ? 0 : pid, most, step_now());
    unlock();
    return woken;
}

__attribute__((visibility("default"))) uint64_t simgpu_clock_lost(void);
uint64_t simgpu_clock_lost(void)
{
    return shared ? shared->lost : 0;
}

/* What the message said about the last one. */
__attribute__((visibility("default"))) const char *simgpu_clock_whom(void);
const char *simgpu_clock_whom(void)
{
    return shared ? shared->whom : "";
}

bool step_awaited(enum step_wait wait)
{
    return atomic_load(&shared->waiting[wait]) != 0;
}

/* ---- coming and going ------------------------------------------------------------------------ */

struct seat *step_reserve(uint64_t cost_ns)
{
    struct seat *s = NULL;
    lock();
    for (uint32_t i = 0; i < SEATS && !s; i++)
        if (shared->seats[i].state == SEAT_FREE)
            s = &shared->seats[i];
    if (s) {
        shared->used = seat_number(s) < shared->used ? shared->used : seat_number(s);
        *s = (struct seat){.pid = (int32_t)getpid(), .state = SEAT_READY};
        seat_ready(s, step_now() + cost_ns);
    }
    unlock();
    return s;
}

void step_cancel_seat(struct seat *seat)
{
    lock();
    seat_free(seat);
    unlock();
}

void step_set_key(struct seat *seat, uint64_t key)
{
    seat->self = key;
}

void step_seat_child(struct seat *seat, int pid)
{
    seat->pid = pid;
}

void step_take_seat(struct seat *seat)
{
    if (reader.pid != (int32_t)getpid()) /* a child has no reader yet */
        reader_begin();
    me = seat;
    me->pid = (int32_t)getpid();
    me->tid = (int32_t)SYSTEM(SYS_gettid, 0, 0, 0, 0);
    turn_wait();
}

bool step_seated(uint64_t key)
{
    bool there = false;
    lock();
    for (uint32_t i = 0; i < shared->used && !there; i++)
        there = shared->seats[i].state != SEAT_FREE && shared->seats[i].self == key &&
                shared->seats[i].pid == (int32_t)getpid();
    unlock();
    return there;
}

void step_leave(void)
{
    lock();
    uint64_t ns = me->now_ns, key = me->self;
    seat_free(me);
    me = NULL;
    wake_locked(STEP_JOIN, key, (int)getpid(), UINT32_MAX, ns);
    struct seat *next = turn_assign();
    unlock();
    turn_wake(next);
}

void step_leave_process(void)
{
    if (!me)
        return;
    lock();
    seats_free((int32_t)getpid(), NULL);
    shared->leaving = (int32_t)getpid(); /* a thread that sees it end waits for that first */
    wake_locked(STEP_DESCRIPTOR, 0, 0, UINT32_MAX, me->now_ns);
    wake_locked(STEP_CHILD, 0, 0, UINT32_MAX, me->now_ns);
    me = NULL;
    struct seat *next = turn_assign(); /* after one that was lost another thread may have it */
    unlock();
    turn_wake(next);
}

/* ---- a process begins ------------------------------------------------------------------------ */

static bool shared_map(void)
{
    /* Its children share its time, whatever devices they use. */
    static const char of[] = "STEP_CLOCK_OF";
    const char *id = getenv(of);
    char path[160];
    if (!id && !(id = getenv("SIMGPU_ID")))
        id = "default";
    setenv(of, id, 0);
    snprintf(path, sizeof(path), "/dev/shm/simgpu-clock-%u-%.64s", (unsigned int)getuid(), id);
    int fd = (int)SYSTEM(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || SYSTEM(SYS_ftruncate, fd, sizeof(*shared), 0, 0) < 0)
        return false;
    void *at = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SYSTEM(SYS_close, fd, 0, 0, 0);
    shared = at == MAP_FAILED ? NULL : at;
    return shared;
}

/* Removes what is left of processes that are gone. The last process leaves the file as it is. */
static void shared_sweep(void)
{
    bool any = false;
    for (uint32_t i = 0; i < shared->used; i++) {
        struct seat *s = &shared->seats[i];
        if (s->state != SEAT_FREE && is_gone(s->pid))
            process_remove(s->pid, shared->now_ns);
        any |= s->state != SEAT_FREE;
    }
    if (shared->magic == MAGIC && any)
        return;
    /* The lock stays, because another process may be waiting for it. */
    const size_t kept = offsetof(struct step_shared, running);
    memset((char *)shared + kept, 0, sizeof(*shared) - kept);
    shared->magic = MAGIC;
    shared->now_ns = BEGIN_NS;
    shared->next_ns = STEP_NEVER;
}

/* After an exec the process keeps its seat, and has no other thread. */
static struct seat *seat_mine(void)
{
    struct seat *mine = NULL;
    for (uint32_t i = 0; i < shared->used; i++) {
        struct seat *s = &shared->seats[i];
        if (s->pid == (int32_t)getpid() &&
            (s->state == SEAT_RUNNING || (s->state == SEAT_LOST && !mine)))
            mine = s;
    }
    if (mine) {
        seats_free(mine->pid, mine);
        mine->tid = mine->pid;
    }
    return mine;
}

__attribute__((constructor(101))) static void process_begin(void)
{
    const char *mode = getenv("SIMGPU_CLOCK");
    if (!mode || strcmp(mode, "step") != 0 || !shared_map())
        return;
    /* The reader may have to wait long for a processor. Meanwhile a thread that has executed a
     * program still has the turn. */
    const struct seat *runs = seat_running();
    bool kept = runs && runs->pid == (int32_t)getpid();
    if (kept)
        step_wait_outside(true);
    reader_begin();
    if (kept)
        step_wait_outside(false);
    lock();
    shared_sweep();
    struct seat *s = seat_mine();
    unlock();
    if (s) {
        me = s;
        return;
    }
    if (!(s = step_reserve(0)))
        return;
    lock();
    me = s;
    me->tid = (int32_t)SYSTEM(SYS_gettid, 0, 0, 0, 0);
    turn_pass();
}
