/*
 * pair.c - the processes of the oracle: workers, the toggler, the daemon (see pair.h).
 */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "side.h"

static struct {
    struct pair_config *config;
    char socket[160];
    pid_t daemon, toggler;
} pair;

/* ---- the environment ---------------------------------------------------------------------- */

static const char *log_path(const char *which, char path[200])
{
    snprintf(path, 200, "%s/log%s", pair.config->directory, which);
    return path;
}

static void side_simulator(struct side *s, const char *which, bool logged)
{
    char id[80];
    if (!pair.config->simulator) {
        side_set(s, "ORACLE_REAL", "1");
        return;
    }
    snprintf(id, sizeof(id), "%s%s", pair.config->id, which);
    side_set(s, "LD_LIBRARY_PATH", pair.config->simulator);
    side_set(s, "SIMGPU_ID", id);
    side_set(s, "SIMGPU_LAUNCH_NS", "0");
    side_set(s, "SIMGPU_DEVICES", "2");
    if (logged) {
        char path[200];
        side_set(s, "SIMGPU_LOG", log_path(which, path));
        truncate(path, 0);
    }
}

/* The settings of program.h as environment variables: for both sides, and for cutin's alone. */
struct pair_of_texts {
    const char *name, *value;
};
static const struct pair_of_texts setting_both[SETTINGS][2] = {
    [SETTING_NO_MEMOPS] = {{"SIMGPU_MEMOPS", "0"}},
};
static const struct pair_of_texts setting_cutin[SETTINGS][4] = {
    [SETTING_DEFAULT] = {{"CUTIN_PRIORITY", "be"}},
    [SETTING_TINY] = {{"CUTIN_BUDGET_US", "1"},
                      {"CUTIN_DEPTH", "1"},
                      {"CUTIN_QUEUE", "16"},
                      {"CUTIN_COPY_BYTES", "48"}},
    [SETTING_LEVELS] = {{"CUTIN_PRIORITY", "2"},
                        {"CUTIN_STREAM_PRIORITY", "inherit"},
                        {"CUTIN_COPY_BYTES", "100"}},
    [SETTING_REAL_TIME] = {{"CUTIN_PRIORITY", "rt"}, {"CUTIN_STREAM_PRIORITY", "inherit"}},
};

static bool gates_mirrored(void)
{
    return pair.config->gates && strcmp(pair.config->gates, "mirrored") == 0;
}

/* Programs are short, so gates have to be close to each other. */
static void side_gates(struct side *s, const char *mode, enum setting setting)
{
    bool mirrored = gates_mirrored();
    side_set(s, "CUTIN_GATES", mirrored ? "on" : mode);
    if (setting != SETTING_TINY && (mirrored || strcmp(mode, "on") == 0))
        side_set(s, "CUTIN_BUDGET_US", "10");
}

/* Every hold stops the kernel that runs. */
static void side_suspend(struct side *s, bool under_cutin)
{
    char preload[480];
    snprintf(preload, sizeof(preload), "%s%s%s/libsimgpu_rm.so",
             under_cutin ? pair.config->preload : "", under_cutin ? ":" : "",
             pair.config->simulator);
    side_set(s, "SIMGPU_RM", "accept");
    side_set(s, "LD_PRELOAD", preload);
    if (!under_cutin)
        return;
    side_set(s, "CUTIN_SUSPEND", "on");
    side_set(s, "CUTIN_SUSPEND_AFTER_US", "1");
}

/* Draws what gates and markers cost, how soon they are seen, how the device behaves beside them,
 * and how soon what waits at gates is let out. Programs that share a setting get the same. */
static void side_unkind(struct side *s, uint64_t seed, bool under_cutin)
{
    static const struct {
        const char *name, *value[4];
    } knobs[] = {
        {"SIMGPU_WAIT_NS", {"800", "0", "5000", "50000"}},
        {"SIMGPU_WRITE_NS", {"500", "0", "3000", "20000"}},
        {"SIMGPU_GRAPH_WAIT_NS", {"0", "2000", "5000", "40000"}},
        {"SIMGPU_POLL_US", {"20", "1", "200", "2000"}},
        {"SIMGPU_WORD_LATE_US", {"0", "0", "50", "2000"}},
        {"SIMGPU_ACQUIRE_YIELDS", {"1", "1", "1", "0"}},
        {"SIMGPU_HOST_REGISTER", {"1", "1", "1", "0"}},
        {"SIMGPU_EVENT_NS", {"0", "0", "5000", "50000"}},
        {"SIMGPU_LOAD_US", {"0", "0", "200", "2000"}},
        {"LET_OUT_MS", {"1", "1", "10", "1000"}},
    };
    uint64_t state = seed / SETTING_SEEDS;
    for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
        side_set(s, knobs[i].name, knobs[i].value[random_next(&state) % 4]);
    if (under_cutin && random_next(&state) % 2)
        side_set(s, "ORACLE_PROFILER", "1");
}

static void side_settings(struct side *s, const struct pair_of_texts *set, size_t n)
{
    for (size_t i = 0; i < n && set[i].name; i++)
        side_set(s, set[i].name, set[i].value);
}

static pid_t worker_start(int fd, bool under_cutin, uint64_t seed, unsigned step, unsigned count,
                          uint64_t mask)
{
    char text[5][32];
    struct side side = {0};
    snprintf(text[0], 32, "%d", fd);
    snprintf(text[1], 32, "%" PRIu64, seed);
    snprintf(text[2], 32, "%u", step);
    snprintf(text[3], 32, "%u", count);
    snprintf(text[4], 32, "%" PRIu64, mask);
    char *argv[] = {
        (char *)pair.config->worker, "--worker", text[0], text[1], text[2], text[3], text[4], NULL};
    enum setting setting = program_setting(seed);
    side_simulator(&side, under_cutin ? "-cutin" : "-bare", true);
    side_settings(&side, setting_both[setting], 2);
    if (gates_mirrored())
        side_set(&side, "SIMGPU_HOST_REGISTER", "0");
    if (pair.config->unkind)
        side_unkind(&side, seed, under_cutin);
    if (pair.config->suspend)
        side_suspend(&side, under_cutin);
    if (under_cutin) {
        if (!pair.config->suspend)
            side_set(&side, "LD_PRELOAD", pair.config->preload);
        side_settings(&side, setting_cutin[setting], 4);
        if (setting == SETTING_REAL_TIME && seed % 2) /* padding is possible here */
            side_set(&side, "CUTIN_PAD", "on");
        side_set(&side, "CUTIN_SOCKET", pair.socket);
        side_set(&side, "CUTIN_LOG", "error"); /* faults cause warnings, and are meant here */
        if (pair.config->gates)
            side_gates(&side, pair.config->gates, setting);
        if (pair.config->distance)
            side_set(&side, "CUTIN_DISTANCE_US", pair.config->distance);
        if (pair.config->mutant)
            side_set(&side, "CUTIN_MUTANT", pair.config->mutant);
    }
    return spawn(argv, side.env);
}

/* ---- workers ------------------------------------------------------------------------------- */

static unsigned finished(const struct batch *b, unsigned from, unsigned count)
{
    while (from < count && __atomic_load_n(&b->out[from].done, __ATOMIC_ACQUIRE))
        from++;
    return from;
}

struct worker {
    pid_t pid;
    int fd; /* pidfd; -1: there is none, or the worker has ended */
    unsigned done;
    bool ended;
};

static struct worker worker_of(pid_t pid)
{
    return (struct worker){.pid = pid, .fd = (int)syscall(SYS_pidfd_open, pid, 0)};
}

static void worker_close(struct worker *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

static void worker_look(struct worker *w, const struct batch *b, unsigned count)
{
    if (!w->ended && waitpid(w->pid, NULL, WNOHANG) == w->pid) {
        w->ended = true;
        w->pid = 0;
        worker_close(w);
    }
    w->done = finished(b, w->done, count);
}

/* The worker counts its own beats since the last op returned. Under other load an op takes seconds,
 * but a beat then takes as long. */
static bool worker_stands(const struct worker *w, const struct batch *b)
{
    return w->ended || b->beats > pair.config->hang_seconds * BEATS_A_SECOND;
}

/* Waits until one of them ends, or for a while. Their outcomes say how far they are. */
static void workers_wait(const struct worker w[2])
{
    struct pollfd fds[2] = {{.fd = w[0].fd, .events = POLLIN}, {.fd = w[1].fd, .events = POLLIN}};
    if ((!w[0].ended && w[0].fd < 0) || (!w[1].ended && w[1].fd < 0))
        nap_us(500); /* Linux before 5.3 has no pidfd */
    else
        poll(fds, 2, 100);
}

static struct batch *batch_new(int *fd)
{
    *fd = memfd_create("oracle", 0); /* the worker inherits it on purpose */
    if (*fd < 0 || ftruncate(*fd, sizeof(struct batch)))
        return NULL;
    struct batch *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    return b == MAP_FAILED ? NULL : b;
}

unsigned pair_batch(uint64_t seed, unsigned count)
{
    unsigned left = SETTING_SEEDS - (unsigned)(seed % SETTING_SEEDS);
    return count < left ? count : left;
}

unsigned pair_run(uint64_t seed, unsigned step, unsigned count, uint64_t mask,
                  const struct outcome **bare, const struct outcome **cutin)
{
    static struct batch *shared[2];
    static int fds[2];
    struct worker w[2] = {{.ended = true, .done = count, .fd = -1}};
    if (count > BATCH_MAX)
        count = BATCH_MAX;
    for (int i = 0; i < 2; i++) {
        if (!shared[i] && !(shared[i] = batch_new(&fds[i])))
            return 0;
        shared[i]->beats = 0;
        memset(shared[i]->out, 0, count * sizeof(*shared[i]->out));
    }
    if (bare)
        w[0] = worker_of(worker_start(fds[0], false, seed, step, count, mask));
    w[1] = worker_of(worker_start(fds[1], true, seed, step, count, mask));
    while (!(worker_stands(&w[0], shared[0]) && worker_stands(&w[1], shared[1]))) {
        workers_wait(w);
        for (int i = 0; i < 2; i++)
            worker_look(&w[i], shared[i], count);
    }
    for (int i = 0; i < 2; i++) {
        end(&w[i].pid);
        worker_close(&w[i]);
    }
    if (bare)
        *bare = shared[0]->out;
    *cutin = shared[1]->out;
    return w[0].done < w[1].done ? w[0].done : w[1].done;
}

/* ---- comparing ----------------------------------------------------------------------------- */

#define DIFFER(...) return snprintf(why, size, __VA_ARGS__), 1

/* Ops that must be refused are. The op that waits for a fault reports it. */
static bool code_right(enum op_kind kind, int code)
{
    if (kind >= OP_BAD_GRID)
        return code != 0;
    return code == (kind == OP_FAULT_SEEN || kind == OP_FAULT_KNOWN ? FAULT_CODE : 0);
}

/* Whether value[] has the answers of driver calls. */
static bool answers(enum op_kind kind)
{
    return kind == OP_HOST_FUNC_CUDA || kind == OP_FAULT_KNOWN || kind == OP_RENEW ||
           kind == OP_UNPIN;
}

int pair_compare(const struct program *p, const struct outcome *bare, const struct outcome *cutin,
                 char *why, size_t size)
{
    const struct outcome *both[2] = {bare, cutin};
    static const char *const name[2] = {"bare", "under cutin"};
    for (int k = 0; k < 2; k++) {
        const struct outcome *o = both[k];
        if (!o)
            continue;
        if (o->broken[0])
            DIFFER("%s: %s", name[k], o->broken);
        for (uint32_t i = 0; i < p->op_count; i++)
            if (p->ops[i].kind == OP_HOST_READ && o->value[i] != p->ops[i].expect)
                DIFFER("%s: op %u read other memory than the model", name[k], i);
        for (int b = 0; b < BUFFERS; b++)
            if (o->final_hash[b] != p->final_hash[b])
                DIFFER("%s: buffer %d ends other than in the model", name[k], b);
    }
    for (uint32_t i = 0; i < p->op_count; i++) {
        enum op_kind kind = p->ops[i].kind;
        int said[2] = {bare ? bare->code[i] : cutin->code[i], cutin->code[i]};
        if (said[0] != said[1])
            DIFFER("op %u (%s) returned %d bare and %d under cutin", i, op_kind_name(kind), said[0],
                   said[1]);
        if (!code_right(kind, said[1]))
            DIFFER("op %u (%s) returned %d%s", i, op_kind_name(kind), said[1],
                   bare ? " on both sides" : "");
        if (bare && answers(kind) && bare->value[i] != cutin->value[i])
            DIFFER("op %u (%s): driver calls were answered %llx bare and %llx under cutin", i,
                   op_kind_name(kind), (unsigned long long)bare->value[i],
                   (unsigned long long)cutin->value[i]);
    }
    return 0;
}

/* ---- the toggler and the daemon ------------------------------------------------------------ */

int pair_open(struct pair_config *config, uint64_t seed)
{
    char text[32];
    struct side side = {0};
    pair.config = config;
    snprintf(config->directory, sizeof(config->directory), "/tmp/%s.XXXXXX", config->id);
    if (!mkdtemp(config->directory))
        return -errno;
    snprintf(pair.socket, sizeof(pair.socket), "%s/s", config->directory);
    pair.daemon = daemon_spawn(config->daemon, pair.socket);
    snprintf(text, sizeof(text), "%" PRIu64, seed);
    char *toggler[] = {(char *)pair.config->worker, "--toggler", pair.socket, text, NULL};
    side_simulator(&side, "-cutin", false);
    if (config->unkind)
        side_set(&side, "ORACLE_LONG_HOLDS", "1");
    pair.toggler = spawn(toggler, side.env);
    return pair.daemon > 0 && pair.toggler > 0 ? 0 : -ECHILD;
}

void pair_close(void)
{
    char path[200];
    end(&pair.toggler);
    end(&pair.daemon);
    for (const char *const *f = (const char *const[]){"s", "s.lock", "log-bare", "log-cutin", NULL};
         *f; f++) {
        snprintf(path, sizeof(path), "%s/%s", pair.config->directory, *f);
        unlink(path);
    }
    rmdir(pair.config->directory);
}
