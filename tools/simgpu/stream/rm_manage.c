/*
 * rm_manage.c - the resource manager of one process (see rm.h): its objects by handle, and the
 * effects of the controls of a channel group on the shared device.
 */
#include "tools/simgpu/stream/rm.h"
#include "shim/suspend/nvrm.h"
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/device/group.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/stream/engine.h"

#include <errno.h>
#include <stdio.h>

enum { OBJECTS = 1024, SHORTEST_SLICE_NS = 1000 };

struct object {
    uint32_t handle, class_id, ordinal; /* handle 0: free */
    uint32_t context;                   /* the context of a group */
    uint64_t slice_us;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object objects[OBJECTS];
static uint32_t client; /* there is only one */

static uint32_t branch(void)
{
    return (uint32_t)strtoul(config_get()->rm_version, NULL, 10);
}

static struct object *object_find(uint32_t handle)
{
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].handle == handle)
            return &objects[i];
    return NULL;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static uint32_t object_new(const struct nvrm_alloc *call)
{
    struct object *o = object_find(0), *parent = object_find(call->parent);
    const struct nvrm_group *group = (const void *)(uintptr_t)call->params;
    if (call->class_id == NVRM_CLASS_CLIENT) {
        client = call->client;
        return 0;
    }
    if (call->client != client)
        return NVRM_INVALID_CLIENT;
    if (!o || call->object == 0 || (call->class_id == NVRM_CLASS_GROUP && (!parent || !group)))
        return NVRM_INVALID_ARGUMENT;
    *o = (struct object){.handle = call->object,
                         .class_id = call->class_id,
                         .ordinal = parent ? parent->ordinal : call->object & 0xff,
                         .context = group ? group->space : 0,
                         .slice_us = (uint64_t)config_get()->timeslice_us};
    return 0;
}

static int manage_alloc(void *arg, uint32_t bytes)
{
    struct nvrm_alloc *call = arg;
    bool counted = branch() >= 535;
    uint32_t status = object_new(call);
    if (bytes == NVRM_ALLOC_SHORT)
        *(counted ? &call->status : &call->bytes) = status;
    else
        ((uint32_t *)arg)[counted ? 10 : 8] = status;
    return 0;
}

/* ---- controls -------------------------------------------------------------------------------- */

static bool has_effect(void)
{
    return config_get()->rm != SIM_RM_IGNORE && !engine_stopped();
}

/* Whether a call that would stop a group is allowed: 0, or the status that refuses it. */
static uint32_t permission(bool schedule)
{
    if (config_get()->rm == SIM_RM_REFUSE)
        return NVRM_NO_PERMISSION;
    return schedule && config_get()->rm == SIM_RM_TIMESLICE ? NVRM_NOT_SUPPORTED : 0;
}

static uint64_t preempt_ns(void)
{
    return (uint64_t)config_get()->preempt_us * 1000;
}

static uint32_t group_schedule(const struct object *o, const struct nvrm_schedule *p)
{
    uint32_t status = p->enable ? 0 : permission(true);
    if (status || !has_effect())
        return status;
    uint64_t now = device_lock_now();
    device_group_schedule(engine_device(), o->context, p->enable, now, preempt_ns());
    device_unlock_at(now);
    return 0;
}

static uint32_t group_timeslice(struct object *o, const struct nvrm_timeslice *p)
{
    uint64_t own = (uint64_t)config_get()->timeslice_us;
    uint32_t status = permission(false);
    if (status)
        return status;
    o->slice_us = p->us;
    if (!has_effect())
        return 0;
    uint64_t now = device_lock_now(), ns = p->us == own ? 0 : p->us * 1000;
    if (p->us != own && ns < SHORTEST_SLICE_NS)
        ns = SHORTEST_SLICE_NS;
    device_group_timeslice(engine_device(), o->context, ns);
    device_unlock_at(now);
    return 0;
}

static uint32_t group_preempt(const struct object *o)
{
    uint32_t status = permission(false);
    if (status || !has_effect())
        return status;
    uint64_t now = device_lock_now();
    device_group_preempt(engine_device(), o->context, now, preempt_ns());
    device_unlock_at(now);
    return 0;
}

static uint32_t group_control(struct object *o, const struct nvrm_control *call)
{
    void *p = (void *)(uintptr_t)call->params;
    switch (call->command) {
    case NVRM_GROUP_SCHEDULE:
        return call->bytes == (branch() < 575 ? 2 : 3) ? group_schedule(o, p) : NVRM_INVALID_PARAMS;
    case NVRM_GROUP_SET_TIMESLICE:
        return call->bytes == sizeof(struct nvrm_timeslice) ? group_timeslice(o, p)
                                                            : NVRM_INVALID_PARAMS;
    case NVRM_GROUP_GET_TIMESLICE:
        ((struct nvrm_timeslice *)p)->us = o->slice_us;
        return 0;
    case NVRM_GROUP_PREEMPT:
        return call->bytes == sizeof(struct nvrm_preempt) ? group_preempt(o) : NVRM_INVALID_PARAMS;
    default:
        return NVRM_NOT_SUPPORTED;
    }
}

static uint32_t subdevice_gid(const struct object *o, struct nvrm_gid *p)
{
    if (p->flags != NVRM_GID_BINARY)
        return NVRM_NOT_SUPPORTED;
    attribute_uuid((int)o->ordinal, p->data);
    p->bytes = 16;
    return 0;
}

static uint32_t build_version(const struct nvrm_version *p)
{
    snprintf((char *)(uintptr_t)p->driver, p->bytes, "%s", config_get()->rm_version);
    snprintf((char *)(uintptr_t)p->version, p->bytes, "simulated");
    snprintf((char *)(uintptr_t)p->title, p->bytes, "simulated");
    return 0;
}

static int manage_control(struct nvrm_control *call)
{
    struct object *o = call->object ? object_find(call->object) : NULL;
    if (call->client != client)
        call->status = NVRM_INVALID_CLIENT;
    else if (call->object == client && call->command == NVRM_BUILD_VERSION &&
             call->bytes == sizeof(struct nvrm_version))
        call->status = build_version((void *)(uintptr_t)call->params);
    else if (o && o->class_id == NVRM_CLASS_GROUP)
        call->status = group_control(o, call);
    else if (o && call->command == NVRM_SUBDEVICE_GID && call->bytes == sizeof(struct nvrm_gid))
        call->status = subdevice_gid(o, (void *)(uintptr_t)call->params);
    else
        call->status = o ? NVRM_NOT_SUPPORTED : NVRM_INVALID_OBJECT;
    return 0;
}

int rm_manage(unsigned long request, void *arg)
{
    uint32_t number = _IOC_NR(request), bytes = _IOC_SIZE(request);
    SCOPED_LOCK(&lock);
    if (number == NVRM_ALLOC &&
        (bytes == NVRM_ALLOC_SHORT || bytes == (branch() < 535 ? 40u : 48u)))
        return manage_alloc(arg, bytes);
    if (number == NVRM_FREE && bytes == sizeof(struct nvrm_free)) {
        struct nvrm_free *call = arg;
        struct object *o = call->object ? object_find(call->object) : NULL;
        call->status = o ? 0 : NVRM_INVALID_OBJECT;
        if (o)
            o->handle = 0;
        return 0;
    }
    if (number == NVRM_CONTROL && bytes == sizeof(struct nvrm_control))
        return manage_control(arg);
    errno = EINVAL;
    return -1;
}
