/*
 * hostile.c - a user who means no good to real time, at a daemon that is not his (docs/security.md).
 * Needs root, for the second user.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bare.h"
#include "place.h"
#include "scheduler/query.h"

enum { OTHER = 65534 };

static struct place place;

static void set_up(void)
{
    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    place_new(&place);
}

static void tear_down(void)
{
    if (geteuid() == 0)
        cr_assert(place_free(&place));
}

TestSuite(hostile, .init = set_up, .fini = tear_down, .timeout = 100);

Test(hostile, a_name_service_that_hangs_does_not_stop_the_daemon)
{
    struct client_row *rows;
    union message m;
    size_t n;
    int fd;

    setenv("LD_PRELOAD", LIB_DIR "/tests/libslow_names.so", 1);
    place_start(&place);
    unsetenv("LD_PRELOAD");
    fd = bare_connect(place.socket, OTHER);
    bare_hello(fd, 3);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0, "the daemon answers");
    free(rows);
    cr_assert_eq(bare_wait(fd, MESSAGE_WELCOME, &m), 0);
    cr_assert(m.welcome.refused && strstr(m.welcome.reason, "`rt = uid:65534`"), "%s",
              m.welcome.reason);
    close(fd);
}
