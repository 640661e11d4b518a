/* stream_request.h: the arguments of tessera_stream: which cells, which columns, in which Arrow types. */
#ifndef TSX_STREAM_REQUEST_H
#define TSX_STREAM_REQUEST_H

#include "connection/sqlite_api.h"
#include "table/address.h"
#include "values/slice.h"
#include "functions/read_limits.h"

#define TSX_STREAM_CONDITIONS 64

typedef struct tsx_stream_condition { /* the values of an attribute that a condition lets through */
  uint64_t count, room;
  tsr_range *ranges; /* owned */
  uint8_t **values; /* owned, each too: what the range points to */
} tsx_stream_condition;

typedef struct tsx_stream_request { /* `= {0}` may be released */
  sqlite3 *db;
  const char *array; /* as the user gave it, for messages; borrowed */
  tsr_array *core; /* borrowed */
  const tsr_schema *schema;
  bool shows_codes; /* of enumerations, in the place of labels */
  char **names; /* of the schema's fields, as SQL shows them */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  uint32_t *fields;
  tsr_sort *order;
  tsr_predicate *predicates;
  tsx_stream_condition *conditions;
  sqlite3_value *key, *since, *as_of, *seen; /* owned; NULL: not given. `seen`: the option schema */
  tsx_read_limits limits;
  tsr_request request; /* points to the above */
  tsr_arrow_options options; /* points to `request` and `fields` */
} tsx_stream_request;

/* Reads the options that say which array is meant: key, since, as_of and schema. `json` may be NULL or an SQL NULL. */
int tsx_stream_request_begin(sqlite3 *db, sqlite3_value *json, tsx_stream_request *request, tsr_error *error);

/* Reads the slice and the other options; the array is open and its schema known now. Afterwards request->options is
 * complete. */
int tsx_stream_request_read(sqlite3_value *slice, sqlite3_value *json, const tsx_address *address,
                            const tsr_schema *schema, tsx_stream_request *request, tsr_error *error);

void tsx_stream_request_release(tsx_stream_request *request);

#endif
