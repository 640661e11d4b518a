/* commit_file.c: the decoded .con, .ign, .vac and .meta files of an array. Each is read once and kept for as long as
 * listings have it. TileDB writes these files in place, so a list that was read early may grow: commit_file.h says when
 * lists are checked for that. */
#include "array/commit_file.h"

#include <string.h>

#include "format/generic_tile.h"
#include "format/layout.h"
#include "model/name.h"
#include "array/array.h"
#include "array/listing.h"
#include "array/patience.h"

#define COMMIT_FILE_MAX (1u << 30) /* bytes */
#define FRESH           2000 /* milliseconds after which a list that was read is taken to be complete */

static void free_commit_file(tsr_commit_file *file) {
  tsr__map_release(&file->footers_by_name);
  tsr__buffer_release(&file->content);
  tsr__arena_release(&file->arena);
  tsr__free(file);
}

/* Decodes a .meta file. A damaged one counts as empty, because each fragment has its footer in its own file, too.
 * TileDB writes .meta files in place, so it leaves a cut one if it dies. */
static int decode_footers(tsr_array *array, tsr_commit_file *file, tsr_error *error) {
  tsr_generic_tile header;
  tsr_error one;
  int rc = tsr__array_read_tile(array, file->path, COMMIT_FILE_MAX, &file->content, &header, &one);
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

static bool commit_file_is_list(const tsr_commit_file *file) {
  return !tsr__name_ends_in(file->path, TSR_SUFFIX_FOOTERS);
}

static int decode_commit_file(tsr_array *array, tsr_commit_file *file, tsr_error *error) {
  if (!commit_file_is_list(file)) return decode_footers(array, file, error);
  const int looked = tsr__store_look(array->store, file->path, &file->look, error);
  if (looked < 0) return looked;
  TSR_TRY(tsr__store_read_all(array->store, file->path, COMMIT_FILE_MAX, &file->content, error));
  tsr_input in = tsr__input(file->content.data, file->content.size);
  bool con = !tsr__name_ends_in(file->path, TSR_SUFFIX_IGNORED) && !tsr__name_ends_in(file->path, TSR_SUFFIX_VACUUM) &&
             !tsr__name_ends_in(file->path, TSR_SUFFIX_STAGED_VACUUM);
  int rc = con ? tsr__commits_decode(&in, &file->arena, &file->commits, error)
               : tsr__names_decode(&in, &file->arena, &file->names, error);
  if (rc < 0 && file->commits.cut) { /* not written yet; listing.c finds out whether anything is lost by that */
    file->rest = file->commits;
    file->commits = (tsr_commits){0};
    return TSR_OK;
  }
  if (rc < 0) return tsr__wrap(error, "%s", file->path), rc;
  if (!con) tsr__buffer_release(&file->content);
  if (looked) array->commit_files.fresh_until = tsr__moment() + FRESH;
  return TSR_OK;
}

/* Returns 1 if a list has changed on disk since it was read. A list that has been removed has not changed: code that
 * reads it gets the error. */
static int has_grown(tsr_array *array, const tsr_commit_file *file, tsr_error *error) {
  tsr_look look;
  if (!commit_file_is_list(file)) return 0;
  const int rc = tsr__store_look(array->store, file->path, &look, error);
  if (rc == TSR_NOT_FOUND) return 0;
  return rc <= 0 ? rc : !tsr__same_look(&look, &file->look);
}

/* Marks a decoded file as outdated. It is freed with the next listing, since the last one may point into it. */
static void outdate(tsr_commit_files *files, tsr_commit_file *file) {
  tsr__map_remove(&files->by_path, file->path);
  file->next = files->outdated;
  files->outdated = file;
}

int tsr__commit_files_outdate(tsr_array *array, tsr_error *error) {
  tsr_commit_files *files = &array->commit_files;
  for (uint64_t i = 0; i < files->by_path.capacity;) {
    tsr_commit_file *file = files->by_path.entries[i].value;
    const int grown = file ? has_grown(array, file, error) : 0;
    if (grown < 0) return grown;
    if (grown) outdate(files, file); /* another entry may move into this place: look at it again */
    else i++;
  }
  return TSR_OK;
}

/* Reads and decodes a file. */
static int make_commit_file(tsr_array *array, const char *path, tsr_commit_file **file, tsr_error *error) {
  tsr_commit_file *f;
  TSR_TRY(TSR_ALLOC(&array->memory, &f, error));
  tsr__arena_init(&f->arena, &array->memory);
  f->content.memory = f->footers_by_name.memory = &array->memory;
  f->generation = array->listing ? array->listing->generation : 0;
  int rc = TSR_ARENA_COPY(&f->arena, path, strlen(path), &f->path, error);
  if (rc >= 0) rc = tsr__array_damage(decode_commit_file(array, f, error), error);
  if (rc < 0) free_commit_file(f);
  else *file = f;
  return rc;
}

int tsr__array_commit_file(tsr_array *array, const char *path, const tsr_commit_file **file, tsr_error *error) {
  tsr_commit_file *known = tsr__map_get(&array->commit_files.by_path, path);
  if (known && known->rest.cut) { /* a cut .con: its writer may have continued */
    const int grown = has_grown(array, known, error);
    if (grown < 0) return grown;
    if (grown) outdate(&array->commit_files, known);
    known = grown ? NULL : known;
  }
  if (known) {
    *file = known;
    return TSR_OK;
  }
  tsr_commit_file *f;
  int rc = make_commit_file(array, path, &f, error);
  const bool doubtful = tsr__is_doubtful(rc) || (rc >= 0 && (f->rest.cut || f->damaged));
  if (doubtful && tsr__store_doubt(array->store)) {
    if (rc >= 0) free_commit_file(f);
    rc = make_commit_file(array, path, &f, error);
  }
  if (rc < 0) return rc;
  rc = tsr__map_put(&array->commit_files.by_path, f->path, f, error);
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
  for (uint64_t i = 0; i < files->by_path.capacity;) {
    tsr_commit_file *file = files->by_path.entries[i].value;
    if (file && file->generation != generation) {
      tsr__map_remove(&files->by_path, file->path); /* another entry may move into this place: look at it again */
      free_commit_file(file);
    } else i++;
  }
}

void tsr__commit_file_keep(tsr_array *array, const char *path, uint64_t generation) {
  tsr_commit_file *known = tsr__map_get(&array->commit_files.by_path, path);
  if (known) known->generation = generation;
}

int tsr__commit_files_changed(tsr_array *array, tsr_error *error) {
  const tsr_map *files = &array->commit_files.by_path;
  for (uint64_t i = 0; i < files->capacity; i++) {
    const tsr_commit_file *file = files->entries[i].value;
    const int grown = file ? has_grown(array, file, error) : 0;
    if (grown) return grown;
  }
  return 0;
}

int tsr__commit_files_grown(tsr_array *array, tsr_error *error) {
  if (array->commit_files.fresh_until == 0 || tsr__moment() >= array->commit_files.fresh_until) return 0;
  return tsr__commit_files_changed(array, error);
}
