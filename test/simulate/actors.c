/* actors.c: what the processes of a world do (world.h), and what everybody must find at its end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bucket.h"
#include "follow.h"
#include "model.h"
#include "world.h"

enum {
  TRANSACTION,
  LOOK,
  LOOK_BACK,
  CONSOLIDATE,
  CONSOLIDATE_FILES,
  VACUUM,
  UPKEEP,
  RECOVER,
  BOOKMARK,
  EVOLVE,
  SYNC,
  FEED,
  REVERT,
  REOPEN,
  WAIT,
  DEEDS
};
#define MS INT64_C(1000000)

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* The arrays are numbered: those in directories that all databases share, then two for each machine: a dense one in a
 * directory, and a sparse one in the database. Merged dense fragments have no times of cells, so dense arrays need clocks that
 * nobody sets, and one database writes each: its lock gives the commits their order. */
static bool table_is_inside(int array) { return array >= SHARED_MAX && (array - SHARED_MAX) % 2 == 1; }
bool table_is_dense(int array) { return array >= SHARED_MAX && array < COPY(0) && (array - SHARED_MAX) % 2 == 0; }

const char *table_name(int array) {
  static const char *const names[ARRAYS_MAX] = {"t0", "t1", "t2", "d0", "w0", "d1", "w1", "d2",
                                                "w2", "d3", "w3", "c0", "c1", "c2", "c3"};
  return names[array];
}

const char *location(int array) {
  static char path[60];
  const bool far = the.remote & 1u << array;
  snprintf(path, sizeof path, "%s/%s", far ? BUCKET : DISK_ROOT, table_name(array));
  if (array >= COPY(0)) snprintf(path + strlen(path), 10, "_%d", follow_number(array) % 1000);
  return path;
}

bool table_of(int home, int array) {
  return array < SHARED_MAX
             ? array < the.shared_count
             : array < COPY(0) && (array - SHARED_MAX) / 2 == home && (the.steady || !table_is_dense(array));
}

static int any_table(int home) {
  for (;;) {
    const int array = (int)chance(COPY(0));
    if (table_of(home, array)) return array;
  }
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

bool is_busy(int code) { return (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED; }

/* Ends the program if a statement fails for no reason. SQLITE_ABORT: what it worked on was merged or vacuumed meanwhile. */
void actor_judge(const actor *a, int code, const char *sql, const char *message) {
  if (code == SQLITE_OK || code == SQLITE_ABORT || is_busy(code) || a->dead || a->trouble) return;
  fail("actor %d: %s: error %d, %s", a->number, sql, code, message);
}

static int run_text(actor *a, text *rows, char **complaint, char *sql) {
  char *message = NULL;
  text mine = {0};
  const int code = text_query(a->db, sql, false, rows ? rows : &mine, &message);
  const text *got = rows ? rows : &mine;
  say("actor %d: %s: %d %s %.60s", a->number, sql, code, message ? message : "", got->bytes ? got->bytes : "");
  trace((uint64_t)code);
  for (size_t i = 0; i < got->size; i++) trace((uint8_t)got->bytes[i]);
  if (complaint) *complaint = message;
  else {
    actor_judge(a, code, sql, message ? message : "");
    sqlite3_free(message);
  }
  text_free(&mine);
  sqlite3_free(sql);
  return code;
}

int actor_run(actor *a, text *rows, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *sql = sqlite3_vmprintf(format, arguments);
  va_end(arguments);
  return run_text(a, rows, NULL, sql);
}

int actor_try(actor *a, text *rows, char **message, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *sql = sqlite3_vmprintf(format, arguments);
  va_end(arguments);
  return run_text(a, rows, message, sql);
}

int64_t number_in(const text *rows) { return rows->bytes ? atoll(rows->bytes) : 0; }

/* ---- Connections ------------------------------------------------------------------------------------------------- */

static void close_database(actor *a) {
  if (a->db && sqlite3_close(a->db) != SQLITE_OK) fail("actor %d: the connection does not close", a->number);
  a->db = NULL;
  a->trouble = false;
}

/* The bucket's server is a machine of this name, for the engine. Few tries, so that a COMMIT meets their end. */
const char *const world_reach =
    "SELECT tessera_configure('" BUCKET
    "', '{\"endpoint\":\"http://127.0.0.1:9\",\"key_id\":\"k\",\"secret\":\"s\",\"retries\":3}')";

static void open_database(actor *a) {
  char path[40];
  snprintf(path, sizeof path, DISK_ROOT "/m%d.db", a->home);
  const int code = sqlite3_open(path, &a->db);
  actor_judge(a, code, "open", sqlite3_errmsg(a->db));
  sqlite3_busy_timeout(a->db, (int)chance(400));
  if (code != SQLITE_OK) close_database(a);
  else if ((the.extra && actor_run(a, NULL, "PRAGMA synchronous=EXTRA") != SQLITE_OK) ||
           actor_run(a, NULL, "PRAGMA cache_size=%d", the.cached) != SQLITE_OK ||
           (the.remote && actor_run(a, NULL, "%s", world_reach) != SQLITE_OK))
    close_database(a);
}

static void add_unknown(actor *a, int txn) {
  a->unknown = realloc(a->unknown, (size_t)(a->unknown_count + 1) * sizeof(int));
  if (!a->unknown) abort();
  a->unknown[a->unknown_count++] = txn;
  model_settle(txn, UNKNOWN);
}

void note_unknown(int home, int txn) {
  int i = 0;
  while (the.actors[i].home != home || the.actors[i].finished) i++;
  add_unknown(&the.actors[i], txn);
}

/* Finds out whether transactions with an error in COMMIT, or a crash, were committed. */
static bool resolve(actor *a) {
  while (a->unknown_count) {
    text rows = {0};
    const int txn = a->unknown[a->unknown_count - 1];
    const int code = actor_run(a, &rows, "SELECT count(*) FROM o WHERE id = %d", txn);
    if (code == SQLITE_OK) {
      a->unknown_count--;
      model_settle(txn, number_in(&rows) ? COMMITTED : ABORTED);
      model_fragile(txn);
    }
    text_free(&rows);
    if (code != SQLITE_OK) return false;
  }
  return true;
}

/* ---- Transactions ------------------------------------------------------------------------------------------------ */

typedef struct draft { /* what a transaction has done to one array */
  bool written[KEYS], deleted[KEYS];
  bool touched;
} draft;

static int write_keys(actor *a, int array, int txn, draft *d) {
  const int first = (int)chance(KEYS), n = 1 + (int)chance(one_in(4) ? 12 : 3);
  text values = {0};
  for (int i = 0; i < n && first + i < KEYS; i++) {
    text_add(&values, "%s(%d, %u, %d)", i ? ", " : "", first + i, chance(1000), txn);
    d->written[first + i] = true;
  }
  const int code = actor_run(a, NULL, "INSERT INTO %s(x, a, id) VALUES%s", table_name(array), values.bytes);
  text_free(&values);
  return code;
}

static int delete_key(actor *a, int array, draft *d) {
  const int key = (int)chance(KEYS);
  if (d->written[key] || table_is_dense(array)) return SQLITE_OK;
  const int code = actor_run(a, NULL, "DELETE FROM %s WHERE x = %d", table_name(array), key);
  if (code == SQLITE_OK && sqlite3_changes(a->db) > 0) d->deleted[key] = true;
  return code;
}

static int update_keys(actor *a, int array, int txn, draft *d) {
  const int first = (int)chance(KEYS), last = first + (int)chance(6);
  for (int i = first; i <= last && i < KEYS; i++) d->written[i] = true;
  return actor_run(a, NULL, "UPDATE %s SET a = %u, id = %d WHERE x BETWEEN %d AND %d AND id IS NOT NULL",
                   table_name(array), chance(1000), txn, first, last < KEYS ? last : KEYS - 1);
}

static int change_once(actor *a, int array, int txn, draft *d) {
  switch (chance(3)) {
  case 0: return write_keys(a, array, txn, d);
  case 1: {
    const int code = delete_key(a, array, d);
    return code == SQLITE_OK ? delete_key(a, array, d) : code;
  }
  default: return update_keys(a, array, txn, d);
  }
}

static int change(actor *a, int array, int txn, draft *d) {
  int code = SQLITE_OK;
  d->touched = true;
  for (unsigned n = 1 + chance(3); n-- > 0 && code == SQLITE_OK;) {
    if (!one_in(6)) {
      code = change_once(a, array, txn, d);
      continue;
    }
    draft kept = *d;
    code = actor_run(a, NULL, "SAVEPOINT s");
    if (code == SQLITE_OK) code = change_once(a, array, txn, d);
    const bool back = one_in(2);
    if (code == SQLITE_OK) code = actor_run(a, NULL, back ? "ROLLBACK TO s" : "RELEASE s");
    if (code == SQLITE_OK && back) code = actor_run(a, NULL, "RELEASE s");
    if (back) memcpy(d->deleted, kept.deleted, sizeof d->deleted);
  }
  if (code == SQLITE_OK)
    code = actor_run(a, NULL, "INSERT INTO %s(x, a, id) VALUES(%d, 0, %d)", table_name(array), TAG(txn), txn);
  return code;
}

/* Tells the model what the transaction will leave: the rows that bear its number, and what it has deleted and not written. */
static int hand_in(actor *a, int array, int txn, const draft *d) {
  text rows = {0};
  bool written[KEYS] = {0};
  const int code = actor_run(a, &rows, "SELECT x, a FROM %s WHERE id = %d AND x < %d", table_name(array), txn, KEYS);
  int key, value, used;
  for (const char *at = rows.bytes; at && sscanf(at, "%d|%d| %n", &key, &value, &used) == 2; at += used) {
    if (key < 0 || key >= KEYS || written[key]) fail("%s shows a transaction the cell %d", table_name(array), key);
    written[key] = true;
    model_add(array, (version){.txn = txn, .key = key, .value = value, .shows = txn});
  }
  text_free(&rows);
  for (key = 0; key < KEYS && code == SQLITE_OK; key++)
    if (d->deleted[key] && !written[key])
      model_add(array, (version){.txn = txn, .key = key, .deleted = true, .shows = txn});
  model_touch(txn, array);
  return code;
}

/* Returns SQLite's code of the last COMMIT, and *tried. */
static int commit(actor *a, int txn, bool *tried) {
  int code = SQLITE_BUSY;
  *tried = true;
  model_order(txn);
  for (int i = 0; i < 4 && is_busy(code) && !a->dead; i++) {
    if (i) actor_sleep(chance(100) * MS);
    a->delicate = true;
    the.moves++;
    code = actor_run(a, NULL, "COMMIT");
    a->delicate = false;
  }
  return code;
}

/* What becomes of a transaction after its last statement. */
static void conclude(actor *a, int txn, int code, bool trouble, bool gives_up) {
  bool tried = false;
  if (code == SQLITE_OK && !gives_up) code = commit(a, txn, &tried);
  if (a->dead && tried) { /* whatever SQLite has said, nobody has heard it */
    add_unknown(a, txn);
    return;
  }
  if (code == SQLITE_OK && tried) {
    model_settle(txn, COMMITTED);
    if (trouble || a->trouble) {
      if (!the.extra) model_fragile(txn);
      return;
    }
    model_published_one(txn);
    model_durable(a->home);
    return;
  }
  const bool surely = !tried || is_busy(code);
  if (!a->dead && !sqlite3_get_autocommit(a->db)) code = actor_run(a, NULL, "ROLLBACK");
  if (surely) model_settle(txn, ABORTED);
  else add_unknown(a, txn);
}

static void transact(actor *a) {
  draft drafts[ARRAYS_MAX] = {0};
  const int txn = model_new(a->home);
  const bool trouble = a->trouble;
  int code = actor_run(a, NULL, one_in(2) ? "BEGIN IMMEDIATE" : "BEGIN");
  if (code == SQLITE_OK) code = actor_run(a, NULL, "INSERT INTO o VALUES(%d)", txn);
  for (unsigned n = 1 + chance(2); n-- > 0 && code == SQLITE_OK;) {
    const int array = any_table(a->home);
    if (!drafts[array].touched) code = change(a, array, txn, &drafts[array]);
  }
  bool outside = the.extra; /* otherwise SQLite makes a commit durable only if an array in a directory takes part */
  for (int i = 0; i < COPY(0); i++) outside |= drafts[i].touched && !table_is_inside(i);
  if (!outside && code == SQLITE_OK) code = change(a, 0, txn, &drafts[0]);
  for (int i = 0; i < ARRAYS_MAX && code == SQLITE_OK; i++)
    if (drafts[i].touched) code = hand_in(a, i, txn, &drafts[i]);
  conclude(a, txn, code, trouble, one_in(12));
}

/* Reads the cells that are written again and again. `where`: a further condition. */
static int read_cells(actor *a, const char *table, const char *where, int cells[KEYS][2]) {
  text rows = {0};
  for (int i = 0; i < KEYS; i++) cells[i][0] = cells[i][1] = -1;
  const int code = actor_run(a, &rows, "SELECT x, a, id FROM %s WHERE x < %d%s", table, KEYS, where);
  int key, value, txn, used;
  for (const char *at = rows.bytes; at && sscanf(at, "%d|%d|%d| %n", &key, &value, &txn, &used) == 3; at += used) {
    if (key < 0 || key >= KEYS || cells[key][1] >= 0) fail("%s has the cell %d twice", table, key);
    cells[key][0] = value;
    cells[key][1] = txn;
  }
  text_free(&rows);
  return code;
}

/* Whether no other process commits or maintains an array, and nothing is under way to the bucket. */
static bool nobody_commits(const actor *a) {
  for (int i = 0; i < the.actor_count; i++)
    if (&the.actors[i] != a && the.actors[i].delicate) return false;
  return !bucket_is_busy();
}

/* Writes an earlier state over the cells that are written again and again, and leaves the tags. Others may commit between the
 * statements: if so, it cannot be known what the revert has deleted, and *known is false. */
static int change_back(actor *a, int array, int txn, int64_t moment, bool *known) {
  int before[KEYS][2], past[KEYS][2], own[KEYS][2], after[KEYS][2];
  int64_t changed = 0;
  char then[60];
  const long moves = the.moves;
  const bool quiet = nobody_commits(a);
  text rows = {0};
  snprintf(then, sizeof then, "%s(%lld)", table_name(array), (long long)moment);
  int code = read_cells(a, table_name(array), "", before);
  if (code == SQLITE_OK) code = read_cells(a, then, "", past);
  if (code == SQLITE_OK)
    code = actor_run(a, &rows, "SELECT tessera_revert('db:%s', %lld, '{\"x\":[0,%d]}')", table_name(array),
                     (long long)moment, KEYS - 1);
  if (code == SQLITE_OK) code = read_cells(a, table_name(array), " AND written_at IS NULL", own);
  if (code == SQLITE_OK) code = read_cells(a, table_name(array), "", after);
  *known = code == SQLITE_OK && quiet && moves == the.moves;
  if (*known && memcmp(after, past, sizeof after) != 0)
    fail("%s: a revert to %lld has not brought it back", table_name(array), (long long)moment);
  for (int i = 0; i < KEYS && code == SQLITE_OK; i++) {
    if (own[i][1] >= 0 && memcmp(own[i], past[i], sizeof own[i]) != 0)
      fail("%s, cell %d: a revert to %lld has made it %d of transaction %d, and it was %d of %d", table_name(array), i,
           (long long)moment, own[i][0], own[i][1], past[i][0], past[i][1]);
    const bool deleted = before[i][1] >= 0 && past[i][1] < 0 && after[i][1] < 0;
    if (own[i][1] < 0 && !deleted) continue;
    changed++;
    model_add(array, (version){.txn = txn, .key = i, .value = own[i][0], .shows = own[i][1], .deleted = own[i][1] < 0});
  }
  if (*known && number_in(&rows) != changed)
    fail("%s: a revert says that it has changed %lld cells, not %lld", table_name(array), (long long)number_in(&rows),
         (long long)changed);
  text_free(&rows);
  return code;
}

static void revert(actor *a) {
  const int array = any_table(a->home);
  const int64_t moment = model_moment(array);
  if (!moment || table_is_dense(array) || table_is_inside(array) || moment > machines_clock() / MS) return;
  const int txn = model_new(a->home);
  const bool trouble = a->trouble;
  int code = actor_run(a, NULL, "BEGIN");
  if (code == SQLITE_OK) code = actor_run(a, NULL, "INSERT INTO o VALUES(%d)", txn);
  bool known = false;
  if (code == SQLITE_OK) code = change_back(a, array, txn, moment, &known);
  if (code == SQLITE_OK)
    code = actor_run(a, NULL, "INSERT INTO %s(x, a, id) VALUES(%d, 0, %d)", table_name(array), TAG(txn), txn);
  model_touch(txn, array);
  conclude(a, txn, code, trouble, code == SQLITE_OK && !known);
}

/* ---- Looking ----------------------------------------------------------------------------------------------------- */

static int look_at_all(sqlite3 *db, int home, int64_t time) {
  bool *listed = calloc((size_t)model_count() + 100000, sizeof *listed);
  if (!listed) abort();
  int code = model_list(db, home, listed);
  for (int i = 0; i < ARRAYS_MAX && code == SQLITE_OK; i++)
    if (table_of(home, i)) code = model_compare(db, home, i, time, listed);
  free(listed);
  return code;
}

/* All tables in one transaction: array and ordinary tables must agree. */
static void look(actor *a) {
  if (actor_run(a, NULL, "BEGIN") != SQLITE_OK) return;
  const int code = look_at_all(a->db, a->home, the.steady && one_in(2) ? 0 : END_OF_TIME);
  actor_judge(a, code, "look", sqlite3_errmsg(a->db));
  say("actor %d: looks: %d", a->number, code);
  if (!a->dead && !sqlite3_get_autocommit(a->db)) actor_run(a, NULL, "COMMIT");
  if (!a->dead && !sqlite3_get_autocommit(a->db)) actor_run(a, NULL, "ROLLBACK");
}

static void look_back(actor *a) {
  const int array = any_table(a->home);
  const int64_t moment = model_moment(array);
  if (!moment || table_is_dense(array)) return;
  const int code = model_compare(a->db, a->home, array, moment - (int)chance(2), NULL);
  say("actor %d: looks at %s as of %lld: %d", a->number, table_name(array), (long long)moment, code);
  actor_judge(a, code, "look back", sqlite3_errmsg(a->db));
}

/* What an observation depends on: the bytes of the array, and what is known about it. */
static uint64_t observable(int array) {
  const char *path = location(array), *key = path + sizeof BUCKET;
  const bool far = the.remote & 1u << array;
  return (far ? bucket_digest(key) : disk_digest_under(disk_now, path)) ^ model_digest(array);
}

void observe(void) {
  sqlite3 *db = NULL;
  actor *kept = the.current;
  bool changed[ARRAYS_MAX], some = false;
  for (int i = 0; i < ARRAYS_MAX; i++) {
    changed[i] = (i < the.shared_count || follow_has(i)) && observable(i) != the.observed[i];
    some |= changed[i];
  }
  if (!some) return;
  the.current = NULL; /* no fault concerns the observer, and nobody else goes on meanwhile */
  int code = sqlite3_open(":memory:", &db);
  if (code == SQLITE_OK && the.remote) code = sqlite3_exec(db, world_reach, NULL, NULL, NULL);
  for (int i = 0; i < ARRAYS_MAX && code == SQLITE_OK; i++) {
    char sql[160];
    if (!changed[i]) continue;
    snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE %s USING tessera('%s', threads=1)", table_name(i), location(i));
    code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (code == SQLITE_OK) code = model_compare(db, -1, i, END_OF_TIME, NULL);
    the.observed[i] = observable(i);
  }
  if (code != SQLITE_OK) fail("an observer: %s", sqlite3_errmsg(db));
  sqlite3_close(db);
  the.current = kept;
}

/* ---- Maintenance ------------------------------------------------------------------------------------------------- */

static bool home_in_trouble(int home) {
  for (int i = 0; i < the.actor_count; i++)
    if (the.actors[i].home == home && (the.actors[i].trouble || the.actors[i].dead)) return true;
  return false;
}

static void recover(actor *a, int array) {
  model_publishing(a->number, a->home);
  if (actor_run(a, NULL, "SELECT tessera_recover('db:%s')", table_name(array)) == SQLITE_OK &&
      !home_in_trouble(a->home))
    model_published(a->number, array);
}

static void bookmark(actor *a) {
  const int64_t next = a->next_bookmark + 1;
  a->next_bookmark = next;
  if (actor_run(a, NULL, "SELECT tessera_set_metadata('db:t0', 'b%d', %lld)", a->number, (long long)next) == SQLITE_OK)
    a->bookmark = next;
}

/* Adds or drops an attribute that is this actor's alone. If an earlier try has failed, either may be what there is to do. */
static void evolve(actor *a) {
  const bool add = !a->has_attribute;
  const bool unsure = a->unsure;
  char *message;
  a->unsure = true;
  const int code =
      add ? actor_try(a, NULL, &message, "SELECT tessera_add_attribute('db:t0', 'e%d INT DEFAULT 7')", a->number)
          : actor_try(a, NULL, &message, "SELECT tessera_drop_attribute('db:t0', 'e%d')", a->number);
  const bool done =
      unsure && message && (add ? code == SQLITE_CONSTRAINT : strstr(message, "there is no attribute") != NULL);
  const bool refused = message && strstr(message, "ahead of this machine's clock");
  if (!done && !refused) actor_judge(a, code, "schema evolution", message ? message : "");
  sqlite3_free(message);
  if (code == SQLITE_OK || done) a->has_attribute = add;
  a->unsure = code != SQLITE_OK && !done;
}

static unsigned choose_deed(bool opened) {
  if (opened) return CONSOLIDATE + chance(5);
  unsigned sum = 0, chosen = 0;
  for (int i = 0; i < DEEDS; i++) sum += the.weights[i];
  for (unsigned at = chance(sum); at >= the.weights[chosen]; chosen++) at -= the.weights[chosen];
  return chosen;
}

/* `opened`: the process has just begun, and maintains what a crash may have left. */
static void act(actor *a, bool opened) {
  static const char *const parts[] = {"commits", "fragment_meta", "array_meta"};
  const int array = any_table(a->home);
  const char *name = table_name(array);
  const unsigned deed = choose_deed(opened);
  a->delicate = deed >= CONSOLIDATE && deed <= SYNC;
  the.moves += a->delicate;
  switch (deed) {
  case TRANSACTION:
    do transact(a);
    while (!one_in(the.burst) && !a->dead && !a->trouble && !a->unknown_count && !the.stopping);
    break;
  case LOOK: look(a); break;
  case LOOK_BACK: look_back(a); break;
  case CONSOLIDATE: actor_run(a, NULL, "SELECT tessera_consolidate('db:%s')", name); break;
  case CONSOLIDATE_FILES:
    actor_run(a, NULL, "SELECT tessera_consolidate('db:%s', '%s')", name, parts[chance(3)]);
    break;
  case VACUUM: actor_run(a, NULL, "SELECT tessera_vacuum('db:%s')", name); break;
  case UPKEEP:
    actor_run(a, NULL, "SELECT tessera_upkeep('db:%s', '{\"fanout\":4,\"grace_s\":%d}')", name, one_in(2) ? 0 : 1);
    break;
  case RECOVER: recover(a, array); break;
  case BOOKMARK: bookmark(a); break;
  case EVOLVE: evolve(a); break;
  case SYNC: follow_sync(a); break;
  case FEED: follow_feed(a); break;
  case REVERT: revert(a); break;
  case REOPEN: close_database(a); break;
  default: actor_sleep(chance(500) * MS);
  }
  a->delicate = false;
}

static void live(actor *a) {
  while (!the.stopping || a->dead || a->unknown_count) {
    if (a->dead) {
      close_database(a);
      actor_lie(a);
      continue;
    }
    const bool opens = !a->db;
    if (opens) open_database(a);
    if (a->db && !a->dead && resolve(a) && !the.stopping) {
      if (opens && one_in(3)) look(a); /* what a crash has left, before anybody mends it */
      else act(a, opens && one_in(2));
    }
    if (!a->dead && a->trouble && (one_in(3) || the.stopping || a->unknown_count)) close_database(a);
    if (!a->dead) actor_sleep(chance(20) * MS);
  }
  close_database(a);
}

/* ---- A world ----------------------------------------------------------------------------------------------------- */

void world_run(sqlite3 *db, const char *format, ...) {
  va_list arguments;
  char *message = NULL;
  va_start(arguments, format);
  char *sql = sqlite3_vmprintf(format, arguments);
  va_end(arguments);
  say("%s", sql);
  if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail("%s: %s", sql, message);
  sqlite3_free(sql);
}

sqlite3 *world_open(int home) {
  sqlite3 *db = NULL;
  char path[40];
  snprintf(path, sizeof path, DISK_ROOT "/m%d.db", home);
  if (sqlite3_open(path, &db) != SQLITE_OK) fail("%s does not open: %s", path, sqlite3_errmsg(db));
  world_run(db, "PRAGMA synchronous=EXTRA");
  if (the.remote) world_run(db, "%s", world_reach);
  return db;
}

static void make_tables(int home) {
  static const char *const columns = "x INT DIMENSION(0, 1000000, 16), a INT, id INT";
  sqlite3 *db = world_open(home);
  world_run(db, "CREATE TABLE o(id INTEGER PRIMARY KEY)");
  for (int i = 0; i < the.shared_count; i++)
    if (home) world_run(db, "CREATE VIRTUAL TABLE t%d USING tessera('%s', threads=1)", i, location(i));
    else
      world_run(db, "CREATE VIRTUAL TABLE t%d USING tessera('%s', %s, capacity=8, threads=1%s)", i, location(i),
                columns, one_in(3) ? ", auto_consolidate=4" : "");
  world_run(db, "CREATE VIRTUAL TABLE d%d USING tessera('%s', kind=dense, %s, threads=1)", home,
            location(SHARED_MAX + 2 * home), columns);
  world_run(db, "CREATE VIRTUAL TABLE w%d USING tessera(%s, capacity=8, threads=1)", home, columns);
  sqlite3_close(db);
}

void world_make(uint64_t seed, long steps) {
  static const unsigned kinds[] = {0, 1, 3, 7, 4, 5, 8, 0x10, 0x24, 0x38, 0x7f, 0x7f, 0x47, 0x3d};
  memset(&the, 0, sizeof the);
  the.seed = seed;
  the.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  the.until = steps;
  the.now = INT64_C(1700000000000) * MS;
  the.machine_count = 1 + (int)chance(3);
  if (one_in(4)) the.machine_count = MACHINES_MAX;
  the.shared_count = 1 + (int)one_in(3);
  the.cached = one_in(2) ? 4 : 1000;
  the.steady = one_in(2);
  the.extra = one_in(2);
  the.hand_over = 1 + chance(one_in(2) ? 4 : 40);
  the.kinds = kinds[chance(sizeof kinds / sizeof *kinds)];
  the.fault_odds = (100 + chance(one_in(2) ? 1000 : 8000));
  the.pace = 1000u << chance(6);
  the.remote = one_in(2) ? 0 : one_in(2) ? ~0u : chance(1u << ARRAYS_MAX);
  if (the.remote && !one_in(4)) the.kinds |= 1u << (7 + chance(3)) | (one_in(2) ? 7u << 7 : 0);
  the.latency = 1u << chance(9);
  the.page_size = one_in(2) ? 1000 : 2 + chance(30);
  the.server_ahead = the.steady ? 0 : ((int64_t)chance(4000) - 2000) * MS;
  for (int i = 0; i < DEEDS; i++) the.weights[i] = one_in(3) ? 0 : 1 + chance(4);
  the.weights[TRANSACTION] = 5 + chance(20);
  the.burst = one_in(3) ? 1 : 2 + chance(20);
  the.weights[LOOK] = 1 + chance(3);
  if (one_in(2)) the.weights[EVOLVE + chance(4)] += 20; /* what a few do at a time is seldom done at once */
  disk_random_seed(seed);
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESTORE); /* PRNG_RESET leaves bytes of the former sequence */
  disk_now = disk_new();
  model_begin();
  machines_begin();
  for (int i = 0; i < the.machine_count; i++) make_tables(i);
  for (int i = 0; i < the.machine_count; i++)
    for (unsigned n = 1 + chance(2); n-- > 0;) {
      actor *a = &the.actors[the.actor_count];
      a->number = the.actor_count++;
      a->home = i;
      actor_start(a, live);
    }
}

static void check_attributes(sqlite3 *db) {
  for (int i = 0; i < the.actor_count; i++) {
    const actor *a = &the.actors[i];
    text rows = {0};
    char sql[200], *message = NULL;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tessera_schema('db:t0') WHERE name = 'e%d'", i);
    if (text_query(db, sql, false, &rows, &message) != SQLITE_OK) fail("%s: %s", sql, message);
    if (!a->unsure && number_in(&rows) != a->has_attribute)
      fail("the attribute of actor %d is%s there", i, a->has_attribute ? " not" : "");
    text_free(&rows);
  }
}

static void check_bookmarks(sqlite3 *db) {
  for (int i = 0; i < the.actor_count && the.steady; i++) {
    const actor *a = &the.actors[i];
    text rows = {0};
    char sql[200], *message = NULL;
    snprintf(sql, sizeof sql, "SELECT value FROM tessera_metadata('db:t0') WHERE key = 'b%d'", i);
    if (text_query(db, sql, false, &rows, &message) != SQLITE_OK) fail("%s: %s", sql, message);
    const int64_t found = number_in(&rows);
    if (found < a->bookmark || found > a->next_bookmark)
      fail("metadata of actor %d: %lld, expected %lld to %lld", i, (long long)found, (long long)a->bookmark,
           (long long)a->next_bookmark);
    text_free(&rows);
  }
}

static void compare_everything(int home) {
  sqlite3 *db = world_open(home);
  world_run(db, "BEGIN");
  if (look_at_all(db, home, 0) != SQLITE_OK) fail("at the end: %s", sqlite3_errmsg(db));
  world_run(db, "COMMIT");
  for (int i = 0; i < ARRAYS_MAX; i++)
    for (int n = 0; n < 8 && table_of(home, i) && !table_is_dense(i); n++) {
      const int64_t moment = model_moment(i);
      if (moment && model_compare(db, home, i, moment, NULL) != SQLITE_OK) fail("at the end: %s", sqlite3_errmsg(db));
    }
  check_bookmarks(db);
  check_attributes(db);
  sqlite3_close(db);
}

/* One database checks the arrays that all share. */
static void check_everything(int home, int first) {
  sqlite3 *db = world_open(home);
  for (int i = home == first ? 0 : SHARED_MAX; i < COPY(0); i++) {
    text found = {0};
    if (!table_of(home, i)) continue;
    state_check_one(&found, db, table_name(i));
    if (found.bytes) fail("the check of database %d: %s", home, found.bytes);
  }
  sqlite3_close(db);
}

static void examine(void) {
  const int first = (int)chance((unsigned)the.machine_count);
  for (int i = 0; i < the.machine_count; i++) compare_everything(i);
  for (int i = 0; i < the.machine_count; i++) check_everything(i, first);
}

/* A marker that was cut off while it was written names no owner, and waits a day for `disown`, which fails if a whole marker is
 * left that is younger. */
static void disown_incomplete(void) {
  sqlite3 *db = world_open(0);
  for (int i = 0; i < the.shared_count; i++)
    world_run(db, "SELECT tessera_recover('%s', '{\"disown\":true}')", location(i));
  for (int i = 0; i < the.machine_count; i++)
    world_run(db, "SELECT tessera_recover('%s', '{\"disown\":true}')", location(SHARED_MAX + 2 * i));
  sqlite3_close(db);
}

/* Everybody writes, consolidates and vacuums once more. */
static void go_on(void) {
  for (int i = 0; i < the.machine_count; i++) {
    sqlite3 *db = world_open(i);
    for (int array = 0; array < ARRAYS_MAX; array++)
      if (table_of(i, array)) {
        const int txn = model_new(i);
        world_run(db, "BEGIN");
        world_run(db, "INSERT INTO o VALUES(%d)", txn);
        world_run(db, "INSERT INTO %s(x, a, id) VALUES(%d, 0, %d), (3, 1, %d)", table_name(array), TAG(txn), txn, txn);
        world_run(db, "COMMIT");
        model_touch(txn, array);
        model_order(txn);
        model_add(array, (version){.txn = txn, .key = 3, .value = 1, .shows = txn});
        model_settle(txn, COMMITTED);
        model_published_one(txn);
        world_run(db, "SELECT tessera_consolidate('db:%s')", table_name(array));
        world_run(db, "SELECT tessera_vacuum('db:%s')", table_name(array));
      }
    sqlite3_close(db);
  }
  examine();
}

/* Each database recovers its commits; then everybody sees the same, nothing is left prepared, and everybody can go on. */
void world_end(void) {
  int64_t ahead = 0;
  for (int i = 0; i < the.machine_count; i++)
    if (the.machines[i].offset > ahead) ahead = the.machines[i].offset;
  the.now += ahead + 3600000 * MS; /* later than all that was committed by a clock ahead */
  for (int i = 0; i < the.machine_count; i++) {
    sqlite3 *db = world_open(i);
    model_publishing(0, i);
    for (int array = 0; array < ARRAYS_MAX; array++)
      if (table_of(i, array)) {
        world_run(db, "SELECT tessera_recover('db:%s')", table_name(array));
        model_published(0, array);
      }
    sqlite3_close(db);
  }
  disown_incomplete();
  the.now += 86400000 * MS;
  disown_incomplete();
  if (disk_has(disk_now, ".pending") || bucket_has(".pending"))
    fail("a commit is still prepared after everybody has recovered");
  examine();
  follow_to_the_end();
  if (one_in(3)) {
    go_on();
    follow_to_the_end();
  }
  if (disk_files_open) fail("%d files are still open", disk_files_open);
  trace(disk_digest(disk_now));
  bucket_end();
  disk_free(disk_now);
  disk_now = NULL;
  follow_end();
  machines_end();
  model_end();
}
