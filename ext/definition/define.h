/* define.h: the column definitions and creation options of CREATE VIRTUAL TABLE . */
#ifndef TSX_DEFINE_H
#define TSX_DEFINE_H

#include "tessera.h"

typedef struct tsx_definition tsx_definition;
typedef struct tsx_options tsx_options;
typedef struct tsx_parser tsx_parser;

void *tsx_parser_take(tsx_parser *p, uint64_t size); /* zeroed; as long as the definition lives */

/* What the tile extent of a dimension is a number of: of floats the datatype itself, else unsigned. */
tsr_datatype tsx_extent_datatype(tsr_datatype datatype);
tsr_datatype tsx_code_datatype(uint64_t labels); /* of the codes of an enumeration that is made */
#define TSX_FORMAT_DEFAULT 22

/* The schema that column definitions and creation options ask for. Released by the caller; on failure there is
 * nothing to release. */
int tsx_define(const tsx_options *options, tsx_definition *definition, tsr_error *error);

/* The same of one attribute: definition->schema has it as its only field, with its enumeration if it has one. */
int tsx_define_attribute(const char *text, tsx_definition *definition, tsr_error *error);
void tsx_definition_release(tsx_definition *definition);

#endif
