/* write_boxes.c: finds boxes for the cells of a dense commit, which may have any shape; each box becomes a dense
 * fragment.
 *
 * Cells are sorted by space tile, then by their place in it. In each tile, neighbours in a row are a box. Boxes that
 * are neighbours and have the same sides otherwise are joined, axis by axis; then across tiles. So a box of cells is
 * found as one box, and no cell but those given is written.
 *
 * Past the number of boxes that a commit may have, boxes are joined over gaps: all boxes of a tile, then of 2 x 2 x ...
 * tiles, 4 x 4 ..., become the box around them, if a snapshot shows that everything between them has been written with
 * all attributes. The cells of the gaps are written again with the values that they have.
 *
 * Cells that are one box in row-major order already are not sorted: they are written as they are.
 *
 * Invariants: `cells.pairs` are sorted by key, and each key occurs once. A key is the number of the cell's tile, above its
 * place in the tile. Boxes are disjoint. Each of `parts` lies in one tile, or in one block of tiles. */
#include "write/write_boxes.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "array/snapshot.h"
#include "read/reader.h"
#include "write/write_boxes_spilled.h"

#define ROUNDS       3 /* rounds of joining across tiles */
#define READ_LEAST   (UINT64_C(1) << 20) /* bytes for the reader of a tile's cells */
#define KEYS_AT_ONCE 512u

/* ---- Cells by tile -------------------------------------------------------------------------- */

static uint64_t write_boxes_ordinal_of(const tsr_boxes *b, uint32_t d, uint64_t cell) {
  const tsr_field *field = &b->source.schema->fields[d];
  const tsr_column *column = &b->source.columns[d];
  const uint8_t *values = column->values;
  return tsr__key(field->datatype, values + (column->constant ? 0 : cell) * field->cell_size) - b->grid.low_key[d];
}

static unsigned bits_of(uint64_t most) { return most ? 64 - (unsigned)__builtin_clzll(most) : 0; }

/* Replaces numbers by their ranks, which need 32 bits. */
static unsigned rank(tsr_pair *pairs, tsr_pair *spare, uint64_t count, uint64_t *numbers) {
  for (uint64_t i = 0; i < count; i++) pairs[i] = (tsr_pair){numbers[i], (uint32_t)i};
  tsr__pairs_sort(pairs, spare, count);
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; i++) {
    next += i && pairs[i].key != pairs[i - 1].key;
    numbers[pairs[i].cell] = next;
  }
  return bits_of(next);
}

typedef struct write_boxes_numbering { /* numbers of the cells; keys grow dimension by dimension */
  uint64_t *keys, *tiles, *places;
  unsigned bits;
} write_boxes_numbering;

static void write_boxes_number_dimension(tsr_boxes *b, uint32_t d, tsr_pair *spare, write_boxes_numbering *n) {
  const uint64_t count = b->source.count, extent = b->grid.extent[d], stride = b->stride[d];
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t ordinal = write_boxes_ordinal_of(b, d, i), tile = ordinal / extent;
    n->tiles[i] = tile;
    n->places[i] += (ordinal - tile * extent) * stride;
    low = TSR_MIN(low, tile);
    high = TSR_MAX(high, tile);
  }
  for (uint64_t i = 0; i < count; i++) n->tiles[i] -= low;
  unsigned bits = bits_of(high - low);
  if (n->bits + bits > 64 && n->bits > 32) n->bits = rank(b->cells.pairs, spare, count, n->keys);
  if (n->bits + bits > 64) bits = rank(b->cells.pairs, spare, count, n->tiles);
  for (uint64_t i = 0; i < count; i++) n->keys[i] = bits < 64 ? n->keys[i] << bits | n->tiles[i] : n->tiles[i];
  n->bits += bits;
}

/* Sorts the cells. Of equal cells the last one stays. */
static void write_boxes_sort_cells(tsr_boxes *b, tsr_pair *spare, write_boxes_numbering *n) {
  const uint64_t count = b->source.count;
  for (uint32_t d = 0; d < b->dimensions; d++) write_boxes_number_dimension(b, d, spare, n);
  b->cells.place_bits = bits_of(b->grid.tile_cells - 1);
  if (n->bits + b->cells.place_bits > 64) rank(b->cells.pairs, spare, count, n->keys);
  for (uint64_t i = 0; i < count; i++)
    b->cells.pairs[i] = (tsr_pair){n->keys[i] << b->cells.place_bits | n->places[i], (uint32_t)i};
  tsr__pairs_sort(b->cells.pairs, spare, count);
  b->cells.count = 0;
  for (uint64_t i = 0; i < count; i++)
    if (i + 1 == count || b->cells.pairs[i].key != b->cells.pairs[i + 1].key)
      b->cells.pairs[b->cells.count++] = b->cells.pairs[i];
}

static int write_boxes_find_cells(tsr_boxes *b, tsr_error *error) {
  const uint64_t count = b->source.count;
  tsr_pair *spare = NULL;
  uint64_t *numbers = NULL;
  TSR_TRY(TSR_ARENA_RAW(&b->arena, count, &b->cells.pairs, error));
  int rc = TSR_ALLOC_RAW(b->source.memory, count, &spare, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(b->source.memory, 3 * count, &numbers, error);
  if (rc >= 0) {
    uint64_t *all = numbers;
    write_boxes_numbering n = {all, all + count, all + 2 * count, 0};
    write_boxes_sort_cells(b, spare, &n);
  }
  tsr__free(numbers);
  tsr__free(spare);
  return rc;
}

static int write_boxes_find_tiles(tsr_boxes *b, tsr_error *error) {
  const unsigned bits = b->cells.place_bits;
  b->cells.tile_count = 1;
  for (uint64_t i = 1; i < b->cells.count; i++)
    b->cells.tile_count += b->cells.pairs[i].key >> bits != b->cells.pairs[i - 1].key >> bits;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, b->cells.tile_count + 1, &b->cells.tile_first, error));
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, tsr__mul_sat(b->cells.tile_count, b->dimensions), &b->cells.tile_at, error));
  uint64_t tile = 0;
  for (uint64_t i = 0; i < b->cells.count; i++) {
    if (i && b->cells.pairs[i].key >> bits == b->cells.pairs[i - 1].key >> bits) continue;
    b->cells.tile_first[tile] = i;
    for (uint32_t d = 0; d < b->dimensions; d++)
      b->cells.tile_at[tile * b->dimensions + d] =
          write_boxes_ordinal_of(b, d, b->cells.pairs[i].cell) / b->grid.extent[d];
    tile++;
  }
  b->cells.tile_first[tile] = b->cells.count;
  return TSR_OK;
}

void tsr__boxes_ordinals(const tsr_boxes *b, const uint64_t *tile, uint64_t place, uint64_t *ordinals) {
  for (uint32_t i = b->dimensions; i-- > 0;) { /* the slowest axis first */
    uint32_t d = tsr__box_axis(b, i);
    uint64_t within = place / b->stride[d];
    place -= within * b->stride[d];
    ordinals[d] = tile[d] * b->grid.extent[d] + within;
  }
}

uint64_t tsr__boxes_find_tile(const tsr_boxes *b, const uint64_t *tile) {
  uint64_t low = 0, high = b->cells.tile_count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    const uint64_t *at = b->cells.tile_at + middle * b->dimensions;
    uint32_t d = 0;
    while (d + 1 < b->dimensions && at[d] == tile[d]) d++;
    if (at[d] == tile[d]) return middle;
    if (at[d] < tile[d]) low = middle + 1;
    else high = middle;
  }
  return b->cells.tile_count;
}

static bool has_cell(const tsr_boxes *b, uint64_t tile, uint64_t place) {
  uint64_t low = b->cells.tile_first[tile], high = b->cells.tile_first[tile + 1], end = high;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (tsr__boxes_place(b, middle) < place) low = middle + 1;
    else high = middle;
  }
  return low < end && tsr__boxes_place(b, low) == place;
}

/* ---- Boxes of neighbours -------------------------------------------------------------------- */

int tsr__box_add(tsr_box_list *list, uint64_t **box, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&list->numbers, list->width * sizeof(uint64_t), error));
  memset(list->numbers.data + list->numbers.size, 0, list->width * sizeof(uint64_t));
  list->numbers.size += list->width * sizeof(uint64_t);
  *box = tsr__box_at(list, list->count++);
  return TSR_OK;
}

static int copy_boxes(const tsr_box_list *from, tsr_box_list *to, tsr_error *error) {
  to->numbers.size = to->count = 0;
  TSR_TRY(tsr__buffer_append(&to->numbers, from->numbers.data, from->numbers.size, error));
  to->count = from->count;
  return TSR_OK;
}

/* Finds runs of cells that follow each other on the fastest axis. */
static int write_boxes_find_runs(tsr_boxes *b, tsr_error *error) {
  const uint32_t fast = tsr__box_axis(b, 0);
  const uint64_t row = b->grid.extent[fast];
  for (uint64_t tile = 0; tile < b->cells.tile_count; tile++)
    for (uint64_t i = b->cells.tile_first[tile]; i < b->cells.tile_first[tile + 1];) {
      uint64_t first = tsr__boxes_place(b, i), end = (first / row + 1) * row, count = 1, *box;
      while (i + count < b->cells.tile_first[tile + 1] && first + count < end &&
             tsr__boxes_place(b, i + count) == first + count)
        count++;
      TSR_TRY(tsr__box_add(&b->parts, &box, error));
      tsr__boxes_ordinals(b, b->cells.tile_at + tile * b->dimensions, first, tsr__box_low(box));
      memcpy(tsr__box_high(b, box), tsr__box_low(box), b->dimensions * sizeof(uint64_t));
      tsr__box_high(b, box)[fast] += count - 1;
      *tsr__box_tile(b, box) = tile;
      i += count;
    }
  return TSR_OK;
}

/* Sorts boxes by all of their numbers except the two of `axis`; the low end on that axis is the least significant. */
static void sort_boxes(const tsr_boxes *b, const tsr_box_list *list, uint32_t axis, bool in_tiles, tsr_pair *pairs,
                       tsr_pair *spare) {
  const uint32_t n = b->dimensions;
  for (uint64_t i = 0; i < list->count; i++)
    pairs[i] = (tsr_pair){tsr__box_low(tsr__box_at(list, i))[axis], (uint32_t)i};
  tsr__pairs_sort(pairs, spare, list->count);
  for (uint32_t k = 0; k < 2 * n + in_tiles; k++) {
    if (k % n == axis && k < 2 * n) continue;
    for (uint64_t i = 0; i < list->count; i++) pairs[i].key = tsr__box_at(list, pairs[i].cell)[k];
    tsr__pairs_sort(pairs, spare, list->count);
  }
}

static bool are_neighbours(const tsr_boxes *b, uint64_t *a, uint64_t *c, uint32_t axis, bool in_tiles) {
  const uint32_t n = b->dimensions;
  for (uint32_t k = 0; k < 2 * n + in_tiles; k++)
    if (a[k] != c[k] && (k % n != axis || k == 2 * n)) return false;
  return tsr__box_high(b, a)[axis] + 1 == tsr__box_low(c)[axis];
}

/* Joins boxes that are neighbours on an axis and have the same sides on all others; if `in_tiles`, only boxes of the
 * same tile. */
static int join_neighbours(const tsr_boxes *b, tsr_box_list *list, uint32_t axis, bool in_tiles, tsr_error *error) {
  tsr_pair *pairs = NULL;
  tsr_pair *spare = NULL;
  tsr_box_list joined = {.numbers.memory = b->source.memory, .width = list->width};
  int rc = TSR_ALLOC_RAW(b->source.memory, list->count, &pairs, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(b->source.memory, list->count, &spare, error);
  if (rc >= 0) {
    sort_boxes(b, list, axis, in_tiles, pairs, spare);
    const tsr_pair *sorted = pairs;
    uint64_t *last = NULL;
    for (uint64_t i = 0; i < list->count && rc >= 0; i++) {
      uint64_t *next = tsr__box_at(list, sorted[i].cell);
      if (last && are_neighbours(b, last, next, axis, in_tiles)) {
        tsr__box_high(b, last)[axis] = tsr__box_high(b, next)[axis];
        continue;
      }
      rc = tsr__box_add(&joined, &last, error);
      if (rc >= 0) memcpy(last, next, list->width * sizeof(uint64_t));
    }
  }
  tsr__free(pairs);
  tsr__free(spare);
  if (rc < 0) {
    tsr__buffer_release(&joined.numbers);
    return rc;
  }
  tsr__buffer_release(&list->numbers);
  *list = joined;
  return TSR_OK;
}

int tsr__boxes_join_all(const tsr_boxes *b, tsr_box_list *list, tsr_error *error) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    uint64_t before = list->count;
    for (uint32_t i = 0; i < b->dimensions && list->count > 1; i++)
      TSR_TRY(join_neighbours(b, list, tsr__box_axis(b, i), false, error));
    if (list->count == before) break;
  }
  return TSR_OK;
}

/* Sets `boxes` to the parts, with neighbours joined. */
static int join_parts(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(copy_boxes(&b->parts, &b->boxes, error));
  return tsr__boxes_join_all(b, &b->boxes, error);
}

/* ---- Gaps ----------------------------------------------------------------------------------- */

static void interval_of(const tsr_boxes *b, uint32_t d, uint64_t low, uint64_t high, tsr_interval *interval) {
  tsr_datatype datatype = b->source.schema->fields[d].datatype;
  *interval = (tsr_interval){0};
  tsr__key_value(datatype, b->grid.low_key[d] + low, interval->low);
  tsr__key_value(datatype, b->grid.low_key[d] + high, interval->high);
}

/* Returns half of the budget, or half of the memory that budget and loan have left, if that is less. */
static uint64_t memory_left(const tsr_memory *memory) {
  const uint64_t most = tsr__add_sat(memory->limit, memory->lent), left = most - TSR_MIN(most, memory->used);
  return TSR_MIN(left / 2, TSR_MAX(memory->limit / 2, READ_LEAST));
}

int tsr__boxes_read(tsr_boxes *b, tsr_reader *reader, const uint64_t *low, const uint64_t *high, bool attributes,
                    tsr_error *error) {
  tsr_arena arena;
  tsr_interval *ends;
  tsr_range *one;
  tsr_ranges *ranges;
  bool *wanted;
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  tsr__arena_init(&arena, b->source.memory);
  int rc = TSR_ARENA_ARRAY(&arena, fields, &ends, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, fields, &one, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, fields, &ranges, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, fields, &wanted, error);
  if (rc >= 0) {
    for (uint32_t d = 0; d < n; d++) {
      interval_of(b, d, low[d], high[d], &ends[d]);
      one[d] = (tsr_range){.low = ends[d].low, .high = ends[d].high};
      ranges[d] = (tsr_ranges){.ranges = &one[d], .count = 1};
    }
    for (uint32_t f = n; f < fields; f++) wanted[f] = true;
    const tsr_request request = {.dimensions = ranges,
                                 .fields = attributes ? wanted : NULL,
                                 .memory_bytes = b->source.spilled ? memory_left(b->source.memory) : 0,
                                 .threads = b->source.threads};
    rc = tsr_reader_start(reader, &request, error);
  }
  tsr__arena_release(&arena);
  return rc;
}

void tsr__boxes_locate(const tsr_boxes *b, const tsr_column *const *columns, uint64_t index, uint64_t *tile,
                       uint64_t *place) {
  *place = 0;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    const tsr_field *field = &b->source.schema->fields[d];
    const uint8_t *values = columns[d]->values;
    uint64_t ordinal =
        tsr__key(field->datatype, values + (columns[d]->constant ? 0 : index) * field->cell_size) - b->grid.low_key[d];
    tile[d] = ordinal / b->grid.extent[d];
    *place += (ordinal - tile[d] * b->grid.extent[d]) * b->stride[d];
  }
}

int tsr__boxes_coordinates(const tsr_boxes *b, tsr_reader *reader, const tsr_column **columns, tsr_error *error) {
  for (uint32_t d = 0; d < b->dimensions; d++) TSR_TRY(tsr_reader_column(reader, d, &columns[d], error));
  return TSR_OK;
}

int tsr__boxes_present(tsr_boxes *b, tsr_error *error) {
  if (!b->snapshot) TSR_TRY(b->source.open_snapshot(b->source.argument, &b->snapshot, error));
  if (b->reader) return TSR_OK;
  if (b->source.spilled) return tsr__reader_open_within(b->snapshot, b->source.memory, &b->reader, error);
  return tsr_reader_open(b->snapshot, &b->reader, error);
}

/* Counts the cells to be written that lie in the box and outside of the snapshot's non-empty domain. */
static uint64_t write_boxes_count_outside(const tsr_boxes *b, const uint64_t *low, const uint64_t *high) {
  const tsr_snapshot *snapshot = b->snapshot;
  uint64_t outside = 0, *at = b->scratch;
  for (uint64_t tile = 0; tile < b->cells.tile_count; tile++) {
    const uint64_t *tile_at = b->cells.tile_at + tile * b->dimensions;
    bool meets = true;
    for (uint32_t d = 0; d < b->dimensions; d++)
      meets = meets && tile_at[d] >= low[d] / b->grid.extent[d] && tile_at[d] <= high[d] / b->grid.extent[d];
    for (uint64_t i = b->cells.tile_first[tile]; i < b->cells.tile_first[tile + 1] && meets; i++) {
      bool in_box = true, in_domain = snapshot->domain.exists;
      tsr__boxes_ordinals(b, tile_at, tsr__boxes_place(b, i), at);
      for (uint32_t d = 0; d < b->dimensions; d++) {
        in_box = in_box && at[d] >= low[d] && at[d] <= high[d];
        in_domain = in_domain && at[d] >= snapshot->domain.box_low[d] && at[d] <= snapshot->domain.box_high[d];
      }
      outside += in_box && !in_domain;
    }
  }
  return outside;
}

/* Returns true if a fragment has all attributes. Cells of a fragment that lacks some would get them if they were
 * written again. */
static bool write_boxes_is_whole(const tsr_boxes *b, uint64_t fragment) {
  bool whole = true;
  for (uint32_t f = b->dimensions; f < b->dimensions + b->source.schema->attribute_count; f++)
    whole = whole && tsr_fragment_has(b->snapshot, fragment, f);
  return whole;
}

int tsr__boxes_covered(tsr_boxes *b, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const tsr_column *columns[TSR_MAX_DIMENSIONS];
  uint64_t left = 1; /* cells that the reader has not given yet */
  for (uint32_t d = 0; d < b->dimensions; d++) left = tsr__mul_sat(left, high[d] - low[d] + 1);
  TSR_TRY(tsr__boxes_present(b, error));
  TSR_TRY(tsr__boxes_read(b, b->reader, low, high, false, error));
  for (;;) {
    const tsr_batch *batch;
    int rc = tsr_reader_next(b->reader, &batch, error);
    if (rc < 0) return rc;
    if (!rc) return left == (left && !b->source.spilled ? write_boxes_count_outside(b, low, high) : 0);
    left -= batch->count;
    if (batch->written && write_boxes_is_whole(b, batch->fragment)) continue;
    if (b->source.spilled) return 0; /* the cells to be written are in the snapshot */
    TSR_TRY(tsr__boxes_coordinates(b, b->reader, columns, error));
    for (uint64_t r = 0; r < batch->count; r++) {
      uint64_t place, *tile = b->scratch;
      tsr__boxes_locate(b, columns, tsr_batch_index(batch, r), tile, &place);
      uint64_t number = tsr__boxes_find_tile(b, tile);
      if (number == b->cells.tile_count || !has_cell(b, number, place)) return 0;
    }
  }
}

/* Sorts the parts by blocks of 2^level tiles a side. */
static void sort_blocks(tsr_boxes *b, unsigned level, tsr_pair *sorted, tsr_pair *spare) {
  for (uint64_t i = 0; i < b->parts.count; i++) sorted[i].cell = (uint32_t)i;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    for (uint64_t i = 0; i < b->parts.count; i++)
      sorted[i].key = tsr__box_low(tsr__box_at(&b->parts, sorted[i].cell))[d] / b->grid.extent[d] >> level;
    tsr__pairs_sort(sorted, spare, b->parts.count);
  }
}

static bool in_one_block(const tsr_boxes *b, unsigned level, uint64_t *a, uint64_t *c) {
  for (uint32_t d = 0; d < b->dimensions; d++)
    if (tsr__box_low(a)[d] / b->grid.extent[d] >> level != tsr__box_low(c)[d] / b->grid.extent[d] >> level)
      return false;
  return true;
}

/* Joins the parts sorted[begin..end) of a block to one box if no cell in it is unwritten. Else it marks them as
 * hopeless, and larger blocks around them are not tried. */
#define HOPELESS UINT64_MAX /* stands in place of the tile */
static int join_block(tsr_boxes *b, const tsr_pair *sorted, uint64_t begin, uint64_t end, tsr_box_list *out,
                      tsr_error *error) {
  const uint32_t n = b->dimensions;
  uint64_t *low = b->scratch + 2 * n, *high = b->scratch + 3 * n, *box;
  bool hopeless = false;
  for (uint64_t i = begin; i < end; i++) {
    box = tsr__box_at(&b->parts, sorted[i].cell);
    hopeless = hopeless || *tsr__box_tile(b, box) == HOPELESS;
    for (uint32_t d = 0; d < n; d++) {
      low[d] = i == begin ? tsr__box_low(box)[d] : TSR_MIN(low[d], tsr__box_low(box)[d]);
      high[d] = i == begin ? tsr__box_high(b, box)[d] : TSR_MAX(high[d], tsr__box_high(b, box)[d]);
    }
  }
  if (end - begin > 1 && !hopeless) {
    int rc = tsr__boxes_covered(b, low, high, error);
    if (rc < 0) return rc;
    if (rc) {
      TSR_TRY(tsr__box_add(out, &box, error));
      memcpy(tsr__box_low(box), low, n * sizeof *low);
      memcpy(tsr__box_high(b, box), high, n * sizeof *high);
      return TSR_OK;
    }
    hopeless = true;
  }
  for (uint64_t i = begin; i < end; i++) {
    TSR_TRY(tsr__box_add(out, &box, error));
    memcpy(box, tsr__box_at(&b->parts, sorted[i].cell), out->width * sizeof *box);
    if (hopeless) *tsr__box_tile(b, box) = HOPELESS;
  }
  return TSR_OK;
}

int tsr__boxes_join_blocks(tsr_boxes *b, unsigned level, uint64_t *blocks, tsr_error *error) {
  tsr_pair *sorted = NULL;
  tsr_pair *spare = NULL;
  tsr_box_list out = {.numbers.memory = b->source.memory, .width = b->parts.width};
  int rc = TSR_ALLOC_RAW(b->source.memory, b->parts.count, &sorted, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(b->source.memory, b->parts.count, &spare, error);
  if (rc >= 0) sort_blocks(b, level, sorted, spare);
  const tsr_pair *pairs = sorted;
  *blocks = 0;
  for (uint64_t begin = 0, end; begin < b->parts.count && rc >= 0; begin = end) {
    end = begin + 1;
    while (end < b->parts.count &&
           in_one_block(b, level, tsr__box_at(&b->parts, pairs[begin].cell), tsr__box_at(&b->parts, pairs[end].cell)))
      end++;
    ++*blocks;
    rc = join_block(b, pairs, begin, end, &out, error);
  }
  tsr__free(sorted);
  tsr__free(spare);
  if (rc < 0) {
    tsr__buffer_release(&out.numbers);
    return rc;
  }
  tsr__buffer_release(&b->parts.numbers);
  b->parts = out;
  return TSR_OK;
}

int tsr__boxes_too_many(const tsr_boxes *b, uint64_t exact, tsr_error *error) {
  return tsr__fail(error, TSR_FULL,
                   "these cells are %llu separate boxes, and cells between them were never written: a commit has %llu "
                   "at most; tessera_write_npy writes one box at a time",
                   (unsigned long long)exact, (unsigned long long)b->source.most);
}

static int join_over_gaps(tsr_boxes *b, tsr_error *error) {
  uint64_t blocks = 2, exact = b->boxes.count;
  if (!b->source.open_snapshot) return tsr__boxes_too_many(b, exact, error);
  for (unsigned level = 0; level < 64 && blocks > 1 && b->boxes.count > b->source.most; level++) {
    TSR_TRY(tsr__boxes_join_blocks(b, level, &blocks, error));
    TSR_TRY(join_parts(b, error));
  }
  return b->boxes.count > b->source.most ? tsr__boxes_too_many(b, exact, error) : TSR_OK;
}

/* ---- Open and close ------------------------------------------------------------------------- */

static int write_boxes_prepare(tsr_boxes *b, tsr_error *error) {
  const tsr_schema *schema = b->source.schema;
  const uint32_t n = schema->dimension_count, fields = n + schema->attribute_count;
  TSR_TRY(tsr__grid_make(schema, &b->arena, &b->grid, error));
  b->dimensions = n;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, 5 * (uint64_t)n, &b->scratch, error));
  b->stride = b->scratch + 4 * (uint64_t)n;
  uint64_t stride = 1;
  for (uint32_t i = 0; i < n; i++) {
    b->stride[tsr__box_axis(b, i)] = stride;
    stride *= b->grid.extent[tsr__box_axis(b, i)];
  }
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, 3 * (uint64_t)fields, &b->fill.values, error));
  b->fill.offsets = b->fill.values + fields;
  b->fill.validity = b->fill.offsets + fields;
  for (uint32_t f = 0; f < 3 * fields; f++) b->fill.values[f].memory = b->source.memory;
  b->fill.taken.memory = b->source.memory;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, fields, &b->fill.columns, error));
  b->parts.width = b->boxes.width = 2 * (uint64_t)n + 1;
  b->parts.numbers.memory = b->boxes.numbers.memory = b->source.memory;
  if (b->source.spilled || b->source.count <= UINT32_MAX) return TSR_OK;
  return tsr__fail(error, TSR_TOOBIG, "%llu cells in one commit: %u at most", (unsigned long long)b->source.count,
                   UINT32_MAX);
}

/* Returns true if the keys of a dimension are `low` + 0, 1, ... side - 1, each of them `stride` times, again and again. */
static bool dimension_in_order(const tsr_boxes *b, uint32_t d, uint64_t low, uint64_t side, uint64_t stride) {
  const tsr_field *field = &b->source.schema->fields[d];
  const tsr_column *column = &b->source.columns[d];
  uint64_t keys[KEYS_AT_ONCE], step = 0, left = stride;
  if (column->constant) return side == 1;
  for (uint64_t from = 0, n; from < b->source.count; from += n) {
    n = TSR_MIN(b->source.count - from, KEYS_AT_ONCE);
    tsr__keys(field->datatype, (const uint8_t *)column->values + from * field->cell_size, n, keys);
    for (uint64_t i = 0; i < n; i++) {
      if (keys[i] != low + step) return false;
      if (--left > 0) continue;
      left = stride;
      if (++step == side) step = 0;
    }
  }
  return true;
}

/* Finds out whether the cells in memory are those of one box, in row-major order, as an INSERT ... SELECT often gives
 * them: then nothing must be sorted, and the box is written as tsr_writer_append_box does. */
static int find_box_in_order(tsr_boxes *b, tsr_error *error) {
  uint64_t *low = b->scratch, *high = low + b->dimensions, cells = 1, *box;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    low[d] = write_boxes_ordinal_of(b, d, 0);
    high[d] = write_boxes_ordinal_of(b, d, b->source.count - 1);
    cells = high[d] < low[d] ? UINT64_MAX : tsr__mul_sat(cells, high[d] - low[d] + 1);
  }
  if (cells != b->source.count) return TSR_OK;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    const uint64_t side = high[d] - low[d] + 1;
    cells /= side;
    if (!dimension_in_order(b, d, b->grid.low_key[d] + low[d], side, cells)) return TSR_OK;
  }
  TSR_TRY(tsr__box_add(&b->boxes, &box, error));
  memcpy(tsr__box_low(box), low, b->dimensions * sizeof *low);
  memcpy(tsr__box_high(b, box), high, b->dimensions * sizeof *high);
  b->in_order = true;
  return TSR_OK;
}

/* Finds the parts of cells in memory. */
static int find_parts(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(write_boxes_find_cells(b, error));
  TSR_TRY(write_boxes_find_tiles(b, error));
  TSR_TRY(write_boxes_find_runs(b, error));
  for (uint32_t i = 1; i < b->dimensions; i++) TSR_TRY(join_neighbours(b, &b->parts, tsr__box_axis(b, i), true, error));
  return TSR_OK;
}

static int find_boxes(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(write_boxes_prepare(b, error));
  if (!b->source.count) return TSR_OK;
  if (!b->source.spilled) TSR_TRY(find_box_in_order(b, error));
  if (!b->in_order) {
    TSR_TRY(b->source.spilled ? tsr__boxes_find_spilled(b, error) : find_parts(b, error));
    TSR_TRY(join_parts(b, error));
  }
  if (b->source.most && b->boxes.count > b->source.most) TSR_TRY(join_over_gaps(b, error));
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, tsr__mul_sat(b->boxes.count, b->dimensions), &b->intervals, error));
  for (uint64_t i = 0; i < b->boxes.count; i++) {
    uint64_t *box = tsr__box_at(&b->boxes, i);
    for (uint32_t d = 0; d < b->dimensions; d++)
      interval_of(b, d, tsr__box_low(box)[d], tsr__box_high(b, box)[d], &b->intervals[i * b->dimensions + d]);
  }
  return TSR_OK;
}

int tsr__boxes_open(const tsr_boxes_source *source, tsr_boxes **boxes, tsr_error *error) {
  tsr_boxes *b;
  TSR_TRY(TSR_ALLOC(source->memory, &b, error));
  b->source = *source;
  tsr__arena_init(&b->arena, source->memory);
  int rc = find_boxes(b, error);
  if (rc < 0) {
    tsr__boxes_close(b);
    return rc;
  }
  *boxes = b;
  return TSR_OK;
}

uint64_t tsr__boxes_count(const tsr_boxes *boxes) { return boxes->boxes.count; }

const tsr_interval *tsr__boxes_box(const tsr_boxes *boxes, uint64_t index) {
  return boxes->intervals + index * boxes->dimensions;
}

void tsr__boxes_close(tsr_boxes *boxes) {
  if (!boxes) return;
  tsr_reader_close(boxes->reader);
  tsr_reader_close(boxes->spilled);
  tsr_snapshot_close(boxes->snapshot);
  if (boxes->fill.values) {
    const uint32_t fields = boxes->dimensions + boxes->source.schema->attribute_count;
    for (uint32_t i = 0; i < 3 * fields; i++) tsr__buffer_release(&boxes->fill.values[i]);
  }
  tsr__buffer_release(&boxes->fill.taken);
  tsr__buffer_release(&boxes->parts.numbers);
  tsr__buffer_release(&boxes->boxes.numbers);
  tsr__arena_release(&boxes->arena);
  tsr__free(boxes);
}
