/* store_sqlite.c: the core's store "db:", which keeps the files of an array in the database, and scratch trees.
 *
 * A file is a row of NAME_files and, in NAME_chunks, one row for each 64 KiB of its bytes; store_tables.c describes the
 * tables. All calls read and write what the running statement sees, within its transaction, on SQLite's thread: the
 * core's workers only decode. A file that is being written holds its incomplete last chunk in memory, until it is
 * synced, read or closed.
 *
 * Sections: scratch trees; files and directories of any tree (paths, files, directories); the store. */
#include "database/store_sqlite.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

/* ---- Scratch trees ----------------------------------------------------------------------------------------------- */
/* A transaction on an array in the database may hold more cells than fit into memory_mb. They cannot spill into the
 * database itself: ROLLBACK TO would undo the files, but not the cells from before the savepoint. So they spill into a
 * temporary SQLite database, which has a connection of its own. SQLite creates its file with the VFS of the host's
 * connection, among its own temporary files, and deletes it when the connection is closed or the process dies.
 *
 * The temporary database has the tables of an array called "scratch", so a scratch tree shares the methods of all
 * trees. */

#define SCRATCH_SCHEMA "main"
#define SCRATCH_NAME   "scratch"
#define OPENED         (SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE)

/* Nothing in it is read again after a failure, so it needs no journal. SQLite caches 256 KiB of its pages. */
static const char settings[] = "PRAGMA journal_mode = OFF; PRAGMA cache_size = -256";

static int open_temporary(tsx_tree *tree, tsr_error *error) {
  sqlite3_vfs *vfs = NULL;
  if (sqlite3_file_control(tree->connection->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK) vfs = NULL;
  int code = sqlite3_open_v2("", &tree->db, OPENED, vfs ? vfs->zName : NULL);
  if (code == SQLITE_OK) code = sqlite3_exec(tree->db, settings, NULL, NULL, NULL);
  if (code == SQLITE_OK) return tsx_store_create(tree->db, SCRATCH_SCHEMA, SCRATCH_NAME, error);
  if (!tree->db) return tsx_out_of_memory(error);
  return tsx_tree_fail(tree, code, error);
}

static void scratch_close(void *it);

/* The first two methods of tsx_scratch: a scratch tree shares the others. */
static int scratch_open(void *connection, const char *path, void **out, tsr_error *error) {
  (void)path;
  tsx_tree *tree = sqlite3_malloc64(sizeof *tree);
  if (!tree) return tsx_out_of_memory(error);
  memset(tree, 0, sizeof *tree);
  tree->connection = connection;
  tree->scratch = true;
  tree->schema = sqlite3_mprintf("%s", SCRATCH_SCHEMA);
  tree->name = sqlite3_mprintf("%s", SCRATCH_NAME);
  int code = tree->schema && tree->name ? open_temporary(tree, error) : tsx_out_of_memory(error);
  if (code < 0) scratch_close(tree);
  else *out = tree;
  return code;
}

static void scratch_close(void *it) {
  tsx_tree *tree = it;
  tsx_tree_forget(tree);
  sqlite3_close(tree->db);
  sqlite3_free(tree->schema);
  sqlite3_free(tree->name);
  sqlite3_free(tree);
}

/* ---- Files and directories --------------------------------------------------------------------------------------- */

#define CHUNK            65536 /* bytes of a chunk; the last one of a file may have fewer */
#define SQLITE_DEPTH_MAX 16 /* nested directories */
#define ROOM_ASKED       ((uint64_t)16 << 20) /* bytes; sizes of smaller files are not compared with the database's */

typedef struct sqlite_file {
  tsx_tree *tree;
  sqlite3_int64 id;
  uint64_t stamp; /* tsx_entry.stamp */
  uint64_t checked; /* stored.epoch of the connection when the row with this id and stamp was last found */
  uint64_t size; /* bytes, including those in `tail` */
  bool writing; /* opened by create_exclusive */
  bool dirty; /* bytes of `tail`, or the size, are not in the tables yet */
  bool broken; /* a write has failed: the contents are unknown */
  uint32_t tail_size;
  uint8_t *tail; /* the last chunk as long as it is incomplete, or NULL */
} sqlite_file;

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

static int find_child(tsx_tree *tree, sqlite3_int64 parent, const char *name, size_t size, tsx_entry *found,
                      tsr_error *error) {
  sqlite3_stmt *statement;
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_FIND, parent, &statement, error));
  sqlite3_bind_text(statement, 2, name, (int)size, SQLITE_STATIC);
  return tsx_tree_take(tree, statement, found, error);
}

/* Returns true if a directory of the root, `size` bytes of a path, is known from the last search. */
static bool knows_way(const tsx_tree *tree, const char *path, size_t size) {
  return tree->blob && !tree->connection->quiet && path[size] == '/' && size < sizeof tree->way.name &&
         !tree->way.name[size] && !memcmp(tree->way.name, path, size) &&
         tree->way.epoch == tree->connection->database_arrays.epoch;
}

/* Notes the directory of the root that the first `size` bytes of a path name. */
static void note_way(tsx_tree *tree, const char *path, size_t size, sqlite3_int64 id) {
  tree->way.name[0] = 0;
  if (!tree->blob || path[size] != '/' || !size || size >= sizeof tree->way.name) return;
  memcpy(tree->way.name, path, size);
  tree->way.name[size] = 0;
  tree->way.id = id;
  tree->way.epoch = tree->connection->database_arrays.epoch;
}

/* Finds the entry at a path. Returns 1, 0 if there is none, or an error. */
static int sqlite_find(tsx_tree *tree, const char *path, tsx_entry *found, tsr_error *error) {
  sqlite3_stmt *statement;
  const size_t first = strcspn(path, "/");
  int code, depth = 0;
  if (knows_way(tree, path, first)) {
    *found = (tsx_entry){.id = tree->way.id, .directory = true};
    path += first + 1;
    code = depth = 1;
  } else {
    if ((code = tsx_tree_root(tree, error)) <= 0) return code;
    code = tsx_tree_prepare(tree, TSX_TREE_GET, TSX_TREE_ROOT, &statement, error);
    if (code < 0) return code;
    code = tsx_tree_take(tree, statement, found, error);
  }
  for (; code > 0 && *path; depth++) {
    size_t size = strcspn(path, "/");
    if (!found->directory || depth == SQLITE_DEPTH_MAX) return 0;
    code = find_child(tree, found->id, path, size, found, error);
    if (code > 0 && depth == 0 && found->directory) note_way(tree, path, size, found->id);
    path += size + (path[size] == '/');
  }
  return code;
}

static int find_existing(tsx_tree *tree, const char *path, tsx_entry *found, tsr_error *error) {
  int code = sqlite_find(tree, path, found, error);
  return code == 0 ? tsx_tree_missing(error) : code;
}

/* Finds the directory of a path, which must exist, and the name in it. */
static int find_parent(tsx_tree *tree, const char *path, tsx_entry *parent, const char **name, tsr_error *error) {
  const char *slash = strrchr(path, '/');
  char *directory = sqlite3_mprintf("%.*s", slash ? (int)(slash - path) : 0, path);
  if (!directory) return tsx_out_of_memory(error);
  int code = sqlite_find(tree, directory, parent, error);
  sqlite3_free(directory);
  if (code < 0) return code;
  if (code == 0 || !parent->directory) return tsx_fail(error, TSR_NOT_FOUND, "no such directory");
  *name = slash ? slash + 1 : path;
  return TSR_OK;
}

/* Sets a new stamp on a directory whose entries have changed. */
static int touch(tsx_tree *tree, sqlite3_int64 directory, tsr_error *error) {
  sqlite3_stmt *statement;
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_TOUCH, directory, &statement, error));
  sqlite3_bind_int64(statement, 2, tsx_tree_stamp());
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)tsx_tree_now());
  return tsx_tree_change(tree, statement, NULL, error);
}

/* Adds a file or directory. */
static int sqlite_add(tsx_tree *tree, const char *path, bool directory, tsx_entry *added, tsr_error *error) {
  tsx_entry parent;
  const char *name;
  sqlite3_stmt *statement;
  TSX_TRY(find_parent(tree, path, &parent, &name, error));
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_ADD, parent.id, &statement, error));
  sqlite3_bind_text(statement, 2, name, -1, SQLITE_STATIC);
  if (!directory) sqlite3_bind_int64(statement, 3, 0);
  sqlite3_bind_int64(statement, 4, (sqlite3_int64)tsx_tree_now());
  *added = (tsx_entry){.directory = directory, .stamp = (uint64_t)tsx_tree_stamp()};
  sqlite3_bind_int64(statement, 5, (sqlite3_int64)added->stamp);
  const int code = tsx_tree_change(tree, statement, &added->id, error);
  tree->connection->database_arrays.epoch++; /* a rollback may have freed the id */
  if (code < 0) return code;
  if (added->id >= TSX_TREE_FILES_MAX) return tsx_fail(error, TSR_FULL, "%s_files has no more ids", tree->name);
  return touch(tree, parent.id, error);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static uint64_t chunk_count(uint64_t size) { return size / CHUNK + (size % CHUNK != 0); }
static sqlite3_int64 chunk_id(const sqlite_file *f, uint64_t number) { return f->id << 32 | (sqlite3_int64)number; }

static int new_file(tsx_tree *tree, const tsx_entry *entry, bool writing, void **out, tsr_error *error) {
  sqlite_file *f = sqlite3_malloc64(sizeof *f);
  if (!f) return tsx_out_of_memory(error);
  *f = (sqlite_file){.tree = tree, .id = entry->id, .stamp = entry->stamp, .size = entry->size, .writing = writing};
  f->checked =
      tree->connection->database_arrays.epoch - !tree->blob; /* with a blob, the tables are as when it was found */
  *out = f;
  return TSR_OK;
}

/* Fails if a file claims to be larger than the database. Small files are not checked, which saves the query. */
static int check_room(const tsx_tree *tree, const tsx_entry *found, tsr_error *error) {
  uint64_t room;
  if (found->size < ROOM_ASKED) return TSR_OK;
  int code = tsx_tree_room(tree, &room, error);
  if (code < 0 || found->size <= room) return code;
  return tsx_fail(error, TSR_CORRUPT, "its size cannot be %llu bytes: the database has %llu",
                  (unsigned long long)found->size, (unsigned long long)room);
}

/* Fails if a file's size contradicts the length of its last chunk: the core allocates memory by the sizes of files. */
static int check_last(tsx_tree *tree, const tsx_entry *found, tsr_error *error) {
  const sqlite_file f = {.id = found->id};
  uint64_t chunks = chunk_count(found->size);
  sqlite3_stmt *statement;
  if (!chunks) return TSR_OK;
  if (chunks > UINT32_MAX)
    return tsx_fail(error, TSR_CORRUPT, "its size cannot be %llu bytes", (unsigned long long)found->size);
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_MEASURE, chunk_id(&f, chunks - 1), &statement, error));
  const int step = tsx_tree_step(tree, statement);
  const uint64_t length = step == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
  const int code = step == SQLITE_ROW || step == SQLITE_DONE ? TSR_OK : tsx_tree_fail(tree, step, error);
  tsx_tree_done(tree, statement);
  if (code < 0 || length == found->size - (chunks - 1) * CHUNK) return code;
  return tsx_fail(error, TSR_CORRUPT, "of %llu bytes, the last chunk (row %lld of %s_chunks) has %llu",
                  (unsigned long long)found->size, chunk_id(&f, chunks - 1), tree->name, (unsigned long long)length);
}

static int sqlite_open_file(void *it, const char *path, void **out, uint64_t *size, tsr_error *error) {
  tsx_entry found;
  TSX_TRY(find_existing(it, path, &found, error));
  if (found.directory) return tsx_fail(error, TSR_NOT_FOUND, "is a directory, not a file");
  TSX_TRY(check_last(it, &found, error));
  TSX_TRY(check_room(it, &found, error));
  TSX_TRY(new_file(it, &found, false, out, error));
  *size = found.size;
  return TSR_OK;
}

static int sqlite_create_exclusive(void *it, const char *path, void **out, tsr_error *error) {
  tsx_tree *tree = it;
  tsx_entry added;
  if (tree->failure.code) return tsx_fail(error, tree->failure.code, "%s", tree->failure.message);
  TSX_TRY(sqlite_add(tree, path, false, &added, error));
  return new_file(tree, &added, true, out, error);
}

/* Returns 1 if the file still exists under its id; 0 if its row is gone or another file's; or an error. */
static int file_stands(const sqlite_file *f, tsr_error *error) {
  sqlite3_stmt *statement;
  tsx_entry found;
  int code = tsx_tree_look(f->tree, error);
  if (code <= 0) return code;
  code = tsx_tree_prepare(f->tree, TSX_TREE_GET, f->id, &statement, error);
  if (code < 0) return code;
  code = tsx_tree_take(f->tree, statement, &found, error);
  return code > 0 ? !found.directory && found.stamp == f->stamp : code;
}

/* Moves the blob to a chunk, and makes sure that it is this file's. Since the file was opened, other connections may
 * have removed it, or renamed the tables and made others of that name; then searches for the file under the new name,
 * once. TSR_ABORT if it is gone. */
static int open_chunk(sqlite_file *f, uint64_t number, tsr_error *error) {
  const uint64_t *epoch = &f->tree->connection->database_arrays.epoch;
  for (int attempt = 0; attempt < 2; attempt++) {
    tsr_error fault = {0};
    int code = tsx_tree_open_chunk(f->tree, chunk_id(f, number), error);
    if (code == TSR_OK && f->checked == *epoch) return TSR_OK;
    if (code < 0 && code != TSR_CORRUPT && code != TSR_NOT_FOUND) return code;
    const int there = file_stands(f, &fault);
    if (there > 0 && code == TSR_CORRUPT) return code;
    if (there > 0 && f->tree->blob) {
      f->checked = *epoch;
      return TSR_OK;
    }
    if (there < 0 && there != TSR_ERROR) { /* TSR_ERROR: there is no such table any more */
      if (error) *error = fault;
      return there;
    }
    tsx_tree_forget(f->tree);
  }
  return tsx_fail(error, TSR_ABORT, "its array was vacuumed during this statement, or dropped or replaced");
}

static int sqlite_read_chunk(sqlite_file *f, uint64_t number, uint64_t offset, void *buffer, uint64_t size,
                             tsr_error *error) {
  uint64_t length = f->size - number * CHUNK;
  if (length > CHUNK) length = CHUNK;
  int code = open_chunk(f, number, error);
  return code < 0 ? code : tsx_tree_read(f->tree, chunk_id(f, number), length, offset, buffer, size, error);
}

static int sqlite_flush(sqlite_file *f, tsr_error *error);

static int sqlite_read_at(void *it, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  sqlite_file *f = it;
  uint8_t *to = buffer;
  int code = f->dirty ? sqlite_flush(f, error) : TSR_OK;
  while (code == TSR_OK && size) {
    uint64_t within = offset % CHUNK, part = CHUNK - within < size ? CHUNK - within : size;
    code = sqlite_read_chunk(f, offset / CHUNK, within, to, part, error);
    to += part;
    offset += part;
    size -= part;
  }
  if (!f->tree->connection->statement.cursors && !f->tree->connection->database_arrays.holders)
    tsx_tree_close_blob(f->tree);
  return code;
}

static int sqlite_put_chunk(sqlite_file *f, uint64_t number, const void *bytes, uint64_t size, tsr_error *error) {
  sqlite3_stmt *statement;
  if (number >= UINT32_MAX) return tsx_fail(error, TSR_FULL, "a file can have at most 2^48 bytes");
  TSX_TRY(tsx_tree_prepare(f->tree, TSX_TREE_PUT, chunk_id(f, number), &statement, error));
  if (sqlite3_bind_blob(statement, 2, bytes, (int)size, SQLITE_STATIC) != SQLITE_OK)
    return tsx_fail(error, TSR_TOOBIG,
                    "the connection's limit for a value, SQLITE_LIMIT_LENGTH, is below the %llu bytes of a piece of an "
                    "array in the database: it takes at least %d",
                    (unsigned long long)size, CHUNK + 1000);
  return tsx_tree_change(f->tree, statement, NULL, error);
}

/* Writes the last chunk and the size. */
static int sqlite_flush(sqlite_file *f, tsr_error *error) {
  sqlite3_stmt *statement;
  if (f->broken) return tsx_fail(error, TSR_IO, "writing: an earlier write to the file has failed");
  if (!f->dirty) return TSR_OK;
  f->broken = true; /* until everything is written */
  if (f->tail_size) TSX_TRY(sqlite_put_chunk(f, f->size / CHUNK, f->tail, f->tail_size, error));
  TSX_TRY(tsx_tree_prepare(f->tree, TSX_TREE_RESIZE, f->id, &statement, error));
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)f->size);
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)tsx_tree_now());
  TSX_TRY(tsx_tree_change(f->tree, statement, NULL, error));
  f->broken = f->dirty = false;
  return TSR_OK;
}

static int append_bytes(sqlite_file *f, const uint8_t *from, uint64_t size, tsr_error *error) {
  if (!f->tail && !(f->tail = sqlite3_malloc64(CHUNK))) return tsx_out_of_memory(error);
  while (size) {
    uint64_t part = CHUNK - f->tail_size;
    int code = TSR_OK;
    if (part > size) part = size;
    if (part == CHUNK) {
      code = sqlite_put_chunk(f, f->size / CHUNK, from, CHUNK, error);
    } else {
      memcpy(f->tail + f->tail_size, from, part);
      f->tail_size += (uint32_t)part;
      if (f->tail_size == CHUNK) {
        code = sqlite_put_chunk(f, f->size / CHUNK, f->tail, CHUNK, error);
        f->tail_size = 0;
      }
    }
    if (code < 0) return code;
    f->size += part;
    from += part;
    size -= part;
  }
  return TSR_OK;
}

static int sqlite_append(void *it, const void *bytes, uint64_t size, tsr_error *error) {
  sqlite_file *f = it;
  if (!f->writing) return tsx_fail(error, TSR_IO, "writing: the file was opened for reading");
  if (f->broken) return tsx_fail(error, TSR_IO, "writing: an earlier write to the file has failed");
  f->dirty = true;
  int code = append_bytes(f, bytes, size, error);
  if (code < 0) f->broken = true;
  return code;
}

static int sqlite_sync_file(void *it, tsr_error *error) { return sqlite_flush(it, error); }

/* Writes the last chunk and the size. This callback cannot fail, so a failure is stored in the tree and reported by the
 * next rename or create_exclusive: one of them would publish the file. */
static void sqlite_close_file(void *it) {
  sqlite_file *f = it;
  tsr_error error = {0};
  if (f->dirty && !f->broken && sqlite_flush(f, &error) < 0 && !f->tree->failure.code) f->tree->failure = error;
  sqlite3_free(f->tail);
  sqlite3_free(f);
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

static int list_entries(tsx_tree *tree, sqlite3_stmt *statement, tsr_listing *listing, tsr_error *error) {
  for (;;) {
    const int step = tsx_tree_step(tree, statement);
    if (step == SQLITE_DONE) return TSR_OK;
    if (step != SQLITE_ROW) return tsx_tree_fail(tree, step, error);
    const char *name = (const char *)sqlite3_column_text(statement, 0);
    if (!name) return tsx_out_of_memory(error);
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
      return tsx_fail(error, TSR_CORRUPT, "'%.60s' in %s_files is not a file name", name, tree->name);
    TSX_TRY(
        tsr_listing_add(listing, name, sqlite3_column_int(statement, 1) ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE, error));
  }
}

static int sqlite_list(void *it, const char *path, tsr_listing *listing, tsr_error *error) {
  tsx_tree *tree = it;
  tsx_entry directory;
  sqlite3_stmt *statement;
  TSX_TRY(find_existing(tree, path, &directory, error));
  if (!directory.directory) return tsx_fail(error, TSR_NOT_FOUND, "is a file, not a directory");
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_LIST, directory.id, &statement, error));
  const int code = list_entries(tree, statement, listing, error);
  tsx_tree_done(tree, statement);
  return code;
}

static int sqlite_stamp(void *it, const char *path, uint64_t *number, tsr_error *error) {
  tsx_entry found;
  int code = sqlite_find(it, path, &found, error);
  if (code < 0) return code;
  *number = code > 0 && found.directory ? (found.stamp ? found.stamp : 1) : 0;
  return TSR_OK;
}

static int sqlite_modified(void *it, const char *path, uint64_t *milliseconds, tsr_error *error) {
  tsx_entry found;
  TSX_TRY(find_existing(it, path, &found, error));
  *milliseconds = found.modified;
  return TSR_OK;
}

/* Returns 1 if a directory has entries, 0 if not, or an error. */
static int has_entries(tsx_tree *tree, sqlite3_int64 directory, tsr_error *error) {
  sqlite3_stmt *statement;
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_LIST, directory, &statement, error));
  int step = tsx_tree_step(tree, statement);
  int code = step == SQLITE_ROW ? 1 : step == SQLITE_DONE ? 0 : tsx_tree_fail(tree, step, error);
  tsx_tree_done(tree, statement);
  return code;
}

/* The root exists as long as the tables do: making it succeeds if it is empty. */
static int sqlite_make_directory(void *it, const char *path, tsr_error *error) {
  tsx_tree *tree = it;
  tsx_entry added, root;
  if (*path) return sqlite_add(tree, path, true, &added, error);
  int code = find_existing(tree, "", &root, error);
  if (code > 0) code = has_entries(tree, TSX_TREE_ROOT, error);
  return code > 0 ? tsx_fail(error, TSR_EXISTS, "something is already there") : code;
}

static int delete_entry(tsx_tree *tree, const tsx_entry *gone, tsr_error *error) {
  const sqlite_file f = {.id = gone->id};
  sqlite3_stmt *statement;
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_REMOVE, gone->id, &statement, error));
  const int code = tsx_tree_change(tree, statement, NULL, error);
  tree->connection->database_arrays.epoch++;
  if (code < 0 || gone->directory) return code;
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_CUT, chunk_id(&f, 0), &statement, error));
  sqlite3_bind_int64(statement, 2, chunk_id(&(sqlite_file){.id = gone->id + 1}, 0));
  return tsx_tree_change(tree, statement, NULL, error);
}

static int sqlite_remove_path(void *it, const char *path, tsr_error *error) {
  tsx_tree *tree = it;
  tsx_entry found, parent;
  const char *name;
  TSX_TRY(find_existing(tree, path, &found, error));
  const int filled = found.directory ? has_entries(tree, found.id, error) : 0;
  if (filled > 0) return tsx_fail(error, TSR_EXISTS, "the directory is not empty");
  if (filled < 0 || !*path) return filled; /* the root is removed with its tables */
  TSX_TRY(find_parent(tree, path, &parent, &name, error));
  TSX_TRY(delete_entry(tree, &found, error));
  return touch(tree, parent.id, error);
}

/* Removes the entry `there`, which the entry `moved` replaces: a file replaces a file, a directory an empty
 * directory. */
static int make_way(tsx_tree *tree, const tsx_entry *moved, const tsx_entry *there, tsr_error *error) {
  int full = there->directory ? has_entries(tree, there->id, error) : 0;
  if (full < 0) return full;
  if (full || moved->directory != there->directory)
    return tsx_fail(error, TSR_EXISTS, "the file or directory there cannot be replaced");
  return delete_entry(tree, there, error);
}

static int sqlite_rename_path(void *it, const char *from, const char *to, bool exclusive, tsr_error *error) {
  tsx_tree *tree = it;
  tsx_entry moved, there, parents[2];
  const char *names[2];
  sqlite3_stmt *statement;
  if (tree->failure.code) return tsx_fail(error, tree->failure.code, "%s", tree->failure.message);
  TSX_TRY(find_existing(tree, from, &moved, error));
  TSX_TRY(find_parent(tree, from, &parents[0], &names[0], error));
  TSX_TRY(find_parent(tree, to, &parents[1], &names[1], error));
  const int exists = sqlite_find(tree, to, &there, error);
  if (exists < 0) return exists;
  if (exists && exclusive) return tsx_fail(error, TSR_EXISTS, "something is already there");
  if (exists && there.id == moved.id) return TSR_OK;
  if (exists) TSX_TRY(make_way(tree, &moved, &there, error));
  TSX_TRY(tsx_tree_prepare(tree, TSX_TREE_MOVE, moved.id, &statement, error));
  sqlite3_bind_int64(statement, 2, parents[1].id);
  sqlite3_bind_text(statement, 3, names[1], -1, SQLITE_STATIC);
  const int code = tsx_tree_change(tree, statement, NULL, error);
  tree->connection->database_arrays.epoch++; /* it is not on its old way any more */
  if (code < 0) return code;
  TSX_TRY(touch(tree, parents[0].id, error));
  return parents[1].id != parents[0].id ? touch(tree, parents[1].id, error) : TSR_OK;
}

/* The methods that both stores share; their trees are in different places. */
#define TREE_METHODS                                                                                                   \
  .open_file = sqlite_open_file, .create_exclusive = sqlite_create_exclusive, .close_file = sqlite_close_file,         \
  .read_at = sqlite_read_at, .append = sqlite_append, .sync = sqlite_sync_file, .list = sqlite_list,                   \
  .stamp = sqlite_stamp, .modified = sqlite_modified, .rename = sqlite_rename_path, .remove = sqlite_remove_path,      \
  .make_directory = sqlite_make_directory

static const tsr_host_store store = {.open = tsx_tree_open, .close = tsx_tree_close, TREE_METHODS};

const tsr_host_store tsx_scratch = {.open = scratch_open, .close = scratch_close, TREE_METHODS};

/* ---- The store --------------------------------------------------------------------------------------------------- */

int tsx_store_register(tsx_connection *connection, tsr_error *error) {
  return tsr_environment_add_store(connection->environment, "db", &store, connection, error);
}

bool tsx_store_is(const char *path) { return !strncmp(path, "db:", 3); }

char *tsx_store_path(const char *schema, const char *name) {
  bool plain = *schema && *name;
  for (const char *p = schema; *p; p++) plain &= (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
  for (const char *p = name; *p; p++)
    plain &= (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || (*p >= '0' && *p <= '9') ||
             (unsigned char)*p >= 0x80;
  return plain ? sqlite3_mprintf("db:%s.%s", schema, name) : sqlite3_mprintf("db:\"%w\".\"%w\"", schema, name);
}
