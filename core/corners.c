/* corners.c: where the tiles of a sparse plan begin along a dimension, so that a part of the plan with about so many rows
 * can be cut off there.
 *
 * Of numbers it is taken that cells lie evenly in a tile's box, along its values: so many rows are a slice of each tile
 * that lies there. Nothing depends on how true that is but the number of rows. Strings are cut between two tiles.
 *
 * "Directed" keys are order keys, complemented where the order descends: they always ascend.
 */
#include <math.h>

#include "ops.h"

static uint64_t directed(const tsr_corners *c, uint64_t key) { return c->descending ? ~key : key; }

static const tsr_fragment_metadata *metadata_of(const tsr_corners *c, const tsr_pair *corner) {
  return &c->reader->snapshot->fragments[c->reader->plan.tiles[corner->cell].fragment].fragment->metadata;
}

static uint64_t cells_of(const tsr_corners *c, const tsr_pair *corner) {
  return tsr__fragment_tile_cells(metadata_of(c, corner), c->reader->plan.tiles[corner->cell].tile);
}

/* Where in its R-tree's leaves stands the end of a tile's box at which it begins, or ends, in the order's direction? */
static uint64_t place_of(const tsr_corners *c, const tsr_pair *corner, bool end) {
  const uint64_t tile = c->reader->plan.tiles[corner->cell].tile;
  return (tile * metadata_of(c, corner)->rtree->dimensions + c->dimension) * 2 + (c->descending != end);
}

static uint64_t key_of(const tsr_corners *c, const tsr_pair *corner, bool end) {
  const tsr_rtree *rtree = metadata_of(c, corner)->rtree;
  return directed(c, rtree->keys[rtree->levels - 1][place_of(c, corner, end)]);
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static const uint8_t *text_of(const tsr_corners *c, const tsr_pair *corner, uint64_t *size) {
  const tsr_rtree *rtree = metadata_of(c, corner)->rtree;
  const uint64_t at = place_of(c, corner, false);
  *size = rtree->sizes[rtree->levels - 1][at];
  return rtree->text + rtree->keys[rtree->levels - 1][at];
}

static int compare_text(const tsr_corners *c, const tsr_pair *corner, const uint8_t *bytes, uint64_t size) {
  uint64_t own_size;
  const uint8_t *own = text_of(c, corner, &own_size);
  const int order = tsr__bytes_compare(own, own_size, bytes, size);
  return c->descending ? -order : order;
}

static int compare_corners(const void *argument, uint32_t a, uint32_t b) {
  uint64_t size;
  const tsr_pair one = {.cell = a}, other = {.cell = b};
  const uint8_t *bytes = text_of(argument, &other, &size);
  return compare_text(argument, &one, bytes, size);
}

const uint8_t *tsr__corners_next_text(tsr_corners *c, const tsr_buffer *from, uint64_t rows, uint64_t *size) {
  uint64_t cells = 0;
  while (from && c->at < c->count && compare_text(c, &c->corners[c->at], from->data, from->size) <= 0) c->at++;
  for (uint64_t i = c->at; i < c->count; i++) {
    if (cells >= rows) return text_of(c, &c->corners[i], size);
    cells += cells_of(c, &c->corners[i]);
  }
  return NULL;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static double float_of(const tsr_corners *c, uint64_t key) {
  uint8_t value[sizeof(double)];
  float narrow;
  double wide;
  tsr__key_value(c->field->datatype, directed(c, key), value);
  memcpy(&narrow, value, sizeof narrow);
  memcpy(&wide, value, sizeof wide);
  return c->field->datatype == TSR_FLOAT32 ? (double)narrow : wide;
}

/* Which part of the box low..high lies in from..end, which meets it? */
static double part_of(const tsr_corners *c, uint64_t low, uint64_t high, uint64_t from, uint64_t end) {
  from = TSR_MAX(low, from);
  end = TSR_MIN(high, end);
  if (from == low && end == high) return 1;
  if (tsr_datatype_kind(c->field->datatype) == TSR_KIND_FLOAT) {
    const double width = fabs(float_of(c, high) - float_of(c, low));
    if (isfinite(width) && width > 0) return fabs(float_of(c, end) - float_of(c, from)) / width;
  }
  return ((double)(end - from) + 1) / ((double)(high - low) + 1);
}

/* Rows in from..end of the tiles that have begun, and of the next `ahead`. */
static double expect(const tsr_corners *c, uint64_t ahead, uint64_t from, uint64_t end) {
  double rows = 0;
  for (uint64_t i = c->first; i < c->at + ahead && c->corners[i].key <= end; i++) {
    const double part = part_of(c, c->corners[i].key, key_of(c, &c->corners[i], true), from, end);
    rows += part * (double)cells_of(c, &c->corners[i]);
  }
  return rows;
}

uint64_t tsr__corners_next(tsr_corners *c, uint64_t from, uint64_t rows) {
  uint64_t kept, ahead = 1, low = from, high = UINT64_MAX;
  while (c->at < c->count && c->corners[c->at].key <= from) c->at++;
  kept = c->at;
  for (uint64_t i = c->at; i-- > c->first;) /* those that have ended are passed over from now on */
    if (key_of(c, &c->corners[i], true) >= from) c->corners[--kept] = c->corners[i];
  c->first = kept;
  const uint64_t left = c->count - c->at;
  while (ahead < left && expect(c, ahead, from, c->corners[c->at + ahead].key) < (double)rows) ahead *= 2;
  if (ahead < left) high = c->corners[c->at + ahead].key;
  else if (expect(c, left, from, high) <= (double)rows) return high;
  while (low < high) { /* the first place with so many */
    const uint64_t middle = low + (high - low) / 2;
    if (expect(c, TSR_MIN(ahead, left), from, middle) < (double)rows) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int tsr__corners_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_corners *c, tsr_error *error) {
  const tsr_plan *plan = &reader->plan;
  const tsr_field *field = &reader->snapshot->schema->fields[dimension];
  const uint64_t n = plan->tile_count;
  const bool text = field->values_per_cell == TSR_VARIABLE;
  void *memory;
  *c = (tsr_corners){.reader = reader, .field = field, .dimension = dimension, .descending = descending};
  if (reader->snapshot->schema->dense || plan->lossy || n >= UINT32_MAX) return TSR_OK;
  TSR_TRY(tsr__arena_array(&reader->arena, tsr__mul_sat(2, n), sizeof(tsr_pair), &memory, error));
  c->corners = memory;
  c->count = n;
  for (uint32_t i = 0; i < n; i++) {
    tsr_pair *corner = &c->corners[i];
    uint64_t size;
    corner->cell = i;
    if (text) {
      const uint8_t *bytes = text_of(c, corner, &size);
      corner->key = directed(c, tsr__text_prefix(bytes, size));
    } else {
      corner->key = key_of(c, corner, false);
    }
  }
  tsr__pairs_sort_ties(c->corners, c->corners + n, n, text ? compare_corners : NULL, c);
  return TSR_OK;
}
