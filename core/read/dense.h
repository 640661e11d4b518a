/* dense.h: the space tiles of a dense request with the fragments that may own their cells, a window at once. */
#ifndef TSR_READ_DENSE_H
#define TSR_READ_DENSE_H

#include "read/plan.h"
#include "read/space_tiles.h"
#include "tessera.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_candidate { /* a fragment that may own cells of a space tile */
  const tsr_plan_box *box;
  bool used; /* dense: it owns selected cells that may satisfy the predicates: its tile is to be loaded */
  bool excluded; /* dense: it owns cells, but its statistics say that none of them satisfies the predicates */
  uint64_t number; /* dense: number of its tile */
  tsr_pinned_tile *pinned; /* owned; NULL: not loaded */
} tsr_candidate;

typedef struct tsr_space_tile {
  uint64_t *at, *first; /* by dimension: its coordinates; the first span of the selection that meets it */
  uint64_t *low, *high; /* the box around its selected cells, in ordinals, inclusive */
  uint64_t cells; /* selected */
  uint32_t count;
  tsr_candidate *candidates; /* newest first */
  bool covered; /* there is one candidate, a dense one, whose box covers all selected cells */
  bool crowded; /* memory has no room for all candidates at once: each is loaded for its batch, then dropped */
} tsr_space_tile;

typedef struct tsr_dense_window {
  tsr_space_tile *tiles;
  uint64_t count, cells; /* tiles; selected cells in them */
} tsr_dense_window;

typedef struct tsr_dense_making { /* the window that is being made */
  bool loads; /* some attribute is loaded with it */
  tsr_arena *arena; /* its memory */
} tsr_dense_making;

typedef struct tsr_dense_windows {
  tsr_reader *reader; /* borrowed */
  const tsr_plan *plan; /* the reader's */
  const tsr_grid *grid;
  uint32_t dimensions;
  tsr_walk walk;
  tsr_dense_window now, next; /* the present window, and the next one */
  uint64_t tile_at; /* the present space tile in `now` */
  bool has_next; /* `next` has been made */
  tsr_dense_making making;
  uint64_t *gap_box; /* scratch, by dimension: low, then high ordinals */
} tsr_dense_windows;

/* Begins to walk the reader's plan. All memory is the reader's. Close it before the reader starts again. */
int tsr__dense_windows_open(tsr_dense_windows *windows, tsr_reader *reader, tsr_error *error);

/* Makes the next window the present one and loads it. It has no tile if the shortcut took all that were inspected. */
int tsr__dense_windows_fill(tsr_dense_windows *windows, tsr_error *error);

/* Gives back the tiles of all windows. */
void tsr__dense_windows_close(tsr_dense_windows *windows);

/* Gives back the tiles of a space tile's candidates. */
void tsr__dense_drop_tile(tsr_dense_windows *windows, tsr_space_tile *tile);

/* Pins a dense candidate's tile, to be read from the first to the last selected cell, unless it is pinned. */
int tsr__dense_pin(tsr_dense_windows *windows, const tsr_space_tile *tile, tsr_candidate *candidate, tsr_error *error);

/* Makes a map of owners for the cells of a subtile, by position, in which no cell has an owner yet: tile->count stands
 * for that, an index of a candidate for an owner. The map is the reader's and lives until the next call. */
int tsr__dense_owners_reset(tsr_dense_windows *windows, tsr_space_tile *tile, const tsr_subtile *subtile,
                            uint32_t **owners, tsr_error *error);

/* Makes candidate `c`, a dense one, the owner of all cells in its box that have no owner yet. Returns their number. */
uint64_t tsr__dense_claim_box(const tsr_subtile *subtile, const tsr_space_tile *tile, uint32_t c, uint32_t *owners);

/* Batches of a dense array. Each selected cell comes from the newest fragment that wrote it. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over reader->plan, in tile order. The iterator lives in the reader's arena until its next start;
 * close it before that. */
int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

#endif
