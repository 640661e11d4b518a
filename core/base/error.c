/* error.c: the version, the names of the codes, and the functions that fill a tsr_error.
 *
 * A message is always NUL-terminated, valid UTF-8 and one line. Messages quote bytes of files, so each byte of a
 * control character or of invalid UTF-8 becomes '?'. A message that is too long, usually because of its paths, loses
 * whole characters in its middle: the beginning says where the error happened, the end says what is wrong.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tsr_version(void) { return TSR_VERSION; }

const char *tsr_code_name(int rc) {
  switch (rc) {
#define X(name, value, text)                                                                                           \
  case value: return #name;
    TSR_CODES(X)
#undef X
  default: return "UNKNOWN";
  }
}

/* Callers allocate a tsr_error, some of them through FFI declarations of their own, so its size must stay what it was
 * before the subject was added. */
_Static_assert(sizeof(tsr_error) == 1028, "the size of a tsr_error is part of the binary interface");

#define LONGER_SIZE (8 * TSR_MESSAGE_SIZE) /* bytes of a message before it is shortened */

/* Returns the size in bytes of the printable character at p, or 0 for a control character or invalid UTF-8. */
static size_t printable_size(const uint8_t *p, size_t left) {
  static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t size = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;
  if (size == 0 || size > left) return 0;
  if (size == 1) return p[0] >= 0x20 && p[0] != 0x7f;
  uint32_t point = p[0] & (0x7fu >> size);
  for (size_t i = 1; i < size; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    point = point << 6 | (p[i] & 0x3fu);
  }
  bool valid = point >= lowest[size] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  return valid && point >= 0xa0 ? size : 0; /* 0x80 to 0x9f are control characters */
}

static void make_printable(char *text) {
  size_t size = strlen(text);
  for (size_t at = 0; at < size;) {
    size_t step = printable_size((const uint8_t *)text + at, size - at);
    if (step == 0) text[at++] = '?';
    else at += step;
  }
}

/* Returns true for every byte of a UTF-8 character but its first. */
static bool is_continuation(char c) { return ((uint8_t)c & 0xc0) == 0x80; }

/* Shortens valid UTF-8 that is too long for a message, to "front...end". */
static void error_shorten(char *text) {
  size_t size = strlen(text), front = (TSR_MESSAGE_SIZE - 4) / 2, end = size - front;
  if (size < TSR_MESSAGE_SIZE) return;
  while (front > 0 && is_continuation(text[front])) front--;
  while (is_continuation(text[end])) end++;
  memcpy(text + front, "...", 3);
  memmove(text + front + 3, text + end, size - end + 1);
}

static void print(char text[LONGER_SIZE], const char *format, va_list arguments) TSR_PRINTF(2, 0);
static void print(char text[LONGER_SIZE], const char *format, va_list arguments) {
  if (vsnprintf(text, LONGER_SIZE, format, arguments) < 0) snprintf(text, LONGER_SIZE, "%s", format);
  make_printable(text);
}

int tsr__fail(tsr_error *error, int rc, const char *format, ...) {
  if (rc >= 0) rc = TSR_ERROR;
  if (!error) return rc;
  char text[LONGER_SIZE]; /* not error->message, because an argument may be the old message */
  va_list arguments;
  va_start(arguments, format);
  print(text, format, arguments);
  va_end(arguments);
  error_shorten(text);
  error->code = rc;
  error->subject = 0;
  memcpy(error->message, text, strlen(text) + 1);
  return rc;
}

int tsr__wrap(tsr_error *error, const char *format, ...) {
  if (!error) return TSR_ERROR;
  char text[LONGER_SIZE];
  va_list arguments;
  va_start(arguments, format);
  print(text, format, arguments);
  va_end(arguments);
  if (error->code >= 0) error->code = TSR_ERROR;

  const size_t added = strlen(text);
  if (strncmp(error->message, text, added) == 0 && strncmp(error->message + added, ": ", 2) == 0) return error->code;
  size_t old = strnlen(error->message, TSR_MESSAGE_SIZE - 1);
  if (old > 0) {
    error_shorten(text); /* before the old message is appended, so that there is room for it */
    size_t size = strlen(text);
    memcpy(text + size, ": ", 2);
    memcpy(text + size + 2, error->message, old);
    text[size + 2 + old] = 0;
    make_printable(text);
  }
  error_shorten(text);
  memcpy(error->message, text, strlen(text) + 1);
  return error->code;
}
