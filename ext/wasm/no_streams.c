/* no_streams.c: stands for core/arrow and for the functions of Arrow streams, which a browser's module does not have:
 * streams and lent memory are addresses in a process of C. */
#include "connection/connection.h"
#include "data/data.h"
#include "call/lend.h"

static void fail_streams(sqlite3_context *context, int count, sqlite3_value **values) {
  sqlite3_result_error(context, "WebAssembly has no Arrow streams: read blocks with tessera_npy", -1);
}

int tsx_register_streams(tsx_connection *connection) {
  static const char *const names[] = {"tessera_stream", "tessera_rows", "tessera_library"};
  int code = SQLITE_OK;
  for (unsigned i = 0; i < sizeof names / sizeof *names && code == SQLITE_OK; i++)
    code = sqlite3_create_function_v2(connection->db, names[i], -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, fail_streams,
                                      NULL, NULL, NULL);
  return code;
}

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values) {
  fail_streams(context, count, values);
}

bool tsx_lent_take(const char *token, tsx_lent *lent) { return false; }

void tsx_take_back(const char *token) { /* none was given */
}
