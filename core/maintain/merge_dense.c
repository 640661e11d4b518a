/* merge_dense.c: writes one box of cells of several dense fragments as a new fragment.
 *
 * The fragments cover every cell of the box (domain.c makes such boxes). The new fragment is written space tile
 * by space tile. A cell has the same position within its tile in all fragments, so a tile is put together from the same
 * tile of the fragments that reach into it, and each cell is taken from its owner: the newest fragment whose box covers
 * it.
 */
#include "maintain/merge_dense.h"

#include <string.h>

#include "base/arithmetic.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/tile_loader.h"
#include "write/interleave.h"
#include "maintain/merge_sparse.h"

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

static const tsr_snapshot_fragment *merge_dense_fragment_of(const dense_merge *m, uint32_t source) {
  return &m->plan->snapshot->fragments[m->plan->fragments[source]];
}

/* Sets from..to to the part of the current tile that lies in the box low..high and in the box that is written. Returns
 * false if there is none. */
static bool merge_dense_clip(dense_merge *m, const uint64_t *low, const uint64_t *high) {
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

/* Gives the cells of from..to that have no owner to a source. Returns how many these are. */
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

/* The number of a tile within a fragment, in the array's tile order. */
static uint64_t merge_dense_tile_number(const tsr_grid *grid, const tsr_fragment *fragment, const uint64_t *tile) {
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
    tsr_fragment *fragment = merge_dense_fragment_of(m, s)->fragment;
    m->used[s] = merge_dense_clip(m, merge_dense_fragment_of(m, s)->box_low, merge_dense_fragment_of(m, s)->box_high) &&
                 assign_cells(m, s) > 0;
    if (!m->used[s]) continue;
    for (uint32_t f = m->grid->dimensions; f < m->fields; f++)
      m->requests[m->request_count++] =
          (tsr_tile_request){.fragment = fragment,
                             .slot = (uint32_t)merge_dense_fragment_of(m, s)->slots[f],
                             .number = merge_dense_tile_number(m->grid, fragment, m->tile)};
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

static int merge_dense_write_tile(dense_merge *m, const tsr_schema *schema, tsr_error *error) {
  const tsr_merge_plan *plan = m->plan;
  choose_owners(m);
  TSR_TRY(tsr__tiles_load(plan->array, plan->threads, m->requests, m->request_count, plan->memory, error));
  show_columns(m, schema);
  int rc = tsr__interleaver_write(&m->interleaver, m->sources, m->picks, m->grid->tile_cells, error);
  for (uint64_t i = 0; i < m->request_count; i++) tsr__tile_return(m->requests[i].tile, plan->memory);
  return rc;
}

static int merge_dense_write_tiles(dense_merge *m, const tsr_schema *schema, tsr_error *error) {
  const tsr_grid *grid = m->grid;
  for (uint32_t d = 0; d < grid->dimensions; d++) m->tile[d] = m->low[d] / grid->extent[d];
  for (bool more = true; more;) {
    TSR_TRY(tsr__cancelled(&m->plan->array->environment->memory, error));
    TSR_TRY(merge_dense_write_tile(m, schema, error));
    more = false;
    for (uint32_t i = 0; i < grid->dimensions && !more; i++) {
      uint32_t d = grid->col_major_tiles ? i : grid->dimensions - 1 - i;
      more = ++m->tile[d] <= m->high[d] / grid->extent[d];
      if (!more) m->tile[d] = m->low[d] / grid->extent[d];
    }
  }
  return TSR_OK;
}

static int merge_dense_prepare(dense_merge *m, tsr_arena *arena, tsr_error *error) {
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
  if (rc >= 0) rc = merge_dense_prepare(&m, &arena, error);
  if (rc >= 0) rc = tsr__fragment_writer_open(target, &writer, error);
  if (rc >= 0) rc = tsr__interleaver_init(&m.interleaver, schema, 0, true, plan->memory, writer, error);
  if (rc >= 0) rc = merge_dense_write_tiles(&m, schema, error);
  if (rc >= 0) rc = tsr__fragment_writer_finish(writer, error);
  tsr__interleaver_release(&m.interleaver);
  tsr__fragment_writer_close(writer);
  tsr__arena_release(&arena);
  return rc;
}
