/* test_filter_codecs.c: gzip, zstd, lz4, bzip2 and run lengths of cells: tiles written by TileDB 2.30, all levels,
 * sizes at the edges, hostile streams.
 */
#include <zstd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "filter/filter.h"
#include "filter/compressors.h"
#include "filter_test.h"

#define GZIP  "000001000100000001050000000109000000"
#define ZSTD  "000001000100000002050000000216000000"
#define LZ4   "0000010001000000030500000003ffffffff"
#define RLE   "0000010001000000040500000004ffffffff"
#define BZIP2 "000001000100000005050000000509000000"

static void test_gzip_matches_tiledb(void **state) {
  check_tile(
      GZIP, TSR_INT8, 22, NULL,
      "0100000000000000240000002c000000100000000000000001000000240000002c00000078da6b6cdc76a5b1a15ea3a1ee78637d7d"
      "43439d765d5d63435d9d406383645dfda25d8d0d8d8d004e9511a1",
      "8181b6d481807f28807ec7817f7f80807e2b7e7e81807e7e108180197e7fa2ba81808181", false);
}

static void test_zstd_matches_tiledb(void **state) {
  check_tile(
      ZSTD, TSR_INT8, 22, NULL,
      "0100000000000000230000002c000000100000000000000001000000230000002c00000028b52ffd20231901007e7e9d7f814b1181"
      "7fd62c7e7ff546558081647fe27f7f789e3b7e39ff804e9f801b2b",
      "7e7e9d7f814b11817fd62c7e7ff546558081647fe27f7f789e3b7e39ff804e9f801b2b", true);
}

static void test_lz4_matches_tiledb(void **state) {
  check_tile(
      LZ4, TSR_INT8, 22, NULL,
      "010000000000000021000000230000001000000000000000010000002100000023000000f0127f807e801a7e7f80f3817e7f81503b"
      "ebd92180f08180a280808081819d81807f7f",
      "7f807e801a7e7f80f3817e7f81503bebd92180f08180a280808081819d81807f7f", true);
}

static void test_bzip2_matches_tiledb(void **state) {
  check_tile(
      BZIP2, TSR_INT8, 22, NULL,
      "01000000000000001a0000004a0000001000000000000000010000001a0000004a000000425a6839314159265359f7cfd52a00000c"
      "8ff504004000044108000001e000400004000800000220003100000a3d469b49b29526060aedb450f55e86db1c9f8bb9229c28487b"
      "e7ea9500",
      "ed7e80a48181347e637e408081807ec37e5e7f7f5458907e807f", true);
}

static void test_rle_matches_tiledb(void **state) {
  check_tile(RLE, TSR_INT8, 22, NULL,
             "0100000000000000140000003300000010000000000000000100000014000000"
             "33000000ce00018000011b00018000017f00018100017e00011e0001810002c000018100018000017f00015d00018100017e0002"
             "7f0002",
             "ce801b807f817e1e8181c081807f5d817e7e7f7f", true);
  check_tile(
      RLE, TSR_INT32, 22, NULL,
      "0100000000000000a400000018000000100000000000000001000000a4000000180000000400000000060500000000070600000000"
      "0e07000000000e",
      "0400000004000000040000000400000004000000040000000500000005000000050000000500000005000000050000000500000006"
      "0000000600000006000000060000000600000006000000060000000600000006000000060000000600000006000000060000000600"
      "0000070000000700000007000000070000000700000007000000070000000700000007000000070000000700000007000000070000"
      "0007000000",
      true);
}

/* RLE before zstd: zstd compresses the metadata of RLE, too. */
static void test_rle_behind_zstd_matches_tiledb(void **state) {
  check_tile("0000010002000000040500000004ffffffff020500000002ffffffff", TSR_INT32, 22, NULL,
             "0100000000000000880000003a0000001800000001000000010000001000000019000000180000002100000028b52ffd2010"
             "8100000000000001000000880000001800000028b52ffd2018c1000000000000000901000000000802000000000803000000"
             "0009",
             "0000000000000000000000000000000000000000000000000000000000000000000000000100000001000000010000000100"
             "0000010000000100000001000000010000000200000002000000020000000200000002000000020000000200000002000000"
             "030000000300000003000000030000000300000003000000030000000300000003000000",
             true);
}

static void round_trip(const char *pipeline, tsr_datatype datatype, uint64_t cell, const uint8_t *data, uint64_t size) {
  bench b;
  bench_open(&b, pipeline, datatype, 22);
  b.shape.cell_size = cell;
  bytes in = copy_bytes(data, size), tile;
  int rc = bench_encode(&b, in, NULL, 0, &tile);
  if (rc != TSR_OK) fail_msg("%s", b.error.message);
  rc = bench_decode(&b, tile.data, tile.size, in, NULL, 0);
  if (rc != TSR_OK) fail_msg("%s", b.error.message);
  free(tile.data);
  free(in.data);
  bench_close(&b);
}

static void test_all_levels_round_trip(void **state) {
  enum { SIZE = 70001 };
  uint8_t *data = malloc(SIZE);
  uint64_t random = 7;
  for (unsigned i = 0; i < SIZE; i++) data[i] = i % 64 < 40 ? (uint8_t)(i / 64) : (uint8_t)next_random(&random);
  static const uint64_t sizes[] = {0, 1, 2, 255, 65535, 65536, 65537, SIZE};
  static const int32_t levels[] = {INT32_MIN, -8, -7, -1, 0, 1, 3, 5, 9, 10, 12, 13, 23, INT32_MAX};
  static const char types[] = {1, 2, 3, 4, 5};
  for (unsigned t = 0; t < sizeof types; t++)
    for (unsigned l = 0; l < sizeof levels / sizeof *levels; l++) {
      char pipeline[64];
      const uint8_t *le = (const uint8_t *)&levels[l];
      snprintf(pipeline, sizeof pipeline, "0000010001000000%02x05000000%02x%02x%02x%02x%02x", types[t], types[t], le[0],
               le[1], le[2], le[3]);
      for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        if (sizes[s] < 1000 || l % 3 == 0) round_trip(pipeline, TSR_UINT8, 1, data, sizes[s]);
    }
  free(data);
}

/* Returns the compressed size of all chunks with zstd's own choice of parameters. */
static uint64_t plain_size(const uint8_t *data, uint64_t size, uint64_t chunk, int level) {
  static uint8_t out[1 << 18];
  uint64_t sum = 0;
  for (uint64_t at = 0; at < size; at += chunk) {
    const size_t got = ZSTD_compress(out, sizeof out, data + at, TSR_MIN(chunk, size - at), level);
    assert_false(ZSTD_isError(got));
    sum += got;
  }
  return sum;
}

static uint64_t stored_size(const uint8_t *data, uint64_t size, uint64_t chunk, int level) {
  bench b;
  bytes in = copy_bytes(data, size), tile;
  bench_open(&b, ZSTD, TSR_UINT8, 22);
  b.pipeline.max_chunk_size = (uint32_t)chunk;
  b.pipeline.filters[0].level = level;
  assert_int_equal(bench_encode(&b, in, NULL, 0, &tile), TSR_OK);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, in, NULL, 0), TSR_OK);
  const uint64_t chunks = (size + chunk - 1) / chunk, stored = tile.size - 8 - chunks * (12 + 16);
  free(in.data);
  free(tile.data);
  bench_close(&b);
  return stored;
}

/* Smaller tables than zstd's own for small chunks, hardly less compression: labels, records that come again from afar,
 * bytes of a kind that stand together, and a walk. */
static void test_smaller_zstd_tables_compress_as_well(void **state) {
  enum { SIZE = 1 << 18, KINDS = 4 }; /* two of the largest chunks */
  uint8_t *data = malloc(SIZE);
  static uint8_t records[1200][40];
  uint64_t random = 11, value = 1 << 20;
  for (unsigned i = 0; i < sizeof records; i++) records[i / 40][i % 40] = (uint8_t)next_random(&random);
  for (unsigned kind = 0; kind < KINDS; kind++) {
    for (unsigned i = 0; i < SIZE; i += 8) {
      if (kind == 0) value = next_random(&random) % 5000 * 7919 | (next_random(&random) % 5000 * 7919) << 32;
      if (kind == 1) value = tsr__load64(&records[next_random(&random) % 1200 / (i / 4096 % 2 + 1)][i % 40]);
      if (kind == 2) value = i < SIZE / 2 ? 0x4041424344454647 + next_random(&random) % 3 : next_random(&random);
      if (kind == 3) value += next_random(&random) % 2001 - 1000;
      tsr__store64(data + i, value);
    }
    for (int level = -1; level <= 13; level += (int)sample())
      for (uint64_t chunk = 512; chunk <= 1 << 17; chunk *= 16) {
        const uint64_t plain = plain_size(data, SIZE, chunk, level), stored = stored_size(data, SIZE, chunk, level);
        if (stored > plain + plain / 100)
          fail_msg("kind %u, level %d, chunks of %u: %u bytes, zstd's own choice gives %u", kind, level,
                   (unsigned)chunk, (unsigned)stored, (unsigned)plain);
      }
  }
  free(data);
}

static void test_runs_of_cells_of_every_size(void **state) {
  enum { CELLS = 140000 };
  uint8_t *data = calloc(CELLS, 16);
  static const uint64_t cells[] = {1, 2, 3, 4, 5, 7, 8, 12, 16};
  /* chunks that are large enough for runs of more than 65,535 cells */
  static const char *const pipeline = "ffffffff01000000040500000004ffffffff";
  for (unsigned k = 0; k < sizeof cells / sizeof *cells; k++) {
    memset(data, 0, CELLS * 16);
    round_trip(pipeline, TSR_UINT8, cells[k], data, CELLS * cells[k]);
    data[65535 * cells[k]] = 1;
    data[131071 * cells[k]] = 1;
    round_trip(pipeline, TSR_UINT8, cells[k], data, CELLS * cells[k]);
    for (unsigned i = 0; i < 1000 * cells[k]; i++) data[i] = (uint8_t)(i * i >> 3);
    round_trip(pipeline, TSR_UINT8, cells[k], data, 1000 * cells[k]);
    for (unsigned n = 0; n < 5; n++) round_trip(pipeline, TSR_UINT8, cells[k], data, n * cells[k]);
  }
  free(data);
  /* cells of another size than the tile's */
  bench b;
  bench_open(&b, pipeline, TSR_INT32, 22);
  bytes in = copy_bytes("abcdef", 6), tile;
  assert_int_equal(bench_encode(&b, in, NULL, 0, &tile), TSR_CONSTRAINT);
  b.shape.cell_size = 0; /* a generic tile may say so */
  assert_int_equal(bench_encode(&b, in, NULL, 0, &tile), TSR_CONSTRAINT);
  free(in.data);
  bench_close(&b);
}

/* The exact bytes of a run that is too long for one record. */
static void test_a_run_too_long_for_one_record_is_split(void **state) {
  bench b;
  bench_open(&b, "ffffffff01000000040500000004ffffffff", TSR_INT16, 22);
  bytes in = {calloc(65537, 2), 65537 * 2}, tile,
        expected = unhex("010000000000000002000200080000001000000000000000010000000200020008000000"
                         "0000ffff"
                         "00000002");
  assert_int_equal(bench_encode(&b, in, NULL, 0, &tile), TSR_OK);
  assert_int_equal(tile.size, expected.size);
  assert_memory_equal(tile.data, expected.data, tile.size);
  free(in.data);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

static void expect_corrupt(const char *pipeline, const char *tile_text, uint64_t size, const char *message) {
  bench b;
  bench_open(&b, pipeline, TSR_INT8, 22);
  bytes tile = unhex(tile_text), expected = {calloc(size + 1, 1), size};
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, NULL, 0), TSR_CORRUPT);
  if (!strstr(b.error.message, message)) fail_msg("'%s' instead of '%s'", b.error.message, message);
  assert_true(b.memory.peak < 1 << 20); /* although the headers announce large sizes */
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

static void test_hostile_streams_are_refused(void **state) {
#define ONE "0100000000000000"
  /* parts that are not there; so many that their records wrap around */
  expect_corrupt(LZ4,
                 ONE "010000000100000008000000"
                     "0000000001000000"
                     "00",
                 1, "1 parts of metadata and data");
  expect_corrupt(LZ4,
                 ONE "010000000100000010000000"
                     "ffffffffffffffff"
                     "0100000001000000"
                     "00",
                 1, "8589934590 parts of metadata and data");
  /* compressed sizes that are not the data's */
  expect_corrupt(LZ4,
                 ONE "010000000100000010000000"
                     "0000000001000000"
                     "01000000ffffffff"
                     "00",
                 1, "expected 4294967295 compressed bytes, found 1");
  /* 4 GiB of data, of metadata */
  expect_corrupt(LZ4,
                 ONE "010000000100000010000000"
                     "0000000001000000"
                     "ffffffff01000000"
                     "00",
                 1, "decoded size 4294967295, but the chunk has 1 bytes");
  expect_corrupt(LZ4,
                 ONE "010000000100000018000000"
                     "0100000001000000"
                     "ffffffff01000000"
                     "0100000000000000"
                     "00",
                 1, "metadata size 4294967295 exceeds");
  /* 4 GiB between two filters */
  expect_corrupt("0000010002000000030500000003ffffffff030500000003ffffffff",
                 ONE "010000000100000010000000"
                     "0000000001000000"
                     "ffffffff01000000"
                     "00",
                 1, "decoded size 4294967295 exceeds the limit");
  /* metadata that no filter reads, within a compressor's data and behind it */
  expect_corrupt(RLE,
                 ONE "010000000600000018000000"
                     "0100000001000000"
                     "0100000003000000"
                     "0100000003000000"
                     "410001"
                     "420001",
                 1, "1 of 1 bytes of metadata belong to no filter");
  expect_corrupt(RLE,
                 ONE "010000000300000011000000"
                     "0000000001000000"
                     "0100000003000000"
                     "00"
                     "410001",
                 1, "1 of 17 bytes of metadata belong to no filter");
  /* a run too long, runs too short, half a run */
  expect_corrupt(RLE,
                 ONE "010000000300000010000000"
                     "0000000001000000"
                     "0100000003000000"
                     "410002",
                 1, "the run at byte 0 holds 2 cells");
  expect_corrupt(RLE,
                 ONE "010000000300000010000000"
                     "0000000001000000"
                     "0100000003000000"
                     "410000",
                 1, "the runs decode to 0 bytes");
  expect_corrupt(RLE,
                 ONE "010000000200000010000000"
                     "0000000001000000"
                     "0100000002000000"
                     "4100",
                 1, "are not runs");
  expect_corrupt(RLE,
                 ONE "010000000000000010000000"
                     "0000000001000000"
                     "0100000000000000",
                 1, "are not runs");
  /* bytes behind a stream */
  expect_corrupt(GZIP,
                 ONE "010000000a00000010000000"
                     "0000000001000000"
                     "010000000a000000"
                     "789c730400004200420042",
                 1, "chunk 0");
#undef ONE
}

/* ---- Patience ---------------------------------------------------------------------------------------------------- */

typedef struct patience {
  uint64_t asked, stop; /* the poll at which the host cancels; 0: it never does */
} patience;

static bool ask(void *argument) {
  patience *p = argument;
  return ++p->asked == p->stop;
}

/* Decodes the tile, and checks that the host was polled at least so often. Then the host cancels at the second poll. */
static void expect_asked(bench *b, bytes tile, bytes in, uint64_t least) {
  patience p = {0};
  b->memory.cancel.requested = ask;
  b->memory.cancel.argument = &p;
  if (bench_decode(b, tile.data, tile.size, in, NULL, 0) != TSR_OK) fail_msg("%s", b->error.message);
  if (p.asked < least) fail_msg("asked %llu times, not %llu", (unsigned long long)p.asked, (unsigned long long)least);
  p = (patience){0, 2};
  assert_int_equal(bench_decode(b, tile.data, tile.size, in, NULL, 0), TSR_INTERRUPT);
  assert_int_equal(p.asked, 2);
  assert_non_null(strstr(b->error.message, "interrupted"));
  b->memory.cancel.requested = NULL;
}

/* One chunk of as many parts as there are bytes in `in`, each a stream of its own. */
static bytes in_parts(bench *b, bytes in) {
  bytes tile = {calloc(in.size, 256), 28 + 8 * in.size};
  uint8_t *data = tile.data + tile.size;
  for (uint64_t i = 0; i < in.size; i++) {
    bytes one = {in.data + i, 1}, stored;
    assert_int_equal(bench_encode(b, one, NULL, 1, &stored), TSR_OK);
    uint32_t stream = tsr__load32(stored.data + 12);
    memcpy(data, stored.data + stored.size - stream, stream);
    data += stream;
    tsr__store32(tile.data + 28 + 8 * i, 1);
    tsr__store32(tile.data + 28 + 8 * i + 4, stream);
    free(stored.data);
  }
  tsr__store64(tile.data, 1);
  tsr__store32(tile.data + 8, (uint32_t)in.size);
  tsr__store32(tile.data + 12, (uint32_t)(data - tile.data - tile.size));
  tsr__store32(tile.data + 16, (uint32_t)(8 + 8 * in.size));
  tsr__store32(tile.data + 24, (uint32_t)in.size);
  tile.size = (uint64_t)(data - tile.data);
  return tile;
}

/* The host is polled within a tile: between small chunks and parts, which take time without much data, and within large
 * ones. */
static void test_the_host_is_polled_within_a_tile(void **state) {
  static const char *const pipelines[] = {GZIP, BZIP2, ZSTD, RLE};
  for (unsigned i = 0; i < 4; i++) {
    bench b;
    bytes tile, in = {calloc(9, 1 << 20), 300};
    bench_open(&b, pipelines[i], TSR_UINT8, 22);
    b.pipeline.max_chunk_size = 1;
    assert_int_equal(bench_encode(&b, in, NULL, in.size, &tile), TSR_OK);
    expect_asked(&b, tile, in, 4);
    free(tile.data);
    tile = in_parts(&b, in);
    expect_asked(&b, tile, in, 4);
    free(tile.data);
    in.size = 9 << 20;
    b.pipeline.max_chunk_size = 0;
    assert_int_equal(bench_encode(&b, in, NULL, in.size, &tile), TSR_OK);
    expect_asked(&b, tile, in, i == 1 ? 8 : 2);
    free(tile.data);
    b.pipeline.max_chunk_size = 1 << 20;
    assert_int_equal(bench_encode(&b, in, NULL, in.size, &tile), TSR_OK);
    expect_asked(&b, tile, in, 2);
    free(tile.data);
    free(in.data);
    bench_close(&b);
  }
}

/* One chunk, all of one part, of these streams one after the other. */
static bytes in_one_part(const bytes *streams, unsigned count, uint64_t size) {
  bytes tile = {calloc(1, 36), 36};
  for (unsigned i = 0; i < count; i++) {
    tile.data = realloc(tile.data, tile.size + streams[i].size);
    memcpy(tile.data + tile.size, streams[i].data, streams[i].size);
    tile.size += streams[i].size;
  }
  tsr__store64(tile.data, 1);
  tsr__store32(tile.data + 8, (uint32_t)size);
  tsr__store32(tile.data + 12, (uint32_t)(tile.size - 36));
  tsr__store32(tile.data + 16, 16);
  tsr__store32(tile.data + 24, 1);
  tsr__store32(tile.data + 28, (uint32_t)size);
  tsr__store32(tile.data + 32, (uint32_t)(tile.size - 36));
  return tile;
}

/* Decoding in steps gives the same as decoding at once: with too little memory, with several frames, and with
 * damage. */
static void test_large_zstd_frames_decode_in_steps(void **state) {
  enum { SIZE = 5 << 20 };
  bench b;
  bytes in = {malloc(2 * SIZE), SIZE}, tile, twice;
  for (uint64_t i = 0, x = 1; i < 2 * SIZE; i++) in.data[i] = (uint8_t)((x = x * 6364136223846793005u + 1) >> 60);
  bench_open(&b, ZSTD, TSR_UINT8, 22);
  b.pipeline.max_chunk_size = 0;
  assert_int_equal(bench_encode(&b, in, NULL, in.size, &tile), TSR_OK);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, in, NULL, 0), TSR_OK);
  b.memory.limit = UINT64_C(1) << 20; /* no room for a second window */
  assert_int_equal(bench_decode(&b, tile.data, tile.size, in, NULL, 0), TSR_OK);
  b.memory.limit = UINT64_MAX;
  expect_asked(&b, tile, in, 2);

  const bytes frame = {tile.data + 36, tile.size - 36}, empty = unhex("28b52ffd2000010000");
  const bytes skipped = unhex("502a4d180300000001020304");
  twice = in_one_part((bytes[]){frame, empty, {skipped.data, 11}}, 3, SIZE);
  assert_int_equal(bench_decode(&b, twice.data, twice.size, in, NULL, 0), TSR_OK);
  twice.data[twice.size - 5] ^= 1;
  assert_int_equal(bench_decode(&b, twice.data, twice.size, in, NULL, 0), TSR_CORRUPT);
  free(twice.data);
  memcpy(in.data + SIZE, in.data, SIZE);
  in.size = 2 * SIZE;
  twice = in_one_part((bytes[]){frame, frame}, 2, 2 * SIZE);
  assert_int_equal(bench_decode(&b, twice.data, twice.size, in, NULL, 0), TSR_OK);
  in.size = SIZE;
  for (unsigned i = 0; i < 40; i += sample()) { /* damage in the header and at some other positions */
    const uint64_t at = 36 + (i < 20 ? i : frame.size / 20 * (i - 19) - 1);
    tile.data[at] ^= 0x41;
    uint8_t *other = malloc(SIZE);
    (void)tsr__pipeline_decode(&b.pipeline, &b.shape, tile.data, tile.size, other, SIZE, &b.memory, &b.error);
    free(other);
    tile.data[at] ^= 0x41;
  }
  for (unsigned i = 1; i < 5; i++) {
    bytes less = in_one_part(&(bytes){frame.data, frame.size - i}, 1, SIZE);
    assert_int_equal(bench_decode(&b, less.data, less.size, in, NULL, 0), TSR_CORRUPT);
    free(less.data);
  }
  free(twice.data);
  free(tile.data);
  free(in.data);
  free(empty.data);
  free(skipped.data);
  bench_close(&b);
}

/* ---- Contexts that wait for the next tile ------------------------------------------------------------------------ */

enum { SPARE_CELLS = 300 };

typedef struct decoding {
  bench *b;
  tsr_memory *memory;
  const tsr_buffer *tile;
  const uint8_t *in;
} decoding;

static int decode_one(void *argument, uint64_t index, tsr_error *error) {
  const decoding *d = argument;
  uint8_t out[SPARE_CELLS];
  TSR_TRY(tsr__pipeline_decode(&d->b->pipeline, &d->b->shape, d->tile->data, d->tile->size, out, sizeof out, d->memory,
                               error));
  return memcmp(out, d->in, sizeof out) ? tsr__fail(error, TSR_ERROR, "tile %u is another one", (unsigned)index)
                                        : TSR_OK;
}

static unsigned count_contexts(_Atomic(void *) *slots) {
  unsigned count = 0;
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) count += slots[i] != NULL;
  return count;
}

static void test_idle_contexts_are_used_again(void **state) {
  enum { LARGE = 5 << 20 };
  bench b;
  tsr_context_pool contexts = {.decoders = {NULL}};
  bench_open(&b, ZSTD, TSR_UINT8, 22);
  b.memory.contexts = &contexts;
  bytes in = {calloc(LARGE, 1), LARGE};
  for (unsigned i = 0; i < SPARE_CELLS; i++) in.data[i] = (uint8_t)(i * i / 7);
  tsr_buffer tile = {.memory = &b.memory}, large = {.memory = &b.memory};
  for (unsigned i = 0; i < 2; i++) { /* a context that was used before gives the same bytes */
    assert_int_equal(
        tsr__pipeline_encode(&b.pipeline, &b.shape, in.data, SPARE_CELLS, NULL, SPARE_CELLS, &tile, &b.error), TSR_OK);
    assert_int_equal(count_contexts(contexts.encoders), 1);
  }
  assert_memory_equal(tile.data, tile.data + tile.size / 2, tile.size / 2);
  tile.size /= 2;

  /* A context in use is charged to its user, an idle one to the root. */
  tsr_memory small;
  tsr__memory_init(&small, &b.memory, 50000, "small");
  decoding d = {&b, &b.memory, &tile, in.data};
  uint64_t used = b.memory.used;
  assert_int_equal(decode_one(&d, 0, &b.error), TSR_OK);
  void *const first = contexts.decoders[0];
  const uint64_t size = b.memory.used - used;
  assert_non_null(first);
  assert_int_equal(size, ZSTD_sizeof_DCtx(first));
  assert_int_equal(decode_one(&d, 1, &b.error), TSR_OK);
  assert_ptr_equal(contexts.decoders[0], first);
  d.memory = &small;
  assert_int_equal(decode_one(&d, 2, &b.error), TSR_BUDGET);
  assert_int_equal(small.used, 0);
  small.limit = UINT64_MAX;
  assert_int_equal(decode_one(&d, 3, &b.error), TSR_OK);
  assert_true(small.peak > size);
  assert_int_equal(b.memory.used, used + size);

  tile.data[36] ^= 1; /* the magic number of its frame */
  assert_int_equal(decode_one(&d, 4, &b.error), TSR_CORRUPT);
  tile.data[36] ^= 1;
  assert_int_equal(decode_one(&d, 5, &b.error), TSR_OK);
  assert_int_equal(tsr__parallel_for(8, 2000, decode_one, &d, &b.error), TSR_OK);
  assert_in_range(count_contexts(contexts.decoders), 1, 8);

  /* A context that has become large is not kept. */
  tsr__context_pool_release(&b.memory);
  assert_int_equal(count_contexts(contexts.decoders) + count_contexts(contexts.encoders), 0);
  assert_true(b.memory.used < used);
  b.pipeline.max_chunk_size = 0;
  b.pipeline.filters[0].level = 12;
  assert_int_equal(tsr__pipeline_encode(&b.pipeline, &b.shape, in.data, LARGE, NULL, LARGE, &large, &b.error), TSR_OK);
  assert_int_equal(count_contexts(contexts.encoders), 0);
  used = b.memory.used;
  bytes out = {malloc(LARGE), LARGE};
  assert_int_equal(
      tsr__pipeline_decode(&b.pipeline, &b.shape, large.data, large.size, out.data, LARGE, &b.memory, &b.error),
      TSR_OK);
  assert_memory_equal(out.data, in.data, LARGE);
  assert_int_equal(count_contexts(contexts.decoders), 0);
  assert_int_equal(b.memory.used, used);
  free(out.data);
  free(in.data);
  tsr__buffer_release(&tile);
  tsr__buffer_release(&large);
  bench_close(&b);
}

/* Streams of zlib that inflate are kept, too; the root pays for them, whether they are in use or not. */
static void test_idle_inflaters_are_used_again(void **state) {
  bench b;
  tsr_context_pool contexts = {.inflaters = {NULL}};
  bench_open(&b, GZIP, TSR_UINT8, 22);
  b.memory.contexts = &contexts;
  uint8_t in[SPARE_CELLS];
  for (unsigned i = 0; i < SPARE_CELLS; i++) in[i] = (uint8_t)(i * i / 7);
  tsr_buffer tile = {.memory = &b.memory};
  assert_int_equal(tsr__pipeline_encode(&b.pipeline, &b.shape, in, SPARE_CELLS, NULL, SPARE_CELLS, &tile, &b.error),
                   TSR_OK);
  assert_int_equal(count_contexts(contexts.inflaters), 0);
  const uint64_t before = b.memory.used;
  decoding d = {&b, &b.memory, &tile, in};
  assert_int_equal(decode_one(&d, 0, &b.error), TSR_OK);
  void *const first = contexts.inflaters[0];
  const uint64_t used = b.memory.used;
  assert_true(first && used > before);
  assert_int_equal(decode_one(&d, 1, &b.error), TSR_OK);
  assert_ptr_equal(contexts.inflaters[0], first);
  tile.data[tile.size - 1] ^= 1; /* the stream's checksum */
  assert_int_equal(decode_one(&d, 2, &b.error), TSR_CORRUPT);
  tile.data[tile.size - 1] ^= 1;
  assert_int_equal(decode_one(&d, 3, &b.error), TSR_OK);
  assert_int_equal(b.memory.used, used);
  assert_int_equal(tsr__parallel_for(8, 2000, decode_one, &d, &b.error), TSR_OK);
  assert_in_range(count_contexts(contexts.inflaters), 1, 8);
  tsr__context_pool_release(&b.memory);
  assert_int_equal(count_contexts(contexts.inflaters), 0);
  assert_int_equal(b.memory.used, before);
  tsr__buffer_release(&tile);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idle_inflaters_are_used_again),
      cmocka_unit_test(test_gzip_matches_tiledb),
      cmocka_unit_test(test_zstd_matches_tiledb),
      cmocka_unit_test(test_lz4_matches_tiledb),
      cmocka_unit_test(test_bzip2_matches_tiledb),
      cmocka_unit_test(test_rle_matches_tiledb),
      cmocka_unit_test(test_rle_behind_zstd_matches_tiledb),
      cmocka_unit_test(test_all_levels_round_trip),
      cmocka_unit_test(test_runs_of_cells_of_every_size),
      cmocka_unit_test(test_a_run_too_long_for_one_record_is_split),
      cmocka_unit_test(test_smaller_zstd_tables_compress_as_well),
      cmocka_unit_test(test_hostile_streams_are_refused),
      cmocka_unit_test(test_the_host_is_polled_within_a_tile),
      cmocka_unit_test(test_large_zstd_frames_decode_in_steps),
      cmocka_unit_test(test_idle_contexts_are_used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
