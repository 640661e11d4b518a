/* tile_starts.c: where the tiles of a sparse plan begin along a dimension, so that a part of the plan with about so many rows
 * can be cut off there.
 *
 * Of numbers it is taken that cells lie evenly in a tile's box, along its values: so many rows are a slice of each tile
 * that lies there. Nothing depends on how true that is but the number of rows. Strings are cut between two tiles. Where one
 * value has many more rows, the next dimension is looked at, in the tiles that may hold that value.
 *
 * "Directed" keys are order keys, complemented where the order descends: they always ascend.
 */
#include "read/tile_starts.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/snapshot.h"
#include "read/reader.h"

static uint64_t tile_starts_directed(const tsr_tile_starts *c, uint64_t key) { return c->descending ? ~key : key; }

static const tsr_fragment_metadata *metadata_of(const tsr_tile_starts *c, const tsr_pair *corner) {
  return &c->reader->snapshot->fragments[c->reader->plan.tiles[corner->cell].fragment].fragment->metadata;
}

static uint64_t tile_starts_cells_of(const tsr_tile_starts *c, const tsr_pair *corner) {
  return tsr__fragment_tile_cells(metadata_of(c, corner), c->reader->plan.tiles[corner->cell].tile);
}

/* Where in its R-tree's leaves stands the end of a tile's box at which it begins, or ends, in the order's direction? */
static uint64_t tile_starts_place_of(const tsr_tile_starts *c, const tsr_pair *corner, bool end) {
  const uint64_t tile = c->reader->plan.tiles[corner->cell].tile;
  return (tile * metadata_of(c, corner)->rtree->dimensions + c->dimension) * 2 + (c->descending != end);
}

static uint64_t key_of(const tsr_tile_starts *c, const tsr_pair *corner, bool end) {
  const tsr_rtree *rtree = metadata_of(c, corner)->rtree;
  return tile_starts_directed(c, rtree->keys[rtree->levels - 1][tile_starts_place_of(c, corner, end)]);
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static const uint8_t *tile_starts_text_of(const tsr_tile_starts *c, const tsr_pair *corner, bool end, uint64_t *size) {
  const tsr_rtree *rtree = metadata_of(c, corner)->rtree;
  const uint64_t at = tile_starts_place_of(c, corner, end);
  *size = rtree->sizes[rtree->levels - 1][at];
  return rtree->text + rtree->keys[rtree->levels - 1][at];
}

static int tile_starts_compare_text(const tsr_tile_starts *c, const tsr_pair *corner, bool end, const uint8_t *bytes,
                                    uint64_t size) {
  uint64_t own_size;
  const uint8_t *own = tile_starts_text_of(c, corner, end, &own_size);
  const int order = tsr__bytes_compare(own, own_size, bytes, size);
  return c->descending ? -order : order;
}

static int tile_starts_compare(const void *argument, uint32_t a, uint32_t b) {
  uint64_t size;
  const tsr_pair one = {.cell = a}, other = {.cell = b};
  const uint8_t *bytes = tile_starts_text_of(argument, &other, false, &size);
  return tile_starts_compare_text(argument, &one, false, bytes, size);
}

const uint8_t *tsr__tile_starts_next_text(tsr_tile_starts *c, const tsr_buffer *from, bool exclusive, uint64_t rows,
                                          uint64_t many, uint64_t *size, bool *single) {
  uint64_t cells = 0, equal = 0, first_size;
  *single = false;
  for (; from && c->at < c->count; c->at++) {
    const int order = tile_starts_compare_text(c, &c->starts[c->at], false, from->data, from->size);
    if (order > 0 || (order == 0 && !exclusive)) break;
  }
  if (c->at == c->count) return NULL;
  const uint8_t *first = tile_starts_text_of(c, &c->starts[c->at], false, &first_size);
  /* do rows begin there? */
  const bool begins =
      !from || (!exclusive && tile_starts_compare_text(c, &c->starts[c->at], false, from->data, from->size) == 0);
  for (uint64_t i = c->at; i < c->count; i++) {
    const tsr_pair *corner = &c->starts[i];
    if (begins && tile_starts_compare_text(c, corner, false, first, first_size) == 0) {
      if (tile_starts_compare_text(c, corner, true, first, first_size) == 0) equal += tile_starts_cells_of(c, corner);
      if (equal > many) {
        *single = true;
        *size = first_size;
        return first;
      }
    } else if (cells >= rows) {
      return tile_starts_text_of(c, corner, false, size);
    }
    cells += tile_starts_cells_of(c, corner);
  }
  return NULL;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static double tile_starts_float_of(const tsr_tile_starts *c, uint64_t key) {
  uint8_t value[sizeof(double)];
  float narrow;
  double wide;
  tsr__key_value(c->field->datatype, tile_starts_directed(c, key), value);
  memcpy(&narrow, value, sizeof narrow);
  memcpy(&wide, value, sizeof wide);
  return c->field->datatype == TSR_FLOAT32 ? (double)narrow : wide;
}

/* Which part of the box low..high lies in from..end, which meets it? */
static double part_of(const tsr_tile_starts *c, uint64_t low, uint64_t high, uint64_t from, uint64_t end) {
  from = TSR_MAX(low, from);
  end = TSR_MIN(high, end);
  if (from == low && end == high) return 1;
  if (tsr_datatype_kind(c->field->datatype) == TSR_KIND_FLOAT) {
    const double width = fabs(tile_starts_float_of(c, high) - tile_starts_float_of(c, low));
    if (isfinite(width) && width > 0) return fabs(tile_starts_float_of(c, end) - tile_starts_float_of(c, from)) / width;
  }
  return ((double)(end - from) + 1) / ((double)(high - low) + 1);
}

/* Rows in from..end of the tiles that have begun, and of the next `ahead`. */
static double expect(const tsr_tile_starts *c, uint64_t ahead, uint64_t from, uint64_t end) {
  double rows = 0;
  for (uint64_t i = c->first; i < c->at + ahead && c->starts[i].key <= end; i++) {
    const double part = part_of(c, c->starts[i].key, key_of(c, &c->starts[i], true), from, end);
    rows += part * (double)tile_starts_cells_of(c, &c->starts[i]);
  }
  return rows;
}

/* What has begun at `from`; those that have ended are passed over from now on. */
static void tile_starts_pass(tsr_tile_starts *c, uint64_t from) {
  while (c->at < c->count && c->starts[c->at].key <= from) c->at++;
  uint64_t kept = c->at;
  for (uint64_t i = c->at; i-- > c->first;)
    if (key_of(c, &c->starts[i], true) >= from) c->starts[--kept] = c->starts[i];
  c->first = kept;
}

uint64_t tsr__tile_starts_begin(tsr_tile_starts *c, uint64_t from) {
  tile_starts_pass(c, from);
  return c->first < c->at || c->at == c->count ? from : c->starts[c->at].key;
}

uint64_t tsr__tile_starts_next(tsr_tile_starts *c, uint64_t from, uint64_t rows) {
  uint64_t ahead = 1, low = from, high = UINT64_MAX;
  tile_starts_pass(c, from);
  const uint64_t left = c->count - c->at;
  while (ahead < left && expect(c, ahead, from, c->starts[c->at + ahead].key) < (double)rows) ahead *= 2;
  if (ahead < left) high = c->starts[c->at + ahead].key;
  else if (expect(c, left, from, high) <= (double)rows) return high;
  while (low < high) { /* the first place with so many */
    const uint64_t middle = low + (high - low) / 2;
    if (expect(c, TSR_MIN(ahead, left), from, middle) < (double)rows) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool tsr__tile_starts_expect(const tsr_tile_starts *c, uint64_t key, uint64_t rows) {
  return expect(c, c->count - c->at, key, key) > (double)rows;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void tile_starts_add(tsr_tile_starts *c, uint32_t tile) {
  tsr_pair *corner = &c->starts[c->count++];
  uint64_t size;
  corner->cell = tile;
  if (c->field->values_per_cell == TSR_VARIABLE) {
    const uint8_t *bytes = tile_starts_text_of(c, corner, false, &size);
    corner->key = tile_starts_directed(c, tsr__text_prefix(bytes, size));
  } else {
    corner->key = key_of(c, corner, false);
  }
}

static void tile_starts_sort(tsr_tile_starts *c) {
  const bool text = c->field->values_per_cell == TSR_VARIABLE;
  tsr__pairs_sort_ties(c->starts, c->starts + c->count, c->count, text ? tile_starts_compare : NULL, c);
}

/* Room for so many, and for sorting them. Twice as much as before, as what there was is not given back. */
static bool tile_starts_reserve(tsr_tile_starts *c, uint64_t count) {
  const uint64_t capacity = TSR_MIN(TSR_MAX(count, 2 * c->capacity), c->reader->plan.tile_count);
  tsr_pair *memory;
  if (count <= c->capacity) return true;
  if (TSR_ARENA_ARRAY(&c->reader->arena, 2 * capacity, &memory, NULL) < 0) return false;
  c->starts = memory;
  c->capacity = capacity;
  return true;
}

void tsr__tile_starts_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_tile_starts *c) {
  const tsr_plan *plan = &reader->plan;
  const tsr_field *field = &reader->snapshot->schema->fields[dimension];
  *c = (tsr_tile_starts){.reader = reader, .field = field, .dimension = dimension, .descending = descending};
  if (reader->snapshot->schema->dense || plan->lossy || plan->tile_count >= UINT32_MAX) return;
  if (!(c->known = tile_starts_reserve(c, plan->tile_count))) return;
  for (uint32_t i = 0; i < plan->tile_count; i++) tile_starts_add(c, i);
  tile_starts_sort(c);
}

/* Does the tile's box have a value of the outer dimension in it, 0, or begin behind it, 1, or end before it? */
static int tile_starts_relate(const tsr_tile_starts *outer, const tsr_pair *corner, uint64_t key,
                              const tsr_buffer *text) {
  if (outer->field->values_per_cell != TSR_VARIABLE)
    return key_of(outer, corner, false) > key ? 1 : -(key_of(outer, corner, true) < key);
  return tile_starts_compare_text(outer, corner, false, text->data, text->size) > 0
             ? 1
             : -(tile_starts_compare_text(outer, corner, true, text->data, text->size) < 0);
}

void tsr__tile_starts_within(const tsr_tile_starts *outer, uint64_t key, const tsr_buffer *text, uint32_t dimension,
                             bool descending, tsr_tile_starts *c) {
  uint64_t count = 0, end = outer->first;
  c->reader = outer->reader;
  c->field = &c->reader->snapshot->schema->fields[dimension];
  c->dimension = dimension;
  c->descending = descending;
  for (int where; end < outer->count && (where = tile_starts_relate(outer, &outer->starts[end], key, text)) <= 0; end++)
    count += where == 0;
  c->count = c->first = c->at = 0;
  if (!(c->known = tile_starts_reserve(c, count))) return;
  for (uint64_t i = outer->first; i < end; i++)
    if (tile_starts_relate(outer, &outer->starts[i], key, text) == 0) tile_starts_add(c, outer->starts[i].cell);
  tile_starts_sort(c);
}
