/*
 * cut_in.c - cutting in makes no system call: it works under a filter that ends the process at the
 * first one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/place.h"
#include "scheduler/client/client.h"

enum { BELOW = 8, ROUNDS = 10000, DONE = 42 };

/* For the calling thread only. It reports success by exit_group. clock_gettime is a system call
 * only where the vDSO cannot read the machine's clock source. */
static void forbid_system_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(errno == EINVAL || errno == EACCES ? 77 : 1);
}

static void cut_in(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        client_hint_deadline(1000);
        client_work_begin(0, 3);
        client_work_end(0, 3);
    }
}

static void ask_the_kernel(void)
{
    syscall(SYS_getppid);
}

/* Runs `what` in a new real-time process, once `be` is below it. Returns how that ended. */
static int run(const struct place *place, struct actor be[BELOW], void (*what)(void))
{
    struct client_config config = {
        .level = 3, .lowest = 3, .deadline_ms = 5, .socket = place->socket};
    pid_t pid = fork();
    uint8_t uuid[16];
    int status;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(uuid, 1, sizeof(uuid));
        if (client_open(&config) != 0 || client_device(uuid) != 0)
            _exit(1);
        client_work_begin(0, 3);
        for (int i = 0; i < BELOW; i++)
            while (actor_do(&be[i], DO_HOLD, 0, 0) == 0)
                usleep(500);
        client_work_end(0, 3);
        forbid_system_calls();
        what();
        _exit(DONE);
    }
    waitpid(pid, &status, 0);
    return status;
}

Test(cut_in, makes_no_system_call)
{
    struct actor be[BELOW];
    struct place place;
    int status;

    place_new(&place);
    place_start(&place);
    for (int i = 0; i < BELOW; i++) {
        actor_new(&be[i], place.socket);
        cr_assert_eq(actor_do(&be[i], DO_OPEN, 0, 0), 0);
        cr_assert_eq(actor_do(&be[i], DO_DEVICE, 1, 0), 0);
    }
    status = run(&place, be, cut_in);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        cr_skip_test("this kernel has no seccomp filters");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == DONE, "status %x", (unsigned)status);
    for (int i = 0; i < BELOW; i++)
        cr_assert_eq(actor_do(&be[i], DO_HOLD, 0, 0), 0);
    status = run(&place, be, ask_the_kernel);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "the filter bites: %x",
              (unsigned)status);
    for (int i = 0; i < BELOW; i++)
        actor_kill(&be[i]);
    cr_assert(place_free(&place));
}
