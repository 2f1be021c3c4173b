/*
 * blocked.c - no driver function waits for more than the driver does. Each function, in each
 * version, is called in a world in which everything is blocked that it must not wait for. The world
 * opens when the call has returned (world.h, functions.def). Prints for each call what it waits
 * for, and its result.
 *
 * BLOCKED_ONLY=NAME calls one symbol.
 */
#include <dlfcn.h>
#include <string.h>

#include "tests/hazards/blocked/functions.h"
#include "tests/hazards/hazard.h"

static CUresult call_words(void *address, const word *a)
{
    typedef CUresult fn_of_words(word, word, word, word, word, word, word, word, word, word, word,
                                 word, word, word);
    fn_of_words *f = (fn_of_words *)(uintptr_t)address;
    return f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
             a[13]);
}

static const char *const waits_name[] = {"nothing", "stream", "blocking", "context", "device"};

static void call(const struct symbol *s, enum company company, bool all)
{
    const struct function *f = s->function;
    word a[ARGUMENTS] = {0};
    void *address = dlsym(RTLD_DEFAULT, s->name);
    if (!address) {
        printf("%s was not found\n", s->name);
        return;
    }
    arguments_clear();
    world_enter(f->waits);
    symbol_arguments(s, a);
    world_block(f->waits, company, all);
    call_begin(s->name);
    CUresult r = f->call ? f->call(address) : call_words(address, a);
    bool waited = call_end();
    captures_end();
    world_clear(company);
    printf("%s%s%s\t%s\t%d%s\n", s->name, s->what ? " " : "", s->what ? s->what : "",
           waits_name[f->waits], (int)r, waited ? ", waits" : "");
    fflush(stdout); /* a sign of progress for outcome.c */
    if (all && !waited && r != CUDA_ERROR_NOT_SUPPORTED)
        give_up("the call did not wait, but the table says that it does");
}

static bool named(const struct symbol *s)
{
    const char *only = getenv("BLOCKED_ONLY");
    return !only || strcmp(only, s->name) == 0;
}

static void every_function(enum company company, bool all)
{
    setenv("SIMGPU_DEVICES", "2", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1); /* a stream that waits blocks no other */
    gpu_open();
    world_open();
    arguments_open();
    for (int i = 0; i < symbol_count; i++) {
        const struct symbol *s = &symbols[i];
        if (named(s) && !(all && s->function->waits == NOTHING))
            call(s, company, all);
    }
}

HAZARD_RAW(functions_wait_for_no_more_than_the_driver)
{
    every_function(NOBODY, false);
}

/* Checks the table itself: what a call waits for according to it is blocked, too. */
HAZARD_RAW(functions_wait_for_what_the_table_says)
{
    every_function(NOBODY, true);
}

HAZARD_RAW(functions_wait_for_no_thread_in_a_call)
{
    every_function(TURN, false);
}

HAZARD_RAW(functions_return_during_a_capture)
{
    every_function(CAPTURE, false);
}
