/* store.h: where bytes live. A store is one directory tree, the root of one array or group; every path is relative to
 * it, so nothing that an array file says can lead out of it. store_posix.c is a directory, store_memory.c its twin for
 * tests and fuzzers, store_host.c a tree that the host keeps.
 *
 * Paths: parts separated by '/', no part empty, "." or ".."; "" is the root. Anything else is refused by the front
 * (store.c). Messages name full paths. Writing: a file appears by create_exclusive, grows by append, is durable after
 * sync of it and of its directory; nothing is ever overwritten in place.
 */
#ifndef TSR_STORE_H
#define TSR_STORE_H

#include "base.h"

typedef struct tsr_store tsr_store;
typedef struct tsr_file tsr_file;

typedef struct tsr_entry {
  char *name;
  tsr_entry_kind kind;
} tsr_entry;
/* A listing, sorted by name as bytes. `= {0}`; release frees. */
struct tsr_listing {
  tsr_memory *memory;
  tsr_entry *entries;
  uint64_t count;
};
void tsr__listing_release(tsr_listing *listing);
bool tsr__listing_has(const tsr_listing *listing, const char *name); /* one of tsr__store_list, which sorts them */

/* What a directory's listing looked like: two equal stamps with known = true mean that nothing was added or removed in
 * between. */
typedef struct tsr_stamp {
  bool known;
  uint64_t a, b, c;
} tsr_stamp;

/* A file's size and the time of its last change, by the clock of the file system, in nanoseconds since 1970. A file that
 * differs between two looks was written to in between. */
typedef struct tsr_look {
  uint64_t size;
  int64_t modified;
} tsr_look;

/* What a kind of store does. Paths are checked by then, ranges of reads too; messages say only what is wrong, the front
 * puts the full path before them. Out-parameters are set only on success. */
typedef struct tsr_store_methods {
  void (*close)(tsr_store *store);
  int (*open_file)(tsr_store *store, const char *path, tsr_file **file,
                   tsr_error *error); /* TSR_NOT_FOUND if there is none */
  void (*close_file)(tsr_file *file);
  /* all of size bytes, or an error; a read past the end is TSR_CORRUPT with path, offset and file size */
  int (*read_at)(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);
  int (*list)(tsr_store *store, const char *path, tsr_listing *listing,
              tsr_error *error); /* TSR_NOT_FOUND if no directory */
  int (*stamp)(tsr_store *store, const char *path, tsr_stamp *stamp,
               tsr_error *error); /* an absent directory has a stamp, too */
  int (*modified)(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error);
  int (*create_exclusive)(tsr_store *store, const char *path, tsr_file **file,
                          tsr_error *error); /* TSR_EXISTS if there is one */
  int (*append)(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error);
  int (*sync)(tsr_file *file, tsr_error *error);
  int (*sync_directory)(tsr_store *store, const char *path, tsr_error *error);
  int (*rename)(tsr_store *store, const char *from, const char *to, tsr_error *error);
  int (*rename_exclusive)(tsr_store *store, const char *from, const char *to, tsr_error *error); /* TSR_EXISTS */
  int (*remove)(tsr_store *store, const char *path,
                tsr_error *error); /* a file or an empty directory; symbolic links are not followed */
  int (*make_directory)(tsr_store *store, const char *path,
                        tsr_error *error); /* TSR_EXISTS; parents must exist, but the root's are made */
  bool (*is_link)(tsr_store *store, const char *path); /* NULL where there are no symbolic links */
  /* NULL where no other program writes: every file appears whole there. */
  int (*look)(tsr_store *store, const char *path, tsr_look *look, tsr_error *error);
  /* Locks: both NULL in a store that has none. See tsr__store_lock and tsr__store_locked. */
  int (*lock)(tsr_file *file, tsr_error *error);
  int (*locked)(tsr_file *file, bool *locked, tsr_error *error);
} tsr_store_methods;

struct tsr_store {
  const tsr_store_methods *methods;
  tsr_memory *memory;
  char *name; /* for messages: the root's path as it was given */
  bool workers_may_read; /* open_file, read_at and close_file may be called from worker threads */
  bool workers_may_sync; /* sync and sync_directory, too */
  bool is_one_file; /* what is read-only or busy is all of it: a database */
  _Atomic uint64_t files_opened, bytes_read; /* counted by the front */
};
struct tsr_file {
  tsr_store *store;
  char *path; /* relative */
  uint64_t size; /* when it was opened; grows with append */
  const uint8_t *kept; /* all its bytes, and nothing of the store's is open; or NULL */
};

/* For the kinds: a zeroed structure of `size` bytes that begins with a tsr_store, all set but what workers may do and
 * is_one_file, one block for tsr__free. */
int tsr__store_allocate(const tsr_store_methods *methods, tsr_memory *memory, const char *name, uint64_t size,
                        void **store, tsr_error *error);
/* For the methods: a zeroed file structure of `size` bytes that begins with a tsr_file, store and path set, one block
 * for tsr__free. tsr_listing_add adds to a listing. */
int tsr__file_allocate(tsr_store *store, const char *path, uint64_t size, void **file, tsr_error *error);

/* The directory `path` (not looked at yet, need not exist; a relative path is taken from the present directory). */
int tsr__store_posix_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);
/* An empty tree in memory. */
int tsr__store_memory_open(tsr_memory *memory, const char *name, tsr_store **store, tsr_error *error);
/* A tree of the host's (tessera.h), whose path begins with the scheme. */
int tsr__store_host_open(tsr_memory *memory, const tsr_host_store *host, void *argument, const char *path,
                         tsr_store **store, tsr_error *error);
void tsr__store_close(tsr_store *store); /* after its files; NULL is fine */

/* "DIRECTORY/NAME" with the suffix behind; the directory may be "", or end in '/'. */
typedef struct tsr_path {
  char text[640];
} tsr_path;
tsr_path tsr__path_of(const char *directory, const char *name, const char *suffix);

/* The front: checks paths (TSR_PERM for what is none), counts, sorts listings, puts the full path before errors;
 * otherwise as the methods. */
int tsr__store_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
void tsr__store_close_file(tsr_file *file); /* NULL is fine */
int tsr__store_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);
/* Takes an open file into memory, as it is now, and closes it: `*file` becomes one that is read as any other. */
int tsr__store_keep_file(tsr_file **file, tsr_error *error);
/* The whole file, appended to `buffer`; TSR_TOOBIG past `most` bytes. */
int tsr__store_read_all(tsr_store *store, const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);
int tsr__store_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);
int tsr__store_stamp(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error);
int tsr__store_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error);
int tsr__store_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error);
/* 1; 0 where the store has no such look, as all its files appear whole; TSR_NOT_FOUND. */
int tsr__store_look(tsr_store *store, const char *path, tsr_look *look, tsr_error *error);
int tsr__store_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error);
int tsr__store_sync(tsr_file *file, tsr_error *error);
/* Locks a file that create_exclusive has made. The file stays locked until it is closed, or until the process dies: the
 * operating system releases the lock then. TSR_UNSUPPORTED where the store or the file system has no locks. */
int tsr__store_lock(tsr_file *file, tsr_error *error);
/* Says whether a file, opened by open_file, is locked through another tsr_file, of this process or another one.
 * TSR_UNSUPPORTED where that cannot be known. */
int tsr__store_locked(tsr_file *file, bool *locked, tsr_error *error);
int tsr__store_sync_directory(tsr_store *store, const char *path, tsr_error *error);
/* The same for several files and directories; with `threads` > 1 all at once, as far as the store allows that: a file
 * system commits together what waits together. */
int tsr__store_sync_all(tsr_store *store, tsr_file *const *files, uint64_t file_count, const char *const *directories,
                        uint64_t directory_count, unsigned threads, tsr_error *error);
int tsr__store_rename(tsr_store *store, const char *from, const char *to, tsr_error *error);
int tsr__store_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error);
int tsr__store_remove(tsr_store *store, const char *path, tsr_error *error);
int tsr__store_make_directory(tsr_store *store, const char *path, tsr_error *error);
/* TSR_PERM for a symbolic link: what lies behind it may be somebody else's, who removes asks before. */
int tsr__store_own(tsr_store *store, const char *path, tsr_error *error);
bool tsr__store_exists(tsr_store *store,
                       const char *path); /* a file that can be opened: where not to know does no harm */
/* The same where a failure (of memory, of the disk) must not be taken for a file that is not there. */
int tsr__store_find(tsr_store *store, const char *path, bool *exists, tsr_error *error);
int tsr__directory_find(tsr_store *store, const char *path, bool *exists, tsr_error *error);

#endif
