/*
 * export_table.h - the private tables that cuGetExportTable gives out by UUID. The CUDA runtime,
 * and the libraries built with it, need them besides the driver's public functions.
 *
 * With SIMGPU_RUNTIME export_table.c is built in. Without it absent.c is, which says why the
 * program stops.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_EXPORT_TABLE_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_EXPORT_TABLE_H

#include "tools/simgpu/device/context.h"

/* Every runtime from 4.0 on asks for this one first. */
#define UUID_RUNTIME_INTERFACE {"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"}

/* The table, which lives as long as the process. NULL: there is none. */
const void *export_table_find(const CUuuid *id);

#endif
