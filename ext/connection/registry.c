/* registry.c: tables that belong to a connection and to no database.
 *
 * If SQLite finds no table of a name, it looks for a module of that name whose xCreate is NULL, and connects its only
 * table. So registering a module makes a table, and removing the module drops it: statements that read it end well. The
 * connection keeps the tables in a list. An entry is the module's argument and lives until SQLite calls the module's
 * destructor, which may be later than its removal. */
#include "connection/registry.h"

#include <string.h>

#include "connection/errors.h"

static void registry_unlink(tsx_registered *table) {
  tsx_registered **link = &table->connection->registry.tables;
  while (*link && *link != table) link = &(*link)->next;
  if (!*link) return;
  *link = table->next;
  table->connection->registry.count--;
}

/* The module's destructor. */
static void registry_free(void *argument) {
  tsx_registered *table = argument;
  registry_unlink(table);
  tsx_connection_drop(table->connection);
  sqlite3_free(table->text);
  sqlite3_free(table->shape);
  sqlite3_free(table);
}

static tsx_registered *registry_named(const tsx_registry *registry, const char *name) {
  for (tsx_registered *t = registry->tables; t; t = t->next)
    if (!strcmp(t->name, name)) return t;
  return NULL;
}

/* Writes the name of a new table, or of the one of this module, text and shape, which is returned. */
static tsx_registered *registry_find(tsx_registry *registry, const sqlite3_module *module, const char *text,
                                     const char *shape, char name[TSX_REGISTERED_NAME]) {
  while (!registry->random) sqlite3_randomness((int)sizeof registry->random, &registry->random);
  const uint64_t seed = tsr_hash(registry->random, text, strlen(text));
  for (uint64_t hash = tsr_hash(seed, shape, strlen(shape));; hash++) {
    sqlite3_snprintf(TSX_REGISTERED_NAME, name, "tessera:%016llx", (unsigned long long)hash);
    tsx_registered *found = registry_named(registry, name);
    if (!found || (found->module == module && !strcmp(found->text, text) && !strcmp(found->shape, shape))) return found;
  }
}

/* Removes the table that was least recently asked for, unless all are in use. */
static void registry_trim(tsx_connection *connection) {
  tsx_registered *oldest = NULL;
  for (tsx_registered *t = connection->registry.tables; t; t = t->next)
    if (!t->cursors && (!oldest || t->asked < oldest->asked)) oldest = t;
  if (!oldest) return;
  char name[TSX_REGISTERED_NAME];
  memcpy(name, oldest->name, sizeof name);
  registry_unlink(oldest);
  (void)sqlite3_create_module_v2(connection->db, name, NULL, NULL, NULL); /* calls registry_free */
}

static int registry_add(tsx_connection *connection, const sqlite3_module *module, const char *text, const char *shape,
                        const char *name, tsx_registered **out, tsr_error *error) {
  tsx_registered *table = sqlite3_malloc64(sizeof *table);
  if (!table) return tsx_out_of_memory(error);
  *table = (tsx_registered){.next = connection->registry.tables, .connection = connection, .module = module};
  tsx_connection_hold(connection);
  connection->registry.tables = table;
  connection->registry.count++;
  memcpy(table->name, name, TSX_REGISTERED_NAME);
  table->text = sqlite3_mprintf("%s", text);
  table->shape = sqlite3_mprintf("%s", shape);
  if (!table->text || !table->shape) {
    registry_free(table);
    return tsx_out_of_memory(error);
  }
  /* SQLite calls the destructor even if this call fails */
  const int code = sqlite3_create_module_v2(connection->db, name, module, table, registry_free);
  if (code != SQLITE_OK) return tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errstr(code));
  *out = table;
  return TSR_OK;
}

int tsx_registry_take(tsx_connection *connection, const sqlite3_module *module, const char *text, const char *shape,
                      const tsx_registered **out, tsr_error *error) {
  char name[TSX_REGISTERED_NAME];
  tsx_registered *table = registry_find(&connection->registry, module, text, shape, name);
  if (!table && connection->registry.count >= TSX_REGISTERED_MAX) registry_trim(connection);
  const int code = table ? TSR_OK : registry_add(connection, module, text, shape, name, &table, error);
  if (code < 0) return code;
  table->asked = ++connection->registry.clock;
  *out = table;
  return TSR_OK;
}
