/* filter_names.h: the names of filters and orders in SQL: in column definitions, in tessera_ddl and in tessera_schema. */
#ifndef TSX_FILTER_NAMES_H
#define TSX_FILTER_NAMES_H

#include "tessera.h"

/* Returns the name of a filter, such as "zstd", or NULL for TSR_FILTER_NONE and for a number that is not a filter. */
const char *tsx_filter_name(tsr_filter_type type);

/* Returns the name of an order: "row", "col", "global", "hilbert", "unordered". */
const char *tsx_order_name(tsr_order order);

#endif
