/* scenario.h: what the fault loops and the crash loops do, what an array looks like before and after, and how two looks are
 * compared. A scenario runs on a disk of its own (disk.h), in one database, DISK_ROOT/t.db.
 *
 * The clock stands at CLOCK_START + 1000 * n when statement n of a scenario begins, so commits have the same times in each
 * run, and a look at all moments between two statements sees every state.
 */
#ifndef FAULT_SCENARIO_H
#define FAULT_SCENARIO_H

#include <sqlite3.h>

#include "disk.h"

#define STEPS_MAX   40
#define CLOCK_START INT64_C(1700000000000)

#define DATABASE DISK_ROOT "/t.db"

/* Steps that are no SQL (steps.c). COMMIT, twice, while another connection reads the table `o`, which has two rows: both
 * meet SQLITE_BUSY, as they should, and the transaction goes on. */
#define BUSY_COMMIT "a COMMIT that meets a reader"
/* What a crash leaves between the database's commit and the array's: the last commit through table `t` is prepared. */
#define CUT_OFF(t) "cut off " t
/* A statement of somebody else, whose table `t` has the same array; one that sees no prepared commit of `t`, as TileDB. */
#define ASIDE(t, sql)   "aside " t ":" sql
#define UNAWARE(t, sql) "unaware " t ":" sql

typedef struct scenario {
  const char *name;
  const char *copies[8]; /* arrays of the corpus and where they come to lie: "new/dense/x", "/disk/t", ..., NULL */
  const char *setup[STEPS_MAX]; /* each ends with NULL */
  const char *steps[STEPS_MAX];
  const char *again[STEPS_MAX]; /* what must work afterwards, whatever has happened */
  const char *also[8]; /* queries that belong to the state, beside all rows of all tables at all times */
  bool
      partial; /* likewise, and a moment within what was merged may look as between (below version 12 fragments go one by one) */
  bool interleaved; /* maintenance that ends travel in time: a moment may look as before while another looks as after */
  bool extra; /* PRAGMA synchronous=EXTRA: a commit to the database alone is durable when it returns */
} scenario;
extern const scenario *const scenarios[]; /* ends with NULL */

/* ---- Text -------------------------------------------------------------------------------------------------------- */

typedef struct text {
  char *bytes; /* NUL-terminated, or NULL */
  size_t size;
} text;
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(text *t);
/* Runs it; rows as lines, in their order, or sorted. The SQLite code; *message as of sqlite3_exec. */
int text_query(sqlite3 *db, const char *sql, bool sorted, text *rows, char **message);

/* The same of a step. */
int text_step(sqlite3 *db, const char *sql, text *rows, char **message);

/* ---- States ------------------------------------------------------------------------------------------------------ */

/* Everything that can be seen through the database, after so many statements: what lies behind them need not be looked at.
 * `moment`: of the past only this one is looked at; 0: all. */
void state_look(sqlite3 *db, const scenario *s, int statements, int moment, text *state);
/* What a look at one moment would have seen. */
void state_at(const text *state, int moment, text *brief);
/* Equal, or where a mixture is fine each line in one of both. `after` may be NULL. */
bool state_is(const scenario *s, const text *state, const text *before, const text *after);
/* Of what others see: each line is one of both, and what both have is there. */
bool state_between(const text *state, const text *before, const text *after);
void state_differ(const text *got, const text *wanted, FILE *to); /* the lines that are not the same */
/* What is wrong with the arrays behind all tables by tessera_check, as lines; notes left out. */
void state_check(sqlite3 *db, text *found);
/* The same arrays as others see them, who do not know the database: a line for each table with its rows now;
 * none where no array is. */
void state_beside(const scenario *s, sqlite3 *db, text *state);

/* ---- A scenario without faults ----------------------------------------------------------------------------------- */

typedef struct course {
  const scenario *scenario;
  int setup_count, step_count;
  disk *base; /* after the setup, all durable */
  text rows[STEPS_MAX]; /* of each step */
  text states[STEPS_MAX + 1]; /* before the first step, and after each */
  text beside[STEPS_MAX + 1];
  text later[STEPS_MAX + 1]; /* each state after `again` */
  int began[STEPS_MAX]; /* the step with which the transaction of each step began: itself without BEGIN */
  bool ends[STEPS_MAX]; /* a COMMIT, or not in a transaction */
  unsigned marks[STEPS_MAX + 1]; /* how many changes the disk had seen before each step, and after the last */
} course;
/* Runs it; what goes wrong without faults is printed, and false. The log holds the steps' changes. */
bool course_run(course *c, const scenario *s, const char *corpus);
void course_free(course *c);

int session_open(const scenario *s, sqlite3 **db); /* of DISK_ROOT/t.db; SQLITE_OK only with the extension set up */
/* Runs `again` at its own time, with the same random bytes each time: what went wrong, or NULL (to be freed with sqlite3_free). */
char *session_again(sqlite3 *db, const scenario *s);
void session_clock(int statement);
void session_begin(disk *d, uint64_t seed); /* d becomes disk_now; what is random depends on the seed */

#endif
