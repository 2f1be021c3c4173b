/* job.c - see job.h. */
#include "scheduler/policy/job.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/atomic_file.h"
#include "scheduler/policy/proc.h"

/* Parents read for one client: a bound on what a hostile one can make the daemon read. */
enum { MOST_PARENTS = 64, PATH_SIZE = 256, LINE_SIZE = 192 };

static_assert(JOB_ACCOUNT == 64 && JOB_ID == 32, "the widths in formats below");

#define JOB_FILE "%s/job.%s" /* its folder and id */
static const char no_account[] = "-";

/* Nothing in it has a meaning in a list of rules, a line, a path or a label of the metrics. */
static bool is_word(const char *text, size_t size)
{
    size_t length =
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-+@");

    return length > 0 && length < size && !text[length];
}

int job_account_check(const char *account)
{
    return is_word(account, JOB_ACCOUNT) && strcmp(account, no_account) != 0 ? 0 : -EINVAL;
}

/* Opens what only root or `owner` can have put there. Returns a descriptor or -errno. */
static int open_trusted(int folder, const char *name, uid_t owner, mode_t type)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), rc = -EPERM;
    struct stat st;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0)
        rc = -errno;
    else if ((st.st_mode & S_IFMT) == type && (st.st_uid == 0 || st.st_uid == owner) &&
             !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return fd;
    close(fd);
    return rc;
}

/* Writes a file; makes the folder if it is missing. A reader finds the whole line or no file. */
static int line_write(const char *folder, const char *path, const char *line)
{
    struct atomic_file whole;
    FILE *out;

    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return -errno;
    out = atomic_file_open(&whole, path);
    if (!out)
        return -errno;
    fputs(line, out);
    return atomic_file_close(&whole, fchmod(fileno(out), 0644) == 0 ? 0 : -errno);
}

/* All that the file of a process that starts a job's processes says. */
static void line_make(char line[LINE_SIZE], unsigned long long started, uid_t uid,
                      const char *account, const char *id)
{
    snprintf(line, LINE_SIZE, "%llu %u %s %s\n", started, (unsigned)uid, account, id);
}

int job_begin(const char *folder, uid_t uid, const struct job *job)
{
    char path[PATH_SIZE], line[LINE_SIZE];
    const char *account = job->account[0] ? job->account : no_account;
    struct proc_stat self;
    int rc = proc_stat(getpid(), &self);

    if (rc != 0)
        return rc;
    if (!is_word(account, JOB_ACCOUNT) || !is_word(job->id, JOB_ID))
        return -EINVAL;
    snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
    line_make(line, self.started, uid, account, job->id);
    return line_write(folder, path, line);
}

void job_end(const char *folder)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid());
    unlink(path);
}

int job_keep(const char *folder, uid_t uid, const struct job *job)
{
    char path[PATH_SIZE], line[LINE_SIZE];

    if (job_account_check(job->account) != 0 || !is_word(job->id, JOB_ID))
        return -EINVAL;
    snprintf(path, sizeof(path), JOB_FILE, folder, job->id);
    snprintf(line, sizeof(line), "%u %s\n", (unsigned)uid, job->account);
    return line_write(folder, path, line);
}

int job_recall(const char *folder, uid_t uid, struct job *job)
{
    char path[PATH_SIZE], line[LINE_SIZE];
    unsigned kept_uid;
    int fd, rc;

    job->account[0] = '\0';
    snprintf(path, sizeof(path), JOB_FILE, folder, job->id);
    fd = open_trusted(AT_FDCWD, path, geteuid(), S_IFREG);
    if (fd < 0)
        return fd == -ENOENT ? -ESRCH : fd;
    rc = proc_text(fd, line, sizeof(line));
    if (rc == 0 && (sscanf(line, "%u %63s", &kept_uid, job->account) != 2 || kept_uid != uid))
        rc = -ESRCH;
    if (rc != 0)
        job->account[0] = '\0';
    return rc;
}

void job_forget(const char *folder, const char *id)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), JOB_FILE, folder, id);
    unlink(path);
}

/* Whether this process starts a job's processes, and which job that is. */
static int job_read(int folder, uid_t owner, pid_t pid, const struct proc_stat *p, uid_t uid,
                    struct job *job)
{
    char name[16], line[LINE_SIZE], expected[LINE_SIZE];
    int fd, rc, fields;

    snprintf(name, sizeof(name), "%d", (int)pid);
    fd = open_trusted(folder, name, owner, S_IFREG);
    if (fd < 0)
        return fd;
    rc = proc_text(fd, line, sizeof(line));
    if (rc != 0)
        return rc;
    fields = sscanf(line, "%*u %*u %63s %31s", job->account, job->id);
    line_make(expected, p->started, uid, job->account, job->id);
    if (fields != 2 || strcmp(line, expected) != 0) {
        *job = (struct job){.account = ""};
        return -ESRCH;
    }
    if (strcmp(job->account, no_account) == 0)
        job->account[0] = '\0';
    return 0;
}

int job_of_process(const char *folder, uid_t owner, pid_t pid, uid_t uid, struct job *job)
{
    int fd = open_trusted(AT_FDCWD, folder, owner, S_IFDIR), rc = -ESRCH;
    struct proc_stat p;

    *job = (struct job){.account = ""};
    if (fd < 0)
        return fd == -ENOENT ? -ESRCH : fd;
    /* A process may end meanwhile and its number be given to another one. Then the way ends there,
     * or leads to another process of a job of the same user. */
    for (int i = 0; i < MOST_PARENTS && rc != 0 && pid > 0; i++) {
        rc = proc_stat(pid, &p);
        if (rc != 0)
            break;
        rc = job_read(fd, owner, pid, &p, uid, job);
        pid = p.parent;
    }
    close(fd);
    return rc == 0 ? 0 : -ESRCH;
}
