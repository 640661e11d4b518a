/* main.c: the entry point of the extension, sqlite3_tessera_init. It checks the version of the running SQLite, then
 * registers the table-valued functions, the functions, and the modules "tessera_query" and "tessera" for one
 * connection. Loading it twice into a connection does nothing. */
#if defined(__APPLE__)
#include <dlfcn.h>
#elif defined(_WIN32)
#include <windows.h>
#endif

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "front/front.h"
#include "query/query_table.h"
#include "table/table.h"
#include "call/function.h"
#include "call/table_function.h"
#include "front/vcf.h"

#ifndef SQLITE_CORE
SQLITE_EXTENSION_INIT1
#endif

#ifdef _WIN32
#define TSX_EXPORT __declspec(dllexport) __attribute__((visibility("default")))
#else
#define TSX_EXPORT __attribute__((visibility("default")))
#endif

/* Keeps the library mapped, since worker threads may outlive the connection that loaded it. On ELF systems the linker
 * flag -z nodelete does this; on macOS the library opens itself once more, on Windows it pins itself. */
static void stay_mapped(void) {
#if defined(__APPLE__)
  Dl_info self;
  if (dladdr((const void *)(uintptr_t)stay_mapped, &self))
    dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#elif defined(_WIN32)
  HMODULE self;
  (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                           (const wchar_t *)(uintptr_t)stay_mapped, &self);
#endif
}

/* Returns 1 if this connection has already loaded the extension, 0 if not, or SQLite's error code. A second
 * tsx_connection for the same connection would not share the first one's keys, directory restriction and transaction.
 * This must not make SQLite read the schema, because it recognizes shadow tables at that time, by the modules
 * registered so far. A query of any table reads the schema, even of pragma_module_list; the pragma itself does not. */
static int is_loaded(sqlite3 *db) {
  sqlite3_stmt *modules;
  bool any = false, found = false;
  int code = sqlite3_prepare_v2(db, "PRAGMA module_list", -1, &modules, NULL);
  while (code == SQLITE_OK && !found && (code = sqlite3_step(modules)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(modules, 0);
    found = name && !sqlite3_stricmp(name, "tessera");
    any = true;
    code = name ? SQLITE_OK : SQLITE_NOMEM;
  }
  sqlite3_finalize(modules);
  if (found) return 1;
  if ((code & 0xff) == SQLITE_NOMEM || (code & 0xff) == SQLITE_INTERRUPT) return code;
  if (code == SQLITE_DONE && any) return 0;
  /* SQLite was built without this pragma, or an authorizer denies it. */
  code = sqlite3_prepare_v2(db, "SELECT tessera_version()", -1, &modules, NULL);
  sqlite3_finalize(modules);
  return code == SQLITE_OK;
}

TSX_EXPORT int sqlite3_tessera_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

int sqlite3_tessera_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
#ifndef SQLITE_CORE
  /* A process may have two SQLites, such as Python's and apsw's; this copy of the library calls one of them. */
  if (sqlite3_api && sqlite3_api != api && tsx_connection_count() > 0) {
    *message = api->mprintf("this copy of tessera serves another SQLite of this process (%s): load a copy of the file "
                            "from another place",
                            sqlite3_libversion());
    return SQLITE_ERROR;
  }
  if (sqlite3_api != api) SQLITE_EXTENSION_INIT2(api); /* other threads read it */
#else
  (void)api;
#endif
  if (sqlite3_libversion_number() < TSX_SQLITE_MIN) {
    *message = sqlite3_mprintf("tessera %s needs SQLite 3.38.0 or newer; this is SQLite %s", TSR_VERSION,
                               sqlite3_libversion());
    return SQLITE_ERROR;
  }
  int code = is_loaded(db);
  if (code != 0) {
    if (code != 1) *message = sqlite3_mprintf("cannot tell whether tessera is loaded: %s", sqlite3_errstr(code));
    return code == 1 ? SQLITE_OK : code;
  }
  tsr_error error = {0};
  tsx_connection *connection = NULL;
  if (tsx_connection_open(db, &tsx_open_array_hooks, &connection, &error) < 0) {
    *message = sqlite3_mprintf("%s", error.message);
    return tsx_sqlite_code(error.code);
  }
  stay_mapped();
  code = tsx_register_tables(connection);
  if (code == SQLITE_OK) code = tsx_register_functions(connection);
  if (code == SQLITE_OK) code = tsx_register_query(connection);
  if (code == SQLITE_OK) code = tsx_register_front(connection);
  if (code == SQLITE_OK) code = tsx_register_changes(connection);
  if (code == SQLITE_OK) code = tsx_register_vcf(connection);
  if (code == SQLITE_OK) { /* last, since is_loaded looks for this module */
    tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
    code = sqlite3_create_module_v2(db, "tessera", tsx_module_array, connection, tsx_connection_drop);
  }
  tsx_connection_drop(connection);
  if (code != SQLITE_OK) *message = sqlite3_mprintf("tessera cannot be registered: %s", sqlite3_errstr(code));
  return code;
}
