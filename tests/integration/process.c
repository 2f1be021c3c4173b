/*
 * process.c - child processes and the private world of an integration test; see process.h.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

extern uint64_t simgpu_clock_lost(void) __attribute__((weak));

bool clock_steps(void)
{
    return simgpu_clock_lost;
}

/* Preloads `what` after the clock. */
static void preload(const char *what)
{
    const char *clock = clock_steps() ? getenv("LD_PRELOAD") : NULL;
    char value[1024];

    snprintf(value, sizeof(value), "%s%s%s", clock ? clock : "", clock && *what ? ":" : "", what);
    setenv("LD_PRELOAD", value, 1);
}

static void apply_env(const char *const env[])
{
    for (; env && *env; env++) {
        char name[128];
        const char *equals = strchr(*env, '=');
        size_t length = equals ? (size_t)(equals - *env) : strlen(*env);

        snprintf(name, sizeof(name), "%.*s", (int)length, *env);
        if (strcmp(name, "LD_PRELOAD") == 0)
            preload(equals ? equals + 1 : "");
        else if (equals)
            setenv(name, equals + 1, 1);
        else
            unsetenv(name);
    }
}

static void run_child(const char *const argv[], const char *const env[], const int fds[2])
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, STDIN_FILENO);
    dup2(fds[0], STDOUT_FILENO);
    dup2(fds[1], STDERR_FILENO);
    apply_env(env);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

struct process *process_start(const char *const argv[], const char *const env[])
{
    struct process *p = calloc(1, sizeof(*p));

    cr_assert_not_null(p);
    p->fds[0] = memfd_create("stdout", MFD_CLOEXEC);
    p->fds[1] = memfd_create("stderr", MFD_CLOEXEC);
    cr_assert(p->fds[0] >= 0 && p->fds[1] >= 0);
    fflush(NULL);
    p->pid = fork();
    cr_assert(p->pid >= 0, "fork: %s", strerror(errno));
    if (p->pid == 0)
        run_child(argv, env, p->fds);
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    cr_assert(p->pidfd >= 0, "pidfd_open: %s", strerror(errno));
    return p;
}

/* Reaps the child if it ends within `seconds`. */
static bool reap(struct process *p, double seconds)
{
    double deadline = now_s() + seconds;
    int status;

    while (!p->ended) {
        struct pollfd poll_end = {.fd = p->pidfd, .events = POLLIN};
        double left = deadline - now_s();

        if (poll(&poll_end, 1, left > 0 ? (int)(left * 1000) + 1 : 0) > 0 &&
            waitpid(p->pid, &status, 0) == p->pid) {
            p->ended = true;
            p->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        } else if (left <= 0) {
            return false;
        }
    }
    return true;
}

int process_wait(struct process *p, double seconds)
{
    if (!reap(p, seconds * PROCESS_BUSY)) {
        process_signal(p, SIGKILL);
        reap(p, 10);
        p->status = PROCESS_TIMEOUT;
    }
    return p->status;
}

bool process_running(struct process *p)
{
    return !reap(p, 0);
}

void process_signal(struct process *p, int signal)
{
    if (!p->ended)
        kill(p->pid, signal);
}

static bool has_handler(pid_t pid, int signal)
{
    unsigned long long caught = 0;
    char path[64], line[256];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "SigCgt: %llx", &caught);
    if (f)
        fclose(f);
    return caught >> (signal - 1) & 1;
}

bool process_catches(struct process *p, int signal)
{
    double deadline = now_s() + 20 * PROCESS_BUSY;

    while (process_running(p) && now_s() < deadline) {
        if (has_handler(p->pid, signal))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return false;
}

static const char *captured(struct process *p, int which)
{
    struct stat st;
    ssize_t got;

    cr_assert(fstat(p->fds[which], &st) == 0);
    free(p->text[which]);
    p->text[which] = calloc(1, (size_t)st.st_size + 1);
    cr_assert_not_null(p->text[which]);
    got = pread(p->fds[which], p->text[which], (size_t)st.st_size, 0);
    cr_assert(got >= 0);
    return p->text[which];
}

const char *process_out(struct process *p)
{
    return captured(p, 0);
}

const char *process_err(struct process *p)
{
    return captured(p, 1);
}

void process_failed(struct process *p, const char *words)
{
    const char *said = process_err(p);

    cr_expect_eq(p->status, 1, "%d: %s", p->status, said);
    cr_expect(strstr(said, words), "no %s in: %s", words, said);
    cr_expect_eq(strchr(said, '\n'), said + strlen(said) - 1, "not one line: %s", said);
    cr_expect_str_eq(process_out(p), "");
}

bool process_says(struct process *p, const char *text, double seconds)
{
    double deadline = now_s() + seconds * PROCESS_BUSY;
    bool last = false;

    for (;;) {
        if (strstr(process_out(p), text) || strstr(process_err(p), text))
            return true;
        if (last || now_s() > deadline)
            return false;
        last = reap(p, 0.005); /* looks once more after its end */
    }
}

void process_free(struct process *p)
{
    if (!p)
        return;
    if (!p->ended) {
        process_signal(p, SIGKILL);
        reap(p, 10);
    }
    for (int i = 0; i < 2; i++) {
        close(p->fds[i]);
        free(p->text[i]);
    }
    close(p->pidfd);
    free(p);
}

struct process *process_run(const char *const argv[], const char *const env[], double seconds)
{
    struct process *p = process_start(argv, env);

    process_wait(p, seconds);
    return p;
}

/* ---- sandbox ------------------------------------------------------------------------------- */

static char folder[64];

static void forget_settings(void)
{
    char names[64][64];
    int count = 0;

    for (char **e = environ; *e && count < 64; e++) {
        if ((strncmp(*e, "CUTIN_", 6) == 0 || strncmp(*e, "SIMGPU_", 7) == 0) &&
            !(clock_steps() && strncmp(*e, "SIMGPU_CLOCK=", 13) == 0))
            snprintf(names[count++], sizeof(names[0]), "%.*s", (int)strcspn(*e, "="), *e);
    }
    while (count > 0)
        unsetenv(names[--count]);
}

/* With AddressSanitizer the runtime is in every program. It must accept that a preloaded library
 * comes before it. */
static void allow_preload(void)
{
    const char *old = getenv("ASAN_OPTIONS");
    char value[256];

    snprintf(value, sizeof(value), "%s%sverify_asan_link_order=0", old ? old : "", old ? ":" : "");
    setenv("ASAN_OPTIONS", value, 1);
}

void sandbox_enter(void)
{
    const char *base = getenv("TMPDIR");
    char id[32];

    /* The path of a socket in the folder must not be too long. */
    snprintf(folder, sizeof(folder), "%s/cutin-test-XXXXXX",
             base && base[0] == '/' && strlen(base) < 40 ? base : "/tmp");
    cr_assert_not_null(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    forget_settings();
    allow_preload();
    snprintf(id, sizeof(id), "it%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("XDG_CONFIG_HOME", folder, 1);
    setenv("TMPDIR", folder, 1);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void sandbox_leave(void)
{
    char pattern[96];
    glob_t found;

    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    snprintf(pattern, sizeof(pattern), "/dev/shm/*it%d", (int)getpid());
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
    }
}

const char *sandbox_folder(void)
{
    return folder;
}

const char *sandbox_path(const char *name)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

void sandbox_tell(const char *name)
{
    FILE *f = fopen(sandbox_path(name), "w");

    cr_assert_not_null(f);
    fclose(f);
}

/* ---- reading what a program printed --------------------------------------------------------- */

static const char *after(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? at + strlen(key) + strspn(at + strlen(key), "\" :=\t") : NULL;
}

char *file_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text;
    long size;

    cr_assert_not_null(f, "%s is missing", path);
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)size + 1);
    cr_assert_not_null(text);
    cr_assert_eq(fread(text, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    return text;
}

double number_after(const char *text, const char *key)
{
    const char *at = after(text, key);
    char *end;
    double value = at ? strtod(at, &end) : NAN;

    return at && end != at ? value : NAN;
}

bool word_after(const char *text, const char *key, char *word, size_t size)
{
    const char *at = after(text, key);

    if (!at)
        return false;
    snprintf(word, size, "%.*s", (int)strcspn(at, " \t\r\n,\""), at);
    return word[0] != '\0';
}

void nap_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}
