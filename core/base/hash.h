/* hash.h: hashes of words and bytes, and the hash index: from a hash to the numbers of items that the caller keeps.
 *
 * An index has open addressing with linear probing and is at most half full. A slot is the number of an item plus 1, or
 * 0 if it is free. Neither keys nor hashes are in the index: the caller has the items in an array of its own and
 * compares them in the loop that every user writes, so that the comparison is inlined.
 *
 *   uint64_t slot = tsr__hash_slot(&index, hash);
 *   for (uint32_t item; tsr__hash_item(&index, slot, &item); slot = tsr__hash_next(&index, slot))
 *     if (items[item] == key) return item;
 *   tsr__hash_set(&index, slot, count++);   after tsr__hash_reserve
 *
 * Structures with several items for one key (the cache's tiles by fragment, a writer's cells by coordinates) are chains
 * of their own: probing past all equal items would take quadratic time.
 *
 * Keys that come from files or users may be crafted to collide: seed their hashes with an address or a random
 * number. */
#ifndef TSR_HASH_H
#define TSR_HASH_H

#include <string.h>

#include "base/memory.h"

/* ---- Hashes ------------------------------------------------------------------------------------------------------ */

#define TSR_HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* 2^64 divided by the golden ratio */

/* Mixes a word into a hash. Each step is a bijection of `hash`, so no bit of a seed is lost. */
static inline uint64_t tsr__hash_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * TSR_HASH_FACTOR;
  return hash ^ hash >> 32;
}

/* Mixes bytes and their number into a hash: 0, a seed, or the hash of what precedes them. Hashes differ between byte
 * orders, so they never go to disk. */
static inline uint64_t tsr__hash_bytes(uint64_t hash, const void *bytes, uint64_t size) {
  const uint8_t *at = bytes;
  uint64_t word = 0;
  hash ^= size * TSR_HASH_FACTOR;
  for (; size >= sizeof word; size -= sizeof word, at += sizeof word) {
    memcpy(&word, at, sizeof word);
    hash = tsr__hash_mix(hash, word);
  }
  if (size >= sizeof(uint32_t)) { /* the two halves overlap, which is quicker than a copy of variable size */
    uint32_t first, last;
    memcpy(&first, at, sizeof first);
    memcpy(&last, at + size - sizeof last, sizeof last);
    word = (uint64_t)last << 32 | first;
  } else if (size > 0) {
    word = (uint64_t)at[size - 1] << 16 | (uint64_t)at[size / 2] << 8 | at[0];
  } else {
    return hash;
  }
  return tsr__hash_mix(hash, word);
}

static inline uint64_t tsr__hash_text(uint64_t hash, const char *text) {
  return tsr__hash_bytes(hash, text, strlen(text));
}

/* ---- Indexes ----------------------------------------------------------------------------------------------------- */

/* `= {0}` is an index without slots, in which nothing may be looked up before tsr__hash_reserve. */
typedef struct tsr_hash_index {
  uint32_t *slots; /* the number of an item + 1; 0: free */
  uint64_t mask; /* number of slots, a power of two, less 1 */
} tsr_hash_index;

#define TSR_HASH_ITEMS_MAX (UINT32_MAX - 1) /* items of an index */

/* Returns the slot at which the search for a hash begins. Takes the high bits of a product, since only they depend on
 * all bits: callers may use a single word as its own hash. */
static inline uint64_t tsr__hash_slot(const tsr_hash_index *index, uint64_t hash) {
  return (hash * TSR_HASH_FACTOR) >> 31 & index->mask;
}

static inline uint64_t tsr__hash_next(const tsr_hash_index *index, uint64_t slot) { return (slot + 1) & index->mask; }

/* Sets *item to the number of the slot's item. Returns false if the slot is free. */
static inline bool tsr__hash_item(const tsr_hash_index *index, uint64_t slot, uint32_t *item) {
  const uint32_t found = index->slots[slot];
  *item = found - 1;
  return found != 0;
}

static inline void tsr__hash_set(tsr_hash_index *index, uint64_t slot, uint64_t item) {
  index->slots[slot] = (uint32_t)item + 1;
}

/* Puts an item that is not in the index into a slot for its hash. */
static inline void tsr__hash_add(tsr_hash_index *index, uint64_t hash, uint64_t item) {
  uint64_t slot = tsr__hash_slot(index, hash);
  while (index->slots[slot]) slot = tsr__hash_next(index, slot);
  tsr__hash_set(index, slot, item);
}

static inline uint64_t tsr__hash_slot_count(const tsr_hash_index *index) { return index->slots ? index->mask + 1 : 0; }

/* Returns how many slots `items` items need. An index of fixed size over zeroed memory of the caller's is
 * {slots, tsr__hash_slots_for(items) - 1}. */
static inline uint64_t tsr__hash_slots_for(uint64_t items) {
  uint64_t slots = 16;
  while (slots / 2 < items && slots < UINT64_C(1) << 34) slots *= 2;
  return slots;
}

/* Returns the hash of an item. */
typedef uint64_t (*tsr_hash_of)(const void *argument, uint64_t item);

/* Makes the index one of exactly the slots that `room` items need, with items 0 .. count - 1 in it.
 * On failure the index is unchanged. Errors: TSR_BUDGET, TSR_NOMEM, TSR_TOOBIG above TSR_HASH_ITEMS_MAX. */
int tsr__hash_rebuild(tsr_hash_index *index, tsr_memory *memory, uint64_t room, uint64_t count, tsr_hash_of hash_of,
                      const void *argument, tsr_error *error);

/* Makes room for `room` items: rebuilds the index if it must grow. Errors as above. */
static inline int tsr__hash_reserve(tsr_hash_index *index, tsr_memory *memory, uint64_t room, uint64_t count,
                                    tsr_hash_of hash_of, const void *argument, tsr_error *error) {
  if (room <= tsr__hash_slot_count(index) / 2) return TSR_OK;
  return tsr__hash_rebuild(index, memory, room, count, hash_of, argument, error);
}

/* The same, in the index's own memory, if that makes it smaller. Cannot fail. */
void tsr__hash_shrink(tsr_hash_index *index, tsr_memory *memory, uint64_t room, uint64_t count, tsr_hash_of hash_of,
                      const void *argument);

/* Frees a slot, and moves later items of the same run of slots back, so that no search ends early. */
void tsr__hash_remove(tsr_hash_index *index, uint64_t slot, tsr_hash_of hash_of, const void *argument);

/* Frees all slots, and keeps their memory. */
static inline void tsr__hash_clear(tsr_hash_index *index) {
  if (index->slots) memset(index->slots, 0, (index->mask + 1) * sizeof *index->slots);
}

/* Frees the memory of an index that tsr__hash_reserve has made. The index is then `{0}`. */
void tsr__hash_release(tsr_hash_index *index);

#endif
