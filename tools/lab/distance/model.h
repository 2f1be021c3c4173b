/*
 * model.h - what a GPU at a distance costs, by DxPU (He et al., ACM TACO 2023). Every command comes
 * later by what the round trip is longer than over PCIe. The GPU reads the host's memory with a
 * fixed number of requests in flight, so the rate falls as the round trip grows. Writes to the host
 * are posted: half of the added round trip is added to them, at the same rate. Only arithmetic: no
 * driver and no settings.
 */
#ifndef CUTIN_TOOLS_LAB_DISTANCE_MODEL_H
#define CUTIN_TOOLS_LAB_DISTANCE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { DISTANCE_NATIVE_RTT_NS = 1200, DISTANCE_REQUEST_BYTES = 128 };

struct distance {
    uint32_t rtt_ns, tags; /* with no more than the native round trip there is no distance */
};

/* The delay of kernels, graphs, memsets, and copies to the device and within it. Copies to the host
 * get half of it. */
static inline uint32_t distance_delta_ns(const struct distance *d)
{
    return d->rtt_ns > DISTANCE_NATIVE_RTT_NS ? d->rtt_ns - DISTANCE_NATIVE_RTT_NS : 0;
}

/* The least time that the GPU needs to read `bytes` of the host's memory. */
static inline uint64_t distance_read_ns(const struct distance *d, uint64_t bytes)
{
    return (uint64_t)((double)bytes * d->rtt_ns / ((double)d->tags * DISTANCE_REQUEST_BYTES));
}

/* ---- copies to the device ------------------------------------------------------------------- */

/* The local link: what a copy takes, and how much longer a delay takes than it should. */
struct distance_link {
    uint64_t fixed_ns, bytes_per_us, delay_ns;
};

static inline uint64_t distance_native_ns(const struct distance_link *l, uint64_t bytes)
{
    return l->fixed_ns + bytes * 1000 / l->bytes_per_us;
}

/* What goes before a copy, so that together they take as long as over the longer way. */
struct distance_fill {
    uint64_t delay_ns;
    uint32_t whole; /* copies of the same bytes, which keep the link busy for other streams, too */
    uint64_t part;  /* bytes at the begin that are copied once more; 0: none */
};

/* `repeat`: the bytes may be copied again. Beyond MOST copies the rest is a delay. */
static inline struct distance_fill
distance_fill(const struct distance *d, const struct distance_link *l, uint64_t bytes, bool repeat)
{
    enum { MOST = 64 };
    struct distance_fill fill = {.delay_ns = distance_delta_ns(d)};
    uint64_t native_ns = distance_native_ns(l, bytes), read_ns = distance_read_ns(d, bytes);
    uint64_t more_ns = read_ns > native_ns ? read_ns - native_ns : 0;
    if (repeat) {
        uint64_t times = more_ns / native_ns;
        fill.whole = times < MOST ? (uint32_t)times : MOST;
        more_ns -= fill.whole * native_ns;
        if (times < MOST && more_ns > l->fixed_ns)
            fill.part = (more_ns - l->fixed_ns) * l->bytes_per_us / 1000;
        more_ns -= fill.part ? distance_native_ns(l, fill.part) : 0;
    }
    fill.delay_ns += more_ns;
    return fill;
}

#endif
