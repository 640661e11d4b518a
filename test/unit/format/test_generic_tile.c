/* test_generic_tile.c: headers, pipelines, encryption, limits; from memory and from files. */

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "store_memory.h"
#include "filter/filter.h"
#include "filter/pipeline.h"
#include "format/generic_tile.h"
#include "format_test.h"

/* A delete condition that TileDB 2.30 stored with gzip; it keeps cells with k < "b". */
#define GZIPPED                                                                                                        \
  "160000003700000000000000100000000000000004010000000000000000120000000000010001000000010500000001010000000100000000" \
  "00"                                                                                                                 \
  "0000100000001300000010000000000000000100000010000000130000007801636460646060c806112090040004c700d1"
/* Another, encrypted with the key below: gzip, then AES-256-GCM. */
#define ENCRYPTED                                                                                                      \
  "16000000890000000000000013000000000000000401000000000000000117000000000001000200000001050000000101000000"           \
  "0b00000000010000000000000013000000250000005000000001000000010000001000000010000000b2dc7556de4ecda2d86266d6099f8737" \
  "25036c8b198c055a8ee13dfc15000000150000009b16919f827ba7240cd418a376ea376b9c6e5b529f665b44fd30e15fdce75d9df1c62593a4" \
  "d4433248dca242f5ecb572f70229d2ca3d64cc72d81979f4bac52bf2"
static const uint8_t key[] = "0123456789abcdeF0123456789abcdeF";
static const uint8_t wrong_key[] = "1123456789abcdeF0123456789abcdeF";

/* A tile without filters. */
static bytes make_tile(uint32_t version, const void *content, uint32_t size) {
  bytes b = {0};
  put32(&b, version);
  put64(&b, 8 + 12 + size);
  put64(&b, size);
  put8(&b, TSR_CHAR);
  put64(&b, 1);
  put8(&b, 0);
  put32(&b, 8);
  put32(&b, 65536), put32(&b, 0);
  put64(&b, 1), put32(&b, size), put32(&b, size), put32(&b, 0);
  put(&b, content, size);
  return b;
}

static int decode_with(tsr_input in, const uint8_t *with, uint64_t most, tsr_memory *memory, tsr_error *error) {
  tsr_buffer out = {.memory = memory};
  int code = tsr__generic_tile_decode(in.data, in.size, with, most, &out, NULL, NULL, error);
  if (code < 0) assert_int_equal(out.size, 0);
  tsr__buffer_release(&out);
  return code;
}
static int decode(tsr_input in, tsr_arena *arena, tsr_error *error) {
  return decode_with(in, NULL, 1 << 20, arena->memory, error);
}
static int decode_encrypted(tsr_input in, tsr_arena *arena, tsr_error *error) {
  return decode_with(in, key, 1 << 20, arena->memory, error);
}
static int decode_wrong_key(tsr_input in, tsr_arena *arena, tsr_error *error) {
  return decode_with(in, wrong_key, 1 << 20, arena->memory, error);
}
static int decode_four(tsr_input in, tsr_arena *arena, tsr_error *error) {
  return decode_with(in, NULL, 4, arena->memory, error);
}

static void test_tile_without_filters_decodes(void **state) {
  bytes b = make_tile(3, "hello", 5);
  put_text(&b, "what follows");
  room r;
  room_open(&r, UINT64_MAX);
  tsr_buffer out = {.memory = &r.memory};
  tsr_generic_tile header;
  uint64_t consumed;
  assert_int_equal(tsr__buffer_append(&out, "> ", 2, NULL), TSR_OK);
  assert_int_equal(tsr__generic_tile_decode(b.data, b.size, NULL, 5, &out, &header, &consumed, NULL), TSR_OK);
  assert_int_equal(out.size, 7);
  assert_memory_equal(out.data, "> hello", 7);
  assert_int_equal(consumed, b.size - strlen("what follows"));
  assert_int_equal(header.version, 3);
  assert_int_equal(header.datatype, TSR_CHAR);
  assert_int_equal(header.size, 5);
  assert_int_equal(header.persisted, 25);
  assert_int_equal(header.cell_size, 1);
  assert_false(header.encrypted);
  tsr__buffer_release(&out);
  room_close(&r);
  drop(&b);
}

static void test_empty_tiles_of_all_versions_decode(void **state) {
  for (uint32_t version = 1; version <= TSR_FORMAT_READ_MAX; version++) {
    bytes b = make_tile(version, "", 0);
    assert_accepted(decode, &b);
    assert_accepted(decode_four, &b);
    drop(&b);
  }
  bytes b = make_tile(24, "", 0);
  assert_refused(decode, &b, TSR_UNSUPPORTED, "version 24");
  drop(&b);
  b = make_tile(0, "", 0);
  assert_refused(decode, &b, TSR_CORRUPT, "version 0");
  drop(&b);
}

static void test_tile_by_tiledb_decodes(void **state) {
  bytes b = {0};
  put_hex(&b, GZIPPED);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_buffer out = {.memory = &r.memory};
  assert_int_equal(tsr__generic_tile_decode(b.data, b.size, NULL, 100, &out, NULL, NULL, NULL), TSR_OK);
  assert_int_equal(out.size, 16);
  assert_memory_equal(out.data, "\1\0\1\0\0\0k\1\0\0\0\0\0\0\0b", 16);
  tsr__buffer_release(&out);
  room_close(&r);
  drop(&b);
}

static void test_encrypted_tile_needs_its_key(void **state) {
  bytes b = {0};
  put_hex(&b, ENCRYPTED);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_buffer out = {.memory = &r.memory};
  tsr_generic_tile header;
  assert_int_equal(tsr__generic_tile_decode(b.data, b.size, key, 100, &out, &header, NULL, NULL), TSR_OK);
  assert_int_equal(out.size, 19);
  assert_true(header.encrypted);
  tsr__buffer_release(&out);
  room_close(&r);
  assert_refused(decode, &b, TSR_AUTH, "a key is needed");
  assert_refused(decode_wrong_key, &b, TSR_AUTH, "");
  b.data[b.size - 1] ^= 1;
  assert_refused(decode_encrypted, &b, TSR_AUTH, "");
  drop(&b);
}

/* The header's fields, one by one. */
static void test_broken_headers_are_refused(void **state) {
  static const struct {
    uint64_t at, width, value;
    int code;
    const char *says;
  } cases[] = {
      {4, 8, 26, TSR_CORRUPT, "ends early"},
      {4, 8, UINT64_MAX, TSR_CORRUPT, "ends early"},
      {12, 8, 6, TSR_CORRUPT, "its chunks hold 5"},
      {12, 8, 4, TSR_CORRUPT, "its chunks hold 5"},
      {12, 8, (uint64_t)1 << 60, TSR_CORRUPT, "claims to hold"},
      {20, 1, 44, TSR_CORRUPT, "datatype 44"},
      {21, 8, 0, TSR_CORRUPT, "cell size 0"},
      {29, 1, 2, TSR_CORRUPT, "encryption type 2"},
      {29, 1, 1, TSR_AUTH, "a key is needed"},
      {30, 4, UINT32_MAX, TSR_CORRUPT, "ends early"},
      {38, 4, 1, TSR_CORRUPT, ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bytes b = make_tile(22, "hello", 5);
    memcpy(b.data + cases[i].at, &cases[i].value, cases[i].width);
    assert_refused(decode, &b, cases[i].code, cases[i].says);
    drop(&b);
  }
  bytes b = make_tile(22, "hello", 5);
  assert_refused(decode_four, &b, TSR_TOOBIG, "5 bytes");
  drop(&b);
}

static int decode_any_size(tsr_input in, tsr_arena *arena, tsr_error *error) {
  return decode_with(in, NULL, UINT64_MAX, arena->memory, error);
}

/* A small tile whose header and chunk both claim gigabytes is refused before memory is taken. */
static void test_false_sizes_are_refused_before_memory_is_taken(void **state) {
  static const uint32_t claims[] = {2u << 20, 256u << 20, 1u << 30, UINT32_MAX};
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    bytes b = make_tile(22, "x", 1);
    tsr_error error;
    tsr__store64(b.data + 12, claims[i]);
    tsr__store32(b.data + 34 + 8 + 8, claims[i]); /* behind the header, the pipeline and the number of chunks */
    assert_int_equal(decode_once(decode_any_size, b.data, b.size, 1 << 16, &error), TSR_CORRUPT);
    assert_non_null(strstr(error.message, "claims to hold"));
    drop(&b);
  }
}

/* A tile that zstd made of 64 MiB of zeros is refused, too, although its sizes are true. */
static void test_compression_bombs_are_refused(void **state) {
  enum { SIZE = 64 << 20 };
  tsr_filter zstd = {.type = TSR_FILTER_ZSTD, .level = 3, .reinterpret = TSR_ANY};
  tsr_pipeline pipeline = {.max_chunk_size = SIZE, .count = 1, .filters = &zstd};
  tsr_tile_shape shape = {TSR_CHAR, 1, 22, NULL};
  room r;
  room_open(&r, UINT64_MAX);
  tsr_buffer tile = {.memory = &r.memory}, stored = {.memory = &r.memory};
  uint8_t *zeros = calloc(1, SIZE);
  assert_non_null(zeros);
  assert_int_equal(tsr__pipeline_encode(&pipeline, &shape, zeros, SIZE, NULL, SIZE, &tile, NULL), TSR_OK);
  assert_true(tile.size < SIZE / 4000);
  assert_int_equal(tsr__pipeline_write(&pipeline, 22, &stored, NULL), TSR_OK);
  bytes b = {0};
  put32(&b, 22), put64(&b, tile.size), put64(&b, SIZE), put8(&b, TSR_CHAR), put64(&b, 1), put8(&b, 0);
  put32(&b, (uint32_t)stored.size), put(&b, stored.data, stored.size), put(&b, tile.data, tile.size);
  tsr_error error;
  assert_int_equal(decode_once(decode_any_size, b.data, b.size, 1 << 16, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "claims to hold"));
  free(zeros);
  drop(&b);
  tsr__buffer_release(&tile);
  tsr__buffer_release(&stored);
  room_close(&r);
}

static void test_damaged_tiles_are_refused(void **state) {
  const char *vectors[] = {GZIPPED, ENCRYPTED};
  for (int i = 0; i < 2; i++) {
    bytes b = {0};
    put_hex(&b, vectors[i]);
    assert_truncation_refused(i ? decode_encrypted : decode, &b);
    survive_flips(i ? decode_encrypted : decode, &b);
    assert_budgets(i ? decode_encrypted : decode, &b);
    drop(&b);
  }
}

/* ---- From files -------------------------------------------------------------------------------------------------- */

static tsr_file *open_bytes(tsr_store *store, const char *path, const bytes *b) {
  tsr_file *file;
  assert_int_equal(tsr__store_create_exclusive(store, path, &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, b->data, b->size, NULL), TSR_OK);
  tsr__store_close_file(file);
  assert_int_equal(tsr__store_open_file(store, path, &file, NULL), TSR_OK);
  return file;
}

static void test_tiles_are_read_from_files(void **state) {
  room r;
  room_open(&r, UINT64_MAX);
  tsr_store *store;
  assert_int_equal(tsr__store_memory_open(&r.memory, "test", &store, NULL), TSR_OK);
  uint8_t *large = malloc(5000);
  for (int i = 0; i < 5000; i++) large[i] = (uint8_t)(i * 7);
  bytes all = {0}, one = make_tile(22, "hello", 5), two = make_tile(22, large, 5000), three = make_tile(22, "", 0);
  put_text(&all, "xyz");
  put(&all, one.data, one.size), put(&all, two.data, two.size), put(&all, three.data, three.size);
  tsr_file *file = open_bytes(store, "tiles", &all);

  tsr_buffer out = {.memory = &r.memory};
  tsr_error error = {0};
  uint64_t next = 3;
  assert_int_equal(tsr__generic_tile_read(file, next, NULL, 5000, &out, &next, &error), TSR_OK);
  assert_int_equal(next, 3 + one.size);
  assert_int_equal(tsr__generic_tile_read(file, next, NULL, 5000, &out, &next, &error), TSR_OK);
  assert_int_equal(next, 3 + one.size + two.size);
  assert_int_equal(tsr__generic_tile_read(file, next, NULL, 5000, &out, &next, &error), TSR_OK);
  assert_int_equal(next, all.size);
  assert_int_equal(out.size, 5005);
  assert_memory_equal(out.data, "hello", 5);
  assert_memory_equal(out.data + 5, large, 5000);

  assert_int_equal(tsr__generic_tile_read(file, next, NULL, 5000, &out, &next, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "tiles"));
  assert_int_equal(tsr__generic_tile_read(file, UINT64_MAX, NULL, 5000, &out, NULL, &error), TSR_CORRUPT);
  assert_int_equal(tsr__generic_tile_read(file, 3 + one.size, NULL, 4999, &out, NULL, &error), TSR_TOOBIG);
  assert_int_equal(out.size, 5005);
  assert_int_equal(next, all.size);
  tsr__store_close_file(file);

  bytes cut = {all.data + 3 + one.size, two.size - 1, 0};
  file = open_bytes(store, "cut", &cut);
  assert_int_equal(tsr__generic_tile_read(file, 0, NULL, 5000, &out, NULL, &error), TSR_CORRUPT);
  tsr__store_close_file(file);

  tsr__buffer_release(&out);
  tsr__store_close(store);
  drop(&all), drop(&one), drop(&two), drop(&three);
  free(large);
  room_close(&r);
}

/* Tiles of each version, with and without a key, decode as they were encoded. */
static void test_encoded_tiles_decode(void **state) {
  static const uint64_t sizes[] = {0, 1, 65535, 65536, 65537, 300000};
  for (uint32_t version = 3; version <= 22; version += 19)
    for (int encrypted = 0; encrypted < 2; encrypted++)
      for (unsigned i = 0; i < 6; i++) {
        room r;
        room_open(&r, UINT64_MAX);
        uint8_t *content = malloc(sizes[i] + 1);
        for (uint64_t b = 0; b < sizes[i]; b++) content[b] = (uint8_t)(b * b >> 7);
        tsr_buffer out = {.memory = &r.memory}, back = {.memory = &r.memory};
        tsr_error error = {0};
        tsr_generic_tile header;
        uint64_t consumed;
        const uint8_t *used = encrypted ? key : NULL;
        assert_int_equal(tsr__buffer_append(&out, "xyz", 3, &error), TSR_OK);
        assert_int_equal(tsr__generic_tile_encode(content, sizes[i], version, used, &out, &error), TSR_OK);
        assert_int_equal(
            tsr__generic_tile_decode(out.data + 3, out.size - 3, used, sizes[i], &back, &header, &consumed, &error),
            TSR_OK);
        assert_int_equal(consumed, out.size - 3);
        assert_int_equal(header.version, version);
        assert_int_equal(header.encrypted, encrypted);
        assert_int_equal(header.datatype, TSR_CHAR);
        assert_int_equal(back.size, sizes[i]);
        if (sizes[i]) assert_memory_equal(back.data, content, sizes[i]);
        if (encrypted)
          assert_int_equal(
              tsr__generic_tile_decode(out.data + 3, out.size - 3, NULL, sizes[i], &back, NULL, NULL, &error),
              TSR_AUTH);
        tsr__buffer_release(&out);
        tsr__buffer_release(&back);
        free(content);
        room_close(&r);
      }
}

/* If memory is lacking, the buffer is unchanged. */
static void test_encoding_without_memory_leaves_the_buffer(void **state) {
  bool worked = false;
  for (uint64_t limit = 0; !worked; limit += 512) {
    room r;
    room_open(&r, limit);
    tsr_buffer out = {.memory = &r.memory};
    tsr_error error = {0};
    uint8_t content[5000] = {0};
    int code = tsr__generic_tile_encode(content, sizeof content, 22, NULL, &out, &error);
    worked = code == TSR_OK;
    if (!worked) {
      assert_int_equal(code, TSR_BUDGET);
      assert_int_equal(out.size, 0);
    }
    tsr__buffer_release(&out);
    room_close(&r);
    assert_true(limit < 1 << 24);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tile_without_filters_decodes),
      cmocka_unit_test(test_empty_tiles_of_all_versions_decode),
      cmocka_unit_test(test_tile_by_tiledb_decodes),
      cmocka_unit_test(test_encrypted_tile_needs_its_key),
      cmocka_unit_test(test_broken_headers_are_refused),
      cmocka_unit_test(test_damaged_tiles_are_refused),
      cmocka_unit_test(test_tiles_are_read_from_files),
      cmocka_unit_test(test_encoded_tiles_decode),
      cmocka_unit_test(test_encoding_without_memory_leaves_the_buffer),
      cmocka_unit_test(test_false_sizes_are_refused_before_memory_is_taken),
      cmocka_unit_test(test_compression_bombs_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
