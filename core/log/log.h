/* log.h: which commits an array has. This folder alone decides whether a fragment or a delete condition is committed.
 * It knows nothing of schemas, cells or snapshots: array/snapshot.c picks from the listing what is in view at a given
 * time. docs/commits.md describes the protocols at length.
 *
 * The life of a commit:
 *
 *     WRITTEN      the fragments and the staged file are complete, and nothing names them
 *        |  tsr__prepared_mark: NAME.pending, locked for as long as the writer lives
 *        v
 *     PREPARED ----------------------------------------> UNDONE
 *        |  the host commits its transaction      the writer rolls back; or it died, and recovery finds that
 *        |                                        the host never committed: files and marker are removed
 *        v
 *     COUNTED      tsr_log_host.committed says 1, or tsr_log_host.unpublished names the commit: readers of this
 *                  database (of this handle) see the commit, all others do not
 *        |    \
 *        |     '----- recovery; a merged fragment spans the commit's time -----> LATE
 *        |                                               tsr__late_write: .NAME.late names another commit, of the
 *        |  tsr__prepared_publish: one rename, or        present, with the cells that are still the newest; once
 *        |  the creation of an empty file                that one is published, this one no longer counts
 *        v
 *     PUBLISHED    all readers see it, TileDB included; then tsr__prepared_unmark removes the marker
 *        |  a merge commits a fragment with the same cells, and its .vac file names the sources
 *        v
 *     REPLACED     hidden from snapshots that have the merged fragment in view
 *        |  a vacuum removes the commit file, then the fragment, then the .vac
 *        v
 *     GONE
 *
 * A commit stays published when a consolidation of commits moves it from its own file into a .con. So before recovery
 * publishes or undoes a prepared commit, it looks for any file that shows it was published (tsr__published_has).
 *
 * The merge itself is a commit, and its vacuum file has states of its own (replaced.c; maintain/replace.c writes it):
 *
 *     .NAME.vac.new --- counts as NAME.vac as soon as NAME is committed -----------------> NAME.vac
 *     NAME.vac.ign  --- in arrays that allow duplicates: cancels NAME.con until then ----> NAME.vac and NAME.wrt
 *
 * Whoever finds a marker, a record or a staged vacuum file whose process has died settles it: finishes its step or
 * undoes it. Each step may be repeated, and a process that loses the race for a rename finds the work done.
 *
 * The sections below follow the source files:
 *   torn_read.c              reads files that another program may still be writing
 *   timestamped_directory.c  reads and writes __meta, __group and __schema
 *   owner.c                  how a database is identified (tessera_host.h)
 *   prepared.c               markers of prepared commits, publication, late records
 *   commit_files.c           decoded .con, .ign, .vac and .meta files, and delete conditions
 *   listing.c                lists the array's directories, if they may have changed
 *   entries.c                what the names in these directories mean: what is committed
 *   truncated_con.c          whether anything is lost if a truncated .con counts as not written yet
 *   replaced.c               which fragments merged ones replace; finishes merges whose process died; finds cells that
 *                            are visible twice
 *   published.c              whether any file shows that a prepared commit was published
 *   commit_queue.c           the order of commits of several machines in a bucket
 */
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

/* Returns true for the errors that bytes corrupted in transit may cause. */
static inline bool tsr__may_be_corrupt_transfer(int code) {
  return code == TSR_CORRUPT || code == TSR_UNSUPPORTED || code == TSR_AUTH || code == TSR_TOOBIG;
}

/* ---- torn_read.c: files that another program may still be writing ------------------------------------------------ */

typedef struct tsr_torn_read { /* state of the attempts to read one file; {0} before the first attempt */
  /* begun: the file was looked at, or fetched again (tsr__store_doubt); changed: it changed between two looks */
  bool begun, changed;
  uint64_t since; /* tsr__ticks of the first look */
  tsr_look look; /* size and time of change at the last look */
} tsr_torn_read;

/* Call it after each attempt to read and decode the file `path`, with the result `code` and its error. Returns 1 if the
 * caller must try again, else the final result. That is `code`, with two exceptions: TSR_CORRUPT becomes TSR_BUSY if
 * the file changed so recently that its writer may still be at work, and TSR_NOT_FOUND if the file was removed
 * meanwhile. All calls for one file together wait for at most 100 ms. Any thread may call it. */
int tsr__torn_read_retry(tsr_torn_read *attempts, tsr_store *store, const char *path, int code, tsr_error *error);

/* Returns true if the file changed in the last 5 seconds, so that its writer may still be at work. */
bool tsr__is_young(const tsr_look *look);
bool tsr__same_look(const tsr_look *a, const tsr_look *b);

/* Reads a file that is one generic tile and appends its content, at most `most` bytes. Retries for a short while if the
 * file does not decode, since TileDB may still be writing it. `key`: NULL if not encrypted; `header` may be NULL. */
int tsr__read_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                   tsr_generic_tile *header, tsr_error *error);

/* Returns TSR_CORRUPT for TSR_AUTH, also in `error`, else `code`. The key was verified when the array was opened, so a
 * file that fails authentication later is damaged. */
int tsr__damage(int code, tsr_error *error);

/* ---- timestamped_directory.c: __meta, __group, __schema ---------------------------------------------------------- */

typedef struct tsr_timestamped_files {
  uint64_t count;
  const char **paths; /* in the order in which the files take effect: by (start time, name) */
} tsr_timestamped_files;

/* Finds the files in view in a directory of timestamped names (__meta, __group): those whose whole time range is within
 * since..as_of, both inclusive, in milliseconds since 1970 (as_of may be TSR_TIME_NOW), and which no .vac file within
 * the same range names. A missing directory has no files. `entries`: what the directory has, or NULL, to list it.
 * `arena` owns the paths. */
int tsr__timestamped_files(const tsr_environment *environment, tsr_store *store, const char *directory,
                           const tsr_listing *entries, uint64_t since, uint64_t as_of, tsr_arena *arena,
                           tsr_timestamped_files *files, tsr_error *error);

/* Small files that must appear atomically (metadata, group members, evolved schemas) are written under a provisional
 * name, synced, and renamed. */

#define TSR_STAGED_SIZE 41 /* bytes for a provisional name */

/* Writes a generic tile to a new file in the store's root and makes it durable. *staged: the file's name, `.` and 32
 * hex digits; readers ignore such names. */
int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error);

/* Writes a file atomically, without a generic tile around its content. Returns TSR_EXISTS if `path` exists. */
int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error);

/* Writes a generic tile to DIRECTORY/NAME, atomically and durably, creating the directory if it is missing. `version`:
 * format version in the tile's header; `key`: NULL if not encrypted. */
int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error);

/* Like tsr__write_named, under a new timestamped name. Its time is the present, or just after `after` if that is later.
 * `name_version`: version at the end of the name; 0: none. *written: the name; may be NULL. */
int tsr__write_timestamped(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                           uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                           char written[128], tsr_error *error);

/* Gives the newest time among the timestamped names of a directory, ignoring times in the future; 0 if there is
 * none. */
int tsr__timestamped_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error);

/* ---- prepared.c: commits that a transaction has prepared --------------------------------------------------------- */

/* A writer marks a commit before its database commits, and publishes it afterwards. If it crashes in between, recovery
 * finds the marker (docs/commits.md). All commits, markers, staged files and records are named by paths relative to the
 * array. */

#define TSR_CREATION_PATH 160 /* bytes for a path that tsr__creation_path makes */

/* Makes the provisional name of __schema, or of __array_schema.tdb, in an array whose creation is not yet published. No
 * reader mistakes it for a schema. */
void tsr__creation_path(const char *schema_name, char path[TSR_CREATION_PATH]);

#define TSR_COMMIT_PATH 224 /* bytes for the path of a commit, a marker or a staged file */

typedef struct tsr_prepared_marker { /* a decoded marker; an arena owns the strings */
  /* path of the file that publishes it: __commits/NAME.wrt, .con, .del, NAME.ok, NAME/__fragment_metadata.tdb */
  const char *commit;
  uint64_t fragment_count;
  const char **fragments; /* names of the commit's fragments */
  /* id of the owner; NULL: an earlier version wrote the marker, with nothing but the database's path */
  const char *owner;
  bool locked; /* the writer holds a lock on the marker for as long as it lives */
  const char *host, *file; /* for messages: name of the host, or NULL; path of the database */
} tsr_prepared_marker;

#define TSR_OWNER_MAX 64 /* longest id of an owner, in bytes */

/* Returns true if the id is 1 to TSR_OWNER_MAX printable characters without spaces. */
bool tsr__prepared_owner_valid(const char *owner);

/* Gives the paths of a commit's marker and of its staged file, which publication renames to `commit`. `staged` is "" if
 * the commit is an empty file. Returns false if `commit` is not the path of a commit. */
bool tsr__prepared_paths(const char *commit, char marker[TSR_COMMIT_PATH], char staged[TSR_COMMIT_PATH]);

/* Writes a marker; ignores `host` and `locked` of `prepared`. *lock: the marker's file, which stays locked until the
 * caller closes it; NULL if the store has no locks. If `durable` is true, the marker is on disk when the function
 * returns; up to `threads` threads sync. */
int tsr__prepared_mark(tsr_store *store, const char *marker, const tsr_prepared_marker *prepared, bool durable,
                       unsigned threads, tsr_file **lock, tsr_error *error);

/* Tells whether the writer of a marker still holds its lock. Returns TSR_UNSUPPORTED if the store has no locks,
 * TSR_NOT_FOUND if the marker is missing. */
int tsr__prepared_is_locked(tsr_store *store, const char *marker, bool *locked, tsr_error *error);

/* Reads a marker; `arena` owns the strings. Returns 1; 0 if the marker is missing or incomplete. */
int tsr__prepared_read(tsr_store *store, const char *marker, tsr_arena *arena, tsr_prepared_marker *prepared,
                       tsr_error *error);

/* Makes the commit of the database file `owner` (a path) durable before anything is published: syncs its directory.
 * SQLite does not sync the directory after deleting its journal (except with synchronous=EXTRA): after a power loss the
 * journal could reappear, and SQLite would roll back a commit that the array shows. */
int tsr__prepared_sync_owner(tsr_memory *memory, const char *owner, tsr_error *error);

/* Returns 1 if the commit's own file exists, else 0. A commit that was consolidated into a .con may have lost its own
 * file; tsr__published_has looks further. */
int tsr__prepared_is_published(tsr_store *store, const char *commit, tsr_error *error);

/* Fails with TSR_CORRUPT: the database has committed the commit, but its files are gone, so it can never be
 * published. */
int tsr__prepared_fail_gone(const char *commit, tsr_error *error);

/* Returns 1 if all files that publication needs exist (the staged file, the metadata of each fragment), else 0. */
int tsr__prepared_is_complete(tsr_store *store, const tsr_prepared_marker *prepared, tsr_error *error);

/* Removes a marker; a missing one is no error. */
int tsr__prepared_unmark(tsr_store *store, const char *marker, tsr_error *error);

/* Publishes a prepared commit. Returns 1; 0 if it is already published, or its files are missing. `durable`: the commit
 * is on disk when the function returns. */
int tsr__prepared_publish(tsr_store *store, const char *commit, bool durable, tsr_error *error);

/* Unpublishes a commit: removes its own file and the .del files of its deletes, if they exist; its fragments stay. For
 * stores with transactions, where the host may roll back after the publication. */
int tsr__prepared_withdraw(tsr_store *store, const char *commit, tsr_error *error);

/* Records of late publications: recovery published another commit instead of the prepared one. */

typedef struct tsr_late { /* the record of a prepared commit */
  char commit[TSR_COMMIT_PATH]; /* path of the commit published instead of it; "": no cell was left to publish */
  uint64_t dropped, total; /* cells of the prepared commit: those that were not published again; all */
} tsr_late;

/* Gives the path of a prepared commit's record. Returns false if `commit` is not the path of a commit. */
bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]);

/* Read the record of a prepared commit, or the record at `path`. Return 1; 0 if the record is missing or incomplete. */
int tsr__late_read(tsr_store *store, const char *commit, tsr_late *late, tsr_error *error);
int tsr__late_read_file(tsr_store *store, const char *path, tsr_late *late, tsr_error *error);

/* Writes the record of a prepared commit, atomically and durably. Returns TSR_EXISTS if it has one already. */
int tsr__late_write(tsr_store *store, const char *commit, const tsr_late *late, tsr_error *error);

/* Removes the record of a prepared commit; a missing one is no error. */
int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error);

/* ---- commit_files.c: decoded .con, .ign, .vac and .meta files ---------------------------------------------------- */

/* A decoded .con, .ign, .vac or .meta file. These files never change once they are complete. But TileDB writes them in
 * place, and a list (.con, .ign, .vac) that is truncated between two lines looks complete. So all lists are checked for
 * changes whenever the array is listed from scratch. Before, each is checked by every statement for 2 seconds after it
 * was read, and then whenever it has become twice as old as it was at the last check: the lists of an array that is
 * never vacuumed become many, and a transaction must not cost a look at each. */
#define TSR_NO_LOOK UINT64_MAX

typedef struct tsr_commit_file {
  struct tsr_commit_file *next; /* in tsr_commit_files.outdated */
  char *path;
  tsr_look look; /* list: size and modification time before it was read; zeros if the store does not know them */
  uint64_t read_at, look_at; /* tsr__moment: before it was read; when it is checked next, TSR_NO_LOOK: never */
  uint64_t generation; /* of the last listing that has the file */
  tsr_arena arena;
  tsr_buffer content; /* kept if the fields below point into it */
  tsr_commits commits; /* .con; empty if the file is truncated, because it then counts as not written yet */
  tsr_commits partial; /* .con that is truncated: the entries that are complete */
  tsr_names names; /* .ign, .vac */
  tsr_footers footers; /* .meta */
  bool damaged; /* .meta: no footer can be read */
  tsr_map footers_by_name; /* .meta: name -> tsr_footer */
} tsr_commit_file;

typedef struct tsr_commit_files { /* decoded files of __commits and of consolidated footers */
  tsr_map by_path; /* -> tsr_commit_file */
  tsr_commit_file *outdated; /* linked list: they changed on disk, but the last listing points into them */
  uint64_t look_at; /* the first of theirs */
} tsr_commit_files;

typedef struct tsr_log_host { /* the host's decision about prepared commits; NULL function: none counts */
  /* Returns 1 if a prepared commit counts, 0 if not, < 0 on an error. */
  int (*committed)(void *argument, const char *commit, tsr_error *error);
  void *argument;
  /* NULL, or the path of a prepared commit without a marker that counts, too; borrowed (tsr__log_count_unpublished) */
  const char *unpublished;
} tsr_log_host;

/* The log of an array, which owns it. The array sets the borrowed members before it lists the log for the first
 * time. */
typedef struct tsr_log {
  tsr_environment *environment; /* borrowed, as are the next four */
  tsr_store *store;
  const char *path; /* of the array, for messages */
  const uint8_t *key; /* NULL: the array is not encrypted */
  tsr_memory *memory; /* pays for listings and files */
  const tsr_map *schemas, *conditions; /* names that the array has decoded already: their files are not prefetched */
  void *array; /* the argument of `schema_version` */
  uint32_t (*schema_version)(const void *array, const char *name); /* 0: the schema has not been loaded */
  tsr_log_host host;
  /* owned: the schema's name, if the array was opened before its creation was published; or NULL */
  char *unpublished_schema;
  uint64_t frozen; /* the present of new snapshots, in milliseconds since 1970; 0: the clock's */
  struct tsr_commit_listing *listing; /* the last one */
  tsr_commit_files files;
  struct {
    bool wanted; /* the listing that is being made should have it */
    uint64_t listed; /* when, by tsr__moment; 0: not at all */
    uint64_t changes; /* environment->metadata_changes then */
    tsr_listing entries; /* owned */
  } metadata; /* __meta, listed together with the commits */
  uint64_t checked_vacuums; /* digest of the vacuum files that have been searched for duplicate cells to no avail */
  bool own_commit_unlisted; /* `own_commit` is in a bucket, and no listing has shown it yet */
  char own_commit[TSR_COMMIT_PATH]; /* the last commit that a writer of this array published; its marker is gone */
} tsr_log;

/* Gives the decoded .con, .ign, .vac or .meta file at `path`, reading it on the first call. Borrowed until the listing
 * is renewed. */
int tsr__log_file(tsr_log *log, const char *path, const tsr_commit_file **file, tsr_error *error);

/* Notes that the listing of this generation has the file at `path`, so that tsr__commit_files_prune keeps it. Does
 * nothing if the file has not been decoded. */
void tsr__commit_file_keep(tsr_log *log, const char *path, uint64_t generation);

/* Marks lists that changed on disk since they were read as outdated. They stay in memory until tsr__commit_files_prune,
 * because the last listing may point into them. */
int tsr__commit_files_outdate(tsr_log *log, tsr_error *error);

/* Returns 1 if a list whose time has come has changed on disk since it was read, else 0. */
int tsr__commit_files_changed(tsr_log *log, tsr_error *error);

/* Frees outdated files and files that the listing of this generation does not have. */
void tsr__commit_files_prune(tsr_commit_files *files, uint64_t generation);

/* ---- listing.c: lists the array's directories -------------------------------------------------------------------- */

/* The listing of an array has the names of all committed fragments and deletes, schemas, vacuum files and consolidated
 * footers. Snapshots pick from it the names in view. It is renewed when the directories change. */

/* A name in a listing; its pointers are borrowed from the listing or from a tsr_commit_file. */
typedef struct tsr_committed {
  const char *name; /* without suffix */
  tsr_name parsed;
  bool old_layout; /* the fragment is in the array's own directory, not in __fragments */
  const char *path; /* of the file: .vac, .meta, .del, or the .con that contains the delete */
  const uint8_t *bytes; /* delete in a .con: its generic tile; else NULL */
  uint64_t size; /* of `bytes`, in bytes */
  bool prepared; /* the fragment or delete is not published; it counts because the host has committed it */
  bool joined; /* the fragment is committed by a .con, perhaps also by a file of its own */
} tsr_committed;

typedef struct tsr_commit_list {
  tsr_committed *items;
  uint64_t count, capacity;
} tsr_commit_list;

#define TSR_LISTING_STAMPS 3

/* When the array was listed, to detect later whether it has changed since. */
typedef struct tsr_listing_moment {
  uint64_t listed; /* tsr__moment at which the listing began */
  uint64_t changes; /* the store's counter of changes when the listing began */
  /* of the array's directory, __schema and __commits (tsr_directory), before they were listed */
  tsr_stamp stamps[TSR_LISTING_STAMPS];
} tsr_listing_moment;

/* Commits that a transaction of the host has prepared but not published. */
typedef struct tsr_prepared_commits {
  tsr_commit_list markers; /* `path` is the marker's path, `name` the commit's path */
  bool undecided; /* some do not count yet: ask the host about them again */
  bool counted; /* some count, so some fragments may be `prepared` */
} tsr_prepared_commits;

typedef struct tsr_commit_listing {
  tsr_arena arena;
  uint64_t generation; /* 1 for the first listing of the array, then 2, 3, ... */
  uint64_t appended_since; /* since this generation, `fragments` has only got longer at its end, and nothing else new */
  bool complete; /* false: only schemas are listed */
  tsr_listing_moment moment;
  /* latest time in the names of __commits, or 0; ignores times two seconds or more ahead of the clock
   * (tsr__environment_time) */
  uint64_t newest;
  bool old_layout; /* the array's own directory has committed names, or an old schema */
  /* all schemas are version 12 or newer: no commit can appear in the array's own directory, so it is not checked for
   * changes */
  bool new_layout;
  tsr_commit_list fragments; /* sorted by (start time, name) */
  tsr_commit_list deletes; /* sorted by (start time, name) */
  tsr_commit_list vacuums; /* .vac */
  tsr_commit_list exchanges; /* .vac.ign (replaced.c) */
  tsr_commit_list footers; /* .meta, newest first */
  tsr_commit_list schemas; /* in text order, __array_schema.tdb first; `path` is that of the schema file */
  /* below version 5: fragments without metadata yet; `path` is the file that will commit them */
  tsr_commit_list pending;
  tsr_map names; /* the names of `fragments`; a set */
  tsr_prepared_commits prepared;
  uint64_t written; /* how many entries of __commits are .wrt files */
  tsr_listing commits; /* the entries of __commits; owned */
  bool staged_vacuum; /* one of them is a staged vacuum file: a new .wrt could make it count */
  tsr_commit_list truncated_con; /* `path` of .con files that are truncated without any loss (commit_files.c) */
} tsr_commit_listing;

/* Renews log->listing if it is missing or outdated, or unconditionally if `force` is true. `commits`: list everything;
 * false: schemas are enough. While the array is frozen, a complete listing is renewed only if `force` is true. Returns
 * TSR_NOT_FOUND "array not found: PATH" if there is no array, TSR_BUSY if the array changes faster than it can be
 * listed. */
int tsr__log_list(tsr_log *log, bool commits, bool force, tsr_error *error);

/* Returns true if no commit or schema can appear in the array's own directory, so that nobody need list it. The array
 * must have been listed. */
bool tsr__log_is_new_layout(const tsr_log *log);

/* Lets a prepared commit without a marker count in this log until the function is called with NULL: its host has
 * committed, but it could not be published yet. `commit` is borrowed until then. The next statement lists the array
 * again. */
void tsr__log_count_unpublished(tsr_log *log, const char *commit);

/* Lists everything for a writer. Where a listing is a request, __meta is listed at the same time, for
 * tsr__log_take_metadata. */
int tsr__log_list_to_write(tsr_log *log, tsr_error *error);

/* Gives, once, the listing of __meta that tsr__log_list_to_write has made, if it is less than a second old and this
 * environment has changed no metadata since. The caller releases it by tsr__listing_release. Returns false if there is
 * none. */
bool tsr__log_take_metadata(tsr_log *log, tsr_listing *entries);

/* Makes a complete, up-to-date listing, even while the array is frozen. */
int tsr__log_list_present(tsr_log *log, tsr_error *error);
void tsr__log_release(tsr_log *log);

typedef enum tsr_directory {
  TSR_IN_ROOT,
  TSR_IN_SCHEMAS,
  TSR_IN_COMMITS,
  TSR_IN_FOOTERS,
  TSR_IN_METADATA,
  TSR_DIRECTORIES
} tsr_directory;

/* Listings of an array's directories, several of which the store lists in one call. `= {.store = S}`: none is
 * listed. */
typedef struct tsr_array_directories {
  tsr_store *store; /* borrowed */
  bool with_metadata; /* whatever is listed first, __meta is listed with it */
  bool listed[TSR_DIRECTORIES];
  tsr_listing lists[TSR_DIRECTORIES]; /* empty if the directory is missing or not listed */
  tsr_stamp stamps[TSR_DIRECTORIES]; /* taken before the directory was listed */
} tsr_array_directories;

/* A listing under construction. entries.c fills it from the array's directories; prepared.c adds the prepared commits
 * that count. */
typedef struct tsr_renewal {
  tsr_log *log;
  tsr_array_directories *directories; /* some of them may be listed already */
  tsr_commit_listing *listing;
  tsr_map ignored; /* names with suffix, from .ign files */
  tsr_map in_con; /* names of fragments in .con files */
  tsr_map deletes; /* names of deletes, from .con and .del files */
  tsr_map ok; /* names of .ok files without suffix */
  tsr_map metas; /* names of the files in __fragment_meta without suffix -> their paths */
  /* names of fragments that are not committed, and which no .con can have committed (commit_files.c) */
  tsr_map ruled_out;
  /* if the listing fails because of a truncated .con: the file whose age says whether a retry may help; else '' */
  tsr_path doubtful;
  tsr_buffer gone; /* gone_commit: prepared commits that count but whose fragment or staged file is missing */
  bool last_footers; /* __fragment_meta is not listed: reuse the footers of the last listing */
  bool need_root; /* always list the array's own directory */
  uint64_t future; /* ignore times from here on: see tsr_commit_listing.newest */
  bool counting; /* fragments and deletes that are added belong to a prepared commit */
  tsr_error *error;
} tsr_renewal;

/* Copy a string of `size` bytes, or join a directory and a name, into the listing's arena. */
int tsr__renewal_copy_text(tsr_renewal *r, const char *text, uint64_t size, const char **copy);
int tsr__renewal_join_path(tsr_renewal *r, const char *directory, const char *name, const char **path);

/* Appends an item to a list of the listing. */
int tsr__renewal_append(tsr_renewal *r, tsr_commit_list *list, const tsr_committed *item);

/* Add a committed fragment or delete unless the listing has it. `name` and the strings of `item` are in the listing's
 * arena, or in a commit file that lives as long. */
int tsr__renewal_add_fragment(tsr_renewal *r, const char *name, const tsr_name *parsed, bool old_layout);
int tsr__renewal_add_delete(tsr_renewal *r, const tsr_committed *item);

/* Adds the fragment or delete that an entry of a .con commits. `path`: of the .con. */
int tsr__renewal_add_con_entry(tsr_renewal *r, const char *path, const tsr_commit *commit);

/* Reads a .con or .ign of __commits, whose name need not be timestamped, or a prepared .con under its staged name. */
int tsr__renewal_read_file(tsr_renewal *r, const char *name, const tsr_commit_file **file);

/* ---- entries.c: what the names in an array's directories mean ---------------------------------------------------- */

/* Adds the schemas, from the listed directories. TSR_NOT_FOUND: there is none, and why the directory is no array. */
int tsr__entries_add_schemas(tsr_renewal *r);

/* Adds all else, and sorts the lists. Fails with TSR_ABORT if directories contradict each other. */
int tsr__entries_add_commits(tsr_renewal *r);

/* Adds .wrt files of __commits to a listing that has been made. *moved: not all of them come after the fragments that
 * it had. After an error some may be missing. */
int tsr__entries_append_writes(tsr_renewal *r, const char *const *names, uint64_t count, bool *moved);

/* Returns true if an entry of __schema is a schema. */
bool tsr__entry_is_schema(const tsr_entry *entry, tsr_name *parsed);

/* ---- prepared.c: adds the prepared commits that count to a listing ----------------------------------------------- */

/* Adds a marker. Its commit counts if it is not published and the host has committed it. Returns 1; 0 if the marker is
 * missing or incomplete. `entries`: the listing of the directory where the commit will appear. If the commit was
 * published after that listing was made, the array must be listed again: TSR_ABORT. NULL: the caller checks for the
 * commit afterwards. */
int tsr__listing_add_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries);

/* The same for a marker that a listing of its directory shows. If the marker is gone by now, its commit was published
 * meanwhile: TSR_ABORT. */
int tsr__listing_add_listed_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries);

/* Adds the commit that tsr_log_host.unpublished names, unless it was published meanwhile. */
int tsr__listing_add_unpublished(tsr_renewal *r);

/* Fails with TSR_ABORT: the commit of the marker was published while the array was listed. */
int tsr__listing_fail_outdated(tsr_renewal *r, const char *marker);

/* Fails if a prepared commit counts but its files are gone, unless it was published and merged since. Call it when
 * everything is listed. */
int tsr__listing_check_gone(tsr_renewal *r);

/* Returns true if the host has committed a prepared commit since the listing, in which it did not count, or if it was
 * published or undone meanwhile. */
bool tsr__listing_newly_committed(const tsr_log *log);

/* ---- commit_files.c: delete conditions --------------------------------------------------------------------------- */

/* Reads a committed delete condition from its .del file or from the .con that contains it: appends the content of its
 * generic tile to `content`, for tsr__condition_decode, and, unless `stored` is NULL, the tile as stored to `stored`.
 *
 * TileDB writes .del files in place, and a consolidation of commits may copy an incomplete one into a .con. If that
 * copy cannot be decoded, the function reads the .del file instead; if that is still growing, it retries for a short
 * while (torn_read.c).
 * Errors: TSR_BUSY if the file changed a moment ago; TSR_CORRUPT if neither can be decoded; TSR_AUTH. */
int tsr__delete_read(tsr_log *log, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                     tsr_error *error);

/* ---- truncated_con.c: .con files that are truncated -------------------------------------------------------------- */

typedef struct tsr_other_commits { /* which names other files of the array commit or rule out; all borrowed */
  tsr_store *store;
  tsr_memory *memory;
  const tsr_map *fragments; /* names of fragments that other files commit */
  const tsr_map *deletes; /* names of deletes that other files commit */
  /* names of fragments that no .con can have committed: markers, .ign and .vac files name them */
  const tsr_map *ruled_out;
  const tsr_listing *root; /* the array's directory */
} tsr_other_commits;

/* Tells whether anything is lost if the truncated file `con` counts as not written. `partial`: its complete entries.
 * Returns 0 if nothing is lost; 1 if something may be lost, with TSR_CORRUPT and advice in `error`, and in *path the
 * file whose age says whether the writer may still be at work; < 0 on an error. */
int tsr__truncated_con_loses(const tsr_other_commits *known, const char *con, const tsr_commits *partial,
                             tsr_path *path, tsr_error *error);

/* ---- replaced.c: sources of merged fragments; merges that died before their vacuum file got its name ------------- */

typedef struct tsr_replacing { /* a vacuum file */
  const char *name; /* of its merged fragment */
  const tsr_names *names; /* of the sources that the merged fragment replaces */
} tsr_replacing;

/* Returns true if `name`, of a vacuum file, may be a source of the merged fragment: its time range is within that of
 * the merged fragment, and it is another fragment. Other names in a vacuum file are ignored. */
bool tsr__may_be_source(const char *name, const tsr_name *merged, const char *merged_name);

/* Adds to `covered` (name -> name of the merged fragment that replaces it) all fragments whose cells are in a committed
 * merged fragment: the sources in a vacuum file whose merged fragment is in `committed`, or itself in `covered` because
 * another merge replaced it in turn. Names are borrowed from the files. */
int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered,
                 tsr_error *error);

/* Adds all names in a vacuum file of the listing to `hidden`, a set; or those in all of its vacuum files. Names are
 * borrowed until the array is listed again. */
int tsr__log_hide_sources(tsr_log *log, const tsr_committed *vacuum, tsr_map *hidden, tsr_error *error);
int tsr__log_hide_all_sources(tsr_log *log, tsr_map *hidden, tsr_error *error);

/* Appends a tsr_replacing for each vacuum file of the list. Their names are borrowed, as the files are. */
int tsr__log_replacing(tsr_log *log, const tsr_commit_list *vacuums, tsr_buffer *files, tsr_error *error);

/* The same for all vacuum files of a listing. Names are borrowed until the array is listed again. */
int tsr__log_covered(tsr_log *log, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error);

/* Returns a committed merged fragment that probably has the cells of the fragment `name`, whose files are gone; NULL if
 * there is none. TileDB lists the commits, then writes a .con with all of them, in place: if a vacuum removes some
 * meanwhile, the .con names them from then on, and no vacuum file does. So only a .con commits such a fragment, and its
 * times are within those of a longer one. A consolidation of commits cancels the entry. */
const tsr_committed *tsr__log_outlived(const tsr_commit_listing *listing, const char *name);

/* A merge writes the list of its sources before it commits, and renames it to NAME.vac afterwards (maintain/replace.c).
 * If it dies in between, the next process to come along finishes it.
 *
 *   .NAME.vac.new   counts as NAME.vac as soon as NAME is committed; TileDB ignores it
 *   NAME.vac.ign    in arrays that allow duplicates: cancels the commit of NAME in NAME.con, until it becomes NAME.vac
 */

#define TSR_STAGED_NAME 128 /* bytes of a merged fragment's name */

/* Returns true if an entry of a directory is .NAME.vac.new. `name` receives NAME, which is timestamped. */
bool tsr__staged_vacuum(const char *entry, char name[TSR_STAGED_NAME]);

/* Returns true if an entry of __commits is NAME.vac.ign. `name` receives NAME. */
bool tsr__exchange(const char *entry, char name[TSR_STAGED_NAME]);

/* Replaces the sources by the merged fragment, durably: renames NAME.vac.ign to NAME.vac, and commits NAME by NAME.wrt,
 * too. NAME.wrt is necessary because TileDB removes NAME.con together with the .ign files once another list has all
 * commits that count. It is no error if another process has done the same. */
int tsr__exchange_finish(tsr_store *store, const char *name, tsr_error *error);

/* Renames .NAME.vac.new to NAME.vac, durably. NAME must be committed. It is no error if another process has done the
 * same. `directory`: that of the file, "" for the root. */
int tsr__staged_vacuum_finish(tsr_store *store, const char *directory, const char *name, tsr_error *error);

/* Finishes all merges in the array's listing that committed but whose vacuum file lacks its final name. Their processes
 * may still be alive and do the same. In an array that allows duplicates, a merge is taken back if others have merged
 * its sources since. Lists the array again if there was any such merge. */
int tsr__staged_vacuums_finish(tsr_log *log, tsr_error *error);

/* Returns true if the listing shows a merge that tsr__staged_vacuums_finish would finish or take back. */
bool tsr__log_has_dead_merges(const tsr_log *log);

/* Cells that two visible fragments have because their common source was merged twice. In an array that allows
 * duplicates readers see such cells twice. */
typedef struct tsr_duplicate_cells { /* names are borrowed from the vacuum files */
  const char *merged; /* a committed merged fragment that has cells twice, or shares cells with `other`; NULL: none */
  const char *other; /* another committed merged fragment; or `merged` itself */
  const char *source; /* the fragment whose cells are there twice */
} tsr_duplicate_cells;

/* Finds a merged fragment in `committed` that shares a source, directly or through merged sources, with another visible
 * fragment, or that was made from a merged fragment and one of that fragment's own sources. `files` are the vacuum
 * files of the array. */
int tsr__find_duplicate_cells(const tsr_replacing *files, uint64_t count, const tsr_map *committed,
                              tsr_duplicate_cells *doubled, tsr_error *error);

/* Returns false if there are fewer than two vacuum files, or if they are those that have been searched to no avail. */
bool tsr__log_may_have_duplicate_cells(const tsr_log *log);

/* Searches the log's listing likewise, if it may have such cells; lists the array again if a vacuum removes a file
 * meanwhile. Names are borrowed until the next listing. */
int tsr__log_find_duplicate_cells(tsr_log *log, tsr_duplicate_cells *doubled, tsr_error *error);

/* Notes that nothing can be done about what a search of these vacuum files finds: the sources are gone. */
void tsr__log_keep_duplicate_cells(tsr_log *log);

/* ---- published.c: published commits ------------------------------------------------------------------------------ */

/* All names that any file of the array shows to have been published at some time. Recovery asks before it publishes or
 * undoes a prepared commit. */
typedef struct tsr_published {
  tsr_log *log; /* borrowed */
  tsr_arena arena;
  tsr_map names; /* names of published fragments and deletes, except the fragments of the array's listing */
} tsr_published;

/* Lists the array again without counting prepared commits, and collects the names of all published fragments and
 * deletes. The caller must list the array again when it has finished. A file that cannot be read is an error. */
int tsr__published_open(tsr_log *log, tsr_published *published, tsr_error *error);

/* Returns 1 if any file of the array shows that the commit was published, else 0. The array's listing must still be
 * that of tsr__published_open. */
int tsr__published_has(const tsr_published *published, const tsr_prepared_marker *prepared, tsr_error *error);

void tsr__published_release(tsr_published *published);

/* Returns true if the listing shows that a commit whose own files are gone was published: it has one of the commit's
 * fragments, or a merged fragment that spans the time of one. (Sources of a merge that were vacuumed leave no other
 * trace.) A commit of deletes alone was published if the listing has a delete of its time. */
bool tsr__listing_shows_published(const tsr_commit_listing *listing, const tsr_prepared_marker *prepared);

/* ---- commit_queue.c: the order of commits ------------------------------------------------------------------------ */

/* Turns give the commits of several machines distinct times that rise in the order of publication. A store without
 * locks to which several machines commit (a bucket) sets `commits_in_turns`. */

typedef struct tsr_turn tsr_turn;

#define TSR_TURN_OLD (UINT64_C(3600) * 1000) /* ms after which a vacuum may remove the file of a turn */

/* Takes the turn for the next commit to an array, waiting for writers that hold it. *after: the time of the last
 * commit; the next one must get a later time. *turn is NULL if the store needs no turns. Writers of one environment
 * share the turn of an array. The caller ends the turn with tsr__turn_end or tsr__turn_release. */
int tsr__turn_take(tsr_log *log, tsr_turn **turn, uint64_t *after, tsr_error *error);

/* Ends a turn whose commit was published, or is left to recovery. */
void tsr__turn_end(tsr_turn **turn);

/* Gives back a turn whose commit will not be published, so that nobody waits for it. If the turn was taken long ago, it
 * only ends, because another writer may have taken over. */
void tsr__turn_release(tsr_turn **turn, tsr_store *store);

#endif
