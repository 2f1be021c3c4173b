/*
 * ring.c - byte ring of buffered commands.
 *
 * One producer (the holder of the vHQ's lock), one consumer (the holder of the set's lock). Records
 * are contiguous: one that does not fit before the end leaves a wrap mark and begins at offset 0.
 * An empty ring starts over without a mark: all of it is free, and first_seq tells its first
 * record. Memory comes from mmap when the first command is buffered: a stream that never buffers
 * costs none, and pages that were never reached are never touched.
 */
#include "vhq/internal.h"

#include <sys/mman.h>

enum {
    RECORD_ALIGN = 16,
    RECORD_MEAN = 256,     /* bytes per command that the ring is sized for */
    RING_MIN = 192 * 1024, /* the largest record, twice, and room to wrap */
    RING_SPARE = 4096,     /* a vHQ with the default queue stays within 1 MiB altogether */
    RING_HOT = 128 * 1024, /* an empty ring starts over from here, to stay in the cache */
};
static_assert(VHQ_PAYLOAD_ALIGN == RECORD_ALIGN, "payloads follow 64-byte headers");
static_assert(VHQ_MAX_PAYLOAD + CACHE_LINE <= RING_MIN, "the largest record fits an empty ring");

static uint32_t record_bytes(uint32_t payload)
{
    return ((uint32_t)sizeof(struct slot) + payload + RECORD_ALIGN - 1) &
           ~(uint32_t)(RECORD_ALIGN - 1);
}

bool ring_alloc(struct ring *r)
{
    if (likely(r->base))
        return true;
    uint64_t size = (uint64_t)r->max_commands * RECORD_MEAN;
    size = size < RING_MIN + RING_SPARE ? RING_MIN : size - RING_SPARE;
    size &= ~4095ull;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    r->size = (uint32_t)size;
    r->base = base;
    return true;
}

void ring_free(struct ring *r)
{
    if (r->base)
        munmap(r->base, r->size);
    r->base = NULL;
}

static uint64_t ring_used(const struct ring *r)
{
    /* Acquire: pairs with the release in ring_pop; the freed bytes may be written again. */
    return r->written - atomic_load_explicit(&r->freed, memory_order_acquire);
}

/* Bytes to skip so that `need` fits behind the tail. */
static uint32_t ring_pad(const struct ring *r, uint32_t need, uint64_t used)
{
    return r->tail + need > r->size && used != 0 ? r->size - r->tail : 0;
}

bool ring_fits(const struct ring *r, uint32_t bytes)
{
    uint32_t need = record_bytes(bytes);
    uint64_t used = ring_used(r);
    return (peek(r->tail_seq) - atomic_load_explicit(&r->head_seq, memory_order_relaxed)) <
               r->max_commands &&
           used + ring_pad(r, need, used) + need <= r->size;
}

struct slot *ring_reserve(struct ring *r, uint32_t bytes)
{
    uint32_t need = record_bytes(bytes);
    uint64_t used = ring_used(r);
    uint32_t pad = ring_pad(r, need, used);
    if (used == 0 && (r->tail >= RING_HOT || r->tail + need > r->size)) {
        /* Before ring_publish: a thread that finds the record there also sees this. */
        atomic_store_explicit(&r->first_seq, peek(r->tail_seq), memory_order_relaxed);
        r->tail = 0;
    } else if (pad != 0) {
        struct slot *mark = (struct slot *)(void *)(r->base + r->tail);
        mark->flags = SLOT_WRAP; /* the first 16 bytes always fit */
        r->written += pad;
        r->tail = 0;
    }
    struct slot *slot = (struct slot *)(void *)(r->base + r->tail);
    slot->units = (uint16_t)(need / RECORD_ALIGN);
    r->tail += need;
    if (r->tail == r->size)
        r->tail = 0;
    r->written += need;
    return slot;
}

void ring_publish(struct ring *r)
{
    /* seq_cst: see dispatcher_ready, which then looks at `ready_listed`. */
    atomic_store(&r->tail_seq, peek(r->tail_seq) + 1);
}

/* The record at an offset, past a wrap mark; the offset follows. */
static struct slot *ring_at(struct ring *r, uint32_t *offset)
{
    struct slot *slot = (struct slot *)(void *)(r->base + *offset);
    if (slot->flags & SLOT_WRAP) {
        *offset = 0;
        slot = (struct slot *)(void *)r->base;
    }
    return slot;
}

static uint32_t ring_front(const struct ring *r)
{
    return peek(r->first_seq) == peek(r->head_seq) ? 0 : r->head;
}

struct slot *ring_next(struct ring *r, const struct slot *s, uint32_t *offset)
{
    *offset = s ? *offset + (uint32_t)s->units * RECORD_ALIGN : ring_front(r);
    if (*offset == r->size)
        *offset = 0;
    return ring_at(r, offset);
}

struct slot *ring_head(struct ring *r)
{
    /* seq_cst: pairs with ring_publish, which makes the record's bytes and first_seq visible. */
    if (atomic_load(&r->tail_seq) == peek(r->head_seq))
        return NULL;
    uint32_t offset = ring_front(r);
    return ring_at(r, &offset);
}

void ring_pop(struct ring *r)
{
    uint32_t front = ring_front(r), offset = front;
    struct slot *slot = ring_at(r, &offset);
    uint64_t pad = offset == front ? 0 : r->size - front;
    uint32_t bytes = (uint32_t)slot->units * RECORD_ALIGN;
    r->head = offset + bytes == r->size ? 0 : offset + bytes;
    /* Release: the record was read; pairs with ring_used. Then head_seq, for drains. */
    atomic_store_explicit(&r->freed, peek(r->freed) + pad + bytes, memory_order_release);
    atomic_store_explicit(&r->head_seq, peek(r->head_seq) + 1, memory_order_release);
}
