/*
 * step.h - time that moves only when no thread can run: the seats of the threads that share it, and
 * which of them runs. step.c has the rules, seam.c the functions of libc that keep to them.
 *
 * Every thread of every process has a time of its own, as if it had a processor of its own. One
 * thread runs at a time: the one with the least time. Each call costs it a stated time. When it
 * waits, the next one runs. A thread that waits until a time is the next one when that time is the
 * least. So the order of all events follows from the times, however busy the machine is.
 */
#ifndef CUTIN_TOOLS_SIMGPU_CLOCK_STEP_H
#define CUTIN_TOOLS_SIMGPU_CLOCK_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_NEVER UINT64_MAX

/* What calls cost, in ns. A thread that was asleep is STEP_WAKE late. */
enum {
    STEP_CLOCK = 25,
    STEP_LOCK = 20,
    STEP_CALL = 300, /* a system call */
    STEP_YIELD = 500,
    STEP_SEND = 1000,
    STEP_WAKE = 3000,
    STEP_THREAD = 20000,
    STEP_FORK = 200000,
};

/* What a thread waits for. A key is unique in its process, or, for some, in all of them. */
enum step_wait {
    STEP_SLEEP,
    STEP_WORD,   /* a private futex */
    STEP_SHARED, /* a futex that processes share; the key is its place in a page */
    STEP_MUTEX,
    STEP_CONDITION,
    STEP_JOIN,
    STEP_DESCRIPTOR, /* a process wrote, closed or ended: look again */
    STEP_CHILD,
};

/* Whether the calling thread shares the time. One that was lost waits for its turn first. */
bool step_thread_on(void);
/* Whether the process shares the time, even if the calling thread has no seat (any more). */
bool step_process_on(void);
uint64_t step_now(void);
void step_spend(uint64_t ns);
/* Lets another thread run if its time is not later. */
void step_yield(void);
/* Waits until it is woken (true) or the time is `until` (false). */
bool step_block(enum step_wait wait, uint64_t key, uint64_t until);
/* Wakes at most `most` of the threads that wait, the first one first. Returns how many it woke. */
uint32_t step_wake(enum step_wait wait, uint64_t key, uint32_t most);
/* Whether any thread waits for this. */
bool step_awaited(enum step_wait wait);

/* The calling thread waits for something that will come from outside of the time: not lost. */
void step_wait_outside(bool waits_outside);

/* A seat for a thread or a child that will be made now. NULL: none is free. */
struct seat;
struct seat *step_reserve(uint64_t cost_ns);
void step_cancel_seat(struct seat *seat);
/* The key by which others know the seat's thread. */
void step_set_key(struct seat *seat, uint64_t key);
/* The seat is a child's. The child may not have run yet when this process is gone. */
void step_seat_child(struct seat *seat, int pid);
/* Called in the new thread or the child: takes the seat and waits for the turn. */
void step_take_seat(struct seat *seat);
/* Whether this process still has a thread with that key. */
bool step_seated(uint64_t key);
/* The calling thread is ending. */
void step_leave(void);
/* The calling process is ending. Others go on when it is gone. */
void step_leave_process(void);
/* A process was killed: waits until it is gone, and removes its seats. */
void step_reap(int pid);

long step_syscall(long n, long a, long b, long c, long d, long e, long f);

#endif
