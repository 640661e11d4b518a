/* log.h: which commits an array has. This room alone decides what is visible: it lists the array's directories
 * (listing.c), counts or refuses commits that a transaction of the host has prepared (prepared.c), reads files of
 * commits that others may still be writing (commit_files.c, torn_read.c), and gives new commits their order
 * (commit_queue.c). It knows nothing of schemas, cells or snapshots: array/ chooses from the listing what is in view at a
 * time. docs/commits.md has the protocols.
 *
 * The sections below are those of the source files. */
#ifndef TSR_LOG_LOG_H
#define TSR_LOG_LOG_H

#include <stdbool.h>

#include "store/store.h"
#include "base/map.h"
#include "format/commits.h"
#include "format/generic_tile.h"
#include "model/name.h"
#include "base/error.h"
#include "base/memory.h"

/* Returns true for the errors that bytes may cause which were changed on their way. */
static inline bool tsr__is_doubtful(int code) {
  return code == TSR_CORRUPT || code == TSR_UNSUPPORTED || code == TSR_AUTH || code == TSR_TOOBIG;
}

/* ---- torn_read.c: files that another program may still be writing ---------------------------------------------------- */

typedef struct tsr_patience { /* state of the tries to read one file; {0} before the first try */
  /* the file has been looked at, or asked for again (tsr__store_doubt); it has changed between two looks */
  bool begun, changed;
  uint64_t since; /* tsr__moment of the first look */
  tsr_look look; /* size and time of change at the last look */
} tsr_patience;

/* Call it after each try to read and decode the file `path`, with the result `code` and its error. Returns 1 if the
 * caller must try again, else the final result. That is `code`, with two exceptions: TSR_CORRUPT becomes TSR_BUSY if
 * the file was changed so recently that its writer may still be at work, and TSR_NOT_FOUND if the file has been removed
 * meanwhile. All calls for one file together wait for at most 100 ms. Any thread may call it. */
int tsr__patience(tsr_patience *patience, tsr_store *store, const char *path, int code, tsr_error *error);

/* Returns true if the file was changed in the last 5 seconds, so that its writer may still be at work. */
bool tsr__is_young(const tsr_look *look);
bool tsr__same_look(const tsr_look *a, const tsr_look *b);

/* Returns the monotonic clock in milliseconds. */
uint64_t tsr__moment(void);

/* Reads a file that is one generic tile and appends its content, at most `most` bytes. A file that TileDB may still be
 * writing is read again for a short while. `key`: NULL if not encrypted; `header` may be NULL. */
int tsr__read_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                   tsr_generic_tile *header, tsr_error *error);

/* Returns TSR_CORRUPT for TSR_AUTH, also in `error`, else `code`. The key was found right when the array was opened, so
 * a file that does not authenticate later is damaged. */
int tsr__damage(int code, tsr_error *error);

/* ---- timestamped_directory.c: __meta, __group, __schema -------------------------------------------------------------- */

/* Finds the files of __meta or __group that are in view between two times. */

typedef struct tsr_timed_files {
  uint64_t count;
  const char **paths; /* in the order in which the files take effect: by (start time, name) */
} tsr_timed_files;

/* Gives the files of a directory of timestamped names that are in view: their whole time range lies in since..as_of,
 * both inclusive, in milliseconds since 1970 (as_of may be TSR_TIME_NOW), and no .vac file within the same times names
 * them. A missing directory has no files. `arena` owns the paths. */
int tsr__timed_files(const tsr_environment *environment, tsr_store *store, const char *directory, uint64_t since,
                     uint64_t as_of, tsr_arena *arena, tsr_timed_files *files, tsr_error *error);

/* Writes small files that appear atomically: metadata, changes of groups, evolved schemas. Each is
 * written under a provisional name, made durable, and renamed. */

#define TSR_STAGED_SIZE 41 /* bytes for a provisional name */

/* Writes a generic tile to a new file in the store's root and makes it durable. *staged: the file's name, `.` and 32
 * hex digits, which readers ignore. */
int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error);

/* Writes a file atomically, without a generic tile around its content. Returns TSR_EXISTS if `path` exists. */
int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error);

/* Writes a generic tile to DIRECTORY/NAME, atomically and durably. A missing directory is made. `version`: format
 * version in the tile's header; `key`: NULL if not encrypted. */
int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error);

/* The same under a new timestamped name, whose time is the present but later than `after`. `name_version`: version at
 * the end of the name; 0: none. *written: the name; may be NULL. */
int tsr__write_timed(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                     uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                     char written[128], tsr_error *error);

/* Gives the newest time of the timestamped names in a directory that is not in the future; 0 if there is none. */
int tsr__timed_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error);

/* ---- prepared.c: commits that a transaction has prepared ------------------------------------------------------------- */

/* Prepared commits and their markers: where they lie, how a marker is written and read, and how a commit is
 * published. A writer marks a commit before its database commits and publishes it afterwards; recovery finds the
 * markers that a crash has left (docs/commits.md).
 */

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

/* Records of late publications: prepared commits in whose place recovery has published another
 * commit. */

typedef struct tsr_late { /* the record of a prepared commit */
  char commit[TSR_COMMIT_PATH]; /* path of the commit that is published in its place; "": no cell was left to publish */
  uint64_t dropped, total; /* cells of the prepared commit: not published again; all */
} tsr_late;

/* Gives the path of a prepared commit's record. Returns false if `commit` is not the path of a commit. */
bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]);

/* Read the record of a prepared commit, or the record at `path`. Return 1; 0 if it is missing or incomplete. */
int tsr__late_read(tsr_store *store, const char *commit, tsr_late *late, tsr_error *error);
int tsr__late_read_file(tsr_store *store, const char *path, tsr_late *late, tsr_error *error);

/* Writes the record of a prepared commit. It appears complete and durable. Returns TSR_EXISTS if there is one
 * already. */
int tsr__late_write(tsr_store *store, const char *commit, const tsr_late *late, tsr_error *error);

/* Removes the record of a prepared commit; a missing one is no error. */
int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error);

/* ---- commit_files.c: what the files of commits say ------------------------------------------------------------------- */

/* The decoded .con, .ign, .vac and .meta files of an array. */

/* A decoded .con, .ign, .vac or .meta file. These files never change once they are written. But TileDB writes them in
 * place, and a list (.con, .ign, .vac) that is cut between two lines cannot be told from a complete one. So lists are
 * checked for changes whenever the array is listed again, and for 2 seconds after they were read also if no directory
 * has changed. */
typedef struct tsr_commit_file {
  struct tsr_commit_file *next; /* in tsr_commit_files.outdated */
  char *path;
  tsr_look look; /* list: size and time of change before it was read; zeros if the store does not know them */
  uint64_t generation; /* of the last listing that has the file */
  tsr_arena arena;
  tsr_buffer content; /* kept if the fields below point into it */
  tsr_commits commits; /* .con; none if the file is cut, which counts as not written yet */
  tsr_commits rest; /* .con that is cut: the entries before its end */
  tsr_names names; /* .ign, .vac */
  tsr_footers footers; /* .meta */
  bool damaged; /* .meta: no footer can be read */
  tsr_map footers_by_name; /* .meta: name -> tsr_footer */
} tsr_commit_file;

typedef struct tsr_commit_files { /* decoded files of __commits and of consolidated footers (commit_files.c) */
  tsr_map by_path; /* -> tsr_commit_file */
  tsr_commit_file *outdated; /* a list of files that have changed on disk; the last listing points into them */
  uint64_t fresh_until; /* tsr__moment until which each statement checks lists that were read lately for changes */
} tsr_commit_files;

typedef struct tsr_log_host { /* what the host decides about prepared commits; NULL function: none counts */
  /* Returns 1 if a prepared commit counts, 0 if not, < 0 on an error. */
  int (*committed)(void *argument, const char *commit, tsr_error *error);
  void *argument;
} tsr_log_host;

/* The log of an array, which owns it. The array sets what is borrowed before it lists the log for the first time. */
typedef struct tsr_log {
  tsr_environment *environment; /* borrowed, as are the next four */
  tsr_store *store;
  const char *path; /* of the array, for messages */
  const uint8_t *key; /* NULL: the array is not encrypted */
  tsr_memory *memory; /* pays for listings and files */
  const tsr_map *schemas, *conditions; /* names that the array has decoded: their files are not fetched ahead */
  void *array; /* the argument of `schema_version` */
  uint32_t (*schema_version)(const void *array, const char *name); /* 0: the schema has not been loaded */
  tsr_log_host host;
  char *
      pending_schema; /* owned: the schema's name, if the array was opened before its creation was published; or NULL */
  uint64_t frozen; /* time as of which snapshots of the present are made, in milliseconds since 1970; 0: the clock */
  struct tsr_commit_listing *listing; /* the last one */
  tsr_commit_files files;
  uint64_t undoubled; /* digest of the vacuum files by which no cells are doubled (replaced.c) */
  bool unseen; /* `settled` is in a bucket, and no listing has shown it yet */
  char settled[TSR_COMMIT_PATH]; /* the last commit that a writer of this array has published, and that has no marker */
} tsr_log;

/* Gives the decoded .con, .ign, .vac or .meta file at `path`, reading it the first time. It is borrowed until the
 * listing is renewed. */
int tsr__log_file(tsr_log *log, const char *path, const tsr_commit_file **file, tsr_error *error);

/* Notes that the listing of this generation has the file at `path`, so that tsr__commit_files_prune keeps it. Does
 * nothing if the file is not decoded. */
void tsr__commit_file_keep(tsr_log *log, const char *path, uint64_t generation);

/* Marks all lists as outdated that have changed on disk since they were read. They stay in memory until
 * tsr__commit_files_prune, because the last listing may point into them. */
int tsr__commit_files_outdate(tsr_log *log, tsr_error *error);

/* Returns 1 if a list has changed on disk since it was read, else 0. */
int tsr__commit_files_changed(tsr_log *log, tsr_error *error);

/* Returns 1 if a list has changed on disk since it was read, and some list was read within the last 2 seconds; 0 if
 * not; < 0 on error. */
int tsr__commit_files_grown(tsr_log *log, tsr_error *error);

/* Frees outdated files and files that the listing of this generation does not have. */
void tsr__commit_files_prune(tsr_commit_files *files, uint64_t generation);

/* ---- listing.c: what the directories say ----------------------------------------------------------------------------- */

/* The listing of an array: the names of all committed fragments, deletes, schemas, vacuum files and
 * consolidated footers, made from the array's directories. Snapshots choose from a listing the names that are in view.
 * The listing is renewed when the directories change.
 */

/* a name in a listing; pointers are borrowed from the listing or from a tsr_commit_file (log.h) */
typedef struct tsr_committed {
  const char *name; /* without suffix */
  tsr_name parsed;
  bool old_layout; /* the fragment lies in the array's directory, not in __fragments */
  const char *path; /* of the file: .vac, .meta, .del, or the .con that has the delete */
  const uint8_t *bytes; /* delete in a .con: its generic tile; else NULL */
  uint64_t size; /* of `bytes`, in bytes */
  bool prepared; /* the fragment is not published, and counts because the host says so */
} tsr_committed;

typedef struct tsr_commit_list {
  tsr_committed *items;
  uint64_t count, capacity;
} tsr_commit_list;

#define TSR_LISTING_STAMPS 3

/* What tells later whether the array has changed since it was listed. */
typedef struct tsr_listing_moment {
  uint64_t listed; /* tsr__moment at which the listing began */
  uint64_t changes; /* of the store's, when the listing began */
  /* of the array's directory, __schema and __commits (tsr_directory), before they were listed */
  tsr_stamp stamps[TSR_LISTING_STAMPS];
} tsr_listing_moment;

/* The commits that a transaction of the host has prepared and not published. */
typedef struct tsr_prepared_commits {
  tsr_commit_list markers; /* `path` is the marker's, `name` the commit's path */
  bool undecided; /* some do not count: the host is asked about them again */
  bool counted; /* some count, so some fragments may be `prepared` */
} tsr_prepared_commits;

typedef struct tsr_commit_listing {
  tsr_arena arena;
  uint64_t generation; /* 1 for the first listing of the array, then 2, 3, ... */
  bool complete; /* false: only schemas are listed */
  tsr_listing_moment moment;
  uint64_t newest; /* the latest time in the names of __commits, or 0; times two seconds ahead of the clock do
                      * not count (tsr__environment_time) */
  bool old_layout; /* the array's directory itself has committed names, or an old schema */
  /* all schemas are version 12 or newer, so no commit can appear in the array's directory: it need not be checked for
   * changes */
  bool new_layout;
  tsr_commit_list fragments; /* sorted by (start time, name) */
  tsr_commit_list deletes; /* sorted by (start time, name) */
  tsr_commit_list vacuums; /* .vac */
  tsr_commit_list exchanges; /* .vac.ign (log.h) */
  tsr_commit_list footers; /* .meta, newest first */
  tsr_commit_list schemas; /* in text order, __array_schema.tdb first; `path` is that of the schema file */
  /* below version 5: fragments without metadata yet; `path` is the file that will commit them */
  tsr_commit_list pending;
  tsr_map names; /* the names of `fragments`; a set */
  tsr_prepared_commits prepared;
  uint64_t written; /* how many entries of __commits are .wrt files */
  tsr_map others; /* names of the other entries of __commits; a set */
  tsr_commit_list unfinished; /* `path` of .con files that are cut, though nothing is lost by that (commit_files.c) */
} tsr_commit_listing;

/* Renews log->listing if it is missing or outdated, or in any case if `force` is true. `commits`: everything must be
 * listed; false: schemas are enough. While the array is frozen, a complete listing is renewed only if `force` is true.
 * Returns TSR_NOT_FOUND "array not found: PATH" if there is no array, TSR_BUSY if the array changes faster than it can
 * be listed. */
int tsr__log_list(tsr_log *log, bool commits, bool force, tsr_error *error);

/* Renews a listing of everything if it is outdated, also while the array is frozen. */
int tsr__log_list_present(tsr_log *log, tsr_error *error);
void tsr__log_release(tsr_log *log);

/* The listings of an array's directories. The store lists several of them in one call. */

typedef enum tsr_directory {
  TSR_IN_ROOT,
  TSR_IN_SCHEMAS,
  TSR_IN_COMMITS,
  TSR_IN_FOOTERS,
  TSR_DIRECTORIES
} tsr_directory;

/* `= {.store = S}`: no directory is listed yet. */
typedef struct tsr_array_directories {
  tsr_store *store; /* borrowed */
  bool listed[TSR_DIRECTORIES];
  tsr_listing lists[TSR_DIRECTORIES]; /* of a directory that is missing or not listed: empty */
  tsr_stamp stamps[TSR_DIRECTORIES]; /* before it was listed */
} tsr_array_directories;

/* A listing that is being made, and the functions that add to it. listing.c makes it from the array's
 * directories; prepared.c adds the commits that a transaction of the host has prepared.
 */

typedef struct tsr_renewal {
  tsr_log *log;
  tsr_array_directories *directories; /* some of them may be listed already */
  tsr_commit_listing *listing;
  tsr_map ignored; /* names with suffix, from .ign files */
  tsr_map in_con; /* names of fragments in .con files */
  tsr_map deletes; /* names of deletes, from .con and .del files */
  tsr_map ok; /* names of .ok files without suffix */
  tsr_map metas; /* names of the files in __fragment_meta without suffix -> their paths */
  tsr_map
      settled; /* names of fragments that are not committed, and which no .con can have committed (commit_files.c) */
  /* if the listing fails because of a cut .con: the file whose age says whether that may pass; else '' */
  tsr_path doubtful;
  tsr_buffer gone; /* gone_commit: prepared commits that count but whose fragment or staged file is missing */
  bool last_footers; /* __fragment_meta is not listed: the footers of the last listing count */
  bool need_root; /* the array's own directory is listed in any case */
  uint64_t future; /* times from here on are wrong: see tsr_commit_listing.newest */
  bool counting; /* fragments that are added belong to a prepared commit */
  tsr_error *error;
} tsr_renewal;

/* Copy a text of `size` bytes, or join a directory and a name, into the listing's memory. */
int tsr__renewal_copy_text(tsr_renewal *r, const char *text, uint64_t size, const char **copy);
int tsr__renewal_join_path(tsr_renewal *r, const char *directory, const char *name, const char **path);

/* Appends an item to a list of the listing. */
int tsr__renewal_append(tsr_renewal *r, tsr_commit_list *list, const tsr_committed *item);

/* Add a committed fragment, or a delete, unless the listing has it. `name` and `item` are in the listing's memory. */
int tsr__renewal_add_fragment(tsr_renewal *r, const char *name, const tsr_name *parsed, bool old_layout);
int tsr__renewal_add_delete(tsr_renewal *r, const tsr_committed *item);

/* Adds what an entry of a .con says. `path`: of the .con. */
int tsr__renewal_add_con_entry(tsr_renewal *r, const char *path, const tsr_commit *commit);

/* Reads a .con or .ign of __commits, whose name need not be timestamped, or a .con under the name that it has while it
 * is prepared. */
int tsr__renewal_read_file(tsr_renewal *r, const char *name, const tsr_commit_file **file);

/* The prepared commits of a listing: a transaction of the host has written a marker for each, and the
 * host says whether they count (log.h). */

/* Adds a marker. Its commit counts if it is not published and the host says so. Returns 1; 0 if the marker is missing
 * or incomplete. `entries`: the directory in which the commit will appear. If the commit was published after these were
 * listed, they lack it, and the array must be listed again (TSR_ABORT). NULL: the caller looks for the commit
 * afterwards. */
int tsr__listing_add_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries);

/* Does the same for a marker that a directory's listing shows. If it is missing by now, its commit was published
 * meanwhile: TSR_ABORT. */
int tsr__listing_add_listed_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries);

/* Fails with TSR_ABORT: the commit of the marker was published while the array was listed. */
int tsr__listing_fail_outdated(tsr_renewal *r, const char *marker);

/* Decides about the prepared commits that count but whose files are missing. Call it when everything is listed. */
int tsr__listing_check_gone(tsr_renewal *r);

/* Returns true if the host has committed a prepared commit that did not count when the array was listed. */
bool tsr__listing_newly_committed(const tsr_log *log);

/* ---- commit_files.c: operations that others have not finished -------------------------------------------------------- */

/* Handles operations that others have not finished: fragments that a vacuum is still removing, and .con
 * files that are cut. */

typedef struct tsr_replacing { /* a vacuum file */
  const char *name; /* of the merged fragment that it belongs to */
  const tsr_names *names; /* of the sources, which that fragment replaces */
} tsr_replacing;

/* Adds fragments to `covered` (name -> name of the merged fragment that replaces it) whose cells are in a committed
 * merged fragment. These are the fragments that a vacuum file names, if the merged fragment of that file is in
 * `committed`, or is in `covered` itself because another merge has replaced it in turn. Names are borrowed from the
 * files. */
int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered,
                 tsr_error *error);

/* The same for all vacuum files of a listing. Names are borrowed until the array is listed again. */
int tsr__log_covered(tsr_log *log, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error);

typedef struct tsr_unfinished { /* what the rest of the array says about commits; all borrowed */
  tsr_store *store;
  tsr_memory *memory;
  const tsr_map *fragments; /* names of fragments that other files commit */
  const tsr_map *deletes; /* names of deletes that other files commit */
  /* names of fragments that no .con can have committed: markers, .ign and .vac files name them */
  const tsr_map *settled;
  const tsr_listing *root; /* the array's directory */
} tsr_unfinished;

/* Finds out whether something is lost if the cut file `con` counts as not written. `rest`: the entries before its end.
 * Returns 0 if nothing is lost; 1 if something may be lost, with TSR_CORRUPT and advice in `error`. Then *path is the
 * file whose age says whether the writer may still be at work; < 0 on an error. */
int tsr__unfinished_loses(const tsr_unfinished *known, const char *con, const tsr_commits *rest, tsr_path *path,
                          tsr_error *error);

/* Vacuum files that have not got their names yet. A merge writes the list of its sources before it
 * commits, and gives it the name NAME.vac afterwards (replace.c). A merge that dies in between is finished by whoever
 * comes next.
 *
 *   .NAME.vac.new   counts as NAME.vac as soon as NAME is committed, but TileDB does not know it
 *   NAME.vac.ign    in arrays that allow duplicates: cancels the commit of NAME in NAME.con, until it becomes NAME.vac
 */

#define TSR_STAGED_NAME 128 /* bytes of a merged fragment's name */

/* Returns true if an entry of a directory is .NAME.vac.new. `name` receives NAME, which is timestamped. */
bool tsr__staged_vacuum(const char *entry, char name[TSR_STAGED_NAME]);

/* Returns true if an entry of __commits is NAME.vac.ign. `name` receives NAME. */
bool tsr__exchange(const char *entry, char name[TSR_STAGED_NAME]);

/* Renames NAME.vac.ign to NAME.vac and commits NAME by NAME.wrt, too, durably: the merged fragment takes the place of its
 * sources. NAME.wrt is necessary because TileDB removes NAME.con together with the .ign files if another list has all
 * commits that count. Another process may have done so, which is no error. */
int tsr__exchange_finish(tsr_store *store, const char *name, tsr_error *error);

/* Gives .NAME.vac.new its name, durably. Only for a merged fragment that is committed. Another process may have done so,
 * which is no error. `directory`: where the file lies, "" for the root. */
int tsr__staged_vacuum_finish(tsr_store *store, const char *directory, const char *name, tsr_error *error);

/* Finishes all merges of the array's listing that have committed and whose vacuum file has not got its name. The process
 * of such a merge may live and do the same. A merge of duplicates whose sources have been merged by others since is
 * taken back. Lists the array anew if there was one. */
int tsr__staged_vacuums_finish(tsr_log *log, tsr_error *error);

/* Finds merged fragments that have cells which are elsewhere, too. In an array that allows duplicates readers
 * see such cells twice. */

typedef struct tsr_doubled { /* names are borrowed from the vacuum files */
  const char *merged; /* a committed merged fragment that has cells twice, or cells that `other` has; NULL: none */
  const char *other; /* another committed merged fragment; or `merged` itself */
  const char *source; /* the fragment whose cells are there twice */
} tsr_doubled;

/* Finds a merged fragment in `committed` whose sources, or their sources in turn, were merged twice: it was made of a
 * merged fragment and of one of that fragment's sources, or another visible fragment has the same source. `files` are
 * the vacuum files of the array. */
int tsr__find_doubled(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_doubled *doubled,
                      tsr_error *error);

/* The same by the log's listing. If the vacuum files are those for which the last call found nothing, nothing is looked
 * for. Names are borrowed until the array is listed anew. */
int tsr__log_find_doubled(tsr_log *log, tsr_doubled *doubled, tsr_error *error);

/* Finds out whether a prepared commit has been published at any time, from all files of the array that
 * tell of commits. Recovery asks this before it publishes or undoes a commit. */

typedef struct tsr_published {
  tsr_log *log; /* borrowed */
  tsr_arena arena;
  tsr_map names; /* names of published fragments and deletes, except the fragments of the array's listing */
} tsr_published;

/* Lists the array again, without counting prepared commits, and collects the names of all published fragments and
 * deletes. The caller must list the array once more when it has finished. A file that cannot be read is an error. */
int tsr__published_open(tsr_log *log, tsr_published *published, tsr_error *error);

/* Returns 1 if any file of the array says that the commit has been published, else 0. The array's listing must still be
 * that of tsr__published_open. */
int tsr__published_has(const tsr_published *published, const tsr_pending *pending, tsr_error *error);

void tsr__published_release(tsr_published *published);

/* Returns true if the listing shows that a commit, whose own files are gone, was published: it has one of the commit's
 * fragments, or a merged fragment that spans the time of one. (When the sources of a merge are removed, they leave no
 * other trace.) A commit of deletes alone was published if the listing has a delete of its time. */
bool tsr__listing_took_up(const tsr_commit_listing *listing, const tsr_pending *pending);

/* Reads a committed delete condition, from its .del file or from a consolidated commit file (.con). */

/* Appends the content of a delete's generic tile to `content`, for tsr__condition_decode, and, unless `stored` is NULL,
 * the tile as it is stored to `stored`.
 *
 * A .con may have a copy of a .del file that was not complete yet: TileDB writes these files in place, and a
 * consolidation of commits may read one meanwhile. If the copy cannot be decoded, the function reads the .del file
 * instead. A .del file that TileDB may still be writing is read again for a short while (log.h).
 * Errors: TSR_BUSY if the file was changed a moment ago; TSR_CORRUPT if neither can be decoded; TSR_AUTH. */
int tsr__delete_read(tsr_log *log, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                     tsr_error *error);

/* ---- commit_queue.c: the order of commits ---------------------------------------------------------------------------- */

/* Turns, by which the commits of many machines get times that differ and that rise in the order of their
 * publication. A store in which writers of several machines commit, and which has no locks, sets `commits_in_turns`. */

typedef struct tsr_turn tsr_turn;

#define TSR_TURN_OLD (UINT64_C(3600) * 1000) /* ms after which a vacuum may remove the file of a turn */

/* Takes the turn of the next commit of an array, and waits for writers that have theirs. *after: the time of the last
 * commit; the next one gets a later time. *turn is NULL if the store needs no turns. Writers of one environment share
 * the turn of an array. The caller ends the turn with tsr__turn_end. */
int tsr__turn_take(tsr_log *log, tsr_turn **turn, uint64_t *after, tsr_error *error);

/* Ends a turn: the commit was published, or it is left to others. */
void tsr__turn_end(tsr_turn **turn);

/* Gives a turn back whose commit will not be published, so that nobody waits for it. A turn that was taken long ago
 * only ends: another writer may have taken over. */
void tsr__turn_give_back(tsr_turn **turn, tsr_store *store);

#endif
