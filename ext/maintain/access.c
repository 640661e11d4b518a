/* access.c: the SQL functions that decide what a connection may reach.
 *
 * tessera_configure(scope, options) declares how this connection accesses a bucket or container, or a prefix in it.
 * Without such a declaration, no request leaves the machine.
 *
 * tessera_restrict(directory) confines the connection: from then on it opens and creates arrays and groups, and reads
 * key files, only below that directory. A later call can narrow the restriction further, but nothing can lift it. The
 * core enforces it (tsr_environment_confine): symbolic links are resolved before paths are compared, and within an
 * array no link is followed. */
#include "maintain/upkeep.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "call/function.h"
#include "sql/json.h"
#include "sql/options.h"
#include "definition/arguments.h"

/* ---- tessera_configure ------------------------------------------------------------------------------------------- */

/* The members of tsr_scope_options. X(name): texts and flags; X(name, most): numbers from 0 to `most`. */
#define SCOPE_TEXTS(X)                                                                                                 \
  X(provider)                                                                                                          \
  X(key_id)                                                                                                            \
  X(secret)                                                                                                            \
  X(session_token)                                                                                                     \
  X(service_account)                                                                                                   \
  X(service_account_file)                                                                                              \
  X(token)                                                                                                             \
  X(key)                                                                                                               \
  X(sas)                                                                                                               \
  X(tenant_id)                                                                                                         \
  X(client_id)                                                                                                         \
  X(client_secret)                                                                                                     \
  X(account)                                                                                                           \
  X(region)                                                                                                            \
  X(user_project)                                                                                                      \
  X(endpoint)                                                                                                          \
  X(ca_file)                                                                                                           \
  X(proxy)                                                                                                             \
  X(sse)                                                                                                               \
  X(kms_key_id)                                                                                                        \
  X(encryption_scope)                                                                                                  \
  X(storage_class)
#define SCOPE_NUMBERS(X)                                                                                               \
  X(connect_ms, 3600000)                                                                                               \
  X(stall_ms, 3600000)                                                                                                 \
  X(parallel, 256)                                                                                                     \
  X(part_mb, 1024)                                                                                                     \
  X(refresh_ms, 86400000)
#define SCOPE_FLAGS(X) X(requester_pays) X(plain_http)

enum {
#define X(name, ...) SCOPE_OPTION_##name,
  SCOPE_TEXTS(X) SCOPE_NUMBERS(X) SCOPE_FLAGS(X)
#undef X
      SCOPE_OPTION_retries,
  SCOPE_OPTION_url_style
};

static const tsx_option_spec scope_specs[] = {
#define X(name) {#name, TSX_TAKES_TEXT, 0, 0, NULL},
    SCOPE_TEXTS(X)
#undef X
#define X(name, most) {#name, TSX_TAKES_WHOLE, 0, most, NULL},
        SCOPE_NUMBERS(X)
#undef X
#define X(name) {#name, TSX_TAKES_FLAG, 0, 0, NULL},
            SCOPE_FLAGS(X)
#undef X
                {"retries", TSX_TAKES_WHOLE, 0, 100, NULL},
    {"url_style", TSX_TAKES_WORD, 0, 0, TSX_WORDS("path", "virtual")}};

typedef struct scope_reading {
  tsr_scope_options options;
  uint64_t seen;
} scope_reading;

static int take_option(void *argument, const tsx_flat_member *member, tsr_error *error) {
  static const tsx_option_list list = TSX_OPTION_LIST(scope_specs);
  scope_reading *r = argument;
  tsr_scope_options *o = &r->options;
  tsx_option_value value;
  unsigned option;
  int code = tsx_option_find(&list, member->key, strlen(member->key), false, &r->seen, &option, error);
  if (code < 0 || member->kind == TSX_FLAT_NULL) return code;
  code = tsx_option_of_flat(&scope_specs[option], member, &value, error);
  if (code < 0) return code;
  switch (option) {
#define X(name)                                                                                                        \
  case SCOPE_OPTION_##name: o->name = value.text; break;
    SCOPE_TEXTS(X)
#undef X
#define X(name, most)                                                                                                  \
  case SCOPE_OPTION_##name: o->name = (uint32_t)value.whole; break;
    SCOPE_NUMBERS(X)
#undef X
#define X(name)                                                                                                        \
  case SCOPE_OPTION_##name: o->name = value.whole; break;
    SCOPE_FLAGS(X)
#undef X
  case SCOPE_OPTION_retries: /* for the core, 0 means the default */
    o->retries = value.whole ? (uint32_t)value.whole : TSR_NO_RETRIES;
    break;
  default: o->url_style = value.whole ? TSR_URL_VIRTUAL : TSR_URL_PATH;
  }
  return TSR_OK;
}

/* Declares the scope with the options in a JSON text. It may contain secrets, so the copy that is parsed is wiped. */
static int declare(tsx_connection *connection, const char *scope, sqlite3_value *json, tsr_error *error) {
  scope_reading reading = {.seen = 0};
  if (sqlite3_value_type(json) != SQLITE_TEXT)
    return tsx_fail(error, TSR_MISMATCH, "argument 2: expected options as a JSON object, or NULL");
  const void *text = sqlite3_value_blob(json); /* sqlite3_value_text might make a NUL-terminated copy */
  const size_t size = (size_t)sqlite3_value_bytes(json);
  char *copy = text || size == 0 ? sqlite3_malloc64(size + 1) : NULL; /* an empty text has no bytes to point at */
  if (!copy) return tsx_out_of_memory(error);
  if (size > 0) memcpy(copy, text, size);
  copy[size] = 0;
  int code = tsx_flat_each(copy, take_option, &reading, error);
  if (code >= 0) code = tsr_environment_configure(connection->environment, scope, &reading.options, error);
  tsx_wipe(copy, size);
  sqlite3_free(copy);
  return code;
}

static int configure_call(tsx_connection *connection, int count, sqlite3_value **values, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  const char *scope = (const char *)sqlite3_value_text(values[0]);
  return sqlite3_value_type(values[1]) == SQLITE_NULL
             ? tsr_environment_configure(connection->environment, scope, NULL, error)
             : declare(connection, scope, values[1], error);
}

void tsx_configure(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  const int code = configure_call(sqlite3_user_data(context), count, values, &error);
  if (code >= 0 && sqlite3_value_type(values[1]) == SQLITE_NULL) sqlite3_result_int(context, code);
  tsx_function_end(context, "tessera_configure", code, &error);
}

/* ---- tessera_restrict -------------------------------------------------------------------------------------------- */

/* Fails if the open transaction changes or creates an array outside of the directory, since it could not commit. */
static int check_open(const tsx_connection *connection, const char *directory, tsr_error *error) {
  int code = 1;
  for (const tsx_array *array = connection->arrays.list; array && code > 0; array = array->next) {
    if (array->in_database || (!array->transaction && !array->making.creation)) continue;
    code = tsr_path_lies_below(connection->environment, array->path, directory, error);
    if (code == 0)
      code = tsx_fail(error, TSR_ERROR, "the transaction has rows for %s, or makes it: commit first", array->path);
  }
  return code < 0 ? code : TSR_OK;
}

static int restrict_call(tsx_connection *connection, int count, sqlite3_value **values, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  const char *path = (const char *)sqlite3_value_text(values[0]);
  TSX_TRY(check_open(connection, path, error));
  TSX_TRY(tsr_environment_confine(connection->environment, path, error));
  connection->permissions.restrictions++;
  return TSR_OK;
}

void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  const int code = restrict_call(sqlite3_user_data(context), count, values, &error);
  tsx_function_end(context, "tessera_restrict", code, &error);
}
