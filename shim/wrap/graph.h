/*
 * graph.h - what other calls tell of graphs.
 */
#ifndef CUTIN_SHIM_GRAPH_H
#define CUTIN_SHIM_GRAPH_H

/* A node that records an event or waits for one is being made. From now on a launch of any graph goes
 * after everything buffered, and before anything later: what it records no fence stands for. */
void graph_event_node(void);

#endif
