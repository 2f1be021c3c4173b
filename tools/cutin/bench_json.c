/*
 * bench_json.c - the figures of `cutin latency` as one JSON object.
 */
#include "bench.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Three digits behind the point: nanoseconds of a microsecond, and no noise of binary fractions. */
static json_t *number(double value)
{
    return json_real(round(value * 1000) / 1000);
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *modes_json(const struct bench *b)
{
    json_t *modes = json_object();

    for (int m = 0; m < BENCH_MODES; m++) {
        const struct figures *f = &b->mode[m].figures;
        json_t *mode;
        if (!bench_has(b, m))
            continue;
        mode = json_object();
#define PUT(field, heading, percent) put(mode, #field, number(f->field));
        FIGURES(PUT)
#undef PUT
        put(mode, "samples", json_integer((json_int_t)f->samples));
        put(modes, bench_mode_names[m], mode);
    }
    return modes;
}

static json_t *added_json(const struct bench *b)
{
    json_t *added = json_object();

    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++) {
        struct bench_added a = bench_added(b, m);
        if (bench_has(b, m) && bench_has(b, BENCH_ALONE))
            put(added, bench_mode_names[m],
                json_pack("{s:o, s:o}", "p50", number(a.p50_us), "p99", number(a.p99_us)));
    }
    return added;
}

static json_t *work_json(const struct bench_work *work)
{
    return json_pack("{s:o, s:I, s:o}", "kernels_per_s", number(bench_rate(work)), "kernels",
                     (json_int_t)work->kernels, "seconds", number((double)work->elapsed_ns / 1e9));
}

static json_t *be_json(const struct bench *b)
{
    const struct bench_work *native = &b->mode[BENCH_NATIVE].solo,
                            *cutin = &b->mode[BENCH_CUTIN].solo;
    json_t *be = json_object();

    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++) {
        char key[32];
        if (!bench_has(b, m))
            continue;
        put(be, bench_mode_names[m], work_json(&b->mode[m].shared));
        snprintf(key, sizeof(key), "%s_solo", bench_mode_names[m]);
        if (b->mode[m].solo.elapsed_ns)
            put(be, key, work_json(&b->mode[m].solo));
    }
    if (native->kernels && cutin->elapsed_ns)
        put(be, "cutin_ratio", number(bench_rate(cutin) / bench_rate(native)));
    if (b->checked)
        put(be, "checksum", json_string(b->identical ? "identical" : "DIFFERENT"));
    return be;
}

/* The processor's own name for itself; the architecture where /proc has none. */
static void cpu_name(char *out, size_t size, const struct utsname *system)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256], *value;

    snprintf(out, size, "%s", system->machine);
    while (file && fgets(line, sizeof(line), file)) {
        value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " ");
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, size, "%s", value);
        break;
    }
    if (file)
        fclose(file);
}

static json_t *machine_json(void)
{
    struct utsname system;
    char cpu[256];

    uname(&system);
    cpu_name(cpu, sizeof(cpu), &system);
    return json_pack("{s:s, s:i, s:s, s:s}", "cpu", cpu, "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN),
                     "kernel", system.release, "architecture", system.machine);
}

/* What may have changed the figures from outside. */
static json_t *environment_json(void)
{
    json_t *all = json_object();

    for (char **entry = environ; *entry; entry++) {
        char name[64];
        size_t length = strcspn(*entry, "=");
        if (length >= sizeof(name) || !(*entry)[length] ||
            (strncmp(*entry, "CUTIN_", 6) != 0 && strncmp(*entry, "SIMGPU_", 7) != 0 &&
             strncmp(*entry, "CUDA_", 5) != 0))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)length, *entry);
        put(all, name, json_string(*entry + length + 1));
    }
    return all;
}

static json_t *config_json(const struct bench *b)
{
    const struct bench_plan *p = &b->plan;
    json_t *modes = json_array();

    for (int m = 0; m < BENCH_MODES; m++)
        if (p->modes >> m & 1)
            json_array_append_new(modes, json_string(bench_mode_names[m]));
    return json_pack("{s:s, s:s, s:i, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:o, s:o, s:o}",
                     "version", CUTIN_VERSION, "gpu", b->gpu, "driver_version",
                     (int)b->driver_version, "simulated", p->sim || strstr(b->gpu, "simulated"),
                     "samples", (int)p->samples, "be_kernel_us", (int)p->be_kernel_us, "rt_kernels",
                     (int)p->rt_kernels, "rt_kernel_us", (int)p->rt_kernel_us, "gap_us",
                     (int)p->gap_us, "solo_ms", (int)p->solo_ms, "seed", (json_int_t)p->seed,
                     "modes", modes, "machine", machine_json(), "environment", environment_json());
}

int bench_print_json(const struct bench *b, FILE *out)
{
    json_t *root = json_pack("{s:o, s:o, s:o, s:b, s:o, s:o}", "modes", modes_json(b), "added_us",
                             added_json(b), "be", be_json(b), "interrupted", b->cancelled,
                             "seconds", number(b->seconds), "config", config_json(b));
    int rc = EXIT_FAILURE;

    if (root && json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0)
        rc = EXIT_SUCCESS;
    fputc('\n', out);
    json_decref(root);
    return rc;
}
