/*
 * gates.c - asks the GPU once whether gates work (see run.h).
 *
 * A stamp file says that this was done. What may change the answer is in its name, because the key
 * of the records cannot be known without a driver call.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/profile_file.h"
#include "common/text.h"
#include "tools/facts/fact.h"

/* A first cuInit on a big machine takes seconds. */
enum { LIMIT_S = 10 * FACT_SLOWER, DEVICES = 16, AGAIN_S = 3600 };

static void stamp_path(char out[PROFILE_PATH + 32], const char *folder, const struct paths *paths,
                       bool sim)
{
    char driver[64], text[PATH_MAX + 128];
    DIR *gpus = opendir("/proc/driver/nvidia/gpus");
    static const char *const names[] = {
        "CUDA_VISIBLE_DEVICES=",   "CUDA_DEVICE_ORDER=", "CUDA_MPS_PIPE_DIRECTORY=",
        "NVIDIA_VISIBLE_DEVICES=", "LD_LIBRARY_PATH=",   "SIMGPU_"};
    static const char *const not[] = {
        "SIMGPU_ID=", "SIMGPU_LOG=", "SIMGPU_FAULT=", "SIMGPU_CLOCK="};
    uint64_t key = 0;

    for (char **entry = environ; *entry; entry++) {
        bool counts = false;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            counts |= strncmp(*entry, names[i], strlen(names[i])) == 0;
        for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++)
            counts &= strncmp(*entry, not[i], strlen(not[i])) != 0;
        if (counts)
            key += text_hash(*entry);
    }

    /* Added up, because their order is not defined. */
    for (struct dirent *e; gpus && (e = readdir(gpus));)
        key += text_hash(e->d_name);
    if (gpus)
        closedir(gpus);
    record_version(driver, 0);
    snprintf(text, sizeof(text), "%llx %s " CUTIN_VERSION " %s", (unsigned long long)key, driver,
             sim ? paths->simulator : "");
    snprintf(out, PROFILE_PATH + 32, "%s/asked-%016llx", folder,
             (unsigned long long)text_hash(text));
}

/* One with content (gates were not seen to work) counts for AGAIN_S: the machine may be busy. */
static bool stamped(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && (st.st_size == 0 || time(NULL) - st.st_mtime < AGAIN_S);
}

struct asked {
    const struct paths *paths;
    bool sim;
    int device;
};

/* The program's user must not notice this: it writes nothing to standard error, no profiler sees
 * it, and it does not use the simulated device that the program will have. */
static void child_exec(const struct fact_run *run)
{
    const struct asked *a = run->user;
    char id[32], device[32];
    const struct variable rows[] = {{"SIMGPU_ID", id}, {"FACT_DEVICE", device}, {0}};
    int null = open("/dev/null", O_RDWR);

    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    unsetenv("SIMGPU_LOG");
    unsetenv("SIMGPU_FAULT");
    unsetenv("CUDA_INJECTION64_PATH");
    snprintf(id, sizeof(id), "asked-%d", (int)getpid());
    snprintf(device, sizeof(device), "%d", a->device);
    environment_setup(rows, NULL, a->sim ? a->paths->simulator : NULL);
    execl(a->paths->command, "cutin", "doctor", "--worker", run->fact->name, (char *)NULL);
}

bool gates_recorded(const uint8_t key[16], const char *version, struct record *r)
{
    return record_read("gates", key, version, r) == 0 && strcmp(r->version, version) == 0;
}

/* Records the answer. `next` becomes true if there is such a device and it answers: then another
 * one may be asked. */
static bool ask(struct asked *a, bool *next)
{
    static const struct fact fact = {.name = "gates", .limit_s = LIMIT_S};
    struct fact_run run = {.fact = &fact, .child_exec = child_exec, .user = a};
    const char *gpu = "", *why = "the driver did not answer";
    int streams = false, graphs = false, unsure = false, driver = 0, gate_ns = 0, mark_ns = 0;
    struct record r = {.why = ""}, before;
    bool hold;
    uint8_t key[16];

    fact_run(&run, LIMIT_S);
    /* What the fact said before something went wrong counts. */
    json_unpack(run.values, "{s?s, s?i, s?b, s?b, s?b, s?i, s?i, s?s}", "gpu", &gpu,
                "driver_version", &driver, "streams", &streams, "graphs", &graphs, "unsure",
                &unsure, "graph_gate_ns", &gate_ns, "graph_mark_ns", &mark_ns, "why", &why);
    if (gpu[0]) {
        record_key(key, gpu);
        record_version(r.version, driver);
        snprintf(r.way, sizeof(r.way), "%s", graphs ? "graphs" : streams ? "streams" : "none");
        if (graphs)
            snprintf(r.why, sizeof(r.why), RECORD_GATE_COST RECORD_MARK_COST, gate_ns, mark_ns);
        else
            snprintf(r.why, sizeof(r.why), "%s", why);
        /* A machine that is too busy to tell does not replace what was seen with this driver. */
        if (!unsure || !gates_recorded(key, r.version, &before))
            record_write("gates", key, &r);
    }
    hold = gpu[0] ? graphs : a->device > 0;
    *next = gpu[0] && strcmp(run.status, "hung") != 0;
    json_decref(run.values);
    return hold;
}

/* The process with the lock may be stopped, so this waits no longer than an answer may take. */
static bool lock_take(int fd)
{
    uint64_t by_ns = clock_ns() + LIMIT_S * 1000 * NS_PER_MS;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || clock_ns() >= by_ns)
            return false;
        clock_sleep_us(10000);
    }
    return true;
}

void gates_probe(const struct paths *paths, bool sim, bool again)
{
    char path[PROFILE_PATH + 32], lock_path[PROFILE_PATH + 32], folder[PROFILE_PATH];
    struct asked a = {.paths = paths, .sim = sim};
    bool next = true, hold = true;
    int lock, stamp;

    if (profile_folder_make() != 0)
        return;
    profile_folder(folder);
    stamp_path(path, folder, paths, sim);
    if (!again && stamped(path))
        return;
    snprintf(lock_path, sizeof(lock_path), "%s/asked.lock", folder);
    lock = open(lock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    /* Without this file no result could be kept. */
    if (lock >= 0 && lock_take(lock) && (again || !stamped(path))) {
        for (a.device = 0; a.device < DEVICES && next; a.device++)
            hold &= ask(&a, &next);
        stamp = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (stamp >= 0 && !hold && write(stamp, "not seen\n", 9) < 0)
            unlink(path);
        if (stamp >= 0)
            close(stamp);
    }
    if (lock >= 0)
        close(lock);
}
