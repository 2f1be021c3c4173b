/*
 * objects.h - what is known of the resource manager's objects (see groups.h). objects.c learns it,
 * groups.c uses it.
 */
#ifndef CUTIN_SHIM_SUSPEND_OBJECTS_H
#define CUTIN_SHIM_SUSPEND_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { OBJECTS = 512 };
enum object_state { OBJECT_NONE, OBJECT_CLAIMED, OBJECT_LIVE };

/* A group or a subdevice. Written once, by the thread that made it, before it is live. */
struct object {
    _Atomic uint32_t state;
    uint32_t client, parent, handle, class_id;
    int fd; /* descriptor that its client uses, and which file that was */
    dev_t dev;
    ino_t ino;
    _Atomic bool scheduled; /* on the run list, as the driver wants */
    /* Under the lock of groups.c: */
    bool stopped, named;
    uint8_t way;       /* enum groups_way: how it was stopped */
    uint64_t slice_us; /* before it was stopped */
    uint64_t override_us,
        original_us;  /* by groups_set_slice, and before that; 0: none, not asked */
    uint8_t uuid[16]; /* of a subdevice with `named` set */
};
extern struct object objects[OBJECTS];
static inline bool object_live(const struct object *o)
{
    return atomic_load_explicit(&o->state, memory_order_acquire) == OBJECT_LIVE;
}
/* Calls under way that change groups, and stopped groups (for groups.c). The driver's threads write
 * the first before they read the second, and the thread that stops the other way round. */
extern _Atomic uint32_t objects_changing, objects_stopped;
/* Bytes of a schedule call in the driver's version; 0: not known yet, or not in the table. */
extern _Atomic uint32_t objects_schedule_bytes;
extern _Atomic bool objects_lost; /* some could not be kept */
extern char groups_version[64];   /* groups.h */

/* The ioctl behind ours. */
int objects_ioctl(int fd, unsigned long request, void *arg);

/* In groups.c: lets stopped groups go on, before a call that changes them. */
void groups_yield(void);

#endif
