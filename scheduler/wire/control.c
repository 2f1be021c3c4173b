/*
 * control.c - tell the daemon what to do with running processes.
 */
#include "scheduler/wire/control.h"

#include <errno.h>
#include <string.h>

#include "scheduler/wire/ask.h"

static int control(const char *socket, struct control_target target, enum control_kind kind,
                   uint32_t value)
{
    union message m;

    if (!control_value_ok(kind, value))
        return -EINVAL;
    message_init(&m, MESSAGE_CONTROL);
    m.control.client = target.client;
    m.control.pid = target.pid;
    m.control.kind = kind;
    m.control.value = value;
    return ask_do(socket, &m);
}

int control_set(const char *socket, struct control_target target, enum control_kind what,
                uint32_t value)
{
    if (what > CONTROL_DEPTH)
        return -EINVAL;
    return control(socket, target, what, value);
}

int control_pause(const char *socket, struct control_target target)
{
    return control(socket, target, CONTROL_PAUSE, 0);
}

int control_resume(const char *socket, struct control_target target)
{
    return control(socket, target, CONTROL_RESUME, 0);
}

int control_reset(const char *socket, struct control_target target, uint32_t stream)
{
    return control(socket, target, CONTROL_RESET, stream);
}

int control_policy(const char *socket, const char *name, char now[PAGE_NAME])
{
    union message m;
    int rc;

    if (name && (!*name || strlen(name) >= PAGE_NAME))
        return -ENOENT;
    message_init(&m, MESSAGE_POLICY);
    if (name)
        memcpy(m.policy.name, name, strlen(name));
    rc = ask_one(socket, &m);
    if (rc == 0 && m.header.type == MESSAGE_POLICY) {
        memcpy(now, m.policy.name, PAGE_NAME);
        return 0;
    }
    return rc != 0 ? rc : m.header.type == MESSAGE_DONE && m.done.error ? m.done.error : -EPROTO;
}
