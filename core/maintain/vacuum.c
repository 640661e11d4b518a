/* vacuum.c: removes files that consolidation has replaced, and files that unfinished writes have left behind.
 *
 * A crash at any point must neither hide cells that a reader would see nor bring back cells that it would not. A vacuum
 * removes:
 *  - Fragments that a .vac file names (sources), if the merged fragment of that .vac is committed or was merged itself.
 *    The order is: the commits of all sources; a sync; .con files that other processes have staged
 *    (consolidate_files.c); the fragments; a sync; the .vac files. All sources of all .vac files go together.
 *    If cells do not store their times, readers of times within a merged range see the sources until then, and must see
 *    all of them or none. So the commit files of the sources are first joined into one .con. Removing that .con, or an
 *    .ign file that cancels entries of .con files, then uncommits all sources at once. Below format version 12 there is
 *    no .con: there the sources go one by one, the newest of one .vac first. If a source of one .vac is the merged
 *    fragment of another, the sources of the other go first.
 *  - .con files that are cut, if no reader loses anything by that (unfinished.c).
 *  - Commits: a .wrt that a .con has; a .con if a later one has its active entries; an .ign if no .con has an entry
 *    that it cancels. The .del file of a delete stays: TileDB opens it when it consolidates commits.
 *  - Debris: fragment directories and staged files that are not committed, that no marker of a prepared commit names,
 *    and whose files are all a day old. The same for uploads into a bucket.
 *
 * A grace keeps what was replaced lately. Replaced files are as old as the file that replaces them: the .vac of merged
 * fragments and metadata, the .con that has the commits, the last .meta. A bucket dates these when they are published.
 * In a directory or a database they have the times at which they were written, just before they get their names.
 *
 * vacuum_fragments.c removes fragments and debris, vacuum_commits.c commit files, and this file the footers and the
 * metadata. vacuum_files.c reads the .vac files for both fragments and metadata.
 */
#include "base/arithmetic.h"
#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/commit_file.h"
#include "array/environment.h"
#include "array/group_open.h"
#include "array/listing.h"
#include "array/progress.h"
#include "maintain/label_arrays.h"
#include "maintain/vacuum_commits.h"
#include "maintain/vacuum_files.h"
#include "maintain/vacuum_fragments.h"

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

/* Removes the files that a .vac of __meta names, if the merged file exists. */
static int vacuum_metadata_of(tsr_vacuum *v, const tsr_listing *entries, tsr_vacuum_file *file, tsr_error *error) {
  const int recent = tsr__vacuum_is_recent(v, file->path, error);
  file->stays = recent > 0;
  if (recent != 0 || !tsr__listing_has(entries, file->name)) return TSR_MIN(recent, TSR_OK);
  /* The newest first: if the vacuum is cut off, reads at earlier times still find all files up to that time. */
  for (uint64_t n = file->names.count; n-- > 0;) {
    tsr_work_done(v->environment, 1);
    TSR_TRY(tsr__cancelled(&v->environment->memory, error));
    if (!tsr__vacuum_is_source(file, file->names.names[n])) continue;
    tsr_path p = tsr__path_of(TSR_DIR_META, file->names.names[n], "");
    int found = tsr__vacuum_remove(v, p.text, error);
    if (found < 0) return found;
    v->removed += (uint64_t)found;
  }
  return TSR_OK;
}

/* Removes the .vac files of __meta, after the removal of the files that they name is durable. */
static int remove_metadata_vacuums(tsr_vacuum *v, const tsr_listing *entries, const tsr_buffer *files,
                                   tsr_error *error) {
  uint64_t count;
  const tsr_vacuum_file *all = tsr__vacuum_files_of(files, &count);
  if (count) TSR_TRY(tsr__vacuum_sync(v, TSR_DIR_META, error));
  for (uint64_t i = 0; i < count; i++)
    if (all[i].done && !all[i].stays && tsr__listing_has(entries, all[i].name))
      TSR_TRY(tsr__vacuum_file_remove(v, &all[i], error));
  return tsr__vacuum_sync(v, TSR_DIR_META, error);
}

static int vacuum_metadata(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_buffer files = {.memory = v->store->memory};
  tsr_map waiting = {.memory = v->store->memory};
  tsr_vacuum_file *file;
  int rc = tsr__vacuum_list(v, TSR_DIR_META, &entries, error);
  if (rc >= 0) rc = tsr__vacuum_files_read(v, TSR_DIR_META, &entries, &files, error);
  if (rc >= 0) rc = tsr__vacuum_files_map(&files, &waiting, error);
  while (rc >= 0 && (file = tsr__vacuum_files_next(&files, &waiting)))
    rc = vacuum_metadata_of(v, &entries, file, error);
  if (rc >= 0) rc = remove_metadata_vacuums(v, &entries, &files, error);
  tsr__map_release(&waiting);
  tsr__buffer_release(&files);
  tsr__listing_release(&entries);
  return rc;
}

/* ---- Footers ----------------------------------------------------------------------------------------------------- */

/* Returns 1 if a .meta is damaged: its writer died, or the disk failed. A file that is being written is not damaged. */
static int is_damaged(tsr_vacuum *v, const tsr_committed *item, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_error one;
  const int rc = tsr__array_commit_file(v->array, item->path, &file, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_BUSY) return 0;
  if (rc < 0) return *error = one, rc;
  return file->damaged;
}

/* Removes all .meta files that are damaged, and of the others all but those with the greatest end time. */
static int vacuum_footers(tsr_vacuum *v, tsr_error *error) {
  TSR_TRY(tsr__vacuum_list_array(v, error));
  const tsr_commit_list *footers = &v->array->listing->footers;
  const tsr_committed *last = NULL;
  tsr__work_more(v->environment, footers->count);
  for (uint64_t i = 0; i < footers->count; i++) {
    const tsr_committed *item = &footers->items[i];
    tsr_work_done(v->environment, 1);
    const int damaged = is_damaged(v, item, error);
    if (damaged < 0) return damaged;
    if (!damaged && !last) last = item;
    if (!damaged && item->parsed.end == last->parsed.end) continue;
    const int recent = damaged ? 0 : tsr__vacuum_is_recent(v, last->path, error);
    if (recent < 0) return recent;
    if (recent) continue;
    int found = tsr__vacuum_remove(v, item->path, error);
    if (found < 0) return found;
    v->removed += (uint64_t)found;
  }
  return TSR_OK;
}

/* ---- Entry points ------------------------------------------------------------------------------------------------ */

/* Fails with TSR_PERM if a directory of the array is a symbolic link: the files behind it may belong to another array,
 * and would look like debris. */
static int check_links(const tsr_vacuum *v, tsr_error *error) {
  static const char *const directories[] = {TSR_DIR_FRAGMENTS, TSR_DIR_COMMITS, TSR_DIR_META, TSR_DIR_FOOTERS};
  for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++)
    TSR_TRY(tsr__store_own(v->store, directories[i], error));
  return TSR_OK;
}

static int vacuum_run(tsr_vacuum *v, tsr_maintenance what, const char *name, tsr_error *error) {
  TSR_TRY(check_links(v, error));
  static int (*const parts[])(tsr_vacuum *, tsr_error *) = {tsr__vacuum_fragments, tsr__vacuum_commits, vacuum_footers,
                                                            vacuum_metadata};
  int rc = TSR_OK;
  tsr_work work;
  tsr_work_begin(v->environment, &work, "vacuum", name, 0);
  for (unsigned i = 0; i < 4 && rc >= 0; i++) {
    if (!(what & 1u << i)) continue;
    tsr__arena_init(&v->arena, v->store->memory);
    rc = parts[i](v, error);
    tsr__arena_release(&v->arena);
  }
  if (rc >= 0 && what & ~(tsr_maintenance)TSR_MAINTAIN_METADATA) rc = tsr__array_list(v->array, true, true, error);
  tsr_work_end(v->environment, &work);
  return rc;
}

typedef struct vacuum_call { /* what is done to the array, and then to the arrays of its labels */
  tsr_maintenance what;
  const tsr_vacuum_options *options;
  uint64_t removed;
} vacuum_call;

static int vacuum_array(void *argument, tsr_array *array, tsr_error *error) {
  vacuum_call *call = argument;
  tsr_vacuum v = {.environment = array->environment, .store = array->store, .array = array};
  if (call->options) v.grace = call->options->grace;
  if (vacuum_run(&v, call->what, array->path, error) < 0) return tsr__wrap(error, "array %s", array->path);
  call->removed += v.removed;
  return TSR_OK;
}

int tsr_array_vacuum(tsr_array *array, tsr_maintenance what, const tsr_vacuum_options *options, uint64_t *removed,
                     tsr_error *error) {
  TSR_OWN_ERROR(error);
  vacuum_call call = {.what = what, .options = options};
  TSR_TRY(vacuum_array(&call, array, error));
  TSR_TRY(tsr__label_arrays_each(array, vacuum_array, &call, error));
  *removed = call.removed;
  return TSR_OK;
}

int tsr_group_vacuum(tsr_group *group, const tsr_vacuum_options *options, uint64_t *removed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_vacuum v = {.environment = group->environment, .store = group->store};
  if (options) v.grace = options->grace;
  if (vacuum_run(&v, TSR_MAINTAIN_METADATA, v.store->name, error) < 0)
    return tsr__wrap(error, "group %s", v.store->name);
  *removed = v.removed;
  return TSR_OK;
}
