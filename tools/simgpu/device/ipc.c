/*
 * ipc.c - see ipc.h. The files have no name in any folder, so they vanish with their last user.
 */
#include "tools/simgpu/device/ipc.h"
#include "tools/simgpu/device/attribute.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t machine(void)
{
    uint64_t half[2];
    attribute_uuid(0, (uint8_t *)half);
    return half[0];
}

/* A write beyond the limit on file sizes would send the process a signal. */
static bool size_allowed(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

int ipc_file_make(struct ipc_file *f, size_t bytes)
{
    char name[32];
    *f = (struct ipc_file){.machine = machine(), .pid = getpid()};
    uint64_t number = 0;
    if (!size_allowed(bytes))
        return -EFBIG;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number) || number == 0)
        return -EAGAIN;
    snprintf(name, sizeof(name), "simgpu-%016" PRIx64, number);
    f->fd = memfd_create(name, MFD_CLOEXEC);
    if (f->fd < 0)
        return -errno;
    if (ftruncate(f->fd, (off_t)bytes) != 0) {
        int rc = -errno;
        close(f->fd);
        return rc;
    }
    f->number = number;
    return 0;
}

/* Whether the target of the link has the number in its name. */
static bool number_matches(const char *link, uint64_t number)
{
    char target[64] = "";
    uint64_t found = 0;
    return readlink(link, target, sizeof(target) - 1) > 0 &&
           sscanf(target, "/memfd:simgpu-%16" SCNx64, &found) == 1 && found == number;
}

bool ipc_file_there(const struct ipc_file *f)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", f->fd);
    return f->number != 0 && number_matches(link, f->number);
}

int ipc_file_open(const struct ipc_file *f)
{
    char link[64];
    if (f->number == 0)
        return -ENOENT;
    if (f->machine != machine())
        return -EXDEV;
    if (ipc_file_there(f) && f->pid == getpid())
        return -EEXIST;
    snprintf(link, sizeof(link), "/proc/%d/fd/%d", f->pid, f->fd);
    int fd = open(link, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -ENOENT;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (number_matches(link,
                       f->number)) /* of the opened file: the descriptor may be another by now */
        return fd;
    close(fd);
    return -ENOENT;
}
