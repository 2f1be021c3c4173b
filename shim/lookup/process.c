/*
 * process.c - start, fork and exit of the process we are in.
 *
 * Nothing happens before the program uses CUDA, except that CUTIN_DISABLE is looked at and forks
 * are watched, because another thread may fork just when the first one finds the driver. The
 * library is linked with -z nodelete: its addresses are in other people's tables, so dlclose keeps
 * it.
 */
#include "shim/lookup/elf.h"
#include "shim/lookup/shim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic bool shim_bypass;

/* Weak: drain.c and the libraries of the queues and the scheduler bring them. */
__attribute__((weak, visibility("hidden"))) void shim_exit_drain(void);
__attribute__((weak, visibility("hidden"))) void shim_fork_child(void);

/* glibc's alone. musl's loader takes a preload in, too, if it finds all that is not weak. */
__attribute__((weak)) const char *gnu_get_libc_version(void);

static pid_t home; /* the process that has our threads */

/* Has the program asked the driver to initialise? */
static _Atomic bool initialised;

EXPORT CUresult cuInit(unsigned int Flags)
{
    atomic_store(&initialised, true);
    return REAL(cuInit)(Flags);
}

/* The driver does not survive a fork, and neither do our threads and connections; without them the
 * child begins as its parent did, whatever of the driver was looked up. */
static void fork_child(void)
{
    elf_after_fork(true);
    config_after_fork();
    home = getpid();
    if (!atomic_load(&initialised))
        return;
    atomic_store(&shim_bypass, true);
    if (shim_fork_child)
        shim_fork_child();
}

static void fork_parent(void)
{
    elf_after_fork(false);
}

/* Before any other code of ours, so that the very first wrapper already passes through. */
__attribute__((constructor)) static void process_start(void)
{
    const char *disable = secure_getenv("CUTIN_DISABLE");

    if (disable && strcmp(disable, "1") == 0)
        atomic_store(&shim_bypass, true);
    else if (!gnu_get_libc_version) {
        atomic_store(&shim_bypass, true);
        log_line(LOG_WARN, "this program's C library is not glibc, and CUDA's driver needs glibc; "
                           "cutin does nothing here");
    } else {
        home = getpid();
        pthread_atfork(elf_before_fork, fork_parent, fork_child);
    }
}

/* A child that was made by clone or _Fork has our threads as little, and no handler said so. */
static void exit_handler(void)
{
    int saved = errno;

    if (getpid() != home)
        return;
    if (!atomic_load(&shim_bypass) && shim_exit_drain)
        shim_exit_drain();
    atomic_store(&shim_bypass, true); /* for exit handlers and destructors that still call CUDA */
    errno = saved;
}

void process_watch_exit(void)
{
    atexit(exit_handler);
}

void process_cuda_seen(void)
{
    config_get(); /* now is the time for its warnings */
    if (atomic_load(&shim_bypass))
        return;
    process_watch_exit();
}
