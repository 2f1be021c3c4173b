/*
 * storage.h - storage that the GPU reaches by itself: the memory between kernels and a controller,
 * and what a warp does with it. The kernels (gpu_storage.cu), the simulated GPU and the program
 * (gpu_storage.c) all compile this file.
 *
 * A warp that needs a page of the file looks for it in a cache of lines. If it is not there, the
 * warp takes a line, puts a command into a submission queue, rings a doorbell, and polls a
 * completion queue. No processor takes part. A page is
 *   invalid   in no line
 *   busy      on its way in or out, owned by one warp
 *   valid     in its line, with a count of the warps that use it
 *   dirty     the same, and the file has an older version
 *
 * A warp's work is cut into steps that never wait, so 32 threads of a GPU can run it, and one loop
 * of C, too. The leader is the thread that acts for the whole warp.
 */
#ifndef CUTIN_EXAMPLES_STORAGE_H
#define CUTIN_EXAMPLES_STORAGE_H

#include <stdint.h>

enum {
    STORAGE_PAGE = 4096, /* bytes; a line holds one page */
    STORAGE_WORDS = STORAGE_PAGE / 4,
    STORAGE_ENTRIES = 64, /* of a queue: this many warps share it, each with one command at most */
    STORAGE_LANES = 32,
};
#define STORAGE_NONE UINT32_MAX

enum storage_opcode { STORAGE_WRITE = 1, STORAGE_READ = 2 }; /* numbered as in NVMe */

struct storage_command {
    uint32_t opcode, tag;
    uint64_t page; /* in the file */
    uint64_t data; /* memory that it goes to, or comes from */
    uint64_t spare;
};

/* Posted when its phase is the lap's: 1 in the first lap, 0 in the second, and so on. */
struct storage_completion {
    uint32_t tag, status, phase, spare;
};

/* A queue pair. Heads and tails only count up, beyond the queue's size. */
struct storage_queue {
    uint32_t submit_lock, tail, complete_lock, head;
    uint32_t done[STORAGE_ENTRIES]; /* by tag: 1 done, 2 failed */
    struct storage_command submitted[STORAGE_ENTRIES];
    struct storage_completion completed[STORAGE_ENTRIES];
};

/* Registers that the GPU writes and the controller reads. */
struct storage_doorbell {
    uint32_t tail, head;
};

enum storage_state { PAGE_INVALID, PAGE_BUSY, PAGE_VALID, PAGE_DIRTY };
enum { PAGE_STATE_SHIFT = 30 };

struct storage_page {
    uint32_t word; /* the state, and how many warps use the page */
    uint32_t line;
};

/* A graph. Its file has pages with the distances of its vertices, then those with its edges. */
struct storage {
    uint32_t vertices, lines, warps, edge_page; /* edge_page: the first page with edges */
    struct storage_queue *queues;
    volatile struct storage_doorbell *doorbells;
    struct storage_page *pages;
    uint32_t *owner; /* of each line: its page, or STORAGE_NONE */
    unsigned char *data;
    const uint32_t *first_edge; /* of each vertex, and one more */
    uint32_t *now, *next;       /* vertices of this level, and of the next */
    uint32_t now_count, next_count;
    uint32_t taken; /* how much of this kernel's work warps have taken */
    uint32_t clock; /* the line where the next search for a line begins */
    uint32_t failed;
    uint32_t hits, reads, writes,
        coalesced; /* coalesced: lanes whose page another lane had asked for */
};

enum storage_phase {
    WARP_NEXT,
    WARP_EDGES,
    WARP_LOAD,
    WARP_PICK,
    WARP_TOUCH,
    WARP_VISIT,
    WARP_OVER
};
enum storage_fetch { FETCH_LOOK, FETCH_LINE, FETCH_WRITE, FETCH_WRITTEN, FETCH_READ, FETCH_WAIT };

struct storage_warp {
    uint32_t number;
    uint32_t phase, fetch; /* fetch: how far the warp is with `page` */
    uint32_t ran;          /* whether the last step did more than look */
    uint32_t page, line, victim;
    uint32_t at, end, batch; /* edges */
    uint32_t changed;
    uint32_t vertex[STORAGE_LANES]; /* of each lane; STORAGE_NONE: none, or done */
};

#ifdef __CUDACC__
#define STORAGE_FN static __device__ inline
#define LANES(lane)                                                                                \
    for (uint32_t lane = threadIdx.x % STORAGE_LANES, lane##_in = 1; lane##_in;                    \
         lane##_in = 0, __syncwarp())
#define LEADER(does)                                                                               \
    do {                                                                                           \
        if (threadIdx.x % STORAGE_LANES == 0)                                                      \
            does;                                                                                  \
        __syncwarp();                                                                              \
    } while (0)
STORAGE_FN uint32_t word_load(const volatile uint32_t *p)
{
    uint32_t value = *p;
    __threadfence_system();
    return value;
}
STORAGE_FN void word_store(volatile uint32_t *p, uint32_t value)
{
    __threadfence_system();
    *p = value;
}
STORAGE_FN int word_swap(uint32_t *p, uint32_t from, uint32_t to)
{
    int swapped = atomicCAS(p, from, to) == from;
    __threadfence();
    return swapped;
}
STORAGE_FN uint32_t word_add(uint32_t *p, uint32_t value)
{
    __threadfence();
    return atomicAdd(p, value);
}
STORAGE_FN void word_or(uint32_t *p, uint32_t value)
{
    atomicOr(p, value);
}
#else
#define STORAGE_FN  static inline
#define LANES(lane) for (uint32_t lane = 0; lane < STORAGE_LANES; lane++)
#define LEADER(does)                                                                               \
    do {                                                                                           \
        does;                                                                                      \
    } while (0)
STORAGE_FN uint32_t word_load(const volatile uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
STORAGE_FN void word_store(volatile uint32_t *p, uint32_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}
STORAGE_FN int word_swap(uint32_t *p, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(p, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
STORAGE_FN uint32_t word_add(uint32_t *p, uint32_t value)
{
    return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}
STORAGE_FN void word_or(uint32_t *p, uint32_t value)
{
    __atomic_fetch_or(p, value, __ATOMIC_ACQ_REL);
}
#endif

/* ---- queues (leader) ------------------------------------------------------------------------- */

STORAGE_FN uint32_t completion_phase(uint32_t count)
{
    return (count / STORAGE_ENTRIES & 1) ^ 1;
}

STORAGE_FN struct storage_queue *warp_queue(const struct storage *s, const struct storage_warp *w)
{
    return &s->queues[w->number / STORAGE_ENTRIES];
}

/* False: another warp is submitting. */
STORAGE_FN int command_submit(struct storage *s, struct storage_warp *w, uint32_t opcode,
                              uint32_t page)
{
    struct storage_queue *q = warp_queue(s, w);
    uint32_t tag = w->number % STORAGE_ENTRIES, tail;
    if (!word_swap(&q->submit_lock, 0, 1))
        return 0;
    tail = word_load(&q->tail);
    word_store(&q->done[tag], 0);
    volatile struct storage_command *c = &q->submitted[tail % STORAGE_ENTRIES];
    c->opcode = opcode;
    c->tag = tag;
    c->page = page;
    c->data = (uint64_t)(uintptr_t)(s->data + (uint64_t)w->line * STORAGE_PAGE);
    word_store(&q->tail, tail + 1);
    word_store(&s->doorbells[w->number / STORAGE_ENTRIES].tail, tail + 1);
    word_store(&q->submit_lock, 0);
    word_add(opcode == STORAGE_READ ? &s->reads : &s->writes, 1);
    return 1;
}

/* Hands posted completions to the warps that wait for them. */
STORAGE_FN void completions_take(struct storage *s, struct storage_warp *w)
{
    struct storage_queue *q = warp_queue(s, w);
    if (!word_swap(&q->complete_lock, 0, 1))
        return;
    uint32_t head = word_load(&q->head), first = head;
    for (;; head++) {
        struct storage_completion *c = &q->completed[head % STORAGE_ENTRIES];
        if (word_load(&c->phase) != completion_phase(head))
            break;
        word_store(&q->done[word_load(&c->tag)], word_load(&c->status) ? 2 : 1);
    }
    if (head != first) {
        word_store(&q->head, head);
        word_store(&s->doorbells[w->number / STORAGE_ENTRIES].head, head);
    }
    word_store(&q->complete_lock, 0);
}

STORAGE_FN int command_done(struct storage *s, struct storage_warp *w)
{
    const uint32_t *done = &warp_queue(s, w)->done[w->number % STORAGE_ENTRIES];
    if (!word_load(done))
        completions_take(s, w);
    uint32_t how = word_load(done);
    if (how == 2)
        word_store(&s->failed, 1);
    return how != 0;
}

/* ---- the cache (leader) ---------------------------------------------------------------------- */

STORAGE_FN uint32_t page_state(uint32_t word)
{
    return word >> PAGE_STATE_SHIFT;
}

STORAGE_FN uint32_t page_word(uint32_t state, uint32_t users)
{
    return state << PAGE_STATE_SHIFT | users;
}

STORAGE_FN volatile uint32_t *line_words(const struct storage *s, uint32_t line)
{
    return (volatile uint32_t *)(void *)(s->data + (uint64_t)line * STORAGE_PAGE);
}

/* Takes a line for the warp's page, if one of the next few is free. */
STORAGE_FN int line_take(struct storage *s, struct storage_warp *w)
{
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; i++) {
        uint32_t line = word_add(&s->clock, 1) % s->lines, owner = word_load(&s->owner[line]);
        w->line = line;
        w->victim = STORAGE_NONE;
        if (owner == STORAGE_NONE) {
            if (word_swap(&s->owner[line], owner, w->page))
                return 1;
            continue;
        }
        struct storage_page *p = &s->pages[owner];
        uint32_t word = word_load(&p->word), state = page_state(word);
        int idle = word == page_word(PAGE_VALID, 0) || word == page_word(PAGE_DIRTY, 0);
        if (!idle || !word_swap(&p->word, word, page_word(PAGE_BUSY, 0)))
            continue;
        if (word_load(&p->line) != line) { /* by now the page is in another line */
            word_store(&p->word, word);
            continue;
        }
        w->victim = owner;
        w->fetch = state == PAGE_DIRTY ? FETCH_WRITE : FETCH_READ;
        return 1;
    }
    return 0;
}

STORAGE_FN void victim_leaves(struct storage *s, struct storage_warp *w)
{
    if (w->victim == STORAGE_NONE)
        return;
    word_store(&s->owner[w->line], w->page);
    word_store(&s->pages[w->victim].word, page_word(PAGE_INVALID, 0));
    w->victim = STORAGE_NONE;
}

STORAGE_FN void page_want(struct storage_warp *w, uint32_t page)
{
    w->page = page;
    w->fetch = FETCH_LOOK;
}

STORAGE_FN int page_look(struct storage *s, struct storage_warp *w)
{
    struct storage_page *p = &s->pages[w->page];
    uint32_t word = word_load(&p->word), state = page_state(word);
    if (state == PAGE_BUSY)
        return 0;
    w->ran = 1;
    if (state == PAGE_INVALID) {
        if (word_swap(&p->word, word, page_word(PAGE_BUSY, 0)))
            w->fetch = FETCH_LINE;
        return 0;
    }
    if (!word_swap(&p->word, word, word + 1))
        return 0;
    w->line = word_load(&p->line);
    word_add(&s->hits, 1);
    return 1;
}

/* One step towards the page that the warp wants. True: the warp has it and uses it. */
STORAGE_FN int page_fetch(struct storage *s, struct storage_warp *w)
{
    uint32_t before = w->fetch;
    switch (w->fetch) {
    case FETCH_LOOK:
        return page_look(s, w);
    case FETCH_LINE:
        w->fetch = FETCH_READ;
        if (!line_take(s, w))
            w->fetch = FETCH_LINE;
        break;
    case FETCH_WRITE:
        if (command_submit(s, w, STORAGE_WRITE, w->victim))
            w->fetch = FETCH_WRITTEN;
        break;
    case FETCH_WRITTEN:
        if (command_done(s, w))
            w->fetch = FETCH_READ;
        break;
    case FETCH_READ:
        victim_leaves(s, w);
        if (command_submit(s, w, STORAGE_READ, w->page))
            w->fetch = FETCH_WAIT;
        break;
    default:
        if (!command_done(s, w))
            break;
        w->ran = 1;
        word_store(&s->pages[w->page].line, w->line);
        word_store(&s->pages[w->page].word, page_word(PAGE_VALID, 1));
        return 1;
    }
    w->ran |= w->fetch != before;
    return 0;
}

STORAGE_FN void page_release(struct storage *s, const struct storage_warp *w)
{
    word_add(&s->pages[w->page].word, UINT32_MAX); /* minus 1 */
}

/* ---- breadth first search -------------------------------------------------------------------- */

STORAGE_FN uint32_t vertex_page(uint32_t vertex)
{
    return vertex / STORAGE_WORDS;
}

STORAGE_FN void edges_want(const struct storage *s, struct storage_warp *w)
{
    uint32_t in_page = STORAGE_WORDS - w->at % STORAGE_WORDS, left = w->end - w->at;
    w->batch = left < in_page ? left : in_page;
    w->batch = w->batch < STORAGE_LANES ? w->batch : STORAGE_LANES;
    page_want(w, s->edge_page + w->at / STORAGE_WORDS);
    w->phase = WARP_EDGES;
}

STORAGE_FN void vertex_take(struct storage *s, struct storage_warp *w)
{
    uint32_t i = word_add(&s->taken, 1);
    if (i >= s->now_count || word_load(&s->failed)) {
        w->phase = WARP_OVER;
        return;
    }
    w->at = s->first_edge[s->now[i]];
    w->end = s->first_edge[s->now[i] + 1];
    if (w->at < w->end)
        edges_want(s, w);
}

/* Lanes whose vertices are in the same page need it only once. */
STORAGE_FN void page_pick(struct storage *s, struct storage_warp *w)
{
    uint32_t page = STORAGE_NONE, lanes = 0;
    for (uint32_t i = 0; i < STORAGE_LANES; i++) {
        if (w->vertex[i] == STORAGE_NONE)
            continue;
        if (page == STORAGE_NONE)
            page = vertex_page(w->vertex[i]);
        lanes += vertex_page(w->vertex[i]) == page;
    }
    if (page != STORAGE_NONE) {
        word_add(&s->coalesced, lanes - 1);
        page_want(w, page);
        w->changed = 0;
        w->phase = WARP_TOUCH;
        return;
    }
    w->at += w->batch;
    if (w->at < w->end)
        edges_want(s, w);
    else
        w->phase = WARP_NEXT;
}

STORAGE_FN void search_lead(struct storage *s, struct storage_warp *w)
{
    w->ran = w->phase != WARP_EDGES && w->phase != WARP_TOUCH;
    switch (w->phase) {
    case WARP_NEXT:
        vertex_take(s, w);
        break;
    case WARP_EDGES:
        if (page_fetch(s, w))
            w->phase = WARP_LOAD;
        break;
    case WARP_LOAD: /* all lanes have loaded */
        page_release(s, w);
        w->phase = WARP_PICK;
        break;
    case WARP_PICK:
        page_pick(s, w);
        break;
    case WARP_TOUCH:
        if (page_fetch(s, w))
            w->phase = WARP_VISIT;
        break;
    case WARP_VISIT: /* all lanes have visited */
        if (w->changed)
            word_or(&s->pages[w->page].word, page_word(PAGE_DIRTY, 0));
        page_release(s, w);
        w->phase = WARP_PICK;
        break;
    default:
        break;
    }
}

STORAGE_FN void lane_load(const struct storage *s, struct storage_warp *w, uint32_t lane)
{
    w->vertex[lane] = STORAGE_NONE;
    if (lane < w->batch)
        w->vertex[lane] = line_words(s, w->line)[w->at % STORAGE_WORDS + lane];
}

STORAGE_FN void lane_visit(struct storage *s, struct storage_warp *w, uint32_t lane, uint32_t level)
{
    uint32_t v = w->vertex[lane];
    if (v == STORAGE_NONE || vertex_page(v) != w->page)
        return;
    w->vertex[lane] = STORAGE_NONE;
    uint32_t *distance = (uint32_t *)line_words(s, w->line) + v % STORAGE_WORDS;
    if (!word_swap(distance, STORAGE_NONE, level + 1))
        return;
    s->next[word_add(&s->next_count, 1)] = v;
    word_or(&w->changed, 1);
}

/* One step of a warp in a level of the search. True: nothing is left for this warp. */
STORAGE_FN int search_step(struct storage *s, struct storage_warp *w, uint32_t level)
{
    LEADER(search_lead(s, w));
    if (w->phase == WARP_LOAD)
        LANES(lane)
        {
            lane_load(s, w, lane);
        }
    if (w->phase == WARP_VISIT)
        LANES(lane)
        {
            lane_visit(s, w, lane, level);
        }
    return w->phase == WARP_OVER;
}

/* ---- writing dirty pages back to the file ---------------------------------------------------- */

STORAGE_FN void flush_take(struct storage *s, struct storage_warp *w)
{
    w->line = word_add(&s->taken, 1);
    if (w->line >= s->lines || word_load(&s->failed)) {
        w->phase = WARP_OVER;
        return;
    }
    w->page = word_load(&s->owner[w->line]);
    if (w->page != STORAGE_NONE && page_state(word_load(&s->pages[w->page].word)) == PAGE_DIRTY)
        w->phase = WARP_EDGES;
}

STORAGE_FN void flush_lead(struct storage *s, struct storage_warp *w)
{
    uint32_t before = w->phase;
    w->ran = before == WARP_NEXT;
    if (before == WARP_NEXT)
        flush_take(s, w);
    else if (before == WARP_EDGES && command_submit(s, w, STORAGE_WRITE, w->page))
        w->phase = WARP_LOAD;
    else if (before == WARP_LOAD && command_done(s, w)) {
        word_store(&s->pages[w->page].word, page_word(PAGE_VALID, 0));
        w->phase = WARP_NEXT;
    }
    w->ran |= w->phase != before;
}

STORAGE_FN int flush_step(struct storage *s, struct storage_warp *w)
{
    LEADER(flush_lead(s, w));
    return w->phase == WARP_OVER;
}

#endif
