/*
 * gpu.c - the example programs and the daemon for integration tests; see gpu.h.
 */
#include "tests/integration/gpu.h"

#include "common/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

const char *daemon_path(void)
{
    return sandbox_path("cutin/cutin.sock");
}

struct process *daemon_start(void)
{
    return daemon_start_by(BIN_DIR "/cutind");
}

struct process *daemon_start_by(const char *program)
{
    struct process *p;

    mkdir(sandbox_path("cutin"), 0700);
    p = process_start((const char *[]){program, "--socket", daemon_path(), NULL}, NULL);
    for (;;) {
        struct message_row *rows = NULL;
        size_t n;

        if (query_clients(daemon_path(), &rows, &n) == 0) {
            free(rows);
            return p;
        }
        cr_assert(process_running(p), "the daemon ended: %s", process_err(p));
        nap();
    }
}

/* Prints what the daemon knows of all clients, after a test has waited in vain. */
static void tell_clients(const struct message_row *rows, size_t n, double waited_s)
{
    fprintf(stderr, "after %.1f s the daemon has %zu clients\n", waited_s, n);
    for (size_t k = 0; k < n; k++) {
        const struct message_row *row = &rows[k];

        fprintf(stderr,
                "  %d %.15s: level %u, state %#x, %s, %s, %u above, %u below, held %llu times\n",
                (int)row->pid, row->name, row->level, row->state,
                row_active(row) ? "active" : "idle", row_held(row) ? "held" : "not held",
                row->above, row->below, (unsigned long long)client_holds(row));
    }
}

bool client_wait(const char *name, bool (*wanted)(const struct message_row *), double seconds,
                 struct message_row *found)
{
    int looks = (int)(seconds * 200) * (seconds >= 10 ? PROCESS_BUSY : 1);
    uint64_t from_ns = clock_ns();

    for (int i = 0; i < looks; i++) {
        struct message_row *rows = NULL;
        size_t n = 0;
        bool got = false;

        if (query_clients(daemon_path(), &rows, &n) != 0)
            n = 0;
        if (i + 1 == looks)
            tell_clients(rows, n, (double)(clock_ns() - from_ns) / 1e9);
        for (size_t k = 0; k < n && !got; k++) {
            /* The kernel cuts thread names to 15 bytes. */
            got = (!name || strncmp(rows[k].name, name, PAGE_NAME - 1) == 0) && wanted(&rows[k]);
            if (got && found)
                *found = rows[k];
        }
        free(rows);
        if (got)
            return true;
        nap();
    }
    return false;
}

bool client_paused(const struct message_row *row)
{
    return (row->state & ROW_PAUSED) && row_held(row);
}

uint64_t client_holds(const struct message_row *row)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < row->devices; i++)
        sum += row->device[i].holds;
    return sum;
}

uint64_t client_submitted(const struct message_row *row)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < row->devices; i++)
        sum += row->device[i].submitted;
    return sum;
}

void undisturbed_checksum(int steps, char checksum[32])
{
    char number[16], id[32];
    struct process *p;

    snprintf(number, sizeof(number), "%d", steps);
    snprintf(id, sizeof(id), "SIMGPU_ID=alone-%s", getenv("SIMGPU_ID"));
    p = process_run((const char *[]){EXAMPLE("be_training"), "--steps", number, "--json", NULL},
                    (const char *[]){SIMULATOR, id, "SIMGPU_LOG", NULL}, 60);
    cr_assert_eq(p->status, 0, "be_training alone: status %d, %s", p->status, process_err(p));
    cr_assert(word_after(process_out(p), "checksum", checksum, 32));
    process_free(p);
}

struct process *training_start(int steps, const char *const env[])
{
    char number[16];

    snprintf(number, sizeof(number), "%d", steps);
    return process_start((const char *[]){CUTIN, "run", "--sim", "--", EXAMPLE("be_training"),
                                          "--steps", number, "--json", NULL},
                         env);
}

struct process *inference_start(const char *rate, const char *kernels)
{
    return process_start((const char *[]){CUTIN, "run", "--sim", "--priority", "rt", "--",
                                          EXAMPLE("rt_inference"), "--rate", rate, "--kernels",
                                          kernels, "--seconds", "3600", "--json", NULL},
                         NULL);
}

const char *rate_with_gaps(void)
{
    return clock_steps() ? "60" : "5";
}

double inference_stop(struct process *p)
{
    process_catches(p, SIGTERM);
    process_signal(p, SIGTERM);
    process_wait(p, 20);
    cr_assert_eq(p->status, 0, "rt_inference: status %d, %s", p->status, process_err(p));
    cr_expect_eq(number_after(process_out(p), "\"wrong\""), 0);
    return number_after(process_out(p), "\"requests\"");
}

void program_silent(struct process *p)
{
    const char *said = process_err(p);

    cr_expect(!*said || strstr(said, "it does not answer"), "%s", said);
}

void training_check(struct process *p, const char *expected, double seconds)
{
    char checksum[32];

    process_wait(p, seconds);
    cr_assert_eq(p->status, 0, "be_training: status %d, %s", p->status, process_err(p));
    cr_assert(word_after(process_out(p), "checksum", checksum, sizeof(checksum)));
    cr_expect_str_eq(checksum, expected);
}

void training_stop(struct process *p)
{
    process_catches(p, SIGTERM);
    process_signal(p, SIGTERM);
    training_done(p, 80);
}

void training_done(struct process *p, double seconds)
{
    char expected[32];
    int steps;

    process_wait(p, seconds);
    steps = (int)number_after(process_out(p), "\"steps\"");
    cr_expect_gt(steps, 0, "be_training: %s%s", process_out(p), process_err(p));
    undisturbed_checksum(steps, expected);
    training_check(p, expected, 0);
}
