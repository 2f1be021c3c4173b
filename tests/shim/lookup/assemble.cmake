# Assembles the aarch64 files and looks for the symbols they must define.
if(NOT CC)
  message("skipped: no aarch64-linux-gnu-gcc")
  return()
endif()
foreach(name dlsym thunk)
  foreach(protection none standard)
    execute_process(COMMAND ${CC} -I${INCLUDE} -mbranch-protection=${protection} -Wall -Werror
                    -Wa,--fatal-warnings -c ${SHIM}/${name}_aarch64.S -o ${WORK}/${name}_aarch64.o
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "${name}_aarch64.S does not assemble")
    endif()
  endforeach()
endforeach()

string(REGEX REPLACE "gcc$" "nm" NM ${CC})
execute_process(COMMAND ${NM} --defined-only ${WORK}/dlsym_aarch64.o ${WORK}/thunk_aarch64.o
  OUTPUT_VARIABLE symbols)
foreach(symbol "T dlsym" "T dlvsym" "W cuLaunchKernel" "T cuTexRefSetMipmappedArray")
  if(NOT symbols MATCHES "${symbol}\n")
    message(FATAL_ERROR "no \"${symbol}\" among:\n${symbols}")
  endif()
endforeach()
