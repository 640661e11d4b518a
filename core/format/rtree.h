/* rtree.h: the R-tree of a fragment: the MBRs of its tiles, and levels of MBRs above them. Decodes, builds, encodes and
 * queries it. A plan queries it for the tiles whose MBRs intersect a request. */
#ifndef TSR_RTREE_H
#define TSR_RTREE_H

#include "base/input.h"
#include "model/domain.h"

#define TSR_RTREE_LEVELS 64 /* most levels of a tree: enough for any number of tiles, even with a fanout of 2 */

/* An R-tree with all levels; level 0 is the root, the last level has the MBRs of the tiles. Ends of MBRs are order
 * keys, or strings in one buffer. */
typedef struct tsr_rtree {
  uint32_t dimensions, fanout, levels;
  uint64_t *counts; /* of each level: number of MBRs */
  /* [level][(mbr * dimensions + d) * 2 + (0: low, 1: high)]: the order key, inclusive; strings: offset into `text` */
  uint64_t **keys;
  uint64_t **sizes; /* of the same shape: sizes of strings in bytes; NULL if no dimension is a string */
  uint8_t *text; /* strings; NULL if no dimension is a string */
} tsr_rtree;

/* Decodes the content of an R-tree's generic tile. `arena` owns the tree. MBRs of inner levels are widened where they
 * do not contain their children. */
int tsr__rtree_decode(tsr_input *in, const tsr_schema *schema, uint32_t version, tsr_arena *arena, tsr_rtree *rtree,
                      tsr_error *error);

/* Decodes the list of `count` MBRs of a fragment of version 1 or 2 into a tree of one level. */
int tsr__rtree_single_level(tsr_input *in, uint64_t count, const tsr_schema *schema, tsr_arena *arena, tsr_rtree *rtree,
                            tsr_error *error);

/* Builds the levels above `count` leaves, with fanout 10. `keys` and `sizes` are those of the leaves, laid out as in
 * tsr_rtree; they and `text` are borrowed. `sizes` is NULL if no dimension is a string. Without leaves the tree has no
 * levels. */
int tsr__rtree_build(const tsr_schema *schema, uint64_t count, uint64_t *keys, uint64_t *sizes, uint8_t *text,
                     tsr_arena *arena, tsr_rtree *rtree, tsr_error *error);

/* Sets the intervals of all dimensions to the MBR of the root of a tree that tsr__rtree_build has made of at least one
 * leaf. Strings are borrowed from the tree. */
void tsr__rtree_domain(const tsr_rtree *rtree, const tsr_schema *schema, tsr_interval *domain);

/* Appends the content of the R-tree's generic tile. On an error `out` is unchanged. */
int tsr__rtree_encode(const tsr_rtree *rtree, const tsr_schema *schema, uint32_t version, tsr_buffer *out,
                      tsr_error *error);

/* Represents the unknown high end of a string interval (rtree.c). It is greater than every string that does not begin
 * with it. */
#define TSR_TOP_TEXT_SIZE 32
extern const uint8_t tsr__top_text[TSR_TOP_TEXT_SIZE];

/* Called for a leaf (the number of a tile). `inside`: the leaf's MBR is within what is sought. Returns < 0 to end the
 * walk with that code. */
typedef int (*tsr_rtree_visitor)(void *argument, uint64_t leaf, bool inside, tsr_error *error);

/* Relates what is sought to the MBR of a node of a level: TSR_OUTSIDE if nothing of it can be in the MBR, TSR_INSIDE if
 * it has all of the MBR, and so all that is below the node. */
typedef tsr_relation (*tsr_rtree_test)(const void *sought, const tsr_rtree *rtree, uint32_t level, uint64_t node);

/* Calls `fn` for each leaf that `test` does not relate as TSR_OUTSIDE, in the order of the leaves. Nodes below one that
 * is OUTSIDE or INSIDE are not tested. */
int tsr__rtree_walk(const tsr_rtree *rtree, tsr_rtree_test test, const void *sought, tsr_rtree_visitor fn,
                    void *argument, tsr_error *error);

/* Walks to each leaf whose MBR intersects the spans (one for each dimension). */
int tsr__rtree_query(const tsr_rtree *rtree, const tsr_spans *spans, tsr_rtree_visitor fn, void *argument,
                     tsr_error *error);

#endif
