/*
 * image.h - a file of ELF, as it lies on the disk, and what the loader makes of it.
 */
#ifndef CUTIN_TOOLS_CUTIN_RUN_IMAGE_H
#define CUTIN_TOOLS_CUTIN_RUN_IMAGE_H

#include <stddef.h>
#include <sys/stat.h>

struct image {
    const char *bytes;
    size_t size;
    struct stat is;
};

/* Maps a regular file that is not empty. Returns 0 or -errno. */
int image_open(struct image *image, const char *path);
void image_close(struct image *image);

struct subcommand;
/* One line on stderr where `program`, looked up as execvp does, is one that no library can be
 * preloaded into, or a script for such a one: nothing of it is scheduled. Nothing where it cannot
 * be run or read. */
void preload_check(const struct subcommand *cmd, const char *program);

#endif
