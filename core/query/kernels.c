/* kernels.c: the kernels of a program's steps: loops over the cells of one block, without a switch inside.
 *
 * A kernel gets lanes (operands) and a register (where it writes). Except for choices, evaluate.c has already merged
 * the nulls of the operands into call->out->nulls. REAL and NUMBER have no null mask: their null is NaN. Truths have
 * none either: they are true, false or unknown. A value that SQL refuses, such as an overflow, is a fault of its cell
 * (tsr__step_fails), unless the cell is null.
 *
 * Sections: loading fields and tables; conversions; integers; reals; comparisons; truths; choices; intervals of
 * integers, which spare the checks for overflow; lookups in lists.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "query/program.h"

/* ---- Loading the cells of a field, or the values that a table has for them -------------------------------------- */

/* Defines a function that widens `count` values: those of the selection, or the first ones of `values`. */
#define DEFINE_LOAD(name, SOURCE, TARGET)                                                                              \
  static void name(const uint8_t *values, const uint32_t *selection, uint32_t count, void *target) {                   \
    TARGET *out = target;                                                                                              \
    SOURCE v;                                                                                                          \
    if (selection) {                                                                                                   \
      for (uint32_t i = 0; i < count; i++) {                                                                           \
        memcpy(&v, values + selection[i] * sizeof v, sizeof v);                                                        \
        out[i] = (TARGET)v;                                                                                            \
      }                                                                                                                \
      return;                                                                                                          \
    }                                                                                                                  \
    for (uint32_t i = 0; i < count; i++) {                                                                             \
      memcpy(&v, values + i * sizeof v, sizeof v);                                                                     \
      out[i] = (TARGET)v;                                                                                              \
    }                                                                                                                  \
  }
DEFINE_LOAD(integer_of_i8, int8_t, int64_t)
DEFINE_LOAD(integer_of_i16, int16_t, int64_t)
DEFINE_LOAD(integer_of_i32, int32_t, int64_t)
DEFINE_LOAD(integer_of_i64, int64_t, int64_t)
DEFINE_LOAD(integer_of_u8, uint8_t, int64_t)
DEFINE_LOAD(integer_of_u16, uint16_t, int64_t)
DEFINE_LOAD(integer_of_u32, uint32_t, int64_t)
DEFINE_LOAD(real_of_i8, int8_t, double)
DEFINE_LOAD(real_of_i16, int16_t, double)
DEFINE_LOAD(real_of_i32, int32_t, double)
DEFINE_LOAD(real_of_u8, uint8_t, double)
DEFINE_LOAD(real_of_u16, uint16_t, double)
DEFINE_LOAD(real_of_u32, uint32_t, double)
DEFINE_LOAD(real_of_f32, float, double)
DEFINE_LOAD(real_of_f64, double, double)

typedef void (*widen)(const uint8_t *values, const uint32_t *selection, uint32_t count, void *out);

static widen widen_integers(tsr_physical_type physical) {
  static const widen widens[] = {
      [TSR_PHYSICAL_I8] = integer_of_i8,   [TSR_PHYSICAL_I16] = integer_of_i16, [TSR_PHYSICAL_I32] = integer_of_i32,
      [TSR_PHYSICAL_I64] = integer_of_i64, [TSR_PHYSICAL_U8] = integer_of_u8,   [TSR_PHYSICAL_U16] = integer_of_u16,
      [TSR_PHYSICAL_U32] = integer_of_u32, [TSR_PHYSICAL_U64] = integer_of_i64,
  };
  return widens[physical];
}
static widen widen_reals(tsr_physical_type physical) {
  static const widen widens[] = {
      [TSR_PHYSICAL_I8] = real_of_i8,   [TSR_PHYSICAL_I16] = real_of_i16, [TSR_PHYSICAL_I32] = real_of_i32,
      [TSR_PHYSICAL_U8] = real_of_u8,   [TSR_PHYSICAL_U16] = real_of_u16, [TSR_PHYSICAL_U32] = real_of_u32,
      [TSR_PHYSICAL_F32] = real_of_f32, [TSR_PHYSICAL_F64] = real_of_f64,
  };
  return widens[physical];
}

static uint64_t load_index(const tsr_block_input *input, uint32_t i) {
  return input->column.constant ? 0 : input->selection ? input->selection[i] : input->first + i;
}

/* Returns true if some cell is null. Most columns have few nulls, so that this is all that is done for most blocks. */
static bool any_invalid(const uint8_t *validity, const tsr_block_input *input, uint32_t count) {
  const uint32_t *selection = input->selection;
  bool any = false;
  if (!selection) return memchr(validity + input->first, 0, count) != NULL;
  for (uint32_t i = 0; i < count; i++) any |= validity[selection[i]] == 0;
  return any;
}

/* Sets the nulls of the result from the validity of the cells. */
static void load_nulls(const tsr_call *call, const tsr_block_input *input) {
  const uint8_t *validity = input->column.validity;
  uint8_t *nulls = call->reg->nulls, any = 0;
  call->out->nulls = NULL;
  if (!validity && !input->null) return;
  if (!input->null && !input->column.constant && !any_invalid(validity, input, call->count)) return;
  for (uint32_t i = 0; i < call->count; i++) {
    nulls[i] = input->null || validity[load_index(input, i)] == 0;
    any |= nulls[i];
  }
  if (any) call->out->nulls = nulls;
}

/* Returns true if the cells can be used in place, without a copy. */
static bool is_in_place(const tsr_call *call, const tsr_block_input *input, const uint8_t *values) {
  return !input->selection && !input->null && !call->out->nulls && (uintptr_t)values % 8 == 0;
}

static void load_texts(const tsr_call *call, const tsr_block_input *input) {
  const tsr_column *column = &input->column;
  const char *bytes = column->values;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t at = load_index(input, i);
    tsr_text_value *text = &call->reg->as.texts[i];
    if (call->out->nulls && call->out->nulls[i]) *text = (tsr_text_value){"", 0};
    else if (!column->offsets) *text = (tsr_text_value){bytes + at * column->cell_size, column->cell_size};
    else *text = (tsr_text_value){bytes + column->offsets[at], column->offsets[at + 1] - column->offsets[at]};
  }
}

/* NaT becomes null; an instant that cannot be printed is a fault. */
static void check_instants(const tsr_call *call) {
  const int64_t *values = call->out->as.integers;
  uint8_t *nulls = NULL;
  for (uint32_t i = 0; i < call->count; i++) {
    if (values[i] >= call->step->interval.low && values[i] <= call->step->interval.high) continue;
    if (call->out->nulls && call->out->nulls[i]) continue;
    if (values[i] != INT64_MIN) {
      tsr__step_fails(call, i);
      continue;
    }
    if (!nulls) nulls = tsr__step_nulls(call);
    nulls[i] = 1;
  }
}

static void load_numbers(const tsr_call *call, const tsr_field *field, const tsr_block_input *input, void *target) {
  const tsr_physical_type physical = tsr__datatype_physical(field->datatype);
  const uint64_t size = tsr_datatype_size(field->datatype);
  const bool real = call->step->form == TSR_VALUE_REAL && call->step->operation == TSR_OP_FIELD;
  const bool constant = input->column.constant;
  if (input->null) {
    memset(target, 0, call->count * sizeof(int64_t));
    return;
  }
  const uint8_t *values = input->column.values;
  if (!constant && !input->selection) values += input->first * size;
  if (size == 8 && target == call->reg->as.data && is_in_place(call, input, values)) {
    call->out->as.data = values;
    return;
  }
  (real ? widen_reals : widen_integers)(physical)(values, constant ? NULL : input->selection, call->count, target);
}

void tsr__load_field(const tsr_call *call, const tsr_schema *schema, const tsr_block_input *input) {
  const tsr_form form = call->step->form;
  load_nulls(call, input);
  if (form == TSR_VALUE_OPAQUE) return;
  if (form == TSR_VALUE_TEXT) {
    load_texts(call, input);
    return;
  }
  load_numbers(call, &schema->fields[call->step->field], input, call->reg->as.data);
  if (call->step->nat_is_null) check_instants(call);
  if (form != TSR_VALUE_REAL) return;
  double *out = call->reg->as.reals;
  const uint8_t *nulls = call->out->nulls;
  for (uint32_t i = 0; nulls && i < call->count; i++) out[i] = nulls[i] ? NAN : out[i];
  call->out->nulls = NULL;
}

/* Returns the position of a coordinate in a list, or the list's end. Tries the previous cell's position first. */
static uint64_t list_place(const tsr_value_table *table, int64_t value, uint64_t before) {
  uint64_t low = 0, high = table->count;
  if (before < table->count && table->coordinates[before] == value) return before;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (table->coordinates[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low < table->count && table->coordinates[low] == value ? low : table->count;
}

/* Turns coordinates into their positions in a table. The table has one value more than coordinates, a null, for all
 * cells outside. Returns true if there are such cells. */
static bool table_places(const tsr_call *call, const tsr_value_table *table, int64_t *values) {
  const uint64_t low = (uint64_t)table->low, end = table->count;
  const uint8_t *nulls = call->out->nulls;
  uint64_t most = 0, at = end;
  for (uint32_t i = 0; i < call->count; i++) {
    at = table->coordinates ? list_place(table, values[i], at) : TSR_MIN((uint64_t)values[i] - low, end);
    values[i] = (int64_t)at;
    most = TSR_MAX(most, at);
  }
  for (uint32_t i = 0; nulls && i < call->count; i++)
    if (nulls[i]) values[i] = (int64_t)end, most = end;
  return most == end;
}

#define SAME_CELLS 16u /* adjacent cells with one coordinate that are looked up together */

/* The same for a table of words: sets out[i] to the word for coordinate values[i]. */
static bool table_words(const int64_t *values, uint32_t count, const tsr_value_table *table, const int64_t *words,
                        int64_t *restrict out) {
  const uint64_t low = (uint64_t)table->low, end = table->count;
  uint64_t most = 0;
  for (uint32_t i = 0, n; i < count; i += n) {
    uint64_t differ = 0, at = TSR_MIN((uint64_t)values[i] - low, end);
    n = TSR_MIN(SAME_CELLS, count - i);
    if (n == SAME_CELLS && values[i] == values[i + SAME_CELLS - 1])
      for (uint32_t k = 1; k < SAME_CELLS; k++) differ |= (uint64_t)(values[i + k] ^ values[i]);
    else differ = 1;
    const int64_t word = words[at];
    most = TSR_MAX(most, at);
    for (uint32_t k = 0; k < SAME_CELLS && !differ; k++) out[i + k] = word;
    for (uint32_t k = 0; k < n && differ; k++) {
      at = TSR_MIN((uint64_t)values[i + k] - low, end);
      out[i + k] = words[at];
      most = TSR_MAX(most, at);
    }
  }
  return most == end;
}

void tsr__load_table(const tsr_call *call, const tsr_schema *schema, const tsr_block_input *input) {
  const tsr_step *step = call->step;
  const uint32_t count = call->count;
  int64_t at[TSR_BLOCK_CELLS];
  load_nulls(call, input);
  load_numbers(call, &schema->fields[step->field], input, at);
  const bool real = step->form == TSR_VALUE_REAL || step->form == TSR_VALUE_NUMBER;
  const bool words = step->form == TSR_VALUE_REAL || (step->form == TSR_VALUE_INTEGER && !step->table.nulls);
  if (words && !call->out->nulls && !step->source->table->coordinates) {
    const bool all = !table_words(at, count, step->source->table, step->table.values, call->reg->as.integers);
    if (all || real) return;
  }
  const bool outside = table_places(call, step->source->table, at);
  call->out->nulls = NULL;
  if (step->form == TSR_VALUE_TEXT) {
    for (uint32_t i = 0; i < count; i++) call->reg->as.texts[i] = ((const tsr_text_value *)step->table.values)[at[i]];
  } else {
    const int64_t *table = step->table.values;
    int64_t *out = call->reg->as.integers;
    for (uint32_t i = 0; i < count; i++) out[i] = table[at[i]];
  }
  if (step->form == TSR_VALUE_NUMBER) {
    for (uint32_t i = 0; i < count; i++) call->reg->whole[i] = step->table.whole[at[i]];
    call->out->whole = call->reg->whole;
  }
  if (real || !(step->table.nulls || outside)) return;
  const int64_t end = (int64_t)step->source->table->count;
  for (uint32_t i = 0; i < count; i++)
    call->reg->nulls[i] = step->table.nulls ? step->table.nulls[at[i]] : at[i] == end;
  call->out->nulls = call->reg->nulls;
}

/* ---- Conversions from one form to another ----------------------------------------------------------------------- */

#define DEFINE_TRUTH_OF(name, member)                                                                                  \
  static void truth_of_##name(const tsr_call *call) {                                                                  \
    const uint8_t *nulls = call->out->nulls;                                                                           \
    for (uint32_t i = 0; i < call->count; i++)                                                                         \
      call->reg->as.truths[i] = nulls && nulls[i] ? TSR_UNKNOWN : (call->a->as.member[i] != 0) * TSR_TRUE;             \
    call->out->nulls = NULL;                                                                                           \
  }
DEFINE_TRUTH_OF(integers, integers)
DEFINE_TRUTH_OF(unsigned, unsigned_integers)

static void truth_of_reals(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count; i++) {
    const double x = call->a->as.reals[i];
    call->reg->as.truths[i] = x != x ? TSR_UNKNOWN : (x != 0) * TSR_TRUE;
  }
}

static void integer_of_truths(const tsr_call *call) {
  uint8_t *nulls = tsr__step_nulls(call), any = 0;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint8_t x = call->a->as.truths[i];
    call->reg->as.integers[i] = x >> 1;
    nulls[i] = x & 1;
    any |= x & 1;
  }
  if (!any) call->out->nulls = NULL;
}

static void integer_of_unsigned(const tsr_call *call) {
  const uint8_t *nulls = call->out->nulls;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t x = call->a->as.unsigned_integers[i];
    call->reg->as.integers[i] = (int64_t)x;
    if (x > INT64_MAX && !(nulls && nulls[i])) tsr__step_fails(call, i);
  }
}

/* CAST to INTEGER: truncates and saturates. */
static void integer_of_reals(const tsr_call *call) {
  uint8_t *nulls = tsr__step_nulls(call);
  for (uint32_t i = 0; i < call->count; i++) {
    const double x = call->a->as.reals[i];
    nulls[i] = x != x;
    call->reg->as.integers[i] = x != x ? 0 : x >= TSR_TWO_63 ? INT64_MAX : x < -TSR_TWO_63 ? INT64_MIN : (int64_t)x;
  }
}

static void real_of_integers(const tsr_call *call) {
  const int64_t *xs = call->a->as.integers;
  const uint8_t *nulls = call->out->nulls;
  double *out = call->reg->as.reals;
  for (uint32_t i = 0; i < call->count; i++) out[i] = (double)xs[i];
  for (uint32_t i = 0; nulls && i < call->count; i++) out[i] = nulls[i] ? NAN : out[i];
  call->out->nulls = NULL;
}

static void real_of_numbers(const tsr_call *call) {
  memcpy(call->reg->as.reals, call->a->as.reals, call->count * sizeof(double));
}

static void number_of_reals(const tsr_call *call) {
  real_of_numbers(call);
  memset(call->reg->whole, 0, call->count);
  call->out->whole = call->reg->whole;
}
static void number_of_integers(const tsr_call *call) {
  real_of_integers(call);
  memset(call->reg->whole, 1, call->count);
  call->out->whole = call->reg->whole;
}

/* The operand is a literal that is not negative. */
static void unsigned_of_integers(const tsr_call *call) {
  memcpy(call->reg->as.integers, call->a->as.integers, call->count * sizeof(int64_t));
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

/* ---- Integers --------------------------------------------------------------------------------------------------- */
/* An overflow of 64 bits is a fault of its cell, unless the cell is null. Division by zero is null. */

#define X64(i) ((uint64_t)(i))

static bool is_null_at(const tsr_call *call, uint32_t i) { return call->out->nulls && call->out->nulls[i]; }

/* Defines a kernel of two operands whose result is WRAPPED; the sign bit of OVERFLOWS says whether it overflowed. The
 * check is a loop that compilers vectorize; only a block with an overflow looks for the cells. */
#define DEFINE_SUM(name, WRAPPED, OVERFLOWS)                                                                           \
  static void integer_##name(const tsr_call *call) {                                                                   \
    const int64_t *xs = call->a->as.integers, *ys = call->b->as.integers;                                              \
    int64_t *out = call->reg->as.integers;                                                                             \
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
  int64_t *out = call->reg->as.integers;
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
      call->reg->as.integers[i] = x / y;
      continue;
    }
    call->reg->as.integers[i] = y ? (int64_t)-X64(x) : 0;
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
    call->reg->as.integers[i] = y == 0 || y == -1 ? 0 : x % y;
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
    TSR_EACH2(int64_t, call->a->as.integers, int64_t, call->b->as.integers, call->reg->as.integers, EXPRESSION);       \
  }
DEFINE_BITS(and, x &y)
DEFINE_BITS(or, x | y)
DEFINE_BITS(shift_left, shift_left(x, y))
DEFINE_BITS(shift_right, shift_left(x, y == INT64_MIN ? INT64_MAX : -y))

#define DEFINE_ONE(name, EXPRESSION)                                                                                   \
  static void integer_##name(const tsr_call *call) {                                                                   \
    const int64_t *xs = call->a->as.integers;                                                                          \
    int64_t *out = call->reg->as.integers;                                                                             \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const int64_t x = xs[i];                                                                                         \
      out[i] = EXPRESSION;                                                                                             \
    }                                                                                                                  \
  }
DEFINE_ONE(not, ~x)
DEFINE_ONE(sign, (x > 0) - (x < 0))
DEFINE_ONE(wrapped_negate, (int64_t)-X64(x))
DEFINE_ONE(wrapped_absolute, (int64_t)(x < 0 ? -X64(x) : X64(x)))

/* Records a fault where the operand is INT64_MIN, which has no negative. */
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

/* ---- Reals ------------------------------------------------------------------------------------------------------ */
/* NULL is NaN, which all operations propagate by themselves. Results that are NaN without a NaN operand, such as
 * inf - inf and sqrt(-1), are NULL in SQLite, too. A NUMBER uses these kernels for its double; evaluate.c keeps whether
 * it is an integer.
 *
 * Each kernel stores the result of one operation, so that a compiler cannot fuse a product and a sum into one rounding.
 */

#define ROUND_MAX 4503599627370496.0 /* 2^52: doubles from here on have no fraction */
#define PI        3.14159265358979323846

#define DEFINE_REAL2(name, EXPRESSION)                                                                                 \
  static void real_##name(const tsr_call *call) {                                                                      \
    const double *xs = call->a->as.reals, *ys = call->b->as.reals;                                                     \
    double *restrict out = call->reg->as.reals;                                                                        \
    TSR_EACH2(double, xs, double, ys, out, EXPRESSION);                                                                \
  }
#define DEFINE_REAL1(name, EXPRESSION)                                                                                 \
  static void real_##name(const tsr_call *call) {                                                                      \
    const double *xs = call->a->as.reals;                                                                              \
    double *restrict out = call->reg->as.reals;                                                                        \
    const uint32_t count = call->count;                                                                                \
    for (uint32_t i = 0; i < count; i++) {                                                                             \
      const double x = xs[i];                                                                                          \
      out[i] = EXPRESSION;                                                                                             \
    }                                                                                                                  \
  }

/* Gives a non-negative number the sign of another one. */
static inline double with_sign(double magnitude, double of) {
  uint64_t bits, sign;
  memcpy(&bits, &magnitude, sizeof bits);
  memcpy(&sign, &of, sizeof sign);
  bits |= sign & UINT64_C(1) << 63;
  memcpy(&magnitude, &bits, sizeof magnitude);
  return magnitude;
}

/* Rounds to the nearest integer by adding and subtracting 2^52; numbers without a fraction stay. A zero result loses
 * its sign. Unlike the C library's functions, this vectorizes. */
static inline double nearest_of(double x) {
  const double distant = fabs(x) < ROUND_MAX ? with_sign(ROUND_MAX, x) : 0.0;
  return (x + distant) - distant;
}

/* Keeps the sign: ceil(-0.5) is -0.0. */
static inline double floor_of(double x) {
  const double nearest = nearest_of(x);
  return with_sign(nearest - (nearest > x ? 1.0 : 0.0), x);
}
static inline double ceil_of(double x) { return -floor_of(-x); }

/* SQLite's round: adds a half away from zero, and truncates. */
static inline double round_of(double x) {
  const double magnitude = fabs(x), nearest = with_sign(floor_of(magnitude + 0.5), x) + 0.0; /* -0.4 gives 0.0 */
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
DEFINE_REAL2(quotient, y == 0 ? NAN : x / y)
DEFINE_REAL2(log, log_of(x, y))
DEFINE_REAL2(pow, isnan(x) || isnan(y) ? NAN : pow(x, y))
DEFINE_REAL2(mod, isnan(x) || isnan(y) ? NAN : fmod(x, y))
DEFINE_REAL2(atan2, isnan(x) || isnan(y) ? NAN : atan2(x, y))
DEFINE_REAL1(negate, 0.0 - x) /* as in SQLite, where only a literal can be -0.0 */
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
DEFINE_REAL1(sinh, sinh(x))
DEFINE_REAL1(cosh, cosh(x))
DEFINE_REAL1(tanh, tanh(x))
DEFINE_REAL1(asinh, asinh(x))
DEFINE_REAL1(acosh, acosh(x))
DEFINE_REAL1(atanh, atanh(x))
DEFINE_REAL1(degrees, x *(180.0 / PI))
DEFINE_REAL1(radians, x *(PI / 180.0))

/* The result is an INTEGER, so its nulls are a mask. */
static void real_sign(const tsr_call *call) {
  uint8_t *nulls = tsr__step_nulls(call);
  for (uint32_t i = 0; i < call->count; i++) {
    const double x = call->a->as.reals[i];
    nulls[i] = isnan(x) != 0;
    call->reg->as.integers[i] = (x > 0) - (x < 0);
  }
}

/* A power of two has an exact reciprocal, unless that is too small: then the product is the quotient. */
static void real_divide(const tsr_call *call) {
  int exponent;
  const double divisor = call->b->constant ? call->b->as.reals[0] : 0;
  if (fabs(frexp(divisor, &exponent)) == 0.5 && abs(exponent) < 1000) {
    const double *xs = call->a->as.reals, reciprocal = 1 / divisor;
    double *restrict out = call->reg->as.reals;
    for (uint32_t i = 0; i < call->count; i++) out[i] = xs[TSR_AT(call->a, i)] * reciprocal;
    return;
  }
  real_quotient(call);
}

static void real_atan(const tsr_call *call) { tsr__arctangents(call->a->as.reals, call->count, call->reg->as.reals); }

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

/* ---- Comparisons ------------------------------------------------------------------------------------------------ */
/* Results are truths: unknown where an operand is null. An integer and a REAL are compared exactly, never as
 * doubles. */

#define TWO_64 18446744073709551616.0

/* Makes the truth unknown where the null mask of an operand says so. */
static void mask_truths(const tsr_call *call) {
  const uint8_t *nulls = call->out->nulls;
  uint8_t *out = call->reg->as.truths;
  for (uint32_t i = 0; nulls && i < call->count; i++) out[i] = nulls[i] ? TSR_UNKNOWN : out[i];
  call->out->nulls = NULL;
}

#define DEFINE_COMPARE_INTEGERS(name, OPERATOR)                                                                        \
  static void compare_integers_##name(const tsr_call *call) {                                                          \
    const int64_t *xs = call->a->as.integers, *ys = call->b->as.integers;                                              \
    uint8_t *out = call->reg->as.truths;                                                                               \
    TSR_EACH2(int64_t, xs, int64_t, ys, out, (uint8_t)((x OPERATOR y)*TSR_TRUE));                                      \
    mask_truths(call);                                                                                                 \
  }
DEFINE_COMPARE_INTEGERS(equal, ==)
DEFINE_COMPARE_INTEGERS(unequal, !=)
DEFINE_COMPARE_INTEGERS(less, <)
DEFINE_COMPARE_INTEGERS(less_equal, <=)

typedef double pair_of_reals __attribute__((vector_size(16)));
typedef int64_t pair_of_masks __attribute__((vector_size(16)));

/* A mask of the pairs in which either is NaN. gcc does not vectorize the plain form for SSE2. */
#if defined(__SSE2__)
#include <emmintrin.h>
#define UNORDERED(x, y) ((pair_of_masks)_mm_cmpunord_pd((__m128d)(x), (__m128d)(y)))
#else
#define UNORDERED(x, y) ((pair_of_masks)((x) != (x)) | (pair_of_masks)((y) != (y)))
#endif

/* Returns the lane's cells, or eight copies of its constant; *step is the distance to the next eight cells. */
static const double *eight_reals(const tsr_lane *lane, double *eight, uint32_t *step) {
  *step = lane->constant ? 0 : 8;
  if (!lane->constant) return lane->as.reals;
  for (int k = 0; k < 8; k++) eight[k] = lane->as.reals[0];
  return eight;
}

/* Eight cells at a time: a comparison of two doubles gives two 64-bit masks; each keeps the bits of its cell's byte,
 * and the OR of all masks is the eight result bytes. No compiler makes this from a plain loop for SSE2. */
#define DEFINE_COMPARE_REALS(name, TEST)                                                                               \
  static void compare_reals_##name(const tsr_call *call) {                                                             \
    uint32_t step_x, step_y, i = 0;                                                                                    \
    double eight_x[8], eight_y[8];                                                                                     \
    const double *xs = eight_reals(call->a, eight_x, &step_x), *ys = eight_reals(call->b, eight_y, &step_y);           \
    uint8_t *out = call->reg->as.truths;                                                                               \
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

/* ---- Comparisons of all other forms, by the order of two values ------------------------------------------------- */

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
static unsigned order_of_texts(tsr_text_value x, tsr_text_value y) {
  const int c = tsr__bytes_compare(x.bytes, x.size, y.bytes, y.size);
  return ORDER(c, 0);
}

/* Returns the orders for which a comparison holds. LESS with swapped operands is GREATER. */
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
    TSR_EACH2(TYPE_X, call->a->as.xs, TYPE_Y, call->b->as.ys, call->reg->as.truths,                                    \
              truth_of_order(order_of_##name(x, y), wanted));                                                          \
    mask_truths(call);                                                                                                 \
  }
DEFINE_COMPARE_ORDER(integer_and_real, int64_t, integers, double, reals)
DEFINE_COMPARE_ORDER(unsigned_and_real, uint64_t, unsigned_integers, double, reals)
DEFINE_COMPARE_ORDER(unsigned_and_integer, uint64_t, unsigned_integers, int64_t, integers)
DEFINE_COMPARE_ORDER(unsigned, uint64_t, unsigned_integers, uint64_t, unsigned_integers)
DEFINE_COMPARE_ORDER(texts, tsr_text_value, texts, tsr_text_value, texts)

/* a: the truth of EQUAL; b, c: which operand is null. For IS, two nulls are equal. */
static void compare_is(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count; i++) {
    const uint8_t equal = call->a->as.truths[TSR_AT(call->a, i)];
    const uint8_t nulls = call->b->as.truths[TSR_AT(call->b, i)] & call->c->as.truths[TSR_AT(call->c, i)];
    call->reg->as.truths[i] = equal == TSR_UNKNOWN ? nulls : equal;
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

/* ---- Truths ----------------------------------------------------------------------------------------------------- */

#define DEFINE_TRUTH2(name, EXPRESSION)                                                                                \
  static void truth_##name(const tsr_call *call) {                                                                     \
    TSR_EACH2(uint8_t, call->a->as.truths, uint8_t, call->b->as.truths, call->reg->as.truths, EXPRESSION);             \
  }
DEFINE_TRUTH2(and, TSR_MIN(x, y))
DEFINE_TRUTH2(or, TSR_MAX(x, y))

static void truth_not(const tsr_call *call) {
  for (uint32_t i = 0; i < call->count; i++) call->reg->as.truths[i] = (uint8_t)(TSR_TRUE - call->a->as.truths[i]);
}

static void truth_is_null(const tsr_call *call) {
  const tsr_form form = call->step->from;
  uint8_t *out = call->reg->as.truths;
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

/* Intervals are sorted: finds the last one that begins at or before the instant. */
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
    call->reg->as.truths[i] =
        nulls && nulls[i] ? TSR_UNKNOWN : truth_of_within(&call->step->source->within, call->a->as.integers[i]);
  call->out->nulls = NULL;
}

/* ---- Choices between values: CASE, COALESCE and NULLIF, which program.c makes of TSR_STEP_CHOOSE ---------------- */

/* Sets out[i] to x where the truth is true, else to y. */
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
DEFINE_CHOICES(texts, tsr_text_value)

static void choose_nulls(const tsr_call *call) {
  uint8_t none[TSR_BLOCK_CELLS];
  call->out->nulls = NULL;
  if (!call->b->nulls && !call->c->nulls) return;
  memset(none, 0, call->count);
  choose_bytes(call, call->b->nulls ? call->b->nulls : none, call->c->nulls ? call->c->nulls : none, call->reg->nulls);
  call->out->nulls = call->reg->nulls;
}

static void choose_values(const tsr_call *call) {
  const tsr_form form = call->step->form;
  if (form == TSR_FORM_TRUTH) choose_bytes(call, call->b->as.truths, call->c->as.truths, call->reg->as.truths);
  else if (form == TSR_VALUE_TEXT) choose_texts(call, call->b->as.texts, call->c->as.texts, call->reg->as.texts);
  else if (form != TSR_VALUE_OPAQUE && form != TSR_VALUE_NULL)
    choose_words(call, call->b->as.unsigned_integers, call->c->as.unsigned_integers, call->reg->as.unsigned_integers);
  if (form == TSR_VALUE_NUMBER) {
    choose_bytes(call, call->b->whole, call->c->whole, call->reg->whole);
    call->out->whole = call->reg->whole;
  }
  choose_nulls(call);
}

/* ---- LEAST and GREATEST: among equal operands LEAST takes the last, GREATEST the first, as in SQLite ------------ */

#define DEFINE_EXTREMES(name, TYPE, member, BELOW)                                                                     \
  static void least_##name(const tsr_call *call) {                                                                     \
    TSR_EACH2(TYPE, call->a->as.member, TYPE, call->b->as.member, call->reg->as.member, BELOW(x, y) ? x : y);          \
  }                                                                                                                    \
  static void greatest_##name(const tsr_call *call) {                                                                  \
    TSR_EACH2(TYPE, call->a->as.member, TYPE, call->b->as.member, call->reg->as.member, BELOW(x, y) ? y : x);          \
  }
#define BELOW_NUMBERS(x, y) ((x) < (y))
#define BELOW_TEXTS(x, y)   (tsr__bytes_compare((x).bytes, (x).size, (y).bytes, (y).size) < 0)
DEFINE_EXTREMES(integers, int64_t, integers, BELOW_NUMBERS)
DEFINE_EXTREMES(unsigned, uint64_t, unsigned_integers, BELOW_NUMBERS)
DEFINE_EXTREMES(texts, tsr_text_value, texts, BELOW_TEXTS)

/* REAL and NUMBER: null if an operand is. */
static void extreme_reals(const tsr_call *call) {
  const bool number = call->step->form == TSR_VALUE_NUMBER, least = call->step->operation == TSR_OP_LEAST;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint32_t at_a = TSR_AT(call->a, i), at_b = TSR_AT(call->b, i);
    const double x = call->a->as.reals[at_a], y = call->b->as.reals[at_b];
    const bool first = x != x || (y == y && (x < y) == least);
    call->reg->as.reals[i] = first ? x : y;
    if (number) call->reg->whole[i] = first ? call->a->whole[at_a] : call->b->whole[at_b];
  }
  if (number) call->out->whole = call->reg->whole;
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

/* ---- Intervals: the least and the greatest value of an integer step; within 64 bits, it cannot overflow --------- */

typedef tsr_wide interval_end;

static interval_end wide_magnitude(const tsr_step_interval *interval) {
  return TSR_MAX(-(interval_end)interval->low, (interval_end)interval->high);
}

/* Sets the interval of a step, clipped to 64 bits: values beyond are faults. */
static void set_interval(tsr_step *step, interval_end low, interval_end high) {
  step->interval.safe = low >= INT64_MIN && high <= INT64_MAX;
  step->interval.low = (int64_t)TSR_MAX(low, (interval_end)INT64_MIN);
  step->interval.high = (int64_t)TSR_MIN(high, (interval_end)INT64_MAX);
}

static void multiply_intervals(tsr_step *step, const tsr_step_interval *a, const tsr_step_interval *b) {
  const interval_end products[] = {(interval_end)a->low * b->low, (interval_end)a->low * b->high,
                                   (interval_end)a->high * b->low, (interval_end)a->high * b->high};
  interval_end low = products[0], high = products[0];
  for (int i = 1; i < 4; i++) {
    low = TSR_MIN(low, products[i]);
    high = TSR_MAX(high, products[i]);
  }
  set_interval(step, low, high);
}

void tsr__step_interval(const tsr_program *program, tsr_step *step) {
  const tsr_step_interval *a = &program->steps[step->operands[0]].interval, *b = a;
  if (step->operand_count > 1) b = &program->steps[step->operands[1]].interval;
  switch (step->operation) {
  case TSR_OP_ADD: set_interval(step, (interval_end)a->low + b->low, (interval_end)a->high + b->high); return;
  case TSR_OP_SUBTRACT: set_interval(step, (interval_end)a->low - b->high, (interval_end)a->high - b->low); return;
  case TSR_OP_MULTIPLY: multiply_intervals(step, a, b); return;
  case TSR_OP_DIVIDE: set_interval(step, -wide_magnitude(a), wide_magnitude(a)); return;
  case TSR_OP_REMAINDER: {
    const interval_end most = TSR_MAX(wide_magnitude(b) - 1, (interval_end)0);
    set_interval(step, a->low < 0 ? -most : 0, a->high > 0 ? most : 0);
    return;
  }
  case TSR_OP_NEGATE: set_interval(step, -(interval_end)a->high, -(interval_end)a->low); return;
  case TSR_OP_LOOKUP: {
    const tsr_datatype datatype = step->source->list->datatype;
    const uint64_t bits = tsr_datatype_size(datatype) * 8;
    const bool is_signed = tsr_datatype_kind(datatype) == TSR_KIND_SIGNED;
    if (bits < 64)
      set_interval(step, is_signed ? -((interval_end)1 << (bits - 1)) : 0,
                   ((interval_end)1 << (is_signed ? bits - 1 : bits)) - 1);
    else set_interval(step, INT64_MIN, INT64_MAX);
    return;
  }
  case TSR_OP_ABS: set_interval(step, 0, wide_magnitude(a)); return;
  case TSR_OP_SIGN: set_interval(step, -1, 1); return;
  case TSR_STEP_OF_TRUTH: set_interval(step, 0, 1); return;
  case TSR_STEP_OF_UNSIGNED: set_interval(step, 0, INT64_MAX); return;
  case TSR_STEP_CHOOSE: /* the values are the second and the third operand */
    a = b, b = &program->steps[step->operands[2]].interval;
    set_interval(step, TSR_MIN(a->low, b->low), TSR_MAX(a->high, b->high));
    return;
  case TSR_OP_LEAST:
  case TSR_OP_GREATEST: set_interval(step, TSR_MIN(a->low, b->low), TSR_MAX(a->high, b->high)); return;
  default: set_interval(step, INT64_MIN, INT64_MAX);
  }
}

/* ---- Lookups: the value of each cell from a list, by an integer that is its position there ---------------------- */
/* A position outside the list is null; a null position counts as past the end. */
static uint64_t lookup_place(const tsr_call *call, const uint8_t *nulls, uint32_t i) {
  return nulls && nulls[i] ? UINT64_MAX : (uint64_t)call->a->as.integers[i];
}

#define DEFINE_LOOKUP_INTEGERS(name, SOURCE)                                                                           \
  static void lookup_##name(const tsr_call *call) {                                                                    \
    const tsr_value_list *list = call->step->source->list;                                                             \
    const SOURCE *values = list->values;                                                                               \
    const uint8_t *before = call->a->nulls;                                                                            \
    uint8_t *nulls = call->reg->nulls;                                                                                 \
    bool any = false;                                                                                                  \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const uint64_t at = lookup_place(call, before, i);                                                               \
      nulls[i] = at >= list->count || (list->nulls && list->nulls[at]);                                                \
      any |= nulls[i];                                                                                                 \
      call->reg->as.integers[i] = at < list->count ? (int64_t)values[at] : 0;                                          \
    }                                                                                                                  \
    call->out->nulls = any ? nulls : NULL;                                                                             \
  }
DEFINE_LOOKUP_INTEGERS(i8, int8_t)
DEFINE_LOOKUP_INTEGERS(i16, int16_t)
DEFINE_LOOKUP_INTEGERS(i32, int32_t)
DEFINE_LOOKUP_INTEGERS(i64, int64_t)
DEFINE_LOOKUP_INTEGERS(u8, uint8_t)
DEFINE_LOOKUP_INTEGERS(u16, uint16_t)
DEFINE_LOOKUP_INTEGERS(u32, uint32_t)

#define DEFINE_LOOKUP_REALS(name, SOURCE)                                                                              \
  static void lookup_##name(const tsr_call *call) {                                                                    \
    const tsr_value_list *list = call->step->source->list;                                                             \
    const SOURCE *values = list->values;                                                                               \
    const uint8_t *before = call->a->nulls;                                                                            \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const uint64_t at = lookup_place(call, before, i);                                                               \
      const bool null = at >= list->count || (list->nulls && list->nulls[at]);                                         \
      call->reg->as.reals[i] = null ? NAN : (double)values[at];                                                        \
    }                                                                                                                  \
    call->out->nulls = NULL;                                                                                           \
  }
DEFINE_LOOKUP_REALS(f32, float)
DEFINE_LOOKUP_REALS(f64, double)

static void lookup_numbers(const tsr_call *call) {
  const tsr_value_list *list = call->step->source->list;
  const uint8_t *before = call->a->nulls;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t at = lookup_place(call, before, i);
    call->reg->whole[i] = at < list->count && list->whole[at];
  }
  lookup_f64(call);
  call->out->whole = call->reg->whole;
}

static void lookup_texts(const tsr_call *call) {
  const tsr_value_list *list = call->step->source->list;
  const tsr_text_value *values = list->values;
  const uint8_t *before = call->a->nulls;
  uint8_t *nulls = call->reg->nulls;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t at = lookup_place(call, before, i);
    nulls[i] = at >= list->count || (list->nulls && list->nulls[at]);
    call->reg->as.texts[i] = nulls[i] ? (tsr_text_value){"", 0} : values[at];
  }
  call->out->nulls = nulls;
}

tsr_kernel tsr__lookup_kernel(tsr_value_type type, tsr_datatype datatype) {
  if (type == TSR_VALUE_TEXT) return lookup_texts;
  if (type == TSR_VALUE_NUMBER) return lookup_numbers;
  switch (tsr__datatype_physical(datatype)) {
  case TSR_PHYSICAL_I8: return lookup_i8;
  case TSR_PHYSICAL_I16: return lookup_i16;
  case TSR_PHYSICAL_I32: return lookup_i32;
  case TSR_PHYSICAL_U8: return lookup_u8;
  case TSR_PHYSICAL_U16: return lookup_u16;
  case TSR_PHYSICAL_U32: return lookup_u32;
  case TSR_PHYSICAL_F32: return lookup_f32;
  case TSR_PHYSICAL_F64: return lookup_f64;
  default: return lookup_i64; /* also for UINT64: an UNSIGNED keeps its bits */
  }
}
