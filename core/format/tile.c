/* tile.c: decodes data tiles: the stored bytes of one tile of one slot become arrays of values, offsets and validity.
 *
 * The files of a slot are sequences of filtered tiles (filter/filter.h). The fragment's metadata has the offset of each
 * tile. Content of a tile after its filters have been reversed:
 *
 *   fixed size     cells * cell size bytes                                     filters: the field's own
 *   variable       NAME.tdb: for each cell u64, the byte offset of its value   filters: the schema's offsets filters
 *                  within the tile's values; the first is 0
 *                  NAME_var.tdb: the values                                    filters: the field's own
 *   validity       a byte for each cell, 0 = null                              filters: the schema's validity filters
 *   t, dt, dci     u64 for each cell                                           filters: the schema's coords filters
 *   __coords       below version 5: all coordinates of the cells               filters: the schema's coords filters
 *
 * If the values' pipeline stores the offsets itself (strings whose first filter is RLE or dictionary, filter.h), the
 * tile in NAME.tdb exists but has no chunk. A tile without bytes, for example of empty strings only, has one chunk of
 * original size 0.
 *
 * __coords holds the coordinates of all cells in the first dimension, then in the second, and so on. In version 1
 * without a compressor it holds them cell after cell; decoding then rearranges them.
 *
 * A decoded tile is one block of memory: tsr_tile, offsets, values, validity. If only some cells of fixed size are
 * requested, only their chunks are decoded, since no filter works across chunks. The sizes that follow from the cells
 * and the metadata are compared with the sizes in the chunks before memory is allocated.
 */
#include "format/tile.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arithmetic.h"
#include "filter/filter.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "format/layout.h"

void tsr__tile_hold(tsr_tile *tile) { atomic_fetch_add_explicit(&tile->references, 1, memory_order_relaxed); }

void tsr__tile_drop(tsr_tile *tile) {
  if (tile && atomic_fetch_sub_explicit(&tile->references, 1, memory_order_acq_rel) == 1) tsr__free(tile);
}

static bool tile_has_compressor(const tsr_pipeline *pipeline) {
  for (uint32_t i = 0; i < pipeline->count; i++) {
    switch (pipeline->filters[i].type) {
    case TSR_FILTER_GZIP:
    case TSR_FILTER_ZSTD:
    case TSR_FILTER_LZ4:
    case TSR_FILTER_RLE:
    case TSR_FILTER_BZIP2:
    case TSR_FILTER_DOUBLE_DELTA: return true;
    default: break;
    }
  }
  return false;
}

int tsr__tile_format(const tsr_fragment_metadata *metadata, uint32_t slot, const uint8_t *key, tsr_tile_format *format,
                     tsr_error *error) {
  const tsr_schema *schema = metadata->schema;
  if (slot >= metadata->slot_count || !metadata->slots[slot].present) {
    return tsr__fail(error, TSR_ERROR, "slot %u has no tiles", slot);
  }
  tsr_system_column system_column;
  int64_t field = tsr__fragment_slot_field(metadata, slot, &system_column);
  tsr_tile_format made = {.datatype = TSR_UINT64,
                          .values_per_cell = 1,
                          .version = metadata->version,
                          .values = &schema->coords_filters,
                          .offsets = &schema->offsets_filters,
                          .validity = &schema->validity_filters,
                          .key = key};
  if (field >= 0) {
    made.datatype = schema->fields[field].datatype;
    made.values_per_cell = schema->fields[field].values_per_cell;
    made.nullable = schema->fields[field].nullable;
    made.values = tsr__schema_pipeline(schema, (uint32_t)field);
  } else if (system_column == TSR_SLOT_COORDS) {
    made.datatype = schema->fields[0].datatype;
    made.coordinate_dimensions = schema->dimension_count;
    made.coordinates_split =
        layout_has_split_coordinates(metadata->version) || tile_has_compressor(&schema->coords_filters);
  }
  *format = made;
  return TSR_OK;
}

/* Prefixes the error message with the name of a part, and makes the part the error's subject. */
static int wrap_part(tsr_part_kind part, tsr_error *error) {
  const int rc = tsr__wrap(error, part == TSR_PART_VALIDITY ? "validity" : "offsets");
  tsr__error_about(error, (uint32_t)part + 1);
  return rc;
}

/* Fails unless the chunks of a part have `expected` bytes in total. */
static int check_size(const tsr_tile_source *source, tsr_part_kind part, uint64_t expected, tsr_error *error) {
  uint64_t size = 0;
  TSR_TRY(tsr__pipeline_original_size(source->bytes[part], source->sizes[part], &size, error));
  if (size == expected) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "its chunks hold %llu bytes, %llu cells take %llu", (unsigned long long)size,
                   (unsigned long long)source->cells, (unsigned long long)expected);
}

static int check_offsets(tsr_tile *tile, tsr_error *error) {
  uint64_t before = 0;
  tile->offsets[tile->cells] = tile->values_size;
  for (uint64_t i = 0; i <= tile->cells; i++) {
    if (tile->offsets[i] < before || (i == 0 && tile->offsets[0] != 0)) {
      return tsr__fail(error, TSR_CORRUPT, "cell %llu ends at byte %llu of %llu, but begins at %llu",
                       (unsigned long long)(i ? i - 1 : 0), (unsigned long long)tile->offsets[i],
                       (unsigned long long)tile->values_size, (unsigned long long)before);
    }
    before = tile->offsets[i];
  }
  return TSR_OK;
}

static int decode_variable(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory,
                           tsr_tile *tile, tsr_error *error) {
  tsr_tile_shape shape = {format->datatype, tsr_datatype_size(format->datatype), format->version, format->key};
  tsr_tile_shape offsets = {TSR_UINT64, sizeof(uint64_t), format->version, format->key};
  const uint8_t *in = source->bytes[TSR_PART_VARIABLE];
  uint64_t in_size = source->sizes[TSR_PART_VARIABLE];
  if (tsr__pipeline_holds_offsets(format->values, format->datatype, format->values_per_cell, format->version)) {
    TSR_TRY(tsr__pipeline_decode_strings(format->values, &shape, in, in_size, tile->values, tile->values_size,
                                         tile->offsets, tile->cells, memory, error));
  } else {
    int rc =
        tsr__pipeline_decode(format->offsets, &offsets, source->bytes[TSR_PART_FIXED], source->sizes[TSR_PART_FIXED],
                             (uint8_t *)tile->offsets, tile->cells * sizeof(uint64_t), memory, error);
    if (rc < 0) return wrap_part(TSR_PART_FIXED, error);
    TSR_TRY(tsr__pipeline_decode(format->values, &shape, in, in_size, tile->values, tile->values_size, memory, error));
  }
  int rc = check_offsets(tile, error);
  return rc < 0 ? wrap_part(TSR_PART_FIXED, error) : TSR_OK;
}

/* Rearranges coordinates from cell after cell to dimension after dimension. */
static int split_coordinates(tsr_tile *tile, uint64_t dimensions, tsr_memory *memory, tsr_error *error) {
  uint64_t size = tile->cell_size / dimensions;
  uint8_t *copy;
  TSR_TRY(TSR_ALLOC_RAW(memory, tile->values_size, &copy, error));
  memcpy(copy, tile->values, tile->values_size);
  const uint8_t *from = copy;
  for (uint64_t cell = 0; cell < tile->cells; cell++) {
    for (uint64_t d = 0; d < dimensions; d++, from += size) {
      memcpy(tile->values + (d * tile->cells + cell) * size, from, size);
    }
  }
  tsr__free(copy);
  return TSR_OK;
}

bool tsr__tile_divides(const tsr_tile_format *format) {
  return format->values_per_cell != TSR_VARIABLE && format->coordinate_dimensions == 0;
}

/* Describes the needed bytes of the fixed part. */
static tsr_needed_bytes needed_of(const tsr_tile_source *source, const uint8_t *blocks, uint64_t cell_size) {
  return (tsr_needed_bytes){.blocks = blocks,
                            .block = TSR_NEEDED_CELLS * cell_size,
                            .at = source->cut_end > 0 ? source->cut_first * cell_size : 0};
}

static int decode_fixed(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory,
                        tsr_tile *tile, tsr_error *error) {
  tsr_tile_shape shape = {format->datatype, tile->cell_size, format->version, format->key};
  const tsr_needed_bytes needed = needed_of(source, tile->needed, tile->cell_size);
  if (tile->end > 0 && (source->cut_end == 0 || tile->needed)) {
    const uint64_t before = source->cut_end > 0 ? source->cut_first : 0;
    return tsr__pipeline_decode_part(format->values, &shape, source->bytes[TSR_PART_FIXED],
                                     source->sizes[TSR_PART_FIXED], (tile->first - before) * tile->cell_size,
                                     (tile->end - before) * tile->cell_size, &needed, tile->values, memory, error);
  }
  const tsr_tile *known = source->known;
  if (known) {
    const uint64_t first = known->first * tile->cell_size, end = known->end * tile->cell_size;
    memcpy(tile->values + first, known->values, end - first);
    return tsr__pipeline_decode_rest(format->values, &shape, source->bytes[TSR_PART_FIXED],
                                     source->sizes[TSR_PART_FIXED], first, end, tile->values, tile->values_size, memory,
                                     error);
  }
  TSR_TRY(tsr__pipeline_decode(format->values, &shape, source->bytes[TSR_PART_FIXED], source->sizes[TSR_PART_FIXED],
                               tile->values, tile->values_size, memory, error));
  if (format->coordinate_dimensions > 1 && !format->coordinates_split) {
    return split_coordinates(tile, format->coordinate_dimensions, memory, error);
  }
  return TSR_OK;
}

typedef struct validity_part { /* the cells of a tile whose validity is wanted */
  uint64_t first, end;
  uint8_t *to; /* of cell `first` */
} validity_part;

static int take_validity(void *argument, uint64_t first, uint64_t count, const uint8_t *values, tsr_error *error) {
  const validity_part *part = argument;
  const uint64_t low = TSR_MAX(first, part->first), high = TSR_MIN(first + count, part->end);
  if (low < high) memcpy(part->to + (low - part->first), values + (low - first), high - low);
  return TSR_OK;
}

static int decode_validity(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory,
                           tsr_tile *tile, tsr_error *error) {
  tsr_tile_shape shape = {TSR_UINT8, 1, format->version, format->key};
  const uint8_t *in = source->bytes[TSR_PART_VALIDITY];
  const uint64_t size = source->sizes[TSR_PART_VALIDITY];
  validity_part part = {tile->first, tile->end, tile->validity};
  int rc = tile->end > 0
               ? tsr__pipeline_decode_each(format->validity, &shape, in, size, tile->cells, part.first, part.end,
                                           take_validity, &part, memory, error)
               : tsr__pipeline_decode(format->validity, &shape, in, size, tile->validity, tile->cells, memory, error);
  return rc < 0 ? wrap_part(TSR_PART_VALIDITY, error) : TSR_OK;
}

/* Extends the requested cells to whole chunks: *first to *end - 1. *end is 0 if all cells must be decoded, also because
 * a chunk begins or ends within a cell, as it may below version 11. */
static int find_cells(const tsr_tile_format *format, const tsr_tile_source *source, uint64_t cell_size, uint64_t *first,
                      uint64_t *end, tsr_error *error) {
  uint64_t from, to;
  *first = source->cut_first;
  *end = source->cut_end;
  if (source->cut_end > 0) return TSR_OK;
  if (source->end == 0 || !tsr__tile_divides(format)) return TSR_OK;
  TSR_TRY(tsr__pipeline_chunks(source->bytes[TSR_PART_FIXED], source->sizes[TSR_PART_FIXED], source->first * cell_size,
                               source->end * cell_size, &from, &to, error));
  if (from % cell_size != 0 || to % cell_size != 0 || to / cell_size - from / cell_size == source->cells) return TSR_OK;
  *first = from / cell_size;
  *end = to / cell_size;
  return TSR_OK;
}

/* Finds out how many of the cells first to end - 1 are in chunks with needed ones. */
static uint64_t count_needed(const tsr_tile_source *source, uint64_t cell_size, uint64_t first, uint64_t end) {
  const tsr_needed_bytes needed = needed_of(source, source->needed, cell_size);
  const uint64_t before = source->cut_end > 0 ? source->cut_first : 0;
  const uint64_t bytes = tsr__pipeline_needs(source->bytes[TSR_PART_FIXED], source->sizes[TSR_PART_FIXED],
                                             (first - before) * cell_size, (end - before) * cell_size, &needed);
  return TSR_MIN(bytes / cell_size, end - first);
}

/* Checks the sizes of the parts and allocates the tile. */
static int make_tile(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory, tsr_tile **tile,
                     tsr_error *error) {
  bool variable = format->values_per_cell == TSR_VARIABLE;
  uint64_t values_per_cell = format->coordinate_dimensions ? format->coordinate_dimensions : format->values_per_cell;
  /* does not overflow: two numbers of 32 bits */
  uint64_t cell_size = variable ? 0 : values_per_cell * tsr_datatype_size(format->datatype);
  uint64_t values_size = variable ? source->variable_size : tsr__mul_sat(source->cells, cell_size);
  uint64_t offsets_size = variable ? tsr__mul_sat(tsr__add_sat(source->cells, 1), sizeof(uint64_t)) : 0;
  TSR_TRY(check_size(source, variable ? TSR_PART_VARIABLE : TSR_PART_FIXED,
                     source->cut_end > 0 ? tsr__mul_sat(source->cut_end - source->cut_first, cell_size) : values_size,
                     error));
  if (variable) {
    bool in_values =
        tsr__pipeline_holds_offsets(format->values, format->datatype, format->values_per_cell, format->version);
    int rc = check_size(source, TSR_PART_FIXED, in_values ? 0 : tsr__mul_sat(source->cells, sizeof(uint64_t)), error);
    if (rc < 0) return wrap_part(TSR_PART_FIXED, error);
  }
  if (format->nullable) {
    int rc = check_size(source, TSR_PART_VALIDITY, source->cells, error);
    if (rc < 0) return wrap_part(TSR_PART_VALIDITY, error);
  }
  uint64_t first, end, decoded = source->cells, blocks = 0;
  TSR_TRY(find_cells(format, source, cell_size, &first, &end, error));
  if (source->needed && source->end > 0) {
    const uint64_t last = end > 0 ? end : source->cells;
    decoded = count_needed(source, cell_size, first, last);
    if (decoded < last - first) {
      blocks = tsr__needed_blocks(source->cells);
      end = last;
    }
  }
  if (end > 0 && blocks == 0) decoded = end - first;
  if (source->known) decoded -= source->known->end - source->known->first;
  if (end > 0) values_size = (end - first) * cell_size;
  uint64_t values_room = tsr__add_sat(values_size, 15) & ~UINT64_C(15);
  uint64_t bytes = tsr__add_sat((sizeof(tsr_tile) + 15) & ~UINT64_C(15), offsets_size);
  uint64_t values_at = tsr__add_sat(bytes, 15) & ~UINT64_C(15);
  bytes = tsr__add_sat(values_at,
                       tsr__add_sat(values_room, format->nullable ? (end > 0 ? end - first : source->cells) : 0));
  const uint64_t needed_at = bytes;
  bytes = tsr__add_sat(bytes, blocks);
  const uint64_t chunks_at = tsr__add_sat(bytes, 7) & ~UINT64_C(7),
                 chunks = source->cut_end > 0 ? source->chunk_count : 0;
  if (chunks > 0) bytes = tsr__add_sat(chunks_at, chunks * sizeof(tsr_chunk_size));
  tsr_tile *made;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(memory, bytes, &made, error));
  *made = (tsr_tile){.cells = source->cells, .bytes = bytes, .cell_size = cell_size, .values_size = values_size};
  made->first = first;
  made->end = end;
  made->decoded = decoded;
  atomic_init(&made->references, 1);
  uint8_t *base = (uint8_t *)made;
  if (variable) made->offsets = (uint64_t *)(void *)(base + ((sizeof(tsr_tile) + 15) & ~UINT64_C(15)));
  made->values = base + values_at;
  if (format->nullable) made->validity = base + values_at + values_room;
  if (blocks > 0) made->needed = memcpy(base + needed_at, source->needed, blocks);
  made->chunk_count = (uint32_t)chunks;
  if (chunks > 0) made->chunks = memcpy(base + chunks_at, source->chunks, chunks * sizeof(tsr_chunk_size));
  *tile = made;
  return TSR_OK;
}

int tsr__tile_decode(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory, tsr_tile **tile,
                     tsr_error *error) {
  tsr_tile *made = NULL;
  TSR_TRY(make_tile(format, source, memory, &made, error));
  int rc = made->offsets ? decode_variable(format, source, memory, made, error)
                         : decode_fixed(format, source, memory, made, error);
  if (rc == TSR_OK && made->validity) rc = decode_validity(format, source, memory, made, error);
  if (rc < 0) {
    tsr__tile_drop(made);
    return rc;
  }
  *tile = made;
  return TSR_OK;
}

typedef struct cell_stream { /* cells on their way to the function that takes them */
  uint64_t cut_first; /* number in the tile of what the pipeline calls cell 0 */
  const uint8_t *validity; /* of all cells of the tile, or NULL */
  tsr_tile_take take;
  void *argument;
} cell_stream;

static int pass_cells(void *argument, uint64_t first, uint64_t count, const uint8_t *values, tsr_error *error) {
  const cell_stream *s = argument;
  first += s->cut_first;
  return s->take(s->argument, first, count, values, s->validity ? s->validity + first : NULL, error);
}

static int decode_all_validity(const tsr_tile_format *format, const tsr_tile_source *source, uint8_t *validity,
                               tsr_memory *memory, tsr_error *error) {
  const tsr_tile_shape shape = {TSR_UINT8, 1, format->version, format->key};
  int rc = check_size(source, TSR_PART_VALIDITY, source->cells, error);
  if (rc == TSR_OK)
    rc = tsr__pipeline_decode(format->validity, &shape, source->bytes[TSR_PART_VALIDITY],
                              source->sizes[TSR_PART_VALIDITY], validity, source->cells, memory, error);
  return rc < 0 ? wrap_part(TSR_PART_VALIDITY, error) : TSR_OK;
}

int tsr__tile_decode_each(const tsr_tile_format *format, const tsr_tile_source *source, tsr_tile_take take,
                          void *argument, tsr_memory *memory, tsr_error *error) {
  const bool cut = source->cut_end > 0, all = cut || source->end == 0;
  const uint64_t cells = cut ? source->cut_end - source->cut_first : source->cells;
  const uint64_t cell_size = (uint64_t)format->values_per_cell * tsr_datatype_size(format->datatype);
  const tsr_tile_shape shape = {format->datatype, cell_size, format->version, format->key};
  uint8_t *validity = NULL;
  TSR_TRY(check_size(source, TSR_PART_FIXED, tsr__mul_sat(cells, cell_size), error));
  if (format->nullable) TSR_TRY(TSR_ALLOC_RAW(memory, source->cells, &validity, error));
  int rc = validity ? decode_all_validity(format, source, validity, memory, error) : TSR_OK;
  cell_stream s = {source->cut_first, validity, take, argument};
  if (rc == TSR_OK)
    rc = tsr__pipeline_decode_each(format->values, &shape, source->bytes[TSR_PART_FIXED], source->sizes[TSR_PART_FIXED],
                                   cells, all ? 0 : source->first, all ? cells : source->end, pass_cells, &s, memory,
                                   error);
  tsr__free(validity);
  return rc;
}
