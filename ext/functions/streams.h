/* streams.h: tessera_stream and tessera_library, and tessera_api, by which C and Python take Arrow streams. */
#ifndef TSX_STREAMS_H
#define TSX_STREAMS_H

#include "connection/connection.h"

/* Registers tessera_stream and tessera_library for a connection; returns SQLite's code. When the connection is closed,
 * its streams end. */
int tsx_register_streams(tsx_connection *connection);

#endif
