/* same.h: compares expressions node by node. */
#ifndef TSR_SAME_H
#define TSR_SAME_H

#include "tessera.h"

/* Returns true if both expressions have the same nodes, so that their values are the same for every cell. Tables,
 * intervals and the functions of MATCH are compared by their addresses. */
bool tsr__expressions_same(const tsr_expression *a, const tsr_expression *b);

#endif
