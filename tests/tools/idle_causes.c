/*
 * idle_causes.c - what a process lost beside another, by cause, from made-up traces of both and a
 * made-up log of the GPU, in microseconds.
 */
#include "tools/cutin/trace/idle.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { BE, RT, PROCESSES, RECORDS = 1024 };

static struct trace_view view[PROCESSES];
static struct idle idle[PROCESSES];
static char device[8192];

static void enter(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct trace_file *file = calloc(1, sizeof(*file) + RECORDS * sizeof(file->record[0]));

        cr_assert_not_null(file);
        file->header.records = RECORDS;
        file->header.pid = (uint32_t)i + 1;
        file->header.level = i == RT ? 3 : 0;
        strcpy(file->header.program, i == RT ? "serve" : "train");
        view[i] = (struct trace_view){.file = file};
    }
    device[0] = '\0';
}

static void leave(void)
{
    for (int i = 0; i < PROCESSES; i++)
        free(view[i].file);
}

TestSuite(idle_causes, .init = enter, .fini = leave);

static struct trace_record *put(int process, enum trace_kind kind, uint64_t us)
{
    struct trace_record *r = &view[process].file->record[view[process].end++];

    cr_assert_leq(view[process].end, RECORDS);
    *r = (struct trace_record){
        .seq = view[process].end, .ns = 1000 * us, .kind = (uint16_t)kind, .stream = 1};
    return r;
}

static void queue(int process, enum trace_kind kind, uint64_t us, uint32_t buffered,
                  uint32_t in_flight)
{
    struct trace_record *r = put(process, kind, us);

    r->queue.buffered = buffered;
    r->queue.in_flight = in_flight;
}

static void turn(enum trace_kind kind, uint64_t us, uint64_t number)
{
    put(RT, kind, us)->cut.turn = number;
}

static void work(int process, const char *kind, uint64_t submit, uint64_t start, uint64_t end)
{
    size_t n = strlen(device);

    snprintf(device + n, sizeof(device) - n,
             "pid=%d context=1 stream=1 seq=1 kind=%s name=k submit=%llu000 start=%llu000 "
             "end=%llu000 cost=1000 ran=1 id=1\n",
             process + 1, kind, (unsigned long long)submit, (unsigned long long)start,
             (unsigned long long)end);
}

/* Compares what best effort lost with `expected`: "us/times" of each cause, in their order. */
static void expect(bool logged, const char *expected)
{
    FILE *log = fmemopen(device, strlen(device) + 1, "r");
    char said[256] = "";

    cr_assert_not_null(log);
    cr_assert_eq(idle_read(view, PROCESSES, &log, logged, idle), 0);
    fclose(log);
    for (int why = 0; why < IDLE_CAUSE_COUNT; why++) {
        size_t n = strlen(said);

        snprintf(said + n, sizeof(said) - n, "%s%.3g/%llu", n ? " " : "",
                 (double)idle[BE].by[why].ns / 1e3, (unsigned long long)idle[BE].by[why].times);
    }
    cr_expect_str_eq(said, expected);
}

/* From 0 to 1,000 us: a kernel ends at 100, which is seen at 110. Another is submitted at 115 and
 * starts at 118. A hold from 200 on lets it run until 230. The work above starts at 240, pauses
 * from 260 to 270 between two of its works, and ends at 300, which is seen at 340. The hold's end
 * is seen at 390; the next kernel is submitted at 391 and starts at once. */
static void happen(void)
{
    queue(BE, TRACE_BUFFERED, 0, 5, 1);
    queue(BE, TRACE_COMPLETED, 110, 5, 0);
    queue(BE, TRACE_SUBMITTED, 115, 4, 1);
    put(BE, TRACE_HELD, 205);
    queue(BE, TRACE_COMPLETED, 235, 4, 0);
    put(BE, TRACE_RELEASED, 390);
    queue(BE, TRACE_SUBMITTED, 391, 3, 1);
    put(BE, TRACE_SYNC, 1000);
    turn(TRACE_CUT_IN, 200, 1);
    turn(TRACE_CUT_OUT, 340, 1);
    put(RT, TRACE_SYNC, 1000);
    work(BE, "kernel", 0, 0, 100);
    work(BE, "kernel", 115, 118, 230);
    work(RT, "kernel", 201, 240, 260);
    work(RT, "copy", 202, 270, 300);
    work(BE, "kernel", 391, 391, 1000);
}

Test(idle_causes, each_cause_gets_its_time)
{
    happen();
    expect(true, "20/2 40/1 0/0 50/1 3/1 10/1 6/2");
    cr_expect_eq(idle[BE].traced_ns, 1000000);
    /* Real time's first work waits for best effort's last and a switch. Its second just follows. */
    for (int why = 0; why < IDLE_CAUSE_COUNT; why++)
        cr_expect_eq(idle[RT].by[why].ns, why == IDLE_START ? 20000 : 0);
}

Test(idle_causes, without_device_log_only_traced_causes_have_time)
{
    happen();
    /* It is held until 340, then sees the end late; from 110 to 115 it has nothing in flight. */
    expect(false, "0/0 0/0 0/0 50/1 0/0 0/0 6/2");
}

Test(idle_causes, work_of_other_processes_is_no_idle_time)
{
    happen();
    work(41, "kernel", 0, 0, 120);
    work(41, "kernel", 0, 220, 400);
    expect(true, "0/0 0/0 0/0 0/0 0/0 0/0 0/0");
}

Test(idle_causes, waiting_stream_does_not_occupy_the_gpu)
{
    happen();
    work(BE, "wait", 0, 0, 1000);
    work(RT, "host", 0, 0, 1000);
    expect(true, "20/2 40/1 0/0 50/1 3/1 10/1 6/2");
}

Test(idle_causes, no_time_is_lost_without_waiting_work)
{
    queue(BE, TRACE_SUBMITTED, 0, 0, 1);
    put(BE, TRACE_SYNC, 1000);
    work(BE, "kernel", 0, 0, 100);
    work(RT, "kernel", 500, 500, 600);
    expect(true, "0/0 0/0 0/0 0/0 0/0 0/0 0/0");
}

/* The service's trace begins at 300, so no holder is known before. */
Test(idle_causes, overwritten_span_of_one_trace_is_left_out_of_all)
{
    happen();
    view[RT].end = 0;
    turn(TRACE_CUT_OUT, 300, 1);
    turn(TRACE_CUT_IN, 310, 2);
    turn(TRACE_CUT_OUT, 340, 2);
    put(RT, TRACE_SYNC, 1000);
    view[RT].lost = 1;
    expect(true, "0/0 30/1 10/1 50/1 0/0 0/0 1/1");
    cr_expect_eq(idle[BE].traced_ns, 700000);
}

/* Held by a pause, by the policy, or by a process without a trace here. What it asks of the GPU
 * stays buffered, and nothing else happens: the trace ends when it was taken. */
static void paused(uint32_t stream)
{
    uint64_t first = view[BE].end;

    put(BE, TRACE_SYNC, 0);
    queue(BE, TRACE_BUFFERED, 100, 1, 0);
    put(BE, TRACE_HELD, 105);
    for (uint64_t i = first; i < view[BE].end; i++)
        view[BE].file->record[i].stream = stream;
    view[BE].file->header.as_of_ns = 1000000;
    work(RT, "kernel", 0, 0, 80);
}

Test(idle_causes, hold_by_untraced_process_counts_until_trace_end)
{
    paused(1);
    expect(true, "0/0 0/0 895/1 0/0 0/0 0/0 5/1");
}

/* Stream 7 is held, runs and ends before. */
Test(idle_causes, reused_stream_number_starts_anew)
{
    queue(BE, TRACE_BUFFERED, 10, 2, 0);
    put(BE, TRACE_HELD, 20);
    put(BE, TRACE_RELEASED, 30);
    queue(BE, TRACE_SUBMITTED, 40, 1, 1);
    queue(BE, TRACE_COMPLETED, 60, 1, 0);
    queue(BE, TRACE_DROPPED, 70, 0, 0);
    for (uint64_t i = 0; i < view[BE].end; i++)
        view[BE].file->record[i].stream = 7;
    paused(65536 * 3 + 7);
    expect(true, "0/0 0/0 895/1 0/0 0/0 0/0 5/1");
}

Test(idle_causes, table_prints_milliseconds_per_second)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    happen();
    expect(true, "20/2 40/1 0/0 50/1 3/1 10/1 6/2");
    idle_print(out, view, PROCESSES, true, idle);
    fclose(out);
    cr_expect_not_null(strstr(text, "train, 1 (be): the GPU idled while it had work, in 0.0 s\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "held, end of work above not noticed yet          40.0"
                                    "        1       40\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "all of it                                       129.0\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "\nserve, 2 (rt):"), "%s", text);
    free(text);
}
