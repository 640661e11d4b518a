/* sqlite_api.h: SQLite's interface. A loadable extension calls SQLite through a table of functions; if the extension is
 * compiled into a program (SQLITE_CORE), it calls SQLite directly. */
#ifndef TSX_SQLITE_API_H
#define TSX_SQLITE_API_H

#ifdef SQLITE_CORE
#include "sqlite3.h"
#else
#include "sqlite3ext.h"
SQLITE_EXTENSION_INIT3
#endif

#define TSX_SQLITE_MIN 3038000 /* the oldest SQLite that the extension runs on */

#endif
