/* read_sparse.c: batches of a sparse array.
 *
 * Tiles of the plan are loaded in windows: first the dimensions that must be looked at (a tile whose box lies within
 * the spans on a dimension needs none of it), then, for those that have cells of the request, what delete conditions
 * name, then the fields that were asked for; what is certain to be wanted comes with the first. While a window is given out,
 * the first of that is done for the next one. Tiles that can share no coordinate with others give a batch each as they
 * come; the others go through the version merge, and give theirs when it has chosen among their cells. Deletes come last: the
 * newest version of a cell is chosen first, then dropped.
 *
 * Times of cells: where the snapshot cuts a fragment's range, cells outside since..as_of do not exist. A cell whose
 * time of deletion is not later than as_of is deleted. A condition is for cells of its time or older.
 */
#include "read/read_sparse.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arithmetic.h"
#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/predicate.h"
#include "read/reader.h"
#include "read/version_merge.h"

typedef struct read_sparse_window {
  tsr_sparse_tile *tiles;
  uint64_t count;
} read_sparse_window;

typedef struct sparse_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  uint64_t *order; /* tiles of the plan: `streams` that give their batches as they come, then the version merge's */
  uint64_t streams, count, at; /* at: the next to be loaded */
  tsr_version_merge *merge;
  bool merging; /* the streams have ended */
  read_sparse_window now, next;
  uint64_t tile_at; /* of now: the next to be given out */
  bool has_next; /* its tiles are taken */
  tsr_sparse_tile present;
  tsr_buffer keep; /* of conditions */
} sparse_iterator;

static const tsr_snapshot_fragment *read_sparse_fragment_of(const sparse_iterator *s, const tsr_sparse_tile *tile) {
  return &s->reader->snapshot->fragments[tile->plan.fragment];
}

static int64_t system_slot(const tsr_snapshot_fragment *f, tsr_system_column system_column) {
  return tsr__fragment_system_slot(&f->fragment->metadata, system_column);
}

static const uint64_t *system_values(const sparse_iterator *s, const tsr_sparse_tile *tile,
                                     tsr_system_column system_column) {
  return (const uint64_t *)(const void *)tile->pinned
      ->tiles[system_slot(read_sparse_fragment_of(s, tile), system_column)]
      ->values;
}

/* ---- What a tile's cells depend on ------------------------------------------------------------------------------ */

/* Is there a condition that some cells are too young for? */
static bool conditions_have_times(const tsr_snapshot_fragment *f) {
  for (uint32_t i = 0; i < f->condition_count; i++)
    if (f->conditions[i]->time < f->fragment->parsed.end) return f->fragment->metadata.has_times;
  return false;
}

/* Must the cells be looked at on dimension d? */
static bool must_look(const sparse_iterator *s, const tsr_sparse_tile *tile, uint32_t d) {
  const tsr_spans *spans = &s->reader->plan.spans[d];
  const tsr_rtree *rtree = read_sparse_fragment_of(s, tile)->fragment->metadata.rtree; /* the plan has loaded it */
  if (tile->plan.inside || spans->all) return false;
  if (s->reader->plan.lossy) return true;
  const uint32_t leaf = rtree->levels - 1;
  const uint64_t at = (tile->plan.tile * rtree->dimensions + d) * 2;
  const uint64_t *keys = rtree->keys[leaf] + at, *sizes = rtree->sizes ? rtree->sizes[leaf] + at : NULL;
  if (spans->text)
    return tsr__spans_relate_text(spans, rtree->text + keys[0], sizes[0], rtree->text + keys[1], sizes[1]) !=
           TSR_INSIDE;
  return tsr__spans_relate(spans, keys[0], keys[1]) != TSR_INSIDE;
}

static int request_coordinates(sparse_iterator *s, tsr_sparse_tile *tile, bool swept, tsr_error *error) {
  const tsr_snapshot_fragment *f = read_sparse_fragment_of(s, tile);
  const tsr_fragment_metadata *m = &f->fragment->metadata;
  for (uint32_t d = 0; d < s->reader->snapshot->schema->dimension_count; d++)
    if (swept || must_look(s, tile, d)) TSR_TRY(tsr__reader_request(s->reader, tile->pinned, f->slots[d], error));
  if (m->has_times && (swept || f->cut || s->reader->times || f->fragment->uncommitted || conditions_have_times(f)))
    TSR_TRY(tsr__reader_request(s->reader, tile->pinned, system_slot(f, TSR_SLOT_TIMES), error));
  if (m->has_delete_metadata)
    TSR_TRY(tsr__reader_request(s->reader, tile->pinned, system_slot(f, TSR_SLOT_DELETE_TIMES), error));
  return TSR_OK;
}

static int read_sparse_find_field(const sparse_iterator *s, const tsr_sparse_tile *tile, const tsr_condition *condition,
                                  const char *name, const tsr_field **field, int64_t *slot, tsr_error *error) {
  const tsr_snapshot *snapshot = s->reader->snapshot;
  return tsr__condition_field(snapshot->array, snapshot->schema, read_sparse_fragment_of(s, tile)->fragment, condition,
                              name, field, slot, error);
}

static int request_conditions(sparse_iterator *s, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = read_sparse_fragment_of(s, tile);
  for (uint32_t i = 0; i < f->condition_count; i++)
    for (uint32_t k = 0; k < f->conditions[i]->field_count; k++) {
      const tsr_field *field;
      int64_t slot;
      TSR_TRY(read_sparse_find_field(s, tile, f->conditions[i], f->conditions[i]->fields[k], &field, &slot, error));
      TSR_TRY(tsr__reader_request(s->reader, tile->pinned, slot, error));
    }
  return TSR_OK;
}

/* Tiles of the version merge are held until all of their cells are decided: beside many of them, the fields that were asked for come when
 * a tile is given out. */
static bool fields_wait(const sparse_iterator *s, bool swept) {
  const tsr_memory *memory = &s->reader->memory;
  return swept && atomic_load_explicit(&memory->used, memory_order_relaxed) > memory->limit / 2;
}

/* Where there is no memory for all of them at once, each comes when it is asked for. */
static int load_fields(tsr_reader *reader, tsr_error *error) {
  const int rc = tsr__reader_load(reader, error);
  return tsr__lacks_memory(rc) ? TSR_OK : rc;
}

/* What will be wanted of a tile that has cells of the request, if it is known already: that all of them are. */
static int want_certain(sparse_iterator *s, tsr_sparse_tile *tile, bool swept, tsr_error *error) {
  const tsr_snapshot_fragment *f = read_sparse_fragment_of(s, tile);
  if (!tile->plan.inside || f->cut) return TSR_OK;
  TSR_TRY(request_conditions(s, tile, error));
  TSR_TRY(tsr__tests_request(s->reader, tile->pinned, error));
  if (s->reader->test_count > 0 || f->condition_count > 0 || f->fragment->metadata.has_delete_metadata) return TSR_OK;
  return s->reader->snapshot->removed > 0 || fields_wait(s, swept)
             ? TSR_OK
             : tsr__reader_request_fields(s->reader, tile->pinned, error);
}

/* ---- Choosing cells --------------------------------------------------------------------------------------------- */

/* Room for a selection, in place of "all". */
static int own_selection(sparse_iterator *s, tsr_sparse_tile *tile, uint32_t **cells, tsr_error *error) {
  if (!tile->cells) return TSR_ARENA_RAW(&s->reader->window, tile->pinned->cells, cells, error);
  *cells = tile->cells;
  return TSR_OK;
}

/* Cells within the spans, and within the snapshot's times. */
static int read_sparse_select_cells(sparse_iterator *s, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = s->reader->snapshot;
  const tsr_snapshot_fragment *f = read_sparse_fragment_of(s, tile);
  uint32_t *cells;
  tile->count = tile->pinned->cells;
  for (uint32_t d = 0; d < snapshot->schema->dimension_count && tile->count > 0; d++) {
    const tsr_spans *spans = &s->reader->plan.spans[d];
    if (!must_look(s, tile, d)) continue;
    const tsr_coordinates c = tsr__pinned_coordinates(s->reader, tile->pinned, d);
    TSR_TRY(own_selection(s, tile, &cells, error));
    tile->count = spans->text ? tsr__spans_select_text(spans, c.values, c.offsets, tile->cells, tile->count, cells)
                              : tsr__spans_select(spans, snapshot->schema->fields[d].datatype, c.values, tile->cells,
                                                  tile->count, cells);
    tile->cells = cells;
  }
  if (!f->cut || !f->fragment->metadata.has_times || tile->count == 0) return TSR_OK;
  const uint64_t *times = system_values(s, tile, TSR_SLOT_TIMES);
  const uint64_t since = f->fragment->uncommitted ? 0 : snapshot->since;
  const uint64_t as_of = f->fragment->uncommitted ? TSR_UNCOMMITTED_TIMES + f->run_end - 1 : snapshot->as_of;
  uint64_t n = 0;
  TSR_TRY(own_selection(s, tile, &cells, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint32_t cell = tile->cells ? tile->cells[i] : (uint32_t)i;
    cells[n] = cell;
    n += times[cell] >= since && times[cell] <= as_of;
  }
  tile->cells = cells;
  tile->count = n;
  return TSR_OK;
}

typedef struct condition_columns {
  sparse_iterator *iterator;
  const tsr_sparse_tile *tile;
  const tsr_condition *condition;
  tsr_column *columns; /* one for each of its fields */
  uint32_t count;
} condition_columns;

static int read_sparse_condition_column(void *argument, const char *name, const tsr_field **field,
                                        const tsr_column **column, tsr_error *error) {
  condition_columns *c = argument;
  tsr_column *out = &c->columns[c->count++];
  int64_t slot;
  TSR_TRY(read_sparse_find_field(c->iterator, c->tile, c->condition, name, field, &slot, error));
  if (!*field) return tsr__fail(error, TSR_ERROR, "it names the field '%s', which the array lacks", name);
  *out = (tsr_column){.constant = true, .unwritten = true};
  if (slot >= 0) tsr__reader_slot_column(c->iterator->reader, c->tile->pinned, *field, slot, 0, out);
  *column = out;
  return TSR_OK;
}

/* Keeps the cells r of the selection with keep[r]. */
static int read_sparse_compress(sparse_iterator *s, tsr_sparse_tile *tile, const uint8_t *keep, tsr_error *error) {
  uint32_t *cells;
  uint64_t n = 0;
  if (!memchr(keep, 0, tile->count)) return TSR_OK;
  TSR_TRY(own_selection(s, tile, &cells, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    cells[n] = tile->cells ? tile->cells[i] : (uint32_t)i;
    n += keep[i] != 0;
  }
  tile->cells = cells;
  tile->count = n;
  return TSR_OK;
}

static int apply_condition(sparse_iterator *s, tsr_sparse_tile *tile, const tsr_condition *condition,
                           tsr_error *error) {
  const tsr_snapshot_fragment *f = read_sparse_fragment_of(s, tile);
  condition_columns columns = {.iterator = s, .tile = tile, .condition = condition};
  uint8_t *keep = s->keep.data;
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->window, condition->field_count, &columns.columns, error));
  if (tsr__condition_evaluate(condition, read_sparse_condition_column, &columns, tile->cells, tile->count, keep,
                              &s->reader->memory, error) < 0)
    return tsr__wrap(error, "fragment %s, tile %llu", f->fragment->name, (unsigned long long)tile->plan.tile);
  if (f->fragment->metadata.has_times && condition->time < f->fragment->parsed.end) {
    const uint64_t *times = system_values(s, tile, TSR_SLOT_TIMES);
    for (uint64_t i = 0; i < tile->count; i++) keep[i] |= times[tile->cells ? tile->cells[i] : i] > condition->time;
  }
  return read_sparse_compress(s, tile, keep, error);
}

static int64_t first_row(const sparse_iterator *s, const tsr_sparse_tile *tile) {
  const tsr_fragment *fragment = read_sparse_fragment_of(s, tile)->fragment;
  return fragment->row_base + (int64_t)(tile->plan.tile * fragment->cells_per_tile);
}

/* Drops rows that a writer has removed. */
static int drop_removed(sparse_iterator *s, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = s->reader->snapshot;
  const bool own = read_sparse_fragment_of(s, tile)->fragment->uncommitted;
  const uint64_t *times = own ? system_values(s, tile, TSR_SLOT_TIMES) : NULL;
  const int64_t first = first_row(s, tile);
  if (snapshot->removed == 0 || tile->count == 0) return TSR_OK;
  if (!own && !snapshot->view->hides_some(snapshot->writer, first, first + (int64_t)tile->pinned->cells - 1))
    return TSR_OK;
  s->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->keep, tile->count, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint32_t cell = tile->cells ? tile->cells[i] : (uint32_t)i;
    const int64_t row = own ? tsr__uncommitted_rowid(times[cell] - TSR_UNCOMMITTED_TIMES) : first + cell;
    s->keep.data[i] = !snapshot->view->hides(snapshot->writer, row, snapshot->removed);
  }
  return read_sparse_compress(s, tile, s->keep.data, error);
}

/* Drops the deleted cells. */
static int drop_deleted(sparse_iterator *s, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = read_sparse_fragment_of(s, tile);
  const bool dated = f->fragment->metadata.has_delete_metadata;
  if (s->reader->snapshot->writer) TSR_TRY(drop_removed(s, tile, error));
  if ((!dated && f->condition_count == 0) || tile->count == 0) return TSR_OK;
  s->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->keep, tile->count, error));
  if (dated) {
    const uint64_t *times = system_values(s, tile, TSR_SLOT_DELETE_TIMES), as_of = s->reader->snapshot->as_of;
    for (uint64_t i = 0; i < tile->count; i++) {
      const uint64_t time = times[tile->cells ? tile->cells[i] : i];
      s->keep.data[i] = time > as_of || time == UINT64_MAX;
    }
    TSR_TRY(read_sparse_compress(s, tile, s->keep.data, error));
  }
  for (uint32_t i = 0; i < f->condition_count && tile->count > 0; i++)
    TSR_TRY(apply_condition(s, tile, f->conditions[i], error));
  return TSR_OK;
}

/* Drops the cells that do not satisfy the predicates. */
static int test_cells(sparse_iterator *s, tsr_sparse_tile *tile, tsr_error *error) {
  uint32_t *cells;
  if (s->reader->test_count == 0 || tile->count == 0) return TSR_OK;
  TSR_TRY(own_selection(s, tile, &cells, error));
  TSR_TRY(tsr__tests_select(s->reader, tile->pinned, 0, tile->cells, &tile->count, cells, error));
  tile->cells = cells;
  return TSR_OK;
}

/* ---- Windows ---------------------------------------------------------------------------------------------------- */

/* Is a tile that can share no coordinate with others taken as a whole? */
static int read_sparse_offer(sparse_iterator *s, const tsr_plan_tile *planned, uint64_t cells, tsr_error *error) {
  const tsr_snapshot_fragment *f = &s->reader->snapshot->fragments[planned->fragment];
  if (!s->reader->take || !planned->inside || f->cut || f->condition_count > 0 || s->reader->test_count > 0) return 0;
  if (f->fragment->metadata.has_delete_metadata || s->reader->snapshot->removed > 0) return 0;
  const tsr_whole_tile whole = {.fragment = planned->fragment, .tile = planned->tile, .cells = cells};
  return s->reader->take(s->reader->shortcut_argument, &whole, error);
}

/* The tile at s->at: 1: it goes into a window, for so many bytes; 0: it is passed over, or taken as a whole. */
static int read_sparse_look_at(sparse_iterator *s, const tsr_plan_tile *planned, uint64_t cells, bool swept,
                               uint64_t *bytes, tsr_error *error) {
  tsr_reader *reader = s->reader;
  if (!swept) { /* tiles of the version merge may hide older versions of their cells */
    const int excluded = tsr__tests_exclude(reader, planned->fragment, planned->tile, error);
    if (excluded > 0) tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
    if (excluded != 0) return excluded < 0 ? excluded : 0;
    const int taken = read_sparse_offer(s, planned, cells, error);
    if (taken != 0) return taken < 0 ? taken : 0;
  }
  TSR_TRY(tsr__reader_cost(reader, planned->fragment, planned->tile, bytes, error));
  *bytes = tsr__add_sat(*bytes, tsr__mul_sat(cells, 8 * (reader->snapshot->schema->dimension_count + 1)));
  return 1;
}

static void read_sparse_drop(sparse_iterator *s, tsr_sparse_tile *tile) {
  tsr__reader_drop(s->reader, tile->pinned);
  tile->pinned = NULL;
}

/* Takes the next tiles of the plan, up to `end` in the order, and asks for what is loaded with them. The first always goes
 * in, unless it is `ahead`; others as the budget and the limit allow. After an error the window is what it was before the
 * tile at s->at. */
static int read_sparse_make_window(sparse_iterator *s, read_sparse_window *w, uint64_t end, bool swept, bool ahead,
                                   uint64_t *bytes, tsr_error *error) {
  tsr_reader *reader = s->reader;
  const uint64_t most = tsr__reader_window(reader), budget = reader->memory.limit / 4;
  tsr_arena *arena = ahead ? &reader->ahead.arena : &reader->window;
  uint64_t cells = 0;
  *w = (read_sparse_window){0};
  *bytes = 0;
  tsr__arena_reset(arena);
  TSR_TRY(TSR_ARENA_ARRAY(arena, most, &w->tiles, error));
  for (; w->count < most && s->at < end; s->at++) {
    const tsr_plan_tile *planned = &reader->plan.tiles[s->order[s->at]];
    const tsr_fragment *fragment = reader->snapshot->fragments[planned->fragment].fragment;
    const uint64_t n = tsr__fragment_tile_cells(&fragment->metadata, planned->tile), requests = reader->requests.size;
    uint64_t cost;
    int rc = read_sparse_look_at(s, planned, n, swept, &cost, error);
    if (rc < 0) return rc;
    if (rc == 0) continue;
    const uint64_t sum = tsr__add_sat(*bytes, cost);
    if ((ahead || w->count > 0) && sum > budget) break;
    tsr_sparse_tile *tile = &w->tiles[w->count];
    *tile = (tsr_sparse_tile){.plan = *planned};
    TSR_TRY(tsr__reader_hold(reader, planned->fragment, planned->tile, n, &tile->pinned, error));
    rc = request_coordinates(s, tile, swept, error);
    if (rc >= 0) rc = want_certain(s, tile, swept, error);
    if (rc < 0) {
      reader->requests.size = requests;
      read_sparse_drop(s, tile);
      return rc;
    }
    w->count++;
    *bytes = sum;
    if (!planned->inside) continue;
    cells = tsr__add_sat(cells, n);
    if (tsr__reader_suffices(reader, cells)) {
      s->at++;
      break;
    }
  }
  return TSR_OK;
}

/* Begins the next window. What fails there is met again, if it lasts, when its tiles are wanted. */
static int read_sparse_begin_next(sparse_iterator *s, uint64_t end, bool swept, tsr_error *error) {
  tsr_error trouble;
  uint64_t bytes;
  if (s->at >= end || s->has_next || !tsr__reader_may_ahead(s->reader)) return TSR_OK;
  const int rc = read_sparse_make_window(s, &s->next, end, swept, true, &bytes, &trouble);
  if (rc == TSR_INTERRUPT) return tsr__fail(error, rc, "%s", trouble.message);
  s->has_next = s->next.count > 0;
  return s->has_next ? tsr__reader_load_ahead(s->reader, bytes, error) : TSR_OK;
}

/* Loads the next window and chooses its cells; those of the version merge are not given out yet. */
static int read_sparse_fill_window(sparse_iterator *s, uint64_t end, bool swept, tsr_error *error) {
  tsr_reader *reader = s->reader;
  uint64_t bytes;
  if (reader->window_tiles > 1) /* else the caller has just begun */
    TSR_TRY(tsr__environment_cancelled(reader->snapshot->array->environment, error));
  s->tile_at = 0;
  s->now.count = 0;
  if (s->has_next) {
    s->now = s->next;
    s->next = (read_sparse_window){0};
    s->has_next = false;
    TSR_TRY(tsr__reader_take_ahead(reader, error));
  } else {
    TSR_TRY(read_sparse_make_window(s, &s->now, end, swept, false, &bytes, error));
    TSR_TRY(tsr__reader_load(reader, error));
  }
  if (!swept && reader->limit == 0) TSR_TRY(read_sparse_begin_next(s, end, swept, error));
  for (uint64_t i = 0; i < s->now.count; i++) {
    TSR_TRY(read_sparse_select_cells(s, &s->now.tiles[i], error));
    if (s->now.tiles[i].count > 0) TSR_TRY(request_conditions(s, &s->now.tiles[i], error));
    if (s->now.tiles[i].count > 0) TSR_TRY(tsr__tests_request(reader, s->now.tiles[i].pinned, error));
  }
  TSR_TRY(tsr__reader_load(reader, error));
  const bool waits = fields_wait(s, swept);
  for (uint64_t i = 0; i < s->now.count; i++) {
    tsr_sparse_tile *tile = &s->now.tiles[i];
    if (!swept) TSR_TRY(drop_deleted(s, tile, error));
    if (!swept) TSR_TRY(test_cells(s, tile, error));
    reader->given = tsr__add_sat(reader->given, tile->count);
    if (waits || (swept && reader->test_count > 0)) continue; /* until it is known which cells win */
    if (tile->count > 0) TSR_TRY(tsr__reader_request_fields(reader, tile->pinned, error));
  }
  return load_fields(reader, error); /* a window made ahead is not measured for fields asked for since */
}

/* ---- The source ------------------------------------------------------------------------------------------------- */

/* The next tile that gives a batch: 1, or 0 when there is none. */
static int next_stream(sparse_iterator *s, tsr_error *error) {
  for (;;) {
    while (s->tile_at < s->now.count) {
      tsr_sparse_tile *tile = &s->now.tiles[s->tile_at++];
      if (tile->count > 0) {
        s->present = *tile;
        tile->pinned = NULL;
        return 1;
      }
      read_sparse_drop(s, tile);
    }
    if (s->at >= s->streams && !s->has_next) return 0;
    TSR_TRY(read_sparse_fill_window(s, s->streams, false, error));
    TSR_TRY(read_sparse_begin_next(s, s->streams, false, error));
  }
}

static int next_swept(sparse_iterator *s, tsr_error *error) {
  for (;;) {
    const int rc = tsr__version_merge_next(s->merge, &s->present, error);
    if (rc < 0 || rc == TSR_VERSION_MERGE_END) return rc;
    if (rc == TSR_VERSION_MERGE_TILE) {
      TSR_TRY(drop_deleted(s, &s->present, error));
      TSR_TRY(test_cells(s, &s->present, error));
      if (s->present.count > 0) {
        TSR_TRY(tsr__reader_request_fields(s->reader, s->present.pinned, error)); /* that are not there yet */
        TSR_TRY(load_fields(s->reader, error));
        return 1;
      }
      read_sparse_drop(s, &s->present);
      continue;
    }
    TSR_TRY(read_sparse_fill_window(s, s->count, true, error));
    TSR_TRY(tsr__version_merge_add(s->merge, s->now.tiles, s->now.count, error));
    s->tile_at = s->now.count;
    TSR_TRY(read_sparse_begin_next(s, s->count, true, error));
  }
}

static int read_sparse_next(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  sparse_iterator *s = (sparse_iterator *)iterator;
  read_sparse_drop(s, &s->present);
  int rc = s->merging ? 0 : next_stream(s, error);
  s->merging = rc == 0;
  if (rc == 0 && s->merge) rc = next_swept(s, error);
  if (rc <= 0) return rc;
  const tsr_sparse_tile *tile = &s->present;
  const tsr_fragment *fragment = read_sparse_fragment_of(s, tile)->fragment;
  batch->count = tile->count;
  batch->selection = tile->cells;
  batch->row_base = first_row(s, tile);
  batch->written = true;
  batch->fragment = tile->pinned->fragment;
  batch->time = tsr__fragment_time(fragment);
  if (fragment->uncommitted) {
    const int own = tsr__uncommitted_rowids(s->reader, tile->pinned, tile->cells, tile->count, batch, error);
    return own < 0 ? own : 1;
  }
  if (fragment->metadata.has_times && s->reader->times) batch->times = system_values(s, tile, TSR_SLOT_TIMES);
  return 1;
}

static int read_sparse_column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  sparse_iterator *s = (sparse_iterator *)iterator;
  return tsr__reader_column(s->reader, s->present.pinned, field, 0, column, error);
}

static void close_sparse(tsr_batch_iterator *iterator) {
  sparse_iterator *s = (sparse_iterator *)iterator;
  tsr__reader_drop_ahead(s->reader);
  read_sparse_drop(s, &s->present);
  for (uint64_t i = s->tile_at; i < s->now.count; i++) read_sparse_drop(s, &s->now.tiles[i]);
  for (uint64_t i = 0; i < s->next.count; i++) read_sparse_drop(s, &s->next.tiles[i]);
  tsr__version_merge_close(s->merge);
  tsr__buffer_release(&s->keep);
}

/* Takes tiles of fragments of which no cell satisfies the predicates out of the streams. Those in the version merge must stay:
 * they may hide older versions of their cells. */
static int read_sparse_exclude_fragments(sparse_iterator *s, tsr_error *error) {
  enum { UNKNOWN, READ, SWEPT, EXCLUDED };
  tsr_reader *reader = s->reader;
  uint8_t *verdicts;
  uint64_t fragments = 0, from = s->streams;
  if (reader->test_count == 0) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, reader->snapshot->fragment_count, &verdicts, error));
  for (uint64_t i = s->streams; i < s->count; i++) verdicts[reader->plan.tiles[s->order[i]].fragment] = SWEPT;
  for (uint64_t i = s->streams;
       i-- > 0;) { /* what stays moves up to the version merge's, which has its own hold of them */
    const uint32_t f = reader->plan.tiles[s->order[i]].fragment;
    if (verdicts[f] == UNKNOWN) {
      const int rc = tsr__tests_exclude_fragment(reader, f, error);
      if (rc < 0) return rc;
      verdicts[f] = rc > 0 ? EXCLUDED : READ;
      fragments += rc > 0;
    }
    if (verdicts[f] != EXCLUDED) s->order[--from] = s->order[i];
  }
  if (!reader->part) tsr__count(reader->snapshot->array->environment, TSR_COUNT_fragments_skipped, fragments);
  tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, from);
  s->at = from;
  return TSR_OK;
}

int tsr__read_sparse_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error) {
  sparse_iterator *s;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &s, error));
  s->base = (tsr_batch_iterator){.next = read_sparse_next, .column = read_sparse_column_of, .close = close_sparse};
  s->reader = reader;
  s->keep.memory = &reader->memory;
  s->count = reader->plan.tile_count;
  TSR_TRY(tsr__version_merge_open(reader, &s->order, &s->streams, &s->merge, error));
  const int rc = read_sparse_exclude_fragments(s, error);
  if (rc < 0) {
    tsr__version_merge_close(s->merge);
    return rc;
  }
  *iterator = &s->base;
  return TSR_OK;
}
