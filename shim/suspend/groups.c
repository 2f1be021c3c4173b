/*
 * groups.c - stops the process's own channel groups, and lets them go on (see groups.h).
 */
#include "shim/suspend/groups.h"
#include "shim/suspend/nvrm.h"
#include "shim/suspend/objects.h"
#include "shim/lookup/shim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { RETRIES = 3 };

const char *const groups_way_names[GROUPS_WAYS] = {"schedule", "timeslice"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ended; /* under `lock` */
_Atomic uint32_t groups_yields;

static int control(const struct object *o, uint32_t command, void *params, uint32_t bytes)
{
    struct nvrm_control call = {.client = o->client,
                                .object = o->handle,
                                .command = command,
                                .params = (uintptr_t)params,
                                .bytes = bytes};

    /* The driver may have closed its descriptor, and another file may have its number now. */
    struct stat file;
    if (fstat(o->fd, &file) != 0 || file.st_dev != o->dev || file.st_ino != o->ino)
        return -EBADF;
    for (int i = 0; i < RETRIES; i++) {
        if (objects_ioctl(o->fd, NVRM_REQUEST(NVRM_CONTROL, sizeof(call)), &call) == 0)
            return (int)call.status;
        if (errno != EINTR && errno != EAGAIN)
            return -errno;
    }
    return -EINTR;
}

static int schedule(const struct object *o, bool on)
{
    struct nvrm_schedule p = {.enable = on};

    return control(o, NVRM_GROUP_SCHEDULE, &p, atomic_load(&objects_schedule_bytes));
}

static int timeslice_set(const struct object *o, uint64_t us)
{
    struct nvrm_timeslice p = {us};

    return control(o, NVRM_GROUP_SET_TIMESLICE, &p, sizeof(p));
}

/* Reads and keeps the present slice before it changes it. */
static int timeslice_shorten(struct object *o)
{
    struct nvrm_timeslice was = {0};
    struct nvrm_preempt preempt = {.wait = 1};
    int rc = control(o, NVRM_GROUP_GET_TIMESLICE, &was, sizeof(was));

    o->slice_us = was.us;
    if (rc == 0)
        rc = timeslice_set(o, 0);
    if (rc == NVRM_INVALID_ARGUMENT)
        rc = timeslice_set(o, 1);
    if (rc != 0)
        return rc;
    rc = control(o, NVRM_GROUP_PREEMPT, &preempt, sizeof(preempt));
    if (rc != 0)
        timeslice_set(o, o->slice_us);
    return rc;
}

/* A group is below a device, and so is the subdevice that knows which device that is. */
static bool group_on(const struct object *group, const uint8_t uuid[16])
{
    for (struct object *o = objects; o < objects + OBJECTS; o++) {
        if (!object_live(o) || o->class_id != NVRM_CLASS_SUBDEVICE || o->client != group->client ||
            o->parent != group->parent)
            continue;
        struct nvrm_gid gid = {.flags = NVRM_GID_BINARY};
        if (!o->named && control(o, NVRM_SUBDEVICE_GID, &gid, sizeof(gid)) == 0) {
            memcpy(o->uuid, gid.data, sizeof(o->uuid));
            o->named = true;
        }
        if (o->named)
            return memcmp(o->uuid, uuid, sizeof(o->uuid)) == 0;
    }
    return false;
}

static struct object *group_next(struct object *o, const uint8_t uuid[16])
{
    for (o = o ? o + 1 : objects; o < objects + OBJECTS; o++)
        if (object_live(o) && o->class_id == NVRM_CLASS_GROUP && (!uuid || group_on(o, uuid)))
            return o;
    return NULL;
}

const char *groups_objection(void)
{
    static char unknown[128];

    if (!groups_version[0])
        return "no call of the driver to the resource manager was seen";
    if (atomic_load(&objects_lost))
        return "the driver has too many channel groups";
    if (atomic_load(&objects_schedule_bytes))
        return NULL;
    snprintf(unknown, sizeof(unknown), "the resource manager of driver %.40s is not known",
             groups_version);
    return unknown;
}

uint32_t groups_count(const uint8_t uuid[16])
{
    uint32_t count = 0;

    pthread_mutex_lock(&lock);
    for (struct object *o = NULL; (o = group_next(o, uuid));)
        count += atomic_load(&o->scheduled);
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- stopping and going on: lock held -------------------------------------------------------- */

static int go(const uint8_t uuid[16])
{
    int rc = 0;

    for (struct object *o = NULL; (o = group_next(o, uuid));) {
        if (!o->stopped)
            continue;
        int one = o->way == GROUPS_SCHEDULE ? schedule(o, true) : timeslice_set(o, o->slice_us);
        o->stopped = false;
        atomic_fetch_sub(&objects_stopped, 1);
        if (one != 0)
            log_line(LOG_ERROR,
                     "cannot resume a stopped channel group: the resource manager answers %d", one);
        rc = rc ? rc : one;
    }
    return rc;
}

int groups_stop(const uint8_t uuid[16], enum groups_way way)
{
    int rc = -ENOENT;

    pthread_mutex_lock(&lock);
    for (struct object *o = NULL; !ended && (o = group_next(o, uuid));) {
        if (!atomic_load(&o->scheduled) || o->stopped)
            continue;
        /* Counted before it is stopped: from then on calls that change groups yield first. */
        atomic_fetch_add(&objects_stopped, 1);
        rc = -EBUSY;
        if (!atomic_load(&objects_changing))
            rc = way == GROUPS_SCHEDULE ? schedule(o, false) : timeslice_shorten(o);
        o->way = (uint8_t)way;
        o->stopped = rc == 0;
        if (rc != 0) {
            atomic_fetch_sub(&objects_stopped, 1);
            break;
        }
    }
    if (rc != 0)
        go(uuid);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Reads the driver's slice each time before replacing it: the driver may have set another. */
static int group_slice(struct object *o, uint64_t us)
{
    struct nvrm_timeslice was = {o->original_us};
    int rc = o->stopped ? -EBUSY : 0;

    if (rc == 0 && !o->override_us)
        rc = control(o, NVRM_GROUP_GET_TIMESLICE, &was, sizeof(was));
    if (rc == 0)
        rc = timeslice_set(o, us ? us : was.us);
    if (rc == NVRM_INVALID_OBJECT || rc == NVRM_INVALID_CLIENT || rc == -EBADF)
        return 0; /* the driver is just freeing the group */
    if (rc == 0) {
        o->original_us = was.us;
        o->override_us = us;
    }
    return rc;
}

/* Lock held. Slices are set back for groups off the run list, too, since they may return to it.
 * Counted as a stop meanwhile, so that no group ends and no other takes its place. */
static int slice(const uint8_t uuid[16], uint64_t us)
{
    atomic_fetch_add(&objects_stopped, 1);
    bool changing = atomic_load(&objects_changing) != 0;
    int rc = changing ? -EBUSY : -ENOENT;

    for (struct object *o = NULL; !changing && (o = group_next(o, uuid));) {
        if (us && !atomic_load(&o->scheduled))
            continue;
        int one = o->override_us == us ? 0 : group_slice(o, us);
        rc = rc == 0 || rc == -ENOENT ? one : rc;
    }
    atomic_fetch_sub(&objects_stopped, 1);
    return rc;
}

int groups_set_slice(const uint8_t uuid[16], uint64_t us)
{
    pthread_mutex_lock(&lock);
    int rc = ended ? -ENOENT : slice(uuid, us);
    pthread_mutex_unlock(&lock);
    return rc;
}

int groups_resume(const uint8_t uuid[16])
{
    pthread_mutex_lock(&lock);
    int rc = go(uuid);
    pthread_mutex_unlock(&lock);
    return rc;
}

void groups_yield(void)
{
    int saved = errno;

    pthread_mutex_lock(&lock);
    go(NULL);
    atomic_fetch_add(&groups_yields, 1);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

void groups_end(void)
{
    pthread_mutex_lock(&lock);
    ended = true;
    go(NULL);
    slice(NULL, 0);
    pthread_mutex_unlock(&lock);
}
