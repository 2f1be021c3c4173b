/*
 * descriptors.c - a program's descriptors are its own: numbers come in order, there are as many as
 * its limit says, children inherit no others, and what the program closes is closed.
 */
#include "tests/hazards/hazard.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static CUstream stream;
static CUdeviceptr words;

static void work(void)
{
    for (int i = 0; i < 100; i++)
        MUST(launch_mix(words, 5, 7, stream));
    SAY(cuStreamSynchronize(stream));
    show("words", words);
}

static void begin(void)
{
    gpu_open();
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    words = buffer_new(3);
    warm(stream);
    work();
}

static int count(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    if (!dir)
        give_up("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* ctest leaves its log open in its tests; another ctest in the folder removes that file. */
HAZARD_RAW(no_descriptor_comes_from_the_test_runner)
{
    if (dup(STDIN_FILENO) != STDERR_FILENO + 1)
        give_up("the test runner left a descriptor open");
    begin();
    printf("end\n");
}

HAZARD_RAW(library_adds_no_descriptors)
{
    begin();
    printf("%d descriptors\n", count());
    work();
    printf("%d descriptors, end\n", count());
}

HAZARD_RAW(as_many_descriptors_may_be_opened_as_natively)
{
    int n = 0, last = 0, fd;
    struct rlimit limit = {64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    begin();
    while ((fd = dup(STDIN_FILENO)) >= 0) {
        last = fd;
        n++;
    }
    printf("%d more descriptors, the last is %d\n", n, last);
    work();
    printf("end\n");
}

/* If a daemon comes and goes beside this, it does so several times meanwhile. */
HAZARD_RAW(lowest_free_descriptor_comes_next)
{
    enum { ROUNDS = 1000000, AT_ONCE = 3 };
    int first, fd[AT_ONCE], wrong = 0;
    begin();
    first = dup(STDIN_FILENO);
    close(first);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            fd[i] = dup(STDIN_FILENO);
            wrong += fd[i] != first + i;
        }
        for (int i = 0; i < AT_ONCE; i++)
            close(fd[i]);
    }
    work();
    printf("%d times another number, end\n", wrong);
}

static int child_count(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(count());
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        give_up("waitpid");
    return WEXITSTATUS(status);
}

HAZARD_RAW(children_inherit_no_descriptors_of_the_library)
{
    begin();
    printf("%d descriptors in a child\n", child_count());
    fflush(stdout);
    if (system("ls /proc/self/fd"))
        give_up("ls");
    work();
    printf("end\n");
}

/* No other process or thread has a copy of the end that is closed. */
HAZARD_RAW(reader_of_a_closed_pipe_sees_its_end)
{
    enum { LIMIT_MS = 60000 };
    int fds[2];
    char byte;
    if (pipe(fds))
        give_up("pipe");
    begin();
    close(fds[1]);
    struct pollfd p = {.fd = fds[0], .events = POLLIN};
    printf("poll: %d\n", poll(&p, 1, LIMIT_MS));
    printf("read: %zd, end\n", read(fds[0], &byte, 1));
}

HAZARD_RAW(file_lock_ends_with_its_descriptor)
{
    char name[64];
    int fd = memfd_create("lock", 0), again;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    again = open(name, O_RDWR);
    printf("locked: %d\n", flock(fd, LOCK_EX | LOCK_NB));
    begin();
    printf("locked twice: %d\n", flock(again, LOCK_EX | LOCK_NB));
    close(fd);
    printf("locked again: %d, end\n", flock(again, LOCK_EX | LOCK_NB));
}

/* Daemons do so, and programs that start others. */
HAZARD_RAW(program_may_close_all_unknown_descriptors)
{
    begin();
    for (int i = 0; i < 3; i++) {
        close_range(STDERR_FILENO + 1, ~0u, 0);
        for (int ms = 0; ms < 30; ms++)
            nap();
        work();
        printf("%d descriptors\n", count());
    }
    printf("end\n");
}
