/* rewrite.c: replaces the SELECTs of a statement that run over columns by tables that evaluate them.
 *
 * The SELECTs are tried from outside inward. One that tessera_query compiles and suit.c allows becomes
 *
 *   SELECT "k" AS "k", +"n" AS "n" FROM "tessera:9f0c2b7a51e04d38"
 *
 * and is not searched further. If a grouped SELECT has window functions, the table evaluates the groups, and SQLite the
 * windows (windows.c). The rest of the text stays as it is, byte for byte, but for names: a column of a result
 * that has no alias is named after its words, and gets these words as an alias if they change.
 *
 * The + takes the affinity from a column that was an expression before. It also hides the column from pushdown, so it
 * stands only where a comparison could tell.
 *
 * SQLite prepares the statement before and after. If it cannot prepare the first, that is the error; if only the second
 * fails, or has other columns, nothing is taken.
 *
 * Sections: one SELECT, names of columns, putting together. */
#include "front/front.h"

#include <string.h>

#include "connection/errors.h"
#include "sql/dialects.h"
#include "table/table.h"

typedef struct rewrite_edit {
  const char *begin, *end;
  const char *text;
} rewrite_edit;

typedef struct rewriter {
  tsx_connection *connection;
  const tsx_front_options *options;
  tsx_rewritten *out;
  sqlite3_stmt *plain; /* the statement as it was given; NULL if SQLite cannot prepare it */
  rewrite_edit *edits; /* in order of the text */
  uint32_t edit_count, edit_room;
  bool beyond; /* a part was taken that SQLite alone cannot prepare, or a path was replaced */
  bool paths; /* a path was replaced */
  bool only_paths; /* no SELECT is taken */
  tsx_own_functions own;
  tsr_error *error;
} rewriter;

static char *rewrite_keep(rewriter *r, char *text) {
  char *kept = text ? tsx_arena_copy(&r->out->arena, text, strlen(text)) : NULL;
  sqlite3_free(text);
  if (!kept) tsx_out_of_memory(r->error);
  return kept;
}

static int rewrite_edit_add(rewriter *r, const char *begin, const char *end, const char *text) {
  if (r->edit_count == r->edit_room) {
    const uint32_t room = r->edit_room ? 2 * r->edit_room : 16;
    rewrite_edit *more = tsx_arena_take(&r->out->arena, room * sizeof *more);
    if (!more) return tsx_out_of_memory(r->error);
    if (r->edit_count) memcpy(more, r->edits, r->edit_count * sizeof *more);
    r->edits = more;
    r->edit_room = room;
  }
  uint32_t at = r->edit_count++;
  for (; at > 0 && r->edits[at - 1].begin > begin; at--) r->edits[at] = r->edits[at - 1];
  r->edits[at] = (rewrite_edit){begin, end, text};
  return TSR_OK;
}

/* ---- One SELECT -------------------------------------------------------------------------------------------------- */

/* Returns true if the words outside of a SELECT could compare one of its columns so that affinities matter: there is
 * another source, or a CAST. A SELECT in an expression is compared itself. */
static bool rewrite_is_compared(const rewriter *r, uint32_t number) {
  const tsx_script *s = &r->out->script;
  const tsx_script_select *select = &s->selects[number];
  uint64_t sources = 0;
  if (select->place == TSX_PLACE_LIST || select->place == TSX_PLACE_SCALAR) return true;
  for (uint32_t i = 0; i < s->select_count; i++)
    if (i < number || i >= select->next) sources += s->selects[i].sources;
  for (uint32_t i = 0; i < s->token_count; i++)
    if ((i < select->first || i >= select->end) && tsx_token_is(&s->tokens[i].token, "CAST")) return true;
  return sources > 1;
}

/* Returns true if an item is an expression without affinity. */
static bool rewrite_is_expression(const tsx_query *query, const tsx_item *item) {
  const tsx_expr *tree = tsx_expr_meaning(item->tree);
  return !tsx_expr_is_column(tree) && tree->kind != TSX_EXPR_CAST;
}

static bool rewrite_has_text(const tsx_query *query) {
  for (uint32_t i = 0; i < query->select.item_count; i++)
    if (!strcmp(tsx_query_declared(query, query->select.items[i].tree), "TEXT")) return true;
  return false;
}

/* Moves to the name of the next column of a declaration, which is in double quotes. */
static bool declared_next(tsx_tokens *tokens) {
  int open = 0;
  for (bool first = tsx_token_is(&tokens->token, "("); tokens->token.kind != TSX_TOKEN_END; tsx_tokens_next(tokens)) {
    open += tsx_token_is(&tokens->token, "(") - tsx_token_is(&tokens->token, ")");
    if (first && tokens->token.kind == TSX_TOKEN_NAME) return true;
    if (open == 0 && tsx_token_is(&tokens->token, ",")) first = true;
  }
  return false;
}

/* Returns true if the names of the columns of SELECT `number` are those of the statement's. */
static bool rewrite_owns_names(const rewriter *r, uint32_t number, uint32_t items) {
  return r->out->script.selects[number].place == TSX_PLACE_STATEMENT && r->plain && !r->out->script.writes &&
         !sqlite3_stmt_isexplain(r->plain) && sqlite3_column_count(r->plain) == (int)items;
}

/* Makes the SELECT that takes the place of the SELECT `number`. */
static char *rewrite_replacement(rewriter *r, uint32_t number, const tsx_query *query, const char *declaration,
                                 const char *name) {
  const tsx_script_select *select = &r->out->script.selects[number];
  const bool own_names = rewrite_owns_names(r, number, query->select.item_count);
  const bool whole = select->place == TSX_PLACE_STATEMENT && !select->arm && !r->out->script.writes;
  const bool plus = !whole && (rewrite_is_compared(r, number) || rewrite_has_text(query));
  sqlite3_str *out = sqlite3_str_new(NULL);
  tsx_tokens tokens = tsx_tokens_of(declaration);
  while (tokens.token.kind != TSX_TOKEN_END && !tsx_token_is(&tokens.token, "(")) tsx_tokens_next(&tokens);
  for (uint32_t i = 0; i < query->select.item_count && declared_next(&tokens); i++, tsx_tokens_next(&tokens)) {
    const int size = (int)tokens.token.size;
    sqlite3_str_appendf(out, "%s%s%.*s AS ", i ? ", " : "SELECT ",
                        plus && rewrite_is_expression(query, &query->select.items[i]) ? "+" : "", size,
                        tokens.token.text);
    if (own_names) sqlite3_str_appendf(out, "\"%w\"", sqlite3_column_name(r->plain, (int)i));
    else sqlite3_str_append(out, tokens.token.text, size);
  }
  sqlite3_str_appendf(out, " FROM \"%w\"", name);
  return rewrite_keep(r, sqlite3_str_finish(out));
}

/* Gives the name of item `i` of a SELECT with windows: the statement's, its alias, the column's, or its words. */
static char *rewrite_windows_name(rewriter *r, uint32_t number, const tsx_windows *windows, uint32_t i,
                                  const tsx_token *declared) {
  const tsx_script *s = &r->out->script;
  const tsx_windows_column *item = &windows->items[i];
  if (rewrite_owns_names(r, number, windows->item_count))
    return rewrite_keep(r, sqlite3_mprintf("%s", sqlite3_column_name(r->plain, (int)i)));
  const tsx_token *token = item->end > item->stop ? &s->tokens[item->end - 1].token : item->windows ? NULL : declared;
  if (!token) {
    int size;
    const char *begin = tsx_script_words(s, item->first, item->stop, &size);
    return rewrite_keep(r, sqlite3_mprintf("%.*s", size, begin));
  }
  char *name = tsx_arena_take(&r->out->arena, token->size + 1);
  if (name) tsx_token_copy(token, name);
  else tsx_out_of_memory(r->error);
  return name;
}

/* Makes the SELECT with windows around the table `name`, which evaluates the grouped SELECT. */
static char *rewrite_around(rewriter *r, uint32_t number, const tsx_query *query, const tsx_windows *windows,
                            const char *declaration, const char *name) {
  char **columns = tsx_arena_take(&r->out->arena, 2 * (windows->column_count + UINT64_C(1)) * sizeof *columns);
  char **names = columns ? columns + windows->column_count : NULL;
  tsx_tokens tokens = tsx_tokens_of(declaration);
  if (!columns) {
    tsx_out_of_memory(r->error);
    return NULL;
  }
  while (tokens.token.kind != TSX_TOKEN_END && !tsx_token_is(&tokens.token, "(")) tsx_tokens_next(&tokens);
  for (uint32_t i = 0; i < windows->column_count && declared_next(&tokens); i++, tsx_tokens_next(&tokens)) {
    const bool plus = rewrite_is_expression(query, &query->select.items[i]);
    const int size = (int)tokens.token.size;
    columns[i] = rewrite_keep(r, sqlite3_mprintf(plus ? "(+%.*s)" : "%.*s", size, tokens.token.text));
    if (i < windows->item_count) names[i] = rewrite_windows_name(r, number, windows, i, &tokens.token);
    if (!columns[i] || (i < windows->item_count && !names[i])) return NULL;
  }
  return rewrite_keep(
      r, tsx_windows_around(&r->out->script, &r->out->script.selects[number], windows, columns, names, name));
}

/* Returns true if a table of FROM has the name of a CTE. */
static bool rewrite_is_with(const rewriter *r, const tsx_source *source) {
  if (!source->table || source->qualified) return false;
  return tsx_script_has_with(&r->out->script, source->path ? source->path : source->table);
}

/* Returns true if a table of the SELECT has the name of a CTE. */
static bool rewrite_reads_with(const rewriter *r, const tsx_query *query) {
  const tsx_select *s = &query->select;
  const uint32_t join_count = s->around ? s->around->join_count : s->join_count; /* a kernel is a table, too */
  if (rewrite_is_with(r, &s->source)) return true;
  for (uint32_t j = 0; j < join_count; j++)
    if (rewrite_is_with(r, &s->joins[j].source)) return true;
  return false;
}

/* Sets *why if the program has registered a function of its own in place of one that the query evaluates. */
static int rewrite_own(rewriter *r, const tsx_query *query, const char **why) {
  if (!tsx_front_calls_own(query, NULL)) return TSR_OK; /* most of the time of a small SELECT is that of the list */
  if (!r->own.listed) TSX_TRY(tsx_own_functions_list(r->connection, &r->out->arena, &r->own, r->error));
  const char *name = tsx_front_calls_own(query, &r->own);
  if (name) *why = rewrite_keep(r, sqlite3_mprintf("%s() is the program's own here, not SQLite's", name));
  return !name || *why ? TSR_OK : TSR_NOMEM;
}

/* Compiles the SELECT in `text`. Returns 1, or 0 with *why. */
static int rewrite_compile(rewriter *r, const char *text, tsx_script_place place, tsx_query *query, const char **why) {
  tsr_error error = {0};
  int code = tsx_query_compile(r->connection, "temp", text, query, &error);
  query->memory_bytes = r->options->memory_bytes;
  query->threads = r->options->threads;
  *why = NULL;
  if (code != TSR_NOMEM && code != TSR_INTERRUPT && rewrite_reads_with(r, query)) {
    *why = "a name in FROM is that of a CTE";
    return 0;
  }
  if (code >= 0) {
    *why = tsx_front_unsuited(query, place);
    if (!*why) TSX_TRY(rewrite_own(r, query, why));
    if (*why) return 0;
    code = tsx_run_check(query, &error);
  }
  if (code >= 0) return 1;
  if (code == TSR_NOMEM || code == TSR_INTERRUPT) {
    *r->error = error;
    return code;
  }
  *why = tsx_arena_copy(&r->out->arena, error.message, strlen(error.message));
  return *why ? 0 : tsx_out_of_memory(r->error);
}

/* Returns true if some name in the words of a SELECT, which has subqueries, is that of a CTE. */
static bool rewrite_names_with(const rewriter *r, const tsx_script_select *select) {
  const tsx_script *s = &r->out->script;
  for (uint32_t w = 0; w < s->with_count; w++) {
    const tsx_token *token = &s->tokens[s->with[w]].token;
    char *name = sqlite3_malloc64(token->size + 1);
    bool found = !name;
    if (name) tsx_token_copy(token, name);
    for (uint32_t i = select->first; i < select->end && !found; i++) found = tsx_script_names(s, i, name);
    sqlite3_free(name);
    if (found) return true;
  }
  return false;
}

/* Compiles one subquery. *why stays NULL if its values are surely SQLite's. */
static int rewrite_subquery(rewriter *r, tsx_front_part *part, const char **why) {
  tsx_query query = {0};
  const char *text = tsx_arena_copy(&r->out->arena, part->begin, (uint64_t)(part->end - part->begin));
  if (!text) return tsx_out_of_memory(r->error);
  int code = tsx_query_compile(r->connection, "temp", text, &query, r->error);
  if (code >= 0) {
    *why = tsx_front_inexact(&query);
    if (!*why) code = rewrite_own(r, &query, why);
    if (code >= 0 && !(part->detail = rewrite_keep(r, tsx_query_explain(&query)))) code = TSR_NOMEM;
  }
  tsx_query_release(&query);
  return code;
}

/* Looks into the subqueries of a SELECT that compiles: their values must be SQLite's, too. Returns 1, or 0 with
 * *why. */
static int rewrite_inside(rewriter *r, uint32_t number, const char **why) {
  const tsx_script_select *selects = r->out->script.selects;
  if (selects[number].next > number + 1 && rewrite_names_with(r, &selects[number]))
    *why = "a subquery beside a CTE of its name";
  for (uint32_t i = number + 1; i < selects[number].next && !*why; i++)
    TSX_TRY(rewrite_subquery(r, &r->out->parts[i], why));
  return !*why;
}

/* Returns the reason why a SELECT is not taken with the characters counted in the whole text: compiles it behind as
 * many blanks as there are characters before it. */
static int rewrite_reason(rewriter *r, const tsx_front_part *part, tsx_script_place place, const char **why) {
  const uint64_t before = tsx_characters(r->out->text, part->begin);
  char *text = sqlite3_mprintf("%*s%.*s", (int)before, "", (int)(part->end - part->begin), part->begin);
  tsx_query query = {0};
  int code = text ? rewrite_compile(r, text, place, &query, why) : tsx_out_of_memory(r->error);
  tsx_query_release(&query);
  sqlite3_free(text);
  return code < 0 ? code : TSR_OK;
}

/* Returns true if a source of the SELECT is the path of an array. */
static bool reads_path(const tsx_select *select) {
  if (select->source.path) return true;
  for (uint32_t j = 0; j < select->join_count; j++)
    if (select->joins[j].source.path) return true;
  return false;
}

/* Registers the query as a table. Returns the SELECT from it, or NULL with r->error. */
static const char *rewrite_registered(rewriter *r, uint32_t number, const tsx_query *query,
                                      const tsx_windows *windows) {
  char *declaration;
  const char *name, *replacement = NULL;
  if (tsx_query_declare(query, &declaration, r->error) < 0) return NULL;
  if (tsx_query_part(query, declaration, &name, r->error) >= 0)
    replacement = windows->head ? rewrite_around(r, number, query, windows, declaration, name)
                                : rewrite_replacement(r, number, query, declaration, name);
  sqlite3_free(declaration);
  return replacement;
}

/* Replaces a compiled SELECT, the grouped one if there are windows. Returns 1. */
static int rewrite_replace(rewriter *r, uint32_t number, const tsx_query *query, const tsx_windows *windows) {
  tsx_front_part *part = &r->out->parts[number];
  const char *replacement = rewrite_registered(r, number, query, windows);
  if (!replacement) return r->error->code;
  if (!(part->detail = rewrite_keep(r, tsx_query_explain(query)))) return TSR_NOMEM;
  if (windows->head && !(part->detail = rewrite_keep(r, sqlite3_mprintf("%s; then SQLite's windows", part->detail))))
    return TSR_NOMEM;
  TSX_TRY(rewrite_edit_add(r, part->begin, part->end, replacement));
  if (reads_path(&query->select)) r->paths = r->beyond = true;
  if (!r->plain && !r->beyond) {
    sqlite3_stmt *alone = NULL;
    r->beyond = sqlite3_prepare_v2(r->connection->db, query->select.text, -1, &alone, NULL) != SQLITE_OK;
    sqlite3_finalize(alone);
  }
  part->how = TSX_HOW_COLUMNS;
  return 1;
}

#define WITH_DEPTH 8u /* CTEs of CTEs */

static char *rewrite_source(rewriter *r, uint32_t at, uint32_t depth, const char **behind);

/* Appends the items of a CTE's SELECT with the names in the list of columns that begins at the token `list`. Returns
 * false if they cannot be renamed one by one. */
static bool rewrite_rename(const rewriter *r, const tsx_script_select *select, uint32_t list, sqlite3_str *out) {
  const tsx_script *s = &r->out->script;
  uint32_t name = list + 1, first = select->first + 1;
  if (tsx_token_is(&s->tokens[first].token, "DISTINCT")) return false;
  for (uint32_t i = first; i <= select->from; i++) {
    const bool last = i == select->from;
    if (s->tokens[i].match != TSX_SCRIPT_NONE && s->tokens[i].match > i && !last) i = s->tokens[i].match;
    if (!last && !tsx_token_is(&s->tokens[i].token, ",")) continue;
    uint32_t stop = i;
    if (i == first || name >= s->tokens[list].match || tsx_token_is(&s->tokens[i - 1].token, "*")) return false;
    if (tsx_script_has_alias(s, first, i)) stop = tsx_token_is(&s->tokens[i - 2].token, "AS") ? i - 2 : i - 1;
    const char *begin = tsx_script_begin(s, first), *end = tsx_script_end(s, stop);
    sqlite3_str_appendf(out, "%s%.*s AS %.*s", first == select->first + 1 ? "" : ", ", (int)(end - begin), begin,
                        (int)s->tokens[name].token.size, s->tokens[name].token.text);
    if (!last && !tsx_token_is(&s->tokens[name + 1].token, ",")) return false;
    name += 2;
    first = i + 1;
  }
  return name == s->tokens[list].match + 1;
}

/* Appends the SELECT of a CTE, with CTEs that it reads in place, and with the names of its list of columns. Returns
 * false if it has a list, and no items that can be renamed. */
static bool rewrite_body(rewriter *r, uint32_t body, uint32_t list, uint32_t depth, sqlite3_str *out) {
  const tsx_script *s = &r->out->script;
  const char *begin = tsx_script_begin(s, body + 1), *end = tsx_script_end(s, s->tokens[body].match);
  const tsx_script_select *select = NULL;
  for (uint32_t i = 0; i < s->select_count && !select; i++)
    if (s->selects[i].first == body + 1 && s->selects[i].end == s->tokens[body].match) select = &s->selects[i];
  if (!select || select->from + 1 >= select->end) {
    sqlite3_str_append(out, begin, (int)(end - begin));
    return list == TSX_SCRIPT_NONE;
  }
  const char *at = tsx_script_begin(s, select->from + 1), *behind = at, *from = tsx_script_begin(s, select->from);
  const char *source = rewrite_source(r, select->from + 1, depth + 1, &behind);
  if (list == TSX_SCRIPT_NONE) {
    sqlite3_str_append(out, begin, (int)(at - begin));
  } else {
    sqlite3_str_appendall(out, "SELECT ");
    if (!rewrite_rename(r, select, list, out)) return false;
    sqlite3_str_appendchar(out, 1, ' ');
    sqlite3_str_append(out, from, (int)(at - from));
  }
  if (source) sqlite3_str_appendall(out, source);
  sqlite3_str_append(out, behind, (int)(end - behind));
  return true;
}

/* Returns the SELECT of the CTE that token `at` of FROM names, with parentheses and a name behind them; NULL if it
 * names something else, or if memory is exhausted. *behind: what follows the name. */
static char *rewrite_source(rewriter *r, uint32_t at, uint32_t depth, const char **behind) {
  const tsx_script *s = &r->out->script;
  uint32_t with = TSX_SCRIPT_NONE, count = 0;
  const tsx_token *token = &s->tokens[at].token, *next = &s->tokens[at + 1].token;
  char *name = tsx_arena_take(&r->out->arena, token->size + 1);
  if (!name) tsx_out_of_memory(r->error);
  if (!name || token->kind == TSX_TOKEN_MARK || depth == WITH_DEPTH) return NULL;
  tsx_token_copy(token, name);
  for (uint32_t i = 0; i < s->with_count; i++)
    if (tsx_script_names(s, s->with[i], name) && count++ == 0) with = i;
  const uint32_t body = count == 1 ? s->bodies[with] : TSX_SCRIPT_NONE;
  if (body == TSX_SCRIPT_NONE || s->tokens[body].match > at) return NULL;
  if (tsx_token_is(next, ".") || tsx_token_is(next, "(")) return NULL;
  const bool alias = tsx_token_is(next, "AS") || next->kind == TSX_TOKEN_NAME || next->kind == TSX_TOKEN_STRING ||
                     (next->kind == TSX_TOKEN_WORD && !tsx_token_reserved(next));
  sqlite3_str *out = sqlite3_str_new(NULL);
  *behind = token->text + token->size;
  sqlite3_str_appendchar(out, 1, '(');
  if (!rewrite_body(r, body, s->lists[with], depth, out)) {
    sqlite3_free(sqlite3_str_finish(out));
    *behind = token->text;
    return NULL;
  }
  sqlite3_str_appendchar(out, 1, ')');
  if (!alias) sqlite3_str_appendf(out, " AS \"%w\"", name);
  return rewrite_keep(r, sqlite3_str_finish(out));
}

/* Spells a SELECT for tessera_query: the grouped one, if it has windows; `in_place`: if its FROM is a CTE, with the
 * CTE's SELECT in its place, which tessera_query takes if it only renames, computes or filters. Returns NULL if its
 * FROM is something else, or if memory is exhausted. */
static char *rewrite_spell(rewriter *r, const tsx_script_select *select, const tsx_windows *windows, bool in_place) {
  const tsx_script *s = &r->out->script;
  const char *begin = tsx_script_begin(s, select->first), *end = tsx_script_end(s, select->end), *source = "";
  const bool from = select->from + 1 < select->end;
  if (!from && in_place) return NULL;
  const char *at = from ? tsx_script_begin(s, select->from + 1) : end, *behind = at;
  if (in_place && !(source = rewrite_source(r, select->from + 1, 0, &behind))) return NULL;
  sqlite3_str *out = sqlite3_str_new(NULL);
  if (windows->head) {
    sqlite3_str_appendf(out, "%s ", windows->head);
    begin = tsx_script_begin(s, select->from);
    end = tsx_script_end(s, windows->behind);
  }
  sqlite3_str_append(out, begin, (int)(at - begin));
  sqlite3_str_appendall(out, source);
  sqlite3_str_append(out, behind, (int)(end - behind));
  if (windows->head) sqlite3_str_appendall(out, windows->order);
  return rewrite_keep(r, sqlite3_str_finish(out));
}

/* Compiles a SELECT, or what stands for it. Returns 1, or 0 with *why: the reason of the first spelling; or, if the
 * SELECT has windows, that of the grouped one, unless it counts the characters of that text. */
static int rewrite_spellings(rewriter *r, uint32_t number, tsx_query *query, tsx_windows *windows, const char **why) {
  const tsx_script_select *select = &r->out->script.selects[number];
  const tsx_windows none = {0};
  const char *ignored = NULL, *text = rewrite_spell(r, select, &none, false);
  if (!text) return TSR_NOMEM;
  int code = rewrite_compile(r, text, select->place, query, why);
  if (code) return code;
  const int split = select->place == TSX_PLACE_SCALAR
                        ? 0
                        : tsx_windows_split(&r->out->script, select, &r->out->arena, windows, r->error);
  if (split < 0) return split;
  if (split == 0) *windows = none;
  for (int in_place = split ? 0 : 1; in_place < 2 && code == 0; in_place++) {
    if (!(text = rewrite_spell(r, select, windows, in_place)) && r->error->code) return r->error->code;
    if (!text) continue;
    tsx_query_release(query);
    code = rewrite_compile(r, text, select->place, query, &ignored);
    if (code > 0 && split && !query->over_groups) {
      *why = "window functions without groups";
      return 0;
    }
  }
  if (code > 0) *why = NULL;
  else if (split && ignored && !strstr(ignored, "(character ")) *why = ignored;
  return code;
}

/* Tries to take a SELECT. Returns 1 if it is taken, else 0. */
static int rewrite_try(rewriter *r, uint32_t number) {
  const tsx_script_select *select = &r->out->script.selects[number];
  tsx_front_part *part = &r->out->parts[number];
  if (r->only_paths) {
    part->detail = "the statement around it names its words";
    return 0;
  }
  if (tsx_script_has_parameters(&r->out->script, select->first, select->end)) {
    part->detail = "has parameters, and no values were given";
    return 0;
  }
  tsx_query query = {0};
  tsx_windows windows = {0};
  int code = rewrite_spellings(r, number, &query, &windows, &part->detail);
  const bool compiled = code > 0;
  if (compiled) code = rewrite_inside(r, number, &part->detail);
  if (code > 0) code = rewrite_replace(r, number, &query, &windows);
  tsx_query_release(&query);
  const bool counts = part->detail && strstr(part->detail, "(character ");
  if (code == 0 && r->options->explains && !compiled && counts)
    code = rewrite_reason(r, part, select->place, &part->detail);
  return code;
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

/* Returns true if a source that ends before this token has an alias. */
static bool rewrite_alias_follows(const tsx_token *next) {
  return tsx_token_is(next, "AS") || next->kind == TSX_TOKEN_NAME || next->kind == TSX_TOKEN_STRING ||
         (next->kind == TSX_TOKEN_WORD && !tsx_token_reserved(next));
}

/* Replaces the name at token i, which stands as a source in FROM, if it is a path. */
static int rewrite_path(rewriter *r, uint32_t i) {
  const tsx_script *s = &r->out->script;
  const tsx_token *token = &s->tokens[i].token;
  const bool arguments = tsx_token_is(&s->tokens[i + 1].token, "(") && s->tokens[i + 1].match != TSX_SCRIPT_NONE;
  const uint32_t next = arguments ? s->tokens[i + 1].match + 1 : i + 1;
  const char *name;
  char *path = tsx_arena_take(&r->out->arena, token->size + 1);
  if (!path) return tsx_out_of_memory(r->error);
  tsx_token_copy(token, path);
  if (tsx_token_is(&s->tokens[i + 1].token, ".") || tsx_script_has_with(s, path)) return TSR_OK;
  const tsx_option_limits limits = {.memory_bytes = r->options->memory_bytes, .threads = r->options->threads};
  const int code = tsx_query_path(r->connection, "temp", path, &limits, &name, r->error);
  if (code <= 0) return code;
  const char *table = rewrite_keep(r, sqlite3_mprintf("\"%w\"", name));
  if (!table) return TSR_NOMEM;
  TSX_TRY(rewrite_edit_add(r, token->text, token->text + token->size, table));
  if (!rewrite_alias_follows(&s->tokens[next].token)) {
    const char *as = rewrite_keep(r, sqlite3_mprintf(" AS \"%w\"", path)), *at = tsx_script_end(s, next);
    if (!as) return TSR_NOMEM;
    TSX_TRY(rewrite_edit_add(r, at, at, as));
  }
  r->beyond = r->paths = true;
  return TSR_OK;
}

/* Replaces the paths among the sources of a SELECT that is evaluated by rows. */
static int rewrite_paths(rewriter *r, const tsx_script_select *select) {
  static const char *const before[] = {"FROM", ",", "JOIN", "("};
  const tsx_script *s = &r->out->script;
  for (uint32_t i = select->from + 1; i < select->behind; i++) {
    const tsx_script_token *token = &s->tokens[i];
    bool source = false;
    for (int b = 0; b < 4; b++) source |= tsx_token_is(&s->tokens[i - 1].token, before[b]);
    if (token->match != TSX_SCRIPT_NONE && token->match > i && (!source || tsx_script_begins(s, i + 1))) {
      i = token->match; /* arguments, an expression, or a SELECT, which has sources of its own */
      continue;
    }
    if (!source || (token->token.kind != TSX_TOKEN_NAME && token->token.kind != TSX_TOKEN_STRING)) continue;
    const int code = rewrite_path(r, i);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* ---- Names of columns -------------------------------------------------------------------------------------------- */

/* Gives the item of `select` that has the token `inside` its words as an alias, unless it has an alias. */
static int rewrite_name_item(rewriter *r, const tsx_script_select *select, uint32_t inside) {
  const tsx_script *s = &r->out->script;
  tsx_script_item item = {0};
  bool found = false;
  while (!found && tsx_script_item_next(s, select, &item)) found = inside >= item.first && inside < item.end;
  if (!found || tsx_script_has_alias(s, item.first, item.end)) return TSR_OK;
  const char *stop = tsx_script_end(s, item.end);
  for (uint32_t i = 0; i < r->edit_count; i++)
    if (r->edits[i].begin == stop && r->edits[i].end == stop) return TSR_OK; /* it was named before */
  int size;
  const char *begin = tsx_script_words(s, item.first, item.end, &size);
  char *words = sqlite3_mprintf("%.*s", size, begin);
  const char *alias = words ? rewrite_keep(r, sqlite3_mprintf(" AS \"%w\"", words)) : NULL;
  sqlite3_free(words);
  return alias ? rewrite_edit_add(r, stop, stop, alias) : tsx_out_of_memory(r->error);
}

/* Keeps the names of the columns around a SELECT that was replaced. */
static int rewrite_name_around(rewriter *r, uint32_t number) {
  const tsx_script *s = &r->out->script;
  for (uint32_t at = s->selects[number].parent; at != TSX_SCRIPT_NONE; at = s->selects[at].parent)
    TSX_TRY(rewrite_name_item(r, &s->selects[at], s->selects[number].first));
  return TSR_OK;
}

/* ---- Putting together -------------------------------------------------------------------------------------------- */

static int rewrite_prepare(const rewriter *r, const char *text, sqlite3_stmt **statement, tsr_error *error) {
  const int code = sqlite3_prepare_v2(r->connection->db, text, -1, statement, NULL);
  return code == SQLITE_OK ? TSR_OK : tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(r->connection->db));
}

static bool same_columns(sqlite3_stmt *a, sqlite3_stmt *b) {
  if (sqlite3_column_count(a) != sqlite3_column_count(b) || sqlite3_stmt_readonly(a) != sqlite3_stmt_readonly(b) ||
      sqlite3_stmt_isexplain(a) != sqlite3_stmt_isexplain(b))
    return false;
  for (int i = 0; i < sqlite3_column_count(a); i++) {
    const char *x = sqlite3_column_name(a, i), *y = sqlite3_column_name(b, i);
    if (!x || !y || strcmp(x, y) != 0) return false;
  }
  return true;
}

/* Leaves the statement as it was given. */
static void rewrite_undo(rewriter *r, const char *why) {
  for (uint32_t i = 0; i < r->out->script.select_count; i++) {
    if (r->out->parts[i].how != TSX_HOW_ROWS) r->out->parts[i].detail = why;
    r->out->parts[i].how = TSX_HOW_ROWS;
  }
  r->out->sql = r->out->text;
}

static int rewrite_join(rewriter *r) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  const char *from = r->out->text;
  for (uint32_t i = 0; i < r->edit_count; i++) {
    sqlite3_str_append(out, from, (int)(r->edits[i].begin - from));
    sqlite3_str_appendall(out, r->edits[i].text);
    from = r->edits[i].end;
  }
  sqlite3_str_appendall(out, from);
  return (r->out->sql = rewrite_keep(r, sqlite3_str_finish(out))) ? TSR_OK : TSR_NOMEM;
}

/* Joins the edits, and checks that SQLite sees a statement with the same columns. `plain`: what it says of the text. */
static int rewrite_finish(rewriter *r, const tsr_error *plain) {
  sqlite3_stmt *statement = NULL;
  tsr_error own = {0};
  int code = rewrite_join(r);
  if (code < 0) return code;
  if (r->edit_count == 0 || (!r->plain && !r->beyond)) {
    rewrite_undo(r, "SQLite cannot prepare the statement");
    if (r->plain) return TSR_OK;
    *r->error = *plain;
    return plain->code;
  }
  code = rewrite_prepare(r, r->out->sql, &statement, &own);
  const bool same = code == TSR_OK && (!r->plain || same_columns(r->plain, statement));
  sqlite3_finalize(statement);
  if (same) return TSR_OK;
  rewrite_undo(r, "the statement around it names its words");
  if (r->plain && code != TSR_NOMEM && code != TSR_INTERRUPT) return TSR_OK;
  *r->error = r->beyond ? own : *plain;
  return r->error->code;
}

/* Returns 1 if the connection has an array's table of that name, 0 if not, or an error. */
static int is_array_table(tsx_connection *connection, const char *name, tsr_error *error) {
  for (const tsx_table *t = connection->tables.arrays; t; t = t->next) {
    tsx_table_kind kind;
    if (sqlite3_stricmp(t->name, name) != 0) continue;
    TSX_TRY(tsx_table_kind_find(connection, t->schema_name, name, &kind, error));
    if (kind == TSX_TABLE_ARRAY) return 1;
  }
  return 0;
}

/* Returns true if the connection has a table of an array whose name is this token's. */
static bool rewrite_is_array(const rewriter *r, const tsx_token *token) {
  char *name = sqlite3_malloc64(token->size + 1);
  const tsx_table *t = r->connection->tables.arrays;
  if (!name) return true; /* the next allocation reports it */
  tsx_token_copy(token, name);
  while (t && sqlite3_stricmp(t->name, name) != 0) t = t->next;
  sqlite3_free(name);
  return t != NULL;
}

/* Returns true if the statement may read an array. SQLite has prepared it, so all its arrays are connected, and none is
 * named by a path. */
static bool rewrite_reads_array(const rewriter *r) {
  static const char *const before[] = {"FROM", ",", "JOIN", "(", "."};
  const tsx_script *s = &r->out->script;
  for (uint32_t i = 1; i < s->token_count; i++) {
    const tsx_token *token = &s->tokens[i].token;
    bool source = false;
    for (int b = 0; b < 5; b++) source |= tsx_token_is(&s->tokens[i - 1].token, before[b]);
    if (source && token->kind != TSX_TOKEN_MARK && rewrite_is_array(r, token)) return true;
  }
  return false;
}

/* Refuses INSERT into an array: it would read what it writes. */
static int rewrite_target(const rewriter *r) {
  const tsx_script *s = &r->out->script;
  if (s->target == TSX_SCRIPT_NONE || s->target >= s->token_count) return TSR_OK;
  const tsx_token *token = &s->tokens[s->target].token;
  char *name = sqlite3_malloc64(token->size + 1);
  if (!name) return tsx_out_of_memory(r->error);
  tsx_token_copy(token, name);
  int code = is_array_table(r->connection, name, r->error);
  if (code > 0) code = tsx_fail(r->error, TSR_ERROR, "expected a SELECT, not 'INSERT' into the array %s", name);
  sqlite3_free(name);
  return code;
}

/* Tries all SELECTs. */
static int rewrite_all(rewriter *r) {
  const tsx_script *s = &r->out->script;
  r->out->parts = tsx_arena_take(&r->out->arena, (s->select_count + 1) * sizeof *r->out->parts);
  if (!r->out->parts) return tsx_out_of_memory(r->error);
  for (uint32_t i = 0; i < s->select_count; i++) {
    r->out->parts[i].begin = tsx_script_begin(s, s->selects[i].first);
    r->out->parts[i].end = tsx_script_end(s, s->selects[i].end);
    r->out->parts[i].detail = "";
  }
  for (uint32_t i = 0; i < s->select_count;) {
    int code = rewrite_try(r, i);
    if (code > 0) code = rewrite_name_around(r, i) < 0 ? r->error->code : 1;
    else if (code == 0) code = rewrite_paths(r, &s->selects[i]);
    if (code < 0) return code;
    for (uint32_t inside = i + 1; code > 0 && inside < s->selects[i].next; inside++) {
      r->out->parts[inside].how = s->selects[inside].place == TSX_PLACE_FROM ? TSX_HOW_COLUMNS : TSX_HOW_ONCE;
    }
    i = code > 0 ? s->selects[i].next : i + 1;
  }
  return TSR_OK;
}

/* Rewrites the text that was read. `plain`: what SQLite says of it as it is. */
static int rewrite_text(rewriter *r, const tsr_error *plain) {
  TSX_TRY(rewrite_all(r));
  return rewrite_finish(r, plain);
}

int tsx_rewrite(tsx_connection *connection, const tsx_front_options *options, sqlite3_value *text, int count,
                sqlite3_value *const *values, tsx_rewritten *out, tsr_error *error) {
  rewriter r = {.connection = connection, .options = options, .out = out, .error = error};
  tsr_error plain = {0};
  TSX_TRY(tsx_front_bind(text, count, values, &out->arena, &out->text, error));
  if (tsx_script_read(out->text, &out->arena, &out->script, error) < 0) return tsx_dialect_explain(out->text, error);
  const int prepared = rewrite_prepare(&r, out->text, &r.plain, &plain);
  if (prepared == TSR_NOMEM || prepared == TSR_INTERRUPT) {
    *error = plain;
    return prepared;
  }
  int code = rewrite_target(&r);
  out->sql = out->text;
  const bool any = !r.plain || options->explains || rewrite_reads_array(&r);
  if (code >= 0 && any) code = rewrite_text(&r, &plain);
  if (code == TSR_ERROR && r.paths) { /* SQLite cannot prepare the text that was given */
    const tsr_error taken = *error;
    r.only_paths = true;
    r.edit_count = 0;
    *error = (tsr_error){0};
    code = rewrite_text(&r, &taken);
  }
  sqlite3_finalize(r.plain);
  if (code == TSR_ERROR) tsx_front_hint(connection, out->text, error);
  return code;
}

void tsx_rewritten_release(tsx_rewritten *rewritten) {
  tsx_arena_free(&rewritten->arena);
  *rewritten = (tsx_rewritten){0};
}
