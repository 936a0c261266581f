# sa_ui: the page's files as a C table. src/ui/embed.c runs on the build machine, so the host compiler
# builds it by itself, without the target's flags (sanitizers, cross compilation).
set(SA_HOST_CC "cc" CACHE STRING "compiler for programs that run during the build")
set(SA_UI_DIR "${CMAKE_SOURCE_DIR}/web" CACHE PATH "the page's files")

set(sa_embed_sources ${CMAKE_SOURCE_DIR}/src/ui/embed.c)
foreach(part alloc buf chunk error fd path str)
  list(APPEND sa_embed_sources ${CMAKE_SOURCE_DIR}/src/base/${part}.c)
endforeach()
set(sa_embed ${CMAKE_BINARY_DIR}/embed)
set(sa_ui_c ${CMAKE_BINARY_DIR}/generated/ui_assets.c)
file(GLOB_RECURSE sa_ui_files CONFIGURE_DEPENDS ${SA_UI_DIR}/*)

add_custom_command(
  OUTPUT ${sa_embed}
  COMMAND ${SA_HOST_CC} -std=gnu17 -O1 -Wall -Wextra -Werror -Wno-format-truncation -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/src
          ${sa_embed_sources} -o ${sa_embed} -lz -lcrypto
  DEPENDS ${sa_embed_sources}
  COMMENT "Building the asset packer" VERBATIM)
add_custom_command(
  OUTPUT ${sa_ui_c}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
  COMMAND ${sa_embed} ${SA_UI_DIR} ${sa_ui_c}
  DEPENDS ${sa_embed} ${sa_ui_files}
  COMMENT "Packing the page" VERBATIM)

add_library(sa_ui STATIC ${sa_ui_c})
target_include_directories(sa_ui PUBLIC ${CMAKE_SOURCE_DIR}/src)
