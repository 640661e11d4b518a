/* sqlite3_wasm_extra_init.c: tessera in the official WebAssembly build of SQLite (ext/wasm of its source tree).
 *
 * That build includes a file of this name if one lies beside its Makefile, or where
 *   make sqlite3_wasm_extra_init.c=/path/to/sqlite3_wasm_extra_init.c
 * says. Lay tessera.c and tessera.h of the package tessera-amalgamation beside it, with the headers of zlib, zstd, lz4,
 * bzip2 and mbedTLS on the path of the compiler, and give those five libraries, compiled by emcc, to the linker. Every
 * connection then has the tables and functions of tessera.
 */
#ifndef SQLITE_CORE
#define SQLITE_CORE 1
#endif
#include "tessera.c"

int sqlite3_wasm_extra_init(const char *ignored) {
  (void)ignored;
  return sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
}
