/*
 * metrics_address.h - where metrics may be served: nowhere that another machine can reach.
 */
#ifndef CUTIN_SCHEDULER_POLICY_METRICS_ADDRESS_H
#define CUTIN_SCHEDULER_POLICY_METRICS_ADDRESS_H

#include <stddef.h>
#include <sys/types.h>

/* Is it "127.0.0.1:PORT", "[::1]:PORT" or "unix:/PATH"? Returns 0, or -EINVAL and why not. */
int metrics_check(const char *address, char *why, size_t why_size);
/* A listening, non-blocking socket there, or -errno and why. */
int metrics_listen(const char *address, char *why, size_t why_size);
/* The file that a UNIX socket's path leads to now; 0: there is none, or it is a port. */
ino_t metrics_file(const char *address);
/* Removes that file. */
void metrics_unlisten(const char *address);

#endif
