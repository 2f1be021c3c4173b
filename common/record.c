/*
 * record.c - see record.h.
 */
#include "common/record.h"
#include "common/profile_file.h"
#include "common/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 320, NAME = 64 };

enum whose { USERS, MACHINES };

/* Of a record's file, in either folder: the key has 32 digits. */
static void name_make(char name[NAME], const char *what, const uint8_t key[16])
{
    int n = snprintf(name, NAME, "%s-", what);

    for (int i = 0; i < 16 && n < NAME - 3; i++)
        n += snprintf(name + n, NAME - (size_t)n, "%02x", key[i]);
}

static int path_make(char out[PROFILE_PATH], enum whose whose, const char *name)
{
    char folder[PROFILE_PATH] = RECORD_MACHINE_FOLDER;

    if (whose == USERS)
        profile_folder(folder);
    if (!folder[0])
        return -ENOENT;
    return snprintf(out, PROFILE_PATH, "%s/%s", folder, name) < PROFILE_PATH ? 0 : -ENAMETOOLONG;
}

static int read_there(enum whose whose, const char *name, struct record *r)
{
    char path[PROFILE_PATH], line[LINE], *rest = line, *end;
    int fd, rc = path_make(path, whose, name);
    struct stat st = {0};

    if (rc != 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -ENOENT;
    ssize_t n = read(fd, line, sizeof(line) - 1);
    fstat(fd, &st);
    close(fd);
    time_t now = time(NULL);
    r->age_s = now > st.st_mtime ? (uint64_t)(now - st.st_mtime) : 0;
    line[n > 0 ? n : 0] = '\0';
    end = strchr(line, '\n');
    if (!end)
        return -EINVAL; /* it was cut short */
    *end = '\0';
    const char *version = strsep(&rest, " "), *way = strsep(&rest, " ");
    if (!way || !*version || strlen(version) >= sizeof(r->version) || !*way ||
        strlen(way) >= sizeof(r->way))
        return -EINVAL;
    strcpy(r->version, version);
    strcpy(r->way, way);
    snprintf(r->why, sizeof(r->why), "%s", rest ? rest : "");
    return 0;
}

int record_read(const char *what, const uint8_t key[16], const char *version, struct record *r)
{
    struct record own, shared;
    char name[NAME];
    name_make(name, what, key);
    int rc = read_there(USERS, name, &own), also = read_there(MACHINES, name, &shared);
    bool both = rc == 0 && also == 0;
    bool fits = both && strcmp(own.version, version) == 0;
    bool shared_fits = both && strcmp(shared.version, version) == 0;

    if (both ? fits != shared_fits ? shared_fits : shared.age_s < own.age_s : also == 0)
        *r = shared;
    else
        *r = own;
    return also == 0 ? 0 : rc;
}

static int write_there(enum whose whose, const char *name, const struct record *r)
{
    char path[PROFILE_PATH], beside[PROFILE_PATH + 16], line[LINE];
    int rc = path_make(path, whose, name), fd;

    if (rc != 0)
        return rc;
    snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    int n = snprintf(line, sizeof(line), "%s %s%s%s\n", r->version, r->way, r->why[0] ? " " : "",
                     r->why);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    rc = write(fd, line, (size_t)n) == n ? 0 : -EIO;
    if (rc == 0 && fchmod(fd, whose == USERS ? 0600 : 0644) != 0) /* whatever the umask is */
        rc = -errno;
    if (close(fd) != 0 || (rc == 0 && rename(beside, path) != 0))
        rc = rc ? rc : -errno;
    if (rc != 0)
        unlink(beside);
    return rc;
}

int record_write(const char *what, const uint8_t key[16], const struct record *r)
{
    int rc = profile_folder_make();
    char name[NAME];

    name_make(name, what, key);
    return rc ? rc : write_there(USERS, name, r);
}

int record_publish(const char *what, const char *version)
{
    char path[PROFILE_PATH];
    struct record r, there;
    size_t n = strlen(what);
    int rc = 0;

    profile_folder(path);
    DIR *folder = path[0] ? opendir(path) : NULL;
    for (struct dirent *e; folder && rc == 0 && (e = readdir(folder));) {
        const char *name = e->d_name;

        if (strncmp(name, what, n) != 0 || name[n] != '-' ||
            strspn(name + n + 1, "0123456789abcdef") != 32 || name[n + 33])
            continue;
        if (read_there(USERS, name, &r) != 0 || strcmp(r.version, version) != 0 ||
            (read_there(MACHINES, name, &there) == 0 && strcmp(there.version, version) == 0 &&
             there.age_s <= r.age_s))
            continue;
        /* All users may read it, and only its owner may write. */
        rc = folder_own(RECORD_MACHINE_FOLDER, 0755);
        if (rc >= 0)
            rc = chmod(RECORD_MACHINE_FOLDER, 0755) == 0 ? 0 : -errno;
        if (rc == 0)
            rc = write_there(MACHINES, name, &r);
    }
    if (folder)
        closedir(folder);
    return rc;
}

int record_cost(const struct record *r, const char *format)
{
    size_t words = strcspn(format, "%");
    const char *at = r->why;
    uint64_t ns = 0;

    while (*at && strncmp(at, format, words) != 0)
        at++;
    return *at && number_begin(at + words, INT32_MAX, &ns) ? (int)ns : 0;
}

/* FNV-1a, twice. */
void record_key(uint8_t key[16], const char *gpu_name)
{
    uint64_t hash[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    for (int i = 0; i < 64 && gpu_name[i]; i++)
        for (int k = 0; k < 2; k++)
            hash[k] = (hash[k] ^ (uint8_t)(gpu_name[i] + k)) * UINT64_C(0x100000001b3);
    memcpy(key, hash, sizeof(hash));
}

void record_version(char out[64], int cuda_version)
{
    char module[32] = "-";
    int fd = open("/sys/module/nvidia/version", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t n = read(fd, module, sizeof(module) - 1);
        close(fd);
        module[n > 0 ? n : 0] = '\0';
        module[strcspn(module, " \n")] = '\0';
    }
    snprintf(out, 64, "%d/%s", cuda_version, module);
}
