/* write_boxes.h: cells of a dense array, of any shape -> exact boxes. */
#ifndef TSR_WRITE_BOXES_H
#define TSR_WRITE_BOXES_H

#include "base/sort.h"
#include "model/domain.h"

typedef struct tsr_boxes tsr_boxes;
#define TSR_BOXES_MAX 1000 /* in a commit; one below format version 12 */

typedef struct tsr_boxes_source {
  const tsr_schema *schema;
  const tsr_column *columns; /* of all fields, borrowed until close; cells in any order, of equals the last counts */
  uint64_t count;
  /* NULL, or a snapshot of nothing but the cells, which are not in columns: sparse fragments in which they follow each other in
   * the array's order, one of each coordinate. Borrowed until close; then open_snapshot gives a snapshot with them on top. */
  tsr_snapshot *spilled;
  uint64_t most; /* boxes; 0: none but what there are */
  /* The present state, listed anew: asked for where there are more boxes; closed by the boxes. */
  int (*open_snapshot)(void *argument, tsr_snapshot **snapshot, tsr_error *error);
  void *argument;
  tsr_memory *memory;
  unsigned threads;
} tsr_boxes_source;

/* The boxes of these cells, apart from each other. Past `most` they are joined over gaps whose cells are all written;
 * such cells are written again as they are. TSR_FULL if too many are left. */
int tsr__boxes_open(const tsr_boxes_source *source, tsr_boxes **boxes, tsr_error *error);
uint64_t tsr__boxes_count(const tsr_boxes *boxes);

/* One interval for each dimension; borrowed. */
const tsr_interval *tsr__boxes_box(const tsr_boxes *boxes, uint64_t index);
void tsr__boxes_close(tsr_boxes *boxes); /* NULL is fine */

typedef struct tsr_box_list { /* `width` numbers each: low and high ordinals by dimension, and a tile */
  tsr_buffer numbers;
  uint64_t width, count;
} tsr_box_list;

struct tsr_boxes {
  tsr_boxes_source source;
  tsr_arena arena;
  tsr_grid grid;
  uint32_t dimensions;
  uint64_t *stride; /* in a tile, by dimension */
  /* cells in memory */
  unsigned place_bits; /* of a key: the place in the tile */
  tsr_pair *cells;
  uint64_t cell_count;
  uint64_t tile_count;
  uint64_t *tile_first; /* tile_count + 1: their first cells */
  uint64_t *tile_at; /* [tile * dimensions + d], rising */
  /* spilled ones */
  tsr_reader *own;
  /* boxes */
  tsr_box_list parts, boxes;
  tsr_interval *intervals;
  tsr_snapshot *snapshot; /* the present state; of spilled cells: with them on top */
  tsr_reader *reader;
  uint64_t *scratch; /* ordinals: 4 by dimension */
  tsr_buffer *values, *offsets, *validity; /* a tile's cells, where some come from a snapshot */
  tsr_buffer taken;
  tsr_column *columns;
};

static inline uint64_t *tsr__box_at(const tsr_box_list *list, uint64_t i) {
  return (uint64_t *)(void *)list->numbers.data + i * list->width;
}
static inline uint64_t *tsr__box_low(uint64_t *box) { return box; }
static inline uint64_t *tsr__box_high(const tsr_boxes *b, uint64_t *box) { return box + b->dimensions; }
static inline uint64_t *tsr__box_tile(const tsr_boxes *b, uint64_t *box) { return box + 2 * (uint64_t)b->dimensions; }

/* Axes from the fastest to the slowest in cell order. */
static inline uint32_t tsr__box_axis(const tsr_boxes *b, uint32_t i) {
  return b->grid.col_major_cells ? i : b->dimensions - 1 - i;
}

int tsr__box_add(tsr_box_list *list, uint64_t **box, tsr_error *error); /* all zero */

/* Boxes that are neighbours on an axis, with the same sides otherwise, and in the same tile if `in_tiles`, become one. */
int tsr__boxes_join(const tsr_boxes *boxes, tsr_box_list *list, uint32_t axis, bool in_tiles, tsr_error *error);

/* The same on all axes, a few times, whatever the tiles. */
int tsr__boxes_join_all(const tsr_boxes *boxes, tsr_box_list *list, tsr_error *error);

/* Joins the parts in each block of 2^level tiles a side to the box around them, where nothing in it is unwritten; *blocks: how
 * many blocks there are. */
int tsr__boxes_join_blocks(tsr_boxes *boxes, unsigned level, uint64_t *blocks, tsr_error *error);

/* TSR_FULL. */
int tsr__boxes_too_many(const tsr_boxes *boxes, uint64_t count, tsr_error *error);

/* Opens the snapshot and its reader, once. */
int tsr__boxes_present(tsr_boxes *boxes, tsr_error *error);

/* 1 if all cells of the box have been written, with all attributes, or are about to be; 0 if not. */
int tsr__boxes_covered(tsr_boxes *boxes, const uint64_t *low, const uint64_t *high, tsr_error *error);

/* A place in a tile as ordinals of the array. */
void tsr__boxes_ordinals(const tsr_boxes *boxes, const uint64_t *tile, uint64_t place, uint64_t *ordinals);

/* The tile's number among those that have cells in memory; tile_count if it has none. */
uint64_t tsr__boxes_find_tile(const tsr_boxes *boxes, const uint64_t *tile);

static inline uint64_t tsr__boxes_place(const tsr_boxes *b, uint64_t cell) {
  return b->cells[cell].key & ((UINT64_C(1) << b->place_bits) - 1);
}

/* Starts a reader on what lies between two corners. */
int tsr__boxes_read(tsr_boxes *boxes, tsr_reader *reader, const uint64_t *low, const uint64_t *high, bool attributes,
                    tsr_error *error);

/* The tile of a row, and its place there; `columns` are its coordinates. */
void tsr__boxes_locate(const tsr_boxes *boxes, const tsr_column *const *columns, uint64_t index, uint64_t *tile,
                       uint64_t *place);
int tsr__boxes_coordinates(const tsr_boxes *boxes, tsr_reader *reader, const tsr_column **columns, tsr_error *error);

#endif
