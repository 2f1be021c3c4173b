/*
 * hold.c - holds one stream for a while (see hold.h). A thread of its own releases it, so a program
 * that waits for a held stream goes on.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "hold.h"

#include <pthread.h>
#include <time.h>

#include "shim/cutin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    CUstream stream;
    uint64_t until_ns; /* 0: not held */
} held[STREAMS];

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void release(int slot)
{
    if (held[slot].until_ns)
        cutin_stream_release(held[slot].stream);
    held[slot].until_ns = 0;
}

/* Releases what is due. Returns when the next one is due; 0: none is held. */
static uint64_t release_due(void)
{
    uint64_t now = now_ns(), next = 0;
    for (int i = 0; i < STREAMS; i++) {
        uint64_t until = held[i].until_ns;
        if (until && until <= now)
            release(i);
        else if (until && (!next || until < next))
            next = until;
    }
    return next;
}

static void *holder(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        uint64_t next = release_due();
        struct timespec at = {.tv_sec = (time_t)(next / 1000000000u),
                              .tv_nsec = (long)(next % 1000000000u)};
        if (next)
            pthread_cond_timedwait(&changed, &lock, &at);
        else
            pthread_cond_wait(&changed, &lock);
    }
    return NULL;
}

static void start(void)
{
    pthread_t thread;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    pthread_create(&thread, NULL, holder, NULL);
    pthread_detach(thread);
}

void hold_begin(int slot, CUstream stream, unsigned us)
{
    if (!cutin_version())
        return;
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    release(slot);
    if (cutin_stream_hold(stream) == CUDA_SUCCESS) {
        held[slot].stream = stream;
        held[slot].until_ns = now_ns() + us * 1000u;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
}

void hold_end(int slot)
{
    pthread_mutex_lock(&lock);
    release(slot);
    pthread_mutex_unlock(&lock);
}
