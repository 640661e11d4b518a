/* test_ingest_arrow.c: batches of every Arrow type that an ingest takes, given out again as a stream; types that it
 * refuses; batches whose structures contradict each other; and memory that ends at each allocation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera.h"
#include "counted_memory.h"

static counted_memory counted;

/* An allocation that fails once, with enough memory after it. */
static long fails_at; /* so many calls succeed before it; < 0: none fails */
static void *reallocate(void *argument, void *pointer, uint64_t size) {
  if (size > 0 && fails_at >= 0 && fails_at-- == 0) return NULL;
  return counted_reallocate(argument, pointer, size);
}

static tsr_environment *environment;
static tsr_error error;

static int setup(void **state) {
  counted = (counted_memory){.left = -1};
  fails_at = -1;
  const tsr_environment_options options = {.reallocate = reallocate, .reallocate_argument = &counted};
  return tsr_environment_open(&options, &environment, NULL);
}

static int teardown(void **state) {
  tsr_environment_close(environment);
  assert_int_equal(counted.blocks, 0);
  return 0;
}

/* ---- Batches of one column ------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_array(struct ArrowArray *array) { array->release = NULL; }

/* A column, its values or its dictionary, and the batch around it. */
typedef struct one_column {
  struct ArrowSchema field, inner, whole, *field_at, *inner_at;
  struct ArrowArray array, values, batch, *array_at, *values_at;
  const void *buffers[5], *inner_buffers[3];
} one_column;

/* What a column has: buffers beside the validity, and those of its values or its dictionary. */
typedef struct given {
  const char *format, *inner; /* inner: the format of the values of a list, or of a dictionary */
  int64_t length, offset, inner_length;
  const void *validity, *buffer, *bytes, *more, *sizes; /* more, sizes: of views */
  const void *inner_validity, *inner_buffer, *inner_bytes;
} given;

static void make(one_column *c, const given *g) {
  const bool list = *g->format == '+', views = *g->format == 'v', strings = strchr("uUzZ", *g->format) != NULL;
  memset(c, 0, sizeof *c);
  c->field =
      (struct ArrowSchema){.format = g->format, .name = "c", .flags = ARROW_FLAG_NULLABLE, .release = release_schema};
  c->array = (struct ArrowArray){.length = g->length - g->offset,
                                 .offset = g->offset,
                                 .null_count = g->validity ? -1 : 0,
                                 .n_buffers = views                              ? 4
                                              : strings                          ? 3
                                              : strncmp(g->format, "+w", 2) == 0 ? 1
                                                                                 : 2,
                                 .buffers = c->buffers,
                                 .release = release_array};
  if (*g->format == 'n') c->array.n_buffers = 0;
  c->buffers[0] = g->validity;
  c->buffers[1] = g->buffer;
  c->buffers[2] = views ? g->more : g->bytes;
  c->buffers[3] = g->sizes;
  if (g->inner) {
    c->inner = (struct ArrowSchema){.format = g->inner, .name = "item", .release = release_schema};
    c->values = (struct ArrowArray){.length = g->inner_length,
                                    .null_count = g->inner_validity ? -1 : 0,
                                    .n_buffers = strchr("uUzZ", *g->inner) ? 3 : 2,
                                    .buffers = c->inner_buffers,
                                    .release = release_array};
    c->inner_buffers[0] = g->inner_validity;
    c->inner_buffers[1] = g->inner_buffer;
    c->inner_buffers[2] = g->inner_bytes;
    c->inner_at = &c->inner;
    c->values_at = &c->values;
    if (list) {
      c->field.n_children = c->array.n_children = 1;
      c->field.children = &c->inner_at;
      c->array.children = &c->values_at;
    } else {
      c->field.dictionary = &c->inner;
      c->array.dictionary = &c->values;
    }
  }
  c->field_at = &c->field;
  c->array_at = &c->array;
  c->whole = (struct ArrowSchema){
      .format = "+s", .name = "", .n_children = 1, .children = &c->field_at, .release = release_schema};
  c->batch = (struct ArrowArray){
      .length = c->array.length, .n_children = 1, .children = &c->array_at, .release = release_array};
}

/* ---- What an ingest gives out ---------------------------------------------------------------- */

static bool is_set(const void *bits, int64_t i) { return !bits || ((const uint8_t *)bits)[i / 8] >> (i % 8) & 1; }

static int64_t offset_of(const struct ArrowSchema *schema, const void *offsets, int64_t i) {
  return strchr("UZL", schema->format[strlen(schema->format) - 1]) ? ((const int64_t *)offsets)[i]
                                                                   : ((const int32_t *)offsets)[i];
}

static void print_value(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i, char *to);

static void print_list(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from, int64_t end,
                       char *to) {
  strcat(to, "[");
  for (int64_t k = from; k < end; k++) {
    if (k > from) strcat(to, " ");
    print_value(schema->children[0], array->children[0], k, to);
  }
  strcat(to, "]");
}

static void print_value(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t i, char *to) {
  const char *f = schema->format;
  const size_t size = strlen(to);
  i += array->offset;
  to += size;
  if (*f == 'n' || !is_set(array->buffers[0], i)) {
    strcpy(to, "null");
    return;
  }
  const void *at = array->n_buffers > 1 ? array->buffers[1] : NULL;
  int64_t integer = 0;
  switch (*f) {
  case 'b': integer = is_set(at, i); break;
  case 'c': integer = ((const int8_t *)at)[i]; break;
  case 'C': integer = ((const uint8_t *)at)[i]; break;
  case 's': integer = ((const int16_t *)at)[i]; break;
  case 'S': integer = ((const uint16_t *)at)[i]; break;
  case 'i': integer = ((const int32_t *)at)[i]; break;
  case 'I': integer = ((const uint32_t *)at)[i]; break;
  case 'L': sprintf(to, "%" PRIu64, ((const uint64_t *)at)[i]); return;
  case 'f': sprintf(to, "%.9g", (double)((const float *)at)[i]); return;
  case 'g': sprintf(to, "%.17g", ((const double *)at)[i]); return;
  case '+':
    if (f[1] == 'w') print_list(schema, array, i * atoi(f + 3), (i + 1) * atoi(f + 3), to);
    else print_list(schema, array, offset_of(schema, at, i), offset_of(schema, at, i + 1), to);
    return;
  case 'u':
  case 'U':
  case 'z':
  case 'Z': {
    const int64_t from = offset_of(schema, at, i), end = offset_of(schema, at, i + 1);
    sprintf(to, "'%.*s'", (int)(end - from), (const char *)array->buffers[2] + from);
    return;
  }
  case 't':
    integer = strcmp(f, "tdD") == 0 || strcmp(f, "tts") == 0 || strcmp(f, "ttm") == 0 ? ((const int32_t *)at)[i]
                                                                                      : ((const int64_t *)at)[i];
    break;
  default: integer = ((const int64_t *)at)[i];
  }
  if (schema->dictionary) print_value(schema->dictionary, array->dictionary, integer, to);
  else sprintf(to, "%" PRId64, integer);
}

/* Reads the stream of an ingest. Writes "format: value value ...". */
static int print_stream(tsr_ingest *ingest, char *to) {
  const tsr_arrow_options options = {0};
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray batch;
  int rc = tsr_ingest_stream(ingest, &options, &stream, &error);
  if (rc < 0) return rc;
  rc = stream.get_schema(&stream, &schema);
  if (rc == 0) {
    sprintf(to, "%s:", schema.children[0]->format);
    while ((rc = stream.get_next(&stream, &batch)) == 0 && batch.release) {
      assert_true(batch.length > 0);
      for (int64_t i = 0; i < batch.length; i++) {
        strcat(to, " ");
        print_value(schema.children[0], batch.children[0], i, to);
      }
      if (schema.children[0]->dictionary) strcat(to, " of");
      for (int64_t i = 0; schema.children[0]->dictionary && i < batch.children[0]->dictionary->length; i++) {
        strcat(to, " ");
        print_value(schema.children[0]->dictionary, batch.children[0]->dictionary, i, to);
      }
      batch.release(&batch);
    }
    schema.release(&schema);
  }
  stream.release(&stream);
  return rc == 0 ? TSR_OK : rc == ENOMEM ? TSR_NOMEM : TSR_ERROR;
}

/* Takes the batch into an ingest with this column (NULL: the one that the stream describes), and gives it out. */
static int through(const one_column *c, const tsr_ingest_column *column, char *to) {
  tsr_ingest_column own;
  tsr_ingest *ingest = NULL;
  int rc = tsr_arrow_columns(&c->whole, &own, &error);
  if (rc < 0) return rc;
  const tsr_ingest_options options = {.columns = column ? column : &own, .column_count = 1};
  rc = tsr_ingest_open(environment, &options, &ingest, &error);
  if (rc >= 0) rc = tsr_ingest_arrow(ingest, &c->whole, &c->batch, &(int){0}, &error);
  if (rc >= 0) rc = print_stream(ingest, to);
  tsr_ingest_close(ingest);
  return rc;
}

static void expect(const given *g, const char *text) {
  char found[1000] = "";
  one_column c;
  make(&c, g);
  const int rc = through(&c, NULL, found);
  if (rc < 0) fail_msg("%s: %s", g->format, error.message);
  if (strcmp(found, text) != 0) fail_msg("%s: %s, not %s", g->format, found, text);
}

/* ---- Types ----------------------------------------------------------------------------------- */

static const uint8_t all_but_second[] = {0xfd, 0xff};

static const int8_t i8[] = {-128, 1, 127};
static const uint8_t u8[] = {255, 1, 128};
static const int16_t i16[] = {-32768, 1, 32767};
static const uint16_t u16[] = {65535, 1, 32768};
static const int32_t i32[] = {INT32_MIN, 1, INT32_MAX};
static const uint32_t u32[] = {UINT32_MAX, 1, 0x80000000u};
static const int64_t i64[] = {INT64_MIN + 1, 1, INT64_MAX};
static const uint64_t u64[] = {UINT64_MAX, 1, UINT64_C(1) << 63};
static const uint16_t halves[] = {0x3e00, 0x8001, 0x7c00, 0xfbff, 0x0400, 0x0000};
static const float f32[] = {1.5f, 1, -0.25f};
static const double f64[] = {0.1, 1, -1e300};
static const uint8_t bits[] = {0x2c}; /* 0 0 1 1 0 1 */
static const int32_t ends32[] = {0, 2, 2, 5};
static const int64_t ends64[] = {0, 2, 2, 5};
static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
static const int64_t times[] = {0, 1, 86399};
static const int16_t numbers[] = {1, 2, 3, 4, 5, 6};
static const int32_t short_times[] = {0, 1, 86399, 5};
static const uint16_t u16_indices[] = {1, 2, 1};

typedef struct view {
  int32_t size;
  char begin[4];
  int32_t buffer, at;
} view;
static const int64_t view_sizes[] = {26};
static const view views[] = {{3, {'a', 'b', 'c'}, 0, 0}, {0, {0}, 0, 0}, {13, {'b', 'c', 'd', 'e'}, 0, 1}};

static const int8_t indices[] = {2, 0, 0};
static const given of_int32 = {.format = "i", .length = 3, .validity = all_but_second, .buffer = i32};
static const given of_text = {
    .format = "u", .length = 3, .validity = all_but_second, .buffer = ends32, .bytes = letters};
static const given of_views = {.format = "vu", .length = 3, .buffer = views, .more = letters, .sizes = view_sizes};
static const given of_lists = {.format = "+l",
                               .inner = "s",
                               .length = 3,
                               .validity = all_but_second,
                               .buffer = ends32,
                               .inner_length = 6,
                               .inner_buffer = numbers};
static const given of_pairs = {
    .format = "+w:2", .inner = "i", .length = 2, .inner_length = 4, .inner_buffer = short_times};
static const given of_bools = {
    .format = "+l", .inner = "b", .length = 3, .buffer = ends32, .inner_length = 6, .inner_buffer = bits};
static const given of_labels = {.format = "c",
                                .inner = "u",
                                .length = 3,
                                .validity = all_but_second,
                                .buffer = indices,
                                .inner_length = 3,
                                .inner_buffer = ends32,
                                .inner_bytes = letters};

static void test_each_type_is_taken(void **state) {
  expect(&(given){.format = "c", .length = 3, .validity = all_but_second, .buffer = i8}, "c: -128 null 127");
  expect(&(given){.format = "C", .length = 3, .validity = all_but_second, .buffer = u8}, "C: 255 null 128");
  expect(&(given){.format = "s", .length = 3, .validity = all_but_second, .buffer = i16}, "s: -32768 null 32767");
  expect(&(given){.format = "S", .length = 3, .validity = all_but_second, .buffer = u16}, "S: 65535 null 32768");
  expect(&of_int32, "i: -2147483648 null 2147483647");
  expect(&(given){.format = "I", .length = 3, .validity = all_but_second, .buffer = u32},
         "I: 4294967295 null 2147483648");
  expect(&(given){.format = "l", .length = 3, .validity = all_but_second, .buffer = i64},
         "l: -9223372036854775807 null 9223372036854775807");
  expect(&(given){.format = "L", .length = 3, .validity = all_but_second, .buffer = u64},
         "L: 18446744073709551615 null 9223372036854775808");
  expect(&(given){.format = "e", .length = 6, .buffer = halves}, "f: 1.5 -5.96046448e-08 inf -65504 6.10351562e-05 0");
  expect(&(given){.format = "f", .length = 3, .validity = all_but_second, .buffer = f32}, "f: 1.5 null -0.25");
  expect(&(given){.format = "g", .length = 3, .validity = all_but_second, .buffer = f64},
         "g: 0.10000000000000001 null -1.0000000000000001e+300");
  expect(&(given){.format = "b", .length = 6, .buffer = bits}, "b: 0 0 1 1 0 1");
  expect(&(given){.format = "b", .length = 6, .offset = 2, .buffer = bits}, "b: 1 1 0 1");
  expect(&(given){.format = "i", .length = 3, .offset = 1, .validity = all_but_second, .buffer = i32},
         "i: null 2147483647");
  expect(&of_text, "U: 'ab' null 'cde'");
  expect(&(given){.format = "u", .length = 3, .offset = 1, .buffer = ends32, .bytes = letters}, "U: '' 'cde'");
  expect(&(given){.format = "U", .length = 3, .buffer = ends64, .bytes = letters}, "U: 'ab' '' 'cde'");
  expect(&(given){.format = "z", .length = 3, .buffer = ends32, .bytes = letters}, "Z: 'ab' '' 'cde'");
  expect(&(given){.format = "Z", .length = 3, .validity = all_but_second, .buffer = ends64, .bytes = letters},
         "Z: 'ab' null 'cde'");
  expect(&of_views, "U: 'abc' '' 'bcdefghijklmn'");
  expect(&(given){.format = "vz", .length = 3, .offset = 1, .buffer = views, .more = letters, .sizes = view_sizes},
         "Z: '' 'bcdefghijklmn'");
  expect(&(given){.format = "n", .length = 3}, "n: null null null");
  static const uint8_t none[] = {0};
  expect(&(given){.format = "l", .length = 3, .validity = none, .buffer = i64}, "l: null null null");
  expect(&(given){.format = "tdD", .length = 3, .buffer = short_times}, "tdD: 0 1 86399");
  expect(&(given){.format = "tdm", .length = 3, .buffer = times}, "tsm:: 0 1 86399");
  expect(&(given){.format = "tss:", .length = 3, .buffer = times}, "tss:: 0 1 86399");
  expect(&(given){.format = "tsu:Europe/Berlin", .length = 3, .buffer = times}, "tsu:: 0 1 86399");
  expect(&(given){.format = "tsn:UTC", .length = 3, .buffer = times}, "tsn:: 0 1 86399");
  expect(&(given){.format = "tts", .length = 3, .buffer = short_times}, "tts: 0 1 86399");
  expect(&(given){.format = "ttm", .length = 3, .buffer = short_times}, "ttm: 0 1 86399");
  expect(&(given){.format = "ttu", .length = 3, .buffer = times}, "ttu: 0 1 86399");
  expect(&(given){.format = "tDs", .length = 3, .buffer = times}, "tDs: 0 1 86399");
  expect(&of_lists, "+L: [1 2] null [3 4 5]");
  expect(&(given){.format = "+L",
                  .inner = "g",
                  .length = 2,
                  .offset = 1,
                  .buffer = ends64,
                  .inner_length = 2,
                  .inner_buffer = f64},
         "+L: []");
  expect(&(given){.format = "+l", .inner = "b", .length = 3, .buffer = ends32, .inner_length = 6, .inner_buffer = bits},
         "+L: [0 0] [] [1 1 0]");
  expect(&of_pairs, "+w:2: [0 1] [86399 5]");
  expect(
      &(given){
          .format = "+w:2", .inner = "i", .length = 2, .offset = 1, .inner_length = 4, .inner_buffer = short_times},
      "+w:2: [86399 5]");
  expect(&(given){.format = "+w:1", .inner = "i", .length = 2, .inner_length = 2, .inner_buffer = short_times},
         "+L: [0] [1]");
  expect(&of_labels, "S: 'cde' null 'ab' of 'ab' '' 'cde'");
  given gaps = of_labels; /* a label that is null is none, and a row with it is null */
  gaps.validity = NULL;
  gaps.inner_validity = (const uint8_t[]){0xfe};
  expect(&gaps, "S: 'cde' null null of '' 'cde'");
  expect(
      &(given){.format = "S", .inner = "i", .length = 3, .buffer = u16_indices, .inner_length = 3, .inner_buffer = i32},
      "S: 1 2147483647 1 of -2147483648 1 2147483647");
  expect(&(given){.format = "i", .inner = "b", .length = 3, .buffer = ends32, .inner_length = 6, .inner_buffer = bits},
         "S: 0 1 1 of 0 1");
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void test_types_without_a_datatype(void **state) {
  static const struct {
    given of;
    const char *says;
  } cases[] = {
      {{.format = "d:10,2"}, "Arrow type decimal 'd:10,2': cast it first"},
      {{.format = "w:3"}, "fixed_size_binary 'w:3'"},
      {{.format = "tiM"}, "interval 'tiM'"},
      {{.format = "+s"}, "struct '+s'"},
      {{.format = "+m", .inner = "+s"}, "map '+m' of '+s'"},
      {{.format = "+r"}, "run_end_encoded '+r'"},
      {{.format = "+us:0"}, "union '+us:0'"},
      {{.format = "+vl", .inner = "i"}, "list_view '+vl' of 'i'"},
      {{.format = "+l", .inner = "u"}, "list '+l' of 'u'"},
      {{.format = "+l", .inner = "e"}, "list '+l' of 'e'"},
      {{.format = "+l", .inner = "tdD"}, "list '+l' of 'tdD'"},
      {{.format = "+l", .inner = "n"}, "list '+l' of 'n'"},
      {{.format = "+l"}, "list '+l': cast"},
      {{.format = "+w:0", .inner = "i"}, "list '+w:0' of 'i'"},
      {{.format = "+w:2147483648", .inner = "i"}, "'+w:2147483648'"},
      {{.format = "+w:3x", .inner = "i"}, "'+w:3x'"},
      {{.format = "tsx:"}, "'tsx:'"},
      {{.format = "ts"}, "'ts'"},
      {{.format = "cc"}, "'cc'"},
      {{.format = "g", .inner = "u"}, "'g' with a dictionary"},
      {{.format = "b", .inner = "u"}, "'b' with a dictionary"},
      {{.format = "u", .inner = "u"}, "'u' with a dictionary"},
      {{.format = "c", .inner = "z"}, "'c' with a dictionary"},
      {{.format = "c", .inner = "tdD"}, "'c' with a dictionary"},
  };
  tsr_ingest_column column;
  one_column c;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make(&c, &cases[i].of);
    const int rc = tsr_arrow_columns(&c.whole, &column, &error);
    if (rc != TSR_UNSUPPORTED || !strstr(error.message, cases[i].says))
      fail_msg("case %d: %d: %s", (int)i, rc, error.message);
  }
  make(&c, &of_lists);
  c.inner.dictionary = &c.field;
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_UNSUPPORTED);
  make(&c, &of_lists); /* what is released, and one of several, is not named */
  c.inner.release = NULL;
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_UNSUPPORTED);
  assert_null(strstr(error.message, " of "));
  make(&c, &(given){.format = "+s", .inner = "i"});
  c.field.n_children = 2;
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_UNSUPPORTED);
  assert_null(strstr(error.message, " of "));
  make(&c, &(given){.format = "tss:"});
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_OK);
  assert_null(column.zone);
  make(&c, &(given){.format = "tss:UTC"});
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_OK);
  assert_string_equal(column.zone, "UTC");
  make(&c, &of_lists);
  c.field.children = NULL;
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_UNSUPPORTED);
  make(&c, &(given){.format = "+w:2147483647", .inner = "i"}); /* the longest */
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_OK);
  assert_int_equal(column.values_per_cell, INT32_MAX);
  make(&c, &(given){.format = "+w:1987654320", .inner = "i"}); /* every digit */
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_OK);
  assert_int_equal(column.values_per_cell, 1987654320);
  make(&c, &of_int32);
  c.field.format = NULL;
  assert_int_equal(tsr_arrow_columns(&c.whole, &column, &error), TSR_UNSUPPORTED);
}

/* The ways in which a stream can be no stream of columns. */
static void test_streams_without_columns(void **state) {
  for (int i = 0; i < 9; i++) {
    tsr_ingest_column column;
    one_column c;
    make(&c, &of_int32);
    switch (i) {
    case 0: c.whole.release = NULL; break;
    case 1: c.whole.format = NULL; break;
    case 2: c.whole.format = "i"; break;
    case 3: c.whole.n_children = 0; break;
    case 4: c.whole.n_children = -1; break;
    case 5: c.whole.children = NULL; break;
    case 6: c.field_at = NULL; break;
    case 7: c.field.release = NULL; break;
    default: c.field.name = NULL;
    }
    if (tsr_arrow_columns(&c.whole, &column, &error) != TSR_MISMATCH) fail_msg("case %d", i);
  }
}

static void refuse(one_column *c, const char *says, int line) {
  char found[1000] = "";
  const int rc = through(c, NULL, found);
  if (rc != TSR_CORRUPT || !strstr(error.message, says)) fail_msg("line %d: %d: %s", line, rc, error.message);
}

/* Makes a batch, breaks it, and expects it to be refused. */
#define BREAK(of, change, says)                                                                                        \
  do {                                                                                                                 \
    one_column c;                                                                                                      \
    make(&c, &(of));                                                                                                   \
    change;                                                                                                            \
    refuse(&c, says, __LINE__);                                                                                        \
  } while (0)

static void test_batches_that_contradict_themselves(void **state) {
  static const int32_t falling[] = {0, 2, 1, 5}, negative[] = {-1, 2, 2, 5}, too_far[] = {0, 2, 2, 7};
  static const int64_t beyond[] = {0, 2, 2, INT64_MIN};
  static const int8_t past[] = {2, 0, 3}, below[] = {-1, 0, 0};
  BREAK(of_int32, c.batch.release = NULL, "other columns");
  BREAK(of_int32, c.batch.n_children = 2, "other columns");
  BREAK(of_int32, c.batch.children = NULL, "other columns");
  BREAK(of_int32, c.batch.length = -1, "the length of the batch");
  BREAK(of_int32, c.batch.offset = -1, "the length of the batch");
  BREAK(of_int32, c.batch.length = INT64_MAX / 64 + 1, "the length of the batch");
  BREAK(of_int32, c.batch.offset = INT64_MAX / 64 + 1, "the length of the batch");
  BREAK(of_int32, c.batch.null_count = 1, "rows that are null");
  BREAK(of_int32, c.array_at = NULL, "missing or released");
  BREAK(of_int32, c.array.release = NULL, "missing or released");
  BREAK(of_int32, c.array.offset = -1, "its length");
  BREAK(of_int32, c.array.length = -1, "its length");
  BREAK(of_int32, c.array.offset = INT64_MAX / 32 + 1, "its length");
  BREAK(of_int32, c.array.length = INT64_MAX / 32 + 1, "its length");
  BREAK(of_int32, c.array.length = 2, "shorter than the batch");
  BREAK(of_int32, c.batch.offset = 1, "shorter than the batch");
  BREAK(of_int32, c.array.n_buffers = 1, "its number of buffers");
  BREAK(of_int32, c.array.buffers = NULL, "its number of buffers");
  BREAK(of_int32, (c.array.null_count = 1, c.buffers[0] = NULL), "nulls without validity");
  BREAK(of_int32, c.buffers[1] = NULL, "a buffer is missing");
  BREAK(of_text, c.array.n_buffers = 2, "its number of buffers");
  BREAK(of_text, c.buffers[1] = falling, "not in order");
  BREAK(of_text, c.buffers[1] = negative, "not in order");
  BREAK(of_text, c.buffers[2] = NULL, "it has no bytes");
  BREAK(of_text, (c.field.format = "U", c.buffers[1] = beyond), "not in order");
  view wrong[3];
  memcpy(wrong, views, sizeof views);
  BREAK(of_views, (c.buffers[1] = wrong, wrong[2].size = -1), "the length of a string");
  BREAK(of_views, (c.buffers[1] = wrong, wrong[2] = (view){13, "", 1, 1}), "outside of all buffers");
  BREAK(of_views, (c.buffers[1] = wrong, wrong[2] = (view){13, "", -1, 1}), "outside of all buffers");
  BREAK(of_views, (c.buffers[1] = wrong, wrong[2] = (view){13, "", 0, -1}), "outside of all buffers");
  BREAK(of_views, (c.buffers[1] = wrong, wrong[2] = (view){13, "", 0, 14}), "past the end of its buffer");
  BREAK(of_views, (c.buffers[1] = wrong, wrong[2] = (view){INT32_MAX, "", 0, INT32_MAX}), "past the end of its buffer");
  BREAK(of_views, c.buffers[2] = NULL, "past the end of its buffer");
  BREAK(of_views, c.buffers[3] = NULL, "outside of all buffers");
  BREAK(of_views, c.array.n_buffers = 2, "its number of buffers");
  BREAK(of_views, c.array.n_buffers = 3, "outside of all buffers");
  BREAK(of_lists, c.array.n_children = 0, "its lists");
  BREAK(of_lists, c.array.children = NULL, "its lists");
  BREAK(of_lists, c.values.length = 4, "shorter than the batch");
  BREAK(of_lists, c.buffers[1] = too_far, "shorter than the batch");
  BREAK(of_lists, c.buffers[1] = falling, "not in order");
  BREAK(of_lists, c.inner_buffers[1] = NULL, "a buffer is missing");
  BREAK(of_pairs, c.values.length = 3, "shorter than the batch");
  BREAK(of_labels, c.array.dictionary = NULL, "its dictionary is missing");
  BREAK(of_labels, c.values.length = -1, "the length of its dictionary");
  BREAK(of_labels, c.buffers[1] = past, "an index past its dictionary");
  BREAK(of_labels, c.buffers[1] = below, "an index past its dictionary");
  BREAK(of_labels, c.values.release = NULL, "missing or released");
  /* What lies just within the limits is taken. */
  expect(&(given){.format = "vu",
                  .length = 3,
                  .buffer = (const view[]){{0}, {12, "abcd", 0x68676665, 0x6c6b6a69}, {13, "n", 0, 13}},
                  .more = letters,
                  .sizes = view_sizes},
         "U: '' 'abcdefghijkl' 'nopqrstuvwxyz'");
  expect(
      &(given){
          .format = "vu", .length = 1, .buffer = (const view[]){{13, "a", 0, 0}}, .more = letters, .sizes = view_sizes},
      "U: 'abcdefghijklm'");
  given beyond_null = of_lists; /* a null that no list has */
  beyond_null.inner_validity = (const uint8_t[]){0xdf};
  expect(&beyond_null, "+L: [1 2] null [3 4 5]");
  one_column later;
  char found[100] = "";
  make(&later, &of_int32);
  later.array.null_count = 1; /* it may be counted */
  assert_int_equal(through(&later, NULL, found), TSR_OK);
  assert_string_equal(found, "i: -2147483648 null 2147483647");
  make(&later, &of_bools);
  later.values.offset = 1;
  later.values.length = 5;
  assert_int_equal(through(&later, NULL, found), TSR_OK);
  assert_string_equal(found, "+L: [0 1] [] [1 0 1]");
  expect(&(given){.format = "i", .length = 0}, "i:");
  expect(&(given){.format = "i", .length = INT64_MAX / 32, .offset = INT64_MAX / 32}, "i:");
  expect(&(given){.format = "+l", .inner = "i", .length = 0}, "+L:");
}

/* Columns of an existing array: their datatypes are not the stream's. */
static void test_values_for_another_column(void **state) {
  static const int64_t whole[] = {-1000, 0, 2000}, fraction[] = {2001};
  static const uint8_t first_null[] = {0xfe};
  char found[200] = "";
  one_column c;
  tsr_ingest_column seconds = {.name = "c", .typed = true, .datatype = TSR_DATETIME_SEC, .values_per_cell = 1};
  make(&c, &(given){.format = "tsm:", .length = 3, .buffer = whole});
  assert_int_equal(through(&c, &seconds, found), TSR_OK);
  assert_string_equal(found, "tss:: -1 0 2");
  make(&c, &(given){.format = "tsm:", .length = 1, .buffer = fraction});
  assert_int_equal(through(&c, &seconds, found), TSR_RANGE);
  assert_non_null(strstr(error.message,
                         "row 1: column 'c': 1970-01-01 00:00:02.001 is finer than DATETIME_SEC, which the column is"));
  seconds.datatype = TSR_INT64; /* as numbers */
  make(&c, &(given){.format = "tsm:", .length = 1, .buffer = fraction});
  assert_int_equal(through(&c, &seconds, found), TSR_OK);
  assert_string_equal(found, "l: 2001");

  tsr_ingest_column nothing = {.name = "c", .has_empty = true, .empty = TSR_UTF8};
  make(&c, &(given){.format = "n", .length = 2});
  assert_int_equal(through(&c, &nothing, found), TSR_OK);
  assert_string_equal(found, "U: null null");

  tsr_ingest_column floats = {.name = "c", .typed = true, .datatype = TSR_FLOAT32, .values_per_cell = TSR_VARIABLE};
  make(&c, &of_lists);
  assert_int_equal(through(&c, &floats, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "lists of INT16 in a column of FLOAT32"));
  floats.datatype = TSR_INT16;
  floats.values_per_cell = 1;
  assert_int_equal(through(&c, &floats, found), TSR_MISMATCH);
  given nulls = of_lists;
  nulls.inner_validity = first_null;
  make(&c, &nulls);
  assert_int_equal(through(&c, NULL, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "row 1: column 'c': a null in a list"));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Each allocation fails once: an error, no leak, and the same result with more memory. */
static void test_memory_that_ends(void **state) {
  const given *const all[] = {&of_int32, &of_text, &of_views, &of_lists, &of_pairs, &of_bools, &of_labels};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char first[1000] = "";
    one_column c;
    make(&c, all[i]);
    assert_int_equal(through(&c, NULL, first), TSR_OK);
    const int before = counted.blocks;
    bool done = false;
    for (long n = 0; !done; n++) {
      char found[1000] = "";
      if (n % 2) fails_at = n / 2; /* once, and from then on */
      else counted.left = n / 2;
      const int rc = through(&c, NULL, found);
      done = fails_at >= 0; /* it did not come to that */
      counted.left = fails_at = -1;
      if (rc >= 0) assert_string_equal(found, first);
      else if (rc != TSR_NOMEM) fail_msg("case %d, allocation %ld: %d: %s", (int)i, n, rc, error.message);
      assert_true(counted.blocks <= before + 1);
      assert_true(n < 2000);
    }
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_each_type_is_taken),        TEST(test_types_without_a_datatype),
      TEST(test_streams_without_columns),   TEST(test_batches_that_contradict_themselves),
      TEST(test_values_for_another_column), TEST(test_memory_that_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
