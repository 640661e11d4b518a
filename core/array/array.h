/* array.h: an open array: its structure, which all folders above this one share, and how it finds its schemas and
 * enumerations. The public functions tsr_array_* open and close it.
 */
#ifndef TSR_ARRAY_ARRAY_H
#define TSR_ARRAY_ARRAY_H

#include <stdatomic.h>

#include "base/map.h"
#include "crypto/crypto.h"
#include "model/domain.h"
#include "format/generic_tile.h"
#include "environment/environment.h"
#include "log/log.h"
#include "store/store.h"
#include "format/group.h"

typedef struct tsr_cache tsr_cache;

typedef struct tsr_array_key {
  bool given; /* false: the array is not encrypted */
  uint8_t bytes[TSR_KEY_SIZE];
} tsr_array_key;

typedef struct tsr_array_schemas { /* array.c loads them when they are first needed */
  tsr_map by_name; /* -> schema_entry; kept until the array is closed */
} tsr_array_schemas;

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
  uint64_t frozen_generation; /* generation of the listing when the array was frozen */
} tsr_array_snapshots;

struct tsr_array {
  tsr_environment *environment;
  tsr_array *next; /* in environment->arrays */
  tsr_store *store; /* owned */
  char *path; /* for messages and rowids */
  tsr_log log; /* which commits it has */
  tsr_cache *cache;
  bool uncached; /* decoded tiles do not go to the cache: each is needed once */
  unsigned threads; /* at most so many threads work for one statement, the caller's included */
  tsr_memory memory; /* pays for all that the array keeps */
  tsr_store_counted counted;
  tsr_array_key key;
  tsr_array_schemas schemas;
  tsr_registry registry;
  tsr_open_files open_files;
  tsr_array_snapshots snapshots;
  tsr_array_opening opening;
};

/* Returns the key, or NULL if the array is not encrypted. */
static inline const uint8_t *tsr__array_key(const tsr_array *array) {
  return array->key.given ? array->key.bytes : NULL;
}

/* Opens the array in a store and takes the store over: it closes the store, also on an error. `path` is used in
 * messages and to identify the array's rowids. */
int tsr__array_open_store(tsr_environment *environment, tsr_store *store, const char *path,
                          const tsr_array_options *options, tsr_array **array, tsr_error *error);

/* Returns true if a listing of the array's opening, at `moment`, is that of the present: it is younger than 100 ms, and
 * this process has changed nothing since. */
bool tsr__array_just_opened(const tsr_array *array, uint64_t moment);

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

/* Reads a file of the array that is one generic tile (tsr__read_tile). */
int tsr__array_read_tile(tsr_array *array, const char *path, uint64_t most, tsr_buffer *content,
                         tsr_generic_tile *header, tsr_error *error);

/* Open groups: their structure, and how their members are found from the files of __group.
 * define/metadata.c changes groups through it. */

typedef struct tsr_timed_files tsr_timed_files;

struct tsr_group {
  tsr_environment *environment;
  tsr_store *store;
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
};

/* Returns the key, or NULL if the group is not encrypted. */
const uint8_t *tsr__group_key(const tsr_group *group);

/* Returns the string that identifies a member in its group: its name, or its URI if it has no name. */
const char *tsr__member_key(const tsr_member *member);

/* Fills `map` (tsr__member_key -> tsr_member) with the members after all `files` have taken effect. If the newest file
 * lists all members (version 1), *alone is true and older files are not read, unless `all` is true. `arena` owns the
 * members. */
int tsr__group_apply(tsr_group *group, const tsr_timed_files *files, bool all, tsr_arena *arena, tsr_map *map,
                     bool *alone, tsr_error *error);

/* Opens the group in a store and takes the store over: it closes the store, also on an error. `path` is for
 * messages. */
int tsr__group_open_store(tsr_environment *environment, tsr_store *store, const char *path, const uint8_t *key,
                          tsr_group **group, tsr_error *error);

/* Reads the metadata of an array or a group between two times. The entries of all files of __meta in
 * view take effect in the order of the files' times; the last entry of a key counts, and may remove the key. */

/* Reads the metadata in the store's __meta. `since` and `as_of` are inclusive, in milliseconds since 1970. The caller
 * frees *metadata with tsr_metadata_close. */
int tsr__metadata_open(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint64_t since,
                       uint64_t as_of, tsr_metadata **metadata, tsr_error *error);

/* Finds out whether a directory is an array or a group. group.c also lists the arrays and groups below a
 * directory (tsr_objects_open). */

/* Gives the kind of the object at a path of a store; "" is the store's root. If the disk does not answer, that is an
 * error, not TSR_OBJECT_NONE. */
int tsr__object_kind(tsr_store *store, const char *path, tsr_object_kind *kind, tsr_error *error);

#endif
