/* functions.c: the tessera_* functions. */
#include "extension.h"

static void version(sqlite3_context *context, int count, sqlite3_value **values) {
  char *text = sqlite3_mprintf("tessera %s, reads TileDB format versions %d to %d", TSR_VERSION, TSR_FORMAT_READ_MIN,
                               TSR_FORMAT_READ_MAX);
  if (!text) sqlite3_result_error_nomem(context);
  else sqlite3_result_text(context, text, -1, sqlite3_free);
}

static void reset_stats(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_environment_reset_counters(connection->environment);
}

/* tessera_set_key(path, key): NULL forgets it. */
static void set_key(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  uint8_t key[32];
  const char *path = sqlite3_value_type(values[0]) == SQLITE_TEXT ? (const char *)sqlite3_value_text(values[0]) : NULL;
  bool forget = sqlite3_value_type(values[1]) == SQLITE_NULL;
  int code = path ? TSR_OK : tsx_fail(&error, TSR_MISMATCH, "tessera_set_key: the path of a directory is wanted");
  if (code == TSR_OK && !forget) {
    const void *bytes =
        sqlite3_value_type(values[1]) == SQLITE_BLOB ? sqlite3_value_blob(values[1]) : sqlite3_value_text(values[1]);
    code = tsx_key_parse(bytes ? bytes : "", (uint64_t)sqlite3_value_bytes(values[1]), key, &error);
  }
  if (code == TSR_OK) code = tsx_key_set(connection, path, forget ? NULL : key, &error);
  tsx_wipe(key, sizeof key);
  if (code < 0) tsx_result_error(context, &error);
}

typedef struct function {
  const char *name;
  int arguments;
  int flags;
  void (*call)(sqlite3_context *context, int count, sqlite3_value **values);
} function;

static const function functions[] = {
    {"tessera_version", 0, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, version},
    {"tessera_reset_stats", 0, SQLITE_UTF8 | SQLITE_DIRECTONLY, reset_stats},
    {"tessera_set_key", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, set_key},
    {"tessera_recover", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, tsx_recover},
    {"tessera_ddl", 1, SQLITE_UTF8, tsx_ddl},
    {"tessera_ddl", 2, SQLITE_UTF8, tsx_ddl},
};

int tsx_register_functions(tsx_connection *connection) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    tsx_connection_hold(connection); /* dropped by SQLite, also where this call fails */
    int code = sqlite3_create_function_v2(connection->db, functions[i].name, functions[i].arguments, functions[i].flags,
                                          connection, functions[i].call, NULL, NULL, tsx_connection_drop);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}
