/* create.c: creates arrays, in two steps.
 *
 *   prepare  writes the array's directory and everything in it, and syncs it. Only __schema does not have its name yet:
 *            it is called .pending__T_T_UUID (".pending" and the name of the schema file in it), and also has the files
 *            of enumerations.
 *   publish  renames that directory to __schema. No reader takes a directory without __schema for an array, so the
 *            array appears with that one rename.
 *
 * In format version 3 the schema is a single file instead of a directory: .pending__array_schema.tdb becomes
 * __array_schema.tdb. Until it is published, a creation can be abandoned, which removes everything that it has made and
 * the cells that were written to the array meanwhile.
 *
 * The array's directory is made exclusively, so of two creations at the same path one fails with TSR_EXISTS.
 *
 * Sections: schemas as callers fill them in; names; files; directories above the array; abandon; prepare, publish.
 */
#include "define/define.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "store/store.h"
#include "model/datatype.h"
#include "model/name.h"
#include "format/duration.h"
#include "format/enumeration.h"
#include "format/schema.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"

#define DEFAULT_CHUNK 65536u
#define PATH_SIZE_MAX (2 * TSR_CREATION_PATH) /* bytes of a path in the pending directory */

struct tsr_creation {
  tsr_environment *environment;
  tsr_memory memory;
  tsr_arena arena;
  tsr_store *store;
  char *path;
  uint64_t time; /* of the schema, in milliseconds since 1970 */
  tsr_schema schema;
  bool made_root; /* this creation has made the array's directory */
  uint32_t missing_parents; /* directories above it that did not exist before */
  bool found; /* another process has prepared it (tsr_creation_find) */
  bool durable, published, abandoned;
  const char *owner; /* path of the database file whose commit comes first; from `arena`, or NULL */
};

/* ---- Schemas as callers fill them in ----------------------------------------------------------------------------- */

static void complete_pipeline(tsr_pipeline *pipeline) {
  if (!pipeline->max_chunk_size && !pipeline->uncut) pipeline->max_chunk_size = DEFAULT_CHUNK;
}

static int complete_fill(tsr_field *field, tsr_arena *arena, tsr_error *error) {
  if (field->fill || field->fill_size || field->is_dimension) return TSR_OK;
  uint64_t size = tsr_datatype_size(field->datatype), bytes = field->cell_size ? field->cell_size : size;
  TSR_TRY(TSR_ARENA_RAW(arena, bytes, &field->fill, error));
  field->fill_size = bytes;
  field->fill_validity = 0;
  for (uint64_t at = 0; size && at < bytes; at += size) tsr__datatype_fill(field->datatype, field->fill + at);
  return TSR_OK;
}

/* Completes each label from the schema of its array. */
static int complete_labels(tsr_schema *made, tsr_arena *arena, tsr_error *error) {
  tsr_label *labels;
  TSR_TRY(TSR_ARENA_ARRAY(arena, made->label_count, &labels, error));
  if (made->label_count) memcpy(labels, made->labels, made->label_count * sizeof *labels);
  made->labels = labels;
  for (uint32_t i = 0; i < made->label_count; i++) {
    tsr_label *label = &labels[i];
    char uri[sizeof TSR_DIR_LABELS + 16];
    if (!label->name) return tsr__fail(error, TSR_CONSTRAINT, "label %u has no name", i);
    if (!label->array || label->array->dimension_count + label->array->attribute_count == 0) continue;
    const tsr_field *values = &label->array->fields[label->array->dimension_count];
    snprintf(uri, sizeof uri, TSR_DIR_LABELS "/l%u", i);
    TSR_TRY(TSR_ARENA_COPY(arena, uri, strlen(uri), &label->uri, error));
    label->relative = true;
    label->external = false;
    label->datatype = values->datatype;
    label->values_per_cell = values->values_per_cell;
    label->data_order = values->data_order;
    label->duration |= values->duration;
    label->attribute = values->name;
  }
  return TSR_OK;
}

int tsr__schema_complete(const tsr_schema *given, tsr_arena *arena, tsr_schema *schema, tsr_error *error) {
  tsr_schema made = *given;
  uint64_t count = (uint64_t)made.dimension_count + made.attribute_count;
  if (count > UINT32_MAX) return tsr__fail(error, TSR_UNSUPPORTED, "%llu fields", (unsigned long long)count);
  tsr_enumeration *room;
  TSR_TRY(TSR_ARENA_ARRAY(arena, count, &made.fields, error));
  memcpy(made.fields, given->fields, count * sizeof(tsr_field));
  for (uint64_t i = 0; i < count; i++) {
    tsr_field *field = &made.fields[i];
    field->is_dimension = i < made.dimension_count;
    bool variable = field->values_per_cell == TSR_VARIABLE;
    field->cell_size = variable ? 0 : field->values_per_cell * tsr_datatype_size(field->datatype);
    if (!field->name) return tsr__fail(error, TSR_CONSTRAINT, "field %llu has no name", (unsigned long long)i);
    complete_pipeline(&field->filters);
    TSR_TRY(complete_fill(field, arena, error));
  }
  TSR_TRY(TSR_ARENA_ARRAY(arena, made.enumeration_count, &room, error));
  if (made.enumeration_count) memcpy(room, given->enumerations, made.enumeration_count * sizeof(tsr_enumeration));
  made.enumerations = room;
  TSR_TRY(complete_labels(&made, arena, error));
  if (!made.version) made.version = TSR_FORMAT_WRITE_MAX;
  if (made.dense && !made.capacity) made.capacity = 10000; /* TileDB's default; stored, but without meaning if dense */
  complete_pipeline(&made.coords_filters);
  complete_pipeline(&made.offsets_filters);
  complete_pipeline(&made.validity_filters);
  *schema = made;
  return TSR_OK;
}

#define LABEL_TILE UINT64_C(10000)

/* Sets the tile extent of a label's array: that of the labelled dimension, or a multiple if it is short. Often each
 * time step is a tile of its own, and a tile for each label would be just as slow to read. */
static void choose_label_extent(tsr_field *index) {
  const tsr_kind kind = tsr_datatype_kind(index->datatype);
  const bool whole =
      kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
  uint64_t extent = 0;
  if (!index->has_extent || !whole) return; /* tsr__schema_check refuses it */
  memcpy(&extent, index->extent, tsr_datatype_size(index->datatype));
  const uint64_t low = tsr__key(index->datatype, index->low), high = tsr__key(index->datatype, index->high);
  if (extent == 0 || extent > LABEL_TILE || low > high) return;
  const uint64_t times = TSR_MIN(LABEL_TILE / extent, (high - low) / extent);
  if (times < 2 || tsr__key_max(index->datatype) - high < times * extent) return; /* the last tile would pass the end */
  extent *= times;
  memcpy(index->extent, &extent, tsr_datatype_size(index->datatype));
}

void tsr_label_array_schema(const tsr_schema *labelled, uint32_t dimension, const tsr_field *values,
                            tsr_field fields[2], tsr_schema *schema) {
  *schema = (tsr_schema){.version = labelled->version,
                         .dense = true,
                         .tile_order = TSR_ORDER_ROW,
                         .cell_order = TSR_ORDER_ROW,
                         .coords_filters = labelled->coords_filters,
                         .offsets_filters = labelled->offsets_filters,
                         .validity_filters = labelled->validity_filters,
                         .dimension_count = 1,
                         .attribute_count = 1,
                         .fields = fields};
  fields[0] = labelled->fields[dimension];
  fields[0].name = (char *)(uintptr_t) "index";
  choose_label_extent(&fields[0]);
  fields[1] = *values;
  fields[1].name = (char *)(uintptr_t) "label";
  if (values->datatype == TSR_UTF8) fields[1].datatype = TSR_ASCII; /* as dimensions of strings */
  fields[1].cell_size =
      values->values_per_cell == TSR_VARIABLE ? 0 : values->values_per_cell * tsr_datatype_size(fields[1].datatype);
}

int tsr_schema_check(tsr_environment *environment, const tsr_schema *schema, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arena arena;
  tsr_schema complete;
  tsr__arena_init(&arena, &environment->memory);
  int rc = tsr__schema_complete(schema, &arena, &complete, error);
  if (rc >= 0) rc = tsr__schema_check(&complete, &environment->memory, error);
  tsr__arena_release(&arena);
  return rc;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static int array_create_new_name(uint64_t time, tsr_arena *arena, char **name, tsr_error *error) {
  uint8_t random[16];
  tsr_name parts;
  char text[128];
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(time, time, 0, &parts, random));
  tsr__name_print(&parts, text);
  TSR_TRY(TSR_ARENA_COPY(arena, text, strlen(text), name, error));
  return TSR_OK;
}

/* Gives the file of an enumeration a new name: "__UUID_0". */
static int name_enumeration(tsr_enumeration *e, tsr_arena *arena, tsr_error *error) {
  uint8_t random[16];
  tsr_name parts;
  char text[64] = "__";
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &parts, random));
  memcpy(text + 2, parts.uuid, strlen(parts.uuid));
  memcpy(text + 2 + strlen(parts.uuid), "_0", 3);
  TSR_TRY(TSR_ARENA_COPY(arena, text, strlen(text), &e->file, error));
  return TSR_OK;
}

static int name_schema(tsr_creation *c, uint64_t time, tsr_error *error) {
  c->schema.time = !layout_has_schema_folder(c->schema.version) ? 0 : time;
  if (layout_has_schema_folder(c->schema.version))
    return array_create_new_name(time, &c->arena, &c->schema.name, error);
  TSR_TRY(TSR_ARENA_COPY(&c->arena, TSR_FILE_OLD_SCHEMA, strlen(TSR_FILE_OLD_SCHEMA), &c->schema.name, error));
  return TSR_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

typedef struct array_create_place {
  const char *path;
  uint32_t since; /* the first format version with this directory */
} array_create_place;
static const array_create_place array_create_directories[] = {
    {TSR_DIR_FRAGMENTS, TSR_SINCE_COMMITS_FOLDER},
    {TSR_DIR_COMMITS, TSR_SINCE_COMMITS_FOLDER},
    {TSR_DIR_META, TSR_SINCE_METADATA},
    {TSR_DIR_LABELS, TSR_SINCE_LABELS},
    {TSR_DIR_FOOTERS, TSR_SINCE_COMMITS_FOLDER},
};
#define DIRECTORIES (sizeof array_create_directories / sizeof *array_create_directories)

/* If `open` is not NULL, gives the file, still open, after a success: the caller syncs and closes it. */
static int write_file(tsr_creation *c, const char *path, const void *bytes, uint64_t size, tsr_file **open,
                      tsr_error *error) {
  tsr_file *file = NULL;
  int rc = tsr__store_create_exclusive(c->store, path, &file, error);
  if (rc >= 0 && size) rc = tsr__store_append(file, bytes, size, error);
  if (rc >= 0 && open) {
    *open = file;
    return TSR_OK;
  }
  if (rc >= 0 && c->durable) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  return rc;
}

static int write_tile(tsr_creation *c, const char *path, const uint8_t *key, const tsr_buffer *content, tsr_file **open,
                      tsr_error *error) {
  tsr_buffer tile = {.memory = &c->memory};
  int rc = tsr__generic_tile_encode(content->data, content->size, c->schema.version, key, &tile, error);
  if (rc >= 0) rc = write_file(c, path, tile.data, tile.size, open, error);
  tsr__buffer_release(&tile);
  return rc;
}

static int enumeration_path(const tsr_creation *c, const tsr_enumeration *e, tsr_buffer *path, tsr_error *error) {
  char pending[TSR_CREATION_PATH];
  tsr__creation_path(c->schema.name, pending);
  path->size = 0;
  TSR_TRY(tsr__buffer_printf(path, error, "%s/" TSR_DIR_ENUMERATIONS "/%s", pending, e->file));
  return tsr__buffer_append_u8(path, 0, error);
}

static int write_enumerations(tsr_creation *c, const uint8_t *key, tsr_error *error) {
  tsr_buffer content = {.memory = &c->memory}, path = {.memory = &c->memory};
  int rc = TSR_OK;
  for (uint32_t i = 0; i < c->schema.enumeration_count && rc >= 0; i++) {
    tsr_enumeration *e = &c->schema.enumerations[i];
    content.size = 0;
    rc = name_enumeration(e, &c->arena, error);
    if (rc >= 0) rc = tsr__enumeration_encode(e, &content, error);
    if (rc >= 0) rc = enumeration_path(c, e, &path, error);
    if (rc >= 0) rc = write_tile(c, (const char *)path.data, key, &content, NULL, error);
    if (rc < 0) rc = tsr__wrap(error, "enumeration '%s'", e->name);
  }
  tsr__buffer_release(&content);
  tsr__buffer_release(&path);
  return rc;
}

/* Gives the paths of the schema's file and of the directory of enumerations before the array is published. */
static void creation_paths(const tsr_creation *c, char file[PATH_SIZE_MAX], char enumerations[PATH_SIZE_MAX]) {
  char pending[TSR_CREATION_PATH];
  tsr__creation_path(c->schema.name, pending);
  snprintf(file, PATH_SIZE_MAX, "%s%s%s", pending, !layout_has_schema_folder(c->schema.version) ? "" : "/",
           !layout_has_schema_folder(c->schema.version) ? "" : c->schema.name);
  snprintf(enumerations, PATH_SIZE_MAX, "%s/" TSR_DIR_ENUMERATIONS, pending);
}

static int write_schema(tsr_creation *c, const uint8_t *key, tsr_file **open, tsr_error *error) {
  tsr_buffer content = {.memory = &c->memory};
  char path[PATH_SIZE_MAX], enumerations[PATH_SIZE_MAX];
  creation_paths(c, path, enumerations);
  int rc = tsr__schema_encode(&c->schema, &content, error);
  if (rc >= 0) rc = write_tile(c, path, key, &content, open, error);
  tsr__buffer_release(&content);
  return rc;
}

/* Writes the metadata that tell which fields and labels are durations. *written: there are some. */
static int write_durations(tsr_creation *c, const uint8_t *key, bool *written, tsr_error *error) {
  tsr_buffer content = {.memory = &c->memory}, path = {.memory = &c->memory};
  char *name = NULL;
  int rc = tsr__durations_encode(&c->schema, &content, error);
  *written = content.size > 0;
  if (rc >= 0 && *written) rc = array_create_new_name(c->time, &c->arena, &name, error);
  if (rc >= 0 && *written) rc = tsr__buffer_printf(&path, error, TSR_DIR_META "/%s%c", name, 0);
  if (rc >= 0 && *written) rc = write_tile(c, (const char *)path.data, key, &content, NULL, error);
  tsr__buffer_release(&content);
  tsr__buffer_release(&path);
  return rc;
}

static int write_all(tsr_creation *c, const uint8_t *key, tsr_error *error) {
  uint32_t version = c->schema.version;
  bool durations = false;
  char pending[TSR_CREATION_PATH], file[PATH_SIZE_MAX], enumerations[PATH_SIZE_MAX];
  tsr__creation_path(c->schema.name, pending);
  creation_paths(c, file, enumerations);
  for (unsigned i = 0; i < DIRECTORIES; i++)
    if (version >= array_create_directories[i].since)
      TSR_TRY(tsr__store_make_directory(c->store, array_create_directories[i].path, error));
  if (!layout_has_schema_folder(version)) TSR_TRY(write_file(c, TSR_FILE_OLD_LOCK, NULL, 0, NULL, error));
  if (layout_has_schema_folder(version)) TSR_TRY(tsr__store_make_directory(c->store, pending, error));
  if (layout_has_enumerations(version)) TSR_TRY(tsr__store_make_directory(c->store, enumerations, error));
  TSR_TRY(write_enumerations(c, key, error));
  if (layout_has_metadata(version)) TSR_TRY(write_durations(c, key, &durations, error));
  if (!c->durable) return write_schema(c, key, NULL, error);
  tsr_file *schema;
  TSR_TRY(write_schema(c, key, &schema, error));
  const char *made[4] = {""};
  uint64_t count = 1;
  if (layout_has_schema_folder(version)) made[count++] = pending;
  if (layout_has_enumerations(version) && c->schema.enumeration_count > 0) made[count++] = enumerations;
  if (durations) made[count++] = TSR_DIR_META;
  const unsigned threads = c->environment->single_threaded ? 1 : (unsigned)count + 1;
  int rc = tsr__store_sync_all(c->store, &schema, 1, made, count, threads, error);
  tsr__store_close_file(schema);
  return rc;
}

/* ---- Directories above the array --------------------------------------------------------------------------------- */

/* Cuts the last part off a path. Returns false if the path has no directory before its last part. */
static bool cut_path(char *path) {
  char *slash = strrchr(path, '/');
  while (slash && slash > path && slash[-1] == '/') slash--;
  if (!slash || slash == path) return false;
  *slash = 0;
  return true;
}

/* Walks up from the array's directory, at most `count` directories. If `removing`, removes them while they are empty;
 * otherwise counts those that do not exist. Returns how many it removed or counted. */
static uint32_t walk_parents(tsr_creation *c, uint32_t count, bool removing) {
  char *block;
  uint32_t n = 0;
  if (TSR_ALLOC_RAW(&c->memory, strlen(c->path) + 1, &block, NULL) < 0) return 0;
  char *path = block;
  memcpy(path, c->path, strlen(c->path) + 1);
  for (bool more = true; more && n < count && cut_path(path);) {
    tsr_store *store = NULL;
    if (tsr__directory_open(c->environment, path, &store, NULL) < 0) break;
    bool exists = true; /* also if the lookup fails: such a directory must not be removed later */
    if (!removing) (void)tsr__directory_find(store, "", &exists, NULL);
    more = removing ? tsr__store_remove(store, "", NULL) >= 0 : !exists;
    tsr__store_close(store);
    n += more;
  }
  tsr__free(path);
  return n;
}

/* ---- Abandon ----------------------------------------------------------------------------------------------------- */

/* Removes a path, which may be missing. *code and `error` keep only the first failure. */
static void remove_path(tsr_creation *c, const char *path, int *code, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_remove(c->store, path, &one);
  if (rc >= 0 || rc == TSR_NOT_FOUND || *code < 0) return;
  *code = rc;
  if (error) *error = one;
}

/* Removes the files of a directory and, if it `may_hold_directories`, also its directories that hold only files. */
static void remove_within(tsr_creation *c, const char *directory, bool may_hold_directories, int *code,
                          tsr_error *error) {
  tsr_listing entries = {0};
  tsr_buffer path = {.memory = &c->memory};
  if (tsr__store_list(c->store, directory, &entries, NULL) < 0) return; /* removing the directory reports the error */
  for (uint64_t i = 0; i < entries.count; i++) {
    path.size = 0;
    if (tsr__buffer_printf(&path, error, "%s/%s", directory, entries.entries[i].name) < 0 ||
        tsr__buffer_append_u8(&path, 0, error) < 0)
      break;
    if (may_hold_directories && entries.entries[i].kind == TSR_ENTRY_DIRECTORY)
      remove_within(c, (const char *)path.data, false, code, error);
    remove_path(c, (const char *)path.data, code, error);
  }
  tsr__listing_release(&entries);
  tsr__buffer_release(&path);
}

/* Removes the metadata, and the fragments and commits that were written to the array before it was published. Below
 * version 12 fragments are directories in the array's root, called ".UUID" until they are complete. */
static void remove_cells(tsr_creation *c, int *code, tsr_error *error) {
  if (layout_has_metadata(c->schema.version)) remove_within(c, TSR_DIR_META, false, code, error);
  if (layout_has_commits_folder(c->schema.version)) {
    remove_within(c, TSR_DIR_FRAGMENTS, true, code, error);
    remove_within(c, TSR_DIR_COMMITS, false, code, error);
    if (c->store->commits_in_turns) remove_within(c, TSR_DIR_TURNS, false, code, error);
    return;
  }
  tsr_listing entries = {0};
  if (tsr__store_list(c->store, "", &entries, NULL) < 0) return;
  for (uint64_t i = 0; i < entries.count; i++) {
    const char *name = entries.entries[i].name;
    tsr_name parsed;
    if (entries.entries[i].kind != TSR_ENTRY_DIRECTORY) continue;
    if (*name != '.' && !tsr__name_parse(name, strlen(name), &parsed)) continue;
    remove_within(c, name, false, code, error);
    remove_path(c, name, code, error);
  }
  tsr__listing_release(&entries);
}

#define LABELS_DEPTH_MAX 8 /* directories in __labels, each in the one before */

/* Removes the files and directories in a directory, up to LABELS_DEPTH_MAX levels deep. */
static void remove_labels(tsr_creation *c, const char *directory, unsigned depth, int *code, tsr_error *error) {
  tsr_listing entries = {0};
  tsr_buffer path = {.memory = &c->memory};
  if (depth == 0 || tsr__store_list(c->store, directory, &entries, NULL) < 0) return;
  for (uint64_t i = 0; i < entries.count; i++) {
    path.size = 0;
    if (tsr__buffer_printf(&path, error, "%s/%s%c", directory, entries.entries[i].name, 0) < 0) break;
    if (entries.entries[i].kind == TSR_ENTRY_DIRECTORY)
      remove_labels(c, (const char *)path.data, depth - 1, code, error);
    remove_path(c, (const char *)path.data, code, error);
  }
  tsr__listing_release(&entries);
  tsr__buffer_release(&path);
}

int tsr_creation_abandon(tsr_creation *creation, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_creation *c = creation;
  int rc = TSR_OK;
  if (c->found || c->published || c->abandoned) return TSR_OK;
  char pending[TSR_CREATION_PATH], file[PATH_SIZE_MAX], enumerations[PATH_SIZE_MAX];
  tsr__creation_path(c->schema.name, pending);
  creation_paths(c, file, enumerations);
  if (c->made_root) remove_cells(c, &rc, error);
  if (c->made_root && c->schema.label_count) remove_labels(c, TSR_DIR_LABELS, LABELS_DEPTH_MAX, &rc, error);
  remove_path(c, file, &rc, error);
  tsr_buffer path = {.memory = &c->memory};
  for (uint32_t i = 0; i < c->schema.enumeration_count; i++)
    if (c->schema.enumerations[i].file && enumeration_path(c, &c->schema.enumerations[i], &path, error) >= 0)
      remove_path(c, (const char *)path.data, &rc, error);
  tsr__buffer_release(&path);
  if (!layout_has_schema_folder(c->schema.version)) remove_path(c, TSR_FILE_OLD_LOCK, &rc, error);
  if (layout_has_enumerations(c->schema.version)) remove_path(c, enumerations, &rc, error);
  if (c->made_root && layout_has_schema_folder(c->schema.version))
    remove_within(c, pending, false, &rc, error); /* schemas that tsr_array_schema_without has added */
  if (layout_has_schema_folder(c->schema.version)) remove_path(c, pending, &rc, error);
  for (unsigned i = DIRECTORIES; i-- > 0;)
    if (c->schema.version >= array_create_directories[i].since)
      remove_path(c, array_create_directories[i].path, &rc, error);
  if (c->made_root) remove_path(c, "", &rc, error);
  if (c->made_root) walk_parents(c, c->missing_parents, true);
  c->abandoned = true;
  return rc < 0 ? tsr__wrap(error, "array %s: abandoning its creation", c->path) : TSR_OK;
}

void tsr_creation_close(tsr_creation *creation) {
  if (!creation) return;
  tsr__store_close(creation->store);
  tsr__arena_release(&creation->arena);
  tsr__free(creation->path);
  tsr__free(creation);
}

/* ---- Prepare, publish -------------------------------------------------------------------------------------------- */

int tsr__creation_in_the_way(tsr_store *store, tsr_error *error) {
  static const char *const marks[] = {TSR_PREFIX_CREATED "__", TSR_PREFIX_COPYING, TSR_PREFIX_SYNCED, TSR_BUCKET_CLAIM};
  static const char *const parts[] = {TSR_DIR_COMMITS, TSR_DIR_FRAGMENTS, TSR_DIR_META};
  tsr_listing entries = {0};
  tsr_object_kind kind = TSR_OBJECT_NONE;
  const char *part = NULL;
  bool unfinished = false;
  if (tsr__object_kind(store, "", &kind, NULL) >= 0 && kind == TSR_OBJECT_NONE &&
      tsr__store_list(store, "", &entries, NULL) >= 0)
    for (uint64_t i = 0; i < entries.count; i++) {
      for (unsigned m = 0; m < sizeof marks / sizeof *marks; m++)
        unfinished |= !strncmp(entries.entries[i].name, marks[m], strlen(marks[m]));
      for (unsigned m = 0; m < sizeof parts / sizeof *parts; m++)
        if (!strcmp(entries.entries[i].name, parts[m])) part = parts[m];
    }
  tsr__listing_release(&entries);
  if (unfinished)
    return tsr__fail(error, TSR_EXISTS,
                     "an array is being created there: by a transaction that is not committed yet, or by one that was "
                     "cut off; then remove the %s, if nothing else is in it",
                     tsr__store_place(store));
  if (part)
    return tsr__fail(
        error, TSR_EXISTS,
        "part of an array is there (\"%s\"), without a schema: one that has lost it, or one whose creation "
        "has just begun or was cut off; look what is in the %s before you remove it, or choose another one",
        part, tsr__store_place(store));
  return tsr__fail(error, TSR_EXISTS,
                   kind == TSR_OBJECT_ARRAY   ? "an array is already there"
                   : kind == TSR_OBJECT_GROUP ? "a group is already there"
                                              : "something is already there");
}

static int array_create_prepare(tsr_creation *c, const tsr_schema *schema, const tsr_create_options *options,
                                tsr_error *error) {
  uint64_t time = options->time ? options->time : tsr__environment_now();
  if (schema->durations_unknown)
    return tsr__fail(error, TSR_CORRUPT, "damaged metadata do not say which fields are durations (%.200s)",
                     schema->durations_unknown);
  TSR_TRY(tsr__schema_complete(schema, &c->arena, &c->schema, error));
  for (uint32_t i = 0; i < c->schema.enumeration_count; i++) c->schema.enumerations[i].file = NULL;
  TSR_TRY(tsr__schema_check(&c->schema, &c->memory, error));
  for (uint32_t i = 0; i < c->schema.label_count; i++)
    if (!c->schema.labels[i].array)
      return tsr__fail(error, TSR_UNSUPPORTED, "label '%s': the schema of its array is not given",
                       c->schema.labels[i].name);
  c->time = time;
  TSR_TRY(name_schema(c, time, error));
  if (tsr__path_is_directory(c->environment, c->path)) c->missing_parents = walk_parents(c, UINT32_MAX, false);
  int rc = tsr__store_make_directory(c->store, "", error);
  c->made_root = rc >= 0;
  return rc == TSR_EXISTS ? tsr__creation_in_the_way(c->store, error) : rc;
}

static int open_creation(tsr_environment *environment, tsr_store *store, const char *path, const tsr_schema *schema,
                         const tsr_create_options *options, tsr_creation **creation, tsr_error *error);

/* Creates the array of a label and publishes it at once: nobody opens it before the labelled array is published. */
static int create_label(tsr_creation *c, const tsr_label *label, const tsr_create_options *options, tsr_error *error) {
  tsr_create_options own_options = *options;
  tsr_schema own = *label->array;
  tsr_buffer path = {.memory = &c->memory};
  tsr_creation *creation = NULL;
  tsr_store *store;
  own_options.owner_file = NULL;
  own.version = c->schema.version;
  int rc = tsr__store_open_below(c->environment, c->path, label->uri, &path, &store, error);
  if (rc >= 0) rc = open_creation(c->environment, store, (const char *)path.data, &own, &own_options, &creation, error);
  if (rc >= 0) rc = tsr_creation_publish(creation, error);
  if (rc < 0) tsr__wrap(error, "label '%s'", label->name);
  tsr_creation_close(creation);
  tsr__buffer_release(&path);
  return rc;
}

static int create_labels(tsr_creation *c, const tsr_create_options *options, tsr_error *error) {
  for (uint32_t i = 0; i < c->schema.label_count; i++) TSR_TRY(create_label(c, &c->schema.labels[i], options, error));
  return c->schema.label_count && c->durable ? tsr__store_sync_directory(c->store, TSR_DIR_LABELS, error) : TSR_OK;
}

static int open_creation(tsr_environment *environment, tsr_store *store, const char *path, const tsr_schema *schema,
                         const tsr_create_options *options, tsr_creation **creation, tsr_error *error) {
  tsr_create_options own;
  tsr_creation *block = NULL;
  char *copy = NULL;
  int rc = TSR_TAKE_OPTIONS(tsr_create_options, owner_file, options, &own, error);
  options = &own;
  if (rc >= 0) rc = TSR_ALLOC(&environment->memory, &block, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(&environment->memory, strlen(path) + 1, &copy, error);
  if (rc < 0) {
    tsr__free(block);
    tsr__store_close(store);
    return rc;
  }
  tsr_creation *c = block;
  memcpy(copy, path, strlen(path) + 1);
  *c = (tsr_creation){.environment = environment, .store = store, .path = copy};
  c->durable = !options->unsynced;
  tsr__memory_init(&c->memory, &environment->memory, UINT64_MAX, "the creation");
  tsr__arena_init(&c->arena, &c->memory);
  char *owner = NULL;
  if (options->owner_file)
    rc = TSR_ARENA_COPY(&c->arena, options->owner_file, strlen(options->owner_file) + 1, &owner, error);
  c->owner = owner;
  if (rc >= 0) rc = array_create_prepare(c, schema, options, error);
  if (rc >= 0) {
    rc = write_all(c, options->key, error);
    if (rc >= 0) rc = create_labels(c, options, error);
    if (rc < 0) (void)tsr_creation_abandon(c, NULL);
  }
  if (rc < 0) {
    tsr__wrap(error, "array %s", path);
    tsr_creation_close(c);
    return rc;
  }
  *creation = c;
  return TSR_OK;
}

int tsr_creation_prepare(tsr_environment *environment, const char *path, const tsr_schema *schema,
                         const tsr_create_options *options, tsr_creation **creation, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *directory;
  tsr_store *store;
  TSR_TRY(tsr__path_open(environment, "array", path, &directory, &store, error));
  int rc = open_creation(environment, store, directory, schema, options, creation, error);
  tsr__free(directory);
  return rc;
}

static bool array_create_is_old(const char *schema_name) { return strcmp(schema_name, TSR_FILE_OLD_SCHEMA) == 0; }

static int publish_schema(tsr_store *store, const char *schema_name, tsr_error *error) {
  char pending[TSR_CREATION_PATH];
  tsr__creation_path(schema_name, pending);
  return tsr__store_rename_exclusive(store, pending, array_create_is_old(schema_name) ? schema_name : TSR_DIR_SCHEMA,
                                     error);
}

int tsr_creation_publish(tsr_creation *creation, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_creation *c = creation;
  if (c->published) return TSR_OK;
  if (c->owner && c->durable) TSR_TRY(tsr__prepared_sync_owner(&c->memory, c->owner, error));
  int rc = publish_schema(c->store, c->schema.name, error);
  if (rc >= 0) c->published = true;
  if (rc >= 0 && c->durable) rc = tsr__store_sync_directory(c->store, "", error);
  return rc < 0 ? tsr__wrap(error, "array %s", c->path) : TSR_OK;
}

/* Returns 1 if an array of this schema is prepared and not published, else 0. */
static int is_prepared(tsr_store *store, const char *schema_name, tsr_error *error) {
  char pending[TSR_CREATION_PATH];
  bool exists = false;
  tsr__creation_path(schema_name, pending);
  if (array_create_is_old(schema_name)) TSR_TRY(tsr__store_find(store, pending, &exists, error));
  else TSR_TRY(tsr__directory_find(store, pending, &exists, error));
  return exists;
}

int tsr_creation_find(tsr_environment *environment, const char *path, const char *schema_name, tsr_creation **creation,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *directory, *name = NULL;
  tsr_store *store;
  tsr_name parsed;
  tsr_creation *c = NULL;
  if (strchr(schema_name, '/') ||
      (!array_create_is_old(schema_name) && !tsr__name_parse(schema_name, strlen(schema_name), &parsed)))
    return tsr__fail(error, TSR_CORRUPT, "'%.100s' cannot be a schema's name", schema_name);
  TSR_TRY(tsr__path_open(environment, "array", path, &directory, &store, error));
  int rc = is_prepared(store, schema_name, error);
  if (rc < 0) tsr__wrap(error, "array %s: recovering its creation", directory);
  if (rc > 0 && TSR_ALLOC(&environment->memory, &c, error) < 0) rc = error->code;
  if (rc <= 0) {
    tsr__store_close(store);
    tsr__free(directory);
    return rc;
  }
  *c = (tsr_creation){.environment = environment, .store = store, .path = directory, .found = true, .durable = true};
  tsr__memory_init(&c->memory, &environment->memory, UINT64_MAX, "the creation");
  tsr__arena_init(&c->arena, &c->memory);
  rc = TSR_ARENA_COPY(&c->arena, schema_name, strlen(schema_name) + 1, &name, error);
  if (rc < 0) {
    tsr_creation_close(c);
    return rc;
  }
  c->schema.name = name;
  *creation = c;
  return 1;
}

const char *tsr_creation_schema_name(const tsr_creation *creation) { return creation->schema.name; }

int tsr_array_create(tsr_environment *environment, const char *path, const tsr_schema *schema,
                     const tsr_create_options *options, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_creation *creation = NULL;
  TSR_TRY(tsr_creation_prepare(environment, path, schema, options, &creation, error));
  int rc = tsr_creation_publish(creation, error);
  if (rc < 0) (void)tsr_creation_abandon(creation, NULL);
  tsr_creation_close(creation);
  return rc;
}
