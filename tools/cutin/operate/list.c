/*
 * list.c - `cutin list`: the processes that the daemon knows.
 */
#include "clients.h"
#include "tools/cutin/subcommand.h"
#include "tools/cutin/daemon.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPT_SOCKET, OPT_JSON };

static const struct option_row options[] = {
    [OPT_SOCKET] = {"socket", "PATH", "the daemon's socket"},
    [OPT_JSON] = {"json", NULL, "one JSON object on stdout"},
    {0},
};

static int print_json(const struct clients *clients)
{
    json_t *root = clients_json(clients, NULL);
    int rc = root && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;

    putchar('\n');
    json_decref(root);
    return rc;
}

static void print_line(const char *line)
{
    puts(line);
}

static int print_table(const struct clients *clients)
{
    char line[CLIENTS_LINE];
    uint32_t columns;

    if (clients->n == 0) {
        puts("no process runs under cutin");
        return EXIT_SUCCESS;
    }
    columns = clients_columns(clients, CLIENTS_LINE);
    clients_header(columns, line);
    puts(line);
    for (size_t i = 0; i < clients->n; i++) {
        clients_line(columns, &clients->rows[i], NULL, line);
        puts(line);
    }
    clients_waits(clients, print_line);
    return EXIT_SUCCESS;
}

static int list(int argc, char **argv)
{
    const char *socket = daemon_socket();
    struct clients clients;
    bool json = false;
    int row, rc;

    while ((row = options_next(&subcommand_list, argc, argv)) != OPTIONS_END) {
        if (row == OPT_SOCKET)
            socket = optarg;
        else
            json = true;
    }
    options_no_operands(&subcommand_list, argc, argv);
    rc = clients_get(socket, &clients);
    if (rc != 0)
        return daemon_failed(&subcommand_list, socket, rc);
    rc = json ? print_json(&clients) : print_table(&clients);
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
