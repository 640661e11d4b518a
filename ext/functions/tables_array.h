/* tables_array.h: the tables that look inside an array: tessera_array, tessera_schema, tessera_enumeration,
 * tessera_fragments, tessera_tiles. */
#ifndef TSX_TABLES_ARRAY_H
#define TSX_TABLES_ARRAY_H

#include "tessera.h"
#include "table/address.h"

typedef struct tsx_scan tsx_scan;

typedef struct tsx_inside { /* what tables that look inside an array have at hand; first in their states */
  tsx_address address;
  tsx_snapshot *snapshot; /* NULL where only the schema is asked for */
  const tsr_schema *schema;
  char **names;
} tsx_inside;

int tsx_inside_open(tsx_scan *scan, int arguments, bool fragments, tsr_error *error);
void tsx_inside_close(tsx_scan *scan);

/* The enumeration of this name, as tessera_schema shows it, or else of the attribute that has it. */
int tsx_enumeration_find(const tsx_address *address, const tsr_schema *schema, const char *asked,
                         const tsr_enumeration **found, tsr_error *error);

#endif
