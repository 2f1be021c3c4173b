/*
 * step.h - time that moves when nobody can run: the seats of the threads that share it, and who of
 * them runs. step.c has the rules; seam.c the functions of libc behind which they stand.
 *
 * Every thread of every process has a time of its own, as if it had a processor of its own. One
 * thread runs at a time: the one whose time is least. What it calls costs it a stated time; where
 * it waits, the next one runs, and who waits until a time is the next one when that time is the
 * least. So the order of everything follows from the times, however busy the machine is.
 */
#ifndef CUTIN_TOOLS_SIMGPU_CLOCK_STEP_H
#define CUTIN_TOOLS_SIMGPU_CLOCK_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_NEVER UINT64_MAX

/* What calls cost, in ns. A thread that was asleep is late by STEP_WAKE. */
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

/* What a thread waits for; with a key, which is unique in its process, or for all of them. */
enum step_wait {
    STEP_SLEEP,
    STEP_WORD,   /* a private futex */
    STEP_SHARED, /* a futex that processes share: the key is its place in a page */
    STEP_MUTEX,
    STEP_CONDITION,
    STEP_JOIN,
    STEP_DESCRIPTOR, /* somebody wrote, closed or ended: look again */
    STEP_CHILD,
};

/* Does the calling thread share the time? Where it was taken for lost it waits for its turn. */
bool step_here(void);
/* Is it a process of the time, though the thread has no seat (any more)? */
bool step_process(void);
uint64_t step_now(void);
void step_spend(uint64_t ns);
/* Another one's turn, if there is one that is no later. */
void step_yield(void);
/* Until woken (true) or the time is `until` (false). */
bool step_block(enum step_wait wait, uint64_t key, uint64_t until);
/* At most `most` of those that wait, the first one first. Returns how many. */
uint32_t step_wake(enum step_wait wait, uint64_t key, uint32_t most);
/* Does anybody wait so? */
bool step_awaited(enum step_wait wait);

/* What the calling thread waits for comes, though from outside of the time: it is not lost. */
void step_patient(bool patient);

/* A seat for a thread or a child that is about to be made; NULL: none is free. */
struct seat;
struct seat *step_reserve(uint64_t cost_ns);
void step_refuse(struct seat *seat);
/* What others know its thread by. */
void step_name(struct seat *seat, uint64_t key);
/* It is a child's, which may not have run when this process is gone. */
void step_seat_of(struct seat *seat, int pid);
/* In the new thread, or the child: takes the seat and waits for its turn. */
void step_sit(struct seat *seat);
/* Is there still a thread of this process with that key? */
bool step_seated(uint64_t key);
/* The calling thread ends. */
void step_leave(void);
/* The calling process ends; others go on when it is gone. */
void step_leave_process(void);
/* A process was killed: until it is gone, and without it. */
void step_gone(int pid);

long step_syscall(long n, long a, long b, long c, long d, long e, long f);

#endif
