/*
 * adversity.c - what a machine may do to the daemon: no room on the disk, no memory, process
 * numbers that are used again, a clock of the day that jumps (docs/security.md).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/query.h"
#include "scheduler/wire/socket.h"

enum { OTHER = 65534, DEVICE = 7 };

static struct place place;
static bool mounted;

static void set_up(void)
{
    if (geteuid() != 0)
        cr_skip("only root can do this to a daemon");
    place_new(&place);
}

static void tear_down(void)
{
    if (geteuid() != 0)
        return;
    if (place.daemon)
        cr_expect_eq(place_stop(&place), 0);
    if (mounted)
        umount2(place.folder, MNT_DETACH);
    cr_assert(place_free(&place));
}

TestSuite(adversity, .init = set_up, .fini = tear_down);

static void open_actor(struct actor *a, int64_t level)
{
    actor_new(a, place.socket);
    actor_do(a, DO_OPEN, level, level);
    WAIT_UNTIL(actor_do(a, DO_CONNECTED, 0, 0) == 1);
    actor_do(a, DO_DEVICE, DEVICE, 0);
}

static void join_held(struct actor *rt, struct actor *be)
{
    open_actor(be, 0);
    open_actor(rt, 3);
    WAIT_UNTIL(actor_do(be, DO_ABOVE, 0, 0) == 1);
    actor_do(rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) != 0);
}

static void leave(struct actor *rt, struct actor *be)
{
    actor_do(rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) == 0);
    actor_kill(rt);
    actor_kill(be);
}

static bool answers(void)
{
    struct message_row *rows;
    size_t n;

    if (query_clients(place.socket, &rows, &n) != 0)
        return false;
    free(rows);
    return true;
}

/* Whether its log, a file of the test's, says so. */
static bool says(int log, const char *what)
{
    static char text[1 << 16];
    ssize_t n = pread(log, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return strstr(text, what);
}

static int start_with_log(void)
{
    int old = dup(2), log = memfd_create("log", MFD_CLOEXEC);

    cr_assert_geq(log, 0);
    dup2(log, 2);
    place_start(&place);
    dup2(old, 2);
    close(old);
    return log;
}

/* ---- the disk -------------------------------------------------------------------------------- */

/* Mounts a disk for so many files, the folder included, where the socket is to be. */
static void disk_of(const char *files, bool again)
{
    if (!again &&
        (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0))
        cr_skip("no namespace of mounts can be made here: %s", strerror(errno));
    if (mount("none", place.folder, "tmpfs", again ? MS_REMOUNT : 0, files) != 0)
        cr_skip("no disk can be mounted here: %s", strerror(errno));
    mounted = true;
}

Test(adversity, full_disk_prevents_start_with_clear_error)
{
    char *argv[] = {"cutind", "--socket", place.socket, NULL}, errors[1024];

    disk_of("nr_inodes=1", false);
    cr_expect_eq(place_run(errors, sizeof(errors), argv), 1);
    cr_expect(strstr(errors, place.socket) && strstr(errors, "No space left on device"), "%s",
              errors);
    disk_of("nr_inodes=2", true); /* one for the lock */
    cr_expect_eq(place_run(errors, sizeof(errors), argv), 1);
    cr_expect(strstr(errors, place.socket) && strstr(errors, "No space left on device"), "%s",
              errors);
    disk_of("nr_inodes=3", true);
    place_start(&place);
    cr_assert(answers());
}

/* A connected client keeps the socket's file, whatever happens to the name. */
Test(adversity, removed_socket_returns_once_disk_has_room)
{
    struct actor rt, be;
    char last[128];
    int log;

    disk_of("nr_inodes=4", false);
    log = start_with_log();
    join_held(&rt, &be);
    snprintf(last, sizeof(last), "%s.last", place.socket);
    cr_assert_eq(close(open(last, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    cr_assert_eq(unlink(place.socket), 0);
    WAIT_UNTIL(says(log, "No space left on device"));
    cr_expect_neq(actor_do(&be, DO_HOLD, 0, 0), 0);
    cr_expect_eq(actor_do(&rt, DO_CONNECTED, 0, 0), 1);
    unlink(last);
    WAIT_UNTIL(answers());
    leave(&rt, &be);
    close(log);
}

/* Sets RLIMIT_FSIZE, like a quota: a signal beyond it ends a process that has no handler. */
static void may_write(rlim_t bytes)
{
    struct rlimit limit;

    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(adversity, file_size_limit_ends_neither_daemon_nor_clients)
{
    struct actor rt, be;
    int log;

    may_write(10);
    log = start_with_log();
    may_write(RLIM_INFINITY);
    cr_expect_eq(lseek(log, 0, SEEK_END), 10, "a part of a line");
    actor_new(&rt, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3); /* its page is a file, too */
    cr_expect_eq(actor_do(&rt, DO_CONNECTED, 0, 0), 0);
    cr_assert(answers());
    actor_kill(&rt);
    cr_assert_eq(
        prlimit(place.daemon, RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}, NULL),
        0);
    join_held(&rt, &be);
    WAIT_UNTIL(says(log, "cutind: ve\ncutind: "));
    cr_expect(says(log, " lines were lost"));
    leave(&rt, &be);
    close(log);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Limits the memory of a new cgroup, of version 2 or 1; false: none can be made. */
static bool memory_of(char cgroup[PLACE_CGROUP], const char *bytes)
{
    static const char *const files[] = {"memory.max", "memory.limit_in_bytes"};
    char path[PLACE_CGROUP + 32];
    FILE *f = NULL;

    for (int i = 0; !f && i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", cgroup, files[i]);
        f = fopen(path, "r+e");
    }
    return f && fputs(bytes, f) >= 0 && fclose(f) == 0;
}

Test(adversity, oom_killed_daemon_ends_holds_and_next_restores_them)
{
    char cgroup[PLACE_CGROUP];
    int fds[4096], n = 0, status;
    struct actor rt, be;
    siginfo_t ended = {0};

    if (!place_cgroup(cgroup, "memory.max") && !place_cgroup(cgroup, "memory.limit_in_bytes"))
        cr_skip("no cgroup with a limit of memory can be made here");
    bare_many();
    place_start(&place);
    join_held(&rt, &be);
    place_enter(cgroup, place.daemon);
    cr_assert(memory_of(cgroup, "1048576"));
    while (n < 4096 &&
           waitid(P_PID, (id_t)place.daemon, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0) {
        union message m;

        message_init(&m, MESSAGE_HELLO);
        if ((fds[n] = socket_connect(place.socket)) < 0)
            continue;
        message_send(fds[n++], &m, -1);
    }
    cr_assert_eq(waitpid(place.daemon, &status, 0), place.daemon);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d after %d clients", status, n);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    while (n > 0)
        close(fds[--n]);
    place_start(&place);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    leave(&rt, &be);
    WAIT_UNTIL(rmdir(cgroup) == 0);
}

/* ---- process numbers ------------------------------------------------------------------------- */

/* Makes a process with that number, which waits. Returns it or -errno. */
static pid_t process_of(pid_t number)
{
    struct clone_args a = {
        .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
    pid_t pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));

    if (pid != 0)
        return pid < 0 ? -errno : pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

/* A process connects and asks to be real time, and has ended before the daemon looks. Another
 * process, which a rule names, then has its number. */
Test(adversity, reused_pid_grants_dead_client_no_level)
{
    char cgroup[PLACE_CGROUP], text[128];
    union message m;
    int fd, said[2], rc;
    pid_t pid, heir;

    if (!place_cgroup(cgroup, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    snprintf(text, sizeof(text), "[allow]\nrt = cgroup:/cutin-test-%d\n", (int)getpid());
    place_configure(&place, text);
    place_start(&place);
    kill(place.daemon, SIGSTOP);
    cr_assert_eq(pipe(said), 0);
    pid = fork();
    if (pid == 0) {
        fd = setresuid(OTHER, OTHER, OTHER) == 0 ? bare_connect(place.socket, (uid_t)-1) : -1;
        bare_hello(fd, 3);
        rc = write(said[1], &fd, sizeof(fd)) == sizeof(fd);
        for (;;)
            pause();
    }
    cr_assert_eq(read(said[0], &fd, sizeof(fd)), sizeof(fd));
    rc = (int)syscall(SYS_pidfd_open, pid, 0);
    fd = (int)syscall(SYS_pidfd_getfd, rc, fd, 0); /* stays open without the process */
    cr_assert_geq(fd, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    heir = process_of(pid);
    if (heir < 0) {
        kill(place.daemon, SIGCONT);
        rmdir(cgroup);
        cr_skip("no process can be given a number here: %s", strerror(-heir));
    }
    cr_assert_eq(heir, pid);
    place_enter(cgroup, heir);
    kill(place.daemon, SIGCONT);
    rc = bare_wait(fd, MESSAGE_WELCOME, &m);
    cr_expect(rc != 0 || m.welcome.level == 0, "level %u", m.welcome.level);
    cr_expect_eq(bare_wait(fd, MESSAGE_STOP, NULL), -ECONNRESET, "the connection ends with him");
    kill(heir, SIGKILL);
    waitpid(heir, NULL, 0);
    close(fd);
    close(rc);
    WAIT_UNTIL(rmdir(cgroup) == 0);
}

/* ---- the clock of the day -------------------------------------------------------------------- */

/* With a hold, a connection that says nothing and a limit of messages. Neither the test's clients
 * nor the daemon may go by that clock. */
Test(adversity, jumping_wall_clock_changes_nothing)
{
    enum { LOOKS = 60, SILENT_MS = 4000 /* less than half of what the daemon allows */ };
    struct actor rt, be;
    struct timespec a, b;
    uint64_t since;
    int silent, asks;
    char byte;

    clock_gettime(CLOCK_REALTIME, &a);
    clock_gettime(CLOCK_REALTIME, &b);
    cr_assert(labs(b.tv_sec - a.tv_sec) > 80000, "it jumps");
    setenv("LD_PRELOAD", LIB_DIR "/tests/libjumping_clock.so", 1);
    place_start(&place);
    unsetenv("LD_PRELOAD");
    join_held(&rt, &be);
    silent = bare_connect(place.socket, OTHER);
    asks = bare_connect(place.socket, OTHER);
    since = now_ms();
    for (int i = 0; i < LOOKS && now_ms() - since < SILENT_MS; i++) {
        cr_assert_eq(bare_settle(asks), 0);
        cr_assert_neq(actor_do(&be, DO_HOLD, 0, 0), 0, "look %d", i);
        usleep(1000);
    }
    cr_assert_eq(recv(silent, &byte, 1, MSG_DONTWAIT), -1, "not let go");
    cr_assert_eq(actor_do(&rt, DO_LOGGED, 0, 0), -1, "%s", rt.said);
    cr_assert_eq(actor_do(&be, DO_LOGGED, 0, 0), -1, "%s", be.said);
    close(silent);
    close(asks);
    leave(&rt, &be);
}
