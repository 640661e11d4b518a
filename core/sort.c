/* sort.c: sorts pairs of a number and an index, stably.
 *
 * Numbers are sorted digit by digit, the least significant first, but digits in which all agree cost nothing. Pairs of
 * equal numbers are merged where something else tells them apart.
 */
#include "ops.h"

#define DIGIT  11u
#define DIGITS (1u << DIGIT)
#define FEW    48u /* pairs that are sorted by insertion */

static void insert_pairs(tsr_pair *pairs, uint64_t count) {
  for (uint64_t i = 1; i < count; i++) {
    tsr_pair moved = pairs[i];
    uint64_t at = i;
    for (; at > 0 && pairs[at - 1].key > moved.key; at--) pairs[at] = pairs[at - 1];
    pairs[at] = moved;
  }
}

/* Least significant digit first; digits in which all keys agree cost one pass of counting for all of them. Stable. */
void tsr__pairs_sort(tsr_pair *pairs, tsr_pair *spare, uint64_t count) {
  if (count <= FEW) {
    insert_pairs(pairs, count);
    return;
  }
  uint64_t all = pairs[0].key, any = pairs[0].key;
  bool sorted = true;
  for (uint64_t i = 1; i < count; i++) {
    sorted = sorted && pairs[i - 1].key <= pairs[i].key;
    all &= pairs[i].key;
    any |= pairs[i].key;
  }
  if (sorted) return;
  uint64_t differ = all ^ any;
  tsr_pair *from = pairs, *to = spare;
  for (unsigned shift = 0; shift < 64; shift += DIGIT) {
    if (!(differ >> shift & (DIGITS - 1))) continue;
    uint64_t starts[DIGITS] = {0}, sum = 0;
    for (uint64_t i = 0; i < count; i++) starts[from[i].key >> shift & (DIGITS - 1)]++;
    for (unsigned d = 0; d < DIGITS; d++) {
      uint64_t n = starts[d];
      starts[d] = sum;
      sum += n;
    }
    for (uint64_t i = 0; i < count; i++) to[starts[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    tsr_pair *swap = from;
    from = to;
    to = swap;
  }
  if (from != pairs) memcpy(pairs, from, count * sizeof *pairs);
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
