/* tessera_path.h: paths of the machine's file system, for hosts that keep such paths. They are UTF-8 on every system. tessera.h
 * does not include this header. */
#ifndef TESSERA_PATH_H
#define TESSERA_PATH_H

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns true for a path that no directory is put before. On Windows such a path has a drive, or names a server, or
 * begins at the root of a drive; '\' separates parts, too. */
TSR_API bool tsr_path_absolute(const char *path);

/* Gives a path the form that all messages and URIs have: on Windows with '/' for '\', and without the '/' that a URI has
 * before a drive. Elsewhere it stays as it is. It changes `path` in place and never makes it longer. */
TSR_API void tsr_path_form(char *path);

/* Returns true if anything has this path. */
TSR_API bool tsr_path_exists(const char *path);

/* Returns a path without links, "." and ".."; on Windows with '/', and with the names that the directories really have.
 * NULL, with errno, if nothing has this path. The caller frees it with free(). */
TSR_API char *tsr_path_real(const char *path);

/* Returns true if two paths of this form are the same. On Windows case does not distinguish them. */
TSR_API bool tsr_path_same(const char *a, const char *b);

/* Opens a file of any kind for reading, as open() does: a descriptor, which programs that the host starts do not
 * inherit, or -1 with errno. With `waits` the open of a pipe waits for a writer. */
TSR_API int tsr_path_read(const char *path, bool waits);

#ifdef __cplusplus
}
#endif

#endif
