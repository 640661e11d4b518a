/* test_check.c: the check of a sparse array of one fragment with two tiles, made byte by byte. The check finds nothing
 * in the sound array, and something in every damaged one. fault/damage_check.py tests the kinds of damage and their
 * messages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "store_memory.h"
#include "environment/environment.h"
#include "check/check.h"
#include "tiny_array.h"

#define NAME "__2_2_00000000000000000000000000000002_22"

enum { SCHEMA, COMMIT, METADATA, COORDINATES, VALUES, FILES };
static const char *const paths[FILES] = {"__schema/__1_1_00000000000000000000000000000001", "__commits/" NAME ".wrt",
                                         "__fragments/" NAME "/__fragment_metadata.tdb", "__fragments/" NAME "/d0.tdb",
                                         "__fragments/" NAME "/a0.tdb"};

typedef struct cells { /* the content of the array; a test changes some of it, and all files agree with that */
  int32_t x[8], a[8];
  int32_t box[4], domain[2], min[2], max[2];
  int64_t sum[2], own_sum;
  int tree; /* 0: the R-tree has the leaves alone; 1: a level above them; 2: as many bytes, with four boxes on top */
} cells;
static const cells good = {.x = {1, 3, 5, 11, 13, 20, 21, 30},
                           .a = {10, 50, -20, 40, 30, 60, 80, 70},
                           .box = {1, 13, 20, 30},
                           .domain = {1, 30},
                           .min = {-20, 60},
                           .max = {50, 80},
                           .sum = {110, 210},
                           .own_sum = 320};

typedef struct fixture {
  counted_memory memory;
  bool stop;
  tsr_environment *environment;
  tsr_buffer files[FILES];
} fixture;

static bool interrupted(void *argument) { return ((fixture *)argument)->stop; }

/* ---- The files -------------------------------------------------------------------------------------------------- */

static void put_tile(tsr_buffer *out, const int32_t *values, uint32_t count) {
  tiny_u64(out, 1);
  tiny_u32(out, 4 * count);
  tiny_u32(out, 4 * count);
  tiny_u32(out, 0);
  tiny_bytes(out, values, 4 * count);
}

/* Appends a generic tile with the content, and empties the content. Returns the offset of the tile. */
static uint64_t place(tsr_buffer *out, tsr_buffer *content) {
  uint64_t at = out->size;
  tiny_generic(out, content);
  content->size = 0;
  return at;
}

static uint64_t place_list(tsr_buffer *out, tsr_buffer *content, uint64_t first, uint64_t second) {
  tiny_u64(content, 2);
  tiny_u64(content, first);
  tiny_u64(content, second);
  return place(out, content);
}

static uint64_t place_bounds(tsr_buffer *out, tsr_buffer *content, const int32_t *values) {
  tiny_u64(content, values ? 8 : 0);
  tiny_u64(content, 0);
  if (values) tiny_bytes(content, values, 8);
  return place(out, content);
}

static void make_metadata(tsr_buffer *out, const cells *c) {
  tsr_buffer content = {.memory = out->memory};
  uint64_t rtree, rows[8][3], statistics, processed;
  tiny_u32(&content, 10);
  tiny_u32(&content, c->tree ? 2 : 1);
  if (c->tree == 1) tiny_u64(&content, 1);
  if (c->tree == 1) tiny_bytes(&content, c->domain, sizeof c->domain);
  tiny_u64(&content, c->tree == 2 ? 4 : 2);
  tiny_bytes(&content, c->box, sizeof c->box);
  if (c->tree == 2) tiny_bytes(&content, c->box, sizeof c->box);
  rtree = place(out, &content);
  for (int kind = 0; kind < 8; kind++)
    for (int slot = 0; slot < 3; slot++) { /* a, __coords, x */
      bool a = slot == 0, data = slot != 1 && kind == 0;
      uint64_t first = a && kind == 6 ? (uint64_t)c->sum[0] : 0;
      uint64_t second = data ? 40 : a && kind == 6 ? (uint64_t)c->sum[1] : 0;
      if (kind == 4 || kind == 5)
        rows[kind][slot] = place_bounds(out, &content, !a ? NULL : kind == 4 ? c->min : c->max);
      else rows[kind][slot] = place_list(out, &content, first, second);
    }
  int32_t least = TSR_MIN(c->min[0], c->min[1]), most = TSR_MAX(c->max[0], c->max[1]);
  tiny_u64(&content, 4);
  tiny_bytes(&content, &least, 4);
  tiny_u64(&content, 4);
  tiny_bytes(&content, &most, 4);
  tiny_u64(&content, (uint64_t)c->own_sum);
  tiny_u64(&content, 0);
  for (int i = 0; i < 8; i++) tiny_u64(&content, 0);
  statistics = place(out, &content);
  tiny_u64(&content, 0);
  processed = place(out, &content);
  tsr__buffer_release(&content);

  uint64_t footer = out->size;
  tiny_u32(out, 22);
  tiny_u64(out, strlen(paths[SCHEMA] + 9));
  tiny_bytes(out, paths[SCHEMA] + 9, strlen(paths[SCHEMA] + 9));
  tiny_u8(out, 0);
  tiny_u8(out, 0);
  tiny_bytes(out, c->domain, sizeof c->domain);
  tiny_u64(out, 2);
  tiny_u64(out, 3);
  tiny_u8(out, 0);
  tiny_u8(out, 0);
  for (int part = 0; part < 3; part++)
    for (int slot = 0; slot < 3; slot++) tiny_u64(out, part == 0 && slot != 1 ? 72 : 0);
  tiny_u64(out, rtree);
  tiny_bytes(out, rows, sizeof rows);
  tiny_u64(out, statistics);
  tiny_u64(out, processed);
  tiny_u64(out, out->size - footer);
}

static void make_files(fixture *x, const cells *c) {
  static const tiny_attribute attribute = {"a", TSR_INT32, false, NULL};
  tsr_memory *memory = &x->environment->memory;
  tsr_store *store;
  for (int i = 0; i < FILES; i++) {
    tsr__buffer_release(&x->files[i]);
    x->files[i].memory = memory;
  }
  assert_int_equal(tsr__store_memory_open(memory, "array", &store, NULL), TSR_OK);
  tiny_schema(store, "schema", false, 1, &attribute);
  assert_int_equal(tsr__store_read_all(store, "schema", 4096, &x->files[SCHEMA], NULL), TSR_OK);
  tsr__store_close(store);
  make_metadata(&x->files[METADATA], c);
  put_tile(&x->files[COORDINATES], c->x, 5);
  put_tile(&x->files[COORDINATES], c->x + 5, 3);
  put_tile(&x->files[VALUES], c->a, 5);
  put_tile(&x->files[VALUES], c->a + 5, 3);
}

static void open_fixture(fixture *x) {
  *x = (fixture){.memory.left = -1};
  const tsr_environment_options options = {.reallocate = counted_reallocate,
                                           .reallocate_argument = &x->memory,
                                           .interrupted = interrupted,
                                           .interrupted_argument = x,
                                           .single_threaded = true};
  assert_int_equal(tsr_environment_open(&options, &x->environment, NULL), TSR_OK);
  make_files(x, &good);
}

static void close_fixture(fixture *x) {
  for (int i = 0; i < FILES; i++) tsr__buffer_release(&x->files[i]);
  tsr_environment_close(x->environment);
  assert_int_equal(x->memory.blocks, 0);
}

/* ---- Running it ------------------------------------------------------------------------------------------------- */

typedef struct seen {
  int count, faults; /* findings; those that are not notes */
  int stop_at; /* the finding at which the callback ends the check; 0: none */
  char file[256], message[TSR_MESSAGE_SIZE]; /* of the first fault */
} seen;

static int note(void *argument, const tsr_finding *finding) {
  seen *s = argument;
  assert_non_null(finding->file);
  assert_true(finding->message[0] != '\0');
  s->count++;
  if (finding->severity != TSR_SEVERITY_NOTE && s->faults++ == 0) {
    snprintf(s->file, sizeof s->file, "%s", finding->file);
    snprintf(s->message, sizeof s->message, "%s", finding->message);
  }
  return s->count == s->stop_at ? TSR_ABORT : TSR_OK;
}

static tsr_store *make_store(fixture *x) {
  tsr_store *store;
  assert_int_equal(tsr__store_memory_open(&x->environment->memory, "array", &store, NULL), TSR_OK);
  for (int i = 0; i < FILES; i++) tiny_put(store, paths[i], x->files[i].data, x->files[i].size);
  return store;
}

static int check_with(fixture *x, const tsr_check_options *options, seen *s, tsr_error *error) {
  tsr_store *store = make_store(x);
  return tsr__check_store(x->environment, store, options, note, s, error);
}

static seen check(fixture *x) {
  tsr_error error = {0};
  seen s = {0};
  int rc = check_with(x, NULL, &s, &error);
  if (rc == TSR_AUTH) s.faults++; /* the schema says that it is encrypted */
  else assert_int_equal(rc, TSR_OK);
  return s;
}

/* A metadata file on disk that gets other bytes when the first fault is found. */
typedef struct change {
  char file[400];
  const tsr_buffer *other;
  seen seen;
  bool told; /* that the tree changes */
} change;

static int note_and_change(void *argument, const tsr_finding *finding) {
  change *c = argument;
  FILE *f = c->seen.count == 0 ? fopen(c->file, "r+b") : NULL;
  if (f) assert_true(fwrite(c->other->data, 1, c->other->size, f) == c->other->size && fclose(f) == 0);
  c->told |= strstr(finding->message, "the R-tree changes while it is checked") != NULL;
  return note(&c->seen, finding);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------ */

static void test_nothing_is_found_in_sound_array(void **state) {
  fixture x;
  open_fixture(&x);
  seen s = check(&x);
  if (s.count) print_message("%s: %s\n", s.file, s.message);
  assert_int_equal(s.count, 0);
  seen quick = {0};
  assert_int_equal(check_with(&x, &(tsr_check_options){.quick = true}, &quick, NULL), TSR_OK);
  assert_int_equal(quick.count, 0);
  close_fixture(&x);
}

static void expect(const cells *c, const char *words, bool quick_too) {
  fixture x;
  open_fixture(&x);
  make_files(&x, c);
  seen s = check(&x), quick = {0};
  if (s.faults != 1 || !strstr(s.message, words))
    print_message("%d faults, first %s: %s; expected: %s\n", s.faults, s.file, s.message, words);
  assert_int_equal(s.faults, 1);
  assert_non_null(strstr(s.message, words));
  assert_int_equal(check_with(&x, &(tsr_check_options){.quick = true}, &quick, NULL), TSR_OK);
  assert_int_equal(quick.faults, quick_too);
  close_fixture(&x);
}

static void test_wrong_coordinates_are_found(void **state) {
  cells c = good;
  c.x[2] = 11; /* the MBR stays the same */
  c.x[3] = 5;
  expect(&c, "tile 0: out of order: cell 3", false);
  c = good;
  c.x[3] = 5;
  expect(&c, "tile 0: duplicates: cell 3", false);
  c = good;
  c.x[5] = 13; /* the last cell of tile 0 and the first of tile 1 are equal, and the MBR fits */
  c.box[2] = 13;
  expect(&c, "tile 1: duplicates: cell 0", false);
  c = good;
  c.x[7] = 120;
  expect(&c, "field 'x', tile 1: cell 2 is 120, outside of the domain", false);
}

static void test_wrong_boxes_are_found(void **state) {
  cells c = good;
  c.box[0] = 0; /* too wide */
  expect(&c, "box (MBR) of tile 0, dimension 'x': its low end is 0, the cells have 1", true);
  c = good;
  c.box[3] = 29; /* too narrow */
  expect(&c, "box (MBR) of tile 1, dimension 'x': its high end is 29, the cells have 30", true);
  c = good;
  c.domain[1] = 31;
  expect(&c, "non-empty domain of dimension 'x': its high end is 31, the cells have 30", true);
}

/* The levels above the leaves are read again, after the cells: they may be others by then. */
static void test_trees_that_change_meanwhile(void **state) {
  for (int tree = 1; tree <= 2; tree++) {
    fixture x;
    cells c = good, other = good;
    tsr_error error = {0};
    open_fixture(&x);
    c.tree = 1;
    c.x[1] = 14; /* a fault among the cells */
    other.tree = tree;
    make_files(&x, &c);
    tsr_buffer metadata = {.memory = &x.environment->memory};
    make_metadata(&metadata, &other);
    assert_int_equal(metadata.size, x.files[METADATA].size);
    change changing = {.other = &metadata};
    const char *folder = getenv("TMPDIR");
    char directory[200];
    snprintf(directory, sizeof directory, "%s/tessera-test-XXXXXX", folder && *folder ? folder : P_tmpdir);
    tsr_store *store;
    assert_non_null(mkdtemp(directory));
    snprintf(changing.file, sizeof changing.file, "%s/%s", directory, paths[METADATA]);
    assert_int_equal(tsr__store_directory_open(&x.environment->memory, directory, &store, NULL), TSR_OK);
    for (int i = 0; i < FILES; i++) tiny_put(store, paths[i], x.files[i].data, x.files[i].size);
    assert_int_equal(tsr__check_store(x.environment, store, NULL, note_and_change, &changing, &error), TSR_OK);
    assert_int_equal(tsr__store_directory_open(&x.environment->memory, directory, &store, NULL), TSR_OK);
    static const char *const folders[] = {"__schema", "__commits", "__fragments"};
    for (int i = 0; i < 3; i++) assert_int_equal(tsr__store_remove_tree(store, folders[i], NULL), TSR_OK);
    tsr__store_close(store);
    assert_int_equal(rmdir(directory), 0);
    tsr__buffer_release(&metadata);
    assert_true(changing.seen.faults >= 1);
    assert_int_equal(changing.told, tree == 2);
    close_fixture(&x);
  }
}

static void test_wrong_statistics_are_found(void **state) {
  cells c = good;
  c.min[0] = -19;
  expect(&c, "statistics: field 'a', tile 0: the minimum is said to be -19, the cells have -20", false);
  c = good;
  c.max[1] = 99;
  expect(&c, "statistics: field 'a', tile 1: the maximum is said to be 99, the cells have 80", false);
  c = good;
  c.sum[1] = 209;
  expect(&c, "statistics: field 'a', tile 1: the sum is said to be 209, the cells have 210", true);
  c = good;
  c.own_sum = 321;
  expect(&c, "fragment statistics: field 'a': the sum is not that of its tiles", true);
}

/* Every file is cut at every size: the check finds a fault. */
static void test_every_cut_is_found(void **state) {
  fixture x;
  open_fixture(&x);
  for (int f = 0; f < FILES; f++) {
    uint64_t size = x.files[f].size;
    for (x.files[f].size = 0; x.files[f].size < size; x.files[f].size++) assert_true(check(&x).faults > 0);
    tiny_u8(&x.files[f], 0);
    assert_true(check(&x).faults > 0);
    x.files[f].size--;
  }
  close_fixture(&x);
}

/* Three bits of each byte are flipped, one at a time. The check finds more than six in ten of these: some bytes, such
 * as parts of the headers of generic tiles, have no meaning. A flip in a value is always found. */
static void test_most_flipped_bits_are_found(void **state) {
  fixture x;
  open_fixture(&x);
  uint64_t flips = 0, found = 0;
  for (int f = 0; f < FILES; f++)
    for (uint64_t at = 0; at < x.files[f].size; at++)
      for (int bit = 0; bit < 8; bit += 3) {
        x.files[f].data[at] ^= (uint8_t)(1 << bit);
        bool any = check(&x).faults > 0;
        flips++;
        found += any;
        if (f == VALUES) assert_true(any); /* every value is part of a sum */
        x.files[f].data[at] ^= (uint8_t)(1 << bit);
      }
  assert_true(found * 10 > flips * 6);
  assert_int_equal(check(&x).count, 0);
  close_fixture(&x);
}

static void test_callback_and_host_stop_the_check(void **state) {
  fixture x;
  open_fixture(&x);
  tsr_error error = {0};
  seen s = {.stop_at = 1};
  x.files[COORDINATES].size = x.files[VALUES].size = 10;
  assert_int_equal(check_with(&x, NULL, &s, &error), TSR_ABORT);
  assert_int_equal(s.count, 1);
  s = (seen){0};
  x.stop = true;
  assert_int_equal(check_with(&x, NULL, &s, &error), TSR_INTERRUPT);
  assert_int_equal(s.count, 0);
  close_fixture(&x);
}

/* Each allocation fails in turn. The check returns TSR_NOMEM, or a warning says what was not checked; no memory leaks,
 * and nothing is called damaged. */
static void test_every_allocation_may_fail(void **state) {
  fixture x;
  open_fixture(&x);
  bool done = false;
  for (long n = 0; !done; n++) {
    tsr_error error = {0};
    seen s = {0};
    tsr_store *store = make_store(&x);
    x.memory.left = n;
    int rc = tsr__check_store(x.environment, store, NULL, note, &s, &error);
    done = !x.memory.failed;
    x.memory.left = -1;
    x.memory.failed = false;
    assert_true(rc == TSR_OK || rc == TSR_NOMEM);
    if (!done && rc == TSR_OK) assert_true(s.faults > 0);
    if (s.faults) assert_non_null(strstr(s.message, "not checked"));
  }
  seen s = {0};
  assert_int_equal(check_with(&x, &(tsr_check_options){.memory_bytes = 100000}, &s, NULL), TSR_OK);
  close_fixture(&x);
}

static void test_key_for_plain_array_is_an_error(void **state) {
  static const uint8_t key[TSR_KEY_SIZE] = {1};
  fixture x;
  open_fixture(&x);
  tsr_error error = {0};
  seen s = {0};
  assert_int_equal(check_with(&x, &(tsr_check_options){.key = key}, &s, &error), TSR_AUTH);
  assert_non_null(strstr(error.message, "not encrypted"));
  assert_int_equal(s.count, 0);
  close_fixture(&x);
}

static void test_missing_array_is_an_error(void **state) {
  fixture x;
  open_fixture(&x);
  tsr_error error = {0};
  seen s = {0};
  tsr_store *store;
  assert_int_equal(tsr__store_memory_open(&x.environment->memory, "array", &store, NULL), TSR_OK);
  assert_int_equal(tsr__check_store(x.environment, store, NULL, note, &s, &error), TSR_NOT_FOUND);
  assert_non_null(strstr(error.message, "array not found: array"));
  assert_int_equal(tsr_array_check(x.environment, "/nowhere/at/all", NULL, note, &s, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_array_check(x.environment, "", NULL, note, &s, NULL), TSR_NOT_FOUND);
  assert_int_equal(s.count, 0);
  close_fixture(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_is_found_in_sound_array), cmocka_unit_test(test_wrong_coordinates_are_found),
      cmocka_unit_test(test_wrong_boxes_are_found),           cmocka_unit_test(test_trees_that_change_meanwhile),
      cmocka_unit_test(test_wrong_statistics_are_found),      cmocka_unit_test(test_every_cut_is_found),
      cmocka_unit_test(test_most_flipped_bits_are_found),     cmocka_unit_test(test_callback_and_host_stop_the_check),
      cmocka_unit_test(test_every_allocation_may_fail),       cmocka_unit_test(test_key_for_plain_array_is_an_error),
      cmocka_unit_test(test_missing_array_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
