/*
 * main.c - gpu-facts: asks a GPU and its driver what cutin's design assumes about them.
 *
 * It prints one JSON object.
 */
#include "fact.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS(n) "CUDA_DEVICE_MAX_CONNECTIONS=" #n

static const struct fact facts[] = {
    {"suspend", "May a process stop its own running kernels, and does that have an effect?",
     "unproven: a process may use the controls; auto needs the effect", 90, NULL, fact_suspend},
    {"device", "What does the device say about itself?", NULL, 60, NULL, fact_device},
    {"lookup", "What does cuGetProcAddress return for each name and version?",
     "the newest symbol that is not newer than the version, as in shim/lookup/api.def", 60, NULL,
     fact_lookup},
    {"cost", "What do launches, events, markers, gates and batches cost?",
     "a marker costs less than an event; marker and gate share one batch", 60, NULL, fact_cost},
    {"page", "May a registered memfd page carry markers and hold words?",
     "memops work on it, and see what another process writes", 60, NULL, fact_page},
    {"page_read_only", "And one that is mapped and registered read-only?",
     "no: it may be refused, then the page is registered writable", 60, NULL, fact_page_read_only},
    {"page_replaced", "What does the GPU see when a page is mapped over a registered one?",
     "the old page, until it is registered again", 60, NULL, fact_page_replaced},
    {"gate", "How soon does a closed gate stop a queue, and an opened one let it go on?",
     "within one kernel, and a few microseconds", 90, NULL, fact_gate},
    {"gates", "Do gates hold only their own stream, also in graphs?",
     "yes: auto uses them where this was seen", 10, NULL, fact_gates},
    {"behind", "Which calls wait while another stream is behind a closed gate?",
     "those that synchronise the context or free memory wait; cutin drains before them", 60, NULL,
     fact_behind},
    {"depth", "How many launches does a stream take before the thread waits?", "about 1024", 30,
     NULL, fact_depth},
    {"queue_default", "Which other streams does a closed gate stop?",
     "those that share its hardware queue: some of many", 30, NULL, fact_queue},
    {"queue_1", "The same with one connection", "all of the same priority", 30, CONNECTIONS(1),
     fact_queue},
    {"queue_8", "The same with 8 connections", "as by default", 30, CONNECTIONS(8), fact_queue},
    {"queue_32", "The same with 32 connections", "fewer", 30, CONNECTIONS(32), fact_queue},
    {"yield", "Does a process that waits at a gate leave the GPU to another?",
     "yes: a process without a kernel to run gives the device up at once", 90, NULL, fact_yield},
    {"slice", "How long are time slices, and what does a context switch cost?",
     "about 2 ms; tens of microseconds", 60, NULL, fact_slice},
    {"short_slice", "How long does it wait if that process shortens its time slices?",
     "for such a slice and a switch, at no cost to a process that is alone", 90, NULL,
     fact_short_slice},
    {"across", "How long does a short kernel wait beside another process?",
     "for time slices natively; less under MPS", 90, NULL, fact_across},
};
enum { FACTS = sizeof(facts) / sizeof(facts[0]) };

static const char usage[] =
    "Usage: gpu-facts [OPTIONS]\n"
    "Asks the GPU and its driver what cutin's design assumes about them; prints one JSON object.\n"
    "Each fact runs in a process of its own and is killed when it hangs, which is a finding.\n\n"
    "  --only NAME   this fact; may be repeated (all)\n"
    "  --sim         on a simulated GPU of this run's own\n"
    "  --quick       few samples\n"
    "  --limit S     no fact may take longer than S seconds (as its row says)\n"
    "  --list        the facts, and what the design assumes\n"
    "  --help        this text\n\n"
    "Exit status: 0 when every fact was measured or skipped, 1 when one hung or failed, 2 for a\n"
    "mistyped command line.\n";

static bool simulated;
static unsigned int most_s = 600;

static void child_exec(const struct fact_run *run)
{
    execl("/proc/self/exe", "gpu-facts", "--worker", run->fact->name,
          fact_quick ? "--quick" : (char *)NULL, (char *)NULL);
}

/* ---- all facts ------------------------------------------------------------------------------- */

static json_t *fact_json(struct fact_run *run)
{
    json_t *why = json_incref(json_object_get(run->values, "why")), *object;

    json_object_del(run->values, "why");
    object = json_pack("{s:s, s:s?, s:s, s:f, s:o}", "question", run->fact->question, "assumed",
                       run->fact->assumed, "status", run->status, "seconds", run->seconds, "values",
                       run->values);
    if (why)
        json_object_set_new(object, "why", why);
    return object;
}

static int run_all(uint32_t chosen)
{
    json_t *all = json_object(), *root;
    bool sound = true;

    for (int i = 0; i < FACTS; i++) {
        struct fact_run run = {.fact = &facts[i], .child_exec = child_exec};

        if (!(chosen >> i & 1))
            continue;
        fact_run(&run, most_s);
        sound &= strcmp(run.status, "hung") != 0 && strcmp(run.status, "failed") != 0;
        fprintf(stderr, "%-16s %s (%.1f s)%s%s\n", run.fact->name, run.status, run.seconds,
                json_object_get(run.values, "why") ? ": " : "",
                json_object_get(run.values, "why")
                    ? json_string_value(json_object_get(run.values, "why"))
                    : "");
        json_object_set_new(all, run.fact->name, fact_json(&run));
    }
    root = json_pack("{s:s, s:b, s:b, s:o}", "version", CUTIN_VERSION, "simulated", simulated,
                     "quick", fact_quick, "facts", all);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
    return sound ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void list(void)
{
    for (int i = 0; i < FACTS; i++)
        printf("%-16s %s\n%-16s   assumed: %s\n", facts[i].name, facts[i].question, "",
               facts[i].assumed ? facts[i].assumed : "nothing");
}

/* Uses the simulated driver of the build, with a device for this run alone. */
static void use_simulator(void)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    char path[8192], manager[8300], id[32];
    ssize_t n = readlink("/proc/self/exe", path, 4096);
    char *slash;

    path[n > 0 ? n : 0] = '\0';
    slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, "../lib/simgpu");
    if (old && *old && strlen(path) + strlen(old) + 2 < sizeof(path))
        strcat(strcat(path, ":"), old);
    setenv("LD_LIBRARY_PATH", path, 1);
    snprintf(id, sizeof(id), "facts-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 0);
    simulated = true;
    /* Preloads its resource manager, which replaces the kernel's. */
    slash = strchr(path, ':');
    snprintf(manager, sizeof(manager), "%.*s/libsimgpu_rm.so",
             slash ? (int)(slash - path) : (int)strlen(path), path);
    if ((getenv("SIMGPU_RM") || getenv("SIMGPU_LIKE")) && access(manager, R_OK) == 0)
        setenv("LD_PRELOAD", manager, 1);
}

static const struct fact *find(const char *name)
{
    const struct fact *fact = fact_find(facts, FACTS, name);

    if (fact)
        return fact;
    fprintf(stderr, "gpu-facts: no fact is called %s (see --list)\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option table[] = {{"only", 1, NULL, 'o'},   {"sim", 0, NULL, 's'},
                                          {"quick", 0, NULL, 'q'},  {"list", 0, NULL, 'l'},
                                          {"limit", 1, NULL, 't'},  {"help", 0, NULL, 'h'},
                                          {"worker", 1, NULL, 'w'}, {0}};
    const struct fact *worker = NULL;
    uint32_t chosen = 0;

    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (c) {
        case 'o':
            chosen |= 1u << (find(optarg) - facts);
            break;
        case 's':
            use_simulator();
            break;
        case 'q':
            fact_quick = true;
            break;
        case 't':
            most_s = (unsigned int)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            list();
            return EXIT_SUCCESS;
        case 'h':
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        case 'w':
            worker = find(optarg);
            break;
        default:
            fputs("gpu-facts: see --help\n", stderr);
            return 2;
        }
    if (optind < argc) {
        fprintf(stderr, "gpu-facts: unexpected argument %s (see --help)\n", argv[optind]);
        return 2;
    }
    if (worker)
        fact_main(worker);
    return run_all(chosen ? chosen : (1u << FACTS) - 1);
}
