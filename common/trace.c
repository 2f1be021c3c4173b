/*
 * trace.c - writes a trace file (see trace.h). Lives in libcutin.so: libc alone, no lock across
 * calls.
 */
#include "common/trace.h"

#include "common/clock.h"
#include "common/futex.h"
#include "common/names.h"
#include "common/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Atomic(struct trace_file *) trace_buffer;
_Thread_local uint32_t trace_op __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t ops;
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
static struct names names; /* of the memory */
static struct {
    struct trace_file *memory;
    size_t bytes;
    uint32_t records;
    bool keep_first;
    pid_t pid;                    /* the process whose thread writes the file */
    int rc;                       /* how its start went */
    _Atomic uint32_t asked, done; /* how often all was to be in the file, and was */
} self;
static _Thread_local uint32_t thread_id __attribute__((tls_model("initial-exec")));

uint64_t trace_clock(void)
{
    return clock_ns();
}

uint32_t trace_elapsed_ns(uint64_t from_ns)
{
    uint64_t took = trace_clock() - from_ns;

    return took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
}

uint32_t trace_op_next(void)
{
    uint32_t op = atomic_fetch_add_explicit(&ops, 1, memory_order_relaxed) + 1;

    return op ? op : trace_op_next();
}

/* ---- the file -------------------------------------------------------------------------------- */

enum { STUCK = 1000 }; /* times: nearly ten seconds */

/* The file, in the table of the thread that writes it, where the program cannot close it. */
struct output {
    int fd;
    struct stat made;
    uint64_t next;  /* the first record that was not complete when it was to be written */
    uint32_t stuck; /* and how many times in a row it was not */
    uint32_t names; /* bytes of them that are written */
};

/* Makes a file of this size whose blocks are there. The lock goes with the descriptor. A file of
 * another user's, or with another name as well, may have been put there to have it cut short. */
static int output_open(struct output *o, const char *path)
{
    o->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (o->fd < 0 || fstat(o->fd, &o->made) != 0)
        return -errno;
    if (!S_ISREG(o->made.st_mode) || o->made.st_uid != geteuid() || o->made.st_nlink != 1)
        return -EEXIST;
    if (flock(o->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    if (ftruncate(o->fd, 0) != 0)
        return -errno;
    return -posix_fallocate(o->fd, 0, (off_t)self.bytes);
}

/* All blocks of the file are there, and no signal comes: it is all or nothing. */
static bool output_put(const struct output *o, size_t at, const void *data, size_t bytes)
{
    return pwrite(o->fd, data, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Records that are being put come the next time, with those that follow them. One that never comes,
 * because a signal handler left its call by a jump, keeps what follows back for STUCK times. */
static bool output_records(struct output *o, uint64_t head)
{
    uint64_t end = self.keep_first && head > self.records ? self.records : head, next = end;
    uint64_t at = end - o->next > self.records ? end - self.records : o->next;
    struct trace_record part[64];

    while (at < end) {
        uint64_t slot = at % self.records, n = 0;

        for (; n < 64 && at < end && slot + n < self.records; n++, at++)
            if (!trace_get(self.memory->record, self.records, at, &part[n])) {
                part[n].seq = 0;
                if (at < next && (at != o->next || o->stuck < STUCK))
                    next = at;
            }
        if (!output_put(o, offsetof(struct trace_file, record) + slot * sizeof(*part), part,
                        n * sizeof(*part)))
            return false;
    }
    o->stuck = next < end && next == o->next ? o->stuck + 1 : 0;
    o->next = next;
    return true;
}

/* What readers go by comes last. False: the descriptor is another file by now, as its number may be
 * the program's, too; or the file was cut short. */
static bool output_write(struct output *o)
{
    struct trace_header *now = &self.memory->header, h = {.as_of_ns = trace_clock()};
    /* Partners: trace_put, whose record may be on its way, and trace_name. */
    uint64_t head = atomic_load_explicit(&now->head, memory_order_acquire);
    uint32_t named = atomic_load_explicit(&now->names, memory_order_acquire);
    struct stat st;

    if (fstat(o->fd, &st) != 0 || st.st_ino != o->made.st_ino || st.st_dev != o->made.st_dev ||
        st.st_size < (off_t)self.bytes || !output_records(o, head) ||
        !output_put(o, offsetof(struct trace_file, name) + o->names, names.text + o->names,
                    named - o->names))
        return false;
    o->names = named;
    memcpy(&h, now, offsetof(struct trace_header, as_of_ns));
    memcpy(h.program, now->program, sizeof(h.program));
    atomic_init(&h.head, head);
    atomic_init(&h.names, named);
    return output_put(o, 0, &h, sizeof(h));
}

static void *writer_main(void *path)
{
    struct output o = {0};
    bool writes;

    thread_name("cutin-trace");
    thread_unshare_fds();
    self.rc = output_open(&o, path);
    do {
        uint32_t asked = atomic_load(&self.asked);

        writes = self.rc == 0 && output_write(&o);
        if (!writes && self.rc == 0 && !atomic_load(&self.done))
            self.rc = -EIO; /* at the first time: the caller of trace_open is told */
        if (!writes)
            trace_stop();
        atomic_store(&self.done, asked);
        futex_wake(&self.done);
        if (writes)
            futex_wait(&self.asked, asked, clock_ns() + TRACE_FLUSH_NS);
    } while (writes);
    if (o.fd >= 0)
        close(o.fd);
    return NULL;
}

/* ---- open ----------------------------------------------------------------------------------- */

int trace_open(const char *path, uint32_t records, bool keep_first, uint32_t level)
{
    char name[4096];
    pthread_t thread;
    const char *mark = strstr(path, "%p");
    int length = mark ? snprintf(name, sizeof(name), "%.*s%d%s", (int)(mark - path), path,
                                 (int)getpid(), mark + 2)
                      : snprintf(name, sizeof(name), "%s", path);

    if (length < 0 || (size_t)length >= sizeof(name))
        return -ENAMETOOLONG;
    /* Shared, so that the children of a fork cost no copies. */
    self.bytes = sizeof(struct trace_file) + (size_t)records * sizeof(struct trace_record);
    self.memory = mmap(NULL, self.bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (self.memory == MAP_FAILED)
        return -errno;
    struct trace_header *h = &self.memory->header;
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, h->program, sizeof(h->program) - 1) : 0;

    if (fd >= 0)
        close(fd);
    h->program[n > 0 ? strcspn(h->program, "\n") : 0] = '\0';
    h->version = TRACE_VERSION;
    h->header_bytes = offsetof(struct trace_file, record);
    h->name_bytes = TRACE_NAME_BYTES;
    h->records = self.records = records;
    h->pid = (uint32_t)(self.pid = getpid());
    h->level = level;
    h->keep_first = self.keep_first = keep_first;
    h->start_ns = trace_clock();
    memcpy(h->magic, TRACE_MAGIC, sizeof(h->magic));
    names_open(&names, self.memory->name, 0, TRACE_NAME_BYTES);
    atomic_init(&h->names, names.used);
    atomic_store(&self.asked, 1);
    atomic_store(&self.done, 0);
    int rc = thread_new(&thread, writer_main, name);
    if (rc == 0) {
        pthread_detach(thread);
        futex_wait_change(&self.done, 0, UINT64_MAX);
        rc = self.rc;
    }
    if (rc == 0)
        atomic_store_explicit(&trace_buffer, self.memory, memory_order_release);
    else
        munmap(self.memory, self.bytes);
    return rc;
}

void trace_flush(void)
{
    uint64_t by_ns = clock_ns() + UINT64_C(2000) * NS_PER_MS;
    uint32_t asked, done;

    if (!trace_on() || self.pid != getpid())
        return;
    asked = atomic_fetch_add(&self.asked, 1) + 1;
    futex_wake(&self.asked);
    do
        done = atomic_load(&self.done);
    while ((int32_t)(done - asked) < 0 && futex_wait_change(&self.done, done, by_ns));
}

void trace_stop(void)
{
    atomic_store_explicit(&trace_buffer, NULL, memory_order_relaxed);
}

/* ---- records -------------------------------------------------------------------------------- */

uint32_t trace_name(const char *text)
{
    struct trace_file *file = atomic_load_explicit(&trace_buffer, memory_order_acquire);
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

/* The record goes word by word and atomic: a reader may look at any time. `seq` is WRITING
 * meanwhile. If a writer that is a whole ring behind is still at work, or one ahead by that much
 * was quicker, the record is lost: a mixture of two would look like one. */
void trace_put(const struct trace_record *record)
{
    struct trace_file *file = atomic_load_explicit(&trace_buffer, memory_order_acquire);
    struct trace_record r = *record;
    static const uint64_t WRITING = UINT64_MAX;
    uint64_t at, was, copy[sizeof(r) / sizeof(uint64_t)];

    if (!file)
        return;
    if (!thread_id)
        thread_id = (uint32_t)gettid();
    r.tid = thread_id;
    if (!r.ns)
        r.ns = trace_clock();
    at = atomic_fetch_add_explicit(&file->header.head, 1, memory_order_relaxed);
    if (self.keep_first && at >= self.records)
        return;
    r.seq = at + 1;
    memcpy(copy, &r, sizeof(copy));
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)&file->record[at % self.records];
    was = atomic_load_explicit(&words[0], memory_order_relaxed);
    if (was > copy[0] || !atomic_compare_exchange_strong_explicit(
                             &words[0], &was, WRITING, memory_order_acquire, memory_order_relaxed))
        return;
    for (size_t i = 1; i < sizeof(copy) / sizeof(*copy); i++)
        atomic_store_explicit(&words[i], copy[i], memory_order_release);
    atomic_store_explicit(&words[0], copy[0], memory_order_release);
}

bool trace_get(const struct trace_record *ring, uint32_t records, uint64_t position,
               struct trace_record *out)
{
    const _Atomic uint64_t *words =
        (const _Atomic uint64_t *)(const void *)&ring[position % records];
    uint64_t copy[sizeof(*out) / sizeof(uint64_t)];

    /* Reads the number first and last: what lies between is of that one. Partner: trace_put. */
    if (atomic_load_explicit(&words[0], memory_order_acquire) != position + 1)
        return false;
    for (size_t i = 0; i < sizeof(copy) / sizeof(*copy); i++)
        copy[i] = atomic_load_explicit(&words[i], memory_order_acquire);
    memcpy(out, copy, sizeof(*out));
    return atomic_load_explicit(&words[0], memory_order_relaxed) == position + 1;
}
