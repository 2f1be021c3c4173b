/*
 * probe.h - places in libcutin.so where bpftrace, perf or SystemTap may look on (USDT).
 *
 * A probe is one nop and a note in the file. It costs nothing while it is not traced, needs no
 * library, and its arguments are values that are at hand there. Without <sys/sdt.h> at build time
 * (Debian: systemtap-sdt-dev) there are no probes. cutin(7) lists them; a test compares that list
 * and the library's notes with the table here.
 */
#ifndef CUTIN_COMMON_PROBE_H
#define CUTIN_COMMON_PROBE_H

/* X(name, number of arguments, the arguments) */
#define PROBES(X)                                                                                  \
    X(cut_in, 2, "device, level")                                                                  \
    X(hold, 2, "stream, ticket of the first command that waits")                                   \
    X(release, 2, "stream, ns that it was held")                                                   \
    X(submit, 2, "stream, estimated ns")                                                           \
    X(complete, 3, "stream, commands, estimated ns of them")

#if CUTIN_PROBES /* from CMakeLists.txt */
#include <sys/sdt.h>
#define PROBE2(name, a, b)    DTRACE_PROBE2(cutin, name, a, b)
#define PROBE3(name, a, b, c) DTRACE_PROBE3(cutin, name, a, b, c)
#else
#define PROBE2(name, a, b)    ((void)0)
#define PROBE3(name, a, b, c) ((void)0)
#endif

#endif
