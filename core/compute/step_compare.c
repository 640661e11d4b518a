/* step_compare.c: kernels of comparisons. Their results are truths: unknown where an operand is null. An integer is
 * compared with a REAL exactly, never as a double. */
#include "base/arithmetic.h"
#include "compute/program.h"

#define TWO_64 18446744073709551616.0

/* Makes the truth unknown where an operand has a null by its mask. */
static void mask_truths(const tsr_call *call) {
  const uint8_t *nulls = call->out->nulls;
  uint8_t *out = call->room->as.truths;
  for (uint32_t i = 0; nulls && i < call->count; i++) out[i] = nulls[i] ? TSR_UNKNOWN : out[i];
  call->out->nulls = NULL;
}

#define DEFINE_COMPARE_INTEGERS(name, OPERATOR)                                                                        \
  static void compare_integers_##name(const tsr_call *call) {                                                          \
    const int64_t *xs = call->a->as.integers, *ys = call->b->as.integers;                                              \
    uint8_t *out = call->room->as.truths;                                                                              \
    TSR_EACH2(int64_t, xs, int64_t, ys, out, (uint8_t)((x OPERATOR y)*TSR_TRUE));                                      \
    mask_truths(call);                                                                                                 \
  }
DEFINE_COMPARE_INTEGERS(equal, ==)
DEFINE_COMPARE_INTEGERS(unequal, !=)
DEFINE_COMPARE_INTEGERS(less, <)
DEFINE_COMPARE_INTEGERS(less_equal, <=)

typedef double pair_of_reals __attribute__((vector_size(16)));
typedef int64_t pair_of_masks __attribute__((vector_size(16)));

/* The mask of pairs of which one is NaN. Of the plain form gcc makes no vectors for SSE2. */
#if defined(__SSE2__)
#include <emmintrin.h>
#define UNORDERED(x, y) ((pair_of_masks)_mm_cmpunord_pd((__m128d)(x), (__m128d)(y)))
#else
#define UNORDERED(x, y) ((pair_of_masks)((x) != (x)) | (pair_of_masks)((y) != (y)))
#endif

/* The cells at `xs`, or eight of the one value of a constant; *step is how far the next eight cells are. */
static const double *eight_reals(const tsr_lane *lane, double *eight, uint32_t *step) {
  *step = lane->constant ? 0 : 8;
  if (!lane->constant) return lane->as.reals;
  for (int k = 0; k < 8; k++) eight[k] = lane->as.reals[0];
  return eight;
}

/* Eight cells at a time: a comparison of two doubles gives two masks of 64 bits, of which each keeps the bits of its
 * cell's byte; the eight bytes are the disjunction of all. No compiler makes this of a plain loop for SSE2. */
#define DEFINE_COMPARE_REALS(name, TEST)                                                                               \
  static void compare_reals_##name(const tsr_call *call) {                                                             \
    uint32_t step_x, step_y, i = 0;                                                                                    \
    double eight_x[8], eight_y[8];                                                                                     \
    const double *xs = eight_reals(call->a, eight_x, &step_x), *ys = eight_reals(call->b, eight_y, &step_y);           \
    uint8_t *out = call->room->as.truths;                                                                              \
    for (; i + 8 <= call->count; i += 8, xs += step_x, ys += step_y) {                                                 \
      pair_of_masks truths = {0, 0}, unknown = {TSR_UNKNOWN, TSR_UNKNOWN << 8};                                        \
      for (int k = 0; k < 8; k += 2, unknown <<= 16) {                                                                 \
        pair_of_reals x, y;                                                                                            \
        memcpy(&x, xs + k, sizeof x);                                                                                  \
        memcpy(&y, ys + k, sizeof y);                                                                                  \
        truths |= ((pair_of_masks)(TEST) & (unknown << 1)) | (UNORDERED(x, y) & unknown);                              \
      }                                                                                                                \
      tsr__store64(out + i, (uint64_t)(truths[0] | truths[1]));                                                        \
    }                                                                                                                  \
    for (uint32_t k = 0; i < call->count; i++, k++) {                                                                  \
      const double x = xs[k], y = ys[k];                                                                               \
      out[i] = (uint8_t)((TEST) << 1 | __builtin_isunordered(x, y));                                                   \
    }                                                                                                                  \
  }
DEFINE_COMPARE_REALS(equal, x == y)
DEFINE_COMPARE_REALS(unequal, (x < y) | (x > y))
DEFINE_COMPARE_REALS(less, x < y)
DEFINE_COMPARE_REALS(less_equal, x <= y)

/* ---- All other forms, by their order ------------------------------------------------------------------------------ */

/* The order of two values as a bit: 1 less, 2 equal, 4 greater; 8: the REAL is null. */
#define ORDER(a, b) ((a) < (b) ? 1u : (a) > (b) ? 4u : 2u)

static unsigned order_of_integer_and_real(int64_t x, double y) {
  if (y != y) return 8;
  if (y >= TSR_TWO_63) return 1;
  if (y < -TSR_TWO_63) return 4;
  const int64_t whole = (int64_t)y;
  return x != whole ? ORDER(x, whole) : ORDER((double)whole, y);
}
static unsigned order_of_unsigned_and_real(uint64_t x, double y) {
  if (y != y) return 8;
  if (y >= TWO_64) return 1;
  if (y < 0) return 4;
  const uint64_t whole = (uint64_t)y;
  return x != whole ? ORDER(x, whole) : ORDER((double)whole, y);
}
static unsigned order_of_unsigned_and_integer(uint64_t x, int64_t y) { return y < 0 ? 4u : ORDER(x, (uint64_t)y); }
static unsigned order_of_unsigned(uint64_t x, uint64_t y) { return ORDER(x, y); }
static unsigned order_of_texts(tsr_text x, tsr_text y) {
  const int c = tsr__bytes_compare(x.bytes, x.size, y.bytes, y.size);
  return ORDER(c, 0);
}

/* The orders for which a comparison holds. The operands of LESS may be swapped: then it is GREATER. */
static unsigned orders_of(uint32_t operation) {
  switch (operation) {
  case TSR_OP_EQUAL: return 2;
  case TSR_OP_UNEQUAL: return 5;
  case TSR_OP_LESS: return 1;
  case TSR_OP_LESS_EQUAL: return 3;
  case TSR_OP_GREATER: return 4;
  default: return 6; /* GREATER_EQUAL */
  }
}

static uint8_t truth_of_order(unsigned order, unsigned wanted) {
  return order == 8 ? TSR_UNKNOWN : order & wanted ? TSR_TRUE : TSR_FALSE;
}

#define DEFINE_COMPARE_ORDER(name, TYPE_X, xs, TYPE_Y, ys)                                                             \
  static void compare_##name(const tsr_call *call) {                                                                   \
    const unsigned wanted = orders_of(call->step->operation);                                                          \
    TSR_EACH2(TYPE_X, call->a->as.xs, TYPE_Y, call->b->as.ys, call->room->as.truths,                                   \
              truth_of_order(order_of_##name(x, y), wanted));                                                          \
    mask_truths(call);                                                                                                 \
  }
DEFINE_COMPARE_ORDER(integer_and_real, int64_t, integers, double, reals)
DEFINE_COMPARE_ORDER(unsigned_and_real, uint64_t, unsigned_integers, double, reals)
DEFINE_COMPARE_ORDER(unsigned_and_integer, uint64_t, unsigned_integers, int64_t, integers)
DEFINE_COMPARE_ORDER(unsigned, uint64_t, unsigned_integers, uint64_t, unsigned_integers)
DEFINE_COMPARE_ORDER(texts, tsr_text, texts, tsr_text, texts)

/* a: the truth of EQUAL; b, c: which operand is null. Two nulls are one value to IS. */
static void compare_is(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count; i++) {
    const uint8_t equal = call->a->as.truths[TSR_AT(call->a, i)];
    const uint8_t nulls = call->b->as.truths[TSR_AT(call->b, i)] & call->c->as.truths[TSR_AT(call->c, i)];
    call->room->as.truths[i] = equal == TSR_UNKNOWN ? nulls : equal;
  }
}

tsr_kernel tsr__compare_kernel(uint32_t operation, tsr_form a, tsr_form b) {
  static const tsr_kernel integers[] = {compare_integers_equal, compare_integers_unequal, compare_integers_less,
                                        compare_integers_less_equal};
  static const tsr_kernel reals[] = {compare_reals_equal, compare_reals_unequal, compare_reals_less,
                                     compare_reals_less_equal};
  const uint32_t fast = operation - TSR_OP_EQUAL;
  if (operation == TSR_OP_IS) return compare_is;
  if (a == TSR_VALUE_TEXT) return compare_texts;
  if (a == TSR_VALUE_INTEGER && b == TSR_VALUE_REAL) return compare_integer_and_real;
  if (a == TSR_VALUE_UNSIGNED && b == TSR_VALUE_REAL) return compare_unsigned_and_real;
  if (a == TSR_VALUE_UNSIGNED && b == TSR_VALUE_INTEGER) return compare_unsigned_and_integer;
  if (a == TSR_VALUE_UNSIGNED) return compare_unsigned;
  if (fast > 3) return NULL;
  return a == TSR_VALUE_REAL ? reals[fast] : integers[fast];
}
