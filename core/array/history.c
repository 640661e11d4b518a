/* history.c: lists the commits of an array, from names and metadata only: no cell is read.
 *
 * An entry has all fragments and deletes of one time, from which on readers see them all. A merge is
 * an entry of its own, which covers the times of what it merged. Sources stay listed until the vacuum removes them.
 *
 * Sections: conditions as SQL; entries; opening.
 */
#include "array/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "format/schema.h"
#include "log/log.h"
#include "environment/environment.h"
#include "tessera_host.h"

#define HISTORY_ATTEMPTS 8 /* since others may vacuum meanwhile */
#define OURS_DIGITS      "00000000" /* the end of the UUID of the first fragment that a merge by tessera makes */

struct tsr_history {
  tsr_array *array;
  const tsr_schema *schema;
  tsr_arena arena;
  tsr_buffer losses; /* tsr_loss: of all states */
  tsr_buffer held; /* tsr_fragment *: references, for boxes */
  tsr_map missing; /* names of fragments whose files, but not commits, a cut-off vacuum has removed in part */
  tsr_history_entry *entries;
  uint64_t count;
};

/* ---- Conditions as SQL ------------------------------------------------------------------------------------------- */

#define CONDITION_MAX 1000 /* bytes of SQL text; longer conditions are cut */

/* A stored condition says which cells stay, so each operator is shown as its opposite. */
static const char *opposite_of(uint8_t op) {
  switch (op) {
  case TSR_LT: return ">=";
  case TSR_LE: return ">";
  case TSR_GT: return "<=";
  case TSR_GE: return "<";
  case TSR_EQ: return "<>";
  case TSR_NE: return "=";
  case TSR_IN: return "NOT IN";
  default: return "IN";
  }
}

static int print_literal(const tsr_field *field, const uint8_t *value, uint64_t size, tsr_buffer *out,
                         tsr_error *error) {
  char text[64];
  if (!value) return tsr__buffer_append(out, "NULL", 4, error);
  const tsr_kind kind = field ? tsr_datatype_kind(field->datatype) : TSR_KIND_BYTES;
  if (kind == TSR_KIND_TEXT && tsr__is_utf8(value, size)) {
    TSR_TRY(tsr__buffer_append(out, "'", 1, error));
    for (uint64_t i = 0; i < size; i++)
      TSR_TRY(
          tsr__buffer_append(out, value[i] == '\'' ? "''" : (const char *)&value[i], value[i] == '\'' ? 2 : 1, error));
    return tsr__buffer_append(out, "'", 1, error);
  }
  if (kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || size != tsr_datatype_size(field->datatype)) {
    TSR_TRY(tsr__buffer_append(out, "X'", 2, error));
    for (uint64_t i = 0; i < size; i++) TSR_TRY(tsr__buffer_printf(out, error, "%02X", value[i]));
    return tsr__buffer_append(out, "'", 1, error);
  }
  tsr__value_print(field->datatype, value, text, sizeof text);
  const bool quoted = kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
  return tsr__buffer_printf(out, error, quoted ? "'%s'" : "%s", text);
}

static int print_comparison(const tsr_schema *schema, const tsr_condition_node *node, tsr_buffer *out,
                            tsr_error *error) {
  const int64_t number = tsr__schema_field(schema, node->field);
  const tsr_field *field = number < 0 ? NULL : &schema->fields[number];
  TSR_TRY(tsr__buffer_append(out, "\"", 1, error));
  for (const char *c = node->field; *c; c++)
    TSR_TRY(tsr__buffer_append(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1, error));
  if (node->op != TSR_IN && node->op != TSR_NOT_IN) {
    const bool null = !node->value, equal = node->op == TSR_NE;
    TSR_TRY(tsr__buffer_printf(out, error, "\" %s ", null ? equal ? "IS" : "IS NOT" : opposite_of(node->op)));
    return print_literal(field, node->value, node->value_size, out, error);
  }
  TSR_TRY(tsr__buffer_printf(out, error, "\" %s (", opposite_of(node->op)));
  for (uint64_t i = 0; i < node->value_count && out->size <= CONDITION_MAX; i++) {
    const uint64_t at = node->value_offsets[i], size = node->value_offsets[i + 1] - at;
    if (i) TSR_TRY(tsr__buffer_append(out, ", ", 2, error));
    TSR_TRY(print_literal(field, node->value + at, size, out, error));
  }
  return tsr__buffer_append(out, ")", 1, error);
}

static int print_node(const tsr_schema *schema, const tsr_condition_node *node, tsr_buffer *out, tsr_error *error) {
  if (out->size > CONDITION_MAX) return TSR_OK;
  if (!node->expression && (node->op == TSR_ALWAYS_TRUE || node->op == TSR_ALWAYS_FALSE))
    return tsr__buffer_append(out, node->op == TSR_ALWAYS_FALSE ? "1" : "0", 1, error);
  if (!node->expression) return print_comparison(schema, node, out, error);
  TSR_TRY(tsr__buffer_append(out, "(", 1, error));
  for (uint32_t i = 0; i < node->child_count; i++) {
    if (i) TSR_TRY(tsr__buffer_printf(out, error, node->op == 0 ? " OR " : " AND "));
    TSR_TRY(print_node(schema, &node->children[i], out, error));
  }
  return tsr__buffer_append(out, ")", 1, error);
}

/* Gives the SQL text of a delete, cut at a character after CONDITION_MAX bytes. */
static int condition_text(tsr_history *h, const tsr_committed *item, const char **text, tsr_error *error) {
  const tsr_condition *condition;
  tsr_buffer out = {.memory = &h->array->memory};
  char *copy = NULL;
  int rc = tsr__array_condition(h->array, item, &condition, error);
  if (rc >= 0) rc = print_node(h->schema, &condition->root, &out, error);
  const uint64_t size = tsr_utf8_cut(out.data, out.size, CONDITION_MAX);
  if (rc >= 0) rc = TSR_ARENA_COPY(&h->arena, (const char *)out.data, size, &copy, error);
  tsr__buffer_release(&out);
  *text = copy;
  return rc;
}

/* ---- Entries ----------------------------------------------------------------------------------------------------- */

typedef struct history_item { /* a fragment or a delete */
  const tsr_committed *committed;
  bool is_delete, merged;
} history_item;

/* A delete has two times if its commit also wrote cells at the second one (write/commit.c): it belongs to them. */
static uint64_t start_of(const history_item *item) {
  return item->is_delete ? item->committed->parsed.end : item->committed->parsed.start;
}

static int compare_items(const void *a, const void *b) {
  const history_item *x = a, *y = b;
  const tsr_name *n = &x->committed->parsed, *m = &y->committed->parsed;
  if (n->end != m->end) return n->end < m->end ? -1 : 1;
  if (x->merged != y->merged) return x->merged ? 1 : -1;
  if (start_of(x) != start_of(y)) return start_of(x) < start_of(y) ? -1 : 1;
  return strcmp(x->committed->name, y->committed->name);
}

static bool same_entry(const history_item *a, const history_item *b) {
  return a->committed->parsed.end == b->committed->parsed.end && start_of(a) == start_of(b) && a->merged == b->merged;
}

/* Returns true if a vacuum file names what the fragment was merged from, or if its times say that it was. */
static bool is_merged(const tsr_array *array, const tsr_committed *item) {
  const tsr_commit_list *vacuums = &array->log.listing->vacuums;
  if (item->parsed.start < item->parsed.end) return true;
  for (uint64_t i = 0; i < vacuums->count; i++)
    if (strcmp(vacuums->items[i].name, item->name) == 0) return true;
  return false;
}

static int list_items(const tsr_history *h, uint64_t since, uint64_t as_of, tsr_buffer *items, tsr_error *error) {
  const tsr_commit_listing *listing = h->array->log.listing;
  for (int pass = 0; pass < 2; pass++) {
    const tsr_commit_list *list = pass ? &listing->deletes : &listing->fragments;
    for (uint64_t i = 0; i < list->count; i++) {
      const history_item item = {&list->items[i], pass == 1, pass == 0 && is_merged(h->array, &list->items[i])};
      if (list->items[i].parsed.end < since || list->items[i].parsed.end > as_of) continue;
      if (pass == 0 && tsr__map_get(&h->missing, list->items[i].name)) continue;
      TSR_TRY(tsr__buffer_append(items, &item, sizeof item, error));
    }
  }
  if (items->size) qsort(items->data, items->size / sizeof(history_item), sizeof(history_item), compare_items);
  return TSR_OK;
}

/* Finds the fragments that are `missing`: committed and replaced by another one, but gone, or without some file. */
static int find_missing(tsr_history *h, tsr_error *error) {
  const tsr_commit_list *fragments = &h->array->log.listing->fragments;
  tsr_map covered = {.memory = &h->array->memory};
  int rc = tsr__log_covered(&h->array->log, h->array->log.listing, &covered, error);
  for (uint64_t i = 0; i < fragments->count && rc >= 0; i++) {
    const char *name = fragments->items[i].name;
    bool whole = true;
    if (!tsr__map_get(&covered, name)) continue;
    rc = tsr__cancelled(&h->array->environment->memory, error);
    if (rc >= 0) rc = tsr__fragment_is_whole(h->array, &fragments->items[i], &whole, error);
    if (rc >= 0 && !whole) rc = tsr__map_put(&h->missing, name, (void *)(uintptr_t)name, error);
  }
  tsr__map_release(&covered);
  return rc < 0 ? rc : TSR_OK;
}

/* Adds a fragment's cells and box to its entry. */
static int add_cells(tsr_history *h, tsr_history_entry *entry, const tsr_committed *item, tsr_error *error) {
  const uint32_t dimensions = h->schema->dimension_count;
  tsr_fragment *fragment;
  TSR_TRY(tsr__array_fragment(h->array, item, NULL, 0, &fragment, error));
  const int rc = tsr__buffer_append(&h->held, &fragment, sizeof fragment, error);
  if (rc < 0) return tsr__array_fragment_drop(h->array, fragment), rc;
  const tsr_fragment_metadata *m = &fragment->metadata;
  entry->fragments++;
  entry->cells = tsr__add_sat(entry->cells, tsr__fragment_cells(fragment));
  if (m->empty_domain || m->tile_count == 0) return TSR_OK;
  if (m->schema->dimension_count != dimensions)
    return tsr__fail(error, TSR_CORRUPT, "fragment %s has %u dimensions, the array has %u", fragment->name,
                     m->schema->dimension_count, dimensions);
  tsr_interval *box = (tsr_interval *)(uintptr_t)entry->box;
  if (!box) TSR_TRY(TSR_ARENA_ARRAY(&h->arena, dimensions, &box, error));
  for (uint32_t d = 0; d < dimensions; d++)
    if (entry->box) tsr__interval_widen(&h->schema->fields[d], &box[d], &m->non_empty_domain[d]);
    else box[d] = m->non_empty_domain[d];
  entry->box = box;
  return TSR_OK;
}

/* Sets entry->whole: 0 if a state from its first to its last time lacks cells; -1 if it is unknown, because TileDB
 * has merged over a delete: it may have purged before. */
static int judge(const tsr_history *h, tsr_history_entry *entry, const tsr_committed *item, tsr_error *error) {
  const tsr_loss *losses = (const tsr_loss *)(const void *)h->losses.data;
  entry->whole = 1;
  for (uint64_t i = 0; i < h->losses.size / sizeof *losses; i++)
    if (losses[i].from <= entry->time && losses[i].until > entry->start) entry->whole = 0;
  const size_t digits = strlen(item->parsed.uuid), ours = strlen(OURS_DIGITS);
  if (entry->kind != TSR_HISTORY_MERGE || entry->whole == 0 || h->schema->dense || digits < ours) return TSR_OK;
  if (strcmp(item->parsed.uuid + digits - ours, OURS_DIGITS) == 0) return TSR_OK;
  uint64_t deleted;
  bool purged;
  TSR_TRY(tsr__merged_delete(h->array, item, &deleted, &purged, error));
  if (deleted > entry->start) entry->whole = -1;
  return TSR_OK;
}

static int make_entry(tsr_history *h, const history_item *items, uint64_t count, tsr_error *error) {
  tsr_history_entry *entry = &h->entries[h->count];
  const tsr_committed *first = items[0].committed;
  char *name;
  TSR_TRY(tsr__cancelled(&h->array->environment->memory, error));
  TSR_TRY(TSR_ARENA_COPY(&h->arena, first->name, strlen(first->name), &name, error));
  *entry = (tsr_history_entry){.start = start_of(&items[0]), .time = first->parsed.end, .name = name};
  for (uint64_t i = 0; i < count; i++) {
    if (!items[i].is_delete) TSR_TRY(add_cells(h, entry, items[i].committed, error));
    else if (!entry->condition) TSR_TRY(condition_text(h, items[i].committed, &entry->condition, error));
  }
  entry->kind = items[0].merged     ? TSR_HISTORY_MERGE
                : !entry->condition ? TSR_HISTORY_WRITE
                : entry->fragments  ? TSR_HISTORY_BOTH
                                    : TSR_HISTORY_DELETE;
  TSR_TRY(judge(h, entry, first, error));
  h->count++;
  return TSR_OK;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static int history_fill(tsr_history *h, uint64_t since, uint64_t as_of, tsr_error *error) {
  tsr_buffer items = {.memory = &h->array->memory};
  TSR_TRY(tsr__array_schema_at(h->array, UINT64_MAX, &h->schema, error));
  TSR_TRY(find_missing(h, error));
  TSR_TRY(tsr__losses_find(h->array, h->schema->dense, TSR_TIME_BEGIN, TSR_TIME_NOW, &h->missing, &h->losses, error));
  int rc = list_items(h, since, as_of, &items, error);
  const history_item *all = (const history_item *)(const void *)items.data;
  const uint64_t count = items.size / sizeof *all;
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&h->arena, count, &h->entries, error);
  for (uint64_t i = 0, end; i < count && rc >= 0; i = end) {
    for (end = i + 1; end < count && same_entry(&all[i], &all[end]);) end++;
    rc = make_entry(h, &all[i], end - i, error);
  }
  tsr__buffer_release(&items);
  return rc;
}

static int history_make(tsr_array *array, uint64_t since, uint64_t as_of, tsr_history **history, tsr_error *error) {
  tsr_history *h;
  TSR_TRY(TSR_ALLOC(&array->memory, &h, error));
  h->array = array;
  tsr__arena_init(&h->arena, &array->memory);
  h->losses.memory = h->held.memory = h->missing.memory = &array->memory;
  const int rc = history_fill(h, since, as_of, error);
  if (rc < 0) tsr_history_close(h);
  else *history = h;
  return rc;
}

int tsr_history_open(tsr_array *array, uint64_t since, uint64_t as_of, tsr_history **history, tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc = TSR_NOT_FOUND;
  for (int i = 0; i < HISTORY_ATTEMPTS && rc == TSR_NOT_FOUND; i++) {
    TSR_TRY(tsr__log_list(&array->log, true, i > 0, error));
    rc = history_make(array, since, as_of, history, error);
  }
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

void tsr_history_close(tsr_history *history) {
  if (!history) return;
  tsr_fragment *const *held = (tsr_fragment *const *)(const void *)history->held.data;
  for (uint64_t i = 0; i < history->held.size / sizeof *held; i++) tsr__array_fragment_drop(history->array, held[i]);
  tsr__losses_drop(history->array, &history->losses);
  tsr__buffer_release(&history->held);
  tsr__map_release(&history->missing);
  tsr__arena_release(&history->arena);
  tsr__free(history);
}

const tsr_history_entry *tsr_history_entries(const tsr_history *history, uint64_t *count) {
  *count = history->count;
  return history->entries;
}
