/* follow.c: copies and feeds (follow.h).
 *
 * A copy has everything that everybody saw in the array when its last successful sync began, in whatever state the next
 * sync was killed, and each of its transactions whole and at its time: model_compare sees to that. A power failure may
 * take from the array what a copy has already, and then the two are strangers; so afterwards each machine begins a new
 * copy.
 *
 * A feed keeps the cells that it has been told of, as a process would in another system. In worlds where nobody sets
 * the clock they are the array's after each batch, unless a commit is still prepared: its own database shows it
 * already, and a feed does when it is published. The token and the cells outlive the process. */
#include "follow.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct feed {
  char *token; /* owned; NULL: it has to begin again */
  text cells; /* "x|a|id\n", sorted by x */
} feed;

static feed feeds[ACTORS_MAX];
static bool has_copy[MACHINES_MAX];
static int numbers[MACHINES_MAX]; /* of the machines' copies */

bool follow_has(int copy) { return copy >= COPY(0) && has_copy[copy - COPY(0)]; }

int follow_number(int copy) { return numbers[copy - COPY(0)]; }

static void begin_new_copy(int home) {
  has_copy[home] = false;
  numbers[home]++;
  model_forget(COPY(home));
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

void follow_sync(actor *a) {
  const int copy = COPY(a->home);
  char from[60];
  const int number = follow_number(copy);
  char *message;
  snprintf(from, sizeof from, "%s", location(0));
  model_syncing(a->number, 0);
  const int code = actor_try(a, NULL, &message, "SELECT tessera_sync('%s', '%s')", from, location(copy));
  /* by a first sync of another process that is at work, or has died a moment ago in a store without locks */
  const bool waits = message && (strstr(message, "is filling it") || strstr(message, "was made a moment ago"));
  if (!waits) actor_judge(a, code, "tessera_sync", message ? message : "");
  sqlite3_free(message);
  if (number != follow_number(copy)) return;
  if (code != SQLITE_OK || a->dead) return;
  has_copy[a->home] = true;
  model_published(a->number, copy);
  if (one_in(2)) observe();
}

void follow_to_the_end(void) {
  model_published_all(0);
  for (int i = 0; i < the.machine_count; i++) {
    const int copy = COPY(i);
    text found = {0};
    char from[60], sql[200], *message = NULL;
    if (!has_copy[i]) continue;
    sqlite3 *db = world_open(i);
    snprintf(from, sizeof from, "%s", location(0));
    world_run(db, "SELECT tessera_sync('%s', '%s')", from, location(copy));
    model_published_all(copy);
    snprintf(sql, sizeof sql,
             "SELECT severity, file, message FROM tessera_check('%s') WHERE severity <> 'note' "
             "AND NOT (file LIKE '.copying%%' AND message LIKE 'stray%%')", /* a bucket may leave it: move_tree */
             location(copy));
    if (text_query(db, sql, false, &found, &message) != SQLITE_OK) fail("%s: %s", sql, message);
    if (found.bytes) fail("the check of the copy %s: %s", location(copy), found.bytes);
    sqlite3_close(db);
  }
  observe();
}

/* ---- Feeds ------------------------------------------------------------------------------------------------------- */

static void forget(feed *f) {
  free(f->token);
  text_free(&f->cells);
  *f = (feed){0};
}

static char *copy_text(const char *from, size_t size) {
  char *copy = calloc(1, size + 1);
  if (!copy) abort();
  return memcpy(copy, from, size);
}

/* Applies a batch, rows "x|change|a|id| " sorted by x, to cells. */
static void apply(const text *old, const text *batch, text *made) {
  const char *cell = old->bytes ? old->bytes : "", *change = batch->bytes ? batch->bytes : "";
  while (*cell || *change) {
    const int x = *cell ? atoi(cell) : INT_MAX, y = *change ? atoi(change) : INT_MAX;
    const size_t size = strcspn(cell, " "), length = strcspn(change, " ");
    const char *what = strchr(change, '|');
    if (x < y) text_add(made, "%.*s ", (int)size, cell);
    else if (!strncmp(what, "|write|", 7))
      text_add(made, "%d%.*s ", y, (int)(length - (size_t)(what + 6 - change)), what + 6);
    if (x <= y) cell += size + (cell[size] == ' ');
    if (y <= x) change += length + (change[length] == ' ');
  }
}

/* Reads the feed from its token to another. Returns SQLite's code. */
static int take(actor *a, feed *f, const char *token, text *cells) {
  text batch = {0};
  int code =
      actor_run(a, NULL, "CREATE VIRTUAL TABLE IF NOT EXISTS temp.ch USING tessera_changes(t0, columns='a, id')");
  if (code == SQLITE_OK)
    code = actor_run(a, &batch, "SELECT x, change, new_a, new_id FROM ch('%s', '%s') ORDER BY x", f->token, token);
  if (code == SQLITE_OK) apply(&f->cells, &batch, cells);
  text_free(&batch);
  return code;
}

void follow_feed(actor *a) {
  feed *f = &feeds[a->number];
  text token = {0}, cells = {0}, present = {0}, later = {0};
  const long before = the.power_failures;
  int code = actor_run(a, NULL, "BEGIN");
  if (code == SQLITE_OK) code = actor_run(a, &token, "SELECT tessera_token('db:t0')");
  if (code == SQLITE_OK) token.bytes[strcspn(token.bytes, "|")] = 0;
  if (code == SQLITE_OK && f->token) code = take(a, f, token.bytes, &cells);
  if (code == SQLITE_OK) code = actor_run(a, &present, "SELECT x, a, id FROM t0 ORDER BY x");
  if (code == SQLITE_OK) code = actor_run(a, &later, "SELECT tessera_token('db:t0')");
  if (code == SQLITE_OK) later.bytes[strcspn(later.bytes, "|")] = 0;
  if (!a->dead && !sqlite3_get_autocommit(a->db)) actor_run(a, NULL, "ROLLBACK");
  if (code == SQLITE_OK && !a->dead && the.power_failures == before) {
    const bool same = !strcmp(token.bytes, later.bytes); /* nobody has committed between the two reads */
    const bool comparable = the.steady && same && model_is_published(a->home, 0);
    if (f->token && comparable && strcmp(cells.bytes ? cells.bytes : "", present.bytes ? present.bytes : "") != 0)
      fail("actor %d: the feed of t0 has led to\n%s, and t0 has\n%s", a->number, cells.bytes ? cells.bytes : "nothing",
           present.bytes ? present.bytes : "nothing");
    text *kept = f->token ? &cells : same && model_is_published(a->home, 0) ? &present : NULL;
    if (kept) {
      forget(f);
      f->token = copy_text(token.bytes, strlen(token.bytes));
      f->cells = *kept;
      *kept = (text){0};
      the.checks++;
    }
  }
  text_free(&token);
  text_free(&cells);
  text_free(&present);
  text_free(&later);
}

/* ---- A world ----------------------------------------------------------------------------------------------------- */

void follow_power_failed(void) {
  for (int i = 0; i < MACHINES_MAX; i++) begin_new_copy(i);
  for (int i = 0; i < ACTORS_MAX; i++) forget(&feeds[i]);
}

void follow_end(void) {
  memset(has_copy, 0, sizeof has_copy);
  memset(numbers, 0, sizeof numbers);
  for (int i = 0; i < ACTORS_MAX; i++) forget(&feeds[i]);
}
