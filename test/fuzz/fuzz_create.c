/* fuzz_create.c: fuzzes the texts and values that SQL passes in: the arguments of CREATE VIRTUAL TABLE, column definitions,
 * the JSON of options and slices, NPY files, and values of every datatype, written and read.
 *
 *   u8 action | the rest: text; for some actions u8 choice, text
 *
 * The database has two tables with every kind of column: `d`, dense, and `s`, sparse.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "database.h"

static image tables;

#define MAKE                                                                                                           \
  "CREATE VIRTUAL TABLE d USING tessera(kind=dense, y INT32 DIMENSION(0, 9, 4), x INT32 DIMENSION(-4, 4, 3),"          \
  " a INT16 NOT NULL DEFAULT -1, f FLOAT32, v FLOAT64[2], b BOOL, c CHAR[3], w DATETIME_MS, " DATABASE_OPTIONS ");"    \
  "CREATE VIRTUAL TABLE dt USING tessera(kind=dense, day DATETIME_HR DIMENSION('2020-01-01', '2020-03-01', 100), hr "  \
  "DATETIME_HR DIMENSION('2020-01-01', '2020-01-09', 50),"                                                             \
  " a INT16, " DATABASE_OPTIONS ");"                                                                                   \
  "CREATE VIRTUAL TABLE s USING tessera(x INT32 DIMENSION(-100, 100, 10), k TEXT DIMENSION, i8 INT8, u8 UINT8, i16 "   \
  "INT16, u16 UINT16,"                                                                                                 \
  " u32 UINT32, i64 INT64, u64 UINT64, f32 FLOAT32, f64 FLOAT64, bo BOOL, ch CHAR, chs CHAR[4], asc ASCII, u TEXT, w " \
  "UTF16, ww UTF32,"                                                                                                   \
  " bl BLOB, wkt GEOM_WKT, yr DATETIME_YEAR, mo DATETIME_MONTH, wk DATETIME_WEEK, dy DATE, hr DATETIME_HR, ms "        \
  "DATETIME_MS, ns DATETIME_NS,"                                                                                       \
  " at DATETIME_AS, th TIME_HR, tn TIME_NS, vec INT16[], v3 FLOAT32[3], e TEXT ENUM('a','b','c'), en INT32 "           \
  "ENUM(1,5), nn INT32 NOT NULL,"                                                                                      \
  " duplicates=yes, " DATABASE_OPTIONS ");"                                                                            \
  "CREATE VIRTUAL TABLE r USING tessera(x INT32 DIMENSION(-100, 100, 10), i8 INT8, u64 UINT64, f32 FLOAT32, u TEXT, "  \
  "w UTF16, dy DATE,"                                                                                                  \
  " ns DATETIME_NS, tn TIME_NS, vec INT16[], v3 FLOAT32[3], e TEXT ENUM('a','b','c'), " DATABASE_OPTIONS               \
  ", datetimes=integer, enums=code, vectors=blob);"                                                                    \
  "CREATE VIRTUAL TABLE cd USING tessera(x INT32 DIMENSION(-100, 100, 10) CURRENT(0, 10), a INT32, " DATABASE_OPTIONS  \
  ");"                                                                                                                 \
  "INSERT INTO d(y, x, a, f) VALUES(1, -2, 7, 0.5), (5, 4, 8, NULL);"                                                  \
  "INSERT INTO dt VALUES('2020-01-02', '2020-01-01 10:00', 1), ('2020-02-02', '2020-01-03 10:00', 5);"                 \
  "INSERT INTO s(x, k, u, e, nn) VALUES(1, 'one', 'text', 'a', 1), (2, 'two', NULL, NULL, 2);"                         \
  "INSERT INTO r(x, i8, u) VALUES(1, 1, 'one'), (2, 2, 'two')"

typedef struct input {
  sqlite3 *db;
  tsr_input in;
} input;

static const char *rest(const input *i) { return (const char *)i->in.data + i->in.at; }
static int rest_size(const input *i) { return (int)tsr__input_left(&i->in); }

/* Binds the rest of the input, as text or as a blob, to the last parameter; the caller binds the others. */
static sqlite3_stmt *prepare(const input *i, const char *sql) {
  sqlite3_stmt *statement;
  CHECK(sqlite3_prepare_v2(i->db, sql, -1, &statement, NULL) == SQLITE_OK);
  return statement;
}

static void run_text(input *i, const char *sql) {
  sqlite3_stmt *statement = prepare(i, sql);
  sqlite3_bind_text(statement, sqlite3_bind_parameter_count(statement), rest(i), rest_size(i), SQLITE_STATIC);
  database_run(i->db, statement);
  sqlite3_finalize(statement);
}

static void run_one_of(input *i, const char *const *statements, unsigned count) {
  run_text(i, statements[tsr__input_u8(&i->in) % count]);
}
#define RUN_ONE_OF(i, ...)                                                                                             \
  do {                                                                                                                 \
    static const char *const statements[] = {__VA_ARGS__};                                                             \
    run_one_of(i, statements, sizeof statements / sizeof *statements);                                                 \
  } while (0)

/* ---- CREATE ----------------------------------------------------------------------------------------------------- */

/* Uses the new table, converts it to SQL by tessera_ddl, and makes it again from that: both must be equal. */
static void create(input *i) {
  sqlite3_str *text = sqlite3_str_new(i->db);
  sqlite3_str_appendall(text, "CREATE VIRTUAL TABLE t USING tessera(");
  sqlite3_str_append(text, rest(i), rest_size(i));
  sqlite3_str_appendall(text, ", " DATABASE_OPTIONS ")");
  char *sql = sqlite3_str_finish(text);
  if (!sql || database_sql(i->db, sql) != SQLITE_DONE) {
    sqlite3_free(sql);
    return;
  }
  sqlite3_free(sql);
  database_sql(i->db, "INSERT INTO t DEFAULT VALUES");
  database_sql(i->db, "SELECT * FROM t");
  database_sql(i->db, "SELECT * FROM tessera_schema('db:t')");
  database_sql(i->db, "SELECT * FROM tessera_check('db:t')");
  sqlite3_stmt *ddl;
  if (sqlite3_prepare_v2(
          i->db, "SELECT replace(tessera_ddl('db:t'), 'CREATE VIRTUAL TABLE \"t\"', 'CREATE VIRTUAL TABLE \"t2\"')", -1,
          &ddl, NULL) != SQLITE_OK)
    return;
  if (sqlite3_step(ddl) == SQLITE_ROW && sqlite3_column_text(ddl, 0) &&
      database_sql(i->db, (const char *)sqlite3_column_text(ddl, 0)) == SQLITE_DONE) {
    sqlite3_stmt *differing = NULL;
    if (sqlite3_prepare_v2(
            i->db,
            "SELECT count(*) FROM (SELECT * FROM tessera_schema('db:t') EXCEPT SELECT * FROM tessera_schema('db:t2'))",
            -1, &differing, NULL) == SQLITE_OK &&
        sqlite3_step(differing) == SQLITE_ROW)
      CHECK(sqlite3_column_int(differing, 0) == 0);
    sqlite3_finalize(differing);
  }
  sqlite3_finalize(ddl);
}

/* ---- Functions -------------------------------------------------------------------------------------------------- */

static void define(input *i) {
  RUN_ONE_OF(i, "SELECT tessera_add_attribute('db:s', ?)", "SELECT tessera_add_attribute('db:d', ?)",
             "SELECT tessera_drop_attribute('db:s', ?)");
  database_sql(i->db, "SELECT * FROM s");
  database_sql(i->db, "SELECT * FROM tessera_schema('db:s')");
}

static void options(input *i) {
  RUN_ONE_OF(i, "SELECT tessera_consolidate('db:s', 'fragments', ?)",
             "SELECT tessera_consolidate('db:d', 'commits', ?)", "SELECT tessera_copy('db:s', 'db:n', ?)",
             "SELECT tessera_copy('db:d', 'db:n', ?)", "SELECT tessera_consolidate('db:s', ?)",
             "SELECT tessera_vacuum('db:s', ?)");
}

static void slices(input *i) {
  RUN_ONE_OF(
      i, "SELECT tessera_npy('db:d', 'a', ?)", "SELECT tessera_npy('db:d', 'v', ?)",
      "SELECT tessera_npy('db:dt', 'a', ?)", "SELECT * FROM tessera_partitions('db:s', 4, ?)",
      "SELECT * FROM tessera_aggregate('db:s', 'nn', ?)", "SELECT * FROM tessera_aggregate('db:d', 'a', NULL, ?)",
      "SELECT * FROM tessera_aggregate('db:s', 'nn', NULL, ?)", "SELECT * FROM tessera_partitions('db:d', 3, ?)",
      "SELECT tessera_write_npy('db:d', 'a', tessera_npy('db:d', 'a'), ?)", "SELECT tessera_expand_domain('db:cd', ?)",
      "SELECT * FROM tessera_aggregate('db:d', ?)", "SELECT tessera_npy('db:d', ?)");
}

/* Fuzzes the options, slices and colours of pictures. */
static void pictures(input *i) {
  RUN_ONE_OF(i, "SELECT tessera_png('db:d', 'a', NULL, ?)", "SELECT tessera_png('db:d', 'f', ?)",
             "SELECT tessera_preview('db:d', 'a', ?)", "SELECT tessera_png('db:dt', 'a', ?)",
             "SELECT tessera_preview('db:d', 'f', ?)", "SELECT tessera_png('db:dt', 'a', NULL, ?)");
}

static void npy(input *i) {
  static const char *const names[] = {"a", "f", "v", "b", "c", "w"};
  const char *name = names[tsr__input_u8(&i->in) % 6];
  char sql[200];
  /* the input is the block of one attribute; blocks for the others, which must be given too, are read from the array */
  snprintf(sql, sizeof sql, "SELECT tessera_write_npy('db:n', '%s', ?, '{\"y\":1}')", name);
  char make[300];
  snprintf(make, sizeof make,
           "CREATE VIRTUAL TABLE n USING tessera(kind=dense, y INT32 DIMENSION(0, 9, 4), %s, " DATABASE_OPTIONS ")",
           !strcmp(name, "a")   ? "a INT16"
           : !strcmp(name, "f") ? "f FLOAT32"
           : !strcmp(name, "v") ? "v FLOAT64[2]"
           : !strcmp(name, "b") ? "b BOOL"
           : !strcmp(name, "c") ? "c CHAR[3]"
                                : "w DATETIME_MS");
  CHECK(database_sql(i->db, make) == SQLITE_DONE);
  sqlite3_stmt *statement = prepare(i, sql);
  sqlite3_bind_blob(statement, 1, rest(i), rest_size(i), SQLITE_STATIC);
  bool written = database_run(i->db, statement) == SQLITE_ROW;
  sqlite3_finalize(statement);
  if (written) {
    CHECK(database_sql(i->db, "SELECT * FROM n") != SQLITE_CORRUPT);
    statement = prepare(i, "SELECT tessera_npy('db:n', ?)");
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    database_run(i->db, statement);
    sqlite3_finalize(statement);
  }
}

static void metadata(input *i) {
  static const char *const datatypes[] = {"INT32", "FLOAT64", "UTF8", "DATETIME_DAY", "BOOL",
                                          "BLOB",  "UINT64",  "CHAR", "nothing"};
  sqlite3_stmt *statement;
  switch (tsr__input_u8(&i->in) % 4) {
  case 0:
    RUN_ONE_OF(i, "SELECT tessera_set_metadata('db:s', 'key', ?)", "SELECT tessera_set_metadata('db:s', ?1, ?1)");
    break;
  case 1:
    RUN_ONE_OF(i, "SELECT tessera_set_metadata('db:s', ?, NULL)", "SELECT tessera_set_metadata('db:s', 'key', 1, ?)");
    break;
  default:
    statement = prepare(i, "SELECT tessera_set_metadata('db:s', 'key', ?2, ?1)");
    sqlite3_bind_text(statement, 1, datatypes[tsr__input_u8(&i->in) % 9], -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, rest(i), rest_size(i), SQLITE_STATIC);
    database_run(i->db, statement);
    sqlite3_finalize(statement);
  }
  database_sql(i->db, "SELECT * FROM tessera_metadata('db:s')");
}

static void labels(input *i) {
  RUN_ONE_OF(i, "SELECT tessera_extend_enumeration('db:s', 'e', 'd', ?)",
             "SELECT tessera_extend_enumeration('db:s', 'en', ?)", "SELECT tessera_extend_enumeration('db:s', ?, 'd')",
             "SELECT * FROM tessera_enumeration('db:s', ?)");
  database_sql(i->db, "INSERT INTO s(x, k, e, nn) VALUES(50, 'enum', 'd', 1)");
  database_sql(i->db, "SELECT e, en FROM s");
}

/* ---- Values ----------------------------------------------------------------------------------------------------- */

/* Binds a value from the input: u8 kind, then 8 bytes, or u8 length and that many bytes. */
static void bind(input *i, sqlite3_stmt *statement, int parameter) {
  uint64_t size;
  double real;
  const uint8_t *bytes;
  switch (tsr__input_u8(&i->in) % 6) {
  case 0: sqlite3_bind_int64(statement, parameter, (sqlite3_int64)tsr__input_u64(&i->in)); return;
  case 1:
    real = tsr__input_f64(&i->in);
    sqlite3_bind_double(statement, parameter, real);
    return;
  case 2: sqlite3_bind_int64(statement, parameter, (int8_t)tsr__input_u8(&i->in)); return;
  case 3:
    bytes = fuzz_take(&i->in, tsr__input_u8(&i->in), &size);
    sqlite3_bind_blob(statement, parameter, size ? (const void *)bytes : "", (int)size, SQLITE_TRANSIENT);
    return;
  default:
    bytes = fuzz_take(&i->in, tsr__input_u8(&i->in), &size);
    sqlite3_bind_text(statement, parameter, size ? (const char *)bytes : "", (int)size, SQLITE_TRANSIENT);
  }
}

/* Most inputs run within a transaction that is rolled back: a commit writes files for many columns and takes ten times as
 * long. */
static bool begin(input *i) {
  return tsr__input_left(&i->in) > 0 && i->in.data[i->in.at] % 4 != 0 && database_sql(i->db, "BEGIN") == SQLITE_DONE;
}

/* Writes a row with the value in one column, and finds the row again by the value that the column then shows. */
static void values(input *i) {
  static const char *const columns[] = {"x",  "k",   "i8",  "u8", "i16", "u16", "u32", "i64", "u64", "f32", "f64", "bo",
                                        "ch", "chs", "asc", "u",  "w",   "ww",  "bl",  "wkt", "yr",  "mo",  "wk",  "dy",
                                        "hr", "ms",  "ns",  "at", "th",  "tn",  "vec", "v3",  "e",   "en"};
  static const char *const raw[] = {"x", "i8", "u64", "f32", "u", "w", "dy", "ns", "tn", "vec", "v3", "e"};
  bool begun = begin(i), other = tsr__input_u8(&i->in) % 3 == 0;
  const char *column = other ? raw[tsr__input_u8(&i->in) % 12] : columns[tsr__input_u8(&i->in) % 34];
  bool is_x = !strcmp(column, "x"), is_k = !strcmp(column, "k");
  char sql[300];
  if (other)
    snprintf(sql, sizeof sql, "INSERT INTO r(%s%s) VALUES(?1%s)", column, is_x ? "" : ", x", is_x ? "" : ", 77");
  else
    snprintf(sql, sizeof sql, "INSERT INTO s(nn, %s%s%s) VALUES(1, ?1%s%s)", column, is_x ? "" : ", x",
             is_k ? "" : ", k", is_x ? "" : ", 77", is_k ? "" : ", 'new'");
  sqlite3_stmt *statement = prepare(i, sql);
  bind(i, statement, 1);
  int code = database_run(i->db, statement);
  sqlite3_finalize(statement);
  if (code == SQLITE_DONE) { /* a value that was accepted reads as a value that finds the row */
    snprintf(
        sql, sizeof sql,
        "SELECT count(*) FROM %s AS o WHERE o.%s IS NOT NULL AND NOT EXISTS (SELECT 1 FROM %s AS p WHERE p.%s = o.%s)",
        other ? "r" : "s", column, other ? "r" : "s", column, column);
    statement = prepare(i, sql);
    if (sqlite3_step(statement) == SQLITE_ROW) CHECK(sqlite3_column_int(statement, 0) == 0);
    sqlite3_finalize(statement);
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s = ?1", other ? "r" : "s", column);
    statement = prepare(i, sql);
    bind(i, statement, 1);
    database_run(i->db, statement);
    sqlite3_finalize(statement);
  }
  if (begun) database_sql(i->db, "ROLLBACK");
}

/* Runs a comparison with pushdown and without. */
static bool is_time(const char *column) {
  static const char *const columns[] = {"yr", "mo", "wk", "dy", "hr", "ms", "ns", "at", "th", "tn"};
  for (unsigned c = 0; c < sizeof columns / sizeof *columns; c++)
    if (strcmp(column, columns[c]) == 0) return true;
  return false;
}

/* A comparison that the table gets must select the rows that SQLite selects. Left out are the comparisons of datetime columns
 * with text that begins with a digit: ISO text is an instant for the table, and text for SQLite. Years after 9999, which are
 * shown as integers, compare with numbers as numbers. */
static void compare(input *i) {
  static const char *const columns[] = {"x",  "k",   "i8",  "u8", "i16", "u16", "u32", "i64", "u64", "f32", "f64", "bo",
                                        "ch", "chs", "asc", "u",  "w",   "ww",  "bl",  "wkt", "yr",  "mo",  "wk",  "dy",
                                        "hr", "ms",  "ns",  "at", "th",  "tn",  "vec", "v3",  "e",   "en"};
  static const char *const operators[] = {"=", "<", "<=", ">", ">=", "IS", "<>", "GLOB", "LIKE", "IS NOT"};
  bool begun = begin(i);
  const char *column = columns[tsr__input_u8(&i->in) % 34], *operator= operators[tsr__input_u8(&i->in) % 10];
  char sql[300];
  snprintf(sql, sizeof sql, "INSERT INTO s(nn, %s%s%s) VALUES(1, ?1%s%s)", column, strcmp(column, "x") ? ", x" : "",
           strcmp(column, "k") ? ", k" : "", strcmp(column, "x") ? ", 77" : "", strcmp(column, "k") ? ", 'new'" : "");
  sqlite3_stmt *statement = prepare(i, sql);
  bind(i, statement, 1);
  database_run(i->db, statement);
  sqlite3_finalize(statement);
  snprintf(sql, sizeof sql,
           "WITH plain AS MATERIALIZED (SELECT * FROM s) SELECT (SELECT count(*) FROM s WHERE %s %s ?1), (SELECT "
           "count(*) FROM s WHERE (%s %s ?1) IS TRUE), "
           "typeof(?1) IN ('integer', 'real') OR (typeof(?1) = 'text' AND ?1 GLOB '[0-9]*')",
           column, operator, column, operator);
  statement = prepare(i, sql);
  bind(i, statement, 1);
  if (sqlite3_step(statement) == SQLITE_ROW && !(sqlite3_column_int(statement, 2) && is_time(column)))
    CHECK(sqlite3_column_int64(statement, 0) == sqlite3_column_int64(statement, 1));
  sqlite3_finalize(statement);
  if (begun) database_sql(i->db, "ROLLBACK");
}

static void times(input *i) {
  RUN_ONE_OF(i, "SELECT count(*) FROM s(?)", "SELECT count(*) FROM d(NULL, ?)",
             "SELECT * FROM tessera_fragments('db:s') WHERE as_of = ?", "SELECT count(*) FROM tessera_array(?)",
             "SELECT * FROM tessera_schema(?)", "SELECT tessera_ddl(?)", "SELECT tessera_set_key('db:s', ?)",
             "SELECT * FROM tessera_check('db:s', ?)");
}

/* Parses and prints ISO text in every unit. */
static void datetimes(input *i) {
  tsr_datatype datatype = (tsr_datatype)(TSR_DATETIME_YEAR + tsr__input_u8(&i->in) % 22);
  char text[48], again[48];
  int64_t value, back;
  tsr_error error = {0};
  if (tsr__input_u8(&i->in) % 2) {
    uint8_t *exact = fuzz_exact(rest(i), (uint64_t)rest_size(i));
    int code = tsr_datetime_parse(datatype, (const char *)exact, (uint64_t)rest_size(i), &value, &error);
    free(exact);
    check_told(code, &error);
    if (code < 0) return;
  } else {
    value = (int64_t)tsr__input_u64(&i->in);
  }
  int size = tsr_datetime_print(datatype, value, text);
  if (size == 0) return;
  CHECK((size_t)size == strlen(text) && size < 48);
  CHECK(tsr_datetime_parse(datatype, text, (uint64_t)size, &back, &error) == TSR_OK && back == value);
  CHECK(tsr_datetime_print(datatype, back, again) == size && !strcmp(text, again));
}

static void (*const actions[])(input *i) = {create, create, create, define,  options, slices,    npy,     metadata,
                                            labels, values, values, compare, times,   datetimes, pictures};

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  database_make(MAKE, &tables);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input i = {0};
  if (size < 2 || size > FUZZ_INPUT) return 0;
  uint8_t *exact = fuzz_exact(data, size);
  i.in = tsr__input(exact, size);
  void (*action)(input *) = actions[tsr__input_u8(&i.in) % (sizeof actions / sizeof *actions)];
  if (action != datetimes) i.db = database_open(&tables);
  action(&i);
  if (i.db) database_close(i.db);
  free(exact);
  return 0;
}
