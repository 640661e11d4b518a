/* filter_version.h: predicates for the features of filters that a format version has. Those for all other features are
 * in format/layout.h. */
#ifndef TSR_FILTER_VERSION_H
#define TSR_FILTER_VERSION_H

#include "base/memory.h"

/* Returns true if RLE or dictionary (`type`) stores the offsets of strings of this datatype within its data. */
static inline bool tsr__filter_version_holds_offsets(uint32_t version, tsr_filter_type type, tsr_datatype datatype) {
  if (datatype == TSR_UTF8) return version >= 17;
  return datatype == TSR_ASCII && version >= (type == TSR_FILTER_RLE ? 12u : 13u);
}

/* Returns true if the options of this filter, delta or double delta, include a datatype. */
static inline bool tsr__filter_version_has_reinterpret(uint32_t version, tsr_filter_type type) {
  return (type == TSR_FILTER_DOUBLE_DELTA && version >= 20) || (type == TSR_FILTER_DELTA && version >= 19);
}

/* Returns true if bit width reduction and positive delta also work on datetimes and times. */
static inline bool tsr__filter_version_packs_times(uint32_t version) { return version >= 20; }

#endif
