/* auto_upkeep.c: the table option auto_consolidate: a COMMIT merges fragments, so that an array into which a program
 * writes all day needs no other care.
 *
 * An attempt is made after every n commits with rows, n being the option's number; the first one earlier, if the array
 * has that many unmerged fragments already, so that programs that commit once and end are served, too. It is bounded:
 * what is larger waits for tessera_upkeep. An attempt that fails is repeated after twice as many commits.
 *
 * A merge never fails a COMMIT, which has happened before: an array in a directory or a bucket merges in the last
 * xCommit of the transaction, when everything is published. An array in the database can only be written within a
 * transaction, and xSync would be too late: a COMMIT that fails there may be repeated, or the transaction go on, with
 * changes that refer to the fragments as they were. So it merges in xBegin of the next transaction, which then sees the
 * merged fragments. ROLLBACK takes the merge back, and so does ROLLBACK TO an older savepoint (tsx_rollback_to). */
#include "tessera_path.h"
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

#define MERGE_BYTES     (UINT64_C(64) << 20) /* stored bytes that one COMMIT may read, ... */
#define MEMORY_SHARE    4 /* ... and at most this share of memory_mb */
#define MERGE_MS        250 /* then a COMMIT begins no other merge */
#define BUCKET_FANOUT   64 /* a merge in a bucket costs about three requests for each fragment */
#define REMOVED_MOST    256 /* replaced fragments that a COMMIT removes */
#define FILES_EVERY     16 /* attempts after which the files of commits are joined */
#define WAIT_FACTOR_MAX 64

static bool is_in_bucket(const tsx_table *table) { return tsr_path_scheme(table->path, NULL); }

/* Returns how many fragments one merge takes; 0: the table merges none by itself. */
static uint64_t fanout_of(const tsx_table *table) {
  const uint64_t asked = table->options.upkeep.fanout;
  return asked > 0 && asked < BUCKET_FANOUT && is_in_bucket(table) ? BUCKET_FANOUT : asked;
}

int tsx_upkeep_check(const tsx_table *table, tsr_error *error) {
  if (!table->options.upkeep.vacuum) return TSR_OK;
  const int keeps = tsr_array_keeps_times(table->array->core, error);
  if (keeps != 0) return keeps < 0 ? keeps : TSR_OK;
  return tsx_fail(
      error, TSR_UNSUPPORTED,
      "'auto_vacuum_s': a vacuum of a dense array, or of one below format version 15, ends time travel: run "
      "tessera_vacuum");
}

/* Returns true if it is time for an attempt. */
static bool is_due(const tsx_table *table, uint64_t fanout) {
  tsx_array *array = table->array;
  tsx_upkeep_state *state = &array->upkeep;
  tsr_snapshot *snapshot;
  tsr_error unseen;
  state->commits++;
  state->since_files++;
  if (state->wait == 0) {
    state->wait = fanout;
    if (tsr_snapshot_open(array->core, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &unseen) >= 0) {
      state->commits = tsr_snapshot_unmerged(snapshot, fanout);
      tsr_snapshot_close(snapshot);
    }
  }
  return state->commits >= state->wait;
}

/* Remembers how an attempt has ended. That other processes merge at the same time, and an interrupt, are no
 * failures. */
static void note_attempt(tsx_upkeep_state *state, uint64_t fanout, int code, const tsr_upkeep *done,
                         const tsr_error *error) {
  const bool failed = code < 0 && code != TSR_ABORT && code != TSR_BUSY && code != TSR_INTERRUPT;
  const uint64_t most = fanout * WAIT_FACTOR_MAX;
  sqlite3_free(state->failure);
  state->failure = failed ? sqlite3_mprintf("%s", error->message) : NULL;
  state->commits = 0;
  state->waiting = done->left;
  state->wait = !failed ? fanout : state->wait * 2 < most ? state->wait * 2 : most;
}

static void merge_and_vacuum(tsx_table *table, uint64_t fanout) {
  tsx_array *array = table->array;
  const uint64_t quarter = table->options.limits.memory_bytes / MEMORY_SHARE;
  const bool files = array->upkeep.since_files >= fanout * FILES_EVERY;
  const tsr_upkeep_options options = {.fanout = fanout,
                                      .memory_bytes = table->options.limits.memory_bytes,
                                      .threads = table->options.limits.threads,
                                      .most_bytes = quarter < MERGE_BYTES ? quarter : MERGE_BYTES,
                                      .most_merges = is_in_bucket(table),
                                      .milliseconds = MERGE_MS,
                                      .files = files,
                                      .automatic = true,
                                      .vacuum = table->options.upkeep.vacuum ? TSR_UPKEEP_VACUUM_HARMLESS
                                                                             : TSR_UPKEEP_VACUUM_NEVER,
                                      .grace = table->options.upkeep.vacuum_ms,
                                      .most_removed = REMOVED_MOST};
  tsr_upkeep done;
  tsr_error why = {0};
  const int code = tsr_array_upkeep(array->core, &options, &done, &why);
  if (files) array->upkeep.since_files = 0;
  note_attempt(&array->upkeep, fanout, code, &done, &why);
  tsx_array_changed(array);
}

void tsx_upkeep_in_begin(tsx_table *table) {
  const uint64_t fanout = fanout_of(table);
  tsr_error unseen; /* tsx_transaction_of reports it */
  if (!fanout || !table->in_database || tsx_table_ready(table, &unseen) < 0) return;
  if (!table->array->transaction && !table->array->making.creation && is_due(table, fanout))
    merge_and_vacuum(table, fanout);
}

/* Returns a table that has published, or NULL: there is none, or others are yet to publish. */
static tsx_table *next_published(const tsx_connection *connection) {
  tsx_table *found = NULL;
  for (tsx_table *table = connection->tables.arrays; table; table = table->next) {
    if (table->commit.begun) return NULL;
    if (table->commit.published && table->array) found = table;
  }
  return found;
}

void tsx_upkeep_in_commit(tsx_connection *connection) {
  for (tsx_table *table; (table = next_published(connection)) != NULL;) {
    const uint64_t fanout = fanout_of(table);
    table->commit.published = false;
    if (fanout && !table->array->making.creation && is_due(table, fanout)) merge_and_vacuum(table, fanout);
  }
}
