/*
 * late.c - see late.h. In the order of writing: all are equally late, so the first is due first.
 */
#include "tools/simgpu/stream/late.h"
#include "tools/simgpu/face/sim.h"

enum { ROOM = 1024 };

static struct late {
    void *at;
    size_t bytes;
    uint64_t value, due_ns;
} late[ROOM];
static unsigned first;
static _Atomic unsigned count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void store(void *at, size_t bytes, uint64_t value)
{
    if (bytes == sizeof(uint64_t))
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELEASE);
}

static void first_store(void)
{
    const struct late *l = &late[first];
    store(l->at, l->bytes, l->value);
    first = (first + 1) % ROOM;
    count--;
}

void late_store(void *at, size_t bytes, uint64_t value, uint64_t due_ns)
{
    if (!due_ns) {
        store(at, bytes, value);
        return;
    }
    SCOPED_LOCK(&lock);
    if (count == ROOM)
        first_store();
    late[(first + count) % ROOM] = (struct late){at, bytes, value, due_ns};
    count++;
}

uint64_t late_flush(uint64_t now_ns)
{
    if (!count)
        return UINT64_MAX;
    SCOPED_LOCK(&lock);
    while (count && late[first].due_ns <= now_ns)
        first_store();
    return count ? late[first].due_ns : UINT64_MAX;
}

void late_flush_for(const void *at)
{
    bool there = false;
    if (!count)
        return;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count; i++)
        there |= late[(first + i) % ROOM].at == at;
    pthread_mutex_unlock(&lock);
    if (there)
        late_flush(UINT64_MAX);
}
