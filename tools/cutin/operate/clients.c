/*
 * clients.c - shows the processes that the daemon knows, to people and to programs. Each column is
 * one row of a table.
 */
#include "clients.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/level.h"
#include "common/text.h"

void clients_free(struct clients *c)
{
    free(c->rows);
    *c = (struct clients){0};
}

/* Reads up to `size` bytes of a file of a process. Drops what ends its last line or argument. */
static size_t read_proc(const struct message_row *row, const char *file, char *out, size_t size)
{
    struct stat st;
    char path[48];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%" PRId32 "/%s", row->pid, file);
    fd = row->pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    n = fstat(fd, &st) == 0 && st.st_uid == row->uid ? read(fd, out, size - 1) : 0;
    close(fd);
    while (n > 0 && (out[n - 1] == '\0' || out[n - 1] == '\n'))
        n--;
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* If the daemon is in another container, this pid may be another process here. So its name must be
 * the kernel's name of the process (comm) or the end of its first argument. */
static bool same_process(const struct message_row *row)
{
    char text[4096];
    const char *slash;

    if (read_proc(row, "comm", text, sizeof(text)) > 0 &&
        strncmp(text, row->name, PAGE_NAME - 1) == 0)
        return true;
    if (read_proc(row, "cmdline", text, sizeof(text)) == 0)
        return false;
    slash = strrchr(text, '/');
    return strncmp(slash ? slash + 1 : text, row->name, PAGE_NAME - 1) == 0;
}

enum { COMMAND = 1024 };

/* Shows only the name of another user's process, because its arguments are private. */
static void command_of(const struct message_row *row, char out[COMMAND])
{
    bool mine = row->uid == geteuid() || geteuid() == 0;
    size_t n = mine && same_process(row) ? read_proc(row, "cmdline", out, COMMAND) : 0;

    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = ' ';
    if (n == 0)
        snprintf(out, COMMAND, "%.*s", (int)PAGE_NAME, row->name);
    printable(out);
    if (!out[strspn(out, " ")])
        snprintf(out, COMMAND, "-");
}

/* ---- figures -------------------------------------------------------------------------------- */

const struct message_row *clients_find(const struct clients *c, uint64_t id)
{
    for (size_t i = 0; c && i < c->n; i++)
        if (c->rows[i].client == id)
            return &c->rows[i];
    return NULL;
}

struct message_row_device row_sums_make(const struct message_row *row)
{
    struct message_row_device sum = {0};

    for (uint32_t i = 0; row && i < row->devices && i < PAGE_DEVICES; i++) {
#define ADD_COUNTER(field, help) sum.field += row->device[i].field;
        PAGE_COUNTERS(ADD_COUNTER)
#undef ADD_COUNTER
    }
    return sum;
}

static struct quantiles quantiles_of(const uint32_t now[HISTOGRAM_BUCKETS],
                                     const uint32_t before[HISTOGRAM_BUCKETS])
{
    uint32_t between[HISTOGRAM_BUCKETS];

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        between[i] = now[i] - before[i];
    return (struct quantiles){
        .count = histogram_count(between),
        .p50_ns = (double)histogram_quantile_ns(between, 0.5),
        .p99_ns = (double)histogram_quantile_ns(between, 0.99),
    };
}

/* Each process writes its own page, so counters may go backwards. */
static double rate(uint64_t now, uint64_t before, double seconds)
{
    return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

struct row_figures row_figures_make(const struct message_row *now, const struct clients *before)
{
    static const struct message_row begin;
    const struct message_row *found = clients_find(before, now->client);
    const struct message_row *then = found ? found : &begin;
    struct message_row_device a = row_sums_make(then), b = row_sums_make(now);
    double s = (double)(now->age_ms - then->age_ms) / 1e3;
    struct row_figures figures = {
        .seconds = s,
        .gpu_share = rate(b.gpu_ns, a.gpu_ns, s) / 1e9,
        .kernels_per_s = rate(b.kernels, a.kernels, s),
        .holds_per_s = rate(b.holds, a.holds, s),
        .in_flight = (double)b.in_flight,
        .buffered = (double)b.waiting,
        .hold = quantiles_of(now->hold_times, then->hold_times),
        .preemption = quantiles_of(now->preemption_times, then->preemption_times),
    };

    /* On the device where it was held longest: holds on two devices do not add up. */
    for (uint32_t i = 0; i < now->devices && i < PAGE_DEVICES; i++) {
        uint64_t ns = i < then->devices ? then->device[i].hold_ns : 0;
        double share = rate(now->device[i].hold_ns, ns, s) / 1e9;

        figures.held_share = share > figures.held_share ? share : figures.held_share;
    }
    return figures;
}

/* ---- the table ------------------------------------------------------------------------------ */

struct line {
    const struct clients *all;
    const struct message_row *row;
    struct row_figures figures;
    double pid, weight, gpu_percent, held_percent;
};

static struct line line_make(const struct clients *all, const struct message_row *row,
                             const struct clients *before)
{
    struct row_figures f = row_figures_make(row, before);

    return (struct line){all, row, f, row->pid, row->weight, f.gpu_share * 100, f.held_share * 100};
}

enum { CELL = 64 };

static void cell_user(const struct line *l, char out[CELL])
{
    const struct passwd *entry = getpwuid(l->row->uid);

    if (entry)
        snprintf(out, CELL, "%s", entry->pw_name);
    else
        snprintf(out, CELL, "%" PRIu32, l->row->uid);
    printable(out);
}

/* If the level that was asked for was not granted, that one follows in brackets. */
static void cell_level(const struct line *l, char out[CELL])
{
    bool granted = l->row->asked == l->row->level;

    snprintf(out, CELL, granted ? "%s" : "%s (%s)", level_name(l->row->level),
             level_name(l->row->asked));
}

static const char *state_name(const struct line *l)
{
    const struct message_row *row = l->row;
    bool working = row_active(row) || l->figures.in_flight > 0 || l->figures.buffered > 0;

    return (row->state & ROW_STUCK) ? "stuck"
           : row_held(row)          ? "held"
           : working                ? "active"
                                    : "idle";
}

static void cell_state(const struct line *l, char out[CELL])
{
    snprintf(out, CELL, "%s",
             (l->row->state & ROW_STOPPED)  ? "stopped"
             : (l->row->state & ROW_PAUSED) ? (l->figures.in_flight > 0 ? "pausing" : "paused")
                                            : state_name(l));
}

/* The process that has held it longest, on any device; `+`: others hold it, too. */
static void cell_held(const struct line *l, char out[CELL])
{
    int32_t pid[PAGE_CLIENT_BITS];
    uint64_t longest_ns = 0;

    snprintf(out, CELL, "-");
    for (uint32_t i = 0; i < l->row->devices; i++) {
        uint64_t held_for_ns = l->row->device[i].held_for_ns;
        uint32_t holders = row_holders(l->row, i, l->all->rows, l->all->n, pid);

        if (!holders || (out[0] != '-' && held_for_ns <= longest_ns))
            continue;
        longest_ns = held_for_ns;
        snprintf(out, CELL, "%" PRId32 "%s %" PRIu64 "s", pid[0], holders > 1 ? "+" : "",
                 held_for_ns / 1000000000);
    }
}

static const char *io_kernel_now(const struct message_row *row)
{
    for (uint32_t i = 0; i < row->devices && i < PAGE_DEVICES; i++)
        if (row->device[i].io_kernel[0] && row->device[i].in_flight > 0)
            return row->device[i].io_kernel;
    return NULL;
}

/* The kernel that waits for its own I/O, while something of its process is in flight. */
static void cell_waiting(const struct line *l, char out[CELL])
{
    const char *kernel = io_kernel_now(l->row);

    snprintf(out, CELL, "%s", kernel ? kernel : "-");
    printable(out);
}

/* The first characters of its UUID, which CUDA_VISIBLE_DEVICES takes behind "GPU-"; `+N`: it has N
 * more devices. */
static void cell_device(const struct line *l, char out[CELL])
{
    const uint8_t *uuid = l->row->device[0].uuid;
    char others[16] = "";

    if (l->row->devices > 1)
        snprintf(others, sizeof(others), "+%" PRIu32, l->row->devices - 1);
    if (l->row->devices)
        snprintf(out, CELL, "%02x%02x%02x%02x%s", uuid[0], uuid[1], uuid[2], uuid[3], others);
    else
        snprintf(out, CELL, "-");
}

/* Leaves the program's folder out, so that the program is seen on a narrow terminal. */
static void cell_command(const struct line *l, char out[CELL])
{
    char command[COMMAND];
    size_t start = 0;

    command_of(l->row, command);
    for (size_t i = 0; command[i] && command[i] != ' '; i++)
        if (command[i] == '/')
            start = i + 1;
    snprintf(out, CELL, "%.*s", CELL - 1, command + start);
}

/* A negative width is flush left. A row without `cell` shows a figure of the process. */
static const struct column {
    const char *title;
    int width;
    int leaves; /* leaves as the first, second, ... column if the line is too long; 0: never */
    void (*cell)(const struct line *l, char out[CELL]);
    size_t figure;
    const char *format; /* NULL: a time */
} columns[] = {
#define FIGURE(member) NULL, offsetof(struct line, member)
    {"PID", 7, 0, FIGURE(pid), "%.0f"},
    {"USER", -8, 10, cell_user},
    {"LEVEL", -7, 0, cell_level},
    {"WEIGHT", 6, 1, FIGURE(weight), "%.0f"},
    {"STATE", -7, 0, cell_state},
    {"DEVICE", -10, 0, cell_device},
    {"GPU%", 6, 0, FIGURE(gpu_percent), "%.1f"},
    {"KERN/S", 7, 7, FIGURE(figures.kernels_per_s), "%.0f"},
    {"FLIGHT", 6, 2, FIGURE(figures.in_flight), "%.0f"},
    {"BUFFER", 6, 4, FIGURE(figures.buffered), "%.0f"},
    {"HELD%", 6, 12, FIGURE(held_percent), "%.1f"},
    {"HOLD/S", 7, 8, FIGURE(figures.holds_per_s), "%.1f"},
    {"HOLD50", 7, 5, FIGURE(figures.hold.p50_ns), NULL},
    {"HOLD99", 7, 11, FIGURE(figures.hold.p99_ns), NULL},
    {"PRE50", 7, 3, FIGURE(figures.preemption.p50_ns), NULL},
    {"PRE99", 7, 9, FIGURE(figures.preemption.p99_ns), NULL},
    {"HELD BY", -12, 0, cell_held},
    {"WAITS IN", -14, 6, cell_waiting},
    {"COMMAND", 0, 0, cell_command},
#undef FIGURE
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]), COMMAND_WIDTH = 20 };

uint32_t clients_columns(const struct clients *c, int width)
{
    uint32_t shown = (1u << COLUMNS) - 1;
    const uint8_t *first = NULL;
    int line = COMMAND_WIDTH;
    bool several = false;

    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->rows[i].devices && k < PAGE_DEVICES; k++) {
            first = first ? first : c->rows[i].device[k].uuid;
            several |= memcmp(first, c->rows[i].device[k].uuid, sizeof(c->rows->device->uuid)) != 0;
        }
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].cell == cell_device && !several)
            shown &= ~(1u << i);
        else if (columns[i].width)
            line += abs(columns[i].width) + 1;
    for (int next = 1; line > width && next < (int)COLUMNS; next++)
        for (size_t i = 0; i < COLUMNS; i++)
            if (columns[i].leaves == next) {
                shown &= ~(1u << i);
                line -= abs(columns[i].width) + 1;
            }
    return shown;
}

void clients_line(uint32_t shown, const struct clients *all, const struct message_row *row,
                  const struct clients *before, char out[CLIENTS_LINE])
{
    struct line l = row ? line_make(all, row, before) : (struct line){0};
    size_t used = 0;

    for (size_t i = 0; i < COLUMNS && used < CLIENTS_LINE; i++) {
        const struct column *c = &columns[i];
        const double *figure = (const void *)((const char *)&l + c->figure);
        char cell[CELL];

        if (!(shown & 1u << i))
            continue;
        if (!row)
            snprintf(cell, CELL, "%s", c->title);
        else if (c->cell)
            c->cell(&l, cell);
        else if (c->format)
            snprintf(cell, CELL, c->format, *figure);
        else if (*figure <= 0)
            snprintf(cell, CELL, "-");
        else
            snprintf(cell, CELL, *figure < 1e7 ? "%.0fus" : "%.0fms",
                     floor(*figure / (*figure < 1e7 ? 1e3 : 1e6)));
        used += (size_t)snprintf(out + used, CLIENTS_LINE - used, "%s%*s", used ? " " : "",
                                 c->width, cell);
    }
}

void clients_print(const struct clients *c, const struct clients *before)
{
    uint32_t shown = clients_columns(c, CLIENTS_LINE);
    char line[CLIENTS_LINE];

    clients_line(shown, c, NULL, NULL, line);
    puts(line);
    for (size_t i = 0; i < c->n; i++) {
        clients_line(shown, c, &c->rows[i], before, line);
        puts(line);
    }
}

static bool share_device(const struct message_row *a, const struct message_row *b)
{
    for (uint32_t i = 0; i < a->devices && i < PAGE_DEVICES; i++)
        for (uint32_t k = 0; k < b->devices && k < PAGE_DEVICES; k++)
            if (memcmp(a->device[i].uuid, b->device[k].uuid, sizeof(a->device[i].uuid)) == 0)
                return true;
    return false;
}

void clients_print_waits(const struct clients *c)
{
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; io_kernel_now(&c->rows[i]) && k < c->n; k++) {
            const struct message_row *low = &c->rows[i], *high = &c->rows[k];
            char kernel[CELL];

            if (low->level >= high->level || !share_device(low, high))
                continue;
            snprintf(kernel, sizeof(kernel), "%s", io_kernel_now(low));
            printf("%" PRId32 " runs beside %s of %" PRId32
                   ", which waits for its own I/O: a hold stops only what comes after it\n",
                   high->pid, printable(kernel), low->pid);
        }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *device_json(const struct line *l, uint32_t number)
{
    const struct message_row_device *device = &l->row->device[number];
    json_t *counters = json_object(), *held = json_array(), *by = json_array();
    char uuid[48] = "GPU", io_kernel[PAGE_KERNEL_SIZE];
    int32_t pid[PAGE_CLIENT_BITS];

    snprintf(io_kernel, sizeof(io_kernel), "%s", device->io_kernel);
    printable(io_kernel);
#define ADD_COUNTER(field, help)                                                                   \
    json_object_set_new(counters, #field, json_integer((json_int_t)device->field));
    PAGE_COUNTERS(ADD_COUNTER)
#undef ADD_COUNTER
    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        if (device->held[level])
            json_array_append_new(held, json_string(level_name(level)));
    for (uint32_t i = 0, n = row_holders(l->row, number, l->all->rows, l->all->n, pid); i < n; i++)
        json_array_append_new(by, json_integer(pid[i]));
    /* "GPU-00010203-0405-...", the way NVIDIA's tools write it. */
    for (int i = 0; i < 16; i++)
        sprintf(uuid + strlen(uuid), "%s%02x",
                i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", device->uuid[i]);
    return json_pack("{s:s, s:b, s:o, s:o, s:I, s:s, s:o}", "uuid", uuid, "active",
                     device->active != 0, "held_levels", held, "held_by", by, "held_ms",
                     (json_int_t)(device->held_for_ns / 1000000), "io_kernel", io_kernel,
                     "counters", counters);
}

static json_t *quantiles_json(const struct quantiles *q)
{
    return json_pack("{s:I, s:o, s:o}", "count", (json_int_t)q->count, "p50",
                     q->count ? json_real(q->p50_ns / 1e3) : json_null(), "p99",
                     q->count ? json_real(q->p99_ns / 1e3) : json_null());
}

static json_t *row_json(const struct line *l)
{
    const struct message_row *row = l->row;
    const struct row_figures *f = &l->figures;
    char name[PAGE_NAME + 1], user[CELL], command[COMMAND];
    json_t *devices = json_array();

    /* Names come from the processes themselves and may have any bytes. */
    snprintf(name, sizeof(name), "%.*s", (int)PAGE_NAME, row->name);
    cell_user(l, user);
    command_of(row, command);
    for (uint32_t i = 0; i < row->devices && i < PAGE_DEVICES; i++)
        json_array_append_new(devices, device_json(l, i));
    return json_pack(
        "{s:I, s:i, s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:b, s:b, s:b, s:f, s:f, s:f, s:f, "
        "s:I, s:I, s:f, s:o, s:o, s:I, s:I, s:I, s:o}",
        "id", (json_int_t)row->client, "pid", (int)row->pid, "uid", (json_int_t)row->uid, "user",
        user, "name", printable(name), "command", command, "level", level_name(row->level), "asked",
        level_name(row->asked), "weight", (json_int_t)row->weight, "state", state_name(l), "paused",
        (row->state & ROW_PAUSED), "stopped", (row->state & ROW_STOPPED), "queues",
        (row->state & ROW_QUEUES), "seconds", f->seconds, "gpu_share", f->gpu_share, "held_share",
        f->held_share, "kernels_per_s", f->kernels_per_s, "in_flight", (json_int_t)f->in_flight,
        "buffered", (json_int_t)f->buffered, "holds_per_s", f->holds_per_s, "hold_us",
        quantiles_json(&f->hold), "preemption_us", quantiles_json(&f->preemption), "above",
        (json_int_t)row->above, "below", (json_int_t)row->below, "heartbeat_age_ms",
        (json_int_t)row->heartbeat_age_ms, "devices", devices);
}

json_t *clients_json(const struct clients *now, const struct clients *before)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < now->n; i++) {
        struct line l = line_make(now, &now->rows[i], before);

        json_array_append_new(rows, row_json(&l));
    }
    return json_pack("{s:o}", "clients", rows);
}
