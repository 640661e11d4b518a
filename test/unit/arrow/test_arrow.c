/* test_arrow.c: the Arrow type of each datatype; columns from constant cells, runs and selections, with nulls, NaT,
 * text of every encoding, lists, labels and codes; what has no Arrow value is an error; streams give all cells in
 * batches, outlive their array's caller, and batches outlive the stream. */
#include "small_array.h"

#include <errno.h>

#include "arrow/arrow.h"

static tsr_arrow_options options;

static tsr_arrow_type type_of(tsr_datatype datatype, uint32_t values_per_cell, bool nullable) {
  const tsr_field field = {.name = "f", .datatype = datatype, .values_per_cell = values_per_cell, .nullable = nullable};
  static char name[] = "f";
  tsr_field named = field;
  tsr_arrow_type type;
  named.name = name;
  tsr__arrow_type_choose(&named, NULL, false, &options, &type);
  return type;
}

static void each_datatype_has_a_type(void **state) {
  (void)state;
  static const struct {
    tsr_datatype datatype;
    uint32_t values;
    const char *format;
  } cases[] = {{TSR_INT8, 1, "c"},
               {TSR_UINT8, 1, "C"},
               {TSR_INT16, 1, "s"},
               {TSR_UINT16, 1, "S"},
               {TSR_INT32, 1, "i"},
               {TSR_UINT32, 1, "I"},
               {TSR_INT64, 1, "l"},
               {TSR_UINT64, 1, "L"},
               {TSR_FLOAT32, 1, "f"},
               {TSR_FLOAT64, 1, "g"},
               {TSR_BOOL, 1, "b"},
               {TSR_FLOAT32, 3, "+w:3"},
               {TSR_INT32, TSR_VARIABLE, "+L"},
               {TSR_CHAR, TSR_VARIABLE, "U"},
               {TSR_ASCII, 4, "U"},
               {TSR_UTF8, TSR_VARIABLE, "U"},
               {TSR_UTF16, TSR_VARIABLE, "U"},
               {TSR_UCS4, TSR_VARIABLE, "U"},
               {TSR_BLOB, TSR_VARIABLE, "Z"},
               {TSR_ANY, TSR_VARIABLE, "Z"},
               {TSR_GEOM_WKB, TSR_VARIABLE, "Z"},
               {TSR_GEOM_WKT, TSR_VARIABLE, "U"},
               {TSR_DATETIME_YEAR, 1, "tdD"},
               {TSR_DATETIME_DAY, 1, "tdD"},
               {TSR_DATETIME_HR, 1, "tss:"},
               {TSR_DATETIME_MIN, 1, "tss:"},
               {TSR_DATETIME_SEC, 1, "tss:"},
               {TSR_DATETIME_MS, 1, "tsm:"},
               {TSR_DATETIME_US, 1, "tsu:"},
               {TSR_DATETIME_NS, 1, "tsn:"},
               {TSR_DATETIME_PS, 1, "l"},
               {TSR_TIME_HR, 1, "tts"},
               {TSR_TIME_MS, 1, "ttm"},
               {TSR_TIME_US, 1, "ttu"},
               {TSR_TIME_NS, 1, "ttn"},
               {TSR_TIME_AS, 1, "l"}};
  options = (tsr_arrow_options){0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(type_of(cases[i].datatype, cases[i].values, false).format, cases[i].format);
  assert_string_equal(type_of(TSR_GEOM_WKB, TSR_VARIABLE, false).extension, "geoarrow.wkb");
  options.datetimes = TSR_ARROW_DATETIMES_INTEGER;
  assert_string_equal(type_of(TSR_DATETIME_DAY, 1, false).format, "l");
  options.datetimes = TSR_ARROW_DATETIMES_DURATION;
  const char *const durations[] = {"tDs", "tDs", "tDs", "tDm", "tDu", "tDn", "l"};
  for (int i = 0; i < 7; i++)
    assert_string_equal(type_of((tsr_datatype)(TSR_TIME_HR + i), 1, false).format, durations[i]);
  assert_string_equal(type_of(TSR_DATETIME_HR, 1, false).format, "tss:");
  options = (tsr_arrow_options){.strings = TSR_ARROW_STRINGS_SMALL};
  assert_string_equal(type_of(TSR_UTF8, TSR_VARIABLE, false).format, "u");
  options.strings = TSR_ARROW_STRINGS_BINARY;
  assert_string_equal(type_of(TSR_UTF8, TSR_VARIABLE, false).format, "Z");
}

/* Makes an array of one column; on an error returns its code. */
static int make(const tsr_arrow_type *type, const tsr_column *cells, const tsr_arrow_rows *rows,
                struct ArrowArray *array) {
  tsr_arrow_column column;
  tsr__arrow_column_begin(type, &column);
  int rc = tsr__arrow_column_append(&column, cells, rows, &error);
  if (rc >= 0) rc = tsr__arrow_column_append(&column, cells, rows, &error);
  if (rc >= 0) rc = tsr__arrow_column_finish(&column, &options, array, &error);
  tsr__arrow_column_drop(&column);
  return rc;
}

static bool bit(const void *bits, uint64_t i) { return ((const uint8_t *)bits)[i / 8] >> i % 8 & 1; }

static void numbers_are_copied(void **state) {
  (void)state;
  const int16_t values[] = {10, 11, 12, 13, 14};
  const uint8_t validity[] = {1, 0, 1, 1, 0};
  const uint32_t selection[] = {4, 0, 1};
  options = (tsr_arrow_options){0};
  const tsr_arrow_type type = type_of(TSR_INT16, 1, true);
  struct ArrowArray a;
  tsr_column cells = {.values = values, .cell_size = 2};
  ok(make(&type, &cells, &(tsr_arrow_rows){.first = 1, .count = 3}, &a));
  assert_int_equal(a.length, 6);
  assert_int_equal(a.null_count, 0);
  assert_null(a.buffers[0]);
  const int16_t *out = a.buffers[1];
  for (int i = 0; i < 6; i++) assert_int_equal(out[i], 11 + i % 3);
  a.release(&a);
  cells.validity = validity;
  ok(make(&type, &cells, &(tsr_arrow_rows){.selection = selection, .count = 3}, &a));
  out = a.buffers[1];
  assert_int_equal(a.null_count, 4);
  for (uint64_t i = 0; i < 6; i++) {
    assert_int_equal(bit(a.buffers[0], i), validity[selection[i % 3]]);
    if (bit(a.buffers[0], i)) assert_int_equal(out[i], values[selection[i % 3]]);
  }
  a.release(&a);
  cells = (tsr_column){.values = values + 2, .cell_size = 2, .constant = true};
  ok(make(&type, &cells, &(tsr_arrow_rows){.first = 3, .count = 4}, &a));
  out = a.buffers[1];
  for (int i = 0; i < 8; i++) assert_int_equal(out[i], 12);
  a.release(&a);
  ok(make(&type, &cells, &(tsr_arrow_rows){.count = 9, .null = true}, &a));
  assert_int_equal(a.null_count, 18);
  a.release(&a);
}

static void bools_are_bits(void **state) {
  (void)state;
  const uint8_t values[] = {1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1};
  const uint64_t offsets[] = {0, 3, 3, 11};
  options = (tsr_arrow_options){0};
  tsr_arrow_type type = type_of(TSR_BOOL, 1, false);
  struct ArrowArray a;
  ok(make(&type, &(tsr_column){.values = values, .cell_size = 1}, &(tsr_arrow_rows){.count = 11}, &a));
  for (uint64_t i = 0; i < 22; i++) assert_int_equal(bit(a.buffers[1], i), values[i % 11]);
  a.release(&a);
  type = type_of(TSR_BOOL, TSR_VARIABLE, false);
  ok(make(&type, &(tsr_column){.values = values, .offsets = offsets}, &(tsr_arrow_rows){.count = 3}, &a));
  const int64_t *ends = a.buffers[1];
  const int64_t expected[] = {0, 3, 3, 11, 14, 14, 22};
  assert_memory_equal(ends, expected, sizeof expected);
  assert_int_equal(a.children[0]->length, 22);
  for (uint64_t i = 0; i < 22; i++) assert_int_equal(bit(a.children[0]->buffers[1], i), values[i % 11]);
  a.release(&a);
}

static void datetimes_have_units(void **state) {
  (void)state;
  struct ArrowArray a;
  options = (tsr_arrow_options){0};
  const int64_t months[] = {0, 1, -1, 602, INT64_MIN};
  const int32_t days[] = {0, 31, -31, 18322};
  tsr_arrow_type type = type_of(TSR_DATETIME_MONTH, 1, false);
  ok(make(&type, &(tsr_column){.values = months, .cell_size = 8}, &(tsr_arrow_rows){.count = 5}, &a));
  assert_memory_equal(a.buffers[1], days, sizeof days);
  assert_int_equal(a.null_count, 2);
  assert_false(bit(a.buffers[0], 4));
  a.release(&a);
  const int64_t hours[] = {-2, 24}, past[] = {INT64_MAX};
  type = type_of(TSR_DATETIME_HR, 1, false);
  ok(make(&type, &(tsr_column){.values = hours, .cell_size = 8}, &(tsr_arrow_rows){.count = 2}, &a));
  assert_int_equal(((const int64_t *)a.buffers[1])[0], -7200);
  a.release(&a);
  assert_int_equal(make(&type, &(tsr_column){.values = past, .cell_size = 8}, &(tsr_arrow_rows){.count = 1}, &a),
                   TSR_RANGE);
  type = type_of(TSR_TIME_HR, 1, false);
  assert_int_equal(make(&type, &(tsr_column){.values = hours, .cell_size = 8}, &(tsr_arrow_rows){.count = 1}, &a),
                   TSR_RANGE);
  assert_int_equal(
      make(&type, &(tsr_column){.values = hours, .cell_size = 8}, &(tsr_arrow_rows){.first = 1, .count = 1}, &a),
      TSR_RANGE);
  type = type_of(TSR_DATETIME_DAY, 1, false);
  assert_int_equal(make(&type, &(tsr_column){.values = past, .cell_size = 8}, &(tsr_arrow_rows){.count = 1}, &a),
                   TSR_RANGE);
  options.datetimes = TSR_ARROW_DATETIMES_DURATION;
  type = type_of(TSR_TIME_HR, 1, false);
  ok(make(&type, &(tsr_column){.values = hours, .cell_size = 8}, &(tsr_arrow_rows){.count = 2}, &a));
  assert_int_equal(((const int64_t *)a.buffers[1])[0], hours[0] * 3600);
  a.release(&a);
  options.datetimes = TSR_ARROW_DATETIMES_INTEGER;
  type = type_of(TSR_DATETIME_DAY, 1, false);
  ok(make(&type, &(tsr_column){.values = months, .cell_size = 8}, &(tsr_arrow_rows){.count = 5}, &a));
  assert_int_equal(a.null_count, 0);
  a.release(&a);
}

static void text_is_utf8(void **state) {
  (void)state;
  struct ArrowArray a;
  const char text[] = "h\xC3\xA9"
                      "abc";
  const uint64_t offsets[] = {0, 3, 3, 6}, wrong[] = {0, 2};
  options = (tsr_arrow_options){0};
  tsr_arrow_type type = type_of(TSR_UTF8, TSR_VARIABLE, false);
  ok(make(&type, &(tsr_column){.values = text, .offsets = offsets}, &(tsr_arrow_rows){.count = 3}, &a));
  const int64_t ends[] = {0, 3, 3, 6, 9, 9, 12};
  assert_memory_equal(a.buffers[1], ends, sizeof ends);
  assert_memory_equal(a.buffers[2],
                      "h\xC3\xA9"
                      "abch\xC3\xA9"
                      "abc",
                      12);
  a.release(&a);
  assert_int_equal(make(&type, &(tsr_column){.values = text, .offsets = wrong}, &(tsr_arrow_rows){.count = 1}, &a),
                   TSR_MISMATCH);
  options.strings = TSR_ARROW_STRINGS_SMALL;
  type = type_of(TSR_UTF8, TSR_VARIABLE, false);
  ok(make(&type, &(tsr_column){.values = text, .offsets = offsets}, &(tsr_arrow_rows){.count = 3}, &a));
  const int32_t narrow[] = {0, 3, 3, 6, 9, 9, 12};
  assert_memory_equal(a.buffers[1], narrow, sizeof narrow);
  a.release(&a);
  const uint16_t wide[] = {'A',    0x20AC, 0xD83D, 0xDE00, 0xD800, 0xDC00,
                           0xDBFF, 0xDFFF, /* pairs, and halves of pairs: */
                           0xD800, 'B',    0xD800, 0xE000, 0xDC00, 0xD800};
  const uint64_t all[] = {0, sizeof wide};
  type = type_of(TSR_UTF16, TSR_VARIABLE, false);
  ok(make(&type, &(tsr_column){.values = wide, .offsets = all}, &(tsr_arrow_rows){.count = 1}, &a));
  static const char expected[] = "A\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"
                                 "\xEF\xBF\xBD\x42\xEF\xBF\xBD\xEE\x80\x80\xEF\xBF\xBD\xEF\xBF\xBD";
  assert_memory_equal(a.buffers[2], expected, sizeof expected - 1);
  a.release(&a);
}

static const char *const broken[] = {
    "\x80",         "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
    "12345678\xFF", "\xE2\x82"};

static void broken_utf8_is_found(void **state) {
  (void)state;
  const char *good = "\xF4\x8F\xBF\xBF\xEF\xBF\xBF\xC2\x80 plain text of some length";
  struct ArrowArray a;
  options = (tsr_arrow_options){0};
  const tsr_arrow_type type = type_of(TSR_UTF8, TSR_VARIABLE, false);
  uint64_t offsets[] = {0, strlen(good)};
  ok(make(&type, &(tsr_column){.values = good, .offsets = offsets}, &(tsr_arrow_rows){.count = 1}, &a));
  a.release(&a);
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    offsets[1] = strlen(broken[i]);
    assert_int_equal(
        make(&type, &(tsr_column){.values = broken[i], .offsets = offsets}, &(tsr_arrow_rows){.count = 1}, &a),
        TSR_MISMATCH);
  }
}

static void labels_are_a_dictionary(void **state) {
  (void)state;
  static uint8_t data[] = "onetwothree";
  static uint64_t offsets[] = {0, 3, 6, 11};
  static char name[] = "e", field_name[] = "f";
  const tsr_enumeration labels = {.name = name,
                                  .datatype = TSR_ASCII,
                                  .values_per_label = TSR_VARIABLE,
                                  .count = 3,
                                  .data = data,
                                  .data_size = 11,
                                  .offsets = offsets};
  const tsr_field field = {.name = field_name, .datatype = TSR_INT8, .values_per_cell = 1, .enumeration = name};
  const int8_t codes[] = {2, 0, -1, 3};
  tsr_arrow_type type;
  struct ArrowArray a;
  options = (tsr_arrow_options){0};
  tsr__arrow_type_choose(&field, &labels, false, &options, &type);
  ok(make(&type, &(tsr_column){.values = codes, .cell_size = 1}, &(tsr_arrow_rows){.count = 4}, &a));
  assert_int_equal(a.null_count, 4);
  assert_true(bit(a.buffers[0], 0) && bit(a.buffers[0], 1) && !bit(a.buffers[0], 2) && !bit(a.buffers[0], 3));
  assert_int_equal(a.dictionary->length, 3);
  assert_memory_equal(a.dictionary->buffers[2], "onetwothree", 11);
  a.release(&a);
  options.enums = TSR_ARROW_ENUMS_LABEL;
  tsr__arrow_type_choose(&field, &labels, false, &options, &type);
  ok(make(&type, &(tsr_column){.values = codes, .cell_size = 1}, &(tsr_arrow_rows){.count = 4}, &a));
  assert_null(a.dictionary);
  assert_int_equal(a.null_count, 4);
  assert_memory_equal(a.buffers[2], "threeonethreeone", 16);
  a.release(&a);
}

/* ---- Bytes of buffers -------------------------------------------------------------------------------------------- */

#define VALIDITY_BITS 0x2D /* 1, 0, 1, and again: `make` appends the rows twice */

static const uint8_t second_is_null[] = {1, 0, 1};

/* Checks the bitmap of three rows that came twice. Null rows have no certain value. */
static void check_validity(const struct ArrowArray *a, bool nulls) {
  assert_int_equal(a->length, 6);
  assert_int_equal(a->offset, 0);
  assert_int_equal(a->null_count, nulls ? 2 : 0);
  if (nulls) assert_int_equal(*(const uint8_t *)a->buffers[0], VALIDITY_BITS);
  else assert_null(a->buffers[0]);
}

/* Checks a column of three cells of fixed size, which become values of `width` bytes. */
static void check_numbers(tsr_datatype datatype, const void *cells, const char *format, const void *expected,
                          uint64_t width) {
  for (int nulls = 0; nulls < 2; nulls++) {
    const tsr_arrow_type type = type_of(datatype, 1, nulls);
    const tsr_column column = {
        .values = cells, .cell_size = tsr_datatype_size(datatype), .validity = nulls ? second_is_null : NULL};
    struct ArrowArray a;
    ok(make(&type, &column, &(tsr_arrow_rows){.count = 3}, &a));
    assert_string_equal(type.format, format);
    assert_int_equal(a.n_buffers, 2);
    check_validity(&a, nulls);
    for (uint64_t i = 0; i < 6; i++)
      if (!nulls || second_is_null[i % 3])
        assert_memory_equal((const uint8_t *)a.buffers[1] + i * width, (const uint8_t *)expected + i % 3 * width,
                            width);
    a.release(&a);
  }
}

static void numbers_have_these_bytes(void **state) {
  (void)state;
  static const struct {
    tsr_datatype datatype;
    const char *format;
  } numbers[] = {{TSR_INT8, "c"},   {TSR_UINT8, "C"}, {TSR_INT16, "s"},  {TSR_UINT16, "S"},  {TSR_INT32, "i"},
                 {TSR_UINT32, "I"}, {TSR_INT64, "l"}, {TSR_UINT64, "L"}, {TSR_FLOAT32, "f"}, {TSR_FLOAT64, "g"}};
  static const uint8_t cells[] = {0x01, 0x7F, 0x80, 0xFF, 0x00, 0x3C, 0xC0, 0x7F, 0x00, 0x00, 0x80, 0x7F,
                                  0x02, 0xFE, 0x55, 0xAA, 0x01, 0x00, 0xF0, 0xFF, 0x10, 0x32, 0x54, 0x76};
  static const uint8_t bools[] = {1, 0, 1};
  options = (tsr_arrow_options){0};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    check_numbers(numbers[i].datatype, cells, numbers[i].format, cells, tsr_datatype_size(numbers[i].datatype));
  for (int nulls = 0; nulls < 2; nulls++) {
    const tsr_arrow_type type = type_of(TSR_BOOL, 1, nulls);
    const tsr_column column = {.values = bools, .cell_size = 1, .validity = nulls ? second_is_null : NULL};
    struct ArrowArray a;
    ok(make(&type, &column, &(tsr_arrow_rows){.count = 3}, &a));
    check_validity(&a, nulls);
    assert_int_equal(*(const uint8_t *)a.buffers[1], 0x2D);
    a.release(&a);
  }
}

static void instants_have_these_bytes(void **state) {
  (void)state;
  static const int64_t instants[] = {0, 1, 100}, times[] = {0, 1, 23};
  static const struct {
    tsr_datatype datatype;
    const char *format;
    int width;
    int64_t expected[3];
  } cases[] = {{TSR_DATETIME_YEAR, "tdD", 4, {0, 365, 36525}},
               {TSR_DATETIME_MONTH, "tdD", 4, {0, 31, 3042}},
               {TSR_DATETIME_WEEK, "tdD", 4, {0, 7, 700}},
               {TSR_DATETIME_DAY, "tdD", 4, {0, 1, 100}},
               {TSR_DATETIME_HR, "tss:", 8, {0, 3600, 360000}},
               {TSR_DATETIME_MIN, "tss:", 8, {0, 60, 6000}},
               {TSR_DATETIME_SEC, "tss:", 8, {0, 1, 100}},
               {TSR_DATETIME_MS, "tsm:", 8, {0, 1, 100}},
               {TSR_DATETIME_US, "tsu:", 8, {0, 1, 100}},
               {TSR_DATETIME_NS, "tsn:", 8, {0, 1, 100}},
               {TSR_DATETIME_PS, "l", 8, {0, 1, 100}},
               {TSR_DATETIME_FS, "l", 8, {0, 1, 100}},
               {TSR_DATETIME_AS, "l", 8, {0, 1, 100}},
               {TSR_TIME_HR, "tts", 4, {0, 3600, 82800}},
               {TSR_TIME_MIN, "tts", 4, {0, 60, 1380}},
               {TSR_TIME_SEC, "tts", 4, {0, 1, 23}},
               {TSR_TIME_MS, "ttm", 4, {0, 1, 23}},
               {TSR_TIME_US, "ttu", 8, {0, 1, 23}},
               {TSR_TIME_NS, "ttn", 8, {0, 1, 23}},
               {TSR_TIME_PS, "l", 8, {0, 1, 23}},
               {TSR_TIME_FS, "l", 8, {0, 1, 23}},
               {TSR_TIME_AS, "l", 8, {0, 1, 23}}};
  options = (tsr_arrow_options){0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t narrow[3];
    for (int k = 0; k < 3; k++) narrow[k] = (int32_t)cases[i].expected[k];
    const bool is_time = tsr_datatype_kind(cases[i].datatype) == TSR_KIND_TIME;
    check_numbers(cases[i].datatype, is_time ? times : instants, cases[i].format,
                  cases[i].width == 4 ? (const void *)narrow : (const void *)cases[i].expected,
                  (uint64_t)cases[i].width);
  }
}

static void lists_have_these_bytes(void **state) {
  (void)state;
  static const int16_t pairs[] = {1, -2, 3, 4, 5, -6};
  static const int32_t items[] = {7, 8, 9};
  static const uint64_t offsets[] = {0, 4, 4, 12}; /* in bytes: one value, none, two */
  static const int64_t ends[] = {0, 1, 1, 3, 4, 4, 6};
  options = (tsr_arrow_options){0};
  for (int nulls = 0; nulls < 2; nulls++) {
    struct ArrowArray a;
    tsr_arrow_type type = type_of(TSR_INT16, 2, nulls);
    const uint8_t *validity = nulls ? second_is_null : NULL;
    ok(make(&type, &(tsr_column){.values = pairs, .cell_size = 4, .validity = validity}, &(tsr_arrow_rows){.count = 3},
            &a));
    check_validity(&a, nulls);
    assert_int_equal(a.children[0]->length, 12);
    for (int i = 0; i < 6; i++)
      if (!nulls || second_is_null[i % 3])
        assert_memory_equal((const int16_t *)a.children[0]->buffers[1] + 2 * i, pairs + 2 * (i % 3), 4);
    a.release(&a);
    type = type_of(TSR_INT32, TSR_VARIABLE, nulls);
    ok(make(&type, &(tsr_column){.values = items, .offsets = offsets, .validity = validity},
            &(tsr_arrow_rows){.count = 3}, &a));
    check_validity(&a, nulls);
    assert_memory_equal(a.buffers[1], ends, sizeof ends);
    for (int i = 0; i < 2; i++) assert_memory_equal((const int32_t *)a.children[0]->buffers[1] + 3 * i, items, 12);
    a.release(&a);
  }
}

#define LONG_TEXT "more than twelve" /* 16 bytes */

/* Checks the strings "a", "" and LONG_TEXT in one layout. */
static void check_strings(tsr_datatype datatype, const void *values, const uint64_t *offsets, tsr_arrow_strings layout,
                          bool nulls) {
  static const int64_t large[] = {0, 1, 1, 17, 18, 18, 34};
  static const int32_t small[] = {0, 1, 1, 17, 18, 18, 34};
  static const uint8_t views[3][16] = {
      {1, 0, 0, 0, 'a'}, {0}, {16, 0, 0, 0, 'm', 'o', 'r', 'e', 0, 0, 0, 0, 1, 0, 0, 0}};
  struct ArrowArray a;
  options = (tsr_arrow_options){.strings = layout};
  const tsr_arrow_type type = type_of(datatype, TSR_VARIABLE, nulls);
  const tsr_column column = {.values = values, .offsets = offsets, .validity = nulls ? second_is_null : NULL};
  ok(make(&type, &column, &(tsr_arrow_rows){.count = 3}, &a));
  check_validity(&a, nulls);
  assert_memory_equal(a.buffers[2], "a" LONG_TEXT "a" LONG_TEXT, 34);
  if (strchr("UZ", type.format[0])) {
    assert_memory_equal(a.buffers[1], large, sizeof large);
  } else if (strcmp(type.format, "u") == 0) {
    assert_memory_equal(a.buffers[1], small, sizeof small);
  } else {
    const uint8_t *view = a.buffers[1];
    uint8_t last[16];
    assert_string_equal(type.format, "vu");
    assert_int_equal(a.n_buffers, 4);
    for (int i = 0; i < 5; i++) assert_memory_equal(view + 16 * i, views[i % 3], 16);
    memcpy(last, views[2], sizeof last);
    last[12] = 18; /* where it lies in the bytes */
    assert_memory_equal(view + 80, last, 16);
    assert_int_equal(*(const int64_t *)a.buffers[3], 34);
  }
  a.release(&a);
}

static void strings_have_these_bytes(void **state) {
  (void)state;
  static const tsr_datatype datatypes[] = {TSR_CHAR, TSR_ASCII, TSR_UTF8, TSR_UTF16,    TSR_UTF32,   TSR_UCS2,
                                           TSR_UCS4, TSR_BLOB,  TSR_ANY,  TSR_GEOM_WKB, TSR_GEOM_WKT};
  static const tsr_arrow_strings layouts[] = {TSR_ARROW_STRINGS_LARGE, TSR_ARROW_STRINGS_SMALL,
                                              TSR_ARROW_STRINGS_BINARY, TSR_ARROW_STRINGS_VIEW};
  const char *text = "a" LONG_TEXT;
  for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++) {
    const uint64_t size = tsr_datatype_size(datatypes[i]);
    const uint64_t offsets[] = {0, size, size, 17 * size};
    uint8_t values[17 * 4] = {0};
    for (uint64_t k = 0; k < 17; k++) values[k * size] = (uint8_t)text[k];
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
      if (size > 1 && layouts[l] == TSR_ARROW_STRINGS_BINARY) continue; /* the bytes as they are */
      check_strings(datatypes[i], values, offsets, layouts[l], false);
      check_strings(datatypes[i], values, offsets, layouts[l], true);
    }
  }
}

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

static int64_t read_all(struct ArrowArrayStream *stream, int64_t *sum, int *batches) {
  struct ArrowArray batch;
  int64_t rows = 0;
  *sum = 0;
  for (*batches = 0;; ++*batches) {
    assert_int_equal(stream->get_next(stream, &batch), 0);
    if (!batch.release) return rows;
    assert_true(batch.length > 0);
    const int32_t *a = batch.children[1]->buffers[1];
    for (int64_t i = 0; i < batch.length; i++)
      *sum += !batch.children[1]->buffers[0] || bit(batch.children[1]->buffers[0], (uint64_t)i) ? a[i] : 0;
    rows += batch.length;
    batch.release(&batch);
  }
}

static void streams_give_all_cells(void **state) {
  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    tsr_array *array = make_small(22, dense, false);
    struct ArrowArrayStream stream, second;
    struct ArrowSchema schema;
    tsr_snapshot *snapshot;
    int64_t sum;
    int batches;
    write_small(array, 100001, 10, 39, NULL);
    write_small(array, 100002, 50, 59, NULL); /* in a dense array the cells between are null */
    ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
    ok(tsr_arrow_open(snapshot, &(tsr_arrow_options){.batch_rows = 20}, &stream, &error));
    ok(tsr_arrow_open(snapshot, NULL, &second, &error));
    tsr_snapshot_close(snapshot);
    write_small(array, 100003, 0, 99, NULL); /* a stream shows the state of its snapshot */
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_int_equal(schema.n_children, 3);
    assert_string_equal(schema.children[1]->name, "a");
    schema.release(&schema);
    assert_int_equal(read_all(&stream, &sum, &batches), dense ? 50 : 40);
    assert_int_equal(sum, 30 * 100 + (10 + 39) * 15 + 10 * 200 + (50 + 59) * 5);
    assert_true(batches > 1);
    assert_int_equal(read_all(&second, &sum, &batches), dense ? 50 : 40);
    assert_int_equal(batches, 1);
    stream.release(&stream);
    assert_null(stream.release);
    second.release(&second);
    tsr_array_close(array);
  }
}

static void batches_outlive_their_stream(void **state) {
  (void)state;
  tsr_array *array = make_small(22, false, false);
  struct ArrowArrayStream stream;
  struct ArrowArray batch, column;
  write_small(array, 100001, 10, 59, NULL);
  tsr_array_close(array);
  ok(tsr_arrow_open_path(NULL, path, NULL, 0, TSR_TIME_NOW, NULL, &stream, &error));
  assert_int_equal(stream.get_next(&stream, &batch), 0);
  stream.release(&stream);
  column = *batch.children[1]; /* moved out of its batch, as the interface allows */
  batch.children[1]->release = NULL;
  batch.release(&batch);
  assert_int_equal(((const int32_t *)column.buffers[1])[0], value_at(10, 100001));
  column.release(&column);
}

static void errors_are_whole(void **state) {
  (void)state;
  struct ArrowArrayStream stream;
  const uint32_t field = 7;
  tsr_array *array = make_small(22, false, false);
  tsr_snapshot *snapshot;
  assert_int_equal(tsr_arrow_open_path(NULL, "/no/such/array", NULL, 0, TSR_TIME_NOW, NULL, &stream, &error),
                   TSR_NOT_FOUND);
  write_small(array, 100001, 10, 59, NULL);
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  assert_int_equal(tsr_arrow_open(snapshot, &(tsr_arrow_options){.fields = &field, .field_count = 1}, &stream, &error),
                   TSR_ERROR);
  assert_non_null(strstr(error.message, "there is no field 7"));
  ok(tsr_arrow_open(snapshot, NULL, &stream, &error));
  tsr_snapshot_close(snapshot);
  char command[1200];
  snprintf(command, sizeof command, "truncate -s 20 '%s'/__fragments/*/a1.tdb '%s'/__fragments/*/a0.tdb", path, path);
  assert_int_equal(system(command), 0);
  struct ArrowArray batch;
  assert_int_equal(stream.get_next(&stream, &batch), EINVAL);
  assert_null(batch.release);
  assert_non_null(strstr(stream.get_last_error(&stream), "a0.tdb"));
  assert_int_equal(stream.get_next(&stream, &batch), 0);
  assert_null(batch.release);
  stream.release(&stream);
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_datatype_has_a_type),
                                     cmocka_unit_test(numbers_are_copied),
                                     cmocka_unit_test(bools_are_bits),
                                     cmocka_unit_test(datetimes_have_units),
                                     cmocka_unit_test(text_is_utf8),
                                     cmocka_unit_test(broken_utf8_is_found),
                                     cmocka_unit_test(numbers_have_these_bytes),
                                     cmocka_unit_test(instants_have_these_bytes),
                                     cmocka_unit_test(lists_have_these_bytes),
                                     cmocka_unit_test(strings_have_these_bytes),
                                     cmocka_unit_test(labels_are_a_dictionary),
                                     cmocka_unit_test(streams_give_all_cells),
                                     cmocka_unit_test(batches_outlive_their_stream),
                                     cmocka_unit_test(errors_are_whole)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
