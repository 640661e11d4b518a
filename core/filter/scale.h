/* scale.h: the filter scale_float, which rounds floats and stores them as scaled integers of fewer bytes. */
#ifndef TSR_FILTER_SCALE_H
#define TSR_FILTER_SCALE_H

#include "tessera.h"

/* Returns true if the scaled value, a float of `size` bytes, is in the range of the filter's integers, so that only
 * rounding loses information. */
bool tsr__scale_fits(const tsr_filter *filter, uint64_t size, const void *value);

#endif
