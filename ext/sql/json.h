/* json.h: reads JSON.
 *
 * - tsx_flat_each reads an object without nested values that may hold secrets: SQLite's JSON functions leave copies of
 *   what they read in freed memory, so this reader works in place, in one copy of the text, which the caller wipes.
 * - The rest reads JSON that SQL statements pass in: arrays as the values of one cell (tsx_vector_parse), objects and
 *   arrays as the options of a function (tsx_options_each, tsx_elements_each), and the text of each member, which has
 *   the digits of large integers (tsx_json_walk_open). */
#ifndef TSX_SQL_JSON_H
#define TSX_SQL_JSON_H

#include "tessera.h"
#include "connection/sqlite_api.h"

/* ---- Objects that may hold secrets ------------------------------------------------------------------------------- */

typedef enum tsx_flat_kind { TSX_FLAT_TEXT, TSX_FLAT_INTEGER, TSX_FLAT_BOOL, TSX_FLAT_NULL } tsx_flat_kind;

typedef struct tsx_flat_member {
  const char *key, *text; /* `text`: a string decoded, other values as written; borrowed from the text that is read */
  tsx_flat_kind kind;
  int64_t integer; /* of an INTEGER; of a BOOL: 0 or 1 */
} tsx_flat_member;

/* Returns TSR_OK to go on; any other code ends the reading, which then returns this code. */
typedef int (*tsx_flat_reader)(void *argument, const tsx_flat_member *member, tsr_error *error);

/* Calls `read` for each member of the object in `text`, which is NUL-terminated and modified in place: the members
 * point into it. Keys may repeat. TSR_MISMATCH if the text is not such an object; the message does not quote it. */
int tsx_flat_each(char *text, tsx_flat_reader read, void *argument, tsr_error *error);

/* ---- JSON in SQL statements -------------------------------------------------------------------------------------- */

/* Reads a JSON array as values of a datatype of numbers, datetimes or times. With `integers`, numbers in the array are
 * raw values of datetimes; otherwise tsx_time_of_integer interprets them. `values` has room for 4 bytes for each byte
 * of the text, plus 8; `count` receives the number of values. `text` is NUL-terminated. TSR_MISMATCH if the text is not
 * such an array, TSR_RANGE if a number does not fit the datatype. */
int tsx_vector_parse(tsr_datatype datatype, const char *text, bool integers, uint8_t *values, uint64_t *count,
                     tsr_error *error);

typedef struct tsx_json_walk { /* `= {0}` may be closed */
  char *text; /* the JSON as SQLite's json() writes it; owned */
  char *at; /* the end of the member that was returned last */
  char cut; /* the character that a NUL replaces there; 0 before the first member */
} tsx_json_walk;

/* Starts a walk over the members of a JSON object or the elements of a JSON array, in the order of json_each's rows.
 * SQLite's JSON functions turn an integer that is too large for an INTEGER into a REAL; the walk has its digits.
 * Returns SQLite's result code; sqlite3_errmsg has the message. The caller closes the walk, after a failure too. */
int tsx_json_walk_open(sqlite3 *db, sqlite3_value *json, tsx_json_walk *walk);

/* Returns the JSON text of the next member's value, valid until the next call; "" after the last one. */
const char *tsx_json_walk_next(tsx_json_walk *walk);
void tsx_json_walk_close(tsx_json_walk *walk);

typedef struct tsx_json_option { /* a member of an object or an element of an array; valid during the callback */
  const char *key; /* of an array: the element's index as text */
  const char *type; /* as json_each reports it: 'integer', 'text', 'true', ... */
  sqlite3_value *value; /* of a string all bytes, even after a NUL */
  const char *text; /* the value as JSON: all digits of an integer, which may be a REAL in `value` */
} tsx_json_option;

/* Before 3.45, SQLite's JSON functions cut strings at \u0000. Decodes the JSON text of a string with this escape.
 * Returns SQLITE_NOMEM; SQLITE_OK with *text, which the caller frees with sqlite3_free; or SQLITE_OK with *text NULL if
 * the JSON is not such a string, so that SQLite's own text is complete. */
int tsx_json_text_decode(const char *json, char **text, uint64_t *size);

/* Returns TSR_OK to go on; any other code ends the iteration, which then returns this code. */
typedef int (*tsx_option_reader)(void *argument, const tsx_json_option *option, tsr_error *error);

/* Calls `read` for each member of a JSON object. `what` names the value in error messages. TSR_MISMATCH if the value is
 * not a JSON object. */
int tsx_options_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_reader read, void *argument,
                     tsr_error *error);

/* Does the same for each element of a JSON array. */
int tsx_elements_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_reader read, void *argument,
                      tsr_error *error);

/* ---- Objects of numbers ------------------------------------------------------------------------------------------ */

#define TSX_JSON_NUMBERS_MAX 8
typedef struct tsx_json_number { /* a member of an object of numbers */
  char key[64];
  char text[40]; /* as written */
  double value;
} tsx_json_number;

/* Reads an object of few numbers without SQL, which takes a fraction of the time of tsx_options_each. Returns how many
 * there are; -1 for any other text, of which tsx_options_each knows more. `text` is NUL-terminated. */
int tsx_numbers_scan(const char *text, tsx_json_number numbers[TSX_JSON_NUMBERS_MAX]);

#endif
