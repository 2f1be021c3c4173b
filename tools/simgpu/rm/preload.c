/*
 * preload.c - see preload.h.
 */
#include "tools/simgpu/rm/preload.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static _Atomic int served = -1;
static int (*managed)(unsigned long request, void *arg);

EXPORT rm_serve_fn simgpu_rm_serve;
void simgpu_rm_serve(int fd, int (*manage)(unsigned long request, void *arg))
{
    managed = manage;
    atomic_store(&served, fd);
}

/* libc declares it with an ellipsis, which makes no difference to callers. */
EXPORT int simgpu_ioctl(int fd, unsigned long request, void *arg) __asm__("ioctl");
int simgpu_ioctl(int fd, unsigned long request, void *arg)
{
    if (fd >= 0 && fd == atomic_load(&served))
        return managed(request, arg);
    return (int)syscall(SYS_ioctl, fd, request, arg);
}
