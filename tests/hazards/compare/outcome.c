/*
 * outcome.c - see outcome.h. This process is the program's tracer, and reads what the program has
 * open while it is stopped at its exit. The program's orphans become children of this process.
 */
#include "tests/hazards/compare/outcome.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Limits: of silence, longer than any busy machine makes it; of a child that was left, to end. */
enum { SILENCE_MS = 600000, ORPHANS_MS = 5000 };

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes the lines that `describe` makes of the entries of a folder, sorted. */
static void list(const char *folder, bool (*describe)(int dir, const char *name, char *line),
                 char *text)
{
    enum { LINES = 128, LINE = 256 };
    static char lines[LINES][LINE];
    char *sorted[LINES];
    int n = 0;
    DIR *dir = opendir(folder);
    *text = '\0';
    if (!dir)
        return;
    for (struct dirent *e; n < LINES && (e = readdir(dir));)
        if (e->d_name[0] != '.' && describe(dirfd(dir), e->d_name, lines[n])) {
            sorted[n] = lines[n];
            n++;
        }
    closedir(dir);
    qsort(sorted, (size_t)n, sizeof(*sorted), by_text);
    for (int i = 0, at = 0; i < n && at < NAMES; i++)
        at += snprintf(text + at, (size_t)(NAMES - at), "%s\n", sorted[i]);
}

static bool describe_file(int dir, const char *name, char *line)
{
    struct stat s;
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    snprintf(line, 256, "%.200s %lld", name, (long long)s.st_size);
    return true;
}

/* Replaces words with a digit in them, such as ids and inodes: they differ from run to run. */
static void forget_ids(const char *from, char *to)
{
    while (*from) {
        size_t n = 0, digits = 0;
        for (; isalnum((unsigned char)from[n]); n++)
            digits += isdigit((unsigned char)from[n]) != 0;
        if (digits)
            *to++ = '#';
        else
            to = (char *)mempcpy(to, from, n);
        from += n;
        if (*from)
            *to++ = *from++;
    }
    *to = '\0';
}

/* The simulated driver's own are left out: its threads open them at varying times. */
static bool describe_descriptor(int dir, const char *name, char *line)
{
    char target[200] = "", kind[200];
    if (readlinkat(dir, name, target, sizeof(target) - 1) < 0 || strstr(target, "simgpu"))
        return false;
    forget_ids(target, kind);
    snprintf(line, 256, "%3.9s %s", name, kind);
    return true;
}

static bool remove_file(int dir, const char *name, char *line)
{
    (void)line;
    if (unlinkat(dir, name, 0) != 0)
        unlinkat(dir, name, AT_REMOVEDIR);
    return false;
}

/* ---- its end --------------------------------------------------------------------------------- */

static void look(pid_t pid, struct outcome *r)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    list(path, describe_descriptor, r->descriptors);
}

/* Continues a stopped program: at its exit, before a signal, or stopped by one. */
static void go_on(pid_t pid, int status, struct outcome *r)
{
    int event = status >> 16, number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXIT)
        look(pid, r);
    if (event == PTRACE_EVENT_STOP && number != SIGTRAP)
        ptrace(PTRACE_LISTEN, pid, NULL, NULL);
    else
        ptrace(PTRACE_CONT, pid, NULL, event ? NULL : (void *)(intptr_t)number);
}

/* SIGCHLD is blocked, and each stop of the program raises it, too. A program that writes something
 * now and then makes progress, however slow the machine is. */
static void await(pid_t pid, int out, struct outcome *r)
{
    const struct timespec second = {.tv_sec = 1};
    uint64_t by_ms = now_ms() + SILENCE_MS;
    struct stat now;
    off_t written = 0;
    bool late = false;
    sigset_t news;
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    for (;;) {
        pid_t came = waitpid(pid, &r->status, late ? 0 : WNOHANG);
        if (came == pid && WIFSTOPPED(r->status)) {
            go_on(pid, r->status, r);
        } else if (came != 0) {
            break;
        } else if (!late && fstat(out, &now) == 0 && now.st_size != written) {
            written = now.st_size;
            by_ms = now_ms() + SILENCE_MS;
        } else if (now_ms() >= by_ms) {
            late = true;
            kill(pid, SIGKILL);
        } else {
            sigtimedwait(&news, NULL, &second);
        }
    }
    if (late)
        r->status = -1;
}

/* ---- its children ---------------------------------------------------------------------------- */

static pid_t known[64];
static int known_count;

/* Lists the children of this process. Returns their number, `limit` at most. */
static int children_of_ours(pid_t *pids, int limit)
{
    char path[64];
    int n = 0, pid;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    while (f && n < limit && fscanf(f, "%d", &pid) == 1)
        pids[n++] = pid;
    if (f)
        fclose(f);
    return n;
}

static int orphans(pid_t *pids, int limit)
{
    int n = children_of_ours(pids, limit), kept = 0;
    for (int i = 0; i < n; i++) {
        bool ours = false;
        for (int k = 0; k < known_count; k++)
            ours |= known[k] == pids[i];
        if (!ours)
            pids[kept++] = pids[i];
    }
    return kept;
}

static int orphans_end(void)
{
    pid_t pids[64];
    int n = 0, more;
    while ((more = orphans(pids, 64)) > 0)
        for (int i = 0; i < more; i++, n++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    return n;
}

void outcome_orphans_end(void)
{
    known_count = 0;
    orphans_end();
}

static void children_left(struct outcome *r)
{
    pid_t pids[64];
    uint64_t by_ms = now_ms() + ORPHANS_MS;
    int n;
    r->children = 0;
    while ((n = orphans(pids, 64)) > 0 && now_ms() < by_ms) {
        for (int i = 0; i < n; i++)
            r->children += waitpid(pids[i], NULL, WNOHANG) == pids[i];
        usleep(1000);
    }
    r->running = orphans_end();
    r->children += r->running;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void text_of(int fd, char *text)
{
    ssize_t got = pread(fd, text, TEXT - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    close(fd);
}

static _Noreturn void become(const char *folder, const sigset_t *mask, const int fds[2],
                             const int go[2], void (*enter)(const void *arg), const void *arg)
{
    char byte;
    close(go[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(go[0], &byte, 1) != 0 || chdir(folder) != 0)
        _exit(127);
    close(go[0]);
    dup2(fds[0], STDOUT_FILENO);
    dup2(fds[1], STDERR_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    enter(arg);
    _exit(127);
}

void outcome_of(struct outcome *r, const char *folder, void (*enter)(const void *arg),
                const void *arg)
{
    int fds[2] = {memfd_create("stdout", MFD_CLOEXEC), memfd_create("stderr", MFD_CLOEXEC)}, go[2];
    sigset_t news, before;
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    sigprocmask(SIG_BLOCK, &news, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    known_count = children_of_ours(known, 64);
    r->descriptors[0] = '\0';
    if (pipe2(go, O_CLOEXEC) != 0)
        exit(2);
    uint64_t began_ms = now_ms();
    pid_t pid = fork();
    if (pid == 0)
        become(folder, &before, fds, go, enter, arg);
    ptrace(PTRACE_SEIZE, pid, NULL, (void *)(intptr_t)PTRACE_O_TRACEEXIT);
    close(go[0]);
    close(go[1]);
    await(pid, fds[0], r);
    r->ms = now_ms() - began_ms;
    children_left(r);
    text_of(fds[0], r->out);
    text_of(fds[1], r->err);
    list(folder, describe_file, r->files);
    char none[NAMES];
    list(folder, remove_file, none);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void outcome_difference(const struct outcome *a, const struct outcome *b, char *text, int size)
{
    const struct {
        const char *name;
        bool differs;
    } all[] = {{"end", a->status != b->status},
               {"output", strcmp(a->out, b->out) != 0},
               {"files", strcmp(a->files, b->files) != 0},
               {"descriptors",
                *a->descriptors && *b->descriptors && strcmp(a->descriptors, b->descriptors) != 0},
               {"children", a->children != b->children || a->running != b->running}};
    *text = '\0';
    for (unsigned int i = 0, n = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i].differs)
            n += (unsigned int)snprintf(text + n, (size_t)size - n, "%s%s", n ? ", " : "",
                                        all[i].name);
}
