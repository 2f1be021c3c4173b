/* image.c - see image.h. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int image_open(struct image *image, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -ENOEXEC;
    void *bytes;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &image->is) == 0 && S_ISREG(image->is.st_mode) && image->is.st_size > 0) {
        image->size = (size_t)image->is.st_size;
        bytes = mmap(NULL, image->size, PROT_READ, MAP_PRIVATE, fd, 0);
        rc = bytes != MAP_FAILED ? 0 : -errno;
        image->bytes = bytes;
    }
    close(fd);
    return rc;
}

void image_close(struct image *image)
{
    munmap((void *)image->bytes, image->size);
}

const void *image_at(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset ? image->bytes + offset : NULL;
}
