/* errors.c: errors of the core as SQLite's codes and messages. */
#include "extension.h"

#include <stdio.h>

int tsx_sqlite_code(int code) {
  switch (code) {
  case TSR_OK: return SQLITE_OK;
  case TSR_NOMEM: return SQLITE_NOMEM;
  case TSR_CORRUPT: return SQLITE_CORRUPT_VTAB;
  case TSR_NOT_FOUND: return SQLITE_CANTOPEN;
  case TSR_IO: return SQLITE_IOERR;
  case TSR_FULL: return SQLITE_FULL;
  case TSR_AUTH: return SQLITE_AUTH;
  case TSR_MISMATCH: return SQLITE_MISMATCH;
  case TSR_RANGE: return SQLITE_RANGE;
  case TSR_CONSTRAINT: return SQLITE_CONSTRAINT;
  case TSR_TOOBIG: return SQLITE_TOOBIG;
  case TSR_READONLY: return SQLITE_READONLY;
  case TSR_INTERRUPT: return SQLITE_INTERRUPT;
  case TSR_ABORT: return SQLITE_ABORT;
  case TSR_PERM: return SQLITE_PERM;
  default: return SQLITE_ERROR;
  }
}

int tsx_vtab_error(sqlite3_vtab *vtab, const tsr_error *error) {
  return tsx_vtab_fail(vtab, tsx_sqlite_code(error->code), "%s", error->message);
}

int tsx_vtab_fail(sqlite3_vtab *vtab, int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sqlite3_free(vtab->zErrMsg);
  vtab->zErrMsg = sqlite3_vmprintf(format, arguments);
  va_end(arguments);
  return code;
}

void tsx_result_error(sqlite3_context *context, const tsr_error *error) {
  sqlite3_result_error(context, error->message, -1);
  sqlite3_result_error_code(context, tsx_sqlite_code(error->code));
}

int tsx_fail(tsr_error *error, int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error->code = code;
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return code;
}
