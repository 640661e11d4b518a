/* vacuum_fragments.h: the part of a vacuum that removes fragments. */
#ifndef TSR_VACUUM_FRAGMENTS_H
#define TSR_VACUUM_FRAGMENTS_H

#include "maintain/vacuum_files.h"

/* Removes the fragments that .vac files name, with their commits and then the .vac files, and debris: fragments and
 * staged files that no commit and no marker names, and that are a day old. */
int tsr__vacuum_fragments(tsr_vacuum *v, tsr_error *error);

#endif
