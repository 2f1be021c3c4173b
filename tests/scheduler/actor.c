/*
 * actor.c - a client process that does what a test tells it, one order at a time.
 */
#include "actor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "scheduler/client/client.h"

struct request {
    int64_t order, x, y;
};

static struct client_config config;
static _Atomic int logged = -1, messages;
static _Atomic bool spoke;
static char *said;
static pid_t child;
static int intruder_pipe[2];
enum { FIRST_REUSED = 700, LAST_REUSED = 740, WELCOME_MS = 20000 };

/* Behind earlier messages, as long as they fit: a later one must not hide what a test waits for. */
static void take_log(int severity, const char *text)
{
    size_t before = strlen(said);

    if (before + strlen(text) + sizeof("\n") > ACTOR_SAID)
        before = 0;
    snprintf(said + before, ACTOR_SAID - before, "%s\n", text);
    logged = severity;
    messages++;
    spoke = true;
}

static _Atomic int64_t ordered[CONTROL_KIND_COUNT];

static void take_order(void *user, enum control_kind order, uint32_t value)
{
    ordered[order] = value;
}

static int64_t do_ordered(int64_t order, int64_t y)
{
    return ordered[order];
}

static int64_t do_connected(int64_t x, int64_t y)
{
    uint32_t generation;
    struct cutin_page *shared = client_page_alias(&generation);

    page_unmap(shared);
    return !!shared;
}

static _Atomic int64_t ticks, turns_ns, had_ns;

static void count_tick(void *user)
{
    ticks++;
}

static void take_turn(void *user)
{
    static uint64_t last_ns;
    uint64_t now = clock_ns(), ns = now - last_ns < 20 * NS_PER_MS ? now - last_ns : 20 * NS_PER_MS;

    last_ns = now;
    turns_ns += (int64_t)ns;
    if (*client_hold_word(0, 0) != 0)
        return;
    had_ns += (int64_t)ns;
    atomic_fetch_add(&client_page()->device[0].counters.gpu_ns, ns);
}

static uint64_t never(void *user)
{
    return 0;
}

static uint64_t ever(void *user)
{
    return UINT64_MAX;
}

static int64_t do_ticks(int64_t idle, int64_t y)
{
    config.tick = count_tick;
    config.idle = idle ? ever : never;
    return ticks;
}

static int64_t do_turns(int64_t all, int64_t y)
{
    config.tick = take_turn;
    config.idle = never;
    return all ? turns_ns : had_ns;
}

/* Its beat is in the future, so it is calm. */
static int64_t do_calm(int64_t x, int64_t y)
{
    return atomic_load(&client_page()->heartbeat_ns) > clock_ns();
}

static int64_t do_open(int64_t level, int64_t lowest)
{
    int rc;

    config.level = (uint32_t)level;
    config.lowest = (uint32_t)lowest;
    config.log = take_log;
    config.remote = take_order;
    for (int i = 0; i < CONTROL_KIND_COUNT; i++)
        ordered[i] = -1;
    spoke = false;
    rc = client_open(&config);
    /* A program need not wait for the welcome, but a test does: a busy machine may make it late. */
    for (int i = 0; i < WELCOME_MS && rc == 0 && config.socket && !spoke && !do_connected(0, 0);
         i++)
        usleep(1000);
    return rc;
}

static int64_t do_close(int64_t x, int64_t y)
{
    client_close();
    return 0;
}

static int64_t do_device(int64_t number, int64_t y)
{
    uint8_t uuid[16];

    memset(uuid, (int)number, sizeof(uuid));
    return client_device(uuid);
}

static int64_t do_active(int64_t dev, int64_t level)
{
    client_work_begin((int)dev, (uint32_t)level);
    return 0;
}

static int64_t do_idle(int64_t dev, int64_t level)
{
    client_work_end((int)dev, (uint32_t)level);
    return 0;
}

static int64_t do_wait_begin(int64_t dev, int64_t level)
{
    client_note_wait((int)dev, (uint32_t)level, true);
    return 0;
}

static int64_t do_wait_end(int64_t dev, int64_t level)
{
    client_note_wait((int)dev, (uint32_t)level, false);
    return 0;
}

/* The bits that hold it, without the daemon's for a new client (peers/newcomer.c tests that). */
static int64_t do_hold(int64_t dev, int64_t level)
{
    return *client_hold_word((int)dev, (uint32_t)level) & ~PAGE_BIT_NEW;
}

static int64_t do_since(int64_t dev, int64_t level)
{
    return (int64_t)*client_hold_since((int)dev, (uint32_t)level);
}

static struct client_lifted lifted;

static int64_t do_lift(int64_t dev, int64_t level)
{
    lifted = client_hold_lift((int)dev, (uint32_t)level);
    return lifted.bits;
}

static int64_t do_return(int64_t x, int64_t y)
{
    client_hold_restore(&lifted);
    return 0;
}

static int64_t do_address(int64_t dev, int64_t level)
{
    return (int64_t)(intptr_t)client_hold_word((int)dev, (uint32_t)level);
}

static int64_t do_above(int64_t x, int64_t y)
{
    return *client_above_word();
}

static int64_t do_owners(int64_t x, int64_t y)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < PAGE_DEVICES * PAGE_OWNERS; i++)
        n += atomic_load(&client_page()->owner[i / PAGE_OWNERS][i % PAGE_OWNERS]) != 0;
    return n;
}

static int64_t do_level(int64_t x, int64_t y)
{
    return client_level();
}

static int64_t do_count(int64_t dev, int64_t n)
{
    _Atomic uint64_t *counter = &client_page()->device[dev].counters.submitted;

    return (int64_t)(atomic_fetch_add(counter, (uint64_t)n) + (uint64_t)n);
}

static int64_t do_gpu(int64_t dev, int64_t ns)
{
    struct page_counters *counters = &client_page()->device[dev].counters;

    atomic_store(&counters->in_flight, ns >= 0);
    if (ns > 0) {
        atomic_fetch_add(&counters->submitted, 2); /* all but what is in flight is complete */
        atomic_fetch_add(&counters->gpu_ns, (uint64_t)ns);
    }
    return 0;
}

static int64_t do_waiting(int64_t dev, int64_t n)
{
    atomic_store(&client_page()->device[dev].counters.waiting, (uint64_t)n);
    return 0;
}

/* Counts the end of a hold with work that waited, as a client does. */
static int64_t do_held(int64_t dev, int64_t y)
{
    atomic_fetch_add(&client_page()->device[dev].counters.holds, 1);
    return 0;
}

static int64_t do_weight(int64_t weight, int64_t y)
{
    config.weight = (uint32_t)weight;
    return 0;
}

static int64_t do_note(int64_t level, int64_t y)
{
    client_note_stream((uint32_t)level, true);
    return 0;
}

static int64_t do_forget(int64_t level, int64_t y)
{
    client_note_stream((uint32_t)level, false);
    return 0;
}

static int64_t do_logged(int64_t x, int64_t y)
{
    return logged;
}

static int64_t do_told(int64_t x, int64_t y)
{
    return messages;
}

static int64_t do_close_all(int64_t x, int64_t y)
{
    if (pipe2(intruder_pipe, O_NONBLOCK) != 0)
        return -errno;
    close_range(FIRST_REUSED, ~0u, 0);
    for (int fd = FIRST_REUSED; fd < LAST_REUSED; fd++)
        if (dup2(intruder_pipe[1], fd) < 0)
            return -errno;
    return 0;
}

static int64_t do_intruded(int64_t x, int64_t y)
{
    char byte;

    for (int fd = FIRST_REUSED; fd < LAST_REUSED; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            return 1;
    return read(intruder_pipe[0], &byte, 1) > 0;
}

/* For a child: it ends with its parent. One that ended before prctl sends no signal any more. */
static void end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

/* The child outlives its parent. It ends when no process can write to `life` any more. */
static int64_t do_fork(int64_t life, int64_t writer)
{
    char byte;

    child = fork();
    close((int)writer);
    if (child == 0) {
        client_after_fork();
        client_work_begin(0, 3); /* has no effect here */
        while (read((int)life, &byte, 1) > 0)
            ;
        _exit(0);
    }
    return child > 0 ? child : -errno;
}

static int64_t do_namespace(int64_t x, int64_t y)
{
    pid_t inner;

    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return -errno;
    inner = fork();
    if (inner < 0)
        return -errno;
    if (inner > 0) { /* the test kills this one, and with it the inner one */
        waitpid(inner, NULL, 0);
        _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* its parent waits for it */
    return getpid();
}

static int64_t do_max_hold(int64_t ms, int64_t y)
{
    config.max_hold_ms = (uint32_t)ms;
    return 0;
}

static int64_t do_linger(int64_t us, int64_t y)
{
    config.linger_us = (uint32_t)us;
    return 0;
}

static int64_t do_deadline(int64_t ms, int64_t y)
{
    config.deadline_ms = (uint32_t)ms;
    return 0;
}

static _Atomic bool stalled;

/* As in a driver whose ring is full. */
static void tick_without_end(void *user)
{
    stalled = true;
    for (;;)
        pause();
}

static int64_t do_stall(int64_t x, int64_t y)
{
    config.tick = tick_without_end;
    return 0;
}

static int64_t do_beat(int64_t x, int64_t y)
{
    return stalled ? (int64_t)atomic_load(&client_page()->heartbeat_ns) : 0;
}

/* As if the process's threads got no processor: this thread always wants one. */
static void *old_beat_main(void *arg)
{
    uint64_t now = clock_ns();

    for (;;)
        atomic_store(&client_page()->heartbeat_ns, now);
    return arg;
}

static int64_t do_old_beat(int64_t x, int64_t y)
{
    pthread_t thread;

    return -pthread_create(&thread, NULL, old_beat_main, NULL);
}

static int64_t do_hint(int64_t us, int64_t y)
{
    client_hint_deadline((uint32_t)us);
    return 0;
}

static int64_t do_due(int64_t dev, int64_t y)
{
    return (int64_t)atomic_load(&client_page()->device[dev].deadline_ns);
}

static struct request bursts;

static void *burst_main(void *unused)
{
    for (int64_t i = 0; i < bursts.y; i++) {
        client_work_begin((int)bursts.x, 1 + (uint32_t)(i % 3));
        client_work_end((int)bursts.x, 1 + (uint32_t)(i % 3));
    }
    return NULL;
}

static struct request work;

static void *work_main(void *unused)
{
    for (;;) {
        struct page_counters *counters = &client_page()->device[work.x].counters;

        client_work_begin((int)work.x, (uint32_t)work.y);
        atomic_fetch_add(&counters->submitted, 100);
        atomic_store(&counters->in_flight, 10);
        usleep(2000);
        client_work_end((int)work.x, (uint32_t)work.y);
        atomic_fetch_add(&counters->gpu_ns, 2000000);
        usleep(8000);
    }
    return NULL;
}

static int64_t do_work(int64_t dev, int64_t level)
{
    pthread_t thread;

    work = (struct request){.x = dev, .y = level};
    return -pthread_create(&thread, NULL, work_main, NULL);
}

static int64_t do_bursts(int64_t dev, int64_t n)
{
    pthread_t threads[4];

    bursts = (struct request){.x = dev, .y = n};
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, burst_main, NULL) != 0)
            return -EAGAIN;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static int64_t limit(int what, rlim_t value)
{
    struct rlimit now;

    if (getrlimit((enum __rlimit_resource)what, &now) != 0)
        return -errno;
    now.rlim_cur = value < now.rlim_max ? value : now.rlim_max;
    return setrlimit((enum __rlimit_resource)what, &now) == 0 ? 0 : -errno;
}

static int64_t do_limit_files(int64_t n, int64_t y)
{
    int fd;

    if (n < 0)
        return limit(RLIMIT_NOFILE, RLIM_INFINITY);
    fd = dup(STDERR_FILENO); /* the lowest that is free */
    close(fd);
    return limit(RLIMIT_NOFILE, (rlim_t)(fd + n));
}

static int64_t do_limit_memory(int64_t n, int64_t y)
{
    unsigned long pages = 0;
    FILE *f;

    if (n < 0)
        return limit(RLIMIT_AS, RLIM_INFINITY);
    f = fopen("/proc/self/statm", "re");
    if (!f || fscanf(f, "%lu", &pages) != 1)
        return -EIO;
    fclose(f);
    return limit(RLIMIT_AS, pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)n);
}

static int64_t do_user(int64_t uid, int64_t y)
{
    if (setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) != 0 ||
        setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) != 0)
        return -errno;
    return 0;
}

static int64_t do_limit_own(int64_t n, int64_t y)
{
    return limit(RLIMIT_NOFILE, (rlim_t)(STDERR_FILENO + 1 + n));
}

/* As on an older kernel, or in a sandbox that forbids it. */
static int64_t do_no_table(int64_t x, int64_t y)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLOSE_RANGE_UNSHARE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0
               ? -errno
               : 0;
}

static int64_t (*const orders[])(int64_t x, int64_t y) = {
#define ORDER(name, function) function,
    ORDERS(ORDER)
#undef ORDER
};

static void obey(int control)
{
    struct request r;
    int64_t answer;

    while (read(control, &r, sizeof(r)) == (ssize_t)sizeof(r)) {
        answer = orders[r.order](r.x, r.y);
        if (write(control, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
            break;
    }
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    _exit(0);
}

void actor_new(struct actor *a, const char *socket)
{
    pid_t parent = getpid();
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    a->said = mmap(NULL, ACTOR_SAID, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a->said == MAP_FAILED)
        abort();
    a->pid = fork();
    if (a->pid == 0) {
        end_with(parent);
        close(ends[0]);
        said = a->said;
        config.socket = socket;
        obey(ends[1]);
    }
    close(ends[1]);
    a->control = ends[0];
}

int64_t actor_do(struct actor *a, enum order order, int64_t x, int64_t y)
{
    struct request r = {order, x, y};
    int64_t answer;

    if (write(a->control, &r, sizeof(r)) != (ssize_t)sizeof(r) ||
        read(a->control, &answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
        fprintf(stderr, "actor %d has gone\n", (int)a->pid);
        abort();
    }
    return answer;
}

void actor_kill(struct actor *a)
{
    kill(a->pid, SIGKILL);
    waitpid(a->pid, NULL, 0);
    close(a->control);
    munmap(a->said, ACTOR_SAID);
}
