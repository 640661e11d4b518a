/* deferred.c: deferred commits: those that xCommit could not publish, and arrays whose process died before it published
 * them.
 *
 * Each holds a reference to its array and to its transaction, so that the writer stays open. This connection reads them
 * as committed: an array that is open with its creation shows itself, and the listing counts the writer's prepared
 * commit (tsr_writer_count_prepared). The cells are published before a created array, so that the array appears with
 * them. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

struct tsx_deferred_commit {
  tsx_deferred_commit *next; /* the next later one */
  tsx_array *array; /* one reference */
  tsx_transaction *transaction; /* one reference; NULL: no cells */
  tsr_creation *creation; /* owned; NULL: the array existed before */
  bool reported; /* a statement has failed with its error */
};

static tsx_deferred_commit *defer(tsx_connection *connection, tsx_array *array) {
  tsx_deferred_commit *kept = sqlite3_malloc64(sizeof *kept), **link = &connection->deferred;
  if (!kept) return NULL;
  *kept = (tsx_deferred_commit){.array = array, .creation = array->making.creation};
  array->references++;
  array->making.creation = NULL;
  while (*link) link = &(*link)->next;
  return *link = kept;
}

void tsx_defer_commit(tsx_connection *connection, tsx_array *array, const tsr_error *why) {
  tsx_deferred_commit *kept = defer(connection, array);
  if (!kept) {
    tsx_connection_defer_lost(connection, why);
    return;
  }
  if (!array->transaction) return;
  kept->transaction = array->transaction;
  kept->transaction->references++;
  tsr_writer_count_prepared(kept->transaction->writer);
}

int tsx_defer_creation(tsx_connection *connection, tsx_array *array, tsr_error *error) {
  tsx_deferred_commit *kept = defer(connection, array);
  if (!kept) return tsx_out_of_memory(error);
  kept->reported = true; /* nothing has failed: writing another array does not publish it */
  return TSR_OK;
}

/* Takes a commit out of the list and closes it. */
static void drop(tsx_connection *connection, tsx_deferred_commit *kept) {
  tsx_deferred_commit **link = &connection->deferred;
  while (*link != kept) link = &(*link)->next;
  *link = kept->next;
  if (kept->transaction) tsx_transaction_drop(kept->transaction);
  tsr_creation_close(kept->creation);
  tsx_array_changed(kept->array);
  tsx_array_release(connection, kept->array);
  sqlite3_free(kept);
}

/* Publishes a created array. Another connection to the same table may have done so already. */
static int publish_creation(const tsx_connection *connection, const tsx_deferred_commit *kept, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  tsr_error ignored;
  const int code = tsr_creation_publish(kept->creation, error);
  if (code != TSR_NOT_FOUND) return code;
  const int found = tsr_object_find(connection->environment, kept->array->path, &kind, &ignored);
  if (found < 0) return error->code = found == TSR_NOT_FOUND ? TSR_IO : found; /* the commit is kept */
  return kind == TSR_OBJECT_ARRAY ? TSR_OK : code;
}

static int complete(const tsx_connection *connection, const tsx_deferred_commit *kept, tsr_error *error) {
  int code = kept->transaction ? tsr_writer_publish(kept->transaction->writer, error) : TSR_OK;
  if (code >= 0 && kept->creation) code = publish_creation(connection, kept, error);
  return code;
}

/* Publishes one commit; gives it up if its files are gone. */
static int publish_one(tsx_connection *connection, tsx_deferred_commit *kept, tsr_error *error) {
  tsr_error why = {0};
  const int code = complete(connection, kept, &why);
  kept->reported = true;
  if (code >= 0) {
    drop(connection, kept);
    return TSR_OK;
  }
  if (code != TSR_NOT_FOUND)
    return tsx_fail(error, code,
                    "the database has made an earlier COMMIT, but the array has not yet; each statement that writes "
                    "the array tries to complete it: %s",
                    why.message);
  drop(connection, kept);
  return tsx_fail(error, TSR_CORRUPT, "the database has made an earlier COMMIT, but the array never will: %s",
                  why.message);
}

int tsx_deferred_publish(tsx_connection *connection, const tsx_array *array, tsr_error *error) {
  int published = 0, code = tsx_connection_report_lost(connection, error);
  for (tsx_deferred_commit *kept = connection->deferred, *next; kept && code >= 0; kept = next) {
    next = kept->next;
    if (kept->reported && kept->array != array) continue;
    code = publish_one(connection, kept, error);
    published++;
  }
  return code < 0 ? code : published;
}

/* Returns the first deferred commit to the array at a path, or NULL. */
static tsx_deferred_commit *first_at(tsx_connection *connection, const char *path) {
  char *key = NULL;
  tsr_error ignored;
  if (!connection->deferred || tsx_array_key(connection, path, &key, &ignored) < 0) return NULL;
  tsx_deferred_commit *kept = connection->deferred;
  while (kept && strcmp(kept->array->path, key) != 0) kept = kept->next;
  sqlite3_free(key);
  return kept;
}

int tsx_deferred_publish_path(tsx_connection *connection, const char *path, tsr_error *error) {
  const tsx_deferred_commit *kept = first_at(connection, path);
  return kept ? tsx_deferred_publish(connection, kept->array, error) : 0;
}

void tsx_deferred_try(tsx_connection *connection, const char *path) {
  tsr_error ignored;
  tsx_deferred_commit *kept;
  while ((kept = first_at(connection, path)) != NULL && complete(connection, kept, &ignored) >= 0)
    drop(connection, kept);
}

void tsx_deferred_give_up(tsx_connection *connection, const tsx_array *array) {
  for (tsx_deferred_commit *kept = connection->deferred, *next; kept; kept = next) {
    next = kept->next;
    if (kept->array != array) continue;
    if (kept->transaction) (void)tsr_writer_abandon(kept->transaction->writer, NULL);
    if (kept->creation) (void)tsr_creation_abandon(kept->creation, NULL);
    drop(connection, kept);
  }
}

void tsx_deferred_close(tsx_connection *connection) {
  while (connection->deferred) {
    tsx_deferred_commit *kept = connection->deferred;
    tsr_error why = {0};
    const int code = complete(connection, kept, &why);
    if (code < 0)
      sqlite3_log(tsx_sqlite_code(code), "tessera: %s: the database has made a COMMIT, but the array has not: %s",
                  kept->array->path, why.message);
    drop(connection, kept);
  }
}
