/*
 * hold.h - who holds whom, and since when, as the pages say.
 *
 * Pages are written by their clients and by those above them: these are figures, which nothing is
 * decided by.
 *
 * A hold has no bound of its own: what real time does may take long and be right, and where its
 * kernel hangs, the GPU is not free for best effort either. But somebody should know. So the daemon
 * says it where work has waited for hold_warning_s without a break, with both names and the
 * settings that bound it.
 */
#ifndef CUTIN_SCHEDULER_PEERS_HOLD_H
#define CUTIN_SCHEDULER_PEERS_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/policy/conf.h"
#include "scheduler/peers/peer.h"

struct hold {
    uint32_t bits; /* of clients */
    uint64_t ns;   /* how long, without a break */
};

/* Of the lowest streams of a client on a device; false: nobody holds them. */
bool hold_read(const struct peer *p, uint32_t slot, uint64_t now_ns, struct hold *hold);
/* The next client that holds so, after `from`, or the first; NULL: no more. */
const struct peer *hold_next(const struct peer *peers, const struct device *device,
                             const struct hold *hold, const struct peer *from);
/* Says which holds have become long. Returns when to look again, in ms; -1: nobody can be held. */
int hold_look(struct peer *peers, const struct conf *conf, uint64_t now_ns);

#endif
