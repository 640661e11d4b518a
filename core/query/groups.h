/* groups.h: tables that number tuples of 64-bit words, and texts, 0, 1, 2, ... as they appear: the groups of a
 * query, by their keys. */
#ifndef TSR_GROUPS_H
#define TSR_GROUPS_H

#include "base/hash.h"
#include "base/memory.h"

typedef struct tsr_groups {
  uint32_t width; /* words of a tuple */
  uint64_t count; /* tuples; below UINT32_MAX */
  tsr_hash_index index; /* of the tuples */
  tsr_buffer tuples; /* `width` words each, by number */
} tsr_groups;

/* Makes an empty table, charged to `memory`. */
void tsr__groups_init(tsr_groups *groups, uint32_t width, tsr_memory *memory);
void tsr__groups_release(tsr_groups *groups);

/* Removes all tuples, and keeps the memory for the next ones. */
void tsr__groups_clear(tsr_groups *groups);

/* Finds the numbers of `count` tuples, and adds new tuples; words[w][i] is word w of tuple i. Errors: TSR_BUDGET. */
int tsr__groups_number(tsr_groups *groups, const uint64_t *const *words, uint64_t count, uint32_t *numbers,
                       tsr_error *error);

/* Returns the words of a tuple. */
static inline uint64_t *tsr__groups_tuple(const tsr_groups *groups, uint64_t number) {
  return (uint64_t *)(void *)groups->tuples.data + number * groups->width;
}

#define TSR_NULL_REAL UINT64_C(0x7FF8000000000000) /* the word of a null REAL */

/* Converts reals to words: their bits, with -0.0 as 0.0, and every NaN as TSR_NULL_REAL. */
void tsr__words_of_reals(const double *reals, uint32_t count, uint64_t *words);

/* Finds the runs of equal tuples among at most TSR_BLOCK_CELLS: ends[r] is the tuple after run r, and the words of run
 * r move to index r. Returns the number of runs; 0, and moves nothing, if there are too many to be worthwhile. */
uint32_t tsr__runs_of_words(uint64_t *const *words, uint32_t width, uint32_t count, uint32_t *ends);

/* The same for numbers instead of words. */
uint32_t tsr__runs_of_numbers(uint32_t *numbers, uint32_t count, uint32_t *ends);

/* Numbers texts in the same way. Copies a text to the arena; without an arena, borrows it. */
typedef struct tsr_texts {
  uint64_t count;
  tsr_hash_index index;
  tsr_buffer texts; /* tsr_text_value, by number */
  tsr_arena *arena;
} tsr_texts;
void tsr__texts_init(tsr_texts *texts, tsr_memory *memory, tsr_arena *arena);
void tsr__texts_release(tsr_texts *texts);
void tsr__texts_clear(tsr_texts *texts);
int tsr__texts_number(tsr_texts *texts, const char *bytes, uint64_t size, uint64_t *number, tsr_error *error);
static inline const tsr_text_value *tsr__texts_at(const tsr_texts *texts, uint64_t number) {
  return (const tsr_text_value *)(const void *)texts->texts.data + number;
}

#endif
