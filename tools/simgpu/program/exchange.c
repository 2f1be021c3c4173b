/*
 * exchange.c - the kernel of examples/async_net that rings and waits by itself. Its first block
 * sends and receives while the others move the rest of the field.
 */
#include "tools/simgpu/program/kernels.h"
#include "tools/simgpu/memory/memory.h"

enum { START_NS = 3000, BYTES_PER_US = 1000000, ACCESS_NS = 1000 /* to the host's memory */ };

/* The parameters, as in kernels.ptx. */
struct exchange {
    uint32_t *to;
    const uint32_t *from;
    uint32_t *out;
    const uint32_t *in;
    uint32_t *posted, *doorbell;
    const uint32_t *received;
    uint32_t edge, inner, count;
};

/* w->args.u64[ARG_PHASE], behind the shape, is what the next step does. */
enum { ARG_PHASE = 7 };
enum phase { BEGIN, PACK, WAIT, UNPACK };

static bool reaches(const struct work *w, const void *p, uint32_t words)
{
    return memory_reachable((CUdeviceptr)(uintptr_t)p, words * sizeof(uint32_t),
                            (const void *)w->context);
}

static uint64_t move_ns(uint32_t words)
{
    return ACCESS_NS + (uint64_t)words * 8 * 1000 / BYTES_PER_US;
}

uint64_t exchange_step(struct work *w, uint64_t at_ns)
{
    uint64_t *phase = &w->args.u64[ARG_PHASE];
    const struct exchange *k = w->blob;
    uint32_t field = k->edge + k->inner;
    (void)at_ns;
    if (!(reaches(w, k->to, field) && reaches(w, k->from, field) && reaches(w, k->out, k->edge) &&
          reaches(w, k->in, k->edge) && reaches(w, k->posted, 1) && reaches(w, k->doorbell, 1) &&
          reaches(w, k->received, 1))) {
        w->step_error = CUDA_ERROR_ILLEGAL_ADDRESS;
        return RUN_OVER;
    }
    switch ((enum phase)(*phase)++) {
    case BEGIN:
        return START_NS + move_ns(k->edge);
    case PACK:
        memcpy(k->out, k->from + k->inner, k->edge * sizeof(uint32_t));
        memcpy(k->to + k->edge, k->from, k->inner * sizeof(uint32_t));
        __atomic_store_n(k->posted, k->count, __ATOMIC_RELEASE);
        __atomic_store_n(k->doorbell, k->count, __ATOMIC_RELEASE);
        return ACCESS_NS;
    case WAIT:
        if ((int32_t)(__atomic_load_n(k->received, __ATOMIC_ACQUIRE) - k->count) >= 0)
            return move_ns(k->edge);
        *phase = WAIT;
        return RUN_POLL;
    case UNPACK:
        break;
    }
    memcpy(k->to, k->in, k->edge * sizeof(uint32_t));
    return RUN_OVER;
}
