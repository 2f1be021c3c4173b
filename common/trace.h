/*
 * trace.h - what happened in one process, as records of fixed size in memory, which a thread copies
 * to a file from the first use of CUDA on.
 *
 * A trace file is a header, the names of what ran, whole, and a ring of records. Both bound the
 * memory. A process that is killed leaves what it had TRACE_FLUSH_NS before. No process maps the
 * file: cutting it short ends the trace, and the program cannot tell. Putting a record takes no
 * lock, allocates nothing, calls no system and decides no order. While no trace is written, every
 * place that could put a record costs one load and one branch.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, so traces of several processes have one clock. Little
 * endian, like every machine that cutin runs on. Thread safe. `cutin trace` reads the files.
 */
#ifndef CUTIN_COMMON_TRACE_H
#define CUTIN_COMMON_TRACE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/likely.h"

enum {
    TRACE_VERSION = 4,
    TRACE_NAME_BYTES = 1024 * 1024, /* of all names together */
    TRACE_LEAST_RECORDS = 1024,
    TRACE_MOST_RECORDS = 16 * 1024 * 1024,
    TRACE_FLUSH_NS = 10 * 1000 * 1000, /* from one copy to the next */
};
#define TRACE_MAGIC "CUTINTR"

/* The kinds of records. X(name, what the record says) */
#define TRACE_KINDS(X)                                                                             \
    X(KERNEL, "a launch was asked for: .kernel, until its call returned")                          \
    X(COPY, "another stream-ordered call: .copy")                                                  \
    X(SYNC, "the program waited: .copy, its took_ns")                                              \
    X(BUFFERED, "a command waits in a vHQ: .queue")                                                \
    X(SUBMITTED, "a command went to the driver, whose call took took_ns: .queue")                  \
    X(DROPPED, "a command was dropped by a reset: .queue")                                         \
    X(COMPLETED, "the vHQ knows of completions: .queue")                                           \
    X(HELD, "a vHQ with work in it is held")                                                       \
    X(RELEASED, "and no longer")                                                                   \
    X(LIFTED, "the cap was lifted: in-flight work made no progress")                               \
    X(CUT_IN, "a stream above best effort became active: .cut")                                    \
    X(CUT_OUT, "its work is known complete: .cut")                                                 \
    X(SAMPLE, "what the device took for one call, by timing events: .sample")

enum trace_kind {
    TRACE_NONE,
#define TRACE_KIND(name, says) TRACE_##name,
    TRACE_KINDS(TRACE_KIND)
#undef TRACE_KIND
        TRACE_END
};

struct trace_record {
    uint64_t seq; /* 1 + its position; 0: not written, or being written */
    uint64_t ns;
    uint32_t tid;
    uint16_t kind;
    uint16_t level;
    uint32_t stream; /* counted from 1 per process; 0: of none */
    uint32_t name;   /* where it begins in the names; 0: has none */
    union {
        struct {
            uint32_t op; /* counts the calls of the process; 0: none */
            uint32_t took_ns;
            uint32_t grid[3], shared;
            uint16_t block[3], waits; /* waits: for I/O that it begins itself */
        } kernel;
        struct {
            uint32_t op, took_ns;
            uint64_t bytes;
        } copy;
        struct {
            uint64_t ticket; /* of the vHQ's context; UINT64_MAX: it was never buffered */
            uint32_t op, took_ns;
            uint32_t buffered, in_flight; /* in the vHQ, afterwards */
        } queue;
        struct {
            int32_t device;
            uint64_t turn; /* counts how often the stream became active; both its records have it */
        } cut;
        struct {
            uint64_t device_ns;   /* when it began, on the context's own clock */
            uint64_t duration_ns; /* `ns` of the record is when the host asked for it */
            uint32_t op;
            uint32_t context; /* whose clock: counts contexts from 1 */
            uint32_t lead_ns; /* from `ns` until the timed call began: nothing ran before */
        } sample;
        uint64_t word[4];
    };
};
static_assert(sizeof(struct trace_record) == 64, "one cache line");

struct trace_header {
    char magic[8];
    uint32_t version, header_bytes, name_bytes, records;
    uint32_t pid, level;
    uint32_t keep_first; /* the first records are kept, else the newest */
    uint32_t zero;
    uint64_t start_ns, as_of_ns; /* what was put until then is there */
    char program[64];
    _Alignas(64) _Atomic uint64_t head;  /* records asked for so far */
    _Alignas(64) _Atomic uint32_t names; /* bytes of them so far */
};
static_assert(sizeof(struct trace_header) == 256, "the file's layout");

/* The file: header, names, records. */
struct trace_file {
    struct trace_header header;
    unsigned char pad[4096 - sizeof(struct trace_header)];
    char name[TRACE_NAME_BYTES]; /* one behind the other, each with its end (names.h) */
    struct trace_record record[];
};
static_assert(offsetof(struct trace_file, record) % 4096 == 0, "the file's layout");

extern _Atomic(struct trace_file *) trace_buffer __attribute__((visibility("hidden")));

static inline bool trace_on(void)
{
    return unlikely(atomic_load_explicit(&trace_buffer, memory_order_relaxed));
}

/* Begins to write `path`, in which %p stands for the process id; once in a process. All of the file
 * is made at once, so that a full disk is met here. Returns 0 or -errno; -EBUSY: another process
 * writes this file; -EEXIST: what is there is no file of this user's alone. */
int trace_open(const char *path, uint32_t records, bool keep_first, uint32_t level);
/* When it returns, what was put before is in the file, or the disk has not taken it within 2 s. */
void trace_flush(void);
/* In a forked child, or at the end: puts no more. Nothing is unmapped: a thread may be writing. */
void trace_stop(void);

/* The number of a name, the same each time; 0: there is no room for all of it. */
uint32_t trace_name(const char *text);
/* Puts a record; seq and tid are set here, and ns where it is 0. */
void trace_put(const struct trace_record *record);
/* The record of that position in a ring of so many. False: it is not there yet, or no longer. */
bool trace_get(const struct trace_record *ring, uint32_t records, uint64_t position,
               struct trace_record *out);
/* clock_ns, out of line: functions that ask it only while a trace is written stay short. */
uint64_t trace_clock(void);

/* The call that this thread is making, to which records of a lower floor belong. */
extern _Thread_local uint32_t trace_op __attribute__((tls_model("initial-exec")));
/* The next number of a call. */
uint32_t trace_op_next(void);
/* Nanoseconds since `from`, as records have them. */
uint32_t trace_elapsed_ns(uint64_t from_ns);

#endif
