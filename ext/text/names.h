/* names.h: the names of dimensions, attributes and enumerations in SQL. */
#ifndef TSX_NAMES_H
#define TSX_NAMES_H

#include "tessera.h"

/* The names of all fields of a schema as a table shows them: anonymous fields are attr0, dim1...; a name that collides
 * with an earlier one gets _2, _3...; bytes that are no UTF-8 are %XX. One block for each and one for all, of
 * sqlite3_malloc; NULL: out of memory. */
char **tsx_names_make(const tsr_schema *schema);
void tsx_names_free(char **names, const tsr_schema *schema); /* NULL is fine */

/* TSR_ERROR with this message, and behind it the names from `first` to `end`, as many as there is room for. */
int tsx_names_fail(char *const *names, uint32_t first, uint32_t end, tsr_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* How many bytes the UTF-8 character at p has; 0 if it is none. At most `left` bytes are looked at. */
unsigned tsx_utf8_size(const uint8_t *p, uint64_t left);

/* Any stored name as text: bytes that are no UTF-8 are %XX. sqlite3_malloc'ed. */
char *tsx_name_text(const char *name);

#endif
