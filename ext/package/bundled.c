/* bundled.c: the streams of libbz2 in bundled/tessera.so (see bundled.cmake). It writes to one only where it finds itself broken. */
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN FILE *tessera_bz2_stdin, *tessera_bz2_stdout, *tessera_bz2_stderr;

__attribute__((constructor)) static void set_streams(void) {
  tessera_bz2_stdin = stdin;
  tessera_bz2_stdout = stdout;
  tessera_bz2_stderr = stderr;
}
