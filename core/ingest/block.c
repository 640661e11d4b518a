/* block.c: takes many rows of numbers into an ingest at once, column by column (tsr_ingest_block of tessera_host.h).
 *
 * What it takes is stored as the setters store it, one value after the other: words of 8 bytes, 0 for a null. A value
 * that the setters would refuse, or one that changes the class of a column that has values, is left to them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "ingest/ingest.h"
#include "tessera_host.h"

typedef struct block_column { /* one column of the rows that are taken together */
  const uint8_t *words; /* [rows]: 8 bytes each, in the class `class` but for `widened`; NULL: all are null */
  const uint8_t *nulls; /* [rows], or NULL */
  tsr_ingest_class class;
  bool widened; /* the words are integers, the class is REALS */
  bool reals; /* a NaN is null, too */
  bool has_nulls;
  bool wide; /* an integer is past 2^53 */
  uint64_t first, wide_row; /* the first row that is not null, the first that is wide */
} block_column;

static bool block_is_null(const block_column *b, uint64_t row) {
  double real;
  if (b->nulls && b->nulls[row]) return true;
  if (!b->reals) return false;
  memcpy(&real, b->words + row * 8, 8);
  return isnan(real);
}

/* Looks for nulls. Returns false if all values are null. */
static bool block_find_nulls(block_column *b, uint64_t rows) {
  bool any = false;
  for (uint64_t i = 0; i < rows && b->nulls; i++) any |= b->nulls[i] != 0;
  for (uint64_t i = 0; i < rows && b->reals; i++) {
    double real;
    memcpy(&real, b->words + i * 8, 8);
    any |= isnan(real);
  }
  b->has_nulls = any;
  while (any && b->first < rows && block_is_null(b, b->first)) b->first++;
  return b->first < rows;
}

/* Finds the least and the greatest integer that is not null. */
static void block_ends(const block_column *b, uint64_t rows, int64_t *low, int64_t *high) {
  *low = INT64_MAX, *high = INT64_MIN;
  for (uint64_t i = 0; i < rows; i++) {
    int64_t value;
    if (b->has_nulls && block_is_null(b, i)) continue;
    memcpy(&value, b->words + i * 8, 8);
    *low = TSR_MIN(*low, value);
    *high = TSR_MAX(*high, value);
  }
}

/* The same of reals. An end of 0 may have either sign. */
static void block_real_ends(const block_column *b, uint64_t rows, double *low, double *high) {
  *low = INFINITY, *high = -INFINITY;
  for (uint64_t i = 0; i < rows; i++) {
    double value;
    memcpy(&value, b->words + i * 8, 8);
    if (b->has_nulls && block_is_null(b, i)) continue;
    *low = value < *low ? value : *low;
    *high = value > *high ? value : *high;
  }
}

/* Returns true if the setters store all integers of the rows, and none would make a difference to the class. */
static bool block_takes_integers(const tsr_ingest_kept *c, block_column *b, uint64_t rows) {
  int64_t low, high;
  tsr_error ignored = {0};
  block_ends(b, rows, &low, &high);
  b->wide = low < -TSR_EXACT_REAL || high > TSR_EXACT_REAL;
  if (c->given->typed && !tsr__ingest_is_single(c)) return false;
  if (c->class == TSR_INGEST_REALS) {
    b->class = TSR_INGEST_REALS;
    b->widened = true;
    const double ends[2] = {(double)low, (double)high};
    for (int i = 0; i < 2 && c->is_dimension && c->given->has_domain && !c->given->label_of; i++)
      if (tsr__ingest_check_box(c, (const uint8_t *)&ends[i], &ignored) < 0) return false;
    return !b->wide;
  }
  if (c->class != TSR_INGEST_INTEGERS && (c->class != TSR_INGEST_NONE || c->given->typed)) return false;
  b->class = TSR_INGEST_INTEGERS;
  if (c->class == TSR_INGEST_NONE && c->given->has_domain) return false; /* the domain's type is not known yet */
  const int64_t ends[2] = {low, high};
  for (int i = 0; i < 2; i++) {
    if (c->given->typed && tsr__ingest_fits(c, ends[i], &ignored) < 0) return false;
    if (!c->is_dimension || !c->given->has_domain || c->given->label_of) continue;
    if (tsr__ingest_check_box(c, (const uint8_t *)&ends[i], &ignored) < 0) return false;
  }
  for (uint64_t i = 0; i < rows && b->wide && !c->given->typed; i++) {
    int64_t value;
    memcpy(&value, b->words + i * 8, 8);
    b->wide_row = i;
    if (!block_is_null(b, i) && (value < -TSR_EXACT_REAL || value > TSR_EXACT_REAL)) break;
  }
  return true;
}

static bool block_takes_reals(const tsr_ingest_kept *c, block_column *b, uint64_t rows) {
  double ends[2];
  tsr_error ignored = {0};
  b->class = TSR_INGEST_REALS;
  if (c->class != TSR_INGEST_REALS && (c->class != TSR_INGEST_NONE || c->given->typed)) return false;
  if (c->class == TSR_INGEST_NONE && c->given->has_domain) return false;
  const bool bounded = c->is_dimension && c->given->has_domain && !c->given->label_of;
  const bool narrow = c->given->typed && c->datatype == TSR_FLOAT32;
  if (!bounded && !narrow) return true;
  block_real_ends(b, rows, &ends[0], &ends[1]);
  for (int i = 0; i < 2; i++) {
    if (narrow && fabs(ends[i]) > FLT_MAX) return false;
    if (bounded && tsr__ingest_check_box(c, (const uint8_t *)&ends[i], &ignored) < 0) return false;
  }
  return true;
}

/* Returns true if the setters would take all values of the rows, and describes them. */
static bool block_takes(const tsr_ingest_kept *c, const tsr_query_column *given, uint64_t first, uint64_t rows,
                        block_column *b) {
  *b = (block_column){.class = c->class, .nulls = given->nulls ? given->nulls + first : NULL};
  if (c->given->labels || c->given->label) return false;
  if (given->type != TSR_VALUE_INTEGER && given->type != TSR_VALUE_REAL && given->type != TSR_VALUE_NULL) return false;
  if (given->type != TSR_VALUE_NULL) b->words = (const uint8_t *)(given->as.integers + first);
  b->reals = given->type == TSR_VALUE_REAL;
  const bool any = b->words && block_find_nulls(b, rows);
  if (!any) b->words = NULL, b->has_nulls = true;
  if (b->has_nulls && (c->is_dimension || c->given->not_null || c->given->refuses_null)) return false;
  if (!any) return c->class <= TSR_INGEST_REALS;
  return b->reals ? block_takes_reals(c, b, rows) : block_takes_integers(c, b, rows);
}

/* Reserves the memory of what will be appended. Nothing is appended yet. */
static int block_reserve(tsr_ingest_kept *c, const block_column *b, uint64_t before, uint64_t rows, tsr_error *error) {
  const uint64_t all = (before + rows) * 8;
  if (b->class != TSR_INGEST_NONE && all > c->growing.values.size)
    TSR_TRY(tsr__buffer_reserve(&c->growing.values, all - c->growing.values.size, error));
  if (!b->has_nulls && !c->growing.nulls) return TSR_OK;
  return tsr__buffer_reserve(&c->growing.validity, INGEST_PART_ROWS, error);
}

static void block_copy(const block_column *b, uint64_t rows, uint8_t *to) {
  if (!b->words) memset(to, 0, rows * 8);
  else if (!b->widened) memcpy(to, b->words, rows * 8);
  for (uint64_t i = 0; i < rows && b->widened; i++) {
    int64_t integer;
    memcpy(&integer, b->words + i * 8, 8);
    const double real = (double)integer;
    memcpy(to + i * 8, &real, 8);
  }
  for (uint64_t i = 0; i < rows && b->words && b->has_nulls; i++)
    if (block_is_null(b, i)) memset(to + i * 8, 0, 8);
}

/* Appends the rows to one column, which has `before` rows in the growing part. */
static void block_append(const tsr_ingest *g, tsr_ingest_kept *c, const block_column *b, uint64_t rows) {
  const uint64_t before = g->counts.part_rows;
  tsr_buffer *values = &c->growing.values, *validity = &c->growing.validity;
  if (c->class == TSR_INGEST_NONE && b->class != TSR_INGEST_NONE) {
    memset(values->data, 0, before * 8); /* nulls */
    values->size = before * 8;
    c->seen.first_row = g->counts.begun + b->first + 1;
  }
  c->class = b->class;
  if (b->wide && b->class == TSR_INGEST_INTEGERS && !c->given->typed && !c->seen.wide) {
    c->seen.wide = true;
    c->seen.wide_row = g->counts.begun + b->wide_row + 1;
  }
  if (c->class != TSR_INGEST_NONE) {
    block_copy(b, rows, values->data + values->size);
    values->size += rows * 8;
  }
  c->seen.nulls |= b->has_nulls;
  if (b->has_nulls && !c->growing.nulls) {
    memset(validity->data, 1, before);
    validity->size = before;
    c->growing.nulls = true;
  }
  if (!c->growing.nulls) return;
  memset(validity->data + validity->size, 1, rows);
  for (uint64_t i = 0; i < rows && b->has_nulls; i++)
    validity->data[validity->size + i] = b->words && !block_is_null(b, i);
  validity->size += rows;
}

/* Returns how many of the rows fit into the growing part; 0 if the part has texts, whose sizes the setters count. */
static uint64_t block_room(const tsr_ingest *g, uint64_t rows) {
  const uint64_t most = TSR_MIN(INGEST_PART_BYTES, g->memory.limit / 8) / 8 / g->column_count;
  if (g->counts.part_rows >= most) return 0;
  return TSR_MIN(rows, TSR_MIN(most, INGEST_PART_ROWS) - g->counts.part_rows);
}

int tsr_ingest_block(tsr_ingest *g, const tsr_query_column *columns, uint64_t first, uint64_t rows, uint64_t *taken,
                     tsr_error *error) {
  TSR_OWN_ERROR(error);
  block_column *blocks;
  const uint64_t n = g->complete || g->options.left_out || g->options.broken ? 0 : block_room(g, rows);
  *taken = 0;
  if (n == 0) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, g->column_count, &blocks, error));
  bool takes = true;
  int rc = TSR_OK;
  for (uint32_t i = 0; i < g->column_count && takes; i++)
    takes = block_takes(&g->columns[i], &columns[i], first, n, &blocks[i]);
  for (uint32_t i = 0; i < g->column_count && takes && rc >= 0; i++)
    rc = block_reserve(&g->columns[i], &blocks[i], g->counts.part_rows, n, error);
  if (takes && rc >= 0) {
    for (uint32_t i = 0; i < g->column_count; i++) block_append(g, &g->columns[i], &blocks[i], n);
    g->counts.rows += n;
    g->counts.begun += n;
    g->counts.part_rows += n;
    *taken = n;
    if (g->counts.part_rows == INGEST_PART_ROWS) rc = tsr__ingest_end_part(g, error);
  }
  tsr__free(blocks);
  return rc;
}
