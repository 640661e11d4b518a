/* sqlite_api.h: SQLite's interface. A loadable extension calls SQLite through a table of functions; if the extension is
 * compiled into a program (SQLITE_CORE), it calls SQLite directly. */
#ifndef TSX_SQLITE_API_H
#define TSX_SQLITE_API_H

#ifdef SQLITE_CORE
#include "sqlite3.h"
#if defined(SQLITE_THREADSAFE) && SQLITE_THREADSAFE == 0 /* such an SQLite has no mutex functions to link with */
#define sqlite3_mutex_alloc(kind)  ((sqlite3_mutex *)NULL)
#define sqlite3_mutex_free(mutex)  ((void)(mutex))
#define sqlite3_mutex_try(mutex)   ((void)(mutex), SQLITE_OK)
#define sqlite3_mutex_leave(mutex) ((void)(mutex))
#endif
#else
#include "sqlite3ext.h"
SQLITE_EXTENSION_INIT3
#endif

#define TSX_SQLITE_MIN 3038000 /* the oldest SQLite that the extension runs on */

#endif
