/* write_order.c: finds the global order of sparse cells.
 *
 * A list of numbers for each cell decides, the most significant first. Row- and column-major order: the numbers of its
 * space tile in tile order, then the order keys of its coordinates in cell order. Hilbert order: its code, then its
 * coordinates in row-major order. A string counts as its rank among all strings of its dimension (unsigned bytes), so
 * that there is only one kind of number.
 *
 * Each list of numbers is reduced to the bits in which its values differ, and as many lists as fit are packed into one
 * word of 64 bits. Most arrays need one word, and a radix sort sorts it. Sorting is stable, so equal coordinates keep
 * the order of their numbers.
 *
 * Most Hilbert codes stand for one cell each, so cells are sorted by the codes alone, and only cells with equal codes
 * are compared. If blocks of cells have been sorted ahead, write_hilbert.c goes on from there. */
#include "write/write_order.h"

#include <string.h>

#include "base/pool.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "model/order.h"
#include "write/write_hilbert.h"
#include "write/write_rank.h"

typedef struct write_order_sorter {
  const tsr_schema *schema;
  const tsr_column *columns;
  tsr_memory *memory;
  unsigned threads;
  uint64_t count;
  tsr_pair *pairs, *spare;
  uint64_t *numbers; /* of the list at hand */
  tsr_buffer words; /* words of `count` u64 each, the least significant first */
  unsigned used; /* bits of the last word that are used */
} write_order_sorter;

/* ---- Lists of numbers ----------------------------------------------------------------------- */

static bool write_order_is_text(const write_order_sorter *s, uint32_t d) {
  return s->schema->fields[d].values_per_cell == TSR_VARIABLE;
}

static const uint8_t *write_order_value_of(const write_order_sorter *s, uint32_t d, uint64_t cell) {
  const tsr_column *column = &s->columns[d];
  return (const uint8_t *)column->values + (column->constant ? 0 : cell * s->schema->fields[d].cell_size);
}

static int rank_texts(write_order_sorter *s, const tsr_column *column, tsr_error *error) {
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i].cell = (uint32_t)i;
  TSR_TRY(tsr__pairs_rank(column, s->pairs, s->spare, s->count, s->memory, error));
  for (uint64_t i = 0; i < s->count; i++) s->numbers[s->pairs[i].cell] = s->pairs[i].key;
  return TSR_OK;
}

static int list_coordinates(write_order_sorter *s, uint32_t d, tsr_error *error) {
  const tsr_field *field = &s->schema->fields[d];
  if (write_order_is_text(s, d)) return rank_texts(s, &s->columns[d], error);
  if (!s->columns[d].constant) tsr__keys(field->datatype, s->columns[d].values, s->count, s->numbers);
  else memset(s->numbers, 0, s->count * sizeof *s->numbers);
  return TSR_OK;
}

static void list_tiles(write_order_sorter *s, uint32_t d) {
  const tsr_field *field = &s->schema->fields[d];
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT || s->columns[d].constant) {
    for (uint64_t i = 0; i < s->count; i++) s->numbers[i] = tsr__tile_number(field, write_order_value_of(s, d, i));
    return;
  }
  uint64_t extent = 0, low = tsr__key(field->datatype, field->low);
  memcpy(&extent, field->extent, field->cell_size);
  tsr__keys(field->datatype, s->columns[d].values, s->count, s->numbers);
  for (uint64_t i = 0; i < s->count; i++) s->numbers[i] = (s->numbers[i] - low) / extent;
}

void tsr__order_codes(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t *codes) {
  const write_order_sorter s = {.schema = schema, .columns = columns};
  const void *values[TSR_MAX_DIMENSIONS];
  uint64_t sizes[TSR_MAX_DIMENSIONS] = {0};
  bool plain = true;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    plain = plain && !write_order_is_text(&s, d) && !columns[d].constant;
    values[d] = plain ? write_order_value_of(&s, d, first) : NULL;
  }
  if (plain) {
    tsr__hilbert_codes(schema, values, count, codes);
    return;
  }
  for (uint64_t i = first; i < first + count; i++) {
    for (uint32_t d = 0; d < schema->dimension_count; d++) {
      if (write_order_is_text(&s, d)) {
        const tsr_column *column = &columns[d];
        uint64_t at = column->constant ? 0 : i;
        values[d] = (const uint8_t *)column->values + column->offsets[at];
        sizes[d] = column->offsets[at + 1] - column->offsets[at];
      } else {
        values[d] = write_order_value_of(&s, d, i);
      }
    }
    codes[i - first] = tsr__hilbert_code(schema, values, sizes);
  }
}

static int list_hilbert_block(void *argument, uint64_t block, tsr_error *error) {
  const write_order_sorter *s = argument;
  const uint64_t first = block * TSR_ORDER_BLOCK;
  (void)error;
  tsr__order_codes(s->schema, s->columns, first, TSR_MIN(s->count - first, TSR_ORDER_BLOCK), s->numbers + first);
  return TSR_OK;
}

static int list_hilbert(write_order_sorter *s, tsr_error *error) {
  return tsr__parallel_for(s->threads, (s->count + TSR_ORDER_BLOCK - 1) / TSR_ORDER_BLOCK, list_hilbert_block, s,
                           error);
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* Puts the list at hand above the lists that are packed already. */
static int write_order_pack(write_order_sorter *s, tsr_error *error) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < s->count; i++) {
    low = TSR_MIN(low, s->numbers[i]);
    high = TSR_MAX(high, s->numbers[i]);
  }
  if (low == high) return TSR_OK;
  unsigned bits = 64 - (unsigned)__builtin_clzll(high - low);
  if (!s->words.size || s->used + bits > 64) {
    TSR_TRY(tsr__buffer_reserve(&s->words, s->count * sizeof(uint64_t), error));
    memset(s->words.data + s->words.size, 0, s->count * sizeof(uint64_t));
    s->words.size += s->count * sizeof(uint64_t);
    s->used = 0;
  }
  uint64_t *word = (uint64_t *)(void *)(s->words.data + s->words.size) - s->count;
  for (uint64_t i = 0; i < s->count; i++) word[i] |= (s->numbers[i] - low) << s->used;
  s->used += bits;
  return TSR_OK;
}

/* Packs all lists, the least significant first. */
static int pack_all(write_order_sorter *s, tsr_error *error) {
  const tsr_schema *schema = s->schema;
  uint32_t n = schema->dimension_count;
  for (uint32_t i = 0; i < n; i++) {
    TSR_TRY(list_coordinates(s, schema->cell_order == TSR_ORDER_COL ? i : n - 1 - i, error));
    TSR_TRY(write_order_pack(s, error));
  }
  if (schema->cell_order == TSR_ORDER_HILBERT) {
    TSR_TRY(list_hilbert(s, error));
    return write_order_pack(s, error);
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d = schema->tile_order == TSR_ORDER_COL ? i : n - 1 - i;
    if (!schema->fields[d].has_extent) continue;
    list_tiles(s, d);
    TSR_TRY(write_order_pack(s, error));
  }
  return TSR_OK;
}

/* ---- Sorting -------------------------------------------------------------------------------- */

int tsr__order_compare(const tsr_schema *schema, const tsr_column *columns, uint32_t a, uint32_t b) {
  const write_order_sorter s = {.schema = schema, .columns = columns};
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_column *column = &columns[d];
    if (column->constant) continue;
    if (write_order_is_text(&s, d)) {
      const uint8_t *values = column->values;
      const uint64_t *o = column->offsets;
      const int c = tsr__bytes_compare(values + o[a], o[a + 1] - o[a], values + o[b], o[b + 1] - o[b]);
      if (c) return c;
      continue;
    }
    const tsr_datatype datatype = schema->fields[d].datatype;
    const uint64_t x = tsr__key(datatype, write_order_value_of(&s, d, a)),
                   y = tsr__key(datatype, write_order_value_of(&s, d, b));
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

static int write_order_compare_cells(const void *argument, uint32_t a, uint32_t b) {
  const write_order_sorter *s = argument;
  return tsr__order_compare(s->schema, s->columns, a, b);
}

/* Sorts by Hilbert codes. Returns 1; or 0 if too many codes are equal. */
static int sort_by_codes(write_order_sorter *s, tsr_error *error) {
  uint64_t ties = 0;
  TSR_TRY(list_hilbert(s, error));
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i] = (tsr_pair){s->numbers[i], (uint32_t)i};
  tsr__pairs_sort_many(s->pairs, s->spare, s->count, s->threads);
  for (uint64_t i = 1; i < s->count; i++) ties += s->pairs[i - 1].key == s->pairs[i].key;
  if (!tsr__order_few_ties(ties, s->count)) return 0;
  if (ties) tsr__pairs_sort_ties(s->pairs, s->spare, s->count, write_order_compare_cells, s);
  return 1;
}

static int sort_by_words(write_order_sorter *s, tsr_error *error) {
  TSR_TRY(pack_all(s, error));
  const uint64_t *word = (const uint64_t *)(const void *)s->words.data;
  uint64_t words = s->words.size / sizeof(uint64_t) / s->count;
  for (uint64_t i = 0; i < s->count; i++) s->pairs[i] = (tsr_pair){0, (uint32_t)i};
  for (uint64_t w = 0; w < words; w++, word += s->count) {
    for (uint64_t i = 0; i < s->count; i++) s->pairs[i].key = word[s->pairs[i].cell];
    tsr__pairs_sort_many(s->pairs, s->spare, s->count, s->threads);
  }
  return TSR_OK;
}

/* Returns true if two neighbours have the same coordinates. */
static bool is_equal(const write_order_sorter *s, bool by_codes, const tsr_pair *a, const tsr_pair *b) {
  if (a->key != b->key) return false; /* the most significant word */
  if (by_codes) return write_order_compare_cells(s, a->cell, b->cell) == 0;
  const uint64_t *word = (const uint64_t *)(const void *)s->words.data;
  for (uint64_t w = s->words.size / sizeof(uint64_t) / s->count; w > 1; w--, word += s->count)
    if (word[a->cell] != word[b->cell]) return false;
  return true;
}

static int write_order_sort_cells(write_order_sorter *s, uint32_t *order, uint64_t *count, tsr_error *error) {
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
  write_order_sorter s = {.schema = schema, .columns = columns, .threads = 1, .count = count, .numbers = numbers};
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
  return write_order_is_text(&s, *dimension) ? TSR_OK : list_coordinates(&s, *dimension, error);
}

/* Sorts all cells at once. */
static int sort_whole(write_order_sorter *s, uint32_t *order, uint64_t *count, tsr_error *error) {
  tsr_pair *pairs = NULL;
  tsr_pair *spare = NULL;
  uint64_t *numbers = NULL;
  int rc = TSR_ALLOC_RAW(s->memory, s->count, &pairs, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(s->memory, s->count, &spare, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(s->memory, s->count, &numbers, error);
  s->pairs = pairs;
  s->spare = spare;
  s->numbers = numbers;
  if (rc >= 0) rc = write_order_sort_cells(s, order, count, error);
  tsr__free(pairs);
  tsr__free(spare);
  tsr__free(numbers);
  tsr__buffer_release(&s->words);
  return rc;
}

int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error) {
  write_order_sorter s = {.schema = schema, .columns = columns, .memory = memory, .threads = threads, .count = *count};
  s.words.memory = memory;
  if (s.count > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu cells are sorted at once: %u at most", (unsigned long long)s.count,
                     UINT32_MAX);
  if (!s.count) return TSR_OK;
  if (ahead && ahead->count > 0) {
    const int done = tsr__order_blocks(schema, columns, memory, threads, ahead, order, count, error);
    if (done) return done < 0 ? done : TSR_OK;
  }
  return sort_whole(&s, order, count, error);
}
