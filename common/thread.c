/*
 * thread.c - the library's own threads (see thread.h).
 */
#include "common/text.h"
#include "common/thread.h"

#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux has at most 8,192 processors; cpu_set_t ends at 1,024. */
enum { CPUS = 8192, WORD = 64 };
enum { STACK_BYTES = 1 << 20 }; /* the library's threads call the driver there */

struct cpus {
    uint64_t word[CPUS / WORD];
};

static const struct cpus none;
static struct cpus chosen, initial; /* none: nothing was chosen, or it is not known */

/* The whole process's: those of its first thread, before that can have pinned itself. */
__attribute__((constructor)) static void remember(void)
{
    sched_getaffinity(getpid(), sizeof(initial), (cpu_set_t *)(void *)&initial);
}

static bool cpus_equal(const struct cpus *a, const struct cpus *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static struct cpus cpus_without(const struct cpus *set, const struct cpus *others)
{
    struct cpus rest;

    for (size_t i = 0; i < CPUS / WORD; i++)
        rest.word[i] = set->word[i] & ~others->word[i];
    return rest;
}

int thread_set_cpus(const char *list)
{
    struct cpus set = {0};
    uint64_t first, last;

    do {
        list = number_begin(list, CPUS - 1, &first);
        last = first;
        if (list && *list == '-')
            list = number_begin(list + 1, CPUS - 1, &last);
        if (!list || last < first || (*list && *list != ','))
            return -EINVAL;
        for (uint64_t cpu = first; cpu <= last; cpu++)
            set.word[cpu / WORD] |= 1ull << cpu % WORD;
    } while (*list++);
    chosen = set;
    return 0;
}

bool thread_cpus_usable(void)
{
    struct cpus others = cpus_without(&chosen, &initial);

    return cpus_equal(&chosen, &none) || cpus_equal(&initial, &none) ||
           !cpus_equal(&others, &chosen);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Returns an errno; EINVAL: this process has none of these processors. `cpus` NULL: those of the
 * calling thread. */
static int create(pthread_t *thread, const struct cpus *cpus, bool ordinary, void *(*run)(void *),
                  void *arg)
{
    const struct sched_param priority = {0};
    pthread_attr_t attr;
    int rc;
    size_t bytes;

    if (cpus && cpus_equal(cpus, &none))
        return EINVAL;
    /* A program may want small stacks for threads of its own. */
    rc = pthread_attr_init(&attr);
    if (rc == 0 && pthread_attr_getstacksize(&attr, &bytes) == 0 && bytes < STACK_BYTES)
        pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (rc != 0)
        return rc;
    if (cpus)
        rc = pthread_attr_setaffinity_np(&attr, sizeof(*cpus),
                                         (const cpu_set_t *)(const void *)cpus);
    if (ordinary) {
        pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
        pthread_attr_setschedparam(&attr, &priority);
    }
    if (rc == 0)
        rc = pthread_create(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return rc;
}

int thread_new(pthread_t *thread, void *(*run)(void *), void *arg)
{
    int class = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    bool rt = class == SCHED_FIFO || class == SCHED_RR || class == SCHED_DEADLINE;
    struct cpus mine = {0}, all;
    sigset_t signals, old;
    int rc = EINVAL;

    sigfillset(&signals);
    pthread_sigmask(SIG_SETMASK, &signals, &old); /* inherited: signals are for the application */
    if (rt)
        sched_getaffinity(0, sizeof(mine), (cpu_set_t *)(void *)&mine);
    memset(&all, 0xff, sizeof(all));
    /* From the best place to the worst. The kernel leaves out what it does not give. */
    const struct cpus places[] = {chosen, cpus_without(&initial, &mine),
                                  rt ? cpus_without(&all, &mine) : none, initial};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && rc == EINVAL; i++)
        rc = create(thread, &places[i], rt, run, arg);
    /* A sandbox may forbid all of that. */
    if (rc == EINVAL || rc == EPERM)
        rc = create(thread, NULL, false, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -rc;
}

bool thread_once(bool *running, void *(*run)(void *))
{
    pthread_t thread;

    if (!*running && thread_new(&thread, run, NULL) == 0) {
        pthread_detach(thread);
        *running = true;
    }
    return *running;
}

bool thread_at_end(_Atomic unsigned *key, void (*run)(void *unused))
{
    unsigned known = atomic_load(key); /* 1 + the number of the key; 0: there is none */
    pthread_key_t made;

    if (!known && pthread_key_create(&made, run) == 0) {
        if (atomic_compare_exchange_strong(key, &known, made + 1))
            known = made + 1;
        else
            pthread_key_delete(made); /* another thread was quicker */
    }
    return known && pthread_setspecific(known - 1, key) == 0;
}

void thread_name(const char *name)
{
    prctl(PR_SET_NAME, name);
}

bool thread_unshare_fds(void)
{
#ifdef __SANITIZE_THREAD__ /* to it a number means one descriptor in all of the process */
    return false;
#else
    return syscall(SYS_close_range, 0u, ~0u, (unsigned int)CLOSE_RANGE_UNSHARE) == 0;
#endif
}

void thread_join(pthread_t thread)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_join(thread, NULL);
    pthread_setcancelstate(cancel, NULL);
}
