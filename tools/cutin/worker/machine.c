/*
 * machine.c - pins, locks memory, sets SCHED_FIFO; spins, and looks for gaps (see worker.h).
 */
#include "worker.h"
#include "common/clock.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

void claim_apply(struct claim *c)
{
    struct sched_param param = {.sched_priority = 1};
    int now = sched_getscheduler(0), last = CPU_SETSIZE - 1;
    cpu_set_t set, one;

    /* Locks only touched pages, because a simulated GPU maps more memory than there is. Leaves
     * later mappings unlocked, because with a memory limit those would fail. */
    c->locked = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
    /* Interrupts and other work tend to be on the first processor. */
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    while (last >= 0 && !CPU_ISSET((size_t)last, &set))
        last--;
    CPU_ZERO(&one);
    CPU_SET((size_t)last, &one); /* of none, if there is none */
    c->cpu = sched_setaffinity(0, sizeof(one), &one) == 0 ? last : -1;
    c->realtime = now == SCHED_FIFO || now == SCHED_RR ||
                  sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
}

const char *claim_text(const struct claim *c, char *out, size_t size)
{
    char cpu[48] = "not pinned";

    if (c->cpu >= 0)
        snprintf(cpu, sizeof(cpu), "pinned to processor %d", (int)c->cpu);
    snprintf(out, size, "%s, %slocked in memory, %sin a real-time class", cpu,
             c->locked ? "" : "not ", c->realtime ? "" : "not ");
    return out;
}

void floor_add(struct floor_spin *f, uint64_t before_ns, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns - before_ns;

    f->ns += gap_ns;
    if (gap_ns < FLOOR_GAP_NS)
        return;
    f->gaps++;
    f->gap_ns += gap_ns;
    if (gap_ns > f->most_ns)
        f->most_ns = gap_ns;
}

void floor_spin(struct floor_spin *f, uint64_t ns)
{
    uint64_t before_ns = clock_ns(), now_ns;

    *f = (struct floor_spin){0};
    for (; f->ns < ns; before_ns = now_ns) {
        now_ns = clock_ns();
        floor_add(f, before_ns, now_ns);
    }
}
