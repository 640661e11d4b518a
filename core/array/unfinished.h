/* unfinished.h: what others have begun and not finished: vacuums, .con files. */
#ifndef TSR_UNFINISHED_H
#define TSR_UNFINISHED_H

#include "base/map.h"
#include "store/store_bounds.h"
#include "format/commits.h"

typedef struct tsr_commit_listing tsr_commit_listing;

typedef struct tsr_replacing { /* a vacuum file, and the merged fragment that it belongs to */
  const char *name;
  const tsr_names *names;
} tsr_replacing;

/* Adds to `covered` (the key: a name; its value: that of the merged fragment) the fragments whose cells a committed
 * fragment
 * has: those that a vacuum file names whose merged fragment is committed, or is covered itself: a vacuum has removed
 * it.
 * Names are borrowed from the files. */
int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered,
                 tsr_error *error);

/* The same of all vacuum files of a listing; borrowed until they are read anew. */
int tsr__array_covered(tsr_array *array, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error);

typedef struct tsr_unfinished { /* what else says what is committed */
  tsr_store *store;
  tsr_memory *memory;
  const tsr_map *fragments; /* committed by something else, by name */
  const tsr_map *deletes; /* the same */
  const tsr_map *settled; /* not committed, and no .con does it: named by markers, .ign and .vac files */
  const tsr_listing *root; /* the array's directory */
} tsr_unfinished;

/* Would something be lost if the file `con`, which is cut (`rest`: the entries before its end), counted as not written?
 * 0; 1,
 * with TSR_CORRUPT in `error`, which says what and what to do, and `path`, the file whose age tells how young that
 * doubt is. */
int tsr__unfinished_loses(const tsr_unfinished *known, const char *con, const tsr_commits *rest, tsr_path *path,
                          tsr_error *error);

#endif
