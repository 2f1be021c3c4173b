/*
 * errors.c - which errors pass and which are sticky, what they are called, and what a fork leaves.
 */
#include "rig.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(errors, .init = rig_open);

Test(errors, error_code_has_name_and_description)
{
    const char *text = NULL;
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    cr_assert_str_eq(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    OK(cuGetErrorString(CUDA_SUCCESS, &text));
    cr_assert_str_eq(text, "no error");
    FAILS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
    cr_assert_null(text);
}

Test(errors, refused_call_leaves_context_usable)
{
    CUdeviceptr p = words_new(1);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 1));
    OK(launch_mix(NULL, p, 2, 2));
    words_are(p, 4);
}

/* "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES [...] OUT: Amount of log buffer filled with messages"
 * (cuda.h). This holds for a linker that fails, too: its caller prints that much of the buffer. One
 * that is made has a text to refuse; cuda.h does not say when the amount of that log is known. */
Test(errors, failed_linker_leaves_a_terminated_log)
{
    enum { ROOM = 512 };
    char log[ROOM], nonsense[] = "this is not a module";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)ROOM};
    CUlinkState state;
    memset(log, 0xff, sizeof(log)); /* so that it holds no text */
    CUresult result = cuLinkCreate(2, options, values, &state);
    if (result == CUDA_SUCCESS) {
        cr_assert_neq(cuLinkAddData(state, CU_JIT_INPUT_PTX, nonsense, sizeof(nonsense), "nonsense",
                                    0, NULL, NULL),
                      CUDA_SUCCESS);
        cr_assert_not_null(memchr(log, '\0', ROOM), "no text has an end within the room");
        cr_assert_leq((uintptr_t)values[1], ROOM);
        OK(cuLinkDestroy(state));
        return;
    }
    size_t filled = (uintptr_t)values[1];
    cr_assert_leq(filled, ROOM);
    cr_assert_null(memchr(log, 0xff, filled));
}

Test(errors, illegal_address_error_is_sticky)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    CUevent e = event_new();
    OK(launch_fill(s, 0x10, 1));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(s));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, launch_fill(s, p, 1));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventRecord(e, s));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 4));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyDtoH(&(uint32_t){0}, p, 4));
}

Test(errors, out_of_bounds_access_is_reported)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    OK(launch_fill(s, p + ((uint64_t)1 << 40), 1));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

Test(errors, driver_is_not_initialized_in_forked_child)
{
    int status = 0;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        int count;
        _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 7 : 8);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", status);
    words_are(words_new(2), 2); /* the parent is not affected */
}

#if CUDA_VERSION >= 12010
/* "If the caller calls this function with *value equal to NULL, the size of the memory region (in
 * bytes) expected for attrib will be placed in size"; for the dump of the host "The default value
 * is ::true" (cuda.h) */
Test(errors, coredump_attributes_are_kept)
{
    char file[1024], name[] = "dump";
    bool on = false;
    size_t bytes = 0, length = sizeof(name) - 1, one = sizeof(on);
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, NULL, &bytes));
    cr_assert_eq(bytes, sizeof(file));
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, file, &bytes));
    cr_assert_eq(strncmp(file, "core.cuda.", 10), 0);
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, name, &length));
    bytes = sizeof(file);
    OK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, file, &bytes));
    cr_assert_str_eq(file, name);
    OK(cuCoredumpGetAttribute(CU_COREDUMP_TRIGGER_HOST, &on, &one));
    cr_assert(on);
    on = false;
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &on, &one));
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &on, &one));
    cr_assert_not(on);
}
#endif
