/* tessera_path.h: paths of the machine's file system, for hosts that store such paths. They are UTF-8 on every system.
 * No promise, as for tessera_host.h: every release may change this header. tessera.h does not include it. */
#ifndef TESSERA_PATH_H
#define TESSERA_PATH_H

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns true if a path is absolute. On Windows an absolute path has a drive, or names a server, or begins at the root
 * of a drive; '\' is a separator, too. */
TSR_API bool tsr_path_absolute(const char *path);

/* Normalizes a path to the form used in all messages and URIs: on Windows '\' becomes '/', and the '/' that a URI has
 * before a drive is removed. Elsewhere it stays as it is. Changes `path` in place and never makes it longer. */
TSR_API void tsr_path_form(char *path);

/* Returns true if anything exists at this path. */
TSR_API bool tsr_path_exists(const char *path);

/* Resolves a path: without symbolic links, "." and ".."; on Windows with '/', and with each name spelled as in its
 * directory. NULL, with errno set, if nothing exists at this path. The caller frees it with free(). */
TSR_API char *tsr_path_real(const char *path);

/* Returns true if two normalized paths are the same. On Windows case does not matter. */
TSR_API bool tsr_path_same(const char *a, const char *b);

/* Opens a file of any kind for reading, like open(). Returns a descriptor that child processes do not inherit, or -1
 * with errno set. With `waits`, opening a pipe waits for a writer. */
TSR_API int tsr_path_read(const char *path, bool waits);

/* Returns the scheme of a path that names objects of an object store, as stored paths spell it: "s3", "azure" (also of
 * az://) or "gcs" (also of gs://). NULL for any other path. *rest, unless `rest` is NULL, is set to what follows
 * "://". */
TSR_API const char *tsr_path_scheme(const char *path, const char **rest);

#ifdef __cplusplus
}
#endif

#endif
