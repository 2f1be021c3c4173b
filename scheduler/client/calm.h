/*
 * calm.h - a process that does nothing is left alone.
 *
 * The client's thread looks every CLIENT_TICK_MS, since of most of what it looks for nobody tells.
 * Where no call has come for a second and nothing of the process is under way, there is nothing to
 * look for: the client's thread sleeps for CALM_SLEEP_NS at a time, until a call comes
 * (client_note_call), and the link's for half as long.
 *
 * Its beat stands in the future meanwhile, so that no daemon, of whichever release, takes it for a
 * stopped process. Whoever ends the calm writes the present. The link's thread, which beats while
 * the client's waits in the driver, may then sleep for a while yet. So a process is calm only under
 * a daemon that asks for beats which are late (MESSAGE_BEAT), or under none.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_CALM_H
#define CUTIN_SCHEDULER_CLIENT_CALM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "scheduler/client/client.h"

#define CALM_SLEEP_NS (2000 * NS_PER_MS)

struct calm {
    uint32_t seen;     /* client_calm at the last look */
    uint64_t since_ns; /* since when it has been that */
};

/* One look, by the client's thread, which comes every tick: true where no call has come for a
 * second. */
bool calm_due(struct calm *c, uint64_t now_ns);
/* Where that is so, and nothing is under way: the process is calm from now on, and its beat stands
 * in the future. Not where a call has come since calm_due: false. */
bool calm_begin(struct calm *c, struct cutin_page *page, uint64_t now_ns);
/* Any thread. True: it was calm, and the client's thread is to be woken. */
bool calm_end(struct cutin_page *page);
bool calm_stands(void);

#endif
