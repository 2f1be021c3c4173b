/*
 * thread.c - what the shim knows of the calling thread (see thread.h).
 */
#include "shim/objects/thread.h"

_Thread_local unsigned thread_in_callback __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t thread_level __attribute__((tls_model("initial-exec")));
_Thread_local int thread_level_wanted __attribute__((tls_model("initial-exec"))) = -1;
