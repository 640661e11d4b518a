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
 * BLOB is taken as the bytes themselves. *bytes is from sqlite3_malloc, which the caller frees; NULL after a failure.
 * TSR_MISMATCH, TSR_RANGE, TSR_NOMEM. */
int tsx_bytes_convert(sqlite3_value *value, tsr_datatype datatype, uint8_t **bytes, uint64_t *size, tsr_error *error);

/* Locates a number or an instant among the values of a datatype, even between two of them (tsx_place). A BLOB is one
 * value. TSR_MISMATCH, TSR_NOMEM. */
int tsx_value_place(sqlite3_value *value, tsr_datatype datatype, tsx_place *place, tsr_error *error);

/* Like tsx_bytes_convert, for a member of a JSON object or list. Reads numbers from the member's JSON text: SQLite's
 * JSON functions turn an integer that is too large for an INTEGER into a REAL. */
int tsx_option_convert(const tsx_json_option *option, tsr_datatype datatype, uint8_t **bytes, uint64_t *size,
                       tsr_error *error);

typedef struct tsx_bound { /* what the JSON says about one dimension */
  bool given, low_given, high_given; /* the dimension has a key; that end is not null */
  uint8_t *low_text, *high_text; /* of a string dimension; owned, and borrowed by the box */
} tsx_bound;

typedef struct tsx_slice { /* `= {0}` may be released */
  uint32_t dimension_count;
  tsr_interval *box; /* one for each dimension; only given ends are set, each within the domain */
  tsx_bound *bounds; /* one for each dimension */
  bool nothing; /* no cell, whatever the box says: [], a pair outside of the domain, labels that no coordinate has */
} tsx_slice;

typedef struct tsx_label_source { /* the array whose labels may be keys of a slice, and the state of the labels */
  tsr_array *array;
  uint64_t since, as_of, memory_bytes;
} tsx_label_source;

/* Parses JSON like {"day":[1,366]}, whose keys are the names of dimensions, or of their labels, as tables show them.
 * `json` NULL or an SQL NULL gives no bounds. The caller releases the slice; after a failure it is empty. TSR_MISMATCH
 * if the JSON does not have this form, TSR_RANGE if a single value is outside of the domain, or a low end above its
 * high end. A pair is clipped to the domain. */
int tsx_slice_parse(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, const tsx_label_source *labels,
                    bool uint64_signed, tsx_slice *slice, tsr_error *error);

/* What the JSON is for, for checks and messages. A slice has a value or two ends for a dimension, an origin one value,
 * a domain two ends. */
typedef enum tsx_slice_use { TSX_SLICE, TSX_ORIGIN, TSX_DOMAIN } tsx_slice_use;

/* Like tsx_slice_parse for another use than a slice, without labels. */
int tsx_slice_parse_as(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, tsx_slice_use use,
                       bool uint64_signed, tsx_slice *slice, tsr_error *error);
void tsx_slice_release(tsx_slice *slice);

/* Sets the ends that are not given to those of the snapshot's non-empty domain, except for string dimensions. *empty:
 * the box then has no cell, because the array is empty, or a given end is beyond the non-empty domain. */
int tsx_slice_complete(tsr_snapshot *snapshot, tsx_slice *slice, bool *empty, tsr_error *error);

/* Converts the slice to one range for each dimension. `ranges` and `dimensions` have room for one entry for each
 * dimension; they point into the slice. */
void tsx_slice_ranges(const tsx_slice *slice, const tsr_schema *schema, tsr_range *ranges, tsr_ranges *dimensions);

#endif
