/* fuzz_ingest.c: fuzzes what comes in: CSV, and the structures of Arrow streams.
 *
 *   u8 flags: 1 Arrow; 2 the first column is a dimension; 4 lines without a byte are skipped; 8 the rows become a stream;
 *             16 rows at the coordinates of an earlier row are left out
 *   of CSV:   u8 delimiter | u8 bytes of one read | the rest: the file
 *   of Arrow: u8 rows, negative from 128 on | u8 columns, then for each one, and for its dictionary if it has one, or its list:
 *             u8 format, with a dictionary from 128 on | u8 length | u8 offset | u8 null count | u8 number of buffers
 *             u8 bits: which buffers are there | for each buffer u8 size, bytes
 *
 * The sizes of buffers are not in Arrow's structures, and a producer that lies about them cannot be found out. So all
 * buffers have BUFFER bytes, lengths are small, and offsets of text are reduced to what the buffers hold.
 */
#include <tessera.h>

#include "fuzz.h"

#define BUFFER      ((size_t)64 << 10)
#define BUFFERS_MAX 6
#define COLUMNS_MAX 4

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

typedef struct source {
  tsr_input in;
  uint8_t block;
} source;

static int give_bytes(void *argument, void *bytes, uint64_t size, uint64_t *got, tsr_error *error) {
  source *s = argument;
  const uint8_t *from = fuzz_take(&s->in, TSR_MIN(size, (uint64_t)s->block + 1), got);
  if (*got) memcpy(bytes, from, *got);
  return TSR_OK;
}

static void run_csv(tsr_environment *environment, uint8_t flags, tsr_input *in) {
  source s = {0};
  tsr_csv *csv;
  tsr_error error = {0};
  tsr_csv_options options = {.read = give_bytes, .argument = &s, .skip_empty = flags & 4};
  options.delimiter = (char)tsr__input_u8(in);
  s.block = tsr__input_u8(in);
  s.in = *in;
  int code = tsr_csv_open(environment, &options, &csv, &error);
  check_told(code, &error);
  if (code < 0) return;
  uint64_t line, last = 0;
  do {
    const tsr_csv_field *fields;
    uint32_t count;
    error = (tsr_error){0};
    code = tsr_csv_next(csv, &fields, &count, &line, &error);
    check_told(code, &error);
    if (code == TSR_UNSUPPORTED && last == 0) break; /* UTF-16 */
    CHECK(code >= 0 || code == TSR_MISMATCH);
    CHECK(code == 0 || line > last); /* so it ends */
    last = line;
    for (uint32_t i = 0; code > 0 && i < count; i++) fuzz_touch(fields[i].bytes, fields[i].size);
  } while (code != 0);
  tsr_csv_close(csv);
}

/* ---- Arrow ------------------------------------------------------------------------------------------------------- */

static const char *const formats[] = {"b",   "c",   "C",       "s",   "S",   "i",  "I",  "l",    "L",
                                      "e",   "f",   "g",       "u",   "U",   "z",  "Z",  "vu",   "vz",
                                      "tdD", "tdm", "tsn:UTC", "ttu", "tDs", "+l", "+L", "+w:2", "+w:1"};
#define FORMATS (sizeof formats / sizeof *formats)

typedef struct given {
  struct ArrowSchema schema, *schemas[COLUMNS_MAX];
  struct ArrowArray array, *arrays[COLUMNS_MAX];
  const void *pointers[BUFFERS_MAX];
  int64_t sizes[BUFFERS_MAX];
  uint8_t *buffers[BUFFERS_MAX];
  struct given *dictionary, *items; /* items: the values of a list */
  struct ArrowSchema *item_schema;
  struct ArrowArray *item_array;
  char name[4];
} given;

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_array(struct ArrowArray *array) { array->release = NULL; }

static void reduce_offsets(const char *format, uint8_t *bytes) {
  const bool narrow = !strcmp(format, "u") || !strcmp(format, "z") || !strcmp(format, "+l");
  const bool wide = !strcmp(format, "U") || !strcmp(format, "Z") || !strcmp(format, "+L");
  for (size_t i = 0; narrow && i < BUFFER; i += 4) {
    int32_t offset;
    memcpy(&offset, bytes + i, 4);
    offset %= (int32_t)BUFFER;
    memcpy(bytes + i, &offset, 4);
  }
  for (size_t i = 0; wide && i < BUFFER; i += 8) {
    int64_t offset;
    memcpy(&offset, bytes + i, 8);
    offset %= (int64_t)BUFFER;
    memcpy(bytes + i, &offset, 8);
  }
}

static void read_given(tsr_input *in, given *g, bool may_have_dictionary) {
  const uint8_t kind = tsr__input_u8(in);
  const char *format = formats[kind % 128 % FORMATS];
  g->schema.format = format;
  g->schema.flags = 3;
  g->schema.name = g->name;
  g->schema.release = release_schema;
  g->array.release = release_array;
  g->array.length = (int8_t)tsr__input_u8(in);
  g->array.offset = (int8_t)tsr__input_u8(in);
  g->array.null_count = (int8_t)tsr__input_u8(in);
  g->array.n_buffers = tsr__input_u8(in) % (BUFFERS_MAX + 1);
  g->array.buffers = g->pointers;
  const uint8_t there = tsr__input_u8(in);
  for (int64_t i = 0; i < g->array.n_buffers; i++) {
    uint64_t size;
    const uint8_t *bytes = fuzz_take(in, tsr__input_u8(in), &size);
    if (!(there >> i & 1)) continue;
    CHECK(g->buffers[i] = calloc(1, BUFFER));
    if (size) memcpy(g->buffers[i], bytes, size);
    if (i == 1) reduce_offsets(format, g->buffers[i]);
    g->pointers[i] = g->buffers[i];
    g->sizes[i] = BUFFER;
  }
  if (*format == 'v' && g->array.n_buffers > 3) g->pointers[g->array.n_buffers - 1] = g->sizes;
  for (int64_t i = 2; *format == 'v' && i + 1 < g->array.n_buffers; i++) g->sizes[i - 2] = BUFFER;
  if (*format == '+' && may_have_dictionary) {
    CHECK(g->items = calloc(1, sizeof *g->items));
    read_given(in, g->items, false);
    g->item_schema = &g->items->schema;
    g->item_array = &g->items->array;
    g->schema.children = &g->item_schema;
    g->array.children = &g->item_array;
    g->schema.n_children = g->array.n_children = 1;
  }
  if (kind < 128 || !may_have_dictionary) return;
  CHECK(g->dictionary = calloc(1, sizeof *g->dictionary));
  read_given(in, g->dictionary, false);
  g->schema.dictionary = &g->dictionary->schema;
  g->array.dictionary = &g->dictionary->array;
}

static void free_given(given *g) {
  if (g->dictionary) free_given(g->dictionary);
  if (g->items) free_given(g->items);
  free(g->dictionary);
  free(g->items);
  for (int i = 0; i < BUFFERS_MAX; i++) free(g->buffers[i]);
}

/* Reads the rows as a stream. */
static void stream_out(tsr_ingest *ingest) {
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray batch;
  tsr_error error = {0};
  const int code = tsr_ingest_stream(ingest, NULL, &stream, &error);
  check_told(code, &error);
  if (code < 0) return;
  if (stream.get_schema(&stream, &schema) == 0) {
    (void)tsr_arrow_request(&stream, &schema);
    schema.release(&schema);
  }
  while (stream.get_next(&stream, &batch) == 0 && batch.release) batch.release(&batch);
  stream.release(&stream);
}

static void count_left_out(void *argument, uint64_t number, const char *where) {
  uint64_t *last = argument;
  CHECK(number > *last && (*last == 0) == (where != NULL));
  *last = number;
}

static void ingest(tsr_environment *environment, const given *top, uint8_t flags) {
  static const int kept[COLUMNS_MAX] = {0, 1, 2, 3};
  static const uint32_t first[1] = {0};
  tsr_ingest_column columns[COLUMNS_MAX];
  tsr_ingest *made = NULL;
  const tsr_schema *schema;
  uint64_t last = 0; /* row that was left out */
  tsr_error error = {0};
  const tsr_ingest_options options = {.columns = columns,
                                      .column_count = (uint32_t)top->schema.n_children,
                                      .dimensions = first,
                                      .dimension_count = flags & 2 ? 1 : 0,
                                      .left_out = flags & 16 ? count_left_out : NULL,
                                      .left_out_argument = &last,
                                      .memory_bytes = FUZZ_MEMORY};
  int code = tsr_arrow_columns(&top->schema, columns, &error);
  if (code >= 0) code = tsr_ingest_open(environment, &options, &made, &error);
  if (code >= 0) code = tsr_ingest_arrow(made, &top->schema, &top->array, kept, &error);
  if (code >= 0 && flags & 8) {
    stream_out(made);
    tsr_ingest_close(made);
    return;
  }
  if (code >= 0) code = tsr_ingest_schema(made, &schema, &error);
  if (code >= 0) code = tsr_schema_check(environment, schema, &error);
  check_told(code, &error);
  tsr_ingest_close(made);
}

static void run_arrow(tsr_environment *environment, uint8_t flags, tsr_input *in) {
  given top = {.schema = {.format = "+s", .release = release_schema}, .array = {.release = release_array}};
  given columns[COLUMNS_MAX] = {0};
  top.array.length = (int8_t)tsr__input_u8(in);
  top.schema.n_children = top.array.n_children = 1 + tsr__input_u8(in) % COLUMNS_MAX;
  top.schema.children = top.schemas;
  top.array.children = top.arrays;
  for (int64_t i = 0; i < top.schema.n_children; i++) {
    snprintf(columns[i].name, sizeof columns[i].name, "c%d", (int)i);
    read_given(in, &columns[i], true);
    top.schemas[i] = &columns[i].schema;
    top.arrays[i] = &columns[i].array;
  }
  ingest(environment, &top, flags);
  for (int64_t i = 0; i < top.schema.n_children; i++) free_given(&columns[i]);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tsr_environment *environment;
  const tsr_environment_options options = {.single_threaded = true};
  uint8_t *copy = fuzz_exact(data, TSR_MIN(size, FUZZ_INPUT));
  tsr_input in = tsr__input(copy, TSR_MIN(size, FUZZ_INPUT));
  CHECK(tsr_environment_open(&options, &environment, NULL) >= 0);
  const uint8_t flags = tsr__input_u8(&in);
  if (flags & 1) run_arrow(environment, flags, &in);
  else run_csv(environment, flags, &in);
  tsr_environment_close(environment);
  free(copy);
  return 0;
}
