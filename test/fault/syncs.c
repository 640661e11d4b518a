/* syncs.c: a vacuum syncs its removals together. However many fragments and vacuum files there are, each directory is synced
 * at most twice for its removals, in each kind of vacuum. The test reads the log of the disk in memory (disk.h).
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <stdarg.h>

#include "disk.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

#define ROUNDS      6 /* consolidations */
#define ROWS        8 /* fragments before each of them */
#define DIRECTORIES 5
static const char *const directories[DIRECTORIES] = {"", "/__commits", "/__fragments", "/__fragment_meta", "/__meta"};

static sqlite3 *db;

static void run(const char *format, ...) {
  va_list arguments;
  char *message = NULL;
  va_start(arguments, format);
  char *sql = sqlite3_vmprintf(format, arguments);
  va_end(arguments);
  if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
    fprintf(stderr, "%s: %s\n", sql, message);
    exit(1);
  }
  sqlite3_free(sql);
}

static long number_of(const char *query) {
  sqlite3_stmt *statement;
  long number = -1;
  if (sqlite3_prepare_v2(db, query, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
    number = (long)sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return number;
}

/* Returns the number of the array's directory that a path in the log belongs to, or -1 if it is another array's. */
static int directory_of(const char *array, const char *logged) {
  const size_t size = strlen(array);
  if (strncmp(logged, array, size) != 0 || logged[size] != '/') return -1;
  for (int d = 1; d < DIRECTORIES; d++)
    if (!strncmp(logged + size, directories[d], strlen(directories[d])) && logged[size + strlen(directories[d])] == '/')
      return d;
  return 0;
}

/* Counts in the log how often each directory of the array was synced after a removal, and the removals. */
static int count(const char *array, int syncs[DIRECTORIES]) {
  int removals = 0, nodes[DIRECTORIES];
  bool removed[DIRECTORIES] = {0};
  memset(syncs, 0, DIRECTORIES * sizeof *syncs);
  for (int d = 0; d < DIRECTORIES; d++) {
    char path[100];
    bool directory;
    snprintf(path, sizeof path, "%s%s", array, directories[d]);
    nodes[d] = disk_find(disk_now, path, &directory);
  }
  for (unsigned i = 0; i < disk_log_size(); i++) {
    char text[200];
    int node;
    disk_log_print(i, text);
    const int d = strncmp(text, "remove ", 7) ? -1 : directory_of(array, text + 7);
    if (d >= 0) removed[d] = true;
    removals += d >= 0;
    if (sscanf(text, "sync node %d", &node) != 1) continue;
    for (int k = 0; k < DIRECTORIES; k++) {
      syncs[k] += nodes[k] == node && removed[k];
      removed[k] = removed[k] && nodes[k] != node;
    }
  }
  return removals;
}

static int look(const char *array, const char *kind, int least) {
  int syncs[DIRECTORIES], failed = 0;
  disk_log_begin();
  run("SELECT tessera_vacuum(%Q, %Q)", array, kind);
  disk_log_end();
  const int removals = count(array, syncs);
  for (int d = 0; d < DIRECTORIES; d++) {
    if (syncs[d] <= 2) continue;
    fprintf(stderr, "%s: vacuum of %s: %s/ was synced %d times\n", array, kind, directories[d], syncs[d]);
    failed = 1;
  }
  printf("%s, %s: %d removals, syncs of / %d, __commits %d, __fragments %d, __fragment_meta %d, __meta %d\n", array,
         kind, removals, syncs[0], syncs[1], syncs[2], syncs[3], syncs[4]);
  if (removals >= least) return failed;
  fprintf(stderr, "%s: vacuum of %s: %d removals, expected at least %d\n", array, kind, removals, least);
  return 1;
}

/* Each round consolidates the fragment of the last round, too, which makes a chain of vacuum files. */
static void fill(const char *array, const char *table) {
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < ROWS; i++) {
      run("INSERT INTO %s VALUES(%d, %d)", table, (round * ROWS + i) % 90, round);
      run("SELECT tessera_set_metadata(%Q, 'k%d', %d)", array, i, round);
    }
    run("SELECT tessera_consolidate(%Q), tessera_consolidate(%Q, 'array_meta')", array, array);
    run("SELECT tessera_consolidate(%Q, 'commits'), tessera_consolidate(%Q, 'fragment_meta')", array, array);
  }
}

static int look_at_all(const char *array, const char *table) {
  char query[200];
  fill(array, table);
  snprintf(query, sizeof query, "SELECT sum(v + 7 * x) FROM %s", table);
  const long before = number_of(query);
  int failed = look(array, "fragments", ROUNDS * ROWS);
  failed |= look(array, "commits", 1) | look(array, "fragment_meta", 0) | look(array, "array_meta", ROUNDS);
  if (number_of(query) == before && before > 0) return failed;
  fprintf(stderr, "%s: the rows have changed after the vacuum\n", array);
  return 1;
}

int main(void) {
  static const char *const made[] = {"x INT32 DIMENSION(0, 99, 10), v INT32 NOT NULL",
                                     "x INT32 DIMENSION(0, 99, 10), v INT32 NOT NULL, kind=dense"};
  int failed = 0;
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  disk_now = disk_new();
  disk_clock_set(INT64_C(1700000000000));
  if (sqlite3_open(DISK_ROOT "/t.db", &db) != SQLITE_OK) return 2;
  for (int dense = 0; dense < 2; dense++) {
    char array[20], table[2] = {(char)('s' + dense), 0};
    snprintf(array, sizeof array, DISK_ROOT "/%s", table);
    run("CREATE VIRTUAL TABLE %s USING tessera(%Q, %s)", table, array, made[dense]);
    failed |= look_at_all(array, table);
  }
  sqlite3_close(db);
  sqlite3_reset_auto_extension();
  disk_free(disk_now);
  return failed;
}
