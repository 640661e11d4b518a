/* regrid_reduce.c: reduces blocks of cells in memory to one cell each.
 *
 * A row of blocks lies along the last dimension. Its task goes through the rows of cells that belong to these
 * blocks, one after the other, and adds each to accumulators, one for each block of the row. So the cells of a block are
 * always added in row-major order, by one thread. Integers are summed exactly, floats in doubles. Nulls, NaN and NaT are
 * left out. The mode needs the values of a block side by side: they are gathered and sorted.
 *
 * The usual halving, sums and means of pairs of cells that all have values, takes loops without conditions, which the
 * compiler makes vectors of. They add NaN, too: if a sum is NaN then, the row of blocks is computed anew with the tests.
 */
#include "analyze/regrid_reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "analyze/read_block.h"

#define TASKS_FOR_A_THREAD 16

/* Memory of an arena may be aligned to 8 bytes only: that is what SQLite gives. */
typedef tsr_wide regrid_wide __attribute__((aligned(8)));

typedef struct regrid_row { /* a row of blocks, and its accumulators by block */
  const tsr_reduction *r;
  uint64_t blocks, cells, factor; /* on the last dimension */
  uint64_t *counts; /* of values */
  uint8_t *states; /* 0: no cell was written yet */
  void *sums; /* an accumulator, at most 16 bytes, each */
  uint8_t *gathered; /* mode: values of the blocks, `block_cells` places for each */
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
  /* The usual halving of means: two cells of each block in a row. */                                                  \
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
  /* The same for cells that all have values, NaN among them. Returns false if a sum is NaN. */                        \
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

/* Counts cells of any type, whose values count as null only by their state. */
static void reduce_written(const regrid_row *w, const uint8_t *states, bool count) {
  for (uint64_t block = 0, at = 0; at < w->cells; block++, at += w->factor)
    for (uint64_t i = at; i < TSR_MIN(w->cells, at + w->factor); i++) {
      w->states[block] |= states[i];
      w->counts[block] += count && states[i] == TSR_CELL_VALUE;
    }
}

/* ---- Rows of blocks ---------------------------------------------------------------------------------------------- */

/* Writes a block that has no value: NaN or NaT if the attribute cannot be null, else zeros behind the null. */
static void reduce_null(const tsr_reduction *r, uint8_t *out) {
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

/* Returns where a row of blocks begins in `out`. */
static uint64_t reduce_out(const tsr_reduction *r, const uint64_t *block) {
  uint64_t at = 0;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) at += block[d] * r->out_stride[d];
  return at;
}

/* Returns where a row of cells begins. */
static uint64_t reduce_in(const tsr_reduction *r, const uint64_t *cell) {
  uint64_t at = 0;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) at += cell[d] * r->stride[d];
  return at;
}

static int reduce_finish(const regrid_row *w, tsr_physical_type type, uint64_t first, tsr_error *error) {
  const tsr_reduction *r = w->r;
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

/* Copies the nearest cell of each block of a row: that at half of the factor, or the last one of a shorter block. */
static void reduce_nearest(const tsr_reduction *r, const uint64_t *block) {
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

/* Moves to the next row of cells of the blocks of a row. Returns false if there is none. */
static bool reduce_next_row(const tsr_reduction *r, const uint64_t *block, uint64_t *cell) {
  for (uint32_t d = r->dimensions - 1; d-- > 0;) {
    if (++cell[d] < TSR_MIN(r->cells[d], (block[d] + 1) * r->factors[d])) return true;
    cell[d] = block[d] * r->factors[d];
  }
  return false;
}

/* Adds all rows of cells of the blocks of a row. */
static void reduce_rows(const regrid_row *w, tsr_physical_type type, const uint64_t *block) {
  const tsr_reduction *r = w->r;
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

/* Does the same without conditions, and writes means. Returns false if a sum is NaN: nothing is written then. */
static bool reduce_plain_rows(const regrid_row *w, tsr_physical_type type, const uint64_t *block) {
  const tsr_reduction *r = w->r;
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
  const tsr_reduction *r = w->r;
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

/* Computes the rows of blocks from `first` to `end` - 1. */
static int reduce_some_rows(const tsr_reduction *r, uint64_t first, uint64_t end, tsr_error *error) {
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

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

typedef struct regrid_tasks {
  const tsr_reduction *reduction;
  uint64_t rows, rows_for_a_task;
} regrid_tasks;

static int reduce_task(void *argument, uint64_t index, tsr_error *error) {
  const regrid_tasks *t = argument;
  const uint64_t first = index * t->rows_for_a_task;
  return reduce_some_rows(t->reduction, first, first + TSR_MIN(t->rows_for_a_task, t->rows - first), error);
}

static uint64_t reduce_count_rows(const tsr_reduction *r) {
  uint64_t rows = 1;
  for (uint32_t d = 0; d + 1 < r->dimensions; d++) rows *= r->blocks[d];
  return rows;
}

int tsr__reduce(const tsr_reduction *reduction, unsigned threads, tsr_error *error) {
  regrid_tasks t = {.reduction = reduction, .rows = reduce_count_rows(reduction)};
  t.rows_for_a_task = TSR_MAX(1, t.rows / ((uint64_t)TASKS_FOR_A_THREAD * TSR_MAX(1, threads)));
  return tsr__parallel_for(threads, (t.rows + t.rows_for_a_task - 1) / t.rows_for_a_task, reduce_task, &t, error);
}

int tsr__reduce_here(const tsr_reduction *reduction, tsr_error *error) {
  return reduce_some_rows(reduction, 0, reduce_count_rows(reduction), error);
}
