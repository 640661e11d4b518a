/* array.h: an open array: its structure, which all folders above this one share, and how it finds its schemas and
 * enumerations. The public functions tsr_array_* open and close it.
 */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include <stdatomic.h>

#include "base/map.h"
#include "crypto/crypto.h"
#include "model/domain.h"
#include "format/generic_tile.h"
#include "array/pending.h"

typedef struct tsr_cache tsr_cache;
typedef struct tsr_commit_file tsr_commit_file;
typedef struct tsr_commit_listing tsr_commit_listing;

typedef struct tsr_array_key {
  bool given; /* false: the array is not encrypted */
  uint8_t bytes[TSR_KEY_SIZE];
} tsr_array_key;

/* Values of the store's counters when they were last added to the environment's, or reset (environment.c). */
typedef struct tsr_counted {
  uint64_t files, bytes, directories;
} tsr_counted;

typedef struct tsr_array_host { /* what the host decides about prepared commits; NULL function: none counts */
  /* Returns 1 if a prepared commit counts, 0 if not, < 0 on an error. */
  int (*committed)(void *argument, const char *commit, tsr_error *error);
  void *argument;
} tsr_array_host;

typedef struct tsr_array_schemas { /* array.c loads them when they are first needed */
  tsr_map by_name; /* -> schema_entry; kept until the array is closed */
  char *pending; /* name of the schema, if the array was opened before its creation was published; else NULL */
} tsr_array_schemas;

typedef struct tsr_commit_files { /* decoded files of __commits and of consolidated footers (commit_file.c) */
  tsr_map by_path; /* -> tsr_commit_file */
  tsr_commit_file *outdated; /* a list of files that have changed on disk; the last listing points into them */
  uint64_t fresh_until; /* tsr__moment until which each statement checks lists that were read lately for changes */
} tsr_commit_files;

typedef struct tsr_registry { /* of the listed fragments that have been needed (fragment.c) */
  tsr_map fragments; /* name -> tsr_fragment */
  _Atomic uint64_t kept_bytes; /* size of the fragments' metadata files in memory, in bytes */
  /* The bytes that one fragment's metadata file in memory and its decoded metadata took: others need about as much. */
  _Atomic uint64_t kept_room;
  uint64_t metadata_room;
} tsr_registry;

typedef struct tsr_open_files { /* data files of fragments, most recently used first (fragment.c) */
  struct tsr_open_file *newest, *oldest;
  uint64_t count;
  uint64_t epoch; /* counts up when no file is in use */
} tsr_open_files;

#define TSR_SNAPSHOTS_KEPT 4 /* snapshots that an array keeps for sharing */

typedef struct tsr_array_opening { /* the listing of an array that was just opened, if listing is a request */
  uint64_t schemas, commits; /* tsr__moment of it, until somebody uses its schemas or its commits; else 0 */
  uint64_t changes; /* tsr__store_process_changes before it */
  bool extended; /* `commits` was set anew after an estimate, which may have opened many fragments */
} tsr_array_opening;

typedef struct tsr_array_snapshots { /* what snapshots of the array share (snapshot.c) */
  tsr_snapshot *recent[TSR_SNAPSHOTS_KEPT]; /* snapshots that may be shared; newest first */
  uint64_t pruned; /* generation of the listing whose predecessors' snapshots and fragments were dropped */
  tsr_map conditions; /* name -> condition_entry; decoded when first needed, kept until the array is closed */
  uint64_t frozen; /* time as of which snapshots of the present are made, in milliseconds since 1970; 0: the clock */
  uint64_t frozen_generation; /* generation of the listing when the array was frozen */
} tsr_array_snapshots;

struct tsr_array {
  tsr_environment *environment;
  tsr_array *next; /* in environment->arrays */
  tsr_store *store; /* owned */
  char *path; /* for messages and rowids */
  tsr_commit_listing *listing; /* the last one */
  tsr_cache *cache;
  bool uncached; /* decoded tiles do not go to the cache: each is needed once */
  unsigned threads; /* at most so many threads work for one statement, the caller's included */
  tsr_memory memory; /* pays for all that the array keeps */
  tsr_counted counted;
  tsr_array_key key;
  tsr_array_host host;
  tsr_array_schemas schemas;
  tsr_commit_files commit_files;
  tsr_registry registry;
  tsr_open_files open_files;
  tsr_array_snapshots snapshots;
  tsr_array_opening opening;
  uint64_t undoubled; /* digest of the vacuum files by which no cells are doubled (doubled.c) */
  bool unseen; /* `settled` is in a bucket, and no listing has shown it yet */
  char settled[TSR_COMMIT_PATH]; /* the last commit that a writer of this array has published, and that has no marker */
};

/* Returns the key, or NULL if the array is not encrypted. */
static inline const uint8_t *tsr__array_key(const tsr_array *array) {
  return array->key.given ? array->key.bytes : NULL;
}

/* Opens the store that `text` names: a directory (a path, or a file:// URI, whose percent-escapes are decoded), or a
 * tree of one of the host's stores. *path: the directory or tree without the parts that only URIs have and without
 * slashes at its end; the caller frees it (tsr__free) and closes the store. `noun` names the object in messages:
 * "array". */
int tsr__path_open(tsr_environment *environment, const char *noun, const char *text, char **path, tsr_store **store,
                   tsr_error *error);

/* Opens the store of a directory. The store stays within the environment's bound. */
int tsr__directory_open(tsr_environment *environment, const char *directory, tsr_store **store, tsr_error *error);

/* Opens the array in a store and takes the store over: it closes the store, also on an error. `path` is used in
 * messages and to identify the array's rowids. */
int tsr__array_open_store(tsr_environment *environment, tsr_store *store, const char *path,
                          const tsr_array_options *options, tsr_array **array, tsr_error *error);

/* Returns true if a listing of the array's opening, at `moment`, is that of the present: it is younger than 100 ms, and
 * this process has changed nothing since. */
bool tsr__array_just_opened(const tsr_array *array, uint64_t moment);

/* Opens the store of a directory below an array at `path`, and sets `full`, which is empty before, to that directory's
 * path with a NUL. TSR_PERM: `below` is not a path within the array. */
int tsr__store_open_below(tsr_environment *environment, const char *path, const char *below, tsr_buffer *full,
                          tsr_store **store, tsr_error *error);

/* Opens the array in a directory below an open array, with that array's key: a dimension label's. `below` is the
 * directory's path within the array. The caller closes *out by tsr_array_close. */
int tsr__array_open_below(const tsr_array *array, const char *below, tsr_array **out, tsr_error *error);

/* Gives the schema in the schema file `name`, loading it the first time. The schema is borrowed until the array is
 * closed. */
int tsr__array_schema_by_name(tsr_array *array, const char *name, const tsr_schema **schema, tsr_error *error);

/* Gives the grid of space tiles of a dense schema, borrowed until the array is closed. */
int tsr__array_grid(tsr_array *array, const tsr_schema *schema, const tsr_grid **grid, tsr_error *error);

/* Gives the directory of schemas and enumerations. It is not yet __schema while the creation of the array is not
 * published. */
int tsr__array_schema_directory(const tsr_array *array, char path[160], tsr_error *error);

/* Returns TSR_ERROR if the creation of the array is not published yet. */
int tsr__array_committed(const tsr_array *array, tsr_error *error);

/* Returns the format version of a schema; 0 if the schema has not been loaded. */
uint32_t tsr__array_schema_version(const tsr_array *array, const char *name);

/* Gives the schema that is in force at the time `as_of`, in milliseconds since 1970, by the last listing. */
int tsr__array_schema_at(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);

/* Returns TSR_OK if the last listing has the schema. If not, another array has replaced this one: TSR_ERROR. */
int tsr__array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error);

/* Read a file that is one generic tile and append its content, at most `most` bytes. A file that TileDB may still be
 * writing is read again for a short while (patience.c). `header` may be NULL. */
int tsr__read_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                   tsr_generic_tile *header, tsr_error *error);
int tsr__array_read_tile(tsr_array *array, const char *path, uint64_t most, tsr_buffer *content,
                         tsr_generic_tile *header, tsr_error *error);

/* Returns TSR_CORRUPT for TSR_AUTH, also in `error`, else `code`. The key was found right when the array was opened, so
 * a file that does not authenticate later is damaged. */
int tsr__array_damage(int code, tsr_error *error);

#endif
