/* ingest.h: the structure of an ingest (tsr_ingest), shared by the files that take in rows, store them, infer the
 * schema and write the array. Callers outside of this folder use tessera_ingest.h.
 *
 * Rows are divided into parts of INGEST_PART_ROWS rows. In the last part, each column grows in buffers; in a complete
 * part, each column is one block, in memory or in the temporary file. */
#ifndef TSR_INGEST_INGEST_H
#define TSR_INGEST_INGEST_H

#include <string.h>

#include "store/staging.h"
#include "array/array.h"

#define INGEST_PART_ROWS  UINT64_C(65536)
#define INGEST_PART_BYTES (UINT64_C(32) << 20) /* a part of this size is complete, whatever its rows */

typedef enum tsr_ingest_class { /* how the values of a column are kept */
                                TSR_INGEST_NONE, /* all are null */
                                TSR_INGEST_INTEGERS, /* int64; also UINT64 as its bits, datetimes, BOOL, label codes */
                                TSR_INGEST_REALS, /* double */
                                TSR_INGEST_TEXTS,
                                TSR_INGEST_BLOBS /* bytes; also cells of several values */
} tsr_ingest_class;

typedef struct tsr_ingest_part { /* one column of one part */
  tsr_ingest_class class;
  uint8_t *block; /* values, then the ends of texts (uint64_t), then validity; NULL: spilled, or class NONE */
  uint64_t offset; /* of the block in the temporary file */
  uint64_t values_size, size; /* in bytes: of the values, of the block */
  bool has_nulls; /* the block has a validity byte for each row */
  bool nan; /* REALS: some value is NaN or infinite */
  uint8_t low[8], high[8]; /* INTEGERS, REALS: the least and the greatest value that is not null */
  bool bounded; /* `low` and `high` are set */
} tsr_ingest_part;

typedef struct tsr_ingest_label { /* the values of a column that becomes a label, in the order of their coordinates */
  tsr_datatype datatype;
  bool descending;
  uint64_t count; /* number of coordinates, which begin at 0 */
  tsr_buffer values, offsets; /* cells of the label's array; offsets: uint64_t, only for texts */
} tsr_ingest_label;

typedef struct tsr_ingest_growing { /* the growing part of a column, and its current row */
  tsr_buffer values, ends, validity;
  uint64_t before; /* bytes of `values` before the current row */
  bool is_set; /* a value was set in the current row */
  bool nulls; /* some value of the part is null */
} tsr_ingest_growing;

typedef struct tsr_ingest_seen { /* what has been seen of a column's values; rows are counted from 0 */
  bool nulls; /* some value is null */
  bool wide; /* an integer exceeds 2^53, in row number `wide_row` */
  uint64_t wide_row, first_row; /* first_row: row of the first value that is not null */
} tsr_ingest_seen;

typedef struct tsr_ingest_codes { /* the labels of a column that becomes an enumeration */
  tsr_map codes; /* label -> code + 1 as a pointer */
  tsr_buffer bytes, ends; /* of the labels, in order; ends: uint64_t */
} tsr_ingest_codes;

typedef struct tsr_ingest_kept { /* one column */
  const tsr_ingest_column *given; /* borrowed */
  tsr_ingest_class class; /* of the values so far */
  tsr_datatype datatype; /* of a typed column; for an untyped one, set by tsr_ingest_schema */
  uint32_t values_per_cell;
  bool is_dimension, is_unsigned; /* is_unsigned: UINT64 */
  tsr_ingest_growing growing;
  tsr_ingest_seen seen;
  tsr_ingest_codes labels;
  tsr_buffer parts; /* tsr_ingest_part */
  tsr_ingest_label *label; /* in the arena; NULL until coordinates have replaced the label's values in the parts */
} tsr_ingest_kept;

typedef struct tsr_ingest_counts {
  uint64_t rows, part_rows, parts; /* rows: in all parts; part_rows: in the growing part; parts: complete ones */
  uint64_t begun; /* rows begun, for messages: includes dropped ones */
} tsr_ingest_counts;

typedef struct tsr_ingest_numbered { /* the row `row` has this number, and the following rows the next numbers */
  uint64_t row, number;
} tsr_ingest_numbered;

typedef struct tsr_ingest_numbers { /* the caller's row numbers, if it wants to know which rows are left out */
  uint64_t given, last; /* given: of the current row; 0: the next number. last: of the last row */
  tsr_buffer runs; /* tsr_ingest_numbered, one for each gap in the numbers */
} tsr_ingest_numbers;

typedef struct tsr_ingest_spill {
  uint64_t resident; /* bytes of complete parts in memory */
  tsr_staging *staging; /* NULL: nothing was spilled */
  tsr_staged *file;
} tsr_ingest_spill;

typedef struct tsr_ingest_shown { /* the columns as exported by streams, in the arena; NULL: no stream was made yet */
  tsr_field *fields;
  tsr_enumeration *enumerations;
} tsr_ingest_shown;

struct tsr_ingest {
  tsr_environment *environment;
  tsr_ingest_options options; /* lists are borrowed */
  tsr_memory memory;
  tsr_arena arena;
  uint32_t column_count;
  tsr_ingest_kept *columns;
  tsr_ingest_counts counts;
  tsr_ingest_numbers numbers;
  uint64_t next_row; /* for appended rows without coordinates: the order key of the first one */
  tsr_ingest_spill spill;
  bool complete, decided; /* the last part has ended; untyped columns have their datatypes */
  tsr_schema *schema; /* in the arena; NULL: not made yet */
  tsr_ingest_shown shown;
};

/* One column of one part, as stored; borrowed until the same `scratch` is loaded again. */
typedef struct tsr_ingest_values {
  tsr_ingest_class class;
  uint64_t rows;
  const uint8_t *values;
  const uint64_t *ends; /* texts and blobs: the end of each row's bytes in `values` */
  const uint8_t *validity; /* NULL: no value is null; class NONE: all are */
} tsr_ingest_values;

/* Adds a label to a column's enumeration, if it is new. */
int tsr__ingest_add_label(tsr_ingest *ingest, uint32_t column, const void *bytes, uint64_t size, tsr_error *error);

/* Like tsr_ingest_set_integer, for unsigned values of 64 bits. */
int tsr__ingest_set_unsigned(tsr_ingest *ingest, uint32_t column, uint64_t value, tsr_error *error);

/* Returns true if a column is typed, and its values are single numbers, BOOLs, datetimes or times. */
bool tsr__ingest_is_single(const tsr_ingest_kept *column);

/* Fails unless an integer fits a typed column. */
int tsr__ingest_fits(const tsr_ingest_kept *column, int64_t value, tsr_error *error);

/* Fails if a word of a dimension's class is outside of its known domain. */
int tsr__ingest_check_box(const tsr_ingest_kept *column, const uint8_t word[8], tsr_error *error);

/* Completes the growing part. */
int tsr__ingest_end_part(tsr_ingest *ingest, tsr_error *error);

/* Records the numbers of the current row and of those after it, if rows may be dropped later: call before `count` rows
 * are added. */
int tsr__ingest_number_rows(tsr_ingest *ingest, uint64_t count, tsr_error *error);
uint64_t tsr__ingest_part_rows(const tsr_ingest *ingest, uint64_t part);

/* For an array with a single dimension: *key is the order key of the first coordinate after all of its cells, *room the
 * number of coordinates left in the domain from there on. */
int tsr__ingest_next_row(tsr_array *array, uint64_t *key, uint64_t *room, tsr_error *error);

/* Removes from all columns of one part the rows whose bit is set in `out`. The part begins at bit `first`. */
int tsr__ingest_shrink_part(tsr_ingest *ingest, uint64_t part, const uint8_t *out, uint64_t first, tsr_error *error);

/* Loads one column of one part. If an integer column has become a column of reals, its integers are converted. */
int tsr__ingest_load(tsr_ingest *ingest, uint32_t column, uint64_t part, tsr_buffer *scratch, tsr_ingest_values *values,
                     tsr_error *error);

typedef struct tsr_ingest_cells { /* the memory of one column's cells */
  tsr_buffer scratch, cells, offsets; /* the loaded part; narrowed values; offsets of strings */
} tsr_ingest_cells;

void tsr__ingest_cells_begin(tsr_ingest_cells *cells, tsr_memory *memory);
void tsr__ingest_cells_end(tsr_ingest_cells *cells);

/* Converts one column of one part to cells of a field. They are borrowed until the same memory is used again. May run
 * on any thread, with separate memory, once no more rows are added. */
int tsr__ingest_cells(tsr_ingest *ingest, uint32_t column, uint64_t part, const tsr_field *field,
                      tsr_ingest_cells *memory, tsr_column *cells, tsr_error *error);

/* Ends the last part. Infers the datatypes of untyped columns; without `must`, a column without values gets the
 * datatype `empty` of its options, or TSR_ANY. */
int tsr__ingest_decide(tsr_ingest *ingest, bool must, tsr_error *error);

/* Parses the instants of loaded texts into `words`, 8 bytes for each row, and makes them the values. */
void tsr__ingest_parse_instants(const tsr_ingest_kept *column, uint8_t *words, tsr_ingest_values *values);

/* Describes a column that is not a dimension as an attribute. *enumeration is set, with offsets in the ingest's arena,
 * if the column has labels. */
int tsr__ingest_field(tsr_ingest *ingest, uint32_t column, tsr_field *field, tsr_enumeration *enumeration,
                      tsr_error *error);

/* Replaces one column of one part by integers, which the ingest frees. */
int tsr__ingest_replace_part(tsr_ingest *ingest, uint32_t column, uint64_t part, uint64_t *words, uint64_t rows,
                             tsr_error *error);

/* Converts a word, the bits of an integer or a double, to one value of a datatype. */
void tsr__ingest_narrow_value(tsr_datatype datatype, bool is_real, uint64_t word, uint8_t out[8]);

/* Returns the default filters of a field. */
tsr_pipeline tsr__ingest_filters(const tsr_field *field);

static inline tsr_ingest_part *tsr__ingest_part(const tsr_ingest_kept *column, uint64_t part) {
  return (tsr_ingest_part *)(void *)column->parts.data + part;
}

/* Returns the value in row `row` of integers or reals of 8 bytes. */
static inline uint64_t tsr__ingest_word(const tsr_ingest_values *values, uint64_t row) {
  uint64_t word;
  memcpy(&word, values->values + row * sizeof word, sizeof word);
  return word;
}

/* ---- labels.c: columns that become labels of dimensions ---------------------------------------------------------- */

/* Replaces the values of all label columns by coordinates, once all rows are there and all columns have a datatype.
 * TSR_CONSTRAINT: values of this type cannot be labels; TSR_RANGE: an existing label lacks a value. */
int tsr__ingest_recode_labels(tsr_ingest *ingest, tsr_error *error);

/* Adds the labels to a schema whose dimensions are set. */
int tsr__ingest_label_schemas(tsr_ingest *ingest, tsr_schema *schema, tsr_error *error);

/* Writes the values of all labels into an array that was created with the schema. */
int tsr__ingest_write_labels(tsr_ingest *ingest, tsr_array *array, tsr_error *error);

void tsr__ingest_release_labels(tsr_ingest *ingest);

/* ---- deduplicate.c: rows that have the coordinates of an earlier row --------------------------------------------- */

/* Makes *twice a bitmap with one bit for each row, set if an earlier row has the same coordinates; *count is the number
 * of set bits. All rows must be there, and all columns must have a datatype. The caller frees *twice, which is charged
 * to the ingest's budget. The search itself takes at most a quarter of the budget: for many rows it makes several
 * passes. */
int tsr__ingest_find_duplicates(tsr_ingest *ingest, uint8_t **duplicates, uint64_t *count, tsr_error *error);

/* Appends the coordinates of the first row whose bit is set, as (1, 2), with labels in place of their coordinates. */
int tsr__ingest_print_first(tsr_ingest *ingest, const uint8_t *duplicates, tsr_buffer *out, tsr_error *error);

/* Drops the rows that have the coordinates of an earlier row, and reports each to the caller of the ingest. Does
 * nothing if the options do not ask for it, or if it was done before. */
int tsr__ingest_leave_out_duplicates(tsr_ingest *ingest, tsr_error *error);

/* ---- axis.c: the dimensions: the box of the rows, domains and extents -------------------------------------------- */

#define INGEST_CAPACITY 10000 /* cells per tile of a sparse array */

/* One dimension. Values and extents are words: an integer's bits, extended to 64, or those of a double. */
typedef struct ingest_axis {
  const tsr_ingest_kept *column; /* NULL: `row` */
  tsr_datatype datatype;
  bool is_text, is_real, bounded, finite; /* bounded: there are rows */
  uint64_t low, high; /* the rows' box */
  uint64_t length; /* integers: high - low + 1; 0: 2^64 */
  bool has_extent;
  uint64_t extent;
  uint64_t given_low, given_high, given_extent; /* what the column's options specify */
} ingest_axis;

/* Finds the rows' box in one dimension, and adopts domain and extent of the column's options. TSR_CONSTRAINT: the
 * column cannot be a dimension. */
int tsr__ingest_axis_open(const tsr_ingest *ingest, uint32_t column, ingest_axis *axis, tsr_error *error);

/* Chooses the extents of a dense array: starts with the lengths of the domains, and halves the largest while a tile has
 * too many cells. */
void tsr__ingest_dense_extents(ingest_axis *axes, uint32_t count);

/* Chooses the extents of a sparse array of `rows` rows, so that its cells are ordered by space tile and neighbours are
 * close in all dimensions. If that is useless, as for Hilbert order, or impossible, only labels get extents. */
void tsr__ingest_sparse_extents(ingest_axis *axes, uint32_t count, uint64_t rows, bool hilbert);

/* Describes a dimension. A dense array ends where its rows end, unless it grows: then *current is its current domain. A
 * sparse array accepts rows anywhere, but a dimension with labels ends with its rows unless it grows. TSR_RANGE: the
 * rows are outside of the specified domain. */
int tsr__ingest_dimension(const ingest_axis *axis, bool dense, bool row_grows, tsr_field *field, tsr_interval *current,
                          tsr_error *error);

#endif
