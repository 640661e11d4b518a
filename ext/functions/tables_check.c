/* tables_check.c: tessera_check, a row for each thing that is wrong with an array; and PRAGMA integrity_check and
 * quick_check of array tables, which say the errors among them.
 *
 * The check looks at the files as they are, not at what this connection knows of the array, so it works where the array
 * cannot be opened. It covers all times: as_of and since are not looked at.
 */
#include "functions/tables_check.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "text/names.h"
#include "table/module.h"
#include "functions/tables.h"

typedef struct table_check_found {
  tsr_severity severity;
  char *file, *message;
} table_check_found;

typedef struct findings {
  table_check_found *items;
  uint64_t count, capacity;
} findings;

static void free_findings(findings *all) {
  for (uint64_t i = 0; i < all->count; i++) {
    sqlite3_free(all->items[i].file);
    sqlite3_free(all->items[i].message);
  }
  sqlite3_free(all->items);
  *all = (findings){0};
}

static int table_check_keep(void *argument, const tsr_finding *finding) {
  findings *all = argument;
  if (all->count == all->capacity) {
    uint64_t capacity = all->capacity ? all->capacity * 2 : 16;
    table_check_found *items = sqlite3_realloc64(all->items, capacity * sizeof *items);
    if (!items) return TSR_NOMEM;
    all->items = items;
    all->capacity = capacity;
  }
  table_check_found *item = &all->items[all->count];
  *item = (table_check_found){finding->severity, tsx_name_text(finding->file), tsx_name_text(finding->message)};
  if (item->file && item->message) {
    all->count++;
    return TSR_OK;
  }
  sqlite3_free(item->file);
  sqlite3_free(item->message);
  return TSR_NOMEM;
}

/* ---- tessera_check ---------------------------------------------------------------------------------------------- */

static int table_check_check_open(tsx_scan *scan, tsr_error *error) {
  tsx_address address;
  int code = tsx_scan_address(scan, 1, &address, error);
  if (code == TSR_OK) {
    const tsr_check_options options = {.key = address.has_key ? address.key : NULL,
                                       .memory_bytes = address.memory_bytes};
    code = tsr_array_check(scan->connection->environment, address.path, &options, table_check_keep, scan->state, error);
    if (code < 0) tsx_address_hint(&address, error);
  }
  tsx_address_close(&address);
  return code;
}

static int check_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const findings *)scan->state)->count;
}

static int check_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  static const char *const severities[] = {
      [TSR_SEVERITY_NOTE] = "note", [TSR_SEVERITY_WARNING] = "warning", [TSR_SEVERITY_ERROR] = "error"};
  const table_check_found *item = &((const findings *)scan->state)->items[scan->row - 1];
  const char *text = column == 0 ? severities[item->severity] : column == 1 ? item->file : item->message;
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  return TSR_OK;
}

static void check_close(tsx_scan *scan) { free_findings(scan->state); }

const tsx_about tsx_about_check = {.name = "tessera_check",
                                   .usage = "tessera_check(path[, key])",
                                   .columns = (const char *const[]){"severity TEXT", "file TEXT", "message TEXT", NULL},
                                   .arguments = 1,
                                   .required = 1,
                                   .same = -1,
                                   .rows = 1000000, /* of work: it is to run once in a join */
                                   .state_size = sizeof(findings),
                                   .open = table_check_check_open,
                                   .next = check_next,
                                   .column = check_column,
                                   .close = check_close};

/* ---- PRAGMA integrity_check -------------------------------------------------------------------------------------- */

#define LINES_MAX 100

/* One text for the table, a line for each error; none where there is nothing to say. */
static int table_check_describe(const tsx_table *table, const findings *all, const tsr_error *failure, char **text) {
  sqlite3_str *out = sqlite3_str_new(table->connection->db);
  uint64_t errors = 0;
  for (uint64_t i = 0; i < all->count; i++) {
    const table_check_found *item = &all->items[i];
    if (item->severity != TSR_SEVERITY_ERROR || errors++ >= LINES_MAX) continue;
    sqlite3_str_appendf(out, "%s%s.%s: %s: %s", sqlite3_str_length(out) ? "\n" : "", table->schema_name, table->name,
                        item->file, item->message);
  }
  if (errors > LINES_MAX)
    sqlite3_str_appendf(out, "\n%s.%s: %lld more errors: see tessera_check", table->schema_name, table->name,
                        (sqlite3_int64)(errors - LINES_MAX));
  if (failure)
    sqlite3_str_appendf(out, "%s%s.%s: %s", sqlite3_str_length(out) ? "\n" : "", table->schema_name, table->name,
                        failure->message);
  int code = sqlite3_str_errcode(out);
  *text = sqlite3_str_finish(out); /* NULL where nothing was appended */
  return code;
}

int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message) {
  tsx_table *table = (tsx_table *)vtab;
  findings all = {0};
  tsr_error error = {0};
  tsr_check_options options = {.memory_bytes = table->options.memory_bytes, .quick = flags & 1};
  uint8_t key[32];
  bool has_key = false;
  int code = tsx_table_key(table, key, &has_key, &error);
  options.key = has_key ? key : NULL;
  if (code == TSR_OK)
    code = tsr_array_check(table->connection->environment, table->path, &options, table_check_keep, &all, &error);
  tsx_wipe(key, sizeof key);
  if (code == TSR_NOMEM || code == TSR_INTERRUPT) {
    free_findings(&all);
    return tsx_sqlite_code(code);
  }
  code = table_check_describe(table, &all, code < 0 ? &error : NULL, message);
  free_findings(&all);
  return code;
}
