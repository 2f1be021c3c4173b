/*
 * process.h - child processes of a test: start with an environment, capture the output, wait with a
 * bound, kill by pid.
 *
 * Output goes to memory files, so a child never blocks on a full pipe and the test can look at any
 * time. A child dies with the test that started it. Not thread safe.
 */
#ifndef CUTIN_TESTS_PROCESS_H
#define CUTIN_TESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct process {
    pid_t pid;
    int pidfd;
    int fds[2]; /* memory files for stdout and stderr */
    bool ended;
    int status;    /* exit status, or 128 + signal; PROCESS_TIMEOUT */
    char *text[2]; /* the captured output at the last look */
};

#define PROCESS_TIMEOUT (-1)

/* `argv` and `env` end with NULL. `env` (may be NULL) changes the inherited environment:
 * "NAME=value" sets, "NAME" alone unsets. The program is looked up in PATH. Exit status 127 if it
 * cannot be executed. Aborts the test if no process can be started at all. */
struct process *process_start(const char *const argv[], const char *const env[]);
/* Limits are for what hangs: beside other load a program may take that many times as long. */
enum { PROCESS_BUSY = 8 };

/* Waits for its end; returns its status. A child that takes PROCESS_BUSY times as long as `seconds`
 * is killed, and PROCESS_TIMEOUT returned. */
int process_wait(struct process *p, double seconds);
bool process_running(struct process *p);
/* Waits until `text` is in its stdout or stderr. False: it ended or took far longer. */
bool process_says(struct process *p, const char *text, double seconds);
void process_signal(struct process *p, int signal);
/* Waits until it has a handler for the signal: on a busy machine it may not have one yet, and would
 * die of the signal. False: it ended, or took far longer than it may. */
bool process_catches(struct process *p, int signal);
/* Its output so far; valid until the next call of the same function or process_free. */
const char *process_out(struct process *p);
const char *process_err(struct process *p);
/* It ended with status 1 and printed one line, on stderr, which has these words. */
void process_failed(struct process *p, const char *words);
/* Kills it if it still runs, reaps it and frees. NULL is allowed. */
void process_free(struct process *p);

/* Starts, waits, and returns the finished process. */
struct process *process_run(const char *const argv[], const char *const env[], double seconds);

/* Does the test run on a clock that moves only when no thread can run (cutin_test's STEPPED)? Then
 * everything happens alike in every run, to the nanosecond, and times may be bounded. */
bool clock_steps(void);

/* ---- one test's own world ------------------------------------------------------------------ */

/* A private temporary folder for XDG_RUNTIME_DIR, XDG_CACHE_HOME and TMPDIR, a simulated GPU of its
 * own, and no CUTIN_* or SIMGPU_* variable of the caller's. Each Criterion test is a process, so
 * this changes its own environment. */
void sandbox_enter(void);
/* Removes the folder and the simulated GPU. */
void sandbox_leave(void);
const char *sandbox_folder(void);
/* "FOLDER/name" in a static buffer, valid for eight calls. */
const char *sandbox_path(const char *name);
/* Makes an empty file `name` there, for which a program waits. */
void sandbox_tell(const char *name);

/* The whole file as text, which the caller frees. Fails the test if the file does not exist. */
char *file_text(const char *path);
/* Sleeps, 999 ms at most, where nothing may happen and so there is nothing to wait for. */
void nap_ms(long ms);

/* The number after `key` in `text`, e.g. number_after(out, "p99_us"); NAN if it is missing. */
double number_after(const char *text, const char *key);
/* Copies the word after `key` ("key: word" or "key=word") into `word`. False if it is missing. */
bool word_after(const char *text, const char *key, char *word, size_t size);

#endif
