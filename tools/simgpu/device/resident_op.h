/*
 * resident_op.h - resident kernels on the timeline: what is handed to its owner at the end of each
 * piece of its running, and goes on with the next one. All locked.
 *
 * Of a handed one end_ns is where its last piece ended. It runs on, as a loop does that polls: what
 * it ran since is `overrun`, and counts of its next piece.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_RESIDENT_OP_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_RESIDENT_OP_H

#include "tools/simgpu/device/shared.h"

static inline bool resident_handed(const struct op *op)
{
    return op->state == OP_HANDED && op->flags & OP_RESIDENT;
}

/* Has a kernel its SMs? */
static inline bool kernel_on_sms(const struct op *op)
{
    return op->state == OP_RUNNING || (resident_handed(op) && !(op->flags & OP_AWAY));
}

/* The context of a handed one loses the GPU, and gets it back. */
void resident_leave(struct op *op, uint64_t clock);
void resident_return(struct op *op, uint64_t clock);
/* How long a handed one has run at `now` past its end_ns. */
uint64_t resident_overrun(const struct op *op, uint64_t now);
/* It is handed again when it has run `ns` from where it was handed, which can be at once. Advance
 * afterwards. */
void device_resume(struct device *d, uint32_t stream, uint64_t seq, uint64_t ns);

#endif
