/* fuzz_filters.c: fuzzes filter pipelines over tiles, in both directions.
 *
 *   u8 action | u8 datatype | u8 version | u8 cell size | u8 flags: 1 encrypted | u8 largest chunk
 *   u8 number of filters, then for each: u8 type | u8 level | u8 reinterpret | u8 an index into interesting windows, byte widths
 *   and scales
 *   the rest: data
 *
 * Random bytes would not pass checksums, compression or encryption. So the first filters of a pipeline get the input's bytes as
 * their stored form, and the later filters are run forward by their encoders.
 */

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "filter/filter.h"
#include "filter/pipeline.h"
#include "format/tile.h"
#include "fuzz.h"

#define FILTERS_MAX  5
#define CHUNK_HEADER 12

typedef struct input {
  room room;
  tsr_error error;
  tsr_filter filters[FILTERS_MAX];
  tsr_pipeline pipeline;
  tsr_tile_shape shape;
  tsr_input in;
} input;

static const uint8_t key[TSR_KEY_SIZE] = "a key of thirty-two bytes, fixed";

static bool told(input *i, int code) {
  check_told(code, &i->error);
  i->error = (tsr_error){0};
  return code >= 0;
}

static const tsr_filter_methods *methods_of(tsr_filter_type type) {
  static const tsr_filter_methods *const all[] = {&tsr__filter_gzip,
                                                  &tsr__filter_zstd,
                                                  &tsr__filter_lz4,
                                                  &tsr__filter_bzip2,
                                                  &tsr__filter_rle,
                                                  &tsr__filter_dictionary,
                                                  &tsr__filter_double_delta,
                                                  &tsr__filter_delta,
                                                  &tsr__filter_positive_delta,
                                                  &tsr__filter_bit_width_reduction,
                                                  &tsr__filter_bitshuffle,
                                                  &tsr__filter_byteshuffle,
                                                  &tsr__filter_scale_float,
                                                  &tsr__filter_xor,
                                                  &tsr__filter_md5,
                                                  &tsr__filter_sha256,
                                                  &tsr__filter_aes};
  for (size_t n = 0; n < sizeof all / sizeof *all; n++)
    if (all[n]->type == type) return all[n];
  return NULL;
}

static void read_filter(input *i, tsr_filter *filter) {
  static const uint32_t windows[] = {0, 1, 2, 3, 7, 8, 9, 16, 64, 255, 256, 257, 1024, 65536, 0x7fffffff, 0xffffffff};
  static const uint64_t widths[] = {1, 2, 4, 8};
  static const double scales[] = {1, 0.5, 2, -1, 0.1, 1e-300, 1e300, 3};
  uint8_t choice;
  *filter = (tsr_filter){.type = (tsr_filter_type)(tsr__input_u8(&i->in) % 20)};
  filter->level = (int8_t)tsr__input_u8(&i->in) % 6;
  if (filter->type == TSR_FILTER_BZIP2) filter->level = 1; /* higher levels allocate much memory for each chunk */
  filter->reinterpret = tsr__input_u8(&i->in) % 44;
  choice = tsr__input_u8(&i->in);
  filter->window = windows[choice % 16];
  filter->byte_width = widths[choice % 4];
  filter->scale = scales[choice / 4 % 8];
  filter->offset = choice / 32;
  bool delta = filter->type == TSR_FILTER_DELTA || filter->type == TSR_FILTER_DOUBLE_DELTA;
  if (!delta || filter->reinterpret >= 40) filter->reinterpret = TSR_ANY;
}

/* ---- Backward --------------------------------------------------------------------------------------------------- */

/* Decodes a stored tile. The result does not matter, but decoding some chunks must give the same bytes as decoding all. */
static void backward(input *i, const uint8_t *bytes, uint64_t size) {
  uint64_t original;
  uint8_t *stored = fuzz_exact(bytes, size);
  if (told(i, tsr__pipeline_original_size(stored, size, &original, &i->error)) && original <= FUZZ_MEMORY / 4) {
    uint8_t *out = malloc(original + 1), *part = malloc(original + 1);
    CHECK(out && part);
    int code = tsr__pipeline_decode(&i->pipeline, &i->shape, stored, size, out, original, &i->room.memory, &i->error);
    if (told(i, code) && original > 0) {
      uint64_t first, last, from = original / 3, end = from + 1 + original / 5;
      if (end > original) end = original;
      CHECK(tsr__pipeline_chunks(stored, size, from, end, &first, &last, NULL) == TSR_OK);
      CHECK(first <= from && end <= last && last <= original);
      code = tsr__pipeline_decode_part(&i->pipeline, &i->shape, stored, size, first, last, NULL, part, &i->room.memory,
                                       &i->error);
      CHECK(code == TSR_OK && !memcmp(part, out + first, last - first));
      uint8_t blocks[8];
      const tsr_needed_bytes needed = {.blocks = blocks, .block = original / 8 + 1};
      for (unsigned b = 0; b < 8; b++) blocks[b] = stored[size - 1] >> b & 1;
      memset(part, 0, last - first);
      code = tsr__pipeline_decode_part(&i->pipeline, &i->shape, stored, size, first, last, &needed, part,
                                       &i->room.memory, &i->error);
      CHECK(code == TSR_OK && tsr__pipeline_needs(stored, size, first, last, &needed) <= last - first);
      for (uint64_t k = first; k < last; k++) CHECK(!blocks[k / needed.block] || part[k - first] == out[k]);
    }
    free(out);
    free(part);
  }
  free(stored);
}

/* Does the same for a tile that has offsets in its data. */
static void backward_strings(input *i, const uint8_t *bytes, uint64_t size, uint64_t cells) {
  uint64_t original;
  uint8_t *stored = fuzz_exact(bytes, size);
  if (told(i, tsr__pipeline_original_size(stored, size, &original, &i->error)) && original <= FUZZ_MEMORY / 4) {
    uint8_t *out = malloc(original + 1);
    uint64_t *offsets = calloc(cells + 1, 8);
    CHECK(out && offsets);
    int code = tsr__pipeline_decode_strings(&i->pipeline, &i->shape, stored, size, out, original, offsets, cells,
                                            &i->room.memory, &i->error);
    if (told(i, code)) {
      for (uint64_t c = 0; c < cells; c++) CHECK(offsets[c] <= offsets[c + 1]);
      CHECK(offsets[cells] <= original);
    }
    free(out);
    free(offsets);
  }
  free(stored);
}

static void append_parts(tsr_buffer *out, const tsr_part *parts, uint32_t count) {
  for (uint32_t p = 0; p < count; p++) CHECK(tsr__buffer_append(out, parts[p].data, parts[p].size, NULL) == TSR_OK);
}

/* Takes a number of two bytes. At the end of the input it is 0. */
static uint16_t take_number(input *i) {
  const uint8_t *bytes = tsr__input_take(&i->in, 2);
  return bytes ? tsr__load16(bytes) : 0;
}

static tsr_part take_part(input *i, uint64_t most) {
  uint64_t size;
  const uint8_t *bytes = fuzz_take(&i->in, most, &size);
  return (tsr_part){(uint8_t *)bytes, size};
}

/* Appends one chunk whose stored form under the filters from `from` on is taken from the input: u16 metadata size, metadata,
 * data. Returns false if an encoder refuses it. */
static bool wrap(input *i, uint32_t from, uint32_t original, uint64_t data_max, tsr_buffer *out) {
  tsr_part metadata = take_part(i, take_number(i)), data = take_part(i, data_max);
  tsr_chunk chunk = {.metadata = &metadata, .metadata_count = metadata.size > 0, .data = &data, .data_count = 1};
  tsr_datatype datatype = i->shape.datatype;
  tsr_filter aes = {.type = TSR_FILTER_AES_256_GCM};
  bool encrypts = i->shape.key != NULL;
  for (uint32_t f = 0; f < i->pipeline.count; f++) {
    if (f >= from && i->filters[f].type != TSR_FILTER_NONE) {
      const tsr_filter_methods *methods = methods_of(i->filters[f].type);
      if (!methods || (methods == &tsr__filter_aes && !i->shape.key)) return false;
      tsr_filter_context context = {.filter = &i->filters[f],
                                    .shape = &i->shape,
                                    .datatype = datatype,
                                    .arena = &i->room.arena,
                                    .codec = methods->codec};
      void *state = NULL;
      context.state = &state;
      tsr_chunk next = {0};
      int code = methods->encode(&context, &chunk, &next, &i->error);
      if (state) methods->release(state);
      if (!told(i, code)) return false;
      chunk = next;
    }
    if (i->filters[f].type == TSR_FILTER_AES_256_GCM) encrypts = false;
    datatype = tsr__filter_gives(&i->filters[f], datatype);
  }
  if (encrypts) {
    tsr_filter_context context = {.filter = &aes, .shape = &i->shape, .datatype = datatype, .arena = &i->room.arena};
    void *state = NULL;
    context.state = &state;
    tsr_chunk next = {0};
    if (!told(i, tsr__filter_aes.encode(&context, &chunk, &next, &i->error))) return false;
    chunk = next;
  }
  uint64_t sizes[2] = {0, 0};
  for (uint32_t p = 0; p < chunk.metadata_count; p++) sizes[0] += chunk.metadata[p].size;
  for (uint32_t p = 0; p < chunk.data_count; p++) sizes[1] += chunk.data[p].size;
  CHECK(tsr__buffer_append_u32(out, original, NULL) == TSR_OK);
  CHECK(tsr__buffer_append_u32(out, (uint32_t)sizes[1], NULL) == TSR_OK);
  CHECK(tsr__buffer_append_u32(out, (uint32_t)sizes[0], NULL) == TSR_OK);
  append_parts(out, chunk.metadata, chunk.metadata_count);
  append_parts(out, chunk.data, chunk.data_count);
  return true;
}

/* Reads u8 number of chunks, then for each u32 original size, u16 data size, u16 metadata size, metadata, data. */
static bool wrap_tile(input *i, uint32_t from, tsr_buffer *out) {
  uint64_t chunks = 1 + tsr__input_u8(&i->in) % 4;
  *out = (tsr_buffer){.memory = &i->room.memory};
  CHECK(tsr__buffer_append_u64(out, chunks, NULL) == TSR_OK);
  for (uint64_t c = 0; c < chunks; c++) {
    uint32_t original = tsr__input_u32(&i->in);
    uint64_t size = take_number(i);
    if (!wrap(i, from, original, size, out)) return false;
  }
  return true;
}

static void run_raw(input *i) { backward(i, i->in.data + i->in.at, tsr__input_left(&i->in)); }

static void run_wrapped(input *i) {
  tsr_buffer tile;
  uint32_t from = tsr__input_u8(&i->in) % (FILTERS_MAX + 1);
  if (wrap_tile(i, from, &tile)) backward(i, tile.data, tile.size);
  tsr__buffer_release(&tile);
}

static void run_strings(input *i) {
  tsr_buffer tile;
  uint32_t from = tsr__input_u8(&i->in) % (FILTERS_MAX + 1);
  uint64_t cells = take_number(i);
  i->shape.datatype = i->shape.datatype & 1 ? TSR_UTF8 : TSR_ASCII;
  if (wrap_tile(i, from, &tile) &&
      tsr__pipeline_holds_offsets(&i->pipeline, i->shape.datatype, TSR_VARIABLE, i->shape.version))
    backward_strings(i, tile.data, tile.size, cells);
  tsr__buffer_release(&tile);
}

/* ---- Forward, then backward ------------------------------------------------------------------------------------- */

/* Round trips of pipelines that a schema may have. scale_float rounds, so it is left out of comparisons. */
static bool allowed(input *i, uint32_t values_per_cell, bool *exact) {
  *exact = true;
  for (uint32_t f = 0; f < i->pipeline.count; f++) {
    if (i->filters[f].type == TSR_FILTER_AES_256_GCM || i->filters[f].type == TSR_FILTER_SCALE_FLOAT) *exact = false;
    if (i->filters[f].type == TSR_FILTER_AES_256_GCM) return false;
    if (tsr__filter_allowed(&i->pipeline, f, i->shape.datatype, values_per_cell, false, &i->error) < 0) {
      i->error = (tsr_error){0};
      return false;
    }
  }
  return true;
}

static void run_forward(input *i) {
  bool exact;
  uint64_t cell = i->shape.cell_size, size = tsr__input_left(&i->in) / cell * cell;
  if (!allowed(i, (uint32_t)(cell / tsr_datatype_size(i->shape.datatype)), &exact)) return;
  tsr_buffer tile = {.memory = &i->room.memory};
  uint8_t *values = fuzz_exact(i->in.data + i->in.at, size), *again = malloc(size + 1);
  uint64_t original;
  CHECK(again);
  if (told(i, tsr__pipeline_encode(&i->pipeline, &i->shape, values, size, NULL, size / cell, &tile, &i->error))) {
    CHECK(tsr__pipeline_original_size(tile.data, tile.size, &original, NULL) == TSR_OK && original == size);
    int code =
        tsr__pipeline_decode(&i->pipeline, &i->shape, tile.data, tile.size, again, size, &i->room.memory, &i->error);
    if (code != TSR_OK) fprintf(stderr, "%s\n", i->error.message);
    CHECK(code == TSR_OK);
    CHECK(!exact || !memcmp(values, again, size));
  }
  free(values);
  free(again);
  tsr__buffer_release(&tile);
}

/* Reads the lengths of the cells as u8 up to 0xff, then their bytes. */
static void run_forward_strings(input *i) {
  uint64_t cells = 0, *offsets = calloc(FUZZ_INPUT + 2, 8), *again;
  bool exact;
  CHECK(offsets);
  i->shape.cell_size = tsr_datatype_size(i->shape.datatype);
  for (uint8_t length; tsr__input_left(&i->in) > 0 && (length = tsr__input_u8(&i->in)) != 0xff; cells++)
    offsets[cells + 1] = offsets[cells] + length % 32 * i->shape.cell_size;
  uint64_t size = TSR_MIN(offsets[cells], tsr__input_left(&i->in)) / i->shape.cell_size * i->shape.cell_size;
  for (uint64_t c = 0; c <= cells; c++) offsets[c] = TSR_MIN(offsets[c], size);
  again = calloc(cells + 2, 8);
  uint8_t *text = fuzz_exact(i->in.data + i->in.at, size), *back = malloc(size + 1);
  CHECK(again && back);
  tsr_buffer tile = {.memory = &i->room.memory};
  if (allowed(i, TSR_VARIABLE, &exact) &&
      told(i, tsr__pipeline_encode(&i->pipeline, &i->shape, text, size, offsets, cells, &tile, &i->error))) {
    int code;
    bool holds = tsr__pipeline_holds_offsets(&i->pipeline, i->shape.datatype, TSR_VARIABLE, i->shape.version);
    if (holds)
      code = tsr__pipeline_decode_strings(&i->pipeline, &i->shape, tile.data, tile.size, back, size, again, cells,
                                          &i->room.memory, &i->error);
    else
      code =
          tsr__pipeline_decode(&i->pipeline, &i->shape, tile.data, tile.size, back, size, &i->room.memory, &i->error);
    if (code != TSR_OK) fprintf(stderr, "%s\n", i->error.message);
    CHECK(code == TSR_OK && (!exact || !memcmp(text, back, size)));
    CHECK(!holds || !memcmp(offsets, again, (cells + 1) * 8));
  }
  free(offsets);
  free(again);
  free(text);
  free(back);
  tsr__buffer_release(&tile);
}

/* ---- Pipelines as stored, tiles as columns ---------------------------------------------------------------------- */

static void run_stored_pipeline(input *i) {
  tsr_pipeline first, second;
  tsr_buffer out[2] = {{.memory = &i->room.memory}, {.memory = &i->room.memory}};
  if (told(i, tsr__pipeline_read(&i->in, i->shape.version, &i->room.arena, &first, &i->error)) &&
      told(i, tsr__pipeline_write(&first, i->shape.version, &out[0], &i->error))) {
    tsr_input written = tsr__input(out[0].data, out[0].size);
    CHECK(tsr__pipeline_read(&written, i->shape.version, &i->room.arena, &second, NULL) == TSR_OK);
    CHECK(tsr__pipeline_write(&second, i->shape.version, &out[1], NULL) == TSR_OK);
    CHECK(out[0].size == out[1].size && !memcmp(out[0].data, out[1].data, out[0].size));
    for (uint32_t f = 0; f < first.count; f++)
      told(i, tsr__filter_allowed(&first, f, i->shape.datatype, 1, false, &i->error));
  }
  tsr__buffer_release(&out[0]);
  tsr__buffer_release(&out[1]);
}

/* Reads u8 flags (1 variable, 2 nullable, 4 coordinates, 8 split coordinates), u16 number of cells, u32 bytes of the variable
 * part, and then the parts, each wrapped by the pipeline of the input or by none. */
static void run_tile(input *i) {
  static const tsr_filter gzip = {.type = TSR_FILTER_GZIP, .level = 1, .reinterpret = TSR_ANY};
  const tsr_pipeline plain = {.max_chunk_size = 65536},
                     zipped = {.max_chunk_size = 65536, .count = 1, .filters = (tsr_filter *)&gzip};
  uint8_t flags = tsr__input_u8(&i->in);
  bool variable = flags & 1;
  uint32_t values = (uint32_t)(i->shape.cell_size / tsr_datatype_size(i->shape.datatype));
  tsr_tile_source source = {.cells = take_number(i)};
  source.variable_size = tsr__input_u32(&i->in);
  tsr_tile_format format = {.datatype = i->shape.datatype,
                            .values_per_cell = variable ? TSR_VARIABLE : values,
                            .nullable = flags & 2,
                            .version = i->shape.version,
                            .values = &i->pipeline,
                            .offsets = flags & 16 ? &zipped : &plain,
                            .validity = flags & 32 ? &zipped : &plain,
                            .key = i->shape.key};
  if (flags & 4 && !variable) {
    format.coordinate_dimensions = 1 + (flags >> 6);
    format.coordinates_split = flags & 8;
    format.nullable = false;
    format.values_per_cell = 1;
  }
  tsr_buffer parts[TSR_PART_COUNT] = {0};
  uint8_t *exact[TSR_PART_COUNT] = {0};
  tsr_pipeline own = i->pipeline;
  tsr_filter filters[FILTERS_MAX];
  tsr_tile_shape shape = i->shape;
  memcpy(filters, i->filters, sizeof filters);
  bool good = true;
  for (int part = 0; part < TSR_PART_COUNT && good; part++) {
    bool has = part == TSR_PART_FIXED || (part == TSR_PART_VARIABLE ? variable : format.nullable);
    bool is_own = part == (variable ? TSR_PART_VARIABLE : TSR_PART_FIXED);
    if (!has) continue;
    i->pipeline = is_own ? own : part == TSR_PART_VALIDITY ? *format.validity : *format.offsets;
    memcpy(i->filters, filters, sizeof filters);
    if (!is_own) i->filters[0] = gzip;
    if (!is_own) i->shape.datatype = part == TSR_PART_VALIDITY ? TSR_UINT8 : TSR_UINT64;
    good = wrap_tile(i, is_own ? 1 : 0, &parts[part]);
    i->shape = shape;
    exact[part] = fuzz_exact(parts[part].data, parts[part].size);
    source.bytes[part] = exact[part];
    source.sizes[part] = parts[part].size;
  }
  memcpy(i->filters, filters, sizeof filters);
  i->pipeline = own;
  tsr_tile *tile;
  if (good && told(i, tsr__tile_decode(&format, &source, &i->room.memory, &tile, &i->error))) {
    CHECK(tile->cells == source.cells);
    if (tile->offsets) {
      for (uint64_t c = 0; c < tile->cells; c++) CHECK(tile->offsets[c] <= tile->offsets[c + 1]);
      CHECK(tile->offsets[tile->cells] <= tile->values_size);
    }
    CHECK(!format.nullable || tile->validity);
    tsr__tile_drop(tile);
  }
  for (int part = 0; part < TSR_PART_COUNT; part++) {
    free(exact[part]);
    if (parts[part].memory) tsr__buffer_release(&parts[part]);
  }
}

static void (*const actions[])(input *i) = {run_raw,     run_wrapped,         run_strings,         run_forward,
                                            run_wrapped, run_forward_strings, run_stored_pipeline, run_tile};

int LLVMFuzzerInitialize(int *count, char ***arguments) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint32_t chunks[] = {65536, 0, 1, 8, 100, 4096, 0xffffffff, 31};
  input i = {.in = tsr__input(data, size)};
  if (size < 8 || size > FUZZ_INPUT) return 0;
  room_open(&i.room);
  uint8_t action = tsr__input_u8(&i.in);
  i.shape.datatype = (tsr_datatype)(tsr__input_u8(&i.in) % TSR_DATATYPE_COUNT);
  i.shape.version = 1 + tsr__input_u8(&i.in) % TSR_FORMAT_READ_MAX;
  i.shape.cell_size = tsr_datatype_size(i.shape.datatype) * (1 + tsr__input_u8(&i.in) % 5);
  i.shape.key = tsr__input_u8(&i.in) & 1 ? key : NULL;
  i.pipeline.max_chunk_size = chunks[tsr__input_u8(&i.in) % 8];
  i.pipeline.count = tsr__input_u8(&i.in) % (FILTERS_MAX + 1);
  if (i.pipeline.max_chunk_size < 100 && size > 256) i.pipeline.max_chunk_size = 100; /* avoids thousands of chunks */
  i.pipeline.filters = i.filters;
  for (uint32_t f = 0; f < i.pipeline.count; f++) read_filter(&i, &i.filters[f]);
  actions[action % (sizeof actions / sizeof *actions)](&i);
  room_close(&i.room);
  return 0;
}
