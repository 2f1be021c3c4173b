/*
 * calm.c - a process that does nothing is left alone (see calm.h).
 */
#include "scheduler/client/calm.h"

#define QUIET_NS   (1000 * NS_PER_MS)  /* without a call, after a second that is not watched */
#define PROMISE_NS (10000 * NS_PER_MS) /* the process beats again by then, on the busiest machine */

/* Most calls only look at the word: so it is WATCHED for only one second of two. */
enum { UNWATCHED, WATCHED, CALM };

_Atomic uint32_t client_calm_word;

bool calm_is_on(void)
{
    return atomic_load(&client_calm_word) == CALM;
}

bool calm_due(struct calm *c, uint64_t now_ns)
{
    uint32_t now = atomic_load(&client_calm_word);

    if (now != c->seen || !c->since_ns)
        *c = (struct calm){now, now_ns};
    if (now == UNWATCHED && now_ns - c->since_ns >= QUIET_NS) {
        atomic_store(&client_calm_word, WATCHED);
        *c = (struct calm){WATCHED, now_ns};
    }
    return now == CALM || (now == WATCHED && now_ns - c->since_ns >= QUIET_NS);
}

bool calm_begin(struct calm *c, struct cutin_page *page, uint64_t now_ns)
{
    uint32_t watched = WATCHED;

    atomic_store(&page->heartbeat_ns, now_ns + PROMISE_NS);
    if (!atomic_compare_exchange_strong(&client_calm_word, &watched, CALM) && watched != CALM) {
        atomic_store(&page->heartbeat_ns, now_ns);
        return false;
    }
    c->seen = CALM;
    return true;
}

/* The beat is written first: from then on the process may hold others, and may be stopped. */
bool calm_end(struct cutin_page *page)
{
    bool stood = calm_is_on(), calm;

    if (stood)
        atomic_store(&page->heartbeat_ns, clock_ns());
    calm = atomic_exchange(&client_calm_word, UNWATCHED) == CALM;
    if (calm && !stood) /* the calm began just now */
        atomic_store(&page->heartbeat_ns, clock_ns());
    return calm;
}
