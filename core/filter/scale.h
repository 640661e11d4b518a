/* scale.h: the filter scale_float, which stores floats as scaled integers of fewer bytes and thereby rounds
 * them. */
#ifndef TSR_FILTER_SCALE_H
#define TSR_FILTER_SCALE_H

#include "tessera.h"

/* Returns true if the scaled value, a float of `size` bytes, fits into the filter's integers, so that only its rounding
 * is lost. */
bool tsr__scale_fits(const tsr_filter *filter, uint64_t size, const void *value);

#endif
