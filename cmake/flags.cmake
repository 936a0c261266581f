include(CheckLinkerFlag)

# Warnings are errors with gcc and clang; hardening and sanitizers in one place.
add_compile_options(
  -Wall -Wextra -Werror -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum
  -Wpointer-arith -Wwrite-strings -Wformat=2 -Wno-unused-parameter -Wno-missing-field-initializers
  $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation> # error texts are cut on purpose
  -fno-strict-aliasing -fvisibility=hidden -ffunction-sections -fdata-sections)
add_compile_definitions(_GNU_SOURCE SA_VERSION="${PROJECT_VERSION}")
add_link_options(-Wl,--gc-sections -Wl,-z,relro,-z,now)

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-fstack-protector-strong)
  add_compile_definitions(_FORTIFY_SOURCE=2)
endif()

if(SA_SANITIZE)
  add_compile_options(-fsanitize=${SA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SA_SANITIZE})
  set(SA_STATIC OFF)
endif()
if(SA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
