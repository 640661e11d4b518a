/* store_bounds.h: a directory that the stores of an environment may not leave. */
#ifndef TSR_STORE_BOUNDS_H
#define TSR_STORE_BOUNDS_H

#include <stdatomic.h>

#include "base/memory.h"

typedef struct tsr_file tsr_file;
typedef struct tsr_store tsr_store;
typedef struct tsr_bound tsr_bound;

typedef struct tsr_bounds { /* `= {0}`: there is none */
  _Atomic(const tsr_bound *) bound;
} tsr_bounds;

const tsr_bound *tsr__bounds_get(const tsr_bounds *bounds); /* NULL: there is none. Of any thread */

/* `directory` is a resolved path. What was set before stays until the release, for workers that are at it. */
int tsr__bounds_set(tsr_bounds *bounds, tsr_memory *memory, const char *directory, tsr_error *error);
void tsr__bounds_release(tsr_bounds *bounds);

/* TSR_PERM where the path does not lead below the bound's directory. `relative`, or NULL: what it leads to, from there,
 * for tsr__free; left as it is without a bound. */
int tsr__bound_permits(const tsr_bound *bound, tsr_memory *memory, const char *path, char **relative, tsr_error *error);

/* Goes down a path from the bound's directory on, to the directory that holds its last part, `name` (the bound's own is
 * "." in itself); nothing on the way may be a symbolic link (ELOOP). -1 and errno. Leaving closes it, and keeps errno. */
int tsr__bound_enter(const tsr_bound *bound, const char *path, const char **name);
void tsr__bound_leave(const tsr_bound *bound, int directory);
int tsr__bound_open(int directory, const char *name, int flags); /* as openat(), of no symbolic link (ELOOP) */

/* What a path leads to, for tsr__free: links and ".." are resolved, of what is not there yet as far as it is. */
int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error);
bool tsr__path_is_below(const char *path, const char *directory); /* both resolved */

typedef struct tsr_entry {
  char *name;
  tsr_entry_kind kind;
} tsr_entry;

/* A listing, sorted by name as bytes. `= {0}`; release frees. */
struct tsr_listing {
  tsr_memory *memory;
  tsr_entry *entries;
  uint64_t count;
  const char *link; /* NULL, or the name of one that is a symbolic link and not followed: a TSR_ENTRY_OTHER */
};

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
  const tsr_bounds *bounds; /* of directories: what they may not leave; or NULL */
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

/* "DIRECTORY/NAME" with the suffix behind; the directory may be "", or end in '/'. */
typedef struct tsr_path {
  char text[640];
} tsr_path;

#endif
