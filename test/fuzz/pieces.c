/* pieces.c: divides stored files into pieces, whose contents a fuzzer can change under compression and encryption (fuzz.h has
 * the bytes). */

#include <string.h>

#include "base/arithmetic.h"
#include "base/input.h"
#include "format/generic_tile.h"
#include "fuzz.h"

enum { RAW, TILE };

void pieces_read(tsr_input *in, pieces *p) {
  uint8_t count = tsr__input_u8(in);
  p->count = 0;
  if (count == 0) {
    uint64_t size;
    const uint8_t *bytes = fuzz_take(in, FUZZ_INPUT, &size);
    p->items[p->count++] = (piece){.kind = RAW, .bytes = bytes, .size = (uint32_t)size};
    return;
  }
  for (; count > 0 && p->count < PIECES_MAX && !in->failed; count--) {
    piece *one = &p->items[p->count];
    *one = (piece){.kind = tsr__input_u8(in) & 1, .size = tsr__input_u32(in)};
    if (one->kind == TILE) {
      one->version = tsr__input_u8(in);
      one->place = tsr__input_u32(in);
    }
    if (in->failed) return;
    uint64_t size;
    one->bytes = fuzz_take(in, one->size, &size);
    one->size = (uint32_t)size;
    p->count++;
  }
}

static void put(tsr_buffer *out, const void *bytes, uint64_t size) {
  CHECK(tsr__buffer_append(out, bytes, size, NULL) == TSR_OK);
}
static void put8(tsr_buffer *out, uint8_t value) { put(out, &value, 1); }
static void put32(tsr_buffer *out, uint32_t value) { put(out, &value, 4); }
static void put64(tsr_buffer *out, uint64_t value) { put(out, &value, 8); }

void pieces_write(const pieces *p, tsr_buffer *out) {
  put8(out, (uint8_t)p->count);
  if (p->count == 0) put8(out, 1), put8(out, RAW), put32(out, 0);
  for (uint32_t i = 0; i < p->count; i++) {
    const piece *one = &p->items[i];
    put8(out, one->kind);
    put32(out, one->size);
    if (one->kind == TILE) {
      put8(out, one->version);
      put32(out, one->place);
    }
    put(out, one->bytes, one->size);
  }
}

void pieces_generic_tile(const uint8_t *content, uint64_t size, uint8_t version, const style *how, tsr_buffer *out) {
  if (how->filtered) {
    tsr_error error = {0};
    if (tsr__generic_tile_encode(content, size, version, how->key, out, &error) < 0)
      fprintf(stderr, "%s\n", error.message);
    CHECK(error.code == TSR_OK);
    return;
  }
  put32(out, version); /* without filters the tile is one chunk; generic_tile.c describes the bytes */
  put64(out, 8 + 12 + size);
  put64(out, size);
  put8(out, TSR_CHAR);
  put64(out, 1);
  put8(out, 0);
  put32(out, 8);
  put32(out, 65536);
  put32(out, 0);
  put64(out, 1);
  put32(out, (uint32_t)size);
  put32(out, (uint32_t)size);
  put32(out, 0);
  put(out, content, size);
}

/* Replaces old offsets of tiles by their new ones; the bytes are not aligned. */
static void move_places(uint8_t *bytes, uint64_t size, const uint32_t *from, const uint64_t *to, uint32_t count) {
  for (uint64_t at = 0; at + 8 <= size; at++) {
    uint64_t value = tsr__load64(bytes + at);
    if (value == 0 || value > UINT32_MAX) continue;
    for (uint32_t i = 0; i < count; i++) {
      if (from[i] != value) continue;
      tsr__store64(bytes + at, to[i]);
      at += 7;
      break;
    }
  }
}

void pieces_join(const pieces *p, const style *how, tsr_buffer *out) {
  uint32_t from[PIECES_MAX], count = 0;
  uint64_t to[PIECES_MAX], begin = out->size, last = begin;
  for (uint32_t i = 0; i < p->count; i++) {
    const piece *one = &p->items[i];
    last = out->size;
    if (one->kind == TILE) {
      from[count] = one->place;
      to[count++] = out->size - begin;
      pieces_generic_tile(one->bytes, one->size, one->version, how, out);
    } else {
      put(out, one->bytes, one->size);
    }
  }
  if (p->count > 1 && p->items[p->count - 1].kind == RAW && out->size > last)
    move_places(out->data + last, out->size - last, from, to, count);
}

void pieces_cut(const uint8_t *bytes, uint64_t size, const uint8_t *key, tsr_arena *arena, pieces *p) {
  uint64_t at = 0;
  p->count = 0;
  while (at < size && p->count + 1 < PIECES_MAX) {
    tsr_buffer content = {.memory = arena->memory};
    tsr_generic_tile header;
    uint64_t consumed;
    void *copy;
    if (tsr__generic_tile_decode(bytes + at, size - at, key, FUZZ_INPUT, &content, &header, &consumed, NULL) < 0) {
      tsr__buffer_release(&content);
      break;
    }
    CHECK(tsr__arena_copy(arena, content.data, content.size, &copy, NULL) == TSR_OK);
    p->items[p->count++] = (piece){TILE, (uint8_t)header.version, (uint32_t)at, copy, (uint32_t)content.size};
    tsr__buffer_release(&content);
    at += consumed;
  }
  if (at < size || p->count == 0)
    p->items[p->count++] = (piece){.kind = RAW, .bytes = bytes + at, .size = (uint32_t)(size - at)};
}

/* ---- Mutation --------------------------------------------------------------------------------------------------- */

/* Numbers that are at the limits of sizes and counts. */
static uint64_t odd_number(uint64_t *state, uint64_t size, uint64_t present) {
  static const uint64_t numbers[] = {0,
                                     1,
                                     2,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x100,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x10000,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     (uint64_t)1 << 48,
                                     INT64_MAX,
                                     (uint64_t)INT64_MIN,
                                     UINT64_MAX - 1,
                                     UINT64_MAX,
                                     0x1fffffffffffffff,
                                     0x2000000000000000};
  switch (fuzz_random(state) % 6) {
  case 0: return present + 1;
  case 1: return present - 1;
  case 2: return size + fuzz_random(state) % 3 - 1;
  case 3: return present ^ (uint64_t)1 << fuzz_random(state) % 64;
  case 4: return present << fuzz_random(state) % 17;
  default: return numbers[fuzz_random(state) % (sizeof numbers / sizeof *numbers)];
  }
}

void pieces_mutate(pieces *p, uint64_t *state, uint64_t growth, tsr_arena *arena) {
  if (p->count == 0) return;
  piece *one = &p->items[fuzz_random(state) % p->count];
  uint64_t kind = fuzz_random(state) % 16;
  if (kind == 0 && p->count > 1) { /* takes the content of another piece */
    const piece *other = &p->items[fuzz_random(state) % p->count];
    if (other->size <= one->size + growth) one->bytes = other->bytes, one->size = other->size;
    return;
  }
  if (kind == 1 && one->kind == TILE) {
    one->version = (uint8_t)(fuzz_random(state) % (TSR_FORMAT_READ_MAX + 2));
    return;
  }
  uint64_t most = one->size + TSR_MIN(growth, 4096);
  void *copy;
  CHECK(tsr__arena_alloc(arena, most + 8, &copy, NULL) == TSR_OK);
  if (one->size) memcpy(copy, one->bytes, one->size);
  if (kind < 8 && one->size > 0) { /* overwrites a number */
    static const uint8_t widths[] = {1, 4, 8, 8};
    uint8_t *bytes = copy;
    uint64_t width = widths[fuzz_random(state) % 4];
    if (width > one->size) width = 1;
    uint8_t *at = bytes + fuzz_random(state) % (one->size - width + 1);
    uint64_t present = 0;
    memcpy(&present, at, width);
    present = odd_number(state, one->size, present);
    memcpy(at, &present, width);
  } else if (most > 0) {
    one->size = (uint32_t)LLVMFuzzerMutate(copy, one->size, most);
  }
  one->bytes = copy;
}
