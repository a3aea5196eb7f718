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

file(REMOVE_RECURSE ${WORK_DIR}/static ${WORK_DIR}/shared)
check_package(${COHORT_BINARY_DIR} ${WORK_DIR}/static)

run(${CMAKE_COMMAND} -S ${COHORT_SOURCE_DIR} -B ${WORK_DIR}/shared-build -G Ninja -D CMAKE_CXX_COMPILER=${CXX}
  -D CMAKE_CXX_COMPILER_LAUNCHER=ccache -D CMAKE_BUILD_TYPE=Debug -D BUILD_SHARED_LIBS=ON -D COHORT_TESTS=OFF
  -D COHORT_NODE=OFF)  # It takes long to build, and has been installed once.
run(${CMAKE_COMMAND} --build ${WORK_DIR}/shared-build)
check_package(${WORK_DIR}/shared-build ${WORK_DIR}/shared)
