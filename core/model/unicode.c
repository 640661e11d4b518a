/* unicode.c: checks UTF-8, and converts text of TileDB's datatypes (ASCII, UTF8, UTF16, UTF32, UCS2, UCS4) to it. */
#include "model/datatype.h"

#include <string.h>

#include "tessera.h"
#include "base/arithmetic.h"
#include "tessera_host.h"

bool tsr__is_utf8(const uint8_t *bytes, uint64_t size) {
  uint64_t i = 0;
  while (i < size) {
    for (; size - i >= 8 && !(tsr__load64(bytes + i) & UINT64_C(0x8080808080808080));) i += 8;
    if (i == size) return true;
    const unsigned length = tsr_utf8_size(bytes + i, size - i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

static uint64_t utf8_put(uint8_t *out, uint32_t c) {
  if (c < 0x80) {
    out[0] = (uint8_t)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (uint8_t)(0xC0 | c >> 6);
    out[1] = (uint8_t)(0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = (uint8_t)(0xE0 | c >> 12);
    out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c & 0x3F));
    return 3;
  }
  out[0] = (uint8_t)(0xF0 | c >> 18);
  out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
  out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
  out[3] = (uint8_t)(0x80 | (c & 0x3F));
  return 4;
}

static uint32_t unicode_unit(const uint8_t *p, uint64_t unit) {
  uint16_t narrow;
  uint32_t wide;
  if (unit == 2) memcpy(&narrow, p, sizeof narrow);
  else memcpy(&wide, p, sizeof wide);
  return unit == 2 ? narrow : wide;
}

uint64_t tsr_text_to_utf8(tsr_datatype datatype, const void *bytes, uint64_t size, uint8_t *out) {
  const uint64_t unit = tsr_datatype_size(datatype), units = size / unit;
  const uint8_t *p = bytes;
  uint64_t n = 0;
  if (unit == 1) {
    if (size > 0) memcpy(out, p, size);
    return size;
  }
  for (uint64_t i = 0; i < units; i++) {
    uint32_t c = unicode_unit(p + i * unit, unit);
    if (unit == 2 && c >= 0xD800 && c < 0xDC00 && i + 1 < units) {
      const uint32_t low = unicode_unit(p + (i + 1) * 2, 2);
      if (low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        i++;
      }
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
    n += utf8_put(out + n, c);
  }
  if (size % unit) n += utf8_put(out + n, 0xFFFD);
  return n;
}
