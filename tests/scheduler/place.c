/*
 * place.c - a private folder with a socket path and, if wanted, a daemon.
 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/wire/query.h"

static void die(const char *what)
{
    perror(what);
    abort();
}

/* The daemon that was built, or a packaged one. */
static const char *daemon_program(void)
{
    const char *set = getenv("PLACE_DAEMON");

    return set ? set : BIN_DIR "/cutind";
}

uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void place_new(struct place *p)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->folder, sizeof(p->folder), "/tmp/cutin-test-%d-XXXXXX", (int)getpid());
    if (!mkdtemp(p->folder) || chmod(p->folder, 0755) != 0)
        die(p->folder);
    snprintf(p->socket, sizeof(p->socket), "%s/s", p->folder);
}

void place_configure(struct place *p, const char *text)
{
    FILE *f;

    snprintf(p->config, sizeof(p->config), "%s/conf", p->folder);
    f = fopen(p->config, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        die(p->config);
}

pid_t place_spawn(char *const argv[])
{
    pid_t pid = fork();

    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(daemon_program(), argv);
        _exit(127);
    }
    return pid;
}

void place_start(struct place *p)
{
    char number[16], byte;
    char *argv[] = {"cutind",     "--socket", p->socket,
                    "--ready-fd", number,     p->config[0] ? "--config" : NULL,
                    p->config,    NULL};
    int ready[2];

    if (pipe(ready) != 0 || fcntl(ready[0], F_SETFD, FD_CLOEXEC) != 0)
        die("pipe");
    snprintf(number, sizeof(number), "%d", ready[1]);
    p->daemon = place_spawn(argv);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        die("the daemon did not start");
    close(ready[0]);
}

static int reap(pid_t *pid)
{
    int status = 0;

    while (waitpid(*pid, &status, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int place_start_logged(struct place *p)
{
    int log[2], old = dup(2);

    if (old < 0 || pipe2(log, O_CLOEXEC | O_NONBLOCK) != 0)
        die("pipe");
    fcntl(log[1], F_SETFL, 0);
    dup2(log[1], 2);
    place_start(p);
    dup2(old, 2);
    close(old);
    close(log[1]);
    return log[0];
}

uint32_t place_logged(int log, const char *with)
{
    static char text[1 << 20];
    size_t used = 0;
    uint32_t n = 0;
    ssize_t got;

    while (used + 1 < sizeof(text) && (got = read(log, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    for (const char *at = text; (at = strstr(at, with)); at++)
        n++;
    return n;
}

void place_kill(struct place *p)
{
    kill(p->daemon, SIGKILL);
    reap(&p->daemon);
}

int place_stop(struct place *p)
{
    /* A test that failed may have left it stopped. SIGCONT must not come behind SIGTERM: at the end
     * LeakSanitizer stops all threads, and would wait for ever for one that SIGCONT lets go on. */
    kill(p->daemon, SIGCONT);
    kill(p->daemon, SIGTERM);
    return reap(&p->daemon);
}

bool place_free(struct place *p)
{
    char lock[128];

    if (p->daemon)
        place_stop(p);
    snprintf(lock, sizeof(lock), "%s.lock", p->socket);
    unlink(p->socket);
    unlink(lock);
    if (p->config[0])
        unlink(p->config);
    return rmdir(p->folder) == 0;
}

int place_run(char *errors, size_t size, char *const argv[])
{
    size_t used = 0;
    int out[2];
    ssize_t n;
    pid_t pid;

    if (pipe(out) != 0)
        die("pipe");
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 2);
        close(out[0]);
        execv(daemon_program(), argv);
        _exit(127);
    }
    close(out[1]);
    while (used + 1 < size && (n = read(out[0], errors + used, size - 1 - used)) > 0)
        used += (size_t)n;
    errors[used] = '\0';
    close(out[0]);
    return reap(&pid);
}

pid_t place_asker(const struct place *p, uid_t uid, int times)
{
    int asked[2];
    pid_t pid;
    char byte;

    if (pipe(asked) != 0)
        die("pipe");
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        struct message_row *rows;
        size_t n;

        if (setresuid(uid, uid, uid) != 0)
            die("setresuid");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (times > 0) {
            if (query_clients(p->socket, &rows, &n) != 0) {
                usleep(1000);
                continue;
            }
            free(rows);
            times--;
        }
        if (write(asked[1], "", 1) != 1)
            die("write");
        pause();
    }
    close(asked[1]);
    if (read(asked[0], &byte, 1) != 1)
        die("who was to ask has not");
    close(asked[0]);
    return pid;
}

void place_outlast(const struct place *p)
{
    char socket[112], errors[256];
    char *argv[] = {"cutind", "--socket", socket, "--idle-exit", PLACE_IDLE_S, NULL};

    snprintf(socket, sizeof(socket), "%s-idle", p->socket);
    for (int i = 0; i < 2; i++)
        if (place_run(errors, sizeof(errors), argv) != 0)
            die(errors);
}

unsigned long place_proc(const struct place *p, const char *file, int at)
{
    unsigned long number = 0;
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)p->daemon, file);
    if (!(f = fopen(path, "r")))
        die(path);
    for (int i = 0; i <= at; i++)
        if (fscanf(f, "%lu", &number) != 1)
            die(path);
    fclose(f);
    return number;
}

bool place_cgroup(char folder[PLACE_CGROUP], const char *file)
{
    char line[1024], at[512], kind[32], path[PLACE_CGROUP + 64];
    FILE *mounts = fopen("/proc/self/mounts", "re");
    bool made = false;

    while (mounts && !made && fgets(line, sizeof(line), mounts))
        if (sscanf(line, "%*s %511s %31s", at, kind) == 2 && strncmp(kind, "cgroup", 6) == 0 &&
            !strstr(line, "cpuset")) { /* of version 1: takes no process before it has processors */
            snprintf(folder, PLACE_CGROUP, "%s/cutin-test-%d", at, (int)getpid());
            snprintf(path, sizeof(path), "%s/%s", folder, file);
            made = mkdir(folder, 0755) == 0 && (access(path, W_OK) == 0 || rmdir(folder) != 0);
        }
    if (mounts)
        fclose(mounts);
    return made;
}

void place_enter(const char *cgroup, pid_t pid)
{
    char path[PLACE_CGROUP + 64];
    FILE *procs;

    snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
    procs = fopen(path, "we");
    if (!procs || fprintf(procs, "%d\n", (int)pid) < 0 || fclose(procs) != 0)
        die(path);
}
