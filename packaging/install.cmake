# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where. Component heaps: every malloc library, with a CMake package and a pkg-config file for
# each. Component lab, on request: what the wheel carries (pyproject.toml), laid out as lab/heapyard/model/places.py has it.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(heaps_package ${CMAKE_INSTALL_LIBDIR}/cmake/heapyard)

get_property(heap_names GLOBAL PROPERTY HEAPYARD_HEAP_NAMES)
foreach(HEAP_NAME IN LISTS heap_names)
  set_target_properties(heap_${HEAP_NAME} PROPERTIES EXPORT_NAME ${HEAP_NAME})
  set_target_properties(heap_${HEAP_NAME}_static PROPERTIES EXPORT_NAME ${HEAP_NAME}-static)
  install(TARGETS heap_${HEAP_NAME} heap_${HEAP_NAME}_static EXPORT heapyard-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT heaps
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT heaps
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  set(HEAP_CFLAGS "")
  if(HEAP_NAME STREQUAL "heapyard") # has an interface beyond malloc
    file(RELATIVE_PATH include_dir /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix/${CMAKE_INSTALL_INCLUDEDIR})
    set(HEAP_CFLAGS "-I\${pcfiledir}/${include_dir}")
  endif()
  foreach(HEAP_KIND IN ITEMS "" "-static")
    set(HEAP_LIBS "-L\${libdir} -l${HEAP_NAME}")
    if(HEAP_KIND)
      set(HEAP_LIBS "\${libdir}/lib${HEAP_NAME}.a -pthread")
    endif()
    configure_file(${CMAKE_CURRENT_LIST_DIR}/heap.pc.in packaging/heapyard-${HEAP_NAME}${HEAP_KIND}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/packaging/heapyard-${HEAP_NAME}${HEAP_KIND}.pc
      DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT heaps)
  endforeach()
endforeach()

if(heap_names)
  install(EXPORT heapyard-targets NAMESPACE heapyard:: FILE heapyard-config.cmake DESTINATION ${heaps_package} COMPONENT heaps)
  write_basic_package_version_file(packaging/heapyard-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/packaging/heapyard-config-version.cmake DESTINATION ${heaps_package} COMPONENT heaps)
  install(FILES ${PROJECT_SOURCE_DIR}/heap/include/heapyard.h ${PROJECT_SOURCE_DIR}/heap/include/heapyard.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT heaps)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT heaps)
endif()

# targets_below(FOLDER RESULT): the targets of a folder and of those below it.
function(targets_below folder result)
  get_property(found DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(sub IN LISTS below)
    targets_below(${sub} more)
    list(APPEND found ${more})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

foreach(room IN ITEMS heap lab/native mutators programs/src simulator tracer)
  targets_below(${PROJECT_SOURCE_DIR}/${room} parts)
  foreach(part IN LISTS parts)
    get_target_property(kind ${part} TYPE)
    if(kind MATCHES "EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY")
      install(TARGETS ${part} EXCLUDE_FROM_ALL
        RUNTIME DESTINATION bin COMPONENT lab
        LIBRARY DESTINATION lib COMPONENT lab)
    endif()
  endforeach()
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/heaps.json ${PROJECT_BINARY_DIR}/mutators.json ${PROJECT_BINARY_DIR}/build.json
  DESTINATION . COMPONENT lab EXCLUDE_FROM_ALL)

# The manual page and the shells' completions, made by `python -m heapyard.cli.manual packaging/share`
# (tests/lab/test_manual.py asks that they are up to date). A wheel keeps them where pip puts shared data.
if(SKBUILD)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/packaging/share/ DESTINATION ${SKBUILD_DATA_DIR}/share COMPONENT lab)
else()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/packaging/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT manual)
endif()

# What `heapyard --version` says of a wheel (lab/heapyard/catalog/build_facts.py); a checkout is asked for its commit itself.
find_package(Git QUIET)
set(commit "")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/build.json CONTENT
  "{\"commit\": \"${commit}\", \"compiler\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"}\n")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME heapyard-heaps)
set(CPACK_PACKAGE_VENDOR "Heapyard")
set(CPACK_PACKAGE_CONTACT "the Heapyard maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Malloc libraries to preload or to link: BFM, scalloc, elfmalloc and their variants")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL heaps)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_HEAPS_PACKAGE_NAME heapyard-heaps)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
include(CPack)
