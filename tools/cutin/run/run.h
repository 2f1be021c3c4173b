/*
 * run.h - programs that the command runs, and what it looks at before.
 */
#ifndef CUTIN_TOOLS_CUTIN_RUN_RUN_H
#define CUTIN_TOOLS_CUTIN_RUN_RUN_H

#include <sys/stat.h>

#include "tools/cutin/paths.h"
#include "tools/cutin/subcommand.h"
#include "common/record.h"

/* ---- child.c: with its processes traced ---------------------------------------------------- */

struct child_plan {
    const struct variable *set; /* the environment */
    bool sim;                   /* on the simulated GPU */
    bool daemon;                /* one is started where none answers */
    bool device_log;            /* the simulated GPU's events are a file, too */
    /* What becomes of the files, which are gone afterwards. 0, or -errno and it has said why. */
    int (*take)(void *user, char *const *files, size_t n);
    void *user;
};

/*
 * Runs `argv` with libcutin.so preloaded, on the simulated driver if asked for, and waits for its
 * end; every process of it writes a trace. The terminal's signals reach the program and leave the
 * command alone; others are passed on to it. What comes after its end can be cut short
 * (progress.h). Returns its exit status as a shell would, also where it could not be run: that, and
 * what else is wrong, is one line on stderr. 125: not even prepared; 1: it went well, and `take`
 * failed.
 */
int child_run(const struct subcommand *cmd, const struct child_plan *plan, char *const argv[]);

/* ---- gates.c -------------------------------------------------------------------------------
 *
 * Does this machine's GPU honour gates? Asked once for a driver, its devices and what the
 * environment says of them, in processes of their own; libcutin.so goes by the records. */

/* Asks where nothing is recorded yet, or `again`: ten seconds at most for each device, and no more
 * devices after one that is not done then. While it asks, others that want to know wait. Says
 * nothing, whatever comes of it. */
void gates_learn(const struct paths *paths, bool sim, bool again);
/* Is there a record of this kind of GPU with this very driver (common/record.h)? */
bool gates_recorded(const uint8_t key[16], const char *version, struct record *r);

/* ---- image.c: a file of ELF, as it lies on the disk, and what the loader makes of it -------- */

struct image {
    const char *bytes;
    size_t size;
    struct stat is;
};

/* Maps a regular file that is not empty. Returns 0 or -errno. */
int image_open(struct image *image, const char *path);
void image_close(struct image *image);

/* One line on stderr where `program`, looked up as execvp does, is one that no library can be
 * preloaded into, or a script for such a one: nothing of it is scheduled. Nothing where it cannot
 * be run or read. */
void preload_check(const struct subcommand *cmd, const char *program);

#endif
