/* sort.c: stable sorts of pairs of a key and an index.
 *
 * An LSD radix sort that skips the digits in which all keys agree. The two highest of many digits order most keys; if
 * so, insertion orders the rest. Few pairs are sorted by insertion alone. Many pairs are first distributed by their
 * highest digit, so that each part fits into a core's cache and several threads can sort parts at once. With a tie
 * breaker, a merge sort then orders each group of equal keys.
 */
#include "base/sort.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/pool.h"

#define DIGIT_BITS     11u /* of a radix digit */
#define SORT_DIGITS    (1u << DIGIT_BITS) /* values of a digit */
#define FIRST_BITS     (2 * DIGIT_BITS) /* highest bits of long keys, which are sorted first */
#define INSERTION_MAX  48u /* up to this many pairs are sorted by insertion */
#define DISTRIBUTE_MIN 32768u /* from this many pairs on, they are first distributed into parts */
#define PART_PAIRS     8192u /* approximate pairs of a part, so that it stays in a core's cache */

/* Sorts by insertion. Returns false, with the pairs in some order that keeps equal keys in theirs, after `most` moves.
 */
static bool insert_pairs(tsr_pair *pairs, uint64_t count, uint64_t most) {
  uint64_t moves = 0;
  for (uint64_t i = 1; i < count && moves <= most; i++) {
    tsr_pair moved = pairs[i];
    uint64_t at = i;
    for (; at > 0 && pairs[at - 1].key > moved.key; at--) pairs[at] = pairs[at - 1];
    pairs[at] = moved;
    moves += i - at;
  }
  return moves <= most;
}

/* Returns the bits in which the keys differ, or 0 if the pairs are already in order. */
static uint64_t differing_bits(const tsr_pair *pairs, uint64_t count) {
  uint64_t all = pairs[0].key, any = pairs[0].key;
  bool sorted = true;
  for (uint64_t i = 1; i < count; i++) {
    sorted = sorted && pairs[i - 1].key <= pairs[i].key;
    all &= pairs[i].key;
    any |= pairs[i].key;
  }
  return sorted ? 0 : all ^ any;
}

/* Turns counts into their exclusive prefix sums: where the pairs with each digit begin. */
static void counts_to_starts(uint64_t *counts, uint64_t digits) {
  uint64_t sum = 0;
  for (uint64_t d = 0; d < digits; d++) {
    const uint64_t n = counts[d];
    counts[d] = sum;
    sum += n;
  }
}

/* Sorts the pairs of `from` by the bits of their keys from `shift` on, with `to` as the second buffer. Bits that are
 * not set in `differ` are the same in all keys. Returns the buffer that holds the result. */
static tsr_pair *sort_bits(tsr_pair *from, tsr_pair *to, uint64_t count, uint64_t differ, unsigned shift) {
  for (; shift < 64; shift += DIGIT_BITS) {
    const uint64_t bits = differ >> shift & (SORT_DIGITS - 1);
    if (!bits) continue;
    uint64_t starts[SORT_DIGITS];
    const uint64_t mask = UINT64_MAX >> __builtin_clzll(bits); /* few pairs often differ in few bits */
    memset(starts, 0, (mask + 1) * sizeof *starts);
    for (uint64_t i = 0; i < count; i++) starts[from[i].key >> shift & mask]++;
    counts_to_starts(starts, mask + 1);
    for (uint64_t i = 0; i < count; i++) to[starts[from[i].key >> shift & mask]++] = from[i];
    tsr_pair *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* Sorts the pairs of `from`, with `to` as the second buffer, and returns the buffer that holds the result. */
static tsr_pair *sort_digits(tsr_pair *from, tsr_pair *to, uint64_t count) {
  if (count <= INSERTION_MAX) {
    (void)insert_pairs(from, count, UINT64_MAX);
    return from;
  }
  const uint64_t differ = differing_bits(from, count);
  const unsigned top = differ ? 64 - (unsigned)__builtin_clzll(differ) : 0;
  tsr_pair *sorted = from;
  if (top > FIRST_BITS + DIGIT_BITS) {
    sorted = sort_bits(from, to, count, differ, top - FIRST_BITS);
    if (insert_pairs(sorted, count, count)) return sorted;
  }
  return sort_bits(sorted, sorted == from ? to : from, count, differ, 0);
}

void tsr__pairs_sort(tsr_pair *pairs, tsr_pair *spare, uint64_t count) {
  const tsr_pair *sorted = sort_digits(pairs, spare, count);
  if (sorted != pairs) memcpy(pairs, sorted, count * sizeof *pairs);
}

/* ---- Many pairs ------------------------------------------------------------------------------ */

typedef struct sort_parts {
  tsr_pair *pairs, *spare; /* the distributed pairs are in `spare`; sorted parts go to `pairs` */
  uint64_t starts[SORT_DIGITS + 1]; /* part i has the pairs from starts[i] to starts[i + 1] - 1 */
  tsr_memory *memory; /* whose host is polled; NULL: none */
} sort_parts;

static int sort_one_part(void *argument, uint64_t index, tsr_error *error) {
  const sort_parts *d = argument;
  if (d->memory) TSR_TRY(tsr__cancelled(d->memory, error));
  const uint64_t first = d->starts[index], count = d->starts[index + 1] - first;
  const tsr_pair *sorted = sort_digits(d->spare + first, d->pairs + first, count);
  if (sorted != d->pairs + first) memcpy(d->pairs + first, sorted, count * sizeof *sorted);
  return TSR_OK;
}

int tsr__pairs_sort_many(tsr_pair *pairs, tsr_pair *spare, uint64_t count, unsigned threads, tsr_memory *memory,
                         tsr_error *error) {
  if (count < DISTRIBUTE_MIN) {
    tsr__pairs_sort(pairs, spare, count);
    return TSR_OK;
  }
  const uint64_t differ = differing_bits(pairs, count);
  if (!differ) return TSR_OK;
  unsigned digit = 1; /* bits of the digit by which the pairs are distributed */
  while (digit < DIGIT_BITS && count >> digit > PART_PAIRS) digit++;
  const unsigned top = 64 - (unsigned)__builtin_clzll(differ), shift = top > digit ? top - digit : 0;
  const uint64_t parts = UINT64_C(1) << digit;
  uint64_t at[SORT_DIGITS] = {0};
  sort_parts d = {.pairs = pairs, .spare = spare, .memory = memory};
  for (uint64_t i = 0; i < count; i++) at[pairs[i].key >> shift & (parts - 1)]++;
  counts_to_starts(at, parts);
  memcpy(d.starts, at, parts * sizeof *at);
  d.starts[parts] = count;
  for (uint64_t i = 0; i < count; i++) spare[at[pairs[i].key >> shift & (parts - 1)]++] = pairs[i];
  return tsr__parallel_for(threads, parts, sort_one_part, &d, error);
}

/* ---- Ties ------------------------------------------------------------------------------------ */

static inline bool follows(const tsr_pair *a, const tsr_pair *b, tsr_tie_breaker ties, const void *argument) {
  return a->key != b->key ? a->key > b->key : ties(argument, a->cell, b->cell) > 0;
}

/* A stable bottom-up merge sort. The result is in `pairs`. */
static void merge_sort(tsr_pair *pairs, tsr_pair *room, uint64_t count, tsr_tie_breaker ties, const void *argument) {
  tsr_pair *from = pairs, *to = room;
  for (uint64_t run = 1; run < count; run *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * run) {
      uint64_t a = start, middle = TSR_MIN(start + run, count), b = middle, end = TSR_MIN(start + 2 * run, count);
      uint64_t out = start;
      while (a < middle && b < end) to[out++] = follows(&from[a], &from[b], ties, argument) ? from[b++] : from[a++];
      while (a < middle) to[out++] = from[a++];
      while (b < end) to[out++] = from[b++];
    }
    tsr_pair *swap = from;
    from = to;
    to = swap;
  }
  if (from != pairs) memcpy(pairs, from, count * sizeof(tsr_pair));
}

void tsr__pairs_break_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties,
                           const void *argument) {
  for (uint64_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && pairs[end].key == pairs[i].key;) end++;
    if (end - i > 1) merge_sort(pairs + i, spare, end - i, ties, argument);
  }
}

void tsr__pairs_sort_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties,
                          const void *argument) {
  tsr__pairs_sort(pairs, spare, count);
  if (ties) tsr__pairs_break_ties(pairs, spare, count, ties, argument);
}
