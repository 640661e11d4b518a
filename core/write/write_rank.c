/* write_rank.c: ranks strings, so that numbers stand for them in a sort.
 *
 * Strings are sorted by words of 8 bytes; strings with equal words are sorted by their next words. No string is read
 * further than it takes to tell it from the others. The sort is stable. */
#include "write/write_rank.h"

#include <string.h>

#include "model/datatype.h"

/* ---- Strings into ranks --------------------------------------------------------------------- */

typedef struct write_rank_sorter {
  tsr_pair *pairs, *spare;
} write_rank_sorter;

typedef struct group { /* pairs whose strings are equal in the first `depth` bytes */
  uint64_t first, count, depth;
} group;

static inline uint64_t text_size(const tsr_column *column, uint32_t cell) {
  uint64_t i = column->constant ? 0 : cell;
  return column->offsets[i + 1] - column->offsets[i];
}
static inline const uint8_t *write_rank_text_of(const tsr_column *column, uint32_t cell) {
  return (const uint8_t *)column->values + column->offsets[column->constant ? 0 : cell];
}

/* Returns the next 8 bytes, with zeros behind the end, so that words sort as their bytes do. */
static inline uint64_t text_word(const tsr_column *column, uint32_t cell, uint64_t depth) {
  uint64_t size = text_size(column, cell), left = size > depth ? size - depth : 0;
  const uint8_t *text = write_rank_text_of(column, cell) + depth;
  if (left >= 8) return tsr__load_be(text, 8);
  uint64_t word = 0;
  for (uint64_t i = 0; i < left; i++) word |= (uint64_t)text[i] << (56 - 8 * i);
  return word;
}

/* Returns how many bytes a string has behind `depth`, up to 9: with 8 or fewer it ends in the next word. */
static inline uint64_t text_left(const tsr_column *column, uint32_t cell, uint64_t depth) {
  uint64_t size = text_size(column, cell);
  return size > depth ? TSR_MIN(size - depth, 9) : 0;
}

/* Splits strings with equal words by length: "a" comes before "a" and a NUL, which have the same word. Strings that are
 * longer become a group for later. */
static int split_equal(write_rank_sorter *s, const tsr_column *column, uint64_t first, uint64_t count, uint64_t depth,
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

static int sort_group(write_rank_sorter *s, const tsr_column *column, const group *g, tsr_buffer *groups,
                      tsr_error *error) {
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
  write_rank_sorter s = {pairs, spare};
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
    if (tsr__bytes_compare(write_rank_text_of(column, before), text_size(column, before),
                           write_rank_text_of(column, cell), text_size(column, cell)))
      rank++;
    pairs[i].key = rank;
  }
  return rc;
}
