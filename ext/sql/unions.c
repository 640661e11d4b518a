/* unions.c: statements with one SELECT in place of each UNION.
 *
 * First the views are replaced by their SELECTs in parentheses. Then the first UNION of the text is replaced by each of
 * its SELECTs in turn, and the same is done with each text that comes of it, until there is none left.
 *
 * Within parentheses the names of the columns are those of the first SELECT, and their origins, as SQLite tells them,
 * those of the last one. So each SELECT but the first stays behind the first one. A SELECT of WITH RECURSIVE reads the
 * table that it is part of, and gets one that has the first SELECT:
 *
 *   (a UNION b UNION c)    becomes  (a), (a UNION ALL b), (a UNION ALL c)
 *   t AS (a UNION ALL b)   becomes  t AS (a), t AS (SELECT * FROM (WITH t AS (a) a UNION ALL b))
 *
 * The texts are only prepared, never run. If a text becomes something that SQLite does not accept, the caller learns
 * that the types are unknown, which costs no more than looking at the values. */
#include "sql/unions.h"

#include <string.h>

#include "connection/errors.h"
#include "sql/statement.h"
#include "sql/tokens.h"

#define VIEWS_MAX 100 /* views that are replaced in one statement */
#define TEXTS_MAX 1000 /* ways to choose */
#define DEPTH_MAX 32 /* UNIONs that are replaced one after the other */

typedef struct unions {
  sqlite3 *db;
  tsx_union_task task;
  void *argument;
  uint32_t views, texts;
  bool unknown; /* it cannot be taken apart */
  bool foreign; /* it has a view of an attached database, whose names mean tables of that database */
} unions;

typedef struct token_list { /* the tokens of a text, which stays with its owner */
  const char *text;
  tsx_token *tokens;
  uint64_t count;
} token_list;

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

static int list_tokens(const char *text, token_list *list, tsr_error *error) {
  uint64_t count = 0, i = 0;
  for (tsx_tokens t = tsx_tokens_of(text); t.token.kind != TSX_TOKEN_END && t.token.kind != TSX_TOKEN_BAD;
       tsx_tokens_next(&t))
    count++;
  *list = (token_list){.text = text, .tokens = sqlite3_malloc64((count + 1) * sizeof(tsx_token)), .count = count};
  if (!list->tokens) return tsx_out_of_memory(error);
  for (tsx_tokens t = tsx_tokens_of(text); i < count; tsx_tokens_next(&t)) list->tokens[i++] = t.token;
  list->tokens[count] = (tsx_token){.text = text + strlen(text)};
  return TSR_OK;
}

static bool token_is(const token_list *list, uint64_t i, const char *word) {
  return i < list->count && tsx_token_is(&list->tokens[i], word);
}

static bool token_in(const token_list *list, uint64_t i, const char *const *words) {
  bool found = false;
  for (; *words && !found; words++) found = token_is(list, i, *words);
  return found;
}

/* Returns the next of these words from `begin` on that is not within parentheses of its own; `end` if there is none. */
static uint64_t find_word(const token_list *list, uint64_t begin, uint64_t end, const char *const *words) {
  int64_t depth = 0;
  for (uint64_t i = begin; i < end; i++) {
    depth += token_is(list, i, "(") - token_is(list, i, ")");
    if (depth == 0 && token_in(list, i, words)) return i;
  }
  return end;
}

/* Returns the first token in the parentheses around token `i`; 0 if there are none. */
static uint64_t around_begin(const token_list *list, uint64_t i) {
  for (int64_t depth = 0; i > 0; i--) {
    if (token_is(list, i - 1, "(") && depth-- == 0) return i;
    depth += token_is(list, i - 1, ")");
  }
  return 0;
}

/* Returns the parenthesis that closes those around token `i`; the count if there are none. */
static uint64_t around_end(const token_list *list, uint64_t i) {
  for (int64_t depth = 0; i < list->count; i++) {
    if (token_is(list, i, ")") && depth-- == 0) return i;
    depth += token_is(list, i, "(");
  }
  return list->count;
}

static bool may_be_name(const token_list *list, uint64_t i) {
  const tsx_token_kind kind = i < list->count ? list->tokens[i].kind : TSX_TOKEN_END;
  return kind == TSX_TOKEN_WORD || kind == TSX_TOKEN_NAME || kind == TSX_TOKEN_STRING;
}

/* If the parentheses whose first token is `begin` are those of a table of WITH, sets *name to the token of its name and
 * *as to the AS before the parentheses. */
static bool is_with_table(const token_list *list, uint64_t begin, uint64_t *name, uint64_t *as) {
  if (begin < 3) return false;
  uint64_t i = begin - 2;
  i -= i > 0 && token_is(list, i, "MATERIALIZED");
  i -= i > 0 && token_is(list, i, "NOT");
  if (!token_is(list, i, "AS") || i == 0) return false;
  *as = i--;
  if (token_is(list, i, ")")) { /* the columns */
    const uint64_t columns = around_begin(list, i);
    if (columns < 2) return false;
    i = columns - 2;
  }
  *name = i;
  return may_be_name(list, i);
}

/* Returns the name of a token, from sqlite3_malloc. */
static char *name_of(const tsx_token *token) {
  char *name = sqlite3_malloc64(token->size + 1);
  if (name) (void)tsx_token_copy(token, name);
  return name;
}

/* ---- Views ------------------------------------------------------------------------------------------------------- */

/* Returns true if token `i` names a table in FROM: *schema is the token of its database, or `i`. */
static bool names_table(const token_list *list, uint64_t i, uint64_t *schema) {
  static const char *const before[] = {"FROM", "JOIN", ",", "(", NULL};
  if (!may_be_name(list, i) || token_is(list, i + 1, ".") || token_is(list, i + 1, "(")) return false;
  *schema = i >= 2 && token_is(list, i - 1, ".") && may_be_name(list, i - 2) ? i - 2 : i;
  return *schema > 0 && token_in(list, *schema - 1, before);
}

/* Returns true if WITH defines a table of this name. */
static bool with_defines(const token_list *list, const char *name) {
  bool defined = false;
  uint64_t at, as;
  for (uint64_t i = 1; i < list->count && !defined; i++) {
    if (!token_is(list, i - 1, "(") || !is_with_table(list, i, &at, &as)) continue;
    char *own = name_of(&list->tokens[at]);
    defined = !own || !sqlite3_stricmp(own, name);
    sqlite3_free(own);
  }
  return defined;
}

/* Returns true if the token behind the name of a table gives it another one. */
static bool is_alias(const token_list *list, uint64_t i) {
  static const char *const others[] = {"WHERE", "GROUP",  "ORDER", "LIMIT",   "UNION",  "EXCEPT", "INTERSECT", "JOIN",
                                       "LEFT",  "RIGHT",  "FULL",  "INNER",   "CROSS",  "OUTER",  "NATURAL",   "ON",
                                       "USING", "HAVING", "NOT",   "INDEXED", "WINDOW", NULL};
  return may_be_name(list, i) && !token_in(list, i, others);
}

/* Gives the SELECT of a view in parentheses, from sqlite3_malloc, from its CREATE VIEW; without a comment at its end,
 * which may be open. */
static int view_select(const char *created, char **select, tsr_error *error) {
  static const char *const as[] = {"AS", NULL};
  token_list list;
  TSX_TRY(list_tokens(created, &list, error));
  const uint64_t at = find_word(&list, 0, list.count, as);
  const bool complete = at + 1 < list.count;
  const char *text = complete ? list.tokens[at + 1].text : "";
  const int size = complete ? (int)(list.tokens[list.count - 1].text + list.tokens[list.count - 1].size - text) : 0;
  const uint64_t columns = at > 0 && token_is(&list, at - 1, ")") ? around_begin(&list, at - 1) : 0;
  const int names = (int)(columns ? list.tokens[at].text - list.tokens[columns - 1].text : 0);
  *select = names ? sqlite3_mprintf("(WITH tessera_view%.*s AS (%.*s) SELECT * FROM tessera_view)", names,
                                    list.tokens[columns - 1].text, size, text)
                  : sqlite3_mprintf("(%.*s)", size, text);
  sqlite3_free(list.tokens);
  return *select ? TSR_OK : tsx_out_of_memory(error);
}

/* If a name is that of a view, gives its SELECT in parentheses, from sqlite3_malloc; else *select is NULL. `schema` is
 * from sqlite3_malloc, or NULL; it is freed here. */
static int find_view(unions *u, const char *name, char *schema, char **select, tsr_error *error) {
  sqlite3_stmt *found = NULL;
  tsx_table_kind kind = TSX_TABLE_NONE;
  int code = schema ? tsx_schema_kind(u->db, schema, name, &kind) : tsx_schema_search(u->db, name, &schema, &kind);
  *select = NULL;
  if (code == SQLITE_OK && kind == TSX_TABLE_VIEW) {
    code = tsx_schema_find(u->db, schema, name, &found);
    u->foreign |= sqlite3_stricmp(schema, "main") && sqlite3_stricmp(schema, "temp");
  }
  int made = TSR_OK;
  if (code == SQLITE_ROW && sqlite3_column_text(found, 1))
    made = view_select((const char *)sqlite3_column_text(found, 1), select, error);
  sqlite3_finalize(found);
  sqlite3_free(schema);
  return code == SQLITE_NOMEM ? tsx_out_of_memory(error) : made;
}

/* Replaces the first view of a text by its SELECT; *made is NULL if there is none. */
static int replace_view(unions *u, const token_list *list, char **made, tsr_error *error) {
  int code = TSR_OK;
  *made = NULL;
  for (uint64_t i = 0, at; i < list->count && code >= 0 && !*made; i++) {
    if (!names_table(list, i, &at)) continue;
    const tsx_token *first = &list->tokens[at], *last = &list->tokens[i];
    char *name = name_of(last), *schema = at < i ? name_of(first) : NULL, *select = NULL;
    if (!name || (at < i && !schema)) code = tsx_out_of_memory(error);
    if (code >= 0 && (schema || !with_defines(list, name))) code = find_view(u, name, schema, &select, error);
    else sqlite3_free(schema);
    char *alias = select && !is_alias(list, i + 1) ? sqlite3_mprintf(" AS \"%w\"", name) : NULL;
    if (select) {
      *made = sqlite3_mprintf("%.*s%s%s%s", (int)(first->text - list->text), list->text, select, alias ? alias : "",
                              last->text + last->size);
      if (!*made) code = tsx_out_of_memory(error);
    }
    sqlite3_free(alias);
    sqlite3_free(select);
    sqlite3_free(name);
  }
  return code;
}

/* Replaces all views. *text is from sqlite3_malloc, before and after. */
static int replace_views(unions *u, char **text, tsr_error *error) {
  for (char *made = *text; made;) {
    token_list list;
    if (u->views++ == VIEWS_MAX) u->unknown = true;
    if (u->unknown) return TSR_OK;
    TSX_TRY(list_tokens(*text, &list, error));
    const int code = replace_view(u, &list, &made, error);
    sqlite3_free(list.tokens);
    if (code < 0) return code;
    if (!made) break;
    sqlite3_free(*text);
    *text = made;
  }
  return TSR_OK;
}

/* ---- UNION ------------------------------------------------------------------------------------------------------- */

#define SETTLED "UNION/*tessera*/" /* the UNION of a text that is made here: the SELECT behind it was chosen */

static const char *const union_words[] = {"UNION", "EXCEPT", "INTERSECT", NULL};

static bool is_settled(const tsx_token *token) { return !strncmp(token->text, SETTLED, strlen(SETTLED)); }

static uint64_t find_union(const token_list *list) {
  uint64_t i = 0;
  while (i < list->count && (!token_in(list, i, union_words) || is_settled(&list->tokens[i]))) i++;
  return i;
}

static int take_apart(unions *u, const char *text, unsigned depth, tsr_error *error);

/* Goes on with a text that is from sqlite3_mprintf, and frees it. */
static int take_made(unions *u, char *text, unsigned depth, tsr_error *error) {
  const int code = text ? take_apart(u, text, depth, error) : tsx_out_of_memory(error);
  sqlite3_free(text);
  return code;
}

typedef struct union_place { /* a UNION in a text */
  const token_list *list;
  uint64_t begin, end; /* the parentheses around it: their first token, and the one behind the last */
  uint64_t first; /* where the first SELECT begins, perhaps behind WITH */
  int first_size; /* in bytes */
} union_place;

/* Makes the text with one SELECT, from sqlite3_mprintf. */
static char *choose_select(const union_place *place, uint64_t select, int size) {
  const token_list *list = place->list;
  const char *one = list->tokens[place->first].text, *own = list->tokens[select].text,
             *behind = list->tokens[place->end].text;
  const int before = (int)(one - list->text);
  uint64_t name = 0, as = 0;
  if (place->begin == 0 || select == place->first)
    return sqlite3_mprintf("%.*s%.*s%s", before, list->text, size, own, behind);
  if (!is_with_table(list, place->begin, &name, &as))
    return sqlite3_mprintf("%.*s%.*s " SETTLED "ALL %.*s%s", before, list->text, place->first_size, one, size, own,
                           behind);
  return sqlite3_mprintf("%.*sSELECT * FROM (WITH %.*sAS (%.*s) %.*s " SETTLED "ALL %.*s)%s", before, list->text,
                         (int)(list->tokens[as].text - list->tokens[name].text), list->tokens[name].text,
                         place->first_size, one, place->first_size, one, size, own, behind);
}

/* Goes on with each SELECT in place of the UNION that has token `at`. */
static int take_selects(unions *u, const token_list *list, uint64_t at, unsigned depth, tsr_error *error) {
  static const char *const begins[] = {"SELECT", "VALUES", NULL}, *const ends[] = {"UNION", "EXCEPT", "INTERSECT",
                                                                                   "ORDER", "LIMIT",  NULL};
  union_place place = {.list = list, .begin = around_begin(list, at), .end = around_end(list, at)};
  place.first = find_word(list, place.begin, place.end, begins);
  u->unknown |= place.first == place.end;
  bool counts = true;
  for (uint64_t select = place.first; select < place.end && !u->unknown;) {
    const uint64_t next = find_word(list, select, place.end, ends);
    const int size = (int)(list->tokens[next].text - list->tokens[select].text);
    if (select == place.first) place.first_size = size;
    if (counts) TSX_TRY(take_made(u, choose_select(&place, select, size), depth, error));
    counts = token_is(list, next, "UNION");
    select = token_in(list, next, union_words) ? find_word(list, next, place.end, begins) : place.end;
  }
  return TSR_OK;
}

static int take_apart(unions *u, const char *text, unsigned depth, tsr_error *error) {
  token_list list;
  TSX_TRY(list_tokens(text, &list, error));
  const uint64_t at = find_union(&list);
  int code = TSR_OK;
  if (at == list.count) {
    if (u->texts++ == TEXTS_MAX) u->unknown = true;
    else code = u->task(u->argument, text, error);
  } else if (depth == DEPTH_MAX) u->unknown = true;
  else code = take_selects(u, &list, at, depth + 1, error);
  sqlite3_free(list.tokens);
  return code;
}

static bool has_union(const token_list *list) { return find_union(list) < list->count; }

int tsx_unions_each(sqlite3 *db, const char *text, tsx_union_task task, void *argument, tsr_error *error) {
  unions u = {.db = db, .task = task, .argument = argument};
  token_list list = {0};
  char *whole = sqlite3_mprintf("%s", text);
  int code = whole ? replace_views(&u, &whole, error) : tsx_out_of_memory(error);
  if (code >= 0) code = list_tokens(whole, &list, error);
  const bool some = code >= 0 && has_union(&list);
  sqlite3_free(list.tokens);
  u.unknown |= some && u.foreign;
  if (some && !u.unknown) code = take_apart(&u, whole, 0, error);
  sqlite3_free(whole);
  return code >= 0 && u.unknown ? task(argument, NULL, error) : code;
}
