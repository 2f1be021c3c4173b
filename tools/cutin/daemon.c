/*
 * daemon.c - looks for the scheduler daemon and starts it on demand.
 */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "subcommand.h"

#include "common/machine_socket.h"

/* A program runs without a daemon that is late; a measurement cannot, so it waits longer. */
enum { READY_FD = 3, READY_MS = 10000, OWN_READY_MS = 60000, REAP_NAP_US = 1000 };
enum { IDLE_EXIT_S = 10 }; /* how long a daemon of `cutin run` outlives the programs it serves */

const char *daemon_asked;

static const char *unasked_socket(void)
{
    static char path[SOCKET_PATH_MAX];
    const char *asked = getenv("CUTIN_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");

    if (asked)
        return asked;
    /* A socket that a killed daemon has left behind does not count. */
    if (!path[0] && run && machine_socket_first(run) && daemon_probe(MACHINE_SOCKET) == 0)
        snprintf(path, sizeof(path), MACHINE_SOCKET);
    if (!path[0] && socket_default_path(path) != 0) {
        /* The path is too long: the caller gets it all the same, to report it. */
        static char long_path[PATH_MAX];
        snprintf(long_path, sizeof(long_path), "%s" USER_SOCKET, run ? run : "/run");
        return long_path;
    }
    return path;
}

const char *daemon_socket(void)
{
    return daemon_asked ? daemon_asked : unasked_socket();
}

int daemon_probe(const char *path)
{
    int fd = socket_connect(path);

    /* A full backlog means that a daemon is there and busy. */
    if (fd < 0)
        return fd == -EAGAIN ? 0 : fd;
    close(fd);
    return 0;
}

const char *daemon_error(const char *path, int rc)
{
    static const char none[] = "; `cutin run` starts one, or `cutind --socket` with that path";
    static const struct {
        int rc;
        const char *what, *which;
    } troubles[] = {
        {-ENOENT, "no daemon", none},
        {-ECONNREFUSED, "no daemon", none},
        {-EPROTO, "the daemon", " is another version; stop it and try again"},
        {-EOPNOTSUPP, "the daemon", " is an earlier release that cannot do this"},
        {-EACCES, "the daemon",
         " does not admit you; see mode and group under [socket] in cutind.conf"},
        {-ETIMEDOUT, "the daemon", " does not answer; is it stopped?"},
        {-SOCKET_FOREIGN, "the daemon",
         " is another user's, in a folder that others can write to: set XDG_RUNTIME_DIR to a "
         "folder of yours"},
    };
    static char text[PATH_MAX + 128];

    snprintf(text, sizeof(text), "%s: %s", path, strerror(-rc));
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++)
        if (troubles[i].rc == rc)
            snprintf(text, sizeof(text), "%s at %s%s", troubles[i].what, path, troubles[i].which);
    return text;
}

_Noreturn static void exec_daemon(const char *program, const char *path, int ready, int idle_s)
{
    char idle[16], number[16];
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(idle, sizeof(idle), "%d", idle_s);
    snprintf(number, sizeof(number), "%d", READY_FD);
    /* A caller's pipe may be waited for, so the daemon keeps none of its descriptors. */
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(127);
    if (ready == READY_FD)
        fcntl(ready, F_SETFD, 0);
    else if (dup2(ready, READY_FD) < 0)
        _exit(127);
    close_range(READY_FD + 1, ~0U, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    environment_remove_preload();
    if (chdir("/") != 0)
        _exit(127);
    execl(program, program, "--socket", path, "--idle-exit", idle, "--ready-fd", number,
          (char *)NULL);
    _exit(127);
}

/* 0: the daemon wrote a byte; -ECHILD: it closed the pipe; -ETIMEDOUT: neither within `ms`. */
static int wait_ready(int fd, unsigned ms)
{
    uint64_t end_ns = clock_ns() + ms * UINT64_C(1000000);
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    ssize_t n;
    char byte;

    for (uint64_t now = clock_ns(); now < end_ns; now = clock_ns()) {
        if (poll(&pfd, 1, (int)((end_ns - now) / 1000000) + 1) <= 0)
            continue;
        n = read(fd, &byte, 1);
        if (n > 0)
            return 0;
        if (n == 0)
            return -ECHILD;
    }
    return -ETIMEDOUT;
}

pid_t fork_in_group(int when_orphaned)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, when_orphaned);
    if (getppid() != parent)
        _exit(EXIT_CANNOT_RUN);
    return 0;
}

int reap_or_kill(pid_t pid, uint64_t until_ns)
{
    int status = 0;

    while (pid > 0 && clock_ns() < until_ns) {
        if (waitpid(pid, &status, WNOHANG) != 0)
            return status;
        clock_sleep_us(REAP_NAP_US);
    }
    if (pid > 0)
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* With `own` the daemon is a child of the caller. With NULL it is none of the program's that the
 * caller becomes by exec, so this forks twice. */
static int start(const char *program, const char *path, pid_t *own)
{
    int ready[2], rc;
    pid_t child;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return -errno;
    child = own ? fork_in_group(SIGTERM) : fork();
    rc = child < 0 ? -errno : 0;
    if (child == 0 && own)
        exec_daemon(program, path, ready[1], 0); /* runs until we end it or we end */
    if (child == 0) {
        setsid();
        if (fork() == 0)
            exec_daemon(program, path, ready[1], IDLE_EXIT_S);
        _exit(0);
    }
    if (own)
        *own = child;
    else if (child > 0)
        TEMP_FAILURE_RETRY(waitpid(child, NULL, 0));
    close(ready[1]);
    if (rc == 0)
        rc = wait_ready(ready[0], own ? OWN_READY_MS : READY_MS);
    close(ready[0]);
    /* A daemon that gave up may have lost a race against another one, which then answers. A daemon
     * that we started learns by this connection to stay while this process lives. */
    if (rc == -ECHILD || (rc == 0 && !own))
        rc = daemon_probe(path) == 0 ? 0 : rc;
    return rc;
}

int daemon_own_start(struct daemon_own *own, const char *program, const char *folder, char *why,
                     size_t why_bytes)
{
    int rc = scratch_make(&own->folder, folder, sizeof(own->socket) - strlen("/cutin.sock"));

    if (rc != 0) {
        snprintf(why, why_bytes, "cannot make a folder for the daemon: %s", strerror(-rc));
        return rc;
    }
    snprintf(own->socket, sizeof(own->socket), "%.96s/cutin.sock", own->folder.folder);
    rc = start(program, own->socket, &own->pid);
    if (rc != 0)
        snprintf(why, why_bytes, "%s did not start: %s", program, strerror(-rc));
    return rc;
}

void daemon_own_end(struct daemon_own *own)
{
    if (own->pid > 0)
        kill(own->pid, SIGTERM);
    reap_or_kill(own->pid, clock_ns() + READY_MS * UINT64_C(1000000));
    scratch_remove(&own->folder);
    *own = (struct daemon_own){.pid = 0};
}

int daemon_ensure(const struct subcommand *cmd, const char *program, const char *path)
{
#define WITHOUT "; running without the daemon"
    char folder[PATH_MAX];
    int rc = daemon_probe(path);

    if (rc == 0)
        return 0;
    /* The default place's own folder may be missing and is made; its parent is not ours to make. */
    snprintf(folder, sizeof(folder), "%s", path);
    if (rc == -SOCKET_FOREIGN) {
        say(cmd, "%s" WITHOUT, daemon_error(path, rc));
    } else if (rc == -ENAMETOOLONG) {
        say(cmd, "the socket path %.40s... is too long: %zu bytes of at most %zu" WITHOUT, path,
            strlen(path), (size_t)SOCKET_PATH_MAX - 1);
    } else if (!program[0]) {
        say(cmd, "no daemon at %s, and cutind is not installed beside cutin" WITHOUT, path);
    } else if (!getenv("CUTIN_SOCKET") && strcmp(path, unasked_socket()) == 0 &&
               ((mkdir(dirname(folder), 0755) != 0 && errno != EEXIST) ||
                access(folder, W_OK) != 0)) {
        rc = -errno;
        say(cmd,
            "no daemon at %s, and this user cannot use its folder (%s): set XDG_RUNTIME_DIR%s to a "
            "folder of yours, such as /run/user/%u, or have root run `systemctl enable --now "
            "cutind.socket`" WITHOUT,
            path, strerror(-rc),
            getenv("XDG_RUNTIME_DIR") ? "" : ", which su, cron and containers do not set,",
            (unsigned)geteuid());
    } else {
        rc = start(program, path, NULL);
        if (rc != 0)
            say(cmd, "%s; run `cutind --socket %s` by hand to see why" WITHOUT,
                rc == -ETIMEDOUT ? "cutind was started but does not listen yet"
                                 : "cutind did not start",
                path);
    }
    return rc;
#undef WITHOUT
}
