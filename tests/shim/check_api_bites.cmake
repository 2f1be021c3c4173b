# check_api.cmake passes the real table, and fails one with a row missing or a row doubled.
file(MAKE_DIRECTORY ${WORK})
function(check table expect_failure)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DCC=${CC} -DINCLUDE=${INCLUDE} -DAPI=${table} -DSTAMP=${WORK}/stamp
            -P ${SCRIPT}
    RESULT_VARIABLE failed ERROR_VARIABLE error OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " error "${error}") # CMake breaks lines by the length of paths
  if(expect_failure AND NOT error MATCHES "${expect_failure}")
    message(FATAL_ERROR "${table}: expected a failure about \"${expect_failure}\", got: ${error}")
  elseif(NOT expect_failure AND failed)
    message(FATAL_ERROR "${table}: ${error}")
  endif()
endfunction()

file(READ ${API} text)
check(${API} "")
string(REGEX REPLACE "API_WRAP\\(cuLaunchKernel,[^\n]*\n" "" missing "${text}")
file(WRITE ${WORK}/missing.def "${missing}")
check(${WORK}/missing.def "cuLaunchKernel")
file(WRITE ${WORK}/twice.def "${text}\nAPI_PASS(cuInit, cuInit, cuInit, 2000, 0, PASS, NONE)\n")
check(${WORK}/twice.def "two rows")
