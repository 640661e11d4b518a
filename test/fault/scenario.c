/* scenario.c: runs scenarios, records their states and compares them (scenario.h). */

#include <stdio.h>

#include "scenario.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_LATER 1000 /* statements after the first: the time of `again` */

/* ---- Text -------------------------------------------------------------------------------------------------------- */

void text_add(text *t, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *bytes = realloc(t->bytes, t->size + (size_t)size + 1);
  if (!bytes) abort();
  vsnprintf(bytes + t->size, (size_t)size + 1, format, arguments);
  va_end(arguments);
  t->bytes = bytes;
  t->size += (size_t)size;
}

void text_free(text *t) {
  free(t->bytes);
  *t = (text){0};
}

static int compare_lines(const void *a, const void *b) {
  return strcmp(((const text *)a)->bytes, ((const text *)b)->bytes);
}

int text_query(sqlite3 *db, const char *sql, bool sorted, text *rows, char **message) {
  sqlite3_stmt *statement = NULL;
  text *lines = NULL;
  size_t count = 0;
  int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    lines = realloc(lines, (count + 1) * sizeof *lines);
    if (!lines) abort();
    lines[count] = (text){0};
    text *line = &lines[count++];
    text_add(line, "%s", "");
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
      bool null = sqlite3_column_type(statement, i) == SQLITE_NULL;
      const char *value = (const char *)sqlite3_column_text(statement, i);
      if (!value && !null) code = SQLITE_NOMEM;
      text_add(line, "%s|", value ? value : "NULL");
    }
    if (code == SQLITE_NOMEM) break;
    code = SQLITE_OK;
  }
  if (code == SQLITE_DONE) code = SQLITE_OK;
  if (code != SQLITE_OK) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  if (sorted && count > 1) qsort(lines, count, sizeof *lines, compare_lines);
  for (size_t i = 0; i < count; i++) {
    text_add(rows, "%s ", lines[i].bytes);
    text_free(&lines[i]);
  }
  free(lines);
  return code;
}

/* ---- States ------------------------------------------------------------------------------------------------------ */

static void add_line(sqlite3 *db, const char *label, char *sql, text *state) {
  char *message = NULL;
  text rows = {0};
  int code = text_query(db, sql, true, &rows, &message);
  if (code == SQLITE_OK) text_add(state, "%s: %s\n", label, rows.bytes ? rows.bytes : "");
  else text_add(state, "%s: error %d %s\n", label, code, message ? message : "");
  text_free(&rows);
  sqlite3_free(message);
}

/* Calls a function with the name of each tessera table. */
static void each_table(sqlite3 *db, void (*visit)(void *argument, sqlite3 *db, const char *name), void *argument,
                       text *errors) {
  sqlite3_stmt *statement = NULL;
  char *names[20];
  int count = 0;
  int code = sqlite3_prepare_v2(db,
                                "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING tessera(%' "
                                "OR sql LIKE 'CREATE VIRTUAL TABLE%USING \"tessera\"(%' ORDER BY name",
                                -1, &statement, NULL);
  while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW && count < 20) {
    names[count++] = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0));
    code = SQLITE_OK;
  }
  if (code != SQLITE_DONE) text_add(errors, "tables: error %d %s\n", code, sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  for (int i = 0; i < count; i++) {
    visit(argument, db, names[i]);
    sqlite3_free(names[i]);
  }
}

typedef struct look {
  text *state;
  int statements, moment;
} look;

static void look_at(void *argument, sqlite3 *db, const char *name) {
  look *l = argument;
  char label[100], sql[300];
  snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", name);
  add_line(db, name, sql, l->state);
  for (int i = 1; i <= l->statements; i++) { /* moment 0 has no cells */
    if (l->moment && i != l->moment) continue;
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"(%lld)", name, (long long)(CLOCK_START + i * 1000 - 1));
    snprintf(label, sizeof label, "%s at %d", name, i);
    add_line(db, label, sql, l->state);
  }
}

void state_look(sqlite3 *db, const scenario *s, int statements, int moment, text *state) {
  look l = {state, statements, moment};
  text_free(state);
  add_line(db, "schema", "SELECT name FROM sqlite_schema WHERE type = 'table'", state);
  each_table(db, look_at, &l, state);
  for (int i = 0; s->also[i]; i++) add_line(db, s->also[i], (char *)s->also[i], state);
}

static const char *next_line(const char **at, size_t *size) {
  const char *line = *at;
  if (!line || !*line) return NULL;
  *size = strcspn(line, "\n");
  *at = line + *size + (line[*size] == '\n');
  return line;
}

static bool is_past(const char *line, size_t size) {
  const char *colon = memchr(line, ':', size), *at = strstr(line, " at ");
  return colon && at && at < colon;
}

void state_at(const text *state, int moment, text *brief) {
  const char *at = state->bytes, *line;
  size_t size;
  text_free(brief);
  text_add(brief, "%s", "");
  while ((line = next_line(&at, &size)))
    if (!is_past(line, size) || atoi(strstr(line, " at ") + 4) == moment) text_add(brief, "%.*s\n", (int)size, line);
}

bool state_is(const scenario *s, const text *state, const text *before, const text *after) {
  if (!strcmp(state->bytes, before->bytes) || (after && !strcmp(state->bytes, after->bytes))) return true;
  if ((!s->interleaved && !s->partial) || !after) return false;
  const char *at[3] = {state->bytes, before->bytes, after->bytes};
  for (;;) {
    size_t size[3];
    const char *line[3];
    for (int i = 0; i < 3; i++) line[i] = next_line(&at[i], &size[i]);
    if (!line[0] || !line[1] || !line[2]) return !line[0] && !line[1] && !line[2];
    bool found = s->partial && is_past(line[0], size[0]);
    for (int i = 1; i < 3; i++) found |= size[0] == size[i] && !memcmp(line[0], line[i], size[0]);
    if (!found) return false;
  }
}

static bool has_line(const text *state, const char *expected, size_t expected_size) {
  const char *at = state->bytes, *line;
  size_t size;
  while ((line = next_line(&at, &size)))
    if (size == expected_size && !memcmp(line, expected, size)) return true;
  return false;
}

bool state_between(const text *state, const text *before, const text *after) {
  const char *at = state->bytes, *line;
  size_t size;
  while ((line = next_line(&at, &size)))
    if (!has_line(before, line, size) && !has_line(after, line, size)) return false;
  at = before->bytes;
  while ((line = next_line(&at, &size)))
    if (has_line(after, line, size) && !has_line(state, line, size)) return false;
  return true;
}

void state_differ(const text *got, const text *expected, FILE *to) {
  const char *at[2] = {got->bytes, expected->bytes};
  for (int told = 0; told < 4;) {
    size_t size[2] = {0, 0};
    const char *line[2];
    for (int i = 0; i < 2; i++) line[i] = next_line(&at[i], &size[i]);
    if (!line[0] && !line[1]) break;
    if (line[0] && line[1] && size[0] == size[1] && !memcmp(line[0], line[1], size[0])) continue;
    fprintf(to, "    got      %.*s\n    expected %.*s\n", line[0] ? (int)(size[0] < 700 ? size[0] : 700) : 0,
            line[0] ? line[0] : "", line[1] ? (int)(size[1] < 700 ? size[1] : 700) : 0, line[1] ? line[1] : "");
    told++;
  }
}

void state_check_one(void *found, sqlite3 *db, const char *name) {
  char sql[300], *message = NULL;
  text rows = {0};
  snprintf(sql, sizeof sql, "SELECT severity, file, message FROM tessera_check('db:\"%s\"') WHERE severity <> 'note'",
           name);
  if (text_query(db, sql, false, &rows, &message) != SQLITE_OK) text_add(found, "%s: %s\n", name, message);
  else if (rows.bytes) text_add(found, "%s: %s\n", name, rows.bytes);
  sqlite3_free(message);
  text_free(&rows);
}

void state_check(sqlite3 *db, text *found) {
  text_free(found);
  each_table(db, state_check_one, found, found);
}

typedef struct outside {
  sqlite3 *db;
  text *state;
} outside;

static void look_beside(void *argument, sqlite3 *db, const char *name) {
  outside *o = argument;
  char path[200], sql[400];
  snprintf(path, sizeof path, DISK_ROOT "/%s", name);
  if (disk_find(disk_now, path, NULL) < 0) return; /* the array is in the database */
  snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE \"%s\" USING tessera('%s')", name, path);
  bool array = sqlite3_exec(o->db, sql, NULL, NULL, NULL) == SQLITE_OK;
  snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", name);
  if (array) add_line(o->db, name, sql, o->state);
}

void state_beside(const scenario *s, sqlite3 *db, text *state) {
  outside o = {NULL, state};
  text_free(state);
  text_add(state, "%s", "");
  if (sqlite3_open(":memory:", &o.db) == SQLITE_OK) each_table(db, look_beside, &o, state);
  sqlite3_close(o.db);
}

/* ---- Sessions ---------------------------------------------------------------------------------------------------- */

int session_open(const scenario *s, sqlite3 **db) {
  int code = sqlite3_open(DATABASE, db);
  if (code == SQLITE_OK) code = sqlite3_errcode(*db);
  if (code == SQLITE_OK && s->extra) code = sqlite3_exec(*db, "PRAGMA synchronous=EXTRA", NULL, NULL, NULL);
  return code;
}

void session_clock(int statement) { disk_clock_set(CLOCK_START + 1000 * (int64_t)statement); }

void session_begin(disk *d, uint64_t seed) {
  disk_now = d;
  disk_random_seed(seed);
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESET);
}

char *session_again(sqlite3 *db, const scenario *s) {
  char *message = NULL;
  disk_random_seed(5);
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESET);
  for (int i = 0; s->again[i]; i++) {
    session_clock(AGAIN_LATER + i);
    text rows = {0};
    int code = text_query(db, s->again[i], true, &rows, &message);
    text_free(&rows);
    if (code == SQLITE_OK) continue;
    char *told = sqlite3_mprintf("%s: %s", s->again[i], message);
    sqlite3_free(message);
    return told;
  }
  return NULL;
}

/* ---- A scenario without faults ----------------------------------------------------------------------------------- */

static int count(const char *const *statements) {
  int n = 0;
  while (statements[n]) n++;
  return n;
}

static bool begins(const char *sql, const char *word) { return !sqlite3_strnicmp(sql, word, (int)strlen(word)); }

static bool run(sqlite3 *db, const char *sql, int number, text *rows) {
  char *message = NULL;
  session_clock(number);
  int code = text_step(db, sql, rows, &message);
  if (code != SQLITE_OK) printf("without faults: %d %s: %s\n", code, message, sql);
  sqlite3_free(message);
  return code == SQLITE_OK;
}

/* Records the state after `again`, on a copy of a disk. */
static bool look_later(course *c, int index, const disk *d) {
  sqlite3 *db = NULL;
  disk *kept = disk_now;
  session_begin(disk_copy(d), 2);
  bool fine = session_open(c->scenario, &db) == SQLITE_OK;
  char *failed = fine ? session_again(db, c->scenario) : sqlite3_mprintf("cannot open");
  if (failed) printf("%s: without faults, after step %d: %s\n", c->scenario->name, index, failed);
  state_look(db, c->scenario, c->setup_count + c->step_count, 0, &c->later[index]);
  text found = {0};
  state_check(db, &found);
  if (found.bytes) printf("%s: without faults, after step %d: %s\n", c->scenario->name, index, found.bytes);
  fine = !failed && !found.bytes;
  text_free(&found);
  sqlite3_free(failed);
  sqlite3_close(db);
  disk_free(disk_now);
  disk_now = kept;
  return fine;
}

static void mark_transactions(course *c) {
  int began = -1;
  for (int i = 0; i < c->step_count; i++) {
    const char *sql = c->scenario->steps[i];
    bool last = begins(sql, "COMMIT") || begins(sql, "ROLLBACK;") || !strcmp(sql, "ROLLBACK");
    if (begins(sql, "BEGIN")) began = i;
    c->began[i] = began >= 0 ? began : i;
    c->ends[i] = began < 0 || last;
    if (last) began = -1;
  }
}

/* Records the states after each step, through another connection on a copy of the disk, so that the course is not
 * disturbed. */
static bool look_now(course *c, int index) {
  disk *live = disk_now, *copy = disk_copy(live);
  bool fine = true;
  if (index == 0 || c->ends[index - 1]) {
    sqlite3 *db = NULL;
    session_begin(copy, 2);
    fine = session_open(c->scenario, &db) == SQLITE_OK;
    state_look(db, c->scenario, c->setup_count + c->step_count, 0, &c->states[index]);
    state_beside(c->scenario, db, &c->beside[index]);
    sqlite3_close(db);
    fine &= look_later(c, index, copy);
  } else {
    text_add(&c->states[index], "%s", c->states[c->began[index - 1]].bytes);
    text_add(&c->beside[index], "%s", c->beside[c->began[index - 1]].bytes);
    text_add(&c->later[index], "%s", c->later[c->began[index - 1]].bytes);
  }
  disk_free(copy);
  disk_now = live;
  return fine;
}

bool course_run(course *c, const scenario *s, const char *corpus) {
  *c = (course){.scenario = s, .setup_count = count(s->setup), .step_count = count(s->steps)};
  sqlite3 *db = NULL;
  bool fine = true;
  disk_disarm();
  mark_transactions(c);
  disk *first = disk_new();
  for (int i = 0; s->copies[i]; i += 2) {
    char real[1000];
    snprintf(real, sizeof real, "%s/%s", corpus, s->copies[i]);
    fine &= disk_import(first, real, s->copies[i + 1]) >= 0;
  }
  session_begin(first, 1);
  fine &= session_open(s, &db) == SQLITE_OK;
  for (int i = 0; fine && i < c->setup_count; i++) {
    text rows = {0};
    fine &= run(db, s->setup[i], i, &rows);
    text_free(&rows);
  }
  sqlite3_close(db);
  c->base = disk_crash(first, DISK_LOSE_NOTHING);
  disk_free(first);

  session_begin(disk_copy(c->base), 3);
  fine = fine && look_now(c, 0) && session_open(s, &db) == SQLITE_OK;
  disk_log_begin();
  for (int i = 0; fine && i < c->step_count; i++) {
    c->marks[i] = disk_log_size();
    disk_random_seed(100 + (uint64_t)i); /* recording the state in between has changed the random sequence */
    fine &= run(db, s->steps[i], c->setup_count + i, &c->rows[i]);
    unsigned logged = disk_log_size();
    c->marks[i + 1] = logged;
    fine = fine && look_now(c, i + 1);
    if (disk_log_size() != logged) printf("%s: a look at step %d has changed the disk\n", s->name, i);
  }
  disk_log_end();
  sqlite3_close(db);
  disk_free(disk_now);
  disk_now = NULL;
  if (!fine) printf("%s: does not run without faults\n", s->name);
  return fine;
}

void course_free(course *c) {
  for (int i = 0; i < STEPS_MAX; i++) text_free(&c->rows[i]);
  for (int i = 0; i <= STEPS_MAX; i++) {
    text_free(&c->states[i]);
    text_free(&c->beside[i]);
    text_free(&c->later[i]);
  }
  disk_free(c->base);
}
