/* uri.h: paths that are URIs of object stores: s3://bucket/path, azure://container/path, gcs://bucket/path. */
#ifndef TSR_BASE_URI_H
#define TSR_BASE_URI_H

#include "base/memory.h"

/* Returns the scheme of an object store's URI as messages and stored paths spell it ("s3", "azure", "gcs"), or NULL for
 * any other path. *rest, unless `rest` is NULL, is set to what follows "://". "az" is another spelling of "azure", and
 * "gs" of "gcs". */
const char *tsr__uri_scheme(const char *path, const char **rest);

/* Copies a URI as messages and stored paths spell it, without '/' at its end. The caller frees it with tsr__free.
 * Refuses signed ones. */
int tsr__uri_copy(tsr_memory *memory, const char *uri, char **copy, tsr_error *error);

/* Returns how many bytes of a URI messages show: none of its query, and nothing behind "://" if there is an '@', since
 * a signature or a password may be there. At most 200. */
int tsr__uri_shown(const char *uri);

/* Refuses a URI with the query of a signed URL, without showing it: in a path it would be in messages and schemas, for
 * others to use. */
int tsr__uri_unsigned(const char *uri, tsr_error *error);

/* Returns true if the path is the URI of an object store. */
bool tsr__is_remote(const char *path);

#endif
