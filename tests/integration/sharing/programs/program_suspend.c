/*
 * program_suspend.c - a CUDA program of long kernels, for suspend.c: `program_suspend FOLDER`.
 *
 * It launches kernels of KERNEL_NS, and waits for each, until there is a file "end" in the folder.
 * Then it prints "right" if they have done what they should. After a file "long" one of them takes
 * LONG_NS, and "launched" says that it runs. A second thread acts once there is a file of this
 * name: "exit" ends the process; "fork" makes a child that exits; "context" makes and destroys a
 * context. It says so.
 */
#include "examples/common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Drivers of CUDA 12 have this version, too, but newer headers do not declare it. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

enum { ELEMENTS = 256, KERNEL_NS = 30000000, LONG_NS = 800000000 };

static const char *folder;
static struct gpu gpu;

static bool told(const char *what)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, what);
    return access(path, F_OK) == 0;
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void fork_child(void)
{
    pid_t pid = fork();
    int status = 1;

    if (pid == 0)
        exit(EXIT_SUCCESS);
    waitpid(pid, &status, 0);
    say(status == 0 ? "forked" : "the child failed");
}

static void make_context(void)
{
    CUcontext other;

    CHECK(cuCtxCreate_v2(&other, 0, gpu.device));
    CHECK(cuCtxDestroy(other));
    say("destroyed");
}

static _Atomic bool leaving;

static void *act(void *unused)
{
    bool forked = false, made = false;

    for (;; nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL)) {
        if (told("exit")) {
            atomic_store(&leaving, true);
            exit(EXIT_SUCCESS);
        }
        if (!forked && told("fork"))
            fork_child();
        if (!made && told("context"))
            make_context();
        forked |= told("fork");
        made |= told("context");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    CUstream stream;
    CUdeviceptr x;
    uint64_t k = 0;
    bool was_long = false;

    if (argc != 2)
        return EXIT_FAILURE;
    folder = argv[1];
    gpu_open(&gpu);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    pthread_create(&thread, NULL, act, NULL);
    for (; !told("end"); k++) {
        bool is_long = !was_long && told("long");

        gpu_mix(&gpu, stream, x, k, ELEMENTS, is_long ? LONG_NS : KERNEL_NS);
        if (is_long)
            say("launched");
        was_long |= is_long;
        CUresult result = cuStreamSynchronize(stream);
        while (atomic_load(&leaving)) /* the driver is about to end, too */
            pause();
        check(result, "cuStreamSynchronize");
    }
    mix_expect(x, ELEMENTS, k);
    _exit(EXIT_SUCCESS); /* the second thread may be in the driver */
}
