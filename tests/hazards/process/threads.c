/*
 * threads.c - very many threads use their per-thread streams and end: nothing is left behind.
 */
#include "tests/hazards/hazard.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { MANY = 1600, INSTRUMENTED = 1 };
#else
enum { MANY = 10000, INSTRUMENTED = 0 };
#endif

/* All threads if none of these variables is set, else a tenth of them. */
static uint32_t crowd(void)
{
    static const char *const ways[] = {"CUTIN_BUDGET_US", "SIMGPU_MEMOPS", "CUTIN_PRIORITY",
                                       "CUDA_INJECTION64_PATH"};
    for (unsigned int i = 0; i < sizeof(ways) / sizeof(*ways); i++)
        if (getenv(ways[i]))
            return MANY / 10;
    return MANY;
}

static int entries(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static long status_of(const char *field)
{
    char line[256];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field) + 1, NULL, 10);
    if (f)
        fclose(f);
    return value;
}

struct size {
    int threads, descriptors;
    long kilobytes;
};

static struct size size_now(void)
{
    return (struct size){entries("/proc/self/task"), entries("/proc/self/fd"), status_of("VmRSS")};
}

static CUdeviceptr words;
static _Atomic uint32_t done;

static void *one(void *user)
{
    uint32_t me = (uint32_t)(uintptr_t)user;
    CUdeviceptr own = words + me % N * 4;
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuMemsetD32Async(own, me % N + 1, 1, CU_STREAM_PER_THREAD) != CUDA_SUCCESS ||
        (me % 4 == 0 && cuStreamSynchronize(CU_STREAM_PER_THREAD) != CUDA_SUCCESS))
        give_up("a call for a per-thread stream failed");
    atomic_fetch_add(&done, 1);
    return NULL;
}

static void run_threads(uint32_t from, uint32_t to)
{
    enum { AT_ONCE = 4 };
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (uint32_t i = from; i < to; i += AT_ONCE) {
        pthread_t t[AT_ONCE];
        for (uint32_t k = 0; k < AT_ONCE; k++)
            if (pthread_create(&t[k], &attr, one, (void *)(uintptr_t)(i + k)) != 0)
                give_up("no thread");
        for (uint32_t k = 0; k < AT_ONCE; k++)
            pthread_join(t[k], NULL);
    }
    pthread_attr_destroy(&attr);
}

/* The kernel lists a thread for a moment after it was joined. */
static struct size size_after(const struct size *before)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 20000 && entries("/proc/self/task") > before->threads; i++)
        nanosleep(&pause, NULL);
    return size_now();
}

static void grows(const char *what, long from, long to, long allowed)
{
    if (to - from > allowed)
        printf("%s grow: %ld to %ld\n", what, from, to);
}

/* In instrumented programs freed memory stays in quarantine. */
static void grown(const struct size *from, const struct size *to)
{
    grows("threads", from->threads, to->threads, 0);
    grows("descriptors", from->descriptors, to->descriptors, 0);
    if (!INSTRUMENTED)
        grows("kilobytes", from->kilobytes, to->kilobytes, 2048);
}

HAZARD(ten_thousand_threads_leave_nothing_behind)
{
    uint32_t threads = crowd();
    words = buffer_new(0);
    MUST(cuMemsetD32(words, 1, N));
    for (uint32_t i = 0; i < N; i++) /* for words that no thread gets */
        MUST(cuMemsetD32(words + i * 4, i + 1, 1));
    run_threads(0, MANY / 20); /* fills the pools */
    MUST(cuCtxSynchronize());
    struct size before = size_now();
    run_threads(MANY / 20, threads);
    MUST(cuCtxSynchronize());
    struct size after = size_after(&before);
    grown(&before, &after);
    printf("all done: %d\n", atomic_load(&done) == threads);
    show("words", words);
}

HAZARD(streams_and_events_leave_nothing_behind)
{
    struct size before = {0};
    words = buffer_new(1);
    for (uint32_t i = 0; i < 1500; i++) {
        CUstream s = stream_new(i % 2);
        CUevent e = event_new();
        MUST(launch_mix(words, 3, i, s));
        MUST(cuEventRecord(e, s));
        MUST(cuEventSynchronize(e));
        MUST(cuEventDestroy(e));
        MUST(cuStreamDestroy(s));
        if (i == 300)
            before = size_now();
    }
    MUST(cuCtxSynchronize());
    struct size after = size_after(&before);
    grown(&before, &after);
    show("words", words);
}

HAZARD(contexts_leave_nothing_behind)
{
    struct size before = {0};
    for (uint32_t i = 0; i < 60; i++) {
        CUcontext ctx = context_new();
        CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
        words = buffer_new(i);
        MUST(cuMemsetD32Async(words, i, N, s));
        MUST(cuMemsetD32Async(words, i, N, CU_STREAM_PER_THREAD));
        MUST(cuCtxDestroy(ctx));
        if (i == 20)
            before = size_now();
    }
    struct size after = size_after(&before);
    grown(&before, &after);
}

/* Counts the library's threads (cutin-...) that are of a real-time class, or may run on the
 * caller's processor only. */
static int in_the_way(void)
{
    DIR *tasks = opendir("/proc/self/task");
    cpu_set_t mine;
    int n = 0;
    sched_getaffinity(0, sizeof(mine), &mine);
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        int tid = atoi(e->d_name);
        char path[64], name[32] = "";
        cpu_set_t cpus;
        snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
        FILE *f = tid ? fopen(path, "r") : NULL;
        if (!f)
            continue;
        bool ours = fgets(name, sizeof(name), f) && strncmp(name, "cutin-", 6) == 0;
        fclose(f);
        CPU_ZERO(&cpus);
        if (ours && sched_getaffinity(tid, sizeof(cpus), &cpus) == 0)
            n += sched_getscheduler(tid) != SCHED_OTHER || CPU_EQUAL(&cpus, &mine);
    }
    if (tasks)
        closedir(tasks);
    return n;
}

static void pin(int class, int priority, size_t cpus)
{
    struct sched_param param = {.sched_priority = priority};
    cpu_set_t set, all;
    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&set);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && (size_t)CPU_COUNT(&set) < cpus; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
    sched_setscheduler(0, class, &param); /* may be refused; the rest is still tested */
}

HAZARD_RAW(helper_threads_inherit_neither_class_nor_affinity)
{
    cpu_set_t cpus;
    bool alone = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1;
    pin(SCHED_FIFO, 1, 1);
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    for (uint32_t i = 0; i < 8; i++) /* with a budget of 1 us this needs a dispatcher */
        SAY(launch_mix(x, i, 7, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    printf("helper threads with inherited class or affinity: %d\n", alone ? 0 : in_the_way());
    show("x", x);
}
