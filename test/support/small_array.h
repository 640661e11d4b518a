/* small_array.h: small arrays on disk, dense or sparse, with one int32 dimension "x" from 0 to 99 in tiles of ten and the
 * int32 attributes "a" and "n". Tests write cells at chosen times, with the value x + 100 * time in both attributes, and
 * read them back as a text.
 */
#ifndef SMALL_ARRAY_H
#define SMALL_ARRAY_H

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "read/reader.h"
#include "write/writer.h"
#include "disk_test.h"

static inline tsr_array *open_small(void) {
  tsr_array *array = NULL;
  const tsr_array_options options = {.threads = 1};
  ok(tsr_array_open(environment, path, &options, &array, &error));
  return array;
}

static inline tsr_array *make_sized(uint32_t version, bool dense, bool duplicates, int32_t last) {
  static tsr_field fields[3];
  fields[0] = int32_dimension("x", 0, last, 10);
  fields[1] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1};
  fields[2] = (tsr_field){.name = "n", .datatype = TSR_INT32, .values_per_cell = 1};
  const tsr_schema schema = {.version = version,
                             .dense = dense,
                             .allows_duplicates = duplicates,
                             .capacity = 10,
                             .dimension_count = 1,
                             .attribute_count = 2,
                             .fields = fields};
  const tsr_create_options options = {.unsynced = true};
  new_path();
  ok(tsr_array_create(environment, path, &schema, &options, &error));
  return open_small();
}
static inline tsr_array *make_small(uint32_t version, bool dense, bool duplicates) {
  return make_sized(version, dense, duplicates, 99);
}

/* Returns the value of a cell that is written at this time. */
static inline int32_t value_at(int32_t x, uint64_t time) { return x + 100 * (int32_t)(time % 100000); }

/* Prepares a commit of the cells first..last at this time, with the same values in all attributes of the array. `name`
 * receives the fragment's name; it may be NULL. With an owner the prepared commit is marked as that owner's. */
static inline tsr_writer *prepare_small(tsr_array *array, uint64_t time, int32_t first, int32_t last, const char *owner,
                                        char name[128]) {
  const tsr_writer_options options = {.time = time, .unsynced = true, .host = &(tsr_writer_host){.owner = owner}};
  const tsr_schema *schema;
  tsr_writer *writer;
  int32_t x[100], values[200] = {0};
  uint64_t count = 0;
  for (int32_t i = first; i <= last; i++, count++) {
    x[count] = i;
    values[count] = value_at(i, time);
  }
  tsr_column columns[8] = {{.values = x}};
  for (int i = 1; i < 8; i++) columns[i] = (tsr_column){.values = values};
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  assert_true(schema->attribute_count < 8);
  ok(tsr_writer_open(array, &options, &writer, &error));
  if (schema->dense) {
    tsr_interval box = {{0}, {0}, NULL, NULL, 0, 0};
    memcpy(box.low, &first, 4);
    memcpy(box.high, &last, 4);
    ok(tsr_writer_append_box(writer, &box, false, columns, &error));
  } else {
    ok(tsr_writer_append(writer, columns, NULL, count, &error));
  }
  ok(tsr_writer_prepare(writer, &error));
  if (name) snprintf(name, 128, "%s", tsr_writer_fragment(writer, 0));
  return writer;
}

static inline void write_small(tsr_array *array, uint64_t time, int32_t first, int32_t last, char name[128]) {
  tsr_writer *writer = prepare_small(array, time, first, last, NULL, name);
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}

/* Returns all written cells as "x=a x=a ...", ordered by x, or the error's message. */
static inline const char *cells_of(tsr_array *array, uint64_t as_of) {
  static char text[4096];
  struct {
    int32_t value;
    unsigned count;
  } found[100] = {{0}};
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  const tsr_batch *batch;
  int size = 0, code;
  ok(tsr_snapshot_open(array, NULL, 0, as_of, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  code = tsr_reader_start(reader, NULL, &error);
  if (code < 0 && strstr(error.message, " is lost: cells of ")) { /* a vacuum or a purge has taken this past away */
    tsr_reader_close(reader);
    tsr_snapshot_close(snapshot);
    return "lost";
  }
  ok(code);
  while ((code = tsr_reader_next(reader, &batch, &error)) > 0) {
    const tsr_column *x, *a;
    if (!batch->written) continue;
    ok(tsr_reader_column(reader, 0, &x, &error));
    ok(tsr_reader_column(reader, 1, &a, &error));
    for (uint64_t i = 0; i < batch->count; i++) {
      const uint64_t at = batch->selection ? batch->selection[i] : batch->first + i;
      const int32_t cell = ((const int32_t *)x->values)[x->constant ? 0 : at];
      found[cell].value = ((const int32_t *)a->values)[a->constant ? 0 : at];
      found[cell].count++;
    }
  }
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  *text = 0;
  if (code < 0) return snprintf(text, sizeof text, "%s", error.message), text;
  for (int i = 0; i < 100; i++)
    for (unsigned k = 0; k < found[i].count; k++)
      size += snprintf(text + size, sizeof text - (size_t)size, "%d=%d ", i, found[i].value);
  return text;
}

/* Makes a file or directory of the array look two days old. */
static inline void age(const char *name) {
  char command[1200];
  snprintf(command, sizeof command, "find '%s/%s' -exec touch -h -d '2 days ago' {} +", path, name);
  assert_int_equal(system(command), 0);
}

static inline uint64_t merge_small(tsr_array *array) {
  uint64_t merged = 0;
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &merged, &error));
  return merged;
}

#endif
