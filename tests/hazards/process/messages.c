/*
 * messages.c - where cutin's messages go: to the standard error that the program was started with,
 * if it had one, it is still the same, and it takes a line at once. Messages do not end, stop or
 * delay a program, and do not appear in its data.
 */
#include "tests/hazards/hazard.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void work(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    for (int i = 0; i < 500; i++)
        MUST(launch_mix(x, 5, 7, s));
    SAY(cuStreamSynchronize(s));
    show("x", x);
    fflush(stdout);
}

/* The simulated GPU is itself a file, and may have to grow first. */
HAZARD_RAW(program_with_an_invalid_setting_runs)
{
    gpu_open();
    if (getenv("MAY_WRITE_NOTHING")) { /* its output must not grow a file either */
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
    }
    work();
}

/* Starts this program again, with a message to write, and with a standard error and signal
 * dispositions of its own. Returns its process id. */
static pid_t start(int err, void (*prepare)(void))
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid)
        return pid;
    if (err >= 0)
        dup2(err, STDERR_FILENO);
    else
        close(STDERR_FILENO);
    setenv("CUTIN_DEPTH", "nonsense", 1);
    if (prepare)
        prepare();
    execl("/proc/self/exe", "again", "program_with_an_invalid_setting_runs", (char *)NULL);
    _exit(127);
}

static void say_end(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, WUNTRACED) != pid)
        give_up("waitpid");
    if (WIFSTOPPED(status)) {
        printf("stopped by %d\n", WSTOPSIG(status));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    } else if (WIFSIGNALED(status)) {
        printf("signal %d\n", WTERMSIG(status));
    } else {
        printf("exit status %d\n", WEXITSTATUS(status));
    }
}

static int file_new(void)
{
    return memfd_create("data", 0);
}

static void say_data(int fd)
{
    char text[256];
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    printf("data: %zd bytes: %s\n", got, text);
}

/* The program opened its results where it had closed standard error. */
HAZARD_RAW(messages_stay_out_of_a_file_on_descriptor_2)
{
    int fd = file_new();
    setenv("CUTIN_DEPTH", "nonsense", 1);
    dup2(fd, STDERR_FILENO);
    gpu_open();
    if (write(STDERR_FILENO, "mine\n", 5) != 5)
        give_up("write");
    work();
    say_data(fd);
    printf("end\n");
}

/* The program was started without a standard error. */
HAZARD_RAW(program_without_standard_error_runs)
{
    say_end(start(-1, NULL));
    printf("end\n");
}

HAZARD_RAW(closed_standard_error_pipe_does_not_end_the_program)
{
    int fds[2];
    if (pipe(fds))
        give_up("pipe");
    close(fds[0]);
    say_end(start(fds[1], NULL));
    printf("end\n");
}

HAZARD_RAW(full_standard_error_pipe_does_not_block_the_program)
{
    static char full[1 << 20];
    int fds[2];
    if (pipe2(fds, O_NONBLOCK))
        give_up("pipe");
    while (write(fds[1], full, sizeof(full)) > 0)
        ;
    fcntl(fds[1], F_SETFL, 0);
    say_end(start(fds[1], NULL));
    printf("end\n");
}

static void no_file_may_grow(void)
{
    setenv("MAY_WRITE_NOTHING", "1", 1);
}

enum { SIZE_LIMIT = 1 << 30 }; /* larger than the simulated GPU's file */

static void no_file_may_grow_further(void)
{
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){SIZE_LIMIT, SIZE_LIMIT});
}

HAZARD_RAW(standard_error_at_its_size_limit_does_not_end_the_program)
{
    int fd = file_new();
    lseek(fd, SIZE_LIMIT, SEEK_SET);
    say_end(start(fd, no_file_may_grow_further));
    printf("end\n");
}

static char home[] = "/tmp/cutin-hazard-XXXXXX";

static void learns_there(void)
{
    setenv("CUTIN_PROFILE", "on", 1);
    setenv("XDG_CACHE_HOME", home, 1);
    no_file_may_grow();
}

/* What was learned is written when the program ends. */
HAZARD_RAW(unwritable_profile_does_not_end_the_program)
{
    char command[64];
    int null = open("/dev/null", O_WRONLY);
    if (!mkdtemp(home))
        give_up("mkdtemp");
    say_end(start(null, learns_there));
    snprintf(command, sizeof(command), "rm -r %s", home);
    if (system(command))
        give_up("rm");
    printf("end\n");
}

static void traced_there(void)
{
    static char name[64];
    snprintf(name, sizeof(name), "%s/trace.json", home);
    setenv("CUTIN_TRACE", name, 1);
    no_file_may_grow();
}

HAZARD_RAW(unwritable_trace_does_not_end_the_program)
{
    char command[64];
    int null = open("/dev/null", O_WRONLY);
    if (!mkdtemp(home))
        give_up("mkdtemp");
    say_end(start(null, traced_there));
    snprintf(command, sizeof(command), "rm -r %s", home);
    if (system(command))
        give_up("rm");
    printf("end\n");
}

/* A process group of its own, and so in the background of the terminal, which stops writers. */
static void into_the_background(void)
{
    setpgid(0, 0);
}

HAZARD_RAW(message_does_not_stop_a_background_program)
{
    int master, terminal;
    struct termios t;
    if (openpty(&master, &terminal, NULL, NULL, NULL))
        give_up("openpty");
    fflush(stdout);
    pid_t leader = fork();
    if (leader == 0) {
        if (setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) || tcgetattr(terminal, &t))
            give_up("the terminal cannot be set up");
        t.c_lflag |= TOSTOP;
        tcsetattr(terminal, TCSANOW, &t);
        say_end(start(terminal, into_the_background));
        exit(0);
    }
    say_end(leader);
    close(master);
    printf("end\n");
}

/* ---- nothing to say -------------------------------------------------------------------------- */

static CUstream launched;
static CUdeviceptr words;

static void launch_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        launch_mix(words, 1, 0, launched);
}

HAZARD_RAW(process_ends_while_its_threads_launch)
{
    gpu_open();
    launched = stream_new(CU_STREAM_NON_BLOCKING);
    words = buffer_new(3);
    warm(launched);
    hold(launched);
    thread_start(launch_for_ever, NULL);
    thread_start(launch_for_ever, NULL);
    for (int i = 0; i < 10; i++)
        nap();
    printf("it ends\n");
    exit(0);
}

static bool file_says(int fd, const char *what)
{
    char text[4096];
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, what);
}

/* The driver is gone by then, and its calls say so. */
HAZARD_RAW(commands_cut_off_by_exit_are_not_reported_as_failed)
{
    enum { TIMES = 20 };
    int failures = 0;
    for (int i = 0; i < TIMES; i++) {
        int err = file_new();
        pid_t pid = fork();
        if (pid == 0) {
            dup2(err, STDERR_FILENO);
            execl("/proc/self/exe", "again", "process_ends_while_its_threads_launch", (char *)NULL);
            _exit(127);
        }
        say_end(pid);
        failures += file_says(err, "failed");
        close(err);
    }
    printf("%d times reported as failed\n", failures);
    printf("end\n");
}
