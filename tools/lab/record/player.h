/*
 * player.h - runs a workload's operations on this process's GPU: kernels of the same shape and
 * duration (the `spin` kernel), and copies of the same size, on as many streams.
 *
 * A kernel of several waves divides its duration among them. On the simulated GPU it does not:
 * there a grid of any size takes the time that it is given. For one thread.
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
    uint64_t ops, kernels, copies; /* so far; `ops` counts all of them */
    void (*tick)(void *user);      /* called now and then between two ops; NULL: not */
    void *user;
    char why[256];
};

/* Loads and launches everything once. `w` stays the caller's, and must outlive the player. Returns
 * 0, or -errno with `why`. */
int player_open(struct player *p, const struct workload *w);
void player_close(struct player *p);

/*
 * Runs ops `from` to before `to`, then waits until all of it is complete. If `paced`, it makes the
 * program's pauses between the calls. Returns 0, or -errno with `why`. -ECANCELED: progress_cancel
 * was set, and what was launched is complete.
 */
int player_run(struct player *p, size_t from, size_t to, bool paced);
/* Sleeps until `ns`, or until progress_cancel is set, and ticks meanwhile. */
void player_sleep_until(struct player *p, uint64_t ns);

#endif
