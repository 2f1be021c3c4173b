/*
 * suspend_record.c - see suspend_record.h.
 */
#include "shim/pace/suspend_record.h"
#include "shim/learn/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 320 };

static int record_path(char out[PROFILE_PATH], const uint8_t uuid[16])
{
    char folder[PROFILE_PATH];

    profile_folder(folder);
    if (!folder[0])
        return -ENOENT;
    int n = snprintf(out, PROFILE_PATH, "%s/suspend-", folder);
    for (int i = 0; i < 16 && n > 0 && n < PROFILE_PATH - 3; i++)
        n += snprintf(out + n, PROFILE_PATH - (size_t)n, "%02x", uuid[i]);
    return 0;
}

/* The line's first word; NULL: there is none, or it is too long. */
static char *word(char *line, char *out, size_t room)
{
    size_t length = strcspn(line, " \n");

    if (length == 0 || length >= room)
        return NULL;
    memcpy(out, line, length);
    out[length] = '\0';
    return line + length + (line[length] == ' ');
}

int suspend_record_read(const uint8_t uuid[16], struct suspend_record *r)
{
    char path[PROFILE_PATH], line[LINE], *rest;
    int fd, rc = record_path(path, uuid);

    if (rc != 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -ENOENT;
    ssize_t n = read(fd, line, sizeof(line) - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    rest = word(line, r->version, sizeof(r->version));
    rest = rest ? word(rest, r->way, sizeof(r->way)) : NULL;
    snprintf(r->why, sizeof(r->why), "%s", rest ? rest : "");
    return rest ? 0 : -EINVAL;
}

int suspend_record_write(const uint8_t uuid[16], const struct suspend_record *r)
{
    char path[PROFILE_PATH], beside[PROFILE_PATH + 16], line[LINE];
    int rc = profile_folder_make(), fd;

    if (rc == 0)
        rc = record_path(path, uuid);
    if (rc != 0)
        return rc;
    snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    int n = snprintf(line, sizeof(line), "%s %s%s%s\n", r->version, r->way, r->why[0] ? " " : "",
                     r->why);
    fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = write(fd, line, (size_t)n) == n ? 0 : -EIO;
    if (close(fd) != 0 || (rc == 0 && rename(beside, path) != 0))
        rc = rc ? rc : -errno;
    if (rc != 0)
        unlink(beside);
    return rc;
}
