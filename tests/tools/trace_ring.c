/*
 * trace_ring.c - the file that a traced process writes: what it keeps, what readers get from it,
 * and what they refuse.
 */
#include "tools/cutin/trace/trace_view.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <stdio.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/cutin-trace.XXXXXX", path[80], why[256];

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a.trace", folder);
}

static void leave(void)
{
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "something was left in %s", folder);
}

TestSuite(trace_ring, .init = enter, .fini = leave);

static void begin(uint32_t records, bool keep_first)
{
    cr_assert_not(trace_on());
    cr_assert_eq(trace_open(path, records, keep_first, 3), 0);
    cr_assert(trace_on());
}

static void put_numbered(uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < from + n; i++) {
        struct trace_record r = {.kind = TRACE_COPY, .stream = i, .copy = {.op = i, .bytes = i}};
        trace_put(&r);
    }
}

static struct trace_view view(void)
{
    struct trace_view v;

    trace_flush();
    cr_assert_eq(trace_view_open(&v, path, why, sizeof(why)), 0, "%s", why);
    return v;
}

Test(trace_ring, no_file_is_written_without_an_open_trace)
{
    struct trace_record r = {.kind = TRACE_COPY};

    trace_put(&r);
    cr_expect_eq(trace_name("x"), 0);
    cr_expect_neq(access(path, F_OK), 0);
}

Test(trace_ring, ring_keeps_the_newest_records)
{
    struct trace_record r;
    struct trace_view v;

    begin(1024, false);
    put_numbered(1, 3000);
    v = view();
    cr_expect_eq(v.first, 3000 - 1024);
    cr_expect_eq(v.end, 3000);
    cr_expect_eq(v.lost, 3000 - 1024);
    for (uint64_t i = v.first; i < v.end; i++) {
        cr_assert(trace_view_get(&v, i, &r));
        cr_assert_eq(r.copy.bytes, i + 1);
        cr_assert_eq(r.tid, (uint32_t)gettid());
        cr_assert_neq(r.ns, 0);
    }
    cr_expect_not(trace_view_get(&v, 0, &r), "what was overwritten is not there");
    cr_expect_eq(v.file->header.level, 3);
    cr_expect_eq(v.file->header.pid, (uint32_t)getpid());
    trace_view_close(&v);
}

Test(trace_ring, keep_first_mode_keeps_the_first_records)
{
    struct trace_record r;
    struct trace_view v;

    begin(1024, true);
    put_numbered(1, 3000);
    v = view();
    cr_expect_eq(v.first, 0);
    cr_expect_eq(v.end, 1024);
    cr_expect_eq(v.lost, 3000 - 1024);
    cr_assert(trace_view_get(&v, 1023, &r));
    cr_expect_eq(r.copy.bytes, 1024);
    trace_view_close(&v);
}

static uint64_t bytes_of(uint64_t record, const uint64_t *write)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t at = (off_t)(offsetof(struct trace_file, record[record]) +
                       offsetof(struct trace_record, copy.bytes));
    uint64_t bytes = 0;

    cr_assert(!write || pwrite(fd, write, sizeof(*write), at) == (ssize_t)sizeof(*write));
    cr_assert_eq(pread(fd, &bytes, sizeof(bytes), at), (ssize_t)sizeof(bytes));
    close(fd);
    return bytes;
}

/* The writer left by a jump. Bytes that the test changes show what is written again. */
Test(trace_ring, missing_record_causes_rewrites_only_for_a_while)
{
    static const uint64_t changed = 4711;
    uint64_t written;
    int times = 0;

    begin(1024, true);
    put_numbered(1, 10);
    atomic_fetch_add(&atomic_load(&trace_buffer)->header.head, 1);
    put_numbered(11, 10);
    do {
        trace_flush();
        written = bytes_of(12, NULL);
        bytes_of(12, &changed);
        trace_flush();
    } while (bytes_of(12, NULL) == written && ++times < 5000);
    cr_expect_gt(times, 1);
    cr_expect_lt(times, 5000);
    put_numbered(21, 1);
    trace_flush();
    cr_expect_eq(bytes_of(21, NULL), 21, "what comes later is written");
}

Test(trace_ring, names_are_stored_whole_once_and_never_overflow)
{
    static char name[10000];
    uint32_t gemm, relu, whole, n = 0;
    struct trace_view v;

    begin(1024, false);
    gemm = trace_name("gemm");
    relu = trace_name("relu");
    cr_expect_neq(gemm, 0);
    cr_expect_neq(gemm, relu);
    cr_expect_eq(trace_name("gemm"), gemm);
    cr_expect_eq(trace_name(""), 0);
    memset(name, 'n', sizeof(name) - 1);
    whole = trace_name(name);
    cr_expect_eq(trace_name(name), whole);
    v = view();
    cr_expect_str_eq(trace_view_name(&v, gemm), "gemm");
    cr_expect_str_eq(trace_view_name(&v, relu), "relu");
    cr_expect_str_eq(trace_view_name(&v, whole), name);
    cr_expect_str_eq(trace_view_name(&v, 0), "");
    cr_expect_str_eq(trace_view_name(&v, gemm + 1), "", "the middle of a name is none");
    cr_expect_str_eq(trace_view_name(&v, v.file->header.names), "");
    cr_expect_str_eq(trace_view_name(&v, UINT32_MAX), "");
    do { /* until one more has no room */
        snprintf(name, 8, "%07u", ++n);
        name[7] = 'n';
    } while (trace_name(name) != 0 && n < 1000);
    cr_expect_lt(n, TRACE_NAME_BYTES / sizeof(name) + 1);
    cr_expect_neq(trace_name("short"), 0, "what still fits is kept");
    trace_view_close(&v);
    v = view();
    cr_expect_leq(v.file->header.names, TRACE_NAME_BYTES);
    cr_expect_str_eq(trace_view_name(&v, trace_name("short")), "short");
    cr_expect_eq(trace_name("gemm"), gemm);
    trace_view_close(&v);
}

Test(trace_ring, full_name_table_refuses_new_names)
{
    uint32_t n = 0;
    char name[16];

    begin(1024, false);
    do
        snprintf(name, sizeof(name), "k%u", n);
    while (trace_name(name) != 0 && ++n < 100000);
    cr_expect_gt(n, 4000);
    cr_expect_lt(n, 100000);
    cr_expect_neq(trace_name("k0"), 0);
    cr_expect_eq(trace_name("one more"), 0);
}

static void *namer(void *arg)
{
    uint32_t *number = arg;
    char name[32];

    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "kernel %u", i);
        number[i] = trace_name(name);
    }
    return NULL;
}

Test(trace_ring, concurrent_threads_store_correct_names)
{
    static uint32_t number[4][2000];
    pthread_t threads[4];
    struct trace_view v;
    char name[32];

    begin(1024, false);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, namer, number[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    v = view();
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "kernel %u", i);
        for (int t = 0; t < 4; t++)
            cr_expect_str_eq(trace_view_name(&v, number[t][i]), name);
    }
    trace_view_close(&v);
}

enum { WRITERS = 4, EACH = 20000, ROUNDS = 20 };

static atomic_bool has_read;
static _Atomic uint64_t put_by_all;

/* Writes EACH records, and goes on until the reader has read. */
static void *writer(void *arg)
{
    uint32_t me = (uint32_t)(uintptr_t)arg, i;

    for (i = 0; i < EACH || !atomic_load(&has_read); i++) {
        uint64_t x = (uint64_t)me << 32 | i;
        struct trace_record r = {.kind = TRACE_SAMPLE, .stream = me};
        r.word[0] = r.word[1] = r.word[2] = r.word[3] = x;
        trace_put(&r);
        if (i % 64 == 0) /* else a slow reader finds each of them overwritten */
            usleep(1000);
    }
    atomic_fetch_add(&put_by_all, i);
    return NULL;
}

/* Returns how many records the reader gets now. */
static uint32_t read_whole(struct trace_view *v)
{
    struct trace_record r;
    uint32_t n = 0;

    for (uint64_t i = v->first; i < v->end; i++) {
        if (!trace_view_get(v, i, &r))
            continue;
        n++;
        cr_assert_eq(r.kind, TRACE_SAMPLE);
        cr_assert_eq(r.seq, i + 1);
        cr_assert_eq(r.stream, (uint32_t)(r.word[0] >> 32));
        for (int word = 1; word < 4; word++)
            cr_assert_eq(r.word[word], r.word[0], "word %d", word);
    }
    return n;
}

/* Beside them a reader reads: each record that it gets is one writer's, and whole. */
Test(trace_ring, reader_gets_whole_records_beside_writers)
{
    pthread_t threads[WRITERS];
    struct trace_view v;

    begin(TRACE_LEAST_RECORDS, false);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, writer, (void *)(i + 1));
    for (int round = 0; round < ROUNDS;) {
        v = view();
        round += read_whole(&v) > 0;
        trace_view_close(&v);
    }
    atomic_store(&has_read, true);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    v = view();
    cr_expect_eq(v.end, put_by_all);
    cr_expect_gt(read_whole(&v), 0);
    trace_view_close(&v);
}

Test(trace_ring, forked_child_that_stops_the_trace_writes_nothing)
{
    struct trace_view v;
    uint32_t names;
    int status;
    pid_t pid;

    begin(1024, false);
    put_numbered(1, 5);
    cr_assert_neq(trace_name("parent"), 0);
    v = view();
    names = v.file->header.names;
    trace_view_close(&v);
    cr_assert_eq(pthread_atfork(NULL, NULL, trace_stop), 0); /* as the library does */
    pid = fork();
    if (pid == 0) {
        put_numbered(6, 5);
        _exit(trace_on() ? 1 : trace_name("child") != 0 ? 2 : 7);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", status);
    cr_expect(trace_on(), "the parent's goes on");
    v = view();
    cr_expect_eq(v.end, 5);
    cr_expect_eq(v.file->header.names, names);
    trace_view_close(&v);
}

Test(trace_ring, file_has_one_writer_and_percent_p_is_the_pid)
{
    char pattern[96], own[96];
    pid_t other = fork();

    if (other == 0) {
        begin(1024, false);
        raise(SIGSTOP);
    }
    cr_assert_eq(waitpid(other, NULL, WUNTRACED), other);
    cr_expect_eq(trace_open(path, 1024, false, 0), -EBUSY);
    cr_expect_eq(trace_open("/no/such/folder/x", 1024, false, 0), -ENOENT);
    snprintf(pattern, sizeof(pattern), "%s/%%p.trace", folder);
    snprintf(own, sizeof(own), "%s/%d.trace", folder, (int)getpid());
    cr_expect_eq(trace_open(pattern, 1024, false, 0), 0);
    cr_expect_eq(access(own, F_OK), 0);
    unlink(own);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static void refused(const char *word)
{
    struct trace_view v;

    cr_expect_eq(trace_view_open(&v, path, why, sizeof(why)), -EBADMSG);
    cr_expect_not_null(strstr(why, word), "no %s in: %s", word, why);
    cr_expect_null(v.file);
}

/* The writer has ended. */
static void written(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        begin(1024, false);
        put_numbered(1, 10);
        trace_flush();
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* Changes 4 bytes of the file. */
static void poke(long at, uint32_t value)
{
    FILE *f = fopen(path, "r+");

    cr_assert_not_null(f);
    fseek(f, at, SEEK_SET);
    fwrite(&value, sizeof(value), 1, f);
    fclose(f);
}

Test(trace_ring, invalid_trace_file_is_refused)
{
    struct trace_view v;
    struct stat st;

    written();
    cr_assert_eq(stat(path, &st), 0);
    poke(8, 99);
    refused("another version");
    poke(8, TRACE_VERSION);
    poke(20, 3);
    refused("makes no sense");
    poke(20, 2048);
    refused("does not match its header");
    poke(20, 1024);
    poke(0, 7);
    refused("not a trace of cutin");
    cr_assert_eq(truncate(path, 100), 0);
    refused("truncated");
    cr_expect_eq(trace_view_open(&v, "/no/such/file", why, sizeof(why)), -ENOENT);
}

/* The device's clock is 1000 ahead. Only one of the samples met an idle stream. */
Test(trace_ring, device_samples_are_mapped_to_the_hosts_clock)
{
    struct trace_record r = {.kind = TRACE_SAMPLE, .ns = 5000};
    struct trace_clocks clocks;
    struct trace_view v;
    uint64_t start, took;

    begin(1024, false);
    r.sample.context = 1;
    r.sample.device_ns = 4000;
    r.sample.duration_ns = 70;
    trace_put(&r);
    r.ns = 5010; /* it waited behind the first */
    r.sample.device_ns = 4070;
    trace_put(&r);
    v = view();
    trace_clocks_read(&clocks, &v);
    cr_assert(trace_clocks_convert(&clocks, &r, &start, &took));
    cr_expect_eq(start, 5070);
    cr_expect_eq(took, 70);
    r.sample.lead_ns = 90; /* the call began after the first event: at 5100 */
    cr_assert(trace_clocks_convert(&clocks, &r, &start, &took));
    cr_expect_eq(start, 5100);
    cr_expect_eq(took, 40);
    r.sample.lead_ns = 0;
    r.sample.device_ns = (uint64_t)-300; /* before the clock's anchor, in another stream */
    cr_assert(trace_clocks_convert(&clocks, &r, &start, &took));
    cr_expect_eq(start, 700);
    r.sample.context = 2;
    cr_expect_not(trace_clocks_convert(&clocks, &r, &start, &took));
    trace_view_close(&v);
}

static volatile sig_atomic_t hits;

static void hit(int signal)
{
    (void)signal;
    hits = hits + 1;
}

/* Runs in a process with this action for SIGBUS. Returns 0, or the check that failed. */
static int cut_short(void (*does)(int), off_t length)
{
    struct sigaction now;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGBUS, does);
        begin(1u << 16, false);
        put_numbered(1, 100);
        if (sigaction(SIGBUS, NULL, &now) != 0 || now.sa_handler != does)
            _exit(1);
        if (truncate(path, length) != 0)
            _exit(2);
        put_numbered(101, 1u << 17);
        trace_name("kernel");
        trace_flush();
        if (trace_on() || hits != 0)
            _exit(3);
        if (does == hit && (raise(SIGBUS) != 0 || hits != 1))
            _exit(4);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    refused("truncated");
    unlink(path);
    return status;
}

Test(trace_ring, truncated_file_ends_trace_without_program_noticing)
{
    void (*const does[])(int) = {SIG_DFL, SIG_IGN, hit};

    for (size_t i = 0; i < 3; i++)
        for (off_t length = 0; length <= 4096; length += 4096)
            cr_expect_eq(cut_short(does[i], length), 0, "%zu, cut to %d", i, (int)length);
}

static bool is_kept(const char *file)
{
    char content[8] = "";
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    bool kept = read(fd, content, sizeof(content)) == 4 && memcmp(content, "kept", 4) == 0;

    close(fd);
    return kept;
}

/* Independent of the machine's fs.protected_hardlinks, _regular and _fifos. */
Test(trace_ring, links_fifos_and_foreign_files_are_refused)
{
    char victim[96];
    int fd;

    snprintf(victim, sizeof(victim), "%s/victim", folder);
    cr_assert_geq(fd = open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), 0);
    cr_assert_eq(write(fd, "kept", 4), 4);
    close(fd);
    cr_assert_eq(symlink(victim, path), 0);
    cr_expect_eq(trace_open(path, 1024, false, 0), -ELOOP);
    unlink(path);
    cr_assert_eq(link(victim, path), 0);
    cr_expect_eq(trace_open(path, 1024, false, 0), -EEXIST, "has two names");
    unlink(path);
    cr_assert_eq(mkfifo(path, 0666), 0);
    cr_expect_eq(trace_open(path, 1024, false, 0), -EEXIST, "no file");
    unlink(path);
    if (geteuid() == 0) {
        cr_assert_eq(chown(victim, 65534, 65534), 0);
        cr_expect_eq(trace_open(victim, 1024, false, 0), -EEXIST, "another user's");
    }
    cr_expect(is_kept(victim));
    cr_expect_not(trace_on());
    cr_assert(geteuid() != 0 || chown(victim, 0, 0) == 0);
    cr_assert_eq(rename(victim, path), 0);
    begin(1024, false); /* a file of its own may be written again */
}

/* The file takes no descriptor number of the program's. */
Test(trace_ring, open_trace_takes_no_low_descriptor)
{
    int before = dup(STDERR_FILENO), after;
    struct trace_view v;

    close(before);
    begin(1024, false);
    after = dup(STDERR_FILENO);
    close(after);
#ifndef __SANITIZE_THREAD__ /* see common/thread.c */
    cr_expect_eq(after, before);
#endif
    put_numbered(1, 3);
    v = view();
    cr_expect_eq(v.end, 3);
    trace_view_close(&v);
}
