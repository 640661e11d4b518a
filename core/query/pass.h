/* pass.h: aggregates over moving frames along one axis of a box of cells.
 *
 * A box holds cells in row-major order. Seen from one axis it is outer x count x inner cells, and the cells that differ
 * only in their position on the axis are a line. All lines have the same frames: for each position, a range of
 * positions whose ends never decrease.
 *
 * Each frame is cut in two at a position that its host has chosen, and its aggregate combines what lies before the cut
 * with what lies after it. Nothing is ever subtracted, so the work is linear in the cells whatever the frames' length,
 * and a result depends on the values of its frame and on the cut alone.
 *
 * A neighbourhood that is no box is a list of offsets, whose cells are added one after the other.
 */
#ifndef TSR_QUERY_PASS_H
#define TSR_QUERY_PASS_H

#include <stdatomic.h>

#include "tessera.h"
#include "base/memory.h"

/* The frame of a position. It is empty if first > last; else first < cut <= last + 1. */
typedef struct tsr_frame {
  int64_t first, last, cut;
} tsr_frame;

typedef struct tsr_lines { /* a box, seen from an axis */
  uint64_t outer, count, inner;
  uint64_t from, to; /* positions that get results */
  const tsr_frame *frames; /* [count]; those of from..to-1 are set, and lie within the axis */
} tsr_lines;

/* What is known of a cell beside its value. */
enum { TSR_KNOWN_VALUE, TSR_KNOWN_NULL, TSR_KNOWN_MISSING }; /* MISSING: no row of SQL */

#define TSR_PASS_PARTS 3u /* words that a partial aggregate has, at most */

/* What sums have found out about the values of a box, for other passes over them. `= {0}`: nothing. */
typedef struct tsr_pass_values {
  bool measured;
  double most; /* the greatest magnitude of a finite value */
  int unit, no_unit; /* all are multiples of 2^unit, but not of 2^no_unit; INT_MIN, INT_MAX: not known of any */
} tsr_pass_values;

typedef struct tsr_pass {
  tsr_aggregate_function function;
  tsr_value_type type; /* of the argument: INTEGER, UNSIGNED, REAL or TEXT; to be counted, any; NULL: there is none */
  double percent; /* PERCENTILE */
  uint64_t nth; /* NTH: from 1 */
  bool from_end; /* NTH: from the last cell */
  /* by cell of the box: int64_t, uint64_t, double or tsr_text_value; and what is known of it. A REAL that is NaN is
   * null */
  const void *values;
  const uint8_t *known; /* may be NULL for REAL, if the function has partial aggregates */
  tsr_pass_values *found; /* of `values`, or NULL; not for several passes at once */
  /* An aggregate over several axes takes one pass for each: the first reads values, the others the `partial` words that
   * the pass before made; the last makes results, the others partial words in `made`. */
  bool first, last;
  uint64_t *partial[TSR_PASS_PARTS], *made[TSR_PASS_PARTS];
  /* by cell of the box: the results, and 1 for those that are not null (not for REAL, whose null is NaN) */
  void *results;
  uint8_t *valid;
  atomic_bool overflow; /* a sum of integers does not fit into 64 bits */
} tsr_pass;

/* Returns the type of the result for an argument of a type; OPAQUE if the function does not take it. */
tsr_value_type tsr__pass_type(tsr_aggregate_function function, tsr_value_type argument);

/* Returns the number of words of a partial aggregate; 0 if the function has none, so that it takes only one axis. */
uint32_t tsr__pass_parts(const tsr_pass *pass);

/* Runs a pass over all lines. Results do not depend on the number of threads. */
int tsr__pass_run(tsr_pass *pass, const tsr_lines *lines, unsigned threads, tsr_memory *memory, tsr_error *error);

/* Cells at offsets from each cell of a box. Offsets that lead out of the box are left out. */
typedef struct tsr_offsets {
  uint32_t dimensions;
  const uint64_t *extents, *from, *to; /* [dimensions]: the box, and in each dimension the cells that get results */
  const tsr_window_kernel *kernel; /* in the order in which its cells are added */
} tsr_offsets;

/* Runs a pass over the cells at offsets: first and last are ignored. `argument` is the type of pass->values, NULL:
 * there are none; pass->type is that of their products with the weights. Results do not depend on the number of
 * threads. */
int tsr__pass_offsets(tsr_pass *pass, tsr_value_type argument, const tsr_offsets *offsets, unsigned threads,
                      tsr_memory *memory, tsr_error *error);

/* Returns the type of argument * weight; NULL: there is none of one. OPAQUE: they have no product. */
tsr_value_type tsr__pass_product(tsr_value_type argument, tsr_value_type weight);

/* Returns a percentile, interpolated between two neighbours, of sorted values that are `step` doubles apart; NaN if
 * there are none. */
double tsr__percentile(const double *sorted, uint64_t step, uint64_t count, double percent);

/* Chooses the cut of each frame of an axis. It depends on the frames before it alone. */
void tsr__frames_cut(const tsr_window_frame *frames, uint64_t count, int64_t *cuts);

#endif
