# Target tessera_bundled: bundled/tessera.so, the extension with the codecs linked statically, for packages that are installed on hosts
# without them. If a codec's static library is missing, there is no such target.
set(BUNDLED_CODECS)
foreach(codec zstd lz4 bz2 z mbedcrypto)
  find_library(BUNDLED_${codec} NAMES lib${codec}.a)
  mark_as_advanced(BUNDLED_${codec})
  if(NOT BUNDLED_${codec})
    message(STATUS "lib${codec}.a was not found: no target tessera_bundled")
    return()
  endif()
  list(APPEND BUNDLED_CODECS ${BUNDLED_${codec}})
endforeach()

# Debian compiles libbz2.a for executables: its references to stdin, stdout and stderr cannot be linked into a shared library. They are
# renamed here, and bundled.c defines the new names.
if(NOT APPLE)
  set(RENAMED_BZ2 ${CMAKE_BINARY_DIR}/bundled/libbz2.a)
  add_custom_command(OUTPUT ${RENAMED_BZ2}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/bundled
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym stdin=tessera_bz2_stdin --redefine-sym stdout=tessera_bz2_stdout
      --redefine-sym stderr=tessera_bz2_stderr ${BUNDLED_bz2} ${RENAMED_BZ2}
    DEPENDS ${BUNDLED_bz2} VERBATIM)
  list(TRANSFORM BUNDLED_CODECS REPLACE "^.*libbz2\\.a$" ${RENAMED_BZ2})
endif()

add_library(tessera_bundled MODULE $<TARGET_OBJECTS:tessera> ${CMAKE_SOURCE_DIR}/ext/package/bundled.c ${RENAMED_BZ2})
set_target_properties(tessera_bundled PROPERTIES PREFIX "" OUTPUT_NAME tessera LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bundled)
add_dependencies(tessera_bundled tessera_core)
target_link_libraries(tessera_bundled PRIVATE tessera_flags $<TARGET_FILE:tessera_core> ${BUNDLED_CODECS} Threads::Threads ${CMAKE_DL_LIBS} m)
if(APPLE)
  set_target_properties(tessera_bundled PROPERTIES SUFFIX ".dylib")
  target_link_options(tessera_bundled PRIVATE -Wl,-exported_symbol,_sqlite3_tessera_init -Wl,-exported_symbol,_tessera_api)
else()
  target_link_options(tessera_bundled PRIVATE -Wl,-z,nodelete -Wl,-z,text -Wl,--version-script=${CMAKE_SOURCE_DIR}/ext/exports.map)
endif()
if(NOT BUILD_TESTING)
  set_target_properties(tessera_bundled PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
