/* group.h: what a group holds, the content of the generic tile in __group/NAME. */
#ifndef TSR_GROUP_H
#define TSR_GROUP_H

#include "base/input.h"
#include "base/memory.h"

typedef struct tsr_member {
  char *uri;
  char *name;
  bool is_array, relative, named, deleted;
} tsr_member;

typedef struct tsr_members {
  uint32_t version; /* of the file: 1 or 2 */
  uint64_t count;
  tsr_member *members;
} tsr_members;

/* The members of one file, in file order: all members (version 1, the newest file counts) or changes (version 2). */
int tsr__group_decode(tsr_input *in, tsr_arena *arena, tsr_members *members, tsr_error *error);

/* Appends a file of changes, version 2. */
int tsr__group_encode(const tsr_members *members, tsr_buffer *out, tsr_error *error);

#endif
