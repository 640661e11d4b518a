/* stream_request.h: the arguments of tessera_stream: which cells, which columns, in which Arrow types. */
#ifndef TSX_STREAM_REQUEST_H
#define TSX_STREAM_REQUEST_H

#include "connection/sqlite_api.h"
#include "table/address.h"
#include "values/slice.h"

#define TSX_STREAM_CONDITIONS 64

typedef struct tsx_stream_condition { /* a comparison of an attribute with a value; the bytes are owned */
  uint8_t *bytes;
  uint64_t size;
  tsr_range range;
} tsx_stream_condition;

typedef struct tsx_stream_request { /* `= {0}` may be released */
  sqlite3 *db;
  const char *array; /* as the user gave it, for messages; borrowed */
  const tsr_schema *schema;
  char **names; /* of the schema's fields, as SQL shows them */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  uint32_t *fields;
  tsr_sort *order;
  tsr_predicate *predicates;
  tsx_stream_condition *conditions;
  sqlite3_value *key, *since, *as_of; /* owned; NULL: not given */
  tsr_request request; /* points to the above */
  tsr_arrow_options options; /* points to `request` and `fields` */
} tsx_stream_request;

/* Reads the options that say which array is meant: key, since and as_of. `json` may be NULL or an SQL NULL. */
int tsx_stream_request_begin(sqlite3 *db, sqlite3_value *json, tsx_stream_request *request, tsr_error *error);

/* Reads the slice and the other options; the array's schema is known now. Afterwards request->options is complete. */
int tsx_stream_request_read(sqlite3_value *slice, sqlite3_value *json, const char *array, const tsr_schema *schema,
                            const tsx_label_source *labels, bool uint64_signed, tsx_stream_request *request,
                            tsr_error *error);

void tsx_stream_request_release(tsx_stream_request *request);

#endif
