/* groups.h: numbers tuples of 64-bit words 0, 1, 2, ... as they appear: the groups of a query, by their keys. */
#ifndef TSR_GROUPS_H
#define TSR_GROUPS_H

#include "base/memory.h"

typedef struct tsr_groups {
  uint32_t width; /* words of a tuple */
  uint64_t count; /* tuples; below UINT32_MAX */
  uint64_t slot_count; /* a power of two */
  uint32_t *slots; /* of a hash table with open addressing: a number, or UINT32_MAX */
  tsr_buffer tuples; /* `width` words each, by number */
} tsr_groups;

/* Makes an empty table. `memory` pays for it. */
void tsr__groups_init(tsr_groups *groups, uint32_t width, tsr_memory *memory);
void tsr__groups_release(tsr_groups *groups);

/* Forgets all tuples, and keeps the memory for the next ones. */
void tsr__groups_clear(tsr_groups *groups);

/* Finds the numbers of `count` tuples, and makes those that are new; words[w][i] is word w of tuple i.
 * Errors: TSR_BUDGET. */
int tsr__groups_number(tsr_groups *groups, const uint64_t *const *words, uint64_t count, uint32_t *numbers,
                       tsr_error *error);

/* Returns the words of a tuple. */
static inline uint64_t *tsr__groups_tuple(const tsr_groups *groups, uint64_t number) {
  return (uint64_t *)(void *)groups->tuples.data + number * groups->width;
}

/* Numbers texts in the same way. A text is copied to the arena, or borrowed without one. */
typedef struct tsr_texts {
  uint64_t count, slot_count;
  uint32_t *slots;
  tsr_buffer texts; /* struct tsr_text_value, by number */
  tsr_arena *arena;
} tsr_texts;
void tsr__texts_init(tsr_texts *texts, tsr_memory *memory, tsr_arena *arena);
void tsr__texts_release(tsr_texts *texts);
void tsr__texts_clear(tsr_texts *texts);
int tsr__texts_number(tsr_texts *texts, const char *bytes, uint64_t size, uint64_t *number, tsr_error *error);
static inline const struct tsr_text_value *tsr__texts_at(const tsr_texts *texts, uint64_t number) {
  return (const struct tsr_text_value *)(const void *)texts->texts.data + number;
}

#endif
