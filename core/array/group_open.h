/* group_open.h: open groups: their structure, and how their members are found from the files of __group.
 * define/metadata.c changes groups through it. */
#ifndef TSR_GROUP_OPEN_H
#define TSR_GROUP_OPEN_H

#include "base/map.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "format/group.h"

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

#endif
