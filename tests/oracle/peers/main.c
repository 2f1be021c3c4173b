/*
 * main.c - cutin-oracle-peers: do processes that wait for one another see under cutin what they see
 * bare? Randomly drawn plays run bare and under cutin, where some of the processes are above the
 * others. They must end with the words that their order gives.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage.h"
#include "tests/oracle/jobs.h"
#include "tests/oracle/side.h"

static const char help[] =
    "usage: cutin-oracle-peers [options]\n"
    "Runs random plays of two or three processes that wait for one another, bare and under cutin,\n"
    "and compares what they see with what their order gives.\n\n"
    "  --plays N      how many plays (default 200)\n"
    "  --seed S       seed of the first one (default 1)\n"
    "  --jobs N       so many side by side (default 6 for each processor)\n"
    "  --hang S       seconds without progress that count as a hang (default 20; with --mutant 3)\n"
    "  --preload F    the libcutin.so to test\n"
    "  --mutant NAME  how many plays until a deliberate bug is found (tests/mutants.h); all: each "
    "of\n"
    "                 those that plays find\n"
    "  --gates MODE   CUTIN_GATES; on: with one after every few kernels (default auto)\n"
    "  --suspend      CUTIN_SUSPEND=on: holds stop what runs\n"
    "  --stop-after N stop after N failures (default 3)\n"
    "  --print        print the plays and run nothing\n"
    "  --help         this text\n"
    "Exit status: 0 all passed, 1 a play failed, 2 bad usage.\n";

enum { HANG_SECONDS = 20, MUTANT_HANG_SECONDS = 3, NAP_US = 2000 };

static struct {
    unsigned plays, jobs, stop_after, hang_seconds;
    uint64_t seed;
    const char *preload, *simulator, *actor, *worker, *daemon, *gates, *mutant;
    bool suspend, print;
} o;

/* ---- one side of a play ---------------------------------------------------------------------- */

static struct {
    char id[64], directory[96], socket[128];
    pid_t daemon;
    struct stage *stage;
    int stage_fd;
} job;

struct cast {
    pid_t actor[ACTORS], toggler;
    int pipes[ACTORS][ACTORS][2]; /* from which actor, to which one */
};

static void side_simulator(struct side *s, bool under_cutin)
{
    char id[80];
    snprintf(id, sizeof(id), "%s%s", job.id, under_cutin ? "-cutin" : "-bare");
    side_set(s, "LD_LIBRARY_PATH", o.simulator);
    side_set(s, "SIMGPU_ID", id);
    side_set(s, "SIMGPU_LAUNCH_NS", "0");
    side_set(s, "SIMGPU_DEVICES", "1");
}

static void side_suspend(struct side *s)
{
    side_set(s, "SIMGPU_RM", "accept");
    side_set(s, "CUTIN_SUSPEND", "on");
    side_set(s, "CUTIN_SUSPEND_AFTER_US", "1");
}

/* No stuck process is let go, unless a process of the play waits in a way that cannot be seen. */
static void side_cutin(struct side *s, const struct play *p, const char *level)
{
    char preload[1000];
    snprintf(preload, sizeof(preload), o.suspend ? "%s:%s/libsimgpu_rm.so" : "%s", o.preload,
             o.simulator);
    side_set(s, "LD_PRELOAD", preload);
    side_set(s, "CUTIN_PRIORITY", level);
    side_set(s, "CUTIN_SOCKET", job.socket);
    side_set(s, "CUTIN_LOG", "error");
    side_set(s, "CUTIN_STUCK_MS", p->bounded ? "300" : "0");
    if (o.gates)
        side_set(s, "CUTIN_GATES", o.gates);
    if (p->tiny)
        side_set(s, "CUTIN_DEPTH", "1");
    if (p->tiny || o.gates)
        side_set(s, "CUTIN_BUDGET_US", p->tiny ? "1" : "10");
    if (o.suspend)
        side_suspend(s);
    if (o.mutant)
        side_set(s, "CUTIN_MUTANT", o.mutant);
}

static pid_t actor_spawn(const struct cast *c, const struct play *p, unsigned actor,
                         bool under_cutin)
{
    char text[3 + 2 * ACTORS][24], *argv[5 + 2 * ACTORS] = {(char *)o.actor};
    struct side side = {0};
    snprintf(text[0], sizeof(text[0]), "%" PRIu64, p->seed);
    snprintf(text[1], sizeof(text[1]), "%u", actor);
    snprintf(text[2], sizeof(text[2]), "%d", job.stage_fd);
    for (int i = 0; i < ACTORS; i++) {
        snprintf(text[3 + 2 * i], sizeof(*text), "%d", c->pipes[i][actor][0]);
        snprintf(text[4 + 2 * i], sizeof(*text), "%d", c->pipes[actor][i][1]);
    }
    for (int i = 0; i < 3 + 2 * ACTORS; i++)
        argv[1 + i] = text[i];
    side_simulator(&side, under_cutin);
    if (under_cutin)
        side_cutin(&side, p, p->level[actor]);
    return spawn(argv, side.env);
}

static pid_t toggler_spawn(const struct play *p)
{
    char text[24];
    struct side side = {0};
    snprintf(text, sizeof(text), "%" PRIu64, p->seed);
    char *argv[] = {(char *)o.worker, "--toggler", job.socket, text, NULL};
    side_simulator(&side, true);
    return spawn(argv, side.env);
}

static void cast_enter(struct cast *c, const struct play *p, bool under_cutin)
{
    *c = (struct cast){0};
    memset(job.stage, 0, sizeof(*job.stage));
    for (unsigned i = 0; i < ACTORS * ACTORS; i++)
        if (pipe(c->pipes[i / ACTORS][i % ACTORS]))
            abort();
    if (under_cutin && p->held)
        c->toggler = toggler_spawn(p);
    for (unsigned i = 0; i < p->actors; i++)
        c->actor[i] = actor_spawn(c, p, i, under_cutin);
}

static void cast_leave(struct cast *c)
{
    end(&c->toggler);
    for (unsigned i = 0; i < ACTORS; i++)
        end(&c->actor[i]);
    for (unsigned i = 0; i < ACTORS * ACTORS; i++) {
        close(c->pipes[i / ACTORS][i % ACTORS][0]);
        close(c->pipes[i / ACTORS][i % ACTORS][1]);
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static int step_say(char *text, size_t size, const struct play *p, unsigned actor)
{
    unsigned at = job.stage->report[actor].at;
    return at < p->steps ? snprintf(text, size, " process %u at step %u", actor, at)
                         : snprintf(text, size, " process %u before or behind all steps", actor);
}

static bool hung(const struct play *p, char *why, size_t size)
{
    size_t n = (size_t)snprintf(why, size, "hung:");
    for (unsigned i = 0; i < p->actors; i++)
        n += (size_t)step_say(why + n, size - n, p, i);
    return false;
}

static bool ended(const struct play *p, unsigned actor, int status, char *why, size_t size)
{
    const struct report *r = &job.stage->report[actor];
    char where[64];
    step_say(where, sizeof(where), p, actor);
    if (r->broken[0])
        snprintf(why, size, "%s", r->broken);
    else
        snprintf(why, size, "ended with status %x, a call was answered %d:%s", (unsigned)status,
                 r->code[r->at], where);
    return false;
}

static bool right(const struct play *p, char *why, size_t size)
{
    const struct report *r = job.stage->report;
    for (unsigned i = 0; i < p->steps; i++) {
        const struct step *s = &p->step[i];
        if (s->act == ACT_read && r[s->actor].read[i] != s->expect)
            return snprintf(why, size, "step %u read %u, not %u", i, r[s->actor].read[i],
                            s->expect),
                   false;
    }
    for (unsigned i = 0; i < p->actors * CELLS; i++)
        if (r[i / CELLS].last[i % CELLS] != p->last[i % CELLS])
            return snprintf(why, size, "cell %u ends as %u in process %u, not %u", i % CELLS,
                            r[i / CELLS].last[i % CELLS], i / CELLS, p->last[i % CELLS]),
                   false;
    return true;
}

/* Naps tell how long no process has got on: under other load they take longer, as the rest does. */
static bool cast_wait(struct cast *c, const struct play *p, char *why, size_t size)
{
    unsigned left = p->actors, naps = 0;
    for (uint32_t seen = 0; left; naps++) {
        uint32_t progress = job.stage->progress;
        for (unsigned i = 0; i < p->actors; i++) {
            int status;
            if (c->actor[i] <= 0 || waitpid(c->actor[i], &status, WNOHANG) != c->actor[i])
                continue;
            c->actor[i] = 0;
            left--;
            if (status || !job.stage->report[i].done)
                return ended(p, i, status, why, size);
        }
        naps = progress == seen ? naps : 0;
        seen = progress;
        if (naps > o.hang_seconds * (1000000 / NAP_US))
            return hung(p, why, size);
        nap_us(NAP_US);
    }
    return right(p, why, size);
}

/* Whether the play ends as it must. If not, `why` is a line that says what is wrong. */
static bool play_run(const struct play *p, bool under_cutin, char *why, size_t size)
{
    struct cast c;
    cast_enter(&c, p, under_cutin);
    bool ok = cast_wait(&c, p, why, size);
    cast_leave(&c);
    return ok;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int job_open(void)
{
    snprintf(job.id, sizeof(job.id), "peers-%d", (int)getpid());
    snprintf(job.directory, sizeof(job.directory), "/tmp/%s.XXXXXX", job.id);
    job.stage_fd = memfd_create("stage", 0); /* the actors inherit it on purpose */
    if (!mkdtemp(job.directory) || job.stage_fd < 0 ||
        ftruncate(job.stage_fd, sizeof(struct stage)))
        return -errno;
    job.stage =
        mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED, job.stage_fd, 0);
    if (job.stage == MAP_FAILED)
        return -errno;
    snprintf(job.socket, sizeof(job.socket), "%s/s", job.directory);
    job.daemon = daemon_spawn(o.daemon, job.socket);
    return job.daemon > 0 ? 0 : -ECHILD;
}

static void job_close(void)
{
    char lock[140];
    end(&job.daemon);
    snprintf(lock, sizeof(lock), "%s.lock", job.socket);
    unlink(job.socket);
    unlink(lock);
    rmdir(job.directory);
}

static void run_share(unsigned number, struct tally *t)
{
    static struct play p;
    char why[256];
    for (unsigned i = number; i < o.plays && t->failed < o.stop_after; i += o.jobs) {
        play_draw(&p, o.seed + i);
        bool bare = play_run(&p, false, why, sizeof(why));
        if (bare && play_run(&p, true, why, sizeof(why))) {
            t->passed++;
            continue;
        }
        t->failed++;
        printf("FAILED seed %" PRIu64 " %s: %s\n", p.seed, bare ? "under cutin" : "bare", why);
        play_print(&p);
        fflush(stdout);
    }
}

/* ---- does it find deliberate bugs? ----------------------------------------------------------- */

/* The bugs of tests/mutants.h that plays find. */
static const char *const mutants[] = {"memop_overtakes",       "shared_memory_unseen",
                                      "function_waits_untold", "graph_waits_untold",
                                      "graph_waits_unordered", "context_waits_untold"};
enum { MUTANTS_HERE = sizeof(mutants) / sizeof(*mutants) };

/* A race decides whether a play meets the bug, so each play runs this often. */
enum { TIMES = 5 };

/* Returns which play is the first to show that something is wrong; 0: none. The play's order says
 * what is right. */
static unsigned mutant_find(char *why, size_t size)
{
    static struct play p;
    for (unsigned i = 0; i < o.plays; i++) {
        play_draw(&p, o.seed + i);
        for (int k = 0; k < TIMES; k++)
            if (!play_run(&p, true, why, size))
                return i + 1;
    }
    return 0;
}

static void run_mutants(const char *wanted, unsigned number, struct tally *t)
{
    char why[256];
    for (unsigned i = 0, asked = 0; i < MUTANTS_HERE; i++) {
        if (strcmp(wanted, "all") && strcmp(wanted, mutants[i]))
            continue;
        if (asked++ % o.jobs != number)
            continue;
        o.mutant = mutants[i];
        unsigned found = mutant_find(why, sizeof(why));
        if (found)
            printf("%-24s found by play %-4" PRIu64 " %s\n", mutants[i], o.seed + found - 1, why);
        else
            printf("%-24s MISSED in %u plays\n", mutants[i], o.plays);
        fflush(stdout);
        t->ran++;
        t->passed += found != 0;
    }
}

static int job_run(void *user, unsigned number, struct tally *t)
{
    int err = job_open();
    if (err) {
        fprintf(stderr, "cutin-oracle-peers: cannot start %s: %s\n", o.daemon, strerror(-err));
        return 1;
    }
    if (user)
        run_mutants(user, number, t);
    else
        run_share(number, t);
    job_close();
    return 0;
}

/* Returns whether everything passed. */
static bool run(void)
{
    struct tally t = {0};
    const char *wanted = o.mutant;
    unsigned lost = jobs_run(o.jobs, job_run, (void *)wanted, &t);
    if (lost)
        printf("%u of %u processes ended early\n", lost, o.jobs);
    if (wanted)
        printf("%u of %u deliberate bugs found\n", t.passed, t.ran);
    else
        printf("%u passed, %u failed\n", t.passed, t.failed);
    return !lost && (wanted ? t.ran && t.passed == t.ran : !t.failed);
}

static unsigned number(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

static int options(int argc, char **argv)
{
    static const struct option table[] = {
        {"plays", 1, NULL, 'n'}, {"seed", 1, NULL, 's'},    {"jobs", 1, NULL, 'j'},
        {"hang", 1, NULL, 'H'},  {"preload", 1, NULL, 'p'}, {"mutant", 1, NULL, 'b'},
        {"gates", 1, NULL, 'g'}, {"suspend", 0, NULL, 'u'}, {"stop-after", 1, NULL, 'x'},
        {"print", 0, NULL, 'P'}, {"help", 0, NULL, 'h'},    {0}};
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (c) {
        case 'n':
            o.plays = number(optarg);
            break;
        case 's':
            o.seed = strtoull(optarg, NULL, 10);
            break;
        case 'j':
            o.jobs = number(optarg);
            break;
        case 'H':
            o.hang_seconds = number(optarg);
            break;
        case 'p':
            o.preload = optarg;
            break;
        case 'b':
            o.mutant = optarg;
            o.preload = beside("../lib/tests/libcutin-mutants.so");
            o.hang_seconds = MUTANT_HANG_SECONDS;
            break;
        case 'g':
            o.gates = strcmp(optarg, "auto") ? optarg : NULL;
            break;
        case 'u':
            o.suspend = true;
            break;
        case 'x':
            o.stop_after = number(optarg);
            break;
        case 'P':
            o.print = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            return 2;
        }
    return optind < argc || !o.jobs || o.jobs > JOBS_MAX ? 2 : 0;
}

int main(int argc, char **argv)
{
    static struct play p;
    o.plays = 200;
    o.seed = 1;
    o.jobs = jobs_default();
    o.stop_after = 3;
    o.hang_seconds = HANG_SECONDS;
    o.preload = beside("../lib/libcutin.so");
    o.simulator = beside("../lib/simgpu");
    o.actor = beside("tests/oracle-actor");
    o.worker = beside("tests/oracle-worker");
    o.daemon = beside("cutind");
    if (options(argc, argv)) {
        fputs(help, stderr);
        return 2;
    }
    if (!o.print)
        return !run();
    for (unsigned i = 0; i < o.plays; i++) {
        play_draw(&p, o.seed + i);
        play_print(&p);
    }
    return 0;
}
