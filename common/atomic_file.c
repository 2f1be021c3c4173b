/*
 * atomic_file.c - files that others find whole or not at all (see atomic_file.h).
 */
#include "common/atomic_file.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *atomic_file_open(struct atomic_file *w, const char *path)
{
    struct stat st;
    bool there = lstat(path, &st) == 0, file = !there || S_ISREG(st.st_mode);
    int n = snprintf(w->beside, sizeof(w->beside), "%s.%d.part", path, (int)getpid());

    w->path = path;
    if ((size_t)n >= sizeof(w->beside)) {
        errno = ENAMETOOLONG;
        return w->out = NULL;
    }
    if (file)
        unlink(w->beside); /* left by an earlier process with this number, which was killed */
    else
        w->beside[0] = '\0';
    w->out = fopen(file ? w->beside : path, file ? "wxe" : "we");
    if (w->out && there && file)
        fchmod(fileno(w->out), st.st_mode & 0777);
    return w->out;
}

int atomic_file_close(struct atomic_file *w, int rc)
{
    if (ferror(w->out) && rc == 0)
        rc = -EIO;
    if (fclose(w->out) != 0 && rc == 0)
        rc = -errno;
    if (!w->beside[0])
        return rc;
    if (rc == 0 && rename(w->beside, w->path) != 0)
        rc = -errno;
    if (rc != 0)
        unlink(w->beside);
    return rc;
}
