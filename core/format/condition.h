/* condition.h: delete conditions. */
#ifndef TSR_CONDITION_H
#define TSR_CONDITION_H

#include "base/input.h"
#include "base/memory.h"

/* A tree in post-order-free form: nodes with children by index. Cells that satisfy it are KEPT (errata.md). */
typedef enum tsr_condition_op {
  TSR_LT = 0,
  TSR_LE = 1,
  TSR_GT = 2,
  TSR_GE = 3,
  TSR_EQ = 4,
  TSR_NE = 5,
  TSR_IN = 6,
  TSR_NOT_IN = 7,
  TSR_ALWAYS_TRUE = 253,
  TSR_ALWAYS_FALSE = 254
} tsr_condition_op;

typedef struct tsr_condition_node {
  bool expression; /* else a comparison */
  uint8_t op; /* expression: 0 AND, 1 OR; comparison: tsr_condition_op */
  uint32_t child_count;
  struct tsr_condition_node *children;
  char *field;
  uint32_t field_number; /* in the condition's fields */
  const uint8_t *value;
  uint64_t value_size; /* IN, NOT IN: the values, one after the other */
  const uint64_t *value_offsets;
  uint64_t value_count; /* IN, NOT IN: value_count + 1 offsets */
  const struct tsr_condition_set *set; /* IN, NOT IN: the values, ready for search (condition.c) */
  const struct tsr_condition_guards *guards; /* expression: its children, looked up by value; or NULL (condition.c) */
} tsr_condition_node;

typedef struct tsr_condition {
  char *name;
  uint64_t time;
  tsr_condition_node root;
  uint32_t depth; /* of the tree; 1: the root alone */
  uint64_t comparisons; /* in the tree */
  uint32_t field_count;
  char **fields; /* that it names, each once */
} tsr_condition;

/* Decodes the content of a delete's generic tile; nothing is borrowed. Depth and counts are bounded (TSR_CORRUPT). */
int tsr__condition_decode(tsr_input *in, const char *name, uint64_t time, tsr_arena *arena, tsr_condition *condition,
                          tsr_error *error);

/* Could it be evaluated on this field, which it names: have its values the field's size? */
bool tsr__condition_fits(const tsr_condition *condition, const tsr_field *field);

/* Evaluates the tree on the cells selection[0..count) of columns (NULL: 0..count-1), as TileDB does (format.md, "Delete
 * conditions": a comparison with null is false): keep[r] = 1 where it holds, else 0. `column` gives a field's column,
 * is asked once for each field, and fails for one that the schema lacks. A column that is `unwritten` is one of an
 * attribute that the cells' fragment lacks. Thread-safe. */
typedef int (*tsr_column_getter)(void *argument, const char *field, const tsr_field **description,
                                 const tsr_column **column, tsr_error *error);

int tsr__condition_evaluate(const tsr_condition *condition, tsr_column_getter column, void *argument,
                            const uint32_t *selection, uint64_t count, uint8_t *keep, tsr_memory *memory,
                            tsr_error *error);

#endif
