/* buffer.c: the writer's columns of appended cells, and its log of removed rows.
 *
 * An append first checks the cells (domain, current domain, nulls, limits of a scale_float filter) and then copies them
 * to the end of a column, so a column only grows or is truncated. A single cell takes a fast path: its limits are
 * precomputed per field (tsr_limit), and it is copied only if the columns have room. Removed rows go into a log that is
 * searched by rowid. Since both only grow, two counts are enough to rewind a writer.
 *
 * The sections: checks, appending many cells, appending one cell, truncating, removed rows. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "write/writer.h"
#include "filter/pipeline.h"
#include "format/schema.h"

/* ---- What columns may hold ------------------------------------------------------------------ */

static inline uint64_t cell_of(const tsr_column *column, const uint32_t *selection, uint64_t i) {
  return column->constant ? 0 : selection ? selection[i] : i;
}

#define EXPAND " (tessera_expand_domain makes it larger)"

static int fail_outside(const tsr_field *field, const uint8_t *value, const uint8_t *low, const uint8_t *high,
                        bool current, tsr_error *error) {
  char text[3][64];
  tsr__value_print(field->datatype, value, text[0], sizeof text[0]);
  tsr__value_print(field->datatype, low, text[1], sizeof text[1]);
  tsr__value_print(field->datatype, high, text[2], sizeof text[2]);
  return tsr__fail(error, TSR_RANGE, "dimension '%s': %s is outside the %sdomain, %s to %s%s", field->name, text[0],
                   current ? "current " : "", text[1], text[2], current ? EXPAND : "");
}

static int check_texts(const tsr_schema *schema, uint32_t d, const tsr_column *column, const uint32_t *selection,
                       uint64_t count, tsr_error *error) {
  if (!schema->current_domain) return TSR_OK;
  const tsr_interval *now = &schema->current_domain[d];
  bool open = !now->low_size && now->high_size == 1 && *now->high_text == 0x7f; /* how TileDB stores "no bounds" */
  for (uint64_t i = 0; i < count && !open; i++) {
    uint64_t cell = cell_of(column, selection, i), size = column->offsets[cell + 1] - column->offsets[cell];
    const uint8_t *text = (const uint8_t *)column->values + column->offsets[cell];
    if (tsr__bytes_compare(text, size, now->low_text, now->low_size) >= 0 &&
        tsr__bytes_compare(text, size, now->high_text, now->high_size) <= 0)
      continue;
    return tsr__fail(error, TSR_RANGE, "dimension '%s': '%.*s' is outside the current domain" EXPAND,
                     schema->fields[d].name, (int)TSR_MIN(size, 64), (const char *)text);
  }
  return TSR_OK;
}

/* Mentions the current domain only if expanding it would help: not if the coordinate is outside of the domain itself.
 */
static int refuse_coordinate(const tsr_schema *schema, uint32_t d, const uint8_t *value, tsr_error *error) {
  const tsr_field *field = &schema->fields[d];
  const uint64_t key = tsr__key(field->datatype, value);
  bool current = schema->current_domain && key >= tsr__key(field->datatype, field->low) &&
                 key <= tsr__key(field->datatype, field->high);
  return current
             ? fail_outside(field, value, schema->current_domain[d].low, schema->current_domain[d].high, true, error)
             : fail_outside(field, value, field->low, field->high, false, error);
}

/* Coordinates must be in the domain and in the current domain; NaN is in neither. */
int tsr__check_coordinates(const tsr_schema *schema, uint32_t d, const tsr_column *column, const uint32_t *selection,
                           uint64_t count, tsr_error *error) {
  const tsr_field *field = &schema->fields[d];
  if (!field->cell_size) return check_texts(schema, d, column, selection, count, error);
  const uint8_t *low = field->low, *high = field->high, *values = column->values;
  if (schema->current_domain) {
    low = schema->current_domain[d].low;
    high = schema->current_domain[d].high;
  }
  uint64_t low_key = tsr__key(field->datatype, low), high_key = tsr__key(field->datatype, high), keys[256];
  if (column->constant) count = TSR_MIN(count, 1);
  for (uint64_t done = 0; done < count;) {
    uint64_t n = TSR_MIN(count - done, 256);
    if (selection && !column->constant)
      for (uint64_t i = 0; i < n; i++)
        keys[i] = tsr__key(field->datatype, values + selection[done + i] * field->cell_size);
    else tsr__keys(field->datatype, values + done * field->cell_size, n, keys);
    for (uint64_t i = 0; i < n; i++)
      if (keys[i] < low_key || keys[i] > high_key)
        return refuse_coordinate(schema, d, values + cell_of(column, selection, done + i) * field->cell_size, error);
    done += n;
  }
  return TSR_OK;
}

int tsr__check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                     tsr_error *error) {
  if (field->nullable || !column->validity) return TSR_OK;
  for (uint64_t i = 0; i < count; i++)
    if (!column->validity[cell_of(column, selection, i)])
      return tsr__fail(error, TSR_CONSTRAINT, "%s '%s' cannot be null: cell %llu",
                       field->is_dimension ? "dimension" : "attribute", field->name, (unsigned long long)i);
  return TSR_OK;
}

static const tsr_filter *scale_of(const tsr_schema *schema, uint32_t field) {
  const tsr_pipeline *pipeline = tsr__schema_pipeline(schema, field);
  if (tsr_datatype_kind(schema->fields[field].datatype) != TSR_KIND_FLOAT) return NULL;
  return pipeline->count && pipeline->filters[0].type == TSR_FILTER_SCALE_FLOAT ? &pipeline->filters[0] : NULL;
}

int tsr__check_scaled(const tsr_schema *schema, uint32_t field, const tsr_column *column, const uint32_t *selection,
                      uint64_t count, tsr_error *error) {
  const tsr_filter *filter = scale_of(schema, field);
  const tsr_field *f = &schema->fields[field];
  const uint64_t each = tsr_datatype_size(f->datatype);
  char text[64];
  if (!filter) return TSR_OK;
  if (column->constant) count = TSR_MIN(count, 1);
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t cell = cell_of(column, selection, i);
    if (column->validity && !column->validity[cell]) continue;
    const uint8_t *p = (const uint8_t *)column->values + (f->cell_size ? cell * f->cell_size : column->offsets[cell]);
    const uint64_t size = f->cell_size ? f->cell_size : column->offsets[cell + 1] - column->offsets[cell];
    for (uint64_t at = 0; at + each <= size; at += each) {
      if (tsr__scale_fits(filter, each, p + at)) continue;
      tsr__value_print(f->datatype, p + at, text, sizeof text);
      return tsr__fail(
          error, TSR_RANGE,
          "%s '%s': %s does not fit its filter scale_float(%llu, %g, %g): (value - offset) / factor goes past "
          "the integers of %llu bits",
          f->is_dimension ? "dimension" : "attribute", f->name, text, (unsigned long long)filter->byte_width,
          filter->scale, filter->offset, (unsigned long long)filter->byte_width * 8);
    }
  }
  return TSR_OK;
}

/* ---- Columns that grow ---------------------------------------------------------------------- */

/* Doubles the room of a column, if memory allows: growing copies the column and touches all of its new memory for the
 * first time. */
static int reserve(tsr_buffer *buffer, uint64_t more, tsr_error *error) {
  if (more <= buffer->capacity - buffer->size) return TSR_OK;
  if (more < buffer->size && tsr__buffer_reserve(buffer, buffer->size, NULL) >= 0) return TSR_OK;
  return tsr__buffer_reserve(buffer, more, error);
}

static int append_fixed(tsr_buffered *b, uint64_t size, const tsr_column *column, const uint32_t *selection,
                        uint64_t count, tsr_error *error) {
  TSR_TRY(reserve(&b->values, tsr__mul_sat(count, size), error));
  uint8_t *to = b->values.data + b->values.size;
  const uint8_t *values = column->values;
  if (!selection && !column->constant) memcpy(to, values, count * size);
  else
    for (uint64_t i = 0; i < count; i++, to += size) memcpy(to, values + cell_of(column, selection, i) * size, size);
  b->values.size += count * size;
  return TSR_OK;
}

static int append_variable(tsr_buffered *b, const tsr_column *column, const uint32_t *selection, uint64_t count,
                           tsr_error *error) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t cell = cell_of(column, selection, i);
    total += column->offsets[cell + 1] - column->offsets[cell];
  }
  TSR_TRY(reserve(&b->values, total, error));
  TSR_TRY(reserve(&b->offsets, tsr__mul_sat(count + !b->offsets.size, 8), error));
  if (!b->offsets.size) {
    tsr__store64(b->offsets.data, 0);
    b->offsets.size = 8;
  }
  for (uint64_t i = 0; i < count; i++) {
    uint64_t cell = cell_of(column, selection, i), size = column->offsets[cell + 1] - column->offsets[cell];
    if (size) memcpy(b->values.data + b->values.size, (const uint8_t *)column->values + column->offsets[cell], size);
    b->values.size += size;
    tsr__store64(b->offsets.data + b->offsets.size, b->values.size);
    b->offsets.size += 8;
  }
  return TSR_OK;
}

void tsr__buffered_reserve(const tsr_field *field, tsr_buffered *column, uint64_t count, uint64_t bytes) {
  (void)tsr__buffer_reserve_exactly(&column->values, bytes, NULL);
  if (!field->cell_size) (void)tsr__buffer_reserve_exactly(&column->offsets, tsr__mul_sat(count + 1, 8), NULL);
  if (field->nullable) (void)tsr__buffer_reserve_exactly(&column->validity, count, NULL);
}

int tsr__buffered_append(const tsr_field *field, tsr_buffered *b, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error) {
  TSR_TRY(field->cell_size ? append_fixed(b, field->cell_size, column, selection, count, error)
                           : append_variable(b, column, selection, count, error));
  if (!field->nullable) return TSR_OK;
  TSR_TRY(reserve(&b->validity, count, error));
  uint8_t *to = b->validity.data + b->validity.size;
  for (uint64_t i = 0; i < count; i++)
    to[i] = !column->validity || column->validity[cell_of(column, selection, i)] != 0;
  b->validity.size += count;
  return TSR_OK;
}

/* ---- One cell ------------------------------------------------------------------------------- */

void tsr__limit_make(const tsr_schema *schema, uint32_t f, tsr_limit *limit) {
  const tsr_field *field = &schema->fields[f];
  const bool dimension = f < schema->dimension_count;
  const tsr_interval *current = dimension && schema->current_domain ? &schema->current_domain[f] : NULL;
  *limit = (tsr_limit){.size = field->cell_size,
                       .datatype = field->datatype,
                       .nullable = field->nullable,
                       .bounded = dimension && field->cell_size,
                       .general = (current && !field->cell_size) || scale_of(schema, f)};
  if (!limit->bounded) return;
  limit->physical = tsr__datatype_physical(field->datatype);
  limit->low = tsr__key(field->datatype, current ? current->low : field->low);
  limit->high = tsr__key(field->datatype, current ? current->high : field->high);
}

static inline bool is_within(const tsr_limit *limit, const void *value) {
  uint64_t key;
  if (limit->physical == TSR_PHYSICAL_I64) key = tsr__load64(value) ^ UINT64_C(1) << 63;
  else if (limit->physical == TSR_PHYSICAL_I32)
    key = (uint64_t)(int64_t)(int32_t)tsr__load32(value) ^ UINT64_C(1) << 63;
  else key = tsr__key(limit->datatype, value);
  return key >= limit->low && key <= limit->high;
}

static inline uint64_t room_in(const tsr_buffer *buffer) { return buffer->capacity - buffer->size; }

static inline uint64_t size_of(const tsr_limit *limit, const tsr_column *column) {
  return limit->size ? limit->size : column->offsets[1] - column->offsets[0];
}

static inline bool push(const tsr_limit *limit, tsr_buffered *b, const tsr_column *column, uint64_t size) {
  const void *value = column->values;
  if (limit->general || room_in(&b->values) < size || (limit->bounded && !is_within(limit, value))) return false;
  if (limit->nullable ? !room_in(&b->validity) : column->validity && !*column->validity) return false;
  if (!limit->size) {
    if (!b->offsets.size || room_in(&b->offsets) < 8) return false;
    if (size) memcpy(b->values.data + b->values.size, (const uint8_t *)value + column->offsets[0], size);
    tsr__store64(b->offsets.data + b->offsets.size, b->values.size + size);
    b->offsets.size += 8;
  } else {
    uint8_t *to = b->values.data + b->values.size;
    if (size == 8) memcpy(to, value, 8);
    else if (size == 4) memcpy(to, value, 4);
    else memcpy(to, value, size);
  }
  b->values.size += size;
  if (limit->nullable) b->validity.data[b->validity.size++] = !column->validity || *column->validity != 0;
  return true;
}

static void pop(const tsr_limit *limit, tsr_buffered *b, uint64_t size) {
  b->values.size -= size;
  if (!limit->size) b->offsets.size -= 8;
  if (limit->nullable) b->validity.size--;
}

bool tsr__buffered_append_cell(const tsr_limit *limits, uint32_t fields, tsr_buffered *to, const tsr_column *columns,
                               uint64_t *bytes) {
  uint64_t sum = 0;
  for (uint32_t f = 0; f < fields; f++) {
    const uint64_t size = size_of(&limits[f], &columns[f]);
    if (!push(&limits[f], &to[f], &columns[f], size)) {
      while (f-- > 0) pop(&limits[f], &to[f], size_of(&limits[f], &columns[f]));
      return false;
    }
    sum += size + 9;
  }
  *bytes = sum;
  return true;
}

/* ---- Truncating and shrinking ------------------------------------------------------------------------------------ */

void tsr__buffered_truncate(const tsr_field *field, tsr_buffered *column, uint64_t count) {
  if (field->cell_size) column->values.size = TSR_MIN(column->values.size, count * field->cell_size);
  else if (column->offsets.size) {
    column->values.size = tsr__load64(column->offsets.data + 8 * count);
    column->offsets.size = 8 * (count + 1);
  }
  column->validity.size = TSR_MIN(column->validity.size, count);
}

void tsr__buffered_shrink(tsr_buffered *column) {
  tsr__buffer_shrink(&column->values);
  tsr__buffer_shrink(&column->offsets);
  tsr__buffer_shrink(&column->validity);
}

tsr_column tsr__buffered_column(const tsr_field *field, const tsr_buffered *column, uint64_t first) {
  /* if all strings are empty there are no bytes, but `values` must not be NULL */
  tsr_column out = {.values = column->values.data ? column->values.data : (const uint8_t *)"",
                    .cell_size = field->cell_size};
  if (field->cell_size) out.values = (const uint8_t *)out.values + first * field->cell_size;
  else out.offsets = (const uint64_t *)(const void *)column->offsets.data + first;
  if (field->nullable) out.validity = column->validity.data + first;
  return out;
}

uint64_t tsr__buffered_bytes(const tsr_buffered *column) {
  return column->values.capacity + column->offsets.capacity + column->validity.capacity;
}

void tsr__buffered_init(tsr_buffered *column, tsr_memory *memory) {
  *column = (tsr_buffered){0};
  column->values.memory = column->offsets.memory = column->validity.memory = memory;
}

void tsr__buffered_release(tsr_buffered *column) {
  tsr__buffer_release(&column->values);
  tsr__buffer_release(&column->offsets);
  tsr__buffer_release(&column->validity);
}

/* ---- Removed rows ------------------------------------------------------------------------------------------------ */

/* The log keeps rowids and coordinates in the order of removal; a hash index finds the positions of rowids in the log.
 * Rewinding the log leaves stale slots in the index: a search skips a position that is past the log's end or where
 * another row is by now. */

static int64_t removed_row_at(const tsr_removed *r, uint64_t i) { return (int64_t)tsr__load64(r->rows.data + 8 * i); }

/* A rowid is its own hash. */
static uint64_t removed_hash_at(const void *removed, uint64_t i) { return (uint64_t)removed_row_at(removed, i); }

/* Sets *position to the row's position in the log. Returns false if it is not in the log. */
static bool removed_find(const tsr_removed *r, int64_t row, uint64_t *position) {
  if (r->count == 0) return false;
  uint64_t slot = tsr__hash_slot(&r->index, (uint64_t)row);
  for (uint32_t at; tsr__hash_item(&r->index, slot, &at); slot = tsr__hash_next(&r->index, slot))
    if (at < r->count && removed_row_at(r, at) == row) {
      *position = at;
      return true;
    }
  return false;
}

/* Makes room for one more row. Rebuilding the index drops its stale slots. */
static int removed_grow(tsr_removed *r, tsr_error *error) {
  if (2 * (r->used + 1) <= tsr__hash_slot_count(&r->index)) return TSR_OK;
  const uint64_t room = TSR_MIN(2 * (r->count + 1), TSR_HASH_ITEMS_MAX);
  if (r->count >= room)
    return tsr__fail(error, TSR_TOOBIG, "%llu rows removed by one transaction: %u at most",
                     (unsigned long long)r->count, TSR_HASH_ITEMS_MAX);
  TSR_TRY(tsr__hash_rebuild(&r->index, r->rows.memory, room, r->count, removed_hash_at, r, error));
  r->used = r->count;
  return TSR_OK;
}

int tsr__removed_open(tsr_removed *removed, const tsr_schema *schema, tsr_arena *arena, tsr_memory *memory,
                      tsr_error *error) {
  tsr_removed *r = removed;
  r->schema = schema;
  TSR_TRY(TSR_ARENA_ARRAY(arena, schema->dimension_count, &r->coordinates, error));
  r->rows.memory = memory;
  r->low = INT64_MAX;
  r->high = INT64_MIN;
  for (uint32_t d = 0; d < schema->dimension_count; d++) tsr__buffered_init(&r->coordinates[d], memory);
  return TSR_OK;
}

void tsr__removed_release(tsr_removed *removed) {
  tsr_removed *r = removed;
  for (uint32_t d = 0; r->coordinates && d < r->schema->dimension_count; d++) tsr__buffered_release(&r->coordinates[d]);
  tsr__buffer_release(&r->rows);
  tsr__hash_release(&r->index);
}

static void removed_truncate(tsr_removed *r, uint64_t count) {
  for (uint64_t i = count; i < r->count; i++) r->own -= removed_row_at(r, i) < 0;
  for (uint32_t d = 0; d < r->schema->dimension_count; d++)
    tsr__buffered_truncate(&r->schema->fields[d], &r->coordinates[d], count);
  r->rows.size = count * sizeof(int64_t);
  r->count = count;
}

int tsr__removed_add(tsr_removed *removed, int64_t row, const tsr_column *coordinates, uint64_t index,
                     tsr_error *error) {
  tsr_removed *r = removed;
  const uint32_t cell = (uint32_t)index;
  if (index > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "a removed row has cell %llu of a column: %u at most",
                     (unsigned long long)index, UINT32_MAX);
  uint64_t known;
  if (removed_find(r, row, &known)) return TSR_OK;
  int rc = removed_grow(r, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(&r->rows, (uint64_t)row, error);
  for (uint32_t d = 0; rc >= 0 && d < r->schema->dimension_count; d++)
    rc = tsr__buffered_append(&r->schema->fields[d], &r->coordinates[d], &coordinates[d], &cell, 1, error);
  if (rc < 0) {
    removed_truncate(r, r->count);
    return rc;
  }
  tsr__hash_add(&r->index, (uint64_t)row, r->count++);
  r->used++;
  r->own += row < 0;
  r->low = TSR_MIN(r->low, row);
  r->high = TSR_MAX(r->high, row);
  return TSR_OK;
}

void tsr__removed_rewind(tsr_removed *removed, uint64_t count) {
  tsr_removed *r = removed;
  if (count >= r->count) return;
  removed_truncate(r, count);
  const uint64_t slots = tsr__hash_slot_count(&r->index); /* return memory that a failed statement took */
  tsr__hash_shrink(&r->index, r->rows.memory, 2 * (r->count + 1), r->count, removed_hash_at, r);
  if (tsr__hash_slot_count(&r->index) < slots) r->used = r->count;
  tsr__buffer_shrink(&r->rows);
  for (uint32_t d = 0; d < r->schema->dimension_count; d++) tsr__buffered_shrink(&r->coordinates[d]);
}

bool tsr__removed_has(const tsr_removed *removed, int64_t row, uint64_t first) {
  uint64_t position;
  return removed_find(removed, row, &position) && position < first;
}

bool tsr__removed_may_overlap(const tsr_removed *removed, int64_t low, int64_t high) {
  const tsr_removed *r = removed;
  return r->count > 0 && r->low <= high && r->high >= low;
}
