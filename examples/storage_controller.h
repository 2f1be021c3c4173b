/*
 * storage_controller.h - replaces an SSD's controller: a thread takes commands from submission
 * queues when their doorbells ring, does them on a file, and posts completions when an SSD of that
 * latency would.
 */
#ifndef CUTIN_EXAMPLES_STORAGE_CONTROLLER_H
#define CUTIN_EXAMPLES_STORAGE_CONTROLLER_H

#include "storage.h"

#include <stdbool.h>

struct storage_controller;

struct storage_device {
    int file;
    struct storage_queue *queues; /* at addresses of this process */
    struct storage_doorbell *doorbells;
    uint32_t queue_count;
    uint32_t depth; /* commands that it works on at a time */
    uint64_t latency_ns;
};

/* NULL: there is no memory, or no thread. */
struct storage_controller *controller_start(const struct storage_device *device);
void controller_stop(struct storage_controller *c);

#endif
