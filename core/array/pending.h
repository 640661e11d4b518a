/* pending.h: commits that are prepared and not published. */
#ifndef TSR_PENDING_H
#define TSR_PENDING_H

#include "store/store_bounds.h"

/* What becomes __schema, or __array_schema.tdb, when an array is published: a name that nobody looks at. */
#define TSR_PENDING_PATH 160 /* bytes for it */
void tsr__pending_path(const char *schema_name, char path[TSR_PENDING_PATH]);
#define TSR_PENDING_SUFFIX ".pending"
#define TSR_PENDING_FILE   ".pending" /* before version 12, in the fragment's directory */
#define TSR_COMMIT_PATH    224 /* bytes for a path of these */

typedef struct tsr_pending { /* what a marker says */
  const char *commit; /* the path that publishes it: __commits/NAME.wrt, .con or .del, NAME.ok,
                         NAME/__fragment_metadata.tdb */
  uint64_t fragment_count;
  const char **fragments; /* names */
  const char
      *owner; /* its id; NULL: an earlier version wrote the marker, which says no more than the database's path */
  bool locked; /* the writer keeps the marker locked as long as it lives */
  const char *host, *file; /* the machine, or NULL, and the database's path: for messages */
} tsr_pending;

#define TSR_OWNER_MAX 64 /* bytes of an owner's id: printable, without spaces */
bool tsr__pending_owner_valid(const char *owner);

/* Where the marker of a commit lies; where what is renamed to the commit lies until then, "" for those without
 * content. False if `commit` is no such path. */
bool tsr__pending_paths(const char *commit, char marker[TSR_COMMIT_PATH], char staged[TSR_COMMIT_PATH]);

/* Writes a marker; `host` and `locked` of `pending` are not looked at. *lock: the marker, locked until the caller
 * closes
 * it; NULL where there are no locks. */
int tsr__pending_mark(tsr_store *store, const char *marker, const tsr_pending *pending, bool durable, unsigned threads,
                      tsr_file **lock, tsr_error *error);

/* Says whether a marker's writer holds its lock. TSR_UNSUPPORTED: nobody can tell; TSR_NOT_FOUND. */
int tsr__pending_is_locked(tsr_store *store, const char *marker, bool *locked, tsr_error *error);

/* 1; 0 if it is gone, or was not written to its end. */
int tsr__pending_read(tsr_store *store, const char *marker, tsr_arena *arena, tsr_pending *pending, tsr_error *error);

/* The owner of a commit, a database file, says that it has committed: forces the names beside it to the disk before
 * anything is published. SQLite leaves it to chance (but with synchronous=EXTRA) whether its journal comes back after a
 * loss of power, and takes its commit back then. */
int tsr__pending_settle(tsr_memory *memory, const char *owner, tsr_error *error);
int tsr__pending_published(tsr_store *store, const char *commit,
                           tsr_error *error); /* has it a file of its own? 1 or 0 */

/* The error of a commit that cannot be published any more, though its database has committed. */
int tsr__pending_fail_gone(const char *commit, tsr_error *error);

/* Is all there that publishing needs: what is staged, and the metadata of each fragment? 1 or 0. */
int tsr__pending_whole(tsr_store *store, const tsr_pending *pending, tsr_error *error);
int tsr__pending_unmark(tsr_store *store, const char *marker, tsr_error *error); /* gone already: fine */

/* Publishes a prepared commit: 1; 0 if it is published already, or there is nothing to publish. */
int tsr__pending_publish(tsr_store *store, const char *commit, bool durable, tsr_error *error);

/* Takes a published commit back, as far as it is there; its fragments stay. For stores with transactions. */
int tsr__pending_withdraw(tsr_store *store, const char *commit, tsr_error *error);

#endif
