/* scenario.h: the scenarios that faults.c and crashes.c run, and the states of arrays before and after each step, which
 * they compare. A scenario runs on a disk of its own (disk.h), in one database, DISK_ROOT/t.db. A state is a text: the rows
 * of all tables, at the present and at each earlier time.
 *
 * When statement n of a scenario begins, the clock is set to CLOCK_START + 1000 * n. So commits have the same times in each
 * run, and the times between two statements ("moments") show every state.
 */
#ifndef FAULT_SCENARIO_H
#define FAULT_SCENARIO_H

#include <sqlite3.h>

#include "disk.h"

#define STEPS_MAX   40
#define CLOCK_START INT64_C(1700000000000)

#define DATABASE DISK_ROOT "/t.db"

/* Steps that are not SQL (steps.c).
 * BUSY_COMMIT: executes COMMIT twice while another connection reads the table `o`, which has two rows. Both fail with
 * SQLITE_BUSY, as they should, and the transaction stays open. */
#define BUSY_COMMIT "a COMMIT that meets a reader"
/* CUT_OFF: turns the last commit through table `t` back into a prepared one, as a crash between the database's commit and
 * the array's leaves it. */
#define CUT_OFF(t) "cut off " t
/* ASIDE: executes a statement in another database, whose table `t` has the same array. UNAWARE: the same, while the prepared
 * commits of `t` are hidden, as from TileDB. */
#define ASIDE(t, sql)   "aside " t ":" sql
#define UNAWARE(t, sql) "unaware " t ":" sql
/* STREAM: redeems the token that a SELECT returns, and reads the stream to its end. Its row has the columns, and how
 * many rows and nulls there are. */
#define STREAM(sql) "stream " sql

typedef struct scenario {
  const char *name;
  const char *copies[8]; /* arrays of the corpus and their paths on the disk: "new/dense/x", "/disk/t", ..., NULL */
  const char *setup[STEPS_MAX]; /* statements; this and the following lists end with NULL */
  const char *steps[STEPS_MAX];
  const char *again[STEPS_MAX]; /* statements that must succeed afterwards, whatever has failed */
  const char *also[8]; /* queries whose rows belong to the state, besides all rows of all tables at all times */
  /* For maintenance that removes the past. `interleaved`: after a failure some moments may look as before the step, others as
   * after it; and as before all maintenance if a commit could not be published, because then it was not merged. `partial`: moments of the past may even look different from both (below format version 12 a vacuum removes
   * fragments one by one). */
  bool partial;
  bool interleaved;
  bool extra; /* PRAGMA synchronous=EXTRA: a commit to the database alone is durable when COMMIT returns */
} scenario;
extern const scenario *const scenarios[]; /* ends with NULL */

/* ---- Text -------------------------------------------------------------------------------------------------------- */

typedef struct text {
  char *bytes; /* NUL-terminated, or NULL */
  size_t size;
} text;
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(text *t);
/* Runs a statement and gives its rows as lines, in their order or sorted. Returns SQLite's code; *message is as with
 * sqlite3_exec. */
int text_query(sqlite3 *db, const char *sql, bool sorted, text *rows, char **message);

/* Does the same for a step, which need not be SQL. */
int text_step(sqlite3 *db, const char *sql, text *rows, char **message);

/* ---- States ------------------------------------------------------------------------------------------------------ */

/* Gives the state that the database shows: the present, and the moments of the first `statements` statements. If `moment`
 * is not 0, it is the only moment of the past that is looked at. */
void state_look(sqlite3 *db, const scenario *s, int statements, int moment, text *state);
/* Reduces a state to the present and one moment of the past. */
void state_at(const text *state, int moment, text *brief);
/* Returns true if the state equals `before` or `after`, which may be NULL, or is a mixture of both that the scenario allows
 * (interleaved, partial). */
bool state_is(const scenario *s, const text *state, const text *before, const text *after);
/* Returns true if each line of the state is in `before` or in `after`, and each line that both have is in the state. For
 * states that others see (state_beside). */
bool state_between(const text *state, const text *before, const text *after);
void state_differ(const text *got, const text *expected, FILE *to); /* prints the first lines that differ */
/* Gives the errors and warnings of tessera_check for the arrays of all tables, as lines. */
void state_check(sqlite3 *db, text *found);
void state_check_one(void *found, sqlite3 *db, const char *name); /* the same for one table; found: a text */
/* Gives the arrays as a program sees them that does not know the database: a line for each table, with its present rows; no
 * line if there is no array. */
void state_beside(const scenario *s, sqlite3 *db, text *state);

/* ---- A scenario without faults ----------------------------------------------------------------------------------- */

typedef struct course {
  const scenario *scenario;
  int setup_count, step_count;
  disk *base; /* the disk after the setup, all of it durable */
  text rows[STEPS_MAX]; /* of each step */
  text states[STEPS_MAX + 1]; /* before the first step, and after each step */
  text beside[STEPS_MAX + 1]; /* the same, by state_beside */
  text later[STEPS_MAX + 1]; /* the state after each of `states` and then `again` */
  int began[STEPS_MAX]; /* by step: the step that began its transaction; without BEGIN the step itself */
  bool ends[STEPS_MAX]; /* by step: true if it is a COMMIT or in no transaction */
  unsigned marks[STEPS_MAX + 1]; /* by step: the number of changes to the disk before it; at the end, of all steps */
} course;
/* Runs a scenario without faults. The disk's log has the changes of the steps afterwards. If anything fails, prints it and
 * returns false. */
bool course_run(course *c, const scenario *s, const char *corpus);
void course_free(course *c);

/* Opens DISK_ROOT/t.db and loads the extension. Returns SQLite's code. */
int session_open(const scenario *s, sqlite3 **db);
/* Runs `again` at a fixed later time, with the same random bytes each time. Returns NULL, or an error message that the
 * caller frees with sqlite3_free. */
char *session_again(sqlite3 *db, const scenario *s);
void session_clock(int statement); /* sets the clock to the time of a statement */
void session_begin(disk *d, uint64_t seed); /* makes d the disk_now; random bytes depend on the seed */

#endif
