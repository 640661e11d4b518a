/* sort.c: sorts sparse cells into the schema's global order.
 *
 * The order is defined by lists of numbers, the most significant first: for row- and column-major order, the space
 * tile's coordinates in tile order, then the order keys of the cell's coordinates in cell order; for Hilbert order, the
 * Hilbert code, then the coordinates in row-major order. A string is replaced by its rank, so that there are only
 * numbers to sort. The numbers are packed into words of 64 bits and radix-sorted; in Hilbert order usually by the codes
 * alone, and partly in the background, on a worker thread, while the caller still appends cells.
 *
 * The sections: strings into ranks; sorting by Hilbert codes from blocks that are sorted already; the global order in
 * general; sorting blocks in the background.
 *
 * Strings are ranked by radix sort of words of 8 bytes; strings with equal words are sorted by their next words. No
 * string is read further than needed to distinguish it from the others. The sort is stable. */
#include <string.h>
#include <stdatomic.h>

#include "write/writer.h"
#include "model/datatype.h"
#include "base/arithmetic.h"
#include "base/pool.h"
#include "model/domain.h"

/* ---- Strings into ranks --------------------------------------------------------------------- */

typedef struct rank_sorter {
  tsr_pair *pairs, *spare;
} rank_sorter;

typedef struct group { /* pairs whose strings are equal in the first `depth` bytes */
  uint64_t first, count, depth;
} group;

static inline uint64_t text_size(const tsr_column *column, uint32_t cell) {
  uint64_t i = column->constant ? 0 : cell;
  return column->offsets[i + 1] - column->offsets[i];
}
static inline const uint8_t *text_of(const tsr_column *column, uint32_t cell) {
  return (const uint8_t *)column->values + column->offsets[column->constant ? 0 : cell];
}

/* Returns the next 8 bytes, padded with zeros, so that words sort like their bytes. */
static inline uint64_t text_word(const tsr_column *column, uint32_t cell, uint64_t depth) {
  uint64_t size = text_size(column, cell), left = size > depth ? size - depth : 0;
  const uint8_t *text = text_of(column, cell) + depth;
  if (left >= 8) return tsr__load_be(text, 8);
  uint64_t word = 0;
  for (uint64_t i = 0; i < left; i++) word |= (uint64_t)text[i] << (56 - 8 * i);
  return word;
}

/* Returns how many bytes a string has after `depth`, up to 9: with 8 or fewer it ends within the next word. */
static inline uint64_t text_left(const tsr_column *column, uint32_t cell, uint64_t depth) {
  uint64_t size = text_size(column, cell);
  return size > depth ? TSR_MIN(size - depth, 9) : 0;
}

/* Splits strings with equal words by length: "a" comes before "a" and a NUL, although their words are equal. Longer
 * strings form a group to be sorted later. */
static int split_equal(rank_sorter *s, const tsr_column *column, uint64_t first, uint64_t count, uint64_t depth,
                       tsr_buffer *groups, tsr_error *error) {
  tsr_pair *pairs = s->pairs + first;
  bool differ = false;
  for (uint64_t i = 0; i < count; i++) {
    pairs[i].key = text_left(column, pairs[i].cell, depth);
    differ = differ || pairs[i].key != pairs[0].key;
  }
  if (differ) tsr__pairs_sort(pairs, s->spare + first, count);
  uint64_t over = count;
  while (over > 0 && pairs[over - 1].key == 9) over--;
  if (count - over < 2) return TSR_OK;
  group next = {first + over, count - over, depth + 8};
  return tsr__buffer_append(groups, &next, sizeof next, error);
}

static int sort_group(rank_sorter *s, const tsr_column *column, const group *g, tsr_buffer *groups, tsr_error *error) {
  tsr_pair *pairs = s->pairs + g->first;
  for (uint64_t i = 0; i < g->count; i++) pairs[i].key = text_word(column, pairs[i].cell, g->depth);
  tsr__pairs_sort(pairs, s->spare + g->first, g->count);
  for (uint64_t begin = 0; begin < g->count;) {
    uint64_t end = begin + 1, key = pairs[begin].key;
    while (end < g->count && pairs[end].key == key) end++;
    if (end - begin > 1) TSR_TRY(split_equal(s, column, g->first + begin, end - begin, g->depth, groups, error));
    begin = end;
  }
  return TSR_OK;
}

int tsr__pairs_rank(const tsr_column *column, tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_memory *memory,
                    tsr_error *error) {
  rank_sorter s = {pairs, spare};
  tsr_buffer groups = {.memory = memory};
  group whole = {0, count, 0};
  int rc = tsr__buffer_append(&groups, &whole, sizeof whole, error);
  while (rc >= 0 && groups.size) {
    group g;
    groups.size -= sizeof g;
    memcpy(&g, groups.data + groups.size, sizeof g);
    rc = sort_group(&s, column, &g, &groups, error);
  }
  tsr__buffer_release(&groups);
  uint64_t rank = 0;
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    uint32_t cell = pairs[i].cell, before = i ? pairs[i - 1].cell : cell;
    if (tsr__bytes_compare(text_of(column, before), text_size(column, before), text_of(column, cell),
                           text_size(column, cell)))
      rank++;
    pairs[i].key = rank;
  }
  return rc;
}

/* ---- Hilbert order from sorted blocks ---------------------------------------------------------------------------- */

/* Used if blocks of cells were sorted by their Hilbert codes already; the remaining blocks are sorted first. Then the
 * range of codes is cut into places of about as many cells as fit into a core's cache. A place takes its part of each
 * block, in the order of blocks, and sorts these pairs again, stably. This costs as much as a merge, for any number of
 * blocks. Equal codes are in the same place, so each place breaks its ties independently. Places are tasks for worker
 * threads.
 *
 * Invariants: bounds[block][place] is the first pair of a block whose code is not below the lower bound of the place.
 * starts[place] is the sum of these over all blocks. */

#define CODES       256u /* codes computed at a time */
#define SAMPLE_STEP 1024u /* codes are sampled at this interval to find places */
#define PLACE       8u /* minimum number of steps in a place */

typedef struct block_sorter {
  const tsr_schema *schema;
  const tsr_column *columns;
  tsr_memory *memory;
  tsr_arena arena;
  uint64_t count, block_count, place_count;
  tsr_pair *const *given;
  tsr_pair **blocks;
  uint64_t *lows; /* by place: its lowest code */
  uint32_t *bounds; /* place_count + 1 for each block */
  uint64_t *starts, *kept; /* by place: its first cell; number of cells left in it */
  uint32_t *order;
  _Atomic uint64_t ties;
} block_sorter;

static uint64_t cells_of_block(const block_sorter *s, uint64_t block) {
  return TSR_MIN(s->count - block * TSR_ORDER_BLOCK, TSR_ORDER_BLOCK);
}

static void order_codes(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                        uint64_t *codes);

/* ---- Blocks ---------------------------------------------------------------------------------- */

void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare) {
  uint64_t codes[CODES];
  for (uint64_t done = 0, n; done < count; done += n) {
    n = TSR_MIN(count - done, CODES);
    order_codes(schema, columns, first + done, n, codes);
    for (uint64_t i = 0; i < n; i++) pairs[done + i] = (tsr_pair){codes[i], (uint32_t)(number + done + i)};
  }
  tsr__pairs_sort(pairs, spare, count);
}

static int sort_missing_block(void *argument, uint64_t index, tsr_error *error) {
  block_sorter *s = argument;
  const uint64_t first = index * TSR_ORDER_BLOCK, count = cells_of_block(s, index);
  tsr_pair *spare;
  if (s->blocks[index] == s->given[index]) return TSR_OK;
  TSR_TRY(TSR_ALLOC_RAW(s->memory, count, &spare, error));
  tsr__order_block(s->schema, s->columns, first, count, first, s->blocks[index], spare);
  tsr__free(spare);
  return TSR_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static int make_places(block_sorter *s, tsr_error *error) {
  uint64_t samples = 0;
  tsr_pair *taken;
  tsr_pair *spare;
  TSR_TRY(TSR_ARENA_RAW(&s->arena, s->count / SAMPLE_STEP + 1, &taken, error));
  TSR_TRY(TSR_ARENA_RAW(&s->arena, s->count / SAMPLE_STEP + 1, &spare, error));
  tsr_pair *sample = taken;
  for (uint64_t b = 0; b < s->block_count; b++)
    for (uint64_t i = SAMPLE_STEP - 1; i < cells_of_block(s, b); i += SAMPLE_STEP)
      sample[samples++] = (tsr_pair){s->blocks[b][i].key, 0};
  tsr__pairs_sort(sample, spare, samples);
  /* if there are many blocks, each gives a place a few dozen pairs */
  const uint64_t steps = TSR_MAX(PLACE, s->block_count / 16);
  s->place_count = samples ? (samples - 1) / steps + 1 : 1;
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, 3 * (s->place_count + 1), &s->lows, error));
  s->starts = s->lows + s->place_count + 1;
  s->kept = s->starts + s->place_count + 1;
  for (uint64_t p = 1; p < s->place_count; p++) s->lows[p] = sample[p * steps].key;
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, s->block_count * (s->place_count + 1), &s->bounds, error));
  return TSR_OK;
}

static int find_bounds(void *argument, uint64_t block, tsr_error *error) {
  const block_sorter *s = argument;
  uint32_t *bounds = s->bounds + block * (s->place_count + 1);
  const tsr_pair *pairs = s->blocks[block];
  const uint64_t count = cells_of_block(s, block);
  (void)error;
  for (uint64_t p = 1, low = 0; p < s->place_count; p++) {
    uint64_t high = count;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      if (pairs[middle].key < s->lows[p]) low = middle + 1;
      else high = middle;
    }
    bounds[p] = (uint32_t)low;
  }
  bounds[s->place_count] = (uint32_t)count;
  return TSR_OK;
}

static int order_compare(const tsr_schema *schema, const tsr_column *columns, uint32_t a, uint32_t b);

/* Sets the order of the cells of a place. If the schema does not allow duplicates, only the last of equal cells
 * remains. */
static void leave_out_equal(const block_sorter *s, uint64_t place, const tsr_pair *pairs, uint64_t count) {
  uint32_t *order = s->order + s->starts[place];
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    order[kept] = pairs[i].cell;
    kept += s->schema->allows_duplicates || i + 1 == count || pairs[i].key != pairs[i + 1].key ||
            order_compare(s->schema, s->columns, pairs[i].cell, pairs[i + 1].cell) != 0;
  }
  s->kept[place] = kept;
}

static int compare_tied(const void *argument, uint32_t a, uint32_t b) {
  const block_sorter *s = argument;
  return order_compare(s->schema, s->columns, a, b);
}

static int sort_place(void *argument, uint64_t place, tsr_error *error) {
  block_sorter *s = argument;
  const uint64_t count = s->starts[place + 1] - s->starts[place];
  const uint32_t *bounds = s->bounds + place;
  uint64_t at = 0, ties = 0;
  tsr_pair *room;
  TSR_TRY(TSR_ALLOC_RAW(s->memory, 2 * count, &room, error));
  tsr_pair *pairs = room, *spare = pairs + count;
  for (uint64_t b = 0; b < s->block_count; b++, bounds += s->place_count + 1) {
    memcpy(pairs + at, s->blocks[b] + bounds[0], (bounds[1] - bounds[0]) * sizeof *pairs);
    at += bounds[1] - bounds[0];
  }
  if (count > 0) tsr__pairs_sort(pairs, spare, count);
  for (uint64_t i = 1; i < count; i++) ties += pairs[i - 1].key == pairs[i].key;
  if (tsr__order_few_ties(atomic_fetch_add(&s->ties, ties) + ties, s->count)) {
    if (ties) tsr__pairs_break_ties(pairs, spare, count, compare_tied, s);
    leave_out_equal(s, place, pairs, count);
  }
  tsr__free(room);
  return TSR_OK;
}

static int sort_places(block_sorter *s, unsigned threads, uint64_t *count, tsr_error *error) {
  uint64_t kept = 0;
  TSR_TRY(make_places(s, error));
  TSR_TRY(tsr__parallel_for(threads, s->block_count, find_bounds, s, error));
  for (uint64_t p = 0; p < s->place_count; p++) {
    s->starts[p + 1] = s->starts[p];
    for (uint64_t b = 0; b < s->block_count; b++) {
      const uint32_t *bounds = s->bounds + b * (s->place_count + 1) + p;
      s->starts[p + 1] += bounds[1] - bounds[0];
    }
  }
  TSR_TRY(tsr__parallel_for(threads, s->place_count, sort_place, s, error));
  if (!tsr__order_few_ties(s->ties, s->count)) return 0;
  for (uint64_t p = 0; p < s->place_count; p++) {
    memmove(s->order + kept, s->order + s->starts[p], s->kept[p] * sizeof *s->order);
    kept += s->kept[p];
  }
  *count = kept;
  return 1;
}

/* ---- Putting the places together --------------------------------------------------------------------------------- */

static int make_blocks(block_sorter *s, unsigned threads, tsr_pair **made, tsr_error *error) {
  uint64_t missing = 0;
  for (uint64_t b = 0; b < s->block_count; b++) missing += !s->blocks[b];
  TSR_TRY(TSR_ALLOC_RAW(s->memory, missing * TSR_ORDER_BLOCK, made, error));
  for (uint64_t b = 0, next = 0; b < s->block_count; b++)
    if (!s->blocks[b]) s->blocks[b] = *made + next++ * TSR_ORDER_BLOCK;
  return tsr__parallel_for(threads, s->block_count, sort_missing_block, s, error);
}

/* Like tsr__order_cells, from blocks that are sorted already. Returns 1; or 0, having done nothing, if too many codes
 * are equal for sorting by codes. */
static int order_blocks(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                        const tsr_sorted_blocks *sorted, uint32_t *order, uint64_t *count, tsr_error *error) {
  block_sorter s = {.schema = schema, .columns = columns, .memory = memory, .count = *count, .order = order};
  tsr_pair **room;
  tsr_pair *made = NULL;
  s.block_count = (s.count + TSR_ORDER_BLOCK - 1) / TSR_ORDER_BLOCK;
  tsr__arena_init(&s.arena, memory);
  int rc = TSR_ARENA_ARRAY(&s.arena, 2 * s.block_count, &room, error);
  if (rc >= 0) {
    tsr_pair **given = room;
    memcpy(given, sorted->blocks, TSR_MIN(sorted->count, s.block_count) * sizeof *given);
    s.given = given;
    s.blocks = given + s.block_count;
    memcpy(s.blocks, given, s.block_count * sizeof *given);
    rc = make_blocks(&s, threads, &made, error);
  }
  if (rc >= 0) rc = sort_places(&s, threads, count, error);
  tsr__free(made);
  tsr__arena_release(&s.arena);
  return rc;
}

/* ---- Global order ------------------------------------------------------------------------------------------------ */

/* Each list of numbers is reduced to the bits in which its values differ, and as many lists as fit are packed into one
 * word of 64 bits. Most arrays need only one word, which a radix sort sorts. The sort is stable, so cells with equal
 * coordinates keep the order of their numbers.
 *
 * Most Hilbert codes belong to a single cell, so cells are sorted by the codes alone, and only cells with equal codes
 * are compared. If blocks of cells have been sorted in the background, order_blocks continues from them. */

typedef struct order_sorter {
  const tsr_schema *schema;
  const tsr_column *columns;
  tsr_memory *memory;
  unsigned threads;
  uint64_t count;
  tsr_pair *pairs, *spare;
  uint64_t *numbers; /* of the current list: in `spare`, which no sort uses while there is one */
  tsr_buffer words; /* words of `count` u64 each, the least significant first */
  unsigned used, below; /* bits of the last word that are used; of the one before it */
} order_sorter;

/* ---- Lists of numbers ----------------------------------------------------------------------- */

static bool is_text(const order_sorter *s, uint32_t d) { return s->schema->fields[d].values_per_cell == TSR_VARIABLE; }

static const uint8_t *value_of(const order_sorter *s, uint32_t d, uint64_t cell) {
  const tsr_column *column = &s->columns[d];
  return (const uint8_t *)column->values + (column->constant ? 0 : cell * s->schema->fields[d].cell_size);
}

static int rank_texts(order_sorter *s, const tsr_column *column, tsr_error *error) {
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i].cell = (uint32_t)i;
  TSR_TRY(tsr__pairs_rank(column, s->pairs, s->spare, s->count, s->memory, error));
  for (uint64_t i = 0; i < s->count; i++) s->numbers[s->pairs[i].cell] = s->pairs[i].key;
  return TSR_OK;
}

static int list_coordinates(order_sorter *s, uint32_t d, tsr_error *error) {
  const tsr_field *field = &s->schema->fields[d];
  if (is_text(s, d)) return rank_texts(s, &s->columns[d], error);
  if (!s->columns[d].constant) tsr__keys(field->datatype, s->columns[d].values, s->count, s->numbers);
  else memset(s->numbers, 0, s->count * sizeof *s->numbers);
  return TSR_OK;
}

static void list_tiles(order_sorter *s, uint32_t d) {
  const tsr_field *field = &s->schema->fields[d];
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT || s->columns[d].constant) {
    for (uint64_t i = 0; i < s->count; i++) s->numbers[i] = tsr__tile_number(field, value_of(s, d, i));
    return;
  }
  uint64_t extent = 0, low = tsr__key(field->datatype, field->low);
  memcpy(&extent, field->extent, field->cell_size);
  tsr__keys(field->datatype, s->columns[d].values, s->count, s->numbers);
  for (uint64_t i = 0; i < s->count; i++) s->numbers[i] = (s->numbers[i] - low) / extent;
}

/* Computes the Hilbert codes of `count` cells from `first` on. */
static void order_codes(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                        uint64_t *codes) {
  const order_sorter s = {.schema = schema, .columns = columns};
  const void *values[TSR_MAX_DIMENSIONS];
  uint64_t sizes[TSR_MAX_DIMENSIONS] = {0};
  bool plain = true;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    plain = plain && !is_text(&s, d) && !columns[d].constant;
    values[d] = plain ? value_of(&s, d, first) : NULL;
  }
  if (plain) {
    tsr__hilbert_codes(schema, values, count, codes);
    return;
  }
  for (uint64_t i = first; i < first + count; i++) {
    for (uint32_t d = 0; d < schema->dimension_count; d++) {
      if (is_text(&s, d)) {
        const tsr_column *column = &columns[d];
        uint64_t at = column->constant ? 0 : i;
        values[d] = (const uint8_t *)column->values + column->offsets[at];
        sizes[d] = column->offsets[at + 1] - column->offsets[at];
      } else {
        values[d] = value_of(&s, d, i);
      }
    }
    codes[i - first] = tsr__hilbert_code(schema, values, sizes);
  }
}

static int list_hilbert_block(void *argument, uint64_t block, tsr_error *error) {
  const order_sorter *s = argument;
  const uint64_t first = block * TSR_ORDER_BLOCK;
  (void)error;
  order_codes(s->schema, s->columns, first, TSR_MIN(s->count - first, TSR_ORDER_BLOCK), s->numbers + first);
  return TSR_OK;
}

static int list_hilbert(order_sorter *s, tsr_error *error) {
  return tsr__parallel_for(s->threads, (s->count + TSR_ORDER_BLOCK - 1) / TSR_ORDER_BLOCK, list_hilbert_block, s,
                           error);
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Packs the current list above the lists that are packed already. */
static int pack_list(order_sorter *s, tsr_error *error) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < s->count; i++) {
    low = TSR_MIN(low, s->numbers[i]);
    high = TSR_MAX(high, s->numbers[i]);
  }
  if (low == high) return TSR_OK;
  unsigned bits = 64 - (unsigned)__builtin_clzll(high - low);
  if (!s->words.size || s->used + bits > 64) {
    TSR_TRY(tsr__buffer_reserve(&s->words, s->count * sizeof(uint64_t), error));
    s->words.size += s->count * sizeof(uint64_t);
    s->below = s->used;
    s->used = 0;
  }
  uint64_t *word = (uint64_t *)(void *)(s->words.data + s->words.size) - s->count;
  for (uint64_t i = 0; i < s->count; i++) {
    const uint64_t above = (s->numbers[i] - low) << s->used;
    word[i] = s->used ? word[i] | above : above;
  }
  s->used += bits;
  return TSR_OK;
}

/* Packs all lists, the least significant first. */
static int pack_all(order_sorter *s, tsr_error *error) {
  const tsr_schema *schema = s->schema;
  uint32_t n = schema->dimension_count;
  for (uint32_t i = 0; i < n; i++) {
    TSR_TRY(list_coordinates(s, schema->cell_order == TSR_ORDER_COL ? i : n - 1 - i, error));
    TSR_TRY(pack_list(s, error));
  }
  if (schema->cell_order == TSR_ORDER_HILBERT) {
    TSR_TRY(list_hilbert(s, error));
    return pack_list(s, error);
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d = schema->tile_order == TSR_ORDER_COL ? i : n - 1 - i;
    if (!schema->fields[d].has_extent) continue;
    list_tiles(s, d);
    TSR_TRY(pack_list(s, error));
  }
  return TSR_OK;
}

/* ---- Sorting -------------------------------------------------------------------------------- */

/* Compares two cells whose Hilbert codes are equal, by their coordinates. */
static int order_compare(const tsr_schema *schema, const tsr_column *columns, uint32_t a, uint32_t b) {
  const order_sorter s = {.schema = schema, .columns = columns};
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_column *column = &columns[d];
    if (column->constant) continue;
    if (is_text(&s, d)) {
      const uint8_t *values = column->values;
      const uint64_t *o = column->offsets;
      const int c = tsr__bytes_compare(values + o[a], o[a + 1] - o[a], values + o[b], o[b + 1] - o[b]);
      if (c) return c;
      continue;
    }
    const tsr_datatype datatype = schema->fields[d].datatype;
    const uint64_t x = tsr__key(datatype, value_of(&s, d, a)), y = tsr__key(datatype, value_of(&s, d, b));
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

static int compare_cells(const void *argument, uint32_t a, uint32_t b) {
  const order_sorter *s = argument;
  return order_compare(s->schema, s->columns, a, b);
}

static uint64_t count_ties(const tsr_pair *pairs, uint64_t count) {
  uint64_t ties = 0;
  for (uint64_t i = 1; i < count; i++) ties += pairs[i - 1].key == pairs[i].key;
  return ties;
}

/* Sorts by Hilbert codes. Returns 1; or 0 if too many codes are equal. */
static int sort_by_codes(order_sorter *s, tsr_error *error) {
  TSR_TRY(list_hilbert(s, error));
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i] = (tsr_pair){s->numbers[i], (uint32_t)i};
  (void)tsr__pairs_sort_many(s->pairs, s->spare, s->count, s->threads, NULL, NULL);
  const uint64_t ties = count_ties(s->pairs, s->count);
  if (!tsr__order_few_ties(ties, s->count)) return 0;
  if (ties) tsr__pairs_break_ties(s->pairs, s->spare, s->count, compare_cells, s);
  return 1;
}

static uint64_t word_count(const order_sorter *s) { return s->words.size / sizeof(uint64_t) / s->count; }

static const uint64_t *word_at(const order_sorter *s, uint64_t w) {
  return (const uint64_t *)(const void *)s->words.data + w * s->count;
}

/* Returns the highest bits of the last two words, as many as one has room for. */
static uint64_t top_of(const order_sorter *s, uint64_t i) {
  const uint64_t last = word_count(s) - 1, top = word_at(s, last)[i], next = word_at(s, last - 1)[i];
  const unsigned room = 64 - s->used;
  if (room == 0) return top;
  return top << room | (s->below > room ? next >> (s->below - room) : next << (room - s->below));
}

/* Compares two cells by all words, the most significant first. */
static int compare_words(const void *argument, uint32_t a, uint32_t b) {
  const order_sorter *s = argument;
  for (uint64_t w = word_count(s); w-- > 0;) {
    const uint64_t *word = word_at(s, w);
    if (word[a] != word[b]) return word[a] < word[b] ? -1 : 1;
  }
  return 0;
}

#define TOP_SAMPLE 4096u /* cells: if their highest bits differ, those of most cells do */

/* Sorts by the highest bits, and ties by all. Returns false if there is only one word for each cell, or if the highest
 * bits of too many are equal. */
static bool sort_by_top(order_sorter *s) {
  if (word_count(s) < 2 || s->count < 4 * TOP_SAMPLE) return false;
  for (uint32_t i = 0; i < TOP_SAMPLE; i++) s->pairs[i] = (tsr_pair){top_of(s, i * (s->count / TOP_SAMPLE)), i};
  tsr__pairs_sort(s->pairs, s->spare, TOP_SAMPLE);
  if (count_ties(s->pairs, TOP_SAMPLE) > 0) return false;
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i] = (tsr_pair){top_of(s, i), (uint32_t)i};
  (void)tsr__pairs_sort_many(s->pairs, s->spare, s->count, s->threads, NULL, NULL);
  const uint64_t ties = count_ties(s->pairs, s->count);
  if (!tsr__order_few_ties(ties, s->count)) return false;
  if (ties) tsr__pairs_break_ties(s->pairs, s->spare, s->count, compare_words, s);
  return true;
}

static int sort_by_words(order_sorter *s, tsr_error *error) {
  TSR_TRY(pack_all(s, error));
  if (sort_by_top(s)) return TSR_OK;
  const uint64_t *word = (const uint64_t *)(const void *)s->words.data;
  const uint64_t words = word_count(s);
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i] = (tsr_pair){0, (uint32_t)i};
  for (uint64_t w = 0; w < words; w++, word += s->count) {
    for (uint64_t i = 0; i < s->count; i++) s->pairs[i].key = word[s->pairs[i].cell];
    (void)tsr__pairs_sort_many(s->pairs, s->spare, s->count, s->threads, NULL, NULL);
  }
  return TSR_OK;
}

/* Returns true if two adjacent cells have the same coordinates. */
static bool is_equal(const order_sorter *s, bool by_codes, const tsr_pair *a, const tsr_pair *b) {
  if (a->key != b->key) return false; /* the most significant word, or the highest bits of two */
  if (by_codes) return compare_cells(s, a->cell, b->cell) == 0;
  return compare_words(s, a->cell, b->cell) == 0;
}

static int sort_cells(order_sorter *s, uint32_t *order, uint64_t *count, tsr_error *error) {
  int by_codes = s->schema->cell_order == TSR_ORDER_HILBERT ? sort_by_codes(s, error) : 0;
  TSR_TRY(by_codes);
  if (!by_codes) TSR_TRY(sort_by_words(s, error));
  uint64_t kept = 0;
  for (uint64_t i = 0; i < s->count; i++) {
    bool last =
        s->schema->allows_duplicates || i + 1 == s->count || !is_equal(s, by_codes > 0, &s->pairs[i], &s->pairs[i + 1]);
    if (last) order[kept++] = s->pairs[i].cell;
  }
  *count = kept;
  return TSR_OK;
}

uint32_t tsr__order_lists(const tsr_schema *schema) {
  uint32_t lists = schema->dimension_count + 1;
  if (schema->cell_order == TSR_ORDER_HILBERT) return lists;
  lists--;
  for (uint32_t d = 0; d < schema->dimension_count; d++) lists += schema->fields[d].has_extent;
  return lists;
}

int tsr__order_list(const tsr_schema *schema, uint32_t list, const tsr_column *columns, uint64_t count,
                    uint64_t *numbers, uint32_t *dimension, tsr_error *error) {
  const uint32_t n = schema->dimension_count;
  order_sorter s = {.schema = schema, .columns = columns, .threads = 1, .count = count, .numbers = numbers};
  uint32_t before = 0; /* lists in front of the coordinates' lists */
  if (schema->cell_order == TSR_ORDER_HILBERT) {
    before = 1;
    if (list == 0) {
      *dimension = n;
      return list_hilbert(&s, error);
    }
  } else {
    for (uint32_t k = 0; k < n; k++) {
      const uint32_t d = schema->tile_order == TSR_ORDER_COL ? n - 1 - k : k;
      if (!schema->fields[d].has_extent || before++ != list) continue;
      *dimension = n;
      list_tiles(&s, d);
      return TSR_OK;
    }
  }
  *dimension = schema->cell_order == TSR_ORDER_COL ? n - 1 - (list - before) : list - before;
  return is_text(&s, *dimension) ? TSR_OK : list_coordinates(&s, *dimension, error);
}

/* Sorts all cells at once. */
static int sort_whole(order_sorter *s, uint32_t *order, uint64_t *count, tsr_error *error) {
  tsr_pair *pairs = NULL;
  tsr_pair *spare = NULL;
  int rc = TSR_ALLOC_RAW(s->memory, s->count, &pairs, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(s->memory, s->count, &spare, error);
  s->pairs = pairs;
  s->spare = spare;
  s->numbers = (uint64_t *)(void *)spare;
  if (rc >= 0) rc = sort_cells(s, order, count, error);
  tsr__free(pairs);
  tsr__free(spare);
  tsr__buffer_release(&s->words);
  return rc;
}

int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_sorted_blocks *sorted, uint32_t *order, uint64_t *count, tsr_error *error) {
  order_sorter s = {.schema = schema, .columns = columns, .memory = memory, .threads = threads, .count = *count};
  s.words.memory = memory;
  if (s.count > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu cells are sorted at once: %u at most", (unsigned long long)s.count,
                     UINT32_MAX);
  if (!s.count) return TSR_OK;
  if (sorted && sorted->count > 0) {
    const int done = order_blocks(schema, columns, memory, threads, sorted, order, count, error);
    if (done) return done < 0 ? done : TSR_OK;
  }
  return sort_whole(&s, order, count, error);
}

/* ---- Sorting in the background ----------------------------------------------------------------------------------- */

/* The host produces rows on one thread. Whenever TSR_ORDER_BLOCK more cells are in memory, a worker gets a copy of
 * their coordinates (a copy, since columns move when they grow), computes their Hilbert codes and sorts them. Preparing
 * and spilling start from these blocks. Only one block is sorted at a time. If the worker is still busy when the next
 * block is complete, or memory is short, that block is skipped and sorted at the end.
 *
 * Invariants: block i has the cells from index i * TSR_ORDER_BLOCK on. `next` is the end of the block after the last
 * one, or UINT64_MAX. The block being sorted is one of the blocks; all blocks after it were skipped. */

static tsr_pair **block_at(const tsr_writer *w, uint64_t i) {
  return (tsr_pair **)(void *)w->cells.background.blocks.data + i;
}
static uint64_t block_count(const tsr_writer *w) { return w->cells.background.blocks.size / sizeof(tsr_pair *); }
/* Returns the number of the block being sorted. */
static uint64_t block_in_work(const tsr_writer *w) { return w->cells.background.number / TSR_ORDER_BLOCK; }

void tsr__background_sort_open(tsr_writer *writer) {
  const tsr_schema *schema = writer->schema;
  bool numbers = true;
  for (uint32_t d = 0; d < schema->dimension_count; d++) numbers = numbers && schema->fields[d].cell_size > 0;
  writer->cells.background.blocks.memory = &writer->memory;
  writer->cells.background.next = UINT64_MAX;
  if (!schema->dense && schema->cell_order == TSR_ORDER_HILBERT && numbers && writer->threads > 1)
    writer->cells.background.next = TSR_ORDER_BLOCK;
}

/* ---- The block being sorted -------------------------------------------------------------------------------------- */

static int sort_block(void *argument, uint64_t index, tsr_error *error) {
  tsr_writer *w = argument;
  tsr_background_sort *b = &w->cells.background;
  (void)index, (void)error;
  tsr__order_block(w->schema, b->columns, 0, TSR_ORDER_BLOCK, b->number, b->pairs, b->spare);
  atomic_store_explicit(&b->sorted, true, memory_order_release);
  return TSR_OK;
}

/* Waits for the block being sorted. A block that another process had begun (before a fork) is skipped. */
static void background_finish(tsr_writer *w) {
  tsr_background_sort *b = &w->cells.background;
  if (!b->working) return;
  b->working = false;
  if (tsr__job_finish(&b->job, NULL, NULL) >= 0) return;
  tsr__free(b->pairs);
  *block_at(w, block_in_work(w)) = NULL;
}

/* Allocates, once, the worker's buffers for coordinates and for the second array of pairs. */
static int background_make_room(tsr_writer *w) {
  tsr_background_sort *b = &w->cells.background;
  const tsr_schema *schema = w->schema;
  uint64_t cell = sizeof(tsr_pair);
  if (b->spare) return TSR_OK;
  for (uint32_t d = 0; d < schema->dimension_count; d++) cell += schema->fields[d].cell_size;
  const uint64_t bytes = TSR_ORDER_BLOCK * cell + schema->dimension_count * sizeof(tsr_column);
  if (bytes > w->memory.limit / 16) return TSR_BUDGET;
  TSR_TRY(TSR_ALLOC_BYTES(&w->memory, bytes, &b->spare, NULL));
  b->columns = (tsr_column *)(void *)(b->spare + TSR_ORDER_BLOCK);
  uint8_t *values = (uint8_t *)(b->columns + schema->dimension_count);
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    b->columns[d] = (tsr_column){.values = values, .cell_size = schema->fields[d].cell_size};
    values += TSR_ORDER_BLOCK * b->columns[d].cell_size;
  }
  return TSR_OK;
}

/* Gives a worker the cells from index `number` on. If memory is short, the block is skipped: its pairs stay NULL. */
static void background_start(tsr_writer *w, uint64_t number) {
  tsr_background_sort *b = &w->cells.background;
  tsr_pair *pairs = NULL;
  if (w->memory.used > w->memory.limit / 2 || background_make_room(w) < 0) return;
  if (TSR_ALLOC_RAW(&w->memory, TSR_ORDER_BLOCK, &pairs, NULL) < 0) return;
  for (uint32_t d = 0; d < w->schema->dimension_count; d++) {
    const uint64_t size = b->columns[d].cell_size;
    memcpy((void *)(uintptr_t)b->columns[d].values, w->cells.columns[d].values.data + number * size,
           TSR_ORDER_BLOCK * size);
  }
  b->number = number;
  b->pairs = *block_at(w, block_in_work(w)) = pairs;
  b->working = true;
  atomic_store_explicit(&b->sorted, false, memory_order_relaxed);
  tsr__job_start(&b->job, 1, 1, sort_block, w);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

void tsr__background_sort_start(tsr_writer *writer) {
  tsr_background_sort *b = &writer->cells.background;
  tsr_pair *none = NULL;
  const uint64_t cells = tsr__writer_in_memory(writer);
  if (b->working && atomic_load_explicit(&b->sorted, memory_order_acquire)) background_finish(writer);
  for (; cells >= b->next; b->next += TSR_ORDER_BLOCK) {
    if (tsr__buffer_append(&b->blocks, &none, sizeof none, NULL) < 0) {
      b->next = UINT64_MAX; /* until the writer is rewound to fewer cells */
      return;
    }
    if (!b->working && cells < b->next + TSR_ORDER_BLOCK) background_start(writer, b->next - TSR_ORDER_BLOCK);
  }
}

void tsr__background_sort_rewind(tsr_writer *writer, uint64_t cells) {
  tsr_background_sort *b = &writer->cells.background;
  const uint64_t whole = cells / TSR_ORDER_BLOCK;
  if (b->next == UINT64_MAX && !b->blocks.size) return;
  if (b->working && block_in_work(writer) >= whole) { /* an earlier block stays, and its worker continues */
    tsr__job_cancel(&b->job);
    b->working = false;
  }
  for (; block_count(writer) > whole; b->blocks.size -= sizeof(tsr_pair *))
    tsr__free(*block_at(writer, block_count(writer) - 1));
  /* memory may have been short for some of the complete blocks */
  b->next = (block_count(writer) + 1) * TSR_ORDER_BLOCK;
}

tsr_sorted_blocks tsr__background_sort_blocks(tsr_writer *writer) {
  background_finish(writer);
  if (!block_count(writer)) return (tsr_sorted_blocks){0};
  return (tsr_sorted_blocks){.blocks = block_at(writer, 0), .count = block_count(writer)};
}

uint64_t tsr__background_sort_bytes(const tsr_writer *writer) {
  uint64_t blocks = 0;
  for (uint64_t i = 0; i < block_count(writer); i++) blocks += *block_at(writer, i) != NULL;
  return blocks * TSR_ORDER_BLOCK * sizeof(tsr_pair);
}

void tsr__background_sort_release(tsr_writer *writer) {
  tsr__background_sort_rewind(writer, 0);
  tsr__buffer_release(&writer->cells.background.blocks);
  tsr__free(writer->cells.background.spare);
  writer->cells.background.spare = NULL;
  writer->cells.background.next = UINT64_MAX;
}
