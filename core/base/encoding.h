/* encoding.h: appends base64 to a buffer. tessera_host.h has the other functions of encoding.c, which the extension
 * calls, too. */
#ifndef TSR_BASE_ENCODING_H
#define TSR_BASE_ENCODING_H

#include "base/memory.h"
#include "tessera_host.h"

/* Appends base64. A NUL byte follows it, which `text->size` does not count. */
int tsr__base64_append(tsr_base64 form, const void *bytes, uint64_t size, tsr_buffer *text, tsr_error *error);

#endif
