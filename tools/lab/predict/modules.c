/*
 * modules.c - blocks, pages, caches and links of a GPU of modules (see modules.h).
 */
#include "modules.h"
#include "line_cache.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_BYTES = 64 << 10,
    LAUNCHES = 3,
    MOST_LINES = 1 << 15,  /* followed lines that a launch may ask for */
    MOST_BLOCKS = 1 << 11, /* with more, a part of them runs on a part of the machine */
    MOST_SAMPLE = PAGE_BYTES / MODULES_LINE_BYTES,
    /* From the paper: 32 cycles of 1 GHz, each way. */
    HOP_NS = 2 * 32,
    STRIDE = 7919, /* a prime above nearly every number of residents */
};

struct run {
    const struct modules *m;
    const struct access_pattern *pattern;
    uint64_t blocks, row; /* row: blocks in a row of the plane of blocks */
    uint64_t own, steps;  /* own: a block's own lines; steps: all lines that it asks for */
    uint64_t data, table; /* lines; the table comes after the data */
    double fold;          /* how many consecutive blocks count as one larger one */
    double scale;         /* the simulated part of the machine, blocks and data is 1/scale */
    uint64_t sample;      /* one of this many lines is followed */
    uint64_t slots;       /* blocks that are resident in one module */
    uint8_t *home;        /* module of each page; 255: not touched yet */
    struct line_cache l2[MODULES_MOST], remote[MODULES_MOST];
    /* Of the current wave, in lines. */
    double dram[MODULES_MOST], link[MODULES_MOST], touched, missed, hops;
    /* Sums over all launches. */
    double ns[MODULES_LOADS], dram_ns, link_lines, all_touched, all_remote;
};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- what a block asks for ------------------------------------------------------------------ */

static uint64_t neighbour(const struct run *r, uint64_t block, uint64_t random)
{
    switch (random % 4) {
    case 0:
        return (block + 1) % r->blocks;
    case 1:
        return (block + r->blocks - 1) % r->blocks;
    case 2:
        return (block + r->row) % r->blocks;
    default:
        return (block + r->blocks - r->row) % r->blocks;
    }
}

/* The step-th line that a block asks for. Its own lines are spread evenly among the others. */
static uint64_t line_of(const struct run *r, uint64_t block, uint64_t step)
{
    const struct access_pattern *p = r->pattern;
    uint64_t before = (uint64_t)((double)step * p->own);
    uint64_t after = (uint64_t)((double)(step + 1) * p->own), random;
    double which;

    if (before >= r->own)
        before = r->own - 1;
    if (after > before || p->own >= 1)
        return block * r->own + before;
    random = mix(block * 0x10001 + step);
    which = (double)(random % 4096) / 4096 * (1 - p->own);
    random = mix(random);
    if (which < p->halo)
        return neighbour(r, block, random) * r->own + (random >> 8) % r->own;
    if (which < p->halo + p->shared && r->table)
        return r->data + random % r->table;
    return random % r->data;
}

/* ---- where a line is, and the way there ----------------------------------------------------- */

static uint32_t home_of(struct run *r, uint64_t line, uint32_t toucher)
{
    uint8_t *home;

    if (!r->m->first_touch)
        return (uint32_t)(mix(line + 1) % r->m->modules);
    home = &r->home[line * r->sample / MOST_SAMPLE];
    if (*home == UINT8_MAX)
        *home = (uint8_t)toucher;
    return *home;
}

/* Takes the shorter way round the ring. A line that passes a module goes in and out. */
static void travel(struct run *r, uint64_t line, uint32_t from, uint32_t to)
{
    uint32_t n = r->m->modules, right = (to + n - from) % n, left = n - right;
    bool rightwards = right < left || (right == left && line % 2);

    r->hops += right < left ? right : left;
    while (from != to) {
        uint32_t next = (from + (rightwards ? 1 : n - 1)) % n;

        r->link[from]++;
        r->link[next]++;
        from = next;
    }
}

static void touch(struct run *r, uint32_t module, uint64_t line)
{
    uint32_t home = home_of(r, line, module);

    r->touched++;
    if (home != module) {
        r->all_remote++;
        if (line_cache_touch(&r->remote[module], (uint32_t)line))
            return;
        travel(r, line, home, module);
    }
    if (!line_cache_touch(&r->l2[home], (uint32_t)line)) {
        r->missed++;
        r->dram[home]++;
    }
}

/* ---- waves of blocks ------------------------------------------------------------------------ */

/* The block in a slot of a module in a wave; UINT64_MAX: no block is left. */
static uint64_t block_in(const struct run *r, uint64_t wave, uint32_t module, uint64_t slot)
{
    uint64_t n = r->m->modules, at = wave * r->slots + slot;
    uint64_t from = r->blocks * module / n, to = r->blocks * (module + 1) / n;

    if (!r->m->batches)
        return at * n + module < r->blocks ? at * n + module : UINT64_MAX;
    return from + at < to ? from + at : UINT64_MAX;
}

static double work_of(const struct run *r, uint64_t block)
{
    return 1 + r->pattern->uneven * (2 * (double)block / (double)r->blocks - 1);
}

/* How much the busiest module computes, relative to a mean wave; below 0: no block is left. `slots`
 * gets the largest number of blocks in a module. */
static double wave_work(const struct run *r, uint64_t wave, uint64_t *slots)
{
    double most = -1;

    *slots = 0;
    for (uint32_t m = 0; m < r->m->modules; m++) {
        double sum = 0;
        uint64_t n = 0, block;

        for (; n < r->slots && (block = block_in(r, wave, m, n)) != UINT64_MAX; n++)
            sum += work_of(r, block);
        if (n && sum / (double)n > most)
            most = sum / (double)n;
        if (*slots < n)
            *slots = n;
    }
    return most;
}

/* All resident blocks go on step by step, side by side. They take turns in a mixed order, or one
 * module would be the first to touch every page. */
static void wave_touch(struct run *r, uint64_t wave, uint64_t slots)
{
    uint64_t residents = slots * r->m->modules;

    for (uint64_t step = 0; step < r->steps; step++)
        for (uint64_t i = 0; i < residents; i++) {
            uint64_t at = (i * STRIDE + mix(step + wave) % residents) % residents;
            uint32_t module = (uint32_t)(at % r->m->modules);
            uint64_t block = block_in(r, wave, module, at / r->m->modules);

            if (block != UINT64_MAX)
                touch(r, module, line_of(r, block, step));
        }
}

static double most_of(const double *list, uint32_t n)
{
    double most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = list[i] > most ? list[i] : most;
    return most;
}

/* A wave takes as long as its slowest part: GB/s are bytes per nanosecond. */
static void wave_end(struct run *r, const struct modules_kernel *k, double work)
{
    const struct modules *m = r->m;
    double bytes = (double)(MODULES_LINE_BYTES * r->sample) * r->scale;
    double dram_ns = most_of(r->dram, m->modules) * bytes / (m->dram_gbs / m->modules);
    double link_ns = m->modules > 1 ? most_of(r->link, m->modules) * bytes / m->link_gbs : 0;
    double wait_ns = r->touched > 0
                         ? (double)(r->steps * r->sample) / k->warps *
                               (r->missed * MODULES_DRAM_NS + r->hops * HOP_NS) / r->touched
                         : 0;

    r->dram_ns += dram_ns;
    for (uint32_t i = 0; i < m->modules; i++)
        r->link_lines += r->link[i];
    r->all_touched += r->touched;
    memset(r->dram, 0, sizeof(r->dram));
    memset(r->link, 0, sizeof(r->link));
    r->touched = r->missed = r->hops = 0;
    for (int i = 0; i < MODULES_LOADS; i++)
        r->ns[i] += fmax(fmax(k->wave_ns[i] * work, dram_ns), fmax(link_ns, wait_ns));
}

/* ---- the whole run -------------------------------------------------------------------------- */

static void run_size(struct run *r, const struct modules_kernel *k)
{
    double slots = (double)(r->m->processors / r->m->modules) * k->blocks_at_once, lines;

    r->scale = fmin(fmax((double)k->blocks / MOST_BLOCKS, 1), slots);
    r->slots = (uint64_t)(slots / r->scale);
    r->fold = fmax((double)k->blocks / r->scale / (2 * MOST_BLOCKS), 1);
    r->blocks = (uint64_t)((double)k->blocks / r->scale / r->fold);
    r->row = (uint64_t)sqrt((double)r->blocks);
    lines = (double)k->bytes / r->scale / MODULES_LINE_BYTES;
    for (r->sample = 1;
         r->sample < MOST_SAMPLE && lines / k->pattern->own / (double)r->sample > MOST_LINES;)
        r->sample *= 2;
    r->own = (uint64_t)(lines / (double)r->sample / (double)r->blocks);
    if (!r->own)
        r->own = 1;
    r->steps = (uint64_t)ceil((double)r->own / k->pattern->own);
    r->data = r->own * r->blocks;
    r->table =
        (uint64_t)((double)k->pattern->shared_bytes / r->scale / MODULES_LINE_BYTES) / r->sample;
}

/* How many followed lines a cache of `bytes` holds. */
static size_t lines_in(const struct run *r, uint64_t bytes)
{
    return (size_t)((double)bytes / r->scale / r->m->modules / MODULES_LINE_BYTES /
                    (double)r->sample);
}

static int run_open(struct run *r, const struct modules_kernel *k)
{
    const struct modules *m = r->m;
    uint64_t pages;
    int rc = 0;

    run_size(r, k);
    pages = (r->data + r->table) * r->sample / MOST_SAMPLE + 1;
    r->home = malloc(pages);
    if (!r->home)
        return -ENOMEM;
    memset(r->home, UINT8_MAX, pages);
    for (uint32_t i = 0; i < m->modules && rc == 0; i++) {
        rc = line_cache_open(&r->l2[i], lines_in(r, m->l2_bytes - m->remote_bytes));
        if (rc == 0)
            rc = line_cache_open(&r->remote[i], lines_in(r, m->remote_bytes));
    }
    return rc;
}

static void launch(struct run *r, const struct modules_kernel *k)
{
    double work;
    uint64_t slots;

    for (uint32_t i = 0; i < r->m->modules; i++) /* software keeps these coherent */
        line_cache_clear(&r->remote[i]);
    for (uint64_t wave = 0; (work = wave_work(r, wave, &slots)) >= 0; wave++) {
        wave_touch(r, wave, slots);
        wave_end(r, k, work * r->fold);
    }
}

int modules_run(const struct modules *m, const struct modules_kernel *k, struct modules_time *out)
{
    struct run r = {.m = m, .pattern = k->pattern};
    int rc = m->modules && m->modules <= MODULES_MOST && m->processors >= m->modules &&
                     m->l2_bytes >= m->remote_bytes && k->blocks && k->blocks_at_once && k->warps &&
                     (m->modules == 1 || m->link_gbs > 0) && m->dram_gbs > 0
                 ? run_open(&r, k)
                 : -EINVAL;

    for (int i = 0; i < LAUNCHES && rc == 0; i++)
        launch(&r, k);
    if (rc == 0)
        *out = (struct modules_time){
            .dram_ns = r.dram_ns / LAUNCHES,
            .link_bytes =
                r.link_lines * (double)(MODULES_LINE_BYTES * r.sample) * r.scale / LAUNCHES,
            .remote = r.all_touched > 0 ? r.all_remote / r.all_touched : 0};
    for (int i = 0; i < MODULES_LOADS && rc == 0; i++)
        out->ns[i] = r.ns[i] / LAUNCHES;
    for (uint32_t i = 0; i < MODULES_MOST; i++) {
        line_cache_close(&r.l2[i]);
        line_cache_close(&r.remote[i]);
    }
    free(r.home);
    return rc;
}
