/*
 * objects.c - our ioctl, and what is learned from its calls (see objects.h, groups.h).
 *
 * Compiled without sanitizers: programs and sanitizer runtimes call ioctl before instrumented code
 * can run.
 */
#include "shim/suspend/objects.h"
#include "shim/suspend/nvrm.h"
#include "shim/lookup/shim.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct object objects[OBJECTS];
_Atomic uint32_t objects_changing, objects_stopped, objects_schedule_bytes;
_Atomic bool objects_lost;
char groups_version[64];
static _Atomic uint32_t alloc_bytes; /* size of the form with rights, for the driver's version */

typedef int ioctl_fn(int fd, unsigned long request, void *arg);
static ioctl_fn *_Atomic behind;

__attribute__((constructor)) static void behind_find(void)
{
    atomic_store(&behind, (ioctl_fn *)lookup_behind("ioctl"));
}

/* Before constructors have run the kernel is called directly, as libc's ioctl does, too. */
int objects_ioctl(int fd, unsigned long request, void *arg)
{
    ioctl_fn *next = atomic_load_explicit(&behind, memory_order_relaxed);

    return likely(next) ? next(fd, request, arg) : (int)syscall(SYS_ioctl, fd, request, arg);
}

/* Freeing an object frees what is below it; freeing a client frees all of its objects. */
static void object_remove(const struct nvrm_free *call)
{
    for (struct object *o = objects; o < objects + OBJECTS; o++)
        if (object_live(o) && o->client == call->client &&
            (o->handle == call->object || o->parent == call->object || o->client == call->object))
            atomic_store_explicit(&o->state, OBJECT_NONE, memory_order_release);
}

/* Never called twice at a time: the driver makes these calls in its initialisation. */
static void version_learn(const struct nvrm_version *call)
{
    uint32_t branch = 0;

    if (call->bytes < sizeof(groups_version) || !call->driver)
        return;
    memcpy(groups_version, (const char *)(uintptr_t)call->driver, sizeof(groups_version) - 1);
    for (const char *p = groups_version; *p >= '0' && *p <= '9' && branch < 10000; p++)
        branch = branch * 10 + (uint32_t)(*p - '0');
#define BRANCH(first, last, alloc, schedule)                                                       \
    if (branch >= (first) && branch <= (last)) {                                                   \
        atomic_store(&alloc_bytes, alloc);                                                         \
        atomic_store(&objects_schedule_bytes, schedule);                                           \
    }
    NVRM_BRANCHES(BRANCH)
#undef BRANCH
}

static void alloc_learn(int fd, const struct nvrm_alloc *call, uint32_t bytes)
{
    uint32_t full = atomic_load_explicit(&alloc_bytes, memory_order_relaxed), none = OBJECT_NONE;
    struct object *o = objects;
    struct stat file;

    if ((call->class_id != NVRM_CLASS_GROUP && call->class_id != NVRM_CLASS_SUBDEVICE) || !full ||
        (bytes != NVRM_ALLOC_SHORT && bytes != full))
        return;
    const uint32_t *status = full > 40 ? &call->status : &call->bytes;
    if (bytes == full)
        status = (const uint32_t *)(const void *)call + (full > 40 ? 10 : 8);
    if (*status != 0)
        return;
    for (; o < objects + OBJECTS; o++, none = OBJECT_NONE)
        if (atomic_compare_exchange_strong(&o->state, &none, OBJECT_CLAIMED))
            break;
    if (o == objects + OBJECTS || fstat(fd, &file) != 0) {
        atomic_store(&objects_lost, true);
        return;
    }
    o->client = call->client;
    o->parent = call->parent;
    o->handle = call->object;
    o->class_id = call->class_id;
    o->fd = fd;
    o->dev = file.st_dev;
    o->ino = file.st_ino;
    o->stopped = o->named = false;
    o->override_us = o->original_us = 0;
    atomic_store_explicit(&o->scheduled, false, memory_order_relaxed);
    atomic_store_explicit(&o->state, OBJECT_LIVE, memory_order_release);
}

static void control_learn(const struct nvrm_control *call)
{
    const void *p = (const void *)(uintptr_t)call->params;

    if (!p || call->status != 0)
        return;
    if (call->command == NVRM_BUILD_VERSION && call->object == call->client &&
        call->bytes == sizeof(struct nvrm_version))
        version_learn(p);
    if (call->command != NVRM_GROUP_SCHEDULE)
        return;
    struct object *o = objects;
    while (o < objects + OBJECTS &&
           !(object_live(o) && o->client == call->client && o->handle == call->object))
        o++;
    if (o < objects + OBJECTS)
        atomic_store_explicit(&o->scheduled, ((const struct nvrm_schedule *)p)->enable != 0,
                              memory_order_relaxed);
}

/* True: a call of the manager that tells or changes something that is kept here. */
static bool seen_call(struct nvrm_transfer *c, unsigned long request, const void *arg)
{
    if (_IOC_DIR(request) != (_IOC_READ | _IOC_WRITE) || !arg || shim_bypassed() ||
        config_get()->suspend == SUSPEND_OFF)
        return false;
    *c = (struct nvrm_transfer){_IOC_NR(request), _IOC_SIZE(request), (uintptr_t)arg};
    if (c->number == NVRM_TRANSFER && c->bytes == sizeof(*c))
        *c = *(const struct nvrm_transfer *)arg;
    switch (c->number) {
    case NVRM_ALLOC:
        return c->bytes >= sizeof(struct nvrm_alloc);
    case NVRM_FREE:
        return c->bytes == sizeof(struct nvrm_free);
    case NVRM_CONTROL:
        return c->bytes == sizeof(struct nvrm_control);
    default:
        return c->number == NVRM_IDLE_CHANNELS;
    }
}

static int ioctl_managed(int fd, unsigned long request, void *arg)
{
    struct nvrm_transfer call = {0};
    bool seen = seen_call(&call, request, arg);
    const void *params = (const void *)(uintptr_t)call.params;
    const struct nvrm_control *control = seen && call.number == NVRM_CONTROL ? params : NULL;
    uint32_t class_id = control ? control->command >> 16 : 0; /* of channels: it ends in 6f */
    bool changes = seen && (call.number == NVRM_FREE || call.number == NVRM_IDLE_CHANNELS ||
                            class_id == NVRM_CLASS_GROUP || (class_id & 0xff) == 0x6f);

    if (changes) {
        atomic_fetch_add(&objects_changing, 1);
        if (unlikely(atomic_load(&objects_stopped)))
            groups_yield();
    }
    int rc = objects_ioctl(fd, request, arg), saved = errno;
    if (seen && rc == 0) {
        if (call.number == NVRM_ALLOC)
            alloc_learn(fd, params, call.bytes);
        else if (control)
            control_learn(control);
        else if (call.number == NVRM_FREE && ((const struct nvrm_free *)params)->status == 0)
            object_remove(params);
    }
    if (changes)
        atomic_fetch_sub(&objects_changing, 1);
    errno = saved;
    return rc;
}

/* libc declares ioctl with `...`. For a caller that is the same, and without it this is a jump. */
EXPORT int cutin_front_ioctl(int fd, unsigned long request, void *arg) __asm__("ioctl");
int cutin_front_ioctl(int fd, unsigned long request, void *arg)
{
    if (likely(_IOC_TYPE(request) != NVRM_MAGIC))
        return objects_ioctl(fd, request, arg);
    return ioctl_managed(fd, request, arg);
}
