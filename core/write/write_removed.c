/* write_removed.c: keeps the rows that a writer has removed, as a log with their coordinates and a hash table of their
 * rowids.
 *
 * The table holds positions in the log. Rewinding the log leaves them in the table: a search passes over a position
 * past the log's end, or at which another row stands by then. */
#include "write/write_removed.h"

#include <string.h>

#include "write/write_buffer.h"
#include "format/schema.h"

#define SLOTS_MIN 64u

static uint64_t slot_count(const tsr_removed *r) { return r->slots.size / sizeof(uint64_t); }
static uint64_t *write_removed_slots_of(const tsr_removed *r) { return (uint64_t *)(void *)r->slots.data; }
static int64_t write_removed_row_at(const tsr_removed *r, uint64_t i) {
  return (int64_t)tsr__load64(r->rows.data + 8 * i);
}

static uint64_t write_removed_hash_of(int64_t row) {
  uint64_t h = (uint64_t)row * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* Returns the row's position in the log + 1; 0 if it is not in the log. */
static uint64_t write_removed_find(const tsr_removed *r, int64_t row) {
  const uint64_t n = slot_count(r), *slots = write_removed_slots_of(r);
  if (n == 0) return 0;
  for (uint64_t at = write_removed_hash_of(row) & (n - 1); slots[at]; at = (at + 1) & (n - 1))
    if (slots[at] <= r->count && write_removed_row_at(r, slots[at] - 1) == row) return slots[at];
  return 0;
}

static void put(tsr_removed *r, int64_t row, uint64_t position) {
  const uint64_t n = slot_count(r);
  uint64_t at = write_removed_hash_of(row) & (n - 1), *slots = write_removed_slots_of(r);
  while (slots[at]) at = (at + 1) & (n - 1);
  slots[at] = position + 1;
  r->used++;
}

/* Puts all rows into `n` slots, for which there is room. */
static void fill_slots(tsr_removed *r, uint64_t n) {
  memset(r->slots.data, 0, n * sizeof(uint64_t));
  r->slots.size = n * sizeof(uint64_t);
  r->used = 0;
  for (uint64_t i = 0; i < r->count; i++) put(r, write_removed_row_at(r, i), i);
}

/* Makes room for one more row, so that half of the slots stay free. */
static int write_removed_grow(tsr_removed *r, tsr_error *error) {
  if (2 * (r->used + 1) <= slot_count(r)) return TSR_OK;
  uint64_t n = TSR_MAX(slot_count(r), SLOTS_MIN);
  while (n < 4 * (r->count + 1)) n *= 2;
  tsr_buffer larger = {.memory = r->slots.memory}; /* after an error the table is as it was */
  TSR_TRY(tsr__buffer_reserve(&larger, n * sizeof(uint64_t), error));
  tsr__buffer_release(&r->slots);
  r->slots = larger;
  fill_slots(r, n);
  return TSR_OK;
}

int tsr__removed_open(tsr_removed *removed, const tsr_schema *schema, tsr_arena *arena, tsr_memory *memory,
                      tsr_error *error) {
  tsr_removed *r = removed;
  r->schema = schema;
  TSR_TRY(TSR_ARENA_ARRAY(arena, schema->dimension_count, &r->coordinates, error));
  r->rows.memory = r->slots.memory = memory;
  r->low = INT64_MAX;
  r->high = INT64_MIN;
  for (uint32_t d = 0; d < schema->dimension_count; d++) tsr__buffered_init(&r->coordinates[d], memory);
  return TSR_OK;
}

void tsr__removed_release(tsr_removed *removed) {
  tsr_removed *r = removed;
  for (uint32_t d = 0; r->coordinates && d < r->schema->dimension_count; d++) tsr__buffered_release(&r->coordinates[d]);
  tsr__buffer_release(&r->rows);
  tsr__buffer_release(&r->slots);
}

static void write_removed_truncate(tsr_removed *r, uint64_t count) {
  for (uint64_t i = count; i < r->count; i++) r->own -= write_removed_row_at(r, i) < 0;
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
  if (write_removed_find(r, row)) return TSR_OK;
  int rc = write_removed_grow(r, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(&r->rows, (uint64_t)row, error);
  for (uint32_t d = 0; rc >= 0 && d < r->schema->dimension_count; d++)
    rc = tsr__buffered_append(&r->schema->fields[d], &r->coordinates[d], &coordinates[d], &cell, 1, error);
  if (rc < 0) {
    write_removed_truncate(r, r->count);
    return rc;
  }
  put(r, row, r->count++);
  r->own += row < 0;
  r->low = TSR_MIN(r->low, row);
  r->high = TSR_MAX(r->high, row);
  return TSR_OK;
}

void tsr__removed_rewind(tsr_removed *removed, uint64_t count) {
  tsr_removed *r = removed;
  uint64_t slots = SLOTS_MIN;
  if (count >= r->count) return;
  write_removed_truncate(r, count);
  while (slots < 4 * (r->count + 1)) slots *= 2;
  if (slots < slot_count(r)) fill_slots(r, slots);
  tsr__buffer_shrink(&r->slots); /* room that a failed statement took is not missing later */
  tsr__buffer_shrink(&r->rows);
  for (uint32_t d = 0; d < r->schema->dimension_count; d++) tsr__buffered_shrink(&r->coordinates[d]);
}

bool tsr__removed_has(const tsr_removed *removed, int64_t row, uint64_t first) {
  const uint64_t position = write_removed_find(removed, row);
  return position > 0 && position <= first;
}

bool tsr__removed_meets(const tsr_removed *removed, int64_t low, int64_t high) {
  const tsr_removed *r = removed;
  return r->count > 0 && r->low <= high && r->high >= low;
}
