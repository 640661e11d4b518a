/* unicode.h: text of TileDB's datatypes as UTF-8. */
#ifndef TSR_UNICODE_H
#define TSR_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the bytes are UTF-8: shortest forms, no surrogates, nothing past U+10FFFF. */
bool tsr__is_utf8(const uint8_t *bytes, uint64_t size);

#endif
