/* merge.c: sorted sources become one stream in global order.
 *
 * Each cell of a block in hand has a row of numbers that sort as the cells do (as in write_order.c: tile numbers, then
 * order keys of coordinates; of Hilbert order the code first); a string counts with its first 8 bytes, and is compared
 * as a whole where these are equal. A heap holds the sources by their next cell. A source whose next block is not
 * loaded yet stands there with the corner that the block's cells are not below, and is loaded when that comes to the
 * top: so sources that follow each other are in memory one at a time.
 *
 * Equal cells leave the heap the newest first: by time, then the later source.
 */
#include "maintain/merge.h"

#include <string.h>

#include "model/datatype.h"
#include "model/domain.h"
#include "model/order.h"
#include "array/environment.h"
#include "write/interleave.h"

#define PICKS 8192u /* cells that are written at once */

typedef struct merge_cursor {
  tsr_merge_source *source;
  uint32_t number;
  bool loaded, ended;
  tsr_merge_block block;
  const tsr_column *shown; /* coordinates of what `rows` are of: the block's, or a corner's */
  uint64_t at;
  uint32_t *order; /* of the block's cells, where they do not stand in order */
  tsr_buffer rows, order_room;
  bool has_last; /* the last cell of the block before: */
  tsr_buffer last_row, last_text;
} merge_cursor;

typedef struct merge_place { /* in the heap */
  const uint64_t *row; /* of the source's next cell, or of its corner */
  merge_cursor *source;
} merge_place;

typedef struct merger {
  const tsr_merge_options *o;
  uint32_t dimensions, fields;
  uint32_t lists; /* numbers in a row */
  uint32_t *dimension_of; /* [list] */
  bool *is_tile; /* [list]: a tile number rather than a coordinate */
  bool hilbert; /* list 0 is the code */
  bool texts; /* some dimension is a string: its number does not say all */
  merge_cursor *cursors;
  uint32_t count;
  merge_place *heap;
  uint32_t heap_count;
  tsr_interleaver interleaver;
  const tsr_column **columns; /* by source */
  tsr_pick *picks;
  uint64_t pick_count, written;
  /* the last cell that left the heap */
  bool has_previous;
  tsr_buffer previous_row, previous_text;
  uint64_t previous_time;
  bool purging; /* older cells of the previous one's coordinates go, too */
  uint32_t unsorted;
} merger;

/* ---- Rows of numbers ------------------------------------------------------------------------ */

static bool merge_is_text(const merger *m, uint32_t d) { return !m->o->schema->fields[d].cell_size; }

static const uint8_t *merge_text_of(const tsr_column *column, uint64_t cell, uint64_t *size) {
  uint64_t i = column->constant ? 0 : cell;
  *size = column->offsets[i + 1] - column->offsets[i];
  return (const uint8_t *)column->values + column->offsets[i];
}

static const uint8_t *merge_value_of(const merger *m, const tsr_column *columns, uint32_t d, uint64_t cell) {
  return (const uint8_t *)columns[d].values + (columns[d].constant ? 0 : cell * m->o->schema->fields[d].cell_size);
}

static void make_codes(const merger *m, const tsr_column *columns, uint64_t count, uint64_t *rows) {
  const void *values[TSR_MAX_DIMENSIONS];
  uint64_t sizes[TSR_MAX_DIMENSIONS] = {0};
  for (uint64_t i = 0; i < count; i++) {
    for (uint32_t d = 0; d < m->dimensions; d++)
      values[d] = merge_is_text(m, d) ? merge_text_of(&columns[d], i, &sizes[d]) : merge_value_of(m, columns, d, i);
    rows[i * m->lists] = tsr__hilbert_code(m->o->schema, values, sizes);
  }
}

static void make_list(const merger *m, const tsr_column *columns, uint64_t count, uint32_t list, uint64_t *rows) {
  uint32_t d = m->dimension_of[list];
  const tsr_field *field = &m->o->schema->fields[d];
  bool integers = tsr_datatype_kind(field->datatype) != TSR_KIND_FLOAT;
  uint64_t keys[256], extent = 0, low = 0;
  if (merge_is_text(m, d)) {
    for (uint64_t i = 0; i < count; i++) {
      uint64_t size;
      const uint8_t *text = merge_text_of(&columns[d], i, &size);
      rows[i * m->lists + list] = tsr__text_prefix(text, size);
    }
    return;
  }
  if (m->is_tile[list] && (!integers || columns[d].constant)) {
    for (uint64_t i = 0; i < count; i++)
      rows[i * m->lists + list] = tsr__tile_number(field, merge_value_of(m, columns, d, i));
    return;
  }
  if (m->is_tile[list]) {
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
      rows[(done + i) * m->lists + list] = m->is_tile[list] ? (keys[i] - low) / extent : keys[i];
    done += n;
  }
}

static int make_rows(const merger *m, const tsr_column *columns, uint64_t count, tsr_buffer *rows, tsr_error *error) {
  rows->size = 0;
  TSR_TRY(tsr__buffer_reserve(rows, tsr__mul_sat(count, m->lists * sizeof(uint64_t)), error));
  uint64_t *numbers = (uint64_t *)(void *)rows->data;
  if (m->hilbert) make_codes(m, columns, count, numbers);
  for (uint32_t l = m->hilbert ? 1 : 0; l < m->lists; l++) make_list(m, columns, count, l, numbers);
  return TSR_OK;
}

static const uint64_t *merge_row_of(const merger *m, const merge_cursor *c, uint64_t cell) {
  return (const uint64_t *)(const void *)c->rows.data + cell * m->lists;
}

/* The present cell's index in its block. */
static uint64_t merge_cell_of(const merge_cursor *c, uint64_t at) { return c->order ? c->order[at] : at; }

static int merge_compare_cells(const merger *m, const merge_cursor *a, uint64_t i, const merge_cursor *b, uint64_t j) {
  const uint64_t *x = merge_row_of(m, a, i), *y = merge_row_of(m, b, j);
  for (uint32_t l = 0; l < m->lists; l++) {
    if (x[l] != y[l]) return x[l] < y[l] ? -1 : 1;
    if (!m->texts || (m->hilbert && l == 0) || !merge_is_text(m, m->dimension_of[l])) continue;
    uint64_t x_size, y_size;
    const uint8_t *x_text = merge_text_of(&a->shown[m->dimension_of[l]], i, &x_size),
                  *y_text = merge_text_of(&b->shown[m->dimension_of[l]], j, &y_size);
    int c = tsr__bytes_compare(x_text, x_size, y_text, y_size);
    if (c) return c;
  }
  return 0;
}

/* A cell kept beyond its block: its row, and its strings, each behind its size. */
static int keep_cell(const merger *m, const merge_cursor *c, uint64_t cell, tsr_buffer *row, tsr_buffer *text,
                     tsr_error *error) {
  row->size = text->size = 0;
  TSR_TRY(tsr__buffer_append(row, merge_row_of(m, c, cell), m->lists * sizeof(uint64_t), error));
  for (uint32_t d = 0; d < m->dimensions; d++) {
    if (!merge_is_text(m, d)) continue;
    uint64_t size;
    const uint8_t *bytes = merge_text_of(&c->shown[d], cell, &size);
    TSR_TRY(tsr__buffer_append_u64(text, size, error));
    if (size) TSR_TRY(tsr__buffer_append(text, bytes, size, error));
  }
  return TSR_OK;
}

/* A kept cell against one of a block. */
static int compare_kept(const merger *m, const tsr_buffer *row, const tsr_buffer *text, const merge_cursor *c,
                        uint64_t cell) {
  const uint64_t *x = (const uint64_t *)(const void *)row->data, *y = merge_row_of(m, c, cell);
  for (uint32_t l = 0; l < m->lists; l++) {
    if (x[l] != y[l]) return x[l] < y[l] ? -1 : 1;
    if ((m->hilbert && l == 0) || !merge_is_text(m, m->dimension_of[l])) continue;
    const uint8_t *kept = text->data;
    uint64_t size;
    for (uint32_t d = 0; d < m->dimension_of[l]; d++)
      if (merge_is_text(m, d)) kept += sizeof(uint64_t) + tsr__load64(kept);
    const uint8_t *bytes = merge_text_of(&c->shown[m->dimension_of[l]], cell, &size);
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

/* Does a stand before b? What is not loaded stands before cells that are equal: its own may be newer. */
static bool merge_before(const merger *m, const merge_place *first, const merge_place *second) {
  const merge_cursor *a = first->source, *b = second->source;
  for (uint32_t l = 0; l < m->lists && !m->texts; l++)
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

/* The child that stands before the other one; the heap's end if there is none. */
static uint32_t merge_first_child(const merger *m, uint32_t at) {
  const uint32_t child = 2 * at + 1;
  if (child >= m->heap_count) return m->heap_count;
  return child + (child + 1 < m->heap_count && merge_before(m, &m->heap[child + 1], &m->heap[child]));
}

/* A source whose next cell is the next of all stays; else it mostly belongs far below: it goes all the way down, comparing
 * children only, and up again as far as it must. */
static void merge_sink(merger *m, uint32_t top) {
  const merge_place moved = m->heap[top];
  uint32_t at = top, child = merge_first_child(m, at);
  if (child == m->heap_count || merge_before(m, &moved, &m->heap[child])) return;
  for (; child < m->heap_count; child = merge_first_child(m, at)) {
    m->heap[at] = m->heap[child];
    at = child;
  }
  while (at > top && merge_before(m, &moved, &m->heap[(at - 1) / 2])) {
    m->heap[at] = m->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  m->heap[at] = moved;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* Two cells of the cursor's block. */
static int compare_own(const merger *m, const merge_cursor *c, uint64_t i, uint64_t j) {
  int order = merge_compare_cells(m, c, i, c, j);
  if (order || !m->o->system_columns) return order;
  uint64_t x = system_column_find(m, c, i, 0), y = system_column_find(m, c, j, 0);
  return x > y ? -1 : x < y;
}

static bool stands_sorted(const merger *m, const merge_cursor *c) {
  for (uint64_t i = 1; i < c->block.count; i++)
    if (compare_own(m, c, i - 1, i) > 0) return false;
  return true;
}

/* A stable merge sort, bottom up. */
static int merge_sort_block(const merger *m, merge_cursor *c, tsr_error *error) {
  uint64_t count = c->block.count;
  c->order = NULL;
  if (!c->source->loose || stands_sorted(m, c)) return TSR_OK;
  TSR_TRY(tsr__buffer_reserve(&c->order_room, 2 * count * sizeof(uint32_t), error));
  uint32_t *from = (uint32_t *)(void *)c->order_room.data, *to = from + count;
  for (uint64_t i = 0; i < count; i++) from[i] = (uint32_t)i;
  for (uint64_t width = 1; width < count; width *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * width) {
      uint64_t a = start, middle = TSR_MIN(start + width, count), b = middle, end = TSR_MIN(start + 2 * width, count);
      for (uint64_t out = start; out < end; out++)
        to[out] = b == end || (a < middle && compare_own(m, c, from[a], from[b]) <= 0) ? from[a++] : from[b++];
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  c->order = from;
  return TSR_OK;
}

/* Stands before its next block: with that one's corner if there is one, else with the block itself. */
static int merge_load(merger *m, merge_cursor *c, tsr_error *error) {
  c->loaded = false;
  c->at = 0;
  int rc = c->source->next(c->source, &c->block, error);
  if (rc < 0) return rc;
  if (rc == 0) {
    c->ended = true;
    return TSR_OK;
  }
  c->shown = c->block.columns;
  m->columns[c->number] = c->block.columns;
  TSR_TRY(make_rows(m, c->shown, c->block.count, &c->rows, error));
  c->loaded = true;
  TSR_TRY(merge_sort_block(m, c, error));
  if (c->has_last && compare_kept(m, &c->last_row, &c->last_text, c, merge_cell_of(c, 0)) > 0) {
    m->unsorted = c->number;
    return tsr__fail(error, TSR_CORRUPT, "cells are not in global order");
  }
  return TSR_OK;
}

static int approach(merger *m, merge_cursor *c, tsr_error *error) {
  const tsr_column *corner = c->source->corner ? c->source->corner(c->source) : NULL;
  if (!corner || m->hilbert) return merge_load(m, c, error);
  c->loaded = false;
  c->shown = corner;
  return make_rows(m, corner, 1, &c->rows, error);
}

/* ---- Writing -------------------------------------------------------------------------------- */

static int merge_flush(merger *m, tsr_error *error) {
  TSR_TRY(tsr__interleaver_write(&m->interleaver, m->columns, m->picks, m->pick_count, error));
  m->written += m->pick_count;
  m->pick_count = 0;
  return TSR_OK;
}

/* Is the cell at the top of the heap to be written? */
static int merge_choose(merger *m, const merge_cursor *c, uint64_t cell, bool *chosen, tsr_error *error) {
  const tsr_merge_options *o = m->o;
  uint64_t time = o->system_columns ? system_column_find(m, c, cell, 0) : 0;
  bool purged = o->purge && o->system_columns == 3 && system_column_find(m, c, cell, 1) != UINT64_MAX;
  if (o->schema->allows_duplicates) {
    *chosen = !purged;
    return TSR_OK;
  }
  int order = m->has_previous ? compare_kept(m, &m->previous_row, &m->previous_text, c, cell) : -1;
  if (order > 0) {
    m->unsorted = c->number;
    return tsr__fail(error, TSR_CORRUPT, "cells are not in global order");
  }
  bool fresh = order < 0;
  if (fresh) m->purging = false;
  *chosen = fresh || (o->system_columns && time != m->previous_time);
  m->purging = m->purging || (*chosen && purged);
  *chosen = *chosen && !m->purging;
  m->previous_time = time;
  m->has_previous = true;
  return fresh ? keep_cell(m, c, cell, &m->previous_row, &m->previous_text, error) : TSR_OK;
}

static int merge_advance(merger *m, merge_cursor *c, tsr_error *error) {
  if (++c->at < c->block.count) return TSR_OK;
  TSR_TRY(merge_flush(m, error)); /* its columns go */
  TSR_TRY(tsr__environment_cancelled(m->o->environment, error));
  TSR_TRY(keep_cell(m, c, merge_cell_of(c, c->block.count - 1), &c->last_row, &c->last_text, error));
  c->has_last = true;
  return approach(m, c, error);
}

static int run_merge(merger *m, tsr_error *error) {
  for (uint32_t i = 0; i < m->count; i++) {
    merge_cursor *c = &m->cursors[i];
    TSR_TRY(approach(m, c, error));
    if (!c->ended) m->heap[m->heap_count++] = merge_place_of(m, c);
  }
  for (uint32_t i = m->heap_count / 2; i-- > 0;) merge_sink(m, i);
  while (m->heap_count) {
    merge_cursor *c = m->heap[0].source;
    if (!c->loaded) {
      TSR_TRY(merge_load(m, c, error));
    } else {
      uint64_t cell = merge_cell_of(c, c->at);
      bool chosen = false;
      TSR_TRY(merge_choose(m, c, cell, &chosen, error));
      if (chosen) m->picks[m->pick_count++] = (tsr_pick){c->number, (uint32_t)cell};
      if (m->pick_count == PICKS) TSR_TRY(merge_flush(m, error));
      TSR_TRY(merge_advance(m, c, error));
    }
    m->heap[0] = c->ended ? m->heap[--m->heap_count] : merge_place_of(m, c);
    if (m->heap_count) merge_sink(m, 0);
  }
  return merge_flush(m, error);
}

/* ---- Open and close ------------------------------------------------------------------------- */

static void add_list(merger *m, uint32_t d, bool tile) {
  m->dimension_of[m->lists] = d;
  m->is_tile[m->lists++] = tile;
}

/* What a row's numbers are, the most significant first. */
static int make_lists(merger *m, tsr_error *error) {
  const tsr_schema *schema = m->o->schema;
  uint32_t n = m->dimensions;
  void *room;
  TSR_TRY(tsr__alloc_array(m->o->memory, 2 * (uint64_t)n + 1, sizeof(uint32_t), &room, error));
  m->dimension_of = room;
  TSR_TRY(tsr__alloc_array(m->o->memory, 2 * (uint64_t)n + 1, sizeof(bool), &room, error));
  m->is_tile = room;
  m->hilbert = schema->cell_order == TSR_ORDER_HILBERT;
  if (m->hilbert) add_list(m, 0, false);
  for (uint32_t i = 0; i < n && !m->hilbert; i++) {
    uint32_t d = schema->tile_order == TSR_ORDER_COL ? n - 1 - i : i;
    if (schema->fields[d].has_extent) add_list(m, d, true);
  }
  for (uint32_t d = 0; d < n; d++) m->texts = m->texts || merge_is_text(m, d);
  for (uint32_t i = 0; i < n; i++) add_list(m, schema->cell_order == TSR_ORDER_COL ? n - 1 - i : i, false);
  return TSR_OK;
}

static int merge_prepare(merger *m, tsr_merge_source *const *sources, tsr_fragment_writer *writer, tsr_error *error) {
  tsr_memory *memory = m->o->memory;
  void *room;
  TSR_TRY(make_lists(m, error));
  TSR_TRY(tsr__alloc_array(memory, m->count, sizeof(merge_cursor), &room, error));
  m->cursors = room;
  for (uint32_t i = 0; i < m->count; i++) {
    merge_cursor *c = &m->cursors[i];
    c->source = sources[i];
    c->number = i;
    c->rows.memory = c->order_room.memory = c->last_row.memory = c->last_text.memory = memory;
  }
  TSR_TRY(tsr__alloc_array(memory, m->count, sizeof(merge_place), &room, error));
  m->heap = room;
  TSR_TRY(tsr__alloc_array(memory, m->count, sizeof(tsr_column *), &room, error));
  m->columns = room;
  TSR_TRY(tsr__alloc(memory, PICKS * sizeof(tsr_pick), &room, error));
  m->picks = room;
  uint32_t written = m->o->purge ? TSR_MIN(m->o->system_columns, 1) : m->o->system_columns;
  return tsr__interleaver_init(&m->interleaver, m->o->schema, written, false, memory, writer, error);
}

int tsr__merge(const tsr_merge_options *options, tsr_merge_source *const *sources, uint32_t count,
               tsr_fragment_writer *writer, uint64_t *cells, uint32_t *unsorted, tsr_error *error) {
  merger m = {.o = options, .dimensions = options->schema->dimension_count, .count = count, .unsorted = UINT32_MAX};
  m.fields = m.dimensions + options->schema->attribute_count;
  m.previous_row.memory = m.previous_text.memory = options->memory;
  int rc = merge_prepare(&m, sources, writer, error);
  if (rc >= 0) rc = run_merge(&m, error);
  for (uint32_t i = 0; m.cursors && i < count; i++) {
    tsr__buffer_release(&m.cursors[i].rows);
    tsr__buffer_release(&m.cursors[i].order_room);
    tsr__buffer_release(&m.cursors[i].last_row);
    tsr__buffer_release(&m.cursors[i].last_text);
  }
  tsr__buffer_release(&m.previous_row);
  tsr__buffer_release(&m.previous_text);
  tsr__interleaver_release(&m.interleaver);
  tsr__free(m.cursors);
  tsr__free(m.heap);
  tsr__free(m.columns);
  tsr__free(m.picks);
  tsr__free(m.dimension_of);
  tsr__free(m.is_tile);
  *unsorted = m.unsorted;
  if (rc >= 0) *cells = m.written;
  return rc;
}
