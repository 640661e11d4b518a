/* input.c: the bounded, sticky reader of input.h.
 *
 * Invariants: at <= size. Once `failed` is set, nothing more is read, and `at` stays where the failed read began.
 */
#include "base/input.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"

const uint8_t *tsr__input_take(tsr_input *in, uint64_t size) {
  if (in->failed || size > in->size - in->at) {
    in->failed = true;
    return NULL;
  }
  const uint8_t *bytes = in->data ? in->data + in->at : (const uint8_t *)""; /* NULL would mean failure */
  in->at += size;
  return bytes;
}

uint8_t tsr__input_u8(tsr_input *in) {
  const uint8_t *bytes = tsr__input_take(in, 1);
  return bytes ? bytes[0] : 0;
}

uint32_t tsr__input_u32(tsr_input *in) {
  const uint8_t *bytes = tsr__input_take(in, 4);
  return bytes ? tsr__load32(bytes) : 0;
}

uint64_t tsr__input_u64(tsr_input *in) {
  const uint8_t *bytes = tsr__input_take(in, 8);
  return bytes ? tsr__load64(bytes) : 0;
}

double tsr__input_f64(tsr_input *in) {
  uint64_t bits = tsr__input_u64(in);
  double value;
  memcpy(&value, &bits, 8);
  return value;
}

bool tsr__input_fits(tsr_input *in, uint64_t count, uint64_t size) {
  if (in->failed || tsr__mul_sat(count, size) > in->size - in->at) in->failed = true;
  return !in->failed;
}

int tsr__input_check(const tsr_input *in, const char *what, tsr_error *error) {
  if (!in->failed) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "%s ends early: byte %llu of %llu", what, (unsigned long long)in->at,
                   (unsigned long long)in->size);
}
