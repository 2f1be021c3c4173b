/*
 * page.c - can a page of a memfd, such as the daemon hands out, have markers and hold words?
 */
#include "gpu.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, WAIT_MS = 500, OPENED_MS = 20000, SAMPLES = 200, QUICK_SAMPLES = 20 };

/* One page of shared memory and two mappings of it: the registered one, and the one that another
 * process would see. */
struct page {
    int fd;
    void *registered;
    struct word word; /* .host is in the other mapping */
};

static void *map(int fd, void *at, int protection)
{
    void *page = mmap(at, PAGE, protection, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

    if (page == MAP_FAILED)
        fact_fail("mmap: %s", strerror(errno));
    return page;
}

static int memory_new(void)
{
    int fd = memfd_create("gpu-facts", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, PAGE) != 0)
        fact_fail("memfd: %s", strerror(errno));
    return fd;
}

/* Registers a page and gives the result. */
static bool page_register(struct page *p, int protection, unsigned int flags)
{
    CUresult result;

    p->fd = memory_new();
    p->registered = map(p->fd, NULL, protection);
    p->word.host = map(p->fd, NULL, PROT_READ | PROT_WRITE);
    result = gpu.cuMemHostRegister(p->registered, PAGE, flags);
    fact_text("register", "%s", gpu_error(result));
    if (result != CUDA_SUCCESS)
        return false;
    result = gpu.cuMemHostGetDevicePointer(&p->word.device, p->registered, 0);
    fact_text("device_pointer", "%s", gpu_error(result));
    return result == CUDA_SUCCESS;
}

/* The same, for facts that need the page. */
static void need_page(struct page *p, int protection, unsigned int flags)
{
    need_memops();
    if (!page_register(p, protection, flags))
        fact_skip("a memfd page cannot be registered");
}

/* Does a closed gate on the page open when the other mapping is written? */
static void gate_test(const struct page *p, CUstream s)
{
    static uint64_t ns[SAMPLES];
    size_t n = fact_quick ? QUICK_SAMPLES : SAMPLES;
    struct word passed = word_new();
    CUresult result;

    for (uint32_t i = 1; i <= n; i++) {
        uint64_t opened_ns;

        word_set(p->word, 1);
        result = gate_enqueue(s, p->word.device);
        if (i == 1)
            fact_text("gate", "%s", gpu_error(result));
        if (result != CUDA_SUCCESS)
            return;
        gpu_check(mark_enqueue(s, passed.device, i), "cuStreamWriteValue32");
        clock_sleep_us(300);
        if (word_get(passed) == i) {
            fact_flag("gate_holds", false);
            return;
        }
        opened_ns = clock_ns();
        word_set(p->word, 0);
        if (!word_wait(passed, i, WAIT_MS)) {
            fact_flag("gate_holds", true);
            fact_flag("gate_opens", false);
            return;
        }
        ns[i - 1] = clock_ns() - opened_ns;
    }
    fact_flag("gate_holds", true);
    fact_flag("gate_opens", true);
    fact_samples("write_to_marker_us", ns, n);
}

static void marker_test(const struct page *p, CUstream s)
{
    CUresult result = mark_enqueue(s, p->word.device, 42);

    fact_text("marker", "%s", gpu_error(result));
    if (result == CUDA_SUCCESS) {
        result = gpu.cuStreamSynchronize(s);
        fact_text("marker_end", "%s", gpu_error(result));
        fact_flag("marker_seen_by_other_view", word_wait(p->word, 42, WAIT_MS));
    }
}

void fact_page(void)
{
    struct page p;
    CUstream s;
    bool registered;

    gpu_open();
    s = stream_new();
    registered = page_register(&p, PROT_READ | PROT_WRITE,
                               CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    need_memops();
    if (!registered) /* then gates read a copy of the hold words */
        p.word = word_new();
    marker_test(&p, s);
    gate_test(&p, s);
    if (registered)
        fact_text("unregister", "%s", gpu_error(gpu.cuMemHostUnregister(p.registered)));
}

struct word gate_word_new(void)
{
    struct page p;

    return page_register(&p, PROT_READ | PROT_WRITE,
                         CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)
               ? p.word
               : word_new();
}

/* Registers with the flag for it, and without, as one would on a device that lacks the flag. */
void fact_page_read_only(void)
{
    struct page p;

    gpu_open();
    fact_value("attribute",
               json_integer(gpu_attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)));
    {
        void *page = map(memory_new(), NULL, PROT_READ);
        CUresult result = gpu.cuMemHostRegister(
            page, PAGE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        fact_text("register_without_flag", "%s", gpu_error(result));
    }
    need_page(&p, PROT_READ,
              CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                  CU_MEMHOSTREGISTER_READ_ONLY);
    gate_test(&p, stream_new());
}

/* Maps a page over the registered one at the same address, as happens when a daemon comes or goes.
 * Which of the two pages does the GPU read, and can the registration be renewed? */
void fact_page_replaced(void)
{
    const unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    struct word passed, old_view;
    struct page p;
    CUstream s;
    CUresult result;

    gpu_open();
    s = stream_new();
    passed = word_new();
    need_page(&p, PROT_READ | PROT_WRITE, flags);
    old_view = p.word;
    word_set(old_view, 1);
    gpu_check(gate_enqueue(s, p.word.device), "cuStreamWaitValue32");
    gpu_check(mark_enqueue(s, passed.device, 1), "cuStreamWriteValue32");
    map(memory_new(), p.registered, PROT_READ | PROT_WRITE); /* zero: open, if it is read */
    fact_text("gpu_looks_at", word_wait(passed, 1, WAIT_MS) ? "the new page" : "the old page");
    word_set(old_view, 0);
    if (!word_wait(passed, 1, OPENED_MS))
        fact_fail("neither page opens the gate");
    CU(cuStreamSynchronize, s);

    result = gpu.cuMemHostUnregister(p.registered);
    fact_text("unregister", "%s", gpu_error(result));
    result = gpu.cuMemHostRegister(p.registered, PAGE, flags);
    fact_text("register_again", "%s", gpu_error(result));
    if (result != CUDA_SUCCESS)
        return;
    CU(cuMemHostGetDevicePointer, &p.word.device, p.registered, 0);
    gpu_check(gate_enqueue(s, p.word.device), "cuStreamWaitValue32");
    gpu_check(mark_enqueue(s, passed.device, 2), "cuStreamWriteValue32");
    fact_flag("new_page_seen_after_that", word_wait(passed, 2, WAIT_MS));
}
