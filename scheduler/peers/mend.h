/*
 * mend.h - hold words that somebody wrote to whose bits they are not.
 *
 * Whoever is above a client has its page, and may write any bit of its words: bits that hold it for
 * ever, or that end the hold of another. The daemon knows whose bits there are. Twice a second, and
 * when somebody goes, it clears those that are nobody's, and writes what is the daemon's own anew.
 * A bit whose owner says that it should be otherwise, in two looks in a row, the owner is told
 * once more, so that it writes it as it should be. All of that is said, with those who could have
 * done it.
 */
#ifndef CUTIN_SCHEDULER_PEERS_MEND_H
#define CUTIN_SCHEDULER_PEERS_MEND_H

#include "scheduler/peers/topology.h"

/* `policed`: there is a policy that writes its own bit. Returns when to look again, in ms; -1:
 * nobody can be held. */
int mend_look(struct topology *r, struct peer *peers, bool policed, uint64_t now_ns);
/* `p` has put back what it had taken out of its words: what is no more as it should be is put right
 * at once, and not said. */
void mend_lifted(struct topology *r, struct peer *peers, struct peer *p);
/* Somebody has gone who had pages of others. */
void mend_soon(void);

#endif
