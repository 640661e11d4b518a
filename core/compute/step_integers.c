/* step_integers.c: kernels of arithmetic on INTEGERs. A result past 64 bits is a fault of its cell, unless the cell is
 * null. Division by zero is null. */
#include "compute/program.h"

#define X64(i) ((uint64_t)(i))

static bool is_null_at(const tsr_call *call, uint32_t i) { return call->out->nulls && call->out->nulls[i]; }

/* Defines a kernel of two operands whose result WRAPPED is checked by the sign of OVERFLOWS, in a loop that the compiler
 * makes vectors of. Only a block with an overflow looks for the cells. */
#define DEFINE_SUM(name, WRAPPED, OVERFLOWS)                                                                           \
  static void integer_##name(const tsr_call *call) {                                                                   \
    const int64_t *xs = call->a->as.integers, *ys = call->b->as.integers;                                              \
    int64_t *out = call->room->as.integers;                                                                            \
    TSR_EACH2(int64_t, xs, int64_t, ys, out, (int64_t)(WRAPPED));                                                      \
    if (call->step->interval.safe) return;                                                                             \
    uint64_t any = 0;                                                                                                  \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const int64_t x = xs[TSR_AT(call->a, i)], y = ys[TSR_AT(call->b, i)];                                            \
      const uint64_t r = X64(out[i]);                                                                                  \
      any |= OVERFLOWS;                                                                                                \
    }                                                                                                                  \
    if (!(any >> 63)) return;                                                                                          \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const int64_t x = xs[TSR_AT(call->a, i)], y = ys[TSR_AT(call->b, i)];                                            \
      const uint64_t r = X64(out[i]);                                                                                  \
      if ((OVERFLOWS) >> 63 && !is_null_at(call, i)) tsr__step_fails(call, i);                                         \
    }                                                                                                                  \
  }
DEFINE_SUM(add, X64(x) + X64(y), (X64(x) ^ r) & (X64(y) ^ r))
DEFINE_SUM(subtract, X64(x) - X64(y), (X64(x) ^ X64(y)) & (X64(x) ^ r))

static void integer_multiply(const tsr_call *call) {
  const int64_t *xs = call->a->as.integers, *ys = call->b->as.integers;
  int64_t *out = call->room->as.integers;
  if (call->step->interval.safe) {
    TSR_EACH2(int64_t, xs, int64_t, ys, out, (int64_t)(X64(x) * X64(y)));
    return;
  }
  for (uint32_t i = 0; i < call->count; i++)
    if (__builtin_mul_overflow(xs[TSR_AT(call->a, i)], ys[TSR_AT(call->b, i)], &out[i]) && !is_null_at(call, i))
      tsr__step_fails(call, i);
}

static void integer_divide(const tsr_call *call) {
  uint8_t *nulls = NULL;
  for (uint32_t i = 0; i < call->count; i++) {
    const int64_t x = call->a->as.integers[TSR_AT(call->a, i)], y = call->b->as.integers[TSR_AT(call->b, i)];
    if (y != 0 && y != -1) {
      call->room->as.integers[i] = x / y;
      continue;
    }
    call->room->as.integers[i] = y ? (int64_t)-X64(x) : 0;
    if (y && x == INT64_MIN && !is_null_at(call, i)) tsr__step_fails(call, i);
    if (y) continue;
    if (!nulls) nulls = tsr__step_nulls(call);
    nulls[i] = 1;
  }
}

static void integer_remainder(const tsr_call *call) {
  uint8_t *nulls = NULL;
  for (uint32_t i = 0; i < call->count; i++) {
    const int64_t x = call->a->as.integers[TSR_AT(call->a, i)], y = call->b->as.integers[TSR_AT(call->b, i)];
    call->room->as.integers[i] = y == 0 || y == -1 ? 0 : x % y;
    if (y) continue;
    if (!nulls) nulls = tsr__step_nulls(call);
    nulls[i] = 1;
  }
}

static int64_t shift_left(int64_t x, int64_t by) {
  if (by >= 0) return by > 63 ? 0 : (int64_t)(X64(x) << by);
  if (by < -63) return x < 0 ? -1 : 0;
  return x < 0 ? (int64_t) ~(~X64(x) >> -by) : (int64_t)(X64(x) >> -by);
}

#define DEFINE_BITS(name, EXPRESSION)                                                                                  \
  static void integer_##name(const tsr_call *call) {                                                                   \
    TSR_EACH2(int64_t, call->a->as.integers, int64_t, call->b->as.integers, call->room->as.integers, EXPRESSION);      \
  }
DEFINE_BITS(and, x &y)
DEFINE_BITS(or, x | y)
DEFINE_BITS(shift_left, shift_left(x, y))
DEFINE_BITS(shift_right, shift_left(x, y == INT64_MIN ? INT64_MAX : -y))

#define DEFINE_ONE(name, EXPRESSION)                                                                                   \
  static void integer_##name(const tsr_call *call) {                                                                   \
    const int64_t *xs = call->a->as.integers;                                                                          \
    int64_t *out = call->room->as.integers;                                                                            \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const int64_t x = xs[i];                                                                                         \
      out[i] = EXPRESSION;                                                                                             \
    }                                                                                                                  \
  }
DEFINE_ONE(not, ~x)
DEFINE_ONE(sign, (x > 0) - (x < 0))
DEFINE_ONE(wrapped_negate, (int64_t)-X64(x))
DEFINE_ONE(wrapped_absolute, (int64_t)(x < 0 ? -X64(x) : X64(x)))

/* Notes a fault where the least integer, which has no negative, is an operand. */
static void refuse_least(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count && !call->step->interval.safe; i++)
    if (call->a->as.integers[i] == INT64_MIN && !is_null_at(call, i)) tsr__step_fails(call, i);
}
static void integer_negate(const tsr_call *call) {
  integer_wrapped_negate(call);
  refuse_least(call);
}
static void integer_absolute(const tsr_call *call) {
  integer_wrapped_absolute(call);
  refuse_least(call);
}

tsr_kernel tsr__integer_kernel(uint32_t operation) {
  switch (operation) {
  case TSR_OP_ADD: return integer_add;
  case TSR_OP_SUBTRACT: return integer_subtract;
  case TSR_OP_MULTIPLY: return integer_multiply;
  case TSR_OP_DIVIDE: return integer_divide;
  case TSR_OP_REMAINDER: return integer_remainder;
  case TSR_OP_NEGATE: return integer_negate;
  case TSR_OP_ABS: return integer_absolute;
  case TSR_OP_SIGN: return integer_sign;
  case TSR_OP_BIT_AND: return integer_and;
  case TSR_OP_BIT_OR: return integer_or;
  case TSR_OP_BIT_NOT: return integer_not;
  case TSR_OP_SHIFT_LEFT: return integer_shift_left;
  case TSR_OP_SHIFT_RIGHT: return integer_shift_right;
  default: return NULL;
  }
}
