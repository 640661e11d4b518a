/* unchanged.c: leaves out of a reader's batches the cells of a dense array that an earlier state shows with the same
 * bytes.
 *
 * A batch has the cells of one tile that one fragment has written, usually most of a box. So one request for that box
 * gives the cells of the earlier state, and the columns of both are compared, without a lookup for each cell. The cells
 * of the two sides come in different orders: a table has the row of each place in the box. A batch with few cells, or
 * whose box has many others, is passed on as it is: then looking up its cells one by one costs less.
 *
 * What merges have written may be hidden by what is newer: then the values to be compared are not those of the batch,
 * but of a later state, which is read in the batch's box, too.
 *
 * Cells that one fragment has written for both states are the same, and are not read.
 *
 * Different bytes may be equal values, such as -0.0 and 0.0: what is left are candidates, which the caller compares.
 */
#include "read/reader.h"

#include <string.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "environment/environment.h"
#include "format/schema.h"
#include "model/datatype.h"
#include "tessera_host.h"

#define UNCHANGED_CELLS_MIN  32u /* smaller batches are not compared */
#define UNCHANGED_SPREAD_MAX 4u /* nor are those whose box has more than so many times their cells */
#define UNCHANGED_BOX_MAX    (UINT32_MAX / 2u)

typedef struct batch_box { /* the box around a batch */
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS]; /* order keys, inclusive */
  uint64_t strides[TSR_MAX_DIMENSIONS]; /* of places, row-major */
  uint64_t places;
} batch_box;

typedef struct batch_side { /* of a batch that is compared: where its cells are, and which of them are the same */
  tsr_buffer rows; /* uint32_t, by place in the box: row of the batch + 1; 0: none */
  tsr_buffer same; /* bool, by row of the batch */
} batch_side;

struct tsr_unchanged {
  tsr_reader *reader; /* of the earlier state; the buffers below are part of its budget */
  tsr_reader *later; /* NULL, or of the state whose values are compared, instead of the batch's */
  const tsr_schema *schema;
  uint32_t fields;
  bool *compared; /* by field */
  uint64_t memory_bytes;
  tsr_batch batch; /* what is left of the reader's */
  batch_side given, latest; /* of the caller's batch; of one of `later` */
  tsr_buffer pairs; /* pair */
  tsr_buffer selection; /* uint32_t: of `batch` */
};

typedef struct pair { /* a cell that both states have */
  uint32_t row; /* of the reader's batch */
  uint64_t now, old; /* indices in the columns of the two sides */
} pair;

int tsr_unchanged_open(tsr_snapshot *before, tsr_snapshot *after, const bool *compared, uint64_t memory_bytes,
                       tsr_unchanged **out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *schema = before->schema;
  const uint32_t fields = schema->dimension_count + schema->attribute_count;
  tsr_unchanged *u;
  if (!schema->dense)
    return tsr__fail(error, TSR_ERROR, "%s: the array is sparse: its cells are looked up", before->array->path);
  TSR_TRY(TSR_ALLOC(&before->array->memory, &u, error));
  u->schema = schema;
  u->fields = fields;
  u->memory_bytes = memory_bytes;
  const tsr_reader_mode mode = {.written_only = true};
  int rc = TSR_ALLOC_ARRAY(&before->array->memory, fields, &u->compared, error);
  if (rc >= 0) rc = tsr__reader_open_as(before, &before->array->memory, &mode, &u->reader, error);
  if (rc >= 0 && after) rc = tsr__reader_open_as(after, &after->array->memory, &mode, &u->later, error);
  if (rc < 0) return tsr_unchanged_close(u), rc;
  memcpy(u->compared, compared, fields * sizeof *compared);
  u->pairs.memory = u->selection.memory = &u->reader->memory;
  u->given.rows.memory = u->given.same.memory = u->latest.rows.memory = u->latest.same.memory = &u->reader->memory;
  *out = u;
  return TSR_OK;
}

void tsr_unchanged_close(tsr_unchanged *u) {
  if (!u) return;
  tsr__buffer_release(&u->given.rows);
  tsr__buffer_release(&u->given.same);
  tsr__buffer_release(&u->latest.rows);
  tsr__buffer_release(&u->latest.same);
  tsr__buffer_release(&u->pairs);
  tsr__buffer_release(&u->selection);
  tsr_reader_close(u->later);
  tsr_reader_close(u->reader);
  tsr__free(u->compared);
  tsr__free(u);
}

/* ---- The box ----------------------------------------------------------------------------------------------------- */

/* Finds the box around a batch. Returns false if it has too many places. */
static bool find_box(const tsr_unchanged *u, const tsr_batch *batch, const tsr_column *const *dimensions,
                     batch_box *box) {
  uint64_t keys[TSR_KEYS_MAX];
  box->places = 1;
  for (uint32_t d = u->schema->dimension_count; d-- > 0;) {
    uint64_t low = UINT64_MAX, high = 0, values;
    for (uint64_t from = 0; from < batch->count; from += TSR_KEYS_MAX) {
      const uint64_t count = TSR_MIN(batch->count - from, TSR_KEYS_MAX);
      tsr__batch_keys(batch, dimensions[d], u->schema->fields[d].datatype, from, count, keys);
      for (uint64_t i = 0; i < count; i++) {
        low = TSR_MIN(low, keys[i]);
        high = TSR_MAX(high, keys[i]);
      }
    }
    box->low[d] = low;
    box->high[d] = high;
    box->strides[d] = box->places;
    if (!tsr__add(high - low, 1, &values) || !tsr__mul(box->places, values, &box->places)) return false;
  }
  return box->places <= UNCHANGED_BOX_MAX;
}

/* Sets the places of the rows from..from+count-1 of a batch, which are within the box; count is at most
 * TSR_KEYS_MAX. */
static void find_places(const tsr_unchanged *u, const tsr_batch *batch, const tsr_column *const *dimensions,
                        const batch_box *box, uint64_t from, uint64_t count, uint64_t *places) {
  uint64_t keys[TSR_KEYS_MAX];
  memset(places, 0, count * sizeof *places);
  for (uint32_t d = 0; d < u->schema->dimension_count; d++) {
    tsr__batch_keys(batch, dimensions[d], u->schema->fields[d].datatype, from, count, keys);
    for (uint64_t i = 0; i < count; i++) places[i] += (keys[i] - box->low[d]) * box->strides[d];
  }
}

/* Notes which row of the batch is at each place of the box. */
static int note_rows(const tsr_unchanged *u, batch_side *side, const tsr_batch *batch,
                     const tsr_column *const *dimensions, const batch_box *box, tsr_error *error) {
  uint64_t places[TSR_KEYS_MAX];
  side->rows.size = side->same.size = 0;
  TSR_TRY(tsr__buffer_reserve(&side->rows, box->places * sizeof(uint32_t), error));
  TSR_TRY(tsr__buffer_reserve(&side->same, batch->count * sizeof(bool), error));
  uint32_t *rows = (uint32_t *)(void *)side->rows.data;
  memset(rows, 0, box->places * sizeof *rows);
  memset(side->same.data, 0, batch->count * sizeof(bool));
  for (uint64_t from = 0; from < batch->count; from += TSR_KEYS_MAX) {
    const uint64_t count = TSR_MIN(batch->count - from, TSR_KEYS_MAX);
    find_places(u, batch, dimensions, box, from, count, places);
    for (uint64_t i = 0; i < count; i++) rows[places[i]] = (uint32_t)(from + i + 1);
  }
  return TSR_OK;
}

/* Starts a reader on the box. Where two states may have cells of one fragment, nothing is decoded ahead. */
static int read_box(const tsr_unchanged *u, tsr_reader *reader, const batch_box *box, tsr_error *error) {
  uint64_t ends[TSR_MAX_DIMENSIONS][2];
  tsr_range ranges[TSR_MAX_DIMENSIONS];
  tsr_ranges dimensions[TSR_MAX_DIMENSIONS];
  for (uint32_t d = 0; d < u->schema->dimension_count; d++) {
    const tsr_datatype datatype = u->schema->fields[d].datatype;
    tsr__key_value(datatype, box->low[d], &ends[d][0]);
    tsr__key_value(datatype, box->high[d], &ends[d][1]);
    ranges[d] = (tsr_range){.low = &ends[d][0], .high = &ends[d][1]};
    dimensions[d] = (tsr_ranges){.ranges = &ranges[d], .count = 1};
  }
  const tsr_request request = {
      .dimensions = dimensions, .fields = u->later ? NULL : u->compared, .memory_bytes = u->memory_bytes};
  return tsr_reader_start(reader, &request, error);
}

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

static bool bytes_same(const tsr_column *a, uint64_t i, const tsr_column *b, uint64_t j) {
  const uint64_t n = a->offsets[i + 1] - a->offsets[i], m = b->offsets[j + 1] - b->offsets[j];
  return n == m && (n == 0 || memcmp((const uint8_t *)a->values + a->offsets[i],
                                     (const uint8_t *)b->values + b->offsets[j], n) == 0);
}

/* Clears same[row] of the pairs whose values differ. */
static void compare(const tsr_field *field, const tsr_column *now, const tsr_column *old, const pair *pairs,
                    uint64_t count, bool *same) {
  const uint8_t *a = now->values, *b = old->values;
  const uint64_t x = now->constant ? 0 : 1, y = old->constant ? 0 : 1, size = field->cell_size;
  const bool nulls = field->nullable && (now->validity || old->validity);
  if (now->unwritten && old->unwritten) return;
  if (now->unwritten || old->unwritten) { /* null or the fill value, as the host shows it */
    for (uint64_t k = 0; k < count; k++) same[pairs[k].row] = false;
    return;
  }
  if (nulls || size == 0) {
    for (uint64_t k = 0; k < count; k++) {
      const uint64_t i = pairs[k].now * x, j = pairs[k].old * y;
      const bool there = !nulls || !now->validity || now->validity[i];
      if (there != (!nulls || !old->validity || old->validity[j])) same[pairs[k].row] = false;
      else if (there && !(size ? memcmp(a + i * size, b + j * size, size) == 0 : bytes_same(now, i, old, j)))
        same[pairs[k].row] = false;
    }
    return;
  }
  switch (size) {
#define COMPARE_CELLS(bytes)                                                                                           \
  case bytes:                                                                                                          \
    for (uint64_t k = 0; k < count; k++)                                                                               \
      same[pairs[k].row] &= memcmp(a + pairs[k].now * x * (bytes), b + pairs[k].old * y * (bytes), (bytes)) == 0;      \
    break;
    COMPARE_CELLS(1)
    COMPARE_CELLS(2)
    COMPARE_CELLS(4)
    COMPARE_CELLS(8)
#undef COMPARE_CELLS
  default:
    for (uint64_t k = 0; k < count; k++)
      same[pairs[k].row] &= memcmp(a + pairs[k].now * x * size, b + pairs[k].old * y * size, size) == 0;
  }
}

/* Pairs the cells of a batch of the earlier state with the rows at their places. */
static int pair_cells(tsr_unchanged *u, const batch_side *side, const tsr_batch *now, const tsr_batch *old,
                      const batch_box *box, tsr_error *error) {
  const tsr_column *dimensions[TSR_MAX_DIMENSIONS];
  const uint32_t *rows = (const uint32_t *)(const void *)side->rows.data;
  uint64_t places[TSR_KEYS_MAX], paired = 0;
  for (uint32_t d = 0; d < u->schema->dimension_count; d++)
    TSR_TRY(tsr_reader_column(u->reader, d, &dimensions[d], error));
  u->pairs.size = 0;
  TSR_TRY(tsr__buffer_reserve(&u->pairs, tsr__mul_sat(old->count, sizeof(pair)), error));
  pair *pairs = (pair *)(void *)u->pairs.data;
  for (uint64_t from = 0; from < old->count; from += TSR_KEYS_MAX) {
    const uint64_t count = TSR_MIN(old->count - from, TSR_KEYS_MAX);
    find_places(u, old, dimensions, box, from, count, places);
    for (uint64_t i = 0; i < count; i++) {
      const uint32_t row = places[i] < box->places ? rows[places[i]] : 0;
      if (row) pairs[paired++] = (pair){row - 1, tsr_batch_index(now, row - 1), tsr_batch_index(old, from + i)};
    }
  }
  u->pairs.size = paired * sizeof *pairs;
  return TSR_OK;
}

/* Returns true if one fragment has the cells of both batches. */
static bool one_fragment(const tsr_unchanged *u, const tsr_reader *reader, const tsr_batch *now, const tsr_batch *old) {
  if (now->fragment == TSR_FRAGMENT_NONE || old->fragment == TSR_FRAGMENT_NONE) return false;
  return reader->snapshot->fragments[now->fragment].fragment == u->reader->snapshot->fragments[old->fragment].fragment;
}

/* Compares the cells of a batch of the earlier state with those of a reader's batch. */
static int compare_batch(tsr_unchanged *u, batch_side *side, tsr_reader *reader, const tsr_batch *now,
                         const tsr_batch *old, const batch_box *box, tsr_error *error) {
  const tsr_column *a, *b;
  bool *same = (bool *)(void *)side->same.data;
  TSR_TRY(pair_cells(u, side, now, old, box, error));
  const pair *pairs = (const pair *)(const void *)u->pairs.data;
  const uint64_t count = u->pairs.size / sizeof *pairs;
  for (uint64_t k = 0; k < count; k++) same[pairs[k].row] = true;
  if (one_fragment(u, reader, now, old)) return TSR_OK;
  for (uint32_t f = u->schema->dimension_count; f < u->fields && count > 0; f++) {
    if (!u->compared[f]) continue;
    TSR_TRY(tsr_reader_column(reader, f, &a, error));
    TSR_TRY(tsr_reader_column(u->reader, f, &b, error));
    compare(&u->schema->fields[f], a, b, pairs, count, same);
  }
  return TSR_OK;
}

/* Compares all cells of a reader's batch, whose rows are noted, with the earlier state. */
static int compare_all(tsr_unchanged *u, batch_side *side, tsr_reader *reader, const tsr_batch *now,
                       const batch_box *box, tsr_error *error) {
  const tsr_batch *old;
  int rc;
  TSR_TRY(read_box(u, u->reader, box, error));
  while ((rc = tsr_reader_next(u->reader, &old, error)) > 0)
    if (old->written) TSR_TRY(compare_batch(u, side, reader, now, old, box, error));
  return rc;
}

static int take_dimensions(const tsr_unchanged *u, tsr_reader *reader, const tsr_column **dimensions,
                           tsr_error *error) {
  for (uint32_t d = 0; d < u->schema->dimension_count; d++)
    TSR_TRY(tsr_reader_column(reader, d, &dimensions[d], error));
  return TSR_OK;
}

/* Compares a batch of the later state with the earlier one, and notes for the caller's batch what is the same. */
static int compare_latest(tsr_unchanged *u, const tsr_batch *latest, const batch_box *given, tsr_error *error) {
  const tsr_column *dimensions[TSR_MAX_DIMENSIONS];
  batch_box box;
  uint64_t places[TSR_KEYS_MAX];
  TSR_TRY(take_dimensions(u, u->later, dimensions, error));
  if (!find_box(u, latest, dimensions, &box)) return TSR_OK;
  TSR_TRY(note_rows(u, &u->latest, latest, dimensions, &box, error));
  TSR_TRY(compare_all(u, &u->latest, u->later, latest, &box, error));
  const bool *same = (const bool *)(const void *)u->latest.same.data;
  const uint32_t *rows = (const uint32_t *)(const void *)u->given.rows.data;
  for (uint64_t from = 0; from < latest->count; from += TSR_KEYS_MAX) {
    const uint64_t count = TSR_MIN(latest->count - from, TSR_KEYS_MAX);
    find_places(u, latest, dimensions, given, from, count, places);
    for (uint64_t i = 0; i < count; i++)
      if (same[from + i] && rows[places[i]]) ((bool *)(void *)u->given.same.data)[rows[places[i]] - 1] = true;
  }
  return TSR_OK;
}

static int compare_later(tsr_unchanged *u, const batch_box *given, tsr_error *error) {
  const tsr_batch *latest;
  int rc;
  TSR_TRY(read_box(u, u->later, given, error));
  while ((rc = tsr_reader_next(u->later, &latest, error)) > 0)
    if (latest->written) TSR_TRY(compare_latest(u, latest, given, error));
  return rc;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* Makes u->batch of the rows that differ. */
static int select_changed(tsr_unchanged *u, const tsr_batch *batch, tsr_error *error) {
  const bool *same = (const bool *)(const void *)u->given.same.data;
  uint64_t left = 0;
  u->selection.size = 0;
  TSR_TRY(tsr__buffer_reserve(&u->selection, batch->count * sizeof(uint32_t), error));
  uint32_t *selection = (uint32_t *)(void *)u->selection.data;
  for (uint64_t r = 0; r < batch->count; r++) {
    selection[left] = (uint32_t)tsr_batch_index(batch, r);
    left += !same[r];
  }
  u->batch = *batch;
  u->batch.selection = selection;
  u->batch.count = left;
  return TSR_OK;
}

/* Compares a batch with the earlier state. Returns 1 if u->batch is what is left of it; 0 if it is to be passed on. */
static int reduce(tsr_unchanged *u, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  const tsr_column *dimensions[TSR_MAX_DIMENSIONS];
  batch_box box;
  if (u->reader->snapshot->losses.size || (u->later && u->later->snapshot->losses.size))
    return 0; /* the box may have places that the caller has not asked for, and that are lost */
  if (!batch->written || batch->count < UNCHANGED_CELLS_MIN || batch->count > UINT32_MAX / 2 ||
      (!batch->selection && batch->first + batch->count > UINT32_MAX))
    return 0;
  TSR_TRY(take_dimensions(u, reader, dimensions, error));
  if (!find_box(u, batch, dimensions, &box) ||
      box.places > tsr__mul_sat(batch->count, UNCHANGED_SPREAD_MAX)) /* looking up the cells costs less */
    return 0;
  TSR_TRY(note_rows(u, &u->given, batch, dimensions, &box, error));
  TSR_TRY(u->later ? compare_later(u, &box, error) : compare_all(u, &u->given, reader, batch, &box, error));
  TSR_TRY(select_changed(u, batch, error));
  return 1;
}

int tsr_unchanged_next(tsr_unchanged *u, tsr_reader *reader, const tsr_batch **batch, tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc;
  while ((rc = tsr_reader_next(reader, batch, error)) > 0) {
    tsr_error short_of_memory;
    const int reduced = reduce(u, reader, *batch, &short_of_memory);
    if (reduced < 0 && !tsr__lacks_memory(reduced)) {
      *error = short_of_memory;
      return reduced;
    }
    if (reduced <= 0) return 1;
    tsr_environment_count_changes(reader->snapshot->array->environment, (*batch)->count - u->batch.count, 0);
    if (u->batch.count == 0) continue;
    *batch = &u->batch;
    return 1;
  }
  return rc;
}
