/* error.c: the names of the codes, and the one way in which a tsr_error is filled.
 *
 * Invariants of a message: NUL-terminated, valid UTF-8, one line. Messages quote bytes of files, so what would move a
 * terminal's cursor or is no UTF-8 becomes '?', byte by byte. What is too long loses its end, never half a character.
 */
#include <stdio.h>

#include "base.h"

const char *tsr_code_name(int code) {
  switch (code) {
#define X(name, value, text)                                                                                           \
  case value: return #name;
    TSR_CODES(X)
#undef X
  default: return "UNKNOWN";
  }
}

/* Bytes of the printable character at p; 0 if there is none: a control, or no UTF-8. *cut: the end came first. */
static size_t character(const uint8_t *p, size_t left, bool *cut) {
  static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t size = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
  *cut = false;
  if (size == 0) return 0;
  if (size == 1) return p[0] >= 0x20 && p[0] != 0x7f;
  uint32_t point = p[0] & (0x7fu >> size);
  for (size_t i = 1; i < size; i++) {
    if (i == left) {
      *cut = true;
      return 0;
    }
    if ((p[i] & 0xc0) != 0x80) return 0;
    point = point << 6 | (p[i] & 0x3fu);
  }
  bool valid = point >= lowest[size] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  return valid && point >= 0xa0 ? size : 0; /* 0x80 to 0x9f are controls, too */
}

static void make_printable(char *text, bool truncated) {
  size_t size = strlen(text);
  for (size_t at = 0; at < size;) {
    bool cut;
    size_t step = character((const uint8_t *)text + at, size - at, &cut);
    if (cut && truncated) {
      text[at] = 0;
      return;
    }
    if (step == 0) text[at++] = '?';
    else at += step;
  }
}

static void print(char text[TSR_MESSAGE_SIZE], const char *format, va_list arguments) TSR_PRINTF(2, 0);
static void print(char text[TSR_MESSAGE_SIZE], const char *format, va_list arguments) {
  int length = vsnprintf(text, TSR_MESSAGE_SIZE, format, arguments);
  if (length < 0) snprintf(text, TSR_MESSAGE_SIZE, "%s", format);
  make_printable(text, length >= TSR_MESSAGE_SIZE);
}

int tsr__fail(tsr_error *error, int code, const char *format, ...) {
  if (code >= 0) code = TSR_ERROR;
  if (!error) return code;
  char text[TSR_MESSAGE_SIZE]; /* an argument may be the old message */
  va_list arguments;
  va_start(arguments, format);
  print(text, format, arguments);
  va_end(arguments);
  error->code = code;
  memcpy(error->message, text, strlen(text) + 1);
  return code;
}

int tsr__wrap(tsr_error *error, const char *format, ...) {
  if (!error) return TSR_ERROR;
  char text[TSR_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  print(text, format, arguments);
  va_end(arguments);
  if (error->code >= 0) error->code = TSR_ERROR;

  size_t size = strlen(text), old = strnlen(error->message, TSR_MESSAGE_SIZE - 1);
  if (old > 0 && size + 2 < TSR_MESSAGE_SIZE) {
    size_t room = TSR_MESSAGE_SIZE - 1 - size - 2, keep = TSR_MIN(old, room);
    memcpy(text + size, ": ", 2);
    memcpy(text + size + 2, error->message, keep);
    text[size + 2 + keep] = 0;
    make_printable(text, keep < old);
  }
  memcpy(error->message, text, strlen(text) + 1);
  return error->code;
}
