/* commit_budget.c: makes sure that there will be enough memory for a commit (tsr__commit_budget_*).
 *
 * Tracks, while cells and removed rows arrive, how much memory the commit will need, so that the statement that brings
 * too much fails, and never the commit. Whatever the number of cells, a commit needs memory for one tile: a space tile
 * of a dense array, `capacity` cells of a sparse one. The tile is gathered, copied into the window of the fragment
 * writer and encoded there, so up to three copies are in memory. Cells of variable size are counted in a histogram of
 * sizes: no tile is larger than the same number of the largest cells. Removed rows become delete conditions all at
 * once. A commit may use TSR_COMMIT_BYTES beyond the budget, so that codecs and small tiles have room however small
 * memory_mb is. */
#include "write/writer.h"

#include <string.h>

#include "base/arithmetic.h"
#include "format/schema.h"
#include "array/array.h"

#define CHUNK_USUAL  65536u
#define DELETE_BYTES 72u /* approximate bytes of a removed row while conditions are made, and */
#define DELETE_SIDE  32u /* for each of its dimensions, on top of three copies of the coordinate */
#define SMALL_BYTES  65536u /* small allocations of a writer, in bytes */
#define ZSTD_HIGH    13 /* from this level on zstd's tables are several times as large as a chunk */
#define BZIP2_BYTES  (UINT64_C(8) << 20)

/* ---- What the schema determines ---------------------------------------------------------------------------- */

static uint64_t pipeline_bytes(const tsr_pipeline *pipeline, uint64_t tile) {
  const uint64_t chunk = TSR_MIN(pipeline->max_chunk_size ? pipeline->max_chunk_size : CHUNK_USUAL, tile);
  uint64_t bytes = tsr__mul_sat(chunk, (uint64_t)pipeline->count + 1);
  for (uint32_t i = 0; i < pipeline->count; i++) {
    const tsr_filter *filter = &pipeline->filters[i];
    if (filter->type == TSR_FILTER_BZIP2) bytes = tsr__add_sat(bytes, BZIP2_BYTES);
    if (filter->type == TSR_FILTER_ZSTD)
      bytes = tsr__add_sat(bytes, tsr__mul_sat(chunk, filter->level >= ZSTD_HIGH ? 10 : 4));
  }
  return bytes;
}

static int count_tile_cells(const tsr_schema *schema, tsr_memory *memory, uint64_t *cells, tsr_error *error) {
  tsr_arena arena;
  tsr_grid grid;
  if (!schema->dense) {
    *cells = schema->capacity;
    return TSR_OK;
  }
  tsr__arena_init(&arena, memory);
  const int rc = tsr__grid_make(schema, &arena, &grid, error);
  if (rc >= 0) *cells = grid.tile_cells;
  tsr__arena_release(&arena);
  return rc;
}

int tsr__commit_budget_open(tsr_writer *writer, tsr_error *error) {
  tsr_commit_budget *budget = &writer->commit_budget;
  const tsr_schema *schema = writer->schema;
  budget->runs.memory = &writer->array->memory;
  TSR_TRY(count_tile_cells(schema, &writer->memory, &budget->tile_cells, error));
  for (uint32_t f = 0; f < writer->field_count; f++) {
    const tsr_field *field = &schema->fields[f];
    const uint64_t size = field->cell_size ? field->cell_size : sizeof(uint64_t);
    if (!field->cell_size) budget->variable = true;
    if (f < schema->dimension_count) budget->coordinates += size;
    if (schema->dense && f < schema->dimension_count) continue;
    budget->row += size + (field->nullable ? 1 : 0);
    const uint64_t tile = field->cell_size ? tsr__mul_sat(size, budget->tile_cells) : UINT64_MAX;
    budget->codecs = TSR_MAX(budget->codecs, pipeline_bytes(tsr__schema_pipeline(schema, f), tile));
  }
  return TSR_OK;
}

void tsr__commit_budget_release(tsr_writer *writer) { tsr__buffer_release(&writer->commit_budget.runs); }

/* ---- The histogram of cell sizes --------------------------------------------------------------------------- */

/* Adds cells first..end to the histogram if `sign` is 1, and subtracts them if it is UINT64_MAX: unsigned arithmetic
 * wraps. */
static void count_cells(tsr_writer *w, uint64_t first, uint64_t end, uint64_t sign) {
  tsr_sizes *sizes = &w->commit_budget.memory;
  if (!w->commit_budget.variable) return;
  for (uint64_t i = first; i < end; i++) {
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < w->field_count; f++) {
      if (w->schema->fields[f].cell_size) continue;
      const uint64_t *offsets = (const uint64_t *)(const void *)w->cells.columns[f].offsets.data;
      bytes += offsets[i + 1] - offsets[i];
    }
    if (!bytes) continue;
    const uint32_t class = TSR_MIN(63u - (uint32_t)__builtin_clzll(bytes), TSR_SIZE_CLASSES - 1u);
    sizes->counts[class] += sign;
    sizes->bytes[class] += sign * bytes;
  }
}

void tsr__commit_budget_add(tsr_writer *writer, uint64_t first, uint64_t end) { count_cells(writer, first, end, 1); }
void tsr__commit_budget_subtract(tsr_writer *writer, uint64_t first, uint64_t end) {
  count_cells(writer, first, end, UINT64_MAX);
}

int tsr__commit_budget_reserve(tsr_writer *writer, tsr_error *error) {
  return writer->commit_budget.variable ? tsr__buffer_reserve(&writer->commit_budget.runs, sizeof(tsr_sizes), error)
                                        : TSR_OK;
}

void tsr__commit_budget_spilled(tsr_writer *writer) {
  tsr_commit_budget *budget = &writer->commit_budget;
  if (!budget->variable) return;
  (void)tsr__buffer_append(&budget->runs, &budget->memory, sizeof budget->memory,
                           NULL); /* cannot fail: the memory is reserved */
  for (uint32_t k = 0; k < TSR_SIZE_CLASSES; k++) {
    budget->spilled.counts[k] += budget->memory.counts[k];
    budget->spilled.bytes[k] += budget->memory.bytes[k];
  }
  budget->memory = (tsr_sizes){0};
}

void tsr__commit_budget_drop_run(tsr_writer *writer) {
  tsr_commit_budget *budget = &writer->commit_budget;
  if (!budget->variable) return;
  budget->runs.size -= sizeof(tsr_sizes);
  const tsr_sizes *last = (const tsr_sizes *)(const void *)(budget->runs.data + budget->runs.size);
  for (uint32_t k = 0; k < TSR_SIZE_CLASSES; k++) {
    budget->spilled.counts[k] -= last->counts[k];
    budget->spilled.bytes[k] -= last->bytes[k];
  }
}

/* Returns the most bytes that values of variable size may take in any `cells` cells. */
static uint64_t most_bytes(const tsr_commit_budget *budget, uint64_t cells) {
  uint64_t sum = 0;
  for (uint32_t k = TSR_SIZE_CLASSES; k-- > 0 && cells > 0;) {
    const uint64_t count = budget->memory.counts[k] + budget->spilled.counts[k],
                   bytes = budget->memory.bytes[k] + budget->spilled.bytes[k];
    const uint64_t taken = TSR_MIN(count, cells);
    sum = tsr__add_sat(sum, taken < count ? TSR_MIN(bytes, tsr__mul_sat(taken, UINT64_C(2) << k)) : bytes);
    cells -= taken;
  }
  return sum;
}

/* ---- Checking against the budget --------------------------------------------------------------------------- */

static uint64_t allowed(const tsr_writer *w) { return tsr__add_sat(w->memory.limit, TSR_COMMIT_BYTES); }

/* Returns the bytes of what stays in memory, besides cells, while a commit is prepared. */
static uint64_t other_bytes(const tsr_writer *w) {
  const tsr_removed *r = &w->removed;
  uint64_t bytes = r->rows.capacity + tsr__hash_slot_count(&r->index) * sizeof *r->index.slots + w->runs.list.capacity +
                   w->commit.fragments.capacity + SMALL_BYTES;
  for (uint32_t d = 0; d < w->schema->dimension_count; d++)
    bytes += r->coordinates[d].values.capacity + r->coordinates[d].offsets.capacity;
  return bytes;
}

int tsr__commit_budget_check_cells(const tsr_writer *writer, tsr_error *error) {
  const tsr_commit_budget *budget = &writer->commit_budget;
  const bool dense = writer->schema->dense;
  const uint64_t cells = dense ? budget->tile_cells : TSR_MIN(budget->tile_cells, writer->cells.count);
  const uint64_t tile = tsr__add_sat(tsr__mul_sat(cells, budget->row), most_bytes(budget, cells));
  const uint64_t copies = tsr__add_sat(tsr__mul_sat(tile, dense ? 3 : 2), tile / 8);
  const uint64_t order = dense ? tsr__mul_sat(cells, sizeof(uint64_t) + 1) : 0;
  const uint64_t others =
      other_bytes(writer) + TSR_MIN(budget->codecs, tsr__mul_sat(tile, 16)) + writer->memory.limit / 16;
  const uint64_t needed = tsr__add_sat(tsr__add_sat(copies, order), others);
  if (needed <= allowed(writer)) return TSR_OK;
  return tsr__fail(
      error, TSR_BUDGET,
      "a commit of these cells would take %llu bytes of memory: tiles of the array have %llu cells, up to %llu "
      "bytes; memory_mb allows %llu and %llu more for the commit (raise memory_mb, or make the array's tiles "
      "smaller)",
      (unsigned long long)needed, (unsigned long long)cells, (unsigned long long)tile,
      (unsigned long long)writer->memory.limit, (unsigned long long)TSR_COMMIT_BYTES);
}

int tsr__commit_budget_check_removed(const tsr_writer *writer, tsr_error *error) {
  const tsr_removed *r = &writer->removed;
  uint64_t each = DELETE_BYTES + DELETE_SIDE * (uint64_t)writer->schema->dimension_count, texts = 0;
  for (uint32_t d = 0; d < writer->schema->dimension_count; d++) {
    each += 3 * writer->schema->fields[d].cell_size;
    if (!writer->schema->fields[d].cell_size) texts += r->coordinates[d].values.size;
  }
  const uint64_t made = tsr__add_sat(tsr__mul_sat(r->count, each), tsr__mul_sat(3, texts));
  const uint64_t needed = tsr__add_sat(made, other_bytes(writer));
  if (needed <= allowed(writer)) return TSR_OK;
  return tsr__fail(
      error, TSR_BUDGET,
      "a commit that deletes %llu rows would take %llu bytes of memory: memory_mb allows %llu and %llu more for "
      "the commit (raise memory_mb, or delete in several transactions)",
      (unsigned long long)r->count, (unsigned long long)needed, (unsigned long long)writer->memory.limit,
      (unsigned long long)TSR_COMMIT_BYTES);
}

void tsr__commit_budget_lend(tsr_writer *writer, bool lend) {
  atomic_store_explicit(&writer->memory.lent, lend ? TSR_COMMIT_BYTES : 0, memory_order_relaxed);
}
