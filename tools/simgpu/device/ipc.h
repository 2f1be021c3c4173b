/*
 * ipc.h - files of this process that others of the machine may open: device memory, and what events
 * mean. Nobody keeps a list. A handle that goes from process to process says whose descriptor the
 * file is, and bears a number that only the file with that number answers to.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_IPC_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ipc_file {
    uint64_t number;  /* random, part of the file's name; 0: there is no file */
    uint64_t machine; /* which SIMGPU_ID */
    int32_t pid, fd;  /* whose, and its descriptor there */
};

/* Make a file of `bytes` zeroes, close-on-exec. 0 or -errno; a limit on file sizes is respected. */
int ipc_file_make(struct ipc_file *f, size_t bytes);
/* Is it still open in this process? A program may close descriptors that it did not open. */
bool ipc_file_there(const struct ipc_file *f);
/* A descriptor of another process's file. -EEXIST: it is this one's; -ENOENT: it is gone or never
 * was; -EXDEV: it belongs to other devices. */
int ipc_file_open(const struct ipc_file *f);

#endif
