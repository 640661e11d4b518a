/* functions.c: registers the tessera_* functions, and implements tessera_version, tessera_reset_stats and
 * tessera_set_key. */
#include "call/function.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/arguments.h"
#include "database/store_sqlite.h"
#include "table/table.h"
#include "data/data.h"
#include "front/front.h"
#include "maintain/upkeep.h"
#include "inspect/inspect.h"
#include "picture/picture.h"
#include "front/attach.h"

static void version(sqlite3_context *context, int count, sqlite3_value **values) {
  char *text = sqlite3_mprintf("tessera %s, reads TileDB format versions %d to %d, writes 3 and 7 to %d", TSR_VERSION,
                               TSR_FORMAT_READ_MIN, TSR_FORMAT_READ_MAX, TSR_FORMAT_WRITE_MAX);
  if (!text) sqlite3_result_error_nomem(context);
  else sqlite3_result_text(context, text, -1, sqlite3_free);
}

static void reset_stats(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_environment_reset_counters(connection->environment);
}

static int set_key_of(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error) {
  char *place;
  TSX_TRY(tsx_address_path(connection, path, &place, error));
  const int code = tsx_key_set(connection, place, key, error);
  sqlite3_free(place);
  return code;
}

static int set_key_call(tsx_connection *connection, sqlite3_value **values, uint8_t key[32], tsr_error *error) {
  const char *path = sqlite3_value_type(values[0]) == SQLITE_TEXT ? (const char *)sqlite3_value_text(values[0]) : NULL;
  if (!path) return tsx_fail(error, TSR_MISMATCH, "expected the path of a directory");
  if (sqlite3_value_type(values[1]) == SQLITE_NULL) return set_key_of(connection, path, NULL, error);
  const void *bytes =
      sqlite3_value_type(values[1]) == SQLITE_BLOB ? sqlite3_value_blob(values[1]) : sqlite3_value_text(values[1]);
  TSX_TRY(tsx_key_parse(bytes ? bytes : "", (uint64_t)sqlite3_value_bytes(values[1]), key, error));
  return set_key_of(connection, path, key, error);
}

/* tessera_set_key(path, key): a NULL key removes the key of the path. */
static void set_key(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  uint8_t key[32];
  const int code = set_key_call(sqlite3_user_data(context), values, key, &error);
  tsx_wipe(key, sizeof key);
  if (code < 0) tsx_result_error_of(context, "tessera_set_key", &error);
}

/* What a function may do. Views and triggers cannot call those that change something. */
enum {
  CONSTANT = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
  READS = SQLITE_UTF8,
  CHANGES = SQLITE_UTF8 | SQLITE_DIRECTONLY
};

typedef struct function {
  const char *name;
  int fewest, most; /* arguments; -1: any number, which the function checks */
  int flags;
  void (*call)(sqlite3_context *context, int count, sqlite3_value **values);
} function;

static const function functions[] = {
    {"tessera_version", 0, 0, CONSTANT, version},
    {"tessera_reset_stats", 0, 0, CHANGES, reset_stats},
    {"tessera_set_key", 2, 2, CHANGES, set_key},
    {"tessera_recover", 1, 2, CHANGES, tsx_recover},
    {"tessera_set_metadata", 3, 4, CHANGES, tsx_set_metadata},
    {"tessera_add_attribute", 2, 2, CHANGES, tsx_add_attribute},
    {"tessera_drop_attribute", 2, 2, CHANGES, tsx_drop_attribute},
    {"tessera_add_check", 3, 4, CHANGES, tsx_add_check},
    {"tessera_drop_check", 2, 2, CHANGES, tsx_drop_check},
    {"tessera_extend_enumeration", -1, -1, CHANGES, tsx_extend_enumeration},
    {"tessera_expand_domain", 2, 2, CHANGES, tsx_expand_domain},
    {"tessera_create_group", 1, 1, CHANGES, tsx_create_group},
    {"tessera_add_member", 2, 3, CHANGES, tsx_add_member},
    {"tessera_drop_member", 2, 2, CHANGES, tsx_drop_member},
    {"tessera_drop", 1, 2, CHANGES, tsx_drop},
    {"tessera_attach", 0, 0, CHANGES, tsx_attach_kept},
    {"tessera_attach", 1, 2, CHANGES, tsx_attach},
    {"tessera_detach", 1, 1, CHANGES, tsx_detach},
    {"tessera_nearest", 3, 5, READS, tsx_nearest},
    {"tessera_sample", 3, 5, READS, tsx_sample},
    {"tessera_npy", 1, 4, READS, tsx_npy},
    {"tessera_png", 1, 4, READS, tsx_png},
    {"tessera_preview", 1, 4, READS, tsx_preview},
    {"tessera_write_label", 3, 4, CHANGES, tsx_write_label},
    {"tessera_write_npy", -1, -1, CHANGES, tsx_write_npy},
    {"tessera_sync", 2, 3, CHANGES, tsx_sync_array},
    {"tessera_configure", 2, 2, CHANGES, tsx_configure},
    {"tessera_hide", 1, 1, CHANGES, tsx_hide},
    {"tessera_show", 1, 1, CHANGES, tsx_show},
    {"tessera_restrict", 1, 1, CHANGES, tsx_restrict},
    {"tessera_consolidate", 1, 3, CHANGES, tsx_consolidate},
    {"tessera_vacuum", 1, 3, CHANGES, tsx_vacuum},
    {"tessera_upkeep", 1, 2, CHANGES, tsx_upkeep},
    {"tessera_lease", 2, 2, CHANGES, tsx_lease},
    {"tessera_copy", 2, 3, CHANGES, tsx_copy},
    {"tessera_create_as", 2, 3, CHANGES, tsx_create_as},
    {"tessera_create_csv", 2, 3, CHANGES, tsx_create_csv},
    {"tessera_create_stream", 2, 3, CHANGES, tsx_create_stream},
    {"tessera_make_overviews", 1, 2, CHANGES, tsx_make_overviews},
    {"tessera_regrid", 4, 5, CHANGES, tsx_regrid},
    {"tessera_revert", 2, 3, CHANGES, tsx_revert},
    {"tessera_token", 1, 1, READS, tsx_token_function},
    {"tessera_ddl", 1, 2, READS, tsx_ddl},
};

static int register_function(tsx_connection *connection, const function *f, int arguments) {
  tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
  return sqlite3_create_function_v2(connection->db, f->name, arguments, f->flags, connection, f->call, NULL, NULL,
                                    tsx_connection_drop);
}

int tsx_register_functions(tsx_connection *connection) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    for (int arguments = functions[i].fewest; arguments <= functions[i].most; arguments++) {
      const int code = register_function(connection, &functions[i], arguments);
      if (code != SQLITE_OK) return code;
    }
  return tsx_register_streams(connection);
}
