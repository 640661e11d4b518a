/* cursor.c: the cursor methods of array tables.
 *
 * xFilter decodes the plan (best_index.c), turns the plan and its arguments into a tsr_request, and starts a reader.
 * The reader returns batches of cells; xNext walks the rows of a batch; xColumn takes single values out of the batch's
 * columns. A column is fetched from the reader when xColumn needs its first value, once for each batch.
 *
 * When a cursor is closed, its table keeps it as the idle cursor, with its decoded plan and its reader, and the next
 * xOpen reuses it: most statements run repeatedly, and often on the same state of the array.
 *
 * After opening and closing, the sections follow xFilter: it decodes the plan and reads as_of and since; opens a reader
 * on the state at that time; turns the terms of the plan into ranges, and the ranges into a request; adds the order and
 * LIMIT; and starts the reader. The last section returns rows. */
#include "table/table_internal.h"

#include <stddef.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/registry.h"
#include "connection/sqlite_api.h"
#include "values/compare.h"

typedef struct range_list { /* ranges of a term, as many as it needs */
  tsr_range *ranges;
  void **values; /* what each range points to, from sqlite3_malloc */
  uint64_t count, room;
  bool everything; /* any value may satisfy the term */
} range_list;

typedef struct batch_column { /* one column of the table in the present batch */
  const tsr_column *cells; /* NULL until xColumn needs it */
  const uint8_t *numbers; /* the values, if all cells are non-null numbers, perhaps one for all cells; else NULL */
} batch_column;

typedef struct cursor_state { /* the state of the array that the cursor reads */
  tsx_snapshot *snapshot; /* released at xClose */
  tsr_snapshot *core; /* the state that `reader` reads, and keeps alive */
  /* If the transaction has written the array: the state at xOpen. xFilter may be called again after more rows have been
   * written, and must not see them. Else NULL. */
  tsx_snapshot *opened;
} cursor_state;

typedef struct cursor_labels { /* one entry for each label column; except `order` */
  tsx_label_state **states; /* NULL until the cursor needs the label */
  const tsr_column **coordinates; /* of the present batch; NULL until xColumn needs them */
  tsx_label_order order; /* the coordinates, if the rows must be sorted */
} cursor_labels;

typedef struct cursor_dropped { /* attributes that the array no longer has (find_dropped) */
  bool *columns; /* for each column: its attribute was dropped */
  const tsr_schema *newest; /* the schema that `columns` was made for */
} cursor_dropped;

typedef struct cursor_position { /* the present row */
  const tsr_batch *batch; /* NULL at the end */
  uint64_t row; /* in the batch */
  uint64_t first; /* the batch's first row to return: those before it belong to OFFSET */
  uint64_t skip; /* rows that are still to be skipped, for OFFSET */
  batch_column *columns;
  unsigned requested; /* of the present row: bits of the hidden columns, and REQUESTED_ROWID */
} cursor_position;

typedef struct cursor_plan { /* the decoded plan, kept as long as idxStr is the same */
  char *text; /* the idxStr */
  tsx_index_plan decoded; /* its terms are those of the request */
} cursor_plan;

typedef struct cursor_request { /* what xFilter makes of the plan and its arguments */
  tsr_ranges *dimensions; /* one for each dimension */
  sqlite3_value *times[2]; /* as_of and since as passed, for xColumn; owned */
  const tsx_changed *changed; /* NULL: the rows are a state; borrowed from changes_table.c */
  tsr_places *expected; /* NULL, or what will be looked up; borrowed, too */
  tsr_unchanged *unchanged; /* leaves cells out that have not changed; or NULL */
  uint32_t predicate_count;
  /* One entry for each term; not initialized before the term is applied. The ranges of sets[i] are in lists[i], if
   * there may be many, or in values[i]. */
  range_list lists[TSX_TERMS_MAX];
  tsr_ranges sets[TSX_TERMS_MAX];
  tsx_ranges values[TSX_TERMS_MAX];
  tsr_predicate predicates[TSX_TERMS_MAX]; /* on attributes */
  tsr_sort order[TSX_TERMS_MAX];
} cursor_request;

typedef struct tsx_cursor {
  sqlite3_vtab_cursor base;
  tsr_reader *reader; /* or NULL */
  cursor_position position;
  cursor_state state;
  cursor_dropped dropped;
  cursor_labels labels;
  bool *fields; /* fields that the statement has used: the reader decodes them ahead */
  bool *likely; /* fields that it probably uses: a server-backed store fetches them in one go */
  uint64_t number; /* counts the table's cursors */
  cursor_plan plan;
  cursor_request request; /* last member: most of it is not initialized when the cursor is made */
} array_cursor;

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

static int cursor_fail(array_cursor *c, const tsr_error *error) { return tsx_vtab_error(c->base.pVtab, error); }

static int cursor_make(const tsx_table *table, array_cursor **out) {
  uint32_t dimensions = table->schema->dimension_count, fields = dimensions + table->schema->attribute_count;
  uint64_t columns = table->column_count + 1, labels = table->label_count;
  uint64_t more =
      dimensions * sizeof(tsr_ranges) + columns * (sizeof(batch_column) + 1) + labels * 2 * sizeof(void *) + 2 * fields;
  array_cursor *c = sqlite3_malloc64(sizeof(array_cursor) + more);
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, offsetof(array_cursor, request.lists));
  memset(c + 1, 0, more);
  c->request.dimensions = (tsr_ranges *)(c + 1);
  c->position.columns = (batch_column *)(c->request.dimensions + dimensions);
  c->labels.states = (tsx_label_state **)(c->position.columns + columns);
  c->labels.coordinates = (const tsr_column **)(c->labels.states + labels);
  c->dropped.columns = (bool *)(c->labels.coordinates + labels);
  c->fields = c->dropped.columns + columns;
  c->likely = c->fields + fields;
  *out = c;
  return SQLITE_OK;
}

static void cursor_destroy(array_cursor *c) {
  tsr_reader_close(c->reader);
  sqlite3_free(c->plan.text);
  sqlite3_free(c);
}

void tsx_cursor_forget(tsx_table *table) {
  if (table->cursors.idle) cursor_destroy(table->cursors.idle);
  table->cursors.idle = NULL;
}

/* Sets the attributes that the statement probably reads: those of the last plan, unless that was an UPDATE's, which
 * claims to use all columns. Dimensions are left out: a plan often uses them in WHERE only. */
static void expect_fields(const tsx_table *table, bool *likely) {
  memset(likely, 0, table->schema->dimension_count + table->schema->attribute_count);
  for (uint32_t i = 0; i < table->column_count && table->cursors.used != UINT64_MAX; i++) {
    const int column = tsx_column_sql(table, (int)i);
    if (column < 63 && table->cursors.used >> column & 1 && !table->columns[i].description->is_dimension)
      likely[table->columns[i].field] = true;
  }
}

int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  tsx_table *table = (tsx_table *)vtab;
  tsr_error error;
  tsx_error_init(&error);
  if (tsx_table_ready(table, &error) < 0 || tsx_array_permitted(table->connection, table->array, &error) < 0)
    return tsx_vtab_error(vtab, &error);
  array_cursor *c = table->cursors.idle;
  if (!c) {
    int code = cursor_make(table, &c);
    if (code != SQLITE_OK) return code;
  }
  table->cursors.idle = NULL;
  tsx_connection_add_cursor(table->connection);
  if (table->registered) table->registered->cursors++;
  int code = tsx_transactions_check(table->connection, &error);
  if (code >= 0 && table->array->transaction) code = tsx_table_snapshot(table, &c->state.opened, &error);
  if (code < 0) {
    tsx_connection_remove_cursor(table->connection);
    if (table->registered) table->registered->cursors--;
    cursor_destroy(c);
    return tsx_vtab_error(vtab, &error);
  }
  memset(c->fields, 0, table->schema->dimension_count + table->schema->attribute_count); /* of the last statement */
  expect_fields(table, c->likely);
  c->number = ++table->cursors.opened;
  tsx_update_forget_scan(table);
  *out = &c->base;
  return SQLITE_OK;
}

static void clear_list(range_list *list) {
  for (uint64_t i = 0; i < list->count; i++) sqlite3_free(list->values[i]);
  if (list->values) sqlite3_free(list->values);
  if (list->ranges) sqlite3_free(list->ranges);
  *list = (range_list){0};
}

/* Adds the rows of the present batch that SQLite has seen to the environment's counters. */
static void count_rows(array_cursor *c) {
  const cursor_position *p = &c->position;
  if (p->batch)
    tsr_environment_count_rows(((tsx_table *)c->base.pVtab)->connection->environment,
                               (p->row < p->batch->count ? p->row + 1 : p->batch->count) - p->first);
}

/* Frees the memory of the last request. A look-up has none, and does not call for it. */
static void clear_request(array_cursor *c) {
  for (uint32_t i = 0; i < c->plan.decoded.count; i++) clear_list(&c->request.lists[i]);
  for (int i = 0; i < 2; i++) {
    if (c->request.times[i]) sqlite3_value_free(c->request.times[i]);
    c->request.times[i] = NULL;
  }
  c->request.changed = NULL;
  c->request.expected = NULL;
  if (c->request.unchanged) tsr_unchanged_close(c->request.unchanged);
  c->request.unchanged = NULL;
  tsx_label_order_close(&c->labels.order);
  c->position.batch = NULL;
}

#define IDLE_MAX (256u << 10) /* bytes that the reader of an idle cursor may keep */

/* Returns true if a cursor that is being closed may become the table's idle cursor. A reader of uncommitted rows may
 * not, because these rows end with the transaction. While other cursors are open, the statement goes on and may reopen
 * this one: the reader keeps the tiles that it used last until the statement ends. */
static bool may_become_idle(const array_cursor *c) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  const bool goes_on = table->connection->statement.cursors > 1;
  if (table->cursors.idle) return false;
  if (!c->reader) return true;
  if (!c->state.snapshot || c->state.snapshot->transaction || tsr_reader_reset(c->reader, !goes_on) > IDLE_MAX)
    return false;
  table->connection->statement.tiles_kept |= goes_on;
  return true;
}

static void release_labels(array_cursor *c) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  for (uint32_t i = 0; i < table->label_count; i++) {
    tsx_label_state_release(c->labels.states[i]);
    c->labels.states[i] = NULL;
  }
}

void tsx_cursor_forget_tiles(tsx_table *table) {
  if (table->cursors.idle && table->cursors.idle->reader) (void)tsr_reader_reset(table->cursors.idle->reader, true);
}

int tsx_cursor_close(sqlite3_vtab_cursor *base) {
  array_cursor *c = (array_cursor *)base;
  tsx_table *table = (tsx_table *)base->pVtab;
  tsr_error unseen; /* expecting nothing cannot fail */
  count_rows(c);
  clear_request(c);
  if (c->reader) (void)tsr_reader_expect(c->reader, NULL, &unseen);
  release_labels(c);
  tsx_update_scan_ended(table, c->number);
  const bool becomes_idle = may_become_idle(c);
  tsx_snapshot_release(c->state.snapshot);
  tsx_snapshot_release(c->state.opened);
  c->state.snapshot = c->state.opened = NULL;
  if (becomes_idle) table->cursors.idle = c;
  else cursor_destroy(c);
  if (table->registered) table->registered->cursors--;
  tsx_connection_remove_cursor(table->connection);
  return SQLITE_OK;
}

/* ---- The plan and its times -------------------------------------------------------------------------------------- */

/* Decodes the plan, unless its text is the same as last time. */
static int decode_plan(array_cursor *c, const char *text, int count) {
  cursor_plan *kept = &c->plan;
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  if (!text) text = "";
  if (kept->text && !strcmp(kept->text, text)) return SQLITE_OK;
  sqlite3_free(kept->text);
  kept->decoded.count = 0;
  if (!(kept->text = sqlite3_mprintf("%s", text))) return SQLITE_NOMEM;
  if (tsx_index_plan_decode(table, text, &kept->decoded) != SQLITE_OK ||
      tsx_index_plan_arguments(&kept->decoded) != (uint32_t)count) {
    sqlite3_free(kept->text);
    kept->text = NULL;
    kept->decoded.count = 0;
    return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: the plan does not fit the table: %s", table->path, text);
  }
  memset(c->request.lists, 0, kept->decoded.count * sizeof *c->request.lists);
  return SQLITE_OK;
}

/* Reads the argument as_of (`which` 0) or since (1), and keeps it for xColumn. NULL leaves *time as it is. */
static int read_time(array_cursor *c, int which, sqlite3_value *value, uint64_t *time) {
  tsr_error error = {0};
  sqlite3_value_free(c->request.times[which]);
  c->request.times[which] = sqlite3_value_dup(value);
  if (!c->request.times[which]) return SQLITE_NOMEM;
  if (which == 1) {
    c->request.changed = sqlite3_value_pointer(value, TSX_CHANGED_POINTER);
    c->request.expected = sqlite3_value_pointer(value, TSX_EXPECTED_POINTER);
  }
  if (sqlite3_value_type(value) == SQLITE_NULL) return SQLITE_OK;
  return tsx_time_value(value, which ? "since" : "as_of", time, &error) < 0 ? cursor_fail(c, &error) : SQLITE_OK;
}

static int read_times(array_cursor *c, sqlite3_value **values, uint64_t *since, uint64_t *as_of) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  for (uint32_t i = 0; i < c->plan.decoded.count; i++) {
    const int column = c->plan.decoded.terms[i].column;
    int code = SQLITE_OK;
    if (column == TSX_AS_OF(table)) code = read_time(c, 0, values[i], as_of);
    else if (column == TSX_SINCE(table)) code = read_time(c, 1, values[i], since);
    else if (column >= (int)table->column_count && !tsx_label_column_at(table, column))
      code = tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: the plan names a column that is not a field", table->path);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

/* ---- The state to read, and its reader --------------------------------------------------------------------------- */

/* Finds the state to read. A cursor never shows what this transaction has written since xOpen, nor what others have
 * committed since the first xFilter. */
static int find_snapshot(array_cursor *c, uint64_t since, uint64_t as_of, tsx_snapshot **snapshot, tsr_error *error) {
  const cursor_state *state = &c->state;
  tsx_table *table = (tsx_table *)c->base.pVtab;
  const int sound = tsx_snapshot_check(state->opened ? state->opened : state->snapshot, error);
  if (sound < 0) return sound;
  if (c->request.changed)
    return tsx_array_snapshot_changed(table->connection, table->array, table->schema, &c->request.changed->core, as_of,
                                      state->opened != NULL, snapshot, error);
  if (state->opened && since == table->options.times.since && as_of == table->options.times.as_of) {
    *snapshot = state->opened;
    state->opened->cursors++;
    return TSR_OK;
  }
  if (state->snapshot && !state->snapshot->changed && state->snapshot->since == since &&
      state->snapshot->as_of == as_of) {
    *snapshot = state->snapshot;
    state->snapshot->cursors++;
    return TSR_OK;
  }
  return tsx_array_snapshot(table->connection, table->array, table->schema, since, as_of, state->opened != NULL,
                            snapshot, error);
}

/* Finds the attributes that were dropped since the table was connected; one of the same name that was added later is a
 * different attribute. A statement that uses a dropped one fails. A table with the option as_of keeps the columns of
 * that time. */
static int find_dropped(array_cursor *c, tsr_error *error) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  const tsr_schema *newest = table->schema;
  if (!table->options.times.has_as_of)
    TSX_TRY(tsr_array_schema_listed(table->array->core, TSR_TIME_NOW, &newest, error));
  if (newest == c->dropped.newest) return TSR_OK;
  c->dropped.newest = newest;
  for (uint32_t i = 0; i < table->column_count; i++) {
    c->dropped.columns[i] = newest != table->schema;
    for (uint32_t f = 0; c->dropped.columns[i] && f < newest->dimension_count + newest->attribute_count; f++)
      if (tsx_column_shows(&table->columns[i], &newest->fields[f])) c->dropped.columns[i] = false;
    if (!table->columns[i].has_every_cell || !tsx_column_never_null(&table->columns[i]) || c->dropped.columns[i])
      continue;
    /* It is declared NOT NULL. If it was dropped and added again meanwhile, cells written in between lack it. However
     * many schemas there are now, only those that are new since the table was connected have to be read. */
    const int always = tsr_array_always_has(table->array->core, table->columns[i].description, UINT64_MAX, error);
    if (always < 0) return always;
    c->dropped.columns[i] = !always;
  }
  return TSR_OK;
}

static int fail_dropped(array_cursor *c, int column) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: the attribute %s has been dropped: open the database again",
                       table->path, table->columns[column].name);
}

/* Opens a reader on the state that the statement sees, unless the present reader is open on it. */
static int open_reader(array_cursor *c, uint64_t since, uint64_t as_of, tsr_error *error) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  tsx_snapshot *snapshot = NULL;
  TSX_TRY(find_snapshot(c, since, as_of, &snapshot, error));
  tsx_snapshot_release(c->state.snapshot);
  c->state.snapshot = snapshot;
  if (c->reader && c->state.core == snapshot->core) return TSR_OK;
  tsr_reader_close(c->reader);
  c->reader = NULL;
  TSX_TRY(tsx_table_update_enumerations(table, error));
  TSX_TRY(find_dropped(c, error));
  TSX_TRY(tsx_table_check_codes(table, snapshot->core, error));
  c->state.core = snapshot->core;
  return tsr_reader_open(c->state.core, &c->reader, error);
}

/* If the statement wants changes only, leaves out the cells that show the same values at `before` and at as_of. */
static int open_unchanged(array_cursor *c, uint64_t as_of, tsr_error *error) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  const tsx_changed *changed = c->request.changed;
  tsx_snapshot *before = NULL, *after = NULL;
  if (!changed || !changed->columns) return TSR_OK;
  bool *compared = sqlite3_malloc64(table->schema->dimension_count + table->schema->attribute_count);
  if (!compared) return tsx_out_of_memory(error);
  memset(compared, 0, table->schema->dimension_count + table->schema->attribute_count);
  int found = 0;
  for (int i = 0; i < changed->column_count; i++)
    for (uint32_t k = 0; k < table->column_count; k++)
      if (!strcmp(table->columns[k].name, changed->columns[i])) {
        compared[table->columns[k].field] = true;
        found++;
      }
  int code = TSR_OK;
  if (found == changed->column_count) {
    code = tsx_array_snapshot(table->connection, table->array, table->schema, TSR_TIME_BEGIN, changed->before, false,
                              &before, error);
    if (code >= 0 && changed->merged)
      code = tsx_array_snapshot(table->connection, table->array, table->schema, TSR_TIME_BEGIN, as_of,
                                c->state.opened != NULL, &after, error);
    if (code >= 0)
      code = tsr_unchanged_open(before->core, after ? after->core : NULL, compared, table->options.limits.memory_bytes,
                                &c->request.unchanged, error);
  }
  tsx_snapshot_release(before);
  tsx_snapshot_release(after);
  sqlite3_free(compared);
  return code;
}

/* ---- Terms: comparisons become ranges ---------------------------------------------------------------------------- */

/* Reserves room for the ranges of one more comparison. Returns false if memory is lacking. */
static bool reserve_range(range_list *list) {
  if (list->count + TSX_RANGES_MAX <= list->room) return true;
  uint64_t room = list->room ? list->room * 2 : 16;
  tsr_range *ranges = sqlite3_realloc64(list->ranges, room * sizeof *ranges);
  if (ranges) list->ranges = ranges;
  void **values = sqlite3_realloc64(list->values, room * sizeof *values);
  if (values) list->values = values;
  if (!ranges || !values) return false;
  list->room = room;
  return true;
}

/* Appends copies of ranges, and of the values that they point to, which are valid only until the next member of the
 * list of an IN is read. Returns false if memory is lacking. */
static bool add_ranges(range_list *list, const tsx_ranges *made) {
  if (made->count == TSX_EVERYTHING) list->everything = true;
  for (int i = 0; i < made->count; i++) {
    if (!reserve_range(list)) return false;
    tsr_range range = made->ranges[i];
    uint64_t low = range.low ? (range.low_size ? range.low_size : 8) : 0;
    uint64_t high = range.high ? (range.high_size ? range.high_size : 8) : 0;
    bool text = range.low != made->values[i][0] && range.high != made->values[i][1];
    if (text) { /* both ends share the same text, which may be empty */
      low = range.low_size;
      high = 0;
    }
    uint8_t *copy = sqlite3_malloc64(low + high + 1);
    if (!copy) return false;
    if (range.low) memcpy(copy, range.low, low);
    if (range.high && !text) memcpy(copy + low, range.high, high);
    if (range.low) range.low = copy;
    if (range.high) range.high = text ? copy : copy + low;
    list->values[list->count] = copy;
    list->ranges[list->count++] = range;
  }
  return true;
}

static int add_list(array_cursor *c, uint32_t term, const tsx_column *column, sqlite3_value *value, unsigned rules) {
  range_list *list = &c->request.lists[term];
  sqlite3_value *member = NULL;
  tsx_ranges ranges;
  int code = SQLITE_OK;
  for (code = sqlite3_vtab_in_first(value, &member); code == SQLITE_OK && member;
       code = sqlite3_vtab_in_next(value, &member)) {
    tsx_ranges_make(column, TSX_IN, member, rules, &ranges);
    if (ranges.count == TSX_NO_MEMORY || !add_ranges(list, &ranges)) return SQLITE_NOMEM;
  }
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Adds the ranges of a term on an enumerated attribute: they are the codes whose values satisfy it. */
static int add_codes(array_cursor *c, uint32_t term, tsx_op op, const tsx_column *column, sqlite3_value *value,
                     unsigned rules) {
  range_list *list = &c->request.lists[term];
  tsx_codes codes = {0};
  sqlite3_value *member = NULL;
  int code;
  if (op == TSX_IN) {
    for (code = sqlite3_vtab_in_first(value, &member); code == SQLITE_OK && member;
         code = sqlite3_vtab_in_next(value, &member)) {
      int added = tsx_codes_add(column, TSX_EQ, false, false, member, rules, &codes);
      if (added != SQLITE_OK) {
        code = added;
        break;
      }
    }
    if (code == SQLITE_DONE) code = SQLITE_OK;
  } else {
    const tsx_term *taken = &c->plan.decoded.terms[term];
    code = tsx_codes_add(column, op, taken->nocase, taken->numeric, value, rules, &codes);
  }
  list->everything = codes.everything;
  for (uint64_t i = 0; i < codes.count && code == SQLITE_OK; i++) {
    uint8_t *copy = reserve_range(list) ? sqlite3_malloc(16) : NULL;
    if (copy) {
      memcpy(copy, codes.ranges[i], 16); /* little-endian: the low bytes are the value in any integer datatype */
      list->values[list->count] = copy;
      list->ranges[list->count++] = (tsr_range){.low = copy, .high = copy + 8};
    } else {
      code = SQLITE_NOMEM;
    }
  }
  sqlite3_free(codes.ranges);
  return code;
}

/* Adds the range of a comparison under NOCASE: a range of bytes that includes every text that satisfies it. */
static int add_nocase(array_cursor *c, uint32_t term, tsx_op op, sqlite3_value *value) {
  range_list *list = &c->request.lists[term];
  tsr_range range;
  void *memory;
  if (sqlite3_value_type(value) == SQLITE_NULL) return SQLITE_OK; /* no range: no row */
  const int count = tsx_nocase_range(op, value, &range, &memory);
  if (count == TSX_NO_MEMORY || !reserve_range(list)) {
    sqlite3_free(count > 0 ? memory : NULL);
    return SQLITE_NOMEM;
  }
  list->everything = count == TSX_EVERYTHING;
  if (count <= 0) return SQLITE_OK;
  if (c->plan.decoded.terms[term].numeric) tsx_numeric_range(&range);
  list->values[0] = memory;
  list->ranges[0] = range;
  list->count = 1;
  return SQLITE_OK;
}

/* Adds the ranges of a comparison of datetimes with text, in which values that are shown as integers count as text, too
 * (tsx_times_as_text). */
static int add_decimals(array_cursor *c, uint32_t term, tsx_op op, const tsx_column *column, sqlite3_value *value,
                        unsigned rules) {
  range_list *list = &c->request.lists[term];
  tsx_ranges ranges;
  tsx_ranges_make(column, op, value, rules, &ranges);
  for (int part = 0; part <= TSX_DECIMAL_PARTS; part++) {
    if (ranges.count == TSX_NO_MEMORY || !add_ranges(list, &ranges)) return SQLITE_NOMEM;
    if (part < TSX_DECIMAL_PARTS) tsx_times_decimals(column, op, value, rules, part, &ranges);
  }
  return SQLITE_OK;
}

/* Makes sets[term], the ranges of the column's values that can satisfy the term. Most terms need only the few ranges
 * that fit into values[term]; the others are collected in lists[term]. */
static int make_ranges(array_cursor *c, uint32_t term, const tsx_column *column, tsx_op op, sqlite3_value *value) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  tsr_ranges *set = &c->request.sets[term];
  const bool nocase = c->plan.decoded.terms[term].nocase;
  const unsigned rules =
      tsx_connection_text(table->connection) | (c->plan.decoded.terms[term].plainly ? TSX_SQLITE_RULES : 0);
  const bool decimals = column->form == TSX_DATETIME && tsx_times_as_text(column, op, value, rules);
  if (column->form == TSX_ENUMERATED || op == TSX_IN || nocase || decimals) {
    int code = decimals                         ? add_decimals(c, term, op, column, value, rules)
               : column->form == TSX_ENUMERATED ? add_codes(c, term, op, column, value, rules)
               : nocase                         ? add_nocase(c, term, op, value)
                                                : add_list(c, term, column, value, rules);
    if (code != SQLITE_OK) return code;
    *set = (tsr_ranges){.ranges = c->request.lists[term].ranges,
                        .count = c->request.lists[term].count,
                        .all = c->request.lists[term].everything};
  } else {
    tsx_ranges *ranges = &c->request.values[term];
    tsx_ranges_make(column, op, value, rules, ranges);
    if (ranges->count == TSX_NO_MEMORY) return SQLITE_NOMEM;
    for (int i = 0; i < ranges->count && c->plan.decoded.terms[term].numeric; i++)
      tsx_numeric_range(&ranges->ranges[i]);
    bool everything = ranges->count == TSX_EVERYTHING;
    *set = (tsr_ranges){.ranges = ranges->ranges, .count = everything ? 0 : (uint64_t)ranges->count, .all = everything};
  }
  return SQLITE_OK;
}

/* ---- Terms: ranges become a request ------------------------------------------------------------------------------ */

/* Restricts a dimension by a term's ranges, in addition to those of other terms. */
static void restrict_dimension(array_cursor *c, uint32_t term, uint32_t dimension) {
  tsr_ranges *first = &c->request.dimensions[dimension];
  c->request.sets[term].also = first->also;
  first->also = &c->request.sets[term];
}

static int apply_to_dimension(array_cursor *c, uint32_t term, sqlite3_value *value) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  const tsx_column *column = &table->columns[c->plan.decoded.terms[term].column];
  int code = make_ranges(c, term, column, c->plan.decoded.terms[term].op, value);
  if (code == SQLITE_OK) restrict_dimension(c, term, column->field);
  return code;
}

/* Sets the label's entry of labels.states to its state in the snapshot that the cursor reads. `values`: also loads the
 * label's values. */
static int use_label_state(array_cursor *c, tsx_label_column *label, bool values) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  tsx_label_state **state = &c->labels.states[label - table->labels];
  const tsx_snapshot *shown = c->state.snapshot;
  tsr_error error;
  tsx_error_init(&error);
  if (!*state || (*state)->since != shown->since || (*state)->as_of != shown->as_of) {
    tsx_label_state_release(*state);
    *state = NULL;
    if (tsx_label_state_take(table, label, shown->since, shown->as_of, state, &error) < 0)
      return cursor_fail(c, &error);
  }
  if (values && tsr_label_load((*state)->index, &error) < 0) return cursor_fail(c, &error);
  return SQLITE_OK;
}

/* Replaces ranges of a label's values by the intervals of its dimension that have such values. */
static int find_coordinates(array_cursor *c, uint32_t term, tsr_label_index *index) {
  tsr_ranges *set = &c->request.sets[term];
  range_list found = {0};
  uint64_t count = 0, room = set->count + 8;
  tsr_error error;
  tsr_interval *intervals;
  int code;
  do { /* coordinates without a label split the intervals */
    tsx_error_init(&error);
    intervals = sqlite3_malloc64(room * sizeof *intervals);
    code = intervals ? tsr_label_find(index, set, true, room, intervals, &count, &error) : TSR_NOMEM;
    if (code < 0) sqlite3_free(intervals);
    room *= 64;
  } while (code == TSR_RANGE);
  if (code < 0) return code == TSR_NOMEM ? SQLITE_NOMEM : cursor_fail(c, &error);
  found.ranges = sqlite3_malloc64((count + 1) * sizeof *found.ranges);
  found.values = sqlite3_malloc64((count + 1) * sizeof *found.values);
  if (!found.ranges || !found.values) {
    sqlite3_free(intervals);
    clear_list(&found);
    return SQLITE_NOMEM;
  }
  memset(found.values, 0, (count + 1) * sizeof *found.values);
  found.values[0] = intervals; /* all ranges point into this one block */
  for (uint64_t i = 0; i < count; i++)
    found.ranges[i] = (tsr_range){.low = intervals[i].low, .high = intervals[i].high};
  found.count = count;
  if (count == 0) sqlite3_free(intervals); /* clear_list frees as many values as there are ranges */
  clear_list(&c->request.lists[term]);
  c->request.lists[term] = found;
  *set = (tsr_ranges){.ranges = found.ranges, .count = found.count};
  return SQLITE_OK;
}

/* Applies all terms on a dimension label: the coordinates whose labels satisfy them become ranges of the dimension. One
 * search serves all terms, since BETWEEN is two of them. */
static int apply_to_label(array_cursor *c, tsx_label_column *label, int column, sqlite3_value **values) {
  const tsx_index_plan *plan = &c->plan.decoded;
  uint32_t first = plan->count;
  for (uint32_t i = plan->count; i-- > 0;) {
    const tsx_op op = plan->terms[i].op;
    if (plan->terms[i].column != column) continue;
    if (op == TSX_IS && sqlite3_value_type(values[i]) == SQLITE_NULL) continue; /* SQLite tests it */
    int code = use_label_state(c, label, false); /* also updates the values of the label's enumeration */
    if (code == SQLITE_OK) code = make_ranges(c, i, &label->column, op, values[i]);
    if (code != SQLITE_OK) return code;
    if (first < plan->count) c->request.sets[i].also = &c->request.sets[first];
    first = i;
  }
  if (first == plan->count) return SQLITE_OK;
  int code = find_coordinates(c, first, c->labels.states[label - ((tsx_table *)c->base.pVtab)->labels]->index);
  if (code == SQLITE_OK) restrict_dimension(c, first, label->dimension);
  return code;
}

/* Makes a term on an attribute a predicate. All terms on one attribute that have ranges share a predicate. */
static int apply_to_attribute(array_cursor *c, uint32_t term, sqlite3_value *value, bool utf16) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  cursor_request *r = &c->request;
  const tsx_term *taken = &c->plan.decoded.terms[term];
  const tsx_column *column = &table->columns[taken->column];
  tsx_op op = taken->op;
  tsr_predicate p = {.field = column->field, .nat_is_null = column->form == TSX_DATETIME || column->nat_is_null};
  if (op == TSX_IS && sqlite3_value_type(value) == SQLITE_NULL) op = TSX_ISNULL;
  if (op == TSX_ISNOT && sqlite3_value_type(value) == SQLITE_NULL) op = TSX_NOTNULL;
  if (op == TSX_ISNOT) { /* the negation of equality, if that is exact; else SQLite tests the term */
    const bool own_comparison = tsx_has_own_comparison(column) && !taken->plainly;
    if (!own_comparison && !tsx_ranges_exact(column, TSX_EQ, value, utf16)) return SQLITE_OK;
    op = TSX_EQ;
    p.negated = true;
  }
  if (op == TSX_ISNULL && column->form == TSX_ENUMERATED) { /* a code without a value reads as NULL, too */
    op = TSX_NOTNULL;
    p.negated = true;
  }
  if (column->form != TSX_ENUMERATED && (op == TSX_ISNULL || op == TSX_NOTNULL)) {
    p.kind = op == TSX_ISNULL ? TSR_PREDICATE_IS_NULL : TSR_PREDICATE_NOT_NULL;
    r->predicates[r->predicate_count++] = p;
    return SQLITE_OK;
  }
  int code = make_ranges(c, term, column, op, value);
  if (code != SQLITE_OK) return code;
  if (r->sets[term].all) return SQLITE_OK; /* the term excludes nothing, not even null: no predicate */
  for (uint32_t i = 0; i < r->predicate_count && !p.negated; i++)
    if (r->predicates[i].field == p.field && r->predicates[i].kind == TSR_PREDICATE_WITHIN &&
        !r->predicates[i].negated) {
      r->sets[term].also = r->predicates[i].ranges.also;
      r->predicates[i].ranges.also = &r->sets[term];
      return SQLITE_OK;
    }
  p.kind = TSR_PREDICATE_WITHIN;
  p.ranges = r->sets[term];
  r->predicates[r->predicate_count++] = p;
  return SQLITE_OK;
}

static int apply_terms(array_cursor *c, sqlite3_value **values) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  bool utf16 = tsx_connection_utf16(table->connection);
  c->request.predicate_count = 0;
  for (uint32_t d = 0; d < table->schema->dimension_count; d++) c->request.dimensions[d] = (tsr_ranges){.all = true};
  for (uint32_t i = 0; i < c->plan.decoded.count; i++) {
    const int column = c->plan.decoded.terms[i].column;
    if (column >= (int)table->column_count) continue;
    const int code = table->columns[column].description->is_dimension ? apply_to_dimension(c, i, values[i])
                                                                      : apply_to_attribute(c, i, values[i], utf16);
    if (code != SQLITE_OK) return code;
  }
  for (uint32_t i = 0; i < table->label_count; i++) {
    const int code = apply_to_label(c, &table->labels[i], TSX_WRITTEN_AT(table) + 1 + (int)i, values);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

/* ---- Order and LIMIT --------------------------------------------------------------------------------------------- */

/* Sets the order of the request, and from LIMIT and OFFSET how many rows are likely to be read. */
static void set_order(array_cursor *c, sqlite3_value **values, tsr_request *request) {
  const tsx_index_plan *plan = &c->plan.decoded;
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  for (uint32_t i = 0; i < plan->order_count; i++) {
    const tsx_label_column *label = tsx_label_column_at(table, plan->order[i].column);
    const bool descending = label && tsx_label_descends(table, label);
    c->request.order[i] =
        (tsr_sort){.dimension = label ? label->dimension : table->columns[plan->order[i].column].field,
                   .descending = plan->order[i].descending != descending};
  }
  request->order = c->request.order;
  request->order_count = plan->order_count;
  if (!plan->limit) return;
  sqlite3_int64 limit = sqlite3_value_int64(values[plan->count]), offset = 0;
  if (plan->offset) offset = sqlite3_value_int64(values[plan->count + 1]);
  if (limit > 0 && limit <= INT32_MAX && offset <= INT32_MAX) /* a greater limit says nothing */
    request->limit = (uint64_t)limit + (offset > 0 ? (uint64_t)offset : 0);
  if (plan->skip && offset > 0) c->position.skip = (uint64_t)offset;
}

/* Sets *sorts if the cursor must sort the rows itself, because rows may lack a label of the order. */
static int check_label_order(array_cursor *c, bool *sorts) {
  const tsx_index_plan *plan = &c->plan.decoded;
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  tsr_error error;
  tsx_error_init(&error);
  for (uint32_t i = 0; i < plan->order_count; i++) {
    tsx_label_column *label = tsx_label_column_at(table, plan->order[i].column);
    if (!label) continue;
    if (label->column.form != TSX_DATETIME && tsx_index_plan_excludes_null(plan, plan->order[i].column)) continue;
    const int code = use_label_state(c, label, true);
    if (code != SQLITE_OK) return code;
    const int whole = tsx_label_covers(label, c->labels.states[label - table->labels], c->state.core, &error);
    if (whole < 0) return cursor_fail(c, &error);
    *sorts |= !whole;
  }
  for (uint32_t i = 0; i < plan->order_count && *sorts; i++) { /* sorting needs their values, too */
    tsx_label_column *label = tsx_label_column_at(table, plan->order[i].column);
    const int code = label ? use_label_state(c, label, true) : SQLITE_OK;
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

/* ---- xFilter ----------------------------------------------------------------------------------------------------- */

/* Fetches the next batch that has rows behind those that OFFSET skips. */
static int cursor_advance(array_cursor *c) {
  cursor_position *p = &c->position;
  tsx_table *table = (tsx_table *)c->base.pVtab;
  tsr_error error;
  tsx_error_init(&error);
  int code;
  for (;;) {
    code = c->request.unchanged ? tsr_unchanged_next(c->request.unchanged, c->reader, &p->batch, &error)
                                : tsr_reader_next(c->reader, &p->batch, &error);
    if (code == 0 && (code = tsx_label_order_next(&c->labels.order, c->reader, &error)) > 0) continue;
    if (code <= 0 || p->skip < p->batch->count) break;
    p->skip -= p->batch->count;
  }
  if (code > 0 && c->request.changed && c->request.changed->places) {
    const int noted = tsr_places_add(c->request.changed->places, c->reader, p->batch, &error);
    if (noted < 0) code = noted;
  }
  p->row = p->first = p->skip;
  p->skip = 0;
  p->requested = 0;
  if (code <= 0) {
    p->batch = NULL;
    return code < 0 ? cursor_fail(c, &error) : SQLITE_OK;
  }
  memset(p->columns, 0, table->column_count * sizeof *p->columns);
  if (table->label_count > 0) memset(c->labels.coordinates, 0, table->label_count * sizeof *c->labels.coordinates);
  return SQLITE_OK;
}

int tsx_cursor_filter(sqlite3_vtab_cursor *base, int number, const char *text, int count, sqlite3_value **values) {
  array_cursor *c = (array_cursor *)base;
  tsx_table *table = (tsx_table *)base->pVtab;
  const tsx_index_plan *plan = &c->plan.decoded;
  tsr_error error;
  tsx_error_init(&error);
  if (c->number > table->cursors.filtered) table->cursors.filtered = c->number;
  count_rows(c);
  clear_request(c);
  uint64_t since = table->options.times.since, as_of = table->options.times.as_of;
  int code = decode_plan(c, text, count);
  if (code == SQLITE_OK) code = read_times(c, values, &since, &as_of);
  if (code != SQLITE_OK) return code;
  if (open_reader(c, since, as_of, &error) < 0 || tsr_reader_expect(c->reader, c->request.expected, &error) < 0 ||
      open_unchanged(c, as_of, &error) < 0)
    return cursor_fail(c, &error);
  if ((code = apply_terms(c, values)) != SQLITE_OK) return code;
  for (uint32_t i = 0; i < plan->count; i++)
    if (plan->terms[i].column < (int)table->column_count && c->dropped.columns[plan->terms[i].column])
      return fail_dropped(c, plan->terms[i].column);
  tsr_request request = {.dimensions = c->request.dimensions,
                         .fields = c->fields,
                         .likely = c->likely,
                         .predicates = c->request.predicates,
                         .predicate_count = c->request.predicate_count,
                         .distinct = plan->distinct,
                         .fill_unwritten = table->options.shows.fill_unwritten,
                         .times = true,
                         .memory_bytes = table->options.limits.memory_bytes,
                         .threads = table->options.limits.threads};
  c->position.skip = 0;
  set_order(c, values, &request);
  bool sorts = false;
  if ((code = check_label_order(c, &sorts)) != SQLITE_OK) return code;
  code = sorts ? tsx_label_order_open(&c->labels.order, table, c->labels.states, plan, c->reader, &request, &error)
               : tsr_reader_start(c->reader, &request, &error);
  return code < 0 ? cursor_fail(c, &error) : cursor_advance(c);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static int fail_rolled_back(array_cursor *c) {
  tsr_error error = {0};
  (void)tsx_snapshot_check(c->state.snapshot, &error);
  return cursor_fail(c, &error);
}

int tsx_cursor_next(sqlite3_vtab_cursor *base) {
  array_cursor *c = (array_cursor *)base;
  c->position.requested = 0;
  if (c->state.snapshot->undone) return fail_rolled_back(c);
  if (++c->position.row < c->position.batch->count) return SQLITE_OK;
  count_rows(c);
  return cursor_advance(c);
}

int tsx_cursor_eof(sqlite3_vtab_cursor *base) { return !((array_cursor *)base)->position.batch; }

static uint64_t cell_index(const cursor_position *p) {
  return p->batch->selection ? p->batch->selection[p->row] : p->batch->first + p->row;
}

static int64_t rowid_of(const cursor_position *p) {
  uint64_t i = cell_index(p);
  return p->batch->rowids ? p->batch->rowids[i] : p->batch->row_base + (int64_t)i;
}

/* Records which hidden columns of a row, and whether its rowid, SQLite has requested. A statement that requests all of
 * them is an UPDATE, whose scan has chosen this row; update.c remembers the row. (A SELECT that names them all is not;
 * but unless the transaction writes the database, nothing is remembered.) A DELETE requests the rowid only. Its rows
 * matter if the array allows duplicates, and only within a transaction: outside of one, its commit follows at once. */
#define REQUESTED_ROWID 8u
#define REQUESTED_ALL   15u
static void note_requested(array_cursor *c, unsigned what) {
  cursor_position *p = &c->position;
  tsx_table *table = (tsx_table *)c->base.pVtab;
  if (p->requested == REQUESTED_ALL) return;
  p->requested |= what;
  if (what == REQUESTED_ROWID && table->schema->allows_duplicates && !sqlite3_get_autocommit(table->connection->db))
    p->requested = REQUESTED_ALL;
  if (p->requested != REQUESTED_ALL) return;
  if (!table->schema->dense && sqlite3_txn_state(table->connection->db, table->schema_name) == SQLITE_TXN_WRITE)
    tsx_update_record_row(table, c->number, rowid_of(p));
}

/* as_of and since return exactly the value that was passed, because SQLite may test the comparison again; else NULL. */
static int hidden_column(array_cursor *c, sqlite3_context *context, int column) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  note_requested(c, 1u << (column - TSX_AS_OF(table)));
  if (sqlite3_vtab_nochange(context)) return SQLITE_OK;
  if (column == TSX_WRITTEN_AT(table)) {
    const tsr_batch *batch = c->position.batch;
    uint64_t time = batch->times ? batch->times[cell_index(&c->position)] : batch->time;
    if (batch->written && time != UINT64_MAX) /* UINT64_MAX: written by this transaction, so it has no time yet */
      sqlite3_result_int64(context, (sqlite3_int64)time);
    else if (c->request.changed) sqlite3_result_int64(context, TSX_OWN_TIME);
  } else if (c->request.times[column - TSX_AS_OF(table)]) {
    sqlite3_result_value(context, c->request.times[column - TSX_AS_OF(table)]);
  }
  return SQLITE_OK;
}

static int fetch_column(array_cursor *c, int column) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  const tsx_column *shows = &table->columns[column];
  batch_column *current = &c->position.columns[column];
  tsr_error error;
  tsx_error_init(&error);
  if (c->dropped.columns[column]) return fail_dropped(c, column);
  if (tsr_reader_column(c->reader, shows->field, &current->cells, &error) < 0) return cursor_fail(c, &error);
  c->fields[shows->field] = true;
  const tsr_column *cells = current->cells;
  if (!cells->unwritten && !cells->validity && !shows->nat_is_null && tsx_form_is_number(shows->form))
    current->numbers = cells->values;
  return SQLITE_OK;
}

static int label_value(array_cursor *c, sqlite3_context *context, tsx_label_column *label) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  const uint32_t number = (uint32_t)(label - table->labels);
  if (sqlite3_vtab_nochange(context)) return SQLITE_OK;
  if (!c->labels.coordinates[number]) {
    tsr_error error;
    tsx_error_init(&error);
    const int code = use_label_state(c, label, true);
    if (code != SQLITE_OK) return code;
    if (tsr_reader_column(c->reader, label->dimension, &c->labels.coordinates[number], &error) < 0)
      return cursor_fail(c, &error);
  }
  tsx_label_result(context, label, c->labels.states[number], c->labels.coordinates[number], cell_index(&c->position));
  return SQLITE_OK;
}

static void number_value(const array_cursor *c, sqlite3_context *context, int column) {
  const tsx_table *table = (const tsx_table *)c->base.pVtab;
  const batch_column *current = &c->position.columns[column];
  const uint64_t cell = current->cells->constant ? 0 : cell_index(&c->position);
  tsx_number_result(context, table->columns[column].form, current->numbers, cell);
}

/* Returns any value that number_value cannot: of a column that the batch has not fetched yet, of text, of a label, ...
 * Not inlined, so that tsx_cursor_column, which a scan calls for each value, saves few registers. */
static __attribute__((noinline)) int slow_value(array_cursor *c, sqlite3_context *context, int column) {
  tsx_table *table = (tsx_table *)c->base.pVtab;
  tsx_label_column *label = tsx_label_column_at(table, column);
  if (label) return label_value(c, context, label);
  if (column >= (int)table->column_count) return hidden_column(c, context, column);
  if (sqlite3_vtab_nochange(context)) return SQLITE_OK; /* xUpdate keeps the cell's bytes */
  const batch_column *current = &c->position.columns[column];
  const tsx_column *shows = &table->columns[column];
  if (!current->cells) {
    const int code = fetch_column(c, column);
    if (code != SQLITE_OK) return code;
  }
  if (current->numbers) {
    number_value(c, context, column);
    return SQLITE_OK;
  }
  const uint64_t cell = cell_index(&c->position);
  const bool fill_unwritten = table->options.shows.fill_unwritten;
  if (shows->knows_every_code && tsx_column_is_null(shows, current->cells, cell, fill_unwritten)) {
    tsr_error error; /* a cell of this transaction, through a table that shows codes */
    tsx_error_init(&error);
    tsx_table_fail_code(table, shows, &error);
    return cursor_fail(c, &error);
  }
  tsx_column_result(context, shows, current->cells, cell, fill_unwritten);
  return SQLITE_OK;
}

int tsx_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number) {
  array_cursor *c = (array_cursor *)base;
  const tsx_table *table = (const tsx_table *)base->pVtab;
  const int column = tsx_column_own(table, number);
  if (column >= (int)table->column_count || !c->position.columns[column].numbers) return slow_value(c, context, column);
  if (!sqlite3_vtab_nochange(context)) number_value(c, context, column); /* else xUpdate keeps the cell's bytes */
  return SQLITE_OK;
}

static bool is_given(sqlite3_value *time) { return time && sqlite3_value_type(time) != SQLITE_NULL; }

int tsx_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  array_cursor *c = (array_cursor *)base;
  if (c->plan.decoded.distinct) /* SQLite said that one of equal rows suffices, but their rowids differ */
    return tsx_vtab_fail(base->pVtab, SQLITE_ERROR,
                         "%s: SELECT DISTINCT with a rowid in its WHERE: put SELECT DISTINCT around a subquery that "
                         "has the WHERE and ends with LIMIT -1",
                         ((tsx_table *)base->pVtab)->path);
  ((tsx_table *)base->pVtab)->cursors.read_at_other_time =
      is_given(c->request.times[0]) || is_given(c->request.times[1]);
  *rowid = rowid_of(&c->position);
  note_requested(c, REQUESTED_ROWID);
  return SQLITE_OK;
}
