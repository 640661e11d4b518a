/* merge_dense.c: dense fragments become boxes of written cells, and each box one fragment.
 *
 * A box covers nothing that was not written. Boxes are kept apart from each other: of a new one only what is not there
 * yet is added, in pieces; boxes that agree on all sides but one, where they touch, become one again.
 *
 * A space tile of a box is put together from the same tile of the fragments that reach into it: a cell has the same
 * place in all of them, and is taken from the newest whose box covers it.
 */
#include "ops_maintain.h"

/* ---- Sets of boxes -------------------------------------------------------------------------- */

static uint64_t *box_at(const tsr_box_set *set, uint64_t i) {
  return (uint64_t *)(void *)set->ends.data + i * 2 * set->dimensions;
}

static void remove_box(tsr_box_set *set, uint64_t i) {
  uint64_t size = 2 * sizeof(uint64_t) * set->dimensions, last = tsr__box_set_count(set) - 1;
  if (i < last) memcpy(box_at(set, i), box_at(set, last), size);
  set->ends.size -= size;
}

/* Do they make one box? Then `a` becomes it. */
static bool join(uint32_t n, uint64_t *a, const uint64_t *b) {
  uint32_t differ = n;
  for (uint32_t d = 0; d < n; d++) {
    if (a[2 * d] == b[2 * d] && a[2 * d + 1] == b[2 * d + 1]) continue;
    if (differ < n) return false;
    differ = d;
  }
  if (differ == n) return true;
  uint64_t *x = a + 2 * differ;
  const uint64_t *y = b + 2 * differ;
  if (x[0] > y[0] ? x[0] - 1 != y[1] : y[0] == 0 || y[0] - 1 != x[1]) return false;
  x[0] = TSR_MIN(x[0], y[0]);
  x[1] = TSR_MAX(x[1], y[1]);
  return true;
}

/* A box that overlaps none of the set; what can be joined is. */
static int put_box(tsr_box_set *set, uint64_t *box, tsr_error *error) {
  for (uint64_t i = 0; i < tsr__box_set_count(set);) {
    if (join(set->dimensions, box, box_at(set, i))) {
      remove_box(set, i);
      i = 0;
    } else {
      i++;
    }
  }
  return tsr__buffer_append(&set->ends, box, 2 * sizeof(uint64_t) * set->dimensions, error);
}

static bool meet(uint32_t n, const uint64_t *a, const uint64_t *b) {
  for (uint32_t d = 0; d < n; d++)
    if (a[2 * d] > b[2 * d + 1] || b[2 * d] > a[2 * d + 1]) return false;
  return true;
}

/* Replaces piece number `i` by what of it lies outside of `box`. */
static int cut(tsr_box_set *pieces, uint64_t i, const uint64_t *box, uint64_t *room, tsr_error *error) {
  uint32_t n = pieces->dimensions;
  uint64_t size = 2 * sizeof(uint64_t) * n, *rest = room, *part = room + 2 * n;
  memcpy(rest, box_at(pieces, i), size);
  remove_box(pieces, i);
  for (uint32_t d = 0; d < n; d++) {
    uint64_t low = box[2 * d], high = box[2 * d + 1];
    if (rest[2 * d] < low) {
      memcpy(part, rest, size);
      part[2 * d + 1] = low - 1;
      TSR_TRY(tsr__buffer_append(&pieces->ends, part, size, error));
      rest[2 * d] = low;
    }
    if (rest[2 * d + 1] > high) {
      memcpy(part, rest, size);
      part[2 * d] = high + 1;
      TSR_TRY(tsr__buffer_append(&pieces->ends, part, size, error));
      rest[2 * d + 1] = high;
    }
  }
  return TSR_OK;
}

static int add_pieces(tsr_box_set *set, tsr_box_set *pieces, uint64_t *room, tsr_error *error) {
  uint32_t n = set->dimensions;
  for (uint64_t b = 0; b < tsr__box_set_count(set); b++)
    for (uint64_t i = 0; i < tsr__box_set_count(pieces);) {
      if (meet(n, box_at(pieces, i), box_at(set, b))) TSR_TRY(cut(pieces, i, box_at(set, b), room, error));
      else i++;
    }
  for (uint64_t i = 0; i < tsr__box_set_count(pieces); i++) TSR_TRY(put_box(set, box_at(pieces, i), error));
  return TSR_OK;
}

int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  tsr_box_set pieces = {.dimensions = set->dimensions, .ends.memory = set->ends.memory};
  void *room;
  TSR_TRY(tsr__alloc_array(set->ends.memory, 4 * (uint64_t)set->dimensions, sizeof(uint64_t), &room, error));
  int code = TSR_OK;
  for (uint32_t d = 0; d < set->dimensions && code >= 0; d++) {
    code = tsr__buffer_append_u64(&pieces.ends, low[d], error);
    if (code >= 0) code = tsr__buffer_append_u64(&pieces.ends, high[d], error);
  }
  if (code >= 0) code = add_pieces(set, &pieces, room, error);
  tsr__buffer_release(&pieces.ends);
  tsr__free(room);
  return code;
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

typedef struct dense_merge {
  const tsr_merge_plan *plan;
  const tsr_grid *grid;
  const uint64_t *low, *high; /* of the box */
  uint32_t fields;
  uint64_t *tile, *from, *to, *at; /* the present tile; a part of it and a cell, counted from its first */
  tsr_pick *picks;
  tsr_want *wants; /* of the present tile's fragments: one for each attribute that they have */
  uint64_t want_count;
  tsr_column *columns; /* [source * fields + field] */
  const tsr_column **sources;
  bool *used;
  tsr_mixer mixer;
} dense_merge;

static const tsr_snapshot_fragment *fragment_of(const dense_merge *m, uint32_t source) {
  return &m->plan->snapshot->fragments[m->plan->fragments[source]];
}

/* The part of the present tile that lies in a box; false if there is none. */
static bool clip(dense_merge *m, const uint64_t *low, const uint64_t *high) {
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

/* The cells of that part which nobody owns become the source's: how many. */
static uint64_t own(dense_merge *m, uint32_t source) {
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

static uint64_t tile_number(const tsr_grid *grid, const tsr_fragment *fragment, const uint64_t *tile) {
  uint64_t number = 0;
  for (uint32_t i = 0; i < grid->dimensions; i++) {
    uint32_t d = grid->col_major_tiles ? grid->dimensions - 1 - i : i;
    number = number * fragment->tile_count[d] + (tile[d] - fragment->tile_low[d]);
  }
  return number;
}

static void choose_owners(dense_merge *m) {
  const uint64_t cells = m->grid->tile_cells;
  for (uint64_t i = 0; i < cells; i++) m->picks[i] = (tsr_pick){TSR_NO_SOURCE, 0};
  m->want_count = 0;
  for (uint32_t s = m->plan->count; s-- > 0;) { /* the newest first */
    tsr_fragment *fragment = fragment_of(m, s)->fragment;
    m->used[s] = clip(m, fragment->box_low, fragment->box_high) && own(m, s) > 0;
    if (!m->used[s]) continue;
    for (uint32_t f = m->grid->dimensions; f < m->fields; f++)
      m->wants[m->want_count++] = (tsr_want){.fragment = fragment,
                                             .slot = (uint32_t)fragment_of(m, s)->slots[f],
                                             .number = tile_number(m->grid, fragment, m->tile)};
  }
}

static void show_columns(dense_merge *m, const tsr_schema *schema) {
  uint64_t w = 0;
  for (uint32_t s = m->plan->count; s-- > 0;) {
    m->sources[s] = m->columns + (uint64_t)s * m->fields;
    for (uint32_t f = m->grid->dimensions; f < m->fields && m->used[s]; f++) {
      const tsr_tile *tile = m->wants[w++].tile;
      m->columns[(uint64_t)s * m->fields + f] = (tsr_column){.values = tile->values,
                                                             .offsets = tile->offsets,
                                                             .validity = tile->validity,
                                                             .cell_size = schema->fields[f].cell_size};
    }
  }
}

static int write_tile(dense_merge *m, const tsr_schema *schema, tsr_error *error) {
  const tsr_merge_plan *plan = m->plan;
  choose_owners(m);
  TSR_TRY(tsr__tiles_load(plan->array, plan->threads, m->wants, m->want_count, plan->memory, error));
  show_columns(m, schema);
  int code = tsr__mixer_write(&m->mixer, m->sources, m->picks, m->grid->tile_cells, error);
  for (uint64_t i = 0; i < m->want_count; i++) tsr__tile_return(m->wants[i].tile, plan->memory);
  return code;
}

static int write_tiles(dense_merge *m, const tsr_schema *schema, tsr_error *error) {
  const tsr_grid *grid = m->grid;
  for (uint32_t d = 0; d < grid->dimensions; d++) m->tile[d] = m->low[d] / grid->extent[d];
  for (bool more = true; more;) {
    TSR_TRY(tsr__interrupted(m->plan->array->environment, error));
    TSR_TRY(write_tile(m, schema, error));
    more = false;
    for (uint32_t i = 0; i < grid->dimensions && !more; i++) {
      uint32_t d = grid->col_major_tiles ? i : grid->dimensions - 1 - i;
      more = ++m->tile[d] <= m->high[d] / grid->extent[d];
      if (!more) m->tile[d] = m->low[d] / grid->extent[d];
    }
  }
  return TSR_OK;
}

static int prepare(dense_merge *m, tsr_arena *arena, tsr_error *error) {
  const uint64_t n = m->grid->dimensions, count = m->plan->count;
  void *room;
  TSR_TRY(tsr__arena_array(arena, 4 * n, sizeof(uint64_t), &room, error));
  m->tile = room;
  m->from = m->tile + n;
  m->to = m->from + n;
  m->at = m->to + n;
  TSR_TRY(tsr__arena_array(arena, m->grid->tile_cells, sizeof(tsr_pick), &room, error));
  m->picks = room;
  TSR_TRY(tsr__arena_array(arena, tsr__mul_sat(count, m->fields), sizeof(tsr_want), &room, error));
  m->wants = room;
  TSR_TRY(tsr__arena_array(arena, tsr__mul_sat(count, m->fields), sizeof(tsr_column), &room, error));
  m->columns = room;
  TSR_TRY(tsr__arena_array(arena, count, sizeof(tsr_column *), &room, error));
  m->sources = room;
  TSR_TRY(tsr__arena_array(arena, count, sizeof(bool), &room, error));
  m->used = room;
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
  int code = tsr__array_grid(plan->array, schema, &m.grid, error);
  if (code >= 0) code = prepare(&m, &arena, error);
  if (code >= 0) code = tsr__fragment_writer_open(target, &writer, error);
  if (code >= 0) code = tsr__mixer_init(&m.mixer, schema, 0, true, plan->memory, writer, error);
  if (code >= 0) code = write_tiles(&m, schema, error);
  if (code >= 0) code = tsr__fragment_writer_finish(writer, error);
  tsr__mixer_release(&m.mixer);
  tsr__fragment_writer_close(writer);
  tsr__arena_release(&arena);
  return code;
}
