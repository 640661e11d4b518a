/* duration.h: which TIME fields and dimension labels of an array are durations, and not times of day. The datatype does
 * not tell, so an array keeps for each of them a metadatum under the key TSR_KEY_DURATION and its name, whatever the
 * metadatum's value; TileDB ignores them. A reader of a schema sets `duration` of its fields and labels by them. */
#ifndef TSR_FORMAT_DURATION_H
#define TSR_FORMAT_DURATION_H

#include "base/memory.h"

/* Returns true if a field or label of the schema may be a duration: it is of a TIME datatype. */
bool tsr__durations_possible(const tsr_schema *schema);

/* Sets `duration` of the fields and labels that the metadata name. */
void tsr__durations_mark(tsr_schema *schema, const tsr_metadata *metadata);

/* Appends the metadata of all durations of a schema to the content of a file of metadata; nothing if there are none. On
 * an error `out` may have some of them. */
int tsr__durations_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error);

#endif
