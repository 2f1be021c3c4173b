/*
 * arguments.h - what driver functions are called with, as words: the device, contexts and streams
 * of the blocked world (world.h), one lasting object of each kind, and new ones for functions that
 * change or end theirs.
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
/* Calls read these. */
extern word copy_2d, copy_3d, copy_peer, batch_3d, attributes, zeros, ones, fours, outs, sizes,
    array_2d, array_3d, config, params, launches, memops, backing_prop, access_to, location,
    pool_prop;
extern word kernel_params, set_params, host_params, memop_params, alloc_params, node_params,
    node_params_set;
/* Calls write these: 4 KiB each, set to zeros before each call. */
extern word out, out2, out3, out4, out5, out6;

/* These make a new object in the current context. */
word new_stream(void);
word to_capture(void);  /* a stream; a capture in it is ended after the call */
word new_capture(void); /* a stream that captures */
word new_event(void);
word new_memory(void);
word new_pinned(void);
word new_page(void);       /* host memory of the program */
word new_registered(void); /* such memory, registered */
word new_array(void);
word new_mipmap(void);
word new_context(void);
word new_current(void); /* a context, which becomes current */
word new_green(void);
word new_green_desc(void);
word new_pool(void);
word new_of_pool(void); /* memory from a pool */
word new_range(void);   /* addresses */
word new_backing(void);
word new_mapping(void); /* a range with backing */
word new_file(void);    /* as backing from another process */
word new_module(void);
word new_library(void);
word new_graph(void);
word new_node(void);
word new_clone(void); /* of `graph` */
word new_exec(void);
word new_object(void);
word new_holder(void); /* a graph that refers to `object` */
/* Two nodes of a new graph, which is returned; new_edge also makes an edge between them. */
word new_pair(void);
word new_edge(void);
extern word pair_from, pair_to;
word far_retained(void); /* the other device, after its primary context was retained */
word far_context(void);  /* of the other device: without peer access, and with it */
word far_accessed(void);

void arguments_open(void);
void arguments_clear(void);
void captures_end(void);

#endif
