/* type_fault.h: says in words why the engine cannot evaluate a part of a query, from the types of its operands. */
#ifndef TSX_TYPE_FAULT_H
#define TSX_TYPE_FAULT_H

#include "query/lower.h"

/* Sets the error of the node that tsr_expression_types has refused with this fault. `types` are those of the nodes before
 * it. Returns TSR_ERROR. */
int tsx_type_fault(const tsx_query *query, const tsx_lowered *lowered, uint32_t node, tsr_expression_fault fault,
                   const tsr_value_type *types, tsr_error *error);

#endif
