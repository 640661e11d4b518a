/* allocation.c: every allocation of a session fails, one after the other: the statement fails with SQLITE_NOMEM or
 * gives the right rows, the connection goes on, and nothing is left when it is closed.
 *
 * SQLite's allocator is the extension's, too; it is replaced by one that counts. Each run lets the n-th allocation
 * fail, or all from the n-th on.
 *
 * usage: allocation CORPUS [STEP]      runs for n = 1, 1 + STEP, ... without STEP about 500 of them a script
 */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

/* ---- The allocator -------------------------------------------------------------------------------------------------
 */

static sqlite3_mem_methods real;
static atomic_long allocations, fail_from, fail_to; /* [from, to) fail */
static atomic_long failed;
static sqlite3_int64 idle; /* bytes that SQLite holds where no connection is open */

static int fails(void) {
  long n = atomic_fetch_add(&allocations, 1) + 1;
  if (n < atomic_load(&fail_from) || n >= atomic_load(&fail_to)) return 0;
  atomic_fetch_add(&failed, 1);
  return 1;
}

static void *counted_malloc(int size) { return fails() ? NULL : real.xMalloc(size); }
static void *counted_realloc(void *p, int size) { return fails() ? NULL : real.xRealloc(p, size); }

/* ---- One session ---------------------------------------------------------------------------------------------------
 */

#define ROWS_MOST 40000 /* bytes of a session's rows as text */

typedef struct session {
  char rows[ROWS_MOST];
  size_t size;
  int out_of_memory; /* statements that failed so */
  const char *problem;
  char detail[4000];
} session;

static int add_row(void *argument, int count, char **values, char **names) {
  session *s = argument;
  (void)names;
  for (int i = 0; i < count; i++) {
    int n = snprintf(s->rows + s->size, ROWS_MOST - s->size, "%s|", values[i] ? values[i] : "NULL");
    if (n < 0 || (size_t)n >= ROWS_MOST - s->size) return 1;
    s->size += (size_t)n;
  }
  return 0;
}

/* Does the text end with words that stand for this? Where memory is short, SQLite's own messages may get lost. */
static int is_memory(int code, const char *message) {
  return code == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM || (message && strstr(message, "memory"));
}

static void execute(session *s, sqlite3 *db, const char *sql) {
  char *message = NULL;
  int code = sqlite3_exec(db, sql, add_row, s, &message);
  if (code != SQLITE_OK) {
    if (is_memory(code, message)) s->out_of_memory++;
    else if (!s->out_of_memory && !s->problem) { /* later ones may follow from the first: no such table */
      s->problem = "a statement failed otherwise";
      snprintf(s->detail, sizeof s->detail, "%d %.1000s: %.2000s", code, message ? message : "", sql);
    }
  }
  sqlite3_free(message);
}

static void run(session *s, const char *const *script, const char *corpus) {
  sqlite3 *db = NULL;
  memset(s, 0, sizeof *s);
  if (sqlite3_open(":memory:", &db) == SQLITE_OK) {
    if (sqlite3_errcode(db) != SQLITE_OK) s->out_of_memory++; /* the extension could not be set up */
    for (int i = 0; script[i]; i++) {
      char sql[2000];
      snprintf(sql, sizeof sql, script[i], corpus);
      execute(s, db, sql);
    }
  } else {
    s->out_of_memory++;
  }
  if (sqlite3_close(db) != SQLITE_OK) s->problem = "the connection did not close";
  if (sqlite3_memory_used() != idle && !s->problem) {
    s->problem = "memory was not given back";
    snprintf(s->detail, sizeof s->detail, "%lld bytes", (long long)(sqlite3_memory_used() - idle));
  }
}

static const char *const sparse[] = {
    "CREATE VIRTUAL TABLE t USING tessera('%s/new/timetravel/sparse', threads=3)",
    "CREATE TABLE p(r, c)",
    "INSERT INTO p VALUES(1, 2), (3, 3), (8, 8)",
    "SELECT count(*), sum(r), max(a), min(written_at) FROM t",
    "SELECT rowid > 0, r, c, a FROM t WHERE r IN (1, 3, '5', NULL, 7) AND c > 2 ORDER BY 2, 3",
    "SELECT p.r, a FROM p LEFT JOIN t ON t.r = p.r AND t.c = p.c",
    "SELECT (SELECT count(*) FROM t(p.r * 100)) FROM p",
    "SELECT count(*) FROM t('1970-01-01 00:00:00.300', 100) WHERE as_of IS NOT NULL",
    "ALTER TABLE t RENAME TO u",
    "SELECT count(*) FROM u",
    "DROP TABLE u",
    "SELECT name FROM sqlite_master",
    NULL};

static const char *const dense[] = {
    "CREATE VIRTUAL TABLE t USING tessera('%s/new/timetravel/dense', threads=2, memory_mb=8, as_of=500, "
    "columns='c,a,r')",
    "SELECT count(*), sum(r), max(a), min(written_at) FROM t",
    "SELECT r, c, a FROM t WHERE (r = 3 AND c = 3) OR c = 4 ORDER BY 1, 2",
    "SELECT x.r, y.a FROM t x JOIN t y ON x.r = y.c WHERE x.c = 4 ORDER BY 1, 2 LIMIT 9",
    "DROP TABLE t",
    NULL};

static const char *const texts[] = {
    "CREATE VIRTUAL TABLE s USING tessera('%s/new/sparse/string_2d')",
    "SELECT * FROM s WHERE k >= 'a' AND l GLOB 'b*' OR k IN ('x', 'alpha', '')",
    "CREATE VIRTUAL TABLE e USING tessera('%s/new/enums/sparse')",
    "SELECT * FROM e",
    "CREATE VIRTUAL TABLE v USING tessera('%s/new/sparse/var_numeric_attrs')",
    "SELECT * FROM v WHERE x < 20",
    "CREATE VIRTUAL TABLE d USING tessera('%s/new/evolution/add_drop_sparse', as_of=12)",
    "SELECT count(*) FROM d",
    "CREATE VIRTUAL TABLE n USING tessera('%s/new/odd/names', columns='\"a,b\"')",
    "SELECT * FROM n",
    NULL};

static const char *const inside[] = {"SELECT * FROM tessera_array('%s/new/timetravel/sparse')",
                                     "SELECT * FROM tessera_schema('%s/new/enums/sparse')",
                                     "SELECT * FROM tessera_fragments('%s/new/timetravel/dense')",
                                     "SELECT * FROM tessera_tiles('%s/new/timetravel/sparse') LIMIT 20",
                                     "SELECT * FROM tessera_objects('%s/new/groups') LIMIT 10",
                                     "SELECT tessera_ddl('%s/new/timetravel/sparse')",
                                     "SELECT name FROM tessera_stats",
                                     NULL};

/* In a directory that is empty before each run. */
static const char *const creating[] = {
    "CREATE VIRTUAL TABLE w USING tessera('%s/w', kind=dense, x INT32 DIMENSION(1, 10, 5) FILTERS(double_delta, "
    "zstd(3)), a TEXT ENUM('p', 'q') DEFAULT 'q', b INT32[2] DEFAULT '[1, 2]', c UTF16 NOT NULL DEFAULT 'e')",
    "BEGIN",
    "CREATE VIRTUAL TABLE v USING tessera('%s/above/v', x TEXT DIMENSION CURRENT('a', 'z'), duplicates=yes, "
    "y DATE DIMENSION('2024-01-01', '2024-12-31', 7), offsets_filters=(chunk(1000), gzip(2)), format_version=22)",
    "SELECT count(*) FROM v",
    "SAVEPOINT s",
    "CREATE VIRTUAL TABLE u USING tessera('%s/u', x INT DIMENSION, a FLOAT NOT NULL, format_version=3)",
    "ROLLBACK TO s",
    "CREATE VIRTUAL TABLE u USING tessera('%s/u', x INT DIMENSION, format_version=12)",
    "COMMIT",
    "SELECT tessera_ddl('db:v')",
    "SELECT tessera_ddl('db:w')",
    "DROP TABLE u",
    NULL};

static const char *const writing[] = {
    "CREATE TABLE o(x)",
    "CREATE VIRTUAL TABLE t USING tessera('%s/t', x INT DIMENSION(0, 1000), a INT, s TEXT)",
    "CREATE VIRTUAL TABLE d USING tessera('%s/d', kind=dense, x INT DIMENSION(1, 8, 2), y INT DIMENSION(1, 8, 2), a "
    "INT)",
    "INSERT INTO t VALUES(1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')",
    "BEGIN",
    "INSERT INTO t SELECT x + 100, a, s FROM t",
    "INSERT INTO o VALUES(1)",
    "SAVEPOINT s",
    "UPDATE t SET a = a + 1 WHERE x > 2",
    "DELETE FROM t WHERE x = 1",
    "SELECT * FROM t ORDER BY x",
    "ROLLBACK TO s",
    "DELETE FROM t WHERE x = 2",
    "UPDATE t SET x = x + 500 WHERE x = 3",
    "INSERT INTO d VALUES(1, 1, 11), (7, 2, 72), (8, 2, 82)",
    "COMMIT",
    "SELECT * FROM t ORDER BY x",
    "SELECT * FROM d WHERE a IS NOT NULL",
    "BEGIN",
    "INSERT INTO t VALUES(9, 9, 'gone')",
    "ROLLBACK",
    "SELECT count(*), (SELECT count(*) FROM o) FROM t",
    NULL};

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)status;
  (void)kind;
  return at->level ? remove(path) : 0;
}

static void clean(const char *const *script, const char *folder) {
  if (script == creating || script == writing) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int run_all(const char *name, const char *const *script, const char *corpus, long step) {
  static session wanted, got;
  int problems = 0;
  atomic_store(&fail_from, 0);
  atomic_store(&fail_to, 0);
  run(&wanted, script, corpus); /* once more: what is made once for the process is there then */
  clean(script, corpus);
  atomic_store(&allocations, 0);
  run(&wanted, script, corpus);
  long total = atomic_load(&allocations), runs = 0;
  if (wanted.problem || wanted.out_of_memory) {
    printf("%s: without failures: %s %s\n", name, wanted.problem ? wanted.problem : "out of memory", wanted.detail);
    return 1;
  }
  if (step <= 0) step = 1 + total / 500;
  for (int all = 0; all < 2; all++) {
    for (long n = 1 + all + (all ? step / 2 : 0); n <= total && problems < 10; n += step, runs++) {
      clean(script, corpus);
      atomic_store(&allocations, 0);
      atomic_store(&failed, 0);
      atomic_store(&fail_from, n);
      atomic_store(&fail_to, all ? 1L << 60 : n + 1);
      run(&got, script, corpus);
      atomic_store(&fail_to, 0);
      if (!got.problem && !got.out_of_memory && strcmp(got.rows, wanted.rows)) {
        got.problem = "other rows";
        size_t same = 0;
        while (got.rows[same] && got.rows[same] == wanted.rows[same]) same++;
        same -= same < 40 ? same : 40;
        snprintf(got.detail, sizeof got.detail, "%.200s ... not %.200s", got.rows + same, wanted.rows + same);
      }
      if (!got.problem && all && atomic_load(&failed) && !got.out_of_memory && n < total / 2)
        got.problem = "no failure at all";
      if (!got.problem) continue;
      problems++;
      printf("%s, allocation %ld of %ld fails%s: %s %s\n", name, n, total, all ? ", and all after it" : "", got.problem,
             got.detail);
    }
  }
  printf("%s: %ld allocations, %ld runs, %d problems\n", name, total, runs, problems);
  return problems;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0); /* sanitizers end the process without flushing it */
  const long step = argc > 2 ? atol(argv[2]) : 0;
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real);
  sqlite3_mem_methods counted = real;
  counted.xMalloc = counted_malloc;
  counted.xRealloc = counted_realloc;
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &counted) != SQLITE_OK ||
      sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK)
    return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  idle = sqlite3_memory_used();
  int problems = run_all("sparse", sparse, argv[1], step) + run_all("dense", dense, argv[1], step) +
                 run_all("texts", texts, argv[1], step) + run_all("inside", inside, argv[1], step);
  char folder[] = P_tmpdir "/tessera-allocation-XXXXXX";
  if (!mkdtemp(folder)) return 2;
  problems += run_all("creating", creating, folder, step);
  clean(creating, folder);
  problems += run_all("writing", writing, folder, step);
  clean(writing, folder);
  rmdir(folder);
  sqlite3_reset_auto_extension();
  return problems != 0;
}
