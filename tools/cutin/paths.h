/*
 * paths.h - where the parts of cutin lie, seen from the running executable.
 *
 * The build tree and an installed tree look alike from bin/: the command moves with its folder, and
 * nothing has to be configured after the move.
 */
#ifndef CUTIN_TOOLS_CUTIN_PATHS_H
#define CUTIN_TOOLS_CUTIN_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct subcommand;

struct paths {
    char self[PATH_MAX];      /* this executable */
    char command[PATH_MAX];   /* cutin, "" where there is none: the engine runs it as its worker */
    char library[PATH_MAX];   /* libcutin.so, "" where there is none */
    char distance[PATH_MAX];  /* the laboratory's libcutin_distance.so, "" where there is none */
    char daemon[PATH_MAX];    /* cutind, "" where there is none */
    char simulator[PATH_MAX]; /* folder of the simulated libcuda.so.1, "" where there is none */
};
void paths_find(struct paths *paths);
/* Becomes the program, or says why not. Returns the exit status. */
int program_become(const struct subcommand *cmd, char *const argv[]);

/* Can the file be written that a command is to leave (NULL: none)? It stays as it is. Returns 0, or
 * -errno and has said why not. */
int output_check(const struct subcommand *cmd, const char *file);

/* An environment variable; a value of NULL leaves it as it is. */
struct variable {
    const char *name, *value;
};
/* Up to the row without a name. 0 or -ENOMEM. */
int environment_set(const struct variable *rows);
/* The simulated driver of this folder is the one that programs find, and its resource manager, if
 * SIMGPU_RM asks for one, stands behind what is preloaded. Before libcutin.so is put in front.
 * Returns 0 or -ENOMEM. */
int environment_simulate(const char *folder);
/* What is started next runs on the simulated driver of this folder, with this library in front;
 * NULL or "": without. 0 or -ENOMEM. */
int environment_under(const char *library, const char *simulator);
/* The same for a process of ours, which has these variables and no other libcutin.so. */
int environment_of(const struct variable *rows, const char *library, const char *simulator);
/* Take every library whose file name is `file` out of LD_PRELOAD. Returns 0 or -ENOMEM. */
int environment_remove_preload(const char *file);

/* ---- scratch.c: a private folder for the files of one command ------------------------------ */
struct scratch {
    char folder[256];
};

/* Below $TMPDIR, or /tmp where that is not set or its path would have more than `most` bytes. 0 or
 * -errno. */
int scratch_make(struct scratch *s, const char *name, size_t most);
/* Paths of the folder's files, sorted, NULL-terminated; NULL: no memory. */
char **scratch_list(const struct scratch *s, size_t *count);
void scratch_list_free(char **list);
/* The folder and its files are gone afterwards. */
void scratch_remove(struct scratch *s);

#endif
