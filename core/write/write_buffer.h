/* write_buffer.h: columns of cells in the order in which they come, and what they may hold. */
#ifndef TSR_WRITE_BUFFER_H
#define TSR_WRITE_BUFFER_H

#include "base/memory.h"
#include "model/datatype.h"

typedef struct tsr_buffered tsr_buffered;

void tsr__buffered_init(tsr_buffered *column, tsr_memory *memory);
void tsr__buffered_release(tsr_buffered *column);

/* Appends cells selection[0..count) of a column (NULL: the first `count`). */
int tsr__buffered_append(const tsr_field *field, tsr_buffered *to, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error);

typedef struct tsr_limit { /* what the cells of a field may be */
  uint64_t size; /* 0: variable */
  uint64_t low, high; /* keys, where it is bounded */
  tsr_physical_type machine;
  tsr_datatype datatype;
  bool bounded, nullable;
  bool general; /* the checks below alone know */
} tsr_limit;

void tsr__limit_make(const tsr_schema *schema, uint32_t field, tsr_limit *limit);

/* Appends the first cell of `columns`, of all fields, where there is room and nothing to object: false leaves all as it
 * was, and the functions here that take many cells say why, or make room. *bytes: what the cell takes. */
bool tsr__buffered_append_cell(const tsr_limit *limits, uint32_t fields, tsr_buffered *to, const tsr_column *columns,
                               uint64_t *bytes);
void tsr__buffered_truncate(const tsr_field *field, tsr_buffered *column, uint64_t count);

/* Gives back most of the room that its cells do not need. */
void tsr__buffered_shrink(tsr_buffered *column);

/* Its cells from `first` on. */
tsr_column tsr__buffered_column(const tsr_field *field, const tsr_buffered *column, uint64_t first);
uint64_t tsr__buffered_bytes(const tsr_buffered *column);

/* Are coordinates within the domain, and values not null where they cannot be? */
int tsr__check_coordinates(const tsr_schema *schema, uint32_t dimension, const tsr_column *column,
                           const uint32_t *selection, uint64_t count, tsr_error *error);
int tsr__check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                     tsr_error *error);

/* Do floats that are there fit the integers of a filter scale_float, if that is the field's first? */
int tsr__check_scaled(const tsr_schema *schema, uint32_t field, const tsr_column *column, const uint32_t *selection,
                      uint64_t count, tsr_error *error);

#endif
