/* input.h: the bounded reader of bytes from files. */
#ifndef TSR_INPUT_H
#define TSR_INPUT_H

#include "tessera.h"

/* The only way by which bytes from a file become values. Sticky: past the end everything reads as 0 and `failed` stays
 * set, so a decoder reads a whole record and asks once. A count from a file is checked with tsr__input_fits before
 * memory is taken for it. */
typedef struct tsr_input {
  const uint8_t *data;
  uint64_t size, at;
  bool failed;
} tsr_input;

static inline tsr_input tsr__input(const void *data, uint64_t size) {
  return (tsr_input){(const uint8_t *)data, size, 0, false};
}
static inline uint64_t tsr__input_left(const tsr_input *in) { return in->size - in->at; }

const uint8_t *tsr__input_take(tsr_input *in,
                               uint64_t size); /* borrowed from data; NULL and failed if there are fewer */
uint8_t tsr__input_u8(tsr_input *in);
uint16_t tsr__input_u16(tsr_input *in);
uint32_t tsr__input_u32(tsr_input *in);
uint64_t tsr__input_u64(tsr_input *in);
double tsr__input_f64(tsr_input *in);
bool tsr__input_fits(tsr_input *in, uint64_t count,
                     uint64_t size); /* can count records of at least size bytes be left? else failed */

/* TSR_OK, or TSR_CORRUPT "WHAT ends early: byte AT of SIZE". */
int tsr__input_check(const tsr_input *in, const char *what, tsr_error *error);

#endif
