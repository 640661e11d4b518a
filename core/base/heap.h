/* heap.h: a binary heap in an array that the caller owns, for merging many sorted inputs and for sorting in place.
 *
 * TSR_DEFINE_HEAP defines the functions for one item type, so that the compiler can inline the comparison. The top of
 * the heap is items[0]. To replace the top by its successor, pass the successor to NAME_sink. To remove the top,
 * decrement the count and pass the last item to NAME_sink.
 */
#ifndef TSR_HEAP_H
#define TSR_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define TSR_HEAP_FUNCTION static inline __attribute__((unused))

/* Defines four functions over items of type `item`. `before(c, a, b)` gets pointers to two items and returns true if *a
 * comes out before *b; it must be a strict order. Its first argument is the `const context *` that was passed to the
 * functions.
 *
 * - void NAME_sink(const context *c, item *items, uint64_t count, uint64_t at, item moved)
 *   fills the hole at `at` with `moved` and sifts it down. Every item above the hole must come out before `moved`.
 *   Writes items[0] even if count is 0.
 * - void NAME_sink_deep(const context *c, item *items, uint64_t count, uint64_t at, item moved)
 *   does the same, and is faster where `moved` usually belongs near the bottom.
 * - void NAME_rise(const context *c, item *items, uint64_t at, item moved)
 *   appends `moved` to a heap of `at` items.
 * - void NAME_build(const context *c, item *items, uint64_t count)
 *   makes a heap of items in any order.
 *
 * NAME_sink compares the moved item on each level and stops where it belongs: near the top, in a merge of inputs that
 * overlap. NAME_sink_deep compares the item only with the better child of the hole, since the top of a merge often
 * stays where it is. If it does not, the hole moves to the bottom by comparing children only, and the item rises from
 * there: for a deep sink this takes about half the comparisons. The item is passed by value so that it stays in
 * registers: with cheap comparisons this saves a fifth of the time. */
#define TSR_DEFINE_HEAP(NAME, context, item, before)                                                                   \
  TSR_HEAP_FUNCTION void NAME##_rise_below(const context *c, item *items, uint64_t top, uint64_t at, item moved) {     \
    for (uint64_t parent; at > top; at = parent) {                                                                     \
      parent = (at - 1) / 2;                                                                                           \
      if (!before(c, &moved, &items[parent])) break;                                                                   \
      items[at] = items[parent];                                                                                       \
    }                                                                                                                  \
    items[at] = moved;                                                                                                 \
  }                                                                                                                    \
  TSR_HEAP_FUNCTION void NAME##_sink(const context *c, item *items, uint64_t count, uint64_t at, item moved) {         \
    for (uint64_t child; (child = 2 * at + 1) < count; at = child) {                                                   \
      child += child + 1 < count && before(c, &items[child + 1], &items[child]);                                       \
      if (!before(c, &items[child], &moved)) break;                                                                    \
      items[at] = items[child];                                                                                        \
    }                                                                                                                  \
    items[at] = moved;                                                                                                 \
  }                                                                                                                    \
  TSR_HEAP_FUNCTION void NAME##_sink_deep(const context *c, item *items, uint64_t count, uint64_t at, item moved) {    \
    const uint64_t top = at;                                                                                           \
    for (uint64_t child; (child = 2 * at + 1) < count; at = child) {                                                   \
      child += child + 1 < count && before(c, &items[child + 1], &items[child]);                                       \
      if (at == top && !before(c, &items[child], &moved)) break;                                                       \
      items[at] = items[child];                                                                                        \
    }                                                                                                                  \
    NAME##_rise_below(c, items, top, at, moved);                                                                       \
  }                                                                                                                    \
  TSR_HEAP_FUNCTION void NAME##_rise(const context *c, item *items, uint64_t at, item moved) {                         \
    NAME##_rise_below(c, items, 0, at, moved);                                                                         \
  }                                                                                                                    \
  TSR_HEAP_FUNCTION void NAME##_build(const context *c, item *items, uint64_t count) {                                 \
    for (uint64_t i = count / 2; i-- > 0;) NAME##_sink(c, items, count, i, items[i]);                                  \
  }

#endif
