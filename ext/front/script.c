/* script.c: finds the SELECTs of a statement, from its tokens.
 *
 * This is no parser of SQL: compile.c of ext/query parses each SELECT that it finds. It needs to know only where a
 * SELECT begins and ends, and where it stands: behind a parenthesis, or as an arm between UNION and the like. Words
 * that divide a statement (SELECT, FROM, WHERE, UNION, ORDER, ...) are no names in SQLite unless they are quoted; WITH
 * may be one, so it counts only before a name and AS. */
#include "front/front.h"

#include <string.h>

#include "connection/errors.h"

#define SCRIPT_DEPTH_MAX 100 /* SELECTs inside SELECTs; what lies deeper is not looked for */
#define SCRIPT_SHOWN     40 /* bytes of a second statement in a message */

typedef struct script_reader {
  tsx_script *script;
  uint32_t depth;
} script_reader;

static bool script_is(const tsx_script *s, uint32_t i, const char *word) {
  return i < s->token_count && tsx_token_is(&s->tokens[i].token, word);
}

static bool script_is_any(const tsx_script *s, uint32_t i, const char *const *words) {
  for (; *words; words++)
    if (script_is(s, i, *words)) return true;
  return false;
}

static bool script_is_name(const tsx_script *s, uint32_t i) {
  if (i >= s->token_count) return false;
  const tsx_token_kind kind = s->tokens[i].token.kind;
  return kind == TSX_TOKEN_WORD || kind == TSX_TOKEN_NAME || kind == TSX_TOKEN_STRING;
}

static bool script_opens(const tsx_script *s, uint32_t i) {
  return script_is(s, i, "(") && s->tokens[i].match != TSX_SCRIPT_NONE;
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

/* Makes one operator of the words DISTINCT FROM: this FROM has no tables. Returns true if the token is its second. */
static bool script_join_words(tsx_script *s, const tsx_token *token) {
  if (s->token_count == 0 || !tsx_token_is(token, "FROM") || !script_is(s, s->token_count - 1, "DISTINCT"))
    return false;
  tsx_token *before = &s->tokens[s->token_count - 1].token;
  before->kind = TSX_TOKEN_MARK;
  before->size = (uint64_t)(token->text + token->size - before->text);
  return true;
}

/* Reads the tokens up to the end or the first semicolon. Returns what comes after the semicolon, or NULL. */
static const char *script_tokens(tsx_script *s, bool *sound) {
  tsx_tokens tokens = tsx_tokens_of(s->text);
  for (; tokens.token.kind != TSX_TOKEN_END && !tsx_token_is(&tokens.token, ";"); tsx_tokens_next(&tokens)) {
    *sound &= tokens.token.kind != TSX_TOKEN_BAD;
    if (s->tokens && script_join_words(s, &tokens.token)) continue;
    if (s->tokens) s->tokens[s->token_count] = (tsx_script_token){tokens.token, TSX_SCRIPT_NONE};
    s->token_count++;
  }
  if (s->tokens) s->tokens[s->token_count] = (tsx_script_token){tokens.token, TSX_SCRIPT_NONE};
  while (tsx_token_is(&tokens.token, ";")) tsx_tokens_next(&tokens);
  return tokens.token.kind == TSX_TOKEN_END ? NULL : tokens.token.text;
}

/* Matches the parentheses; an open one keeps the one before it in its match meanwhile. Returns false if some do not
 * match: these have none. */
static bool script_match(tsx_script *s) {
  uint32_t open = TSX_SCRIPT_NONE;
  bool sound = true;
  for (uint32_t i = 0; i < s->token_count; i++) {
    if (script_is(s, i, "(")) {
      s->tokens[i].match = open;
      open = i;
    } else if (script_is(s, i, ")")) {
      sound &= open != TSX_SCRIPT_NONE;
      if (open == TSX_SCRIPT_NONE) continue;
      const uint32_t before = s->tokens[open].match;
      s->tokens[open].match = i;
      s->tokens[i].match = open;
      open = before;
    }
  }
  sound &= open == TSX_SCRIPT_NONE;
  while (open != TSX_SCRIPT_NONE) {
    const uint32_t before = s->tokens[open].match;
    s->tokens[open].match = TSX_SCRIPT_NONE;
    open = before;
  }
  return sound;
}

/* ---- SELECTs ----------------------------------------------------------------------------------------------------- */

static void script_query(script_reader *r, uint32_t first, uint32_t end, uint32_t parent, tsx_script_place place);

/* Returns true if tokens that begin at i are a SELECT, VALUES or WITH. */
bool tsx_script_begins(const tsx_script *s, uint32_t i) {
  static const char *const words[] = {"SELECT", "VALUES", NULL};
  if (script_is_any(s, i, words)) return true;
  if (!script_is(s, i, "WITH")) return false;
  return script_is(s, i + 1, "RECURSIVE") ||
         (script_is_name(s, i + 1) && (script_is(s, i + 2, "AS") || script_opens(s, i + 2)));
}

/* Finds the queries in parentheses among the tokens [i, end). Those between FROM and what follows it are its
 * sources. */
static void script_inside(script_reader *r, uint32_t i, uint32_t end, uint32_t parent, uint32_t from, uint32_t behind) {
  static const char *const before[] = {"FROM", ",", "JOIN", "(", NULL}, *const lists[] = {"IN", "EXISTS", NULL};
  const tsx_script *s = r->script;
  for (; i < end; i++) {
    if (!script_opens(s, i) || !tsx_script_begins(s, i + 1)) continue;
    const bool source = i > from && i < behind && script_is_any(s, i - 1, before);
    const bool list = i > 0 && script_is_any(s, i - 1, lists);
    script_query(r, i + 1, s->tokens[i].match, parent,
                 source ? TSX_PLACE_FROM
                 : list ? TSX_PLACE_LIST
                        : TSX_PLACE_SCALAR);
    i = s->tokens[i].match;
  }
}

/* Returns the first token of [i, end) outside of parentheses that is one of the words, or `end`. */
static uint32_t script_find(const tsx_script *s, uint32_t i, uint32_t end, const char *const *words) {
  for (; i < end && !script_is_any(s, i, words); i++)
    if (script_opens(s, i)) i = s->tokens[i].match;
  return i;
}

/* Counts the tables and subqueries between FROM and what follows it; commas of calls count, too. */
static uint32_t script_sources(const tsx_script *s, uint32_t from, uint32_t behind) {
  static const char *const between[] = {",", "JOIN", NULL};
  uint32_t count = from < behind;
  for (uint32_t i = from; i < behind; i++) {
    if (script_opens(s, i) && tsx_script_begins(s, i + 1)) i = s->tokens[i].match;
    else count += script_is_any(s, i, between);
  }
  return count;
}

/* Adds the SELECT of the tokens [first, end), and those inside it. */
static void script_select(script_reader *r, uint32_t first, uint32_t end, uint32_t parent, tsx_script_place place,
                          bool arm) {
  static const char *const begin[] = {"FROM", NULL};
  static const char *const behind[] = {"WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", NULL};
  tsx_script *s = r->script;
  const uint32_t number = s->select_count++, from = script_find(s, first, end, begin);
  const uint32_t last = script_find(s, from, end, behind);
  s->selects[number] = (tsx_script_select){.first = first,
                                           .end = end,
                                           .from = from,
                                           .parent = parent,
                                           .place = place,
                                           .arm = arm,
                                           .sources = script_sources(s, from, last),
                                           .behind = last};
  script_inside(r, first, end, number, from, last);
  s->selects[number].next = s->select_count;
}

/* Reads the CTEs behind WITH. Returns the token after them. */
static uint32_t script_with(script_reader *r, uint32_t i, uint32_t end, uint32_t parent) {
  tsx_script *s = r->script;
  if (script_is(s, ++i, "RECURSIVE") && !script_is(s, i + 1, "AS") && !script_opens(s, i + 1)) i++;
  for (; i < end && script_is_name(s, i); i++) {
    const uint32_t number = s->with_count++;
    s->with[number] = i++;
    s->bodies[number] = TSX_SCRIPT_NONE;
    s->lists[number] = script_opens(s, i) ? i : TSX_SCRIPT_NONE;
    if (script_opens(s, i)) i = s->tokens[i].match + 1;
    if (script_is(s, i, "AS")) i++;
    if (script_is(s, i, "NOT")) i++;
    if (script_is(s, i, "MATERIALIZED")) i++;
    if (!script_opens(s, i)) return i;
    if (parent == TSX_SCRIPT_NONE && r->depth == 1) s->bodies[number] = i;
    script_query(r, i + 1, s->tokens[i].match, parent, TSX_PLACE_WITH);
    i = s->tokens[i].match + 1;
    if (!script_is(s, i, ",")) return i;
  }
  return i;
}

/* Reads [WITH ...] SELECT or VALUES, and the arms that follow. ORDER BY and LIMIT behind several arms are of none. */
static void script_query(script_reader *r, uint32_t i, uint32_t end, uint32_t parent, tsx_script_place place) {
  static const char *const compounds[] = {"UNION", "INTERSECT", "EXCEPT", NULL};
  static const char *const tails[] = {"ORDER", "LIMIT", NULL};
  const tsx_script *s = r->script;
  if (r->depth == SCRIPT_DEPTH_MAX) return;
  r->depth++;
  if (script_is(s, i, "WITH")) i = script_with(r, i, end, parent);
  const bool arms = script_find(s, i, end, compounds) < end;
  while (i < end) {
    uint32_t stop = script_find(s, i, end, compounds);
    const uint32_t tail = arms && stop == end ? script_find(s, i, end, tails) : stop;
    if (script_is(s, i, "SELECT")) script_select(r, i, tail, parent, place, arms);
    else script_inside(r, i, tail, parent, end, end);
    script_inside(r, tail, stop, parent, end, end);
    i = stop + 1;
    if (script_is(s, i, "ALL")) i++;
  }
  r->depth--;
}

/* ---- The statement ----------------------------------------------------------------------------------------------- */

static int script_wanted(const tsx_script *s, uint32_t i, tsr_error *error) {
  if (i >= s->token_count) return tsx_fail(error, TSR_ERROR, "expected a SELECT");
  const tsx_token *token = &s->tokens[i].token;
  const int size = (int)(token->size < SCRIPT_SHOWN ? token->size : SCRIPT_SHOWN);
  return tsx_fail(error, TSR_ERROR, "expected a SELECT, not '%.*s'", size, token->text);
}

/* Reads [schema.]name at token i. Returns the token after it. */
static uint32_t script_target(tsx_script *s, uint32_t i) {
  const bool qualified = script_is(s, i + 1, ".");
  s->target_schema = qualified ? i : TSX_SCRIPT_NONE;
  s->target = qualified ? i + 2 : i;
  return s->target + 1;
}

/* Skips EXPLAIN, CREATE TABLE name AS and INSERT INTO name. Returns the token at which the query begins. */
static uint32_t script_prefix(tsx_script *s) {
  static const char *const temporary[] = {"TEMP", "TEMPORARY", NULL};
  uint32_t i = 0;
  if (script_is(s, i, "EXPLAIN")) i += script_is(s, i + 1, "QUERY") && script_is(s, i + 2, "PLAN") ? 3 : 1;
  const uint32_t begin = i;
  if (script_is(s, i, "CREATE")) {
    if (script_is_any(s, ++i, temporary)) i++;
    if (!script_is(s, i++, "TABLE")) return begin;
    if (script_is(s, i, "IF") && script_is(s, i + 1, "NOT") && script_is(s, i + 2, "EXISTS")) i += 3;
    i += script_is(s, i + 1, ".") ? 3 : 1;
    if (!script_is(s, i++, "AS")) return begin;
    s->writes = "CREATE";
  } else if (script_is(s, i, "INSERT")) {
    if (script_is(s, ++i, "OR")) i += 2;
    if (!script_is(s, i++, "INTO")) return begin;
    i = script_target(s, i);
    if (script_is(s, i, "AS")) i += 2;
    if (script_opens(s, i) && !tsx_script_begins(s, i + 1)) i = s->tokens[i].match + 1;
    s->writes = "INSERT";
  }
  return tsx_script_begins(s, i) ? i : begin;
}

/* Returns the token behind the CTEs at token i. */
static uint32_t script_behind_with(const tsx_script *s, uint32_t i) {
  static const char *const words[] = {"SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", NULL};
  return script_is(s, i, "WITH") ? script_find(s, i + 1, s->token_count, words) : i;
}

int tsx_script_read(const char *text, tsx_arena *arena, tsx_script *s, tsr_error *error) {
  static const char *const words[] = {"SELECT", "VALUES", NULL};
  bool sound = true;
  *s = (tsx_script){.text = text, .target = TSX_SCRIPT_NONE, .target_schema = TSX_SCRIPT_NONE};
  (void)script_tokens(s, &sound);
  const uint64_t room = (uint64_t)s->token_count + 1;
  s->token_count = 0;
  s->tokens = tsx_arena_take(arena, room * sizeof *s->tokens);
  s->selects = tsx_arena_take(arena, room * sizeof *s->selects);
  s->with = tsx_arena_take(arena, room * sizeof *s->with);
  s->bodies = tsx_arena_take(arena, room * sizeof *s->bodies);
  s->lists = tsx_arena_take(arena, room * sizeof *s->lists);
  if (!s->tokens || !s->selects || !s->with || !s->bodies || !s->lists) return tsx_out_of_memory(error);
  const char *more = script_tokens(s, &sound);
  sound &= script_match(s);
  const uint32_t begin = script_prefix(s), first = script_behind_with(s, begin);
  if (!script_is_any(s, first, words)) return script_wanted(s, first < s->token_count ? first : begin, error);
  if (more && sound)
    return tsx_fail(error, TSR_ERROR, "one statement only: '%.*s'", (int)strnlen(more, SCRIPT_SHOWN), more);
  script_reader reader = {.script = s};
  if (sound) script_query(&reader, begin, s->token_count, TSX_SCRIPT_NONE, TSX_PLACE_STATEMENT);
  return TSR_OK;
}

bool tsx_script_names(const tsx_script *script, uint32_t i, const char *name) {
  if (!script_is_name(script, i)) return false;
  const tsx_token *token = &script->tokens[i].token;
  char *own = sqlite3_malloc64(token->size + 1);
  if (own) tsx_token_copy(token, own);
  const bool same = !own || !sqlite3_stricmp(own, name); /* without memory, take it for a CTE: then it is no array */
  sqlite3_free(own);
  return same;
}

bool tsx_script_has_with(const tsx_script *script, const char *name) {
  for (uint32_t i = 0; i < script->with_count; i++)
    if (tsx_script_names(script, script->with[i], name)) return true;
  return false;
}

bool tsx_script_has_alias(const tsx_script *s, uint32_t first, uint32_t end) {
  static const char *const words[] = {"END", "NULL", "ISNULL", "NOTNULL", "TRUE", "FALSE", NULL};
  if (end - first < 2) return false;
  const tsx_token *last = &s->tokens[end - 1].token, *before = &s->tokens[end - 2].token;
  if (tsx_token_is(before, "AS")) return true;
  if (last->kind != TSX_TOKEN_WORD && last->kind != TSX_TOKEN_NAME && last->kind != TSX_TOKEN_STRING) return false;
  bool ends = tsx_token_is(before, ")") || tsx_token_is(before, "?"); /* `before` ends an expression */
  for (const char *const *word = words; *word; word++) {
    if (tsx_token_is(last, *word)) return false;
    ends |= tsx_token_is(before, *word);
  }
  return ends || (before->kind == TSX_TOKEN_WORD && !tsx_token_reserved(before)) || before->kind == TSX_TOKEN_NUMBER ||
         before->kind == TSX_TOKEN_STRING || before->kind == TSX_TOKEN_NAME;
}

bool tsx_script_has_parameters(const tsx_script *s, uint32_t first, uint32_t end) {
  static const char *const marks[] = {"?", ":", "@", "$", NULL};
  for (uint32_t i = first; i < end; i++)
    if (script_is_any(s, i, marks)) return true;
  return false;
}

bool tsx_script_item_next(const tsx_script *s, const tsx_script_select *select, tsx_script_item *item) {
  static const char *const comma[] = {",", NULL};
  static const char *const behind[] = {"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", NULL};
  static const char *const duplicates[] = {"DISTINCT", "ALL", NULL};
  if (!item->end) item->stop = script_find(s, select->first + 1, select->from, behind);
  const uint32_t first = item->end ? item->end + 1 : select->first + 1;
  if (first >= item->stop) return false;
  item->first = !item->end && script_is_any(s, first, duplicates) ? first + 1 : first;
  item->end = script_find(s, first, item->stop, comma);
  return item->first < item->end;
}

const char *tsx_script_words(const tsx_script *s, uint32_t first, uint32_t end, int *size) {
  const char *begin = tsx_script_begin(s, first), *stop = tsx_script_begin(s, end);
  while (stop > begin && strchr(" \t\n\f\r", stop[-1])) stop--;
  *size = (int)(stop - begin);
  return begin;
}
