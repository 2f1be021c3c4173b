/*
 * api.h - the table of driver symbols, for lookup.c and procaddr.c.
 */
#ifndef CUTIN_SHIM_LOOKUP_API_H
#define CUTIN_SHIM_LOOKUP_API_H

#include "shim/lookup/shim.h"

/* What api.def says about one symbol. */
struct api_row {
    const char *symbol;
    const char *name;   /* for cuGetProcAddress */
    void *ours;         /* our function; NULL: API_PASS */
    int min_version;    /* for cuGetProcAddress */
    uint8_t per_thread; /* the per-thread default stream variant */
    uint8_t scope;      /* enum drain_scope */
};
extern const struct api_row api_rows[API_COUNT];

/* Newest cuGetProcAddress version that the table covers. */
#define API_TABLE_VERSION 13050

/* Row of a symbol by exact name, or -1. */
int api_find(const char *symbol);
/* First row and number of rows of a cuGetProcAddress name; NULL when the name is unknown. */
const uint16_t *api_find_name(const char *name);

/* Is this an address inside the driver that api_real points into? Binds the driver if it is loaded
 * by now, but never loads it. */
bool api_driver_holds(const void *address);
/* Is it a function there? */
bool api_driver_function(const void *address);
/* Does the driver export a function of that name? False if it is not bound yet. Takes no lock of
 * the loader. */
bool api_driver_exports(const char *symbol);

/* The driver answered `address` for an intercepted row that it does not export by name. */
void api_adopt(int row, void *address);

/* Debug message, once per row and route: "cuLaunchKernel -> cutin (dlsym)". */
void api_say(int row, const char *route);

#endif
