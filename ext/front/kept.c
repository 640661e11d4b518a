/* kept.c: reads and writes the table tessera_kept(path, options). */
#include "front/kept.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"

typedef struct kept_row {
  char *path, *options; /* from sqlite3_malloc; options NULL: none; path NULL: the row holds values of other types */
} kept_row;

typedef struct kept_rows {
  kept_row *items;
  uint64_t count, room;
} kept_rows;

static int kept_fail(sqlite3 *db, int code, tsr_error *error) {
  if (code == SQLITE_INTERRUPT) return tsx_fail_cancelled(error);
  return code == SQLITE_NOMEM ? tsx_out_of_memory(error)
                              : tsx_fail(error, tsx_core_code(code), "tessera_kept: %s", sqlite3_errmsg(db));
}

/* Returns SQLite's code. A virtual table or a view in the place of the table is an error. */
static int kept_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement) {
  return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_NO_VTAB, statement, NULL);
}

static int kept_refuse(tsr_error *error) {
  return tsx_fail(error, TSR_ERROR,
                  "main.tessera_kept is not the table that tessera makes, tessera_kept(path TEXT PRIMARY KEY, options "
                  "TEXT), in which it remembers what is attached: rename it");
}

/* Returns 1 if the table has the columns of tessera_kept, and is no virtual table. */
static int kept_is_own(sqlite3 *db, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  const int code = kept_prepare(db, "SELECT path, options FROM main.tessera_kept", &statement);
  sqlite3_finalize(statement);
  if (code == SQLITE_OK) return 1;
  return code == SQLITE_ERROR ? kept_refuse(error) : kept_fail(db, code, error);
}

/* Returns 1 if the table exists, 0 if it does not. */
static int kept_exists(sqlite3 *db, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  int code =
      kept_prepare(db, "SELECT type FROM main.sqlite_schema WHERE name = 'tessera_kept' COLLATE NOCASE", &statement);
  int found = 0;
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    const char *type = (const char *)sqlite3_column_text(statement, 0);
    found = type && !sqlite3_stricmp(type, "table") ? kept_is_own(db, error) : kept_refuse(error);
  } else if (code != SQLITE_DONE) found = kept_fail(db, code, error);
  sqlite3_finalize(statement);
  return found;
}

/* Runs a statement with one or two texts. *changed: rows that it changed; may be NULL. */
static int kept_run(sqlite3 *db, const char *sql, const char *path, const char *options, int *changed,
                    tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  int code = kept_prepare(db, sql, &statement);
  if (code == SQLITE_OK && path) code = sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
  if (code == SQLITE_OK && options) code = sqlite3_bind_text(statement, 2, options, -1, SQLITE_STATIC);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  const int result = code == SQLITE_DONE ? TSR_OK : kept_fail(db, code, error);
  if (changed) *changed = sqlite3_changes(db);
  sqlite3_finalize(statement);
  return result;
}

int tsx_kept_remember(sqlite3 *db, const char *path, const char *options, tsr_error *error) {
  int code = kept_exists(db, error);
  if (code == 0)
    code = kept_run(db, "CREATE TABLE main.tessera_kept(path TEXT PRIMARY KEY, options TEXT)", NULL, NULL, NULL, error);
  if (code < 0) return code;
  return kept_run(db, "REPLACE INTO main.tessera_kept(path, options) VALUES(?1, ?2)", path, options, NULL, error);
}

int tsx_kept_forget(sqlite3 *db, const char *path, tsr_error *error) {
  int changed = 0, code = kept_exists(db, error);
  if (code <= 0) return code;
  code = kept_run(db, "DELETE FROM main.tessera_kept WHERE path = ?1", path, NULL, &changed, error);
  return code < 0 ? code : changed > 0;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static void kept_release(kept_rows *rows) {
  for (uint64_t i = 0; i < rows->count; i++) {
    sqlite3_free(rows->items[i].path);
    sqlite3_free(rows->items[i].options);
  }
  sqlite3_free(rows->items);
}

/* Adds the statement's row. */
static int kept_add(kept_rows *rows, sqlite3_stmt *statement, tsr_error *error) {
  const int path_type = sqlite3_column_type(statement, 0), options_type = sqlite3_column_type(statement, 1);
  const bool sound = path_type == SQLITE_TEXT && (options_type == SQLITE_TEXT || options_type == SQLITE_NULL);
  if (rows->count == TSX_KEPT_MAX)
    return tsx_fail(error, TSR_TOOBIG, "tessera_kept has more than %d rows", TSX_KEPT_MAX);
  if (rows->count == rows->room) {
    const uint64_t room = rows->room ? 2 * rows->room : 16;
    kept_row *more = sqlite3_realloc64(rows->items, room * sizeof *more);
    if (!more) return tsx_out_of_memory(error);
    rows->items = more;
    rows->room = room;
  }
  kept_row *row = &rows->items[rows->count];
  if (!sound) return *row = (kept_row){0}, rows->count++, TSR_OK;
  const char *path = (const char *)sqlite3_column_text(statement, 0);
  const char *options = options_type == SQLITE_TEXT ? (const char *)sqlite3_column_text(statement, 1) : NULL;
  *row = (kept_row){.path = path ? sqlite3_mprintf("%s", path) : NULL,
                    .options = options ? sqlite3_mprintf("%s", options) : NULL};
  rows->count++;
  return row->path && (options_type == SQLITE_NULL || row->options) ? TSR_OK : tsx_out_of_memory(error);
}

int tsx_kept_each(sqlite3 *db, tsx_kept_visitor visit, void *argument, tsr_error *error) {
  kept_rows rows = {0};
  sqlite3_stmt *statement = NULL;
  int code = kept_exists(db, error);
  if (code <= 0) return code;
  int step = kept_prepare(db, "SELECT path, options FROM main.tessera_kept ORDER BY path", &statement);
  if (step == SQLITE_OK)
    for (code = TSR_OK; code == TSR_OK && (step = sqlite3_step(statement)) == SQLITE_ROW;)
      code = kept_add(&rows, statement, error);
  if (code >= 0 && step != SQLITE_DONE) code = kept_fail(db, step, error);
  sqlite3_finalize(statement);
  for (uint64_t i = 0; i < rows.count && code >= 0; i++) {
    code = visit(argument, rows.items[i].path, rows.items[i].options, error);
    if (code != TSR_OK) break;
  }
  kept_release(&rows);
  return code;
}
