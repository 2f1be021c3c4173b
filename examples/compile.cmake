# compile.cmake - CUDA C++ to PTX; where no nvcc does it, the PTX with the names:
# cmake -DNVCC=.. -DSOURCE=.. -DNAMES=.. -DPTX=.. -P compile.cmake
set(failed TRUE)
if(NVCC)
  execute_process(COMMAND ${NVCC} -ptx -O3 -allow-unsupported-compiler -o ${PTX} ${SOURCE}
    RESULT_VARIABLE failed ERROR_VARIABLE why OUTPUT_VARIABLE said)
  if(failed)
    message(STATUS "${NVCC} does not compile ${SOURCE}: the program will run on the simulated GPU alone. ${said}${why}")
  endif()
endif()
if(failed)
  configure_file(${NAMES} ${PTX} COPYONLY)
endif()
