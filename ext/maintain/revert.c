/* revert.c: tessera_revert(table, time[, slice]), which writes the state of a time over the present one, as rows of the
 * open transaction.
 *
 * A function gets no xBegin of the table. A DELETE of no rows does: SQLite then knows the table as part of the
 * transaction, and calls its xSync, xCommit, xRollback and methods for savepoints. The rows themselves go into the
 * array's writer without SQL, so that bytes come back which SQL does not show. */
#include <string.h>

#include "call/function.h"
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "maintain/upkeep.h"
#include "sql/names.h"
#include "sql/statement.h"
#include "tessera_host.h"
#include "values/slice.h"

#define COMMITTED "committed" /* in the place of a time: the state without the transaction's own rows */

typedef struct revert_call {
  tsx_connection *connection;
  tsx_address address;
  bool committed;
  tsx_snapshot *now, *then; /* `then` is NULL if `committed` */
  tsx_snapshot *touched[2]; /* sparse arrays: what was written since, what was dropped */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
} revert_call;

/* Opens the table and the time that the arguments name. */
static int revert_open(revert_call *c, sqlite3_value **values, tsr_error *error) {
  const char *path = (const char *)sqlite3_value_text(values[0]);
  const char *time = sqlite3_value_type(values[1]) == SQLITE_TEXT ? (const char *)sqlite3_value_text(values[1]) : NULL;
  if (!path) return tsx_out_of_memory(error);
  const bool is_path = !*path || strpbrk(path, "/\\");
  if (sqlite3_value_type(values[1]) == SQLITE_NULL)
    return tsx_fail(error, TSR_MISMATCH, "the time is NULL: give a time, or '" COMMITTED "'");
  c->committed = time && !sqlite3_stricmp(time, COMMITTED);
  if (sqlite3_strnicmp(path, "db:", 3))
    return tsx_fail(error, TSR_ERROR,
                    "'%.200s' is a path: name a table, 'db:%.200s', for only tables have transactions%s", path,
                    is_path ? "t" : path, is_path ? "" : "; or that of its array, if it has another name");
  TSX_TRY(tsx_address_open(c->connection, values[0], NULL, c->committed ? NULL : values[1], NULL, &c->address, error));
  return c->address.since == TSR_TIME_BEGIN
             ? TSR_OK
             : tsx_fail(error, TSR_READONLY, "%s shows cells since a time only: revert a table without that option",
                        path);
}

/* Makes the table part of SQLite's transaction, as an INSERT does. */
static int revert_enter(const revert_call *c, const char *path, tsr_error *error) {
  char *schema, *name, *message = NULL;
  TSX_TRY(tsx_table_name_parse(path + 3, &schema, &name, error));
  char *sql = schema ? sqlite3_mprintf("DELETE FROM \"%w\".\"%w\" WHERE 0", schema, name)
                     : sqlite3_mprintf("DELETE FROM \"%w\" WHERE 0", name);
  sqlite3_free(schema);
  sqlite3_free(name);
  const int code = tsx_sql_run(c->connection->db, sql, &message);
  const int result =
      code == SQLITE_OK ? TSR_OK : tsx_fail(error, tsx_core_code(code), "%s", message ? message : sqlite3_errstr(code));
  sqlite3_free(message);
  if (result < 0) return result;
  tsx_transaction *transaction = c->address.array->transaction;
  tsx_table *table = c->connection->tables.arrays;
  if (transaction) return TSR_OK;
  while (table && (table->array != c->address.array || !table->commit.begun)) table = table->next;
  if (!table) return tsx_fail(error, TSR_ERROR, "%s was replaced meanwhile", path);
  return tsx_transaction_of(table, &transaction, error); /* ROLLBACK TO has ended it since SQLite called xBegin */
}

static int revert_take_slice(revert_call *c, sqlite3_value *slice, const tsr_schema *schema, tsr_error *error) {
  const tsx_label_source labels = tsx_address_labels(&c->address);
  TSX_TRY(tsx_slice_parse(c->connection->db, slice, schema, &labels, c->address.uint64_signed, &c->slice, error));
  c->ranges = sqlite3_malloc64(schema->dimension_count * sizeof *c->ranges);
  c->dimensions = sqlite3_malloc64(schema->dimension_count * sizeof *c->dimensions);
  if (!c->ranges || !c->dimensions) return tsx_out_of_memory(error);
  tsx_slice_ranges(&c->slice, schema, c->ranges, c->dimensions);
  return TSR_OK;
}

/* Checks that the time does not lie behind commits that are ahead of the clock: once it reaches them, they would be
 * there beside what the revert has written. Gives the first time whose commits the old state lacks. */
static int revert_check_time(const revert_call *c, uint64_t *since, tsr_error *error) {
  uint64_t next;
  const uint64_t present = tsr_snapshot_time(c->now->core, &next);
  *since = (c->committed || c->address.as_of > present ? present : c->address.as_of) + 1;
  return c->committed || c->address.as_of < next
             ? TSR_OK
             : tsx_fail(error, TSR_ERROR,
                        "the time is ahead of the clock, and so are some commits: set the clock, or wait");
}

/* Opens snapshots of the cells that commits, and the transaction, have touched since a time. */
static int revert_find_touched(revert_call *c, const tsr_schema *schema, uint64_t since, tsr_error *error) {
  for (int i = 0; i < 2; i++) {
    const tsr_changed changed = {.kind = i ? TSR_CHANGED_DROPPED : TSR_CHANGED_WRITTEN, .since = since};
    TSX_TRY(tsx_array_snapshot_changed(c->connection, c->address.array, schema, &changed, TSR_TIME_NOW, true,
                                       &c->touched[i], error));
  }
  return TSR_OK;
}

static int revert_rows(revert_call *c, sqlite3_value *slice, uint64_t *changed, tsr_error *error) {
  tsx_array *array = c->address.array;
  tsx_transaction *transaction = array->transaction;
  const tsr_schema *schema = tsr_writer_schema(transaction->writer);
  uint64_t since;
  TSX_TRY(revert_take_slice(c, slice, schema, error));
  TSX_TRY(tsx_array_snapshot(c->connection, array, schema, TSR_TIME_BEGIN, TSR_TIME_NOW, true, &c->now, error));
  TSX_TRY(revert_check_time(c, &since, error));
  if (!c->committed)
    TSX_TRY(tsx_array_snapshot(c->connection, array, schema, TSR_TIME_BEGIN, c->address.as_of, false, &c->then, error));
  if (!schema->dense) TSX_TRY(revert_find_touched(c, schema, since, error));
  tsr_snapshot *touched[2] = {c->touched[0] ? c->touched[0]->core : NULL, c->touched[1] ? c->touched[1]->core : NULL};
  return tsr_writer_revert(transaction->writer, c->now->core, c->committed ? transaction->base : c->then->core,
                           schema->dense ? NULL : touched, c->dimensions, c->address.memory_bytes, changed, error);
}

static int revert_make(revert_call *c, int count, sqlite3_value **values, uint64_t *changed, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  TSX_TRY(revert_open(c, values, error));
  TSX_TRY(tsx_savepoint_begin_rows(c->connection, error));
  TSX_TRY(revert_enter(c, (const char *)sqlite3_value_text(values[0]), error));
  return revert_rows(c, count > 2 ? values[2] : NULL, changed, error);
}

void tsx_revert(sqlite3_context *context, int count, sqlite3_value **values) {
  revert_call c = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  uint64_t changed = 0;
  tsx_connection_add_table(c.connection); /* cancellation works only while a table is counted */
  const int code = revert_make(&c, count, values, &changed, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)changed);
  for (int i = 0; i < 2; i++) tsx_snapshot_release(c.touched[i]);
  tsx_snapshot_release(c.then);
  tsx_snapshot_release(c.now);
  tsx_slice_release(&c.slice);
  sqlite3_free(c.ranges);
  sqlite3_free(c.dimensions);
  tsx_address_close(&c.address);
  tsx_connection_remove_table(c.connection);
  tsx_function_end(context, "tessera_revert", code, &error);
}
