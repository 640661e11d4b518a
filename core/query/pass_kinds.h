/* pass_kinds.h: aggregates that combine, for the files that run them: passes.c along an axis, offsets.c around cells.
 *
 * A partial aggregate of TSR_LANES lanes is a tsr_row: one array of words for each of its parts. `extend` adds one cell
 * to each lane, `merge` another partial aggregate, for `n` lanes. The output may be the first input.
 */
#ifndef TSR_QUERY_PASS_KINDS_H
#define TSR_QUERY_PASS_KINDS_H

#include "query/pass.h"

#define TSR_LANES 256u

typedef struct tsr_row { /* of TSR_LANES words each */
  uint64_t *words[TSR_PASS_PARTS];
} tsr_row;

typedef struct tsr_pass_kind {
  uint32_t parts;
  void (*clear)(const tsr_row *row, uint32_t n);
  void (*extend)(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out, uint32_t n);
  void (*merge)(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n);
} tsr_pass_kind;

/* The loops over lanes: out[i] depends on a[i] alone, although `out` may be `a`. */
#if defined(__clang__)
#define TSR_EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (uint32_t i = 0; i < n; i++)
#else
#define TSR_EACH_LANE _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++)
#endif

#define TSR_REALS(row, part)    ((double *)(void *)(row)->words[part])
#define TSR_INTEGERS(row, part) ((int64_t *)(void *)(row)->words[part])

/* Returns the kind of a pass; NULL: it has no partial aggregates. */
const tsr_pass_kind *tsr__pass_kind_of(const tsr_pass *pass);

/* Writes the results of the first n lanes of a row. */
void tsr__pass_results(tsr_pass *pass, const tsr_row *row, uint32_t n, uint64_t *out, uint8_t *valid);

#define TSR_PASS_TASKS 16u /* that share the work of a pass, at most */

#endif
