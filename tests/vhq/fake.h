/*
 * fake.h - a driver and a device for the tests of vhq.
 *
 * A `world` has one set, some streams and a record of every command: when its call began and ended,
 * when it was submitted, and what was in flight then. Stamps come from one counter, so "before"
 * needs no clock. The device completes commands and markers in stream order, either one at a time
 * when the test says so, or by a thread that picks streams at random.
 *
 * wrap.c stands in front of clock_gettime, pthread_create and the allocator.
 */
#ifndef TESTS_VHQ_FAKE_H
#define TESTS_VHQ_FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vhq/vhq.h"

enum { STREAMS_MAX = 32, COMMANDS_MAX = 8192, EVENTS_MAX = 8, NONE = -1 };
enum { FAIL_SPOILS = 700 }; /* the driver answers this, and from then on always */

struct command {
    int stream, after, displaces; /* indices; after and displaces are indices of records */
    uint32_t flags, bytes;
    uint64_t est_ns;
    int fail;              /* the driver's answer */
    int left;              /* parts that have not gone to the driver */
    bool inlined, capped;  /* capped: it counts for the cap */
    uint64_t begun, ended; /* stamps of the call */
    _Atomic uint64_t submitted, dropped;
    _Atomic int submits, drops;
    uint64_t flying_ns; /* in flight in the set just before */
    uint32_t in_flight; /* in flight in the stream just before */
};

struct stream {
    struct vhq *q;
    struct world *w;
    enum vhq_kind kind;
    _Atomic uint32_t done, hold;
    _Atomic uint64_t hold_since;
    uint32_t polled;   /* last value, for vHQs without a word */
    _Atomic bool full; /* a thread that submits to it waits for room in the driver */
    struct work {
        int command; /* NONE: a marker */
        uint32_t value;
        bool gate; /* the gate is behind the marker */
    } *work;
    uint32_t head, tail; /* work[head..tail) is in the device */
    uint32_t in_flight;
    _Atomic uint32_t submitted, completed; /* commands */
};

struct event {
    pthread_mutex_t lock;
    struct vhq_fence *fence;
    int record;
};

struct world {
    struct vhq_learned learned; /* of its calls with VHQ_LEARNS */
    struct vhq_set *set;
    struct vhq_config cfg;
    _Atomic uint32_t above, gates;
    struct stream stream[STREAMS_MAX];
    struct event event[EVENTS_MAX];
    struct command command[COMMANDS_MAX];
    _Atomic int streams, commands;
    _Atomic uint64_t clock; /* stamps */

    pthread_mutex_t lock; /* the device */
    uint64_t flying_ns;
    bool stuck, refuse_marks, refuse_gates;
    struct vhq_pad_room room; /* left by the real-time streams that hold this world's streams */
    _Atomic int gate_calls, mark_calls, polls, asked, fails, fail_code;
    _Atomic uint32_t looks;       /* of the dispatcher, so far */
    _Atomic int run_wait, in_run; /* the driver does not return while run_wait; threads inside */
    pthread_t device;
    _Atomic bool running;
    uint32_t seed;
};

/* ---- worlds ---------------------------------------------------------------------------------- */

struct world *world_new(const struct vhq_config *cfg);
struct world *world_new_asked(const struct vhq_config *cfg);         /* what is complete */
void world_room(struct world *w, uint32_t eighths, uint64_t for_us); /* from now on */
void world_free(struct world *w);                                    /* vhq_set_destroy */
void world_forget(struct world *w); /* a world whose set the test has ended itself */
/* Forks as if other threads were in vhq at that moment: the child may wait for none of its locks.
 * The fake driver's lock is free in the child. */
pid_t world_fork(struct world *w);
int world_stream(struct world *w, enum vhq_kind kind);
/* Makes one more stream. With several hold words it is not known when none was set: what commands
 * take is then no lesson. */
void world_stream_beside(struct world *w);
int world_stream_of_priority(struct world *w, int priority);
int world_stream_polled(struct world *w, enum vhq_kind kind); /* without completion word */

enum { PARTS_PER_EIGHTH = VHQ_PARTS / 8 };

/* Makes a call; returns the command's index. */
struct call {
    int stream;
    uint32_t flags, bytes;
    uint64_t est_ns;
    uint32_t eighths, parts; /* of the device, in one unit or the other; 0: not known */
    int event;               /* of record and wait */
    enum { LAUNCH, RECORD, WAIT } what;
    int fail;
    int parts_of; /* goes in so many parts; 0: as a whole */
    bool boost;
};
int world_call(struct world *w, const struct call *call);
int launch(struct world *w, int stream, uint64_t est_us);
void hold_all(struct world *w, bool hold);
/* Waits until a look of the dispatcher that began after this call has ended, and found nothing more
 * to do. It does not move the clock, and takes no place in a queue. */
void dispatcher_looks(struct world *w);
/* Whether a thread waits until something is submitted. */
bool somebody_waits(struct world *w);
bool submitted(struct world *w, int command);
int submitted_count(struct world *w);

/* ---- the device ------------------------------------------------------------------------------ */

/* Completes the oldest command of a stream, with the markers behind it. False: there is none, or it
 * is behind a closed gate. */
bool device_step(struct world *w, int stream);
void device_marks(struct world *w, int stream); /* markers that came when all before was complete */
void device_finish(struct world *w);            /* everything */
void device_start(struct world *w, uint32_t seed);
void device_stop(struct world *w);

/* ---- the reference checker ------------------------------------------------------------------- */

/* NULL, or what is wrong with the record (in a static buffer). */
const char *check_order(struct world *w);
/* Checks caps: exactly for one producer and a frozen clock, else by the bound that always holds. */
const char *check_cap(struct world *w, bool exact);

/* ---- wrap.c ---------------------------------------------------------------------------------- */

void clock_freeze(void);
void clock_advance(uint64_t ns);                         /* frozen or not */
extern _Atomic int wrap_no_threads;                      /* pthread_create fails */
extern void (*_Atomic wrap_after_unlock)(struct vhq *q); /* called then, if not NULL */
/* Called before a vHQ that is no longer empty is put into the lists, if not NULL. */
extern void (*_Atomic wrap_before_ready)(struct vhq *q);
extern _Atomic long wrap_allocs; /* allocations so far, and those not freed */
extern _Atomic long wrap_live;
extern _Atomic long wrap_heads; /* how often the head of a ring was looked at */

/* Waits for a condition with a generous deadline; aborts the test when it passes. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int tries_ = 0; !(condition); tries_++) {                                             \
            cr_assert(tries_ < 200000, "never: %s", #condition);                                   \
            nap_us(100);                                                                           \
        }                                                                                          \
    } while (0)
void nap_us(unsigned us);

static inline uint32_t rnd(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

#endif
