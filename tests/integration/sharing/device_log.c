/*
 * device_log.c - reading the simulated GPU's log; see device_log.h.
 */
#include "tests/integration/sharing/device_log.h"

#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t device_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void device_log_open(void)
{
    FILE *log = fopen(sandbox_path("device.log"), "a");

    cr_assert(log);
    fclose(log);
    setenv("SIMGPU_LOG", sandbox_path("device.log"), 1);
}

static uint64_t field(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void word(const char *line, const char *name, char *to, size_t room)
{
    const char *at = strstr(line, name);
    size_t n = at ? strcspn(at += strlen(name), " \n") : 0;

    snprintf(to, room, "%.*s", (int)n, at ? at : "");
}

static struct device_work work_of(const char *line)
{
    struct device_work w = {.pid = field(line, "pid="),
                            .submit_ns = field(line, " submit="),
                            .start_ns = field(line, " start="),
                            .end_ns = field(line, " end="),
                            .cost_ns = field(line, " cost="),
                            .bytes = field(line, " bytes=")};

    word(line, " kind=", w.kind, sizeof(w.kind));
    word(line, " name=", w.name, sizeof(w.name));
    return w;
}

/* Tests read again and again while the log grows, so what was read is kept. */
static struct {
    struct device_work *work;
    size_t works, room;
    off_t at;
} seen;

static void log_read(void)
{
    FILE *log = fopen(sandbox_path("device.log"), "r");
    char *line = NULL;
    size_t room = 0;

    cr_assert(log && fseeko(log, seen.at, SEEK_SET) == 0);
    for (ssize_t n; (n = getline(&line, &room, log)) > 0 && line[n - 1] == '\n'; seen.at += n) {
        if (seen.works == seen.room) {
            seen.room = seen.room ? 2 * seen.room : 1024;
            seen.work = realloc(seen.work, seen.room * sizeof(*seen.work));
            cr_assert(seen.work);
        }
        seen.work[seen.works++] = work_of(line);
    }
    free(line);
    fclose(log);
}

int device_log_count(int (*counts)(const struct device_work *, const void *user), const void *user)
{
    int n = 0;

    log_read();
    for (size_t i = 0; i < seen.works; i++)
        n += seen.work[i].kind[0] ? counts(&seen.work[i], user) : 0;
    return n;
}

void device_log_wait(int (*counts)(const struct device_work *, const void *))
{
    for (int i = 0; device_log_count(counts, NULL) == 0; i++) {
        cr_assert_lt(i, 6000, "the device did not come so far");
        nap_ms(10);
    }
}

static int later(const struct device_work *w, const void *since_ns)
{
    return strcmp(w->kind, "kernel") == 0 && w->end_ns > *(const uint64_t *)since_ns;
}

void device_log_settle(uint64_t quiet_ns)
{
    uint64_t began = device_now_ns(), since = began;

    while (device_log_count(later, &since) > 0 || device_now_ns() - began < quiet_ns) {
        cr_assert(device_now_ns() - began < 120000000000u, "the device does not stand still");
        nap_ms(20);
        since = device_now_ns() - quiet_ns;
    }
}
