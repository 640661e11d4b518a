/* threads.c: threads of one process, and one array: connections of their own in a directory and in a database; one connection that
 * all of them use; and a thread that interrupts the others. They write, read, aggregate, consolidate, vacuum, open and close, and
 * look at what they see: of each writer a prefix of its commits, whole ones, never fewer than before. Made for ThreadSanitizer
 * (test/README.md), which sees what its eyes are for in any run; without it the program is a test like others.
 *
 * usage: threads [SECONDS OF EACH SCENARIO]
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITERS     2
#define COMMIT      50 /* rows of a commit */
#define THREADS_MAX 12

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

static _Atomic int failures;

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      failures++;                                                                                                      \
      printf("%s:%d: %s does not hold: ", __FILE__, __LINE__, #condition);                                             \
      printf(__VA_ARGS__);                                                                                             \
      printf("\n");                                                                                                    \
    }                                                                                                                  \
  } while (0)

typedef struct scenario {
  const char *name;
  bool inside, shared, interrupts; /* in the database; one connection for all; with a thread that interrupts */
} scenario;

typedef struct place {
  const scenario *what;
  char folder[200], database[260];
  double until;
  pthread_mutex_t mutex; /* of the open connections */
  sqlite3 *open[THREADS_MAX];
  sqlite3 *shared;
  _Atomic sqlite3_int64 written[WRITERS];
  _Atomic long works;
} place;

typedef struct worker {
  place *p;
  int number, role_number;
  uint64_t chance;
  sqlite3 *db;
} worker;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned below(worker *w, unsigned most) {
  w->chance ^= w->chance << 13;
  w->chance ^= w->chance >> 7;
  w->chance ^= w->chance << 17;
  return (unsigned)(w->chance % most);
}

static void nap(worker *w, unsigned most_microseconds) {
  struct timespec t = {0, 1000L * (long)below(w, most_microseconds)};
  nanosleep(&t, NULL);
}

/* ---- Statements ------------------------------------------------------------------------------------------------- */

/* What another one's lock, vacuum or interrupt stops: it is tried again. */
static bool is_fine(const char *message) {
  static const char *const words[] = {"locked",
                                      "busy",
                                      "was vacuumed during this statement",
                                      "vacuumed during this transaction",
                                      "another connection",
                                      "changed meanwhile",
                                      "schema has changed",
                                      "interrupt",
                                      "within a transaction",
                                      "SQL statements in progress"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(message, words[i])) return true;
  return false;
}

typedef void (*row_reader)(void *argument, sqlite3_stmt *statement);

/* Another thread may use the connection between two calls: code and message are taken at once. */
static int step(sqlite3 *db, sqlite3_stmt *statement, const char *sql) {
  sqlite3_mutex *mutex = sqlite3_db_mutex(db);
  sqlite3_mutex_enter(mutex);
  int code = sqlite3_step(statement);
  if (code != SQLITE_ROW && code != SQLITE_DONE)
    CHECK(is_fine(sqlite3_errmsg(db)), "%s: %s (%d)", sql, sqlite3_errmsg(db), code);
  sqlite3_mutex_leave(mutex);
  return code;
}

static bool run(sqlite3 *db, const char *sql, row_reader row, void *argument) {
  sqlite3_stmt *statement = NULL;
  sqlite3_mutex *mutex = sqlite3_db_mutex(db);
  sqlite3_mutex_enter(mutex);
  int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (code != SQLITE_OK) CHECK(is_fine(sqlite3_errmsg(db)), "%s: %s (%d)", sql, sqlite3_errmsg(db), code);
  sqlite3_mutex_leave(mutex);
  if (code != SQLITE_OK) return false;
  while ((code = step(db, statement, sql)) == SQLITE_ROW)
    if (row) row(argument, statement);
  sqlite3_finalize(statement);
  return code == SQLITE_DONE;
}

static void take_number(void *argument, sqlite3_stmt *statement) {
  *(sqlite3_int64 *)argument = sqlite3_column_int64(statement, 0);
}

static sqlite3 *open_connection(const char *database) {
  sqlite3 *db = NULL;
  int code = sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
  CHECK(code == SQLITE_OK, "%s: %s", database, db ? sqlite3_errmsg(db) : "?");
  sqlite3_busy_timeout(db, 20000);
  return db;
}

static sqlite3 *join_crowd(worker *w) {
  place *p = w->p;
  if (p->shared) return p->shared;
  sqlite3 *db = open_connection(p->database);
  pthread_mutex_lock(&p->mutex);
  p->open[w->number] = db;
  pthread_mutex_unlock(&p->mutex);
  return db;
}

static void leave_crowd(worker *w, sqlite3 *db) {
  place *p = w->p;
  if (p->shared) return;
  pthread_mutex_lock(&p->mutex);
  p->open[w->number] = NULL;
  pthread_mutex_unlock(&p->mutex);
  CHECK(sqlite3_close(db) == SQLITE_OK, "a connection is not closed");
}

/* ---- What they do ----------------------------------------------------------------------------------------------- */

/* Rows (w, n, n * 3 + w) for n = 0, 1, 2, ...; whether a commit that was interrupted is there, the array says. */
static void write_rows(worker *w) {
  place *p = w->p;
  char insert[300], count[100];
  sqlite3_int64 written = 0, found;
  const int id = w->role_number;
  snprintf(count, sizeof count, "SELECT count(*) FROM t WHERE w = %d", id);
  while (now() < p->until ||
         (written == 0 && !p->what->interrupts)) { /* a busy machine may not come to a first commit in time */
    snprintf(insert, sizeof insert,
             "WITH RECURSIVE c(n) AS (VALUES(%lld) UNION ALL SELECT n + 1 FROM c WHERE n < %lld) INSERT INTO t SELECT "
             "%d, n, n * 3 + %d FROM c",
             (long long)written, (long long)written + COMMIT - 1, id, id);
    bool done = run(w->db, insert, NULL, NULL);
    if (!done) {
      if (!run(w->db, count, take_number, &found)) { /* if the query fails now, another one follows later */
        while (now() < p->until + 20 && !run(w->db, count, take_number, &found)) nap(w, 2000);
      }
      CHECK(found == written || found == written + COMMIT, "%lld rows after an interrupted commit of %d on %lld",
            (long long)found, COMMIT, (long long)written);
      done = found > written;
    }
    if (done) written += COMMIT;
    p->written[id] = written;
    p->works += done;
    nap(w, 5000);
  }
}

typedef struct seen {
  sqlite3_int64 count[WRITERS], high[WRITERS], sum[WRITERS];
} seen;

static void take_writer(void *argument, sqlite3_stmt *statement) {
  seen *s = argument;
  const int id = sqlite3_column_int(statement, 0);
  if (id < 0 || id >= WRITERS) {
    CHECK(false, "a row of writer %d", id);
    return;
  }
  s->count[id] = sqlite3_column_int64(statement, 1);
  s->high[id] = sqlite3_column_int64(statement, 2);
  s->sum[id] = sqlite3_column_int64(statement, 3);
}

static void compare(const seen *s, seen *before) {
  for (int id = 0; id < WRITERS; id++) {
    const sqlite3_int64 n = s->count[id];
    CHECK(n % COMMIT == 0, "%lld rows are no whole commits", (long long)n);
    CHECK(n == 0 || s->high[id] == n - 1, "%lld rows up to %lld", (long long)n, (long long)s->high[id]);
    CHECK(s->sum[id] == n * (n - 1) / 2 * 3 + id * n, "the sum of %lld rows is %lld", (long long)n,
          (long long)s->sum[id]);
    CHECK(n >= before->count[id], "%lld rows, there were %lld", (long long)n, (long long)before->count[id]);
  }
  *before = *s;
}

static void read_rows(worker *w) {
  static const char *const questions[] = {
      "SELECT w, count(*), max(n), sum(c) FROM t GROUP BY w",
      "SELECT w, count(*), max(n), sum(c) FROM (SELECT * FROM t ORDER BY n DESC, w) GROUP BY w",
      "SELECT w, count(*), max(n), sum(c) FROM t WHERE c >= 0 AND n >= 0 GROUP BY w"};
  seen before = {0};
  while (now() < w->p->until) {
    seen s = {0};
    if (run(w->db, questions[below(w, 3)], take_writer, &s)) compare(&s, &before), w->p->works++;
    nap(w, 1000);
  }
}

/* All that looks at the array in other ways, and at what others do. */
static void look(worker *w) {
  static const char *const questions[] = {"SELECT * FROM tessera_aggregate('db:t', 'c', NULL, 'w')",
                                          "SELECT * FROM tessera_fragments('db:t')",
                                          "SELECT * FROM tessera_progress",
                                          "SELECT * FROM tessera_stats",
                                          "SELECT * FROM tessera_schema('db:t')",
                                          "SELECT * FROM tessera_partitions('db:t', 4)",
                                          "SELECT * FROM tessera_check('db:t') WHERE severity = 'error'",
                                          "SELECT tessera_set_metadata('db:t', 'k', 1)",
                                          "SELECT * FROM tessera_metadata('db:t')"};
  while (now() < w->p->until) {
    w->p->works += run(w->db, questions[below(w, sizeof questions / sizeof *questions)], NULL, NULL);
    nap(w, 2000);
  }
}

static void tend(worker *w) {
  static const char *const works[] = {
      "SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits')",
      "SELECT tessera_consolidate('db:t', 'fragment_meta')", "SELECT tessera_vacuum('db:t')",
      "SELECT tessera_consolidate('db:t', 'array_meta')"};
  while (now() < w->p->until) {
    w->p->works += run(w->db, works[below(w, sizeof works / sizeof *works)], NULL, NULL);
    nap(w, 50000);
  }
}

/* Connections that come and go. */
static void visit(worker *w) {
  sqlite3_int64 count;
  while (now() < w->p->until) {
    sqlite3 *db = open_connection(w->p->database);
    run(db, "SELECT count(*) FROM t", take_number, &count);
    CHECK(sqlite3_close(db) == SQLITE_OK, "a connection is not closed");
    w->p->works++;
    nap(w, 20000);
  }
}

static void interrupt(worker *w) {
  place *p = w->p;
  while (now() < p->until) {
    pthread_mutex_lock(&p->mutex);
    sqlite3 *db = p->shared ? p->shared : p->open[below(w, THREADS_MAX)];
    if (db) sqlite3_interrupt(db);
    pthread_mutex_unlock(&p->mutex);
    nap(w, 10000);
  }
}

typedef struct role {
  void (*work)(worker *w);
  bool connected;
  int threads;
} role;
static const role roles[] = {{write_rows, true, WRITERS}, {read_rows, true, 2}, {look, true, 1}, {tend, true, 1},
                             {visit, false, 1},           {interrupt, false, 1}};

typedef struct start {
  worker w;
  const role *r;
} start;

static void *work(void *argument) {
  start *s = argument;
  if (s->r->connected) s->w.db = join_crowd(&s->w);
  s->r->work(&s->w);
  if (s->r->connected) leave_crowd(&s->w, s->w.db);
  return NULL;
}

/* ---- Scenarios -------------------------------------------------------------------------------------------------- */

static void look_after(place *p) {
  sqlite3 *db = p->shared ? p->shared : open_connection(p->database);
  seen s = {0}, before = {0};
  CHECK(run(db, "SELECT w, count(*), max(n), sum(c) FROM t GROUP BY w", take_writer, &s), "the last look");
  compare(&s, &before);
  for (int id = 0; id < WRITERS; id++)
    CHECK(s.count[id] == p->written[id], "writer %d has %lld rows, it wrote %lld", id, (long long)s.count[id],
          (long long)p->written[id]);
  sqlite3_int64 faults = -1;
  CHECK(run(db, "SELECT count(*) FROM tessera_check('db:t') WHERE severity = 'error'", take_number, &faults) &&
            faults == 0,
        "%lld faults", (long long)faults);
  CHECK(sqlite3_close(db) == SQLITE_OK, "a connection is not closed");
}

static void play(const scenario *what, double seconds) {
  place p = {.what = what, .until = now() + seconds};
  static start starts[THREADS_MAX];
  pthread_t threads[THREADS_MAX];
  int count = 0;
  pthread_mutex_init(&p.mutex, NULL);
  snprintf(p.folder, sizeof p.folder, "%s/threads.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  if (!mkdtemp(p.folder)) {
    CHECK(false, "no directory %s", p.folder);
    return;
  }
  snprintf(p.database, sizeof p.database, "%s/a.db", p.folder);
  sqlite3 *db = open_connection(p.database);
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE t USING tessera(%s%s%sw INT32 DIMENSION(0, 9, 1), n INT64 "
                              "DIMENSION(0, 999999999, 1000), c INT64,"
                              " capacity=64, threads=4)",
                              what->inside ? "" : "'", what->inside ? "" : p.folder, what->inside ? "" : "/array', ");
  CHECK(run(db, "PRAGMA journal_mode = WAL", NULL, NULL) && run(db, "PRAGMA synchronous = OFF", NULL, NULL) &&
            run(db, sql, NULL, NULL),
        "no table");
  sqlite3_free(sql);
  if (what->shared) p.shared = db;
  else CHECK(sqlite3_close(db) == SQLITE_OK, "a connection is not closed");
  for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
    if (roles[r].work == interrupt && !what->interrupts) continue;
    for (int i = 0; i < roles[r].threads; i++, count++) {
      starts[count] = (start){
          {.p = &p, .number = count, .role_number = i, .chance = 88172645463325252u + (unsigned)count}, &roles[r]};
      if (pthread_create(&threads[count], NULL, work, &starts[count]) != 0) abort();
    }
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  printf("%s: %d threads, %ld statements, %lld and %lld rows\n", what->name, count, p.works, (long long)p.written[0],
         (long long)p.written[1]);
  fflush(stdout);
  CHECK(what->interrupts || (p.written[0] > 0 && p.written[1] > 0), "nothing was written");
  look_after(&p);
  char remove[300];
  snprintf(remove, sizeof remove, "rm -rf '%s'", p.folder);
  CHECK(system(remove) == 0, "%s", remove);
  pthread_mutex_destroy(&p.mutex);
}

int main(int count, char **arguments) {
  static const scenario scenarios[] = {{"a directory", false, false, false},
                                       {"inside the database", true, false, false},
                                       {"one connection, a directory", false, true, false},
                                       {"one connection, inside the database", true, true, false},
                                       {"a directory, interrupted", false, false, true},
                                       {"inside the database, interrupted", true, false, true},
                                       {"one connection, interrupted", false, true, true}};
  const double seconds = count > 1 ? atof(arguments[1]) : 1;
  CHECK(sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init) == SQLITE_OK, "no extension");
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) play(&scenarios[i], seconds);
  printf(failures ? "%d failures\n" : "all is well\n", failures);
  sqlite3_reset_auto_extension();
  return failures != 0;
}
