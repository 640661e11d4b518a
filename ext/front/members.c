/* members.c: walks a group: which arrays it has below it, and what their tables are called.
 *
 * A group lists its members by names and paths, which may lead anywhere, also in a circle. Each place is visited once.
 * What is missing, or outside of tessera_restrict, is noted as missing. Old writers made groups without lists of
 * members; of these, the arrays in the directories below count. */
#include "tessera_path.h"
#include "front/attach.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "definition/arguments.h"
#include "sql/names.h"
#include "table/table.h"

void tsx_members_forget(tsx_attachment *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    tsx_attach_table *table = &all->tables[i];
    sqlite3_free(table->member);
    sqlite3_free(table->path);
    sqlite3_free(table->name);
    sqlite3_free(table->options);
    sqlite3_free(table->problem);
    tsx_array_release(all->connection, table->array);
  }
  sqlite3_free(all->tables);
  all->tables = NULL;
  all->count = 0;
}

void tsx_attachment_free(tsx_attachment *all) {
  tsx_members_forget(all);
  sqlite3_free(all->root);
  tsx_wipe(all->key, sizeof all->key);
  *all = (tsx_attachment){0};
}

/* ---- The walk ---------------------------------------------------------------------------------------------------- */

typedef struct walk {
  tsx_attachment *all;
  char **visited; /* canonical paths of groups and arrays; owned */
  uint64_t visited_count, visited_room;
} walk;

int tsx_members_add(tsx_attachment *all, char *member, const char *path, bool missing, tsr_error *error) {
  tsx_attach_table *tables = NULL;
  char *copy = sqlite3_mprintf("%s", path);
  if (all->count >= all->options->tables) {
    sqlite3_free(member);
    sqlite3_free(copy);
    return tsx_fail(error, TSR_TOOBIG, "%s has more than %llu arrays: raise the option 'tables'", all->root,
                    (unsigned long long)all->options->tables);
  }
  if (member && copy) tables = sqlite3_realloc64(all->tables, (all->count + UINT64_C(1)) * sizeof *tables);
  if (!tables) {
    sqlite3_free(member);
    sqlite3_free(copy);
    return tsx_out_of_memory(error);
  }
  all->tables = tables;
  tables[all->count++] =
      (tsx_attach_table){.member = member, .path = copy, .missing = missing, .semantics = missing ? NULL : "plain"};
  return TSR_OK;
}

/* Returns true if an error would not be the same at the next attempt, or is not about one array or group. */
static bool members_may_pass(int code) {
  return code == TSR_NOMEM || code == TSR_IO || code == TSR_INTERRUPT || code == TSR_UNREACHABLE ||
         code == TSR_BUDGET || code == TSR_BUSY;
}

int tsx_members_fail(tsx_attach_table *table, tsr_error *error) {
  if (members_may_pass(error->code)) return error->code;
  char *problem = sqlite3_mprintf("%s", error->message);
  if (!problem) return tsx_out_of_memory(error);
  sqlite3_free(table->problem);
  table->problem = problem;
  table->missing = true;
  table->semantics = NULL;
  *error = (tsr_error){0};
  return TSR_OK;
}

/* Returns 1 on the first visit of a path, 0 on others, or an error. */
static int visit(walk *w, const char *path, tsr_error *error) {
  char *canonical = tsx_path_canonical(path);
  if (!canonical) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < w->visited_count; i++)
    if (!strcmp(w->visited[i], canonical)) {
      sqlite3_free(canonical);
      return 0;
    }
  if (w->visited_count == w->visited_room) {
    const uint64_t room = w->visited_room ? 2 * w->visited_room : 64;
    char **visited = sqlite3_realloc64(w->visited, room * sizeof *visited);
    if (!visited) {
      sqlite3_free(canonical);
      return tsx_out_of_memory(error);
    }
    w->visited = visited;
    w->visited_room = room;
  }
  w->visited[w->visited_count++] = canonical;
  return 1;
}

/* Returns the name of a member, which is its directory's if it has none, after those of the groups around it. */
static char *member_name(const char *around, const tsr_group_member *member) {
  const char *name = member->name;
  size_t end = strlen(member->path), first;
  while (end > 0 && member->path[end - 1] == '/') end--;
  for (first = end; first > 0 && member->path[first - 1] != '/';) first--;
  char *own = name ? tsx_name_text(name) : sqlite3_mprintf("%.*s", (int)(end - first), member->path + first);
  char *whole = own ? sqlite3_mprintf("%s%s%s", around, *around ? "/" : "", own) : NULL;
  sqlite3_free(own);
  return whole;
}

/* Gives what is at a member's path; NONE if nothing is, or if it may not be reached. A failure of a moment is an error:
 * if it passed for NONE, the table of the member would be dropped. */
static int kind_of(const walk *w, const tsr_group_member *member, tsr_object_kind *kind, tsr_error *error) {
  tsr_environment *environment = w->all->connection->environment;
  tsr_error fault = {0};
  *kind = TSR_OBJECT_NONE;
  int code = tsr_path_permitted(environment, member->path, &fault);
  if (code >= 0) code = tsr_object_find(environment, member->path, kind, &fault);
  if (code >= 0) return TSR_OK;
  *kind = TSR_OBJECT_NONE;
  if (!members_may_pass(code)) return TSR_OK;
  *error = fault;
  return code;
}

/* Adds an array that is in a directory below the group at `path`. */
static int walk_object(walk *w, const tsr_object *object, const char *path, const char *around, tsr_error *error) {
  const size_t length = strlen(path);
  if (object->kind != TSR_OBJECT_ARRAY || strncmp(object->path, path, length) != 0) return TSR_OK;
  const char *below = object->path + length;
  while (*below == '/') below++;
  if (!*below) return TSR_OK;
  const int first = visit(w, object->path, error);
  if (first <= 0) return first;
  char *name = tsx_name_text(below);
  char *member = name ? sqlite3_mprintf("%s%s%s", around, *around ? "/" : "", name) : NULL;
  sqlite3_free(name);
  return tsx_members_add(w->all, member, object->path, false, error);
}

/* Adds the arrays in the directories below a group that lists no members. */
static int walk_directories(walk *w, const char *path, const char *around, tsr_error *error) {
  tsr_objects *objects;
  TSX_TRY(tsr_objects_open(w->all->connection->environment, path, &objects, error));
  int code = TSR_OK;
  for (uint64_t i = 0; code >= 0 && i < objects->count; i++)
    code = walk_object(w, &objects->objects[i], path, around, error);
  tsr_objects_close(objects);
  return code;
}

static int walk_group(walk *w, const char *path, const char *around, uint64_t depth, tsr_error *error);

/* Walks a group that is a member, and takes over its name. A group that cannot be opened is a member with a problem. */
static int walk_inner(walk *w, const char *path, char *name, uint64_t depth, tsr_error *error) {
  tsr_error why = {0};
  const int code = walk_group(w, path, name, depth, &why);
  if (code >= 0 || code == TSR_TOOBIG) {
    sqlite3_free(name);
    if (code < 0) *error = why;
    return code;
  }
  TSX_TRY(tsx_members_add(w->all, name, path, true, error));
  const int noted = tsx_members_fail(&w->all->tables[w->all->count - 1], &why);
  if (noted < 0) *error = why;
  return noted;
}

static int walk_member(walk *w, const tsr_group_member *member, const char *around, uint64_t depth, tsr_error *error) {
  tsr_object_kind kind;
  TSX_TRY(kind_of(w, member, &kind, error));
  char *name = member_name(around, member);
  if (!name) return tsx_out_of_memory(error);
  const int first = kind == TSR_OBJECT_NONE ? 1 : visit(w, member->path, error);
  if (first > 0 && kind != TSR_OBJECT_GROUP)
    return tsx_members_add(w->all, name, member->path, kind == TSR_OBJECT_NONE, error);
  if (first > 0) return walk_inner(w, member->path, name, depth + 1, error);
  sqlite3_free(name);
  return first;
}

static int walk_members(walk *w, const tsr_group_members *members, const char *path, const char *around, uint64_t depth,
                        tsr_error *error) {
  if (members->count == 0) return walk_directories(w, path, around, error);
  for (uint64_t i = 0; i < members->count; i++) TSX_TRY(walk_member(w, &members->members[i], around, depth, error));
  return TSR_OK;
}

static int walk_group(walk *w, const char *path, const char *around, uint64_t depth, tsr_error *error) {
  tsx_attachment *all = w->all;
  tsr_group *group;
  tsr_group_members *members = NULL;
  if (depth > all->options->depth)
    return tsx_fail(error, TSR_TOOBIG, "%s has groups within groups more than %llu deep: raise the option 'depth'",
                    all->root, (unsigned long long)all->options->depth);
  TSX_TRY(tsr_group_open(all->connection->environment, path, all->has_key ? all->key : NULL, &group, error));
  int code = tsr_group_members_open(group, TSR_TIME_BEGIN, all->options->as_of, &members, error);
  if (code >= 0) code = walk_members(w, members, path, around, depth, error);
  tsr_group_members_close(members);
  tsr_group_close(group);
  return code;
}

static int compare_tables(const void *a, const void *b) {
  const tsx_attach_table *x = a, *y = b;
  const int order = strcmp(x->member, y->member);
  return order ? order : strcmp(x->path, y->path);
}

/* A root that is no group may be an array. */
static int add_root(tsx_attachment *all, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  TSX_TRY(tsr_object_find(all->connection->environment, all->root, &kind, error));
  if (kind != TSR_OBJECT_ARRAY && tsr_path_exists(all->root))
    return tsx_fail(error, TSR_NOT_FOUND, "no group or array at %s: FROM tessera_objects('%s') has those below it",
                    all->root, all->root);
  if (kind != TSR_OBJECT_ARRAY) return tsx_fail(error, TSR_NOT_FOUND, "no group or array at %s", all->root);
  return tsx_members_add(all, sqlite3_mprintf(""), all->root, false, error);
}

/* Visits the root first: a group that is an array, too, counts as a group. */
static int walk_root(walk *w, tsr_error *error) {
  tsx_attachment *all = w->all;
  tsr_error why = {0};
  TSX_TRY(tsr_path_permitted(all->connection->environment, all->root, error));
  TSX_TRY(visit(w, all->root, error));
  const int code = walk_group(w, all->root, "", 0, &why);
  if (code == TSR_NOT_FOUND && all->count == 0) return add_root(all, error);
  if (code < 0) *error = why;
  return code;
}

int tsx_members_find(tsx_attachment *all, tsr_error *error) {
  walk w = {.all = all};
  const int code = walk_root(&w, error);
  for (uint64_t i = 0; i < w.visited_count; i++) sqlite3_free(w.visited[i]);
  sqlite3_free(w.visited);
  if (code < 0) return code;
  if (all->count > 1) qsort(all->tables, all->count, sizeof *all->tables, compare_tables);
  return TSR_OK;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* Returns the last part of a path. */
static char *last_name(const char *path) {
  const tsr_group_member member = {.path = path};
  return member_name("", &member);
}

/* Returns true if `name` is what a table `table` may call one of its shadow tables. */
static bool name_is_shadow(const char *table, const char *name) {
  static const char *const suffixes[] = {"config", "commits", "files", "chunks"};
  const size_t size = strlen(table);
  if (strlen(name) <= size || sqlite3_strnicmp(name, table, (int)size) || name[size] != '_') return false;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (!sqlite3_stricmp(name + size + 1, suffixes[i])) return true;
  return false;
}

static bool name_is_taken(const tsx_attachment *all, uint32_t before, const char *name) {
  for (uint32_t i = 0; i < before; i++) {
    const char *other = all->tables[i].name;
    if (!sqlite3_stricmp(other, name) || name_is_shadow(other, name) || name_is_shadow(name, other)) return true;
  }
  return false;
}

int tsx_members_name(tsx_attachment *all, tsr_error *error) {
  for (uint32_t i = 0; i < all->count; i++) {
    tsx_attach_table *table = &all->tables[i];
    char *given = table->name      ? table->name
                  : *table->member ? sqlite3_mprintf("%s", table->member)
                                   : last_name(all->root);
    table->name = NULL;
    for (char *p = given; p && *p; p++)
      if (*p == '/') *p = '_';
    char *name = given ? sqlite3_mprintf("%s%s", all->options->prefix, given) : NULL;
    for (int number = 2; name && name_is_taken(all, i, name); number++) {
      sqlite3_free(name);
      name = sqlite3_mprintf("%s%s_%d", all->options->prefix, given, number);
    }
    sqlite3_free(given);
    if (!(table->name = name)) return tsx_out_of_memory(error);
  }
  return TSR_OK;
}
