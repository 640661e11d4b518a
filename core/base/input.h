/* input.h: a bounded reader, the only way in which bytes of a file become values.
 *
 * The reader is sticky: a read past the end returns 0 and sets `failed`, and then every later read fails, too. A
 * decoder can therefore read a whole record and check once, with tsr__input_check. Check a count that comes from the
 * file with tsr__input_fits before allocating memory for that many records. */
#ifndef TSR_INPUT_H
#define TSR_INPUT_H

#include "tessera.h"

typedef struct tsr_input {
  const uint8_t *data; /* borrowed */
  uint64_t size, at; /* in bytes; `at` is the position of the next read */
  bool failed;
} tsr_input;

static inline tsr_input tsr__input(const void *data, uint64_t size) {
  return (tsr_input){(const uint8_t *)data, size, 0, false};
}
static inline uint64_t tsr__input_left(const tsr_input *in) { return in->size - in->at; }

/* Returns the next `size` bytes, borrowed from the input's data, and advances past them. Returns NULL and sets `failed`
 * if fewer bytes are left. */
const uint8_t *tsr__input_take(tsr_input *in, uint64_t size);

/* Each reads one little-endian value. */
uint8_t tsr__input_u8(tsr_input *in);
uint32_t tsr__input_u32(tsr_input *in);
uint64_t tsr__input_u64(tsr_input *in);
double tsr__input_f64(tsr_input *in);

/* Returns true if the remaining bytes can hold `count` records of at least `size` bytes each; otherwise sets `failed`
 * and returns false. */
bool tsr__input_fits(tsr_input *in, uint64_t count, uint64_t size);

/* Returns TSR_OK if no read has failed. Otherwise fails with TSR_CORRUPT and "WHAT ends early: byte AT of SIZE". */
int tsr__input_check(const tsr_input *in, const char *what, tsr_error *error);

#endif
