/*
 * stray.c - descriptors that a client sends with a message, which the daemon has no use for.
 *
 * A process that receives such a message without taking them, or closes the socket that it waits
 * in, makes the kernel close them in its name. That may take as long as the sender likes: a TCP
 * connection whose other end reads nothing ends after its SO_LINGER. So the daemon has the kernel
 * forbid to send any, if it can (Linux 6.16). Elsewhere, and if they were sent before this daemon
 * was there, such a message is not received. Its socket is closed by a child that is then killed: a
 * process that ends waits for no connection.
 */
#include "scheduler/peers/peer.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

enum { ROOM = 256 };

static int held[ROOM];
static int count;

void stray_forbid(int listener)
{
    setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}

bool stray_next(int socket)
{
    struct msghdr next = {0};

    return recvmsg(socket, &next, MSG_PEEK | MSG_DONTWAIT) >= 0 && (next.msg_flags & MSG_CTRUNC);
}

void stray_close(int socket)
{
    int may = 1;
    socklen_t size = sizeof(may);

    if (getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &may, &size) == 0 && !may) {
        close(socket);
        return;
    }
    held[count++] = socket;
    if (count == ROOM)
        stray_end();
}

void stray_end(void)
{
    pid_t self = getpid(), child;

    if (count == 0)
        return;
    signal(SIGCHLD, SIG_IGN); /* so that no wait() is needed */
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == self)
            pause();
        _exit(0);
    }
    if (child < 0 && count < ROOM) /* try the next time */
        return;
    while (count > 0)
        close(held[--count]);
    if (child > 0)
        kill(child, SIGKILL);
}
