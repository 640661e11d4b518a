/* arguments.c: the text and the values of a call of tessera_sql and its kin.
 *
 * A part that runs over columns has no parameters, so values are written into the text as literals that mean the same.
 * An integer behind BY or a comma is written as an expression: in ORDER BY a literal would be the number of a column.
 * SQLite names a column without an alias after the words of its expression, so these are found before values replace
 * the parameters in them. */
#include "front/front.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "values/value.h"

#define NAMES_MAX 1000 /* parameters with names */

/* ---- Literals ---------------------------------------------------------------------------------------------------- */

/* Writes text with NULs, which no literal has, as 'a'||char(0)||'b'. */
static void literal_text(sqlite3_str *out, const char *text, uint64_t size) {
  sqlite3_str_appendchar(out, 1, '(');
  for (;;) {
    const uint64_t n = strnlen(text, size);
    sqlite3_str_appendf(out, "'%.*q'", (int)n, text);
    if (n == size) break;
    sqlite3_str_appendall(out, "||char(0)||");
    text += n + 1;
    size -= n + 1;
  }
  sqlite3_str_appendchar(out, 1, ')');
}

static void literal_real(sqlite3_str *out, double value) {
  if (value < 0) sqlite3_str_appendchar(out, 1, '(');
  tsx_json_real(out, value);
  if (value < 0) sqlite3_str_appendchar(out, 1, ')');
}

/* `listed`: the literal stands behind BY or a comma. */
static void literal_append(sqlite3_str *out, sqlite3_value *value, bool listed) {
  const uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER: {
    const sqlite3_int64 whole = sqlite3_value_int64(value);
    sqlite3_str_appendf(out, listed ? "(%lld|0)" : whole < 0 ? "(%lld)" : "%lld", whole);
    break;
  }
  case SQLITE_FLOAT: literal_real(out, sqlite3_value_double(value)); break;
  case SQLITE_TEXT: {
    const char *text = (const char *)sqlite3_value_text(value);
    if (!text) sqlite3_str_appendchar(out, INT32_MAX, ' '); /* no memory: puts `out` into its error state */
    else if (memchr(text, 0, size)) literal_text(out, text, size);
    else sqlite3_str_appendf(out, "%Q", text);
    break;
  }
  case SQLITE_BLOB: {
    const uint8_t *bytes = sqlite3_value_blob(value); /* NULL if those of zeroblob() find no memory */
    if (!bytes && size) sqlite3_str_appendchar(out, INT32_MAX, ' ');
    sqlite3_str_appendall(out, "x'");
    for (uint64_t i = 0; i < size && bytes; i++) sqlite3_str_appendf(out, "%02x", bytes[i]);
    sqlite3_str_appendchar(out, 1, '\'');
    break;
  }
  default: sqlite3_str_appendall(out, "NULL");
  }
}

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

typedef struct bind_alias { /* goes into the text at `at` */
  const char *at, *words;
  int size; /* of the words */
} bind_alias;

typedef struct binder {
  sqlite3_str *out;
  const char *from; /* the text from here on is not yet written */
  const bind_alias *aliases; /* those that are not yet written, in order of the text */
  uint32_t alias_count;
  int count; /* values */
  sqlite3_value *const *values;
  int most; /* the greatest number of a parameter so far */
  struct {
    const char *text;
    uint64_t size;
    int number;
  } names[NAMES_MAX];
  int name_count;
} binder;

static bool is_name_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Returns the number of the parameter with this name; 0 if there are too many. */
static int bind_name(binder *b, const char *text, uint64_t size) {
  for (int i = 0; i < b->name_count; i++)
    if (b->names[i].size == size && !memcmp(b->names[i].text, text, size)) return b->names[i].number;
  if (b->name_count == NAMES_MAX) return 0;
  b->names[b->name_count].text = text;
  b->names[b->name_count].size = size;
  return b->names[b->name_count++].number = b->most + 1;
}

/* Reads the parameter at `p`. Returns its number, or 0 if there is none; *end is the text after it. */
static int bind_number(binder *b, const char *p, const char **end) {
  int64_t number = 0;
  *end = p + 1;
  if (!strchr("?:@$", *p)) return 0;
  if (*p == '?') {
    while (isdigit((unsigned char)**end) && number < INT32_MAX / 10) number = 10 * number + *(*end)++ - '0';
    if (*end == p + 1) number = (int64_t)b->most + 1;
  } else {
    while (is_name_char(**end)) ++*end;
    if (*end > p + 1) number = bind_name(b, p, (uint64_t)(*end - p));
  }
  if (number > b->most) b->most = (int)number;
  return (int)number;
}

/* Writes the text up to `to`, with the aliases in it. */
static void bind_text(binder *b, const char *to) {
  for (; b->alias_count > 0 && b->aliases->at <= to; b->aliases++, b->alias_count--) {
    if (b->aliases->at > b->from) {
      sqlite3_str_append(b->out, b->from, (int)(b->aliases->at - b->from));
      b->from = b->aliases->at;
    }
    sqlite3_str_appendall(b->out, " AS \"");
    for (int i = 0; i < b->aliases->size; i++)
      sqlite3_str_appendchar(b->out, b->aliases->words[i] == '"' ? 2 : 1, b->aliases->words[i]);
    sqlite3_str_appendchar(b->out, 1, '"');
  }
  if (to > b->from) sqlite3_str_append(b->out, b->from, (int)(to - b->from));
  b->from = to;
}

/* Writes the text with the values. */
static void bind_all(binder *b, const char *text) {
  const char *end;
  bool listed = false;
  tsx_tokens tokens = tsx_tokens_of(text);
  b->from = text;
  while (tokens.token.kind != TSX_TOKEN_END) {
    const char *at = tokens.token.text;
    const int number = tokens.token.kind == TSX_TOKEN_MARK ? bind_number(b, at, &end) : 0;
    if (number > 0) {
      bind_text(b, at);
      if (number <= b->count) literal_append(b->out, b->values[number - 1], listed);
      if (is_name_char(*end)) sqlite3_str_appendchar(b->out, 1, ' ');
      b->from = tokens.at = end;
    }
    listed = tsx_token_is(&tokens.token, "BY") || tsx_token_is(&tokens.token, ",");
    tsx_tokens_next(&tokens);
  }
  bind_text(b, text + strlen(text));
}

static int compare_aliases(const void *a, const void *b) {
  const bind_alias *x = a, *y = b;
  return x->at < y->at ? -1 : x->at > y->at;
}

/* Adds the items of a SELECT that have parameters, and no alias. */
static void bind_items(const tsx_script *s, const tsx_script_select *select, bind_alias *aliases, uint32_t *count) {
  for (tsx_script_item item = {0}; tsx_script_item_next(s, select, &item);) {
    if (!tsx_script_has_parameters(s, item.first, item.end) || tsx_script_has_alias(s, item.first, item.end)) continue;
    bind_alias alias = {.at = tsx_script_end(s, item.end)};
    alias.words = tsx_script_words(s, item.first, item.end, &alias.size);
    aliases[(*count)++] = alias;
  }
}

/* Finds the items whose columns SQLite names after words that have parameters. A text that has no SELECTs is not
 * refused here. */
static int bind_names(binder *b, const char *text, tsx_arena *arena, tsr_error *error) {
  tsx_script script;
  tsr_error refused = {0};
  const int code = tsx_script_read(text, arena, &script, &refused);
  if (code < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : TSR_OK;
  bind_alias *aliases = tsx_arena_take(arena, (script.token_count + UINT64_C(1)) * sizeof *aliases);
  if (!aliases) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < script.select_count; i++) bind_items(&script, &script.selects[i], aliases, &b->alias_count);
  /* a SELECT comes before those inside it */
  if (b->alias_count > 1) qsort(aliases, b->alias_count, sizeof *aliases, compare_aliases);
  b->aliases = aliases;
  return TSR_OK;
}

int tsx_front_bind(sqlite3_value *value, int count, sqlite3_value *const *values, tsx_arena *arena, char **bound,
                   tsr_error *error) {
  if (sqlite3_value_type(value) != SQLITE_TEXT) return tsx_fail(error, TSR_MISMATCH, "expected a text: a SELECT");
  const char *text = (const char *)sqlite3_value_text(value);
  if (!text) return tsx_out_of_memory(error);
  if (memchr(text, 0, (size_t)sqlite3_value_bytes(value)))
    return tsx_fail(error, TSR_MISMATCH, "the text has a NUL after %llu bytes", (unsigned long long)strlen(text));
  if (count == 0) {
    *bound = tsx_arena_copy(arena, text, strlen(text));
    return *bound ? TSR_OK : tsx_out_of_memory(error);
  }
  binder *b = sqlite3_malloc64(sizeof *b);
  if (!b) return tsx_out_of_memory(error);
  memset(b, 0, sizeof *b);
  b->out = sqlite3_str_new(NULL);
  b->count = count;
  b->values = values;
  const int code = bind_names(b, text, arena, error);
  if (code >= 0) bind_all(b, text);
  const int most = b->most;
  char *written = sqlite3_str_finish(b->out);
  sqlite3_free(b);
  *bound = written ? tsx_arena_copy(arena, written, strlen(written)) : NULL;
  sqlite3_free(written);
  if (code < 0) return code;
  if (!*bound) return tsx_out_of_memory(error);
  if (most == count) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "%d parameter%s, %d value%s", most, most == 1 ? "" : "s", count,
                  count == 1 ? "" : "s");
}

/* ---- Hidden columns ---------------------------------------------------------------------------------------------- */

static int declare_columns(sqlite3 *db, const char *visible, int results) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendf(out, "CREATE TABLE x(%s, statement BLOB HIDDEN", visible);
  for (int i = 1; i <= TSX_FRONT_VALUES; i++) sqlite3_str_appendf(out, ", v%d BLOB HIDDEN", i);
  for (int i = 1; i <= results; i++) sqlite3_str_appendf(out, ", c%d BLOB HIDDEN", i);
  sqlite3_str_appendchar(out, 1, ')');
  char *text = sqlite3_str_finish(out);
  const int code = text ? tsx_declare(db, text) : SQLITE_NOMEM;
  sqlite3_free(text);
  return code == SQLITE_OK ? sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY) : code;
}

int tsx_front_connect(sqlite3 *db, tsx_connection *connection, const char *visible, int results, sqlite3_vtab **vtab) {
  const int code = declare_columns(db, visible, results);
  if (code != SQLITE_OK) return code;
  tsx_front_table *table = sqlite3_malloc64(sizeof *table);
  if (!table) return SQLITE_NOMEM;
  *table = (tsx_front_table){.connection = connection};
  tsx_connection_hold(connection);
  tsx_connection_add_table(connection);
  *vtab = &table->base;
  return SQLITE_OK;
}

int tsx_front_disconnect(sqlite3_vtab *vtab) {
  tsx_front_table *table = (tsx_front_table *)vtab;
  tsx_connection_remove_table(table->connection);
  tsx_connection_drop(table->connection);
  sqlite3_free(table);
  return SQLITE_OK;
}

int tsx_front_best_index(sqlite3_index_info *info, int first) {
  int chosen[1 + TSX_FRONT_VALUES];
  for (int i = 0; i <= TSX_FRONT_VALUES; i++) chosen[i] = -1;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    const int which = c->iColumn - first;
    if (c->op != SQLITE_INDEX_CONSTRAINT_EQ || which < 0 || which > TSX_FRONT_VALUES || chosen[which] >= 0) continue;
    if (!c->usable) return SQLITE_CONSTRAINT;
    chosen[which] = i;
  }
  for (int i = 0; i <= TSX_FRONT_VALUES && chosen[i] >= 0; i++) {
    info->aConstraintUsage[chosen[i]].argvIndex = ++info->idxNum;
    info->aConstraintUsage[chosen[i]].omit = 1;
  }
  info->estimatedRows = info->idxNum ? 1000 : INT64_MAX >> 8; /* without a text xFilter fails */
  info->estimatedCost = info->idxNum ? 1e6 : 1e99;
  return SQLITE_OK;
}
