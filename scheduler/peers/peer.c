/* peer.c - see peer.h. */
#include "scheduler/peers/peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

struct outgoing {
    struct outgoing *prev, *next;
    struct shared_page *page;
    union message message; /* allocated only in its own length */
};

static size_t outgoing_size(const union message *m)
{
    return offsetof(struct outgoing, message) + m->header.size;
}

static void page_put(struct shared_page *page)
{
    if (!page || --page->references > 0)
        return;
    page_unmap(page->page);
    witness_free(page->witness);
    close(page->fd);
    free(page);
}

int peer_make_page(struct peer *p)
{
    struct shared_page *shared = calloc(1, sizeof(*shared));
    int rc = shared ? page_new_shared(&shared->page, &shared->fd) : -ENOMEM;

    if (rc != 0) {
        free(shared);
        return rc;
    }
    shared->witness = witness_new(shared->fd);
    shared->references = 1;
    p->page = shared;
    return 0;
}

struct peer *peer_new(struct daemon *daemon, int socket)
{
    struct peer *p = calloc(1, sizeof(*p));
    int room = PEER_SOCKET;

    if (!p)
        return NULL;
    if (subject_of_socket(&p->who, socket) != 0) {
        subject_clear(&p->who);
        free(p);
        return NULL;
    }
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    p->daemon = daemon;
    p->socket = socket;
    p->since_ns = clock_ns();
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        p->device[slot].bit = p->device[slot].revoked = PROTOCOL_NO_BIT;
    return p;
}

static bool is_answer(const union message *m)
{
    return m->header.type == MESSAGE_DONE || m->header.type == MESSAGE_POLICY;
}

static void pop(struct peer *p)
{
    struct outgoing *o = p->first;

    DL_DELETE(p->first, o);
    p->queued -= outgoing_size(&o->message);
    p->user->queued -= outgoing_size(&o->message);
    p->answers -= is_answer(&o->message);
    page_put(o->page);
    free(o);
}

void peer_free(struct peer *p)
{
    while (p->first)
        pop(p);
    page_put(p->page);
    /* A child of stray_end may have these open for a moment. */
    watch_end(&p->socket_watch);
    if (p->who.process >= 0)
        watch_end(&p->process_watch);
    subject_clear(&p->who);
    stray_close(p->socket);
    free(p);
}

/* The socket is full, or too many descriptors are on their way (whose end no event announces). */
static bool later(int rc)
{
    return rc == -EAGAIN || rc == -ETOOMANYREFS || rc == -ENOBUFS || rc == -ENOMEM;
}

void peer_watch_output(struct peer *p, bool on)
{
    uint32_t events = (peer_is_read(p) ? (uint32_t)EPOLLIN : 0u) | (on ? (uint32_t)EPOLLOUT : 0u);

    if (watch_change(&p->socket_watch, events) != 0)
        p->dead = true;
}

void peer_send(struct peer *p, const union message *m, struct shared_page *page)
{
    struct outgoing *o = NULL;
    int rc = -EAGAIN;

    if (p->dead)
        return;
    if (!p->first)
        rc = message_send(p->socket, m, page ? page->fd : -1);
    if (rc == 0)
        return;
    if (later(rc) && p->queued + outgoing_size(m) <= PEER_QUEUE &&
        (p->unlimited || p->user->queued + outgoing_size(m) <= USER_QUEUE))
        o = malloc(outgoing_size(m));
    if (!o) {
        p->dead = true;
        return;
    }
    o->page = page;
    if (page)
        page->references++;
    memcpy(&o->message, m, m->header.size);
    DL_APPEND(p->first, o);
    p->queued += outgoing_size(m);
    p->user->queued += outgoing_size(m);
    p->answers += is_answer(m);
    peer_watch_output(p, rc == -EAGAIN);
}

void peer_send_done(struct peer *p, int error, uint32_t count)
{
    union message m;

    message_init(&m, MESSAGE_DONE);
    m.done.error = error;
    m.done.count = count;
    peer_send(p, &m, NULL);
}

void peer_flush(struct peer *p)
{
    int rc = 0;

    while (p->first && !p->dead) {
        struct outgoing *o = p->first;

        rc = message_send(p->socket, &o->message, o->page ? o->page->fd : -1);
        if (rc != 0)
            break;
        pop(p);
    }
    if (rc != 0 && !later(rc))
        p->dead = true;
    peer_watch_output(p, p->first && rc == -EAGAIN);
}
