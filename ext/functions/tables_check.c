/* tables_check.c: the table tessera_check, which shows each finding about an array as a row.
 *
 * The check reads the files themselves, not what this connection has in memory, so it also works for an array that cannot
 * be opened. It covers all times and ignores as_of and since.
 */
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "functions/overviews.h"
#include "table/integrity.h"
#include "functions/tables.h"

/* ---- tessera_check ---------------------------------------------------------------------------------------------- */

static int table_check_check_open(tsx_scan *scan, tsr_error *error) {
  tsx_address address;
  int code = tsx_scan_address(scan, 1, &address, error);
  if (code == TSR_OK) {
    const tsr_check_options options = {.key = address.has_key ? address.key : NULL,
                                       .memory_bytes = address.memory_bytes};
    code =
        tsr_array_check(scan->connection->environment, address.path, &options, tsx_findings_keep, scan->state, error);
    if (code < 0) tsx_address_hint(&address, error);
  }
  if (code == TSR_OK) code = tsx_overviews_check(&address, tsx_findings_keep, scan->state, error);
  tsx_address_close(&address);
  return code;
}

static int check_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const tsx_findings *)scan->state)->count;
}

static int check_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  static const char *const severities[] = {
      [TSR_SEVERITY_NOTE] = "note", [TSR_SEVERITY_WARNING] = "warning", [TSR_SEVERITY_ERROR] = "error"};
  const tsx_finding *item = &((const tsx_findings *)scan->state)->items[scan->row - 1];
  const char *text = column == 0 ? severities[item->severity] : column == 1 ? item->file : item->message;
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  return TSR_OK;
}

static void check_close(tsx_scan *scan) { tsx_findings_free(scan->state); }

const tsx_about tsx_about_check = {.name = "tessera_check",
                                   .usage = "tessera_check(path[, key])",
                                   .columns = (const char *const[]){"severity TEXT", "file TEXT", "message TEXT", NULL},
                                   .arguments = 1,
                                   .required = 1,
                                   .same = -1,
                                   .rows = 1000000, /* stands for the work, so that a join runs the check once */
                                   .state_size = sizeof(tsx_findings),
                                   .open = table_check_check_open,
                                   .next = check_next,
                                   .column = check_column,
                                   .close = check_close};
