/* constraints.c: CHECK constraints: reads those of an array, tests cells, finds cells that break one, adds and drops.
 *
 * A constraint becomes a program for its negation, as a query's WHERE would be: the cells for which that is true break
 * it, and those for which it is false or null do not. Cells are tested in blocks of TSR_BLOCK_CELLS.
 *
 * Sections: making items; opening; blocks of cells; messages; testing; finding; changing.
 */
#include "write/writer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "base/encoding.h"
#include "define/define.h"
#include "model/datatype.h"
#include "read/reader.h"
#include "tessera_host.h"

/* ---- Making items ------------------------------------------------------------------------------------------------ */

/* Appends NOT to the expression. */
static int negate_expression(tsr_constraint_set *set, tsr_expression *expression, tsr_error *error) {
  const uint32_t count = expression->count;
  tsr_node *nodes;
  uint32_t *operand;
  if (count == TSR_EXPRESSION_NODES) return tsr__fail(error, TSR_ERROR, "it is too long");
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, (uint64_t)count + 1, &nodes, error));
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, 1, &operand, error));
  memcpy(nodes, expression->nodes, count * sizeof *nodes);
  *operand = count - 1;
  nodes[count] = (tsr_node){.operation = TSR_OP_NOT, .operands = operand, .operand_count = 1};
  *expression = (tsr_expression){.nodes = nodes, .count = count + 1};
  return TSR_OK;
}

static int check_types(const tsr_constraint_set *set, const tsr_expression *expression, tsr_error *error) {
  tsr_value_type types[TSR_EXPRESSION_NODES];
  tsr_expression_fault fault;
  uint32_t node;
  const int rc = tsr_expression_types(set->schema, expression, types, &node, &fault, error);
  if (rc != TSR_MISMATCH) return rc;
  if (node + 1 == expression->count) return tsr__fail(error, TSR_ERROR, "not a condition: compare it with something");
  switch (fault) {
  case TSR_FAULT_TEXT_NUMBER: return tsr__fail(error, TSR_ERROR, "it compares a number with a text");
  case TSR_FAULT_MIXED: return tsr__fail(error, TSR_ERROR, "its branches differ in type: CAST one of them");
  default: return tsr__fail(error, TSR_ERROR, "one of its operators does not apply to the types of its operands");
  }
}

static int compile_item(tsr_constraint_set *set, tsr_constraint_item *item, uint64_t size, tsr_error *error) {
  tsr_expression expression;
  TSR_TRY(tsr__constraint_parse(set->schema, item->shown.text, size, &set->arena, &expression, error));
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, set->fields + UINT64_C(1), &item->reads, error));
  for (uint32_t f = 0; f < set->fields; f++) item->reads[f] = tsr__constraint_reads(&expression, f);
  TSR_TRY(negate_expression(set, &expression, error));
  TSR_TRY(check_types(set, &expression, error));
  item->expression = expression;
  const tsr_expression *all[] = {&item->expression};
  TSR_TRY(tsr__program_make(set->schema, all, 1, &set->arena, &item->program, error));
  return tsr__scratch_make(item->program, &set->arena, &item->scratch, error);
}

/* Adds a constraint. If it cannot be read, the item has a fault, and the error says so. */
static int add_item(tsr_constraint_set *set, const char *name, uint64_t name_size, const char *text, uint64_t text_size,
                    tsr_error *error) {
  tsr_constraint_item *item = &set->items[set->count];
  char *copy, *words, *fault;
  *item = (tsr_constraint_item){0};
  TSR_TRY(TSR_ARENA_COPY(&set->arena, name, name_size, &copy, error));
  TSR_TRY(TSR_ARENA_COPY(&set->arena, text, TSR_MIN(text_size, TSR_CONSTRAINT_TEXT + 1), &words, error));
  item->shown = (tsr_constraint){.name = copy, .text = words};
  const bool named = name_size <= TSR_CONSTRAINT_NAME && !memchr(name, 0, name_size);
  const int rc = named && tsr__is_utf8((const uint8_t *)name, name_size)
                     ? compile_item(set, item, text_size, error)
                     : tsr__fail(error, TSR_ERROR, "its name is not a text of at most %d bytes", TSR_CONSTRAINT_NAME);
  set->count++;
  if (rc >= 0) return rc;
  item->expression.count = 0;
  TSR_TRY(TSR_ARENA_COPY(&set->arena, error->message, strlen(error->message), &fault, error));
  item->shown.fault = fault;
  return rc;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* An item for each constraint in the metadata. Only a lack of memory is an error here. */
static int add_items(tsr_constraint_set *set, const tsr_metadata *all, tsr_error *error) {
  for (uint64_t i = 0; i < all->count; i++) {
    const tsr_metadatum *entry = &all->entries[i];
    const uint64_t size = tsr__constraint_name_size(entry);
    tsr_error fault = {0};
    if (!size) continue;
    if (set->count == TSR_CONSTRAINTS_MAX)
      return tsr__fail(error, TSR_ERROR, "more than %d CHECK constraints", TSR_CONSTRAINTS_MAX);
    const tsr_text_value text = tsr__constraint_text(entry);
    const int rc = add_item(set, entry->key + strlen(TSR_CONSTRAINT_KEY), size, text.bytes, text.size, &fault);
    if (rc < 0 && rc != TSR_ERROR) {
      *error = fault;
      return rc;
    }
  }
  return TSR_OK;
}

static bool has_any(const tsr_metadata *all) {
  for (uint64_t i = 0; i < all->count; i++)
    if (tsr__constraint_name_size(&all->entries[i])) return true;
  return false;
}

static int open_set(tsr_constraint_set *set, tsr_array *array, const tsr_metadata *all, tsr_error *error) {
  const tsr_enumeration *loaded;
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, TSR_CONSTRAINTS_MAX + 1, &set->items, error));
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, set->fields + UINT64_C(1), &set->inputs, error));
  TSR_TRY(TSR_ARENA_RAW(&set->arena, TSR_BLOCK_CELLS, &set->broken, error));
  for (uint32_t i = 0; i < set->schema->enumeration_count; i++)
    if (!set->schema->enumerations[i].loaded) /* one of a schema that is tried has no file yet */
      TSR_TRY(tsr_array_enumeration(array, set->schema, set->schema->enumerations[i].name, &loaded, error));
  return add_items(set, all, error);
}

/* Reads the metadata of an array in a bucket, as listed together with its commits if that was a moment ago and this
 * environment has changed none since. */
static int read_listed(tsr_array *array, tsr_metadata **all, tsr_error *error) {
  tsr_listing listed;
  const bool taken = tsr__log_take_metadata(&array->log, &listed);
  const int rc = tsr__metadata_open(array->environment, array->store, tsr__array_key(array), taken ? &listed : NULL,
                                    TSR_TIME_BEGIN, TSR_TIME_NOW, all, error);
  if (taken) tsr__listing_release(&listed);
  if (rc >= 0) return rc;
  const int damage = tsr__damage(rc, error);
  if (damage != TSR_CORRUPT) return tsr__wrap(error, "metadata of array %s", array->path);
  const tsr_error one = *error;
  return tsr__fail(error, TSR_CORRUPT,
                   "damaged metadata do not say which CHECK constraints hold (%.300s), so writes are refused: restore "
                   "that file, or remove it, whose metadata are then lost",
                   one.message);
}

/* Reads the metadata. While the directory is as it was when it had no constraint, nothing is read, and *all is NULL. */
static int read_metadata(tsr_array *array, tsr_metadata **all, tsr_error *error) {
  tsr_stamp now = {0};
  *all = NULL;
  if (!array->store->stamps_are_listings) TSR_TRY(tsr__store_stamp(array->store, TSR_DIR_META, &now, error));
  if (now.known && tsr__same_stamp(&array->unconstrained, &now)) return TSR_OK;
  TSR_TRY(read_listed(array, all, error));
  array->unconstrained = has_any(*all) ? (tsr_stamp){0} : now;
  return TSR_OK;
}

int tsr__constraints_open(tsr_array *array, const tsr_schema *schema, tsr_memory *memory, tsr_constraint_set **set,
                          tsr_error *error) {
  tsr_metadata *all;
  tsr_constraint_set *made;
  TSR_TRY(read_metadata(array, &all, error));
  int rc = TSR_ALLOC(memory, &made, error);
  if (rc >= 0) {
    tsr__arena_init(&made->arena, memory);
    made->schema = schema;
    made->fields = schema->dimension_count + schema->attribute_count;
    if (all && has_any(all)) rc = open_set(made, array, all, error);
    if (rc < 0) tsr__constraints_close(made);
  }
  tsr_metadata_close(all);
  if (rc >= 0) *set = made;
  return rc;
}

void tsr__constraints_close(tsr_constraint_set *set) {
  if (!set) return;
  tsr__arena_release(&set->arena);
  tsr__free(set);
}

int tsr_array_constraints(tsr_array *array, tsr_constraints **constraints, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *schema;
  tsr_constraint_set *set = NULL;
  tsr_constraint *shown = NULL;
  int rc = tsr_array_schema(array, TSR_TIME_NOW, &schema, error);
  if (rc >= 0) rc = tsr__constraints_open(array, schema, &array->memory, &set, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&set->arena, set->count + UINT64_C(1), &shown, error);
  if (rc < 0) {
    tsr__constraints_close(set);
    return tsr__wrap(error, "array %s", array->path);
  }
  for (uint32_t i = 0; i < set->count; i++) shown[i] = set->items[i].shown;
  set->shown = (tsr_constraints){.count = set->count, .constraints = shown};
  *constraints = &set->shown;
  return TSR_OK;
}

void tsr_constraints_close(tsr_constraints *constraints) { tsr__constraints_close((tsr_constraint_set *)constraints); }

/* ---- Blocks of cells --------------------------------------------------------------------------------------------- */

/* Writes coordinates of dimension `d` for `count` cells of a box, from cell `first` on. */
static void fill_coordinates(const tsr_schema *schema, const tsr_constraint_cells *cells, uint32_t d, uint64_t first,
                             uint32_t count, uint8_t *out) {
  const tsr_datatype datatype = schema->fields[d].datatype;
  const uint64_t size = tsr_datatype_size(datatype), low = tsr__key(datatype, cells->box[d].low);
  const bool last_fastest = !cells->array_order || schema->cell_order != TSR_ORDER_COL;
  const uint64_t length = tsr__key(datatype, cells->box[d].high) - low; /* less 1, as it may be 2^64 */
  uint64_t stride = 1;
  for (uint32_t i = last_fastest ? d + 1 : 0; i < (last_fastest ? schema->dimension_count : d); i++) {
    const tsr_datatype other = schema->fields[i].datatype;
    stride *= tsr__key(other, cells->box[i].high) - tsr__key(other, cells->box[i].low) + 1;
  }
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t step = (first + i) / stride;
    tsr__key_value(datatype, low + (length == UINT64_MAX ? step : step % (length + 1)), out + i * size);
  }
}

static int make_room(tsr_constraint_set *set, tsr_error *error) {
  if (set->coordinates) return TSR_OK;
  uint64_t **made;
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, set->schema->dimension_count, &made, error));
  for (uint32_t d = 0; d < set->schema->dimension_count; d++)
    TSR_TRY(TSR_ARENA_RAW(&set->arena, TSR_BLOCK_CELLS, &made[d], error));
  set->coordinates = made;
  return TSR_OK;
}

/* Sets the inputs for a block, of the fields that some constraint reads, or of all dimensions, too. */
static void set_inputs(tsr_constraint_set *set, const tsr_constraint_cells *cells, uint64_t at, uint32_t count,
                       const bool *reads, bool dimensions) {
  for (uint32_t f = 0; f < set->fields; f++) {
    const bool is_dimension = f < set->schema->dimension_count;
    tsr_block_input *input = &set->inputs[f];
    if (!reads[f] && !(dimensions && is_dimension)) continue;
    if (cells->box && is_dimension) {
      fill_coordinates(set->schema, cells, f, at, count, (uint8_t *)set->coordinates[f]);
      *input =
          (tsr_block_input){.column = {.values = set->coordinates[f], .cell_size = set->schema->fields[f].cell_size}};
      continue;
    }
    *input = (tsr_block_input){.column = cells->columns[f], .null = cells->columns[f].unwritten};
    if (cells->selection) input->selection = cells->selection + at;
    else input->first = cells->first + at;
  }
}

/* Finds the cells of a block that break a constraint: set->broken. */
static int select_broken(tsr_constraint_set *set, const tsr_constraint_item *item, const tsr_constraint_cells *cells,
                         uint64_t at, uint32_t count, uint32_t *broken, tsr_error *error) {
  set_inputs(set, cells, at, count, item->reads, false);
  return tsr__program_select(item->program, item->scratch, set->inputs, count, set->broken, broken, error);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

#define TEXT_SHOWN 60 /* bytes of a text */

/* Appends the label of a code. Returns false if the constraint has no table of labels for the field. */
static bool print_label(const tsr_constraint_item *item, uint32_t field, const uint8_t *value, tsr_datatype datatype,
                        tsr_buffer *out) {
  uint64_t code = 0;
  memcpy(&code, value, tsr_datatype_size(datatype));
  for (uint32_t n = 0; n < item->expression.count; n++) {
    const tsr_node *node = &item->expression.nodes[n];
    if (node->operation != TSR_OP_TABLE || node->field != field || code >= node->table->count) continue;
    const tsr_text_value *text = &node->table->values[code].as.text;
    (void)tsr__buffer_printf(out, NULL, "'%.*s'", (int)tsr_utf8_cut(text->bytes, text->size, TEXT_SHOWN), text->bytes);
    return true;
  }
  return false;
}

/* Appends a number, with as few digits as tell it apart. */
static void print_real(tsr_datatype datatype, const uint8_t *value, tsr_buffer *out) {
  double real;
  float narrow;
  char text[TSR_REAL_SIZE];
  memcpy(&narrow, value, sizeof narrow);
  if (datatype == TSR_FLOAT32) real = (double)narrow;
  else memcpy(&real, value, sizeof real);
  for (int digits = datatype == TSR_FLOAT32 ? 6 : 15; digits <= 17; digits++) {
    char local[TSR_REAL_SIZE];
    snprintf(local, sizeof local, "%.*g", digits, real);
    const double back = strtod(local, NULL);
    tsr_real_print(real, digits, text);
    if (datatype == TSR_FLOAT32 ? (float)back == narrow : back == real) break;
  }
  (void)tsr__buffer_printf(out, NULL, "%s", text);
}

/* Appends the value of a field in row `row` of the present block. */
static void print_value(const tsr_constraint_set *set, const tsr_constraint_item *item, uint32_t f, uint32_t row,
                        tsr_buffer *out) {
  const tsr_field *field = &set->schema->fields[f];
  const tsr_block_input *input = &set->inputs[f];
  const tsr_column *column = &input->column;
  const uint64_t at = column->constant ? 0 : input->selection ? input->selection[row] : input->first + row;
  const uint8_t *values = column->values;
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  char text[64];
  if (input->null || (column->validity && !column->validity[at])) {
    (void)tsr__buffer_printf(out, NULL, "NULL");
  } else if (kind == TSR_KIND_TEXT && tsr_datatype_size(field->datatype) == 1) {
    const uint64_t begin = column->offsets ? column->offsets[at] : at * field->cell_size;
    const uint64_t size = column->offsets ? column->offsets[at + 1] - begin : field->cell_size;
    (void)tsr__buffer_printf(out, NULL, "'%.*s'", (int)tsr_utf8_cut(values + begin, size, TEXT_SHOWN),
                             (const char *)values + begin);
  } else if (kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || field->values_per_cell != 1) {
    (void)tsr__buffer_printf(out, NULL, "not NULL");
  } else {
    const uint8_t *value = values + at * tsr_datatype_size(field->datatype);
    if (field->enumeration && print_label(item, f, value, field->datatype, out)) return;
    if (kind == TSR_KIND_FLOAT) {
      print_real(field->datatype, value, out);
      return;
    }
    tsr__value_print(field->duration ? TSR_INT64 : field->datatype, value, text, sizeof text);
    (void)tsr__buffer_printf(out, NULL, "%s", text);
  }
}

/* Appends "low is 4, high is 3.5 at day=1, lat=47" of a cell that breaks a constraint: row `row` of the block from cell
 * `at` on. `before` comes first, unless the constraint reads dimensions only. */
static void print_cell(tsr_constraint_set *set, const tsr_constraint_item *item, const tsr_constraint_cells *cells,
                       uint64_t at, uint32_t count, uint32_t row, const char *before, tsr_buffer *out) {
  bool any = false;
  set_inputs(set, cells, at, count, item->reads, true);
  for (uint32_t f = set->schema->dimension_count; f < set->fields; f++) {
    if (!item->reads[f]) continue;
    (void)tsr__buffer_printf(out, NULL, "%s%s is ", any ? ", " : before,
                             tsr__shown_name(set->schema->fields[f].name).text);
    print_value(set, item, f, row, out);
    any = true;
  }
  for (uint32_t d = 0; d < set->schema->dimension_count; d++) {
    (void)tsr__buffer_printf(out, NULL, "%s%s=",
                             d     ? ", "
                             : any ? " at "
                                   : "at ",
                             tsr__shown_name(set->schema->fields[d].name).text);
    print_value(set, item, d, row, out);
  }
}

static int fail_broken(tsr_constraint_set *set, const tsr_constraint_item *item, const tsr_constraint_cells *cells,
                       uint64_t at, uint32_t count, tsr_error *error) {
  tsr_buffer out = {.memory = set->arena.memory};
  print_cell(set, item, cells, at, count, set->broken[0], "", &out);
  tsr__fail(error, TSR_CHECK, "CHECK constraint failed: %s: %.200s%s: %.400s", tsr__shown_name(item->shown.name).text,
            item->shown.text, strlen(item->shown.text) > 200 ? "..." : "", out.size ? (const char *)out.data : "");
  tsr__buffer_release(&out);
  return TSR_CHECK;
}

static int fail_unread(const tsr_constraint_item *item, tsr_error *error) {
  return tsr__fail(error, TSR_ERROR, "the CHECK '%s' cannot be read by this version: %.400s: writes are refused",
                   tsr__shown_name(item->shown.name).text, item->shown.fault);
}

/* ---- Testing ----------------------------------------------------------------------------------------------------- */

static bool concerns(const tsr_constraint_set *set, const tsr_constraint_item *item, const bool *changed) {
  bool any = !changed;
  for (uint32_t f = 0; f < set->fields && !any; f++) any = changed[f] && item->reads[f];
  return any;
}

static int test_item(tsr_constraint_set *set, const tsr_constraint_item *item, const tsr_constraint_cells *cells,
                     tsr_error *error) {
  for (uint64_t at = 0; at < cells->count; at += TSR_BLOCK_CELLS) {
    const uint32_t count = (uint32_t)TSR_MIN(cells->count - at, TSR_BLOCK_CELLS);
    uint32_t broken = 0;
    const int rc = select_broken(set, item, cells, at, count, &broken, error);
    if (rc < 0) return tsr__wrap(error, "the CHECK '%s' cannot be evaluated", tsr__shown_name(item->shown.name).text);
    if (broken) return fail_broken(set, item, cells, at, count, error);
  }
  return TSR_OK;
}

int tsr__constraints_test(tsr_constraint_set *set, const tsr_constraint_cells *cells, const bool *changed,
                          tsr_error *error) {
  if (cells->box && set->count) TSR_TRY(make_room(set, error));
  for (uint32_t i = 0; i < set->count; i++) {
    const tsr_constraint_item *item = &set->items[i];
    if (item->shown.fault) return fail_unread(item, error);
    if (concerns(set, item, changed)) TSR_TRY(test_item(set, item, cells, error));
  }
  return TSR_OK;
}

/* Reads the constraints of the writer's array, unless the writer has those of now. */
static int read_constraints(tsr_writer *w, tsr_error *error) {
  tsr_writer_constraints *own = &w->constraints;
  if (own->set && own->changes != w->array->environment->metadata_changes) tsr__writer_forget_constraints(w);
  if (own->set) return TSR_OK;
  own->changes = w->array->environment->metadata_changes;
  return tsr__constraints_open(w->array, w->schema, &w->memory, &own->set, error);
}

int tsr__writer_test(tsr_writer *writer, const tsr_constraint_cells *cells, const bool *changed, tsr_error *error) {
  if (tsr__writer_untested(writer)) return TSR_OK;
  TSR_TRY(read_constraints(writer, error));
  return tsr__constraints_test(writer->constraints.set, cells, changed, error);
}

/* Marks the cells that break one constraint. */
static int mark_broken(tsr_constraint_set *set, const tsr_constraint_item *item, const tsr_constraint_cells *cells,
                       uint8_t *broken, tsr_error *error) {
  for (uint64_t at = 0; at < cells->count; at += TSR_BLOCK_CELLS) {
    const uint32_t block = (uint32_t)TSR_MIN(cells->count - at, TSR_BLOCK_CELLS);
    uint32_t found = 0;
    const int rc = select_broken(set, item, cells, at, block, &found, error);
    if (rc < 0) return tsr__wrap(error, "the CHECK '%s' cannot be evaluated", tsr__shown_name(item->shown.name).text);
    for (uint32_t i = 0; i < found; i++) broken[at + set->broken[i]] = 1;
  }
  return TSR_OK;
}

/* Makes the message of a cell that breaks some constraint. */
static int tell_broken(tsr_constraint_set *set, const tsr_constraint_cells *cells, uint64_t cell, tsr_error *why,
                       tsr_error *error) {
  const uint64_t at = cell / TSR_BLOCK_CELLS * TSR_BLOCK_CELLS;
  const uint32_t block = (uint32_t)TSR_MIN(cells->count - at, TSR_BLOCK_CELLS);
  for (uint32_t i = 0; i < set->count; i++) {
    uint32_t found = 0;
    TSR_TRY(select_broken(set, &set->items[i], cells, at, block, &found, error));
    for (uint32_t k = 0; k < found; k++) {
      if (set->broken[k] != cell - at) continue;
      set->broken[0] = set->broken[k];
      (void)fail_broken(set, &set->items[i], cells, at, block, why);
      return TSR_OK;
    }
  }
  return TSR_OK;
}

int tsr__writer_broken(tsr_writer *writer, const tsr_constraint_cells *cells, uint8_t *broken, uint64_t *count,
                       tsr_error *first, tsr_error *error) {
  memset(broken, 0, cells->count);
  *count = 0;
  if (tsr__writer_untested(writer)) return TSR_OK;
  TSR_TRY(read_constraints(writer, error));
  tsr_constraint_set *set = writer->constraints.set;
  for (uint32_t i = 0; i < set->count; i++) {
    if (set->items[i].shown.fault) return fail_unread(&set->items[i], error);
    TSR_TRY(mark_broken(set, &set->items[i], cells, broken, error));
  }
  for (uint64_t i = 0; i < cells->count; i++) {
    if (broken[i] && *count == 0) TSR_TRY(tell_broken(set, cells, i, first, error));
    *count += broken[i];
  }
  return TSR_OK;
}

int tsr_writer_test(tsr_writer *writer, const tsr_column *columns, const bool *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_constraint_cells cells = {.columns = columns, .count = 1};
  return tsr__writer_wrap(writer, tsr__writer_test(writer, &cells, changed, error), error);
}

void tsr_writer_trust(tsr_writer *writer, bool trust) { writer->constraints.trusts = trust; }

/* ---- Finding ----------------------------------------------------------------------------------------------------- */

static void copy_text(char out[TSR_FINDING_TEXT], const char *text) {
  const uint64_t size = tsr_utf8_cut(text, strlen(text), TSR_FINDING_TEXT - 1);
  memcpy(out, text, size);
  out[size] = 0;
}

/* Counts the cells of a batch that break one constraint. */
static int find_in_batch(tsr_constraint_set *set, const tsr_constraint_item *item, const tsr_constraint_cells *cells,
                         tsr_constraint_finding *found, tsr_error *error) {
  for (uint64_t at = 0; at < cells->count && !*found->fault; at += TSR_BLOCK_CELLS) {
    const uint32_t count = (uint32_t)TSR_MIN(cells->count - at, TSR_BLOCK_CELLS);
    uint32_t broken = 0;
    const int rc = select_broken(set, item, cells, at, count, &broken, error);
    if (rc < 0 && rc != TSR_ERROR && rc != TSR_RANGE) return rc;
    if (rc < 0) copy_text(found->fault, error->message);
    if (rc >= 0 && broken && !found->cells) {
      tsr_buffer out = {.memory = set->arena.memory};
      print_cell(set, item, cells, at, count, set->broken[0], "where ", &out);
      copy_text(found->first, out.size ? (const char *)out.data : "");
      tsr__buffer_release(&out);
    }
    if (rc >= 0) found->cells += broken;
  }
  return TSR_OK;
}

/* Reads the columns of the reader's batch. Returns true in *lacks if it lacks an attribute that the constraints read. */
static int read_batch(const tsr_constraint_set *set, tsr_reader *reader, const bool *fields, tsr_column *columns,
                      bool *lacks, tsr_error *error) {
  *lacks = false;
  for (uint32_t f = 0; f < set->fields; f++) {
    const tsr_column *column;
    if (!fields[f]) continue;
    TSR_TRY(tsr_reader_column(reader, f, &column, error));
    columns[f] = *column;
    *lacks |= column->unwritten;
  }
  return TSR_OK;
}

/* Counts the cells of all batches that break constraints. Where `fill` asks for it, cells that break none while they
 * lack an attribute are tested once more, with its fill value. */
static int find_in_reader(tsr_constraint_set *set, uint32_t from, tsr_reader *reader, bool fill, tsr_column *columns,
                          const bool *fields, tsr_constraint_finding *found, tsr_error *error) {
  const tsr_batch *batch;
  bool lacks;
  int rc;
  while ((rc = tsr_reader_next(reader, &batch, error)) > 0) {
    if (!batch->written) continue;
    const tsr_constraint_cells cells = {
        .columns = columns, .selection = batch->selection, .first = batch->first, .count = batch->count};
    for (uint32_t i = from; i < set->count; i++) {
      const uint64_t before = found[i - from].cells;
      if (set->items[i].shown.fault) continue;
      TSR_TRY(read_batch(set, reader, fields, columns, &lacks, error));
      TSR_TRY(find_in_batch(set, &set->items[i], &cells, &found[i - from], error));
      if (!fill || !lacks || found[i - from].cells > before) continue;
      for (uint32_t f = 0; f < set->fields; f++) columns[f].unwritten = false;
      TSR_TRY(find_in_batch(set, &set->items[i], &cells, &found[i - from], error));
    }
  }
  return rc;
}

int tsr__constraints_find(tsr_constraint_set *set, uint32_t from, tsr_snapshot *snapshot, bool fill,
                          uint64_t memory_bytes, tsr_constraint_finding *found, tsr_error *error) {
  bool *fields;
  tsr_column *columns;
  tsr_reader *reader;
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, set->fields + UINT64_C(1), &fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, set->fields + UINT64_C(1), &columns, error));
  memset(found, 0, (set->count - from) * sizeof *found);
  for (uint32_t f = 0; f < set->fields; f++) {
    fields[f] = f < set->schema->dimension_count;
    for (uint32_t i = from; i < set->count; i++) fields[f] |= !set->items[i].shown.fault && set->items[i].reads[f];
  }
  const tsr_request request = {.fields = fields, .memory_bytes = memory_bytes};
  TSR_TRY(tsr_reader_open(snapshot, &reader, error));
  int rc = tsr_reader_start(reader, &request, error);
  if (rc >= 0) rc = find_in_reader(set, from, reader, fill, columns, fields, found, error);
  tsr_reader_close(reader);
  return rc;
}

/* ---- Changing ---------------------------------------------------------------------------------------------------- */

static int check_name(const tsr_constraint_set *set, const char *name, tsr_error *error) {
  const uint64_t size = strlen(name);
  if (!size || size > TSR_CONSTRAINT_NAME || !tsr__is_utf8((const uint8_t *)name, size))
    return tsr__fail(error, TSR_ERROR, "the name of a CHECK has 1 to %d bytes of UTF-8", TSR_CONSTRAINT_NAME);
  for (uint32_t i = 0; i < set->count; i++)
    if (!strcmp(set->items[i].shown.name, name))
      return tsr__fail(error, TSR_EXISTS, "a CHECK named '%s' exists already", name);
  if (set->count == TSR_CONSTRAINTS_MAX)
    return tsr__fail(error, TSR_ERROR, "an array has at most %d CHECK constraints", TSR_CONSTRAINTS_MAX);
  return TSR_OK;
}

/* Fails if the last constraint of the set reads only attributes with a DEFAULT, and these break it: no cell could have
 * the DEFAULT. */
static int check_defaults(tsr_constraint_set *set, tsr_error *error) {
  const tsr_constraint_item *item = &set->items[set->count - 1];
  tsr_column *columns;
  uint64_t *offsets;
  uint32_t attributes = 0, last = 0, broken = 0;
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, set->fields + UINT64_C(1), &columns, error));
  TSR_TRY(TSR_ARENA_ARRAY(&set->arena, 2 * (set->fields + UINT64_C(1)), &offsets, error));
  for (uint32_t f = 0; f < set->fields; f++) {
    const tsr_field *field = &set->schema->fields[f];
    if (!item->reads[f]) continue;
    if (!tsr_field_has_default(field)) return TSR_OK;
    offsets[2 * f + 1] = field->fill_size;
    columns[f] = (tsr_column){.values = field->fill, .cell_size = field->cell_size, .constant = true};
    if (!field->cell_size) columns[f].offsets = &offsets[2 * f];
    attributes++, last = f;
  }
  if (!attributes) return TSR_OK;
  const tsr_constraint_cells cells = {.columns = columns, .count = 1};
  TSR_TRY(select_broken(set, item, &cells, 0, 1, &broken, error));
  if (!broken) return TSR_OK;
  if (attributes > 1) return tsr__fail(error, TSR_CHECK, "the DEFAULTs of its columns break %.200s", item->shown.text);
  return tsr__fail(error, TSR_CHECK, "the DEFAULT of '%s' breaks %.200s",
                   tsr__shown_name(set->schema->fields[last].name).text, item->shown.text);
}

/* Fails if a committed cell breaks the last constraint of the set, in which an attribute that it lacks is null, or would
 * break it as soon as an UPDATE gives it the fill value of that attribute. */
static int check_existing(tsr_constraint_set *set, tsr_array *array, tsr_error *error) {
  tsr_constraint_finding found;
  tsr_snapshot *snapshot;
  TSR_TRY(tsr_snapshot_open(array, set->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  const int rc = tsr__constraints_find(set, set->count - 1, snapshot, true, 0, &found, error);
  tsr_snapshot_close(snapshot);
  TSR_TRY(rc);
  if (*found.fault) return tsr__fail(error, TSR_ERROR, "it cannot be evaluated for a cell: %s", found.fault);
  if (!found.cells) return TSR_OK;
  return tsr__fail(error, TSR_CHECK, "%llu cells break %.200s, one %s", (unsigned long long)found.cells,
                   set->items[set->count - 1].shown.text, found.first);
}

static int key_of(const char *name, tsr_buffer *key, tsr_error *error) {
  return tsr__buffer_printf(key, error, "%s%s", TSR_CONSTRAINT_KEY, name);
}

/* Adds a constraint to the set alone. */
static int add_to_set(tsr_constraint_set *set, tsr_array *array, const char *name, const char *text, uint64_t size,
                      bool untested, tsr_error *error) {
  TSR_TRY(check_name(set, name, error));
  if (!set->items) TSR_TRY(open_set(set, array, &(tsr_metadata){0}, error));
  const int rc = add_item(set, name, strlen(name), text, size, error);
  if (rc < 0) return tsr__wrap(error, "CHECK %.100s", name);
  TSR_TRY(check_defaults(set, error));
  return untested ? TSR_OK : check_existing(set, array, error);
}

/* Finds the text of a condition without the spaces around it. */
static uint64_t trim(const char **text) {
  while (isspace((unsigned char)**text)) ++*text;
  uint64_t size = strlen(*text);
  while (size && isspace((unsigned char)(*text)[size - 1])) size--;
  return size;
}

static int add_to_array(tsr_constraint_set *set, tsr_array *array, const char *name, const char *text, bool untested,
                        tsr_error *error) {
  tsr_buffer key = {.memory = &array->memory};
  const uint64_t size = trim(&text);
  TSR_TRY(add_to_set(set, array, name, text, size, untested, error));
  TSR_TRY(key_of(name, &key, error));
  const tsr_metadatum entry = {.key = (const char *)key.data,
                               .key_size = strlen(TSR_CONSTRAINT_KEY) + strlen(name),
                               .datatype = TSR_UTF8,
                               .count = size,
                               .value = text,
                               .value_size = size};
  const int written = tsr_array_set_metadata(array, &entry, error);
  tsr__buffer_release(&key);
  return written;
}

int tsr_array_add_constraint(tsr_array *array, const char *name, const char *text, bool untested, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *schema;
  tsr_constraint_set *set = NULL;
  int rc = tsr_array_schema(array, TSR_TIME_NOW, &schema, error);
  if (rc >= 0) rc = tsr__constraints_open(array, schema, &array->memory, &set, error);
  if (rc >= 0) rc = add_to_array(set, array, name, text, untested, error);
  tsr__constraints_close(set);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

typedef struct trial { /* of a constraint */
  tsr_array *array;
  const char *name, *text;
} trial;

static int try_constraint(void *argument, const tsr_schema *schema, tsr_error *error) {
  const trial *t = argument;
  const char *text = t->text;
  tsr_constraint_set *set = NULL;
  int rc = tsr__constraints_open(t->array, schema, &t->array->memory, &set, error);
  const uint64_t size = trim(&text);
  if (rc >= 0) rc = add_to_set(set, t->array, t->name, text, size, false, error);
  tsr__constraints_close(set);
  return rc;
}

int tsr_array_try_constraint(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                             const char *name, const char *text, tsr_error *error) {
  TSR_OWN_ERROR(error);
  trial t = {.array = array, .name = name, .text = text};
  const int rc = tsr__attribute_try(array, attribute, enumeration, try_constraint, &t, error);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

int tsr_array_drop_constraint(tsr_array *array, const char *name, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_metadata *all;
  tsr_buffer key = {.memory = &array->memory};
  bool found = false;
  TSR_TRY(tsr_array_metadata(array, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error));
  for (uint64_t i = 0; i < all->count; i++) {
    const uint64_t size = tsr__constraint_name_size(&all->entries[i]);
    found |= size == strlen(name) && !memcmp(all->entries[i].key + strlen(TSR_CONSTRAINT_KEY), name, size);
  }
  tsr_metadata_close(all);
  if (!found) return tsr__fail(error, TSR_ERROR, "array %s has no CHECK '%.100s'", array->path, name);
  int rc = key_of(name, &key, error);
  if (rc >= 0)
    rc = tsr_array_delete_metadata(array, (const char *)key.data, strlen(TSR_CONSTRAINT_KEY) + strlen(name), error);
  tsr__buffer_release(&key);
  return rc;
}
