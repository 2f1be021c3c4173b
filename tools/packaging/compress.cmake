# compress.cmake - man pages as Debian's policy wants them, in the folder that cpack is about to pack.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.[1-8])
foreach(page ${pages})
  if(page MATCHES "/man/man[1-8]/")
    execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
