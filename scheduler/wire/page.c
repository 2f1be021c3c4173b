/*
 * page.c - the shared page: its memory, its mapping, and the bits of a hold.
 *
 * A page that was mapped from a descriptor can never raise SIGBUS: the memfd must be sealed against
 * shrinking before it is mapped.
 */
#include "scheduler/wire/page.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SIZE  sizeof(struct cutin_page)

static void write_header(struct cutin_page *page)
{
    page->magic = PAGE_MAGIC;
    page->version = PAGE_VERSION;
    page->size = SIZE;
    page->devices = PAGE_DEVICES;
}

/* Puts other memory at a page's address while other threads use it. They see the old or the new
 * memory: the kernel swaps the mapping in one step. The bare system call is used because sanitizers
 * take mmap(2) for a write to all of it; its last argument is on the stack: an int fills half. */
static int replace(void *at, size_t bytes, int flags, int fd)
{
    return syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0L) == -1
               ? -errno
               : 0;
}

static size_t whole(size_t bytes)
{
    size_t granule = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + granule - 1) / granule * granule;
}

struct cutin_page *page_new(void)
{
    struct cutin_page *page =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    write_header(page);
    return page;
}

int page_make_private(struct cutin_page *page)
{
    int rc = replace(page, SIZE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    if (rc == 0)
        write_header(page);
    return rc;
}

int page_new_shared(struct cutin_page **page, int *out)
{
    int fd = memfd_create("cutin-page", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;
    struct cutin_page *new = MAP_FAILED;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)SIZE) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        new = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (new == MAP_FAILED) {
        rc = -errno;
        close(fd);
        return rc;
    }
    write_header(new);
    *page = new;
    *out = fd;
    return 0;
}

/* How many bytes of the descriptor's memory this release maps. 0: it is no page, or it is not
 * sealed, so that an access could fault. */
static size_t page_bytes(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0 ||
        st.st_size < (off_t)PAGE_LEAST)
        return 0;
    return (size_t)st.st_size < SIZE ? PAGE_LEAST : SIZE;
}

size_t page_tail(void)
{
    return whole(SIZE);
}

int page_map_other(int fd, struct cutin_page **out)
{
    size_t bytes = page_bytes(fd);
    struct cutin_page *page;
    int rc;

    if (!bytes)
        return -EINVAL;
    page = mmap(NULL, page_tail() + PAGE_TAIL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    rc = replace(page, bytes, MAP_SHARED, fd);
    if (rc == 0)
        *out = page;
    else
        page_unmap_other(page);
    return rc;
}

void page_unmap_other(struct cutin_page *page)
{
    if (page)
        munmap(page, page_tail() + PAGE_TAIL);
}

int page_map(int fd, struct cutin_page *at)
{
    size_t bytes = page_bytes(fd);
    struct cutin_page *page;
    bool ok;
    int rc;

    if (!bytes)
        return -EINVAL;
    page = mmap(NULL, PAGE_LEAST, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    ok = page->magic == PAGE_MAGIC && page->version == PAGE_VERSION && page->size >= PAGE_LEAST &&
         page->devices == PAGE_DEVICES;
    munmap(page, PAGE_LEAST);
    /* The page is checked, and there was room for one mapping more: this can hardly fail now. */
    rc = ok ? replace(at, bytes, MAP_SHARED, fd) : -EINVAL;
    if (rc == 0 && whole(bytes) < SIZE)
        rc = replace((char *)at + whole(bytes), SIZE - whole(bytes), MAP_PRIVATE | MAP_ANONYMOUS,
                     -1);
    return rc;
}

void page_unmap(struct cutin_page *page)
{
    if (page)
        munmap(page, SIZE);
}

uint32_t page_held_levels(uint32_t level, uint32_t granted)
{
    uint32_t mask = 0;

    for (uint32_t l = 0; l < PAGE_LEVELS; l++)
        if ((l < granted ? l : granted) < level)
            mask |= 1u << l;
    return mask;
}

uint32_t page_first_slot(uint32_t seed)
{
    uint32_t mixed = seed * 0x9e3779b1u;

    /* This looks like chance, however regular the seeds are. */
    mixed = (mixed ^ mixed >> 15) * 0x85ebca77u;
    return (mixed >> 28) % PAGE_DEVICES;
}

/*
 * All accesses are sequentially consistent. A writer changes what the bit should be, writes here,
 * then looks again. So a word that already shows the right value needs no write: an overtaken
 * writer comes back. `want` is written before `hold`, so a bound never restores an older value from
 * it. The time is written before the bit: a thread that sees a held word must find it.
 */
void page_write_bit(struct page_device *device, uint32_t bit, uint32_t words, uint32_t among,
                    uint64_t now_ns)
{
    while (among) {
        uint32_t i = 31u - (uint32_t)__builtin_clz(among), level = i % PAGE_LEVELS;
        _Atomic uint32_t *word = i == level ? &device->hold[level] : &device->want[level];
        uint32_t seen = atomic_load(word);

        among ^= 1u << i;
        if (!(words >> i & 1)) {
            if (seen & bit)
                atomic_fetch_and(word, ~bit);
            continue;
        }
        if (!seen && i == level)
            atomic_store_explicit(&device->hold_since_ns[level], now_ns, memory_order_relaxed);
        if (!(seen & bit))
            atomic_fetch_or(word, bit);
    }
}

typedef uint64_t __attribute__((may_alias)) word;

void page_copy(struct cutin_page *to, const struct cutin_page *from)
{
    word *out = (word *)(void *)to;
    const word *in = (const word *)(const void *)from;

    for (size_t i = 0; i < SIZE / sizeof(*out); i++)
        out[i] = __atomic_load_n(&in[i], __ATOMIC_RELAXED);
}

void page_add_counters(struct cutin_page *to, const struct cutin_page *from)
{
/* Memory in which nothing was counted is not touched. */
#define ADD(field)                                                                                 \
    if (atomic_load_explicit(&from->field, memory_order_relaxed))                                  \
        atomic_fetch_add_explicit(&to->field,                                                      \
                                  atomic_load_explicit(&from->field, memory_order_relaxed),        \
                                  memory_order_relaxed);
#define COUNTER(name, help) ADD(device[d].counters.name)
#define TIME(name, help)    ADD(times.name[i])
    for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
        PAGE_COUNTERS(COUNTER)
    }
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        PAGE_TIMES(TIME)
    }
#undef TIME
#undef COUNTER
#undef ADD
}
