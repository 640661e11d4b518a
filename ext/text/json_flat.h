/* json_flat.h: reads a JSON object without nested values that may hold secrets. SQLite's JSON functions leave copies of
 * what they read in freed memory, so this reader makes one copy of the text, which the caller wipes. Reads single texts,
 * too. */
#ifndef TSX_JSON_FLAT_H
#define TSX_JSON_FLAT_H

#include "tessera.h"

typedef enum tsx_flat_kind { TSX_FLAT_TEXT, TSX_FLAT_INTEGER, TSX_FLAT_BOOL, TSX_FLAT_NULL } tsx_flat_kind;

typedef struct tsx_flat_member {
  const char *key, *text; /* `text`: of a text without its escapes, else as it was written; borrowed from the copy */
  tsx_flat_kind kind;
  int64_t integer; /* of an INTEGER; of a BOOL: 0 or 1 */
} tsx_flat_member;

/* Reads a JSON text, from its first quote on, in place: *text is its start without escapes, *size its bytes, of which
 * some can be NUL, and a NUL follows. Returns the character behind the last quote, or NULL at what is no such text; then
 * *text is where the reading ended. */
char *tsx_json_text_unescape(char *json, char **text, uint64_t *size);

/* Returns TSR_OK to go on; any other code ends the reading, which then returns this code. */
typedef int (*tsx_flat_reader)(void *argument, const tsx_flat_member *member, tsr_error *error);

/* Calls `read` for each member of the object in `text`, which is NUL-terminated and changed by the call: the members
 * point into it. Keys may repeat. Errors: TSR_MISMATCH if the text is not such an object; the message does not quote
 * it. */
int tsx_flat_each(char *text, tsx_flat_reader read, void *argument, tsr_error *error);

#endif
