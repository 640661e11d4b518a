/* cover.c: tessera_cover(path, geometry[, rule[, options]]): the cells of a grid that a polygon covers, as runs.
 *
 * The grid's axes are kept with the cursor: in a join with a table of polygons, labels are read once, not for each
 * polygon. */
#include <string.h>

#include "call/table_function.h"
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "inspect/inspect.h"
#include "sql/names.h"
#include "values/axes.h"
#include "values/value.h"

#define COVER_KEYS (TSX_ADDRESS_ARGUMENTS + 1) /* the arguments on which a grid depends: also the options */

typedef struct cover_grid { /* kept with the cursor */
  sqlite3_value *keys[COVER_KEYS]; /* the arguments that it was opened for; owned, or NULL */
  tsx_plane plane;
  tsr_datatype datatypes[2]; /* of y and x, as SQL shows them */
  uint64_t memory_bytes;
} cover_grid;

typedef struct cover_state {
  tsr_geometry *geometry;
  tsr_cover *cover;
  tsr_cover_run run;
} cover_state;

enum { COVER_Y, COVER_X_FROM, COVER_X_TO, COVER_COVERAGE };
enum { COVER_PATH, COVER_GEOMETRY, COVER_RULE, COVER_OPTIONS }; /* arguments */

/* ---- The grid ---------------------------------------------------------------------------------------------------- */

static void cover_grid_free(void *kept) {
  cover_grid *grid = kept;
  for (int i = 0; i < COVER_KEYS; i++) sqlite3_value_free(grid->keys[i]);
  tsx_plane_close(&grid->plane);
  sqlite3_free(grid);
}

static void cover_keys(const tsx_scan *scan, sqlite3_value *keys[COVER_KEYS]) {
  tsx_scan_address_arguments(scan, keys);
  keys[COVER_KEYS - 1] = tsx_scan_argument(scan, COVER_OPTIONS);
}

/* Returns true if two arguments are surely equal. Numbers count as different. */
static bool cover_same(sqlite3_value *a, sqlite3_value *b) {
  if (!a || !b) return a == b;
  const int type = sqlite3_value_type(a);
  if (type != sqlite3_value_type(b) || (type != SQLITE_TEXT && type != SQLITE_NULL)) return false;
  const char *x = (const char *)sqlite3_value_text(a), *y = (const char *)sqlite3_value_text(b);
  return type == SQLITE_NULL || (x && y && strcmp(x, y) == 0);
}

static bool cover_is_kept(const tsx_scan *scan) {
  sqlite3_value *keys[COVER_KEYS];
  const cover_grid *grid = scan->kept;
  bool same = grid != NULL;
  cover_keys(scan, keys);
  for (int i = 0; i < COVER_KEYS && same; i++) same = cover_same(grid->keys[i], keys[i]);
  return same;
}

static int cover_grid_read(tsx_scan *scan, tsx_address *address, cover_grid *grid, tsr_error *error) {
  const tsr_schema *schema;
  TSX_TRY(tsx_scan_address(scan, address, error));
  TSX_TRY(tsx_address_labelled(address, error));
  TSX_TRY(tsx_array_permitted(scan->connection, address->array, error));
  TSX_TRY(tsx_address_schema(address, &schema, error));
  const tsx_label_source labels = tsx_address_labels(address);
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  const int code = tsx_plane_open(scan->connection->db, scan->connection->environment,
                                  tsx_scan_argument(scan, COVER_OPTIONS), schema, names, &labels, &grid->plane, error);
  tsx_names_free(names, schema);
  for (int i = 0; i < 2; i++)
    grid->datatypes[i] = tsx_datatype_shown(schema->fields[grid->plane.dimensions[i]].datatype, address->uint64_signed);
  grid->memory_bytes = address->memory_bytes;
  return code;
}

static int cover_grid_keep(tsx_scan *scan, tsr_error *error) {
  tsx_address address = {0};
  sqlite3_value *keys[COVER_KEYS];
  if (scan->kept) scan->free_kept(scan->kept);
  scan->kept = NULL;
  cover_grid *grid = sqlite3_malloc64(sizeof *grid);
  if (!grid) return tsx_out_of_memory(error);
  memset(grid, 0, sizeof *grid);
  int code = cover_grid_read(scan, &address, grid, error);
  tsx_address_close(&address);
  cover_keys(scan, keys);
  for (int i = 0; i < COVER_KEYS && code == TSR_OK; i++)
    if (keys[i] && !(grid->keys[i] = sqlite3_value_dup(keys[i]))) code = tsx_out_of_memory(error);
  if (code < 0) {
    cover_grid_free(grid);
    return code;
  }
  scan->kept = grid;
  scan->free_kept = cover_grid_free;
  return TSR_OK;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static int cover_rule_read(sqlite3_value *value, tsr_cover_rule *rule, tsr_error *error) {
  static const char *const names[] = {"fraction", "centre", "touched"};
  *rule = TSR_COVER_FRACTION;
  if (!value || sqlite3_value_type(value) == SQLITE_NULL) return TSR_OK;
  const char *text = (const char *)sqlite3_value_text(value);
  if (!text) return tsx_out_of_memory(error);
  for (int i = 0; i < 3; i++)
    if (sqlite3_stricmp(text, names[i]) == 0) {
      *rule = (tsr_cover_rule)i;
      return TSR_OK;
    }
  return tsx_fail(error, TSR_MISMATCH, "rule: '%.40s': centre, touched or fraction", text);
}

static int cover_geometry_read(tsx_scan *scan, cover_state *s, uint64_t memory_bytes, tsr_error *error) {
  sqlite3_value *value = tsx_scan_argument(scan, COVER_GEOMETRY);
  const int type = sqlite3_value_type(value);
  const bool text = type == SQLITE_TEXT;
  if (!text && type != SQLITE_BLOB)
    return tsx_fail(error, TSR_MISMATCH, "no geometry: expected GeoJSON, WKT, WKB or GeoPackage");
  const void *bytes = text ? (const void *)sqlite3_value_text(value) : sqlite3_value_blob(value);
  const int size = sqlite3_value_bytes(value);
  if (!bytes && (text || size)) return tsx_out_of_memory(error);
  return tsr_geometry_read(scan->connection->environment, bytes ? bytes : "", (uint64_t)size, text, memory_bytes,
                           &s->geometry, error);
}

static int cover_begin(tsx_scan *scan, tsr_error *error) {
  cover_state *s = scan->state;
  tsr_cover_request request = {0};
  TSX_TRY(cover_rule_read(tsx_scan_argument(scan, COVER_RULE), &request.rule, error));
  if (!cover_is_kept(scan)) TSX_TRY(cover_grid_keep(scan, error));
  const cover_grid *grid = scan->kept;
  TSX_TRY(cover_geometry_read(scan, s, grid->memory_bytes, error));
  request.geometry = s->geometry;
  request.y = grid->plane.axes[0];
  request.x = grid->plane.axes[1];
  request.wrap = grid->plane.wrap;
  request.memory_bytes = grid->memory_bytes;
  return tsr_cover_open(scan->connection->environment, &request, &s->cover, error);
}

static int cover_open(tsx_scan *scan, tsr_error *error) {
  const int code = cover_begin(scan, error);
  return code < 0 ? tsx_fail_in("tessera_cover", error) : code;
}

static int cover_next(tsx_scan *scan, tsr_error *error) {
  cover_state *s = scan->state;
  const int code = tsr_cover_next(s->cover, &s->run, error);
  return code < 0 ? tsx_fail_in("tessera_cover", error) : code;
}

static int cover_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const cover_state *s = scan->state;
  const cover_grid *grid = scan->kept;
  if (column == COVER_COVERAGE) {
    sqlite3_result_double(context, s->run.coverage);
    return TSR_OK;
  }
  const int64_t value = column == COVER_Y ? s->run.y : column == COVER_X_FROM ? s->run.x_from : s->run.x_to;
  const tsr_datatype datatype = grid->datatypes[column != COVER_Y];
  tsx_value_result(context, datatype, 1, &value, tsr_datatype_size(datatype)); /* little-endian: its first bytes */
  return TSR_OK;
}

static void cover_close(tsx_scan *scan) {
  cover_state *s = scan->state;
  tsr_cover_close(s->cover);
  tsr_geometry_close(s->geometry);
}

const tsx_about tsx_about_cover = {
    .name = "tessera_cover",
    .usage = "tessera_cover(path, geometry[, rule[, options]])",
    .columns = (const char *const[]){"y INTEGER", "x_from INTEGER", "x_to INTEGER", "coverage REAL", NULL},
    .arguments = (const char *const[]){"array_path", "geometry", "rule", "options", NULL},
    .required = 2,
    .same = -1,
    .rows = 1000,
    .state_size = sizeof(cover_state),
    .open = cover_open,
    .next = cover_next,
    .column = cover_column,
    .close = cover_close};
