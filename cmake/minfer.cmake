# The build vocabulary of the project: minfer_room, minfer_test, minfer_fuzz. Every target gets the same warnings,
# and a warning is an error.

find_program(MINFER_CCACHE ccache)
if(MINFER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MINFER_CCACHE})
endif()
find_program(MINFER_MOLD mold)

# The flags that every first-party target shares.
add_library(minfer_flags INTERFACE)
target_include_directories(minfer_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(minfer_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Werror -ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wrestrict has false alarms in std::string of GCC 12 (GCC bug 105651).
  target_compile_options(minfer_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi -Wno-restrict>)
else()
  # clang names std::get_temporary_buffer, which std::stable_sort of libstdc++ 12 uses, as deprecated at every caller.
  target_compile_options(minfer_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(MINFER_BUILD_FUZZ)
  # The rooms under a fuzzer report their coverage to it.
  target_compile_options(minfer_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(MINFER_MOLD)
  target_link_options(minfer_flags INTERFACE -fuse-ld=mold)
endif()
if(MINFER_SANITIZE)
  target_compile_options(minfer_flags INTERFACE -fsanitize=${MINFER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(minfer_flags INTERFACE -fsanitize=${MINFER_SANITIZE})
endif()

# minfer_room(NAME SOURCES a.cpp ... [DEPS room ...] [LIBS external ...]): the static library minfer_NAME.
function(minfer_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(minfer_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(minfer_${name} PRIVATE minfer_flags)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(minfer_${name} PUBLIC minfer_${dep})
  endforeach()
  target_link_libraries(minfer_${name} PUBLIC ${ARG_LIBS})
endfunction()

# Builds every test program that is registered.
add_custom_target(minfer_tests)

# minfer_test(NAME ROOM room SOURCES x_test.cpp ... [LIBS ...] [LABELS ...]): the test program NAME, one ctest entry.
# With MINFER_TEST_ROOMS set, a test that needs another room is left out.
function(minfer_test name)
  if(NOT MINFER_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "ROOM;SOURCES;LIBS;LABELS" ${ARGN})
  if(MINFER_TEST_ROOMS)
    set(other_rooms ${ARG_ROOM})
    list(REMOVE_ITEM other_rooms ${MINFER_TEST_ROOMS})
    if(other_rooms)
      return()
    endif()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE minfer_flags GTest::gtest GTest::gmock GTest::gtest_main)
  foreach(room IN LISTS ARG_ROOM)
    target_link_libraries(${name} PRIVATE minfer_${room})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_compile_definitions(${name} PRIVATE MINFER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(minfer_tests ${name})
  set(test ${MINFER_TEST_PREFIX}${name})
  add_test(NAME ${test} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${test} PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}")
endfunction()

# minfer_fuzz(NAME ROOM room SOURCES x_fuzz.cpp CORPUS dir [SECONDS n] [INPUT_SECONDS n]): a libFuzzer program; a short run
# is a test, in which one input may take INPUT_SECONDS.
function(minfer_fuzz name)
  if(NOT MINFER_BUILD_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "CORPUS;SECONDS;INPUT_SECONDS" "ROOM;SOURCES" ${ARGN})
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 20)
  endif()
  if(NOT ARG_INPUT_SECONDS)
    set(ARG_INPUT_SECONDS 10)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE minfer_flags)
  foreach(room IN LISTS ARG_ROOM)
    target_link_libraries(${name} PRIVATE minfer_${room})
  endforeach()
  if(MINFER_BUILD_TESTS)
    # New inputs go to a scratch folder of the build tree, never into the checked-in corpus.
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}_found)
    add_dependencies(minfer_tests ${name})
    set(test ${MINFER_TEST_PREFIX}${name})
    add_test(NAME ${test} COMMAND ${name} -max_total_time=${ARG_SECONDS} -rss_limit_mb=2048 -timeout=${ARG_INPUT_SECONDS}
             -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/ ${CMAKE_CURRENT_BINARY_DIR}/${name}_found ${ARG_CORPUS})
    set_tests_properties(${test} PROPERTIES TIMEOUT 300 LABELS "fuzz")
  endif()
endfunction()
