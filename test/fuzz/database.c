/* database.c: SQLite connections for fuzz targets (database.h). */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "base/memory.h"
#include "database.h"

#define ROWS_MAX 300
#define STEPS_MAX                                                                                                      \
  300 /* calls of the progress handler, one in 1,000 bytecode instructions; then the statement is stopped */
#define CHUNK      65536
#define INPUTS_MAX 100 /* after so many inputs all connections are closed, and leaks are looked for */

static int steps;

static int progress(void *argument) { return ++steps > STEPS_MAX; }

/* The authorizer: denies other databases and statements that write files. */
static int authorize(void *argument, int action, const char *a, const char *b, const char *c, const char *d) {
  if (action == SQLITE_ATTACH) return SQLITE_DENY;
  if (action == SQLITE_FUNCTION && b && (!strcmp(b, "tessera_sync") || !strcmp(b, "load_extension")))
    return SQLITE_DENY;
  return SQLITE_OK;
}

static sqlite3 *open_empty(void) {
  sqlite3 *db;
  CHECK(sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init) ==
        SQLITE_OK); /* once, however often it is called */
  CHECK(sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK);
  return db;
}

void database_make(const char *sql, image *out) {
  sqlite3 *db = open_empty();
  char *message = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
    fprintf(stderr, "%s\n", message);
    abort();
  }
  unsigned char *bytes = sqlite3_serialize(db, "main", &out->size, 0);
  CHECK(bytes && sqlite3_close(db) == SQLITE_OK);
  out->bytes = bytes;
}

sqlite3 *database_open(const image *from) {
  sqlite3 *db = open_empty();
  unsigned char *copy = sqlite3_malloc64((sqlite3_uint64)from->size);
  CHECK(copy);
  memcpy(copy, from->bytes, (size_t)from->size);
  CHECK(sqlite3_deserialize(db, "main", copy, from->size, from->size,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) == SQLITE_OK);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 4 << 20);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_set_authorizer(db, authorize, NULL);
  CHECK(sqlite3_exec(db, "SELECT tessera_restrict('/dev/null')", NULL, NULL, NULL) == SQLITE_OK);
  sqlite3_progress_handler(db, 1000, progress, NULL);
  return db;
}

void database_close(sqlite3 *db) {
  sqlite3_progress_handler(db, 0, NULL, NULL);
  CHECK(sqlite3_close(db) == SQLITE_OK);
}

static int64_t version_of(sqlite3_stmt *statement) {
  CHECK(sqlite3_step(statement) == SQLITE_ROW);
  const int64_t version = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
  return version;
}

/* ---- One connection for many inputs ------------------------------------------------------------------------------ */

static image *taken; /* the images that have a connection */
static unsigned inputs; /* the number of all inputs */

static void let_go(image *from) {
  image **at = &taken;
  while (*at != from) at = &(*at)->next;
  *at = from->next;
  sqlite3_finalize(from->version);
  database_close(from->db);
  from->db = NULL;
}

/* Checks for leaks after all connections were closed. LeakSanitizer does not see them, since it does not know the blocks of
 * heap.c. */
static void check_blocks(void) {
#ifdef FUZZ_HEAP
  static long before;
  if (!before) before = heap_blocks();
  CHECK(heap_blocks() <= before); /* otherwise one of the last INPUTS_MAX inputs has leaked memory */
#endif
}

sqlite3 *database_take(image *from) {
  steps = 0;
  if (from->db) return from->db;
  if (!taken) check_blocks();
  from->db = database_open(from);
  from->next = taken;
  taken = from;
  CHECK(sqlite3_prepare_v3(from->db, "PRAGMA schema_version", -1, SQLITE_PREPARE_PERSISTENT, &from->version, NULL) ==
        SQLITE_OK);
  from->schema = version_of(from->version);
  return from->db;
}

void database_give(image *from, bool again) {
  steps = 0;
  if (again && !sqlite3_get_autocommit(from->db))
    again = sqlite3_exec(from->db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK;
  if (!again || version_of(from->version) != from->schema) let_go(from);
  if (++inputs % INPUTS_MAX == 0)
    while (taken) let_go(taken);
}

void database_note(const uint8_t *data, size_t size) {
  enum { RECORD = 4 + DATABASE_INPUT, BYTES = 4 + INPUTS_MAX * RECORD };
  static uint8_t *history;
  static bool opened;
  const char *path = opened ? NULL : getenv("FUZZ_HISTORY");
  opened = true;
  if (path) {
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(file >= 0 && ftruncate(file, BYTES) == 0);
    history = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(history != MAP_FAILED);
    close(file);
  }
  if (!history) return;
  if (size > DATABASE_INPUT) size = 0; /* only where libFuzzer was told to make larger ones */
  const uint32_t at = inputs % INPUTS_MAX;
  tsr__store32(history, at + 1);
  tsr__store32(history + 4 + at * RECORD, (uint32_t)size);
  memcpy(history + 4 + at * RECORD + 4, data, size);
}

int database_run(sqlite3 *db, sqlite3_stmt *statement) {
  int code, rows = 0;
  steps = 0;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW && rows++ < ROWS_MAX)
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
      const void *bytes = sqlite3_column_blob(statement, i);
      fuzz_touch(bytes, (uint64_t)sqlite3_column_bytes(statement, i));
    }
  if (code != SQLITE_ROW && code != SQLITE_DONE) CHECK(*sqlite3_errmsg(db));
  return code;
}

int database_sql(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  steps = 0;
  int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK && statement) code = database_run(db, statement);
  sqlite3_finalize(statement);
  return code;
}

/* ---- An array's files as rows ----------------------------------------------------------------------------------- */

typedef struct putter {
  sqlite3_stmt *find, *add, *chunk;
  sqlite3_int64 next;
} putter;

static int64_t stamps; /* no two arrays share a stamp, so that nothing cached of one is taken for another's */

/* Makes an entry. Returns its id, or 0 if the entry exists already. */
static sqlite3_int64 add_entry(putter *p, sqlite3_int64 parent, const char *name, int length, bool directory,
                               uint64_t size) {
  sqlite3_int64 id = 0;
  sqlite3_bind_int64(p->find, 1, parent);
  sqlite3_bind_text(p->find, 2, name, length, SQLITE_STATIC);
  if (sqlite3_step(p->find) == SQLITE_ROW) id = sqlite3_column_int64(p->find, 0);
  sqlite3_reset(p->find);
  if (id) return directory ? id : 0;
  id = p->next++;
  sqlite3_bind_int64(p->add, 1, id);
  sqlite3_bind_int64(p->add, 2, parent);
  sqlite3_bind_text(p->add, 3, name, length, SQLITE_STATIC);
  sqlite3_bind_int64(p->add, 5, stamps);
  if (directory) sqlite3_bind_null(p->add, 4);
  else sqlite3_bind_int64(p->add, 4, (sqlite3_int64)size);
  CHECK(sqlite3_step(p->add) == SQLITE_DONE);
  sqlite3_reset(p->add);
  return id;
}

static void put_file(void *argument, const char *path, const uint8_t *bytes, uint64_t size) {
  putter *p = argument;
  sqlite3_int64 parent = 1;
  for (const char *slash; (slash = strchr(path, '/')); path = slash + 1)
    if (slash > path) parent = add_entry(p, parent, path, (int)(slash - path), true, 0);
  sqlite3_int64 id = *path ? add_entry(p, parent, path, -1, false, size) : 0;
  for (uint64_t at = 0, part = 0; id && at < size; at += CHUNK, part++) {
    sqlite3_bind_int64(p->chunk, 1, (sqlite3_int64)((uint64_t)id << 32 | part));
    sqlite3_bind_blob(p->chunk, 2, bytes + at, (int)TSR_MIN(size - at, CHUNK), SQLITE_STATIC);
    CHECK(sqlite3_step(p->chunk) == SQLITE_DONE);
    sqlite3_reset(p->chunk);
  }
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *format, const char *name) {
  sqlite3_stmt *statement;
  char *sql = sqlite3_mprintf(format, name);
  CHECK(sql && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
  sqlite3_free(sql);
  return statement;
}

sqlite3_stmt *database_prepare(sqlite3 *db, const char *text) {
  sqlite3_stmt *statement = NULL;
  const char *tail = NULL;
  if (sqlite3_prepare_v2(db, text, -1, &statement, &tail) == SQLITE_OK && statement && !*tail) return statement;
  sqlite3_finalize(statement);
  return NULL;
}

void database_text(const uint8_t *data, size_t size, sqlite3 *(*connect)(void),
                   void (*use)(sqlite3 *db, const char *text)) {
  if (size == 0 || size > FUZZ_INPUT || memchr(data, 0, size)) return;
  database_note(data, size);
  char *text = malloc(size + 1);
  CHECK(text);
  memcpy(text, data, size);
  text[size] = 0;
  sqlite3 *db = connect();
  use(db, text);
  database_close(db);
  free(text);
}

void database_put(sqlite3 *db, const char *name, const tree *t) {
  tsr_memory memory;
  tsr__memory_init_root(&memory, NULL, NULL);
  steps = 0;
  CHECK(database_sql(db, "BEGIN") == SQLITE_DONE);
  sqlite3_stmt *clear[] = {prepare(db, "DELETE FROM \"%w_files\" WHERE id > 1", name),
                           prepare(db, "DELETE FROM \"%w_chunks\"", name),
                           prepare(db, "UPDATE \"%w_files\" SET stamp = ?1", name)};
  sqlite3_bind_int64(clear[2], 1, ++stamps);
  for (int i = 0; i < 3; i++) {
    CHECK(sqlite3_step(clear[i]) == SQLITE_DONE);
    sqlite3_finalize(clear[i]);
  }
  putter p = {.find = prepare(db, "SELECT id FROM \"%w_files\" WHERE parent = ?1 AND name = ?2", name),
              .add = prepare(db, "INSERT INTO \"%w_files\" VALUES(?1, ?2, ?3, ?4, 1000, ?5)", name),
              .chunk = prepare(db, "INSERT INTO \"%w_chunks\" VALUES(?1, ?2)", name),
              .next = 2};
  tree_visit(t, &memory, put_file, &p);
  sqlite3_finalize(p.find);
  sqlite3_finalize(p.add);
  sqlite3_finalize(p.chunk);
  CHECK(database_sql(db, "COMMIT") == SQLITE_DONE);
  CHECK(database_sql(db, "PRAGMA writable_schema = RESET") == SQLITE_DONE); /* disconnects the tables */
}
