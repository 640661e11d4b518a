/* group.h: decodes and encodes the files of __group, which list the members of a group. Each file is one generic tile;
 * array/array.h reads the directory. */
#ifndef TSR_GROUP_H
#define TSR_GROUP_H

#include "base/input.h"
#include "base/memory.h"

typedef struct tsr_member {
  char *uri; /* as stored, not escaped */
  char *name; /* '' if `named` is false */
  bool is_array; /* false: a group */
  bool relative; /* `uri` is relative to the group's directory */
  bool named, deleted;
} tsr_member;

typedef struct tsr_members {
  uint32_t version; /* of the file: 1 or 2 */
  uint64_t count;
  tsr_member *members;
} tsr_members;

/* Decodes the content of one file. Members are in file order: all members of the group (version 1), or changes (version
 * 2). `arena` owns them. */
int tsr__group_decode(tsr_input *in, tsr_arena *arena, tsr_members *members, tsr_error *error);

/* Appends the content of a file of changes (version 2). On an error `out` is unchanged. */
int tsr__group_encode(const tsr_members *members, tsr_buffer *out, tsr_error *error);

#endif
