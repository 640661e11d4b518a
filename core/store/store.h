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

#include "store/store_bounds.h"

typedef struct tsr_file tsr_file;
typedef struct tsr_look tsr_look;
typedef struct tsr_stamp tsr_stamp;
typedef struct tsr_store tsr_store;
typedef struct tsr_store_methods tsr_store_methods;

void tsr__listing_release(tsr_listing *listing);
bool tsr__listing_has(const tsr_listing *listing, const char *name); /* one of tsr__store_list, which sorts them */

/* For the kinds: a zeroed structure of `size` bytes that begins with a tsr_store, all set but what workers may do and
 * is_one_file, one block for tsr__free. */
int tsr__store_allocate(const tsr_store_methods *methods, tsr_memory *memory, const char *name, uint64_t size,
                        void **store, tsr_error *error);

/* For the methods: a zeroed file structure of `size` bytes that begins with a tsr_file, store and path set, one block
 * for tsr__free. tsr_listing_add adds to a listing. */
int tsr__file_allocate(tsr_store *store, const char *path, uint64_t size, void **file, tsr_error *error);
void tsr__store_close(tsr_store *store); /* after its files; NULL is fine */
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

/* The same where links that are not followed are no trouble; the first refuses them (TSR_PERM): what they stand for
 * would be missing without a word. */
int tsr__store_list_any(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error);
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
