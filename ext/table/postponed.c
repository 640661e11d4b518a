/* postponed.c: see postponed.h. A kept commit holds a reference to its array and to its transaction, so that the writer
 * stays open. The cells are published before a created array, so that the array appears with them.
 */
#include "table/postponed.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "table/transaction.h"

struct tsx_postponed {
  tsx_postponed *next; /* a later one */
  tsx_array *array; /* one reference */
  tsx_transaction *transaction; /* one reference; NULL: no cells */
  tsr_creation *creation; /* owned; NULL: the array was there before */
  bool told; /* a statement has failed with it */
};

void tsx_postpone(tsx_connection *connection, tsx_array *array, const tsr_error *why) {
  tsx_postponed *kept = sqlite3_malloc64(sizeof *kept), **link = &connection->postponed;
  if (!kept) {
    tsx_connection_keep_lost(connection, why);
    return;
  }
  *kept = (tsx_postponed){.array = array, .transaction = array->transaction, .creation = array->making.creation};
  array->references++;
  if (array->transaction) array->transaction->references++;
  array->making.creation = NULL;
  while (*link) link = &(*link)->next;
  *link = kept;
}

/* Takes a commit out of the list and closes it. */
static void postponed_drop(tsx_connection *connection, tsx_postponed *kept) {
  tsx_postponed **link = &connection->postponed;
  while (*link != kept) link = &(*link)->next;
  *link = kept->next;
  if (kept->transaction) tsx_transaction_drop(kept->transaction);
  tsr_creation_close(kept->creation);
  tsx_array_changed(kept->array);
  tsx_array_release(connection, kept->array);
  sqlite3_free(kept);
}

/* Publishes a created array. Another connection to the same table may have done so. */
static int postponed_create(const tsx_connection *connection, const tsx_postponed *kept, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  tsr_error ignored;
  const int code = tsr_creation_publish(kept->creation, error);
  if (code != TSR_NOT_FOUND) return code;
  const int found = tsr_object_find(connection->environment, kept->array->path, &kind, &ignored);
  if (found < 0) return error->code = found == TSR_NOT_FOUND ? TSR_IO : found; /* the commit is kept */
  return kind == TSR_OBJECT_ARRAY ? TSR_OK : code;
}

static int postponed_settle(const tsx_connection *connection, const tsx_postponed *kept, tsr_error *error) {
  int code = kept->transaction ? tsr_writer_publish(kept->transaction->writer, error) : TSR_OK;
  if (code >= 0 && kept->creation) code = postponed_create(connection, kept, error);
  return code;
}

/* Publishes one commit. If its files are gone it is given up. */
static int postponed_publish_one(tsx_connection *connection, tsx_postponed *kept, tsr_error *error) {
  tsr_error why = {0};
  const int code = postponed_settle(connection, kept, &why);
  kept->told = true;
  if (code >= 0) {
    postponed_drop(connection, kept);
    return TSR_OK;
  }
  if (code != TSR_NOT_FOUND)
    return tsx_fail(error, code,
                    "an earlier COMMIT was done in the database alone so far, each statement on the array tries to "
                    "complete it: %s",
                    why.message);
  postponed_drop(connection, kept);
  return tsx_fail(error, TSR_CORRUPT, "an earlier COMMIT was done in the database alone: %s", why.message);
}

int tsx_postponed_publish(tsx_connection *connection, const tsx_array *array, tsr_error *error) {
  int published = 0, code = tsx_connection_tell_lost(connection, error);
  for (tsx_postponed *kept = connection->postponed, *next; kept && code >= 0; kept = next) {
    next = kept->next;
    if (kept->told && kept->array != array) continue;
    code = postponed_publish_one(connection, kept, error);
    published++;
  }
  return code < 0 ? code : published;
}

/* Returns the first commit that is kept for the array at a path, or NULL. */
static tsx_postponed *postponed_at(tsx_connection *connection, const char *path) {
  char *key = NULL;
  tsr_error ignored;
  if (!connection->postponed || tsx_array_key(connection, path, &key, &ignored) < 0) return NULL;
  tsx_postponed *kept = connection->postponed;
  while (kept && strcmp(kept->array->path, key) != 0) kept = kept->next;
  sqlite3_free(key);
  return kept;
}

int tsx_postponed_publish_path(tsx_connection *connection, const char *path, tsr_error *error) {
  const tsx_postponed *kept = postponed_at(connection, path);
  return kept ? tsx_postponed_publish(connection, kept->array, error) : 0;
}

void tsx_postponed_try(tsx_connection *connection, const char *path) {
  tsr_error ignored;
  tsx_postponed *kept;
  while ((kept = postponed_at(connection, path)) != NULL && postponed_settle(connection, kept, &ignored) >= 0)
    postponed_drop(connection, kept);
}

void tsx_postponed_give_up(tsx_connection *connection, const tsx_array *array) {
  for (tsx_postponed *kept = connection->postponed, *next; kept; kept = next) {
    next = kept->next;
    if (kept->array != array) continue;
    if (kept->transaction) (void)tsr_writer_abandon(kept->transaction->writer, NULL);
    if (kept->creation) (void)tsr_creation_abandon(kept->creation, NULL);
    postponed_drop(connection, kept);
  }
}

void tsx_postponed_close(tsx_connection *connection) {
  while (connection->postponed) {
    tsx_postponed *kept = connection->postponed;
    tsr_error why = {0};
    const int code = postponed_settle(connection, kept, &why);
    if (code < 0)
      sqlite3_log(tsx_sqlite_code(code), "tessera: %s: a COMMIT was done in the database alone: %s", kept->array->path,
                  why.message);
    postponed_drop(connection, kept);
  }
}
