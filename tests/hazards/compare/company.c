/*
 * company.c - see company.h. HAZARD_DAEMON and HAZARD_SERVICE are the programs. HAZARD_CLOCK (the
 * simulator's stepped clock) and HAZARD_RM (its resource manager) are preloaded if they are set.
 */
#include "tests/hazards/compare/company.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[128];
static pid_t companions[2];
static FILE *service_says; /* NULL: no service is listened to */

void company_place(const char *folder)
{
    snprintf(place, sizeof(place), "%s/s", folder);
}

const char *company_socket(void)
{
    return place;
}

/* A child that ends with its parent, even if the parent ended before prctl was called. */
static pid_t fork_bound(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    return 0;
}

void company_preload(const char *cutin)
{
    const char *const all[] = {getenv("HAZARD_CLOCK"), cutin, getenv("HAZARD_RM")};
    char text[4096] = "";
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(text);
        if (all[i])
            snprintf(text + n, sizeof(text) - n, "%s%s", n ? ":" : "", all[i]);
    }
    if (*text)
        setenv("LD_PRELOAD", text, 1);
    if (getenv("HAZARD_CLOCK"))
        personality(ADDR_NO_RANDOMIZE); /* the same addresses in every run */
}

/* `says` gets the program's stderr; -1: it is discarded. */
static pid_t companion(const char *const argv[], const char *const env[], const char *cutin,
                       int says)
{
    pid_t pid = fork_bound();
    if (pid != 0)
        return pid;
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(says < 0 ? null : says, STDERR_FILENO);
    company_preload(cutin);
    for (; *env; env++)
        putenv((char *)(unsigned long)*env);
    execv(argv[0], (char *const *)(unsigned long)argv);
    _exit(127);
}

static void end(pid_t pid)
{
    if (pid <= 0) /* fork failed, and kill(-1) would end every process */
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static pid_t daemon_new(void)
{
    return companion((const char *[]){getenv("HAZARD_DAEMON"), "--socket", place, NULL},
                     (const char *[]){NULL}, NULL, -1);
}

/* A daemon that lives for 20 ms and then is absent for 20 ms, until the hazard has ended. */
static pid_t daemons_come_and_go(void)
{
    pid_t pid = fork_bound();
    if (pid != 0)
        return pid;
    for (;;) {
        pid_t one = daemon_new();
        usleep(20000);
        end(one);
        usleep(20000);
    }
}

/* A daemon that is there only while the program starts. */
static pid_t daemon_that_goes(void)
{
    pid_t pid = fork_bound();
    if (pid != 0)
        return pid;
    pid_t one = daemon_new();
    usleep(200000);
    end(one);
    for (;;)
        pause();
}

static pid_t service_new(const char *level, const char *rate, const char *kernel_us,
                         const char *requests, int says)
{
    char socket[sizeof(place) + 16];
    snprintf(socket, sizeof(socket), "CUTIN_SOCKET=%s", place);
    return companion((const char *[]){getenv("HAZARD_SERVICE"), "--rate", rate, "--kernels", "3",
                                      "--kernel-us", kernel_us, "--requests", requests,
                                      "--announce", NULL},
                     (const char *[]){socket, level, NULL}, getenv("CUTIN_PRELOAD"), says);
}

/* Two clients at a time. */
static pid_t clients_come_and_go(void)
{
    pid_t pid = fork_bound();
    if (pid != 0)
        return pid;
    for (;;) {
        pid_t above = service_new("CUTIN_PRIORITY=rt", "500", "100", "5", -1);
        pid_t beside = service_new("CUTIN_PRIORITY=be", "500", "100", "10", -1);
        waitpid(above, NULL, 0);
        waitpid(beside, NULL, 0);
    }
}

static pid_t service_for_good(enum company company, int says)
{
    static const char *const for_good = "1000000", *const level = "CUTIN_PRIORITY=rt";
    if (company == HELD) /* busy for 270 ms of each 333 */
        return service_new(level, "3", "90000", for_good, says);
    return service_new(level, company == PULSED ? "1000" : "100", "100", for_good, says);
}

/* A stepped clock does not wait for a process that the host is still starting: a program would be
 * through before the service runs. So this returns when the service serves, or has ended. The pipe
 * does not block, so what the service says later does not stop it. */
static pid_t service_that_serves(enum company company)
{
    char line[256] = "";
    int says[2];
    if (pipe2(says, O_CLOEXEC) != 0 || fcntl(says[1], F_SETFL, O_NONBLOCK) != 0)
        exit(2);
    pid_t pid = service_for_good(company, says[1]);
    close(says[1]);
    service_says = fdopen(says[0], "r");
    while (strcmp(line, "serving\n") != 0 && fgets(line, sizeof(line), service_says))
        ;
    return pid;
}

static pid_t others_new(enum company company)
{
    if (company == CROWD)
        return clients_come_and_go();
    if (company == KILLED || company == LOST)
        return service_for_good(company, -1);
    return service_that_serves(company);
}

void company_begin(enum company company)
{
    companions[0] = companions[1] = 0;
    if (company == ALONE)
        return;
    companions[0] = company == KILLED ? daemons_come_and_go()
                    : company == LOST ? daemon_that_goes()
                                      : daemon_new();
    for (int i = 0; i < 20000 && access(place, F_OK) != 0; i++)
        usleep(1000);
    if (company != DAEMON)
        companions[1] = others_new(company);
}

int company_end(enum company company)
{
    char lock[sizeof(place) + 8];
    int stayed = 1;
    for (int i = 0; i < 2 && company != ALONE && companions[i]; i++) {
        if (waitpid(companions[i], NULL, WNOHANG) == 0) {
            end(companions[i]);
            continue;
        }
        printf("the %s did not stay\n", i ? "service" : "daemon");
        stayed = 0;
    }
    if (service_says)
        fclose(service_says);
    service_says = NULL;
    unlink(place);
    snprintf(lock, sizeof(lock), "%s.lock", place);
    unlink(lock);
    return stayed;
}
