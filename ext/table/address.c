/* address.c: path arguments of SQL functions and table-valued functions, and keys by path.
 *
 *   'data/weather', 'file:///data/weather'    a directory; a relative path is relative to the working directory
 *   'db:weather', 'db:main.weather'           the array of a tessera table, resolved like a table name in SQL: temp,
 *                                             main, then attached databases in order; names may be quoted as in SQL.
 *                                             The table's as_of, since, key_file, memory_mb and uint64 apply.
 *
 * The key of an address is the function's own argument; else the table's; else the one that tessera_set_key has set for
 * the path. Those keys are stored under the path's canonical form, in memory only, and wiped when the connection is
 * closed. */
#include "tessera_path.h"
#include "table/table_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "sql/tokens.h"
#include "database/store_sqlite.h"
#include "sql/statement.h"

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

/* Returns the path of a file:// URI, the URI of an object store as stored paths spell it, and any other path as it
 * is. */
static char *address_plain_path(const char *path) {
  const char *rest, *scheme = tsr_path_scheme(path, &rest);
  if (scheme) return sqlite3_mprintf("%s://%s", scheme, rest);
  bool local = !strncmp(path, "file://localhost/", 17), uri = local || !strncmp(path, "file:///", 8);
  if (uri) path += local ? 16 : 7;
  char *text = sqlite3_mprintf("%s", path), *to = text;
  for (const char *from = text; text && *from; from++) {
    int high = uri && *from == '%' ? tsr_hex_digit(from[1]) : -1;
    int low = high < 0 ? -1 : tsr_hex_digit(from[2]);
    *to++ = low < 0 ? *from : (char)(high << 4 | low);
    if (low >= 0) from += 2;
  }
  if (text) *to = 0;
  if (text) tsr_path_form(text);
  return text;
}

/* Appends the components of a path below a directory: without '.' and without empty ones. */
static void append_components(sqlite3_str *out, const char *rest) {
  while (*rest) {
    const size_t n = strcspn(rest, "/");
    if (n && !(n == 1 && *rest == '.')) sqlite3_str_appendf(out, "/%.*s", (int)n, rest);
    rest += n + (rest[n] == '/');
  }
}

/* If the directory does not exist, resolves its nearest existing ancestor. */
char *tsx_path_canonical(const char *path) {
  char *plain = address_plain_path(path);
  if (!plain || tsx_store_is(path)) return plain;
  if (tsr_path_scheme(path, NULL)) {
    for (size_t n = strlen(plain); n > 0 && plain[n - 1] == '/'; n--) plain[n - 1] = 0;
    return plain;
  }
  char *rest = plain + strlen(plain), *real = tsr_path_real(plain);
  while (!real && rest > plain) {
    do rest--;
    while (rest > plain && rest[-1] != '/');
    const char first = *rest;
    *rest = 0;
    real = tsr_path_real(*plain ? plain : ".");
    *rest = first;
  }
  if (!real) return plain;
  sqlite3_str *out = sqlite3_str_new(NULL);
  size_t size = strlen(real);
  while (size > 0 && real[size - 1] == '/') size--; /* of "/", and of a drive's root */
  sqlite3_str_append(out, real, (int)size);
  append_components(out, rest);
  if (real[size] && !*rest) sqlite3_str_appendchar(out, 1, '/');
  free(real);
  sqlite3_free(plain);
  return sqlite3_str_finish(out);
}

/* Gives what is at an ancestor of a place. One that may not be looked at is nothing. */
static int ancestor_kind(tsx_connection *connection, const char *path, tsr_object_kind *kind, tsr_error *error) {
  tsr_error fault = {0};
  *kind = TSR_OBJECT_NONE;
  const int code = tsr_object_find(connection->environment, path, kind, &fault);
  if (code >= 0) return TSR_OK;
  *kind = TSR_OBJECT_NONE;
  if (code != TSR_NOMEM && code != TSR_INTERRUPT) return TSR_OK;
  *error = fault;
  return code;
}

int tsx_place_check(tsx_connection *connection, const char *path, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  if (tsx_store_is(path) || tsr_path_scheme(path, NULL)) return TSR_OK;
  TSX_TRY(tsr_path_permitted(connection->environment, path, error));
  char *canonical = tsx_path_canonical(path);
  if (!canonical) return tsx_out_of_memory(error);
  int code = TSR_OK;
  for (char *end; code >= 0 && kind != TSR_OBJECT_ARRAY && (end = strrchr(canonical, '/')) && end > canonical;) {
    *end = 0;
    code = ancestor_kind(connection, canonical, &kind, error);
  }
  if (code >= 0 && kind == TSR_OBJECT_ARRAY)
    code = tsx_fail(error, TSR_ERROR,
                    "%s lies within the array %s, whose directory holds nothing else: choose a place outside", path,
                    canonical);
  sqlite3_free(canonical);
  return code;
}

int tsx_places_apart(const char *from, const char *to, tsr_error *error) {
  if (tsx_store_is(from) || tsx_store_is(to)) return TSR_OK;
  char *a = tsx_path_canonical(from), *b = tsx_path_canonical(to);
  const size_t m = a ? strlen(a) : 0, n = b ? strlen(b) : 0;
  int code = TSR_OK;
  if (!a || !b) code = tsx_out_of_memory(error);
  else if (n > m && !strncmp(a, b, m) && b[m] == '/')
    code = tsx_fail(error, TSR_ERROR, "%s lies within %s, which is copied: choose a place outside", to, from);
  else if (m > n && !strncmp(a, b, n) && a[n] == '/')
    code = tsx_fail(error, TSR_ERROR, "%s, which is copied, lies within %s: choose another place", from, to);
  sqlite3_free(a);
  sqlite3_free(b);
  return code;
}

int tsx_creation_begin(tsx_connection *connection, const char *path, const tsr_schema *schema,
                       const tsr_create_options *options, tsr_creation **creation, tsr_error *error) {
  TSX_TRY(tsx_place_check(connection, path, error));
  return tsr_creation_prepare(connection->environment, path, schema, options, creation, error);
}

bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]) {
  const bool looks = connection->permissions.keys && tsr_path_permitted(connection->environment, path, NULL) >= 0;
  char *canonical = looks ? tsx_path_canonical(path) : NULL;
  const tsx_key *found = NULL;
  for (const tsx_key *k = connection->permissions.keys; k && canonical && !found; k = k->next)
    if (tsr_path_same(k->path, canonical)) found = k;
  sqlite3_free(canonical);
  if (found) memcpy(key, found->key, sizeof found->key);
  return found;
}

static void free_key(tsx_key *key) {
  tsx_wipe(key->key, sizeof key->key);
  sqlite3_free(key);
}

int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error) {
  char *canonical = tsx_path_canonical(path);
  tsx_key *added = canonical && key ? sqlite3_malloc64(sizeof *added + strlen(canonical) + 1) : NULL;
  if (!canonical || (key && !added)) {
    sqlite3_free(canonical);
    return tsx_out_of_memory(error);
  }
  for (tsx_key **link = &connection->permissions.keys; *link;) {
    tsx_key *old = *link;
    if (!tsr_path_same(old->path, canonical)) {
      link = &old->next;
      continue;
    }
    *link = old->next;
    free_key(old);
  }
  if (added) {
    strcpy(added->path, canonical);
    memcpy(added->key, key, sizeof added->key);
    added->next = connection->permissions.keys;
    connection->permissions.keys = added;
  }
  sqlite3_free(canonical);
  return TSR_OK;
}

void tsx_keys_free(tsx_connection *connection) {
  while (connection->permissions.keys) {
    tsx_key *key = connection->permissions.keys;
    connection->permissions.keys = key->next;
    free_key(key);
  }
}

/* ---- db: addresses ----------------------------------------------------------------------------------------------- */

/* Stores SQLite's codes that leave the answer of a query unknown. `stopped`, here and below, is such a code:
 * SQLITE_NOMEM, SQLITE_INTERRUPT, SQLITE_BUSY, SQLITE_LOCKED, or SQLITE_OK. */
static void note_stop(int code, int *stopped) {
  code &= 0xff;
  if (code == SQLITE_NOMEM || code == SQLITE_INTERRUPT || code == SQLITE_BUSY || code == SQLITE_LOCKED) *stopped = code;
}
static int fail_stopped(int stopped, tsr_error *error) {
  if (stopped == SQLITE_INTERRUPT) return tsx_fail_cancelled(error);
  if (stopped == SQLITE_NOMEM) return tsx_out_of_memory(error);
  return tsx_fail(error, tsx_core_code(stopped), "%s", sqlite3_errstr(stopped));
}

/* Finds the table that an address names. *schema NULL: looks in all databases, and sets it to the one that has it. */
static int find_kind(sqlite3 *db, char **schema, const char *name, tsx_table_kind *kind, int *stopped) {
  const int code = *schema ? tsx_schema_kind(db, *schema, name, kind) : tsx_schema_search(db, name, schema, kind);
  note_stop(code, stopped);
  return code == SQLITE_ERROR ? SQLITE_OK : code; /* no such database */
}

tsx_table *tsx_table_connected(const tsx_connection *connection, const char *schema, const char *name) {
  for (tsx_table *t = connection->tables.arrays; t; t = t->next)
    if (!sqlite3_stricmp(t->name, name) && !sqlite3_stricmp(t->schema_name, schema)) return t;
  return NULL;
}

int tsx_table_kind_find(const tsx_connection *connection, const char *schema, const char *name, tsx_table_kind *kind,
                        tsr_error *error) {
  const int code = tsx_schema_kind(connection->db, schema, name, kind);
  return tsx_core_result(connection->db, code, error);
}

/* Returns the table of an array, or NULL if it cannot be opened. Preparing a statement on a table connects it. */
static tsx_table *connect_table(tsx_connection *connection, const char *schema, const char *name, int *stopped) {
  sqlite3_stmt *statement = NULL;
  const char select[] = "SELECT 1 FROM \"%w\".\"%w\"";
  note_stop(tsx_sql_prepare(connection->db, sqlite3_mprintf(select, schema, name), &statement), stopped);
  tsx_table *table = statement ? tsx_table_connected(connection, schema, name) : NULL;
  sqlite3_finalize(statement);
  return table;
}

/* Finds the table that `text` names, and makes it ready. *schema NULL: looks in all databases, and sets it. */
static int find_ready_table(tsx_connection *connection, const char *text, char **schema, const char *name, bool has_key,
                            tsx_table **table, tsr_error *error) {
  int stopped = SQLITE_OK;
  tsx_table_kind kind = TSX_TABLE_NONE;
  const int found = find_kind(connection->db, schema, name, &kind, &stopped);
  *table = kind == TSX_TABLE_ARRAY ? connect_table(connection, *schema, name, &stopped) : NULL;
  if (!*table && kind == TSX_TABLE_ARRAY) note_stop(sqlite3_errcode(connection->db), &stopped);
  if (stopped) return fail_stopped(stopped, error); /* the search may have missed a table of that name */
  if (found == SQLITE_OK && kind == TSX_TABLE_NONE && sqlite3_strnicmp(name, "sqlite_", 7))
    return tsx_fail(error, TSR_NOT_FOUND, "no such table: db:%s", text);
  if (found == SQLITE_OK && kind != TSX_TABLE_ARRAY)
    return tsx_fail(error, TSR_ERROR, "db:%s is not a tessera table", text);
  if (!*table)
    return tsx_fail(error, TSR_ERROR, "db:%s cannot be opened: %.500s", text, sqlite3_errmsg(connection->db));
  const int ready = tsx_table_ready(*table, error);
  if (ready == TSR_AUTH && has_key) return TSR_OK; /* the argument may be the key */
  if (ready < 0) return ready;
  return tsx_array_permitted(connection, (*table)->array, error);
}

static int open_table(tsx_connection *connection, const char *text, bool has_key, tsx_address *address,
                      tsr_error *error) {
  char *schema, *name;
  tsx_table *table = NULL;
  TSX_TRY(tsx_table_name_parse(text, &schema, &name, error));
  const int code = find_ready_table(connection, text, &schema, name, has_key, &table, error);
  sqlite3_free(schema);
  sqlite3_free(name);
  if (code < 0) return code;
  address->is_table = true;
  address->path = sqlite3_mprintf("%s", table->path);
  address->given = table->in_database ? sqlite3_mprintf("db:%s", text) : sqlite3_mprintf("%s", table->options.path);
  if (table->options.key_file) address->key_file = sqlite3_mprintf("%s", table->options.key_file);
  if (!address->path || !address->given || (table->options.key_file && !address->key_file))
    return tsx_out_of_memory(error);
  address->array = table->array;
  if (address->array) address->array->references++; /* released by tsx_address_close */
  if (address->array && address->array->has_key) {
    address->has_key = true;
    memcpy(address->key, address->array->key, sizeof address->key);
  }
  address->as_of = table->options.times.as_of;
  address->since = table->options.times.since;
  address->memory_bytes = table->options.limits.memory_bytes;
  address->uint64_signed = table->options.shows.uint64_signed;
  return TSR_OK;
}

int tsx_address_path(tsx_connection *connection, const char *text, char **path, tsr_error *error) {
  char *schema, *name;
  int stopped = SQLITE_OK;
  if (sqlite3_strnicmp(text, "db:", 3)) {
    *path = sqlite3_mprintf("%s", text);
    return *path ? TSR_OK : tsx_out_of_memory(error);
  }
  TSX_TRY(tsx_table_name_parse(text + 3, &schema, &name, error));
  tsx_table_kind kind = TSX_TABLE_NONE;
  find_kind(connection->db, &schema, name, &kind, &stopped);
  if (!schema) schema = sqlite3_mprintf("main");
  tsx_table *table = kind == TSX_TABLE_ARRAY && schema ? connect_table(connection, schema, name, &stopped) : NULL;
  *path = table ? sqlite3_mprintf("%s", table->path) : schema ? tsx_store_path(schema, name) : NULL;
  sqlite3_free(schema);
  sqlite3_free(name);
  if (*path && !stopped) return TSR_OK;
  sqlite3_free(*path);
  *path = NULL;
  return stopped ? fail_stopped(stopped, error) : tsx_out_of_memory(error);
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

static bool address_is_given(sqlite3_value *value) { return value && sqlite3_value_type(value) != SQLITE_NULL; }

static int take_key(sqlite3_value *value, tsx_address *address, tsr_error *error) {
  const void *bytes = sqlite3_value_type(value) == SQLITE_BLOB ? sqlite3_value_blob(value) : sqlite3_value_text(value);
  const int code = tsx_key_parse(bytes ? bytes : "", (uint64_t)sqlite3_value_bytes(value), address->key, error);
  address->has_key = code >= 0;
  if (address->has_key) return TSR_OK;
  tsr_object_kind kind;
  if (!address->is_table && /* if nothing is at the path, say that instead */
      tsr_object_find(address->connection->environment, address->path, &kind, NULL) >= 0 && kind == TSR_OBJECT_NONE)
    return tsx_address_not_found(address, error);
  return tsx_fail(/* the caller may have passed one argument too many, and no key */
                  error, code,
                  "argument array_key, behind those of the table: a key is 32 bytes or 64 hex digits; this one has %d "
                  "bytes",
                  sqlite3_value_bytes(value));
}

int tsx_address_open(tsx_connection *connection, sqlite3_value *path, sqlite3_value *key, sqlite3_value *as_of,
                     sqlite3_value *since, tsx_address *address, tsr_error *error) {
  memset(address, 0, sizeof *address);
  address->connection = connection;
  address->as_of = TSR_TIME_NOW;
  address->since = TSR_TIME_BEGIN;
  const char *text = path && sqlite3_value_type(path) == SQLITE_TEXT ? (const char *)sqlite3_value_text(path) : NULL;
  if (!text) return tsx_fail(error, TSR_MISMATCH, "a path must be text: a directory, or 'db:TABLE'");
  TSX_TRY(tsx_text_whole(path, "the path", error));
  if (!sqlite3_strnicmp(text, "db:", 3))
    TSX_TRY(open_table(connection, text + 3, address_is_given(key), address, error));
  else if (!(address->path = sqlite3_mprintf("%s", text)) || !(address->given = sqlite3_mprintf("%s", text)))
    return tsx_out_of_memory(error);
  if (address_is_given(as_of)) TSX_TRY(tsx_time_value(as_of, "as_of", &address->as_of, error));
  if (address_is_given(since)) TSX_TRY(tsx_time_value(since, "since", &address->since, error));
  if (address_is_given(key)) return take_key(key, address, error);
  if (!address->is_table) address->has_key = tsx_key_find(connection, address->path, address->key);
  return TSR_OK;
}

int tsx_address_open_to_write(tsx_connection *connection, sqlite3_value *path, tsx_address *address, tsr_error *error) {
  TSX_TRY(tsx_address_open(connection, path, NULL, NULL, NULL, address, error));
  tsx_deferred_try(connection, address->path);
  return TSR_OK;
}

void tsx_address_hint(const tsx_address *address, tsr_error *error) {
  const char *name = address->path;
  char *schema = NULL;
  tsx_table_kind kind;
  if (error->code != TSR_NOT_FOUND || address->is_table || !name || strchr(name, '/')) return;
  tsx_schema_search(address->connection->db, name, &schema, &kind);
  size_t size = strlen(error->message);
  if (schema)
    sqlite3_snprintf((int)(sizeof error->message - size), error->message + size,
                     " (this is taken for a path; the table %.100s is 'db:%.100s')", name, name);
  sqlite3_free(schema);
}

int tsx_address_not_found(const tsx_address *address, tsr_error *error) {
  int code = tsx_fail(error, TSR_NOT_FOUND, "array or group not found: %s", address->path);
  tsx_address_hint(address, error);
  return code;
}

int tsx_address_labelled(tsx_address *address, tsr_error *error) {
  if (address->array) return TSR_OK;
  const int code = tsx_array_open(address->connection, address->path, address->has_key ? address->key : NULL,
                                  TSX_CACHE_AS_IS, 0, &address->array, error);
  if (code < 0) tsx_address_hint(address, error);
  return code;
}

int tsx_address_array(tsx_address *address, tsr_error *error) {
  TSX_TRY(tsx_address_labelled(address, error));
  const tsx_transaction *transaction = address->array->transaction;
  if (!transaction || !tsr_writer_changed(transaction->writer)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", address->path);
}

int tsx_address_expect(tsx_address *address, sqlite3_value *schema, tsr_error *error) {
  if (!address_is_given(schema)) return TSR_OK;
  const char *name = (const char *)sqlite3_value_text(schema);
  address->seen = name ? sqlite3_mprintf("%s", name) : NULL;
  return address->seen ? TSR_OK : tsx_out_of_memory(error);
}

int tsx_address_check(const tsx_address *address, tsr_error *error) {
  const tsr_schema seen = {.name = address->seen}; /* the core compares names */
  if (!address->seen || tsr_array_has_schema(address->array->core, &seen, NULL) == TSR_OK) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "array %s was replaced since it was opened: open it again", address->given);
}

int tsx_address_schema(tsx_address *address, const tsr_schema **schema, tsr_error *error) {
  TSX_TRY(tsr_array_schema(address->array->core, address->as_of, schema, error));
  return tsx_address_check(address, error);
}

void tsx_address_close(tsx_address *address) {
  if (address->array) tsx_array_release(address->connection, address->array);
  tsx_wipe(address->key, sizeof address->key);
  sqlite3_free(address->path);
  sqlite3_free(address->given);
  sqlite3_free(address->key_file);
  sqlite3_free(address->seen);
  memset(address, 0, sizeof *address);
}
