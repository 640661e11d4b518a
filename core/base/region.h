/* region.h: large blocks that the system may keep in huge pages, cut into the blocks of tiles.
 *
 * New memory costs a page fault for each 4 KiB, a third of the time of a first read into the cache. A huge page of 2
 * MiB costs one. But only memory that is aligned to its size can be one, and tiles are smaller: so they share regions.
 *
 * A region is cut into units; a word of bits for each 64 units has those that are taken. One thread at a time takes
 * units, adds or removes regions; a second one does not wait, but gets nothing, so that a fork finds no lock that it
 * would wait for. Any thread gives units back at any time. */
#ifndef TSR_REGION_H
#define TSR_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TSR_REGIONS        32u /* at most */
#define TSR_REGION_HUGE    (UINT64_C(2) << 20) /* bytes of a huge page, of most processors */
#define TSR_REGION_BYTES   (UINT64_C(14) << 20) /* of a region */
#define TSR_REGION_UNIT    (UINT64_C(8) << 10) /* bytes */
#define TSR_REGION_LARGEST (TSR_REGION_BYTES / 2) /* bytes of the largest piece */
#define TSR_REGION_WORDS   (TSR_REGION_BYTES / TSR_REGION_UNIT / 64)

typedef struct tsr_regions {
  atomic_flag busy; /* a thread takes units, or changes the set */
  _Atomic uint32_t count; /* regions that there are */
  _Atomic uint64_t room; /* bytes of all of them that are not taken */
  _Atomic(uint8_t *) bases[TSR_REGIONS]; /* NULL: no region */
  _Atomic uint32_t used[TSR_REGIONS]; /* units */
  _Atomic uint64_t taken[TSR_REGIONS][TSR_REGION_WORDS];
  void *blocks[TSR_REGIONS]; /* what the caller gave with each */
} tsr_regions;

/* Makes an empty set. */
void tsr__regions_init(tsr_regions *regions);

/* Returns the number of units that a piece of `bytes` bytes takes. */
static inline uint32_t tsr__region_units(uint64_t bytes) {
  return (uint32_t)((bytes + TSR_REGION_UNIT - 1) / TSR_REGION_UNIT);
}

/* Takes a piece, aligned to a unit. Returns NULL if no region has room for it, or if another thread is taking one:
 * then *full is false. */
void *tsr__regions_take(tsr_regions *regions, uint32_t units, bool *full);

/* Returns true if a pointer leads into a region. */
bool tsr__regions_have(const tsr_regions *regions, const void *pointer);

/* Gives back a piece. */
void tsr__regions_give(tsr_regions *regions, void *piece, uint32_t units);

/* Adds a region of TSR_REGION_BYTES at `base`, within the caller's `block`. Returns false if that is not possible
 * now. */
bool tsr__regions_add(tsr_regions *regions, uint8_t *base, void *block);

/* Removes an empty region if the others have `room` bytes left without it. Returns its block; NULL if there is none, or
 * not now. */
void *tsr__regions_remove(tsr_regions *regions, uint64_t room);

#endif
