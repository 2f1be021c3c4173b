/*
 * record.c - see record.h.
 */
#include "common/record.h"
#include "common/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 320 };

/* Of the file, and whose it may be to read. */
struct place {
    char folder[PROFILE_PATH];
    mode_t mode;
};

static struct place place_user(void)
{
    struct place p = {.mode = 0600};

    profile_folder(p.folder);
    return p;
}

static struct place place_machine(void)
{
    return (struct place){RECORD_MACHINE_FOLDER, 0644};
}

static int record_path(char out[PROFILE_PATH], const struct place *place, const char *what,
                       const uint8_t key[16])
{
    if (!place->folder[0])
        return -ENOENT;
    int n = snprintf(out, PROFILE_PATH, "%s/%s-", place->folder, what);
    for (int i = 0; i < 16 && n > 0 && n < PROFILE_PATH - 3; i++)
        n += snprintf(out + n, PROFILE_PATH - (size_t)n, "%02x", key[i]);
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

static int read_there(const struct place *place, const char *what, const uint8_t key[16],
                      struct record *r)
{
    char path[PROFILE_PATH], line[LINE], *rest;
    int fd, rc = record_path(path, place, what, key);
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
    line[strcspn(line, "\n")] = '\0';
    rest = word(line, r->version, sizeof(r->version));
    rest = rest ? word(rest, r->way, sizeof(r->way)) : NULL;
    snprintf(r->why, sizeof(r->why), "%s", rest ? rest : "");
    return rest ? 0 : -EINVAL;
}

int record_read(const char *what, const uint8_t key[16], struct record *r)
{
    const struct place user = place_user(), machine = place_machine();
    struct record own, shared;
    int rc = read_there(&user, what, key, &own), also = read_there(&machine, what, key, &shared);

    *r = also == 0 && (rc != 0 || shared.age_s < own.age_s) ? shared : own;
    return also == 0 ? 0 : rc;
}

static int write_there(const struct place *place, const char *what, const uint8_t key[16],
                       const struct record *r)
{
    char path[PROFILE_PATH], beside[PROFILE_PATH + 16], line[LINE];
    int rc = record_path(path, place, what, key), fd;

    if (rc != 0)
        return rc;
    snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    int n = snprintf(line, sizeof(line), "%s %s%s%s\n", r->version, r->way, r->why[0] ? " " : "",
                     r->why);
    fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = write(fd, line, (size_t)n) == n ? 0 : -EIO;
    if (rc == 0 && fchmod(fd, place->mode) != 0) /* whatever the umask is */
        rc = -errno;
    if (close(fd) != 0 || (rc == 0 && rename(beside, path) != 0))
        rc = rc ? rc : -errno;
    if (rc != 0)
        unlink(beside);
    return rc;
}

int record_write(const char *what, const uint8_t key[16], const struct record *r)
{
    const struct place user = place_user();
    int rc = profile_folder_make();

    return rc ? rc : write_there(&user, what, key, r);
}

int record_share(const char *what, const uint8_t key[16])
{
    const struct place user = place_user(), machine = place_machine();
    struct record r, there;
    int rc = read_there(&user, what, key, &r);

    if (read_there(&machine, what, key, &there) == 0 && (rc != 0 || there.age_s <= r.age_s))
        return 0;
    if (rc == 0 && mkdir(machine.folder, 0755) == 0 && chmod(machine.folder, 0755) != 0)
        rc = -errno;
    return rc ? rc : write_there(&machine, what, key, &r);
}

/* Not by sscanf: see config.c. */
int record_gate_cost(const struct record *r)
{
    const char *at = RECORD_GATE_COST, *digit = r->why;
    int ns = 0;

    for (; *at != '%'; at++, digit++)
        if (*digit != *at)
            return 0;
    for (; *digit >= '0' && *digit <= '9' && ns < 10000000; digit++)
        ns = ns * 10 + *digit - '0';
    return ns;
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
