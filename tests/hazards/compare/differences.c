/*
 * differences.c - programs that differ under cutin, each in one way that compare.c has to find.
 */
#include "tests/hazards/hazard.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "shim/cutin.h"

HAZARD(a_file_is_left)
{
    if (cutin_version())
        close(open("left", O_CREAT | O_WRONLY, 0666));
}

HAZARD(a_descriptor_is_left)
{
    if (cutin_version())
        dup(STDIN_FILENO);
}

HAZARD(a_child_is_not_waited_for)
{
    if (cutin_version() && fork() == 0)
        _exit(0);
}

HAZARD(a_child_is_left_running)
{
    if (fork() == 0) {
        if (cutin_version())
            pause();
        _exit(0);
    }
}

HAZARD(program_ends_by_a_signal)
{
    printf("it ends\n");
    if (cutin_version())
        raise(SIGKILL);
}
