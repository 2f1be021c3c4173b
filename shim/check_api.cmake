# Fails the build when cuda.h declares a function, in any version, that api.def does not classify.
# Usage: cmake -DCC=compiler -DINCLUDE=dir -DAPI=api.def -DSTAMP=file -P check_api.cmake
#
# The preprocessor does the reading: with __CUDA_API_VERSION_INTERNAL the header declares every
# version of every function under the name that the driver exports.
get_filename_component(dir ${STAMP} DIRECTORY)
file(WRITE ${dir}/check_api.c "#include <cuda.h>\n")
execute_process(
  COMMAND ${CC} -E -P -D__CUDA_API_VERSION_INTERNAL -I${INCLUDE} ${dir}/check_api.c
  OUTPUT_FILE ${dir}/check_api.i RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${CC} cannot preprocess ${INCLUDE}/cuda.h")
endif()

file(STRINGS ${dir}/check_api.i lines REGEX "CUresult +cu[A-Z]")
set(declared "")
foreach(line IN LISTS lines)
  string(REGEX MATCHALL "CUresult +cu[A-Z][A-Za-z0-9_]* *\\(" hits "${line}")
  foreach(hit IN LISTS hits)
    string(REGEX REPLACE "CUresult +(cu[A-Za-z0-9_]*).*" "\\1" symbol "${hit}")
    list(APPEND declared ${symbol})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES declared)
list(LENGTH declared count)
if(count LESS 400) # CUDA 11.0 already had more
  message(FATAL_ERROR "${INCLUDE}/cuda.h: found only ${count} functions; check_api.cmake cannot read it")
endif()

file(STRINGS ${API} rows REGEX "^API_(PASS|DRAIN|WRAP)\\(")
list(TRANSFORM rows REPLACE "^API_[A-Z]+\\(([A-Za-z0-9_]+),.*" "\\1" OUTPUT_VARIABLE classified)
set(twice ${classified})
list(REMOVE_DUPLICATES classified)
if(NOT twice STREQUAL classified)
  message(FATAL_ERROR "${API}: a symbol has two rows")
endif()
list(REMOVE_ITEM declared ${classified})
if(declared)
  list(JOIN declared "\n  " text)
  message(FATAL_ERROR "${INCLUDE}/cuda.h declares functions that ${API} does not classify; "
                      "add a row for each:\n  ${text}")
endif()
file(WRITE ${STAMP} "${count} functions of ${INCLUDE}/cuda.h are classified\n")
