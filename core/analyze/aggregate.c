/* aggregate.c: count, sum, minimum and maximum over a box, by the values of dimensions.
 *
 * A reader gives batches; whole tiles of one group are answered from their statistics instead, where these can be
 * believed (predicate.c) and say what the cells would:
 * - integers: the sum only where it cannot have stuck at the limit of 64 bits
 * - floats: the stored sum is a plain one. The greatest error that is likely is added up, and where it shows in a result,
 *   all is read again without statistics
 * - dense tiles: only those without padding. Versions below 16 counted its zeros, and where TileDB consolidated, any
 *   version counts the fill values around the box
 *
 * Groups are found in one of two ways. Where the values of the dimensions in `by` span few combinations, a cell's group
 * is its place among them (direct), and each thread has a table of its own. Else groups are numbered as they come: a hash
 * table of their keys, strings first numbered themselves.
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
#define RUN_MIN               16u /* cells of one group, one after the other in each tile, that are worth to be added by themselves */
#define AGGREGATE_PART_CELLS  16384u /* of a batch, that are worth a thread */
#define AGGREGATE_THREADS_MAX 16u
#define DIRECT_ALWAYS         65536u /* combinations; more only where there are as many cells ... */
#define DIRECT_MAX            (UINT64_C(1) << 22) /* ... and never more than these */
#define SHARED_FROM           65536u /* groups: threads have no tables of their own */
#define DOUBT_MAX             1e-10 /* of a sum */
#define UNWRITTEN_GROUPS      65536u /* between two questions whether to stop */
#define NO_GROUP              UINT32_MAX

typedef struct text { /* a value of a string dimension */
  const uint8_t *bytes;
  uint64_t size;
} text;

typedef struct aggregate_numbering { /* hash table: things -> 0, 1, ... as they come */
  uint32_t *slots; /* number, or NO_GROUP */
  uint64_t slot_count; /* a power of two */
} aggregate_numbering;

typedef struct aggregate_axis { /* a dimension in `by` */
  uint32_t dimension;
  const tsr_field *field;
  bool is_text;
  uint64_t low, extent, stride; /* direct: keys low..low+extent-1 */
  uint64_t text_count;
  tsr_buffer texts; /* text */
  aggregate_numbering numbers;
} aggregate_axis;

struct tsr_aggregate {
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  tsr_memory memory;
  tsr_arena arena;
  const tsr_field *field;
  uint32_t field_number;
  tsr_physical_type machine;
  uint32_t by_count;
  aggregate_axis by[TSR_BY_MAX];
  bool direct;
  bool outside; /* direct: a cell lay outside of what its fragment says it has */
  uint64_t group_count;
  tsr_buffer sums; /* tsr_sums */
  tsr_sums *tables[AGGREGATE_THREADS_MAX]; /* direct: of the threads but the first, NULL until one is needed */
  tsr_buffer tuples; /* by_count keys for each group, where not direct */
  aggregate_numbering numbers;
  uint32_t last; /* the group that was found last */
  uint64_t row_count;
  uint32_t *rows; /* groups, in order */
  uint8_t keys[TSR_BY_MAX][8]; /* of the row that was asked for */
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
  return (const uint64_t *)(const void *)a->tuples.data + group * a->by_count;
}

static uint64_t aggregate_hash_of(const tsr_aggregate *a, const aggregate_axis *by, uint64_t number) {
  if (!by) return hash_tuple(tuple_at(a, number), a->by_count);
  return hash_text(aggregate_text_at(by, number)->bytes, aggregate_text_at(by, number)->size);
}

/* Room for one more of `count`: at most half of the slots are taken. Of strings, or (by NULL) of groups. */
static int aggregate_make_room(tsr_aggregate *a, const aggregate_axis *by, aggregate_numbering *n, uint64_t count,
                               tsr_error *error) {
  if (count >= NO_GROUP) return tsr__fail(error, TSR_TOOBIG, "more than %u groups", NO_GROUP);
  if (2 * (count + 1) <= n->slot_count) return TSR_OK;
  const uint64_t slots = TSR_MAX(64, 2 * n->slot_count);
  void *memory;
  TSR_TRY(tsr__alloc(&a->memory, slots * sizeof(uint32_t), &memory, error));
  uint32_t *made = memory;
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

static int number_text(tsr_aggregate *a, aggregate_axis *by, const uint8_t *bytes, uint64_t size, uint64_t *number,
                       tsr_error *error) {
  TSR_TRY(aggregate_make_room(a, by, &by->numbers, by->text_count, error));
  uint64_t at = hash_text(bytes, size) & (by->numbers.slot_count - 1);
  for (; by->numbers.slots[at] != NO_GROUP; at = (at + 1) & (by->numbers.slot_count - 1)) {
    *number = by->numbers.slots[at];
    const text *t = aggregate_text_at(by, *number);
    if (t->size == size && (size == 0 || memcmp(t->bytes, bytes, size) == 0)) return TSR_OK;
  }
  void *copy;
  TSR_TRY(tsr__arena_copy(&a->arena, bytes, size, &copy, error));
  const text made = {.bytes = copy, .size = size};
  TSR_TRY(tsr__buffer_append(&by->texts, &made, sizeof made, error));
  by->numbers.slots[at] = (uint32_t)by->text_count;
  *number = by->text_count++;
  return TSR_OK;
}

static int number_tuple(tsr_aggregate *a, const uint64_t *keys, uint32_t *group, tsr_error *error) {
  const uint64_t size = a->by_count * sizeof(uint64_t);
  if (a->last != NO_GROUP && memcmp(tuple_at(a, a->last), keys, size) == 0) {
    *group = a->last;
    return TSR_OK;
  }
  TSR_TRY(aggregate_make_room(a, NULL, &a->numbers, a->group_count, error));
  uint64_t at = hash_tuple(keys, a->by_count) & (a->numbers.slot_count - 1);
  for (; a->numbers.slots[at] != NO_GROUP; at = (at + 1) & (a->numbers.slot_count - 1)) {
    *group = a->numbers.slots[at];
    if (memcmp(tuple_at(a, *group), keys, size) == 0) {
      a->last = *group;
      return TSR_OK;
    }
  }
  tsr_sums sums;
  tsr__sums_init(a->machine, &sums);
  TSR_TRY(tsr__buffer_append(&a->tuples, keys, size, error));
  TSR_TRY(tsr__buffer_append(&a->sums, &sums, sizeof sums, error));
  a->numbers.slots[at] = (uint32_t)a->group_count;
  *group = a->last = (uint32_t)a->group_count++;
  return TSR_OK;
}

/* ---- Cells of a batch -------------------------------------------------------------------------------------------- */

typedef struct aggregate_job {
  tsr_aggregate *aggregate;
  const tsr_batch *batch;
  const tsr_subtile *subtile; /* consecutive cells of a dense tile: their places say the groups, in runs; else NULL */
  uint64_t run;
  tsr_column field, by[TSR_BY_MAX];
  uint64_t parts;
  bool outside[AGGREGATE_THREADS_MAX];
} aggregate_job;

/* The keys of rows from..from+count-1 on an axis with numbers. */
static void find_keys(const aggregate_job *j, uint32_t k, uint64_t from, uint64_t count, uint64_t *keys) {
  tsr__batch_keys(j->batch, &j->by[k], j->aggregate->by[k].field->datatype, from, count, keys);
}

/* False: a cell lies outside of the table. */
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

/* Rows from..from+count-1 of the batch; a column of one value is spread out in `room`, 8 bytes for each row. */
static tsr_cells aggregate_cells_of(const aggregate_job *j, uint64_t from, uint64_t count, uint8_t *room) {
  const tsr_column *column = &j->field;
  tsr_cells cells = {.machine = j->aggregate->machine, .values = column->values, .validity = column->validity};
  cells.count = count;
  if (column->constant) {
    for (uint64_t r = 0; r < count; r++) memcpy(room + r * column->cell_size, column->values, column->cell_size);
    cells.values = room;
    cells.validity = NULL; /* of one value, null is looked for before */
  } else if (j->batch->selection) {
    cells.selection = j->batch->selection + from;
  } else {
    cells.values += (j->batch->first + from) * column->cell_size;
    if (cells.validity) cells.validity += j->batch->first + from;
  }
  return cells;
}

static void shift(tsr_cells *cells, uint64_t by, uint64_t size) {
  if (cells->selection) {
    cells->selection += by;
    return;
  }
  cells->values += by * size;
  if (cells->validity) cells->validity += by;
}

/* Runs of one group go through the faster loops. */
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
    shift(&cells, end - r, size);
  }
}

/* The axis of its tile along which the batch's cells have the values of by[k]. */
static const tsr_axis *axis_of(const aggregate_job *j, uint32_t k) {
  const uint32_t d = j->aggregate->by[k].dimension;
  return &j->subtile->axes[j->aggregate->snapshot->grid.col_major_cells ? j->subtile->dimensions - 1 - d : d];
}

/* Cells of dense tiles lie in runs of one group, without that anybody looks at coordinates. */
static void choose_runs(aggregate_job *j) {
  tsr_batch_iterator *iterator = j->aggregate->reader->iterator;
  if (!j->aggregate->direct || j->aggregate->by_count == 0 || j->batch->selection || !iterator->subtile) return;
  j->subtile = iterator->subtile(iterator);
  if (!j->subtile) return;
  j->run = UINT64_MAX;
  for (uint32_t k = 0; k < j->aggregate->by_count; k++) j->run = TSR_MIN(j->run, axis_of(j, k)->stride);
  if (j->run < RUN_MIN) j->subtile = NULL;
}

static uint64_t group_at(const aggregate_job *j, uint64_t place) {
  const tsr_aggregate *a = j->aggregate;
  uint64_t group = 0;
  for (uint32_t k = 0; k < a->by_count; k++) {
    const tsr_axis *own = axis_of(j, k);
    const uint64_t low = a->by[k].low - a->snapshot->grid.low_key[a->by[k].dimension];
    group += (own->base + place / own->stride % own->extent - low) * a->by[k].stride;
  }
  return group;
}

/* Is all of the column null, because it is one null or was never written? */
static bool aggregate_is_null(const tsr_column *column) {
  return column->constant && (column->unwritten || (column->validity && !column->validity[0]));
}

static void add_runs(const aggregate_job *j, uint64_t from, uint64_t end, tsr_sums *table) {
  uint8_t room[AGGREGATE_BLOCK * sizeof(uint64_t)];
  for (uint64_t n; from < end; from += n) {
    const uint64_t place = j->subtile->origin + j->batch->first + from;
    tsr_sums *sums = &table[group_at(j, place)];
    n = TSR_MIN(TSR_MIN(end - from, j->run - place % j->run), j->field.constant ? AGGREGATE_BLOCK : TSR_SUMS_CELLS);
    const tsr_cells cells = aggregate_cells_of(j, from, n, room);
    if (aggregate_is_null(&j->field)) sums->nulls += n;
    else tsr__sums_add(&cells, sums);
  }
}

static int aggregate_add_part(void *argument, uint64_t part, tsr_error *error) {
  aggregate_job *j = argument;
  tsr_aggregate *a = j->aggregate;
  const bool null = aggregate_is_null(&j->field);
  const uint64_t end = j->batch->count * (part + 1) / j->parts;
  uint32_t groups[AGGREGATE_BLOCK];
  uint8_t room[AGGREGATE_BLOCK * sizeof(uint64_t)];
  if (j->subtile) {
    add_runs(j, j->batch->count * part / j->parts, end, part == 0 ? sums_of(a) : a->tables[part]);
    return TSR_OK;
  }
  for (uint64_t n, from = j->batch->count * part / j->parts; from < end; from += n) {
    n = TSR_MIN(end - from, j->field.constant || a->by_count > 0 ? AGGREGATE_BLOCK : TSR_SUMS_CELLS);
    if (a->by_count > 0 && a->direct && !find_direct(j, from, n, groups)) {
      j->outside[part] = true;
      return TSR_OK;
    }
    if (a->by_count > 0 && !a->direct) TSR_TRY(find_hashed(j, from, n, groups, error));
    tsr_sums *sums = part == 0 ? sums_of(a) : a->tables[part]; /* hashed groups may have moved */
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

/* How many threads share the batch; each but the first gets a table. */
static int choose_parts(tsr_aggregate *a, const tsr_batch *batch, uint64_t *parts, tsr_error *error) {
  *parts = 1;
  if (!a->direct || a->group_count > SHARED_FROM) return TSR_OK;
  *parts = TSR_MAX(1, TSR_MIN(TSR_MIN(a->reader->threads, AGGREGATE_THREADS_MAX), batch->count / AGGREGATE_PART_CELLS));
  for (uint64_t part = 1; part < *parts; part++) {
    void *memory;
    if (a->tables[part]) continue;
    TSR_TRY(tsr__arena_array(&a->arena, a->group_count, sizeof(tsr_sums), &memory, error));
    a->tables[part] = memory;
    for (uint64_t g = 0; g < a->group_count; g++) tsr__sums_init(a->machine, &a->tables[part][g]);
  }
  return TSR_OK;
}

static int aggregate_add_batch(tsr_aggregate *a, const tsr_batch *batch, tsr_error *error) {
  const tsr_column *column;
  aggregate_job j = {.aggregate = a, .batch = batch};
  TSR_TRY(tsr_reader_column(a->reader, a->field_number, &column, error));
  j.field = *column;
  choose_runs(&j);
  for (uint32_t k = 0; k < a->by_count && !j.subtile; k++) {
    TSR_TRY(tsr_reader_column(a->reader, a->by[k].dimension, &column, error));
    j.by[k] = *column;
  }
  TSR_TRY(choose_parts(a, batch, &j.parts, error));
  TSR_TRY(tsr__parallel_for(tsr__reader_threads(a->reader), j.parts, aggregate_add_part, &j, error));
  for (uint64_t part = 0; part < j.parts; part++) a->outside |= j.outside[part];
  return TSR_OK;
}

/* ---- Whole tiles ------------------------------------------------------------------------------------------------- */

/* The two ends of a sparse tile's box on an axis; of strings, where their bytes lie. */
static const uint64_t *ends_of(const tsr_aggregate *a, const tsr_whole_tile *whole, const aggregate_axis *by,
                               const uint8_t *ends[2], const uint64_t **sizes) {
  const tsr_rtree *rtree = a->snapshot->fragments[whole->fragment].fragment->metadata.rtree;
  const uint64_t at = (whole->tile * rtree->dimensions + by->dimension) * 2;
  const uint64_t *keys = rtree->keys[rtree->levels - 1] + at;
  *sizes = by->is_text ? rtree->sizes[rtree->levels - 1] + at : NULL;
  for (unsigned i = 0; by->is_text && i < 2; i++) ends[i] = rtree->text + keys[i];
  return keys;
}

/* Do all cells of a whole tile belong to one group? */
static bool has_one_group(const tsr_aggregate *a, const tsr_whole_tile *whole) {
  for (uint32_t k = 0; k < a->by_count; k++) {
    const aggregate_axis *by = &a->by[k];
    const uint64_t *sizes, *keys;
    const uint8_t *ends[2];
    if (whole->low) {
      if (whole->low[by->dimension] != whole->high[by->dimension]) return false;
      continue;
    }
    if (tsr_datatype_kind(by->field->datatype) == TSR_KIND_FLOAT) return false; /* a box may hide NaN */
    keys = ends_of(a, whole, by, ends, &sizes);
    if (by->is_text ? tsr__bytes_compare(ends[0], sizes[0], ends[1], sizes[1]) != 0 : keys[0] != keys[1]) return false;
    if (a->direct && keys[0] - by->low >= by->extent) return false;
  }
  return true;
}

static int find_whole_group(tsr_aggregate *a, const tsr_whole_tile *whole, uint32_t *group, tsr_error *error) {
  uint64_t tuple[TSR_BY_MAX], index = 0;
  for (uint32_t k = 0; k < a->by_count; k++) {
    aggregate_axis *by = &a->by[k];
    if (whole->low) {
      tuple[k] = a->snapshot->grid.low_key[by->dimension] + whole->low[by->dimension];
    } else {
      const uint64_t *sizes;
      const uint8_t *ends[2];
      tuple[k] = ends_of(a, whole, by, ends, &sizes)[0];
      if (by->is_text) TSR_TRY(number_text(a, by, ends[0], sizes[0], &tuple[k], error));
    }
    index += a->direct ? (tuple[k] - by->low) * by->stride : 0;
  }
  *group = (uint32_t)index;
  return a->direct ? TSR_OK : number_tuple(a, tuple, group, error);
}

/* Can the sum of so many integers between these not have stuck at the limit? */
static bool aggregate_sum_fits(tsr_physical_type machine, uint64_t count, const tsr_sums *ends) {
  uint64_t most, product;
  if (machine == TSR_PHYSICAL_U8 || machine == TSR_PHYSICAL_U16 || machine == TSR_PHYSICAL_U32 ||
      machine == TSR_PHYSICAL_U64)
    return tsr__mul(count, ends->max.u, &product);
  most = TSR_MAX(ends->max.i < 0 ? 0 - (uint64_t)ends->max.i : (uint64_t)ends->max.i,
                 ends->min.i < 0 ? 0 - (uint64_t)ends->min.i : (uint64_t)ends->min.i);
  return tsr__mul(count, most, &product) && product <= INT64_MAX;
}

/* Statistics of the tile that say what its cells would: `known` and 1, or 0. */
static int find_known(tsr_aggregate *a, const tsr_whole_tile *whole, tsr_sums *known, tsr_error *error) {
  const tsr_snapshot_fragment *f = &a->snapshot->fragments[whole->fragment];
  const tsr_fragment_metadata *m = &f->fragment->metadata;
  const int64_t slot = f->slots[a->field_number];
  tsr_system_column system_column;
  tsr_statistics s;
  tsr__sums_init(a->machine, known);
  if (slot < 0) {
    known->nulls = whole->cells;
    return !a->field->is_dimension;
  }
  if (f->fragment->tiles) return 0; /* cells that have not been written yet have no statistics */
  const int64_t number = tsr__fragment_slot_field(m, (uint32_t)slot, &system_column);
  if (number < m->schema->dimension_count || !tsr__statistics_believed(m, (uint32_t)number)) return 0;
  if (m->dense && whole->cells != a->snapshot->grid.tile_cells) return 0;
  const tsr_field *field = &m->schema->fields[number];
  TSR_TRY(tsr__statistics_load(a->snapshot->array, f->fragment, (uint32_t)slot, false, &s, error));
  if (!s.min || !s.max || !s.sums || s.value_size != field->cell_size || whole->tile >= s.count) return 0;
  if (field->nullable && (!s.null_counts || s.null_counts[whole->tile] > whole->cells)) return 0;
  const uint64_t nulls = field->nullable ? s.null_counts[whole->tile] : 0;
  const uint8_t *min = s.min + whole->tile * s.value_size, *max = s.max + whole->tile * s.value_size;
  known->nulls = nulls;
  if (nulls == whole->cells) return 1;
  if (tsr__key(field->datatype, min) > tsr__key(field->datatype, max)) return 0;
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT &&
      !tsr__statistics_plain(field, min, max, &s.sums[whole->tile]))
    return 0;
  tsr__sums_add_known(a->machine, whole->cells - nulls, min, max, s.sums[whole->tile], known);
  return tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT || aggregate_sum_fits(a->machine, known->count, known);
}

/* A box of cells that were never written: as many nulls for each of its groups. */
static int take_unwritten(tsr_aggregate *a, const tsr_whole_tile *whole, tsr_error *error) {
  uint64_t low[TSR_BY_MAX], high[TSR_BY_MAX], tuple[TSR_BY_MAX], each = whole->cells, done = 0;
  if (a->field->is_dimension) return 0; /* which has values there */
  if (whole->cells == UINT64_MAX) return tsr__fail(error, TSR_TOOBIG, "there are more cells than 64 bits can count");
  for (uint32_t k = 0; k < a->by_count; k++) {
    const uint32_t d = a->by[k].dimension;
    bool again = false; /* a dimension may be named twice */
    for (uint32_t i = 0; i < k; i++) again |= a->by[i].dimension == d;
    if (again) return 0;
    tuple[k] = low[k] = a->snapshot->grid.low_key[d] + whole->low[d];
    high[k] = a->snapshot->grid.low_key[d] + whole->high[d];
    each /= high[k] - low[k] + 1;
  }
  for (;;) {
    uint64_t index = 0;
    uint32_t group = 0, k = a->by_count;
    for (uint32_t i = 0; a->direct && i < a->by_count; i++) index += (tuple[i] - a->by[i].low) * a->by[i].stride;
    group = (uint32_t)index;
    if (!a->direct) TSR_TRY(number_tuple(a, tuple, &group, error));
    sums_of(a)[group].nulls += each;
    while (k > 0 && tuple[k - 1] == high[k - 1]) k--, tuple[k] = low[k];
    if (k == 0) break;
    tuple[k - 1]++;
    if (++done % UNWRITTEN_GROUPS == 0) TSR_TRY(tsr__environment_cancelled(a->snapshot->array->environment, error));
  }
  tsr_work_done(a->snapshot->array->environment, whole->cells);
  return 1;
}

static int take_whole(void *argument, const tsr_whole_tile *whole, tsr_error *error) {
  tsr_aggregate *a = argument;
  tsr_sums known;
  uint32_t group = 0;
  if (whole->fragment == TSR_NO_FRAGMENT) return take_unwritten(a, whole, error);
  if (!has_one_group(a, whole)) return 0;
  const int rc = find_known(a, whole, &known, error);
  if (rc <= 0) return rc;
  tsr__count(a->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
  if (a->by_count > 0) TSR_TRY(find_whole_group(a, whole, &group, error));
  tsr__sums_merge(a->machine, &sums_of(a)[group], &known);
  tsr_work_done(a->snapshot->array->environment, whole->cells);
  return 1;
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

static bool is_numbers(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return field->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

/* The keys that cells of the started reader can have on a dimension. */
static void find_range(const tsr_aggregate *a, uint32_t d, uint64_t *low, uint64_t *high) {
  const tsr_snapshot *snapshot = a->snapshot;
  const tsr_plan *plan = &a->reader->plan;
  if (snapshot->schema->dense) {
    const tsr_dimension_selection *selected = &plan->selections[d];
    *low = snapshot->grid.low_key[d] + selected->spans[0].low;
    *high = snapshot->grid.low_key[d] + selected->spans[selected->count - 1].high;
    return;
  }
  *low = tsr__key(snapshot->schema->fields[d].datatype, snapshot->non_empty_domain[d].low);
  *high = tsr__key(snapshot->schema->fields[d].datatype, snapshot->non_empty_domain[d].high);
  if (plan->spans[d].all) return;
  *low = TSR_MAX(*low, plan->spans[d].spans[0].low);
  *high = TSR_MIN(*high, plan->spans[d].spans[plan->spans[d].count - 1].high);
}

/* Is a table of all combinations small enough? */
static bool choose_direct(tsr_aggregate *a, uint64_t *groups) {
  *groups = 1;
  if (a->by_count == 0) return true;
  if (a->reader->plan.empty || a->reader->plan.lossy || !a->snapshot->has_domain) return false;
  if (a->snapshot->schema->dense && !a->reader->plan.selections) return false; /* a single cell: read_point.c */
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
  tsr__free(a->numbers.slots);
  a->numbers = (aggregate_numbering){0};
  a->sums.size = a->tuples.size = a->group_count = 0;
  memset(a->tables, 0, sizeof a->tables);
  tsr__arena_reset(&a->arena);
  a->last = NO_GROUP;
  a->outside = false;
}

static int aggregate_make_table(tsr_aggregate *a, uint64_t groups, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&a->sums, groups * sizeof(tsr_sums), error));
  for (uint64_t g = 0; g < groups; g++) tsr__sums_init(a->machine, &sums_of(a)[g]);
  a->sums.size = groups * sizeof(tsr_sums);
  a->group_count = groups;
  return TSR_OK;
}

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
  a->reader->take = statistics ? take_whole : NULL;
  a->reader->shortcut_argument = a;
  TSR_TRY(tsr_reader_start(a->reader, &reading, error));
  a->direct = choose_direct(a, &groups) && (direct || a->by_count == 0);
  if (a->direct) TSR_TRY(aggregate_make_table(a, groups, error));
  tsr__work_more(a->snapshot->array->environment, tsr__reader_cells(a->reader));
  while ((rc = tsr_reader_next(a->reader, &batch, error)) > 0 && !a->outside) {
    TSR_TRY(aggregate_add_batch(a, batch, error));
    tsr_work_done(a->snapshot->array->environment, batch->count);
  }
  for (uint32_t part = 1; rc >= 0 && part < AGGREGATE_THREADS_MAX; part++)
    for (uint64_t g = 0; a->tables[part] && g < a->group_count; g++)
      tsr__sums_merge(a->machine, &sums_of(a)[g], &a->tables[part][g]);
  return rc;
}

/* Does it show in a result that sums of floats came from statistics? */
static bool aggregate_is_doubtful(const tsr_aggregate *a) {
  for (uint64_t g = 0; g < a->group_count; g++) {
    const tsr_sums *sums = &sums_of(a)[g];
    const double sum = sums->doubt > 0 ? tsr__sums_real(a->machine, sums) : 0;
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

static void aggregate_sort(const tsr_aggregate *a, uint32_t *rows, uint32_t *room, uint64_t count) {
  uint32_t *from = rows, *to = room;
  for (uint64_t run = 1; run < count; run *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * run) {
      const uint64_t middle = TSR_MIN(start + run, count), end = TSR_MIN(middle + run, count);
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

/* The groups that have cells, in order; a table is in order as it is. */
static int list_rows(tsr_aggregate *a, tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__arena_array(&a->arena, a->group_count, 2 * sizeof(uint32_t), &memory, error));
  a->rows = memory;
  a->row_count = 0;
  for (uint64_t g = 0; g < a->group_count; g++)
    if (a->by_count == 0 || sums_of(a)[g].count + sums_of(a)[g].nulls > 0) a->rows[a->row_count++] = (uint32_t)g;
  if (!a->direct) aggregate_sort(a, a->rows, a->rows + a->group_count, a->row_count);
  return TSR_OK;
}

static int choose_fields(tsr_aggregate *a, const tsr_aggregate_request *request, bool **fields, tsr_error *error) {
  const tsr_schema *schema = a->snapshot->schema;
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  void *memory;
  if (request->field >= n || !is_numbers(&schema->fields[request->field]))
    return tsr__fail(error, TSR_ERROR, "field %u cannot be summed", request->field);
  a->field_number = request->field;
  a->field = &schema->fields[request->field];
  a->machine = tsr__datatype_physical(a->field->datatype);
  a->by_count = request->by_count;
  TSR_TRY(tsr__alloc_array(&a->memory, n, sizeof(bool), &memory, error));
  *fields = memory;
  (*fields)[request->field] = true;
  for (uint32_t k = 0; k < request->by_count; k++) {
    const uint32_t d = request->by[k];
    if (d >= schema->dimension_count) return tsr__fail(error, TSR_ERROR, "field %u is no dimension", d);
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
    return tsr__fail(error, TSR_ERROR, "groups by %u dimensions, there may be %u", request->by_count, TSR_BY_MAX);
  int rc = choose_fields(a, request, &fields, error);
  if (rc >= 0) rc = tsr_reader_open(a->snapshot, &a->reader, error);
  while (rc >= 0 && !done) {
    rc = read_once(a, request, fields, statistics, direct, error);
    if (rc >= 0 && a->outside) direct = false;
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
  void *memory;
  TSR_TRY(tsr__alloc_zero(&snapshot->array->memory, sizeof(tsr_aggregate), &memory, error));
  tsr_aggregate *a = memory;
  const uint64_t most = request->memory_bytes ? request->memory_bytes : UINT64_C(1) << 30;
  a->snapshot = snapshot;
  tsr__snapshot_hold(snapshot);
  tsr__memory_init(&a->memory, &snapshot->array->memory, most / 2, "memory_mb"); /* the reader has the other half */
  tsr__arena_init(&a->arena, &a->memory);
  a->sums.memory = a->tuples.memory = &a->memory;
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
  tsr__buffer_release(&aggregate->tuples);
  tsr__arena_release(&aggregate->arena);
  tsr__free(aggregate);
  tsr_snapshot_close(snapshot);
}

uint64_t tsr_aggregate_count(const tsr_aggregate *aggregate) { return aggregate->row_count; }

static void aggregate_set_end(const tsr_aggregate *a, uint64_t bits, uint8_t out[8]) {
  double value;
  memcpy(&value, &bits, sizeof value);
  const float narrow = (float)value;
  if (a->machine == TSR_PHYSICAL_F32) memcpy(out, &narrow, sizeof narrow);
  else memcpy(out, &bits, tsr_datatype_size(a->field->datatype));
}

void tsr_aggregate_get(tsr_aggregate *aggregate, uint64_t index, tsr_aggregate_row *row) {
  tsr_aggregate *a = aggregate;
  const uint32_t group = a->rows[index];
  const tsr_sums *sums = &sums_of(a)[group];
  *row = (tsr_aggregate_row){.count = sums->count, .nulls = sums->nulls};
  row->real_sum = tsr__sums_real(a->machine, sums);
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
    const uint64_t key = a->direct ? by->low + group / by->stride % by->extent : tuple_at(a, group)[k];
    row->keys[k] = a->keys[k];
    row->key_sizes[k] = by->field->cell_size;
    if (by->is_text) {
      row->keys[k] = aggregate_text_at(by, key)->bytes;
      row->key_sizes[k] = aggregate_text_at(by, key)->size;
    } else {
      tsr__key_value(by->field->datatype, key, a->keys[k]);
    }
  }
}
