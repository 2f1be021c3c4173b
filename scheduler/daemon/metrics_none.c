/*
 * metrics_none.c - in place of metrics.c where libmicrohttpd was not there to build with.
 */
#include "scheduler/daemon/metrics.h"

#include <errno.h>
#include <stdio.h>

int metrics_open(struct metrics **out, const char *address, struct peer *const *peers, char *why,
                 size_t why_size)
{
    snprintf(why, why_size, "metrics at %.60s: this cutind was built without libmicrohttpd",
             address);
    return -ENOSYS;
}

int metrics_fd(const struct metrics *m)
{
    return -1;
}

void metrics_run(struct metrics *m)
{
}

int metrics_wait_ms(const struct metrics *m)
{
    return -1;
}

void metrics_close(struct metrics *m)
{
}
