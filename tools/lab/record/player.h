/*
 * player.h - a workload's operations on this process's GPU: kernels of the same shape and duration
 * (the `spin` kernel), copies of the same size, on as many streams.
 *
 * A kernel of several waves divides its duration by them, except on the simulated GPU, where a grid
 * of any size takes the time it is told. One thread.
 */
#ifndef CUTIN_TOOLS_LAB_RECORD_PLAYER_H
#define CUTIN_TOOLS_LAB_RECORD_PLAYER_H

#include "tools/facts/driver.h"
#include "workload.h"

#include <stdbool.h>

struct player {
    struct driver cu;
    const struct workload *w;
    struct device device;
    CUmodule module;
    CUfunction spin;
    CUstream *stream; /* w->streams, and one more */
    CUdeviceptr memory[2];
    void *host;
    size_t memory_bytes;
    bool waves;
    uint64_t ops, kernels, copies; /* so far; ops are all of them */
    void (*tick)(void *user);      /* now and then between two ops; NULL: nobody looks */
    void *user;
    char why[256];
};

/* Everything loaded and launched once. `w` stays the caller's, and must outlive the player. 0 or
 * -errno with `why`. */
int player_open(struct player *p, const struct workload *w);
void player_close(struct player *p);

/*
 * Ops `from` to before `to`, then until all of it is complete. With `paced` the calls have the
 * pauses that the program made between them, else none. 0 or -errno with `why`; -ECANCELED when
 * progress_cancel was set, with what was launched complete.
 */
int player_run(struct player *p, size_t from, size_t to, bool paced);
/* Sleeps until then, or until progress_cancel is set, and ticks meanwhile. */
void player_sleep_until(struct player *p, uint64_t ns);

#endif
