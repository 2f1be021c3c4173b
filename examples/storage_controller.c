/*
 * storage_controller.c - a controller of storage (see storage_controller.h).
 */
#include "storage_controller.h"
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { LOOK_NS = 20000 }; /* between looks at the doorbells */

struct pending {
    uint64_t due_ns;
    uint32_t queue, tag, status;
};

struct storage_controller {
    struct storage_device device;
    pthread_t thread;
    atomic_bool stopping;
    uint32_t *taken, *posted; /* of each queue */
    /* A ring in the order of commands, which is also the order of completions. */
    struct pending *pending;
    uint32_t room;
    uint64_t first, last;
};

static uint32_t command_do(const struct storage_controller *c,
                           const struct storage_command *command)
{
    void *data = (void *)(uintptr_t)command->data;
    off_t at = (off_t)(command->page * STORAGE_PAGE);
    ssize_t n = command->opcode == STORAGE_READ    ? pread(c->device.file, data, STORAGE_PAGE, at)
                : command->opcode == STORAGE_WRITE ? pwrite(c->device.file, data, STORAGE_PAGE, at)
                                                   : -1;
    return n == STORAGE_PAGE ? 0 : 1;
}

/* When a command is done: it begins when one of the `depth` commands before it has ended. */
static uint64_t command_due(const struct storage_controller *c)
{
    uint64_t begins = now_ns();
    if (c->last >= c->device.depth) {
        uint64_t room = c->pending[(c->last - c->device.depth) % c->room].due_ns;
        begins = room > begins ? room : begins;
    }
    return begins + c->device.latency_ns;
}

static void queue_take(struct storage_controller *c, uint32_t queue)
{
    struct storage_queue *q = &c->device.queues[queue];
    uint32_t tail = word_load(&c->device.doorbells[queue].tail);
    for (; c->taken[queue] != tail; c->taken[queue]++) {
        const struct storage_command *command = &q->submitted[c->taken[queue] % STORAGE_ENTRIES];
        struct pending *p = &c->pending[c->last % c->room];
        *p = (struct pending){command_due(c), queue, command->tag, command_do(c, command)};
        c->last++;
    }
}

static void completion_post(struct storage_controller *c, const struct pending *p)
{
    uint32_t count = c->posted[p->queue]++;
    struct storage_completion *entry =
        &c->device.queues[p->queue].completed[count % STORAGE_ENTRIES];
    word_store(&entry->tag, p->tag);
    word_store(&entry->status, p->status);
    word_store(&entry->phase, completion_phase(count));
}

static void *controller_main(void *arg)
{
    struct storage_controller *c = arg;
    prctl(PR_SET_NAME, "storage");
    prctl(PR_SET_TIMERSLACK, 1);
    while (!atomic_load(&c->stopping)) {
        for (uint32_t i = 0; i < c->device.queue_count; i++)
            queue_take(c, i);
        uint64_t now = now_ns(), next = now + LOOK_NS;
        while (c->first < c->last && c->pending[c->first % c->room].due_ns <= now)
            completion_post(c, &c->pending[c->first++ % c->room]);
        if (c->first < c->last && c->pending[c->first % c->room].due_ns < next)
            next = c->pending[c->first % c->room].due_ns;
        sleep_until(next);
    }
    return NULL;
}

static void controller_free(struct storage_controller *c)
{
    free(c->taken);
    free(c->posted);
    free(c->pending);
    free(c);
}

struct storage_controller *controller_start(const struct storage_device *device)
{
    struct storage_controller *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->device = *device;
    c->room = device->queue_count * STORAGE_ENTRIES + device->depth;
    c->taken = calloc(device->queue_count, sizeof(*c->taken));
    c->posted = calloc(device->queue_count, sizeof(*c->posted));
    c->pending = calloc(c->room, sizeof(*c->pending));
    if (!c->taken || !c->posted || !c->pending ||
        pthread_create(&c->thread, NULL, controller_main, c) != 0) {
        controller_free(c);
        return NULL;
    }
    return c;
}

void controller_stop(struct storage_controller *c)
{
    atomic_store(&c->stopping, true);
    pthread_join(c->thread, NULL);
    controller_free(c);
}
