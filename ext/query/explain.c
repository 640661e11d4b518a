/* explain.c: what EXPLAIN QUERY PLAN says of a query. In order: the array, the joins, what is tested once for each
 * coordinate, windows, the keys, what is tested for each cell, the aggregates, and what is left to their results. */
#include "query/query_internal.h"

static void append_words(sqlite3_str *out, const char *begin, const char *end) {
  sqlite3_str_append(out, begin, (int)(end - begin));
}

/* Writes the terms of WHERE that are tested for each cell, or (`cells` false) once for each coordinate. */
static void append_where(sqlite3_str *out, const tsx_query *query, const tsx_expr *tree, bool cells, bool *any) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND) {
    append_where(out, query, tree->operands[0], cells, any);
    append_where(out, query, tree->operands[1], cells, any);
    return;
  }
  if (query->select.around && tree == query->select.around->exists) return;
  const bool one = tree->field == TSX_FIELD_NONE ||
                   (tree->field >= 0 && query->table->columns[tree->field].description->is_dimension &&
                    tsx_axis_possible(&query->table->columns[tree->field]));
  if (one == cells) return;
  sqlite3_str_appendall(out, *any ? " AND " : cells ? "; cells " : "; coordinates ");
  append_words(out, tree->begin, tree->end);
  *any = true;
}

/* Writes the windows in a tree, and what is computed over neighbours. */
static void append_windows(sqlite3_str *out, const tsx_expr *tree, bool *any) {
  tree = tsx_expr_meaning(tree);
  if (!tree->has_window) return;
  if (tree->kind == TSX_EXPR_WINDOW) {
    sqlite3_str_appendall(out, *any ? ", " : tree->over->begin ? "; windows " : ": ");
    append_words(out, tree->begin, tree->end);
    *any = true;
    return;
  }
  if (tree->base) append_windows(out, tree->base, any);
  for (uint32_t i = 0; i < tree->count; i++) append_windows(out, tree->operands[i], any);
}

/* Writes the aggregates in a tree. */
static void append_aggregates(sqlite3_str *out, const tsx_expr *tree, bool *any) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_AGGREGATE) {
    sqlite3_str_appendall(out, *any ? ", " : "; ");
    append_words(out, tree->begin, tree->end);
    *any = true;
    return;
  }
  for (uint32_t i = 0; i < tree->count; i++) append_aggregates(out, tree->operands[i], any);
}

void tsx_explain_append(sqlite3_str *out, const tsx_query *query) {
  const tsx_select *s = &query->select;
  bool any = false;
  sqlite3_str_appendall(out, s->source.path ? s->source.path : s->source.table);
  for (uint32_t j = 0; j < s->join_count; j++) {
    sqlite3_str_appendf(out, "; %s %sJOIN %s ON ",
                        s->joins[j].on.span_count      ? "ranges"
                        : s->joins[j].on.binding_count ? "cells"
                                                       : "coordinates",
                        s->joins[j].left ? "LEFT " : "",
                        s->joins[j].source.path ? s->joins[j].source.path : s->joins[j].source.table);
    append_words(out, s->joins[j].on.tree->begin, s->joins[j].on.tree->end);
  }
  if (s->where) append_where(out, query, s->where, false, &any);
  any = false;
  if (s->around) tsx_around_explain(query, out);
  for (uint32_t i = 0; i < s->item_count; i++) append_windows(out, s->items[i].tree, &any);
  for (uint32_t i = 0; i < s->group_count; i++) {
    sqlite3_str_appendall(out, i ? ", " : "; by ");
    append_words(out, s->group[i]->begin, s->group[i]->end);
  }
  any = false;
  if (s->where) append_where(out, query, s->where, true, &any);
  any = false;
  for (uint32_t i = 0; i < s->item_count; i++) append_aggregates(out, s->items[i].tree, &any);
  if (s->having || s->order_count || s->limit) sqlite3_str_appendall(out, "; results");
  if (s->having) sqlite3_str_appendall(out, " HAVING");
  if (s->order_count) sqlite3_str_appendall(out, " ORDER BY");
  if (s->limit) sqlite3_str_appendall(out, " LIMIT");
}

char *tsx_query_explain(const tsx_query *query) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  tsx_explain_append(out, query);
  return sqlite3_str_finish(out);
}
