/* store.h: the store, the place of an array's files. A store is one directory tree, the root of one array or group, and
 * every path is relative to that root, so that no name in an array's file can lead out of the array. store_posix.c
 * keeps the tree in a directory of the file system, store_host.c in the host (an SQLite database).
 *
 * A path consists of parts separated by '/'; no part is empty, "." or "..". The root is "". The functions below refuse
 * any other path with TSR_PERM. Messages of errors begin with the full path, and the subject of an error is a number made
 * from the path. A file appears with
 * tsr__store_create_exclusive, grows by tsr__store_append, and is durable after a sync of the file and of its
 * directory. Nothing is ever overwritten in place. Only the environment's thread calls these functions, except that
 * workers may read where `workers_may_read` is set and sync where `workers_may_sync` is set. */
#ifndef TSR_STORE_STORE_H
#define TSR_STORE_STORE_H

#include <string.h>

#include "store/store_bounds.h"
#include "base/memory.h"
#include "remote/s3.h"

typedef struct tsr_file tsr_file;
typedef struct tsr_store tsr_store;

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct tsr_entry {
  char *name; /* in the listing's memory */
  tsr_entry_kind kind;
  bool known; /* a file whose size and time of the last change came with the listing */
  uint64_t size; /* in bytes, if `known` */
  uint64_t modified; /* in milliseconds since 1970, if `known` */
} tsr_entry;

/* The entries of a directory, sorted by name as bytes. `= {0}` is an empty listing. */
struct tsr_listing {
  tsr_memory *memory; /* borrowed */
  tsr_entry *entries; /* owned */
  uint64_t count;
  tsr_arena names; /* of the entries */
  const char *link; /* the name of an entry that is a symbolic link and is not followed (a TSR_ENTRY_OTHER), or NULL */
  bool missing; /* of tsr__store_list_many: the directory does not exist */
};

/* A fingerprint of a directory's entries. If two stamps are equal and both are `known`, no entry was added or removed
 * between them. */
typedef struct tsr_stamp {
  bool known;
  uint64_t a, b, c;
} tsr_stamp;

/* Size and time of the last change of a file, by the clock of the file system. If two looks at a file differ, it was
 * written to between them. */
typedef struct tsr_look {
  uint64_t size; /* in bytes */
  int64_t modified; /* in nanoseconds since 1970 */
} tsr_look;

/* A file, or a part of one, that the caller will soon read (tsr__store_expect). */
typedef struct tsr_wish {
  const char *path; /* borrowed during the call */
  uint64_t offset; /* in bytes; not used if `tail` */
  uint64_t size; /* in bytes; TSR_WHOLE: the whole file */
  bool tail; /* the last `size` bytes of the file, or the whole file if it is smaller */
} tsr_wish;

#define TSR_WHOLE        UINT64_MAX /* the size of a wish for a whole file */
#define TSR_SIZE_UNKNOWN UINT64_MAX /* for tsr__store_open_sized */

/* The operations of one kind of store. The functions below check paths and ranges before they call a method, and put
 * the full path in front of its message, so a method says only what is wrong. Methods set out-parameters only on
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
  /* A directory that does not exist has a stamp, too: known, with a, b and c 0. */
  int (*stamp)(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error);
  int (*modified)(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error);
  uint64_t (*now)(tsr_store *store); /* NULL: the clock of this machine */
  /* TSR_EXISTS if anything has this path */
  int (*create_exclusive)(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
  int (*append)(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error);
  int (*sync)(tsr_file *file, tsr_error *error);
  int (*sync_directory)(tsr_store *store, const char *path, tsr_error *error);
  int (*rename)(tsr_store *store, const char *from, const char *to, tsr_error *error);
  /* TSR_EXISTS if anything has the path `to` */
  int (*rename_exclusive)(tsr_store *store, const char *from, const char *to, tsr_error *error);
  /* Exchanges two directories in one step. TSR_UNSUPPORTED: the file system cannot. NULL: the store cannot */
  int (*exchange)(tsr_store *store, const char *one, const char *other, tsr_error *error);
  /* Removes a file, an empty directory, or a symbolic link itself. */
  int (*remove)(tsr_store *store, const char *path, tsr_error *error);
  /* TSR_EXISTS if anything has this path. The parent must exist; for the root, missing parents are made. */
  int (*make_directory)(tsr_store *store, const char *path, tsr_error *error);
  bool (*is_link)(tsr_store *store, const char *path); /* NULL: the store has no symbolic links */
  /* NULL: no other program writes to the store, so every file appears complete. */
  int (*look)(tsr_store *store, const char *path, tsr_look *look, tsr_error *error);
  /* See tsr__store_doubt. NULL: each read asks the place of the files itself. */
  void (*doubt)(tsr_store *store);
  /* See tsr__store_lock and tsr__store_locked. Both NULL: the store has no locks. */
  int (*lock)(tsr_file *file, tsr_error *error);
  int (*locked)(tsr_file *file, bool *locked, tsr_error *error);

  /* The methods below may be NULL: store.c then does the same with the methods above. A store to which a call is a
   * request implements them. */
  /* Appends a whole file to `buffer`. TSR_TOOBIG if it has more than `most` bytes */
  int (*read_whole)(tsr_store *store, const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);
  /* See tsr__store_open_sized. Sets file->size to the file's size, or to `size` if that is given. */
  int (*open_sized)(tsr_store *store, const char *path, uint64_t size, tsr_file **file, tsr_error *error);
  /* Opens and closes a file and reads it meanwhile, in as few system calls as possible, if it has at most `most` bytes.
   * *kept is NULL if the file must be opened in the usual way, which also reports errors. */
  int (*read_small)(tsr_store *store, const char *path, uint64_t most, tsr_arena *arena, tsr_file **kept,
                    tsr_error *error);
  /* See tsr__store_expect. The paths and ranges are valid. */
  void (*expect)(tsr_store *store, const tsr_wish *wishes, uint64_t count);
  /* Lists several directories; `listings` are empty and have their memory. A directory that does not exist is marked
   * `missing`. stamps[i] is the state that listings[i] has, or an earlier one. */
  int (*list_many)(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings, tsr_stamp *stamps,
                   tsr_error *error);
  int (*stamp_many)(tsr_store *store, const char *const *paths, uint64_t count, tsr_stamp *stamps, tsr_error *error);
  /* TSR_EXISTS if anything has this path */
  int (*put_new)(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable, tsr_error *error);
  int (*make_provisional)(tsr_store *store, const char *path, tsr_error *error);
  /* Removes files; a file that does not exist is no error. */
  int (*remove_many)(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);
  uint64_t (*unsent)(tsr_store *store); /* see tsr__store_unsent; NULL: 0 */
  int (*end_uploads)(tsr_store *store, uint64_t before, tsr_error *error); /* NULL: there are no uploads */
  /* Removes directories with everything in them; a path that does not exist is no error. */
  int (*remove_trees)(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);
} tsr_store_methods;

struct tsr_store {
  const tsr_store_methods *methods;
  tsr_memory *memory; /* borrowed */
  char *name; /* the root's path as it was given, for messages */
  const char *place; /* what the root is, for messages: "prefix", "bucket"; NULL: a directory */
  const tsr_bounds *bounds; /* of the environment, for stores of directories; borrowed, or NULL */
  bool workers_may_read; /* workers may call open_file, read_at and close_file */
  bool workers_may_sync; /* workers may call sync and sync_directory */
  bool listings_are_states; /* each listing is the state of its directory at one moment */
  bool stamps_are_listings; /* a stamp takes as long as a listing, so callers that may need both list at once */
  bool renames_in_steps; /* a rename copies and removes: others see the steps, and two renames of a file may succeed */
  bool commits_in_turns; /* writers of many machines commit and there are no locks: they take turns (log.h) */
  uint32_t refresh_ms; /* for so long readers may use a listing without asking for changes */
  uint64_t changes; /* of files through this store so far; counted where refresh_ms may not be 0 */
  bool uses_descriptors; /* each open file is one of those that the process may open */
  /* Closes files that nobody uses, when the process cannot open more. Returns false if there were none. NULL: there are
   * none. Workers may call it. */
  bool (*make_room)(void *argument);
  void *room_argument;
  bool is_one_file; /* all files are in one database, so READONLY and BUSY concern all of them */
  _Atomic uint64_t files_opened, bytes_read, directories_listed; /* counters */
};

struct tsr_file {
  tsr_store *store; /* borrowed */
  char *path; /* relative to the store's root */
  uint64_t size; /* in bytes, when the file was opened; tsr__store_append adds to it */
  const uint8_t *kept; /* all bytes of a file that tsr__store_keep_file has taken into memory, or NULL */
  bool in_arena; /* a kept file in memory of an arena, which closing it does not free */
  /* Set by the creator of a new file: it syncs the file before it closes it, and reads it only after that. Otherwise the
   * file is removed. So a store may send the first bytes on before it has the last ones. */
  bool syncs;
};

/* A path made by tsr__path_of. */
typedef struct tsr_path {
  char text[640];
} tsr_path;

/* Returns "DIRECTORY/NAME" followed by the suffix. The directory may be "" or end in '/'. */
tsr_path tsr__path_of(const char *directory, const char *name, const char *suffix);

/* Counts a change of a file, in a store where refresh_ms may not be 0. */
void tsr__store_changed(tsr_store *store);

const char *tsr__store_place(const tsr_store *store); /* "directory", "prefix" or "bucket" */

/* Returns how many such changes this process has made, through all of its stores. */
uint64_t tsr__store_process_changes(void);

/* Returns true if a path may be passed to the functions below. */
bool tsr__store_path_valid(const char *path);

/* ---- For the kinds of stores ----------------------------------------------------------------- */

/* Allocates a zeroed structure of `size` bytes that begins with a tsr_store, and sets methods, memory and name. The
 * kind sets the flags and frees the structure with tsr__free. */
int tsr__store_allocate(const tsr_store_methods *methods, tsr_memory *memory, const char *name, uint64_t size,
                        void **store, tsr_error *error);

/* As tsr_listing_add, for a file whose size and time of the last change (in milliseconds since 1970) are known. */
int tsr__listing_add_file(tsr_listing *listing, const char *name, uint64_t size, uint64_t modified, tsr_error *error);

/* Allocates a zeroed structure of `size` bytes that begins with a tsr_file, and sets store and path. The method
 * close_file frees it with tsr__free. */
int tsr__file_allocate(tsr_store *store, const char *path, uint64_t size, void **file, tsr_error *error);

/* Allocates a file that is read from memory, and gives the room for its bytes, which the caller fills. `arena`: NULL if
 * closing the file frees it. */
int tsr__file_allocate_kept(tsr_store *store, const char *path, uint64_t size, tsr_arena *arena, tsr_file **file,
                            uint8_t **bytes, tsr_error *error);

/* ---- Stores and files ------------------------------------------------------------------------ */

/* Closes a store after all of its files. NULL is allowed. */
void tsr__store_close(tsr_store *store);

/* Opens a file for reading. Fails with TSR_NOT_FOUND if the file does not exist. */
int tsr__store_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
void tsr__store_close_file(tsr_file *file); /* NULL is allowed */

/* As tsr__store_open_file, for a file whose size the caller knows from metadata. The store need not look for the file:
 * if it is missing or smaller, the first read may fail instead, with TSR_NOT_FOUND or TSR_CORRUPT. TSR_SIZE_UNKNOWN
 * says that the caller will read the end of the file first; file->size is the file's size then, too. */
int tsr__store_open_sized(tsr_store *store, const char *path, uint64_t size, tsr_file **file, tsr_error *error);

/* Tells the store what the caller will read soon, so that it can fetch all of it at once. The reads follow as usual,
 * whatever becomes of this hint. Ask only for files that do not change. */
void tsr__store_expect(tsr_store *store, const tsr_wish *wishes, uint64_t count);

/* tsr__store_expect for whole files. */
void tsr__store_expect_files(tsr_store *store, const char *const *paths, uint64_t count);

/* Returns false if tsr__store_expect does nothing, so that the caller need not collect wishes. */
bool tsr__store_expects(const tsr_store *store);

/* Reads `size` bytes. Fails with TSR_CORRUPT if the range does not lie within the file. */
int tsr__store_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);

/* As tsr__store_open_sized with TSR_SIZE_UNKNOWN. If the file has at most `most` bytes, it is read into memory as by
 * tsr__store_keep_file, into the arena if that is not NULL, and file->kept is set. */
int tsr__store_open_small(tsr_store *store, const char *path, uint64_t most, tsr_arena *arena, tsr_file **file,
                          tsr_error *error);

/* Reads a whole open file into memory and closes it. *file becomes a file that is read from that memory. `arena`: as for
 * tsr__store_open_small. */
int tsr__store_keep_file(tsr_file **file, tsr_arena *arena, tsr_error *error);

/* Appends a whole file to `buffer`. Fails with TSR_TOOBIG if the file has more than `most` bytes. */
int tsr__store_read_all(tsr_store *store, const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);

/* Creates an empty file for appending. Fails with TSR_EXISTS if anything has this path. */
int tsr__store_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
int tsr__store_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error);
int tsr__store_sync(tsr_file *file, tsr_error *error);

/* Writes a new file, which appears complete or not at all. Fails with TSR_EXISTS if anything has this path. `durable`:
 * its bytes are on the disk before it appears; its name is there after tsr__store_sync_directory, as after a rename. */
int tsr__store_put_new(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable,
                       tsr_error *error);

/* Locks a file that create_exclusive has made. The file stays locked until it is closed, or until the process dies: the
 * operating system releases the lock then. TSR_UNSUPPORTED where the store or the file system has no locks. */
int tsr__store_lock(tsr_file *file, tsr_error *error);

/* Returns false if no file of the store can be locked. */
bool tsr__store_has_locks(const tsr_store *store);

/* Says whether a file, opened by open_file, is locked through another tsr_file, of this process or another one.
 * TSR_UNSUPPORTED where that cannot be known. */
int tsr__store_locked(tsr_file *file, bool *locked, tsr_error *error);

/* Reads the size and the time of the last change of a file. Returns 1 on success and 0 if files of this store always
 * appear complete, so that there is nothing to look at. Fails with TSR_NOT_FOUND if the file does not exist. */
int tsr__store_look(tsr_store *store, const char *path, tsr_look *look, tsr_error *error);

/* Call it when bytes of a file cannot be decoded. They may have been changed on the way from a server: then the store
 * forgets what it has fetched and returns true, and the caller asks for them again, once, before that is an error. Any
 * thread may call it. */
bool tsr__store_doubt(tsr_store *store);

/* Returns true if a file with this path can be opened. Use it only where a wrong "false" after a failure does no
 * harm. */
bool tsr__store_exists(tsr_store *store, const char *path);

/* Each says whether a file or a directory exists. A failure of memory or of the disk is an error. */
int tsr__store_find(tsr_store *store, const char *path, bool *exists, tsr_error *error);
int tsr__directory_find(tsr_store *store, const char *path, bool *exists, tsr_error *error);

/* ---- Directories ----------------------------------------------------------------------------- */

/* Lists a directory. Fails with TSR_NOT_FOUND if the directory does not exist, and with TSR_PERM if an entry is a
 * symbolic link that is not followed, because the files behind it would be missing silently. */
int tsr__store_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);

/* As tsr__store_list, but symbolic links that are not followed are listed as TSR_ENTRY_OTHER. */
int tsr__store_list_any(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);

/* Lists several directories, in this order or all at once, each as tsr__store_list does. A directory that does not exist
 * has an empty listing marked `missing`. stamps[i] is equal to a later stamp of the directory only if it has not changed
 * since it was listed. On an error there are no listings to release. */
int tsr__store_list_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings,
                         tsr_stamp *stamps, tsr_error *error);

void tsr__listing_release(tsr_listing *listing);

/* Returns the entry with this name of a listing of tsr__store_list or tsr__store_list_any, or NULL. */
const tsr_entry *tsr__listing_find(const tsr_listing *listing, const char *name);
bool tsr__listing_has(const tsr_listing *listing, const char *name);

/* Reads a directory's stamp. A directory that does not exist has a stamp, too. */
int tsr__store_stamp(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error);

/* Reads the stamps of several directories. */
int tsr__store_stamp_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_stamp *stamps,
                          tsr_error *error);

/* Returns true if both stamps are known and equal: the directory has not changed between them. */
bool tsr__same_stamp(const tsr_stamp *a, const tsr_stamp *b);

/* Reads the time of the last change of a file or directory, in milliseconds since 1970. */
int tsr__store_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error);

/* Returns the present by the clock that gives files their times, as far as that is known, in milliseconds since 1970. */
uint64_t tsr__store_now(tsr_store *store);

int tsr__store_sync_directory(tsr_store *store, const char *path, tsr_error *error);

/* Syncs several files and directories. With `threads` > 1 it syncs them concurrently if the store allows that: a file
 * system then writes them to the disk in fewer transactions. */
int tsr__store_sync_all(tsr_store *store, tsr_file *const *files, uint64_t file_count, const char *const *directories,
                        uint64_t directory_count, unsigned threads, tsr_error *error);

/* Renames a file or directory; the exclusive form fails with TSR_EXISTS if anything has the path `to`. */
int tsr__store_rename(tsr_store *store, const char *from, const char *to, tsr_error *error);
int tsr__store_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error);
int tsr__store_exchange(tsr_store *store, const char *one, const char *other, tsr_error *error);

/* Removes a file, an empty directory, or a symbolic link itself. */
int tsr__store_remove(tsr_store *store, const char *path, tsr_error *error);

/* Removes several files, in this order or all at once. A file that does not exist is no error. After an error some of
 * the files may remain. */
int tsr__store_remove_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);

/* Removes a file, a directory with everything in it, or a symbolic link itself. It follows no link. A path that does not
 * exist is no error. */
int tsr__store_remove_tree(tsr_store *store, const char *path, tsr_error *error);
int tsr__store_remove_trees(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error);

/* Ends uploads of large files that were begun before a time (in milliseconds since 1970) and not ended since. */
int tsr__store_end_uploads(tsr_store *store, uint64_t before, tsr_error *error);

/* Returns the bytes of new files that the store keeps on this machine until they get their names, or a little longer. */
uint64_t tsr__store_unsent(tsr_store *store);

/* Makes a directory. Fails with TSR_EXISTS if anything has this path. The parent must exist, but missing parents of the
 * root are made. */
int tsr__store_make_directory(tsr_store *store, const char *path, tsr_error *error);

/* Makes a directory as tsr__store_make_directory does, for files that are written before their directory gets its name
 * by a rename. The store may keep such a directory where no other process sees it, and may fail in the rename for what
 * it could not write. Whoever made the directory renames or removes it through the same store. */
int tsr__store_make_provisional(tsr_store *store, const char *path, tsr_error *error);

/* Fails with TSR_PERM if `path` is a symbolic link. Call before any recursive delete: the target may lie outside the
 * array. */
int tsr__store_own(tsr_store *store, const char *path, tsr_error *error);

/* A store whose files the host keeps, such as the database of an SQLite connection. The host's callbacks
 * are those of tsr_host_store in tessera.h. */

typedef struct tsr_store tsr_store;

/* Opens the host's tree with the given path, which begins with the host's scheme. `host` is borrowed, `argument` is
 * passed to its callbacks. The store's root is the directory `below` of the tree, which is borrowed; NULL: the tree's
 * root. The caller closes *store with tsr__store_close. */
int tsr__store_host_open(tsr_memory *memory, const tsr_host_store *host, void *argument, const char *path,
                         const char *below, tsr_store **store, tsr_error *error);

/* A store in a directory of the file system. */

typedef struct tsr_store tsr_store;

/* Opens the tree below the directory `path`, without looking at the directory, which need not exist. A relative path
 * starts at the current directory of this moment. The caller closes *store with tsr__store_close. */
int tsr__store_posix_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);

/* Returns true if the path, which does not end in '/', is itself a symbolic link. */
bool tsr__path_is_link(const char *path);

/* A store whose files are the objects below a prefix of a bucket (store_s3.c). */

/* The name of the object by which one of several processes claims a prefix, to make an array or a group there. */
#define TSR_S3_CLAIM ".created"

/* Returns true for the name of an object by which a process tries whether the server honours conditions. One that stays
 * was left by a process that was killed meanwhile. */
static inline bool tsr__s3_is_proof(const char *name) {
  return strncmp(name, TSR_S3_PROOF, sizeof TSR_S3_PROOF - 1) == 0;
}

/* Opens the store at "s3://bucket/prefix". Nothing is sent, and nothing need exist there. `scopes` outlives the store.
 * Errors: those of tsr__s3_open. */
int tsr__store_s3_open(tsr_s3_scopes *scopes, tsr_memory *memory, const char *uri, tsr_store **store, tsr_error *error);

#endif
