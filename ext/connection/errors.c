/* errors.c: translates errors between the core (TSR codes, tsr_error) and SQLite (result codes, messages). */
#include "connection/errors.h"

#include <stdarg.h>
#include <string.h>

#include "connection/sqlite_api.h"
#include "tessera_host.h"

int tsx_sqlite_code(int code) {
  switch (code) {
  case TSR_OK: return SQLITE_OK;
  case TSR_NOMEM: return SQLITE_NOMEM;
  case TSR_CORRUPT: return SQLITE_CORRUPT_VTAB;
  case TSR_NOT_FOUND: return SQLITE_CANTOPEN;
  case TSR_IO: return SQLITE_IOERR;
  case TSR_FULL: return SQLITE_FULL;
  case TSR_DENIED:
  case TSR_AUTH: return SQLITE_AUTH;
  case TSR_MISMATCH: return SQLITE_MISMATCH;
  case TSR_RANGE: return SQLITE_RANGE;
  case TSR_CONSTRAINT: return SQLITE_CONSTRAINT;
  case TSR_CHECK: return SQLITE_CONSTRAINT_CHECK;
  case TSR_BUDGET: /* not SQLITE_NOMEM, which would roll back the whole transaction */
  case TSR_TOOBIG: return SQLITE_TOOBIG;
  case TSR_READONLY: return SQLITE_READONLY;
  case TSR_INTERRUPT: return SQLITE_INTERRUPT;
  case TSR_ABORT: return SQLITE_ABORT;
  case TSR_PERM: return SQLITE_PERM;
  case TSR_UNREACHABLE: /* not SQLITE_IOERR, which would roll back the whole transaction */
  case TSR_BUSY: return SQLITE_BUSY;
  default: return SQLITE_ERROR;
  }
}

int tsx_core_code(int code) {
  switch (code & 0xff) {
  case SQLITE_OK: return TSR_OK;
  case SQLITE_NOMEM: return TSR_NOMEM;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return TSR_CORRUPT;
  case SQLITE_CANTOPEN: return TSR_NOT_FOUND;
  case SQLITE_FULL: return TSR_FULL;
  case SQLITE_IOERR: return TSR_IO;
  case SQLITE_AUTH: return TSR_AUTH;
  case SQLITE_PERM: return TSR_PERM;
  case SQLITE_READONLY: return TSR_READONLY;
  case SQLITE_INTERRUPT: return TSR_INTERRUPT;
  case SQLITE_ABORT: return TSR_ABORT;
  case SQLITE_TOOBIG: return TSR_TOOBIG;
  case SQLITE_RANGE: return TSR_RANGE;
  case SQLITE_MISMATCH: return TSR_MISMATCH;
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return TSR_BUSY;
  default: return TSR_ERROR;
  }
}

int tsx_core_result(sqlite3 *db, int result, tsr_error *error) {
  if (result == SQLITE_ROW) return 1;
  if (result == SQLITE_OK || result == SQLITE_DONE) return TSR_OK;
  /* memory may also be lacking outside SQLite, which then has no message */
  return tsx_fail(error, tsx_core_code(result), "%s", result == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db));
}

int tsx_input_code(int code) {
  switch (code & 0xff) { /* the input is fine, but SQLite could not look at it now */
  case SQLITE_NOMEM:
  case SQLITE_INTERRUPT:
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return tsx_core_code(code);
  default: return TSR_MISMATCH;
  }
}

int tsx_vtab_error(sqlite3_vtab *vtab, const tsr_error *error) {
  return tsx_vtab_fail(vtab, tsx_sqlite_code(error->code), "%s", error->message);
}

int tsx_vtab_fail(sqlite3_vtab *vtab, int code, const char *format, ...) {
  tsr_error error;
  va_list arguments;
  va_start(arguments, format);
  (void)tsr_error_set(&error, TSR_ERROR, format, arguments);
  va_end(arguments);
  sqlite3_free(vtab->zErrMsg);
  vtab->zErrMsg = sqlite3_mprintf("%s", error.message);
  return code;
}

int tsx_declare(sqlite3 *db, const char *text) {
  const int code = sqlite3_declare_vtab(db, text);
  return code == SQLITE_ERROR && strcmp(sqlite3_errmsg(db), "interrupted") == 0 ? SQLITE_INTERRUPT : code;
}

void tsx_result_error(sqlite3_context *context, const tsr_error *error) {
  sqlite3_result_error(context, error->message, -1);
  sqlite3_result_error_code(context, tsx_sqlite_code(error->code));
}

void tsx_result_error_of(sqlite3_context *context, const char *function, const tsr_error *error) {
  tsr_error named = *error;
  tsx_fail_in(function, &named);
  tsx_result_error(context, &named);
}

int tsx_fail_in(const char *name, tsr_error *error) {
  const uint32_t subject = error->subject;
  (void)tsx_fail(error, error->code, "%s: %s", name, error->message);
  error->subject = subject;
  return error->code;
}

int tsx_fail_cancelled(tsr_error *error) { return tsx_fail(error, TSR_INTERRUPT, "interrupted"); }

int tsx_out_of_memory(tsr_error *error) { return tsx_fail(error, TSR_NOMEM, "out of memory"); }

int tsx_fail_computing(int code, tsr_error *error) {
  return code == SQLITE_INTERRUPT ? tsx_fail_cancelled(error) : tsx_out_of_memory(error);
}

int tsx_fail(tsr_error *error, int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  code = tsr_error_set(error, code, format, arguments);
  va_end(arguments);
  return code;
}
