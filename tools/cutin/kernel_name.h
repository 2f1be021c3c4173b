/*
 * kernel_name.h - names of kernels as people read them.
 *
 * A name that a C++ compiler has mangled (_ZN2at6native29vectorized_elementwise_kernelILi4E...) is
 * demangled, and loses what tells nothing: the return type, parameters, anonymous namespaces, ABI
 * tags. To fit a width it then loses more and more of its template arguments (the insides of nested
 * ones, arguments from the third on) and of its namespaces, and at last its end. "..." stands where
 * something is missing. Other names, such as those of Triton, XLA, Rust and PTX, stay as they are.
 *
 * Not thread safe.
 */
#ifndef CUTIN_TOOLS_CUTIN_KERNEL_NAME_H
#define CUTIN_TOOLS_CUTIN_KERNEL_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum {
    KERNEL_NAME_TABLE = 72, /* columns in a table */
    KERNEL_NAME_EVENT = 120,
    KERNEL_NAME_WHOLE = 1 << 20,
};

/* Returns the name in at most `width` characters (8 at least), in printable ASCII only. The caller
 * frees it. NULL: no memory. */
char *kernel_name_make(const char *raw, size_t width);
/* The same, made once and kept. With `mangled` the name only loses what is not printable. Returns
 * "?" if there is no memory. */
const char *kernel_name(const char *raw, size_t width, bool mangled);

#endif
