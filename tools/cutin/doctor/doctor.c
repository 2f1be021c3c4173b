/*
 * doctor.c - `cutin doctor`: checks whether holds work here, and what they cost.
 *
 * Each check of the table is a function from what is known to a verdict, a line and a remedy. It
 * fails where holds would not be effective. It warns of what costs time or hides something.
 */
#include "doctor.h"
#include "tools/cutin/subcommand.h"
#include "tools/cutin/daemon.h"
#include "tools/cutin/progress.h"

#include <cuda.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/record.h"

/* As in shim/objects/word.c, the least delay counts: a busy machine does not delay all markers. */
enum { MARKER_LATE_US = 200 };

static struct doctor asked;
static const char *worker;
static bool json;

static const struct option_row options[] = {
    {"sim", NULL, "check the simulated GPU", TAKE_FLAG(asked.sim)},
    DAEMON_SOCKET_OPTION,
    {"again", NULL, "test again whether gates hold, even if that is recorded",
     TAKE_FLAG(asked.again)},
    {"for-all", NULL,
     "record the results for all users of this machine (as root, in\n" RECORD_MACHINE_FOLDER ")",
     TAKE_FLAG(asked.for_all)},
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(json)},
    {"worker", "KIND", NULL, TAKE_TEXT(worker)},
    {0},
};

static const char *const verdict_names[] = {[VERDICT_OK] = "ok",
                                            [VERDICT_NOTE] = "note",
                                            [VERDICT_WARN] = "warning",
                                            [VERDICT_FAIL] = "failed"};

void finding_set(struct finding *f, enum verdict verdict, const char *remedy, const char *format,
                 ...)
{
    va_list args;

    f->verdict = verdict;
    snprintf(f->remedy, sizeof(f->remedy), "%s", remedy ? remedy : "");
    va_start(args, format);
    vsnprintf(f->detail, sizeof(f->detail), format, args);
    va_end(args);
}

/* ---- checks of the GPU --------------------------------------------------------------------- */

void check_driver(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;
    int major = p->driver_version / 1000, minor = p->driver_version % 1000 / 10;

    if (p->stage < PROBE_DRIVER)
        finding_set(
            f, VERDICT_FAIL,
            "install an NVIDIA driver for CUDA 12.0 or newer; --sim checks the simulated GPU", "%s",
            p->why);
    else if (p->stage >= PROBE_GPU && !p->param_info)
        finding_set(
            f, VERDICT_WARN, "use a driver of CUDA 12.4 or newer to queue launches",
            "CUDA %d.%d: it does not report the layout of parameters, so held launches block "
            "their thread",
            major, minor);
    else
        finding_set(f, VERDICT_OK, NULL, "CUDA %d.%d", major, minor);
}

void check_gpu(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;

    if (p->stage < PROBE_DRIVER)
        finding_set(f, VERDICT_FAIL, "see the check of the driver", "not tried");
    else if (p->stage < PROBE_GPU)
        finding_set(
            f, VERDICT_FAIL,
            "check that nvidia-smi shows a GPU; a container must be started with it; --sim checks "
            "the simulated GPU",
            "%s", p->why);
    else if (p->compute_mode != CU_COMPUTEMODE_DEFAULT)
        finding_set(f, VERDICT_FAIL, "as root: nvidia-smi -c DEFAULT",
                    "%s admits only one process (its compute mode is not the default)", p->gpu);
    else if (p->major < 6)
        finding_set(f, VERDICT_FAIL, "use a GPU of the Pascal generation or newer",
                    "%s has compute capability %d.%d", p->gpu, p->major, p->minor);
    else
        finding_set(f, VERDICT_OK, NULL, "%s, compute capability %d.%d, %d multiprocessors", p->gpu,
                    p->major, p->minor, p->processors);
}

void check_preload(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->preloaded;

    if (!d->paths.library[0])
        finding_set(f, VERDICT_FAIL, "install libcutin.so beside cutin", "there is no libcutin.so");
    else if (p->stage < PROBE_DRIVER)
        finding_set(f, VERDICT_FAIL, "see the check of the driver; CUTIN_LOG=debug says more",
                    "under libcutin.so: %s", p->why);
    else if (!p->version)
        finding_set(f, VERDICT_FAIL,
                    "preload is ignored in set-user-id programs and static ones; see ld.so(8)",
                    "LD_PRELOAD=%.200s did not reach the process", d->paths.library);
    else if (!p->in_front)
        finding_set(f, VERDICT_FAIL, "remove other libraries that wrap libcuda from LD_PRELOAD",
                    "libcutin.so is loaded, but another library intercepts the driver before it");
    else if (strcmp(p->version, CUTIN_VERSION) != 0)
        finding_set(f, VERDICT_WARN, "install one version of both",
                    "libcutin.so is version %s, this command " CUTIN_VERSION, p->version);
    else
        finding_set(f, VERDICT_OK, NULL, "libcutin.so " CUTIN_VERSION " interposes on the driver");
}

void check_hold(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->preloaded;

    if (!p->version || p->stage < PROBE_GPU)
        finding_set(f, VERDICT_FAIL, "see the checks of preload and GPU", "not tried");
    else if (p->hold != CUDA_SUCCESS)
        finding_set(f, VERDICT_FAIL, "see the check of the settings",
                    "a best-effort stream cannot be held (CUDA error %d)", p->hold);
    else if (p->stage < PROBE_MEASURED)
        finding_set(f, VERDICT_FAIL, "CUTIN_LOG=debug says more", "%s", p->why);
    else if (!p->held || !p->released)
        finding_set(f, VERDICT_FAIL, "CUTIN_LOG=debug says more; please report it",
                    p->held ? "work on a released stream did not run"
                            : "work on a held stream ran");
    else if (!p->buffered)
        finding_set(f, VERDICT_WARN, "see the checks of driver and settings",
                    "a held launch blocked its thread: it could not be queued");
    else
        finding_set(f, VERDICT_OK, NULL,
                    "a held kernel waits in its queue, and runs when released");
}

void check_memops(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;

    if (p->launch_us <= 0)
        finding_set(f, VERDICT_WARN, "see the check of the GPU", "not measured: %s", p->why);
    else if (p->marker_late_us > MARKER_LATE_US)
        finding_set(
            f, VERDICT_NOTE, NULL,
            "markers arrive %.0f us late, if at all: cutin learns of completion from events and "
            "uses no gates",
            p->marker_late_us);
    else if (p->gate_us > 0)
        finding_set(f, VERDICT_OK, NULL,
                    "the GPU writes markers and waits at gates in stream order");
    else if (p->marker_us > 0)
        finding_set(
            f, VERDICT_WARN, "use a driver of CUDA 11.7 or newer, which has them",
            "no batches of memory operations: there are no gates, only host queues hold work");
    else
        finding_set(f, VERDICT_WARN,
                    "load the kernel module with NVreg_EnableStreamMemOPs=1, or update the driver",
                    "no stream memory operations: markers are events, which cost more; no gates");
}

void check_registration(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;

    if (!p->registration)
        finding_set(f, VERDICT_WARN, "see the check of the GPU", "not measured: %s", p->why);
    else if (strcmp(p->registration, "success") == 0)
        finding_set(f, VERDICT_OK, NULL, "the GPU reads hold words from the shared page itself");
    else
        finding_set(f, VERDICT_WARN, "allow memory to be locked (ulimit -l), also in containers",
                    "a shared page cannot be registered (%s): gates read a copy of the hold "
                    "words, which the dispatcher keeps",
                    p->registration);
}

void check_costs(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;

    if (p->launch_us <= 0)
        finding_set(f, VERDICT_WARN, "see the check of the GPU", "not measured");
    else if (p->marker_us <= 0)
        finding_set(f, VERDICT_NOTE, NULL, "launch %.2f us", p->launch_us);
    else
        finding_set(f, VERDICT_OK, NULL,
                    "launch %.2f us, marker %.2f us, marker and gate %.2f us of the calling thread",
                    p->launch_us, p->marker_us, p->gate_us);
}

/* Short kernels have a gate every 50 us: one that takes over 5 us costs a tenth of the device. */
void check_gate(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;
    bool cheap = p->gate_device_us < 5;

    if (p->gate_us <= 0)
        finding_set(f, VERDICT_NOTE, NULL, "not available here");
    else if (p->gate_holds < 0)
        finding_set(f, VERDICT_WARN, "see the check of the GPU", "not measured: %s", p->why);
    else if (!p->gate_holds)
        finding_set(f, VERDICT_WARN, "run with CUTIN_GATES=off; please report it",
                    "a closed gate let work through");
    else
        finding_set(f, p->gate_open_us < 1e3 && cheap ? VERDICT_OK : VERDICT_WARN,
                    !cheap                  ? "run with CUTIN_GATES=off if jobs are too slow"
                    : p->gate_open_us < 1e3 ? NULL
                                            : "run with CUTIN_GATES=off if that stays so",
                    "holds its stream, opens in %.0f us, costs the stream %.2f us while open",
                    p->gate_open_us, p->gate_device_us);
}

enum { SWITCH_MOST_US = 200 }; /* the budget: a request should wait for no more than that */

void check_time_slice(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;

    if (p->slice_us > 0 && p->switch_us < 0)
        finding_set(f, VERDICT_NOTE, NULL,
                    "time slices of %.2f ms; this machine is too busy to tell what a switch costs",
                    p->slice_us / 1e3);
    else if (p->slice_us > 0)
        finding_set(
            f, p->switch_us < SWITCH_MOST_US ? VERDICT_OK : VERDICT_NOTE, NULL,
            "time slices of %.2f ms, a switch costs %.0f us%s", p->slice_us / 1e3, p->switch_us,
            p->switch_us < SWITCH_MOST_US ? "" : ": work beside others waits at least that long");
    else if (p->stage == PROBE_MEASURED)
        finding_set(f, VERDICT_NOTE, NULL, "two busy contexts were not seen to get time slices");
    else
        finding_set(f, VERDICT_WARN, "see the check of the GPU", "not measured: %s", p->why);
}

/* ---- the verdicts -------------------------------------------------------------------------- */

static const struct check {
    const char *name;
    void (*run)(const struct doctor *d, struct finding *f);
    bool needs_gpu;
    const char *remedy; /* if there is no GPU */
} checks[] = {
#define CHECK_ROW(name, ...) {#name, check_##name, __VA_ARGS__},
    DOCTOR_CHECKS(CHECK_ROW)
#undef CHECK_ROW
};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static int print_json(const struct doctor *d, const struct finding *found, bool effective)
{
    const struct probe *p = &d->bare;
    const struct {
        const char *name;
        double us;
    } figures[] = {{"launch_us", p->launch_us},
                   {"marker_us", p->marker_us},
                   {"gate_us", p->gate_us},
                   {"gate_device_us", p->gate_device_us},
                   {"gate_open_us", p->gate_open_us},
                   {"time_slice_us", p->slice_us},
                   {"context_switch_us", p->switch_us}};
    json_t *measured = json_object(), *list = json_array();

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        json_object_set_new(measured, figures[i].name,
                            figures[i].us > 0 ? json_real(figures[i].us) : json_null());
    for (size_t i = 0; i < CHECKS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", checks[i].name,
                                              "verdict", verdict_names[found[i].verdict], "detail",
                                              found[i].detail, "remedy", found[i].remedy));
    return print_object(
        json_pack("{s:b, s:b, s:s, s:b, s:s, s:i, s:o, s:o, s:o}", "holds_effective", effective,
                  "interrupted", (int)progress_cancel, "version", CUTIN_VERSION, "simulated",
                  d->sim, "gpu", p->gpu, "driver_version", p->driver_version, "measured", measured,
                  "unknown_functions",
                  d->preloaded.unknown ? json_incref(d->preloaded.unknown) : json_array(), "checks",
                  list),
        JSON_REAL_PRECISION(6));
}

static int run(const struct subcommand *cmd, int argc, char **argv)
{
    static struct finding found[CHECKS];
    bool effective = true;

    options_read(cmd, argc, argv);
    if (worker)
        return probe_main(worker);
    options_no_operands(cmd, argc, argv);
    paths_find(&asked.paths);
    if (asked.sim && !asked.paths.simulator[0])
        return say(cmd, "the simulated driver is not installed beside cutin");
    progress_begin();
    probe_run(&asked);
    for (size_t i = 0; i < CHECKS; i++) {
        if (checks[i].needs_gpu && asked.bare.stage < PROBE_GPU)
            finding_set(&found[i], checks[i].remedy ? VERDICT_WARN : VERDICT_NOTE, checks[i].remedy,
                        "not tried");
        else
            checks[i].run(&asked, &found[i]);
        effective &= found[i].verdict != VERDICT_FAIL;
    }
    progress_end();
    if (progress_cancel)
        say(cmd, "interrupted; the verdicts cover what was checked");
    for (size_t i = 0; i < CHECKS && !json; i++) {
        printf("%-8s %-13s %s\n", verdict_names[found[i].verdict], checks[i].name, found[i].detail);
        if (found[i].remedy[0])
            printf("%-8s %-13s -> %s\n", "", "", found[i].remedy);
    }
    if (json && print_json(&asked, found, effective) != EXIT_SUCCESS)
        effective = false;
    else if (!json && progress_cancel)
        printf("\nNot everything was checked.\n");
    else if (!json)
        printf("\nHolds are %seffective here.\n", effective ? "" : "NOT ");
    json_decref(asked.bare.values);
    json_decref(asked.preloaded.values);
    json_decref(asked.suspend.values);
    return effective ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct subcommand subcommand_doctor = {
    .name = "doctor",
    .summary = "check that cutin works here, and what it costs",
    .synopsis = "[--sim] [--socket PATH] [--again] [--json]",
    .about = "Looks at the driver, the GPU, the preload, the daemon and the system, measures what\n"
             "launches, markers and gates cost, and says what to do about what it finds. Exits 1\n"
             "when something makes holds ineffective.",
    .options = options,
    .run = run,
};
