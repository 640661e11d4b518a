/* replace.h: what the files of consolidation and vacuum share. interleave.c: cells of several sources become one stream;
 * merge.c: sorted sources become one in global order; merge_sparse.c, merge_dense.c: fragments become a merged one;
 * consolidate.c: which fragments; replace.c: how they are replaced; consolidate_files.c: commits, footers and metadata;
 * vacuum.c: what was replaced goes.
 */
#ifndef TSR_REPLACE_H
#define TSR_REPLACE_H

#include "base/map.h"
#include "array/fragment.h"

typedef struct tsr_replacement { /* array, memory, version, names (room for TSR_BOXES_MAX) are set; end takes back what
                                  * is not committed */
  tsr_array *array;
  tsr_memory *memory;
  uint32_t version; /* of the merged fragments */
  uint64_t start, end; /* their times */
  uint32_t count; /* merged fragments on disk */
  char (*names)[128];
  uint32_t source_count;
  const tsr_fragment **sources;
  char staged[160], vacuum[160]; /* the commit and the vacuum file before they have their names, or '' */
} tsr_replacement;

/* A new directory for one more merged fragment, which is to be written: `path`, of the array, is its place. */
int tsr__replacement_add(tsr_replacement *replacement, char path[160], tsr_error *error);

/* They are whole and on disk: now they count, and the sources no more. TSR_ABORT if others have changed what is merged. */
int tsr__replacement_commit(tsr_replacement *replacement, tsr_error *error);
void tsr__replacement_end(tsr_replacement *replacement);

/* The names of all that vacuum files of the array's listing name, which is made anew where one of them has gone since. They
 * live as long as the listing. `names` is empty. */
int tsr__replaced(tsr_array *array, tsr_map *names, tsr_error *error);

/* Calls `found` for each fragment that is not committed and that a writer may still commit: less than a day old, or named by
 * a pending marker of the array's listing, and not of a merge, whose fragments bring nothing new. A negative result ends it. */
typedef int (*tsr_young_fragment)(void *argument, const char *name, const tsr_name *parsed, tsr_error *error);

int tsr__young_fragments(tsr_array *array, tsr_memory *memory, tsr_young_fragment found, void *argument,
                         tsr_error *error);

#endif
