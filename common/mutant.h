/*
 * mutant.h - deliberate bugs (tests/mutants.h), to prove that tests find them (tests/oracle,
 * tools/faults), and places where a test may stop a thread (tests/shim/wrap/query.c).
 *
 * Each bug is switched where the real rule lives. libcutin.so has none of them: MUTANT() is
 * constant false there. libcutin-mutants.so, built for the tests from the same sources and never
 * installed, has the one that the environment variable CUTIN_MUTANT names. Tests that forget
 * cutin's settings name it by FAULT, which they leave alone. With the CMake option CUTIN_MUTANTS
 * everything has them.
 */
#ifndef CUTIN_COMMON_MUTANT_H
#define CUTIN_COMMON_MUTANT_H

#ifdef CUTIN_MUTANTS
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mutants.h"

/* The mutant's number plus one; 0: not looked up yet. One for the library, whichever file asks. */
__attribute__((weak, visibility("hidden"))) int mutant_wanted;

__attribute__((noinline, cold, unused)) static int mutant_look_up(void)
{
    static const char *const names[] = {
#define X(name, rule) #name,
        MUTANTS_ALL(X)
#undef X
    };
    const char *wanted = getenv("CUTIN_MUTANT");
    int i = 0;
    if (!wanted)
        wanted = getenv("FAULT");
    while (i < MUTANT_NONE && !(wanted && strcmp(wanted, names[i]) == 0))
        i++;
    return mutant_wanted = i + 1;
}

static inline bool mutant_is(enum mutant mutant)
{
    int wanted = mutant_wanted;
    return (wanted ? wanted : mutant_look_up()) == (int)mutant + 1;
}
#define MUTANT(name) mutant_is(MUTANT_##name)
/* Flag of a request, beside those of vhq.h and call.h: vhq_begin does not ask what is buffered. */
#define VHQ_OVERTAKES (1u << 20)
/* Where a test may stop a thread: the program says what happens there. */
__attribute__((weak, visibility("default"))) void cutin_stop(const char *place);
#define STOP(place)                                                                                \
    do {                                                                                           \
        if (cutin_stop)                                                                            \
            cutin_stop(#place);                                                                    \
    } while (0)
/* A time that a test may shorten, by an environment variable of this name, in ms. */
static inline uint64_t mutant_ns(const char *name, uint64_t ns)
{
    const char *ms = getenv(name);
    return ms ? (uint64_t)atoi(ms) * 1000000 : ns;
}
#define SHORTENED(name, ns) mutant_ns(#name, ns)
#else
#define SHORTENED(name, ns) (ns)
#define MUTANT(name)        0
#define VHQ_OVERTAKES       0u
#define STOP(place)         ((void)0)
#endif

/* For the flags of a request. */
#define MUTANT_OVERTAKES(name) (MUTANT(name) ? VHQ_OVERTAKES : 0u)

#endif
