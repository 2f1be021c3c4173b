/*
 * top.c - `cutin top`: what the processes that the daemon knows do now, again and again.
 *
 * Every figure is a difference of two readings of the daemon's; nothing is asked of the processes.
 */
#include "clients.h"
#include "tools/cutin/subcommand.h"
#include "tools/cutin/daemon.h"
#include "tools/cutin/nap.h"
#include "tools/cutin/progress.h"

#include <errno.h>
#include <getopt.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/wire/control.h"

enum { OPT_SOCKET, OPT_INTERVAL, OPT_ONCE, OPT_JSON };

static const struct option_row options[] = {
    [OPT_SOCKET] = {"socket", "PATH", "the daemon's socket"},
    [OPT_INTERVAL] = {"interval", "SECONDS", "time between two readings, 0.1 to 3600 (1)"},
    [OPT_ONCE] = {"once", NULL, "print one table on stdout and exit"},
    [OPT_JSON] = {"json", NULL, "JSON on stdout, one object per interval and line"},
    {0},
};

struct settings {
    const char *socket;
    double interval;
    bool once, json;
};

static void parse(struct settings *s, int argc, char **argv)
{
    int row;

    *s = (struct settings){.socket = daemon_socket(), .interval = 1};
    while ((row = options_next(&subcommand_top, argc, argv)) != OPTIONS_END) {
        switch (row) {
        case OPT_SOCKET:
            s->socket = optarg;
            break;
        case OPT_INTERVAL:
            s->interval = options_decimal(&subcommand_top, row, optarg, 0.1, 3600);
            break;
        case OPT_ONCE:
            s->once = true;
            break;
        case OPT_JSON:
            s->json = true;
            break;
        }
    }
    options_no_operands(&subcommand_top, argc, argv);
}

/* ---- order ---------------------------------------------------------------------------------- */

struct place {
    const struct client_row *row;
    double gpu_share;
};

static int compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->row->level != y->row->level)
        return x->row->level < y->row->level ? 1 : -1;
    if (x->gpu_share != y->gpu_share)
        return x->gpu_share < y->gpu_share ? 1 : -1;
    return x->row->id < y->row->id ? -1 : 1;
}

/* High levels first, then who uses the GPU most. NULL: no memory. */
static struct place *sorted(const struct clients *now, const struct clients *before)
{
    struct place *places = calloc(now->n + 1, sizeof(*places));

    for (size_t i = 0; places && i < now->n; i++) {
        struct activity_figures f;

        clients_figures(&now->rows[i], before, &f);
        places[i] = (struct place){&now->rows[i], f.gpu_share};
    }
    if (places)
        qsort(places, now->n, sizeof(*places), compare);
    return places;
}

/* ---- on stdout ------------------------------------------------------------------------------ */

static int print_json(const struct clients *now, const struct clients *before, size_t flags)
{
    json_t *root = clients_json(now, before);
    int rc = root && json_dumpf(root, stdout, flags) == 0 ? 0 : -ENOMEM;

    putchar('\n');
    json_decref(root);
    return rc == 0 && fflush(stdout) != 0 ? -errno : rc;
}

static int print_table(const struct clients *now, const struct clients *before)
{
    struct place *places = sorted(now, before);
    uint32_t columns = clients_columns(now, CLIENTS_LINE);
    char line[CLIENTS_LINE];

    if (!places)
        return -ENOMEM;
    clients_header(columns, line);
    puts(line);
    for (size_t i = 0; i < now->n; i++) {
        clients_line(columns, places[i].row, before, line);
        puts(line);
    }
    free(places);
    return fflush(stdout) != 0 ? -errno : 0;
}

static int stream(const struct settings *s)
{
    struct clients before = {0}, now = {0};
    int rc = clients_get(s->socket, &before);

    while (rc == 0) {
        nap_us((uint64_t)(s->interval * 1e6));
        rc = clients_get(s->socket, &now);
        if (rc != 0)
            break;
        rc = s->json ? print_json(&now, &before, s->once ? JSON_INDENT(2) : JSON_COMPACT)
                     : print_table(&now, &before);
        clients_free(&before);
        before = now;
        now = (struct clients){0};
        if (s->once)
            break;
    }
    clients_free(&before);
    return rc == 0 ? EXIT_SUCCESS : daemon_failed(&subcommand_top, s->socket, rc);
}

/* ---- on the terminal ------------------------------------------------------------------------ */

static void draw_summary(const struct settings *s, const struct clients *now)
{
    char policy[PAGE_NAME] = "?", clock[32];
    time_t seconds = time(NULL);
    size_t held = 0;
    struct tm local;

    for (size_t i = 0; i < now->n; i++)
        held += now->rows[i].held;
    if (control_policy(s->socket, NULL, policy) != 0)
        snprintf(policy, sizeof(policy), "?");
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &local));
    mvprintw(0, 0, "cutin top %s   %zu processes, %zu held   policy %.15s   every %g s   q: quit",
             clock, now->n, held, policy, s->interval);
}

static void draw_table(const struct clients *now, const struct clients *before)
{
    struct place *places = sorted(now, before);
    uint32_t columns = clients_columns(now, COLS);
    char line[CLIENTS_LINE];

    clients_header(columns, line);
    attron(A_REVERSE);
    mvprintw(2, 0, "%-*.*s", COLS, COLS, line);
    attroff(A_REVERSE);
    for (size_t i = 0; places && i < now->n && (int)i + 3 < LINES; i++) {
        clients_line(columns, places[i].row, before, line);
        if (places[i].row->held)
            attron(A_DIM);
        mvprintw((int)i + 3, 0, "%.*s", COLS, line);
        attroff(A_DIM);
    }
    free(places);
}

/* A daemon that goes may come back: that is no reason to leave. */
static void draw_failure(const struct settings *s, int error)
{
    mvprintw(0, 0, "cutin top: %s does not answer (%s)   q: quit", s->socket, strerror(-error));
}

static void draw(const struct settings *s, const struct clients *now, const struct clients *before,
                 int error)
{
    erase();
    if (error) {
        draw_failure(s, error);
    } else {
        draw_summary(s, now);
        draw_table(now, before);
    }
    refresh();
}

/* Until the interval is over; false: the user wants to leave. */
static bool wait_key(double seconds)
{
    int key;

    timeout((int)(seconds * 1000));
    key = getch();
    return key != 'q' && key != 'Q' && key != 27 && !progress_cancel;
}

static int screen(const struct settings *s)
{
    struct clients before = {0}, now = {0};
    int rc = clients_get(s->socket, &now);
    SCREEN *terminal;

    if (rc != 0)
        return daemon_failed(&subcommand_top, s->socket, rc);
    progress_begin(); /* before ncurses, which exits with 1 */
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal) {
        clients_free(&now);
        say(&subcommand_top, "the terminal (TERM=%s) is not known here; try --once",
            getenv("TERM"));
        return EXIT_FAILURE;
    }
    cbreak();
    noecho();
    curs_set(0);
    do {
        draw(s, &now, before.rows ? &before : NULL, rc);
        if (rc == 0) {
            clients_free(&before);
            before = now;
            now = (struct clients){0};
        }
        if (!wait_key(s->interval))
            break;
        rc = clients_get(s->socket, &now);
    } while (true);
    endwin();
    delscreen(terminal);
    clients_free(&before);
    clients_free(&now);
    progress_cancel *= progress_cancel != SIGINT; /* one way to leave it */
    return EXIT_SUCCESS;
}

static int top(int argc, char **argv)
{
    struct settings s;

    parse(&s, argc, argv);
    if (s.once || s.json)
        return stream(&s);
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        say(&subcommand_top, "this is no terminal; try --once, or --json");
        return EXIT_FAILURE;
    }
    return screen(&s);
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
