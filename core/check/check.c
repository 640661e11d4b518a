/* check.c: tsr_array_check: finds every fault of an array that can be found without knowing what its cells should be.
 *
 * This file reports findings, and checks the array's directory, its schemas, enumerations and metadata. The other files
 * of the folder check the rest (check.h).
 *
 *   error     data is lost, cannot be read, or would be read wrongly
 *   warning   an object does not belong here or is not as it should be, but every read gives the right cells
 *   note      an object that is normal in the life of an array, such as leftovers of an unfinished write
 *
 * One fault should give one finding. Faults that only follow from another fault (a field of a missing file, a fragment
 * of a damaged schema) are not reported, or only as a note.
 *
 * The sections: findings; reading; schemas; enumerations; metadata; the array. A dimension label whose array is missing
 * is reported with the schemas; opened.c checks the others. */
#include "check/check.h"

#include <string.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "base/options.h"
#include "base/pool.h"
#include "model/datatype.h"
#include "format/commits.h"
#include "format/enumeration.h"
#include "format/metadata.h"
#include "format/schema.h"
#include "format/layout.h"
#include "log/log.h"
#include "maintain/maintain.h"

#define HINT_TAIL         65536 /* bytes at the end of a file that a store may prefetch */
#define MEMORY_DEFAULT    (UINT64_C(1) << 30)
#define CHECK_THREADS_MAX 8
#define PROOFS_MAX        64 /* files to try in order to distinguish a wrong key from a damaged schema */

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

const char *tsr__check_join(tsr_check_path *path, const char *a, const char *b, const char *c) {
  snprintf(path->text, sizeof path->text, "%s%s%s%s%s", a, *a && *b ? "/" : "", b, *c ? "/" : "", c);
  return path->text;
}

/* Shortens a message: removes the array's path, and the file's path at the beginning, since the finding names the file.
 * The array's path is removed only where a path begins, since the same text may also be a word of the message or part
 * of one. */
static void check_shorten(const tsr_checker *c, const char *file, char *text) {
  size_t root = strlen(c->store->name), name = strlen(file);
  for (char *at = text; root > 0 && (at = strstr(at, c->store->name)) != NULL;) {
    const bool begins = at == text || strchr(" '(", at[-1]);
    if (begins && at[root] == '/') memmove(at, at + root + 1, strlen(at + root + 1) + 1);
    else at += root;
  }
  while (name > 0 && strncmp(text, file, name) == 0 && strncmp(text + name, ": ", 2) == 0)
    memmove(text, text + name + 2, strlen(text + name + 2) + 1);
}

int tsr__check_say(tsr_checker *c, tsr_severity severity, const char *file, const char *format, ...) {
  char text[TSR_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  check_shorten(c, file, text);
  const tsr_finding finding = {.severity = severity, .file = file, .message = text};
  int rc = c->report(c->argument, &finding);
  return rc < 0 ? tsr__fail(c->error, rc, "the check was stopped") : TSR_OK;
}

int tsr__check_fault(tsr_checker *c, const char *file, const tsr_error *fault, const char *what) {
  const char *colon = what ? ": " : "";
  if (!what) what = "";
  TSR_TRY(tsr__only_cancelled(fault->code, fault, c->error));
  tsr_error plain = *fault;
  check_shorten(c, file, plain.message);
  if (tsr__lacks_memory(fault->code) || fault->code == TSR_TOOBIG)
    return tsr__check_say(c, TSR_SEVERITY_WARNING, file, "%s%snot checked: %s", what, colon, plain.message);
  return tsr__check_say(c, TSR_SEVERITY_ERROR, file, "%s%s%s", what, colon, plain.message);
}

/* Returns true for temporary names used by this library's writers: ".UUID", ".__T1_T2_UUID_V" with any suffix, the
 * files .pending and .metadata of prepared commits, and files that probe a server. */
static bool check_is_provisional(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  tsr_name parsed;
  if (tsr__bucket_is_proof(name)) return true;
  if (*name++ != '.') return false;
  if (strcmp(name, "pending") == 0 || strcmp(name, "metadata") == 0) return true;
  return strspn(name, "0123456789abcdef") == 32 ? !name[32] : tsr__name_parse(name, strcspn(name, "."), &parsed);
}

/* Reports the record of a commit that recovery has published late. Returns 1; 0 if the file is not such a record. */
static int say_late(tsr_checker *c, const char *path) {
  tsr_late late;
  tsr_error fault = {0};
  uint64_t stem;
  if (!tsr__name_suffix(path, TSR_SUFFIX_LATE, &stem)) return 0;
  int rc = tsr__late_read_file(c->store, path, &late, &fault);
  if (rc < 0) rc = tsr__check_fault(c, path, &fault, NULL);
  if (rc <= 0) return rc;
  rc = tsr__check_say(
      c, TSR_SEVERITY_NOTE, path,
      "recovery has published a commit after other processes had merged fragments over its time: %llu of its %llu "
      "cells were dropped, since newer or merged fragments hold them%s%s",
      (unsigned long long)late.dropped, (unsigned long long)late.total, *late.commit ? "; the rest is " : "",
      late.commit);
  return rc < 0 ? rc : 1;
}

int tsr__check_stray(tsr_checker *c, const char *path, tsr_entry_kind kind, const char *where) {
  uint64_t stem;
  const int late = kind == TSR_ENTRY_FILE && check_is_provisional(path) ? say_late(c, path) : 0;
  if (late) return late < 0 ? late : TSR_OK;
  if (tsr__name_suffix(path, ".tmp", &stem) || check_is_provisional(path))
    return tsr__check_say(c, TSR_SEVERITY_NOTE, path, "being written, or left over from a write that did not finish");
  return tsr__check_say(c, TSR_SEVERITY_WARNING, path, "stray %s: nothing with this name belongs into %s",
                        kind == TSR_ENTRY_DIRECTORY ? "directory" : "file", where);
}

const char *tsr__check_show_value(tsr_datatype datatype, const void *value, tsr_check_words *words) {
  switch (tsr__datatype_physical(datatype)) {
#define SHOW(name, type, format, as)                                                                                   \
  case TSR_PHYSICAL_##name: {                                                                                          \
    type v;                                                                                                            \
    memcpy(&v, value, sizeof v);                                                                                       \
    snprintf(words->text, sizeof words->text, "%" format, (as)v);                                                      \
    return words->text;                                                                                                \
  }
    SHOW(I8, int8_t, PRId64, int64_t)
    SHOW(I16, int16_t, PRId64, int64_t)
    SHOW(I32, int32_t, PRId64, int64_t)
    SHOW(I64, int64_t, PRId64, int64_t)
    SHOW(U8, uint8_t, PRIu64, uint64_t)
    SHOW(U16, uint16_t, PRIu64, uint64_t)
    SHOW(U32, uint32_t, PRIu64, uint64_t)
    SHOW(U64, uint64_t, PRIu64, uint64_t)
    SHOW(F32, float, ".9g", double)
    SHOW(F64, double, ".17g", double)
#undef SHOW
  }
  return "?";
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

int tsr__check_list(tsr_checker *c, const char *path, tsr_listing *listing, bool *found) {
  tsr_error fault = {0};
  *listing = (tsr_listing){.memory = &c->memory};
  int rc = tsr__store_list(c->store, path, listing, &fault);
  *found = rc >= 0;
  return rc >= 0 || rc == TSR_NOT_FOUND ? TSR_OK : tsr__check_fault(c, path, &fault, NULL);
}

static int by_name(const void *key, const void *entry) { return strcmp(key, ((const tsr_entry *)entry)->name); }

bool tsr__check_root_has(const tsr_checker *c, const char *name, tsr_entry_kind kind) {
  if (c->root.count == 0) return false;
  const tsr_entry *entry = bsearch(name, c->root.entries, c->root.count, sizeof *entry, by_name);
  return entry && entry->kind == kind;
}

/* Returns rc. For calls whose failure is not a finding: only records that a call was cancelled, so that the check ends
 * with TSR_INTERRUPT instead of drawing conclusions from the failure. */
static int note_cancel(tsr_checker *c, int rc) {
  c->cancelled |= rc == TSR_INTERRUPT;
  return rc;
}

bool tsr__check_is_there(tsr_checker *c, const char *path) {
  tsr_file *file;
  int rc = note_cancel(c, tsr__store_open_file(c->store, path, &file, &(tsr_error){0}));
  if (rc >= 0) tsr__store_close_file(file);
  return rc != TSR_NOT_FOUND;
}

/* Reads and decodes a file that is one generic tile. *behind: number of bytes after the tile. Errors are those of the
 * file; TSR_AUTH if the key does not match. */
static int check_try_tile(tsr_checker *c, const char *path, tsr_buffer *content, tsr_generic_tile *header,
                          uint64_t *behind, tsr_error *fault) {
  tsr_buffer stored = {.memory = &c->memory};
  uint64_t consumed;
  int rc = tsr__store_read_all(c->store, path, 2 * TSR_CHECK_CONTENT_MAX, &stored, fault);
  if (rc >= 0)
    rc = tsr__generic_tile_decode(stored.data, stored.size, c->key, TSR_CHECK_CONTENT_MAX, content, header, &consumed,
                                  fault);
  if (rc >= 0) *behind = stored.size - consumed;
  tsr__buffer_release(&stored);
  return rc;
}

/* The same, retried for a while if the file may be growing (log.h). */
static int check_read_tile(tsr_checker *c, const char *path, tsr_buffer *content, tsr_generic_tile *header,
                           uint64_t *behind, tsr_error *fault) {
  tsr_torn_read attempts = {0};
  const uint64_t before = content->size;
  for (;;) {
    const int rc =
        tsr__torn_read_retry(&attempts, c->store, path, check_try_tile(c, path, content, header, behind, fault), fault);
    if (rc <= 0) return rc;
    content->size = before;
  }
}

/* Reports bytes after a tile that could be decoded. */
static int report_behind(tsr_checker *c, const char *path, uint64_t behind) {
  if (behind > 0)
    TSR_TRY(tsr__check_say(c, TSR_SEVERITY_WARNING, path, "%llu bytes follow what belongs to the file",
                           (unsigned long long)behind));
  return TSR_OK;
}

int tsr__check_read_tile(tsr_checker *c, const char *path, tsr_buffer *content, bool *sound) {
  tsr_generic_tile header;
  tsr_error fault = {0};
  uint64_t behind;
  TSR_TRY(tsr__cancelled(&c->environment->memory, c->error));
  *sound = check_read_tile(c, path, content, &header, &behind, &fault) >= 0;
  if (*sound) return report_behind(c, path, behind);
  return tsr__check_fault(c, path, &fault, NULL);
}

/* ---- Schemas ----------------------------------------------------------------------------------------------------- */

typedef struct schema_tally { /* counts of schema files */
  uint64_t files;
  uint64_t opened; /* decrypted and decoded as generic tiles */
  uint64_t refused; /* the key does not fit, or is missing */
  uint64_t plain; /* among the refused: not encrypted although there is a key */
} schema_tally;

static int add_schema(tsr_checker *c, const char *directory, const char *file, const char *name,
                      tsr_checked_schema **made) {
  tsr_check_path path;
  char *copy;
  tsr_checked_schema *schema;
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, 1, &schema, c->error));
  tsr__check_join(&path, directory, file, "");
  TSR_TRY(TSR_ARENA_COPY(&c->arena, path.text, strlen(path.text), &schema->path, c->error));
  TSR_TRY(TSR_ARENA_COPY(&c->arena, name, strlen(name), &copy, c->error));
  tsr__arena_init(&schema->arena, &c->memory);
  TSR_TRY(tsr__map_put(&c->schemas, copy, schema, c->error));
  *made = schema;
  return TSR_OK;
}

/* Loads a schema file and counts the result in `tally`. If `report` is true, it also decodes the schema and reports
 * faults. */
static int check_load_schema(tsr_checker *c, tsr_checked_schema *schema, const char *name, bool report,
                             schema_tally *tally) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_generic_tile header = {0};
  tsr_error fault = {0};
  uint64_t behind = 0;
  int stop = tsr__cancelled(&c->environment->memory, c->error);
  if (stop < 0) return stop;
  int rc = note_cancel(c, check_read_tile(c, schema->path, &content, &header, &behind, &fault));
  tally->files++;
  tally->opened += rc >= 0;
  tally->refused += rc == TSR_AUTH;
  tally->plain += rc == TSR_AUTH && c->key && !header.encrypted;
  if (rc >= 0 && report) {
    stop = report_behind(c, schema->path, behind);
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__schema_decode(&in, name, &schema->arena, &schema->schema, &fault);
    schema->sound = rc >= 0;
  }
  if (rc < 0 && report && stop >= 0) stop = tsr__check_fault(c, schema->path, &fault, NULL);
  tsr__buffer_release(&content);
  return stop;
}

/* Sets *proven if some other file of the array can be decoded with this key. */
static int prove_in(tsr_checker *c, const char *directory, const char *suffix, unsigned *tries, bool *proven) {
  tsr_listing entries;
  bool found;
  int rc = tsr__check_list(c, directory, &entries, &found);
  for (uint64_t i = 0; rc >= 0 && found && i < entries.count && *tries < PROOFS_MAX && !*proven; i++) {
    tsr_check_path path;
    tsr_buffer content = {.memory = &c->memory};
    tsr_file *file;
    if (strncmp(entries.entries[i].name, "__", 2) != 0) continue;
    tsr__check_join(&path, directory, entries.entries[i].name, suffix);
    if (note_cancel(c, tsr__store_open_file(c->store, path.text, &file, &(tsr_error){0})) < 0) continue;
    ++*tries;
    *proven = note_cancel(c, tsr__generic_tile_read(file, 0, c->key, TSR_CHECK_CONTENT_MAX, &content, NULL,
                                                    &(tsr_error){0})) >= 0;
    tsr__store_close_file(file);
    tsr__buffer_release(&content);
    rc = tsr__cancelled(&c->environment->memory, c->error);
  }
  if (found) tsr__listing_release(&entries);
  return rc;
}

/* Fails with TSR_AUTH if the key is wrong or missing: it decodes no schema file, and no other file either. If it
 * decodes another file, the schemas are damaged instead. */
static int verify_key(tsr_checker *c, const schema_tally *tally) {
  bool proven = false;
  unsigned tries = 0;
  const char *path = c->store->name;
  if (tally->opened > 0 || tally->refused == 0) return TSR_OK;
  if (tally->plain == tally->refused)
    return tsr__fail(c->error, TSR_AUTH, "the key does not fit array %s: it is not encrypted", path);
  TSR_TRY(prove_in(c, TSR_DIR_FRAGMENTS, TSR_FILE_FRAGMENT_METADATA, &tries, &proven));
  TSR_TRY(prove_in(c, "", TSR_FILE_FRAGMENT_METADATA, &tries, &proven));
  TSR_TRY(prove_in(c, TSR_DIR_META, "", &tries, &proven));
  if (proven) return TSR_OK;
  if (!c->key) return tsr__fail(c->error, TSR_AUTH, "array %s is encrypted: a key is needed", path);
  return tsr__fail(c->error, TSR_AUTH, "the key does not fit array %s", path);
}

/* Reports a schema that cannot belong to the same array as the first one. */
static int check_same_array(tsr_checker *c, const tsr_checked_schema *schema, const tsr_schema *first) {
  const tsr_schema *s = &schema->schema;
  if (s->dense != first->dense)
    return tsr__check_say(c, TSR_SEVERITY_ERROR, schema->path, "it is of a %s array, schema %s of a %s one",
                          s->dense ? "dense" : "sparse", first->name, first->dense ? "dense" : "sparse");
  if (s->dimension_count != first->dimension_count)
    return tsr__check_say(c, TSR_SEVERITY_ERROR, schema->path, "it has %u dimensions, schema %s %u", s->dimension_count,
                          first->name, first->dimension_count);
  for (uint32_t d = 0; d < s->dimension_count; d++) {
    const tsr_field *a = &s->fields[d], *b = &first->fields[d];
    if (a->datatype == b->datatype && strcmp(a->name, b->name) == 0) continue;
    return tsr__check_say(c, TSR_SEVERITY_ERROR, schema->path, "its dimension %u is %s '%s', that of schema %s %s '%s'",
                          d, tsr_datatype_name(a->datatype), a->name, first->name, tsr_datatype_name(b->datatype),
                          b->name);
  }
  return TSR_OK;
}

static int check_labels(tsr_checker *c, const tsr_checked_schema *schema) {
  for (uint32_t i = 0; i < schema->schema.label_count; i++) {
    const tsr_label *label = &schema->schema.labels[i];
    tsr_check_path path;
    tsr_stamp stamp;
    if (!label->relative || note_cancel(c, tsr__store_stamp(c->store, label->uri, &stamp, &(tsr_error){0})) < 0)
      continue; /* the path leads out of the array, or cannot be read */
    tsr_object_kind kind;
    if (note_cancel(c, tsr__object_kind(c->store, label->uri, &kind, &(tsr_error){0})) < 0 || kind == TSR_OBJECT_ARRAY)
      continue;
    tsr__check_join(&path, label->uri, "", "");
    TSR_TRY(
        tsr__check_say(c, TSR_SEVERITY_ERROR, path.text, "the array of dimension label '%s' is missing", label->name));
  }
  return TSR_OK;
}

static bool root_has(const tsr_checker *c, const char *name) {
  return tsr__check_root_has(c, name, TSR_ENTRY_FILE) || tsr__check_root_has(c, name, TSR_ENTRY_DIRECTORY);
}

/* Finds out whether the array is published. If not, a creation may be pending whose database has committed: then the
 * array is checked as it will be. */
static int find_unpublished(tsr_checker *c) {
  tsr_name parsed;
  c->schemas_in = TSR_DIR_SCHEMA;
  if (root_has(c, TSR_DIR_SCHEMA) || root_has(c, TSR_FILE_OLD_SCHEMA) || root_has(c, TSR_FILE_KV_SCHEMA)) return TSR_OK;
  for (uint64_t i = 0; i < c->root.count && !c->unpublished; i++) {
    const tsr_entry *entry = &c->root.entries[i];
    const char *name = entry->name + strlen(TSR_PREFIX_CREATED);
    if (strncmp(entry->name, TSR_PREFIX_CREATED, strlen(TSR_PREFIX_CREATED)) != 0) continue;
    const bool directory = entry->kind == TSR_ENTRY_DIRECTORY && tsr__name_parse(name, strlen(name), &parsed);
    if (!directory && (entry->kind != TSR_ENTRY_FILE || strcmp(name, TSR_FILE_OLD_SCHEMA) != 0)) continue;
    c->unpublished = entry->name;
    if (directory) c->schemas_in = entry->name;
  }
  if (!c->unpublished) return TSR_OK;
  return tsr__check_say(c, TSR_SEVERITY_NOTE, c->unpublished,
                        "the array was created but is not published yet: only the database of its table can read it");
}

/* Appends all schema files (tsr_checked_schema *) to `found`, oldest first. */
static int find_schemas(tsr_checker *c, const tsr_listing *entries, tsr_buffer *found) {
  tsr_checked_schema *schema;
  tsr_name parsed;
  bool kv = !root_has(c, TSR_FILE_OLD_SCHEMA) && root_has(c, TSR_FILE_KV_SCHEMA);
  if (kv || root_has(c, TSR_FILE_OLD_SCHEMA)) {
    TSR_TRY(add_schema(c, "", kv ? TSR_FILE_KV_SCHEMA : TSR_FILE_OLD_SCHEMA, TSR_FILE_OLD_SCHEMA, &schema));
    TSR_TRY(tsr__buffer_append(found, &schema, sizeof schema, c->error));
  }
  if (c->unpublished && c->unpublished != c->schemas_in) {
    TSR_TRY(add_schema(c, "", c->unpublished, TSR_FILE_OLD_SCHEMA, &schema));
    TSR_TRY(tsr__buffer_append(found, &schema, sizeof schema, c->error));
  }
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    bool named = tsr__name_parse(entry->name, strlen(entry->name), &parsed);
    if (entry->kind == TSR_ENTRY_DIRECTORY ? strcmp(entry->name, TSR_DIR_ENUMERATIONS) == 0 : named) {
      if (!named) continue;
      TSR_TRY(add_schema(c, c->schemas_in, entry->name, entry->name, &schema));
      TSR_TRY(tsr__buffer_append(found, &schema, sizeof schema, c->error));
    } else {
      tsr_check_path path;
      TSR_TRY(tsr__check_stray(c, tsr__check_join(&path, c->schemas_in, entry->name, ""), entry->kind, c->schemas_in));
    }
  }
  return TSR_OK;
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Loads and checks the schema files. The first round only counts, to find a wrong key before any fault is reported. */
static int check_schema_files(tsr_checker *c, const tsr_buffer *found) {
  tsr_checked_schema **schemas = (tsr_checked_schema **)(void *)found->data;
  uint64_t count = found->size / sizeof *schemas;
  schema_tally tally = {0};
  const tsr_schema *first = NULL;
  for (uint64_t i = 0; i < count; i++) TSR_TRY(check_load_schema(c, schemas[i], "", false, &tally));
  TSR_TRY(verify_key(c, &tally));
  for (uint64_t i = 0; i < count; i++) {
    TSR_TRY(check_load_schema(c, schemas[i], file_name(schemas[i]->path), true, &tally));
    if (!schemas[i]->sound) continue;
    if (first) TSR_TRY(check_same_array(c, schemas[i], first));
    else first = &schemas[i]->schema;
    c->newest = &schemas[i]->schema;
  }
  if (count == 0) {
    TSR_TRY(tsr__check_say(c, TSR_SEVERITY_ERROR, TSR_DIR_SCHEMA, "the array has no schema: its cells cannot be read"));
  }
  for (uint64_t i = 0; i < count; i++)
    if (schemas[i]->sound) TSR_TRY(check_labels(c, schemas[i]));
  return TSR_OK;
}

static int check_schemas(tsr_checker *c) {
  tsr_listing entries;
  bool listed;
  tsr_buffer found = {.memory = &c->memory};
  TSR_TRY(find_unpublished(c));
  int rc = tsr__check_list(c, c->schemas_in, &entries, &listed);
  if (rc >= 0) rc = find_schemas(c, &entries, &found);
  if (rc >= 0) rc = check_schema_files(c, &found);
  tsr__buffer_release(&found);
  if (listed) tsr__listing_release(&entries);
  return rc;
}

/* ---- Enumerations ------------------------------------------------------------------------------------------------ */

static int check_enumeration(tsr_checker *c, const tsr_checked_schema *schema, const tsr_enumeration *enumeration,
                             const char *path) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena = {0};
  tsr_error fault = {0};
  bool sound = false;
  int rc;
  if (!tsr__check_is_there(c, path))
    return tsr__check_say(c, TSR_SEVERITY_ERROR, path, "missing: it holds the labels of enumeration '%s' of schema %s",
                          enumeration->name, schema->schema.name);
  rc = tsr__check_read_tile(c, path, &content, &sound);
  if (rc >= 0 && sound) {
    tsr_input in = tsr__input(content.data, content.size);
    tsr_enumeration decoded = *enumeration;
    tsr__arena_init(&arena, &c->memory);
    if (tsr__enumeration_decode(&in, &arena, &decoded, &fault) < 0) rc = tsr__check_fault(c, path, &fault, NULL);
    tsr__arena_release(&arena);
  }
  tsr__buffer_release(&content);
  return rc;
}

static int check_enumerations(tsr_checker *c) {
  const tsr_path in = tsr__path_of(c->schemas_in, TSR_DIR_ENUMERATIONS, "");
  const char *directory = in.text;
  tsr_map seen = {.memory = &c->memory};
  tsr_listing entries;
  bool found;
  int rc = tsr__check_list(c, directory, &entries, &found);
  bool all_known = true;
  for (uint64_t i = 0; rc >= 0 && i < c->schemas.count; i++) {
    const tsr_checked_schema *schema = c->schemas.entries[i].value;
    all_known = all_known && schema->sound;
    for (uint32_t e = 0; rc >= 0 && schema->sound && e < schema->schema.enumeration_count; e++) {
      const tsr_enumeration *enumeration = &schema->schema.enumerations[e];
      tsr_check_path path;
      if (tsr__map_get(&seen, enumeration->file)) continue;
      rc = tsr__map_put(&seen, enumeration->file, enumeration->file, c->error);
      tsr__check_join(&path, directory, enumeration->file, "");
      if (rc >= 0) rc = check_enumeration(c, schema, enumeration, path.text);
    }
  }
  for (uint64_t i = 0; rc >= 0 && found && i < entries.count; i++) {
    const tsr_entry *entry = &entries.entries[i];
    tsr_check_path path;
    if (tsr__map_get(&seen, entry->name) || !all_known) continue;
    tsr__check_join(&path, directory, entry->name, "");
    if (entry->kind == TSR_ENTRY_DIRECTORY || strncmp(entry->name, "__", 2) != 0)
      rc = tsr__check_stray(c, path.text, entry->kind, directory);
    else
      rc = tsr__check_say(c, TSR_SEVERITY_NOTE, path.text,
                          "no schema names it: left over from a change of the schema that did not finish");
  }
  if (found) tsr__listing_release(&entries);
  tsr__map_release(&seen);
  return rc;
}

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

static int check_metadata_file(tsr_checker *c, const char *path) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_metadata_entries entries;
  tsr_error fault = {0};
  bool sound;
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__check_read_tile(c, path, &content, &sound);
  if (rc >= 0 && sound) {
    tsr_input in = tsr__input(content.data, content.size);
    if (tsr__metadata_decode(&in, &arena, &entries, &fault) < 0) rc = tsr__check_fault(c, path, &fault, NULL);
  }
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  return rc;
}

/* Checks a .vac of __meta. Readers skip the files that it names, so the merged file must exist if any of them does. */
static int check_metadata_vacuum(tsr_checker *c, const tsr_listing *entries, const char *name, uint64_t stem) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_names names = {0};
  tsr_error fault = {0};
  tsr_check_path path;
  tsr__check_join(&path, TSR_DIR_META, name, "");
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__store_read_all(c->store, path.text, TSR_CHECK_CONTENT_MAX, &content, &fault);
  tsr_input in = tsr__input(content.data, content.size);
  if (rc >= 0) rc = tsr__names_decode(&in, &arena, &names, &fault);
  bool merged = false;
  uint64_t hidden = 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *other = entries->entries[i].name;
    merged = merged || (strlen(other) == stem && strncmp(other, name, stem) == 0);
    for (uint64_t n = 0; n < names.count; n++) hidden += strcmp(names.names[n], other) == 0;
  }
  if (rc < 0) rc = tsr__check_fault(c, path.text, &fault, NULL);
  else if (!merged && hidden > 0)
    rc = tsr__check_say(c, TSR_SEVERITY_ERROR, path.text,
                        "it hides %llu metadata files, but %.*s, which should hold their entries, is missing",
                        (unsigned long long)hidden, (int)stem, name);
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  return rc;
}

static int check_metadata(tsr_checker *c) {
  tsr_listing entries;
  bool found;
  int rc = tsr__check_list(c, TSR_DIR_META, &entries, &found);
  for (uint64_t i = 0; rc >= 0 && found && i < entries.count; i++) {
    const tsr_entry *entry = &entries.entries[i];
    tsr_check_path path;
    tsr_name parsed;
    uint64_t stem;
    bool vacuum = tsr__name_suffix(entry->name, TSR_SUFFIX_VACUUM, &stem);
    if (!vacuum) stem = strlen(entry->name);
    tsr__check_join(&path, TSR_DIR_META, entry->name, "");
    if (entry->kind != TSR_ENTRY_FILE || !tsr__name_parse(entry->name, stem, &parsed))
      rc = tsr__check_stray(c, path.text, entry->kind, TSR_DIR_META);
    else rc = vacuum ? check_metadata_vacuum(c, &entries, entry->name, stem) : check_metadata_file(c, path.text);
  }
  if (found) tsr__listing_release(&entries);
  return rc;
}

/* ---- The array --------------------------------------------------------------------------------------------------- */

/* Reports names that do not belong in the array's directory. commits.c checks the names of fragments and their commits.
 */
static int check_root(tsr_checker *c) {
  static const struct {
    const char *name;
    tsr_entry_kind kind;
  } known[] = {{TSR_DIR_SCHEMA, TSR_ENTRY_DIRECTORY},  {TSR_DIR_FRAGMENTS, TSR_ENTRY_DIRECTORY},
               {TSR_DIR_COMMITS, TSR_ENTRY_DIRECTORY}, {TSR_DIR_META, TSR_ENTRY_DIRECTORY},
               {TSR_DIR_FOOTERS, TSR_ENTRY_DIRECTORY}, {TSR_DIR_LABELS, TSR_ENTRY_DIRECTORY},
               {TSR_DIR_TURNS, TSR_ENTRY_DIRECTORY},   {TSR_FILE_OLD_SCHEMA, TSR_ENTRY_FILE},
               {TSR_FILE_KV_SCHEMA, TSR_ENTRY_FILE},   {TSR_FILE_OLD_LOCK, TSR_ENTRY_FILE},
               {TSR_BUCKET_CLAIM, TSR_ENTRY_FILE}};
  static const char *const suffixes[] = {"", TSR_SUFFIX_OLD_WRITE, TSR_SUFFIX_VACUUM, TSR_SUFFIX_FOOTERS};
  for (uint64_t i = 0; i < c->root.count; i++) {
    const tsr_entry *entry = &c->root.entries[i];
    bool belongs = entry->name == c->unpublished;
    for (unsigned k = 0; k < sizeof known / sizeof *known; k++)
      belongs = belongs || (strcmp(entry->name, known[k].name) == 0 && entry->kind == known[k].kind);
    for (unsigned s = 0; s < sizeof suffixes / sizeof *suffixes && !belongs; s++) {
      tsr_name parsed;
      uint64_t stem;
      if (entry->kind != (s == 0 ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE)) continue;
      belongs = tsr__name_suffix(entry->name, suffixes[s], &stem) && tsr__name_parse(entry->name, stem, &parsed);
    }
    uint64_t generation;
    if (entry->kind == TSR_ENTRY_FILE)
      belongs = belongs || tsr__lease_parse(entry->name, &generation) ||
                strncmp(entry->name, TSR_PREFIX_SYNCED, strlen(TSR_PREFIX_SYNCED)) == 0;
    if (!belongs) TSR_TRY(tsr__check_stray(c, entry->name, entry->kind, "an array's directory"));
  }
  return TSR_OK;
}

void tsr__check_prefetch_add(tsr_checker *c, const char *path) {
  tsr_read_hint hint = {.size = HINT_TAIL, .tail = true};
  char *copy;
  if (!tsr__store_prefetches(c->store) || TSR_ARENA_COPY(&c->hints.paths, path, strlen(path), &copy, NULL) < 0) return;
  hint.path = copy;
  (void)tsr__buffer_append(&c->hints.list, &hint, sizeof hint, NULL);
}

void tsr__check_prefetch_send(tsr_checker *c) {
  tsr__store_prefetch(c->store, (const tsr_read_hint *)(const void *)c->hints.list.data,
                      c->hints.list.size / sizeof(tsr_read_hint));
  c->hints.list.size = 0;
  tsr__arena_reset(&c->hints.paths);
}

static int check_fragments(tsr_checker *c) {
  tsr_buffer order = {.memory = &c->memory}; /* sorted, so that findings are always in the same order */
  int rc = TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < c->fragments.count; i++)
    rc = tsr__buffer_append(&order, &c->fragments.entries[i].value, sizeof(void *), c->error);
  const tsr_checked_fragment **fragments = (const tsr_checked_fragment **)(void *)order.data;
  uint64_t count = order.size / sizeof(void *);
  if (count > 1) qsort(fragments, count, sizeof *fragments, tsr__check_compare_fragments);
  tsr__work_more(c->environment, count * TSR_CHECK_PARTS);
  for (uint64_t i = 0; rc >= 0 && i < count; i++) {
    const char *const directory = fragments[i]->old_layout ? "" : TSR_DIR_FRAGMENTS;
    tsr__check_prefetch_add(c, tsr__path_of(directory, fragments[i]->name, "/" TSR_FILE_FRAGMENT_METADATA).text);
  }
  tsr__check_prefetch_send(c);
  for (uint64_t i = 0; rc >= 0 && i < count; i++) {
    rc = tsr__check_fragment(c, fragments[i]);
    tsr__work_reach(c->environment, ++c->fragments_done * TSR_CHECK_PARTS);
  }
  tsr__buffer_release(&order);
  return rc;
}

static int check_all(tsr_checker *c) {
  TSR_TRY(check_schemas(c));
  TSR_TRY(check_enumerations(c));
  TSR_TRY(tsr__check_commits(c));
  TSR_TRY(check_root(c));
  TSR_TRY(check_metadata(c));
  return check_fragments(c);
}

static int check_list_root(tsr_checker *c) {
  static const char *const marks[] = {TSR_DIR_SCHEMA, TSR_FILE_OLD_SCHEMA, TSR_FILE_KV_SCHEMA, TSR_DIR_FRAGMENTS,
                                      TSR_DIR_COMMITS};
  tsr_error fault = {0};
  int rc = tsr__store_list(c->store, "", &c->root, &fault);
  if (rc == TSR_NOT_FOUND) {
    uint64_t when; /* of a file that exists instead */
    const char *reason = tsr__store_modified(c->store, "", &when, NULL) >= 0 ? ": it is not a directory" : "";
    return tsr__fail(c->error, rc, "array not found: %s%s", c->store->name, reason);
  }
  if (rc < 0) return tsr__fail(c->error, rc, "array %s: %s", c->store->name, fault.message);
  for (unsigned i = 0; i < sizeof marks / sizeof *marks; i++)
    if (root_has(c, marks[i])) return TSR_OK;
  for (uint64_t i = 0; i < c->root.count; i++)
    if (!strncmp(c->root.entries[i].name, TSR_PREFIX_CREATED, strlen(TSR_PREFIX_CREATED))) return TSR_OK;
  bool group = root_has(c, TSR_DIR_GROUP) || root_has(c, TSR_FILE_OLD_GROUP);
  if (group)
    return tsr__fail(c->error, TSR_NOT_FOUND, "array not found: %s: it is a group, not an array", c->store->name);
  return tsr__fail(c->error, TSR_NOT_FOUND, "array not found: %s: the %s holds no schema", c->store->name,
                   tsr__store_place(c->store));
}

static void check_release(tsr_checker *c) {
  for (uint64_t i = 0; i < c->schemas.count; i++)
    tsr__arena_release(&((tsr_checked_schema *)c->schemas.entries[i].value)->arena);
  for (uint64_t i = 0; i < c->contents.size / sizeof(tsr_buffer); i++)
    tsr__buffer_release((tsr_buffer *)(void *)c->contents.data + i);
  tsr__buffer_release(&c->contents);
  tsr__buffer_release(&c->hints.list);
  tsr__arena_release(&c->hints.paths);
  tsr__map_release(&c->schemas);
  tsr__map_release(&c->fragments);
  tsr__listing_release(&c->root);
  tsr__arena_release(&c->arena);
}

int tsr__check_store(tsr_environment *environment, tsr_store *store, const tsr_check_options *options,
                     tsr_check_report report, void *argument, tsr_error *error) {
  tsr_check_options own;
  const int taken = TSR_TAKE_OPTIONS(tsr_check_options, quick, options, &own, error);
  if (taken < 0) return tsr__store_close(store), taken;
  options = &own;
  tsr_checker c = {.environment = environment, .store = store, .key = options->key, .quick = options->quick};
  c.report = report;
  c.argument = argument;
  c.error = error;
  c.threads = options->threads ? options->threads : TSR_MIN(tsr__cores(), CHECK_THREADS_MAX);
  if (environment->single_threaded || !store->workers_may_read) c.threads = 1;
  tsr__memory_init(&c.memory, &environment->memory, options->memory_bytes ? options->memory_bytes : MEMORY_DEFAULT,
                   "memory_mb");
  tsr__arena_init(&c.arena, &c.memory);
  tsr__arena_init(&c.hints.paths, &c.memory);
  c.hints.list.memory = &c.memory;
  c.schemas.memory = c.fragments.memory = c.contents.memory = c.root.memory = &c.memory;
  tsr_work work;
  tsr_work_begin(environment, &work, "check", store->name, 0);
  int rc = check_list_root(&c);
  if (rc >= 0) rc = check_all(&c);
  if (c.cancelled && rc != TSR_INTERRUPT) rc = tsr__fail_cancelled(error);
  tsr_work_end(environment, &work);
  check_release(&c);
  tsr__count(environment, TSR_COUNT_files_opened, store->files_opened);
  tsr__count(environment, TSR_COUNT_bytes_read, store->bytes_read);
  tsr__count(environment, TSR_COUNT_directories_listed, store->directories_listed);
  tsr__store_close(store);
  return rc < 0 ? rc : TSR_OK;
}

int tsr_array_check(tsr_environment *environment, const char *path, const tsr_check_options *options,
                    tsr_check_report report, void *argument, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_check_options own;
  char *directory;
  tsr_store *store;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_check_options, quick, options, &own, error));
  TSR_TRY(tsr__path_open(environment, "array", path, &directory, &store, error));
  int rc = tsr__check_store(environment, store, &own, report, argument, error);
  if (rc >= 0) rc = tsr__check_opened(environment, directory, &own, report, argument, error);
  tsr__free(directory);
  return rc;
}
