/*
 * protocol.c - fuzzes message_check: any message that it accepts must keep all bounds that the
 * handlers rely on.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/wire/protocol.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_bounds(const union message *m)
{
    switch (m->header.type) {
    case MESSAGE_HELLO:
        require(m->hello.level < PAGE_LEVELS && m->hello.lowest <= m->hello.level);
        require(m->hello.remote_level <= PAGE_LEVELS && m->hello.paused <= 1);
        require(!m->hello.flat || m->hello.lowest == m->hello.level);
        require(m->hello.deadline_ms <= PROTOCOL_DEADLINE_MOST_MS);
        require(strnlen(m->hello.name, PAGE_NAME) < PAGE_NAME);
        break;
    case MESSAGE_WELCOME:
        require(m->welcome.level < PAGE_LEVELS && m->welcome.share_percent <= 90);
        require(strnlen(m->welcome.reason, PROTOCOL_TEXT) < PROTOCOL_TEXT);
        break;
    case MESSAGE_DEVICE:
        require(m->device.slot < PAGE_DEVICES);
        break;
    case MESSAGE_BIT:
        require(m->bit.slot < PAGE_DEVICES);
        break;
    case MESSAGE_JOIN:
        for (uint32_t d = 0; d < PAGE_DEVICES; d++)
            require(m->join.slot[d] < PAGE_DEVICES || m->join.slot[d] == PROTOCOL_NO_SLOT);
        break;
    case MESSAGE_ROW:
        require(m->row.devices <= PAGE_DEVICES);
        break;
    case MESSAGE_CONTROL:
        require(m->control.kind < CONTROL_KIND_COUNT);
        break;
    case MESSAGE_REMOTE:
        require(m->remote.kind < CONTROL_KIND_COUNT);
        break;
    case MESSAGE_POLICY:
        require(strnlen(m->policy.name, PAGE_NAME) < PAGE_NAME);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union message m;

    for (int direction = TO_DAEMON; direction <= TO_CLIENT; direction++) {
        memset(&m, 0, sizeof(m));
        memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
        if (message_check(&m, size, (enum message_direction)direction) != 0)
            continue;
        require(m.header.size <= sizeof(m));
        check_bounds(&m);
    }
    return 0;
}
