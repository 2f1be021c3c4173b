/*
 * link_thread.c - the thread of the link, which alone has its descriptors.
 *
 * Not the client's thread: that one asks the driver, whose files are the program's.
 */
#include "scheduler/client/link.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "common/thread.h"

#define FIRST_WAIT_NS (200 * NS_PER_MS) /* client_open, for the daemon's welcome */
#define LOOK_NS       (50 * NS_PER_MS)  /* where the bell cannot be rung */
#define SHARED_NS     (10 * NS_PER_MS)  /* where there is none */

static uint64_t earlier(uint64_t ns, uint64_t at_ns, uint64_t now)
{
    return at_ns <= now ? 0 : at_ns - now < ns ? at_ns - now : ns;
}

static uint64_t sleep_ns(const struct client_state *self)
{
    uint64_t now = clock_ns();

    if (!self->own_table || self->link == LINK_DRAIN || self->activity.preemptible.dead)
        return SHARED_NS;
    if (self->link == LINK_NONE)
        return earlier(LOOK_NS, self->retry_ns, now);
    return self->link == LINK_HELLO ? earlier(LOOK_NS, self->welcome_by_ns, now) : LOOK_NS;
}

/* Or until the end, of which link_end tells. True: something has come. */
static bool sleep_until_news(struct client_state *self, uint64_t ns)
{
    struct timespec limit = {.tv_nsec = (long)ns};
    struct pollfd p[] = {{.fd = -1, .events = POLLIN}, {.fd = self->bell.fd, .events = POLLIN}};
    bool came;

    /* A descriptor that was closed under us answers POLLNVAL at once: do not spin on it. */
    if (connection_ours(&self->connection))
        p[0].fd = self->connection.fd;
    if (p[0].fd < 0 && p[1].fd < 0) {
        state_wait(&self->stop, 0, clock_ns() + ns);
        return false;
    }
    came = ppoll(p, 2, &limit, NULL) > 0;
    if (p[1].revents)
        bell_hear(&self->bell);
    return came;
}

static void link_begin(struct client_state *self)
{
    self->bell = (struct bell){.fd = -1};
    self->own_table = bell_table_own();
    if (self->own_table)
        bell_hang(&self->bell);
    link_connect(self, FIRST_WAIT_NS);
    self->tried = true;
}

static void link_leave(struct client_state *self)
{
    self->said[NOTICE_LOST] = true; /* not news: we are leaving */
    if (self->link == LINK_UP || self->link == LINK_HELLO)
        link_down(self, -ECONNRESET);
    for (int i = 0; i < 1000 && self->link == LINK_DRAIN; i++) {
        sched_yield();
        link_drain(self);
    }
    self->link = LINK_NONE;
    self->retry_ns = 0;
    bell_remove(&self->bell);
}

static void *link_main(void *arg)
{
    struct client_state *self = arg;
    uint64_t ns;

    pthread_mutex_lock(&self->lock);
    link_begin(self);
    state_news(self);
    while (!atomic_load(&self->stop)) {
        enum link_state before = self->link;
        bool came;

        ns = sleep_ns(self);
        pthread_mutex_unlock(&self->lock);
        came = sleep_until_news(self, ns);
        pthread_mutex_lock(&self->lock);
        if (!atomic_load(&self->stop))
            link_service(self, clock_ns());
        if (came || self->link != before)
            state_news(self);
    }
    link_leave(self);
    pthread_mutex_unlock(&self->lock);
    atomic_store(&self->link_ended, 1);
    state_wake(&self->link_ended);
    return NULL;
}

int link_start(struct client_state *self)
{
    int rc;

    self->tried = false;
    atomic_store(&self->link_ended, 0);
    rc = thread_new(&self->link_thread, "cutin-link", link_main, self);
    self->linked = rc == 0;
    return rc;
}

bool link_end(struct client_state *self, uint64_t by_ns)
{
    if (!self->linked)
        return true;
    pthread_mutex_lock(&self->lock);
    if (self->own_table)
        bell_ring(&self->bell);
    else
        connection_end(&self->connection);
    pthread_mutex_unlock(&self->lock);
    if (!state_wait(&self->link_ended, 0, by_ns))
        return false;
    thread_join(self->link_thread);
    self->linked = false;
    return true;
}
