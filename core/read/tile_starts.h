/* tile_starts.h: where the tiles of a sparse plan begin along a dimension. */
#ifndef TSR_TILE_STARTS_H
#define TSR_TILE_STARTS_H

#include "base/memory.h"
#include "base/sort.h"

typedef struct tsr_tile_starts {
  tsr_reader *reader; /* whose plan it is */
  const tsr_field *field;
  uint32_t dimension;
  bool descending;
  bool known; /* else nothing is: of dense arrays, and where there is no memory for it */
  tsr_pair *starts;
  uint64_t capacity, count, first, at; /* at: the first that has not begun; what begins before `first` has ended */
} tsr_tile_starts;

/* In memory of the reader's present start. */
void tsr__tile_starts_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_tile_starts *starts);

/* Along another dimension, of those tiles of `outer` alone whose boxes have a value, a directed key or a string, in it. `c` is
 * zeroed, or was made for the same dimension by this. */
void tsr__tile_starts_within(const tsr_tile_starts *outer, uint64_t key, const tsr_buffer *text, uint32_t dimension,
                             bool descending, tsr_tile_starts *c);

/* The first place, from `from` on, where there may be rows. */
uint64_t tsr__tile_starts_begin(tsr_tile_starts *starts, uint64_t from);

/* Until where, from `from` on, are about so many rows to be expected? Directed keys; UINT64_MAX: there are not so many.
 * What lies before `from` is over. */
uint64_t tsr__tile_starts_next(tsr_tile_starts *starts, uint64_t from, uint64_t rows);

/* Are more rows to be expected of the one value that `next` has come to? */
bool tsr__tile_starts_expect(const tsr_tile_starts *starts, uint64_t key, uint64_t rows);

/* Where begins the next tile when those before it, that begin at `from` (behind it, where it is exclusive; NULL: at the first),
 * have so many cells? NULL: nowhere. Where tiles of nothing but the string at which it begins have more than `many`, it is
 * that one, and `single`. */
const uint8_t *tsr__tile_starts_next_text(tsr_tile_starts *starts, const tsr_buffer *from, bool exclusive,
                                          uint64_t rows, uint64_t many, uint64_t *size, bool *single);

#endif
