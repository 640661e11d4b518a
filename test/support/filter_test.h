/* filter_test.h: what the tests of filter pipelines share: tiles as hexadecimal text, decoding with every kind of damage,
 * round trips. Input is copied to blocks of its exact size, so that AddressSanitizer sees a read beyond its end.
 */
#ifndef FILTER_TEST_H
#define FILTER_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter.h"
#include "filter/pipeline.h"
#include "chance.h"

typedef struct bytes {
  uint8_t *data;
  uint64_t size;
} bytes;

static inline bytes copy_bytes(const void *data, uint64_t size) {
  bytes b = {calloc(size > 0 ? size : 1, 1), size};
  if (size > 0) memcpy(b.data, data, size);
  return b;
}

static inline bytes unhex(const char *text) {
  bytes b = {malloc(strlen(text) / 2 + 1), strlen(text) / 2};
  for (uint64_t i = 0; i < b.size; i++) {
    unsigned value;
    assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
    b.data[i] = (uint8_t)value;
  }
  return b;
}

/* Memory, and a pipeline that was decoded from its stored form. */
typedef struct bench {
  tsr_memory memory;
  tsr_arena arena;
  tsr_error error;
  tsr_pipeline pipeline;
  tsr_tile_shape shape;
} bench;

static inline void bench_open(bench *b, const char *pipeline, tsr_datatype datatype, uint32_t version) {
  memset(b, 0, sizeof *b);
  tsr__memory_init_root(&b->memory, NULL, NULL);
  tsr__arena_init(&b->arena, &b->memory);
  b->shape = (tsr_tile_shape){.datatype = datatype, .cell_size = tsr_datatype_size(datatype), .version = version};
  bytes stored = unhex(pipeline);
  tsr_input in = tsr__input(stored.data, stored.size);
  assert_int_equal(tsr__pipeline_read(&in, version, &b->arena, &b->pipeline, &b->error), TSR_OK);
  assert_int_equal(tsr__input_left(&in), 0);
  free(stored.data);
}

static inline void bench_close(bench *b) {
  tsr__arena_release(&b->arena);
  assert_int_equal(b->memory.used, 0);
}

/* Decodes into blocks of the exact size, with offsets if cells is not UINT64_MAX. On success compares the result. */
static inline int bench_decode(bench *b, const uint8_t *tile, uint64_t size, bytes expected, const uint64_t *offsets,
                               uint64_t cells) {
  bytes in = copy_bytes(tile, size), out = {malloc(expected.size + 1), expected.size};
  uint64_t *got = offsets ? malloc((cells + 1) * sizeof *got) : NULL, before = b->memory.used;
  out.data = realloc(out.data, expected.size > 0 ? expected.size : 1);
  int rc =
      offsets ? tsr__pipeline_decode_strings(&b->pipeline, &b->shape, in.data, size, out.data, out.size, got, cells,
                                             &b->memory, &b->error)
              : tsr__pipeline_decode(&b->pipeline, &b->shape, in.data, size, out.data, out.size, &b->memory, &b->error);
  assert_int_equal(b->memory.used, before);
  if (rc == TSR_OK) {
    assert_memory_equal(out.data, expected.data, expected.size);
    if (offsets) assert_memory_equal(got, offsets, (cells + 1) * sizeof *got);
  } else {
    assert_true(b->error.message[0] != 0);
  }
  free(in.data);
  free(out.data);
  free(got);
  return rc;
}

static inline int bench_encode(bench *b, bytes in, const uint64_t *offsets, uint64_t cells, bytes *tile) {
  tsr_buffer out = {.memory = &b->memory};
  *tile = (bytes){0};
  int rc = tsr__pipeline_encode(&b->pipeline, &b->shape, in.data, in.size, offsets, cells, &out, &b->error);
  if (rc == TSR_OK) *tile = copy_bytes(out.data, out.size);
  tsr__buffer_release(&out);
  return rc;
}

/* Decodes with every kind of damage. Decoding must not crash, and must not succeed with other bytes than expected; the
 * latter is allowed if `lax` is set, for filters that check nothing. */
static inline void bench_damage(bench *b, bytes tile, bytes expected, const uint64_t *offsets, uint64_t cells,
                                bool lax) {
  for (uint64_t size = 0; size < tile.size; size++)
    assert_int_equal(bench_decode(b, tile.data, size, expected, offsets, cells), TSR_CORRUPT);
  bytes longer = {malloc(tile.size + 1), tile.size + 1};
  memcpy(longer.data, tile.data, tile.size);
  longer.data[tile.size] = 0;
  assert_int_equal(bench_decode(b, longer.data, longer.size, expected, offsets, cells), TSR_CORRUPT);
  free(longer.data);
  bytes other = copy_bytes(tile.data, tile.size);
  uint8_t *out = malloc(expected.size + 1);
  uint64_t *got = offsets ? malloc((cells + 1) * sizeof *got) : NULL;
  for (uint64_t i = 0; i < tile.size; i++) {
    for (unsigned k = 0; k < 10; k++) {
      other.data[i] = (uint8_t)(k < 8 ? tile.data[i] ^ 1u << k : k == 8 ? 0xff : 0);
      int rc = offsets ? tsr__pipeline_decode_strings(&b->pipeline, &b->shape, other.data, other.size, out,
                                                      expected.size, got, cells, &b->memory, &b->error)
                       : tsr__pipeline_decode(&b->pipeline, &b->shape, other.data, other.size, out, expected.size,
                                              &b->memory, &b->error);
      assert_true(rc == TSR_OK || rc == TSR_CORRUPT || rc == TSR_AUTH);
      if (rc == TSR_OK && !lax) assert_memory_equal(out, expected.data, expected.size);
    }
    other.data[i] = tile.data[i];
  }
  free(got);
  free(out);
  free(other.data);
  /* decoding to a larger or smaller size than the tile's */
  bytes more = {calloc(expected.size + 1, 1), expected.size + 1};
  assert_int_equal(bench_decode(b, tile.data, tile.size, more, offsets, cells), TSR_CORRUPT);
  free(more.data);
  if (expected.size > 0) {
    bytes less = copy_bytes(expected.data, expected.size - 1);
    assert_int_equal(bench_decode(b, tile.data, tile.size, less, offsets, cells), TSR_CORRUPT);
    free(less.data);
  }
}

/* Decodes within budgets of all sizes: the result is right or TSR_BUDGET, and all memory is freed. */
static inline void bench_budgets(bench *b, bytes tile, bytes expected, const uint64_t *offsets, uint64_t cells) {
  uint64_t used = b->memory.used;
  int rc = TSR_BUDGET;
  for (uint64_t budget = 0; rc != TSR_OK; budget = budget < 4096 ? budget + 16 : budget + budget / 16) {
    b->memory.limit = used + budget;
    rc = bench_decode(b, tile.data, tile.size, expected, offsets, cells);
    if (rc != TSR_OK) assert_int_equal(rc, TSR_BUDGET);
    assert_true(budget < UINT64_C(1) << 26);
  }
  rc = TSR_BUDGET;
  for (uint64_t budget = 0; rc != TSR_OK; budget = budget < 4096 ? budget + 16 : budget + budget / 16) {
    b->memory.limit = used + budget;
    bytes again = {0};
    rc = bench_encode(b, expected, offsets, cells, &again);
    if (rc == TSR_OK) free(again.data);
    else assert_int_equal(rc, TSR_BUDGET);
    assert_true(budget < UINT64_C(1) << 26);
  }
  b->memory.limit = UINT64_MAX;
}

/* Decodes a tile as TileDB wrote it, with every kind of damage and within every budget; encodes its bytes and decodes them
 * again. */
static inline void check_tile(const char *pipeline, tsr_datatype datatype, uint32_t version, const uint8_t *key,
                              const char *tile_text, const char *expected_text, bool lax) {
  bench b;
  bench_open(&b, pipeline, datatype, version);
  b.shape.key = key;
  bytes tile = unhex(tile_text), expected = unhex(expected_text), again;
  uint64_t size = 0;
  assert_int_equal(tsr__pipeline_original_size(tile.data, tile.size, &size, &b.error), TSR_OK);
  assert_int_equal(size, expected.size);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, NULL, 0), TSR_OK);
  bench_damage(&b, tile, expected, NULL, 0, lax);
  bench_budgets(&b, tile, expected, NULL, 0);
  assert_int_equal(bench_encode(&b, expected, NULL, 0, &again), TSR_OK);
  assert_int_equal(bench_decode(&b, again.data, again.size, expected, NULL, 0), TSR_OK);
  free(again.data);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

#endif
