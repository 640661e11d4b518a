/* advise.c: tessera_advise(path), which shows what is worth improving in an array, why, and the SQL statement that does
 * it.
 *
 * All findings come from metadata; no tile is decoded. In a large array, an evenly spaced sample of fragments and tiles
 * is measured. A rule reports only a large gain: an array that is merely imperfect has no findings.
 *
 * Sections: findings (one advise_* function for each group of rules), measuring, and the table. */
#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"
#include "database/store_sqlite.h"
#include "table/table.h"
#include "call/table_function.h"
#include "inspect/inspect.h"

#define FRAGMENTS_FEW      16 /* up to this many fragments need no consolidation */
#define FRAGMENTS_SAMPLED  64 /* the approximate number of fragments whose tiles are measured */
#define TILES_SAMPLED      256 /* the approximate number of tiles measured in each of them */
#define TILE_SMALL         16384.0 /* bytes of a field's tile in memory: below, the overhead per tile dominates */
#define TILE_LARGE         67108864.0 /* above, reading one cell costs too much, and threads cannot share the work */
#define TILE_SMALL_GOAL    262144.0 /* the size proposed for tiles that are too small, in bytes */
#define TILE_LARGE_GOAL    4194304.0 /* the size proposed for tiles that are too large, in bytes */
#define TILES_MANY         1000.0 /* small tiles matter only from this number on */
#define BYTES_WORTH        1048576.0 /* of a field: below, its filters do not matter */
#define CAPACITY_MIN       10000 /* the smallest capacity proposed for tiles that are too small */
#define CONDITIONS_FEW     8
#define COMPARISONS_FEW    50000 /* in all delete conditions: looking up more costs more than a few conditions */
#define TABLE_ADVISE_DAY   UINT64_C(86400000) /* milliseconds in which another writer may still finish its commit */
#define VERSION_STATISTICS 11 /* the first format version whose fragments have statistics */

typedef struct advice {
  const char *finding;
  char *detail, *statement; /* from sqlite3_malloc */
} advice;

typedef struct table_advise_measured { /* one field, in the sampled tiles */
  double tiles; /* their number */
  double stored, decoded; /* bytes in files, bytes in memory */
  double largest, largest_cells; /* the bytes in memory and the cells of the largest tile */
  double min, max; /* the range of an integer's values, according to statistics; min > max: unknown */
  uint64_t scale_tiles; /* all tiles of the sampled fragments */
} table_advise_measured;

typedef struct table_advise_state {
  tsx_inside in;
  uint32_t count, room;
  advice *all;
  /* measurements: */
  double cells, tiles;
  double slots; /* the total capacity of the tiles, in cells */
  uint64_t fragments;
  uint64_t old; /* fragments without statistics */
  uint64_t notes; /* files or directories left over from unfinished writes */
  bool damaged; /* the check found errors or warnings: then needed files may look like leftovers */
  uint64_t mergeable; /* fragments that a consolidation would merge */
  sqlite3_str *prepared; /* the names of prepared commits and their fragments, one per line; these are not leftovers */
  uint64_t owed; /* prepared commits that this connection's databases will publish or remove */
  uint64_t disowned; /* prepared commits of other databases, at least a day old */
  uint64_t oldest; /* the age of the oldest disowned commit, in milliseconds */
  char *owner; /* the database file of the first disowned commit, for the text; owned */
  table_advise_measured *fields;
} table_advise_state;

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

/* Adds a finding. Takes ownership of both texts, also on failure; a NULL text is an out-of-memory error. */
static int table_advise_add(table_advise_state *s, const char *finding, char *detail, char *statement,
                            tsr_error *error) {
  if (s->count == s->room) {
    const uint32_t room = s->room ? 2 * s->room : 8;
    advice *more = sqlite3_realloc64(s->all, room * sizeof *more);
    if (more) s->all = more, s->room = room;
  }
  if (s->count == s->room || !detail || !statement) {
    sqlite3_free(detail);
    sqlite3_free(statement);
    return tsx_out_of_memory(error);
  }
  s->all[s->count++] = (advice){finding, detail, statement};
  return TSR_OK;
}

/* Returns the proposed target of a copy, beside the array: a directory, or a table in the same database. */
static char *copy_target(const table_advise_state *s) {
  const char *path = s->in.address.path;
  if (tsx_store_is(path)) {
    const bool quoted = path[strlen(path) - 1] == '"';
    return sqlite3_mprintf("%.*s_new%s", (int)strlen(path) - quoted, path, quoted ? "\"" : "");
  }
  size_t size = strlen(path);
  while (size > 1 && path[size - 1] == '/') size--;
  return sqlite3_mprintf("%.*s-new", (int)size, path);
}

/* Returns SELECT tessera_copy(path, path-new, '{"KEY":VALUE}'); with a name of a dimension or attribute the option is
 * {"KEY":{"NAME":VALUE}}; without a key there are no options. */
static char *copy_statement(const table_advise_state *s, const char *path, const char *key, const char *name,
                            const char *value) {
  sqlite3_str *json = sqlite3_str_new(NULL);
  sqlite3_str_appendchar(json, 1, '{');
  if (key) sqlite3_str_appendf(json, "\"%s\":", key);
  if (name) {
    sqlite3_str_appendchar(json, 1, '{');
    tsx_json_text(json, name, strlen(name));
    sqlite3_str_appendf(json, ":%s}", value);
  } else if (key) {
    sqlite3_str_appendall(json, value);
  }
  sqlite3_str_appendchar(json, 1, '}');
  char *options = sqlite3_str_finish(json), *to = copy_target(s);
  char *made = options && to ? sqlite3_mprintf("SELECT tessera_copy(%Q, %Q, %Q)", path, to, options) : NULL;
  sqlite3_free(options);
  sqlite3_free(to);
  return made;
}

static char *consolidate_statement(const char *path) { return sqlite3_mprintf("SELECT tessera_consolidate(%Q)", path); }

static int advise_fragments(table_advise_state *s, const char *path, tsr_error *error) {
  const double average = s->fragments ? s->cells / (double)s->fragments : 0;
  const bool merges = s->mergeable > 0; /* otherwise a consolidation would change nothing */
  if (s->fragments > FRAGMENTS_FEW && merges)
    TSX_TRY(table_advise_add(
        s, "too many fragments",
        sqlite3_mprintf("%llu fragments of %lld cells each on average: a read opens files in each that its slice "
                        "meets; %llu of them can be merged",
                        (unsigned long long)s->fragments, tsx_int64_from_double(average),
                        (unsigned long long)s->mergeable),
        consolidate_statement(path), error));
  else if (merges && s->tiles > 4 && s->cells < 0.1 * s->slots)
    TSX_TRY(table_advise_add(
        s, "tiles that are mostly empty",
        sqlite3_mprintf("the tiles of %llu fragments have room for %lld cells and hold %lld: merged they fill up",
                        (unsigned long long)s->fragments, tsx_int64_from_double(s->slots),
                        tsx_int64_from_double(s->cells)),
        consolidate_statement(path), error));
  if (s->old > 0)
    TSX_TRY(table_advise_add(
        s, "statistics missing",
        sqlite3_mprintf("%llu of %llu fragments are of format versions below %d, without minimum, maximum and "
                        "sum: comparisons on attributes and aggregates read them as a whole",
                        (unsigned long long)s->old, (unsigned long long)s->fragments, VERSION_STATISTICS),
        copy_statement(s, path, "format_version", NULL, "22"), error));
  const uint64_t conditions = tsr_snapshot_condition_count(s->in.snapshot->core),
                 comparisons = tsr_snapshot_comparison_count(s->in.snapshot->core);
  if (conditions > CONDITIONS_FEW || comparisons > COMPARISONS_FEW)
    TSX_TRY(table_advise_add(
        s, "deletes that cost",
        sqlite3_mprintf("delete conditions that are evaluated for every cell that is read: %llu, of %llu "
                        "comparisons; %s",
                        (unsigned long long)conditions, (unsigned long long)comparisons,
                        merges ? "merging applies them" : "a copy is without them"),
        merges ? consolidate_statement(path) : copy_statement(s, path, NULL, NULL, NULL), error));
  const uint64_t replaced = tsr_snapshot_replaced_count(s->in.snapshot->core);
  if (s->notes + replaced == 0) return TSR_OK;
  return table_advise_add(
      s, "debris",
      sqlite3_mprintf("merges whose sources are still there: %llu; files or directories of writes that did not "
                      "finish: %llu (tessera_check names them)",
                      (unsigned long long)replaced, (unsigned long long)s->notes),
      sqlite3_mprintf("SELECT tessera_vacuum(%Q)", path), error);
}

/* Adds a finding if tiles are too small or too large. The field with the largest tiles decides, since a tile extent or
 * capacity applies to all fields, and these tiles need the most memory. */
static int advise_tiles(table_advise_state *s, const char *path, tsr_error *error) {
  const tsr_schema *schema = s->in.schema;
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  const table_advise_measured *widest = NULL;
  uint32_t field = 0;
  for (uint32_t f = 0; f < n; f++) {
    const table_advise_measured *m = &s->fields[f];
    if (m->tiles > 0 && (!widest || m->decoded / m->tiles > widest->decoded / widest->tiles)) widest = m, field = f;
  }
  if (!widest) return TSR_OK;
  const double size = widest->decoded / widest->tiles;
  const bool small = size < TILE_SMALL && s->tiles >= TILES_MANY, large = widest->largest > TILE_LARGE;
  if (!small && !large) return TSR_OK;
  const double cells = s->cells / s->tiles;
  /* Tiles that are not full do not grow with the capacity. */
  if (small && !schema->dense && cells < 0.5 * (double)schema->capacity) return TSR_OK;
  char *detail =
      sqlite3_mprintf("tiles of '%s' take %lld bytes in memory %s: %s", s->in.names[field],
                      tsx_int64_from_double(small ? size : widest->largest), small ? "on average" : "and more",
                      small ? "reading is mostly bookkeeping" : "every cell costs a whole tile");
  if (!schema->dense) {
    double capacity =
        small ? cells * TILE_SMALL_GOAL / size : widest->largest_cells * TILE_LARGE_GOAL / widest->largest;
    if (small && capacity < CAPACITY_MIN) capacity = CAPACITY_MIN;
    char value[32];
    sqlite3_snprintf(sizeof value, value, "%lld", tsx_int64_from_double(capacity < 1 ? 1 : capacity));
    return table_advise_add(s, small ? "tiles too small" : "tiles too large", detail,
                            copy_statement(s, path, "capacity", NULL, value), error);
  }
  /* One extent changes: small tiles grow along the dimension with the most tiles, large tiles shrink along the
   * dimension with the largest extent. */
  uint32_t d = 0;
  uint64_t best = 0, extent = 1;
  for (uint32_t k = 0; k < schema->dimension_count; k++) {
    const tsr_field *dimension = &schema->fields[k];
    uint64_t low = 0, high = 0, old_extent = 0;
    memcpy(&low, dimension->low, dimension->cell_size);
    memcpy(&high, dimension->high, dimension->cell_size);
    memcpy(&old_extent, dimension->extent, dimension->cell_size);
    const uint64_t mask = dimension->cell_size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * dimension->cell_size) - 1;
    const uint64_t range = (high - low) & mask, rank = old_extent == 0 ? 0 : small ? range / old_extent : old_extent;
    if (rank <= best) continue;
    best = rank;
    d = k;
    extent = old_extent;
    if (small) {
      const double larger = (double)old_extent * TILE_SMALL_GOAL / size;
      extent = larger < (double)range ? (uint64_t)tsx_int64_from_double(larger) : range;
    } else {
      extent = (uint64_t)tsx_int64_from_double((double)old_extent * TILE_LARGE_GOAL / widest->largest);
    }
  }
  char value[32];
  sqlite3_snprintf(sizeof value, value, "%llu", (unsigned long long)(extent ? extent : 1));
  return table_advise_add(s, small ? "tiles too small" : "tiles too large", detail,
                          copy_statement(s, path, "extents", s->in.names[d], value), error);
}

static bool table_advise_has_compressor(const tsr_pipeline *pipeline) {
  for (uint32_t i = 0; i < pipeline->count; i++) switch (pipeline->filters[i].type) {
    case TSR_FILTER_GZIP:
    case TSR_FILTER_ZSTD:
    case TSR_FILTER_LZ4:
    case TSR_FILTER_BZIP2:
    case TSR_FILTER_RLE:
    case TSR_FILTER_DICTIONARY:
    case TSR_FILTER_DELTA:
    case TSR_FILTER_DOUBLE_DELTA:
    case TSR_FILTER_BIT_WIDTH_REDUCTION:
    case TSR_FILTER_POSITIVE_DELTA: return true;
    default: break;
    }
  return false;
}

static bool is_integer(tsr_datatype datatype) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  return kind != TSR_KIND_FLOAT && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

/* Returns true if values that are stored uncompressed would probably shrink: integers only if their range leaves the
 * most significant byte unused; opaque bytes never, since most are compressed already. So a field whose compression was
 * switched off because it did not pay has no finding. */
static bool may_shrink(const tsr_field *field, const table_advise_measured *m) {
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_BYTES) return false;
  if (!is_integer(field->datatype) || m->min > m->max) return true;
  return m->max - m->min < ldexp(1, (int)(8 * tsr_datatype_size(field->datatype) - 8));
}

static int advise_filters(table_advise_state *s, const char *path, tsr_error *error) {
  const tsr_schema *schema = s->in.schema;
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++) {
    const table_advise_measured *m = &s->fields[f];
    if (m->decoded <= 0 || m->decoded / m->tiles * (double)m->scale_tiles < BYTES_WORTH) continue;
    const tsr_pipeline *pipeline = tsx_filters_of(schema, f);
    const bool compressed = table_advise_has_compressor(pipeline);
    const double share = 100 * m->stored / m->decoded; /* may be huge if the array is damaged */
    const int percent = share < 1e6 ? (int)share : 1000000;
    if (compressed && m->stored > 0.97 * m->decoded)
      TSX_TRY(table_advise_add(
          s, "filters that do not pay",
          sqlite3_mprintf("'%s' is stored in %d %% of its size: its filters cost time and save nothing", s->in.names[f],
                          percent),
          copy_statement(s, path, "filters", s->in.names[f], "\"none\""), error));
    else if (!compressed && may_shrink(&schema->fields[f], m))
      TSX_TRY(table_advise_add(
          s, "no compression",
          sqlite3_mprintf("'%s' takes %lld bytes as it is; numbers mostly shrink by byte shuffle and zstd",
                          s->in.names[f], tsx_int64_from_double(m->stored / m->tiles * (double)m->scale_tiles)),
          copy_statement(s, path, "filters", s->in.names[f],
                         schema->fields[f].cell_size > 1 ? "\"byteshuffle, zstd\"" : "\"zstd\""),
          error));
  }
  return TSR_OK;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* Maps a field of a fragment's schema to the array's schema. Returns -1 if the array has dropped the field. */
static int64_t shown_field(const table_advise_state *s, const tsr_schema *fragment_schema, int64_t field) {
  const tsr_schema *shown = s->in.schema;
  if (field < 0 || fragment_schema == shown) return field;
  for (uint32_t i = 0; i < shown->dimension_count + shown->attribute_count; i++)
    if (shown->fields[i].is_dimension == fragment_schema->fields[field].is_dimension &&
        !strcmp(shown->fields[i].name, fragment_schema->fields[field].name))
      return i;
  return -1;
}

static double number_of(tsr_datatype datatype, const void *value) {
  const uint64_t size = tsr_datatype_size(datatype);
  uint64_t bits = 0;
  memcpy(&bits, value, size);
  if (tsr_datatype_kind(datatype) == TSR_KIND_UNSIGNED || tsr_datatype_kind(datatype) == TSR_KIND_BOOLEAN)
    return (double)bits;
  const uint64_t sign = UINT64_C(1) << (8 * size - 1);
  return (double)(int64_t)((bits ^ sign) - sign);
}

/* Widens the range of a field's values by a tile's minimum and maximum. */
static void measure_range(table_advise_measured *m, const tsr_field *field, const tsr_tile_info *tile) {
  const uint64_t size = tsr_datatype_size(field->datatype);
  if (!is_integer(field->datatype) || !tile->min || !tile->max || tile->min_size != size || tile->max_size != size)
    return;
  const double low = number_of(field->datatype, tile->min), high = number_of(field->datatype, tile->max);
  if (low < m->min) m->min = low;
  if (high > m->max) m->max = high;
}

static int measure_fragment(table_advise_state *s, uint64_t number, const tsr_fragment_info *info, tsr_error *error) {
  tsr_tiles *tiles = NULL;
  int code = tsr_tiles_open(s->in.snapshot->core, number, &tiles, error);
  const uint64_t step = info->tiles / TILES_SAMPLED + 1;
  for (uint32_t i = 0; code >= 0 && i < tsr_tiles_fields(tiles); i++) {
    const int64_t field = shown_field(s, info->schema, tsr_tiles_field(tiles, i));
    if (field < 0) continue;
    table_advise_measured *m = &s->fields[field];
    m->scale_tiles += info->tiles;
    for (uint64_t t = 0; code >= 0 && t < info->tiles; t += step) {
      tsr_tile_info tile;
      if ((code = tsr_tiles_describe(tiles, i, t, &tile, error)) < 0) break;
      m->tiles += 1;
      m->stored += (double)tile.bytes;
      m->decoded += (double)tile.decoded_bytes;
      measure_range(m, &s->in.schema->fields[field], &tile);
      if ((double)tile.decoded_bytes > m->largest) {
        m->largest = (double)tile.decoded_bytes;
        m->largest_cells = (double)tile.cells;
      }
    }
  }
  tsr_tiles_close(tiles);
  return code;
}

/* Returns the total capacity of a fragment's tiles, in cells. */
static double slots_of(const tsr_fragment_info *info) {
  double cells = (double)info->schema->capacity;
  if (info->dense) cells = 1;
  for (uint32_t d = 0; info->dense && d < info->schema->dimension_count; d++) {
    const tsr_field *dimension = &info->schema->fields[d];
    uint64_t extent = 0;
    memcpy(&extent, dimension->extent, dimension->cell_size);
    cells *= (double)extent;
  }
  return cells * (double)info->tiles;
}

static int measure_array(table_advise_state *s, tsr_error *error) {
  tsr_snapshot *snapshot = s->in.snapshot->core;
  const uint32_t n = s->in.schema->dimension_count + s->in.schema->attribute_count;
  s->fields = sqlite3_malloc64(n * sizeof *s->fields);
  if (!s->fields) return tsx_out_of_memory(error);
  for (uint32_t f = 0; f < n; f++) s->fields[f] = (table_advise_measured){.min = INFINITY, .max = -INFINITY};
  s->fragments = tsr_fragment_count(snapshot);
  const uint64_t step = s->fragments / FRAGMENTS_SAMPLED + 1;
  for (uint64_t i = 0; i < s->fragments; i++) {
    tsr_fragment_info info;
    TSX_TRY(tsr_fragment_describe(snapshot, i, &info, error));
    if (i % step == 0) TSX_TRY(measure_fragment(s, i, &info, error));
    s->cells += (double)info.cells;
    s->tiles += (double)info.tiles;
    s->slots += slots_of(&info);
    s->old += info.version < VERSION_STATISTICS;
  }
  return TSR_OK;
}

/* Returns true if a file belongs to a prepared commit, which vacuum does not touch. */
static bool is_prepared(const table_advise_state *s, const char *file) {
  const char *names = sqlite3_str_value(s->prepared);
  for (const char *at = names; at && *at; at = strchr(at, '\n') + 1) {
    char name[160];
    const size_t size = strcspn(at, "\n");
    if (size >= sizeof name) continue;
    memcpy(name, at, size);
    name[size] = 0;
    if (strstr(file, name)) return true;
  }
  return false;
}

/* Counts a finding of tessera_check. */
static int count_note(void *argument, const tsr_finding *finding) {
  table_advise_state *s = argument;
  s->notes += finding->severity == TSR_SEVERITY_NOTE && !is_prepared(s, finding->file);
  s->damaged |= finding->severity != TSR_SEVERITY_NOTE;
  return TSR_OK;
}

typedef struct prepared_visit {
  tsx_connection *connection;
  table_advise_state *s;
  tsr_error *error;
} prepared_visit;

/* Counts a prepared commit. A commit whose writer is alive is not a finding, nor is a commit of another database during
 * its first day: its writer may still finish it. */
static int count_prepared(void *argument, const tsr_prepared *prepared) {
  const prepared_visit *visit = argument;
  table_advise_state *s = visit->s;
  const char *name = prepared->commit; /* __commits/NAME.wrt, NAME.ok, NAME/__fragment_metadata.tdb */
  if (!strncmp(name, "__commits/", 10)) name += 10;
  sqlite3_str_appendf(s->prepared, "%.*s\n", (int)strcspn(name, "./"), name);
  for (uint64_t i = 0; i < prepared->fragment_count; i++)
    sqlite3_str_appendf(s->prepared, "%s\n", prepared->fragments[i]);
  if (prepared->writer == TSR_WRITER_LIVES) return TSR_OK;
  const int claims = prepared->published ? 1 : tsx_journal_claims(visit->connection, prepared, visit->error);
  if (claims < 0) return claims;
  if (claims) {
    s->owed++;
  } else if (prepared->age >= TABLE_ADVISE_DAY) {
    s->disowned++;
    if (prepared->age > s->oldest) s->oldest = prepared->age;
    if (!s->owner)
      s->owner = sqlite3_mprintf("%s%s%s", prepared->file, prepared->host ? " on host " : "",
                                 prepared->host ? prepared->host : "");
    if (!s->owner) return TSR_NOMEM;
  }
  return TSR_OK;
}

static int find_prepared(tsx_scan *scan, table_advise_state *s, tsr_error *error) {
  prepared_visit visit = {scan->connection, s, error};
  s->prepared = sqlite3_str_new(NULL);
  TSX_TRY(tsr_array_prepared(s->in.address.array->core, count_prepared, &visit, error));
  return sqlite3_str_errcode(s->prepared) ? tsx_out_of_memory(error) : TSR_OK;
}

static int advise_prepared(table_advise_state *s, const char *path, tsr_error *error) {
  if (s->owed)
    TSX_TRY(table_advise_add(
        s, "prepared commits",
        sqlite3_mprintf("commits that this database has prepared, and whose writers are gone: %llu; a later write "
                        "publishes or removes them, as this statement does",
                        (unsigned long long)s->owed),
        sqlite3_mprintf("SELECT tessera_recover(%Q)", path), error));
  if (!s->disowned) return TSR_OK;
  return table_advise_add(
      s, "prepared commits of others",
      sqlite3_mprintf("commits that other databases have prepared and not published: %llu, the oldest %llu hours "
                      "ago, the first through %s; merges and vacuums leave them out. Each is published or removed by a "
                      "write through its own database; this statement removes all whose databases are gone",
                      (unsigned long long)s->disowned, (unsigned long long)(s->oldest / 3600000), s->owner),
      sqlite3_mprintf("SELECT tessera_recover(%Q, '{\"disown\":true}')", path), error);
}

/* Findings on the option auto_consolidate of this connection's tables. */
static int advise_upkeep(table_advise_state *s, const char *path, tsr_error *error) {
  const tsx_upkeep_state *state = &s->in.address.array->upkeep;
  if (state->failure)
    TSX_TRY(table_advise_add(s, "auto_consolidate failed",
                             sqlite3_mprintf("the last merge after a COMMIT failed, the next one is tried after %llu "
                                             "commits: %s",
                                             (unsigned long long)(state->wait - state->commits), state->failure),
                             sqlite3_mprintf("SELECT tessera_upkeep(%Q)", path), error));
  if (state->waiting == 0) return TSR_OK;
  return table_advise_add(s, "merges that wait",
                          sqlite3_mprintf("merges that are too large for a COMMIT: %llu; auto_consolidate leaves them",
                                          (unsigned long long)state->waiting),
                          sqlite3_mprintf("SELECT tessera_upkeep(%Q)", path), error);
}

/* Counts leftovers, by a quick check of the array. */
static int find_debris(tsx_scan *scan, table_advise_state *s, tsr_error *error) {
  const tsr_check_options options = {.key = s->in.address.has_key ? s->in.address.key : NULL, .quick = true};
  const int code = tsr_array_check(scan->connection->environment, s->in.address.path, &options, count_note, s, error);
  if (s->damaged) s->notes = 0;
  return code;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static int advise_open(tsx_scan *scan, tsr_error *error) {
  table_advise_state *s = scan->state;
  TSX_TRY(tsx_inside_open(scan, true, error));
  const char *path = (const char *)sqlite3_value_text(tsx_scan_argument(scan, 0));
  TSX_TRY(measure_array(s, error));
  const tsr_consolidate_options options = {.memory_bytes = s->in.address.memory_bytes};
  if (s->fragments > 1) TSX_TRY(tsr_array_mergeable(s->in.address.array->core, &options, &s->mergeable, error));
  TSX_TRY(find_prepared(scan, s, error));
  TSX_TRY(find_debris(scan, s, error));
  TSX_TRY(advise_fragments(s, path, error));
  TSX_TRY(advise_tiles(s, path, error));
  TSX_TRY(advise_filters(s, path, error));
  TSX_TRY(advise_prepared(s, path, error));
  return advise_upkeep(s, path, error);
}

static int advise_next(tsx_scan *scan, tsr_error *error) {
  return scan->row < (sqlite3_int64)((const table_advise_state *)scan->state)->count;
}

static int advise_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const advice *a = &((const table_advise_state *)scan->state)->all[scan->row - 1];
  const char *text = column == 0 ? a->finding : column == 1 ? a->detail : a->statement;
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  return TSR_OK;
}

static void advise_close(tsx_scan *scan) {
  table_advise_state *s = scan->state;
  for (uint32_t i = 0; i < s->count; i++) {
    sqlite3_free(s->all[i].detail);
    sqlite3_free(s->all[i].statement);
  }
  sqlite3_free(sqlite3_str_finish(s->prepared));
  sqlite3_free(s->owner);
  sqlite3_free(s->all);
  sqlite3_free(s->fields);
  tsx_inside_close(scan);
}

const tsx_about tsx_about_advise = {.name = "tessera_advise",
                                    .usage = "tessera_advise(path)",
                                    .columns =
                                        (const char *const[]){"finding TEXT", "detail TEXT", "statement TEXT", NULL},
                                    .arguments = TSX_PATH_ONLY,
                                    .required = 1,
                                    .same = -1,
                                    .rows = 4,
                                    .state_size = sizeof(table_advise_state),
                                    .open = advise_open,
                                    .next = advise_next,
                                    .column = advise_column,
                                    .close = advise_close};
