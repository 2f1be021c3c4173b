/*
 * progress.c - a line of progress (see progress.h).
 */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 30 };

volatile sig_atomic_t progress_cancel;
static double began_s, shown_s;
static bool on_terminal, visible;

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_signal(int number)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};

    progress_cancel = 1;
    sigaction(number, &usual, NULL);
}

void progress_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    on_terminal = isatty(STDERR_FILENO) != 0;
    began_s = now_s();
    shown_s = 0;
    visible = false;
}

void progress_show(double done, double total, const char *what)
{
    double now = now_s(), part = total > 0 ? done / total : 0, took = now - began_s;
    char bar[BAR + 1], left[32] = "";
    int full;

    if (!on_terminal || took < 1 || now - shown_s < 0.1)
        return;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    full = (int)(part * BAR);
    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(BAR - full));
    bar[BAR] = '\0';
    if (part > 0.02)
        snprintf(left, sizeof(left), "%.0f s left", took / part - took);
    fprintf(stderr, "\r[%s] %3.0f %%  %-10s %-24.24s", bar, part * 100, left, what);
    shown_s = now;
    visible = true;
}

void progress_end(void)
{
    if (visible)
        fprintf(stderr, "\r%*s\r", BAR + 48, "");
    visible = false;
}
