/*
 * door.h - the daemon's connections: who comes in, is read and answered, and goes.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_DOOR_H
#define CUTIN_SCHEDULER_DAEMON_DOOR_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;

/* Lets in who connects to the listening socket, from now on. Returns 0 or -errno. */
int door_open(struct daemon *d, int listener);
/* Sends what no event announces room for, and gives up who says nothing. True: look again soon. */
bool door_look(struct daemon *d, uint64_t now_ns);
/* Takes the dead apart. */
void door_remove_dead(struct daemon *d);
/* Disconnects everybody; also after door_open has failed. The listening socket stays open. */
void door_close(struct daemon *d);

#endif
