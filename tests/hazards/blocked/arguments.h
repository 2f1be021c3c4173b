/*
 * arguments.h - what calls of driver functions are made with, as words: the device, contexts and
 * streams of the world that is blocked (world.h), one object of each kind that lasts, and new ones
 * for functions that change or end theirs.
 */
#ifndef HAZARDS_BLOCKED_ARGUMENTS_H
#define HAZARDS_BLOCKED_ARGUMENTS_H

#include <stdint.h>

typedef uintptr_t word;
#define W(x) ((word)(x))

enum { ARGUMENTS = 14, BYTES_2D = 256, PAGE = 2 << 20 };

/* Made once, in the primary context. */
extern word dev, dev1, ctx;
extern word mem, mem2, mems, mems2, pinned, managed, manageds, array, array2, mipmap, pool;
extern word mod, lib, kern, fn, image, empty_fn, empty_callback;
extern word event, timed, ipc_event;
extern word graph, kernel_node, copy_node, set_node, host_node, child_node, record_node, wait_node,
    memop_node, empty_node, alloc_node, free_node, inner, exec, object;
extern word green, multiprocessors, backing, location_word;
/* What calls read. */
extern word copy_2d, copy_3d, copy_peer, batch_3d, attributes, zeros, ones, fours, outs, sizes,
    array_2d, array_3d, config, params, launches, memops, backing_prop, access_to, location,
    pool_prop;
extern word kernel_params, set_params, host_params, memop_params, alloc_params, node_params,
    node_params_set;
/* What they write: 4 KiB each, of zeros before each call. */
extern word out, out2, out3, out4, out5, out6;

/* New, in the context that is current. */
word new_stream(void);
word to_capture(void);  /* a stream; what captures at last is ended when the call has returned */
word new_capture(void); /* one that captures */
word new_event(void);
word new_memory(void);
word new_pinned(void);
word new_page(void);       /* of the program */
word new_registered(void); /* one that is registered */
word new_array(void);
word new_mipmap(void);
word new_context(void);
word new_current(void); /* a context that is current */
word new_green(void);
word new_green_desc(void);
word new_pool(void);
word new_of_pool(void); /* memory */
word new_range(void);   /* of addresses */
word new_backing(void);
word new_mapping(void); /* both */
word new_file(void);    /* that stands for backing of another process */
word new_module(void);
word new_library(void);
word new_graph(void);
word new_node(void);
word new_clone(void); /* of `graph` */
word new_exec(void);
word new_object(void);
word new_holder(void); /* a graph that has `object` */
/* Two nodes of a new graph, which is returned; with an edge. */
word new_pair(void);
word new_edge(void);
extern word pair_from, pair_to;
word far_retained(void); /* the other device, whose primary context is there */
word far_context(void);  /* of the other device, to which there is access or not */
word far_accessed(void);

void arguments_open(void);
void arguments_clear(void);
void captures_end(void);

#endif
