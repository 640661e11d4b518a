/* bundled.c: gives libbz2 in bundled/tessera.so its own stdin, stdout and stderr (bundled.cmake says why). libbz2
 * writes to stderr only if it detects a bug of its own. */
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN FILE *tessera_bz2_stdin, *tessera_bz2_stdout, *tessera_bz2_stderr;

__attribute__((constructor)) static void set_streams(void) {
  tessera_bz2_stdin = stdin;
  tessera_bz2_stdout = stdout;
  tessera_bz2_stderr = stderr;
}
