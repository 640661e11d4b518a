/* condition.h: delete conditions: decodes a condition from its generic tile, evaluates it on cells, and encodes new
 * ones. A snapshot decodes the conditions in view; readers evaluate them on the cells that they load. */
#ifndef TSR_FORMAT_CONDITION_H
#define TSR_FORMAT_CONDITION_H

#include "base/input.h"
#include "base/memory.h"

/* Comparison operators, as stored. A condition is stored negated: cells that satisfy it are kept, all others are
 * deleted (docs/errata.md). */
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

/* A node of the tree: an expression that joins its children, or a comparison of a field with a value. */
typedef struct tsr_condition_node {
  bool expression; /* false: a comparison */
  uint8_t op; /* expression: 0 AND, 1 OR; comparison: a tsr_condition_op */
  uint32_t child_count; /* expression: at least 2; comparison: 0 */
  struct tsr_condition_node *children;
  char *field; /* comparison: name of the field */
  uint32_t field_number; /* comparison: index in tsr_condition.fields */
  const uint8_t *value; /* comparison: the value; IN, NOT IN: all values, one after the other */
  uint64_t value_size; /* of `value`, in bytes */
  const uint64_t *value_offsets; /* IN, NOT IN: value_count + 1 byte offsets into `value` */
  uint64_t value_count; /* IN, NOT IN: values */
  const struct tsr_condition_set *set; /* IN, NOT IN: the values, sorted for search (condition.c) */
  /* AND: index of the children by value; NULL: none (condition.c, "Guards") */
  const struct tsr_condition_guards *guards;
} tsr_condition_node;

typedef struct tsr_condition_values { /* what a field is compared with */
  bool single; /* each comparison has one value */
  uint64_t size; /* of all values, in bytes; UINT64_MAX: they have different sizes */
} tsr_condition_values;

typedef struct tsr_condition {
  char *name; /* timestamped name of the condition, without directory and suffix */
  uint64_t time; /* deletes cells up to here; in milliseconds since 1970 */
  uint64_t visible; /* from then on they are deleted; set by who has read the name's second time */
  tsr_condition_node root;
  uint32_t depth; /* levels of the tree; 1: the root alone */
  uint64_t comparisons; /* comparisons in the tree */
  uint32_t field_count;
  char **fields; /* names of the fields that the condition compares, each once */
  tsr_condition_values *values; /* by field; NULL: not known */
} tsr_condition;

/* Decodes the content of a delete condition's generic tile. `arena` owns the condition; nothing is borrowed from the
 * input. Returns TSR_CORRUPT if the tree is damaged or has too many levels. */
int tsr__condition_decode(tsr_input *in, const char *name, uint64_t time, tsr_arena *arena, tsr_condition *condition,
                          tsr_error *error);

/* Returns true if every comparison of `field` in the condition can be evaluated on that field: its datatype can be
 * compared, and the values have the size of its cells. */
bool tsr__condition_fits(const tsr_condition *condition, const tsr_field *field);

/* Gives the column and the description of one field of a condition. Fails if no schema has the field. A column whose
 * `unwritten` is true stands for an attribute that the cells' fragment lacks. */
typedef int (*tsr_column_getter)(void *argument, const char *field, const tsr_field **description,
                                 const tsr_column **column, tsr_error *error);

/* Evaluates the condition on `count` cells as TileDB does (format.md, "Delete conditions": a comparison with null is
 * false) and sets keep[r] to 1 if cell r satisfies the condition, else to 0. `selection`: the positions of these cells
 * in the columns; NULL: cells 0 to count - 1. Calls `column` once for each field. Takes temporary memory from `memory`.
 * Thread-safe if `column` is. */
int tsr__condition_evaluate(const tsr_condition *condition, tsr_column_getter column, void *argument,
                            const uint32_t *selection, uint64_t count, uint8_t *keep, tsr_memory *memory,
                            tsr_error *error);

/* ---- Encoding: node by node, parents first. On an error `out` is unchanged. -------------------------------------- */

#define TSR_JOIN_AND 0
#define TSR_JOIN_OR  1

/* Appends an expression that joins its children by TSR_JOIN_AND or TSR_JOIN_OR. The caller then appends its `count`
 * children, at least two. */
int tsr__condition_put_expression(uint8_t join, uint64_t count, tsr_buffer *out, tsr_error *error);

/* Appends a comparison with any operator except IN and NOT IN. `size`: of the value, in bytes. */
int tsr__condition_put_comparison(tsr_condition_op op, const char *field, const void *value, uint64_t size,
                                  tsr_buffer *out, tsr_error *error);

/* Appends a comparison with IN or NOT IN (format version 20 and later). `values` holds the values one after the other,
 * `size` bytes in all, at least one; `offsets` says where each of the `count` values begins, in bytes. */
int tsr__condition_put_set(tsr_condition_op op, const char *field, const void *values, uint64_t size,
                           const uint64_t *offsets, uint64_t count, tsr_buffer *out, tsr_error *error);

#endif
