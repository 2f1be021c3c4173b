/*
 * floor.h - the functions that the sources call and glibc 2.17 lacks, and how the library gets by
 * in a program of musl's, whose loader ends the program where a preload's function is not found. A
 * build for packages includes this before each file.
 */
#ifndef __ASSEMBLER__
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- newer than glibc 2.17 ------------------------------------------------------------------- */

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC       1U
#define MFD_ALLOW_SEALING 2U
#endif

static inline int memfd_create(const char *name, unsigned int flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}

static inline ssize_t getrandom(void *buffer, size_t bytes, unsigned int flags)
{
    return syscall(SYS_getrandom, buffer, bytes, flags);
}

/* Linux 5.9 has it; before that, one by one. */
static inline int close_range(unsigned int first, unsigned int last, int flags)
{
    struct rlimit limit;

    if (syscall(SYS_close_range, first, last, flags) == 0)
        return 0;
    if (errno != ENOSYS || flags != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return -1;
    for (; first <= last && first < limit.rlim_cur; first++)
        close((int)first);
    return 0;
}

/* From here on the headers declare what is not there, so each has another name. */
#define gettid() ((pid_t)syscall(SYS_gettid))

/* ---- not in musl ----------------------------------------------------------------------------- */

#pragma weak dladdr1
#pragma weak pthread_attr_setaffinity_np

static inline int floor_dladdr1(const void *address, Dl_info *info, void **extra, int flags)
{
    void *program;
    struct link_map *map;

    if (dladdr1)
        return dladdr1(address, info, extra, flags);
    program = flags == RTLD_DL_LINKMAP && dladdr(address, info) ? dlopen(NULL, RTLD_LAZY) : NULL;
    if (!program || dlinfo(program, RTLD_DI_LINKMAP, &map) != 0)
        return 0;
    while (map && (void *)map->l_addr != info->dli_fbase)
        map = map->l_next;
    *extra = map;
    return !!map;
}
#define dladdr1 floor_dladdr1

static inline int floor_setaffinity(pthread_attr_t *attr, size_t bytes, const cpu_set_t *cpus)
{
    return pthread_attr_setaffinity_np ? pthread_attr_setaffinity_np(attr, bytes, cpus) : ENOSYS;
}
#define pthread_attr_setaffinity_np floor_setaffinity
#endif
