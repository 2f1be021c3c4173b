/*
 * clients.h - the processes that the daemon knows, as `cutin list` and `cutin top` show them: one
 * table of columns, one JSON object per process.
 */
#ifndef CUTIN_TOOLS_CUTIN_OPERATE_CLIENTS_H
#define CUTIN_TOOLS_CUTIN_OPERATE_CLIENTS_H

#include <jansson.h>
#include <stddef.h>

#include "scheduler/wire/ask.h"

/* All clients at one moment. */
struct clients {
    struct client_row *rows; /* in order of their ids */
    size_t n;
};

/* Asks the daemon. Returns 0, or -errno as ask_clients does; to be given back to clients_free. */
int clients_get(const char *socket, struct clients *now);
void clients_free(struct clients *c);

/* What one process did between two moments, or since it came. */
struct activity_figures {
    double seconds; /* the time they are about */
    double
        gpu_share; /* of one GPU's time; more than 1 where there are several, or streams overlap */
    double kernels_per_s, holds_per_s;
    uint64_t in_flight, buffered; /* now */
    struct quantiles {
        uint64_t count, p50_ns, p99_ns; /* 0 where there are none */
    } hold, preemption;
};

/* `before`: an earlier reading; NULL, or one without this process: since it came. */
void clients_figures(const struct client_row *now, const struct clients *before,
                     struct activity_figures *out);

/* The columns that fit into so many characters, as bits; the device's where there are several. */
uint32_t clients_columns(const struct clients *c, int width);
/* The line above the table, and a line of it, without newline. Returns the length. */
enum { CLIENTS_LINE = 256 };
int clients_header(uint32_t columns, char line[CLIENTS_LINE]);
int clients_line(uint32_t columns, const struct client_row *row, const struct clients *before,
                 char line[CLIENTS_LINE]);
/* What processes that work on one GPU with kernels of others should know: for each kernel of a
 * lower level there that waits for I/O of its own, a line. */
void clients_waits(const struct clients *c, void (*say)(const char *line));
/* Processes of other users only by their name: their arguments are nobody's business. */
void clients_command(const struct client_row *row, char *out, size_t size);

/* {"clients": [...]}. NULL: no memory. */
json_t *clients_json(const struct clients *now, const struct clients *before);

#endif
