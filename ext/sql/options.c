/* options.c: reads the options of tables and functions by lists of the options that exist. */
#include "sql/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"

#define QUOTED       60 /* characters of a wrong value in a message */
#define OPTIONS_LONG 32 /* more than the characters of any option */

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static bool options_has_word(const tsx_option_spec *spec, const char *name, size_t size) {
  for (const char *const *w = spec->kind == TSX_TAKES_WORD ? spec->words : NULL; w && *w; w++)
    if (strlen(*w) == size && !sqlite3_strnicmp(*w, name, (int)size)) return true;
  return false;
}

const char *tsx_option_of_word(const tsx_option_list *list, const char *name, size_t size) {
  const char *found = NULL;
  for (unsigned i = 0; i < list->count; i++) {
    if (list->without >> i & 1 || !options_has_word(&list->specs[i], name, size)) continue;
    if (found) return NULL;
    found = list->specs[i].name;
  }
  return found;
}

/* Returns how many characters are to be inserted, removed or replaced to make one name of the other, whatever their
 * case; OPTIONS_LONG if one of them is longer than an option. */
static size_t options_distance(const char *name, size_t size, const char *known) {
  size_t row[OPTIONS_LONG], length = strlen(known);
  if (size >= OPTIONS_LONG || length >= OPTIONS_LONG) return OPTIONS_LONG;
  for (size_t k = 0; k <= length; k++) row[k] = k;
  for (size_t i = 1; i <= size; i++) {
    size_t before = row[0]; /* of the row above, one to the left */
    row[0] = i;
    for (size_t k = 1; k <= length; k++) {
      const size_t above = row[k], changed = before + (sqlite3_strnicmp(&name[i - 1], &known[k - 1], 1) != 0);
      const size_t least = above < row[k - 1] ? above : row[k - 1];
      row[k] = least + 1 < changed ? least + 1 : changed;
      before = above;
    }
  }
  return row[length];
}

/* Returns the option that a wrong name is nearest to, or NULL if none is alike: one character may be wrong of three. */
static const char *options_near(const tsx_option_list *list, const char *name, size_t size) {
  const char *found = NULL;
  size_t least = size / 3 + 1;
  for (unsigned i = 0; i < list->count; i++) {
    const size_t distance = list->without >> i & 1 ? OPTIONS_LONG : options_distance(name, size, list->specs[i].name);
    if (distance >= least) continue;
    least = distance;
    found = list->specs[i].name;
  }
  return found;
}

static int options_unknown(const tsx_option_list *list, const char *name, size_t size, tsr_error *error) {
  const char *meant = tsx_option_of_word(list, name, size), *alike = options_near(list, name, size);
  sqlite3_str *names = sqlite3_str_new(NULL);
  if (alike && !meant) sqlite3_str_appendf(names, "%s is; all are ", alike);
  for (unsigned i = 0, shown = 0; i < list->count && !meant; i++)
    if (!(list->without >> i & 1)) sqlite3_str_appendf(names, "%s%s", shown++ ? ", " : "", list->specs[i].name);
  if (meant) sqlite3_str_appendf(names, "it is a value of the option %s: %s=%.*s", meant, meant, (int)size, name);
  char *text = sqlite3_str_finish(names);
  const int code = tsx_fail(error, TSR_ERROR, "no option is called '%.*s': %s", (int)(size < QUOTED ? size : QUOTED),
                            name, text ? text : "");
  sqlite3_free(text);
  return code;
}

int tsx_option_find(const tsx_option_list *list, const char *name, size_t size, bool any_case, uint64_t *seen,
                    unsigned *option, tsr_error *error) {
  unsigned i = 0;
  for (; i < list->count; i++) {
    const char *known = list->specs[i].name;
    if (list->without >> i & 1 || strlen(known) != size) continue;
    if (any_case ? !sqlite3_strnicmp(known, name, (int)size) : !memcmp(known, name, size)) break;
  }
  if (i == list->count) return options_unknown(list, name, size, error);
  if (*seen >> i & 1) return tsx_fail(error, TSR_ERROR, "the option '%s' is given twice", list->specs[i].name);
  *seen |= UINT64_C(1) << i;
  *option = i;
  return TSR_OK;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Fails with what an option expects. `got` is the value as written, or NULL if no message may quote it. */
static int options_refuse(const tsx_option_spec *spec, int code, const char *got, tsr_error *error) {
  sqlite3_str *wanted = sqlite3_str_new(NULL);
  switch (spec->kind) {
  case TSX_TAKES_WHOLE:
    sqlite3_str_appendf(wanted, "an integer from %lld to %lld", (long long)spec->least, (long long)spec->most);
    break;
  case TSX_TAKES_NUMBER:
    sqlite3_str_appendf(wanted, "a number from %lld to %lld", (long long)spec->least, (long long)spec->most);
    break;
  case TSX_TAKES_ABOVE:
    sqlite3_str_appendf(wanted, "a number above %lld, up to %lld", (long long)spec->least, (long long)spec->most);
    break;
  case TSX_TAKES_FLAG: sqlite3_str_appendall(wanted, "true or false"); break;
  case TSX_TAKES_WORD:
    for (const char *const *w = spec->words; *w; w++)
      sqlite3_str_appendf(wanted, "%s%s", w == spec->words ? "" : w[1] ? ", " : " or ", *w);
    break;
  default: sqlite3_str_appendall(wanted, "text");
  }
  char *text = sqlite3_str_finish(wanted);
  if (text && got)
    tsx_fail(error, code, "'%s': expected %s, not %.*s", spec->name, text, QUOTED, *got ? got : "nothing");
  else if (text) tsx_fail(error, code, "'%s': expected %s", spec->name, text);
  else code = tsx_out_of_memory(error);
  sqlite3_free(text);
  return code;
}

static bool options_find_word(const tsx_option_spec *spec, const char *text, int64_t *place) {
  for (*place = 0; spec->words[*place]; ++*place)
    if (!sqlite3_stricmp(text, spec->words[*place])) return true;
  return false;
}

static bool options_within(const tsx_option_spec *spec, double number) {
  return number <= (double)spec->most &&
         (spec->kind == TSX_TAKES_ABOVE ? number > (double)spec->least : number >= (double)spec->least);
}

static int options_of_json(const tsx_option_spec *spec, const tsx_json_option *o, tsx_option_value *value,
                           tsr_error *error) {
  const bool integer = !strcmp(o->type, "integer"), truth = !strcmp(o->type, "true");
  bool fits = true, in_limits = true;
  *value = (tsx_option_value){.json = o};
  value->text = !strcmp(o->type, "text") ? (const char *)sqlite3_value_text(o->value) : NULL;
  if (!strcmp(o->type, "text") && !value->text) return tsx_out_of_memory(error);
  switch (spec->kind) {
  case TSX_TAKES_WHOLE: /* an integer that does not fit into 64 bits is a REAL in `value` */
    fits = integer;
    value->whole = sqlite3_value_int64(o->value);
    value->number = sqlite3_value_double(o->value);
    in_limits =
        sqlite3_value_type(o->value) == SQLITE_INTEGER && value->whole >= spec->least && value->whole <= spec->most;
    break;
  case TSX_TAKES_ABOVE:
  case TSX_TAKES_NUMBER:
    fits = integer || !strcmp(o->type, "real");
    value->number = sqlite3_value_double(o->value);
    in_limits = options_within(spec, value->number);
    break;
  case TSX_TAKES_FLAG:
    fits = truth || !strcmp(o->type, "false");
    value->whole = truth;
    break;
  case TSX_TAKES_WORD: fits = value->text && options_find_word(spec, value->text, &value->whole); break;
  case TSX_TAKES_TEXT: fits = value->text && strlen(value->text) == (size_t)sqlite3_value_bytes(o->value); break;
  default: return TSR_OK;
  }
  return fits && in_limits ? TSR_OK : options_refuse(spec, fits ? TSR_RANGE : TSR_MISMATCH, o->text, error);
}

int tsx_option_of_flat(const tsx_option_spec *spec, const tsx_flat_member *m, tsx_option_value *value,
                       tsr_error *error) {
  bool fits, in_limits = true;
  *value = (tsx_option_value){.text = m->kind == TSX_FLAT_TEXT ? m->text : NULL, .whole = m->integer};
  switch (spec->kind) {
  case TSX_TAKES_WHOLE:
    fits = m->kind == TSX_FLAT_INTEGER;
    in_limits = m->integer >= spec->least && m->integer <= spec->most;
    break;
  case TSX_TAKES_FLAG: fits = m->kind == TSX_FLAT_BOOL; break;
  case TSX_TAKES_WORD: fits = value->text && options_find_word(spec, value->text, &value->whole); break;
  default: fits = value->text != NULL;
  }
  return fits && in_limits ? TSR_OK : options_refuse(spec, fits ? TSR_RANGE : TSR_MISMATCH, NULL, error);
}

/* A boolean in CREATE has the words of SQLite's pragmas: where "yes" and "no" are words of an option, these are,
 * too. */
static const char *options_boolean(const char *text) {
  static const char *const words[][2] = {{"true", "yes"}, {"on", "yes"}, {"1", "yes"},
                                         {"false", "no"}, {"off", "no"}, {"0", "no"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!sqlite3_stricmp(text, words[i][0])) return words[i][1];
  return text;
}

int tsx_option_of_text(const tsx_option_spec *spec, const char *text, tsx_option_value *value, tsr_error *error) {
  bool fits = true;
  char *end;
  *value = (tsx_option_value){.text = text};
  if (spec->kind == TSX_TAKES_WHOLE) {
    errno = 0; /* strtoll clamps values out of range, and reports it only in errno */
    value->whole = strtoll(text, &end, 10);
    value->number = (double)value->whole;
    fits = end != text && !end[strspn(end, " \t\r\n\f\v")] && !errno && value->whole >= spec->least &&
           value->whole <= spec->most;
  } else if (spec->kind == TSX_TAKES_WORD) {
    fits =
        options_find_word(spec, text, &value->whole) || options_find_word(spec, options_boolean(text), &value->whole);
  }
  return fits ? TSR_OK : options_refuse(spec, TSR_ERROR, text, error);
}

/* ---- Objects ----------------------------------------------------------------------------------------------------- */

typedef struct options_reading {
  const tsx_option_list *list;
  uint64_t seen;
  tsx_option_taker take;
  void *argument;
} options_reading;

static int read_member(void *argument, const tsx_json_option *o, tsr_error *error) {
  options_reading *r = argument;
  tsx_option_value value;
  unsigned option;
  int code = tsx_option_find(r->list, o->key, strlen(o->key), false, &r->seen, &option, error);
  if (code < 0 || !strcmp(o->type, "null")) return code;
  code = options_of_json(&r->list->specs[option], o, &value, error);
  return code < 0 ? code : r->take(r->argument, option, &value, error);
}

int tsx_options_read(sqlite3 *db, sqlite3_value *json, const tsx_option_list *list, tsx_option_taker take,
                     void *argument, tsr_error *error) {
  options_reading r = {.list = list, .take = take, .argument = argument};
  if (!json || sqlite3_value_type(json) == SQLITE_NULL) return TSR_OK;
  return tsx_options_each(db, json, "options", read_member, &r, error);
}
