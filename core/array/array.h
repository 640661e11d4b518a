/* array.h: open and close, schemas, enumerations. */
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

#define TSR_SNAPSHOTS_KEPT 4

struct tsr_array {
  tsr_environment *environment;
  tsr_array *next; /* environment->arrays */
  uint64_t counted_files, counted_bytes; /* of the store's counters: before the last reset */
  tsr_memory memory;
  tsr_store *store;
  char *path;
  char *pending; /* the schema's name, of an array that was opened before it was published; else NULL */
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
  unsigned threads;
  bool uncached; /* decoded tiles are not kept: each is needed once */
  tsr_cache *cache;
  tsr_map schemas; /* name -> struct tsr_schema_entry, each loaded when first needed, kept until the end */
  tsr_map conditions; /* name -> struct tsr_condition_entry, the same */
  tsr_map files; /* path -> tsr_commit_file: what has been decoded of __commits and of consolidated footers */
  struct tsr_commit_file *outdated; /* read anew since; the last listing points into them */
  uint64_t fresh_until; /* tsr__moment until which lists that were just read are looked at by each statement */
  struct tsr_commit_listing *listing; /* the last one */
  tsr_map fragments; /* name -> tsr_fragment: those that are listed and have been needed */
  struct tsr_open_file *newest_file, *oldest_file; /* fragment.c: open files, most recently used first */
  uint64_t open_files, file_epoch;
  _Atomic uint64_t kept_bytes; /* of metadata files in memory */
  uint64_t pruned; /* the listing's generation when the registry was last pruned */
  int (*committed)(void *argument, const char *commit, tsr_error *error); /* asked of prepared commits, or NULL */
  void *committed_argument;
  uint64_t frozen; /* the clock of the moment at which snapshots stand still; 0: they do not */
  uint64_t frozen_generation; /* of the listing then */
  tsr_snapshot *recent[TSR_SNAPSHOTS_KEPT]; /* for the next who asks for the same; newest first */
};

static inline const uint8_t *tsr__array_key(const tsr_array *array) { return array->has_key ? array->key : NULL; }

/* The store that `text` means: a directory (a path, or a file:// URI whose percent-escapes are decoded), or a tree of the
 * host's. `path` is the same without what only URIs have and without a slash at its end; for tsr__free. `noun` is what
 * is looked for there: "array". */
int tsr__path_open(tsr_environment *environment, const char *noun, const char *text, char **path, tsr_store **store,
                   tsr_error *error);

/* The store of a directory, within the environment's bound. */
int tsr__directory_open(tsr_environment *environment, const char *directory, tsr_store **store, tsr_error *error);

/* Opens the array in a store, which it closes, also if it fails. `path` is for messages and rowids. */
int tsr__array_open_store(tsr_environment *environment, tsr_store *store, const char *path,
                          const tsr_array_options *options, tsr_array **array, tsr_error *error);

/* A schema by its file's name, loaded once; borrowed until the array is closed. */
int tsr__array_schema_by_name(tsr_array *array, const char *name, const tsr_schema **schema, tsr_error *error);

/* The geometry of a dense schema; borrowed as long. */
int tsr__array_grid(tsr_array *array, const tsr_schema *schema, const tsr_grid **grid, tsr_error *error);

/* The directory of schemas and enumerations: not __schema yet, as long as the array is pending. */
int tsr__array_schema_directory(const tsr_array *array, char path[160], tsr_error *error);

/* TSR_ERROR for an array whose creation is not published yet. */
int tsr__array_committed(const tsr_array *array, tsr_error *error);

/* The format version of a schema that has been decoded; 0: it has not. */
uint32_t tsr__array_schema_version(const tsr_array *array, const char *name);

/* The schema in force at `as_of` by the last listing. */
int tsr__array_schema_at(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);

/* Is that schema among the last listing's? If not, another array stands at the path. */
int tsr__array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error);

/* A file that is one generic tile: appends its content. One that TileDB may still be writing is waited for (patience.c). */
int tsr__read_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                   tsr_generic_tile *header, tsr_error *error);
int tsr__array_read_tile(tsr_array *array, const char *path, uint64_t most, tsr_buffer *content,
                         tsr_generic_tile *header, tsr_error *error);

/* The key has been proven when the array was opened: a tag that fails later is damage. Gives TSR_CORRUPT for TSR_AUTH,
 * else `code`. */
int tsr__array_damage(int code, tsr_error *error);

#endif
