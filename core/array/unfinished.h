/* unfinished.h: handles operations that others have not finished: fragments that a vacuum is still removing, and .con
 * files that are cut. */
#ifndef TSR_UNFINISHED_H
#define TSR_UNFINISHED_H

#include "base/map.h"
#include "store/store.h"
#include "format/commits.h"

typedef struct tsr_commit_listing tsr_commit_listing;

typedef struct tsr_replacing { /* a vacuum file */
  const char *name; /* of the merged fragment that it belongs to */
  const tsr_names *names; /* of the sources, which that fragment replaces */
} tsr_replacing;

/* Adds fragments to `covered` (name -> name of the merged fragment that replaces it) whose cells are in a committed
 * merged fragment. These are the fragments that a vacuum file names, if the merged fragment of that file is in
 * `committed`, or is in `covered` itself because another merge has replaced it in turn. Names are borrowed from the
 * files. */
int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered,
                 tsr_error *error);

/* The same for all vacuum files of a listing. Names are borrowed until the array is listed again. */
int tsr__array_covered(tsr_array *array, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error);

typedef struct tsr_unfinished { /* what the rest of the array says about commits; all borrowed */
  tsr_store *store;
  tsr_memory *memory;
  const tsr_map *fragments; /* names of fragments that other files commit */
  const tsr_map *deletes; /* names of deletes that other files commit */
  /* names of fragments that no .con can have committed: markers, .ign and .vac files name them */
  const tsr_map *settled;
  const tsr_listing *root; /* the array's directory */
} tsr_unfinished;

/* Finds out whether something is lost if the cut file `con` counts as not written. `rest`: the entries before its end.
 * Returns 0 if nothing is lost; 1 if something may be lost, with TSR_CORRUPT and advice in `error`. Then *path is the
 * file whose age says whether the writer may still be at work; < 0 on an error. */
int tsr__unfinished_loses(const tsr_unfinished *known, const char *con, const tsr_commits *rest, tsr_path *path,
                          tsr_error *error);

#endif
