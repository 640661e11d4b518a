/* slice.h: boxes and points as JSON objects, keyed by the names of columns, for SQL functions and table-valued
 * functions; and the conversion of a single SQL value to the bytes of any datatype.
 *
 * Order of use: tsx_slice_parse or tsx_slice_parse_as; then tsx_slice_complete or tsx_slice_ranges; then
 * tsx_slice_release. */
#ifndef TSX_SLICE_H
#define TSX_SLICE_H

#include "connection/sqlite_api.h"
#include "sql/json.h"
#include "tessera.h"
#include "sql/literals.h"

/* Converts an SQL value to the bytes of a datatype: a number, ISO text, a JSON array of either, text for strings; a
 * BLOB is taken as the bytes themselves. *bytes comes from sqlite3_malloc, after a failure too (or is NULL): the caller
 * frees it. TSR_MISMATCH, TSR_RANGE, TSR_NOMEM. */
int tsx_bytes_convert(sqlite3_value *value, tsr_datatype datatype, uint8_t **bytes, uint64_t *size, tsr_error *error);

/* Locates a number or an instant among the values of a datatype, also where it lies between two of them (tsx_place). A
 * BLOB is one value. TSR_MISMATCH, TSR_NOMEM. */
int tsx_value_place(sqlite3_value *value, tsr_datatype datatype, tsx_place *place, tsr_error *error);

/* Does the same as tsx_bytes_convert for a member of a JSON object or list. Numbers are read from its JSON text: SQLite's JSON functions make a
 * REAL of an integer that is too large for an INTEGER. */
int tsx_option_convert(const tsx_json_option *option, tsr_datatype datatype, uint8_t **bytes, uint64_t *size,
                       tsr_error *error);

typedef struct tsx_bound { /* what the JSON says of one dimension */
  bool given, low_given, high_given; /* the dimension has a key; that end is not null */
  uint8_t *low_text, *high_text; /* of a string dimension; owned, the box points to them */
} tsx_bound;

typedef struct tsx_slice { /* `= {0}` may be released */
  uint32_t dimension_count;
  tsr_interval *box; /* one for each dimension; only the ends that are given are set, each lies within the domain */
  tsx_bound *bounds; /* one for each dimension */
  bool nothing; /* [], a pair outside the domain, a label's range that no coordinate has: there is no cell, whatever
                 * the box says */
} tsx_slice;

typedef struct tsx_label_source { /* the array whose dimension labels may be keys of a slice, and their state */
  tsr_array *array;
  uint64_t since, as_of, memory_bytes;
} tsx_label_source;

/* Parses JSON like {"day":[1,366]}, whose keys are the names that tables show, of dimensions or of their labels. `json` NULL or an SQL NULL gives no
 * bound at all. The caller releases the slice; after a failure it is empty. TSR_MISMATCH where the JSON has not this
 * form, TSR_RANGE where a single value is outside of the domain, or two ends are the wrong way round. A pair is cut
 * to the domain. */
int tsx_slice_parse(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, const tsx_label_source *labels,
                    bool uint64_signed, tsx_slice *slice, tsr_error *error);

/* What the JSON stands for; messages name it. A slice has a value or two ends for a dimension, an origin has one value,
 * a domain has two ends. */
typedef enum tsx_slice_use { TSX_SLICE, TSX_ORIGIN, TSX_DOMAIN } tsx_slice_use;

/* Does the same as tsx_slice_parse for another use than a slice, without labels. */
int tsx_slice_parse_as(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, tsx_slice_use use,
                       bool uint64_signed, tsx_slice *slice, tsr_error *error);
void tsx_slice_release(tsx_slice *slice);

/* Sets the ends that are not given to those of the snapshot's non-empty domain, except for string dimensions. *empty is
 * true if the box then holds no cell: the array is empty, or the end that is given lies beyond the non-empty domain. */
int tsx_slice_complete(tsr_snapshot *snapshot, tsx_slice *slice, bool *empty, tsr_error *error);

/* Writes the slice as one range for each dimension. `ranges` and `dimensions` have room for one entry for each
 * dimension; they point into the slice. */
void tsx_slice_ranges(const tsx_slice *slice, const tsr_schema *schema, tsr_range *ranges, tsr_ranges *dimensions);

#endif
