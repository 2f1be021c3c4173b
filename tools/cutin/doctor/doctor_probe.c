/*
 * doctor_probe.c - the processes of `cutin doctor` that open the driver. Each is a fact
 * (tools/facts): what is there, what it can do, what that costs, and whether a hold holds.
 */
#include "tools/cutin/subcommand.h"
#include "doctor.h"
#include "tools/cutin/progress.h"
#include "tools/facts/gpu.h"
#include "common/text.h"
#include "shim/lookup/elf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A first cuInit on a big machine takes seconds. */
enum { PATIENCE_S = 60, RETURNS_MS = 5000, HELD_MS = 30 };

/* ---- functions that this version does not know ----------------------------------------------
 *
 * The driver's own symbol table lists its functions. Those that only cuGetProcAddress hands out are
 * not in it: CUTIN_LOG=info says when a program asks for one. */

static const char known[] =
#define API_PASS(symbol, ...) #symbol " "
#define API_DRAIN             API_PASS
#define API_WRAP              API_PASS
#include "shim/lookup/api.def"
    ;

/* Gives the values "functions", "unknown" and "passing". */
static void functions_report(void)
{
    json_t *unknown = json_array();
    int functions = 0, passing = 0;
    struct elf_object driver;
    struct link_map *map;

    if (dlinfo(gpu.library, RTLD_DI_LINKMAP, &map) != 0 || !elf_open_map(&driver, map))
        return;
    for (size_t i = 0, n = elf_count(&driver); i < n; i++) {
        const ElfW(Sym) *symbol = &driver.symbols[i];
        const char *name = driver.strings + symbol->st_name;
        Dl_info info;

        if (symbol->st_shndx == SHN_UNDEF || (symbol->st_info & 0xf) != STT_FUNC ||
            strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z')
            continue;
        functions++;
        if (word_index(known, name) >= 0)
            continue;
        json_array_append_new(unknown, json_string(name));
        passing +=
            !dladdr(dlsym(gpu.library, name), &info) || !strstr(info.dli_fname, "libcutin.so");
    }
    fact_value("functions", json_integer(functions));
    fact_value("passing", json_integer(passing));
    fact_value("unknown", unknown);
}

void check_functions(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->preloaded;
    int unknown = (int)json_array_size(p->unknown);
    char names[200] = ""; /* as many as fit */
    const json_t *name;
    size_t i, used = 0;

    json_array_foreach(p->unknown, i, name)
    {
        if (used + json_string_length(name) + sizeof(" ...") > sizeof(names)) {
            strcat(names, "...");
            break;
        }
        used += (size_t)sprintf(names + used, "%s ", json_string_value(name));
    }
    if (p->stage < PROBE_DRIVER)
        finding_set(f, VERDICT_WARN, "see the check of the driver", "not checked");
    else if (unknown == 0)
        finding_set(f, VERDICT_OK, NULL, "this version knows all %d functions of the driver",
                    p->functions);
    else if (p->passing == 0)
        finding_set(
            f, VERDICT_NOTE, NULL,
            "this version does not know %d of %d functions; their calls wait for buffered work: %s",
            unknown, p->functions, names);
    else
        finding_set(
            f, VERDICT_WARN, "see the checks of preload and settings",
            "this version does not know %d of %d functions, and %d of them may overtake buffered "
            "work: %s",
            unknown, p->functions, p->passing, names);
}

static struct {
    CUresult (*hold)(CUstream), (*release)(CUstream);
    CUstream stream;
    CUfunction fill;
    struct word filled;
    atomic_bool launched;
    bool held, buffered;
} it;

static void driver_test(void)
{
    enum { MPS_ENABLED = 133 }; /* cuda.h since 12.4 */
    static const struct {
        const char *key;
        int attribute;
    } attributes[] = {{"major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
                      {"minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
                      {"processors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
                      {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
                      {"mps", MPS_ENABLED}};
    CUresult (*param_info)(CUfunction, size_t, size_t *, size_t *);
    const char *(*version)(void);
    size_t offset, size;
    char name[96] = "";
    Dl_info info;

    gpu_load();
    CU(cuDriverGetVersion, &gpu.version); /* works without a GPU */
    functions_report();
    *(void **)&version = dlsym(RTLD_DEFAULT, "cutin_version");
    *(void **)&it.hold = dlsym(RTLD_DEFAULT, "cutin_stream_hold");
    *(void **)&it.release = dlsym(RTLD_DEFAULT, "cutin_stream_release");
    if (version && it.hold && it.release) {
        fact_text("version", "%s", version());
        fact_flag("in_front", dladdr(dlsym(gpu.library, "cuLaunchKernel"), &info) &&
                                  strstr(info.dli_fname, "libcutin.so"));
    }
    fact_value("driver_version", json_integer(gpu.version));
    gpu_open();
    CU(cuDeviceGetName, name, sizeof(name), gpu.device);
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        fact_value(attributes[i].key,
                   json_integer(gpu_attribute((CUdevice_attribute)attributes[i].attribute)));
    /* A driver that has this function (CUDA 12.4) lets launches be copied. */
    *(void **)&param_info = dlsym(gpu.library, "cuFuncGetParamInfo");
    fact_flag("param_info", param_info && param_info(gpu.spin, 0, &offset, &size) == CUDA_SUCCESS);
    fact_text("gpu", "%s", name);
}

/* ---- under libcutin.so --------------------------------------------------------------------- */

/* Releases the stream a while after the launch returned, or was given 5 s to. */
static void *release_later(void *unused)
{
    for (int i = 0; i < RETURNS_MS && !atomic_load(&it.launched); i++)
        clock_sleep_us(1000);
    clock_sleep_us(HELD_MS * 1000);
    it.held = word_get(it.filled) == 0;
    it.buffered = atomic_load(&it.launched);
    it.release(it.stream);
    return NULL;
}

static CUresult launch_fill(uint32_t value)
{
    uint32_t n = 1;
    void *args[] = {&it.filled.device, &value, &n};

    return gpu.cuLaunchKernel(it.fill, 1, 1, 1, 32, 1, 1, 0, it.stream, args, NULL);
}

static void hold_test(void)
{
    pthread_t helper;
    CUresult result;

    driver_test();
    if (!it.hold)
        return;
    it.stream = stream_new();
    it.filled = word_new();
    CU(cuModuleGetFunction, &it.fill, gpu.module, "fill");
    for (int i = 0; i < 2; i++) /* the first launch of a kernel is not queued */
        gpu_check(launch_fill(0), "cuLaunchKernel");
    CU(cuStreamSynchronize, it.stream);
    result = it.hold(it.stream);
    fact_value("hold", json_integer(result));
    if (result != CUDA_SUCCESS)
        return;
    if (pthread_create(&helper, NULL, release_later, NULL) != 0)
        fact_fail("no thread");
    result = launch_fill(1);
    atomic_store(&it.launched, true);
    pthread_join(helper, NULL);
    gpu_check(result, "cuLaunchKernel");
    CU(cuStreamSynchronize, it.stream);
    fact_flag("held", it.held);
    fact_flag("buffered", it.buffered);
    fact_flag("released", word_get(it.filled) == 1);
}

/* ---- the processes ------------------------------------------------------------------------- */

static const struct fact facts[] = {
    {.name = "driver_test", .limit_s = PATIENCE_S, .run = driver_test},
    {.name = "cost", .limit_s = PATIENCE_S, .run = fact_cost},
    {.name = "page", .limit_s = PATIENCE_S, .run = fact_page},
    {.name = "slice", .limit_s = PATIENCE_S, .run = fact_slice},
    {.name = "suspend", .limit_s = PATIENCE_S, .run = fact_suspend},
    {.name = "gates", .limit_s = PATIENCE_S, .run = fact_gates},
    {.name = "hold", .limit_s = PATIENCE_S, .run = hold_test},
};
enum { DRIVER_TEST, COST, PAGE, SLICE, SUSPEND, GATES, HOLD, FACTS };

int probe_main(const char *name)
{
    const struct fact *fact = fact_find(facts, FACTS, name);

    fact_quick = true;
    if (fact)
        fact_main(fact);
    return EXIT_USAGE;
}

static void child_exec(const struct fact_run *run)
{
    const struct doctor *d = run->user;
    bool under = run->fact == &facts[HOLD];
    char id[32];
    const struct variable rows[] = {{"SIMGPU_ID", d->sim ? id : NULL},
                                    {"CUTIN_PRIORITY", under ? "be" : NULL},
                                    {"CUTIN_PROFILE", under ? "off" : NULL},
                                    {"CUTIN_SOCKET", under ? "" : NULL},
                                    {0}};

    snprintf(id, sizeof(id), "doctor-%d", (int)getppid());
    if (environment_setup(rows, under ? d->paths.library : NULL,
                          d->sim ? d->paths.simulator : NULL) == 0)
        execl(d->paths.self, "cutin", "doctor", "--worker", run->fact->name, (char *)NULL);
}

static bool show(void)
{
    progress_show(0, 0, "the driver");
    return !progress_cancel;
}

/* Adds what the fact found to the rest. False: the fact did not run to its end. */
static bool ask(const struct doctor *d, int fact, json_t *values)
{
    struct fact_run run = {
        .fact = &facts[fact], .child_exec = child_exec, .may_continue = show, .user = d};

    fact_run(&run, PATIENCE_S);
    if (strcmp(run.status, "measured") != 0 && strcmp(run.status, "skipped") != 0)
        json_object_set_new(run.values, "unsure", json_true());
    if (strcmp(run.status, "hung") == 0)
        json_object_set_new(run.values, "why",
                            json_sprintf("the driver did not answer for %d s", PATIENCE_S));
    json_object_update(values, run.values);
    json_decref(run.values);
    return strcmp(run.status, "measured") == 0;
}

static void take(struct probe *p, bool measured)
{
    int opens = true;

    json_unpack(p->values, "{s?s, s?i, s?s, s?i, s?i, s?i, s?i, s?i, s?b}", "why", &p->why,
                "driver_version", &p->driver_version, "gpu", &p->gpu, "major", &p->major, "minor",
                &p->minor, "processors", &p->processors, "compute_mode", &p->compute_mode, "mps",
                &p->mps, "param_info", &p->param_info);
    json_unpack(p->values, "{s?F, s?{s:F}, s?{s:F}, s?{s:F}, s?F, s?s, s?b, s?b, s?{s:F}}",
                "marker_late_us", &p->marker_late_us, "launch_host_us", "p50", &p->launch_us,
                "marker_host_us", "p50", &p->marker_us, "batch_marker_gate_host_us", "p50",
                &p->gate_us, "batch_marker_gate_stream_us", &p->gate_device_us, "register",
                &p->registration, "gate_holds", &p->gate_holds, "gate_opens", &opens,
                "write_to_marker_us", "p50", &p->gate_open_us);
    json_unpack(p->values, "{s?{s:F}, s?F}", "own_run_us", "p50", &p->slice_us, "context_switch_us",
                &p->switch_us);
    json_unpack(p->values, "{s?i, s?i, s?o, s?s, s?b, s?i, s?b, s?b, s?b}", "functions",
                &p->functions, "passing", &p->passing, "unknown", &p->unknown, "version",
                &p->version, "in_front", &p->in_front, "hold", &p->hold, "held", &p->held,
                "buffered", &p->buffered, "released", &p->released);
    if (!opens)
        p->gate_open_us = 1e6; /* or more */
    p->stage = !p->driver_version ? PROBE_NONE
               : !p->gpu[0]       ? PROBE_DRIVER
               : !measured        ? PROBE_GPU
                                  : PROBE_MEASURED;
}

void probe_run(struct doctor *d)
{
    struct probe none = {.why = "not tried", .gpu = "", .mps = -1, .gate_holds = -1};
    bool there;

    d->bare = d->preloaded = none;
    d->bare.values = json_object();
    d->preloaded.values = json_object();
    there = ask(d, DRIVER_TEST, d->bare.values);
    for (int fact = COST; fact < SLICE && there; fact++)
        ask(d, fact, d->bare.values);
    take(&d->bare, false);
    /* This fact has two processes that take turns on the GPU. */
    there &= d->bare.compute_mode == CU_COMPUTEMODE_DEFAULT;
    take(&d->bare, there && ask(d, SLICE, d->bare.values));
    if (there) {
        d->suspend.values = json_object();
        ask(d, SUSPEND, d->suspend.values);
        suspend_save(&d->suspend);
    }
    take(&d->preloaded, ask(d, HOLD, d->preloaded.values));
}
