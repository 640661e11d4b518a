/* model.h: what the arrays must have. The model knows every version of every cell that a transaction has written or deleted,
 * and what is known about the transaction. A transaction also writes a row of its own into each array that it touches, its tag,
 * which nobody writes again. So a read shows which transactions it has seen, and when they were committed.
 */
#ifndef SIMULATE_MODEL_H
#define SIMULATE_MODEL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "world.h"

#define KEYS     24 /* cells that are written again and again: 0 to KEYS - 1 */
#define TAG(txn) (100 + (txn))

typedef enum outcome { PENDING, UNKNOWN, COMMITTED, ABORTED } outcome;

typedef struct version {
  int txn, key, value;
  int shows; /* the transaction whose number the cell has: that of `txn`, unless a revert has brought it back */
  bool deleted;
} version;

void model_begin(void);
void model_end(void);
int model_new(int home); /* a transaction of the machine's database, PENDING */
int model_count(void); /* of all transactions; the first is 1 */
void model_add(int array, version v); /* a transaction's last word on a cell */
void model_touch(int txn, int array);
void model_order(int txn); /* it is about to commit: after those of its database that were ordered before */
void model_settle(int txn, outcome outcome);
/* What the database had committed when `asker` called model_publishing is visible to all. */
void model_publishing(int asker, int home);
void model_published(int asker, int array);
/* What everybody sees in an array at model_syncing is in its copy once a sync has succeeded. */
void model_syncing(int asker, int array);
void model_published_one(int txn);
/* A transaction was committed, but nobody was told so by a COMMIT that has synced everything: until the database's next
 * commit that has, the database's journal may come back and undo it. */
void model_fragile(int txn);
void model_durable(int home); /* such a commit */
/* What was visible to others may again be prepared. Calls `again` for each fragile transaction, which is UNKNOWN again. */
void model_power_failed(void (*again)(int home, int txn));
void model_forget(int copy); /* it begins anew */
bool model_is_published(int home, int array); /* whether others see all that the database has committed to an array */
/* Everybody has to see all that is committed, after all have recovered. */
void model_published_all(int array);
int64_t model_moment(int array); /* the time of some commit, or 0 */

uint64_t model_digest(int array); /* a hash of what is known about its transactions */

/* Reads a table as of a time and compares it with what it must have. `listed`: by transaction, whether the same state of the
 * database has it in its ordinary table; NULL: unknown. Returns SQLite's code; if the rows are wrong, the program ends. */
int model_compare(sqlite3 *db, int home, int array, int64_t time, const bool *listed);
/* Compares the ordinary table of a database, and fills `listed`. */
int model_list(sqlite3 *db, int home, bool *listed);

#endif
