/* replace.c: replaces fragments by the fragments they were merged into, with one rename.
 *
 * The merged fragments have been written under temporary names. Their final names are __T1_T2_UUID_V. All fragments of
 * one merge share the UUID except its last eight digits, which count them. NAME is the first of these names. The steps:
 *  1. Write ".NAME" into the directory of commits. It becomes NAME.wrt (empty) or, for several fragments, NAME.con;
 *     below format version 12, NAME.ok.
 *  2. Write ".NAME.vac.new", whose lines name the sources. Then rename the fragments to their final names.
 *  3. List the array. Look for merges with a source in common that have completed step 2, and cancel them
 *     (merge_conflict.c).
 *  4. Check that the array still has all sources, and no other fragment with a time between theirs.
 *  5. Rename ".NAME". This commits the merge. If renames are not atomic, a file ".NAME.decided" first decides it.
 *  6. Rename ".NAME.vac.new" to NAME.vac. This library's readers treat the two alike as soon as NAME is committed.
 *
 * Several merges of one call, whose sources differ, take each step together: so they need one listing of the array, not
 * one each (tsr__replacements_commit).
 *
 * Of two merges with a source in common, at most one commits: each finds the other in step 3 or step 4. Leftovers of a
 * crash before step 5 do not block later merges: a fragment that belongs to a ".NAME.vac.new" does not count as one
 * that may still be committed.
 *
 * Between steps 5 and 6, TileDB sees the sources in addition to the merged fragment. In an array that allows duplicates
 * it would see all cells twice, and its next consolidation would make that permanent. So in such arrays the merge takes
 * effect in step 6, for all libraries:
 *  - Before step 5, NAME.vac.ign is written. It has the lines of the vacuum file, and one more that cancels NAME, like
 *    the lines of any .ign file. So NAME.con, which step 5 then creates even for a single fragment, commits nothing
 *    yet; but the merge is decided, and can only be completed (log.h).
 *  - In step 6, NAME.vac.ign is renamed to NAME.vac. It no longer cancels NAME, and hides the sources. Its extra line
 *    names no fragment, so it has no effect there. Then NAME.wrt is added, since a vacuum by TileDB may have removed
 *    NAME.con as redundant, and ".NAME.vac.new" is removed.
 * Where renames are not atomic, such a rename could hide both; there the window remains.
 */
#include "maintain/maintain.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "log/log.h"
#include "environment/environment.h"

#define REPLACE_YOUNG    (UINT64_C(24) * 3600 * 1000) /* ms after its last change: it may still be committed */
#define CHECK_ATTEMPTS   8 /* while the fragments of other merges come and go */
#define CHECK_PAUSE      10 /* ms between the first two attempts; each pause is 1.5 times the last */
#define REPLACE_ATTEMPTS 8 /* while other processes merge and vacuum */

/* ---- Uncommitted fragments --------------------------------------------------------------------------------------- */

/* Adds to `stems` the stem of the merge whose staged vacuum file an entry of a directory is. */
static int add_staged(const char *entry, tsr_arena *arena, tsr_map *stems, tsr_error *error) {
  char name[TSR_STAGED_NAME], stem[128];
  char *copy;
  if (!tsr__staged_vacuum(entry, name) || !tsr__merge_stem(name, stem)) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(arena, stem, strlen(stem), &copy, error));
  return tsr__map_put(stems, copy, copy, error);
}

/* Adds to `stems` the stems of all merges that have a staged vacuum file. Those of __commits are in the array's
 * listing; `root` lists the array's directory. */
static int find_staged(const tsr_array *array, const tsr_listing *root, tsr_arena *arena, tsr_map *stems,
                       tsr_error *error) {
  const tsr_listing *commits = &array->log.listing->commits;
  for (uint64_t i = 0; i < commits->count; i++) TSR_TRY(add_staged(commits->entries[i].name, arena, stems, error));
  for (uint64_t i = 0; i < root->count; i++) TSR_TRY(add_staged(root->entries[i].name, arena, stems, error));
  return TSR_OK;
}

/* Adds to `names` the fragments of all prepared commits. Their owners may publish them at any time, whatever their age.
 */
static int find_prepared(tsr_array *array, tsr_arena *arena, tsr_map *names, tsr_error *error) {
  const tsr_commit_list *prepared = &array->log.listing->prepared.markers;
  for (uint64_t i = 0; i < prepared->count; i++) {
    tsr_prepared_marker pending = {0};
    TSR_TRY(tsr__prepared_read(array->store, prepared->items[i].path, arena, &pending, error));
    for (uint64_t n = 0; n < pending.fragment_count; n++)
      TSR_TRY(tsr__map_put(names, pending.fragments[n], (void *)(uintptr_t)pending.fragments[n], error));
  }
  return TSR_OK;
}

typedef struct unlisted { /* fragments that are not committed */
  tsr_map staged; /* stems of merges in progress */
  tsr_map prepared; /* names of fragments of prepared commits */
} unlisted;

/* Lists a directory; a missing directory is empty. The caller releases `entries` in any case. */
static int list_if_there(tsr_array *array, const char *directory, tsr_listing *entries, tsr_error *error) {
  const int rc = tsr__store_list(array->store, directory, entries, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

/* Calls `found` for each uncommitted fragment among the entries of a directory that may still be committed
 * (tsr__uncommitted_fragments). */
static int find_uncommitted(tsr_array *array, const char *directory, const tsr_listing *entries, const unlisted *known,
                            tsr_uncommitted_fragment found, void *argument, tsr_error *error) {
  int rc = TSR_OK;
  for (uint64_t i = 0; i < entries->count && rc >= 0; i++) {
    const char *name = entries->entries[i].name;
    char stem[128];
    tsr_name parsed;
    uint64_t modified = 0;
    tsr_error one;
    if (entries->entries[i].kind != TSR_ENTRY_DIRECTORY || !tsr__name_parse(name, strlen(name), &parsed)) continue;
    if (tsr__map_get(&array->log.listing->names, name)) continue;
    if (tsr__merge_stem(name, stem) && tsr__map_get(&known->staged, stem)) continue;
    tsr_path p = tsr__path_of(directory, name, "");
    rc = tsr__store_modified(array->store, p.text, &modified, &one);
    if (rc < 0 && rc != TSR_NOT_FOUND) *error = one;
    if (rc == TSR_NOT_FOUND) rc = TSR_OK; /* its writer or its merge has removed it meanwhile */
    else if (rc >= 0 &&
             (tsr__add_sat(modified, REPLACE_YOUNG) > tsr__environment_now() || tsr__map_get(&known->prepared, name)))
      rc = found(argument, name, &parsed, error);
  }
  return rc;
}

int tsr__uncommitted_fragments(tsr_array *array, tsr_memory *memory, tsr_uncommitted_fragment found, void *argument,
                               tsr_error *error) {
  unlisted known = {.staged.memory = memory, .prepared.memory = memory};
  tsr_listing root = {.memory = memory}, fragments = {.memory = memory};
  tsr_arena arena;
  tsr__arena_init(&arena, memory);
  int rc = tsr__log_is_new_layout(&array->log) ? TSR_OK : list_if_there(array, "", &root, error);
  if (rc >= 0) rc = find_staged(array, &root, &arena, &known.staged, error);
  if (rc >= 0) rc = find_prepared(array, &arena, &known.prepared, error);
  if (rc >= 0) rc = find_uncommitted(array, "", &root, &known, found, argument, error);
  if (rc >= 0) rc = list_if_there(array, TSR_DIR_FRAGMENTS, &fragments, error);
  if (rc >= 0) rc = find_uncommitted(array, TSR_DIR_FRAGMENTS, &fragments, &known, found, argument, error);
  tsr__listing_release(&root);
  tsr__listing_release(&fragments);
  tsr__map_release(&known.staged);
  tsr__map_release(&known.prepared);
  tsr__arena_release(&arena);
  return rc;
}

/* ---- Other merges ------------------------------------------------------------------------------------------------ */

int tsr__replaced(tsr_array *array, tsr_map *names, tsr_error *error) {
  for (int i = 0;; i++) {
    const int rc = tsr__log_hide_all_sources(&array->log, names, error);
    if (rc != TSR_NOT_FOUND) return rc;
    if (i == REPLACE_ATTEMPTS) return tsr__fail(error, TSR_ABORT, "other processes keep merging and vacuuming");
    tsr__map_release(names); /* a vacuum has removed a vacuum file, or a merge has renamed its staged one */
    TSR_TRY(tsr__log_list(&array->log, true, true, error));
  }
}

/* ---- One merge --------------------------------------------------------------------------------------------------- */

int tsr__replacement_add(tsr_replacement *r, char directory[160], tsr_error *error) {
  tsr_store *store = r->array->store;
  uint8_t random[16];
  tsr_name name;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &name, random));
  snprintf(r->names[r->count], sizeof r->names[0], ".%s", name.uuid);
  if (layout_has_commits_folder(r->version)) {
    tsr_error unseen;
    int rc = tsr__store_make_directory(store, TSR_DIR_FRAGMENTS, &unseen);
    if (rc < 0 && rc != TSR_EXISTS) return *error = unseen, rc;
    rc = tsr__store_make_directory(store, TSR_DIR_COMMITS, &unseen);
    if (rc < 0 && rc != TSR_EXISTS) return *error = unseen, rc;
    TSR_TRY(tsr__store_sync_directory(store, "", error));
  }
  snprintf(directory, 160, "%.159s", tsr__merge_fragment_path(r->version, r->names[r->count]).text);
  TSR_TRY(tsr__store_make_provisional(store, directory, error));
  r->count++;
  return TSR_OK;
}

/* Writes a file ".NAME" + suffix into the directory of commits, where readers ignore it. Its content is durable, its
 * name once the directory is synced. `staged` is set before the file is created, so that tsr__replacement_end removes
 * it in any case. */
static int replace_stage(const tsr_replacement *r, const char *name, const char *suffix, const tsr_buffer *bytes,
                         char staged[160], tsr_error *error) {
  tsr_store *store = r->array->store;
  tsr_file *file;
  snprintf(staged, 160, "%.159s", tsr__merge_commit_path(r->version, ".", name, suffix).text);
  TSR_TRY(tsr__store_create_exclusive(store, staged, &file, error));
  int rc = bytes->size ? tsr__store_append(file, bytes->data, bytes->size, error) : TSR_OK;
  if (rc >= 0) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  return rc;
}

/* Chooses the final names of the fragments. */
static int choose_names(const tsr_replacement *r, char (*names)[128], tsr_error *error) {
  uint8_t random[16];
  TSR_TRY(tsr__random(random, sizeof random, error));
  for (uint32_t i = 0; i < r->count; i++) {
    tsr_name name;
    for (int k = 0; k < 4; k++) random[12 + k] = (uint8_t)(i >> (24 - 8 * k));
    TSR_TRY(tsr__name_new(r->start, r->end, r->version, &name, random));
    tsr__name_print(&name, names[i]);
  }
  return TSR_OK;
}

/* Returns true if a single rename makes TileDB see the merged fragment instead of its sources. */
static bool is_exchange(const tsr_replacement *r) {
  const tsr_store *store = r->array->store;
  return r->duplicates && r->count == 1 && layout_has_commits_folder(r->version) && !store->renames_in_steps &&
         !store->is_one_file;
}

static int source_lines(const tsr_replacement *r, tsr_buffer *lines, tsr_error *error) {
  const tsr_maintained object = {.array = r->array, .version = r->version, .path = r->array->path};
  for (uint32_t i = 0; i < r->source_count; i++)
    TSR_TRY(tsr__vacuum_line(&object, r->sources[i]->old_layout ? "" : TSR_DIR_FRAGMENTS, r->sources[i]->name, lines,
                             error));
  return TSR_OK;
}

/* Writes the staged commit and the staged vacuum file. */
static int stage_all(tsr_replacement *r, char (*names)[128], tsr_error *error) {
  tsr_buffer lines = {.memory = r->memory};
  const bool listed = r->count > 1 || is_exchange(r);
  int rc = TSR_OK;
  for (uint32_t i = 0; i < r->count && listed && rc >= 0; i++) rc = tsr__commits_encode_write(names[i], &lines, error);
  if (rc >= 0) rc = replace_stage(r, names[0], "", &lines, r->staged, error);
  lines.size = 0;
  if (rc >= 0) rc = source_lines(r, &lines, error);
  if (rc >= 0) rc = replace_stage(r, names[0], TSR_SUFFIX_STAGED_VACUUM, &lines, r->vacuum, error);
  tsr__buffer_release(&lines);
  return rc;
}

static int name_fragments(tsr_replacement *r, char (*names)[128], tsr_error *error) {
  tsr_store *store = r->array->store;
  for (uint32_t i = 0; i < r->count; i++) {
    tsr_path from = tsr__merge_fragment_path(r->version, r->names[i]),
             to = tsr__merge_fragment_path(r->version, names[i]);
    TSR_TRY(tsr__store_rename_exclusive(store, from.text, to.text, error));
    memcpy(r->names[i], names[i], sizeof r->names[0]);
  }
  return TSR_OK;
}

static int refuse_between(void *argument, const char *name, const tsr_name *parsed, tsr_error *error) {
  const tsr_merges *merges = argument;
  for (uint32_t i = 0; i < merges->count; i++)
    if (parsed->start <= merges->items[i]->end && parsed->end >= merges->items[i]->start)
      return tsr__fail(error, TSR_ABORT, "fragment %s was written meanwhile, at a time between those that are merged",
                       name);
  return TSR_OK;
}

/* Fails if the listing lacks a source, or if it is `replaced` already. */
static int check_listed(const tsr_replacement *r, const tsr_map *replaced, tsr_error *error) {
  for (uint32_t i = 0; i < r->source_count; i++) {
    const char *name = r->sources[i]->name;
    if (!tsr__map_get(&r->array->log.listing->names, name) || tsr__map_get(replaced, name))
      return tsr__fail(error, TSR_ABORT, "fragment %s was merged or vacuumed by another process meanwhile", name);
  }
  return TSR_OK;
}

static int add_sources(const tsr_replacement *r, tsr_map *names, tsr_error *error) {
  for (uint32_t i = 0; i < r->source_count; i++)
    TSR_TRY(tsr__map_put(names, r->sources[i]->name, (void *)(uintptr_t)r->sources[i]->name, error));
  return TSR_OK;
}

/* Fails if another merge or a vacuum has replaced or removed a source, or if there is another fragment, committed or
 * not, with a time between those of the sources of a merge. *uncommitted: that fragment is not committed. The array
 * must have been listed since the merges were staged. */
static int check_sources(const tsr_merges *merges, bool *uncommitted, tsr_error *error) {
  tsr_array *array = merges->items[0]->array;
  tsr_memory *memory = merges->items[0]->memory;
  tsr_map known = {.memory = memory};
  int rc = tsr__replaced(array, &known, error);
  const tsr_commit_list *fragments = &array->log.listing->fragments;
  for (uint32_t i = 0; i < merges->count && rc >= 0; i++) rc = check_listed(merges->items[i], &known, error);
  for (uint32_t i = 0; i < merges->count && rc >= 0; i++) rc = add_sources(merges->items[i], &known, error);
  for (uint64_t i = 0; i < fragments->count && rc >= 0; i++)
    if (!tsr__map_get(&known, fragments->items[i].name))
      rc = refuse_between((void *)(uintptr_t)merges, fragments->items[i].name, &fragments->items[i].parsed, error);
  tsr__map_release(&known);
  if (rc < 0) return rc;
  rc = tsr__uncommitted_fragments(array, memory, refuse_between, (void *)(uintptr_t)merges, error);
  *uncommitted = rc == TSR_ABORT;
  return rc;
}

/* Steps 3 and 4, by one listing if there is no rival. The fragments of another merge look uncommitted if it stages its
 * vacuum file after the first of the listings here, or removes it before the last. So the check is retried. */
static int confirm(const tsr_merges *merges, tsr_error *error) {
  tsr_array *array = merges->items[0]->array;
  bool uncommitted = false, outdated = false;
  TSR_TRY(tsr__log_list(&array->log, true, true, error));
  TSR_TRY(tsr__merge_conflict_cancel(merges, &outdated, error));
  if (outdated) TSR_TRY(tsr__log_list(&array->log, true, true, error));
  int rc = check_sources(merges, &uncommitted, error);
  struct timespec pause = {.tv_nsec = CHECK_PAUSE * 1000000};
  for (int i = 1; i < CHECK_ATTEMPTS && rc == TSR_ABORT && uncommitted; i++, pause.tv_nsec += pause.tv_nsec / 2) {
    TSR_TRY(tsr__cancelled(&array->environment->memory, error));
    nanosleep(&pause, NULL);
    uncommitted = false;
    TSR_TRY(tsr__log_list(&array->log, true, true, error));
    rc = check_sources(merges, &uncommitted, error);
  }
  return rc;
}

/* Writes NAME.vac.ign. */
static int write_exchange(tsr_replacement *r, tsr_error *error) {
  tsr_buffer lines = {.memory = r->memory};
  const tsr_path p = tsr__merge_commit_path(r->version, "", r->names[0], TSR_SUFFIX_EXCHANGED);
  int rc = source_lines(r, &lines, error);
  if (rc >= 0) rc = tsr__commits_encode_write(r->names[0], &lines, error);
  memcpy(r->exchanged, p.text, strlen(p.text) + 1);
  if (rc >= 0) rc = tsr__store_put_new(r->array->store, p.text, lines.data, lines.size, true, error);
  tsr__buffer_release(&lines);
  return rc < 0 ? rc : tsr__store_sync_directory(r->array->store, layout_commits_folder(r->version), error);
}

/* Steps 5 and 6. */
static int replace_commit(tsr_replacement *r, tsr_error *error) {
  tsr_store *store = r->array->store;
  const char *parent = layout_commits_folder(r->version);
  const bool exchange = is_exchange(r);
  const tsr_path to = tsr__merge_commit_path(r->version, "", r->names[0],
                                             !layout_has_commits_folder(r->version) ? TSR_SUFFIX_OLD_WRITE
                                             : r->count > 1 || exchange             ? TSR_SUFFIX_CONSOLIDATED
                                                                                    : TSR_SUFFIX_WRITE);
  bool exists = true;
  tsr_error one;
  if (exchange) TSR_TRY(write_exchange(r, error));
  TSR_TRY(tsr__merge_conflict_decide(r, error));
  int rc = tsr__store_rename_exclusive(store, r->staged, to.text, error);
  /* A rename may report an error although it took place, and another process may have carried out the decision
   * (tsr__merge_conflict_finish). Only if the new name certainly does not exist is the merge not committed, and
   * tsr__replacement_end may remove its files. */
  if (rc < 0 && tsr__store_find(store, to.text, &exists, &one) >= 0 && !exists)
    return rc == TSR_NOT_FOUND ? tsr__merge_conflict_fail(error) : rc;
  if (store->renames_in_steps && (rc == TSR_NOT_FOUND || rc == TSR_EXISTS)) rc = TSR_OK;
  r->count = 0;
  *r->staged = *r->vacuum = *r->exchanged = 0;
  TSR_TRY(rc);
  TSR_TRY(tsr__store_sync_directory(store, parent, error));
  if (exchange) TSR_TRY(tsr__exchange_finish(store, r->names[0], error));
  return tsr__staged_vacuum_finish(store, parent, r->names[0], error); /* a vacuum may have done so */
}

/* Steps 1 and 2. The names of all staged files are durable before a fragment gets its name. */
static int prepare(const tsr_merges *merges, char (*names)[128], tsr_error *error) {
  const tsr_replacement *first = merges->items[0];
  tsr_store *store = first->array->store;
  char(*own)[128] = names;
  for (uint32_t i = 0; i < merges->count; own += merges->items[i++]->count) {
    TSR_TRY(choose_names(merges->items[i], own, error));
    TSR_TRY(stage_all(merges->items[i], own, error));
  }
  TSR_TRY(tsr__store_sync_directory(store, layout_commits_folder(first->version), error));
  own = names;
  for (uint32_t i = 0; i < merges->count; own += merges->items[i++]->count)
    TSR_TRY(name_fragments(merges->items[i], own, error));
  return tsr__store_sync_directory(store, layout_fragments_folder(first->version), error);
}

static int prepare_all(const tsr_merges *merges, tsr_error *error) {
  char(*names)[128];
  uint64_t count = 0;
  for (uint32_t i = 0; i < merges->count; i++) count += merges->items[i]->count;
  TSR_TRY(TSR_ALLOC_ARRAY(merges->items[0]->memory, count, &names, error));
  const int rc = prepare(merges, names, error);
  tsr__free(names);
  return rc;
}

int tsr__replacements_commit(const tsr_merges *merges, uint32_t *committed, tsr_error *error) {
  *committed = 0;
  TSR_TRY(prepare_all(merges, error));
  int rc = confirm(merges, error);
  const bool each = rc == TSR_ABORT && merges->count > 1; /* one of them is in the way of others: find out which */
  if (rc < 0 && !each) return rc;
  for (uint32_t i = 0; i < merges->count; i++) {
    if (each) TSR_TRY(confirm(&(tsr_merges){1, &merges->items[i]}, error));
    TSR_TRY(replace_commit(merges->items[i], error));
    ++*committed;
  }
  return TSR_OK;
}

void tsr__replacement_end(tsr_replacement *r) {
  tsr_error unseen;
  tsr_store *store = r->array->store;
  if (*r->staged) (void)tsr__store_remove(store, r->staged, &unseen);
  for (uint32_t i = 0; i < r->count; i++) {
    tsr_path p = tsr__merge_fragment_path(r->version, r->names[i]);
    (void)tsr__store_remove_tree(store, p.text, &unseen);
  }
  if (*r->vacuum) (void)tsr__store_remove(store, r->vacuum, &unseen);
  if (*r->exchanged) (void)tsr__store_remove(store, r->exchanged, &unseen);
  if (*r->decided) (void)tsr__store_remove(store, r->decided, &unseen);
  *r->decided = 0;
  r->count = 0;
}
