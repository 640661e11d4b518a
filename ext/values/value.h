/* value.h: how the cells of a field appear as SQL values, and as JSON text.
 *
 * A tsx_column describes one column of a table: which field of the schema it shows, and in which form.
 * tsx_column_choose sets the form and the declared type. The functions of value.c then make single cells the results of
 * xColumn or of an SQL function. The header also declares the types of comparisons (compare.h): operators, sets of
 * ranges, texts. Last come the writers of JSON. */
#ifndef TSX_VALUES_VALUE_H
#define TSX_VALUES_VALUE_H

#include <string.h>

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "definition/arguments.h"

/* How the cells of a field appear in SQL. */
typedef enum tsx_form {
  TSX_INT8, /* up to TSX_FLOAT64: numbers (tsx_form_is_number) */
  TSX_INT16,
  TSX_INT32,
  TSX_INT64,
  TSX_UINT8,
  TSX_UINT16,
  TSX_UINT32,
  TSX_UINT64, /* values above INT64_MAX as TEXT: tsx_result_unsigned */
  TSX_UINT64_SIGNED, /* with the option uint64=signed: the 64 bits as an INTEGER */
  TSX_FLOAT32,
  TSX_FLOAT64,
  TSX_TEXT, /* one-byte units: CHAR, ASCII, UTF8 */
  TSX_TEXT16, /* UTF-16 or UCS-2, shown as UTF-8 */
  TSX_TEXT32, /* UTF-32 or UCS-4, shown as UTF-8 */
  TSX_BLOB,
  TSX_DATETIME, /* a datetime or time of day as ISO text; INTEGER if it has none */
  TSX_JSON, /* several numbers in a cell, as a JSON array */
  TSX_ENUMERATED /* a value of an enumeration; value_form says how it appears */
} tsx_form;

typedef struct tsx_column {
  char *name; /* owned by the table */
  uint32_t field; /* index of the field in the schema */
  const tsr_field *description; /* that field; borrowed from the schema */
  tsx_form form;
  const char *declared; /* INTEGER, REAL, TEXT, BLOB; "": no affinity (UINT64 above the signed range) */
  const tsr_enumeration *enumeration; /* with TSX_ENUMERATED, borrowed from the array; else NULL */
  tsx_form value_form; /* with TSX_ENUMERATED: the form of the values */
  bool datetimes_integer; /* the table's option; also of durations, which are integers of their unit */
  bool nat_is_null; /* of durations, with the form of a number */
  bool uint64_signed; /* the table's option */
  bool has_every_cell; /* of an attribute: by the schemas, every cell of the array has a value */
  bool knows_every_code; /* with TSX_ENUMERATED: when the table was connected, every cell had a code with a value */
  /* True if SQL sees the cells in several types, or in another order than the array has: UINT64 above the signed range
   * is TEXT, years after 9999 are INTEGER, UINT64 shown as signed is in another order. tsx_column_prepare sets it for
   * datetimes. */
  bool mixed;
  int64_t printable_low, printable_high; /* of datetimes, from tsx_column_prepare: the values with ISO text */
} tsx_column;

/* Sets the form and the declared type of a column for a field. `enumeration` is NULL for fields without one, and if the
 * column shows the codes of an enumerated attribute. `field` and `enumeration` are borrowed for as long as the column
 * is used. The caller sets `name` and `field`. */
void tsx_column_choose(const tsr_field *field, const tsr_enumeration *enumeration, const tsx_option_shows *shows,
                       tsx_column *column);

/* Fails if a column would be shown as durations or as times of day, and the array's damaged metadata do not say which:
 * the field or label `name` of this datatype. */
int tsx_times_known(const tsr_schema *schema, tsr_datatype datatype, const char *name, const tsx_option_shows *shows,
                    tsr_error *error);

/* Returns true if a table shows the field as integers of its unit because it has durations. */
bool tsx_shows_duration(const tsr_field *field, const tsx_option_shows *shows);

/* Returns true if the column shows this field of another schema of the same array: name, datatype and values per cell
 * are the same, and both are dimensions or both attributes. */
bool tsx_column_shows(const tsx_column *column, const tsr_field *field);

/* Makes one cell the result of xColumn. `cells` and `index` are as in tsr_column. With `fill_unwritten`, cells that
 * were never written show their fill value; else they show NULL. */
void tsx_column_result(sqlite3_context *context, const tsx_column *column, const tsr_column *cells, uint64_t index,
                       bool fill_unwritten);

/* Returns true if the form is a number. */
static inline bool tsx_form_is_number(tsx_form form) { return form <= TSX_FLOAT64; }

/* Makes number `i` of an array of numbers the result. `form` is that of a number; none of the numbers is null. */
void tsx_number_result(sqlite3_context *context, tsx_form form, const uint8_t *cells, uint64_t i);

/* Returns true if no row can show NULL in the column: every cell has a value, and the type has no value that appears as
 * NULL, like NaN, NaT, and codes without a value in the enumeration. */
bool tsx_column_never_null(const tsx_column *column);

/* Returns true if tsx_column_result would return NULL for this cell. */
bool tsx_column_is_null(const tsx_column *column, const tsr_column *cells, uint64_t index, bool fill_unwritten);

/* Makes `size` bytes the result: one cell of this datatype, shown like in a table with default options. NULL if the
 * bytes are too few for one value. */
void tsx_value_result(sqlite3_context *context, tsr_datatype datatype, uint32_t values_per_cell, const void *bytes,
                      uint64_t size);

/* Makes an unsigned number the result: an INTEGER up to INT64_MAX, above it a TEXT of 20 digits. Numbers below 10^19
 * get a leading zero, so all these texts have the same length, and sort like their numbers. */
void tsx_result_unsigned(sqlite3_context *context, uint64_t value);
#define TSX_UINT64_PRINTED "%020llu"

/* Returns the datatype in which values of `datatype` are read and shown: with the option uint64=signed, INT64 for
 * UINT64, which has the same bits; else `datatype`. */
static inline tsr_datatype tsx_datatype_shown(tsr_datatype datatype, bool uint64_signed) {
  return datatype == TSR_UINT64 && uint64_signed ? TSR_INT64 : datatype;
}

/* Returns the datatype in which single values of a field are printed: as tsx_datatype_shown, but durations are integers
 * of their unit, within a day and beyond. */
static inline tsr_datatype tsx_datatype_printed(const tsr_field *field, bool uint64_signed) {
  return field->duration ? TSR_INT64 : tsx_datatype_shown(field->datatype, uint64_signed);
}

/* Makes the text of a string builder the result, or the builder's error. Frees the builder. */
void tsx_result_string(sqlite3_context *context, sqlite3_str *text);

/* Makes a copy of the text the result. Does nothing if `text` is NULL. */
void tsx_result_text(sqlite3_context *context, const char *text);

/* Truncates a number to INT64: clamps values outside of INT64, and turns NaN into 0. A cast of such values is
 * undefined. */
static inline sqlite3_int64 tsx_int64_from_double(double value) {
  return value >= 9223372036854775808.0    ? INT64_MAX
         : value >= -9223372036854775808.0 ? (sqlite3_int64)value
         : value < 0                       ? INT64_MIN
                                           : 0;
}

/* Returns the position of `value` between `low` (0) and `high` (1). Returns 0.5 if it cannot be computed, because an
 * end is infinite or the ends are too close together. */
static inline double tsx_share(double value, double low, double high) {
  const double share =
      (value / 2 - low / 2) / (high / 2 - low / 2); /* halves: a difference of finite halves is finite */
  return share >= 0 && share <= 1 ? share : 0.5;
}

/* Load an integer of 1, 2, 4 or 8 bytes, which need not be aligned. */
static inline uint64_t tsx_load_unsigned(const void *p, uint64_t size) {
  uint64_t v = 0;
  memcpy(&v, p, size);
  return v;
}
static inline int64_t tsx_load_signed(const void *p, uint64_t size) {
  const unsigned unused = (unsigned)(64 - 8 * size);
  return (int64_t)(tsx_load_unsigned(p, size) << unused) >> unused;
}

/* ---- Types of comparisons ---------------------------------------------------------------------------------------- */

/* Operators of constraints, as best_index.c encodes them in idxStr. */
typedef enum tsx_op {
  TSX_EQ,
  TSX_GT,
  TSX_GE,
  TSX_LT,
  TSX_LE,
  TSX_IS,
  TSX_IN,
  TSX_NE, /* this and TSX_ISNOT: for attributes, and for dimensions with tsx_has_own_comparison */
  TSX_ISNOT,
  TSX_ISNULL, /* this and TSX_NOTNULL: for attributes; TSX_ISNULL also for as_of and since */
  TSX_NOTNULL
} tsx_op;

/* Special values of tsx_ranges.count, and of functions that return such a count. */
#define TSX_EVERYTHING (-1) /* ranges cannot say it: every value may satisfy the comparison, and SQLite must test it */
#define TSX_NO_MEMORY  (-2)
#define TSX_RANGES_MAX 4

/* The values of a dimension, or the non-null values of an attribute, that can satisfy `column op value`: the union of
 * `count` ranges. Text that the ranges point to is borrowed from the SQL value. */
typedef struct tsx_ranges {
  int count; /* 0: no value satisfies the comparison; or TSX_EVERYTHING, or TSX_NO_MEMORY */
  tsr_range ranges[TSX_RANGES_MAX];
  uint8_t values[TSX_RANGES_MAX][2][8]; /* low and high end of each range, which points here unless it is text */
} tsx_ranges;

/* The parameter `rules` of comparisons is a set of flags: the encoding of the database's text, TSX_UTF16 and
 * TSX_UTF16BE of connection.h, and this one. It is set if SQLite tests the comparison again in spite of `omit`: the
 * comparison must then mean exactly what it means to SQLite. */
#define TSX_SQLITE_RULES 2u

typedef struct tsx_text { /* text in the database's encoding, as SQLite compares it; borrowed from a value */
  const void *bytes;
  int size; /* in bytes */
  unsigned rules;
} tsx_text;

/* ---- json.c: values, intervals and boxes as JSON text ------------------------------------------------------------ */
/* The tessera_* tables show domains, slices and values of cells in this form, and sql/json.h and values/slice.h read it
 * back. All functions append to a string of SQLite's. The caller owns it and asks it for errors
 * (sqlite3_str_errcode). */

/* Appends a REAL with 17 digits, which SQL reads as the same REAL; NaN is null. */
void tsx_json_real(sqlite3_str *out, double value);

/* Appends one value of a datatype of numbers, datetimes or times. `value` points to tsr_datatype_size(datatype) bytes
 * of any alignment. Datetimes and times are ISO-8601 text; with `datetimes_integer`, raw integers. */
void tsx_json_value(sqlite3_str *out, tsr_datatype datatype, const void *value, bool datetimes_integer);

/* Appends `size` bytes as a JSON string. A byte that is not part of valid UTF-8 becomes %XX. */
void tsx_json_text(sqlite3_str *out, const void *text, uint64_t size);

/* Appends an interval of `dimension` as [low, high], with null for an open end. With `uint64_signed`, here and in the
 * functions below, UINT64 values appear as with the table option uint64=signed. */
void tsx_json_interval(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool uint64_signed);

/* Appends an object like {"day":[1,366]} with one interval for each dimension of the schema. `names` are the fields'
 * names in SQL (tsx_names_make); `intervals` has one for each dimension. */
void tsx_json_box(sqlite3_str *out, const tsr_schema *schema, char *const *names, const tsr_interval *intervals,
                  bool uint64_signed);

#endif
