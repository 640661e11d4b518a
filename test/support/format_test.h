/* format_test.h: what the tests of core/format share: making bytes, also from hexadecimal text, and decoding them with
 * every kind of damage. Input is copied to blocks of its exact size, so that AddressSanitizer sees a read beyond its end.
 */
#ifndef FORMAT_TEST_H
#define FORMAT_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/input.h"
#include "base/memory.h"

/* ---- Memory: room_close checks that all of it was given back ---- */

typedef struct room {
  tsr_memory root, memory;
  tsr_arena arena;
} room;

static inline void room_open(room *r, uint64_t limit) {
  *r = (room){0};
  tsr__memory_init_root(&r->root, NULL, NULL);
  tsr__memory_init(&r->memory, &r->root, limit, "test");
  tsr__arena_init(&r->arena, &r->memory);
}

static inline void room_close(room *r) {
  tsr__arena_release(&r->arena);
  assert_int_equal(r->memory.used, 0);
}

/* ---- Making bytes ---- */

typedef struct bytes {
  uint8_t *data;
  uint64_t size, room;
} bytes;

static inline void put(bytes *b, const void *data, uint64_t size) {
  if (b->size + size >= b->room) b->data = realloc(b->data, b->room = 2 * (b->size + size) + 64);
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
}
static inline void put8(bytes *b, uint8_t v) { put(b, &v, 1); }
static inline void put32(bytes *b, uint32_t v) { put(b, &v, 4); }
static inline void put64(bytes *b, uint64_t v) { put(b, &v, 8); }
static inline void put_text(bytes *b, const char *text) { put(b, text, strlen(text)); }
static inline void put_text32(bytes *b, const char *text) {
  put32(b, (uint32_t)strlen(text));
  put_text(b, text);
}
static inline void put_text64(bytes *b, const char *text) {
  put64(b, strlen(text));
  put_text(b, text);
}
static inline void put_hex(bytes *b, const char *text) {
  for (; *text; text += 2) {
    unsigned value;
    assert_int_equal(sscanf(text, "%2x", &value), 1);
    put8(b, (uint8_t)value);
  }
}
static inline void drop(bytes *b) {
  free(b->data);
  *b = (bytes){0};
}
/* Returns a copy in a block of exactly its size. */
static inline bytes exact(const void *data, uint64_t size) {
  bytes b = {malloc(size ? size : 1), size, size};
  if (size) memcpy(b.data, data, size);
  return b;
}

/* ---- Damage ---- */

/* Decodes an object and discards it. Memory that it leaves in the arena does not matter. */
typedef int (*decode_function)(tsr_input in, tsr_arena *arena, tsr_error *error);

/* Decodes a copy of the bytes within a budget of `limit` bytes. Checks that an error has a message, and the code that is
 * returned. */
static inline int decode_once(decode_function decode, const uint8_t *data, uint64_t size, uint64_t limit,
                              tsr_error *error) {
  room r;
  room_open(&r, limit);
  bytes copy = exact(data, size);
  *error = (tsr_error){0};
  int code = decode(tsr__input(copy.data, copy.size), &r.arena, error);
  if (code < 0) {
    assert_int_equal(code, error->code);
    assert_true(error->message[0]);
  }
  drop(&copy);
  room_close(&r);
  return code;
}

/* Fails the test unless decoding returns `code` with a message that contains `says`. */
static inline void assert_refused(decode_function decode, const bytes *b, int code, const char *says) {
  tsr_error error;
  int got = decode_once(decode, b->data, b->size, UINT64_MAX, &error);
  if (got != code || !strstr(error.message, says))
    fail_msg("%s \"%s\" instead of %s with \"%s\"", tsr_code_name(got), error.message, tsr_code_name(code), says);
}

static inline void assert_accepted(decode_function decode, const bytes *b) {
  tsr_error error;
  int code = decode_once(decode, b->data, b->size, UINT64_MAX, &error);
  if (code < 0) fail_msg("%s %s", tsr_code_name(code), error.message);
}

/* Checks that every proper prefix of valid bytes is refused as damaged. */
static inline void assert_truncation_refused(decode_function decode, const bytes *b) {
  assert_accepted(decode, b);
  for (uint64_t size = 0; size < b->size; size++) {
    tsr_error error;
    int code = decode_once(decode, b->data, size, UINT64_MAX, &error);
    if (code != TSR_CORRUPT) fail_msg("%s at %llu bytes", tsr_code_name(code), (unsigned long long)size);
  }
}

/* Flips every bit, sets every byte to 0 and 255, and every u32 and u64 to the maximum and to 2^31, 2^32 and 2^60. The result
 * does not matter, but decoding must return, and it must refuse a size that the bytes claim before it allocates memory for
 * it: decoding takes no more than CLAIMS_MAX bytes. */
#ifndef CLAIMS_MAX
#define CLAIMS_MAX(size) (((uint64_t)64 << 10) + 64 * (size))
#define CLAIMS_REFUSED   1
#else
#define CLAIMS_REFUSED 0 /* with the budget that the test has defined, TSR_BUDGET is allowed */
#endif
static inline void survive_flips(decode_function decode, const bytes *b) {
  static const uint64_t claims[] = {UINT64_MAX, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 60};
  for (uint64_t at = 0; at < b->size; at++)
    for (int kind = 0; kind < 15; kind++) {
      bytes copy = exact(b->data, b->size);
      uint64_t width = kind < 10 ? 1 : kind == 10 ? 4 : 8;
      if (kind < 8) copy.data[at] ^= (uint8_t)(1 << kind);
      else if (kind < 11) memset(copy.data + at, kind == 8 ? 0 : 255, TSR_MIN(width, b->size - at));
      else memcpy(copy.data + at, &claims[kind - 11], TSR_MIN(width, b->size - at));
      tsr_error error;
      const int code = decode_once(decode, copy.data, copy.size, CLAIMS_MAX(copy.size), &error);
      if (CLAIMS_REFUSED && code == TSR_BUDGET)
        fail_msg("byte %llu, kind %d: %s", (unsigned long long)at, kind, error.message);
      drop(&copy);
    }
}

/* Checks that decoding returns TSR_BUDGET under each budget that is too small, and that some budget suffices. */
static inline void assert_budgets(decode_function decode, const bytes *b) {
  uint64_t limit = 0, refused = 0;
  tsr_error error;
  for (;; limit += 64) {
    int code = decode_once(decode, b->data, b->size, limit, &error);
    if (code >= 0) break;
    assert_int_equal(code, TSR_BUDGET);
    refused++;
    assert_true(limit < (uint64_t)16 << 20);
  }
  assert_true(refused > 0);
}

#endif
