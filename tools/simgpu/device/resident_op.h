/*
 * resident_op.h - resident kernels on the timeline. At the end of each piece such a kernel is
 * handed to its owner, and it goes on with the next piece. All locked.
 *
 * While it is handed, end_ns is where its last piece ended. It runs on, as a loop that polls does.
 * What it has run since then is its overrun, and counts as part of its next piece.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_RESIDENT_OP_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_RESIDENT_OP_H

#include "tools/simgpu/device/shared.h"

static inline bool resident_handed(const struct op *op)
{
    return op->state == OP_HANDED && op->flags & OP_RESIDENT;
}

/* Whether a kernel has its SMs. */
static inline bool kernel_on_sms(const struct op *op)
{
    return op->state == OP_RUNNING || (resident_handed(op) && !(op->flags & OP_AWAY));
}

/* The context of a handed kernel loses the GPU, or gets it back. */
void resident_leave(struct op *op, uint64_t clock);
void resident_return(struct op *op, uint64_t clock);
/* For how long a handed kernel has run past its end_ns at `now`. */
uint64_t resident_overrun(const struct op *op, uint64_t now);
/* Gives the kernel `ns` to run, counted from where it was handed. Then it is handed again, which
 * can be at once. Advance afterwards. */
void device_resume(struct device *d, uint32_t stream, uint64_t seq, uint64_t ns);

#endif
