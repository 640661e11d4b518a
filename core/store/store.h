/* store.h: the store, which holds an array's files. A store is one directory tree, the root of one array or group, and
 * every path is relative to that root, so that no name in an array's file can lead out of the array. There are four
 * kinds: store_posix.c and store_windows.c keep the tree in a directory of the file system, store_host.c in the host
 * (an SQLite database), store_bucket.c in a bucket. store.c implements what they have in common.
 *
 * A path consists of parts separated by '/'; no part may be empty, "." or "..". The root is "". The functions below
 * reject any other path with TSR_PERM. Error messages begin with the full path, and the subject of an error is a number
 * derived from the path. A file is created by tsr__store_create_exclusive, grows by tsr__store_append, and is durable
 * after a sync of the file and of its directory. Nothing is ever overwritten in place. Only the environment's thread
 * calls these functions, except that workers may read where `workers_may_read` is set and sync where `workers_may_sync`
 * is set.
 *
 * Sections: the types; what the kinds of stores implement and share; files; directories; opening each kind. */
#ifndef TSR_STORE_STORE_H
#define TSR_STORE_STORE_H

#include <string.h>

#include "store/store_bounds.h"
#include "base/memory.h"
#include "remote/bucket.h"
#include "tessera_host.h"

typedef struct tsr_file tsr_file;
typedef struct tsr_store tsr_store;

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct tsr_entry {
  char *name; /* in the listing's arena */
  tsr_entry_kind kind;
  bool known; /* a file whose size and modification time came with the listing */
  uint64_t size; /* in bytes, if `known` */
  uint64_t modified; /* in milliseconds since 1970, if `known` */
} tsr_entry;

/* The entries of a directory, sorted by name as bytes. `= {0}` is an empty listing. */
struct tsr_listing {
  tsr_memory *memory; /* borrowed */
  tsr_entry *entries; /* owned */
  uint64_t count;
  tsr_arena names; /* of the entries */
  const char *link; /* the name of an entry that is a symbolic link we do not follow (a TSR_ENTRY_OTHER), or NULL */
  bool missing; /* of tsr__store_list_many: the directory does not exist */
};

/* A fingerprint of a directory's entries. If two stamps are equal and both are `known`, no entry was added or removed
 * in between. */
typedef struct tsr_stamp {
  bool known;
  uint64_t a, b, c;
} tsr_stamp;

/* Size and modification time of a file, by the clock of the file system. If two looks at a file differ, it was written
 * to in between. */
typedef struct tsr_look {
  uint64_t size; /* in bytes */
  int64_t modified; /* in nanoseconds since 1970 */
} tsr_look;

/* A file, or a part of one, that the caller will read soon (tsr__store_prefetch). */
typedef struct tsr_read_hint {
  const char *path; /* borrowed during the call */
  uint64_t offset; /* in bytes; ignored if `tail` */
  uint64_t size; /* in bytes; TSR_WHOLE: the whole file */
  bool tail; /* the last `size` bytes of the file, or the whole file if it is smaller */
} tsr_read_hint;

#define TSR_WHOLE        UINT64_MAX /* the size of a hint for a whole file */
#define TSR_SIZE_UNKNOWN UINT64_MAX /* for tsr__store_open_sized */

/* The operations of one kind of store. The functions below check paths and ranges before they call a method, and
 * prepend the full path to its message, so a method reports only the cause. Methods set out-parameters only on
 * success. */
typedef struct tsr_store_methods {
  void (*close)(tsr_store *store);
  /* TSR_NOT_FOUND if the file does not exist */
  int (*open_file)(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
  void (*close_file)(tsr_file *file);
  /* Reads all `size` bytes or fails. */
  int (*read_at)(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);
  /* Adds the entries with tsr_listing_add, in any order. TSR_NOT_FOUND if the directory does not exist */
  int (*list)(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);
  /* A directory that does not exist has a stamp as well: known, with a, b and c 0. */
  int (*stamp)(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error);
  int (*modified)(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error);
  uint64_t (*now)(tsr_store *store); /* NULL: the clock of this machine */
  /* TSR_EXISTS if the path is taken */
  int (*create_exclusive)(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
  int (*append)(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error);
  int (*sync)(tsr_file *file, tsr_error *error);
  int (*sync_directory)(tsr_store *store, const char *path, tsr_error *error);
  int (*rename)(tsr_store *store, const char *from, const char *to, tsr_error *error);
  /* TSR_EXISTS if the path `to` is taken */
  int (*rename_exclusive)(tsr_store *store, const char *from, const char *to, tsr_error *error);
  /* Exchanges two directories atomically. TSR_UNSUPPORTED: the file system cannot. NULL: the store cannot */
  int (*exchange)(tsr_store *store, const char *one, const char *other, tsr_error *error);
  /* Removes a file, an empty directory, or a symbolic link itself. */
  int (*remove)(tsr_store *store, const char *path, tsr_error *error);
  /* TSR_EXISTS if the path is taken. The parent must exist; for the root, missing parents are created. */
  int (*make_directory)(tsr_store *store, const char *path, tsr_error *error);
  bool (*is_link)(tsr_store *store, const char *path); /* NULL: the store has no symbolic links */
  /* NULL: no other program writes to the store, so every file is complete when it appears. */
  int (*look)(tsr_store *store, const char *path, tsr_look *look, tsr_error *error);
  /* See tsr__store_doubt. NULL: the store caches nothing. */
  void (*doubt)(tsr_store *store);
  /* See tsr__store_lock and tsr__store_locked. Both NULL: the store has no locks. */
  int (*lock)(tsr_file *file, tsr_error *error);
  int (*locked)(tsr_file *file, bool *locked, tsr_error *error);

  /* The methods below may be NULL: store.c then falls back on the methods above. Stores in which each call is a request
   * to a server implement them. */
  /* Appends a whole file to `buffer`. TSR_TOOBIG if it has more than `most` bytes */
  int (*read_whole)(tsr_store *store, const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);
  /* See tsr__store_open_sized. Sets file->size to the file's size, or to `size` if the caller passed it. */
  int (*open_sized)(tsr_store *store, const char *path, uint64_t size, tsr_file **file, tsr_error *error);
  /* Opens, reads and closes a file of at most `most` bytes in as few system calls as possible. *kept is NULL if the
   * file must be opened in the usual way, which also reports errors. */
  int (*read_small)(tsr_store *store, const char *path, uint64_t most, tsr_arena *arena, tsr_file **kept,
                    tsr_error *error);
  /* See tsr__store_prefetch. The paths and ranges are valid. */
  void (*prefetch)(tsr_store *store, const tsr_read_hint *hints, uint64_t count);
  /* Lists several directories; `listings` are empty, with their memory set. A directory that does not exist is marked
   * `missing`. stamps[i] describes the same state as listings[i], or an earlier one. */
  int (*list_many)(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings, tsr_stamp *stamps,
                   tsr_error *error);
  int (*stamp_many)(tsr_store *store, const char *const *paths, uint64_t count, tsr_stamp *stamps, tsr_error *error);
  /* TSR_EXISTS if the path is taken */
  int (*put_new)(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable, tsr_error *error);
  int (*make_provisional)(tsr_store *store, const char *path, tsr_error *error);
  /* Removes files; a missing file is not an error. */
  int (*remove_many)(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);
  uint64_t (*unsent)(tsr_store *store); /* see tsr__store_unsent; NULL: 0 */
  int (*end_uploads)(tsr_store *store, uint64_t before, tsr_error *error); /* NULL: there are no uploads */
  /* Removes directories with everything in them; a missing path is not an error. */
  int (*remove_trees)(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);
} tsr_store_methods;

struct tsr_store {
  const tsr_store_methods *methods;
  tsr_memory *memory; /* borrowed */
  char *name; /* the root's path as the caller gave it, for messages */
  const char *place; /* the kind of root, for messages: "prefix", "bucket"; NULL: a directory */
  const tsr_bounds *bounds; /* of the environment, for stores of directories; borrowed, or NULL */
  bool workers_may_read; /* workers may call open_file, read_at and close_file */
  bool workers_may_sync; /* workers may call sync and sync_directory */
  bool listings_are_states; /* each listing is a consistent state of its directory at one moment */
  bool stamps_are_listings; /* a stamp costs as much as a listing, so callers that may need both list right away */
  bool renames_in_steps; /* a rename copies and removes: others see the steps, and two renames of a file may succeed */
  bool commits_in_turns; /* writers on several machines commit without locks: they take turns (log.h) */
  uint32_t refresh_ms; /* readers may use a listing for this long without asking for changes */
  uint64_t changes; /* to files through this store so far; counted only in stores where refresh_ms may be nonzero */
  bool uses_descriptors; /* each open file counts towards the process's limit of open files */
  /* Closes idle files when the process cannot open more. Returns false if there were none. NULL: there are none.
   * Workers may call it. */
  bool (*make_room)(void *argument);
  void *room_argument;
  bool is_one_file; /* all files are in one database, so READONLY and BUSY concern all of them */
  _Atomic uint64_t files_opened, bytes_read, directories_listed; /* counters */
};

struct tsr_file {
  tsr_store *store; /* borrowed */
  char *path; /* relative to the store's root */
  uint64_t size; /* in bytes, when the file was opened; tsr__store_append adds to it */
  const uint8_t *kept; /* all bytes of a file that was read into memory (tsr__store_keep_file), or NULL */
  bool in_arena; /* a kept file in an arena: closing it frees nothing */
  /* Set by the creator of a new file as a promise: it will sync the file before closing it, and not read it before
   * that. If it breaks the promise, the file is removed. So a store may upload the first bytes before it has the last
   * ones. */
  bool syncs;
};

/* A path made by tsr__path_of. */
typedef struct tsr_path {
  char text[640];
} tsr_path;

/* Returns "DIRECTORY/NAME" followed by the suffix, truncated to fit. The directory may be "" or end in '/'. */
tsr_path tsr__path_of(const char *directory, const char *name, const char *suffix);

/* Counts a change to a file, in a store where refresh_ms may be nonzero. */
void tsr__store_changed(tsr_store *store);

const char *tsr__store_place(const tsr_store *store); /* "directory", "prefix" or "bucket" */

/* Returns how many such changes this process has made, through all its stores. */
uint64_t tsr__store_process_changes(void);

/* Returns true if the functions below accept the path. */
bool tsr__store_path_valid(const char *path);

/* ---- For the kinds of stores ----------------------------------------------------------------- */

/* Allocates a zeroed structure of `size` bytes that begins with a tsr_store, and sets methods, memory and name. The
 * caller sets the flags and frees the structure with tsr__free. */
int tsr__store_allocate(const tsr_store_methods *methods, tsr_memory *memory, const char *name, uint64_t size,
                        void **store, tsr_error *error);

/* Like tsr_listing_add, for a file whose size and modification time (in milliseconds since 1970) are known. */
int tsr__listing_add_file(tsr_listing *listing, const char *name, uint64_t size, uint64_t modified, tsr_error *error);

/* Allocates a zeroed structure of `size` bytes that begins with a tsr_file, and sets store and path. The method
 * close_file frees it with tsr__free. */
int tsr__file_allocate(tsr_store *store, const char *path, uint64_t size, void **file, tsr_error *error);

/* Allocates a file that is read from memory, and returns the room for its bytes, which the caller fills. `arena` pays
 * for it; NULL: the store's memory does, and closing the file frees it. */
int tsr__file_allocate_kept(tsr_store *store, const char *path, uint64_t size, tsr_arena *arena, tsr_file **file,
                            uint8_t **bytes, tsr_error *error);

/* ---- Stores and files ------------------------------------------------------------------------ */

/* Closes a store, after all its files are closed. NULL is allowed. */
void tsr__store_close(tsr_store *store);

/* Opens a file for reading. Fails with TSR_NOT_FOUND if the file does not exist. */
int tsr__store_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
void tsr__store_close_file(tsr_file *file); /* NULL is allowed */

/* Like tsr__store_open_file, for a file whose size the caller knows from metadata. The store need not look for the
 * file: if it is missing or smaller, the first read may fail instead, with TSR_NOT_FOUND or TSR_CORRUPT.
 * TSR_SIZE_UNKNOWN says that the caller will read the end of the file first; file->size is then the file's actual
 * size. */
int tsr__store_open_sized(tsr_store *store, const char *path, uint64_t size, tsr_file **file, tsr_error *error);

/* Hints at what the caller will read soon, so that the store can fetch all of it at once. The caller still reads as
 * usual, whatever becomes of the hint. Only for files that do not change. */
void tsr__store_prefetch(tsr_store *store, const tsr_read_hint *hints, uint64_t count);

/* The same for whole files. */
void tsr__store_prefetch_files(tsr_store *store, const char *const *paths, uint64_t count);

/* Returns false if tsr__store_prefetch does nothing here, so that the caller need not collect hints. */
bool tsr__store_prefetches(const tsr_store *store);

/* Reads `size` bytes. Fails with TSR_CORRUPT if the range does not lie within the file. */
int tsr__store_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);

/* Like tsr__store_open_sized with TSR_SIZE_UNKNOWN. A file of at most `most` bytes is read into memory as by
 * tsr__store_keep_file, into the arena unless that is NULL, and file->kept is set. */
int tsr__store_open_small(tsr_store *store, const char *path, uint64_t most, tsr_arena *arena, tsr_file **file,
                          tsr_error *error);

/* Reads a whole open file into memory and closes it. *file becomes a file that is served from that memory. `arena`: as
 * for tsr__store_open_small. */
int tsr__store_keep_file(tsr_file **file, tsr_arena *arena, tsr_error *error);

/* Appends a whole file to `buffer`. Fails with TSR_TOOBIG if the file has more than `most` bytes. */
int tsr__store_read_all(tsr_store *store, const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);

/* Creates an empty file for appending. Fails with TSR_EXISTS if the path is taken. */
int tsr__store_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
int tsr__store_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error);
int tsr__store_sync(tsr_file *file, tsr_error *error);

/* Writes a new file, which appears complete or not at all. Fails with TSR_EXISTS if the path is taken. `durable`: its
 * bytes are on disk before it appears. As after a rename, its name is durable after tsr__store_sync_directory. */
int tsr__store_put_new(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable,
                       tsr_error *error);

/* Locks a file that create_exclusive has made. It stays locked until it is closed or the process dies: then the
 * operating system releases the lock. TSR_UNSUPPORTED where the store or the file system has no locks. */
int tsr__store_lock(tsr_file *file, tsr_error *error);

/* Returns false if the store has no locks. */
bool tsr__store_has_locks(const tsr_store *store);

/* Sets *locked to whether a file, opened by open_file, is locked through another tsr_file, in this process or another.
 * TSR_UNSUPPORTED where that cannot be determined. */
int tsr__store_locked(tsr_file *file, bool *locked, tsr_error *error);

/* Reads the size and the modification time of a file. Returns 1 on success, and 0 if files of this store are always
 * complete, so that there is nothing to look at. Fails with TSR_NOT_FOUND if the file does not exist. */
int tsr__store_look(tsr_store *store, const char *path, tsr_look *look, tsr_error *error);

/* Call it when bytes of a file cannot be decoded, since they may have been corrupted in transit from a server. If so,
 * the store drops what it has fetched and returns true, and the caller reads once more before reporting an error. Any
 * thread may call it. */
bool tsr__store_doubt(tsr_store *store);

/* Returns true if a file with this path can be opened. Only for callers to which a false "no" after a failure does no
 * harm. */
bool tsr__store_exists(tsr_store *store, const char *path);

/* Each sets *exists to whether a file or a directory exists. Running out of memory or a disk failure is an error. */
int tsr__store_find(tsr_store *store, const char *path, bool *exists, tsr_error *error);
int tsr__directory_find(tsr_store *store, const char *path, bool *exists, tsr_error *error);

/* ---- Directories ----------------------------------------------------------------------------- */

/* Lists a directory. Fails with TSR_NOT_FOUND if the directory does not exist, and with TSR_PERM if an entry is a
 * symbolic link that we may not follow, because the files behind it would silently be missing. */
int tsr__store_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);

/* The same, but symbolic links that we may not follow are listed as TSR_ENTRY_OTHER. */
int tsr__store_list_any(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);

/* Lists several directories, in this order or concurrently, each as tsr__store_list does. A directory that does not
 * exist has an empty listing marked `missing`. A later stamp of directory i equals stamps[i] only if the directory has
 * not changed since it was listed. On an error there are no listings to release. */
int tsr__store_list_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings,
                         tsr_stamp *stamps, tsr_error *error);

void tsr__listing_release(tsr_listing *listing);

/* Returns the entry with this name in a listing of tsr__store_list or tsr__store_list_any, or NULL. */
const tsr_entry *tsr__listing_find(const tsr_listing *listing, const char *name);
bool tsr__listing_has(const tsr_listing *listing, const char *name);

/* Reads a directory's stamp. A directory that does not exist has a stamp as well. */
int tsr__store_stamp(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error);

/* Reads the stamps of several directories. */
int tsr__store_stamp_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_stamp *stamps,
                          tsr_error *error);

/* Returns true if both stamps are known and equal: the directory has not changed in between. */
bool tsr__same_stamp(const tsr_stamp *a, const tsr_stamp *b);

/* Reads the modification time of a file or directory, in milliseconds since 1970. */
int tsr__store_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error);

/* Returns the current time in milliseconds since 1970, by the clock that timestamps the files, as far as it is
 * known. */
uint64_t tsr__store_now(tsr_store *store);

int tsr__store_sync_directory(tsr_store *store, const char *path, tsr_error *error);

/* Syncs several files and directories; with `threads` > 1 concurrently if the store allows it: a file system then
 * writes them to disk in fewer transactions. */
int tsr__store_sync_all(tsr_store *store, tsr_file *const *files, uint64_t file_count, const char *const *directories,
                        uint64_t directory_count, unsigned threads, tsr_error *error);

/* Renames a file or directory; the exclusive form fails with TSR_EXISTS if the path `to` is taken. */
int tsr__store_rename(tsr_store *store, const char *from, const char *to, tsr_error *error);
int tsr__store_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error);
int tsr__store_exchange(tsr_store *store, const char *one, const char *other, tsr_error *error);

/* Removes a file, an empty directory, or a symbolic link itself. */
int tsr__store_remove(tsr_store *store, const char *path, tsr_error *error);

/* Removes several files, in this order or concurrently. A missing file is not an error. After an error some of the
 * files may remain. */
int tsr__store_remove_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);

/* Removes a file, a directory with everything in it, or a symbolic link itself. It follows no links. A missing path is
 * not an error. */
int tsr__store_remove_tree(tsr_store *store, const char *path, tsr_error *error);
int tsr__store_remove_trees(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);

/* Aborts uploads of large files that began before a time (in milliseconds since 1970) and have not ended. */
int tsr__store_end_uploads(tsr_store *store, uint64_t before, tsr_error *error);

/* Returns the bytes of new files that the store still holds on this machine: until they get their names, or slightly
 * longer. */
uint64_t tsr__store_unsent(tsr_store *store);

/* Makes a directory. Fails with TSR_EXISTS if the path is taken. The parent must exist, but for the root missing
 * parents are created. */
int tsr__store_make_directory(tsr_store *store, const char *path, tsr_error *error);

/* Makes a directory like tsr__store_make_directory, for files that are written before a rename gives the directory its
 * final name. The store may keep such a directory where no other process sees it, and report a failed write only at the
 * rename. Whoever made the directory must rename or remove it through the same store. */
int tsr__store_make_provisional(tsr_store *store, const char *path, tsr_error *error);

/* Fails with TSR_PERM if `path` is a symbolic link. Call it before any recursive delete: the link's target may lie
 * outside the array. */
int tsr__store_own(tsr_store *store, const char *path, tsr_error *error);

/* ---- store_host.c: a store whose files the host keeps ------------------------------------------ */

/* For example in the database of an SQLite connection. The host's callbacks are those of tsr_host_store in
 * tessera_host.h. */

/* Opens the tree that the host has under `path`, which begins with the host's scheme. `host` is borrowed, `argument` is
 * passed to its callbacks. The store's root is the directory `below` of the tree, borrowed; NULL: the tree's root. The
 * caller closes *store with tsr__store_close. */
int tsr__store_host_open(tsr_memory *memory, const tsr_host_store *host, void *argument, const char *path,
                         const char *below, tsr_store **store, tsr_error *error);

/* ---- store_posix.c, store_windows.c: a store in a directory of the file system ----------------- */

/* Opens the tree below the directory `path` without looking at the directory, which need not exist. A relative path is
 * resolved against the current directory now. The caller closes *store with tsr__store_close. */
int tsr__store_directory_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);

/* Returns true if the path, which does not end in '/', is itself a symbolic link. */
bool tsr__path_is_link(const char *path);

/* ---- store_bucket.c: a store whose files are the objects below a prefix of a bucket ---------------- */

/* The name of the object with which one of several processes claims a prefix, to create an array or a group there. */
#define TSR_BUCKET_CLAIM ".created"

/* Returns true for the name of an object with which tsr__bucket_prove tests the server. Leftovers come from processes
 * that were killed during the test. */
static inline bool tsr__bucket_is_proof(const char *name) {
  return strncmp(name, TSR_BUCKET_PROOF, sizeof TSR_BUCKET_PROOF - 1) == 0;
}

/* Opens the store at "s3://bucket/prefix". Nothing is sent, and nothing need exist there. `scopes` must outlive the
 * store. Errors: as tsr__bucket_open. */
int tsr__store_bucket_open(tsr_bucket_scopes *scopes, tsr_memory *memory, const char *uri, tsr_store **store,
                           tsr_error *error);

#endif
