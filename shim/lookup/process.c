/*
 * process.c - start, fork and exit of the process we are in.
 *
 * Nothing happens before the program uses CUDA, except that CUTIN_DISABLE is looked at and forks
 * are watched, because another thread may fork just when the first one finds the driver. The
 * library is linked with -z nodelete: its addresses are in other people's tables, so dlclose keeps
 * it.
 */
#include "shim/lookup/elf.h"
#include "shim/lookup/quiet.h"
#include "shim/lookup/shim.h"
#include "shim/lookup/unknown.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic bool shim_off;
struct shim_life shim_life;

/* Weak: pace/exit.c and the libraries of the queues and the scheduler bring them. */
__attribute__((weak, visibility("hidden"))) void shim_exit_drain(void);
__attribute__((weak, visibility("hidden"))) void shim_fork_child(void);

/* glibc's alone. musl's loader takes a preload in, too, if it finds all that is not weak. */
__attribute__((weak)) const char *gnu_get_libc_version(void);

static pid_t home; /* the process that has our threads */

void shim_end(void)
{
    atomic_store(&shim_off, true);
    atomic_store(&shim_life.engaged, false);
}

void shim_begin(void)
{
    atomic_store(&shim_off, false);
    atomic_store(&shim_life.engaged, true);
}

/* Has the program asked the driver to initialise? */
static _Atomic bool initialised;
static bool seen; /* and is there a driver? */

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
    if (!atomic_load(&initialised)) {
        atomic_store(&shim_life.engaged, seen && !atomic_load(&shim_off));
        return;
    }
    shim_end();
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

    log_start();
    config_load();
    if (disable && strcmp(disable, "1") == 0)
        shim_end();
    else if (!gnu_get_libc_version) {
        shim_end();
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
    struct quiet quiet;

    if (getpid() != home)
        return;
    quiet_begin(&quiet);
    if (!shim_bypassed() && shim_exit_drain)
        shim_exit_drain();
    shim_end(); /* for exit handlers and destructors that still call CUDA */
    quiet_end(&quiet);
}

void process_cuda_seen(void)
{
    config_get(); /* now is the time for its warnings */
    if (atomic_load(&shim_off))
        return;
    /* Before Linux 4.14 a child without fork handlers goes on as if it were its parent. */
    madvise(&shim_life, sizeof(shim_life), MADV_WIPEONFORK);
    seen = true;
    shim_begin();
    atexit(exit_handler);
    unknown_look_links();
}
