/* merge.c: merges sorted sources into one stream of cells in global order.
 *
 * Each cell of a loaded block has a row of sort numbers. Comparing two rows, number by number, compares the cells: a
 * row has the numbers of the space tile, then the order keys of the coordinates, as in write_order.c; in Hilbert order
 * the code comes first. A string is represented by its first 8 bytes; strings with the same number are compared in
 * full.
 *
 * A heap holds the sources, ordered by their next cells. A source whose next block is not loaded takes part with the
 * lower bound of that block, and is loaded when the bound comes to the top of the heap. So of sources that follow each
 * other in the order of cells only one is in memory at a time.
 *
 * Cells with equal coordinates leave the heap newest first: by their times, then by the number of their source.
 */
#include "maintain/merge.h"

#include <string.h>

#include "base/heap.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "model/order.h"
#include "array/environment.h"
#include "write/interleave.h"

#define PICKS_MAX 8192u /* cells written at once */

typedef struct merge_cursor { /* a source and its position */
  tsr_merge_source *source;
  uint32_t number; /* of the source */
  bool loaded, ended;
  tsr_merge_block block; /* if loaded */
  const tsr_column *coordinates; /* the columns that `rows` were made of: the block's, or the lower bound */
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

typedef struct merge_numbers { /* what a row of sort numbers consists of */
  uint32_t count; /* how many numbers a row has */
  uint32_t *dimension_of; /* [number]: the dimension that the number represents */
  bool *is_tile; /* [number]: the number is that of a space tile, not of a coordinate */
  bool hilbert; /* number 0 is the Hilbert code */
  bool texts; /* some dimensions are strings: equal rows do not mean equal cells */
} merge_numbers;

typedef struct merge_output { /* cells that are chosen and not written yet */
  tsr_interleaver interleaver;
  const tsr_column **columns; /* [source]: of the loaded block */
  tsr_pick *picks;
  uint64_t count, written; /* picks; cells that were written before */
} merge_output;

typedef struct merge_previous { /* the last cell that left the heap */
  bool exists;
  bool purging; /* older cells of its coordinates are dropped, too */
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

/* ---- Rows of sort numbers ------------------------------------------------------------------- */

static bool merge_is_text(const merger *m, uint32_t d) { return !m->o->schema->fields[d].cell_size; }

static const uint8_t *merge_text_of(const tsr_column *column, uint64_t cell, uint64_t *size) {
  uint64_t i = column->constant ? 0 : cell;
  *size = column->offsets[i + 1] - column->offsets[i];
  return (const uint8_t *)column->values + column->offsets[i];
}

static const uint8_t *merge_value_of(const merger *m, const tsr_column *columns, uint32_t d, uint64_t cell) {
  return (const uint8_t *)columns[d].values + (columns[d].constant ? 0 : cell * m->o->schema->fields[d].cell_size);
}

/* Fills number 0 of the rows with Hilbert codes. */
static void make_codes(const merger *m, const tsr_column *columns, uint64_t count, uint64_t *rows) {
  const void *values[TSR_MAX_DIMENSIONS];
  uint64_t sizes[TSR_MAX_DIMENSIONS] = {0};
  for (uint64_t i = 0; i < count; i++) {
    for (uint32_t d = 0; d < m->dimensions; d++)
      values[d] = merge_is_text(m, d) ? merge_text_of(&columns[d], i, &sizes[d]) : merge_value_of(m, columns, d, i);
    rows[i * m->numbers.count] = tsr__hilbert_code(m->o->schema, values, sizes);
  }
}

/* Fills number k of the rows. */
static void make_number(const merger *m, const tsr_column *columns, uint64_t count, uint32_t k, uint64_t *rows) {
  uint32_t d = m->numbers.dimension_of[k];
  const tsr_field *field = &m->o->schema->fields[d];
  bool integers = tsr_datatype_kind(field->datatype) != TSR_KIND_FLOAT;
  uint64_t keys[256], extent = 0, low = 0;
  if (merge_is_text(m, d)) {
    for (uint64_t i = 0; i < count; i++) {
      uint64_t size;
      const uint8_t *text = merge_text_of(&columns[d], i, &size);
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

static const uint64_t *merge_row_of(const merger *m, const merge_cursor *c, uint64_t cell) {
  return (const uint64_t *)(const void *)c->rows.data + cell * m->numbers.count;
}

/* The index in its block of the cell at a sorted position. */
static uint64_t merge_cell_of(const merge_cursor *c, uint64_t at) { return c->order ? c->order[at] : at; }

static int merge_compare_cells(const merger *m, const merge_cursor *a, uint64_t i, const merge_cursor *b, uint64_t j) {
  const uint64_t *x = merge_row_of(m, a, i), *y = merge_row_of(m, b, j);
  for (uint32_t l = 0; l < m->numbers.count; l++) {
    if (x[l] != y[l]) return x[l] < y[l] ? -1 : 1;
    if (!m->numbers.texts || (m->numbers.hilbert && l == 0)) continue;
    const uint32_t d = m->numbers.dimension_of[l];
    if (!merge_is_text(m, d)) continue;
    uint64_t x_size, y_size;
    const uint8_t *x_text = merge_text_of(&a->coordinates[d], i, &x_size),
                  *y_text = merge_text_of(&b->coordinates[d], j, &y_size);
    int c = tsr__bytes_compare(x_text, x_size, y_text, y_size);
    if (c) return c;
  }
  return 0;
}

/* Copies a cell so that it outlives its block: its row, and its strings, each after a u64 with its size. */
static int keep_cell(const merger *m, const merge_cursor *c, uint64_t cell, tsr_buffer *row, tsr_buffer *text,
                     tsr_error *error) {
  row->size = text->size = 0;
  TSR_TRY(tsr__buffer_append(row, merge_row_of(m, c, cell), m->numbers.count * sizeof(uint64_t), error));
  for (uint32_t d = 0; d < m->dimensions; d++) {
    if (!merge_is_text(m, d)) continue;
    uint64_t size;
    const uint8_t *bytes = merge_text_of(&c->coordinates[d], cell, &size);
    TSR_TRY(tsr__buffer_append_u64(text, size, error));
    if (size) TSR_TRY(tsr__buffer_append(text, bytes, size, error));
  }
  return TSR_OK;
}

/* Compares a kept cell with one of a block. */
static int compare_kept(const merger *m, const tsr_buffer *row, const tsr_buffer *text, const merge_cursor *c,
                        uint64_t cell) {
  const uint64_t *x = (const uint64_t *)(const void *)row->data, *y = merge_row_of(m, c, cell);
  for (uint32_t l = 0; l < m->numbers.count; l++) {
    if (x[l] != y[l]) return x[l] < y[l] ? -1 : 1;
    const uint32_t dimension = m->numbers.dimension_of[l];
    if ((m->numbers.hilbert && l == 0) || !merge_is_text(m, dimension)) continue;
    const uint8_t *kept = text->data;
    uint64_t size;
    for (uint32_t d = 0; d < dimension; d++)
      if (merge_is_text(m, d)) kept += sizeof(uint64_t) + tsr__load64(kept);
    const uint8_t *bytes = merge_text_of(&c->coordinates[dimension], cell, &size);
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
 * because its block may hold a newer cell of the same coordinates. */
static bool merge_before(const merger *m, const merge_place *first, const merge_place *second) {
  const merge_cursor *a = first->source, *b = second->source;
  for (uint32_t l = 0; l < m->numbers.count && !m->numbers.texts; l++)
    if (first->row[l] != second->row[l]) return first->row[l] < second->row[l];
  uint64_t i = a->loaded ? merge_cell_of(a, a->at) : 0, j = b->loaded ? merge_cell_of(b, b->at) : 0;
  int order = merge_compare_cells(m, a, i, b, j);
  if (order) return order < 0;
  if (a->loaded != b->loaded) return !a->loaded;
  if (a->loaded && m->o->system_columns) {
    uint64_t x = system_column_find(m, a, i, 0), y = system_column_find(m, b, j, 0);
    if (x != y) return x > y;
  }
  return a->number > b->number;
}

static merge_place merge_place_of(const merger *m, merge_cursor *c) {
  return (merge_place){merge_row_of(m, c, c->loaded ? merge_cell_of(c, c->at) : 0), c};
}

TSR_DEFINE_HEAP(merge_heap, merger, merge_place, merge_before)

/* ---- Blocks --------------------------------------------------------------------------------- */

/* Compares two cells of the cursor's block, by coordinates and then newest first. */
static int compare_in_block(const merger *m, const merge_cursor *c, uint64_t i, uint64_t j) {
  int order = merge_compare_cells(m, c, i, c, j);
  if (order || !m->o->system_columns) return order;
  uint64_t x = system_column_find(m, c, i, 0), y = system_column_find(m, c, j, 0);
  return x > y ? -1 : x < y;
}

static bool block_is_sorted(const merger *m, const merge_cursor *c) {
  for (uint64_t i = 1; i < c->block.count; i++)
    if (compare_in_block(m, c, i - 1, i) > 0) return false;
  return true;
}

/* Sorts a block by a stable merge sort, bottom up, if the source asks for it. */
static int merge_sort_block(const merger *m, merge_cursor *c, tsr_error *error) {
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

/* Loads the source's next block, or notes that the source has ended. */
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
  TSR_TRY(merge_sort_block(m, c, error));
  if (c->has_last && compare_kept(m, &c->last_row, &c->last_text, c, merge_cell_of(c, 0)) > 0) {
    m->unsorted = c->number;
    return tsr__fail(error, TSR_CORRUPT, "cells are not in global order");
  }
  return TSR_OK;
}

/* Moves the source before its next block: to the lower bound of that block if it has one, else to the loaded block. A
 * lower bound of coordinates says nothing about Hilbert codes. */
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
  bool is_new = order < 0; /* other coordinates than those of the previous cell */
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
  TSR_TRY(keep_cell(m, c, merge_cell_of(c, c->block.count - 1), &c->last_row, &c->last_text, error));
  c->has_last = true;
  return merge_next_block(m, c, error);
}

static int run_merge(merger *m, tsr_error *error) {
  for (uint32_t i = 0; i < m->count; i++) {
    merge_cursor *c = &m->cursors[i];
    TSR_TRY(merge_next_block(m, c, error));
    if (!c->ended) m->heap[m->heap_count++] = merge_place_of(m, c);
  }
  merge_heap_build(m, m->heap, m->heap_count);
  while (m->heap_count) {
    merge_cursor *c = m->heap[0].source;
    if (!c->loaded) {
      TSR_TRY(merge_load(m, c, error));
    } else {
      uint64_t cell = merge_cell_of(c, c->at);
      bool chosen = false;
      TSR_TRY(merge_choose(m, c, cell, &chosen, error));
      if (chosen) m->output.picks[m->output.count++] = (tsr_pick){c->number, (uint32_t)cell};
      if (m->output.count == PICKS_MAX) TSR_TRY(merge_flush(m, error));
      TSR_TRY(merge_advance(m, c, error));
    }
    const merge_place moved = c->ended ? m->heap[--m->heap_count] : merge_place_of(m, c);
    merge_heap_sink_deep(m, m->heap, m->heap_count, 0, moved);
  }
  return merge_flush(m, error);
}

/* ---- Open and close ------------------------------------------------------------------------- */

static void add_number(merge_numbers *numbers, uint32_t d, bool tile) {
  numbers->dimension_of[numbers->count] = d;
  numbers->is_tile[numbers->count++] = tile;
}

/* Chooses the numbers of a row, the most significant first. */
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

int tsr__merge(const tsr_merge_options *options, tsr_merge_source *const *sources, uint32_t count,
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
