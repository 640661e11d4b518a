/* index.h: what writers of dimension labels ask of a label's index (tessera.h, "Dimension labels"). */
#ifndef TSR_LABEL_INDEX_H
#define TSR_LABEL_INDEX_H

#include "tessera.h"

/* Returns the label's array. Borrowed until the index is closed. */
tsr_array *tsr__label_array(const tsr_label_index *index);

/* Finds the next run of cells with values, at or behind *cell. Returns false if there is none. */
bool tsr__label_run(const tsr_label_index *index, uint64_t *cell, uint64_t *count);

/* Checks `count` > 0 new values for the coordinates from `first` on, against each other and against the values around
 * them that the index has read, and sets *span to these coordinates. TSR_RANGE: they reach beyond the domain.
 * TSR_CONSTRAINT: the label would not rise or fall strictly any more; the message names the coordinate. */
int tsr__label_place(const tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                     tsr_interval *span, tsr_error *error);

#endif
