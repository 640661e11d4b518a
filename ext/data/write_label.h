/* write_label.h: tessera_write_label. */
#ifndef TSX_WRITE_LABEL_H
#define TSX_WRITE_LABEL_H

#include "connection/sqlite_api.h"

/* tessera_write_label(path, label, values[, origin]), as an SQL function. */
void tsx_write_label(sqlite3_context *context, int count, sqlite3_value **values);

#endif
