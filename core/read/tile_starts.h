/* tile_starts.h: where the tiles of a sparse plan begin along a dimension, to predict how many rows a key range has.
 *
 * Keys here are directed: they are order keys, complemented if the order descends, so that they always ascend along the
 * order. Key ranges are chosen from front to back: the functions that take `from` forget the tiles that end before it.
 */
#ifndef TSR_TILE_STARTS_H
#define TSR_TILE_STARTS_H

#include "base/memory.h"
#include "base/sort.h"

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

#endif
