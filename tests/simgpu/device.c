/*
 * device.c - processes that share the simulated device: joining, leaving, and dying at bad moments.
 */
#include "tools/simgpu/device/device.h"
#include "tools/simgpu/device/timeline.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { US = 1000, SMS = 100, START = 1000 * US };

static struct device d;
static char name[64];
static const struct device_params params = {1, SMS, 2000 * US, 20 * US};

static void setup(void)
{
    snprintf(name, sizeof(name), "/simgpu-%u-device%d", (unsigned)getuid(), (int)getpid());
    cr_assert_eq(device_open(&d, name, &params), 0);
}

static void teardown(void)
{
    device_close(&d, 1000000000);
}

TestSuite(device, .init = setup, .fini = teardown);

static bool file_exists(const char *which)
{
    int fd = shm_open(which, O_RDWR, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* A process of its own runs `act` and is killed in it. */
static void killed_in(void (*act)(struct device *))
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct device own;
        if (device_open(&own, name, &params) == 0)
            act(&own);
        raise(SIGKILL);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static unsigned int clients(void)
{
    unsigned int n = 0;
    for (int i = 0; i < DEVICE_CLIENTS; i++)
        n += d.shared->clients[i].in_use != 0;
    return n;
}

static unsigned int streams(void)
{
    unsigned int n = 0;
    for (int i = 0; i < DEVICE_STREAMS; i++)
        n += d.shared->streams[i].id != 0;
    return n;
}

static uint32_t busy(struct device *who)
{
    struct op op = {.kind = OP_KERNEL, .submit_ns = START, .cost_ns = 1000000 * US, .sms = SMS};
    uint32_t s = device_stream_open(who, device_context_open(who, 0), 0);
    device_submit(who, s, &op);
    return s;
}

static void leave_work(struct device *who)
{
    device_lock(who);
    busy(who);
    device_advance(who, START);
    device_unlock(who);
}

Test(device, bury_removes_leftovers_of_killed_process)
{
    killed_in(leave_work);
    device_lock(&d);
    cr_assert_eq(clients(), 2);
    cr_assert_eq(streams(), 1);
    cr_expect(device_reap_dead(&d));
    cr_expect_eq(clients(), 1);
    cr_expect_eq(streams(), 0);
    cr_expect_not(device_reap_dead(&d));
    device_unlock(&d);
}

Test(device, gpu_is_free_after_its_user_is_killed)
{
    killed_in(leave_work);
    device_lock(&d);
    device_reap_dead(&d);
    struct op op = {.kind = OP_KERNEL, .submit_ns = START, .cost_ns = 10 * US, .sms = SMS};
    uint32_t s = device_stream_open(&d, device_context_open(&d, 0), 0);
    device_submit(&d, s, &op);
    device_advance(&d, START + 100 * US);
    cr_expect_eq(device_stream(&d, s)->head, 2);
    device_unlock(&d);
}

/* The process is killed with the lock held, between finishing an op and moving on to the next. */
static void die_in_the_middle(struct device *who)
{
    device_lock(who);
    struct device_stream *s = device_stream(who, busy(who));
    stream_op(who->shared, s, 1)->state = OP_DONE;
    raise(SIGKILL);
}

Test(device, process_killed_holding_the_lock_leaves_device_usable)
{
    killed_in(die_in_the_middle);
    device_lock(&d);
    uint32_t slot = 0;
    while (!d.shared->streams[slot].id)
        slot++;
    cr_expect_eq(d.shared->streams[slot].head, 2, "its step was completed");
    device_reap_dead(&d);
    device_advance(&d, START);
    cr_expect_eq(streams(), 0);
    device_unlock(&d);
}

/* Children use the device without a pause until they are killed, at any instruction. */
static void hammer(struct device *who)
{
    for (uint64_t now = START;; now += 100 * US) {
        device_lock(who);
        uint32_t s = busy(who);
        device_advance(who, now);
        device_stream_close(who, s);
        for (uint32_t i = 0; i < DEVICE_CONTEXTS; i++)
            if (who->shared->contexts[i].id && who->shared->contexts[i].client == who->client)
                device_context_close(who, who->shared->contexts[i].id);
        device_unlock(who);
    }
}

Test(device, process_killed_at_any_moment_leaves_no_client_or_stream)
{
    enum { ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct device own;
            if (device_open(&own, name, &params) == 0)
                hammer(&own);
            _exit(1);
        }
        uint64_t tickets = d.shared->tickets;
        for (int i = 0; i < 10000 && d.shared->tickets < tickets + 50u + (unsigned)round * 7u; i++)
            usleep(100);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        device_lock(&d);
        device_reap_dead(&d);
        device_advance(&d, START);
        cr_assert_eq(clients(), 1);
        cr_assert_eq(streams(), 0);
        device_unlock(&d);
    }
}

Test(device, last_process_removes_the_shared_file)
{
    cr_expect(file_exists(name));
    struct device other;
    cr_assert_eq(device_open(&other, name, &params), 0);
    device_close(&other, 1000000000);
    cr_expect(file_exists(name), "one process is still there");
    device_close(&d, 1000000000);
    cr_expect_not(file_exists(name));
    cr_assert_eq(device_open(&d, name, &params), 0);
}

Test(device, open_removes_files_of_killed_processes)
{
    char litter[80];
    snprintf(litter, sizeof(litter), "%s-litter", name);
    pid_t pid = fork();
    if (pid == 0) {
        struct device own;
        if (device_open(&own, litter, &params) == 0 && file_exists(litter))
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status));
    struct device other; /* or another one on the machine opens a simulated GPU meanwhile */
    cr_assert_eq(device_open(&other, name, &params), 0);
    for (int i = 0; i < 10000 && file_exists(litter); i++) /* such a one is about to remove it */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    cr_expect_not(file_exists(litter));
    device_close(&other, 1000000000);
}

/* Is the file that the process has joined still the one with the name? */
static bool is_named(const struct device *own, const char *which)
{
    char path[96];
    struct stat has, named;
    snprintf(path, sizeof(path), "/dev/shm%s", which);
    return fstat(own->fd, &has) == 0 && stat(path, &named) == 0 && has.st_ino == named.st_ino;
}

/* A process that joins, and then leaves or ends without leaving. */
static bool joins(const char *which, bool leaves)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct device own;
        if (device_open(&own, which, &params) != 0 || !is_named(&own, which))
            _exit(1);
        sched_yield();
        if (!is_named(&own, which))
            _exit(1);
        if (leaves)
            device_close(&own, 1000000000);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Meanwhile others leave, end without leaving, and remove what those have left. */
Test(device, joined_file_is_the_named_one_while_others_leave)
{
    enum { WORKERS = 8, ROUNDS = 200 };
    char crowded[80];
    pid_t worker[WORKERS];
    snprintf(crowded, sizeof(crowded), "%s-crowded", name);
    for (int w = 0; w < WORKERS; w++)
        if ((worker[w] = fork()) == 0) {
            int wrong = 0;
            for (int i = 0; i < ROUNDS; i++)
                wrong += !joins(crowded, (i + w) % 3);
            _exit(wrong > 100 ? 100 : wrong);
        }
    for (int w = 0; w < WORKERS; w++) {
        int status;
        cr_assert_eq(waitpid(worker[w], &status, 0), worker[w]);
        cr_expect_eq(status, 0, "%d of %d had another file", status >> 8, ROUNDS);
    }
    shm_unlink(crowded);
}

Test(device, first_process_sets_sms_and_largest_request_sets_gpus)
{
    struct device_params wider = params;
    wider.sms = 7;
    wider.gpus = params.gpus + 1;
    struct device other;
    cr_assert_eq(device_open(&other, name, &wider), 0);
    cr_expect_eq(other.shared->params.sms, SMS);
    cr_expect_eq(other.shared->params.gpus, wider.gpus);
    device_close(&other, 1000000000);
}

Test(device, file_of_wrong_size_is_refused)
{
    char strange[80];
    snprintf(strange, sizeof(strange), "%s-strange", name);
    int fd = shm_open(strange, O_RDWR | O_CREAT, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, 12345), 0);
    cr_assert_eq(flock(fd, LOCK_SH), 0, "in use: not to be swept away as litter");
    struct device other;
    cr_expect_lt(device_open(&other, strange, &params), 0);
    shm_unlink(strange);
    close(fd);
}

Test(device, reused_stream_slot_gets_a_new_id)
{
    device_lock(&d);
    uint32_t c = device_context_open(&d, 0);
    uint32_t first = device_stream_open(&d, c, 0);
    device_stream_close(&d, first);
    uint32_t second = device_stream_open(&d, c, 0);
    cr_expect_neq(first, second);
    cr_expect_eq(first % DEVICE_STREAMS, second % DEVICE_STREAMS);
    device_unlock(&d);
}
