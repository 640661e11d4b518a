/* listing.h: directories -> committed names. */
#ifndef TSR_LISTING_H
#define TSR_LISTING_H

#include "base/map.h"
#include "store/store_bounds.h"
#include "model/name.h"
#include "format/commits.h"

#define TSR_STAGED_VACUUM ".vac.new" /* .NAME.vac.new is NAME.vac as soon as NAME is committed */

/* A decoded .con, .ign, .vac or .meta. They never change once they are written; TileDB writes them in place, and a list
 * that
 * is cut between two lines cannot be told from a whole one. So lists are looked at again whenever the array is listed
 * anew,
 * and for 2 seconds after they were read also where no directory has changed. */
typedef struct tsr_commit_file {
  struct tsr_commit_file *next; /* of those that have been read anew since */
  char *path;
  tsr_look look; /* of a list: before it was read; zeros where the store has no looks */
  uint64_t generation; /* of the last listing that had it */
  tsr_arena arena;
  tsr_buffer content; /* kept where the rest points into it */
  tsr_commits commits; /* .con; none where it is cut: it counts as not written yet */
  tsr_commits rest; /* .con that is cut: the entries before its end */
  tsr_names names; /* .ign, .vac */
  tsr_footers footers; /* .meta */
  bool damaged; /* .meta: it has no footers that can be read */
  tsr_map footers_by_name; /* .meta: name -> tsr_footer */
} tsr_commit_file;

typedef struct tsr_committed {
  const char *name; /* without suffix */
  tsr_name parsed;
  bool old_layout; /* a fragment in the array's directory rather than in __fragments */
  const char *path; /* of the file: .vac, .meta, .del, or the .con that holds the delete */
  const uint8_t *bytes; /* a delete in a .con: its generic tile; else NULL */
  uint64_t size;
  bool prepared; /* a fragment that counts because the host says so; it is not published */
} tsr_committed;

typedef struct tsr_commit_list {
  tsr_committed *items;
  uint64_t count, capacity;
} tsr_commit_list;

typedef struct tsr_commit_listing {
  tsr_arena arena;
  uint64_t generation; /* 1, 2, ... */
  bool complete; /* else of schemas only */
  tsr_stamp stamps[3]; /* of the array's directory, __schema, __commits */
  bool old_layout; /* names that are committed lie in the array's directory itself */
  bool new_layout; /* neither that, nor can there be: it need not be looked at */
  tsr_commit_list fragments; /* by (start time, name) */
  tsr_commit_list deletes; /* by (start time, name) */
  tsr_commit_list vacuums; /* .vac */
  tsr_commit_list footers; /* .meta, the newest first */
  tsr_commit_list schemas; /* in text order, __array_schema.tdb first; path is the file's */
  tsr_commit_list pending; /* version 3 and 4: fragments that get committed without a change in a listed directory */
  tsr_map names; /* fragments by name -> tsr_committed */
  tsr_commit_list prepared; /* markers of prepared commits: `path` is the marker's, `name` the commit's path */
  bool undecided; /* some of these do not count yet: they are asked for again */
  tsr_commit_list unfinished; /* .con files that are cut, without which nothing is lost (unfinished.c): `path` */
  bool counted; /* some of these count: some fragments are `prepared` */
} tsr_commit_listing;

/* Renews array->listing if a directory in which commits show has changed since, or always if `force`: the schemas, and
 * if `commits` all else.
 * While the array is frozen a complete listing is renewed by force only.
 * TSR_NOT_FOUND "array not found: PATH" where there is none. */
int tsr__array_list(tsr_array *array, bool commits, bool force, tsr_error *error);
void tsr__array_listing_release(tsr_array *array);

/* A .con, .ign, .vac or .meta by its path, decoded once; borrowed until the listing is renewed. */
int tsr__array_commit_file(tsr_array *array, const char *path, const tsr_commit_file **file, tsr_error *error);

#endif
