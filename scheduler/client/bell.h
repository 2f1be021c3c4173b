/*
 * bell.h - wakes a thread that waits for descriptors in a table of its own, out of reach of others.
 * The bell is a pipe; other threads find one end of it by its name in /proc.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_BELL_H
#define CUTIN_SCHEDULER_CLIENT_BELL_H

struct bell {
    int fd; /* readable after a ring; -1: there is no bell */
    int end;
    char name[64];
};

/* For a thread whose table is empty. Also takes the numbers 0 to 2, so that nothing written to
 * standard error gets anywhere. Without pipes there is no bell. */
void bell_open(struct bell *b);
/* Takes in the rings; by the bell's own thread. */
void bell_clear(const struct bell *b);
void bell_close(struct bell *b);
/* From any thread, while none removes the bell. The caller's table has one descriptor more for a
 * moment. Does nothing without /proc: so the thread that waits must also look now and then. */
void bell_ring(const struct bell *b);

#endif
