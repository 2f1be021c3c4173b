/*
 * profile_file.c - the file of learned times: merged, bounded, and never believed when damaged.
 */
#include "common/profile_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint8_t uuid[16] = {1, 2, 3};
static char folder[64], path[PROFILE_PATH];
static struct profile_row rows[PROFILE_ROWS];
static struct profile_text text;

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cutin-profile-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    profile_path(path, uuid);
}

static void tear_down(void)
{
    char sub[PROFILE_PATH + 8];

    unlink(path);
    snprintf(sub, sizeof(sub), "%s.new", path);
    cr_expect_neq(unlink(sub), 0, "a temporary file was left behind");
    profile_folder(sub);
    rmdir(sub);
    cr_expect_eq(rmdir(folder), 0, "something was left behind");
}

TestSuite(profile_file, .init = set_up, .fini = tear_down);

/* The names of the rows that tests make. */
static char names[64 * 1024];
static uint32_t names_used = 1;

static uint32_t name_make(const char *name)
{
    uint32_t at = names_used;

    names_used += (uint32_t)snprintf(names + at, sizeof(names) - at, "%s", name) + 1;
    cr_assert_lt(names_used, sizeof(names));
    return at;
}

static const char *name_of(const struct profile_row *row)
{
    return text.text + row->name;
}

static struct profile_row row_make(uint64_t key, uint32_t mean_ns)
{
    struct profile_row row = {
        .key = key, .launches = 32, .mean_ns = mean_ns, .samples = 1, .changed = 1, .used_h = 7};

    row.bin[profile_bin(mean_ns)] = 1;
    char name[32];

    snprintf(name, sizeof(name), "kernel_%llu", (unsigned long long)key);
    row.name = name_make(name);
    return row;
}

static int merge_one(uint64_t key, uint32_t mean_ns)
{
    uint32_t used = names_used;
    struct profile_row row = row_make(key, mean_ns);
    int rc = profile_merge(uuid, "a GPU", &row, 1, names);

    names_used = used;
    return rc;
}

static void file_change(long offset, int whence, int by)
{
    FILE *f = fopen(path, "r+");
    int c;

    cr_assert_not_null(f);
    fseek(f, offset, whence);
    c = fgetc(f);
    fseek(f, offset, whence);
    fputc(c + by, f);
    fclose(f);
}

Test(profile_file, merged_samples_add_up)
{
    struct profile_header h;
    struct profile_row unchanged = row_make(1, 999);

    cr_assert_eq(profile_read(path, &h, rows, &text), -ENOENT);
    cr_assert_eq(merge_one(1, 2000), 0);
    cr_assert_eq(merge_one(2, 5000), 0);
    cr_assert_eq(merge_one(1, 4000), 0);
    unchanged.changed = 0;
    cr_assert_eq(profile_merge(uuid, "a GPU", &unchanged, 1, names), 0);
    cr_assert_eq(profile_read(path, &h, rows, &text), 2);
    cr_assert_str_eq(h.gpu, "a GPU");
    cr_assert_eq(memcmp(h.uuid, uuid, 16), 0);
    cr_assert_eq(rows[0].mean_ns, 4000);
    cr_assert_eq(rows[0].launches, 64);
    cr_assert_eq(rows[0].samples, 2);
    cr_assert_eq(rows[0].bin[profile_bin(2000)], 1);
    cr_assert_eq(rows[0].bin[profile_bin(4000)], 1);
    cr_assert_str_eq(name_of(&rows[1]), "kernel_2");
}

Test(profile_file, long_names_are_stored_whole_and_once)
{
    static char name[20000];
    struct profile_row row[] = {row_make(1, 2000), row_make(1, 2000), row_make(2, 3000)};
    struct profile_header h;

    memset(name, 'n', sizeof(name) - 1);
    row[0].name = row[1].name = name_make(name);
    row[1].bucket = 4;
    cr_assert_eq(profile_merge(uuid, "a GPU", row, 2, names), 0);
    cr_assert_eq(profile_merge(uuid, "a GPU", &row[2], 1, names), 0);
    cr_assert_eq(profile_read(path, &h, rows, &text), 3);
    cr_assert_str_eq(name_of(&rows[0]), name);
    cr_assert_str_eq(name_of(&rows[1]), name);
    cr_assert_eq(rows[0].name, rows[1].name, "it is there once");
    cr_assert_str_eq(name_of(&rows[2]), "kernel_2");
    row[0].name = row[1].name = name_make("renamed");
    cr_assert_eq(profile_merge(uuid, "a GPU", row, 2, names), 0);
    cr_assert_eq(profile_read(path, &h, rows, &text), 3);
    cr_assert_str_eq(name_of(&rows[1]), "renamed");
    cr_assert_str_eq(name_of(&rows[2]), "kernel_2");
    cr_assert_lt(h.text_bytes, 64, "the name that nothing has any more is gone");
}

Test(profile_file, names_without_room_are_left_out)
{
    enum { LONG = 60000, MANY = PROFILE_TEXT / LONG + 2 };
    struct profile_row row = row_make(1, 2000);
    char *name = names + names_used;

    row.name = names_used;
    memset(name, 'n', LONG - 1);
    for (uint64_t key = 1; key <= MANY; key++) {
        row.key = key;
        name[0] = (char)('0' + key % 64);
        name[1] = (char)('0' + key / 64);
        cr_assert_eq(profile_merge(uuid, "a GPU", &row, 1, names), 0);
    }
    cr_assert_eq(profile_read(path, NULL, rows, &text), MANY);
    cr_assert_eq(strlen(name_of(&rows[0])), LONG - 1);
    cr_assert_eq(rows[MANY - 1].name, 0);
    cr_assert_str_empty(name_of(&rows[MANY - 1]));
}

Test(profile_file, damaged_file_is_refused_and_replaced)
{
    const long size =
        sizeof(struct profile_header) + sizeof(struct profile_row) + 16; /* "", "kernel_1" */

    for (long at = 0; at < size; at++) {
        if (at >= (long)offsetof(struct profile_header, uuid) &&
            at < (long)sizeof(struct profile_header))
            continue; /* the user is told, and the file is not believed */
        cr_assert_eq(merge_one(1, 2000), 0);
        file_change(at, SEEK_SET, 1);
        cr_assert_eq(profile_read(path, NULL, rows, &text), -EBADMSG, "byte %ld", at);
        cr_assert_eq(merge_one(1, 2000), 0);
        cr_assert_eq(profile_read(path, NULL, rows, &text), 1);
        cr_assert_eq(rows[0].samples, 1);
        unlink(path);
    }
    for (long cut = 0; cut < size; cut += 17) {
        cr_assert_eq(merge_one(1, 2000), 0);
        cr_assert_eq(truncate(path, cut), 0);
        cr_assert_eq(profile_read(path, NULL, rows, &text), -EBADMSG, "cut at %ld", cut);
    }
    cr_assert_eq(truncate(path, size + 1), 0);
    cr_assert_eq(profile_read(path, NULL, rows, &text), -EBADMSG, "too long");
}

Test(profile_file, full_file_drops_oldest_row)
{
    static struct profile_row many[PROFILE_ROWS];
    struct profile_row newer = row_make(1000000, 3000);
    struct stat st;

    for (uint32_t i = 0; i < PROFILE_ROWS; i++) {
        many[i] = row_make(i + 1, 1000);
        many[i].used_h = i == 77 ? 3 : 5;
    }
    cr_assert_eq(profile_merge(uuid, "a GPU", many, PROFILE_ROWS, names), 0);
    cr_assert_eq(profile_merge(uuid, "a GPU", &newer, 1, names), 0);
    cr_assert_eq(profile_read(path, NULL, rows, &text), PROFILE_ROWS);
    cr_assert_eq(rows[77].key, 1000000);
    cr_assert_eq(rows[77].launches, 32);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_lt(st.st_size, 512 * 1024);
}

Test(profile_file, clock_set_back_ages_no_row)
{
    struct profile_row row = row_make(1, 2000);

    row.used_h = 500000;
    cr_expect(!profile_row_aged(&row, 500000 - 1));
    cr_expect(!profile_row_aged(&row, 500000 + 24));
    cr_expect(profile_row_aged(&row, 500000 + PROFILE_AGED_H));
}

/* A disk of 64 kB is filled up with other data. */
Test(profile_file, full_disk_keeps_old_rows)
{
    static char zeros[1 << 16];
    static struct profile_row many[PROFILE_ROWS];
    char other[PROFILE_PATH + 8];
    int fd;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=64k") != 0)
        cr_skip("no disk can be mounted here: %s", strerror(errno));
    cr_assert_eq(merge_one(1, 2000), 0);
    for (uint32_t i = 0; i < PROFILE_ROWS; i++)
        many[i] = row_make(i + 1, 1000);
    cr_expect_eq(profile_merge(uuid, "a GPU", many, PROFILE_ROWS, names), -ENOSPC);
    cr_expect_eq(profile_read(path, NULL, rows, &text), 1);
    snprintf(other, sizeof(other), "%s/other", folder);
    fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
    close(fd);
    cr_expect_eq(merge_one(2, 3000), -ENOSPC);
    cr_expect_eq(profile_read(path, NULL, rows, &text), 1);
    snprintf(other, sizeof(other), "%s.new", path);
    cr_expect_neq(access(other, F_OK), 0);
    cr_assert_eq(umount2(folder, MNT_DETACH), 0);
}

Test(profile_file, concurrent_writers_lose_no_sample)
{
    enum { WRITERS = 4, TIMES = 50 };
    pid_t pid[WRITERS];

    for (int w = 0; w < WRITERS; w++) {
        pid[w] = fork();
        for (int i = 0; pid[w] == 0; i++) {
            if (i == TIMES)
                _exit(0);
            for (int rc = -EAGAIN; rc == -EAGAIN;)
                if ((rc = merge_one(1 + (uint64_t)(i + w) % 3, 2000)) != 0 && rc != -EAGAIN)
                    _exit(1);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;

        waitpid(pid[w], &status, 0);
        cr_assert_eq(status, 0);
    }
    cr_assert_eq(profile_read(path, NULL, rows, &text), 3);
    cr_assert_eq(rows[0].samples + rows[1].samples + rows[2].samples, WRITERS * TIMES);
}

Test(profile_file, live_writer_locks_out_others)
{
    char temporary[PROFILE_PATH + 8];
    int fd;

    cr_assert_eq(merge_one(1, 2000), 0);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    fd = open(temporary, O_RDWR | O_CREAT, 0600);
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    cr_assert_eq(merge_one(1, 2000), -EAGAIN);
    close(fd); /* as if its writer was killed: the next one takes the file over */
    cr_assert_eq(merge_one(1, 2000), 0);
    cr_assert_eq(profile_read(path, NULL, rows, &text), 1);
    cr_assert_eq(rows[0].samples, 2);
}

Test(profile_file, percentiles_follow_the_samples)
{
    struct profile_row row = {0};

    cr_assert_eq(profile_percentile_ns(&row, 99), 0);
    for (uint32_t ns = 1; ns && ns < 1u << 30; ns *= 3) {
        cr_assert(profile_bin_ns(profile_bin(ns)) <= ns || profile_bin(ns) == 0);
        memset(row.bin, 0, sizeof(row.bin));
        row.bin[profile_bin(ns)] = 100;
        cr_assert(ns < 256 || (profile_percentile_ns(&row, 99) >= ns / 3 * 2 &&
                               profile_percentile_ns(&row, 99) <= ns / 2 * 3));
    }
    memset(row.bin, 0, sizeof(row.bin));
    row.bin[10] = 98;
    row.bin[20] = 2;
    cr_assert_lt(profile_percentile_ns(&row, 90), profile_bin_ns(11) + 1);
    cr_assert_geq(profile_percentile_ns(&row, 99), profile_bin_ns(20));
}

Test(profile_file, merge_without_folder_fails)
{
    char out[PROFILE_PATH];

    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    profile_path(out, uuid);
    cr_assert_str_empty(out);
    cr_assert_eq(merge_one(1, 2000), -ENOENT);
}

/* As with XDG_CACHE_HOME=/tmp: links that others put there could lead to any file of this user. */
Test(profile_file, folder_writable_by_others_is_refused)
{
    char own[PROFILE_PATH];

    profile_folder(own);
    cr_assert_eq(mkdir(own, 0700), 0);
    cr_assert_eq(chmod(own, 0777), 0);
    cr_expect_eq(merge_one(1, 2000), -EPERM);
    cr_assert_eq(chmod(own, 0700), 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(own, 65534, 65534), 0);
        cr_expect_eq(merge_one(1, 2000), -EPERM);
        cr_assert_eq(chown(own, 0, 0), 0);
    }
    cr_expect_eq(merge_one(1, 2000), 0);
}
