/*
 * actor.c - one process of a play: `oracle-actor SEED ACTOR STAGE PIPES...`, with two pipes for
 * each actor, to hear it and to tell it something. It ends at the first call that goes wrong.
 */
#include <cuda.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels_ptx.h"
#include "stage.h"

enum { CELL_BYTES = WORDS * 4, KIND = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING };
enum { GREETING = LINKS }; /* a message that belongs to no link */

static struct play play;
static struct stage *stage;
static struct report *mine;
static unsigned self, at; /* at: as in the report */
static int hears[ACTORS], tells[ACTORS];
static bool heard[LINKS];

static CUcontext ctx;
static CUfunction mix, mix_spin, fill, copy, await_mix;
static CUstream stream[STREAMS];
static CUdeviceptr memory[ACTORS], board;
static CUevent event[LINKS];
static uint32_t *host; /* pinned, one cell */

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void broken(const char *what)
{
    snprintf(mine->broken, sizeof(mine->broken), "process %u: %s", self, what);
    _exit(1);
}

static void must(CUresult r)
{
    atomic_fetch_add(&stage->progress, 1);
    mine->code[at] = (int32_t)r;
    if (r != CUDA_SUCCESS)
        _exit(1);
}

/* ---- what all processes have ----------------------------------------------------------------- */

static CUdeviceptr cell(unsigned c)
{
    if (play.hosted)
        return board + offsetof(struct board, cell) + c * CELL_BYTES;
    return memory[cell_owner(&play, c)] + c / play.actors * CELL_BYTES;
}

static CUdeviceptr word_address(unsigned link)
{
    return board + link * WORD_STEP * sizeof(uint32_t);
}

static _Atomic uint32_t *word(unsigned link)
{
    return &stage->board.word[link * WORD_STEP];
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void word_await(_Atomic uint32_t *w)
{
    while (!atomic_load_explicit(w, memory_order_acquire))
        nap();
}

static void send_to(unsigned actor, uint8_t link)
{
    if (write(tells[actor], &link, 1) != 1)
        broken("a pipe takes nothing");
}

static uint8_t hear_from(unsigned actor)
{
    uint8_t link;
    if (read(hears[actor], &link, 1) != 1)
        broken("a pipe has nothing");
    return link;
}

static void hear(unsigned link)
{
    unsigned from = play.step[play.link[link].from].actor;
    while (!heard[link])
        heard[hear_from(from)] = true;
    atomic_fetch_add(&stage->progress, 1);
}

/* Waits until all have come to this point. */
static void meet(void)
{
    for (unsigned i = 0; i < play.actors; i++)
        if (i != self)
            send_to(i, GREETING);
    for (unsigned i = 0; i < play.actors; i++)
        if (i != self && hear_from(i) != GREETING)
            broken("a message that nobody heeded");
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void graph_run(CUgraph graph, CUstream s)
{
    CUgraphExec exec;
    must(cuGraphInstantiate(&exec, graph, 0));
    must(cuGraphLaunch(exec, s));
    must(cuGraphExecDestroy(exec));
    must(cuGraphDestroy(graph));
}

static CUgraph graph_new(void)
{
    CUgraph graph;
    must(cuGraphCreate(&graph, 0));
    return graph;
}

static CUgraphNode graph_mix(CUgraph graph, CUgraphNode behind, unsigned c, uint32_t a, uint32_t b)
{
    CUdeviceptr x = cell(c);
    uint32_t n = WORDS;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS p = {.func = mix,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = WORDS,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&x, &a, &b, &n}};
    must(cuGraphAddKernelNode(&node, graph, &behind, !!behind, &p));
    return node;
}

static CUgraphNode graph_memop(CUgraph graph, CUgraphNode behind, unsigned link, bool waits)
{
    CUgraphNode node;
    CUstreamBatchMemOpParams op = {.waitValue = {.operation = waits
                                                                  ? CU_STREAM_MEM_OP_WAIT_VALUE_32
                                                                  : CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                 .address = word_address(link),
                                                 .value = 1,
                                                 .flags = waits ? CU_STREAM_WAIT_VALUE_GEQ : 0}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = ctx, .count = 1, .paramArray = &op};
    must(cuGraphAddBatchMemOpNode(&node, graph, &behind, !!behind, &p));
    return node;
}

/* ---- acts ------------------------------------------------------------------------------------ */

static void launch(CUfunction f, CUstream s, void **params)
{
    must(cuLaunchKernel(f, 1, 1, 1, WORDS, 1, 1, 0, s, params, NULL));
}

static void cell_mix(const struct step *step, CUstream s)
{
    CUdeviceptr x = cell(step->cell);
    uint32_t a = step->a, b = step->b, n = WORDS;
    uint64_t ns = step->ns;
    bool longer = step->act == ACT_mix_long;
    launch(longer ? mix_spin : mix, s, (void *[]){&x, &a, &b, &n, &ns});
}

/* A graph of two halves. */
static void cell_mix_in_graph(const struct step *step, CUstream s)
{
    CUgraph graph = graph_new();
    CUgraphNode half = graph_mix(graph, NULL, step->cell, step->a, 0);
    graph_mix(graph, half, step->cell, 1, step->b);
    graph_run(graph, s);
}

static void cell_copy(const struct step *step, CUstream s)
{
    CUdeviceptr to = cell(step->cell), from = cell(step->source);
    uint32_t n = WORDS;
    if (step->act == ACT_copy)
        must(cuMemcpyAsync(to, from, CELL_BYTES, s));
    else
        launch(copy, s, (void *[]){&to, &from, &n});
}

static uint32_t cell_read(unsigned c, CUstream s)
{
    must(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, cell(c), CELL_BYTES, s));
    must(cuStreamSynchronize(s));
    for (int i = 1; i < WORDS; i++)
        if (host[i] != host[0])
            broken("a cell was read while it changed");
    return host[0];
}

static void act(const struct step *step, CUstream s)
{
    switch (step->act) {
    case ACT_read:
        mine->read[at] = cell_read(step->cell, s);
        break;
    case ACT_copy:
    case ACT_copy_by_kernel:
        cell_copy(step, s);
        break;
    case ACT_mix_in_graph:
        cell_mix_in_graph(step, s);
        break;
    default:
        cell_mix(step, s);
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static void CUDA_CB function_write(void *w)
{
    atomic_store_explicit((_Atomic uint32_t *)w, 1, memory_order_release);
}

static void record_in_graph(unsigned link, CUstream s)
{
    CUgraph graph = graph_new();
    CUgraphNode node, first = graph_mix(graph, NULL, play.step[at].cell, 1, 0);
    must(cuGraphAddEventRecordNode(&node, graph, &first, 1, event[link]));
    graph_run(graph, s);
}

static void write_in_graph(unsigned link, CUstream s)
{
    CUgraph graph = graph_new();
    CUgraphNode first = graph_mix(graph, NULL, play.step[at].cell, 1, 0);
    graph_memop(graph, first, link, false);
    graph_run(graph, s);
}

static void write_by_kernel(unsigned link, CUstream s)
{
    CUdeviceptr w = word_address(link);
    uint32_t one = 1, n = 1;
    launch(fill, s, (void *[]){&w, &one, &n});
}

static void record_context(unsigned link)
{
#if CUDA_VERSION >= 12050
    must(cuCtxRecordEvent(ctx, event[link]));
#else
    (void)link;
#endif
}

static void tell(unsigned link, CUstream s)
{
    const struct link *l = &play.link[link];
    unsigned to = play.step[l->to].actor;
    switch (l->tell) {
    case TELL_record:
        must(cuEventRecord(event[link], s));
        break;
    case TELL_graph_record:
        record_in_graph(link, s);
        break;
    case TELL_context_record:
        record_context(link);
        break;
    case TELL_write:
        must(cuStreamWriteValue32(s, word_address(link), 1, 0));
        break;
    case TELL_graph_write:
        write_in_graph(link, s);
        break;
    case TELL_kernel_write:
        write_by_kernel(link, s);
        break;
    case TELL_function_write:
        must(cuLaunchHostFunc(s, function_write, word(link)));
        break;
    case TELL_host_write:
        must(cuStreamSynchronize(s));
        atomic_store_explicit(word(link), 1, memory_order_release);
        break;
    default:
        must(cuStreamSynchronize(s));
    }
    if (to == self)
        heard[link] = true;
    else if (l->tell <= TELL_context_record || l->tell == TELL_message)
        send_to(to, (uint8_t)link);
}

/* ---- heeding --------------------------------------------------------------------------------- */

static void CUDA_CB function_poll(void *w)
{
    word_await(w);
}

static void wait_in_graph(unsigned link, CUstream s)
{
    CUgraph graph = graph_new();
    CUgraphNode first;
    must(cuGraphAddEventWaitNode(&first, graph, NULL, 0, event[link]));
    graph_mix(graph, first, play.step[at].cell, 1, 0);
    graph_run(graph, s);
}

static void value_in_graph(unsigned link, CUstream s)
{
    CUgraph graph = graph_new();
    CUgraphNode first = graph_memop(graph, NULL, link, true);
    graph_mix(graph, first, play.step[at].cell, 1, 0);
    graph_run(graph, s);
}

static void spin(unsigned link, CUstream s)
{
    CUdeviceptr x = cell(play.step[at].cell), w = word_address(link);
    uint32_t one = 1, zero = 0, n = WORDS;
    launch(await_mix, s, (void *[]){&x, &one, &zero, &n, &w, &one});
}

static void wait_context(unsigned link)
{
#if CUDA_VERSION >= 12050
    must(cuCtxWaitEvent(ctx, event[link]));
#else
    (void)link;
#endif
}

static void query(CUevent e)
{
    CUresult r;
    while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY)
        nap();
    must(r);
}

static void heed(unsigned link, CUstream s)
{
    const struct link *l = &play.link[link];
    if (l->heed <= HEED_query || l->heed == HEED_hear)
        hear(link);
    switch (l->heed) {
    case HEED_wait:
        must(cuStreamWaitEvent(s, event[link], 0));
        break;
    case HEED_graph_wait:
        wait_in_graph(link, s);
        break;
    case HEED_context_wait:
        wait_context(link);
        break;
    case HEED_synchronize:
        must(cuEventSynchronize(event[link]));
        break;
    case HEED_query:
        query(event[link]);
        break;
    case HEED_value:
        must(cuStreamWaitValue32(s, word_address(link), 1, CU_STREAM_WAIT_VALUE_GEQ));
        break;
    case HEED_graph_value:
        value_in_graph(link, s);
        break;
    case HEED_kernel_spin:
        spin(link, s);
        break;
    case HEED_function_poll:
        must(cuLaunchHostFunc(s, function_poll, word(link)));
        break;
    case HEED_host_poll:
        word_await(word(link));
        break;
    default:
        break;
    }
    if (l->once && event[link]) {
        must(cuEventDestroy(event[link]));
        event[link] = NULL;
    }
}

/* ---- the play -------------------------------------------------------------------------------- */

static void be_at(unsigned step)
{
    mine->at = at = step;
}

static void step_run(unsigned index)
{
    const struct step *step = &play.step[index];
    CUstream s = stream[step->stream];
    be_at(index);
    for (unsigned i = 0; i < play.links; i++)
        if (play.link[i].to == at)
            heed(i, s);
    act(step, s);
    for (unsigned i = 0; i < play.links; i++)
        if (play.link[i].from == at)
            tell(i, s);
}

static bool has_event(unsigned link, unsigned *owner)
{
    const struct link *l = &play.link[link];
    unsigned from = play.step[l->from].actor, to = play.step[l->to].actor;
    *owner = l->owner;
    return l->tell <= TELL_context_record && (from == self || to == self);
}

/* Hands out memory that the others will open. */
static void memory_hand_out(void)
{
    must(cuMemAlloc(&memory[self], CELLS * CELL_BYTES));
    must(cuIpcGetMemHandle((CUipcMemHandle *)stage->memory[self], memory[self]));
}

static void memory_take_in(unsigned actor)
{
    CUipcMemHandle handle;
    memcpy(&handle, stage->memory[actor], sizeof(handle));
    must(cuIpcOpenMemHandle(&memory[actor], handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void event_hand_out(unsigned link)
{
    must(cuEventCreate(&event[link], KIND));
    must(cuIpcGetEventHandle((CUipcEventHandle *)stage->event[link], event[link]));
}

static void event_take_in(unsigned link)
{
    CUipcEventHandle handle;
    memcpy(&handle, stage->event[link], sizeof(handle));
    must(cuIpcOpenEventHandle(&event[link], handle));
}

static void hand_out(void)
{
    unsigned owner;
    if (!play.hosted)
        memory_hand_out();
    for (unsigned c = 0; c < CELLS; c++)
        if (cell_owner(&play, c) == self)
            must(cuMemsetD32(cell(c), cell_first(c), WORDS));
    must(cuCtxSynchronize());
    for (unsigned i = 0; i < play.links; i++)
        if (has_event(i, &owner) && owner == self)
            event_hand_out(i);
}

static void take_in(void)
{
    unsigned owner;
    for (unsigned i = 0; i < play.actors && !play.hosted; i++)
        if (i != self)
            memory_take_in(i);
    for (unsigned i = 0; i < play.links; i++)
        if (has_event(i, &owner) && owner != self)
            event_take_in(i);
}

static void open_all(void)
{
    CUdevice device;
    CUmodule module;
    must(cuInit(0));
    must(cuDeviceGet(&device, 0));
    must(cuDevicePrimaryCtxRetain(&ctx, device));
    must(cuCtxSetCurrent(ctx));
    must(cuModuleLoadData(&module, kernels_ptx));
    must(cuModuleGetFunction(&mix, module, "mix"));
    must(cuModuleGetFunction(&mix_spin, module, "mix_spin"));
    must(cuModuleGetFunction(&fill, module, "fill"));
    must(cuModuleGetFunction(&copy, module, "copy"));
    must(cuModuleGetFunction(&await_mix, module, "await_mix"));
    for (int i = 0; i < STREAMS; i++)
        must(
            cuStreamCreate(&stream[i], play.blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    must(cuMemAllocHost((void **)&host, CELL_BYTES));
    must(cuMemHostRegister(&stage->board, sizeof(stage->board),
                           CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    must(cuMemHostGetDevicePointer(&board, &stage->board, 0));
    hand_out();
    meet();
    take_in();
    meet();
}

static void close_all(void)
{
    for (unsigned c = 0; c < CELLS; c++)
        mine->last[c] = cell_read(c, stream[0]);
    for (unsigned i = 0; i < play.links; i++)
        if (event[i])
            must(cuEventDestroy(event[i]));
    for (unsigned i = 0; i < play.actors && !play.hosted; i++)
        if (i != self)
            must(cuIpcCloseMemHandle(memory[i]));
    meet();
    if (!play.hosted)
        must(cuMemFree(memory[self]));
    must(cuMemHostUnregister(&stage->board));
}

int main(int argc, char **argv)
{
    if (argc != 4 + 2 * ACTORS)
        return 2;
    play_draw(&play, strtoull(argv[1], NULL, 10));
    self = (unsigned)atoi(argv[2]);
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[3]), 0);
    if (stage == MAP_FAILED)
        return 2;
    for (int i = 0; i < ACTORS; i++) {
        hears[i] = atoi(argv[4 + 2 * i]);
        tells[i] = atoi(argv[5 + 2 * i]);
    }
    mine = &stage->report[self];
    be_at(STEPS);
    open_all();
    for (unsigned i = 0; i < play.steps; i++)
        if (play.step[play.order[i]].actor == self)
            step_run(play.order[i]);
    be_at(STEPS);
    must(cuCtxSynchronize());
    meet();
    close_all();
    mine->done = 1;
    return 0;
}
