/*
 * ipc.h - files of this process that other processes of the machine may open: device memory, and
 * the meaning of events. There is no list of them. A handle that goes to another process says which
 * descriptor of which process the file is, and a number that only this file has in its name.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_IPC_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ipc_file {
    uint64_t number;  /* random, part of the file's name; 0: there is no file */
    uint64_t machine; /* stands for the SIMGPU_ID */
    int32_t pid, fd;  /* the process, and its descriptor */
};

/* Makes a file of `bytes` zeroes, close-on-exec. 0 or -errno; respects a limit on file sizes. */
int ipc_file_make(struct ipc_file *f, size_t bytes);
/* Whether it is still open in this process. A program may close descriptors not its own. */
bool ipc_file_there(const struct ipc_file *f);
/* Opens another process's file. -EEXIST: it is this process's; -ENOENT: it is gone or never
 * existed; -EXDEV: it belongs to other devices. */
int ipc_file_open(const struct ipc_file *f);

#endif
