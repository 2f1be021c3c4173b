/*
 * report.c - what a fact's process says to its parent: a line "key value" each, value in JSON.
 */
#include "fact.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool fact_quick;

void fact_value(const char *key, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));

    if (text)
        dprintf(FACT_FD, "%s %s\n", key, text);
    free(text);
    json_decref(value);
}

void fact_number(const char *key, double value)
{
    fact_value(key, json_real(value));
}

void fact_flag(const char *key, bool value)
{
    fact_value(key, json_boolean(value));
}

void fact_text(const char *key, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fact_value(key, json_string(text));
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Whole nanoseconds, as microseconds. */
static json_t *percentile_us(const uint64_t *ns, size_t n, size_t percent)
{
    size_t rank = (n * percent + 99) / 100;

    return json_real((double)ns[rank ? rank - 1 : 0] / 1000.0);
}

void fact_samples(const char *key, uint64_t *ns, size_t n)
{
    if (n == 0)
        return;
    qsort(ns, n, sizeof(*ns), by_value);
    fact_value(key, json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "min", percentile_us(ns, n, 0),
                              "p50", percentile_us(ns, n, 50), "p90", percentile_us(ns, n, 90),
                              "p99", percentile_us(ns, n, 99), "max", percentile_us(ns, n, 100),
                              "n", (json_int_t)n));
}

/* The reason travels like a value, under a key that no fact has. */
static void reason(const char *format, va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof(text), format, args);
    fact_value("why", json_string(text));
}

/* No atexit handlers: the driver's may wait for a stream that never ends. */
_Noreturn void fact_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reason(format, args);
    va_end(args);
    _exit(FACT_SKIPPED);
}

_Noreturn void fact_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    reason(format, args);
    va_end(args);
    _exit(FACT_FAILED);
}

/* ---- a second process ------------------------------------------------------------------------ */

void *peer_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        fact_fail("mmap: %s", strerror(errno));
    return at;
}

int peer_start(void (*run)(void))
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        fact_fail("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        run();
    _exit(0);
}

void peer_end(int pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- time -------------------------------------------------------------------------------------- */

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_us(uint64_t us)
{
    struct timespec left = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000 * 1000)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
