# cohort_library(core) declares cohort::core; cohort_layer(...) adds one folder of src/ to it, with explicit lists:
#
#   cohort_layer(base TO core
#     HEADERS ...   public, relative to include/cohort/<layer>; verified to be self-contained
#     SOURCES ...   relative to src/<layer>
#     TESTS ...     relative to src/<layer>; made into one program, cohort_<layer>_test
#   )

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

find_package(Threads REQUIRED)

add_library(cohort_warnings INTERFACE)
target_compile_options(cohort_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Wundef
  $<$<BOOL:${COHORT_WERROR}>:-Werror>
  # g++ 12 sees uninitialised variants where there are none; the sanitizers look for real ones.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)

function(cohort_library name)
  add_library(cohort_${name} ${ARGN})
  add_library(cohort::${name} ALIAS cohort_${name})
  set_target_properties(cohort_${name} PROPERTIES
    EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(cohort_${name} PUBLIC cxx_std_20)
  target_include_directories(cohort_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # Without it g++ turns a loop of co_awaits into recursion when it does not optimise.
  target_compile_options(cohort_${name} PUBLIC $<$<CXX_COMPILER_ID:GNU>:-foptimize-sibling-calls>)
  target_link_libraries(cohort_${name} PUBLIC Threads::Threads PRIVATE $<BUILD_INTERFACE:cohort_warnings>)
  if(COHORT_FUZZ)
    target_compile_options(cohort_${name} PUBLIC -fsanitize=fuzzer-no-link)
  endif()
  if(COHORT_SANITIZE)
    target_compile_options(cohort_${name} PUBLIC
      -fsanitize=${COHORT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(cohort_${name} PUBLIC -fsanitize=${COHORT_SANITIZE})
  endif()
endfunction()

function(cohort_layer layer)
  cmake_parse_arguments(arg "" "TO" "HEADERS;SOURCES;TESTS" ${ARGN})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/cohort/${layer}/)
  target_sources(cohort_${arg_TO} PRIVATE ${arg_SOURCES})
  target_sources(cohort_${arg_TO} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  list(TRANSFORM arg_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  string(REPLACE "/" "_" name ${layer})
  set_property(GLOBAL APPEND PROPERTY cohort_layers ${name})
  set_property(GLOBAL PROPERTY cohort_tests_of_${name} ${arg_TESTS})
  set_property(GLOBAL PROPERTY cohort_library_of_${name} ${arg_TO})
endfunction()

set(cohort_layers_without_threads step store broker api node)

# A test program: what it tests, private headers of src/ included. LABEL: one that test presets may leave out.
# FIXTURE: a server that its tests need. Only those
# that spend their time in code of their own, or count what optimised code does, are optimised as the library is; the
# others are to be built quickly.
function(cohort_test name)
  cmake_parse_arguments(arg "" "LABEL;FIXTURE" "" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE cohort::core cohort_warnings GTest::gtest_main)
  set(quickly_built ${arg_UNPARSED_ARGUMENTS})
  list(FILTER quickly_built EXCLUDE REGEX "(storm|stress|simulation|allocation)_test")
  if(CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo)  # (g++ turns loops of co_awaits into recursion without optimisation.)
    set(level $<IF:$<CXX_COMPILER_ID:GNU>,-O1,-O0>)
    if(quickly_built STREQUAL arg_UNPARSED_ARGUMENTS)
      target_compile_options(${name} PRIVATE ${level})  # For its precompiled headers too.
    else()
      set_source_files_properties(${quickly_built} PROPERTIES COMPILE_OPTIONS ${level})
    endif()
  endif()
  set(properties TIMEOUT 600)
  if(arg_LABEL)
    list(APPEND properties LABELS ${arg_LABEL})
  endif()
  if(arg_FIXTURE)
    list(APPEND properties FIXTURES_REQUIRED ${arg_FIXTURE})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
endfunction()

function(cohort_add_layer_tests)
  include(GoogleTest)
  get_property(layers GLOBAL PROPERTY cohort_layers)
  foreach(layer IN LISTS layers)
    get_property(tests GLOBAL PROPERTY cohort_tests_of_${layer})
    if(COHORT_THREAD_TESTS_ONLY AND layer IN_LIST cohort_layers_without_threads)
      continue()
    endif()
    if(tests)
      cohort_test(cohort_${layer}_test ${tests})
      get_property(library GLOBAL PROPERTY cohort_library_of_${layer})
      target_link_libraries(cohort_${layer}_test PRIVATE cohort::${library})
    endif()
  endforeach()
endfunction()

# Each library is a component of the package, with its targets in a file of their own.
function(cohort_install)
  foreach(name IN LISTS ARGN)
    install(TARGETS cohort_${name} EXPORT cohort-${name}-targets FILE_SET HEADERS)
    install(EXPORT cohort-${name}-targets NAMESPACE cohort:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
  endforeach()
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cohort-config.cmake.in
    ${PROJECT_BINARY_DIR}/cohort-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohort-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/cohort-config.cmake ${PROJECT_BINARY_DIR}/cohort-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
endfunction()
