/* regrid_reduce.c: reduces blocks of cells in memory to one cell each.
 *
 * A task computes a row of blocks along the last dimension. It goes through the rows of cells that belong to these
 * blocks, one after the other, and adds each to accumulators, one for each block of the row. So the cells of a block are
 * always added in row-major order, by one thread. Integers are summed exactly, floats in doubles. Nulls, NaN and NaT are
 * left out. The mode needs the values of a block side by side: they are gathered and sorted.
 */
#include "analyze/regrid_reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "analyze/read_block.h"

/* Memory of an arena may be aligned to 8 bytes only: that is what SQLite gives. */
typedef tsr_wide regrid_wide __attribute__((aligned(8)));

typedef struct regrid_row { /* a row of blocks, and its accumulators by block */
  const tsr_reduction *r;
  uint64_t blocks, cells, factor; /* on the last dimension */
  uint64_t *counts; /* of values */
  uint8_t *states; /* 0: no cell was written yet */
  void *sums; /* an accumulator, at most 16 bytes, each */
  uint8_t *gathered; /* mode: values of the blocks, `block_cells` places for each */
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
  }                                                                                                                    \
  static void reduce_mean_##name(const regrid_row *w, uint64_t block, uint8_t *out) {                                  \
    const double mean = (double)((wide *)w->sums)[block] / (double)w->counts[block];                                   \
    const float narrow = (float)mean;                                                                                  \
    if (w->r->to->datatype == TSR_FLOAT32) memcpy(out, &narrow, sizeof narrow);                                        \
    else memcpy(out, &mean, sizeof mean);                                                                              \
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

static void reduce_cells(const regrid_row *w, tsr_physical_type type, const uint8_t *values, const uint8_t *states) {
  const bool pairs = w->factor == 2 && (w->r->method == TSR_REGRID_MEAN || w->r->method == TSR_REGRID_SUM);
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
static void reduce_nearest(const tsr_reduction *r, const uint64_t *block, uint64_t first) {
  const uint64_t size = r->from->cell_size;
  const uint32_t last = r->dimensions - 1;
  uint64_t row = 0;
  for (uint32_t d = 0; d < last; d++)
    row = row * r->cells[d] + TSR_MIN(block[d] * r->factors[d] + r->factors[d] / 2, r->cells[d] - 1);
  row *= r->cells[last];
  for (uint64_t x = 0; x < r->blocks[last]; x++) {
    const uint64_t at = row + TSR_MIN(x * r->factors[last] + r->factors[last] / 2, r->cells[last] - 1);
    memcpy(r->out + (first + x) * size, r->values + at * size, size);
    r->out_states[first + x] = r->states[at];
    if (r->states[at] == TSR_CELL_NULL) reduce_null(r, r->out + (first + x) * size);
  }
}

/* Adds all rows of cells of the blocks of a row. */
static void reduce_rows(const regrid_row *w, tsr_physical_type type, const uint64_t *block) {
  const tsr_reduction *r = w->r;
  const uint32_t last = r->dimensions - 1;
  const bool is_text = tsr_datatype_kind(r->from->datatype) == TSR_KIND_TEXT ||
                       tsr_datatype_kind(r->from->datatype) == TSR_KIND_BYTES || r->from->values_per_cell != 1;
  uint64_t at[TSR_MAX_DIMENSIONS];
  for (uint32_t d = 0; d < last; d++) at[d] = block[d] * r->factors[d];
  while (true) {
    uint64_t row = 0;
    for (uint32_t d = 0; d < last; d++) row = row * r->cells[d] + at[d];
    row *= r->cells[last];
    reduce_written(w, r->states + row, is_text);
    if (!is_text) reduce_cells(w, type, r->values + row * r->from->cell_size, r->states + row);
    uint32_t d = last;
    while (d-- > 0) {
      if (++at[d] < TSR_MIN(r->cells[d], (block[d] + 1) * r->factors[d])) break;
      at[d] = block[d] * r->factors[d];
    }
    if (d == UINT32_MAX) return;
  }
}

/* Computes one row of blocks, on a worker thread. */
static int reduce_row(void *argument, uint64_t index, tsr_error *error) {
  const tsr_reduction *r = argument;
  const uint32_t last = r->dimensions - 1;
  const tsr_physical_type type = tsr__datatype_physical(r->from->datatype);
  const tsr_kind kind = tsr_datatype_kind(r->from->datatype);
  uint64_t block[TSR_MAX_DIMENSIONS], left = index;
  regrid_row w = {.r = r,
                  .blocks = r->blocks[last],
                  .cells = r->cells[last],
                  .factor = r->factors[last],
                  .block_cells = 1,
                  .has_nat = kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME};
  for (uint32_t d = last; d-- > 0; left /= r->blocks[d]) block[d] = left % r->blocks[d];
  TSR_TRY(tsr__cancelled_after(r->memory, 0, w.cells, error));
  if (r->method == TSR_REGRID_NEAREST) {
    reduce_nearest(r, block, index * w.blocks);
    return TSR_OK;
  }
  for (uint32_t d = 0; d <= last; d++) w.block_cells *= TSR_MIN(r->factors[d], r->cells[d]);
  tsr_arena arena;
  regrid_wide *sums;
  tsr__arena_init(&arena, r->memory);
  int rc = TSR_ARENA_ARRAY(&arena, w.blocks, &w.counts, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, w.blocks, &w.states, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, w.blocks, &sums, error);
  if (rc >= 0 && r->method == TSR_REGRID_MODE)
    rc = TSR_ARENA_RAW_BYTES(&arena, tsr__mul_sat(w.blocks * r->from->cell_size, w.block_cells), &w.gathered, error);
  if (rc >= 0) {
    w.sums = sums;
    reduce_rows(&w, type, block);
    rc = reduce_finish(&w, type, index * w.blocks, error);
  }
  tsr__arena_release(&arena);
  return rc;
}

int tsr__reduce(const tsr_reduction *reduction, unsigned threads, tsr_error *error) {
  uint64_t rows = 1;
  tsr_reduction r = *reduction;
  for (uint32_t d = 0; d + 1 < r.dimensions; d++) rows *= r.blocks[d];
  return tsr__parallel_for(threads, rows, reduce_row, &r, error);
}
