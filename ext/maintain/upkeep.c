/* upkeep.c: tessera_consolidate, tessera_vacuum, tessera_upkeep and tessera_lease.
 *
 * The first three act immediately, outside of SQLite's transaction, so they fail while the open transaction has rows
 * for the array. This file only reads arguments and options; the work is done by the core (core/maintain). */
#include "maintain/upkeep.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/json.h"
#include "sql/options.h"
#include "definition/arguments.h"
#include "table/table.h"
#include "call/function.h"

#define MIB     (UINT64_C(1) << 20)
#define GRACE_S 600 /* of tessera_upkeep: readers that have listed the replaced files are given so many seconds */

typedef struct maintenance_call { /* the arguments of one call */
  tsx_connection *connection;
  tsx_target target;
  tsr_maintenance what;
  bool has_what; /* the argument was given */
  tsr_consolidate_options options;
  uint64_t grace; /* of a vacuum, in milliseconds */
  const char **names; /* of fragments, each from sqlite3_malloc */
  bool nothing; /* the option as_of is before all times: no fragment is consolidated */
} maintenance_call;

/* Parses a kind of files. `text` is NULL if the value is no text, or memory is lacking; `shown` is for the message. */
static int parse_what(const char *text, const char *shown, tsr_maintenance *what, tsr_error *error) {
  static const struct {
    const char *name;
    tsr_maintenance what;
  } kinds[] = {{"fragments", TSR_MAINTAIN_FRAGMENTS},
               {"commits", TSR_MAINTAIN_COMMITS},
               {"fragment_meta", TSR_MAINTAIN_FRAGMENT_META},
               {"array_meta", TSR_MAINTAIN_METADATA},
               {"group_meta", TSR_MAINTAIN_METADATA}};
  for (size_t i = 0; text && i < sizeof kinds / sizeof *kinds; i++)
    if (!sqlite3_stricmp(text, kinds[i].name)) {
      *what = kinds[i].what;
      return TSR_OK;
    }
  return tsx_fail(error, TSR_ERROR, "'%s': expected fragments, commits, fragment_meta or array_meta",
                  shown ? shown : "");
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Reads the arguments (path[, what[, options]]). The options may stand in the place of `what`, and `what` in the
 * options. *options: the options, or NULL. */
static int find_options(maintenance_call *m, int count, sqlite3_value **values, sqlite3_value **options,
                        tsr_error *error) {
  *options = count > 2 ? values[2] : NULL;
  if (count < 2 || sqlite3_value_type(values[1]) == SQLITE_NULL) return TSR_OK;
  const bool is_text = sqlite3_value_type(values[1]) == SQLITE_TEXT;
  const char *text = (const char *)sqlite3_value_text(values[1]);
  if (is_text && count == 2 && text && text[strspn(text, " \t\r\n")] == '{') {
    *options = values[1];
    return TSR_OK;
  }
  m->has_what = true;
  return parse_what(is_text ? text : NULL, text, &m->what, error);
}

static int read_what(maintenance_call *m, const char *text, tsr_error *error) {
  if (m->has_what) return tsx_fail(error, TSR_ERROR, "'what' is given twice: as an argument and as an option");
  return parse_what(text, text, &m->what, error);
}

static int read_fragment(void *argument, const tsx_json_option *o, tsr_error *error) {
  maintenance_call *m = argument;
  const uint64_t n = m->options.fragment_count;
  if (strcmp(o->type, "text") != 0) return tsx_fail(error, TSR_MISMATCH, "'fragments': expected a list of names");
  void *more = sqlite3_realloc64(m->names, (n + 1) * sizeof *m->names);
  const char *text = (const char *)sqlite3_value_text(o->value);
  if (more) m->names = more;
  char *copy = more && text ? sqlite3_mprintf("%s", text) : NULL;
  if (!copy) return tsx_out_of_memory(error);
  m->names[n] = copy;
  m->options.fragment_count++;
  return TSR_OK;
}

static int read_names(maintenance_call *m, const tsx_json_option *o, tsr_error *error) {
  if (!strcmp(o->type, "array"))
    TSX_TRY(tsx_elements_each(m->connection->db, o->value, "'fragments'", read_fragment, m, error));
  m->options.fragments = m->names;
  return m->options.fragment_count ? TSR_OK : tsx_fail(error, TSR_MISMATCH, "'fragments': expected a list of names");
}

static uint64_t megabytes(double number) {
  const uint64_t bytes = (uint64_t)(number * (double)MIB);
  return bytes ? bytes : 1;
}

/* An as_of of 0 is before all fragments, but for the core 0 means the present. So the call is marked instead. */
static int read_as_of(maintenance_call *m, sqlite3_value *value, tsr_error *error) {
  const int code = tsx_time_value(value, "as_of", &m->options.as_of, error);
  m->nothing = m->options.as_of == 0;
  return code;
}

enum {
  CONSOLIDATE_OPTION_as_of,
  CONSOLIDATE_OPTION_since,
  CONSOLIDATE_OPTION_fragments,
  CONSOLIDATE_OPTION_max_fragment_mb,
  CONSOLIDATE_OPTION_memory_mb,
  CONSOLIDATE_OPTION_purge_deleted,
  CONSOLIDATE_OPTION_what
};

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  maintenance_call *m = argument;
  switch (option) {
  case CONSOLIDATE_OPTION_as_of: return read_as_of(m, value->json->value, error);
  case CONSOLIDATE_OPTION_since: return tsx_time_value(value->json->value, "since", &m->options.since, error);
  case CONSOLIDATE_OPTION_fragments: return read_names(m, value->json, error);
  case CONSOLIDATE_OPTION_max_fragment_mb: m->options.max_fragment_bytes = megabytes(value->number); break;
  case CONSOLIDATE_OPTION_memory_mb: m->options.memory_bytes = (uint64_t)value->whole << 20; break;
  case CONSOLIDATE_OPTION_what: return read_what(m, value->text, error);
  default: m->options.purge_deleted = value->whole;
  }
  return TSR_OK;
}

static int read_options(maintenance_call *m, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_spec specs[] = {
      [CONSOLIDATE_OPTION_as_of] = {.name = "as_of"},
      [CONSOLIDATE_OPTION_since] = {.name = "since"},
      [CONSOLIDATE_OPTION_fragments] = {.name = "fragments"},
      [CONSOLIDATE_OPTION_max_fragment_mb] = {"max_fragment_mb", TSX_TAKES_ABOVE, 0, TSX_MEGABYTES_MAX, NULL},
      [CONSOLIDATE_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB,
      [CONSOLIDATE_OPTION_purge_deleted] = {"purge_deleted", TSX_TAKES_FLAG, 0, 0, NULL},
      [CONSOLIDATE_OPTION_what] = {"what", TSX_TAKES_TEXT, 0, 0, NULL}};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(m->connection->db, json, &list, take_option, m, error);
}

static int vacuum_take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  maintenance_call *m = argument;
  if (option) return read_what(m, value->text, error);
  m->grace = (uint64_t)(value->number * 1000);
  return TSR_OK;
}

static int vacuum_read_options(maintenance_call *m, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_spec specs[] = {{"grace_s", TSX_TAKES_NUMBER, 0, 1000000000000, NULL},
                                          {"what", TSX_TAKES_TEXT, 0, 0, NULL}};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(m->connection->db, json, &list, vacuum_take_option, m, error);
}

/* ---- The calls --------------------------------------------------------------------------------------------------- */

/* Opens the array or group. Fails if the open transaction has rows for an array at this path. */
static int open_target(maintenance_call *m, sqlite3_value *path, tsr_error *error) {
  TSX_TRY(tsx_target_open(m->connection, path, &m->target, error));
  const tsx_address *address = &m->target.address;
  if (!m->target.group && tsx_transaction_open_on(m->connection, address->path))
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", address->path);
  return TSR_OK;
}

static void maintain_finish(sqlite3_context *context, const char *function, maintenance_call *m, int code,
                            uint64_t count, tsr_error *error) {
  for (uint64_t i = 0; i < m->options.fragment_count; i++) sqlite3_free((void *)(uintptr_t)m->names[i]);
  sqlite3_free(m->names);
  tsx_target_close(&m->target);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)count);
  tsx_function_end(context, function, code, error);
}

/* Of a group, only metadata is consolidated and vacuumed. */
static int check_what(const maintenance_call *m, tsr_error *error) {
  if (!m->target.group || m->what & TSR_MAINTAIN_METADATA) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "%s is a group: only its metadata ('array_meta') is kept in order",
                  m->target.address.path);
}

static int consolidate_call(maintenance_call *m, int count, sqlite3_value **values, uint64_t *merged,
                            tsr_error *error) {
  sqlite3_value *json;
  TSX_TRY(open_target(m, values[0], error));
  m->what = m->target.group ? TSR_MAINTAIN_METADATA : TSR_MAINTAIN_FRAGMENTS;
  m->options.memory_bytes = m->target.address.memory_bytes;
  TSX_TRY(find_options(m, count, values, &json, error));
  if (json) TSX_TRY(read_options(m, json, error));
  if (m->nothing) { /* an empty range of times */
    m->options.as_of = 1;
    m->options.since = UINT64_MAX;
  }
  TSX_TRY(check_what(m, error));
  return m->target.group ? tsr_group_consolidate(m->target.group, &m->options, merged, error)
                         : tsr_array_consolidate(m->target.address.array->core, m->what, &m->options, merged, error);
}

void tsx_consolidate(sqlite3_context *context, int count, sqlite3_value **values) {
  maintenance_call m = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  uint64_t merged = 0;
  const int code = consolidate_call(&m, count, values, &merged, &error);
  maintain_finish(context, "tessera_consolidate", &m, code, merged, &error);
}

static int vacuum_call(maintenance_call *m, int count, sqlite3_value **values, uint64_t *removed, tsr_error *error) {
  sqlite3_value *json;
  TSX_TRY(open_target(m, values[0], error));
  TSX_TRY(find_options(m, count, values, &json, error));
  if (json) TSX_TRY(vacuum_read_options(m, json, error));
  TSX_TRY(check_what(m, error));
  const tsr_vacuum_options options = {.grace = m->grace};
  return m->target.group ? tsr_group_vacuum(m->target.group, &options, removed, error)
                         : tsr_array_vacuum(m->target.address.array->core, m->what, &options, removed, error);
}

void tsx_vacuum(sqlite3_context *context, int count, sqlite3_value **values) {
  maintenance_call m = {.connection = sqlite3_user_data(context), .what = TSR_MAINTAIN_ALL};
  tsr_error error = {0};
  uint64_t removed = 0;
  const int code = vacuum_call(&m, count, values, &removed, &error);
  maintain_finish(context, "tessera_vacuum", &m, code, removed, &error);
}

/* ---- tessera_upkeep ---------------------------------------------------------------------------------------------- */

enum {
  UPKEEP_OPTION_fanout,
  UPKEEP_OPTION_grace_s,
  UPKEEP_OPTION_max_fragment_mb,
  UPKEEP_OPTION_memory_mb,
  UPKEEP_OPTION_seconds,
  UPKEEP_OPTION_vacuum
};

static int upkeep_take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsr_upkeep_options *options = argument;
  (void)error;
  switch (option) {
  case UPKEEP_OPTION_fanout: options->fanout = (uint64_t)value->whole; break;
  case UPKEEP_OPTION_grace_s: options->grace = (uint64_t)(value->number * 1000); break;
  case UPKEEP_OPTION_max_fragment_mb: options->max_fragment_bytes = megabytes(value->number); break;
  case UPKEEP_OPTION_memory_mb: options->memory_bytes = (uint64_t)value->whole << 20; break;
  case UPKEEP_OPTION_seconds:
    options->milliseconds = (uint64_t)(value->number * 1000) ? (uint64_t)(value->number * 1000) : 1;
    break;
  default: options->vacuum = value->whole ? TSR_UPKEEP_VACUUM_ALWAYS : TSR_UPKEEP_VACUUM_NEVER;
  }
  return TSR_OK;
}

static int upkeep_read_options(sqlite3 *db, sqlite3_value *json, tsr_upkeep_options *options, tsr_error *error) {
  static const tsx_option_spec specs[] = {
      [UPKEEP_OPTION_fanout] = {"fanout", TSX_TAKES_WHOLE, 4, 256, NULL},
      [UPKEEP_OPTION_grace_s] = {"grace_s", TSX_TAKES_NUMBER, 0, 1000000000000, NULL},
      [UPKEEP_OPTION_max_fragment_mb] = {"max_fragment_mb", TSX_TAKES_ABOVE, 0, TSX_MEGABYTES_MAX, NULL},
      [UPKEEP_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB,
      [UPKEEP_OPTION_seconds] = {"seconds", TSX_TAKES_ABOVE, 0, 1000000000, NULL},
      [UPKEEP_OPTION_vacuum] = {"vacuum", TSX_TAKES_FLAG, 0, 0, NULL}};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(db, json, &list, upkeep_take_option, options, error);
}

static int upkeep_call(maintenance_call *m, int count, sqlite3_value **values, tsr_upkeep *done, tsr_error *error) {
  tsr_upkeep_options options = {.vacuum = TSR_UPKEEP_VACUUM_HARMLESS, .grace = GRACE_S * 1000};
  TSX_TRY(open_target(m, values[0], error));
  options.memory_bytes = m->target.address.memory_bytes;
  if (count > 1) TSX_TRY(upkeep_read_options(m->connection->db, values[1], &options, error));
  if (m->target.group)
    return tsx_fail(error, TSR_ERROR, "%s is a group: name one of its arrays", m->target.address.path);
  return tsr_array_upkeep(m->target.address.array->core, &options, done, error);
}

void tsx_upkeep(sqlite3_context *context, int count, sqlite3_value **values) {
  maintenance_call m = {.connection = sqlite3_user_data(context)};
  tsr_upkeep done = {0};
  tsr_error error = {0};
  int code = upkeep_call(&m, count, values, &done, &error);
  char *text =
      code < 0 ? NULL
               : sqlite3_mprintf("{\"merged\":%llu,\"removed\":%llu,\"left\":%llu}", (unsigned long long)done.merged,
                                 (unsigned long long)done.removed, (unsigned long long)done.left);
  if (code >= 0 && !text) code = tsx_out_of_memory(&error);
  tsx_target_close(&m.target);
  if (text) sqlite3_result_text(context, text, -1, sqlite3_free);
  tsx_function_end(context, "tessera_upkeep", code, &error);
}

/* Returns 1 if the lease was taken or extended, as tsr_lease does. */
static int lease_call(tsx_address *address, tsx_connection *connection, sqlite3_value **values, tsr_error *error) {
  const sqlite3_int64 seconds = sqlite3_value_int64(values[1]);
  if (!tsx_whole_number(values[1])) return tsx_fail(error, TSR_MISMATCH, "seconds: expected an integer");
  if (seconds < 0 || seconds > TSR_LEASE_MAX)
    return tsx_fail(error, TSR_RANGE, "seconds: expected an integer from 0 to %d", TSR_LEASE_MAX);
  TSX_TRY(tsx_address_open_to_write(connection, values[0], address, error));
  TSX_TRY(tsx_function_begin_at(address, values[0], error));
  return tsr_lease(connection->environment, address->path, (uint64_t)seconds, error);
}

/* tessera_lease(path, seconds) */
void tsx_lease(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_address address = {0};
  tsr_error error = {0};
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  const int code = lease_call(&address, connection, values, &error);
  if (code >= 0) sqlite3_result_int(context, code);
  else tsx_address_hint(&address, &error);
  tsx_address_close(&address);
  tsx_connection_remove_table(connection);
  tsx_function_end(context, "tessera_lease", code, &error);
}
