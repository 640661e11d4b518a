/* subquery.c: scalar subqueries in a tessera_query, such as WHERE v > (SELECT avg(v) FROM t).
 *
 * A subquery is a tessera_query of its own, over an array, that names nothing of the query around it, and has one row:
 * an aggregate without GROUP BY. It is evaluated once, when the query starts to run, and stands for a literal from then
 * on: its node's `name` is the literal, which nested statements get in place of its words. Until then it is NULL, so
 * SQLite never sees the words of a subquery. */
#include "query/query_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "values/value.h"

/* Compiles the words between the parentheses, behind as many blanks as there are characters before them, so that errors
 * count the characters of the whole text. */
static int subquery_compile(const tsx_query *query, const tsx_expr *node, tsx_query *inner, tsr_error *error) {
  const int before = (int)tsx_characters(query->select.text, node->begin + 1);
  char *text = sqlite3_mprintf("%*s%.*s", before, "", (int)(node->end - node->begin - 2), node->begin + 1);
  if (!text) return tsx_out_of_memory(error);
  const int code = tsx_query_compile(query->connection, query->home, text, inner, error);
  sqlite3_free(text);
  return code;
}

/* Returns true if a column stands outside of the aggregates. */
static bool has_bare(const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_AGGREGATE) return false;
  if (tsx_expr_is_column(tree) || (tree->base && has_bare(tree->base))) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (has_bare(tree->operands[i])) return true;
  return false;
}

/* Returns why a compiled subquery is not taken, or NULL. A result with an affinity would pass it on to what it is
 * compared with; a literal has none. */
static const char *subquery_unfit(const tsx_query *inner) {
  const tsx_select *s = &inner->select;
  if (s->item_count != 1) return "a scalar subquery has one column";
  if (!inner->over_groups || s->group_count > 0 || has_bare(s->items[0].tree))
    return "a scalar subquery is an aggregate without GROUP BY";
  return *tsx_query_declared(inner, s->items[0].tree) ? "a scalar subquery with CAST" : NULL;
}

/* Checks one subquery. An error that quotes words of the subquery needs no more; others name the subquery. */
static int subquery_check(const tsx_query *query, const tsx_expr *node, tsx_query *inner, tsr_error *error) {
  tsr_error why = {0};
  const int code = subquery_compile(query, node, inner, &why);
  const char *unfit = code < 0 ? why.message : subquery_unfit(inner);
  if (!unfit) return tsx_run_check(inner, error);
  if (code == TSR_NOMEM || code == TSR_INTERRUPT || why.subject == TSX_SUBJECT_WORDS) {
    *error = why;
    return code;
  }
  return tsx_not_evaluated(&query->select, node->begin, node->end, unfit, error);
}

int tsx_subqueries_check(tsx_query *query, tsr_error *error) {
  tsx_select *s = &query->select;
  for (uint32_t i = 0; i < s->subquery_count; i++) {
    tsx_expr *node = s->subqueries[i];
    tsx_query inner = {0};
    const int code = subquery_check(query, node, &inner, error);
    tsx_query_release(&inner);
    if (code < 0) return code;
    if (!(node->name = tsx_arena_copy(&s->arena, "NULL", 4))) return tsx_out_of_memory(error);
  }
  return TSR_OK;
}

/* Writes a value as a literal. */
static int subquery_literal(tsx_query *query, tsx_expr *node, const tsr_value *value, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  bool fits = true;
  switch (value->type) {
  case TSR_VALUE_NULL: sqlite3_str_appendall(out, "NULL"); break;
  case TSR_VALUE_INTEGER: sqlite3_str_appendf(out, "%lld", (long long)value->as.integer); break;
  case TSR_VALUE_REAL: tsx_json_real(out, value->as.real); break;
  case TSR_VALUE_TEXT:
    fits = !memchr(value->as.text.bytes, 0, value->as.text.size);
    sqlite3_str_appendf(out, "'%.*q'", (int)value->as.text.size, value->as.text.bytes);
    break;
  default: fits = false;
  }
  char *text = sqlite3_str_finish(out);
  node->name = text ? tsx_arena_copy(&query->select.arena, text, strlen(text)) : NULL;
  sqlite3_free(text);
  if (fits && !node->name) return tsx_out_of_memory(error);
  return fits ? TSR_OK : tsx_not_evaluated(&query->select, node->begin, node->end, "its value has no literal", error);
}

int tsx_subqueries_evaluate(tsx_query *query, tsr_error *error) {
  for (uint32_t i = 0; i < query->select.subquery_count; i++) {
    tsx_expr *node = query->select.subqueries[i];
    tsx_query inner = {0};
    tsx_run *run = NULL;
    tsr_value value = {.type = TSR_VALUE_NULL}; /* if HAVING drops the row */
    int code = subquery_compile(query, node, &inner, error);
    inner.exact = query->exact;
    inner.memory_bytes = query->memory_bytes;
    inner.threads = query->threads;
    if (code >= 0) code = tsx_run_open(&inner, NULL, 0, &run, error);
    if (code >= 0) code = tsx_run_next(run, error);
    if (code > 0) code = tsx_run_value(run, 0, &value, error);
    if (code >= 0) code = subquery_literal(query, node, &value, error);
    tsx_run_close(run);
    tsx_query_release(&inner);
    if (code < 0) return code;
  }
  return TSR_OK;
}
