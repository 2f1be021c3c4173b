/*
 * releases.c - a library of one release and a daemon of another, or two libraries of two, that talk
 * by the rule of docs/compatibility.md.
 *
 * The other release is the build with deliberate bugs (common/mutant.h), with none of them switched
 * on: what it sends and maps is longer, as a later release's would be. Or it is what
 * RELEASES_DAEMON and RELEASES_LIBRARY name: tools/earlier builds an earlier one.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(releases, .init = sandbox_enter, .fini = sandbox_leave);

static const char *other(const char *name, const char *later)
{
    const char *set = getenv(name);

    return set ? set : later;
}

static bool was_held(const struct message_row *row)
{
    return row->level == 0 && row->above == 1 && client_holds(row) >= 3;
}

static bool is_heavy(const struct message_row *row)
{
    return row->weight == 7;
}

static struct process *start(const char *const argv[], const char *library, const char *level)
{
    char preload[512], socket[256], priority[32];

    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
    snprintf(socket, sizeof(socket), "CUTIN_SOCKET=%s", daemon_path());
    snprintf(priority, sizeof(priority), "CUTIN_PRIORITY=%s", level);
    return process_start(argv, (const char *[]){preload, SIMULATOR, socket, priority, NULL});
}

/* Covers all that passes between processes: identity, levels, pages, bits, figures, orders. */
static void share(const char *daemon_program, const char *above, const char *below)
{
    struct process *daemon, *be, *rt;
    struct message_row row;

    daemon = daemon_start_by(daemon_program);
    rt = start((const char *[]){EXAMPLE("rt_inference"), "--rate", rate_with_gaps(), "--kernels",
                                "70", "--seconds", "3600", "--json", NULL},
               above, "rt");
    be = start((const char *[]){EXAMPLE("be_training"), "--json", NULL}, below, "be");
    cr_assert(client_wait("be_training", was_held, 60, &row), "not held");
    const struct control_target it = {.client = row.client};
    cr_expect_eq(control_order(daemon_path(), it, CONTROL_WEIGHT, 7), 0);
    cr_expect_eq(control_order(daemon_path(), it, CONTROL_BUDGET_US, 500), 0);
    cr_expect(client_wait("be_training", is_heavy, 20, NULL));
    cr_expect_eq(control_order(daemon_path(), it, CONTROL_PAUSE, 0), 0);
    cr_expect(client_wait("be_training", client_paused, 20, NULL), "not paused");
    cr_expect_eq(control_order(daemon_path(), it, CONTROL_RESUME, 0), 0);
    training_stop(be);
    inference_stop(rt);
    if (*process_err(be) || *process_err(rt))
        fprintf(stderr, "the daemon said: %s\n", process_err(daemon));
    program_silent(be);
    program_silent(rt);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

#define DAEMON BIN_DIR "/cutind"

static const char *daemon_of_another(void)
{
    return other("RELEASES_DAEMON", BIN_DIR "/tests/cutind-mutants");
}

static const char *library_of_another(void)
{
    return other("RELEASES_LIBRARY", LIB_DIR "/tests/libcutin-mutants.so");
}

Test(releases, daemon_of_other_release_serves_libraries)
{
    share(daemon_of_another(), LIBRARY, LIBRARY);
}

Test(releases, daemon_serves_libraries_of_other_release)
{
    share(DAEMON, library_of_another(), library_of_another());
}

Test(releases, real_time_holds_best_effort_of_other_release)
{
    share(DAEMON, LIBRARY, library_of_another());
}

Test(releases, real_time_of_other_release_holds_best_effort)
{
    share(DAEMON, library_of_another(), LIBRARY);
}

Test(releases, mixed_libraries_share_daemon_of_other_release)
{
    share(daemon_of_another(), LIBRARY, library_of_another());
    share(daemon_of_another(), library_of_another(), LIBRARY);
}
