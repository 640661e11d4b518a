/* json.h: reads JSON. tessera_host.h has tsr_json_unescape, which the extension calls, too. */
#ifndef TSR_BASE_JSON_H
#define TSR_BASE_JSON_H

#include <string.h>

#include "base/text.h"

/* Each fails with TSR_MISMATCH where the text is not JSON. */

/* Reads a string: the bytes between its quotes are [*text, *text + *size), with escapes as they are written. */
int tsr__json_string(tsr_text *in, const char **text, uint64_t *size, tsr_error *error);

/* Reads the name of a member, and the colon after it. */
int tsr__json_name(tsr_text *in, const char **name, uint64_t *size, tsr_error *error);

/* Skips a value of any kind, of at most 512 levels of objects and arrays. */
int tsr__json_skip(tsr_text *in, tsr_error *error);

/* Returns true if a string of tsr__json_string is `word`. NULL is no string. */
static inline bool tsr__json_is(const char *text, uint64_t size, const char *word) {
  return text && strlen(word) == size && memcmp(text, word, size) == 0;
}

#endif
