/* errors.h: errors of the core as SQLite's codes and messages. */
#ifndef TSX_ERRORS_H
#define TSX_ERRORS_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* An empty error, where zeros in all of its message would cost more than what is done for a row. */
static inline void tsx_error_init(tsr_error *error) {
  error->code = 0;
  error->message[0] = 0;
}

int tsx_sqlite_code(int code); /* of a core code */
int tsx_core_code(int code); /* the reverse */
int tsx_vtab_error(sqlite3_vtab *vtab, const tsr_error *error); /* sets zErrMsg, returns the SQLite code */
int tsx_vtab_fail(sqlite3_vtab *vtab, int code, const char *format, ...);

/* sqlite3_declare_vtab, which calls all that fails SQLITE_ERROR: an interrupt is one here. The message is SQLite's. */
int tsx_declare(sqlite3 *db, const char *text);
void tsx_result_error(sqlite3_context *context, const tsr_error *error);
int tsx_fail(tsr_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tsx_out_of_memory(tsr_error *error);

#endif
