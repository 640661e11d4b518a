/* merge_conflict.c: concurrent merges, by several processes, of some of the same fragments.
 *
 * A merge that has staged ".NAME" and ".NAME.vac.new" (replace.c, steps 1 and 2) is a rival of every other merge with a
 * source in common. At most one of them may commit, and one of them should. So:
 *
 *  - To cancel a merge is to remove its ".NAME", which its commit renames. One of the two finds the file gone.
 *  - If the store cannot rename atomically, a merge and its rivals first create ".NAME.decided", exclusively: the merge
 *    writes "commit" into it, a rival "cancel". Whoever comes second gives way. The merge removes this file last. So a
 *    rival that creates it later finds that ".NAME" is gone, and removes its own file again.
 *  - The merge with the smaller NAME has priority: it cancels the others at once. A merge with a greater NAME waits
 *    until the first has ended, at most RIVAL_PATIENCE. Then it presumes the first dead and cancels it, too. If the
 *    first is alive after all, it gives way when it gets to its commit.
 *  - A cancelled merge cancels nobody, because whoever cancelled it is alive. So a merge checks for its own ".NAME"
 *    before it cancels another one. Two rivals can thus cancel each other only if both do so at the same moment.
 *  - A merge that died between its decision and its commit is committed by the next consolidation
 *    (tsr__merge_conflict_finish).
 */
#include "maintain/maintain.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "store/store.h"
#include "format/commits.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"

#define VACUUM_MAX     (UINT64_C(1) << 30) /* bytes of a vacuum file */
#define RIVAL_PATIENCE 400u /* ms from the staged files of a merge to its commit, if its process is alive */
#define RIVAL_REQUESTS 5000u /* the same, if each step is a request */
#define RIVAL_PAUSE    20u /* ms between the first two checks; each pause is 1.5 times the last */
#define STEM_DIGITS    24 /* digits of the UUID that all fragments of a merge share */
#define DECIDED_COMMIT "commit\n"
#define DECIDED_CANCEL "cancel\n"

tsr_path tsr__merge_commit_path(uint32_t version, const char *prefix, const char *name, const char *suffix) {
  tsr_path p;
  snprintf(p.text, sizeof p.text, "%s%s%.200s%s", layout_has_commits_folder(version) ? TSR_DIR_COMMITS "/" : "", prefix,
           name, suffix);
  return p;
}

tsr_path tsr__merge_fragment_path(uint32_t version, const char *name) {
  tsr_path p;
  snprintf(p.text, sizeof p.text, "%s%.200s", layout_has_commits_folder(version) ? TSR_DIR_FRAGMENTS "/" : "", name);
  return p;
}

bool tsr__merge_stem(const char *name, char stem[128]) {
  tsr_name parsed;
  if (strlen(name) >= 128 || !tsr__name_parse(name, strlen(name), &parsed) || strlen(parsed.uuid) != 32) return false;
  parsed.uuid[STEM_DIGITS] = 0;
  tsr__name_print(&parsed, stem);
  return true;
}

/* ---- Decisions --------------------------------------------------------------------------------------------------- */

typedef enum merge_decision { UNDECIDED, COMMITS, CANCELLED } merge_decision;

/* Reads the decision about a merge. A file that is gone, incomplete or has another content decides nothing. */
static int read_decision(tsr_store *store, const char *path, tsr_memory *memory, merge_decision *decided,
                         tsr_error *error) {
  tsr_buffer text = {.memory = memory};
  tsr_error one;
  const int rc = tsr__store_read_all(store, path, sizeof DECIDED_COMMIT, &text, &one);
  *decided = UNDECIDED;
  if (rc >= 0 && text.size == strlen(DECIDED_COMMIT)) {
    if (memcmp(text.data, DECIDED_COMMIT, text.size) == 0) *decided = COMMITS;
    if (memcmp(text.data, DECIDED_CANCEL, text.size) == 0) *decided = CANCELLED;
  }
  tsr__buffer_release(&text);
  if (rc < 0 && rc != TSR_NOT_FOUND && rc != TSR_TOOBIG) return *error = one, rc;
  return TSR_OK;
}

/* Records a decision about a merge. Returns 1, or 0 if there is one already. */
static int write_verdict(tsr_store *store, const char *path, const char *text, tsr_error *error) {
  tsr_error one;
  const int rc = tsr__store_put_new(store, path, text, strlen(text), true, &one);
  if (rc == TSR_EXISTS) return 0;
  if (rc < 0) return *error = one, rc;
  return 1;
}

int tsr__merge_conflict_fail(tsr_error *error) {
  return tsr__fail(error, TSR_ABORT, "another consolidation merges the same fragments at the same time");
}

int tsr__merge_conflict_decide(tsr_replacement *r, tsr_error *error) {
  if (!r->array->store->renames_in_steps) return TSR_OK;
  const tsr_path p = tsr__merge_commit_path(r->version, ".", r->names[0], TSR_SUFFIX_DECIDED);
  const int rc = write_verdict(r->array->store, p.text, DECIDED_COMMIT, error);
  /* Without an answer the file may exist. It is removed in any case, after ".NAME". */
  if (rc != 0) memcpy(r->decided, p.text, strlen(p.text) + 1);
  return rc == 0 ? tsr__merge_conflict_fail(error) : TSR_MIN(rc, TSR_OK);
}

/* ---- Cancelling -------------------------------------------------------------------------------------------------- */

/* Removes the fragments of a merge and its staged vacuum file. The process of that merge may be removing them, too. */
static int remove_merge(const tsr_replacement *r, const char *name, tsr_error *error) {
  tsr_store *store = r->array->store;
  tsr_listing entries = {.memory = r->memory};
  char stem[128], other[128];
  tsr_error unseen;
  if (!tsr__merge_stem(name, stem)) return TSR_OK;
  const int rc = tsr__store_list(store, layout_fragments_folder(r->version), &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    if (!tsr__merge_stem(entries.entries[i].name, other) || strcmp(stem, other) != 0) continue;
    const tsr_path p = tsr__merge_fragment_path(r->version, entries.entries[i].name);
    (void)tsr__store_remove_tree(store, p.text, &unseen);
  }
  tsr__listing_release(&entries);
  const tsr_path vacuum = tsr__merge_commit_path(r->version, ".", name, TSR_SUFFIX_STAGED_VACUUM),
                 exchanged = tsr__merge_commit_path(r->version, "", name, TSR_SUFFIX_EXCHANGED);
  if (rc >= 0) (void)tsr__store_remove(store, vacuum.text, &unseen);
  if (rc >= 0) (void)tsr__store_remove(store, exchanged.text, &unseen);
  return TSR_MIN(rc, TSR_OK);
}

/* Fails if a rival has cancelled this merge. */
static int give_way_if_cancelled(const tsr_replacement *r, tsr_error *error) {
  bool exists;
  TSR_TRY(tsr__store_find(r->array->store, r->staged, &exists, error));
  return exists ? TSR_OK : tsr__merge_conflict_fail(error);
}

/* Cancels another merge: removes its staged commit, then its fragments, then its staged vacuum file. Without a staged
 * commit the merge is cancelled already, or committed; then this function only finishes it. */
static int cancel_merge(const tsr_replacement *r, const char *name, tsr_error *error) {
  tsr_store *store = r->array->store;
  const tsr_path commit = tsr__merge_commit_path(r->version, ".", name, ""),
                 decided = tsr__merge_commit_path(r->version, ".", name, TSR_SUFFIX_DECIDED);
  tsr_error one;
  int mine = 1;
  bool exists = true;
  if (store->renames_in_steps) {
    merge_decision v = CANCELLED;
    TSR_TRY(mine = write_verdict(store, decided.text, DECIDED_CANCEL, error));
    if (!mine) TSR_TRY(read_decision(store, decided.text, r->memory, &v, error));
    if (v == COMMITS) return tsr__merge_conflict_fail(error);
    if (v == UNDECIDED) return TSR_OK; /* it has ended meanwhile */
    TSR_TRY(tsr__store_find(store, commit.text, &exists, error));
  }
  const int rc = exists ? tsr__store_remove(store, commit.text, &one) : TSR_NOT_FOUND;
  if (rc == TSR_NOT_FOUND) { /* it may have committed but not taken effect yet: then complete it */
    TSR_TRY(tsr__log_list(&r->array->log, true, true, error));
    TSR_TRY(tsr__staged_vacuums_finish(&r->array->log, error));
  }
  if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  if (rc >= 0) TSR_TRY(remove_merge(r, name, error));
  if (store->renames_in_steps && mine) (void)tsr__store_remove(store, decided.text, &one);
  return TSR_OK;
}

static uint64_t decision_timeout(const tsr_store *store) {
  return store->renames_in_steps ? RIVAL_REQUESTS : RIVAL_PATIENCE;
}

/* Waits until a merge with priority has ended or is decided, or until it must be presumed dead. */
static int wait_for_merge(const tsr_replacement *r, const char *name, const char *vacuum, tsr_error *error) {
  tsr_store *store = r->array->store;
  const uint64_t begun = tsr__moment();
  uint64_t modified, pause = RIVAL_PAUSE;
  tsr_error unseen;
  if (tsr__store_modified(store, vacuum, &modified, &unseen) >= 0 &&
      tsr__add_sat(modified, decision_timeout(store)) <= tsr__store_now(store))
    return TSR_OK;
  for (bool exists = true; exists && tsr__moment() - begun < decision_timeout(store); pause += pause / 2) {
    const struct timespec time = {(time_t)(pause / 1000), (long)(pause % 1000) * 1000000};
    merge_decision v = UNDECIDED;
    TSR_TRY(tsr__cancelled(&r->array->environment->memory, error));
    nanosleep(&time, NULL);
    TSR_TRY(tsr__store_find(store, vacuum, &exists, error));
    if (exists && store->renames_in_steps) {
      const tsr_path p = tsr__merge_commit_path(r->version, ".", name, TSR_SUFFIX_DECIDED);
      TSR_TRY(read_decision(store, p.text, r->memory, &v, error));
    }
    if (v != UNDECIDED) break;
  }
  return TSR_OK;
}

static bool has_source(const tsr_replacement *r, const tsr_names *names) {
  for (uint64_t n = 0; n < names->count; n++)
    for (uint32_t s = 0; s < r->source_count; s++)
      if (strcmp(names->names[n], r->sources[s]->name) == 0) return true;
  return false;
}

/* Reads the sources of another merge from its staged vacuum file. An incomplete file names none: its merge has yet to
 * list the array, and will find this one. *ended: the file is gone, since the merge has ended, with a commit or
 * without. */
static int read_sources(tsr_store *store, const char *file, tsr_arena *arena, tsr_names *names, bool *ended,
                        tsr_error *error) {
  tsr_buffer bytes = {.memory = arena->memory};
  tsr_error unseen;
  *names = (tsr_names){0};
  int rc = tsr__store_read_all(store, file, VACUUM_MAX, &bytes, error);
  tsr_input in = tsr__input(bytes.data, bytes.size);
  *ended = rc == TSR_NOT_FOUND;
  if (*ended) rc = TSR_OK;
  else if (rc >= 0 && tsr__names_decode(&in, arena, names, &unseen) < 0) names->count = 0;
  tsr__buffer_release(&bytes);
  return rc;
}

/* Cancels another merge, `name`, for the sake of each of these merges with a source in common. Sets *outdated if the
 * merge may have committed since the array was listed. */
static int cancel_rival(const tsr_merges *merges, const char *name, bool *outdated, tsr_error *error) {
  const tsr_replacement *first = merges->items[0];
  const tsr_path p = tsr__merge_commit_path(first->version, ".", name, TSR_SUFFIX_STAGED_VACUUM);
  tsr_names sources;
  tsr_arena arena;
  bool ended = false;
  tsr__arena_init(&arena, first->memory);
  int rc = read_sources(first->array->store, p.text, &arena, &sources, &ended, error);
  if (ended) *outdated = true;
  for (uint32_t i = 0; i < merges->count && rc >= 0; i++) {
    const tsr_replacement *r = merges->items[i];
    if (!has_source(r, &sources)) continue;
    *outdated = true;
    if (strcmp(name, r->names[0]) < 0) rc = wait_for_merge(r, name, p.text, error);
    if (rc >= 0) rc = give_way_if_cancelled(r, error);
    if (rc >= 0) rc = cancel_merge(r, name, error);
  }
  tsr__arena_release(&arena);
  return rc;
}

/* Appends the name of each merge of others that is staged and not committed, TSR_STAGED_NAME bytes each. */
static int add_other(const tsr_merges *merges, const char *entry, tsr_buffer *names, tsr_error *error) {
  char name[TSR_STAGED_NAME] = "";
  if (!tsr__staged_vacuum(entry, name) || tsr__map_get(&merges->items[0]->array->log.listing->names, name))
    return TSR_OK;
  for (uint32_t i = 0; i < merges->count; i++)
    if (strcmp(name, merges->items[i]->names[0]) == 0) return TSR_OK;
  return tsr__buffer_append(names, name, sizeof name, error);
}

/* Finds the merges of others: in the array's listing or, below format version 12, in a listing of its directory. */
static int find_others(const tsr_merges *merges, tsr_buffer *names, tsr_error *error) {
  const tsr_replacement *first = merges->items[0];
  const tsr_listing *commits = &first->array->log.listing->commits;
  tsr_listing root = {.memory = first->memory};
  int rc = TSR_OK;
  if (!layout_has_commits_folder(first->version)) rc = tsr__store_list(first->array->store, "", &root, error);
  for (uint64_t i = 0; i < root.count && rc >= 0; i++) rc = add_other(merges, root.entries[i].name, names, error);
  for (uint64_t i = 0; i < commits->count && layout_has_commits_folder(first->version) && rc >= 0; i++)
    rc = add_other(merges, commits->entries[i].name, names, error);
  tsr__listing_release(&root);
  return rc;
}

int tsr__merge_conflict_cancel(const tsr_merges *merges, bool *outdated, tsr_error *error) {
  tsr_buffer names = {.memory = merges->items[0]->memory}; /* copied: to cancel a merge may list the array again */
  *outdated = false;
  int rc = find_others(merges, &names, error);
  for (uint64_t at = 0; at < names.size && rc >= 0; at += TSR_STAGED_NAME)
    rc = cancel_rival(merges, (const char *)names.data + at, outdated, error);
  tsr__buffer_release(&names);
  return rc;
}

/* ---- Merges that died -------------------------------------------------------------------------------------------- */

/* Commits a merge that was decided. Its own process may be alive and do the same. */
static int finish_commit(tsr_array *array, tsr_memory *memory, uint32_t version, const char *name, tsr_error *error) {
  tsr_store *store = array->store;
  tsr_buffer lines = {.memory = memory};
  const tsr_path staged = tsr__merge_commit_path(version, ".", name, "");
  tsr_error one;
  bool exists;
  int rc = tsr__store_read_all(store, staged.text, VACUUM_MAX, &lines, &one);
  const char *suffix = !layout_has_commits_folder(version) ? TSR_SUFFIX_OLD_WRITE
                       : lines.size                        ? TSR_SUFFIX_CONSOLIDATED
                                                           : TSR_SUFFIX_WRITE;
  tsr__buffer_release(&lines);
  const tsr_path to = tsr__merge_commit_path(version, "", name, suffix);
  if (rc >= 0) rc = tsr__store_rename_exclusive(store, staged.text, to.text, &one);
  if (rc == TSR_EXISTS) rc = tsr__store_remove(store, staged.text, &one);
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* its own process has renamed it */
  if (rc < 0) return *error = one, rc;
  /* If that process has continued since, and the merge was itself merged and vacuumed, nobody must commit it again. */
  const tsr_path fragment = tsr__merge_fragment_path(version, name);
  TSR_TRY(tsr__directory_find(store, fragment.text, &exists, error));
  if (!exists) return tsr__store_remove(store, to.text, error);
  const tsr_path from = tsr__merge_commit_path(version, ".", name, TSR_SUFFIX_STAGED_VACUUM),
                 vacuum = tsr__merge_commit_path(version, "", name, TSR_SUFFIX_VACUUM);
  rc = tsr__store_rename_exclusive(store, from.text, vacuum.text, &one);
  if (rc < 0 && rc != TSR_NOT_FOUND && rc != TSR_EXISTS) return *error = one, rc;
  return TSR_OK;
}

int tsr__merge_conflict_finish(tsr_array *array, tsr_memory *memory, uint32_t version, tsr_error *error) {
  tsr_store *store = array->store;
  tsr_listing entries = {.memory = memory};
  if (!store->renames_in_steps) return TSR_OK;
  int rc = tsr__store_list(store, layout_commits_folder(version), &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    char *name = entries.entries[i].name;
    uint64_t size;
    merge_decision v;
    tsr_error unseen;
    if (*name != '.' || !tsr__name_suffix(name, TSR_SUFFIX_DECIDED, &size)) continue;
    const tsr_path p = tsr__merge_commit_path(version, "", name, "");
    name[size] = 0;
    rc = read_decision(store, p.text, memory, &v, error);
    if (rc < 0 || v != COMMITS) continue;
    rc = finish_commit(array, memory, version, name + 1, error);
    if (rc >= 0) (void)tsr__store_remove(store, p.text, &unseen);
  }
  tsr__listing_release(&entries);
  return TSR_MIN(rc, TSR_OK);
}
