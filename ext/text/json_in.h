/* json_in.h: reads JSON that SQL statements pass in: arrays as the values of one cell (tsx_vector_parse), objects and
 * arrays as the options of a function (tsx_options_each, tsx_elements_each). */
#ifndef TSX_JSON_IN_H
#define TSX_JSON_IN_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Reads a JSON array as values of a datatype whose values are numbers, datetimes or times. If `integers` is set, numbers
 * in the array are raw values of datetimes; otherwise tsx_time_of_integer interprets them. `values` has room for 4 bytes
 * for each byte of the text, and 8 more; `count` receives the number of values. `text` ends with a NUL.
 * Returns TSR_MISMATCH if the text is not such an array, TSR_RANGE if a number does not fit the datatype. */
int tsx_vector_parse(tsr_datatype datatype, const char *text, bool integers, uint8_t *values, uint64_t *count,
                     tsr_error *error);

typedef struct tsx_json_option { /* a member of an object or an element of an array; valid during the callback */
  const char *key; /* of an array: the element's index as text */
  const char *type; /* the type that json_each reports: 'integer', 'text', 'true', ... */
  sqlite3_value *value;
} tsx_json_option;

/* Returns TSR_OK to go on; any other code ends the iteration, which then returns this code. */
typedef int (*tsx_option_reader)(void *argument, const tsx_json_option *option, tsr_error *error);

/* Calls `read` for each member of a JSON object. `what` names the value in error messages. Returns TSR_MISMATCH if the
 * value is not a JSON object. */
int tsx_options_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_reader read, void *argument,
                     tsr_error *error);

/* Does the same for each element of a JSON array. */
int tsx_elements_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_reader read, void *argument,
                      tsr_error *error);

#endif
