/* encoding.c: bytes as text: hexadecimal digits, base64 (RFC 4648), the characters of UTF-8, and names
 * in messages. */
#include "base/encoding.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"

int tsr_hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

void tsr_hex_write(const void *bytes, uint64_t size, char *text) {
  const uint8_t *from = bytes;
  for (uint64_t i = 0; i < size; i++) {
    *text++ = "0123456789abcdef"[from[i] >> 4];
    *text++ = "0123456789abcdef"[from[i] & 15];
  }
  *text = 0;
}

bool tsr_hex_read(const char *text, uint64_t size, void *bytes) {
  uint8_t *to = bytes;
  for (uint64_t i = 0; i < size; i++) {
    const int high = tsr_hex_digit(text[2 * i]), low = high < 0 ? -1 : tsr_hex_digit(text[2 * i + 1]);
    if (low < 0) return false;
    to[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

/* ---- Base64 ------------------------------------------------------------------------------------------------------ */

static const char digits[2][65] = {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"};

uint64_t tsr_base64_write(tsr_base64 form, const void *bytes, uint64_t size, char *text) {
  const uint8_t *from = bytes;
  char *to = text;
  for (uint64_t i = 0; i < size; i += 3) {
    const uint64_t left = TSR_MIN(size - i, 3u);
    uint32_t word = 0;
    for (uint64_t k = 0; k < 3; k++) word = word << 8 | (k < left ? from[i + k] : 0u);
    for (uint64_t k = 0; k <= left; k++) *to++ = digits[form][word >> (18 - 6 * k) & 63];
    for (uint64_t k = left; k < 3 && form == TSR_BASE64; k++) *to++ = '=';
  }
  *to = 0;
  return (uint64_t)(to - text);
}

bool tsr_base64_read(tsr_base64 form, const char *text, uint64_t size, void *bytes, uint64_t *count) {
  uint8_t *to = bytes;
  uint32_t word = 0;
  const bool padded = form == TSR_BASE64 && size > 0 && size % 4 == 0 && text[size - 1] == '=';
  if (padded) size -= text[size - 2] == '=' ? 2 : 1;
  if (size % 4 == 1) return false;
  for (uint64_t i = 0; i < size; i++) {
    const char *digit = text[i] ? strchr(digits[form], text[i]) : NULL;
    if (!digit) return false;
    word = word << 6 | (uint32_t)(digit - digits[form]);
    if (i % 4 > 0) *to++ = (uint8_t)(word >> (6 - 2 * (i % 4)));
  }
  *count = (uint64_t)(to - (uint8_t *)bytes);
  return true;
}

int tsr__base64_append(tsr_base64 form, const void *bytes, uint64_t size, tsr_buffer *text, tsr_error *error) {
  uint64_t room;
  if (!tsr__mul(size / 3 + 1, 4, &room) || !tsr__add(room, 1, &room))
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes are too many for base64", (unsigned long long)size);
  TSR_TRY(tsr__buffer_reserve(text, room, error));
  text->size += tsr_base64_write(form, bytes, size, (char *)text->data + text->size);
  return TSR_OK;
}

/* ---- UTF-8 ------------------------------------------------------------------------------------------------------- */

unsigned tsr_utf8_size(const uint8_t *p, uint64_t left) {
  const uint8_t lead = p[0];
  if (lead < 0x80) return 1;
  const unsigned size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (size == 0 || size > left) return 0;
  for (unsigned i = 1; i < size; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if (lead == 0xE0 && p[1] < 0xA0) return 0; /* an overlong form */
  if (lead == 0xED && p[1] >= 0xA0) return 0; /* a surrogate */
  if (lead == 0xF0 && p[1] < 0x90) return 0;
  if (lead == 0xF4 && p[1] >= 0x90) return 0; /* past U+10FFFF */
  return size;
}

uint64_t tsr_utf8_cut(const void *text, uint64_t size, uint64_t most) {
  const uint8_t *bytes = text;
  if (size <= most) return size;
  for (uint64_t i = 0; i < 4 && i <= most; i++) /* a character has at most 4 bytes; the text may not be UTF-8 */
    if ((bytes[most - i] & 0xC0) != 0x80) return most - i;
  return most;
}

tsr_shown_name tsr__shown_name(const char *name) {
  tsr_shown_name shown;
  const size_t size = strlen(name), part = (TSR_NAME_SHOWN - 3) / 2;
  if (size <= TSR_NAME_SHOWN) {
    memcpy(shown.text, name, size + 1);
    return shown;
  }
  size_t end = size - part;
  while (((uint8_t)name[end] & 0xc0) == 0x80) end++; /* within a character */
  snprintf(shown.text, sizeof shown.text, "%.*s...%s", (int)tsr_utf8_cut(name, size, part), name, name + end);
  return shown;
}
