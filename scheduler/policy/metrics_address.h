/*
 * metrics_address.h - where metrics may be served: nowhere that another machine can reach.
 */
#ifndef CUTIN_SCHEDULER_POLICY_METRICS_ADDRESS_H
#define CUTIN_SCHEDULER_POLICY_METRICS_ADDRESS_H

#include <stddef.h>

/* Is it "127.0.0.1:PORT", "[::1]:PORT" or "unix:/PATH"? Returns 0, or -EINVAL and why not. */
int metrics_check(const char *address, char *why, size_t why_size);
/* A listening, non-blocking socket there, or -errno and why. */
int metrics_listen(const char *address, char *why, size_t why_size);
/* Removes what metrics_listen made in the file system. */
void metrics_unlisten(const char *address);

#endif
