/* bzip2_error.c: what libbz2 calls if it finds a bug of its own, when it is built without stdio (BZ_NO_STDIO). */
#include <stdlib.h>

void bz_internal_error(int code);

void bz_internal_error(int code) {
  (void)code;
  abort();
}
