/*
 * pinned.c - a process as under `chrt -f 50 taskset -c 0` spins, and its holds stay: the library's
 * own threads run on other processors.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/place.h"
#include "common/clock.h"

#define SPINNER BIN_DIR "/tests/test_spinner"

enum { SPIN_MS = 2500 }; /* the daemon ends the holds of a process that is silent for 1 s */

/* Does what chrt and taskset do. 77: it is not allowed here. */
static void become_pinned(void)
{
    struct sched_param priority = {.sched_priority = 50};
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof(first), &first) != 0 ||
        sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
        _exit(77);
}

static pid_t spinner_start(const struct place *place, int *in, int *out)
{
    char ms[16];
    int ends[2], go[2];
    pid_t pid;

    snprintf(ms, sizeof(ms), "%d", SPIN_MS);
    cr_assert(pipe(ends) == 0 && pipe(go) == 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(go[0], STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        close(go[0]);
        close(go[1]);
        close(ends[0]);
        close(ends[1]);
        become_pinned();
        execl(SPINNER, SPINNER, place->socket, ms, (char *)NULL);
        _exit(127);
    }
    close(go[0]);
    close(ends[1]);
    *in = go[1];
    *out = ends[0];
    return pid;
}

Test(pinned, spinning_realtime_process_keeps_its_holds)
{
    struct place place;
    struct actor be;
    int in, out, status, looks = 0, open = 0;
    cpu_set_t may_use;
    uint64_t end;
    pid_t pid;

    if (sched_getaffinity(0, sizeof(may_use), &may_use) != 0 || CPU_COUNT(&may_use) < 2)
        cr_skip_test("one processor: nothing else runs while real time spins");
    place_new(&place);
    place_start(&place);
    actor_new(&be, place.socket);
    cr_assert_eq(actor_do(&be, DO_OPEN, 0, 0), 0);
    cr_assert_eq(actor_do(&be, DO_DEVICE, 1, 0), 0);
    pid = spinner_start(&place, &in, &out);
    if (read(out, &end, sizeof(end)) == sizeof(end)) {
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
        cr_assert_eq(write(in, "", 1), 1);
        cr_assert_eq(read(out, &end, sizeof(end)), sizeof(end));
        /* This process may have to wait a second behind the spinner, until the kernel's own
         * bound. */
        for (;; looks++, usleep(2000)) {
            bool opened = actor_do(&be, DO_HOLD, 0, 0) == 0;
            if (clock_ns() >= end)
                break;
            open += opened;
        }
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    actor_kill(&be);
    close(in);
    close(out);
    cr_assert(place_free(&place));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        cr_skip_test("real-time scheduling classes are not allowed here");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    cr_assert_gt(looks, 2);
    cr_assert_eq(open, 0, "open at %d of %d looks", open, looks);
}
