/* doubled.h: finds merged fragments that have cells which are elsewhere, too. In an array that allows duplicates readers
 * see such cells twice. */
#ifndef TSR_DOUBLED_H
#define TSR_DOUBLED_H

#include "array/unfinished.h"

typedef struct tsr_array tsr_array;

typedef struct tsr_doubled { /* names are borrowed from the vacuum files */
  const char *merged; /* a committed merged fragment that has cells twice, or cells that `other` has; NULL: none */
  const char *other; /* another committed merged fragment; or `merged` itself */
  const char *source; /* the fragment whose cells are there twice */
} tsr_doubled;

/* Finds a merged fragment in `committed` whose sources, or their sources in turn, were merged twice: it was made of a
 * merged fragment and of one of that fragment's sources, or another visible fragment has the same source. `files` are
 * the vacuum files of the array. */
int tsr__find_doubled(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_doubled *doubled,
                      tsr_error *error);

/* The same by the array's listing. Without duplicates, and if the vacuum files are those for which the last call found
 * nothing, nothing is looked for. Names are borrowed until the array is listed anew. */
int tsr__array_find_doubled(tsr_array *array, tsr_doubled *doubled, tsr_error *error);

#endif
