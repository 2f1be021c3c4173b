/*
 * leaving.c - a call that waits is left otherwise than by its return: the thread is to be cancelled
 * while it is inside. The driver's calls are no cancellation points, and neither are those that
 * wait in cutin instead.
 */
#include "tests/hazards/hazard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static CUstream s;
static CUdeviceptr x, y;
static CUevent event;
static atomic_bool inside;
static CUresult answer;

static CUresult synchronise_stream(void)
{
    return cuStreamSynchronize(s);
}

static CUresult synchronise_context(void)
{
    return cuCtxSynchronize();
}

static CUresult synchronise_event(void)
{
    return cuEventSynchronize(event);
}

static CUresult copy(void)
{
    static uint32_t words[N];
    return cuMemcpyDtoH(words, x, BYTES);
}

static CUresult launch_many(void)
{
    CUresult r = CUDA_SUCCESS;
    for (int i = 0; i < 6000 && r == CUDA_SUCCESS; i++) /* more than a queue takes */
        r = launch_mix(x, 5, 7, s);
    return r;
}

static CUresult release_memory(void)
{
    return cuMemFree(y);
}

static CUresult destroy(void)
{
    return cuStreamDestroy(s);
}

static void *call(void *fn)
{
    CUresult (*const *call)(void) = fn;
    MUST(cuCtxSetCurrent(context));
    atomic_store(&inside, true);
    answer = (*call)();
    return NULL; /* not printf, which is one */
}

HAZARD(a_thread_is_not_cancelled_while_a_call_waits)
{
    static const struct {
        const char *name;
        CUresult (*call)(void);
    } calls[] = {{"cuStreamSynchronize", synchronise_stream},
                 {"cuCtxSynchronize", synchronise_context},
                 {"cuEventSynchronize", synchronise_event},
                 {"cuMemcpyDtoH", copy},
                 {"cuLaunchKernel", launch_many},
                 {"cuMemFree", release_memory},
                 {"cuStreamDestroy", destroy}};
    for (unsigned int i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        pthread_t thread;
        void *end;
        s = stream_new(CU_STREAM_NON_BLOCKING);
        x = buffer_new(3);
        y = buffer_new(4);
        event = event_new();
        warm(s);
        hold(s);
        MUST(launch_slow(x, 5, 7, 20000, s)); /* so that whoever waits looks more than once */
        MUST(cuEventRecord(event, s));
        atomic_store(&inside, false);
        if (pthread_create(&thread, NULL, call, (void *)&calls[i].call))
            give_up("no thread");
        UNTIL(atomic_load(&inside));
        for (int k = 0; k < 3; k++)
            nap();
        pthread_cancel(thread);
        pthread_join(thread, &end);
        printf("%s: %s\n", calls[i].name, end == PTHREAD_CANCELED ? "cancelled" : "returned");
        printf("answer %d\n", answer);
        MUST(cuCtxSynchronize());
        show("x", x);
    }
    printf("end\n");
}
