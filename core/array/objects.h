/* objects.h: what directories are, and the arrays and groups below one. */
#ifndef TSR_OBJECTS_H
#define TSR_OBJECTS_H

#include "store/store_bounds.h"

/* What lies at a path of a store, "" for its root. What the disk does not tell is an error, not nothing. */
int tsr__object_kind(tsr_store *store, const char *path, tsr_object_kind *kind, tsr_error *error);

#endif
