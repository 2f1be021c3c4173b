/*
 * trace.c - write a trace file (see trace.h). Lives in libcutin.so: libc alone, no lock across
 * calls.
 */
#include "common/trace.h"

#include "common/clock.h"
#include "common/names.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Atomic(struct trace_file *) trace_now;
_Thread_local uint32_t trace_op __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t ops;
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
static struct names names; /* of trace_now */
/* Of the file, for those who put records: its own memory may be gone. */
static struct {
    struct trace_file *at;
    size_t bytes;
    uint32_t records;
    bool keep_first;
} mapped;
static struct sigaction before; /* what SIGBUS did before there was a trace */
static _Thread_local uint32_t thread_id __attribute__((tls_model("initial-exec")));

uint64_t trace_clock(void)
{
    return clock_ns();
}

uint32_t trace_took(uint64_t from_ns)
{
    uint64_t took = trace_clock() - from_ns;

    return took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
}

uint32_t trace_op_next(void)
{
    uint32_t op = atomic_fetch_add_explicit(&ops, 1, memory_order_relaxed) + 1;

    return op ? op : trace_op_next();
}

/* ---- open ----------------------------------------------------------------------------------- */

static int path_fill(char *out, size_t bytes, const char *path)
{
    const char *mark = strstr(path, "%p");
    int n =
        mark ? snprintf(out, bytes, "%.*s%d%s", (int)(mark - path), path, (int)getpid(), mark + 2)
             : snprintf(out, bytes, "%s", path);

    return n >= 0 && (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

static void header_fill(struct trace_header *h, uint32_t records, bool keep_first, uint32_t level)
{
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, h->program, sizeof(h->program) - 1) : 0;

    if (fd >= 0)
        close(fd);
    h->program[n > 0 ? strcspn(h->program, "\n") : 0] = '\0';
    h->version = TRACE_VERSION;
    h->header_bytes = offsetof(struct trace_file, record);
    h->name_bytes = TRACE_NAME_BYTES;
    h->records = records;
    h->pid = (uint32_t)getpid();
    h->level = level;
    h->keep_first = keep_first;
    h->start_ns = trace_clock();
    memcpy(h->magic, TRACE_MAGIC, sizeof(h->magic));
}

/* An empty file of this size whose blocks are there: a mapped page without one is a SIGBUS. */
static int file_make(int fd, size_t bytes)
{
    int rc;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    if (ftruncate(fd, 0) != 0)
        return -errno;
    rc = posix_fallocate(fd, 0, (off_t)bytes);
    return -rc;
}

/* Somebody has cut the file short. What comes now goes into memory that nobody reads; another
 * SIGBUS is the program's, as if there were no trace. */
static void memory_lost(int signal, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)mapped.at;
    int saved = errno;

    if (info->si_code == BUS_ADRERR && at < mapped.bytes &&
        mmap(mapped.at, mapped.bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == mapped.at) {
        trace_stop();
    } else if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        sigaction(signal, &before, NULL);
        raise(signal);
    }
    errno = saved;
}

static void file_guard(struct trace_file *file, size_t bytes, uint32_t records, bool keep_first)
{
    static bool guarded;
    struct sigaction guard = {.sa_sigaction = memory_lost, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    mapped.at = file;
    mapped.bytes = bytes;
    mapped.records = records;
    mapped.keep_first = keep_first;
    if (!guarded)
        guarded = sigaction(SIGBUS, &guard, &before) == 0;
}

int trace_open(const char *path, uint32_t records, bool keep_first, uint32_t level)
{
    size_t bytes = sizeof(struct trace_file) + (size_t)records * sizeof(struct trace_record);
    char name[4096];
    struct trace_file *file = MAP_FAILED;
    int fd, rc = path_fill(name, sizeof(name), path);

    if (rc != 0)
        return rc;
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    rc = file_make(fd, bytes);
    if (rc == 0)
        file = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (rc == 0 && file == MAP_FAILED)
        rc = -errno;
    if (rc != 0) {
        close(fd);
        return rc;
    }
    file_guard(file, bytes, records, keep_first);
    header_fill(&file->header, records, keep_first, level);
    names_open(&names, file->name, 0, TRACE_NAME_BYTES);
    atomic_init(&file->header.names, names.used);
    atomic_store_explicit(&trace_now, file, memory_order_release);
    return 0; /* the descriptor stays open: with it goes the lock */
}

void trace_stop(void)
{
    atomic_store_explicit(&trace_now, NULL, memory_order_relaxed);
}

/* ---- records -------------------------------------------------------------------------------- */

uint32_t trace_name(const char *text)
{
    struct trace_file *file = atomic_load_explicit(&trace_now, memory_order_acquire);
    uint32_t found;

    if (!file)
        return 0;
    found = names_find(&names, text);
    if (found)
        return found;
    pthread_mutex_lock(&naming);
    found = names_add(&names, text);
    /* Release: names that are counted are there. Partner: trace_view_name. */
    atomic_store_explicit(&file->header.names, names.used, memory_order_release);
    pthread_mutex_unlock(&naming);
    return found;
}

/* Word by word and atomic: a reader may look at any time. `seq` is WRITING meanwhile. Where one
 * that is a whole ring behind is still at work, or somebody was quicker by that much, the record is
 * lost: a mixture of two would look like one. */
static void record_store(struct trace_record *to, const struct trace_record *from)
{
    static const uint64_t WRITING = UINT64_MAX;
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)to;
    uint64_t copy[sizeof(*from) / sizeof(uint64_t)];
    uint64_t was = atomic_load_explicit(&words[0], memory_order_relaxed);

    memcpy(copy, from, sizeof(copy));
    if (was > copy[0] || !atomic_compare_exchange_strong_explicit(
                             &words[0], &was, WRITING, memory_order_acquire, memory_order_relaxed))
        return;
    for (size_t i = 1; i < sizeof(copy) / sizeof(*copy); i++)
        atomic_store_explicit(&words[i], copy[i], memory_order_release);
    atomic_store_explicit(&words[0], copy[0], memory_order_release);
}

void trace_put(const struct trace_record *record)
{
    struct trace_file *file = atomic_load_explicit(&trace_now, memory_order_acquire);
    struct trace_record r = *record;
    uint64_t at;

    if (!file)
        return;
    if (!thread_id)
        thread_id = (uint32_t)gettid();
    r.tid = thread_id;
    if (!r.ns)
        r.ns = trace_clock();
    at = atomic_fetch_add_explicit(&file->header.head, 1, memory_order_relaxed);
    if (mapped.keep_first && at >= mapped.records)
        return;
    r.seq = at + 1;
    record_store(&file->record[at % mapped.records], &r);
}
