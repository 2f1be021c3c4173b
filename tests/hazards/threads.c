/*
 * threads.c - very many threads that each use their per-thread stream and end: nothing stays.
 */
#include "tests/hazards/hazard.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { MANY = 1600, INSTRUMENTED = 1 };
#else
enum { MANY = 10000, INSTRUMENTED = 0 };
#endif

/* The whole crowd once; a tenth in the other ways to run. */
static uint32_t crowd(void)
{
    static const char *const ways[] = {"CUTIN_BUDGET_US", "SIMGPU_MEMOPS", "CUTIN_PRIORITY",
                                       "CUDA_INJECTION64_PATH"};
    for (unsigned int i = 0; i < sizeof ways / sizeof *ways; i++)
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
    while (f && fgets(line, sizeof line, f))
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
        give_up("a thread's own stream");
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

static void grows(const char *what, long from, long to, long allowed)
{
    if (to - from > allowed)
        printf("%s grow: %ld to %ld\n", what, from, to);
}

/* What is freed stays in quarantine in instrumented programs. */
static void grown(const struct size *from, const struct size *to)
{
    grows("threads", from->threads, to->threads, 0);
    grows("descriptors", from->descriptors, to->descriptors, 0);
    if (!INSTRUMENTED)
        grows("kilobytes", from->kilobytes, to->kilobytes, 2048);
}

HAZARD(ten_thousand_threads_come_and_go)
{
    uint32_t threads = crowd();
    words = buffer_new(0);
    MUST(cuMemsetD32(words, 1, N));
    for (uint32_t i = 0; i < N; i++) /* whoever has not been there */
        MUST(cuMemsetD32(words + i * 4, i + 1, 1));
    run_threads(0, MANY / 20); /* pools fill */
    MUST(cuCtxSynchronize());
    struct size before = size_now();
    run_threads(MANY / 20, threads);
    MUST(cuCtxSynchronize());
    struct size after = size_now();
    grown(&before, &after);
    printf("all done: %d\n", atomic_load(&done) == threads);
    show("words", words);
}

HAZARD(streams_and_events_come_and_go)
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
    struct size after = size_now();
    grown(&before, &after);
    show("words", words);
}

HAZARD(contexts_come_and_go)
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
    struct size after = size_now();
    grown(&before, &after);
}
