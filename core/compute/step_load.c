/* step_load.c: loads the cells of a field into a vector of its form, or what a table says about each of them. */
#include <math.h>

#include "base/arithmetic.h"
#include "compute/program.h"

/* Defines a function that widens `count` values: those of the selection, or those from `values` on. */
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

/* Sets the nulls of the result by the validity of the cells. */
static void load_nulls(const tsr_call *call, const tsr_block_input *input) {
  const uint8_t *validity = input->column.validity;
  uint8_t *nulls = call->room->nulls, any = 0;
  call->out->nulls = NULL;
  if (!validity && !input->null) return;
  for (uint32_t i = 0; i < call->count; i++) {
    nulls[i] = input->null || validity[load_index(input, i)] == 0;
    any |= nulls[i];
  }
  if (any) call->out->nulls = nulls;
}

/* Returns true if the cells can be used where they are, without a copy. */
static bool is_in_place(const tsr_call *call, const tsr_block_input *input, const uint8_t *values) {
  return !input->selection && !input->null && !call->out->nulls && (uintptr_t)values % 8 == 0;
}

static void load_texts(const tsr_call *call, const tsr_block_input *input) {
  const tsr_column *column = &input->column;
  const char *bytes = column->values;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t at = load_index(input, i);
    tsr_text *text = &call->room->as.texts[i];
    if (call->out->nulls && call->out->nulls[i]) *text = (tsr_text){"", 0};
    else if (!column->offsets) *text = (tsr_text){bytes + at * column->cell_size, column->cell_size};
    else *text = (tsr_text){bytes + column->offsets[at], column->offsets[at + 1] - column->offsets[at]};
  }
}

/* NaT is null, and a value without a text is a fault. */
static void check_instants(const tsr_call *call) {
  const int64_t *values = call->out->as.integers;
  uint8_t *nulls = NULL;
  for (uint32_t i = 0; i < call->count; i++) {
    if (values[i] >= call->step->low && values[i] <= call->step->high) continue;
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
  if (size == 8 && target == call->room->as.data && is_in_place(call, input, values)) {
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
  load_numbers(call, &schema->fields[call->step->field], input, call->room->as.data);
  if (form == TSR_VALUE_INSTANT) check_instants(call);
  if (form != TSR_VALUE_REAL) return;
  double *out = call->room->as.reals;
  const uint8_t *nulls = call->out->nulls;
  for (uint32_t i = 0; nulls && i < call->count; i++) out[i] = nulls[i] ? NAN : out[i];
  call->out->nulls = NULL;
}

/* The table has one value more than its coordinates: null, for all cells outside. */
void tsr__load_table(const tsr_call *call, const tsr_schema *schema, const tsr_block_input *input) {
  const tsr_value_table *table = call->step->source->table;
  int64_t values[TSR_BLOCK_CELLS];
  uint64_t at[TSR_BLOCK_CELLS];
  load_nulls(call, input);
  load_numbers(call, &schema->fields[call->step->field], input, values);
  for (uint32_t i = 0; i < call->count; i++) at[i] = TSR_MIN((uint64_t)values[i] - (uint64_t)table->low, table->count);
  if (call->out->nulls)
    for (uint32_t i = 0; i < call->count; i++) at[i] = call->out->nulls[i] ? table->count : at[i];
  call->out->nulls = NULL;
  if (call->step->form == TSR_VALUE_TEXT)
    for (uint32_t i = 0; i < call->count; i++) call->room->as.texts[i] = ((const tsr_text *)call->step->table)[at[i]];
  else
    for (uint32_t i = 0; i < call->count; i++) call->room->as.integers[i] = ((const int64_t *)call->step->table)[at[i]];
  if (call->step->form == TSR_VALUE_NUMBER) {
    for (uint32_t i = 0; i < call->count; i++) call->room->whole[i] = call->step->table_whole[at[i]];
    call->out->whole = call->room->whole;
  }
  if (call->step->form == TSR_VALUE_REAL || call->step->form == TSR_VALUE_NUMBER) return;
  for (uint32_t i = 0; i < call->count; i++) call->room->nulls[i] = call->step->table_nulls[at[i]];
  call->out->nulls = call->room->nulls;
}
