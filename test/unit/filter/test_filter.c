/* test_filter.c: tiles, chunks and pipelines: what is stored, how a tile is cut, pipelines of every composition, the
 * stored form of pipelines and the rules of a schema.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "filter/filter.h"
#include "filter/pipeline.h"
#include "filter_test.h"

#define EMPTY "0000010000000000"

/* ---- Tiles ------------------------------------------------------------------------------------------------------ */

static int decode_hex(const char *pipeline, const char *tile_text, const char *expected_text, char *message) {
  bench b;
  bench_open(&b, pipeline, TSR_UINT8, 22);
  bytes tile = unhex(tile_text), expected = unhex(expected_text);
  int rc = bench_decode(&b, tile.data, tile.size, expected, NULL, 0);
  if (message) strcpy(message, b.error.message);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
  return rc;
}

static void test_tiles_of_several_chunks_are_decoded(void **state) {
  /* no chunk, one chunk, three chunks of which one is empty */
  assert_int_equal(decode_hex(EMPTY, "0000000000000000", "", NULL), TSR_OK);
  assert_int_equal(decode_hex(EMPTY, "0100000000000000000000000000000000000000", "", NULL), TSR_OK);
  assert_int_equal(decode_hex(EMPTY,
                              "0100000000000000"
                              "030000000300000000000000"
                              "616263",
                              "616263", NULL),
                   TSR_OK);
  assert_int_equal(decode_hex(EMPTY,
                              "0300000000000000"
                              "010000000100000000000000"
                              "61"
                              "000000000000000000000000"
                              "020000000200000000000000"
                              "6263",
                              "616263", NULL),
                   TSR_OK);
  check_tile(EMPTY, TSR_UINT8, 22, NULL,
             "0300000000000000"
             "010000000100000000000000"
             "61"
             "000000000000000000000000"
             "020000000200000000000000"
             "6263",
             "616263", true);
}

/* A chunk of original size 0 is not decoded: TileDB 2.12 left half a zlib stream in such chunks. */
static void test_an_empty_chunk_is_not_decoded(void **state) {
  const char *gzip = "0000010001000000010500000001ffffffff";
  assert_int_equal(decode_hex(gzip,
                              "0100000000000000"
                              "000000000600000010000000"
                              "0000000001000000"
                              "0000000006000000"
                              "789c03000000",
                              "", NULL),
                   TSR_OK);
  assert_int_equal(decode_hex(gzip,
                              "0100000000000000"
                              "000000000200000001000000"
                              "ffffff",
                              "", NULL),
                   TSR_OK);
}

static void test_wrong_sizes_are_damage(void **state) {
  static const struct {
    const char *tile, *message;
  } cases[] = {
      {"00", "a tile of 1 bytes names 0 chunks"},
      {"ffffffffffffffff", "a tile of 8 bytes names 18446744073709551615 chunks"},
      {"0200000000000000030000000300000000000000616263", "a tile of 23 bytes names 2 chunks"},
      {"0100000000000000040000000400000000000000"
       "61626364",
       "chunk 0: 4 bytes at byte 0 of a tile of 3"},
      {"0100000000000000ffffffff0300000000000000"
       "616263",
       "chunk 0: 4294967295 bytes at byte 0 of a tile of 3"},
      {"0100000000000000020000000200000000000000"
       "6162",
       "1 chunks hold 2 bytes, not 3"},
      {"0100000000000000030000000200000000000000"
       "6162",
       "chunk 0: decoded size 2, but the chunk has 3 bytes"},
      {"0100000000000000030000000300000000000000"
       "61626300",
       "and end at byte 23 of 24"},
      {"0100000000000000030000000300000001000000"
       "ff616263",
       "chunk 0: 1 of 1 bytes of metadata belong to no filter"},
      {"0100000000000000030000000300000004000000"
       "ff616263",
       "chunk 0: 4 bytes of metadata and 3 of data do not fit"},
      {"0100000000000000030000000400000000000000"
       "616263",
       "chunk 0: 0 bytes of metadata and 4 of data do not fit"},
      {"0000000000000000", "0 chunks hold 0 bytes, not 3"},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    char message[TSR_MESSAGE_SIZE];
    assert_int_equal(decode_hex(EMPTY, cases[i].tile, "616263", message), TSR_CORRUPT);
    if (!strstr(message, cases[i].message)) fail_msg("'%s' instead of '%s'", message, cases[i].message);
  }
}

static void test_the_original_size_is_the_sum_of_chunks(void **state) {
  tsr_error error;
  bytes tile = unhex("0200000000000000"
                     "ffffffff0100000002000000"
                     "000000"
                     "ffffffff0000000000000000");
  uint64_t size = 7;
  assert_int_equal(tsr__pipeline_original_size(tile.data, tile.size, &size, &error), TSR_OK);
  assert_int_equal(size, UINT64_C(8589934590));
  size = 7;
  for (uint64_t n = 0; n < tile.size; n++) {
    bytes shorter = copy_bytes(tile.data, n);
    assert_int_equal(tsr__pipeline_original_size(shorter.data, n, &size, &error), TSR_CORRUPT);
    free(shorter.data);
  }
  assert_int_equal(size, 7);
  free(tile.data);
}

/* A tile of 4 bytes whose zstd frame holds 64 MiB of zeros: it is refused before memory is allocated. */
static void test_decompression_bombs_are_stopped(void **state) {
  bench b;
  bench_open(&b, "ffffffff02000000020500000002ffffffff020500000002ffffffff", TSR_UINT8, 22);
  bytes zeros = {calloc(1 << 26, 1), 1 << 26}, tile, four = {calloc(4, 1), 4};
  assert_int_equal(bench_encode(&b, zeros, NULL, 0, &tile), TSR_OK);
  b.memory.peak = 0;
  tsr__store32(tile.data + 8, 4);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, four, NULL, 0), TSR_CORRUPT);
  assert_true(b.memory.peak < 1 << 20);
  free(zeros.data);
  free(tile.data);
  free(four.data);
  bench_close(&b);
}

/* ---- Cutting ---------------------------------------------------------------------------------------------------- */

/* Returns the original sizes of a tile's chunks, in their order. */
static void expect_chunks(bench *b, bytes in, const uint64_t *offsets, uint64_t cells, const uint32_t *sizes,
                          uint64_t count) {
  bytes tile;
  assert_int_equal(bench_encode(b, in, offsets, cells, &tile), TSR_OK);
  assert_int_equal(tsr__load64(tile.data), count);
  for (uint64_t i = 0, at = 8; i < count; i++) {
    assert_int_equal(tsr__load32(tile.data + at), sizes[i]);
    at += 12 + tsr__load32(tile.data + at + 4) + tsr__load32(tile.data + at + 8);
  }
  assert_int_equal(bench_decode(b, tile.data, tile.size, in, NULL, 0), TSR_OK);
  free(tile.data);
}

static void test_chunks_hold_whole_fixed_cells(void **state) {
  static const struct {
    uint32_t largest;
    uint64_t cell, size;
    uint32_t count, sizes[4];
  } cases[] = {
      {10, 1, 0, 1, {0}},        {10, 1, 10, 1, {10}},          {10, 1, 11, 2, {10, 1}}, {10, 4, 20, 3, {8, 8, 4}},
      {10, 12, 24, 2, {12, 12}}, {0, 4, 400, 1, {400}},         {0, 4, 0, 1, {0}},       {UINT32_MAX, 3, 99, 1, {99}},
      {1, 1, 3, 3, {1, 1, 1}},   {10, 10, 30, 3, {10, 10, 10}},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench b;
    bench_open(&b, EMPTY, TSR_UINT8, 22);
    b.pipeline.max_chunk_size = cases[i].largest;
    b.shape.cell_size = cases[i].cell;
    bytes in = {calloc(cases[i].size + 1, 1), cases[i].size};
    expect_chunks(&b, in, NULL, 0, cases[i].sizes, cases[i].count);
    free(in.data);
    bench_close(&b);
  }
}

static void test_chunks_end_between_variable_cells(void **state) {
  static const struct {
    uint32_t largest;
    uint32_t cells;
    uint64_t offsets[8];
    uint32_t count, sizes[4];
  } cases[] = {
      {100, 0, {0}, 1, {0}},
      {100, 1, {0, 0}, 1, {0}},
      {100, 3, {0, 40, 80, 100}, 1, {100}}, /* exactly one full chunk */
      {100, 3, {0, 50, 201, 210}, 2, {201, 9}}, /* half full: it takes the next cell of any size */
      {100, 3, {0, 51, 150, 160}, 2, {150, 10}}, /* more than half full: it takes a cell up to 150 bytes in all */
      /* More than half full, and past 150 bytes with the next cell: a new chunk. */
      {100, 3, {0, 51, 151, 202}, 3, {51, 100, 51}},
      {100, 2, {0, 51, 152}, 2, {51, 101}}, /* a long cell gets a chunk of its own */
      {100, 4, {0, 500, 500, 500, 501}, 2, {500, 1}}, /* empty cells */
      {100, 4, {0, 60, 60, 60, 60}, 1, {60}},
      {0, 3, {0, 51, 152, 999}, 1, {999}}, /* without a maximum: one chunk */
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench b;
    bench_open(&b, EMPTY, TSR_CHAR, 22);
    b.pipeline.max_chunk_size = cases[i].largest;
    bytes in = {calloc(1000, 1), cases[i].offsets[cases[i].cells]};
    expect_chunks(&b, in, cases[i].offsets, cases[i].cells, cases[i].sizes, cases[i].count);
    free(in.data);
    bench_close(&b);
  }
}

/* A failed encode leaves the buffer's old content. */
static void test_a_failed_encode_leaves_the_buffer(void **state) {
  bench b;
  bench_open(&b, "0000010001000000040500000004ffffffff", TSR_INT32, 22);
  tsr_buffer out = {.memory = &b.memory};
  assert_int_equal(tsr__buffer_append(&out, "abc", 3, &b.error), TSR_OK);
  assert_int_equal(tsr__pipeline_encode(&b.pipeline, &b.shape, (const uint8_t *)"12345", 5, NULL, 0, &out, &b.error),
                   TSR_CONSTRAINT);
  assert_int_equal(out.size, 3);
  assert_string_equal(b.error.message, "chunk 0: filter rle: 5 bytes are not whole cells of 4 bytes");
  tsr__buffer_release(&out);
  bench_close(&b);
}

/* ---- Pipelines of every composition ------------------------------------------------------------------------------ */

static const tsr_filter_type all_types[] = {
    TSR_FILTER_NONE,        TSR_FILTER_GZIP,        TSR_FILTER_ZSTD,         TSR_FILTER_LZ4,
    TSR_FILTER_RLE,         TSR_FILTER_BZIP2,       TSR_FILTER_DOUBLE_DELTA, TSR_FILTER_BIT_WIDTH_REDUCTION,
    TSR_FILTER_BITSHUFFLE,  TSR_FILTER_BYTESHUFFLE, TSR_FILTER_MD5,          TSR_FILTER_POSITIVE_DELTA,
    TSR_FILTER_SHA256,      TSR_FILTER_XOR,         TSR_FILTER_DELTA,        TSR_FILTER_DICTIONARY,
    TSR_FILTER_SCALE_FLOAT,
};

static void fill_cells(uint8_t *data, uint64_t size, tsr_datatype datatype, unsigned style, uint64_t *random) {
  for (uint64_t i = 0; i < size; i++) data[i] = style == 0 ? 0 : (uint8_t)next_random(random);
  uint64_t width = tsr_datatype_size(datatype), value = 3;
  if (datatype == TSR_FLOAT64) /* values that a scale of 1 keeps */
    for (uint64_t i = 0; i + 8 <= size; i += 8) {
      double d = (double)(next_random(random) % 30000) - 15000;
      memcpy(data + i, &d, 8);
    }
  else if (style == 1) /* ascending slowly */
    for (uint64_t i = 0; i + width <= size; i += width) {
      value += next_random(random) % 8 == 0;
      memcpy(data + i, &value, width);
    }
}

static void test_random_pipelines_round_trip(void **state) {
  static const tsr_datatype datatypes[] = {TSR_INT8,    TSR_UINT16, TSR_INT32,        TSR_UINT64, TSR_FLOAT32,
                                           TSR_FLOAT64, TSR_ASCII,  TSR_DATETIME_DAY, TSR_BLOB,   TSR_BOOL};
  static const uint64_t counts[] = {0, 1, 2, 3, 7, 64, 333, 1000, 5001};
  uint64_t random = 20240229, written = 0;
  for (unsigned round = 0; round < 6000; round++) {
    bench b;
    bench_open(&b, EMPTY, datatypes[next_random(&random) % 10], 22);
    tsr_filter filters[5];
    b.pipeline.filters = filters;
    b.pipeline.count = (uint32_t)(next_random(&random) % 6);
    b.pipeline.max_chunk_size = next_random(&random) % 3 == 0 ? 1000 : 65536;
    for (uint32_t i = 0; i < b.pipeline.count; i++)
      filters[i] = (tsr_filter){.type = all_types[next_random(&random) % 17],
                                .level = (int32_t)(next_random(&random) % 12) - 2,
                                .reinterpret = next_random(&random) % 4 == 0 ? TSR_UINT8 : TSR_ANY,
                                .window = (uint32_t[]){0, 1, 16, 100, 256, 1024}[next_random(&random) % 6],
                                .scale = 1,
                                .byte_width = (uint64_t[]){2, 4, 8}[next_random(&random) % 3]};
    bool allowed = true, lossy = false;
    for (uint32_t i = 0; i < b.pipeline.count; i++) {
      lossy = lossy || (filters[i].type == TSR_FILTER_SCALE_FLOAT && (i > 0 || b.shape.datatype != TSR_FLOAT64));
      allowed = allowed && tsr__filter_allowed(&b.pipeline, i, b.shape.datatype, 1, false, &b.error) == TSR_OK;
    }
    if (next_random(&random) % 4 == 0) b.shape.key = (const uint8_t *)"0123456789abcdeF0123456789abcdeF";
    uint64_t count = counts[next_random(&random) % 9];
    bytes in = {malloc(count * 8 + 1), count * b.shape.cell_size}, tile;
    fill_cells(in.data, in.size, b.shape.datatype, (unsigned)(next_random(&random) % 3), &random);
    int rc = bench_encode(&b, in, NULL, 0, &tile);
    if (rc == TSR_OK) {
      if (!lossy) {
        written++;
        rc = bench_decode(&b, tile.data, tile.size, in, NULL, 0);
        if (rc != TSR_OK) fail_msg("round %u: %s", round, b.error.message);
      }
      free(tile.data);
    } else {
      if (rc == TSR_BUDGET || rc == TSR_CORRUPT) fail_msg("round %u: %s", round, b.error.message);
      /* of the pipelines that the rules allow, writing fails only for a negative difference and for a float out of
       * range */
      if (allowed && !strstr(b.error.message, "positive_delta") && !strstr(b.error.message, "scale_float"))
        fail_msg("round %u: allowed, but %s", round, b.error.message);
    }
    free(in.data);
    bench_close(&b);
  }
  assert_true(written > 1500);
}

static void test_random_pipelines_of_strings_round_trip(void **state) {
  static const tsr_filter_type behind[] = {TSR_FILTER_NONE, TSR_FILTER_GZIP, TSR_FILTER_ZSTD,        TSR_FILTER_LZ4,
                                           TSR_FILTER_MD5,  TSR_FILTER_XOR,  TSR_FILTER_BYTESHUFFLE, TSR_FILTER_SHA256};
  uint64_t random = 99;
  for (unsigned round = 0; round < 1000; round++) {
    bench b;
    bench_open(&b, EMPTY, next_random(&random) % 2 ? TSR_ASCII : TSR_UTF8, 22);
    tsr_filter filters[4];
    b.pipeline.filters = filters;
    b.pipeline.count = 1 + (uint32_t)(next_random(&random) % 4);
    b.pipeline.max_chunk_size = next_random(&random) % 3 ? 100 : 0;
    for (uint32_t i = 0; i < b.pipeline.count; i++)
      filters[i] = (tsr_filter){.type = behind[next_random(&random) % 8], .level = -1, .reinterpret = TSR_ANY};
    if (round % 3 > 0) filters[0].type = round % 3 == 1 ? TSR_FILTER_RLE : TSR_FILTER_DICTIONARY;
    if (next_random(&random) % 4 == 0) b.shape.key = (const uint8_t *)"0123456789abcdeF0123456789abcdeF";
    uint64_t cells = next_random(&random) % 400, offsets[401] = {0};
    bytes in = {calloc(401 * 8, 1), 0}, tile;
    for (uint64_t i = 0; i < cells; i++) {
      uint64_t size = next_random(&random) % 8;
      for (uint64_t k = 0; k < size; k++) in.data[in.size + k] = (uint8_t)('a' + next_random(&random) % 2);
      offsets[i + 1] = in.size += size;
    }
    bool holds = tsr__pipeline_holds_offsets(&b.pipeline, b.shape.datatype, TSR_VARIABLE, 22);
    assert_int_equal(holds, round % 3 > 0);
    int rc = bench_encode(&b, in, offsets, cells, &tile);
    if (rc != TSR_OK) fail_msg("round %u: %s", round, b.error.message);
    rc = bench_decode(&b, tile.data, tile.size, in, holds ? offsets : NULL, cells);
    if (rc != TSR_OK) fail_msg("round %u: %s", round, b.error.message);
    free(tile.data);
    free(in.data);
    bench_close(&b);
  }
}

/* ---- Stored pipelines ------------------------------------------------------------------------------------------- */

static int read_stored(const char *text, uint32_t version, uint64_t cut, tsr_error *error) {
  tsr_memory memory;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr_arena arena;
  tsr__arena_init(&arena, &memory);
  bytes all = unhex(text), stored = copy_bytes(all.data, all.size - cut);
  tsr_input in = tsr__input(stored.data, stored.size);
  tsr_pipeline pipeline = {.count = 77};
  int rc = tsr__pipeline_read(&in, version, &arena, &pipeline, error);
  if (rc == TSR_OK) {
    assert_int_equal(tsr__input_left(&in), 0);
    tsr_buffer out = {.memory = &memory};
    assert_int_equal(tsr__pipeline_write(&pipeline, version, &out, error), TSR_OK);
    assert_int_equal(out.size, stored.size);
    assert_memory_equal(out.data, stored.data, out.size);
    tsr__buffer_release(&out);
  } else {
    assert_int_equal(pipeline.count, 77);
  }
  free(all.data);
  free(stored.data);
  tsr__arena_release(&arena);
  assert_int_equal(memory.used, 0);
  return rc;
}

static void test_stored_pipelines_are_read_and_written(void **state) {
  static const struct {
    uint32_t version;
    const char *text;
  } cases[] = {
      {1, EMPTY},
      {22, "00000100010000000000000000"}, /* the filter none within a list */
      {22, "000001000500000001050000000109000000020500000002ffffffff0305000000030100000004050000000400000000"
           "050500000005ffffffff"},
      {13, "00000100010000000e0500000007ffffffff"}, /* dictionary is compressor 7 */
      {18, "0000010002000000060500000006ffffffff130500000008ffffffff"}, /* delta is compressor 8 */
      {19, "0000010002000000060500000006ffffffff130600000008ffffffff11"},
      {20, "0000010002000000060600000006ffffffff00130600000008ffffffff0a"},
      {22, "000001000200000007040000000001000"
           "00a0400000000040000"},
      {22, "00000100010000000f18000000000000000000d03f000000000000f83f0100000000000000"},
      {22, "e803000006000000080000000009000000000b000000000c000000000d000000001000000000"},
  };
  tsr_error error;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(read_stored(cases[i].text, cases[i].version, 0, &error), TSR_OK);
    for (uint64_t cut = 1; cut <= strlen(cases[i].text) / 2; cut++)
      assert_int_equal(read_stored(cases[i].text, cases[i].version, cut, &error), TSR_CORRUPT);
  }
}

static void test_damaged_pipelines_are_refused(void **state) {
  static const struct {
    int code;
    uint32_t version;
    const char *text, *message;
  } cases[] = {
      {TSR_UNSUPPORTED, 22, "0000010001000000120000000000", "filter pipeline: filter 0 of 1: filter type 18 (webp)"},
      {TSR_UNSUPPORTED, 22, "00000100010000001100000000", "filter type 17"},
      {TSR_UNSUPPORTED, 22, "00000100010000001400000000", "filter type 20"},
      {TSR_UNSUPPORTED, 22, "0000010001000000ff00000000", "filter type 255"},
      {TSR_CORRUPT, 22, "0000010001000000020400000002ffffff", "4 bytes of options of zstd: version 22 has 5"},
      {TSR_CORRUPT, 19, "0000010001000000060600000006ffffffff11",
       "6 bytes of options of double_delta: version 19 has 5"},
      {TSR_CORRUPT, 20, "0000010001000000060500000006ffffffff11",
       "5 bytes of options of double_delta: version 20 has 6"},
      {TSR_CORRUPT, 22, "0000010001000000020500000001ffffffff", "compressor 1 in the options of zstd"},
      {TSR_CORRUPT, 22, "0000010001000000130600000008ffffffff2c", "datatype 44 in the options of delta"},
      {TSR_CORRUPT, 22, "00000100010000000f18000000000000000000d03f000000000000f83f0300000000000000",
       "scale_float to integers of 3 bytes"},
      {TSR_CORRUPT, 22, "00000100ffffffff0000000000", "4294967295 filters in 5 bytes"},
      {TSR_CORRUPT, 22, "00000100020000000c00000000", "2 filters in 5 bytes"},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_error error = {0};
    int rc = read_stored(cases[i].text, cases[i].version, 0, &error);
    if (rc != cases[i].code) fail_msg("case %u: %d: %s", i, rc, error.message);
    if (!strstr(error.message, cases[i].message)) fail_msg("'%s' instead of '%s'", error.message, cases[i].message);
  }
  /* more than a thousand filters, all of which are present */
  char *text = malloc(16 + 1001 * 10 + 1);
  tsr_error error = {0};
  strcpy(text, "00000100e9030000");
  for (unsigned i = 0; i < 1001; i++) strcpy(text + 16 + i * 10, "0c00000000");
  assert_int_equal(read_stored(text, 22, 0, &error), TSR_CORRUPT);
  free(text);
}

static void test_unsupported_pipelines_are_not_written(void **state) {
  bench b;
  bench_open(&b, "0000010001000000130600000008ffffffff01", TSR_INT32, 22);
  tsr_buffer out = {.memory = &b.memory};
  /* Delta with another datatype. */
  assert_int_equal(tsr__pipeline_write(&b.pipeline, 18, &out, &b.error), TSR_UNSUPPORTED);
  assert_int_equal(out.size, 0);
  b.pipeline.filters[0].type = TSR_FILTER_WEBP;
  assert_int_equal(tsr__pipeline_write(&b.pipeline, 22, &out, &b.error), TSR_UNSUPPORTED);
  assert_int_equal(tsr__pipeline_decode(&b.pipeline, &b.shape, out.data, 0, NULL, 0, &b.memory, &b.error),
                   TSR_UNSUPPORTED);
  tsr__buffer_release(&out);
  bench_close(&b);
}

static void test_every_filter_has_its_name(void **state) {
  assert_string_equal(tsr__filter_name(TSR_FILTER_NONE), "none");
  assert_string_equal(tsr__filter_name(TSR_FILTER_BIT_WIDTH_REDUCTION), "bit_width_reduction");
  assert_string_equal(tsr__filter_name(TSR_FILTER_WEBP), "webp");
  for (unsigned i = 0; i < sizeof all_types / sizeof *all_types; i++) {
    assert_non_null(tsr__filter_name(all_types[i]));
    for (unsigned k = 0; k < i; k++)
      assert_string_not_equal(tsr__filter_name(all_types[i]), tsr__filter_name(all_types[k]));
  }
  assert_null(tsr__filter_name((tsr_filter_type)17));
  assert_null(tsr__filter_name((tsr_filter_type)20));
  assert_null(tsr__filter_name((tsr_filter_type)255));
}

/* ---- Rules ------------------------------------------------------------------------------------------------------ */

#define F(name)                                                                                                        \
  { .type = TSR_FILTER_##name, .reinterpret = TSR_ANY, .byte_width = 4, .scale = 1 }
#define AS(name, as)                                                                                                   \
  { .type = TSR_FILTER_##name, .reinterpret = TSR_##as }

static void test_the_rules_of_schemas(void **state) {
  static const struct {
    tsr_filter filters[3];
    uint32_t count;
    tsr_datatype datatype;
    uint32_t values;
    int code; /* of the last filter */
  } cases[] = {
      {{F(ZSTD)}, 1, TSR_FLOAT64, 1, TSR_OK},
      {{F(DELTA)}, 1, TSR_FLOAT64, 1, TSR_CONSTRAINT},
      {{F(DOUBLE_DELTA)}, 1, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{AS(DOUBLE_DELTA, INT32)}, 1, TSR_FLOAT32, 1, TSR_OK},
      {{AS(DELTA, INT32)}, 1, TSR_FLOAT64, 1, TSR_OK},
      {{AS(DELTA, INT64)}, 1, TSR_INT32, 1, TSR_CONSTRAINT},
      {{AS(DELTA, FLOAT32)}, 1, TSR_INT32, 1, TSR_CONSTRAINT},
      {{AS(DELTA, CHAR)}, 1, TSR_INT32, 1, TSR_CONSTRAINT},
      {{AS(DELTA, GEOM_WKT)}, 1, TSR_INT32, 1, TSR_OK},
      {{F(DELTA), F(XOR)}, 2, TSR_INT32, 1, TSR_OK},
      {{F(RLE), F(RLE)}, 2, TSR_ASCII, TSR_VARIABLE, TSR_CONSTRAINT},
      {{F(XOR), F(RLE)}, 2, TSR_INT64, 1, TSR_OK},
      {{F(XOR), F(RLE)}, 2, TSR_INT64, 3, TSR_CONSTRAINT},
      {{F(ZSTD), F(XOR)}, 2, TSR_INT32, 1, TSR_CONSTRAINT},
      {{F(POSITIVE_DELTA), F(XOR)}, 2, TSR_INT32, 1, TSR_OK},
      {{F(POSITIVE_DELTA), F(DOUBLE_DELTA)}, 2, TSR_INT32, 1, TSR_CONSTRAINT},
      {{F(SCALE_FLOAT), F(RLE)}, 2, TSR_FLOAT64, 1, TSR_CONSTRAINT},
      {{F(DELTA)}, 1, TSR_UTF8, TSR_VARIABLE, TSR_OK},
      {{F(POSITIVE_DELTA)}, 1, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{F(POSITIVE_DELTA)}, 1, TSR_UTF8, TSR_VARIABLE, TSR_CONSTRAINT},
      {{F(BIT_WIDTH_REDUCTION)}, 1, TSR_CHAR, 1, TSR_CONSTRAINT},
      {{F(BIT_WIDTH_REDUCTION)}, 1, TSR_ASCII, 1, TSR_CONSTRAINT},
      {{F(BIT_WIDTH_REDUCTION)}, 1, TSR_FLOAT64, 1, TSR_CONSTRAINT},
      {{F(BIT_WIDTH_REDUCTION)}, 1, TSR_DATETIME_DAY, 1, TSR_OK},
      {{F(BIT_WIDTH_REDUCTION)}, 1, TSR_BLOB, TSR_VARIABLE, TSR_OK},
      {{F(SCALE_FLOAT), F(BIT_WIDTH_REDUCTION)}, 2, TSR_FLOAT64, 1, TSR_OK},
      {{F(XOR), F(DELTA)}, 2, TSR_FLOAT64, 1, TSR_OK},
      {{F(SCALE_FLOAT)}, 1, TSR_INT16, 1, TSR_CONSTRAINT},
      {{F(SCALE_FLOAT)}, 1, TSR_INT32, 1, TSR_OK},
      {{F(BYTESHUFFLE), F(SCALE_FLOAT)}, 2, TSR_FLOAT32, 1, TSR_OK},
      {{F(MD5), F(SCALE_FLOAT)}, 2, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{F(ZSTD), F(SCALE_FLOAT)}, 2, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{{.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 3, .scale = 1}}, 1, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{{.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 4, .scale = 0}}, 1, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{{.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 4, .scale = 1e-60}}, 1, TSR_FLOAT32, 1, TSR_CONSTRAINT},
      {{{.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 4, .scale = 1e-60}}, 1, TSR_FLOAT64, 1, TSR_OK},
      {{{.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 4, .scale = INFINITY}}, 1, TSR_FLOAT64, 1, TSR_CONSTRAINT},
      {{{.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 4, .scale = 1, .offset = NAN}},
       1,
       TSR_FLOAT64,
       1,
       TSR_CONSTRAINT},
      {{F(RLE)}, 1, TSR_INT32, 3, TSR_OK},
      {{F(RLE), F(ZSTD)}, 2, TSR_ASCII, TSR_VARIABLE, TSR_OK},
      {{F(ZSTD), F(RLE)}, 2, TSR_ASCII, TSR_VARIABLE, TSR_CONSTRAINT},
      {{F(RLE), F(DICTIONARY)}, 2, TSR_UTF8, TSR_VARIABLE, TSR_CONSTRAINT},
      {{F(ZSTD), F(RLE)}, 2, TSR_CHAR, TSR_VARIABLE, TSR_OK},
      {{F(DICTIONARY)}, 1, TSR_UTF8, TSR_VARIABLE, TSR_OK},
      {{F(DICTIONARY)}, 1, TSR_ASCII, 4, TSR_CONSTRAINT},
      {{F(DICTIONARY)}, 1, TSR_INT32, 1, TSR_CONSTRAINT},
      {{F(BIT_WIDTH_REDUCTION), F(DELTA)}, 2, TSR_INT32, 1, TSR_CONSTRAINT}, /* TileDB cannot read it back */
      {{F(BIT_WIDTH_REDUCTION), F(POSITIVE_DELTA)}, 2, TSR_INT32, 1, TSR_CONSTRAINT},
      {{F(BIT_WIDTH_REDUCTION), F(DELTA)}, 2, TSR_INT8, 1, TSR_OK},
      {{F(DOUBLE_DELTA), F(BIT_WIDTH_REDUCTION), F(ZSTD)}, 3, TSR_INT64, 1, TSR_OK},
      {{F(POSITIVE_DELTA), F(BIT_WIDTH_REDUCTION)}, 2, TSR_UINT64, 1, TSR_OK},
      {{F(BYTESHUFFLE), F(RLE)}, 2, TSR_INT64, 1, TSR_OK},
      {{F(BYTESHUFFLE), F(RLE)}, 2, TSR_INT32, 3, TSR_CONSTRAINT},
      {{F(ZSTD), F(RLE)}, 2, TSR_INT64, 1, TSR_CONSTRAINT},
      {{F(MD5), F(ZSTD), F(SHA256)}, 3, TSR_INT64, 1, TSR_OK},
      {{F(AES_256_GCM)}, 1, TSR_INT64, 1, TSR_UNSUPPORTED},
      {{F(WEBP)}, 1, TSR_UINT8, 1, TSR_UNSUPPORTED},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_filter filters[3];
    memcpy(filters, cases[i].filters, sizeof filters);
    tsr_pipeline pipeline = {.max_chunk_size = 65536, .count = cases[i].count, .filters = filters};
    tsr_error error = {0};
    int rc = tsr__filter_allowed(&pipeline, cases[i].count - 1, cases[i].datatype, cases[i].values, false, &error);
    if (rc != cases[i].code) fail_msg("case %u: %d %s", i, rc, error.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_of_several_chunks_are_decoded),
      cmocka_unit_test(test_an_empty_chunk_is_not_decoded),
      cmocka_unit_test(test_wrong_sizes_are_damage),
      cmocka_unit_test(test_the_original_size_is_the_sum_of_chunks),
      cmocka_unit_test(test_decompression_bombs_are_stopped),
      cmocka_unit_test(test_chunks_hold_whole_fixed_cells),
      cmocka_unit_test(test_chunks_end_between_variable_cells),
      cmocka_unit_test(test_a_failed_encode_leaves_the_buffer),
      cmocka_unit_test(test_random_pipelines_round_trip),
      cmocka_unit_test(test_random_pipelines_of_strings_round_trip),
      cmocka_unit_test(test_stored_pipelines_are_read_and_written),
      cmocka_unit_test(test_damaged_pipelines_are_refused),
      cmocka_unit_test(test_unsupported_pipelines_are_not_written),
      cmocka_unit_test(test_every_filter_has_its_name),
      cmocka_unit_test(test_the_rules_of_schemas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
