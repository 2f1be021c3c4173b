/*
 * worker.c - one process of a workload: a job that always has something to do, or the service. It
 * is started by cutin-purpose, and linked with the driver: the loader's path decides which one.
 *
 *   purpose-worker SEED PLACE BEGIN_NS
 */
#include <cuda.h>

#include "record.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels_ptx.h"
#include "common/clock.h"
#include "tools/cutin/statistics/random.h"

enum { THREADS = 1024, COPY_EVERY = 16 };

static struct {
    struct workload workload;
    struct record *record;
    uint64_t begin_ns;
    CUfunction spin, spin_quiet;
    CUstream stream[STREAMS];
    uint64_t random[STREAMS];
} self;

static void check(CUresult rc, uint32_t line)
{
    if (rc == CUDA_SUCCESS)
        return;
    self.record->failed_line = line;
    atomic_store(&self.record->failed, rc);
    _exit(1);
}
#define CHECK(call) check(call, __LINE__)

static void driver_open(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, kernels_ptx));
    CHECK(cuModuleGetFunction(&self.spin, module, "spin"));
    CHECK(cuModuleGetFunction(&self.spin_quiet, module, "spin_word"));
}

static void streams_open(uint32_t n, bool per_thread)
{
    for (uint32_t i = 0; i < n; i++) {
        unsigned long long id;
        if (per_thread)
            self.stream[i] = CU_STREAM_PER_THREAD;
        else
            CHECK(cuStreamCreate(&self.stream[i], CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamGetId(self.stream[i], &id));
        self.record->stream_id[i] = id;
        self.record->per_call[i] = 1;
        self.random[i] = self.workload.seed * 16 + i;
    }
}

static void *pinned(size_t bytes)
{
    void *p;
    CHECK(cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    return p;
}

static void launch(CUfunction f, CUstream stream, uint32_t blocks, void **params)
{
    CHECK(cuLaunchKernel(f, blocks, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
}

static void spin(CUstream stream, uint32_t blocks, uint64_t ns)
{
    launch(self.spin, stream, blocks, (void *[]){&ns});
}

/* ---- a job ----------------------------------------------------------------------------------- */

struct lane {
    CUstream stream;
    uint32_t launches;
    uint64_t *lengths; /* of unannounced kernels: a ring longer than any queue */
    CUdeviceptr at_device;
    void *at_host;
    CUgraphExec graph;
};
enum { LENGTHS_RING = 1 << 14 };

/* The kernel looks its length up in memory, so the parameters of two launches do not tell it. */
static void spin_unannounced(struct lane *l, uint32_t blocks, uint64_t ns)
{
    uint64_t *word = &l->lengths[l->launches % LENGTHS_RING];
    __atomic_store_n(word, ns, __ATOMIC_RELEASE);
    launch(self.spin_quiet, l->stream, blocks, (void *[]){&word});
}

static void kernel(const struct job *j, struct lane *l, uint32_t place)
{
    uint64_t ns = job_kernel_us(j, l->launches, &self.random[place]) * 1000ull;
    if (j->quiet)
        spin_unannounced(l, j->blocks, ns);
    else
        spin(l->stream, j->blocks, ns);
}

static void lane_graph(const struct job *j, struct lane *l, uint32_t place)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(l->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (uint32_t i = 0; i < j->graph; i++, l->launches++)
        kernel(j, l, place);
    CHECK(cuStreamEndCapture(l->stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&l->graph, graph, 0));
    self.record->per_call[place] = j->graph;
    l->launches = 0;
}

static void lane_open(const struct job *j, struct lane *l, uint32_t place)
{
    l->stream = self.stream[place];
    if (j->quiet)
        l->lengths = pinned(LENGTHS_RING * sizeof(*l->lengths));
    if (j->copy_kb) {
        l->at_host = pinned((size_t)j->copy_kb << 10);
        CHECK(cuMemAlloc(&l->at_device, (size_t)j->copy_kb << 10));
    }
    if (j->graph)
        lane_graph(j, l, place);
}

static void lane_copy(const struct job *j, struct lane *l)
{
    size_t bytes = (size_t)j->copy_kb << 10;
    if (l->launches / COPY_EVERY % 2)
        CHECK(cuMemcpyHtoDAsync(l->at_device, l->at_host, bytes, l->stream));
    else
        CHECK(cuMemcpyDtoHAsync(l->at_host, l->at_device, bytes, l->stream));
}

static void called(uint32_t place)
{
    struct record *r = self.record;
    uint32_t n = atomic_load_explicit(&r->calls[place], memory_order_relaxed);
    CHECK(n < RECORD_CALLS ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    r->call_ns[place][n] = clock_ns();
    atomic_store_explicit(&r->calls[place], n + 1, memory_order_release);
}

static void lane_step(const struct job *j, struct lane *l, uint32_t place)
{
    CUdeviceptr block;
    if (j->come_and_go)
        CHECK(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
    if (j->pool_mb)
        CHECK(cuMemAllocAsync(&block, (size_t)j->pool_mb << 20, l->stream));
    called(place);
    if (l->graph)
        CHECK(cuGraphLaunch(l->graph, l->stream));
    else
        kernel(j, l, place);
    if (j->pool_mb)
        CHECK(cuMemFreeAsync(block, l->stream));
    l->launches++;
    if (j->copy_kb && l->launches % COPY_EVERY == 0)
        lane_copy(j, l);
    if (j->sync_every && l->launches % j->sync_every == 0)
        CHECK(cuStreamSynchronize(l->stream));
    if (j->come_and_go)
        CHECK(cuStreamDestroy(l->stream));
}

static void job_stand(const struct job *j)
{
    enum { FILL_THE_CAP = 64 };
    uint32_t *word = pinned(64);
    CUstream stream;
    *word = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 0; i < FILL_THE_CAP; i++)
        spin(stream, j->blocks, j->us[0] * 1000ull);
}

static void job_run(const struct job *j)
{
    struct lane lane[STREAMS] = {0};
    uint64_t end_ns = self.begin_ns + j->end_ms * 1000000ull;
    streams_open(j->streams, j->per_thread);
    for (uint32_t i = 0; i < j->streams; i++)
        lane_open(j, &lane[i], i);
    if (j->stalls)
        job_stand(j);
    self.record->begun_ns = clock_ns();
    for (uint32_t i = 0; clock_ns() < end_ns; i = (i + 1) % j->streams)
        lane_step(j, &lane[i], i);
    _exit(0); /* the job was ended, and what is queued goes */
}

/* ---- a solo ---------------------------------------------------------------------------------- */

struct playing {
    const struct solo *p;
    CUstream stream[SOLO_STREAMS];
    CUevent event;
    CUgraphExec graph;
    CUdeviceptr memory;
};

static void play_kernel(const struct playing *g, uint32_t stream, const struct solo_kernel *k)
{
    spin(g->stream[stream], k->blocks, k->us * 1000ull);
}

static void CUDA_CB play_host(void *us)
{
    usleep((useconds_t)(uintptr_t)us);
}

static void play_step(const struct playing *g, const struct step *step)
{
    CUstream stream = g->stream[step->stream];
    switch (step->kind) {
    case STEP_kernels:
        for (uint32_t i = 0; i < step->count; i++)
            play_kernel(g, step->stream, &g->p->kernel[step->kernel]);
        break;
    case STEP_graphs:
        for (uint32_t i = 0; i < step->count; i++)
            CHECK(cuGraphLaunch(g->graph, stream));
        break;
    case STEP_set:
        CHECK(cuMemsetD32Async(g->memory, 1, 64, stream));
        break;
    case STEP_sync:
        CHECK(cuStreamSynchronize(stream));
        break;
    case STEP_after:
        CHECK(cuEventRecord(g->event, stream));
        CHECK(cuStreamWaitEvent(g->stream[step->other], g->event, 0));
        break;
    case STEP_host:
        CHECK(cuLaunchHostFunc(stream, play_host, (void *)(uintptr_t)step->count));
        break;
    case STEP_rest:
        usleep(step->count);
    }
}

static void play_streams(struct playing *g)
{
    for (uint32_t i = 0; i < g->p->streams; i++) {
        const struct solo_stream *s = &g->p->stream[i];
        if (!s->legacy)
            CHECK(cuStreamCreateWithPriority(
                &g->stream[i], s->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING,
                s->priority));
    }
}

static void play_graph(struct playing *g)
{
    const struct solo_kernel k = {g->p->graph_us, g->p->kernel[0].blocks};
    CUgraph graph;
    if (!g->p->graph)
        return;
    CHECK(cuStreamBeginCapture(g->stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    for (uint32_t i = 0; i < g->p->graph; i++)
        play_kernel(g, 0, &k);
    CHECK(cuStreamEndCapture(g->stream[0], &graph));
    CHECK(cuGraphInstantiateWithFlags(&g->graph, graph, 0));
}

/* After this the kernels' times are known, and no process is new any more. */
static void play_first(const struct playing *g)
{
    for (uint32_t i = 0; i < g->p->kernels; i++)
        for (int n = 0; n < 20; n++)
            play_kernel(g, 0, &g->p->kernel[i]);
    for (uint32_t i = 0; i < g->p->streams; i++)
        for (int n = 0; n < 4; n++)
            play_kernel(g, i, &g->p->kernel[0]);
    for (int n = 0; n < 4 && g->graph; n++)
        CHECK(cuGraphLaunch(g->graph, g->stream[0]));
    CHECK(cuCtxSynchronize());
    usleep(300000);
}

static void play(const struct solo *p)
{
    struct playing g = {.p = p};
    play_streams(&g);
    CHECK(cuEventCreate(&g.event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&g.memory, 4096));
    play_graph(&g);
    play_first(&g);
    self.record->begun_ns = clock_ns();
    for (uint32_t i = 0; i < p->steps; i++)
        play_step(&g, &p->step[i]);
    CHECK(cuCtxSynchronize());
    __atomic_store_n(&self.record->done_ns, clock_ns(), __ATOMIC_RELEASE);
    _exit(0);
}

/* ---- the service ----------------------------------------------------------------------------- */

struct serving {
    const struct service *v;
    CUstream stream;
    CUevent event;
    CUgraphExec graph;
    uint32_t *word; /* pinned; each request is followed by a write to it */
    uint32_t number;
    void *at_host;
    CUdeviceptr at_device;
    _Atomic uint32_t done;
};

static void CUDA_CB serving_done(void *user)
{
    struct serving *s = user;
    atomic_store(&s->done, s->number);
}

static void request_work(const struct serving *s)
{
    size_t bytes = (size_t)s->v->copy_kb << 10;
    if (bytes)
        CHECK(cuMemcpyHtoDAsync(s->at_device, s->at_host, bytes, s->stream));
    for (uint32_t i = 0; i < s->v->kernels; i++)
        spin(s->stream, s->v->blocks, s->v->kernel_us * 1000ull);
    if (bytes)
        CHECK(cuMemcpyDtoHAsync(s->at_host, s->at_device, bytes, s->stream));
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000}, NULL);
}

static void request_wait(struct serving *s)
{
    CUresult rc;
    switch (s->v->ending) {
    case ENDING_query:
        while ((rc = cuStreamQuery(s->stream)) == CUDA_ERROR_NOT_READY)
            nap();
        CHECK(rc);
        break;
    case ENDING_event:
        CHECK(cuEventRecord(s->event, s->stream));
        CHECK(cuEventSynchronize(s->event));
        break;
    case ENDING_function:
        CHECK(cuLaunchHostFunc(s->stream, serving_done, s));
        while (atomic_load(&s->done) != s->number)
            nap();
        break;
    case ENDING_word:
        CHECK(cuStreamWriteValue32(s->stream, (CUdeviceptr)(uintptr_t)s->word, s->number, 0));
        while (__atomic_load_n(s->word, __ATOMIC_ACQUIRE) != s->number)
            nap();
        break;
    default:
        CHECK(cuStreamSynchronize(s->stream));
    }
}

static void serving_open(struct serving *s)
{
    CUgraph graph;
    streams_open(1, false);
    s->stream = self.stream[0];
    s->word = pinned(64);
    *s->word = 0;
    CHECK(cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING));
    if (s->v->copy_kb) {
        s->at_host = pinned((size_t)s->v->copy_kb << 10);
        CHECK(cuMemAlloc(&s->at_device, (size_t)s->v->copy_kb << 10));
    }
    if (s->v->ending != ENDING_graph)
        return;
    CHECK(cuStreamBeginCapture(s->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    request_work(s);
    CHECK(cuStreamEndCapture(s->stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&s->graph, graph, 0));
}

static void serve(struct serving *s, struct request *r)
{
    clock_sleep_until(r->due_ns);
    s->number++;
    r->called_ns = clock_ns();
    if (s->graph)
        CHECK(cuGraphLaunch(s->graph, s->stream));
    else
        request_work(s);
    request_wait(s);
    r->known_ns = clock_ns();
}

static uint64_t gap_ns(const struct service *v, uint32_t i, uint64_t *random)
{
    double mean = v->gap_us * 1000.0;
    switch (v->arrival) {
    case ARRIVAL_poisson:
        return (uint64_t)(mean * random_exponential(random));
    case ARRIVAL_early: /* after so many others that they are forgotten */
        return (uint64_t)(i % 65 == 64 ? mean / 10 : mean);
    case ARRIVAL_quiet:
        return (uint64_t)(i % 30 == 29 ? 5e9 : mean);
    case ARRIVAL_once:
        return UINT32_MAX * 1000ull;
    case ARRIVAL_bursts:
        return i % 8 ? (uint64_t)(mean / 4) : (uint64_t)(mean * 6.25);
    default:
        return (uint64_t)mean;
    }
}

static void memory_look(void)
{
    size_t left, all;
    CHECK(cuMemGetInfo(&left, &all));
    if (all - left > self.record->memory_high)
        self.record->memory_high = all - left;
}

static void service_run(const struct service *v)
{
    struct serving s = {.v = v};
    uint64_t end_ns = self.begin_ns + self.workload.ms * 1000000ull, random = self.workload.seed;
    serving_open(&s);
    uint64_t due_ns = self.record->begun_ns = clock_ns();
    for (uint32_t i = 0; due_ns < end_ns && i < RECORD_REQUESTS; i++) {
        struct request *r = &self.record->request[i];
        r->due_ns = due_ns;
        serve(&s, r);
        atomic_store_explicit(&self.record->requests, i + 1, memory_order_release);
        memory_look();
        due_ns += gap_ns(v, i, &random);
    }
    clock_sleep_until(end_ns);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "purpose-worker: started by cutin-purpose, never by hand\n");
        return 2;
    }
    uint32_t place = (uint32_t)atoi(argv[2]);
    workload_draw(&self.workload, strtoull(argv[1], NULL, 10));
    self.begin_ns = strtoull(argv[3], NULL, 10);
    self.record =
        mmap(NULL, sizeof(*self.record), PROT_READ | PROT_WRITE, MAP_SHARED, RECORD_FD, 0);
    if (self.record == MAP_FAILED)
        return 1;
    driver_open();
    if (place == SERVICE)
        service_run(&self.workload.service);
    if (self.workload.solo)
        play(self.workload.solo);
    job_run(&self.workload.job[place]);
}
