/* functions_known.h: the functions that the text of a tessera_query may call, and nothing else may. */
#ifndef TSX_FUNCTIONS_KNOWN_H
#define TSX_FUNCTIONS_KNOWN_H

#include "tessera.h"

typedef struct tsx_function {
  const char *name;
  uint8_t least, greatest; /* numbers of arguments */
  tsr_operation cells; /* the engine's operation over cells; TSR_OP_COUNT: SQLite alone evaluates it */
  bool aggregate;
  tsr_aggregate_function aggregates;
  bool replaced; /* SQLite may lack it: its own parser is given total(x) in its place */
} tsx_function;

/* Returns the function with this name, in any case, that takes this many arguments; NULL if there is none. */
const tsx_function *tsx_function_find(const char *name, uint32_t count);

/* Returns a function with this name, whatever arguments it takes; NULL if there is none. */
const tsx_function *tsx_function_known(const char *name);

#endif
