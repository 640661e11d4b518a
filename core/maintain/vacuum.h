/* vacuum.h: a running vacuum, what its parts share, and the .vac files that it works through. */
#ifndef TSR_MAINTAIN_VACUUM_H
#define TSR_MAINTAIN_VACUUM_H

#include "base/map.h"
#include "store/store.h"
#include "model/name.h"
#include "format/commits.h"

typedef struct tsr_vacuum { /* pointers are borrowed */
  tsr_environment *environment;
  tsr_store *store;
  tsr_array *array; /* NULL: a group */
  tsr_arena arena; /* of one kind of objects: fragments, commits, footers or metadata */
  uint64_t removed; /* files and fragments */
  bool listed; /* the array was listed since this vacuum removed a commit */
  uint64_t grace; /* in milliseconds, see tsr_vacuum_options */
} tsr_vacuum;

typedef struct tsr_vacuum_file { /* a .vac */
  const char *name; /* of the merged fragment or metadata file that it belongs to */
  const char *path; /* its own */
  tsr_name parsed; /* `name` */
  tsr_names names; /* the names in it */
  bool done; /* tsr__vacuum_files_next has returned it */
  bool stays; /* it was written too lately */
} tsr_vacuum_file;

/* Removes a file, without counting it in `removed`. Returns 1 if it existed, 0 if not, < 0 on error. */
int tsr__vacuum_remove(tsr_vacuum *v, const char *name, tsr_error *error);

/* Returns 1 if what the file at this path replaces stays: the file was written less than the grace ago, by the store's
 * clock, or is gone. Returns 0 if not, < 0 on error. */
int tsr__vacuum_is_recent(tsr_vacuum *v, const char *path, tsr_error *error);

/* Makes removals from a directory durable. Does nothing if there is no such directory. */
int tsr__vacuum_sync(tsr_vacuum *v, const char *directory, tsr_error *error);

/* Lists the array anew, unless that was done since this vacuum removed commits. */
int tsr__vacuum_list_array(tsr_vacuum *v, tsr_error *error);

/* Lists a directory; one that is missing is empty. The caller releases `entries` in any case. */
int tsr__vacuum_list(tsr_vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error);

/* Reads the .vac files among the entries of a directory and appends them to `files`, a list of tsr_vacuum_file whose
 * texts lie in the vacuum's arena. */
int tsr__vacuum_files_read(tsr_vacuum *v, const char *directory, const tsr_listing *entries, tsr_buffer *files,
                           tsr_error *error);

/* Returns the .vac files of a list, and sets *count to their number. They are borrowed from the list. */
tsr_vacuum_file *tsr__vacuum_files_of(const tsr_buffer *files, uint64_t *count);

/* Fills `waiting`, an empty map, with what tsr__vacuum_files_next needs: merged object's name -> its .vac file. */
int tsr__vacuum_files_map(const tsr_buffer *files, tsr_map *waiting, tsr_error *error);

/* Returns the next .vac to process, or NULL at the end. A .vac that names the merged object of another .vac comes after
 * that one. Files that name each other in a circle are never returned. */
tsr_vacuum_file *tsr__vacuum_files_next(const tsr_buffer *files, tsr_map *waiting);

/* Returns true if `name` may be a source of the merged object: its times lie within those of the merged object, and it
 * is not the merged object itself. Other names in a .vac are ignored. */
bool tsr__vacuum_is_source(const tsr_vacuum_file *file, const char *name);

/* Removes the .vac file itself, and counts it. */
int tsr__vacuum_file_remove(tsr_vacuum *v, const tsr_vacuum_file *file, tsr_error *error);

/* The part of a vacuum that removes commit files. `sources` are names of fragments, as a list of
 * const char *. */

/* Removes all commits of the sources. If `at_once`, a reader sees either all of the sources or none. TSR_ABORT if other
 * processes keep vacuuming the same sources. */
int tsr__vacuum_uncommit(tsr_vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error);

/* Removes all staged .con files. Another process may have listed the sources before they were merged, and be about to
 * commit them again by a .con that it has staged. Its rename fails when the staged file is gone. A .con that is staged
 * after this finds that the sources are not committed any more (still_committed in consolidate_files.c). */
int tsr__vacuum_remove_staged_con(tsr_vacuum *v, tsr_error *error);

/* Cancels sources that a .con commits by now, because another process renamed it before
 * tsr__vacuum_remove_staged_con. The caller repeats this after it has removed the fragments, for other libraries, which
 * do not stage their .con files. */
int tsr__vacuum_cancel_new_commits(tsr_vacuum *v, const tsr_buffer *sources, tsr_error *error);

/* Removes unfinished .con files (tsr__mend_commits). */
int tsr__vacuum_mend(tsr_vacuum *v, tsr_error *error);

/* Removes each .wrt file whose fragment a .con commits, each .con whose active entries a later one has, and each .ign
 * that cancels no entry of a .con. */
int tsr__vacuum_commits(tsr_vacuum *v, tsr_error *error);

/* The part of a vacuum that removes fragments. */

/* Removes the fragments that .vac files name, with their commits and then the .vac files, and debris: fragments and
 * staged files that no commit and no marker names, and that are a day old. */
int tsr__vacuum_fragments(tsr_vacuum *v, tsr_error *error);

#endif
