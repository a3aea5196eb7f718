# Installs Cohort into fresh prefixes, as it was built (static) and as a shared library, builds an outside project against
# each, and runs the result.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(check_package binary_dir work_dir)
  run(${CMAKE_COMMAND} --install ${binary_dir} --prefix ${work_dir}/prefix)
  run(${CMAKE_COMMAND} -S ${PACKAGE_SOURCE_DIR} -B ${work_dir}/build -G Ninja
    -D CMAKE_PREFIX_PATH=${work_dir}/prefix -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_BUILD_TYPE=Debug)
  run(${CMAKE_COMMAND} --build ${work_dir}/build)
  run(${work_dir}/build/outside)
  run(${work_dir}/build/outside_http)
  run(${CMAKE_COMMAND} -E chdir ${work_dir} ${work_dir}/build/outside_chain)
  if(EXISTS ${work_dir}/prefix/bin/cohort)
    run(${CMAKE_COMMAND} -E chdir ${work_dir} ${work_dir}/build/outside_node)
    run(${work_dir}/prefix/bin/cohort --version)
  endif()
endfunction()

# The reasons why components are missing are said.
function(check_missing work_dir)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${PACKAGE_SOURCE_DIR}/missing -B ${work_dir}/missing -G Ninja
    -D CMAKE_PREFIX_PATH=${work_dir}/prefix -D CMAKE_CXX_COMPILER=${CXX} RESULT_VARIABLE result ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  foreach(reason "http: it needs packages that CMake does not find: CURL 7.87." "nosuch: there is no such component")
    string(FIND "${said}" "${reason}" at)
    if(result EQUAL 0 OR at EQUAL -1)
      message(FATAL_ERROR "expected \"${reason}\" in:\n${said}")
    endif()
  endforeach()
  execute_process(COMMAND ${CMAKE_COMMAND} -E rm ${work_dir}/prefix/lib/cmake/cohort/cohort-chain-targets.cmake)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${PACKAGE_SOURCE_DIR}/missing -B ${work_dir}/missing ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  string(FIND "${said}" "chain: this installation of Cohort was built without it" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected the reason of 'chain' in:\n${said}")
  endif()
endfunction()

# A project that fetches Cohort and links the core builds nothing but the core.
function(check_fetched work_dir)
  run(${CMAKE_COMMAND} -S ${PACKAGE_SOURCE_DIR}/fetch -B ${work_dir} -G Ninja
    -D COHORT_SOURCE_DIR=${COHORT_SOURCE_DIR} -D CMAKE_CXX_COMPILER=${CXX})
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${work_dir} -- -n OUTPUT_VARIABLE steps COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${steps}" "src/group/" core)
  string(REGEX MATCH "src/(chain|backend|node|admin|plugin|cli|provider/http)/|apps/" other "${steps}")
  if(core EQUAL -1 OR other)
    message(FATAL_ERROR "only the core was to be built, not ${other}:\n${steps}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR}/static ${WORK_DIR}/shared ${WORK_DIR}/fetched)
check_package(${COHORT_BINARY_DIR} ${WORK_DIR}/static)
check_missing(${WORK_DIR}/static)
check_fetched(${WORK_DIR}/fetched)

run(${CMAKE_COMMAND} -S ${COHORT_SOURCE_DIR} -B ${WORK_DIR}/shared-build -G Ninja -D CMAKE_CXX_COMPILER=${CXX}
  -D CMAKE_CXX_COMPILER_LAUNCHER=ccache -D CMAKE_CXX_FLAGS=-O0 -D BUILD_SHARED_LIBS=ON -D COHORT_TESTS=OFF
  -D COHORT_NODE=OFF)  # It takes long to build, and has been installed once.
run(${CMAKE_COMMAND} --build ${WORK_DIR}/shared-build)
check_package(${WORK_DIR}/shared-build ${WORK_DIR}/shared)
