# Fails when docs/coverage.md is not what coverage_doc prints.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE want RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${PROGRAM} failed")
endif()
file(READ ${FILE} have)
if(NOT have STREQUAL want)
  message(FATAL_ERROR "${FILE} is stale; build the target \"coverage\" to write it anew")
endif()
