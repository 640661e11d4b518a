/* picture.c: tessera_png and tessera_preview, which draw two dimensions of an array, or the grid of a query, as a PNG
 * file and as text.
 *
 * The slice determines the two dimensions, and the size is chosen unless it is given. The core averages the cells into
 * the places of a grid (tsr_downsample_open), from a level of the array's overviews if one suits; the grid of a query
 * is averaged here. If the picture is larger than the grid, each pixel shows the place that it falls into. The pixels
 * of a map tile have cells of their own (tile.c).
 *
 * Sections: options, the attribute and the two dimensions, sizes, reading, PNG, text, the calls. */
#include "picture/picture.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"
#include "sql/json.h"
#include "sql/options.h"
#include "sql/names.h"
#include "values/slice.h"
#include "call/function.h"
#include "database/store_sqlite.h"
#include "data/data.h"
#include "maintain/upkeep.h"
#include "tessera_host.h"

#define LENGTH_MAX       800 /* the longer side in pixels, if no size is given */
#define LENGTH_MIN       100 /* no side is shrunk below this, in pixels, if no size is given */
#define LENGTH_EXACT_MAX 8192 /* LENGTH_MAX for enumerated attributes, which cannot be averaged */
#define TEXT_WIDTH       72
#define TEXT_HEIGHT      24
#define PIXELS_MAX       65535 /* per side: viewers accept no more, and a row stays small */
#define CANCEL_BYTES     (1u << 20) /* of pixels, between two checks for cancellation */
static const char shades[] = ".:-=+*#%@"; /* from low to high; a place without data is blank */
#define SHADES ((int)sizeof shades - 1)

typedef struct picture_options { /* as given; sizes and bounds that were not given are chosen later */
  uint64_t width, height; /* pixels or characters; 0: not given */
  bool has_min, has_max, flip, no_overviews;
  double min, max;
  char *colormap;
} picture_options;

typedef struct picture {
  tsx_connection *connection;
  tsx_address address;
  tsx_snapshot *snapshot;
  const tsr_schema *schema;
  char **names;
  uint32_t field;
  tsx_slice slice;
  uint32_t row, column; /* the dimensions that run down and right */
  bool is_text;
  bool empty; /* a tile, and no cell is there */
  tsx_tile tile;
  picture_options options;
  tsx_colours colours;
  tsr_downsample *downsample;
  uint16_t *numbers; /* the colour numbers of the means */
  tsx_grid *grid; /* of a query: `row` and `column` are its axes, and there is no array; else NULL */
} picture;

static const tsr_field *field_of(const picture *p) {
  static const tsr_field number = {.name = "", .datatype = TSR_FLOAT64, .values_per_cell = 1, .cell_size = 8};
  return p->grid ? &number : &p->schema->fields[p->field];
}

static bool picture_is_time(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static double number_of(tsr_datatype datatype, const uint8_t *bytes) {
  const uint64_t size = tsr_datatype_size(datatype);
  const tsr_kind kind = tsr_datatype_kind(datatype);
  double wide;
  float narrow;
  uint64_t bits = 0;
  if (kind == TSR_KIND_FLOAT && size == sizeof narrow) {
    memcpy(&narrow, bytes, sizeof narrow);
    return (double)narrow;
  }
  memcpy(&wide, bytes, kind == TSR_KIND_FLOAT ? sizeof wide : 0);
  if (kind == TSR_KIND_FLOAT) return wide;
  memcpy(&bits, bytes, size);
  if (kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_BOOLEAN) return (double)bits;
  const unsigned unused = (unsigned)(64 - 8 * size);
  return (double)((int64_t)(bits << unused) >> unused);
}

/* Converts the text of a value of the attribute to a number. */
static int text_number(sqlite3_value *text, const tsr_field *field, double *number, tsr_error *error) {
  uint8_t *bytes;
  uint64_t size;
  TSX_TRY(tsx_bytes_convert(text, field->datatype, &bytes, &size, error));
  const bool fits = size == tsr_datatype_size(field->datatype);
  if (fits) *number = number_of(field->datatype, bytes);
  sqlite3_free(bytes);
  return fits ? TSR_OK : tsx_fail(error, TSR_MISMATCH, "expected one value");
}

/* Reads 'min' or 'max', a bound of the colour range: a number, or the text of a value of the attribute. */
static int read_end(const picture *p, const tsx_json_option *o, double *end, bool *given, tsr_error *error) {
  const tsr_field *field = field_of(p);
  double number = sqlite3_value_double(o->value);
  if (!strcmp(o->type, "text")) {
    tsr_error why = {0};
    const int code = text_number(o->value, field, &number, &why);
    if (code < 0) return tsx_fail(error, code, "'%s': %s", o->key, why.message);
  } else if (strcmp(o->type, "integer") != 0 && strcmp(o->type, "real") != 0) {
    return tsx_fail(error, TSR_MISMATCH, "'%s': expected a number%s", o->key,
                    picture_is_time(field) ? " or ISO text" : "");
  }
  if (!isfinite(number)) return tsx_fail(error, TSR_RANGE, "'%s': expected a finite number", o->key);
  *end = number;
  *given = true;
  return TSR_OK;
}

enum {
  PICTURE_OPTION_width,
  PICTURE_OPTION_height,
  PICTURE_OPTION_min,
  PICTURE_OPTION_max,
  PICTURE_OPTION_flip,
  PICTURE_OPTION_overviews,
  PICTURE_OPTION_colormap, /* this and the following are not for tessera_preview */
  PICTURE_OPTION_nodata,
  PICTURE_OPTION_tile,
  PICTURE_OPTION_axes,
  PICTURE_OPTION_wrap
};

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  picture *p = argument;
  switch (option) {
  case PICTURE_OPTION_width: p->options.width = (uint64_t)value->whole; break;
  case PICTURE_OPTION_height: p->options.height = (uint64_t)value->whole; break;
  case PICTURE_OPTION_min: return read_end(p, value->json, &p->options.min, &p->options.has_min, error);
  case PICTURE_OPTION_max: return read_end(p, value->json, &p->options.max, &p->options.has_max, error);
  case PICTURE_OPTION_flip: p->options.flip = value->whole; break;
  case PICTURE_OPTION_overviews: p->options.no_overviews = !value->whole; break;
  case PICTURE_OPTION_tile: return tsx_tile_take(&p->tile, p->connection->db, value, error);
  case PICTURE_OPTION_axes: return tsx_plane_take_axes(&p->tile.words, value, error);
  case PICTURE_OPTION_wrap: p->tile.words.wrap = value->number; break;
  case PICTURE_OPTION_nodata: return tsx_colour_parse(value->text, p->colours.nodata, error);
  default:
    p->options.colormap = sqlite3_mprintf("%s", value->text);
    if (!p->options.colormap) return tsx_out_of_memory(error);
    return tsx_colours_make(p->options.colormap, 0, 1, &p->colours, error);
  }
  return TSR_OK;
}

/* Checks the options of a tile, and sets its size. */
static int check_tile(picture *p, tsr_error *error) {
  picture_options *o = &p->options;
  if (!p->tile.given && (p->tile.words.count || p->tile.words.wrap > 0))
    return tsx_fail(error, TSR_ERROR, "'axes' and 'wrap' are for a tile");
  if (!p->tile.given) return TSR_OK;
  if (!o->has_min || !o->has_max)
    return tsx_fail(error, TSR_ERROR, "'tile': give min and max, so that all tiles have one scale");
  if (o->flip) return tsx_fail(error, TSR_ERROR, "'flip': a tile has north at its top");
  if (p->tile.words.wrap > 0 && p->tile.words.wrap != 360)
    return tsx_fail(error, TSR_RANGE, "'wrap': the longitudes of a tile repeat every 360 degrees");
  if (!o->width) o->width = o->height ? o->height : TSX_TILE_SIDE;
  if (!o->height) o->height = o->width;
  if (o->width != o->height || o->width > TSX_TILE_SIDE_MAX)
    return tsx_fail(error, TSR_RANGE, "a tile of %llu x %llu pixels: width and height are equal, and at most %d",
                    (unsigned long long)o->width, (unsigned long long)o->height, TSX_TILE_SIDE_MAX);
  return TSR_OK;
}

static int read_options(picture *p, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_spec specs[] = {[PICTURE_OPTION_width] = {"width", TSX_TAKES_WHOLE, 1, PIXELS_MAX, NULL},
                                          [PICTURE_OPTION_height] = {"height", TSX_TAKES_WHOLE, 1, PIXELS_MAX, NULL},
                                          [PICTURE_OPTION_min] = {.name = "min"},
                                          [PICTURE_OPTION_max] = {.name = "max"},
                                          [PICTURE_OPTION_flip] = {"flip", TSX_TAKES_FLAG, 0, 0, NULL},
                                          [PICTURE_OPTION_overviews] = {"overviews", TSX_TAKES_FLAG, 0, 0, NULL},
                                          [PICTURE_OPTION_colormap] = {"colormap", TSX_TAKES_TEXT, 0, 0, NULL},
                                          [PICTURE_OPTION_nodata] = {"nodata", TSX_TAKES_TEXT, 0, 0, NULL},
                                          [PICTURE_OPTION_tile] = {.name = "tile"},
                                          [PICTURE_OPTION_axes] = {.name = "axes"},
                                          [PICTURE_OPTION_wrap] = {"wrap", TSX_TAKES_ABOVE, 0, INT64_C(1) << 40, NULL}};
  tsx_option_list list = TSX_OPTION_LIST(specs);
  for (unsigned i = PICTURE_OPTION_colormap; p->is_text && i <= PICTURE_OPTION_wrap; i++)
    list.without |= UINT64_C(1) << i;
  p->tile.words.db = p->connection->db;
  TSX_TRY(tsx_options_read(p->connection->db, json, &list, take_option, p, error));
  if (p->options.has_min && p->options.has_max && p->options.min >= p->options.max)
    return tsx_fail(error, TSR_RANGE, "'min' is not below 'max'");
  return check_tile(p, error);
}

/* ---- The attribute and the two dimensions ------------------------------------------------------------------------ */

static int check_field(const picture *p, tsr_error *error) {
  const tsr_field *field = field_of(p);
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES)
    return tsx_fail(error, TSR_MISMATCH, "attribute '%s' is %s: a picture needs numbers", p->names[p->field],
                    tsr_datatype_name(field->datatype));
  if (field->values_per_cell != 1)
    return tsx_fail(error, TSR_MISMATCH, "attribute '%s' has several values in a cell: a picture needs one",
                    p->names[p->field]);
  return TSR_OK;
}

/* Returns true if the slice has one value of the dimension. */
static bool is_single(const picture *p, uint32_t d) {
  const tsx_bound *bound = &p->slice.bounds[d];
  const tsr_interval *box = &p->slice.box[d];
  const uint64_t size = p->schema->fields[d].cell_size;
  if (size) return !memcmp(box->low, box->high, size);
  return bound->low_given && bound->high_given && box->low_size == box->high_size &&
         (!box->low_size || !memcmp(box->low_text, box->high_text, box->low_size));
}

/* Chooses the two dimensions of the picture: those on which the slice has more than one value. If there are fewer than
 * two, adds dimensions with a single value, first those that the slice does not name, then those that it names. */
static int choose_axes(picture *p, tsr_error *error) {
  const uint32_t n = p->schema->dimension_count;
  uint32_t chosen[2], count = 0;
  char left[200] = "";
  if (n < 2) return tsx_fail(error, TSR_ERROR, "array %s has one dimension: a picture has two", p->address.given);
  for (int pass = 0; pass < 3 && (pass == 0 || count < 2); pass++)
    for (uint32_t d = 0; d < n && (pass == 0 || count < 2); d++) {
      const bool eligible = pass == 0   ? !is_single(p, d)
                            : pass == 1 ? is_single(p, d) && !p->slice.bounds[d].given
                                        : is_single(p, d) && p->slice.bounds[d].given;
      if (!eligible || (!p->schema->fields[d].cell_size && pass > 0)) continue;
      if (!p->schema->fields[d].cell_size)
        return tsx_fail(error, TSR_ERROR, "dimension '%s' holds strings: give one value of it in the slice",
                        p->names[d]);
      const size_t size = strlen(left);
      sqlite3_snprintf((int)(sizeof left - size), left + size, "%s%s", size ? ", " : "", p->names[d]);
      if (count < 2) chosen[count] = d;
      count++;
    }
  if (count > 2)
    return tsx_fail(error, TSR_ERROR, "%u dimensions are left (%s): give one value of all but two in the slice", count,
                    left);
  if (count < 2)
    return tsx_fail(error, TSR_ERROR, "array %s has fewer than two dimensions of numbers: a picture needs two",
                    p->address.given);
  p->row = chosen[0] < chosen[1] ? chosen[0] : chosen[1];
  p->column = chosen[0] < chosen[1] ? chosen[1] : chosen[0];
  return TSR_OK;
}

/* Fails because the slice has several values on dimensions that a tile does not draw. */
static int check_rest(const picture *p, tsr_error *error) {
  for (uint32_t d = 0; d < p->schema->dimension_count; d++)
    if (d != p->row && d != p->column && !is_single(p, d))
      return tsx_fail(error, TSR_ERROR, "the slice has several values of '%s': give one", p->names[d]);
  return TSR_OK;
}

/* Finds the axes of a tile, which the option "axes" names, or those that the slice leaves. */
static int choose_tile_axes(picture *p, const tsx_label_source *labels, tsr_error *error) {
  const bool chosen = !p->tile.words.count && !p->empty && p->schema->dense;
  if (chosen) TSX_TRY(choose_axes(p, error));
  const uint32_t dimensions[2] = {p->row, p->column};
  TSX_TRY(tsx_plane_make(p->connection->environment, &p->tile.words, chosen ? dimensions : NULL, p->schema, p->names,
                         labels, &p->tile.plane, error));
  p->row = p->tile.plane.dimensions[0];
  p->column = p->tile.plane.dimensions[1];
  return p->empty ? TSR_OK : check_rest(p, error);
}

static int open_picture(picture *p, sqlite3_value *path, sqlite3_value *name, sqlite3_value *slice,
                        sqlite3_value *options, tsr_error *error) {
  tsx_address *address = &p->address;
  bool empty = false;
  TSX_TRY(tsx_address_open(p->connection, path, NULL, NULL, NULL, address, error));
  TSX_TRY(tsx_address_array(address, error));
  TSX_TRY(tsr_array_schema(address->array->core, address->as_of, &p->schema, error));
  if (!(p->names = tsx_names_make(p->schema))) return tsx_out_of_memory(error);
  TSX_TRY(tsx_attribute_find(p->schema, address->given, (const char *)sqlite3_value_text(name), &p->field, error));
  TSX_TRY(check_field(p, error));
  TSX_TRY(read_options(p, options, error));
  const tsx_label_source labels = tsx_address_labels(address);
  TSX_TRY(tsx_slice_parse(p->connection->db, slice, p->schema, &labels, address->uint64_signed, &p->slice, error));
  TSX_TRY(tsx_array_snapshot(p->connection, address->array, p->schema, address->since, address->as_of, false,
                             &p->snapshot, error));
  TSX_TRY(tsx_slice_complete(p->snapshot->core, &p->slice, &empty, error));
  p->empty = empty && p->tile.given;
  if (p->tile.given) return choose_tile_axes(p, &labels, error);
  if (empty)
    return tsx_fail(error, TSR_ERROR,
                    "array %s has no cells there, and the slice does not give both ends of all dimensions",
                    address->given);
  return choose_axes(p, error);
}

/* Makes the grid of a SELECT the picture. `advice` says how to leave two keys. */
static int open_grid(picture *p, const char *select, const char *column, const char *advice, tsr_error *error) {
  const uint64_t limit = (uint64_t)sqlite3_limit(p->connection->db, SQLITE_LIMIT_LENGTH, -1);
  p->grid->gaps = true; /* pixels without data */
  p->grid->within = true;
  TSX_TRY(tsx_grid_make(p->connection, select, column, limit, p->grid, error));
  if (p->grid->axis_count != 2)
    return tsx_fail(error, TSR_ERROR, "a picture has two keys, the query %u%s", p->grid->axis_count,
                    p->grid->axis_count > 2 ? advice : "");
  p->row = 0;
  p->column = 1;
  p->empty = !p->grid->count && p->tile.given;
  if (p->empty) return TSR_OK;
  if (!p->grid->count) return tsx_fail(error, TSR_ERROR, "the query has no rows");
  return p->tile.given ? tsx_tile_axes_of_grid(p->connection->environment, &p->tile, p->grid, error) : TSR_OK;
}

/* Opens the picture of a query: (query[, column][, options]). */
static int open_query(picture *p, int count, sqlite3_value **values, tsr_error *error) {
  const char *column = NULL;
  for (int i = 1; i < count; i++) {
    const char *text =
        sqlite3_value_type(values[i]) == SQLITE_TEXT ? (const char *)sqlite3_value_text(values[i]) : NULL;
    if (sqlite3_value_type(values[i]) == SQLITE_NULL) continue;
    if (!text) return tsx_fail(error, TSR_MISMATCH, "argument %d: expected text", i + 1);
    if (*text == '{' && i + 1 == count) TSX_TRY(read_options(p, values[i], error));
    else if (i == 1 && *text != '{') column = text;
    else return tsx_fail(error, TSR_ERROR, "a query has no slice: write WHERE; its arguments are column and options");
  }
  return open_grid(p, (const char *)sqlite3_value_text(values[0]), column,
                   ": set the others to one value in WHERE, and leave them out of the columns", error);
}

/* Opens the picture of a tessera_query table, if the path names one: (path, column[, slice[, options]]). Returns 1, or
 * 0. */
static int open_table(picture *p, int count, sqlite3_value **values, tsx_grid *grid, tsr_error *error) {
  char *select = NULL;
  const char *column = (const char *)sqlite3_value_text(values[1]);
  int code = tsx_grid_path(p->connection, values[0], column, count > 2 ? values[2] : NULL, true, &select, error);
  if (code > 0) {
    p->grid = grid;
    code = read_options(p, count > 3 ? values[3] : NULL, error);
    if (code >= 0) code = open_grid(p, select, column, ": give one value of all but two in the slice", error);
    if (code >= 0) code = 1;
  }
  sqlite3_free(select);
  return code;
}

static void close_picture(picture *p) {
  tsx_tile_close(&p->tile);
  if (p->grid) {
    sqlite3_free(p->downsample);
    tsx_grid_release(p->grid);
    sqlite3_free(p->options.colormap);
    sqlite3_free(p->numbers);
    return;
  }
  tsr_downsample_close(p->downsample);
  tsx_snapshot_release(p->snapshot);
  tsx_slice_release(&p->slice);
  if (p->names) tsx_names_free(p->names, p->schema);
  sqlite3_free(p->options.colormap);
  sqlite3_free(p->numbers);
  tsx_address_close(&p->address);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* Returns the length of the slice on a dimension: for integers the number of cells, for floats high - low. */
static double length_of(const picture *p, uint32_t d) {
  if (p->grid) return (double)p->grid->axes[d].count;
  const tsr_field *field = &p->schema->fields[d];
  const double low = number_of(field->datatype, p->slice.box[d].low);
  const double high = number_of(field->datatype, p->slice.box[d].high);
  return tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT ? high - low : high - low + 1;
}

static uint64_t clamp(double size, double min, double max) {
  return (uint64_t)(size >= max ? max : size >= min ? size : min);
}

/* Chooses the width and height if they are not given. Integer dimensions shrink by an integral factor, so that each
 * pixel covers the same number of cells. */
static void choose_size(picture *p) {
  const bool real = !p->grid && (tsr_datatype_kind(p->schema->fields[p->row].datatype) == TSR_KIND_FLOAT ||
                                 tsr_datatype_kind(p->schema->fields[p->column].datatype) == TSR_KIND_FLOAT);
  const double rows = length_of(p, p->row), columns = length_of(p, p->column), longer = rows > columns ? rows : columns;
  const bool shaped = rows > 0 && columns > 0 && isfinite(rows) && isfinite(columns);
  const double ratio = (shaped ? rows / columns : 1) / (p->is_text ? 2 : 1); /* a character is twice as high as wide */
  if (p->is_text && !p->options.width && !p->options.height) {
    p->options.width = clamp(floor(ratio > 0 ? TEXT_HEIGHT / ratio : TEXT_WIDTH), 1, TEXT_WIDTH);
    p->options.height = clamp(round((double)p->options.width * ratio), 1, TEXT_HEIGHT);
  } else if (p->options.width && p->options.height) {
    return;
  } else if (p->options.width) {
    p->options.height = clamp(round((double)p->options.width * ratio), 1, PIXELS_MAX);
  } else if (p->options.height) {
    p->options.width = clamp(round((double)p->options.height / ratio), 1, PIXELS_MAX);
  } else if (!shaped) {
    p->options.width = p->options.height = LENGTH_MIN;
  } else {
    const double max = field_of(p)->enumeration && longer <= LENGTH_EXACT_MAX ? LENGTH_EXACT_MAX : LENGTH_MAX;
    const double factor = real ? longer / max : ceil(longer / max);
    p->options.width = clamp(ceil(columns / factor), real || columns > LENGTH_MIN ? LENGTH_MIN : columns, max);
    p->options.height = clamp(ceil(rows / factor), real || rows > LENGTH_MIN ? LENGTH_MIN : rows, max);
  }
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Returns true if cells with the fill value count as cells without data. TileDB's default fill values of one byte, such
 * as 255, are common as data, so they count as values. */
static bool skips_fill(const tsr_field *field) {
  uint8_t standard[8];
  if (!field->fill || field->cell_size > 1) return field->fill;
  tsr_datatype_fill(field->datatype, standard);
  return *field->fill != *standard;
}

/* Finds the cells of a tile's pixels: of the array, or of a level. `halved` are the marks of y and x. Enumerated values
 * have no mean. */
static int find_tile(picture *p, unsigned shift, const bool halved[2], tsr_downsample_request *request,
                     tsr_error *error) {
  unsigned shifts[2];
  int64_t lows[2];
  for (int i = 0; i < 2; i++) {
    const tsr_field *field = &p->schema->fields[p->tile.plane.dimensions[i]];
    const bool is_unsigned = tsr_datatype_kind(field->datatype) == TSR_KIND_UNSIGNED;
    shifts[i] = halved[i] ? shift : 0;
    lows[i] = is_unsigned ? (int64_t)tsx_load_unsigned(field->low, field->cell_size)
                          : tsx_load_signed(field->low, field->cell_size);
  }
  TSX_TRY(tsx_tile_find(p->connection->environment, &p->tile, p->options.width, field_of(p)->enumeration != NULL,
                        shifts, lows, error));
  request->rows = &p->tile.rows->side;
  request->columns = &p->tile.columns->side;
  return TSR_OK;
}

/* Returns true if a level has halved the dimension: its domain is another. */
static bool is_halved(const tsr_field *field, const tsr_field *of_level) {
  return memcmp(field->low, of_level->low, sizeof field->low) != 0 ||
         memcmp(field->high, of_level->high, sizeof field->high) != 0;
}

/* Draws the grid from a level of the array's overviews. Returns 0 if no level suits. */
static int read_level(picture *p, const tsr_downsample_request *request, tsx_level *level, tsr_error *error) {
  const tsx_tile *tile = &p->tile;
  int code =
      tile->given
          ? tsx_level_open(&p->address, p->snapshot->core, p->names, p->row, p->column, (double)tile->rows->cells,
                           (double)tile->columns->cells, tile->rows->filled, tile->columns->filled, level, error)
          : tsx_level_open(&p->address, p->snapshot->core, p->names, p->row, p->column, length_of(p, p->row),
                           length_of(p, p->column), request->height, request->width, level, error);
  if (code <= 0) return code;
  const tsr_schema *schema = tsr_snapshot_schema(level->snapshot);
  tsr_downsample_request from_level = *request;
  if (schema->dimension_count != p->schema->dimension_count || !schema->dense) return 0;
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    if (schema->fields[d].datatype != p->schema->fields[d].datatype) return 0;
  for (from_level.field = schema->dimension_count;; from_level.field++) {
    if (from_level.field == schema->dimension_count + schema->attribute_count) return 0;
    if (!strcmp(schema->fields[from_level.field].name, field_of(p)->name)) break;
  }
  tsr_interval *box = sqlite3_malloc64(schema->dimension_count * sizeof *box);
  if (!box) return tsx_out_of_memory(error);
  memcpy(box, p->slice.box, schema->dimension_count * sizeof *box);
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &p->schema->fields[d];
    uint64_t low = 0, ends[2] = {0, 0};
    if (!is_halved(field, &schema->fields[d])) continue;
    memcpy(&low, field->low, field->cell_size);
    memcpy(&ends[0], box[d].low, field->cell_size);
    memcpy(&ends[1], box[d].high, field->cell_size);
    for (int i = 0; i < 2; i++) ends[i] = ((ends[i] - low) & UINT64_MAX >> (64 - 8 * field->cell_size)) >> level->shift;
    memcpy(box[d].low, &ends[0], field->cell_size);
    memcpy(box[d].high, &ends[1], field->cell_size);
  }
  from_level.box = box;
  from_level.skip_fill = false;
  const bool halved[2] = {is_halved(&p->schema->fields[p->row], &schema->fields[p->row]),
                          is_halved(&p->schema->fields[p->column], &schema->fields[p->column])};
  if (tile->given) code = find_tile(p, level->shift, halved, &from_level, error);
  if (code >= 0) code = tsr_downsample_open(level->snapshot, &from_level, &p->downsample, error);
  sqlite3_free(box);
  return code < 0 ? code : 1;
}

/* Draws a tile where the array has no cells. */
static int read_nothing(picture *p, tsr_downsample_request *request, tsr_error *error) {
  tsr_downsample_side rows = *request->rows, columns = *request->columns;
  rows.run_count = columns.run_count = 0;
  request->rows = &rows;
  request->columns = &columns;
  return tsr_downsample_open(p->snapshot->core, request, &p->downsample, error);
}

static int read_array(picture *p, tsr_error *error) {
  tsr_downsample_request request = {.box = p->slice.box,
                                    .field = p->field,
                                    .row = p->row,
                                    .column = p->column,
                                    .height = p->options.height,
                                    .width = p->options.width,
                                    .skip_fill = skips_fill(field_of(p)),
                                    .memory_bytes = p->address.memory_bytes};
  static const bool whole[2] = {false, false};
  tsx_level level = {0};
  if (p->tile.given) TSX_TRY(find_tile(p, 0, whole, &request, error));
  if (p->empty) return read_nothing(p, &request, error);
  int code = p->options.no_overviews ? 0 : read_level(p, &request, &level, error);
  tsx_level_close(&level);
  if (code == 0 && p->tile.given) code = find_tile(p, 0, whole, &request, error); /* not those of a level */
  if (code == 0) code = tsr_downsample_open(p->snapshot->core, &request, &p->downsample, error);
  if (code < 0) return code;
  if (field_of(p)->enumeration && p->downsample->most > 1)
    return tsx_fail(error, TSR_ERROR,
                    "attribute '%s' is enumerated, and labels have no mean: %llu cells would be one %s; take a smaller "
                    "slice, or a larger width and height",
                    p->names[p->field], (unsigned long long)p->downsample->most, p->is_text ? "character" : "pixel");
  return TSR_OK;
}

/* Adds a number to a place, like the core's downsampling: an infinity counts, but is no bound of the colour range. */
static void grid_add(tsr_downsample *drawn, double *sums, uint64_t *counts, uint64_t place, double number) {
  if (isnan(number)) return;
  sums[place] = counts[place] ? sums[place] + number : number;
  drawn->cells++;
  if (++counts[place] > drawn->most) drawn->most = counts[place];
  if (!isfinite(number)) return;
  if (number < drawn->min) drawn->min = number;
  if (number > drawn->max) drawn->max = number;
}

/* Averages the numbers of a query's grid. On an axis, value i of n falls into place i * p / n of p. */
static int read_grid(picture *p, tsr_error *error) {
  const tsx_grid *grid = p->grid;
  const uint64_t rows = grid->axes[p->row].count, columns = grid->axes[p->column].count;
  tsr_downsample *drawn = sqlite3_malloc64(sizeof *drawn);
  if (!(p->downsample = drawn)) return tsx_out_of_memory(error);
  *drawn = (tsr_downsample){.height = p->options.height < rows ? p->options.height : rows,
                            .width = p->options.width < columns ? p->options.width : columns,
                            .min = INFINITY,
                            .max = -INFINITY};
  const uint64_t places = drawn->height * drawn->width;
  double *sums = tsx_arena_take(&p->grid->arena, places * sizeof *sums);
  uint64_t *counts = tsx_arena_take(&p->grid->arena, places * sizeof *counts);
  if (!sums || !counts) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < grid->count; i++) {
    const uint64_t place = i / columns * drawn->height / rows * drawn->width + i % columns * drawn->width / columns;
    const double number = grid->whole ? (double)((const int64_t *)grid->places)[i] : ((const double *)grid->places)[i];
    grid_add(drawn, sums, counts, place, number);
  }
  for (uint64_t i = 0; i < places; i++) sums[i] = counts[i] ? sums[i] / (double)counts[i] : NAN;
  drawn->means = sums;
  return TSR_OK;
}

/* Draws the tile of a query. */
static int read_grid_tile(picture *p, tsr_error *error) {
  const uint64_t side = p->options.width;
  if (!(p->downsample = sqlite3_malloc64(sizeof *p->downsample))) return tsx_out_of_memory(error);
  double *means = tsx_arena_take(&p->grid->arena, side * side * sizeof *means);
  if (!means) return tsx_out_of_memory(error);
  *p->downsample = (tsr_downsample){.height = side, .width = side, .means = means};
  for (uint64_t i = 0; i < side * side; i++) means[i] = NAN;
  if (p->empty) return TSR_OK;
  TSX_TRY(tsx_tile_find(p->connection->environment, &p->tile, side, false, NULL, NULL, error));
  return tsx_tile_draw_grid(&p->tile, p->grid, means, p->downsample, error);
}

static int read_downsample(picture *p, sqlite3_context *context, tsr_error *error) {
  const uint64_t limit = (uint64_t)sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1);
  const uint64_t pixel_size = p->is_text ? 1 : 4;
  choose_size(p);
  if (p->options.height > limit / pixel_size / (p->options.width + p->is_text))
    return tsx_fail(error, TSR_TOOBIG, "%llu x %llu %s exceed SQLite's limit for a value (%llu bytes)",
                    (unsigned long long)p->options.width, (unsigned long long)p->options.height,
                    p->is_text ? "characters" : "pixels", (unsigned long long)limit);
  if (p->is_text && p->address.memory_bytes && p->options.height * (p->options.width + 1) > p->address.memory_bytes)
    return tsx_fail(error, TSR_BUDGET, "%llu x %llu characters are more than memory_mb allows (%llu MiB)",
                    (unsigned long long)p->options.width, (unsigned long long)p->options.height,
                    (unsigned long long)(p->address.memory_bytes >> 20));
  TSX_TRY(!p->grid ? read_array(p, error) : p->tile.given ? read_grid_tile(p, error) : read_grid(p, error));
  if (!p->options.has_min) p->options.min = p->downsample->min <= p->downsample->max ? p->downsample->min : 0;
  if (!p->options.has_max) p->options.max = p->downsample->min <= p->downsample->max ? p->downsample->max : 0;
  if (p->options.min > p->options.max && p->options.has_min) p->options.max = p->options.min;
  if (p->options.min > p->options.max) p->options.min = p->options.max;
  return TSR_OK;
}

/* Returns the means that row y of the picture shows; row 0 is at the top. */
static const double *picture_row_at(const picture *p, uint64_t y) {
  if (p->options.flip) y = p->options.height - 1 - y;
  return p->downsample->means + y * p->downsample->height / p->options.height * p->downsample->width;
}

/* Returns true if the host has cancelled the statement. Checks only once per CANCEL_BYTES of rows, or every 64 rows if
 * these are small. */
static bool is_cancelled(const picture *p, uint64_t y, uint64_t row_bytes) {
  const uint64_t rows = row_bytes < CANCEL_BYTES / 64 ? 64 : CANCEL_BYTES / row_bytes;
  return y % rows == rows - 1 && tsx_connection_cancelled(p->connection);
}

/* ---- PNG --------------------------------------------------------------------------------------------------------- */

static int paint_row(void *argument, uint64_t y, uint16_t *row, tsr_error *error) {
  const picture *p = argument;
  const uint64_t places = p->downsample->width;
  const uint16_t *numbers = p->numbers + (uint64_t)(picture_row_at(p, y) - p->downsample->means);
  if (is_cancelled(p, y, 4 * p->options.width)) return tsx_fail_cancelled(error);
  if (places == p->options.width) memcpy(row, numbers, places * sizeof *row);
  else
    for (uint64_t x = 0; x < p->options.width; x++) row[x] = numbers[x * places / p->options.width];
  return TSR_OK;
}

static int make_png(picture *p, sqlite3_context *context, tsr_error *error) {
  const uint64_t limit = (uint64_t)sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1);
  const uint64_t memory = p->address.memory_bytes, max_size = memory && memory < limit ? memory : limit;
  tsx_png_picture drawn = {.width = (uint32_t)p->options.width,
                           .height = (uint32_t)p->options.height,
                           .colours = &p->colours,
                           .row = paint_row,
                           .argument = p};
  uint8_t *file = NULL;
  uint64_t size = 0;
  TSX_TRY(tsx_colours_make(p->options.colormap ? p->options.colormap : "viridis", p->options.min, p->options.max,
                           &p->colours, error));
  const uint64_t count = p->downsample->height * p->downsample->width;
  p->numbers = sqlite3_malloc64(count * sizeof *p->numbers);
  if (!p->numbers) return tsx_out_of_memory(error);
  tsx_colours_number(&p->colours, p->downsample->means, count, p->numbers);
  for (uint64_t i = 0; i < count; i++) drawn.used[p->numbers[i]] = true;
  TSX_TRY(tsx_png_encode(&drawn, max_size, &file, &size, error));
  sqlite3_result_blob64(context, file, size, sqlite3_free);
  return TSR_OK;
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static void append_value(sqlite3_str *out, const tsr_field *field, double value) {
  char text[48];
  if (picture_is_time(field) && value > -9.2e18 && value < 9.2e18 &&
      tsr_datetime_print(field->datatype, (int64_t)value, text) > 0)
    sqlite3_str_appendall(out, text);
  else sqlite3_str_appendf(out, field->datatype == TSR_FLOAT32 ? "%.7g" : "%.15g", value);
}

static void append_key(sqlite3_str *out, const tsx_grid_axis *axis, uint64_t i) {
  if (axis->type == TSR_VALUE_INTEGER) sqlite3_str_appendf(out, "%lld", (long long)(axis->low + (int64_t)i));
  else if (axis->type == TSR_VALUE_REAL) sqlite3_str_appendf(out, "%.15g", axis->reals[i]);
  else
    sqlite3_str_appendf(out, "\"%.*s\"", (int)tsr_utf8_cut(axis->texts[i], strlen(axis->texts[i]), 64), axis->texts[i]);
}

/* Appends a dimension's name and range; `reversed`: from high to low. */
static void append_range(sqlite3_str *out, const picture *p, uint32_t d, bool reversed) {
  if (p->grid) {
    const tsx_grid_axis *axis = &p->grid->axes[d];
    sqlite3_str_appendf(out, "%s ", axis->name);
    append_key(out, axis, reversed ? axis->count - 1 : 0);
    sqlite3_str_appendall(out, " to ");
    append_key(out, axis, reversed ? 0 : axis->count - 1);
    return;
  }
  const tsr_interval *box = &p->slice.box[d];
  const tsr_datatype shown = tsx_datatype_printed(&p->schema->fields[d], p->address.uint64_signed);
  sqlite3_str_appendf(out, "%s ", p->names[d]);
  tsx_json_value(out, shown, reversed ? box->high : box->low, false);
  sqlite3_str_appendall(out, " to ");
  tsx_json_value(out, shown, reversed ? box->low : box->high, false);
}

static char shade_of(const picture *p, double value) {
  if (isnan(value)) return ' ';
  if (value >= p->options.max) return shades[p->options.min < p->options.max ? SHADES - 1 : SHADES / 2];
  if (value <= p->options.min) return shades[0];
  const int step = (int)(tsx_share(value, p->options.min, p->options.max) * SHADES);
  return shades[step < SHADES ? step : SHADES - 1];
}

static int draw_rows(picture *p, sqlite3_str *out, tsr_error *error) {
  for (uint64_t y = 0; y < p->options.height; y++) {
    const double *means = picture_row_at(p, y);
    if (is_cancelled(p, y, p->options.width + 1)) return tsx_fail_cancelled(error);
    for (uint64_t x = 0; x < p->options.width; x++)
      sqlite3_str_appendchar(out, 1, shade_of(p, means[x * p->downsample->width / p->options.width]));
    sqlite3_str_appendchar(out, 1, '\n');
  }
  return TSR_OK;
}

/* The line below the picture: the attribute, the range of its shades, and the coordinates. */
static void append_legend(picture *p, sqlite3_str *out) {
  sqlite3_str_appendf(out, "%s: ", p->grid ? p->grid->name : p->names[p->field]);
  if (!p->downsample->cells) sqlite3_str_appendall(out, "no data");
  else {
    append_value(out, field_of(p), p->options.min);
    sqlite3_str_appendf(out, " (%c) to ", shades[0]);
    append_value(out, field_of(p), p->options.max);
    sqlite3_str_appendf(out, " (%c)", shades[SHADES - 1]);
  }
  sqlite3_str_appendall(out, "; down ");
  append_range(out, p, p->row, p->options.flip);
  sqlite3_str_appendall(out, ", right ");
  append_range(out, p, p->column, false);
}

static int make_text(picture *p, sqlite3_context *context, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  int code = draw_rows(p, out, error);
  append_legend(p, out);
  const int failed = sqlite3_str_errcode(out), size = sqlite3_str_length(out);
  char *text = sqlite3_str_finish(out);
  if (code >= 0 && failed != SQLITE_OK)
    code = tsx_fail(error, failed == SQLITE_TOOBIG ? TSR_TOOBIG : TSR_NOMEM, "no memory for the text");
  if (code >= 0) sqlite3_result_text64(context, text, (sqlite3_uint64)size, sqlite3_free, SQLITE_UTF8);
  else sqlite3_free(text);
  return code;
}

/* ---- The calls --------------------------------------------------------------------------------------------------- */

static int open_path(picture *p, int count, sqlite3_value **values, tsx_grid *grid, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  if (count < 2) return tsx_fail(error, TSR_ERROR, "a path must be followed by an attribute");
  const int code = open_table(p, count, values, grid, error);
  if (code) return code;
  return open_picture(p, values[0], values[1], count > 2 ? values[2] : NULL, count > 3 ? values[3] : NULL, error);
}

static int draw_call(picture *p, sqlite3_context *context, int count, sqlite3_value **values, tsx_grid *grid,
                     tsr_error *error) {
  if (tsx_is_query(values[0])) {
    p->grid = grid;
    TSX_TRY(open_query(p, count, values, error));
  } else {
    TSX_TRY(open_path(p, count, values, grid, error));
  }
  TSX_TRY(read_downsample(p, context, error));
  return p->is_text ? make_text(p, context, error) : make_png(p, context, error);
}

static void draw(sqlite3_context *context, int count, sqlite3_value **values, const char *name, bool is_text) {
  picture p = {.connection = sqlite3_user_data(context), .is_text = is_text};
  tsr_error error = {0};
  tsx_connection_add_table(p.connection); /* cancellation works only while a table is counted */
  tsx_connection_add_cursor(p.connection);
  tsx_grid grid = {0};
  const int code = draw_call(&p, context, count, values, &grid, &error);
  close_picture(&p);
  tsx_connection_remove_cursor(p.connection);
  tsx_function_end(context, name, code, &error);
  tsx_connection_remove_table(p.connection);
}

void tsx_png(sqlite3_context *context, int count, sqlite3_value **values) {
  draw(context, count, values, "tessera_png", false);
}

void tsx_preview(sqlite3_context *context, int count, sqlite3_value **values) {
  draw(context, count, values, "tessera_preview", true);
}
