/*
 * side.c - the processes that an oracle starts (see side.h).
 */
#include "side.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void nap_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

pid_t spawn(char *const argv[], const char *const *extra)
{
    extern char **environ;
    char *env[512];
    size_t n = 0;
    for (char **e = environ; *e && n < 400; e++)
        if (strncmp(*e, "CUTIN_", 6) && strncmp(*e, "LD_PRELOAD=", 11))
            env[n++] = *e;
    for (; *extra && n < 511; extra++)
        env[n++] = (char *)*extra;
    env[n] = NULL;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* so that no hold remains if the oracle is killed */
        if (getppid() == parent)
            execve(argv[0], argv, env);
        _exit(127);
    }
    return pid;
}

void end(pid_t *pid)
{
    if (*pid > 0) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

char *beside(const char *relative)
{
    static char path[8][4096];
    static int used;
    char *p = path[used++ % 8];
    ssize_t n = readlink("/proc/self/exe", p, 3900);
    p[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(p, '/');
    strcpy(slash ? slash + 1 : p, relative);
    return p;
}

void side_set(struct side *s, const char *name, const char *value)
{
    int i = 0;
    while (s->env[i])
        i++;
    assert(i < 32);
    snprintf(s->text[i], sizeof(s->text[i]), "%s=%s", name, value);
    s->env[i] = s->text[i];
}

pid_t daemon_spawn(const char *daemon, const char *socket)
{
    const char *none[] = {NULL};
    char *argv[] = {(char *)daemon, "--socket", (char *)socket, NULL};
    pid_t pid = spawn(argv, none);
    struct stat st;
    for (int i = 0; stat(socket, &st) && i < 2000; i++)
        nap_us(1000);
    return pid;
}
