/*
 * trace.c - compares the device's log with the program (see trace.h).
 *
 * Records, waits and memory operations are marks in the log and are left out, because cutin adds
 * some of its own. The rest of a stream must be exactly what the program put there.
 */
#include "machine.h"
#include "trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 32, WORKS_MAX = 16384, TELLS = 8 };

struct work { /* one line of the log */
    uint64_t stream, seq, start, end, bytes;
    char kind[8], name[NAME];
};

struct span { /* when the works of an op ran */
    uint64_t start, end;
};

static struct {
    int fd; /* of the log; -1: there is none */
    off_t from;
    uint64_t stream[MAX_OPS]; /* the stream of each op */
    struct span span[MAX_OPS];
    uint64_t said[MAX_OPS]; /* when an op's end meant the end of what it follows; 0: it did not */
    _Atomic uint64_t told[RACES][TELLS]; /* when "done" was first said after so many steps */
    struct work works[WORKS_MAX];
    size_t count;
} trace = {.fd = -1};

/* ---- the log ------------------------------------------------------------------------------- */

void trace_open(void)
{
    const char *path = getenv("SIMGPU_LOG");
    if (path && *path)
        trace.fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
}

void trace_begin(void)
{
    struct stat st;
    if (trace.fd < 0)
        return;
    memset(trace.stream, 0, sizeof(trace.stream));
    memset(trace.said, 0, sizeof(trace.said));
    memset(trace.told, 0, sizeof(trace.told));
    trace.from = fstat(trace.fd, &st) ? 0 : st.st_size;
}

void trace_stream(uint32_t index, uint64_t id)
{
    trace.stream[index] = id;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void trace_said(const struct op *o, uint32_t index)
{
    static const bool says[OP_KIND_COUNT] = {
        [OP_STREAM_SYNC] = true, [OP_STREAM_POLL] = true, [OP_EVENT_SYNC] = true,
        [OP_EVENT_POLL] = true,  [OP_CTX_SYNC] = true,    [OP_RENEW] = true,
    };
    if (says[o->kind])
        trace.said[index] = now_ns();
}

void trace_said_query(uint32_t index)
{
    trace.said[index] = now_ns();
}

void trace_said_race(int race, uint32_t told)
{
    if (told < TELLS && !trace.told[race][told])
        trace.told[race][told] = now_ns();
}

/* Marks do not count, except the two around a graph, nor do delays, which are the library's. */
static bool counts(const struct work *w)
{
    if (!strcmp(w->name, "distance"))
        return false;
    return (strcmp(w->kind, "mark") && strcmp(w->kind, "wait")) ||
           !strcmp(w->name, "graph_start") || !strcmp(w->name, "graph_end");
}

static void parse(const char *line)
{
    struct work w;
    if (trace.count < WORKS_MAX &&
        sscanf(line,
               "pid=%*d context=%*u stream=%*u seq=%" SCNu64 " kind=%7s name=%31s submit=%*u "
               "start=%" SCNu64 " end=%" SCNu64 " cost=%*u ran=%*d id=%" SCNu64,
               &w.seq, w.kind, w.name, &w.start, &w.end, &w.stream) == 6 &&
        counts(&w)) {
        const char *bytes = strstr(line, " bytes=");
        w.bytes = bytes ? strtoull(bytes + 7, NULL, 10) : 0;
        trace.works[trace.count++] = w;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct work *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int read_log(void)
{
    struct stat st;
    trace.count = 0;
    if (fstat(trace.fd, &st) || st.st_size < trace.from)
        return -1;
    size_t bytes = (size_t)(st.st_size - trace.from);
    char *text = malloc(bytes + 1), *rest = text;
    if (!text || pread(trace.fd, text, bytes, trace.from) != (ssize_t)bytes) {
        free(text);
        return -1;
    }
    text[bytes] = '\0';
    for (char *line; (line = strsep(&rest, "\n"));)
        parse(line);
    free(text);
    qsort(trace.works, trace.count, sizeof(*trace.works), by_place);
    return 0;
}

/* ---- what the program put into the log ------------------------------------------------------- */

/* How an op appears in the log: as one work of this kind and name; GRAPH: as all between two marks.
 * NULL: not at all. */
static const char GRAPH[] = "graph_start";
static const struct {
    const char *kind, *name;
} looks[OP_KIND_COUNT] = {
    [OP_MIX] = {"kernel", "mix"},
    [OP_MIX_EXTRA] = {"kernel", "mix"},
    [OP_MIX_EX] = {"kernel", "mix"},
    [OP_MIX_COOP] = {"kernel", "mix"},
    [OP_MIX_EVENT] = {"kernel", "mix"},
    [OP_MIX_PASSING] = {"kernel", "mix_spin"},
    [OP_MIX_MUCH] = {"kernel", "mix"},
    [OP_MIX_AWAIT] = {"kernel", "await_mix"},
    [OP_FILL] = {"kernel", "fill"},
    [OP_COPY_KERNEL] = {"kernel", "copy"},
    [OP_SPIN] = {"kernel", "spin"},
    [OP_H2D] = {"copy", ""},
    [OP_D2H] = {"copy", ""},
    [OP_D2D] = {"copy", ""},
    [OP_COPY_ANY] = {"copy", ""},
    [OP_COPY_2D] = {"copy", ""},
    [OP_COPY_3D] = {"copy", ""},
    [OP_COPY_BATCH] = {"copy", ""},
    [OP_COPY_PEER] = {"copy", ""},
    [OP_COPY_3D_PEER] = {"copy", ""},
    [OP_MEMSET8] = {"copy", "memset"},
    [OP_MEMSET16] = {"copy", "memset"},
    [OP_MEMSET32] = {"copy", "memset"},
    [OP_MEMSET2D] = {"copy", "memset"},
    [OP_SYNC_H2D] = {"copy", ""},
    [OP_SYNC_D2H] = {"copy", ""},
    [OP_SYNC_D2D] = {"copy", ""},
    [OP_SYNC_ANY] = {"copy", ""},
    [OP_SYNC_MEMSET] = {"copy", "memset"},
    [OP_ALLOC_ASYNC] = {"copy", "memset"}, /* the runner adds it */
    [OP_POOL_LOOP] = {"copy", ""},
    [OP_HOST_FUNC] = {"host", "host_func"},
    [OP_CALLBACK] = {"host", "callback"},
    [OP_HOST_FUNC_CUDA] = {"host", "host_func"},
    [OP_GRAPH_LAUNCH] = {"mark", GRAPH},
    [OP_CTX_RENEW] = {"copy", ""}, /* one for each of its buffers */
};

bool trace_wants(const struct op *o)
{
    bool tells = o->kind == OP_CTX_RENEW || o->kind == OP_MIX_PASSING; /* at run time */
    return trace.fd >= 0 && looks[o->kind].kind && !tells;
}

/* The number of works of `o`. A copy counts once, into however many pieces the library cuts it. */
static size_t works_of(const struct op *o)
{
    if (o->kind == OP_CTX_RENEW)
        return BUFFERS - OTHER_DEVICE;
    return o->kind == OP_POOL_LOOP ? 3 * loop_rounds(o->variant) : 1;
}

/* If there is a choice of kernels, the work may have another name. */
static bool is_work(const struct op *o, const struct work *w)
{
    const char *name = looks[o->kind].name;
    if (o->kind == OP_MIX && o->ns)
        name = "mix_spin";
    return !strcmp(w->kind, looks[o->kind].kind) && (!*name || !strcmp(w->name, name));
}

/* The last line of the work that begins at `first`: of a copy or a batch, its last bytes. */
static const struct work *work_end(const struct work *first)
{
    const struct work *last = first, *end = trace.works + trace.count;
    for (uint64_t bytes = first->bytes; bytes && bytes < BYTES && last + 1 < end;
         bytes += last->bytes)
        if (last[1].stream != first->stream || !(++last)->bytes)
            break;
    return last;
}

/* Takes the works of `o`, of which the first is at `at`. Returns the place behind them. */
static size_t take(const struct op *o, size_t at, struct span *span)
{
    const struct work *first = &trace.works[at], *last = work_end(first);
    const struct work *end = trace.works + trace.count;
    size_t works = works_of(o);
    bool graph = looks[o->kind].name == GRAPH;
    while (last + 1 < end && last[1].stream == first->stream &&
           (graph ? strcmp(last->name, "graph_end") != 0 : --works > 0))
        last = graph ? last + 1 : work_end(last + 1);
    *span = (struct span){first->start, last->end};
    return (size_t)(last - trace.works) + 1;
}

/* The next work of the stream that was not taken. Each stream of the log has such a cursor. */
static size_t *cursor_of(uint64_t stream)
{
    static struct {
        uint64_t stream;
        size_t at;
    } cursors[512];
    static size_t used;
    if (!stream) { /* start with new cursors */
        used = 0;
        for (size_t i = 0; i < trace.count && used < 512; i++)
            if (!used || cursors[used - 1].stream != trace.works[i].stream) {
                cursors[used].stream = trace.works[i].stream;
                cursors[used++].at = i;
            }
        return NULL;
    }
    for (size_t i = 0; i < used; i++)
        if (cursors[i].stream == stream)
            return &cursors[i].at;
    return NULL;
}

#define WRONG(...) return snprintf(why, size, __VA_ARGS__), 1

/* The model does not say what the calls about a fault put there. */
static bool faults(const struct program *p)
{
    for (uint32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == OP_FAULT)
            return true;
    return false;
}

static int leftover(const struct program *p, char *why, size_t size)
{
    for (uint32_t i = 0; i < p->op_count; i++) {
        const size_t *at = trace.stream[i] ? cursor_of(trace.stream[i]) : NULL;
        if (at && *at < trace.count && trace.works[*at].stream == trace.stream[i])
            WRONG("the device ran %s %s, the second time or for nobody", trace.works[*at].kind,
                  trace.works[*at].name);
    }
    return 0;
}

static int match(const struct program *p, char *why, size_t size)
{
    cursor_of(0);
    memset(trace.span, 0, sizeof(trace.span));
    for (uint32_t i = 0; i < p->op_count; i++) {
        const struct op *o = &p->ops[i];
        if (!looks[o->kind].kind || !trace.stream[i])
            continue;
        size_t *at = cursor_of(trace.stream[i]);
        if (!at || *at == trace.count || trace.works[*at].stream != trace.stream[i])
            WRONG("the device never ran op %u (%s)", i, op_kind_name(o->kind));
        if (!is_work(o, &trace.works[*at]))
            WRONG("the device ran %s %s where op %u (%s) was next", trace.works[*at].kind,
                  trace.works[*at].name, i, op_kind_name(o->kind));
        *at = take(o, *at, &trace.span[i]);
    }
    return faults(p) ? 0 : leftover(p, why, size);
}

/* ---- the partial order --------------------------------------------------------------------- */

static bool follows(const struct op *later, const struct op *earlier)
{
    return later->clock[earlier->stream] >= earlier->clock[earlier->stream];
}

static int order(const struct program *p, char *why, size_t size)
{
    for (uint32_t j = 0; j < p->op_count; j++)
        for (uint32_t i = 0; i < j && trace.span[j].end; i++)
            if (trace.span[i].end > trace.span[j].start && follows(&p->ops[j], &p->ops[i]))
                WRONG("the device began op %u (%s) before op %u (%s) had ended", j,
                      op_kind_name(p->ops[j].kind), i, op_kind_name(p->ops[i].kind));
    return 0;
}

/* When this op, or a thread that was told of it, learned that what it follows has ended. */
static uint64_t said_at(const struct op *o, uint32_t index)
{
    uint64_t first = trace.said[index];
    for (uint32_t k = o->a; o->kind == OP_TELL && k < TELLS; k++) {
        uint64_t at = trace.told[o->flag][k];
        first = at && (!first || at < first) ? at : first;
    }
    return first;
}

static int sayings(const struct program *p, char *why, size_t size)
{
    for (uint32_t j = 0; j < p->op_count; j++) {
        uint64_t at = said_at(&p->ops[j], j);
        for (uint32_t i = 0; at && i < j; i++)
            if (trace.span[i].end > at && follows(&p->ops[j], &p->ops[i]))
                WRONG("op %u (%s) said that op %u (%s) had ended", j, op_kind_name(p->ops[j].kind),
                      i, op_kind_name(p->ops[i].kind));
    }
    return 0;
}

int trace_end(const struct program *p, char *why, size_t size)
{
    if (trace.fd < 0 || read_log())
        return 0;
    return match(p, why, size) || order(p, why, size) || (!faults(p) && sayings(p, why, size));
}
