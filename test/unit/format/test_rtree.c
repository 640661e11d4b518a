/* test_rtree.c: R-trees decode; queries agree with a scan of the leaves; damaged trees are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "format/rtree.h"

typedef struct fixture {
  tsr_memory memory;
  tsr_arena arena;
  tsr_buffer out;
  tsr_field fields[2];
  tsr_schema schema;
} fixture;

static int setup(void **state) {
  static fixture f;
  f = (fixture){0};
  tsr__memory_init_root(&f.memory, NULL, NULL);
  tsr__arena_init(&f.arena, &f.memory);
  f.out = (tsr_buffer){.memory = &f.memory};
  f.fields[0] = (tsr_field){.name = "x", .is_dimension = true, .datatype = TSR_INT32, .values_per_cell = 1};
  f.fields[1] = f.fields[0];
  f.fields[1].name = "y";
  f.schema = (tsr_schema){.dimension_count = 1, .fields = f.fields, .capacity = 10};
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  tsr__arena_release(&f->arena);
  tsr__buffer_release(&f->out);
  assert_int_equal(f->memory.used, 0);
  return 0;
}

static void put32(fixture *f, uint32_t value) { assert_int_equal(tsr__buffer_append_u32(&f->out, value, NULL), 0); }
static void put64(fixture *f, uint64_t value) { assert_int_equal(tsr__buffer_append_u64(&f->out, value, NULL), 0); }
static void put(fixture *f, const void *bytes, uint64_t size) {
  assert_int_equal(tsr__buffer_append(&f->out, bytes, size, NULL), 0);
}
static void put_range(fixture *f, int32_t low, int32_t high) {
  put32(f, (uint32_t)low);
  put32(f, (uint32_t)high);
}
static void put_text(fixture *f, const char *low, const char *high) {
  put64(f, strlen(low) + strlen(high));
  put64(f, strlen(low));
  put(f, low, strlen(low));
  put(f, high, strlen(high));
}
static void put_double(fixture *f, double low, double high) {
  put(f, &low, 8);
  put(f, &high, 8);
}

static int decode(fixture *f, uint32_t version, tsr_rtree *rtree, tsr_error *error) {
  tsr_input in = tsr__input(f->out.data, f->out.size);
  return tsr__rtree_decode(&in, &f->schema, version, &f->arena, rtree, error);
}

/* Makes a tree over leaves, given as low and high ends of each dimension, with levels as TileDB builds them. */
static void put_tree(fixture *f, uint32_t version, uint32_t fanout, const int32_t (*leaves)[4], uint64_t count) {
  uint32_t dimensions = f->schema.dimension_count, levels = 1;
  uint64_t spread[8] = {count};
  while (spread[levels - 1] > 1) {
    spread[levels] = (spread[levels - 1] + fanout - 1) / fanout;
    levels++;
  }
  f->out.size = 0;
  if (version < 5) put32(f, dimensions);
  put32(f, fanout);
  if (version < 5) put(f, "\0", 1); /* INT32 */
  put32(f, levels);
  for (uint32_t level = levels; level-- > 0;) {
    uint64_t width = 1;
    for (uint32_t i = 0; i < level; i++) width *= fanout;
    put64(f, spread[level]);
    for (uint64_t node = 0; node < spread[level]; node++) {
      for (uint32_t d = 0; d < dimensions; d++) {
        int32_t low = INT32_MAX, high = INT32_MIN;
        for (uint64_t i = node * width; i < count && i < (node + 1) * width; i++) {
          low = TSR_MIN(low, leaves[i][2 * d]);
          high = TSR_MAX(high, leaves[i][2 * d + 1]);
        }
        put_range(f, low, high);
      }
    }
  }
}

typedef struct found {
  uint64_t count, inside;
  uint64_t leaves[2000];
  bool in[2000];
} found;

static int note(void *argument, uint64_t leaf, bool inside, tsr_error *error) {
  found *to = argument;
  assert_true(to->count < 2000);
  to->leaves[to->count] = leaf;
  to->in[to->count++] = inside;
  return TSR_OK;
}

static tsr_spans one_span(fixture *f, uint32_t dimension, int32_t low, int32_t high) {
  tsr_range range = {.low = &low, .high = &high};
  tsr_ranges ranges = {.ranges = &range, .count = 1};
  tsr_spans spans;
  assert_int_equal(tsr__spans_make(&f->fields[dimension], &ranges, &f->arena, &spans, NULL), 0);
  return spans;
}

static void expect(const tsr_rtree *rtree, const tsr_spans *spans, uint64_t count, const uint64_t *leaves,
                   const bool *inside) {
  found got = {0};
  assert_int_equal(tsr__rtree_query(rtree, spans, note, &got, NULL), TSR_OK);
  assert_int_equal(got.count, count);
  for (uint64_t i = 0; i < count; i++) {
    assert_int_equal(got.leaves[i], leaves[i]);
    assert_int_equal(got.in[i], inside[i]);
  }
}

static void test_query_visits_matching_leaves(void **state) {
  fixture *f = *state;
  int32_t leaves[13][4];
  for (int i = 0; i < 13; i++) {
    leaves[i][0] = 10 * i;
    leaves[i][1] = 10 * i + 9;
  }
  const uint32_t versions[] = {3, 4, 5, 22};
  for (int v = 0; v < 4; v++) {
    put_tree(f, versions[v], 10, leaves, 13);
    tsr_rtree rtree;
    assert_int_equal(decode(f, versions[v], &rtree, NULL), TSR_OK);
    assert_int_equal(rtree.levels, 3);
    assert_int_equal(rtree.fanout, 10);
    assert_int_equal(rtree.counts[0], 1);
    assert_int_equal(rtree.counts[1], 2);
    assert_int_equal(rtree.counts[2], 13);
    assert_null(rtree.sizes);
    tsr_spans spans = one_span(f, 0, 95, 119);
    expect(&rtree, &spans, 3, (uint64_t[]){9, 10, 11}, (bool[]){false, true, true});
    spans = one_span(f, 0, 100, 1000);
    expect(&rtree, &spans, 3, (uint64_t[]){10, 11, 12}, (bool[]){true, true, true});
    spans = one_span(f, 0, 130, 140);
    expect(&rtree, &spans, 0, NULL, NULL);
    found all = {0};
    assert_int_equal(tsr__rtree_query(&rtree, &(tsr_spans){.all = true}, note, &all, NULL), TSR_OK);
    assert_int_equal(all.count, 13);
    assert_true(all.in[12]);
  }
}

static int stop(void *argument, uint64_t leaf, bool inside, tsr_error *error) {
  ++*(int *)argument;
  return tsr__fail(error, TSR_INTERRUPT, "enough");
}

static void test_visitor_ends_the_query(void **state) {
  fixture *f = *state;
  const int32_t leaves[2][4] = {{0, 1}, {5, 6}};
  put_tree(f, 22, 10, leaves, 2);
  tsr_rtree rtree;
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_OK);
  int calls = 0;
  assert_int_equal(tsr__rtree_query(&rtree, &(tsr_spans){.all = true}, stop, &calls, NULL), TSR_INTERRUPT);
  assert_int_equal(calls, 1);
}

/* In random trees of two dimensions, a query visits the leaves that a scan finds, in the same order. */
static void test_query_agrees_with_a_scan(void **state) {
  fixture *f = *state;
  f->schema.dimension_count = 2;
  uint64_t seed = 42;
  static int32_t leaves[1500][4];
  static found got;
  for (int round = 0; round < 60; round++) {
    uint64_t count = round < 4 ? (uint64_t)round + 1 : (uint64_t)(round * 25);
    uint32_t fanout = round % 3 == 0 ? 10 : round % 3 == 1 ? 2 : 7;
    if (count > 128 && fanout == 2) fanout = 10;
    for (uint64_t i = 0; i < count; i++) {
      for (int d = 0; d < 2; d++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        leaves[i][2 * d] = (int32_t)(seed >> 54);
        leaves[i][2 * d + 1] = leaves[i][2 * d] + (int32_t)(seed >> 40 & 63);
      }
    }
    put_tree(f, 22, fanout, (const int32_t(*)[4])leaves, count);
    tsr_rtree rtree;
    assert_int_equal(decode(f, 22, &rtree, NULL), TSR_OK);
    int32_t low[2] = {100, 300}, high[2] = {100 + round * 10, 900};
    tsr_spans spans[2] = {one_span(f, 0, low[0], high[0]), one_span(f, 1, low[1], high[1])};
    got = (found){0};
    assert_int_equal(tsr__rtree_query(&rtree, spans, note, &got, NULL), TSR_OK);
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; i++) {
      bool meets = true, inside = true;
      for (int d = 0; d < 2; d++) {
        meets = meets && leaves[i][2 * d] <= high[d] && leaves[i][2 * d + 1] >= low[d];
        inside = inside && leaves[i][2 * d] >= low[d] && leaves[i][2 * d + 1] <= high[d];
      }
      if (!meets) continue;
      assert_true(next < got.count);
      assert_int_equal(got.leaves[next], i);
      assert_int_equal(got.in[next], inside);
      next++;
    }
    assert_int_equal(got.count, next);
  }
}

static tsr_spans text_span(fixture *f, const char *low, const char *high) {
  tsr_range range = {.low = low, .high = high, .low_size = strlen(low), .high_size = strlen(high)};
  tsr_ranges ranges = {.ranges = &range, .count = 1};
  tsr_spans spans;
  assert_int_equal(tsr__spans_make(&f->fields[0], &ranges, &f->arena, &spans, NULL), 0);
  return spans;
}

static void put_text_tree(fixture *f) {
  f->fields[0].datatype = TSR_ASCII;
  f->fields[0].values_per_cell = TSR_VARIABLE;
  f->out.size = 0;
  put32(f, 10);
  put32(f, 2);
  put64(f, 1);
  put_text(f, "", ""); /* as TileDB 2.2 wrote it: the high end is lost */
  put64(f, 3);
  put_text(f, "", "aba");
  put_text(f, "b", "b\xC3");
  put_text(f, "ca", "cb");
}

static void test_string_trees_and_open_ends(void **state) {
  fixture *f = *state;
  put_text_tree(f);
  tsr_rtree rtree;
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_OK);
  assert_int_equal(rtree.sizes[1][0], 0);
  assert_int_equal(rtree.sizes[1][1], 3);
  assert_memory_equal(rtree.text + rtree.keys[1][1], "aba", 3);
  assert_int_equal(rtree.sizes[0][1], 2); /* the root was widened */
  assert_memory_equal(rtree.text + rtree.keys[0][1], "cb", 2);
  tsr_spans spans = text_span(f, "bz", "ca");
  expect(&rtree, &spans, 2, (uint64_t[]){1, 2}, (bool[]){false, false}); /* 0xC3 is above 'z' */
  spans = text_span(f, "", "az");
  expect(&rtree, &spans, 1, (uint64_t[]){0}, (bool[]){true});

  /* up to version 9 the high end of an MBR whose low end is '' is unknown */
  assert_int_equal(decode(f, 9, &rtree, NULL), TSR_OK);
  assert_int_equal(rtree.sizes[1][1], TSR_TOP_TEXT_SIZE);
  spans = text_span(f, "zzz", "zzzz");
  expect(&rtree, &spans, 1, (uint64_t[]){0}, (bool[]){false});
}

static void test_nan_ends_are_open(void **state) {
  fixture *f = *state;
  const double nan = __builtin_nan("");
  f->fields[0].datatype = TSR_FLOAT64;
  put32(f, 10);
  put32(f, 2);
  put64(f, 1);
  put_double(f, 1, 3);
  put64(f, 2);
  put_double(f, 1, 3);
  put_double(f, nan, nan);
  tsr_rtree rtree;
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_OK);
  assert_int_equal(rtree.keys[0][0], 0); /* the root is opened, too */
  assert_int_equal(rtree.keys[0][1], UINT64_MAX);
  double low = 7, high = 8;
  tsr_range range = {.low = &low, .high = &high};
  tsr_ranges ranges = {.ranges = &range, .count = 1};
  tsr_spans spans;
  assert_int_equal(tsr__spans_make(&f->fields[0], &ranges, &f->arena, &spans, NULL), 0);
  expect(&rtree, &spans, 1, (uint64_t[]){1}, (bool[]){false});
}

static void test_tree_without_levels_is_empty(void **state) {
  fixture *f = *state;
  put32(f, 10);
  put32(f, 0);
  tsr_rtree rtree;
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_OK);
  assert_int_equal(rtree.levels, 0);
  expect(&rtree, &(tsr_spans){.all = true}, 0, NULL, NULL);
}

static void test_list_of_mbrs_becomes_one_level(void **state) {
  fixture *f = *state;
  for (int i = 0; i < 25; i++) put_range(f, i, i + 1);
  tsr_input in = tsr__input(f->out.data, f->out.size);
  tsr_rtree rtree;
  assert_int_equal(tsr__rtree_single_level(&in, 25, &f->schema, &f->arena, &rtree, NULL), TSR_OK);
  assert_int_equal(tsr__input_left(&in), 0);
  tsr_spans spans = one_span(f, 0, 20, 20);
  expect(&rtree, &spans, 2, (uint64_t[]){19, 20}, (bool[]){false, false});
  in.at = 0;
  assert_int_equal(tsr__rtree_single_level(&in, 26, &f->schema, &f->arena, &rtree, NULL), TSR_CORRUPT);
  in = tsr__input(f->out.data, f->out.size);
  assert_int_equal(tsr__rtree_single_level(&in, UINT64_MAX, &f->schema, &f->arena, &rtree, NULL), TSR_CORRUPT);
}

static void test_broken_trees_are_refused(void **state) {
  fixture *f = *state;
  tsr_rtree rtree;
  tsr_error error = {0};
  const int32_t leaves[3][4] = {{0, 1}, {2, 3}, {4, 5}};

  put_tree(f, 22, 10, leaves, 3);
  f->out.data[4] = 65; /* levels */
  assert_int_equal(decode(f, 22, &rtree, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "65 levels"));

  put_tree(f, 22, 10, leaves, 3);
  f->out.data[0] = 1; /* fanout */
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_CORRUPT);

  put_tree(f, 22, 2, leaves, 3);
  f->out.data[0] = 10; /* 3 boxes under 2 need a fanout of 2 */
  assert_int_equal(decode(f, 22, &rtree, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "with fanout 10"));

  put_tree(f, 22, 10, leaves, 3);
  tsr__store32(f->out.data + f->out.size - 4, (uint32_t)-1);
  assert_int_equal(decode(f, 22, &rtree, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "level 1, box 2, dimension 'x'"));

  put_tree(f, 22, 10, leaves, 3);
  put(f, "", 1);
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_CORRUPT);

  put_tree(f, 3, 10, leaves, 3);
  f->out.data[0] = 2; /* dimensions */
  assert_int_equal(decode(f, 3, &rtree, NULL), TSR_CORRUPT);

  put_tree(f, 22, 10, leaves, 1);
  tsr__store64(f->out.data + 8, UINT64_MAX / 8 + 2);
  assert_int_equal(decode(f, 22, &rtree, NULL), TSR_CORRUPT);

  put_text_tree(f);
  tsr__store64(f->out.data + 24, 1); /* the low end is longer than both */
  assert_int_equal(decode(f, 22, &rtree, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "the low end takes 1 bytes of the 0"));
}

/* A tree that is cut at any byte is refused. A tree with one changed byte is refused, or decoded and queried without
 * harm. */
static void test_damaged_trees_are_refused_or_harmless(void **state) {
  fixture *f = *state;
  for (int text = 0; text < 2; text++) {
    const int32_t leaves[12][4] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 12}};
    if (text) put_text_tree(f);
    else put_tree(f, 22, 10, leaves, 7);
    uint64_t size = f->out.size;
    for (uint64_t cut = 0; cut < size; cut++) {
      uint8_t *exact;
      assert_int_equal(tsr__alloc(&f->memory, cut, (void **)&exact, NULL), 0);
      memcpy(exact, f->out.data, cut);
      tsr_input in = tsr__input(exact, cut);
      tsr_rtree rtree;
      assert_int_equal(tsr__rtree_decode(&in, &f->schema, 22, &f->arena, &rtree, NULL), TSR_CORRUPT);
      tsr__free(exact);
    }
    for (uint64_t at = 0; at < size; at++) {
      for (int bit = 0; bit < 8; bit++) {
        f->out.data[at] ^= (uint8_t)(1 << bit);
        tsr_rtree rtree;
        static found got;
        got.count = 0;
        tsr_error error = {0};
        int code = decode(f, 22, &rtree, &error);
        if (code == TSR_OK) {
          tsr_spans spans = text ? text_span(f, "b", "bb") : one_span(f, 0, 3, 9);
          assert_int_equal(tsr__rtree_query(&rtree, &spans, note, &got, NULL), TSR_OK);
        } else {
          assert_int_equal(code, TSR_CORRUPT);
        }
        f->out.data[at] ^= (uint8_t)(1 << bit);
      }
    }
  }
}

static void test_out_of_budget(void **state) {
  fixture *f = *state;
  const int32_t leaves[12][4] = {{0, 1}, {2, 3}, {4, 5}};
  put_tree(f, 22, 10, leaves, 3);
  bool worked = false;
  for (uint64_t limit = 0; !worked && limit < 100000; limit += 256) {
    tsr_memory small;
    tsr_arena arena;
    tsr__memory_init(&small, &f->memory, limit, "test");
    tsr__arena_init(&arena, &small);
    tsr_input in = tsr__input(f->out.data, f->out.size);
    tsr_rtree rtree;
    int code = tsr__rtree_decode(&in, &f->schema, 22, &arena, &rtree, NULL);
    worked = code == TSR_OK;
    if (!worked) assert_int_equal(code, TSR_BUDGET);
    tsr__arena_release(&arena);
    assert_int_equal(small.used, 0);
  }
  assert_true(worked);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* The levels of a built tree are encoded as in TileDB. Decoding, which would widen MBRs, changes nothing. */
static void test_built_trees_encode_as_tiledbs(void **state) {
  fixture *f = *state;
  static const uint64_t counts[] = {0, 1, 2, 10, 11, 99, 100, 101, 1001};
  f->schema.dimension_count = 2;
  for (uint32_t version = 3; version <= 22; version += 19)
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
      int32_t leaves[1001][4];
      uint64_t keys[1001 * 4];
      for (uint64_t i = 0; i < counts[c]; i++)
        for (int d = 0; d < 2; d++) {
          leaves[i][2 * d] = (int32_t)((i * 7919 + 13) % 1000) - 500;
          leaves[i][2 * d + 1] = leaves[i][2 * d] + (int32_t)(i % 50);
          for (int e = 0; e < 2; e++) keys[i * 4 + 2 * d + e] = tsr__key(TSR_INT32, &leaves[i][2 * d + e]);
        }
      tsr_rtree rtree, back;
      tsr_buffer out = {.memory = &f->memory};
      assert_int_equal(tsr__rtree_build(&f->schema, counts[c], keys, NULL, NULL, &f->arena, &rtree, NULL), TSR_OK);
      assert_int_equal(tsr__rtree_encode(&rtree, &f->schema, version, &out, NULL), TSR_OK);
      if (counts[c]) {
        put_tree(f, version, 10, (const int32_t(*)[4])leaves, counts[c]);
        assert_int_equal(out.size, f->out.size);
        assert_memory_equal(out.data, f->out.data, out.size);
      } else {
        assert_int_equal(rtree.levels, 0);
      }
      tsr_input in = tsr__input(out.data, out.size);
      assert_int_equal(tsr__rtree_decode(&in, &f->schema, version, &f->arena, &back, NULL), TSR_OK);
      assert_int_equal(back.levels, rtree.levels);
      tsr__buffer_release(&out);
    }
}

/* A decoded tree is encoded with the fanout that it had. */
static void test_decoded_fanout_is_kept(void **state) {
  fixture *f = *state;
  int32_t leaves[13][4];
  for (int32_t i = 0; i < 13; i++) memcpy(leaves[i], (int32_t[4]){10 * i, 10 * i + 5, i, i + 1}, sizeof leaves[i]);
  put_tree(f, 22, 3, (const int32_t(*)[4])leaves, 13);
  tsr_rtree rtree;
  tsr_buffer out = {.memory = &f->memory};
  tsr_input in = tsr__input(f->out.data, f->out.size);
  assert_int_equal(tsr__rtree_decode(&in, &f->schema, 22, &f->arena, &rtree, NULL), TSR_OK);
  assert_int_equal(tsr__rtree_encode(&rtree, &f->schema, 22, &out, NULL), TSR_OK);
  assert_int_equal(out.size, f->out.size);
  assert_memory_equal(out.data, f->out.data, out.size);
  tsr__buffer_release(&out);
}

static void test_string_trees_are_built(void **state) {
  fixture *f = *state;
  uint64_t keys[11 * 2], sizes[11 * 2];
  uint8_t text[] = "abcdefghijklmnopqrstuvwxyz";
  f->fields[0] = (tsr_field){.name = "s", .is_dimension = true, .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  for (uint64_t i = 0; i < 11; i++) { /* leaf i: its low is one letter, its high three */
    keys[2 * i] = keys[2 * i + 1] = (i * 7) % 11;
    sizes[2 * i] = 1;
    sizes[2 * i + 1] = 3;
  }
  tsr_rtree rtree, back;
  assert_int_equal(tsr__rtree_build(&f->schema, 11, keys, sizes, text, &f->arena, &rtree, NULL), TSR_OK);
  assert_int_equal(rtree.levels, 3);
  assert_int_equal(rtree.counts[1], 2);
  assert_int_equal(rtree.keys[0][0], 0); /* "a" */
  assert_int_equal(rtree.keys[0][1], 10); /* "klm" */
  assert_int_equal(rtree.sizes[0][1], 3);
  assert_int_equal(tsr__rtree_encode(&rtree, &f->schema, 22, &f->out, NULL), TSR_OK);
  tsr_input in = tsr__input(f->out.data, f->out.size);
  assert_int_equal(tsr__rtree_decode(&in, &f->schema, 22, &f->arena, &back, NULL), TSR_OK);
  assert_memory_equal(back.text + back.keys[0][0], "a", 1);
  assert_memory_equal(back.text + back.keys[0][1], "klm", 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_query_visits_matching_leaves),
      TEST(test_visitor_ends_the_query),
      TEST(test_query_agrees_with_a_scan),
      TEST(test_string_trees_and_open_ends),
      TEST(test_nan_ends_are_open),
      TEST(test_tree_without_levels_is_empty),
      TEST(test_list_of_mbrs_becomes_one_level),
      TEST(test_broken_trees_are_refused),
      TEST(test_damaged_trees_are_refused_or_harmless),
      TEST(test_out_of_budget),
      TEST(test_built_trees_encode_as_tiledbs),
      TEST(test_decoded_fanout_is_kept),
      TEST(test_string_trees_are_built),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
