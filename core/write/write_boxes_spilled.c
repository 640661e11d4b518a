/* write_boxes_spilled.c: finds parts of boxes among spilled cells, which come in the array's order, in bounded memory.
 *
 * The cells of a tile come one after the other. Neighbours in a row are a box, and the boxes of a tile are joined when
 * the next tile begins. If there are more parts than memory has room for, neighbours are joined across tiles. If that
 * is not enough, parts are joined over gaps in which all cells are written, in blocks of tiles that grow, as
 * write_boxes.c does in the end. If too many are left after that, they cannot become as few boxes as a commit may have:
 * a box of the commit, cut to the tiles that have come, is one box for each dimension at most.
 *
 * Boxes that were joined over gaps may overlap boxes of tiles that came later; both have the same values there. */
#include "write/write_boxes_spilled.h"

#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/reader.h"
#include "write/write_boxes.h"

#define PARTS_MIN  (4u * TSR_BOXES_MAX) /* parts that there is always room for */
#define PART_BYTES 160u /* bytes that a part takes while parts are joined, about */

typedef struct stream {
  tsr_boxes *boxes;
  uint64_t most; /* parts at most, of a tile and of all */
  bool open; /* there is a present tile: */
  uint64_t tile[TSR_MAX_DIMENSIONS];
  tsr_box_list parts; /* parts of this tile */
  bool extends; /* the last one ends with the cell that came last, at `place`: */
  uint64_t place;
  bool crowded; /* this tile has too many parts: all that is known is a box around its cells */
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS];
  uint64_t tile_parts; /* parts of the tile at that moment */
} stream;

/* ---- All parts ------------------------------------------------------------------------------ */

static int write_boxes_spilled_make_room(stream *s, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  uint64_t blocks = b->source.open_snapshot ? 2 : 0;
  TSR_TRY(tsr__boxes_join_all(b, &b->parts, error));
  for (unsigned level = 0; level < 64 && blocks > 1 && b->parts.count > s->most / 2; level++) {
    TSR_TRY(tsr__boxes_join_blocks(b, level, &blocks, error));
    TSR_TRY(tsr__boxes_join_all(b, &b->parts, error));
  }
  return b->parts.count > s->most / 2 ? tsr__boxes_too_many(b, b->parts.count, error) : TSR_OK;
}

static int write_boxes_spilled_add_part(stream *s, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  uint64_t *box;
  if (b->parts.count == s->most) TSR_TRY(write_boxes_spilled_make_room(s, error));
  TSR_TRY(tsr__box_add(&b->parts, &box, error));
  memcpy(tsr__box_low(box), low, b->dimensions * sizeof *low);
  memcpy(tsr__box_high(b, box), high, b->dimensions * sizeof *high);
  return TSR_OK;
}

/* ---- The present tile ----------------------------------------------------------------------- */

static int end_tile(stream *s, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  if (!s->open) return TSR_OK;
  if (s->crowded) {
    const int rc = b->source.open_snapshot ? tsr__boxes_covered(b, s->low, s->high, error) : 0;
    if (rc < 0) return rc;
    return rc ? write_boxes_spilled_add_part(s, s->low, s->high, error)
              : tsr__boxes_too_many(b, b->parts.count + s->tile_parts, error);
  }
  if (s->parts.count > 1) TSR_TRY(tsr__boxes_join_all(b, &s->parts, error));
  for (uint64_t i = 0; i < s->parts.count; i++) {
    uint64_t *box = tsr__box_at(&s->parts, i);
    TSR_TRY(write_boxes_spilled_add_part(s, tsr__box_low(box), tsr__box_high(b, box), error));
  }
  return TSR_OK;
}

static void begin_tile(stream *s, const uint64_t *tile) {
  memcpy(s->tile, tile, s->boxes->dimensions * sizeof *tile);
  s->parts.numbers.size = s->parts.count = 0;
  s->extends = s->crowded = false;
  s->open = true;
}

/* The present tile has `most` parts: joins them, or replaces them by a box around them. */
static int thin_out(stream *s, tsr_error *error) {
  const tsr_boxes *b = s->boxes;
  s->extends = false;
  TSR_TRY(tsr__boxes_join_all(b, &s->parts, error));
  if (s->parts.count <= s->most / 2) return TSR_OK;
  s->crowded = true;
  s->tile_parts = s->parts.count;
  for (uint64_t i = 0; i < s->parts.count; i++) {
    uint64_t *box = tsr__box_at(&s->parts, i);
    for (uint32_t d = 0; d < b->dimensions; d++) {
      s->low[d] = i == 0 ? tsr__box_low(box)[d] : TSR_MIN(s->low[d], tsr__box_low(box)[d]);
      s->high[d] = i == 0 ? tsr__box_high(b, box)[d] : TSR_MAX(s->high[d], tsr__box_high(b, box)[d]);
    }
  }
  return TSR_OK;
}

static int add_cell(stream *s, const uint64_t *tile, const uint64_t *ordinals, uint64_t place, tsr_error *error) {
  const tsr_boxes *b = s->boxes;
  const uint32_t n = b->dimensions, fast = tsr__box_axis(b, 0);
  uint64_t *box;
  if (!s->open || memcmp(s->tile, tile, n * sizeof *tile) != 0) {
    TSR_TRY(end_tile(s, error));
    begin_tile(s, tile);
  }
  if (!s->crowded && s->extends && place == s->place + 1 && place % b->grid.extent[fast] != 0) {
    tsr__box_high(b, tsr__box_at(&s->parts, s->parts.count - 1))[fast]++;
    s->place = place;
    return TSR_OK;
  }
  if (!s->crowded && s->parts.count == s->most) TSR_TRY(thin_out(s, error));
  if (s->crowded) {
    for (uint32_t d = 0; d < n; d++) {
      s->low[d] = TSR_MIN(s->low[d], ordinals[d]);
      s->high[d] = TSR_MAX(s->high[d], ordinals[d]);
    }
    return TSR_OK;
  }
  TSR_TRY(tsr__box_add(&s->parts, &box, error));
  memcpy(tsr__box_low(box), ordinals, n * sizeof *ordinals);
  memcpy(tsr__box_high(b, box), ordinals, n * sizeof *ordinals);
  s->extends = true;
  s->place = place;
  return TSR_OK;
}

/* ---- The cells ------------------------------------------------------------------------------ */

static int write_boxes_spilled_add_cells(stream *s, const tsr_tile_request *requests, uint64_t count,
                                         tsr_error *error) {
  const tsr_boxes *b = s->boxes;
  const tsr_field *fields = b->source.schema->fields;
  uint64_t tile[TSR_MAX_DIMENSIONS], ordinals[TSR_MAX_DIMENSIONS];
  for (uint64_t i = 0; i < count; i++) {
    uint64_t place = 0;
    for (uint32_t d = 0; d < b->dimensions; d++) {
      const uint8_t *value = requests[d].tile->values + i * fields[d].cell_size;
      ordinals[d] = tsr__key(fields[d].datatype, value) - b->grid.low_key[d];
      tile[d] = ordinals[d] / b->grid.extent[d];
      place += (ordinals[d] - tile[d] * b->grid.extent[d]) * b->stride[d];
    }
    TSR_TRY(add_cell(s, tile, ordinals, place, error));
  }
  return TSR_OK;
}

/* Reads the runs tile by tile, coordinates alone. */
static int write_boxes_spilled_read_cells(stream *s, tsr_error *error) {
  tsr_boxes *b = s->boxes;
  const tsr_snapshot *snapshot = b->source.spilled;
  tsr_tile_request *requests;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, b->dimensions, &requests, error));
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[f];
    for (uint64_t t = 0; t < item->fragment->metadata.tile_count; t++) {
      for (uint32_t d = 0; d < b->dimensions; d++)
        requests[d] = (tsr_tile_request){.fragment = item->fragment, .slot = (uint32_t)item->slots[d], .number = t};
      TSR_TRY(tsr__cancelled(&snapshot->array->environment->memory, error));
      TSR_TRY(tsr__tiles_load(snapshot->array, b->source.threads, requests, b->dimensions, b->source.memory, error));
      const int rc =
          write_boxes_spilled_add_cells(s, requests, tsr__fragment_tile_cells(&item->fragment->metadata, t), error);
      for (uint32_t d = 0; d < b->dimensions; d++) tsr__tile_return(requests[d].tile, b->source.memory);
      TSR_TRY(rc);
    }
  }
  return end_tile(s, error);
}

int tsr__boxes_find_spilled(tsr_boxes *boxes, tsr_error *error) {
  stream s = {.boxes = boxes, .parts = {.width = boxes->parts.width, .numbers.memory = boxes->source.memory}};
  s.most = TSR_MAX(PARTS_MIN, boxes->source.memory->limit / 8 / PART_BYTES);
  TSR_TRY(tsr__reader_open_within(boxes->source.spilled, boxes->source.memory, &boxes->spilled, error));
  boxes->spilled->request.written_only = true;
  const int rc = write_boxes_spilled_read_cells(&s, error);
  tsr__buffer_release(&s.parts.numbers);
  return rc;
}
