/*
 * calm.h - a process that does nothing is left alone.
 *
 * The client's thread looks every CLIENT_TICK_MS, because no call tells of most of what it looks
 * for. If no call has come for a second and nothing of the process is under way, there is nothing
 * to look for. Then the client's thread sleeps for CALM_SLEEP_NS at a time, until a call comes
 * (client_note_call), and the link's thread for half as long.
 *
 * Meanwhile its beat lies in the future, so that no daemon of any release takes it for a stopped
 * process. The thread that ends the calm writes the present time. The link's thread, which beats
 * while the client's waits in the driver, may then still sleep for a while. So a process is calm
 * only without a daemon, or under one that asks for late beats (MESSAGE_BEAT).
 */
#ifndef CUTIN_SCHEDULER_CLIENT_CALM_H
#define CUTIN_SCHEDULER_CLIENT_CALM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "scheduler/client/client.h"

#define CALM_SLEEP_NS (2000 * NS_PER_MS)

struct calm {
    uint32_t seen;     /* client_calm_word at the last look */
    uint64_t since_ns; /* since when it has had that value */
};

/* One look, by the client's thread at every tick. True: no call has come for a second. */
bool calm_due(struct calm *c, uint64_t now_ns);
/* To be called if calm_due says so and nothing is under way: makes the process calm, with its beat
 * in the future. False, and no change: a call has come since calm_due. */
bool calm_begin(struct calm *c, struct cutin_page *page, uint64_t now_ns);
/* Any thread. True: the process was calm, so the caller must wake the client's thread. */
bool calm_end(struct cutin_page *page);
bool calm_is_on(void);

#endif
