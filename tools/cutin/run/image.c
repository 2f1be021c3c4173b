/*
 * image.c - reads a program's file (see run.h), because its loader does the preloading.
 */
#include "run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

int image_open(struct image *image, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -ENOEXEC;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &image->is) == 0 && S_ISREG(image->is.st_mode) && image->is.st_size > 0) {
        image->size = (size_t)image->is.st_size;
        image->bytes = mmap(NULL, image->size, PROT_READ, MAP_PRIVATE, fd, 0);
        rc = image->bytes != MAP_FAILED ? 0 : -errno;
    }
    close(fd);
    return rc;
}

void image_close(struct image *image)
{
    munmap((void *)image->bytes, image->size);
}

/* Returns `size` bytes at `offset`. NULL: the file ends before. */
static const void *image_at(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset ? image->bytes + offset : NULL;
}

enum { SCRIPTS = 5 }; /* an interpreter may be a script: the kernel follows 5, too */

/* Reads "#!/path argument". False: it is no script. */
static bool interpreter(const struct image *image, char path[PATH_MAX])
{
    char line[256]; /* the kernel reads no more */
    size_t size = image->size < sizeof(line) ? image->size : sizeof(line) - 1;
    const char *start;

    memcpy(line, image->bytes, size);
    line[size] = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return false;
    start = line + 2 + strspn(line + 2, " \t");
    snprintf(path, PATH_MAX, "%.*s", (int)strcspn(start, " \t\r\n"), start);
    return true;
}

static bool has_loader(const struct image *image)
{
    const ElfW(Ehdr) *header = image_at(image, 0, sizeof(*header));
    const ElfW(Phdr) * parts;
    const ElfW(Dyn) * entries;

    parts = header ? image_at(image, header->e_phoff, header->e_phnum * sizeof(*parts)) : NULL;
    for (int i = 0; parts && i < header->e_phnum; i++) {
        if (parts[i].p_type == PT_INTERP)
            return true;
        /* A loader that is run as a program has a name as a library. A static program that is
         * position independent has none. */
        entries = parts[i].p_type == PT_DYNAMIC
                      ? image_at(image, parts[i].p_offset, parts[i].p_filesz)
                      : NULL;
        for (size_t n = 0; entries && n < parts[i].p_filesz / sizeof(*entries); n++)
            if (entries[n].d_tag == DT_SONAME)
                return true;
    }
    return !parts;
}

/* Whether the kernel will set AT_SECURE. */
static bool gains_privileges(const struct image *image, const char *path)
{
    const struct stat *is = &image->is;
    struct statvfs mount;

    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
        (statvfs(path, &mount) == 0 && mount.f_flag & ST_NOSUID))
        return false;
    return (is->st_mode & S_ISUID && is->st_uid != getuid()) ||
           (is->st_mode & S_ISGID && is->st_mode & S_IXGRP && is->st_gid != getgid()) ||
           (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Finds the file that execvp runs for this name. False: there is none. */
static bool program_find(const char *name, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    struct stat is;

    if (strchr(name, '/'))
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    for (const char *at = folders ? folders : "/bin:/usr/bin"; at; at = strchr(at, ':')) {
        at += *at == ':';
        int length = (int)strcspn(at, ":");

        if (snprintf(path, PATH_MAX, "%.*s%s%s", length, at, length ? "/" : "", name) < PATH_MAX &&
            stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

void preload_check(const struct subcommand *cmd, const char *program)
{
    bool script = true;
    char path[PATH_MAX];

    if (!program_find(program, path))
        return;
    for (int i = 0; script && i < SCRIPTS; i++) {
        struct image image;
        const char *why = NULL;

        if (image_open(&image, path) != 0)
            return;
        if (image.size >= EI_NIDENT && memcmp(image.bytes, ELFMAG, SELFMAG) == 0)
            why = image.bytes[EI_CLASS] != ELFCLASS64
                      ? "it is a 32-bit program, and libcutin.so a 64-bit library"
                  : !has_loader(&image)
                      ? "it is statically linked, so libcutin.so cannot be preloaded into it"
                  : gains_privileges(&image, path)
                      ? "it gains privileges (setuid, setgid or capabilities), so the loader "
                        "ignores LD_PRELOAD"
                      : NULL;
        if (why)
            say(cmd, "%s cannot be scheduled: %s", path, why);
        script = interpreter(&image, path);
        image_close(&image);
    }
}
