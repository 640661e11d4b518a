/* groups.c: hash tables with open addressing that number tuples and texts as they appear.
 *
 * Sections: tuples; runs of equal tuples, which are found first so that each run is hashed once; texts.
 */
#include "query/groups.h"

#include <string.h>

#include "base/arithmetic.h"
#include "query/program.h"
#include "model/datatype.h"

#define GROUPS_SLOTS_MIN 64u
#define GROUPS_NONE      UINT32_MAX
#define GROUPS_MAX       (UINT32_C(1) << 30) /* so that 32 bits of a hash suffice to choose a slot */

#define GROUPS_FACTOR UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t groups_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * GROUPS_FACTOR;
  return hash ^ hash >> 32;
}

/* Returns the slot where the search for a hash begins. Uses the high bits of a product, since only they depend on all
 * bits: the words of REALs often have zeros in the low bits. */
static inline uint64_t groups_slot(uint64_t hash, uint64_t slot_count) {
  return (hash * GROUPS_FACTOR) >> 32 & (slot_count - 1);
}

static uint64_t groups_hash(const tsr_groups *groups, uint64_t number) {
  const uint64_t *tuple = tsr__groups_tuple(groups, number);
  uint64_t hash = 0;
  for (uint32_t w = 0; w < groups->width; w++) hash = groups_mix(hash, tuple[w]);
  return hash;
}

static uint64_t texts_hash(const char *bytes, uint64_t size) {
  uint64_t hash = size;
  for (; size >= 8; size -= 8, bytes += 8) hash = groups_mix(hash, tsr__load64(bytes));
  for (; size > 0; size--, bytes++) hash = groups_mix(hash, (uint8_t)*bytes);
  return hash;
}

/* Makes a table of slots for `room` entries, at most half full. */
static int new_slots(tsr_memory *memory, uint64_t room, uint32_t **slots, uint64_t *count, tsr_error *error) {
  uint64_t wanted = GROUPS_SLOTS_MIN;
  while (wanted < 2 * room) wanted *= 2;
  TSR_TRY(TSR_ALLOC_RAW(memory, wanted, slots, error));
  memset(*slots, 0xFF, wanted * sizeof **slots);
  *count = wanted;
  return TSR_OK;
}

void tsr__groups_init(tsr_groups *groups, uint32_t width, tsr_memory *memory) {
  *groups = (tsr_groups){.width = width, .tuples = {.memory = memory}};
}

void tsr__groups_release(tsr_groups *groups) {
  tsr__free(groups->slots);
  groups->slots = NULL;
  groups->count = groups->slot_count = 0;
  tsr__buffer_release(&groups->tuples);
}

void tsr__groups_clear(tsr_groups *groups) {
  if (groups->slots) memset(groups->slots, 0xFF, groups->slot_count * sizeof *groups->slots);
  groups->count = groups->tuples.size = 0;
}

static int groups_grow(tsr_groups *groups, uint64_t more, tsr_error *error) {
  const uint64_t room = groups->count + more;
  uint32_t *slots;
  uint64_t count;
  if (room >= GROUPS_MAX) return tsr__fail(error, TSR_BUDGET, "more than %u groups", GROUPS_MAX);
  TSR_TRY(tsr__buffer_reserve(&groups->tuples, more * groups->width * sizeof(uint64_t), error));
  if (2 * room <= groups->slot_count) return TSR_OK;
  TSR_TRY(new_slots(groups->tuples.memory, room, &slots, &count, error));
  for (uint64_t i = 0; i < groups->count; i++) {
    uint64_t at = groups_slot(groups_hash(groups, i), count);
    while (slots[at] != GROUPS_NONE) at = (at + 1) & (count - 1);
    slots[at] = (uint32_t)i;
  }
  tsr__free(groups->slots);
  groups->slots = slots;
  groups->slot_count = count;
  return TSR_OK;
}

static uint32_t groups_make(tsr_groups *groups, uint64_t at, const uint64_t *const *words, uint64_t i) {
  uint64_t *tuple = tsr__groups_tuple(groups, groups->count);
  for (uint32_t w = 0; w < groups->width; w++) tuple[w] = words[w][i];
  groups->tuples.size += groups->width * sizeof *tuple;
  return groups->slots[at] = (uint32_t)groups->count++;
}

/* tsr__groups_number for tuples of one word. */
static void number_words(tsr_groups *groups, const uint64_t *words, uint64_t count, uint32_t *numbers) {
  const uint64_t mask = groups->slot_count - 1;
  const uint64_t *tuples = tsr__groups_tuple(groups, 0); /* groups_grow has made room for all new tuples */
  const uint32_t *slots = groups->slots;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t word = words[i];
    uint64_t at = groups_slot(groups_mix(0, word), mask + 1);
    uint32_t number;
    while ((number = slots[at]) != GROUPS_NONE && tuples[number] != word) at = (at + 1) & mask;
    numbers[i] = number != GROUPS_NONE ? number : groups_make(groups, at, &words, i);
  }
}

static bool tuple_is(const uint64_t *tuple, const uint64_t *const *words, uint32_t width, uint64_t i) {
  for (uint32_t w = 0; w < width; w++)
    if (tuple[w] != words[w][i]) return false;
  return true;
}

int tsr__groups_number(tsr_groups *groups, const uint64_t *const *words, uint64_t count, uint32_t *numbers,
                       tsr_error *error) {
  TSR_TRY(groups_grow(groups, count, error));
  const uint64_t mask = groups->slot_count - 1;
  if (groups->width == 1) {
    number_words(groups, words[0], count, numbers);
    return TSR_OK;
  }
  for (uint64_t i = 0; i < count; i++) {
    uint64_t hash = 0;
    for (uint32_t w = 0; w < groups->width; w++) hash = groups_mix(hash, words[w][i]);
    uint64_t at = groups_slot(hash, mask + 1);
    while (groups->slots[at] != GROUPS_NONE &&
           !tuple_is(tsr__groups_tuple(groups, groups->slots[at]), words, groups->width, i))
      at = (at + 1) & mask;
    numbers[i] = groups->slots[at] != GROUPS_NONE ? groups->slots[at] : groups_make(groups, at, words, i);
  }
  return TSR_OK;
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

#define RUN_MIN    3u /* average length in tuples: with shorter runs, tuples are taken one by one */
#define RUNS_TRIED 256u /* after each RUNS_TRIED tuples, the number of runs so far decides whether to go on */

void tsr__words_of_reals(const double *restrict reals, uint32_t count, uint64_t *restrict words) {
  for (uint32_t i = 0; i < count; i++) {
    const double real = reals[i] + 0.0;
    uint64_t word;
    memcpy(&word, &real, sizeof word);
    words[i] = real == real ? word : TSR_NULL_REAL;
  }
}

/* Defines a function that finds the ends of runs of equal values. Returns their number; 0 if there are too many. */
#define DEFINE_RUNS(name, type)                                                                                        \
  static uint32_t runs_of_##name(const type *values, uint32_t count, uint32_t *ends) {                                 \
    uint32_t runs = 0;                                                                                                 \
    for (uint32_t from = 1, to; from < count; from = to) {                                                             \
      to = TSR_MIN(count, from + RUNS_TRIED);                                                                          \
      for (uint32_t i = from; i < to; i++) ends[runs] = i, runs += values[i] != values[i - 1];                         \
      if (runs > to / RUN_MIN) return 0;                                                                               \
    }                                                                                                                  \
    ends[runs++] = count;                                                                                              \
    return runs;                                                                                                       \
  }
DEFINE_RUNS(words, uint64_t)
DEFINE_RUNS(numbers, uint32_t)

/* The same for tuples: numbers each tuple by how many changes precede it, and finds the runs of equal numbers. */
static uint32_t runs_of_tuples(uint64_t *const *words, uint32_t width, uint32_t count, uint32_t *ends) {
  uint32_t changes[TSR_BLOCK_CELLS] = {0};
  for (uint32_t w = 0; w < width; w++)
    for (uint32_t i = 1; i < count; i++) changes[i] |= words[w][i] != words[w][i - 1];
  for (uint32_t i = 1; i < count; i++) changes[i] += changes[i - 1];
  return runs_of_numbers(changes, count, ends);
}

uint32_t tsr__runs_of_words(uint64_t *const *words, uint32_t width, uint32_t count, uint32_t *ends) {
  const uint32_t runs = width == 1 ? runs_of_words(words[0], count, ends) : runs_of_tuples(words, width, count, ends);
  for (uint32_t w = 0; w < width && runs > 0; w++)
    for (uint32_t r = 0; r < runs; r++) words[w][r] = words[w][ends[r] - 1];
  return runs;
}

uint32_t tsr__runs_of_numbers(uint32_t *numbers, uint32_t count, uint32_t *ends) {
  const uint32_t runs = runs_of_numbers(numbers, count, ends);
  for (uint32_t r = 0; r < runs; r++) numbers[r] = numbers[ends[r] - 1];
  return runs;
}

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

void tsr__texts_init(tsr_texts *texts, tsr_memory *memory, tsr_arena *arena) {
  *texts = (tsr_texts){.texts = {.memory = memory}, .arena = arena};
}

void tsr__texts_release(tsr_texts *texts) {
  tsr__free(texts->slots);
  texts->slots = NULL;
  texts->count = texts->slot_count = 0;
  tsr__buffer_release(&texts->texts);
}

void tsr__texts_clear(tsr_texts *texts) {
  if (texts->slots) memset(texts->slots, 0xFF, texts->slot_count * sizeof *texts->slots);
  texts->count = texts->texts.size = 0;
}

static int texts_grow(tsr_texts *texts, tsr_error *error) {
  uint32_t *slots;
  uint64_t count;
  if (2 * (texts->count + 1) <= texts->slot_count) return TSR_OK;
  if (texts->count >= GROUPS_MAX) return tsr__fail(error, TSR_BUDGET, "more than %u texts", GROUPS_MAX);
  TSR_TRY(new_slots(texts->texts.memory, 2 * (texts->count + 1), &slots, &count, error));
  for (uint64_t i = 0; i < texts->count; i++) {
    const tsr_text_value *text = tsr__texts_at(texts, i);
    uint64_t at = groups_slot(texts_hash(text->bytes, text->size), count);
    while (slots[at] != GROUPS_NONE) at = (at + 1) & (count - 1);
    slots[at] = (uint32_t)i;
  }
  tsr__free(texts->slots);
  texts->slots = slots;
  texts->slot_count = count;
  return TSR_OK;
}

int tsr__texts_number(tsr_texts *texts, const char *bytes, uint64_t size, uint64_t *number, tsr_error *error) {
  TSR_TRY(texts_grow(texts, error));
  uint64_t at = groups_slot(texts_hash(bytes, size), texts->slot_count);
  for (; texts->slots[at] != GROUPS_NONE; at = (at + 1) & (texts->slot_count - 1)) {
    const tsr_text_value *text = tsr__texts_at(texts, texts->slots[at]);
    *number = texts->slots[at];
    if (text->size == size && (size == 0 || memcmp(text->bytes, bytes, size) == 0)) return TSR_OK;
  }
  tsr_text_value made = {.bytes = bytes, .size = size};
  if (texts->arena) {
    char *copy;
    TSR_TRY(TSR_ARENA_COPY(texts->arena, bytes, size, &copy, error));
    made.bytes = copy;
  }
  TSR_TRY(tsr__buffer_append(&texts->texts, &made, sizeof made, error));
  texts->slots[at] = (uint32_t)texts->count;
  *number = texts->count++;
  return TSR_OK;
}
