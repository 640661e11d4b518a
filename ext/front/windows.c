/* windows.c: takes the window functions off a grouped SELECT.
 *
 *   SELECT n / 2, count(*) AS k, rank() OVER (ORDER BY count(*)) FROM t GROUP BY n / 2 ORDER BY k LIMIT 3
 *
 * is the grouped SELECT, whose columns are the items without windows and what the windows read,
 *
 *   SELECT n / 2, count(*) AS k, count(*) AS "tessera 2" FROM t GROUP BY n / 2 ORDER BY n / 2
 *
 * and around it the words of the SELECT, in which those columns stand for their words, without FROM to HAVING. SQLite
 * evaluates windows over the groups in the order of their keys, so the grouped SELECT has that order, too: it decides
 * where a window has ties.
 *
 * This works on tokens. Each word of a window, or of ORDER BY, must be understood: an aggregate, a key, a name, a
 * scalar function of tessera_query, or a word of the grammar. Else the SELECT is left as it is. A column that is no key
 * is a column of the grouped SELECT beside its aggregates, which suit.c refuses. */
#include "front/front.h"

#include <string.h>

#include "connection/errors.h"

#define WINDOWS_COLUMNS 256 /* of the grouped SELECT, and items; more is evaluated by rows */

typedef struct windows_reader {
  const tsx_script *script;
  const tsx_script_select *select;
  tsx_arena *arena;
  tsx_windows *out;
  uint32_t group, group_end; /* the terms of GROUP BY */
  bool failed; /* some word is not understood */
  bool lacks_memory;
} windows_reader;

/* Words of expressions and windows that may be names elsewhere. */
static const char *const grammar[] = {"CASE",    "CAST",   "NULL",   "NULLS",     "FIRST",     "LAST",    "ROWS",
                                      "RANGE",   "GROUPS", "ROW",    "UNBOUNDED", "PRECEDING", "CURRENT", "FOLLOWING",
                                      "EXCLUDE", "NO",     "OTHERS", "TIES",      "PARTITION", "FILTER",  "TRUE",
                                      "FALSE",   "OVER",   "WINDOW", NULL};

static bool windows_is(const windows_reader *r, uint32_t i, const char *word) {
  return i < r->select->end && tsx_token_is(&r->script->tokens[i].token, word);
}

static bool windows_is_any(const windows_reader *r, uint32_t i, const char *const *words) {
  for (; *words; words++)
    if (windows_is(r, i, *words)) return true;
  return false;
}

static bool windows_opens(const windows_reader *r, uint32_t i) {
  return windows_is(r, i, "(") && r->script->tokens[i].match != TSX_SCRIPT_NONE;
}

static bool windows_is_name(const windows_reader *r, uint32_t i) {
  if (i >= r->select->end) return false;
  const tsx_token *token = &r->script->tokens[i].token;
  return token->kind == TSX_TOKEN_NAME ||
         (token->kind == TSX_TOKEN_WORD && !tsx_token_reserved(token) && !windows_is_any(r, i, grammar));
}

/* Returns the token behind what begins at i: behind the other parenthesis, or the next one. */
static uint32_t windows_step(const windows_reader *r, uint32_t i) {
  return windows_opens(r, i) ? r->script->tokens[i].match + 1 : i + 1;
}

/* Returns the first of the words outside of parentheses, or `end`. */
static uint32_t windows_find(const windows_reader *r, uint32_t i, uint32_t end, const char *const *words) {
  while (i < end && !windows_is_any(r, i, words)) i = windows_step(r, i);
  return i < end ? i : end;
}

static bool windows_same(const windows_reader *r, uint32_t a, uint32_t a_end, uint32_t b, uint32_t b_end) {
  if (a_end - a != b_end - b) return false;
  for (; a < a_end; a++, b++) {
    const tsx_token *x = &r->script->tokens[a].token, *y = &r->script->tokens[b].token;
    if (x->size != y->size || memcmp(x->text, y->text, x->size) != 0) return false;
  }
  return true;
}

static bool windows_grow(windows_reader *r, void **list, uint32_t count, uint64_t size) {
  if (count & (count - 1)) return true; /* there is room up to the next power of two */
  void *more = tsx_arena_take(r->arena, (count ? UINT64_C(2) * count : 1) * size);
  r->lacks_memory |= !more;
  if (!more) return false;
  if (count) memcpy(more, *list, count * size);
  *list = more;
  return true;
}

/* ---- Columns of the grouped SELECT ------------------------------------------------------------------------------- */

/* Returns the column of the grouped SELECT with the words of the tokens [first, end), or adds it. */
static uint32_t windows_column(windows_reader *r, uint32_t first, uint32_t end) {
  tsx_windows *out = r->out;
  uint32_t free_place = TSX_SCRIPT_NONE;
  for (uint32_t c = 0; c < out->column_count; c++) {
    if (windows_same(r, out->columns[c].first, out->columns[c].stop, first, end)) return c;
    if (out->columns[c].stop == 0 && free_place == TSX_SCRIPT_NONE) free_place = c;
  }
  if (free_place == TSX_SCRIPT_NONE) {
    r->failed |= out->column_count == WINDOWS_COLUMNS;
    if (r->failed || !windows_grow(r, (void **)&out->columns, out->column_count, sizeof *out->columns)) return 0;
    free_place = out->column_count++;
  }
  out->columns[free_place] = (tsx_windows_column){.first = first, .stop = end, .end = end, .own = true};
  return free_place;
}

/* Lets a column of the grouped SELECT stand for the tokens [first, end). */
static void windows_piece(windows_reader *r, uint32_t first, uint32_t end, uint32_t column) {
  tsx_windows *out = r->out;
  if (!windows_grow(r, (void **)&out->pieces, out->piece_count, sizeof *out->pieces)) return;
  out->pieces[out->piece_count++] =
      (tsx_windows_piece){tsx_script_begin(r->script, first), tsx_script_end(r->script, end), column};
}

/* ---- Expressions ------------------------------------------------------------------------------------------------- */

/* Returns true if the word is an alias of some item; its words, if they are a column, are another name. */
static bool windows_is_alias(const windows_reader *r, uint32_t i) {
  const tsx_windows *out = r->out;
  for (uint32_t c = 0; c < out->item_count; c++) {
    if (out->items[c].end == out->items[c].stop) continue;
    const tsx_token *token = &r->script->tokens[out->items[c].end - 1].token;
    char *name = tsx_arena_take(r->arena, token->size + 1);
    if (!name) return true;
    tsx_token_copy(token, name);
    if (tsx_script_names(r->script, i, name)) return true;
  }
  return false;
}

/* Counts the arguments between the parentheses of a call. */
static uint32_t windows_arguments(const windows_reader *r, uint32_t open) {
  const uint32_t close = r->script->tokens[open].match;
  uint32_t count = close > open + 1;
  for (uint32_t i = open + 1; i < close; i = windows_step(r, i)) count += windows_is(r, i, ",");
  return count;
}

/* Reads a call at token i. Returns the token from which to go on: behind an aggregate, else at the parenthesis. */
static uint32_t windows_call(windows_reader *r, uint32_t i) {
  const uint32_t close = r->script->tokens[i + 1].match;
  const bool filter = windows_is(r, close + 1, "FILTER") && windows_opens(r, close + 2);
  const uint32_t behind = filter ? r->script->tokens[close + 2].match + 1 : close + 1;
  const tsx_token *token = &r->script->tokens[i].token;
  char *name = tsx_arena_take(r->arena, token->size + 1);
  if (!name) {
    r->lacks_memory = true;
    return behind;
  }
  if (windows_is(r, behind, "OVER")) return i + 1;
  tsx_token_copy(token, name);
  const bool star = windows_is(r, i + 2, "*");
  const tsx_function *function = tsx_function_find(name, star ? 0 : windows_arguments(r, i + 1));
  r->failed |= !function || token->kind != TSX_TOKEN_WORD || (filter && !function->aggregate);
  if (r->failed || !function->aggregate) return i + 1;
  windows_piece(r, i, behind, windows_column(r, i, behind));
  return behind;
}

/* Returns the end of the words at token i that equal [first, stop), if they stand alone; else i. */
static uint32_t windows_alone(const windows_reader *r, uint32_t i, uint32_t end, uint32_t first, uint32_t stop) {
  static const char *const before[] = {"SELECT", "DISTINCT", "ALL", ",", "(", "BY", NULL};
  static const char *const behind[] = {",", ")", "ASC", "DESC", "NULLS", "ORDER", "ROWS", "RANGE", "GROUPS", NULL};
  const uint32_t last = i + (stop - first);
  if (stop <= first || last > end || !windows_is_any(r, i - 1, before)) return i;
  if (last < end && !windows_is_any(r, last, behind)) return i;
  return windows_same(r, i, last, first, stop) ? last : i;
}

/* Lets a column stand for the words at token i, if they are those of an item or of a term of GROUP BY. Returns the
 * token behind them, or i. */
static uint32_t windows_known(windows_reader *r, uint32_t i, uint32_t end) {
  static const char *const comma[] = {",", NULL};
  for (uint32_t n = 0; n < r->out->item_count; n++) {
    const tsx_windows_column *item = &r->out->items[n];
    const uint32_t last = item->windows ? i : windows_alone(r, i, end, item->first, item->stop);
    if (last > i) {
      windows_piece(r, i, last, windows_column(r, item->first, item->stop));
      return last;
    }
  }
  for (uint32_t first = r->group; first < r->group_end;) {
    const uint32_t stop = windows_find(r, first, r->group_end, comma), last = windows_alone(r, i, end, first, stop);
    if (last > i && (stop > first + 1 || windows_is_name(r, first))) {
      windows_piece(r, i, last, windows_column(r, first, stop));
      return last;
    }
    first = stop + 1;
  }
  return i;
}

/* Returns true if token i names a window: behind OVER, before AS ( in WINDOW, or first in the parentheses of one. */
static bool windows_is_window(const windows_reader *r, uint32_t i) {
  if (windows_is(r, i - 1, "OVER")) return true;
  if (windows_is(r, i + 1, "AS") && windows_opens(r, i + 2)) return true;
  return windows_is(r, i - 1, "(") && (windows_is(r, i - 2, "OVER") || windows_is(r, i - 2, "AS"));
}

/* Reads a name at token i, [table.]name. Returns the token behind it. */
static uint32_t windows_name(windows_reader *r, uint32_t i) {
  const bool qualified = windows_is(r, i + 1, ".");
  const uint32_t end = qualified ? i + 3 : i + 1;
  r->failed |= qualified && (!windows_is_name(r, i + 2) || windows_is(r, end, "."));
  r->failed |= !qualified && windows_is_alias(r, i);
  if (!r->failed) windows_piece(r, i, end, windows_column(r, i, end));
  return end;
}

/* Reads the tokens [i, end) of a window function, of WINDOW or of ORDER BY. */
static void windows_expression(windows_reader *r, uint32_t i, uint32_t end) {
  static const char *const refused[] = {"SELECT", "EXISTS", "VALUES", "WITH", "RAISE", "MATCH", "REGEXP", NULL};
  while (i < end && !r->failed && !r->lacks_memory) {
    const uint32_t known = windows_known(r, i, end);
    if (known > i) i = known;
    else if (windows_is(r, i, "CAST") && windows_opens(r, i + 1)) {
      static const char *const as[] = {"AS", NULL};
      const uint32_t close = r->script->tokens[i + 1].match;
      windows_expression(r, i + 2, windows_find(r, i + 2, close, as));
      i = close + 1;
    } else if (windows_is(r, i, "COLLATE")) i += 2;
    else if (windows_is_any(r, i, refused)) r->failed = true;
    else if (!windows_is_name(r, i) || windows_is_window(r, i)) i++;
    else i = windows_opens(r, i + 1) ? windows_call(r, i) : windows_name(r, i);
  }
}

/* ---- The clauses ------------------------------------------------------------------------------------------------- */

/* Finds the items of the result, and which of them have windows. Returns false if there is none, or a *. */
static bool windows_items(windows_reader *r) {
  static const char *const comma[] = {",", NULL};
  uint32_t i = r->select->first + 1;
  bool any = false;
  if (windows_is(r, i, "DISTINCT") || windows_is(r, i, "ALL")) i++;
  for (uint32_t end; i < r->select->from; i = end + 1) {
    end = windows_find(r, i, r->select->from, comma);
    tsx_windows_column item = {.first = i, .end = end, .stop = end};
    if (end == i || windows_is(r, end - 1, "*")) return false;
    if (tsx_script_has_alias(r->script, i, end)) item.stop = windows_is(r, end - 2, "AS") ? end - 2 : end - 1;
    for (uint32_t t = i; t < item.stop; t++) item.windows |= windows_is(r, t, "OVER") && t > i;
    const bool named = item.stop < end || end == i + 1 || windows_is(r, end - 2, ".");
    if (!item.windows && named && windows_is_any(r, end - 1, grammar)) return false; /* a name in the windows, too */
    any |= item.windows;
    if (r->out->item_count == WINDOWS_COLUMNS) return false;
    if (!windows_grow(r, (void **)&r->out->items, r->out->item_count, sizeof *r->out->items)) return false;
    r->out->items[r->out->item_count++] = item;
  }
  return any;
}

/* Returns false if a term of GROUP BY is the number of no item, or of one with windows. */
static bool windows_ordinals(const windows_reader *r) {
  static const char *const comma[] = {",", NULL};
  for (uint32_t i = r->group, stop; i < r->group_end; i = stop + 1) {
    const tsx_token *token = &r->script->tokens[i].token;
    uint32_t number = 0;
    stop = windows_find(r, i, r->group_end, comma);
    if (stop != i + 1 || token->kind != TSX_TOKEN_NUMBER) continue;
    for (uint64_t c = 0; c < token->size && number <= WINDOWS_COLUMNS; c++)
      number = token->text[c] >= '0' && token->text[c] <= '9' ? 10 * number + (uint32_t)(token->text[c] - '0')
                                                              : WINDOWS_COLUMNS + 1;
    if (number == 0 || number > r->out->item_count || r->out->items[number - 1].windows) return false;
  }
  return true;
}

/* Makes the columns of the grouped SELECT: an item's has the item's number, which GROUP BY may say. */
static void windows_columns(windows_reader *r) {
  tsx_windows *out = r->out;
  for (uint32_t n = 0; n < out->item_count; n++) {
    if (!windows_grow(r, (void **)&out->columns, out->column_count, sizeof *out->columns)) return;
    out->columns[out->column_count++] = out->items[n].windows ? (tsx_windows_column){.own = true} : out->items[n];
  }
  for (uint32_t n = 0; n < out->item_count && !r->failed && !r->lacks_memory; n++)
    if (out->items[n].windows) windows_expression(r, out->items[n].first, out->items[n].stop);
}

/* Reads ORDER BY: a term that is the alias of an item stays. */
static void windows_order(windows_reader *r, uint32_t i, uint32_t end) {
  static const char *const ends[] = {",", "COLLATE", "ASC", "DESC", "NULLS", NULL}, *const comma[] = {",", NULL};
  while (i < end && !r->failed && !r->lacks_memory) {
    const uint32_t stop = windows_find(r, i, end, ends), next = windows_find(r, stop, end, comma);
    const bool stays = stop == i + 1 && (windows_is_alias(r, i) || r->script->tokens[i].token.kind == TSX_TOKEN_NUMBER);
    if (!stays) windows_expression(r, i, stop);
    i = next + 1;
  }
}

/* Writes "SELECT column, ..." of the grouped SELECT, and its ORDER BY. */
static void windows_write(windows_reader *r) {
  const tsx_script *s = r->script;
  tsx_windows *out = r->out;
  sqlite3_str *head = sqlite3_str_new(NULL);
  for (uint32_t c = 0; c < out->column_count; c++) {
    const tsx_windows_column *column = &out->columns[c];
    sqlite3_str_appendall(head, c ? ", " : "SELECT ");
    if (column->stop == 0) { /* of an item whose windows read nothing more */
      sqlite3_str_appendf(head, "NULL AS \"tessera %u\"", c); /* a count would make one row of all cells */
      continue;
    }
    const char *begin = tsx_script_begin(s, column->first), *end = tsx_script_end(s, column->end);
    sqlite3_str_append(head, begin, (int)(end - begin));
    if (column->own) sqlite3_str_appendf(head, " AS \"tessera %u\"", c);
  }
  char *text = sqlite3_str_finish(head), *order = NULL;
  out->order = "";
  if (r->group < r->group_end) {
    const char *begin = tsx_script_begin(s, r->group), *end = tsx_script_end(s, r->group_end);
    order = sqlite3_mprintf(" ORDER BY %.*s", (int)(end - begin), begin);
    out->order = order ? tsx_arena_copy(r->arena, order, strlen(order)) : NULL;
  }
  out->head = text ? tsx_arena_copy(r->arena, text, strlen(text)) : NULL;
  r->lacks_memory |= !out->head || !out->order;
  sqlite3_free(text);
  sqlite3_free(order);
}

int tsx_windows_split(const tsx_script *script, const tsx_script_select *select, tsx_arena *arena, tsx_windows *out,
                      tsr_error *error) {
  static const char *const groups[] = {"GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", NULL};
  static const char *const tails[] = {"WINDOW", "ORDER", "LIMIT", NULL}, *const orders[] = {"ORDER", "LIMIT", NULL};
  static const char *const limits[] = {"LIMIT", NULL};
  windows_reader r = {.script = script, .select = select, .arena = arena, .out = out};
  *out = (tsx_windows){0};
  if (select->from >= select->end || !windows_items(&r)) return r.lacks_memory ? tsx_out_of_memory(error) : 0;
  const uint32_t end = select->end, behind = windows_find(&r, select->behind, end, tails);
  const uint32_t group = windows_find(&r, select->behind, behind, groups);
  const uint32_t order = windows_find(&r, behind, end, orders), limit = windows_find(&r, order, end, limits);
  const bool ordered = order < limit;
  if (windows_is(&r, group, "GROUP")) {
    r.group = group + 2;
    r.group_end = windows_find(&r, r.group, behind, groups + 1);
  }
  if (r.group > r.group_end || (limit < end && !ordered) || !windows_ordinals(&r)) return 0;
  out->behind = behind;
  windows_columns(&r);
  if (behind < order) windows_expression(&r, behind + 1, order);
  if (ordered) windows_order(&r, order + 2, limit);
  if (!r.failed && !r.lacks_memory) windows_write(&r);
  if (r.lacks_memory) return tsx_out_of_memory(error);
  return !r.failed;
}

/* ---- The SELECT around ------------------------------------------------------------------------------------------- */

/* Appends the words from `at` to `end`, with the columns in the place of the pieces from *piece on. */
static void windows_append(sqlite3_str *text, const tsx_windows *windows, const char *at, const char *end,
                           char *const *columns, uint32_t *piece) {
  for (; *piece < windows->piece_count && windows->pieces[*piece].begin < end; ++*piece) {
    const tsx_windows_piece *next = &windows->pieces[*piece];
    sqlite3_str_append(text, at, (int)(next->begin - at));
    sqlite3_str_appendall(text, columns[next->column]);
    at = next->end;
  }
  sqlite3_str_append(text, at, (int)(end - at));
}

char *tsx_windows_around(const tsx_script *script, const tsx_script_select *select, const tsx_windows *windows,
                         char *const *columns, char *const *names, const char *table) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  const tsx_windows_column *items = windows->items;
  const char *begin = tsx_script_begin(script, select->first);
  uint32_t piece = 0;
  sqlite3_str_append(text, begin, (int)(tsx_script_begin(script, items[0].first) - begin));
  for (uint32_t n = 0; n < windows->item_count; n++) {
    const tsx_windows_column *item = &items[n];
    const char *first = tsx_script_begin(script, item->first), *stop = tsx_script_end(script, item->stop);
    if (n) sqlite3_str_appendall(text, ", ");
    if (item->windows) windows_append(text, windows, first, stop, columns, &piece);
    else sqlite3_str_appendall(text, columns[n]);
    sqlite3_str_appendf(text, " AS \"%w\"", names[n]);
  }
  sqlite3_str_appendf(text, " FROM \"%w\"", table);
  if (windows->behind < select->end) {
    sqlite3_str_appendchar(text, 1, ' ');
    windows_append(text, windows, tsx_script_begin(script, windows->behind), tsx_script_end(script, select->end),
                   columns, &piece);
  }
  return sqlite3_str_finish(text);
}
