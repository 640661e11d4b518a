/* ingest_labels.h: columns of an ingest that become labels of dimensions. */
#ifndef TSR_INGEST_LABELS_H
#define TSR_INGEST_LABELS_H

#include "ingest/ingest.h"

/* Replaces the values of all columns that are labels by coordinates, when all rows are there and all columns have a
 * datatype. TSR_CONSTRAINT: values of this type cannot be labels; TSR_RANGE: the label, which exists, lacks a value. */
int tsr__ingest_recode_labels(tsr_ingest *ingest, tsr_error *error);

/* Adds the labels to a schema that has its dimensions. */
int tsr__ingest_label_schemas(tsr_ingest *ingest, tsr_schema *schema, tsr_error *error);

/* Writes the values of all labels into an array that was made with the schema. */
int tsr__ingest_write_labels(tsr_ingest *ingest, tsr_array *array, tsr_error *error);

void tsr__ingest_release_labels(tsr_ingest *ingest);

#endif
