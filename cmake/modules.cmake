# A module is a folder of src/ with x.h, x.cc and x_test.cc side by side: one static library, one test program.
# Files are found by name, so adding one means adding the file and nothing else.

# How many unit tests a ctest entry has at least. With sanitizers the start and the end of a process are dear.
set(tests_of_an_entry 1)
if(OSB_SANITIZE)
  set(tests_of_an_entry 60)
endif()

# osb_library(NAME [DEPS ...]): library osb_NAME, and NAME_test when the folder has tests.
function(osb_library name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(osb_${name} STATIC ${sources})
    osb_precompile(osb_${name})
    set(scope PUBLIC)
  else()
    add_library(osb_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  foreach(dep ${ARG_DEPS})
    if(TARGET osb_${dep})
      list(APPEND links osb_${dep})
    else()
      list(APPEND links ${dep})
    endif()
  endforeach()
  target_link_libraries(osb_${name} ${scope} osb_options ${links})
  if(tests)
    osb_test(${name}_test ${tests} DEPS osb_${name})
  endif()
endfunction()

# osb_test(NAME sources... DEPS libraries... [LABEL label]): a GoogleTest program; each test suite is a ctest entry.
function(osb_test name)
  cmake_parse_arguments(ARG "" "LABEL" "DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} osb_test_support GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O0)  # half the time to compile; what is tested is optimised all the same
  osb_precompile(${name} test)
  string(REGEX REPLACE "_test$" "" module ${name})
  set(discover ${CMAKE_CURRENT_BINARY_DIR}/${name}_discover.cmake)
  set(entries ${CMAKE_CURRENT_BINARY_DIR}/${name}_entries.cmake)
  file(GENERATE OUTPUT ${discover} CONTENT
"include([==[${CMAKE_SOURCE_DIR}/cmake/discover_suites.cmake]==])
osb_discover_suites(PROGRAM [==[$<TARGET_FILE:${name}>]==] MODULE ${module} LABEL ${ARG_LABEL}
                    TESTS ${tests_of_an_entry} OUT [==[${entries}]==])
include([==[${entries}]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${discover})
endfunction()

# osb_embed(NAME files...): osb_NAME gets a function osb::NAME::embedded(file name) that gives back their text.
function(osb_embed name)
  set(out ${CMAKE_BINARY_DIR}/embedded/${name}.cc)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${out} -DMODULE=${name} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(osb_${name} PRIVATE ${out})
  if(OSB_PRECOMPILE)
    osb_precompiled_file(osb_precompiled file)
    set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS ${file})
  endif()
endfunction()

# osb_app(NAME DEPS modules... [STATIC] [OUTPUT file]): bin/NAME, or bin/file, from apps/NAME.
function(osb_app name)
  cmake_parse_arguments(ARG "STATIC" "OUTPUT" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/apps/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  osb_precompile(${name})
  if(ARG_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE osb_${dep})
  endforeach()
  # Sanitizer runtimes cannot be linked statically; there the program is an ordinary one.
  if(ARG_STATIC AND NOT OSB_SANITIZE)
    target_link_options(${name} PRIVATE -static -Wl,--gc-sections -Wl,--icf=all $<$<CONFIG:Release>:-s>)
  endif()
endfunction()

# tests/support: code that tests of several modules share (await(), temp directories, ...).
file(GLOB support CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.cc)
add_library(osb_test_support STATIC ${support})
osb_precompile(osb_test_support)
target_compile_options(osb_test_support PUBLIC "SHELL:-iquote ${CMAKE_SOURCE_DIR}/tests")
target_link_libraries(osb_test_support PUBLIC osb_options)
