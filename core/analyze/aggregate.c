/* aggregate.c: count, sum, minimum and maximum of a field over a box, grouped by the values of dimensions.
 *
 * A reader gives batches of cells, which are added to the sums of their groups. A fully selected tile whose cells all
 * belong to one group is not read: its statistics are used, if they can be believed (predicate.c) and are certain to
 * give what the cells would:
 * - Integers: the stored sum is used only if it cannot have saturated at the limits of 64 bits.
 * - Floats: the stored sum is an ordinary sum with rounding errors. The likely error is added up (tsr_sums.doubt). If
 *   it may show in a result, everything is read again without statistics.
 * - Dense tiles: only tiles without padding. Versions below 16 counted zeros of the padding, and in all versions a
 *   consolidation by TileDB counts the fill values around the box.
 *
 * A cell's group is found in one of two ways. If the values of the dimensions in `by` have few combinations, the group
 * is the number of the combination (direct), and each thread has its own table of sums. Otherwise groups are numbered
 * in the order in which they appear, by a hash table of their keys (hashed); the strings of a dimension are numbered in
 * the same way first.
 */
#include <string.h>

#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/progress.h"
#include "array/snapshot.h"
#include "read/subtile.h"
#include "read/predicate.h"
#include "read/reader.h"
#include "analyze/aggregate_sums.h"

#define AGGREGATE_BLOCK       TSR_KEYS_MAX /* cells whose groups are found together */
#define STRETCH_MIN           16u /* cells: from here on consecutive cells of one group are added by the fast loop */
#define AGGREGATE_PART_CELLS  16384u /* cells of a batch per thread, at least */
#define AGGREGATE_THREADS_MAX 16u
#define DIRECT_ALWAYS         65536u /* combinations that may always be direct; more if there are as many cells ... */
#define DIRECT_MAX            (UINT64_C(1) << 22) /* ... but never more than these */
#define SHARED_FROM           65536u /* groups: with more, one thread adds all cells */
#define DOUBT_MAX             1e-10 /* tolerated error of a sum, relative */
#define UNWRITTEN_GROUPS      65536u /* groups between two checks for cancellation */
#define NO_GROUP              UINT32_MAX

typedef struct text { /* a value of a string dimension */
  const uint8_t *bytes;
  uint64_t size;
} text;

typedef struct aggregate_numbering { /* hash table with open addressing: numbers things 0, 1, ... as they appear */
  uint32_t *slots; /* a number, or NO_GROUP */
  uint64_t slot_count; /* a power of two */
} aggregate_numbering;

typedef struct aggregate_axis { /* a dimension in `by` */
  uint32_t dimension;
  const tsr_field *field;
  bool is_text;
  uint64_t low, extent, stride; /* direct: the keys low..low+extent-1; a key adds (key - low) * stride to the group */
  uint64_t text_count; /* strings: how many different ones have appeared */
  tsr_buffer texts; /* of text, by number */
  aggregate_numbering numbers; /* of the strings */
} aggregate_axis;

typedef struct aggregate_direct { /* groups whose numbers are computed from the keys */
  bool used;
  bool outside; /* a cell lay outside of its fragment's non-empty domain, so it has no place in the table */
  tsr_sums *tables[AGGREGATE_THREADS_MAX]; /* sums of the threads except the first; NULL until needed */
} aggregate_direct;

typedef struct aggregate_hashed { /* groups that are numbered as they appear */
  tsr_buffer tuples; /* by_count keys per group */
  aggregate_numbering numbers;
  uint32_t last; /* the group that was found last, or NO_GROUP */
} aggregate_hashed;

typedef struct aggregate_result {
  uint64_t count;
  uint32_t *rows; /* groups with cells, in the order of their keys */
  uint8_t keys[TSR_BY_MAX][8]; /* of the row that the caller has got last */
} aggregate_result;

struct tsr_aggregate {
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  tsr_memory memory;
  tsr_arena arena;
  const tsr_field *field;
  uint32_t field_number;
  tsr_physical_type type;
  uint32_t by_count;
  aggregate_axis by[TSR_BY_MAX];
  uint64_t group_count;
  tsr_buffer sums; /* of tsr_sums, by group */
  aggregate_direct direct;
  aggregate_hashed hashed;
  aggregate_result result;
};

static tsr_sums *sums_of(const tsr_aggregate *a) { return (tsr_sums *)(void *)a->sums.data; }

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static uint64_t aggregate_combine(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 29;
}

static uint64_t hash_text(const uint8_t *bytes, uint64_t size) {
  uint64_t hash = size;
  for (; size >= 8; size -= 8, bytes += 8) hash = aggregate_combine(hash, tsr__load64(bytes));
  for (; size > 0; size--, bytes++) hash = aggregate_combine(hash, *bytes);
  return hash;
}

static uint64_t hash_tuple(const uint64_t *keys, uint32_t count) {
  uint64_t hash = 0;
  for (uint32_t k = 0; k < count; k++) hash = aggregate_combine(hash, keys[k]);
  return hash;
}

static const text *aggregate_text_at(const aggregate_axis *by, uint64_t number) {
  return (const text *)(const void *)by->texts.data + number;
}

static const uint64_t *tuple_at(const tsr_aggregate *a, uint64_t group) {
  return (const uint64_t *)(const void *)a->hashed.tuples.data + group * a->by_count;
}

static uint64_t aggregate_hash_of(const tsr_aggregate *a, const aggregate_axis *by, uint64_t number) {
  if (!by) return hash_tuple(tuple_at(a, number), a->by_count);
  return hash_text(aggregate_text_at(by, number)->bytes, aggregate_text_at(by, number)->size);
}

/* Makes room for one more entry beside `count`, so that at most half of the slots are taken. The entries are the
 * strings of the dimension `by`, or if that is NULL, the groups. */
static int aggregate_make_room(tsr_aggregate *a, const aggregate_axis *by, aggregate_numbering *n, uint64_t count,
                               tsr_error *error) {
  if (count >= NO_GROUP) return tsr__fail(error, TSR_TOOBIG, "more than %u groups", NO_GROUP);
  if (2 * (count + 1) <= n->slot_count) return TSR_OK;
  const uint64_t slots = TSR_MAX(64, 2 * n->slot_count);
  uint32_t *made;
  TSR_TRY(TSR_ALLOC_RAW(&a->memory, slots, &made, error));
  memset(made, 0xFF, slots * sizeof(uint32_t));
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at = aggregate_hash_of(a, by, i) & (slots - 1);
    while (made[at] != NO_GROUP) at = (at + 1) & (slots - 1);
    made[at] = (uint32_t)i;
  }
  tsr__free(n->slots);
  *n = (aggregate_numbering){.slots = made, .slot_count = slots};
  return TSR_OK;
}

/* Finds or gives the number of a string. */
static int number_text(tsr_aggregate *a, aggregate_axis *by, const uint8_t *bytes, uint64_t size, uint64_t *number,
                       tsr_error *error) {
  TSR_TRY(aggregate_make_room(a, by, &by->numbers, by->text_count, error));
  uint64_t at = hash_text(bytes, size) & (by->numbers.slot_count - 1);
  for (; by->numbers.slots[at] != NO_GROUP; at = (at + 1) & (by->numbers.slot_count - 1)) {
    *number = by->numbers.slots[at];
    const text *t = aggregate_text_at(by, *number);
    if (t->size == size && (size == 0 || memcmp(t->bytes, bytes, size) == 0)) return TSR_OK;
  }
  uint8_t *copy;
  TSR_TRY(TSR_ARENA_COPY(&a->arena, bytes, size, &copy, error));
  const text made = {.bytes = copy, .size = size};
  TSR_TRY(tsr__buffer_append(&by->texts, &made, sizeof made, error));
  by->numbers.slots[at] = (uint32_t)by->text_count;
  *number = by->text_count++;
  return TSR_OK;
}

/* Finds or makes the group of a tuple of keys. */
static int number_tuple(tsr_aggregate *a, const uint64_t *keys, uint32_t *group, tsr_error *error) {
  const uint64_t size = a->by_count * sizeof(uint64_t);
  if (a->hashed.last != NO_GROUP && memcmp(tuple_at(a, a->hashed.last), keys, size) == 0) {
    *group = a->hashed.last;
    return TSR_OK;
  }
  TSR_TRY(aggregate_make_room(a, NULL, &a->hashed.numbers, a->group_count, error));
  uint64_t at = hash_tuple(keys, a->by_count) & (a->hashed.numbers.slot_count - 1);
  for (; a->hashed.numbers.slots[at] != NO_GROUP; at = (at + 1) & (a->hashed.numbers.slot_count - 1)) {
    *group = a->hashed.numbers.slots[at];
    if (memcmp(tuple_at(a, *group), keys, size) == 0) {
      a->hashed.last = *group;
      return TSR_OK;
    }
  }
  tsr_sums sums;
  tsr__sums_init(a->type, &sums);
  TSR_TRY(tsr__buffer_append(&a->hashed.tuples, keys, size, error));
  TSR_TRY(tsr__buffer_append(&a->sums, &sums, sizeof sums, error));
  a->hashed.numbers.slots[at] = (uint32_t)a->group_count;
  *group = a->hashed.last = (uint32_t)a->group_count++;
  return TSR_OK;
}

/* ---- Cells of a batch -------------------------------------------------------------------------------------------- */

typedef struct aggregate_job {
  tsr_aggregate *aggregate;
  const tsr_batch *batch;
  const tsr_subtile *subtile; /* set if the batch is consecutive cells of a dense tile with stretches of one group */
  uint64_t stretch; /* cells of a stretch */
  tsr_column field, by[TSR_BY_MAX];
  uint64_t parts; /* how many threads share the batch */
  bool outside[AGGREGATE_THREADS_MAX]; /* [part]: as tsr_aggregate.outside */
} aggregate_job;

/* Finds the keys of the rows from..from+count-1 on a dimension of numbers. */
static void find_keys(const aggregate_job *j, uint32_t k, uint64_t from, uint64_t count, uint64_t *keys) {
  tsr__batch_keys(j->batch, &j->by[k], j->aggregate->by[k].field->datatype, from, count, keys);
}

/* Finds the groups of rows by their combinations. Returns false if a cell lies outside of the table. */
static bool find_direct(const aggregate_job *j, uint64_t from, uint64_t count, uint32_t *groups) {
  uint64_t keys[AGGREGATE_BLOCK];
  bool outside = false;
  for (uint32_t k = 0; k < j->aggregate->by_count; k++) {
    const aggregate_axis *by = &j->aggregate->by[k];
    find_keys(j, k, from, count, keys);
    for (uint64_t r = 0; r < count; r++) outside |= keys[r] - by->low >= by->extent;
    if (k == 0)
      for (uint64_t r = 0; r < count; r++) groups[r] = (uint32_t)((keys[r] - by->low) * by->stride);
    else
      for (uint64_t r = 0; r < count; r++) groups[r] += (uint32_t)((keys[r] - by->low) * by->stride);
  }
  return !outside;
}

/* Finds the groups of rows by the hash tables. */
static int find_hashed(const aggregate_job *j, uint64_t from, uint64_t count, uint32_t *groups, tsr_error *error) {
  tsr_aggregate *a = j->aggregate;
  uint64_t keys[TSR_BY_MAX][AGGREGATE_BLOCK], tuple[TSR_BY_MAX];
  for (uint32_t k = 0; k < a->by_count; k++) {
    aggregate_axis *by = &a->by[k];
    if (!by->is_text) {
      find_keys(j, k, from, count, keys[k]);
      continue;
    }
    const text *last = NULL;
    for (uint64_t r = 0; r < count; r++) {
      const uint64_t i = j->batch->selection ? j->batch->selection[from + r] : j->batch->first + from + r;
      const uint8_t *bytes = (const uint8_t *)j->by[k].values + j->by[k].offsets[i];
      const uint64_t size = j->by[k].offsets[i + 1] - j->by[k].offsets[i];
      if (last && last->size == size && (size == 0 || memcmp(last->bytes, bytes, size) == 0)) {
        keys[k][r] = keys[k][r - 1];
        continue;
      }
      TSR_TRY(number_text(a, by, bytes, size, &keys[k][r], error));
      last = aggregate_text_at(by, keys[k][r]);
    }
  }
  for (uint64_t r = 0; r < count; r++) {
    for (uint32_t k = 0; k < a->by_count; k++) tuple[k] = keys[k][r];
    TSR_TRY(number_tuple(a, tuple, &groups[r], error));
  }
  return TSR_OK;
}

/* The values of the rows from..from+count-1. A constant column is repeated in `room`, which has 8 bytes for each
 * row. */
static tsr_cells aggregate_cells_of(const aggregate_job *j, uint64_t from, uint64_t count, uint8_t *room) {
  const tsr_column *column = &j->field;
  tsr_cells cells = {.type = j->aggregate->type, .values = column->values, .validity = column->validity};
  cells.count = count;
  if (column->constant) {
    for (uint64_t r = 0; r < count; r++) memcpy(room + r * column->cell_size, column->values, column->cell_size);
    cells.values = room;
    cells.validity = NULL; /* the caller treats a constant null by itself */
  } else if (j->batch->selection) {
    cells.selection = j->batch->selection + from;
  } else {
    cells.values += (j->batch->first + from) * column->cell_size;
    if (cells.validity) cells.validity += j->batch->first + from;
  }
  return cells;
}

/* Moves the cells on by `by` rows. */
static void shift_cells(tsr_cells *cells, uint64_t by, uint64_t size) {
  if (cells->selection) {
    cells->selection += by;
    return;
  }
  cells->values += by * size;
  if (cells->validity) cells->validity += by;
}

/* Adds each cell to its group: in stretches of one group by the fast loop, or cell by cell if the group changes
 * often. */
static void add_groups(tsr_cells cells, uint64_t size, const uint32_t *groups, tsr_sums *sums) {
  const uint64_t count = cells.count;
  uint64_t changes = 0;
  for (uint64_t r = 1; r < count; r++) changes += groups[r] != groups[r - 1];
  if (changes > count / 16) {
    tsr__sums_scatter(&cells, groups, sums);
    return;
  }
  for (uint64_t r = 0, end; r < count; r = end) {
    for (end = r + 1; end < count && groups[end] == groups[r];) end++;
    cells.count = end - r;
    tsr__sums_add(&cells, &sums[groups[r]]);
    shift_cells(&cells, end - r, size);
  }
}

/* The axis of the batch's tile for the dimension by[k]. */
static const tsr_axis *axis_of(const aggregate_job *j, uint32_t k) {
  const uint32_t d = j->aggregate->by[k].dimension;
  return &j->subtile->axes[j->aggregate->snapshot->grid.col_major_cells ? j->subtile->dimensions - 1 - d : d];
}

/* Sets j->subtile if the groups follow from the positions of the cells in their dense tile: then the coordinates need
 * not be read. The cells come in stretches of one group, whose length is the smallest stride of a dimension in `by`. */
static void choose_stretches(aggregate_job *j) {
  tsr_batch_iterator *iterator = j->aggregate->reader->iterator;
  if (!j->aggregate->direct.used || j->aggregate->by_count == 0 || j->batch->selection || !iterator->subtile) return;
  j->subtile = iterator->subtile(iterator);
  if (!j->subtile) return;
  j->stretch = UINT64_MAX;
  for (uint32_t k = 0; k < j->aggregate->by_count; k++) j->stretch = TSR_MIN(j->stretch, axis_of(j, k)->stride);
  if (j->stretch < STRETCH_MIN) j->subtile = NULL;
}

/* The group of the cell at a position in its dense tile. */
static uint64_t group_at(const aggregate_job *j, uint64_t place) {
  const tsr_aggregate *a = j->aggregate;
  uint64_t group = 0;
  for (uint32_t k = 0; k < a->by_count; k++) {
    const tsr_axis *axis = axis_of(j, k);
    const uint64_t low = a->by[k].low - a->snapshot->grid.low_key[a->by[k].dimension];
    group += (axis->base + place / axis->stride % axis->extent - low) * a->by[k].stride;
  }
  return group;
}

/* Returns true if all of a column is null: it is one null, or was never written. */
static bool aggregate_is_null(const tsr_column *column) {
  return column->constant && (column->unwritten || (column->validity && !column->validity[0]));
}

static void add_stretches(const aggregate_job *j, uint64_t from, uint64_t end, tsr_sums *table) {
  uint8_t room[AGGREGATE_BLOCK * sizeof(uint64_t)];
  for (uint64_t n; from < end; from += n) {
    const uint64_t place = j->subtile->origin + j->batch->first + from;
    tsr_sums *sums = &table[group_at(j, place)];
    n = TSR_MIN(TSR_MIN(end - from, j->stretch - place % j->stretch),
                j->field.constant ? AGGREGATE_BLOCK : TSR_SUMS_CELLS);
    const tsr_cells cells = aggregate_cells_of(j, from, n, room);
    if (aggregate_is_null(&j->field)) sums->nulls += n;
    else tsr__sums_add(&cells, sums);
  }
}

/* Adds one part of the batch, on a worker thread. */
static int aggregate_add_part(void *argument, uint64_t part, tsr_error *error) {
  aggregate_job *j = argument;
  tsr_aggregate *a = j->aggregate;
  const bool null = aggregate_is_null(&j->field);
  const uint64_t end = j->batch->count * (part + 1) / j->parts;
  uint32_t groups[AGGREGATE_BLOCK];
  uint8_t room[AGGREGATE_BLOCK * sizeof(uint64_t)];
  if (j->subtile) {
    add_stretches(j, j->batch->count * part / j->parts, end, part == 0 ? sums_of(a) : a->direct.tables[part]);
    return TSR_OK;
  }
  for (uint64_t n, from = j->batch->count * part / j->parts; from < end; from += n) {
    n = TSR_MIN(end - from, j->field.constant || a->by_count > 0 ? AGGREGATE_BLOCK : TSR_SUMS_CELLS);
    if (a->by_count > 0 && a->direct.used && !find_direct(j, from, n, groups)) {
      j->outside[part] = true;
      return TSR_OK;
    }
    if (a->by_count > 0 && !a->direct.used) TSR_TRY(find_hashed(j, from, n, groups, error));
    tsr_sums *sums = part == 0 ? sums_of(a) : a->direct.tables[part]; /* find_hashed may have moved the sums */
    if (null) {
      for (uint64_t r = 0; r < n; r++) sums[a->by_count > 0 ? groups[r] : 0].nulls++;
      continue;
    }
    const tsr_cells cells = aggregate_cells_of(j, from, n, room);
    if (a->by_count > 0) add_groups(cells, j->field.cell_size, groups, sums);
    else tsr__sums_add(&cells, sums);
  }
  return TSR_OK;
}

/* Chooses how many threads share the batch. Each except the first gets its own table. */
static int choose_parts(tsr_aggregate *a, const tsr_batch *batch, uint64_t *parts, tsr_error *error) {
  *parts = 1;
  if (!a->direct.used || a->group_count > SHARED_FROM) return TSR_OK;
  *parts = TSR_MAX(1, TSR_MIN(TSR_MIN(a->reader->threads, AGGREGATE_THREADS_MAX), batch->count / AGGREGATE_PART_CELLS));
  for (uint64_t part = 1; part < *parts; part++) {
    if (a->direct.tables[part]) continue;
    TSR_TRY(TSR_ARENA_ARRAY(&a->arena, a->group_count, &a->direct.tables[part], error));
    for (uint64_t g = 0; g < a->group_count; g++) tsr__sums_init(a->type, &a->direct.tables[part][g]);
  }
  return TSR_OK;
}

static int aggregate_add_batch(tsr_aggregate *a, const tsr_batch *batch, tsr_error *error) {
  const tsr_column *column;
  aggregate_job j = {.aggregate = a, .batch = batch};
  TSR_TRY(tsr_reader_column(a->reader, a->field_number, &column, error));
  j.field = *column;
  choose_stretches(&j);
  for (uint32_t k = 0; k < a->by_count && !j.subtile; k++) {
    TSR_TRY(tsr_reader_column(a->reader, a->by[k].dimension, &column, error));
    j.by[k] = *column;
  }
  TSR_TRY(choose_parts(a, batch, &j.parts, error));
  TSR_TRY(tsr__parallel_for(tsr__reader_threads(a->reader), j.parts, aggregate_add_part, &j, error));
  for (uint64_t part = 0; part < j.parts; part++) a->direct.outside |= j.outside[part];
  return TSR_OK;
}

/* ---- Fully selected tiles ---------------------------------------------------------------------------------------- */

/* Returns the keys of both ends of a sparse tile's MBR on a dimension. Of strings, `ends` and *sizes are set. */
static const uint64_t *ends_of(const tsr_aggregate *a, const tsr_whole_tile *tile, const aggregate_axis *by,
                               const uint8_t *ends[2], const uint64_t **sizes) {
  const tsr_rtree *rtree = a->snapshot->fragments[tile->fragment].fragment->metadata.rtree;
  const uint64_t at = (tile->tile * rtree->dimensions + by->dimension) * 2;
  const uint64_t *keys = rtree->keys[rtree->levels - 1] + at;
  *sizes = by->is_text ? rtree->sizes[rtree->levels - 1] + at : NULL;
  for (unsigned i = 0; by->is_text && i < 2; i++) ends[i] = rtree->text + keys[i];
  return keys;
}

/* Returns true if all cells of a tile belong to one group. */
static bool has_one_group(const tsr_aggregate *a, const tsr_whole_tile *tile) {
  for (uint32_t k = 0; k < a->by_count; k++) {
    const aggregate_axis *by = &a->by[k];
    const uint64_t *sizes, *keys;
    const uint8_t *ends[2];
    if (tile->low) {
      if (tile->low[by->dimension] != tile->high[by->dimension]) return false;
      continue;
    }
    if (tsr_datatype_kind(by->field->datatype) == TSR_KIND_FLOAT) return false; /* an MBR does not show NaN */
    keys = ends_of(a, tile, by, ends, &sizes);
    if (by->is_text ? tsr__bytes_compare(ends[0], sizes[0], ends[1], sizes[1]) != 0 : keys[0] != keys[1]) return false;
    if (a->direct.used && keys[0] - by->low >= by->extent) return false;
  }
  return true;
}

/* Finds the group of a tile whose cells all belong to one. */
static int find_tile_group(tsr_aggregate *a, const tsr_whole_tile *tile, uint32_t *group, tsr_error *error) {
  uint64_t tuple[TSR_BY_MAX], index = 0;
  for (uint32_t k = 0; k < a->by_count; k++) {
    aggregate_axis *by = &a->by[k];
    if (tile->low) {
      tuple[k] = a->snapshot->grid.low_key[by->dimension] + tile->low[by->dimension];
    } else {
      const uint64_t *sizes;
      const uint8_t *ends[2];
      tuple[k] = ends_of(a, tile, by, ends, &sizes)[0];
      if (by->is_text) TSR_TRY(number_text(a, by, ends[0], sizes[0], &tuple[k], error));
    }
    index += a->direct.used ? (tuple[k] - by->low) * by->stride : 0;
  }
  *group = (uint32_t)index;
  return a->direct.used ? TSR_OK : number_tuple(a, tuple, group, error);
}

/* Returns true if no sum of `count` integers between the minimum and maximum of `ends` can exceed 64 bits. */
static bool aggregate_sum_fits(tsr_physical_type type, uint64_t count, const tsr_sums *ends) {
  uint64_t greatest, product;
  if (type == TSR_PHYSICAL_U8 || type == TSR_PHYSICAL_U16 || type == TSR_PHYSICAL_U32 || type == TSR_PHYSICAL_U64)
    return tsr__mul(count, ends->max.u, &product);
  greatest = TSR_MAX(ends->max.i < 0 ? 0 - (uint64_t)ends->max.i : (uint64_t)ends->max.i,
                     ends->min.i < 0 ? 0 - (uint64_t)ends->min.i : (uint64_t)ends->min.i);
  return tsr__mul(count, greatest, &product) && product <= INT64_MAX;
}

/* Sets *known to the statistics of a tile. Returns 1; 0 if they cannot be used and the tile must be read. */
static int find_known(tsr_aggregate *a, const tsr_whole_tile *tile, tsr_sums *known, tsr_error *error) {
  const tsr_snapshot_fragment *f = &a->snapshot->fragments[tile->fragment];
  const tsr_fragment_metadata *m = &f->fragment->metadata;
  const int64_t slot = f->slots[a->field_number];
  tsr_system_column system_column;
  tsr_statistics s;
  tsr__sums_init(a->type, known);
  if (slot < 0) {
    known->nulls = tile->cells;
    return !a->field->is_dimension;
  }
  if (f->fragment->tiles) return 0; /* an uncommitted fragment, whose tiles are in memory, has no statistics */
  const int64_t number = tsr__fragment_slot_field(m, (uint32_t)slot, &system_column);
  if (number < m->schema->dimension_count || !tsr__statistics_believed(m, (uint32_t)number)) return 0;
  if (m->dense && tile->cells != a->snapshot->grid.tile_cells) return 0;
  const tsr_field *field = &m->schema->fields[number];
  TSR_TRY(tsr__statistics_load(a->snapshot->array, f->fragment, (uint32_t)slot, false, &s, error));
  if (!s.min || !s.max || !s.sums || s.value_size != field->cell_size || tile->tile >= s.count) return 0;
  if (field->nullable && (!s.null_counts || s.null_counts[tile->tile] > tile->cells)) return 0;
  const uint64_t nulls = field->nullable ? s.null_counts[tile->tile] : 0;
  const uint8_t *min = s.min + tile->tile * s.value_size, *max = s.max + tile->tile * s.value_size;
  known->nulls = nulls;
  if (nulls == tile->cells) return 1;
  if (tsr__key(field->datatype, min) > tsr__key(field->datatype, max)) return 0;
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT &&
      !tsr__statistics_plain(field, min, max, &s.sums[tile->tile]))
    return 0;
  tsr__sums_add_known(a->type, tile->cells - nulls, min, max, s.sums[tile->tile], known);
  return tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT || aggregate_sum_fits(a->type, known->count, known);
}

/* Adds a box of cells that were never written as nulls, the same number to each of its groups. Returns as
 * use_statistics. */
static int add_unwritten(tsr_aggregate *a, const tsr_whole_tile *tile, tsr_error *error) {
  uint64_t low[TSR_BY_MAX], high[TSR_BY_MAX], tuple[TSR_BY_MAX], each = tile->cells, done = 0;
  if (a->field->is_dimension) return 0; /* coordinates have values everywhere */
  if (tile->cells == UINT64_MAX) return tsr__fail(error, TSR_TOOBIG, "there are more cells than 64 bits can count");
  for (uint32_t k = 0; k < a->by_count; k++) {
    const uint32_t d = a->by[k].dimension;
    bool again = false; /* the dimension occurs in `by` twice */
    for (uint32_t i = 0; i < k; i++) again |= a->by[i].dimension == d;
    if (again) return 0;
    tuple[k] = low[k] = a->snapshot->grid.low_key[d] + tile->low[d];
    high[k] = a->snapshot->grid.low_key[d] + tile->high[d];
    each /= high[k] - low[k] + 1;
  }
  for (;;) {
    uint64_t index = 0;
    uint32_t group = 0, k = a->by_count;
    for (uint32_t i = 0; a->direct.used && i < a->by_count; i++) index += (tuple[i] - a->by[i].low) * a->by[i].stride;
    group = (uint32_t)index;
    if (!a->direct.used) TSR_TRY(number_tuple(a, tuple, &group, error));
    sums_of(a)[group].nulls += each;
    while (k > 0 && tuple[k - 1] == high[k - 1]) k--, tuple[k] = low[k];
    if (k == 0) break;
    tuple[k - 1]++;
    if (++done % UNWRITTEN_GROUPS == 0) TSR_TRY(tsr__cancelled(&a->snapshot->array->environment->memory, error));
  }
  tsr_work_done(a->snapshot->array->environment, tile->cells);
  return 1;
}

/* Called by the reader for each fully selected tile. Returns 1: the tile is counted, do not read it; 0: read it; < 0:
 * error. */
static int use_statistics(void *argument, const tsr_whole_tile *tile, tsr_error *error) {
  tsr_aggregate *a = argument;
  tsr_sums known;
  uint32_t group = 0;
  if (tile->fragment == TSR_NO_FRAGMENT) return add_unwritten(a, tile, error);
  if (!has_one_group(a, tile)) return 0;
  const int rc = find_known(a, tile, &known, error);
  if (rc <= 0) return rc;
  tsr__count(a->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
  if (a->by_count > 0) TSR_TRY(find_tile_group(a, tile, &group, error));
  tsr__sums_merge(a->type, &sums_of(a)[group], &known);
  tsr_work_done(a->snapshot->array->environment, tile->cells);
  return 1;
}

/* ---- The request ------------------------------------------------------------------------------------------------- */

static bool is_numbers(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return field->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

/* Finds the range of keys that cells of the started reader can have on a dimension. */
static void find_range(const tsr_aggregate *a, uint32_t d, uint64_t *low, uint64_t *high) {
  const tsr_snapshot *snapshot = a->snapshot;
  const tsr_plan *plan = &a->reader->plan;
  if (snapshot->schema->dense) {
    const tsr_dimension_selection *selected = &plan->selections[d];
    *low = snapshot->grid.low_key[d] + selected->spans[0].low;
    *high = snapshot->grid.low_key[d] + selected->spans[selected->count - 1].high;
    return;
  }
  *low = tsr__key(snapshot->schema->fields[d].datatype, snapshot->domain.intervals[d].low);
  *high = tsr__key(snapshot->schema->fields[d].datatype, snapshot->domain.intervals[d].high);
  if (plan->spans[d].all) return;
  *low = TSR_MAX(*low, plan->spans[d].spans[0].low);
  *high = TSR_MIN(*high, plan->spans[d].spans[plan->spans[d].count - 1].high);
}

/* Returns true if a table of all combinations, *groups, is small enough. Sets the axes' low, extent and stride. */
static bool choose_direct(tsr_aggregate *a, uint64_t *groups) {
  *groups = 1;
  if (a->by_count == 0) return true;
  if (a->reader->plan.empty || a->reader->plan.lossy || !a->snapshot->domain.exists) return false;
  if (a->snapshot->schema->dense && !a->reader->plan.selections)
    return false; /* read_point.c reads a single cell without a plan */
  for (uint32_t k = a->by_count; k-- > 0;) {
    aggregate_axis *by = &a->by[k];
    uint64_t high;
    if (by->is_text || tsr_datatype_kind(by->field->datatype) == TSR_KIND_FLOAT) return false;
    find_range(a, by->dimension, &by->low, &high);
    if (high < by->low) return false;
    by->extent = tsr__add_sat(high - by->low, 1);
    by->stride = *groups;
    *groups = tsr__mul_sat(*groups, by->extent);
  }
  return *groups <= DIRECT_ALWAYS || (*groups <= DIRECT_MAX && *groups <= tsr__reader_cells(a->reader) &&
                                      *groups * sizeof(tsr_sums) <= a->memory.limit / 4);
}

static void aggregate_clear(tsr_aggregate *a) {
  for (uint32_t k = 0; k < TSR_BY_MAX; k++) {
    tsr__free(a->by[k].numbers.slots);
    a->by[k].numbers = (aggregate_numbering){0};
    a->by[k].texts.size = a->by[k].text_count = 0;
  }
  tsr__free(a->hashed.numbers.slots);
  a->hashed.numbers = (aggregate_numbering){0};
  a->sums.size = a->hashed.tuples.size = a->group_count = 0;
  memset(a->direct.tables, 0, sizeof a->direct.tables);
  tsr__arena_reset(&a->arena);
  a->hashed.last = NO_GROUP;
  a->direct.outside = false;
}

static int aggregate_make_table(tsr_aggregate *a, uint64_t groups, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&a->sums, groups * sizeof(tsr_sums), error));
  for (uint64_t g = 0; g < groups; g++) tsr__sums_init(a->type, &sums_of(a)[g]);
  a->sums.size = groups * sizeof(tsr_sums);
  a->group_count = groups;
  return TSR_OK;
}

/* Reads the request once and fills the sums. `statistics` and `direct` say what may be used. */
static int read_once(tsr_aggregate *a, const tsr_aggregate_request *request, const bool *fields, bool statistics,
                     bool direct, tsr_error *error) {
  const tsr_request reading = {.dimensions = request->dimensions,
                               .fields = fields,
                               .memory_bytes = a->memory.limit,
                               .threads = request->threads};
  const tsr_batch *batch;
  uint64_t groups;
  int rc;
  aggregate_clear(a);
  a->reader->shortcut.take = statistics ? use_statistics : NULL;
  a->reader->shortcut.argument = a;
  TSR_TRY(tsr_reader_start(a->reader, &reading, error));
  a->direct.used = choose_direct(a, &groups) && (direct || a->by_count == 0);
  if (a->direct.used) TSR_TRY(aggregate_make_table(a, groups, error));
  tsr__work_more(a->snapshot->array->environment, tsr__reader_cells(a->reader));
  while ((rc = tsr_reader_next(a->reader, &batch, error)) > 0 && !a->direct.outside) {
    TSR_TRY(aggregate_add_batch(a, batch, error));
    tsr_work_done(a->snapshot->array->environment, batch->count);
  }
  for (uint32_t part = 1; rc >= 0 && part < AGGREGATE_THREADS_MAX; part++)
    for (uint64_t g = 0; a->direct.tables[part] && g < a->group_count; g++)
      tsr__sums_merge(a->type, &sums_of(a)[g], &a->direct.tables[part][g]);
  return rc;
}

/* Returns true if rounding errors of stored sums may show in a result. */
static bool aggregate_is_doubtful(const tsr_aggregate *a) {
  for (uint64_t g = 0; g < a->group_count; g++) {
    const tsr_sums *sums = &sums_of(a)[g];
    const double sum = sums->doubt > 0 ? tsr__sums_real(a->type, sums) : 0;
    if (sums->doubt > 0 && !(sums->doubt <= DOUBT_MAX * (sum < 0 ? -sum : sum))) return true;
  }
  return false;
}

static int aggregate_compare(const tsr_aggregate *a, uint32_t x, uint32_t y) {
  const uint64_t *p = tuple_at(a, x), *q = tuple_at(a, y);
  for (uint32_t k = 0; k < a->by_count; k++) {
    if (p[k] == q[k]) continue;
    if (!a->by[k].is_text) return p[k] < q[k] ? -1 : 1;
    const text *s = aggregate_text_at(&a->by[k], p[k]), *t = aggregate_text_at(&a->by[k], q[k]);
    return tsr__bytes_compare(s->bytes, s->size, t->bytes, t->size);
  }
  return 0;
}

/* Sorts groups by their keys: a stable merge sort, bottom up. */
static void aggregate_sort(const tsr_aggregate *a, uint32_t *rows, uint32_t *room, uint64_t count) {
  uint32_t *from = rows, *to = room;
  for (uint64_t width = 1; width < count; width *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * width) {
      const uint64_t middle = TSR_MIN(start + width, count), end = TSR_MIN(middle + width, count);
      uint64_t i = start, k = middle, n = start;
      while (i < middle && k < end) to[n++] = aggregate_compare(a, from[i], from[k]) <= 0 ? from[i++] : from[k++];
      while (i < middle) to[n++] = from[i++];
      while (k < end) to[n++] = from[k++];
    }
    uint32_t *other = from;
    from = to;
    to = other;
  }
  if (from != rows) memcpy(rows, from, count * sizeof *rows);
}

/* Lists the groups that have cells, in the order of their keys. Direct groups have that order already. */
static int list_rows(tsr_aggregate *a, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(&a->arena, tsr__mul_sat(2, a->group_count), &a->result.rows, error));
  a->result.count = 0;
  for (uint64_t g = 0; g < a->group_count; g++)
    if (a->by_count == 0 || sums_of(a)[g].count + sums_of(a)[g].nulls > 0)
      a->result.rows[a->result.count++] = (uint32_t)g;
  if (!a->direct.used) aggregate_sort(a, a->result.rows, a->result.rows + a->group_count, a->result.count);
  return TSR_OK;
}

static int choose_fields(tsr_aggregate *a, const tsr_aggregate_request *request, bool **fields, tsr_error *error) {
  const tsr_schema *schema = a->snapshot->schema;
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  if (request->field >= n || !is_numbers(&schema->fields[request->field]))
    return tsr__fail(error, TSR_ERROR, "field %u cannot be summed", request->field);
  a->field_number = request->field;
  a->field = &schema->fields[request->field];
  a->type = tsr__datatype_physical(a->field->datatype);
  a->by_count = request->by_count;
  TSR_TRY(TSR_ALLOC_ARRAY(&a->memory, n, fields, error));
  (*fields)[request->field] = true;
  for (uint32_t k = 0; k < request->by_count; k++) {
    const uint32_t d = request->by[k];
    if (d >= schema->dimension_count) return tsr__fail(error, TSR_ERROR, "field %u is not a dimension", d);
    a->by[k].dimension = d;
    a->by[k].field = &schema->fields[d];
    a->by[k].is_text = schema->fields[d].values_per_cell == TSR_VARIABLE;
    (*fields)[d] = true;
  }
  return TSR_OK;
}

static int aggregate_run(tsr_aggregate *a, const tsr_aggregate_request *request, tsr_error *error) {
  bool *fields = NULL, statistics = !request->read_all, direct = true, done = false;
  if (request->by_count > TSR_BY_MAX)
    return tsr__fail(error, TSR_ERROR, "groups by %u dimensions: at most %u are possible", request->by_count,
                     TSR_BY_MAX);
  int rc = choose_fields(a, request, &fields, error);
  if (rc >= 0) rc = tsr_reader_open(a->snapshot, &a->reader, error);
  while (rc >= 0 && !done) {
    rc = read_once(a, request, fields, statistics, direct, error);
    if (rc >= 0 && a->direct.outside) direct = false;
    else if (rc >= 0 && statistics && aggregate_is_doubtful(a)) statistics = false;
    else done = true;
  }
  tsr_reader_close(a->reader);
  a->reader = NULL;
  tsr__free(fields);
  return rc < 0 ? rc : list_rows(a, error);
}

int tsr_aggregate_open(tsr_snapshot *snapshot, const tsr_aggregate_request *request, tsr_aggregate **aggregate,
                       tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_aggregate *a;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &a, error));
  const uint64_t budget = request->memory_bytes ? request->memory_bytes : UINT64_C(1) << 30;
  a->snapshot = snapshot;
  tsr__snapshot_hold(snapshot);
  tsr__memory_init(&a->memory, &snapshot->array->memory, budget / 2, "memory_mb"); /* the reader has the other half */
  tsr__arena_init(&a->arena, &a->memory);
  a->sums.memory = a->hashed.tuples.memory = &a->memory;
  for (uint32_t k = 0; k < TSR_BY_MAX; k++) a->by[k].texts.memory = &a->memory;
  tsr_work work;
  tsr_work_begin(snapshot->array->environment, &work, "aggregate", snapshot->array->path, 0);
  const int rc = aggregate_run(a, request, error);
  tsr_work_end(snapshot->array->environment, &work);
  if (rc < 0) {
    tsr_aggregate_close(a);
    return rc;
  }
  *aggregate = a;
  return TSR_OK;
}

void tsr_aggregate_close(tsr_aggregate *aggregate) {
  if (!aggregate) return;
  tsr_snapshot *snapshot = aggregate->snapshot;
  aggregate_clear(aggregate);
  for (uint32_t k = 0; k < TSR_BY_MAX; k++) tsr__buffer_release(&aggregate->by[k].texts);
  tsr__buffer_release(&aggregate->sums);
  tsr__buffer_release(&aggregate->hashed.tuples);
  tsr__arena_release(&aggregate->arena);
  tsr__free(aggregate);
  tsr_snapshot_close(snapshot);
}

uint64_t tsr_aggregate_count(const tsr_aggregate *aggregate) { return aggregate->result.count; }

/* Writes a minimum or maximum in the field's datatype. */
static void aggregate_set_end(const tsr_aggregate *a, uint64_t bits, uint8_t out[8]) {
  double value;
  memcpy(&value, &bits, sizeof value);
  const float narrow = (float)value;
  if (a->type == TSR_PHYSICAL_F32) memcpy(out, &narrow, sizeof narrow);
  else memcpy(out, &bits, tsr_datatype_size(a->field->datatype));
}

void tsr_aggregate_get(tsr_aggregate *aggregate, uint64_t index, tsr_aggregate_row *row) {
  tsr_aggregate *a = aggregate;
  const uint32_t group = a->result.rows[index];
  const tsr_sums *sums = &sums_of(a)[group];
  *row = (tsr_aggregate_row){.count = sums->count, .nulls = sums->nulls};
  row->real_sum = tsr__sums_real(a->type, sums);
  if (tsr_datatype_kind(a->field->datatype) != TSR_KIND_FLOAT) {
    const uint64_t *sum = sums->sum.integer;
    row->fits = sum[1] == (sum[0] >> 63 ? UINT64_MAX : 0);
    row->sum = row->fits ? (int64_t)sum[0] : 0;
  }
  if (sums->count > 0) {
    aggregate_set_end(a, sums->min.u, row->min);
    aggregate_set_end(a, sums->max.u, row->max);
  }
  for (uint32_t k = 0; k < a->by_count; k++) {
    const aggregate_axis *by = &a->by[k];
    const uint64_t key = a->direct.used ? by->low + group / by->stride % by->extent : tuple_at(a, group)[k];
    row->keys[k] = a->result.keys[k];
    row->key_sizes[k] = by->field->cell_size;
    if (by->is_text) {
      row->keys[k] = aggregate_text_at(by, key)->bytes;
      row->key_sizes[k] = aggregate_text_at(by, key)->size;
    } else {
      tsr__key_value(by->field->datatype, key, a->result.keys[k]);
    }
  }
}
