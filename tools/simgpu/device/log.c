/*
 * log.c - the log of device events. Each line is key=value pairs and one append, so processes can
 * share the file. README.md lists the keys.
 */
#include "tools/simgpu/device/log.h"
#include "tools/simgpu/face/simconfig.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { NAME_MOST = 8192 }; /* kernels of templates have names of thousands of characters */

static int log_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const kind_names[] = {
    [WORK_KERNEL] = "kernel", [WORK_COPY] = "copy", [WORK_MARK] = "mark",
    [WORK_WAIT] = "wait",     [WORK_HOST] = "host", [WORK_GRAPH] = "graph",
};

static void log_open(void)
{
    const char *path = config_get()->log;
    if (*path == '\0')
        return;
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        fprintf(stderr, "simgpu: SIMGPU_LOG=%s cannot be written: %s; no log is written\n", path,
                strerror(errno));
}

/* A kernel's grid, block and dynamic shared memory; a copy's bytes; nothing for other works. */
static const char *shape_text(const struct work *w, char *text, size_t room)
{
    const uint64_t *s = w->args.u64;
    text[0] = '\0';
    if (w->node_type == CU_GRAPH_NODE_TYPE_KERNEL && w->func)
        snprintf(text, room,
                 " grid=%" PRIu64 ",%" PRIu64 ",%" PRIu64 " block=%" PRIu64 ",%" PRIu64 ",%" PRIu64
                 " smem=%" PRIu64,
                 s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
    else if (w->node_type == CU_GRAPH_NODE_TYPE_MEMCPY)
        snprintf(text, room, " bytes=%" PRIu64, s[6] * s[7] * s[8]); /* of struct transfer */
    return text;
}

void log_work(const struct work *w, uint32_t device_context, struct point at, uint64_t stream_id,
              bool ran)
{
    pthread_once(&once, log_open);
    if (log_fd < 0)
        return;
    char shape[128], line[NAME_MOST + 512];
    int n = snprintf(line, sizeof(line),
                     "pid=%d context=%" PRIu32 " stream=%" PRIu32 " seq=%" PRIu64
                     " kind=%s name=%.*s submit=%" PRIu64 " start=%" PRIu64 " end=%" PRIu64
                     " cost=%" PRIu64 " ran=%d id=%" PRIu64 "%s\n",
                     (int)getpid(), device_context, at.stream, at.seq, kind_names[w->kind],
                     NAME_MOST, w->name ? w->name : "-", w->submit_ns, w->start_ns, w->end_ns,
                     w->cost_ns, ran, stream_id, shape_text(w, shape, sizeof(shape)));
    /* One write: O_APPEND keeps lines of several processes whole. A full disk loses lines. */
    ssize_t written = write(log_fd, line, (size_t)n);
    (void)written;
}
