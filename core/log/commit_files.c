/* commit_files.c: what the files of an array say about commits.
 *
 * TileDB writes .con, .ign, .vac, .meta and .del files in place, and removes files while others read. So each section
 * has to tell an unfinished file or operation from damage:
 *  1. Decoded files: each .con, .ign, .vac and .meta file is read once and kept for as long as listings have it. A list
 *     that was read early may grow; tsr_commit_file in log.h says when lists are checked for that.
 *  2. Fragments that merged fragments replace: whose sources a vacuum is still removing.
 *  3. Truncated .con files: whether anything is lost if one counts as not written yet.
 *  4. Published commits: whether any file shows that a prepared commit was published, before recovery touches it.
 *  5. Delete conditions: from a .del file, or from its copy in a .con.
 */
#include <string.h>

#include "log/log.h"
#include "format/generic_tile.h"
#include "format/layout.h"
#include "model/name.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "store/store.h"

/* ---- Decoded files ----------------------------------------------------------------------------------------------- */

#define COMMIT_FILE_MAX (1u << 30) /* bytes */
#define FRESH           2000 /* milliseconds for which each statement looks whether a list that was read has grown */

static void free_commit_file(tsr_commit_file *file) {
  tsr__map_release(&file->footers_by_name);
  tsr__buffer_release(&file->content);
  tsr__arena_release(&file->arena);
  tsr__free(file);
}

/* Decodes a .meta file. A damaged one, such as TileDB leaves if it dies while writing, counts as empty: each fragment
 * also has its footer in its own file. */
static int decode_footers(tsr_log *log, tsr_commit_file *file, tsr_error *error) {
  tsr_generic_tile header;
  tsr_error one;
  int rc = tsr__read_tile(log->store, log->key, file->path, COMMIT_FILE_MAX, &file->content, &header, &one);
  if (rc >= 0) rc = tsr__footers_decode(file->content.data, file->content.size, &file->arena, &file->footers, &one);
  if (rc == TSR_CORRUPT) {
    file->footers = (tsr_footers){.partial = true};
    file->damaged = true;
    return TSR_OK;
  }
  if (rc < 0) return *error = one, rc;
  for (uint64_t i = 0; i < file->footers.count; i++) {
    tsr_footer *footer = &file->footers.footers[i];
    TSR_TRY(tsr__map_put(&file->footers_by_name, footer->name, footer, error));
  }
  return TSR_OK;
}

static bool is_list(const tsr_commit_file *file) { return !tsr__name_ends_in(file->path, TSR_SUFFIX_FOOTERS); }

static int decode_commit_file(tsr_log *log, tsr_commit_file *file, tsr_error *error) {
  if (!is_list(file)) return decode_footers(log, file, error);
  const int looked = tsr__store_look(log->store, file->path, &file->look, error);
  if (looked < 0) return looked;
  TSR_TRY(tsr__store_read_all(log->store, file->path, COMMIT_FILE_MAX, &file->content, error));
  tsr_input in = tsr__input(file->content.data, file->content.size);
  bool con = !tsr__name_ends_in(file->path, TSR_SUFFIX_IGNORED) && !tsr__name_ends_in(file->path, TSR_SUFFIX_VACUUM) &&
             !tsr__name_ends_in(file->path, TSR_SUFFIX_STAGED_VACUUM);
  int rc = con ? tsr__commits_decode(&in, &file->arena, &file->commits, error)
               : tsr__names_decode(&in, &file->arena, &file->names, error);
  if (rc < 0 && file->commits.truncated) { /* not written yet; listing.c finds out whether anything is lost by that */
    file->partial = file->commits;
    file->commits = (tsr_commits){0};
    return TSR_OK;
  }
  if (rc < 0) return tsr__wrap(error, "%s", file->path), rc;
  if (!con) tsr__buffer_release(&file->content);
  if (looked) file->look_at = log->files.look_at = file->read_at;
  return TSR_OK;
}

/* Returns 1 if a list has changed on disk since it was read. A removed list counts as unchanged: whoever reads it gets
 * the error. */
static int has_grown(tsr_log *log, const tsr_commit_file *file, tsr_error *error) {
  tsr_look look;
  if (!is_list(file)) return 0;
  const int rc = tsr__store_look(log->store, file->path, &look, error);
  if (rc == TSR_NOT_FOUND) return 0;
  return rc <= 0 ? rc : !tsr__same_look(&look, &file->look);
}

/* Marks a decoded file as outdated. It is freed after the next listing, since the last one may point into it. */
static void outdate(tsr_commit_files *files, tsr_commit_file *file) {
  tsr__map_remove(&files->by_path, file->path);
  file->next = files->outdated;
  files->outdated = file;
}

int tsr__commit_files_outdate(tsr_log *log, tsr_error *error) {
  tsr_commit_files *files = &log->files;
  for (uint64_t i = 0; i < files->by_path.count;) {
    tsr_commit_file *file = files->by_path.entries[i].value;
    const int grown = has_grown(log, file, error);
    if (grown < 0) return grown;
    if (grown) outdate(files, file); /* moves the last entry to this index: do not advance */
    else i++;
  }
  return TSR_OK;
}

/* Reads and decodes a file. */
static int make_commit_file(tsr_log *log, const char *path, tsr_commit_file **file, tsr_error *error) {
  tsr_commit_file *f;
  TSR_TRY(TSR_ALLOC(log->memory, &f, error));
  tsr__arena_init(&f->arena, log->memory);
  f->content.memory = f->footers_by_name.memory = log->memory;
  f->generation = log->listing ? log->listing->generation : 0;
  f->read_at = tsr__moment();
  f->look_at = TSR_NO_LOOK;
  int rc = TSR_ARENA_COPY(&f->arena, path, strlen(path), &f->path, error);
  if (rc >= 0) rc = tsr__damage(decode_commit_file(log, f, error), error);
  if (rc < 0) free_commit_file(f);
  else *file = f;
  return rc;
}

/* Reads a staged vacuum file that is gone under the name that its merge has given it since. */
static int read_finished(tsr_log *log, const char *path, const tsr_commit_file **file, tsr_error *error) {
  char name[TSR_STAGED_NAME];
  const char *slash = strrchr(path, '/');
  if (!tsr__staged_vacuum(slash ? slash + 1 : path, name)) return TSR_NOT_FOUND;
  return tsr__log_file(log, tsr__path_of(slash ? TSR_DIR_COMMITS : "", name, TSR_SUFFIX_VACUUM).text, file, error);
}

int tsr__log_file(tsr_log *log, const char *path, const tsr_commit_file **file, tsr_error *error) {
  tsr_commit_file *known = tsr__map_get(&log->files.by_path, path);
  if (known && known->partial.truncated) { /* a truncated .con: its writer may have continued */
    const int grown = has_grown(log, known, error);
    if (grown < 0) return grown;
    if (grown) outdate(&log->files, known);
    known = grown ? NULL : known;
  }
  if (known) {
    *file = known;
    return TSR_OK;
  }
  tsr_commit_file *f;
  int rc = make_commit_file(log, path, &f, error);
  const bool doubtful = tsr__may_be_corrupt_transfer(rc) || (rc >= 0 && (f->partial.truncated || f->damaged));
  if (doubtful && tsr__store_doubt(log->store)) {
    if (rc >= 0) free_commit_file(f);
    rc = make_commit_file(log, path, &f, error);
  }
  if (rc == TSR_NOT_FOUND) return read_finished(log, path, file, error);
  if (rc < 0) return rc;
  rc = tsr__map_put(&log->files.by_path, f->path, f, error);
  if (rc < 0) free_commit_file(f);
  else *file = f;
  return rc;
}

void tsr__commit_files_prune(tsr_commit_files *files, uint64_t generation) {
  while (files->outdated) {
    tsr_commit_file *file = files->outdated;
    files->outdated = file->next;
    free_commit_file(file);
  }
  for (uint64_t i = 0; i < files->by_path.count;) {
    tsr_commit_file *file = files->by_path.entries[i].value;
    if (file->generation != generation) {
      tsr__map_remove(&files->by_path, file->path); /* moves the last entry to this index: do not advance */
      free_commit_file(file);
    } else i++;
  }
}

void tsr__commit_file_keep(tsr_log *log, const char *path, uint64_t generation) {
  tsr_commit_file *known = tsr__map_get(&log->files.by_path, path);
  if (known) known->generation = generation;
}

int tsr__commit_files_changed(tsr_log *log, tsr_error *error) {
  tsr_commit_files *files = &log->files;
  const uint64_t now = tsr__moment();
  if (now < files->look_at) return 0;
  uint64_t first = TSR_NO_LOOK;
  for (uint64_t i = 0; i < files->by_path.count; i++) {
    tsr_commit_file *file = files->by_path.entries[i].value;
    if (file->look_at <= now) {
      const int grown = has_grown(log, file, error);
      if (grown) return grown;
      if (now - file->read_at >= FRESH) file->look_at = now + (now - file->read_at);
    }
    first = TSR_MIN(first, file->look_at);
  }
  files->look_at = first;
  return 0;
}

/* ---- Fragments that merged fragments replace --------------------------------------------------------------------- */

bool tsr__may_be_source(const char *name, const tsr_name *merged, const char *merged_name) {
  tsr_name parsed;
  return tsr__name_parse(name, strlen(name), &parsed) && parsed.start >= merged->start && parsed.end <= merged->end &&
         strcmp(name, merged_name) != 0;
}

/* Adds the sources in one vacuum file to `covered`, and sets *more if there were new ones: they may be merged fragments
 * with sources of their own, so tsr__covered iterates to the fixed point. */
static int cover(const tsr_replacing *file, tsr_map *covered, bool *more, tsr_error *error) {
  tsr_name merged;
  if (!tsr__name_parse(file->name, strlen(file->name), &merged)) return TSR_OK;
  for (uint64_t n = 0; n < file->names->count; n++) {
    const char *name = file->names->names[n];
    if (tsr__map_get(covered, name) || !tsr__may_be_source(name, &merged, file->name)) continue;
    TSR_TRY(tsr__map_put(covered, name, (void *)(uintptr_t)file->name, error));
    *more = true;
  }
  return TSR_OK;
}

int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered,
                 tsr_error *error) {
  for (bool more = true; more;) {
    more = false;
    for (uint64_t i = 0; i < count; i++)
      if (tsr__map_get(committed, files[i].name) || tsr__map_get(covered, files[i].name))
        TSR_TRY(cover(&files[i], covered, &more, error));
  }
  return TSR_OK;
}

int tsr__log_hide_sources(tsr_log *log, const tsr_committed *vacuum, tsr_map *hidden, tsr_error *error) {
  const tsr_commit_file *file;
  TSR_TRY(tsr__log_file(log, vacuum->path, &file, error));
  for (uint64_t n = 0; n < file->names.count; n++)
    TSR_TRY(tsr__map_put(hidden, file->names.names[n], file->names.names[n], error));
  return TSR_OK;
}

int tsr__log_hide_all_sources(tsr_log *log, tsr_map *hidden, tsr_error *error) {
  const tsr_commit_list *vacuums = &log->listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++) TSR_TRY(tsr__log_hide_sources(log, &vacuums->items[i], hidden, error));
  return TSR_OK;
}

int tsr__log_replacing(tsr_log *log, const tsr_commit_list *vacuums, tsr_buffer *files, tsr_error *error) {
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__log_file(log, vacuums->items[i].path, &file, error));
    const tsr_replacing one = {vacuums->items[i].name, &file->names};
    TSR_TRY(tsr__buffer_append(files, &one, sizeof one, error));
  }
  return TSR_OK;
}

int tsr__log_covered(tsr_log *log, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error) {
  tsr_buffer files = {.memory = log->memory};
  int rc = tsr__log_replacing(log, &listing->vacuums, &files, error);
  if (rc >= 0)
    rc = tsr__covered((const tsr_replacing *)(const void *)files.data, files.size / sizeof(tsr_replacing),
                      &listing->names, covered, error);
  tsr__buffer_release(&files);
  return rc;
}

const tsr_committed *tsr__log_outlived(const tsr_commit_listing *listing, const char *name) {
  const tsr_committed *items = listing->fragments.items, *gone = NULL, *longer = NULL;
  for (uint64_t i = 0; i < listing->fragments.count && !gone; i++)
    if (strcmp(items[i].name, name) == 0) gone = &items[i];
  if (!gone || !gone->joined) return NULL;
  const uint64_t length = gone->parsed.end - gone->parsed.start;
  for (uint64_t i = 0; i < listing->fragments.count && !longer; i++) {
    const tsr_committed *one = &items[i];
    if (one->prepared || one->parsed.end - one->parsed.start <= length) continue;
    if (tsr__may_be_source(name, &one->parsed, one->name)) longer = one;
  }
  return longer;
}

/* ---- Truncated .con files ---------------------------------------------------------------------------------------- */

/* A .con is truncated if it is empty or ends within an entry.
 *
 * TileDB writes a .con in place, so it is truncated while TileDB is writing, and for good if TileDB dies meanwhile.
 * Every commit that it was to name then still has its own file, since those are removed only after the .con is
 * complete. So a truncated .con counts as not written yet.
 *
 * But a full disk, a power loss or an interrupted copy may also truncate a .con that was complete. Then the commits
 * that it named must not vanish silently. A truncated .con is reported as damage if something may be lost:
 *  - There is a complete fragment that no other file commits, so the .con may have committed it. A fragment younger
 *    than the .con cannot have been in it: one of its files changed later, and the time in its name is later, too (both
 *    are required because the files of a copied array have the times of the copy). Nor can the .con have committed a
 *    fragment that a marker, an .ign or a .vac file names.
 *  - One of its complete entries names a fragment or a delete condition that nothing else commits.
 */

typedef struct doubt { /* the check of one truncated .con */
  const tsr_partial_consolidation *known;
  const char *con; /* path */
  uint64_t written; /* when the .con was last changed, in milliseconds since 1970 */
  tsr_path *path; /* result: the file whose age matters */
  tsr_error *error;
} doubt;

/* Gives the latest modification time of the files in a directory, in milliseconds since 1970; 0 if it is empty or
 * missing. */
static int last_change(const tsr_partial_consolidation *known, const char *directory, uint64_t *changed,
                       tsr_error *error) {
  tsr_listing entries = {.memory = known->memory};
  *changed = 0;
  int rc = tsr__store_list(known->store, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t modified = 0;
    const tsr_path file = tsr__path_of(directory, entries.entries[i].name, "");
    rc = tsr__store_modified(known->store, file.text, &modified, error);
    if (rc == TSR_NOT_FOUND) rc = TSR_OK;
    *changed = TSR_MAX(*changed, modified);
  }
  tsr__listing_release(&entries);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

static int fragment_is_whole(const tsr_partial_consolidation *known, const char *directory, bool *whole,
                             tsr_error *error) {
  const tsr_path metadata = tsr__path_of(directory, TSR_FILE_FRAGMENT_METADATA, "");
  return tsr__store_find(known->store, metadata.text, whole, error);
}

/* Reports a fragment that the .con may have committed: returns 1 and fills the error. */
static int tell_fragment(const doubt *d, const char *name, const tsr_name *parsed) {
  const bool old = !layout_has_commits_folder(parsed->version);
  (void)tsr__fail(
      d->error, TSR_CORRUPT,
      "%s: the file is cut, and nothing else commits fragment %s, which it may have named. Bring the file back "
      "from a copy of the array. Or, if there is none: make an empty file %s%s%s for this fragment, if its cells "
      "are to stay, or remove its directory; the same for others that are named then",
      d->con, name, old ? "" : TSR_DIR_COMMITS "/", name, old ? TSR_SUFFIX_OLD_WRITE : TSR_SUFFIX_WRITE);
  return 1;
}

static int tell_delete(const doubt *d, const char *name) {
  (void)tsr__fail(
      d->error, TSR_CORRUPT,
      "%s: the file is cut, and the delete condition %s, which it names, is in no other file. Bring the file back "
      "from a copy of the array. Or, if there is none, and cells that were deleted may come back: remove it",
      d->con, name);
  return 1;
}

static int look_at_fragment(const doubt *d, const char *directory, const char *name, const tsr_name *parsed) {
  const tsr_path path = tsr__path_of(directory, name, "");
  bool whole;
  uint64_t changed;
  TSR_TRY(fragment_is_whole(d->known, path.text, &whole, d->error));
  if (!whole) return 0; /* being written, or left over from a crash: no commit can have named it */
  const tsr_path commit =
      tsr__path_of(layout_commits_folder(parsed->version), name, layout_commit_suffix(parsed->version));
  TSR_TRY(tsr__store_find(d->known->store, commit.text, &whole, d->error));
  if (whole) return 0; /* committed since the commits were listed */
  TSR_TRY(last_change(d->known, path.text, &changed, d->error));
  if (changed > d->written && parsed->end > d->written) return 0;
  if (changed > d->written) *d->path = tsr__path_of(path.text, TSR_FILE_FRAGMENT_METADATA, "");
  return tell_fragment(d, name, parsed);
}

static int look_at_directory(const doubt *d, const char *directory, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    tsr_name parsed;
    if (entry->kind != TSR_ENTRY_DIRECTORY || !tsr__name_parse(entry->name, strlen(entry->name), &parsed)) continue;
    /* no .con names fragments of these versions in the array's directory */
    if (!*directory && (!layout_has_commit_files(parsed.version) || layout_has_commits_folder(parsed.version)))
      continue;
    if (tsr__map_get(d->known->fragments, entry->name) || tsr__map_get(d->known->ruled_out, entry->name)) continue;
    const int rc = look_at_fragment(d, directory, entry->name, &parsed);
    if (rc) return rc;
  }
  return 0;
}

static int look_at_fragments(const doubt *d) {
  tsr_listing entries = {.memory = d->known->memory};
  int rc = tsr__store_list(d->known->store, TSR_DIR_FRAGMENTS, &entries, d->error);
  if (rc == TSR_NOT_FOUND) return 0;
  if (rc >= 0) rc = look_at_directory(d, TSR_DIR_FRAGMENTS, &entries);
  tsr__listing_release(&entries);
  return rc;
}

/* Checks the complete entries of the .con. Fragments that no longer exist were vacuumed. */
static int look_at_entries(const doubt *d, const tsr_commits *partial) {
  for (uint64_t i = 0; i < partial->count; i++) {
    const tsr_commit *commit = &partial->commits[i];
    tsr_name parsed;
    bool whole;
    if (commit->kind == TSR_COMMIT_DELETE && !tsr__map_get(d->known->deletes, commit->name))
      return tell_delete(d, commit->name);
    if (commit->kind != TSR_COMMIT_WRITE || !tsr__name_parse(commit->name, strlen(commit->name), &parsed)) continue;
    if (tsr__map_get(d->known->fragments, commit->name) || tsr__map_get(d->known->ruled_out, commit->name)) continue;
    const tsr_path path = tsr__path_of(layout_fragments_folder(parsed.version), commit->name, "");
    TSR_TRY(fragment_is_whole(d->known, path.text, &whole, d->error));
    if (whole) return tell_fragment(d, commit->name, &parsed);
  }
  return 0;
}

int tsr__partial_consolidation_loses(const tsr_partial_consolidation *known, const char *con,
                                     const tsr_commits *partial, tsr_path *path, tsr_error *error) {
  doubt d = {.known = known, .con = con, .path = path, .error = error};
  *path = tsr__path_of("", con, "");
  int rc = tsr__store_modified(known->store, con, &d.written, error);
  if (rc == TSR_NOT_FOUND) return tsr__fail(error, TSR_ABORT, "%s was removed while it was looked at", con);
  if (rc >= 0) rc = look_at_entries(&d, partial);
  if (rc == 0) rc = look_at_fragments(&d);
  if (rc == 0) rc = look_at_directory(&d, "", known->root);
  return rc;
}

/* ---- Published commits ------------------------------------------------------------------------------------------- */

/* A marker (prepared.c) outlives the publication of its commit if the writer dies before removing it. By the time
 * recovery finds the marker, the commit's own file may be gone, too. Each of these files proves that a fragment or a
 * delete was published:
 *
 *   its own file                    NAME.wrt, NAME.del, NAME.ok, NAME/__fragment_metadata.tdb
 *   a .con, or the .meta of it      the commits were consolidated
 *   an .ign                         its entry in a .con was cancelled, by a vacuum or a delete of fragments
 *   a .vac, or its staged form      a merged fragment has replaced it
 *   a .meta of any name             its footer was consolidated
 *
 * If a vacuum has removed the sources of a merged fragment and their .vac, no file names them any more, but the time
 * range of the merged fragment contains theirs (tsr__listing_shows_published). A file that cannot be read is an error:
 * a commit must not be undone on a guess.
 */

static const char commits[] = TSR_DIR_COMMITS;

/* Lists the array without the prepared commits that the host counts as committed. */
static int list_published(tsr_log *log, tsr_error *error) {
  const tsr_log_host host = log->host;
  log->host = (tsr_log_host){0};
  const int rc = tsr__log_list(log, true, true, error);
  log->host = host;
  return rc;
}

static int keep_name(tsr_published *p, const char *name, uint64_t size, tsr_error *error) {
  char *copy;
  TSR_TRY(TSR_ARENA_COPY(&p->arena, name, size, &copy, error));
  return tsr__map_put(&p->names, copy, copy, error);
}

static int keep_ignored(tsr_published *p, tsr_error *error) {
  tsr_listing entries = {.memory = p->names.memory};
  int rc = tsr__store_list(p->log->store, commits, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    uint64_t stem;
    const tsr_commit_file *file;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_IGNORED, &stem)) continue;
    tsr_path path = tsr__path_of(commits, entries.entries[i].name, "");
    rc = tsr__log_file(p->log, path.text, &file, error);
    for (uint64_t n = 0; rc >= 0 && n < file->names.count; n++) {
      const char *name = file->names.names[n];
      if (!tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem) && !tsr__name_suffix(name, TSR_SUFFIX_OLD_WRITE, &stem))
        stem = strlen(name);
      rc = keep_name(p, name, stem, error);
    }
  }
  tsr__listing_release(&entries);
  return rc;
}

static int keep_files(tsr_published *p, const tsr_commit_list *list, tsr_error *error) {
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__log_file(p->log, list->items[i].path, &file, error));
    if (file->damaged)
      return tsr__fail(error, TSR_CORRUPT,
                       "%s cannot be read, and may name published commits: tessera_vacuum removes it",
                       list->items[i].path);
    for (uint64_t n = 0; n < file->names.count; n++)
      TSR_TRY(keep_name(p, file->names.names[n], strlen(file->names.names[n]), error));
    for (uint64_t n = 0; n < file->footers.count; n++)
      TSR_TRY(keep_name(p, file->footers.footers[n].name, strlen(file->footers.footers[n].name), error));
  }
  return TSR_OK;
}

static int keep_all(tsr_published *p, tsr_error *error) {
  TSR_TRY(list_published(p->log, error));
  const tsr_commit_listing *listing = p->log->listing;
  for (uint64_t i = 0; i < listing->deletes.count; i++)
    TSR_TRY(keep_name(p, listing->deletes.items[i].name, strlen(listing->deletes.items[i].name), error));
  TSR_TRY(keep_files(p, &listing->vacuums, error));
  TSR_TRY(keep_files(p, &listing->footers, error));
  return keep_ignored(p, error);
}

int tsr__published_open(tsr_log *log, tsr_published *published, tsr_error *error) {
  *published = (tsr_published){.log = log, .names.memory = log->memory};
  tsr__arena_init(&published->arena, log->memory);
  const int rc = keep_all(published, error);
  if (rc < 0) tsr__published_release(published);
  return rc;
}

void tsr__published_release(tsr_published *published) {
  tsr__map_release(&published->names);
  tsr__arena_release(&published->arena);
}

static bool names(const tsr_published *p, const char *name) {
  return tsr__map_get(&p->log->listing->names, name) || tsr__map_get(&p->names, name);
}

int tsr__published_has(const tsr_published *published, const tsr_prepared_marker *prepared, tsr_error *error) {
  const int single = tsr__prepared_is_published(published->log->store, prepared->commit, error);
  const char *slash = strrchr(prepared->commit, '/'), *file = slash ? slash + 1 : prepared->commit;
  char name[TSR_COMMIT_PATH];
  uint64_t stem;
  if (single != 0) return single;
  for (uint64_t i = 0; i < prepared->fragment_count; i++)
    if (names(published, prepared->fragments[i])) return 1;
  if (!tsr__name_suffix(file, TSR_SUFFIX_DELETE, &stem) || stem >= sizeof name) return 0;
  memcpy(name, file, stem);
  name[stem] = 0;
  return names(published, name);
}

static bool is_spanned(const tsr_commit_listing *listing, const char *name) {
  tsr_name parsed;
  if (!tsr__name_parse(name, strlen(name), &parsed)) return false;
  for (uint64_t i = 0; i < listing->fragments.count; i++) {
    const tsr_committed *merged = &listing->fragments.items[i];
    if (merged->parsed.start < merged->parsed.end && merged->parsed.start <= parsed.start &&
        merged->parsed.end >= parsed.end && strcmp(merged->name, name) != 0)
      return true;
  }
  return false;
}

/* Returns true if the listing has a delete within the commit's time range. Deletes are never merged, and have the time
 * of their commit. */
static bool has_delete_of(const tsr_commit_listing *listing, const char *commit) {
  const char *slash = strrchr(commit, '/'), *name = slash ? slash + 1 : commit;
  tsr_name parsed;
  if (!tsr__name_parse(name, strcspn(name, "."), &parsed)) return false;
  for (uint64_t i = 0; i < listing->deletes.count; i++) {
    const uint64_t time = listing->deletes.items[i].parsed.start;
    if (time >= parsed.start && time <= parsed.end) return true;
  }
  return false;
}

bool tsr__listing_shows_published(const tsr_commit_listing *listing, const tsr_prepared_marker *prepared) {
  for (uint64_t i = 0; i < prepared->fragment_count; i++)
    if (tsr__map_get(&listing->names, prepared->fragments[i]) || is_spanned(listing, prepared->fragments[i]))
      return true;
  return prepared->fragment_count == 0 && has_delete_of(listing, prepared->commit);
}

/* ---- Delete conditions (docs/format-commits.md) ------------------------------------------------------------------ */

#define CONDITION_MAX (1u << 30) /* largest delete condition, unfiltered, in bytes */

static int decode_delete(tsr_log *log, const char *path, const uint8_t *bytes, uint64_t size, tsr_buffer *content,
                         tsr_error *error) {
  uint64_t consumed;
  const int rc = tsr__generic_tile_decode(bytes, size, log->key, CONDITION_MAX, content, NULL, &consumed, error);
  return rc < 0 ? tsr__wrap(error, "%s", path) : TSR_OK;
}

static int read_del_file(tsr_log *log, const char *path, tsr_buffer *stored, tsr_buffer *content, tsr_error *error) {
  const uint64_t stored_before = stored->size, content_before = content->size;
  tsr_torn_read attempts = {0};
  for (;;) {
    int rc = tsr__store_read_all(log->store, path, tsr__add_sat(CONDITION_MAX, CONDITION_MAX / 8), stored, error);
    if (rc >= 0)
      rc = decode_delete(log, path, stored->data + stored_before, stored->size - stored_before, content, error);
    rc = tsr__torn_read_retry(&attempts, log->store, path, rc, error);
    if (rc <= 0) return rc;
    stored->size = stored_before;
    content->size = content_before;
  }
}

/* Reads the .del file if its copy in the .con cannot be decoded. If there is no such file, returns the error
 * of the copy. */
static int read_original(tsr_log *log, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                         tsr_error *error) {
  const tsr_path path = tsr__path_of(TSR_DIR_COMMITS, item->name, TSR_SUFFIX_DELETE);
  tsr_error one;
  const int rc = read_del_file(log, path.text, stored, content, &one);
  if (rc == TSR_NOT_FOUND) return TSR_CORRUPT;
  if (rc < 0) *error = one;
  return rc;
}

int tsr__delete_read(tsr_log *log, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                     tsr_error *error) {
  tsr_buffer own = {.memory = log->memory};
  tsr_buffer *tile = stored ? stored : &own;
  const uint64_t before = content->size;
  int rc;
  if (!item->bytes) {
    rc = read_del_file(log, item->path, tile, content, error);
  } else {
    rc = decode_delete(log, item->path, item->bytes, item->size, content, error);
    if (rc == TSR_CORRUPT) {
      content->size = before;
      rc = read_original(log, item, tile, content, error);
    } else if (rc >= 0 && stored) {
      rc = tsr__buffer_append(stored, item->bytes, item->size, error);
    }
  }
  tsr__buffer_release(&own);
  return rc;
}
