/* commit_files.c: decoded .con, .ign, .vac and .meta files, and delete conditions.
 *
 * Each .con, .ign, .vac and .meta file is read once and kept for as long as listings have it. TileDB writes these files
 * and .del files in place, so one that was read early may grow; tsr_commit_file in log.h says when lists are checked
 * for that. truncated_con.c checks a .con that is read while it is being written, or was cut for good.
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
  if (rc < 0 && file->commits.truncated) { /* not written yet; entries.c finds out whether anything is lost by that */
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
