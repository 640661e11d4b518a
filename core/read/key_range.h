/* key_range.h: where the tiles of a sparse plan begin along a dimension, to predict how many rows a key range has.
 *
 * Keys here are directed: they are order keys, complemented if the order descends, so that they always ascend along the
 * order. Key ranges are chosen from front to back: the functions that take `from` forget the tiles that end before it.
 */
#ifndef TSR_READ_KEY_RANGE_H
#define TSR_READ_KEY_RANGE_H

#include "base/memory.h"
#include "base/sort.h"
#include "read/plan.h"

typedef struct tsr_tile_starts {
  tsr_reader *reader; /* borrowed; its plan has the tiles */
  const tsr_field *field;
  uint32_t dimension;
  bool descending;
  bool known; /* false: of a dense array, without trustworthy MBRs, or without memory: all other fields mean nothing */
  tsr_pair *tiles; /* key: where the tile begins (of a string, its first bytes); cell: index in the plan; sorted */
  uint64_t capacity, count;
  uint64_t first, at; /* first..at-1: tiles that have begun and not ended; at..count-1: that have not begun */
} tsr_tile_starts;

/* Collects the tiles of the reader's plan, in memory of the reader's present start. Without memory it is not
 * `known`. */
void tsr__tile_starts_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_tile_starts *starts);

/* Collects, along another dimension, the tiles of `outer` whose MBRs contain one value of outer's dimension: a directed
 * key, or a string. `starts` is zeroed, or was made for the same dimension by this function, whose memory it uses
 * again. */
void tsr__tile_starts_within(const tsr_tile_starts *outer, uint64_t key, const tsr_buffer *text, uint32_t dimension,
                             bool descending, tsr_tile_starts *starts);

/* Returns the first directed key, from `from` on, at which there may be rows. */
uint64_t tsr__tile_starts_begin(tsr_tile_starts *starts, uint64_t from);

/* Returns the directed key up to which, from `from` on, about `rows` rows are to be expected; UINT64_MAX if there are
 * not so many. */
uint64_t tsr__tile_starts_next(tsr_tile_starts *starts, uint64_t from, uint64_t rows);

/* Returns true if more than `rows` rows are to be expected at the directed key `key`, at which tsr__tile_starts_next
 * has arrived. */
bool tsr__tile_starts_expect(const tsr_tile_starts *starts, uint64_t key, uint64_t rows);

/* For a dimension of strings: returns the string at which a key range should end (exclusive) that begins at `from`
 * (after it, if `exclusive`; NULL: at the first tile): the start of the next tile behind tiles that have at least
 * `rows` cells. NULL: the key range should reach to the end. If the tiles that hold nothing but the string at which the
 * key range begins have more than `many` cells, returns that string instead and sets *single. The string is borrowed
 * from the R-tree. */
const uint8_t *tsr__tile_starts_next_text(tsr_tile_starts *starts, const tsr_buffer *from, bool exclusive,
                                          uint64_t rows, uint64_t many, uint64_t *size, bool *single);

/* The key ranges of an ordered read. The request is cut along the first dimension of its order; a value of
 * that dimension that has too many rows is cut along the next one, and so on: each dimension of the order is a level.
 *
 * "Directed" keys are order keys, complemented if the order descends, so that they always ascend along the order. NaNs
 * lie in no span: they are a key range of their own, before all numbers.
 */

typedef struct tsr_key_level { /* a dimension of the order: what is left of it, and its present key range */
  uint32_t dimension;
  bool descending, text;
  /* what is left: */
  bool nans; /* NaNs are still to come */
  bool numbers; /* numbers, or strings, are still to come */
  uint64_t from; /* numbers: the first directed key; the last one is UINT64_MAX */
  tsr_buffer at; /* strings: the first one in the order's direction */
  bool at_set, at_exclusive; /* false: all strings are left; `at` itself is not left */
  /* the key range, which begins at `from` or `at`: */
  bool nan; /* it has the NaNs */
  bool single; /* it has one value, `end` or `end_text`, and is cut along the next level */
  uint64_t end; /* numbers: the last directed key, inclusive */
  tsr_buffer end_text; /* strings: the last one in the order's direction */
  bool end_set, end_exclusive; /* false: it reaches to the end; `end_text` itself is not in it */
  tsr_tile_starts starts; /* sparse: of the tiles that may hold the single values of the levels above */
} tsr_key_level;

typedef struct tsr_key_ranges { /* the present key range, and how large the next one should be */
  tsr_reader *reader; /* borrowed; it has the request and its plan */
  uint32_t level_count, depth; /* depth: the level along which key ranges are cut now */
  tsr_key_level *levels; /* room for all dimensions */
  tsr_arena arena; /* memory of `spans` */
  tsr_spans *spans; /* by dimension: of the present key range */
  unsigned restarts; /* how often the present key range has been cut */
  uint64_t target, rows_max; /* rows that the next key range should have; that any key range may have */
  uint64_t overestimate; /* sparse: factor by which the tile starts predict more rows than come */
  bool cached; /* dense: the tiles that hold one value of the slowest dimension stay in the cache */
} tsr_key_ranges;

static inline uint64_t tsr__directed_key(const tsr_key_level *level, uint64_t key) {
  return level->descending ? ~key : key;
}

/* Makes an empty structure for a reader, whose budget pays for it. Release it in any case. */
int tsr__key_ranges_init(tsr_key_ranges *ranges, tsr_reader *reader, tsr_error *error);
void tsr__key_ranges_release(tsr_key_ranges *ranges);

/* Begins to cut the reader's plan along an order of `count` dimensions. `limit` is a hint: how many rows are likely to
 * be taken, 0: all. A dimension that the order names again is ignored. */
int tsr__key_ranges_begin(tsr_key_ranges *ranges, const tsr_sort *order, uint32_t count, uint64_t limit,
                          tsr_error *error);

/* Chooses the next key range of the present level. Returns 1; 0 if nothing is left of the level; 2 if the key range is
 * a single value that is to be cut along the next level, since it has too many cells or is better streamed. */
int tsr__key_ranges_choose(tsr_key_ranges *ranges, tsr_error *error);

/* Makes `spans` of the present key range: the key ranges of the first `levels` levels, and all that the request selects
 * in the other dimensions. */
int tsr__key_ranges_spans(tsr_key_ranges *ranges, uint32_t levels, tsr_error *error);

/* Notes that a complete key range had so many rows. If these are few, the tiles have fewer cells than their schema
 * says, or deletes and tests drop most of them, and the next key ranges are made wider. Else a damaged schema that
 * claims any number of cells would make a key range of each value. */
void tsr__key_ranges_note(tsr_key_ranges *ranges, uint64_t rows);

/* Steps past the present key range of the present level. */
int tsr__key_ranges_pass(tsr_key_ranges *ranges, tsr_error *error);

/* Makes the target larger, after a key range was read. */
void tsr__key_ranges_grow(tsr_key_ranges *ranges);

/* Makes the targets of this and all further key ranges smaller, because memory has ended. */
void tsr__key_ranges_shrink(tsr_key_ranges *ranges);

/* Steps to the next level, within the single value of the present one. Returns true if the rows of that value come in
 * order without sorting: then the next level does not begin, and the caller streams them. The caller steps back to the
 * level above by `depth--` and then past its single value. */
bool tsr__key_ranges_descend(tsr_key_ranges *ranges);

/* Sets the text of a level: `at` or `end_text`. */
int tsr__key_text_set(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error);

#endif
