/* tile_starts.c: where the tiles of a sparse plan begin along a dimension, to predict how far a key range reaches that
 * has about a given number of rows.
 *
 * Numbers: cells are taken to lie evenly over the values of their tile's MBR, so a key range has a slice of the rows of
 * each tile that it meets. If that is not true, key ranges have more rows or fewer; nothing else depends on it.
 * Strings: a key range ends where a tile begins. If a single value has many more rows, read_ordered.c cuts along the
 * next dimension, for which tsr__tile_starts_within collects the tiles that may hold this value.
 *
 * "Directed" keys are order keys, complemented if the order descends, so that they always ascend along the order.
 * "Begin" and "end" are meant in the direction of the order, too.
 */
#include "read/tile_starts.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/snapshot.h"
#include "read/reader.h"

static uint64_t tile_starts_directed(const tsr_tile_starts *starts, uint64_t key) {
  return starts->descending ? ~key : key;
}

static const tsr_fragment_metadata *metadata_of(const tsr_tile_starts *starts, const tsr_pair *tile_start) {
  return &starts->reader->snapshot->fragments[starts->reader->plan.tiles[tile_start->cell].fragment].fragment->metadata;
}

static uint64_t tile_starts_cells_of(const tsr_tile_starts *starts, const tsr_pair *tile_start) {
  return tsr__fragment_tile_cells(metadata_of(starts, tile_start), starts->reader->plan.tiles[tile_start->cell].tile);
}

/* Returns the index in the arrays of the R-tree's leaves where the bound stands at which a tile begins, or ends
 * (`end`). */
static uint64_t tile_starts_place_of(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end) {
  const uint64_t tile = starts->reader->plan.tiles[tile_start->cell].tile;
  return (tile * metadata_of(starts, tile_start)->rtree->dimensions + starts->dimension) * 2 +
         (starts->descending != end);
}

static uint64_t key_of(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end) {
  const tsr_rtree *rtree = metadata_of(starts, tile_start)->rtree;
  return tile_starts_directed(starts, rtree->keys[rtree->levels - 1][tile_starts_place_of(starts, tile_start, end)]);
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static const uint8_t *tile_starts_text_of(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end,
                                          uint64_t *size) {
  const tsr_rtree *rtree = metadata_of(starts, tile_start)->rtree;
  const uint64_t at = tile_starts_place_of(starts, tile_start, end);
  *size = rtree->sizes[rtree->levels - 1][at];
  return rtree->text + rtree->keys[rtree->levels - 1][at];
}

static int tile_starts_compare_text(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end,
                                    const uint8_t *bytes, uint64_t size) {
  uint64_t own_size;
  const uint8_t *own = tile_starts_text_of(starts, tile_start, end, &own_size);
  const int order = tsr__bytes_compare(own, own_size, bytes, size);
  return starts->descending ? -order : order;
}

static int tile_starts_compare(const void *argument, uint32_t a, uint32_t b) {
  uint64_t size;
  const tsr_pair one = {.cell = a}, other = {.cell = b};
  const uint8_t *bytes = tile_starts_text_of(argument, &other, false, &size);
  return tile_starts_compare_text(argument, &one, false, bytes, size);
}

const uint8_t *tsr__tile_starts_next_text(tsr_tile_starts *starts, const tsr_buffer *from, bool exclusive,
                                          uint64_t rows, uint64_t many, uint64_t *size, bool *single) {
  uint64_t cells = 0, equal = 0, first_size;
  *single = false;
  for (; from && starts->at < starts->count; starts->at++) {
    const int order = tile_starts_compare_text(starts, &starts->tiles[starts->at], false, from->data, from->size);
    if (order > 0 || (order == 0 && !exclusive)) break;
  }
  if (starts->at == starts->count) return NULL;
  const uint8_t *first = tile_starts_text_of(starts, &starts->tiles[starts->at], false, &first_size);
  /* true if the key range begins at the start of this tile, so that it holds all cells with that string */
  const bool begins = !from || (!exclusive && tile_starts_compare_text(starts, &starts->tiles[starts->at], false,
                                                                       from->data, from->size) == 0);
  for (uint64_t i = starts->at; i < starts->count; i++) {
    const tsr_pair *tile_start = &starts->tiles[i];
    if (begins && tile_starts_compare_text(starts, tile_start, false, first, first_size) == 0) {
      if (tile_starts_compare_text(starts, tile_start, true, first, first_size) == 0)
        equal += tile_starts_cells_of(starts, tile_start);
      if (equal > many) {
        *single = true;
        *size = first_size;
        return first;
      }
    } else if (cells >= rows) {
      return tile_starts_text_of(starts, tile_start, false, size);
    }
    cells += tile_starts_cells_of(starts, tile_start);
  }
  return NULL;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static double tile_starts_float_of(const tsr_tile_starts *starts, uint64_t key) {
  uint8_t value[sizeof(double)];
  float narrow;
  double wide;
  tsr__key_value(starts->field->datatype, tile_starts_directed(starts, key), value);
  memcpy(&narrow, value, sizeof narrow);
  memcpy(&wide, value, sizeof wide);
  return starts->field->datatype == TSR_FLOAT32 ? (double)narrow : wide;
}

/* Returns the part of low..high, from 0 to 1, that lies in from..end. The two meet. */
static double part_of(const tsr_tile_starts *starts, uint64_t low, uint64_t high, uint64_t from, uint64_t end) {
  from = TSR_MAX(low, from);
  end = TSR_MIN(high, end);
  if (from == low && end == high) return 1;
  if (tsr_datatype_kind(starts->field->datatype) == TSR_KIND_FLOAT) {
    const double width = fabs(tile_starts_float_of(starts, high) - tile_starts_float_of(starts, low));
    if (isfinite(width) && width > 0)
      return fabs(tile_starts_float_of(starts, end) - tile_starts_float_of(starts, from)) / width;
  }
  return ((double)(end - from) + 1) / ((double)(high - low) + 1);
}

/* Returns the expected number of rows in from..end: of the tiles that have begun, and of the next `ahead` tiles. */
static double expect(const tsr_tile_starts *starts, uint64_t ahead, uint64_t from, uint64_t end) {
  double rows = 0;
  for (uint64_t i = starts->first; i < starts->at + ahead && starts->tiles[i].key <= end; i++) {
    const double part = part_of(starts, starts->tiles[i].key, key_of(starts, &starts->tiles[i], true), from, end);
    rows += part * (double)tile_starts_cells_of(starts, &starts->tiles[i]);
  }
  return rows;
}

/* Steps to `from`: notes which tiles have begun there, and forgets those that have ended. */
static void tile_starts_pass(tsr_tile_starts *starts, uint64_t from) {
  while (starts->at < starts->count && starts->tiles[starts->at].key <= from) starts->at++;
  uint64_t kept = starts->at;
  for (uint64_t i = starts->at; i-- > starts->first;)
    if (key_of(starts, &starts->tiles[i], true) >= from) starts->tiles[--kept] = starts->tiles[i];
  starts->first = kept;
}

uint64_t tsr__tile_starts_begin(tsr_tile_starts *starts, uint64_t from) {
  tile_starts_pass(starts, from);
  return starts->first < starts->at || starts->at == starts->count ? from : starts->tiles[starts->at].key;
}

uint64_t tsr__tile_starts_next(tsr_tile_starts *starts, uint64_t from, uint64_t rows) {
  uint64_t ahead = 1, low = from, high = UINT64_MAX;
  tile_starts_pass(starts, from);
  const uint64_t left = starts->count - starts->at;
  while (ahead < left && expect(starts, ahead, from, starts->tiles[starts->at + ahead].key) < (double)rows) ahead *= 2;
  if (ahead < left) high = starts->tiles[starts->at + ahead].key;
  else if (expect(starts, left, from, high) <= (double)rows) return high;
  while (low < high) { /* binary search for the first key with so many rows */
    const uint64_t middle = low + (high - low) / 2;
    if (expect(starts, TSR_MIN(ahead, left), from, middle) < (double)rows) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool tsr__tile_starts_expect(const tsr_tile_starts *starts, uint64_t key, uint64_t rows) {
  return expect(starts, starts->count - starts->at, key, key) > (double)rows;
}

/* ---- Collecting -------------------------------------------------------------------------------------------------- */

static void tile_starts_add(tsr_tile_starts *starts, uint32_t tile) {
  tsr_pair *tile_start = &starts->tiles[starts->count++];
  uint64_t size;
  tile_start->cell = tile;
  if (starts->field->values_per_cell == TSR_VARIABLE) {
    const uint8_t *bytes = tile_starts_text_of(starts, tile_start, false, &size);
    tile_start->key = tile_starts_directed(starts, tsr__text_prefix(bytes, size));
  } else {
    tile_start->key = key_of(starts, tile_start, false);
  }
}

static void tile_starts_sort(tsr_tile_starts *starts) {
  const bool text = starts->field->values_per_cell == TSR_VARIABLE;
  tsr__pairs_sort_ties(starts->tiles, starts->tiles + starts->count, starts->count, text ? tile_starts_compare : NULL,
                       starts);
}

/* Makes room for `count` tiles, and for sorting them. Doubles, since the arena does not take the old array back.
 * Returns false without memory. */
static bool tile_starts_reserve(tsr_tile_starts *starts, uint64_t count) {
  const uint64_t capacity = TSR_MIN(TSR_MAX(count, 2 * starts->capacity), starts->reader->plan.tile_count);
  tsr_pair *memory;
  if (count <= starts->capacity) return true;
  if (TSR_ARENA_ARRAY(&starts->reader->arena, 2 * capacity, &memory, NULL) < 0) return false;
  starts->tiles = memory;
  starts->capacity = capacity;
  return true;
}

void tsr__tile_starts_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_tile_starts *starts) {
  const tsr_plan *plan = &reader->plan;
  const tsr_field *field = &reader->snapshot->schema->fields[dimension];
  *starts = (tsr_tile_starts){.reader = reader, .field = field, .dimension = dimension, .descending = descending};
  if (reader->snapshot->schema->dense || plan->lossy || plan->tile_count >= UINT32_MAX) return;
  if (!(starts->known = tile_starts_reserve(starts, plan->tile_count))) return;
  for (uint32_t i = 0; i < plan->tile_count; i++) tile_starts_add(starts, i);
  tile_starts_sort(starts);
}

/* Relates a tile to a value of the outer dimension: 0 if its MBR contains the value, 1 if it begins after the value, -1
 * if it ends before. */
static int tile_starts_relate(const tsr_tile_starts *outer, const tsr_pair *tile_start, uint64_t key,
                              const tsr_buffer *text) {
  if (outer->field->values_per_cell != TSR_VARIABLE)
    return key_of(outer, tile_start, false) > key ? 1 : -(key_of(outer, tile_start, true) < key);
  return tile_starts_compare_text(outer, tile_start, false, text->data, text->size) > 0
             ? 1
             : -(tile_starts_compare_text(outer, tile_start, true, text->data, text->size) < 0);
}

void tsr__tile_starts_within(const tsr_tile_starts *outer, uint64_t key, const tsr_buffer *text, uint32_t dimension,
                             bool descending, tsr_tile_starts *starts) {
  uint64_t count = 0, end = outer->first;
  starts->reader = outer->reader;
  starts->field = &starts->reader->snapshot->schema->fields[dimension];
  starts->dimension = dimension;
  starts->descending = descending;
  for (int where; end < outer->count && (where = tile_starts_relate(outer, &outer->tiles[end], key, text)) <= 0; end++)
    count += where == 0;
  starts->count = starts->first = starts->at = 0;
  if (!(starts->known = tile_starts_reserve(starts, count))) return;
  for (uint64_t i = outer->first; i < end; i++)
    if (tile_starts_relate(outer, &outer->tiles[i], key, text) == 0) tile_starts_add(starts, outer->tiles[i].cell);
  tile_starts_sort(starts);
}
