/* options.h: takes option structures and requests from callers that were compiled with another version of the public
 * headers. */
#ifndef TSR_OPTIONS_H
#define TSR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Copies an option structure of the public interface, which begins with its size in bytes, into *own. `given` may be
 * NULL, and its size may be 0, less than that of *own (the fields that it lacks become 0), or greater. `last` is the
 * last field of the structure in version 0.2, the first version with sizes: a size of 0 means that the structure ends
 * there, so `last` never changes. New fields are appended, and begin no earlier than the old structure ended.
 *
 * Errors: TSR_UNSUPPORTED if a larger structure has a field that this library does not know and that is not 0;
 * TSR_RANGE for a size that no structure can have. */
#define TSR_TAKE_OPTIONS(type, last, given, own, error)                                                                \
  tsr__options_take(given, offsetof(type, last) + sizeof((own)->last), #type, own, sizeof *(own), error)

/* Returns true if a structure has the fields that this library knows: then it need not be copied. */
#define TSR_OPTIONS_ARE_OWN(type, last, given)                                                                         \
  tsr__options_are_own((given)->size, offsetof(type, last) + sizeof((given)->last), sizeof(type))

static inline bool tsr__options_are_own(size_t size, size_t first, size_t own_size) {
  return size == own_size || (size == 0 && own_size - first < sizeof(uint64_t)); /* only padding comes after `last` */
}

int tsr__options_take(const void *given, size_t first, const char *type, void *own, size_t own_size, tsr_error *error);

#endif
