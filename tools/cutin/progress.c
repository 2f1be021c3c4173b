/*
 * progress.c - a line of progress (see progress.h).
 */
#include "progress.h"

#include <stdio.h>

#include "common/clock.h"

enum { BAR = 30, QUIET_NS = 1000000000, EVERY_NS = 100000000, WIDTH = 78 };

volatile sig_atomic_t progress_cancel;

static uint64_t began_ns, shown_ns;
static bool on_terminal, visible;

static void on_signal(int number)
{
    progress_cancel = number;
}

void progress_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    on_terminal = isatty(STDERR_FILENO) != 0;
    began_ns = clock_ns();
    shown_ns = 0;
    visible = false;
}

/* "[####......]  40 %  6 s left", or "12 s". */
void progress_show(double done, double total, const char *what)
{
    uint64_t at_ns = clock_ns();
    double took_s = (double)(at_ns - began_ns) / 1e9, part = done > total ? 1 : done / total;
    char left[32] = "";

    if (!on_terminal || at_ns - began_ns < QUIET_NS || at_ns - shown_ns < EVERY_NS)
        return;
    if (part > 0.02)
        snprintf(left, sizeof(left), "%.0f s left", took_s / part - took_s);
    if (total <= 0)
        fprintf(stderr, "\r%3.0f s  %-24.24s", took_s, what);
    else
        fprintf(stderr, "\r[%.*s%.*s] %3.0f %%  %-10s %-24.24s", (int)(part * BAR),
                "##############################", BAR - (int)(part * BAR),
                "..............................", part * 100, left, what);
    shown_ns = at_ns;
    visible = true;
}

void progress_end(void)
{
    if (visible)
        fprintf(stderr, "\r%*s\r", WIDTH, "");
    visible = false;
}
