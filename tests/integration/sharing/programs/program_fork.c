/*
 * program_fork.c - a CUDA program that forks, for faults.c: `program_fork before|after`.
 *
 * before: forks before its first CUDA call; parent and child both use the GPU.
 * after:  forks with work queued; the child calls the driver, prints what it answers, and runs
 *         another program; the parent goes on.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 512, LAUNCHES = 150, KERNEL_NS = 20000 };

struct job {
    struct gpu gpu;
    CUstream stream;
    CUdeviceptr x;
};

static void job_open(struct job *job)
{
    gpu_open(&job->gpu);
    CHECK(cuStreamCreate(&job->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&job->x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(job->x, 1, ELEMENTS));
}

static void job_launch(struct job *job, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++)
        gpu_mix(&job->gpu, job->stream, job->x, k, ELEMENTS, KERNEL_NS);
}

static uint64_t job_close(struct job *job)
{
    uint32_t host[ELEMENTS];

    CHECK(cuStreamSynchronize(job->stream));
    CHECK(cuMemcpyDtoH(host, job->x, sizeof(host)));
    CHECK(cuStreamDestroy(job->stream));
    CHECK(cuMemFree(job->x));
    gpu_close(&job->gpu);
    return checksum(CHECKSUM_SEED, host, ELEMENTS);
}

static uint64_t whole_job(void)
{
    struct job job;

    job_open(&job);
    job_launch(&job, 0, LAUNCHES);
    return job_close(&job);
}

static int wait_child(pid_t pid)
{
    int status;

    if (waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void fork_before(void)
{
    pid_t pid = fork();
    uint64_t sum = whole_job();
    int status;

    if (pid == 0) {
        printf("child: %016llx\n", (unsigned long long)sum);
        exit(EXIT_SUCCESS);
    }
    status = wait_child(pid);
    printf("parent: %016llx, child's exit status %d\n", (unsigned long long)sum, status);
}

/* The driver does not work in the child of a process that used it; it must say so and not hang. */
static void child_after(struct job *job)
{
    CUdeviceptr other;
    CUresult launch, alloc, sync;
    void *args[] = {&job->x, &job->x, &(uint32_t){0}};

    launch = cuLaunchKernel(job->gpu.copy, 1, 1, 1, 32, 1, 1, 0, job->stream, args, NULL);
    alloc = cuMemAlloc(&other, 4096);
    sync = cuStreamSynchronize(job->stream);
    printf("child: launch %u, alloc %u, sync %u\n", launch, alloc, sync);
    fflush(stdout);
    execlp("echo", "echo", "child: another program", (char *)NULL);
    _exit(127);
}

static void fork_after(void)
{
    struct job job;
    pid_t pid;
    int status;

    job_open(&job);
    job_launch(&job, 0, LAUNCHES / 2);
    pid = fork();
    if (pid == 0)
        child_after(&job);
    job_launch(&job, LAUNCHES / 2, LAUNCHES);
    status = wait_child(pid);
    printf("parent: %016llx, child's exit status %d\n", (unsigned long long)job_close(&job),
           status);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "before") == 0)
        fork_before();
    else
        fork_after();
    return EXIT_SUCCESS;
}
