/* picture.h: tessera_png and tessera_preview, which draw two dimensions of an array as a PNG file and as text. */
#ifndef TSX_PICTURE_H
#define TSX_PICTURE_H

#include "connection/sqlite_api.h"

void tsx_png(sqlite3_context *context, int count,
             sqlite3_value **values); /* (path, attribute[, slice[, options]]) or (query[, column][, options]) */
void tsx_preview(sqlite3_context *context, int count, sqlite3_value **values); /* the same arguments */

#endif
