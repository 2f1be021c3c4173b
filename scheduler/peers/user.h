/*
 * user.h - what all connections of one user cost the daemon together; limit.c says what of that
 * they may.
 */
#ifndef CUTIN_SCHEDULER_PEERS_USER_H
#define CUTIN_SCHEDULER_PEERS_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#define USER_QUEUE (2u << 20) /* bytes */

/* A user of the machine, or of one contained cgroup. */
struct user {
    char *key; /* the user id, or permission_cgroup as a whole: who makes cgroups chooses names */
    uid_t uid; /* of its first process */
    uint32_t connections, clients;
    size_t queued; /* bytes that wait for them to be read */
    /* When the next connection, message, client that those above are told of, and line of the log
     * is due, were there no bursts. */
    uint64_t connect_ns, message_ns, told_ns, said_ns;
    uint32_t unsaid; /* lines left out since the last one */
    UT_hash_handle hh;
};

/* One more of what may come each `each_ns`, and `burst` of them at once, by the generic cell rate
 * algorithm. False: not yet. */
static inline bool rate_take(uint64_t *due_ns, uint64_t now_ns, uint64_t each_ns, uint32_t burst)
{
    uint64_t due = *due_ns > now_ns ? *due_ns : now_ns;

    if (due - now_ns > (burst - 1) * each_ns)
        return false;
    *due_ns = due + each_ns;
    return true;
}

#endif
