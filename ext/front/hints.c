/* hints.c: what a statement that SQLite cannot prepare may have meant: a path in FROM without quotes, or
 * words of another dialect (sql/dialects.c). */
#include "front/front.h"

#include <ctype.h>
#include <string.h>

#include "connection/errors.h"
#include "sql/dialects.h"
#include "table/table.h"

#define HINT_SHOWN 100 /* bytes of a path */

/* Returns the bytes of a source from here to a blank, a comma, a parenthesis or a semicolon. */
static uint64_t hint_size(const char *source) {
  uint64_t size = 0;
  while (source[size] && !isspace((unsigned char)source[size]) && !strchr(",();", source[size])) size++;
  return size;
}

/* Returns true if the words without quotes are a path: they have a slash, or are the missing table and name an array or
 * a group. */
static bool hint_is_path(tsx_connection *connection, const char *words, uint64_t size, const char *missing) {
  if (memchr(words, '/', size)) return true;
  if (!missing || strlen(missing) != size || memcmp(missing, words, size) != 0) return false;
  const char *name;
  tsr_error own = {0};
  return tsx_path_table(connection, "temp", missing, NULL, &name, &own) > 0 || own.code == TSR_ERROR;
}

/* Adds the tables of arrays whose names go on behind the missing one: X_counts and X_data for X, which an experiment
 * with layers lacks. Returns false if there are none. */
static bool hint_longer(const tsx_connection *connection, const char *missing, const char *before, tsr_error *error) {
  char names[HINT_SHOWN + 1] = "";
  size_t size = 0;
  for (const tsx_table *t = connection->tables.arrays; t; t = t->next) {
    const size_t length = strlen(missing), own = strlen(t->name);
    if (sqlite3_strnicmp(t->name, missing, (int)length) != 0 || t->name[length] != '_') continue;
    if (size + own + 2 > HINT_SHOWN) break;
    sqlite3_snprintf((int)(sizeof names - size), names + size, "%s%s", size ? ", " : "", t->name);
    size = strlen(names);
  }
  if (size) tsx_fail(error, TSR_ERROR, "%s; there are %s", before, names);
  return size > 0;
}

void tsx_front_hint(tsx_connection *connection, const char *text, tsr_error *error) {
  static const char lacks[] = "no such table: ";
  char before[sizeof error->message];
  memcpy(before, error->message, sizeof before);
  if (tsx_dialect_advice(text, before)) {
    tsx_dialect_explain(text, error);
    return;
  }
  const char *missing = strncmp(before, lacks, sizeof lacks - 1) == 0 ? before + sizeof lacks - 1 : NULL;
  if (error->code != TSR_ERROR ||
      (!missing && !strstr(before, "syntax error") && !strstr(before, "unrecognized token")))
    return;
  if (missing && hint_longer(connection, missing, before, error)) return;
  for (tsx_tokens tokens = tsx_tokens_of(text); tokens.token.kind != TSX_TOKEN_END; tsx_tokens_next(&tokens)) {
    if (!tsx_token_is(&tokens.token, "FROM") && !tsx_token_is(&tokens.token, "JOIN")) continue;
    const char *source = tokens.at;
    while (isspace((unsigned char)*source)) source++;
    const uint64_t size = hint_size(source);
    if (!size || size > HINT_SHOWN || strchr("'\"`[", *source)) continue;
    if (!hint_is_path(connection, source, size, missing)) continue;
    tsx_fail(error, TSR_ERROR, "%s; a path in FROM is in quotes: '%.*s'", before, (int)size, source);
    return;
  }
}
