/*
 * bare.h - clients that are nothing but a connection: they say what a test wants them to say, as
 * whatever user, and read only when told. Root alone can be several users.
 */
#ifndef TEST_BARE_H
#define TEST_BARE_H

#include <stdint.h>
#include <sys/types.h>

#include "scheduler/wire/protocol.h"

/* A connection of that user; (uid_t)-1: of this process's own. */
int bare_connect(const char *socket, uid_t uid);
/* Waits for room. */
void bare_send(int fd, const union message *m);
/* HELLO at that level, and a device whose uuid is 16 times that byte. */
void bare_hello(int fd, uint32_t level);
void bare_device(int fd, uint32_t slot, uint8_t number);
/* Reads until a message of that type comes, and keeps it in `m` unless that is NULL. Returns 0, or
 * -errno where the daemon has ended the connection or says nothing for 20 s. */
int bare_wait(int fd, enum message_type type, union message *m);
/* Reads all that is there: how many of that type. */
uint32_t bare_count(int fd, enum message_type type);
/* Thousands of connections need descriptors. */
void bare_many(void);
/* Sends with it the last descriptor of a TCP connection whose closing takes an hour. Returns 0, or
 * -errno: it may not be sent. */
int bare_send_lingering(int fd, const union message *m);

#endif
