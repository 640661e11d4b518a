/* ordered.c: the rows of a request in an order of dimensions, whatever the order of its tiles and cells.
 *
 * Key ranges. The request is cut into key ranges along the first dimension of the order. An inner reader reads a key
 * range like any request; its rows are copied into a row block, sorted, and handed out as one batch; then comes the
 * next key range. Key ranges begin small, since the caller may take few rows, and grow to what the budget allows, and
 * to whole space tiles. key_range.c chooses them; this file reads, sorts and streams their rows.
 *
 * Too many rows. If a key range turns out to have too many rows, the rows that were read tell where to cut it: it is
 * read again, up to one of their values. If a single value of the dimension has too many rows, the key range is cut
 * along the next dimension of the order: the next level. If the rows have a single value in all dimensions of the
 * order, they are in order as they come, and are streamed: handed out as the inner reader gives them. Rows, and the
 * tiles that the inner reader has in memory, share one budget; if it runs out, key ranges are made smaller, too. So an
 * ordered read works in any budget in which the same tiles can be read without an order.
 *
 * Streams of dense arrays. In a dense array the cells of one value often come in order by themselves, for example those
 * of one value of the slowest dimension. Then each value is streamed, and nothing is copied, as long as the cache keeps
 * the tiles until the next value needs them.
 *
 * Distinct rows. If one of several equal rows is enough (in a sparse array), repeats are dropped as they come, and
 * again after sorting. All rows with the same values in the order's dimensions are in one key range. If they are too
 * many for it, they are streamed like any others, and only the first one is taken.
 *
 * Late columns. A column first read after its key range was copied is added by reading the key range again: its rows
 * come in the same sequence.
 *
 * Sections: the iterator's state; comparing rows; reading a key range; key ranges that are too large;
 * sorting; the iterator.
 */
#include "read/reader.h"

#include <string.h>
#include <stdatomic.h>

#include "base/arithmetic.h"
#include "model/datatype.h"
#include "array/array.h"
#include "environment/environment.h"

/* ---- The iterator's state --------------------------------------------------------------------------------------- */

#define ROWS_SPARE 16384u /* a key range may always have so many rows, even if fewer were expected */
#define ROWS_FLOOR 256u /* if memory runs out at so many rows, the tiles are too large, ... */
#define FLOOR_PART 64u /* ... provided that the rows take less than 1/FLOOR_PART of the budget */

typedef struct ordered_rows { /* the block's rows in the order in which they are handed out */
  tsr_buffer *keys; /* by level: uint64_t directed keys of the block's rows; empty for strings */
  tsr_buffer order; /* uint32_t: rows of the block, sorted */
  tsr_buffer pairs; /* scratch for sorting */
  uint64_t at, count; /* the next row to hand out, and the number of rows, in `order` */
} ordered_rows;

typedef struct ordered_stream { /* rows that come in order from the inner reader and need no sorting */
  bool active; /* rows are handed out as the inner reader gives them */
  bool distinct_given; /* a distinct read has handed out one row of the current stream, which is enough */
  uint64_t given; /* rows of the current stream so far */
} ordered_stream;

typedef struct ordered_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader, *inner; /* inner: owned; its budget is part of the reader's */
  tsr_row_block block; /* the key range's rows, in the order in which they came */
  tsr_key_ranges ranges;
  ordered_rows rows;
  ordered_stream stream;
  tsr_buffer distinct_cells; /* scratch: the rows of a batch without repeats */
  bool given_unwritten; /* the rows of the current batch were never written */
} ordered_iterator;

static const tsr_schema *schema_of(const ordered_iterator *it) { return it->reader->snapshot->schema; }

static const tsr_field *field_of(const ordered_iterator *it, const tsr_key_level *v) {
  return &schema_of(it)->fields[v->dimension];
}

static const uint64_t *as_u64(const tsr_buffer *buffer) { return (const uint64_t *)(const void *)buffer->data; }

/* ---- Comparing rows of the block --------------------------------------------------------------------------------- */

static tsr_slice text_of(const ordered_iterator *it, const tsr_key_level *v, uint64_t row) {
  const tsr_row_block_column *c = &it->block.columns[v->dimension];
  const uint64_t *offsets = as_u64(&c->offsets);
  return (tsr_slice){c->values.data + offsets[row], offsets[row + 1] - offsets[row]};
}

static uint64_t prefix_key(const tsr_key_level *v, tsr_slice text) { /* strings with equal keys may differ later */
  return tsr__directed_key(v, tsr__text_prefix(text.bytes, text.size));
}

static int compare_text(const tsr_key_level *v, tsr_slice a, tsr_slice b) {
  const int c = tsr__bytes_compare(a.bytes, a.size, b.bytes, b.size);
  return v->descending ? -c : c;
}

static int compare_rows(const ordered_iterator *it, uint32_t from, uint64_t a, uint64_t b) {
  for (uint32_t k = from; k < it->ranges.level_count; k++) {
    const tsr_key_level *v = &it->ranges.levels[k];
    int c;
    if (v->text) {
      c = compare_text(v, text_of(it, v, a), text_of(it, v, b));
    } else {
      const uint64_t *keys = as_u64(&it->rows.keys[k]);
      c = keys[a] < keys[b] ? -1 : keys[a] > keys[b];
    }
    if (c) return c;
  }
  return 0;
}

/* ---- Reading a key range ----------------------------------------------------------------------------------------- */

static void clear_rows(ordered_iterator *it) {
  tsr__row_block_clear(&it->block);
  it->rows.at = it->rows.count = 0;
  for (uint32_t d = 0; d < schema_of(it)->dimension_count; d++) it->rows.keys[d].size = 0;
}

/* Removes all rows and gives back their memory. */
static void release_rows(ordered_iterator *it) {
  tsr__row_block_empty(&it->block);
  tsr__buffer_release(&it->rows.order);
  tsr__buffer_release(&it->rows.pairs);
  for (uint32_t d = 0; it->rows.keys && d < schema_of(it)->dimension_count; d++) tsr__buffer_release(&it->rows.keys[d]);
  it->rows.at = it->rows.count = 0;
}

static int append_keys(ordered_iterator *it, uint32_t k, const tsr_batch *batch, tsr_error *error) {
  const tsr_key_level *v = &it->ranges.levels[k];
  const tsr_datatype datatype = field_of(it, v)->datatype;
  tsr_column column = {0};
  TSR_TRY(it->inner->iterator->column(it->inner->iterator, v->dimension, &column, error));
  TSR_TRY(tsr__buffer_reserve(&it->rows.keys[k], tsr__mul_sat(batch->count, 8), error));
  uint64_t *out = (uint64_t *)(void *)(it->rows.keys[k].data + it->rows.keys[k].size);
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t j = column.constant ? 0 : tsr_batch_index(batch, r);
    const uint64_t key = tsr__key(datatype, (const uint8_t *)column.values + j * column.cell_size);
    out[r] = tsr__directed_key(v, key == TSR_KEY_NAN && tsr_datatype_kind(datatype) == TSR_KIND_FLOAT ? 0 : key);
  }
  it->rows.keys[k].size += batch->count * 8;
  return TSR_OK;
}

static int append_batch(ordered_iterator *it, const tsr_batch *batch, tsr_error *error) {
  for (uint32_t k = 0; k < it->ranges.level_count; k++)
    if (!it->ranges.levels[k].text) TSR_TRY(append_keys(it, k, batch, error));
  return tsr__row_block_append(&it->block, it->inner->iterator, batch, error);
}

/* Sets differs[r] for each row whose value differs from the previous row's. */
static void note_changes(const tsr_batch *batch, const tsr_column *column, uint8_t *differs) {
  const uint8_t *values = column->values;
  for (uint64_t r = 1; r < batch->count && !column->constant; r++) {
    const uint64_t a = tsr_batch_index(batch, r - 1), b = tsr_batch_index(batch, r);
    if (differs[r]) continue;
    if (column->offsets) {
      const uint64_t *at = column->offsets, size = at[b + 1] - at[b];
      differs[r] = at[a + 1] - at[a] != size || (size > 0 && memcmp(values + at[a], values + at[b], size) != 0);
    } else {
      differs[r] = memcmp(values + a * column->cell_size, values + b * column->cell_size, column->cell_size) != 0;
    }
  }
}

/* Keeps the first of adjacent rows that are equal on all levels. */
static int drop_repeats(ordered_iterator *it, tsr_batch *batch, tsr_error *error) {
  tsr_column column = {0};
  uint64_t count = 0;
  it->distinct_cells.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->distinct_cells, tsr__mul_sat(batch->count, sizeof(uint32_t) + 1), error));
  uint32_t *cells = (uint32_t *)(void *)it->distinct_cells.data;
  uint8_t *differs = it->distinct_cells.data + batch->count * sizeof(uint32_t);
  memset(differs, 0, batch->count);
  differs[0] = 1;
  for (uint32_t k = 0; k < it->ranges.level_count; k++) {
    TSR_TRY(it->inner->iterator->column(it->inner->iterator, it->ranges.levels[k].dimension, &column, error));
    note_changes(batch, &column, differs);
  }
  for (uint64_t r = 0; r < batch->count; r++)
    if (differs[r]) cells[count++] = (uint32_t)tsr_batch_index(batch, r);
  batch->selection = cells;
  batch->count = count;
  return TSR_OK;
}

static int start_inner(ordered_iterator *it, tsr_error *error) {
  it->inner->memory.limit = it->reader->memory.limit;
  return tsr__reader_start_part(it->inner, it->reader, it->ranges.spans, error);
}

static int next_inner(ordered_iterator *it, tsr_batch *batch, tsr_error *error) {
  *batch = (tsr_batch){.fragment = TSR_FRAGMENT_NONE};
  return it->inner->done ? 0 : it->inner->iterator->next(it->inner->iterator, batch, error);
}

/* Reads the rows of the key range into the block. Returns 1; 0 if there are too many: then the block has some of
 * them. */
static int read_rows(ordered_iterator *it, tsr_error *error) {
  const tsr_schema *schema = schema_of(it);
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  const uint64_t most = TSR_MIN(it->ranges.rows_max, TSR_MAX(ROWS_SPARE, tsr__mul_sat(2, it->ranges.target)));
  tsr_batch batch;
  clear_rows(it);
  for (uint32_t f = 0; f < n; f++)
    it->block.columns[f].ready = it->inner->request.fields[f] = it->reader->request.fields[f];
  for (uint32_t k = 0; k < it->ranges.level_count; k++) {
    const uint32_t d = it->ranges.levels[k].dimension;
    it->inner->request.fields[d] = true;
    if (it->ranges.levels[k].text || it->reader->request.distinct) it->block.columns[d].ready = true;
  }
  TSR_TRY(start_inner(it, error));
  for (;;) {
    const int rc = next_inner(it, &batch, error);
    if (rc <= 0) return rc < 0 ? rc : 1;
    if (it->reader->request.distinct) TSR_TRY(drop_repeats(it, &batch, error));
    if (it->block.rows > 0 && it->block.rows + batch.count > most) return 0;
    const bool large = batch.count > it->ranges.rows_max; /* then some of its rows suffice to tell where to cut */
    if (large) batch.count = it->ranges.rows_max;
    TSR_TRY(append_batch(it, &batch, error));
    if (large) return 0;
  }
}

/* Adds a column to the block by reading the current key range again. */
static int read_late_column(ordered_iterator *it, uint32_t field, tsr_error *error) {
  const uint32_t n = schema_of(it)->dimension_count + schema_of(it)->attribute_count;
  const uint64_t *rowids = as_u64(&it->block.rowids);
  uint64_t rows = 0;
  tsr_batch batch;
  for (uint32_t f = 0; f < n; f++) it->inner->request.fields[f] = f == field;
  tsr__buffer_release(&it->rows.pairs); /* sorting is done: give back its memory */
  TSR_TRY(start_inner(it, error));
  for (;;) {
    const int rc = next_inner(it, &batch, error);
    if (rc < 0) return rc;
    if (rc == 0) break;
    const uint64_t last = tsr_batch_index(&batch, batch.count - 1);
    if (batch.count > it->block.rows - rows ||
        rowids[rows + batch.count - 1] != (uint64_t)tsr_batch_rowid(&batch, last))
      return tsr__fail(error, TSR_ERROR, "a key range that was read again has other rows");
    TSR_TRY(tsr__row_block_append_column(&it->block, it->inner->iterator, field, rows, &batch, error));
    rows += batch.count;
  }
  if (rows != it->block.rows) return tsr__fail(error, TSR_ERROR, "a key range that was read again has fewer rows");
  it->block.columns[field].ready = true;
  return TSR_OK;
}

/* ---- Key ranges that are too large ------------------------------------------------------------------------------- */

typedef struct tie_context {
  const ordered_iterator *iterator;
  const tsr_key_level *level;
} tie_context;

static int compare_values(const void *argument, uint32_t a, uint32_t b) {
  const tie_context *c = argument;
  return compare_text(c->level, text_of(c->iterator, c->level, a), text_of(c->iterator, c->level, b));
}

static int compare_end(const ordered_iterator *it, const tsr_key_level *v, const tsr_pair *pair) {
  if (!v->text) return pair->key < v->end ? -1 : pair->key > v->end;
  if (!v->end_set || v->end_exclusive) return -1;
  return compare_text(v, text_of(it, v, pair->cell), (tsr_slice){v->end_text.data, v->end_text.size});
}

static bool begins_at_end(const tsr_key_level *v) {
  if (!v->text) return v->from == v->end;
  return v->at_set && !v->at_exclusive && v->end_set && !v->end_exclusive && v->at.size == v->end_text.size &&
         memcmp(v->at.data, v->end_text.data, v->at.size) == 0;
}

/* Returns true if a row of the block lies in the key range of a level. */
static bool lies_in_key_range(const ordered_iterator *it, uint32_t k, uint64_t row) {
  const tsr_key_level *v = &it->ranges.levels[k];
  if (v->nan) return true;
  if (!v->text) {
    const uint64_t key = as_u64(&it->rows.keys[k])[row];
    return key >= (v->single ? v->end : v->from) && key <= v->end;
  }
  const tsr_slice text = text_of(it, v, row), at = {v->at.data, v->at.size}, end = {v->end_text.data, v->end_text.size};
  const int low = v->single ? compare_text(v, text, end) : v->at_set ? compare_text(v, text, at) : 1;
  const int high = v->end_set ? compare_text(v, text, end) : -1;
  return low >= (!v->single && v->at_exclusive) && high <= -(int)v->end_exclusive;
}

/* Returns TSR_CORRUPT if a row lies outside the key range. The inner reader does not compare the coordinates in a tile
 * whose MBR lies within the key range; if that MBR is wrong, the cells may lie anywhere. A key range cut at such a cell
 * would start over before itself, or shrink by one value at a time. */
static int check_row(const ordered_iterator *it, uint32_t k, uint64_t row, tsr_error *error) {
  if (lies_in_key_range(it, k, row)) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT,
                   "cells are outside of the boxes that R-trees have of their tiles on dimension %s",
                   field_of(it, &it->ranges.levels[k])->name);
}

/* Cuts the current key range at a value of the rows that were read, sorted. Returns 1; 0 if all rows have the same
 * value. */
static int cut_key_range(ordered_iterator *it, const tsr_pair *pairs, tsr_error *error) {
  tsr_key_level *v = &it->ranges.levels[it->ranges.depth];
  uint64_t i = it->block.rows >> TSR_MIN(it->ranges.restarts, 63);
  for (i = TSR_MIN(i, it->block.rows - 1); i > 0 && compare_end(it, v, &pairs[i]) >= 0;) i--;
  const int order = compare_end(it, v, &pairs[i]);
  if (order >= 0 && begins_at_end(v)) return 0;
  if (!v->text) {
    v->end = order < 0 ? pairs[i].key : v->end - 1;
    return 1;
  }
  if (order >= 0) { /* all rows have the key range's last value: first read everything before it */
    v->end_exclusive = true;
    return 1;
  }
  const tsr_slice text = text_of(it, v, pairs[i].cell);
  v->end_set = true;
  v->end_exclusive = false;
  TSR_TRY(tsr__key_text_set(&v->end_text, text.bytes, text.size, error));
  return 1;
}

/* Shrinks the key range, which has too many rows. Returns 1; 0 if it has a single value. */
static int shrink(ordered_iterator *it, tsr_error *error) {
  const tsr_key_level *v = &it->ranges.levels[it->ranges.depth];
  const tie_context context = {it, v};
  if (v->nan) return 0;
  tsr__row_block_drop_others(&it->block, v->dimension); /* makes room for the pairs */
  it->rows.pairs.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->rows.pairs, tsr__mul_sat(2 * it->block.rows, sizeof(tsr_pair)), error));
  tsr_pair *pairs = (tsr_pair *)(void *)it->rows.pairs.data;
  for (uint64_t i = 0; i < it->block.rows; i++)
    pairs[i] =
        (tsr_pair){.key = v->text ? prefix_key(v, text_of(it, v, i)) : as_u64(&it->rows.keys[it->ranges.depth])[i],
                   .cell = (uint32_t)i};
  tsr__pairs_sort_ties(pairs, pairs + it->block.rows, it->block.rows, v->text ? compare_values : NULL, &context);
  TSR_TRY(check_row(it, it->ranges.depth, pairs[0].cell, error));
  TSR_TRY(check_row(it, it->ranges.depth, pairs[it->block.rows - 1].cell, error));
  it->ranges.restarts++;
  return cut_key_range(it, pairs, error);
}

/* Steps to the next level, within a single value of this one, or starts a stream if the rows come in order without
 * sorting. */
static int descend(ordered_iterator *it, tsr_error *error) {
  if (!tsr__key_ranges_descend(&it->ranges)) return TSR_OK;
  TSR_TRY(tsr__key_ranges_spans(&it->ranges, it->ranges.depth, error));
  memcpy(it->inner->request.fields, it->reader->request.fields,
         schema_of(it)->dimension_count + schema_of(it)->attribute_count);
  it->stream.active = true;
  it->stream.given = 0;
  TSR_TRY(start_inner(it, error));
  /* rows go to the caller one to one, so the caller's limit is the inner reader's */
  it->inner->progress.limit = it->reader->request.distinct ? 1 : it->reader->progress.limit;
  return TSR_OK;
}

/* ---- Sorting ----------------------------------------------------------------------------------------------------- */

typedef struct sorting {
  const ordered_iterator *iterator;
  uint32_t from; /* the first level that is not packed into the keys of the pairs */
} sorting;

static int compare_ties(const void *argument, uint32_t a, uint32_t b) {
  const sorting *t = argument;
  return compare_rows(t->iterator, t->from, a, b);
}

/* Packs the keys of as many levels as fit into the 64-bit keys of the pairs. Returns the number of levels. */
static uint32_t pack_keys(const ordered_iterator *it, tsr_pair *pairs) {
  unsigned bits = 0;
  uint32_t k = 0;
  for (uint64_t i = 0; i < it->block.rows; i++) pairs[i] = (tsr_pair){.cell = (uint32_t)i};
  for (; k < it->ranges.level_count && !it->ranges.levels[k].text; k++) {
    const uint64_t *keys = as_u64(&it->rows.keys[k]);
    uint64_t low = UINT64_MAX, high = 0;
    for (uint64_t i = 0; i < it->block.rows; i++) {
      low = TSR_MIN(low, keys[i]);
      high = TSR_MAX(high, keys[i]);
    }
    const unsigned wide = high > low ? 64 - (unsigned)__builtin_clzll(high - low) : 0;
    if (bits + wide > 64) break;
    bits += wide;
    for (uint64_t i = 0; i < it->block.rows && wide > 0; i++)
      pairs[i].key = (wide < 64 ? pairs[i].key << wide : 0) | (keys[i] - low);
  }
  if (k == 0)
    for (uint64_t i = 0; i < it->block.rows; i++)
      pairs[i].key = prefix_key(&it->ranges.levels[0], text_of(it, &it->ranges.levels[0], i));
  return k;
}

static int sort_rows(ordered_iterator *it, tsr_error *error) {
  it->rows.pairs.size = it->rows.order.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->rows.pairs, tsr__mul_sat(2 * it->block.rows, sizeof(tsr_pair)), error));
  TSR_TRY(tsr__buffer_reserve(&it->rows.order, tsr__mul_sat(it->block.rows, sizeof(uint32_t)), error));
  tsr_pair *pairs = (tsr_pair *)(void *)it->rows.pairs.data;
  uint32_t *order = (uint32_t *)(void *)it->rows.order.data;
  const sorting how = {it, pack_keys(it, pairs)};
  const tsr_tie_breaker ties = how.from < it->ranges.level_count ? compare_ties : NULL;
  uint64_t i = 1;
  while (i < it->block.rows &&
         (pairs[i - 1].key < pairs[i].key ||
          (pairs[i - 1].key == pairs[i].key && (!ties || ties(&how, pairs[i - 1].cell, pairs[i].cell) <= 0))))
    i++;
  if (i < it->block.rows) tsr__pairs_sort_ties(pairs, pairs + it->block.rows, it->block.rows, ties, &how);
  it->rows.count = 0;
  for (i = 0; i < it->block.rows; i++) {
    const uint32_t row = pairs[i].cell;
    if (!it->reader->request.distinct || i == 0 || compare_rows(it, 0, order[it->rows.count - 1], row) != 0)
      order[it->rows.count++] = row;
  }
  for (uint32_t k = 0; k <= it->ranges.depth; k++) { /* sorted, so the rows between these two are in it too */
    TSR_TRY(check_row(it, k, order[0], error));
    TSR_TRY(check_row(it, k, order[it->rows.count - 1], error));
  }
  return TSR_OK;
}

/* ---- The iterator ------------------------------------------------------------------------------------------------ */

/* Shrinks the key range after memory ran out while reading it. Returns 1; 0 if it has a single value, to be cut along
 * the next level; < 0 if tiles, not rows, take the memory: then the caller reports the error of the read. */
static int shrink_for_memory(ordered_iterator *it, tsr_error *error) {
  const uint64_t inner = atomic_load_explicit(&it->inner->memory.used, memory_order_relaxed),
                 rows = atomic_load_explicit(&it->reader->memory.used, memory_order_relaxed) - inner;
  if (it->ranges.rows_max <= ROWS_FLOOR && (it->ranges.rows_max == 1 || rows < it->reader->memory.limit / FLOOR_PART))
    return TSR_BUDGET;
  tsr_reader_reset(it->inner, true);
  tsr__key_ranges_shrink(&it->ranges);
  int rc = 1;
  if (it->block.rows < 2) it->ranges.restarts = 0; /* tsr__key_ranges_choose chooses again, by the smaller target */
  else rc = shrink(it, error);
  release_rows(it);
  return rc;
}

/* Reads the next key range with rows, or starts a stream (stream.active): 1; 0 at the end; < 0: error. */
static int read_key_range(ordered_iterator *it, tsr_error *error) {
  for (;;) {
    tsr_error failure = {0};
    TSR_TRY(tsr__cancelled(&it->reader->snapshot->array->environment->memory, error));
    int rc = it->ranges.restarts > 0 ? 1 : tsr__key_ranges_choose(&it->ranges, error);
    TSR_TRY(rc);
    if (rc == 0) {
      if (it->ranges.depth == 0) return 0;
      it->ranges.depth--;
      TSR_TRY(tsr__key_ranges_pass(&it->ranges, error));
      continue;
    }
    if (rc == 1) {
      TSR_TRY(tsr__key_ranges_spans(&it->ranges, it->ranges.depth + 1, error));
      rc = read_rows(it, &failure);
      if (rc == 1 && it->block.rows > 0 && sort_rows(it, &failure) < 0) rc = failure.code;
      if (rc == 1) {
        tsr__key_ranges_note(&it->ranges, it->block.rows);
        tsr__key_ranges_grow(&it->ranges);
        TSR_TRY(tsr__key_ranges_pass(&it->ranges, error));
        if (it->block.rows > 0) return 1;
        continue;
      }
      it->ranges.overestimate = 1;
      rc = tsr__lacks_memory(rc) ? shrink_for_memory(it, NULL) : rc == 0 ? shrink(it, &failure) : rc;
      if (rc < 0) {
        if (error) *error = failure;
        return failure.code;
      }
    } else {
      rc = 0;
    }
    if (rc == 0) TSR_TRY(descend(it, error));
    if (it->stream.active) return 1;
  }
}

/* Fills a batch with the next rows that are all written, or all never written. */
static void fill_ordered_batch(ordered_iterator *it, tsr_batch *batch) {
  const uint32_t *order = (const uint32_t *)(const void *)it->rows.order.data + it->rows.at;
  const bool written = it->block.flags.data[order[0]];
  uint64_t count = it->rows.count - it->rows.at;
  if (it->block.written && it->block.unwritten)
    for (uint64_t i = 0; i < count; i++)
      if (it->block.flags.data[order[i]] != written) count = i;
  batch->count = count;
  batch->selection = order;
  batch->rowids = (const int64_t *)(const void *)it->block.rowids.data;
  batch->written = written;
  batch->fragment = TSR_FRAGMENT_NONE;
  it->given_unwritten = !written;
  if (written) batch->times = as_u64(&it->block.times);
  it->rows.at += count;
}

static int next_batch(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  ordered_iterator *it = (ordered_iterator *)iterator;
  for (;;) {
    if (it->stream.active) {
      const int rc = it->stream.distinct_given ? 0 : next_inner(it, batch, error);
      if (rc > 0 && it->reader->request.distinct) { /* all rows of the stream are equal in the order's dimensions */
        batch->count = 1;
        it->stream.distinct_given = true;
      }
      if (rc > 0) it->stream.given += batch->count;
      if (rc != 0) return rc;
      it->ranges.depth--;
      if (!it->stream.distinct_given) tsr__key_ranges_note(&it->ranges, it->stream.given);
      it->stream.active = it->stream.distinct_given = false;
      TSR_TRY(tsr__key_ranges_pass(&it->ranges, error));
      it->block.rows = it->rows.at = it->rows.count = 0;
    }
    if (it->rows.at == it->rows.count) {
      const int rc = read_key_range(it, error);
      if (rc <= 0) return rc;
      if (it->stream.active) continue;
    }
    fill_ordered_batch(it, batch);
    return 1;
  }
}

static int column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  ordered_iterator *it = (ordered_iterator *)iterator;
  if (it->stream.active) return it->inner->iterator->column(it->inner->iterator, field, column, error);
  if (!it->block.columns[field].ready && it->reader->request.distinct)
    return tsr__fail(error, TSR_ERROR, "field %u was requested of distinct rows, which are not ordered by it", field);
  if (!it->block.columns[field].ready) TSR_TRY(read_late_column(it, field, error));
  *column = tsr__row_block_column(&it->block, field);
  column->unwritten = it->given_unwritten && field >= schema_of(it)->dimension_count;
  return TSR_OK;
}

/* Gives back tiles. Keeps the buffers for the next start. */
static void close_ordered(tsr_batch_iterator *iterator) {
  tsr_reader_reset(((ordered_iterator *)iterator)->inner, false);
}

static void release(ordered_iterator *it) {
  release_rows(it);
  tsr__row_block_release(&it->block);
  tsr__buffer_release(&it->distinct_cells);
  tsr__key_ranges_release(&it->ranges);
  tsr__free(it->rows.keys);
  tsr_reader_close(it->inner);
  tsr__free(it);
}

void tsr__read_ordered_forget(tsr_reader *reader) {
  if (reader->ordered) tsr__reader_forget(((ordered_iterator *)reader->ordered)->inner);
}

void tsr__read_ordered_free(tsr_reader *reader) {
  if (reader->ordered) release((ordered_iterator *)reader->ordered);
  reader->ordered = NULL;
}

static int make_ordered(tsr_reader *reader, tsr_error *error) {
  const tsr_schema *schema = reader->snapshot->schema;
  const uint32_t n = schema->dimension_count;
  ordered_iterator *it;
  TSR_TRY(TSR_ALLOC(&reader->memory, &it, error));
  it->base = (tsr_batch_iterator){.next = next_batch, .column = column_of, .close = close_ordered};
  it->reader = reader;
  it->rows.order.memory = it->rows.pairs.memory = it->distinct_cells.memory = &reader->memory;
  int rc = tsr__key_ranges_init(&it->ranges, reader, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(&reader->memory, n, &it->rows.keys, error);
  if (rc >= 0) rc = tsr__row_block_init(&it->block, schema, &reader->memory, error);
  if (rc >= 0) rc = tsr__reader_open_as(reader->snapshot, &reader->memory, NULL, &it->inner, error);
  if (rc < 0) {
    release(it);
    return rc;
  }
  for (uint32_t d = 0; d < n; d++) it->rows.keys[d].memory = &reader->memory;
  reader->ordered = &it->base;
  return TSR_OK;
}

int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error) {
  if (!reader->ordered) TSR_TRY(make_ordered(reader, error));
  ordered_iterator *it = (ordered_iterator *)reader->ordered;
  it->stream.active = it->stream.distinct_given = false;
  TSR_TRY(tsr__key_ranges_begin(&it->ranges, order, count, limit, error));
  clear_rows(it);
  it->block.fill_unwritten = reader->predicates.fill_unwritten;
  *iterator = &it->base;
  return TSR_OK;
}
