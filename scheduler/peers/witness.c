/*
 * witness.c - whether the memory of a page was taken away.
 *
 * A client must be able to write to its page. So it can also give the page's memory back
 * (fallocate(2) with FALLOC_FL_PUNCH_HOLE, madvise(2) with MADV_REMOVE): no seal forbids that
 * without forbidding to map the page. A process that holds it then takes a page fault at every
 * cut-in, which costs some hundred times what a cut-in does.
 *
 * It cannot be hidden. The kernel takes the memory out of all mappings. The daemon has one of each
 * page, locked and never touched, so nothing else can empty that mapping.
 */
#include "scheduler/peers/peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The part to which other clients write. */
enum { AT = offsetof(struct cutin_page, device), SIZE = 4096 };

void *witness_new(int fd)
{
    void *witness = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, AT);

    if (witness == MAP_FAILED)
        return NULL;
    /* The bare system call: sanitizers make mlock(2) do nothing. */
    if (syscall(SYS_mlock, witness, SIZE) == 0 && witness_intact(witness))
        return witness;
    munmap(witness, SIZE);
    return NULL;
}

void witness_free(void *witness)
{
    if (witness)
        munmap(witness, SIZE);
}

/* proc(5): 64 bits for each page. Bit 63 means present, bit 62 swapped, which a page is for a
 * moment while the kernel moves it. */
bool witness_intact(const void *witness)
{
    off_t at = (off_t)((uintptr_t)witness / (uintptr_t)sysconf(_SC_PAGESIZE) * sizeof(uint64_t));
    uint64_t entry;
    ssize_t n;
    int fd;

    if (!witness || (fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) < 0)
        return true;
    n = pread(fd, &entry, sizeof(entry), at);
    close(fd);
    return n != (ssize_t)sizeof(entry) || entry >> 62 != 0;
}
