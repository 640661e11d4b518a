/* json.h: JSON text of values and boxes. */
#ifndef TSX_JSON_H
#define TSX_JSON_H

#include "connection/sqlite_api.h"
#include "tessera.h"

void tsx_json_value(sqlite3_str *out, tsr_datatype datatype, const void *value, bool datetimes_integer);
void tsx_json_text(sqlite3_str *out, const void *text, uint64_t size); /* a string; bytes that are no UTF-8 are %XX */

/* One end of an interval, or null where it is open. `uint64_signed`, here and below: as with the option uint64=signed. */
void tsx_json_end(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool high,
                  bool uint64_signed);

/* [low, high] */
void tsx_json_interval(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool uint64_signed);

/* {"day":[1,366]}: one interval per dimension, keyed by their names in SQL */
void tsx_json_box(sqlite3_str *out, const tsr_schema *schema, char *const *names, const tsr_interval *intervals,
                  bool uint64_signed);

#endif
