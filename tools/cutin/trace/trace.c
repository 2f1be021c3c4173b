/*
 * trace.c - `cutin trace`: what happened in a program and on its GPU, as a file for a trace viewer,
 * or as a table of lost time.
 *
 * Every process that the program starts writes its trace into a private folder, and the simulator
 * writes its event log there. When the program has ended, the files become one.
 */
#include "tools/cutin/run/run.h"
#include "tools/cutin/progress.h"
#include "idle.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "common/level.h"
#include "common/atomic_file.h"

static const char *const levels[] = {LEVEL_NAMES, NULL};

static struct plan {
    const char *output, *level, *records;
    bool sim, no_daemon, merge, mangled, report;
} given = {.records = "65536"};

static const struct option_row options[] = {
    {"output", "FILE", "the JSON file (trace.json)", 'o', TAKE_TEXT(given.output)},
    {"priority", "LEVEL", "be (the default), 1, 2 or rt, as with cutin run",
     TAKE_WORD(given.level, levels)},
    {"sim", NULL, "run on the simulated GPU", TAKE_FLAG(given.sim)},
    {"no-daemon", NULL, "neither start nor use the daemon, as with cutin run",
     TAKE_FLAG(given.no_daemon)},
    {"records", "N",
     "records to keep per process, 64 bytes each; of a longer\n"
     "run, the newest are kept (65536)",
     TAKE_NUMBER(given.records, TRACE_LEAST_RECORDS, TRACE_MOST_RECORDS)},
    {"mangled", NULL, "show kernel names mangled and in full", TAKE_FLAG(given.mangled)},
    {"merge", NULL,
     "merge these traces (CUTIN_TRACE) and event logs of the\n"
     "simulator (SIMGPU_LOG)",
     TAKE_FLAG(given.merge)},
    {"report", NULL,
     "print where the GPU idled while a process had work for it,\n"
     "and why; without --output, no file is written",
     TAKE_FLAG(given.report)},
    {0},
};

struct sources {
    struct trace_view *trace;
    size_t traces;
    FILE **log;
    size_t logs;
};

static int source_open(struct sources *s, const char *path)
{
    FILE *f = fopen(path, "re");
    char why[512], magic[8] = "";
    size_t n = f ? fread(magic, 1, sizeof(magic), f) : 0;
    int rc = 0;

    if (!f)
        return say(&subcommand_trace, "%s: %s", path, strerror(errno));
    if (n == sizeof(magic) && memcmp(magic, TRACE_MAGIC, sizeof(magic)) == 0) {
        if (trace_view_open(&s->trace[s->traces], path, why, sizeof(why)) != 0)
            rc = say(&subcommand_trace, "%s", why);
        else
            s->traces++;
    } else if (n == 0 || strncmp(magic, "pid=", 4) == 0) {
        rewind(f);
        s->log[s->logs++] = f;
        return 0;
    } else {
        rc = say(&subcommand_trace,
                 "%s: neither a trace of cutin nor an event log of the simulator", path);
    }
    fclose(f);
    return rc;
}

static int write_json(const struct sources *s, const char *path)
{
    struct trace_json json;
    struct atomic_file whole;
    FILE *out = atomic_file_open(&whole, path);
    uint64_t works = 0, earliest = s->traces ? UINT64_MAX : 0;
    int rc;

    if (!out)
        return say(&subcommand_trace, "%s: %s", path, strerror(errno));
    for (size_t i = 0; i < s->traces; i++)
        if (s->trace[i].file->header.start_ns < earliest)
            earliest = s->trace[i].file->header.start_ns;
    trace_json_begin(&json, out, earliest, s->traces + s->logs);
    json.mangled = given.mangled;
    for (size_t i = 0; i < s->traces; i++)
        trace_json_add(&json, &s->trace[i]);
    for (size_t i = 0; i < s->logs; i++)
        works += trace_json_add_log(&json, s->log[i]);
    rc = atomic_file_close(&whole, trace_json_end(&json));
    progress_end();
    if (rc != 0)
        return say(&subcommand_trace, "cannot write %s: %s", path, strerror(-rc));
    fprintf(stderr,
            "cutin trace: %s: %zu process%s, %llu events, %llu of them on the simulated GPU; "
            "https://ui.perfetto.dev opens it\n",
            path, s->traces, s->traces == 1 ? "" : "es", (unsigned long long)json.events,
            (unsigned long long)works);
    if (progress_cancel)
        say(&subcommand_trace, "interrupted; the file has what was merged");
    return 0;
}

/* The child plan's `use_files`. */
static int merge(void *user, char *const *paths, size_t n)
{
    struct sources s = {.trace = calloc(n + 1, sizeof(*s.trace)),
                        .log = calloc(n + 1, sizeof(*s.log))};
    struct idle *idle = calloc(n + 1, sizeof(*idle));
    int rc = s.trace && s.log ? 0 : -ENOMEM;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = source_open(&s, paths[i]);
    if (rc == 0 && s.traces == 0 && !given.merge)
        rc = say(&subcommand_trace,
                 "nothing was traced: none of its processes used the GPU under cutin");
    if (rc == 0 && given.output)
        rc = write_json(&s, given.output);
    if (rc == 0 && given.report) {
        rc = idle ? idle_read(s.trace, s.traces, s.log, s.logs, idle) : -ENOMEM;
        if (rc == 0)
            idle_print(stdout, s.trace, s.traces, s.logs > 0, idle);
        else
            say(&subcommand_trace, "%s", strerror(-rc));
    }
    for (size_t i = 0; i < s.traces; i++)
        trace_view_close(&s.trace[i]);
    for (size_t i = 0; i < s.logs; i++)
        fclose(s.log[i]);
    free(s.trace);
    free(s.log);
    free(idle);
    return rc;
}

static int trace(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    const struct variable set[] = {{"CUTIN_TRACE_KEEP", "newest"},
                                   {"CUTIN_TRACE_RECORDS", given.records},
                                   {"CUTIN_PRIORITY", given.level},
                                   {0}};
    const struct child_plan plan = {.set = set,
                                    .sim = given.sim,
                                    .daemon = !given.no_daemon,
                                    .device_log = true,
                                    .use_files = merge};

    if (optind >= argc)
        fail_usage(cmd, given.merge ? "no files given" : "no program given");
    if (!given.output && !given.report)
        given.output = "trace.json";
    if (given.output && output_check(cmd, given.output) != 0)
        return EXIT_FAILURE;
    if (given.merge) {
        progress_begin();
        return merge(NULL, argv + optind, (size_t)(argc - optind)) ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    return child_run(cmd, &plan, argv + optind);
}

const struct subcommand subcommand_trace = {
    .name = "trace",
    .summary = "write a timeline of a program for a trace viewer",
    .synopsis = "[OPTIONS] [--] PROGRAM [ARGUMENT...]\n"
                "       cutin trace --merge [--report] [--mangled] [-o FILE] FILE...",
    .about =
        "Runs PROGRAM, traces each of its processes that uses CUDA, and merges the traces into\n"
        "one JSON file for Perfetto or Chrome: calls, buffered and in-flight commands, holds and\n"
        "cut-ins, and the GPU's timeline where it is simulated or timed. The exit status is\n"
        "PROGRAM's; 125 to 127 as with env(1).\n"
        "\n"
        "--report says what work lost beside other work. Trace both: with a PROGRAM that starts\n"
        "both, or with CUTIN_TRACE set for each, and --merge.",
    .options = options,
    .run = trace,
};
