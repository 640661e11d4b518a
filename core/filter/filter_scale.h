/* filter_scale.h: floats stored as integers of fewer bytes; loses what the scale does not reach. */
#ifndef TSR_FILTER_SCALE_H
#define TSR_FILTER_SCALE_H

#include "tessera.h"

/* Does scale_float keep the value, of `size` bytes, but for its rounding? */
bool tsr__scale_fits(const tsr_filter *filter, uint64_t size, const void *value);

#endif
