/*
 * program_ioctl.c - a program without GPUs that calls ioctl, for ioctl.c: on files of its own, on
 * none, in a signal handler, and as NVIDIA's driver would. Prints what it sees. `program_ioctl
 * --cost` prints how much longer a call takes by the library than by libc, in ns.
 */
#include "shim/suspend/nvrm.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 1000, BATCHES = 2000 };

static int ends[2];

static int waiting(void)
{
    int n = -1;

    return ioctl(ends[0], FIONREAD, &n) == 0 ? n : -1;
}

static void on_signal(int number)
{
    char text[] = "0 bytes in the handler\n";

    text[0] = (char)('0' + waiting());
    if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
        _exit(1);
}

static void as_a_driver(void)
{
    struct nvrm_alloc call = {.client = 1, .class_id = NVRM_CLASS_GROUP};
    struct nvrm_control control = {.command = NVRM_GROUP_SCHEDULE};
    int rc = ioctl(ends[0], NVRM_REQUEST(NVRM_ALLOC, sizeof(call)), &call);

    printf("alloc %d %s\n", rc, strerror(errno));
    rc = ioctl(-1, NVRM_REQUEST(NVRM_CONTROL, sizeof(control)), &control);
    printf("control %d %s\n", rc, strerror(errno));
    rc = ioctl(ends[0], NVRM_REQUEST(NVRM_FREE, sizeof(struct nvrm_free)), NULL);
    printf("free %d %s\n", rc, strerror(errno));
}

typedef int ioctl_fn(int fd, unsigned long request, ...);

static double batch_ns(ioctl_fn *call)
{
    struct timespec from, to;
    int n;

    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < CALLS; i++)
        call(ends[0], FIONREAD, &n);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / CALLS;
}

/* The least of many batches, taken in turn. */
static void cost(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    ioctl_fn *theirs = (ioctl_fn *)dlsym(libc, "ioctl"), *first = &ioctl;
    double least[2] = {1e9, 1e9};

    for (int i = 0; i < BATCHES; i++) {
        double a = batch_ns(theirs), b = batch_ns(first);
        least[0] = a < least[0] ? a : least[0];
        least[1] = b < least[1] ? b : least[1];
    }
    printf("libc's %.1f ns, the first one's %.1f ns, more %.1f ns\n", least[0], least[1],
           least[1] - least[0]);
}

int main(int argc, char **argv)
{
    if (pipe(ends) != 0 || write(ends[1], "hello", 5) != 5)
        return 1;
    if (argc == 2 && strcmp(argv[1], "--cost") == 0) {
        cost();
        return 0;
    }
    puts("begin");
    fflush(stdout);
    errno = ENOTEMPTY;
    printf("%d bytes, %s\n", waiting(), strerror(errno));
    printf("none %d %s\n", ioctl(-1, FIONREAD, NULL), strerror(errno));
    as_a_driver();
    fflush(stdout);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    puts("end");
    return 0;
}
