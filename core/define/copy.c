/* copy.c: copies an array file by file, from any store to any other, as a consistent snapshot.
 *
 * __commits is listed before everything else. A listed commit was complete at that time, so the copy has all of its
 * files. Files of unfinished writes are copied as they are, except two kinds of names that readers ignore: names that
 * begin with '.', and markers of prepared commits. A staged vacuum file (.NAME.vac.new) also begins with '.', but it
 * counts before it is renamed, so it is copied.
 *
 * The copy becomes an array at the very end: until everything else is there, its schemas have provisional names.
 *
 * A copy that a sync goes on with claims its place (claim.c), so that the next sync can take it over if this one dies.
 * It has a record of the names that it copies (sync.c), before it becomes an array: the source may be merged and
 * vacuumed at any moment after that, and the copy's commits must not count as its own.
 *
 * Sections: the list of the source's files; the record; the copy.
 */
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "define/define.h"

#define TREE_COPY_DEPTH_MAX 16 /* nested directories: dimension labels are arrays within an array */

/* The names that make a directory an array, in the order in which the copy publishes them. An old array whose schema
 * was evolved has both a file and __schema, and is complete with the last of them. */
static const char *const schema_names[] = {TSR_FILE_OLD_SCHEMA, TSR_FILE_KV_SCHEMA, TSR_DIR_SCHEMA};
#define SCHEMA_NAMES (sizeof schema_names / sizeof *schema_names)

typedef struct tree_copy_item { /* one file or directory to copy */
  const char *path; /* within the source; from the arena */
  bool directory;
  uint32_t depth; /* nesting of a directory that is not listed yet; 0: already listed */
} tree_copy_item;

typedef struct copying {
  tsr_environment *environment;
  tsr_store *from, *to;
  tsr_memory memory;
  tsr_arena arena;
  tsr_buffer items; /* of tree_copy_item: a directory comes before its entries */
  uint8_t *block; /* TSR_COPY_BLOCK bytes */
  bool has_schema[SCHEMA_NAMES]; /* the source has this name */
  unsigned published; /* how many of schema_names, from the first on, have their names in the copy */
  bool frame; /* only directories, schemas and enumerations */
  char hidden[sizeof TSR_PREFIX_COPYING + 1 + 16]; /* begins the provisional names of schemas: no two copies share it */
  const char *record; /* its claim and the file with the names of what is copied are called after it; NULL: none */
  tsr_claim claim;
  bool durable;
  uint64_t made; /* how many items, from the first on, exist in the copy */
  uint64_t files; /* how many of those are files */
  uint64_t bytes; /* in those files */
  tsr_error *error;
} copying;

static tree_copy_item *tree_copy_item_at(const copying *c, uint64_t i) {
  return (tree_copy_item *)(void *)c->items.data + i;
}
static uint64_t tree_copy_item_count(const copying *c) { return c->items.size / sizeof(tree_copy_item); }

/* ---- The list of the source's files ------------------------------------------------------------------------------ */

static int tree_copy_add(copying *c, const char *directory, const char *name, bool is_directory, uint32_t depth) {
  tsr_buffer path = {.memory = &c->memory};
  char *copy;
  int rc = tsr__buffer_printf(&path, c->error, "%s%s%s", directory, *directory ? "/" : "", name);
  if (rc >= 0) rc = TSR_ARENA_COPY(&c->arena, path.data, path.size, &copy, c->error);
  tsr__buffer_release(&path);
  if (rc < 0) return rc;
  const tree_copy_item one = {.path = copy, .directory = is_directory, .depth = depth};
  return tsr__buffer_append(&c->items, &one, sizeof one, c->error);
}

static bool tree_copy_skips(const tsr_entry *entry) {
  uint64_t stem;
  if (tsr__name_suffix(entry->name, TSR_SUFFIX_STAGED_VACUUM, &stem)) return entry->kind != TSR_ENTRY_FILE;
  return *entry->name == '.' || tsr__name_suffix(entry->name, TSR_SUFFIX_PENDING, &stem) ||
         entry->kind == TSR_ENTRY_OTHER;
}

/* Returns true if an entry of a directory belongs to a commit, to metadata, or to footers: not to the frame. */
static bool is_content(const char *directory, const char *name) {
  static const char *const contents[] = {TSR_DIR_COMMITS, TSR_DIR_FRAGMENTS, TSR_DIR_META, TSR_DIR_FOOTERS};
  const char *slash = strrchr(directory, '/'), *last = slash ? slash + 1 : directory;
  tsr_name parsed;
  for (unsigned i = 0; i < sizeof contents / sizeof *contents; i++)
    if (strcmp(last, contents[i]) == 0) return true;
  if (strcmp(last, TSR_DIR_SCHEMA) == 0 || strcmp(last, TSR_DIR_ENUMERATIONS) == 0) return false;
  return tsr__name_parse(name, strcspn(name, "."), &parsed);
}

static int add_entries(copying *c, const char *directory, uint32_t depth) {
  tsr_listing entries = {0};
  if (depth > TREE_COPY_DEPTH_MAX)
    return tsr__fail(c->error, TSR_CORRUPT, "%s: directories are nested more than %d deep", directory,
                     TREE_COPY_DEPTH_MAX);
  TSR_TRY(tsr__cancelled(&c->environment->memory, c->error));
  TSR_TRY(tsr__store_list(c->from, directory, &entries, c->error));
  int rc = TSR_OK;
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_entry *entry = &entries.entries[i];
    bool known = depth == 0 && strcmp(entry->name, TSR_DIR_COMMITS) == 0; /* the first item of the list */
    if (!tree_copy_skips(entry) && !known && !(c->frame && is_content(directory, entry->name)))
      rc = tree_copy_add(c, directory, entry->name, entry->kind == TSR_ENTRY_DIRECTORY, depth + 1);
  }
  tsr__listing_release(&entries);
  return rc;
}

/* Fills c->items, breadth first: appends the entries of each directory. */
static int list_all(copying *c) {
  bool exists;
  TSR_TRY(tsr__directory_find(c->from, TSR_DIR_COMMITS, &exists, c->error));
  if (exists) {
    TSR_TRY(tree_copy_add(c, "", TSR_DIR_COMMITS, true, 1));
    TSR_TRY(add_entries(c, TSR_DIR_COMMITS, 1));
    tree_copy_item_at(c, 0)->depth = 0;
  }
  TSR_TRY(add_entries(c, "", 0));
  for (uint64_t i = 0; i < tree_copy_item_count(c); i++) {
    const tree_copy_item one = *tree_copy_item_at(c, i);
    for (unsigned m = 0; m < SCHEMA_NAMES; m++) c->has_schema[m] |= strcmp(one.path, schema_names[m]) == 0;
    if (one.directory && one.depth > 0) TSR_TRY(add_entries(c, one.path, one.depth));
  }
  return TSR_OK;
}

/* ---- The record -------------------------------------------------------------------------------------------------- */

/* Appends the names in a list of commits, as the copy has it. */
static int note_list(copying *c, const char *path, tsr_buffer *lines) {
  tsr_buffer bytes = {.memory = &c->memory};
  tsr_arena arena;
  tsr_commits commits = {0};
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__store_read_all(c->to, path, UINT64_MAX, &bytes, c->error);
  tsr_input in = tsr__input(bytes.data, bytes.size);
  tsr_error unseen; /* a damaged list may be copied, too: readers tell */
  if (rc >= 0) {
    const int decoded = tsr__commits_decode(&in, &arena, &commits, &unseen);
    if (decoded < 0 && !commits.truncated) commits.count = 0;
    if (tsr__lacks_memory(decoded)) *c->error = unseen, rc = decoded;
  }
  for (uint64_t i = 0; i < commits.count && rc >= 0; i++)
    rc = tsr__buffer_printf(lines, c->error, "%s\n", commits.commits[i].name);
  tsr__arena_release(&arena);
  tsr__buffer_release(&bytes);
  return rc;
}

/* Appends the names of all fragments, deletes and metadata files in the copy, also of its labels: names are unique. */
static int note_names(copying *c, tsr_buffer *lines) {
  for (uint64_t i = 0; i < tree_copy_item_count(c); i++) {
    const char *path = tree_copy_item_at(c, i)->path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int stem = (int)strcspn(name, ".");
    tsr_name parsed;
    if (!tsr__name_parse(name, (uint64_t)stem, &parsed)) continue;
    TSR_TRY(tsr__buffer_printf(lines, c->error, "%.*s\n", stem, name));
    if (tsr__name_ends_in(name, TSR_SUFFIX_CONSOLIDATED)) TSR_TRY(note_list(c, path, lines));
  }
  return TSR_OK;
}

/* Writes the record, or removes it, in the array and in those of its labels. */
static int put_record(copying *c, const char *directory, const tsr_buffer *lines) {
  const tsr_path path = tsr__path_of(directory, c->record, TSR_RECORD_BEGIN);
  if (!lines) return tsr__store_remove(c->to, path.text, NULL), TSR_OK;
  return tsr__store_put_new(c->to, path.text, lines->data, lines->size, c->durable, c->error);
}

static int put_records(copying *c, const tsr_buffer *lines) {
  TSR_TRY(put_record(c, "", lines));
  for (uint64_t i = 0; i < tree_copy_item_count(c); i++) {
    const tree_copy_item *one = tree_copy_item_at(c, i);
    const size_t labels = strlen(TSR_DIR_LABELS "/");
    if (one->directory && !strncmp(one->path, TSR_DIR_LABELS "/", labels) && !strchr(one->path + labels, '/'))
      TSR_TRY(put_record(c, one->path, lines));
  }
  return TSR_OK;
}

static int write_records(copying *c) {
  tsr_buffer lines = {.memory = &c->memory};
  if (!c->record) return TSR_OK;
  int rc = note_names(c, &lines);
  if (rc >= 0) rc = put_records(c, &lines);
  tsr__buffer_release(&lines);
  return rc;
}

/* ---- The copy ---------------------------------------------------------------------------------------------------- */

/* Sets *path to an item's current path in the copy: schemas that are not published yet have a provisional name. */
static int target_of(copying *c, const tree_copy_item *one, tsr_buffer *path) {
  path->size = 0;
  for (unsigned m = c->published; m < SCHEMA_NAMES; m++) {
    const size_t length = strlen(schema_names[m]);
    if (strncmp(one->path, schema_names[m], length) != 0 || (one->path[length] && one->path[length] != '/')) continue;
    TSR_TRY(tsr__buffer_printf(path, c->error, "%s_%u%s", c->hidden, m, one->path + length));
    return tsr__buffer_append_u8(path, 0, c->error);
  }
  TSR_TRY(tsr__buffer_printf(path, c->error, "%s", one->path));
  return tsr__buffer_append_u8(path, 0, c->error);
}

static int copy_bytes(tsr_environment *environment, tsr_claim *claim, tsr_file *from, tsr_file *to, uint8_t *block,
                      tsr_error *error) {
  for (uint64_t at = 0; at < from->size; at += TSR_COPY_BLOCK) {
    const uint64_t part = TSR_MIN(from->size - at, TSR_COPY_BLOCK);
    TSR_TRY(tsr__cancelled(&environment->memory, error));
    if (claim) TSR_TRY(tsr__claim_keep(claim, false, error));
    TSR_TRY(tsr__store_read_at(from, at, block, part, error));
    TSR_TRY(tsr__store_append(to, block, part, error));
    tsr_work_done(environment, part);
  }
  return to->syncs ? tsr__store_sync(to, error) : TSR_OK;
}

int tsr__file_copy(tsr_environment *environment, tsr_store *from, const char *path, tsr_store *to, const char *target,
                   tsr_claim *claim, bool durable, uint8_t *block, bool *made, uint64_t *bytes, tsr_error *error) {
  tsr_file *source = NULL, *copy = NULL;
  TSR_TRY(tsr__store_open_file(from, path, &source, error));
  int rc = tsr__store_create_exclusive(to, target, &copy, error);
  if (made) *made = rc >= 0;
  if (rc >= 0) {
    copy->syncs = durable || to->renames_in_steps;
    rc = copy_bytes(environment, claim, source, copy, block, error);
  }
  *bytes = source->size;
  tsr__store_close_file(copy);
  tsr__store_close_file(source);
  return rc;
}

/* Adds the sizes of all files, in bytes, to the operation's total for the progress display. */
static int tree_copy_measure(copying *c) {
  for (uint64_t i = 0; i < tree_copy_item_count(c); i++) {
    tsr_file *file = NULL;
    if (tree_copy_item_at(c, i)->directory) continue;
    if (i % 64 == 63) TSR_TRY(tsr__cancelled(&c->environment->memory, c->error));
    TSR_TRY(tsr__store_open_file(c->from, tree_copy_item_at(c, i)->path, &file, c->error));
    tsr__work_more(c->environment, file->size);
    tsr__store_close_file(file);
  }
  return TSR_OK;
}

static int copy_file(copying *c, const tree_copy_item *one, const char *target) {
  uint64_t bytes = 0;
  bool made = false;
  const int rc = tsr__file_copy(c->environment, c->from, one->path, c->to, target, &c->claim, c->durable, c->block,
                                &made, &bytes, c->error);
  c->made += made;
  c->files += made;
  c->bytes += bytes;
  return rc;
}

static int copy_items(copying *c, tsr_buffer *path) {
  for (uint64_t i = 0; i < tree_copy_item_count(c); i++) {
    const tree_copy_item *one = tree_copy_item_at(c, i);
    TSR_TRY(target_of(c, one, path));
    TSR_TRY(tsr__claim_keep(&c->claim, false, c->error));
    if (!one->directory) {
      TSR_TRY(copy_file(c, one, (const char *)path->data));
      continue;
    }
    TSR_TRY(tsr__store_make_directory(c->to, (const char *)path->data, c->error));
    c->made++;
  }
  TSR_TRY(write_records(c));
  for (uint64_t i = 0; i < tree_copy_item_count(c) && c->durable; i++) {
    if (!tree_copy_item_at(c, i)->directory) continue;
    TSR_TRY(target_of(c, tree_copy_item_at(c, i), path));
    TSR_TRY(tsr__store_sync_directory(c->to, (const char *)path->data, c->error));
  }
  if (c->durable) TSR_TRY(tsr__store_sync_directory(c->to, "", c->error));
  TSR_TRY(tsr__claim_keep(&c->claim, true, c->error));
  for (; c->published < SCHEMA_NAMES; c->published++) {
    char hidden[sizeof c->hidden + 12];
    const char *name = schema_names[c->published];
    snprintf(hidden, sizeof hidden, "%s_%u", c->hidden, c->published);
    if (c->has_schema[c->published]) TSR_TRY(tsr__store_rename_exclusive(c->to, hidden, name, c->error));
  }
  return c->durable ? tsr__store_sync_directory(c->to, "", c->error) : TSR_OK;
}

/* Removes what a failed copy has made. If the place may be another sync's by now, only what nobody else has made. */
static void remove_copy(copying *c, tsr_buffer *path) {
  tsr_error unseen;
  c->error = NULL;
  bool held = tsr__claim_keep(&c->claim, true, &unseen) >= 0;
  if (held && c->record) (void)put_records(c, NULL);
  for (uint64_t i = c->made; i-- > 0;) {
    held = held && tsr__claim_keep(&c->claim, false, &unseen) >= 0;
    if (target_of(c, tree_copy_item_at(c, i), path) < 0) continue;
    const char *target = (const char *)path->data;
    if (held || !strncmp(target, c->hidden, strlen(c->hidden))) (void)tsr__store_remove(c->to, target, NULL);
  }
  if (!held) return;
  tsr__claim_abandon(&c->claim);
  (void)tsr__store_remove(c->to, "", NULL);
}

/* Undoes a copy that has failed with `rc`, and says what to do about it: TSR_ABORT if another sync was the cause. */
static int give_up(copying *c, int rc, tsr_buffer *path) {
  tsr_error *error = c->error;
  remove_copy(c, path);
  if (rc == TSR_EXISTS && c->record)
    return tsr__fail(error, TSR_ABORT, "%s: a sync of this array that had been suspended went on there: try again",
                     c->to->name);
  return rc;
}

/* Makes the root, or takes over what a sync that has died has left there. */
static int take_place(copying *c) {
  uint8_t random[8];
  char text[2 * sizeof random + 1];
  TSR_TRY(tsr__random(random, sizeof random, c->error));
  tsr_hex_write(random, sizeof random, text);
  snprintf(c->hidden, sizeof c->hidden, TSR_PREFIX_COPYING "_%s", text);
  c->claim = (tsr_claim){.from = c->from, .to = c->to, .record = c->record};
  int rc = c->record ? tsr__claim_take(&c->claim, c->error) : tsr__store_make_directory(c->to, "", c->error);
  if (rc == TSR_EXISTS && !c->record) rc = tsr__creation_in_the_way(c->to, c->error);
  return rc < 0 ? tsr__wrap(c->error, "%s", c->to->name) : TSR_OK;
}

static int copy_all(copying *c) {
  tsr_object_kind kind;
  tsr_buffer path = {.memory = &c->memory};
  TSR_TRY(tsr__object_kind(c->from, "", &kind, c->error));
  if (kind != TSR_OBJECT_ARRAY) return tsr__fail(c->error, TSR_NOT_FOUND, "array not found: %s", c->from->name);
  TSR_TRY(list_all(c));
  bool is_array = false;
  for (unsigned m = 0; m < SCHEMA_NAMES; m++) is_array |= c->has_schema[m];
  if (!is_array) return tsr__fail(c->error, TSR_ABORT, "%s: the array was removed while it was copied", c->from->name);
  TSR_TRY(tree_copy_measure(c));
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, TSR_COPY_BLOCK, &c->block, c->error));
  TSR_TRY(take_place(c));
  int rc = copy_items(c, &path);
  if (rc < 0) rc = give_up(c, rc, &path);
  else tsr__claim_end(&c->claim);
  tsr__buffer_release(&path);
  return rc;
}

int tsr__array_copy(tsr_environment *environment, const char *from, const char *to, bool unsynced, bool frame,
                    const char *record, uint64_t *files, uint64_t *bytes, tsr_error *error) {
  char *paths[2] = {NULL, NULL};
  copying c = {.environment = environment, .durable = !unsynced, .frame = frame, .record = record, .error = error};
  tsr__memory_init(&c.memory, &environment->memory, UINT64_MAX, "the copy");
  tsr__arena_init(&c.arena, &c.memory);
  c.items.memory = &c.memory;
  int rc = tsr__path_open(environment, "array", from, &paths[0], &c.from, error);
  if (rc >= 0) rc = tsr__path_open(environment, "array", to, &paths[1], &c.to, error);
  if (rc >= 0) rc = copy_all(&c);
  if (rc >= 0) *files = c.files;
  if (rc >= 0) *bytes = c.bytes;
  tsr__store_close(c.from);
  tsr__store_close(c.to);
  tsr__free(paths[0]);
  tsr__free(paths[1]);
  tsr__free(c.block);
  tsr__buffer_release(&c.items);
  tsr__arena_release(&c.arena);
  return rc;
}

int tsr_array_copy_files(tsr_environment *environment, const char *from, const char *to, bool unsynced, uint64_t *files,
                         tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_work work;
  uint64_t copied = 0, bytes;
  tsr_work_begin(environment, &work, "sync", from, 0);
  const int rc = tsr__array_copy(environment, from, to, unsynced, false, NULL, &copied, &bytes, error);
  tsr_work_end(environment, &work);
  if (rc >= 0 && files) *files = copied;
  return rc;
}
