/*
 * gpu_storage.c - searches a graph that is larger than the GPU's cache of it. The kernels read it
 * from storage themselves: they write commands into queues, ring doorbells, and poll completions,
 * as in BaM (Qureshi et al., ASPLOS 2023). The storage is a file; a thread of ours is its
 * controller. Distances are also written to the file, and compared with the processor's.
 *
 *   gpu_storage --rounds 5
 *   cutin run -- gpu_storage --seconds 10 --json
 *
 * A kernel runs as long as its level of the search takes, and waits most of that time.
 */
#include "storage.h"
#include "common.h"
#include "storage_controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage_kernels_ptx.h"

enum { BLOCK_WARPS = 4 }; /* the same as in gpu_storage.cu */

static double vertices = 16384, degree = 16, lines = 64, warps = 64, depth = 64, latency_us = 100,
              rounds = 1, seconds = 0;
static bool json, announce;

static const struct setting settings[] = {
    {"vertices", &vertices, NULL, 1, 1 << 24, "vertices of the graph"},
    {"degree", &degree, NULL, 1, 1024, "edges per vertex, on average"},
    {"lines", &lines, NULL, 2, 1 << 20, "lines of the cache, 4 KiB each"},
    {"warps", &warps, NULL, 4, 4096, "warps that search, a multiple of 4"},
    {"depth", &depth, NULL, 1, 4096, "commands that the storage works on at a time"},
    {"latency-us", &latency_us, NULL, 0, 1e6, "latency of a command, in microseconds"},
    {"rounds", &rounds, NULL, 1, 1e9, "searches, each from a different vertex"},
    {"seconds", &seconds, NULL, 0, 1e6, "search for this many instead; 0: --rounds counts"},
    {"announce", NULL, &announce, 0, 0, "say on stderr when the first search is done"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

struct graph {
    uint32_t vertices, edges, distance_pages, edge_pages;
    uint32_t *first_edge, *edge, *distance, *queue;
};

struct search {
    struct gpu gpu;
    CUstream stream;
    CUfunction search, flush;
    struct graph graph;
    struct storage host; /* copy of the GPU's, before a launch and after it */
    CUdeviceptr storage;
    struct storage_device device;
    struct storage_controller *controller;
    bool in_device_memory, io_memory;
    uint64_t done, reads, writes, hits, coalesced, levels, reached, gpu_ns;
    bool equal;
};

static void *allocate(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);
    if (!p) {
        fprintf(stderr, "gpu_storage: no memory\n");
        exit(EXIT_FAILURE);
    }
    return p;
}

static void fail(const char *what)
{
    fprintf(stderr, "gpu_storage: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static uint32_t pages_of(uint32_t words)
{
    return (words + STORAGE_WORDS - 1) / STORAGE_WORDS;
}

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % n;
}

static void graph_make(struct graph *g)
{
    uint32_t most = (uint32_t)degree * 2 - 1;
    g->vertices = (uint32_t)vertices;
    g->first_edge = allocate(g->vertices + 1, sizeof(uint32_t));
    g->distance = allocate(g->vertices, sizeof(uint32_t));
    g->queue = allocate(g->vertices, sizeof(uint32_t));
    for (uint32_t v = 0; v < g->vertices; v++)
        g->first_edge[v + 1] = g->first_edge[v] + 1 + random_below(most);
    g->edges = g->first_edge[g->vertices];
    g->distance_pages = pages_of(g->vertices);
    g->edge_pages = pages_of(g->edges);
    g->edge = allocate((size_t)g->edge_pages * STORAGE_WORDS, sizeof(uint32_t));
    for (uint32_t e = 0; e < g->edges; e++)
        g->edge[e] = random_below(g->vertices);
}

static void graph_free(struct graph *g)
{
    free(g->first_edge);
    free(g->edge);
    free(g->distance);
    free(g->queue);
}

/* The same search by the processor. */
static uint32_t graph_search(struct graph *g, uint32_t from)
{
    uint32_t reached = 1;
    memset(g->distance, 0xff, g->vertices * sizeof(uint32_t));
    g->distance[from] = 0;
    g->queue[0] = from;
    for (uint32_t i = 0; i < reached; i++) {
        uint32_t v = g->queue[i];
        for (uint32_t e = g->first_edge[v]; e < g->first_edge[v + 1]; e++) {
            if (g->distance[g->edge[e]] != STORAGE_NONE)
                continue;
            g->distance[g->edge[e]] = g->distance[v] + 1;
            g->queue[reached++] = g->edge[e];
        }
    }
    return reached;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void file_write(int file, const void *data, uint32_t pages, uint32_t at)
{
    size_t bytes = (size_t)pages * STORAGE_PAGE;
    if (pwrite(file, data, bytes, (off_t)at * STORAGE_PAGE) != (ssize_t)bytes)
        fail("the file cannot be written");
}

static int file_make(const struct graph *g)
{
    FILE *f = tmpfile();
    if (!f)
        fail("no temporary file can be made");
    file_write(fileno(f), g->edge, g->edge_pages, g->distance_pages);
    return fileno(f);
}

/* All vertices are out of reach, except the one where the search begins. */
static void distances_reset(const struct search *s, uint32_t from)
{
    uint32_t *all = allocate((size_t)s->graph.distance_pages * STORAGE_WORDS, sizeof(uint32_t));
    memset(all, 0xff, (size_t)s->graph.distance_pages * STORAGE_PAGE);
    all[from] = 0;
    file_write(s->device.file, all, s->graph.distance_pages, 0);
    free(all);
}

static bool distances_equal(const struct search *s)
{
    size_t bytes = s->graph.vertices * sizeof(uint32_t);
    uint32_t *found = allocate(s->graph.vertices, sizeof(uint32_t));
    bool read = pread(s->device.file, found, bytes, 0) == (ssize_t)bytes;
    bool equal = read && memcmp(found, s->graph.distance, bytes) == 0;
    free(found);
    return equal;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static CUdeviceptr device_memory(size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, bytes));
    CHECK(cuMemsetD8(p, 0, bytes));
    CHECK(cuStreamSynchronize(NULL)); /* our stream does not wait for memsets, nor do the calls */
    return p;
}

/* Can the controller, a thread of this process, access the device's memory? An SSD can, and so can
 * a thread if the GPU is simulated. */
static bool reaches(CUdeviceptr p)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    bool yes = write(ends[1], (const void *)(uintptr_t)p, 1) == 1; /* fails with EFAULT otherwise */
    close(ends[0]);
    close(ends[1]);
    return yes;
}

/* Memory for queues and lines, with one address for the GPU and the controller. */
static void *shared_memory(struct search *s, size_t bytes)
{
    void *p;
    CUdeviceptr device = device_memory(bytes);
    s->in_device_memory = reaches(device);
    if (s->in_device_memory)
        return (void *)(uintptr_t)device;
    CHECK(cuMemFree(device));
    CHECK(cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(p, 0, bytes);
    return p;
}

/* This page replaces an SSD's registers. If the driver accepts only a real device's memory as I/O
 * memory, the page is registered as ordinary memory. */
static void doorbells_make(struct search *s)
{
    CUdeviceptr device;
    size_t bytes = (s->device.queue_count * sizeof(struct storage_doorbell) + 4095) / 4096 * 4096;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("no memory for doorbells");
    s->io_memory =
        cuMemHostRegister(p, bytes, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY) ==
        CUDA_SUCCESS;
    if (!s->io_memory)
        CHECK(cuMemHostRegister(p, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&device, p, 0));
    s->device.doorbells = p;
    s->host.doorbells = (volatile struct storage_doorbell *)(uintptr_t)device;
}

static void *words(uint32_t n)
{
    return (void *)(uintptr_t)device_memory((size_t)n * sizeof(uint32_t));
}

static void storage_make(struct search *s)
{
    const struct graph *g = &s->graph;
    struct storage *h = &s->host;
    h->vertices = g->vertices;
    h->lines = (uint32_t)lines;
    h->warps = (uint32_t)warps / BLOCK_WARPS * BLOCK_WARPS;
    h->edge_page = g->distance_pages;
    s->device.queue_count = (h->warps + STORAGE_ENTRIES - 1) / STORAGE_ENTRIES;
    h->queues = shared_memory(s, s->device.queue_count * sizeof(*h->queues));
    h->data = shared_memory(s, (size_t)h->lines * STORAGE_PAGE);
    doorbells_make(s);
    h->pages = words((g->distance_pages + g->edge_pages) * 2);
    h->owner = words(h->lines);
    h->now = words(g->vertices);
    h->next = words(g->vertices);
    uint32_t *first_edge = words(g->vertices + 1);
    CHECK(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)first_edge, g->first_edge,
                       (g->vertices + 1) * sizeof(uint32_t)));
    h->first_edge = first_edge;
    s->storage = device_memory(sizeof(*h));
    s->device.file = file_make(g);
    s->device.queues = h->queues;
    s->device.depth = (uint32_t)depth;
    s->device.latency_ns = (uint64_t)(latency_us * 1000);
}

/* ---- searches -------------------------------------------------------------------------------- */

static void launch(struct search *s, CUfunction kernel, uint32_t level)
{
    void *params[] = {&s->storage, &level};
    s->host.taken = 0;
    CHECK(cuMemcpyHtoDAsync(s->storage, &s->host, sizeof(s->host), s->stream));
    CHECK(cuLaunchKernel(kernel, s->host.warps / BLOCK_WARPS, 1, 1, BLOCK_WARPS * STORAGE_LANES, 1,
                         1, 0, s->stream, params, NULL));
    CHECK(cuMemcpyDtoHAsync(&s->host, s->storage, sizeof(s->host), s->stream));
    CHECK(cuStreamSynchronize(s->stream));
    if (s->host.failed)
        fail("the storage failed");
}

/* Empties the cache, and makes the first vertex the only work. */
static void search_begin(struct search *s, uint32_t from)
{
    struct storage *h = &s->host;
    uint32_t pages = s->graph.distance_pages + s->graph.edge_pages;
    distances_reset(s, from);
    CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)h->pages, 0, pages * 2, s->stream));
    CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)h->owner, STORAGE_NONE, h->lines, s->stream));
    CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)h->now, from, 1, s->stream));
    h->now_count = 1;
    h->next_count = 0;
    h->hits = h->reads = h->writes = h->coalesced = 0;
}

static void search_round(struct search *s, uint32_t from)
{
    struct storage *h = &s->host;
    uint64_t reached = 1, start;
    search_begin(s, from);
    start = now_ns();
    for (uint32_t level = 0; h->now_count; level++) {
        launch(s, s->search, level);
        uint32_t *next = h->next;
        h->next = h->now;
        h->now = next;
        h->now_count = h->next_count;
        h->next_count = 0;
        reached += h->now_count;
        s->levels++;
    }
    launch(s, s->flush, 0);
    s->gpu_ns += now_ns() - start;
    s->reached += reached;
    s->reads += h->reads;
    s->writes += h->writes;
    s->hits += h->hits;
    s->coalesced += h->coalesced;
    s->equal &= graph_search(&s->graph, from) == reached && distances_equal(s);
    s->done++;
}

static void search_open(struct search *s)
{
    graph_make(&s->graph);
    gpu_open(&s->gpu);
    CUmodule module;
    CHECK(cuModuleLoadData(&module, storage_kernels_ptx));
    CHECK(cuModuleGetFunction(&s->search, module, "storage_search"));
    CHECK(cuModuleGetFunction(&s->flush, module, "storage_flush"));
    CHECK(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
    storage_make(s);
    s->controller = controller_start(&s->device);
    if (!s->controller)
        fail("the controller's thread cannot be started");
    s->equal = true;
    fprintf(stderr, "gpu_storage: queues in %s, doorbells in registered %s\n",
            s->in_device_memory ? "device memory"
                                : "pinned memory (no processor reaches the device's)",
            s->io_memory ? "I/O memory" : "memory (the driver takes none for I/O memory)");
}

static void search_report(const struct search *s)
{
    const struct graph *g = &s->graph;
    const char *format =
        json ? "{\"vertices\": %u, \"edges\": %u, \"pages\": %u, \"lines\": %u, \"rounds\": %llu, "
               "\"reached\": %llu, \"kernels\": %llu, \"reads\": %llu, \"writes\": %llu, "
               "\"hits\": %llu, \"coalesced\": %llu, \"ms_per_round\": %.2f, \"result\": \"%s\"}\n"
             : "%u vertices, %u edges, %u pages behind %u lines\n%llu rounds: %llu vertices "
               "reached by %llu kernels, %llu reads, %llu writes, %llu hits, %llu lanes coalesced, "
               "%.2f ms each; the processor's result %s\n";
    printf(format, g->vertices, g->edges, g->distance_pages + g->edge_pages, s->host.lines,
           (unsigned long long)s->done, (unsigned long long)s->reached,
           (unsigned long long)s->levels, (unsigned long long)s->reads,
           (unsigned long long)s->writes, (unsigned long long)s->hits,
           (unsigned long long)s->coalesced, (double)s->gpu_ns / 1e6 / (double)s->done,
           s->equal ? "equal" : "differs");
}

int main(int argc, char **argv)
{
    struct search s = {0};

    settings_read(settings, argc, argv, "Kernels that search a graph on storage by themselves.");
    stop_on_signals();
    search_open(&s);
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    do {
        search_round(&s, (uint32_t)(s.done * 7919 % s.graph.vertices));
        if (s.done == 1 && announce)
            fprintf(stderr, "gpu_storage: warm\n");
    } while (!stopped && (seconds > 0 ? now_ns() < end : s.done < (uint64_t)rounds));
    search_report(&s);
    controller_stop(s.controller);
    CHECK(cuStreamDestroy(s.stream));
    gpu_close(&s.gpu);
    graph_free(&s.graph);
    return s.equal ? EXIT_SUCCESS : EXIT_FAILURE;
}
