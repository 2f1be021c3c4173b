/* proc.c - see proc.h. */
#include "scheduler/policy/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int proc_text(int fd, char *text, size_t size)
{
    ssize_t n = read(fd, text, size - 1);
    int rc = n < 0 ? -errno : 0;

    text[n < 0 ? 0 : n] = '\0';
    close(fd);
    return rc;
}

static int file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -errno : proc_text(fd, text, size);
}

/* The name, in brackets, may be any text. proc(5): fields 3, 4, 9 and 22. */
static int stat_read(const char *path, struct proc_stat *stat)
{
    char text[1024];
    const char *at;
    int rc = file_read(path, text, sizeof(text));

    if (rc != 0)
        return rc;
    at = strrchr(text, ')');
    return at && sscanf(at,
                        ") %c %d %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                        "%*s %llu",
                        &stat->state, &stat->parent, &stat->flags, &stat->started) == 4
               ? 0
               : -EINVAL;
}

int proc_stat(pid_t pid, struct proc_stat *stat)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return stat_read(path, stat);
}

bool proc_any_thread(pid_t pid, bool runnable)
{
    char path[64];
    struct dirent *entry;
    bool any = false;
    DIR *threads;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    threads = opendir(path);
    while (threads && !any && (entry = readdir(threads))) {
        struct proc_stat thread;

        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)pid, entry->d_name);
        any = entry->d_name[0] != '.' && stat_read(path, &thread) == 0 &&
              (runnable ? thread.state == 'R' : !(thread.flags & PROC_EXITING));
    }
    if (threads)
        closedir(threads);
    return any;
}

enum proc proc_run_state(pid_t pid)
{
    char path[32], text[4096];
    struct proc_stat leader;

    if (pid <= 0 || proc_stat(pid, &leader) != 0)
        return PROC_UNSEEN;
    /* A main thread may end before the others. A process killed by a signal that leaves a core is
     * ending, too: none of its threads runs again. */
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (leader.flags & PROC_EXITING
            ? !proc_any_thread(pid, false)
            : file_read(path, text, sizeof(text)) == 0 && strstr(text, "\nCoreDumping:\t1"))
        return PROC_ENDING;
    return leader.state == 'T' || leader.state == 't' ? PROC_STOPPED : PROC_RUNS;
}
