/*
 * page.h - the shared page: everything between a process and the scheduler.
 *
 * Every client has one page. Without a daemon it is private memory. With one it is a sealed memfd,
 * which the daemon maps too, and which clients of higher levels map to hold this client. The page's
 * address in the client never changes.
 *
 * Holding. While `hold[L]` of a device is not 0, it holds the streams of level L there. Each holder
 * has one bit:
 *   bits 0..27  another client of a higher level; the daemon assigns the bit, per device
 *   bit 28      the daemon: this client is new, and those above it cannot hold it yet
 *   bit 29      the daemon's policy, among clients of one level
 *   bit 30      this process itself: streams of a higher level beside the ones held
 *   bit 31      paused by the administrator
 * Only its owner writes a bit. The daemon writes it instead once the owner's socket has closed or
 * the owner has given the bit back. The held client also clears the bits of owners that have died.
 *
 * If all streams of a client have its level, as usual, they all look at the word of level 0, and
 * owners write no other word. A client that enforces a bound on the length of its holds
 * (CUTIN_MAX_HOLD_MS) opens `hold` for a moment and restores it from `want`, the truth. Owners
 * write every bit twice, first to `want`, but only into the page of such a client. A locked
 * instruction costs more than all the rest of cutting in, so most clients cost an owner only one.
 *
 * Releases of one version share pages. A later release may use reserved fields, where 0 means what
 * was before, and may have longer pages. Each release maps as much as it knows. What a shorter page
 * lacks is private memory, which no other process reads.
 *
 * Trust. The daemon never reads levels or bits back from a page. It reads counters and
 * deadlines, as figures that the page's owner may have made up.
 */
#ifndef CUTIN_SCHEDULER_WIRE_PAGE_H
#define CUTIN_SCHEDULER_WIRE_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "scheduler/wire/histogram.h"

#define PAGE_MAGIC       0x4e495443u /* "CTIN" */
#define PAGE_VERSION     6u
#define PAGE_LEVELS      4u
#define PAGE_DEVICES     16u
#define PAGE_NAME        16u
#define PAGE_KERNEL_SIZE 28u

#define PAGE_BIT_NEW      (1u << 28)
#define PAGE_BIT_POLICY   (1u << 29)
#define PAGE_BIT_SELF     (1u << 30)
#define PAGE_BIT_PAUSED   (1u << 31)
#define PAGE_BITS_CLIENTS 0x0fffffffu
#define PAGE_CLIENT_BITS  28u

#define PAGE_OWNERS 32u    /* words of a device: one per client bit, and a gap (preemptible.c) */
#define PAGE_TAIL   4096u  /* bytes of private memory behind page_map_other's mapping */
#define PAGE_LEAST  12288u /* bytes of a page of the first release of this version */

/* Figures for `list` and `top`, in page order. X(field, help). */
#define PAGE_COUNTERS(X)                                                                           \
    X(submitted, "commands given to the driver")                                                   \
    X(buffered, "commands that had to wait in a vHQ")                                              \
    X(in_flight, "commands submitted and not known complete, now")                                 \
    X(inlined, "commands submitted by the calling thread")                                         \
    X(holds, "times that buffered work was held")                                                  \
    X(hold_ns, "time in which work waited for a hold to end")                                      \
    X(cut_ins, "times that this client began to hold others")                                      \
    X(gpu_ns, "upper bound of the GPU time of work that ran; without queues: time active")         \
    X(dropped, "commands dropped by resets")                                                       \
    X(waiting, "commands buffered and not submitted, now")                                         \
    X(kernels, "kernels and graphs that the program has launched")                                 \
    X(gates, "places where a hold can stop what the driver has")                                   \
    X(ungated_graphs, "long graphs that a hold cannot stop, although gates are in use")            \
    X(padded, "commands submitted beside the real-time work that held them")                       \
    X(peer_releases, "times that a hold released work for which others may wait")                  \
    X(unsure_ns, "part of gpu_ns that may have been time slices of others")

struct page_counters {
#define PAGE_COUNTER(field, help) _Atomic uint64_t field;
    PAGE_COUNTERS(PAGE_COUNTER)
#undef PAGE_COUNTER
};

/* How long things took, of the whole process. X(field, help). */
#define PAGE_TIMES(X)                                                                              \
    X(hold, "holds that found work buffered")                                                      \
    X(preemption, "from a hold until the last command in flight was seen complete")

struct page_times {
#define PAGE_TIME(field, help) _Atomic uint32_t field[HISTOGRAM_BUCKETS];
    PAGE_TIMES(PAGE_TIME)
#undef PAGE_TIME
};

struct page_device {
    /* Written by clients above, read by queues and gates: so it has a cache line of its own. */
    _Alignas(64) _Atomic uint32_t hold[PAGE_LEVELS];
    _Atomic uint32_t want[PAGE_LEVELS];
    /* When the latest of the holders began to hold, CLOCK_MONOTONIC. The first one stays unknown:
     * to find it, a holder would have to look at the word before it writes it (page_assign_bit). */
    _Atomic uint64_t hold_since_ns[PAGE_LEVELS];
    /* Written by this client. */
    _Alignas(64) uint8_t uuid[16];
    _Atomic uint32_t used;   /* uuid is valid */
    _Atomic uint32_t active; /* highest level now active here; 0 = none above best effort */
    /* When the request under way is to be done, CLOCK_MONOTONIC; 0 = there is no request, or it has
     * no deadline. */
    _Atomic uint64_t deadline_ns;
    uint32_t spare;                   /* 0 */
    char io_kernel[PAGE_KERNEL_SIZE]; /* its last kernel that waits for I/O of its own; "": none */
    _Alignas(64) struct page_counters counters;
};

/*
 * Clients of one level that always have work take shifts (scheduler/peers/shifts.c, vhq/shift.c).
 * Bits 0..7 are the place of this client, bits 8..15 the number of clients; 0: it takes no shifts.
 * Bits 16..19 say how often a shift's length is doubled, because of long commands. Bits 20..30
 * count up while work of the others on the device makes progress. Bit 31: another client of its
 * level is at work and takes no shifts, as a command of it outlasts any, and clients above rest.
 * It has the device by the device's own time slices.
 */
#define PAGE_SHIFT_WORD(place, of) ((place) | (of) << 8)
#define PAGE_SHIFT_CLIENTS(w)      ((w) >> 8 & 0xff)
#define PAGE_SHIFT_DOUBLED         (1u << 16)
#define PAGE_SHIFT_PROGRESS_ONE    (1u << 20)
#define PAGE_SHIFT_PROGRESS        (0x7ffu << 20)
#define PAGE_SHIFT_SLICED          (1u << 31)

struct cutin_page {
    uint32_t magic;
    uint32_t version;
    uint32_t size;
    uint32_t devices;
    uint32_t reserved0[12]; /* nobody reads it; earlier releases write here whose page it is */
    /* Clients above on a device of this client, plus streams above in this process. */
    _Alignas(64) _Atomic uint32_t above;
    /* Other clients that share a device with this one and do not hold it: the driver time-slices
     * their work and this client's. */
    _Atomic uint32_t beside;
    /* Written by this client: how many of its streams are stuck: they complete nothing, and so they
     * hold no other client any more. */
    _Atomic uint32_t stuck;
    uint32_t reserved1[13];
    _Alignas(64) _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, by both threads of the client */
    /* Written by this client after its counters: since when they have counted, CLOCK_MONOTONIC,
     * under any daemon. 0: not yet. */
    _Atomic uint64_t counted_since_ns;
    uint64_t reserved2[6];
    _Atomic uint32_t shift[PAGE_DEVICES]; /* written by the daemon, see PAGE_SHIFT_WORD */
    /* Written by this client: its longest command of late that goes only when nothing else is in
     * flight; 0: none. */
    _Atomic uint32_t long_us[PAGE_DEVICES];
    /* A memory page of its own, so that it alone can be registered with the GPU. */
    _Alignas(4096) struct page_device device[PAGE_DEVICES];
    /* Written by this client. */
    _Alignas(4096) struct page_times times;
    /* For each client bit of a device, the thread that keeps it, or FUTEX_OWNER_DIED
     * (scheduler/client/preemptible.c). */
    _Atomic uint32_t owner[PAGE_DEVICES][PAGE_OWNERS];
#ifdef CUTIN_MUTANTS
    _Alignas(4096) char later[4096]; /* such a copy (common/mutant.h) stands for a later release */
#endif
};

#define PAGE_AT(type, field, offset)                                                               \
    static_assert(offsetof(struct type, field) == (offset), #type "." #field " moved")
PAGE_AT(page_counters, dropped, 64);
PAGE_AT(page_counters, kernels, 80);
PAGE_AT(page_counters, ungated_graphs, 96);
static_assert(sizeof(struct page_counters) == 128, "page_counters");
PAGE_AT(page_device, hold, 0);
PAGE_AT(page_device, want, 16);
PAGE_AT(page_device, hold_since_ns, 32);
PAGE_AT(page_device, uuid, 64);
PAGE_AT(page_device, used, 80);
PAGE_AT(page_device, active, 84);
PAGE_AT(page_device, deadline_ns, 88);
PAGE_AT(page_device, io_kernel, 100);
PAGE_AT(page_device, counters, 128);
static_assert(sizeof(struct page_device) == 256, "page_device");
PAGE_AT(cutin_page, magic, 0);
PAGE_AT(cutin_page, version, 4);
PAGE_AT(cutin_page, size, 8);
PAGE_AT(cutin_page, devices, 12);
PAGE_AT(cutin_page, above, 64);
PAGE_AT(cutin_page, beside, 68);
PAGE_AT(cutin_page, stuck, 72);
PAGE_AT(cutin_page, heartbeat_ns, 128);
PAGE_AT(cutin_page, counted_since_ns, 136);
PAGE_AT(cutin_page, shift, 192);
PAGE_AT(cutin_page, long_us, 256);
PAGE_AT(cutin_page, device, 4096);
PAGE_AT(cutin_page, times, 8192);
PAGE_AT(cutin_page, owner, 8960);
PAGE_AT(page_times, preemption, 384);
static_assert(sizeof(struct page_times) == 768, "page_times");
static_assert(sizeof(struct cutin_page) >= PAGE_LEAST && sizeof(struct cutin_page) % 4096 == 0,
              "cutin_page");
#undef PAGE_AT

/* A page in private memory, zero but for its header. NULL: no memory. */
struct cutin_page *page_new(void);
/* Makes a page in a new sealed memfd, maps it and stores the descriptor. Returns 0 or -errno. */
int page_new_shared(struct cutin_page **page, int *fd);
/* Maps a page from the daemon's descriptor over the one at `at`. Returns 0; -EINVAL if it is not a
 * page, or could be cut short later (then an access would raise SIGBUS); or another -errno. After
 * -EINVAL what was mapped at `at` is still there. The descriptor stays the caller's. */
int page_map(int fd, struct cutin_page *at);
/* The offset from the beginning of a page that page_map_other mapped to its PAGE_TAIL bytes of
 * private memory. The kernel's pages may be larger, for instance 64 KiB: what lies between a page's
 * end and this offset is shared with every process that maps the page. */
size_t page_tail(void);
/* Maps another client's page anywhere, with PAGE_TAIL behind it. That client may have written
 * anything into it, the header included: so nothing in it is believed, and nothing in it is a
 * reason to refuse. Returns 0, -EINVAL if it could be cut short later, or another -errno. */
int page_map_other(int fd, struct cutin_page **page);
void page_unmap_other(struct cutin_page *page);
/* Puts private memory, zero but for its header, over the page at the same address. */
int page_make_private(struct cutin_page *page);
void page_unmap(struct cutin_page *page);

/* The levels that work of `level` holds in a client with level `granted`, as a mask. A stream never
 * counts as higher than what was granted. */
uint32_t page_held_levels(uint32_t level, uint32_t granted);

/* The slot where the devices of a process should begin in its page; `seed` is a number that differs
 * between processes. If the words that cutting in writes were at one place in all pages, they would
 * share one set of the L1 cache: that doubles what each write costs. */
uint32_t page_first_slot(uint32_t seed);

/* Words of a device as a mask: the `hold` words of a mask of levels, or their `want` words too. */
#define PAGE_HOLD(levels) (levels)
#define PAGE_BOTH(levels) ((levels) << PAGE_LEVELS | (levels))
#define PAGE_WORDS        PAGE_BOTH((1u << PAGE_LEVELS) - 1)

/* Of the words `among`, sets `bit` in those of `words` and clears it in the others. Lock free;
 * writes only what differs. `now_ns` is when a hold that begins by this began; without `words` it
 * does not matter. */
void page_write_bit(struct page_device *device, uint32_t bit, uint32_t words, uint32_t among,
                    uint64_t now_ns);
/* The same for one word, which the owner of the bit believes must change: it is not read first. A
 * read would fetch a cache line that others use once more, and keep the processor from fetching
 * several at once. For the same reason this is inline, and branches only on arguments. */
static inline void page_assign_bit(struct page_device *device, uint32_t bit, uint32_t word, bool on,
                                   uint64_t now_ns)
{
    uint32_t level = word % PAGE_LEVELS;
    _Atomic uint32_t *at = word == level ? &device->hold[level] : &device->want[level];

    if (!on) {
        atomic_fetch_and(at, ~bit);
        return;
    }
    if (word == level)
        atomic_store_explicit(&device->hold_since_ns[level], now_ns, memory_order_relaxed);
    atomic_fetch_or(at, bit);
}
/* A figure that another thread or process may be counting. */
static inline uint64_t figure_read(const _Atomic uint64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}
/* The same of a counter in a page that its owner may have spoiled: a negative one reads as 0. */
static inline uint64_t figure_read_clamped(const _Atomic uint64_t *counter)
{
    uint64_t n = figure_read(counter);

    return n <= INT64_MAX ? n : 0;
}
/* Copies a page that other threads and processes may be writing to. */
void page_copy(struct cutin_page *to, const struct cutin_page *from);
/* Adds the counters and times of `from` to those of `to`. */
void page_add_counters(struct cutin_page *to, const struct cutin_page *from);

#endif
