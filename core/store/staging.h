/* staging.h: files that are not in an object store yet. A writer builds a fragment under a provisional name, but an
 * object store can neither append to an object nor rename one. So provisional files stay on this machine until they get
 * their final names, all in one unnamed temporary file, which vanishes with the process, whatever happens.
 *
 * All functions are thread-safe, but only one thread may append to a file, and no thread may read that file
 * meanwhile. */
#ifndef TSR_STAGING_H
#define TSR_STAGING_H

#include "base/memory.h"

typedef struct tsr_staging tsr_staging; /* the staged files of one store */
typedef struct tsr_staged tsr_staged; /* one file */

int tsr__staging_open(tsr_memory *memory, tsr_staging **staging, tsr_error *error);

/* Frees all files. The caller must have released those that it holds. NULL is allowed. */
void tsr__staging_close(tsr_staging *staging);

/* Creates an empty file. The caller holds it and must release it. Fails with TSR_EXISTS if the path is taken. */
int tsr__staging_create(tsr_staging *staging, const char *path, tsr_staged **file, tsr_error *error);

/* Returns the file at `path`, which the caller then holds and must release, or NULL if there is none. */
tsr_staged *tsr__staging_find(tsr_staging *staging, const char *path);

/* Releases a file. A removed file is freed once nobody holds it. */
void tsr__staged_release(tsr_staged *file);

/* Removes the file at `path`. Returns false if there is none. */
bool tsr__staging_remove(tsr_staging *staging, const char *path);

/* Renames the file `from`, or moves all files below the directory `from` to the same names below `to`. The new names
 * must be free. */
int tsr__staging_rename(tsr_staging *staging, const char *from, const char *to, tsr_error *error);

/* Iterates over the files below a directory, in any order; none of them may be changed meanwhile. `*at` is 0 for the
 * first call. Returns NULL at the end. The file is borrowed. */
tsr_staged *tsr__staging_next(tsr_staging *staging, const char *directory, uint64_t *at);

/* Returns the path of a file, which is valid until a rename, and its size in bytes. */
const char *tsr__staged_path(const tsr_staged *file);
uint64_t tsr__staged_size(const tsr_staged *file);

/* Appends bytes. Errors: TSR_FULL and TSR_IO of the disk that has the system's temporary files. */
int tsr__staged_append(tsr_staged *file, const void *bytes, uint64_t size, tsr_error *error);

/* Discards all bytes of a file, which keeps its path. If no other file exists, their room is freed. */
void tsr__staged_clear(tsr_staged *file);

/* Says that no more bytes will be appended. A new file counts as growing until then. */
void tsr__staged_complete(tsr_staged *file);
bool tsr__staged_grows(const tsr_staged *file);

/* Reads `size` bytes, which must lie within the file. */
int tsr__staged_read(tsr_staged *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);

#endif
