/*
 * side.c - a command that starts itself for each piece of its work (see side.h).
 */
#include "side.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct piece {
    pid_t pid; /* 0: it has ended */
    FILE *said, *result;
};

static FILE *file_make(void)
{
    FILE *f = tmpfile();
    if (f)
        fcntl(fileno(f), F_SETFD, FD_CLOEXEC);
    return f;
}

static bool piece_start(struct side *s, uint32_t i)
{
    struct piece *p = &s->piece[i];
    char result[16], *more[SIDE_ARGUMENTS] = {0},
                     **args = calloc((size_t)s->argc + 7, sizeof(*args));
    p->said = file_make();
    p->result = file_make();
    if (!args || !p->said || !p->result) {
        free(args);
        return false;
    }
    snprintf(result, sizeof(result), "%d", fileno(p->result));
    s->work(i, more);
    memcpy(args, s->argv, (size_t)s->argc * sizeof(*args));
    args[s->argc] = "--result";
    args[s->argc + 1] = result;
    memcpy(args + s->argc + 2, more, sizeof(more));
    p->pid = fork();
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fileno(p->said), STDOUT_FILENO);
        fcntl(fileno(p->result), F_SETFD, 0);
        execv("/proc/self/exe", args);
        _exit(2);
    }
    free(args);
    return p->pid > 0;
}

static void piece_end(struct piece *p, void *result, size_t size)
{
    char text[4096];
    rewind(p->said);
    for (size_t n; (n = fread(text, 1, sizeof(text), p->said));)
        fwrite(text, 1, n, stdout);
    fflush(stdout);
    rewind(p->result);
    if (fread(result, size, 1, p->result) != 1)
        memset(result, 0, size);
    fclose(p->said);
    fclose(p->result);
}

bool side_next(struct side *s, uint32_t i, void *result)
{
    if (!s->piece && !(s->piece = calloc(s->many, sizeof(*s->piece))))
        return false;
    for (;;) {
        for (; s->started < s->many && s->running < s->at_once; s->started++, s->running++)
            if (!piece_start(s, s->started))
                return false;
        if (i >= s->started)
            return false;
        if (s->piece[i].pid == 0) {
            piece_end(&s->piece[i], result, s->size);
            return true;
        }
        pid_t pid = wait(NULL);
        for (uint32_t k = i; k < s->started; k++)
            if (s->piece[k].pid == pid) {
                s->piece[k].pid = 0;
                s->running--;
            }
    }
}

void side_stop(struct side *s)
{
    s->many = s->started;
}
