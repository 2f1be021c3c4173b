/*
 * profile_file.c - the file that keeps what was learned about kernels (see profile_file.h).
 */
#include "shim/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "CUTINPRF";
enum { VERSION = 1, FIRST_NS = 256 };

/* ---- durations ----------------------------------------------------------------------------- */

/* 1, sqrt(2), 2, ... times FIRST_NS. */
uint32_t profile_bin_ns(uint32_t bin)
{
    uint32_t power = (uint32_t)FIRST_NS << bin / 2;

    return bin % 2 ? (uint32_t)((uint64_t)power * 46341 >> 15) : power;
}

uint32_t profile_bin(uint32_t ns)
{
    uint32_t bin = 0;

    while (bin + 1 < PROFILE_BINS && profile_bin_ns(bin + 1) <= ns)
        bin++;
    return bin;
}

uint32_t profile_percentile_ns(const struct profile_row *row, double percent)
{
    uint32_t total = 0, below = 0;
    double wanted;

    for (uint32_t i = 0; i < PROFILE_BINS; i++)
        total += row->bin[i];
    wanted = total * percent / 100;
    for (uint32_t i = 0; total && i < PROFILE_BINS; below += row->bin[i++]) {
        if (!row->bin[i] || below + row->bin[i] < wanted)
            continue;
        double low = profile_bin_ns(i), high = i + 1 < PROFILE_BINS ? profile_bin_ns(i + 1) : low;
        return (uint32_t)(low + (high - low) * (wanted - below) / row->bin[i]);
    }
    return 0;
}

static void halve(struct profile_row *row)
{
    for (int i = 0; i < PROFILE_BINS; i++)
        row->bin[i] = (uint16_t)((row->bin[i] + 1) / 2);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* FNV-1a over words: no secret, but no torn or flipped byte gets past it either. */
static uint64_t checksum(const struct profile_row *rows, uint32_t n)
{
    uint64_t sum = 0xcbf29ce484222325u, word;
    const unsigned char *at = (const unsigned char *)rows;

    for (size_t left = n * sizeof(*rows); left >= sizeof(word);
         left -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    return sum;
}

static int read_all(int fd, void *out, size_t bytes)
{
    for (size_t have = 0; have < bytes;) {
        ssize_t n = read(fd, (char *)out + have, bytes - have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EBADMSG;
        have += (size_t)n;
    }
    return 0;
}

static int read_fd(int fd, struct profile_header *h, struct profile_row *rows)
{
    char more;
    int rc = read_all(fd, h, sizeof(*h));

    if (rc != 0)
        return rc;
    if (memcmp(h->magic, magic, sizeof(magic)) != 0 || h->version != VERSION ||
        h->rows > PROFILE_ROWS)
        return -EBADMSG;
    rc = read_all(fd, rows, h->rows * sizeof(*rows));
    if (rc != 0)
        return rc;
    if (read(fd, &more, 1) != 0 || checksum(rows, h->rows) != h->checksum)
        return -EBADMSG;
    h->gpu[sizeof(h->gpu) - 1] = '\0';
    for (uint32_t i = 0; i < h->rows; i++)
        rows[i].name[PROFILE_NAME - 1] = '\0';
    return (int)h->rows;
}

int profile_read(const char *path, struct profile_header *header, struct profile_row *rows)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
    struct profile_header own;

    if (fd < 0)
        return -errno;
    rc = read_fd(fd, header ? header : &own, rows);
    close(fd);
    return rc;
}

/* ---- where --------------------------------------------------------------------------------- */

void profile_folder(char out[PROFILE_PATH])
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n = -1;

    /* By the XDG specification a relative path is to be ignored. */
    if (cache && cache[0] == '/')
        n = snprintf(out, PROFILE_PATH, "%s/cutin", cache);
    else if (home && home[0] == '/')
        n = snprintf(out, PROFILE_PATH, "%s/.cache/cutin", home);
    if (n < 0 || n > PROFILE_PATH - 64) /* a file's name comes behind it */
        out[0] = '\0';
}

/* The folder and its parent; what is above them is somebody else's to make. */
static int make_folder(char *folder)
{
    char *slash = strrchr(folder, '/');

    *slash = '\0';
    mkdir(folder, 0700);
    *slash = '/';
    return mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

void profile_path(char out[PROFILE_PATH], const uint8_t uuid[16])
{
    size_t n;

    profile_folder(out);
    if (!out[0])
        return;
    n = strlen(out);
    out[n++] = '/'; /* profile_folder left room */
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(out + n, PROFILE_PATH - n, "%02x", uuid[i]);
    snprintf(out + n, PROFILE_PATH - n, ".profile");
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Whoever has the lock on the file of that name is the writer. The file that a writer renames is
 * not the temporary one any more, so look again. */
static int lock_temporary(const char *path)
{
    struct stat ours, there;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), rc = 0;

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        rc = -errno;
    else if (fstat(fd, &ours) != 0 || stat(path, &there) != 0 || ours.st_ino != there.st_ino ||
             ours.st_dev != there.st_dev)
        rc = -EAGAIN;
    else if (ftruncate(fd, 0) != 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

static int write_all(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, (const char *)data + done, bytes - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        done += (size_t)n;
    }
    return 0;
}

static struct profile_row *row_find(struct profile_row *rows, uint32_t n, uint64_t key,
                                    uint32_t bucket)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].key == key && rows[i].bucket == bucket)
            return &rows[i];
    return NULL;
}

static struct profile_row *row_room(struct profile_row *rows, uint32_t *n)
{
    struct profile_row *oldest = rows;

    if (*n < PROFILE_ROWS)
        return &rows[(*n)++];
    for (uint32_t i = 1; i < *n; i++)
        if (rows[i].used_h < oldest->used_h)
            oldest = &rows[i];
    return oldest;
}

/* A process's rows have what it sampled and launched itself. */
static void row_merge(struct profile_row *to, const struct profile_row *from)
{
    uint64_t launches = to->launches + from->launches;
    uint32_t samples = to->samples + from->samples;
    uint32_t bin[PROFILE_BINS], most = 0;

    for (int i = 0; i < PROFILE_BINS; i++) {
        bin[i] = (uint32_t)to->bin[i] + from->bin[i];
        most = bin[i] > most ? bin[i] : most;
    }
    *to = *from;
    to->launches = launches;
    to->samples = samples;
    to->changed = 0;
    for (int i = 0; i < PROFILE_BINS; i++)
        to->bin[i] = (uint16_t)(most > UINT16_MAX ? bin[i] / 2 : bin[i]);
    if (most > UINT16_MAX / 2)
        halve(to);
}

static int write_file(int fd, struct profile_header *h, const struct profile_row *rows)
{
    h->checksum = checksum(rows, h->rows);
    int rc = write_all(fd, h, sizeof(*h));
    return rc == 0 ? write_all(fd, rows, h->rows * sizeof(*rows)) : rc;
}

int profile_merge(const uint8_t uuid[16], const char *gpu, const struct profile_row *rows,
                  uint32_t n)
{
    char folder[PROFILE_PATH], path[PROFILE_PATH], temporary[PROFILE_PATH + 8];
    struct profile_header h = {.version = VERSION};
    struct profile_row *all;
    int fd, have, rc;

    profile_folder(folder);
    if (!folder[0])
        return -ENOENT;
    rc = make_folder(folder);
    if (rc != 0)
        return rc;
    profile_path(path, uuid);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    all = calloc(PROFILE_ROWS, sizeof(*all));
    if (!all)
        return -ENOMEM;
    fd = lock_temporary(temporary);
    if (fd < 0) {
        free(all);
        return fd == -EWOULDBLOCK ? -EAGAIN : fd;
    }
    have = profile_read(path, NULL, all);
    h.rows = have > 0 ? (uint32_t)have : 0;
    for (uint32_t i = 0; i < n; i++) {
        struct profile_row *row;

        if (!rows[i].changed)
            continue;
        row = row_find(all, h.rows, rows[i].key, rows[i].bucket);
        if (!row)
            memset(row = row_room(all, &h.rows), 0, sizeof(*row));
        row_merge(row, &rows[i]);
    }
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.uuid, uuid, 16);
    snprintf(h.gpu, sizeof(h.gpu), "%s", gpu);
    rc = write_file(fd, &h, all);
    if (rc == 0 && rename(temporary, path) != 0)
        rc = -errno;
    if (rc != 0)
        unlink(temporary);
    close(fd);
    free(all);
    return rc;
}
