/* arguments.c: parses the arguments of CREATE VIRTUAL TABLE ... USING tessera(...); times, paths and keys.
 *
 * SQLite passes each argument as source text. If the first argument is just a string literal, it is the path; without a
 * path the array is in the database. An argument `word = value` is an option: the word in any case, the value with or
 * without quotes. Any other argument defines a column (columns.c). */
#include "tessera_path.h"
#include "definition/arguments.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/options.h"
#include "sql/tokens.h"
#include "tessera_host.h"

/* ---- Words and literals ------------------------------------------------------------------------------------------ */

static const char *skip_blanks(const char *p) {
  while (isspace((unsigned char)*p)) p++;
  return p;
}

/* Returns the text of a quoted literal with doubled quotes undone, from sqlite3_malloc. *end is the source after the
 * literal, or NULL if the quote is not closed. Returns NULL in that case, and if memory is lacking. */
static char *unquote(const char *p, const char **end) {
  char quote = *p++;
  char *text = sqlite3_malloc64(strlen(p) + 1);
  uint64_t n = 0;
  *end = NULL;
  for (; *p; p++) {
    if (*p == quote) {
      if (p[1] != quote) {
        if (text) text[n] = 0;
        *end = p + 1;
        return text;
      }
      p++;
    }
    if (text) text[n] = *p;
    n++;
  }
  sqlite3_free(text);
  return NULL;
}

/* ---- Times, keys, paths ------------------------------------------------------------------------------------------ */

/* Parses ISO-8601 text in UTC as milliseconds since 1970. A short form, like 2024-06, means its first millisecond; a
 * time before 1970 becomes 0. */
static int time_of_text(const char *text, uint64_t size, uint64_t *milliseconds, tsr_error *error) {
  int64_t value;
  int code = tsr_datetime_parse(TSR_DATETIME_MS, text, size, &value, error);
  const bool digits = size > 4 && strspn(text, "0123456789") == size;
  if (code < 0 && digits) return tsx_fail(error, code, "'%.60s': write an integer without quotes", text);
  if (code < 0) return code;
  *milliseconds = value < 0 ? 0 : (uint64_t)value; /* nothing was written before 1970 */
  return TSR_OK;
}

bool tsx_whole_number(sqlite3_value *value) {
  const int type = sqlite3_value_type(value);
  if (type != SQLITE_FLOAT) return type == SQLITE_INTEGER;
  const double number = sqlite3_value_double(value);
  return number > -0x1p53 && number < 0x1p53 && (double)(int64_t)number == number;
}

int tsx_time_value(sqlite3_value *value, const char *name, uint64_t *milliseconds, tsr_error *error) {
  if (tsx_whole_number(value)) {
    int64_t v = sqlite3_value_int64(value);
    *milliseconds = v < 0 ? 0 : (uint64_t)v;
    return TSR_OK;
  }
  const bool is_text = sqlite3_value_type(value) == SQLITE_TEXT;
  const char *text = is_text ? (const char *)sqlite3_value_text(value) : NULL;
  tsr_error why = {0};
  if (text && time_of_text(text, (uint64_t)sqlite3_value_bytes(value), milliseconds, &why) == TSR_OK) return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH, "%s: expected ISO-8601 text (UTC) or an integer, milliseconds since 1970%s%s",
                  name, text ? ": " : "", why.message);
}

int tsx_path_resolve(sqlite3 *db, const char *schema, const char *path, char **resolved, tsr_error *error) {
  const char *name = sqlite3_db_filename(db, schema);
  char *file = name ? sqlite3_mprintf("%s", name) : NULL;
  if (name && !file) return tsx_out_of_memory(error);
  if (file) tsr_path_form(file);
  const char *slash = file ? strrchr(file, '/') : NULL;
  const bool uri = strstr(path, "://") != NULL; /* the core handles URIs */
  const bool relative = !tsr_path_absolute(path) && !uri;
  if (relative && slash && tsr_path_exists(file)) /* names in other VFSs need not be files */
    *resolved = sqlite3_mprintf("%.*s/%s", (int)(slash - file), file, path);
  else *resolved = sqlite3_mprintf("%s", path);
  if (*resolved && !uri) tsr_path_form(*resolved);
  sqlite3_free(file);
  return *resolved ? TSR_OK : tsx_out_of_memory(error);
}

int tsx_key_parse(const void *bytes, uint64_t size, uint8_t key[32], tsr_error *error) {
  if (size == 32) {
    memcpy(key, bytes, 32);
    return TSR_OK;
  }
  if (size != 64 || !tsr_hex_read(bytes, 32, key))
    return tsx_fail(error, TSR_AUTH, "a key is 32 bytes or 64 hex digits; this one has %llu bytes",
                    (unsigned long long)size);
  return TSR_OK;
}

/* Reads a file of any kind, for example a pipe. */
static int read_file(const char *path, uint8_t *bytes, uint64_t room, uint64_t *size) {
  const int descriptor = tsr_path_read(path, true);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
  if (!file && descriptor >= 0) close(descriptor);
  if (!file) return TSR_NOT_FOUND;
  setvbuf(file, NULL, _IONBF, 0); /* stdio must not keep the key in a buffer */
  *size = fread(bytes, 1, room, file);
  fclose(file);
  return TSR_OK;
}

int tsx_key_read(tsx_connection *connection, const char *path, uint8_t key[32], tsr_error *error) {
  uint8_t bytes[80];
  uint64_t size = 0;
  int code = connection->permissions.restrictions
                 ? tsr_file_read(connection->environment, path, bytes, sizeof bytes, &size, error)
                 : read_file(path, bytes, sizeof bytes, &size);
  if (code == TSR_NOT_FOUND) return tsx_fail(error, code, "key file not found: %s", path);
  if (code < 0) return code;
  if (size == 33 || (size > 64 && size < sizeof bytes)) /* editors append a newline */
    while (size > 32 && (bytes[size - 1] == '\n' || bytes[size - 1] == '\r')) size--;
  code = tsx_key_parse(bytes, size, key, error);
  if (code < 0)
    tsx_fail(error, code, "key_file %s: a key is 32 bytes or 64 hex digits; this file has %s%llu bytes", path,
             size == sizeof bytes ? "more than " : "", (unsigned long long)size);
  tsx_wipe(bytes, sizeof bytes);
  return code;
}

void tsx_wipe(void *p, uint64_t size) {
  volatile uint8_t *bytes = p;
  while (size--) *bytes++ = 0;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

#define FANOUT_LEAST 4
#define FANOUT_MOST  256
#define FANOUT_YES   16
#define VACUUM_S_MAX 1000000000000 /* as the grace_s of tessera_vacuum */

static const tsx_option_spec option_specs[TSX_OPTION_COUNT] = {
    [TSX_OPTION_AS_OF] = {.name = "as_of"},
    [TSX_OPTION_SINCE] = {.name = "since"},
    [TSX_OPTION_KEY_FILE] = {"key_file", TSX_TAKES_TEXT, 0, 0, NULL},
    [TSX_OPTION_UNWRITTEN] = {"unwritten", TSX_TAKES_WORD, 0, 0, TSX_WORDS("null", "fill")},
    [TSX_OPTION_DATETIMES] = {"datetimes", TSX_TAKES_WORD, 0, 0, TSX_WORDS("iso", "integer", "duration")},
    [TSX_OPTION_VECTORS] = {"vectors", TSX_TAKES_WORD, 0, 0, TSX_WORDS("json", "blob")},
    [TSX_OPTION_ENUMS] = {"enums", TSX_TAKES_WORD, 0, 0, TSX_WORDS("label", "code")},
    [TSX_OPTION_UINT64] = {"uint64", TSX_TAKES_WORD, 0, 0, TSX_WORDS("text", "signed")},
    [TSX_OPTION_CACHE_MB] = TSX_SPEC_CACHE_MB,
    [TSX_OPTION_COLUMNS] = {.name = "columns"},
    [TSX_OPTION_MEMORY_MB] = TSX_SPEC_MEMORY_MB,
    [TSX_OPTION_LABELS] = {.name = "labels"},
    [TSX_OPTION_RENAME] = {.name = "rename"},
    [TSX_OPTION_ON_CONFLICT] = {"on_conflict", TSX_TAKES_WORD, 0, 0, TSX_WORDS("replace", "abort")},
    [TSX_OPTION_IF_EXISTS] = {"if_exists", TSX_TAKES_WORD, 0, 0, TSX_WORDS("fail", "open")},
    [TSX_OPTION_THREADS] = TSX_SPEC_THREADS,
    [TSX_OPTION_AUTO_CONSOLIDATE] = {.name = "auto_consolidate"},
    [TSX_OPTION_AUTO_VACUUM_S] = {"auto_vacuum_s", TSX_TAKES_WHOLE, 0, VACUUM_S_MAX, NULL},
    [TSX_OPTION_KIND] = {"kind", TSX_TAKES_WORD, 0, 0, TSX_WORDS("sparse", "dense")},
    [TSX_OPTION_CELL_ORDER] = {"cell_order", TSX_TAKES_WORD, 0, 0, TSX_WORDS("row", "col", "hilbert")},
    [TSX_OPTION_TILE_ORDER] = {"tile_order", TSX_TAKES_WORD, 0, 0, TSX_WORDS("row", "col")},
    [TSX_OPTION_CAPACITY] = {.name = "capacity"},
    [TSX_OPTION_DUPLICATES] = {"duplicates", TSX_TAKES_WORD, 0, 0, TSX_WORDS("no", "yes")},
    [TSX_OPTION_COORDS_FILTERS] = {.name = "coords_filters"},
    [TSX_OPTION_OFFSETS_FILTERS] = {.name = "offsets_filters"},
    [TSX_OPTION_VALIDITY_FILTERS] = {.name = "validity_filters"},
    [TSX_OPTION_ENCRYPTION] = {"encryption", TSX_TAKES_WORD, 0, 0, TSX_WORDS("none", "aes_256_gcm")},
    [TSX_OPTION_FORMAT_VERSION] = {.name = "format_version"}};

const char *tsx_option_word(tsx_option option) { return option_specs[option].name; }

static int parse_time(const char *word, const char *text, bool quoted, uint64_t *value, tsr_error *error) {
  bool digits = !quoted && *text;
  for (const char *p = text; *p && digits; p++) digits = isdigit((unsigned char)*p);
  if (digits) {
    const tsx_option_spec spec = {word, TSX_TAKES_WHOLE, 0, INT64_MAX, NULL};
    tsx_option_value v;
    TSX_TRY(tsx_option_of_text(&spec, text, &v, error));
    *value = (uint64_t)v.whole;
    return TSR_OK;
  }
  tsr_error why = {0};
  if (time_of_text(text, strlen(text), value, &why) < 0)
    return tsx_fail(error, TSR_ERROR, "'%s': expected ISO-8601 text (UTC) or an integer, milliseconds since 1970: %s",
                    word, why.message);
  return TSR_OK;
}

/* Reads one part of a list: text in double quotes, or text up to one of the characters `ends`, without the blanks
 * around it. Moves *at past it and the blanks that follow. Returns the part, from sqlite3_malloc; NULL if a quote is
 * not closed, or if memory is lacking. */
static char *take_part(const char **at, const char *ends) {
  const char *p = skip_blanks(*at), *end = p;
  if (*p == '"') {
    char *text = unquote(p, &end);
    *at = text ? skip_blanks(end) : p;
    return text;
  }
  while (*end && !strchr(ends, *end)) end++;
  *at = end;
  while (end > p && isspace((unsigned char)end[-1])) end--;
  return sqlite3_mprintf("%.*s", (int)(end - p), p);
}

static uint32_t count_parts(const char *text) {
  uint32_t count = 1;
  for (const char *p = text; *p; p++) count += *p == ',';
  return count;
}

static int parse_columns(const char *text, tsx_options *options, tsr_error *error) {
  options->shows.columns = sqlite3_malloc64(count_parts(text) * sizeof(char *));
  if (!options->shows.columns) return tsx_out_of_memory(error);
  for (const char *p = text;; p++) {
    p = skip_blanks(p);
    const bool closed = *p != '"' || strchr(p + 1, '"');
    const bool parenthesis = *p == '(';
    char *name = take_part(&p, ",");
    if (closed && !name) return tsx_out_of_memory(error);
    if (!name || !*name || parenthesis || (*p && *p != ',')) {
      sqlite3_free(name);
      return tsx_fail(error, TSR_ERROR,
                      "'columns': expected names, separated by commas, all in one pair of quotes, not %.60s", text);
    }
    options->shows.columns[options->shows.column_count++] = name;
    if (!*p) return TSR_OK;
  }
}

/* Appends a pair, and takes over its texts, also if it fails. */
static int add_pair(tsx_option_pairs *pairs, char *name, char *value, tsr_error *error) {
  tsx_option_pair *more = sqlite3_realloc64(pairs->pairs, (pairs->count + UINT64_C(1)) * sizeof *more);
  if (!more) {
    sqlite3_free(name);
    sqlite3_free(value);
    return tsx_out_of_memory(error);
  }
  pairs->pairs = more;
  more[pairs->count++] = (tsx_option_pair){name, value};
  return TSR_OK;
}

static void free_pairs(tsx_option_pairs *pairs) {
  for (uint32_t i = 0; i < pairs->count; i++) {
    sqlite3_free(pairs->pairs[i].name);
    sqlite3_free(pairs->pairs[i].value);
  }
  sqlite3_free(pairs->pairs);
}

/* Reads an item of a list, `name` or `name=value`, up to the comma or the end. *value is NULL for the former. Both are
 * from sqlite3_malloc. `what` says what the list has. */
static int parse_item(const char *option, const char *what, const char *text, const char **at, char **name,
                      char **value, tsr_error *error) {
  *value = NULL;
  *name = take_part(at, ",=");
  const bool pair = *name && **at == '=';
  if (pair) {
    ++*at;
    *value = take_part(at, ",");
  }
  if (*name && **name && (!pair || (*value && **value)) && (!**at || **at == ',')) return TSR_OK;
  sqlite3_free(*name);
  sqlite3_free(*value);
  return tsx_fail(error, TSR_ERROR, "'%s': expected %s, separated by commas, all in one pair of quotes, not %.200s",
                  option, what, text);
}

/* rename='old=new, ...' */
static int parse_rename(const char *text, tsx_options *options, tsr_error *error) {
  for (const char *p = text;; p++) {
    char *name, *value;
    int code = parse_item("rename", "old=new", text, &p, &name, &value, error);
    if (code < 0) return code;
    if (!value) {
      code = tsx_fail(error, TSR_ERROR, "'rename': expected old=new, not %.200s", name);
      sqlite3_free(name);
    } else {
      code = add_pair(&options->shows.renamed, name, value, error);
    }
    if (code < 0 || !*p) return code;
  }
}

/* Sets which labels are shown. *chosen: an earlier item has set it. */
static int parse_labels_word(const char *word, const char *text, bool *chosen, tsx_options *options, tsr_error *error) {
  static const tsx_labels_shown labels[] = {TSX_LABELS_SHOWN, TSX_LABELS_NONE, TSX_LABELS_GROUP, TSX_LABELS_HIDDEN};
  static const char *const words[] = {"yes", "no", "group", "hidden", NULL};
  static const tsx_option_spec spec = {.name = "labels", .kind = TSX_TAKES_WORD, .words = words};
  tsx_option_value which;
  TSX_TRY(tsx_option_of_text(&spec, word, &which, error));
  if (*chosen) return tsx_fail(error, TSR_ERROR, "'labels': one word only, not %.200s", text);
  options->shows.labels = labels[which.whole];
  *chosen = true;
  return TSR_OK;
}

/* labels='word, dimension=path, ...' */
static int parse_labels(const char *text, tsx_options *options, tsr_error *error) {
  bool chosen = false;
  for (const char *p = text;; p++) {
    char *name, *value;
    TSX_TRY(parse_item("labels", "yes, no, group or hidden, or dimension=path", text, &p, &name, &value, error));
    if (value) {
      TSX_TRY(add_pair(&options->shows.label_arrays, name, value, error));
    } else {
      const int code = parse_labels_word(name, text, &chosen, options, error);
      sqlite3_free(name);
      if (code < 0) return code;
    }
    if (!*p) return TSR_OK;
  }
}

/* Reads yes, no, 0 or a number of fragments. */
static int parse_fanout(const char *text, uint64_t *fanout, tsr_error *error) {
  static const tsx_option_spec spec = {"auto_consolidate", TSX_TAKES_WHOLE, 0, FANOUT_MOST, NULL};
  const bool off = !sqlite3_stricmp(text, "no") || !sqlite3_stricmp(text, "false") || !sqlite3_stricmp(text, "off");
  const bool on = !sqlite3_stricmp(text, "yes") || !sqlite3_stricmp(text, "true") || !sqlite3_stricmp(text, "on");
  tsx_option_value value = {.whole = on ? FANOUT_YES : 0};
  tsr_error unseen;
  const int code = off || on ? TSR_OK : tsx_option_of_text(&spec, text, &value, &unseen);
  if (code < 0 || (value.whole > 0 && value.whole < FANOUT_LEAST))
    return tsx_fail(error, TSR_ERROR, "'auto_consolidate': expected yes, no or an integer from %d to %d, not %.60s",
                    FANOUT_LEAST, FANOUT_MOST, *text ? text : "nothing");
  *fanout = (uint64_t)value.whole;
  return TSR_OK;
}

static int set_option(tsx_option which, const char *text, bool quoted, tsx_options *options, tsr_error *error) {
  tsx_option_value value;
  TSX_TRY(tsx_option_of_text(&option_specs[which], text, &value, error));
  if (option_specs[which].kind == TSX_TAKES_WORD) options->choice[which] = (int)value.whole;
  const bool second = value.whole == 1;
  switch (which) {
  case TSX_OPTION_AS_OF:
    options->times.has_as_of = true;
    return parse_time("as_of", text, quoted, &options->times.as_of, error);
  case TSX_OPTION_SINCE:
    options->times.has_since = true;
    return parse_time("since", text, quoted, &options->times.since, error);
  case TSX_OPTION_KEY_FILE:
    options->key_file = sqlite3_mprintf("%s", text);
    return options->key_file ? TSR_OK : tsx_out_of_memory(error);
  case TSX_OPTION_COLUMNS: return parse_columns(text, options, error);
  case TSX_OPTION_LABELS: return parse_labels(text, options, error);
  case TSX_OPTION_RENAME: return parse_rename(text, options, error);
  case TSX_OPTION_UNWRITTEN: options->shows.fill_unwritten = second; break;
  case TSX_OPTION_DATETIMES:
    options->shows.datetimes_integer = second;
    options->shows.times = value.whole == 2 ? TSX_TIMES_INTEGER : TSX_TIMES_TEXT;
    break;
  case TSX_OPTION_VECTORS: options->shows.vectors_blob = second; break;
  case TSX_OPTION_ENUMS: options->shows.enums_code = second; break;
  case TSX_OPTION_UINT64: options->shows.uint64_signed = second; break;
  case TSX_OPTION_ON_CONFLICT: options->conflict_abort = second; break;
  case TSX_OPTION_IF_EXISTS: options->open_existing = second; break;
  case TSX_OPTION_CACHE_MB: options->limits.cache_bytes = (uint64_t)value.whole << 20; break;
  case TSX_OPTION_MEMORY_MB: options->limits.memory_bytes = (uint64_t)value.whole << 20; break;
  case TSX_OPTION_THREADS: options->limits.threads = (unsigned)value.whole; break;
  case TSX_OPTION_AUTO_CONSOLIDATE: return parse_fanout(text, &options->upkeep.fanout, error);
  case TSX_OPTION_AUTO_VACUUM_S:
    options->upkeep.vacuum = true;
    options->upkeep.vacuum_ms = (uint64_t)value.whole * 1000;
    break;
  default: /* of a new array: define.c reads those that are not one of several words */
    options->creation[which] = sqlite3_mprintf("%s", text);
    return options->creation[which] ? TSR_OK : tsx_out_of_memory(error);
  }
  return TSR_OK;
}

static const tsx_option_list option_list = TSX_OPTION_LIST(option_specs);

/* Refuses a word alone that is an option, or the value of one: as a column it would lack its type. */
static int check_word(const tsx_token *word, tsr_error *error) {
  const char *of = tsx_option_of_word(&option_list, word->text, word->size);
  const int size = (int)word->size;
  if (of) return tsx_fail(error, TSR_ERROR, "an option is KEY=VALUE: %s=%.*s", of, size, word->text);
  for (int i = 0; i < TSX_OPTION_COUNT; i++)
    if (tsx_token_is(word, option_specs[i].name))
      return tsx_fail(error, TSR_ERROR, "an option is KEY=VALUE: %s=...", option_specs[i].name);
  return TSR_OK;
}

/* Parses an option. `word` is its word, `tokens` is at the first token after the equals sign; bit i of `seen`: option i
 * was given. */
static int parse_option(const tsx_token *word, tsx_tokens *tokens, uint64_t *seen, tsx_options *options,
                        tsr_error *error) {
  unsigned which;
  TSX_TRY(tsx_option_find(&option_list, word->text, word->size, true, seen, &which, error));
  const char *p = tokens->token.text, *end = p + strlen(p);
  bool quoted = *p == '\'' || *p == '"';
  char *text;
  if (quoted) {
    text = unquote(p, &end);
    if (!end || *skip_blanks(end)) {
      sqlite3_free(text);
      return tsx_fail(error, TSR_ERROR, "'%s': bad value %s", option_specs[which].name, p);
    }
  } else {
    while (end > p && isspace((unsigned char)end[-1])) end--;
    text = sqlite3_mprintf("%.*s", (int)(end - p), p);
  }
  if (!text) return tsx_out_of_memory(error);
  int code = set_option((tsx_option)which, text, quoted, options, error);
  sqlite3_free(text);
  return code;
}

static int parse_argument(const char *argument, uint64_t *seen, tsx_options *options, tsr_error *error) {
  tsx_tokens tokens = tsx_tokens_of(argument);
  tsx_token first = tokens.token;
  tsx_tokens_next(&tokens);
  if (first.kind == TSX_TOKEN_WORD && tsx_token_is(&tokens.token, "=")) {
    tsx_tokens_next(&tokens);
    return parse_option(&first, &tokens, seen, options, error);
  }
  if (first.kind == TSX_TOKEN_WORD && tokens.token.kind == TSX_TOKEN_END) TSX_TRY(check_word(&first, error));
  options->definitions[options->definition_count++] = argument;
  return TSR_OK;
}

/* Creation options need columns: without columns no array is created. */
static int check_creation(const tsx_options *options, tsr_error *error) {
  for (int i = 0; i < TSX_OPTION_COUNT && !options->definition_count; i++)
    if (options->creation[i])
      return tsx_fail(error, TSR_ERROR, "the option '%s' only applies to creating an array, but no columns are given",
                      option_specs[i].name);
  return TSR_OK;
}

/* Parses the path, and sets *at to 1, if the first argument is just a string. (A name in double quotes with more text
 * after it begins a column definition.) */
static int parse_path(const char *argument, int *at, tsx_options *options, tsr_error *error) {
  const char *first = skip_blanks(argument), *end;
  if (*first != '\'' && *first != '"') {
    int size = (int)strcspn(first, " \t\r\n");
    bool alone = !*skip_blanks(first + size) && !memchr(first, '=', (size_t)size) && strncmp(first, "/*", 2) != 0;
    return alone && memchr(first, '/', (size_t)size)
               ? tsx_fail(error, TSR_ERROR, "a path must be quoted: '%.*s'", size, first)
               : TSR_OK;
  }
  char *path = unquote(first, &end);
  if (end && !path) return tsx_out_of_memory(error);
  bool alone = end && !*skip_blanks(end);
  if (!alone && *first == '"' && end) {
    sqlite3_free(path);
    return TSR_OK;
  }
  options->path = path;
  if (!end) return tsx_fail(error, TSR_ERROR, "bad path: %s: the quote is not closed", argument);
  if (!alone) return tsx_fail(error, TSR_ERROR, "bad path: %s: expected a comma after '%s'", argument, path);
  if (!*path) return tsx_fail(error, TSR_ERROR, "bad path: %s", argument);
  *at = 1;
  return TSR_OK;
}

int tsx_options_parse(int count, const char *const *arguments, tsx_options *options, tsr_error *error) {
  memset(options, 0, sizeof *options);
  options->limits.cache_bytes = (uint64_t)256 << 20;
  options->limits.memory_bytes = (uint64_t)1024 << 20;
  options->times.as_of = TSR_TIME_NOW;
  int at = 0;
  int code = count ? parse_path(arguments[0], &at, options, error) : TSR_OK;
  if (code < 0) return code;
  options->definitions = sqlite3_malloc64(((uint64_t)count + 1) * sizeof *options->definitions);
  if (!options->definitions) return tsx_out_of_memory(error);
  for (uint64_t seen = 0; at < count; at++)
    if ((code = parse_argument(arguments[at], &seen, options, error)) < 0) return code;
  if (!options->path && !options->definition_count)
    return tsx_fail(error, TSR_ERROR,
                    "expected the path of an array first, in quotes: tessera('path', ...); or columns, for a new array "
                    "in this database");
  if (options->upkeep.vacuum && !options->upkeep.fanout)
    return tsx_fail(
        error, TSR_ERROR,
        "'auto_vacuum_s' removes what auto_consolidate has replaced: the option auto_consolidate is needed, "
        "too");
  return check_creation(options, error);
}

void tsx_options_release(tsx_options *options) {
  sqlite3_free(options->path);
  sqlite3_free(options->key_file);
  for (uint32_t i = 0; i < options->shows.column_count; i++) sqlite3_free(options->shows.columns[i]);
  sqlite3_free(options->shows.columns);
  free_pairs(&options->shows.label_arrays);
  free_pairs(&options->shows.renamed);
  for (int i = 0; i < TSX_OPTION_COUNT; i++) sqlite3_free(options->creation[i]);
  sqlite3_free(options->definitions);
  memset(options, 0, sizeof *options);
}
