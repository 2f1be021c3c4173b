/*
 * top.c - shows the processes that the daemon knows: `cutin list` what they have done since they
 * began, `cutin top` again and again what they do now.
 *
 * Every figure is a difference of two readings of the daemon's; the processes are not asked.
 * Columns are in clients.c.
 */
#include "clients.h"
#include "tools/cutin/subcommand.h"
#include "tools/cutin/daemon.h"
#include "common/clock.h"
#include "tools/cutin/progress.h"

#include <errno.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double interval = 1;
static bool once, json;

static const struct option_row options[] = {
    DAEMON_SOCKET_OPTION,
    {"interval", "SECONDS", "time between two readings, 0.1 to 3600 (1)",
     TAKE_DECIMAL(interval, 0.1, 3600)},
    {"once", NULL, "print one table on stdout and exit", TAKE_FLAG(once)},
    {"json", NULL, "JSON on stdout, one object per interval and line", TAKE_FLAG(json)},
    {0},
};

static const struct option_row list_options[] = {
    DAEMON_SOCKET_OPTION,
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(json)},
    {0},
};

static int list(const struct subcommand *cmd, int argc, char **argv)
{
    struct clients clients;
    int rc;

    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    rc = query_clients(daemon_socket(), &clients.rows, &clients.n);
    if (rc != 0)
        return say(cmd, "%s", daemon_error(daemon_socket(), rc));
    if (json) {
        rc = print_object(clients_json(&clients, NULL), 0);
    } else if (clients.n == 0) {
        puts("no process runs under cutin");
    } else {
        clients_print(&clients, NULL);
        clients_print_waits(&clients);
    }
    clients_free(&clients);
    return rc;
}

const struct subcommand subcommand_list = {
    .name = "list",
    .elsewhere = "ps",
    .summary = "list the processes under cutin on this machine",
    .synopsis = "[--socket PATH] [--json]",
    .about =
        "Rates, shares and times are averages since each process started; `cutin top` shows "
        "current ones.\n"
        "LEVEL: the granted level, and the requested one in brackets where it differs.\n"
        "STATE: held (by a process above), active (has work on the GPU), idle, paused, stopped, "
        "or\n"
        "stuck (completed nothing for CUTIN_STUCK_MS, and no longer holds others).\n"
        "DEVICE: the first digits of the GPU's UUID, where there are several.\n"
        "HELD%: share of the time in which work waited because it was held.\n"
        "HOLD50, HOLD99: median and p99 hold duration.\n"
        "PRE50, PRE99: median and p99 time from a hold until nothing was in flight.\n"
        "HELD BY: its holder, and for how long. WAITS IN: its kernel that waits for "
        "its own I/O.",
    .options = list_options,
    .run = list,
};

/* Sorts by level, the highest first, then by use of the GPU, the most first. */
static int compare(const void *a, const void *b, void *before)
{
    const struct message_row *x = a, *y = b;
    double f = row_figures_make(x, before).gpu_share, g = row_figures_make(y, before).gpu_share;

    if (x->level != y->level)
        return x->level < y->level ? 1 : -1;
    if (f != g)
        return f < g ? 1 : -1;
    return x->client < y->client ? -1 : 1;
}

static int stream(void)
{
    struct clients before, now;
    int rc = query_clients(daemon_socket(), &before.rows, &before.n);

    while (rc == 0) {
        clock_sleep_us((uint64_t)(interval * 1e6));
        rc = query_clients(daemon_socket(), &now.rows, &now.n);
        if (rc != 0)
            break;
        if (json) {
            rc = print_object(clients_json(&now, &before), once ? 0 : JSON_COMPACT);
        } else {
            if (now.n)
                qsort_r(now.rows, now.n, sizeof(*now.rows), compare, &before);
            clients_print(&now, &before);
            rc = fflush(stdout);
        }
        rc = rc == 0 ? 0 : -EIO; /* the reader has gone */
        clients_free(&before);
        before = now;
        if (once)
            break;
    }
    clients_free(&before);
    return rc == 0 ? EXIT_SUCCESS : say(&subcommand_top, "%s", daemon_error(daemon_socket(), rc));
}

static void draw(struct clients *now, struct clients *before)
{
    uint32_t columns = clients_columns(now, COLS);
    char policy[PAGE_NAME] = "?", clock[32], line[CLIENTS_LINE];
    time_t seconds = time(NULL);
    size_t held = 0;
    struct tm local;

    for (size_t i = 0; i < now->n; i++)
        held += row_held(&now->rows[i]);
    control_policy(daemon_socket(), NULL, policy); /* leaves it, if that fails */
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &local));
    mvprintw(0, 0, "cutin top %s   %zu processes, %zu held   policy %.15s   every %g s   q: quit",
             clock, now->n, held, policy, interval);
    if (now->n)
        qsort_r(now->rows, now->n, sizeof(*now->rows), compare, before);
    clients_line(columns, now, NULL, NULL, line);
    attron(A_REVERSE);
    mvprintw(2, 0, "%-*.*s", COLS, COLS, line);
    attroff(A_REVERSE);
    for (size_t i = 0; i < now->n && (int)i + 3 < LINES; i++) {
        clients_line(columns, now, &now->rows[i], before, line);
        if (row_held(&now->rows[i]))
            attron(A_DIM);
        mvprintw((int)i + 3, 0, "%.*s", COLS, line);
        attroff(A_DIM);
    }
}

static int screen(void)
{
    struct clients before = {0}, now = {0};
    int rc = query_clients(daemon_socket(), &now.rows, &now.n), key;
    SCREEN *terminal;

    if (rc != 0)
        return say(&subcommand_top, "%s", daemon_error(daemon_socket(), rc));
    progress_begin(); /* first, or ncurses would catch signals and exit with 1 */
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal) {
        clients_free(&now);
        return say(&subcommand_top, "the terminal (TERM=%s) is not known here; try --once",
                   getenv("TERM"));
    }
    cbreak();
    noecho();
    curs_set(0);
    do {
        erase();
        /* A daemon that is gone may come back, so the command goes on. */
        if (rc != 0) {
            mvprintw(0, 0, "cutin top: %s does not answer (%s)   q: quit", daemon_socket(),
                     strerror(-rc));
        } else {
            draw(&now, before.rows ? &before : NULL);
            clients_free(&before);
            before = now;
            now = (struct clients){0};
        }
        refresh();
        timeout((int)(interval * 1000));
        key = getch();
        if (key == 'q' || key == 'Q' || key == 27 || progress_cancel)
            break;
        rc = query_clients(daemon_socket(), &now.rows, &now.n);
    } while (true);
    endwin();
    delscreen(terminal);
    clients_free(&before);
    clients_free(&now);
    progress_cancel *= progress_cancel != SIGINT; /* Ctrl-C is one way to leave it */
    return EXIT_SUCCESS;
}

static int top(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    if (once || json)
        return stream();
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return say(cmd, "this is not a terminal; try --once or --json");
    return screen();
}

const struct subcommand subcommand_top = {
    .name = "top",
    .summary = "watch the processes under cutin, full screen",
    .synopsis = "[--socket PATH] [--interval SECONDS] [--once] [--json]",
    .about = "Shows the columns of `cutin list` for the last interval; on a narrow terminal, those "
             "that\n"
             "fit. Press q to quit.",
    .options = options,
    .run = top,
};
