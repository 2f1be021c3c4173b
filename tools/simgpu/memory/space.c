/*
 * space.c - first fit over a sorted array of free extents. The stretch is reserved without
 * commitment, so only what is touched costs memory.
 */
#include "tools/simgpu/memory/space.h"

#include "tools/simgpu/face/sim.h"
#include "tools/simgpu/face/simconfig.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, GARBAGE_BYTES = 1 << 16, ZERO_BYTES = 1 << 18 };
static const size_t STRETCH = (size_t)1
                              << 43; /* 8 TiB of addresses: eight devices of the largest kind */

struct extent {
    uintptr_t base;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct extent *holes; /* sorted by base; no two touch; all under lock */
static size_t count;
static uintptr_t stretch;
static size_t stretch_bytes;
static struct ipc_file file; /* number 0: the stretch is anonymous */

static bool holes_insert(size_t at, struct extent e)
{
    struct extent *bigger = array_grow(holes, count, sizeof(*holes));
    if (!bigger)
        return false;
    holes = bigger;
    memmove(&holes[at + 1], &holes[at], (count++ - at) * sizeof(*holes));
    holes[at] = e;
    return true;
}

static void holes_remove(size_t at)
{
    count--;
    memmove(&holes[at], &holes[at + 1], (count - at) * sizeof(*holes));
}

/* A sparse file, which other processes can map; if there is none, memory that they cannot map. */
static void *stretch_map(size_t bytes)
{
    enum { ACCESS = PROT_READ | PROT_WRITE };
    if (ipc_file_make(&file, bytes) != 0)
        return mmap(NULL, bytes, ACCESS, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *base = mmap(NULL, bytes, ACCESS, MAP_SHARED | MAP_NORESERVE, file.fd, 0);
    if (base == MAP_FAILED) {
        close(file.fd);
        file.number = 0;
    }
    return base;
}

/* Tries half of the size until the system grants it, because containers may limit address space. */
static void stretch_reserve(void)
{
    static int done;
    if (done)
        return;
    done = 1;
    for (size_t bytes = STRETCH; bytes >= (size_t)1 << 28; bytes /= 2) {
        void *base = stretch_map(bytes);
        if (base == MAP_FAILED)
            continue;
        madvise(base, bytes, MADV_DONTDUMP);
        madvise(base, bytes, MADV_NOHUGEPAGE);
        stretch = (uintptr_t)base;
        stretch_bytes = bytes;
        holes_insert(0, (struct extent){(uintptr_t)base, bytes});
        return;
    }
}

/* Cuts [start, start + bytes) out of hole `at`. False: no memory. */
static bool hole_cut(size_t at, uintptr_t start, size_t bytes)
{
    struct extent e = holes[at];
    size_t before = start - e.base, after = e.bytes - before - bytes;
    if (after != 0 && !holes_insert(at + 1, (struct extent){start + bytes, after}))
        return false;
    if (before != 0)
        holes[at].bytes = before;
    else
        holes_remove(at);
    return true;
}

uintptr_t space_take(size_t bytes, size_t align)
{
    uintptr_t found = 0;
    pthread_mutex_lock(&lock);
    stretch_reserve();
    for (size_t i = 0; i < count && found == 0; i++) {
        uintptr_t start = (holes[i].base + align - 1) & ~(uintptr_t)(align - 1);
        size_t lost = start - holes[i].base;
        if (holes[i].bytes >= lost && holes[i].bytes - lost >= bytes)
            found = hole_cut(i, start, bytes) ? start : 0;
    }
    pthread_mutex_unlock(&lock);
    int garbage = config_get()->garbage;
    if (found != 0 && garbage != 0) /* the beginning: a large extent costs no more than a small */
        memset((void *)found, garbage, bytes < GARBAGE_BYTES ? bytes : GARBAGE_BYTES);
    return found;
}

/* Releases its whole pages. True: they are zero from now on. */
static bool pages_release(uintptr_t base, size_t bytes, struct extent *pages)
{
    uintptr_t first = (base + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t last = (base + bytes) & ~(uintptr_t)(PAGE - 1);
    *pages = (struct extent){first, last > first ? last - first : 0};
    return pages->bytes != 0 && madvise((void *)first, pages->bytes,
                                        file.number != 0 ? MADV_REMOVE : MADV_DONTNEED) == 0;
}

void space_zero(uintptr_t base, size_t bytes)
{
    struct extent pages = {0};
    if (bytes < ZERO_BYTES || !space_has(base) || !space_has(base + bytes - 1) ||
        !pages_release(base, bytes, &pages)) {
        memset((void *)base, 0, bytes);
        return;
    }
    uintptr_t end = pages.base + pages.bytes;
    memset((void *)base, 0, pages.base - base);
    memset((void *)end, 0, base + bytes - end);
}

void space_give(uintptr_t base, size_t bytes)
{
    struct extent pages;
    pages_release(base, bytes, &pages);
    SCOPED_LOCK(&lock);
    size_t at = 0, high = count; /* the first hole above base */
    while (at < high) {
        size_t mid = (at + high) / 2;
        if (holes[mid].base < base)
            at = mid + 1;
        else
            high = mid;
    }
    if (at < count && base + bytes == holes[at].base) { /* merge with the hole above, */
        bytes += holes[at].bytes;
        holes_remove(at);
    }
    if (at > 0 && holes[at - 1].base + holes[at - 1].bytes == base) /* and with the one below */
        holes[at - 1].bytes += bytes;
    else
        holes_insert(at, (struct extent){base, bytes}); /* no memory: the addresses are lost */
}

bool space_has(uintptr_t at)
{
    SCOPED_LOCK(&lock);
    return at - stretch < stretch_bytes;
}

bool space_file(uintptr_t base, struct ipc_file *out, uint64_t *offset)
{
    *out = file; /* made before the first extent */
    *offset = base - stretch;
    return file.number != 0;
}
