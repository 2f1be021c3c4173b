/*
 * paths.c - where the parts of cutin are, lists of paths in environment variables, and folders.
 */
#include "paths.h"
#include "subcommand.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the path of a file into `out` (PATH_MAX bytes). `built` and `installed` are relative to
 * the executable's folder: in the build tree, and where it is installed (NULL: the same). Writes ""
 * if it is at neither. `its_folder`: writes the folder of that name; the file may be a link into
 * another one. */
static void find_file(char *out, const char *folder, const char *built, const char *installed,
                      bool its_folder)
{
    const char *const places[] = {built, installed ? installed : built};
    char candidate[PATH_MAX];

    for (int i = 0; i < 2; i++) {
        int n = snprintf(candidate, sizeof(candidate), "%s/%s", folder, places[i]);
        if (n > 0 && (size_t)n < sizeof(candidate) && access(candidate, R_OK) == 0 &&
            realpath(its_folder ? dirname(candidate) : candidate, out))
            return;
    }
    out[0] = '\0';
}

/* CUTIN_FROM_BIN_LIB comes from the build: it leads from the installed bin folder to the
 * libraries. */
void paths_find(struct paths *paths)
{
    char folder[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", paths->self, sizeof(paths->self) - 1);

    paths->self[n > 0 ? n : 0] = '\0';
    snprintf(folder, sizeof(folder), "%s", paths->self);
    dirname(folder);
    find_file(paths->command, folder, "cutin", NULL, false);
    find_file(paths->daemon, folder, "cutind", NULL, false);
    find_file(paths->library, folder, "../lib/libcutin.so", CUTIN_FROM_BIN_LIB "/libcutin.so",
              false);
    find_file(paths->distance, folder, "../lib/libcutin_distance.so",
              CUTIN_FROM_BIN_LIB "/cutin/libcutin_distance.so", false);
    find_file(paths->simulator, folder, "../lib/simgpu/libcuda.so.1",
              CUTIN_FROM_BIN_LIB "/cutin/simgpu/libcuda.so.1", true);
}

int output_check(const struct subcommand *cmd, const char *file)
{
    char folder[PATH_MAX];
    int rc;

    if (!file || access(file, W_OK) == 0)
        return 0;
    rc = -errno;
    snprintf(folder, sizeof(folder), "%s", file);
    if (rc == -ENOENT)
        rc = access(dirname(folder), W_OK) == 0 ? 0 : -errno;
    if (rc != 0)
        say(cmd, "%s: %s", file, strerror(-rc));
    return rc;
}

int environment_set(const struct variable *rows)
{
    for (; rows->name; rows++)
        if (rows->value && setenv(rows->name, rows->value, 1) != 0)
            return -ENOMEM;
    return 0;
}

/* Puts `value` in front of a colon-separated list, unless it is there already. */
static int environment_prepend(const char *name, const char *value)
{
    const char *old = getenv(name);
    size_t length = strlen(value);
    char *list = NULL;
    int rc;

    old = old ? old : "";
    if (strncmp(old, value, length) == 0 && (old[length] == '\0' || old[length] == ':'))
        return 0;
    if (asprintf(&list, "%s%s%s", value, *old ? ":" : "", old) < 0)
        return -ENOMEM;
    rc = setenv(name, list, 1) == 0 ? 0 : -ENOMEM;
    free(list);
    return rc;
}

int environment_preload(const char *library, const char *simulator)
{
    const char *manager = getenv("SIMGPU_RM");
    char path[PATH_MAX + 32];
    int rc = 0;

    if (!manager) /* some kinds of device have one */
        manager = getenv("SIMGPU_LIKE");
    if (simulator && *simulator) {
        snprintf(path, sizeof(path), "%s/libsimgpu_rm.so", simulator);
        if (manager && strcmp(manager, "off") != 0 && access(path, R_OK) == 0)
            rc = environment_prepend("LD_PRELOAD", path);
        if (rc == 0)
            rc = environment_prepend("LD_LIBRARY_PATH", simulator);
    }
    /* Last, so that it stands in front of the resource manager. */
    return rc == 0 && library && *library ? environment_prepend("LD_PRELOAD", library) : rc;
}

int environment_setup(const struct variable *rows, const char *library, const char *simulator)
{
    int rc = environment_remove_preload();

    if (rc == 0)
        rc = environment_set(rows);
    return rc == 0 ? environment_preload(library, simulator) : rc;
}

int program_exec(const struct subcommand *cmd, char *const argv[])
{
    int error;

    execvp(argv[0], argv);
    error = errno;
    say(cmd, "%s: %s", argv[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int environment_remove_preload(void)
{
    const char *old = getenv("LD_PRELOAD");
    char *list = old ? strdup(old) : NULL, *end = list, *rest;
    int rc;

    if (!list)
        return old ? -ENOMEM : 0;
    /* In place. ld.so accepts both as separators. */
    for (char *path = strtok_r(list, " :", &rest); path; path = strtok_r(NULL, " :", &rest)) {
        const char *slash = strrchr(path, '/');
        size_t length = strlen(path);

        if (strcmp(slash ? slash + 1 : path, "libcutin.so") == 0)
            continue;
        if (end > list)
            *end++ = ':';
        memmove(end, path, length);
        end += length;
    }
    *end = '\0';
    rc = *list ? setenv("LD_PRELOAD", list, 1) : unsetenv("LD_PRELOAD");
    free(list);
    return rc == 0 ? 0 : -ENOMEM;
}

int scratch_make(struct scratch *s, const char *name, size_t most)
{
    const char *tmp = getenv("TMPDIR");
    int rc = 0;

    if (!tmp || !*tmp || strlen(tmp) + strlen(name) + sizeof("/.XXXXXX") > most)
        tmp = "/tmp";
    snprintf(s->folder, sizeof(s->folder), "%s/%s.XXXXXX", tmp, name);
    if (!mkdtemp(s->folder)) {
        rc = -errno;
        s->folder[0] = '\0';
    }
    return rc;
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

char **scratch_list(const struct scratch *s, size_t *count)
{
    struct dirent **entries = NULL;
    int n = scandir(s->folder, &entries, is_file, alphasort);
    char **list = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof(*list));

    *count = 0;
    for (int i = 0; i < n; i++) {
        if (list && asprintf(&list[*count], "%s/%s", s->folder, entries[i]->d_name) > 0)
            ++*count;
        free(entries[i]);
    }
    free(entries);
    if (list)
        list[*count] = NULL;
    return list;
}

void scratch_list_free(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
}

void scratch_remove(struct scratch *s)
{
    size_t n;
    char **list = s->folder[0] ? scratch_list(s, &n) : NULL;

    for (char **at = list; at && *at; at++)
        unlink(*at);
    scratch_list_free(list);
    if (s->folder[0])
        rmdir(s->folder);
    s->folder[0] = '\0';
}
