/* json_in.h: a JSON array as the values of a cell; a JSON object as the options of a function. */
#ifndef TSX_JSON_IN_H
#define TSX_JSON_IN_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* A JSON array as values of a number's datatype; `integers`: numbers in it are raw values of datetimes, as
 * tsx_time_of_integer has them otherwise. `values` has room for 4 bytes for each of text's, and 8 more. */
int tsx_vector_parse(tsr_datatype datatype, const char *text, bool integers, uint8_t *values, uint64_t *count,
                     tsr_error *error);

/* Calls `take` for what stands in a JSON object, or in a JSON array; `what` it is, for messages. */
typedef struct tsx_json_option {
  const char *key, *type; /* as json_each has it: 'integer', 'text', 'true' ...; of an array the key is an index */
  sqlite3_value *value;
} tsx_json_option;

typedef int (*tsx_option_taker)(void *argument, const tsx_json_option *option, tsr_error *error);

int tsx_options_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_taker take, void *argument,
                     tsr_error *error);
int tsx_elements_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_taker take, void *argument,
                      tsr_error *error);

#endif
