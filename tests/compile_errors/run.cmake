# Each source must fail with one error, the one that its first line names: cmake -D CXX=… -D INCLUDE=… -P run.cmake
file(GLOB sources ${CMAKE_CURRENT_LIST_DIR}/*.cc)
foreach(source ${sources})
  file(STRINGS ${source} lines LIMIT_COUNT 1)
  string(REPLACE "// expected: " "" expected "${lines}")
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -I${INCLUDE} ${source}
    RESULT_VARIABLE result ERROR_VARIABLE said OUTPUT_QUIET)
  string(REGEX MATCHALL "error:" errors "${said}")
  list(LENGTH errors count)
  string(FIND "${said}" "${expected}" at)
  if(result EQUAL 0 OR NOT count EQUAL 1 OR at EQUAL -1)
    message(FATAL_ERROR "${source}: expected one error, \"${expected}\", and got ${count}:\n${said}")
  endif()
endforeach()
