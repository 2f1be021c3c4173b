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
 * One buffered command. `payload` is VHQ_PAYLOAD-aligned and lives until `run` returned (or
 * `drop`, if the vHQ was reset). `run` performs the driver call in the dispatcher thread, with no
 * vhq lock held, and returns 0 or the driver's positive error; of a command with VHQ_IN_PARTS
 * VHQ_MORE, and is called again when the next part may go.
 */
struct vhq_cmd {
    int (*run)(void *payload);
    void (*drop)(void *payload); /* may be NULL: nothing to give back when dropped by a reset */
    void *payload;
};
#define VHQ_PAYLOAD_ALIGN 16
#define VHQ_MAX_PAYLOAD   (64 * 1024)

/* The device is shared in so many parts: a multiprocessor or two each. */
enum { VHQ_PARTS = 64 };
/* Of these, that so many blocks take while they run, where `room` fit at a time. */
static inline uint32_t vhq_parts(uint64_t blocks, uint32_t room)
{
    return blocks < room ? ((uint32_t)blocks * VHQ_PARTS + room - 1) / room : VHQ_PARTS;
}

/* Beside what holds a vHQ its commands may take so many parts of the device, all of the set
 * together, if they end before `until_ns`. 0 parts: none may go. */
struct vhq_room {
    uint32_t parts;
    uint64_t until_ns;
};

struct vhq_ops {
    /* Runs once in the new dispatcher thread (make the CUDA context current, ...). May be NULL. */
    void (*thread_start)(void *user);
    /* Queue into `stream` a write of `value` to the vHQ's completion word, behind everything that
     * was submitted to it before. Returns 0 or a driver error: then what has no marker counts as
     * complete. Called from any thread, never twice at once for one vHQ; a sync that sees no
     * progress asks for the newest value once more, to learn whether the context is alive. */
    int (*mark)(void *user, struct vhq *q, void *stream, uint32_t value);
    /* As mark, and behind the write a gate: the stream goes no further while its hold word is not
     * 0. Answers VHQ_NO_GATE where it has put neither there, because that stream must not be
     * stopped now. NULL: there are no gates. */
    int (*gate)(void *user, struct vhq *q, void *stream, uint32_t value);
    /* Newest marker value known complete in `stream`: used only where a vHQ has no completion
     * word (no memops: the shim polls pooled events). May be NULL if every vHQ has a word. Called
     * from any thread, several at once, but never after vhq_destroy returned. */
    uint32_t (*poll)(void *user, struct vhq *q, void *stream);
    /* Is all complete that was submitted to `stream`? Errors are a yes. From any thread, as poll.
     * NULL: markers alone tell. */
    bool (*complete)(void *user, struct vhq *q, void *stream);
    /* Asked by the calling thread before it buffers a command; false: it submits it by itself in
     * its turn, as with VHQ_MUST_INLINE. NULL: any thread may. */
    bool (*may_buffer)(void *user);
    /* A deferred command failed in the driver with `err`. True: so will all that follows, and
     * markers that are out may never land. */
    bool (*failed)(void *user, struct vhq *q, int err);
    /* What those who hold the set's vHQs leave of the device, asked by the dispatcher before each
     * of its looks. NULL: what is held waits. */
    struct vhq_room (*room)(void *user);
};

/* Histograms of the owner's: times[bucket(ns)] counts. Called and written with a lock held. */
struct vhq_times {
    uint32_t (*bucket)(uint64_t ns);
    _Atomic uint32_t *hold; /* finished holds that found work buffered */
    _Atomic uint32_t *stop; /* from a hold until the last completion that was seen during it */
};

struct vhq_config {
    uint32_t budget_us; /* estimated GPU time in flight per set while somebody above exists */
    uint32_t depth;     /* commands in flight per vHQ */
    uint32_t queue;     /* commands a vHQ can buffer */
    /* Number of connected clients above this process. 0: nobody waits for its work, and there is no
     * cap. Commands go to the driver at once, and nothing follows them there. NULL: always the
     * strict cap. */
    const _Atomic uint32_t *above;
    /* Nonzero: somebody else may hold its vHQs. With nobody above the cap is relaxed then (16 x
     * budget, depth at least 256). NULL: nobody else does. */
    const _Atomic uint32_t *rivals;
    const struct vhq_times *times; /* NULL: none are kept */
    /* Nonzero: streams may have gates, now. While they do the cap is relaxed: however much is in
     * flight, a hold stops it at the next gate. NULL: no gates. */
    const _Atomic uint32_t *gates;
    /* A hold keeps a command with VHQ_PEER back for so long, then what is ahead of it goes and it
     * does, too. 0: as long as it lasts. */
    uint32_t peer_us;
    uint32_t unbounded;            /* bits of hold words that hold as long as they last */
    const _Atomic uint32_t *rings; /* nonzero: any command that counts may be one of VHQ_PEER.
                                      NULL: none */
    /* Nonzero: a stream of the program may stand at a wait that the program ends later, and with it
     * what others are given from then on that share its hardware queue. So no marker follows what
     * was submitted before: the driver is asked, if `complete` can. NULL: none does. */
    const _Atomic uint32_t *stands;
    /* Shifts that processes take on the device while somebody above exists: the place of this one,
     * + VHQ_SHIFT_OF * of how many; + VHQ_SHIFT_LONG * how often a shift's length is doubled;
     * + VHQ_SHIFT_BEAT, time and again, while others' work gets on. NULL: there are none. */
    const _Atomic uint32_t *shift;
    /* How many others of its level or below there are on the device. NULL: it is not known. */
    const _Atomic uint32_t *beside;
    /* Of estimated work between two markers, at least, so that they take little of the device; but
     * three quarters of the budget at most. */
    uint32_t marks_apart_ns;
    bool untried; /* estimates count as far too low until completions say otherwise */
    bool expects; /* somebody above may be about to be known: the first commands go as if he were */
};

/* Defaults of vhq_config, as documented for CUTIN_BUDGET_US, CUTIN_DEPTH and CUTIN_QUEUE. */
#define VHQ_SHIFT_OF          256u
#define VHQ_SHIFT_LONG        0x10000u
#define VHQ_SHIFT_BEAT        0x100000u
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
/* Stops the dispatcher after everything buffered was submitted (vhq_set_abandon: at once, dropping
 * it) and frees the set with all its vHQs. The caller guarantees that nobody uses them any more. */
void vhq_set_destroy(struct vhq_set *set);
void vhq_set_abandon(struct vhq_set *set);

/* Another cap, from now on; at once, and for all vHQs of the set. */
void vhq_set_configure(struct vhq_set *set, uint32_t budget_us, uint32_t depth);
/* There is no cap: nobody is above it, and it has no rivals. */
bool vhq_set_alone(const struct vhq_set *set);
/* Nothing becomes complete, and no completion word is looked at, until it is unparked as often:
 * what is the driver's may be gone. Of a set that was finished; no call is to begin meanwhile that
 * needs room. */
void vhq_set_park(struct vhq_set *set, bool park);
/* Those who hold its vHQs do not any more, but by unbounded bits, and for the cap nobody is above:
 * what it owes its rivals is the relaxed one (vhq_config.rivals). So many take turns on the device,
 * itself among them: of the time that it is busy it has that part. To be said again from time to
 * time while that is so: unbounded bits, and vHQs that come, are seen then. 0: that is over. */
void vhq_set_open(struct vhq_set *set, uint32_t of);
/* All its vHQs that others can hold are held, those that come too, whatever their words say; and no
 * more. */
void vhq_set_stand(struct vhq_set *set, bool stand);
/* Has the device worked since then for nobody else whose turn it was, as far as looks tell? */
bool vhq_set_undisturbed(const struct vhq_set *set, uint64_t since_ns);
/* From time to time: where that has ended, streams that stay quiet are closed off, too. */
void vhq_set_tighten(struct vhq_set *set);
/* What went last in each stream is to have a marker behind it: the driver cannot be asked. */
void vhq_set_mark_last(struct vhq_set *set);

struct vhq_desc {
    enum vhq_kind kind;
    uint32_t level; /* what its commands must follow in vHQs of lower levels is
                                         exempt from holds: it may be this level that holds them */
    int priority;   /* as CUDA's: lower goes first where room in the budget is scarce */
    void *stream;   /* passed back to ops */
    void *user;     /* vhq_user() */
    uint32_t id;    /* its stream in traces */
    const _Atomic uint32_t *hold;       /* held while nonzero; NULL: never held by others */
    const _Atomic uint64_t *hold_since; /* CLOCK_MONOTONIC, when `hold` was last zero no more; NULL:
                                           nobody says */
    const _Atomic uint32_t *done; /* completion word written by the GPU; NULL: ops->poll. Markers
                                         count on from its value at vhq_create */
};
int vhq_create(struct vhq_set *set, const struct vhq_desc *desc, struct vhq **out);
void *vhq_user(const struct vhq *q);
/* Its stream goes, or is somebody else's from now on: nothing is submitted through it any more, and
 * vhq_destroy is due. True: what it has in flight stays counted in the cap if that comes no sooner
 * than when vhq_left says, as of the last look at the set, that it is over. `marks`: a last marker
 * may be put into the stream by the calling thread. As vhq_destroy waits. */
bool vhq_leave(struct vhq *q, bool marks);
bool vhq_left(const struct vhq *q);
/* The vHQ must be drained. Waits only for an ops call that another thread is making for it; forgets
 * what is in flight. Not from within one of the vHQ's own commands. */
void vhq_destroy(struct vhq *q);

/* ---- commands ---------------------------------------------------------------------------- */

/* How long a command takes, as learned by whoever times commands like it. 0: not known. */
struct vhq_learned {
    _Atomic uint32_t mean_ns, upper_ns; /* it will hardly exceed the upper one */
};
static inline uint64_t vhq_learned_ns(const struct vhq_learned *l)
{
    return atomic_load_explicit(&l->upper_ns, memory_order_relaxed);
}

enum {
    VHQ_UNCOUNTED = 1u << 0,   /* waits, host functions, records: do not consume the cap */
    VHQ_MUST_INLINE = 1u << 1, /* cannot be copied: vhq_begin waits until the caller may submit */
    VHQ_MUST_BUFFER =
        1u << 2,         /* not to run in the calling thread (deferred destroys): VHQ_BUFFER, up
                                  to 256 bytes always. Where there is no other thread (within a
                                  command's run, in a forked child, no memory) vhq_end runs it */
    VHQ_CLOSE = 1u << 3, /* overlaps with the one before it: no gate between the two, and no marker
                            where that can wait */
    VHQ_AFTER_ALL = 1u << 4, /* not before anything that was begun before it in the set: it may stop
                                a queue of the device that streams share */
    VHQ_BESIDE = 1u << 5, /* it may go while its vHQ is held, where ops->room has room for it: its
                             estimate and its part of the device are known, or it needs neither */
    VHQ_LEARNS = 1u << 6, /* Its payload begins with the address of a struct vhq_learned, which is
                             asked once more before it is submitted: more may be known by then */
    /* It goes to the driver in parts, each of which is asked for holds and takes room by itself,
     * but keeps its one place in the order. The estimate is one part's. It does not go at once. */
    VHQ_IN_PARTS = 1u << 18,
    VHQ_PEER = 1u << 7,   /* somebody outside the process may wait for it: see vhq_config.peer_us */
    VHQ_WAITS = 1u << 13, /* it waits for something: how long it takes says nothing of others */
    VHQ_ALONE = 1u << 19, /* vhq_lock: only while there is no cap (vhq_set_alone) */
    VHQ_GATED = 1u << 15, /* it has gates of its own, as close to each other as its stream's */
};

struct vhq_req {
    uint32_t bytes;          /* payload size; at most VHQ_MAX_PAYLOAD unless MUST_INLINE */
    uint32_t flags;          /* VHQ_* */
    uint64_t est_ns;         /* estimated GPU time; ignored with VHQ_UNCOUNTED */
    uint32_t parts;          /* of the device that it takes meanwhile, of VHQ_PARTS; 0: all of it */
    struct vhq_fence *after; /* event wait: submitted only after this fence was */
    struct vhq_fence *displaces; /* event re-record or destroy: submitted only after this fence
                                      was, and after every wait that was begun with it */
    struct vhq_fence *signals;   /* event record: this fence counts as submitted with the command */
    bool boost;                  /* a caller of a higher level waits: where it has to submit by
                                      itself, what is ahead is exempt from holds until then */
    const void
        *frame; /* of a function that returns behind vhq_end: a command of the same thread that
                          begins no deeper in its stack, or one below that ends, finds this one left
                          by a jump. NULL: none */
};

/*
 * Begin a command. Returns
 *   VHQ_INLINE  the caller makes the driver call now, then vhq_end(q, frame, result);
 *   VHQ_BUFFER  *cmd is to be filled (run, drop, payload contents), then vhq_end(q, frame, 0).
 * The vHQ's producer lock is held in between, so two threads on one stream keep their order; but
 * not with VHQ_MUST_INLINE, as the driver may let the caller wait for what another thread does
 * next. What that begins meanwhile comes behind, and goes when vhq_end is called, or after
 * 100 ms. May wait: for room in the ring, with VHQ_MUST_INLINE for holds and the cap, and up to
 * 10 ms for another thread that is about to begin the record of `after` or `displaces`. Never
 * allocates, but for the ring and the dispatcher when something is buffered for the first time.
 * vhq_end with a nonzero result after VHQ_BUFFER gives the command up: neither run nor drop is
 * called.
 */
enum { VHQ_INLINE = 0, VHQ_BUFFER = 1 };
int vhq_begin(struct vhq *q, const struct vhq_req *req, struct vhq_cmd **cmd);
void vhq_end(struct vhq *q, const void *frame, int driver_result);
/* Between the two, of a command with VHQ_IN_PARTS that the caller submits by itself: a part went to
 * the driver, and another follows. Waits until that may go. */
void vhq_part(struct vhq *q);
/* The same for a command without fences that nothing is in the way of: true, and the producer lock
 * is held; the caller makes the driver call now, and gives it back. False: it is not, and vhq_begin
 * is to be asked. `flags`: VHQ_UNCOUNTED, or VHQ_ALONE and VHQ_GATED. Of one that counts, `room`:
 * so many of its blocks fit the device at a time. Not by the dispatcher, nor in a forked child. */
bool vhq_lock(struct vhq *q, uint32_t flags, uint64_t est_ns, uint64_t blocks, uint32_t room);
void vhq_unlock(struct vhq *q, int driver_result);

/* How many producer locks the calling thread holds, and VHQ_DISPATCHER. */
enum { VHQ_DISPATCHER = 1u << 16 };
extern _Thread_local uint32_t vhq_t_inside __attribute__((tls_model("initial-exec")));
/* True inside a command's `run`: the calling thread is this process's dispatcher. */
static inline bool vhq_in_dispatcher(void)
{
    return (vhq_t_inside & VHQ_DISPATCHER) != 0;
}
/* That, or a driver call is under way for which the thread has a vHQ to itself. What it calls
 * meanwhile is called from within the driver, which tells a profiler of its calls: nothing of vhq
 * may be asked for it. */
static inline bool vhq_inside(void)
{
    return vhq_t_inside != 0;
}

/* ---- fences: what an event's latest record is, seen from the host ------------------------- */

/*
 * A fence stands for one record of one event. Pooled and reference counted, no allocation in the
 * steady state. vhq_begin takes its own references for as long as the command is buffered.
 */
struct vhq_fence *vhq_fence_new(void); /* not submitted yet, one reference; NULL = no memory */
/* NULL is allowed in both. */
struct vhq_fence *vhq_fence_get(struct vhq_fence *f);
void vhq_fence_put(struct vhq_fence *f);
/* And so were all waits for it that have begun. */
bool vhq_fence_over(const struct vhq_fence *f);
bool vhq_fence_submitted(const struct vhq_fence *f);
/* The record will never be begun (its call was refused before vhq_begin): counts as submitted. */
void vhq_fence_cancel(struct vhq_fence *f);
/* Wait until the record was submitted. `boost`: exempt what is ahead of it from holds (here and
 * elsewhere: the application's own included), and what that depends on in other vHQs. */
void vhq_fence_drain(struct vhq_fence *f, bool boost);

/* ---- drain, sync, hold, reset -------------------------------------------------------------- */

bool vhq_idle(struct vhq *q);           /* nothing buffered in this vHQ */
bool vhq_set_idle(struct vhq_set *set); /* nothing buffered in the context: one atomic load */
/* What the device may have when a command goes into a stream. */
struct vhq_company {
    bool own;              /* something of that stream */
    uint32_t others;       /* of so many other ones of the set */
    uint64_t others_ns;    /* what the one of them has that has most, by the estimates */
    uint64_t shift_end_ns; /* nothing of other processes until then: see shift.c. 0: there may be */
};
/* As far as somebody has looked; where it is many streams, only that. `own`: the stream's vHQ, or
 * NULL: it is found by its handle. Takes a lock. */
void vhq_set_company(struct vhq_set *set, const void *stream, const struct vhq *own,
                     struct vhq_company *out);
/* Nothing buffered in its VHQ_BLOCKING ones: a look at each, under the set's lock. */
bool vhq_set_blocking_idle(struct vhq_set *set);
bool vhq_set_in_flight(const struct vhq_set *set); /* something may be in flight: one atomic load */
/* Wait until everything buffered when called was submitted. */
void vhq_drain(struct vhq *q, bool boost);
/* The same, of a caller who waits for the end of it then, as it does natively: so nothing needs to
 * go sooner for its sake. */
void vhq_drain_for_end(struct vhq *q, bool boost);
enum vhq_drain {
    VHQ_DRAIN_QUEUE, /* of one vHQ: vhq_drain's own */
    VHQ_DRAIN_ALL,
    /* But for calls that have not returned: other threads that wait for their turn
     * (VHQ_MUST_INLINE), or are inside the driver, maybe until the caller goes on. */
    VHQ_DRAIN_RETURNED,
    VHQ_DRAIN_LEGACY, /* of these, what blocking streams and the legacy one have */
    /* As RETURNED, but for what cannot be submitted before such calls have their turn: in front of
     * a driver call that natively waits for nothing, and for the end of whose use the application
     * has waited itself. */
    VHQ_DRAIN_UNBLOCKED,
};
void vhq_set_drain(struct vhq_set *set, enum vhq_drain what, bool boost);
/* UNBLOCKED of one vHQ, with the blocking ones where the legacy stream's rule is about it. */
void vhq_drain_unblocked(struct vhq *q, bool boost);
/* ALL, and no later than `timeout_ms`: returns 0 or -ETIMEDOUT. Used at process exit. */
int vhq_set_drain_timeout(struct vhq_set *set, uint32_t timeout_ms);
/* Drain, then wait until everything submitted through the vHQ is known complete. Never calls the
 * driver except ops->mark, ops->poll and ops->complete. Returns early when the vHQ has failed, and
 * with ops->complete, if it is blocking or legacy, after 100 ms; and while the set is alone, where
 * it is left to the caller to ask the driver. */
void vhq_sync(struct vhq *q, bool boost);
void vhq_set_sync(struct vhq_set *set, bool boost);
/* The same before the completion words go, however long it takes. */
void vhq_set_finish(struct vhq_set *set);
/* What went to the driver while the set was alone is not known complete; that, or what went last
 * beside others, and no marker will tell; anything at all. The driver may be asked: what vhq_sent
 * said before it was asked is complete if it says so. */
bool vhq_loose(const struct vhq *q);
bool vhq_untold(const struct vhq *q);
bool vhq_in_flight(const struct vhq *q);
uint64_t vhq_sent(const struct vhq *q);
void vhq_settle(struct vhq *q, uint64_t sent);
/* NOT_READY logic of stream queries: true while something is buffered, or inline work that
 * waits. */
bool vhq_busy(struct vhq *q);
/* Somebody is between vhq_begin and vhq_end, or vhq_lock and vhq_unlock: what he submits may run
 * already. Any thread. */
bool vhq_calling(const struct vhq *q);

/* What a hold that began now would wait for, by the estimates: `ns` for what is in flight and does
 * not stand at a gate, and all of it again for what should have been complete. Not for the launch
 * path (takes a lock). */
struct vhq_residue {
    bool running; /* something that counts is not known complete */
    uint64_t ns;
    uint32_t markers; /* that were reached, of all that there are; counts on, and wraps */
};
void vhq_set_residue(struct vhq_set *set, struct vhq_residue *out);

/* The application's own hold of one vHQ, beside the scheduler's hold word. */
void vhq_hold(struct vhq *q);
void vhq_release(struct vhq *q);
bool vhq_held(const struct vhq *q); /* by vhq_hold */
/* Drop what is buffered and not submitted; fences of dropped records count as submitted. Returns
 * the number of commands dropped. Waits for nobody; the memory is reclaimed by the dispatcher. */
uint32_t vhq_reset(struct vhq *q);

/* ---- figures ------------------------------------------------------------------------------- */

struct vhq_stats {
    uint64_t inlined, buffered, submitted, completed, dropped;
    uint64_t markers, gates; /* gates have a marker each, which counts */
    uint64_t holds;          /* that found work buffered, and are over */
    uint64_t at_ns;          /* when they were read; of sets */
    uint64_t held_ns;        /* in which buffered work was held; of sets */
    uint64_t cap_lifts;      /* progress guard */
    uint64_t peer_releases;  /* times that held commands went by vhq_config.peer_us; of sets */
    uint64_t padded;         /* went beside what held them, by ops->room; of sets */
    uint64_t gpu_ns;         /* that the device has worked for it, at most: see used.c; of sets */
    uint64_t sure_ns;        /* of these, what was not somebody else's turn */
    uint32_t buffered_now, in_flight_now;
    uint64_t in_flight_ns; /* of the device, by the estimates; of sets */
    uint32_t long_ns; /* the longest of the commands that go one at a time; 0: there are none */
};
void vhq_set_stats(struct vhq_set *set, struct vhq_stats *out);
/* What commands take all together, in 256ths of their estimates: on average as far as is known, and
 * what that hardly goes below and beyond. For gpu_ns, and the relaxed cap. */
struct vhq_weights {
    uint32_t least, mean, most;
};
void vhq_set_weigh(struct vhq_set *set, struct vhq_weights w);
void vhq_get_stats(struct vhq *q, struct vhq_stats *out);
/* vhq_stats.padded: one atomic load. */
uint64_t vhq_set_padded(const struct vhq_set *set);

/* In a forked child, where the dispatcher thread is gone: from now on nothing is queued, locked or
 * freed. */
void vhq_after_fork(void);

#endif
