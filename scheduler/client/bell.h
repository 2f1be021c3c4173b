/*
 * bell.h - wakes a thread that waits for descriptors in a table of its own, where nobody else can
 * reach them: a pipe, whose one end others find by its name in /proc.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_BELL_H
#define CUTIN_SCHEDULER_CLIENT_BELL_H

struct bell {
    int fd; /* readable when it was rung; -1: there is none */
    int end;
    char name[64];
};

/* In a table that is empty: 0 to 2 are taken behind it, and nothing that is written to standard
 * error gets anywhere. Without pipes there is no bell. */
void bell_hang(struct bell *b);
/* Its thread has heard it. */
void bell_hear(const struct bell *b);
void bell_remove(struct bell *b);
/* From any thread, while nobody removes it; the table of that thread has a descriptor more for a
 * moment. Nothing happens where /proc cannot be had: who waits is to look now and then. */
void bell_ring(const struct bell *b);

#endif
