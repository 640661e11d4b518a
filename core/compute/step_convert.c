/* step_convert.c: kernels that bring a vector into another form. */
#include <math.h>

#include "base/arithmetic.h"
#include "compute/program.h"

#define DEFINE_TRUTH_OF(name, member)                                                                                  \
  static void truth_of_##name(const tsr_call *call) {                                                                  \
    const uint8_t *nulls = call->out->nulls;                                                                           \
    for (uint32_t i = 0; i < call->count; i++)                                                                         \
      call->room->as.truths[i] = nulls && nulls[i] ? TSR_UNKNOWN : (call->a->as.member[i] != 0) * TSR_TRUE;            \
    call->out->nulls = NULL;                                                                                           \
  }
DEFINE_TRUTH_OF(integers, integers)
DEFINE_TRUTH_OF(unsigned, unsigned_integers)

static void truth_of_reals(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count; i++) {
    const double x = call->a->as.reals[i];
    call->room->as.truths[i] = x != x ? TSR_UNKNOWN : (x != 0) * TSR_TRUE;
  }
}

static void integer_of_truths(const tsr_call *call) {
  uint8_t *nulls = tsr__step_nulls(call), any = 0;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint8_t x = call->a->as.truths[i];
    call->room->as.integers[i] = x >> 1;
    nulls[i] = x & 1;
    any |= x & 1;
  }
  if (!any) call->out->nulls = NULL;
}

static void integer_of_unsigned(const tsr_call *call) {
  const uint8_t *nulls = call->out->nulls;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t x = call->a->as.unsigned_integers[i];
    call->room->as.integers[i] = (int64_t)x;
    if (x > INT64_MAX && !(nulls && nulls[i])) tsr__step_fails(call, i);
  }
}

/* CAST to INTEGER: truncates, and saturates. */
static void integer_of_reals(const tsr_call *call) {
  uint8_t *nulls = tsr__step_nulls(call);
  for (uint32_t i = 0; i < call->count; i++) {
    const double x = call->a->as.reals[i];
    nulls[i] = x != x;
    call->room->as.integers[i] = x != x ? 0 : x >= TSR_TWO_63 ? INT64_MAX : x < -TSR_TWO_63 ? INT64_MIN : (int64_t)x;
  }
}

static void real_of_integers(const tsr_call *call) {
  const int64_t *xs = call->a->as.integers;
  const uint8_t *nulls = call->out->nulls;
  double *out = call->room->as.reals;
  for (uint32_t i = 0; i < call->count; i++) out[i] = (double)xs[i];
  for (uint32_t i = 0; nulls && i < call->count; i++) out[i] = nulls[i] ? NAN : out[i];
  call->out->nulls = NULL;
}

static void real_of_numbers(const tsr_call *call) {
  memcpy(call->room->as.reals, call->a->as.reals, call->count * sizeof(double));
}

static void number_of_reals(const tsr_call *call) {
  real_of_numbers(call);
  memset(call->room->whole, 0, call->count);
  call->out->whole = call->room->whole;
}
static void number_of_integers(const tsr_call *call) {
  real_of_integers(call);
  memset(call->room->whole, 1, call->count);
  call->out->whole = call->room->whole;
}

/* A literal that is not negative. */
static void unsigned_of_integers(const tsr_call *call) {
  memcpy(call->room->as.integers, call->a->as.integers, call->count * sizeof(int64_t));
}

tsr_kernel tsr__convert_kernel(uint32_t operation, tsr_form from) {
  const bool real = from == TSR_VALUE_REAL || from == TSR_VALUE_NUMBER;
  switch (operation) {
  case TSR_STEP_TRUTH:
    return real ? truth_of_reals : from == TSR_VALUE_UNSIGNED ? truth_of_unsigned : truth_of_integers;
  case TSR_OP_TO_INTEGER: return integer_of_reals;
  case TSR_OP_TO_REAL: return real ? real_of_numbers : real_of_integers;
  case TSR_STEP_NUMBER: return real ? number_of_reals : number_of_integers;
  case TSR_STEP_OF_TRUTH: return integer_of_truths;
  case TSR_STEP_OF_UNSIGNED: return integer_of_unsigned;
  case TSR_STEP_UNSIGNED: return unsigned_of_integers;
  default: return NULL;
  }
}
