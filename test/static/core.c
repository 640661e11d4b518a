/* core.c: a program without SQLite: a slice of the relief by tessera.h alone. Also compiled against an installed
 * library.
 *
 * usage: core RELIEF
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera.h>

typedef struct total {
  uint64_t cells;
  int64_t sum;
  int least, most;
} total;

static int find_field(const tsr_schema *schema, const char *name) {
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++)
    if (!strcmp(schema->fields[f].name, name)) return (int)f;
  return -1;
}

static int add_batches(tsr_reader *reader, uint32_t field, total *t, tsr_error *error) {
  const tsr_batch *batch;
  const tsr_column *column;
  int code;
  while ((code = tsr_reader_next(reader, &batch, error)) > 0) {
    if ((code = tsr_reader_column(reader, field, &column, error)) < 0) return code;
    for (uint64_t r = 0; r < batch->count; r++) {
      uint64_t i = column->constant ? 0 : batch->selection ? batch->selection[r] : batch->first + r;
      int16_t value;
      memcpy(&value, (const uint8_t *)column->values + i * column->cell_size, sizeof value);
      if (!t->cells++) t->least = t->most = value;
      t->sum += value;
      if (value < t->least) t->least = value;
      if (value > t->most) t->most = value;
    }
  }
  return code;
}

/* 90 x 90 cells around the equator and the meridian of Greenwich. */
static int slice(tsr_snapshot *snapshot, total *t, tsr_error *error) {
  const tsr_schema *schema = tsr_snapshot_schema(snapshot);
  int field = find_field(schema, "elevation");
  if (schema->dimension_count != 2 || field < 0 || schema->fields[field].datatype != TSR_INT16 ||
      schema->fields[0].datatype != TSR_INT32) {
    printf("the relief has another schema\n");
    return TSR_ERROR;
  }
  int32_t ends[2][2] = {{0, 89}, {-20, 69}};
  tsr_range range[2];
  tsr_ranges dimensions[2];
  bool fields[3] = {false, false, true};
  for (int d = 0; d < 2; d++) {
    range[d] = (tsr_range){.low = &ends[d][0], .high = &ends[d][1]};
    dimensions[d] = (tsr_ranges){.ranges = &range[d], .count = 1};
  }
  tsr_request request = {.dimensions = dimensions, .fields = fields};
  tsr_reader *reader = NULL;
  int code = tsr_reader_open(snapshot, &reader, error);
  if (code >= 0) code = tsr_reader_start(reader, &request, error);
  if (code >= 0) code = add_batches(reader, (uint32_t)field, t, error);
  tsr_reader_close(reader);
  return code;
}

int main(int argc, char **argv) {
  tsr_error error = {0};
  tsr_environment *environment = NULL;
  tsr_array *array = NULL;
  tsr_snapshot *snapshot = NULL;
  total t = {0};
  if (argc != 2) return 2;
  int code = tsr_environment_open(NULL, &environment, &error);
  if (code >= 0) code = tsr_array_open(environment, argv[1], NULL, &array, &error);
  if (code >= 0) code = tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error);
  if (code >= 0) code = slice(snapshot, &t, &error);
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  if (code >= 0 && tsr_array_open(environment, "/nowhere", NULL, &array, &error) != TSR_NOT_FOUND) code = TSR_ERROR;
  tsr_environment_close(environment);
  if (code < 0) printf("%s: %s\n", tsr_code_name(code), error.message);
  else printf("%" PRIu64 " cells, sum %" PRId64 ", from %d to %d\n", t.cells, t.sum, t.least, t.most);
  return !(code >= 0 && t.cells == 8100 && t.sum == 840524 && t.least == -5142 && t.most == 2096);
}
