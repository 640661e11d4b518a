/* values.h: between SQL's values and the cells of fields, both ways.
 *
 *   value.c       cell -> sqlite3_value, the only place where SQL values are made
 *   compare.c     comparisons -> ranges of a column's values
 *   labels.c      comparisons with labels -> codes of enumerated attributes
 *   json_in.c     JSON -> values of a cell, options          json.c   JSON text of values and boxes
 *   slice.c       JSON -> boxes, SQL values -> bytes of any datatype
 *   names.c       fields' names in SQL
 */
#ifndef TSX_VALUES_H
#define TSX_VALUES_H

#include "definition.h"

/* ---- value.c, compare.c ---- */
typedef enum tsx_form { /* how a field's cells appear */
                        TSX_INT8,
                        TSX_INT16,
                        TSX_INT32,
                        TSX_INT64,
                        TSX_UINT8,
                        TSX_UINT16,
                        TSX_UINT32,
                        TSX_UINT64,
                        TSX_UINT64_SIGNED, /* with the option uint64=signed: the 64 bits as INTEGER */
                        TSX_FLOAT32,
                        TSX_FLOAT64, /* the last number */
                        TSX_TEXT,
                        TSX_TEXT16,
                        TSX_TEXT32,
                        TSX_BLOB,
                        TSX_DATETIME,
                        TSX_JSON,
                        TSX_LABEL
} tsx_form;

typedef struct tsx_column {
  char *name; /* in SQL */
  uint32_t field; /* of the schema */
  const tsr_field *description;
  tsx_form form;
  const char *declared; /* INTEGER, REAL, TEXT, BLOB, or nothing: no affinity (UINT64 past the signed range) */
  const tsr_enumeration *enumeration; /* TSX_LABEL, else NULL */
  tsx_form label_form; /* how the labels appear */
  bool datetimes_integer, uint64_signed;
  /* once tsx_column_prepare has run: */
  bool mixed; /* some cells may appear as another type than the others (UINT64 past the signed range as text, years
                 past 9999 as integers), or in another order than that of the array (UINT64 shown as signed) */
  int64_t printable_low, printable_high; /* TSX_DATETIME: values that have ISO text */
} tsx_column;
/* Chooses form and declared type; enumeration may be NULL. */
void tsx_column_choose(const tsr_field *field, const tsr_enumeration *enumeration, const tsx_options *options,
                       tsx_column *column);
/* Is this field, of a later schema, what the column shows: name and datatype? */
bool tsx_column_shows(const tsx_column *column, const tsr_field *field);
/* Before comparisons are asked about. */
void tsx_column_prepare(tsx_column *column);
/* One cell as the result of xColumn. */
void tsx_column_result(sqlite3_context *context, const tsx_column *column, const tsr_column *cells, uint64_t index,
                       bool fill_unwritten);
static inline bool tsx_form_is_number(tsx_form form) { return form <= TSX_FLOAT64; }
/* The same of cell `i` of plain numbers, of which each is there. */
void tsx_number_result(sqlite3_context *context, tsx_form form, const uint8_t *cells, uint64_t i);
/* Is the column a dimension no cell of which gives NULL? */
bool tsx_column_never_null(const tsx_column *column);
/* Does a cell give NULL? */
bool tsx_column_is_null(const tsx_column *column, const tsr_column *cells, uint64_t index, bool fill_unwritten);

/* The bytes of one cell of a field, or of anything else that has a datatype, as a table with default options shows it.
 */
void tsx_value_result(sqlite3_context *context, tsr_datatype datatype, uint32_t values_per_cell, const void *bytes,
                      uint64_t size);
/* Past the signed range TEXT of 20 digits, with a zero before the 19 digits of the smaller ones: texts that are all of one
 * length have the order of their numbers. */
void tsx_result_unsigned(sqlite3_context *context, uint64_t value);
#define TSX_UINT64_PRINTED "%020llu"
/* The datatype that values are read and shown in: with uint64=signed that of UINT64 is INT64, which has the same bits. */
static inline tsr_datatype tsx_datatype_shown(tsr_datatype datatype, bool uint64_signed) {
  return datatype == TSR_UINT64 && uint64_signed ? TSR_INT64 : datatype;
}
void tsx_result_string(sqlite3_context *context, sqlite3_str *text); /* takes it */
void tsx_result_text(sqlite3_context *context, const char *text); /* copied; NULL: none */
/* A whole number of 1, 2, 4 or 8 bytes. */
static inline uint64_t tsx_load_unsigned(const void *p, uint64_t size) {
  uint64_t v = 0;
  memcpy(&v, p, size);
  return v;
}
static inline int64_t tsx_load_signed(const void *p, uint64_t size) {
  const unsigned unused = (unsigned)(64 - 8 * size);
  return (int64_t)(tsx_load_unsigned(p, size) << unused) >> unused;
}

/* Constraints. Operators of a request, as best_index.c encodes them. */
typedef enum tsx_op {
  TSX_EQ,
  TSX_GT,
  TSX_GE,
  TSX_LT,
  TSX_LE,
  TSX_IS,
  TSX_IN,
  TSX_NE, /* this and the rest: attributes only; this and the next: dimensions whose comparisons mean more here */
  TSX_ISNOT,
  TSX_ISNULL,
  TSX_NOTNULL
} tsx_op;

/* The values of a dimension, or of an attribute that is not null, that can satisfy `column op value`: a union of so
 * many ranges. Its memory is the caller's.
 */
#define TSX_EVERYTHING  (-1) /* nothing can be said: SQLite decides */
#define TSX_NO_MEMORY   (-2)
#define TSX_RANGES_MOST 3
typedef struct tsx_ranges {
  int count; /* 0: no cell can satisfy it; TSX_EVERYTHING */
  tsr_range ranges[TSX_RANGES_MOST];
  uint8_t values[TSX_RANGES_MOST][2]
                [8]; /* what the ranges point to, but for text, which is borrowed from the SQL value */
} tsx_ranges;
/* How a comparison is meant; flags. */
#define TSX_UTF16   1u /* the database's text is UTF-16 */
#define TSX_PLAINLY 2u /* as SQLite compares and nothing else: it tests again, since it does not keep to `omit` here */
void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges);
/* Is the test that tsx_ranges_make stands for exactly SQLite's? `value` is the right side, NULL if it is not known yet.
 */
bool tsx_ranges_exact(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16);
/* Can the column's values be compared with anything at all, so that asking for ranges makes sense? */
bool tsx_ranges_possible(const tsx_column *column);
/* The same of text that is compared without case (NOCASE): a range that holds all that may satisfy it, and more. Its count
 * as in tsx_ranges, or TSX_NO_MEMORY; `memory` is what it points to, for sqlite3_free. */
int tsx_nocase_range(tsx_op op, sqlite3_value *value, tsr_range *range, void **memory);

/* A range of text that is less than something, for all that may be less than that in a column of numbers. */
void tsx_numeric_range(tsr_range *range);

/* ---- labels.c ---- */
/* For enumerated attributes: appends the codes, as runs of neighbours, whose labels satisfy it; all that have one for
 * TSX_NOTNULL. `nocase`, `numeric`: more than those, as by tsx_nocase_range and tsx_numeric_range. */
typedef struct tsx_codes {
  uint64_t count, room;
  int64_t (*runs)[2]; /* first and last; of sqlite3_malloc */
  bool everything;
} tsx_codes;
int tsx_codes_add(const tsx_column *column, tsx_op op, bool nocase, bool numeric, sqlite3_value *value, unsigned how,
                  tsx_codes *codes);
/* Can labels be compared at all, as tsx_ranges_possible has it; and exactly, labels that are numbers? */
bool tsx_labels_possible(const tsx_column *column);
bool tsx_labels_exact(const tsx_column *column, tsx_op op, sqlite3_value *value);

/* ---- json_in.c ---- */
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

/* ---- names.c ---- */
/* The names of all fields of a schema as a table shows them: anonymous fields are attr0, dim1...; a name that collides
 * with an earlier one gets _2, _3...; bytes that are no UTF-8 are %XX. One block for each and one for all, of
 * sqlite3_malloc; NULL: out of memory. */
char **tsx_names_make(const tsr_schema *schema);
void tsx_names_free(char **names, const tsr_schema *schema); /* NULL is fine */
/* TSR_ERROR with this message, and behind it the names from `first` to `end`, as many as there is room for. */
int tsx_names_fail(char *const *names, uint32_t first, uint32_t end, tsr_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* How many bytes the UTF-8 character at p has; 0 if it is none. At most `left` bytes are looked at. */
unsigned tsx_utf8_size(const uint8_t *p, uint64_t left);
/* Any stored name as text: bytes that are no UTF-8 are %XX. sqlite3_malloc'ed. */
char *tsx_name_text(const char *name);

/* ---- json.c ---- */
void tsx_json_value(sqlite3_str *out, tsr_datatype datatype, const void *value, bool datetimes_integer);
void tsx_json_text(sqlite3_str *out, const void *text, uint64_t size); /* a string; bytes that are no UTF-8 are %XX */
/* One end of an interval, or null where it is open. `uint64_signed`, here and below: as with the option uint64=signed. */
void tsx_json_end(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool high,
                  bool uint64_signed);
/* [low, high] */
void tsx_json_interval(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool uint64_signed);
/* {"day":[1,366]}: one interval per dimension, keyed by their names in SQL */
void tsx_json_box(sqlite3_str *out, const tsr_schema *schema, char *const *names, const tsr_interval *intervals,
                  bool uint64_signed);

/* ---- slice.c ---- */
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
