/*
 * times.h - how long kernels take that the simulator does not know: a table in a file, by name and
 * grid.
 *
 * A line is a pattern of names as fnmatch(3) has them, then a time in microseconds, then the time
 * of each wave of blocks (0 unless given), then grid=X,Y,Z and block=X,Y,Z where it is for launches
 * of that shape alone. The first line that fits a launch says its time. README.md says the same to
 * users.
 *
 * Thread safe; tables are never freed.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_TIMES_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

struct times;
/* The lines that fit a name. */
struct times_list;

struct times_shape {
    uint32_t grid[3], block[3];
    uint64_t waves; /* how often the device has to be filled for all blocks */
};

/* Reads a file. Lines that make no sense are left out, with one message on stderr each, at most
 * eight. NULL: it cannot be read, which is one message, too. */
struct times *times_open(const char *path);
/* `name` has to live as long as the process. Never NULL; the same for the same pointer. */
const struct times_list *times_of(struct times *t, const char *name);
/* The time of a launch in nanoseconds; `otherwise` where no line fits. */
uint64_t times_ns(const struct times_list *list, const struct times_shape *shape,
                  uint64_t otherwise);

#endif
