/* errors.h: translates errors between the core (TSR codes, tsr_error) and SQLite (result codes, messages). */
#ifndef TSX_ERRORS_H
#define TSX_ERRORS_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Clears an error. For code that runs once per row: `= {0}` would clear all 1 KiB of the message. */
static inline void tsx_error_init(tsr_error *error) {
  error->code = 0;
  error->message[0] = 0;
  error->subject = 0;
}

int tsx_sqlite_code(int code); /* returns SQLite's code for a TSR code */
int tsx_core_code(int code); /* returns the TSR code for SQLite's code, extended codes included */

/* Translates the result of a call on `db`, before the next one: 1 for SQLITE_ROW, TSR_OK for SQLITE_DONE and SQLITE_OK;
 * otherwise fails with SQLite's message. */
int tsx_core_result(sqlite3 *db, int result, tsr_error *error);

/* Returns the TSR code for SQLite's code of a statement that reads a caller's text: TSR_NOMEM, TSR_INTERRUPT or
 * TSR_BUSY; else TSR_MISMATCH, because the text is at fault. */
int tsx_input_code(int code);

/* Set the virtual table's zErrMsg, and return the SQLite code. */
int tsx_vtab_error(sqlite3_vtab *vtab, const tsr_error *error);
int tsx_vtab_fail(sqlite3_vtab *vtab, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Calls sqlite3_declare_vtab, which returns SQLITE_ERROR for every failure; but returns SQLITE_INTERRUPT if it was
 * interrupted. The message is SQLite's. */
int tsx_declare(sqlite3 *db, const char *text);

/* Makes an error the result of an SQL function. */
void tsx_result_error(sqlite3_context *context, const tsr_error *error);

/* Does the same, and prepends the function's name to the message. */
void tsx_result_error_of(sqlite3_context *context, const char *function, const tsr_error *error);

/* Prepends the name of a function or table to the error's message. Returns the error's code. */
int tsx_fail_in(const char *name, tsr_error *error);

/* Sets the error, which may be NULL, as tsr_error_set does, and returns its TSR code. */
int tsx_fail(tsr_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tsx_out_of_memory(tsr_error *error);
int tsx_fail_cancelled(tsr_error *error); /* TSR_INTERRUPT: the one error of cancelled work */
/* The error of a statement that needs nothing but memory: it was interrupted, or there is none. */
int tsx_fail_computing(int code, tsr_error *error);

/* Returns from the calling function with the code of `call` if that code is negative. */
#define TSX_TRY(call)                                                                                                  \
  do {                                                                                                                 \
    int tsx_try_ = (call);                                                                                             \
    if (tsx_try_ < 0) return tsx_try_;                                                                                 \
  } while (0)

#endif
