/*
 * play.h - a random play of two or three processes that wait for one another, and what each of them
 * must see. A play is a list of steps, in an order in which nothing can go wrong. Each step works
 * on cells of memory that all processes have. It follows the steps that used the cell before, in
 * another stream or process, by a link. A link is told behind the one step and heeded before the
 * other. So natively every play ends, with the words that the order gives.
 */
#ifndef ORACLE_PLAY_H
#define ORACLE_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACTORS = 3, STREAMS = 2, CELLS = 6, WORDS = 64, STEPS = 24, LINKS = 2 * STEPS };

/* How the heeding process knows that a link was told. */
enum means {
    BY_RECORD, /* an interprocess event; its waiter is told of the record's call first */
    BY_WORD,   /* a word in memory that all have */
    BY_PIPE,   /* a message of a host that has waited for its stream */
};

/* How a link is told: name, means. Not every process can heed it in every way (heed_fits). */
#define TELLS(X)                                                                                   \
    X(record, BY_RECORD)                                                                           \
    X(graph_record, BY_RECORD)                                                                     \
    X(context_record, BY_RECORD)                                                                   \
    X(write, BY_WORD)                                                                              \
    X(graph_write, BY_WORD)                                                                        \
    X(kernel_write, BY_WORD)                                                                       \
    X(function_write, BY_WORD)                                                                     \
    X(host_write, BY_WORD)                                                                         \
    X(message, BY_PIPE)

/* How a link is heeded: name, means. */
#define HEEDS(X)                                                                                   \
    X(wait, BY_RECORD)                                                                             \
    X(graph_wait, BY_RECORD)                                                                       \
    X(context_wait, BY_RECORD)                                                                     \
    X(synchronize, BY_RECORD)                                                                      \
    X(query, BY_RECORD)                                                                            \
    X(value, BY_WORD)                                                                              \
    X(graph_value, BY_WORD)                                                                        \
    X(kernel_spin, BY_WORD)                                                                        \
    X(function_poll, BY_WORD)                                                                      \
    X(host_poll, BY_WORD)                                                                          \
    X(hear, BY_PIPE)

/* What a step does. */
#define ACTS(X)                                                                                    \
    X(mix)                                                                                         \
    X(mix_long)                                                                                    \
    X(mix_in_graph)                                                                                \
    X(copy)                                                                                        \
    X(copy_by_kernel)                                                                              \
    X(read)

#define X(name, means) TELL_##name,
enum tell { TELLS(X) TELL_COUNT };
#undef X
#define X(name, means) HEED_##name,
enum heed { HEEDS(X) HEED_COUNT };
#undef X
#define X(name) ACT_##name,
enum act { ACTS(X) ACT_COUNT };
#undef X

struct link {
    uint8_t from, to; /* indices of steps */
    enum tell tell;
    enum heed heed;
    uint8_t owner; /* BY_RECORD: the actor that makes the event */
    bool once;     /* the event is destroyed as soon as the wait was called */
};

struct step {
    enum act act;
    uint8_t actor, stream, cell, source; /* copies: of the cell `source` */
    uint32_t a, b, ns;
    uint32_t expect; /* read: the value of each word of the cell */
};

struct play {
    uint64_t seed;
    unsigned actors, steps, links;
    struct step step[STEPS];
    struct link link[LINKS];
    const char *level[ACTORS]; /* CUTIN_PRIORITY */
    bool alike;                /* all have one level */
    bool bounded;              /* a process may wait in a way that cannot be seen */
    bool hosted;               /* cells are memory of the host, not of processes' GPUs */
    bool tiny;                 /* budgets are so small that nearly all work is buffered */
    bool held;                 /* from outside, at random moments */
    bool blocking;             /* the streams are blocking ones */
    uint8_t order[STEPS];      /* in which each actor calls its own steps */
    uint32_t last[CELLS];      /* each cell's words at the end */
};

void play_draw(struct play *p, uint64_t seed);
void play_print(const struct play *p);

/* The actor that owns a cell, and the first value of a cell. */
static inline unsigned cell_owner(const struct play *p, unsigned cell)
{
    return cell % p->actors;
}
static inline uint32_t cell_first(unsigned cell)
{
    return 1000 * (cell + 1);
}

#endif
