/* places.c: sets of places, the coordinates of cells, and the cells of a sparse array that are at them.
 *
 * A read of many places decodes each tile once: the R-tree is searched for tiles that have a place within their MBRs,
 * and in each of them the cells are found by binary search or, where a tile may have several cells of one place or is
 * not sorted, by looking each cell up in the set. What comes is what a request for each place would give.
 *
 * Places are compared by order keys, so that -0.0 is 0.0; strings by their bytes. A NaN is no place: no range has it.
 *
 * Sections: sets; windows, the part of a set that one read is for; tiles; cells.
 */
#include "read/reader.h"

#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/sort.h"
#include "environment/environment.h"
#include "format/rtree.h"
#include "format/schema.h"
#include "model/datatype.h"
#include "tessera_host.h"

#define PLACES_NONE UINT32_MAX

typedef struct places_dimension {
  tsr_datatype datatype;
  bool text, real;
} places_dimension;

struct tsr_places {
  tsr_memory *memory;
  uint32_t dimensions;
  places_dimension *dimension; /* by dimension */
  tsr_arena texts;
  tsr_buffer coordinates; /* tsr_place_coordinate: [place * dimensions + d] */
  uint64_t generation; /* how often the set was cleared, or numbered anew */
  bool gathered; /* all places are added before the first look-up */
  uint64_t sorted; /* of a gathered set: so many places are in order */
  tsr_hash_index index;
};

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

static const tsr_place_coordinate *place_at(const tsr_places *places, uint64_t number) {
  return (const tsr_place_coordinate *)(const void *)places->coordinates.data + number * places->dimensions;
}

uint64_t tsr__places_count(const tsr_places *places) {
  return places->coordinates.size / (places->dimensions * sizeof(tsr_place_coordinate));
}

uint64_t tsr__places_generation(const tsr_places *places) { return places->generation; }

static uint64_t place_hash(const tsr_places *places, const tsr_place_coordinate *place) {
  uint64_t hash =
      (uint64_t)(uintptr_t)places; /* strangers choose the coordinates, so the seed must be unknown to them */
  for (uint32_t d = 0; d < places->dimensions; d++)
    hash = places->dimension[d].text ? tsr__hash_bytes(hash, place[d].text, place[d].key)
                                     : tsr__hash_mix(hash, place[d].key);
  return hash;
}

static uint64_t places_hash_of(const void *argument, uint64_t number) {
  return place_hash(argument, place_at(argument, number));
}

static bool is_same_place(const tsr_places *places, const tsr_place_coordinate *a, const tsr_place_coordinate *b) {
  for (uint32_t d = 0; d < places->dimensions; d++)
    if (a[d].key != b[d].key || (places->dimension[d].text && a[d].key && memcmp(a[d].text, b[d].text, a[d].key) != 0))
      return false;
  return true;
}

uint32_t tsr__places_find(const tsr_places *places, const tsr_place_coordinate *place) {
  if (!places->index.slots) return PLACES_NONE;
  uint64_t slot = tsr__hash_slot(&places->index, place_hash(places, place));
  for (uint32_t number; tsr__hash_item(&places->index, slot, &number); slot = tsr__hash_next(&places->index, slot))
    if (is_same_place(places, place_at(places, number), place)) return number;
  return PLACES_NONE;
}

int tsr_places_open(tsr_environment *environment, const tsr_schema *schema, tsr_places **out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_places *places;
  TSR_TRY(TSR_ALLOC(&environment->memory, &places, error));
  places->memory = places->coordinates.memory = &environment->memory;
  places->dimensions = schema->dimension_count;
  tsr__arena_init(&places->texts, &environment->memory);
  const int rc = TSR_ALLOC_ARRAY(&environment->memory, schema->dimension_count, &places->dimension, error);
  if (rc < 0) return tsr_places_close(places), rc;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    places->dimension[d] = (places_dimension){field->datatype, field->values_per_cell == TSR_VARIABLE,
                                              field->cell_size && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT};
  }
  *out = places;
  return TSR_OK;
}

void tsr_places_close(tsr_places *places) {
  if (!places) return;
  tsr__hash_release(&places->index);
  tsr__buffer_release(&places->coordinates);
  tsr__arena_release(&places->texts);
  tsr__free(places->dimension);
  tsr__free(places);
}

void tsr_places_clear(tsr_places *places) {
  tsr__hash_clear(&places->index);
  tsr__arena_reset(&places->texts);
  places->coordinates.size = 0;
  places->sorted = 0;
  places->generation++;
}

void tsr_places_gather(tsr_places *places) { places->gathered = true; }

/* Reads one coordinate of a cell. */
static tsr_place_coordinate read_coordinate(const places_dimension *dimension, const void *values,
                                            const uint64_t *offsets, uint64_t size, uint64_t cell) {
  if (dimension->text)
    return (tsr_place_coordinate){offsets[cell + 1] - offsets[cell], (const uint8_t *)values + offsets[cell]};
  return (tsr_place_coordinate){.key = tsr__key(dimension->datatype, (const uint8_t *)values + cell * size)};
}

static int add_place(tsr_places *places, const tsr_place_coordinate *place, tsr_error *error) {
  const uint64_t count = tsr__places_count(places), before = places->coordinates.size;
  if (tsr__places_find(places, place) != PLACES_NONE) return TSR_OK;
  TSR_TRY(
      tsr__hash_reserve(&places->index, places->memory, count + 1 + count / 2, count, places_hash_of, places, error));
  TSR_TRY(tsr__buffer_append(&places->coordinates, place, places->dimensions * sizeof *place, error));
  tsr_place_coordinate *kept = (tsr_place_coordinate *)(void *)(places->coordinates.data + before);
  for (uint32_t d = 0; d < places->dimensions; d++) {
    if (!places->dimension[d].text) continue;
    const int rc = TSR_ARENA_COPY(&places->texts, place[d].text, place[d].key, &kept[d].text, error);
    if (rc < 0) return places->coordinates.size = before, rc;
  }
  tsr__hash_add(&places->index, place_hash(places, kept), count);
  return TSR_OK;
}

static int add_rows(tsr_places *places, const tsr_batch *batch, const tsr_column *const *columns, tsr_error *error) {
  tsr_place_coordinate place[TSR_JOINT_MAX];
  if (!places->gathered && batch->count + tsr__places_count(places) > TSR_PLACES_MAX) tsr_places_clear(places);
  for (uint64_t r = 0; r < batch->count && tsr__places_count(places) < TSR_GATHERED_MAX; r++) {
    bool nan = false;
    for (uint32_t d = 0; d < places->dimensions; d++) {
      const uint64_t cell = columns[d]->constant ? 0 : tsr_batch_index(batch, r);
      place[d] =
          read_coordinate(&places->dimension[d], columns[d]->values, columns[d]->offsets, columns[d]->cell_size, cell);
      nan |= places->dimension[d].real && place[d].key == TSR_KEY_NAN;
    }
    if (!nan) TSR_TRY(add_place(places, place, error));
  }
  return TSR_OK;
}

int tsr_places_add(tsr_places *places, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_column *columns[TSR_JOINT_MAX];
  if (places->dimensions > TSR_JOINT_MAX) return TSR_OK;
  for (uint32_t d = 0; d < places->dimensions; d++) TSR_TRY(tsr_reader_column(reader, d, &columns[d], error));
  const int rc = add_rows(places, batch, columns, error);
  return tsr__lacks_memory(rc) ? TSR_OK : rc;
}

static int compare_coordinates(bool text, const tsr_place_coordinate *a, const tsr_place_coordinate *b) {
  if (text) return tsr__bytes_compare(a->text, a->key, b->text, b->key);
  return (a->key > b->key) - (a->key < b->key);
}

static int compare_places(const void *argument, uint32_t a, uint32_t b) {
  const tsr_places *places = argument;
  int order = 0;
  for (uint32_t d = 0; d < places->dimensions && !order; d++)
    order = compare_coordinates(places->dimension[d].text, &place_at(places, a)[d], &place_at(places, b)[d]);
  return order;
}

/* Puts the places in the order of `pairs`, and numbers them anew. */
static int renumber(tsr_places *places, const tsr_pair *pairs, uint64_t count, tsr_error *error) {
  tsr_buffer moved = {.memory = places->memory};
  TSR_TRY(tsr__buffer_reserve(&moved, places->coordinates.size, error));
  for (uint64_t i = 0; i < count; i++)
    memcpy(moved.data + i * places->dimensions * sizeof(tsr_place_coordinate), place_at(places, pairs[i].cell),
           places->dimensions * sizeof(tsr_place_coordinate));
  moved.size = places->coordinates.size;
  tsr__buffer_release(&places->coordinates);
  places->coordinates = moved;
  tsr__hash_clear(&places->index);
  for (uint64_t i = 0; i < count; i++) tsr__hash_add(&places->index, places_hash_of(places, i), i);
  places->sorted = count;
  places->generation++;
  return TSR_OK;
}

int tsr__places_number(tsr_places *places, tsr_error *error) {
  const uint64_t count = tsr__places_count(places);
  tsr_pair *pairs;
  if (!places->gathered || places->sorted == count) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(places->memory, 2 * count, &pairs, error));
  for (uint64_t i = 0; i < count; i++) {
    const tsr_place_coordinate *c = place_at(places, i);
    pairs[i] = (tsr_pair){places->dimension[0].text ? tsr__text_prefix(c->text, c->key) : c->key, (uint32_t)i};
  }
  tsr__pairs_sort_ties(pairs, pairs + count, count, compare_places, places);
  const int rc = renumber(places, pairs, count, error);
  tsr__free(pairs);
  return rc;
}

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* Sorts the window's places along a dimension. Returns how many values they have in it. */
static uint64_t sort_along(tsr_place_window *window, uint32_t d, tsr_pair *spare) {
  const tsr_places *places = window->places;
  const bool text = places->dimension[d].text;
  uint64_t values = 1;
  for (uint64_t i = 0; i < window->count; i++) {
    const tsr_place_coordinate *c = &place_at(places, window->first + i)[d];
    window->sorted[i] = (tsr_pair){text ? tsr__text_prefix(c->text, c->key) : c->key, (uint32_t)(window->first + i)};
  }
  tsr__pairs_sort(window->sorted, spare, window->count);
  for (uint64_t i = 1; i < window->count; i++) values += window->sorted[i].key != window->sorted[i - 1].key;
  window->by = d;
  return values;
}

/* Makes the spans around the places, one for each dimension: a plan leaves out fragments by them. */
static int make_bounds(tsr_place_window *window, tsr_arena *arena, tsr_error *error) {
  const tsr_places *places = window->places;
  TSR_TRY(TSR_ARENA_ARRAY(arena, places->dimensions, &window->spans, error));
  for (uint32_t d = 0; d < places->dimensions; d++) {
    const bool text = places->dimension[d].text;
    const tsr_place_coordinate *low = &place_at(places, window->first)[d], *high = low;
    tsr_spans *spans = &window->spans[d];
    for (uint64_t i = 1; i < window->count; i++) {
      const tsr_place_coordinate *c = &place_at(places, window->first + i)[d];
      if (compare_coordinates(text, c, low) < 0) low = c;
      if (compare_coordinates(text, c, high) > 0) high = c;
    }
    *spans = (tsr_spans){.text = text, .floats = places->dimension[d].real, .count = 1};
    if (text) TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &spans->texts, error));
    else TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &spans->spans, error));
    if (text) *spans->texts = (tsr_text_span){low->text, high->text, low->key, high->key, false, false};
    else *spans->spans = (tsr_span){low->key, high->key};
  }
  return TSR_OK;
}

int tsr__place_window_make(const tsr_places *places, uint64_t first, uint64_t count, tsr_arena *arena,
                           tsr_place_window *window, tsr_error *error) {
  tsr_pair *spare;
  uint64_t most = 0;
  uint32_t best = 0;
  *window = (tsr_place_window){.places = places, .first = first, .count = count};
  TSR_TRY(TSR_ARENA_RAW(arena, count, &window->sorted, error));
  TSR_TRY(TSR_ARENA_RAW(arena, count, &spare, error));
  for (uint32_t d = 0; d < places->dimensions; d++) {
    const uint64_t values = sort_along(window, d, spare);
    if (values > most) {
      most = values;
      best = d;
    }
  }
  if (window->by != best) (void)sort_along(window, best, spare);
  return make_bounds(window, arena, error);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* Returns true if a coordinate may be within a side of an MBR. A side that a NaN has spoiled may have any. */
static bool may_be_within(const places_dimension *dimension, const tsr_rtree *rtree, uint32_t level, uint64_t at,
                          const tsr_place_coordinate *c) {
  const uint64_t *keys = rtree->keys[level] + at;
  if (!dimension->text)
    return (c->key >= keys[0] && c->key <= keys[1]) || keys[0] > keys[1] || (dimension->real && keys[1] == TSR_KEY_NAN);
  const uint64_t *sizes = rtree->sizes[level] + at;
  return tsr__bytes_compare(c->text, c->key, rtree->text + keys[0], sizes[0]) >= 0 &&
         tsr__bytes_compare(c->text, c->key, rtree->text + keys[1], sizes[1]) <= 0;
}

static uint64_t first_from(const tsr_place_window *window, uint64_t key) {
  uint64_t low = 0, high = window->count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (window->sorted[middle].key < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Finds the next place within a node's MBR, from *at of the sorted ones on; PLACES_NONE: there is none. Begin with
 * *at = UINT64_MAX. */
static uint32_t next_within(const tsr_place_window *window, const tsr_rtree *rtree, uint32_t level, uint64_t node,
                            uint64_t *at) {
  const tsr_places *places = window->places;
  const uint64_t corner = node * places->dimensions * 2, side = corner + 2 * window->by;
  const uint64_t *keys = rtree->keys[level] + side;
  const places_dimension *by = &places->dimension[window->by];
  uint64_t low = keys[0], high = keys[1];
  if (by->text) {
    low = tsr__text_prefix(rtree->text + keys[0], rtree->sizes[level][side]);
    high = tsr__text_prefix(rtree->text + keys[1], rtree->sizes[level][side + 1]);
  } else if (low > high || (by->real && high == TSR_KEY_NAN)) {
    low = 0;
    high = UINT64_MAX;
  }
  if (*at == UINT64_MAX) *at = first_from(window, low);
  while (*at < window->count && window->sorted[*at].key <= high) {
    const uint32_t number = window->sorted[(*at)++].cell;
    bool within = true;
    for (uint32_t d = 0; d < places->dimensions && within; d++)
      within = may_be_within(&places->dimension[d], rtree, level, corner + 2 * d, &place_at(places, number)[d]);
    if (within) return number;
  }
  return PLACES_NONE;
}

static tsr_relation relate_places(const void *sought, const tsr_rtree *rtree, uint32_t level, uint64_t node) {
  uint64_t at = UINT64_MAX;
  return next_within(sought, rtree, level, node, &at) == PLACES_NONE ? TSR_OUTSIDE : TSR_OVERLAP;
}

int tsr__place_window_tiles(const tsr_place_window *window, const tsr_rtree *rtree, tsr_rtree_visitor visit,
                            void *argument, tsr_error *error) {
  return tsr__rtree_walk(rtree, relate_places, window, visit, argument, error);
}

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

#define SEARCH_COST 16u /* cells that are looked up in the time of one binary search */
#define SCAN_CELLS  256u

static int compare_cells(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Finds the cell of each place within the tile's MBR by binary search. Returns false if that does not find all of them,
 * or costs more than looking up each cell: a place without a cell cannot be told from a tile in disorder. */
static bool search_cells(const tsr_place_window *window, const tsr_schema *schema, const tsr_place_tile *tile,
                         uint32_t *cells, uint64_t *count) {
  const uint32_t leaf = tile->rtree->levels - 1;
  tsr_point_column columns[TSR_JOINT_MAX];
  uint8_t room[TSR_JOINT_MAX][8];
  uint64_t at = UINT64_MAX, n = 0;
  for (uint32_t number; (number = next_within(window, tile->rtree, leaf, tile->number, &at)) != PLACES_NONE; n++) {
    const tsr_place_coordinate *place = place_at(window->places, number);
    if (n >= tile->cells / SEARCH_COST) return false;
    for (uint32_t d = 0; d < window->places->dimensions; d++) {
      columns[d] = (tsr_point_column){.dimension = d,
                                      .values = tile->coordinates[d].values,
                                      .offsets = tile->coordinates[d].offsets,
                                      .sought = place[d].text,
                                      .sought_size = place[d].key};
      if (window->places->dimension[d].text) continue;
      tsr__key_value(schema->fields[d].datatype, place[d].key, room[d]);
      columns[d].sought = room[d];
    }
    if (!tsr__global_order_find(schema, columns, window->places->dimensions, tile->cells, &cells[n])) return false;
  }
  qsort(cells, n, sizeof *cells, compare_cells);
  *count = n;
  return true;
}

/* Looks each cell of the tile up, unless it is beside all places. */
static uint64_t scan_cells(const tsr_place_window *window, const tsr_schema *schema, const tsr_place_tile *tile,
                           uint32_t *cells) {
  const tsr_places *places = window->places;
  tsr_place_coordinate place[TSR_JOINT_MAX];
  uint64_t keys[TSR_JOINT_MAX][SCAN_CELLS], count = 0;
  for (uint64_t from = 0; from < tile->cells; from += SCAN_CELLS) {
    const uint64_t n = TSR_MIN(tile->cells - from, SCAN_CELLS);
    for (uint32_t d = 0; d < places->dimensions; d++)
      if (!places->dimension[d].text)
        tsr__keys(places->dimension[d].datatype, tile->coordinates[d].values + from * schema->fields[d].cell_size, n,
                  keys[d]);
    for (uint64_t i = 0; i < n; i++) {
      bool within = true;
      for (uint32_t d = 0; d < places->dimensions && within; d++) {
        if (places->dimension[d].text) {
          place[d] = read_coordinate(&places->dimension[d], tile->coordinates[d].values, tile->coordinates[d].offsets,
                                     0, from + i);
          continue;
        }
        place[d].key = keys[d][i];
        within = keys[d][i] >= window->spans[d].spans->low && keys[d][i] <= window->spans[d].spans->high;
      }
      const uint32_t number = within ? tsr__places_find(places, place) : PLACES_NONE;
      cells[count] = (uint32_t)(from + i);
      count += number != PLACES_NONE && number >= window->first && number - window->first < window->count;
    }
  }
  return count;
}

uint64_t tsr__place_window_cells(const tsr_place_window *window, const tsr_schema *schema, const tsr_place_tile *tile,
                                 uint32_t *cells) {
  uint64_t count = 0;
  if (tile->unique && search_cells(window, schema, tile, cells, &count)) return count;
  return scan_cells(window, schema, tile, cells);
}
