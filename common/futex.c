/*
 * futex.c - the system call (see futex.h).
 */
#include "common/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"

int futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
    int saved = errno, ret = 0;
    const struct timespec ts = clock_timespec(deadline_ns);

    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
                deadline_ns == UINT64_MAX ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY) != 0)
        ret = -errno;
    errno = saved;
    return ret;
}

bool futex_wait_change(_Atomic uint32_t *word, uint32_t seen, uint64_t by_ns)
{
    while (atomic_load(word) == seen && clock_ns() < by_ns)
        futex_wait(word, seen, by_ns);
    return atomic_load(word) != seen;
}

/* The word may be gone by now: then no thread waits for it. */
static void wake(_Atomic uint32_t *word, int most)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most, NULL, NULL, 0);
    errno = saved;
}

void futex_wake(_Atomic uint32_t *word)
{
    wake(word, INT32_MAX);
}

void futex_wake_one(_Atomic uint32_t *word)
{
    wake(word, 1);
}
