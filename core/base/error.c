/* error.c: the version, the names of the codes, and the functions that fill a tsr_error.
 *
 * A message is always NUL-terminated, valid UTF-8 and one line. Messages quote bytes of files, so each byte of a
 * control character or of invalid UTF-8 becomes '?', but tabs and line ends become spaces. A message that is too long,
 * usually because of its paths, loses whole characters in its middle: the beginning says where the error happened, the
 * end says what is wrong. Texts that `%.64s` shortens lose whole characters, too: the C library cuts at a byte, so each
 * such text is marked while it is printed, and what is left of a character before a mark goes.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tessera_host.h"

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
#define FORMAT_SIZE 2048 /* bytes of a format with its marks */
#define CUT_MARK    "\x01\x02\x01" /* after a text that a precision may have cut, perhaps within a character */

/* Returns the size in bytes of the printable character at p, or 0 for a control character or invalid UTF-8. */
static size_t printable_size(const uint8_t *p, size_t left) {
  const size_t size = tsr_utf8_size(p, left);
  if (size == 1) return p[0] >= 0x20 && p[0] != 0x7f;
  return size == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : size; /* U+0080 to U+009F are control characters */
}

/* Returns true for every byte of a UTF-8 character but its first. */
static bool is_continuation(char c) { return ((uint8_t)c & 0xc0) == 0x80; }

/* Returns how many bytes at p are the beginning of a character whose other bytes `%.64s` and the like have cut off; 0
 * if there is no such beginning. */
static size_t cut_size(const char *p) {
  const uint8_t first = (uint8_t)*p;
  const size_t whole = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  size_t size = 1;
  while (is_continuation(p[size])) size++;
  return size < whole && strncmp(p + size, CUT_MARK, strlen(CUT_MARK)) == 0 ? size : 0;
}

/* Removes marks of cuts and what is left of cut characters, and replaces what is not printable. */
static void make_printable(char *text) {
  char *to = text;
  for (const char *from = text, *end = text + strlen(text); from < end;) {
    const size_t size = printable_size((const uint8_t *)from, (size_t)(end - from)), cut = cut_size(from);
    if (size > 0) {
      memmove(to, from, size);
      to += size;
      from += size;
    } else if (strncmp(from, CUT_MARK, strlen(CUT_MARK)) == 0) {
      from += strlen(CUT_MARK);
    } else if (cut > 0) {
      from += cut;
    } else {
      *to++ = strchr("\t\n\r", *from) ? ' ' : '?'; /* SQL that a message quotes may have several lines */
      from++;
    }
  }
  *to = 0;
}

/* Copies a format, with a mark after each text that has a precision. Returns false if it is too long. */
static bool mark_cuts(const char *format, char marked[FORMAT_SIZE]) {
  size_t size = 0;
  while (*format) {
    size_t length = 1;
    bool cut = false;
    if (*format == '%') {
      length += strspn(format + 1, "0123456789.*-");
      cut = memchr(format, '.', length) && format[length] == 's';
      if (format[length]) length++;
    }
    if (size + length + strlen(CUT_MARK) >= FORMAT_SIZE) return false;
    memcpy(marked + size, format, length);
    size += length;
    format += length;
    if (cut) memcpy(marked + size, CUT_MARK, strlen(CUT_MARK)), size += strlen(CUT_MARK);
  }
  marked[size] = 0;
  return true;
}

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
  char marked[FORMAT_SIZE];
  if (vsnprintf(text, LONGER_SIZE, mark_cuts(format, marked) ? marked : format, arguments) < 0)
    snprintf(text, LONGER_SIZE, "%s", format);
  make_printable(text);
}

int tsr_error_set(tsr_error *error, int code, const char *format, va_list arguments) {
  char text[LONGER_SIZE]; /* not error->message, because an argument may be the old message */
  if (code >= 0) code = TSR_ERROR;
  if (!error) return code;
  print(text, format, arguments);
  error_shorten(text);
  error->code = code;
  error->subject = 0;
  memcpy(error->message, text, strlen(text) + 1);
  return code;
}

int tsr__fail(tsr_error *error, int rc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  rc = tsr_error_set(error, rc, format, arguments);
  va_end(arguments);
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
