/*
 * terminal.h - a program on a terminal of its own, whose keys a test presses.
 *
 * The program is its session's leader, so Ctrl-C reaches it as it would reach a user's command.
 */
#ifndef CUTIN_TESTS_TERMINAL_H
#define CUTIN_TESTS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TERMINAL_CTRL_C "\003"

struct terminal {
    pid_t pid;
    int fd;
    size_t n;
    char seen[200000];
};

/* `argv` ends with NULL. Aborts the test if the program cannot be started. */
struct terminal *terminal_start(const char *const argv[]);
/* Reads until `word` has come. False: the program has closed its side. */
bool terminal_shows(struct terminal *t, const char *word);
/* The same for a progress of `percent` or more: on a busy machine not every value is shown. */
bool terminal_comes_to(struct terminal *t, int percent);
void terminal_press(struct terminal *t, const char *keys);
/* Reads to the end. Returns the exit status, or 128 + signal. What came stays in `seen`. */
int terminal_wait(struct terminal *t);
void terminal_free(struct terminal *t);

#endif
