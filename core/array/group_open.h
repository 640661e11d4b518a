/* group_open.h: groups: opened, their members and metadata between two times. */
#ifndef TSR_GROUP_OPEN_H
#define TSR_GROUP_OPEN_H

#include "base/map.h"
#include "crypto/crypto.h"
#include "store/store_bounds.h"
#include "format/group.h"

typedef struct tsr_timed_files tsr_timed_files;

struct tsr_group {
  tsr_environment *environment;
  tsr_store *store;
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
};

const uint8_t *tsr__group_key(const tsr_group *group);
const char *tsr__member_key(const tsr_member *member); /* its name, or its URI if it has none */

/* The members that files of __group make, by key; `all`: also what stands before a newest file that counts alone
 * (*alone says that there is one). Memory comes from `arena`. */
int tsr__group_apply(tsr_group *group, const tsr_timed_files *files, bool all, tsr_arena *arena, tsr_map *map,
                     bool *alone, tsr_error *error);

/* Opens the group in a store, which it closes, also if it fails. */
int tsr__group_open_store(tsr_environment *environment, tsr_store *store, const char *path, const uint8_t *key,
                          tsr_group **group, tsr_error *error);

#endif
