/* test_filter_strings.c: strings whose offsets are within the data: RLE and dictionary. Tiles written by
 * TileDB 2.8 (format 12) and 2.30 (format 22).
 */

#include <stdlib.h>
#include <string.h>

#include "filter/filter.h"
#include "filter_test.h"

#define RLE        "0000010001000000040500000004ffffffff"
#define DICTIONARY "00000100010000000e0500000007ffffffff"

/* Decodes the tile, also with all kinds of damage, and checks that the encoder gives exactly TileDB's bytes. */
static void check_strings(const char *pipeline, uint32_t version, const char *tile_text, const char *text,
                          const uint64_t *offsets, uint64_t cells) {
  bench b;
  bench_open(&b, pipeline, TSR_ASCII, version);
  assert_true(tsr__pipeline_holds_offsets(&b.pipeline, TSR_ASCII, TSR_VARIABLE, version));
  bytes tile = unhex(tile_text), expected = copy_bytes(text, strlen(text)), again;
  assert_int_equal(offsets[cells], expected.size);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, offsets, cells), TSR_OK);
  bench_damage(&b, tile, expected, offsets, cells, true);
  bench_budgets(&b, tile, expected, offsets, cells);
  assert_int_equal(bench_encode(&b, expected, offsets, cells, &again), TSR_OK);
  assert_int_equal(again.size, tile.size);
  assert_memory_equal(again.data, tile.data, tile.size);
  /* a wrong number of cells */
  uint64_t *more = calloc(cells + 2, sizeof *more);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, more, cells + 1), TSR_CORRUPT);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, more, cells - 1), TSR_CORRUPT);
  /* with offsets in a tile of their own the text is the same */
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, NULL, 0), TSR_OK);
  free(more);
  free(again.data);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

static void test_rle_of_strings_matches_tiledb(void **state) {
  check_strings(RLE, 12,
                "0100000000000000250000000f000000160000000000000001000000250000000f000000500000000101010463687231080463"
                "687232010178",
                "chr1chr2chr2chr2chr2chr2chr2chr2chr2x", (uint64_t[]){0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 37}, 10);
  check_strings(RLE, 22,
                "01000000000000000c000000140000001600000000000000010000000c00000014000000280000000101010231580200010863"
                "6261305863615f01023059",
                "1Xcba0Xca_0Y", (uint64_t[]){0, 2, 2, 2, 10, 12}, 5);
  check_strings(
      RLE, 22,
      "0100000000000000030000000b000000160000000000000001000000030000000b0000002800000001010100010231630101620"
      "200",
      "1cb", (uint64_t[]){0, 0, 2, 3, 3, 3}, 5);
}

static void test_dictionary_matches_tiledb(void **state) {
  check_strings(DICTIONARY, 22,
                "01000000000000001e0000000a0000004200000000000000010000001e0000000a000000500000000101280000000001200820"
                "205831585a5a620220300520595f63310220610820625a30313061610130023059013100010203040506070809",
                "   X1XZZb 0 Y_c1 a bZ010aa00Y1", (uint64_t[]){0, 0, 1, 9, 11, 16, 18, 26, 27, 29, 30}, 10);
}

/* zstd compresses the metadata of the dictionary, too. */
static void test_dictionary_behind_zstd_matches_tiledb(void **state) {
  bench b;
  bench_open(&b, "00000100020000000e0500000007ffffffff020500000002ffffffff", TSR_ASCII, 22);
  bytes tile =
      unhex("0100000000000000860000007c0000001800000001000000010000004800000051000000220000002b00000028b52ffd2048"
            "410200000000000100000086000000220000001001000001012e00000005616c70686104626574610567616d6d610564656c"
            "74610474696c650463656c6c0178027a7a07666f6f5f62617228b52ffd202211010000000000010101010202020203030303"
            "040404040505050506060606070707070808");
  const char *text =
      "alphaalphaalphaalphabetabetabetabetagammagammagammagammadeltadeltadeltadeltatiletiletiletilecellcellc"
      "ellcellxxxxzzzzzzzzfoo_barfoo_bar";
  static const uint8_t sizes[] = {5, 4, 5, 5, 4, 4, 1, 2, 7};
  uint64_t offsets[35] = {0};
  for (unsigned i = 0; i < 34; i++) offsets[i + 1] = offsets[i] + sizes[i / 4];
  bytes expected = copy_bytes(text, strlen(text)), again;
  assert_int_equal(offsets[34], expected.size);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, offsets, 34), TSR_OK);
  bench_damage(&b, tile, expected, offsets, 34, true);
  assert_int_equal(bench_encode(&b, expected, offsets, 34, &again), TSR_OK);
  assert_int_equal(bench_decode(&b, again.data, again.size, expected, offsets, 34), TSR_OK);
  free(again.data);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

static void round_trip(const char *pipeline, const uint8_t *text, const uint64_t *offsets, uint64_t cells) {
  bench b;
  bench_open(&b, pipeline, TSR_UTF8, 22);
  bytes in = copy_bytes(text, offsets[cells]), tile;
  assert_int_equal(bench_encode(&b, in, offsets, cells, &tile), TSR_OK);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, in, offsets, cells), TSR_OK);
  free(tile.data);
  free(in.data);
  bench_close(&b);
}

static const char *const pipelines[] = {RLE, DICTIONARY, "0000010002000000040500000004ffffffff020500000002ffffffff",
                                        "00000100030000000e0500000007ffffffff0c00000000010500000001ffffffff"};

/* Widths of 1, 2 and 4 bytes: of runs, of sizes, of the dictionary's numbers. */
static void test_numbers_of_every_width(void **state) {
  static const uint64_t counts[] = {0, 1, 2, 255, 256, 257, 65535, 65536, 70000};
  uint8_t *text = malloc(70000 * 5);
  uint64_t *offsets = malloc(70001 * sizeof *offsets);
  for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++) {
    for (unsigned distinct = 0; distinct < 3; distinct++) { /* one long run, all distinct, all empty */
      uint64_t at = 0;
      for (uint64_t i = 0; i < counts[k]; i++) {
        offsets[i] = at;
        if (distinct < 2) at += (uint64_t)sprintf((char *)text + at, "%u", distinct ? (unsigned)i % 100000 : 7u);
      }
      offsets[counts[k]] = at;
      for (unsigned p = 0; p < 4; p++) round_trip(pipelines[p], text, offsets, counts[k]);
    }
  }
  /* one string of 255, 256, 65,535, 65,536 bytes, beside a short one */
  memset(text, 'x', 65536);
  for (unsigned k = 3; k < 8; k++) {
    uint64_t two[] = {0, counts[k] - 1, counts[k]};
    for (unsigned p = 0; p < 4; p++) round_trip(pipelines[p], text, two, 2);
  }
  free(text);
  free(offsets);
}

static void expect_corrupt(const char *pipeline, const char *tile_text, uint64_t size, uint64_t cells,
                           const char *message) {
  bench b;
  bench_open(&b, pipeline, TSR_ASCII, 22);
  bytes tile = unhex(tile_text), expected = {calloc(size + 1, 1), size};
  uint64_t *offsets = calloc(cells + 1, sizeof *offsets);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, offsets, cells), TSR_CORRUPT);
  if (!strstr(b.error.message, message)) fail_msg("'%s' instead of '%s'", b.error.message, message);
  free(offsets);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

static void test_hostile_tiles_are_refused(void **state) {
#define CHUNK "0100000000000000"
  /* a run of 2^64 - 1 empty strings, then of 255 with 2 cells */
  expect_corrupt(RLE,
                 CHUNK "010000000b00000016000000"
                       "0000000001000000010000000b000000100000000801"
                       "ffffffffffffffff00"
                       "0161",
                 1, 2, "a run of 18446744073709551615 strings at cell 0 of 2");
  /* size times run wraps around */
  expect_corrupt(RLE,
                 CHUNK "010000001100000016000000"
                       "00000000010000000100000011000000100000000808"
                       "8000000000000001"
                       "0000000000000001"
                       "61",
                 1, 2, "a run of 9223372036854775809 strings of 1 bytes");
  /* a string that is longer than the data */
  expect_corrupt(RLE,
                 CHUNK "010000000900000016000000"
                       "00000000010000000100000009000000080000000108"
                       "01"
                       "ffffffffffffffff",
                 1, 1, "a run of strings ends early");
  /* invalid widths */
  expect_corrupt(RLE,
                 CHUNK "010000000300000016000000"
                       "00000000010000000100000003000000080000000301"
                       "010161",
                 1, 1, "lengths of 3 and 1 bytes");
  /* an entry that is not there; entries that end outside; text past the tile */
  expect_corrupt(DICTIONARY,
                 CHUNK "01000000010000001c000000"
                       "000000000100000001000000010000000800000001010200000001"
                       "61"
                       "01",
                 1, 1, "cell 0 is entry 1: the dictionary has 1");
  expect_corrupt(DICTIONARY,
                 CHUNK "01000000010000001c000000"
                       "000000000100000001000000010000000800000001010200000002"
                       "61"
                       "00",
                 1, 1, "entry 0 of the dictionary ends behind its 2 bytes");
  expect_corrupt(DICTIONARY,
                 CHUNK "01000000020000001c000000"
                       "0000000001000000010000000200000010000000010102000000"
                       "0161"
                       "0000",
                 1, 2, "cell 1 is entry 0");
  /* two chunks */
  expect_corrupt(RLE,
                 "0200000000000000"
                 "000000000000000000000000"
                 "000000000000000000000000",
                 0, 0, "2 chunks: strings with their offsets have one");
#undef CHUNK
}

/* All strings empty: nothing to decode, but there are offsets. The tile of a field whose offsets are elsewhere has no
 * chunk at all. */
static void test_empty_strings_have_offsets(void **state) {
  bench b;
  bench_open(&b, RLE, TSR_ASCII, 22);
  bytes nothing = {malloc(1), 0};
  uint64_t zeros[4] = {0};
  bytes tile = unhex("0100000000000000000000000200000016000000000000000100000000000000020000001800000001010300");
  assert_int_equal(bench_decode(&b, tile.data, tile.size, nothing, zeros, 3), TSR_OK);
  assert_int_equal(bench_decode(&b, (const uint8_t *)"\0\0\0\0\0\0\0", 8, nothing, zeros, 0), TSR_OK);
  assert_int_equal(bench_decode(&b, (const uint8_t *)"\0\0\0\0\0\0\0", 8, nothing, NULL, 0), TSR_OK);
  free(tile.data);
  free(nothing.data);
  bench_close(&b);
}

static void test_which_pipelines_hold_offsets(void **state) {
  static const struct {
    const char *pipeline;
    tsr_datatype datatype;
    uint32_t values, version;
    bool holds;
  } cases[] = {
      {RLE, TSR_ASCII, TSR_VARIABLE, 11, false},
      {RLE, TSR_ASCII, TSR_VARIABLE, 12, true},
      {RLE, TSR_UTF8, TSR_VARIABLE, 16, false},
      {RLE, TSR_UTF8, TSR_VARIABLE, 17, true},
      {DICTIONARY, TSR_ASCII, TSR_VARIABLE, 12, false},
      {DICTIONARY, TSR_ASCII, TSR_VARIABLE, 13, true},
      {DICTIONARY, TSR_UTF8, TSR_VARIABLE, 16, false},
      {DICTIONARY, TSR_UTF8, TSR_VARIABLE, 17, true},
      {RLE, TSR_ASCII, 1, 22, false},
      {RLE, TSR_CHAR, TSR_VARIABLE, 22, false},
      {RLE, TSR_INT32, TSR_VARIABLE, 22, false},
      {"0000010000000000", TSR_ASCII, TSR_VARIABLE, 22, false},
      {"0000010001000000020500000002ffffffff", TSR_ASCII, TSR_VARIABLE, 22, false},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench b;
    bench_open(&b, cases[i].pipeline, TSR_ASCII, 22);
    assert_int_equal(tsr__pipeline_holds_offsets(&b.pipeline, cases[i].datatype, cases[i].values, cases[i].version),
                     cases[i].holds);
    bench_close(&b);
  }
}

/* Dictionaries of other types cannot be written. */
static void test_a_dictionary_of_other_types_is_refused(void **state) {
  bench b;
  bench_open(&b, DICTIONARY, TSR_INT32, 22);
  bytes in = copy_bytes("abcd", 4), tile;
  assert_int_equal(bench_encode(&b, in, NULL, 0, &tile), TSR_CONSTRAINT);
  free(in.data);
  bench_close(&b);
}

static bool ask(void *argument) {
  ++*(uint64_t *)argument;
  return false;
}

/* All strings of a tile are one chunk, so the host is polled within it. */
static void test_the_host_is_polled_within_a_tile(void **state) {
  static const char *const both[] = {RLE, DICTIONARY};
  enum { CELLS = 600000 };
  for (unsigned i = 0; i < 2; i++) {
    bench b;
    uint64_t asked = 0, *offsets = malloc((CELLS + 1) * sizeof *offsets);
    bytes tile, in = {malloc(CELLS), CELLS};
    for (uint64_t j = 0; j <= CELLS; j++) offsets[j] = j;
    for (uint64_t j = 0; j < CELLS; j++) in.data[j] = "ab"[j / 3 % 2];
    bench_open(&b, both[i], TSR_ASCII, 22);
    b.memory.cancel.requested = ask;
    b.memory.cancel.argument = &asked;
    assert_int_equal(bench_encode(&b, in, offsets, CELLS, &tile), TSR_OK);
    asked = 0;
    assert_int_equal(bench_decode(&b, tile.data, tile.size, in, offsets, CELLS), TSR_OK);
    if (asked < (i ? 9 : 1)) fail_msg("%s: asked %llu times", i ? "dictionary" : "runs", (unsigned long long)asked);
    free(tile.data);
    free(in.data);
    free(offsets);
    bench_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_host_is_polled_within_a_tile),
      cmocka_unit_test(test_rle_of_strings_matches_tiledb),
      cmocka_unit_test(test_dictionary_matches_tiledb),
      cmocka_unit_test(test_dictionary_behind_zstd_matches_tiledb),
      cmocka_unit_test(test_numbers_of_every_width),
      cmocka_unit_test(test_hostile_tiles_are_refused),
      cmocka_unit_test(test_empty_strings_have_offsets),
      cmocka_unit_test(test_which_pipelines_hold_offsets),
      cmocka_unit_test(test_a_dictionary_of_other_types_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
