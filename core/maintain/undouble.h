/* undouble.h: takes back merges that have made cells appear twice. */
#ifndef TSR_UNDOUBLE_H
#define TSR_UNDOUBLE_H

#include "base/error.h"

typedef struct tsr_array tsr_array;

/* In an array that allows duplicates: takes back each merged fragment whose cells are seen twice (doubled.h), as long as
 * all of its sources are still committed. What cannot be taken back stays, and tessera_check reports it. The array must
 * have been listed; it is listed anew if a merge was taken back. */
int tsr__undouble(tsr_array *array, tsr_error *error);

#endif
