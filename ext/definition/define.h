/* define.h: makes a schema from the column definitions and creation options of CREATE VIRTUAL TABLE ... USING
 * tessera(...), or from the definition of one attribute. */
#ifndef TSX_DEFINE_H
#define TSX_DEFINE_H

#include "tessera.h"

typedef struct tsx_definition tsx_definition;
typedef struct tsx_options tsx_options;
typedef struct tsx_parser tsx_parser;

#define TSX_FORMAT_DEFAULT 22

/* Returns zeroed memory that tsx_definition_release frees, or NULL with an error (which may be NULL in the parser). */
void *tsx_parser_alloc(tsx_parser *p, uint64_t size);

/* Returns the datatype in which a tile extent is written: for floats the dimension's own, for all others the unsigned
 * integer of the same size. */
tsr_datatype tsx_extent_datatype(tsr_datatype datatype);

/* Returns the datatype of the codes of a new enumeration with this number of labels. */
tsr_datatype tsx_code_datatype(uint64_t labels);

/* Makes the schema that the column definitions and creation options ask for. The caller releases the definition; after
 * an error there is nothing to release. */
int tsx_define(const tsx_options *options, tsx_definition *definition, tsr_error *error);

/* Makes a schema whose only field is the attribute that `text` defines, with its enumeration if it has one. */
int tsx_define_attribute(const char *text, tsx_definition *definition, tsr_error *error);
void tsx_definition_release(tsx_definition *definition);

#endif
