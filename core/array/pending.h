/* pending.h: prepared commits and their markers: where they lie, how a marker is written and read, and how a commit is
 * published. A writer marks a commit before its database commits and publishes it afterwards; recovery finds the
 * markers that a crash has left (docs/commits.md).
 */
#ifndef TSR_PENDING_H
#define TSR_PENDING_H

#include "store/store.h"

#define TSR_PENDING_PATH 160 /* bytes for a path that tsr__pending_path makes */

/* Makes the provisional name of __schema, or of __array_schema.tdb, in an array whose creation is not published. No
 * reader takes it for a schema. */
void tsr__pending_path(const char *schema_name, char path[TSR_PENDING_PATH]);

#define TSR_COMMIT_PATH 224 /* bytes for the path of a commit, a marker or a staged file */

typedef struct tsr_pending { /* a decoded marker; an arena owns the strings */
  /* path that publishes it: __commits/NAME.wrt, .con, .del, NAME.ok, NAME/__fragment_metadata.tdb */
  const char *commit;
  uint64_t fragment_count;
  const char **fragments; /* names of the commit's fragments */
  /* id of the owner; NULL: an earlier version wrote the marker, which has the database's path only */
  const char *owner;
  bool locked; /* the writer keeps the marker locked while it lives */
  const char *host, *file; /* for messages: name of the host, or NULL; path of the database */
} tsr_pending;

#define TSR_OWNER_MAX 64 /* longest id of an owner, in bytes */

/* Returns true if the id is 1 to TSR_OWNER_MAX printable characters without spaces. */
bool tsr__pending_owner_valid(const char *owner);

/* Gives the paths of a commit's marker and of its staged file, the file that is renamed to the commit when it is
 * published. `staged` is "" if the commit is an empty file. Returns false if `commit` is not the path of a commit. */
bool tsr__pending_paths(const char *commit, char marker[TSR_COMMIT_PATH], char staged[TSR_COMMIT_PATH]);

/* Writes a marker; `host` and `locked` of `pending` are ignored. *lock: the marker's file, which stays locked until the
 * caller closes it; NULL if the store has no locks. If `durable` is true, the marker is on disk when the function
 * returns; up to `threads` threads sync. */
int tsr__pending_mark(tsr_store *store, const char *marker, const tsr_pending *pending, bool durable, unsigned threads,
                      tsr_file **lock, tsr_error *error);

/* Finds out whether the writer of a marker still holds its lock. Returns TSR_UNSUPPORTED if the store has no locks,
 * TSR_NOT_FOUND if the marker is missing. */
int tsr__pending_is_locked(tsr_store *store, const char *marker, bool *locked, tsr_error *error);

/* Reads a marker; `arena` owns the strings. Returns 1; 0 if the marker is missing or was not written to its end. */
int tsr__pending_read(tsr_store *store, const char *marker, tsr_arena *arena, tsr_pending *pending, tsr_error *error);

/* Makes the commit of the database file `owner` durable before anything is published: syncs the database's directory.
 * SQLite does not sync it after it has deleted its journal (except with synchronous=EXTRA). After a loss of power the
 * journal could come back, and SQLite would roll its commit back. */
int tsr__pending_settle(tsr_memory *memory, const char *owner, tsr_error *error);

/* Returns 1 if the commit's own file exists, else 0. A consolidated commit may have no file of its own any more. */
int tsr__pending_published(tsr_store *store, const char *commit, tsr_error *error);

/* Fails with the error of a commit that its database has committed but that cannot be published any more. */
int tsr__pending_fail_gone(const char *commit, tsr_error *error);

/* Returns 1 if all files exist that publishing needs: the staged file, and the metadata of each fragment; else 0. */
int tsr__pending_is_complete(tsr_store *store, const tsr_pending *pending, tsr_error *error);

/* Removes a marker; a missing one is no error. */
int tsr__pending_unmark(tsr_store *store, const char *marker, tsr_error *error);

/* Publishes a prepared commit. Returns 1; 0 if it is published already, or its files are missing. `durable`: the commit
 * is on disk when the function returns. */
int tsr__pending_publish(tsr_store *store, const char *commit, bool durable, tsr_error *error);

/* Removes the commit's own file and those of its deletes, as far as they exist; its fragments stay. For stores with
 * transactions, which roll a publication back. */
int tsr__pending_withdraw(tsr_store *store, const char *commit, tsr_error *error);

#endif
