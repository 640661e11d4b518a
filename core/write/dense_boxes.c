/* dense_boxes.c: covers the cells of a dense commit, which may have any shape, with boxes, and writes each box as a
 * dense fragment.
 *
 * Cells are sorted by space tile, then by their position in it. Within each tile, adjacent cells in a row form a box.
 * Adjacent boxes with the same extent on all other axes are joined, axis by axis; then across tiles. So cells that form
 * a box are found as one box, and only the cells of the commit are written.
 *
 * If there are more boxes than a commit may have, boxes are joined over gaps: all boxes of a tile, then of 2 x 2 x ...
 * tiles, 4 x 4 ..., become their bounding box, if a snapshot shows that everything between them has been written with
 * all attributes. The cells of the gaps are rewritten with their current values.
 *
 * Cells that already form one box in row-major order are not sorted: they are written as they are.
 *
 * Invariants: `cells.pairs` are sorted by key, and keys are unique. The high bits of a key are the number of the cell's
 * tile, the low bits its position in the tile. Boxes are disjoint. Each of `parts` is within one tile, or one block of
 * tiles.
 *
 * The sections: cells by tile, boxes of adjacent cells, gaps, open and close; then writing the boxes as fragments, and
 * finding the parts of spilled cells in bounded memory. */
#include "write/dense_boxes.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "read/reader.h"
#include "base/arithmetic.h"
#include "write/fragment_writer.h"
#include "write/writer.h"
#include "format/fragment_metadata.h"
#include "environment/environment.h"

#define ROUNDS       3 /* rounds of joining across tiles */
#define READ_LEAST   (UINT64_C(1) << 20) /* bytes for the reader of a tile's cells */
#define KEYS_AT_ONCE 512u

/* ---- Cells by tile -------------------------------------------------------------------------- */

static uint64_t ordinal_of(const tsr_boxes *b, uint32_t d, uint64_t cell) {
  const tsr_field *field = &b->source.schema->fields[d];
  const tsr_column *column = &b->source.columns[d];
  const uint8_t *values = column->values;
  return tsr__key(field->datatype, values + (column->constant ? 0 : cell) * field->cell_size) - b->grid.low_key[d];
}

static unsigned bits_of(uint64_t most) { return most ? 64 - (unsigned)__builtin_clzll(most) : 0; }

/* Replaces numbers by their ranks, which fit into 32 bits. */
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

typedef struct numbering { /* numbers of the cells; keys grow dimension by dimension */
  uint64_t *keys, *tiles, *places;
  unsigned bits;
} numbering;

static void number_dimension(tsr_boxes *b, uint32_t d, tsr_pair *spare, numbering *n) {
  const uint64_t count = b->source.count, extent = b->grid.extent[d], stride = b->stride[d];
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t ordinal = ordinal_of(b, d, i), tile = ordinal / extent;
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

/* Sorts the cells. The last of equal cells remains. */
static void sort_cells(tsr_boxes *b, tsr_pair *spare, numbering *n) {
  const uint64_t count = b->source.count;
  for (uint32_t d = 0; d < b->dimensions; d++) number_dimension(b, d, spare, n);
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

static int find_cells(tsr_boxes *b, tsr_error *error) {
  const uint64_t count = b->source.count;
  tsr_pair *spare = NULL;
  uint64_t *numbers = NULL;
  TSR_TRY(TSR_ARENA_RAW(&b->arena, count, &b->cells.pairs, error));
  int rc = TSR_ALLOC_RAW(b->source.memory, count, &spare, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(b->source.memory, 3 * count, &numbers, error);
  if (rc >= 0) {
    uint64_t *all = numbers;
    numbering n = {all, all + count, all + 2 * count, 0};
    sort_cells(b, spare, &n);
  }
  tsr__free(numbers);
  tsr__free(spare);
  return rc;
}

static int find_tiles(tsr_boxes *b, tsr_error *error) {
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
      b->cells.tile_at[tile * b->dimensions + d] = ordinal_of(b, d, b->cells.pairs[i].cell) / b->grid.extent[d];
    tile++;
  }
  b->cells.tile_first[tile] = b->cells.count;
  return TSR_OK;
}

/* Converts a position in a tile to ordinals in the array, by dimension. */
static void boxes_ordinals(const tsr_boxes *b, const uint64_t *tile, uint64_t place, uint64_t *ordinals) {
  for (uint32_t i = b->dimensions; i-- > 0;) { /* the slowest axis first */
    uint32_t d = tsr__box_axis(b, i);
    uint64_t within = place / b->stride[d];
    place -= within * b->stride[d];
    ordinals[d] = tile[d] * b->grid.extent[d] + within;
  }
}

/* Returns the number of a tile among the tiles that have cells in memory; tile_count if it has none. */
static uint64_t boxes_find_tile(const tsr_boxes *b, const uint64_t *tile) {
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

/* ---- Boxes of adjacent cells ------------------------------------------------------------------------------------- */

/* Appends a box of zeros. */
static int box_add(tsr_box_list *list, uint64_t **box, tsr_error *error) {
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

/* Finds runs of adjacent cells on the fastest axis. */
static int find_runs(tsr_boxes *b, tsr_error *error) {
  const uint32_t fast = tsr__box_axis(b, 0);
  const uint64_t row = b->grid.extent[fast];
  for (uint64_t tile = 0; tile < b->cells.tile_count; tile++)
    for (uint64_t i = b->cells.tile_first[tile]; i < b->cells.tile_first[tile + 1];) {
      uint64_t first = tsr__boxes_place(b, i), end = (first / row + 1) * row, count = 1, *box;
      while (i + count < b->cells.tile_first[tile + 1] && first + count < end &&
             tsr__boxes_place(b, i + count) == first + count)
        count++;
      TSR_TRY(box_add(&b->parts, &box, error));
      boxes_ordinals(b, b->cells.tile_at + tile * b->dimensions, first, tsr__box_low(box));
      memcpy(tsr__box_high(b, box), tsr__box_low(box), b->dimensions * sizeof(uint64_t));
      tsr__box_high(b, box)[fast] += count - 1;
      *tsr__box_tile(b, box) = tile;
      i += count;
    }
  return TSR_OK;
}

/* Sorts boxes by all of their numbers except the two of `axis`, whose low end becomes the least significant key. */
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

/* Joins boxes that are adjacent on an axis and equal on all others; if `in_tiles`, only boxes of the same tile. */
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
      rc = box_add(&joined, &last, error);
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

/* Joins adjacent boxes on all axes, across tiles, in a few rounds. */
static int boxes_join_all(const tsr_boxes *b, tsr_box_list *list, tsr_error *error) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    uint64_t before = list->count;
    for (uint32_t i = 0; i < b->dimensions && list->count > 1; i++)
      TSR_TRY(join_neighbours(b, list, tsr__box_axis(b, i), false, error));
    if (list->count == before) break;
  }
  return TSR_OK;
}

/* Sets `boxes` to the parts, with adjacent ones joined. */
static int join_parts(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(copy_boxes(&b->parts, &b->boxes, error));
  return boxes_join_all(b, &b->boxes, error);
}

/* ---- Gaps ----------------------------------------------------------------------------------- */

static void interval_of(const tsr_boxes *b, uint32_t d, uint64_t low, uint64_t high, tsr_interval *interval) {
  tsr_datatype datatype = b->source.schema->fields[d].datatype;
  *interval = (tsr_interval){0};
  tsr__key_value(datatype, b->grid.low_key[d] + low, interval->low);
  tsr__key_value(datatype, b->grid.low_key[d] + high, interval->high);
}

/* Returns half of the budget, or half of what is left of budget and loan if that is less. */
static uint64_t memory_left(const tsr_memory *memory) {
  const uint64_t most = tsr__add_sat(memory->limit, memory->lent), left = most - TSR_MIN(most, memory->used);
  return TSR_MIN(left / 2, TSR_MAX(memory->limit / 2, READ_LEAST));
}

/* Starts a reader on the box between two corners, given as ordinals; without `attributes` it reads coordinates only. */
static int boxes_read(tsr_boxes *b, tsr_reader *reader, const uint64_t *low, const uint64_t *high, bool attributes,
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

/* Sets the tile of a row, in units of tiles, and its position in that tile. `columns` are its coordinates. */
static void boxes_locate(const tsr_boxes *b, const tsr_column *const *columns, uint64_t index, uint64_t *tile,
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

/* Sets the coordinate columns of a reader's batch, by dimension; borrowed until the next batch. */
static int boxes_coordinates(const tsr_boxes *b, tsr_reader *reader, const tsr_column **columns, tsr_error *error) {
  for (uint32_t d = 0; d < b->dimensions; d++) TSR_TRY(tsr_reader_column(reader, d, &columns[d], error));
  return TSR_OK;
}

/* Opens the snapshot of the current state and its reader, unless they are open. */
static int boxes_present(tsr_boxes *b, tsr_error *error) {
  if (!b->snapshot) TSR_TRY(b->source.open_snapshot(b->source.argument, &b->snapshot, error));
  if (b->reader) return TSR_OK;
  if (b->source.spilled) return tsr__reader_open_as(b->snapshot, b->source.memory, NULL, &b->reader, error);
  return tsr_reader_open(b->snapshot, &b->reader, error);
}

/* Counts the cells to be written that are in the box but outside of the snapshot's non-empty domain. */
static uint64_t count_outside(const tsr_boxes *b, const uint64_t *low, const uint64_t *high) {
  const tsr_snapshot *snapshot = b->snapshot;
  uint64_t outside = 0, *at = b->scratch;
  for (uint64_t tile = 0; tile < b->cells.tile_count; tile++) {
    const uint64_t *tile_at = b->cells.tile_at + tile * b->dimensions;
    bool meets = true;
    for (uint32_t d = 0; d < b->dimensions; d++)
      meets = meets && tile_at[d] >= low[d] / b->grid.extent[d] && tile_at[d] <= high[d] / b->grid.extent[d];
    for (uint64_t i = b->cells.tile_first[tile]; i < b->cells.tile_first[tile + 1] && meets; i++) {
      bool in_box = true, in_domain = snapshot->domain.exists;
      boxes_ordinals(b, tile_at, tsr__boxes_place(b, i), at);
      for (uint32_t d = 0; d < b->dimensions; d++) {
        in_box = in_box && at[d] >= low[d] && at[d] <= high[d];
        in_domain = in_domain && at[d] >= snapshot->domain.box_low[d] && at[d] <= snapshot->domain.box_high[d];
      }
      outside += in_box && !in_domain;
    }
  }
  return outside;
}

/* Returns true if a fragment has all attributes. Rewriting cells of a fragment that lacks some would add them. */
static bool is_whole(const tsr_boxes *b, uint64_t fragment) {
  bool whole = true;
  for (uint32_t f = b->dimensions; f < b->dimensions + b->source.schema->attribute_count; f++)
    whole = whole && tsr_fragment_has(b->snapshot, fragment, f);
  return whole;
}

/* Returns 1 if each cell of the box has been written with all attributes, or is about to be written; 0 if not. */
static int boxes_covered(tsr_boxes *b, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const tsr_column *columns[TSR_MAX_DIMENSIONS];
  uint64_t left = 1; /* cells that the reader has not returned yet */
  for (uint32_t d = 0; d < b->dimensions; d++) left = tsr__mul_sat(left, high[d] - low[d] + 1);
  TSR_TRY(boxes_present(b, error));
  TSR_TRY(boxes_read(b, b->reader, low, high, false, error));
  for (;;) {
    const tsr_batch *batch;
    int rc = tsr_reader_next(b->reader, &batch, error);
    if (rc < 0) return rc;
    if (!rc) return left == (left && !b->source.spilled ? count_outside(b, low, high) : 0);
    left -= batch->count;
    if (batch->written && is_whole(b, batch->fragment)) continue;
    if (b->source.spilled) return 0; /* the cells to be written are in the snapshot */
    TSR_TRY(boxes_coordinates(b, b->reader, columns, error));
    for (uint64_t r = 0; r < batch->count; r++) {
      uint64_t place, *tile = b->scratch;
      boxes_locate(b, columns, tsr_batch_index(batch, r), tile, &place);
      uint64_t number = boxes_find_tile(b, tile);
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

/* Joins the parts sorted[begin..end) of a block into one box if no cell in it is unwritten. Otherwise marks them as
 * hopeless, so that larger blocks around them are not tried. */
#define HOPELESS UINT64_MAX /* replaces the tile */
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
    int rc = boxes_covered(b, low, high, error);
    if (rc < 0) return rc;
    if (rc) {
      TSR_TRY(box_add(out, &box, error));
      memcpy(tsr__box_low(box), low, n * sizeof *low);
      memcpy(tsr__box_high(b, box), high, n * sizeof *high);
      return TSR_OK;
    }
    hopeless = true;
  }
  for (uint64_t i = begin; i < end; i++) {
    TSR_TRY(box_add(out, &box, error));
    memcpy(box, tsr__box_at(&b->parts, sorted[i].cell), out->width * sizeof *box);
    if (hopeless) *tsr__box_tile(b, box) = HOPELESS;
  }
  return TSR_OK;
}

/* Joins the parts in each block of 2^level tiles a side into their bounding box, if no cell in it is unwritten. Sets
 * *blocks to the number of blocks that have parts. */
static int boxes_join_blocks(tsr_boxes *b, unsigned level, uint64_t *blocks, tsr_error *error) {
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

/* Fails with TSR_FULL: `count` boxes are more than a commit may have. */
static int boxes_too_many(const tsr_boxes *b, uint64_t exact, tsr_error *error) {
  return tsr__fail(error, TSR_FULL,
                   "these cells are %llu separate boxes, and cells between them were never written: a commit has %llu "
                   "at most. Write NULL to the cells between them, commit fewer rows at a time, or make the array with "
                   "kind=sparse",
                   (unsigned long long)exact, (unsigned long long)b->source.most);
}

static int join_over_gaps(tsr_boxes *b, tsr_error *error) {
  uint64_t blocks = 2, exact = b->boxes.count;
  if (!b->source.open_snapshot) return boxes_too_many(b, exact, error);
  for (unsigned level = 0; level < 64 && blocks > 1 && b->boxes.count > b->source.most; level++) {
    TSR_TRY(boxes_join_blocks(b, level, &blocks, error));
    TSR_TRY(join_parts(b, error));
  }
  return b->boxes.count > b->source.most ? boxes_too_many(b, exact, error) : TSR_OK;
}

/* ---- Open and close ------------------------------------------------------------------------- */

static int prepare(tsr_boxes *b, tsr_error *error) {
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

/* Returns true if the keys of a dimension cycle through `low` + 0, 1, ... side - 1, each repeated `stride` times. */
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

/* Detects whether the cells in memory form one box in row-major order, as is common for an INSERT ... SELECT: then
 * nothing needs sorting, and the box is written like tsr_writer_append_box. */
static int find_box_in_order(tsr_boxes *b, tsr_error *error) {
  uint64_t *low = b->scratch, *high = low + b->dimensions, cells = 1, *box;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    low[d] = ordinal_of(b, d, 0);
    high[d] = ordinal_of(b, d, b->source.count - 1);
    cells = high[d] < low[d] ? UINT64_MAX : tsr__mul_sat(cells, high[d] - low[d] + 1);
  }
  if (cells != b->source.count) return TSR_OK;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    const uint64_t side = high[d] - low[d] + 1;
    cells /= side;
    if (!dimension_in_order(b, d, b->grid.low_key[d] + low[d], side, cells)) return TSR_OK;
  }
  TSR_TRY(box_add(&b->boxes, &box, error));
  memcpy(tsr__box_low(box), low, b->dimensions * sizeof *low);
  memcpy(tsr__box_high(b, box), high, b->dimensions * sizeof *high);
  b->in_order = true;
  return TSR_OK;
}

/* Finds the parts of cells in memory. */
static int find_parts(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(find_cells(b, error));
  TSR_TRY(find_tiles(b, error));
  TSR_TRY(find_runs(b, error));
  for (uint32_t i = 1; i < b->dimensions; i++) TSR_TRY(join_neighbours(b, &b->parts, tsr__box_axis(b, i), true, error));
  return TSR_OK;
}

static int boxes_find_spilled(tsr_boxes *boxes, tsr_error *error);

static int find_boxes(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(prepare(b, error));
  if (!b->source.count) return TSR_OK;
  if (!b->source.spilled) TSR_TRY(find_box_in_order(b, error));
  if (!b->in_order) {
    TSR_TRY(b->source.spilled ? boxes_find_spilled(b, error) : find_parts(b, error));
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

/* ---- Writing the boxes as fragments ------------------------------------------------------------------------------ */

/* If the cells are in memory and fill a tile of the box, the fragment writer takes them directly from their columns.
 * Otherwise the tile's values are gathered: from the cells in memory or, if cells are spilled, by a reader over just
 * these cells; then, in gaps over which boxes were joined, from the current state. */

typedef struct filler {
  tsr_boxes *boxes;
  uint64_t *box;
} filler;

/* Sets `order` to the numbers of the cells in memory that are in this tile and in the box; returns how many there are.
 */
static uint64_t place_cells(const filler *f, const uint64_t *tile, uint64_t *order) {
  const tsr_boxes *b = f->boxes;
  uint64_t number = boxes_find_tile(b, tile), placed = 0;
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) order[i] = TSR_NO_CELL;
  if (number == b->cells.tile_count) return 0;
  bool all = true;
  for (uint32_t d = 0; d < b->dimensions; d++)
    all = all && tsr__box_low(f->box)[d] <= tile[d] * b->grid.extent[d] &&
          tsr__box_high(b, f->box)[d] - tile[d] * b->grid.extent[d] >= b->grid.extent[d] - 1;
  for (uint64_t i = b->cells.tile_first[number]; i < b->cells.tile_first[number + 1]; i++) {
    bool inside = true;
    if (!all) {
      boxes_ordinals(b, tile, tsr__boxes_place(b, i), b->scratch);
      for (uint32_t d = 0; d < b->dimensions; d++)
        inside = inside && b->scratch[d] >= tsr__box_low(f->box)[d] && b->scratch[d] <= tsr__box_high(b, f->box)[d];
    }
    if (inside) order[tsr__boxes_place(b, i)] = b->cells.pairs[i].cell;
    placed += inside;
  }
  return placed;
}

/* Appends a cell of a column to the values of the tile. */
static int copy_cell(tsr_boxes *b, uint32_t f, const tsr_column *column, uint64_t index, tsr_error *error) {
  const tsr_field *field = &b->source.schema->fields[f];
  const uint8_t *values = column->values;
  if (column->constant) index = 0;
  if (field->cell_size)
    TSR_TRY(tsr__buffer_append(&b->fill.values[f], values + index * field->cell_size, field->cell_size, error));
  else {
    uint64_t at = column->offsets[index];
    TSR_TRY(tsr__buffer_append(&b->fill.values[f], values + at, column->offsets[index + 1] - at, error));
    TSR_TRY(tsr__buffer_append_u64(&b->fill.offsets[f], b->fill.values[f].size, error));
  }
  if (!field->nullable) return TSR_OK;
  return tsr__buffer_append_u8(&b->fill.validity[f], !column->validity || column->validity[index], error);
}

static int fill_copy_cells(tsr_boxes *b, const tsr_column *columns, uint64_t index, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t f = n; f < fields; f++) TSR_TRY(copy_cell(b, f, &columns[f], index, error));
  return TSR_OK;
}

/* Takes the rows of a batch at positions that have no cell yet: their indices go to `taken`, and `order` numbers them
 * from *next on. */
static int fill_take_rows(tsr_boxes *b, tsr_reader *reader, const tsr_batch *batch, uint64_t *order, uint64_t *next,
                          tsr_error *error) {
  const tsr_column *coordinates[TSR_MAX_DIMENSIONS];
  TSR_TRY(boxes_coordinates(b, reader, coordinates, error));
  b->fill.taken.size = 0;
  for (uint64_t r = 0; r < batch->count; r++) {
    uint64_t place, index = tsr_batch_index(batch, r);
    boxes_locate(b, coordinates, index, b->scratch, &place);
    if (order[place] != TSR_NO_CELL) continue;
    order[place] = (*next)++;
    TSR_TRY(tsr__buffer_append_u64(&b->fill.taken, index, error));
  }
  return TSR_OK;
}

/* Adds the rows that a reader returns for the box between the corners in `scratch`, at positions that have no cell yet.
 */
static int fill_add_rows(tsr_boxes *b, tsr_reader *reader, uint64_t *order, uint64_t *next, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  TSR_TRY(boxes_read(b, reader, b->scratch + 2 * n, b->scratch + 3 * n, true, error));
  for (;;) {
    const tsr_batch *batch;
    const tsr_column *column;
    int rc = tsr_reader_next(reader, &batch, error);
    if (rc <= 0) return rc;
    TSR_TRY(fill_take_rows(b, reader, batch, order, next, error));
    for (uint32_t f = n; f < fields && b->fill.taken.size; f++) {
      TSR_TRY(tsr_reader_column(reader, f, &column, error));
      for (uint64_t at = 0; at < b->fill.taken.size; at += 8)
        TSR_TRY(copy_cell(b, f, column, tsr__load64(b->fill.taken.data + at), error));
    }
  }
}

/* Sets the corners in `scratch` to the intersection of box and tile; returns its number of cells. */
static uint64_t find_corners(const filler *f, const uint64_t *tile) {
  const tsr_boxes *b = f->boxes;
  uint64_t *low = b->scratch + 2 * (uint64_t)b->dimensions, *high = low + b->dimensions, cells = 1;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    const uint64_t base = tile[d] * b->grid.extent[d], end = tsr__box_high(b, f->box)[d];
    low[d] = TSR_MAX(tsr__box_low(f->box)[d], base);
    high[d] = end - base < b->grid.extent[d] ? end : base + b->grid.extent[d] - 1;
    cells *= high[d] - low[d] + 1;
  }
  return cells;
}

/* Reserves the known part of a tile's size: buffers that grow step by step would take half as much again. */
static int reserve_known(tsr_boxes *b, uint64_t cells, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t i = n; i < fields; i++) {
    const tsr_field *field = &b->source.schema->fields[i];
    const uint64_t size = tsr__mul_sat(cells, field->cell_size ? field->cell_size : sizeof(uint64_t));
    TSR_TRY(tsr__buffer_reserve_exactly(field->cell_size ? &b->fill.values[i] : &b->fill.offsets[i], size, error));
    if (field->nullable) TSR_TRY(tsr__buffer_reserve_exactly(&b->fill.validity[i], cells, error));
  }
  return TSR_OK;
}

static int begin_values(tsr_boxes *b, uint64_t cells, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t i = 0; i < 3 * fields; i++) b->fill.values[i].size = 0;
  for (uint32_t i = n; i < fields; i++)
    if (!b->source.schema->fields[i].cell_size) TSR_TRY(tsr__buffer_append_u64(&b->fill.offsets[i], 0, error));
  return reserve_known(b, cells, error);
}

static const tsr_column *end_values(tsr_boxes *b) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t i = n; i < fields; i++)
    b->fill.columns[i] =
        (tsr_column){.values = b->fill.values[i].data ? b->fill.values[i].data : (const uint8_t *)"",
                     .offsets = (const uint64_t *)(const void *)b->fill.offsets[i].data,
                     .validity = b->source.schema->fields[i].nullable ? b->fill.validity[i].data : NULL,
                     .cell_size = b->source.schema->fields[i].cell_size};
  return b->fill.columns;
}

static int fill_tile(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                     tsr_error *error) {
  filler *f = argument;
  tsr_boxes *b = f->boxes;
  const uint64_t placed = place_cells(f, tile, order), wanted = find_corners(f, tile);
  uint64_t next = 0;
  *columns = b->source.columns;
  if (placed == wanted) return TSR_OK;
  TSR_TRY(begin_values(b, wanted, error));
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) {
    if (order[i] == TSR_NO_CELL) continue;
    TSR_TRY(fill_copy_cells(b, b->source.columns, order[i], error));
    order[i] = next++;
  }
  TSR_TRY(boxes_present(b, error));
  TSR_TRY(fill_add_rows(b, b->reader, order, &next, error));
  *columns = end_values(b);
  return TSR_OK;
}

/* The same for spilled cells. */
static int fill_spilled(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                        tsr_error *error) {
  filler *f = argument;
  tsr_boxes *b = f->boxes;
  const uint64_t wanted = find_corners(f, tile);
  uint64_t next = 0;
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) order[i] = TSR_NO_CELL;
  TSR_TRY(begin_values(b, wanted, error));
  TSR_TRY(fill_add_rows(b, b->spilled, order, &next, error));
  if (next < wanted) {
    TSR_TRY(boxes_present(b, error));
    TSR_TRY(fill_add_rows(b, b->reader, order, &next, error));
  }
  *columns = end_values(b);
  return TSR_OK;
}

int tsr__boxes_write(tsr_boxes *boxes, uint64_t index, const tsr_fragment_target *target, tsr_error *error) {
  filler f = {boxes, tsr__box_at(&boxes->boxes, index)};
  if (boxes->in_order) return tsr__write_dense(target, false, boxes->source.columns, error);
  return tsr__write_dense_tiles(target, boxes->source.spilled ? fill_spilled : fill_tile, &f, error);
}

/* ---- Spilled cells ----------------------------------------------------------------------------------------------- */

/* Finds the parts of boxes among spilled cells, which come in the array's order, in bounded memory.
 *
 * The cells of one tile are consecutive. Adjacent cells in a row form a box, and the boxes of a tile are joined when
 * the next tile begins. If there are more parts than fit into memory, adjacent ones are joined across tiles. If that is
 * not enough, parts are joined over written gaps in growing blocks of tiles, as is done at the end for cells in memory.
 * If too many parts remain even then, they cannot become few enough boxes for a commit: a box of the commit, clipped to
 * the tiles seen so far, is at most one box for each dimension.
 *
 * Boxes that were joined over gaps may overlap boxes of later tiles; both have the same values there. */

#define PARTS_MIN  (4u * TSR_BOXES_MAX) /* there is always room for this many parts */
#define PART_BYTES 160u /* approximate bytes of a part while parts are joined */

typedef struct stream {
  tsr_boxes *boxes;
  uint64_t most; /* maximum number of parts of a tile, and of all */
  bool open; /* there is a current tile, described below */
  uint64_t tile[TSR_MAX_DIMENSIONS];
  tsr_box_list parts; /* parts of this tile */
  bool extends; /* the last part ends with the latest cell, at `place` */
  uint64_t place;
  bool crowded; /* this tile has too many parts: only a bounding box of its cells is known */
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS];
  uint64_t tile_parts; /* parts of the tile at that moment */
} stream;

/* ---- All parts ------------------------------------------------------------------------------ */

static int make_room(stream *s, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  uint64_t blocks = b->source.open_snapshot ? 2 : 0;
  TSR_TRY(boxes_join_all(b, &b->parts, error));
  for (unsigned level = 0; level < 64 && blocks > 1 && b->parts.count > s->most / 2; level++) {
    TSR_TRY(boxes_join_blocks(b, level, &blocks, error));
    TSR_TRY(boxes_join_all(b, &b->parts, error));
  }
  return b->parts.count > s->most / 2 ? boxes_too_many(b, b->parts.count, error) : TSR_OK;
}

static int add_part(stream *s, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  uint64_t *box;
  if (b->parts.count == s->most) TSR_TRY(make_room(s, error));
  TSR_TRY(box_add(&b->parts, &box, error));
  memcpy(tsr__box_low(box), low, b->dimensions * sizeof *low);
  memcpy(tsr__box_high(b, box), high, b->dimensions * sizeof *high);
  return TSR_OK;
}

/* ---- The current tile -------------------------------------------------------------------------------------------- */

static int end_tile(stream *s, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  if (!s->open) return TSR_OK;
  if (s->crowded) {
    const int rc = b->source.open_snapshot ? boxes_covered(b, s->low, s->high, error) : 0;
    if (rc < 0) return rc;
    return rc ? add_part(s, s->low, s->high, error) : boxes_too_many(b, b->parts.count + s->tile_parts, error);
  }
  if (s->parts.count > 1) TSR_TRY(boxes_join_all(b, &s->parts, error));
  for (uint64_t i = 0; i < s->parts.count; i++) {
    uint64_t *box = tsr__box_at(&s->parts, i);
    TSR_TRY(add_part(s, tsr__box_low(box), tsr__box_high(b, box), error));
  }
  return TSR_OK;
}

static void begin_tile(stream *s, const uint64_t *tile) {
  memcpy(s->tile, tile, s->boxes->dimensions * sizeof *tile);
  s->parts.numbers.size = s->parts.count = 0;
  s->extends = s->crowded = false;
  s->open = true;
}

/* The current tile has `most` parts: joins them, or replaces them by their bounding box. */
static int thin_out(stream *s, tsr_error *error) {
  const tsr_boxes *b = s->boxes;
  s->extends = false;
  TSR_TRY(boxes_join_all(b, &s->parts, error));
  if (s->parts.count <= s->most / 2) return TSR_OK;
  s->crowded = true;
  s->tile_parts = s->parts.count;
  for (uint64_t i = 0; i < s->parts.count; i++) {
    uint64_t *box = tsr__box_at(&s->parts, i);
    for (uint32_t d = 0; d < b->dimensions; d++) {
      s->low[d] = i == 0 ? tsr__box_low(box)[d] : TSR_MIN(s->low[d], tsr__box_low(box)[d]);
      s->high[d] = i == 0 ? tsr__box_high(b, box)[d] : TSR_MAX(s->high[d], tsr__box_high(b, box)[d]);
    }
  }
  return TSR_OK;
}

static int add_cell(stream *s, const uint64_t *tile, const uint64_t *ordinals, uint64_t place, tsr_error *error) {
  const tsr_boxes *b = s->boxes;
  const uint32_t n = b->dimensions, fast = tsr__box_axis(b, 0);
  uint64_t *box;
  if (!s->open || memcmp(s->tile, tile, n * sizeof *tile) != 0) {
    TSR_TRY(end_tile(s, error));
    begin_tile(s, tile);
  }
  if (!s->crowded && s->extends && place == s->place + 1 && place % b->grid.extent[fast] != 0) {
    tsr__box_high(b, tsr__box_at(&s->parts, s->parts.count - 1))[fast]++;
    s->place = place;
    return TSR_OK;
  }
  if (!s->crowded && s->parts.count == s->most) TSR_TRY(thin_out(s, error));
  if (s->crowded) {
    for (uint32_t d = 0; d < n; d++) {
      s->low[d] = TSR_MIN(s->low[d], ordinals[d]);
      s->high[d] = TSR_MAX(s->high[d], ordinals[d]);
    }
    return TSR_OK;
  }
  TSR_TRY(box_add(&s->parts, &box, error));
  memcpy(tsr__box_low(box), ordinals, n * sizeof *ordinals);
  memcpy(tsr__box_high(b, box), ordinals, n * sizeof *ordinals);
  s->extends = true;
  s->place = place;
  return TSR_OK;
}

/* ---- The cells ------------------------------------------------------------------------------ */

static int add_cells(stream *s, const tsr_tile_request *requests, uint64_t count, tsr_error *error) {
  const tsr_boxes *b = s->boxes;
  const tsr_field *fields = b->source.schema->fields;
  uint64_t tile[TSR_MAX_DIMENSIONS], ordinals[TSR_MAX_DIMENSIONS];
  for (uint64_t i = 0; i < count; i++) {
    uint64_t place = 0;
    for (uint32_t d = 0; d < b->dimensions; d++) {
      const uint8_t *value = requests[d].tile->values + i * fields[d].cell_size;
      ordinals[d] = tsr__key(fields[d].datatype, value) - b->grid.low_key[d];
      tile[d] = ordinals[d] / b->grid.extent[d];
      place += (ordinals[d] - tile[d] * b->grid.extent[d]) * b->stride[d];
    }
    TSR_TRY(add_cell(s, tile, ordinals, place, error));
  }
  return TSR_OK;
}

/* Reads the coordinates of the runs, tile by tile. */
static int read_cells(stream *s, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  const tsr_snapshot *snapshot = b->source.spilled;
  tsr_tile_request *requests;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, b->dimensions, &requests, error));
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[f];
    for (uint64_t t = 0; t < item->fragment->metadata.tile_count; t++) {
      for (uint32_t d = 0; d < b->dimensions; d++)
        requests[d] = (tsr_tile_request){.fragment = item->fragment, .slot = (uint32_t)item->slots[d], .number = t};
      TSR_TRY(tsr__cancelled(&snapshot->array->environment->memory, error));
      TSR_TRY(tsr__tiles_load(snapshot->array, b->source.threads, requests, b->dimensions, b->source.memory, error));
      const int rc = add_cells(s, requests, tsr__fragment_tile_cells(&item->fragment->metadata, t), error);
      for (uint32_t d = 0; d < b->dimensions; d++) tsr__tile_return(requests[d].tile, b->source.memory);
      TSR_TRY(rc);
    }
  }
  return end_tile(s, error);
}

/* Fills boxes->parts from the cells of source.spilled. Errors: TSR_FULL if more parts are left than fit into memory. */
static int boxes_find_spilled(tsr_boxes *boxes, tsr_error *error) {
  stream s = {.boxes = boxes, .parts = {.width = boxes->parts.width, .numbers.memory = boxes->source.memory}};
  s.most = TSR_MAX(PARTS_MIN, boxes->source.memory->limit / 8 / PART_BYTES);
  const tsr_reader_mode mode = {.written_only = true};
  TSR_TRY(tsr__reader_open_as(boxes->source.spilled, boxes->source.memory, &mode, &boxes->spilled, error));
  const int rc = read_cells(&s, error);
  tsr__buffer_release(&s.parts.numbers);
  return rc;
}
