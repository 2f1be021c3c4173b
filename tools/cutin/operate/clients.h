/*
 * clients.h - the processes that the daemon knows, as `cutin list` and `cutin top` show them: one
 * table of columns, one JSON object per process.
 */
#ifndef CUTIN_TOOLS_CUTIN_OPERATE_CLIENTS_H
#define CUTIN_TOOLS_CUTIN_OPERATE_CLIENTS_H

#include <jansson.h>

#include "scheduler/wire/query.h"

/* All clients at one moment. */
struct clients {
    struct message_row *rows; /* in order of their ids */
    size_t n;
};

/* Frees what query_clients has filled in. */
void clients_free(struct clients *c);

/* What one process did between two moments, or since it started. */
struct row_figures {
    double seconds;    /* the time that the figures cover */
    double gpu_share;  /* of one GPU's time; above 1 with several GPUs, or if streams overlap */
    double held_share; /* share of the time, on the device with the most */
    double kernels_per_s, holds_per_s;
    double in_flight, buffered; /* now */
    struct quantiles {
        uint64_t count;
        double p50_ns, p99_ns; /* 0: there were none */
    } hold, preemption;
};

/* The counters of all devices of a process together; NULL: zeros. */
struct message_row_device row_sums_make(const struct message_row *row);

/* The process with this id; NULL: there is none. */
const struct message_row *clients_find(const struct clients *c, uint64_t id);
/* `before`: an earlier reading. If it is NULL, or lacks this process: since the process started. */
struct row_figures row_figures_make(const struct message_row *now, const struct clients *before);

/* Bits of the columns that fit into `width`. DEVICE is one only if there are several devices. */
uint32_t clients_columns(const struct clients *c, int width);
/* Writes a line of the table without a newline. `row` NULL: the line of the titles. */
enum { CLIENTS_LINE = 256 };
void clients_line(uint32_t columns, const struct clients *all, const struct message_row *row,
                  const struct clients *before, char line[CLIENTS_LINE]);
/* Prints the whole table on stdout. */
void clients_print(const struct clients *c, const struct clients *before);
/* Prints a line for each kernel that waits for its own I/O on a GPU of a higher level's process. */
void clients_print_waits(const struct clients *c);

/* {"clients": [...]}. NULL: no memory. */
json_t *clients_json(const struct clients *now, const struct clients *before);

#endif
