/* groups.c: numbers tuples and texts as they appear, by hash indexes (hash.h).
 *
 * Sections: tuples; runs of equal tuples, which are found first so that each run is hashed once; texts.
 */
#include "query/groups.h"

#include <string.h>

#include "base/arithmetic.h"
#include "query/program.h"
#include "model/datatype.h"

#define GROUPS_MAX (UINT32_C(1) << 30)

static uint64_t groups_hash(const void *groups, uint64_t number) {
  const uint64_t *tuple = tsr__groups_tuple(groups, number);
  uint64_t hash = 0;
  for (uint32_t w = 0; w < ((const tsr_groups *)groups)->width; w++) hash = tsr__hash_mix(hash, tuple[w]);
  return hash;
}

void tsr__groups_init(tsr_groups *groups, uint32_t width, tsr_memory *memory) {
  *groups = (tsr_groups){.width = width, .tuples = {.memory = memory}};
}

void tsr__groups_release(tsr_groups *groups) {
  tsr__hash_release(&groups->index);
  groups->count = 0;
  tsr__buffer_release(&groups->tuples);
}

void tsr__groups_clear(tsr_groups *groups) {
  tsr__hash_clear(&groups->index);
  groups->count = groups->tuples.size = 0;
}

static int groups_grow(tsr_groups *groups, uint64_t more, tsr_error *error) {
  const uint64_t room = groups->count + more;
  if (room >= GROUPS_MAX) return tsr__fail(error, TSR_BUDGET, "more than %u groups", GROUPS_MAX);
  TSR_TRY(tsr__buffer_reserve(&groups->tuples, more * groups->width * sizeof(uint64_t), error));
  return tsr__hash_reserve(&groups->index, groups->tuples.memory, room, groups->count, groups_hash, groups, error);
}

static uint32_t groups_make(tsr_groups *groups, uint64_t slot, const uint64_t *const *words, uint64_t i) {
  uint64_t *tuple = tsr__groups_tuple(groups, groups->count);
  for (uint32_t w = 0; w < groups->width; w++) tuple[w] = words[w][i];
  groups->tuples.size += groups->width * sizeof *tuple;
  tsr__hash_set(&groups->index, slot, groups->count);
  return (uint32_t)groups->count++;
}

/* tsr__groups_number for tuples of one word. */
static void number_words(tsr_groups *groups, const uint64_t *words, uint64_t count, uint32_t *numbers) {
  const tsr_hash_index index = groups->index;
  const uint64_t *tuples = tsr__groups_tuple(groups, 0); /* groups_grow has made room for all new tuples */
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t word = words[i];
    uint64_t slot = tsr__hash_slot(&index, tsr__hash_mix(0, word));
    uint32_t number;
    bool known;
    while ((known = tsr__hash_item(&index, slot, &number)) && tuples[number] != word)
      slot = tsr__hash_next(&index, slot);
    numbers[i] = known ? number : groups_make(groups, slot, &words, i);
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
  const tsr_hash_index index = groups->index;
  if (groups->width == 1) {
    number_words(groups, words[0], count, numbers);
    return TSR_OK;
  }
  for (uint64_t i = 0; i < count; i++) {
    uint64_t hash = 0;
    for (uint32_t w = 0; w < groups->width; w++) hash = tsr__hash_mix(hash, words[w][i]);
    uint64_t slot = tsr__hash_slot(&index, hash);
    uint32_t number;
    bool known;
    while ((known = tsr__hash_item(&index, slot, &number)) &&
           !tuple_is(tsr__groups_tuple(groups, number), words, groups->width, i))
      slot = tsr__hash_next(&index, slot);
    numbers[i] = known ? number : groups_make(groups, slot, words, i);
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
  tsr__hash_release(&texts->index);
  texts->count = 0;
  tsr__buffer_release(&texts->texts);
}

void tsr__texts_clear(tsr_texts *texts) {
  tsr__hash_clear(&texts->index);
  texts->count = texts->texts.size = 0;
}

static uint64_t texts_hash(const void *texts, uint64_t number) {
  const tsr_text_value *text = tsr__texts_at(texts, number);
  return tsr__hash_bytes(0, text->bytes, text->size);
}

int tsr__texts_number(tsr_texts *texts, const char *bytes, uint64_t size, uint64_t *number, tsr_error *error) {
  TSR_TRY(
      tsr__hash_reserve(&texts->index, texts->texts.memory, texts->count + 1, texts->count, texts_hash, texts, error));
  uint64_t slot = tsr__hash_slot(&texts->index, tsr__hash_bytes(0, bytes, size));
  for (uint32_t known; tsr__hash_item(&texts->index, slot, &known); slot = tsr__hash_next(&texts->index, slot)) {
    const tsr_text_value *text = tsr__texts_at(texts, known);
    *number = known;
    if (text->size == size && (size == 0 || memcmp(text->bytes, bytes, size) == 0)) return TSR_OK;
  }
  if (texts->count >= GROUPS_MAX) return tsr__fail(error, TSR_BUDGET, "more than %u texts", GROUPS_MAX);
  tsr_text_value made = {.bytes = bytes, .size = size};
  if (texts->arena) {
    char *copy;
    TSR_TRY(TSR_ARENA_COPY(texts->arena, bytes, size, &copy, error));
    made.bytes = copy;
  }
  TSR_TRY(tsr__buffer_append(&texts->texts, &made, sizeof made, error));
  tsr__hash_set(&texts->index, slot, texts->count);
  *number = texts->count++;
  return TSR_OK;
}
