/* integrity.c: PRAGMA integrity_check of array tables, and the findings of the core's check, which tessera_check lists,
 * too. */
#include "table/table_internal.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"

/* ---- Findings of the core's check -------------------------------------------------------------------------------- */

void tsx_findings_free(tsx_findings *all) {
  for (uint64_t i = 0; i < all->count; i++) {
    sqlite3_free(all->items[i].file);
    sqlite3_free(all->items[i].message);
  }
  sqlite3_free(all->items);
  *all = (tsx_findings){0};
}

int tsx_findings_keep(void *argument, const tsr_finding *finding) {
  tsx_findings *all = argument;
  if (all->count == all->capacity) {
    uint64_t capacity = all->capacity ? all->capacity * 2 : 16;
    tsx_finding *items = sqlite3_realloc64(all->items, capacity * sizeof *items);
    if (!items) return TSR_NOMEM;
    all->items = items;
    all->capacity = capacity;
  }
  tsx_finding *item = &all->items[all->count];
  *item = (tsx_finding){finding->severity, tsx_name_text(finding->file), tsx_name_text(finding->message)};
  if (item->file && item->message) {
    all->count++;
    return TSR_OK;
  }
  sqlite3_free(item->file);
  sqlite3_free(item->message);
  return TSR_NOMEM;
}

/* ---- PRAGMA integrity_check -------------------------------------------------------------------------------------- */

#define LINES_MAX 100 /* errors that are reported one by one */

/* Makes the text that xIntegrity returns: one line for each error, and one for `failure`, which ended the check early,
 * or NULL. *text is NULL if there is no line. Returns SQLite's code. */
static int integrity_describe(const tsx_table *table, const tsx_findings *all, const tsr_error *failure, char **text) {
  sqlite3_str *out = sqlite3_str_new(table->connection->db);
  uint64_t errors = 0;
  for (uint64_t i = 0; i < all->count; i++) {
    const tsx_finding *item = &all->items[i];
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
  *text = sqlite3_str_finish(out); /* NULL if nothing was appended */
  return code;
}

int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_findings all = {0};
  tsr_error error = {0};
  tsr_check_options options = {.memory_bytes = table->options.limits.memory_bytes, .quick = flags & 1};
  uint8_t key[32];
  bool has_key = false;
  int code = tsx_table_key(table, key, &has_key, &error);
  options.key = has_key ? key : NULL;
  if (code >= 0)
    code = tsr_array_check(table->connection->environment, table->path, &options, tsx_findings_keep, &all, &error);
  tsx_wipe(key, sizeof key);
  if (code == TSR_NOMEM || code == TSR_INTERRUPT) {
    tsx_findings_free(&all);
    return tsx_sqlite_code(code);
  }
  code = integrity_describe(table, &all, code < 0 ? &error : NULL, message);
  tsx_findings_free(&all);
  return code;
}
