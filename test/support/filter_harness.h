/* filter_harness.h: runs a single filter in both directions, for the tests of filter_*.c. Input is copied to blocks of its
 * exact size, so that AddressSanitizer sees a read beyond its end. */
#ifndef TSR_TEST_FILTER_HARNESS_H
#define TSR_TEST_FILTER_HARNESS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>

#include "filter/filter.h"
#include "chance.h"

typedef struct harness {
  const tsr_filter_methods *methods;
  tsr_filter filter;
  tsr_tile_shape shape;
  tsr_memory memory;
  tsr_arena arena;
  tsr_error error;
} harness;

static inline void harness_open(harness *h, const tsr_filter_methods *methods, tsr_datatype datatype) {
  *h = (harness){.methods = methods,
                 .filter = {.type = methods->type, .level = -1, .reinterpret = TSR_ANY},
                 .shape = {.datatype = datatype, .cell_size = tsr_datatype_size(datatype), .version = 22}};
  tsr__memory_init_root(&h->memory, NULL, NULL);
  tsr__arena_init(&h->arena, &h->memory);
}

static inline void harness_close(harness *h) {
  tsr__arena_release(&h->arena);
  assert_int_equal(h->memory.used, 0);
}

static inline tsr_filter_context harness_context(harness *h, uint64_t max_size, uint8_t *target) {
  return (tsr_filter_context){.filter = &h->filter,
                              .shape = &h->shape,
                              .datatype = h->shape.datatype,
                              .arena = &h->arena,
                              .most = max_size,
                              .target = target,
                              .codec = h->methods->codec};
}

/* Returns a copy in a block of its exact size; the pointer is never NULL. */
static inline tsr_part harness_copy(const void *bytes, uint64_t size) {
  tsr_part part = {malloc(size ? size : 1), size};
  assert_non_null(part.data);
  if (size) memcpy(part.data, bytes, size);
  return part;
}

static inline tsr_part harness_join(const tsr_part *parts, uint32_t count) {
  tsr_part all = {malloc(1), 0};
  for (uint32_t i = 0; i < count; i++) {
    all.data = realloc(all.data, all.size + parts[i].size + 1);
    assert_non_null(all.data);
    if (parts[i].size) memcpy(all.data + all.size, parts[i].data, parts[i].size);
    all.size += parts[i].size;
  }
  return all;
}

static inline tsr_part harness_hex(const char *text) {
  tsr_part part = {malloc(strlen(text) / 2 + 1), strlen(text) / 2};
  for (uint64_t i = 0; i < part.size; i++) {
    char digits[3] = {text[2 * i], text[2 * i + 1], 0};
    part.data[i] = (uint8_t)strtoul(digits, NULL, 16);
  }
  return part;
}

/* Runs the filter backward over a chunk of `size` decoded bytes, as the first filter of a pipeline, or as a later one if
 * `in_arena` is set. On success the caller frees *out and *left, the metadata that the filter has not consumed. */
static inline int harness_decode(harness *h, tsr_part metadata, tsr_part data, uint64_t size, bool in_arena,
                                 tsr_part *out, tsr_part *left) {
  tsr_part in[2] = {harness_copy(metadata.data, metadata.size), harness_copy(data.data, data.size)};
  tsr_part target = {malloc(size ? size : 1), size}, given = {0}, earlier = {0};
  tsr_input input = tsr__input(in[0].data, in[0].size);
  tsr_filter_context context = harness_context(h, size, in_arena ? NULL : target.data);
  int rc = h->methods->decode(&context, &input, tsr__input(in[1].data, in[1].size), &earlier, &given, &h->error);
  if (rc == TSR_OK) rc = tsr__input_check(&input, "metadata", &h->error);
  if (rc == TSR_OK) {
    *out = harness_copy(given.data, given.size);
    *left = earlier.data ? harness_copy(earlier.data, earlier.size)
                         : harness_copy(input.data + input.at, tsr__input_left(&input));
  }
  free(target.data);
  free(in[0].data);
  free(in[1].data);
  tsr__arena_reset(&h->arena);
  return rc;
}

/* Runs the filter forward. The parts of its output are joined; the caller frees *metadata and *data. */
static inline int harness_encode(harness *h, const tsr_chunk *in, tsr_part *metadata, tsr_part *data) {
  tsr_filter_context context = harness_context(h, 0, NULL);
  tsr_chunk out = {0};
  int rc = h->methods->encode(&context, in, &out, &h->error);
  if (rc == TSR_OK) {
    *metadata = harness_join(out.metadata, out.metadata_count);
    *data = harness_join(out.data, out.data_count);
  }
  tsr__arena_reset(&h->arena);
  return rc;
}

static inline void harness_equal(tsr_part a, tsr_part b) {
  assert_int_equal(a.size, b.size);
  assert_memory_equal(a.data, b.data, a.size);
}

/* Decodes each proper prefix of metadata and data, which must be an error, and each byte changed in some ways, which may
 * be an error or not. */
static inline void harness_damage(harness *h, tsr_part metadata, tsr_part data, uint64_t size) {
  tsr_part out = {0}, left = {0}, both[2] = {metadata, data};
  for (int which = 0; which < 2; which++)
    for (uint64_t cut = 0; cut < both[which].size; cut++) {
      tsr_part damaged[2] = {metadata, data};
      damaged[which].size = cut;
      assert_int_equal(harness_decode(h, damaged[0], damaged[1], size, false, &out, &left), TSR_CORRUPT);
      assert_true(h->error.message[0] != 0);
    }
  for (int which = 0; which < 2; which++)
    for (uint64_t at = 0; at < both[which].size; at++)
      for (int change = 1; change < 256; change = change * 2 + 1) {
        tsr_part damaged[2] = {metadata, data};
        damaged[which] = harness_copy(both[which].data, both[which].size);
        damaged[which].data[at] ^= (uint8_t)change;
        int rc = harness_decode(h, damaged[0], damaged[1], size, (at + (unsigned)change) % 3 == 0, &out, &left);
        assert_true(rc == TSR_OK || rc == TSR_CORRUPT);
        if (rc == TSR_OK) free(out.data), free(left.data);
        free(damaged[which].data);
      }
}

/* Checks that metadata and data of one chunk as TileDB has stored them (in hexadecimal) decode to these bytes, and that
 * damaged ones give errors. */
static inline void harness_stored(harness *h, const char *metadata, const char *data, const char *bytes) {
  tsr_part m = harness_hex(metadata), d = harness_hex(data), expected = harness_hex(bytes), out = {0}, left = {0};
  for (int in_arena = 0; in_arena < 2; in_arena++) {
    assert_int_equal(harness_decode(h, m, d, expected.size, in_arena, &out, &left), TSR_OK);
    harness_equal(out, expected);
    assert_int_equal(left.size, 0);
    free(out.data);
    free(left.data);
  }
  harness_damage(h, m, d, expected.size);
  free(m.data);
  free(d.data);
  free(expected.data);
}

/* Checks that, and that encoding the bytes gives exactly what TileDB has stored. */
static inline void harness_same(harness *h, const char *metadata, const char *data, const char *bytes) {
  harness_stored(h, metadata, data, bytes);
  tsr_part expected[2] = {harness_hex(metadata), harness_hex(data)}, given = harness_hex(bytes), m = {0}, d = {0};
  assert_int_equal(harness_encode(h, &(tsr_chunk){.data = &given, .data_count = 1}, &m, &d), TSR_OK);
  harness_equal(m, expected[0]);
  harness_equal(d, expected[1]);
  free(m.data);
  free(d.data);
  free(given.data);
  free(expected[0].data);
  free(expected[1].data);
}

/* Checks that forward and backward give the same bytes, and that the metadata of earlier filters is left as it was. */
static inline void harness_round_trip(harness *h, const tsr_chunk *in) {
  tsr_part m = {0}, d = {0}, out = {0}, left = {0}, data = harness_join(in->data, in->data_count),
           earlier = harness_join(in->metadata, in->metadata_count);
  assert_int_equal(harness_encode(h, in, &m, &d), TSR_OK);
  assert_int_equal(harness_decode(h, m, d, data.size + earlier.size, earlier.size > 0, &out, &left), TSR_OK);
  harness_equal(out, data);
  harness_equal(left, earlier);
  free(m.data);
  free(d.data);
  free(out.data);
  free(left.data);
  free(data.data);
  free(earlier.data);
}

/* Checks that below format version 20 the filter passes on bytes and metadata of some datatypes unchanged, and that from
 * version 20 on it filters them, with `metadata` bytes of metadata. */
static inline void harness_passes_before_20(harness *h, uint64_t metadata) {
  tsr_part m = {0}, d = {0}, bytes = harness_hex("0500000003000000"), earlier = harness_hex("0102");
  tsr_chunk chunk = {&earlier, 1, &bytes, 1};
  h->shape.version = 19;
  assert_int_equal(harness_encode(h, &chunk, &m, &d), TSR_OK);
  harness_equal(m, earlier);
  harness_equal(d, bytes);
  harness_round_trip(h, &chunk);
  free(m.data);
  free(d.data);
  h->shape.version = 20;
  assert_int_equal(harness_encode(h, &chunk, &m, &d), TSR_OK);
  assert_int_equal(m.size, metadata);
  free(m.data);
  free(d.data);
  free(bytes.data);
  free(earlier.data);
}

/* Checks that a filter that needs more than its budget fails and frees all of its memory. */
static inline void harness_out_of_budget(const tsr_filter_methods *methods) {
  uint8_t bytes[8192] = {0};
  tsr_part m = {0}, d = {0}, part = {bytes, sizeof bytes};
  harness h;
  harness_open(&h, methods, TSR_INT32);
  h.memory.limit = 4096;
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = &part, .data_count = 1}, &m, &d), TSR_BUDGET);
  harness_close(&h);
}

/* Makes round trips of many sizes, with values that are random, or small steps, or extremes; in one part, and in two parts
 * of whole values with metadata of an earlier filter. */
static inline void harness_sizes(harness *h, unsigned width, unsigned sizes) {
  uint64_t state = 88172645463325252u, room = (uint64_t)sizes * width;
  uint8_t *bytes = malloc(room + 1);
  uint8_t earlier[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int kind = 0; kind < 3; kind++)
    for (uint64_t count = 0; count < sizes; count++) {
      uint64_t value = next_random(&state);
      for (uint64_t i = 0; i < count; i++) {
        uint64_t random = next_random(&state);
        value = kind == 0 ? random : kind == 1 ? value + random % 7 : (uint64_t)0 - random % 2 + (random >> 1) % 3;
        if (kind == 2 && random % 5 == 0) value ^= (uint64_t)1 << (8 * width - 1);
        memcpy(bytes + i * width, &value, width);
      }
      tsr_part one = {bytes, count * width}, metadata = {earlier, 8};
      harness_round_trip(h, &(tsr_chunk){.data = &one, .data_count = 1});
      uint64_t cut = count / 3 * width;
      tsr_part two[2] = {{bytes, cut}, {bytes + cut, count * width - cut}};
      harness_round_trip(h, &(tsr_chunk){&metadata, 1, two, 2});
    }
  free(bytes);
}

#endif
