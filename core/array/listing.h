/* listing.h: the listing of an array: the names of all committed fragments, deletes, schemas, vacuum files and
 * consolidated footers, made from the array's directories. Snapshots choose from a listing the names that are in view.
 * The listing is renewed when the directories change.
 */
#ifndef TSR_LISTING_H
#define TSR_LISTING_H

#include "base/map.h"
#include "store/store.h"
#include "model/name.h"

/* a name in a listing; pointers are borrowed from the listing or from a tsr_commit_file (commit_file.h) */
typedef struct tsr_committed {
  const char *name; /* without suffix */
  tsr_name parsed;
  bool old_layout; /* the fragment lies in the array's directory, not in __fragments */
  const char *path; /* of the file: .vac, .meta, .del, or the .con that has the delete */
  const uint8_t *bytes; /* delete in a .con: its generic tile; else NULL */
  uint64_t size; /* of `bytes`, in bytes */
  bool prepared; /* the fragment is not published, and counts because the host says so */
} tsr_committed;

typedef struct tsr_commit_list {
  tsr_committed *items;
  uint64_t count, capacity;
} tsr_commit_list;

#define TSR_LISTING_STAMPS 3

/* What tells later whether the array has changed since it was listed. */
typedef struct tsr_listing_moment {
  uint64_t listed; /* tsr__moment at which the listing began */
  uint64_t changes; /* of the store's, when the listing began */
  /* of the array's directory, __schema and __commits (tsr_directory), before they were listed */
  tsr_stamp stamps[TSR_LISTING_STAMPS];
} tsr_listing_moment;

/* The commits that a transaction of the host has prepared and not published. */
typedef struct tsr_prepared_commits {
  tsr_commit_list markers; /* `path` is the marker's, `name` the commit's path */
  bool undecided; /* some do not count: the host is asked about them again */
  bool counted; /* some count, so some fragments may be `prepared` */
} tsr_prepared_commits;

typedef struct tsr_commit_listing {
  tsr_arena arena;
  uint64_t generation; /* 1 for the first listing of the array, then 2, 3, ... */
  bool complete; /* false: only schemas are listed */
  tsr_listing_moment moment;
  uint64_t newest; /* the latest time in the names of __commits, or 0; times two seconds ahead of the clock do
                      * not count (tsr__environment_time) */
  bool old_layout; /* the array's directory itself has committed names, or an old schema */
  /* all schemas are version 12 or newer, so no commit can appear in the array's directory: it need not be checked for
   * changes */
  bool new_layout;
  tsr_commit_list fragments; /* sorted by (start time, name) */
  tsr_commit_list deletes; /* sorted by (start time, name) */
  tsr_commit_list vacuums; /* .vac */
  tsr_commit_list exchanges; /* .vac.ign (staged_vacuum.h) */
  tsr_commit_list footers; /* .meta, newest first */
  tsr_commit_list schemas; /* in text order, __array_schema.tdb first; `path` is that of the schema file */
  /* below version 5: fragments without metadata yet; `path` is the file that will commit them */
  tsr_commit_list pending;
  tsr_map names; /* the names of `fragments`; a set */
  tsr_prepared_commits prepared;
  uint64_t written; /* how many entries of __commits are .wrt files */
  tsr_map others; /* names of the other entries of __commits; a set */
  tsr_commit_list unfinished; /* `path` of .con files that are cut, though nothing is lost by that (unfinished.c) */
} tsr_commit_listing;

/* Renews array->listing if it is missing or outdated, or in any case if `force` is true. `commits`: everything must be
 * listed; false: schemas are enough. While the array is frozen, a complete listing is renewed only if `force` is true.
 * Returns TSR_NOT_FOUND "array not found: PATH" if there is no array, TSR_BUSY if the array changes faster than it can
 * be listed. */
int tsr__array_list(tsr_array *array, bool commits, bool force, tsr_error *error);

/* Renews a listing of everything if it is outdated, also while the array is frozen. */
int tsr__array_list_present(tsr_array *array, tsr_error *error);
void tsr__array_listing_release(tsr_array *array);

#endif
