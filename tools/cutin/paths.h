/*
 * paths.h - where the parts of cutin are, seen from the running executable.
 *
 * The build tree and an installed tree look alike from bin/: the whole tree may be moved, and
 * nothing has to be configured afterwards.
 */
#ifndef CUTIN_TOOLS_CUTIN_PATHS_H
#define CUTIN_TOOLS_CUTIN_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct subcommand;

struct paths {
    char self[PATH_MAX];      /* this executable */
    char command[PATH_MAX];   /* cutin, which the engine runs as its worker; "": there is none */
    char library[PATH_MAX];   /* libcutin.so; "": there is none */
    char distance[PATH_MAX];  /* the laboratory's libcutin_distance.so; "": there is none */
    char daemon[PATH_MAX];    /* cutind; "": there is none */
    char simulator[PATH_MAX]; /* folder of the simulated libcuda.so.1; "": there is none */
};
void paths_find(struct paths *paths);
/* Replaces this process by the program, or says why that fails. Returns the exit status. */
int program_exec(const struct subcommand *cmd, char *const argv[]);

/* Checks that the output file of a command can be written, without changing it. NULL: no file is
 * wanted. Returns 0, or -errno and has said why not. */
int output_check(const struct subcommand *cmd, const char *file);

/* An environment variable; a value of NULL leaves it as it is. */
struct variable {
    const char *name, *value;
};
/* Sets the rows up to the one without a name. Returns 0 or -ENOMEM. */
int environment_set(const struct variable *rows);
/* What is started next has this library preloaded, and finds the simulated driver of this folder
 * (and its resource manager's library, where SIMGPU_RM asks for it). NULL or "": without it.
 * Returns 0 or -ENOMEM. */
int environment_preload(const char *library, const char *simulator);
/* The same for a process of ours: it gets these variables, and no other libcutin.so. */
int environment_setup(const struct variable *rows, const char *library, const char *simulator);
/* Takes every libcutin.so out of LD_PRELOAD. Returns 0 or -ENOMEM. */
int environment_remove_preload(void);

/* A private folder for the files of one command. */
struct scratch {
    char folder[256];
};

/* Makes the folder below $TMPDIR; or below /tmp if that is not set or the path would be longer than
 * `most` bytes. Returns 0 or -errno. */
int scratch_make(struct scratch *s, const char *name, size_t most);
/* Returns the paths of the folder's files, sorted, NULL-terminated. NULL: no memory. */
char **scratch_list(const struct scratch *s, size_t *count);
void scratch_list_free(char **list);
/* Removes the folder and its files. */
void scratch_remove(struct scratch *s);

#endif
