/*
 * probes.c - libcutin.so has the probes of the table, and the manual page lists them. Its example
 * works.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/probe.h"
#include "tests/integration/gpu.h"

static const struct {
    const char *name;
    int arguments;
} probes[] = {
#define X(name, arguments, help) {#name, arguments},
    PROBES(X)
#undef X
};
enum { COUNT = sizeof(probes) / sizeof(probes[0]) };

/* Counts the words of "8@%rdi -4@8(%rsp)": none of the library's arguments has a blank in it. */
static int count_arguments(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '@';
    return n;
}

/* Counts the places of each probe in the library. */
static void read_notes(int found[COUNT])
{
    FILE *in = popen("readelf -n " LIB_DIR "/libcutin.so", "r");
    char line[512], name[64];
    int provider = 0, probe = -1;

    cr_assert_not_null(in);
    while (fgets(line, sizeof(line), in)) {
        char *arguments = strstr(line, "Arguments:");

        if (strstr(line, "Provider:"))
            provider = !!strstr(line, "Provider: cutin\n");
        if (sscanf(line, " Name: %63s", name) == 1) {
            probe = -1;
            for (int i = 0; provider && i < COUNT; i++)
                if (strcmp(probes[i].name, name) == 0)
                    probe = i;
            cr_expect(!provider || probe >= 0, "%s is not in the table", name);
        }
        if (arguments && probe >= 0) {
            found[probe]++;
            cr_expect_eq(count_arguments(arguments), probes[probe].arguments, "%s: %s",
                         probes[probe].name, arguments);
        }
    }
    pclose(in);
}

Test(probes, are_in_library_with_their_arguments)
{
    int found[COUNT] = {0};

    if (!CUTIN_PROBES)
        cr_skip_test("built without <sys/sdt.h> (systemtap-sdt-dev)");
    if (system("command -v readelf >/dev/null") != 0)
        cr_skip_test("there is no readelf (binutils)");
    read_notes(found);
    for (int i = 0; i < COUNT; i++)
        cr_expect_gt(found[i], 0, "no probe %s", probes[i].name);
}

Test(probes, are_listed_in_manual_page)
{
    char *page = file_text(SOURCE_DIR "/docs/man/cutin.7"), row[64];

    for (int i = 0; i < COUNT; i++) {
        snprintf(row, sizeof(row), "\n.It Cm %s Ar ", probes[i].name);
        cr_expect_not_null(strstr(page, row), "cutin(7) does not list %s", probes[i].name);
    }
    free(page);
}

/* The page's line, for process `pid` and the library under test. It prints its counts every 200 ms,
 * because bpftrace 0.23 does not do so on SIGUSR1. */
static void example_of(pid_t pid, char *line, size_t size)
{
    static const char before[] = "bpftrace -p PID -e 'usdt:/usr/lib/libcutin.so:";
    char *page = file_text(SOURCE_DIR "/docs/man/cutin.7"), *at = strstr(page, before);

    cr_assert_not_null(at);
    at += strlen(before);
    snprintf(line, size,
             "exec bpftrace -p %d -e 'usdt:" LIBRARY ":%.*s interval:ms:200 { print(@us); }'",
             (int)pid, (int)strcspn(at, "'"), at);
    free(page);
}

static bool is_held_now_and_then(const struct message_row *row)
{
    return client_holds(row) > 0;
}

Test(probes, manual_page_example_prints_hold_times, .init = sandbox_enter, .fini = sandbox_leave)
{
    struct process *daemon, *rt, *be, *trace;
    struct message_row row;
    char line[512];

    if (!CUTIN_PROBES)
        cr_skip_test("built without <sys/sdt.h> (systemtap-sdt-dev)");
    if (system("bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1") != 0)
        cr_skip_test("bpftrace is not there, or may not trace");
    daemon = daemon_start();
    rt = inference_start(rate_with_gaps(), "70");
    be = training_start(1000000, NULL);
    cr_assert(client_wait("be_training", is_held_now_and_then, 60, &row));
    example_of(row.pid, line, sizeof(line));
    trace = process_start((const char *[]){"sh", "-c", line, NULL}, NULL);
    cr_assert(process_says(trace, "[", 60), "%s%s", process_out(trace), process_err(trace));
    process_signal(trace, SIGINT);
    process_wait(trace, 20);
    cr_expect(strstr(process_out(trace), "@us:") && strchr(process_out(trace), '|'), "%s%s",
              process_out(trace), process_err(trace));
    process_free(trace);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}
