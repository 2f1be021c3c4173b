/*
 * hold.c - a hold that does not end is reported, with the names of both. When: see long_hold.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/query.h"

static struct place place;
static struct actor rt, be;
static int log_fd;

static void set_up(void)
{
    place_new(&place);
    place_configure(&place, "[policy]\nhold_warning_s = 1\n");
}

static void tear_down(void)
{
    actor_kill(&rt);
    actor_kill(&be);
    cr_assert(place_free(&place));
}

TestSuite(hold, .init = set_up, .fini = tear_down);

/* Starts a daemon whose messages this test reads, and a client that may hold another one. */
static void start(void)
{
    int mine = dup(STDERR_FILENO);

    log_fd = memfd_create("stderr", MFD_CLOEXEC);
    dup2(log_fd, STDERR_FILENO);
    place_start(&place);
    dup2(mine, STDERR_FILENO);
    close(mine);
    actor_new(&rt, place.socket);
    actor_new(&be, place.socket);
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(&be, DO_OPEN, 0, 0), 0);
    actor_do(&rt, DO_DEVICE, 1, 0);
    actor_do(&be, DO_DEVICE, 1, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
}

/* How many lines of the daemon name the process that waits, and the one that holds it. */
static int said_of(const char *by)
{
    static char text[65536];
    char held[64];
    int n = 0;
    ssize_t size = pread(log_fd, text, sizeof(text) - 1, 0);

    text[size > 0 ? size : 0] = '\0';
    snprintf(held, sizeof(held), "process %d (%.15s): work has waited for", (int)be.pid,
             program_invocation_short_name);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        n += strstr(line, held) && strstr(line, by);
    return n;
}

static int said(void)
{
    char holder[64];

    snprintf(holder, sizeof(holder), "held by process %d (%.15s)", (int)rt.pid,
             program_invocation_short_name);
    return said_of(holder);
}

/* The holders of its first device, in the row that was read last. */
static uint32_t holders;
static int32_t holder[PAGE_CLIENT_BITS];

static struct message_row be_row(void)
{
    struct message_row *rows, row;
    size_t n;

    cr_assert_eq(query_clients(place.socket, &rows, &n), 0);
    cr_assert_eq(n, 2);
    row = rows[rows[1].pid == be.pid];
    holders = row_holders(&row, 0, rows, n, holder);
    free(rows);
    return row;
}

Test(hold, long_wait_is_logged_with_both_processes)
{
    struct message_row row;

    start();
    actor_do(&be, DO_WAITING, 0, 3);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(said() == 1);
    row = be_row();
    cr_assert(holders == 1 && holder[0] == rt.pid);
    cr_assert_geq(row.device[0].held_for_ns, 1000000000u);
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL((row = be_row(), holders == 0));
    cr_assert_eq(row.device[0].held_for_ns, 0);
}

/* No hold of either process is long. */
Test(hold, long_wait_under_alternating_holders_is_logged)
{
    static struct actor second;
    int i = 0;

    start();
    actor_new(&second, place.socket);
    cr_assert_eq(actor_do(&second, DO_OPEN, 3, 3), 0);
    actor_do(&second, DO_DEVICE, 1, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 2);
    actor_do(&be, DO_WAITING, 0, 3);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    for (uint64_t end = now_ms() + PATIENCE_MS; said_of("held by") == 0 && now_ms() < end; i++) {
        actor_do(i % 2 ? &rt : &second, DO_ACTIVE, 0, 3);
        actor_do(i % 2 ? &second : &rt, DO_IDLE, 0, 3);
    }
    cr_assert_eq(said_of("held by"), 1, "after %d turns", i);
    actor_kill(&second);
}

/* What `cutin list` prints then. */
Test(hold, is_shown_by_cutin_list_with_holder_and_time)
{
    char text[65536], expected[64], *held;
    size_t size;
    FILE *list;

    start();
    actor_do(&be, DO_WAITING, 0, 3);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(be_row().device[0].held_for_ns > 1000000000u);
    setenv("CUTIN_SOCKET", place.socket, 1);
    cr_assert_not_null(list = popen(BIN_DIR "/cutin list; " BIN_DIR "/cutin list --json", "r"));
    size = fread(text, 1, sizeof(text) - 1, list);
    text[size] = '\0';
    pclose(list);
    snprintf(expected, sizeof(expected), "- %d ", (int)rt.pid);
    cr_assert(strstr(text, "HELD BY") && (held = strstr(text, expected)), "%s", text);
    cr_assert_geq(strtol(held + strlen(expected), &held, 10), 1, "%s", text);
    cr_assert_eq(*held, 's', "%s", text);
    cr_assert(strstr(text, "\"held_by\"") && strstr(text, "\"held_ms\":"), "%s", text);
}

/* ---- the daemon does not look ---------------------------------------------------------------- */

static void holder_again(void)
{
    actor_new(&rt, place.socket);
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), 0);
    actor_do(&rt, DO_DEVICE, 1, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
}

Test(hold, ends_with_its_holder_while_the_daemon_is_stopped)
{
    static struct actor second;
    int64_t both, own;

    start();
    for (int i = 0; i < 3; i++) {
        actor_do(&rt, DO_ACTIVE, 0, 3);
        WAIT_UNTIL((own = actor_do(&be, DO_HOLD, 0, 0)) != 0);
        actor_new(&second, place.socket);
        cr_assert_eq(actor_do(&second, DO_OPEN, 3, 3), 0);
        actor_do(&second, DO_DEVICE, 1, 0);
        WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 2);
        actor_do(&second, DO_ACTIVE, 0, 3);
        WAIT_UNTIL((both = actor_do(&be, DO_HOLD, 0, 0)) != own);
        kill(place.daemon, SIGSTOP);
        actor_kill(&rt);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == (both & ~own));
        actor_kill(&second);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
        kill(place.daemon, SIGCONT);
        WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
        holder_again();
    }
}

/* Connects a client that has a bit and never uses it. */
static int bit_take(uint32_t *bit)
{
    int fd = bare_connect(place.socket, (uid_t)-1);
    union message m;

    bare_hello(fd, 3);
    bare_device(fd, 0, 1);
    cr_assert_eq(bare_wait(fd, MESSAGE_BIT, &m), 0);
    *bit = m.bit.bit;
    return fd;
}

/* Otherwise the next process to get the bit may be taken for dead before it has beaten once. The
 * other bits are taken, so that it comes to the next at once. */
Test(hold, bit_of_dead_client_passes_to_the_next_unmarked)
{
    int others[PAGE_CLIENT_BITS - 1], next;
    uint32_t bit;
    int64_t its;

    start();
    for (uint32_t i = 0; i < PAGE_CLIENT_BITS - 1; i++)
        others[i] = bit_take(&bit);
    WAIT_UNTIL(actor_do(&be, DO_OWNERS, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL((its = actor_do(&be, DO_HOLD, 0, 0)) != 0);
    actor_do(&rt, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    actor_kill(&rt);
    next = bit_take(&bit);
    cr_assert_eq(actor_do(&be, DO_OWNERS, 0, 0), 0);
    cr_assert_eq(bit, (uint32_t)__builtin_ctz((unsigned)its));
    close(next);
    actor_new(&rt, place.socket);
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), 0);
    actor_do(&rt, DO_DEVICE, 1, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == its);
    cr_assert_eq(actor_do(&be, DO_OWNERS, 0, 0), 1);
    for (uint32_t i = 0; i < PAGE_CLIENT_BITS - 1; i++)
        close(others[i]);
}

Test(hold, ends_with_holder_of_another_pid_namespace)
{
    start();
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
    actor_new(&rt, place.socket);
    if (actor_do(&rt, DO_NAMESPACE, 0, 0) != 1)
        cr_skip_test("no PID namespace can be made here");
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), 0);
    actor_do(&rt, DO_DEVICE, 1, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    kill(place.daemon, SIGSTOP);
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    kill(place.daemon, SIGCONT);
}

static uint64_t rt_silent_ms(void)
{
    struct message_row *rows;
    uint64_t ms;
    size_t n;

    cr_assert_eq(query_clients(place.socket, &rows, &n), 0);
    cr_assert_eq(n, 2);
    ms = rows[rows[1].pid == rt.pid].heartbeat_age_ms;
    free(rows);
    return ms;
}

/* As on a machine that gives a real-time process no processor for seconds: its work on the device
 * goes on, and so do its holds, until it is stopped. */
Test(hold, stays_while_holder_waits_for_a_processor)
{
    start();
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(actor_do(&rt, DO_OLD_BEAT, 0, 0), 0);
    WAIT_UNTIL(rt_silent_ms() > 1500);
    WAIT_UNTIL(rt_silent_ms() > 2000);
    cr_expect_neq(actor_do(&be, DO_HOLD, 0, 0), 0);
    kill(rt.pid, SIGSTOP);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    kill(rt.pid, SIGCONT);
}
