/*
 * mutant.h - deliberate bugs, to prove that tests find them (tests/oracle, tools/faults), and
 * places where a test may stop a thread (tests/shim/wrap/query.c).
 *
 * Each bug is switched where the real rule lives. libcutin.so has none of them: MUTANT() is
 * constant false there. libcutin-mutants.so, built for the tests from the same sources and never
 * installed, has the one that the environment variable CUTIN_MUTANT names. Tests that forget
 * cutin's settings name it by FAULT, which they leave alone. With the CMake option CUTIN_MUTANTS
 * everything has them.
 */
#ifndef CUTIN_COMMON_MUTANT_H
#define CUTIN_COMMON_MUTANT_H

/* name, the rule that is broken */
#define MUTANTS(X)                                                                                 \
    X(launch_overtakes, "a launch goes inline although its stream has buffered work")              \
    X(plain_overtakes, "a launch overtakes buffered work while the process is alone")              \
    X(memop_overtakes, "a memory write goes ahead of its stream's buffered work")                  \
    X(free_overtakes, "a stream-ordered free goes ahead of buffered work")                         \
    X(taken_up_and_freed, "a block that an allocation takes up is freed all the same")             \
    X(copy_short, "the last piece of a copy is left out")                                          \
    X(host_function_overtakes, "a host function goes ahead of buffered work")                      \
    X(legacy_rule_dropped, "buffered commands ignore the order against the legacy stream")         \
    X(wait_unordered, "an event wait goes before the record it saw")                               \
    X(level_inverted, "a command waits for one that its own level holds")                          \
    X(lost_on_release, "the command that a hold stopped is lost when the hold ends")               \
    X(repeated, "a buffered command runs twice")                                                   \
    X(event_query_early, "an event query asks the driver while the record is buffered")            \
    X(stream_query_early, "a stream query asks the driver while work is buffered")                 \
    X(event_sync_undrained, "an event is waited for before its record was submitted")              \
    X(stream_sync_undrained, "a stream is waited for before its work was submitted")               \
    X(context_sync_undrained, "a context is waited for before its work was submitted")             \
    X(sync_copy_undrained, "a synchronous copy overtakes buffered work")                           \
    X(stale_parameters, "a deferred launch keeps the caller's pointer to a parameter")             \
    X(stale_memops, "a deferred batch of memory operations keeps the caller's array")              \
    X(pageable_deferred, "a copy from or to pageable memory is deferred")                          \
    X(capture_undrained, "a capture begins before its stream's buffered work was submitted")       \
    X(module_unload_undrained, "a module goes before buffered launches of its functions")          \
    X(exec_update_undrained, "an executable graph changes before buffered launches of it")         \
    X(exec_destroy_early, "an executable graph goes before buffered launches of it")               \
    X(event_destroy_early, "an event goes before buffered records and waits")                      \
    X(stream_destroy_early, "a stream goes before its buffered work")                              \
    X(free_drains_own_context, "memory goes before work that is buffered in another context")      \
    X(pinned_remembered, "memory that was unregistered still counts as pinned")                    \
    X(kernel_shape_shared, "a launch that one device accepts is deferred on another")              \
    X(library_module_unknown, "functions of a library had by its module outlive the library")      \
    X(access_waits, "setting access to a mapping waits for earlier work to complete")              \
    X(release_waits, "a primary context that others hold is waited for when one releases it")      \
    X(free_of_nothing_waits, "a free of nothing waits for earlier work to complete")               \
    X(gone_forgotten, "a stream that ended with work in flight is complete")                       \
    X(passing_forgotten, "what a thread that ended has at work in its own stream is complete")     \
    X(nothing_completes, "a copy of nothing counts as one that was waited for")                    \
    X(event_told_late, "an event is not complete when it is asked for at first")

/* The same for rules about green contexts, which cuda.h has from 12.5 on. */
#define MUTANTS_OF_GREEN(X)                                                                        \
    X(green_sync_left_out, "synchronising a primary context leaves its green ones out")            \
    X(context_record_undrained, "a context's record drains the caller's context, not its own")     \
    X(green_wait_overtakes,                                                                        \
      "a wait for a value goes before what its primary context has buffered")                      \
    X(context_wait_undrained, "a context's wait goes before the record it saw")

/* The same in processes with gates. */
#define MUTANTS_OF_GATES(X)                                                                        \
    X(graph_copy_stale, "a change of an executable graph does not reach its copy with gates")

/* Found by tests/shim/wrap/query.c, which stops a thread where the oracle's would have to be by
 * chance. */
#define MUTANTS_OF_STOPS(X)                                                                        \
    X(stream_epoch_late, "a stream's work that is buffered while it is asked for is complete")     \
    X(event_epoch_late, "a record that is made while its event is asked for is complete")

/* Found by tests/hazards, whose programs call what the oracle's do not. */
#define MUTANTS_OF_HAZARDS(X)                                                                      \
    X(pool_access_overtakes, "access to a pool is taken from work that is buffered")               \
    X(host_pool_taken_for_open, "a copy with a pool of the host that is not open is deferred")     \
    X(prefetch_unsaid, "a question about prefetches goes ahead of those that are buffered")        \
    X(unknown_undrained, "a function that the table does not have overtakes buffered work")        \
    X(fork_forgotten, "a child goes on with locks that threads of its parent hold")                \
    X(graph_unqueued_overtakes,                                                                    \
      "a graph in a stream without a queue goes before its own launch below")                      \
    X(capture_before_record, "a record that is buffered comes after one that a capture takes")     \
    X(arguments_late, "a memset is deferred whatever its arguments are")                           \
    X(batch_late, "a batch of prefetches is deferred whatever its flags and ranges are")           \
    X(rerecord_unordered, "a re-record goes before earlier waits for the event")                   \
    X(fence_dropped, "a record that goes at once ignores buffered waits for the one before")       \
    X(kernel_attribute_swallowed, "a kernel's attribute is not set for a second device")           \
    X(launch_event_unseen, "an event that a launch records stands for its record before")          \
    X(no_pool_taken_up, "an allocation from no pool takes up a block that is being freed")         \
    X(free_late, "a free in stream order is deferred whatever it frees")                           \
    X(far_pool_deferred, "a copy that the driver may refuse for its pool's device is deferred")    \
    X(ranges_stale,                                                                                \
      "memory that was freed in stream order, or with a graph, still counts as such")              \
    X(departed_forgotten, "real-time work holds nobody when its stream is destroyed")              \
    X(calls_unseen, "a stream is complete while a thread's call for it runs")                      \
    X(calls_in_the_way, "a command waits for a call that another thread is in")                    \
    X(call_locks, "a stream's calls wait for one that another thread is in")                       \
    X(drain_completes, "a call that drains waits until what it drained is complete")               \
    X(legacy_drain_of_all, "the legacy stream is waited for with the non-blocking ones")           \
    X(capture_comes_first, "a call that waited is judged by a capture that began meanwhile")       \
    X(dispatcher_stands, "nothing is submitted while a command waits for room in its stream")      \
    X(capture_waits_for_legacy, "a capture begins only when no marker waits for room in legacy")   \
    X(allocation_waits_for_itself, "an allocation may wait for what its stream has buffered")      \
    X(graph_objects_kept, "a graph with gates keeps the objects of what it was made from")         \
    X(graph_memory_unordered,                                                                      \
      "a graph is launched before its memory is freed, as was called first")                       \
    X(waits_on_stack, "a thread that waits is listed by a place on its own stack")                 \
    X(jumps_unseen, "a turn that was left by a jump is its thread's for good")                     \
    X(jumps_within_unseen, "a call does not end that a handler on top of it has left another in")  \
    X(table_shared, "descriptors of the library stand among the program's")                        \
    X(shared_memory_unseen, "kernels that write another process's memory are held for ever")       \
    X(thread_waits_untold, "a real-time thread that waits outside holds who is to answer")         \
    X(context_waits_untold, "a real-time context that waits holds who is to answer")               \
    X(graph_waits_untold, "a real-time graph that waits holds who is to answer")                   \
    X(function_waits_untold, "a real-time host function that waits holds who is to answer")        \
    X(marker_stands, "a marker that comes late stands behind another stream's wait")               \
    X(marker_unsays, "a stream that was done is at work again when a marker follows")              \
    X(graph_waits_unordered, "a graph that waits goes before what was called first elsewhere")

/* Programs see the right results, but late or at too high a cost: found by tools/bench
 * --instructions, tests/vhq, tests/shim/wrap/level.c and tests/scheduler/client/calm.c. */
#define MUTANTS_OF_COST(X)                                                                         \
    X(cut_in_slow, "a cut-in takes 5 us longer")                                                   \
    X(launch_longer, "a launch executes some 40 instructions more")                                \
    X(launch_scans, "a launch looks at all streams of its context")                                \
    X(attributes_forget_all, "an attribute of one kernel is forgotten with another one's")         \
    X(marker_too_many, "one marker too many goes with 100 commands")                               \
    X(hold_opens_late, "what was held goes 1 ms after the hold has ended")                         \
    X(hold_ends_late, "a hold ends 1 ms after the work that held")                                 \
    X(ticks_for_ever, "a process that does nothing looks 100 times a second all the same")         \
    X(held_looks, "a held process with nothing waiting looks at its hold words all the same")      \
    X(calm_unended, "a call does not wake the thread that sleeps because none came")

/* Programs see the right results, but real time or best effort waits: found by cutin-purpose. */
#define MUTANTS_OF_PURPOSE(X)                                                                      \
    X(estimates_constant, "every kernel counts as one of which nothing is known")                  \
    X(hold_ends_by_look, "a hold ends when a tick finds its work complete, and not before")        \
    X(allocation_ahead, "an allocation goes ahead of the frees that are buffered")                 \
    X(feedback_ignored, "the cap trusts estimates, whatever was measured")                         \
    X(loose_unbounded, "there is no bound while nobody is above")                                  \
    X(alone_untried, "a process counts as alone before anything is known of its work")             \
    X(gate_not_opened, "one gate in 64 is closed while nobody holds")                              \
    X(guard_of_old, "no progress for 100 ms lets all that is buffered in")                         \
    X(glance_missing, "the dispatcher never looks before the estimate says that it is worth it")   \
    X(guard_each_time, "beside what stands one stream's next command goes each 100 ms")            \
    X(marker_lost, "one marker in eight is never written")                                         \
    X(copy_whole, "a long copy goes as one command")                                               \
    X(stream_uncounted, "the cap forgets what streams have in flight")                             \
    X(pieces_uncounted, "gates let several streams have a long kernel each in front of them")      \
    X(long_forgotten, "a kernel that turned out long is forgotten before the next one comes")      \
    X(left_uncounted, "the cap forgets what a stream that ends has in flight")                     \
    X(priority_goes_round, "of two streams the one that went last comes last, urgent or not")      \
    X(fresh_uncounted, "streams with something in flight count as such from the next look on")     \
    X(per_thread_untimed, "kernels in per-thread default streams are never timed")                 \
    X(loose_in_line, "while alone a stream waits until there is room for all of them")             \
    X(narrow_in_line, "narrow commands wait for each other's time")

/* The same for what is learned of kernels and markers, shifts, and what gates cost: found by
 * tests/integration/sharing, learned.c, jobs.c, gates.c and defaults.c. */
#define MUTANTS_OF_LEARNING(X)                                                                     \
    X(fixed_stride, "what is timed are launches at a fixed distance, of one phase of a program")   \
    X(wait_taken_for_kernel, "what a kernel waits for another stream counts as its own time")      \
    X(call_timed, "what lies between a kernel's events counts as its time")                        \
    X(loading_timed, "what a kernel's first launch takes to load it counts as its time")           \
    X(late_never_timed, "a launch whose call took long is no sample, however many were so")        \
    X(marks_dear, "markers are as close as the budget says, whatever they cost")                   \
    X(streams_in_line, "where room is short a stream waits for all earlier commands of others")    \
    X(third_waits, "of streams of which all is buffered two take turns, and the rest waits")       \
    X(tail_unasked, "of what went last nobody asks whether it is complete")                        \
    X(known_long_clamped, "what is known to be very long counts as half a second where it stands") \
    X(guard_unbounded, "what the guard lets in may take as long as it stood")                      \
    X(longest_unlearned, "kernels of over four seconds are never known")                           \
    X(stalled_for_good, "beside one wait that stands nothing of a process holds anybody")          \
    X(held_by_want_only, "a policy takes a client for held by one of its words alone")             \
    X(usage_goes_back, "what a client is said to have had of a device is taken back")              \
    X(gated_unheld, "what stands at gates with nothing buffered behind it is not held")            \
    X(stander_has_turns, "a policy gives turns to work that gets nowhere")                         \
    X(stander_has_shifts, "work that gets nowhere has shifts beside that of others")               \
    X(guarded_gets_on, "what the guard lets in behind what stands is taken for progress")          \
    X(stopped_has_turns, "a stopped process keeps its turn, or its deadline, under a policy")      \
    X(turns_of_other_level, "under fair what was used at another level counts at the new one")     \
    X(long_uncounted, "under fair a kernel of a second counts as what estimates know of it")       \
    X(gated_tail_unmarked, "what went last before gates closed gets no marker")                    \
    X(failed_in_flight, "what was in flight in a context that failed counts as such for ever")     \
    X(early_graphs_ungated, "graphs made before there is a scheduler never have gates")            \
    X(graph_gates_dear, "gates in graphs are as close as the budget says, whatever they cost")     \
    X(gates_stay_closed, "gates stay closed for as long as somebody holds")                        \
    X(shifts_unknown, "several processes have a budget each in the driver at a time")              \
    X(words_believed, "markers are read in memory, however late the GPU's writes are seen")        \
    X(share_unseen, "a context that has few multiprocessors counts on all of the device's")        \
    X(shift_untold, "a kernel that began at once is not exact in its process's own shift")

#define MUTANTS_ALL(X)                                                                             \
    MUTANTS(X)                                                                                     \
    MUTANTS_OF_GREEN(X)                                                                            \
    MUTANTS_OF_GATES(X)                                                                            \
    MUTANTS_OF_STOPS(X)                                                                            \
    MUTANTS_OF_HAZARDS(X) MUTANTS_OF_COST(X) MUTANTS_OF_PURPOSE(X) MUTANTS_OF_LEARNING(X)

enum mutant {
#define X(name, rule) MUTANT_##name,
    MUTANTS_ALL(X)
#undef X
        MUTANT_NONE
};

#ifdef CUTIN_MUTANTS
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
#define STOP(place)                                                                                \
    do {                                                                                           \
    } while (0)
#endif

/* For the flags of a request. */
#define MUTANT_OVERTAKES(name) (MUTANT(name) ? VHQ_OVERTAKES : 0u)

#endif
