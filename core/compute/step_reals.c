/* step_reals.c: kernels of arithmetic and functions of REALs. NULL is NaN, which all operations pass on by themselves;
 * results that are NaN without an operand that is, such as inf - inf and sqrt(-1), are NULL in SQLite, too. A NUMBER
 * has these kernels for its double; what it stands for is kept by tsr__program_run.
 *
 * Each kernel stores the result of one operation, so a compiler cannot make one rounding of a product and a sum.
 */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "compute/program.h"

#define ROUND_MAX 4503599627370496.0 /* 2^52: doubles from here on have no fraction */
#define PI        3.14159265358979323846

#define DEFINE_REAL2(name, EXPRESSION)                                                                                 \
  static void real_##name(const tsr_call *call) {                                                                      \
    const double *xs = call->a->as.reals, *ys = call->b->as.reals;                                                     \
    double *restrict out = call->room->as.reals;                                                                       \
    TSR_EACH2(double, xs, double, ys, out, EXPRESSION);                                                                \
  }
#define DEFINE_REAL1(name, EXPRESSION)                                                                                 \
  static void real_##name(const tsr_call *call) {                                                                      \
    const double *xs = call->a->as.reals;                                                                              \
    double *restrict out = call->room->as.reals;                                                                       \
    const uint32_t count = call->count;                                                                                \
    for (uint32_t i = 0; i < count; i++) {                                                                             \
      const double x = xs[i];                                                                                          \
      out[i] = EXPRESSION;                                                                                             \
    }                                                                                                                  \
  }

/* Gives a number that is not below 0 the sign of another one. */
static inline double with_sign(double magnitude, double of) {
  uint64_t bits, sign;
  memcpy(&bits, &magnitude, sizeof bits);
  memcpy(&sign, &of, sizeof sign);
  bits |= sign & UINT64_C(1) << 63;
  memcpy(&magnitude, &bits, sizeof magnitude);
  return magnitude;
}

/* Rounds to the nearest integer, as adding 2^52 does; what has no fraction stays. The sign is lost where that is 0. Unlike
 * the C library's functions this makes vectors. */
static inline double nearest_of(double x) {
  const double distant = fabs(x) < ROUND_MAX ? with_sign(ROUND_MAX, x) : 0.0;
  return (x + distant) - distant;
}

/* The sign stays: ceil(-0.5) is -0.0. */
static inline double floor_of(double x) {
  const double nearest = nearest_of(x);
  return with_sign(nearest - (nearest > x ? 1.0 : 0.0), x);
}
static inline double ceil_of(double x) { return -floor_of(-x); }

/* SQLite's round: adds a half away from zero, and truncates. */
static inline double round_of(double x) {
  const double magnitude = fabs(x), nearest = with_sign(floor_of(magnitude + 0.5), x) + 0.0; /* 0.0 of -0.4 */
  return magnitude <= ROUND_MAX ? nearest : x;
}

/* SQLite's log(base, x): null unless the base is above 1. */
static double log_of(double base, double x) {
  const double b = base > 0 ? log(base) : NAN;
  return b > 0 && x > 0 ? log(x) / b : NAN;
}

DEFINE_REAL2(add, x + y)
DEFINE_REAL2(subtract, x - y)
DEFINE_REAL2(multiply, x *y)
DEFINE_REAL2(divide, y == 0 ? NAN : x / y)
DEFINE_REAL2(log, log_of(x, y))
DEFINE_REAL2(pow, isnan(x) || isnan(y) ? NAN : pow(x, y))
DEFINE_REAL2(mod, isnan(x) || isnan(y) ? NAN : fmod(x, y))
DEFINE_REAL2(atan2, isnan(x) || isnan(y) ? NAN : atan2(x, y))
DEFINE_REAL1(negate, 0.0 - x) /* as in SQLite, where -0.0 comes of literals only */
DEFINE_REAL1(absolute, x < 0 ? -x : x)
DEFINE_REAL1(floor, floor_of(x))
DEFINE_REAL1(ceil, ceil_of(x))
DEFINE_REAL1(trunc, with_sign(floor_of(fabs(x)), x))
DEFINE_REAL1(round, round_of(x))
DEFINE_REAL1(sqrt, sqrt(x))
DEFINE_REAL1(exp, exp(x))
DEFINE_REAL1(ln, x > 0 ? log(x) : NAN)
DEFINE_REAL1(log10, x > 0 ? log10(x) : NAN)
DEFINE_REAL1(log2, x > 0 ? log2(x) : NAN)
DEFINE_REAL1(sin, sin(x))
DEFINE_REAL1(cos, cos(x))
DEFINE_REAL1(tan, tan(x))
DEFINE_REAL1(asin, asin(x))
DEFINE_REAL1(acos, acos(x))
DEFINE_REAL1(atan, atan(x))
DEFINE_REAL1(sinh, sinh(x))
DEFINE_REAL1(cosh, cosh(x))
DEFINE_REAL1(tanh, tanh(x))
DEFINE_REAL1(asinh, asinh(x))
DEFINE_REAL1(acosh, acosh(x))
DEFINE_REAL1(atanh, atanh(x))
DEFINE_REAL1(degrees, x *(180.0 / PI))
DEFINE_REAL1(radians, x *(PI / 180.0))

/* The sign is an INTEGER, so its nulls are a mask. */
static void real_sign(const tsr_call *call) {
  uint8_t *nulls = tsr__step_nulls(call);
  for (uint32_t i = 0; i < call->count; i++) {
    const double x = call->a->as.reals[i];
    nulls[i] = isnan(x) != 0;
    call->room->as.integers[i] = (x > 0) - (x < 0);
  }
}

static const tsr_kernel real_kernels[TSR_OP_COUNT] = {
    [TSR_OP_ADD] = real_add,           [TSR_OP_SUBTRACT] = real_subtract,
    [TSR_OP_MULTIPLY] = real_multiply, [TSR_OP_DIVIDE] = real_divide,
    [TSR_OP_NEGATE] = real_negate,     [TSR_OP_ABS] = real_absolute,
    [TSR_OP_SIGN] = real_sign,         [TSR_OP_ROUND] = real_round,
    [TSR_OP_FLOOR] = real_floor,       [TSR_OP_CEIL] = real_ceil,
    [TSR_OP_TRUNC] = real_trunc,       [TSR_OP_SQRT] = real_sqrt,
    [TSR_OP_EXP] = real_exp,           [TSR_OP_LN] = real_ln,
    [TSR_OP_LOG10] = real_log10,       [TSR_OP_LOG2] = real_log2,
    [TSR_OP_LOG] = real_log,           [TSR_OP_POW] = real_pow,
    [TSR_OP_MOD] = real_mod,           [TSR_OP_SIN] = real_sin,
    [TSR_OP_COS] = real_cos,           [TSR_OP_TAN] = real_tan,
    [TSR_OP_ASIN] = real_asin,         [TSR_OP_ACOS] = real_acos,
    [TSR_OP_ATAN] = real_atan,         [TSR_OP_ATAN2] = real_atan2,
    [TSR_OP_SINH] = real_sinh,         [TSR_OP_COSH] = real_cosh,
    [TSR_OP_TANH] = real_tanh,         [TSR_OP_ASINH] = real_asinh,
    [TSR_OP_ACOSH] = real_acosh,       [TSR_OP_ATANH] = real_atanh,
    [TSR_OP_DEGREES] = real_degrees,   [TSR_OP_RADIANS] = real_radians,
};

tsr_kernel tsr__real_kernel(uint32_t operation) { return operation < TSR_OP_COUNT ? real_kernels[operation] : NULL; }
