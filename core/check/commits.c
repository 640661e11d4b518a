/* commits.c: checks that each commit file has its fragment and vice versa; checks delete conditions, vacuum files and
 * consolidated footers. entries.c says which files these are.
 *
 * Commits are listed before fragments. Writers make the fragment first, and vacuums remove the commit first. So a
 * listed commit without a fragment is a fault, unless the commit has been removed meanwhile as well.
 */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/condition.h"
#include "format/generic_tile.h"
#include "format/schema.h"
#include "format/layout.h"
#include "log/log.h"
#include "environment/environment.h"
#include "array/array.h"

typedef struct commits_check {
  tsr_checker *c;
  tsr_map ignored; /* name with suffix that an .ign cancels -> path of the .ign */
  tsr_map in_con; /* fragment of the old layout that a .con commits -> path of the .con */
  tsr_map deletes; /* names of delete conditions that have been checked */
  tsr_buffer truncated_con; /* char *: paths of truncated .con files */
  tsr_map ruled_out; /* names of fragments that a truncated .con cannot have meant to commit (commit_files.c) */
  tsr_map covered; /* fragment -> the committed fragment that has its cells, according to vacuum files */
} commits_check;

static const char root_directory[] = "", check_commits_commits_directory[] = TSR_DIR_COMMITS,
                  check_commits_fragments_directory[] = TSR_DIR_FRAGMENTS, footers_directory[] = TSR_DIR_FOOTERS;

int tsr__check_compare_fragments(const void *a, const void *b) {
  const tsr_checked_fragment *x = *(const tsr_checked_fragment *const *)a, *y = *(const tsr_checked_fragment *const *)b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int check_commits_keep(tsr_checker *c, const char *text, uint64_t size, const char **kept) {
  TSR_TRY(TSR_ARENA_COPY(&c->arena, text, size, kept, c->error));
  return TSR_OK;
}

static int add_fragment(tsr_checker *c, const char *name, const tsr_name *parsed, bool old_layout, const char *commit) {
  if (tsr__map_get(&c->fragments, name)) return TSR_OK;
  tsr_checked_fragment *fragment;
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, 1, &fragment, c->error));
  *fragment = (tsr_checked_fragment){.parsed = *parsed, .old_layout = old_layout};
  TSR_TRY(check_commits_keep(c, name, strlen(name), &fragment->name));
  TSR_TRY(check_commits_keep(c, commit, strlen(commit), &fragment->commit));
  return tsr__map_put(&c->fragments, fragment->name, fragment, c->error);
}

/* Checks a commit file that must be empty: its existence is the commit. */
static int check_empty(tsr_checker *c, const char *path) {
  tsr_error fault = {0};
  tsr_file *file;
  int rc = tsr__store_open_file(c->store, path, &file, &fault);
  if (rc < 0) return rc == TSR_NOT_FOUND ? TSR_OK : tsr__check_fault(c, path, &fault, NULL);
  uint64_t size = file->size;
  tsr__store_close_file(file);
  if (size == 0) return TSR_OK;
  return tsr__check_say(c, TSR_SEVERITY_WARNING, path, "a commit file of %llu bytes; it should be empty",
                        (unsigned long long)size);
}

/* ---- Delete conditions ------------------------------------------------------------------------------------------- */

static bool any_schema_has(const tsr_checker *c, const char *field) {
  for (uint64_t i = 0; i < c->schemas.count; i++) {
    const tsr_checked_schema *schema = c->schemas.entries[i].value;
    if (schema->sound && tsr__schema_field(&schema->schema, field) >= 0) return true;
  }
  return false;
}

/* Reports fields of a condition that the newest schema lacks. */
static int check_condition_fields(tsr_checker *c, const char *path, const tsr_condition *condition) {
  for (uint32_t i = 0; c->newest && i < condition->field_count; i++) {
    const char *field = condition->fields[i];
    if (tsr__schema_field(c->newest, field) >= 0) continue;
    bool dropped = any_schema_has(c, field);
    TSR_TRY(tsr__check_say(c, dropped ? TSR_SEVERITY_WARNING : TSR_SEVERITY_ERROR, path,
                           "delete condition %s names '%s', which %s: reads fail", condition->name, field,
                           dropped ? "the newest schema no longer has" : "no schema has"));
  }
  return TSR_OK;
}

/* Reports a delete condition that cannot be decoded. If it is a copy in a .con, readers take the condition from the
 * .del file, which is checked separately. */
static int report_delete(tsr_checker *c, const char *name, const char *path, bool is_copy, const tsr_error *fault) {
  const tsr_path original = tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_DELETE);
  if (fault->code != TSR_CORRUPT || !is_copy || !tsr__store_exists(c->store, original.text))
    return tsr__check_fault(c, path, fault, name);
  return tsr__check_say(c, TSR_SEVERITY_NOTE, path,
                        "its copy of %s cannot be decoded, so readers use that file; tessera_consolidate(path, "
                        "'commits') writes a sound copy",
                        original.text);
}

/* Checks a delete condition: the generic tile `bytes` of an entry of a .con or, if that is NULL, the file `path`. */
static int check_delete(commits_check *k, const char *name, const char *path, const uint8_t *bytes, uint64_t size) {
  tsr_checker *c = k->c;
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_condition condition;
  tsr_error fault = {0};
  tsr_name parsed = {0};
  bool sound = true;
  int rc = TSR_OK, decoded = TSR_OK;
  tsr__arena_init(&arena, &c->memory);
  if (bytes) {
    decoded = tsr__generic_tile_decode(bytes, size, c->key, TSR_CHECK_CONTENT_MAX, &content, NULL, NULL, &fault);
  } else rc = tsr__check_read_tile(c, path, &content, &sound);
  (void)tsr__name_parse(name, strlen(name), &parsed);
  if (rc >= 0 && sound && decoded >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    decoded = tsr__condition_decode(&in, name, parsed.start, &arena, &condition, &fault);
    if (decoded >= 0 && !tsr__map_get(&k->deletes, name)) rc = check_condition_fields(c, path, &condition);
  }
  if (rc >= 0 && decoded < 0) rc = report_delete(c, name, path, bytes != NULL, &fault);
  const char *kept;
  if (rc >= 0) rc = check_commits_keep(c, name, strlen(name), &kept);
  if (rc >= 0) rc = tsr__map_put(&k->deletes, kept, (void *)(uintptr_t)kept, c->error);
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  return rc;
}

/* ---- Lists of names ---------------------------------------------------------------------------------------------- */

/* Reads an .ign or .vac. The names live in the check's arena. */
static int read_names(tsr_checker *c, const char *path, tsr_names *names) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_error fault = {0};
  *names = (tsr_names){0};
  int rc = tsr__store_read_all(c->store, path, TSR_CHECK_CONTENT_MAX, &content, &fault);
  tsr_input in = tsr__input(content.data, content.size);
  if (rc >= 0) rc = tsr__names_decode(&in, &c->arena, names, &fault);
  tsr__buffer_release(&content);
  return rc >= 0 ? TSR_OK : tsr__check_fault(c, path, &fault, NULL);
}

static int read_ignored(commits_check *k, const tsr_listing *entries) {
  tsr_checker *c = k->c;
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_check_path path;
    tsr_names names;
    const char *kept;
    if (!tsr__name_ends_in(entries->entries[i].name, TSR_SUFFIX_IGNORED)) continue;
    tsr__check_join(&path, check_commits_commits_directory, entries->entries[i].name, "");
    TSR_TRY(check_commits_keep(c, path.text, strlen(path.text), &kept));
    TSR_TRY(read_names(c, path.text, &names));
    for (uint64_t n = 0; n < names.count; n++)
      TSR_TRY(tsr__map_put(&k->ignored, names.names[n], (void *)(uintptr_t)kept, c->error));
  }
  return TSR_OK;
}

/* Returns the path of the .ign that cancels the commit of a fragment, or NULL. */
static const char *ignored_by(const commits_check *k, const char *name, const tsr_name *parsed) {
  char text[256];
  uint64_t size = strlen(name);
  if (k->ignored.count == 0 || size + 5 > sizeof text) return NULL;
  memcpy(text, name, size);
  strcpy(text + size, layout_commit_suffix(parsed->version));
  return tsr__map_get(&k->ignored, text);
}

/* ---- __commits --------------------------------------------------------------------------------------------------- */

/* Takes one entry of a .con into account. */
static int add_entry(commits_check *k, const char *path, const tsr_commit *commit) {
  tsr_checker *c = k->c;
  tsr_name parsed;
  if (!tsr__name_parse(commit->name, strlen(commit->name), &parsed))
    return tsr__check_say(c, TSR_SEVERITY_ERROR, path, "entry '%s' has no timestamped name", commit->name);
  switch (commit->kind) {
  case TSR_COMMIT_DELETE: return check_delete(k, commit->name, path, commit->bytes, commit->size);
  case TSR_COMMIT_UPDATE:
    return tsr__check_say(c, TSR_SEVERITY_WARNING, path, "not checked: update condition %s", commit->name);
  case TSR_COMMIT_WRITE: break;
  }
  if (ignored_by(k, commit->name, &parsed)) return TSR_OK;
  if (layout_has_commits_folder(parsed.version)) return add_fragment(c, commit->name, &parsed, false, path);
  const char *name, *kept;
  TSR_TRY(check_commits_keep(c, commit->name, strlen(commit->name), &name));
  TSR_TRY(check_commits_keep(c, path, strlen(path), &kept));
  return tsr__map_put(&k->in_con, name, (void *)(uintptr_t)kept, c->error);
}

static int keep_unfinished(commits_check *k, const char *path) {
  const char *kept;
  TSR_TRY(check_commits_keep(k->c, path, strlen(path), &kept));
  return tsr__buffer_append(&k->truncated_con, &kept, sizeof kept, k->c->error);
}

static int check_consolidated(commits_check *k, const char *path) {
  tsr_checker *c = k->c;
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_commits commits;
  tsr_error fault = {0};
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__store_read_all(c->store, path, TSR_CHECK_CONTENT_MAX, &content, &fault);
  tsr_input in = tsr__input(content.data, content.size);
  bool truncated = false;
  if (rc >= 0 && (rc = tsr__commits_decode(&in, &arena, &commits, &fault)) < 0) truncated = commits.truncated;
  if (truncated) rc = keep_unfinished(k, path);
  else if (rc < 0) rc = tsr__check_fault(c, path, &fault, NULL);
  else
    for (uint64_t i = 0; rc >= 0 && i < commits.count; i++) {
      rc = tsr__cancelled(&c->environment->memory, c->error);
      if (rc >= 0) rc = add_entry(k, path, &commits.commits[i]);
    }
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  return rc;
}

/* Reports a prepared commit. An incomplete marker names no database. */
static int say_prepared(tsr_checker *c, const char *path) {
  tsr_arena arena;
  tsr_prepared_marker prepared = {0};
  tsr_error fault = {0};
  bool locked = false;
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__prepared_read(c->store, path, &arena, &prepared, &fault);
  if (rc > 0 && prepared.locked && tsr__prepared_is_locked(c->store, path, &locked, NULL) < 0) locked = false;
  if (rc < 0) rc = tsr__check_fault(c, path, &fault, NULL);
  else
    rc = tsr__check_say(c, TSR_SEVERITY_NOTE, path,
                        "a commit prepared through a database (%.300s on host %.100s)%s: a later write there, or "
                        "tessera_recover(path), publishes or removes it; if that database is gone for good, "
                        "tessera_recover(path, '{\"disown\":true}') removes it after 24 hours",
                        rc > 0 && *prepared.file ? prepared.file : "?", prepared.host ? prepared.host : "?",
                        locked ? ", whose writer is at work" : "");
  tsr__arena_release(&arena);
  return rc;
}

static int check_commit(commits_check *k, const tsr_entry *entry) {
  static const char *const suffixes[] = {TSR_SUFFIX_WRITE, TSR_SUFFIX_DELETE, TSR_SUFFIX_UPDATE, TSR_SUFFIX_VACUUM,
                                         TSR_SUFFIX_PENDING};
  enum { WRITES, DELETES, UPDATES, VACUUMS, PENDINGS, NONE };
  tsr_checker *c = k->c;
  tsr_check_path path;
  tsr_name parsed;
  uint64_t stem = 0;
  int kind = 0;
  tsr__check_join(&path, check_commits_commits_directory, entry->name, "");
  if (entry->kind != TSR_ENTRY_FILE)
    return tsr__check_stray(c, path.text, entry->kind, check_commits_commits_directory);
  if (tsr__name_suffix(entry->name, TSR_SUFFIX_CONSOLIDATED, &stem) ||
      tsr__name_suffix(entry->name, TSR_SUFFIX_IGNORED, &stem))
    return TSR_OK;
  while (kind < NONE && !tsr__name_suffix(entry->name, suffixes[kind], &stem)) kind++;
  if (kind == NONE) return tsr__check_stray(c, path.text, entry->kind, check_commits_commits_directory);
  const char *name;
  TSR_TRY(check_commits_keep(c, entry->name, stem, &name));
  if (!tsr__name_parse(name, stem, &parsed))
    return tsr__check_say(c, TSR_SEVERITY_ERROR, path.text, "'%s' is not a timestamped name", name);
  switch (kind) {
  case WRITES: TSR_TRY(check_empty(c, path.text)); return add_fragment(c, name, &parsed, false, path.text);
  case DELETES: return check_delete(k, name, path.text, NULL, 0);
  case UPDATES: return tsr__check_say(c, TSR_SEVERITY_WARNING, path.text, "not checked: an update condition");
  case PENDINGS: return say_prepared(c, path.text);
  default: return TSR_OK; /* check_vacuums checks vacuum files when all fragments are known */
  }
}

static int list_commits(commits_check *k) {
  tsr_listing entries;
  bool found;
  int rc = tsr__check_list(k->c, check_commits_commits_directory, &entries, &found);
  if (rc >= 0 && found) rc = read_ignored(k, &entries);
  for (uint64_t i = 0; rc >= 0 && found && i < entries.count; i++) {
    tsr_check_path path;
    if (entries.entries[i].kind == TSR_ENTRY_FILE)
      tsr__check_prefetch_add(k->c,
                              tsr__check_join(&path, check_commits_commits_directory, entries.entries[i].name, ""));
  }
  tsr__check_prefetch_send(k->c);
  for (int pass = 0; pass < 2; pass++)
    for (uint64_t i = 0; rc >= 0 && found && i < entries.count; i++) {
      tsr_check_path path;
      uint64_t stem;
      const tsr_entry *entry = &entries.entries[i];
      rc = tsr__cancelled(&k->c->environment->memory, k->c->error);
      if (rc < 0) break;
      if (pass == 1) rc = check_commit(k, entry);
      else if (tsr__name_suffix(entry->name, TSR_SUFFIX_CONSOLIDATED, &stem) && entry->kind == TSR_ENTRY_FILE)
        rc = check_consolidated(k, tsr__check_join(&path, check_commits_commits_directory, entry->name, ""));
    }
  if (found) tsr__listing_release(&entries);
  return rc;
}

/* ---- The old layout ---------------------------------------------------------------------------------------------- */

static int say_uncommitted(commits_check *k, const char *path, const char *name, const tsr_name *parsed) {
  const char *file = ignored_by(k, name, parsed);
  if (file)
    return tsr__check_say(k->c, TSR_SEVERITY_NOTE, path, "not committed any more (%s): deleted, and left over", file);
  return tsr__check_say(k->c, TSR_SEVERITY_NOTE, path,
                        "not committed: being written, or left over from a write that did not finish");
}

static int add_old_fragment(commits_check *k, const char *name, const tsr_name *parsed) {
  tsr_checker *c = k->c;
  tsr_check_path path;
  const char *con = tsr__map_get(&k->in_con, name);
  if (con) return add_fragment(c, name, parsed, true, con);
  if (layout_has_commit_files(parsed->version)) {
    tsr__check_join(&path, name, "", "");
    strcat(path.text, TSR_SUFFIX_OLD_WRITE); /* a name is much shorter than a path */
    if (tsr__check_root_has(c, path.text, TSR_ENTRY_FILE)) return add_fragment(c, name, parsed, true, path.text);
  } else {
    tsr__check_join(&path, name, TSR_FILE_FRAGMENT_METADATA, "");
    if (tsr__check_is_there(c, path.text)) return add_fragment(c, name, parsed, true, path.text);
  }
  return say_uncommitted(k, name, name, parsed);
}

/* Returns true if a committed merged fragment spans the times of a missing fragment. Older libraries leave the .ok of a
 * vacuumed fragment behind; then such a merged fragment has its cells. */
static bool is_merged(const tsr_checker *c, const tsr_name *parsed) {
  for (uint64_t i = 0; i < c->fragments.count; i++) {
    const tsr_checked_fragment *f = c->fragments.entries[i].value;
    if (f->parsed.start <= parsed->start && f->parsed.end >= parsed->end && f->parsed.start < f->parsed.end)
      return true;
  }
  return false;
}

static int check_old_commit(tsr_checker *c, const char *file, uint64_t stem) {
  const char *name;
  tsr_name parsed;
  TSR_TRY(check_commits_keep(c, file, stem, &name));
  if (!tsr__name_parse(name, stem, &parsed)) return TSR_OK; /* check.c reports it as a stray file */
  TSR_TRY(check_empty(c, file));
  if (tsr__check_root_has(c, name, TSR_ENTRY_DIRECTORY)) return TSR_OK;
  if (is_merged(c, &parsed))
    return tsr__check_say(c, TSR_SEVERITY_NOTE, file, "left over from a vacuum: fragment %s is gone", name);
  return tsr__check_say(c, TSR_SEVERITY_ERROR, file, "fragment %s is committed, but missing", name);
}

static int list_root(commits_check *k) {
  tsr_checker *c = k->c;
  for (uint64_t i = 0; i < c->root.count; i++) {
    const tsr_entry *entry = &c->root.entries[i];
    tsr_name parsed;
    if (entry->kind == TSR_ENTRY_DIRECTORY && tsr__name_parse(entry->name, strlen(entry->name), &parsed))
      TSR_TRY(add_old_fragment(k, entry->name, &parsed));
  }
  for (uint64_t i = 0; i < c->root.count; i++) {
    const tsr_entry *entry = &c->root.entries[i];
    uint64_t stem;
    if (entry->kind == TSR_ENTRY_FILE && tsr__name_suffix(entry->name, TSR_SUFFIX_OLD_WRITE, &stem))
      TSR_TRY(check_old_commit(c, entry->name, stem));
  }
  return TSR_OK;
}

/* ---- Unfinished work of other processes -------------------------------------------------------------------------- */

/* Reads the vacuum files of a directory. Skips unreadable files, which check_vacuums reports. */
static int add_replacing(tsr_checker *c, const char *directory, const tsr_listing *entries, tsr_buffer *files) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_check_path path;
    tsr_buffer content = {.memory = &c->memory};
    tsr_error unseen;
    tsr_names *room;
    const char *text = entries->entries[i].name, *name;
    char staged[TSR_STAGED_NAME];
    uint64_t stem;
    const bool named = tsr__name_suffix(text, TSR_SUFFIX_VACUUM, &stem);
    if (entries->entries[i].kind != TSR_ENTRY_FILE || (!named && !tsr__staged_vacuum(text, staged))) continue;
    TSR_TRY(TSR_ARENA_ARRAY(&c->arena, 1, &room, c->error));
    if (named) TSR_TRY(check_commits_keep(c, text, stem, &name));
    else TSR_TRY(check_commits_keep(c, staged, strlen(staged), &name));
    tsr__check_join(&path, directory, entries->entries[i].name, "");
    int rc = tsr__store_read_all(c->store, path.text, TSR_CHECK_CONTENT_MAX, &content, &unseen);
    tsr_input in = tsr__input(content.data, content.size);
    if (rc >= 0) rc = tsr__names_decode(&in, &c->arena, room, &unseen);
    tsr__buffer_release(&content);
    const tsr_replacing one = {name, room};
    if (rc >= 0) TSR_TRY(tsr__buffer_append(files, &one, sizeof one, c->error));
  }
  return TSR_OK;
}

/* Adds the fragments of a prepared commit to k->ruled_out. */
static int add_prepared(commits_check *k, const char *marker) {
  tsr_checker *c = k->c;
  tsr_prepared_marker prepared = {0};
  tsr_error unseen;
  if (tsr__prepared_read(c->store, marker, &c->arena, &prepared, &unseen) <= 0) return TSR_OK;
  for (uint64_t i = 0; i < prepared.fragment_count; i++)
    TSR_TRY(tsr__map_put(&k->ruled_out, prepared.fragments[i], (void *)(uintptr_t)prepared.fragments[i], c->error));
  return TSR_OK;
}

/* Fills k->ruled_out: fragments of prepared commits, cancelled ones, and those whose cells a merged fragment has. */
static int find_ruled_out(commits_check *k, const tsr_listing *commits) {
  tsr_checker *c = k->c;
  for (uint64_t i = 0; i < commits->count; i++) {
    tsr_check_path path;
    uint64_t stem;
    if (!tsr__name_suffix(commits->entries[i].name, TSR_SUFFIX_PENDING, &stem)) continue;
    TSR_TRY(add_prepared(k, tsr__check_join(&path, check_commits_commits_directory, commits->entries[i].name, "")));
  }
  for (uint64_t i = 0; i < c->root.count; i++) {
    tsr_check_path path;
    if (c->root.entries[i].kind != TSR_ENTRY_DIRECTORY || c->root.entries[i].name[0] != '_') continue;
    TSR_TRY(add_prepared(k, tsr__check_join(&path, c->root.entries[i].name, TSR_FILE_OLD_PENDING, "")));
  }
  for (uint64_t i = 0; i < k->ignored.count; i++) {
    const char *name = k->ignored.entries[i].key, *kept;
    TSR_TRY(check_commits_keep(c, name, strcspn(name, "."), &kept));
    TSR_TRY(tsr__map_put(&k->ruled_out, kept, (void *)(uintptr_t)kept, c->error));
  }
  for (uint64_t i = 0; i < k->covered.count; i++)
    TSR_TRY(tsr__map_put(&k->ruled_out, k->covered.entries[i].key, k->covered.entries[i].value, c->error));
  return TSR_OK;
}

/* Reports a truncated .con: as a note if no committed cell can be lost by that, else as an error. */
static int check_unfinished(commits_check *k, const char *path) {
  tsr_checker *c = k->c;
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_commits commits = {0};
  tsr_path doubtful;
  tsr_error fault = {0}, unseen;
  const tsr_other_commits known = {c->store, &c->memory, &c->fragments, &k->deletes, &k->ruled_out, &c->root};
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__store_read_all(c->store, path, TSR_CHECK_CONTENT_MAX, &content, &fault);
  tsr_input in = tsr__input(content.data, content.size);
  if (rc >= 0) (void)tsr__commits_decode(&in, &arena, &commits, &unseen);
  if (rc >= 0) rc = tsr__truncated_con_loses(&known, path, &commits, &doubtful, &fault);
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  if (rc == TSR_NOT_FOUND || rc == TSR_ABORT) return TSR_OK; /* its writer has removed it */
  if (rc) return tsr__check_fault(c, path, &fault, NULL);
  return tsr__check_say(
      c, TSR_SEVERITY_NOTE, path,
      "the file is cut: its writer is writing it, or was cut off. Everything that it can have named is committed by "
      "other files; tessera_vacuum removes it");
}

/* Reports cells that readers see twice because two fragments were merged from the same fragment. */
static int check_doubled(const commits_check *k, const tsr_replacing *files, uint64_t count) {
  tsr_checker *c = k->c;
  tsr_duplicate_cells found;
  tsr_check_path path;
  if (!c->newest || !c->newest->allows_duplicates) return TSR_OK;
  TSR_TRY(tsr__find_duplicate_cells(files, count, &c->fragments, &found, c->error));
  if (!found.merged) return TSR_OK;
  const tsr_checked_fragment *f = tsr__map_get(&c->fragments, found.merged);
  char what[600];
  tsr__check_join(&path, f->commit, "", "");
  if (strcmp(found.merged, found.other) == 0)
    snprintf(what, sizeof what, "fragment %.127s has the cells of %.127s twice: a source of its merge had them, too",
             found.merged, found.source);
  else
    snprintf(what, sizeof what, "fragments %.127s and %.127s both have the cells of %.127s: readers see them twice",
             found.merged, found.other, found.source);
  return tsr__check_say(c, TSR_SEVERITY_ERROR, path.text,
                        "%s. tessera_recover(path), tessera_consolidate and tessera_vacuum take the merge back as long "
                        "as all of its sources exist",
                        what);
}

/* Reports a committed merged fragment whose vacuum file only has its staged name, which TileDB does not read. */
static int check_staged(const commits_check *k, const char *directory, const tsr_listing *entries) {
  tsr_checker *c = k->c;
  for (uint64_t i = 0; i < entries->count && c->newest && c->newest->allows_duplicates; i++) {
    char name[TSR_STAGED_NAME];
    tsr_check_path path;
    const char *text = entries->entries[i].name;
    if (*text != '.' || !tsr__staged_vacuum(text, name) || !tsr__map_get(&c->fragments, name)) continue;
    if (tsr__listing_has(entries, tsr__path_of("", name, TSR_SUFFIX_VACUUM).text)) continue;
    TSR_TRY(tsr__check_say(c, TSR_SEVERITY_WARNING, tsr__check_join(&path, directory, text, ""),
                           "a merge was cut off after its commit: TileDB sees the sources of %s beside it, and their "
                           "cells twice. The next write, tessera_recover(path), tessera_consolidate or tessera_vacuum "
                           "finishes it",
                           name));
  }
  return TSR_OK;
}

/* Finds the fragments whose cells a merged fragment has, and checks truncated .con files. */
static int check_unfinished_work(commits_check *k) {
  tsr_checker *c = k->c;
  tsr_buffer files = {.memory = &c->memory};
  tsr_listing commits;
  bool found;
  int rc = tsr__check_list(c, check_commits_commits_directory, &commits, &found);
  if (!found) commits = (tsr_listing){0};
  if (rc >= 0) rc = add_replacing(c, check_commits_commits_directory, &commits, &files);
  if (rc >= 0) rc = add_replacing(c, root_directory, &c->root, &files);
  const tsr_replacing *all = (const tsr_replacing *)(const void *)files.data;
  if (rc >= 0) rc = tsr__covered(all, files.size / sizeof *all, &c->fragments, &k->covered, c->error);
  if (rc >= 0) rc = check_doubled(k, all, files.size / sizeof *all);
  if (rc >= 0) rc = check_staged(k, check_commits_commits_directory, &commits);
  if (rc >= 0) rc = check_staged(k, root_directory, &c->root);
  if (rc >= 0 && k->truncated_con.size) rc = find_ruled_out(k, &commits);
  const char *const *paths = (const char *const *)(const void *)k->truncated_con.data;
  for (uint64_t i = 0; i < k->truncated_con.size / sizeof *paths && rc >= 0; i++) rc = check_unfinished(k, paths[i]);
  tsr__buffer_release(&files);
  if (found) tsr__listing_release(&commits);
  return rc;
}

/* ---- Fragments of the new layout --------------------------------------------------------------------------------- */

/* tsr__log_outlived, by what the check has found. */
static const char *find_longer(const tsr_checker *c, const tsr_checked_fragment *gone) {
  const uint64_t length = gone->parsed.end - gone->parsed.start;
  if (!tsr__name_ends_in(gone->commit, TSR_SUFFIX_CONSOLIDATED)) return NULL;
  for (uint64_t i = 0; i < c->fragments.count; i++) {
    const tsr_checked_fragment *one = c->fragments.entries[i].value;
    if (one->parsed.end - one->parsed.start > length && tsr__may_be_source(gone->name, &one->parsed, one->name))
      return one->name;
  }
  return NULL;
}

static int say_missing(commits_check *k, const tsr_checked_fragment *f) {
  const char *merged = tsr__map_get(&k->covered, f->name);
  if (!tsr__check_is_there(k->c, f->commit)) return TSR_OK; /* a vacuum has removed both */
  if (merged)
    return tsr__check_say(
        k->c, TSR_SEVERITY_NOTE, f->commit,
        "fragment %s is committed and gone: a vacuum was cut off, %s has its cells; tessera_vacuum finishes it",
        f->name, merged);
  const char *longer = find_longer(k->c, f);
  if (longer)
    return tsr__check_say(
        k->c, TSR_SEVERITY_ERROR, f->commit,
        "fragment %s is committed, but gone: another program has probably consolidated the commits "
        "while it was vacuumed, and %s has its cells; tessera_consolidate(path, 'commits') cancels it",
        f->name, longer);
  return tsr__check_say(k->c, TSR_SEVERITY_ERROR, f->commit, "fragment %s is committed, but missing", f->name);
}

/* Reports the committed fragments whose directory is missing, and removes them from c->fragments. */
static int find_missing(commits_check *k, const tsr_map *directories) {
  tsr_checker *c = k->c;
  for (uint64_t i = 0; i < c->fragments.count;) {
    const tsr_checked_fragment *f = c->fragments.entries[i].value;
    if (f->old_layout ? tsr__check_root_has(c, f->name, TSR_ENTRY_DIRECTORY)
                      : tsr__map_get(directories, f->name) != NULL) {
      i++;
      continue;
    }
    TSR_TRY(say_missing(k, f));
    tsr__map_remove(&c->fragments, f->name); /* moves the last entry to this index: do not advance */
  }
  return TSR_OK;
}

static int check_directories(commits_check *k, const tsr_listing *entries, tsr_map *directories) {
  tsr_checker *c = k->c;
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    tsr_check_path path;
    tsr_name parsed;
    tsr__check_join(&path, check_commits_fragments_directory, entry->name, "");
    if (entry->kind != TSR_ENTRY_DIRECTORY || !tsr__name_parse(entry->name, strlen(entry->name), &parsed)) {
      TSR_TRY(tsr__check_stray(c, path.text, entry->kind, check_commits_fragments_directory));
      continue;
    }
    TSR_TRY(tsr__map_put(directories, entry->name, entry->name, c->error));
    if (!tsr__map_get(&c->fragments, entry->name)) TSR_TRY(say_uncommitted(k, path.text, entry->name, &parsed));
  }
  return find_missing(k, directories);
}

static int list_fragments(commits_check *k) {
  tsr_map directories = {.memory = &k->c->memory};
  tsr_listing entries;
  bool found;
  int rc = tsr__check_list(k->c, check_commits_fragments_directory, &entries, &found);
  if (!found) entries = (tsr_listing){0};
  if (rc >= 0) rc = check_directories(k, &entries, &directories);
  tsr__map_release(&directories);
  if (found) tsr__listing_release(&entries);
  return rc;
}

/* ---- Vacuum files ------------------------------------------------------------------------------------------------ */

/* Checks a .vac: readers skip the fragments that it names, so if any of them exists, the merged fragment must be
 * committed, or its cells must be in another one. */
static int check_vacuum(const commits_check *k, const char *path, const char *file, uint64_t stem) {
  tsr_checker *c = k->c;
  const char *name;
  tsr_names names;
  uint64_t hidden = 0;
  TSR_TRY(check_commits_keep(c, file, stem, &name));
  TSR_TRY(read_names(c, path, &names));
  for (uint64_t i = 0; i < names.count; i++) hidden += tsr__map_get(&c->fragments, names.names[i]) != NULL;
  if (hidden == 0 || tsr__map_get(&c->fragments, name) || tsr__map_get(&k->covered, name)) return TSR_OK;
  return tsr__check_say(c, TSR_SEVERITY_ERROR, path,
                        "it hides %llu fragments, but %s, which should replace them, is not committed",
                        (unsigned long long)hidden, name);
}

static int check_vacuums(const commits_check *k, const char *directory, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    tsr_check_path path;
    tsr_name parsed;
    uint64_t stem;
    if (entry->kind != TSR_ENTRY_FILE || !tsr__name_suffix(entry->name, TSR_SUFFIX_VACUUM, &stem)) continue;
    if (!tsr__name_parse(entry->name, stem, &parsed)) continue;
    TSR_TRY(check_vacuum(k, tsr__check_join(&path, directory, entry->name, ""), entry->name, stem));
  }
  return TSR_OK;
}

/* ---- Consolidated footers ---------------------------------------------------------------------------------------- */

/* Attaches the footers of a .meta to their fragments; fragment.c compares them with the fragments' own. */
static int give_footers(tsr_checker *c, const char *path, const tsr_footers *footers, const uint8_t *content) {
  const char *kept;
  TSR_TRY(check_commits_keep(c, path, strlen(path), &kept));
  for (uint64_t i = 0; i < footers->count; i++) {
    const tsr_footer *footer = &footers->footers[i];
    tsr_checked_fragment *fragment = tsr__map_get(&c->fragments, footer->name);
    if (!fragment) continue;
    fragment->footer = content + footer->at;
    fragment->footer_size = footer->size;
    fragment->footer_path = kept;
  }
  return TSR_OK;
}

/* Checks that a .meta has the footers of exactly the fragments that the .con with the same name commits: readers do not
 * open that .con. */
static int check_variant(tsr_checker *c, const char *path, const char *name, const tsr_footers *footers) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_commits commits;
  tsr_error fault = {0};
  tsr_check_path con;
  tsr__check_join(&con, check_commits_commits_directory, name, "");
  strcpy(con.text + strlen(con.text) - strlen(TSR_SUFFIX_FOOTERS), TSR_SUFFIX_CONSOLIDATED);
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__store_read_all(c->store, con.text, TSR_CHECK_CONTENT_MAX, &content, &fault);
  tsr_input in = tsr__input(content.data, content.size);
  if (rc >= 0) rc = tsr__commits_decode(&in, &arena, &commits, &fault);
  const bool differs = rc >= 0 && !tsr__commits_match(&commits, footers);
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  if (rc < 0 && rc != TSR_NOT_FOUND && rc != TSR_CORRUPT) return tsr__check_fault(c, con.text, &fault, NULL);
  if (!differs) return TSR_OK; /* or the .con is damaged, which has been reported already */
  return tsr__check_say(
      c, TSR_SEVERITY_ERROR, path,
      "it should hold the footers of the fragments that %s, of the same name, commits, and of no others: "
      "readers take the one for the other",
      con.text);
}

static int check_footers(tsr_checker *c, const char *path, const char *name) {
  tsr_buffer content = {.memory = &c->memory};
  tsr_arena arena;
  tsr_footers footers;
  tsr_error fault = {0};
  bool sound, kept = false;
  tsr__arena_init(&arena, &c->memory);
  int rc = tsr__check_read_tile(c, path, &content, &sound);
  if (rc >= 0 && sound) {
    if (tsr__footers_decode(content.data, content.size, &arena, &footers, &fault) < 0)
      rc = tsr__check_fault(c, path, &fault, NULL);
    else {
      rc = tsr__buffer_append(&c->contents, &content, sizeof content, c->error);
      kept = rc >= 0;
      if (kept) rc = give_footers(c, path, &footers, content.data);
      if (rc >= 0 && name) rc = check_variant(c, path, name, &footers);
    }
  }
  tsr__arena_release(&arena);
  if (!kept) tsr__buffer_release(&content);
  return rc;
}

static int check_footer_files(tsr_checker *c, const char *directory, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    tsr_check_path path;
    tsr_name parsed;
    uint64_t stem;
    bool named = entry->kind == TSR_ENTRY_FILE && tsr__name_suffix(entry->name, TSR_SUFFIX_FOOTERS, &stem) &&
                 tsr__name_parse(entry->name, stem, &parsed);
    tsr__check_join(&path, directory, entry->name, "");
    if (named) TSR_TRY(check_footers(c, path.text, *directory ? entry->name : NULL));
    else if (*directory) TSR_TRY(tsr__check_stray(c, path.text, entry->kind, directory));
  }
  return TSR_OK;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

static int check_rest(const commits_check *k) {
  tsr_checker *c = k->c;
  tsr_listing entries;
  bool found;
  TSR_TRY(check_vacuums(k, root_directory, &c->root));
  TSR_TRY(check_footer_files(c, root_directory, &c->root));
  int rc = tsr__check_list(c, check_commits_commits_directory, &entries, &found);
  if (rc >= 0 && found) rc = check_vacuums(k, check_commits_commits_directory, &entries);
  if (found) tsr__listing_release(&entries);
  TSR_TRY(rc);
  rc = tsr__check_list(c, footers_directory, &entries, &found);
  if (rc >= 0 && found) rc = check_footer_files(c, footers_directory, &entries);
  if (found) tsr__listing_release(&entries);
  return rc;
}

int tsr__check_commits(tsr_checker *c) {
  commits_check k = {.c = c};
  k.ignored.memory = k.in_con.memory = k.deletes.memory = k.truncated_con.memory = &c->memory;
  k.ruled_out.memory = k.covered.memory = &c->memory;
  int rc = list_commits(&k);
  if (rc >= 0) rc = list_root(&k);
  if (rc >= 0) rc = check_unfinished_work(&k);
  if (rc >= 0) rc = list_fragments(&k);
  if (rc >= 0) rc = check_rest(&k);
  tsr__buffer_release(&k.truncated_con);
  tsr__map_release(&k.ruled_out);
  tsr__map_release(&k.covered);
  tsr__map_release(&k.ignored);
  tsr__map_release(&k.in_con);
  tsr__map_release(&k.deletes);
  return rc;
}
