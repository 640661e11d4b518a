/* commit.c: prepares, publishes and withdraws a writer's commit: choosing its time, the files, the marker, the rename
 * that publishes. "The commit protocol" describes it. commit_budget.c has made sure that there is enough memory. */
#include <stdio.h>
#include <string.h>

#include "write/writer.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "format/schema.h"
#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "log/log.h"
#include "environment/environment.h"
#include "read/reader.h"

/* ---- The commit protocol ----------------------------------------------------------------------------------------- */

/* A fragment is first written under a provisional name that no reader takes for a fragment's: ".UUID", below
 * __fragments (before format version 12, in the array's directory). Preparing chooses the time and gives the fragments
 * their final names. Publishing is one step:
 *
 *   from 12 on   one fragment alone: __commits/NAME.wrt is created. Conditions alone, in one file: its content, staged
 *                as __commits/.NAME, is renamed to NAME.del. Several of either: a list of all, with the content of the
 *                conditions, is staged likewise and renamed to __commits/__T_T_UUID_V.con
 *   7 to 11      NAME.ok is created
 *   3            the metadata file, written as ".metadata", is renamed to __fragment_metadata.tdb
 *
 * In a store where writers on many machines commit (a bucket), preparing takes a turn, and publishing ends it
 * (commit_queue.c). Large uploads happen before the turn, under names with the current time; if another commit with
 * this or a later time gets ahead, the fragments are renamed.
 *
 * Conditions and cells have the same time, since they share no coordinates. In arrays with duplicates they may, so
 * there the cells' time is one later. Such a condition's name has both times: it deletes cells up to the first, and is
 * in view from the second on, so no time shows the commit by half. */

#define LISTING_FRESH_MS 1000u /* an older listing does not prove that the array still exists */
#define UPLOADED_IN_TURN (UINT64_C(1) << 20) /* bytes that a writer uploads during its turn, at most */

void tsr__commit_unlock(tsr_commit_state *commit) {
  tsr__store_close_file(commit->lock);
  commit->lock = NULL;
}

void tsr__commit_release(tsr_commit_state *commit) {
  tsr__turn_end(&commit->turn);
  tsr__buffer_release(&commit->fragments);
  tsr__buffer_release(&commit->withdrawn);
}

/* ---- Withdrawing a commit ---------------------------------------------------------------------------------------- */

/* Withdraws the commits that were published before the writer was reopened. Withdraws all of them each time, since a
 * savepoint of the host may have undone an earlier withdrawal. */
static int withdraw_published(tsr_writer *w, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  if (c->stage == TSR_COMMIT_REOPENED) {
    if (*c->path) TSR_TRY(tsr__buffer_append(&c->withdrawn, c->path, TSR_COMMIT_PATH, error));
    c->stage = TSR_COMMIT_COLLECTING;
  }
  for (uint64_t i = 0; i < c->withdrawn.size; i += TSR_COMMIT_PATH) {
    const char *commit = (const char *)c->withdrawn.data + i, *name = strrchr(commit, '/');
    uint64_t stem;
    char directory[TSR_COMMIT_PATH + 16];
    TSR_TRY(tsr__prepared_withdraw(w->array->store, commit, error));
    if (!name || !tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem)) continue;
    snprintf(directory, sizeof directory, TSR_DIR_FRAGMENTS "%.*s", (int)stem, name);
    TSR_TRY(tsr__store_remove_tree(w->array->store, directory, error));
  }
  return TSR_OK;
}

/* Withdraws published commits, then removes the staged file and the marker of the current one. The marker goes last:
 * recovery finds the other files by it. */
static int withdraw_staged(tsr_writer *w, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_error one;
  TSR_TRY(withdraw_published(w, error));
  tsr__turn_release(&c->turn, w->array->store);
  if (!*c->path) return TSR_OK;
  tsr__prepared_paths(c->path, marker, staged);
  if (*staged && layout_has_commits_folder(w->version)) {
    int rc = tsr__store_remove(w->array->store, staged, &one);
    if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  }
  if (c->options.owner) TSR_TRY(tsr__prepared_unmark(w->array->store, marker, error));
  tsr__commit_unlock(c);
  *c->path = 0;
  return TSR_OK;
}

void tsr__commit_count(tsr_writer *w, bool counts) {
  tsr_commit_state *c = &w->commit;
  tsr_log *log = &w->array->log;
  const bool counted = log->host.unpublished == c->path;
  if (counts == counted || (counts && (c->stage != TSR_COMMIT_PREPARED || c->options.owner || !*c->path))) return;
  tsr__log_count_unpublished(log, counts ? c->path : NULL);
}

void tsr_writer_count_prepared(tsr_writer *writer) { tsr__commit_count(writer, true); }

int tsr_writer_abandon(tsr_writer *writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_commit_state *c = &writer->commit;
  if (c->stage == TSR_COMMIT_PUBLISHED) return TSR_OK;
  tsr__commit_count(writer, false);
  tsr__commit_mark_dirty(c);
  c->boxes = 0;
  int rc = tsr__commit_fragments_remove(writer, 0, error);
  if (rc >= 0) rc = withdraw_staged(writer, error);
  return tsr__writer_wrap(writer, rc, error);
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

/* Chooses the commit's time, in milliseconds since 1970: later than `last`, than every time that this environment has
 * prepared, and than every listed commit that is not in the future. The `cells_later` milliseconds after it are the
 * commit's, too. */
static int choose_time(tsr_writer *w, uint64_t cells_later, uint64_t last, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  if (c->options.time) {
    c->time = c->options.time;
    return TSR_OK;
  }
  const uint64_t now = tsr__environment_now();
  const tsr_commit_list *lists[] = {&w->array->log.listing->fragments, &w->array->log.listing->deletes};
  for (int l = 0; l < 2; l++)
    for (uint64_t i = 0; i < lists[l]->count; i++) {
      const uint64_t end = lists[l]->items[i].parsed.end;
      if (end <= now) last = TSR_MAX(last, end);
    }
  return tsr__environment_time(w->array->environment, last, cells_later, &c->time, error);
}

/* ---- Prepare ----------------------------------------------------------------------------------------------------- */

typedef struct commit_name {
  char text[128];
} commit_name;

typedef struct preparation {
  tsr_writer *w;
  tsr_snapshot *present; /* the array's current state, for commits that remove rows */
  tsr_deletes deletes;
  commit_name *names; /* names of the fragments, then of the conditions */
  uint64_t name_count;
  uint64_t cells_later; /* by how many milliseconds the cells are later than the conditions: 0 or 1 */
} preparation;

static int make_name(const tsr_writer *w, uint64_t start, uint64_t end, char *text, tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(start, end, !layout_has_commit_files(w->version) ? 0 : w->version, &name, random));
  tsr__name_print(&name, text);
  return TSR_OK;
}

/* Returns 1 if removed row number `i` must become part of a delete condition: it is committed or hides a committed row,
 * and no uncommitted cell that is left has its coordinates. Else 0. */
static int must_delete(const preparation *p, const tsr_column *coordinates, uint64_t i, tsr_error *error) {
  tsr_writer *w = p->w;
  const int64_t row = (int64_t)tsr__load64(w->removed.rows.data + 8 * i);
  uint64_t number;
  int64_t found;
  if (w->schema->allows_duplicates) return row >= 0;
  int rc = tsr__find_uncommitted(w, coordinates, i, &number, error);
  if (rc < 0) return rc;
  const bool in_memory = rc > 0;
  if (in_memory && !tsr__removed_has(&w->removed, tsr__uncommitted_rowid(number), w->removed.count)) return 0;
  if (row >= 0 && (in_memory || w->runs.spilled == 0)) return 1;
  rc = tsr__find_elsewhere(w, p->present, coordinates, i, true, &found, error);
  if (rc <= 0) return rc < 0 ? rc : row >= 0;
  if (!in_memory && found < 0 && !tsr__removed_has(&w->removed, found, w->removed.count)) return 0;
  return 1;
}

static int choose_deletes(preparation *p, const tsr_column *coordinates, uint32_t *selection, uint64_t *count,
                          tsr_error *error) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < p->w->removed.count; i++) {
    const int rc = must_delete(p, coordinates, i, error);
    if (rc < 0) return rc;
    selection[kept] = (uint32_t)i;
    kept += rc > 0;
  }
  *count = kept;
  return TSR_OK;
}

static int make_deletes(preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_column coordinates[TSR_MAX_DIMENSIONS];
  uint32_t *selection;
  uint64_t count = 0;
  if (w->removed.count == 0) return TSR_OK;
  if (w->removed.count > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu rows are deleted at once: %u at most",
                     (unsigned long long)w->removed.count, UINT32_MAX);
  TSR_TRY(tsr__writer_open_current(w, &p->present, error));
  for (uint32_t d = 0; d < w->schema->dimension_count; d++)
    coordinates[d] = tsr__buffered_column(&w->schema->fields[d], &w->removed.coordinates[d], 0);
  TSR_TRY(TSR_ALLOC_RAW(&w->memory, w->removed.count, &selection, error));
  int rc = choose_deletes(p, coordinates, selection, &count, error);
  if (rc >= 0 && count > 0 && w->schema->allows_duplicates)
    rc = tsr__deletes_check(p->present, coordinates, (const int64_t *)(const void *)w->removed.rows.data, selection,
                            count, w->array->log.frozen, &w->memory, w->threads, error);
  if (rc >= 0 && count > 0)
    rc = tsr__deletes_make(w->schema, w->version, tsr__array_key(w->array), coordinates, selection, count, &w->memory,
                           &p->deletes, error);
  tsr__free(selection);
  return rc;
}

static uint64_t carried_count(const tsr_writer *w) {
  const tsr_commit_state *c = &w->commit;
  const tsr_commit_options *o = &c->options;
  uint64_t count = 0;
  for (uint64_t i = 0; o->carried && i < o->carried->count; i++)
    count += o->carried->commits[i].kind == TSR_COMMIT_DELETE;
  return count;
}

static bool is_list(const preparation *p) {
  const tsr_writer *w = p->w;
  return p->name_count > 1 || carried_count(w) > 0 ||
         (w->commit.options.listed && layout_has_commits_folder(w->version));
}

/* Checks whether the array's directory has the schema now. Lists the directory, because a store may have a cached copy
 * of the file itself. */
static int find_schema(tsr_store *store, const char *name, bool *exists, tsr_error *error) {
  tsr_listing entries = {.memory = store->memory};
  tsr_error one;
  const int rc = tsr__store_list_any(store, TSR_DIR_SCHEMA, &entries, &one);
  *exists = rc >= 0 && tsr__listing_has(&entries, name);
  tsr__listing_release(&entries);
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  if (error) *error = one;
  return rc;
}

/* Fails if the array was dropped or replaced: schemas are never removed, so if the schema of the cells is gone, the
 * array was dropped, or another array is at its path. In a file system, a missing directory makes later steps fail
 * anyway; in a bucket nothing would fail, and the other array would be damaged. So a bucket's listing counts only if it
 * is recent: a transaction has one from its beginning. Below format version 10 all schemas have the same name, so this
 * check cannot tell. */
static int check_schema(const tsr_writer *w, tsr_error *error) {
  char directory[TSR_CREATION_PATH], file[2 * TSR_CREATION_PATH];
  bool exists = false;
  tsr_store *store = w->array->store;
  const tsr_commit_list *listed = &w->array->log.listing->schemas;
  const bool is_fresh =
      !store->commits_in_turns || tsr__moment() - w->array->log.listing->moment.listed <= LISTING_FRESH_MS;
  if (!strcmp(w->schema->name, TSR_FILE_OLD_SCHEMA)) return TSR_OK;
  for (uint64_t i = 0; is_fresh && i < listed->count; i++)
    if (!strcmp(w->schema->name, listed->items[i].name)) return TSR_OK;
  if (w->array->log.unpublished_schema) {
    tsr__creation_path(w->array->log.unpublished_schema, directory);
    snprintf(file, sizeof file, "%s/%s", directory, w->schema->name);
    TSR_TRY(tsr__store_find(store, file, &exists, error));
  }
  if (!exists) TSR_TRY(find_schema(store, w->schema->name, &exists, error));
  if (exists) return TSR_OK;
  return tsr__fail(error, TSR_ERROR, "it has been dropped, or replaced by another array: open it again");
}

/* Chooses the commit's time, and with it the names of all fragments and conditions. Renames nothing. */
static int choose_time_and_names(const preparation *p, uint64_t last, tsr_error *error) {
  tsr_writer *w = p->w;
  const uint64_t fragments = tsr__commit_fragment_count(&w->commit);
  TSR_TRY(choose_time(w, p->cells_later, last, error));
  const uint64_t end = w->commit.time + p->cells_later;
  for (uint64_t i = 0; i < p->name_count; i++)
    TSR_TRY(make_name(w, i < fragments ? end : w->commit.time, end, p->names[i].text, error));
  return TSR_OK;
}

/* Chooses the path that publishes the commit. */
static int choose_path(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_commit_state *c = &w->commit;
  char name[128];
  if (is_list(p)) {
    TSR_TRY(make_name(w, c->time, c->time + p->cells_later, name, error));
    snprintf(c->path, sizeof c->path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_CONSOLIDATED, name);
  } else if (tsr__commit_fragment_count(c) == 0) {
    snprintf(c->path, sizeof c->path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_DELETE, p->names[0].text);
  } else {
    const char *only = p->names[0].text;
    if (layout_has_commits_folder(w->version))
      snprintf(c->path, sizeof c->path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_WRITE, only);
    else if (layout_has_commit_files(w->version))
      snprintf(c->path, sizeof c->path, "%.120s" TSR_SUFFIX_OLD_WRITE, only);
    else snprintf(c->path, sizeof c->path, "%.120s/" TSR_FILE_FRAGMENT_METADATA, only);
  }
  return TSR_OK;
}

/* Gives the fragments their chosen names. */
static int rename_fragments(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_commit_state *c = &w->commit;
  for (uint64_t i = 0; i < tsr__commit_fragment_count(c); i++) {
    tsr_commit_fragment *one = tsr__commit_fragment_at(c, i);
    const char *name = p->names[i].text;
    if (strcmp(one->name, name) == 0) continue;
    tsr_path from = tsr__writer_path(w, one->name), to = tsr__writer_path(w, name);
    TSR_TRY(tsr__store_rename_exclusive(w->array->store, from.text, to.text, error));
    memcpy(one->name, name, sizeof one->name);
  }
  if (!c->options.durable || !tsr__commit_fragment_count(c)) return TSR_OK;
  return tsr__store_sync_directory(w->array->store, layout_fragments_folder(w->version), error);
}

/* Takes a turn, and chooses names with a later time than the last commit's. Nobody waits for large uploads: they happen
 * before the turn, under names that are chosen again if their time turns out to be too early. */
static int take_turn(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_commit_state *c = &w->commit;
  uint64_t last = 0;
  if (tsr__store_unsent(w->array->store) > UPLOADED_IN_TURN) {
    TSR_TRY(choose_time_and_names(p, 0, error));
    TSR_TRY(rename_fragments(p, error));
    TSR_TRY(tsr__store_sync_directory(w->array->store, layout_fragments_folder(w->version), error));
    TSR_TRY(tsr__turn_take(&w->array->log, &c->turn, &last, error));
    return last < c->time ? TSR_OK : choose_time_and_names(p, last, error);
  }
  TSR_TRY(tsr__turn_take(&w->array->log, &c->turn, &last, error));
  return choose_time_and_names(p, last, error);
}

/* Lists the array, and chooses the names of all fragments and conditions, and of the commit. In a bucket, takes a
 * turn. */
static int name_commit(preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  const uint64_t fragments = tsr__commit_fragment_count(&w->commit);
  p->name_count = fragments + p->deletes.count;
  p->cells_later = w->schema->allows_duplicates && fragments > 0 && p->deletes.count > 0;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, p->name_count, &p->names, error));
  if (w->array->store->commits_in_turns) TSR_TRY(tsr__log_list(&w->array->log, true, false, error));
  else TSR_TRY(tsr__log_list_present(&w->array->log, error));
  TSR_TRY(tsr__staged_vacuums_finish(&w->array->log, error));
  TSR_TRY(check_schema(w, error));
  const bool turns = w->array->store->commits_in_turns && layout_has_commits_folder(w->version);
  if (turns && !w->commit.options.time) TSR_TRY(take_turn(p, error));
  else TSR_TRY(choose_time_and_names(p, 0, error));
  return choose_path(p, error);
}

/* Writes the marker, before anything gets a name that others could see. Below format version 12 the marker is in the
 * fragment's directory, which still has its provisional name. */
static int mark_pending(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_commit_state *c = &w->commit;
  const tsr_commit_options *o = &c->options;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  const char **names;
  if (!o->owner) return TSR_OK;
  tsr__prepared_paths(c->path, marker, staged);
  if (!layout_has_commits_folder(w->version))
    snprintf(marker, sizeof marker, "%.120s/" TSR_FILE_OLD_PENDING, tsr__commit_fragment_at(c, 0)->name);
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, p->name_count, &names, error));
  const char **fragments = names;
  for (uint64_t i = 0; i < tsr__commit_fragment_count(c); i++) fragments[i] = p->names[i].text;
  const tsr_prepared_marker pending = {.commit = c->path,
                                       .owner = o->owner,
                                       .file = o->owner_file ? o->owner_file : "",
                                       .fragment_count = tsr__commit_fragment_count(c),
                                       .fragments = fragments};
  tsr__commit_unlock(c);
  int rc = tsr__prepared_mark(w->array->store, marker, &pending, o->durable, w->threads, &c->lock, error);
  tsr__free(names);
  return rc;
}

/* Makes the content of a .del or .con file. */
static int encode_commit(const preparation *p, tsr_buffer *content, tsr_error *error) {
  const tsr_writer *w = p->w;
  const tsr_commit_state *c = &w->commit;
  const tsr_commit_options *o = &c->options;
  const uint64_t fragments = tsr__commit_fragment_count(c);
  const uint64_t *ends = (const uint64_t *)(const void *)p->deletes.ends.data;
  if (!is_list(p)) return tsr__buffer_append(content, p->deletes.bytes.data, p->deletes.bytes.size, error);
  for (uint64_t i = 0; i < fragments; i++) TSR_TRY(tsr__commits_encode_write(p->names[i].text, content, error));
  for (uint64_t i = 0; i < p->deletes.count; i++) {
    const uint64_t from = i ? ends[i - 1] : 0;
    TSR_TRY(tsr__commits_encode_delete(p->names[fragments + i].text, p->deletes.bytes.data + from, ends[i] - from,
                                       content, error));
  }
  for (uint64_t i = 0; o->carried && i < o->carried->count; i++) {
    const tsr_commit *one = &o->carried->commits[i];
    if (one->kind == TSR_COMMIT_DELETE)
      TSR_TRY(tsr__commits_encode_delete(one->name, one->bytes, one->size, content, error));
  }
  return TSR_OK;
}

static int write_staged(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_buffer content = {.memory = &w->memory};
  tsr_file *file = NULL;
  tsr__prepared_paths(w->commit.path, marker, staged);
  if (!*staged || !layout_has_commits_folder(w->version)) return TSR_OK;
  int rc = encode_commit(p, &content, error);
  if (rc >= 0) rc = tsr__provisional_folder(w, TSR_DIR_COMMITS, error);
  if (rc >= 0) rc = tsr__store_create_exclusive(w->array->store, staged, &file, error);
  if (rc >= 0) rc = tsr__store_append(file, content.data, content.size, error);
  if (rc >= 0 && w->commit.options.durable) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  tsr__buffer_release(&content);
  return rc;
}

/* Renames the fragments that stay back to provisional names, before the marker and the commit that know them by their
 * final names are removed: these names contain the time of a commit that failed. */
static int restore_provisional_names(tsr_writer *w, tsr_error *error) {
  for (uint64_t i = 0; i < tsr__commit_fragment_count(&w->commit); i++) {
    tsr_commit_fragment *one = tsr__commit_fragment_at(&w->commit, i);
    char name[128];
    if (*one->name == '.') continue;
    TSR_TRY(tsr__provisional_name(name, error));
    tsr_path from = tsr__writer_path(w, one->name), to = tsr__writer_path(w, name);
    TSR_TRY(tsr__store_rename_exclusive(w->array->store, from.text, to.text, error));
    memcpy(one->name, name, sizeof one->name);
    if (layout_has_commits_folder(w->version)) continue;
    tsr_path marker = tsr__path_of(to.text, TSR_FILE_OLD_PENDING, "");
    TSR_TRY(tsr__prepared_unmark(w->array->store, marker.text, error)); /* it was moved with the fragment */
  }
  return TSR_OK;
}

/* If a commit failed and is retried, its sparse fragment is reused. Delete conditions are made again, since others may
 * have written meanwhile; so are the boxes of dense cells, which may repeat cells of others. */
static int prepare_all(preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_commit_state *c = &w->commit;
  const bool reuse = c->stage == TSR_COMMIT_REUSABLE && !w->schema->dense;
  if (!reuse) TSR_TRY(tsr__commit_fragments_remove(w, c->boxes, error));
  TSR_TRY(restore_provisional_names(w, error));
  TSR_TRY(withdraw_staged(w, error)); /* removes the marker, after everything that it names */
  c->stage = TSR_COMMIT_COLLECTING;
  if (!reuse) TSR_TRY(tsr__commit_fragments_write(w, error));
  TSR_TRY(make_deletes(p, error));
  if (tsr__commit_fragment_count(c) + p->deletes.count + carried_count(w) > 0) {
    TSR_TRY(name_commit(p, error));
    TSR_TRY(write_staged(p, error)); /* becomes durable together with the marker, which syncs the directory */
    TSR_TRY(mark_pending(p, error));
    TSR_TRY(rename_fragments(p, error));
  }
  c->stage = TSR_COMMIT_PREPARED;
  return TSR_OK;
}

static int prepare(tsr_writer *w, tsr_error *error) {
  TSR_TRY(tsr__writer_check_open(w, error));
  if (w->commit.stage == TSR_COMMIT_PREPARED) return TSR_OK;
  preparation p = {.w = w};
  tsr_work work;
  p.deletes.bytes.memory = p.deletes.ends.memory = &w->memory;
  tsr_work_begin(w->array->environment, &work, "commit", w->array->path, w->cells.count);
  tsr__commit_budget_lend(w, true);
  int rc = prepare_all(&p, error);
  tsr_work_end(w->array->environment, &work);
  tsr__deletes_release(&p.deletes);
  tsr__free(p.names);
  tsr__index_release(w); /* it holds a reference to the current state */
  tsr_snapshot_close(p.present);
  tsr__commit_budget_lend(w, false);
  return rc;
}

int tsr_writer_prepare(tsr_writer *writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__writer_wrap(writer, prepare(writer, error), error);
}

uint64_t tsr_writer_fragment_count(const tsr_writer *writer) { return tsr__commit_fragment_count(&writer->commit); }
const char *tsr_writer_fragment(const tsr_writer *writer, uint64_t index) {
  return tsr__commit_fragment_at(&writer->commit, index)->name;
}
uint64_t tsr_writer_time(const tsr_writer *writer) { return writer->commit.time; }
const char *tsr_writer_commit(const tsr_writer *writer) { return writer->commit.path; }

/* ---- Publish ----------------------------------------------------------------------------------------------------- */

/* Returns 1 if the commit is published. Without locks, another process of the same owner may have published it, and
 * others may have merged and vacuumed it since. `gone`: the prepared files do not exist, so a merged fragment that
 * spans the commit counts as containing its cells. */
static int was_published(tsr_writer *w, bool gone, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  tsr_published published;
  const char **names;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, tsr__commit_fragment_count(c) + 1, &names, error));
  const char **fragments = names;
  for (uint64_t i = 0; i < tsr__commit_fragment_count(c); i++) fragments[i] = tsr__commit_fragment_at(c, i)->name;
  const tsr_prepared_marker pending = {
      .commit = c->path, .fragment_count = tsr__commit_fragment_count(c), .fragments = fragments};
  int rc = tsr__published_open(&w->array->log, &published, error);
  if (rc >= 0) {
    rc = tsr__published_has(&published, &pending, error);
    if (rc == 0 && gone) rc = tsr__listing_shows_published(w->array->log.listing, &pending);
    tsr__published_release(&published);
  }
  tsr__free(names);
  return rc;
}

/* Returns 1 if another process has published the commit, which this writer has not locked. Whoever publishes it removes
 * its marker before anything can merge it: while the marker exists, the answer is 0. */
static int published_by_another(tsr_writer *w, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  bool exists = false;
  if (tsr__prepared_paths(w->commit.path, marker, staged))
    TSR_TRY(tsr__store_find(w->array->store, marker, &exists, error));
  return exists ? 0 : was_published(w, false, error);
}

/* Creates the file that publishes the commit. Returns 0 if the files to publish are gone. A store may cache small files
 * that it has written, so a later attempt lists the fragments. */
static int create_commit_file(tsr_writer *w, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  tsr_error one;
  for (uint64_t i = 0; c->refused && i < tsr__commit_fragment_count(c); i++) {
    tsr_listing files = {0};
    const int rc =
        tsr__store_list(w->array->store, tsr__writer_path(w, tsr__commit_fragment_at(c, i)->name).text, &files, &one);
    tsr__listing_release(&files);
    if (rc == TSR_NOT_FOUND) return 0;
    if (rc < 0) return *error = one, rc;
  }
  const int rc = tsr__prepared_publish(w->array->store, c->path, c->options.durable, error);
  c->refused = rc < 0;
  return rc;
}

/* There are no files to publish. Fails with TSR_NOT_FOUND, because the commit is lost, unless it was published: then
 * its file exists, or it was merged and vacuumed since. */
static int check_lost(tsr_writer *w, tsr_error *error) {
  bool exists;
  TSR_TRY(tsr__store_find(w->array->store, w->commit.path, &exists, error));
  if (exists) return TSR_OK;
  const int published = w->commit.options.owner ? was_published(w, true, error) : 0;
  if (published != 0) return published < 0 ? published : TSR_OK;
  (void)tsr__prepared_fail_gone(w->commit.path, error);
  return error->code = TSR_NOT_FOUND; /* no other failure has this code: by it the caller recognizes the loss */
}

/* Ends what a published commit has held: its turn, its marker and the lock on the marker. */
static int end_published(tsr_writer *w, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr__turn_end(&c->turn);
  tsr__prepared_paths(c->path, marker, staged);
  if (c->options.owner) TSR_TRY(tsr__prepared_unmark(w->array->store, marker, error));
  tsr__commit_unlock(c);
  memcpy(w->array->log.own_commit, c->path, sizeof c->path);
  w->array->log.own_commit_unlisted = w->array->store->commits_in_turns;
  return TSR_OK;
}

static int publish(tsr_writer *w, tsr_error *error) {
  tsr_commit_state *c = &w->commit;
  const tsr_commit_options *o = &c->options;
  if (c->stage == TSR_COMMIT_PUBLISHED) return TSR_OK;
  if (c->stage != TSR_COMMIT_PREPARED) return tsr__fail(error, TSR_ERROR, "the commit was not prepared");
  if (!*c->path) { /* there is nothing to commit */
    c->stage = TSR_COMMIT_PUBLISHED;
    return TSR_OK;
  }
  if (o->owner_file && o->durable) TSR_TRY(tsr__prepared_sync_owner(&w->memory, o->owner_file, error));
  const int before = o->owner && !c->lock ? published_by_another(w, error) : 0;
  if (before < 0) return before;
  const int rc = before ? 1 : create_commit_file(w, error);
  if (rc < 0 && !tsr__store_exists(w->array->store, c->path)) return rc;
  if (rc == 0) TSR_TRY(check_lost(w, error));
  c->stage = TSR_COMMIT_PUBLISHED;
  tsr__commit_count(w, false);
  if (rc < 0) return rc; /* the commit is visible, but may not last, or others may miss its deletes */
  return end_published(w, error);
}

/* A savepoint may undo changes to an array in the database, so nothing of such an array can be reused. */
void tsr_writer_reopen(tsr_writer *writer) {
  tsr_commit_state *c = &writer->commit;
  if (c->stage == TSR_COMMIT_PUBLISHED) c->stage = TSR_COMMIT_REOPENED;
  else if (c->stage == TSR_COMMIT_PREPARED)
    c->stage = writer->array->store->is_one_file ? TSR_COMMIT_COLLECTING : TSR_COMMIT_REUSABLE;
}

int tsr_writer_publish(tsr_writer *writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__writer_wrap(writer, publish(writer, error), error);
}
