# Lets systemd-analyze verify a service and its socket, under the names that they are installed with.
if(NOT ANALYZE)
  message("skipped: no systemd-analyze")
  return()
endif()
file(READ ${SERVICE} text)
string(REPLACE "${INSTALLED}" "${BUILT}" text "${text}")
file(WRITE ${FOLDER}/cutind.service "${text}")
configure_file(${SOCKET} ${FOLDER}/cutind.socket COPYONLY)
execute_process(COMMAND ${ANALYZE} verify --man=no ${FOLDER}/cutind.service ${FOLDER}/cutind.socket
  RESULT_VARIABLE rc ERROR_VARIABLE said OUTPUT_VARIABLE said)
# Units of the machine itself may be broken; what is said about ours counts.
string(REGEX MATCHALL "[^\n]*cutind\\.[^\n]*" ours "${said}")
if(ours)
  message(FATAL_ERROR "systemd-analyze: ${said}")
endif()
# Not before systemd 250; a user's own service has his rights.
execute_process(COMMAND ${ANALYZE} security --offline=true --threshold=20 ${FOLDER}/cutind.service
  RESULT_VARIABLE rc ERROR_VARIABLE said OUTPUT_VARIABLE said)
if(rc AND NOT said MATCHES "nrecognized option" AND NOT SERVICE MATCHES "/user.service$")
  message(FATAL_ERROR "the service is more exposed than it has to be: ${said}")
endif()
