/*
 * report.c - what a fact's process sends to its parent: lines "key value", with the value in JSON.
 */
#include "fact.h"
#include "tools/cutin/statistics/figures.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

void fact_samples(const char *key, uint64_t *ns, size_t n)
{
    struct figures f;

    if (n == 0)
        return;
    figures_make(&f, ns, n);
    fact_value(key,
               json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "min", f.min_us, "p50", f.p50_us, "p90",
                         f.p90_us, "p99", f.p99_us, "max", f.max_us, "n", (json_int_t)n));
}

/* Sends the reason like a value, under a key that no fact uses. Skips atexit handlers, because the
 * driver's may wait for a stream that never ends. */
_Noreturn void fact_end(int status, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fact_value("why", json_string(text));
    _exit(status);
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
