/* step_choose.c: kernels of truths, and of the choice between values: CASE, COALESCE and NULLIF, which program.c makes
 * of TSR_STEP_CHOOSE, LEAST and GREATEST. */
#include <string.h>

#include "base/arithmetic.h"
#include "compute/program.h"

/* ---- Truths ------------------------------------------------------------------------------------------------------- */

#define DEFINE_TRUTH2(name, EXPRESSION)                                                                                \
  static void truth_##name(const tsr_call *call) {                                                                     \
    TSR_EACH2(uint8_t, call->a->as.truths, uint8_t, call->b->as.truths, call->room->as.truths, EXPRESSION);            \
  }
DEFINE_TRUTH2(and, TSR_MIN(x, y))
DEFINE_TRUTH2(or, TSR_MAX(x, y))

static void truth_not(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count; i++) call->room->as.truths[i] = (uint8_t)(TSR_TRUE - call->a->as.truths[i]);
}

static void truth_is_null(const tsr_call *call) {
  const tsr_form form = call->step->from;
  uint8_t *out = call->room->as.truths;
  const uint8_t *nulls = call->a->nulls;
  call->out->nulls = NULL;
  if (form == TSR_VALUE_REAL || form == TSR_VALUE_NUMBER) {
    const double *xs = call->a->as.reals;
    for (uint32_t i = 0; i < call->count; i++) out[i] = (uint8_t)((xs[i] != xs[i]) * TSR_TRUE);
  } else if (form == TSR_FORM_TRUTH) {
    for (uint32_t i = 0; i < call->count; i++) out[i] = (call->a->as.truths[i] == TSR_UNKNOWN) * TSR_TRUE;
  } else if (!nulls) {
    memset(out, TSR_FALSE, call->count);
  } else {
    for (uint32_t i = 0; i < call->count; i++) out[i] = (uint8_t)(nulls[i] * TSR_TRUE);
  }
}

/* Intervals are sorted: finds the last that begins at or before the instant. */
static uint8_t truth_of_within(const tsr_interval_list *list, int64_t instant) {
  uint64_t low = 0, high = list->count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (list->intervals[middle][0] <= instant) low = middle + 1;
    else high = middle;
  }
  return low > 0 && instant <= list->intervals[low - 1][1] ? TSR_TRUE : TSR_FALSE;
}

static void truth_within(const tsr_call *call) {
  const uint8_t *nulls = call->out->nulls;
  for (uint32_t i = 0; i < call->count; i++)
    call->room->as.truths[i] =
        nulls && nulls[i] ? TSR_UNKNOWN : truth_of_within(&call->step->source->within, call->a->as.integers[i]);
  call->out->nulls = NULL;
}

/* ---- Choices ------------------------------------------------------------------------------------------------------ */

/* Sets out[i] to x of cells whose truth is true, else to y. */
#define DEFINE_CHOOSE(name, TYPE, TRUTH_AT, X_AT, Y_AT)                                                                \
  static void choose_##name(const uint8_t *truths, const TYPE *xs, const TYPE *ys, TYPE *out, uint32_t count) {        \
    for (uint32_t i = 0; i < count; i++) {                                                                             \
      const TYPE x = xs[X_AT], y = ys[Y_AT];                                                                           \
      out[i] = truths[TRUTH_AT] == TSR_TRUE ? x : y;                                                                   \
    }                                                                                                                  \
  }
#define DEFINE_CHOICES(name, TYPE)                                                                                     \
  DEFINE_CHOOSE(name##_columns, TYPE, i, i, i)                                                                         \
  DEFINE_CHOOSE(name##_constant_x, TYPE, i, 0, i)                                                                      \
  DEFINE_CHOOSE(name##_constant_y, TYPE, i, i, 0)                                                                      \
  static void choose_##name##_constants(const uint8_t *truths, const TYPE *xs, const TYPE *ys, TYPE *restrict out,     \
                                        uint32_t count) {                                                              \
    const TYPE values[] = {[TSR_FALSE] = ys[0], [TSR_UNKNOWN] = ys[0], [TSR_TRUE] = xs[0]};                            \
    for (uint32_t i = 0; i < count; i++) out[i] = values[truths[i]];                                                   \
  }                                                                                                                    \
  static void choose_##name(const tsr_call *call, const TYPE *xs, const TYPE *ys, TYPE *out) {                         \
    const uint8_t *truths = call->a->as.truths;                                                                        \
    const bool x = call->b->constant, y = call->c->constant;                                                           \
    if (call->a->constant) {                                                                                           \
      const bool first = truths[0] == TSR_TRUE, single = first ? x : y;                                                \
      for (uint32_t i = 0; i < call->count; i++) out[i] = (first ? xs : ys)[single ? 0 : i];                           \
    } else if (x && y) choose_##name##_constants(truths, xs, ys, out, call->count);                                    \
    else if (x) choose_##name##_constant_x(truths, xs, ys, out, call->count);                                          \
    else if (y) choose_##name##_constant_y(truths, xs, ys, out, call->count);                                          \
    else choose_##name##_columns(truths, xs, ys, out, call->count);                                                    \
  }
DEFINE_CHOICES(bytes, uint8_t)
DEFINE_CHOICES(words, uint64_t)
DEFINE_CHOICES(texts, tsr_text)

static void choose_nulls(const tsr_call *call) {
  uint8_t none[TSR_BLOCK_CELLS];
  call->out->nulls = NULL;
  if (!call->b->nulls && !call->c->nulls) return;
  memset(none, 0, call->count);
  choose_bytes(call, call->b->nulls ? call->b->nulls : none, call->c->nulls ? call->c->nulls : none, call->room->nulls);
  call->out->nulls = call->room->nulls;
}

static void choose_values(const tsr_call *call) {
  const tsr_form form = call->step->form;
  if (form == TSR_FORM_TRUTH) choose_bytes(call, call->b->as.truths, call->c->as.truths, call->room->as.truths);
  else if (form == TSR_VALUE_TEXT) choose_texts(call, call->b->as.texts, call->c->as.texts, call->room->as.texts);
  else if (form != TSR_VALUE_OPAQUE && form != TSR_VALUE_NULL)
    choose_words(call, call->b->as.unsigned_integers, call->c->as.unsigned_integers, call->room->as.unsigned_integers);
  if (form == TSR_VALUE_NUMBER) {
    choose_bytes(call, call->b->whole, call->c->whole, call->room->whole);
    call->out->whole = call->room->whole;
  }
  choose_nulls(call);
}

/* ---- LEAST and GREATEST: of equal operands LEAST takes the last, GREATEST the first, as SQLite does ---------------- */

#define DEFINE_EXTREMES(name, TYPE, member, BELOW)                                                                     \
  static void least_##name(const tsr_call *call) {                                                                     \
    TSR_EACH2(TYPE, call->a->as.member, TYPE, call->b->as.member, call->room->as.member, BELOW(x, y) ? x : y);         \
  }                                                                                                                    \
  static void greatest_##name(const tsr_call *call) {                                                                  \
    TSR_EACH2(TYPE, call->a->as.member, TYPE, call->b->as.member, call->room->as.member, BELOW(x, y) ? y : x);         \
  }
#define BELOW_NUMBERS(x, y) ((x) < (y))
#define BELOW_TEXTS(x, y)   (tsr__bytes_compare((x).bytes, (x).size, (y).bytes, (y).size) < 0)
DEFINE_EXTREMES(integers, int64_t, integers, BELOW_NUMBERS)
DEFINE_EXTREMES(unsigned, uint64_t, unsigned_integers, BELOW_NUMBERS)
DEFINE_EXTREMES(texts, tsr_text, texts, BELOW_TEXTS)

/* REAL and NUMBER: null if an operand is. */
static void extreme_reals(const tsr_call *call) {
  const bool number = call->step->form == TSR_VALUE_NUMBER, least = call->step->operation == TSR_OP_LEAST;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint32_t at_a = TSR_AT(call->a, i), at_b = TSR_AT(call->b, i);
    const double x = call->a->as.reals[at_a], y = call->b->as.reals[at_b];
    const bool first = x != x || (y == y && (x < y) == least);
    call->room->as.reals[i] = first ? x : y;
    if (number) call->room->whole[i] = first ? call->a->whole[at_a] : call->b->whole[at_b];
  }
  if (number) call->out->whole = call->room->whole;
}

static tsr_kernel extreme_kernel(bool least, tsr_form form) {
  switch (form) {
  case TSR_VALUE_REAL:
  case TSR_VALUE_NUMBER: return extreme_reals;
  case TSR_VALUE_UNSIGNED: return least ? least_unsigned : greatest_unsigned;
  case TSR_VALUE_TEXT: return least ? least_texts : greatest_texts;
  default: return least ? least_integers : greatest_integers;
  }
}

tsr_kernel tsr__choose_kernel(uint32_t operation, tsr_form form) {
  switch (operation) {
  case TSR_OP_AND: return truth_and;
  case TSR_OP_OR: return truth_or;
  case TSR_OP_NOT: return truth_not;
  case TSR_OP_IS_NULL: return truth_is_null;
  case TSR_OP_WITHIN: return truth_within;
  case TSR_STEP_CHOOSE: return choose_values;
  case TSR_OP_LEAST: return extreme_kernel(true, form);
  case TSR_OP_GREATEST: return extreme_kernel(false, form);
  default: return NULL;
  }
}
