/* group.c: the members of a group, the content of the generic tile in __group/NAME.
 *
 *   u32 version, 1 or 2 | u64 count | members: u32 version, 1 or 2 | u8 type (1 group, 2 array) | u8 relative
 *   | u64 length, URI | u8 named | where named: u64 length, name | from member version 2 on: u8 deleted
 *
 * A file of version 1 lists all members, and only the newest file counts. A file of version 2 has changes: all files
 * are applied in the order of their names, and a removed member is an entry with `deleted` set. URIs are not escaped;
 * relative URIs start from the group's directory. Decoding requires that types are known, that names and URIs contain
 * no NUL, and that URIs are not empty.
 */
#include "format/group.h"

#include "format/layout.h"

#include <string.h>

#define MEMBER_MIN 15 /* bytes of the smallest member */

static int group_read_text(tsr_input *in, uint64_t size, tsr_arena *arena, char **text, tsr_error *error) {
  const uint8_t *bytes = tsr__input_take(in, size);
  TSR_TRY(tsr__input_check(in, "it", error));
  if (memchr(bytes, 0, size))
    return tsr__fail(error, TSR_CORRUPT, "NUL byte before byte %llu", (unsigned long long)in->at);
  TSR_TRY(TSR_ARENA_COPY(arena, bytes, size, text, error));
  return TSR_OK;
}

static int read_member(tsr_input *in, tsr_arena *arena, tsr_member *member, tsr_error *error) {
  uint32_t version = tsr__input_u32(in);
  uint8_t type = tsr__input_u8(in), relative = tsr__input_u8(in);
  TSR_TRY(tsr__input_check(in, "it", error));
  if (version < TSR_GROUP_LISTS_MEMBERS || version > TSR_GROUP_LISTS_CHANGES)
    return tsr__fail(error, TSR_UNSUPPORTED, "version %u is unknown", version);
  if (type < 1 || type > 2) return tsr__fail(error, TSR_CORRUPT, "type %u is neither group nor array", type);
  member->is_array = type == 2;
  member->relative = relative != 0;
  TSR_TRY(group_read_text(in, tsr__input_u64(in), arena, &member->uri, error));
  if (!member->uri[0]) return tsr__fail(error, TSR_CORRUPT, "its URI is empty");
  member->named = tsr__input_u8(in) != 0;
  TSR_TRY(group_read_text(in, member->named ? tsr__input_u64(in) : 0, arena, &member->name, error));
  if (version >= TSR_GROUP_LISTS_CHANGES) member->deleted = tsr__input_u8(in) != 0;
  return tsr__input_check(in, "it", error);
}

static int read_members(tsr_input *in, tsr_arena *arena, tsr_members *members, tsr_error *error) {
  uint32_t version = members->version = tsr__input_u32(in);
  members->count = tsr__input_u64(in);
  TSR_TRY(tsr__input_check(in, "it", error));
  if (version < TSR_GROUP_LISTS_MEMBERS || version > TSR_GROUP_LISTS_CHANGES)
    return tsr__fail(error, TSR_UNSUPPORTED, "version %u is unknown", version);
  if (!tsr__input_fits(in, members->count, MEMBER_MIN))
    return tsr__fail(error, TSR_CORRUPT, "%llu members do not fit into %llu bytes", (unsigned long long)members->count,
                     (unsigned long long)tsr__input_left(in));
  TSR_TRY(TSR_ARENA_ARRAY(arena, members->count, &members->members, error));
  for (uint64_t i = 0; i < members->count; i++) {
    int rc = read_member(in, arena, members->members + i, error);
    if (rc < 0) {
      tsr__wrap(error, "member %llu", (unsigned long long)i);
      return rc;
    }
  }
  if (tsr__input_left(in))
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes follow its end", (unsigned long long)tsr__input_left(in));
  return TSR_OK;
}

int tsr__group_decode(tsr_input *in, tsr_arena *arena, tsr_members *members, tsr_error *error) {
  tsr_members all = {0};
  int rc = read_members(in, arena, &all, error);
  if (rc < 0) tsr__wrap(error, "group");
  else *members = all;
  return rc;
}

static int group_write_text(tsr_buffer *out, const char *text, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u64(out, strlen(text), error));
  return tsr__buffer_append(out, text, strlen(text), error);
}

static int write_member(const tsr_member *member, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, TSR_GROUP_LISTS_CHANGES, error));
  TSR_TRY(tsr__buffer_append_u8(out, member->is_array ? 2 : 1, error));
  TSR_TRY(tsr__buffer_append_u8(out, member->relative, error));
  TSR_TRY(group_write_text(out, member->uri, error));
  TSR_TRY(tsr__buffer_append_u8(out, member->named, error));
  if (member->named) TSR_TRY(group_write_text(out, member->name, error));
  return tsr__buffer_append_u8(out, member->deleted, error);
}

int tsr__group_encode(const tsr_members *members, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = tsr__buffer_append_u32(out, TSR_GROUP_LISTS_CHANGES, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(out, members->count, error);
  for (uint64_t i = 0; i < members->count && rc >= 0; i++) rc = write_member(members->members + i, out, error);
  if (rc < 0) out->size = before;
  return rc;
}
