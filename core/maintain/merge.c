/* merge.c: writes the fragments that consolidation merges, in three layers, which are the three parts of this file: a
 * k-way merge of sorted sources into one stream of cells in global order; on top of it, the merge of sparse fragments,
 * with times and delete conditions; and, independent of both, the merge of a box of dense fragments.
 *
 * The k-way merge: each cell of a loaded block has a row of sort keys, such that comparing two rows lexicographically
 * compares the cells: the numbers of the space tile, then the order keys of the coordinates, as in sort.c; in Hilbert
 * order, the code comes first. A string is represented by its first 8 bytes; strings with the same key are compared in
 * full.
 *
 * A heap holds the sources, ordered by their next cells. A source whose next block is not loaded takes part with the
 * lower bound of that block, and is loaded when the bound reaches the top of the heap. So of sources that follow each
 * other in cell order, only one is in memory at a time.
 *
 * Cells with equal coordinates leave the heap newest first: by their times, then by the number of their source.
 */
#include "maintain/maintain.h"

#include <string.h>

#include "base/heap.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "environment/environment.h"
#include "write/fragment_writer.h"
#include "store/store.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "format/layout.h"
#include "array/array.h"
#include "read/reader.h"
#include "base/arithmetic.h"

#define PICKS_MAX 8192u /* cells written at once */

typedef struct merge_cursor { /* a source and its position */
  tsr_merge_source *source;
  uint32_t number; /* of the source */
  bool loaded, ended;
  tsr_merge_block block; /* if loaded */
  const tsr_column *coordinates; /* the columns from which `rows` were made: the block's, or the lower bound */
  uint64_t at; /* position in the block, in sorted order */
  uint32_t *order; /* the block's cells in sorted order; NULL if they are stored in that order */
  tsr_buffer rows; /* u64[cells][numbers] */
  tsr_buffer order_room; /* memory of `order` */
  bool has_last; /* last_row and last_text hold the last cell of the previous block */
  tsr_buffer last_row, last_text;
} merge_cursor;

typedef struct merge_place { /* an entry of the heap */
  const uint64_t *row; /* of the source's next cell, or of its lower bound */
  merge_cursor *source;
} merge_place;

typedef struct merge_numbers { /* what the sort keys in a row are */
  uint32_t count; /* keys per row */
  uint32_t *dimension_of; /* [key]: the dimension that the key represents */
  bool *is_tile; /* [key]: the key is that of a space tile, not of a coordinate */
  bool hilbert; /* key 0 is the Hilbert code */
  bool texts; /* some dimensions are strings: equal rows do not mean equal cells */
} merge_numbers;

typedef struct merge_output { /* cells chosen but not written yet */
  tsr_interleaver interleaver;
  const tsr_column **columns; /* [source]: of the loaded block */
  tsr_pick *picks;
  uint64_t count, written; /* picks; cells written so far */
} merge_output;

typedef struct merge_previous { /* the last cell that left the heap */
  bool exists;
  bool purging; /* older cells with its coordinates are dropped, too */
  tsr_buffer row, text;
  uint64_t time;
} merge_previous;

typedef struct merger {
  const tsr_merge_options *o;
  uint32_t dimensions, fields;
  uint32_t count; /* sources */
  uint32_t heap_count;
  merge_cursor *cursors; /* [count] */
  merge_place *heap;
  merge_numbers numbers;
  merge_output output;
  merge_previous previous;
  uint32_t unsorted; /* a source whose blocks overlap, or UINT32_MAX */
} merger;

/* ---- Rows of sort keys ------------------------------------------------------------------------------------------- */

static bool merge_is_text(const merger *m, uint32_t d) { return !m->o->schema->fields[d].cell_size; }

static const uint8_t *text_of(const tsr_column *column, uint64_t cell, uint64_t *size) {
  uint64_t i = column->constant ? 0 : cell;
  *size = column->offsets[i + 1] - column->offsets[i];
  return (const uint8_t *)column->values + column->offsets[i];
}

static const uint8_t *merge_value_of(const merger *m, const tsr_column *columns, uint32_t d, uint64_t cell) {
  return (const uint8_t *)columns[d].values + (columns[d].constant ? 0 : cell * m->o->schema->fields[d].cell_size);
}

/* Fills key 0 of the rows with Hilbert codes. */
static void make_codes(const merger *m, const tsr_column *columns, uint64_t count, uint64_t *rows) {
  const void *values[TSR_MAX_DIMENSIONS];
  uint64_t sizes[TSR_MAX_DIMENSIONS] = {0};
  for (uint64_t i = 0; i < count; i++) {
    for (uint32_t d = 0; d < m->dimensions; d++)
      values[d] = merge_is_text(m, d) ? text_of(&columns[d], i, &sizes[d]) : merge_value_of(m, columns, d, i);
    rows[i * m->numbers.count] = tsr__hilbert_code(m->o->schema, values, sizes);
  }
}

/* Fills key k of the rows. */
static void make_number(const merger *m, const tsr_column *columns, uint64_t count, uint32_t k, uint64_t *rows) {
  uint32_t d = m->numbers.dimension_of[k];
  const tsr_field *field = &m->o->schema->fields[d];
  bool integers = tsr_datatype_kind(field->datatype) != TSR_KIND_FLOAT;
  uint64_t keys[256], extent = 0, low = 0;
  if (merge_is_text(m, d)) {
    for (uint64_t i = 0; i < count; i++) {
      uint64_t size;
      const uint8_t *text = text_of(&columns[d], i, &size);
      rows[i * m->numbers.count + k] = tsr__text_prefix(text, size);
    }
    return;
  }
  if (m->numbers.is_tile[k] && (!integers || columns[d].constant)) {
    for (uint64_t i = 0; i < count; i++)
      rows[i * m->numbers.count + k] = tsr__tile_number(field, merge_value_of(m, columns, d, i));
    return;
  }
  if (m->numbers.is_tile[k]) {
    memcpy(&extent, field->extent, field->cell_size);
    low = tsr__key(field->datatype, field->low);
  }
  for (uint64_t done = 0; done < count;) {
    uint64_t n = TSR_MIN(count - done, 256);
    if (columns[d].constant) {
      for (uint64_t i = 0; i < n; i++) keys[i] = tsr__key(field->datatype, columns[d].values);
    } else {
      tsr__keys(field->datatype, merge_value_of(m, columns, d, done), n, keys);
    }
    for (uint64_t i = 0; i < n; i++)
      rows[(done + i) * m->numbers.count + k] = m->numbers.is_tile[k] ? (keys[i] - low) / extent : keys[i];
    done += n;
  }
}

static int make_rows(const merger *m, const tsr_column *columns, uint64_t count, tsr_buffer *rows, tsr_error *error) {
  rows->size = 0;
  TSR_TRY(tsr__buffer_reserve(rows, tsr__mul_sat(count, m->numbers.count * sizeof(uint64_t)), error));
  uint64_t *numbers = (uint64_t *)(void *)rows->data;
  if (m->numbers.hilbert) make_codes(m, columns, count, numbers);
  for (uint32_t k = m->numbers.hilbert ? 1 : 0; k < m->numbers.count; k++) make_number(m, columns, count, k, numbers);
  return TSR_OK;
}

static const uint64_t *row_of(const merger *m, const merge_cursor *c, uint64_t cell) {
  return (const uint64_t *)(const void *)c->rows.data + cell * m->numbers.count;
}

/* Returns the index, within its block, of the cell at a sorted position. */
static uint64_t cell_of(const merge_cursor *c, uint64_t at) { return c->order ? c->order[at] : at; }

static int compare_cells(const merger *m, const merge_cursor *a, uint64_t i, const merge_cursor *b, uint64_t j) {
  const uint64_t *x = row_of(m, a, i), *y = row_of(m, b, j);
  for (uint32_t l = 0; l < m->numbers.count; l++) {
    if (x[l] != y[l]) return x[l] < y[l] ? -1 : 1;
    if (!m->numbers.texts || (m->numbers.hilbert && l == 0)) continue;
    const uint32_t d = m->numbers.dimension_of[l];
    if (!merge_is_text(m, d)) continue;
    uint64_t x_size, y_size;
    const uint8_t *x_text = text_of(&a->coordinates[d], i, &x_size), *y_text = text_of(&b->coordinates[d], j, &y_size);
    int c = tsr__bytes_compare(x_text, x_size, y_text, y_size);
    if (c) return c;
  }
  return 0;
}

/* Copies a cell so that it outlives its block: its row, and its strings, each after a u64 with its size. */
static int keep_cell(const merger *m, const merge_cursor *c, uint64_t cell, tsr_buffer *row, tsr_buffer *text,
                     tsr_error *error) {
  row->size = text->size = 0;
  TSR_TRY(tsr__buffer_append(row, row_of(m, c, cell), m->numbers.count * sizeof(uint64_t), error));
  for (uint32_t d = 0; d < m->dimensions; d++) {
    if (!merge_is_text(m, d)) continue;
    uint64_t size;
    const uint8_t *bytes = text_of(&c->coordinates[d], cell, &size);
    TSR_TRY(tsr__buffer_append_u64(text, size, error));
    if (size) TSR_TRY(tsr__buffer_append(text, bytes, size, error));
  }
  return TSR_OK;
}

/* Compares a kept cell with one of a block. */
static int compare_kept(const merger *m, const tsr_buffer *row, const tsr_buffer *text, const merge_cursor *c,
                        uint64_t cell) {
  const uint64_t *x = (const uint64_t *)(const void *)row->data, *y = row_of(m, c, cell);
  for (uint32_t l = 0; l < m->numbers.count; l++) {
    if (x[l] != y[l]) return x[l] < y[l] ? -1 : 1;
    const uint32_t dimension = m->numbers.dimension_of[l];
    if ((m->numbers.hilbert && l == 0) || !merge_is_text(m, dimension)) continue;
    const uint8_t *kept = text->data;
    uint64_t size;
    for (uint32_t d = 0; d < dimension; d++)
      if (merge_is_text(m, d)) kept += sizeof(uint64_t) + tsr__load64(kept);
    const uint8_t *bytes = text_of(&c->coordinates[dimension], cell, &size);
    int order = tsr__bytes_compare(kept + sizeof(uint64_t), tsr__load64(kept), bytes, size);
    if (order) return order;
  }
  return 0;
}

static uint64_t system_column_find(const merger *m, const merge_cursor *c, uint64_t cell, uint32_t which) {
  const tsr_column *column = &c->block.columns[m->fields + which];
  return tsr__load64((const uint8_t *)column->values + (column->constant ? 0 : cell) * sizeof(uint64_t));
}

/* ---- The heap ------------------------------------------------------------------------------- */

/* Returns true if the first entry comes before the second. A source that is not loaded comes before an equal cell,
 * because its block may have a newer cell with the same coordinates. */
static bool merge_before(const merger *m, const merge_place *first, const merge_place *second) {
  const merge_cursor *a = first->source, *b = second->source;
  for (uint32_t l = 0; l < m->numbers.count && !m->numbers.texts; l++)
    if (first->row[l] != second->row[l]) return first->row[l] < second->row[l];
  uint64_t i = a->loaded ? cell_of(a, a->at) : 0, j = b->loaded ? cell_of(b, b->at) : 0;
  int order = compare_cells(m, a, i, b, j);
  if (order) return order < 0;
  if (a->loaded != b->loaded) return !a->loaded;
  if (a->loaded && m->o->system_columns) {
    uint64_t x = system_column_find(m, a, i, 0), y = system_column_find(m, b, j, 0);
    if (x != y) return x > y;
  }
  return a->number > b->number;
}

static merge_place place_of(const merger *m, merge_cursor *c) {
  return (merge_place){row_of(m, c, c->loaded ? cell_of(c, c->at) : 0), c};
}

TSR_DEFINE_HEAP(merge_heap, merger, merge_place, merge_before)

/* ---- Blocks --------------------------------------------------------------------------------- */

/* Compares two cells of the cursor's block, by coordinates and then newest first. */
static int compare_in_block(const merger *m, const merge_cursor *c, uint64_t i, uint64_t j) {
  int order = compare_cells(m, c, i, c, j);
  if (order || !m->o->system_columns) return order;
  uint64_t x = system_column_find(m, c, i, 0), y = system_column_find(m, c, j, 0);
  return x > y ? -1 : x < y;
}

static bool block_is_sorted(const merger *m, const merge_cursor *c) {
  for (uint64_t i = 1; i < c->block.count; i++)
    if (compare_in_block(m, c, i - 1, i) > 0) return false;
  return true;
}

/* Sorts a block with a stable, bottom-up merge sort, if the source asks for it. */
static int sort_block(const merger *m, merge_cursor *c, tsr_error *error) {
  uint64_t count = c->block.count;
  c->order = NULL;
  if (!c->source->sort_blocks || block_is_sorted(m, c)) return TSR_OK;
  TSR_TRY(tsr__buffer_reserve(&c->order_room, 2 * count * sizeof(uint32_t), error));
  uint32_t *from = (uint32_t *)(void *)c->order_room.data, *to = from + count;
  for (uint64_t i = 0; i < count; i++) from[i] = (uint32_t)i;
  for (uint64_t width = 1; width < count; width *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * width) {
      uint64_t a = start, middle = TSR_MIN(start + width, count), b = middle, end = TSR_MIN(start + 2 * width, count);
      for (uint64_t out = start; out < end; out++)
        to[out] = b == end || (a < middle && compare_in_block(m, c, from[a], from[b]) <= 0) ? from[a++] : from[b++];
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  c->order = from;
  return TSR_OK;
}

/* Loads the source's next block, or records that the source has ended. */
static int merge_load(merger *m, merge_cursor *c, tsr_error *error) {
  c->loaded = false;
  c->at = 0;
  int rc = c->source->next(c->source, &c->block, error);
  if (rc < 0) return rc;
  if (rc == 0) {
    c->ended = true;
    return TSR_OK;
  }
  c->coordinates = c->block.columns;
  m->output.columns[c->number] = c->block.columns;
  TSR_TRY(make_rows(m, c->coordinates, c->block.count, &c->rows, error));
  c->loaded = true;
  TSR_TRY(sort_block(m, c, error));
  if (c->has_last && compare_kept(m, &c->last_row, &c->last_text, c, cell_of(c, 0)) > 0) {
    m->unsorted = c->number;
    return tsr__fail(error, TSR_CORRUPT, "cells are not in global order");
  }
  return TSR_OK;
}

/* Positions the source before its next block: at the lower bound of that block if it has one, otherwise at the loaded
 * block. In Hilbert order there is no lower bound, since coordinates do not bound codes. */
static int merge_next_block(merger *m, merge_cursor *c, tsr_error *error) {
  const tsr_column *bound = c->source->lower_bound ? c->source->lower_bound(c->source) : NULL;
  if (!bound || m->numbers.hilbert) return merge_load(m, c, error);
  c->loaded = false;
  c->coordinates = bound;
  return make_rows(m, bound, 1, &c->rows, error);
}

/* ---- Writing -------------------------------------------------------------------------------- */

static int merge_flush(merger *m, tsr_error *error) {
  merge_output *output = &m->output;
  TSR_TRY(tsr__interleaver_write(&output->interleaver, output->columns, output->picks, output->count, error));
  output->written += output->count;
  output->count = 0;
  return TSR_OK;
}

/* Sets *chosen if the cell at the top of the heap is written. */
static int merge_choose(merger *m, const merge_cursor *c, uint64_t cell, bool *chosen, tsr_error *error) {
  const tsr_merge_options *o = m->o;
  merge_previous *previous = &m->previous;
  uint64_t time = o->system_columns ? system_column_find(m, c, cell, 0) : 0;
  bool purged = o->purge && o->system_columns == 3 && system_column_find(m, c, cell, 1) != UINT64_MAX;
  if (o->schema->allows_duplicates) {
    *chosen = !purged;
    return TSR_OK;
  }
  int order = previous->exists ? compare_kept(m, &previous->row, &previous->text, c, cell) : -1;
  if (order > 0) {
    m->unsorted = c->number;
    return tsr__fail(error, TSR_CORRUPT, "cells are not in global order");
  }
  bool is_new = order < 0; /* coordinates differ from those of the previous cell */
  if (is_new) previous->purging = false;
  *chosen = is_new || (o->system_columns && time != previous->time);
  previous->purging = previous->purging || (*chosen && purged);
  *chosen = *chosen && !previous->purging;
  previous->time = time;
  previous->exists = true;
  return is_new ? keep_cell(m, c, cell, &previous->row, &previous->text, error) : TSR_OK;
}

static int merge_advance(merger *m, merge_cursor *c, tsr_error *error) {
  if (++c->at < c->block.count) return TSR_OK;
  TSR_TRY(merge_flush(m, error)); /* the picks point into the block, which the next one replaces */
  TSR_TRY(tsr__cancelled(&m->o->environment->memory, error));
  TSR_TRY(keep_cell(m, c, cell_of(c, c->block.count - 1), &c->last_row, &c->last_text, error));
  c->has_last = true;
  return merge_next_block(m, c, error);
}

static int run_merge(merger *m, tsr_error *error) {
  for (uint32_t i = 0; i < m->count; i++) {
    merge_cursor *c = &m->cursors[i];
    TSR_TRY(merge_next_block(m, c, error));
    if (!c->ended) m->heap[m->heap_count++] = place_of(m, c);
  }
  merge_heap_build(m, m->heap, m->heap_count);
  while (m->heap_count) {
    merge_cursor *c = m->heap[0].source;
    if (!c->loaded) {
      TSR_TRY(merge_load(m, c, error));
    } else {
      uint64_t cell = cell_of(c, c->at);
      bool chosen = false;
      TSR_TRY(merge_choose(m, c, cell, &chosen, error));
      if (chosen) m->output.picks[m->output.count++] = (tsr_pick){c->number, (uint32_t)cell};
      if (m->output.count == PICKS_MAX) TSR_TRY(merge_flush(m, error));
      TSR_TRY(merge_advance(m, c, error));
    }
    const merge_place moved = c->ended ? m->heap[--m->heap_count] : place_of(m, c);
    merge_heap_sink_deep(m, m->heap, m->heap_count, 0, moved);
  }
  return merge_flush(m, error);
}

/* ---- Open and close ------------------------------------------------------------------------- */

static void add_number(merge_numbers *numbers, uint32_t d, bool tile) {
  numbers->dimension_of[numbers->count] = d;
  numbers->is_tile[numbers->count++] = tile;
}

/* Chooses the keys of a row, the most significant first. */
static int choose_numbers(merger *m, tsr_error *error) {
  merge_numbers *numbers = &m->numbers;
  const tsr_schema *schema = m->o->schema;
  uint32_t n = m->dimensions;
  TSR_TRY(TSR_ALLOC_ARRAY(m->o->memory, 2 * (uint64_t)n + 1, &numbers->dimension_of, error));
  TSR_TRY(TSR_ALLOC_ARRAY(m->o->memory, 2 * (uint64_t)n + 1, &numbers->is_tile, error));
  numbers->hilbert = schema->cell_order == TSR_ORDER_HILBERT;
  if (numbers->hilbert) add_number(numbers, 0, false);
  for (uint32_t i = 0; i < n && !numbers->hilbert; i++) {
    uint32_t d = schema->tile_order == TSR_ORDER_COL ? n - 1 - i : i;
    if (schema->fields[d].has_extent) add_number(numbers, d, true);
  }
  for (uint32_t d = 0; d < n; d++) numbers->texts = numbers->texts || merge_is_text(m, d);
  for (uint32_t i = 0; i < n; i++) add_number(numbers, schema->cell_order == TSR_ORDER_COL ? n - 1 - i : i, false);
  return TSR_OK;
}

static int merge_prepare(merger *m, tsr_merge_source *const *sources, tsr_fragment_writer *writer, tsr_error *error) {
  tsr_memory *memory = m->o->memory;
  TSR_TRY(choose_numbers(m, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->count, &m->cursors, error));
  for (uint32_t i = 0; i < m->count; i++) {
    merge_cursor *c = &m->cursors[i];
    c->source = sources[i];
    c->number = i;
    c->rows.memory = c->order_room.memory = c->last_row.memory = c->last_text.memory = memory;
  }
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->count, &m->heap, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->count, &m->output.columns, error));
  TSR_TRY(TSR_ALLOC_RAW(memory, PICKS_MAX, &m->output.picks, error));
  uint32_t written = m->o->purge ? TSR_MIN(m->o->system_columns, 1) : m->o->system_columns;
  return tsr__interleaver_init(&m->output.interleaver, m->o->schema, written, false, memory, writer, error);
}

/* Merges sources[0..count) and appends the cells to `writer`. If the array allows duplicates, all cells are kept. If
 * not, equal coordinates are kept once for each time, the newest first; without a column of times, only the newest cell
 * is kept. Of cells with the same time, or without times, the cell of the later source is newer. *cells: the number of
 * cells written. TSR_CORRUPT if the blocks of a source overlap; *unsorted is then its index, and in all other cases
 * UINT32_MAX. */
static int tsr__merge(const tsr_merge_options *options, tsr_merge_source *const *sources, uint32_t count,
                      tsr_fragment_writer *writer, uint64_t *cells, uint32_t *unsorted, tsr_error *error) {
  merger m = {.o = options, .dimensions = options->schema->dimension_count, .count = count, .unsorted = UINT32_MAX};
  m.fields = m.dimensions + options->schema->attribute_count;
  m.previous.row.memory = m.previous.text.memory = options->memory;
  int rc = merge_prepare(&m, sources, writer, error);
  if (rc >= 0) rc = run_merge(&m, error);
  for (uint32_t i = 0; m.cursors && i < count; i++) {
    tsr__buffer_release(&m.cursors[i].rows);
    tsr__buffer_release(&m.cursors[i].order_room);
    tsr__buffer_release(&m.cursors[i].last_row);
    tsr__buffer_release(&m.cursors[i].last_text);
  }
  tsr__buffer_release(&m.previous.row);
  tsr__buffer_release(&m.previous.text);
  tsr__interleaver_release(&m.output.interleaver);
  tsr__free(m.cursors);
  tsr__free(m.heap);
  tsr__free(m.output.columns);
  tsr__free(m.output.picks);
  tsr__free(m.numbers.dimension_of);
  tsr__free(m.numbers.is_tile);
  *unsorted = m.unsorted;
  if (rc >= 0) *cells = m.output.written;
  return rc;
}

/* ---- Merging sparse fragments ------------------------------------------------------------------------------------ */

/* Each fragment is a source of the k-way merge, and each of its tiles a block. A cell carries its time: its own if the
 * fragment stores times, otherwise that of the fragment. Delete conditions that have not been applied to a fragment's
 * cells yet are evaluated here. A deleted cell gets the time of the first condition that deletes it, or keeps an
 * earlier time of deletion from a previous merge.
 *
 * TileDB sorts strings with bytes above 127 in a different order than it merges them, so the tiles of a fragment may
 * overlap. Such a fragment is split: each of its tiles becomes a source, and the merge starts over. */

enum { TIMES, DELETE_TIMES, DELETE_CONDITIONS }; /* the system columns */

typedef struct tile_source { /* the tiles at..end - 1 of a fragment */
  tsr_merge_source base;
  struct sparse_merge *merge;
  const tsr_snapshot_fragment *fragment;
  uint32_t index; /* of its fragment in the plan */
  uint64_t at, end;
  tsr_tile_request *requests; /* of the current tile, one per slot */
  uint32_t request_count;
  bool loaded;
  tsr_column *columns; /* of the block: fields, then system columns */
  tsr_buffer delete_times; /* u64[cell]: time of deletion, or `never` */
  tsr_buffer conditions; /* u64[cell]: the condition that deletes it, an index of tsr_merge_conditions; or `never` */
  tsr_column *bound; /* [dimension]: low corner of the next tile's MBR */
  tsr_buffer bound_bytes; /* its values */
  uint64_t time; /* of cells that do not store their own */
  /* Indices of tsr_merge_conditions: */
  const uint32_t *renumbered; /* [condition in the fragment's list of processed conditions] */
  uint32_t *numbers; /* [condition of the snapshot's fragment] */
} tile_source;

typedef struct sparse_merge {
  const tsr_merge_plan *plan;
  const tsr_merge_conditions *conditions;
  const tsr_schema *schema; /* of the merged fragment */
  const tsr_schema *newest; /* of the array */
  uint32_t fields, system_columns;
  tsr_arena arena; /* of one attempt */
  tile_source *sources;
  tsr_merge_source **list; /* pointers to them, for tsr__merge */
  uint32_t count;
} sparse_merge;

#define EXPECTED_BYTES (UINT64_C(32) << 20) /* stored bytes of first tiles that a store may prefetch */

static const uint64_t never = UINT64_MAX;

/* ---- The current tile -------------------------------------------------------------------------------------------- */

static void return_tiles(tile_source *s) {
  for (uint32_t i = 0; s->loaded && i < s->request_count; i++)
    tsr__tile_return(s->requests[i].tile, s->merge->plan->memory);
  s->loaded = false;
}

static const tsr_tile *tile_of(const tile_source *s, int64_t slot) {
  for (uint32_t i = 0; i < s->request_count; i++)
    if (s->requests[i].slot == (uint32_t)slot) return s->requests[i].tile;
  return NULL;
}

/* Requests the current tile of a slot, once; a negative slot means none. */
static void request_slot(tile_source *s, int64_t slot) {
  for (uint32_t i = 0; i < s->request_count && slot >= 0; i++)
    if (s->requests[i].slot == (uint32_t)slot) return;
  if (slot < 0) return;
  s->requests[s->request_count++] =
      (tsr_tile_request){.fragment = s->fragment->fragment, .slot = (uint32_t)slot, .number = s->at};
}

static int find_field(const tile_source *s, const tsr_condition *condition, const char *name, const tsr_field **field,
                      int64_t *slot, tsr_error *error) {
  return tsr__condition_field(s->merge->plan->array, s->merge->newest, s->fragment->fragment, condition, name, field,
                              slot, error);
}

/* Makes the requests for the current tile. */
static int request_tile(tile_source *s, tsr_error *error) {
  const tsr_fragment_metadata *m = &s->fragment->fragment->metadata;
  s->request_count = 0;
  for (uint32_t f = 0; f < s->merge->fields; f++) request_slot(s, s->fragment->slots[f]);
  for (int i = TIMES; i <= DELETE_CONDITIONS; i++)
    request_slot(s, tsr__fragment_system_slot(m, (tsr_system_column)(TSR_SLOT_TIMES + i)));
  for (uint32_t i = 0; i < s->fragment->condition_count; i++)
    for (uint32_t k = 0; k < s->fragment->conditions[i]->field_count; k++) {
      const tsr_field *field;
      int64_t slot;
      TSR_TRY(find_field(s, s->fragment->conditions[i], s->fragment->conditions[i]->fields[k], &field, &slot, error));
      request_slot(s, slot);
    }
  return TSR_OK;
}

static int load_tile(tile_source *s, tsr_error *error) {
  const tsr_merge_plan *plan = s->merge->plan;
  TSR_TRY(request_tile(s, error));
  TSR_TRY(tsr__tiles_load(plan->array, plan->threads, s->requests, s->request_count, plan->memory, error));
  s->loaded = true;
  return TSR_OK;
}

/* Makes the column of a slot of the current tile. */
static void slot_column(const tile_source *s, const tsr_field *field, uint32_t dimension, int64_t slot,
                        tsr_column *column) {
  const tsr_tile *tile = tile_of(s, slot);
  *column = (tsr_column){.values = tile->values, .offsets = tile->offsets, .validity = tile->validity};
  if (field->values_per_cell == TSR_VARIABLE) return;
  column->cell_size = field->cell_size;
  if (field->is_dimension &&
      !layout_has_dimension_files(s->fragment->fragment->metadata.version)) /* __coords: dimension after dimension */
    column->values = tile->values + dimension * tile->cells * field->cell_size;
}

/* Makes a system column of the current tile; `constant` is the value of all cells if the fragment does not store the
 * column. */
static void column_of(const tile_source *s, int which, const uint64_t *constant, tsr_column *column) {
  int64_t slot =
      tsr__fragment_system_slot(&s->fragment->fragment->metadata, (tsr_system_column)(TSR_SLOT_TIMES + which));
  *column = (tsr_column){.values = constant, .cell_size = sizeof(uint64_t), .constant = true};
  if (slot >= 0) *column = (tsr_column){.values = tile_of(s, slot)->values, .cell_size = sizeof(uint64_t)};
}

/* ---- Deletes ----------------------------------------------------------------------------------------------------- */

typedef struct getter { /* argument of condition_column */
  const tile_source *source;
  const tsr_condition *condition;
  tsr_column *columns; /* room for the condition's fields */
  uint32_t count; /* columns in use */
} getter;

static int condition_column(void *argument, const char *name, const tsr_field **field, const tsr_column **column,
                            tsr_error *error) {
  getter *g = argument;
  tsr_column *out = &g->columns[g->count++];
  int64_t slot;
  TSR_TRY(find_field(g->source, g->condition, name, field, &slot, error));
  if (!*field) return tsr__fail(error, TSR_ERROR, "it names the field '%s', which the array lacks", name);
  *out = (tsr_column){.constant = true, .unwritten = true};
  const tsr_schema *theirs = g->source->fragment->fragment->metadata.schema;
  if (slot >= 0) slot_column(g->source, *field, (uint32_t)tsr__schema_field(theirs, name), slot, out);
  *column = out;
  return TSR_OK;
}

/* Evaluates a delete condition for the current tile, and records the cells that it deletes. `keep` has room for one
 * byte per cell. */
static int apply_condition(tile_source *s, uint32_t number, uint64_t cells, uint8_t *keep, tsr_error *error) {
  const tsr_condition *condition = s->fragment->conditions[number];
  getter g = {.source = s, .condition = condition};
  tsr_column *room;
  TSR_TRY(TSR_ALLOC_ARRAY(s->merge->plan->memory, condition->field_count, &room, error));
  g.columns = room;
  int rc = tsr__condition_evaluate(condition, condition_column, &g, NULL, cells, keep, s->merge->plan->memory, error);
  tsr__free(room);
  if (rc < 0) return tsr__wrap(error, "fragment %s, tile %llu", s->fragment->fragment->name, (unsigned long long)s->at);
  uint64_t *delete_times = (uint64_t *)(void *)s->delete_times.data,
           *conditions = (uint64_t *)(void *)s->conditions.data;
  const tsr_column *times = &s->columns[s->merge->fields];
  for (uint64_t i = 0; i < cells; i++) {
    uint64_t time = ((const uint64_t *)times->values)[times->constant ? 0 : i];
    if (keep[i] || time > condition->time || delete_times[i] <= condition->time) continue;
    delete_times[i] = condition->time;
    conditions[i] = s->numbers[number];
  }
  return TSR_OK;
}

/* Translates the stored conditions of the cells into indices of tsr_merge_conditions. */
static int renumber(const tile_source *s, const tsr_column *stored, uint64_t cells, uint64_t *conditions,
                    tsr_error *error) {
  const tsr_fragment_metadata *m = &s->fragment->fragment->metadata;
  for (uint64_t i = 0; i < cells; i++) {
    uint64_t number = stored->constant ? never : tsr__load64((const uint8_t *)stored->values + 8 * i);
    if (number != never && number >= m->processed.count)
      return tsr__fail(error, TSR_CORRUPT, "fragment %s, tile %llu: cell %llu was deleted by condition %llu of %u",
                       s->fragment->fragment->name, (unsigned long long)s->at, (unsigned long long)i,
                       (unsigned long long)number, m->processed.count);
    conditions[i] = number == never ? never : s->renumbered[number];
  }
  return TSR_OK;
}

/* Makes the columns of deletion times and conditions of the current tile. */
static int find_deletes(tile_source *s, uint64_t cells, tsr_error *error) {
  tsr_column stored, by;
  s->delete_times.size = s->conditions.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->delete_times, cells * sizeof(uint64_t), error));
  TSR_TRY(tsr__buffer_reserve(&s->conditions, cells * sizeof(uint64_t), error));
  uint64_t *delete_times = (uint64_t *)(void *)s->delete_times.data,
           *conditions = (uint64_t *)(void *)s->conditions.data;
  column_of(s, DELETE_TIMES, &never, &stored);
  column_of(s, DELETE_CONDITIONS, &never, &by);
  for (uint64_t i = 0; i < cells; i++)
    delete_times[i] = stored.constant ? never : tsr__load64((const uint8_t *)stored.values + 8 * i);
  TSR_TRY(renumber(s, &by, cells, conditions, error));
  uint8_t *keep;
  TSR_TRY(TSR_ALLOC_RAW(s->merge->plan->memory, cells, &keep, error));
  int rc = TSR_OK;
  for (uint32_t i = 0; i < s->fragment->condition_count && rc >= 0; i++) rc = apply_condition(s, i, cells, keep, error);
  tsr__free(keep);
  s->columns[s->merge->fields + DELETE_TIMES] = (tsr_column){.values = delete_times, .cell_size = sizeof(uint64_t)};
  s->columns[s->merge->fields + DELETE_CONDITIONS] = (tsr_column){.values = conditions, .cell_size = sizeof(uint64_t)};
  return rc;
}

/* ---- The source -------------------------------------------------------------------------------------------------- */

static int next_of_fragment(tsr_merge_source *source, tsr_merge_block *block, tsr_error *error) {
  tile_source *s = (tile_source *)source;
  const tsr_schema *schema = s->merge->schema;
  if (s->loaded) {
    return_tiles(s);
    s->at++;
  }
  if (s->at == s->end) return 0;
  TSR_TRY(load_tile(s, error));
  uint64_t cells = tsr__fragment_tile_cells(&s->fragment->fragment->metadata, s->at);
  for (uint32_t f = 0; f < s->merge->fields; f++)
    slot_column(s, &schema->fields[f], f, s->fragment->slots[f], &s->columns[f]);
  if (s->merge->system_columns) column_of(s, TIMES, &s->time, &s->columns[s->merge->fields]);
  if (s->merge->system_columns == 3) TSR_TRY(find_deletes(s, cells, error));
  *block = (tsr_merge_block){cells, s->columns};
  return 1;
}

/* Returns the low corner of the next tile's MBR. */
static const tsr_column *low_corner(tsr_merge_source *source) {
  tile_source *s = (tile_source *)source;
  const tsr_rtree *rtree = s->fragment->fragment->metadata.rtree;
  uint64_t at = s->loaded ? s->at + 1 : s->at;
  if (at >= s->end) return NULL;
  const uint32_t leaf = rtree->levels - 1;
  for (uint32_t d = 0; d < rtree->dimensions; d++) {
    const uint64_t k = (at * rtree->dimensions + d) * 2;
    const tsr_field *field = &s->merge->schema->fields[d];
    uint64_t *number = (uint64_t *)(void *)s->bound_bytes.data + 2 * (uint64_t)d;
    if (field->cell_size) {
      tsr__key_value(field->datatype, rtree->keys[leaf][k], number);
      s->bound[d] = (tsr_column){.values = number, .cell_size = field->cell_size, .constant = true};
    } else {
      number[0] = 0;
      number[1] = rtree->sizes[leaf][k];
      s->bound[d] = (tsr_column){.values = rtree->text + rtree->keys[leaf][k], .offsets = number, .constant = true};
    }
  }
  return s->bound;
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

/* Returns the index of a condition in the merged list, which must contain it. */
static uint32_t condition_number(const tsr_merge_conditions *conditions, const char *name) {
  return (uint32_t)(uintptr_t)tsr__map_get(&conditions->numbers, name) - 1;
}

/* Adds the tiles from..end - 1 of a fragment of the plan as a source. */
static int add_source(sparse_merge *m, uint32_t index, uint64_t from, uint64_t end, const uint32_t *renumbered,
                      uint32_t *numbers, tsr_error *error) {
  tile_source *s = &m->sources[m->count];
  const tsr_snapshot_fragment *fragment = &m->plan->snapshot->fragments[m->plan->fragments[index]];
  const tsr_fragment_metadata *metadata = &fragment->fragment->metadata;
  const uint64_t dimensions = m->schema->dimension_count;
  *s = (tile_source){.merge = m, .fragment = fragment, .index = index, .at = from, .end = end};
  s->renumbered = renumbered;
  s->base = (tsr_merge_source){.next = next_of_fragment, .lower_bound = low_corner, .sort_blocks = true};
  s->numbers = numbers;
  s->time = fragment->fragment->parsed.start;
  s->delete_times.memory = s->conditions.memory = s->bound_bytes.memory = m->plan->memory;
  m->list[m->count++] = &s->base;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, metadata->slot_count, &s->requests, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->fields + 3, &s->columns, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, dimensions, &s->bound, error));
  TSR_TRY(tsr__buffer_reserve(&s->bound_bytes, 2 * sizeof(uint64_t) * dimensions, error));
  return TSR_OK;
}

/* Adds the sources of a fragment: one, or if it is `split`, one per tile. */
static int add_fragment(sparse_merge *m, uint32_t index, bool split, tsr_error *error) {
  const tsr_snapshot_fragment *fragment = &m->plan->snapshot->fragments[m->plan->fragments[index]];
  tsr_fragment_metadata *metadata = &fragment->fragment->metadata;
  const tsr_rtree *rtree;
  TSR_TRY(tsr__fragment_rtree(m->plan->array, fragment->fragment, &rtree, error));
  TSR_TRY(tsr__fragment_processed(m->plan->array, fragment->fragment, error));
  uint32_t *renumbered;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, metadata->processed.count, &renumbered, error));
  for (uint32_t i = 0; i < metadata->processed.count; i++)
    renumbered[i] = condition_number(m->conditions, metadata->processed.names[i]);
  uint32_t *numbers;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, fragment->condition_count, &numbers, error));
  for (uint32_t i = 0; i < fragment->condition_count; i++)
    numbers[i] = condition_number(m->conditions, fragment->conditions[i]->name);
  if (!split) return add_source(m, index, 0, metadata->tile_count, renumbered, numbers, error);
  for (uint64_t t = 0; t < metadata->tile_count; t++)
    TSR_TRY(add_source(m, index, t, t + 1, renumbered, numbers, error));
  return TSR_OK;
}

static void close_sources(sparse_merge *m) {
  for (uint32_t i = 0; i < m->count; i++) {
    return_tiles(&m->sources[i]);
    tsr__buffer_release(&m->sources[i].delete_times);
    tsr__buffer_release(&m->sources[i].conditions);
    tsr__buffer_release(&m->sources[i].bound_bytes);
  }
  m->count = 0;
  tsr__arena_reset(&m->arena);
}

/* Lets the store prefetch the first tiles of the sources, which the merge loads one by one. */
static void expect_first_tiles(sparse_merge *m) {
  tsr_array *array = m->plan->array;
  uint64_t bytes = 0;
  tsr_error unseen; /* loading the tile will report it */
  for (uint32_t i = 0; tsr__store_prefetches(array->store) && i < m->count && bytes < EXPECTED_BYTES; i++) {
    tile_source *s = &m->sources[i];
    if (s->at < s->end && request_tile(s, &unseen) >= 0)
      bytes = tsr__add_sat(bytes, tsr__tiles_prefetch(array, s->requests, s->request_count));
  }
}

static int open_sources(sparse_merge *m, const bool *split, tsr_error *error) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < m->plan->count; i++) {
    const tsr_fragment *f = m->plan->snapshot->fragments[m->plan->fragments[i]].fragment;
    count += split[i] ? f->metadata.tile_count : 1;
  }
  if (count >= UINT32_MAX) return tsr__fail(error, TSR_UNSUPPORTED, "too many tiles out of order");
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, count, &m->sources, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, count, &m->list, error));
  for (uint32_t i = 0; i < m->plan->count; i++) {
    TSR_TRY(tsr__cancelled(&m->plan->array->environment->memory, error));
    TSR_TRY(add_fragment(m, i, split[i], error));
  }
  expect_first_tiles(m);
  return TSR_OK;
}

static int write_merged(sparse_merge *m, const tsr_fragment_target *target, uint64_t *cells, uint32_t *unsorted,
                        tsr_error *error) {
  tsr_fragment_writer *writer = NULL;
  tsr_merge_options options = {.schema = m->schema,
                               .system_columns = m->system_columns,
                               .purge = m->plan->purge,
                               .environment = m->plan->array->environment,
                               .memory = m->plan->memory};
  int rc = tsr__fragment_writer_open(target, &writer, error);
  if (rc >= 0) rc = tsr__merge(&options, m->list, m->count, writer, cells, unsorted, error);
  if (rc >= 0 && *cells) rc = tsr__fragment_writer_finish(writer, error);
  tsr__fragment_writer_close(writer);
  return rc;
}

/* Removes the directory of a failed attempt with its files, and recreates it empty. */
static int clear_target(const tsr_fragment_target *target, tsr_error *error) {
  TSR_TRY(tsr__store_remove_tree(target->store, target->directory, error));
  return tsr__store_make_provisional(target->store, target->directory, error);
}

/* Merges; whenever a fragment's tiles turn out to overlap, splits that fragment and starts over. */
static int merge_once(sparse_merge *m, bool *split, const tsr_fragment_target *target, uint64_t *cells,
                      tsr_error *error) {
  for (;;) {
    uint32_t unsorted = UINT32_MAX;
    int rc = open_sources(m, split, error);
    if (rc >= 0) rc = write_merged(m, target, cells, &unsorted, error);
    uint32_t index = unsorted < m->count ? m->sources[unsorted].index : UINT32_MAX;
    close_sources(m);
    if (rc != TSR_CORRUPT || index == UINT32_MAX || split[index]) return rc;
    split[index] = true;
    TSR_TRY(clear_target(target, error));
  }
}

int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error) {
  const tsr_schema *schema = target->schema;
  sparse_merge m = {.plan = plan, .conditions = conditions, .schema = schema};
  m.fields = schema->dimension_count + schema->attribute_count;
  m.system_columns = !plan->keep_times ? 0 : conditions->has_deletes ? 3 : 1;
  bool *split;
  TSR_TRY(tsr__array_schema_at(plan->array, UINT64_MAX, &m.newest, error));
  TSR_TRY(TSR_ALLOC_ARRAY(plan->memory, plan->count, &split, error));
  tsr__arena_init(&m.arena, plan->memory);
  int rc = merge_once(&m, split, target, cells, error);
  tsr__arena_release(&m.arena);
  tsr__free(split);
  return rc;
}

/* ---- Conditions -------------------------------------------------------------------------------------------------- */

/* Adds a condition to the list unless it is in it already; *room is the capacity of the list. */
static int add_name(tsr_merge_conditions *conditions, uint64_t *room, char *name, tsr_arena *arena, tsr_error *error) {
  if (tsr__map_get(&conditions->numbers, name)) return TSR_OK;
  TSR_TRY(TSR_ARENA_GROW(arena, &conditions->names, conditions->count, room, 16, error));
  conditions->names[conditions->count++] = name;
  return tsr__map_put(&conditions->numbers, name, (void *)(uintptr_t)conditions->count, error);
}

int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error) {
  uint64_t room = 0;
  *conditions = (tsr_merge_conditions){.numbers.memory = plan->memory};
  for (uint32_t i = 0; i < plan->count; i++) {
    const tsr_snapshot_fragment *item = &plan->snapshot->fragments[plan->fragments[i]];
    tsr_fragment_metadata *m = &item->fragment->metadata;
    TSR_TRY(tsr__cancelled(&plan->array->environment->memory, error));
    TSR_TRY(tsr__fragment_processed(plan->array, item->fragment, error));
    for (uint32_t p = 0; p < m->processed.count; p++)
      TSR_TRY(add_name(conditions, &room, m->processed.names[p], arena, error));
    for (uint32_t c = 0; c < item->condition_count; c++)
      TSR_TRY(add_name(conditions, &room, item->conditions[c]->name, arena, error));
    conditions->has_deletes = conditions->has_deletes || m->has_delete_metadata || item->condition_count;
  }
  return TSR_OK;
}

/* ---- Merging a box of dense fragments ---------------------------------------------------------------------------- */

/* The fragments cover every cell of the box (domain.c makes such boxes). The new fragment is written space tile by
 * space tile. A cell has the same position within its tile in all fragments, so a tile is assembled from the same tile
 * of all fragments that reach into it; each cell is taken from its owner, the newest fragment whose box covers it. */

/* ---- Tiles ---------------------------------------------------------------------------------- */

typedef struct dense_merge {
  const tsr_merge_plan *plan;
  const tsr_grid *grid;
  const uint64_t *low, *high; /* the box: ordinals, inclusive */
  uint32_t fields;
  uint64_t *tile; /* [dimension]: the current tile's coordinates in the tile grid */
  uint64_t *from, *to; /* [dimension]: a box within the current tile, inclusive, counted from the tile's first cell */
  uint64_t *at; /* [dimension]: a cell of that box */
  tsr_pick *picks; /* [cell of the tile]: its owner */
  tsr_tile_request *requests; /* one per attribute of each fragment that owns cells of the current tile */
  uint64_t request_count;
  tsr_column *columns; /* [source * fields + field] */
  const tsr_column **sources; /* [source]: its columns */
  bool *used; /* [source]: it owns cells of the current tile */
  tsr_interleaver interleaver;
} dense_merge;

static const tsr_snapshot_fragment *fragment_of(const dense_merge *m, uint32_t source) {
  return &m->plan->snapshot->fragments[m->plan->fragments[source]];
}

/* Sets from..to to the part of the current tile that lies in the box low..high and in the box that is written. Returns
 * false if there is none. */
static bool clip_tile(dense_merge *m, const uint64_t *low, const uint64_t *high) {
  for (uint32_t d = 0; d < m->grid->dimensions; d++) {
    uint64_t base = m->tile[d] * m->grid->extent[d];
    uint64_t first = TSR_MAX(TSR_MAX(low[d], m->low[d]), base);
    uint64_t last = TSR_MIN(TSR_MIN(high[d], m->high[d]), tsr__add_sat(base, m->grid->extent[d] - 1));
    if (first > last) return false;
    m->from[d] = first - base;
    m->to[d] = last - base;
  }
  return true;
}

/* Makes a source the owner of those cells of from..to that have none. Returns their number. */
static uint64_t assign_cells(dense_merge *m, uint32_t source) {
  const tsr_grid *grid = m->grid;
  const uint32_t n = grid->dimensions, fast = grid->col_major_cells ? 0 : n - 1;
  uint64_t owned = 0;
  memcpy(m->at, m->from, n * sizeof(uint64_t));
  for (bool more = true; more;) {
    uint64_t cell = 0;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t d = grid->col_major_cells ? n - 1 - i : i;
      cell = cell * grid->extent[d] + m->at[d];
    }
    for (uint64_t end = cell + m->to[fast] - m->from[fast]; cell <= end; cell++)
      if (m->picks[cell].source == TSR_NO_SOURCE) {
        m->picks[cell] = (tsr_pick){source, (uint32_t)cell};
        owned++;
      }
    more = false;
    for (uint32_t i = 1; i < n && !more; i++) {
      uint32_t d = grid->col_major_cells ? i : n - 1 - i;
      more = ++m->at[d] <= m->to[d];
      if (!more) m->at[d] = m->from[d];
    }
  }
  return owned;
}

/* Returns the number of a tile within a fragment, in the array's tile order. */
static uint64_t tile_number(const tsr_grid *grid, const tsr_fragment *fragment, const uint64_t *tile) {
  uint64_t number = 0;
  for (uint32_t i = 0; i < grid->dimensions; i++) {
    uint32_t d = grid->col_major_tiles ? grid->dimensions - 1 - i : i;
    number = number * fragment->dense.tile_count[d] + (tile[d] - fragment->dense.tile_low[d]);
  }
  return number;
}

/* Finds the owner of each cell of the current tile, and makes the requests for the owners' tiles. */
static void choose_owners(dense_merge *m) {
  const uint64_t cells = m->grid->tile_cells;
  for (uint64_t i = 0; i < cells; i++) m->picks[i] = (tsr_pick){TSR_NO_SOURCE, 0};
  m->request_count = 0;
  for (uint32_t s = m->plan->count; s-- > 0;) { /* newest first */
    tsr_fragment *fragment = fragment_of(m, s)->fragment;
    m->used[s] = clip_tile(m, fragment_of(m, s)->box_low, fragment_of(m, s)->box_high) && assign_cells(m, s) > 0;
    if (!m->used[s]) continue;
    for (uint32_t f = m->grid->dimensions; f < m->fields; f++)
      m->requests[m->request_count++] = (tsr_tile_request){.fragment = fragment,
                                                           .slot = (uint32_t)fragment_of(m, s)->slots[f],
                                                           .number = tile_number(m->grid, fragment, m->tile)};
  }
}

/* Points the columns of the sources at the loaded tiles, in the order of the requests. */
static void show_columns(dense_merge *m, const tsr_schema *schema) {
  uint64_t w = 0;
  for (uint32_t s = m->plan->count; s-- > 0;) {
    m->sources[s] = m->columns + (uint64_t)s * m->fields;
    for (uint32_t f = m->grid->dimensions; f < m->fields && m->used[s]; f++) {
      const tsr_tile *tile = m->requests[w++].tile;
      m->columns[(uint64_t)s * m->fields + f] = (tsr_column){.values = tile->values,
                                                             .offsets = tile->offsets,
                                                             .validity = tile->validity,
                                                             .cell_size = schema->fields[f].cell_size};
    }
  }
}

static int write_dense_tile(dense_merge *m, const tsr_schema *schema, tsr_error *error) {
  const tsr_merge_plan *plan = m->plan;
  choose_owners(m);
  TSR_TRY(tsr__tiles_load(plan->array, plan->threads, m->requests, m->request_count, plan->memory, error));
  show_columns(m, schema);
  int rc = tsr__interleaver_write(&m->interleaver, m->sources, m->picks, m->grid->tile_cells, error);
  for (uint64_t i = 0; i < m->request_count; i++) tsr__tile_return(m->requests[i].tile, plan->memory);
  return rc;
}

static int write_dense_tiles(dense_merge *m, const tsr_schema *schema, tsr_error *error) {
  const tsr_grid *grid = m->grid;
  for (uint32_t d = 0; d < grid->dimensions; d++) m->tile[d] = m->low[d] / grid->extent[d];
  for (bool more = true; more;) {
    TSR_TRY(tsr__cancelled(&m->plan->array->environment->memory, error));
    TSR_TRY(write_dense_tile(m, schema, error));
    more = false;
    for (uint32_t i = 0; i < grid->dimensions && !more; i++) {
      uint32_t d = grid->col_major_tiles ? i : grid->dimensions - 1 - i;
      more = ++m->tile[d] <= m->high[d] / grid->extent[d];
      if (!more) m->tile[d] = m->low[d] / grid->extent[d];
    }
  }
  return TSR_OK;
}

static int prepare_dense(dense_merge *m, tsr_arena *arena, tsr_error *error) {
  const uint64_t n = m->grid->dimensions, count = m->plan->count;
  TSR_TRY(TSR_ARENA_ARRAY(arena, 4 * n, &m->tile, error));
  m->from = m->tile + n;
  m->to = m->from + n;
  m->at = m->to + n;
  TSR_TRY(TSR_ARENA_ARRAY(arena, m->grid->tile_cells, &m->picks, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, tsr__mul_sat(count, m->fields), &m->requests, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, tsr__mul_sat(count, m->fields), &m->columns, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, count, &m->sources, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, count, &m->used, error));
  return TSR_OK;
}

int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error) {
  const tsr_schema *schema = target->schema;
  dense_merge m = {.plan = plan, .low = low, .high = high};
  tsr_arena arena;
  tsr_fragment_writer *writer = NULL;
  m.fields = schema->dimension_count + schema->attribute_count;
  tsr__arena_init(&arena, plan->memory);
  int rc = tsr__array_grid(plan->array, schema, &m.grid, error);
  if (rc >= 0) rc = prepare_dense(&m, &arena, error);
  if (rc >= 0) rc = tsr__fragment_writer_open(target, &writer, error);
  if (rc >= 0) rc = tsr__interleaver_init(&m.interleaver, schema, 0, true, plan->memory, writer, error);
  if (rc >= 0) rc = write_dense_tiles(&m, schema, error);
  if (rc >= 0) rc = tsr__fragment_writer_finish(writer, error);
  tsr__interleaver_release(&m.interleaver);
  tsr__fragment_writer_close(writer);
  tsr__arena_release(&arena);
  return rc;
}
