/* test_null_error.c: every public function that takes an error works without one: whether it succeeds or fails, and
 * wherever memory ends, its code is the same with an error and with NULL. That each function begins with TSR_OWN_ERROR
 * is checked by the lint; this test shows that nothing behind it depends on the caller's error.
 *
 * A case calls its function once, within TELL, which arms the failures: memory that ends after so many allocations, or
 * arguments that it must refuse (`wrong`). Each call has an environment of its own, and arrays where it writes, so that
 * nothing is kept from one call to the next. */

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "write/writer.h"
#include "counted_memory.h"
#include "disk_test.h"

static counted_memory counted;
static long allowed; /* allocations that succeed in the call that is looked at */
static bool wrong; /* the call gets arguments that it must refuse */
static int told; /* what the function returned */

#define TELL(call) (counted.left = allowed, told = (call), counted.left = -1)
#define CASE(name) static void case_##name(tsr_error *e)

/* ---- The arrays -------------------------------------------------------------------------------------------------- */

static char world[512], other[600];
static tsr_array *sparse, *dense;
static tsr_group *group;
static tsr_enumeration labels = LABELS("e", TSR_ASCII, "onetwo", 0, 3, 6);
static tsr_field fields[3];
static tsr_interval current = {.low = {0}, .high = {95}}, wider = {.low = {0}, .high = {98}},
                    narrower = {.low = {0}, .high = {50}};
static const tsr_writer_options unsynced = {.unsynced = true};

static tsr_schema make_schema(bool is_dense) {
  fields[0] = int32_dimension("x", 0, 99, 10);
  fields[1] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1};
  fields[2] = (tsr_field){.name = "l", .datatype = TSR_INT32, .values_per_cell = 1, .enumeration = "e"};
  return (tsr_schema){.dense = is_dense,
                      .capacity = 10,
                      .dimension_count = 1,
                      .attribute_count = 2,
                      .fields = fields,
                      .enumeration_count = 1,
                      .enumerations = &labels,
                      .current_domain = is_dense ? NULL : &current};
}

static char *within(const char *name) {
  snprintf(other, sizeof other, "%s/%s", world, name);
  return other;
}

static tsr_array *open_in(const char *name) {
  const tsr_array_options options = {.threads = 1};
  tsr_array *array = NULL;
  ok(tsr_array_open(environment, within(name), &options, &array, &error));
  return array;
}

/* A writer with cells 0 to 9 of the sparse array, or of a box of the dense one. */
static tsr_writer *writer_with_cells(bool is_dense, int32_t value) {
  static int32_t x[10], a[10];
  static const int32_t l[10] = {0, 1};
  tsr_writer *writer = NULL;
  for (int32_t i = 0; i < 10; i++) x[i] = i, a[i] = value + i;
  const tsr_column columns[3] = {{.values = x}, {.values = a}, {.values = l}};
  const tsr_interval box = {.low = {0}, .high = {9}};
  ok(tsr_writer_open(is_dense ? dense : sparse, &unsynced, &writer, &error));
  if (is_dense) ok(tsr_writer_append_box(writer, &box, false, columns, &error));
  else ok(tsr_writer_append(writer, columns, NULL, 10, &error));
  return writer;
}

static void commit(bool is_dense, int32_t value) {
  tsr_writer *writer = writer_with_cells(is_dense, value);
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}

/* The array of a label of the dense array, whose values are a, b and so on. */
static void make_label(const tsr_create_options *options) {
  tsr_field two[2] = {int32_dimension("index", 0, 99, 10),
                      {.name = "label", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE, .data_order = 1}};
  const tsr_schema schema = {.dense = true, .capacity = 10, .dimension_count = 1, .attribute_count = 1, .fields = two};
  static const int32_t index[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  static const uint64_t offsets[11] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const tsr_column columns[2] = {{.values = index}, {.values = "abcdefghij", .offsets = offsets}};
  const tsr_interval box = {.low = {0}, .high = {9}};
  tsr_writer *writer = NULL;
  ok(tsr_array_create(environment, within("dense/__labels/l0"), &schema, options, &error));
  tsr_array *array = open_in("dense/__labels/l0");
  ok(tsr_writer_open(array, &unsynced, &writer, &error));
  ok(tsr_writer_append_box(writer, &box, false, columns, &error));
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  tsr_array_close(array);
}

static void make_world(void) {
  const tsr_create_options options = {.unsynced = true};
  snprintf(world, sizeof world, "%s/seed", top);
  for (int is_dense = 0; is_dense < 2; is_dense++) {
    const tsr_schema schema = make_schema(is_dense);
    ok(tsr_array_create(environment, within(is_dense ? "dense" : "sparse"), &schema, &options, &error));
  }
  make_label(&options);
  sparse = open_in("sparse");
  dense = open_in("dense");
  for (int32_t i = 0; i < 2; i++) commit(false, 100 * i), commit(true, 100 * i);
  tsr_array_close(sparse);
  tsr_array_close(dense);
  ok(tsr_group_create(environment, within("group"), &error));
  ok(tsr_group_open(environment, within("group"), NULL, &group, &error));
  ok(tsr_group_add(group, "one", "../sparse", true, TSR_OBJECT_ARRAY, &error));
  tsr_group_close(group);
}

static tsr_snapshot *snapshot_of(tsr_array *array) {
  tsr_snapshot *snapshot = NULL;
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  return snapshot;
}

static tsr_reader *started(tsr_snapshot *snapshot) {
  tsr_reader *reader = NULL;
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, NULL, &error));
  return reader;
}

static const tsr_schema *schema_of(tsr_array *array) {
  const tsr_schema *schema = NULL;
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  return schema;
}

/* ---- Environments and paths -------------------------------------------------------------------------------------- */

CASE(tsr_environment_open) {
  const tsr_environment_options options = {.reallocate = counted_reallocate, .reallocate_argument = &counted};
  tsr_environment *opened = NULL;
  TELL(tsr_environment_open(&options, &opened, e));
  if (told >= 0) tsr_environment_close(opened);
}

CASE(tsr_path_permitted) { TELL(tsr_path_permitted(environment, wrong ? within("forbidden") : within("sparse"), e)); }

CASE(tsr_environment_confine) { TELL(tsr_environment_confine(environment, within(wrong ? "none" : "sparse"), e)); }
CASE(tsr_environment_configure) {
  const tsr_scope_options none = {0};
  TELL(tsr_environment_configure(environment, wrong ? "s3:/bucket" : "s3://bucket", &none, e));
}

CASE(tsr_path_lies_below) { TELL(tsr_path_lies_below(environment, within(wrong ? "none/../.." : "sparse"), "/", e)); }

CASE(tsr_file_read) {
  char bytes[8];
  uint64_t size;
  TELL(
      tsr_file_read(environment, wrong ? within("none") : TESSERA_HEADERS "/tessera.h", bytes, sizeof bytes, &size, e));
}

static const tsr_host_store host;
CASE(tsr_environment_add_store) {
  TELL(tsr_environment_add_store(environment, wrong ? "no letters" : "here", &host, NULL, e));
}

CASE(tsr_listing_add) {
  tsr_listing listing = {0};
  listing.memory = &environment->memory;
  TELL(tsr_listing_add(&listing, "name", TSR_ENTRY_FILE, e));
  tsr__listing_release(&listing);
}

CASE(tsr_object_find) {
  tsr_object_kind kind;
  TELL(tsr_object_find(environment, within(wrong ? "forbidden" : "sparse"), &kind, e));
}

CASE(tsr_objects_open) {
  tsr_objects *objects = NULL;
  TELL(tsr_objects_open(environment, world, &objects, e));
  if (told >= 0) tsr_objects_close(objects);
}

CASE(tsr_datetime_parse) {
  int64_t value;
  TELL(tsr_datetime_parse(TSR_DATETIME_DAY, wrong ? "yesterday" : "2020-01-01", wrong ? 9 : 10, &value, e));
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

CASE(tsr_array_open) {
  tsr_array *array = NULL;
  TELL(tsr_array_open(environment, within(wrong ? "nothing" : "sparse"), NULL, &array, e));
  if (told >= 0) tsr_array_close(array);
}

/* A schema file that is damaged, a millisecond younger than the array's own by its name. Its last change is a day ago:
 * a
 * younger one might be a file that is still being written, which is TSR_BUSY. */
static void damage_schema(void) {
  char schema[1100], command[2500];
  const uint64_t time = schema_of(sparse)->time + 1;
  snprintf(schema, sizeof schema, "%s/__schema/__%llu_%llu_%032d", within("sparse"), (unsigned long long)time,
           (unsigned long long)time, 7);
  snprintf(command, sizeof command, "echo damaged >'%s' && touch -d '1 day ago' '%s'", schema, schema);
  assert_int_equal(system(command), 0);
}

CASE(tsr_array_schema) {
  const tsr_schema *schema;
  if (wrong) damage_schema();
  TELL(tsr_array_schema(sparse, TSR_TIME_NOW, &schema, e));
}

CASE(tsr_array_schema_listed) {
  const tsr_schema *schema = schema_of(sparse);
  if (wrong) damage_schema();
  if (wrong) assert_int_equal(tsr_array_schema(sparse, TSR_TIME_NOW, &schema, NULL), TSR_CORRUPT);
  TELL(tsr_array_schema_listed(sparse, TSR_TIME_NOW, &schema, e));
}

CASE(tsr_array_has_schema) {
  const tsr_schema *schema = schema_of(wrong ? dense : sparse);
  TELL(tsr_array_has_schema(sparse, schema, e));
}

CASE(tsr_array_enumeration) {
  const tsr_enumeration *found;
  const tsr_schema *schema = schema_of(sparse);
  TELL(tsr_array_enumeration(sparse, schema, wrong ? "none" : "e", &found, e));
}

CASE(tsr_schema_check) {
  tsr_schema schema = make_schema(true);
  if (wrong) fields[1].name = "x";
  TELL(tsr_schema_check(environment, &schema, e));
}

CASE(tsr_filters_check) {
  tsr_filter filter = {.type = TSR_FILTER_DOUBLE_DELTA, .level = -1, .reinterpret = TSR_ANY};
  const tsr_pipeline one = {.max_chunk_size = 65536, .count = 1, .filters = &filter};
  TELL(tsr_filters_check(&one, wrong ? TSR_FLOAT32 : TSR_INT32, 1, false, e));
}

CASE(tsr_array_create) {
  const tsr_schema schema = make_schema(true);
  const tsr_create_options options = {.unsynced = true};
  TELL(tsr_array_create(environment, within(wrong ? "sparse" : "new"), &schema, &options, e));
}

static tsr_creation *prepared_creation(void) {
  const tsr_schema schema = make_schema(true);
  const tsr_create_options options = {.unsynced = true};
  tsr_creation *creation = NULL;
  ok(tsr_creation_prepare(environment, within("new"), &schema, &options, &creation, &error));
  return creation;
}

CASE(tsr_creation_prepare) {
  const tsr_schema schema = make_schema(true);
  const tsr_create_options options = {.unsynced = true};
  tsr_creation *creation = NULL;
  TELL(tsr_creation_prepare(environment, within(wrong ? "sparse" : "new"), &schema, &options, &creation, e));
  if (told >= 0) tsr_creation_close(creation);
}

/* Another array stands at the path where this one was prepared. */
static void take_its_place(void) {
  char command[2000], *to = within("new");
  snprintf(command, sizeof command, "rm -rf '%s'; cp -r '%s/sparse' '%s'", to, world, to);
  assert_int_equal(system(command), 0);
}

CASE(tsr_creation_publish) {
  tsr_creation *creation = prepared_creation();
  if (wrong) take_its_place();
  TELL(tsr_creation_publish(creation, e));
  tsr_creation_close(creation);
}

/* The directory of something that is to be removed becomes a file. */
static void make_a_file(const char *name) {
  char command[1300], *to = within(name);
  snprintf(command, sizeof command, "rm -rf '%s'; echo >'%s'", to, to);
  assert_int_equal(system(command), 0);
}

CASE(tsr_creation_abandon) {
  tsr_creation *creation = prepared_creation();
  if (wrong) make_a_file("new");
  TELL(tsr_creation_abandon(creation, e));
  tsr_creation_close(creation);
}

CASE(tsr_creation_find) {
  char name[200];
  tsr_creation *creation = prepared_creation(), *found = NULL;
  snprintf(name, sizeof name, "%s", tsr_creation_schema_name(creation));
  tsr_creation_close(creation);
  TELL(tsr_creation_find(environment, within("new"), name, &found, e));
  tsr_creation_close(found);
}

CASE(tsr_array_copy_files) {
  char from[600];
  snprintf(from, sizeof from, "%s", within("sparse"));
  TELL(tsr_array_copy_files(environment, from, within(wrong ? "dense" : "new"), true, NULL, e));
}

CASE(tsr_array_sync) {
  char from[600];
  snprintf(from, sizeof from, "%s", within("sparse"));
  TELL(tsr_array_sync(environment, from, within(wrong ? "dense" : "new"), NULL, NULL, e));
}

CASE(tsr_array_exchange) {
  char place[600];
  snprintf(place, sizeof place, "%s/dense", world);
  TELL(tsr_array_exchange(environment, place, within(wrong ? "group/none" : "sparse"), e));
}

CASE(tsr_group_drop) { TELL(tsr_group_drop(environment, within(wrong ? "dense" : "group"), e)); }
CASE(tsr_array_drop) { TELL(tsr_array_drop(environment, within(wrong ? "group" : "dense"), e)); }

CASE(tsr_lease) { TELL(tsr_lease(environment, within(wrong ? "none" : "dense"), 60, e)); }

static int pass_over(void *argument, const tsr_finding *finding) { return TSR_OK; }

CASE(tsr_array_check) {
  const tsr_check_options options = {.threads = 1};
  TELL(tsr_array_check(environment, within(wrong ? "group" : "sparse"), &options, pass_over, NULL, e));
}

/* ---- Snapshots --------------------------------------------------------------------------------------------------- */

CASE(tsr_snapshot_open) {
  tsr_snapshot *snapshot = NULL;
  TELL(tsr_snapshot_open(sparse, NULL, 0, TSR_TIME_NOW, &snapshot, e));
  if (told >= 0) tsr_snapshot_close(snapshot);
}

CASE(tsr_array_freeze) {
  TELL(tsr_array_freeze(sparse, true, e));
  (void)tsr_array_freeze(sparse, false, NULL);
}

CASE(tsr_snapshot_non_empty_domain) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_interval *intervals;
  TELL(tsr_snapshot_non_empty_domain(snapshot, &intervals, e));
  tsr_snapshot_close(snapshot);
}

CASE(tsr_fragment_describe) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_fragment_info info;
  TELL(tsr_fragment_describe(snapshot, wrong ? 99 : 0, &info, e));
  tsr_snapshot_close(snapshot);
}

CASE(tsr_tiles_open) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_tiles *tiles = NULL;
  TELL(tsr_tiles_open(snapshot, wrong ? 99 : 0, &tiles, e));
  if (told >= 0) tsr_tiles_close(tiles);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_tiles_describe) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_tiles *tiles = NULL;
  tsr_tile_info info;
  ok(tsr_tiles_open(snapshot, 0, &tiles, &error));
  TELL(tsr_tiles_describe(tiles, 0, wrong ? 99 : 0, &info, e));
  tsr_tiles_close(tiles);
  tsr_snapshot_close(snapshot);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static const int32_t low = 3, high = 7;
static const tsr_range range = {.low = &low, .high = &high};
static const tsr_ranges ranges = {.ranges = &range, .count = 1};
static const tsr_predicate predicate = {.field = 9};

CASE(tsr_request_estimate) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_request request = {.dimensions = &ranges, .predicates = &predicate, .predicate_count = wrong};
  tsr_estimate estimate;
  TELL(tsr_request_estimate(snapshot, &request, &estimate, e));
  tsr_snapshot_close(snapshot);
}

CASE(tsr_reader_open) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_reader *reader = NULL;
  TELL(tsr_reader_open(snapshot, &reader, e));
  if (told >= 0) tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_reader_start) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_request request = {.dimensions = &ranges, .predicates = &predicate, .predicate_count = wrong};
  tsr_reader *reader = NULL;
  ok(tsr_reader_open(snapshot, &reader, &error));
  TELL(tsr_reader_start(reader, &request, e));
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_reader_next) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_reader *reader = started(snapshot);
  const tsr_batch *batch;
  TELL(tsr_reader_next(reader, &batch, e));
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_reader_find) {
  tsr_array *again = open_in("sparse"); /* nothing of which is in a cache */
  tsr_snapshot *snapshot = snapshot_of(sparse), *cold = snapshot_of(again);
  tsr_reader *reader = started(snapshot), *finder = NULL;
  const tsr_batch *batch;
  ok(tsr_reader_next(reader, &batch, &error));
  const int64_t row = tsr_batch_rowid(batch, tsr_batch_index(batch, 0));
  ok(tsr_reader_open(cold, &finder, &error));
  TELL(tsr_reader_find(finder, row, &batch, e));
  tsr_reader_close(finder);
  tsr_reader_close(reader);
  tsr_snapshot_close(cold);
  tsr_snapshot_close(snapshot);
  tsr_array_close(again);
}

CASE(tsr_reader_column) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_reader *reader = started(snapshot);
  const tsr_batch *batch;
  const tsr_column *column;
  ok(tsr_reader_next(reader, &batch, &error));
  TELL(tsr_reader_column(reader, wrong ? 99 : 1, &column, e));
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

static const tsr_interval box = {.low = {0}, .high = {9}}, outside = {.low = {0}, .high = {200}};

CASE(tsr_block_cells) {
  tsr_snapshot *snapshot = snapshot_of(dense);
  uint64_t cells;
  TELL(tsr_block_cells(snapshot, wrong ? &outside : &box, NULL, &cells, e));
  tsr_snapshot_close(snapshot);
}

#define CASE_OF_BLOCK(name, ...)                                                                                       \
  CASE(name) {                                                                                                         \
    tsr_snapshot *snapshot = snapshot_of(dense);                                                                       \
    int32_t out[10];                                                                                                   \
    TELL(name(snapshot, 1, wrong ? &outside : &box, 0, 1, out, sizeof out, __VA_ARGS__));                              \
    tsr_snapshot_close(snapshot);                                                                                      \
  }
CASE_OF_BLOCK(tsr_block_read, e)
CASE_OF_BLOCK(tsr_block_read_nulls, (uint8_t[10]){0}, e)

CASE(tsr_arrow_open) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const uint32_t field = wrong ? 99 : 1;
  struct ArrowArrayStream stream;
  TELL(tsr_arrow_open(snapshot, &(tsr_arrow_options){.fields = &field, .field_count = 1}, &stream, e));
  if (told >= 0) stream.release(&stream);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_arrow_open_path) {
  struct ArrowArrayStream stream;
  TELL(tsr_arrow_open_path(NULL, wrong ? "/no/such/array" : within("sparse"), NULL, 0, TSR_TIME_NOW, NULL, &stream, e));
  if (told >= 0) stream.release(&stream);
}

CASE(tsr_arrow_schema) {
  const tsr_schema schema = make_schema(true);
  const uint32_t field = wrong ? 99 : 1;
  struct ArrowSchema made;
  TELL(tsr_arrow_schema(dense, &schema, &(tsr_arrow_options){.fields = &field, .field_count = 1}, &made, e));
  if (told >= 0) made.release(&made);
}

CASE(tsr_aggregate_open) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_aggregate_request request = {.field = wrong ? 99 : 1};
  tsr_aggregate *aggregate = NULL;
  TELL(tsr_aggregate_open(snapshot, &request, &aggregate, e));
  if (told >= 0) tsr_aggregate_close(aggregate);
  tsr_snapshot_close(snapshot);
}

/* x + the greatest integer: past 64 bits for each cell but the first. */
static const tsr_node sum_nodes[] = {
    {.operation = TSR_OP_FIELD, .field = 0},
    {.operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_INTEGER, .as.integer = INT64_MAX}},
    {.operation = TSR_OP_ADD, .operands = (const uint32_t[]){0, 1}, .operand_count = 2}};
static const tsr_node text_nodes[] = {
    {.operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_TEXT, .as.text = {.bytes = "a", .size = 1}}},
    {.operation = TSR_OP_NEGATE, .operands = (const uint32_t[]){0}, .operand_count = 1}};

CASE(tsr_expression_types) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_expression expression = {.nodes = wrong ? text_nodes : sum_nodes, .count = wrong ? 2 : 3};
  tsr_value_type types[3];
  uint32_t node;
  tsr_expression_fault fault;
  TELL(tsr_expression_types(tsr_snapshot_schema(snapshot), &expression, types, &node, &fault, e));
  tsr_snapshot_close(snapshot);
}

CASE(tsr_query_start) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_query_aggregate count = {.function = TSR_AGGREGATE_COUNT};
  const tsr_query query = {.aggregates = &count, .aggregate_count = wrong ? 1000 : 1};
  tsr_query_run *run = NULL;
  TELL(tsr_query_start(snapshot, &query, &run, e));
  tsr_query_close(run);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_query_aggregate_value) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_query_aggregate sum = {.function = TSR_AGGREGATE_SUM, .has_argument = true};
  sum.argument =
      (tsr_expression){.nodes = wrong ? sum_nodes + 1 : sum_nodes, .count = 1}; /* of the constant, or of x */
  const tsr_query query = {.aggregates = &sum, .aggregate_count = 1};
  tsr_query_run *run = NULL;
  tsr_value value;
  ok(tsr_query_start(snapshot, &query, &run, &error));
  TELL(tsr_query_aggregate_value(run, 0, 0, &value, e));
  tsr_query_close(run);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_query_next) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_expression column = {.nodes = sum_nodes, .count = wrong ? 3 : 1};
  const tsr_query query = {.columns = &column, .column_count = 1};
  tsr_query_run *run = NULL;
  tsr_query_block block;
  ok(tsr_query_start(snapshot, &query, &run, &error));
  TELL(tsr_query_next(run, &block, e));
  tsr_query_close(run);
  tsr_snapshot_close(snapshot);
}

static const uint64_t one_factor[1] = {2};

static const bool one_taken[8] = {[1] = true};

CASE(tsr_regrid_open) {
  tsr_snapshot *snapshot = snapshot_of(dense);
  const uint64_t none[1] = {0};
  const tsr_regrid_request request = {
      .factors = wrong ? none : one_factor, .fields = one_taken, .method = TSR_REGRID_COUNT};
  tsr_regrid *regrid = NULL;
  TELL(tsr_regrid_open(snapshot, &request, &regrid, e));
  if (told >= 0) tsr_regrid_close(regrid);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_regrid_write) {
  tsr_snapshot *snapshot = snapshot_of(dense);
  const tsr_regrid_request request = {.factors = one_factor, .fields = one_taken, .method = TSR_REGRID_COUNT};
  tsr_regrid *regrid = NULL;
  ok(tsr_regrid_open(snapshot, &request, &regrid, &error));
  const tsr_create_options options = {.unsynced = true};
  ok(tsr_array_create(environment, within("blocks"), tsr_regrid_schema(regrid), &options, &error));
  tsr_array *array = open_in("blocks");
  TELL(tsr_regrid_write(regrid, wrong ? sparse : array, NULL, e));
  tsr_array_close(array);
  tsr_regrid_close(regrid);
  tsr_snapshot_close(snapshot);
}

CASE(tsr_downsample_open) {
  tsr_schema schema = make_schema(true);
  tsr_field plane[3] = {int32_dimension("y", 0, 9, 5), int32_dimension("x", 0, 9, 5), fields[1]};
  schema.fields = plane;
  schema.dimension_count = 2;
  schema.attribute_count = 1;
  schema.enumeration_count = 0;
  const tsr_create_options options = {.unsynced = true};
  ok(tsr_array_create(environment, within("plane"), &schema, &options, &error));
  tsr_array *array = open_in("plane");
  tsr_snapshot *snapshot = snapshot_of(array);
  const tsr_interval boxes[2] = {box, box};
  const tsr_downsample_request request = {
      .box = boxes, .field = wrong ? 0 : 2, .row = 0, .column = 1, .height = 5, .width = 5};
  tsr_downsample *downsample = NULL;
  TELL(tsr_downsample_open(snapshot, &request, &downsample, e));
  if (told >= 0) tsr_downsample_close(downsample);
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
}

/* The schema of the dense array as it would be if it had the label. */
static const tsr_schema *labelled(void) {
  static tsr_label label = {.name = "name", .uri = "__labels/l0", .relative = true, .datatype = TSR_ASCII};
  static tsr_schema schema;
  schema = *schema_of(dense);
  schema.label_count = 1;
  schema.labels = &label;
  return &schema;
}

static tsr_label_index *index_of(bool read) {
  tsr_label_index *index = NULL;
  ok(tsr_label_open(dense, labelled(), 0, 0, &index, &error));
  if (read) ok(tsr_label_read(index, 0, TSR_TIME_NOW, &error));
  return index;
}

CASE(tsr_label_open) {
  tsr_label_index *index = NULL;
  TELL(tsr_label_open(dense, labelled(), wrong ? 9 : 0, 0, &index, e));
  if (told >= 0) tsr_label_close(index);
}

CASE(tsr_label_open_array) {
  tsr_array *values = open_in("dense/__labels/l0");
  const tsr_label_fields label = {.schema = schema_of(values), .value = 1};
  tsr_label_index *index = NULL;
  TELL(tsr_label_open_array(values, &label, labelled(), wrong ? 9 : 0, 0, &index, e));
  if (told >= 0) tsr_label_close(index);
  tsr_array_close(values);
}

#define CASE_OF_LABEL(name, read, ...)                                                                                 \
  CASE(name) {                                                                                                         \
    tsr_label_index *index = index_of(read);                                                                           \
    TELL(name(index, __VA_ARGS__, e));                                                                                 \
    tsr_label_close(index);                                                                                            \
  }
CASE_OF_LABEL(tsr_label_read, false, 0, TSR_TIME_NOW)
CASE_OF_LABEL(tsr_label_set_times, false, 0, TSR_TIME_NOW)
CASE_OF_LABEL(tsr_label_coordinate_of, true, "c", 1, (uint8_t[8]){0})

CASE(tsr_label_load) {
  tsr_label_index *index = index_of(false);
  ok(tsr_label_set_times(index, 0, TSR_TIME_NOW, &error));
  TELL(tsr_label_load(index, e));
  tsr_label_close(index);
}

CASE(tsr_label_find) {
  tsr_label_index *index = index_of(true);
  const tsr_range from_c = {.low = "c", .low_size = 1};
  const tsr_ranges values = {.ranges = &from_c, .count = 1};
  tsr_interval found;
  uint64_t count;
  TELL(tsr_label_find(index, &values, true, wrong ? 0 : 1, &found, &count, e));
  if (told >= 0) assert_true(count == 1 && found.low[0] == 2 && found.high[0] == 9);
  tsr_label_close(index);
}

CASE(tsr_label_nearest) {
  tsr_label_index *index = index_of(true);
  uint8_t coordinate[8] = {0}, value[8];
  TELL(tsr_label_nearest(index, "bb", 2, wrong ? 0 : 1, coordinate, value, e));
  if (told >= 0) assert_int_equal(coordinate[0], 2);
  tsr_label_close(index);
}

CASE(tsr_label_copy) {
  tsr_label_index *index = index_of(true), *to = index_of(false);
  TELL(tsr_label_copy(index, to, e)); /* both are the same array, which gets its values once more */
  tsr_label_close(index);
  tsr_label_close(to);
}

CASE(tsr_label_write) {
  tsr_label_index *index = index_of(false);
  const int64_t first = wrong ? 1000 : 9;
  const tsr_column value = {.values = "z", .offsets = (const uint64_t[]){0, 1}};
  TELL(tsr_label_write(index, &first, &value, 1, e));
  tsr_label_close(index);
}

CASE(tsr_partitions_open) {
  tsr_snapshot *snapshot = snapshot_of(sparse);
  tsr_partitions *partitions = NULL;
  TELL(tsr_partitions_open(snapshot, NULL, wrong ? 0 : 3, &partitions, e));
  if (told >= 0) tsr_partitions_close(partitions);
  tsr_snapshot_close(snapshot);
}

/* ---- Polygons ---------------------------------------------------------------------------------------------------- */

static const char square[] = "POLYGON ((0.5 0.5, 3.5 0.5, 3.5 1.5, 0.5 1.5), (1 0.7, 1.2 0.7, 1.2 0.9))";

CASE(tsr_geometry_read) {
  tsr_geometry *geometry = NULL;
  TELL(tsr_geometry_read(environment, square, wrong ? 9 : sizeof square - 1, true, 0, &geometry, e));
  if (told >= 0) tsr_geometry_close(geometry);
}

CASE(tsr_grid_axis_of_centres) {
  const int64_t coordinates[] = {1, 2, 4};
  const double centres[] = {3, 2.5, wrong ? 9 : 1};
  tsr_grid_axis *axis = NULL;
  TELL(tsr_grid_axis_of_centres(environment, "x", 3, coordinates, centres, &axis, e));
  if (told >= 0) tsr_grid_axis_close(axis);
}

CASE(tsr_grid_axis_affine) {
  tsr_grid_axis *axis = NULL;
  TELL(tsr_grid_axis_affine(environment, "x", 4, 0, 0, wrong ? 0 : 1, &axis, e));
  if (told >= 0) tsr_grid_axis_close(axis);
}

CASE(tsr_web_side_open) {
  tsr_grid_axis *axis = NULL;
  tsr_web_side *side = NULL;
  ok(tsr_grid_axis_affine(environment, "x", 40, 0, -20, 1, &axis, &error));
  const tsr_web_request request = {.axis = axis, .rows = true, .zoom = wrong ? 31 : 2, .number = 1, .pixels = 16};
  TELL(tsr_web_side_open(environment, &request, &side, e));
  if (told >= 0) tsr_web_side_close(side);
  tsr_grid_axis_close(axis);
}

typedef struct covering {
  tsr_geometry *geometry;
  tsr_grid_axis *axis;
  tsr_cover_request request;
} covering;

static covering covering_make(void) {
  covering c = {0};
  ok(tsr_geometry_read(environment, square, sizeof square - 1, true, 0, &c.geometry, &error));
  ok(tsr_grid_axis_affine(environment, "x", 4, 0, 0, 1, &c.axis, &error));
  c.request = (tsr_cover_request){.geometry = c.geometry, .y = c.axis, .x = c.axis};
  return c;
}

static void covering_close(covering *c) {
  tsr_geometry_close(c->geometry);
  tsr_grid_axis_close(c->axis);
}

CASE(tsr_cover_open) {
  covering c = covering_make();
  tsr_cover *cover = NULL;
  if (wrong) c.request.wrap = -1;
  TELL(tsr_cover_open(environment, &c.request, &cover, e));
  if (told >= 0) tsr_cover_close(cover);
  covering_close(&c);
}

CASE(tsr_cover_next) {
  covering c = covering_make();
  tsr_cover *cover = NULL;
  tsr_cover_run run;
  ok(tsr_cover_open(environment, &c.request, &cover, &error));
  TELL(tsr_cover_next(cover, &run, e));
  tsr_cover_close(cover);
  covering_close(&c);
}

CASE(tsr_gaps_open) {
  tsr_snapshot *snapshot = snapshot_of(wrong ? sparse : dense);
  tsr_gaps *gaps = NULL;
  TELL(tsr_gaps_open(snapshot, NULL, TSR_GAPS_BOXES, 0, &gaps, e));
  if (told >= 0) tsr_gaps_close(gaps);
  tsr_snapshot_close(snapshot);
}

/* ---- Rows of any source ------------------------------------------------------------------------------------------ */

static const tsr_ingest_column row_columns[2] = {
    {.name = "x"}, {.name = "d", .typed = true, .datatype = TSR_DATETIME_DAY, .values_per_cell = 1}};
static const uint32_t row_dimensions[1] = {0};

/* An ingest with one row, whose end comes if `ended`. */
static tsr_ingest *ingest_of_row(bool ended) {
  const tsr_ingest_options options = {
      .columns = row_columns, .column_count = 2, .dimensions = row_dimensions, .dimension_count = 1};
  tsr_ingest *ingest = NULL;
  ok(tsr_ingest_open(environment, &options, &ingest, &error));
  if (!ended) return ingest;
  ok(tsr_ingest_set_integer(ingest, 0, 5, &error));
  ok(tsr_ingest_end_row(ingest, &error));
  return ingest;
}

CASE(tsr_ingest_open) {
  const tsr_ingest_options options = {.columns = row_columns, .column_count = wrong ? 0 : 2};
  tsr_ingest *ingest = NULL;
  TELL(tsr_ingest_open(environment, &options, &ingest, e));
  if (told >= 0) tsr_ingest_close(ingest);
}

CASE(tsr_ingest_set_integer) {
  tsr_ingest *ingest = ingest_of_row(true);
  if (wrong) ok(tsr_ingest_set_real(ingest, 0, 0.5, &error));
  TELL(tsr_ingest_set_integer(ingest, 0, wrong ? INT64_MAX : 7, e));
  tsr_ingest_close(ingest);
}

/* A case of an ingest with one row, whose end comes if `ended`. */
#define INGEST_CASE(function, ended, call)                                                                             \
  CASE(function) {                                                                                                     \
    tsr_ingest *ingest = ingest_of_row(ended);                                                                         \
    TELL(call);                                                                                                        \
    tsr_ingest_close(ingest);                                                                                          \
  }
static const tsr_schema *row_schema;
INGEST_CASE(tsr_ingest_set_real, false, tsr_ingest_set_real(ingest, wrong ? 1 : 0, 0.5, e))
INGEST_CASE(tsr_ingest_set_bytes, false,
            tsr_ingest_set_bytes(ingest, 1, true, wrong ? "yesterday!" : "2024-02-29", 10, e))
INGEST_CASE(tsr_ingest_schema, !wrong, tsr_ingest_schema(ingest, &row_schema, e))

CASE(tsr_ingest_fit) {
  tsr_ingest *ingest = ingest_of_row(true);
  if (!wrong) ok(tsr_ingest_schema(ingest, &row_schema, &error));
  TELL(tsr_ingest_fit(ingest, sparse, e));
  tsr_ingest_close(ingest);
}

CASE(tsr_ingest_end_row) {
  tsr_ingest *ingest = ingest_of_row(false);
  if (!wrong) ok(tsr_ingest_set_integer(ingest, 0, 5, &error));
  TELL(tsr_ingest_end_row(ingest, e));
  tsr_ingest_close(ingest);
}

CASE(tsr_ingest_stream) {
  tsr_ingest *ingest = ingest_of_row(!wrong);
  struct ArrowArrayStream stream;
  TELL(tsr_ingest_stream(ingest, NULL, &stream, e));
  if (told >= 0) stream.release(&stream);
  tsr_ingest_close(ingest);
}

CASE(tsr_ingest_write) {
  tsr_ingest *ingest = ingest_of_row(true);
  const tsr_create_options options = {.unsynced = true};
  const tsr_schema *schema;
  ok(tsr_ingest_schema(ingest, &schema, &error));
  ok(tsr_array_create(environment, within("rows"), schema, &options, &error));
  tsr_array *array = open_in("rows");
  TELL(tsr_ingest_write(ingest, wrong ? sparse : array, true, NULL, e));
  tsr_array_close(array);
  tsr_ingest_close(ingest);
}

static int give_line(void *argument, void *bytes, uint64_t size, uint64_t *got, tsr_error *e) {
  int *calls = argument;
  *got = (*calls)++ ? 0 : 4;
  memcpy(bytes, wrong ? "a,\"b" : "a,bc", *got);
  return TSR_OK;
}

CASE(tsr_csv_open) {
  const tsr_csv_options options = {.delimiter = wrong ? '"' : ';'};
  tsr_csv *csv = NULL;
  TELL(tsr_csv_open(environment, &options, &csv, e));
  if (told >= 0) tsr_csv_close(csv);
}

CASE(tsr_csv_next) {
  int calls = 0;
  const tsr_csv_options options = {.read = give_line, .argument = &calls};
  tsr_csv *csv = NULL;
  const tsr_csv_field *given;
  uint32_t count;
  uint64_t line;
  ok(tsr_csv_open(environment, &options, &csv, &error));
  TELL(tsr_csv_next(csv, &given, &count, &line, e));
  tsr_csv_close(csv);
}

static void release_nothing(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_no_array(struct ArrowArray *array) { array->release = NULL; }

CASE(tsr_arrow_columns) {
  struct ArrowSchema child = {.format = wrong ? "?" : "l", .name = "x", .release = release_nothing}, *children = &child;
  const struct ArrowSchema schema = {
      .format = "+s", .n_children = 1, .children = &children, .release = release_nothing};
  tsr_ingest_column column;
  TELL(tsr_arrow_columns(&schema, &column, e));
}

CASE(tsr_ingest_arrow) {
  static const int64_t value = 5;
  const void *buffers[2] = {NULL, &value};
  const int kept[1] = {0};
  struct ArrowSchema child = {.format = "l", .name = "x", .release = release_nothing}, *children = &child;
  const struct ArrowSchema schema = {
      .format = "+s", .n_children = 1, .children = &children, .release = release_nothing};
  struct ArrowArray array = {.length = 1, .n_buffers = wrong ? 1 : 2, .buffers = buffers, .release = release_no_array},
                    *given = &array;
  const struct ArrowArray batch = {.length = 1, .n_children = 1, .children = &given, .release = release_no_array};
  tsr_ingest *ingest = ingest_of_row(false);
  TELL(tsr_ingest_arrow(ingest, &schema, &batch, kept, e));
  tsr_ingest_close(ingest);
}

CASE(tsr_ingest_block) {
  static const int64_t value = 5;
  const tsr_query_column columns[2] = {{.type = TSR_VALUE_INTEGER, .as.integers = &value}, {.type = TSR_VALUE_NULL}};
  uint64_t taken;
  tsr_ingest *ingest = ingest_of_row(false);
  TELL(tsr_ingest_block(ingest, columns, 0, 1, &taken, e));
  tsr_ingest_close(ingest);
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

CASE(tsr_writer_open) {
  tsr_writer *writer = NULL;
  TELL(tsr_writer_open(sparse, &unsynced, &writer, e));
  if (told >= 0) tsr_writer_close(writer);
}

static const int32_t ninety = 90, far = 900;

CASE(tsr_writer_append) {
  tsr_writer *writer = writer_with_cells(false, 0);
  const tsr_column columns[3] = {{.values = wrong ? &far : &ninety}, {.values = &ninety}, {.values = &(int32_t){0}}};
  TELL(tsr_writer_append(writer, columns, NULL, 1, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_test) {
  (void)tsr_array_add_constraint(sparse, "c", wrong ? "a > 90" : "a = 90", true, NULL);
  tsr_writer *writer = NULL;
  ok(tsr_writer_open(sparse, &unsynced, &writer, &error));
  const tsr_column columns[3] = {{.values = &ninety}, {.values = &ninety}, {.values = &(int32_t){0}}};
  TELL(tsr_writer_test(writer, columns, NULL, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_append_box) {
  tsr_writer *writer = NULL;
  const int32_t values[10] = {0};
  const tsr_column columns[3] = {{0}, {.values = values}, {.values = values}};
  ok(tsr_writer_open(dense, &unsynced, &writer, &error));
  TELL(tsr_writer_append_box(writer, wrong ? &outside : &box, false, columns, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_remove) {
  tsr_writer *writer = NULL;
  const tsr_column coordinates = {.values = &low};
  ok(tsr_writer_open(wrong ? dense : sparse, &unsynced, &writer, &error));
  TELL(tsr_writer_remove(writer, 3, &coordinates, 0, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_rewind) {
  tsr_writer *writer = writer_with_cells(false, 0);
  const tsr_mark mark = tsr_writer_mark(writer), far_on = {.cells = 999, .removed = 999, .boxes = 999};
  const tsr_column coordinates = {.values = &low};
  ok(tsr_writer_remove(writer, 3, &coordinates, 0, &error));
  TELL(tsr_writer_rewind(writer, wrong ? far_on : mark, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_find) {
  tsr_writer *writer = writer_with_cells(false, 0);
  tsr_snapshot *snapshot = snapshot_of(sparse);
  const tsr_column coordinates = {.values = &low};
  int64_t row;
  TELL(tsr_writer_find(writer, snapshot, &coordinates, 0, &row, e));
  tsr_snapshot_close(snapshot);
  tsr_writer_close(writer);
}

CASE(tsr_snapshot_with) {
  tsr_writer *writer = writer_with_cells(false, 0);
  tsr_snapshot *snapshot = snapshot_of(sparse), *on_top = NULL;
  TELL(tsr_snapshot_with(snapshot, writer, &on_top, e));
  if (told >= 0) tsr_snapshot_close(on_top);
  tsr_snapshot_close(snapshot);
  tsr_writer_close(writer);
}

CASE(tsr_writer_revert) {
  tsr_writer *writer = writer_with_cells(false, 0);
  tsr_snapshot *old = snapshot_of(wrong ? dense : sparse), *now = snapshot_of(sparse);
  uint64_t changed;
  TELL(tsr_writer_revert(writer, now, old, NULL, NULL, 0, &changed, e));
  tsr_snapshot_close(now);
  tsr_snapshot_close(old);
  tsr_writer_close(writer);
}

CASE(tsr_writer_prepare) {
  tsr_writer *writer = writer_with_cells(false, 0);
  TELL(tsr_writer_prepare(writer, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_publish) {
  tsr_writer *writer = writer_with_cells(false, 0);
  if (!wrong) ok(tsr_writer_prepare(writer, &error));
  TELL(tsr_writer_publish(writer, e));
  tsr_writer_close(writer);
}

CASE(tsr_writer_abandon) {
  tsr_writer *writer = writer_with_cells(false, 0);
  ok(tsr_writer_prepare(writer, &error));
  TELL(tsr_writer_abandon(writer, e));
  tsr_writer_close(writer);
}

static tsr_recover_action publish_it(void *argument, const tsr_prepared *prepared) { return TSR_RECOVER_PUBLISH; }
static tsr_recover_action undo_it(void *argument, const tsr_prepared *prepared) { return TSR_RECOVER_UNDO; }
static int show_it(void *argument, const tsr_prepared *prepared) { return wrong ? TSR_ABORT : TSR_OK; }

static void leave_prepared(void) {
  const tsr_writer_options options = {.unsynced = true,
                                      .host = &(tsr_writer_host){.owner = "me", .owner_file = "/owner.db"}};
  const tsr_column columns[3] = {{.values = &ninety}, {.values = &ninety}, {.values = &(int32_t){0}}};
  tsr_writer *writer = NULL;
  ok(tsr_writer_open(sparse, &options, &writer, &error));
  ok(tsr_writer_append(writer, columns, NULL, 1, &error));
  ok(tsr_writer_prepare(writer, &error));
  tsr_writer_close(writer);
}

CASE(tsr_array_recover) {
  leave_prepared();
  TELL(tsr_array_recover(sparse, "/owner.db", publish_it, NULL, NULL, e));
}

CASE(tsr_array_drop_orphans) { /* young files are not removed */
  leave_prepared();
  TELL(tsr_array_drop_orphans(sparse, wrong ? undo_it : publish_it, NULL, NULL, e));
}

CASE(tsr_array_has_marker) {
  TELL(tsr_array_has_marker(sparse, wrong ? "none" : "__commits/__1_1_0123456789abcdef0123456789abcdef_22.wrt", e));
}

CASE(tsr_array_prepared) {
  leave_prepared();
  TELL(tsr_array_prepared(sparse, show_it, NULL, e));
}

CASE(tsr_file_identity) {
  char place[TSR_OWNER_SIZE];
  TELL(tsr_file_identity(wrong ? "" : top, place, e));
}

CASE(tsr_owner_next) {
  char next[TSR_OWNER_SIZE];
  TELL(tsr_owner_next("me", "here", next, e));
}

/* ---- Maintenance ------------------------------------------------------------------------------------------------- */

CASE(tsr_array_consolidate) {
  uint64_t merged;
  TELL(tsr_array_consolidate(sparse, wrong ? TSR_MAINTAIN_ALL : TSR_MAINTAIN_FRAGMENTS, NULL, &merged, e));
}

CASE(tsr_array_mergeable) {
  uint64_t fragments;
  TELL(tsr_array_mergeable(sparse, NULL, &fragments, e));
}

CASE(tsr_array_vacuum) {
  uint64_t removed;
  TELL(tsr_array_vacuum(sparse, TSR_MAINTAIN_ALL, NULL, &removed, e));
}

static const int64_t number = 7;
static const tsr_metadatum entry = {
    .key = "k", .key_size = 1, .datatype = TSR_INT64, .count = 1, .value = &number, .value_size = 8};
static const tsr_metadatum odd = {
    .key = "k", .key_size = 1, .datatype = TSR_INT64, .count = 1, .value = &number, .value_size = 7};

static void set_twice(void) {
  ok(tsr_group_set_metadata(group, &entry, &error));
  ok(tsr_group_set_metadata(group, &entry, &error));
}

CASE(tsr_group_consolidate) {
  uint64_t merged;
  set_twice();
  TELL(tsr_group_consolidate(group, NULL, &merged, e));
}

CASE(tsr_group_vacuum) {
  uint64_t count;
  set_twice();
  ok(tsr_group_consolidate(group, NULL, &count, &error));
  TELL(tsr_group_vacuum(group, NULL, &count, e));
}

/* ---- What describes data ----------------------------------------------------------------------------------------- */

CASE(tsr_array_metadata) {
  tsr_metadata *metadata = NULL;
  ok(tsr_array_set_metadata(sparse, &entry, &error));
  TELL(tsr_array_metadata(sparse, 0, TSR_TIME_NOW, &metadata, e));
  if (told >= 0) tsr_metadata_close(metadata);
}

CASE(tsr_array_set_metadata) { TELL(tsr_array_set_metadata(sparse, wrong ? &odd : &entry, e)); }
CASE(tsr_array_delete_metadata) { TELL(tsr_array_delete_metadata(sparse, "k", 1, e)); }

CASE(tsr_group_open) {
  tsr_group *opened = NULL;
  TELL(tsr_group_open(environment, within(wrong ? "sparse" : "group"), NULL, &opened, e));
  if (told >= 0) tsr_group_close(opened);
}

CASE(tsr_group_create) { TELL(tsr_group_create(environment, within(wrong ? "group" : "new"), e)); }
CASE(tsr_group_add) { TELL(tsr_group_add(group, wrong ? "one" : "two", "../dense", true, TSR_OBJECT_ARRAY, e)); }
CASE(tsr_group_remove) { TELL(tsr_group_remove(group, wrong ? "two" : "one", e)); }

CASE(tsr_group_members_open) {
  tsr_group_members *members = NULL;
  TELL(tsr_group_members_open(group, 0, TSR_TIME_NOW, &members, e));
  if (told >= 0) tsr_group_members_close(members);
}

CASE(tsr_group_metadata) {
  tsr_metadata *metadata = NULL;
  ok(tsr_group_set_metadata(group, &entry, &error));
  TELL(tsr_group_metadata(group, 0, TSR_TIME_NOW, &metadata, e));
  if (told >= 0) tsr_metadata_close(metadata);
}

CASE(tsr_group_set_metadata) { TELL(tsr_group_set_metadata(group, wrong ? &odd : &entry, e)); }
CASE(tsr_group_delete_metadata) { TELL(tsr_group_delete_metadata(group, "k", 1, e)); }

CASE(tsr_array_add_attribute) {
  tsr_field attribute = {.name = wrong ? "a" : "b", .datatype = TSR_INT32, .values_per_cell = 1};
  TELL(tsr_array_add_attribute(sparse, &attribute, NULL, e));
}

CASE(tsr_array_drop_attribute) { TELL(tsr_array_drop_attribute(sparse, wrong ? "b" : "a", e)); }

CASE(tsr_array_constraints) {
  tsr_constraints *all = NULL;
  TELL(tsr_array_constraints(sparse, &all, e));
  if (told >= 0) tsr_constraints_close(all);
}

CASE(tsr_array_add_constraint) { TELL(tsr_array_add_constraint(sparse, "c", wrong ? "a >" : "a > 0", true, e)); }

CASE(tsr_array_try_constraint) {
  tsr_field field = {.name = "tried", .datatype = TSR_INT32, .values_per_cell = 1, .nullable = true};
  TELL(tsr_array_try_constraint(sparse, &field, NULL, "c", wrong ? "tried >" : "tried > 0", e));
}

CASE(tsr_array_drop_constraint) {
  (void)tsr_array_add_constraint(sparse, "d", "a > 0", true, NULL);
  TELL(tsr_array_drop_constraint(sparse, wrong ? "nothing" : "d", e));
}

CASE(tsr_array_schema_without) {
  const bool lacking[8] = {false, false, true};
  const tsr_schema *schema;
  TELL(tsr_array_schema_without(sparse, lacking, &schema, e));
}

CASE(tsr_array_extend_enumeration) {
  const tsr_enumeration three = LABELS("e", TSR_ASCII, "three", 0, 5);
  TELL(tsr_array_extend_enumeration(sparse, wrong ? &labels : &three, e));
}

CASE(tsr_array_expand_domain) { TELL(tsr_array_expand_domain(sparse, wrong ? &narrower : &wider, e)); }

/* ---- All of them ------------------------------------------------------------------------------------------------- */

/* clang-format off */
/* X: it changes nothing; W: it writes */
#define CASES(X, W) \
  X(tsr_environment_open) X(tsr_environment_configure) X(tsr_environment_confine) X(tsr_path_permitted) \
  X(tsr_path_lies_below) X(tsr_file_read) \
  X(tsr_environment_add_store) X(tsr_listing_add) X(tsr_object_find) \
  X(tsr_objects_open) X(tsr_datetime_parse) X(tsr_array_open) W(tsr_array_schema) W(tsr_array_schema_listed) \
  X(tsr_array_has_schema) X(tsr_array_enumeration) X(tsr_schema_check) X(tsr_filters_check) W(tsr_array_create) W(tsr_creation_prepare) \
  W(tsr_creation_publish) W(tsr_creation_abandon) W(tsr_creation_find) W(tsr_array_copy_files) W(tsr_array_sync) W(tsr_array_exchange) W(tsr_array_drop) W(tsr_group_drop) \
  W(tsr_lease) \
  X(tsr_array_check) X(tsr_snapshot_open) X(tsr_array_freeze) X(tsr_snapshot_non_empty_domain) X(tsr_fragment_describe) \
  X(tsr_tiles_open) X(tsr_tiles_describe) X(tsr_request_estimate) X(tsr_reader_open) X(tsr_reader_start) X(tsr_reader_next) \
  X(tsr_reader_find) X(tsr_reader_column) X(tsr_block_cells) X(tsr_block_read) X(tsr_block_read_nulls) X(tsr_arrow_open) X(tsr_arrow_open_path) X(tsr_arrow_schema) X(tsr_aggregate_open) X(tsr_expression_types) X(tsr_query_start) \
  X(tsr_query_aggregate_value) X(tsr_query_next) W(tsr_downsample_open) X(tsr_regrid_open) W(tsr_regrid_write) \
  X(tsr_label_open) X(tsr_label_open_array) X(tsr_label_read) X(tsr_label_set_times) X(tsr_label_load) X(tsr_label_find) X(tsr_label_coordinate_of) X(tsr_label_nearest) \
  W(tsr_label_copy) W(tsr_label_write) \
  X(tsr_ingest_open) X(tsr_ingest_set_integer) X(tsr_ingest_set_real) X(tsr_ingest_set_bytes) X(tsr_ingest_end_row) X(tsr_ingest_schema) X(tsr_ingest_stream) X(tsr_ingest_fit) W(tsr_ingest_write) X(tsr_csv_open) X(tsr_csv_next) X(tsr_arrow_columns) X(tsr_ingest_arrow) X(tsr_ingest_block) \
  X(tsr_partitions_open) X(tsr_gaps_open) X(tsr_geometry_read) X(tsr_grid_axis_of_centres) X(tsr_grid_axis_affine) X(tsr_web_side_open) X(tsr_cover_open) X(tsr_cover_next) X(tsr_writer_open) X(tsr_writer_append) W(tsr_writer_append_box) X(tsr_writer_remove) \
  X(tsr_writer_rewind) X(tsr_writer_find) X(tsr_snapshot_with) X(tsr_writer_revert) W(tsr_writer_prepare) W(tsr_writer_publish) \
  W(tsr_writer_abandon) W(tsr_array_recover) W(tsr_array_drop_orphans) X(tsr_array_has_marker) W(tsr_array_prepared) X(tsr_file_identity) X(tsr_owner_next) W(tsr_array_consolidate) X(tsr_array_mergeable) W(tsr_array_vacuum) \
  W(tsr_group_consolidate) W(tsr_group_vacuum) W(tsr_array_metadata) W(tsr_array_set_metadata) W(tsr_array_delete_metadata) \
  X(tsr_group_open) W(tsr_group_create) W(tsr_group_add) W(tsr_group_remove) X(tsr_group_members_open) W(tsr_group_metadata) \
  W(tsr_group_set_metadata) W(tsr_group_delete_metadata) W(tsr_array_add_attribute) W(tsr_array_drop_attribute) \
  W(tsr_array_schema_without) X(tsr_array_constraints) W(tsr_array_add_constraint) W(tsr_array_try_constraint) W(tsr_array_drop_constraint) W(tsr_writer_test) \
  W(tsr_array_extend_enumeration) W(tsr_array_expand_domain)
/* clang-format on */

typedef struct one_case {
  const char *name;
  void (*run)(tsr_error *e);
  bool writes;
} one_case;
static const one_case cases[] = {
#define X(name) {#name, case_##name, false},
#define W(name) {#name, case_##name, true},
    CASES(X, W)
#undef X
#undef W
};
#define CASE_COUNT (sizeof cases / sizeof *cases)

static int permits(void *argument, const char *directory, tsr_error *e) {
  return strstr(directory, "forbidden") ? tsr__fail(e, TSR_PERM, "it is forbidden") : TSR_OK;
}

/* One call, where it writes in a world of its own: its code. */
static int call(const one_case *it, long allocations, bool refused_arguments, tsr_error *e) {
  const tsr_environment_options options = {
      .reallocate = counted_reallocate, .reallocate_argument = &counted, .single_threaded = true, .permits = permits};
  char command[1200];
  snprintf(world, sizeof world, "%s/seed", top);
  if (it->writes) {
    snprintf(world, sizeof world, "%s/%u", top, arrays++);
    snprintf(command, sizeof command, "exec cp -r '%s/seed' '%s'", top, world);
    assert_int_equal(system(command), 0);
  }
  tsr_environment *kept = environment;
  allowed = allocations;
  wrong = refused_arguments;
  counted.left = -1;
  told = 12345;
  ok(tsr_environment_open(&options, &environment, &error));
  sparse = open_in("sparse");
  dense = open_in("dense");
  ok(tsr_group_open(environment, within("group"), NULL, &group, &error));
  it->run(e);
  tsr_group_close(group);
  tsr_array_close(sparse);
  tsr_array_close(dense);
  tsr_environment_close(environment);
  assert_int_equal(counted.blocks, 0);
  environment = kept;
  assert_int_not_equal(told, 12345);
  return told;
}

/* How many allocations a call needs depends a little on the clock (a directory that has just changed is listed again):
 * one of two calls may be
 * through where memory ends for the other. */
static bool is_same(int a, int b, long allocations) {
  return a == b || (allocations >= 0 && TSR_MIN(a, b) == TSR_NOMEM && TSR_MAX(a, b) >= 0);
}

/* The same code with an error and without one, which is filled where it failed. */
static int call_both(const one_case *it, long allocations, bool refused_arguments) {
  tsr_error heard = {0};
  const int code = call(it, allocations, refused_arguments, &heard);
  if (code < 0 && (heard.code != code || !*heard.message))
    fail_msg("%s: %d, but the error says %d \"%s\"", it->name, code, heard.code, heard.message);
  const int unheard = call(it, allocations, refused_arguments, NULL);
  if (!is_same(code, unheard, allocations))
    fail_msg("%s, %ld allocations%s: %s (%s), with NULL %s", it->name, allocations,
             refused_arguments ? ", refused" : "", tsr_code_name(code), heard.message, tsr_code_name(unheard));
  return code;
}

static void test_same_codes(void **state) {
  make_world();
  for (size_t i = 0; i < CASE_COUNT; i++) {
    bool failed = call_both(&cases[i], -1, true) < 0;
    const int code = call_both(&cases[i], -1, false);
    if (code < 0) fail_msg("%s fails: %s", cases[i].name, tsr_code_name(code));
    for (long allocations = 0;; allocations = 3 * allocations + 1) {
      if (call_both(&cases[i], allocations, false) >= 0) break;
      failed = true;
    }
    bool may_fail = true; /* of some functions there is nothing that could */
    static const char *const never[] = {"tsr_snapshot_non_empty_domain", "tsr_file_identity", "tsr_owner_next",
                                        "tsr_label_coordinate_of"};
    for (size_t n = 0; n < sizeof never / sizeof *never; n++) may_fail &= strcmp(cases[i].name, never[n]) != 0;
    if (!failed && may_fail) fail_msg("%s has never failed", cases[i].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_codes)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
