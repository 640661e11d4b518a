/* filter_names.h: filters and orders as SQL names them, in definitions, in tessera_ddl and in the tables of schemas. */
#ifndef TSX_FILTER_NAMES_H
#define TSX_FILTER_NAMES_H

#include "tessera.h"

/* Returns the name of a filter, such as "zstd"; NULL for TSR_FILTER_NONE and for a number that is no filter. */
const char *tsx_filter_name(tsr_filter_type type);

/* Returns the name of an order: "row", "col", "global", "hilbert", "unordered". */
const char *tsx_order_name(tsr_order order);

#endif
