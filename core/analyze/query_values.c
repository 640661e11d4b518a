/* query_values.c: the values of expressions for rows of a batch. */
#include "analyze/query_values.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"

struct query_program {
  const tsr_expression *expression;
  uint32_t field;
  tsr_value_type type;
  tsr_physical_type physical;
};

struct query_scratch {
  uint64_t values[2 * QUERY_BLOCK];
  uint8_t nulls[QUERY_BLOCK];
};

static tsr_value_type value_type_of(const tsr_field *f) {
  const tsr_kind kind = tsr_datatype_kind(f->datatype);
  if (f->values_per_cell == TSR_VARIABLE)
    return kind == TSR_KIND_TEXT && tsr_datatype_size(f->datatype) == 1 ? TSR_VALUE_TEXT : TSR_VALUE_OPAQUE;
  if (f->values_per_cell != 1 || kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES) return TSR_VALUE_OPAQUE;
  if (kind == TSR_KIND_FLOAT) return TSR_VALUE_REAL;
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) return TSR_VALUE_INSTANT;
  return f->datatype == TSR_UINT64 ? TSR_VALUE_UNSIGNED : TSR_VALUE_INTEGER;
}

int tsr__query_program_make(const tsr_schema *schema, const tsr_expression *expression, tsr_arena *arena,
                            query_program **program, tsr_error *error) {
  const tsr_node *node = &expression->nodes[expression->count - 1];
  if (node->operation != TSR_OP_FIELD || node->field >= schema->dimension_count + schema->attribute_count)
    return tsr__fail(error, TSR_UNSUPPORTED, "only fields can be evaluated");
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, program, error));
  const tsr_field *field = &schema->fields[node->field];
  **program = (query_program){.expression = expression,
                              .field = node->field,
                              .type = value_type_of(field),
                              .physical = tsr__datatype_physical(field->datatype)};
  return TSR_OK;
}

tsr_value_type tsr__query_program_type(const query_program *program) { return program->type; }

void tsr__query_program_fields(const query_program *program, bool *fields) { fields[program->field] = true; }

int tsr__query_scratch_make(tsr_memory *memory, query_scratch **scratch, tsr_error *error) {
  return TSR_ALLOC(memory, scratch, error);
}

void tsr__query_scratch_free(query_scratch *scratch) { tsr__free(scratch); }

static void load_values(tsr_physical_type physical, const tsr_column *column, const query_rows *rows, void *to) {
  const uint8_t *values = column->values;
  double *reals = to;
  int64_t *integers = to;
  switch (physical) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name:                                                                                            \
    for (uint32_t r = 0; r < rows->count; r++) {                                                                       \
      const uint64_t i = column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r;                        \
      type v;                                                                                                          \
      memcpy(&v, values + i * sizeof v, sizeof v);                                                                     \
      integers[r] = (int64_t)v;                                                                                        \
    }                                                                                                                  \
    break;
    X(I8, int8_t)
    X(I16, int16_t)
    X(I32, int32_t)
    X(I64, int64_t)
    X(U8, uint8_t)
    X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)
#undef X
        case TSR_PHYSICAL_F32 : for (uint32_t r = 0; r < rows->count; r++) {
      const uint64_t i = column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r;
      float v;
      memcpy(&v, values + i * sizeof v, sizeof v);
      reals[r] = v;
    }
    break;
  case TSR_PHYSICAL_F64:
    for (uint32_t r = 0; r < rows->count; r++) {
      const uint64_t i = column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r;
      memcpy(&reals[r], values + i * sizeof *reals, sizeof *reals);
    }
    break;
  }
}

int tsr__query_program_run(const query_program *program, query_scratch *scratch, const query_rows *rows,
                           query_vector *vector, uint32_t *node, tsr_error *error) {
  const query_input *input = &rows->inputs[program->field];
  const tsr_column *column = &input->column;
  (void)node, (void)error;
  *vector = (query_vector){.type = program->type, .values = scratch->values};
  if (input->null || column->validity) {
    for (uint32_t r = 0; r < rows->count; r++) {
      const uint64_t i = column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r;
      scratch->nulls[r] = input->null || !column->validity[i];
    }
    vector->nulls = scratch->nulls;
  }
  if (program->type == TSR_VALUE_TEXT) {
    struct tsr_text_value *texts = (void *)scratch->values;
    for (uint32_t r = 0; r < rows->count; r++) {
      const uint64_t i = column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r;
      texts[r] = (struct tsr_text_value){.bytes = (const char *)column->values + column->offsets[i],
                                         .size = column->offsets[i + 1] - column->offsets[i]};
    }
  } else if (program->type != TSR_VALUE_OPAQUE) {
    load_values(program->physical, column, rows, scratch->values);
    for (uint32_t r = 0; r < rows->count && vector->nulls && program->type == TSR_VALUE_REAL; r++)
      if (vector->nulls[r]) ((double *)(void *)scratch->values)[r] = NAN;
  }
  return TSR_OK;
}

const tsr_expression *tsr__query_program_expression(const query_program *program) { return program->expression; }
