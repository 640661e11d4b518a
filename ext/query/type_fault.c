/* type_fault.c: the messages about operands whose types the engine cannot take together, or not for an operation. */
#include "query/type_fault.h"

#include "connection/errors.h"

#define FAULT_OVER_COLUMNS "not evaluated over columns: "

static const char *fault_name(tsr_value_type type) {
  switch (type) {
  case TSR_VALUE_INTEGER: return "INTEGER";
  case TSR_VALUE_UNSIGNED: return "UINT64";
  case TSR_VALUE_REAL: return "REAL";
  case TSR_VALUE_NUMBER: return "INTEGER or REAL";
  case TSR_VALUE_TEXT: return "TEXT";
  case TSR_VALUE_INSTANT: return "a datetime";
  case TSR_VALUE_OPAQUE: return "a cell of several values or bytes";
  case TSR_VALUE_NULL:
  default: return "NULL";
  }
}

static bool fault_is_number(tsr_value_type type) {
  return type == TSR_VALUE_INTEGER || type == TSR_VALUE_UNSIGNED || type == TSR_VALUE_REAL || type == TSR_VALUE_NUMBER;
}

/* Returns true if the operand of CASE is a condition. */
static bool fault_is_condition(const tsr_node *n, uint32_t operand) {
  return n->operation == TSR_OP_CASE && operand % 2 == 0 && operand + 1 < n->operand_count;
}

static int fault_set(const tsx_query *query, const tsx_expr *tree, char *what, const char *advice, tsr_error *error) {
  const int code =
      what ? tsx_expr_fail(&query->select, tree->begin, tree->end, what, advice, error) : tsx_out_of_memory(error);
  sqlite3_free(what);
  return code;
}

static int fault_refuse(const tsx_query *query, const tsx_expr *tree, char *advice, tsr_error *error) {
  const int code = advice ? tsx_expr_fail(&query->select, tree->begin, tree->end, FAULT_OVER_COLUMNS, advice, error)
                          : tsx_out_of_memory(error);
  sqlite3_free(advice);
  return code;
}

/* Branches of different types. The first branch is compared with the first that has another type. */
static int fault_mixed(const tsx_query *query, const tsx_expr *tree, const tsr_node *n, const tsr_value_type *types,
                       tsr_error *error) {
  tsr_value_type a = TSR_VALUE_NULL, b = TSR_VALUE_NULL;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const tsr_value_type type = types[n->operands[i]];
    if (fault_is_condition(n, i) || type == TSR_VALUE_NULL) continue;
    if (a == TSR_VALUE_NULL) a = type;
    else if (type != a && b == TSR_VALUE_NULL) b = type;
  }
  if (b == TSR_VALUE_NULL && a == TSR_VALUE_INSTANT)
    return fault_set(query, tree, sqlite3_mprintf("datetimes of two units in branches: "), "use one unit", error);
  const bool numbers = fault_is_number(a) && (fault_is_number(b) || b == TSR_VALUE_NULL);
  if (numbers && a != TSR_VALUE_UNSIGNED && b != TSR_VALUE_UNSIGNED)
    return fault_set(query, tree, sqlite3_mprintf("INTEGER in one branch, REAL in another: "), "CAST one of them",
                     error);
  return fault_set(query, tree, sqlite3_mprintf("%s in one branch, %s in another: ", fault_name(a), fault_name(b)),
                   numbers ? "CAST one of them" : "all branches must be numbers, texts, or datetimes of one unit",
                   error);
}

/* Says what of the first operand that is no number does not suit. */
static int fault_no_number(const tsx_query *query, const tsx_expr *tree, const tsr_node *n, const tsr_value_type *types,
                           tsr_error *error) {
  const bool tests = n->operation == TSR_OP_AND || n->operation == TSR_OP_OR || n->operation == TSR_OP_NOT;
  const bool chooses = n->operation == TSR_OP_CASE || n->operation == TSR_OP_COALESCE || n->operation == TSR_OP_LEAST ||
                       n->operation == TSR_OP_GREATEST;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const tsr_value_type type = types[n->operands[i]];
    if (fault_is_number(type) || type == TSR_VALUE_NULL) continue;
    if (chooses && !fault_is_condition(n, i)) {
      if (type != TSR_VALUE_OPAQUE) continue;
      return fault_refuse(query, tree, sqlite3_mprintf("%s in a branch", fault_name(type)), error);
    }
    if (tests || fault_is_condition(n, i))
      return fault_refuse(query, tree, sqlite3_mprintf("%s is no condition: compare it", fault_name(type)), error);
    return fault_refuse(query, tree, sqlite3_mprintf("%s, where a number is wanted", fault_name(type)), error);
  }
  return fault_refuse(query, tree, sqlite3_mprintf("its operands have no such operation"), error);
}

/* Names the two sides of a comparison that the engine cannot make. */
static int fault_compare(const tsx_query *query, const tsx_expr *tree, const tsr_node *n, const tsr_value_type *types,
                         tsr_error *error) {
  const tsr_value_type a = types[n->operands[0]];
  for (uint32_t i = 1; i < n->operand_count; i++) {
    const tsr_value_type b = types[n->operands[i]];
    if (b == TSR_VALUE_NULL || (fault_is_number(a) && fault_is_number(b)) || (a == b && a == TSR_VALUE_TEXT)) continue;
    if (a == b && a == TSR_VALUE_INSTANT) continue;
    return fault_refuse(query, tree, sqlite3_mprintf("compares %s with %s", fault_name(a), fault_name(b)), error);
  }
  return fault_refuse(query, tree, sqlite3_mprintf("compares datetimes of two units"), error);
}

static bool fault_compares(tsr_operation operation) {
  switch (operation) {
  case TSR_OP_EQUAL:
  case TSR_OP_UNEQUAL:
  case TSR_OP_LESS:
  case TSR_OP_LESS_EQUAL:
  case TSR_OP_GREATER:
  case TSR_OP_GREATER_EQUAL:
  case TSR_OP_IS:
  case TSR_OP_IS_NOT:
  case TSR_OP_IN:
  case TSR_OP_NULLIF: return true;
  default: return false;
  }
}

int tsx_type_fault(const tsx_query *query, const tsx_lowered *lowered, uint32_t node, tsr_expression_fault fault,
                   const tsr_value_type *types, tsr_error *error) {
  const tsx_expr *tree = lowered->trees[node];
  const tsr_node *n = &lowered->expression.nodes[node];
  if (fault == TSR_FAULT_TEXT_NUMBER)
    return tsx_expr_fail(&query->select, tree->begin, tree->end, "compares a number with text: ", "CAST one of them",
                         error);
  if (fault == TSR_FAULT_MIXED) return fault_mixed(query, tree, n, types, error);
  if (fault_compares(n->operation)) return fault_compare(query, tree, n, types, error);
  if (n->operation == TSR_OP_MATCH)
    return fault_refuse(query, tree,
                        sqlite3_mprintf("%s of %s, which is no text",
                                        tree->kind == TSX_EXPR_LIKE && tree->name[0] == 'g' ? "GLOB" : "LIKE",
                                        fault_name(types[n->operands[0]])),
                        error);
  return fault_no_number(query, tree, n, types, error);
}
