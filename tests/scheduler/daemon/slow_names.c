/*
 * slow_names.c - preloaded into the daemon: a name service that does not answer.
 */
#include <pwd.h>
#include <unistd.h>

__attribute__((visibility("default"))) struct passwd *getpwuid(uid_t uid)
{
    for (;;)
        pause();
}
