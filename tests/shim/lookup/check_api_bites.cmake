# check_api.cmake is silent about a CUDA that the table was made for, warns where a row is missing or a header cannot be read,
# and fails where a row is doubled.
file(MAKE_DIRECTORY ${WORK})
function(check include table expect_failure expect_text)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DCC=${CC} -DINCLUDE=${include} -DAPI=${table} -DWORK=${WORK}/work
            -P ${SCRIPT}
    RESULT_VARIABLE failed ERROR_VARIABLE error OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " error "${error}") # CMake breaks lines by the length of paths
  if(expect_text AND NOT error MATCHES "${expect_text}")
    message(FATAL_ERROR "${table}: expected something about \"${expect_text}\", got: ${error}")
  elseif(NOT expect_text AND NOT error STREQUAL "")
    message(FATAL_ERROR "${table}: ${error}")
  elseif((expect_failure AND NOT failed) OR (failed AND NOT expect_failure))
    message(FATAL_ERROR "${table}: status ${failed}: ${error}")
  endif()
endfunction()

file(READ ${API} text)
file(STRINGS ${INCLUDE}/cuda.h version REGEX "^#define CUDA_VERSION ")
string(REGEX REPLACE "[^0-9]" "" version "${version}")
if(version LESS_EQUAL 13050)
  check(${INCLUDE} ${API} OFF "")
endif()
string(REGEX REPLACE "API_WRAP\\(cuLaunchKernel,[^\n]*\n" "" missing "${text}")
file(WRITE ${WORK}/missing.def "${missing}")
check(${INCLUDE} ${WORK}/missing.def OFF "does not know.* cuLaunchKernel")
string(REGEX REPLACE "API_DRAIN\\(cuGLUnmapBufferObjectAsync,[^\n]*\n" "" missing "${text}")
file(WRITE ${WORK}/missing_gl.def "${missing}")
if(EXISTS ${INCLUDE}/cudaGL.h)
  check(${INCLUDE} ${WORK}/missing_gl.def OFF "does not know.* cuGLUnmapBufferObjectAsync")
endif()
file(WRITE ${WORK}/strange/cuda.h "int main(void);\n")
check(${WORK}/strange ${API} OFF "cannot read this header")
file(WRITE ${WORK}/twice.def "${text}\nAPI_PASS(cuInit, cuInit, cuInit, 2000, 0, PASS, NONE)\n")
check(${INCLUDE} ${WORK}/twice.def ON "two rows")
