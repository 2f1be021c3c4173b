/*
 * doctor_host.c - the checks of `cutin doctor` that look at the machine, not at the GPU.
 */
#include "doctor.h"
#include "tools/cutin/daemon.h"
#include "tools/cutin/run/run.h"
#include "common/clock.h"
#include "tools/cutin/statistics/figures.h"

#include <gnu/libc-version.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/level.h"
#include "common/machine_socket.h"
#include "common/text.h"
#include "scheduler/wire/query.h"
#include "shim/lookup/conf.h"

void check_mps(const struct doctor *d, struct finding *f)
{
    /* Where the MPS control daemon's pipes are, by NVIDIA's documentation. */
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[256];
    bool pipe;

    snprintf(path, sizeof(path), "%s/control", folder ? folder : "/tmp/nvidia-mps");
    pipe = access(path, F_OK) == 0;
    if (d->bare.mps == 1 || (d->bare.mps < 0 && pipe && !d->sim))
        finding_set(f, VERDICT_NOTE,
                    "cutin still holds work, but a fault of one MPS client ends the others",
                    "active: kernels of several processes run side by side");
    else if (pipe && !d->sim)
        finding_set(f, VERDICT_NOTE, NULL, "not in use here, although %s exists", path);
    else
        finding_set(f, VERDICT_OK, NULL, "not active: the driver time-slices processes");
}

void check_connections(const struct doctor *d, struct finding *f)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int value = text ? atoi(text) : 8;

    if (!text)
        finding_set(f, VERDICT_OK, NULL,
                    "CUDA_DEVICE_MAX_CONNECTIONS is not set: 8 hardware queues");
    else if (value < 1 || value > 32)
        finding_set(f, VERDICT_WARN, "set it to a number from 1 to 32, or unset it",
                    "CUDA_DEVICE_MAX_CONNECTIONS=%.32s is not a value that the driver accepts",
                    text);
    else if (value < 8)
        finding_set(
            f, VERDICT_WARN,
            "leave it unset or raise it to 32; where a framework needs 1, give its process one "
            "level, so that streams that share a queue are held together",
            "CUDA_DEVICE_MAX_CONNECTIONS=%d: streams share %d hardware queue%s, and one that waits "
            "delays those behind it",
            value, value, value == 1 ? "" : "s");
    else
        finding_set(f, VERDICT_OK, NULL, "CUDA_DEVICE_MAX_CONNECTIONS=%d", value);
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);

    return text && *text && strcmp(text, "0") != 0;
}

/* Writes CUTIN_CONF with what other variables set added. False: no other variable sets anything. */
static bool conf_with_variables(const char *conf, char *text, size_t size)
{
    bool any = false;
    char key[CONF_KEY];
    size_t used = (size_t)snprintf(text, size, "%s", conf ? conf : "");

    for (size_t i = 0; setting_names[i]; i++) {
        const char *value = getenv(setting_names[i]);

        if (!value || !conf_key(setting_names[i], key))
            continue;
        if (used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s=%s", used ? "," : "", key, value);
        any = true;
    }
    return any;
}

void check_settings(const struct doctor *d, struct finding *f)
{
    const char *conf = getenv("CUTIN_CONF");
    char misspelt[160], together[256];

    if (is_set("CUTIN_DISABLE"))
        finding_set(f, VERDICT_FAIL, "unset CUTIN_DISABLE",
                    "CUTIN_DISABLE is set: nothing is held");
    else if (setting_misspelt(&(size_t){0}, misspelt, sizeof(misspelt)) ||
             conf_misspelt(&conf, misspelt, sizeof(misspelt)))
        finding_set(f, VERDICT_WARN, "correct it as in cutin(7)", "%s", misspelt);
    else if (is_set("CUDA_LAUNCH_BLOCKING"))
        finding_set(f, VERDICT_WARN, "unset CUDA_LAUNCH_BLOCKING",
                    "CUDA_LAUNCH_BLOCKING is set: calls wait in their thread instead of a queue");
    else if (is_set("CUDA_INJECTION64_PATH"))
        finding_set(
            f, VERDICT_WARN, "run without the profiler to see what users will see",
            "a profiler is attached (CUDA_INJECTION64_PATH): calls wait in their thread instead of "
            "a queue");
    else if (conf_with_variables(getenv("CUTIN_CONF"), together, sizeof(together)))
        finding_set(f, VERDICT_NOTE, "set that one variable and unset the others",
                    "settings are in separate variables; CUTIN_CONF=%s says the same", together);
    else
        finding_set(f, VERDICT_OK, NULL, "no environment variable interferes with cutin");
}

/* Finds another daemon in the places of a user or the machine. A daemon that a test has in a folder
 * of its own does not count. Names of sockets in use are no secret (proc_net(5)). */
static bool other_daemon(const char *mine, char path[SOCKET_PATH_MAX])
{
    FILE *sockets = fopen("/proc/net/unix", "re");
    char line[512];
    bool found = false;

    while (sockets && !found && fgets(line, sizeof(line), sockets)) {
        const char *at = strstr(line, " /run/");
        size_t length = at ? strcspn(at + 1, "\n") : 0;

        if (length >= SOCKET_PATH_MAX)
            continue;
        snprintf(path, SOCKET_PATH_MAX, "%.*s", (int)length, at ? at + 1 : "");
        found = strstr(path, USER_SOCKET) && strcmp(path, mine) != 0;
    }
    if (sockets)
        fclose(sockets);
    return found && strncmp(mine, "/run/", 5) == 0;
}

void check_daemon(const struct doctor *d, struct finding *f)
{
    const char *socket = daemon_socket();
    char other[SOCKET_PATH_MAX];
    struct message_row *rows = NULL;
    size_t n = 0;
    int rc = socket[0] ? query_clients(socket, &rows, &n) : 0;

    free(rows);
    if (!socket[0])
        finding_set(f, VERDICT_FAIL, "unset CUTIN_SOCKET, or set it to the daemon's socket",
                    "CUTIN_SOCKET is empty: processes cannot hold each other");
    else if (rc == 0 && other_daemon(socket, other))
        finding_set(f, VERDICT_WARN,
                    "let all use the machine's daemon: systemctl enable --now cutind.socket",
                    "answers at %s; another daemon answers at %s, and their processes do not hold "
                    "each other",
                    socket, printable(other));
    else if (rc == 0)
        finding_set(f, VERDICT_OK, NULL, "answers at %s, %zu client%s", socket, n,
                    n == 1 ? "" : "s");
    else if ((rc == -ENOENT || rc == -ECONNREFUSED) && d->paths.daemon[0])
        finding_set(f, VERDICT_NOTE, "`cutin run` starts one; programs preloaded by hand need one",
                    "none at %s yet", socket);
    else if (rc == -ENOENT || rc == -ECONNREFUSED)
        finding_set(f, VERDICT_FAIL, "install cutind beside cutin",
                    "none at %s, and cutind is not installed", socket);
    else if (rc == -ENAMETOOLONG)
        finding_set(f, VERDICT_FAIL, "set CUTIN_SOCKET or XDG_RUNTIME_DIR to something shorter",
                    "the path %.64s... is too long for a socket", socket);
    else
        finding_set(f, VERDICT_FAIL, "read its log, or run `cutind --socket PATH` by hand", "%s",
                    daemon_error(socket, rc));
}

void check_permission(const struct doctor *d, struct finding *f)
{
    char reason[PROTOCOL_TEXT + 1];
    union message m;
    int rc;

    /* Registers as real time for a moment, so that the daemon says which level it grants. */
    message_init(&m, MESSAGE_HELLO);
    m.hello.level = m.hello.lowest = PAGE_LEVELS - 1;
    m.hello.weight = 1;
    memcpy(m.hello.name, "cutin doctor", sizeof("cutin doctor"));
    rc = query_one(daemon_socket(), &m, MESSAGE_WELCOME);
    if (rc == -ENOENT || rc == -ECONNREFUSED)
        finding_set(f, VERDICT_NOTE, NULL,
                    "no daemon to ask; one that `cutin run` starts grants this user every level");
    else if (rc != 0)
        finding_set(f, VERDICT_WARN, "see the check of the daemon",
                    "the daemon does not answer this question: %s",
                    rc == -SOCKET_FOREIGN ? "its socket is another user's" : strerror(-rc));
    else if (m.welcome.level == PAGE_LEVELS - 1)
        finding_set(f, VERDICT_OK, NULL, "this user may run at every level, rt included");
    else {
        /* The daemon may be another user's, so its text is untrusted. */
        snprintf(reason, sizeof(reason), "%.*s", PROTOCOL_TEXT, m.welcome.reason);
        finding_set(f, VERDICT_WARN, printable(reason), "this user may run at level %s at most",
                    level_name(m.welcome.level));
    }
}

/* 2034 for "2.34..."; 0: this is no version. */
static unsigned glibc_version(const char *text)
{
    unsigned major, minor;

    return sscanf(text, "%u.%u", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

/* Finds the newest version that the library needs, in its table of strings. */
void check_glibc(const struct doctor *d, struct finding *f)
{
    static const char before[] = "GLIBC_";
    const char *is = gnu_get_libc_version(), *at, *end;
    unsigned need = 0;
    struct image image;

    if (image_open(&image, d->paths.library) == 0) {
        for (at = image.bytes, end = at + image.size;
             (at = memmem(at, (size_t)(end - at), before, sizeof(before) - 1));) {
            char text[16];

            at += sizeof(before) - 1;
            snprintf(text, sizeof(text), "%.*s", (int)(end - at), at);
            need = glibc_version(text) > need ? glibc_version(text) : need;
        }
        image_close(&image);
    }
    if (!need)
        finding_set(f, VERDICT_FAIL, "install libcutin.so beside cutin",
                    "libcutin.so cannot be read, so it cannot be preloaded");
    else if (glibc_version(is) >= need)
        finding_set(f, VERDICT_OK, NULL,
                    "libcutin.so needs glibc %u.%u or newer, here and in containers; this is %s",
                    need / 1000, need % 1000, is);
    else
        finding_set(f, VERDICT_FAIL, "use a library that was built on this system or an older one",
                    "libcutin.so needs glibc %u.%u, this is %s: the loader leaves it out",
                    need / 1000, need % 1000, is);
}

/* Checks sealed memfds, because the pages that processes share are such files. */
void check_memfd(const struct doctor *d, struct finding *f)
{
    struct cutin_page *page;
    int fd, rc = page_new_shared(&page, &fd);

    if (rc != 0) {
        FILE *file = fopen("/proc/sys/vm/memfd_noexec", "re");
        bool forbidden = file && fgetc(file) == '2';

        if (file)
            fclose(file);
        finding_set(f, VERDICT_FAIL,
                    forbidden ? "set the sysctl vm.memfd_noexec to 0 or 1"
                              : "allow memfd_create in the sandbox",
                    "no sealed memfd (%s): processes cannot hold each other", strerror(-rc));
        return;
    }
    page_unmap(page);
    close(fd);
    finding_set(f, VERDICT_OK, NULL, "sealed memfds work");
}

void check_timers(const struct doctor *d, struct finding *f)
{
    enum { NAPS = 41, NAP_NS = 50000 };
    uint64_t late_ns[NAPS];
    struct timespec step = {0};
    struct figures figures;
    long late;

    clock_getres(CLOCK_MONOTONIC, &step);
    /* How late a thread wakes up from 50 us of sleep, with a dispatcher's slack. */
    prctl(PR_SET_TIMERSLACK, 1ul);
    for (int i = 0; i < NAPS; i++) {
        uint64_t until_ns = clock_ns() + NAP_NS;

        clock_sleep_until(until_ns);
        late_ns[i] = clock_ns() - until_ns;
    }
    prctl(PR_SET_TIMERSLACK, 0ul);
    figures_make(&figures, late_ns, NAPS);
    late = (long)figures.p50_us;
    if (step.tv_sec || step.tv_nsec > 1000)
        finding_set(f, VERDICT_WARN, "use a kernel with CONFIG_HIGH_RES_TIMERS",
                    "timers tick every %ld us: holds end up to that much later",
                    step.tv_sec * 1000000 + step.tv_nsec / 1000);
    else if (late > 500)
        finding_set(f, VERDICT_WARN, "leave a processor free for the dispatcher threads",
                    "a thread wakes %ld us late: queues resume that much later after a hold", late);
    else
        finding_set(f, VERDICT_OK, NULL, "high resolution; a thread wakes %ld us late", late);
}

void check_processors(const struct doctor *d, struct finding *f)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    if (n < 2)
        finding_set(f, VERDICT_WARN, "give the processes at least two",
                    "one processor: real-time work and dispatchers wait for each other");
    else
        finding_set(f, VERDICT_OK, NULL, "%d available", n);
}

/* Checks /proc: there the daemon sees whether a silent client is stopped or the machine is busy. */
void check_proc(const struct doctor *d, struct finding *f)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[1024];
    bool hidden = false;

    while (file && fgets(line, sizeof(line), file))
        hidden |= strstr(line, " /proc ") && strstr(line, "hidepid=") &&
                  !strstr(line, "hidepid=0") && !strstr(line, "hidepid=off");
    if (file)
        fclose(file);
    if (hidden)
        finding_set(
            f, VERDICT_NOTE, "let a daemon for several users run as root",
            "/proc hides processes of other users: the daemon has only their heartbeats to tell "
            "whether they are stopped");
    else
        finding_set(f, VERDICT_OK, NULL, "/proc shows which clients are stopped");
}
