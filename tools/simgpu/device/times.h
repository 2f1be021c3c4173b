/*
 * times.h - the times of kernels that the simulator does not know: a table in a file, by name and
 * grid.
 *
 * A line has a pattern of names as in fnmatch(3), then a time in microseconds, then the time of
 * each wave of blocks (0 unless given). grid=X,Y,Z and block=X,Y,Z may follow, and limit the line
 * to launches of that shape. The first line that fits a launch gives its time. README.md says the
 * same to users.
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
    uint64_t waves; /* how often the blocks fill the device */
};

/* Reads a file. Lines that make no sense are left out, with one message each on stderr, at most
 * eight. NULL: the file cannot be read, which is one message as well. */
struct times *times_open(const char *path);
/* `name` has to live as long as the process. Never NULL; one pointer has one list. */
const struct times_list *times_of(struct times *t, const char *name);
/* The time of a launch in nanoseconds; `otherwise` if no line fits. */
uint64_t times_ns(const struct times_list *list, const struct times_shape *shape,
                  uint64_t otherwise);

#endif
