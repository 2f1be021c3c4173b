/*
 * profile_file.c - the file that keeps what was learned about kernels (see profile_file.h).
 */
#include "common/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/names.h"

static const char magic[8] = "CUTINPRF";
enum { VERSION = 4, FIRST_NS = 256 };

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

/* ---- reading ------------------------------------------------------------------------------- */

/* FNV-1a over words: it is no secret, but no torn or flipped byte gets past it. */
static uint64_t sum_add(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t word;

    for (; bytes >= sizeof(word); bytes -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    return sum;
}

static uint64_t checksum(const struct profile_header *h, const struct profile_row *rows,
                         const char *text)
{
    return sum_add(sum_add(0xcbf29ce484222325u, rows, h->rows * sizeof(*rows)), text,
                   h->text_bytes);
}

/* Moves all of it, whatever signals come. -EBADMSG: the file ends before. */
static int move_all(int fd, bool writes, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        ssize_t n = writes ? write(fd, at, bytes - done) : read(fd, at, bytes - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EBADMSG;
        done += (size_t)n;
    }
    return 0;
}

static int read_fd(int fd, struct profile_header *h, struct profile_row *rows,
                   struct profile_text *text)
{
    char more;
    int rc = move_all(fd, false, h, sizeof(*h));

    if (rc != 0)
        return rc;
    if (memcmp(h->magic, magic, sizeof(magic)) != 0 || h->version != VERSION ||
        h->rows > PROFILE_ROWS || h->text_bytes > PROFILE_TEXT || h->text_bytes % 8 != 0)
        return -EBADMSG;
    rc = move_all(fd, false, rows, h->rows * sizeof(*rows));
    if (rc == 0)
        rc = move_all(fd, false, text->text, h->text_bytes);
    if (rc != 0)
        return rc;
    text->bytes = (uint32_t)h->text_bytes;
    /* A checksum by a foreign writer does not vouch that every name has its place and its end. */
    if (read(fd, &more, 1) != 0 || checksum(h, rows, text->text) != h->checksum ||
        (text->bytes && (text->text[0] || text->text[text->bytes - 1])))
        return -EBADMSG;
    for (uint32_t i = 0; i < h->rows; i++)
        if (rows[i].at_most > 1 || (rows[i].name && rows[i].name >= text->bytes))
            return -EBADMSG;
    h->gpu[sizeof(h->gpu) - 1] = '\0';
    return (int)h->rows;
}

int profile_read(const char *path, struct profile_header *header, struct profile_row *rows,
                 struct profile_text *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
    struct profile_header own;

    if (fd < 0)
        return -errno;
    rc = read_fd(fd, header ? header : &own, rows, text);
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
    if (n < 0 || n > PROFILE_PATH - 64) /* a file's name follows */
        out[0] = '\0';
}

int folder_own(const char *folder, mode_t mode)
{
    struct stat st;

    if ((mkdir(folder, mode) != 0 && errno != EEXIST) || stat(folder, &st) != 0)
        return -errno;
    return st.st_uid == geteuid() ? (int)st.st_mode : -EPERM;
}

/* Makes the folder and its parent; what is above them is for others to make. */
int profile_folder_make(void)
{
    char folder[PROFILE_PATH], *slash;
    int mode;

    profile_folder(folder);
    if (!folder[0])
        return -ENOENT;
    slash = strrchr(folder, '/');
    *slash = '\0';
    mkdir(folder, 0700);
    *slash = '/';
    mode = folder_own(folder, 0700);
    return mode < 0 ? mode : mode & (S_IWGRP | S_IWOTH) ? -EPERM : 0;
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

/* The thread that has the lock on the file of that name is the writer. A file that a writer has
 * renamed is not the temporary one any more, so look again. */
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

/* A file's content that is being changed. */
struct merger {
    struct profile_header header;
    struct profile_row row[PROFILE_ROWS];
    const char *name[PROFILE_ROWS]; /* of each row, in the text that it came from */
    struct profile_text old, text;
    struct names names; /* of `text` */
};

/* Where the file has the row; else an empty one, if need be in place of the oldest. */
static uint32_t row_place(struct merger *m, uint64_t key, uint32_t bucket)
{
    uint32_t at = 0, oldest = 0;

    for (; at < m->header.rows; at++)
        if (m->row[at].key == key && m->row[at].bucket == bucket)
            return at;
        else if (m->row[at].used_h < m->row[oldest].used_h)
            oldest = at;
    if (at < PROFILE_ROWS)
        m->header.rows++;
    else
        at = oldest;
    memset(&m->row[at], 0, sizeof(m->row[at]));
    return at;
}

/* A process's row counts only what that process sampled and launched: counts add up. */
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
    for (int i = 0; i < PROFILE_BINS && most > UINT16_MAX / 2; i++)
        to->bin[i] = (uint16_t)((to->bin[i] + 1) / 2);
}

/* With the temporary file locked. */
static int merge_into(int fd, const char *path, const char *temporary, struct merger *m)
{
    struct profile_header *h = &m->header;
    int rc;

    /* The names of the present rows, and no others. */
    names_open(&m->names, m->text.text, 0, PROFILE_TEXT);
    for (uint32_t i = 0; i < h->rows; i++)
        m->row[i].name = names_add(&m->names, m->name[i]);
    h->text_bytes = (m->names.used + 7) / 8 * 8;
    h->checksum = checksum(h, m->row, m->text.text);
    rc = move_all(fd, true, h, sizeof(*h));
    if (rc == 0)
        rc = move_all(fd, true, m->row, h->rows * sizeof(*m->row));
    if (rc == 0)
        rc = move_all(fd, true, m->text.text, h->text_bytes);
    if (rc == 0 && rename(temporary, path) != 0)
        rc = -errno;
    if (rc != 0)
        unlink(temporary);
    return rc;
}

int profile_merge(const uint8_t uuid[16], const char *gpu, const struct profile_row *rows,
                  uint32_t n, const char *text)
{
    char path[PROFILE_PATH], temporary[PROFILE_PATH + 8];
    struct merger *m;
    int fd, rc = profile_folder_make();

    if (rc != 0)
        return rc;
    profile_path(path, uuid);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    fd = lock_temporary(temporary);
    if (fd >= 0) {
        int have = profile_read(path, NULL, m->row, &m->old);

        m->header.version = VERSION;
        m->header.rows = have > 0 ? (uint32_t)have : 0;
        memcpy(m->header.magic, magic, sizeof(magic));
        memcpy(m->header.uuid, uuid, 16);
        snprintf(m->header.gpu, sizeof(m->header.gpu), "%s", gpu);
        for (uint32_t i = 0; i < m->header.rows; i++)
            m->name[i] = m->row[i].name ? m->old.text + m->row[i].name : "";
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at;

            if (!rows[i].changed)
                continue;
            at = row_place(m, rows[i].key, rows[i].bucket);
            row_merge(&m->row[at], &rows[i]);
            m->name[at] = rows[i].name ? text + rows[i].name : "";
        }
        rc = merge_into(fd, path, temporary, m);
        close(fd);
    } else {
        rc = fd; /* EAGAIN and EWOULDBLOCK are one */
    }
    free(m);
    return rc;
}
