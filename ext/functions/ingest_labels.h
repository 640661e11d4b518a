/* ingest_labels.h: columns of tessera_create_as and its kin that are labels of dimensions. */
#ifndef TSX_INGEST_LABELS_H
#define TSX_INGEST_LABELS_H

#include "functions/ingest_call.h"

/* Makes a column the label of a new dimension, which no other column may be called. */
int tsx_ingest_label(tsx_ingest_call *call, tsr_ingest_column *column, const char *dimension, tsr_error *error);

/* Makes the dimensions of all labels dimensions of the array, behind those that the options name. */
void tsx_ingest_label_dimensions(tsx_ingest_call *call);

/* Gives column number `i` the label of its name that the array has to which rows are appended. Returns 1; 0 if the array
 * has none. */
int tsx_ingest_take_label(tsx_ingest_call *call, const tsr_schema *schema, uint32_t i, tsr_error *error);

void tsx_ingest_labels_close(tsx_ingest_call *call);

#endif
