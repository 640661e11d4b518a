/* model.c: compares arrays with all that was ever written (model.h). */
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct transaction {
  outcome outcome;
  int home, order;
  bool touches[ARRAYS_MAX];
  bool published[ARRAYS_MAX]; /* others see it, too */
  bool seen[ARRAYS_MAX]; /* in some read */
  int64_t time[ARRAYS_MAX]; /* ms; 0: not known yet */
  bool fragile; /* model_fragile */
  unsigned asked; /* by actor: it was committed at model_publishing */
} transaction;

typedef struct row {
  int key, value, txn;
  bool is_null;
  int64_t written;
} row;

static transaction *all; /* the first one is not used */
static int count, room, orders;
static version *versions[ARRAYS_MAX];
static int version_counts[ARRAYS_MAX];

/* A copy has the cells of the first array. */
static int origin(int array) { return array >= COPY(0) ? 0 : array; }

static void *need(void *memory) {
  if (!memory) abort();
  return memory;
}

void model_begin(void) {
  count = 1;
  orders = 0;
}

void model_end(void) {
  free(all);
  all = NULL;
  room = 0;
  for (int i = 0; i < ARRAYS_MAX; i++) {
    free(versions[i]);
    versions[i] = NULL;
    version_counts[i] = 0;
  }
}

int model_new(int home) {
  if (count + 1 > room) all = need(realloc(all, (size_t)(room = 2 * room + 64) * sizeof *all));
  memset(&all[count], 0, sizeof *all);
  all[count].home = home;
  return count++;
}

int model_count(void) { return count; }

void model_add(int array, version v) {
  const int n = version_counts[array];
  if ((n & (n - 1)) == 0) versions[array] = need(realloc(versions[array], (size_t)(n ? 2 * n : 1) * sizeof(version)));
  versions[array][version_counts[array]++] = v;
}

void model_touch(int txn, int array) { all[txn].touches[array] = true; }
void model_order(int txn) { all[txn].order = ++orders; }

void model_settle(int txn, outcome now) {
  transaction *t = &all[txn];
  if (now == COMMITTED && t->outcome != COMMITTED) the.commits++;
  t->outcome = now;
  if (now != ABORTED) return;
  for (int i = 0; i < ARRAYS_MAX; i++)
    if (t->seen[i]) fail("transaction %d was rolled back, and %s has shown it", txn, table_name(i));
}

void model_published_one(int txn) {
  for (int i = 0; i < COPY(0); i++) all[txn].published[i] = true;
}

void model_publishing(int asker, int home) {
  for (int i = 1; i < count; i++) {
    all[i].asked &= ~(1u << asker);
    if (all[i].home == home && all[i].outcome == COMMITTED) all[i].asked |= 1u << asker;
  }
}

void model_published(int asker, int array) {
  for (int i = 1; i < count; i++)
    if (all[i].asked & 1u << asker) all[i].published[array] = true;
}

void model_syncing(int asker, int array) {
  for (int i = 1; i < count; i++) {
    all[i].asked &= ~(1u << asker);
    if (all[i].outcome == COMMITTED && all[i].touches[array] && all[i].published[array]) all[i].asked |= 1u << asker;
  }
}

bool model_is_published(int home, int array) {
  for (int i = 1; i < count; i++) {
    const transaction *t = &all[i];
    const bool ended = t->outcome == ABORTED || (t->outcome == COMMITTED && t->published[array]);
    if (t->home == home && t->touches[array] && !ended) return false;
  }
  return true;
}

void model_forget(int copy) {
  for (int i = 1; i < count; i++) {
    all[i].published[copy] = all[i].seen[copy] = false;
    all[i].time[copy] = 0;
  }
}

void model_published_all(int array) {
  for (int i = 1; i < count; i++) all[i].published[array] = all[i].outcome == COMMITTED;
}

void model_fragile(int txn) { all[txn].fragile = true; }

void model_durable(int home) {
  for (int i = 1; i < count; i++)
    if (all[i].home == home) all[i].fragile = false;
}

void model_power_failed(void (*again)(int home, int txn)) {
  for (int i = 1; i < count; i++) {
    transaction *t = &all[i];
    memset(t->published, 0, sizeof t->published);
    if (!t->fragile || t->outcome != COMMITTED) continue;
    t->outcome = UNKNOWN;
    t->fragile = false;
    memset(t->seen, 0, sizeof t->seen);
    memset(t->time, 0, sizeof t->time);
    again(t->home, i);
  }
}

int64_t model_moment(int array) {
  for (int tries = 0; tries < 8 && count > 1; tries++) {
    const transaction *t = &all[1 + chance((unsigned)count - 1)];
    if (t->time[array]) return t->time[array];
  }
  return 0;
}

uint64_t model_digest(int array) {
  uint64_t sum = 1 + (uint64_t)version_counts[origin(array)];
  for (int i = 1; i < count; i++) {
    const transaction *t = &all[i];
    if (!t->touches[origin(array)]) continue;
    const uint64_t facts = (uint64_t)t->outcome | (uint64_t)t->published[array] << 2 | (uint64_t)t->seen[array] << 3;
    sum = (sum ^ ((uint64_t)i << 16 | facts) ^ (uint64_t)t->time[array] << 20) * UINT64_C(0xff51afd7ed558ccd);
    sum ^= sum >> 32;
  }
  return sum;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static int read_rows(sqlite3 *db, int array, int64_t time, row **rows, int *row_count) {
  sqlite3_stmt *s = NULL;
  char *sql = time ? sqlite3_mprintf("SELECT x, a, id, written_at FROM %s(%lld)", table_name(array), (long long)time)
                   : sqlite3_mprintf("SELECT x, a, id, written_at FROM %s", table_name(array));
  int code = sqlite3_prepare_v2(db, sql, -1, &s, NULL), n = 0;
  sqlite3_free(sql);
  while (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
    if ((n & (n - 1)) == 0) *rows = need(realloc(*rows, (size_t)(n ? 2 * n : 1) * sizeof(row)));
    (*rows)[n++] = (row){.key = sqlite3_column_int(s, 0),
                         .value = sqlite3_column_int(s, 1),
                         .txn = sqlite3_column_int(s, 2),
                         .is_null = sqlite3_column_type(s, 2) == SQLITE_NULL,
                         .written = sqlite3_column_int64(s, 3)};
    code = SQLITE_OK;
  }
  sqlite3_finalize(s);
  *row_count = n;
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

int model_list(sqlite3 *db, int home, bool *listed) {
  sqlite3_stmt *s = NULL;
  bool *sure = need(calloc((size_t)count, sizeof *sure));
  const int began = count;
  for (int i = 1; i < count; i++) sure[i] = all[i].home == home && all[i].outcome == COMMITTED;
  int code = sqlite3_prepare_v2(db, "SELECT id FROM o", -1, &s, NULL);
  while (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
    const int id = sqlite3_column_int(s, 0);
    if (id < 1 || id >= count || all[id].home != home) fail("the ordinary table has %d, which nobody wrote", id);
    if (all[id].outcome == ABORTED) fail("transaction %d was rolled back, and the ordinary table has it", id);
    listed[id] = true;
    code = SQLITE_OK;
  }
  sqlite3_finalize(s);
  for (int i = 1; code == SQLITE_DONE && i < began; i++)
    if (sure[i] && !listed[i]) fail("transaction %d was committed, and the ordinary table has lost it", i);
  free(sure);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

/* Notes the time of a commit. No two commits of a database have one time, and where nobody sets the clock, their times are in
 * their order. */
static void take_time(int array, int id, int64_t time) {
  for (int i = 1; i < count; i++) {
    const transaction *t = &all[i];
    if (t->home != all[id].home || !t->time[array]) continue;
    if (t->time[array] == time || (the.steady && (t->time[array] < time) != (t->order < all[id].order)))
      fail("transactions %d and %d of one database are of %lld and %lld in %s", i, id, (long long)t->time[array],
           (long long)time, table_name(array));
  }
  all[id].time[array] = time;
}

/* Notes which transactions the rows show. */
static void see(int array, int64_t time, const row *rows, int row_count, bool *seen) {
  const bool dense = table_is_dense(array);
  for (int i = 0; i < row_count; i++) {
    const row *r = &rows[i];
    if (r->key < TAG(0) || (dense && r->is_null)) continue;
    const int id = r->key - TAG(0);
    if (id < 1 || id >= count || r->txn != id || !all[id].touches[origin(array)])
      fail("%s has a cell %d that nobody wrote", table_name(array), r->key);
    transaction *t = &all[id];
    if (seen[id]) fail("%s has the cell %d twice", table_name(array), r->key);
    if (t->outcome == ABORTED) fail("transaction %d was rolled back, and %s shows it", id, table_name(array));
    seen[id] = t->seen[array] = true;
    if (dense) continue;
    if (t->time[array] && t->time[array] != r->written)
      fail("transaction %d was of %lld in %s, and now is of %lld", id, (long long)t->time[array], table_name(array),
           (long long)r->written);
    const int64_t first = t->time[origin(array)];
    if (first && first != r->written)
      fail("transaction %d was of %lld, and is of %lld in the copy %s", id, (long long)first, (long long)r->written,
           table_name(array));
    if (time && r->written > time)
      fail("as of %lld, %s shows what was written at %lld", (long long)time, table_name(array), (long long)r->written);
    if (!t->time[array]) take_time(array, id, r->written);
  }
}

static bool is_later(int array, int a, int b) {
  return table_is_dense(array) ? all[a].order > all[b].order : all[a].time[array] > all[b].time[array];
}

/* Finds the last versions of each cell; several only where two commits have one time. */
static void compare_cells(int array, const row *rows, int row_count, const bool *seen) {
  const version *last[KEYS][4];
  int n[KEYS] = {0};
  const row *found[KEYS] = {0};
  for (int i = 0; i < version_counts[origin(array)]; i++) {
    const version *v = &versions[origin(array)][i];
    if (!seen[v->txn]) continue;
    if (n[v->key] && is_later(array, last[v->key][0]->txn, v->txn)) continue;
    if (n[v->key] && is_later(array, v->txn, last[v->key][0]->txn)) n[v->key] = 0;
    if (n[v->key] < 4) last[v->key][n[v->key]++] = v;
  }
  for (int i = 0; i < row_count; i++) {
    const int key = rows[i].key;
    if (key >= TAG(0) || (table_is_dense(array) && rows[i].is_null)) continue;
    if (key < 0 || key >= KEYS) fail("%s has a cell %d that nobody wrote", table_name(array), key);
    if (found[key]) fail("%s has the cell %d twice", table_name(array), key);
    found[key] = &rows[i];
  }
  for (int key = 0; key < KEYS; key++) {
    bool fine = !n[key] && !found[key];
    for (int i = 0; i < n[key] && !fine; i++) {
      const version *v = last[key][i];
      fine = v->deleted ? !found[key] : found[key] && found[key]->txn == v->shows && found[key]->value == v->value;
    }
    if (!fine)
      fail("%s, cell %d: got %d of transaction %d, expected %s %d of transaction %d", table_name(array), key,
           found[key] ? found[key]->value : -1, found[key] ? found[key]->txn : -1,
           n[key] && last[key][0]->deleted ? "that it is deleted," : "", n[key] ? last[key][0]->value : -1,
           n[key] ? last[key][0]->txn : -1);
  }
}

int model_compare(sqlite3 *db, int home, int array, int64_t time, const bool *listed) {
  row *rows = NULL;
  int row_count = 0;
  const int began = count;
  bool *sure = need(calloc((size_t)began, sizeof *sure));
  for (int i = 1; i < began; i++) {
    const transaction *t = &all[i];
    sure[i] = t->touches[origin(array)] && t->outcome == COMMITTED && (t->home == home || t->published[array]);
    if (time && time != END_OF_TIME) sure[i] = sure[i] && t->time[array] && t->time[array] <= time;
  }
  const int code = read_rows(db, array, time, &rows, &row_count);
  if (code == SQLITE_OK) {
    bool *seen = need(calloc((size_t)count, sizeof *seen));
    see(array, time, rows, row_count, seen);
    for (int i = 1; i < count; i++) {
      const transaction *t = &all[i];
      if (i < began && sure[i] && !seen[i])
        fail("transaction %d was committed, and %s, as of %lld, does not show it to database %d", i, table_name(array),
             (long long)time, home);
      if (listed && t->home == home && t->touches[array] && listed[i] != seen[i])
        fail("transaction %d is %s the ordinary table, and %s %s", i, listed[i] ? "in" : "not in", table_name(array),
             seen[i] ? "shows it" : "does not show it");
    }
    compare_cells(array, rows, row_count, seen);
    for (int i = 1; i < count; i++) /* what another database has seen once, everybody sees */
      if (seen[i] && all[i].home != home) all[i].published[array] = true;
    free(seen);
    the.checks++;
  }
  free(rows);
  free(sure);
  return code;
}
