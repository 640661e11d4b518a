/* Tests of loading tiles: from cache and store, neighbours with one read, parts of tiles, budgets, damage. */

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "environment/cache.h"
#include "read/reader.h"
#include "made_array.h"

#define TILES 6

/* One fragment of six tiles of eight cells. */
static tsr_fragment *open_line(made_array *m) {
  made_cell cells[8 * TILES];
  for (int i = 0; i < 8 * TILES; i++) cells[i] = (made_cell){.at = {i}, .value = i};
  made_open(m, false, 1, false, 0, 99, NULL);
  return made_sparse(m, 1, 1, cells, 8 * TILES, false, false);
}

static void check_tile(const tsr_tile_request *w) {
  assert_non_null(w->tile);
  assert_int_equal(w->tile->cells, 8);
  assert_int_equal(tsr__load32(w->tile->values + 4), w->number * 8 + 1);
}

static void test_tiles_come_from_the_store_then_from_the_cache(void **state) {
  (void)state;
  made_array m;
  tsr_memory budget;
  tsr_counters c;
  tsr_fragment *f = open_line(&m);
  tsr__memory_init(&budget, &m.array.memory, 100000, "memory_mb");
  tsr_tile_request requests[TILES];
  for (unsigned threads = 1; threads <= 4; threads += 3)
    for (int round = 0; round < 2; round++) { /* first from the store, then from the cache */
      for (unsigned i = 0; i < TILES; i++) /* out of order */
        requests[i] = (tsr_tile_request){.fragment = f, .slot = 0, .number = (i * 5) % TILES};
      tsr_environment_reset_counters(m.environment);
      const uint64_t bytes = m.array.store->bytes_read;
      assert_int_equal(tsr__tiles_load(&m.array, threads, requests, TILES, &budget, NULL), TSR_OK);
      for (unsigned i = 0; i < TILES; i++) {
        check_tile(&requests[i]);
        assert_int_equal(requests[i].decoded, round == 0);
      }
      tsr_environment_counters(m.environment, &c);
      assert_int_equal(c.tiles_read, round ? 0 : TILES);
      assert_int_equal(c.tiles_cached, round ? TILES : 0);
      assert_int_equal(m.array.store->bytes_read - bytes, round ? 0 : TILES * (20 + 32));
      assert_true(budget.used >= TILES * 32);
      for (unsigned i = 0; i < TILES; i++) tsr__tile_return(requests[i].tile, &budget);
      assert_int_equal(budget.used, 0);
      if (round) tsr__cache_forget(m.array.cache, f->id);
    }
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 0, &budget, NULL), TSR_OK);
  tsr__tile_return(NULL, &budget);
  made_close(&m);
}

static tsr_tile load_cells(made_array *m, tsr_fragment *f, uint64_t first, uint64_t end, bool decoded) {
  tsr_memory budget;
  tsr__memory_init(&budget, &m->array.memory, 100000, "memory_mb");
  tsr_tile_request request = {.fragment = f, .number = 3, .first = first, .end = end};
  assert_int_equal(tsr__tiles_load(&m->array, 1, &request, 1, &budget, NULL), TSR_OK);
  assert_int_equal(request.decoded, decoded);
  const tsr_tile tile = *request.tile;
  const uint64_t from = tile.end ? tile.first : 0, to = tile.end ? tile.end : 8;
  for (uint64_t i = from; i < to; i++) assert_int_equal(tsr__load32(tile.values + 4 * (i - from)), 24 + i);
  tsr__tile_return(request.tile, &budget);
  assert_int_equal(budget.used, 0);
  return tile;
}

/* When other cells of the same tile are requested, the whole tile is decoded. */
static void test_few_cells_are_decoded_with_their_chunks_alone(void **state) {
  (void)state;
  made_array m;
  made_cell cells[8 * TILES];
  made_open(&m, false, 1, false, 0, 99, NULL);
  m.chunk = 8; /* bytes: two cells */
  for (int i = 0; i < 8 * TILES; i++) cells[i] = (made_cell){.at = {i}, .value = i};
  tsr_fragment *f = made_sparse(&m, 1, 1, cells, 8 * TILES, false, false);
  tsr_tile tile = load_cells(&m, f, 3, 4, true);
  assert_int_equal(tile.first, 2);
  assert_int_equal(tile.end, 4);
  tile = load_cells(&m, f, 2, 4, false);
  assert_int_equal(tile.end, 4);
  tile = load_cells(&m, f, 6, 7, true);
  assert_int_equal(tile.end, 0);
  load_cells(&m, f, 3, 4, false);
  load_cells(&m, f, 0, 0, false);
  tsr__cache_forget(m.array.cache, f->id);
  tile = load_cells(&m, f, 1, 4, true); /* too many cells for a part */
  assert_int_equal(tile.end, 0);
  made_close(&m);
}

#define BIG_CELLS 65536
#define BIG_CHUNK 8192 /* bytes, thus 2,048 cells */

/* One tile of 32 chunks, in a store whose files are open files of the process. `wrong` bytes of it from `at` on are
 * overwritten with 0xff. */
static tsr_fragment *open_big(made_array *m, uint64_t at, uint64_t wrong) {
  static int32_t values[BIG_CELLS];
  for (int32_t i = 0; i < BIG_CELLS; i++) values[i] = i;
  made_open(m, false, 1, false, 0, 99, NULL);
  m->array.store->uses_descriptors = true;
  m->environment->files_used = 100;
  m->schema.capacity = BIG_CELLS;
  m->chunk = BIG_CHUNK;
  tsr_fragment *f = made_fragment(m, 1, 1, 1, false, false, false);
  f->metadata.last_tile_cells = f->cells_per_tile = BIG_CELLS;
  made_part(m, f, 0, TSR_PART_FIXED, 0, values, sizeof values);
  memset(m->parts[TSR_PART_FIXED].data + at, 0xff, wrong);
  made_flush(m, f);
  return f;
}

static int load_big(made_array *m, tsr_fragment *f, uint64_t cell, uint64_t *decoded, uint64_t *read) {
  tsr_memory budget;
  tsr__memory_init(&budget, &m->array.memory, 1 << 20, "memory_mb");
  tsr_tile_request request = {.fragment = f, .first = cell, .end = cell + 1};
  const uint64_t before = m->array.store->bytes_read;
  const int rc = tsr__tiles_load(&m->array, 1, &request, 1, &budget, NULL);
  if (rc == TSR_OK) {
    const tsr_tile *tile = request.tile;
    *decoded = request.decoded ? tile->decoded : 0;
    assert_int_equal(tsr__load32(tile->values + 4 * (cell - tile->first)), cell);
    tsr__tile_return(request.tile, &budget);
  }
  *read = m->array.store->bytes_read - before;
  assert_int_equal(budget.used, 0);
  return rc;
}

/* Lookups all over a large tile read and decode single chunks, until that has been as much as half of the tile. */
static void test_single_chunks_of_a_large_tile_are_read(void **state) {
  (void)state;
  made_array m;
  uint64_t decoded, read;
  tsr_fragment *f = open_big(&m, 0, 0);
  for (uint64_t i = 0; i < 40; i++) {
    assert_int_equal(load_big(&m, f, i * 31 % 32 * 2048 + i, &decoded, &read), TSR_OK);
    assert_int_equal(decoded, i < 16 ? 2048 : i == 16 ? BIG_CELLS - 2048 : 0); /* the last chunk is in the cache */
    const uint64_t headers = i == 0 ? 8 + 32 * 12 : 0; /* the part in the cache knows where the chunks are */
    assert_int_equal(read, i < 16 ? headers + (BIG_CHUNK + 12) : i == 16 ? 8 + 32 * (BIG_CHUNK + 12) : 0);
  }
  tsr__cache_set_limit(m.array.cache, 0);
  for (uint64_t i = 0; i < 40; i++) {
    assert_int_equal(load_big(&m, f, i * 31 % 32 * 2048 + i, &decoded, &read), TSR_OK);
    assert_int_equal(decoded, 2048);
    assert_int_equal(read, 8 + 32 * 12 + (BIG_CHUNK + 12));
  }
  made_close(&m);
}

/* The headers of all chunks are read, so a damaged one is noticed in whichever chunk the cell is. */
static void test_damage_in_the_chunks_of_a_large_tile_is_an_error(void **state) {
  (void)state;
  made_array m;
  uint64_t decoded, read;
  for (uint64_t field = 0; field < 4; field++)
    for (uint64_t chunk = 0; chunk < 32; chunk += 5) {
      const uint64_t at = field == 3 ? 0 : 8 + chunk * (BIG_CHUNK + 12) + 4 * field;
      tsr_fragment *f = open_big(&m, at, field == 3 ? 1 + chunk % 8 : 4);
      for (uint64_t cell = 0; cell < BIG_CELLS; cell += BIG_CELLS / 4)
        assert_int_equal(load_big(&m, f, cell, &decoded, &read), TSR_CORRUPT);
      made_close(&m);
    }
}

/* Where the list of a tile's chunks leads to other bytes than chunks, they are not decoded. The list goes with its
 * tile: the next one comes from the file. */
static void test_chunks_that_are_listed_are_checked_when_they_are_read(void **state) {
  (void)state;
  made_array m;
  uint64_t decoded, read;
  tsr_fragment *f = open_big(&m, 0, 0);
  uint64_t *offsets = f->metadata.slots[0].offsets[TSR_PART_FIXED];
  assert_int_equal(load_big(&m, f, 5, &decoded, &read), TSR_OK);
  for (uint64_t chunk = 1; chunk < 31; chunk++) {
    offsets[0] += 4;
    assert_int_equal(load_big(&m, f, chunk * 2048, &decoded, &read), TSR_CORRUPT);
    assert_int_equal(read, BIG_CHUNK + 12);
    offsets[0] -= 4;
  }
  assert_int_equal(load_big(&m, f, 2048, &decoded, &read), TSR_OK);
  assert_int_equal(read, BIG_CHUNK + 12);
  tsr__cache_forget(m.array.cache, f->id);
  assert_int_equal(load_big(&m, f, 5, &decoded, &read), TSR_OK);
  assert_int_equal(read, 8 + 32 * 12 + (BIG_CHUNK + 12));
  made_close(&m);
}

static void test_costs_are_the_bytes_of_decoded_tiles(void **state) {
  (void)state;
  made_array m;
  uint64_t bytes;
  tsr_fragment *f = open_line(&m);
  assert_int_equal(tsr__tile_cost(&m.array, f, 0, 0, &bytes, NULL), TSR_OK);
  assert_int_equal(bytes, 8 * 4);
  assert_int_equal(tsr__tile_cost(&m.array, f, 1, 2, &bytes, NULL), TSR_OK);
  assert_int_equal(bytes, 9 * 8 + f->metadata.slots[1].var_sizes[2] + 8);
  made_close(&m);
}

static void test_a_load_past_the_budget_loads_and_charges_nothing(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_fragment *f = open_line(&m);
  tsr_tile_request requests[2 * TILES];
  int passed = 0;
  tsr__cache_set_limit(m.array.cache, 0);
  for (uint64_t limit = 0; limit < 40000 && !passed; limit += 64) {
    tsr_memory budget;
    tsr__memory_init(&budget, &m.array.memory, limit, "memory_mb");
    for (unsigned i = 0; i < 2 * TILES; i++)
      requests[i] = (tsr_tile_request){.fragment = f, .slot = i % 2, .number = i / 2};
    if (tsr__tiles_load(&m.array, 2, requests, 2 * TILES, &budget, &error) < 0) {
      assert_int_equal(error.code, TSR_BUDGET);
      assert_non_null(strstr(error.message, "memory_mb"));
      for (unsigned i = 0; i < 2 * TILES; i++) assert_null(requests[i].tile);
    } else {
      passed = 1;
      for (unsigned i = 0; i < 2 * TILES; i++) tsr__tile_return(requests[i].tile, &budget);
    }
    assert_int_equal(budget.used, 0);
  }
  assert_true(passed);
  made_close(&m);
}

static void test_sizes_in_the_metadata_are_checked_before_memory_is_taken(void **state) {
  (void)state;
  made_array m;
  tsr_memory budget;
  tsr_error error = {0};
  tsr_fragment *f = open_line(&m);
  tsr__memory_init(&budget, &m.array.memory, UINT64_C(1) << 30, "memory_mb");
  f->metadata.slots[1].var_sizes[3] = UINT64_MAX - 5;
  tsr_tile_request request = {.fragment = f, .slot = 1, .number = 3};
  const uint64_t peak = m.array.memory.peak;
  assert_int_equal(tsr__tiles_load(&m.array, 1, &request, 1, &budget, &error), TSR_BUDGET);
  assert_non_null(strstr(error.message, "field s, tile 3"));
  f->metadata.slots[1].var_sizes[3] = 1;
  f->metadata.slots[1].offsets[TSR_PART_VARIABLE][4] = UINT64_C(1) << 40;
  assert_int_equal(tsr__tiles_load(&m.array, 1, &request, 1, &budget, &error), TSR_BUDGET);
  assert_true(m.array.memory.peak < peak + 100000);
  assert_int_equal(budget.used, 0);
  made_close(&m);
}

static void test_damage_is_an_error(void **state) {
  (void)state;
  made_array m;
  tsr_memory budget;
  tsr_error error = {0};
  tsr_fragment *f = open_line(&m);
  tsr__memory_init(&budget, &m.array.memory, 1 << 20, "memory_mb");
  tsr_tile_request requests[2] = {{.fragment = f, .number = 0}, {.fragment = f, .number = TILES}};
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 2, &budget, &error), TSR_CORRUPT); /* no such tile */
  requests[1] = (tsr_tile_request){.fragment = f, .slot = 99};
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 2, &budget, &error), TSR_CORRUPT); /* no such slot */
  requests[1] = (tsr_tile_request){.fragment = f, .slot = 1, .number = 1};
  uint64_t *offsets = f->metadata.slots[1].offsets[TSR_PART_VALIDITY];
  const uint64_t keep = offsets[2];
  offsets[2] = offsets[1] - 1;
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 2, &budget, &error), TSR_CORRUPT); /* the offsets decrease */
  offsets[2] = offsets[1];
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 2, &budget, &error), TSR_CORRUPT); /* no byte is stored */
  offsets[2] = offsets[TILES] + 1000;
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 2, &budget, &error), TSR_CORRUPT); /* past the file's end */
  assert_non_null(strstr(error.message, f->name));
  assert_null(requests[0].tile);
  assert_int_equal(budget.used, 0);
  offsets[2] = keep;
  assert_int_equal(tsr__tiles_load(&m.array, 1, requests, 2, &budget, &error), TSR_OK);
  for (int i = 0; i < 2; i++) tsr__tile_return(requests[i].tile, &budget);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_come_from_the_store_then_from_the_cache),
      cmocka_unit_test(test_costs_are_the_bytes_of_decoded_tiles),
      cmocka_unit_test(test_few_cells_are_decoded_with_their_chunks_alone),
      cmocka_unit_test(test_single_chunks_of_a_large_tile_are_read),
      cmocka_unit_test(test_damage_in_the_chunks_of_a_large_tile_is_an_error),
      cmocka_unit_test(test_chunks_that_are_listed_are_checked_when_they_are_read),
      cmocka_unit_test(test_a_load_past_the_budget_loads_and_charges_nothing),
      cmocka_unit_test(test_sizes_in_the_metadata_are_checked_before_memory_is_taken),
      cmocka_unit_test(test_damage_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
