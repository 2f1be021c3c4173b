/*
 * trace_view.c - reads trace files (see trace_view.h).
 */
#include "trace_view.h"
#include "common/clock.h"
#include "common/list.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

static const char *header_wrong(const struct trace_header *h, size_t bytes)
{
    if (bytes < sizeof(struct trace_file))
        return "it is not a trace, or truncated";
    if (memcmp(h->magic, TRACE_MAGIC, sizeof(h->magic)) != 0)
        return "it is not a trace of cutin";
    if (h->version != TRACE_VERSION || h->header_bytes != offsetof(struct trace_file, record) ||
        h->name_bytes != TRACE_NAME_BYTES)
        return "it is a trace of another version of cutin";
    if (h->records < TRACE_LEAST_RECORDS || h->records > TRACE_MOST_RECORDS)
        return "its number of records makes no sense";
    if (bytes != sizeof(struct trace_file) + h->records * sizeof(struct trace_record))
        return "its size does not match its header";
    return NULL;
}

/* Makes a copy, since a mapping would end with the file. Reads the file twice: a record that
 * differs was being written. */
static struct trace_file *file_read(int fd, size_t bytes, const char **wrong)
{
    struct trace_file *file = malloc(bytes), *again = malloc(bytes);

    if (!file || !again) {
        free(file);
        file = NULL;
    } else if (pread(fd, file, bytes, 0) != (ssize_t)bytes ||
               pread(fd, again, bytes, 0) != (ssize_t)bytes) {
        *wrong = "it is truncated";
    } else if (!(*wrong = header_wrong(&file->header, bytes))) {
        for (uint32_t i = 0; i < file->header.records; i++)
            if (memcmp(&file->record[i], &again->record[i], sizeof(*file->record)) != 0)
                file->record[i].seq = 0;
    }
    free(again);
    return file;
}

int trace_view_open(struct trace_view *v, const char *path, char *why, size_t why_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    const char *wrong = NULL;
    struct trace_header h;
    uint64_t head, kept;
    struct stat st;

    *v = (struct trace_view){0};
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = -errno;
    else if (!S_ISREG(st.st_mode) || pread(fd, &h, sizeof(h), 0) != sizeof(h))
        wrong = "it is not a trace, or truncated";
    else if (!(wrong = header_wrong(&h, (size_t)st.st_size)) &&
             !(v->file = file_read(fd, (size_t)st.st_size, &wrong)))
        rc = -ENOMEM;
    if (fd >= 0)
        close(fd);
    if (rc != 0 || wrong) {
        trace_view_close(v);
        snprintf(why, why_bytes, "%s: %s", path, wrong ? wrong : strerror(-rc));
        return wrong ? -EBADMSG : rc;
    }
    head = v->file->header.head;
    kept = head < v->file->header.records ? head : v->file->header.records;
    v->first = v->file->header.keep_first ? 0 : head - kept;
    v->end = v->first + kept;
    v->lost = head - kept;
    return 0;
}

int trace_view_await(struct trace_view *v, const char *path, uint64_t ns, char *why,
                     size_t why_bytes)
{
    uint64_t by_ns = clock_ns() + UINT64_C(2000) * NS_PER_MS;
    int rc;

    while ((rc = trace_view_open(v, path, why, why_bytes)) == 0 && v->file->header.as_of_ns < ns &&
           clock_ns() < by_ns) {
        trace_view_close(v);
        nanosleep(&(struct timespec){.tv_nsec = TRACE_FLUSH_NS / 2}, NULL);
    }
    return rc;
}

void trace_view_close(struct trace_view *v)
{
    free(v->file);
    v->file = NULL;
}

bool trace_view_get(const struct trace_view *v, uint64_t position, struct trace_record *out)
{
    return trace_get(v->file->record, v->file->header.records, position, out) &&
           out->kind > TRACE_NONE && out->kind < TRACE_END;
}

const char *trace_view_name(const struct trace_view *v, uint32_t name)
{
    uint32_t names = v->file->header.names;

    if (name == 0 || name >= names || names > TRACE_NAME_BYTES || v->file->name[name - 1] ||
        !memchr(v->file->name + name, '\0', names - name))
        return "";
    return v->file->name + name;
}

int trace_spans_add(struct trace_spans *s, uint64_t from_ns, uint64_t to_ns)
{
    int rc = list_grow(&s->at, &s->room, s->n, sizeof(*s->at));

    if (rc == 0)
        s->at[s->n++] = (struct trace_span){from_ns, to_ns};
    return rc;
}

/* Threads may put the records of a turn, and of the next one, in any order. A begin that comes
 * after its end, or after the next begin, is a time of length 0. Holds have no turns: one thread
 * puts both of their records. */
enum trace_time trace_times_follow(struct trace_times *t, const struct trace_record *r,
                                   struct trace_span *out)
{
    bool cut = r->kind == TRACE_CUT_IN || r->kind == TRACE_CUT_OUT;
    bool begins = r->kind == TRACE_CUT_IN || r->kind == TRACE_HELD;
    enum trace_time is = cut ? TRACE_TIME_ACTIVE : TRACE_TIME_HELD;
    struct trace_open *o = &t->open[is];
    uint64_t turn = cut ? r->cut.turn : o->turn + begins;
    bool known = o->from_ns != 0;

    if (!cut && !begins && r->kind != TRACE_RELEASED)
        return TRACE_TIMES;
    *out = (struct trace_span){r->ns, r->ns};
    if (turn < o->turn || (begins && turn == o->turn))
        return begins ? is : TRACE_TIMES;
    if (known)
        *out = (struct trace_span){o->from_ns, r->ns > o->from_ns ? r->ns : o->from_ns};
    *o = (struct trace_open){begins ? r->ns : 0, turn};
    return known ? is : TRACE_TIMES;
}

void trace_clocks_read(struct trace_clocks *c, const struct trace_view *v)
{
    struct trace_record r;

    *c = (struct trace_clocks){0};
    for (uint64_t i = v->first; i < v->end; i++) {
        if (!trace_view_get(v, i, &r) || r.kind != TRACE_SAMPLE ||
            r.sample.context >= TRACE_VIEW_CLOCKS)
            continue;
        /* A time of the device is negative if it is before its context's anchor. */
        int64_t base_ns = (int64_t)(r.ns - r.sample.device_ns);
        if (base_ns > 0 && (uint64_t)base_ns > c->base_ns[r.sample.context])
            c->base_ns[r.sample.context] = (uint64_t)base_ns;
    }
}

bool trace_clocks_convert(const struct trace_clocks *c, const struct trace_record *sample,
                          uint64_t *start_ns, uint64_t *duration_ns)
{
    uint32_t context = sample->sample.context;
    uint64_t base = context < TRACE_VIEW_CLOCKS ? c->base_ns[context] : 0;
    uint64_t end_ns, asked_ns = sample->ns + sample->sample.lead_ns;

    if (!base)
        return false;
    *start_ns = base + sample->sample.device_ns;
    end_ns = *start_ns + sample->sample.duration_ns;
    if (*start_ns < asked_ns && asked_ns < end_ns)
        *start_ns = asked_ns;
    *duration_ns = end_ns - *start_ns;
    return true;
}

bool device_log_parse(char *text, struct device_work *w)
{
    char *name = strstr(text, " name="), *behind = name ? strstr(name, " submit=") : NULL;
    int ran;

    if (!behind)
        return false;
    *name = *behind = '\0';
    w->name = name + strlen(" name=");
    return sscanf(text, "pid=%d context=%*u stream=%" SCNu32 " seq=%*u kind=%15s", &w->pid,
                  &w->stream, w->kind) == 3 &&
           sscanf(behind + 1,
                  "submit=%" SCNu64 " start=%" SCNu64 " end=%" SCNu64 " cost=%" SCNu64 " ran=%d",
                  &w->submit_ns, &w->start_ns, &w->end_ns, &w->cost_ns, &ran) == 5 &&
           ran && strcmp(w->kind, "mark") != 0 && w->end_ns > w->start_ns;
}
