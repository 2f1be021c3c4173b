/* atomic_file.c - a file is written beside its place: readers find the old one or the new one. */
#include "common/atomic_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/cutin-atomic.XXXXXX", path[64], linked[64];

static void put(FILE *f, const char *text)
{
    cr_assert(f && fputs(text, f) >= 0);
}

static void start(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(linked, sizeof(linked), "%s/link", folder);
    FILE *f = fopen(path, "w");
    put(f, "before");
    fclose(f);
    cr_assert_eq(chmod(path, 0600), 0);
}

static void end(void)
{
    unlink(path);
    unlink(linked);
    rmdir(folder);
}

TestSuite(atomic_file, .init = start, .fini = end);

/* No other file is left in the folder. */
static void nothing_beside(void)
{
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(rmdir(folder), 0, "something is left beside it");
}

static void expect(const char *text)
{
    char there[64] = "";
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    cr_expect(fgets(there, sizeof(there), f));
    cr_expect_str_eq(there, text);
    fclose(f);
}

Test(atomic_file, file_is_replaced_on_close_and_keeps_its_mode)
{
    struct atomic_file w;
    struct stat st;
    put(atomic_file_open(&w, path), "after");
    fflush(w.out);
    expect("before");
    cr_expect_eq(atomic_file_close(&w, 0), 0);
    expect("after");
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
}

Test(atomic_file, abandoned_write_leaves_only_the_old_file)
{
    struct atomic_file w;
    put(atomic_file_open(&w, path), "after");
    cr_expect_eq(atomic_file_close(&w, -EBADMSG), -EBADMSG);
    expect("before");
    nothing_beside();
}

/* A limit on file sizes acts like a full disk. */
Test(atomic_file, full_disk_leaves_only_the_old_file)
{
    struct atomic_file w;
    struct rlimit size, small;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &size), 0);
    small = (struct rlimit){16, size.rlim_max};
    put(atomic_file_open(&w, path), "after: more than there is room for");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = atomic_file_close(&w, 0);
    setrlimit(RLIMIT_FSIZE, &size);
    cr_expect_eq(rc, -EFBIG);
    expect("before");
    nothing_beside();
}

/* For example /dev/stdout is a link. */
Test(atomic_file, writing_through_a_link_keeps_the_link)
{
    struct atomic_file w;
    struct stat st;
    cr_assert_eq(symlink(path, linked), 0);
    put(atomic_file_open(&w, linked), "after");
    cr_expect_eq(atomic_file_close(&w, 0), 0);
    expect("after");
    cr_assert_eq(lstat(linked, &st), 0);
    cr_expect(S_ISLNK(st.st_mode));
}

Test(atomic_file, file_of_a_killed_writer_does_not_block_the_next)
{
    struct atomic_file w;
    char left[96], own[96];
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        FILE *f = atomic_file_open(&w, path);
        if (f && fputs("half of it", f) >= 0 && fflush(f) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", status);
    expect("before");
    snprintf(left, sizeof(left), "%s.%d.part", path, (int)pid);
    snprintf(own, sizeof(own), "%s.%d.part", path, (int)getpid());
    cr_assert_eq(rename(left, own), 0); /* as if this process had got the number of that one */
    put(atomic_file_open(&w, path), "after");
    cr_expect_eq(atomic_file_close(&w, 0), 0);
    expect("after");
    nothing_beside();
}
