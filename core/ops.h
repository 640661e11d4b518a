/* ops.h: what is done with arrays: planning and reading (writing, maintenance and checks join them here).
 *
 * A request becomes spans (one set per dimension), the spans choose fragments, then tiles; readers decode columns of
 * those tiles, in windows that go to the pool, and hand out batches. Sparse tiles whose boxes meet no other fragment's
 * stream straight through; the others go through the sweep (read_sparse.c), where the newest version of each coordinate
 * wins.
 */
#ifndef TSR_OPS_H
#define TSR_OPS_H

#include "array.h"

/* ---- plan.c: the planner and the reader use the same code ---- */
typedef struct tsr_plan_tile {
  uint32_t fragment;
  bool inside;
  uint64_t tile;
} tsr_plan_tile; /* fragment: index in the snapshot */
typedef struct tsr_plan {
  tsr_snapshot *snapshot;
  tsr_arena *arena;
  bool empty; /* some dimension has no span */
  tsr_spans *spans; /* one per dimension */
  /* sparse */
  uint64_t tile_count;
  tsr_plan_tile *tiles; /* those that may hold cells of the request, by fragment, then tile */
  /* dense: fragments whose boxes meet the request, oldest first; tiles are enumerated by read_dense.c */
  uint64_t fragment_count;
  uint32_t *fragments;
  uint64_t *box_low, *box_high; /* ordinals: the hull of the spans within the non-empty domain */
} tsr_plan;
int tsr__plan_make(tsr_snapshot *snapshot, const tsr_request *request, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error);

/* ---- reader.c: tiles for readers, batches for callers ---- */
/* Loads tiles (from the cache or the store) of several (fragment, slot, tile) at once, in parallel; each wanted tile is
 * held. */
typedef struct tsr_want {
  tsr_fragment *fragment;
  uint32_t slot;
  uint64_t number;
  tsr_tile *tile;
} tsr_want;
int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_want *wants, uint64_t count, tsr_memory *memory,
                    tsr_error *error);

/* A source of batches: read_dense.c and read_sparse.c. */
typedef struct tsr_source {
  int (*next)(struct tsr_source *source, tsr_batch *batch, tsr_error *error); /* 1, 0, < 0 */
  int (*column)(struct tsr_source *source, uint32_t field, tsr_column *column, tsr_error *error);
  void (*close)(struct tsr_source *source);
} tsr_source;
struct tsr_reader {
  tsr_snapshot *snapshot;
  tsr_memory memory; /* the query's budget */
  tsr_arena arena; /* reset at each start */
  tsr_plan plan;
  tsr_source *source;
  bool *fields; /* decoded ahead */
  bool times;
  uint64_t limit;
  unsigned threads;
  tsr_batch batch;
  tsr_column *columns;
  bool *column_ready; /* of the current batch, one per field */
};
int tsr__read_dense_open(tsr_reader *reader, tsr_source **source, tsr_error *error);
int tsr__read_sparse_open(tsr_reader *reader, tsr_source **source, tsr_error *error);

#endif
