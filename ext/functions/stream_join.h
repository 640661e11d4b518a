/* stream_join.h: one stream of the rows of several. */
#ifndef TSX_STREAM_JOIN_H
#define TSX_STREAM_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera.h"

/* tessera_functions.join: makes *out a stream of the rows of `count` streams on the heap (take_new), at least one, one
 * after the other. They have one schema. *out takes them, and frees them when it is released; after a failure they are
 * the caller's. Returns false without memory. */
bool tsx_streams_join(struct ArrowArrayStream *const *streams, uint64_t count, struct ArrowArrayStream *out);

#endif
