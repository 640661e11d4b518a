/* npy.h: tessera_npy and tessera_write_npy, which read and write blocks of dense arrays as NPY files (numpy's formats 1.0
 * to 3.0). */
#ifndef TSX_NPY_H
#define TSX_NPY_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Finds the attribute that a table shows under `name`. `array` names the array in the error message. */
int tsx_attribute_find(const tsr_schema *schema, const char *array, const char *name, uint32_t *field,
                       tsr_error *error);

/* Reads an NPY file with one axis as cells of a field with one value in a cell. *cells is borrowed from `value`, or it is
 * *copy, of sqlite3_malloc, which the caller frees, after a failure too. TSR_MISMATCH: the file has another type or
 * shape. */
int tsx_npy_vector(sqlite3_value *value, const tsr_field *field, const void **cells, uint64_t *count, uint8_t **copy,
                   tsr_error *error);

void tsx_npy(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_write_npy(sqlite3_context *context, int count, sqlite3_value **values);

#endif
