/*
 * suspend_record.h - what `cutin doctor` saw of suspending on this machine: one line for each GPU,
 * in the user's cache.
 */
#ifndef CUTIN_SUSPEND_RECORD_H
#define CUTIN_SUSPEND_RECORD_H

#include <stdint.h>

struct suspend_record {
    char version[64]; /* the driver's */
    char way[16];     /* one of groups_way_names, or "none" */
    char why[192];    /* with "none" */
};

/* 0; -ENOENT: there is none; -EINVAL: it makes no sense. */
int suspend_record_read(const uint8_t uuid[16], struct suspend_record *r);
/* 0 or -errno. */
int suspend_record_write(const uint8_t uuid[16], const struct suspend_record *r);

#endif
