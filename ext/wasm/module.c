/* module.c: what engine.js calls beside SQLite's own functions: it registers tessera for every connection, passes
 * numbers of 64 bits, and calls SQL functions that are written in JavaScript. */
#include <emscripten.h>
#include <stdint.h>
#include <stdlib.h>

#include "sqlite3.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

EMSCRIPTEN_KEEPALIVE int tessera_start(void) {
  int code = sqlite3_initialize();
  if (code == SQLITE_OK) code = sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  return code;
}

/* ---- Integers: JavaScript's numbers are doubles, which are exact to 2^53 ------------------------------------------ */

#define EXACT (INT64_C(1) << 53)

/* Returns whether an integer fits a number; otherwise engine.js takes its two halves and makes a BigInt of them. */
EMSCRIPTEN_KEEPALIVE int tessera_is_exact(sqlite3_value *value) {
  const sqlite3_int64 number = sqlite3_value_int64(value);
  return number <= EXACT && number >= -EXACT;
}

EMSCRIPTEN_KEEPALIVE int tessera_high(sqlite3_value *value) { return (int)(sqlite3_value_int64(value) >> 32); }

EMSCRIPTEN_KEEPALIVE unsigned tessera_low(sqlite3_value *value) { return (unsigned)sqlite3_value_int64(value); }

static sqlite3_int64 join_halves(int high, unsigned low) {
  return (sqlite3_int64)((sqlite3_uint64)(unsigned)high << 32 | low);
}

EMSCRIPTEN_KEEPALIVE int tessera_bind_integer(sqlite3_stmt *statement, int index, int high, unsigned low) {
  return sqlite3_bind_int64(statement, index, join_halves(high, low));
}

EMSCRIPTEN_KEEPALIVE void tessera_result_integer(sqlite3_context *context, int high, unsigned low) {
  sqlite3_result_int64(context, join_halves(high, low));
}

/* Texts and blobs from JavaScript lie in memory of malloc, which SQLite takes and frees. */
EMSCRIPTEN_KEEPALIVE int tessera_bind_bytes(sqlite3_stmt *statement, int index, void *bytes, int size, int is_text) {
  return is_text ? sqlite3_bind_text(statement, index, bytes, size, free)
                 : sqlite3_bind_blob(statement, index, bytes, size, free);
}

EMSCRIPTEN_KEEPALIVE void tessera_result_bytes(sqlite3_context *context, void *bytes, int size, int is_text) {
  if (is_text) sqlite3_result_text(context, bytes, size, free);
  else sqlite3_result_blob(context, bytes, size, free);
}

/* ---- SQL functions in JavaScript ----------------------------------------------------------------------------------- */

/* clang-format off */
EM_JS(void, call_function, (int index, sqlite3_context *context, int count, sqlite3_value **values), { Module.callFunction(index, context, count, values); });
/* clang-format on */

static void call(sqlite3_context *context, int count, sqlite3_value **values) {
  call_function((int)(intptr_t)sqlite3_user_data(context), context, count, values);
}

EMSCRIPTEN_KEEPALIVE int tessera_function(sqlite3 *db, const char *name, int count, int index) {
  return sqlite3_create_function_v2(db, name, count, SQLITE_UTF8, (void *)(intptr_t)index, call, NULL, NULL, NULL);
}

/* ---- Databases as bytes -------------------------------------------------------------------------------------------- */

/* Puts a database into memory that SQLite then owns. `bytes` is of sqlite3_malloc; also after an error it is
 * SQLite's. */
EMSCRIPTEN_KEEPALIVE int tessera_deserialize(sqlite3 *db, unsigned char *bytes, double size) {
  return sqlite3_deserialize(db, "main", bytes, (sqlite3_int64)size, (sqlite3_int64)size,
                             SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
}

/* Returns a copy of a database in memory of sqlite3_malloc, and its size; NULL without memory, or for no database. */
EMSCRIPTEN_KEEPALIVE unsigned char *tessera_serialize(sqlite3 *db, const char *schema, double *size) {
  sqlite3_int64 bytes = 0;
  unsigned char *copy = sqlite3_serialize(db, schema, &bytes, 0);
  *size = (double)bytes;
  return copy;
}

/* ---- What libraries want that are compiled without threads and files ----------------------------------------------- */

/* SQLite with SQLITE_THREADSAFE=0 has no mutexes, and tessera compares two of them (connection.c) to see whether the
 * host has threads: it gets one and the same, which means that there are none. */
struct sqlite3_mutex {
  int unused;
};

sqlite3_mutex *sqlite3_mutex_alloc(int kind) {
  static sqlite3_mutex none;
  return &none;
}

void sqlite3_mutex_free(sqlite3_mutex *mutex) {}
void sqlite3_mutex_enter(sqlite3_mutex *mutex) {}
void sqlite3_mutex_leave(sqlite3_mutex *mutex) {}
int sqlite3_mutex_try(sqlite3_mutex *mutex) { return SQLITE_OK; }
