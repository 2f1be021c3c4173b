/*
 * bare.h - clients that are only a connection: they send what a test wants, as any user, and read
 * only when told. Only root can be several users.
 */
#ifndef TEST_BARE_H
#define TEST_BARE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "scheduler/wire/protocol.h"

/* Connects as that user; (uid_t)-1: as this process's own. */
int bare_connect(const char *socket, uid_t uid);
/* Sends, and waits for room. */
void bare_send(int fd, const union message *m);
/* bare_hello sends HELLO at `level`; bare_device names a device: its uuid is 16 times that byte. */
void bare_hello(int fd, uint32_t level);
void bare_device(int fd, uint32_t slot, uint8_t number);
/* Reads until a message of that type comes, and stores it in `m` unless that is NULL. Returns 0, or
 * -errno if the daemon has ended the connection or says nothing for 20 s. */
int bare_wait(int fd, enum message_type type, union message *m);
/* The same. *page: the descriptor that came with the message, for the caller to close, or -1. */
int bare_wait_page(int fd, enum message_type type, union message *m, int *page);
/* Asks, and waits for the answer: by then the daemon has done all that earlier messages ask for.
 * Returns as bare_wait. */
int bare_settle(int fd);
/* Connects as that user, with that device in the slot, and waits to be welcome. */
int bare_join(const char *socket, uid_t uid, uint32_t level, uint32_t slot, uint8_t number);
void bare_close(const int *fds, size_t n);
/* Reads all that is there. Returns how many messages of that type there were. */
uint32_t bare_count(int fd, enum message_type type);
/* Raises the limit of descriptors, for thousands of connections. */
void bare_many(void);
/* Sends with the message the last descriptor of a TCP connection whose closing takes an hour.
 * Returns 0, or -errno if it may not be sent. */
int bare_send_lingering(int fd, const union message *m);

#endif
