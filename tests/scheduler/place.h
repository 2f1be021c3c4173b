/*
 * place.h - a private folder with a socket path and, if wanted, a daemon; and waiting for
 * conditions.
 */
#ifndef TEST_PLACE_H
#define TEST_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct place {
    char folder[64], socket[96], config[96]; /* config: "" = none */
    pid_t daemon;                            /* 0 = none */
};

void place_new(struct place *p);
/* Writes the configuration of the next daemon. */
void place_configure(struct place *p, const char *text);
/* Starts a daemon and waits until it listens. */
void place_start(struct place *p);
/* The same, with a pipe for what the daemon logs. Returns the end to read, which does not wait. */
int place_start_logged(struct place *p);
/* How often the text stands in what was logged since the last call. */
uint32_t place_logged(int log, const char *with);
/* A daemon that no process asks ends after so long: longer than a busy machine delays those that
 * will ask. */
#define PLACE_IDLE_S "3"
/* SIGKILL, and waits for the process to be gone. */
void place_kill(struct place *p);
/* SIGTERM; returns the exit status. */
int place_stop(struct place *p);
/* Ends the daemon, if any, and removes the folder. False: something is left in it, so it stays. */
bool place_free(struct place *p);
/* Starts a daemon with these arguments. It ends with the test at the latest. */
pid_t place_spawn(char *const argv[]);
/* Runs the daemon's program with these arguments to its end. Returns the exit status; `errors` gets
 * stderr. */
int place_run(char *errors, size_t size, char *const argv[]);

/* Starts a process of that user, which asks the daemon so often, and stays until it is killed. */
pid_t place_asker(const struct place *p, uid_t uid, int times);
/* Waits until two daemons that no process asks, started one after the other, have ended by
 * themselves after a second. A daemon that has not ended by then is needed by a process. */
void place_outlast(const struct place *p);
/* The number at place `at`, from 0, in a file of the daemon's in /proc (proc(5)). */
unsigned long place_proc(const struct place *p, const char *file, int at);

/* Makes a cgroup that has that file, below the first one that is mounted for writing. */
enum { PLACE_CGROUP = 560 };
bool place_cgroup(char folder[PLACE_CGROUP], const char *file);
void place_enter(const char *cgroup, pid_t pid);

uint64_t now_ms(void);
enum { PATIENCE_MS = 120000 }; /* only what never comes takes so long */
/* Waits for a condition; fails the test if it never comes. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t deadline_ = now_ms() + PATIENCE_MS;                                               \
        bool came_;                                                                                \
        while (!(came_ = (condition)) && now_ms() < deadline_)                                     \
            usleep(500);                                                                           \
        cr_assert(came_, "never came true: " #condition);                                          \
    } while (0)

#endif
