/*
 * conf.c - fuzzes cutind.conf: any bytes are read, or refused in one line, and what was read keeps
 * its bounds. Users and groups are invented here, since libc would read /etc/passwd and /etc/group
 * for each name.
 */
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/conf.h"

struct passwd *getpwnam(const char *name)
{
    static struct passwd entry;

    entry.pw_uid = (uid_t)name[0];
    return name[0] < 'q' ? &entry : NULL;
}

struct group *getgrnam(const char *name)
{
    static struct group entry;

    entry.gr_gid = (gid_t)name[0];
    return name[0] < 'q' ? &entry : NULL;
}

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char cgroups[] = "1:cpu:/a/b\n0::/\n";
    struct subject who = {.uid = 7, .gid = 8, .cgroups = cgroups};
    struct conf conf;
    char why[512] = "";
    FILE *in = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

    if (!in)
        return 0;
    conf_default(&conf, 1000);
    if (conf_parse(&conf, in, "FILE", false, why, sizeof(why)) == 0) {
        require(conf.loaded && conf.min_share_percent <= 90 && conf.policy);
        require(conf.clients_per_user >= 1 && conf.socket_mode <= 0777);
        require(permission_level(&conf, &who, 3) <= 3);
    } else {
        require(!conf.loaded && why[0] && !strchr(why, '\n'));
    }
    conf_clear(&conf);
    fclose(in);
    return 0;
}
