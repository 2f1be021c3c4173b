# cpack.cmake - the packages of a build that tools/packages configured: one for each component. In
# CUTIN_PACKAGE_DOC lie `copyright` and `changelog.gz`, which each of them has to have.
set(CPACK_PACKAGE_NAME cutin)
set(CPACK_PACKAGE_CONTACT "cutin maintainers <maintainers@cutin.example>")
set(CPACK_PACKAGE_HOMEPAGE_URL https://cutin.example)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "real-time work cuts in on a busy NVIDIA GPU")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OBJCOPY ${CMAKE_OBJCOPY})
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/staged.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
# Nor does an RPM say when and where it was made.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define packager ${CPACK_PACKAGE_CONTACT}
%define _buildhost cutin.example
%define _build_id_links none
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1")
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/man/man8
  /usr/lib/systemd /usr/lib/systemd/system /usr/lib/systemd/user /usr/lib/sysusers.d /usr/lib/tmpfiles.d
  /usr/lib/debug /usr/share/doc /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/${CMAKE_INSTALL_LIBDIR} /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
else()
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()

set(scripts ${CMAKE_CURRENT_LIST_DIR}/scripts)
# package(COMPONENT NAME SECTION NEEDS DESCRIPTION): a line of the description begins with a blank.
macro(package component name section needs description)
  string(TOUPPER ${component} key)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${description}")
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${description}")
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section})
  set(CPACK_RPM_${key}_PACKAGE_NAME ${name})
  string(REGEX REPLACE "\\.\n.*" "" CPACK_RPM_${key}_PACKAGE_SUMMARY "${description}")
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "libc6 (>= 2.17)")
  if(NOT "${needs}" STREQUAL "")
    string(APPEND CPACK_DEBIAN_${key}_PACKAGE_DEPENDS ", ${needs} (= ${PROJECT_VERSION})")
    set(CPACK_RPM_${key}_PACKAGE_REQUIRES "${needs} = ${PROJECT_VERSION}")
  endif()
  install(FILES ${CUTIN_PACKAGE_DOC}/copyright ${CUTIN_PACKAGE_DOC}/changelog.gz
    DESTINATION share/doc/${name} COMPONENT ${component})
endmacro()
package(commands cutin utils libcutin0 "Commands and scheduler daemon of cutin.
 Best-effort GPU programs run until real-time ones have work, and then wait.")
package(lab cutin-lab utils cutin "Benchmarks, recordings and predictions of cutin.
 The REEF paper's benchmark, overhead and ablation; programs that are
 recorded, replayed, and predicted for machines that are not there, or
 run as if their GPU were far away; the results as a page. Nobody needs it
 who only serves.")
package(library libcutin0 libs "" "Library that cutin loads into GPU programs.
 It stands in front of the CUDA driver and needs no change of a program.")
package(dev cutin-dev libdevel libcutin0 "Header with which programs tell cutin more.
 No program needs it, and none has to link anything.")
package(simgpu cutin-simgpu libs "" "Simulated CUDA driver of cutin.
 For trying cutin without a GPU; no loader finds it by accident.")
package(symbols cutin-dbgsym debug "" "Debugging symbols of all packages of cutin.
 Debuggers find them by the build ids of what is installed.")

set(CPACK_DEBIAN_COMMANDS_PACKAGE_RECOMMENDS "systemd | systemd-standalone-sysusers")
set(CPACK_DEBIAN_COMMANDS_PACKAGE_SUGGESTS "cutin-lab, cutin-simgpu")
set(CPACK_DEBIAN_LAB_PACKAGE_SUGGESTS gnuplot-nox)
set(CPACK_DEBIAN_COMMANDS_PACKAGE_CONTROL_EXTRA ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm)
set(CPACK_RPM_COMMANDS_POST_INSTALL_SCRIPT_FILE ${scripts}/postinst)
set(CPACK_RPM_COMMANDS_PRE_UNINSTALL_SCRIPT_FILE ${scripts}/prerm)
set(CPACK_RPM_COMMANDS_POST_UNINSTALL_SCRIPT_FILE ${scripts}/postrm)
set(CPACK_RPM_COMMANDS_PACKAGE_SUMMARY "Real-time work cuts in on a busy NVIDIA GPU")
# As systems of RPMs call it, and say of it.
set(CPACK_RPM_DEV_PACKAGE_NAME cutin-devel)
set(CPACK_RPM_DEV_PACKAGE_GROUP Development/Libraries)
set(CPACK_RPM_DEV_PACKAGE_PROVIDES "pkgconfig(cutin) = ${PROJECT_VERSION}")
set(CPACK_RPM_SYMBOLS_PACKAGE_NAME cutin-debuginfo)
set(CPACK_RPM_SYMBOLS_PACKAGE_GROUP Development/Debug)
set(CPACK_RPM_SYMBOLS_PACKAGE_AUTOREQPROV OFF)
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_DEPENDS "")
# The loader finds it by its name alone, as `LD_PRELOAD=libcutin.so` needs.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${scripts}/triggers)
# Nothing that needs a driver is to find this one by accident.
set(CPACK_RPM_SIMGPU_PACKAGE_AUTOPROV OFF)
if(CMAKE_INSTALL_LIBDIR MATCHES "^lib/") # Debian's
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/lintian/cutin DESTINATION share/lintian/overrides)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/lintian/libcutin0 DESTINATION share/lintian/overrides COMPONENT library)
endif()
include(CPack)
