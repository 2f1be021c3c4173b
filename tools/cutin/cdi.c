/*
 * cdi.c - `cutin cdi`: prints what makes container engines put containers under cutin.
 *
 * In the Container Device Interface a level is a device. As `cutin run` for a program, it preloads
 * the library, and sets the daemon's socket and the level.
 */
#include "subcommand.h"
#include "paths.h"

#include <getopt.h>
#include <jansson.h>

#include "common/level.h"
#include "common/machine_socket.h"

/* The paths in a container, wherever this machine has the files. */
#define LIBRARY_INSIDE "/usr/lib/cutin/libcutin.so"
#define FOLDER_INSIDE  "/run/cutin"

static const char *socket_path = MACHINE_SOCKET, *library;

/* Takes a file in a folder below the root: it is the folder that is mounted. */
static void take_path(const struct subcommand *cmd, int row, void *at)
{
    const char *path = optarg;

    if (path[0] != '/' || strrchr(path, '/') == path || path[strlen(path) - 1] == '/')
        fail_usage(cmd, "--%s needs the absolute path of a file, not %s", cmd->options[row].name,
                   path);
    *(const char **)at = path;
}

static const struct option_row options[] = {
    {"socket", "PATH", "the daemon's socket (/run/cutin/cutin.sock)",
     TAKE_BY(take_path, socket_path)},
    {"library", "PATH",
     "libcutin.so on the machine that runs the containers (the one\n"
     "beside this command)",
     TAKE_BY(take_path, library)},
    {0},
};

/* The mount is read-only in the container; a socket works all the same. */
static json_t *bind_mount(const char *on_machine, size_t length, const char *inside)
{
    return json_pack("{s:s%, s:s, s:[s, s, s, s]}", "hostPath", on_machine, length, "containerPath",
                     inside, "options", "ro", "nosuid", "nodev", "bind");
}

/* Version 0.5.0 is the first in which a device's name may begin with a digit. The folder of the
 * socket is mounted, because a daemon that starts again replaces the socket. */
static int cdi(const struct subcommand *cmd, int argc, char **argv)
{
    static struct paths paths;
    const char *name;
    json_t *devices, *root;

    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    paths_find(&paths);
    if (!library)
        library = paths.library;
    if (!library[0])
        return say(cmd, "libcutin.so is not installed beside cutin; give its path with --library");
    name = strrchr(socket_path, '/') + 1;
    devices = json_array();
    for (uint32_t level = 0; level < CUTIN_LEVELS; level++)
        json_array_append_new(devices, json_pack("{s:s, s:{s:[s+]}}", "name", level_name(level),
                                                 "containerEdits", "env",
                                                 "CUTIN_PRIORITY=", level_name(level)));
    root = json_pack("{s:s, s:s, s:{s:[s+, s++], s:[o, o]}, s:o}", "cdiVersion", "0.5.0", "kind",
                     "cutin.dev/level", "containerEdits", "env", "LD_PRELOAD=", LIBRARY_INSIDE,
                     "CUTIN_SOCKET=", FOLDER_INSIDE "/", name, "mounts",
                     bind_mount(library, strlen(library), LIBRARY_INSIDE),
                     bind_mount(socket_path, (size_t)(name - 1 - socket_path), FOLDER_INSIDE),
                     "devices", devices);
    return print_object(root, 0);
}

const struct subcommand subcommand_cdi = {
    .name = "cdi",
    .summary = "print what container engines need to run containers under cutin",
    .synopsis = "[--socket PATH] [--library PATH]",
    .about =
        "Prints a Container Device Interface specification. Save it as /etc/cdi/cutin.json, and\n"
        "podman, Docker, containerd and CRI-O accept\n"
        "  podman run --device cutin.dev/level=LEVEL ...\n"
        "where LEVEL is be, 1, 2 or rt. The container needs glibc; cutind.conf(5) says which\n"
        "level it gets.",
    .options = options,
    .run = cdi,
};
