/*
 * play.h - a random play of two or three processes that wait for one another, and what each of them
 * must see. A play is a list of steps in an order in which nothing can go wrong: each works on
 * cells of memory that all have, and follows those that had the cell before, in another stream or
 * another process, by a link. A link is told behind the one step and heeded before the other, so
 * that natively every play ends, with the words that the order gives.
 */
#ifndef ORACLE_PLAY_H
#define ORACLE_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACTORS = 3, STREAMS = 2, CELLS = 6, WORDS = 64, STEPS = 24, LINKS = 2 * STEPS };

/* By what a link is known. */
enum means {
    BY_RECORD, /* of an interprocess event; the process that waits for it hears of the call first */
    BY_WORD,   /* of memory that all have */
    BY_PIPE,   /* a host that waited for its stream says so */
};

/* How a link is told: name, means. Not all who tell by a word could be heeded by everybody. */
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

/* How it is heeded: name, means. */
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
    uint8_t from, to; /* steps */
    enum tell tell;
    enum heed heed;
    uint8_t owner; /* BY_RECORD: the actor that makes the event */
    bool once;     /* what the link took goes as soon as it was called for */
};

struct step {
    enum act act;
    uint8_t actor, stream, cell, source; /* copies: of the cell `source` */
    uint32_t a, b, ns;
    uint32_t expect; /* read: in each word of the cell */
};

struct play {
    uint64_t seed;
    unsigned actors, steps, links;
    struct step step[STEPS];
    struct link link[LINKS];
    const char *level[ACTORS]; /* CUTIN_PRIORITY */
    bool alike;                /* all of one level */
    bool bounded;              /* somebody waits in a way that nobody can see */
    bool hosted;               /* cells are memory of the host, not of other processes' GPU */
    bool tiny;                 /* budgets so small that nearly everything is buffered */
    bool held;                 /* from outside, at random moments */
    bool blocking;             /* the streams' kind */
    uint8_t order[STEPS];      /* in which each actor calls for its own */
    uint32_t last[CELLS];      /* each cell's words in the end */
};

void play_draw(struct play *p, uint64_t seed);
void play_print(const struct play *p);

/* The actor that has a cell, and every cell's first value. */
static inline unsigned cell_owner(const struct play *p, unsigned cell)
{
    return cell % p->actors;
}
static inline uint32_t cell_first(unsigned cell)
{
    return 1000 * (cell + 1);
}

#endif
