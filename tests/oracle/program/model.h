/*
 * model.h - the state of a program while it is lowered: who follows whom, and what memory holds.
 *
 * Functions with an argument `r` use its bits to choose between ways that are all correct.
 */
#ifndef ORACLE_MODEL_H
#define ORACLE_MODEL_H

#include "program.h"

/*
 * What a timeline follows: how many steps of each other one. There are two halves, because a reader
 * of a word that the GPU wrote knows what happened before the write, while the driver may not have
 * noticed it. The half from TOLD on is only what the driver itself has promised or reported.
 */
enum { TOLD = TIMELINES, CLOCK_SIZE = 2 * TIMELINES };
typedef uint32_t clock_vec[CLOCK_SIZE];

struct access {
    uint32_t write_timeline, write_count;
    clock_vec reads;
};

struct model {
    struct program *p;
    clock_vec now[TIMELINES]; /* what the latest step of each timeline is known to follow */
    clock_vec at_barrier[TIMELINES];
    struct access access[BUFFERS];
    uint32_t mem[BUFFERS][WORDS];
    bool live[BUFFERS];
    struct {
        bool recorded, by_context; /* by_context: not in a stream of the program, or by a launch */
        clock_vec clock;
    } event[EVENTS];
    struct {
        uint32_t value;
        clock_vec clock;
    } flag[FLAGS];
    uint32_t order_words;           /* used so far */
    uint32_t races;                 /* used so far */
    struct op exec[EXECS];          /* kind CAPTURE or GRAPH_BUILD: instantiated */
    bool pinned[POOLED - PAGEABLE]; /* pageable memory that is registered */
    bool much[2]; /* whether the library's kernel may have much shared memory on this device */
    struct {
        bool set, much;
    } function[2];       /* in MAIN and in OTHER */
    bool asked[STREAMS]; /* another thread has asked for it since the last barrier */
    /* Destroyed and made anew since the last barrier, so no other thread may name it yet. */
    bool anew_stream[STREAMS], anew_event[EVENTS];
    /* The owner of each resource since the last barrier; -1: none yet. */
    int8_t stream_owner[STREAMS], event_owner[EVENTS], flag_owner[FLAGS], exec_owner[EXECS],
        buffer_owner[BUFFERS], kernel_owner;
};

/* Kinds of buffer an operand may be: device, pinned, pageable, pooled, the OTHER context's. */
enum { D = 1, H = 2, G = 4, A = 8, O = 16 };

void clock_join(clock_vec into, const clock_vec from);
/* For what was learnt from memory, and not from the driver. */
void clock_join_seen(clock_vec into, const clock_vec from);
void clock_step(struct model *m, int timeline);
/* Whether the driver must tell `thread` that all of this is done. */
bool clock_told(const struct model *m, int thread, const clock_vec what);

struct op *model_emit(struct model *m, struct op op);
/* All threads meet. Afterwards any thread may use anything. */
void model_barrier(struct model *m);
/* Claims a resource for `thread`. False: another thread has it in this epoch. */
bool claim(int8_t *owner, int thread);
/* A live buffer of these kinds near `r`, or -1. */
int pick_buffer(const struct model *m, uint32_t r, unsigned kinds);

/* The clock of a stream, as far as `thread` can be sure of it. */
const uint32_t *known_clock(const struct model *m, int thread, int stream);
/* Whether words in memory may order streams. */
bool words_order(const struct program *p);

/* An event of the stream's context that `thread` may use, near `r`. -1: other threads have all of
 * them. */
int free_event(struct model *m, int thread, int stream, uint32_t r);

/* Adds what the legacy stream of a context follows besides its commands: blocking streams. */
void legacy_follows(const struct model *m, int thread, int base, clock_vec clock);
/* `thread` issues the next command of `stream`. This adds what that command follows. */
void model_issue(struct model *m, int thread, int stream);
void note_access(struct model *m, int timeline, int buffer, bool write);
/* Orders everything that conflicts with an access to `buffer` before `timeline`. False: not
 * possible in this epoch. */
bool order_access(struct model *m, int thread, int timeline, int buffer, bool write, uint32_t r);
/* The same, only for accesses by the streams from `first` to before `last`. */
bool order_access_of(struct model *m, int thread, int timeline, int buffer, bool write, int first,
                     int last, uint32_t r);
/* Makes `timeline` (a stream used by `thread`, or the thread itself) follow stream `before`. */
void order_after(struct model *m, int thread, int timeline, int before, uint32_t r);

/* Ops that order, drawn or inserted. */
void op_record(struct model *m, int thread, int event, int stream, uint8_t variant);
void op_wait(struct model *m, int thread, int stream, int event, uint8_t variant);
void op_event_wait(struct model *m, enum op_kind kind, int thread, int event);
void op_stream_wait(struct model *m, enum op_kind kind, int thread, int stream, uint8_t variant);
/* Synchronises a context and its green ones. It sees all that was issued before the last barrier,
 * and this thread's work. */
void op_context_sync(struct model *m, int thread, int base);

/* Whether a node of an executable graph names it. Then it must live. */
bool event_in_graph(const struct model *m, int event);
bool buffer_in_graph(const struct model *m, int buffer);

/* The effect of a data op, or of a graph's node, on memory. */
void run_on_model(struct model *m, const struct op *op);

/* Turns one kind of intent into ops. `op` has what all kinds have. False: not possible now. */
#define X(name, lower, run) bool lower_##lower(struct model *m, struct op op, const uint32_t *r);
OP_KINDS(X)
#undef X

#endif
