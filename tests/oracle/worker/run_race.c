/*
 * run_race.c - runs races: one thread issues and tells, while another one asks.
 */
#include "machine.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "trace.h"

enum { HURRIED = 200 };

/* The first tries follow each other as fast as they can, so that some come in between. */
static void ask_nap(unsigned tries)
{
    if (tries < HURRIED)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* Asks once. `all`: the answer was "done", after this thread had been told of all steps. */
static CUresult ask_once(const struct op *o, bool event, bool *all)
{
    uint32_t told = atomic_load_explicit(&m.told[o->flag], memory_order_acquire);
    CUresult r = event ? cuEventQuery(m.event[o->event]) : CALL(cuStreamQuery, o, handle(o));
    if (r == CUDA_SUCCESS && told)
        trace_said_race(o->flag, told);
    *all = r == CUDA_SUCCESS && told == o->a;
    return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

static CUresult ask(const struct op *o)
{
    CUresult r = CUDA_SUCCESS;
    bool all[2] = {false, false}; /* the stream, the event */
    for (unsigned tries = 0; !r && !(all[0] && all[1]); tries++) {
        bool event = tries >> (o->variant & 3) & 1;
        r = ask_once(o, event, &all[event]);
        ask_nap(tries);
    }
    return r;
}

/* Between two steps the stream may become idle, and the next comes while a thread asks for it. */
static void tell_nap(const struct op *o)
{
    uint32_t us = (o->b >> (4 * o->a)) & 63;
    if (us & 1)
        nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

CUresult run_race(const struct op *o, uint32_t index)
{
    (void)index;
    if (o->kind == OP_ASK)
        return ask(o);
    atomic_store_explicit(&m.told[o->flag], o->a, memory_order_release);
    tell_nap(o);
    return CUDA_SUCCESS;
}
