/*
 * export_api.c - cuGetExportTable, whether there are tables or not.
 */
#include "tools/simgpu/runtime/export_table.h"

/* A private table of the driver. One that does not exist is an error, never success. */
SIM_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = export_table_find(id);
    return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
