/* listener.c - see daemon.h. */
#include "scheduler/daemon/daemon.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* No more than the daemon has room for. Connections that come too often are refused in
 * microseconds, so that the backlog is soon empty. */
enum { BACKLOG = 1024 };

/* Looks at the result because gcc warns of texts that may be cut short, as they may here. */
#define EXPLAIN(...)                                                                               \
    do {                                                                                           \
        if (snprintf(l->why, sizeof(l->why), __VA_ARGS__) < 0)                                     \
            l->why[0] = '\0';                                                                      \
    } while (0)

static int check_mode(struct listener *l, const struct stat *st, const char *folder)
{
    if (!(st->st_mode & (S_IWGRP | S_IWOTH)) || (st->st_mode & S_ISVTX))
        return 0;
    EXPLAIN("folder %s can be written by others (mode %03o): chmod go-w %s", folder,
            (unsigned)(st->st_mode & 0777), folder);
    return -EPERM;
}

/* Checks every part of the path: a user who could rename one, or change where a link leads, could
 * put another daemon in its place. `path` is absolute. */
static int check_way(struct listener *l, const char *path)
{
    char part[PATH_MAX];
    struct stat st;

    for (const char *end = path; *end;) {
        end = strchrnul(end + 1, '/');
        snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
        if (lstat(part, &st) != 0)
            return -errno;
        if (st.st_uid != geteuid() && st.st_uid != 0 &&
            id_known(st.st_uid, "/proc/self/uid_map") != ID_UNKNOWN) {
            EXPLAIN(
                "%s, part of the path to the socket, belongs to user %u: use a folder of your own",
                part, (unsigned)st.st_uid);
            return -EPERM;
        }
        if (S_ISDIR(st.st_mode) && check_mode(l, &st, part) != 0)
            return -EPERM;
    }
    return 0;
}

/* A folder for one user is private; through root's every user may connect. */
static int open_folder(struct listener *l, const char *folder)
{
    mode_t old = umask(0);
    char real[PATH_MAX];
    struct stat st;
    int rc;

    if (mkdir(folder, geteuid() == 0 ? 0755 : 0700) == 0)
        snprintf(l->made, sizeof(l->made), "%s", folder);
    umask(old);
    l->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->folder < 0) {
        rc = -errno;
        EXPLAIN("folder %s: %s", folder, strerror(-rc));
        return rc;
    }
    if (fstat(l->folder, &st) != 0)
        return -errno;
    /* Only its owner or root may be able to put another socket there. */
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        EXPLAIN("folder %s belongs to user %u: use one of your own", folder, (unsigned)st.st_uid);
        return -EPERM;
    }
    rc = check_mode(l, &st, folder);
    /* Checks the path as written and, if links lead elsewhere, as it really is. */
    if (rc == 0 && folder[0] == '/')
        rc = check_way(l, folder);
    if (rc == 0 && !realpath(folder, real))
        rc = -errno;
    return rc == 0 ? check_way(l, real) : rc;
}

/* The last daemon may remove the file between the open and the lock: then try again. */
static int take_lock(struct listener *l)
{
    struct stat mine, named;

    for (;;) {
        l->lock = openat(l->folder, l->lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (l->lock < 0)
            return -errno;
        if (flock(l->lock, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
        /* Whether the locked file still has that name. */
        if (fstat(l->lock, &mine) == 0 &&
            fstatat(l->folder, l->lock_name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            mine.st_dev == named.st_dev && mine.st_ino == named.st_ino)
            return 0;
        close(l->lock);
    }
}

/* With the lock held, a file at the path is a dead daemon's, or not of a daemon of this kind. */
static int remove_stale(struct listener *l)
{
    struct stat st;
    int fd;

    if (fstatat(l->folder, l->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode)) {
        EXPLAIN("%s exists and is not a socket: remove it or choose another path", l->path);
        return -EEXIST;
    }
    fd = socket_connect(l->path);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 || fd == -EAGAIN)
        return -EADDRINUSE;
    return unlinkat(l->folder, l->name, 0) == 0 ? 0 : -errno;
}

static int bind_and_listen(struct listener *l, const struct conf *conf)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    mode_t old;
    int rc;

    memcpy(address.sun_path, l->path, strlen(l->path) + 1);
    l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return -errno;
    old = umask(~conf->socket_mode & 0777);
    rc = bind(l->fd, (const struct sockaddr *)&address, sizeof(address));
    umask(old);
    if (rc != 0 || fstatat(l->folder, l->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    l->file = st.st_ino;
    /* It still refuses connections: no process can connect before the group is right. */
    if (conf->socket_group_given &&
        fchownat(l->folder, l->name, (uid_t)-1, conf->socket_group, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    return listen(l->fd, BACKLOG) == 0 ? 0 : -errno;
}

static void release(struct listener *l)
{
    if (l->fd >= 0)
        stray_close(l->fd);
    if (l->lock >= 0)
        close(l->lock);
    if (l->folder >= 0)
        close(l->folder);
    l->fd = l->lock = l->folder = -1;
}

int listener_open(struct listener *l, const char *path, const struct conf *conf)
{
    const char *slash = strrchr(path, '/');
    char folder[SOCKET_PATH_MAX];
    int rc = -ENOENT;

    *l = (struct listener){.fd = -1, .folder = -1, .lock = -1};
    if (strlen(path) >= SOCKET_PATH_MAX) {
        EXPLAIN("the socket path %.40s... is too long: %zu bytes of at most %d", path, strlen(path),
                SOCKET_PATH_MAX - 1);
        return -ENAMETOOLONG;
    }
    snprintf(l->path, sizeof(l->path), "%s", path);
    /* The folder part is "." or ends without a slash. */
    snprintf(l->name, sizeof(l->name), "%s", slash ? slash + 1 : path);
    snprintf(folder, sizeof(folder), "%.*s", slash && slash > path ? (int)(slash - path) : 1,
             slash ? path : ".");
    if (!l->name[0]) {
        EXPLAIN("socket path '%s' names no file", path);
        return -EINVAL;
    }
    snprintf(l->lock_name, sizeof(l->lock_name), "%s.lock", l->name);
    /* Twice, if the last daemon removed the folder in between. */
    for (int i = 0; i < 2 && rc == -ENOENT; i++) {
        release(l);
        l->why[0] = '\0';
        rc = open_folder(l, folder);
        if (rc == 0)
            rc = take_lock(l);
    }
    if (rc == 0)
        rc = remove_stale(l);
    if (rc == 0)
        rc = bind_and_listen(l, conf);
    if (rc == -EADDRINUSE)
        EXPLAIN("another cutind serves %s already", path);
    else if (rc != 0 && !l->why[0])
        EXPLAIN("%s: %s", path, strerror(-rc));
    if (rc != 0)
        release(l);
    return rc;
}

bool listener_is_named(const struct listener *l)
{
    struct stat st;

    return !l->path[0] || (l->fd >= 0 && stat(l->path, &st) == 0 && st.st_ino == l->file);
}

int listener_reopen(struct listener *l, const struct conf *conf)
{
    const struct listener old = *l;
    int rc;

    release(l);
    rc = listener_open(l, old.path, conf);
    if (!l->made[0])
        memcpy(l->made, old.made, sizeof(l->made));
    return rc;
}

void listener_close(struct listener *l)
{
    char path[SOCKET_PATH_MAX], mine[2 * SOCKET_PATH_MAX];

    if (l->lock >= 0 && listener_is_named(l)) {
        unlinkat(l->folder, l->name, 0);
        unlinkat(l->folder, l->lock_name, 0);
        snprintf(mine, sizeof(mine), "%s/%s", l->made, l->name);
        /* The default folder stays: containers have it mounted. */
        if (l->made[0] && (socket_default_path(path) != 0 || strcmp(path, mine) != 0))
            rmdir(l->made);
    }
    release(l);
}
