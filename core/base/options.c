/* options.c: takes option structures and requests from callers that were compiled with another version of the public
 * headers. */
#include "base/options.h"

#include <string.h>

#include "base/arithmetic.h"

#define OPTIONS_SIZE_MAX 65536 /* far more than any structure will have: a greater size is memory without a value */

int tsr__options_take(const void *given, size_t first, const char *type, void *own, size_t own_size, tsr_error *error) {
  size_t size = 0;
  memset(own, 0, own_size);
  if (given) memcpy(&size, given, sizeof size);
  if (size != 0 && (size < sizeof size || size > OPTIONS_SIZE_MAX))
    return tsr__fail(error, TSR_RANGE, "%s.size is %zu: sizeof(%s) is expected, or 0", type, size, type);
  if (size == 0) size = first;
  for (size_t i = own_size; given && i < size; i++)
    if (((const uint8_t *)given)[i] != 0)
      return tsr__fail(
          error, TSR_UNSUPPORTED,
          "%s has %zu bytes, and sets options that this version of the library does not know: it knows %zu "
          "bytes",
          type, size, own_size);
  if (given) memcpy(own, given, TSR_MIN(size, own_size));
  memcpy(own, &own_size, sizeof own_size);
  return TSR_OK;
}
