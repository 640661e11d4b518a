/* replace.h: lets merged fragments take the place of their sources, in one commit. A user fills in a tsr_replacement,
 * calls tsr__replacement_add for each merged fragment and writes it, then tsr__replacement_commit, and in any case
 * tsr__replacement_end.
 *
 * The files of this folder: consolidate.c chooses fragments to merge; merge.c and merge.c write a merged
 * fragment (merge.c merges sorted sources for the first); replace.c commits it, rivals.c settles which of
 * several merges of the same fragments commits; consolidate_files.c consolidates
 * commits, footers and metadata; the vacuum files remove what was replaced; recover.c and recover_late.c settle prepared
 * commits.
 */
#ifndef TSR_REPLACE_H
#define TSR_REPLACE_H

#include "base/map.h"
#include "array/fragment.h"

typedef struct tsr_replacement {
  /* Set by the user; all pointers are borrowed. */
  tsr_array *array;
  tsr_memory *memory;
  uint32_t version; /* format version of the merged fragments */
  uint64_t start, end; /* times of the merged fragments, inclusive */
  bool duplicates; /* the array allows duplicates */
  char (*names)[128]; /* room for each merged fragment's name: at most TSR_BOXES_MAX */
  uint32_t source_count;
  const tsr_fragment **sources; /* the fragments that are replaced */
  /* Zero at first. */
  uint32_t count; /* merged fragments that exist on disk and are not committed */
  char staged[160]; /* path of the staged commit, or "" */
  char vacuum[160]; /* path of the staged vacuum file, or "" */
  char exchanged[160]; /* path of NAME.vac.ign (replace.c), or "" */
  char decided[160]; /* path of the file that decides that the merge commits (rivals.c), or "" */
} tsr_replacement;

/* Makes a directory for one more merged fragment. `path` receives its path within the array; the caller writes the
 * fragment's files there. */
int tsr__replacement_add(tsr_replacement *replacement, char path[160], tsr_error *error);

/* Commits the merged fragments in place of their sources. All of their files must be complete and durable. TSR_ABORT if
 * another process has merged or vacuumed a source, or has written a fragment at a time between the sources. */
int tsr__replacement_commit(tsr_replacement *replacement, tsr_error *error);

/* Removes the fragments that were added and not committed, and the staged files. Must be called in any case. */
void tsr__replacement_end(tsr_replacement *replacement);

/* Puts into `names`, an empty map, the names of all fragments that vacuum files of the array's listing name. The names
 * are borrowed until the array is listed anew. The function itself lists the array anew if a vacuum file has gone
 * meanwhile. TSR_ABORT if that happens time after time. */
int tsr__replaced(tsr_array *array, tsr_map *names, tsr_error *error);

/* Receives one fragment. A negative result ends the enumeration and is returned. */
typedef int (*tsr_uncommitted_fragment)(void *argument, const char *name, const tsr_name *parsed, tsr_error *error);

/* Calls `found` for each fragment directory that is not committed but may still be: it is less than a day old, or a
 * pending marker of the array's listing names it. Fragments of merges in progress are left out, since they bring no new
 * cells. */
int tsr__uncommitted_fragments(tsr_array *array, tsr_memory *memory, tsr_uncommitted_fragment found, void *argument,
                               tsr_error *error);

#endif
