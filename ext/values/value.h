/* value.h: cells of fields as SQL values, and as which ones. */
#ifndef TSX_VALUE_H
#define TSX_VALUE_H

#include <string.h>

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "definition/arguments.h"

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
  bool
      interleaved; /* some cells may appear as another type than the others (UINT64 past the signed range as text, years
                 past 9999 as integers), or in another order than that of the array (UINT64 shown as signed) */
  int64_t printable_low, printable_high; /* TSX_DATETIME: values that have ISO text */
} tsx_column;

/* Chooses form and declared type; enumeration may be NULL. */
void tsx_column_choose(const tsr_field *field, const tsr_enumeration *enumeration, const tsx_options *options,
                       tsx_column *column);

/* Is this field, of a later schema, what the column shows: name and datatype? */
bool tsx_column_shows(const tsx_column *column, const tsr_field *field);

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

/* The whole part of an estimate or of a number that is shown, within INT64; of NaN 0. A cast of what does not fit is not
 * defined. */
static inline sqlite3_int64 tsx_whole(double value) {
  return value >= 9223372036854775808.0    ? INT64_MAX
         : value >= -9223372036854775808.0 ? (sqlite3_int64)value
         : value < 0                       ? INT64_MIN
                                           : 0;
}

/* The share of low..high at which a value between them stands: 0 to 1. */
static inline double tsx_share(double value, double low, double high) {
  const double share =
      (value / 2 - low / 2) / (high / 2 - low / 2); /* halves: no difference of finite numbers is infinite */
  return share >= 0 && share <= 1 ? share : 0.5; /* the ends are infinite, or too near to each other */
}

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
 * many ranges, whose memory is the caller's; TSX_EVERYTHING; or TSX_NO_MEMORY.
 */
#define TSX_EVERYTHING (-1) /* nothing can be said: SQLite decides */
#define TSX_NO_MEMORY  (-2)
#define TSX_RANGES_MAX 4

typedef struct tsx_ranges {
  int count; /* 0: no cell can satisfy it; TSX_EVERYTHING */
  tsr_range ranges[TSX_RANGES_MAX];
  uint8_t values[TSX_RANGES_MAX][2]
                [8]; /* what the ranges point to, but for text, which is borrowed from the SQL value */
} tsx_ranges;

/* How a comparison is meant: TSX_UTF16 and TSX_UTF16BE (connection.h), and this flag. */
#define TSX_PLAINLY 2u /* as SQLite compares and nothing else: it tests again, since it does not keep to `omit` here */

/* A text as SQLite compares it in this database; and ASCII text against it: < 0, 0, > 0. */
typedef struct tsx_text {
  const void *bytes;
  int size;
  unsigned how;
} tsx_text;

#endif
