/* metrics_address.c - see conf.h. */
#include "scheduler/policy/conf.h"
#include "common/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define EXPLAIN(...) snprintf(why, why_size, __VA_ARGS__)

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un unix_path;
};

/* "127.0.0.1:9475" or "[::1]:9475". */
static int parse_inet(const char *text, union address *a, socklen_t *size)
{
    const char *colon = strrchr(text, ':');
    bool six = text[0] == '[';
    char host[64];
    uint64_t port;

    if (!colon || (size_t)(colon - text) >= sizeof(host) || (six && colon[-1] != ']') ||
        !number_read(colon + 1, 1, 65535, &port))
        return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text) - 2 * six, text + six);
    if (six) {
        a->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        *size = sizeof(a->v6);
        return inet_pton(AF_INET6, host, &a->v6.sin6_addr) == 1 ? 0 : -EINVAL;
    }
    a->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    *size = sizeof(a->v4);
    return inet_pton(AF_INET, host, &a->v4.sin_addr) == 1 ? 0 : -EINVAL;
}

static int parse(const char *text, union address *a, socklen_t *size, char *why, size_t why_size)
{
    if (strncmp(text, "unix:", 5) == 0) {
        if (text[5] != '/' || strlen(text + 5) >= sizeof(a->unix_path.sun_path)) {
            EXPLAIN("%.65s is not an absolute path of at most %zu bytes", text,
                    sizeof(a->unix_path.sun_path) - 1);
            return -EINVAL;
        }
        a->unix_path = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(a->unix_path.sun_path, text + 5, strlen(text + 5) + 1);
        *size = sizeof(a->unix_path);
        return 0;
    }
    if (parse_inet(text, a, size) != 0) {
        EXPLAIN("%.60s is not 127.0.0.1:PORT, [::1]:PORT or unix:/PATH", text);
        return -EINVAL;
    }
    if (a->any.sa_family == AF_INET ? ntohl(a->v4.sin_addr.s_addr) >> 24 != 127
                                    : !IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr)) {
        EXPLAIN("other machines could reach %.60s, and metrics show what each user runs: use "
                "127.0.0.1, [::1] or unix:/PATH, behind a proxy that asks for a password",
                text);
        return -EINVAL;
    }
    return 0;
}

int metrics_check(const char *address, char *why, size_t why_size)
{
    union address a;
    socklen_t size;

    return parse(address, &a, &size, why, why_size);
}

/* Removes the socket that a dead daemon left. Anything else stays and makes bind fail. */
static void remove_stale(const union address *a)
{
    const char *path = a->unix_path.sun_path;
    struct stat st;
    int fd;

    if (a->any.sa_family != AF_UNIX || lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, &a->any, sizeof(a->unix_path)) != 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

int metrics_listen(const char *address, char *why, size_t why_size)
{
    union address a;
    socklen_t size;
    int one = 1, fd, rc;
    mode_t old;

    rc = parse(address, &a, &size, why, why_size);
    if (rc != 0)
        return rc;
    remove_stale(&a);
    fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && a.any.sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    old = umask(0117); /* a UNIX socket: for this user and group */
    rc = fd >= 0 ? bind(fd, &a.any, size) : -1;
    umask(old);
    if (rc == 0 && listen(fd, 16) == 0)
        return fd;
    rc = -errno;
    EXPLAIN("metrics at %.60s: %s", address, strerror(-rc));
    if (fd >= 0)
        close(fd);
    return rc;
}

ino_t metrics_inode(const char *address)
{
    struct stat st;

    return strncmp(address, "unix:", 5) == 0 && lstat(address + 5, &st) == 0 ? st.st_ino : 0;
}

void metrics_unlisten(const char *address)
{
    if (strncmp(address, "unix:", 5) == 0)
        unlink(address + 5);
}
