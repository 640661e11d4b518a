/* step_lookup.c: kernels that take the value of each cell from a list, by an integer that says its place there. A place
 * outside of the list is null. */
#include <math.h>

#include "compute/program.h"

/* A null as a place is past every end. */
static uint64_t lookup_place(const tsr_call *call, const uint8_t *nulls, uint32_t i) {
  return nulls && nulls[i] ? UINT64_MAX : (uint64_t)call->a->as.integers[i];
}

#define DEFINE_LOOKUP_INTEGERS(name, SOURCE)                                                                           \
  static void lookup_##name(const tsr_call *call) {                                                                    \
    const tsr_value_list *list = call->step->source->list;                                                             \
    const SOURCE *values = list->values;                                                                               \
    const uint8_t *before = call->a->nulls;                                                                            \
    uint8_t *nulls = call->room->nulls;                                                                                \
    bool any = false;                                                                                                  \
    for (uint32_t i = 0; i < call->count; i++) {                                                                       \
      const uint64_t at = lookup_place(call, before, i);                                                               \
      nulls[i] = at >= list->count || (list->nulls && list->nulls[at]);                                                \
      any |= nulls[i];                                                                                                 \
      call->room->as.integers[i] = at < list->count ? (int64_t)values[at] : 0;                                         \
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
      call->room->as.reals[i] = null ? NAN : (double)values[at];                                                       \
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
    call->room->whole[i] = at < list->count && list->whole[at];
  }
  lookup_f64(call);
  call->out->whole = call->room->whole;
}

static void lookup_texts(const tsr_call *call) {
  const tsr_value_list *list = call->step->source->list;
  const tsr_text *values = list->values;
  const uint8_t *before = call->a->nulls;
  uint8_t *nulls = call->room->nulls;
  for (uint32_t i = 0; i < call->count; i++) {
    const uint64_t at = lookup_place(call, before, i);
    nulls[i] = at >= list->count || (list->nulls && list->nulls[at]);
    call->room->as.texts[i] = nulls[i] ? (tsr_text){"", 0} : values[at];
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
  default: return lookup_i64; /* of UINT64, too: an UNSIGNED keeps its bits */
  }
}
