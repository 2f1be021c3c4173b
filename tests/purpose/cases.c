/*
 * cases.c - workloads with names. Each once kept real time waiting or best effort idle.
 */
#include "workload.h"

#include <string.h>

enum {
    MS = 1500,
    FAIR_MS = 2500,
    LATER_MS = 400,
    QUIET_MS = 5600,
    LONG_MS = 6000,
    LONGER_MS = 12000
};

#define JOB(n, ...) {.us = {__VA_ARGS__}, .cycle = n, .blocks = FULL, .streams = 1, .weight = 1}
#define JOB_BUT(n, list, ...)                                                                      \
    {.us = list, .cycle = n, .blocks = FULL, .streams = 1, .weight = 1, __VA_ARGS__}
#define LIST(...)          {__VA_ARGS__}
#define FAIR(n, ...)       JOB(n, __VA_ARGS__)
#define FAIR_LATER(n, ...) JOB_BUT(n, LIST(__VA_ARGS__), .start_ms = LATER_MS)
#define SERVICE_OF(start, how)                                                                     \
    {.there = true,                                                                                \
     .ending = ENDING_##how,                                                                       \
     .arrival = ARRIVAL_poisson,                                                                   \
     .level = "rt",                                                                                \
     .kernels = 1,                                                                                 \
     .kernel_us = 20,                                                                              \
     .blocks = FULL,                                                                               \
     .gap_us = 5000,                                                                               \
     .start_ms = start}

/* The next request of the service is due before the last one is done. */
#define LEAST(percent, us, ...)                                                                    \
    {                                                                                              \
        .open = "abscd", .jobs = sizeof((struct job[]){__VA_ARGS__}) / sizeof(struct job),         \
        .least = percent, .job = {__VA_ARGS__}, .service = {                                       \
            .there = true,                                                                         \
            .ending = ENDING_sync,                                                                 \
            .arrival = ARRIVAL_steady,                                                             \
            .level = "rt",                                                                         \
            .kernels = 2,                                                                          \
            .kernel_us = us,                                                                       \
            .blocks = FULL,                                                                        \
            .gap_us = us                                                                           \
        }                                                                                          \
    }

/* The first job beside one of kernels that outlast a shift, as real time rests. */
#define BESIDE_LONG(time, percent, ...)                                                            \
    .ms = (time), .open = "abscd",                                                                 \
    .jobs = sizeof((struct job[]){__VA_ARGS__}) / sizeof(struct job), .first_least = (percent),    \
    .job = {__VA_ARGS__}, .service = RESTS

/* Steps of solos: IN is n kernels of one kind in a stream. */
#define IN(place, n, which)  {STEP_kernels, .stream = place, .count = n, .kernel = which}
#define WAIT_AND_REST(place) {STEP_sync, .stream = place}, {STEP_rest, .count = 100000}
#define SOLO(s)              .jobs = 1, .job = {JOB(1, 100)}, .solo = &(s)
#define RESTS                                                                                      \
    {.there = true,                                                                                \
     .ending = ENDING_sync,                                                                        \
     .arrival = ARRIVAL_once,                                                                      \
     .level = "rt",                                                                                \
     .kernels = 1,                                                                                 \
     .kernel_us = 20,                                                                              \
     .blocks = FULL}

/* The program asks for the last kernels of one stream before the first ones of the next. Each needs
 * a quarter of the device. */
static const struct solo short_in_turn = {.streams = 4,
                                          .kernels = 1,
                                          .kernel = {{100, FULL / 4}},
                                          .steps = 4,
                                          .step = {IN(0, 200, 0), IN(1, 200, 0), IN(2, 200, 0),
                                                   IN(3, 200, 0)}},
                         long_side_by_side = {.streams = 2,
                                              .kernels = 1,
                                              .kernel = {{3000, 8}},
                                              .steps = 2,
                                              .step = {IN(0, 30, 0), IN(1, 30, 0)}},
                         wide_and_narrow = {.streams = 3,
                                            .kernels = 2,
                                            .kernel = {{3000, FULL / 2}, {3000, 1}},
                                            .steps = 3,
                                            .step = {IN(0, 30, 0), IN(1, 30, 1), IN(2, 30, 1)}},
                         urgent_behind_long = {
                             .streams = 2,
                             .kernels = 1,
                             .kernel = {{1000, FULL}},
                             .stream = {{.priority = 0}, {.priority = -5}},
                             .steps = 4,
                             .step = {IN(0, 50, 0), IN(1, 50, 0), WAIT_AND_REST(1)}};

static const struct named {
    const char *name;
    struct workload w;
} cases[] = {
    {"four_jobs_first",
     {.jobs = 4,
      .job = {JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(LATER_MS, sync)}},
    {"varying_job_first",
     {.jobs = 1, .job = {JOB(4, 500, 20, 1000, 50)}, .service = SERVICE_OF(LATER_MS, sync)}},
    {"turns", {.jobs = 1, .job = {JOB(2, 25, 400)}, .service = SERVICE_OF(0, sync)}},
    {"turns_other_phase", {.jobs = 1, .job = {JOB(2, 400, 25)}, .service = SERVICE_OF(0, sync)}},
    {"turns_unannounced",
     {.jobs = 1,
      .job = {JOB_BUT(2, LIST(25, 400), .quiet = true)},
      .service = SERVICE_OF(0, sync)}},
    {"one_short_three_long",
     {.jobs = 1, .job = {JOB(4, 20, 400, 400, 400)}, .service = SERVICE_OF(0, sync)}},
    {"pool",
     {.jobs = 1,
      .job = {JOB_BUT(1, LIST(100), .pool_mb = 64, .sync_every = 200)},
      .service = SERVICE_OF(0, sync)}},
    {"host_function", {.jobs = 1, .job = {JOB(1, 100)}, .service = SERVICE_OF(0, function)}},
    {"polled_word", {.jobs = 1, .job = {JOB(1, 100)}, .service = SERVICE_OF(0, word)}},
    {"graphs",
     {.open = "b",
      .jobs = 1,
      .job = {JOB_BUT(1, LIST(200), .graph = 100)},
      .service = SERVICE_OF(0, sync)}},
    {"short_kernels", {.jobs = 1, .job = {JOB(1, 3)}, .service = SERVICE_OF(0, sync)}},
    {"one_job", {.jobs = 1, .job = {JOB(1, 100)}, .service = SERVICE_OF(0, sync)}},
    {"two_jobs", {.jobs = 2, .job = {JOB(1, 100), JOB(1, 100)}, .service = SERVICE_OF(0, sync)}},
    {"four_jobs",
     {.jobs = 4,
      .job = {JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(0, sync)}},
    {"eight_jobs",
     {.jobs = 8,
      .job = {JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100),
              JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(0, sync)}},
    {"long_copies",
     {.jobs = 1,
      .job = {JOB_BUT(1, LIST(20), .copy_kb = 512 << 10)},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_poisson,
                  .level = "rt",
                  .kernels = 1,
                  .kernel_us = 20,
                  .blocks = FULL,
                  .gap_us = 5000,
                  .copy_kb = 1024}}},
    {"fair_turns", {.jobs = 2, .fair = true, .job = {FAIR(2, 50, 500), FAIR(1, 200)}}},
    {"fair_heavy", {.jobs = 2, .fair = true, .job = {FAIR(4, 20, 2000, 20, 20), FAIR(1, 200)}}},
    {"fair_short_long", {.jobs = 2, .fair = true, .job = {FAIR(1, 50), FAIR(1, 2000)}}},
    {"fair_second_comes_later",
     {.jobs = 2, .fair = true, .job = {FAIR(2, 50, 500), FAIR_LATER(1, 2000)}}},
    {"least_share", LEAST(20, 1000, FAIR(1, 100))},
    {"least_share_of_long", LEAST(20, 1000, FAIR(1, 2000))},
    {"least_share_of_varying", LEAST(20, 1000, FAIR(4, 20, 2000, 20, 20))},
    {"least_share_beside_short", LEAST(20, 300, FAIR(1, 100))},
    {"least_share_of_half", LEAST(50, 1000, FAIR(1, 100))},
    {"least_share_of_two", LEAST(20, 1000, FAIR(1, 100), FAIR(1, 200))},
    {"long_copies_first",
     {.jobs = 1,
      .job = {JOB_BUT(1, LIST(20), .copy_kb = 1 << 20)},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_poisson,
                  .level = "rt",
                  .kernels = 1,
                  .kernel_us = 20,
                  .blocks = FULL,
                  .gap_us = 5000,
                  .copy_kb = 1024,
                  .start_ms = LATER_MS}}},
    {"early",
     {.jobs = 1,
      .job = {JOB(1, 100)},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_early,
                  .level = "rt",
                  .kernels = 1,
                  .kernel_us = 20,
                  .blocks = FULL,
                  .gap_us = 5000}}},
    {"early_varying",
     {.open = "d",
      .jobs = 1,
      .job = {JOB(4, 500, 20, 1000, 50)},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_early,
                  .level = "rt",
                  .kernels = 1,
                  .kernel_us = 20,
                  .blocks = FULL,
                  .gap_us = 20000}}},
    {"four_jobs_come", /* beside a service that is already there and asks often */
     {.jobs = 4,
      .job = {JOB_BUT(1, LIST(100), .start_ms = 100), JOB_BUT(1, LIST(100), .start_ms = 100),
              JOB_BUT(1, LIST(100), .start_ms = 100), JOB_BUT(1, LIST(100), .start_ms = 100)},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_steady,
                  .level = "rt",
                  .kernels = 1,
                  .kernel_us = 200,
                  .blocks = FULL,
                  .gap_us = 700}}},
    {"graphs_with_gates",
     {.gates = true,
      .jobs = 1,
      .job = {JOB_BUT(1, LIST(200), .graph = 100)},
      .service = SERVICE_OF(0, sync)}},
    {"one_job_with_gates",
     {.gates = true, .jobs = 1, .job = {JOB(1, 100)}, .service = SERVICE_OF(0, sync)}},
    {"two_jobs_with_gates",
     {.gates = true,
      .open = "s",
      .jobs = 2,
      .job = {JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(0, sync)}},
    {"four_jobs_with_gates",
     {.gates = true,
      .open = "s",
      .jobs = 4,
      .job = {JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(0, sync)}},
    {"eight_jobs_with_gates",
     {.gates = true,
      .open = "s",
      .jobs = 8,
      .job = {JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100),
              JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(0, sync)}},
    {"four_jobs_first_with_gates",
     {.open = "s",
      .gates = true,
      .jobs = 4,
      .job = {JOB(1, 100), JOB(1, 100), JOB(1, 100), JOB(1, 100)},
      .service = SERVICE_OF(LATER_MS, sync)}},
    {"varying_job_first_with_gates",
     {.gates = true,
      .jobs = 1,
      .job = {JOB(4, 500, 20, 1000, 50)},
      .service = SERVICE_OF(LATER_MS, sync)}},
    {"turns_with_gates",
     {.gates = true, .jobs = 1, .job = {JOB(2, 25, 400)}, .service = SERVICE_OF(0, sync)}},
    {"long_at_first", /* longer than the guard waits; no parameter says so */
     {.jobs = 1,
      .job = {JOB_BUT(1, LIST(100), .first_us = 250000)},
      .service = SERVICE_OF(0, sync)}},
    {"polled_word_bursts", /* one request after another, and no call tells of their ends */
     {.jobs = 1,
      .job = {JOB(1, 100)},
      .service = {.there = true,
                  .ending = ENDING_word,
                  .arrival = ARRIVAL_bursts,
                  .level = "rt",
                  .kernels = 10,
                  .kernel_us = 200,
                  .blocks = 16,
                  .gap_us = 6000}}},
    {"after_quiet",
     {.ms = QUIET_MS,
      .jobs = 1,
      .job = {JOB(1, 100)},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_quiet,
                  .level = "rt",
                  .kernels = 5,
                  .kernel_us = 200,
                  .blocks = FULL,
                  .gap_us = 10000}}},
    {"one_job_comes", /* and launches at once, beside a service that is already there */
     {.jobs = 1, .job = {JOB_BUT(1, LIST(100), .start_ms = 100)}, .service = SERVICE_OF(0, sync)}},
    {"polled_word_in_step", /* in step with the tick of the service's own client */
     {.jobs = 1,
      .job = {JOB(1, 100)},
      .service = {.there = true,
                  .ending = ENDING_word,
                  .arrival = ARRIVAL_steady,
                  .level = "rt",
                  .kernels = 1,
                  .kernel_us = 200,
                  .blocks = 16,
                  .gap_us = 5000,
                  .start_ms = LATER_MS}}},
    {"two_streams_of_long_with_gates", /* there is no gate between the kernels of the two */
     {.gates = true,
      .jobs = 1,
      .job = {{.us = {600}, .cycle = 1, .blocks = FULL, .streams = 2, .weight = 1}},
      .service = SERVICE_OF(0, sync)}},
    {"four_jobs_that_wait", /* each for its last eight kernels: often none of them is buffered */
     {.jobs = 4,
      .job = {JOB_BUT(1, LIST(100), .sync_every = 8), JOB_BUT(1, LIST(100), .sync_every = 8),
              JOB_BUT(1, LIST(100), .sync_every = 8), JOB_BUT(1, LIST(100), .sync_every = 8)},
      .service = SERVICE_OF(0, sync)}},
    {"four_jobs_that_wait_with_gates",
     {.gates = true,
      .jobs = 4,
      .job = {JOB_BUT(1, LIST(100), .sync_every = 3), JOB_BUT(1, LIST(100), .sync_every = 3),
              JOB_BUT(1, LIST(100), .sync_every = 3), JOB_BUT(1, LIST(100), .sync_every = 3)},
      .service = SERVICE_OF(0, sync)}},
    /* No parameter says which one is long, so two in a row are possible. (b) is 200 to 380,
     * depending on when the job begins. */
    {"one_in_eight_long",
     {.slack_us = 100,
      .jobs = 1,
      .job = {JOB_BUT(2, LIST(10, 160), .length = LENGTH_bimodal, .quiet = true)},
      .service = SERVICE_OF(0, sync)}},
    {"streams_that_come_and_go",
     {.jobs = 1,
      .job = {JOB_BUT(1, LIST(200), .come_and_go = true, .sync_every = 16)},
      .service = SERVICE_OF(0, sync)}},
    {"streams_beside_what_stands", /* at first all of it waits until the guard lets it in */
     {.open = "d",
      .jobs = 1,
      .job =
          {{.us = {10000}, .cycle = 1, .blocks = FULL, .streams = 3, .stalls = true, .weight = 1}},
      .service = SERVICE_OF(0, sync)}},
    {"solo_short_in_turn", {SOLO(short_in_turn), .service = RESTS}},
    {"solo_short_in_turn_with_gates", {SOLO(short_in_turn), .gates = true, .service = RESTS}},
    {"solo_long_side_by_side", {SOLO(long_side_by_side), .service = RESTS}},
    {"solo_long_side_by_side_with_gates",
     {SOLO(long_side_by_side), .gates = true, .service = RESTS}},
    {"solo_wide_and_narrow", {SOLO(wide_and_narrow), .service = RESTS}},
    {"solo_wide_and_narrow_with_gates", {SOLO(wide_and_narrow), .gates = true, .service = RESTS}},
    {"solo_urgent_behind_long", {SOLO(urgent_behind_long), .service = RESTS}},
    {"eight_streams_with_gates",
     {.gates = true,
      .jobs = 1,
      .job = {{.us = {100}, .cycle = 1, .blocks = FULL, .streams = 8, .weight = 1}},
      .service = SERVICE_OF(0, sync)}},
    {"per_thread_stream", /* its kernels' times are learned as others' are */
     {.jobs = 1,
      .job = {JOB_BUT(1, LIST(400), .sync_every = 4, .per_thread = true)},
      .service = SERVICE_OF(0, sync)}},
    {"solo_alone", {SOLO(long_side_by_side)}},
    {"turns_in_two_streams", /* so the estimate is twice the time of the long one */
     {.jobs = 1,
      .job = {{.us = {3, 48},
               .cycle = 2,
               .blocks = FULL,
               .streams = 2,
               .sync_every = 1000,
               .weight = 1}},
      .service = {.there = true,
                  .ending = ENDING_sync,
                  .arrival = ARRIVAL_poisson,
                  .level = "rt",
                  .kernels = 3,
                  .kernel_us = 20,
                  .blocks = FULL,
                  .gap_us = 3000}}},
    {"short_beside_kernels_of_a_second", /* of which each has half of the device natively */
     {BESIDE_LONG(LONG_MS, 40, JOB(1, 100), JOB(1, 1000000))}},
    {"short_beside_kernels_of_a_second_with_gates",
     {.gates = true, BESIDE_LONG(LONG_MS, 40, JOB(1, 100), JOB(1, 1000000))}},
    {"short_beside_kernels_of_300_ms", {BESIDE_LONG(LONG_MS, 40, JOB(1, 100), JOB(1, 300000))}},
    {"fair_short_beside_kernels_of_100_ms", /* which run on in the quantum of the other job */
     {.ms = LONG_MS, .jobs = 2, .fair = true, .job = {FAIR(1, 100), FAIR(1, 100000)}}},
    {"two_short_beside_kernels_of_a_second",
     {BESIDE_LONG(LONGER_MS, 25, JOB(1, 100), JOB(1, 200), JOB(1, 1000000))}},
    {"fair_two_short_beside_kernels_of_300_ms",
     {.ms = LONGER_MS,
      .jobs = 3,
      .fair = true,
      .job = {FAIR(2, 100, 1000), FAIR(1, 300), FAIR(1, 300000)}}},
    {"short_beside_kernels_of_130_ms_and_busy_service", /* shifts keep others out of its way */
     {.ms = LONG_MS,
      .open = "scd",
      .jobs = 2,
      .first_least = 30,
      .job = {JOB(1, 100), JOB(1, 130000)},
      .service = SERVICE_OF(0, sync)}},
};

const char *workload_case_name(uint32_t i)
{
    return i < sizeof(cases) / sizeof(*cases) ? cases[i].name : NULL;
}

void workload_case(struct workload *w, uint32_t i)
{
    *w = cases[i].w;
    w->seed = CASE_SEED + i;
    w->ms = w->ms ? w->ms : w->solo ? SOLO_MS : w->fair || w->least ? FAIR_MS : MS;
    for (uint32_t j = 0; j < w->jobs; j++)
        w->job[j].end_ms = w->job[j].end_ms ? w->job[j].end_ms : w->ms;
}
