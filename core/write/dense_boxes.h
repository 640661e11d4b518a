/* dense_boxes.h: covers the cells of a dense commit, which may have any shape, with disjoint boxes, and writes each box
 * as one dense fragment. The structures below tsr__boxes_close are internal to dense_boxes.c. */
#ifndef TSR_WRITE_DENSE_BOXES_H
#define TSR_WRITE_DENSE_BOXES_H

#include "base/sort.h"
#include "model/domain.h"
#include "tessera.h"

typedef struct tsr_boxes tsr_boxes;
#define TSR_BOXES_MAX 1000 /* in one commit; below format version 12 a commit has one box */

typedef struct tsr_boxes_source {
  const tsr_schema *schema;
  /* one for each field, borrowed until close; cells in any order; of cells with equal coordinates the last one wins */
  const tsr_column *columns;
  uint64_t count;
  /* NULL, or a snapshot of only these cells, which are then not in `columns`: sparse fragments that follow each other
   * in the array's order, with one cell for each coordinate. Borrowed until close. open_snapshot must then return a
   * snapshot with these cells on top. */
  tsr_snapshot *spilled;
  uint64_t most; /* maximum number of boxes; 0: as many as it takes, never joined over gaps */
  /* Opens a snapshot of the array's current state, freshly listed; called if boxes must be joined over gaps. The boxes
   * close it. NULL: gaps cannot be joined. */
  int (*open_snapshot)(void *argument, tsr_snapshot **snapshot, tsr_error *error);
  void *argument;
  tsr_memory *memory;
  unsigned threads;
} tsr_boxes_source;

/* Finds disjoint boxes that contain the cells. If there are more than `most`, it joins boxes over gaps in which all
 * cells are already written; these cells are rewritten with their current values. Errors: TSR_FULL if too many boxes
 * are left. */
int tsr__boxes_open(const tsr_boxes_source *source, tsr_boxes **boxes, tsr_error *error);

/* Returns the number of boxes. */
uint64_t tsr__boxes_count(const tsr_boxes *boxes);

/* Returns box `index`: one interval for each dimension, borrowed from `boxes`. */
const tsr_interval *tsr__boxes_box(const tsr_boxes *boxes, uint64_t index);

/* Frees the boxes. NULL is allowed. */
void tsr__boxes_close(tsr_boxes *boxes);

/* ---- Internal to dense_boxes.c ----------------------------------------------------------------------------------- */

typedef struct tsr_box_list { /* boxes of `width` numbers: low and high ordinals by dimension, and the tile */
  tsr_buffer numbers;
  uint64_t width, count;
} tsr_box_list;

typedef struct tsr_box_cells { /* cells in memory, sorted by key */
  unsigned place_bits; /* low bits of a key: the position in the tile; the bits above: the number of the tile */
  tsr_pair *pairs;
  uint64_t count, tile_count;
  uint64_t *tile_first; /* tile_count + 1: the first of `pairs` in each tile */
  uint64_t *tile_at; /* [tile * dimensions + d]: tile coordinates, in units of tiles, in ascending order of tiles */
} tsr_box_cells;

typedef struct tsr_box_fill { /* the cells of one tile, if some of them come from a snapshot */
  tsr_buffer *values, *offsets, *validity; /* by field */
  tsr_buffer taken; /* u64: rows of a batch that are taken */
  tsr_column *columns; /* by field */
} tsr_box_fill;

struct tsr_boxes {
  tsr_boxes_source source;
  tsr_arena arena;
  tsr_grid grid;
  uint32_t dimensions;
  uint64_t *stride; /* by how much a step on a dimension changes the position in the tile */
  tsr_box_cells cells; /* none if `in_order` */
  bool in_order; /* the cells in memory form one box, in row-major order */
  tsr_reader *spilled; /* over source.spilled; NULL: the cells are in memory */
  tsr_box_list parts; /* boxes, each within one tile or one block of tiles */
  tsr_box_list boxes; /* the boxes to write */
  tsr_interval *intervals; /* by box of `boxes`, then by dimension */
  tsr_snapshot *snapshot; /* the current state, with spilled cells on top; NULL: not open */
  tsr_reader *reader; /* over `snapshot`; NULL: not open */
  uint64_t *scratch; /* 4 ordinals for each dimension, for the function that is running */
  tsr_box_fill fill;
};

static inline uint64_t *tsr__box_at(const tsr_box_list *list, uint64_t i) {
  return (uint64_t *)(void *)list->numbers.data + i * list->width;
}
static inline uint64_t *tsr__box_low(uint64_t *box) { return box; }
static inline uint64_t *tsr__box_high(const tsr_boxes *b, uint64_t *box) { return box + b->dimensions; }
static inline uint64_t *tsr__box_tile(const tsr_boxes *b, uint64_t *box) { return box + 2 * (uint64_t)b->dimensions; }

/* Returns the i-th axis in cell order; 0 is the fastest. */
static inline uint32_t tsr__box_axis(const tsr_boxes *b, uint32_t i) {
  return b->grid.col_major_cells ? i : b->dimensions - 1 - i;
}

static inline uint64_t tsr__boxes_place(const tsr_boxes *b, uint64_t cell) {
  return b->cells.pairs[cell].key & ((UINT64_C(1) << b->cells.place_bits) - 1);
}

/* ---- Writing boxes ----------------------------------------------------------------------------------------------- */

typedef struct tsr_fragment_target tsr_fragment_target;

/* Writes box `index` as one fragment. target->box is that box. */
int tsr__boxes_write(tsr_boxes *boxes, uint64_t index, const tsr_fragment_target *target, tsr_error *error);

#endif
