/* metrics.c - see daemon.h. */
#include "scheduler/daemon/daemon.h"

#include <inttypes.h>
#include <string.h>

#include "common/level.h"
#include "scheduler/peers/scan.h"

/* As Prometheus has it, a name in `_total` is a counter's, and one with `_seconds` is a time's. */
static const struct series {
    const char *name, *help;
    size_t at; /* in struct page_counters, which has times in ns */
} series[] = {
#define AT(field) offsetof(struct page_counters, field)
    {"submitted_total", "Commands given to the driver.", AT(submitted)},
    {"buffered_total", "Commands that had to wait in a queue.", AT(buffered)},
    {"kernels_total", "Kernels and graphs launched.", AT(kernels)},
    {"dropped_total", "Commands dropped by resets.", AT(dropped)},
    {"holds_total", "Times that buffered work was held.", AT(holds)},
    {"hold_seconds_total", "Time in which work waited because it was held.", AT(hold_ns)},
    {"padded_total", "Commands submitted beside the work that held them.", AT(padded)},
    {"peer_releases_total", "Times that a hold released work that others may wait for.",
     AT(peer_releases)},
    {"cut_ins_total", "Times that the process began to hold others.", AT(cut_ins)},
    {"gpu_seconds_total", "GPU time of the work that ran.", AT(gpu_ns)},
    {"in_flight", "Commands submitted and not known complete.", AT(in_flight)},
    {"waiting", "Commands buffered and not submitted.", AT(waiting)},
#undef AT
};

/* Clients choose their names: any bytes, some of which mean something in this format. */
static void print_label(FILE *out, const char *name)
{
    for (size_t i = 0; i < PAGE_NAME && name[i]; i++) {
        if (name[i] == '"' || name[i] == '\\')
            fputc('\\', out);
        fputc(name[i] >= ' ' && name[i] <= '~' ? name[i] : '?', out);
    }
}

/* Prints the labels up to the last bracket. */
static void print_labels(FILE *out, const struct peer_device *at)
{
    const uint8_t *uuid = at->device->uuid;
    const struct peer *p = at->peer;

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

static void print_value(FILE *out, struct peer_device *at, const struct series *s)
{
    const void *counter = (const char *)&device_page(at)->counters + s->at;
    uint64_t n = s->at == offsetof(struct page_counters, gpu_ns) ? usage_ns(at)
                                                                 : figure_read_clamped(counter);

    fprintf(out, "cutin_%s", s->name);
    print_labels(out, at);
    if (strstr(s->name, "_seconds"))
        fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", n / 1000000000, n % 1000000000);
    else
        fprintf(out, "} %" PRIu64 "\n", n);
}

/* Prints one line for each pair of a held client and a holder. */
static void print_held(FILE *out, const struct peer *peers, const struct peer_device *at)
{
    struct hold hold = hold_read(at, clock_ns());

    for (const struct peer *h = NULL; (h = hold_next_holder(peers, at->device, &hold, h));) {
        fputs("cutin_held_seconds", out);
        print_labels(out, at);
        fprintf(out, ",holder=\"%" PRIu64 "\",holder_pid=\"%d\",holder_name=\"", h->id,
                (int)h->who.pid);
        print_label(out, h->name);
        fprintf(out, "\"} %" PRIu64 ".%03" PRIu64 "\n", hold.ns / 1000000000,
                hold.ns / 1000000 % 1000);
    }
}

/* The connections of a user id, at the first of them; 0 at others. */
static uint32_t connections_of(const struct peer *peers, const struct peer *first)
{
    const struct peer *p;
    uint32_t n = 0;

    DL_FOREACH (peers, p) {
        if (p->who.uid == first->who.uid && n++ == 0 && p != first)
            return 0;
    }
    return n;
}

static void print_head(FILE *out, const char *name, const char *help)
{
    fprintf(out, "# HELP cutin_%s %s\n# TYPE cutin_%s %s\n", name, help, name,
            strstr(name, "_total") ? "counter" : "gauge");
}

void metrics_print(FILE *out, const struct daemon *d)
{
    static const char *const refused[REFUSALS] = {"connection", "client", "level"};
    uint64_t lag = d->loop_max_ns > d->loop_max_last_ns ? d->loop_max_ns : d->loop_max_last_ns;
    uint32_t count[PAGE_LEVELS] = {0};
    struct peer *peers = d->peers, *connected;

    print_head(out, "build_info", "The daemon's version.");
    fputs("cutin_build_info{version=\"" CUTIN_VERSION "\"} 1\n", out);
    print_head(out, "connections", "Processes connected.");
    DL_FOREACH (peers, connected) {
        uint32_t n = connections_of(peers, connected);

        if (n)
            fprintf(out, "cutin_connections{uid=\"%u\"} %u\n", (unsigned)connected->who.uid, n);
        if (connected->client && !connected->dead)
            count[connected->level]++;
    }
    print_head(out, "refused_total", "Connections, clients and levels refused.");
    for (int i = 0; i < REFUSALS; i++)
        fprintf(out, "cutin_refused_total{what=\"%s\"} %" PRIu64 "\n", refused[i], d->refused[i]);
    print_head(out, "loop_lag_seconds",
               "Longest time that a message waited for others in this minute and the last.");
    fprintf(out, "cutin_loop_lag_seconds %" PRIu64 ".%06" PRIu64 "\n", lag / 1000000000,
            lag / 1000 % 1000000);
    print_head(out, "log_dropped_total", "Log lines that were lost or left out.");
    fprintf(out, "cutin_log_dropped_total %" PRIu64 "\n", log_dropped);
    print_head(out, "clients", "Processes registered.");
    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        fprintf(out, "cutin_clients{level=\"%s\"} %u\n", level_name(level), count[level]);
    for (const struct series *s = series; s < series + sizeof(series) / sizeof(*s); s++) {
        print_head(out, s->name, s->help);
        PEER_DEVICES (peers, p, at)
            print_value(out, at, s);
    }
    print_head(out, "held_seconds", "How long a holder held the process without a break.");
    PEER_DEVICES (peers, p, at)
        print_held(out, peers, at);
}
