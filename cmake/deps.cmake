# Third-party libraries, as archives where the static binary needs them (docs/dependencies.md).
find_package(Threads REQUIRED)

function(sa_find_archive var name)
  find_library(${var} NAMES lib${name}.a REQUIRED)
  set(${var} "${${var}}" PARENT_SCOPE)
endfunction()

sa_find_archive(UV_A uv_a)
sa_find_archive(SSL_A ssl)
sa_find_archive(CRYPTO_A crypto)
sa_find_archive(SQLITE_A sqlite3)
sa_find_archive(Z_A z)

find_path(LLHTTP_INCLUDE llhttp.h HINTS ${SA_DEPS}/llhttp/include REQUIRED)
find_library(LLHTTP_A NAMES libllhttp.a HINTS ${SA_DEPS}/llhttp/lib REQUIRED)
