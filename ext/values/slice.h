/* slice.h: boxes as people write them, JSON keyed by the names of columns, and single values of any datatype. */
#ifndef TSX_SLICE_H
#define TSX_SLICE_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* A value's bytes in a datatype, of sqlite3_malloc, also where this fails: numbers, ISO text, JSON arrays of them, text
 * for strings, a BLOB as it is. */
int tsx_bytes_convert(sqlite3_value *value, tsr_datatype datatype, uint8_t **bytes, uint64_t *size, tsr_error *error);

typedef struct tsx_bound {
  bool given, low_given, high_given; /* the dimension, its ends */
  uint8_t *low_text, *high_text; /* owned: what the box of a string dimension points to */
} tsx_bound;

typedef struct tsx_slice { /* `= {0}` then release is safe */
  uint32_t dimension_count;
  tsr_interval *box; /* the ends that are given, each within the domain */
  tsx_bound *bounds;
} tsx_slice;

/* Of JSON like {"day":[1,366]}, keyed by the names that tables show; NULL: nothing is given. */
int tsx_slice_parse(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, bool uint64_signed, tsx_slice *slice,
                    tsr_error *error);

typedef enum tsx_slice_use { TSX_SLICE, TSX_ORIGIN, TSX_DOMAIN } tsx_slice_use;

/* An origin has one value in each dimension, a domain two ends; messages call it so. */
int tsx_slice_parse_as(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, tsx_slice_use use,
                       bool uint64_signed, tsx_slice *slice, tsr_error *error);
void tsx_slice_release(tsx_slice *slice);

/* An end that is not given becomes that of the non-empty range, but of strings. *empty: there is none, or the end that is
 * given lies beyond it. */
int tsx_slice_complete(tsr_snapshot *snapshot, tsx_slice *slice, bool *empty, tsr_error *error);

/* The same as one range for each dimension, which point into the slice. */
void tsx_slice_ranges(const tsx_slice *slice, const tsr_schema *schema, tsr_range *ranges, tsr_ranges *dimensions);

#endif
