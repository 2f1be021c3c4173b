/*
 * list.c - `cutin list`: the processes that the daemon knows.
 */
#include "clients.h"
#include "tools/cutin/subcommand.h"
#include "tools/cutin/daemon.h"

#include <stdio.h>

static const char *socket_path;
static bool json;

static const struct option_row options[] = {
    {"socket", "PATH", "the daemon's socket", TAKE_TEXT(socket_path)},
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(json)},
    {0},
};

static int list(int argc, char **argv)
{
    struct clients clients;
    int rc;

    socket_path = daemon_socket();
    options_read(&subcommand_list, argc, argv);
    options_no_operands(&subcommand_list, argc, argv);
    rc = clients_get(socket_path, &clients);
    if (rc != 0)
        return daemon_failed(&subcommand_list, socket_path, rc);
    if (json) {
        rc = print_object(clients_json(&clients, NULL), 0);
    } else if (clients.n == 0) {
        puts("no process runs under cutin");
    } else {
        clients_print(&clients, NULL);
        clients_waits(&clients);
    }
    clients_free(&clients);
    return rc;
}

const struct subcommand subcommand_list = {
    .name = "list",
    .summary = "list the processes under cutin on this machine",
    .synopsis = "[--socket PATH] [--json]",
    .about =
        "Rates, shares and times are averages since each process started; `cutin top` shows "
        "current ones.\n"
        "LEVEL: the granted level, and the requested one in brackets where it differs.\n"
        "STATE: held (by a process above), active (has work on the GPU), idle, paused, stopped, "
        "or\n"
        "stuck (completed nothing for CUTIN_STUCK_MS, and holds nobody any more).\n"
        "DEVICE: the first digits of the GPU's UUID, where there are several.\n"
        "HOLD50, HOLD99: median and p99 hold duration.\n"
        "PRE50, PRE99: median and p99 time from a hold until nothing was in flight.\n"
        "HELD BY: who has held it for how long. WAITS IN: its kernel that waits for its own I/O.",
    .options = options,
    .run = list,
};
