/*
 * stray.h - descriptors that somebody sends with a message, which the daemon has no use for.
 *
 * The kernel closes them in the name of whoever receives the message without taking them, or closes
 * the socket that it waits in. That may take as long as the sender likes: a TCP connection whose
 * other end reads nothing ends after its SO_LINGER. So nobody may send any, where the kernel can
 * forbid it (Linux 6.16). Elsewhere, and where they were sent before there was this daemon, such a
 * message is not received, and its socket is closed by a child that is killed: a process that ends
 * waits for no connection.
 */
#ifndef CUTIN_SCHEDULER_PEERS_STRAY_H
#define CUTIN_SCHEDULER_PEERS_STRAY_H

#include <stdbool.h>

/* On connections that `listener` takes from now on. */
void stray_forbid(int listener);
/* The next message has some: it is not to be received. */
bool stray_next(int socket);
/* Closes it now, or in stray_end, if there could be some in it. */
void stray_close(int socket);
void stray_end(void);

#endif
