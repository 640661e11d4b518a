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
 * With `ends`, min(t) becomes t before that.
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
#define DEPTH_MAX 100 /* UNIONs that are replaced one after the other */

typedef struct unions {
  sqlite3 *db;
  tsx_union_task task;
  void *argument;
  uint32_t views, texts;
  bool unknown; /* it cannot be taken apart */
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

/* Returns true if what stands before token `i` is FROM: the list of a SELECT has commas and parentheses, too. */
static bool is_in_from(const token_list *list, uint64_t i) {
  static const char *const froms[] = {"FROM", "JOIN", NULL}, *const others[] = {"SELECT", "VALUES", "WHERE",  "BY",
                                                                                "HAVING", "LIMIT",  "WINDOW", NULL};
  int64_t depth = 0; /* below 0: within the parentheses around the token, which may be those of a join */
  while (i-- > 0) {
    depth += token_is(list, i, ")") - token_is(list, i, "(");
    if (depth < 0 && may_be_name(list, i - (i > 0)) && !token_in(list, i - 1, froms)) return false; /* of a function */
    depth = depth < 0 ? 0 : depth;
    if (depth == 0 && token_in(list, i, froms)) return true;
    if (depth == 0 && token_in(list, i, others)) return false;
  }
  return false;
}

/* Returns true if token `i` names a table in FROM: *schema is the token of its database, or `i`. */
static bool names_table(const token_list *list, uint64_t i, uint64_t *schema) {
  static const char *const before[] = {"FROM", "JOIN", ",", "(", NULL};
  if (!may_be_name(list, i) || token_is(list, i + 1, ".") || token_is(list, i + 1, "(")) return false;
  *schema = i >= 2 && token_is(list, i - 1, ".") && may_be_name(list, i - 2) ? i - 2 : i;
  return *schema > 0 && token_in(list, *schema - 1, before) && is_in_from(list, *schema);
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

/* Appends the SELECT of a view from token `begin` on. The names in the view of a database mean tables of that database,
 * and those of a temporary view what they mean anywhere; so the former get the name of the database. */
static int append_select(unions *u, sqlite3_str *out, const token_list *list, uint64_t begin, const char *schema,
                         tsr_error *error) {
  const char *done = list->tokens[begin].text;
  for (uint64_t i = begin, at; i < list->count && sqlite3_stricmp(schema, "temp"); i++) {
    tsx_table_kind kind = TSX_TABLE_NONE;
    if (!(names_table(list, i, &at) && at == i) && !(may_be_name(list, i) && token_is(list, i - 1, "IN"))) continue;
    char *name = name_of(&list->tokens[i]);
    if (!name) return tsx_out_of_memory(error);
    const bool own = with_defines(list, name);
    const int code = own ? SQLITE_OK : tsx_schema_kind(u->db, schema, name, &kind);
    sqlite3_free(name);
    if (code == SQLITE_NOMEM) return tsx_out_of_memory(error);
    if (kind == TSX_TABLE_NONE) continue;
    sqlite3_str_appendf(out, "%.*s\"%w\".", (int)(list->tokens[i].text - done), done, schema);
    done = list->tokens[i].text;
  }
  sqlite3_str_append(out, done, (int)(list->tokens[list->count - 1].text + list->tokens[list->count - 1].size - done));
  return TSR_OK;
}

/* Gives the SELECT of a view in parentheses, from sqlite3_malloc, from its CREATE VIEW; without a comment at its end,
 * which may be open. */
static int view_select(unions *u, const char *schema, const char *created, char **select, tsr_error *error) {
  static const char *const as[] = {"AS", NULL};
  token_list list;
  TSX_TRY(list_tokens(created, &list, error));
  const uint64_t at = find_word(&list, 0, list.count, as);
  const uint64_t columns = at > 0 && token_is(&list, at - 1, ")") ? around_begin(&list, at - 1) : 0;
  const int names = (int)(columns ? list.tokens[at].text - list.tokens[columns - 1].text : 0);
  sqlite3_str *out = sqlite3_str_new(u->db);
  if (names) sqlite3_str_appendf(out, "(WITH tessera_view%.*s AS ", names, list.tokens[columns - 1].text);
  sqlite3_str_appendchar(out, 1, '(');
  const int code = at + 1 < list.count ? append_select(u, out, &list, at + 1, schema, error) : TSR_OK;
  sqlite3_str_appendall(out, names ? ") SELECT * FROM tessera_view)" : ")");
  *select = sqlite3_str_finish(out);
  sqlite3_free(list.tokens);
  return code < 0 || *select ? code : tsx_out_of_memory(error);
}

/* If a name is that of a view, gives its SELECT in parentheses, from sqlite3_malloc; else *select is NULL. `schema` is
 * from sqlite3_malloc, or NULL; it is freed here. */
static int find_view(unions *u, const char *name, char *schema, char **select, tsr_error *error) {
  sqlite3_stmt *found = NULL;
  tsx_table_kind kind = TSX_TABLE_NONE;
  int code = schema ? tsx_schema_kind(u->db, schema, name, &kind) : tsx_schema_search(u->db, name, &schema, &kind);
  *select = NULL;
  if (code == SQLITE_OK && kind == TSX_TABLE_VIEW) code = tsx_schema_find(u->db, schema, name, &found);
  int made = TSR_OK;
  if (code == SQLITE_ROW && sqlite3_column_text(found, 1))
    made = view_select(u, schema, (const char *)sqlite3_column_text(found, 1), select, error);
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

#define FIXED_MARK                                                                                                     \
  "/*tessera*/" /* behind a UNION that stays: its SELECT was chosen, or it is in one that gives the names */

static const char *const union_words[] = {"UNION", "EXCEPT", "INTERSECT", NULL};

static bool is_fixed(const tsx_token *token) {
  return !strncmp(token->text + token->size, FIXED_MARK, strlen(FIXED_MARK));
}

/* Returns the first UNION that the fewest parentheses enclose: with the SELECT that has one, those within it go. The
 * other way round, the ways to choose would multiply. */
static uint64_t find_union(const token_list *list) {
  uint64_t found = list->count;
  int64_t depth = 0, least = INT64_MAX;
  for (uint64_t i = 0; i < list->count; i++) {
    depth += token_is(list, i, "(") - token_is(list, i, ")");
    if (depth >= least || !token_in(list, i, union_words) || is_fixed(&list->tokens[i])) continue;
    found = i;
    least = depth;
  }
  return found;
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
  char *names; /* the first SELECT, whose UNIONs stay: it gives the names of the columns; from sqlite3_malloc */
} union_place;

/* Makes the SELECT of tokens `begin` to `end` with marks that keep its UNIONs, from sqlite3_malloc; NULL if memory is
 * exhausted. */
static char *fix_unions(unions *u, const token_list *list, uint64_t begin, uint64_t end) {
  sqlite3_str *out = sqlite3_str_new(u->db);
  const char *done = list->tokens[begin].text;
  for (uint64_t i = begin; i < end; i++) {
    const char *behind = list->tokens[i].text + list->tokens[i].size;
    if (!token_in(list, i, union_words) || is_fixed(&list->tokens[i])) continue;
    sqlite3_str_appendf(out, "%.*s" FIXED_MARK, (int)(behind - done), done);
    done = behind;
  }
  sqlite3_str_append(out, done, (int)(list->tokens[end].text - done));
  return sqlite3_str_finish(out);
}

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
    return sqlite3_mprintf("%.*s%s UNION" FIXED_MARK "ALL %.*s%s", before, list->text, place->names, size, own, behind);
  return sqlite3_mprintf("%.*sSELECT * FROM (WITH %.*sAS (%.*s) %s UNION" FIXED_MARK "ALL %.*s)%s", before, list->text,
                         (int)(list->tokens[as].text - list->tokens[name].text), list->tokens[name].text,
                         place->first_size, one, place->names, size, own, behind);
}

/* Goes on with each SELECT in place of a UNION, of which place->names is the caller's to free. */
static int take_each(unions *u, union_place *place, unsigned depth, tsr_error *error) {
  static const char *const begins[] = {"SELECT", "VALUES", NULL}, *const ends[] = {"UNION", "EXCEPT", "INTERSECT",
                                                                                   "ORDER", "LIMIT",  NULL};
  const token_list *list = place->list;
  bool counts = true;
  for (uint64_t select = place->first; select < place->end && !u->unknown;) {
    const uint64_t next = find_word(list, select, place->end, ends);
    const int size = (int)(list->tokens[next].text - list->tokens[select].text);
    if (select == place->first) {
      place->first_size = size;
      if (!(place->names = fix_unions(u, list, select, next))) return tsx_out_of_memory(error);
    }
    if (counts) TSX_TRY(take_made(u, choose_select(place, select, size), depth, error));
    counts = token_is(list, next, "UNION");
    select = token_in(list, next, union_words) ? find_word(list, next, place->end, begins) : place->end;
  }
  return TSR_OK;
}

/* Goes on with each SELECT in place of the UNION that has token `at`. */
static int take_selects(unions *u, const token_list *list, uint64_t at, unsigned depth, tsr_error *error) {
  static const char *const begins[] = {"SELECT", "VALUES", NULL};
  union_place place = {.list = list, .begin = around_begin(list, at), .end = around_end(list, at)};
  place.first = find_word(list, place.begin, place.end, begins);
  u->unknown |= place.first == place.end;
  const int code = take_each(u, &place, depth, error);
  sqlite3_free(place.names);
  return code;
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

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

typedef struct call { /* of a function that returns one of the values of a column */
  uint64_t first, behind_value; /* the tokens of its first argument */
  uint64_t end; /* behind the call and its FILTER and OVER */
} call;

/* Returns the token behind a parenthesis that opens at `i`, and sets *comma to the first comma within. */
static uint64_t behind_parentheses(const token_list *list, uint64_t i, uint64_t *comma, uint64_t *commas) {
  const uint64_t end = around_end(list, i + 1);
  int64_t depth = 0;
  *comma = end;
  *commas = 0;
  for (uint64_t k = i + 1; k < end; k++) {
    depth += token_is(list, k, "(") - token_is(list, k, ")");
    if (depth || !token_is(list, k, ",")) continue;
    if (!(*commas)++) *comma = k;
  }
  return end < list->count ? end + 1 : end;
}

/* Finds a call that stands alone in the list of a SELECT, from token `i` on. */
static bool find_call(const token_list *list, uint64_t i, call *found) {
  static const struct {
    const char *name;
    uint64_t commas; /* at most: lag() and lead() with a third argument may return that */
  } ends[] = {{"min", 0}, {"max", 0}, {"first_value", 0}, {"last_value", 0}, {"nth_value", 1}, {"lag", 1}, {"lead", 1}};
  static const char *const behind[] = {",",     ")",      "AS",     "FROM",  "WHERE", "GROUP",     "HAVING", ";",
                                       "UNION", "WINDOW", "EXCEPT", "ORDER", "LIMIT", "INTERSECT", NULL},
                           *const operators[] = {"IS",     "IN",      "LIKE",    "GLOB",   "BETWEEN",
                                                 "NOT",    "AND",     "OR",      "MATCH",  "REGEXP",
                                                 "ISNULL", "NOTNULL", "COLLATE", "ESCAPE", NULL};
  uint64_t comma, commas, ignored;
  if (!token_is(list, i + 1, "(")) return false;
  found->end = behind_parentheses(list, i + 1, &comma, &commas);
  bool known = false;
  for (size_t n = 0; n < sizeof ends / sizeof *ends && !known; n++)
    known = token_is(list, i, ends[n].name) && commas <= ends[n].commas;
  found->first = i + 2 + token_is(list, i + 2, "DISTINCT");
  found->behind_value = comma;
  if (!known || found->first >= comma) return false;
  if (token_is(list, found->end, "FILTER") && token_is(list, found->end + 1, "("))
    found->end = behind_parentheses(list, found->end + 1, &ignored, &ignored);
  if (token_is(list, found->end, "OVER"))
    found->end = token_is(list, found->end + 1, "(") ? behind_parentheses(list, found->end + 1, &ignored, &ignored)
                                                     : found->end + 2;
  return found->end >= list->count || token_in(list, found->end, behind) ||
         (may_be_name(list, found->end) && !token_in(list, found->end, operators));
}

static void append_call(sqlite3_str *out, const token_list *list, uint64_t begin, const call *c) {
  const tsx_token *last = &list->tokens[c->end - 1], *value = &list->tokens[c->first];
  const char *words = list->tokens[begin].text;
  sqlite3_str_appendf(out, "(%.*s)", (int)(list->tokens[c->behind_value].text - value->text), value->text);
  if (token_is(list, c->end, "AS") || is_alias(list, c->end)) return;
  char *name = sqlite3_mprintf("%.*s", (int)(last->text + last->size - words), words); /* as SQLite names the column */
  if (name) sqlite3_str_appendf(out, " AS \"%w\"", name);
  sqlite3_free(name);
}

/* Replaces calls that return one of the values of a column, and +column, by the column: *text is from sqlite3_malloc,
 * before and after. Only what stands alone in the list of a SELECT is replaced: elsewhere it changes no type. */
static int bare_ends(char **text, tsr_error *error) {
  static const char *const begins[] = {"SELECT", "DISTINCT", "ALL", ",", NULL}, *const ends[] = {"FROM",   "WHERE",
                                                                                                 "GROUP",  "HAVING",
                                                                                                 "WINDOW", "ORDER",
                                                                                                 "LIMIT",  NULL};
  token_list list;
  TSX_TRY(list_tokens(*text, &list, error));
  bool *in_list = sqlite3_malloc64(list.count + 2); /* of each pair of parentheses that is open */
  sqlite3_str *out = sqlite3_str_new(NULL);
  const char *done = *text;
  uint64_t depth = 0;
  if (in_list) in_list[0] = false;
  for (uint64_t i = 0; i < list.count && in_list; i++) {
    call found;
    const char *at = list.tokens[i].text;
    if (token_is(&list, i, "(")) in_list[++depth] = false;
    else if (token_is(&list, i, ")")) depth -= depth > 0;
    else if (token_is(&list, i, "SELECT")) in_list[depth] = true;
    else if (token_in(&list, i, ends)) in_list[depth] = false;
    if (!in_list[depth] || i == 0 || !token_in(&list, i - 1, begins)) continue;
    const bool plus = token_is(&list, i, "+");
    const bool calls = find_call(&list, i + plus, &found);
    if (!calls && !plus) continue;
    sqlite3_str_append(out, done, (int)(at - done));
    if (calls) append_call(out, &list, i + plus, &found);
    i = calls ? found.end - 1 : i;
    done = calls ? list.tokens[i].text + list.tokens[i].size : list.tokens[i + 1].text;
  }
  sqlite3_str_appendall(out, done);
  sqlite3_free(in_list);
  sqlite3_free(list.tokens);
  sqlite3_free(*text);
  *text = sqlite3_str_finish(out);
  return *text && in_list ? TSR_OK : tsx_out_of_memory(error);
}

static bool has_union(const token_list *list) { return find_union(list) < list->count; }

int tsx_unions_each(sqlite3 *db, const char *text, bool ends, tsx_union_task task, void *argument, tsr_error *error) {
  unions u = {.db = db, .task = task, .argument = argument};
  token_list list = {0};
  char *whole = sqlite3_mprintf("%s", text);
  int code = whole ? replace_views(&u, &whole, error) : tsx_out_of_memory(error);
  if (code >= 0 && ends) code = bare_ends(&whole, error);
  if (code >= 0) code = list_tokens(whole, &list, error);
  const bool some = code >= 0 && has_union(&list);
  sqlite3_free(list.tokens);
  if ((some || ends) && code >= 0 && !u.unknown) code = take_apart(&u, whole, 0, error);
  sqlite3_free(whole);
  return code >= 0 && u.unknown ? task(argument, NULL, error) : code;
}
