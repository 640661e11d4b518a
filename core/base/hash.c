/* hash.c: hash indexes grow, shrink and lose items. hash.h explains them; looking up and adding is inline there. */
#include "base/hash.h"

#include "tessera_host.h"

static void add_all(tsr_hash_index *index, uint64_t count, tsr_hash_of hash_of, const void *argument) {
  for (uint64_t i = 0; i < count; i++) tsr__hash_add(index, hash_of(argument, i), i);
}

int tsr__hash_rebuild(tsr_hash_index *index, tsr_memory *memory, uint64_t room, uint64_t count, tsr_hash_of hash_of,
                      const void *argument, tsr_error *error) {
  if (room > TSR_HASH_ITEMS_MAX)
    return tsr__fail(error, TSR_TOOBIG, "a hash index of %llu items: %u at most", (unsigned long long)room,
                     TSR_HASH_ITEMS_MAX);
  tsr_hash_index grown = {.mask = tsr__hash_slots_for(room) - 1};
  TSR_TRY(TSR_ALLOC_ARRAY(memory, grown.mask + 1, &grown.slots, error));
  add_all(&grown, count, hash_of, argument);
  tsr__free(index->slots);
  *index = grown;
  return TSR_OK;
}

void tsr__hash_shrink(tsr_hash_index *index, tsr_memory *memory, uint64_t room, uint64_t count, tsr_hash_of hash_of,
                      const void *argument) {
  const uint64_t slots = tsr__hash_slots_for(room);
  if (slots >= tsr__hash_slot_count(index)) return;
  index->mask = slots - 1;
  tsr__hash_clear(index);
  add_all(index, count, hash_of, argument);
  (void)TSR_REALLOC_ARRAY(memory, slots, &index->slots, NULL); /* on failure the block stays as large as it was */
}

void tsr__hash_remove(tsr_hash_index *index, uint64_t slot, tsr_hash_of hash_of, const void *argument) {
  uint64_t hole = slot;
  uint32_t item;
  for (uint64_t i = tsr__hash_next(index, slot); tsr__hash_item(index, i, &item); i = tsr__hash_next(index, i)) {
    const uint64_t home = tsr__hash_slot(index, hash_of(argument, item));
    if (((i - home) & index->mask) < ((i - hole) & index->mask)) continue; /* its search does not cross the hole */
    index->slots[hole] = index->slots[i];
    hole = i;
  }
  index->slots[hole] = 0;
}

void tsr__hash_release(tsr_hash_index *index) {
  tsr__free(index->slots);
  *index = (tsr_hash_index){0};
}

/* One more step: the lowest bits of a tsr__hash_bytes do not depend on the last byte of a word. */
uint64_t tsr_hash(uint64_t seed, const void *bytes, uint64_t size) {
  return tsr__hash_mix(tsr__hash_bytes(seed, bytes, size), 0);
}
