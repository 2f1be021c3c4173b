/*
 * simconfig.c - the SIMGPU_* variables: one table of names, ranges and defaults. For a value out of
 * range, or a SIMGPU_ name that is not in the table, there is one message on stderr, and the
 * default holds. The variable then leaves the environment. Otherwise the simulated NVML of the
 * process and the programs that it starts would say the same again.
 */
#include "tools/simgpu/face/simconfig.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

enum type { INTEGER, REAL, SWITCH, CHOICE, WORD, PATH, FAULT };

struct variable {
    const char *name; /* without SIMGPU_ */
    enum type type;
    size_t offset;
    double least, most, standard; /* for numbers */
    const char *text;             /* the default of words; of choices all, the default first */
};

#define AT(field) offsetof(struct sim_config, field)
static const struct variable variables[] = {
    {"LIKE", CHOICE, AT(like), 0, 0, 0, "ideal h100-580 hostile"},
    {"ID", WORD, AT(id), 0, 0, 0, "default"},
    {"DEVICES", INTEGER, AT(devices), 1, 8, 1, NULL},
    {"COMPUTE", CHOICE, AT(compute), 0, 0, 0, "8.0 8.6"},
    {"SMS", INTEGER, AT(sms), 1, 1024, 108, NULL},
    {"SM_SHARE", INTEGER, AT(sm_share), 1, 100, 100, NULL},
    {"MEMORY_PERCENT", INTEGER, AT(memory_percent), 0, 10000, 0, NULL},
    {"LINK_PERCENT", INTEGER, AT(link_percent), 50, 100, 90, NULL},
    {"WITHIN_GBPS", INTEGER, AT(within_gbps), 1, 10000, 25, NULL},
    {"SPEED", REAL, AT(speed), 0.001, 1000, 1, NULL},
    {"TIMESLICE_US", INTEGER, AT(timeslice_us), 50, 1000000, 2000, NULL},
    {"SWITCH_US", INTEGER, AT(switch_us), 0, 100000, 20, NULL},
    {"LAUNCH_NS", INTEGER, AT(launch_ns), 0, 10000000, 1500, NULL},
    {"LOAD_US", INTEGER, AT(load_us), 0, 1000000, 0, NULL},
    {"EVENT_NS", INTEGER, AT(event_ns), 0, 1000000, 0, NULL},
    {"DEPTH", INTEGER, AT(depth), 0, 1024, 0, NULL},
    {"FULL_LOCKS", SWITCH, AT(full_locks), 0, 1, 0, NULL},
    {"MEM_MB", INTEGER, AT(mem_mb), 16, 1048576, 16384, NULL},
    {"KERNEL_US", INTEGER, AT(kernel_us), 0, 10000000, 10, NULL},
    {"GARBAGE", INTEGER, AT(garbage), 0, 255, 0, NULL},
    {"DRIVER_VERSION", INTEGER, AT(driver_version), 11000, 13990, 13000, NULL},
    {"WRITE_NS", INTEGER, AT(write_ns), 0, 1000000, 500, NULL},
    {"WAIT_NS", INTEGER, AT(wait_ns), 0, 1000000, 800, NULL},
    {"GRAPH_WAIT_NS", INTEGER, AT(graph_wait_ns), 0, 1000000, 0, NULL},
    {"WORD_LATE_US", INTEGER, AT(word_late_us), 0, 10000000, 0, NULL},
    {"ACQUIRE_YIELDS", SWITCH, AT(acquire_yields), 0, 1, 1, NULL},
    {"ACQUIRE_LIMIT_MS", INTEGER, AT(acquire_limit_ms), 0, 10000000, 0, NULL},
    {"POLL_US", INTEGER, AT(poll_us), 1, 1000000, 20, NULL},
    {"HOST_REGISTER", SWITCH, AT(host_register), 0, 1, 1, NULL},
    {"IO_MEMORY", SWITCH, AT(io_memory), 0, 1, 1, NULL},
    {"MEMOPS", SWITCH, AT(memops), 0, 1, 1, NULL},
    {"WAITS", CHOICE, AT(waits), 0, 0, 0, "honour pass stick"},
    {"PEERS", SWITCH, AT(peers), 0, 1, 1, NULL},
    {"RM", CHOICE, AT(rm), 0, 0, 0, "off accept ignore refuse timeslice"},
    {"RM_VERSION", WORD, AT(rm_version), 0, 0, 0, "580.65.06"},
    {"PREEMPT_US", INTEGER, AT(preempt_us), 0, 100000, 40, NULL},
    {"CLOCK", CHOICE, AT(clock), 0, 0, 0, "host step"},
    {"NULL", SWITCH, AT(null_mode), 0, 1, 0, NULL},
    {"DATA", SWITCH, AT(data), 0, 1, 1, NULL},
    {"LOG", PATH, AT(log), 0, 0, 0, ""},
    {"KERNEL_TIMES", PATH, AT(kernel_times), 0, 0, 0, ""},
    {"FAULT", FAULT, AT(fault_kernel), 0, 0, 0, ""},
};
enum { VARIABLES = sizeof(variables) / sizeof(*variables) };
/* In the order of the variable's words, from "Technical Specifications per Compute Capability" of
 * the CUDA C++ Programming Guide. Both have the same registers, block and grid sizes. */
static const struct sim_compute computes[] = {
    {80, 2048, 32, 164 << 10, 163 << 10},
    {86, 1536, 16, 100 << 10, 99 << 10},
};
/* One default that a word of SIMGPU_LIKE sets. */
struct like {
    const char *name; /* NULL: the end */
    double value;
};
/* As measured on an H100 (docs/results/h100). */
static const struct like h100_580[] = {
    {"SMS", 132},       {"TIMESLICE_US", 2085}, {"SWITCH_US", 220},       {"LAUNCH_NS", 3300},
    {"WRITE_NS", 1700}, {"WAIT_NS", 950},       {"RM", SIM_RM_TIMESLICE}, {"PREEMPT_US", 2300},
    {NULL, 0},
};
/* Of each the worst that was seen or is to be feared, as far as CUDA's promises hold. */
static const struct like hostile[] = {
    {"SM_SHARE", 25},
    {"LINK_PERCENT", 50},
    {"TIMESLICE_US", 10000},
    {"SWITCH_US", 500},
    {"LAUNCH_NS", 10000},
    {"LOAD_US", 100000},
    {"EVENT_NS", 6000},
    {"DEPTH", 256},
    {"FULL_LOCKS", 1},
    {"WRITE_NS", 10000},
    {"WAIT_NS", 5000},
    {"GRAPH_WAIT_NS", 50000},
    {"WORD_LATE_US", 2000},
    {"ACQUIRE_YIELDS", 0},
    {"ACQUIRE_LIMIT_MS", 30000},
    {"POLL_US", 100},
    {"HOST_REGISTER", 0},
    {"PEERS", 0},
    {"PREEMPT_US", 2300},
    {NULL, 0},
};

static const char prefix[] = "SIMGPU_";
enum { PATH_ROOM = sizeof(((struct sim_config *)0)->log) };
static_assert(PATH_ROOM == sizeof(((struct sim_config *)0)->kernel_times), "paths are alike");

static struct sim_config config;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *field_of(const struct variable *v)
{
    return (char *)&config + v->offset;
}

static void number_set(const struct variable *v, double value)
{
    if (v->type == REAL)
        *(double *)field_of(v) = value;
    else if (v->type == SWITCH)
        *(bool *)field_of(v) = value != 0;
    else
        *(int *)field_of(v) = (int)value;
}

static double number_now(const struct variable *v)
{
    if (v->type == REAL)
        return *(const double *)field_of(v);
    return v->type == SWITCH ? *(const bool *)field_of(v) : *(const int *)field_of(v);
}

static bool number_read(const struct variable *v, const char *text)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    bool fits =
        *text != '\0' && *end == '\0' && errno == 0 && value >= v->least && value <= v->most;
    if (fits && (v->type == REAL || value == (double)(long long)value)) {
        number_set(v, value);
        return true;
    }
    fprintf(stderr, "simgpu: SIMGPU_%s=%s is not a %snumber from %.10g to %.10g; using %.10g\n",
            v->name, text, v->type == REAL ? "" : "whole ", v->least, v->most, number_now(v));
    return false;
}

/* Checks the id, which becomes part of a file name in /dev/shm. */
static bool word_read(const struct variable *v, const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strlen(text);
    if (length > 0 && length < sizeof(config.id) && strspn(text, allowed) == length) {
        memcpy(field_of(v), text, length + 1);
        return true;
    }
    fprintf(stderr,
            "simgpu: SIMGPU_%s=%s is not a word of 1 to %zu letters, digits, '_', '.', '-'; using "
            "%s\n",
            v->name, text, sizeof(config.id) - 1, v->text);
    return false;
}

/* The index of the word; -1: it is none of them. */
static int choice_of(const struct variable *v, const char *text)
{
    size_t length = strlen(text);
    const char *word = v->text;
    for (int i = 0; length && *word; i++, word += *word == ' ') {
        size_t end = strcspn(word, " ");
        if (end == length && memcmp(word, text, length) == 0)
            return i;
        word += end;
    }
    return -1;
}

static bool choice_read(const struct variable *v, const char *text)
{
    int i = choice_of(v, text);
    if (i >= 0) {
        *(int *)field_of(v) = i;
        return true;
    }
    fprintf(stderr, "simgpu: SIMGPU_%s=%s is not one of %s; using %.*s\n", v->name, text, v->text,
            (int)strcspn(v->text, " "), v->text);
    return false;
}

static bool path_read(const struct variable *v, const char *text)
{
    size_t length = strlen(text);
    if (length < PATH_ROOM) {
        memcpy(field_of(v), text, length + 1);
        return true;
    }
    fprintf(stderr, "simgpu: SIMGPU_%s is longer than %d characters; it is not used\n", v->name,
            PATH_ROOM - 1);
    return false;
}

static bool fault_read(const struct variable *v, const char *text)
{
    int nth = 0, error = 0, end = 0;
    char kernel[sizeof(config.fault_kernel)];
    int got = sscanf(text, "kernel=%2047[^:]:nth=%d:error=%d%n", kernel, &nth, &error, &end);
    if (*text == '\0')
        return true;
    if (got != 3 || text[end] != '\0' || nth < 1 || error < 1 || error > 999) {
        fprintf(stderr,
                "simgpu: SIMGPU_%s=%s is not kernel=NAME:nth=N:error=CODE; no fault is injected\n",
                v->name, text);
        return false;
    }
    memcpy(config.fault_kernel, kernel, sizeof(kernel));
    config.fault_nth = nth;
    config.fault_error = error;
    return true;
}

static void variable_standard(const struct variable *v)
{
    if (v->type == CHOICE)
        *(int *)field_of(v) = 0;
    else if (v->text)
        memcpy(field_of(v), v->text, strlen(v->text) + 1);
    else
        number_set(v, v->standard);
}

/* False: the value makes no sense, and a message has said so. */
static bool variable_read(const struct variable *v, const char *text)
{
    static bool (*const readers[])(const struct variable *v, const char *text) = {
        [INTEGER] = number_read, [REAL] = number_read, [SWITCH] = number_read,
        [CHOICE] = choice_read,  [WORD] = word_read,   [PATH] = path_read,
        [FAULT] = fault_read,
    };
    return readers[v->type](v, text);
}

static const struct variable *variable_find(const char *name)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (strcmp(variables[i].name, name) == 0)
            return &variables[i];
    return NULL;
}

/* To be called before the other variables are read, which override it. */
static void like_read(void)
{
    const char *text = getenv("SIMGPU_LIKE");
    int like = text ? choice_of(variable_find("LIKE"), text) : LIKE_IDEAL;
    if (like <= LIKE_IDEAL)
        return;
    for (const struct like *l = like == LIKE_HOSTILE ? hostile : h100_580; l->name; l++)
        number_set(variable_find(l->name), l->value);
}

/* Reads CUDA's own variable, with its bounds. */
static void connections_read(void)
{
    enum { STANDARD = 8, MOST = SIM_CONNECTIONS };
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    long n = text ? strtol(text, NULL, 10) : STANDARD;
    config.connections = n < 1 ? STANDARD : n > MOST ? MOST : (int)n;
}

/* False: it is not used, and a message has said so. */
static bool setting_read(const char *name, const char *text)
{
    const struct variable *v = variable_find(name);
    if (v)
        return variable_read(v, text);
    fprintf(stderr, "simgpu: %s%s is not a variable of the simulated driver; ignored\n", prefix,
            name);
    return false;
}

/* In the library of the stepped clock (clock/). NULL if that is not preloaded. */
extern uint64_t simgpu_clock_lost(void) __attribute__((weak));

static void config_read(void)
{
    for (size_t i = 0; i < VARIABLES; i++)
        variable_standard(&variables[i]);
    like_read();
    connections_read();
    for (char **e = environ; e && *e;) {
        char *entry = *e, name[64];
        const char *text = strchr(entry, '=');
        if (text && strncmp(entry, prefix, sizeof(prefix) - 1) == 0) {
            snprintf(name, sizeof(name), "%.*s", (int)(text - entry), entry);
            if (!setting_read(name + sizeof(prefix) - 1, text + 1))
                unsetenv(name); /* the next one has moved here */
        }
        e += *e == entry;
    }
    if (config.clock && !simgpu_clock_lost)
        fprintf(stderr,
                "simgpu: SIMGPU_CLOCK=step needs libsimgpu_clock.so preloaded; the clock is "
                "the machine's\n");
}

const struct sim_config *simconfig_get(void)
{
    pthread_once(&once, config_read);
    return &config;
}

const struct sim_compute *simconfig_compute(void)
{
    return &computes[simconfig_get()->compute];
}
