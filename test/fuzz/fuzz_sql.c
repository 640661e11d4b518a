/* fuzz_sql.c: fuzzes statements that read and change an array in a database, together with the array's files.
 *
 *   u8 options of the table | u8 size of the choices, the choices | the array (tree.c)
 *
 * A grammar makes the statements; it reads one byte for each choice, so every input gives valid SQL. (Statements that SQLite's
 * parser refuses are of no interest here.)
 */

#include <string.h>

#include "base/arithmetic.h"
#include "base/input.h"
#include "crypto/crypto.h"
#include "database.h"

#define COLUMNS_MAX    12
#define STATEMENTS_MAX 3
#define SQL_MAX        4000

static image images[4];

typedef struct writer {
  tsr_input in;
  sqlite3_str *out;
  char *columns[COLUMNS_MAX];
  unsigned column_count;
} writer;

static unsigned choose(writer *w, unsigned of) { return tsr__input_u8(&w->in) % of; }
static void say(writer *w, const char *text) { sqlite3_str_appendall(w->out, text); }
static void column(writer *w) {
  if (w->column_count == 0) say(w, "rowid");
  else sqlite3_str_appendf(w->out, "\"%w\"", w->columns[choose(w, w->column_count)]);
}

static void constant(writer *w) {
  static const char *const odd[] = {"NULL",
                                    "0",
                                    "-1",
                                    "1",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "1e300",
                                    "-0.0",
                                    "0.5",
                                    "9e999",
                                    "''",
                                    "'a'",
                                    "x'00ff'",
                                    "'2020-01-01'",
                                    "'1970-01-01 00:00:00.020'",
                                    "'[1,2]'",
                                    "'18446744073709551615'",
                                    "'%_'",
                                    "65536",
                                    "4294967296",
                                    "255"};
  switch (choose(w, 4)) {
  case 0: sqlite3_str_appendf(w->out, "%d", (int)tsr__input_u8(&w->in) - 100); return;
  case 1: say(w, odd[choose(w, sizeof odd / sizeof *odd)]); return;
  case 2:
    say(w, "(SELECT ");
    column(w);
    sqlite3_str_appendf(w->out, " FROM t LIMIT 1 OFFSET %u)", choose(w, 40));
    return;
  default: sqlite3_str_appendf(w->out, "%lld", (long long)(int32_t)tsr__input_u32(&w->in));
  }
}

static void condition(writer *w, int depth) {
  static const char *const comparisons[] = {
      " = ", " < ", " <= ", " > ", " >= ", " IS ", " <> ", " IS NOT ", " GLOB ", " LIKE "};
  switch (choose(w, depth > 2 ? 5 : 8)) {
  case 0:
  case 1:
    column(w);
    say(w, comparisons[choose(w, 10)]);
    constant(w);
    return;
  case 2:
    column(w);
    say(w, " BETWEEN ");
    constant(w);
    say(w, " AND ");
    constant(w);
    return;
  case 3:
    column(w);
    say(w, choose(w, 4) ? " IN (" : " NOT IN (");
    for (unsigned n = choose(w, 5); n > 0; n--) {
      constant(w);
      say(w, ", ");
    }
    constant(w);
    say(w, ")");
    return;
  case 4:
    column(w);
    say(w, choose(w, 2) ? " IS NULL" : " IS NOT NULL");
    return;
  default:
    say(w, "(");
    condition(w, depth + 1);
    say(w, choose(w, 3) ? " AND " : " OR ");
    condition(w, depth + 1);
    say(w, ")");
  }
}

static void where(writer *w) {
  if (choose(w, 4) == 0) return;
  say(w, " WHERE ");
  condition(w, 0);
}

static void select_rows(writer *w) {
  static const char *const functions[] = {"count", "sum", "min", "max", "total", "group_concat"};
  unsigned kind = choose(w, 6);
  say(w, kind == 5 ? "SELECT DISTINCT " : "SELECT ");
  if (kind == 0) say(w, "*, rowid, written_at");
  if (kind == 1 || kind == 5) column(w), say(w, ", "), column(w);
  if (kind == 2) say(w, functions[choose(w, 6)]), say(w, "("), column(w), say(w, ")");
  if (kind == 3) say(w, "count(*)");
  if (kind == 4) say(w, "a.*, b.rowid");
  say(w, " FROM t");
  if (kind == 4) {
    say(w, " AS a JOIN t AS b ON a.rowid = b.rowid");
    sqlite3_str_appendf(w->out, " LIMIT %u", choose(w, 50));
    return;
  }
  if (choose(w, 8) == 0) {
    say(w, "(");
    constant(w);
    say(w, ", ");
    constant(w);
    say(w, ")");
  }
  where(w);
  if (kind == 2 && choose(w, 2)) say(w, " GROUP BY "), column(w);
  if (choose(w, 2) && kind != 2 && kind != 3) {
    say(w, " ORDER BY ");
    column(w);
    say(w, choose(w, 2) ? " DESC, " : ", ");
    column(w);
  }
  if (choose(w, 4) == 0) sqlite3_str_appendf(w->out, " LIMIT %u", choose(w, 20));
}

static void change_rows(writer *w) {
  static const char *const clauses[] = {"", " OR IGNORE", " OR REPLACE", " OR FAIL", " OR ABORT", " OR ROLLBACK"};
  unsigned kind = choose(w, 4);
  if (kind == 0) {
    say(w, "DELETE FROM t");
    where(w);
  } else if (kind == 1) {
    say(w, "UPDATE");
    say(w, clauses[choose(w, 6)]);
    say(w, " t SET ");
    column(w);
    say(w, " = ");
    constant(w);
    where(w);
  } else if (kind == 2) {
    say(w, "INSERT");
    say(w, clauses[choose(w, 6)]);
    say(w, " INTO t SELECT * FROM t ");
    where(w);
  } else {
    say(w, "INSERT");
    say(w, clauses[choose(w, 6)]);
    say(w, " INTO t VALUES(");
    for (unsigned i = 0; i < w->column_count; i++) {
      if (i) say(w, ", ");
      constant(w);
    }
    say(w, ")");
  }
}

static void slice(writer *w) {
  if (w->column_count == 0 || choose(w, 3) == 0) {
    say(w, "NULL");
    return;
  }
  say(w, "json_object(");
  for (unsigned n = 1 + choose(w, 2), i = 0; i < n; i++) {
    sqlite3_str_appendf(w->out, "%s%Q, ", i ? ", " : "", w->columns[choose(w, TSR_MIN(w->column_count, 3))]);
    if (choose(w, 2)) {
      constant(w);
    } else {
      say(w, "json_array(");
      constant(w);
      say(w, ", ");
      constant(w);
      say(w, ")");
    }
  }
  say(w, ")");
}

static void name(writer *w) {
  sqlite3_str_appendf(w->out, "%Q", w->column_count ? w->columns[choose(w, w->column_count)] : "a");
}

static void inspect(writer *w) {
  static const char *const tables[] = {"array",   "schema", "fragments", "tiles",  "metadata",
                                       "members", "check",  "advise",    "objects"};
  unsigned kind = choose(w, 12);
  say(w, "SELECT * FROM tessera_");
  if (kind < 9) {
    say(w, tables[kind]);
    say(w, "('db:t')");
    if (choose(w, 4) == 0) say(w, " WHERE as_of = "), constant(w);
  } else if (kind == 9) {
    sqlite3_str_appendf(w->out, "partitions('db:t', %d, ", (int)choose(w, 20) - 1);
    slice(w);
    say(w, ")");
  } else if (kind == 10) {
    say(w, "aggregate('db:t', ");
    name(w);
    say(w, ", ");
    slice(w);
    if (choose(w, 2)) say(w, ", "), name(w);
    say(w, ")");
  } else {
    say(w, "enumeration('db:t', ");
    name(w);
    say(w, ")");
  }
}

static void call(writer *w) {
  static const char *const kinds[] = {"fragments", "commits", "fragment_meta", "array_meta"};
  static const char *const options[] = {"{\"purge_deleted\":true}", "{\"memory_mb\":1}",
                                        "{\"max_fragment_mb\":1,\"as_of\":50}", "{\"since\":20}"};
  static const char *const copies[] = {"{}", "{\"capacity\":2}", "{\"cell_order\":\"hilbert\"}",
                                       "{\"duplicates\":true,\"tile_order\":\"col\"}"};
  say(w, "SELECT tessera_");
  switch (choose(w, 16)) {
  case 0:
  case 1:
    sqlite3_str_appendf(w->out, "consolidate('db:t', %Q, %Q)", kinds[choose(w, 4)], options[choose(w, 4)]);
    return;
  case 2: sqlite3_str_appendf(w->out, "consolidate('db:t', %Q)", kinds[choose(w, 4)]); return;
  case 3: say(w, "vacuum('db:t')"); return;
  case 4:
    say(w, "set_metadata('db:t', ");
    name(w);
    say(w, ", ");
    constant(w);
    break;
  case 5:
    say(w, "delete_metadata('db:t', ");
    name(w);
    break;
  case 6: say(w, "add_attribute('db:t', 'fuzz TEXT ENUM(''a'',''b'') DEFAULT ''b''')"); return;
  case 7:
    say(w, "drop_attribute('db:t', ");
    name(w);
    break;
  case 8:
    say(w, "extend_enumeration('db:t', ");
    name(w);
    say(w, ", ");
    constant(w);
    break;
  case 9:
    say(w, "expand_domain('db:t', ");
    slice(w);
    break;
  case 10: say(w, "ddl('db:t'"); break;
  case 11:
    say(w, "npy('db:t', ");
    name(w);
    say(w, ", ");
    slice(w);
    break;
  case 13:
  case 14:
    say(w, choose(w, 2) ? "png('db:t', " : "preview('db:t', ");
    name(w);
    say(w, ", ");
    slice(w);
    break;
  case 12: sqlite3_str_appendf(w->out, "copy('db:t', 'db:u', %Q", copies[choose(w, 4)]); break;
  default:
    say(w, "write_npy('db:t', ");
    unsigned from = w->column_count ? choose(w, w->column_count) : 0;
    for (unsigned i = from; i < w->column_count && i < from + 2; i++)
      sqlite3_str_appendf(w->out, "%s%Q, tessera_npy('db:t', %Q)", i > from ? ", " : "", w->columns[i], w->columns[i]);
    if (from >= w->column_count) say(w, "'a', x''");
  }
  say(w, ")");
}

static void transact(writer *w) {
  static const char *const texts[] = {"BEGIN",
                                      "COMMIT",
                                      "ROLLBACK",
                                      "SAVEPOINT s",
                                      "ROLLBACK TO s",
                                      "RELEASE s",
                                      "PRAGMA integrity_check(10)",
                                      "ALTER TABLE t RENAME TO u",
                                      "ALTER TABLE u RENAME TO t",
                                      "DROP TABLE u",
                                      "DROP TABLE t"};
  say(w, texts[choose(w, sizeof texts / sizeof *texts)]);
}

static void find_columns(sqlite3 *db, writer *w) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(db, "SELECT name FROM pragma_table_info('t')", -1, &statement, NULL) != SQLITE_OK) return;
  while (w->column_count < COLUMNS_MAX && sqlite3_step(statement) == SQLITE_ROW)
    w->columns[w->column_count++] = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
}

static void run_statements(sqlite3 *db, const uint8_t *bytes, uint64_t size) {
  static void (*const kinds[])(writer * w) = {select_rows, select_rows, select_rows, change_rows,
                                              change_rows, inspect,     call,        transact};
  writer w = {.in = tsr__input(bytes, size)};
  find_columns(db, &w);
  for (int n = 0; n < STATEMENTS_MAX && tsr__input_left(&w.in) > 0; n++) {
    w.out = sqlite3_str_new(db);
    kinds[choose(&w, 8)](&w);
    char *sql = sqlite3_str_finish(w.out);
    if (sql && strlen(sql) < SQL_MAX) database_sql(db, sql);
    sqlite3_free(sql);
  }
  for (unsigned i = 0; i < w.column_count; i++) sqlite3_free(w.columns[i]);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  static const char *const options[] = {"", ", datetimes=integer, enums=code, vectors=blob, unwritten=fill",
                                        ", as_of=50, since=5", ", on_conflict=abort, columns='a'"};
  for (int i = 0; i < 4; i++) {
    char *sql = sqlite3_mprintf(
        "CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), a INT32, " DATABASE_OPTIONS ")");
    CHECK(sql);
    database_make(sql, &images[i]);
    sqlite3_free(sql);
    /* only the options of existing arrays: CREATE refuses some, like as_of, for a new array */
    sql = sqlite3_mprintf("PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = 'CREATE VIRTUAL TABLE t USING "
                          "tessera(x INT32, " DATABASE_OPTIONS "%q)' WHERE name = 't'",
                          options[i]);
    sqlite3 *db = database_open(&images[i]);
    CHECK(sql && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_free(sql);
    sqlite3_free(images[i].bytes);
    images[i].bytes = sqlite3_serialize(db, "main", &images[i].size, 0);
    CHECK(images[i].bytes);
    database_close(db);
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  room r;
  tree t;
  if (size < 3 || size > FUZZ_INPUT) return 0;
  database_note(data, size);
  room_open(&r);
  tsr_input in = tsr__input(data, size);
  image *from = &images[tsr__input_u8(&in) % 4];
  uint64_t sql_size;
  uint8_t wanted = tsr__input_u8(&in);
  const uint8_t *sql = fuzz_take(&in, wanted, &sql_size);
  tree_read(&in, &t);
  sqlite3 *db = database_take(from);
  database_put(db, "t", &t);
  if (tree_key(&t)) {
    sqlite3_stmt *statement;
    CHECK(sqlite3_prepare_v2(db, "SELECT tessera_set_key('db:t', ?1)", -1, &statement, NULL) == SQLITE_OK);
    sqlite3_bind_blob(statement, 1, t.key, TSR_KEY_SIZE, SQLITE_STATIC);
    database_run(db, statement);
    sqlite3_finalize(statement);
  }
  run_statements(db, sql, sql_size);
  database_give(from, !tree_key(&t));
  room_close(&r);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  if (size < 3 || most < 3 || size < 2u + data[1]) return LLVMFuzzerMutate(data, size, most);
  size_t head = 2u + data[1];
  if (fuzz_random(&state) % 2) return head + tree_mutate(data + head, size - head, most - head, &state);
  uint8_t sql[255]; /* the choices of the grammar */
  if (fuzz_random(&state) % 8 == 0) data[0] = (uint8_t)fuzz_random(&state);
  memcpy(sql, data + 2, data[1]);
  size_t more = TSR_MIN(sizeof sql, data[1] + (most - size));
  size_t length = LLVMFuzzerMutate(sql, data[1], more > 0 ? more : 1);
  if (length > sizeof sql || size - head + 2 + length > most) return size;
  memmove(data + 2 + length, data + head, size - head);
  memcpy(data + 2, sql, length);
  data[1] = (uint8_t)length;
  return size - head + 2 + length;
}
