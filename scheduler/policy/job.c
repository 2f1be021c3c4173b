/*
 * job.c - accounts of batch jobs, in files of root.
 */
#include "scheduler/policy/job.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parents that are asked for one client: what a hostile one can make the daemon read. */
enum { MOST_PARENTS = 64, PATH_SIZE = 256, LINE_SIZE = JOB_ACCOUNT + 64 };

static_assert(JOB_ACCOUNT == 64, "the width in formats below");

int job_account_check(const char *account)
{
    size_t length = strcspn(account, ", \t\r\n");

    return length > 0 && length < JOB_ACCOUNT && !account[length] ? 0 : -EINVAL;
}

/* As much of a file as fits, as text. Closes `fd`. */
static int text_read(int fd, char *text, size_t size)
{
    ssize_t n = read(fd, text, size - 1);
    int rc = n < 0 ? -errno : 0;

    text[n < 0 ? 0 : n] = '\0';
    close(fd);
    return rc;
}

static int trusted(int fd, uid_t owner, mode_t type)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -errno;
    if ((st.st_mode & S_IFMT) != type || (st.st_uid != 0 && st.st_uid != owner) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)))
        return -EPERM;
    return 0;
}

/* Opens what somebody else could not have put there. Returns a descriptor or -errno. */
static int open_trusted(int folder, const char *name, uid_t owner, mode_t type)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), rc;

    if (fd < 0)
        return -errno;
    rc = trusted(fd, owner, type);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

struct process {
    pid_t parent;
    unsigned long long started; /* in ticks since the machine's start */
};

static int process_read(pid_t pid, struct process *p)
{
    char path[32], text[1024];
    const char *at;
    int fd, rc, parent;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    rc = text_read(fd, text, sizeof(text));
    if (rc != 0)
        return rc;
    /* The name, in brackets, is whatever the process says. proc(5): fields 4 and 22. */
    at = strrchr(text, ')');
    if (!at || sscanf(at + 1,
                      " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                      "%*s %llu",
                      &parent, &p->started) != 2)
        return -EINVAL;
    p->parent = parent;
    return 0;
}

/* ---- the batch system's side ----------------------------------------------------------------- */

/* A reader finds the whole line or no file. */
static int line_write(const char *path, const char *line)
{
    char made[PATH_SIZE + 8];
    size_t length = strlen(line);
    int fd, rc = 0;

    if ((size_t)snprintf(made, sizeof(made), "%s.new", path) >= sizeof(made))
        return -ENAMETOOLONG;
    unlink(made);
    fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0644) != 0 || write(fd, line, length) != (ssize_t)length)
        rc = -EIO;
    close(fd);
    if (rc == 0 && rename(made, path) != 0)
        rc = -errno;
    if (rc != 0)
        unlink(made);
    return rc;
}

static int folder_line_write(const char *folder, const char *path, const char *line)
{
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return -errno;
    return line_write(path, line);
}

static void own_path(char path[PATH_SIZE], const char *folder)
{
    snprintf(path, PATH_SIZE, "%s/%d", folder, (int)getpid());
}

int job_begin(const char *folder, uid_t uid, const char *account)
{
    char path[PATH_SIZE], line[LINE_SIZE];
    struct process self;
    int rc = job_account_check(account);

    if (rc == 0)
        rc = process_read(getpid(), &self);
    if (rc != 0)
        return rc;
    own_path(path, folder);
    snprintf(line, sizeof(line), "%llu %u %s\n", self.started, (unsigned)uid, account);
    return folder_line_write(folder, path, line);
}

void job_end(const char *folder)
{
    char path[PATH_SIZE];

    own_path(path, folder);
    unlink(path);
}

static void job_path(char path[PATH_SIZE], const char *folder, uint32_t job)
{
    snprintf(path, PATH_SIZE, "%s/job.%u", folder, (unsigned)job);
}

int job_keep(const char *folder, uint32_t job, uid_t uid, const char *account)
{
    char path[PATH_SIZE], line[LINE_SIZE];
    int rc = job_account_check(account);

    if (rc != 0)
        return rc;
    job_path(path, folder, job);
    snprintf(line, sizeof(line), "%u %s\n", (unsigned)uid, account);
    return folder_line_write(folder, path, line);
}

int job_recall(const char *folder, uint32_t job, uid_t uid, char account[JOB_ACCOUNT])
{
    char path[PATH_SIZE], line[LINE_SIZE];
    unsigned kept_uid;
    int fd, rc;

    account[0] = '\0';
    job_path(path, folder, job);
    fd = open_trusted(AT_FDCWD, path, geteuid(), S_IFREG);
    if (fd < 0)
        return fd == -ENOENT ? -ESRCH : fd;
    rc = text_read(fd, line, sizeof(line));
    if (rc == 0 && (sscanf(line, "%u %63s", &kept_uid, account) != 2 || kept_uid != uid))
        rc = -ESRCH;
    if (rc != 0)
        account[0] = '\0';
    return rc;
}

void job_forget(const char *folder, uint32_t job)
{
    char path[PATH_SIZE];

    job_path(path, folder, job);
    unlink(path);
}

/* ---- the daemon's side ----------------------------------------------------------------------- */

/* Whether this process starts a job's, and that job's account. */
static int account_read(int folder, uid_t owner, pid_t pid, const struct process *p, uid_t uid,
                        char account[JOB_ACCOUNT])
{
    unsigned long long started;
    unsigned job_uid;
    char name[16], line[LINE_SIZE];
    int fd, rc;

    snprintf(name, sizeof(name), "%d", (int)pid);
    fd = open_trusted(folder, name, owner, S_IFREG);
    if (fd < 0)
        return fd;
    rc = text_read(fd, line, sizeof(line));
    if (rc != 0)
        return rc;
    if (sscanf(line, "%llu %u %63s", &started, &job_uid, account) == 3 && started == p->started &&
        job_uid == uid)
        return 0;
    account[0] = '\0';
    return -ESRCH;
}

int job_account_of(const char *folder, uid_t owner, pid_t pid, uid_t uid, char account[JOB_ACCOUNT])
{
    int fd = open_trusted(AT_FDCWD, folder, owner, S_IFDIR), rc = -ESRCH;
    struct process p;

    account[0] = '\0';
    if (fd < 0)
        return fd == -ENOENT ? -ESRCH : fd;
    /* A process that ends meanwhile, and whose number is given to another one, ends the way or leads
     * to another process of a job of the same user. */
    for (int i = 0; i < MOST_PARENTS && rc != 0 && pid > 0; i++) {
        rc = process_read(pid, &p);
        if (rc != 0)
            break;
        rc = account_read(fd, owner, pid, &p, uid, account);
        pid = p.parent;
    }
    close(fd);
    return rc == 0 ? 0 : -ESRCH;
}
