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

typedef struct tsr_cache tsr_cache;
typedef struct tsr_commit_file tsr_commit_file;
typedef struct tsr_commit_listing tsr_commit_listing;

#define TSR_SNAPSHOTS_KEPT 4 /* snapshots that an array keeps for sharing */

struct tsr_array {
  tsr_environment *environment;
  tsr_array *next; /* in environment->arrays */
  uint64_t counted_files, counted_bytes; /* values of the store's counters when the environment's were last reset */
  tsr_memory memory; /* pays for all that the array keeps */
  tsr_store *store; /* owned */
  char *path; /* for messages and rowids */
  char *pending; /* name of the schema, if the array was opened before its creation was published; else NULL */
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
  unsigned threads; /* at most so many threads work for one statement, the caller's included */
  bool uncached; /* decoded tiles do not go to the cache: each is needed once */
  tsr_cache *cache;
  tsr_map schemas; /* name -> struct tsr_schema_entry; loaded when first needed, kept until the array is closed */
  tsr_map conditions; /* name -> struct tsr_condition_entry; the same */
  tsr_map files; /* path -> tsr_commit_file: decoded files of __commits and of consolidated footers */
  struct tsr_commit_file *outdated; /* decoded files that have changed on disk; the last listing points into them */
  uint64_t fresh_until; /* tsr__moment until which each statement checks lists that were read lately for changes */
  struct tsr_commit_listing *listing; /* the last one */
  tsr_map fragments; /* the registry: name -> tsr_fragment, of the listed fragments that have been needed */
  struct tsr_open_file *newest_file, *oldest_file; /* open data files, most recently used first (fragment.c) */
  uint64_t open_files, file_epoch; /* file_epoch: incremented when no file is in use (fragment.c) */
  _Atomic uint64_t kept_bytes; /* size of the metadata files in memory, in bytes */
  uint64_t pruned; /* generation of the listing for which the registry was last pruned */
  /* Returns 1 if the host says that a prepared commit counts, 0 if not, < 0 on an error. NULL: none counts. */
  int (*committed)(void *argument, const char *commit, tsr_error *error);
  void *committed_argument;
  uint64_t frozen; /* time as of which snapshots of the present are made, in milliseconds since 1970; 0: the clock */
  uint64_t frozen_generation; /* generation of the listing when the array was frozen */
  tsr_snapshot *recent[TSR_SNAPSHOTS_KEPT]; /* snapshots that may be shared; newest first */
};

/* Returns the key, or NULL if the array is not encrypted. */
static inline const uint8_t *tsr__array_key(const tsr_array *array) { return array->has_key ? array->key : NULL; }

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
