# Precompiled headers: reading Asio, Boost.JSON, GoogleTest and the standard library is more than half of a compilation.
# Two of them serve every target: one for what is shipped, one for tests, which are compiled with other flags.
option(OSB_PRECOMPILE "Read the headers of libraries once for all files" ON)

# osb_precompiled_for(NAME HEADER [LIBRARIES...] [OPTIONS ...]): target NAME, whose precompiled header others reuse.
function(osb_precompiled_for name header)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc
       CONTENT "// Nothing: the target exists for its precompiled header.\n")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE osb_options ${ARG_LIBRARIES})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
  # A precompiled header holds the path of its build directory: a cached one would serve another directory.
  set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "")
  osb_checksum_for_ccache(${name} ${header})
endfunction()

# The same headers give the same objects in every build directory, though the bytes of the precompiled header differ:
# ccache compares this checksum of all headers in it instead.
function(osb_checksum_for_ccache name header)
  osb_precompiled_file(${name} file)
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -std=c++23 -x c++-header -M -MT headers -DBOOST_ASIO_NO_DEPRECATED ${CMAKE_SOURCE_DIR}/cmake/${header}
    OUTPUT_VARIABLE rule COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "headers:|\\\\\n|\n" " " files "${rule}")
  separate_arguments(files UNIX_COMMAND "${files}")
  foreach(each ${files})
    file(SHA256 ${each} digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 digest "${digests}")
  file(WRITE ${file}.sum ${digest})
endfunction()

function(osb_precompiled_file name out)
  set(${out} ${CMAKE_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.pch PARENT_SCOPE)
endfunction()

# osb_precompile(TARGET): TARGET is compiled with the precompiled header, osb_precompile(TARGET test) with the one of tests.
# Not by REUSE_FROM: CMake's flags for it name the build directory in a way that ccache cannot make relative.
function(osb_precompile target)
  if(NOT OSB_PRECOMPILE)
    return()
  endif()
  set(name osb_precompiled)
  if("${ARGN}" STREQUAL "test")
    set(name osb_precompiled_test)
  endif()
  osb_precompiled_file(${name} file)
  target_compile_options(${target} PRIVATE -Winvalid-pch "SHELL:-include-pch ${file}")
  add_dependencies(${target} ${name})
  # Each object waits for the file: targets that only depend on a target compile beside it.
  get_target_property(sources ${target} SOURCES)
  set_source_files_properties(${sources} PROPERTIES OBJECT_DEPENDS ${file})
endfunction()

if(OSB_PRECOMPILE)
  add_compile_options(-Xclang -fno-pch-timestamp)
  osb_precompiled_for(osb_precompiled precompiled.h)
  osb_precompiled_for(osb_precompiled_test precompiled_test.h LIBRARIES GTest::gmock OPTIONS -O0)
endif()
