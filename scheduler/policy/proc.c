/*
 * proc.c - does a process run, as /proc tells? (see proc.h)
 */
#include "scheduler/policy/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXITING = 4 }; /* PF_EXITING, linux/sched.h of the kernel */

struct task {
    char state; /* '?': cannot be seen */
    unsigned int flags;
};

static void file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
}

/* proc(5): the state is the letter behind the last parenthesis, the flags the sixth number behind
 * that. */
static struct task task_look(const char *path)
{
    struct task task = {.state = '?'};
    char text[512], *fields;

    file_read(path, text, sizeof(text));
    fields = strrchr(text, ')');
    if (!fields || sscanf(fields, ") %c %*d %*d %*d %*d %*d %u", &task.state, &task.flags) != 2)
        task.state = '?';
    return task;
}

/* A main thread may end before the others. */
static bool all_exiting(pid_t pid)
{
    char path[64];
    struct dirent *entry;
    bool all = true;
    DIR *threads;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    threads = opendir(path);
    while (threads && all && (entry = readdir(threads))) {
        struct task task;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)pid, entry->d_name);
        task = task_look(path);
        all = task.state == '?' || (task.flags & EXITING); /* gone meanwhile */
    }
    if (threads)
        closedir(threads);
    return all;
}

/* Killed by a signal of the kind that leaves a core: none of its threads runs again. */
static bool dumps_core(pid_t pid)
{
    char path[32], text[4096];

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file_read(path, text, sizeof(text));
    return !!strstr(text, "\nCoreDumping:\t1");
}

enum proc proc_look(pid_t pid)
{
    char path[32];
    struct task leader;

    if (pid <= 0)
        return PROC_UNSEEN;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    leader = task_look(path);
    if (leader.state == '?')
        return PROC_UNSEEN;
    if (leader.flags & EXITING ? all_exiting(pid) : dumps_core(pid))
        return PROC_ENDING;
    return leader.state == 'T' || leader.state == 't' ? PROC_STOPPED : PROC_RUNS;
}
