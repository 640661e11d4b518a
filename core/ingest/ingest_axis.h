/* ingest_axis.h: the dimensions of an ingest's rows while the schema is made: the box of the rows, domains and extents. */
#ifndef TSR_INGEST_AXIS_H
#define TSR_INGEST_AXIS_H

#include "ingest/ingest.h"

#define INGEST_CAPACITY 10000 /* cells of a tile of a sparse array */

/* One dimension. Values and extents are words: an integer's bits, extended to 64, or those of a double. */
typedef struct ingest_axis {
  const tsr_ingest_kept *column; /* NULL: `row` */
  tsr_datatype datatype;
  bool is_text, is_real, bounded, finite; /* bounded: there are rows */
  uint64_t low, high; /* the rows' box */
  uint64_t length; /* integers: high - low + 1; 0: 2^64 */
  bool has_extent;
  uint64_t extent;
  uint64_t given_low, given_high, given_extent; /* what the column gives */
} ingest_axis;

/* Finds the rows' box in one dimension, and takes what the column gives. TSR_CONSTRAINT: the column cannot be a dimension. */
int tsr__ingest_axis_open(const tsr_ingest *ingest, uint32_t column, ingest_axis *axis, tsr_error *error);

/* Chooses the extents of a dense array: the lengths of the domains, of which the largest is halved while a tile has too
 * many cells. */
void tsr__ingest_dense_extents(ingest_axis *axes, uint32_t count);

/* Chooses the extents of a sparse array of `rows` rows, whose cells are in the order of their space tiles then, so that
 * neighbours lie near each other in all dimensions. Only labels have extents if that has no use, as for cells in Hilbert
 * order, or is not possible. */
void tsr__ingest_sparse_extents(ingest_axis *axes, uint32_t count, uint64_t rows, bool hilbert);

/* Describes a dimension. A dense array ends where its rows end, unless it grows: then *current is its current domain. A
 * sparse array takes rows anywhere. TSR_RANGE: the rows lie outside of the domain that was given. */
int tsr__ingest_dimension(const ingest_axis *axis, bool dense, bool row_grows, tsr_field *field, tsr_interval *current,
                          tsr_error *error);

#endif
