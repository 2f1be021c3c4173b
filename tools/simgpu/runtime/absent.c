/*
 * absent.c - the simulator without tables for the CUDA runtime. Programs of the runtime stop at
 * their first call, and this says why.
 */
#include "tools/simgpu/runtime/export_table.h"

#include <stdatomic.h>
#include <stdio.h>

const void *export_table_find(const CUuuid *id)
{
    static const CUuuid runtime = UUID_RUNTIME_INTERFACE;
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (memcmp(id, &runtime, sizeof(runtime)) == 0 && !atomic_flag_test_and_set(&said))
        fputs("simgpu: this program uses the CUDA runtime, but this simulated driver was built "
              "without it, so the program stops here; configure with -DSIMGPU_RUNTIME=ON\n",
              stderr);
    return NULL;
}
