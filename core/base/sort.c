/* sort.c: sorts pairs of a number and an index, stably.
 *
 * Numbers are sorted digit by digit, the least significant first, but digits in which all agree cost nothing. Pairs of
 * equal numbers are merged where something else tells them apart.
 */
#include "base/sort.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"

#define DIGIT       11u
#define SORT_DIGITS (1u << DIGIT)
#define FEW         48u /* pairs that are sorted by insertion */
#define SORT_MANY   32768u /* pairs that are first dealt out by their highest digit, */
#define DEALT       8192u /* about as many to a place: they stay in a core's cache */

static void insert_pairs(tsr_pair *pairs, uint64_t count) {
  for (uint64_t i = 1; i < count; i++) {
    tsr_pair moved = pairs[i];
    uint64_t at = i;
    for (; at > 0 && pairs[at - 1].key > moved.key; at--) pairs[at] = pairs[at - 1];
    pairs[at] = moved;
  }
}

/* The bits in which keys differ; 0 as well if they are in order. */
static uint64_t differing(const tsr_pair *pairs, uint64_t count) {
  uint64_t all = pairs[0].key, any = pairs[0].key;
  bool sorted = true;
  for (uint64_t i = 1; i < count; i++) {
    sorted = sorted && pairs[i - 1].key <= pairs[i].key;
    all &= pairs[i].key;
    any |= pairs[i].key;
  }
  return sorted ? 0 : all ^ any;
}

static void add_up(uint64_t *counts, uint64_t digits) {
  uint64_t sum = 0;
  for (uint64_t d = 0; d < digits; d++) {
    const uint64_t n = counts[d];
    counts[d] = sum;
    sum += n;
  }
}

/* Least significant digit first; digits in which all keys agree cost one pass of counting for all of them. Stable. The
 * result is in one of the two, which is returned. */
static tsr_pair *sort_digits(tsr_pair *from, tsr_pair *to, uint64_t count) {
  if (count <= FEW) {
    insert_pairs(from, count);
    return from;
  }
  const uint64_t differ = differing(from, count);
  for (unsigned shift = 0; shift < 64; shift += DIGIT) {
    if (!(differ >> shift & (SORT_DIGITS - 1))) continue;
    uint64_t starts[SORT_DIGITS] = {0};
    for (uint64_t i = 0; i < count; i++) starts[from[i].key >> shift & (SORT_DIGITS - 1)]++;
    add_up(starts, SORT_DIGITS);
    for (uint64_t i = 0; i < count; i++) to[starts[from[i].key >> shift & (SORT_DIGITS - 1)]++] = from[i];
    tsr_pair *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

void tsr__pairs_sort(tsr_pair *pairs, tsr_pair *spare, uint64_t count) {
  const tsr_pair *sorted = sort_digits(pairs, spare, count);
  if (sorted != pairs) memcpy(pairs, sorted, count * sizeof *pairs);
}

/* ---- Many ------------------------------------------------------------------------------------ */

typedef struct dealt {
  tsr_pair *pairs, *spare; /* they are in `spare` */
  uint64_t starts[SORT_DIGITS + 1];
} dealt;

static int sort_sort_place(void *argument, uint64_t index, tsr_error *error) {
  const dealt *d = argument;
  (void)error;
  const uint64_t first = d->starts[index], count = d->starts[index + 1] - first;
  const tsr_pair *sorted = sort_digits(d->spare + first, d->pairs + first, count);
  if (sorted != d->pairs + first) memcpy(d->pairs + first, sorted, count * sizeof *sorted);
  return TSR_OK;
}

void tsr__pairs_sort_many(tsr_pair *pairs, tsr_pair *spare, uint64_t count, unsigned threads) {
  if (count < SORT_MANY) {
    tsr__pairs_sort(pairs, spare, count);
    return;
  }
  const uint64_t differ = differing(pairs, count);
  if (!differ) return;
  unsigned digit = 1;
  while (digit < DIGIT && count >> digit > DEALT) digit++;
  const unsigned top = 64 - (unsigned)__builtin_clzll(differ), shift = top > digit ? top - digit : 0;
  const uint64_t places = UINT64_C(1) << digit;
  uint64_t at[SORT_DIGITS] = {0};
  dealt d = {.pairs = pairs, .spare = spare};
  for (uint64_t i = 0; i < count; i++) at[pairs[i].key >> shift & (places - 1)]++;
  add_up(at, places);
  memcpy(d.starts, at, places * sizeof *at);
  d.starts[places] = count;
  for (uint64_t i = 0; i < count; i++) spare[at[pairs[i].key >> shift & (places - 1)]++] = pairs[i];
  (void)tsr__parallel_for(threads, places, sort_sort_place, &d, NULL);
}

/* ---- With ties ------------------------------------------------------------------------------- */

static inline bool follows(const tsr_pair *a, const tsr_pair *b, tsr_tie_breaker ties, const void *argument) {
  return a->key != b->key ? a->key > b->key : ties(argument, a->cell, b->cell) > 0;
}

/* A stable merge sort, bottom up; the result is in `pairs`. */
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

void tsr__pairs_sort_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties,
                          const void *argument) {
  tsr__pairs_sort(pairs, spare, count);
  for (uint64_t i = 0, end; ties && i < count; i = end) {
    for (end = i + 1; end < count && pairs[end].key == pairs[i].key;) end++;
    if (end - i > 1) merge_sort(pairs + i, spare, end - i, ties, argument);
  }
}
