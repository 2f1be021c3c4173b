/*
 * actor.h - a client process that does what a test tells it, one order at a time.
 */
#ifndef TEST_ACTOR_H
#define TEST_ACTOR_H

#include <stdint.h>
#include <sys/types.h>

struct actor {
    pid_t pid;
    int control;
    char *said; /* messages to the user, the last ones, a line each */
};
enum { ACTOR_SAID = 1024 };

/* X(name, function): the orders; two numbers in, one out. */
#define ORDERS(X)                                                                                  \
    X(OPEN, do_open) /* level, lowest */                                                           \
    X(CLOSE, do_close)                                                                             \
    X(TICKS,                                                                                       \
      do_ticks) /* idle, for a later OPEN: its owner counts ticks, and has nothing else to  \
                          do -> how many there were */      \
    X(TURNS,                                                                                       \
      do_turns) /* all, for a later OPEN: at each tick the time since the last, 20 ms at    \
                          most, counts, and is reported as GPU time if its first device is not     \
                          held -> how much that is, ns, or how much there is in all */      \
    X(CALM, do_calm)                                                                               \
    X(DEVICE, do_device)         /* a number: the uuid is 16 times that byte */                    \
    X(ACTIVE, do_active)         /* dev, level */                                                  \
    X(IDLE, do_idle)             /* dev, level */                                                  \
    X(WAIT_BEGIN, do_wait_begin) /* dev, level */                                                  \
    X(WAIT_END, do_wait_end)     /* dev, level */                                                  \
    X(HOLD, do_hold)             /* dev, level -> hold word */                                     \
    X(SINCE, do_since)           /* dev, level -> when that hold began, ns */                      \
    X(LIFT, do_lift)             /* dev, level: clears the bits of the hold word */                \
    X(RETURN, do_return)         /* sets them again */                                             \
    X(ADDRESS, do_address)       /* dev, level -> its address */                                   \
    X(ABOVE, do_above)                                                                             \
    X(OWNERS, do_owners) /* -> how many words of `owner` in its page are not 0 */                  \
    X(LEVEL, do_level)                                                                             \
    X(CONNECTED, do_connected)                                                                     \
    X(COUNT, do_count)     /* dev, n: adds n to the counter `submitted` -> its value */            \
    X(GPU, do_gpu)         /* dev, ns: reports so much more GPU time, and work in flight */        \
    X(WAITING, do_waiting) /* dev, n: reports n commands that wait */                              \
    X(HELD, do_held)       /* dev: counts the end of a hold with work that waited */               \
    X(WEIGHT, do_weight)   /* for a later OPEN */                                                  \
    X(NOTE, do_note)       /* level */                                                             \
    X(FORGET, do_forget)   /* level */                                                             \
    X(LOGGED, do_logged)   /* -> severity of the last message, or -1 */                            \
    X(TOLD, do_told)       /* -> how many messages there were */                                   \
    X(CLOSE_ALL,                                                                                   \
      do_close_all) /* closes every descriptor but the test's, and reuses the numbers */           \
    X(INTRUDED,                                                                                    \
      do_intruded)   /* -> 1 if a descriptor that took such a number was written to, or    \
                                closed */       \
    X(FORK, do_fork) /* -> id of a child that calls client_after_fork and goes on */               \
    X(MAX_HOLD, do_max_hold) /* ms, for a later OPEN */                                            \
    X(LINGER, do_linger)     /* us, for a later OPEN */                                            \
    X(DEADLINE, do_deadline) /* ms, for a later OPEN */                                            \
    X(HINT, do_hint)         /* us */                                                              \
    X(DUE, do_due)           /* dev -> deadline of the request under way, ns */                    \
    X(WORK, do_work)         /* dev, level: from now on bursts of 2 ms, in a thread */             \
    X(BURSTS, do_bursts)     /* dev, n: n bursts of activity from four threads */                  \
    X(ORDERED, do_ordered)   /* order -> the value that it came with last, or -1 */                \
    X(STALL, do_stall)       /* for a later OPEN: the client's thread waits for ever in a tick */  \
    X(BEAT, do_beat)         /* -> its last beat, ns; 0: its thread does not wait in a tick yet */ \
    X(OLD_BEAT, do_old_beat) /* keeps the beat old from now on, in a thread that always runs */    \
    X(LIMIT_FILES, do_limit_files)   /* n: may open n more descriptors; -1: as many as before */   \
    X(LIMIT_MEMORY, do_limit_memory) /* n: may map n more bytes; -1: as many as before */          \
    X(USER, do_user)                 /* becomes this user */                                       \
    X(LIMIT_OWN, do_limit_own)       /* n: may open n in a new table, beside the standard ones */  \
    X(NO_TABLE, do_no_table)         /* forbids threads a table of their own -> 0 or -errno */     \
    X(NAMESPACE, do_namespace) /* goes on as process 1 of a new PID namespace -> 1 or -errno */

enum order {
#define ORDER(name, function) DO_##name,
    ORDERS(ORDER)
#undef ORDER
};

void actor_new(struct actor *a, const char *socket);
int64_t actor_do(struct actor *a, enum order order, int64_t x, int64_t y);
/* SIGKILL, and waits for the process to be gone. */
void actor_kill(struct actor *a);

#endif
