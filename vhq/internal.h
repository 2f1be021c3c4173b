/*
 * internal.h - what the files of vhq share.
 *
 * The files of vhq are one object in chapters, and they call each other in circles: a queue wakes
 * the dispatcher, the dispatcher asks order.c, the cap and the fences about the same queue, and
 * what they find wakes it again. So no order of calls keeps the files apart. The rules below do:
 * which thread may write which field, and which lock comes first. Code outside sees vhq.h alone.
 *
 * The submission right. At any moment at most one thread has the *submission right* of a vHQ. Only
 * that thread calls the driver for it, places its markers and writes the counters marked
 * "submitter" below. The right belongs to
 *   - the thread that set `running`: under the set's lock the dispatcher, the thread of a granted
 *     turn, or one that places a marker; under the producer lock, while the ring is empty, a thread
 *     that goes into the driver and may wait there (turn.c);
 *   - else, while the ring is empty, the holder of the producer lock (the inline path);
 *   - else no thread, and the dispatcher may take it.
 */
#ifndef CUTIN_VHQ_INTERNAL_H
#define CUTIN_VHQ_INTERNAL_H

#include <assert.h>
#include <pthread.h>

#include "common/bounds.h"
#include "common/clock.h"
#include "common/futex.h"
#include "common/likely.h"
#include "common/mutant.h"
#include "common/probe.h"
#include "common/trace.h"
#include "vhq/vhq.h"

#define NEVER UINT64_MAX

enum {
    CACHE_LINE = 64,
    UNITS = 16,        /* markers outstanding per vHQ */
    RELAX_FACTOR = 16, /* budgets in flight with gates */
    RIVALS_FACTOR = 8, /* budgets in flight without a client above, by mean times */
    RIVALS_MOST = RIVALS_FACTOR * 8,
    RELAX_DEPTH = 256,
    LOOSE_MOST_NS = 12 * 1000 * 1000, /* loose work in flight, at most */
    /* The same where other processes share the device: each has it for some 2 ms at a time. */
    LOOSE_BESIDE_NS = 3 * 1000 * 1000,
    LOOSE_PART = 4, /* a stream gets a marker behind such a part of that bound */
    /* For so long, work of another process's turn may be in flight after the turn. */
    OTHERS_TURN_NS = 8 * 1000 * 1000,
    PASSES_MOST = 64, /* times that higher priorities pass an earlier command */
    ROUND_MOST = 8,   /* streams among which room goes round */
    SHORT_LOOKS = 16, /* between looks at all heads, or more: so many per head */
    SHORT_LOOKS_PER_HEAD = 8,
    NEAR_LOOKS = 16, /* heads that a near look visits, in call order */
    /* While the cap blocks, a look at all heads comes after this time, and more for each head. */
    SHORT_LOOKS_US = 200,
    SHORT_LOOKS_EACH_NS = 2000,
    HOLD_LOOK_US = 50,
    HOLD_LOOK_MAX_US = 250,
    HOLD_LONG_MS = 1000,
    HOLD_LOOK_LONG_US = 100 * 1000,
    PAD_LOOK_US = 25, /* between looks at padding: kernels may be as short */
    GUARD_MS = 100,   /* without progress, before the guard lets a command in */
    DISPATCHERS = 16, /* threads of a set; one at a time dispatches */
    ROOM_SURE = 64,   /* commands of a stream that any driver takes at once: some let the thread
                       * wait past 1024, of all the streams that share a channel */
    MAX_EST_NS = 500 * 1000 * 1000, /* so that a unit's sum fits 32 bits: see cap.c */
    LOAD_STEP_NS = 8,               /* the unit of the estimate in a load */
    LOAD_BITS = 26,
};
static_assert(MAX_EST_NS / LOAD_STEP_NS < 1 << LOAD_BITS, "a load has room for every estimate");
static_assert(VHQ_PARTS <= 1 << (32 - LOAD_BITS), "... and for every part");

/* A counter that one thread at a time writes and any thread reads. */
#define peek(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define bump(x, n) atomic_store_explicit(&(x), peek(x) + (n), memory_order_relaxed)

/* A word that others write; NULL: there is none. */
static inline uint32_t word_read(const _Atomic uint32_t *word)
{
    return word ? peek(*word) : 0;
}
static inline uint64_t between(uint64_t least, uint64_t x, uint64_t most)
{
    return x < least ? least : x > most ? most : x;
}
static inline uint64_t sub_floor(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/*
 * ---- locks, by rank ----------------------------------------------------------------------------
 *
 * A thread that has one takes none of a lower rank, and of the same rank only another producer
 * lock: a graph has a command in a queue of each device that it reaches. A thread that only tries
 * may come in any order. Code under a set's or the registry's lock calls neither the driver nor a
 * command: lock_none_inside says so where these are called. Debug builds assert all of it; other
 * builds pay nothing.
 */

enum rank { RANK_QUEUE, RANK_REGISTRY, RANK_SET, RANK_FENCES, RANKS };

#ifndef NDEBUG
extern _Thread_local int32_t vhq_t_locks[RANKS] __attribute__((tls_model("initial-exec")));
#endif
static inline void lock_may(enum rank rank)
{
    for (int r = rank == RANK_QUEUE ? RANK_REGISTRY : (int)rank; r < RANKS; r++)
        assert(vhq_t_locks[r] == 0);
}
static inline void lock_has(enum rank rank, int32_t more)
{
#ifndef NDEBUG
    vhq_t_locks[rank] += more;
#endif
    assert(vhq_t_locks[rank] >= 0);
    (void)rank, (void)more;
}
static inline void lock_none_inside(void)
{
    lock_may(RANK_REGISTRY);
}

static inline void lock_take(pthread_mutex_t *mutex, enum rank rank)
{
    lock_may(rank);
    pthread_mutex_lock(mutex);
    lock_has(rank, 1);
}

static inline bool lock_try(pthread_mutex_t *mutex, enum rank rank)
{
    if (pthread_mutex_trylock(mutex) != 0)
        return false;
    lock_has(rank, 1);
    return true;
}

static inline void lock_give(pthread_mutex_t *mutex, enum rank rank)
{
    lock_has(rank, -1);
    pthread_mutex_unlock(mutex);
}

/* ---- fence.c --------------------------------------------------------------------------------- */

/*
 * A fence's state word. The flags are below. The bits above them count the waits that began with
 * this fence and are not submitted yet.
 *
 * No command may wait for one with a later ticket, or two could wait for each other. Racing calls
 * make that possible: a thread may have a fence whose record another thread is about to begin
 * (fence_await), or is displacing. Such calls may happen in either order. So a wait that begins
 * before the record does not see it (FENCE_BEGUN), and a wait that begins after the re-record is
 * not counted (FENCE_DISPLACED). To that end a record sets its flag after it took its ticket, and a
 * wait looks before it takes one; a re-record displaces before it takes its ticket, and a wait is
 * counted after it took one.
 */
enum {
    FENCE_SUBMITTED = 1u << 0,
    FENCE_DISPLACED = 1u << 1,
    FENCE_WATCHED = 1u << 2,       /* a dispatcher found a command blocked by this fence */
    FENCE_SLEEPERS = 1u << 3,      /* threads sleep on the state word */
    FENCE_BOOSTED = 1u << 4,       /* the record is exempt from holds, with all that is ahead */
    FENCE_BOOSTED_WAITS = 1u << 5, /* the waits are exempt, too */
    FENCE_BEGUN = 1u << 6,
    FENCE_WAIT = 1u << 8, /* one counted wait */
};

struct vhq_fence {
    _Atomic uint32_t state;
    _Atomic uint32_t refs;
    _Atomic(struct vhq *) queue; /* where the record is buffered; read under the registry lock */
    _Atomic uint64_t ticket;     /* of the record; valid while queue is set */
    struct vhq_fence *next;      /* free list */
    uint32_t home;               /* the free list it returns to */
};

bool fence_wait_begin(struct vhq_fence *f); /* true: counted, fence_wait_end is due */
void fence_wait_end(struct vhq_fence *f);
/* Acquire: what the submitting thread did before its driver call returned is visible. */
static inline uint32_t fence_state(const struct vhq_fence *f)
{
    return atomic_load_explicit(&f->state, memory_order_acquire);
}
static inline bool fence_begun(const struct vhq_fence *f) /* false also for NULL */
{
    return f && (fence_state(f) & FENCE_BEGUN) != 0;
}
void fence_await(const struct vhq_fence *f); /* until the record begins, 10 ms at most */
void fence_signal(struct vhq_fence *f);
/* May a wait (vhq_fence_submitted) or a re-record (vhq_fence_over) go? Only for a fence whose
 * record has begun. The dispatchers are kicked when the answer changes. */
bool fence_wait_ready(struct vhq_fence *f);
bool fence_displaceable(struct vhq_fence *f);
void fence_boost(struct vhq_fence *f);
void fence_boost_waits(struct vhq_fence *f);

/* ---- ring.c ---------------------------------------------------------------------------------- */

/* Flags of a slot, beside those of its request (VHQ_*). */
enum {
    SLOT_TURN = 1u << 8, /* no command: a thread waits to submit by itself (VHQ_MUST_INLINE) */
    SLOT_WAIT_COUNTED = 1u << 9, /* its wait is counted by `after` */
    SLOT_WRAP = 1u << 10,        /* not a command: go on at the start of the ring */
    SLOT_LOOSE = 1u << 11,       /* submitted while the set is alone: takes no room */
    SLOT_PADDED = 1u << 12,      /* goes although its vHQ is held, see held.c */
    SLOT_RECORD = 1u << 14,      /* an event record, which waits for nothing: see cap_sent */
};

/* Header of one buffered command; the payload follows. One cache line. */
struct slot {
    uint16_t units; /* size of the record in 16 bytes */
    uint16_t flags; /* VHQ_*, SLOT_* */
    uint32_t load;  /* see load_ns */
    uint64_t ticket;
    struct vhq_fence *after, *displaces, *signals;
    struct vhq_cmd cmd;
};
static_assert(sizeof(struct slot) == CACHE_LINE, "a record's header is one cache line");

/*
 * The producer owns the tail. The consumer (the holder of the set's lock) owns the head. The byte
 * counts only grow and include the padding of wraps, so used = written - freed without a division.
 */
struct ring {
    unsigned char *base; /* NULL until the first command is buffered */
    uint32_t size, max_commands;
    uint32_t tail, head; /* offsets */
    uint64_t written;
    _Atomic uint64_t freed;
    _Atomic uint64_t tail_seq, head_seq; /* commands published; commands submitted or dropped */
    _Atomic uint64_t first_seq;          /* the command with which an empty ring began anew */
};

bool ring_alloc(struct ring *r);
void ring_free(struct ring *r);
bool ring_fits(const struct ring *r, uint32_t bytes);
struct slot *ring_reserve(struct ring *r, uint32_t bytes);
void ring_publish(struct ring *r);
struct slot *ring_head(struct ring *r); /* NULL: empty */
void ring_pop(struct ring *r);
/* The command behind s, which is at that offset (it follows); NULL: the head. There is one. */
struct slot *ring_next(struct ring *r, const struct slot *s, uint32_t *offset);

static inline uint64_t ring_count(const struct ring *r)
{
    return atomic_load_explicit(&r->tail_seq, memory_order_acquire) - peek(r->head_seq);
}
static inline bool ring_empty(const struct ring *r)
{
    return atomic_load_explicit(&r->head_seq, memory_order_acquire) ==
           atomic_load_explicit(&r->tail_seq, memory_order_acquire);
}

/* ---- the vHQ --------------------------------------------------------------------------------- */

/* The commands between two markers. The unit that ends with marker v is at v % UNITS. */
struct unit {
    uint64_t since_ns;        /* when its marker was placed */
    uint32_t sent, counted;   /* vhq.sent, in 32 bits, and vhq.counted at that time */
    uint32_t est_ns, area_ns; /* sums of its commands */
};

/* Work in flight without progress: since the cap blocked, or since the guard then let more in. */
enum stall { STALL_NONE, STALL_BLOCKED, STALL_GUARDED };

enum running {
    RUN_NONE,
    RUN_HEAD, /* the ring's head is being submitted or dropped */
    RUN_MARK, /* a marker is being placed */
    RUN_TURN, /* a thread is in the driver, see turn.c */
};

enum begun { BEGUN_NONE, BEGUN_INLINE, BEGUN_BUFFER, BEGUN_FAST };

struct vhq {
    /* The producer side, under `lock`. */
    _Atomic uint32_t lock; /* see queue_lock */
    struct vhq_set *set;
    struct vhq_desc desc;
    _Atomic(const _Atomic uint32_t *) hold; /* desc.hold, or measure_choose_hold's choice */
    struct {
        _Atomic uint32_t how; /* enum begun; read without the lock (vhq_calling) */
        uint16_t flags;
        uint32_t load;
        struct vhq_fence *after, *signals; /* `after` only if the wait is counted */
        struct slot *slot;
    } cur;
    _Atomic uint32_t waiting; /* inline callers that wait without a ring (out of memory) */
    _Atomic uint32_t turns;   /* threads that submit by themselves, or wait for their turn */
    struct turn *turn;        /* the turn of RUN_TURN; NULL: it is about to end */
    bool dead;                /* destroyed; written under lock and the set's lock */
    bool awaited;             /* a thread waits for the end of RUN_TURN */

    struct ring ring;
    _Atomic uint32_t ready_listed; /* among the set's heads, or about to be: dispatcher_ready */
    struct vhq *ready_next;
    _Atomic uint32_t own_hold;    /* vhq_hold */
    _Atomic uint64_t boost_below; /* smaller tickets are exempt from holds */
    _Atomic uint32_t peers;       /* commands with VHQ_PEER that are buffered */

    /* Under the set's lock. */
    _Atomic uint64_t submitted_seq; /* head_seq, or one more: the head went and is not popped yet */
    _Atomic uint32_t running;       /* enum running; cleared with release, read under `lock` too */
    uint64_t reset_seq;             /* commands before this one are to be dropped */
    uint64_t held_since_ns;         /* when the dispatcher saw the hold; 0: not held */
    uint64_t stopping_since_ns;     /* when it began, as its holder says */
    uint64_t stopping_after_ns;     /* completions seen after this belong to the hold */
    uint64_t completed_at_ns;       /* when a completion was last seen */
    uint64_t run_since_ns;   /* when that happened by the estimates: what follows runs since then */
    uint64_t went;           /* the next ticket of the set when its last command went ... */
    uint64_t went_nth;       /* ... and that command's number in went_count */
    uint64_t peer_below;     /* a hold keeps back a write with a smaller ticket ... */
    uint64_t peer_since_ns;  /* ... since then */
    struct vhq *prev, *next; /* all vHQs of the set */
    uint32_t pins;           /* the owner's, a passed turn's, and of threads that stand here */
    bool gone;               /* destroyed: the last pin frees it */
    bool padded;             /* a command went during this hold */
    bool begun;              /* a piece of the head went, and not all of it */
    bool left;               /* its stream has ended, and something is in flight: see vhq_leave */
    _Atomic uint32_t calls;  /* calls of ops by other threads: vhq_destroy waits for them */
    uint32_t pass;           /* last pass of polls that saw it */

    /* In flight. Written by the submitter: */
    _Atomic uint64_t sent;        /* all commands */
    _Atomic uint64_t mark_cover;  /* `sent` when the newest marker was placed */
    _Atomic uint32_t counted;     /* commands that count for the cap */
    _Atomic uint64_t counted_ns;  /* their estimates */
    _Atomic uint32_t tail_est_ns; /* of the commands behind the newest marker */
    uint32_t tail_area_ns, tail_counted;
    uint32_t chain;            /* among so many commands more, one that overlaps is expected */
    _Atomic uint8_t tail_wide; /* as wide[] */
    bool mark_waits;           /* a marker is due, and waits for a command that does not overlap */
    bool tail_waits;           /* a command of the tail waits for more than the device */
    bool marks;                /* vhq_leave's: the stream takes a last marker */
    uint64_t mark_expires_ns;  /* when the newest marker counts as reached; 0: the GPU writes it */
    /* Estimates of the loose commands of the tail, which nothing else counts; 0: there are none.
     * The thread that places a marker folds them into the tail. */
    _Atomic uint64_t loose_ns;
    _Atomic bool asks;           /* the driver is asked: a late marker would tie streams together */
    uint64_t gate_est_ns;        /* of the commands behind the newest gate */
    _Atomic uint32_t gate_state; /* enum gate_state */
    _Atomic uint32_t gate_units; /* bit v % UNITS: marker v has a gate behind it */
    _Atomic uint32_t newest;     /* newest marker */
    _Atomic uint32_t want_mark;  /* a thread waits for a marker that only the submitter can place */
    _Atomic uint32_t failed;
    /* Written under the set's lock: */
    _Atomic uint32_t complete; /* of `counted`: known complete */
    _Atomic uint64_t complete_est_ns;
    _Atomic uint32_t complete_mark;
    uint64_t complete_sent;
    _Atomic uint32_t in_flight; /* on the set's list of that name */
    struct vhq *in_flight_next;
    _Atomic uint32_t polled; /* stands in for the completion word where there is none */
    uint8_t stall;           /* enum stall */
    bool beside;             /* a command that the guard let in beside stalled work is in flight */
    struct unit unit[UNITS];
    /* Per unit: what the device had when its marker was placed, the unit included, in steps of
     * AHEAD_NS; 0: it is not measured. And the most parts of the device that one command takes. */
    uint16_t ahead[UNITS];
    uint8_t wide[UNITS];

    _Atomic uint64_t inlined, markers, gates, dropped, completed, holds;
};
static_assert(sizeof(struct vhq) <= 1056, "thousands of streams never buffer");

/* ---- the set --------------------------------------------------------------------------------- */

/* Of the set's hold word; see gaps.c. */
struct gaps {
    const _Atomic uint32_t *hold;
    const _Atomic uint64_t *since;
    bool several;                 /* more than one hold word: nothing is learned */
    uint64_t came_ns, over_ns;    /* when the latest hold came, and ended (0: it has not) */
    uint64_t seen_ns;             /* when the last look was */
    uint32_t n;                   /* gaps of this window so far */
    uint64_t least_ns, before_ns; /* the shortest of this window, and of the one before (0: none) */
};

/* See stats.c. */
struct account {
    int64_t owed_ns; /* completed, but not in `ns`; below 0: `ns` is ahead */
    uint64_t ns;
};
struct used {
    struct vhq_weights weights; /* of SCALE_ONE */
    uint32_t of; /* vhq_set_pay_share's, until all has run out; 0: no other process works */
    bool busy;   /* at the look before */
    uint64_t busy_ns, est_ns; /* busy since the last sum; the estimates at that sum */
    struct account high, sure;
};

/* See heads.c. */
struct head {
    uint64_t ticket;
    struct vhq *q;
};

enum set_stage { SET_OPEN, SET_CLOSING, SET_ABANDONED };

struct vhq_set {
    struct vhq_config cfg;
    /* cfg.above. None, or in trials: a word that is 1. While share_of is not 0: one that is 0. */
    _Atomic(const _Atomic uint32_t *) above;
    _Atomic uint32_t budget_us, depth; /* the cap now; see vhq_set_configure */
    _Atomic uint64_t budget_ns;        /* the budget divided by the scale: see measure.c */
    _Atomic uint32_t loose_most_ns;    /* the bound on loose work, likewise */
    _Atomic uint32_t loose_unit_ns;
    _Atomic uint32_t beside;     /* *cfg.beside when they were divided */
    _Atomic uint32_t mark_last;  /* see vhq_set_mark_last */
    _Atomic uint32_t ungated_ns; /* the longest recent command: a hold cannot stop it at a gate */
    uint32_t share_of;           /* vhq_set_pay_share's `of`; then share_word holds all vHQs */
    bool had_share;              /* share_of was not 0 at some time */
    bool hold_all;               /* see vhq_set_hold_all */
    _Atomic uint32_t share_word;
    _Atomic uint32_t relax; /* budgets in flight with rivals; see measure_relax */
    struct vhq_ops ops;
    void *user;
    struct vhq_set *prev, *next; /* registry */

    /* Buffered commands are issued - retired. A ticket is the value of `issued` that it took. */
    _Alignas(CACHE_LINE) _Atomic uint64_t issued;
    _Alignas(CACHE_LINE) _Atomic uint64_t retired;
    _Alignas(CACHE_LINE) _Atomic uint64_t area_ns; /* in flight; 0: nothing is */
    _Alignas(CACHE_LINE) _Atomic uint32_t kick;    /* futex of the dispatcher */
    _Atomic uint32_t sleeping;
    _Atomic uint32_t thread_up;
    _Atomic uint32_t dispatching;          /* futex: does a thread dispatch? see dispatcher.c */
    _Atomic uint32_t spares;               /* threads that wait for that role; ... */
    _Atomic uint32_t asleep;               /* ... those of them that sleep until they are woken */
    _Atomic uint32_t waiting;              /* threads that wait for a goal, or are about to */
    _Atomic(struct vhq *) fresh_ready;     /* newly not empty; the dispatcher takes all */
    _Atomic(struct vhq *) fresh_in_flight; /* newly in flight */
    _Atomic uint64_t boost_below;
    _Atomic uint32_t loose; /* vHQs with loose commands; not 0: it is not known what is in flight */

    _Alignas(CACHE_LINE) pthread_mutex_t lock; /* everything below */
    pthread_t thread[DISPATCHERS];
    uint32_t threads; /* started so far */
    enum set_stage stage;
    uint32_t parked; /* > 0: completion words are not read, and the driver is not asked */
    struct vhq *all, *in_flight;
    uint32_t vhqs;     /* in `all` and not gone */
    struct head *head; /* a heap, with room for all vHQs */
    uint32_t heads;
    size_t heads_room;
    uint32_t short_looks; /* short looks left until the next look at all heads: see order_short */
    bool plain;           /* at that look no head was uncounted, held or a turn, nor is one since */
    uint64_t all_ns;      /* when that look was; 0: it did not read the clock */
    /* If that look found all heads held: since when the last one is, and `kick` then. 0: not so. */
    uint64_t held_since_ns;
    uint32_t held_kick;
    uint32_t held; /* vHQs that are held, as far as the dispatcher saw */
    uint64_t any_held_since_ns, total_held_ns; /* since when without a break; the sum before that */
    _Atomic uint32_t in_flight_count;          /* vHQs in flight, the fresh ones included */
    struct waiter *waiters;
    uint32_t pass, wordless; /* wordless: vHQs that must be polled */
    uint32_t lowest;         /* the lowest level that any vHQ ever had */
    int first;               /* the CUDA priority that goes before all others */
    struct vhq *went_last;   /* the vHQ whose command went last; it may be gone */
    uint64_t went_count;
    uint32_t passes; /* times in a row that the earliest command was passed */
    bool poll_due;

    /* cap.c */
    struct gaps gaps;
    struct used used;
    _Atomic uint64_t others_until_ns; /* until then another process may be at work in its turn */
    struct vhq_pad_room room;         /* ops.room's answer at the dispatcher's look */
    _Atomic uint64_t padded, peer_releases;
    _Atomic uint64_t done_est_ns;          /* estimates of what completed, or was loose */
    uint64_t progress_at_ns, polled_at_ns; /* when a completion was last seen, and looked for */
    uint64_t oldest_ns; /* the oldest unit in flight: since when, and its estimates */
    uint32_t oldest_est_ns, oldest_area_ns;
    uint32_t longest_est_ns;   /* of the oldest unit of each stream */
    bool asking;               /* the driver is asked about the work of some stream */
    bool stalled;              /* the work of some vHQ has stalled: see enum stall */
    uint64_t blocked_since_ns; /* since when the cap blocks and some work has stalled; 0: none */
    uint64_t quiet_since_ns;   /* since when no work at all makes progress */
    uint32_t beat;             /* cfg.shift / VHQ_SHIFT_PROGRESS at blocked_since_ns */
    uint32_t admits;           /* commands that the progress guard still lets in ... */
    uint32_t admitted;         /* ... and let in the last time, if no stalled work got on */
    uint64_t stalled_since_ns; /* since when that is so ... */
    uint64_t admitted_ns;      /* ... and the estimates of all that was let in since */
    bool admits_idle;          /* the guard takes commands of streams with nothing in flight, too */
    bool admits_part;          /* what it lets in may take a small part of the time since then */
    bool admits_beside; /* it lets in one of such a stream, and the next when that is complete */
    uint64_t shift_begin_ns; /* shift_update's answer for the last command that looked for room */
    uint64_t shift_end_ns;
    uint32_t long_ns; /* the longest recent command that was a unit by itself */
    uint64_t
        excused_ns; /* blocked_since_ns, quiet_since_ns leave out holds and shifts until then */
    uint64_t elsewhere_ns; /* since when another process has the shift; 0: none seen */
    uint32_t scale;        /* in 256ths: how long work takes over what the estimates say */
    uint32_t since_long;   /* units since one took much longer than the estimates say */
    bool recurs;           /* such units come again and again */
    uint32_t trials;       /* units that are to complete before the set counts as alone */
    uint32_t pace; /* in 256ths: the smallest part of an estimate that was enough, of late */
    _Atomic uint32_t late_ns; /* by how much the dispatcher's thread wakes late, on average */
    uint32_t backoff_ns;
    uint32_t waits; /* for room, until some time */

    struct vhq_stats past; /* sums of destroyed vHQs; and guard_lifts */
};

static inline void set_lock(struct vhq_set *s)
{
    lock_take(&s->lock, RANK_SET);
}
static inline void set_unlock(struct vhq_set *s)
{
    lock_give(&s->lock, RANK_SET);
}
/*
 * A producer lock is a word, because each call takes one: while it is free that costs an exchange,
 * and a mutex of libc ten times as much. It is the only lock held across calls of the driver: calls
 * for one stream reach the driver in order. Other callers for that stream wait, for as long as a
 * deferred command may take in the driver. A thread knows how many it holds: see vhq_t_inside.
 */
enum { WORD_FREE, WORD_TAKEN, WORD_AWAITED };
void queue_lock_await(struct vhq *q);
static inline bool queue_trylock(struct vhq *q)
{
    uint32_t seen = WORD_FREE;
    if (unlikely(!atomic_compare_exchange_strong_explicit(
            &q->lock, &seen, WORD_TAKEN, memory_order_acquire, memory_order_relaxed)))
        return false;
    vhq_t_inside++;
    lock_has(RANK_QUEUE, 1);
    return true;
}
static inline void queue_lock(struct vhq *q)
{
    lock_may(RANK_QUEUE);
    if (unlikely(!queue_trylock(q)))
        queue_lock_await(q);
}
static inline void queue_give(struct vhq *q)
{
    vhq_t_inside--;
    lock_has(RANK_QUEUE, -1);
    uint32_t was = atomic_exchange_explicit(&q->lock, WORD_FREE, memory_order_release);
    if (unlikely(was == WORD_AWAITED))
        futex_wake_one(&q->lock);
}
void queue_unlock(struct vhq *q); /* queue_give as a call, at which tests may come in between */

static inline bool set_empty(const struct vhq_set *s)
{
    /* Reads `retired` first: so a command that began before this call is never missed. */
    uint64_t retired = atomic_load_explicit(&s->retired, memory_order_acquire);
    return atomic_load_explicit(&s->issued, memory_order_relaxed) == retired;
}

/* In the dispatcher every command goes straight through; a forked child has no dispatcher. */
extern _Atomic bool vhq_forked;
static inline bool passive(void)
{
    return unlikely(vhq_in_dispatcher() || atomic_load_explicit(&vhq_forked, memory_order_relaxed));
}

extern pthread_mutex_t registry_mutex;
extern struct vhq_set *registry; /* walk by ->next, under the lock */
static inline void registry_lock(void)
{
    lock_take(&registry_mutex, RANK_REGISTRY);
}
static inline void registry_unlock(void)
{
    lock_give(&registry_mutex, RANK_REGISTRY);
}
void queue_free(struct vhq *q);
void queue_unpin(struct vhq *q); /* set's lock held */

/* ---- turn.c ---------------------------------------------------------------------------------- */

enum { TURN_WAITS, TURN_GRANTED, TURN_TAKEN_BACK };
struct turn {
    _Atomic uint32_t taken;
    struct vhq *q;
    struct vhq_set *set;      /* q's; q may be gone once the turn was taken back */
    const void *frame;        /* of its caller; NULL: not known */
    struct slot *slot;        /* where it waits; under the set's lock */
    bool begun;               /* its thread has taken it; under the set's lock */
    bool over;                /* it was given up, but its thread may still come back */
    _Atomic uint32_t granted; /* futex: TURN_* */
    bool locked;              /* a deliberate bug */
    uint64_t seen_ns;         /* when the dispatcher found something behind it; 0: not yet */
    struct slot *kept;        /* the slot that a command in pieces keeps; NULL: none */
    struct slot call;         /* the slot that another one gave up. A ticket of NEVER: it had no
                               * place, and has no references to its fences */
};

/* Producer lock held. NULL: too many turns are taken. */
struct turn *turn_new(struct vhq *q, const void *frame);
/* turn_inline: it goes at once, by q->cur. turn_take: when the place of `slot`, which is published,
 * has come. Gives up the producer lock. False: the place was lost, and the lock is held again. */
void turn_inline(struct turn *t);
bool turn_take(struct turn *t, struct slot *slot, bool in_pieces);
void turn_end(struct turn *t, int err);
/* May what is behind the turn go, whether its call has returned or not? Else *wake_ns is no later
 * than when it may. Set's lock held. */
bool turn_late(struct turn *t, uint64_t now, uint64_t *wake_ns);
/* Takes the right from the call of RUN_TURN: no thread waits for it now. Set's lock held. */
void turn_revoke(struct vhq *q);
/* The same for a turn that was granted and is not taken. True: its slot is no turn any more. */
bool turn_take_back(struct turn *t, uint64_t now, uint64_t *wake_ns);
/* The number of the calling thread's turns. turns_unwind ends those that were left by a jump: a
 * command that begins at `frame` cannot be within them. No lock is held. */
extern _Thread_local uint32_t vhq_t_turns __attribute__((tls_model("initial-exec")));
void turns_unwind(const void *frame);
/* The thread will wait for what is buffered: this ends its own turns that go in pieces. */
void turns_give_up(void);
/* The turn of the command of q that began at `frame` and ends now; NULL: there is none. Ends the
 * turns within it, which were left by a jump. */
struct turn *turns_unwind_to(const struct vhq *q, const void *frame);

/* ---- cap.c ----------------------------------------------------------------------------------- */

/* A command's load: its estimate in units of LOAD_STEP_NS, and in the bits above it how many parts
 * of the device it takes, less one. */
static inline uint32_t load_make(uint64_t est_ns, uint32_t parts)
{
    uint32_t ns = (uint32_t)(est_ns < MAX_EST_NS ? est_ns : MAX_EST_NS);
    /* Not 0: area_ns == 0 means that nothing is in flight. */
    return (ns ? (ns + LOAD_STEP_NS - 1) / LOAD_STEP_NS : 1) | (parts - 1) << LOAD_BITS;
}
static inline uint32_t cap_load(const struct vhq_req *req)
{
    return load_make(req->est_ns, req->parts ? req->parts : VHQ_PARTS);
}
static inline uint32_t load_ns(uint32_t load)
{
    return (load & ((1u << LOAD_BITS) - 1)) * LOAD_STEP_NS;
}
static inline uint32_t load_parts(uint32_t load)
{
    return (load >> LOAD_BITS) + 1;
}
/* Its estimate times its part of the device; not 0. */
static inline uint32_t load_area_ns(uint32_t load)
{
    return (uint32_t)(((uint64_t)load_ns(load) * load_parts(load) + VHQ_PARTS - 1) / VHQ_PARTS);
}
/* How much loose work may be in flight, if the estimates are right (a scale of one). */
static inline uint64_t loose_bound_ns(const struct vhq_set *s)
{
    return peek(s->beside) ? LOOSE_BESIDE_NS : LOOSE_MOST_NS;
}
/* There is room for a loose command. */
static inline bool cap_loose_room(const struct vhq_set *s)
{
    return peek(s->area_ns) < peek(s->loose_most_ns);
}
/* True also if this stream has less than loose_unit_ns in flight, since streams run side by side.
 * `now`: of a look just made; 0: without a look. Submission right or set's lock held. */
bool cap_loose_stream_room(const struct vhq *q, uint64_t now);
/* Takes room for a command without a lock, by what is known to be complete. */
bool cap_take(struct vhq *q, uint32_t load);
/* Set's lock held: after a look, with credit for the time that the oldest unit has been running. */
bool cap_take_credited(struct vhq *q, uint32_t load, uint64_t now);
void cap_force(struct vhq *q, uint32_t load); /* takes room that is not there */
void cap_give_back(struct vhq *q, uint16_t flags, uint32_t load);
/* This stream has no room for such a command, whatever others have in flight. `now`: of a look just
 * made, with the set's lock held; 0: by what is known without a look. */
bool cap_stream_full(const struct vhq *q, uint32_t load, uint64_t now);
bool cap_client_above(const struct vhq_set *s); /* a client above is there */
/* More than a budget and a half: such a command goes when (nearly) nothing else is in flight. */
bool cap_long(const struct vhq_set *s, uint64_t ns);
/* How much of what is in flight may be left when a command of `ns` goes that does not fit. */
uint64_t cap_lead_ns(const struct vhq_set *s, uint64_t ns, uint64_t budget);
/* The oldest unit in flight; NULL: none is written down. */
const struct unit *cap_oldest(const struct vhq *q);
/* How long the stream still needs for what it has in flight, and the most parts of the device that
 * this takes. After a look, with the set's lock held. */
uint64_t cap_stream_rest_ns(const struct vhq *q, uint64_t now);
uint32_t cap_wide(const struct vhq *q);
static inline bool cap_alone(const struct vhq_set *s)
{
    return peek(*peek(s->above)) == 0 && peek(*s->cfg.rivals) == 0;
}
void cap_poll_words(struct vhq_set *s, uint64_t now);
/* A vHQ that waits for a marker, or, with `loose`, that has loose commands: its submission right is
 * taken. Set's lock held. */
struct vhq *cap_claim_unmarked(struct vhq_set *s, bool loose);
/* May the calling thread mark the tail? If so, this takes the submission right. */
bool cap_claim_tail(struct vhq *q);
/* Submission right held. Counts a command that went to the driver, and places a marker if one is
 * due. `flags`: VHQ_* and SLOT_*. */
void cap_sent_counted(struct vhq *q, uint16_t flags, uint32_t load, int err);
/* The first loose command of its stream went. */
void cap_loose_begin(struct vhq *q);
enum mark { MARK_OK, MARK_FULL, MARK_FAILED, MARK_NO_GATE };
enum mark cap_mark(struct vhq *q);
/* Release: pairs with vhq_sync, which waits for a marker that covers this count. */
static inline __attribute__((always_inline)) void cap_count_sent(struct vhq *q, uint32_t est_ns)
{
    PROBE2(submit, q->desc.stream, est_ns);
    if (unlikely(peek(q->failed)))
        atomic_store_explicit(&q->failed, 0, memory_order_relaxed);
    atomic_store_explicit(&q->sent, peek(q->sent) + 1, memory_order_release);
}
/* A loose command took no room. It is counted with the next marker: see loose_fold. */
static inline __attribute__((always_inline)) void cap_sent_loose(struct vhq *q, uint32_t est_ns)
{
    uint64_t ns = peek(q->loose_ns);
    cap_count_sent(q, est_ns);
    if (unlikely(ns == 0))
        cap_loose_begin(q);
    atomic_store_explicit(&q->loose_ns, ns += est_ns, memory_order_relaxed);
    if (unlikely(ns >= peek(q->set->loose_unit_ns) || peek(q->want_mark)))
        cap_mark(q);
}
static inline void cap_sent(struct vhq *q, uint16_t flags, uint32_t load, int err)
{
    if (!(flags & SLOT_LOOSE)) {
        cap_sent_counted(q, flags, load, err);
        return;
    }
    q->tail_waits |= (flags & VHQ_WAITS) != 0;
    if (likely(err == 0))
        cap_sent_loose(q, load_ns(load));
}
/* As cap_mark, with `op` in the place of ops->mark. MARK_NO_GATE: nothing was placed. */
enum mark cap_mark_by(struct vhq *q, int (*op)(void *, struct vhq *, void *, uint32_t));
bool cap_markers_full(const struct vhq *q); /* no room for another */
/* Set's lock held. By the last look the driver may lack room in this stream: a call may wait. */
static inline bool cap_may_lack_room(const struct vhq *q)
{
    return peek(q->sent) - q->complete_sent >= ROOM_SURE;
}
/* Makes room for a marker: joins the two oldest units. Set's lock held. */
void cap_join_oldest(struct vhq *q);
/* Nothing of this vHQ counts as in flight any more. Submission right and set's lock held. */
void cap_forget(struct vhq *q);
/* All that was submitted through it is known complete. Submission right and set's lock held. */
void cap_complete_all(struct vhq *q, uint64_t now);
bool cap_reached(struct vhq *q, uint32_t value);
enum { PACE_ONE = 256 /* the device is as fast as the estimates say */ };
/* Work between two markers: `ns`, or more where they cost much (vhq_config.marks_apart_ns). */
static inline uint64_t cap_apart_ns(const struct vhq_set *s, uint64_t ns, uint64_t budget)
{
    uint64_t least = s->cfg.marks_apart_ns, most = budget / 4 * 3;
    return likely(least <= ns) ? ns : least < most ? least : most;
}
/* What all vHQs of the set may have in flight; what one vHQ has, by the estimates. */
uint64_t cap_budget_ns(struct vhq_set *s, bool strict, uint64_t now);
uint64_t cap_stream_ns(const struct vhq *q);
uint64_t cap_stream_since(const struct vhq *q); /* since when its oldest unit has been running */
void cap_adopt(struct vhq_set *s);              /* lists what is newly in flight; set's lock held */
uint64_t cap_oldest_since(const struct vhq_set *s); /* the same of all vHQs of the set */

/* Closes a stream off: finds it complete, puts a marker behind it, or has the driver asked. The
 * caller is no thread that submits to it, and so maybe late. */
void tail_mark_or_ask(struct vhq *q);

/* ---- blocked.c: set's lock held -------------------------------------------------------------- */

/* The cap blocks the dispatcher: when to look again. The guard may let commands in. `load`: of a
 * command that has room in its stream, but not beside what all have in flight; 0: there is none. */
uint64_t blocked_wake_ns(struct vhq_set *s, uint32_t load, uint64_t now);
void blocked_admitted(struct vhq_set *s, uint32_t load, uint64_t now); /* the guard let one in */
void blocked_cap_let_in(struct vhq_set *s, uint64_t now); /* the cap let a command in */
void blocked_progress(struct vhq_set *s, uint64_t now);   /* something is complete */
void blocked_stall_ends(struct vhq *q); /* it got on, or is gone; only if the set is `stalled` */
/* What was in flight could make no progress since `from`, such as in a hold that stopped the
 * device, too. Each moment is excused once, of holds of several vHQs at a time. */
void blocked_excuse(struct vhq_set *s, uint64_t from, uint64_t now);
void cap_poll(struct vhq *q);         /* no lock held */
void cap_poll_all(struct vhq_set *s); /* no lock held */

/* ---- measure.c: set's lock held ------------------------------------------------------------- */

enum { SCALE_ONE = 256, SCALE_MOST = 16 * SCALE_ONE };
enum { AHEAD_NS = 256, AHEAD_MOST = UINT16_MAX };
/* The unit that ends with this marker is complete. As of the last look it was not. */
void measure_unit(struct vhq *q, uint32_t value, uint64_t now);
void measure_scale(struct vhq_set *s, uint32_t scale);
void measure_begin(struct vhq_set *s);
void measure_above(struct vhq_set *s); /* again, when share_of or trials has changed */
void measure_relax(struct vhq_set *s);
void measure_choose_hold(struct vhq *q);
/* How much of an estimate has surely run in `ns`. */
static inline uint64_t measure_ran(const struct vhq_set *s, uint64_t ns)
{
    return s->scale > SCALE_ONE ? ns * SCALE_ONE / s->scale : ns;
}

/* ---- shift.c: set's lock held ---------------------------------------------------------------- */

enum { SHIFT_BASE_NS = SHIFT_BASE_US * 1000 };
static inline bool shift_any(const struct vhq_set *s)
{
    return word_read(s->cfg.shift) % VHQ_SHIFT_PROGRESS >= 2 * VHQ_SHIFT_OF;
}
/* When the set's shift began, or when its next one begins; 0: the set needs none. */
uint64_t shift_update(struct vhq_set *s, uint64_t now);
/* The same for the process at `place` of so many. */
uint64_t shift_from(uint32_t place, uint32_t of, uint64_t length, uint64_t now);
/* `at` is early in the shift: the device still has work of the one before. As of shift_update. */
bool shift_shared(const struct vhq_set *s, uint64_t at);
/* A command of `ns` would not end in the shift, behind what is in flight, and may wait for the next
 * one. As of shift_update. */
bool shift_outlasts(const struct vhq_set *s, uint64_t ns, uint64_t ahead_ns, uint64_t now);
/* How much of `most` runs out by the end of the shift; at least the budget. */
uint64_t shift_most_ns(struct vhq_set *s, uint64_t most, uint64_t now);
/* Another process of the level has the device by its time slices, in anybody's shift. */
bool shift_sliced(const struct vhq_set *s);

/* ---- gaps.c: set's lock held ----------------------------------------------------------------- */

void gaps_of(struct vhq_set *s, const struct vhq_desc *desc); /* a vHQ comes */
void gaps_note_hold(struct vhq_set *s, uint64_t now);
/* After a look: how much more than the budget may be in flight. */
uint64_t gaps_ahead_ns(const struct vhq_set *s, uint64_t now);
/* After a look: did a client hold since then? True also where that is not known. */
bool gaps_held_since(const struct vhq_set *s, uint64_t since);

/* ---- gate.c ---------------------------------------------------------------------------------- */

enum gate_state {
    GATE_NEAR, /* the stream can be stopped soon enough */
    GATE_DUE,  /* the next command that counts goes behind a gate */
    GATE_LOST, /* a gate was due and could not be had: the strict cap bounds until there is one */
};
static inline bool gate_used(const struct vhq_set *s)
{
    return word_read(s->cfg.gates) != 0;
}
/* This vHQ's work in flight can be stopped, so the cap need not be strict. */
static inline bool gate_can_stop(const struct vhq *q)
{
    return gate_used(q->set) && peek(q->gate_state) != GATE_LOST;
}
/* May so many streams have more than the budget in front of their gates, with long commands? */
bool gate_sum_over(const struct vhq_set *s, uint32_t streams);
/* The same for the other streams in flight. */
bool gate_others_over(const struct vhq *q);
/* Submission right held. gate_place_due: a command is about to go, and a gate may be due.
 * gate_count: one that counts went, with gates in use. */
void gate_place_due(struct vhq *q, uint16_t flags);
void gate_count(struct vhq *q, uint16_t flags, uint32_t est_ns);
/* Submission right held: a command is about to go. A gate or marker that is due goes first. */
static inline void submit_before(struct vhq *q, uint16_t flags)
{
    if (flags & SLOT_LOOSE)
        return;
    if (unlikely(peek(q->gate_state) != GATE_NEAR))
        gate_place_due(q, flags);
    if (unlikely(q->mark_waits) && !(flags & VHQ_OVERLAPS))
        cap_mark(q);
}

/* ---- held.c: set's lock held ----------------------------------------------------------------- */

/* Parts of the device that the set takes once a command of `parts` is in that stream. */
uint32_t pad_parts(const struct vhq *with, uint32_t parts);
/* After a look: may this head of a held vHQ go beside the work of the clients that hold it? */
bool pad_fits(const struct vhq *q, const struct slot *slot, uint64_t now);
/* `ticket` heads a held vHQ. True: it was held so long that it is exempt now, with all up to the
 * next write that another process may wait for. Else *wake_ns is no later than when that is due. */
bool peer_release(struct vhq *q, uint64_t ticket, uint64_t now, uint64_t *wake_ns);

/* ---- heads.c, order.c: set's lock held ------------------------------------------------------- */

enum job_kind { JOB_SLEEP, JOB_RUN, JOB_DROP, JOB_MARK, JOB_BOOST, JOB_BOOST_WAITS, JOB_AGAIN };
struct job {
    enum job_kind kind;
    struct vhq *q;
    struct slot *slot;
    struct vhq_fence *fence;
    uint64_t wake_ns;
};
/* Takes in the vHQs that are newly not empty. */
void heads_adopt(struct vhq_set *s);
/* A vHQ has this head now; NULL: none. */
static inline void heads_note(struct vhq_set *s, const struct slot *slot)
{
    s->plain &= !slot || !(slot->flags & (VHQ_UNCOUNTED | SLOT_TURN));
}
/* The vHQ at this place has a later ticket now (heads_is), or is empty and leaves. */
void heads_is(struct vhq_set *s, uint32_t place, uint64_t ticket);
void heads_leaves(struct vhq_set *s, uint32_t place);
/* Makes it a heap again, whatever was done to it. */
void heads_order(struct vhq_set *s);
/* The vHQ is about to be destroyed. */
void heads_forget(struct vhq *q);
/* What to do next, as of this value of `kick`. Grants turns by itself. */
struct job order_next(struct vhq_set *s, uint32_t kick);
/* Is it held, by others or, with `own`, by the application itself? */
static inline bool order_held(const struct vhq *q, bool own)
{
    if (own && peek(q->own_hold) != 0)
        return true;
    const _Atomic uint32_t *hold = peek(q->hold);
    return hold && atomic_load_explicit(hold, memory_order_acquire) != 0;
}
/* Is no smaller ticket buffered? Without `turns`, turns do not count; with `legacy`, only blocking
 * streams and the legacy one do. Stops at the first one found: the heap has early ones first. */
bool order_drained(struct vhq_set *s, uint64_t below, bool turns, bool legacy);
/* The same without turns, and without what cannot go before one is granted. `of`: only this vHQ,
 * and what the legacy stream's rule may put ahead of it; NULL: all. */
bool order_drained_unblocked(struct vhq_set *s, uint64_t below, const struct vhq *of);
/* Raises the boost bound of a vHQ or a set, with any lock. True: it was lower. */
bool order_boost(_Atomic uint64_t *boost_below, uint64_t below);

/* ---- dispatcher.c ---------------------------------------------------------------------------- */

bool dispatcher_start(struct vhq_set *s);
void dispatcher_join(struct vhq_set *s); /* of a set that is closed */
void dispatcher_kick(struct vhq_set *s);
/* The producer published a command: make sure that the dispatcher sees it. */
void dispatcher_ready(struct vhq *q);
/* Removes the ring's head, which went to the driver or was dropped. `running`: who has the
 * submission right from now on. Set's lock held. */
void dispatcher_retire(struct vhq *q, enum running running);
/* A piece of the ring's head went, and another follows. No lock held. */
void dispatcher_piece_sent(struct vhq *q, struct slot *slot);
/* The ring's head went to the driver. Then its fences count as submitted, too, and are given back.
 * No lock held. */
void slot_submitted(struct vhq *q, const struct slot *slot);
void slot_release(const struct slot *slot);

/* ---- wait.c ---------------------------------------------------------------------------------- */

struct goal {
    enum vhq_drain what;
    bool for_end; /* see vhq_drain */
    struct vhq *q;
    uint64_t target; /* head_seq, ticket */
};
/* Waits unless the goal is reached. Takes and drops the set's lock. Returns 0 or -ETIMEDOUT. A
 * signal handler may leave it by a jump. */
int goal_wait(struct vhq_set *s, const struct goal *g, uint64_t deadline_ns);
/* Does a thread wait until something is submitted, where natively no thread waits for that? Set's
 * lock held. */
bool waiter_presses(const struct vhq_set *s);
/* Set's lock held. A command of q was retired. Or q is gone: its waiters end, though what the rule
 * of the legacy stream puts ahead may be buffered: one may have left by a jump and destroyed q. */
void waiter_check(struct vhq_set *s, const struct vhq *q, bool gone);
/* A call was buffered: an earlier drain may now wait for nothing but what stands behind the call.
 * seq_cst on both sides: either that drain sees the call, or it is seen here. No lock is held. */
void waiter_tell(struct vhq_set *s);

/* ---- stats.c: set's lock held ---------------------------------------------------------------- */

void stats_add(struct vhq_stats *sum, struct vhq *q);
/* A look is nearly over: did it find something in flight, or complete? */
void used_look(struct vhq_set *s, bool busy, bool completed, uint64_t now);
void times_hold_begins(struct vhq *q, uint64_t now);
/* The hold is over, or the vHQ goes. Does nothing if it is not held. */
void times_hold_ends(struct vhq *q, uint64_t now);
/* Only where trace_on(), with any lock. `change`: what the event does to the number of buffered
 * commands. `from_ns`: when it began; 0: now. A ticket of NEVER: the command was not buffered. */
void traced_queue(enum trace_kind kind, struct vhq *q, uint64_t ticket, int change,
                  uint64_t from_ns);

#endif
