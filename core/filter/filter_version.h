/* filter_version.h: the format version that each feature of filters came with. format/layout.h has those of all
 * else. */
#ifndef TSR_FILTER_VERSION_H
#define TSR_FILTER_VERSION_H

#include "base/memory.h"

/* RLE and dictionary store the offsets of strings of this datatype themselves. `type`: one of the two. */
static inline bool filter_version_holds_offsets(uint32_t version, tsr_filter_type type, tsr_datatype datatype) {
  if (datatype == TSR_UTF8) return version >= 17;
  return datatype == TSR_ASCII && version >= (type == TSR_FILTER_RLE ? 12u : 13u);
}

/* Delta and double delta have a datatype among their options. */
static inline bool filter_version_has_reinterpret(uint32_t version, tsr_filter_type type) {
  return (type == TSR_FILTER_DOUBLE_DELTA && version >= 20) || (type == TSR_FILTER_DELTA && version >= 19);
}

/* Bit width reduction and positive delta work on datetimes and times. */
static inline bool filter_version_packs_times(uint32_t version) { return version >= 20; }

#endif
