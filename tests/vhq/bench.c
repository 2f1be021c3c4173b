/*
 * bench.c - what a command costs the calling thread. Prints nanoseconds per command, inline and
 * buffered, with one stream per thread. This is no test. The driver is a pair of empty functions.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vhq/vhq.h"

enum { COMMANDS = 4 * 1000 * 1000, BATCH = 2000, PAYLOAD = 128, THREADS_MAX = 8 };

struct stream {
    struct vhq *q;
    _Atomic uint32_t done, hold;
    uint32_t est_ns;
    double inline_ns, buffered_ns;
};

static struct vhq_set *set;

static int mark(void *user, struct vhq *q, void *stream, uint32_t value)
{
    struct stream *s = stream;
    atomic_store_explicit(&s->done, value, memory_order_release);
    return 0;
}

static bool failed(void *user, struct vhq *q, int err)
{
    return true;
}

static int run(void *payload)
{
    return 0;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void launch(struct stream *s, uint32_t flags)
{
    static const char args[PAYLOAD];
    struct vhq_req req = {.bytes = PAYLOAD, .est_ns = s->est_ns, .flags = flags};
    struct vhq_cmd *cmd;
    int how = vhq_begin(s->q, &req, &cmd);
    if (how == VHQ_BUFFER) {
        cmd->run = run;
        memcpy(cmd->payload, args, PAYLOAD);
    }
    vhq_end(s->q, NULL, 0);
}

static void *inlined(void *arg)
{
    struct stream *s = arg;
    double t = now();
    for (int i = 0; i < COMMANDS; i++)
        launch(s, 0);
    s->inline_ns = (now() - t) / COMMANDS;
    return NULL;
}

/* Commands are held, so that only the producer is measured; then they are drained, unmeasured. */
static void *buffered(void *arg)
{
    struct stream *s = arg;
    double total = 0;
    for (int i = 0; i < COMMANDS / 10 / BATCH; i++) {
        atomic_store(&s->hold, 1);
        launch(s, VHQ_MUST_BUFFER);
        double t = now();
        for (int k = 0; k < BATCH; k++)
            launch(s, 0);
        total += now() - t;
        atomic_store(&s->hold, 0);
        vhq_drain(s->q, true, false);
    }
    s->buffered_ns = total / (COMMANDS / 10 / BATCH) / BATCH;
    return NULL;
}

static void all(struct stream *streams, int n, void *(*work)(void *))
{
    pthread_t thread[THREADS_MAX];
    for (int i = 0; i < n; i++)
        pthread_create(&thread[i], NULL, work, &streams[i]);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    struct vhq_config cfg = {.budget_us = 200, .depth = 32};
    struct vhq_ops ops = {.mark = mark, .failed = failed};
    static struct stream streams[THREADS_MAX];
    vhq_set_create(&cfg, &ops, NULL, &set);
    for (int i = 0; i < threads; i++) {
        struct stream *s = &streams[i];
        struct vhq_desc desc = {.stream = s, .done = &s->done, .hold = &s->hold};
        s->est_ns = 2000;
        vhq_create(set, &desc, &s->q);
    }
    all(streams, threads, inlined);
    all(streams, threads, buffered);
    double in = 0, buf = 0;
    for (int i = 0; i < threads; i++) {
        in += streams[i].inline_ns / threads;
        buf += streams[i].buffered_ns / threads;
    }
    printf("threads %d  inline %.1f ns  buffered %.1f ns\n", threads, in, buf);
    vhq_set_destroy(set, false);
    return 0;
}
