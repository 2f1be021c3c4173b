/*
 * run.c - the processes of one run: their shared memory and phases, and how they always end.
 */
#include "tools/cutin/daemon.h"
#include "common/clock.h"
#include "disb.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/subcommand.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    START_MS = 60000, /* a first cuInit on a big machine takes seconds */
    STOP_MS = 30000,  /* for a best-effort request, or a turn in sequential mode */
    LEAD_NS = 20000000,
    NAP_US = 1000,
    END_MS = 2000,
};

double disb_grace_s(double seconds)
{
    return seconds < 2 ? 2 : seconds;
}

const struct disb_mode disb_modes[] = {
    {"rt-only", DISB_ONE, .rt_only = true},
    {"sequential", DISB_ONE, .sequential = true},
    {.name = "streams", .processes = DISB_ONE},
    {"priority-streams", DISB_ONE, .priorities = true},
    {.name = "native", .processes = DISB_BE_APART},
    {"cutin", DISB_BE_APART, .cutin = true},
    {"cutin-streams", DISB_ONE, .priorities = true, .cutin = true},
    {"cutin-padding", DISB_ONE, .priorities = true, .cutin = true, .pad = true},
    {0},
};

struct run {
    struct disb *d;
    const struct disb_mode *mode;
    const char *workload;
    struct disb_shared *shared;
    int fd;
    uint32_t processes, rt, be; /* clients */
    pid_t pid[DISB_CLIENTS + 1];
    char sim_id[32];
    struct daemon_own daemon;
};

/* Why a process of the run failed, by its own words; NULL: none did. */
static const char *told(const struct run *r)
{
    for (uint32_t i = 0; r->shared && i < r->processes; i++)
        if (atomic_load_explicit(&r->shared->failure[i].told, memory_order_acquire))
            return r->shared->failure[i].why;
    return NULL;
}

static int fail(struct run *r, int rc, const char *what)
{
    const char *why = told(r);

    if (why)
        snprintf(r->d->why, sizeof(r->d->why), "%s: %s", r->mode->name, why);
    else
        snprintf(r->d->why, sizeof(r->d->why), "%s: %s: %s", r->mode->name, what, strerror(-rc));
    return rc;
}

/* ---- shared memory ------------------------------------------------------------------------- */

static bool takes_part(const struct disb_mode *mode, const struct disb_client *client)
{
    return client->rt || !mode->rt_only;
}

static uint32_t capacity_of(const struct disb_client *client)
{
    return !client->rt ? 0 : client->closed ? DISB_CLOSED_SAMPLES : client->arrivals;
}

/* Real time is process 0. */
static uint32_t process_of(struct run *r, const struct disb_client *client)
{
    if (client->rt || r->mode->processes == DISB_ONE)
        return 0;
    return r->d->apart ? 1 + r->be : 1;
}

static uint64_t entry_bytes(const struct disb_client *client, const struct model *model)
{
    return model->kernels * sizeof(struct model_kernel) + client->arrivals * sizeof(uint64_t) +
           capacity_of(client) * sizeof(struct disb_sample);
}

static uint64_t put(struct run *r, uint64_t *at, const void *from, uint64_t bytes)
{
    uint64_t offset = *at;

    if (from)
        memcpy((char *)r->shared + offset, from, bytes);
    *at += bytes;
    return offset;
}

static void entry_fill(struct run *r, const struct disb_client *client, const struct model *model,
                       uint64_t *at)
{
    struct disb_entry *entry = &r->shared->entry[r->shared->entries++];

    entry->rt = client->rt;
    entry->closed = client->closed;
    entry->process = process_of(r, client);
    entry->kernels = model->kernels;
    entry->arrivals = client->arrivals;
    entry->capacity = capacity_of(client);
    entry->kernels_at = put(r, at, model->kernel, model->kernels * sizeof(*model->kernel));
    entry->arrivals_at = put(r, at, client->arrival_ns, client->arrivals * sizeof(uint64_t));
    entry->samples_at = put(r, at, NULL, entry->capacity * sizeof(struct disb_sample));
    if (entry->process >= r->processes)
        r->processes = entry->process + 1;
    if (client->rt)
        r->rt++;
    else
        r->be++;
}

static int shared_make(struct run *r, const struct disb_workload *w)
{
    uint64_t bytes = sizeof(*r->shared), at = bytes;
    void *map;

    for (uint32_t i = 0; i < w->clients; i++) {
        const struct model *model = disb_model(r->d, w->client[i].model);
        if (!model)
            return -ENOENT;
        if (takes_part(r->mode, &w->client[i]))
            bytes += entry_bytes(&w->client[i], model);
    }
    r->fd = worker_memory("cutin-disb", bytes, &map);
    if (r->fd < 0)
        return fail(r, r->fd, "no shared memory");
    r->shared = map;
    r->shared->bytes = bytes;
    r->shared->sequential = r->mode->sequential;
    r->shared->priorities = r->mode->priorities;
    for (uint32_t i = 0; i < w->clients; i++)
        if (takes_part(r->mode, &w->client[i]))
            entry_fill(r, &w->client[i], disb_model(r->d, w->client[i].model), &at);
    return 0;
}

/* ---- processes ----------------------------------------------------------------------------- */

/* A private daemon, so that figures do not depend on other users of the machine. */
static int start_daemon(struct run *r)
{
    char why[256];
    int rc;

    if (!r->d->paths.library[0] || !r->d->paths.daemon[0])
        return fail(r, -ENOENT, "libcutin.so or cutind is not installed beside cutin");
    rc = daemon_own_start(&r->daemon, r->d->paths.daemon, "cutin-disb", why, sizeof(why));
    if (rc != 0)
        snprintf(r->d->why, sizeof(r->d->why), "%s: %s", r->mode->name, why);
    return rc;
}

_Noreturn static void worker_process(struct run *r, uint32_t process)
{
    char number[16];
    /* In one process the priorities of its streams are the levels. */
    bool inherit = r->mode->cutin && r->mode->processes == DISB_ONE;
    const struct variable rows[] = {{"CUTIN_STREAM_PRIORITY", inherit ? "inherit" : NULL},
                                    {"CUTIN_PAD", r->mode->pad ? "on" : NULL},
                                    {"SIMGPU_ID", r->d->sim ? r->sim_id : NULL},
                                    {"CUTIN_PRIORITY", !r->mode->cutin ? NULL
                                                       : process == 0  ? "rt"
                                                                       : "be"},
                                    {"CUTIN_PROFILE", r->mode->cutin ? "off" : NULL},
                                    {"CUTIN_SOCKET", r->mode->cutin ? r->daemon.socket : NULL},
                                    {0}};

    snprintf(number, sizeof(number), "%u", process);
    worker_exec(rows, r->mode->cutin ? r->d->paths.library : NULL,
                r->d->sim ? r->d->paths.simulator : NULL, r->fd, -1, r->d->paths.self,
                (const char *const[]){"cutin-lab", "disb", "--worker", number, NULL});
}

static int start_workers(struct run *r)
{
    for (uint32_t i = 0; i < r->processes; i++) {
        r->pid[i] = fork_in_group(SIGKILL);
        if (r->pid[i] == 0)
            worker_process(r, i);
        if (r->pid[i] < 0)
            return fail(r, -errno, "cannot start a process");
    }
    return 0;
}

static int check_alive(struct run *r)
{
    int status;

    if (told(r))
        return fail(r, -EIO, "a client failed");
    for (uint32_t i = 0; i < r->processes; i++)
        if (r->pid[i] > 0 && waitpid(r->pid[i], &status, WNOHANG) == r->pid[i]) {
            r->pid[i] = 0;
            if (status == 0 && atomic_load(&r->shared->phase) == DISB_CLOSE)
                continue; /* its clients are done, those of others are not yet */
            return fail(r, -EPIPE, "a client ended unexpectedly");
        }
    return 0;
}

/* The progress of the window stands for that of the run. */
static void show(const struct run *r)
{
    double window = r->d->seconds * 1e9, done = 0;
    uint64_t start_ns = r->shared->start_ns, now = clock_ns();
    char what[64];

    if (start_ns && now > start_ns)
        done = (double)(now - start_ns) / window;
    snprintf(what, sizeof(what), "%s, %s", r->workload, r->mode->name);
    progress_show(r->d->run + (done < 1 ? done : 1), r->d->runs, what);
}

/* Waits until `clients` clients are there. -ETIMEDOUT: not all of them by `until_ns`. */
static int await(struct run *r, const _Atomic uint32_t *count, uint32_t clients, uint64_t until_ns,
                 bool cancellable)
{
    int rc = 0;

    while (rc == 0 && atomic_load_explicit(count, memory_order_acquire) < clients) {
        if (cancellable && progress_cancel)
            return -ECANCELED;
        show(r);
        if (clock_ns() >= until_ns)
            return -ETIMEDOUT;
        clock_sleep_us(NAP_US);
        rc = check_alive(r);
    }
    return rc;
}

static uint64_t in_ms(uint64_t ms)
{
    return clock_ns() + ms * 1000000;
}

static void enter(struct run *r, enum disb_phase phase)
{
    atomic_store_explicit(&r->shared->phase, phase, memory_order_release);
}

static int prepare(struct run *r)
{
    uint32_t clients = r->shared->entries;
    int rc = await(r, &r->shared->ready, clients, in_ms(START_MS), true);

    if (rc != 0)
        return rc;
    enter(r, DISB_CALIBRATE);
    return await(r, &r->shared->calibrated, clients, in_ms(STOP_MS), true);
}

/* Waits for the window, then for real time's queue, then for best effort's last requests. */
static int measure(struct run *r)
{
    struct disb_shared *s = r->shared;
    const _Atomic uint32_t nobody = 0;
    int rc;

    s->start_ns = clock_ns() + LEAD_NS;
    s->end_ns = s->start_ns + (uint64_t)(r->d->seconds * 1e9);
    s->last_ns = s->end_ns + (uint64_t)(disb_grace_s(r->d->seconds) * 1e9);
    enter(r, DISB_RUN);
    rc = await(r, &nobody, 1, s->end_ns, true);
    if (rc == -ETIMEDOUT)
        rc = await(r, &s->rt_done, r->rt, s->last_ns + STOP_MS * 1000000ull, true);
    if (rc == -ECANCELED) {
        uint64_t now = clock_ns();
        s->end_ns = now < s->start_ns ? s->start_ns : now < s->end_ns ? now : s->end_ns;
    }
    enter(r, DISB_STOP);
    if (rc == 0 || rc == -ECANCELED) {
        int stop_rc = await(r, &s->be_done, r->be, in_ms(STOP_MS), false);
        if (stop_rc == 0)
            stop_rc = await(r, &s->rt_done, r->rt, in_ms(STOP_MS), false);
        enter(r, DISB_CLOSE);
        if (stop_rc == 0)
            stop_rc = await(r, &s->closed, s->entries, in_ms(STOP_MS), false);
        rc = stop_rc ? stop_rc : rc;
    }
    return rc;
}

static void end(struct run *r, bool in_order)
{
    uint64_t until_ns = in_ms(in_order ? END_MS : 0);

    for (uint32_t i = 0; i < r->processes; i++)
        reap_or_kill(r->pid[i], until_ns);
    daemon_own_end(&r->daemon);
    if (r->shared)
        munmap(r->shared, r->shared->bytes);
    if (r->fd >= 0)
        close(r->fd);
}

int disb_run(struct disb *d, const struct disb_workload *w, const struct disb_mode *mode,
             struct disb_result *result)
{
    struct run r = {.d = d, .mode = mode, .workload = w->name, .fd = -1};
    int rc;

    *result = (struct disb_result){0};
    snprintf(r.sim_id, sizeof(r.sim_id), "disb-%d", (int)getpid());
    if (d->sim && !d->paths.simulator[0])
        return fail(&r, -ENOENT, "the simulated driver is not installed beside cutin");
    rc = shared_make(&r, w);
    if (rc == 0 && r.shared->entries > 0 && mode->cutin)
        rc = start_daemon(&r);
    if (rc == 0)
        rc = start_workers(&r);
    if (rc == 0)
        rc = prepare(&r);
    if (rc == 0)
        rc = measure(&r);
    if (rc == -ETIMEDOUT)
        fail(&r, rc, "a client does not answer");
    if (rc == 0 || (rc == -ECANCELED && r.shared->start_ns)) {
        disb_result_make(result, r.shared);
        snprintf(d->gpu, sizeof(d->gpu), "%.95s", r.shared->gpu);
        d->driver_version = r.shared->driver_version;
    }
    end(&r, rc == 0 || rc == -ECANCELED);
    return rc;
}
