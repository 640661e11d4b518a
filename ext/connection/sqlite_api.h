/* sqlite_api.h: SQLite's interface, as a loadable extension sees it or, with SQLITE_CORE, as a part of the program does. */
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
