/* rtree.h: the R-tree of a fragment: the boxes (MBRs) of its tiles, and boxes around those. */
#ifndef TSR_RTREE_H
#define TSR_RTREE_H

#include "base/input.h"
#include "model/domain.h"

#define TSR_RTREE_LEVELS 64 /* at most: a fanout of 2 needs no more for any count */

/* An R-tree, every level; level 0 is the root. MBRs as order keys, strings as slices of one buffer. */
typedef struct tsr_rtree {
  uint32_t dimensions, fanout, levels;
  uint64_t *counts; /* MBRs of each level */
  uint64_t **keys; /* [level][(mbr * dimensions + d) * 2 + (0 low | 1 high)]; for strings: offsets into text */
  uint64_t **sizes; /* the same shape: sizes of strings; NULL if no dimension is a string */
  uint8_t *text;
} tsr_rtree;

int tsr__rtree_decode(tsr_input *in, const tsr_schema *schema, uint32_t version, tsr_arena *arena, tsr_rtree *rtree,
                      tsr_error *error);

/* From a plain list of MBRs (versions 1 and 2, dense fragments): one level. */
int tsr__rtree_single_level(tsr_input *in, uint64_t count, const tsr_schema *schema, tsr_arena *arena, tsr_rtree *rtree,
                            tsr_error *error);

/* Builds the levels above `count` leaves (fanout 10) from their keys and sizes, laid out as in tsr_rtree, which are
 * borrowed, as the text is; `sizes` is NULL if no dimension is a string. No leaves: no levels. */
int tsr__rtree_build(const tsr_schema *schema, uint64_t count, uint64_t *keys, uint64_t *sizes, uint8_t *text,
                     tsr_arena *arena, tsr_rtree *rtree, tsr_error *error);

/* Appends the content of its generic tile. */
int tsr__rtree_encode(const tsr_rtree *rtree, const tsr_schema *schema, uint32_t version, tsr_buffer *out,
                      tsr_error *error);

/* The high end of a string box that is open: above every string, but such as begin with it (rtree.c). */
#define TSR_TOP_TEXT_SIZE 32
extern const uint8_t tsr__top_text[TSR_TOP_TEXT_SIZE];

/* Calls fn(argument, leaf, inside) for each leaf whose MBR meets the spans (one per dimension), in order; `inside`: it
 * lies within them. fn returns < 0 to stop with that code. */
typedef int (*tsr_rtree_visitor)(void *argument, uint64_t leaf, bool inside, tsr_error *error);

int tsr__rtree_query(const tsr_rtree *rtree, const tsr_spans *spans, tsr_rtree_visitor fn, void *argument,
                     tsr_error *error);

#endif
