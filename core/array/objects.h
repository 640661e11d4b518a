/* objects.h: finds out whether a directory is an array or a group. objects.c also lists the arrays and groups below a
 * directory (tsr_objects_open). */
#ifndef TSR_OBJECTS_H
#define TSR_OBJECTS_H

#include "store/store.h"

/* Gives the kind of the object at a path of a store; "" is the store's root. If the disk does not answer, that is an
 * error, not TSR_OBJECT_NONE. */
int tsr__object_kind(tsr_store *store, const char *path, tsr_object_kind *kind, tsr_error *error);

#endif
