/* expected.c: look-ups of single places of a sparse array, of which the caller has announced many (tsr_reader_expect).
 *
 * A join looks cells up one by one, and each look-up makes a plan, pins tiles and searches them. If the caller can say
 * before which places it is going to ask for, the reader reads all of these at once (places.c), copies their rows into
 * a row block, and serves the requests from there.
 *
 * The first request is always served by itself, since it tells which fields the caller uses. Later places that the
 * caller adds to the set are read when one of them is asked for. The block has a window of at most TSR_PLACES_MAX
 * places, which moves on to a place beyond it; if hardly any place of a window was asked for, the requests are not as
 * announced. Then, and if memory does not suffice, every request is served by itself. A field that is first read after
 * its rows were copied comes from the array; the next request copies the rows again, with it.
 *
 * Sections: the rows; reading them; the iterator; opening and closing.
 */
#include "read/reader.h"

#include <string.h>

#include "array/array.h"
#include "environment/environment.h"
#include "format/schema.h"
#include "model/datatype.h"

#define EXPECTED_MIN  4u /* fewer new places are not worth a read of their own */
#define EXPECTED_USED 32u /* one place in so many of a window is asked for, at least */

/* ---- The rows ---------------------------------------------------------------------------------------------------- */

struct tsr_expected {
  tsr_places *places; /* borrowed */
  uint64_t generation; /* of the set */
  uint64_t base, loaded; /* the window: the block has the rows of places from `base` to `loaded` - 1 */
  uint64_t served; /* requests since the window was moved */
  /* Of this generation: a place was requested; every request is served by itself, since memory is lacking or requests
   * are not as announced. */
  bool requested, gave_up;
  tsr_reader *inner; /* owned; its budget is part of the reader's */
  tsr_row_block block;
  tsr_buffer first, next; /* uint32_t, by place of the window and by row: a row + 1; 0: there is none, or no other */
  tsr_arena arena; /* of the window that is being read */
};

typedef struct expected_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  uint64_t number; /* of the place */
  uint32_t at; /* the row + 1 of the batch; 0: the first is to come */
  bool found; /* the inner reader has found the batch's row in the array: ... */
  uint64_t index; /* ... at this index of its batch */
} expected_iterator;

static uint32_t *as_u32(const tsr_buffer *buffer) { return (uint32_t *)(void *)buffer->data; }

static uint32_t expected_field_count(const tsr_reader *reader) {
  return reader->snapshot->schema->dimension_count + reader->snapshot->schema->attribute_count;
}

static void forget_rows(tsr_expected *e) {
  tsr_reader_reset(e->inner, true);
  tsr__row_block_empty(&e->block);
  tsr__row_block_clear(&e->block);
  tsr__buffer_release(&e->first);
  tsr__buffer_release(&e->next);
  e->base = e->loaded = e->served = 0;
}

/* ---- Reading them ------------------------------------------------------------------------------------------------ */

/* Returns the number of the place that a row of the block is at; UINT32_MAX, which cannot happen, if it is at none. */
static uint32_t place_of_row(const tsr_expected *e, const tsr_schema *schema, uint64_t row) {
  tsr_place_coordinate place[TSR_JOINT_MAX];
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_column column = tsr__row_block_column(&e->block, d);
    const uint8_t *values = column.values;
    place[d] =
        column.offsets
            ? (tsr_place_coordinate){column.offsets[row + 1] - column.offsets[row], values + column.offsets[row]}
            : (tsr_place_coordinate){.key = tsr__key(schema->fields[d].datatype, values + row * column.cell_size)};
  }
  return tsr__places_find(e->places, place);
}

/* Appends the rows of a batch to the block, and each row to the front of the list of its place. */
static int copy_rows(tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  tsr_expected *e = reader->expected;
  const uint64_t from = e->block.rows;
  TSR_TRY(tsr__row_block_append(&e->block, e->inner->iterator, batch, error));
  TSR_TRY(tsr__buffer_reserve(&e->next, batch->count * sizeof(uint32_t), error));
  e->next.size += batch->count * sizeof(uint32_t);
  for (uint64_t row = from; row < e->block.rows; row++) {
    const uint32_t number = place_of_row(e, reader->snapshot->schema, row);
    if (number < e->base || number - e->base >= e->first.size / sizeof(uint32_t))
      return tsr__fail(error, TSR_ERROR, "a cell came at a place that was not asked for");
    as_u32(&e->next)[row] = as_u32(&e->first)[number - e->base];
    as_u32(&e->first)[number - e->base] = (uint32_t)row + 1;
  }
  return TSR_OK;
}

/* Reads the rows at the places from `loaded` to the end of the window. */
static int read_window(tsr_reader *reader, tsr_error *error) {
  tsr_expected *e = reader->expected;
  const uint64_t count = TSR_MIN(tsr__places_count(e->places) - e->base, TSR_PLACES_MAX);
  const uint64_t bytes = count * sizeof(uint32_t), more = e->base + count - e->loaded;
  tsr_place_window window;
  tsr_batch batch;
  int rc;
  TSR_TRY(tsr__place_window_make(e->places, e->loaded, more, &e->arena, &window, error));
  TSR_TRY(tsr__buffer_reserve(&e->first, bytes - e->first.size, error));
  memset(e->first.data + e->first.size, 0, bytes - e->first.size);
  e->first.size = bytes;
  for (uint32_t f = 0; f < expected_field_count(reader); f++) e->inner->request.fields[f] = e->block.columns[f].ready;
  TSR_TRY(tsr__reader_start_at(e->inner, reader, &window, error));
  for (;;) {
    batch = (tsr_batch){.fragment = TSR_FRAGMENT_NONE};
    rc = e->inner->done ? 0 : e->inner->iterator->next(e->inner->iterator, &batch, error);
    if (rc <= 0) break;
    TSR_TRY(copy_rows(reader, &batch, error));
  }
  e->loaded += more;
  return rc;
}

/* Returns true if the block lacks a field that the request asks for. */
static bool lacks_field(const tsr_reader *reader) {
  const tsr_expected *e = reader->expected;
  for (uint32_t f = 0; f < expected_field_count(reader); f++)
    if (reader->request.fields[f] && !e->block.columns[f].ready) return true;
  return false;
}

/* Returns with which place the window must begin to have place `number`: the present one, if that has room for it. */
static uint64_t base_for(const tsr_expected *e, uint64_t number) {
  const bool within = number >= e->base && number < e->loaded;
  if (within || (number >= e->loaded && tsr__places_count(e->places) - e->base <= TSR_PLACES_MAX)) return e->base;
  return number;
}

/* Reads what the block lacks. Returns 1; 0 if memory does not suffice. */
static int read_expected(tsr_reader *reader, const tsr_request *request, uint64_t number, tsr_error *error) {
  tsr_expected *e = reader->expected;
  const uint64_t base = base_for(e, number);
  tsr_error failure = {0};
  if (e->loaded == e->base || e->base != base || lacks_field(reader)) {
    forget_rows(e);
    e->base = e->loaded = base;
    e->block.fill_unwritten = reader->predicates.fill_unwritten;
    for (uint32_t f = 0; f < expected_field_count(reader); f++)
      e->block.columns[f].ready = f < reader->snapshot->schema->dimension_count || reader->request.fields[f] ||
                                  (request->likely && request->likely[f]);
  }
  const int rc = read_window(reader, &failure);
  tsr_reader_reset(e->inner, true);
  tsr__arena_reset(&e->arena);
  if (rc >= 0) return 1;
  forget_rows(e);
  e->gave_up = true;
  if (tsr__lacks_memory(rc)) return 0;
  *error = failure;
  return rc;
}

/* ---- The iterator ------------------------------------------------------------------------------------------------ */

/* One row a batch: equal places are rare, and a late column is easier to read for one. */
static int read_expected_next(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  expected_iterator *it = (expected_iterator *)iterator;
  const tsr_expected *e = it->reader->expected;
  (void)error;
  it->found = false;
  it->at = it->at ? as_u32(&e->next)[it->at - 1] : as_u32(&e->first)[it->number - e->base];
  if (!it->at) return 0;
  batch->count = 1;
  batch->first = it->at - 1;
  batch->rowids = (const int64_t *)(const void *)e->block.rowids.data;
  batch->times = (const uint64_t *)(const void *)e->block.times.data;
  batch->written = true;
  return 1;
}

/* Finds the batch's row in the array, for columns that the block lacks. */
static int find_row(expected_iterator *it, tsr_error *error) {
  tsr_expected *e = it->reader->expected;
  const int64_t rowid = ((const int64_t *)(const void *)e->block.rowids.data)[it->at - 1];
  tsr_place_window window;
  int rc = 0;
  tsr_reader_reset(e->inner, false);
  tsr__arena_reset(&e->arena);
  TSR_TRY(tsr__place_window_make(e->places, it->number, 1, &e->arena, &window, error));
  memset(e->inner->request.fields, 0, expected_field_count(it->reader) * sizeof *e->inner->request.fields);
  TSR_TRY(tsr__reader_start_at(e->inner, it->reader, &window, error));
  while (!e->inner->done) {
    tsr_batch batch = {.fragment = TSR_FRAGMENT_NONE};
    if ((rc = e->inner->iterator->next(e->inner->iterator, &batch, error)) <= 0) break;
    for (uint64_t r = 0; r < batch.count; r++) {
      it->index = tsr_batch_index(&batch, r);
      it->found = tsr_batch_rowid(&batch, it->index) == rowid;
      if (it->found) return TSR_OK;
    }
  }
  return rc < 0 ? rc : tsr__fail(error, TSR_ERROR, "a cell that was read again is gone");
}

/* Makes the column of a field that the block lacks. It is constant: the batch has one row. */
static int read_late_column(expected_iterator *it, uint32_t field, tsr_column *column, tsr_error *error) {
  tsr_reader *inner = it->reader->expected->inner;
  if (!it->found) TSR_TRY(find_row(it, error));
  TSR_TRY(inner->iterator->column(inner->iterator, field, column, error));
  if (column->constant) return TSR_OK;
  column->constant = true;
  if (column->offsets) column->offsets += it->index;
  else column->values = (const uint8_t *)column->values + it->index * column->cell_size;
  if (column->validity) column->validity += it->index;
  return TSR_OK;
}

static int column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  expected_iterator *it = (expected_iterator *)iterator;
  const tsr_expected *e = it->reader->expected;
  if (!e->block.columns[field].ready) return read_late_column(it, field, column, error);
  *column = tsr__row_block_column(&e->block, field);
  return TSR_OK;
}

static void close_expected(tsr_batch_iterator *iterator) {
  tsr_expected *e = ((expected_iterator *)iterator)->reader->expected;
  tsr_reader_reset(e->inner, false);
  tsr__arena_reset(&e->arena);
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

/* Reads the place that a request is for. Returns false if it is for something else. */
static bool place_of_request(const tsr_schema *schema, const tsr_request *request, tsr_place_coordinate *place) {
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    const tsr_range *value = tsr__single_value(field, &request->dimensions[d]);
    if (!value) return false;
    place[d] = field->cell_size ? (tsr_place_coordinate){.key = tsr__key(field->datatype, value->low)}
                                : (tsr_place_coordinate){value->low_size, value->low};
  }
  return true;
}

/* Returns true if a place of this number is in the block, or is to be read into it now. */
static bool may_serve(tsr_expected *e, uint32_t number) {
  const bool first = !e->requested;
  e->requested = true;
  if (e->gave_up || number == UINT32_MAX || first) return false;
  if (number >= e->base && number < e->loaded) return true;
  const uint64_t base = base_for(e, number);
  e->gave_up = base != e->base && e->served < (e->loaded - e->base) / EXPECTED_USED;
  const uint64_t from = base == e->base ? e->loaded : base;
  return !e->gave_up && tsr__places_count(e->places) - from >= EXPECTED_MIN;
}

/* Numbers a gathered set, and forgets the rows if the set was cleared or its places have got other numbers. */
static void check_generation(tsr_expected *e) {
  tsr_error unseen;
  const bool numbered = tsr__places_number(e->places, &unseen) >= 0;
  const uint64_t generation = tsr__places_generation(e->places);
  if (e->generation == generation) return;
  forget_rows(e);
  e->generation = generation;
  e->requested = false;
  e->gave_up = !numbered;
}

int tsr__read_expected_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                            tsr_error *error) {
  tsr_place_coordinate place[TSR_JOINT_MAX];
  const tsr_schema *schema = reader->snapshot->schema;
  expected_iterator *it;
  if (!request->dimensions || request->distinct || reader->predicates.count > 0 || reader->mode.take) return 0;
  if (!place_of_request(schema, request, place)) return 0;
  tsr_expected *e = reader->expected;
  check_generation(e);
  const uint32_t number = tsr__places_find(e->places, place);
  if (!may_serve(e, number)) return 0;
  if (number < e->base || number >= e->loaded || lacks_field(reader)) {
    const int rc = read_expected(reader, request, number, error);
    if (rc <= 0) return rc;
  }
  e->served++;
  TSR_TRY(TSR_ARENA_RAW(&reader->arena, 1, &it, error));
  *it = (expected_iterator){.base = {.next = read_expected_next, .column = column_of, .close = close_expected},
                            .reader = reader,
                            .number = number};
  *iterator = &it->base;
  return 1;
}

void tsr__read_expected_free(tsr_reader *reader) {
  tsr_expected *e = reader->expected;
  if (!e) return;
  tsr__row_block_release(&e->block);
  tsr__buffer_release(&e->first);
  tsr__buffer_release(&e->next);
  tsr__arena_release(&e->arena);
  tsr_reader_close(e->inner);
  tsr__free(e);
  reader->expected = NULL;
}

int tsr_reader_expect(tsr_reader *reader, tsr_places *places, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_snapshot *snapshot = reader->snapshot;
  if ((reader->expected ? reader->expected->places : NULL) == places) return TSR_OK;
  tsr_reader_reset(reader, false);
  tsr__read_expected_free(reader);
  if (!places || snapshot->schema->dense || snapshot->schema->dimension_count > TSR_JOINT_MAX ||
      tsr_coordinates_lossy(snapshot->schema))
    return TSR_OK;
  TSR_TRY(TSR_ALLOC(&reader->memory, &reader->expected, error));
  tsr_expected *e = reader->expected;
  e->places = places;
  e->generation = tsr__places_generation(places);
  e->first.memory = e->next.memory = &reader->memory;
  tsr__arena_init(&e->arena, &reader->memory);
  int rc = tsr__row_block_init(&e->block, snapshot->schema, &reader->memory, error);
  if (rc >= 0) rc = tsr__reader_open_as(reader->snapshot, &reader->memory, NULL, &e->inner, error);
  if (rc < 0) tsr__read_expected_free(reader);
  return rc < 0 ? rc : TSR_OK;
}
