/* overviews.c: tessera_make_overviews(path[, options]): the pyramid of an array, from which pictures are drawn.
 *
 * Level 1 halves the array along some dimensions, level 2 halves level 1, and so on. Level k is an array of its own, in
 * PATH.overviews/k beside the array, or in the database as the table NAME_overview_k (table/table.h). The array's
 * metadata key "tessera_overviews" records the number of levels, the halved dimensions, the method, and the time of the
 * last write that the levels include. The levels are used only for a snapshot whose last write has exactly this time.
 * While they are being changed the recorded time is 0, so nobody uses them, and a crash leaves them unused.
 *
 * If the schema and the options are the same as before, an update rewrites only the blocks that newer fragments touch,
 * and adds levels if the array has grown. Otherwise all levels are rebuilt.
 *
 * Sections: where levels are, the metadata, removing levels, the check, a level for a picture, making and updating,
 * arguments, the call. */
#include "maintain/upkeep.h"

#include <string.h>
#include <unistd.h>

#include "connection/errors.h"
#include "database/store_sqlite.h"
#include "call/function.h"
#include "table/table.h"
#include "sql/json.h"
#include "sql/options.h"
#include "sql/names.h"
#include "values/value.h"

#define SIDE_MIN 256 /* a level is halved again if its shortest side has at least so many cells */

typedef struct overviews_state { /* what the array's metadata records */
  bool exists;
  unsigned levels;
  uint64_t time; /* of the last write that the levels include; 0: they are being changed */
  tsr_regrid_method method;
  char schema[256]; /* the name of the array's schema when they were made */
  char *text; /* as stored, from sqlite3_malloc */
} overviews_state;

typedef struct overviews_level { /* a level that is being made, or that the next one is made from */
  tsr_array *array;
  tsr_snapshot *snapshot;
} overviews_level;

typedef struct overviews_call {
  tsx_connection *connection;
  tsx_address address;
  tsx_regrid_source source; /* marks: the dimension is halved */
  bool has_columns, has_dimensions, has_method, drop, rebuild;
  overviews_state state;
  tsr_regrid_request request;
  uint64_t cells;
} overviews_call;

/* ---- Where levels are -------------------------------------------------------------------------------------------- */

static int level_array_open(tsx_address *address, unsigned number, tsr_array **array, tsr_error *error) {
  const tsr_array_options options = {.key = address->array->has_key ? address->array->key : NULL};
  char *path = tsx_level_path(address->path, number);
  if (!path) return tsx_out_of_memory(error);
  const int code = tsr_array_open(address->connection->environment, path, &options, array, error);
  sqlite3_free(path);
  return code;
}

/* ---- The metadata ------------------------------------------------------------------------------------------------ */

/* Parses the text of the metadata; invalid text counts as no overviews. `row` and `column` are two names that must be
 * among the halved dimensions; NULL: no such condition. */
static int overviews_parse(sqlite3 *db, const char *text, const char *row, const char *column, overviews_state *state,
                           tsr_error *error) {
  static const char sql[] =
      "SELECT json_extract(?1, '$.levels'), json_extract(?1, '$.time'), json_extract(?1, '$.method'),"
      " json_extract(?1, '$.schema'), (SELECT count(DISTINCT value) FROM json_each(?1, '$.dimensions')"
      " WHERE value IN (?2, ?3)) WHERE json_valid(?1)";
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
    return tsx_fail(error, TSR_ERROR, "%s", sqlite3_errmsg(db));
  sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, row, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 3, column, -1, SQLITE_STATIC);
  if (sqlite3_step(statement) == SQLITE_ROW) {
    const char *schema = (const char *)sqlite3_column_text(statement, 3);
    const sqlite3_int64 levels = sqlite3_column_int64(statement, 0);
    state->exists =
        schema && levels > 0 && levels <= TSX_LEVELS_MAX && (!row || sqlite3_column_int(statement, 4) == 2) &&
        tsx_regrid_method_parse((const char *)sqlite3_column_text(statement, 2), &state->method, NULL) == TSR_OK;
    state->levels = (unsigned)levels;
    state->time = (uint64_t)sqlite3_column_int64(statement, 1);
    sqlite3_snprintf(sizeof state->schema, state->schema, "%s", schema ? schema : "");
  }
  sqlite3_finalize(statement);
  return TSR_OK;
}

/* Reads the array's current metadata. */
static int overviews_find(const tsx_address *address, const char *row, const char *column, overviews_state *state,
                          tsr_error *error) {
  tsr_metadata *all = NULL;
  int code = tsr_array_metadata(address->array->core, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error);
  for (uint64_t i = 0; code == TSR_OK && i < all->count; i++) {
    const tsr_metadatum *m = &all->entries[i];
    if (strcmp(m->key, TSX_OVERVIEWS_KEY) != 0 || m->datatype != TSR_UTF8 || m->value_size > 65536) continue;
    state->text = sqlite3_mprintf("%.*s", (int)m->value_size, (const char *)m->value);
    code = state->text ? overviews_parse(address->connection->db, state->text, row, column, state, error)
                       : tsx_out_of_memory(error);
  }
  tsr_metadata_close(all);
  return code;
}

static const char *overviews_method(tsr_regrid_method method) {
  static const char *const names[] = {"mean", "sum", "min", "max", "count", "nearest", "mode"};
  return names[method];
}

/* Writes the metadata, with this time of the last write. */
static int overviews_note(overviews_call *c, uint64_t time, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(c->connection->db);
  const char *comma = "";
  sqlite3_str_appendf(out, "{\"levels\":%u,\"factor\":2,\"dimensions\":[", c->state.levels);
  for (uint32_t d = 0; d < c->source.schema->dimension_count; d++) {
    if (!c->source.marks[d]) continue;
    sqlite3_str_appendall(out, comma);
    tsx_json_text(out, c->source.names[d], strlen(c->source.names[d]));
    comma = ",";
  }
  sqlite3_str_appendf(out, "],\"method\":\"%s\",\"time\":%llu,\"schema\":", overviews_method(c->request.method), time);
  tsx_json_text(out, c->source.schema->name, strlen(c->source.schema->name));
  sqlite3_str_appendall(out, "}");
  char *text = sqlite3_str_finish(out);
  const int code =
      text ? tsx_metadata_set_text(c->address.array->core, TSX_OVERVIEWS_KEY, text, error) : tsx_out_of_memory(error);
  sqlite3_free(text);
  return code;
}

/* ---- Removing levels --------------------------------------------------------------------------------------------- */

/* Drops the tables of the levels of an array in the database. */
static int drop_tables(const tsx_address *address, uint64_t *count, tsr_error *error) {
  char *schema, *name;
  TSX_TRY(tsx_table_name_parse(address->path + 3, &schema, &name, error));
  const uint8_t *key = address->array && address->array->has_key ? address->array->key : NULL;
  const int code = tsx_overview_tables_drop(address->connection, schema ? schema : "main", name, key, count, error);
  sqlite3_free(schema);
  sqlite3_free(name);
  return code;
}

int tsx_overviews_drop(tsx_address *address, uint64_t *count, tsr_error *error) {
  overviews_state state = {0};
  tsr_error ignored;
  int code = TSR_OK;
  *count = 0;
  if (tsx_store_is(address->path)) return drop_tables(address, count, error);
  if (overviews_find(address, NULL, NULL, &state, &ignored) < 0) state.levels = 0;
  sqlite3_free(state.text);
  for (unsigned k = 1; k <= TSX_LEVELS_MAX && code == TSR_OK; k++) {
    char *path = tsx_level_path(address->path, k);
    if (!path) return tsx_out_of_memory(error);
    tsx_path_close(address->connection, path);
    code = tsr_array_drop(address->connection->environment, path, error);
    sqlite3_free(path);
    *count += code == TSR_OK;
    if (code != TSR_NOT_FOUND) continue;
    if (k >= state.levels) break;
    code = TSR_OK; /* an intermediate level may be missing */
  }
  char *directory = tsx_level_path(address->path, 0);
  if (directory) (void)rmdir(directory); /* a bucket has no directories */
  sqlite3_free(directory);
  return code == TSR_NOT_FOUND ? TSR_OK : code;
}

/* ---- The check --------------------------------------------------------------------------------------------------- */

/* Returns 1 if the levels are out of date, 0 if not. */
static int overviews_stale(tsx_address *address, const overviews_state *state, tsr_error *error) {
  tsr_snapshot *snapshot;
  uint64_t first, last;
  TSX_TRY(tsr_snapshot_open(address->array->core, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  const bool stale = !tsr_snapshot_written(snapshot, &first, &last) || last != state->time ||
                     strcmp(tsr_snapshot_schema(snapshot)->name, state->schema) != 0;
  tsr_snapshot_close(snapshot);
  return stale;
}

typedef struct overviews_report { /* forwards the findings about a level */
  tsr_check_report report;
  void *argument;
  unsigned level;
} overviews_report;

static int overviews_tell(const overviews_report *r, tsr_severity severity, const char *file, char *message) {
  char *name = sqlite3_mprintf("%s", file);
  const tsr_finding finding = {.severity = severity, .file = name, .message = message};
  const int code = name && message ? r->report(r->argument, &finding) : TSR_NOMEM;
  sqlite3_free(name);
  sqlite3_free(message);
  return code;
}

static int overviews_pass_on(void *argument, const tsr_finding *finding) {
  const overviews_report *r = argument;
  if (finding->severity == TSR_SEVERITY_NOTE) return TSR_OK;
  return overviews_tell(r, finding->severity, finding->file,
                        sqlite3_mprintf("level %u of the overviews: %s", r->level, finding->message));
}

/* Checks one level. */
static int check_level(const tsx_address *address, overviews_report *r, tsr_error *error) {
  tsr_environment *environment = address->connection->environment;
  const tsr_check_options options = {.key = address->has_key ? address->key : NULL,
                                     .memory_bytes = address->memory_bytes};
  tsr_object_kind kind = TSR_OBJECT_NONE;
  char *path = tsx_level_path(address->path, r->level);
  if (!path) return tsx_out_of_memory(error);
  int code = tsr_object_find(environment, path, &kind, error);
  if (code >= 0 && kind == TSR_OBJECT_ARRAY)
    code = tsr_array_check(environment, path, &options, overviews_pass_on, r, error);
  else if (code >= 0 || code == TSR_NOT_FOUND)
    code = overviews_tell(
        r, TSR_SEVERITY_NOTE, "",
        sqlite3_mprintf("level %u of the overviews is missing: tessera_make_overviews(path) makes them again",
                        r->level));
  sqlite3_free(path);
  return code;
}

int tsx_overviews_check(tsx_address *address, tsr_check_report report, void *argument, tsr_error *error) {
  overviews_state state = {0};
  tsr_error ignored;
  overviews_report r = {.report = report, .argument = argument};
  int code = tsx_address_array(address, &ignored); /* an array that cannot be opened has findings of its own */
  if (code >= 0) code = overviews_find(address, NULL, NULL, &state, &ignored);
  sqlite3_free(state.text);
  if (code < 0 || !state.exists) return TSR_OK;
  if (overviews_stale(address, &state, &ignored) > 0) {
    code = overviews_tell(
        &r, TSR_SEVERITY_NOTE, "",
        sqlite3_mprintf("the overviews show an older state: tessera_make_overviews(path) brings them up to date"));
    if (code != TSR_OK) return code;
  }
  for (r.level = 1; r.level <= state.levels; r.level++)
    if ((code = check_level(address, &r, error)) != TSR_OK) return code;
  return TSR_OK;
}

/* ---- A level for a picture --------------------------------------------------------------------------------------- */

int tsx_level_open(tsx_address *address, tsr_snapshot *snapshot, char *const *names, uint32_t row, uint32_t column,
                   double rows, double columns, uint64_t height, uint64_t width, tsx_level *level, tsr_error *error) {
  const tsr_schema *schema = tsr_snapshot_schema(snapshot);
  overviews_state state = {0};
  uint64_t first, last;
  if (!schema->dense || address->since || rows < 2.0 * (double)height || columns < 2.0 * (double)width) return 0;
  int code = overviews_find(address, names[row], names[column], &state, error);
  sqlite3_free(state.text);
  if (code < 0) return code;
  if (!state.exists || !state.time || !tsr_snapshot_written(snapshot, &first, &last) || last != state.time ||
      strcmp(schema->name, state.schema) != 0)
    return 0;
  while (level->shift < state.levels && rows / 2 >= (double)height && columns / 2 >= (double)width)
    rows /= 2, columns /= 2, level->shift++;
  char *path = tsx_level_path(address->path, level->shift);
  if (!path) return tsx_out_of_memory(error);
  level->connection = address->connection;
  code = tsx_array_open(address->connection, path, address->array->has_key ? address->array->key : NULL,
                        TSX_CACHE_AS_IS, 0, &level->array, error);
  sqlite3_free(path);
  if (code >= 0)
    code = tsr_snapshot_open(level->array->core, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &level->snapshot, error);
  if (code >= 0) return 1;
  tsx_level_close(level);
  return code == TSR_INTERRUPT || code == TSR_NOMEM ? code : 0; /* fall back to the array's own cells */
}

void tsx_level_close(tsx_level *level) {
  tsr_snapshot_close(level->snapshot);
  tsx_array_release(level->connection, level->array);
  *level = (tsx_level){0};
}

/* ---- Making and updating ----------------------------------------------------------------------------------------- */

static uint64_t overviews_length(const tsr_field *field, const tsr_interval *interval) {
  uint64_t low = 0, high = 0;
  memcpy(&low, interval->low, field->cell_size);
  memcpy(&high, interval->high, field->cell_size);
  return ((high - low) & UINT64_MAX >> (64 - 8 * field->cell_size)) + 1;
}

/* Chooses the number of levels: each halves the one below, until its shortest halved side is below SIDE_MIN. */
static int overviews_choose(overviews_call *c, tsr_error *error) {
  const tsr_interval *all;
  uint64_t least = UINT64_MAX;
  const uint32_t n = c->source.schema->dimension_count;
  c->state.levels = 0;
  for (uint32_t d = 0; d < n && !c->has_dimensions; d++) c->source.marks[d] = d + 2 >= n;
  const int code = tsr_snapshot_non_empty_domain(c->source.snapshot, &all, error);
  if (code <= 0) return code;
  for (uint32_t d = 0; d < n; d++) {
    if (!c->source.marks[d]) continue;
    const uint64_t length = overviews_length(&c->source.schema->fields[d], &all[d]);
    if (length < least) least = length;
  }
  for (; least >= SIDE_MIN && c->state.levels < TSX_LEVELS_MAX; least = (least + 1) / 2) c->state.levels++;
  return TSR_OK;
}

/* Selects the attributes that suit the method, unless the option "columns" names them. A level has the selected
 * attributes of the array, in order, and all of them are used for the next level. */
static void overviews_take(overviews_call *c) {
  const uint32_t n = c->source.schema->dimension_count;
  for (uint32_t d = 0; d < n; d++) c->source.factors[d] = c->source.marks[d] ? 2 : 1;
  for (uint32_t f = n; f < n + c->source.schema->attribute_count && !c->has_columns; f++)
    c->source.fields[f] = tsr_regrid_suits(c->request.method, &c->source.schema->fields[f]);
  c->request.factors = c->source.factors;
  c->request.fields = c->source.fields;
  c->request.quick = true; /* levels are made often, and pictures read them */
  c->request.narrow = c->request.skip_fill = c->request.method == TSR_REGRID_MEAN;
}

static void overviews_level_close(overviews_level *level) {
  tsr_snapshot_close(level->snapshot);
  tsr_array_close(level->array);
}

/* Opens the newest state of level k. */
static int open_level(overviews_call *c, unsigned k, overviews_level *level, tsr_error *error) {
  TSX_TRY(level_array_open(&c->address, k, &level->array, error));
  return tsr_snapshot_open(level->array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &level->snapshot, error);
}

/* Makes level k from the level below, or level 1 from the array. */
static int make_level(overviews_call *c, unsigned k, tsr_error *error) {
  overviews_level below = {0};
  uint64_t cells = 0;
  char *path = tsx_level_path(c->address.path, k);
  if (!path) return tsx_out_of_memory(error);
  int code = k > 1 ? open_level(c, k - 1, &below, error) : TSR_OK;
  if (k > 1) c->request.fields = NULL, c->request.skip_fill = false;
  if (code >= 0)
    code = tsx_regrid_make(&c->address, k > 1 ? below.snapshot : c->source.snapshot, &c->request, path, false,
                           TSX_LEVEL_KEY, overviews_method(c->request.method), &cells, error);
  c->cells += cells;
  overviews_level_close(&below);
  sqlite3_free(path);
  return code;
}

static int overviews_build(overviews_call *c, tsr_error *error) {
  uint64_t ignored;
  TSX_TRY(tsx_overviews_drop(&c->address, &ignored, error));
  TSX_TRY(overviews_choose(c, error));
  if (c->state.levels) TSX_TRY(overviews_note(c, 0, error));
  overviews_take(c);
  for (unsigned k = 1; k <= c->state.levels; k++) TSX_TRY(make_level(c, k, error));
  return TSR_OK;
}

static int rewrite_blocks(tsr_snapshot *below, const tsr_regrid_request *request, tsr_array *level, uint64_t *cells,
                          tsr_error *error) {
  tsr_regrid *regrid;
  TSX_TRY(tsr_regrid_open(below, request, &regrid, error));
  const int code = tsr_regrid_write(regrid, level, cells, error);
  tsr_regrid_close(regrid);
  return code;
}

/* Rewrites the blocks of level k that intersect a box of the level below. */
static int update_level(overviews_call *c, unsigned k, const tsr_interval *box, tsr_error *error) {
  overviews_level below = {0}, level = {0};
  uint64_t cells = 0;
  tsr_regrid_request request = c->request;
  request.box = box;
  if (k > 1) request.fields = NULL, request.skip_fill = false;
  int code = level_array_open(&c->address, k, &level.array, error);
  if (code >= 0 && k > 1) code = open_level(c, k - 1, &below, error);
  if (code >= 0)
    code = rewrite_blocks(k > 1 ? below.snapshot : c->source.snapshot, &request, level.array, &cells, error);
  c->cells += cells;
  overviews_level_close(&below);
  overviews_level_close(&level);
  return code;
}

/* Converts a box of one level to the box that covers it in the next. `from_zero`: the halved dimensions of the former
 * begin at 0, as in every level but the array itself. */
static void overviews_halve(const overviews_call *c, bool from_zero, tsr_interval *box) {
  for (uint32_t d = 0; d < c->source.schema->dimension_count; d++) {
    const tsr_field *field = &c->source.schema->fields[d];
    uint64_t low = 0, ends[2] = {0, 0};
    if (!c->source.marks[d]) continue;
    if (!from_zero) memcpy(&low, field->low, field->cell_size);
    memcpy(&ends[0], box[d].low, field->cell_size);
    memcpy(&ends[1], box[d].high, field->cell_size);
    for (int i = 0; i < 2; i++) ends[i] = ((ends[i] - low) & UINT64_MAX >> (64 - 8 * field->cell_size)) / 2;
    memcpy(box[d].low, &ends[0], field->cell_size);
    memcpy(box[d].high, &ends[1], field->cell_size);
  }
}

/* Makes the additional levels that are due because the array's non-empty domain has grown. */
static int overviews_extend(overviews_call *c, tsr_error *error) {
  const unsigned had = c->state.levels;
  TSX_TRY(overviews_choose(c, error));
  if (c->state.levels < had) c->state.levels = had;
  for (unsigned k = had + 1; k <= c->state.levels; k++) TSX_TRY(make_level(c, k, error));
  return TSR_OK;
}

/* Updates the levels where a fragment was written. `box` has room for a box. */
static int update_levels(overviews_call *c, const tsr_fragment_info *info, tsr_interval *box, tsr_error *error) {
  memcpy(box, info->non_empty_domain, c->source.schema->dimension_count * sizeof *box);
  for (unsigned k = 1; k <= c->state.levels; k++) {
    TSX_TRY(update_level(c, k, box, error));
    overviews_halve(c, k > 1, box);
  }
  return TSR_OK;
}

/* Updates the levels where fragments have been written after `since`, the time that the levels include. */
static int overviews_update(overviews_call *c, uint64_t since, tsr_error *error) {
  tsr_interval *box = sqlite3_malloc64(c->source.schema->dimension_count * sizeof *box);
  if (!box) return tsx_out_of_memory(error);
  int code = overviews_note(c, 0, error);
  overviews_take(c);
  for (uint64_t i = 0; code >= 0 && i < tsr_fragment_count(c->source.snapshot); i++) {
    tsr_fragment_info info;
    code = tsr_fragment_describe(c->source.snapshot, i, &info, error);
    if (code >= 0 && info.end > since && info.non_empty_domain) code = update_levels(c, &info, box, error);
  }
  sqlite3_free(box);
  return code < 0 ? code : overviews_extend(c, error);
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* Marks the dimensions that a JSON array lists. */
static int read_dimensions(overviews_call *c, sqlite3_value *list, tsr_error *error) {
  TSX_TRY(tsx_regrid_dimensions_parse(c->connection->db, list, &c->source, error));
  for (uint32_t d = 0; d < c->source.schema->dimension_count; d++) c->has_dimensions |= c->source.marks[d];
  return TSR_OK;
}

enum {
  OVERVIEWS_OPTION_method,
  OVERVIEWS_OPTION_dimensions,
  OVERVIEWS_OPTION_columns,
  OVERVIEWS_OPTION_drop,
  OVERVIEWS_OPTION_rebuild,
  OVERVIEWS_OPTION_memory_mb,
  OVERVIEWS_OPTION_threads
};

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  overviews_call *c = argument;
  switch (option) {
  case OVERVIEWS_OPTION_method:
    c->has_method = true;
    return tsx_regrid_method_parse(value->text, &c->request.method, error);
  case OVERVIEWS_OPTION_dimensions: return read_dimensions(c, value->json->value, error);
  case OVERVIEWS_OPTION_columns:
    c->has_columns = true;
    return tsx_regrid_columns_parse(c->connection->db, value->json->value, &c->source, error);
  case OVERVIEWS_OPTION_drop: c->drop = value->whole; break;
  case OVERVIEWS_OPTION_rebuild: c->rebuild = value->whole; break;
  case OVERVIEWS_OPTION_memory_mb: c->request.memory_bytes = (uint64_t)value->whole << 20; break;
  default: c->request.threads = (unsigned)value->whole;
  }
  return TSR_OK;
}

static int read_options(overviews_call *c, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_spec specs[] = {[OVERVIEWS_OPTION_method] = {"method", TSX_TAKES_TEXT, 0, 0, NULL},
                                          [OVERVIEWS_OPTION_dimensions] = {.name = "dimensions"},
                                          [OVERVIEWS_OPTION_columns] = {.name = "columns"},
                                          [OVERVIEWS_OPTION_drop] = {"drop", TSX_TAKES_FLAG, 0, 0, NULL},
                                          [OVERVIEWS_OPTION_rebuild] = {"rebuild", TSX_TAKES_FLAG, 0, 0, NULL},
                                          [OVERVIEWS_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB,
                                          [OVERVIEWS_OPTION_threads] = TSX_SPEC_THREADS};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(c->connection->db, json, &list, take_option, c, error);
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static int overviews_open(overviews_call *c, tsr_error *error) {
  TSX_TRY(tsx_address_array(&c->address, error));
  TSX_TRY(tsx_regrid_source_open(c->address.array->core, TSR_TIME_BEGIN, TSR_TIME_NOW, &c->source, error));
  c->request.memory_bytes = c->address.memory_bytes;
  if (!c->source.schema->dense)
    return tsx_fail(error, TSR_ERROR, "array %s is sparse: only dense ones have overviews", c->address.given);
  return overviews_find(&c->address, NULL, NULL, &c->state, error);
}

/* Returns true if an update suffices: the levels exist, were made by the same schema, and the options request nothing
 * different. */
static bool overviews_can_update(overviews_call *c) {
  tsr_error ignored;
  bool can = c->state.exists && c->state.time && !c->rebuild && !c->has_columns && !c->has_dimensions &&
             (!c->has_method || c->request.method == c->state.method) &&
             !strcmp(c->state.schema, c->source.schema->name);
  for (unsigned k = 1; can && k <= c->state.levels; k++) { /* a copy of the array's files lacks the levels */
    tsr_array *level = NULL;
    can = level_array_open(&c->address, k, &level, &ignored) == TSR_OK;
    tsr_array_close(level);
  }
  return can;
}

/* Takes the method and the halved dimensions from the metadata, unless the options give them. */
static int take_known(overviews_call *c, tsr_error *error) {
  sqlite3_stmt *statement;
  if (!c->has_method) c->request.method = c->state.method;
  if (c->has_dimensions) return TSR_OK;
  if (sqlite3_prepare_v2(c->connection->db, "SELECT json_extract(?1, '$.dimensions')", -1, &statement, NULL) !=
      SQLITE_OK)
    return tsx_fail(error, TSR_ERROR, "%s", sqlite3_errmsg(c->connection->db));
  sqlite3_bind_text(statement, 1, c->state.text, -1, SQLITE_STATIC);
  const int step = sqlite3_step(statement);
  const int code = step != SQLITE_ROW ? tsx_fail_computing(step, error)
                                      : read_dimensions(c, sqlite3_column_value(statement, 0), error);
  sqlite3_finalize(statement);
  return code;
}

static int overviews_remove(overviews_call *c, tsr_error *error) {
  uint64_t dropped;
  if (c->state.exists) TSX_TRY(tsx_overviews_drop(&c->address, &dropped, error));
  if (!c->state.text) return TSR_OK;
  return tsr_array_delete_metadata(c->address.array->core, TSX_OVERVIEWS_KEY, strlen(TSX_OVERVIEWS_KEY), error);
}

static int overviews_run(overviews_call *c, tsr_error *error) {
  uint64_t first, last = 0;
  if (c->drop) return overviews_remove(c, error);
  const bool written = tsr_snapshot_written(c->source.snapshot, &first, &last);
  if (written && overviews_can_update(c)) {
    if (c->state.time == last) return TSR_OK;
    TSX_TRY(take_known(c, error));
    TSX_TRY(overviews_update(c, c->state.time, error));
  } else {
    if (c->state.exists) TSX_TRY(take_known(c, error));
    TSX_TRY(overviews_build(c, error));
  }
  return c->state.levels ? overviews_note(c, last, error) : TSR_OK;
}

static int overviews_arguments(overviews_call *c, int count, sqlite3_value **values, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  TSX_TRY(tsx_address_open_to_write(c->connection, values[0], &c->address, error));
  if (tsx_store_is(c->address.path)) TSX_TRY(tsx_function_begin_at(&c->address, values[0], error));
  TSX_TRY(overviews_open(c, error));
  if (count > 1) TSX_TRY(read_options(c, values[1], error));
  return overviews_run(c, error);
}

void tsx_make_overviews(sqlite3_context *context, int count, sqlite3_value **values) {
  overviews_call c = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_connection_add_table(c.connection); /* cancellation works only while a table is counted */
  const int code = overviews_arguments(&c, count, values, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)c.cells);
  tsx_regrid_source_close(&c.source);
  sqlite3_free(c.state.text);
  tsx_address_close(&c.address);
  tsx_connection_remove_table(c.connection);
  tsx_function_end(context, "tessera_make_overviews", code, &error);
}
