/*
 * thread.c - where the library's own threads run, and with what scheduling class.
 */
#include "common/thread.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* What a thread sees of itself. */
struct seen {
    cpu_set_t cpus;
    int class;
    sigset_t blocked;
    char name[16];
};

static void *look(void *arg)
{
    struct seen *s = arg;

    thread_name("cutin-test");
    prctl(PR_GET_NAME, s->name);
    sched_getaffinity(0, sizeof(s->cpus), &s->cpus);
    s->class = sched_getscheduler(0);
    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    return NULL;
}

static struct seen look_from_new(void)
{
    struct seen s = {0};
    pthread_t thread;

    cr_assert_eq(thread_new(&thread, look, &s), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return s;
}

/* The next descriptor is the program's. */
Test(thread, is_named_without_free_descriptors)
{
    struct rlimit limit, none;
    struct seen s;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    s = look_from_new();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_str_eq(s.name, "cutin-test");
}

static cpu_set_t mine(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    return set;
}

static int first_of(const cpu_set_t *set)
{
    int cpu = 0;

    while (!CPU_ISSET(cpu, set))
        cpu++;
    return cpu;
}

/* Pins the calling thread to one processor, and returns that. */
static int pin(void)
{
    cpu_set_t set = mine();
    int cpu = first_of(&set);

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    return cpu;
}

static void become_realtime(void)
{
    struct sched_param priority = {.sched_priority = 1};

    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
        cr_skip_test("real-time scheduling classes are not allowed here");
}

Test(thread, ignores_creators_pinning_and_blocks_signals)
{
    cpu_set_t all = mine();
    struct seen s;

    pin();
    s = look_from_new();
    cr_assert(CPU_EQUAL(&s.cpus, &all));
    cr_assert(sigismember(&s.blocked, SIGTERM));
}

Test(thread, of_realtime_creator_is_not_realtime)
{
    cpu_set_t all = mine();
    struct seen s;

    if (CPU_COUNT(&all) < 2)
        cr_skip_test("one processor: whatever runs here is pinned to it");
    become_realtime();
    s = look_from_new();
    cr_assert_eq(s.class, SCHED_OTHER);
    cr_assert(CPU_EQUAL(&s.cpus, &all), "it is pinned to nothing, and so is its helper");
}

Test(thread, of_pinned_realtime_creator_runs_on_other_cpus)
{
    struct seen s;
    int cpu;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        cr_skip_test("one processor");
    become_realtime();
    cpu = pin();
    s = look_from_new();
    cr_assert_gt(CPU_COUNT(&s.cpus), 0);
    cr_assert_not(CPU_ISSET(cpu, &s.cpus));
}

/* The thread of an idle-time program has that class, too. */
Test(thread, keeps_idle_scheduling_class)
{
    struct sched_param none = {0};

    cr_assert_eq(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    cr_assert_eq(look_from_new().class, SCHED_IDLE);
}

Test(thread, runs_on_configured_cpus)
{
    cpu_set_t all = mine();
    char list[64];
    struct seen s;
    int cpu = first_of(&all);

    snprintf(list, sizeof(list), "%d,8000-8191", cpu);
    cr_assert_eq(thread_set_cpus(list), 0);
    cr_assert(thread_cpus_usable());
    s = look_from_new();
    cr_assert(CPU_COUNT(&s.cpus) == 1 && CPU_ISSET(cpu, &s.cpus));
}

Test(thread, runs_without_any_configured_cpu)
{
    cpu_set_t all = mine();
    struct seen s;

    cr_assert(thread_cpus_usable());
    cr_assert_eq(thread_set_cpus("8191"), 0);
    cr_assert(!thread_cpus_usable());
    s = look_from_new();
    cr_assert(CPU_EQUAL(&s.cpus, &all));
}

Test(thread, malformed_cpu_lists_are_refused)
{
    static const char *const bad[] = {"",  ",",   "0,",   "3-1", "-1",    "1-",
                                      "a", "0x1", "8192", "1 2", "0-3-5", "99999999999999999999"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(thread_set_cpus(bad[i]), -EINVAL, "%s", bad[i]);
    cr_assert_eq(thread_set_cpus("0-3,8"), 0);
}
