/*
 * cdi.c - `cutin cdi` prints a specification that container engines read: each device is a level,
 * and gets the library and the daemon's socket.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CUTIN BIN_DIR "/cutin"

TestSuite(cdi, .init = sandbox_enter, .fini = sandbox_leave);

static json_t *specification(const char *const argv[])
{
    struct process *p = process_run(argv, NULL, 30);
    json_error_t error;
    json_t *root = json_loads(process_out(p), JSON_REJECT_DUPLICATES, &error);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_assert_str_eq(process_err(p), "");
    cr_assert_not_null(root, "%s", error.text);
    process_free(p);
    return root;
}

static void mounted(const json_t *mounts, size_t index, const char *from, const char *to)
{
    const char *host, *inside, *first;
    json_error_t error;

    cr_assert_eq(json_unpack_ex(json_array_get(mounts, index), &error, JSON_STRICT,
                                "{s:s, s:s, s:[s, s, s, s]}", "hostPath", &host, "containerPath",
                                &inside, "options", &first, &(const char *){0}, &(const char *){0},
                                &(const char *){0}),
                 0, "%s", error.text);
    cr_expect_str_eq(host, from);
    cr_expect_str_eq(inside, to);
    cr_expect_str_eq(first, "ro");
}

Test(cdi, has_a_device_for_each_level)
{
    static const char *const levels[] = {"be", "1", "2", "rt"};
    json_t *root = specification((const char *[]){CUTIN, "cdi", NULL}), *devices;
    const char *version, *kind, *name, *level;
    char expected[32];
    json_error_t error;

    cr_assert_eq(json_unpack_ex(root, &error, JSON_STRICT, "{s:s, s:s, s:o, s:o}", "cdiVersion",
                                &version, "kind", &kind, "containerEdits", &(json_t *){0},
                                "devices", &devices),
                 0, "%s", error.text);
    cr_expect_str_eq(version, "0.5.0");
    cr_expect_str_eq(kind, "cutin.dev/level");
    cr_assert_eq(json_array_size(devices), 4);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(json_unpack_ex(json_array_get(devices, i), &error, JSON_STRICT,
                                    "{s:s, s:{s:[s]}}", "name", &name, "containerEdits", "env",
                                    &level),
                     0, "%s", error.text);
        snprintf(expected, sizeof(expected), "CUTIN_PRIORITY=%s", levels[i]);
        cr_expect_str_eq(name, levels[i]);
        cr_expect_str_eq(level, expected);
    }
    json_decref(root);
}

/* The library exists on this machine, and is mounted to the path that is preloaded. */
Test(cdi, every_container_has_library_and_socket)
{
    json_t *root = specification((const char *[]){CUTIN, "cdi", NULL}), *mounts;
    const char *preload, *socket, *library;
    struct stat st;

    cr_assert_eq(json_unpack(root, "{s:{s:[s, s !], s:o !}}", "containerEdits", "env", &preload,
                             &socket, "mounts", &mounts),
                 0);
    cr_expect_str_eq(preload, "LD_PRELOAD=/usr/lib/cutin/libcutin.so");
    cr_expect_str_eq(socket, "CUTIN_SOCKET=/run/cutin/cutin.sock");
    cr_assert_eq(json_array_size(mounts), 2);
    cr_assert_eq(json_unpack(json_array_get(mounts, 0), "{s:s}", "hostPath", &library), 0);
    cr_expect(stat(library, &st) == 0 && S_ISREG(st.st_mode));
    mounted(mounts, 0, library, "/usr/lib/cutin/libcutin.so");
    mounted(mounts, 1, "/run/cutin", "/run/cutin");
    json_decref(root);
}

Test(cdi, options_set_library_and_socket_paths)
{
    json_t *root = specification((const char *[]){CUTIN, "cdi", "--socket", "/run/user/7/here/s",
                                                  "--library", "/opt/there/libcutin.so", NULL});
    const char *socket;
    json_t *mounts;

    cr_assert_eq(json_unpack(root, "{s:{s:[s, s], s:o}}", "containerEdits", "env",
                             &(const char *){0}, &socket, "mounts", &mounts),
                 0);
    cr_expect_str_eq(socket, "CUTIN_SOCKET=/run/cutin/s");
    mounted(mounts, 0, "/opt/there/libcutin.so", "/usr/lib/cutin/libcutin.so");
    mounted(mounts, 1, "/run/user/7/here", "/run/cutin");
    json_decref(root);
}
