/* regrid.c: makes a dense array whose cells are blocks of another array's cells: their mean, sum, minimum, maximum,
 * count, nearest cell or mode.
 *
 * Parts. The blocks are computed part by part: a part is a box of the new array that fits into memory, cut at its tiles
 * if possible. If each block lies in one tile of the source, the threads reduce decoded tiles one by one; otherwise the
 * cells of a part are read into memory and reduced there. Then the part is written in one commit: as one box if all of
 * its blocks have a written cell, else cell by cell. If these cells form more boxes than a commit may have, the part is
 * halved.
 *
 * Reducing. A row of blocks lies along the last dimension. Its task goes through the rows of cells in these blocks, one
 * after the other, and adds each to accumulators, one for each block of the row. So the cells of a block are always
 * added in row-major order, by one thread, and the result does not depend on the number of threads. Integers are summed
 * exactly, floats in doubles. Nulls, NaN and NaT are left out. The mode needs all values of a block at once: they are
 * gathered and sorted.
 *
 * The usual halving, sums and means of pairs of cells that all have values, uses loops without conditions, which
 * compilers vectorize. They add NaN, too: if a sum turns out NaN, the row of blocks is computed again with conditions.
 *
 * Sections: rows of cells; rows of blocks; reductions; the schema of the new array; a part; all parts; entry.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/pool.h"
#include "read/block.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"

#define TASKS_FOR_A_THREAD 16

/* Memory of an arena may be aligned to 8 bytes only: SQLite's allocator guarantees no more. */
typedef tsr_wide regrid_wide __attribute__((aligned(8)));

typedef struct box_reduction { /* from a box of cells to a box of blocks; arrays are by dimension */
  tsr_regrid_method method;
  const tsr_field *from, *to; /* the source's attribute, and the new array's */
  uint32_t dimensions;
  const uint64_t *factors;
  const uint64_t *cells, *blocks; /* the side lengths of both boxes; the last block of a side may be shorter */
  const uint64_t *stride, *out_stride; /* distance between neighbouring cells, or blocks; 1 on the last dimension */
  const uint8_t *values, *states; /* of the cells; states are tsr_cell_state; NULL: all cells have values */
  uint8_t *out, *out_states; /* of the blocks: values of `to`; the state is UNWRITTEN if no cell was written */
  tsr_memory *memory;
} box_reduction;

typedef struct regrid_row { /* a row of blocks, and its accumulators by block */
  const box_reduction *r;
  uint64_t blocks, cells, factor; /* on the last dimension */
  uint64_t *counts; /* number of values */
  uint8_t *states; /* 0: no cell was written yet */
  void *sums; /* one accumulator of at most 16 bytes per block */
  uint8_t *gathered; /* mode: the values of the blocks, with room for `block_cells` each */
  uint8_t *all_values; /* states of a row of cells that all have values */
  uint64_t block_cells;
  bool has_nat;
} regrid_row;

/* ---- Rows of cells ----------------------------------------------------------------------------------------------- */

/* `skip` is true for values that count as null. */
#define DEFINE_REDUCE(name, type, wide, skip)                                                                          \
  static void reduce_sum_##name(const regrid_row *w, const type *values, const uint8_t *states, uint64_t block,        \
                                uint64_t n) {                                                                          \
    wide *sums = w->sums;                                                                                              \
    wide sum = sums[block];                                                                                            \
    uint64_t count = 0;                                                                                                \
    for (uint64_t i = 0; i < n; i++) {                                                                                 \
      const type v = values[i];                                                                                        \
      const bool counts = states[i] == TSR_CELL_VALUE && !(skip);                                                      \
      sum += counts ? (wide)v : 0;                                                                                     \
      count += counts;                                                                                                 \
    }                                                                                                                  \
    sums[block] = sum;                                                                                                 \
    w->counts[block] += count;                                                                                         \
  }                                                                                                                    \
  static void reduce_end_##name(const regrid_row *w, const type *values, const uint8_t *states, uint64_t block,        \
                                uint64_t n) {                                                                          \
    type *ends = w->sums;                                                                                              \
    const bool max = w->r->method == TSR_REGRID_MAX;                                                                   \
    for (uint64_t i = 0; i < n; i++) {                                                                                 \
      const type v = values[i];                                                                                        \
      if (states[i] != TSR_CELL_VALUE || (skip)) continue;                                                             \
      if (!w->counts[block]++ || (max ? v > ends[block] : v < ends[block])) ends[block] = v;                           \
    }                                                                                                                  \
  }                                                                                                                    \
  static void reduce_gather_##name(const regrid_row *w, const type *values, const uint8_t *states, uint64_t block,     \
                                   uint64_t n) {                                                                       \
    type *to = (type *)(void *)w->gathered + block * w->block_cells;                                                   \
    for (uint64_t i = 0; i < n; i++) {                                                                                 \
      const type v = values[i];                                                                                        \
      if (states[i] == TSR_CELL_VALUE && !(skip)) to[w->counts[block]++] = v;                                          \
    }                                                                                                                  \
  }                                                                                                                    \
  static void reduce_cells_##name(const regrid_row *w, const uint8_t *bytes, const uint8_t *states) {                  \
    const type *values = (const type *)(const void *)bytes;                                                            \
    void (*add)(const regrid_row *, const type *, const uint8_t *, uint64_t, uint64_t) =                               \
        w->r->method == TSR_REGRID_MODE                                    ? reduce_gather_##name                      \
        : w->r->method == TSR_REGRID_MIN || w->r->method == TSR_REGRID_MAX ? reduce_end_##name                         \
                                                                           : reduce_sum_##name;                        \
    for (uint64_t block = 0, at = 0; at < w->cells; block++, at += w->factor)                                          \
      add(w, values + at, states + at, block, TSR_MIN(w->factor, w->cells - at));                                      \
  }                                                                                                                    \
  /* The usual halving: a row of cells has two cells of each block. */                                                 \
  static void reduce_pairs_##name(const regrid_row *w, const uint8_t *bytes, const uint8_t *states) {                  \
    const type *values = (const type *)(const void *)bytes;                                                            \
    wide *sums = w->sums;                                                                                              \
    for (uint64_t block = 0; block < w->cells / 2; block++) {                                                          \
      type v = values[2 * block];                                                                                      \
      const bool first = states[2 * block] == TSR_CELL_VALUE && !(skip);                                               \
      wide sum = sums[block] + (first ? (wide)v : 0);                                                                  \
      v = values[2 * block + 1];                                                                                       \
      const bool second = states[2 * block + 1] == TSR_CELL_VALUE && !(skip);                                          \
      sums[block] = sum + (second ? (wide)v : 0);                                                                      \
      w->counts[block] += (uint64_t)first + second;                                                                    \
    }                                                                                                                  \
    if (w->cells % 2) reduce_sum_##name(w, values + w->cells - 1, states + w->cells - 1, w->cells / 2, 1);             \
  }                                                                                                                    \
  static void reduce_mean_##name(const regrid_row *w, uint64_t block, uint8_t *out) {                                  \
    const double mean = (double)((wide *)w->sums)[block] / (double)w->counts[block];                                   \
    const float narrow = (float)mean;                                                                                  \
    if (w->r->to->datatype == TSR_FLOAT32) memcpy(out, &narrow, sizeof narrow);                                        \
    else memcpy(out, &mean, sizeof mean);                                                                              \
  }                                                                                                                    \
  /* The same for cells that all have values; they may be NaN: then reduce_is_plain is false. */                       \
  static void reduce_plain_##name(const regrid_row *w, const uint8_t *bytes) {                                         \
    const type *values = (const type *)(const void *)bytes;                                                            \
    wide *sums = w->sums;                                                                                              \
    for (uint64_t block = 0; block < w->cells / 2; block++) {                                                          \
      const wide sum = sums[block] + (wide)values[2 * block];                                                          \
      sums[block] = sum + (wide)values[2 * block + 1];                                                                 \
    }                                                                                                                  \
    if (w->cells % 2) sums[w->cells / 2] += (wide)values[w->cells - 1];                                                \
  }                                                                                                                    \
  static bool reduce_is_plain_##name(const regrid_row *w) {                                                            \
    const wide *sums = w->sums;                                                                                        \
    bool is = true;                                                                                                    \
    for (uint64_t block = 0; block < w->blocks; block++) is &= sums[block] == sums[block];                             \
    return is;                                                                                                         \
  }                                                                                                                    \
  static void reduce_plain_means_##name(const regrid_row *w, uint64_t rows, uint8_t *out) {                            \
    const double cells = 2 * (double)rows;                                                                             \
    const wide *sums = w->sums;                                                                                        \
    float *narrow = (float *)(void *)out;                                                                              \
    double *means = (double *)(void *)out;                                                                             \
    if (w->r->to->datatype == TSR_FLOAT32)                                                                             \
      for (uint64_t block = 0; block < w->cells / 2; block++) narrow[block] = (float)((double)sums[block] / cells);    \
    else                                                                                                               \
      for (uint64_t block = 0; block < w->cells / 2; block++) means[block] = (double)sums[block] / cells;              \
    if (w->cells % 2) reduce_mean_##name(w, w->cells / 2, out + w->cells / 2 * w->r->to->cell_size);                   \
  }                                                                                                                    \
  static int reduce_compare_##name(const void *a, const void *b) {                                                     \
    const type x = *(const type *)a, y = *(const type *)b;                                                             \
    return x < y ? -1 : x > y;                                                                                         \
  }                                                                                                                    \
  static void reduce_mode_##name(const regrid_row *w, uint64_t block, uint8_t *out) {                                  \
    type *values = (type *)(void *)w->gathered + block * w->block_cells;                                               \
    uint64_t most = 0;                                                                                                 \
    qsort(values, w->counts[block], sizeof *values, reduce_compare_##name);                                            \
    for (uint64_t i = 0, n; i < w->counts[block]; i += n) {                                                            \
      for (n = 1; i + n < w->counts[block] && values[i + n] == values[i]; n++) {}                                      \
      if (n > most) most = n, memcpy(out, &values[i], sizeof *values);                                                 \
    }                                                                                                                  \
  }

DEFINE_REDUCE(I8, int8_t, int64_t, false)
DEFINE_REDUCE(I16, int16_t, int64_t, false)
DEFINE_REDUCE(I32, int32_t, int64_t, false)
DEFINE_REDUCE(I64, int64_t, regrid_wide, w->has_nat &&v == INT64_MIN)
DEFINE_REDUCE(U8, uint8_t, int64_t, false)
DEFINE_REDUCE(U16, uint16_t, int64_t, false)
DEFINE_REDUCE(U32, uint32_t, int64_t, false)
DEFINE_REDUCE(U64, uint64_t, regrid_wide, false)
DEFINE_REDUCE(F32, float, double, v != v)
DEFINE_REDUCE(F64, double, double, v != v)
#undef DEFINE_REDUCE

static bool reduce_has_pairs(const regrid_row *w) {
  return w->factor == 2 && (w->r->method == TSR_REGRID_MEAN || w->r->method == TSR_REGRID_SUM);
}

static void reduce_cells(const regrid_row *w, tsr_physical_type type, const uint8_t *values, const uint8_t *states) {
  const bool pairs = reduce_has_pairs(w);
  switch (type) {
#define X(name, ctype)                                                                                                 \
  case TSR_PHYSICAL_##name:                                                                                            \
    if (pairs) reduce_pairs_##name(w, values, states);                                                                 \
    else reduce_cells_##name(w, values, states);                                                                       \
    break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

/* Notes whether cells were written and, with `count`, counts values: for types whose only nulls are states. */
static void reduce_written(const regrid_row *w, const uint8_t *states, bool count) {
  for (uint64_t block = 0, at = 0; at < w->cells; block++, at += w->factor)
    for (uint64_t i = at; i < TSR_MIN(w->cells, at + w->factor); i++) {
      w->states[block] |= states[i];
      w->counts[block] += count && states[i] == TSR_CELL_VALUE;
    }
}

/* ---- Rows of blocks ---------------------------------------------------------------------------------------------- */

/* Writes a block without a value: NaN or NaT if the attribute is not nullable, else zeros, whose validity says null. */
static void reduce_null(const box_reduction *r, uint8_t *out) {
  if (r->to->nullable) memset(out, 0, r->to->cell_size);
  else tsr_datatype_fill(r->to->datatype, out);
}

static int reduce_sum(const regrid_row *w, tsr_physical_type type, uint64_t block, uint8_t *out, tsr_error *error) {
  if (type == TSR_PHYSICAL_F32 || type == TSR_PHYSICAL_F64) {
    memcpy(out, (const double *)w->sums + block, sizeof(double));
    return TSR_OK;
  }
  const bool is_wide = type == TSR_PHYSICAL_I64 || type == TSR_PHYSICAL_U64;
  const regrid_wide sum = is_wide ? ((const regrid_wide *)w->sums)[block] : ((const int64_t *)w->sums)[block];
  const int64_t narrow = (int64_t)sum;
  if (sum != narrow)
    return tsr__fail(error, TSR_RANGE, "attribute '%s': integer overflow: a block's sum passes 64 bits",
                     w->r->from->name);
  memcpy(out, &narrow, sizeof narrow);
  return TSR_OK;
}

/* Returns the offset of a row of blocks in `out`, in blocks. */
static uint64_t reduce_out(const box_reduction *r, const uint64_t *block) {
  uint64_t at = 0;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) at += block[d] * r->out_stride[d];
  return at;
}

/* Returns the offset of a row of cells, in cells. */
static uint64_t reduce_in(const box_reduction *r, const uint64_t *cell) {
  uint64_t at = 0;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) at += cell[d] * r->stride[d];
  return at;
}

static int reduce_finish(const regrid_row *w, tsr_physical_type type, uint64_t first, tsr_error *error) {
  const box_reduction *r = w->r;
  for (uint64_t block = 0; block < w->blocks; block++) {
    uint8_t *out = r->out + (first + block) * r->to->cell_size;
    const bool has = w->counts[block] > 0 || r->method == TSR_REGRID_COUNT;
    r->out_states[first + block] = !w->states[block] ? TSR_CELL_UNWRITTEN : has ? TSR_CELL_VALUE : TSR_CELL_NULL;
    if (r->out_states[first + block] != TSR_CELL_VALUE) {
      reduce_null(r, out);
      continue;
    }
    if (r->method == TSR_REGRID_COUNT) memcpy(out, &w->counts[block], sizeof *w->counts);
    if (r->method == TSR_REGRID_SUM) TSR_TRY(reduce_sum(w, type, block, out, error));
    if (r->method == TSR_REGRID_MIN || r->method == TSR_REGRID_MAX)
      memcpy(out, (const uint8_t *)w->sums + block * r->from->cell_size, r->from->cell_size);
    switch (type) {
#define X(name, ctype)                                                                                                 \
  case TSR_PHYSICAL_##name:                                                                                            \
    if (r->method == TSR_REGRID_MEAN) reduce_mean_##name(w, block, out);                                               \
    if (r->method == TSR_REGRID_MODE) reduce_mode_##name(w, block, out);                                               \
    break;
      TSR_PHYSICAL_TYPES(X)
#undef X
    }
  }
  return TSR_OK;
}

/* Copies the nearest cell of each block in a row: the one at factor / 2, or the last one of a shorter block. */
static void reduce_nearest(const box_reduction *r, const uint64_t *block) {
  const uint64_t size = r->from->cell_size, first = reduce_out(r, block);
  const uint32_t last = r->dimensions - 1;
  uint64_t cell[TSR_MAX_DIMENSIONS];
  for (uint32_t d = 0; d < last; d++) cell[d] = TSR_MIN(block[d] * r->factors[d] + r->factors[d] / 2, r->cells[d] - 1);
  const uint64_t row = reduce_in(r, cell);
  for (uint64_t x = 0; x < r->blocks[last]; x++) {
    const uint64_t at = row + TSR_MIN(x * r->factors[last] + r->factors[last] / 2, r->cells[last] - 1);
    memcpy(r->out + (first + x) * size, r->values + at * size, size);
    r->out_states[first + x] = r->states ? r->states[at] : TSR_CELL_VALUE;
    if (r->out_states[first + x] == TSR_CELL_NULL) reduce_null(r, r->out + (first + x) * size);
  }
}

/* Moves to the next row of cells in a row of blocks. Returns false if there is none. */
static bool reduce_next_row(const box_reduction *r, const uint64_t *block, uint64_t *cell) {
  for (uint32_t d = r->dimensions - 1; d-- > 0;) {
    if (++cell[d] < TSR_MIN(r->cells[d], (block[d] + 1) * r->factors[d])) return true;
    cell[d] = block[d] * r->factors[d];
  }
  return false;
}

/* Adds all rows of cells in a row of blocks. */
static void reduce_rows(const regrid_row *w, tsr_physical_type type, const uint64_t *block) {
  const box_reduction *r = w->r;
  const bool is_text = tsr_datatype_kind(r->from->datatype) == TSR_KIND_TEXT ||
                       tsr_datatype_kind(r->from->datatype) == TSR_KIND_BYTES || r->from->values_per_cell != 1;
  uint64_t cell[TSR_MAX_DIMENSIONS];
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) cell[d] = block[d] * r->factors[d];
  do {
    const uint64_t row = reduce_in(r, cell);
    const uint8_t *states = r->states ? r->states + row : w->all_values;
    reduce_written(w, states, is_text);
    if (!is_text) reduce_cells(w, type, r->values + row * r->from->cell_size, states);
  } while (reduce_next_row(r, block, cell));
}

/* The same without conditions; also writes means. Returns false, and writes nothing, if a sum is NaN. */
static bool reduce_plain_rows(const regrid_row *w, tsr_physical_type type, const uint64_t *block) {
  const box_reduction *r = w->r;
  const uint64_t first = reduce_out(r, block);
  uint64_t cell[TSR_MAX_DIMENSIONS], rows = 0;
  bool is_plain = false;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) cell[d] = block[d] * r->factors[d];
  do {
    const uint8_t *values = r->values + reduce_in(r, cell) * r->from->cell_size;
    switch (type) {
#define X(name, ctype)                                                                                                 \
  case TSR_PHYSICAL_##name: reduce_plain_##name(w, values); break;
      TSR_PHYSICAL_TYPES(X)
#undef X
    }
    rows++;
  } while (reduce_next_row(r, block, cell));
  for (uint64_t b = 0; b < w->blocks; b++) w->counts[b] = 2 * b + 1 < w->cells ? 2 * rows : rows;
  memset(w->states, TSR_CELL_VALUE, w->blocks);
  switch (type) {
#define X(name, ctype)                                                                                                 \
  case TSR_PHYSICAL_##name:                                                                                            \
    is_plain = reduce_is_plain_##name(w);                                                                              \
    if (is_plain && r->method == TSR_REGRID_MEAN)                                                                      \
      reduce_plain_means_##name(w, rows, r->out + first * r->to->cell_size);                                           \
    break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
  if (is_plain) memset(r->out_states + first, TSR_CELL_VALUE, w->blocks);
  return is_plain;
}

/* Computes one row of blocks. */
static int reduce_row(regrid_row *w, tsr_physical_type type, uint64_t index, tsr_error *error) {
  const box_reduction *r = w->r;
  uint64_t block[TSR_MAX_DIMENSIONS];
  for (uint32_t d = r->dimensions - 1; d-- > 0; index /= r->blocks[d]) block[d] = index % r->blocks[d];
  if (r->method == TSR_REGRID_NEAREST) {
    reduce_nearest(r, block);
    return TSR_OK;
  }
  for (int plain = !r->states && !w->has_nat && reduce_has_pairs(w); plain >= 0; plain--) {
    memset(w->sums, 0, w->blocks * sizeof(regrid_wide));
    if (plain && reduce_plain_rows(w, type, block)) {
      if (r->method == TSR_REGRID_MEAN) return TSR_OK;
      break;
    }
    if (plain) continue;
    memset(w->counts, 0, w->blocks * sizeof *w->counts);
    memset(w->states, 0, w->blocks);
    reduce_rows(w, type, block);
  }
  return reduce_finish(w, type, reduce_out(r, block), error);
}

/* Computes the rows of blocks first..end-1. */
static int reduce_some_rows(const box_reduction *r, uint64_t first, uint64_t end, tsr_error *error) {
  const uint32_t last = r->dimensions - 1;
  const tsr_physical_type type = tsr__datatype_physical(r->from->datatype);
  const tsr_kind kind = tsr_datatype_kind(r->from->datatype);
  regrid_row w = {.r = r,
                  .blocks = r->blocks[last],
                  .cells = r->cells[last],
                  .factor = r->factors[last],
                  .block_cells = 1,
                  .has_nat = kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME};
  for (uint32_t d = 0; d <= last; d++) w.block_cells *= TSR_MIN(r->factors[d], r->cells[d]);
  tsr_arena arena;
  regrid_wide *sums = NULL;
  tsr__arena_init(&arena, r->memory);
  int rc = TSR_OK;
  if (r->method != TSR_REGRID_NEAREST) {
    rc = TSR_ARENA_ARRAY(&arena, w.blocks, &w.counts, error);
    if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, w.blocks, &w.states, error);
    if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, w.blocks, &sums, error);
    if (rc >= 0 && !r->states) rc = TSR_ARENA_ARRAY(&arena, w.cells, &w.all_values, error);
    if (rc >= 0 && !r->states) memset(w.all_values, TSR_CELL_VALUE, w.cells);
  }
  if (rc >= 0 && r->method == TSR_REGRID_MODE)
    rc = TSR_ARENA_RAW_BYTES(&arena, tsr__mul_sat(w.blocks * r->from->cell_size, w.block_cells), &w.gathered, error);
  w.sums = sums;
  for (uint64_t row = first; row < end && rc >= 0; row++) {
    rc = tsr__cancelled_after(r->memory, 0, w.cells, error);
    if (rc >= 0) rc = reduce_row(&w, type, row, error);
  }
  tsr__arena_release(&arena);
  return rc;
}

/* ---- Reductions ------------------------------------------------------------------------------------------------- */

typedef struct regrid_tasks {
  const box_reduction *reduction;
  uint64_t rows, rows_for_a_task;
} regrid_tasks;

static int reduce_task(void *argument, uint64_t index, tsr_error *error) {
  const regrid_tasks *t = argument;
  const uint64_t first = index * t->rows_for_a_task;
  return reduce_some_rows(t->reduction, first, first + TSR_MIN(t->rows_for_a_task, t->rows - first), error);
}

static uint64_t reduce_count_rows(const box_reduction *r) {
  uint64_t rows = 1;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) rows *= r->blocks[d];
  return rows;
}

/* Computes all blocks on up to `threads` threads. TSR_RANGE: a sum exceeds 64 bits. */
static int reduce(const box_reduction *reduction, unsigned threads, tsr_error *error) {
  regrid_tasks t = {.reduction = reduction, .rows = reduce_count_rows(reduction)};
  t.rows_for_a_task = TSR_MAX(1, t.rows / ((uint64_t)TASKS_FOR_A_THREAD * TSR_MAX(1, threads)));
  return tsr__parallel_for(threads, (t.rows + t.rows_for_a_task - 1) / t.rows_for_a_task, reduce_task, &t, error);
}

/* The same on the calling thread, which may be a worker. */
static int reduce_here(const box_reduction *reduction, tsr_error *error) {
  return reduce_some_rows(reduction, 0, reduce_count_rows(reduction), error);
}

#define REGRID_DEFAULT_MEMORY (UINT64_C(1) << 30)
#define REGRID_PART_MAX       (UINT64_C(256) << 20) /* most bytes of the cells of a part */
#define REGRID_PART_SHARE     6 /* a part takes at most 1/REGRID_PART_SHARE of the memory */

struct tsr_regrid {
  tsr_snapshot *snapshot;
  tsr_regrid_request request;
  tsr_memory memory;
  tsr_arena arena;
  tsr_schema schema; /* of the new array */
  uint32_t dimensions;
  uint32_t *sources; /* by field of the new array: the field of the source */
  const uint64_t *factors;
  uint64_t *extents; /* of the new array's tiles */
  uint64_t cell_bytes; /* the largest attribute cell in the source, with its state */
  uint64_t block_bytes; /* all values of a cell of the new array, with states and coordinates */
  unsigned threads;
  bool by_tiles; /* each block lies in one tile of the source */
  tsr_array *target;
  uint64_t written;
};

/* ---- The schema of the new array -------------------------------------------------------------------------------- */

static bool regrid_is_number(const tsr_field *f) {
  const tsr_kind kind = tsr_datatype_kind(f->datatype);
  return f->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

bool tsr_regrid_suits(tsr_regrid_method method, const tsr_field *attribute) {
  const tsr_kind kind = tsr_datatype_kind(attribute->datatype);
  if (attribute->is_dimension || !attribute->cell_size) return false;
  if (method == TSR_REGRID_COUNT || method == TSR_REGRID_NEAREST) return true;
  if (!regrid_is_number(attribute)) return false;
  if (method == TSR_REGRID_MODE) return true;
  if (attribute->enumeration) return false;
  return method == TSR_REGRID_MIN || method == TSR_REGRID_MAX || (kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME);
}

static const char *regrid_method_name(tsr_regrid_method method) {
  static const char *const names[] = {"mean", "sum", "min", "max", "count", "nearest", "mode"};
  return names[method];
}

static tsr_datatype regrid_datatype(const tsr_regrid *g, const tsr_field *from) {
  const bool is_float = tsr_datatype_kind(from->datatype) == TSR_KIND_FLOAT;
  switch (g->request.method) {
  case TSR_REGRID_MEAN:
    if (from->datatype == TSR_FLOAT32 || (g->request.narrow && from->cell_size <= 2)) return TSR_FLOAT32;
    return TSR_FLOAT64;
  case TSR_REGRID_SUM: return is_float ? TSR_FLOAT64 : TSR_INT64;
  case TSR_REGRID_COUNT: return TSR_UINT64;
  default: return from->datatype;
  }
}

/* Sets compressors to their fastest level. The source's own filters are not changed. */
static int make_quick(tsr_regrid *g, tsr_pipeline *filters, tsr_error *error) {
  const tsr_filter *from = filters->filters;
  if (filters->count == 0) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, filters->count, &filters->filters, error));
  for (uint32_t i = 0; i < filters->count; i++) {
    tsr_filter *f = &filters->filters[i];
    *f = from[i];
    if (f->type == TSR_FILTER_ZSTD || f->type == TSR_FILTER_GZIP || f->type == TSR_FILTER_BZIP2)
      f->level = f->type == TSR_FILTER_GZIP && f->level == 0 ? 0 : 1; /* gzip's level 0 does not compress */
  }
  return TSR_OK;
}

static int keep_filters(tsr_regrid *g, tsr_field *f, tsr_error *error) {
  tsr_error ignored;
  tsr_pipeline kept = f->filters;
  while (kept.count > 0 && tsr_filters_check(&kept, f->datatype, f->values_per_cell, f->is_dimension, &ignored) < 0)
    kept.filters++, kept.count--; /* drop filters of another datatype; compressors, checksums stay */
  if (g->request.quick) TSR_TRY(make_quick(g, &kept, error));
  f->filters = kept;
  return TSR_OK;
}

static int add_attribute(tsr_regrid *g, uint32_t field, tsr_error *error) {
  const tsr_snapshot *s = g->snapshot;
  const tsr_field *from = &s->schema->fields[field];
  tsr_field *to = &g->schema.fields[g->dimensions + g->schema.attribute_count];
  if (!tsr_regrid_suits(g->request.method, from))
    return tsr__fail(error, TSR_ERROR, "attribute '%s' is %s%s%s: it has no %s", from->name,
                     from->cell_size ? "" : "of variable length, ", from->enumeration ? "enumerated, " : "",
                     tsr_datatype_name(from->datatype), regrid_method_name(g->request.method));
  g->sources[g->dimensions + g->schema.attribute_count++] = field;
  *to = *from;
  to->datatype = regrid_datatype(g, from);
  to->nullable = from->nullable && g->request.method != TSR_REGRID_COUNT;
  for (uint64_t i = 0; i < s->fragment_count && g->request.method != TSR_REGRID_COUNT; i++)
    if (s->fragments[i].slots[field] < 0) to->nullable = true;
  if (g->request.skip_fill && tsr_datatype_kind(to->datatype) != TSR_KIND_FLOAT) to->nullable = true;
  if (g->request.method == TSR_REGRID_COUNT) {
    to->nullable = false;
    to->values_per_cell = 1;
    to->enumeration = NULL;
  }
  to->cell_size = to->values_per_cell * tsr_datatype_size(to->datatype);
  to->fill = NULL;
  to->fill_size = 0;
  to->fill_validity = 0;
  to->data_order = 0;
  TSR_TRY(keep_filters(g, to, error));
  g->cell_bytes = TSR_MAX(g->cell_bytes, from->cell_size + 1);
  g->block_bytes += to->cell_size + 1;
  return TSR_OK;
}

/* Sets the domain and the tile extent of a dimension of blocks. */
static int set_dimension(tsr_regrid *g, uint32_t d, tsr_error *error) {
  const tsr_grid *grid = &g->snapshot->grid;
  const tsr_datatype datatype = g->snapshot->schema->fields[d].datatype;
  tsr_field *to = &g->schema.fields[d];
  *to = g->snapshot->schema->fields[d];
  g->sources[d] = d;
  g->extents[d] = grid->extent[d];
  g->block_bytes += to->cell_size;
  if (g->factors[d] == 1) return TSR_OK;
  const uint64_t high = grid->last[d] / g->factors[d], zero = 0;
  const uint64_t room = tsr__key_max(datatype) - tsr__key(datatype, &zero);
  uint64_t extent = high == UINT64_MAX ? grid->extent[d] : TSR_MIN(grid->extent[d], high + 1);
  while (extent > 1 && tsr__mul_sat(high / extent + 1, extent) - 1 > room) extent /= 2;
  memset(to->low, 0, sizeof to->low);
  memcpy(to->high, &high, to->cell_size);
  memset(to->extent, 0, sizeof to->extent);
  memcpy(to->extent, &extent, to->cell_size);
  g->extents[d] = extent;
  return keep_filters(g, to, error);
}

/* Copies the enumerations of the remaining attributes, with their labels. */
static int set_enumerations(tsr_regrid *g, tsr_error *error) {
  const tsr_schema *source = g->snapshot->schema;
  const tsr_enumeration *loaded;
  tsr_schema *schema = &g->schema;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, source->enumeration_count, &schema->enumerations, error));
  schema->enumeration_count = 0;
  for (uint32_t e = 0; e < source->enumeration_count; e++) {
    bool used = false;
    for (uint32_t f = 0; f < schema->attribute_count; f++) {
      const char *name = schema->fields[g->dimensions + f].enumeration;
      used = used || (name && !strcmp(name, source->enumerations[e].name));
    }
    if (!used) continue;
    TSR_TRY(tsr_array_enumeration(g->snapshot->array, source, source->enumerations[e].name, &loaded, error));
    schema->enumerations[schema->enumeration_count++] = *loaded;
  }
  return TSR_OK;
}

static int make_schema(tsr_regrid *g, tsr_error *error) {
  const tsr_schema *source = g->snapshot->schema;
  const uint32_t n = source->dimension_count, count = n + source->attribute_count;
  uint64_t *factors;
  if (!source->dense)
    return tsr__fail(error, TSR_ERROR, "array %s is sparse: only dense ones have blocks", g->snapshot->array->path);
  g->schema = *source;
  g->schema.attribute_count = g->schema.label_count = 0;
  g->schema.labels = NULL;
  g->schema.current_domain = NULL;
  if (!layout_has_commits_folder(source->version) || source->version > TSR_FORMAT_WRITE_MAX) g->schema.version = 0;
  g->dimensions = n;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, count, &g->schema.fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, count, &g->sources, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, n, &g->extents, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, n, &factors, error));
  for (uint32_t d = 0; d < n; d++) {
    if (!g->request.factors[d])
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the factor is 0", source->fields[d].name);
    /* A factor above the side makes a single block. From twice the side on, half of it is past the last cell, which the
     * method "nearest" then takes: no greater factor gives other cells. */
    factors[d] =
        TSR_MIN(g->request.factors[d], TSR_MAX(2, tsr__mul_sat(2, tsr__add_sat(g->snapshot->grid.last[d], 1))));
  }
  g->factors = factors;
  g->by_tiles = true;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_grid *grid = &g->snapshot->grid;
    g->by_tiles = g->by_tiles && (grid->extent[d] % factors[d] == 0 || grid->last[d] < grid->extent[d]);
    TSR_TRY(set_dimension(g, d, error));
  }
  for (uint64_t i = 0; i < g->snapshot->fragment_count; i++)
    g->by_tiles = g->by_tiles && g->snapshot->fragments[i].fragment->metadata.dense;
  for (uint32_t f = n; f < count; f++)
    if (!g->request.fields || g->request.fields[f]) TSR_TRY(add_attribute(g, f, error));
  if (!g->schema.attribute_count)
    return tsr__fail(error, TSR_ERROR, "array %s: no attribute is left", g->snapshot->array->path);
  return set_enumerations(g, error);
}

/* ---- A part ------------------------------------------------------------------------------------------------------ */

typedef struct regrid_part { /* a box of blocks; by dimension */
  uint64_t *low, *high; /* coordinates of the new array as ordinals, inclusive */
  uint64_t *blocks, *cells; /* side lengths of the box of blocks, and of the box of cells */
  tsr_interval *box, *cell_box;
  uint64_t block_count, cell_count;
  tsr_column *columns; /* by field of the new array */
  uint8_t *states; /* of the blocks, for one attribute: all attributes have the same cells written */
} regrid_part;

static void regrid_value(const tsr_regrid *g, const tsr_field *f, uint32_t d, uint64_t ordinal, uint8_t *value) {
  const uint64_t zero = 0;
  const bool same = f == &g->snapshot->schema->fields[d] || g->factors[d] == 1;
  tsr__key_value(f->datatype, (same ? g->snapshot->grid.low_key[d] : tsr__key(f->datatype, &zero)) + ordinal, value);
}

/* Computes the boxes of a part from its `low` and `high`. */
static int regrid_locate(const tsr_regrid *g, tsr_arena *arena, regrid_part *p, tsr_error *error) {
  const uint32_t n = g->dimensions;
  TSR_TRY(TSR_ARENA_ARRAY(arena, n, &p->blocks, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, n, &p->cells, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, n, &p->box, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, n, &p->cell_box, error));
  p->block_count = p->cell_count = 1;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_field *from = &g->snapshot->schema->fields[d];
    const uint64_t last = g->snapshot->grid.last[d], low = p->low[d] * g->factors[d], end = p->high[d] * g->factors[d];
    const uint64_t high = last - end < g->factors[d] - 1 ? last : end + (g->factors[d] - 1);
    p->blocks[d] = p->high[d] - p->low[d] + 1;
    p->cells[d] = high - low + 1;
    regrid_value(g, &g->schema.fields[d], d, p->low[d], p->box[d].low);
    regrid_value(g, &g->schema.fields[d], d, p->high[d], p->box[d].high);
    regrid_value(g, from, d, low, p->cell_box[d].low);
    regrid_value(g, from, d, high, p->cell_box[d].high);
    p->block_count = tsr__mul_sat(p->block_count, p->blocks[d]);
    p->cell_count = tsr__mul_sat(p->cell_count, p->cells[d]);
  }
  return TSR_OK;
}

static bool regrid_is_nan(tsr_datatype datatype, const uint8_t *value) {
  float narrow;
  double wide;
  if (datatype == TSR_FLOAT32) memcpy(&narrow, value, sizeof narrow), wide = (double)narrow;
  else if (datatype == TSR_FLOAT64) memcpy(&wide, value, sizeof wide);
  else return false;
  return wide != wide;
}

static bool regrid_skips_fill(const tsr_regrid *g, const tsr_field *from) {
  uint8_t standard[8];
  if (!g->request.skip_fill || !from->fill || !regrid_is_number(from)) return false;
  if (regrid_is_nan(from->datatype, from->fill)) return false; /* NaN counts as null anyway */
  if (from->cell_size > 1) return true;
  tsr_datatype_fill(from->datatype, standard);
  return *from->fill != *standard;
}

/* Returns true if a cell has the fill value. If states are passed, sets those of such cells to null. */
static bool regrid_skip_fill(const tsr_field *from, const uint8_t *values, uint64_t count, uint8_t *states) {
  uint64_t fill = 0;
  bool found = false;
  memcpy(&fill, from->fill, from->cell_size);
#define SKIP_FILL(type)                                                                                                \
  for (uint64_t i = 0; i < count; i++) found |= ((const type *)(const void *)values)[i] == (type)fill;                 \
  for (uint64_t i = 0; i < count && found && states; i++)                                                              \
    if (((const type *)(const void *)values)[i] == (type)fill && states[i]) states[i] = TSR_CELL_NULL;
  switch (from->cell_size) {
  case 1: SKIP_FILL(uint8_t) break;
  case 2: SKIP_FILL(uint16_t) break;
  case 4: SKIP_FILL(uint32_t) break;
  default: SKIP_FILL(uint64_t)
  }
#undef SKIP_FILL
  return found;
}

typedef struct regrid_taking { /* the reduction of one attribute in one part */
  tsr_regrid *g;
  const regrid_part *part;
  const tsr_field *from, *to;
  const uint64_t *stride, *out_stride; /* strides of the part's cells, if read into memory, and of its blocks */
  uint8_t *out;
} regrid_taking;

static box_reduction regrid_reduction(const regrid_taking *t) {
  return (box_reduction){.method = t->g->request.method,
                         .from = t->from,
                         .to = t->to,
                         .dimensions = t->g->dimensions,
                         .factors = t->g->factors,
                         .cells = t->part->cells,
                         .blocks = t->part->blocks,
                         .stride = t->stride,
                         .out_stride = t->out_stride,
                         .out = t->out,
                         .out_states = t->part->states,
                         .memory = &t->g->memory};
}

/* Returns how much of memory_mb a read or write may take, besides the part that is in memory. */
static uint64_t regrid_left(const tsr_regrid *g) {
  const uint64_t used = g->memory.used;
  return used < g->memory.limit ? g->memory.limit - used : 1;
}

/* Reduces the cells of a tile, on a worker thread. */
static int regrid_take(void *argument, const tsr_block_tile *tile, tsr_error *error) {
  const regrid_taking *t = argument;
  box_reduction r = regrid_reduction(t);
  uint64_t cells[TSR_MAX_DIMENSIONS], blocks[TSR_MAX_DIMENSIONS], first = 0, span = 1;
  uint8_t *states = NULL;
  for (uint32_t d = 0; d < r.dimensions; d++) {
    const uint64_t block = tile->low[d] / r.factors[d];
    cells[d] = tile->high[d] - tile->low[d] + 1;
    blocks[d] = tile->high[d] / r.factors[d] - block + 1;
    first += (block - t->part->low[d]) * t->out_stride[d];
    span += (cells[d] - 1) * tile->stride[d];
  }
  r.cells = cells;
  r.blocks = blocks;
  r.stride = tile->stride;
  r.values = tile->values;
  r.states = tile->states;
  r.out += first * t->to->cell_size;
  r.out_states += first;
  if (regrid_skips_fill(t->g, t->from) && regrid_skip_fill(t->from, tile->values, span, NULL)) {
    TSR_TRY(TSR_ALLOC_RAW_BYTES(&t->g->memory, span, &states, error));
    if (tile->states) memcpy(states, tile->states, span);
    else memset(states, TSR_CELL_VALUE, span);
    (void)regrid_skip_fill(t->from, tile->values, span, states);
    r.states = states;
  }
  const int rc = reduce_here(&r, error);
  tsr__free(states);
  return rc;
}

/* Reads the cells of an attribute into memory, reduces them there, and frees them. */
static int read_cells(const regrid_taking *t, uint32_t field, tsr_error *error) {
  const regrid_part *p = t->part;
  tsr_regrid *g = t->g;
  uint8_t *values = NULL, *states = NULL;
  int rc = TSR_ALLOC_RAW_BYTES(&g->memory, tsr__mul_sat(p->cell_count, t->from->cell_size), &values, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW_BYTES(&g->memory, p->cell_count, &states, error);
  if (rc >= 0)
    rc = tsr__block_read(g->snapshot, g->sources[field], p->cell_box, regrid_left(g), g->request.threads, values,
                         p->cell_count * t->from->cell_size, states, error);
  if (rc >= 0 && regrid_skips_fill(g, t->from)) (void)regrid_skip_fill(t->from, values, p->cell_count, states);
  box_reduction r = regrid_reduction(t);
  r.values = values;
  r.states = states;
  if (rc >= 0) rc = reduce(&r, g->threads, error);
  tsr__free(values);
  tsr__free(states);
  return rc;
}

/* Computes the blocks of one attribute. */
static int regrid_attribute(tsr_regrid *g, tsr_arena *arena, regrid_part *p, uint32_t field, tsr_error *error) {
  const tsr_field *to = &g->schema.fields[field], *from = &g->snapshot->schema->fields[g->sources[field]];
  uint64_t *stride, *out_stride, cells = 1, blocks = 1;
  uint8_t *out;
  TSR_TRY(TSR_ARENA_RAW_BYTES(arena, tsr__mul_sat(p->block_count, to->cell_size), &out, error));
  TSR_TRY(TSR_ARENA_RAW_BYTES(arena, p->block_count, &p->states, error));
  TSR_TRY(TSR_ARENA_RAW(arena, 2 * (uint64_t)g->dimensions, &stride, error));
  out_stride = stride + g->dimensions;
  for (uint32_t d = g->dimensions; d-- > 0; cells *= p->cells[d], blocks *= p->blocks[d]) {
    stride[d] = cells;
    out_stride[d] = blocks;
  }
  regrid_taking t = {.g = g, .part = p, .from = from, .to = to, .stride = stride, .out_stride = out_stride, .out = out};
  int rc = g->by_tiles ? tsr__block_each(g->snapshot, g->sources[field], p->cell_box,
                                         regrid_left(g) / 4 * 3, /* leave the rest for the reduction */
                                         g->request.threads, regrid_take, &t, error)
                       : 0;
  if (rc == 0) rc = read_cells(&t, field, error);
  p->columns[field] = (tsr_column){.values = out, .cell_size = to->cell_size};
  if (rc >= 0 && to->nullable) { /* validity: 1 for a value */
    uint8_t *validity;
    TSR_TRY(TSR_ARENA_RAW_BYTES(arena, p->block_count, &validity, error));
    for (uint64_t i = 0; i < p->block_count; i++) validity[i] = p->states[i] == TSR_CELL_VALUE;
    p->columns[field].validity = validity;
  }
  return rc < 0 ? rc : TSR_OK;
}

/* Returns the bytes that append_cells takes besides the part. */
static uint64_t regrid_coordinates(const tsr_regrid *g, const regrid_part *p, uint64_t count) {
  uint64_t bytes = 0;
  for (uint32_t d = 0; d < g->dimensions; d++) bytes += g->schema.fields[d].cell_size;
  return p->block_count * bytes + count * sizeof(uint32_t);
}

/* Appends the blocks with a written cell, one by one. */
static int append_cells(const tsr_regrid *g, tsr_arena *arena, const regrid_part *p, uint64_t count, tsr_writer *writer,
                        tsr_error *error) {
  uint32_t *selection;
  uint64_t selected = 0, stride = 1;
  TSR_TRY(TSR_ARENA_RAW(arena, count, &selection, error));
  for (uint64_t i = 0; i < p->block_count; i++)
    if (p->states[i] != TSR_CELL_UNWRITTEN) selection[selected++] = (uint32_t)i;
  for (uint32_t d = g->dimensions; d-- > 0; stride *= p->blocks[d]) {
    const tsr_field *f = &g->schema.fields[d];
    uint8_t *values;
    TSR_TRY(TSR_ARENA_RAW_BYTES(arena, p->block_count * f->cell_size, &values, error));
    for (uint64_t i = 0; i < p->block_count; i++)
      regrid_value(g, f, d, p->low[d] + i / stride % p->blocks[d], values + i * f->cell_size);
    p->columns[d] = (tsr_column){.values = values, .cell_size = f->cell_size};
  }
  return tsr_writer_append(writer, p->columns, selection, count, error);
}

static int write_part(tsr_regrid *g, tsr_arena *arena, regrid_part *p, tsr_error *error) {
  const uint32_t fields = g->dimensions + g->schema.attribute_count;
  tsr_writer *writer = NULL;
  uint64_t count = 0;
  TSR_TRY(regrid_locate(g, arena, p, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, fields, &p->columns, error));
  for (uint32_t f = g->dimensions; f < fields; f++) TSR_TRY(regrid_attribute(g, arena, p, f, error));
  for (uint64_t i = 0; i < p->block_count; i++) count += p->states[i] != TSR_CELL_UNWRITTEN;
  if (!count) return TSR_OK;
  const uint64_t left = regrid_left(g), more = count == p->block_count ? 0 : regrid_coordinates(g, p, count);
  const tsr_writer_options options = {.memory_bytes = left > more ? left - more : 1, .threads = g->request.threads};
  int rc = tsr_writer_open(g->target, &options, &writer, error);
  if (rc >= 0)
    rc = count == p->block_count ? tsr_writer_append_box(writer, p->box, false, p->columns, error)
                                 : append_cells(g, arena, p, count, writer, error);
  if (rc >= 0) rc = tsr_writer_prepare(writer, error);
  if (rc >= 0) rc = tsr_writer_publish(writer, error);
  if (rc < 0 && writer) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  if (rc < 0) return rc;
  tsr_work_done(g->snapshot->array->environment, p->cell_count);
  g->written += count;
  return TSR_OK;
}

/* Writes the part low..high; in halves if its written blocks form too many boxes. A full disk is TSR_FULL as well: then
 * ever smaller parts fail, down to a single block, whose error is returned. */
static int part_of(tsr_regrid *g, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const uint32_t n = g->dimensions;
  tsr_arena arena;
  regrid_part p = {0};
  tsr__arena_init(&arena, &g->memory);
  int rc = TSR_ARENA_RAW(&arena, 2 * n, &p.low, error);
  if (rc >= 0) {
    p.high = p.low + n;
    memcpy(p.low, low, n * sizeof *low);
    memcpy(p.high, high, n * sizeof *high);
    rc = write_part(g, &arena, &p, error);
  }
  tsr__arena_release(&arena);
  uint32_t longest = 0;
  for (uint32_t d = 0; d < n; d++)
    if (high[d] - low[d] > high[longest] - low[longest]) longest = d;
  if (rc != TSR_FULL || high[longest] == low[longest]) return rc;
  uint64_t *ends;
  TSR_TRY(TSR_ARENA_RAW(&g->arena, 2 * n, &ends, error));
  memcpy(ends, low, n * sizeof *low);
  memcpy(ends + n, high, n * sizeof *high);
  ends[n + longest] = low[longest] + (high[longest] - low[longest]) / 2;
  TSR_TRY(part_of(g, ends, ends + n, error));
  ends[longest] = ends[n + longest] + 1;
  ends[n + longest] = high[longest];
  return part_of(g, ends, ends + n, error);
}

/* ---- All parts --------------------------------------------------------------------------------------------------- */

typedef struct regrid_walk { /* by dimension, in ordinals of the new array */
  uint64_t *low, *high; /* of all blocks to write */
  uint64_t *step; /* side lengths of the parts: a multiple of the extent, or less than the extent */
  uint64_t *at, *end; /* of the current part */
} regrid_walk;

/* Bounds the blocks that meet both the written cells and the request's box. Returns 0 if there are none. */
static int find_ends(tsr_regrid *g, regrid_walk *w, tsr_error *error) {
  const tsr_interval *all;
  const int rc = tsr_snapshot_non_empty_domain(g->snapshot, &all, error);
  if (rc <= 0) return rc;
  for (uint32_t d = 0; d < g->dimensions; d++) {
    const tsr_datatype datatype = g->snapshot->schema->fields[d].datatype;
    const uint64_t low_key = g->snapshot->grid.low_key[d];
    uint64_t low = tsr__key(datatype, all[d].low), high = tsr__key(datatype, all[d].high);
    if (g->request.box) {
      low = TSR_MAX(low, tsr__key(datatype, g->request.box[d].low));
      high = TSR_MIN(high, tsr__key(datatype, g->request.box[d].high));
    }
    if (low > high) return 0;
    w->low[d] = (low - low_key) / g->factors[d];
    w->high[d] = (high - low_key) / g->factors[d];
  }
  return 1;
}

/* Chooses the side lengths of the parts: whole tiles of the new array, cut along the first dimensions until a part
 * fits; less than a tile if a tile does not fit. */
static void regrid_plan(const tsr_regrid *g, regrid_walk *w) {
  const double budget = (double)TSR_MIN(REGRID_PART_MAX, g->memory.limit / REGRID_PART_SHARE);
  double bytes = 1;
  for (uint32_t d = 0; d < g->dimensions; d++) bytes *= (double)g->factors[d];
  bytes = (g->by_tiles ? 0 : bytes * (double)g->cell_bytes) + (double)g->block_bytes;
  for (uint32_t d = 0; d < g->dimensions; d++) {
    w->step[d] = w->high[d] - w->low[d] + 1;
    bytes *= (double)w->step[d];
  }
  for (int whole = 1; whole >= 0; whole--)
    for (uint32_t d = 0; d < g->dimensions && bytes > budget; d++) {
      const double row = bytes / (double)w->step[d], fit = budget / row;
      const uint64_t unit = whole ? g->extents[d] : 1, units = TSR_MAX(1, tsr__whole(fit / (double)unit));
      if ((double)units * (double)unit < (double)w->step[d]) w->step[d] = units * unit;
      bytes = row * (double)w->step[d];
    }
}

static bool regrid_next(const tsr_regrid *g, regrid_walk *w) {
  for (uint32_t d = g->dimensions; d-- > 0;) {
    if (w->end[d] < w->high[d]) {
      w->at[d] = w->end[d] + 1;
      return true;
    }
    w->at[d] = w->low[d];
  }
  return false;
}

static void regrid_end(const tsr_regrid *g, regrid_walk *w) {
  for (uint32_t d = 0; d < g->dimensions; d++) {
    const uint64_t unit = w->step[d] >= g->extents[d] ? g->extents[d] : w->step[d];
    const uint64_t start = w->at[d] - w->at[d] % unit;
    w->end[d] = w->high[d] - start < w->step[d] ? w->high[d] : start + w->step[d] - 1;
  }
}

static int regrid_write(tsr_regrid *g, tsr_error *error) {
  regrid_walk w;
  uint64_t *memory, cells = 1;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 5 * g->dimensions, &memory, error));
  w = (regrid_walk){.low = memory, .high = memory + g->dimensions, .step = memory + 2 * g->dimensions};
  w.at = w.step + g->dimensions;
  w.end = w.at + g->dimensions;
  const int rc = find_ends(g, &w, error);
  if (rc <= 0) return rc;
  regrid_plan(g, &w);
  for (uint32_t d = 0; d < g->dimensions; d++)
    cells = tsr__mul_sat(cells, tsr__mul_sat(w.high[d] - w.low[d] + 1, g->factors[d]));
  tsr__work_more(g->snapshot->array->environment, cells);
  memcpy(w.at, w.low, g->dimensions * sizeof *w.at);
  do {
    regrid_end(g, &w);
    TSR_TRY(part_of(g, w.at, w.end, error));
  } while (regrid_next(g, &w));
  return TSR_OK;
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

int tsr_regrid_open(tsr_snapshot *snapshot, const tsr_regrid_request *request, tsr_regrid **regrid, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_array *array = snapshot->array;
  tsr_regrid_request own;
  tsr_regrid *g;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_regrid_request, threads, request, &own, error));
  TSR_TRY(TSR_ALLOC(&array->environment->memory, &g, error));
  g->snapshot = snapshot;
  g->request = own;
  if (!g->request.memory_bytes) g->request.memory_bytes = REGRID_DEFAULT_MEMORY;
  tsr__memory_init(&g->memory, &array->environment->memory, g->request.memory_bytes, "memory_mb");
  tsr__arena_init(&g->arena, &g->memory);
  g->threads = TSR_MAX(1, own.threads && !array->environment->single_threaded ? own.threads : array->threads);
  const int rc = make_schema(g, error);
  if (rc < 0) tsr_regrid_close(g);
  else *regrid = g;
  return rc;
}

const tsr_schema *tsr_regrid_schema(const tsr_regrid *regrid) { return &regrid->schema; }

int tsr_regrid_write(tsr_regrid *regrid, tsr_array *target, uint64_t *cells, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_environment *environment = regrid->snapshot->array->environment;
  tsr_work work;
  regrid->target = target;
  regrid->written = 0;
  tsr_work_begin(environment, &work, "regrid", regrid->snapshot->array->path, 0);
  const int rc = regrid_write(regrid, error);
  tsr_work_end(environment, &work);
  if (rc >= 0 && cells) *cells = regrid->written;
  return rc < 0 ? rc : TSR_OK;
}

void tsr_regrid_close(tsr_regrid *regrid) {
  if (!regrid) return;
  tsr__arena_release(&regrid->arena);
  tsr__free(regrid);
}
