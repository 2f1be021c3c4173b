/*
 * process.c - start, fork and exit of the process.
 *
 * Before the program uses CUDA the library does nothing, except that it reads its settings and
 * watches forks, because another thread may fork just when the first one finds the driver. It is
 * linked with -z nodelete: other objects' tables hold its addresses, so dlclose keeps it.
 */
#include "shim/lookup/each.h"
#include "shim/lookup/elf.h"
#include "shim/lookup/shim.h"
#include "shim/lookup/unknown.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic bool shim_off;
struct shim_life shim_life;

/* Only glibc has it. musl's loader accepts a preload, too, if it finds what is not weak. */
__attribute__((weak)) const char *gnu_get_libc_version(void);

static pid_t home; /* the process that has the shim's threads */

void shim_engage(bool on)
{
    atomic_store(&shim_off, !on);
    atomic_store(&shim_life.engaged, on);
}

/* The program has asked the driver to initialise. */
static _Atomic bool initialised;
static bool seen; /* the driver was found */

WRAPPED(cuInit, atomic_store(&initialised, true), , (unsigned int, Flags))

/* Neither the driver nor the shim's threads and connections survive a fork. If the driver was not
 * initialised there are none, and the child begins as its parent did, whatever was looked up. */
static void fork_child(void)
{
    elf_after_fork(true);
    config_after_fork();
    home = getpid();
    if (!atomic_load(&initialised)) {
        atomic_store(&shim_life.engaged, seen && !atomic_load(&shim_off));
        return;
    }
    shim_engage(false);
    shim_fork_child();
}

static void fork_parent(void)
{
    elf_after_fork(false);
}

/* Before all other code of the shim, so that the first wrapper knows whether to pass through. */
__attribute__((constructor)) static void process_start(void)
{
    const char *disable = secure_getenv("CUTIN_DISABLE");

    log_start();
    config_load();
    if (disable && strcmp(disable, "1") == 0)
        shim_engage(false);
    else if (!gnu_get_libc_version) {
        shim_engage(false);
        log_line(LOG_WARN, "this program's C library is not glibc, and CUDA's driver needs glibc; "
                           "cutin does nothing here");
    } else {
        home = getpid();
        pthread_atfork(elf_before_fork, fork_parent, fork_child);
    }
}

/* A child made by clone or _Fork does not have the shim's threads either, and ran no fork
 * handler. */
static void exit_handler(void)
{
    struct quiet quiet;

    if (getpid() != home)
        return;
    quiet_begin(&quiet);
    if (!shim_bypassed())
        shim_exit_drain();
    shim_engage(false); /* exit handlers and destructors may still call CUDA */
    quiet_end(&quiet);
}

void process_cuda_seen(void)
{
    config_get(); /* now, because it may warn */
    if (atomic_load(&shim_off))
        return;
    /* Before Linux 4.14 a child without fork handlers behaves as if it were its parent. */
    madvise(&shim_life, sizeof(shim_life), MADV_WIPEONFORK);
    seen = true;
    shim_engage(true);
    atexit(exit_handler);
    unknown_look_links();
}
