# osb starts hundreds of times a day: what it links is inside it, but for the C library, so that nothing is looked up and
# loaded at its start (3 ms of OpenSSL and the C++ library), and so that the file runs on other distributions.
if(TARGET osb AND NOT OSB_SANITIZE)
  foreach(library ssl crypto yaml edit tinfo bsd md)
    find_library(OSB_STATIC_${library} lib${library}.a)
    if(OSB_STATIC_${library})
      # Named before the shared ones that come with the modules, these are what the linker takes.
      target_link_libraries(osb PRIVATE ${OSB_STATIC_${library}})
    endif()
  endforeach()
  target_link_options(osb PRIVATE -static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,--gc-sections -Wl,--icf=all
                      $<$<CONFIG:Release>:-s>)
endif()
if(TARGET osb)
  # The original's second name.
  add_custom_command(TARGET osb POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink osb opensandbox
                     WORKING_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endif()
