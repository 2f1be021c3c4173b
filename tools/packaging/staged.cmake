# staged.cmake - what is done to the files of all packages that cpack is about to make: man pages are compressed, as
# Debian's policy wants them, the symbols of programs go into the package of symbols, and all get the time of what is
# packed (SOURCE_DATE_EPOCH): rpm changes later times alone.
set(staged ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
file(GLOB_RECURSE pages ${staged}/*.[1-8])
foreach(page ${pages})
  if(page MATCHES "/man/man[1-8]/")
    execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()

# By build id, as debuggers look for them.
file(GLOB_RECURSE programs ${staged}/*/usr/bin/* ${staged}/*.so ${staged}/*.so.*)
foreach(program ${programs})
  if(IS_SYMLINK ${program})
    continue()
  endif()
  execute_process(COMMAND readelf -n ${program} OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
  if(NOT notes MATCHES "Build ID: (..)([0-9a-f]+)")
    message(FATAL_ERROR "${program} has no build id")
  endif()
  set(folder ${staged}/symbols/usr/lib/debug/.build-id/${CMAKE_MATCH_1})
  set(symbols ${folder}/${CMAKE_MATCH_2}.debug)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${CPACK_OBJCOPY} --only-keep-debug ${program} ${symbols} COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD ${symbols} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND ${CPACK_OBJCOPY} --strip-all ${program} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${staged} -exec touch -h -d @$ENV{SOURCE_DATE_EPOCH} {} +
    COMMAND_ERROR_IS_FATAL ANY)
endif()
