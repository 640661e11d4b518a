/* step_interval.c: finds the least and the greatest value that an integer step can have. Where they lie within 64 bits,
 * its kernel need not look for overflow. */
#include "base/arithmetic.h"
#include "compute/program.h"

typedef tsr_wide interval_end;

static interval_end wide_magnitude(const tsr_step_interval *interval) {
  return TSR_MAX(-(interval_end)interval->low, (interval_end)interval->high);
}

/* Sets the interval of a step; one that passes 64 bits is cut off at their ends, as values past them are faults. */
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
