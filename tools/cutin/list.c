/*
 * list.c - `cutin list`: the processes that the daemon knows.
 */
#include "command.h"
#include "daemon.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/query.h"

enum { OPT_SOCKET, OPT_JSON };

static const struct option_row options[] = {
    [OPT_SOCKET] = {"socket", "PATH", "the daemon's socket"},
    [OPT_JSON] = {"json", NULL, "one JSON object on stdout"},
    {0},
};

static const char *level_name(uint32_t level)
{
    static const char *const names[PAGE_LEVELS] = {"be", "1", "2", "rt"};

    return level < PAGE_LEVELS ? names[level] : "?";
}

static const char *state_name(const struct client_row *row)
{
    bool working = row->active;

    for (uint32_t i = 0; i < row->devices && i < PAGE_DEVICES; i++)
        working |= row->device[i].counters.in_flight > 0;
    return row->held ? "held" : working ? "active" : "idle";
}

/* "GPU-00010203-0405-...", the way NVIDIA's tools write it. */
static void uuid_text(const uint8_t uuid[16], char out[48])
{
    char *at = out + sprintf(out, "GPU");

    for (int i = 0; i < 16; i++)
        at +=
            sprintf(at, "%s%02x", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", uuid[i]);
}

/* Names come from the processes themselves: any bytes, where a terminal and JSON want text. */
static void printable(char *out, const char *name)
{
    size_t i;

    for (i = 0; i < PAGE_NAME && name[i]; i++)
        out[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
    out[i] = '\0';
}

static json_t *device_json(const struct client_device_row *device)
{
    json_t *counters = json_object(), *held = json_array();
    char uuid[48];

#define ADD_COUNTER(field, help)                                                                   \
    json_object_set_new(counters, #field, json_integer((json_int_t)device->counters.field));
    PAGE_COUNTERS(ADD_COUNTER)
#undef ADD_COUNTER
    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        if (device->held[level])
            json_array_append_new(held, json_string(level_name(level)));
    uuid_text(device->uuid, uuid);
    return json_pack("{s:s, s:b, s:o, s:o}", "uuid", uuid, "active", device->active != 0,
                     "held_levels", held, "counters", counters);
}

static json_t *row_json(const struct client_row *row)
{
    json_t *devices = json_array();
    char name[PAGE_NAME + 1];

    for (uint32_t i = 0; i < row->devices && i < PAGE_DEVICES; i++)
        json_array_append_new(devices, device_json(&row->device[i]));
    printable(name, row->name);
    return json_pack("{s:I, s:i, s:I, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:o}", "id",
                     (json_int_t)row->id, "pid", (int)row->pid, "uid", (json_int_t)row->uid, "name",
                     name, "level", level_name(row->level), "asked", level_name(row->asked),
                     "state", state_name(row), "above", (int)row->above, "below", (int)row->below,
                     "heartbeat_age_ms", (json_int_t)row->heartbeat_age_ms, "devices", devices);
}

static int print_json(const struct client_row *rows, size_t n)
{
    json_t *clients = json_array(), *root;
    int rc;

    for (size_t i = 0; i < n; i++)
        json_array_append_new(clients, row_json(&rows[i]));
    root = json_pack("{s:o}", "clients", clients);
    rc = root && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    putchar('\n');
    json_decref(root);
    return rc;
}

static void print_table(const struct client_row *rows, size_t n)
{
    char name[PAGE_NAME + 1], level[16];

    printf("%8s %6s %-*s %-7s %-6s %12s %9s %10s\n", "PID", "UID", (int)PAGE_NAME, "NAME", "LEVEL",
           "STATE", "SUBMITTED", "HOLDS", "HELD MS");
    for (size_t i = 0; i < n; i++) {
        uint64_t submitted = 0, holds = 0, hold_ns = 0;
        for (uint32_t d = 0; d < rows[i].devices && d < PAGE_DEVICES; d++) {
            submitted += rows[i].device[d].counters.submitted;
            holds += rows[i].device[d].counters.holds;
            hold_ns += rows[i].device[d].counters.hold_ns;
        }
        printable(name, rows[i].name);
        snprintf(level, sizeof(level), rows[i].asked == rows[i].level ? "%s" : "%s (%s)",
                 level_name(rows[i].level), level_name(rows[i].asked));
        printf("%8" PRId32 " %6" PRIu32 " %-*s %-7s %-6s %12" PRIu64 " %9" PRIu64 " %10.1f\n",
               rows[i].pid, rows[i].uid, (int)PAGE_NAME, name, level, state_name(&rows[i]),
               submitted, holds, (double)hold_ns / 1e6);
    }
}

static int fail_query(const char *socket, int rc)
{
    switch (rc) {
    case -ENOENT:
    case -ECONNREFUSED:
        say(&command_list, "no daemon at %s; `cutin run` starts one, or `cutind --socket %s`",
            socket, socket);
        break;
    case -EPROTO:
        say(&command_list, "the daemon at %s is another version; end it and try again", socket);
        break;
    default:
        say(&command_list, "%s: %s", socket, strerror(-rc));
    }
    return EXIT_FAILURE;
}

static int list(int argc, char **argv)
{
    const char *socket = daemon_socket();
    struct client_row *rows = NULL;
    bool json = false;
    size_t n = 0;
    int row, rc;

    while ((row = options_next(&command_list, argc, argv)) != OPTIONS_END) {
        if (row == OPT_SOCKET)
            socket = optarg;
        else
            json = true;
    }
    options_no_operands(&command_list, argc, argv);
    rc = query_clients(socket, &rows, &n);
    if (rc != 0)
        return fail_query(socket, rc);
    if (json) {
        rc = print_json(rows, n);
    } else {
        print_table(rows, n);
        rc = EXIT_SUCCESS;
    }
    free(rows);
    return rc;
}

const struct command command_list = {
    .name = "list",
    .summary = "the processes under cutin on this machine",
    .synopsis = "[--socket PATH] [--json]",
    .about = "LEVEL is followed by the one asked for where that was not granted. STATE is `held` "
             "while a process above holds this one, `active` while it has work on the GPU.",
    .options = options,
    .run = list,
};
