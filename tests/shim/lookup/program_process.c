/*
 * program_process.c - a process that does what its argument says, with or without CUDA, and prints
 * what it sees of itself.
 *
 *   quiet      no CUDA: number of threads, signal handlers, umask
 *   absent     calls a driver function although no driver can be loaded
 *   fork       initialises and uses the driver, forks, and uses it in the child
 *   forklooked looks the driver up, forks, and parent and child use it
 *   forkfirst  forks, and parent and child use the driver
 *   dlclose    opens and closes cutin, and calls the function it got
 *   exit       uses the driver in an exit handler registered before the first use
 */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/shim/lookup/lookup_say.h"

static int threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static int handlers(void)
{
    struct sigaction action;
    int n = 0;

    for (int s = 1; s < 32; s++)
        n += sigaction(s, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
             action.sa_handler != SIG_IGN;
    return n;
}

static void quiet(void)
{
    printf("threads %d handlers %d umask %o\n", threads(), handlers(), umask(022));
}

static long call(const char *name)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    long (*function)(void) = NULL;

    if (handle)
        *(void **)&function = dlsym(handle, name);
    return function ? function() : -1;
}

/* cuTexRefDestroy is always a drain thunk; the fake driver answers with its row. */
static long use(void)
{
    return call("cuTexRefDestroy");
}

static void absent(void)
{
    void *cutin = dlopen(getenv("CUTIN_PATH"), RTLD_NOW);
    long (*function)(void) = NULL;

    if (cutin)
        *(void **)&function = dlsym(cutin, "cuTexRefDestroy");
    if (!function)
        exit(3);
    long first = (int)function(), second = (int)function();
    printf("absent %ld %ld\n", first, second);
}

static void closed(void)
{
    void *cutin = dlopen(getenv("CUTIN_PATH"), RTLD_NOW);
    long (*function)(void) = NULL;

    if (cutin)
        *(void **)&function = dlsym(cutin, "cuTexRefDestroy");
    if (!function)
        exit(3);
    dlclose(cutin);
    printf("closed %d\n", (int)function());
}

static void in_child(const char *what)
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        printf("%s child %ld\n", what, use());
        lookup_say("child", "cuTexRefDestroy",
                   dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTexRefDestroy"));
        exit(0);
    }
    waitpid(pid, &status, 0);
    printf("%s parent %ld, child ended %d\n", what, use(), status);
}

static void late(void)
{
    printf("late %ld\n", use());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "quiet") == 0) {
        quiet();
    } else if (strcmp(what, "absent") == 0) {
        absent();
    } else if (strcmp(what, "dlclose") == 0) {
        closed();
    } else if (strcmp(what, "fork") == 0) {
        printf("before %ld %ld\n", call("cuInit"), use());
        in_child(what);
    } else if (strcmp(what, "forklooked") == 0) {
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTexRefDestroy");
        in_child(what);
    } else if (strcmp(what, "forkfirst") == 0) {
        in_child(what);
    } else if (strcmp(what, "exit") == 0) {
        atexit(late);
        printf("now %ld\n", use());
    } else {
        return 2;
    }
    return 0;
}
