/*
 * metrics.c - figures of all clients as Prometheus text, over HTTP.
 */
#include "scheduler/daemon/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "common/clock.h"
#include "common/level.h"
#include "scheduler/policy/conf.h"
#include "scheduler/peers/hold.h"
#include "scheduler/policy/metrics_address.h"
#include "scheduler/peers/topology.h"
#include "scheduler/peers/usage.h"

enum { CONNECTIONS = 16, PATIENCE_S = 5 };

struct metrics {
    struct MHD_Daemon *http;
    struct peer *const *peers;
    char *address;
};

/* ---- text ------------------------------------------------------------------------------------ */

enum scale { PLAIN, SECONDS };

static const struct series {
    const char *name, *type, *help;
    size_t at; /* in struct page_counters */
    enum scale scale;
} series[] = {
#define AT(field) offsetof(struct page_counters, field)
    {"submitted_total", "counter", "Commands given to the driver.", AT(submitted), PLAIN},
    {"buffered_total", "counter", "Commands that had to wait in a queue.", AT(buffered), PLAIN},
    {"kernels_total", "counter", "Kernels and graphs launched.", AT(kernels), PLAIN},
    {"dropped_total", "counter", "Commands dropped by resets.", AT(dropped), PLAIN},
    {"holds_total", "counter", "Times that buffered work was held.", AT(holds), PLAIN},
    {"hold_seconds_total", "counter", "Time of those holds.", AT(hold_ns), SECONDS},
    {"padded_total", "counter", "Commands that went beside the work that held them.", AT(padded),
     PLAIN},
    {"peer_releases_total", "counter", "Times that a hold let work go on for others.",
     AT(peer_releases), PLAIN},
    {"cut_ins_total", "counter", "Times that it began to hold others.", AT(cut_ins), PLAIN},
    {"gpu_seconds_total", "counter", "GPU time of what ran.", AT(gpu_ns), SECONDS},
    {"in_flight", "gauge", "Commands submitted and not known complete.", AT(in_flight), PLAIN},
    {"waiting", "gauge", "Commands buffered and not submitted.", AT(waiting), PLAIN},
#undef AT
};

/* Names are the clients' own: any bytes, in a format where some have a meaning. */
static void print_label(FILE *out, const char *name)
{
    for (size_t i = 0; i < PAGE_NAME && name[i]; i++) {
        if (name[i] == '"' || name[i] == '\\')
            fputc('\\', out);
        fputc(name[i] >= ' ' && name[i] <= '~' ? name[i] : '?', out);
    }
}

/* Up to the last bracket. */
static void print_labels(FILE *out, const struct peer *p, uint32_t slot)
{
    const uint8_t *uuid = p->device[slot].device->uuid;

    fprintf(out, "{client=\"%" PRIu64 "\",pid=\"%d\",uid=\"%u\",level=\"%s\",name=\"", p->id,
            (int)p->who.pid, (unsigned)p->who.uid, level_name(p->level));
    print_label(out, p->name);
    if (p->who.job.id[0])
        fprintf(out, "\",job_id=\"%s\",account=\"%s", p->who.job.id, p->who.job.account);
    fputs("\",device=\"GPU", out);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%s%02x", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", uuid[i]);
    fputc('"', out);
}

static void print_value(FILE *out, const struct peer *p, uint32_t slot, const struct series *s)
{
    const char *counters = (const char *)&p->page->page->device[slot].counters;
    const _Atomic uint64_t *counter = (const _Atomic uint64_t *)(const void *)(counters + s->at);
    uint64_t n =
        s->at == offsetof(struct page_counters, gpu_ns) ? usage_ns(p, slot) : page_read(counter);

    fprintf(out, "cutin_%s", s->name);
    print_labels(out, p, slot);
    if (s->scale == SECONDS)
        fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", n / 1000000000, n % 1000000000);
    else
        fprintf(out, "} %" PRIu64 "\n", n);
}

static void print_series(FILE *out, const struct peer *peers, const struct series *s)
{
    const struct peer *p;

    fprintf(out, "# HELP cutin_%s %s\n# TYPE cutin_%s %s\n", s->name, s->help, s->name, s->type);
    PEER_DEVICES (peers, p, slot)
        print_value(out, p, slot, s);
}

/* One for each pair: who is held, and by whom. */
static void print_held(FILE *out, const struct peer *peers, const struct peer *p, uint32_t slot)
{
    const struct device *device = p->device[slot].device;
    struct hold hold;

    if (!hold_read(p, slot, clock_ns(), &hold))
        return;
    for (const struct peer *h = NULL; (h = hold_next(peers, device, &hold, h));) {
        fputs("cutin_held_seconds", out);
        print_labels(out, p, slot);
        fprintf(out, ",holder=\"%" PRIu64 "\",holder_pid=\"%d\",holder_name=\"", h->id,
                (int)h->who.pid);
        print_label(out, h->name);
        fprintf(out, "\"} %" PRIu64 ".%03" PRIu64 "\n", hold.ns / 1000000000,
                hold.ns / 1000000 % 1000);
    }
}

static void print_holds(FILE *out, const struct peer *peers)
{
    const struct peer *p;

    fputs("# HELP cutin_held_seconds How long a holder has held it without a break.\n"
          "# TYPE cutin_held_seconds gauge\n",
          out);
    PEER_DEVICES (peers, p, slot)
        print_held(out, peers, p, slot);
}

static void print_clients(FILE *out, const struct peer *peers)
{
    uint32_t count[PAGE_LEVELS] = {0};
    const struct peer *p;

    DL_FOREACH (peers, p)
        if (p->client && !p->dead)
            count[p->level]++;
    fputs("# HELP cutin_clients Processes registered.\n# TYPE cutin_clients gauge\n", out);
    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        fprintf(out, "cutin_clients{level=\"%s\"} %u\n", level_name(level), count[level]);
}

static char *text_new(const struct peer *peers, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);

    if (!out)
        return NULL;
    print_clients(out, peers);
    for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++)
        print_series(out, peers, &series[i]);
    print_holds(out, peers);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- http ------------------------------------------------------------------------------------ */

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
    enum MHD_Result rc;

    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4");
    rc = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result answer(void *user, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **unused)
{
    static char none[] = "The metrics are at /metrics.\n";
    const struct metrics *m = user;
    char *text;
    size_t size;

    if (strcmp(url, "/metrics") != 0 || strcmp(method, "GET") != 0)
        return reply(
            c, MHD_HTTP_NOT_FOUND,
            MHD_create_response_from_buffer(sizeof(none) - 1, none, MHD_RESPMEM_PERSISTENT));
    text = text_new(*m->peers, &size);
    if (!text)
        return MHD_NO;
    return reply(c, MHD_HTTP_OK,
                 MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE));
}

int metrics_open(struct metrics **out, const char *address, struct peer *const *peers, char *why,
                 size_t why_size)
{
    struct metrics *m = calloc(1, sizeof(*m));
    int fd = metrics_listen(address, why, why_size);

    if (fd < 0 || !m) {
        free(m);
        if (fd >= 0)
            close(fd);
        return fd < 0 ? fd : -ENOMEM;
    }
    m->peers = peers;
    m->address = strdup(address);
    m->http = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, m, MHD_OPTION_LISTEN_SOCKET,
                               fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
                               MHD_OPTION_CONNECTION_TIMEOUT, PATIENCE_S, MHD_OPTION_END);
    if (m->http && m->address) {
        *out = m;
        return 0;
    }
    snprintf(why, why_size, "metrics at %.60s: cannot start the HTTP server", address);
    if (!m->http)
        close(fd);
    metrics_close(m);
    return -ENOMEM;
}

int metrics_fd(const struct metrics *m)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(m->http, MHD_DAEMON_INFO_EPOLL_FD);

    return info ? info->epoll_fd : -1;
}

void metrics_run(struct metrics *m)
{
    MHD_run(m->http);
}

int metrics_wait_ms(const struct metrics *m)
{
    MHD_UNSIGNED_LONG_LONG ms;

    return MHD_get_timeout(m->http, &ms) == MHD_YES ? (int)(ms < 10000 ? ms : 10000) : -1;
}

void metrics_close(struct metrics *m)
{
    if (m->http)
        MHD_stop_daemon(m->http);
    if (m->address)
        metrics_unlisten(m->address);
    free(m->address);
    free(m);
}
