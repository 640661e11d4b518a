/* evaluate.c: runs the steps of a program over a block of cells.
 *
 * A step that fails for a cell, for example by integer overflow, does not end the run: it records a fault for that
 * cell, and each step passes on the faults of its operands with the cells. A choice passes on only the faults of the
 * branch that a cell takes; AND and OR only those of operands that matter. A fault that reaches a result is the error
 * of the run.
 *
 * Sections: nulls and faults of operands; running a step; results.
 */
#include "query/program.h"

#include <inttypes.h>
#include <math.h>

#include "base/arithmetic.h"

struct tsr_block_scratch {
  tsr_arena *arena; /* borrowed */
  tsr_lane *lanes; /* of each step */
  tsr_register *registers;
  char *text; /* for MATCH, terminated by NUL */
  uint64_t text_capacity;
  const uint64_t *lent; /* of tsr__program_lend; NULL: nothing */
  uint64_t lent_stride;
  bool failed; /* the last run failed, in this node */
  uint32_t expression, node;
};

static const double null_real = NAN;
static const uint8_t one[] = {1}, zero[] = {0};

/* A constant is a vector of one cell, which points into its node. */
static void set_constant(const tsr_step *step, tsr_lane *lane) {
  lane->constant = true;
  lane->whole = zero;
  if (!step->null) {
    const bool text = step->form == TSR_VALUE_TEXT;
    lane->as.data = text ? (const void *)&step->source->value.as.text : &step->source->value.as.integer;
    return;
  }
  lane->as.reals = &null_real; /* whatever the form: nobody reads it as an integer or a text */
  if (step->form == TSR_FORM_TRUTH) lane->as.truths = one;
  else if (step->form != TSR_VALUE_REAL && step->form != TSR_VALUE_NUMBER) lane->nulls = one;
  static const tsr_text_value empty = {"", 0};
  if (step->form == TSR_VALUE_TEXT) lane->as.texts = &empty;
}

int tsr__scratch_make(const tsr_program *program, tsr_arena *arena, tsr_block_scratch **scratch, tsr_error *error) {
  tsr_block_scratch *made;
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &made, error));
  made->arena = arena;
  TSR_TRY(TSR_ARENA_ARRAY(arena, program->step_count + UINT64_C(1), &made->lanes, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, program->register_count + UINT64_C(1), &made->registers, error));
  for (uint32_t r = 0; r < program->register_count; r++) {
    tsr_register *reg = &made->registers[r];
    const uint64_t words = program->texts ? 2 * TSR_BLOCK_CELLS : TSR_BLOCK_CELLS;
    TSR_TRY(TSR_ARENA_RAW(arena, words, &reg->as.integers, error));
    TSR_TRY(TSR_ARENA_RAW(arena, TSR_BLOCK_CELLS, &reg->nulls, error));
    TSR_TRY(TSR_ARENA_RAW(arena, TSR_BLOCK_CELLS, &reg->whole, error));
    TSR_TRY(TSR_ARENA_RAW(arena, TSR_BLOCK_CELLS, &reg->faults, error));
  }
  for (uint32_t s = 0; s < program->step_count; s++)
    if (program->steps[s].operation == TSR_OP_CONSTANT) set_constant(&program->steps[s], &made->lanes[s]);
  *scratch = made;
  return TSR_OK;
}

/* ---- Nulls and faults of operands -------------------------------------------------------------------------------- */

/* A cell of the result is null if any operand's cell is. Where a REAL is null, the kernel decides. */
static void merge_nulls(const tsr_call *call, const tsr_lane *operand) {
  const uint8_t *nulls = operand->nulls;
  uint8_t *out = call->reg->nulls;
  if (!nulls || (operand->constant && !nulls[0])) return;
  if (operand->constant && call->count > 1) memset(out, 1, call->count);
  else if (call->out->nulls)
    for (uint32_t i = 0; i < call->count; i++) out[i] |= nulls[i];
  else memcpy(out, nulls, call->count);
  call->out->nulls = out;
}

static uint32_t fault_at(const tsr_lane *lane, uint32_t i) {
  return lane && lane->faults ? lane->faults[TSR_AT(lane, i)] : 0;
}

/* Returns the fault of the operands that matters for cell i, or 0. */
static uint32_t fault_of_operands(const tsr_call *call, uint32_t i) {
  const uint32_t a = fault_at(call->a, i), b = fault_at(call->b, i), c = fault_at(call->c, i);
  const uint32_t operation = call->step->operation;
  if (a || call->step->operand_count < 2) return a;
  const uint8_t truth = call->step->from == TSR_FORM_TRUTH ? call->a->as.truths[TSR_AT(call->a, i)] : TSR_UNKNOWN;
  if (operation == TSR_STEP_CHOOSE) return truth == TSR_TRUE ? b : c;
  if (operation == TSR_OP_AND && truth == TSR_FALSE) return 0;
  if (operation == TSR_OP_OR && truth == TSR_TRUE) return 0;
  return b ? b : c;
}

static void merge_faults(const tsr_call *call) {
  const bool any = call->a->faults || (call->b && call->b->faults) || (call->c && call->c->faults);
  if (!any) return;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint32_t own = fault_at(call->out, i), fault = fault_of_operands(call, i);
    call->reg->faults[i] = fault ? fault : own;
  }
  call->out->faults = call->reg->faults;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static int run_match(tsr_block_scratch *scratch, const tsr_call *call, tsr_error *error) {
  const tsr_node *node = call->step->source;
  const uint8_t *nulls = call->out->nulls;
  for (uint32_t i = 0; i < call->count; i++) {
    const tsr_text_value *text = &call->a->as.texts[i];
    call->reg->as.truths[i] = TSR_UNKNOWN;
    if (nulls && nulls[i]) continue;
    if (text->size >= scratch->text_capacity) {
      const uint64_t capacity = tsr__add_sat(TSR_MAX(text->size, 256u), text->size);
      TSR_TRY(TSR_ARENA_RAW(scratch->arena, capacity, &scratch->text, error));
      scratch->text_capacity = capacity;
    }
    if (text->size) memcpy(scratch->text, text->bytes, text->size);
    scratch->text[text->size] = 0;
    const int matches = node->match(node->match_argument, scratch->text, text->size, error);
    if (matches < 0) return matches;
    call->reg->as.truths[i] = matches ? TSR_TRUE : TSR_FALSE;
  }
  call->out->nulls = NULL;
  return TSR_OK;
}

/* Turns consecutive cells of one value into a constant. Dimensions often have one value in a block of a tile; most
 * other columns differ in the first bytes. */
static void find_constant(tsr_block_input *input, uint64_t size, uint32_t count) {
  tsr_column *column = &input->column;
  if (column->constant || column->offsets || column->validity || input->selection || input->null || size == 0) return;
  const uint8_t *values = (const uint8_t *)column->values + input->first * size;
  if (memcmp(values, values + size, (count - 1) * size) != 0) return;
  column->values = values;
  column->constant = true;
}

static void run_input(const tsr_program *program, tsr_call *call, const tsr_block_input *inputs) {
  const tsr_step *step = call->step;
  tsr_block_input input = inputs[step->field];
  if (step->form != TSR_VALUE_OPAQUE)
    find_constant(&input, program->schema->fields[step->field].cell_size, call->count);
  call->out->constant = input.column.constant || input.null;
  if (call->out->constant) call->count = 1;
  if (step->operation == TSR_OP_TABLE) tsr__load_table(call, program->schema, &input);
  else tsr__load_field(call, program->schema, &input);
}

/* Gives the numbers of the rows that the cells meet. */
static void run_row(const tsr_program *program, const tsr_call *call, const tsr_block_input *inputs) {
  const tsr_schema *schema = program->schema;
  const uint32_t *rows = (const uint32_t *)inputs[schema->dimension_count + schema->attribute_count].column.values;
  for (uint32_t i = 0; i < call->count; i++) call->reg->as.integers[i] = rows[i];
}

/* Gives the results of a window: those of the rows' places, where one run of numbers stays. */
static void run_window(const tsr_program *program, const tsr_call *call, const tsr_block_input *inputs) {
  const tsr_schema *schema = program->schema;
  const uint32_t number = call->step->source->window->number;
  const tsr_block_input *input = &inputs[schema->dimension_count + schema->attribute_count + UINT64_C(1) + number];
  const tsr_cell_runs *places = input->places;
  const bool text = call->step->form == TSR_VALUE_TEXT;
  const uint64_t size = text ? sizeof(tsr_text_value) : sizeof(uint64_t);
  const uint8_t *values = input->column.values, *valid = input->column.validity;
  uint8_t *nulls = valid ? tsr__step_nulls(call) : NULL;
  if (places->count == 1) call->out->as.data = values + places->firsts[0] * size;
  for (uint32_t i = 0, from = 0; i < places->count; from = places->ends[i++]) {
    const uint64_t first = places->firsts[i], count = places->ends[i] - from;
    if (places->count > 1) memcpy((uint8_t *)call->reg->as.data + from * size, values + first * size, count * size);
    for (uint64_t k = 0; k < count && valid; k++) nulls[from + k] = !valid[first + k];
  }
}

static int run_step(const tsr_program *program, tsr_block_scratch *scratch, const tsr_step *step,
                    const tsr_block_input *inputs, uint32_t count, tsr_error *error) {
  tsr_lane *operands[3] = {NULL, NULL, NULL}, *out = &scratch->lanes[step->number];
  tsr_register *reg = &scratch->registers[step->reg];
  *out = (tsr_lane){.constant = step->operand_count > 0, .as.data = reg->as.data};
  for (uint32_t i = 0; i < step->operand_count; i++) {
    operands[i] = &scratch->lanes[step->operands[i]];
    out->constant &= operands[i]->constant;
  }
  tsr_call call = {.step = step, .a = operands[0], .b = operands[1], .c = operands[2], .out = out, .reg = reg};
  call.count = out->constant ? 1 : count;
  if (step->operand_count == 0) {
    if (step->operation == TSR_OP_ROW) run_row(program, &call, inputs);
    else if (step->operation == TSR_OP_WINDOW) run_window(program, &call, inputs);
    else run_input(program, &call, inputs);
    return TSR_OK;
  }
  if (step->operation != TSR_STEP_CHOOSE)
    for (uint32_t i = 0; i < step->operand_count; i++) merge_nulls(&call, operands[i]);
  if (step->operation == TSR_OP_MATCH) TSR_TRY(run_match(scratch, &call, error));
  else step->kernel(&call);
  if (step->form == TSR_VALUE_NUMBER && !out->whole) { /* -x, abs(x), floor(x) are whole if x is */
    memcpy(reg->whole, call.a->whole, call.count);
    out->whole = reg->whole;
  }
  merge_faults(&call);
  return TSR_OK;
}

static int run_steps(const tsr_program *program, tsr_block_scratch *scratch, uint32_t steps,
                     const tsr_block_input *inputs, uint32_t count, tsr_error *error) {
  scratch->failed = false;
  for (uint32_t s = 0; s < steps; s++) {
    const tsr_step *step = &program->steps[s];
    if (!step->live || step->operation == TSR_OP_CONSTANT) continue;
    if (step->of_row && scratch->lent) {
      if (step->kept)
        scratch->lanes[s] = (tsr_lane){.as.data = scratch->lent + (step->kept - 1) * scratch->lent_stride};
      continue;
    }
    const int rc = run_step(program, scratch, step, inputs, count, error);
    if (rc >= 0) continue;
    scratch->failed = true;
    scratch->expression = step->origin.expression;
    scratch->node = step->origin.node;
    return rc;
  }
  return TSR_OK;
}

bool tsr__program_keep(const tsr_program *program, const tsr_block_scratch *scratch, uint32_t count, uint64_t *words,
                       uint64_t stride) {
  for (uint32_t s = 0; s < program->step_count; s++) {
    const tsr_lane *lane = &scratch->lanes[s];
    if (!program->steps[s].kept) continue;
    if (lane->nulls || lane->faults || lane->constant) return false;
    memcpy(words + (program->steps[s].kept - 1) * stride, lane->as.data, count * sizeof *words);
  }
  return true;
}

void tsr__program_lend(tsr_block_scratch *scratch, const uint64_t *words, uint64_t stride) {
  scratch->lent = words;
  scratch->lent_stride = stride;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static int report_range(const tsr_program *program, const tsr_step *step, const tsr_block_input *inputs, uint32_t cell,
                        tsr_error *error) {
  const tsr_step *load = step->operation == TSR_OP_FIELD ? step : &program->steps[step->operands[0]];
  if (load->operation != TSR_OP_FIELD) return tsr__fail(error, TSR_RANGE, "a value is past the integers of SQL");
  const tsr_field *field = &program->schema->fields[load->field];
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (kind == TSR_KIND_DATETIME) return tsr__fail(error, TSR_RANGE, "%s: a year outside 0000-9999", field->name);
  if (kind == TSR_KIND_TIME) return tsr__fail(error, TSR_RANGE, "%s: a time outside one day", field->name);
  const tsr_block_input *input = &inputs[load->field];
  const uint64_t at = input->column.constant ? 0 : input->selection ? input->selection[cell] : input->first + cell;
  const uint64_t value = tsr__load64((const uint8_t *)input->column.values + at * sizeof(uint64_t));
  return tsr__fail(error, TSR_RANGE, "%s: %" PRIu64 " is past the integers of SQL", field->name, value);
}

/* Fails if a cell of the lane has a fault: reports the first one. */
static int check_faults(const tsr_program *program, tsr_block_scratch *scratch, const tsr_lane *lane,
                        const tsr_block_input *inputs, uint32_t count, tsr_error *error) {
  if (!lane->faults) return TSR_OK;
  for (uint32_t i = 0; i < (lane->constant ? 1 : count); i++) {
    if (!lane->faults[i]) continue;
    const tsr_step *step = &program->steps[lane->faults[i] - 1];
    scratch->failed = true;
    scratch->expression = step->origin.expression;
    scratch->node = step->origin.node;
    if (step->operation == TSR_STEP_OF_UNSIGNED || step->operation == TSR_OP_FIELD)
      return report_range(program, step, inputs, i, error);
    return tsr__fail(error, TSR_ERROR, "integer overflow");
  }
  return TSR_OK;
}

int tsr__program_run(const tsr_program *program, tsr_block_scratch *scratch, const tsr_block_input *inputs,
                     uint32_t count, tsr_vector *results, tsr_error *error) {
  TSR_TRY(run_steps(program, scratch, program->step_count, inputs, count, error));
  for (uint32_t e = 0; e < program->root_count; e++) {
    const tsr_lane *lane = &scratch->lanes[program->roots[e]];
    TSR_TRY(check_faults(program, scratch, lane, inputs, count, error));
    results[e] = (tsr_vector){.type = program->types[e], .constant = lane->constant, .nulls = lane->nulls};
    results[e].as.integers = lane->as.integers;
    if (results[e].type == TSR_VALUE_NUMBER) results[e].whole = lane->whole;
    if (results[e].type == TSR_VALUE_NULL) results[e].nulls = one;
  }
  return TSR_OK;
}

/* Examines eight cells at a time, since runs of cells tend to be all true or all not. */
static uint32_t select_true(const uint8_t *truths, uint32_t count, uint32_t *out) {
  uint32_t selected = 0, i = 0;
  for (; i + 8 <= count; i += 8) {
    const uint64_t word = tsr__load64(truths + i) & UINT64_C(0x0202020202020202);
    if (!word) continue;
    for (uint32_t k = i; k < i + 8; k++) {
      out[selected] = k;
      selected += truths[k] >> 1;
    }
  }
  for (; i < count; i++)
    if (truths[i] == TSR_TRUE) out[selected++] = i;
  return selected;
}

int tsr__program_select(const tsr_program *program, tsr_block_scratch *scratch, const tsr_block_input *inputs,
                        uint32_t count, uint32_t *selection, uint32_t *selected, tsr_error *error) {
  const tsr_step *root = &program->steps[program->roots[0]];
  const bool truth = root->operation == TSR_STEP_OF_TRUTH && root->number + 1 == program->step_count;
  TSR_TRY(run_steps(program, scratch, program->step_count - truth, inputs, count, error));
  const tsr_lane *lane = &scratch->lanes[truth ? root->operands[0] : root->number];
  TSR_TRY(check_faults(program, scratch, lane, inputs, count, error));
  if (truth && !lane->constant) {
    *selected = select_true(lane->as.truths, count, selection);
    return TSR_OK;
  }
  uint32_t n = 0;
  const tsr_vector vector = {
      .type = program->types[0], .constant = lane->constant, .nulls = lane->nulls, .as.integers = lane->as.integers};
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t at = TSR_AT(lane, i);
    bool is_true = truth && lane->as.truths[at] == TSR_TRUE;
    if (!truth && (vector.type == TSR_VALUE_REAL || vector.type == TSR_VALUE_NUMBER))
      is_true = vector.as.reals[at] < 0 || vector.as.reals[at] > 0;
    else if (!truth && vector.type <= TSR_VALUE_UNSIGNED)
      is_true = !(vector.nulls && vector.nulls[at]) && vector.as.integers[at] != 0;
    if (is_true) selection[n++] = i;
  }
  *selected = n;
  return TSR_OK;
}

static bool step_may_fail(const tsr_step *step) {
  switch (step->operation) {
  case TSR_OP_MATCH:
  case TSR_STEP_OF_UNSIGNED: return true;
  case TSR_OP_ADD:
  case TSR_OP_SUBTRACT:
  case TSR_OP_MULTIPLY:
  case TSR_OP_DIVIDE:
  case TSR_OP_NEGATE:
  case TSR_OP_ABS: return step->form == TSR_VALUE_INTEGER && !step->interval.safe;
  default: return step->form == TSR_VALUE_INSTANT;
  }
}

bool tsr__program_may_fail(const tsr_program *program) {
  bool may = false;
  for (uint32_t s = 0; s < program->step_count; s++) may |= program->steps[s].live && step_may_fail(&program->steps[s]);
  return may;
}

bool tsr__program_fault(const tsr_block_scratch *scratch, uint32_t *expression, uint32_t *node) {
  *expression = scratch->expression;
  *node = scratch->node;
  return scratch->failed;
}

void tsr__vector_value(const tsr_vector *vector, uint32_t cell, tsr_value *value) {
  const uint32_t i = vector->constant ? 0 : cell;
  const bool real = vector->type == TSR_VALUE_REAL || vector->type == TSR_VALUE_NUMBER;
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  if (vector->type == TSR_VALUE_NULL || vector->type == TSR_VALUE_OPAQUE) return;
  if (real ? isnan(vector->as.reals[i]) : vector->nulls && vector->nulls[i]) return;
  value->type = vector->type;
  if (vector->type == TSR_VALUE_TEXT) {
    value->as.text.bytes = vector->as.texts[i].bytes;
    value->as.text.size = vector->as.texts[i].size;
  } else if (real && vector->whole && vector->whole[i]) {
    value->type = TSR_VALUE_INTEGER;
    value->as.integer = (int64_t)vector->as.reals[i];
  } else {
    if (real) value->type = TSR_VALUE_REAL;
    value->as.integer = vector->as.integers[i]; /* or the bits of a REAL */
  }
}
