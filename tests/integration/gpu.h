/*
 * gpu.h - the example programs on the simulated GPU, started as the integration tests need them:
 * bare, preloaded by hand, or under `cutin run`; and the daemon beside them.
 */
#ifndef CUTIN_TESTS_GPU_H
#define CUTIN_TESTS_GPU_H

#include "scheduler/wire/query.h"
#include "tests/integration/process.h"

#include <stdint.h>

#define LIBRARY       LIB_DIR "/libcutin.so"
#define PRELOAD       "LD_PRELOAD=" LIBRARY
#define SIMULATOR     "LD_LIBRARY_PATH=" LIB_DIR "/simgpu"
#define EXAMPLE(name) BIN_DIR "/examples/" name
#define CUTIN         BIN_DIR "/cutin"
#define LAB           BIN_DIR "/cutin-lab"

/* Starts the daemon at $XDG_RUNTIME_DIR/cutin/cutin.sock and returns when it answers. */
struct process *daemon_start(void);
struct process *daemon_start_by(const char *program);
const char *daemon_path(void);

/* Asks the daemon until a client called `name` (NULL: any) satisfies `wanted`, and copies its row.
 * Returns false after `seconds`. From 10 on they are a limit for what hangs, and PROCESS_BUSY times
 * as long is allowed for a busy machine. */
bool client_wait(const char *name, bool (*wanted)(const struct message_row *), double seconds,
                 struct message_row *found);
bool client_paused(const struct message_row *row); /* by the administrator; its work is held */
uint64_t client_holds(const struct message_row *row);
uint64_t client_submitted(const struct message_row *row);

/* The checksum that be_training prints after `steps` steps without cutin, on a simulated GPU of its
 * own. */
void undisturbed_checksum(int steps, char checksum[32]);
/* Starts be_training with `steps` steps under `cutin run`. */
struct process *training_start(int steps, const char *const env[]);
/* Starts rt_inference at level rt, until it is told to end: `rate` requests/s of `kernels`. */
struct process *inference_start(const char *rate, const char *kernels);
/* A rate with gaps between requests, also on the host's clock of a busy machine. Without gaps no
 * client below it would run. */
const char *rate_with_gaps(void);
/* Sends SIGTERM. It must end in order with all answers right, at least the one that loads the
 * kernels. Returns how many others there were: 0 on a machine too busy for one. */
double inference_stop(struct process *p);
/* Its stderr must be empty, unless a busy machine kept the daemon from answering it. */
void program_silent(struct process *p);
/* Waits for the end in order; its checksum must be `expected`. */
void training_check(struct process *p, const char *expected, double seconds);
/* Ends one that trains until it is told to end (0 steps), and so is still there on a busy machine.
 * Its checksum must be that of as many steps undisturbed. */
void training_stop(struct process *p);
/* The same for one that was told already, after `seconds` at most. */
void training_done(struct process *p, double seconds);

#endif
