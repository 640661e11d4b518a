/* write_boxes.c: cells of a dense array, of any shape, become boxes; each becomes a dense fragment.
 *
 * Cells are sorted by space tile, then by their place in it. In each tile, neighbours in a row are a box; boxes that are
 * neighbours, with the same sides otherwise, are joined, axis by axis; then across tiles. So a box of cells is one box,
 * and no cell but those given is touched. Past the number that a commit may have, boxes are joined over gaps: all those
 * of a tile, then of 2 x 2 x ... tiles, 4 x 4 ..., to the box around them, where all that lies between has been written
 * with all attributes (a snapshot says so); such cells are written again, as they are.
 *
 * Invariants: `cells` are sorted by key, each key once; a key is the number of the cell's tile, above its place in the
 * tile. Boxes are apart; `parts` each lie in one tile, or in one block of tiles.
 */
#include "ops.h"

#define ROUNDS 3 /* of joining across tiles */

typedef struct box_list { /* `width` numbers each: low and high ordinals by dimension, and a tile */
  tsr_buffer numbers;
  uint64_t width, count;
} box_list;

struct tsr_boxes {
  tsr_boxes_source source;
  tsr_arena arena;
  tsr_grid grid;
  uint32_t dimensions;
  uint64_t *stride; /* in a tile, by dimension */
  unsigned place_bits; /* of a key: the place in the tile */
  tsr_pair *cells;
  uint64_t cell_count;
  uint64_t tile_count;
  uint64_t *tile_first; /* tile_count + 1: their first cells */
  uint64_t *tile_at; /* [tile * dimensions + d], rising */
  box_list parts, boxes;
  tsr_interval *intervals;
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  uint64_t *scratch; /* ordinals: 2 by dimension */
  tsr_buffer *values, *offsets, *validity; /* a tile's cells, where some come from the snapshot */
  tsr_buffer taken;
  tsr_column *columns;
};

static uint64_t *box_at(const box_list *list, uint64_t i) {
  return (uint64_t *)(void *)list->numbers.data + i * list->width;
}
static uint64_t *low_of(uint64_t *box) { return box; }
static uint64_t *high_of(const tsr_boxes *b, uint64_t *box) { return box + b->dimensions; }
static uint64_t *tile_of(const tsr_boxes *b, uint64_t *box) { return box + 2 * (uint64_t)b->dimensions; }

/* Axes from the fastest to the slowest in cell order. */
static uint32_t axis_at(const tsr_boxes *b, uint32_t i) { return b->grid.col_major_cells ? i : b->dimensions - 1 - i; }

/* ---- Cells by tile -------------------------------------------------------------------------- */

static uint64_t ordinal_of(const tsr_boxes *b, uint32_t d, uint64_t cell) {
  const tsr_field *field = &b->source.schema->fields[d];
  const tsr_column *column = &b->source.columns[d];
  const uint8_t *values = column->values;
  return tsr__key(field->datatype, values + (column->constant ? 0 : cell) * field->cell_size) - b->grid.low_key[d];
}

static unsigned bits_of(uint64_t most) { return most ? 64 - (unsigned)__builtin_clzll(most) : 0; }

/* Numbers become ranks: 32 bits are enough. */
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

typedef struct numbering { /* of the cells: keys grow dimension by dimension */
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
  if (n->bits + bits > 64 && n->bits > 32) n->bits = rank(b->cells, spare, count, n->keys);
  if (n->bits + bits > 64) bits = rank(b->cells, spare, count, n->tiles);
  for (uint64_t i = 0; i < count; i++) n->keys[i] = bits < 64 ? n->keys[i] << bits | n->tiles[i] : n->tiles[i];
  n->bits += bits;
}

/* Sorts the cells; of equals the last stays. */
static void sort_cells(tsr_boxes *b, tsr_pair *spare, numbering *n) {
  const uint64_t count = b->source.count;
  for (uint32_t d = 0; d < b->dimensions; d++) number_dimension(b, d, spare, n);
  b->place_bits = bits_of(b->grid.tile_cells - 1);
  if (n->bits + b->place_bits > 64) rank(b->cells, spare, count, n->keys);
  for (uint64_t i = 0; i < count; i++)
    b->cells[i] = (tsr_pair){n->keys[i] << b->place_bits | n->places[i], (uint32_t)i};
  tsr__pairs_sort(b->cells, spare, count);
  b->cell_count = 0;
  for (uint64_t i = 0; i < count; i++)
    if (i + 1 == count || b->cells[i].key != b->cells[i + 1].key) b->cells[b->cell_count++] = b->cells[i];
}

static int find_cells(tsr_boxes *b, tsr_error *error) {
  const uint64_t count = b->source.count;
  void *pairs, *spare = NULL, *numbers = NULL;
  TSR_TRY(tsr__arena_alloc(&b->arena, tsr__mul_sat(count, sizeof(tsr_pair)), &pairs, error));
  b->cells = pairs;
  int code = tsr__alloc(b->source.memory, tsr__mul_sat(count, sizeof(tsr_pair)), &spare, error);
  if (code >= 0) code = tsr__alloc_array(b->source.memory, 3 * count, sizeof(uint64_t), &numbers, error);
  if (code >= 0) {
    uint64_t *all = numbers;
    numbering n = {all, all + count, all + 2 * count, 0};
    sort_cells(b, spare, &n);
  }
  tsr__free(numbers);
  tsr__free(spare);
  return code;
}

static int find_tiles(tsr_boxes *b, tsr_error *error) {
  void *room;
  const unsigned bits = b->place_bits;
  b->tile_count = 1;
  for (uint64_t i = 1; i < b->cell_count; i++) b->tile_count += b->cells[i].key >> bits != b->cells[i - 1].key >> bits;
  TSR_TRY(tsr__arena_array(&b->arena, b->tile_count + 1, sizeof(uint64_t), &room, error));
  b->tile_first = room;
  TSR_TRY(tsr__arena_array(&b->arena, tsr__mul_sat(b->tile_count, b->dimensions), sizeof(uint64_t), &room, error));
  b->tile_at = room;
  uint64_t tile = 0;
  for (uint64_t i = 0; i < b->cell_count; i++) {
    if (i && b->cells[i].key >> bits == b->cells[i - 1].key >> bits) continue;
    b->tile_first[tile] = i;
    for (uint32_t d = 0; d < b->dimensions; d++)
      b->tile_at[tile * b->dimensions + d] = ordinal_of(b, d, b->cells[i].cell) / b->grid.extent[d];
    tile++;
  }
  b->tile_first[tile] = b->cell_count;
  return TSR_OK;
}

static uint64_t place_at(const tsr_boxes *b, uint64_t i) {
  return b->cells[i].key & ((UINT64_C(1) << b->place_bits) - 1);
}

/* A place in a tile as ordinals of the array. */
static void ordinals_at(const tsr_boxes *b, const uint64_t *tile, uint64_t place, uint64_t *ordinals) {
  for (uint32_t i = b->dimensions; i-- > 0;) { /* the slowest axis first */
    uint32_t d = axis_at(b, i);
    uint64_t within = place / b->stride[d];
    place -= within * b->stride[d];
    ordinals[d] = tile[d] * b->grid.extent[d] + within;
  }
}

/* The tile's number among those that have cells; tile_count if it has none. */
static uint64_t find_tile(const tsr_boxes *b, const uint64_t *tile) {
  uint64_t low = 0, high = b->tile_count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    const uint64_t *at = b->tile_at + middle * b->dimensions;
    uint32_t d = 0;
    while (d + 1 < b->dimensions && at[d] == tile[d]) d++;
    if (at[d] == tile[d]) return middle;
    if (at[d] < tile[d]) low = middle + 1;
    else high = middle;
  }
  return b->tile_count;
}

static bool has_cell(const tsr_boxes *b, uint64_t tile, uint64_t place) {
  uint64_t low = b->tile_first[tile], high = b->tile_first[tile + 1], end = high;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (place_at(b, middle) < place) low = middle + 1;
    else high = middle;
  }
  return low < end && place_at(b, low) == place;
}

/* ---- Boxes of neighbours -------------------------------------------------------------------- */

static int add_box(box_list *list, uint64_t **box, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&list->numbers, list->width * sizeof(uint64_t), error));
  memset(list->numbers.data + list->numbers.size, 0, list->width * sizeof(uint64_t));
  list->numbers.size += list->width * sizeof(uint64_t);
  *box = box_at(list, list->count++);
  return TSR_OK;
}

static int copy_boxes(const box_list *from, box_list *to, tsr_error *error) {
  to->numbers.size = to->count = 0;
  TSR_TRY(tsr__buffer_append(&to->numbers, from->numbers.data, from->numbers.size, error));
  to->count = from->count;
  return TSR_OK;
}

/* Cells that follow each other on the fastest axis. */
static int find_runs(tsr_boxes *b, tsr_error *error) {
  const uint32_t fast = axis_at(b, 0);
  const uint64_t row = b->grid.extent[fast];
  for (uint64_t tile = 0; tile < b->tile_count; tile++)
    for (uint64_t i = b->tile_first[tile]; i < b->tile_first[tile + 1];) {
      uint64_t first = place_at(b, i), end = (first / row + 1) * row, count = 1, *box;
      while (i + count < b->tile_first[tile + 1] && first + count < end && place_at(b, i + count) == first + count)
        count++;
      TSR_TRY(add_box(&b->parts, &box, error));
      ordinals_at(b, b->tile_at + tile * b->dimensions, first, low_of(box));
      memcpy(high_of(b, box), low_of(box), b->dimensions * sizeof(uint64_t));
      high_of(b, box)[fast] += count - 1;
      *tile_of(b, box) = tile;
      i += count;
    }
  return TSR_OK;
}

/* Sorts by the numbers `from`, `from` + 1 .. of the boxes, but for those of `axis`, whose low end counts least. */
static void sort_boxes(const tsr_boxes *b, const box_list *list, uint32_t axis, bool in_tiles, tsr_pair *pairs,
                       tsr_pair *spare) {
  const uint32_t n = b->dimensions;
  for (uint64_t i = 0; i < list->count; i++) pairs[i] = (tsr_pair){low_of(box_at(list, i))[axis], (uint32_t)i};
  tsr__pairs_sort(pairs, spare, list->count);
  for (uint32_t k = 0; k < 2 * n + in_tiles; k++) {
    if (k % n == axis && k < 2 * n) continue;
    for (uint64_t i = 0; i < list->count; i++) pairs[i].key = box_at(list, pairs[i].cell)[k];
    tsr__pairs_sort(pairs, spare, list->count);
  }
}

static bool are_neighbours(const tsr_boxes *b, uint64_t *a, uint64_t *c, uint32_t axis, bool in_tiles) {
  const uint32_t n = b->dimensions;
  for (uint32_t k = 0; k < 2 * n + in_tiles; k++)
    if (a[k] != c[k] && (k % n != axis || k == 2 * n)) return false;
  return high_of(b, a)[axis] + 1 == low_of(c)[axis];
}

/* Boxes that are neighbours on an axis, with the same sides otherwise, become one. */
static int join(const tsr_boxes *b, box_list *list, uint32_t axis, bool in_tiles, tsr_error *error) {
  void *pairs = NULL, *spare = NULL;
  box_list joined = {.numbers.memory = b->source.memory, .width = list->width};
  int code = tsr__alloc(b->source.memory, list->count * sizeof(tsr_pair), &pairs, error);
  if (code >= 0) code = tsr__alloc(b->source.memory, list->count * sizeof(tsr_pair), &spare, error);
  if (code >= 0) {
    sort_boxes(b, list, axis, in_tiles, pairs, spare);
    const tsr_pair *sorted = pairs;
    uint64_t *last = NULL;
    for (uint64_t i = 0; i < list->count && code >= 0; i++) {
      uint64_t *next = box_at(list, sorted[i].cell);
      if (last && are_neighbours(b, last, next, axis, in_tiles)) {
        high_of(b, last)[axis] = high_of(b, next)[axis];
        continue;
      }
      code = add_box(&joined, &last, error);
      if (code >= 0) memcpy(last, next, list->width * sizeof(uint64_t));
    }
  }
  tsr__free(pairs);
  tsr__free(spare);
  if (code < 0) {
    tsr__buffer_release(&joined.numbers);
    return code;
  }
  tsr__buffer_release(&list->numbers);
  *list = joined;
  return TSR_OK;
}

/* boxes = parts, joined where they are neighbours. */
static int join_parts(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(copy_boxes(&b->parts, &b->boxes, error));
  for (uint32_t round = 0; round < ROUNDS; round++) {
    uint64_t before = b->boxes.count;
    for (uint32_t i = 0; i < b->dimensions && b->boxes.count > 1; i++)
      TSR_TRY(join(b, &b->boxes, axis_at(b, i), false, error));
    if (b->boxes.count == before) break;
  }
  return TSR_OK;
}

/* ---- Gaps ----------------------------------------------------------------------------------- */

static void interval_of(const tsr_boxes *b, uint32_t d, uint64_t low, uint64_t high, tsr_interval *interval) {
  tsr_datatype datatype = b->source.schema->fields[d].datatype;
  *interval = (tsr_interval){0};
  tsr__key_value(datatype, b->grid.low_key[d] + low, interval->low);
  tsr__key_value(datatype, b->grid.low_key[d] + high, interval->high);
}

/* A reader of what the snapshot has between two corners. */
static int start_reader(tsr_boxes *b, const uint64_t *low, const uint64_t *high, bool attributes, tsr_error *error) {
  tsr_arena arena;
  void *room[4];
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  const uint64_t sizes[] = {sizeof(tsr_interval), sizeof(tsr_range), sizeof(tsr_ranges), sizeof(bool)};
  int code = TSR_OK;
  if (!b->reader) TSR_TRY(tsr_reader_open(b->snapshot, &b->reader, error));
  tsr__arena_init(&arena, b->source.memory);
  for (int i = 0; i < 4 && code >= 0; i++) code = tsr__arena_array(&arena, fields, sizes[i], &room[i], error);
  if (code >= 0) {
    tsr_interval *ends = room[0];
    tsr_range *one = room[1];
    tsr_ranges *ranges = room[2];
    bool *wanted = room[3];
    for (uint32_t d = 0; d < n; d++) {
      interval_of(b, d, low[d], high[d], &ends[d]);
      one[d] = (tsr_range){.low = ends[d].low, .high = ends[d].high};
      ranges[d] = (tsr_ranges){.ranges = &one[d], .count = 1};
    }
    for (uint32_t f = n; f < fields; f++) wanted[f] = true;
    const tsr_request request = {
        .dimensions = ranges, .fields = attributes ? wanted : NULL, .threads = b->source.threads};
    code = tsr_reader_start(b->reader, &request, error);
  }
  tsr__arena_release(&arena);
  return code;
}

/* The ordinals, tile and place of a row. */
static void locate(const tsr_boxes *b, const tsr_column *const *columns, uint64_t index, uint64_t *tile,
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

static int load_coordinates(tsr_boxes *b, const tsr_column **columns, tsr_error *error) {
  for (uint32_t d = 0; d < b->dimensions; d++) TSR_TRY(tsr_reader_column(b->reader, d, &columns[d], error));
  return TSR_OK;
}

/* How many cells of the box are given, but lie where a snapshot has nothing: outside its non-empty domain. */
static uint64_t count_outside(const tsr_boxes *b, const uint64_t *low, const uint64_t *high) {
  const tsr_snapshot *snapshot = b->snapshot;
  uint64_t outside = 0, *at = b->scratch;
  for (uint64_t tile = 0; tile < b->tile_count; tile++) {
    const uint64_t *tile_at = b->tile_at + tile * b->dimensions;
    bool meets = true;
    for (uint32_t d = 0; d < b->dimensions; d++)
      meets = meets && tile_at[d] >= low[d] / b->grid.extent[d] && tile_at[d] <= high[d] / b->grid.extent[d];
    for (uint64_t i = b->tile_first[tile]; i < b->tile_first[tile + 1] && meets; i++) {
      bool in_box = true, in_domain = snapshot->has_domain;
      ordinals_at(b, tile_at, place_at(b, i), at);
      for (uint32_t d = 0; d < b->dimensions; d++) {
        in_box = in_box && at[d] >= low[d] && at[d] <= high[d];
        in_domain = in_domain && at[d] >= snapshot->box_low[d] && at[d] <= snapshot->box_high[d];
      }
      outside += in_box && !in_domain;
    }
  }
  return outside;
}

/* Has a fragment all attributes? Cells of one that lacks some would get them if they were written again. */
static bool is_whole(const tsr_boxes *b, uint64_t fragment) {
  bool whole = true;
  for (uint32_t f = b->dimensions; f < b->dimensions + b->source.schema->attribute_count; f++)
    whole = whole && tsr_fragment_has(b->snapshot, fragment, f);
  return whole;
}

/* 1 if all cells of the box have been written, with all attributes, or are about to be; 0 if not. */
static int is_covered(tsr_boxes *b, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const tsr_column *columns[TSR_MAX_DIMENSIONS];
  uint64_t left = 1; /* cells that were not met */
  for (uint32_t d = 0; d < b->dimensions; d++) left = tsr__mul_sat(left, high[d] - low[d] + 1);
  TSR_TRY(start_reader(b, low, high, false, error));
  for (;;) {
    const tsr_batch *batch;
    int code = tsr_reader_next(b->reader, &batch, error);
    if (code < 0) return code;
    if (!code) return left == (left ? count_outside(b, low, high) : 0);
    left -= batch->count;
    if (batch->written && is_whole(b, batch->fragment)) continue;
    TSR_TRY(load_coordinates(b, columns, error));
    for (uint64_t r = 0; r < batch->count; r++) {
      uint64_t place, *tile = b->scratch;
      locate(b, columns, tsr_batch_index(batch, r), tile, &place);
      uint64_t number = find_tile(b, tile);
      if (number == b->tile_count || !has_cell(b, number, place)) return 0;
    }
  }
}

/* Parts in one block of 2^level tiles a side stand together: sorted[]; their last number is the block's. */
static void sort_blocks(tsr_boxes *b, unsigned level, tsr_pair *sorted, tsr_pair *spare) {
  for (uint64_t i = 0; i < b->parts.count; i++) sorted[i].cell = (uint32_t)i;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    for (uint64_t i = 0; i < b->parts.count; i++)
      sorted[i].key = low_of(box_at(&b->parts, sorted[i].cell))[d] / b->grid.extent[d] >> level;
    tsr__pairs_sort(sorted, spare, b->parts.count);
  }
}

static bool in_one_block(const tsr_boxes *b, unsigned level, uint64_t *a, uint64_t *c) {
  for (uint32_t d = 0; d < b->dimensions; d++)
    if (low_of(a)[d] / b->grid.extent[d] >> level != low_of(c)[d] / b->grid.extent[d] >> level) return false;
  return true;
}

/* sorted[begin..end) become one box if nothing in it is unwritten; else they are `hopeless`, and so is all around. */
#define HOPELESS UINT64_MAX /* in place of the tile */
static int join_block(tsr_boxes *b, const tsr_pair *sorted, uint64_t begin, uint64_t end, box_list *out,
                      tsr_error *error) {
  const uint32_t n = b->dimensions;
  uint64_t *low = b->scratch + 2 * n, *high = b->scratch + 3 * n, *box;
  bool hopeless = false;
  for (uint64_t i = begin; i < end; i++) {
    box = box_at(&b->parts, sorted[i].cell);
    hopeless = hopeless || *tile_of(b, box) == HOPELESS;
    for (uint32_t d = 0; d < n; d++) {
      low[d] = i == begin ? low_of(box)[d] : TSR_MIN(low[d], low_of(box)[d]);
      high[d] = i == begin ? high_of(b, box)[d] : TSR_MAX(high[d], high_of(b, box)[d]);
    }
  }
  if (end - begin > 1 && !hopeless) {
    int code = is_covered(b, low, high, error);
    if (code < 0) return code;
    if (code) {
      TSR_TRY(add_box(out, &box, error));
      memcpy(low_of(box), low, n * sizeof *low);
      memcpy(high_of(b, box), high, n * sizeof *high);
      return TSR_OK;
    }
    hopeless = true;
  }
  for (uint64_t i = begin; i < end; i++) {
    TSR_TRY(add_box(out, &box, error));
    memcpy(box, box_at(&b->parts, sorted[i].cell), out->width * sizeof *box);
    if (hopeless) *tile_of(b, box) = HOPELESS;
  }
  return TSR_OK;
}

/* Joins the parts of each block; *blocks: how many there are. */
static int join_blocks(tsr_boxes *b, unsigned level, uint64_t *blocks, tsr_error *error) {
  void *sorted = NULL, *spare = NULL;
  box_list out = {.numbers.memory = b->source.memory, .width = b->parts.width};
  int code = tsr__alloc(b->source.memory, b->parts.count * sizeof(tsr_pair), &sorted, error);
  if (code >= 0) code = tsr__alloc(b->source.memory, b->parts.count * sizeof(tsr_pair), &spare, error);
  if (code >= 0) sort_blocks(b, level, sorted, spare);
  const tsr_pair *pairs = sorted;
  *blocks = 0;
  for (uint64_t begin = 0, end; begin < b->parts.count && code >= 0; begin = end) {
    end = begin + 1;
    while (end < b->parts.count &&
           in_one_block(b, level, box_at(&b->parts, pairs[begin].cell), box_at(&b->parts, pairs[end].cell)))
      end++;
    ++*blocks;
    code = join_block(b, pairs, begin, end, &out, error);
  }
  tsr__free(sorted);
  tsr__free(spare);
  if (code < 0) {
    tsr__buffer_release(&out.numbers);
    return code;
  }
  tsr__buffer_release(&b->parts.numbers);
  b->parts = out;
  return TSR_OK;
}

static int too_many(const tsr_boxes *b, uint64_t exact, tsr_error *error) {
  return tsr__fail(error, TSR_FULL,
                   "these cells are %llu separate boxes, and cells between them were never written: a commit has %llu "
                   "at most; tessera_write_npy writes one box at a time",
                   (unsigned long long)exact, (unsigned long long)b->source.most);
}

static int join_over_gaps(tsr_boxes *b, tsr_error *error) {
  uint64_t blocks = 2, exact = b->boxes.count;
  if (!b->source.open_snapshot) return too_many(b, exact, error);
  TSR_TRY(b->source.open_snapshot(b->source.argument, &b->snapshot, error));
  for (unsigned level = 0; level < 64 && blocks > 1 && b->boxes.count > b->source.most; level++) {
    TSR_TRY(join_blocks(b, level, &blocks, error));
    TSR_TRY(join_parts(b, error));
  }
  return b->boxes.count > b->source.most ? too_many(b, exact, error) : TSR_OK;
}

/* ---- Open and close ------------------------------------------------------------------------- */

static int prepare(tsr_boxes *b, tsr_error *error) {
  const tsr_schema *schema = b->source.schema;
  const uint32_t n = schema->dimension_count, fields = n + schema->attribute_count;
  void *room;
  TSR_TRY(tsr__grid_make(schema, &b->arena, &b->grid, error));
  b->dimensions = n;
  TSR_TRY(tsr__arena_array(&b->arena, 5 * (uint64_t)n, sizeof(uint64_t), &room, error));
  b->scratch = room;
  b->stride = b->scratch + 4 * (uint64_t)n;
  uint64_t stride = 1;
  for (uint32_t i = 0; i < n; i++) {
    b->stride[axis_at(b, i)] = stride;
    stride *= b->grid.extent[axis_at(b, i)];
  }
  TSR_TRY(tsr__arena_array(&b->arena, 3 * (uint64_t)fields, sizeof(tsr_buffer), &room, error));
  b->values = room;
  b->offsets = b->values + fields;
  b->validity = b->offsets + fields;
  for (uint32_t f = 0; f < 3 * fields; f++) b->values[f].memory = b->source.memory;
  b->taken.memory = b->source.memory;
  TSR_TRY(tsr__arena_array(&b->arena, fields, sizeof(tsr_column), &room, error));
  b->columns = room;
  b->parts.width = b->boxes.width = 2 * (uint64_t)n + 1;
  b->parts.numbers.memory = b->boxes.numbers.memory = b->source.memory;
  if (b->source.count <= UINT32_MAX) return TSR_OK;
  return tsr__fail(error, TSR_TOOBIG, "%llu cells in one commit: %u at most", (unsigned long long)b->source.count,
                   UINT32_MAX);
}

static int find_boxes(tsr_boxes *b, tsr_error *error) {
  TSR_TRY(prepare(b, error));
  if (!b->source.count) return TSR_OK;
  TSR_TRY(find_cells(b, error));
  TSR_TRY(find_tiles(b, error));
  TSR_TRY(find_runs(b, error));
  for (uint32_t i = 1; i < b->dimensions; i++) TSR_TRY(join(b, &b->parts, axis_at(b, i), true, error));
  TSR_TRY(join_parts(b, error));
  if (b->source.most && b->boxes.count > b->source.most) TSR_TRY(join_over_gaps(b, error));
  void *room;
  TSR_TRY(tsr__arena_array(&b->arena, tsr__mul_sat(b->boxes.count, b->dimensions), sizeof(tsr_interval), &room, error));
  b->intervals = room;
  for (uint64_t i = 0; i < b->boxes.count; i++) {
    uint64_t *box = box_at(&b->boxes, i);
    for (uint32_t d = 0; d < b->dimensions; d++)
      interval_of(b, d, low_of(box)[d], high_of(b, box)[d], &b->intervals[i * b->dimensions + d]);
  }
  return TSR_OK;
}

int tsr__boxes_open(const tsr_boxes_source *source, tsr_boxes **boxes, tsr_error *error) {
  void *block;
  TSR_TRY(tsr__alloc_zero(source->memory, sizeof(tsr_boxes), &block, error));
  tsr_boxes *b = block;
  b->source = *source;
  tsr__arena_init(&b->arena, source->memory);
  int code = find_boxes(b, error);
  if (code < 0) {
    tsr__boxes_close(b);
    return code;
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
  tsr_snapshot_close(boxes->snapshot);
  if (boxes->values) {
    const uint32_t fields = boxes->dimensions + boxes->source.schema->attribute_count;
    for (uint32_t i = 0; i < 3 * fields; i++) tsr__buffer_release(&boxes->values[i]);
  }
  tsr__buffer_release(&boxes->taken);
  tsr__buffer_release(&boxes->parts.numbers);
  tsr__buffer_release(&boxes->boxes.numbers);
  tsr__arena_release(&boxes->arena);
  tsr__free(boxes);
}

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct filler {
  tsr_boxes *boxes;
  uint64_t *box;
} filler;

/* order[] = the numbers of the given cells of this tile that lie in the box; how many. */
static uint64_t place_cells(const filler *f, const uint64_t *tile, uint64_t *order) {
  const tsr_boxes *b = f->boxes;
  uint64_t number = find_tile(b, tile), placed = 0;
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) order[i] = TSR_NO_CELL;
  if (number == b->tile_count) return 0;
  bool all = true;
  for (uint32_t d = 0; d < b->dimensions; d++)
    all = all && low_of(f->box)[d] <= tile[d] * b->grid.extent[d] &&
          high_of(b, f->box)[d] - tile[d] * b->grid.extent[d] >= b->grid.extent[d] - 1;
  for (uint64_t i = b->tile_first[number]; i < b->tile_first[number + 1]; i++) {
    bool inside = true;
    if (!all) {
      ordinals_at(b, tile, place_at(b, i), b->scratch);
      for (uint32_t d = 0; d < b->dimensions; d++)
        inside = inside && b->scratch[d] >= low_of(f->box)[d] && b->scratch[d] <= high_of(b, f->box)[d];
    }
    if (inside) order[place_at(b, i)] = b->cells[i].cell;
    placed += inside;
  }
  return placed;
}

/* Appends a cell of a column to those of the tile. */
static int copy_cell(tsr_boxes *b, uint32_t f, const tsr_column *column, uint64_t index, tsr_error *error) {
  const tsr_field *field = &b->source.schema->fields[f];
  const uint8_t *values = column->values;
  if (column->constant) index = 0;
  if (field->cell_size)
    TSR_TRY(tsr__buffer_append(&b->values[f], values + index * field->cell_size, field->cell_size, error));
  else {
    uint64_t at = column->offsets[index];
    TSR_TRY(tsr__buffer_append(&b->values[f], values + at, column->offsets[index + 1] - at, error));
    TSR_TRY(tsr__buffer_append_u64(&b->offsets[f], b->values[f].size, error));
  }
  if (!field->nullable) return TSR_OK;
  return tsr__buffer_append_u8(&b->validity[f], !column->validity || column->validity[index], error);
}

static int copy_cells(tsr_boxes *b, const tsr_column *columns, uint64_t index, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t f = n; f < fields; f++) TSR_TRY(copy_cell(b, f, &columns[f], index, error));
  return TSR_OK;
}

/* The rows of a batch that stand where no cell is yet: their indices in `taken`, their places numbered from `next`. */
static int take_rows(tsr_boxes *b, const tsr_batch *batch, uint64_t *order, uint64_t *next, tsr_error *error) {
  const tsr_column *coordinates[TSR_MAX_DIMENSIONS];
  TSR_TRY(load_coordinates(b, coordinates, error));
  b->taken.size = 0;
  for (uint64_t r = 0; r < batch->count; r++) {
    uint64_t place, index = tsr_batch_index(batch, r);
    locate(b, coordinates, index, b->scratch, &place);
    if (order[place] != TSR_NO_CELL) continue;
    order[place] = (*next)++;
    TSR_TRY(tsr__buffer_append_u64(&b->taken, index, error));
  }
  return TSR_OK;
}

/* What the snapshot has between the corners in scratch, but where there are cells already. */
static int add_present(tsr_boxes *b, uint64_t *order, uint64_t next, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  TSR_TRY(start_reader(b, b->scratch + 2 * n, b->scratch + 3 * n, true, error));
  for (;;) {
    const tsr_batch *batch;
    const tsr_column *column;
    int code = tsr_reader_next(b->reader, &batch, error);
    if (code <= 0) return code;
    TSR_TRY(take_rows(b, batch, order, &next, error));
    for (uint32_t f = n; f < fields && b->taken.size; f++) {
      TSR_TRY(tsr_reader_column(b->reader, f, &column, error));
      for (uint64_t at = 0; at < b->taken.size; at += 8)
        TSR_TRY(copy_cell(b, f, column, tsr__load64(b->taken.data + at), error));
    }
  }
}

static int fill_tile(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                     tsr_error *error) {
  filler *f = argument;
  tsr_boxes *b = f->boxes;
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  uint64_t wanted = 1, placed = place_cells(f, tile, order), next = 0;
  uint64_t *low = b->scratch + 2 * n, *high = b->scratch + 3 * n;
  for (uint32_t d = 0; d < n; d++) {
    uint64_t base = tile[d] * b->grid.extent[d];
    low[d] = TSR_MAX(low_of(f->box)[d], base);
    high[d] = high_of(b, f->box)[d] - base < b->grid.extent[d] ? high_of(b, f->box)[d] : base + b->grid.extent[d] - 1;
    wanted *= high[d] - low[d] + 1;
  }
  *columns = b->source.columns;
  if (placed == wanted) return TSR_OK;
  for (uint32_t i = 0; i < 3 * fields; i++) b->values[i].size = 0;
  for (uint32_t i = n; i < fields; i++)
    if (!b->source.schema->fields[i].cell_size) TSR_TRY(tsr__buffer_append_u64(&b->offsets[i], 0, error));
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) {
    if (order[i] == TSR_NO_CELL) continue;
    TSR_TRY(copy_cells(b, b->source.columns, order[i], error));
    order[i] = next++;
  }
  TSR_TRY(add_present(b, order, next, error));
  for (uint32_t i = n; i < fields; i++)
    b->columns[i] = (tsr_column){.values = b->values[i].data,
                                 .offsets = (const uint64_t *)(const void *)b->offsets[i].data,
                                 .validity = b->source.schema->fields[i].nullable ? b->validity[i].data : NULL,
                                 .cell_size = b->source.schema->fields[i].cell_size};
  *columns = b->columns;
  return TSR_OK;
}

int tsr__boxes_write(tsr_boxes *boxes, uint64_t index, const tsr_fragment_target *target, tsr_error *error) {
  filler f = {boxes, box_at(&boxes->boxes, index)};
  return tsr__write_dense_tiles(target, fill_tile, &f, error);
}
