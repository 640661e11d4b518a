/* encoding.h: appends base64 to a buffer, and shortens names. tessera_host.h has the other functions of encoding.c,
 * which the extension calls, too. */
#ifndef TSR_BASE_ENCODING_H
#define TSR_BASE_ENCODING_H

#include "base/memory.h"
#include "tessera_host.h"

/* Appends base64. A NUL byte follows it, which `text->size` does not count. */
int tsr__base64_append(tsr_base64 form, const void *bytes, uint64_t size, tsr_buffer *text, tsr_error *error);

/* A name as messages show it beside what they are about: whole, or its beginning and its end, in whole characters. Names
 * may be as long as a message, and would push the rest out of it. */
#define TSR_NAME_SHOWN 67 /* bytes */
typedef struct tsr_shown_name {
  char text[TSR_NAME_SHOWN + 1];
} tsr_shown_name;

tsr_shown_name tsr__shown_name(const char *name);

#endif
