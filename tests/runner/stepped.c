/*
 * stepped.c - a process per test, on a stepped clock from its first instruction; see stepped.h.
 */
#include "stepped.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

/* The name that sandbox_enter gives to the simulated GPU of this process. */
static const char *id_of(pid_t pid)
{
    static char id[32];

    snprintf(id, sizeof(id), "it%d", (int)pid);
    return id;
}

/* Puts the clock in front of the libraries that the test preloads. */
static void clock_preload(void)
{
    const char *own = getenv("LD_PRELOAD");
    char all[4096];

    snprintf(all, sizeof(all), "%s%s%s", LIB_DIR "/simgpu/libsimgpu_clock.so", own ? ":" : "",
             own ? own : "");
    setenv("LD_PRELOAD", all, 1);
}

/* Turns off the randomisation of addresses, so that they are the same in every run. */
_Noreturn void stepped_become(const char *suite, const char *name)
{
    char test[256];

    snprintf(test, sizeof(test), "%s/%s", suite, name);
    setenv("SIMGPU_ID", id_of(getpid()), 1);
    setenv("SIMGPU_CLOCK", "step", 1);
    clock_preload();
    personality(ADDR_NO_RANDOMIZE);
    execl("/proc/self/exe", "/proc/self/exe", "--alone", test, NULL);
    fprintf(stderr, "%s cannot be started in a time of its own: %s\n", test, strerror(errno));
    _exit(1);
}

extern uint64_t simgpu_clock_lost(void) __attribute__((weak));
extern const char *simgpu_clock_whom(void) __attribute__((weak));

const char *stepped_lost(void)
{
    return simgpu_clock_lost && simgpu_clock_lost() ? simgpu_clock_whom() : NULL;
}

void stepped_remove(pid_t pid)
{
    char name[96];

    snprintf(name, sizeof(name), "/simgpu-clock-%u-%s", (unsigned)getuid(), id_of(pid));
    shm_unlink(name);
}
