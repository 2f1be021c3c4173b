/*
 * vhq.h - virtual host queues: best-effort commands wait here, not in the driver.
 *
 * A `vhq_set` belongs to one CUDA context: one ticket counter, one in-flight budget, one
 * dispatcher thread. A `vhq` belongs to one stream of it: a ring of commands in call order.
 * Nothing here knows CUDA: the owner supplies `struct vhq_ops`.
 *
 * A buffered command may be submitted when
 *   1. it heads its vHQ;
 *   2. its vHQ is not held and the in-flight cap has room;
 *   3. what it must follow has been submitted: its fences (events) and the legacy-stream rule
 *      (a legacy command follows every smaller ticket of the blocking streams, and they follow it).
 * Among those the smallest ticket goes first.
 *
 * Thread safety: every function may be called from any thread unless it says otherwise.
 * Errors: 0 or -errno for cutin's own failures; driver results travel as positive integers.
 */
#ifndef CUTIN_VHQ_VHQ_H
#define CUTIN_VHQ_VHQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vhq_set;
struct vhq;
struct vhq_fence;

/* How a stream is ordered against the legacy default stream of its context. */
enum vhq_kind {
    VHQ_NONBLOCKING, /* no implicit order */
    VHQ_BLOCKING,    /* ordered against the legacy stream */
    VHQ_LEGACY,      /* the legacy stream itself */
};

/*
 * One buffered command. `payload` is aligned to VHQ_PAYLOAD_ALIGN and lives until `run` (or `drop`,
 * if the vHQ was reset) has returned. `run` makes the driver call in the dispatcher thread, with no
 * lock of vhq held. It returns 0 or the driver's positive error. `run` of a command with
 * VHQ_IN_PIECES may return VHQ_MORE, and is called again when the next piece may go.
 */
struct vhq_cmd {
    int (*run)(void *payload);
    void (*drop)(void *payload); /* may be NULL: nothing to give back after a reset */
    void *payload;
};
#define VHQ_PAYLOAD_ALIGN 16
#define VHQ_MAX_PAYLOAD   (64 * 1024)

/* The device has so many parts: a multiprocessor or two each. */
enum { VHQ_PARTS = 64 };
/* Of these, how many `blocks` take while they run, where `room` of them fit at a time. */
static inline uint32_t vhq_parts(uint64_t blocks, uint32_t room)
{
    return blocks < room ? ((uint32_t)blocks * VHQ_PARTS + room - 1) / room : VHQ_PARTS;
}

/* What the holders of a vHQ leave: the set's commands may together take so many parts of the
 * device, if they end before `until_ns`. 0 parts: none may go. */
struct vhq_pad_room {
    uint32_t parts;
    uint64_t until_ns;
};

struct vhq_ops {
    /* Runs once in the new dispatcher thread (make the CUDA context current, ...). May be NULL. */
    void (*thread_start)(void *user);
    /* Queues into `stream` a write of `value` to the vHQ's completion word, behind everything that
     * was submitted to it before. Returns 0 or a driver error; after an error what has no marker
     * counts as complete. Called from any thread, never twice at once for one vHQ. A sync that sees
     * no progress asks for the newest value once more, to learn whether the context is alive. */
    int (*mark)(void *user, struct vhq *q, void *stream, uint32_t value);
    /* As mark, with a gate behind the write: the stream goes no further while its hold word is not
     * 0. Returns VHQ_NO_GATE where it has put neither there, because the stream must not be stopped
     * now. NULL: there are no gates. */
    int (*gate)(void *user, struct vhq *q, void *stream, uint32_t value);
    /* The newest marker value known complete in `stream`. Used only where a vHQ has no completion
     * word (no memops: the shim polls pooled events). May be NULL if every vHQ has a word. Called
     * from any thread, several at once, but never after vhq_destroy returned. */
    uint32_t (*poll)(void *user, struct vhq *q, void *stream);
    /* Is everything complete that was submitted to `stream`? An error counts as yes. Called from
     * any thread, as poll. NULL: only markers tell. */
    bool (*complete)(void *user, struct vhq *q, void *stream);
    /* The calling thread asks before it buffers a command. False: it submits the command itself in
     * its turn, as with VHQ_MUST_INLINE. NULL: any thread may buffer. */
    bool (*may_buffer)(void *user);
    /* A deferred command failed in the driver with `err`. True: all that follows will fail, too,
     * and markers that are out may never be written. */
    bool (*failed)(void *user, struct vhq *q, int err);
    /* What the clients that hold the set's vHQs leave of the device. The dispatcher asks before
     * each of its looks. NULL: what is held waits. */
    struct vhq_pad_room (*room)(void *user);
};

/* The owner's histograms: times[bucket(ns)] is a count. Called and written with a lock held. */
struct vhq_times {
    uint32_t (*bucket)(uint64_t ns);
    _Atomic uint32_t *hold; /* finished holds that found work buffered */
    _Atomic uint32_t *stop; /* from a hold until the last completion that was seen during it */
};

struct vhq_config {
    uint32_t budget_us; /* estimated GPU time in flight per set while a client above exists */
    uint32_t depth;     /* commands in flight per vHQ */
    uint32_t queue;     /* commands a vHQ can buffer */
    /* Number of connected clients above this process. 0: there is no cap. Commands go to the driver
     * at once, and no marker follows them. NULL: always the strict cap. */
    const _Atomic uint32_t *above;
    /* Nonzero: another process may hold its vHQs. With no client above the cap is relaxed then: 8
     * budgets by what commands take on average, depth at least 256. NULL: no other process does. */
    const _Atomic uint32_t *rivals;
    const struct vhq_times *times; /* NULL: none are kept */
    /* Nonzero: streams may have gates now. While they have, the cap is relaxed: however much is in
     * flight, a hold stops it at the next gate. NULL: no gates. */
    const _Atomic uint32_t *gates;
    /* A hold keeps a command with VHQ_PEER back for so long. Then what is ahead of it goes, and so
     * does it. 0: for as long as the hold lasts. */
    uint32_t peer_us;
    uint32_t unbounded;            /* bits of hold words whose holds have no bound */
    const _Atomic uint32_t *rings; /* nonzero: any command that counts may have VHQ_PEER. Or NULL */
    /* Nonzero: a stream of the program may stand at a wait that the program ends later, and so may
     * what streams of the same hardware queue are given from then on. So no marker follows what was
     * submitted before: the driver is asked, if `complete` can. NULL: none does. */
    const _Atomic uint32_t *external_waits;
    /* Shifts that processes take on the device while a client above exists: the place of this one,
     * + VHQ_SHIFT_OF * their number; + VHQ_SHIFT_DOUBLED * how often a shift's length is doubled;
     * + VHQ_SHIFT_PROGRESS, again and again, while others' work gets on; + VHQ_SHIFT_SLICED while
     * one of those has the device by its time slices. NULL: there are none. */
    const _Atomic uint32_t *shift;
    /* How many other processes of its level or below are on the device. NULL: not known. */
    const _Atomic uint32_t *beside;
    /* The least estimated work between two markers, so that they take little of the device; but
     * three quarters of the budget at most. */
    uint32_t marks_apart_ns;
    bool untried; /* estimates count as far too low until completions say otherwise */
    bool expects; /* a client above may soon be known: the first commands go as if it were there */
};

/* Parts of vhq_config.shift; and defaults (CUTIN_BUDGET_US, CUTIN_DEPTH and CUTIN_QUEUE). */
#define VHQ_SHIFT_OF          256u
#define VHQ_SHIFT_DOUBLED     0x10000u
#define VHQ_SHIFT_PROGRESS    0x100000u
#define VHQ_SHIFT_SLICED      0x80000000u
#define VHQ_DEFAULT_BUDGET_US 200
#define VHQ_DEFAULT_DEPTH     256
#define VHQ_DEFAULT_QUEUE     4096
#define VHQ_UNKNOWN_NS        20000 /* estimate of a command nothing is known about */
#define VHQ_NO_GATE           (-1)  /* see vhq_ops.gate */
#define VHQ_MORE              (-2)  /* see vhq_cmd.run */
#define VHQ_GATE_PART         2     /* of the budget, as estimated work between two gates ... */
#define VHQ_GATE_LEAST_NS     5000  /* ... and never less */

int vhq_set_create(const struct vhq_config *cfg, const struct vhq_ops *ops, void *user,
                   struct vhq_set **out);
/* Stops the dispatcher after everything buffered was submitted (with `drop`: at once, dropping it)
 * and frees the set with its vHQs. The caller guarantees that no thread uses them any more. */
void vhq_set_destroy(struct vhq_set *set, bool drop);

/* Sets another cap, at once and for all vHQs of the set. */
void vhq_set_configure(struct vhq_set *set, uint32_t budget_us, uint32_t depth);
/* There is no cap: no client is above, and there are no rivals. */
bool vhq_set_alone(const struct vhq_set *set);
/* While parked nothing becomes complete and no completion word is read, because the driver's memory
 * may be gone. Unpark as often as you park. Only for a set that was finished; no call that needs
 * room may begin meanwhile. */
void vhq_set_park(struct vhq_set *set, bool park);
/* From now on only unbounded bits hold its vHQs, and for the cap no client is above: the relaxed
 * cap bounds it (vhq_config.rivals). `of` processes take turns on the device, this one among them:
 * of the time that it is busy, one part in `of` counts. Repeat the call from time to time:
 * unbounded bits and new vHQs are seen then. 0: that is over. */
void vhq_set_pay_share(struct vhq_set *set, uint32_t of);
/* True: all its vHQs that others can hold are held, new ones too, whatever their words say. */
void vhq_set_hold_all(struct vhq_set *set, bool hold);
/* Has no other process had its turn on the device since then, as far as looks tell? */
bool vhq_set_undisturbed(const struct vhq_set *set, uint64_t since_ns);
/* Call it from time to time: closes quiet streams off, too, once the set is no longer alone. */
void vhq_set_tick(struct vhq_set *set);
/* Puts a marker behind what went last in each stream: the driver cannot be asked. */
void vhq_set_mark_last(struct vhq_set *set);

struct vhq_desc {
    enum vhq_kind kind;
    uint32_t level; /* what its commands must follow in vHQs of lower levels is exempt from holds:
                     * it may be this level that holds them */
    int priority;   /* as CUDA's: lower goes first where room in the budget is scarce */
    void *stream;   /* passed back to ops */
    void *user;     /* vhq_user() */
    uint32_t id;    /* its stream in traces */
    const _Atomic uint32_t *hold;       /* held while nonzero; NULL: never held by others */
    const _Atomic uint64_t *hold_since; /* when that began last (CLOCK_MONOTONIC); NULL: unknown */
    const _Atomic uint32_t *done; /* completion word written by the GPU; NULL: ops->poll. Markers
                                   * count on from its value at vhq_create */
};
int vhq_create(struct vhq_set *set, const struct vhq_desc *desc, struct vhq **out);
void *vhq_user(const struct vhq *q);
/* The stream goes, or has another owner from now on: nothing is submitted through the vHQ any more,
 * and vhq_destroy is due. True: something is in flight. It stays counted in the cap until
 * vhq_destroy, which is to wait until vhq_in_flight is false, as of the last look at the set.
 * `marks`: the calling thread may put a last marker into the stream. Waits as vhq_destroy does. */
bool vhq_leave(struct vhq *q, bool marks);
/* The vHQ must be drained. Waits only for a call of ops that another thread makes for it. Forgets
 * what is in flight. Not to be called within one of the vHQ's own commands. */
void vhq_destroy(struct vhq *q);

/* ---- commands ---------------------------------------------------------------------------- */

/* How long a command takes, as learned from commands like it. 0: not known. */
struct vhq_learned {
    _Atomic uint32_t mean_ns, upper_ns; /* it will hardly exceed the upper one */
};

enum {
    VHQ_UNCOUNTED = 1u << 0,   /* waits, host functions, records: do not consume the cap */
    VHQ_MUST_INLINE = 1u << 1, /* cannot be copied: vhq_begin waits until the caller may submit */
    /* Not to run in the calling thread (deferred destroys): always VHQ_BUFFER for up to 256 bytes.
     * Without another thread (in a command's run, a forked child, no memory) vhq_end runs it. */
    VHQ_MUST_BUFFER = 1u << 2,
    /* Overlaps with the one before it: no gate between the two, and no marker if that can wait. */
    VHQ_OVERLAPS = 1u << 3,
    VHQ_AFTER_ALL = 1u << 4, /* goes after all that was begun before it in the set: it may stop a
                              * hardware queue that streams share */
    VHQ_MAY_PAD = 1u << 5,   /* may go while its vHQ is held, where ops->room has room: its estimate
                              * and its part of the device are known, or it needs neither */
    VHQ_LEARNS = 1u << 6, /* its payload begins with the address of a struct vhq_learned, which is
                           * read again before it is submitted: more may be known by then */
    /* It goes to the driver in pieces. Each waits for holds and takes room by itself, but all have
     * one place in the order. est_ns is that of one piece. It never goes past the ring. */
    VHQ_IN_PIECES = 1u << 18,
    VHQ_PEER = 1u << 7,   /* another process may wait for it: see vhq_config.peer_us */
    VHQ_WAITS = 1u << 13, /* it waits for something: its time says nothing of other commands */
    VHQ_ALONE = 1u << 19, /* vhq_begin_fast: only while there is no cap (vhq_set_alone) */
    VHQ_GATED = 1u << 15, /* it has gates of its own, as close to each other as its stream's */
};

struct vhq_req {
    uint32_t bytes;              /* payload size; at most VHQ_MAX_PAYLOAD unless MUST_INLINE */
    uint32_t flags;              /* VHQ_* */
    uint64_t est_ns;             /* estimated GPU time; ignored with VHQ_UNCOUNTED */
    uint32_t parts;              /* of VHQ_PARTS that it takes meanwhile; 0: the whole device */
    struct vhq_fence *after;     /* event wait: submitted only after this fence was */
    struct vhq_fence *displaces; /* event re-record or destroy: submitted only after this fence, and
                                  * after every wait that was begun with it */
    struct vhq_fence *signals;   /* event record: this fence counts as submitted with the command */
    bool boost;                  /* a caller of a higher level waits: if it has to submit by itself,
                                  * what is ahead is exempt from holds until then */
    /* Of a function that returns after vhq_end. A command of the thread that begins no deeper in
     * the stack, or the end of one below, shows that this one was left by a jump. NULL: none. */
    const void *frame;
};

/*
 * Begins a command. Returns
 *   VHQ_INLINE  the caller makes the driver call now, then calls vhq_end(q, frame, result);
 *   VHQ_BUFFER  the caller fills *cmd (run, drop, payload), then calls vhq_end(q, frame, 0).
 * The vHQ's producer lock is held in between, so two threads on one stream keep their order. With
 * VHQ_MUST_INLINE it is not, as the driver may let the caller wait for what another thread does
 * next. What that thread begins meanwhile comes behind, and goes when vhq_end is called, or after
 * 100 ms. May wait for room in the ring, with VHQ_MUST_INLINE also for holds and the cap, and up to
 * 10 ms for another thread that is about to begin the record of `after` or `displaces`. Allocates
 * only the ring and the dispatcher, when something is buffered for the first time. vhq_end with a
 * nonzero result after VHQ_BUFFER gives the command up: neither run nor drop is called.
 */
enum { VHQ_INLINE = 0, VHQ_BUFFER = 1 };
int vhq_begin(struct vhq *q, const struct vhq_req *req, struct vhq_cmd **cmd);
void vhq_end(struct vhq *q, const void *frame, int driver_result);
/* Call it between the two, if the caller submits a command with VHQ_IN_PIECES itself: a piece went
 * to the driver, and another follows. Waits until that may go. */
void vhq_await_piece(struct vhq *q);
/* vhq_begin for a command without fences. True: nothing is in the way, and the producer lock is
 * held; the caller makes the driver call now, then calls vhq_end_fast. False: the lock is not held;
 * call vhq_begin. `flags`: VHQ_UNCOUNTED, or VHQ_ALONE and VHQ_GATED. `room`, unless uncounted: how
 * many of its blocks fit the device at a time. Not for the dispatcher, nor in a forked child. */
bool vhq_begin_fast(struct vhq *q, uint32_t flags, uint64_t est_ns, uint64_t blocks, uint32_t room);
void vhq_end_fast(struct vhq *q, int driver_result);

/* How many producer locks the calling thread holds, and VHQ_DISPATCHER. Not 0 in the dispatcher,
 * and in a driver call for which the thread has a vHQ to itself. What it calls then comes from
 * within the driver, which tells a profiler of its calls: that must not ask vhq anything. */
enum { VHQ_DISPATCHER = 1u << 16 };
extern _Thread_local uint32_t vhq_t_inside __attribute__((tls_model("initial-exec")));
/* True inside a command's `run`: the calling thread is this process's dispatcher. */
static inline bool vhq_in_dispatcher(void)
{
    return (vhq_t_inside & VHQ_DISPATCHER) != 0;
}

/* ---- fences: what an event's latest record is, seen from the host ------------------------- */

/*
 * A fence stands for one record of one event. Fences are pooled and reference counted: the steady
 * state allocates nothing. vhq_begin takes its own references while the command is buffered.
 */
struct vhq_fence *vhq_fence_new(void); /* not submitted yet, one reference; NULL = no memory */
/* NULL is allowed in both. */
struct vhq_fence *vhq_fence_get(struct vhq_fence *f);
void vhq_fence_put(struct vhq_fence *f);
/* The record was submitted, and so was every wait for it that has begun. */
bool vhq_fence_over(const struct vhq_fence *f);
bool vhq_fence_submitted(const struct vhq_fence *f);
/* The record will never begin (its call was refused before vhq_begin): it counts as submitted. */
void vhq_fence_cancel(struct vhq_fence *f);
/* Waits until the record was submitted. `boost`: what is ahead of it is exempt from holds (here and
 * elsewhere, the application's own included), and so is what that depends on in other vHQs. */
void vhq_fence_drain(struct vhq_fence *f, bool boost);

/* ---- drain, sync, hold, reset -------------------------------------------------------------- */

bool vhq_empty(struct vhq *q);           /* nothing buffered in this vHQ */
bool vhq_set_empty(struct vhq_set *set); /* nothing buffered in the context: one atomic load */
/* What the device may have to do when a command goes into a stream. */
struct vhq_device_work {
    bool own;              /* work of that stream */
    uint32_t others;       /* how many other streams of the set have work there */
    uint64_t others_ns;    /* the most that one of them has, by the estimates */
    uint64_t shift_end_ns; /* no work of other processes until then (shift.c); 0: maybe */
};
/* As of the last look. Of many streams only others and shift_end_ns are told. `own`: the stream's
 * vHQ; NULL: it is found by its handle. Takes a lock. */
void vhq_set_device_work(struct vhq_set *set, const void *stream, const struct vhq *own,
                         struct vhq_device_work *out);
/* Is nothing buffered in its VHQ_BLOCKING ones? Looks at each, under the set's lock. */
bool vhq_set_blocking_empty(struct vhq_set *set);
bool vhq_set_in_flight(const struct vhq_set *set); /* something may be in flight: one atomic load */
/* Waits until everything buffered at the time of the call was submitted. `for_end`: the caller then
 * waits for the end of that work, and nothing goes sooner for it. */
void vhq_drain(struct vhq *q, bool boost, bool for_end);
enum vhq_drain {
    VHQ_DRAIN_QUEUE, /* of one vHQ: vhq_drain's own */
    VHQ_DRAIN_ALL,
    /* All but calls that have not returned: other threads wait for their turn (VHQ_MUST_INLINE), or
     * are inside the driver, maybe until the caller goes on. */
    VHQ_DRAIN_RETURNED,
    VHQ_DRAIN_LEGACY, /* of those, what blocking streams and the legacy one have */
    /* As RETURNED, but without what cannot be submitted before such calls have their turn. For
     * calls that natively wait for nothing, about an object whose use the program has seen end. */
    VHQ_DRAIN_UNBLOCKED,
};
void vhq_set_drain(struct vhq_set *set, enum vhq_drain what, bool boost);
/* UNBLOCKED for one vHQ, and for blocking ones where the legacy stream's rule concerns it. */
void vhq_drain_unblocked(struct vhq *q, bool boost);
/* ALL, but for `timeout_ms` at most. Returns 0 or -ETIMEDOUT. Used at process exit. */
int vhq_set_drain_timeout(struct vhq_set *set, uint32_t timeout_ms);
/* Drains, then waits until everything submitted through the vHQ is known complete. Never calls the
 * driver except by ops->mark, ops->poll and ops->complete. Returns early when the vHQ has failed;
 * with ops->complete, if it is blocking or legacy, after 100 ms; and while the set is alone, when
 * the caller has to ask the driver. */
void vhq_sync(struct vhq *q, bool boost);
void vhq_set_sync(struct vhq_set *set, bool boost);
/* The same, however long it takes, before the completion words are freed. */
void vhq_set_finish(struct vhq_set *set);
/* Not known complete is: what went while the set was alone; that, or what went last and has no
 * marker that will tell; anything at all. The caller may ask the driver: if it says so, all is
 * complete that vhq_sent counted before the question (vhq_note_complete). */
bool vhq_loose(const struct vhq *q);
bool vhq_needs_query(const struct vhq *q);
bool vhq_in_flight(const struct vhq *q);
uint64_t vhq_sent(const struct vhq *q);
void vhq_note_complete(struct vhq *q, uint64_t sent);
/* For stream queries (NOT_READY): something is buffered, or an inline call waits. */
bool vhq_pending(struct vhq *q);
/* A thread is between vhq_begin and vhq_end, or vhq_begin_fast and vhq_end_fast: what it submits
 * may run already. Any thread. */
bool vhq_calling(const struct vhq *q);

/* What a hold that began now would wait for, by the estimates. `ns` is for what is in flight and
 * does not stand at a gate; what should have been complete counts in full again. Takes a lock. */
struct vhq_residue {
    bool running; /* something that counts is not known complete */
    uint64_t ns;
    uint32_t markers; /* markers reached in all vHQs; counts on, and wraps */
};
void vhq_set_residue(struct vhq_set *set, struct vhq_residue *out);

/* The application's own hold of one vHQ, beside the scheduler's hold word. */
void vhq_hold(struct vhq *q);
void vhq_release(struct vhq *q);
bool vhq_held(const struct vhq *q); /* by vhq_hold */
/* Drops what is buffered and not submitted; fences of dropped records count as submitted. Returns
 * the number of commands dropped. Does not wait: the dispatcher reclaims the memory. */
uint32_t vhq_reset(struct vhq *q);

/* ---- figures ------------------------------------------------------------------------------- */

struct vhq_stats {
    uint64_t inlined, buffered, submitted, completed, dropped;
    uint64_t markers, gates; /* gates have a marker each, which counts */
    uint64_t holds;          /* holds that found work buffered, and are over */
    uint64_t at_ns;          /* when they were read; of sets */
    uint64_t total_held_ns;  /* in which buffered work was held; of sets */
    uint64_t guard_lifts;    /* times that the progress guard let commands in */
    uint64_t peer_releases;  /* times that held commands went by vhq_config.peer_us; of sets */
    uint64_t padded;         /* went beside what held them, by ops->room; of sets */
    uint64_t gpu_ns;         /* for which the device worked for it, at most: see stats.c; of sets */
    uint64_t sure_ns;        /* of these, what the estimates vouch for */
    uint32_t buffered_now, in_flight_now;
    uint64_t in_flight_ns; /* of the device, by the estimates; of sets */
    uint32_t long_ns;      /* the longest of the commands that go one at a time; 0: none do */
};
void vhq_set_stats(struct vhq_set *set, struct vhq_stats *out);
/* How long commands take together, in 256ths of their estimates: the mean as far as it is known,
 * and what it hardly goes below and beyond. For gpu_ns, and the relaxed cap. */
struct vhq_weights {
    uint32_t least, mean, most;
};
void vhq_set_weigh(struct vhq_set *set, struct vhq_weights w);
void vhq_get_stats(struct vhq *q, struct vhq_stats *out);
/* vhq_stats.padded: one atomic load. */
uint64_t vhq_set_padded(const struct vhq_set *set);

/* Call it in a forked child, which has no dispatcher: now nothing is queued, locked or freed. */
void vhq_after_fork(void);

#endif
