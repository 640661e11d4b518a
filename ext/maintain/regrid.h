/* regrid.h: tessera_regrid, and the step that it shares with tessera_overviews: a new array made of another's blocks. */
#ifndef TSX_REGRID_H
#define TSX_REGRID_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/address.h"
#include "sql/json.h"

#define TSX_OVERVIEWS_KEY "tessera_overviews" /* the metadata that describes an array's overviews */

/* Makes the array `to`, a directory or 'db:NAME', of the blocks of a snapshot of from->array. It appears complete or not
 * at all. If describe is true, it gets the source's metadata, and the labels of dimensions whose factor is 1. `note` is
 * the text of its metadata key `key`. *cells: the number of cells that were written. In the database a savepoint stays
 * open: tsx_savepoint_end ends it, after a failure too. */
int tsx_regrid_make(tsx_address *from, tsr_snapshot *snapshot, const tsr_regrid_request *request, const char *to,
                    bool describe, const char *key, const char *note, uint64_t *cells, tsr_error *error);

/* Sets a key of an array's metadata to a text. */
int tsx_metadata_set_text(tsr_array *array, const char *key, const char *text, tsr_error *error);

/* Finds the method with this name. */
int tsx_regrid_method_parse(const char *name, tsr_regrid_method *method, tsr_error *error);

/* Reads the option "columns", an array of names of attributes, into `fields`, which has one element for each field. */
int tsx_regrid_columns_parse(sqlite3 *db, sqlite3_value *value, const tsr_schema *schema, char *const *names,
                             bool *fields, tsr_error *error);

void tsx_regrid(sqlite3_context *context, int count,
                sqlite3_value **values); /* (from, to, factors, method[, options]) */

#endif
