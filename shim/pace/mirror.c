/*
 * mirror.c - hold words where the GPU can see them (see mirror.h).
 */
#include "shim/pace/mirror.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include <utlist.h>

#include "common/thread.h"
#include "shim/objects/word.h"

enum { BUSY_NAP_NS = 100 * 1000, IDLE_NAP_NS = 1000 * 1000 };

struct mirror {
    struct vhq_set *set;
    const _Atomic uint32_t *word;
    _Atomic uint32_t *copy;
    bool paused;
    struct mirror *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mirror *mirrors;
static bool running;

static void *mirror_main(void *unused)
{
    thread_name("cutin-mirror");
    prctl(PR_SET_TIMERSLACK, 1ul);
    for (;;) {
        struct timespec nap = {.tv_nsec = IDLE_NAP_NS};
        struct mirror *m;
        pthread_mutex_lock(&lock);
        DL_FOREACH (mirrors, m) {
            uint32_t now = atomic_load(m->word);
            /* Write only what differs: the GPU may be looking at it. */
            if (!m->paused && atomic_load_explicit(m->copy, memory_order_relaxed) != now)
                atomic_store(m->copy, now);
            if (vhq_set_in_flight(m->set))
                nap.tv_nsec = BUSY_NAP_NS;
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

struct mirror *mirror_new(struct shim_context *ctx, const _Atomic uint32_t *word,
                          CUdeviceptr *device)
{
    struct mirror *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    *m = (struct mirror){.set = ctx->set, .word = word, .copy = word_get(ctx, device)};
    pthread_mutex_lock(&lock);
    bool up = m->copy && word && thread_once(&running, mirror_main);
    if (up)
        DL_APPEND(mirrors, m);
    pthread_mutex_unlock(&lock);
    if (up)
        return m;
    free(m);
    return NULL;
}

void mirror_pause(struct mirror *m, bool pause)
{
    pthread_mutex_lock(&lock);
    if (pause)
        atomic_store(m->copy, 0);
    m->paused = pause;
    pthread_mutex_unlock(&lock);
}

void mirror_free(struct mirror *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&lock);
    DL_DELETE(mirrors, m);
    pthread_mutex_unlock(&lock);
    free(m);
}
