/*
 * machine.c - which daemon serves a user of a machine that has one for all: the machine's, even if
 * the user's login session has a folder of its own for sockets. Runs in namespaces with another
 * /run, whose processes end with them.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/machine_socket.h"

TestSuite(machine, .init = sandbox_enter, .fini = sandbox_leave);

/* Returns the output of `body`, which may use `found FOLDER` (where `cutin run` has a program look
 * for the daemon), `daemon` (starts one with process id $one) and `list FOLDER` (`cutin list`). */
static const char *prints(const char *body, struct process **p)
{
    char script[4096];

    snprintf(script, sizeof(script),
             "mount -t tmpfs none /run && mkdir -p /run/cutin /run/user/0 /run/mine || exit 77\n"
             "unset CUTIN_SOCKET\n"
             "list() { XDG_RUNTIME_DIR=$1 %s list 2>&1; }\n"
             "found() { XDG_RUNTIME_DIR=$1 %s run --sim -- sh -c 'echo $CUTIN_SOCKET'; }\n"
             "daemon() {\n"
             "    %s/cutind --socket " MACHINE_SOCKET " 2>/dev/null & one=$!\n"
             "    until %s list --socket " MACHINE_SOCKET " >/dev/null 2>&1; do sleep 0.01; done\n"
             "}\n"
             "%s",
             CUTIN, CUTIN, BIN_DIR, CUTIN, body);
    *p = process_run((const char *[]){"unshare", "--user", "--map-root-user", "--mount", "--net",
                                      "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                      script, NULL},
                     NULL, 60);
    if (strncmp(process_err(*p), "unshare: ", 9) == 0 || (*p)->status == 77)
        cr_skip("no /run of one's own can be made here: %s", process_err(*p));
    cr_assert_eq((*p)->status, 0, "%s%s", process_out(*p), process_err(*p));
    return process_out(*p);
}

Test(machine, daemon_is_preferred_to_session_folder)
{
    struct process *p;

    cr_expect_str_eq(prints("daemon; found /run/user/0", &p), MACHINE_SOCKET "\n");
    process_free(p);
}

/* sudo may keep the folder of the user who called it. */
Test(machine, daemon_is_preferred_to_folder_of_other_session)
{
    struct process *p;

    cr_expect_str_eq(prints("daemon; found /run/user/1", &p), MACHINE_SOCKET "\n");
    process_free(p);
}

Test(machine, login_session_uses_own_socket_without_daemon)
{
    struct process *p;

    cr_expect_not_null(
        strstr(prints("list /run/user/0; true", &p), "no daemon at /run/user/0/cutin/cutin.sock"),
        "%s", process_out(p));
    process_free(p);
}

Test(machine, explicit_runtime_folder_overrides_daemon)
{
    struct process *p;

    cr_expect_not_null(strstr(prints("daemon; list /run/mine; true", &p),
                              "no daemon at /run/mine/cutin/cutin.sock"),
                       "%s", process_out(p));
    process_free(p);
}

Test(machine, stale_socket_of_killed_daemon_is_ignored)
{
    struct process *p;

    cr_expect_str_eq(prints("daemon; kill -9 $one; wait $one 2>/dev/null\n"
                            "test -S " MACHINE_SOCKET " && found /run/user/0",
                            &p),
                     "/run/user/0/cutin/cutin.sock\n");
    process_free(p);
}

/* Two users may have one each. */
Test(machine, doctor_reports_second_daemon)
{
    struct process *p;

    cr_expect_not_null(strstr(prints("daemon\n"
                                     "mkdir -p /run/user/1/cutin\n" BIN_DIR
                                     "/cutind --socket /run/user/1/cutin/cutin.sock 2>/dev/null &\n"
                                     "until " CUTIN " list --socket /run/user/1/cutin/cutin.sock\n"
                                     "do sleep 0.01; done >/dev/null 2>&1\n"
                                     "XDG_RUNTIME_DIR=/run/user/0 " CUTIN " doctor; true",
                                     &p),
                              "another daemon answers at /run/user/1/cutin/cutin.sock"),
                       "%s", process_out(p));
    process_free(p);
}

/* The library is preloaded by hand. */
Test(machine, preloaded_library_connects_to_daemon)
{
    struct process *p;

    cr_expect_not_null(
        strstr(prints("daemon\n"
                      "XDG_RUNTIME_DIR=/run/user/0 " SIMULATOR " " PRELOAD
                      " " EXAMPLE("be_training") " --steps 0 >/dev/null &\n"
                                                 "for i in $(seq 1000); do\n"
                                                 "    XDG_RUNTIME_DIR=/run/user/0 " CUTIN
                                                 " list | grep be_training && break\n"
                                                 "    sleep 0.02\n"
                                                 "done\n"
                                                 "true",
                      &p),
               "be_training"),
        "%s%s", process_out(p), process_err(p));
    process_free(p);
}
