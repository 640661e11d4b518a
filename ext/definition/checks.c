/* checks.c: CHECK constraints in CREATE VIRTUAL TABLE: CHECK(condition) behind a column's type, or instead of a column,
 * each with CONSTRAINT and a name before it or without.
 *
 * This file only finds where a condition ends. The core parses it, when it is added to the array: SQLite prepares no
 * part of it. */
#include "definition/define.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

static bool is_taken(const tsx_definition *definition, const char *name) {
  for (const tsx_check_text *check = definition->checks; check; check = check->next)
    if (!strcmp(check->name, name)) return true;
  return false;
}

/* Makes a name that no other check of the definition has: COLUMN, COLUMN_2, ...; check1, check2, ... without a column.
 * Returns NULL, with an error, if memory is lacking. */
static char *free_name(tsx_parser *p, const char *column) {
  const uint64_t room = (column ? strlen(column) : 0) + 32;
  char *name = tsx_parser_alloc(p, room);
  for (int i = 1; name; i++) {
    if (column && i == 1) sqlite3_snprintf((int)room, name, "%s", column);
    else sqlite3_snprintf((int)room, name, column ? "%s_%d" : "%scheck%d", column ? column : "", i);
    if (!is_taken(p->definition, name)) break;
  }
  return name;
}

static int copy_span(tsx_parser *p, const char *begin, const char *end, char **copy) {
  if (!(*copy = tsx_parser_alloc(p, (uint64_t)(end - begin) + 1))) return TSR_NOMEM;
  memcpy(*copy, begin, (size_t)(end - begin));
  return TSR_OK;
}

/* Parses the condition in parentheses. */
static int parse_condition(tsx_parser *p, tsx_check_text *check) {
  const tsx_token *t = &p->in.token;
  int open = 1;
  TSX_TRY(tsx_parser_expect(p, "("));
  const char *begin = t->text;
  for (; open > 0; tsx_tokens_next(&p->in)) {
    if (t->kind == TSX_TOKEN_END || t->kind == TSX_TOKEN_BAD) return tsx_parser_unexpected(p, "')' of CHECK");
    open += tsx_token_is(t, "(") - tsx_token_is(t, ")");
    if (open == 0) TSX_TRY(copy_span(p, begin, t->text, &check->text));
  }
  return TSR_OK;
}

int tsx_check_parse(tsx_parser *p, const char *column) {
  tsx_check_text *check = tsx_parser_alloc(p, sizeof *check), **last = &p->definition->checks;
  const tsx_token *t = &p->in.token;
  if (!check) return TSR_NOMEM;
  if (tsx_parser_accept(p, "CONSTRAINT")) {
    if (t->kind != TSX_TOKEN_WORD && t->kind != TSX_TOKEN_NAME)
      return tsx_parser_unexpected(p, "a name after CONSTRAINT");
    if (!(check->name = tsx_parser_alloc(p, t->size + 1))) return TSR_NOMEM;
    tsx_token_copy(t, check->name);
    tsx_tokens_next(&p->in);
    if (is_taken(p->definition, check->name))
      return tsx_parser_fail(p, TSR_ERROR, "two constraints are named %.100s", check->name);
  }
  TSX_TRY(tsx_parser_expect(p, "CHECK"));
  TSX_TRY(parse_condition(p, check));
  if (!check->name && !(check->name = free_name(p, column))) return TSR_NOMEM;
  while (*last) last = &(*last)->next;
  *last = check;
  return TSR_OK;
}

bool tsx_check_is(const char *text) {
  tsx_tokens tokens = tsx_tokens_of(text);
  if (tsx_token_is(&tokens.token, "CONSTRAINT")) return true;
  if (!tsx_token_is(&tokens.token, "CHECK")) return false;
  tsx_tokens_next(&tokens);
  return tsx_token_is(&tokens.token, "(");
}

int tsx_check_parse_alone(tsx_parser *p, const char *text) {
  p->in = tsx_tokens_of(text);
  p->noun = "constraint";
  p->name = text;
  TSX_TRY(tsx_check_parse(p, NULL));
  return p->in.token.kind == TSX_TOKEN_END ? TSR_OK : tsx_parser_unexpected(p, "a comma or the end");
}

int tsx_checks_add(const tsx_definition *definition, tsr_array *array, bool untested, tsr_error *error) {
  for (const tsx_check_text *check = definition->checks; check; check = check->next) {
    const int code = tsr_array_add_constraint(array, check->name, check->text, untested, error);
    if (code >= 0) continue;
    tsr_error ignored; /* what is added is taken back, and nothing else: the name may be that of an older constraint */
    for (const tsx_check_text *added = definition->checks; added != check; added = added->next)
      (void)tsr_array_drop_constraint(array, added->name, &ignored);
    return code;
  }
  return TSR_OK;
}
