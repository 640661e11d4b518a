/* stream_link.h: what a connection shares with the streams that it has made: it tells them whether it is still open. */
#ifndef TSX_STREAM_LINK_H
#define TSX_STREAM_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "connection/connection.h"

typedef struct tsx_stream_link {
  pthread_mutex_t lock;
  _Atomic uint32_t references; /* of the connection, its streams, and running calls */
  tsx_connection *connection; /* NULL: it was closed */
  struct lent_stream *streams; /* of arrays: all that are open */
} tsx_stream_link;

/* Makes a link with one reference; NULL: no memory. */
tsx_stream_link *tsx_stream_link_make(tsx_connection *connection);
void tsx_stream_link_drop(tsx_stream_link *link);

/* Takes the link, and the connection's mutex if it is open: 1. Returns 0 with the link alone if the connection was
 * closed, or -1 with neither if another thread has the mutex and the caller does not want to wait. */
int tsx_stream_link_enter(tsx_stream_link *link, bool wait);

#endif
