# Third-party libraries, as archives where the static binary needs them (docs/dependencies.md).
find_package(Threads REQUIRED)

# sa_find_archive(VAR name…): the first that is there (names differ between Debian releases)
function(sa_find_archive var)
  list(TRANSFORM ARGN REPLACE "(.+)" "lib\\1.a")
  find_library(${var} NAMES ${ARGN} REQUIRED)
  set(${var} "${${var}}" PARENT_SCOPE)
endfunction()

sa_find_archive(UV_A uv_a uv)
sa_find_archive(SSL_A ssl)
sa_find_archive(CRYPTO_A crypto)
sa_find_archive(SQLITE_A sqlite3)
sa_find_archive(Z_A z)
sa_find_archive(ZSTD_A zstd) # for archives; Debian 13's libcrypto refers to it too
sa_find_archive(ARCHIVE_A archive)
sa_find_archive(PCRE2_A pcre2-8)

find_path(LLHTTP_INCLUDE llhttp.h HINTS ${SA_DEPS}/llhttp/include REQUIRED)
find_library(LLHTTP_A NAMES libllhttp.a HINTS ${SA_DEPS}/llhttp/lib REQUIRED)
