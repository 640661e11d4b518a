/* dictionary.c: the dictionary filter, which stores each string as the number of an entry in a dictionary. It handles
 * fields of variable-size ASCII (since version 13) and UTF8 (since 17), including their offsets. It is the first filter
 * of its pipeline, and the tile is one chunk.
 *
 * Metadata: u32 0, u32 1, u32 size of the text in bytes, u32 size of the data, u32 size of the offsets (8 per cell), u8
 * width of an entry's number, u8 width of an entry's size, u32 size of the dictionary, then for each entry its size
 * (big-endian) and text. Data: for each cell the number of its entry, big-endian. Before those versions the offsets
 * were also stored in a tile of their own; then the filter returns only the text.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/pool.h"
#include "filter/filter.h"

#define HEADER 26u
/* Cells between two polls for cancellation, since all cells of a tile are in one chunk. */
#define DICTIONARY_POLL_CELLS 65536u

static bool dictionary_is_width(uint8_t width) { return width == 1 || width == 2 || width == 4 || width == 8; }

static unsigned dictionary_width_of(uint64_t most) {
  return most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

typedef struct dictionary_header {
  uint32_t text, data, offsets, dictionary;
  uint8_t number_width, size_width;
} dictionary_header;

typedef struct dictionary {
  const uint8_t *bytes;
  uint64_t count;
  uint32_t *starts, *sizes; /* position and size in bytes of each entry's text */
} dictionary;

static int read_header(const tsr_filter_context *context, tsr_input *metadata, const tsr_input *data,
                       dictionary_header *h, tsr_error *error) {
  uint32_t metadata_parts = tsr__input_u32(metadata), parts = tsr__input_u32(metadata);
  h->text = tsr__input_u32(metadata);
  h->data = tsr__input_u32(metadata);
  h->offsets = tsr__input_u32(metadata);
  h->number_width = tsr__input_u8(metadata);
  h->size_width = tsr__input_u8(metadata);
  h->dictionary = tsr__input_u32(metadata);
  TSR_TRY(tsr__input_check(metadata, "the dictionary's metadata", error));
  if (metadata_parts != 0 || parts != 1 || !dictionary_is_width(h->number_width) || !dictionary_is_width(h->size_width))
    return tsr__fail(error, TSR_CORRUPT, "strings in %u + %u parts with numbers of %u and sizes of %u bytes",
                     metadata_parts, parts, h->number_width, h->size_width);
  uint64_t cells = context->strings ? context->strings->cells : h->data / h->number_width;
  if (h->data != data->size || h->data % h->number_width != 0 || h->data / h->number_width != cells ||
      (context->strings && h->offsets != tsr__mul_sat(cells, 8)))
    return tsr__fail(error, TSR_CORRUPT,
                     "expected %u bytes of numbers and %u of offsets, found %llu bytes for %llu cells", h->data,
                     h->offsets, (unsigned long long)data->size, (unsigned long long)cells);
  return TSR_OK;
}

static int read_dictionary(const tsr_filter_context *context, const dictionary_header *h, tsr_input bytes,
                           dictionary *d, tsr_error *error) {
  tsr_input in = bytes;
  uint64_t count = 0;
  for (; tsr__input_left(&in) > 0; count++) {
    const uint8_t *size = tsr__input_take(&in, h->size_width);
    if (size) tsr__input_take(&in, tsr__load_be(size, h->size_width));
    if (in.failed)
      return tsr__fail(error, TSR_CORRUPT, "entry %llu of the dictionary ends behind its %llu bytes",
                       (unsigned long long)count, (unsigned long long)bytes.size);
  }
  uint32_t *starts;
  uint32_t *sizes;
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, count, &starts, error));
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, count, &sizes, error));
  *d = (dictionary){bytes.data, count, starts, sizes};
  in = bytes;
  for (uint64_t i = 0; i < count; i++) {
    d->sizes[i] = (uint32_t)tsr__load_be(tsr__input_take(&in, h->size_width), h->size_width);
    d->starts[i] = (uint32_t)in.at;
    tsr__input_take(&in, d->sizes[i]);
  }
  return TSR_OK;
}

static int dictionary_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data,
                             tsr_part *metadata_out, tsr_part *data_out, tsr_error *error) {
  dictionary_header h;
  TSR_TRY(read_header(context, metadata, &data, &h, error));
  const uint8_t *bytes = tsr__input_take(metadata, h.dictionary);
  TSR_TRY(tsr__input_check(metadata, "the dictionary", error));
  dictionary d = {0};
  TSR_TRY(read_dictionary(context, &h, tsr__input(bytes, h.dictionary), &d, error));
  uint8_t *out;
  TSR_TRY(tsr__filter_room(context, h.text, &out, error));
  uint64_t at = 0, cells = h.data / h.number_width, *offsets = context->strings ? context->strings->offsets : NULL;
  for (uint64_t i = 0; i < cells; i++) {
    if (i % DICTIONARY_POLL_CELLS == DICTIONARY_POLL_CELLS - 1) TSR_TRY(tsr__cancelled(context->arena->memory, error));
    uint64_t number = tsr__load_be(data.data + i * h.number_width, h.number_width);
    if (number >= d.count || d.sizes[number] > h.text - at)
      return tsr__fail(error, TSR_CORRUPT, "cell %llu is entry %llu: the dictionary has %llu, %llu bytes are left",
                       (unsigned long long)i, (unsigned long long)number, (unsigned long long)d.count,
                       (unsigned long long)(h.text - at));
    if (d.sizes[number] > 0) memcpy(out + at, d.bytes + d.starts[number], d.sizes[number]);
    if (offsets) offsets[i] = at;
    at += d.sizes[number];
  }
  if (at != h.text)
    return tsr__fail(error, TSR_CORRUPT, "the cells decode to %llu bytes of text, expected %u", (unsigned long long)at,
                     h.text);
  if (offsets) offsets[cells] = at;
  *data_out = (tsr_part){out, h.text};
  return TSR_OK;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

/* A dictionary under construction. */
typedef struct builder {
  const uint64_t *offsets;
  const uint8_t *text;
  tsr_hash_index index; /* of the entries, over slots in the arena */
  uint32_t *entries; /* for each entry, a cell that has its text */
  uint32_t *numbers; /* for each cell, the number of its entry */
  uint64_t count, bytes, longest;
} builder;

static void number_cell(builder *b, uint32_t cell) {
  const uint8_t *text = b->text + b->offsets[cell];
  uint64_t size = b->offsets[cell + 1] - b->offsets[cell];
  uint64_t slot = tsr__hash_slot(&b->index, tsr__hash_bytes(0, text, size));
  for (uint32_t entry; tsr__hash_item(&b->index, slot, &entry); slot = tsr__hash_next(&b->index, slot)) {
    uint32_t other = b->entries[entry];
    if (b->offsets[other + 1] - b->offsets[other] == size &&
        (size == 0 || memcmp(b->text + b->offsets[other], text, size) == 0)) {
      b->numbers[cell] = entry;
      return;
    }
  }
  b->numbers[cell] = (uint32_t)b->count;
  tsr__hash_set(&b->index, slot, b->count);
  b->entries[b->count++] = cell;
  b->bytes += size;
  b->longest = TSR_MAX(b->longest, size);
}

static int build(const tsr_filter_context *context, const tsr_part *text, builder *b, tsr_error *error) {
  uint64_t cells = context->strings->cells, slots = tsr__hash_slots_for(cells);
  *b = (builder){.offsets = context->strings->offsets, .text = text->data, .index = {NULL, slots - 1}};
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, slots, &b->index.slots, error));
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, cells, &b->entries, error));
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, cells, &b->numbers, error));
  for (uint64_t i = 0; i < cells; i++) number_cell(b, (uint32_t)i);
  return TSR_OK;
}

static int dictionary_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  if (!context->strings)
    return tsr__fail(error, TSR_CONSTRAINT, "a dictionary is for ASCII and UTF8 strings of variable length only");
  uint64_t cells = context->strings->cells, text = in->data->size;
  if (text > UINT32_MAX || cells > UINT32_MAX / 8)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes of text in %llu cells: too much for one tile with a dictionary",
                     (unsigned long long)text, (unsigned long long)cells);
  builder b;
  TSR_TRY(build(context, in->data, &b, error));
  unsigned number_width = dictionary_width_of(b.count), size_width = dictionary_width_of(b.longest);
  uint64_t dictionary_size = b.bytes + b.count * size_width;
  if (dictionary_size + HEADER > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "a dictionary of %llu bytes", (unsigned long long)dictionary_size);
  tsr_chunk made = {0};
  TSR_TRY(tsr__filter_part(context, HEADER + dictionary_size, &made.metadata, &made.metadata_count, error));
  TSR_TRY(tsr__filter_part(context, cells * number_width, &made.data, &made.data_count, error));
  uint8_t *m = made.metadata->data;
  tsr__store32(m, 0);
  tsr__store32(m + 4, 1);
  tsr__store32(m + 8, (uint32_t)text);
  tsr__store32(m + 12, (uint32_t)(cells * number_width));
  tsr__store32(m + 16, (uint32_t)(cells * 8));
  m[20] = (uint8_t)number_width;
  m[21] = (uint8_t)size_width;
  tsr__store32(m + 22, (uint32_t)dictionary_size);
  m += HEADER;
  for (uint64_t i = 0; i < b.count; i++) {
    uint64_t start = b.offsets[b.entries[i]], size = b.offsets[b.entries[i] + 1] - start;
    tsr__store_be(m, size_width, size);
    if (size > 0) memcpy(m + size_width, b.text + start, size);
    m += size_width + size;
  }
  for (uint64_t i = 0; i < cells; i++) tsr__store_be(made.data->data + i * number_width, number_width, b.numbers[i]);
  *out = made;
  return TSR_OK;
}

const tsr_filter_methods tsr__filter_dictionary = {
    .type = TSR_FILTER_DICTIONARY, .name = "dictionary", .decode = dictionary_decode, .encode = dictionary_encode};
