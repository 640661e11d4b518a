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

/* Returns the place of a coordinate in a list, or the list's end. Most coordinates equal that of the cell before. */
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

/* Turns coordinates into their places in a table, which has one value more than coordinates: null, for all cells outside.
 * Returns true if there are such cells. */
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

#define SAME_CELLS 16u /* neighbours that are looked up at once if they have one coordinate */

/* The same for a table of words: sets out[i] to the word of coordinate values[i]. */
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
    const bool all = !table_words(at, count, step->source->table, step->table.values, call->room->as.integers);
    if (all || real) return;
  }
  const bool outside = table_places(call, step->source->table, at);
  call->out->nulls = NULL;
  if (step->form == TSR_VALUE_TEXT) {
    for (uint32_t i = 0; i < count; i++) call->room->as.texts[i] = ((const tsr_text *)step->table.values)[at[i]];
  } else {
    const int64_t *table = step->table.values;
    int64_t *out = call->room->as.integers;
    for (uint32_t i = 0; i < count; i++) out[i] = table[at[i]];
  }
  if (step->form == TSR_VALUE_NUMBER) {
    for (uint32_t i = 0; i < count; i++) call->room->whole[i] = step->table.whole[at[i]];
    call->out->whole = call->room->whole;
  }
  if (real || !(step->table.nulls || outside)) return;
  const int64_t end = (int64_t)step->source->table->count;
  for (uint32_t i = 0; i < count; i++)
    call->room->nulls[i] = step->table.nulls ? step->table.nulls[at[i]] : at[i] == end;
  call->out->nulls = call->room->nulls;
}
