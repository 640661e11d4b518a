/* hints.c: what a statement that SQLite cannot prepare may have meant: a path in FROM without quotes, another column of
 * the array, or words of another dialect (sql/dialects.c). */
#include "front/front.h"

#include <ctype.h>
#include <string.h>

#include "connection/errors.h"
#include "sql/dialects.h"
#include "table/table.h"

#define HINT_SHOWN 100 /* bytes of a path */
#define HINT_NAMES 300 /* bytes of names of columns, about */

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

/* Returns the table of an array that a name or a path in quotes stands for, or NULL. SQLite has connected it. */
static const tsx_table *hint_table(tsx_connection *connection, const char *name, bool is_path) {
  tsr_error ignored = {0};
  if (is_path && tsx_path_table(connection, "temp", name, NULL, &name, &ignored) <= 0) return NULL;
  for (const tsx_table *t = connection->tables.arrays; t; t = t->next)
    if (is_path == (t->registered != NULL) && !sqlite3_stricmp(t->name, name)) return t;
  return NULL;
}

static void hint_list(sqlite3_str *names, const char *before, const char *name) {
  if (sqlite3_str_length(names) < HINT_NAMES) sqlite3_str_appendf(names, "%s%s", before, name);
  else if (!strstr(sqlite3_str_value(names), "...")) sqlite3_str_appendall(names, ", ...");
}

/* Adds the columns of the first array in FROM to SQLite's error about a missing one. */
static void hint_columns(tsx_connection *connection, const char *text, const char *before, tsr_error *error) {
  const tsx_table *table = NULL;
  char name[HINT_SHOWN + 1];
  bool follows = false; /* the token before is FROM or JOIN */
  for (tsx_tokens tokens = tsx_tokens_of(text); !table && tokens.token.kind != TSX_TOKEN_END;
       tsx_tokens_next(&tokens)) {
    const tsx_token *token = &tokens.token;
    const bool is_name = token->kind == TSX_TOKEN_WORD || token->kind == TSX_TOKEN_NAME;
    if (follows && (is_name || token->kind == TSX_TOKEN_STRING) && token->size < sizeof name) {
      tsx_token_copy(token, name);
      table = hint_table(connection, name, !is_name);
    }
    follows = tsx_token_is(token, "FROM") || tsx_token_is(token, "JOIN");
  }
  if (!table) return;
  sqlite3_str *names = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < table->column_count; i++) hint_list(names, i ? ", " : "", table->columns[i].name);
  for (uint32_t i = 0; i < table->label_count; i++)
    hint_list(names, i ? ", " : ", and the labels ", table->labels[i].name);
  char *all = sqlite3_str_finish(names);
  if (all) tsx_fail(error, TSR_ERROR, "%s; %s has %s", before, name, all);
  sqlite3_free(all);
}

void tsx_front_hint(tsx_connection *connection, const char *text, tsr_error *error) {
  static const char lacks[] = "no such table: ", lacks_column[] = "no such column: ",
                    circular[] = "circular reference: ", twice[] = "duplicate WITH table name: ";
  char before[sizeof error->message];
  memcpy(before, error->message, sizeof before);
  if (tsx_dialect_advice(text, before)) {
    tsx_dialect_explain(text, error);
    return;
  }
  const char *missing = strncmp(before, lacks, sizeof lacks - 1) == 0 ? before + sizeof lacks - 1 : NULL;
  if (error->code != TSR_ERROR) return;
  if (strncmp(before, twice, sizeof twice - 1) == 0) {
    tsx_fail(error, TSR_ERROR, "%s: give one of them another name", before);
    return;
  }
  if (strncmp(before, circular, sizeof circular - 1) == 0) {
    tsx_fail(error, TSR_ERROR, "%s: in WITH %s AS (...), %s is that table itself: give it another name", before,
             before + sizeof circular - 1, before + sizeof circular - 1);
    return;
  }
  if (strncmp(before, lacks_column, sizeof lacks_column - 1) == 0) {
    hint_columns(connection, text, before, error);
    return;
  }
  if (!missing && !strstr(before, "syntax error") && !strstr(before, "unrecognized token")) return;
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
