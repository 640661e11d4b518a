/* json.h: writes values, intervals and boxes of arrays as JSON text. The tessera_* tables show domains, slices and
 * values of cells in this form, and json.h and values/slice.h read it back.
 *
 * All functions append to a string of SQLite's. The caller owns it and asks it for errors (sqlite3_str_errcode). */
#ifndef TSX_JSON_H
#define TSX_JSON_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Appends one value of a datatype whose values are numbers, datetimes or times. `value` points to
 * tsr_datatype_size(datatype) bytes of any alignment. Datetimes and times are ISO-8601 text, or raw integers if
 * `datetimes_integer` is set. */
void tsx_json_value(sqlite3_str *out, tsr_datatype datatype, const void *value, bool datetimes_integer);

/* Appends `size` bytes as a JSON string. A byte that is not part of valid UTF-8 becomes %XX. */
void tsx_json_text(sqlite3_str *out, const void *text, uint64_t size);

/* Appends an interval of `dimension` as [low, high], with null for an open end. If `uint64_signed` is set, here and in
 * the functions below, UINT64 values appear as with the table option uint64=signed. */
void tsx_json_interval(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool uint64_signed);

/* Appends an object like {"day":[1,366]} with one interval for each dimension of the schema. `names` are the fields'
 * names in SQL (tsx_names_make), `intervals` one for each dimension. */
void tsx_json_box(sqlite3_str *out, const tsr_schema *schema, char *const *names, const tsr_interval *intervals,
                  bool uint64_signed);

#endif
