/*
 * run.h - runs programs for the command, and checks them before.
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
    bool daemon;                /* start the daemon if none answers */
    bool device_log;            /* `use_files` also gets a file of the simulated GPU's events */
    /* Uses the files, which are then removed. 0; or it failed, and has said why. */
    int (*use_files)(void *user, char *const *files, size_t n);
    void *user;
};

/*
 * Runs `argv` with libcutin.so preloaded, on the simulated driver if asked for, and waits for its
 * end. Each of its processes writes a trace. Signals of the terminal reach the program and do not
 * end the command; others are passed on. A signal cuts the work after its end short (progress.h).
 * Returns the program's exit status as a shell would, also if the program could not be run. That,
 * and any other problem, is one line on stderr. 125: it was not even prepared; 1: it ended with 0,
 * but `use_files` failed.
 */
int child_run(const struct subcommand *cmd, const struct child_plan *plan, char *const argv[]);

/* ---- gates.c -------------------------------------------------------------------------------
 *
 * Whether this machine's GPU honours gates. It is asked once for a driver, its devices and the
 * environment's settings of these, in processes of their own; libcutin.so reads the records. */

/* Asks if nothing is recorded yet, or if `again`. Takes ten seconds at most for each device, and
 * asks no more devices after one that needs longer. Other processes that ask wait meanwhile. Prints
 * nothing, whatever the result. */
void gates_probe(const struct paths *paths, bool sim, bool again);
/* Whether there is a record for this kind of GPU with this very driver (common/record.h). */
bool gates_recorded(const uint8_t key[16], const char *version, struct record *r);

/* ---- image.c: an ELF file on the disk, and how the loader treats it ------------------------- */

struct image {
    const char *bytes;
    size_t size;
    struct stat is;
};

/* Maps a regular file that is not empty. Returns 0 or -errno. */
int image_open(struct image *image, const char *path);
void image_close(struct image *image);

/* Warns on stderr if no library can be preloaded into `program` (looked up as execvp does), or into
 * a script's interpreter: then nothing of it is scheduled. Says nothing if the file cannot be run
 * or read. */
void preload_check(const struct subcommand *cmd, const char *program);

#endif
