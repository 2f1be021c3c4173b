/*
 * admission.h - of whose devices clients above are told, and how soon.
 *
 * A client below costs a real-time process some nanoseconds whenever it cuts in, and a mapping when
 * it comes and goes. So of one user only so many clients of a device are told to those above
 * (clients_per_device), and clients that come one after another at a rate. Who has to wait is
 * registered all the same; it is held by nobody until its turn comes. Users who control others have
 * no limit.
 */
#ifndef CUTIN_SCHEDULER_PEERS_ADMISSION_H
#define CUTIN_SCHEDULER_PEERS_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/policy/conf.h"
#include "scheduler/peers/peer.h"

/* Of one user: as many at once, and then one after another in that time. */
#define ADMISSION_BURST  32u
#define ADMISSION_NS     125000000ull
#define ADMISSION_BAN_NS 60000000000ull

struct admission;

struct admission *admission_new(void); /* NULL: no memory */
void admission_free(struct admission *a);

enum admission_answer { ADMISSION_NOW, ADMISSION_LATER, ADMISSION_FULL };
/* May that device of the client be told? If so it is counted until admission_leave. */
enum admission_answer admission_ask(struct admission *a, const struct conf *conf, struct peer *p,
                                    uint32_t slot, uint64_t now_ns);
/* None of this client's user is told for ADMISSION_BAN_NS. */
void admission_ban(struct admission *a, const struct peer *p, uint64_t now_ns);
/* The client goes. */
void admission_leave(struct admission *a, struct peer *p);

#endif
