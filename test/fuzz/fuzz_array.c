/* fuzz_array.c: fuzzes an array or group whose files are the input (tree.c), in a store of the host. The target opens and
 * inspects it, reads slices, in orders and with predicates, and checks it; if the flags in the input's first byte ask for it,
 * it also writes, consolidates and vacuums.
 *
 * Whatever the files hold, each call must return rows or an error with a message, in bounded memory, and free all memory.
 */

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "store_memory.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "write/writer.h"
#include "fuzz.h"

#define BATCHES_MAX 12
#define ROWS_MAX    500
#define CALLS_MAX   20000 /* calls of the host's interrupt, after which the input is stopped */
#define PEAK_MAX    ((uint64_t)160 << 20)
#define PATH        "mem:a"

/* Flags in the first byte, beside those of the tree. Leaving work out makes room for more inputs. */
enum {
  FLAG_MAINTAIN = 4,
  FLAG_WRITE = 8,
  FLAG_NO_CHECK = 16,
  FLAG_NO_SLICES = 32,
  FLAG_NO_INSPECTION = 64,
  FLAG_NO_PAST = 128
};

static tsr_memory store_memory;
static tsr_store *store;
static unsigned calls;

/* ---- The host's store: a tree in memory ------------------------------------------------------------------------- */

static int open_tree(void *argument, const char *path, void **out, tsr_error *error) {
  *out = store;
  return strcmp(path, PATH) ? tsr__fail(error, TSR_NOT_FOUND, "no such tree") : TSR_OK;
}
static void close_tree(void *it) {}
static int open_file(void *it, const char *path, void **file, uint64_t *size, tsr_error *error) {
  tsr_file *opened;
  TSR_TRY(tsr__store_open_file(it, path, &opened, error));
  *size = opened->size;
  *file = opened;
  return TSR_OK;
}
static int create_exclusive(void *it, const char *path, void **file, tsr_error *error) {
  tsr_file *created;
  TSR_TRY(tsr__store_create_exclusive(it, path, &created, error));
  *file = created;
  return TSR_OK;
}
static void close_file(void *file) { tsr__store_close_file(file); }
static int read_at(void *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  return tsr__store_read_at(file, offset, buffer, size, error);
}
static int append(void *file, const void *bytes, uint64_t size, tsr_error *error) {
  return tsr__store_append(file, bytes, size, error);
}
static int sync_file(void *file, tsr_error *error) { return TSR_OK; }
static int list(void *it, const char *path, tsr_listing *listing, tsr_error *error) {
  tsr_listing found = {0};
  TSR_TRY(tsr__store_list(it, path, &found, error));
  int code = TSR_OK;
  for (uint64_t i = 0; i < found.count && code >= 0; i++)
    code = tsr_listing_add(listing, found.entries[i].name, found.entries[i].kind, error);
  tsr__listing_release(&found);
  return code;
}
static int stamp(void *it, const char *path, uint64_t *number, tsr_error *error) {
  tsr_stamp stamped;
  TSR_TRY(tsr__store_stamp(it, path, &stamped, error));
  *number = stamped.a;
  return TSR_OK;
}
static int modified(void *it, const char *path, uint64_t *milliseconds, tsr_error *error) {
  return tsr__store_modified(it, path, milliseconds, error);
}
static int rename_either(void *it, const char *from, const char *to, bool exclusive, tsr_error *error) {
  return exclusive ? tsr__store_rename_exclusive(it, from, to, error) : tsr__store_rename(it, from, to, error);
}
static int remove_path(void *it, const char *path, tsr_error *error) {
  return *path ? tsr__store_remove(it, path, error) : TSR_OK;
}
static int make_directory(void *it, const char *path, tsr_error *error) {
  return *path ? tsr__store_make_directory(it, path, error)
               : tsr__fail(error, TSR_EXISTS, "something is already there");
}
static const tsr_host_store host = {
    open_tree, close_tree, open_file, create_exclusive, close_file,    read_at,     append,
    sync_file, list,       stamp,     modified,         rename_either, remove_path, make_directory};

static bool interrupted(void *argument) { return ++calls > CALLS_MAX; }

/* ---- Uses ------------------------------------------------------------------------------------------------------- */

typedef struct session {
  tsr_environment *environment;
  tsr_array *array;
  tsr_snapshot *snapshot;
  const tsr_schema *schema;
  const uint8_t *key;
  tsr_error error;
} session;

static bool told(session *s, int code) {
  check_told(code, &s->error);
  s->error = (tsr_error){0};
  return code >= 0;
}

static void touch_text(const char *text) {
  if (text) fuzz_touch(text, strlen(text));
}

static void touch_interval(const tsr_schema *schema, const tsr_interval *intervals) {
  for (uint32_t d = 0; intervals && d < schema->dimension_count; d++)
    if (schema->fields[d].values_per_cell == TSR_VARIABLE) {
      fuzz_touch(intervals[d].low_text, intervals[d].low_size);
      fuzz_touch(intervals[d].high_text, intervals[d].high_size);
    }
}

static void touch_batch(session *s, tsr_reader *reader, const tsr_batch *batch) {
  uint32_t fields = s->schema->dimension_count + s->schema->attribute_count;
  CHECK(batch->count > 0);
  for (uint32_t f = 0; f < fields; f++) {
    const tsr_column *column;
    if (!told(s, tsr_reader_column(reader, f, &column, &s->error))) return;
    for (uint64_t r = 0; r < TSR_MIN(batch->count, ROWS_MAX); r++) {
      uint64_t i = batch->selection ? batch->selection[r] : batch->first + r, j = column->constant ? 0 : i;
      if (column->validity) fuzz_touch(column->validity + j, 1);
      if (column->cell_size) {
        fuzz_touch((const uint8_t *)column->values + j * column->cell_size, column->cell_size);
      } else {
        CHECK(column->offsets[j] <= column->offsets[j + 1]);
        fuzz_touch((const uint8_t *)column->values + column->offsets[j], column->offsets[j + 1] - column->offsets[j]);
      }
      if (batch->times) fuzz_touch(batch->times + i, 8);
      if (batch->rowids) fuzz_touch(batch->rowids + i, 8);
    }
  }
}

/* Reads a request. Returns the rowid of the first row, or 0. */
static int64_t read_rows(session *s, const tsr_request *request) {
  tsr_reader *reader;
  const tsr_batch *batch;
  tsr_estimate estimate;
  int64_t row = 0;
  told(s, tsr_request_estimate(s->snapshot, request, &estimate, &s->error));
  if (!told(s, tsr_reader_open(s->snapshot, &reader, &s->error))) return 0;
  if (told(s, tsr_reader_start(reader, request, &s->error)))
    for (int n = 0; n < BATCHES_MAX; n++) {
      int code = tsr_reader_next(reader, &batch, &s->error);
      if (!told(s, code) || code == 0) break;
      uint64_t i = batch->selection ? batch->selection[0] : batch->first;
      if (!row) row = batch->rowids ? batch->rowids[i] : batch->row_base + (int64_t)i;
      touch_batch(s, reader, batch);
    }
  if (row) {
    int code = tsr_reader_find(reader, row, &batch, &s->error);
    if (told(s, code) && code > 0) touch_batch(s, reader, batch);
  }
  tsr_reader_close(reader);
  return row;
}

#define DIMENSIONS_MAX 16

static void read_slices(session *s, uint8_t flags) {
  const tsr_interval *box;
  tsr_ranges ranges[DIMENSIONS_MAX] = {0};
  tsr_range range[DIMENSIONS_MAX] = {0};
  tsr_sort sorts[DIMENSIONS_MAX];
  uint32_t dimensions = s->schema->dimension_count, fields = dimensions + s->schema->attribute_count;
  tsr_request request = {.memory_bytes = FUZZ_MEMORY, .threads = 1, .times = true};
  read_rows(s, &request);
  if (flags & FLAG_NO_SLICES) return;
  int code = tsr_snapshot_non_empty_domain(s->snapshot, &box, &s->error);
  if (!told(s, code) || code == 0 || dimensions > DIMENSIONS_MAX) return;
  touch_interval(s->schema, box);
  for (uint32_t d = 0; d < dimensions; d++) { /* values above the low end; in the last dimension the low end only */
    bool text = s->schema->fields[d].values_per_cell == TSR_VARIABLE;
    range[d].low = text ? box[d].low_text : box[d].low;
    range[d].low_size = box[d].low_size;
    if (d + 1 == dimensions) {
      range[d].high = range[d].low;
      range[d].high_size = range[d].low_size;
    } else {
      range[d].low_exclusive = true;
    }
    ranges[d] = (tsr_ranges){.ranges = &range[d], .count = 1};
    sorts[d] = (tsr_sort){dimensions - 1 - d, d % 2 == 0};
  }
  request.dimensions = ranges;
  read_rows(s, &request);
  request.dimensions = NULL;
  request.order = sorts;
  request.order_count = dimensions;
  read_rows(s, &request);
  request.order = NULL;
  request.order_count = 0;
  for (uint32_t f = dimensions; f < TSR_MIN(fields, dimensions + 3); f++) {
    static const uint8_t zero[8];
    const tsr_field *field = &s->schema->fields[f];
    tsr_range above = {.low = zero, .low_size = 1};
    tsr_predicate predicate = {f, TSR_PREDICATE_WITHIN, f % 2 == 0, true, {.ranges = &above, .count = 1}};
    tsr_kind kind = tsr_datatype_kind(field->datatype);
    bool text = field->datatype == TSR_CHAR || field->datatype == TSR_ASCII || field->datatype == TSR_UTF8;
    bool one =
        field->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES && kind != TSR_KIND_BOOLEAN;
    if (!one && !text) predicate.kind = TSR_PREDICATE_IS_NULL;
    request.predicates = &predicate;
    request.predicate_count = 1;
    read_rows(s, &request);
  }
  request.predicate_count = 0;
  for (uint32_t f = 0; f < TSR_MIN(fields, dimensions + 2); f++) {
    const tsr_field *field = &s->schema->fields[f];
    tsr_kind kind = tsr_datatype_kind(field->datatype);
    const uint32_t by = 0;
    tsr_aggregate_request wanted = {
        .field = f, .by = &by, .by_count = f % 2, .memory_bytes = FUZZ_MEMORY, .threads = 1};
    tsr_aggregate *aggregate;
    tsr_aggregate_row row;
    if (field->values_per_cell != 1 || kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES) continue;
    if (!told(s, tsr_aggregate_open(s->snapshot, &wanted, &aggregate, &s->error))) continue;
    for (uint64_t i = 0; i < TSR_MIN(tsr_aggregate_count(aggregate), ROWS_MAX); i++) {
      tsr_aggregate_get(aggregate, i, &row);
      for (uint32_t k = 0; k < wanted.by_count; k++) fuzz_touch(row.keys[k], row.key_sizes[k]);
    }
    tsr_aggregate_close(aggregate);
  }
  tsr_partitions *partitions;
  if (told(s, tsr_partitions_open(s->snapshot, NULL, 5, &partitions, &s->error))) {
    CHECK(partitions->count <= 5);
    tsr_partitions_close(partitions);
  }
  uint64_t cells;
  if (s->schema->dense && told(s, tsr_block_cells(s->snapshot, box, NULL, &cells, &s->error)) && cells <= ROWS_MAX)
    for (uint32_t f = dimensions; f < fields; f++) {
      const tsr_field *field = &s->schema->fields[f];
      if (field->values_per_cell == TSR_VARIABLE || field->cell_size > 4096) continue;
      uint8_t *out = malloc(cells * field->cell_size + 1);
      CHECK(out);
      if (told(s, tsr_block_read(s->snapshot, f, box, FUZZ_MEMORY, 1, out, cells * field->cell_size, &s->error)))
        fuzz_touch(out, cells * field->cell_size);
      free(out);
    }
}

static void inspect(session *s) {
  for (uint64_t f = 0; f < TSR_MIN(tsr_fragment_count(s->snapshot), 8); f++) {
    tsr_fragment_info info;
    tsr_tiles *tiles;
    if (!told(s, tsr_fragment_describe(s->snapshot, f, &info, &s->error))) continue;
    touch_text(info.name);
    touch_interval(info.schema, info.non_empty_domain);
    if (!told(s, tsr_tiles_open(s->snapshot, f, &tiles, &s->error))) continue;
    for (uint32_t i = 0; i < TSR_MIN(tsr_tiles_fields(tiles), 8); i++)
      for (uint64_t t = 0; t < TSR_MIN(info.tiles, 8); t++) {
        tsr_tile_info tile;
        if (!told(s, tsr_tiles_describe(tiles, i, t, &tile, &s->error))) continue;
        fuzz_touch(tile.min, tile.min ? tile.min_size : 0);
        fuzz_touch(tile.max, tile.max ? tile.max_size : 0);
        touch_interval(info.schema, tile.box);
      }
    tsr_tiles_close(tiles);
  }
}

static void use_metadata(session *s) {
  tsr_metadata *metadata;
  if (!told(s, tsr_array_metadata(s->array, 0, TSR_TIME_NOW, &metadata, &s->error))) return;
  for (uint64_t i = 0; i < metadata->count; i++) {
    fuzz_touch(metadata->entries[i].key, metadata->entries[i].key_size + 1);
    fuzz_touch(metadata->entries[i].value, metadata->entries[i].value_size);
  }
  tsr_metadata_close(metadata);
}

static void use_snapshot(session *s, uint8_t flags, uint64_t since, uint64_t as_of) {
  if (!told(s, tsr_snapshot_open(s->array, NULL, since, as_of, &s->snapshot, &s->error))) return;
  s->schema = tsr_snapshot_schema(s->snapshot);
  if (!(flags & FLAG_NO_INSPECTION)) inspect(s);
  read_slices(s, flags);
  tsr_snapshot_close(s->snapshot);
}

static void use_enumerations(session *s) {
  if (!told(s, tsr_array_schema(s->array, TSR_TIME_NOW, &s->schema, &s->error))) return;
  for (uint32_t e = 0; e < s->schema->enumeration_count; e++) {
    const tsr_enumeration *enumeration;
    if (told(s, tsr_array_enumeration(s->array, s->schema, s->schema->enumerations[e].name, &enumeration, &s->error)))
      fuzz_touch(enumeration->data, enumeration->data_size);
  }
}

/* Writes one cell, at the low end of the array's non-empty domain, with the fill values. */
static void write_cell(session *s) {
  tsr_writer *writer;
  tsr_writer_options options = {.memory_bytes = FUZZ_MEMORY, .threads = 1, .unsynced = true};
  const tsr_interval *box;
  tsr_column columns[64] = {0};
  uint64_t ends[64][2] = {{0}};
  if (!told(s, tsr_snapshot_open(s->array, NULL, 0, TSR_TIME_NOW, &s->snapshot, &s->error))) return;
  int code = tsr_snapshot_non_empty_domain(s->snapshot, &box, &s->error);
  if (told(s, code) && code > 0 && told(s, tsr_writer_open(s->array, &options, &writer, &s->error))) {
    const tsr_schema *schema = tsr_writer_schema(writer);
    uint32_t fields = schema->dimension_count + schema->attribute_count;
    if (fields <= 64 && schema->dimension_count == tsr_snapshot_schema(s->snapshot)->dimension_count) {
      for (uint32_t f = 0; f < fields; f++) {
        const tsr_field *field = &schema->fields[f];
        bool text = field->values_per_cell == TSR_VARIABLE;
        columns[f].cell_size = field->cell_size;
        if (f < schema->dimension_count) columns[f].values = text ? box[f].low_text : box[f].low;
        else columns[f].values = field->fill;
        ends[f][1] = f < schema->dimension_count ? box[f].low_size : field->fill_size;
        if (text) columns[f].offsets = ends[f];
      }
      if (told(s, tsr_writer_append(writer, columns, NULL, 1, &s->error)) &&
          told(s, tsr_writer_prepare(writer, &s->error)))
        told(s, tsr_writer_publish(writer, &s->error));
      else told(s, tsr_writer_abandon(writer, &s->error));
    }
    tsr_writer_close(writer);
  }
  tsr_snapshot_close(s->snapshot);
}

static void maintain(session *s) {
  static const tsr_maintenance kinds[] = {TSR_MAINTAIN_COMMITS, TSR_MAINTAIN_FRAGMENT_META, TSR_MAINTAIN_METADATA,
                                          TSR_MAINTAIN_FRAGMENTS};
  tsr_consolidate_options options = {.memory_bytes = FUZZ_MEMORY, .threads = 1};
  uint64_t count;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    told(s, tsr_array_consolidate(s->array, kinds[i], &options, &count, &s->error));
  told(s, tsr_array_vacuum(s->array, TSR_MAINTAIN_ALL, NULL, &count, &s->error));
}

static int report(void *argument, const tsr_finding *finding) {
  touch_text(finding->file);
  touch_text(finding->message);
  CHECK(*finding->message);
  return TSR_OK;
}

static void use_array(session *s, uint8_t flags) {
  tsr_array_options options = {.key = s->key, .cache_bytes = (uint64_t)1 << 20, .threads = 1};
  if (told(s, tsr_array_open(s->environment, PATH, &options, &s->array, &s->error))) {
    if (!(flags & FLAG_NO_INSPECTION)) use_enumerations(s), use_metadata(s);
    if (flags & FLAG_WRITE) write_cell(s);
    if (flags & FLAG_MAINTAIN) maintain(s);
    use_snapshot(s, flags, 0, TSR_TIME_NOW);
    if (!(flags & FLAG_NO_PAST))
      use_snapshot(s, flags, 5, 50); /* some arrays of the corpus were written at these times */
    tsr_array_close(s->array);
  }
  if (flags & FLAG_NO_CHECK) return;
  tsr_check_options check = {.key = s->key, .memory_bytes = FUZZ_MEMORY, .threads = 1};
  told(s, tsr_array_check(s->environment, PATH, &check, report, NULL, &s->error));
}

static void use_group(session *s) {
  tsr_group *group;
  tsr_group_members *members;
  tsr_metadata *metadata;
  if (!told(s, tsr_group_open(s->environment, PATH, s->key, &group, &s->error))) return;
  if (told(s, tsr_group_members_open(group, 0, TSR_TIME_NOW, &members, &s->error))) {
    for (uint64_t i = 0; i < members->count; i++) {
      touch_text(members->members[i].name);
      touch_text(members->members[i].path);
    }
    tsr_group_members_close(members);
  }
  if (told(s, tsr_group_metadata(group, 0, TSR_TIME_NOW, &metadata, &s->error))) tsr_metadata_close(metadata);
  tsr_group_close(group);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  room r;
  tree t;
  session s = {0};
  if (size < 2 || size > FUZZ_INPUT) return 0;
  calls = 0;
  room_open(&r);
  tsr_input in = tsr__input(data, size);
  tree_read(&in, &t);
  tsr__memory_init_root(&store_memory, NULL, NULL);
  CHECK(tsr__store_memory_open(&store_memory, PATH, &store, NULL) == TSR_OK);
  tree_store(&t, store);
  s.key = tree_key(&t);
  tsr_environment_options options = {.interrupted = interrupted, .single_threaded = true};
  CHECK(tsr_environment_open(&options, &s.environment, NULL) == TSR_OK);
  CHECK(tsr_environment_add_store(s.environment, "mem", &host, NULL, NULL) == TSR_OK);
  tsr_objects *objects;
  tsr_object_kind kind;
  if (told(&s, tsr_objects_open(s.environment, PATH, &objects, &s.error))) tsr_objects_close(objects);
  if (told(&s, tsr_object_find(s.environment, PATH, &kind, &s.error))) {
    if (kind == TSR_OBJECT_ARRAY) use_array(&s, t.flags);
    if (kind == TSR_OBJECT_GROUP) use_group(&s);
  }
  CHECK(s.environment->memory.peak < PEAK_MAX);
  tsr_environment_close(s.environment);
  tsr__store_close(store);
  CHECK(store_memory.used == 0);
  room_close(&r);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  if (size > 2 && fuzz_random(&state) % 16 == 0) data[0] ^= (uint8_t)(fuzz_random(&state) & 0xf0);
  if (size > 2 && fuzz_random(&state) % 64 == 0) data[0] ^= (uint8_t)(FLAG_MAINTAIN << fuzz_random(&state) % 2);
  return tree_mutate(data, size, most, &state);
}
