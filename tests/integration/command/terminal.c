/*
 * terminal.c - a program on a terminal of its own; see terminal.h.
 */
#include "tests/integration/command/terminal.h"

#include <criterion/criterion.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct terminal *terminal_start(const char *const argv[])
{
    struct winsize size = {.ws_row = 24, .ws_col = 150};
    struct terminal *t = calloc(1, sizeof(*t));

    cr_assert_not_null(t);
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    if (t->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    cr_assert_gt(t->pid, 0);
    return t;
}

static bool read_more(struct terminal *t)
{
    ssize_t got;

    if (t->n + 1 >= sizeof(t->seen) ||
        (got = read(t->fd, t->seen + t->n, sizeof(t->seen) - 1 - t->n)) <= 0)
        return false;
    for (ssize_t i = 0; i < got; i++, t->n++) /* strstr would end at a zero byte */
        if (!t->seen[t->n])
            t->seen[t->n] = ' ';
    t->seen[t->n] = '\0';
    return true;
}

bool terminal_shows(struct terminal *t, const char *word)
{
    while (!strstr(t->seen, word))
        if (!read_more(t))
            return false;
    return true;
}

static int progress_of(const char *seen)
{
    int percent = 0;

    while ((seen = strstr(seen, "] ")))
        sscanf(++seen, "%d %%", &percent);
    return percent;
}

bool terminal_comes_to(struct terminal *t, int percent)
{
    while (progress_of(t->seen) < percent)
        if (!read_more(t))
            return false;
    return true;
}

void terminal_press(struct terminal *t, const char *keys)
{
    cr_assert_eq(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

int terminal_wait(struct terminal *t)
{
    int status = 0;

    terminal_shows(t, "no such word");
    cr_assert_eq(waitpid(t->pid, &status, 0), t->pid);
    t->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void terminal_free(struct terminal *t)
{
    if (t->pid > 0) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
    }
    close(t->fd);
    free(t);
}
