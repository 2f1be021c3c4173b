# Warns when CUDA's headers declare driver functions, in any version, that api.def does not classify.
# libcutin.so is right without a row, since unknown functions drain; with one it is faster.
# Used by shim/CMakeLists.txt, and as
#   cmake -DCC=compiler -DINCLUDE=dir -DAPI=api.def -DWORK=dir -P check_api.cmake
#
# The preprocessor does the reading: with __CUDA_API_VERSION_INTERNAL a header declares every version of
# every function under the name that the driver exports. Graphics headers that it includes may be
# missing, and none of their types is needed: empty ones stand in for them.
function(check_api_read header)
  file(WRITE ${WORK}/check_api.c "#include <${header}>\n")
  execute_process(
    COMMAND ${CC} -E -P -D__CUDA_API_VERSION_INTERNAL -I${INCLUDE} -I${WORK} ${WORK}/check_api.c
    OUTPUT_VARIABLE text RESULT_VARIABLE failed ERROR_QUIET)
  string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
  string(REGEX MATCHALL "CUresult cu[A-Z][A-Za-z0-9_]* *\\(" found "${text}")
  list(TRANSFORM found REPLACE "CUresult (cu[A-Za-z0-9_]*) *\\(" "\\1")
  set(found ${found} PARENT_SCOPE)
  set(failed ${failed} PARENT_SCOPE)
endfunction()

function(check_api)
  foreach(foreign GL/gl.h EGL/egl.h EGL/eglext.h vdpau/vdpau.h)
    file(WRITE ${WORK}/${foreign} "")
  endforeach()
  set(declared "")
  foreach(header cuda.h cudaProfiler.h cudaGL.h cudaEGL.h cudaVDPAU.h)
    if(EXISTS ${INCLUDE}/${header})
      check_api_read(${header})
      list(APPEND declared ${found})
      list(LENGTH found count)
      if(failed OR (header STREQUAL "cuda.h" AND count LESS 400)) # CUDA 11.0 already had more
        message(WARNING "${INCLUDE}/${header}: cannot read this header, so it may declare functions "
                        "that ${API} does not classify. They drain.")
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES declared)

  file(STRINGS ${API} rows REGEX "^API_(PASS|DRAIN|WRAP)\\(")
  list(TRANSFORM rows REPLACE "^API_[A-Z]+\\(([A-Za-z0-9_]+),.*" "\\1" OUTPUT_VARIABLE classified)
  set(twice ${classified})
  list(REMOVE_DUPLICATES classified)
  if(NOT twice STREQUAL classified)
    message(FATAL_ERROR "${API}: a symbol has two rows")
  endif()
  list(REMOVE_ITEM declared ${classified})
  if(declared)
    list(JOIN declared ", " text)
    message(WARNING "The headers in ${INCLUDE} declare functions that this version does not know. The "
                    "build is right, and these functions drain; to defer them, add rows to ${API}: ${text}")
  endif()
endfunction()
check_api()
