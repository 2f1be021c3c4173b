/*
 * mutants.h - the deliberate bugs: their names, and what the broken library does. Each is switched
 * where the real rule lives (common/mutant.h).
 */
#ifndef CUTIN_TESTS_MUTANTS_H
#define CUTIN_TESTS_MUTANTS_H

/* name, what the broken library does */
#define MUTANTS(X)                                                                                 \
    X(launch_overtakes,                                                                            \
      "a launch goes to the driver at once although its stream has buffered work")                 \
    X(plain_overtakes, "a launch on the fast path overtakes buffered work and ignores holds")      \
    X(memop_overtakes, "a memory write overtakes its stream's buffered work")                      \
    X(free_overtakes, "a stream-ordered free overtakes its stream's buffered work")                \
    X(taken_up_and_freed,                                                                          \
      "a buffered free frees its block even if a new allocation has taken the block")              \
    X(copy_short, "a copy in pieces leaves out its last piece")                                    \
    X(host_function_overtakes, "a host function overtakes its stream's buffered work")             \
    X(legacy_rule_dropped, "buffered commands ignore their order against the legacy stream")       \
    X(wait_unordered, "a buffered event wait goes before the record that it waits for")            \
    X(level_inverted,                                                                              \
      "a command of a higher level does not release the held commands that it waits for")          \
    X(lost_on_release, "the end of a hold drops the first command that was held")                  \
    X(repeated, "a buffered command runs twice")                                                   \
    X(event_query_early,                                                                           \
      "an event query asks the driver although the event's record is still buffered")              \
    X(stream_query_early, "a stream query asks the driver although the stream has buffered work")  \
    X(event_sync_undrained,                                                                        \
      "an event synchronisation does not submit the event's buffered record first")                \
    X(stream_sync_undrained,                                                                       \
      "a stream synchronisation does not submit the stream's buffered work first")                 \
    X(context_sync_undrained,                                                                      \
      "a context synchronisation does not submit the context's buffered work first")               \
    X(sync_copy_undrained, "a synchronous copy overtakes buffered work")                           \
    X(stale_parameters, "a deferred launch reads its first parameter from the caller's memory")    \
    X(stale_memops, "a deferred batch of memory operations reads the caller's array")              \
    X(pageable_deferred, "a copy from or to pageable memory is deferred")                          \
    X(capture_undrained, "a capture begins before its stream's buffered work is submitted")        \
    X(module_unload_undrained,                                                                     \
      "a module is unloaded before buffered launches of its functions are submitted")              \
    X(exec_update_undrained,                                                                       \
      "a graph update, or any other call that drains everything, drains nothing")                  \
    X(exec_destroy_early,                                                                          \
      "an executable graph is destroyed before buffered launches of it are submitted")             \
    X(event_destroy_early,                                                                         \
      "an event is destroyed before buffered records and waits are submitted")                     \
    X(stream_destroy_early, "a stream is destroyed before its buffered work is submitted")         \
    X(free_drains_own_context,                                                                     \
      "a free of memory overtakes work that another context has buffered")                         \
    X(pinned_remembered,                                                                           \
      "memory that the program has freed or unregistered still counts as pinned")                  \
    X(kernel_shape_shared,                                                                         \
      "a launch is deferred on one device because another device accepted it")                     \
    X(library_module_unknown,                                                                      \
      "a function from a library's module stays known after the library is unloaded")              \
    X(access_waits, "a call that sets access to a mapping waits until earlier work completes")     \
    X(release_waits,                                                                               \
      "a release of a primary context waits for its work although others still hold it")           \
    X(free_of_nothing_waits, "a free of a null pointer waits until earlier work completes")        \
    X(gone_forgotten, "the work in flight in a destroyed stream counts as complete")               \
    X(passing_forgotten,                                                                           \
      "work in flight in a thread's own stream counts as complete when the thread ends")           \
    X(nothing_completes, "a copy of zero bytes counts as proof that earlier work is complete")     \
    X(event_told_late, "every other event query answers that the event is not complete")

/* The same for green contexts, which cuda.h has from 12.5 on. */
#define MUTANTS_OF_GREEN(X)                                                                        \
    X(green_sync_left_out, "a synchronisation of a primary context leaves out its green contexts") \
    X(context_record_undrained,                                                                    \
      "a context's record drains the caller's context, not the one that it names")                 \
    X(green_wait_overtakes,                                                                        \
      "a wait for a value overtakes work that contexts of the same primary have buffered")         \
    X(context_wait_undrained, "a context's wait goes before the record that it waits for")

/* The same in processes with gates. */
#define MUTANTS_OF_GATES(X)                                                                        \
    X(graph_copy_stale, "a change of an executable graph does not reach its copy with gates")

/* Found by tests/hazards, whose programs call what the oracle's do not; the first two by
 * tests/shim/wrap/query.c, which stops a thread where the oracle's would have to be by chance. */
#define MUTANTS_OF_HAZARDS(X)                                                                      \
    X(stream_epoch_late, "work that is buffered during a stream query counts as complete")         \
    X(event_epoch_late, "a record that is made during a query of its event counts as complete")    \
    X(pool_access_overtakes, "a call that takes away access to a pool overtakes buffered work")    \
    X(host_pool_taken_for_open,                                                                    \
      "a copy with memory of a host pool is deferred although the device has no access")           \
    X(prefetch_unsaid, "a question about prefetches overtakes buffered prefetches")                \
    X(unknown_undrained, "a function that is not in the library's table overtakes buffered work")  \
    X(fork_forgotten, "a forked child keeps locks that threads of its parent hold")                \
    X(graph_unqueued_overtakes,                                                                    \
      "a graph launch in a stream without a queue overtakes a buffered launch of the graph")       \
    X(capture_before_record,                                                                       \
      "an event's buffered record goes after a later record that a capture takes")                 \
    X(arguments_late, "a memset is deferred whatever its arguments are")                           \
    X(batch_late, "a batch of prefetches is deferred whatever its flags and ranges are")           \
    X(rerecord_unordered,                                                                          \
      "a new record of an event goes before earlier buffered waits for the event")                 \
    X(fence_dropped,                                                                               \
      "a record that goes at once overtakes buffered waits for the previous record")               \
    X(kernel_attribute_swallowed,                                                                  \
      "a kernel's attribute is not set for a second device if the current one has it")             \
    X(launch_event_unseen, "a launch that records an event overtakes the event's buffered record") \
    X(no_pool_taken_up,                                                                            \
      "an allocation from a null pool gets a freed block, not the driver's error")                 \
    X(free_late, "a stream-ordered free is deferred whatever address it frees")                    \
    X(far_pool_deferred, "a copy is deferred although the driver may refuse its pool's device")    \
    X(ranges_stale,                                                                                \
      "memory stays known after a stream-ordered free, or after its graph is destroyed")           \
    X(departed_forgotten, "real-time work holds nobody after its stream is destroyed")             \
    X(calls_unseen, "a stream counts as complete while a thread is in a call for it")              \
    X(calls_in_the_way, "a command waits for another stream's call that is inside the driver")     \
    X(call_locks, "a call in a stream waits until another thread's call in the stream returns")    \
    X(drain_completes, "a call that drains waits until what it drained is complete")               \
    X(legacy_drain_of_all, "a drain of the legacy stream also drains the non-blocking streams")    \
    X(capture_comes_first, "a capture that begins while a call waits forbids the call")            \
    X(dispatcher_stalls,                                                                           \
      "the dispatcher submits nothing while one command waits for room in its stream")             \
    X(capture_waits_for_legacy,                                                                    \
      "a capture waits without bound for a marker that has no room in the legacy stream")          \
    X(allocation_waits_for_itself,                                                                 \
      "an allocation may wait for work that its own stream has buffered")                          \
    X(graph_objects_kept,                                                                          \
      "a graph's copy with gates keeps the user objects of the graph it was made from")            \
    X(graph_memory_unordered, "a graph launch overtakes a buffered free of the graph's memory")    \
    X(waits_on_stack, "the list of waiting threads points into their own stacks")                  \
    X(jumps_unseen, "a thread that leaves a call by a jump keeps its turn for ever")               \
    X(jumps_within_unseen,                                                                         \
      "a call never ends if a signal handler on top of it leaves another call by a jump")          \
    X(table_shared, "the library's descriptors are in the program's descriptor table")             \
    X(shared_memory_unseen, "a hold never lets a kernel go that writes another process's memory")  \
    X(thread_waits_untold, "the process that a real-time thread waits for stays held")             \
    X(context_waits_untold, "the process that a real-time context waits for stays held")           \
    X(graph_waits_untold, "the process that a real-time graph waits for stays held")               \
    X(function_waits_untold, "the process that a real-time host function waits for stays held")    \
    X(marker_stalls, "a late marker goes where it may stand behind another stream's wait")         \
    X(marker_unsays, "a stream that was reported complete is busy again when a marker follows")    \
    X(graph_waits_unordered,                                                                       \
      "a graph that waits goes before earlier buffered calls of other streams")

/* Programs see the right results, but late or at too high a cost: found by tools/bench
 * --instructions, tests/vhq, tests/shim/wrap/level.c and tests/scheduler/client/calm.c. From
 * fixed_stride on, what is learned of kernels and markers, shifts, and what gates cost: found by
 * tests/integration/sharing, learned.c, jobs.c, gates.c and defaults.c. */
#define MUTANTS_OF_COST(X)                                                                         \
    X(cut_in_slow, "a cut-in takes 5 us longer")                                                   \
    X(launch_longer, "a launch executes about 40 more instructions")                               \
    X(launch_scans, "a launch looks at all streams of its context")                                \
    X(attributes_forget_all,                                                                       \
      "a call that sets one kernel's attribute forgets the attributes of all kernels")             \
    X(marker_too_many, "the library writes one marker too many every 100 commands")                \
    X(hold_opens_late, "held commands go 1 ms after the hold has ended")                           \
    X(hold_ends_late, "a hold ends 1 ms after the work that caused it")                            \
    X(ticks_for_ever, "a process that does nothing still wakes 100 times a second")                \
    X(held_looks, "a held process with nothing waiting still looks at its hold words")             \
    X(calm_unended, "a call does not wake the thread that sleeps because no call came")            \
    X(fixed_stride,                                                                                \
      "the library times launches at a fixed distance, so always one phase of a program")          \
    X(wait_taken_for_kernel, "the time that a kernel waits for another stream counts as its own")  \
    X(call_timed, "all the time between a kernel's events counts as its own")                      \
    X(loading_timed,                                                                               \
      "the time that a first launch takes to load its kernel counts as the kernel's")              \
    X(late_never_timed,                                                                            \
      "a launch whose call took long is never a sample, however many such calls come")             \
    X(marks_dear, "markers are as close as the budget asks, whatever they cost")                   \
    X(streams_in_line, "without room streams do not take turns: the earliest command goes first")  \
    X(third_waits, "of several streams with all work buffered two take turns and the others wait") \
    X(tail_unasked, "nobody asks the driver whether a stream's last work is complete")             \
    X(known_long_clamped,                                                                          \
      "the guard counts a kernel that is known to be very long as half a second")                  \
    X(guard_unbounded, "the work that the guard lets in may take any amount of time")              \
    X(longest_unlearned, "the time of a kernel that takes over four seconds is never learned")     \
    X(stalled_for_good,                                                                            \
      "a process with one stalled external wait holds nobody, even with later work")               \
    X(held_by_want_only,                                                                           \
      "a policy decides by a client's want words alone whether the client is held")                \
    X(usage_goes_back, "the device time that is reported for a client can go down")                \
    X(gated_unheld,                                                                                \
      "work that waits at gates with nothing buffered behind it does not count as held")           \
    X(stalled_has_quantum, "a policy gives quanta to a client whose work makes no progress")       \
    X(stalled_has_shifts, "a client whose work makes no progress keeps its shifts beside others")  \
    X(stall_forgotten, "a client whose work stalls again and again has shifts in between")         \
    X(long_has_shifts, "a client takes shifts although one of its commands outlasts the longest")  \
    X(busy_is_rest, "time slices of others count as no loss while clients above come and go")      \
    X(overrun_untold,                                                                              \
      "nobody is told that work runs on after a quantum, with time slices of its own")             \
    X(guarded_gets_on, "work that the guard lets in behind stalled work counts as progress")       \
    X(stopped_has_quantum, "a stopped process keeps its quantum, or its deadline, under a policy") \
    X(use_at_other_level, "under fair a client's use at its old level counts at its new level")    \
    X(long_uncounted, "under fair a kernel of a second counts only as long as its estimate")       \
    X(gated_tail_unmarked, "the last work before gates close gets no marker")                      \
    X(failed_in_flight, "the work in flight in a failed context counts as in flight for ever")     \
    X(early_graphs_ungated, "a graph that is made before a scheduler connects never gets gates")   \
    X(graph_gates_dear, "gates in graphs are as close as the budget asks, whatever they cost")     \
    X(gates_stay_closed, "gates stay closed as long as somebody holds, however long that is")      \
    X(shifts_unknown, "several processes have a budget each in the driver at the same time")       \
    X(words_believed,                                                                              \
      "the library reads markers in memory even where it sees the GPU's writes late")              \
    X(share_unseen, "a context with few multiprocessors counts as if it had all of the device's")  \
    X(shift_untold, "the time of a kernel that began at once in its process's shift is not exact")

/* Programs see the right results, but real time or best effort waits: found by cutin-purpose. */
#define MUTANTS_OF_PURPOSE(X)                                                                      \
    X(estimates_constant, "every kernel counts as an unknown one")                                 \
    X(hold_ends_by_look, "a hold ends only when a tick finds its work complete")                   \
    X(allocation_ahead, "an allocation overtakes buffered frees and takes none of their blocks")   \
    X(feedback_ignored, "the cap trusts its estimates and ignores measured times")                 \
    X(loose_unbounded, "work in flight has no bound while no client above is connected")           \
    X(alone_untried, "a process counts as alone before any of its work was measured")              \
    X(gate_not_opened, "one gate in 64 is closed while nobody holds the process")                  \
    X(guard_of_old, "after 100 ms without progress the guard lets in a whole queue of commands")   \
    X(glance_missing, "the dispatcher never looks earlier than the estimate tells it to")          \
    X(guard_each_time,                                                                             \
      "beside stalled work the guard lets in one stream's command only every 100 ms")              \
    X(marker_lost, "one marker in eight is never written")                                         \
    X(copy_whole, "a long copy goes as one command")                                               \
    X(stream_uncounted, "the cap does not count launches")                                         \
    X(ungated_uncounted,                                                                           \
      "the cap lets several streams each have a long kernel in flight between gates")              \
    X(long_forgotten, "the cap forgets an unexpectedly long kernel before the next one comes")     \
    X(left_uncounted, "the cap does not count what an ended stream has in flight")                 \
    X(priority_goes_round, "the stream that went last goes last of all, even if it is urgent")     \
    X(fresh_uncounted,                                                                             \
      "a stream with new work in flight does not count until the dispatcher's next look")          \
    X(per_thread_untimed, "kernels in per-thread default streams are never timed")                 \
    X(loose_in_line,                                                                               \
      "in a lone process a stream waits for common room, however little it has in flight")         \
    X(narrow_in_line, "commands that fill little of the device do not run side by side")           \
    X(slices_measured, "the time slices of a process without shifts count as a job's own time")    \
    X(slices_learned, "a kernel that waits for such slices is learned as that long")

#define MUTANTS_ALL(X)                                                                             \
    MUTANTS(X)                                                                                     \
    MUTANTS_OF_GREEN(X)                                                                            \
    MUTANTS_OF_GATES(X) MUTANTS_OF_HAZARDS(X) MUTANTS_OF_COST(X) MUTANTS_OF_PURPOSE(X)

enum mutant {
#define X(name, rule) MUTANT_##name,
    MUTANTS_ALL(X)
#undef X
        MUTANT_NONE
};

#endif
