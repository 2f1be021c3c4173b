/*
 * listener.c - the folder of a daemon's socket: which daemon makes and removes it, and a daemon
 * that starts while another one ends.
 */
#include "scheduler/daemon/daemon.h"
#include "tests/scheduler/place.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct place place;
static char folder[80], path[96], lock[112];
static enum moment { NEVER, AT_MKDIR, AT_LOCK } another_ends;

static void set_up(void)
{
    place_new(&place);
    snprintf(folder, sizeof(folder), "%s/new", place.folder);
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(lock, sizeof(lock), "%s.lock", path);
}

static void tear_down(void)
{
    cr_expect(place_free(&place), "something is left in %s", place.folder);
}

TestSuite(listener, .init = set_up, .fini = tear_down);

/* Replaces libc's: another daemon, which owns the folder, ends at that moment. */
int mkdir(const char *name, mode_t mode)
{
    int rc = (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode);

    if (rc != 0 && another_ends == AT_MKDIR) {
        another_ends = NEVER;
        rmdir(folder);
        errno = EEXIST;
    }
    return rc;
}

int flock(int fd, int operation)
{
    if (another_ends == AT_LOCK) {
        another_ends = NEVER;
        unlink(lock);
        rmdir(folder);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static int open_and_close(void)
{
    static const struct conf conf = {.socket_mode = 0600};
    struct listener l;
    int rc = listener_open(&l, path, &conf);

    if (rc == 0) {
        cr_expect_eq(access(path, F_OK), 0);
        listener_close(&l);
    }
    return rc;
}

static bool there(void)
{
    return access(folder, F_OK) == 0;
}

Test(listener, own_folder_is_removed_on_close)
{
    cr_assert_eq(open_and_close(), 0);
    cr_expect_not(there());
}

Test(listener, existing_folder_is_kept)
{
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert_eq(open_and_close(), 0);
    cr_expect(there());
    cr_assert_eq(rmdir(folder), 0);
}

Test(listener, nonempty_folder_is_kept)
{
    static const struct conf conf = {.socket_mode = 0600};
    struct listener l;
    char file[96];

    snprintf(file, sizeof(file), "%s/file", folder);
    cr_assert_eq(listener_open(&l, path, &conf), 0, "%s", l.why);
    fclose(fopen(file, "w"));
    listener_close(&l);
    cr_expect_eq(access(file, F_OK), 0);
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(rmdir(folder), 0);
}

Test(listener, default_folder_is_kept)
{
    setenv("XDG_RUNTIME_DIR", place.folder, 1);
    snprintf(folder, sizeof(folder), "%s/cutin", place.folder);
    snprintf(path, sizeof(path), "%s/cutin.sock", folder);
    cr_assert_eq(open_and_close(), 0);
    cr_expect(there());
    cr_assert_eq(rmdir(folder), 0);
}

static void is_made_again(enum moment moment)
{
    cr_assert_eq(mkdir(folder, 0700), 0);
    another_ends = moment;
    cr_expect_eq(open_and_close(), 0);
    cr_expect_eq(another_ends, NEVER);
    cr_expect_not(there());
}

Test(listener, folder_removed_before_open_is_recreated)
{
    is_made_again(AT_MKDIR);
}

Test(listener, folder_removed_before_lock_is_recreated)
{
    is_made_again(AT_LOCK);
}
