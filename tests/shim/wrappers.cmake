# Tests of the typed wrappers: programs that link the simulated driver and run with cutin preloaded.
add_library(rig STATIC rig.c)
target_link_libraries(rig PUBLIC simgpu ${CUTIN_TEST_RUNNER} Threads::Threads)
target_compile_options(rig PRIVATE -Wno-conversion -Wno-shadow)
target_compile_definitions(rig PUBLIC SOURCE_DIR="${PROJECT_SOURCE_DIR}")

function(wrapper_case name program)
  add_test(NAME wrap_${name} COMMAND test_wrap_${program} --jobs 1)
  set_tests_properties(wrap_${name} PROPERTIES TIMEOUT 300 ENVIRONMENT
    "LD_PRELOAD=${first}$<TARGET_FILE:cutin>;CUTIN_SOCKET=/nonexistent/cutin.sock;CUTIN_PROFILE=off;${sanitizer_env};${ARGN}")
endfunction()

function(wrapper_test name)
  add_executable(test_wrap_${name} ${name}.c)
  target_compile_options(test_wrap_${name} PRIVATE -Wno-conversion -Wno-shadow)
  target_link_libraries(test_wrap_${name} PRIVATE rig)
  set_target_properties(test_wrap_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  add_dependencies(test_wrap_${name} cutin)
  wrapper_case(${name} ${name} ${ARGN})
endfunction()

# The same with the driver watched (watch.h), and places where a thread can be stopped (vhq/bite.h).
add_library(watch SHARED watch.c)
target_compile_definitions(watch PRIVATE SIMULATOR="$<TARGET_FILE:simgpu>")
if(CUTIN_SANITIZE)
  target_compile_options(watch PRIVATE -fno-sanitize=all)
endif()
target_link_libraries(watch PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(watch PRIVATE -Wl,-Bsymbolic) # as the real one: its calls stay inside
set_target_properties(watch PROPERTIES OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/watch)
add_dependencies(watch simgpu)
add_library(rig_watched STATIC rig.c)
target_link_libraries(rig_watched PUBLIC watch ${CUTIN_TEST_RUNNER} Threads::Threads)
target_compile_options(rig_watched PRIVATE -Wno-conversion -Wno-shadow)
target_compile_definitions(rig_watched PUBLIC SOURCE_DIR="${PROJECT_SOURCE_DIR}")

function(watched_test name)
  add_executable(test_wrap_${name} ${name}.c)
  target_compile_options(test_wrap_${name} PRIVATE -Wno-conversion -Wno-shadow)
  target_link_libraries(test_wrap_${name} PRIVATE rig_watched)
  target_link_options(test_wrap_${name} PRIVATE -rdynamic) # cutin_stop
  set_target_properties(test_wrap_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  add_dependencies(test_wrap_${name} cutin_bites)
  add_test(NAME wrap_${name} COMMAND test_wrap_${name} --jobs 1)
  set_tests_properties(wrap_${name} PROPERTIES TIMEOUT 300 ENVIRONMENT
    "LD_PRELOAD=${first}$<TARGET_FILE:cutin_bites>;CUTIN_SOCKET=/nonexistent/cutin.sock;CUTIN_PROFILE=off;${sanitizer_env};${ARGN}")
endfunction()

foreach(noun query failure overlap capture_end)
  watched_test(${noun})
endforeach()
# Deliberate bugs that it has to find (vhq/bite.h).
foreach(bite stream_epoch_late event_epoch_late)
  add_test(NAME bite_${bite} COMMAND test_wrap_query --jobs 1)
  set_tests_properties(bite_${bite} PROPERTIES TIMEOUT 300 WILL_FAIL TRUE ENVIRONMENT
    "LD_PRELOAD=${first}$<TARGET_FILE:cutin_bites>;CUTIN_SOCKET=/nonexistent/cutin.sock;CUTIN_PROFILE=off;CUTIN_BITE=${bite};${sanitizer_env}")
endforeach()
watched_test(asked CUTIN_PRIORITY=rt)
watched_test(direct CUTIN_PRIORITY=rt)
watched_test(join CUTIN_PRIORITY=rt CUTIN_STREAM_PRIORITY=inherit)
watched_test(outside CUTIN_PRIORITY=rt)

foreach(noun launch copy event stream order graph capture reset lifetime external)
  wrapper_test(${noun})
endforeach()
wrapper_test(event_shared CUTIN_PRIORITY=rt CUTIN_STREAM_PRIORITY=inherit)
# Best effort and real time in one process; and a process that is real time throughout.
wrapper_test(level CUTIN_PRIORITY=rt CUTIN_STREAM_PRIORITY=inherit)
wrapper_test(devices CUTIN_PRIORITY=rt CUTIN_STREAM_PRIORITY=inherit SIMGPU_DEVICES=2)
wrapper_test(activity CUTIN_PRIORITY=rt)
wrapper_test(hint CUTIN_PRIORITY=rt CUTIN_STREAM_PRIORITY=hint)
add_test(NAME hint_disabled COMMAND test_hint_absent --jobs 1)
set_tests_properties(hint_disabled PROPERTIES TIMEOUT 60 ENVIRONMENT
  "LD_PRELOAD=${first}$<TARGET_FILE:cutin>;CUTIN_DISABLE=1;${sanitizer_env}")
add_dependencies(test_hint_absent cutin)
# A driver without stream memory operations: completion by events.
foreach(noun launch copy event stream graph capture reset lifetime)
  wrapper_case(${noun}_without_memops ${noun} SIMGPU_MEMOPS=0)
endforeach()
# A budget so small that nearly everything waits in a vHQ.
foreach(noun launch copy event stream order graph capture lifetime)
  wrapper_case(${noun}_in_small_doses ${noun} CUTIN_BUDGET_US=1 CUTIN_DEPTH=1)
endforeach()

# Figures, no test: see the file.
add_executable(join_bench join_bench.c)
target_link_libraries(join_bench PRIVATE simgpu Threads::Threads)
target_compile_definitions(join_bench PRIVATE SOURCE_DIR="${PROJECT_SOURCE_DIR}")
set_target_properties(join_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
