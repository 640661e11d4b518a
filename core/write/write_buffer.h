/* write_buffer.h: columns of cells in the order in which they are appended, and the checks of what they may hold. */
#ifndef TSR_WRITE_BUFFER_H
#define TSR_WRITE_BUFFER_H

#include "base/memory.h"
#include "model/datatype.h"

typedef struct tsr_buffered { /* a column of cells in the order in which they were appended */
  tsr_buffer values, offsets, validity; /* variable size: count + 1 offsets; none before the first append */
} tsr_buffered;

/* Makes an empty column that `memory` pays for. */
void tsr__buffered_init(tsr_buffered *column, tsr_memory *memory);
void tsr__buffered_release(tsr_buffered *column);

/* Appends cells selection[0..count) of a column; if `selection` is NULL, its first `count` cells. After an error the
 * column may have some of these cells in parts: truncate it. */
int tsr__buffered_append(const tsr_field *field, tsr_buffered *to, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error);

typedef struct tsr_limit { /* the limits of a field's cells, for tsr__buffered_append_cell */
  uint64_t size; /* bytes; 0: variable size */
  uint64_t low, high; /* order keys, if `bounded` */
  tsr_physical_type physical;
  tsr_datatype datatype;
  bool bounded, nullable;
  bool general; /* only the checks for many cells below can tell */
} tsr_limit;

/* Finds the limits of a field. */
void tsr__limit_make(const tsr_schema *schema, uint32_t field, tsr_limit *limit);

/* Appends the first cell of `columns`, which are those of all fields, if each column has room and the cell keeps to the
 * limits; sets *bytes to the bytes that the cell takes. Otherwise returns false and changes nothing: the functions for
 * many cells make room, or tell the error. */
bool tsr__buffered_append_cell(const tsr_limit *limits, uint32_t fields, tsr_buffered *to, const tsr_column *columns,
                               uint64_t *bytes);

/* Keeps the first `count` cells. */
void tsr__buffered_truncate(const tsr_field *field, tsr_buffered *column, uint64_t count);

/* Gives back most of the memory that the column's cells do not need. */
void tsr__buffered_shrink(tsr_buffered *column);

/* Returns the cells from index `first` on as a column, borrowed until the next change. */
tsr_column tsr__buffered_column(const tsr_field *field, const tsr_buffered *column, uint64_t first);

/* Returns the bytes of memory that the column has. */
uint64_t tsr__buffered_bytes(const tsr_buffered *column);

/* Checks that coordinates lie within the domain and the current domain: cells selection[0..count) of a column; if
 * `selection` is NULL, its first `count` cells. Errors: TSR_RANGE. */
int tsr__check_coordinates(const tsr_schema *schema, uint32_t dimension, const tsr_column *column,
                           const uint32_t *selection, uint64_t count, tsr_error *error);

/* Checks that a field that is not nullable gets no null. Errors: TSR_CONSTRAINT. */
int tsr__check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                     tsr_error *error);

/* Checks that floats fit the integers of a filter scale_float, if that is the field's first filter; nulls are passed
 * over. Errors: TSR_RANGE. */
int tsr__check_scaled(const tsr_schema *schema, uint32_t field, const tsr_column *column, const uint32_t *selection,
                      uint64_t count, tsr_error *error);

#endif
