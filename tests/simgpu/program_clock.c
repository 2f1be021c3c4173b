/*
 * program_clock.c - what a program sees of the clock, with every way to wait. Prints a line for
 * each, with the nanoseconds that it took. clock.c runs it under the stepped clock.
 *
 * `program_clock outside` waits for something that the clock does not see, beside a child that
 * looks after it and whose messages are not read, and kills the child. `program_clock watched` ends
 * while many threads look after the one that runs; `program_clock numbers` opens files meanwhile.
 * `program_clock replaced` executes `program_clock again` from a thread, while others wait.
 * `program_clock stopped` stops a child for some time. `program_clock one` says how often two of
 * its processes ran at once, after a third one has waited outside of the time and ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 50, WATCHERS = 400 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint32_t word, order[THREADS * ROUNDS], ordered;
static int pipes[2], orphans[2];

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static void *hold(void *us)
{
    pthread_mutex_lock(&mutex);
    nap_us((long)us);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *wake(void *us)
{
    nap_us((long)us);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

static void *say(void *us)
{
    nap_us((long)us);
    (void)!write(pipes[1], "", 1);
    return NULL;
}

static void *in_turn(void *place)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        order[ordered++] = (uint32_t)(uintptr_t)place;
        nap_us(i % 3);
        pthread_mutex_unlock(&mutex);
        nap_us(1 + (long)place * 7 % 5);
    }
    return NULL;
}

static void beside(void *(*main)(void *), long us, void (*wait)(void))
{
    pthread_t thread;
    pthread_create(&thread, NULL, main, (void *)us);
    nap_us(100);
    wait();
    pthread_join(thread, NULL);
}

static void wait_mutex(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void wait_word(void)
{
    while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void wait_pipe(void)
{
    struct pollfd p = {pipes[0], POLLIN, 0};
    poll(&p, 1, 1000);
}

static void sleep_1ms(void)
{
    nap_us(1000);
}

static void sleep_hour(void)
{
    nap_us(3600000000);
}

static void time_out_condition(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += 1;
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&condition, &mutex, &t) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&mutex);
}

static void time_out_poll(void)
{
    poll(NULL, 0, 20);
}

static void wait_held_mutex(void)
{
    beside(hold, 3000, wait_mutex);
}

static void wait_woken_word(void)
{
    beside(wake, 2000, wait_word);
}

static void wait_written_pipe(void)
{
    beside(say, 2000, wait_pipe);
}

static void wait_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        nap_us(4000);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* The parent of the process that writes has ended before that process runs. */
static void wait_orphan(void)
{
    struct pollfd p = {orphans[0], POLLIN, 0};
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            nap_us(1000);
            (void)!write(orphans[1], "", 1);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    poll(&p, 1, 10000);
}

static void wait_crowd(void)
{
    pthread_t thread[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, in_turn, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void pipe_fill(int fd)
{
    static const char page[4096];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, page, sizeof(page)) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
}

static int wait_outside(void)
{
    struct timeval long_enough = {1, 200000};
    pid_t pid = fork();
    if (pid == 0) {
        pipe_fill(pipes[1]);
        dup2(pipes[1], STDERR_FILENO);
        for (;;)
            nap_us(3600000000);
    }
    nap_us(10000);
    select(0, NULL, NULL, NULL, &long_enough);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    puts("went on");
    return 0;
}

static void *sleep_for_good(void *unused)
{
    for (;;)
        nap_us(3600000000);
    return unused;
}

/* Makes no call for so long that waiting threads look after the one that runs. */
static void run_for_long(void)
{
    for (volatile uint32_t i = 0; i < 1u << 27; i++)
        ;
}

static void watchers_begin(void)
{
    pthread_t t;
    for (int i = 0; i < WATCHERS; i++)
        if (pthread_create(&t, NULL, sleep_for_good, NULL) != 0)
            exit(1);
    nap_us(100000);
}

/* When this process ends its child runs. */
static int end_watched(void)
{
    if (fork() == 0) {
        nap_us(1000000);
        run_for_long();
        _exit(0);
    }
    watchers_begin();
    run_for_long();
    return 0;
}

/* Counts the files that did not get the lowest free number. */
static int open_watched(void)
{
    enum { FILES = 1 << 18, CALL = 1 << 12 };
    int first = dup(STDIN_FILENO), others = 0;
    close(first);
    watchers_begin();
    for (int i = 0; i < FILES; i++) {
        int fd = dup(STDIN_FILENO);
        others += fd != first;
        close(fd);
        if (i % CALL == 0)
            nap_us(1);
    }
    printf("others %d\n", others);
    return 0;
}

/* A child that has closed its copy of a pipe's end does not keep the end open. */
static void wait_end(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        nap_us(3600000000);
        _exit(0);
    }
    close(ends[1]);
    nap_us(1500);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (read(ends[0], &byte, 1) != 0)
        exit(1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void *become_again(void *unused)
{
    nap_us(5000);
    execl("/proc/self/exe", "program_clock", "again", (char *)NULL);
    return unused;
}

static void *sleep_often(void *unused)
{
    for (;;)
        nap_us(1000);
    return unused;
}

/* The threads that wait here are gone after the exec. */
static int be_replaced(void)
{
    pthread_t t;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t, NULL, i ? sleep_often : become_again, NULL) != 0)
            return 1;
    for (;;)
        nap_us(1000);
}

static int go_on(void)
{
    nap_us(3600000000);
    run_for_long();
    nap_us(3600000000);
    puts("went on");
    return 0;
}

static int stop_child(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            nap_us(10000);
    nap_us(20000);
    kill(child, SIGSTOP);
    nap_us(100000);
    kill(child, SIGCONT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    puts("went on");
    return 0;
}

/* Only the process that has the turn runs between the two additions. */
static _Noreturn void be_one(_Atomic int *inside, _Atomic int *twice)
{
    for (int i = 0; i < 2000; i++) {
        if (atomic_fetch_add(inside, 1) > 0)
            atomic_fetch_add(twice, 1);
        for (volatile int spin = 0; spin < 20000;)
            spin = spin + 1;
        atomic_fetch_sub(inside, 1);
        nap_us(1);
    }
    _exit(0);
}

static int be_one_of_two(void)
{
    _Atomic int *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t two[2];
    char byte;
    if (shared == MAP_FAILED || pipe(pipes) != 0)
        return 1;
    if (fork() == 0) {
        close(pipes[1]);
        /* A direct system call: libc's read would take part in the stepped time. */
        _exit((int)syscall(SYS_read, pipes[0], &byte, 1));
    }
    for (int i = 0; i < 2; i++)
        if ((two[i] = fork()) == 0) {
            close(pipes[1]);
            be_one(&shared[0], &shared[1]);
        }
    for (int i = 0; i < 100; i++)
        nap_us(1);
    close(pipes[1]);
    for (int i = 0; i < 2; i++)
        waitpid(two[i], NULL, 0);
    printf("at once %d\n", atomic_load(&shared[1]));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"sleep_1ms", sleep_1ms},    {"sleep_hour", sleep_hour}, {"condition", time_out_condition},
        {"poll", time_out_poll},     {"mutex", wait_held_mutex}, {"word", wait_woken_word},
        {"pipe", wait_written_pipe}, {"child", wait_child},      {"orphan", wait_orphan},
        {"crowd", wait_crowd},       {"end", wait_end},
    };
    if (pipe(pipes) != 0 || pipe(orphans) != 0)
        return 1;
    if (argc > 1 && strcmp(argv[1], "numbers") == 0)
        return open_watched();
    if (argc > 1 && strcmp(argv[1], "replaced") == 0)
        return be_replaced();
    if (argc > 1 && strcmp(argv[1], "again") == 0)
        return go_on();
    if (argc > 1 && strcmp(argv[1], "stopped") == 0)
        return stop_child();
    if (argc > 1 && strcmp(argv[1], "one") == 0)
        return be_one_of_two();
    if (argc > 1)
        return strcmp(argv[1], "watched") == 0 ? end_watched() : wait_outside();
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        uint64_t since = now_ns(CLOCK_MONOTONIC);
        ways[i].run();
        printf("%s %llu\n", ways[i].name, (unsigned long long)(now_ns(CLOCK_MONOTONIC) - since));
    }
    uint32_t hash = 0;
    for (uint32_t i = 0; i < ordered; i++)
        hash = hash * 31 + order[i];
    printf("order %u of %u\n", hash, ordered);
    return 0;
}
