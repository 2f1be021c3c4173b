/*
 * export_table.h - the private tables that cuGetExportTable hands out by UUID: what the CUDA
 * runtime, and the libraries built with it, ask of a driver beside its public functions.
 *
 * Built with SIMGPU_RUNTIME, export_table.c answers; without, absent.c does, and says why the
 * program stops.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RUNTIME_EXPORT_TABLE_H
#define CUTIN_TOOLS_SIMGPU_RUNTIME_EXPORT_TABLE_H

#include "tools/simgpu/device/context.h"

/* Asked for first by every runtime, from 4.0 on. */
#define UUID_RUNTIME_INTERFACE {"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"}

/* The table, live as long as the process; NULL: no such table. */
const void *export_table_find(const CUuuid *id);

#endif
