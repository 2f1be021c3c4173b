/*
 * crew.c - makes, asks and ends the worker processes of `cutin latency`.
 */
#include "worker.h"
#include "tools/cutin/daemon.h"
#include "tools/cutin/nap.h"
#include "tools/cutin/subcommand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE_MS = 50 }; /* a signal is noticed after this at most */

int worker_memory(const char *name, size_t bytes, void **at)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    *at = ftruncate(fd, (off_t)bytes) == 0
              ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
              : MAP_FAILED;
    if (*at != MAP_FAILED)
        return fd;
    close(fd);
    return -ENOMEM;
}

int worker_prepare(struct worker *w, const char *role, uint32_t capacity)
{
    size_t bytes = sizeof(*w->shared) + capacity * sizeof(struct worker_sample);
    void *at;
    int fd = worker_memory("cutin-latency", bytes, &at);

    if (fd < 0)
        return fd;
    *w = (struct worker){
        .role = role, .socket = -1, .shared_fd = fd, .shared = at, .shared_bytes = bytes};
    w->shared->capacity = capacity;
    return 0;
}

/* After fork it may call what is not async-signal-safe, because the command has one thread. */
void worker_exec(const struct variable *rows, const char *library, const char *simulator,
                 int shared_fd, int socket, const char *program, const char *const words[])
{
    /* Moves the descriptors away from the two fixed numbers first. */
    int m = fcntl(shared_fd, F_DUPFD, WORKER_SOCKET_FD + 1);
    int s = socket < 0 ? m : fcntl(socket, F_DUPFD, WORKER_SOCKET_FD + 1);

    if (s < 0 || m < 0 || dup2(m, WORKER_SHARED_FD) < 0 || dup2(s, WORKER_SOCKET_FD) < 0 ||
        environment_setup(rows, library, simulator) != 0)
        _exit(EXIT_CANNOT_RUN);
    close_range(socket < 0 ? WORKER_SOCKET_FD : WORKER_SOCKET_FD + 1, ~0U, 0);
    /* stdout is for the command's own figures only. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(program, (char *const *)(uintptr_t)words);
    _exit(EXIT_CANNOT_RUN);
}

int worker_ask(struct worker *w, enum worker_op op, uint32_t count)
{
    struct worker_request request = {.op = op, .count = count};

    atomic_store_explicit(&w->shared->stop, 0, memory_order_relaxed);
    atomic_store_explicit(&w->shared->launched, 0, memory_order_relaxed);
    return send(w->socket, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) ? 0 : -EPIPE;
}

int worker_reply(struct worker *w, struct worker_reply *reply, uint32_t timeout_ms,
                 const volatile sig_atomic_t *cancel)
{
    struct pollfd pfd = {.fd = w->socket, .events = POLLIN};

    for (uint32_t waited = 0; poll(&pfd, 1, SLICE_MS) <= 0; waited += SLICE_MS) {
        if (cancel && *cancel)
            return -ECANCELED;
        if (waited >= timeout_ms)
            return -ETIMEDOUT;
    }
    return recv(w->socket, reply, sizeof(*reply), MSG_DONTWAIT) == sizeof(*reply) ? reply->error
                                                                                  : -EPIPE;
}

bool worker_gone(const struct worker *w)
{
    char byte;

    return recv(w->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) == 0;
}

const char *worker_error(const struct worker *w, int rc)
{
    if (w->shared->why[0])
        return w->shared->why;
    return rc == -EPIPE       ? "it ended unexpectedly"
           : rc == -ETIMEDOUT ? "it does not answer"
                              : strerror(-rc);
}

int worker_end(struct worker *w, uint32_t patience_ms)
{
    int status;

    if (w->pid <= 0)
        return 0;
    atomic_store_explicit(&w->shared->stop, 1, memory_order_relaxed);
    close(w->socket); /* the worker reads the end of the socket and exits */
    w->socket = -1;
    status = reap_or_kill(w->pid, clock_ns() + patience_ms * UINT64_C(1000000));
    w->pid = 0;
    return status;
}

void worker_free(struct worker *w)
{
    worker_end(w, WORKER_GIVEN_UP_MS);
    if (!w->shared)
        return;
    munmap(w->shared, w->shared_bytes);
    close(w->shared_fd);
    w->shared = NULL;
}
