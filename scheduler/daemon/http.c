/*
 * http.c - the metrics over HTTP, from the daemon's own loop: one request for each connection. Off
 * unless cutind.conf names an address or a socket was handed to the daemon.
 *
 * It never uses an address that another machine can reach: only loopback or a UNIX socket. If
 * another process has the address, the daemon goes on without metrics, says so, and tries again.
 *
 * Any user may connect to a port. So a connection has 5 s for all of it, and if there are too many
 * the oldest one is closed. A request that is there when its connection is accepted is answered
 * before the next connection is accepted.
 */
#include "scheduler/daemon/daemon.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/list.h"

#define PATIENCE_NS (5000ull * NS_PER_MS)
#define FRESH_NS    (100ull * NS_PER_MS)
#define EASE        10 /* also fresh for so many times as long as it took to make */

enum { CONNECTIONS = 16, MAINTAIN_MS = 1000 };

/* An answer, which connections of the same time share: one for all clients may have 17 MB. There is
 * no new one while a connection still reads the last, within its 5 s. */
struct text {
    char *bytes; /* header and body */
    size_t size, room;
    uint64_t made_ns, fresh_ns;
    uint32_t references;
};

struct http_connection {
    struct watch watch; /* without `user`: no connection */
    struct http *http;
    uint64_t since_ns; /* 0: no connection */
    char request[4096];
    size_t got, sent;
    struct text *text; /* NULL: the request is not there yet */
};

struct http {
    struct watch listener; /* without `user`: not listening */
    const struct daemon *daemon;
    char address[sizeof(((struct conf *)0)->metrics)]; /* at the beginning */
    bool ours, said; /* made here; a message said that the address cannot be had */
    ino_t file;      /* of a socket made here: see metrics_inode */
    uint64_t maintain_due_ns;
    struct text *fresh;
    struct http_connection connection[CONNECTIONS];
};

static void text_put(struct text *text)
{
    if (!text || --text->references > 0)
        return;
    free(text->bytes);
    free(text);
}

/* Grows by realloc: open_memstream would keep the text twice meanwhile. */
static ssize_t text_write(void *cookie, const char *bytes, size_t size)
{
    struct text *text = cookie;

    while (text->size + size > text->room)
        if (list_grow(&text->bytes, &text->room, text->room, 1) != 0)
            return 0;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return (ssize_t)size;
}

/* Makes an answer: the daemon's figures or, without a daemon, that there is nothing else. */
static struct text *text_new(const struct daemon *daemon)
{
    struct text *text = calloc(1, sizeof(*text));
    FILE *out = text ? fopencookie(text, "w", (cookie_io_functions_t){.write = text_write}) : NULL;
    char length[24];
    int begin;
    bool ok;

    if (!out) {
        free(text);
        return NULL;
    }
    text->references = 1;
    text->made_ns = clock_ns();
    begin = fprintf(out,
                    "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\n"
                    "Connection: close\r\nContent-Length: %10d\r\n\r\n",
                    daemon ? "200 OK" : "404 Not Found", 0);
    if (daemon)
        metrics_print(out, daemon);
    else
        fputs("The metrics are at /metrics.\n", out);
    ok = !ferror(out);
    if (fclose(out) != 0 || !ok) {
        text_put(text);
        return NULL;
    }
    snprintf(length, sizeof(length), "%10zu", text->size - (size_t)begin);
    memcpy(text->bytes + begin - 14, length, 10);
    text->fresh_ns = (clock_ns() - text->made_ns) * EASE;
    return text;
}

static struct text *figures(struct http *h)
{
    uint64_t age_ns = h->fresh ? clock_ns() - h->fresh->made_ns : 0;

    if (age_ns > FRESH_NS && age_ns > h->fresh->fresh_ns &&
        (h->fresh->references == 1 || age_ns > PATIENCE_NS)) {
        text_put(h->fresh);
        h->fresh = NULL;
    }
    if (!h->fresh)
        h->fresh = text_new(h->daemon);
    if (h->fresh)
        h->fresh->references++;
    return h->fresh;
}

static void drop(struct http_connection *c)
{
    watch_end(&c->watch);
    close(c->watch.fd);
    text_put(c->text);
    /* Epoll may have reported it already. */
    *c = (struct http_connection){.watch.ready = c->watch.ready};
}

/* Returns false if the connection must be closed. */
static bool read_request(struct http_connection *c)
{
    static const char wanted[] = "GET /metrics ";
    size_t room = sizeof(c->request) - 1 - c->got;
    ssize_t n = recv(c->watch.fd, c->request + c->got, room, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->got += (size_t)n;
    if (!strstr(c->request, "\r\n\r\n"))
        return n > 0 && (size_t)n < room;
    c->text =
        strncmp(c->request, wanted, sizeof(wanted) - 1) == 0 ? figures(c->http) : text_new(NULL);
    return c->text;
}

static bool write_answer(struct http_connection *c)
{
    ssize_t n = send(c->watch.fd, c->text->bytes + c->sent, c->text->size - c->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->sent += (size_t)n;
    return c->sent < c->text->size;
}

static void connection_ready(void *connection, uint32_t events)
{
    struct http_connection *c = connection;

    if (c && !((c->text || read_request(c)) && (!c->text || write_answer(c)) &&
               watch_change(&c->watch, c->text ? EPOLLOUT : EPOLLIN) == 0))
        drop(c);
}

static void listener_ready(void *http, uint32_t events)
{
    struct http *h = http;

    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept4(h->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct http_connection *c = h->connection;

        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                watch_change(&h->listener, 0); /* until there is a descriptor: http_maintain */
            return;
        }
        for (int n = 1; n < CONNECTIONS; n++) /* the first that is free, else the oldest */
            if (h->connection[n].since_ns < c->since_ns)
                c = &h->connection[n];
        if (c->watch.user)
            drop(c);
        c->http = h;
        c->since_ns = clock_ns();
        if (watch_begin(&c->watch, h->daemon->epoll, fd, connection_ready, c) == 0)
            connection_ready(c, EPOLLIN);
        else
            drop(c);
    }
}

static int listen_begin(struct http *h, int socket)
{
    stray_forbid(socket);
    return watch_begin(&h->listener, h->daemon->epoll, socket, listener_ready, h);
}

struct http *http_new(const struct daemon *daemon, int socket)
{
    struct http *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->daemon = daemon;
    memcpy(h->address, daemon->conf->metrics, sizeof(h->address));
    if (socket >= 0 && listen_begin(h, socket) != 0) {
        free(h);
        return NULL;
    }
    http_maintain(h, clock_ns());
    return h;
}

int http_maintain(struct http *h, uint64_t now_ns)
{
    if (now_ns < h->maintain_due_ns)
        return (int)((h->maintain_due_ns - now_ns) / NS_PER_MS) + 1;
    h->maintain_due_ns = now_ns + MAINTAIN_MS * NS_PER_MS;
    if (h->ours && metrics_inode(h->address) != h->file) {
        log_line(LOG_WARN, "%s was removed: creating it again", h->address);
        watch_end(&h->listener);
        close(h->listener.fd);
        h->listener = (struct watch){0};
        h->ours = false;
    }
    if (h->listener.user) {
        watch_change(&h->listener, EPOLLIN);
    } else {
        char why[256];
        int fd = metrics_listen(h->address, why, sizeof(why));
        int rc = fd < 0 ? fd : listen_begin(h, fd);

        h->ours = rc == 0;
        h->file = metrics_inode(h->address);
        if (fd >= 0 && rc != 0) {
            snprintf(why, sizeof(why), "metrics at %s: %s", h->address, strerror(-rc));
            h->listener = (struct watch){0};
            metrics_unlisten(h->address);
            close(fd);
        }
        if (h->ours && h->said)
            log_line(LOG_WARN, "metrics are now served at %s", h->address);
        else if (!h->ours && !h->said)
            log_line(LOG_ERROR, "%s: continuing without metrics and trying again", why);
        h->said = !h->ours;
    }
    for (struct http_connection *c = h->connection; c < h->connection + CONNECTIONS; c++)
        if (c->watch.user && now_ns - c->since_ns > PATIENCE_NS)
            drop(c);
    return MAINTAIN_MS;
}

void http_free(struct http *h)
{
    for (struct http_connection *c = h->connection; c < h->connection + CONNECTIONS; c++)
        if (c->watch.user)
            drop(c);
    text_put(h->fresh);
    if (h->ours && metrics_inode(h->address) == h->file)
        metrics_unlisten(h->address);
    free(h);
}
