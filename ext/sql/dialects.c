/* dialects.c: what words of other databases' SQL mean here.
 *
 * SQLite's error about such a word only names it, or the word behind it: near "'x'": syntax error, for name ILIKE 'x'.
 * Three tables say what to write instead: of phrases that SQLite cannot parse, of functions that it lacks, and of first
 * words of statements. A phrase counts only where the error is: its words, or the one behind them, must be what SQLite
 * names. */
#include "sql/dialects.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/tokens.h"

/* ---- The tables -------------------------------------------------------------------------------------------------- */

typedef struct dialect_entry {
  const char *words; /* a phrase; or names of functions, or first words */
  const char *advice;
} dialect_entry;

static const char samples[] = "for a sample, write ORDER BY random() LIMIT n";
static const char star[] = "* always means all columns: name those that you want";
static const char limits[] = "write LIMIT n, or LIMIT n OFFSET m to skip m rows, at the end of the SELECT";
static const char patterns[] =
    "match with LIKE 'a%' and GLOB 'a[0-9]*'; SQLite has regular expressions only where the program adds a function "
    "regexp";
static const char moments[] =
    "write date(day, '+1 month') to move a date, and datetime(time, '-6 hours') to move a time";
static const char literals[] = "dates and times are text: write '2024-01-31', without a word before it";
static const char parts[] = "write strftime('%Y-%m', day) for the month of a date; other parts are %d, %H, %M and %S";
static const char statistics[] =
    "median(v), percentile(v, 90), stddev(v) and variance(v) work in a SELECT that runs over the columns of an array";
static const char lists[] =
    "lists are JSON arrays: json_each('[1, 2]') in FROM turns one into rows; to test a value, write value IN (1, 2)";
static const char groupings[] = "write a SELECT for each grouping, with UNION ALL between them";
static const char characters[] =
    "write substr(text, 1, n) for the first n characters of a text, and substr(text, -n) for the last";
static const char powers[] = "write pow(x, y) for a power";

/* Words and marks; ' stands for any text, # for a number, _ for a word, and [ for what is in brackets. */
static const dialect_entry phrases[] = {
    {": :", "a cast is CAST(value AS INTEGER), not value::integer"},
    {"TRY_CAST ( _ AS", "CAST(text AS INTEGER) never fails: it takes the digits at the beginning, or 0"},
    {"ILIKE", "LIKE ignores the case of a to z: write LIKE for ILIKE"},
    {"SIMILAR TO", patterns},
    {"RLIKE", patterns},
    {"! ~", patterns},
    {"~", patterns},
    {"QUALIFY", "filter by a window function in a subquery: SELECT * FROM (SELECT *, row_number() OVER (...) AS "
                "n FROM t) WHERE n = 1"},
    {"INTERVAL '", moments},
    {"INTERVAL #", moments},
    {"INTERVAL (", moments},
    {"DATE '", literals},
    {"TIMESTAMP '", literals},
    {"TIME '", literals},
    {"EXTRACT ( _ FROM", parts},
    {"* EXCLUDE", star},
    {"* EXCEPT", star},
    {"* REPLACE", star},
    {"SELECT TOP #", limits},
    {"FETCH FIRST", limits},
    {"FETCH NEXT", limits},
    {"LIMIT ALL", "leave LIMIT out to get all rows"},
    {"OFFSET #", limits},
    {"GROUP BY ALL", "name the columns of GROUP BY, or their numbers: GROUP BY 1, 2"},
    {"ORDER BY ALL", "name the columns of ORDER BY, or their numbers: ORDER BY 1, 2"},
    {"GROUPING SETS", groupings},
    {"ARRAY [", lists},
    {"UNNEST (", lists},
    {"DISTINCT ON", "a row of each group: beside max(v), the only min or max of a SELECT with GROUP BY, other columns "
                    "are those of its row"},
    {"WITHIN GROUP", statistics},
    {"TABLESAMPLE", samples},
    {"USING SAMPLE", samples},
    {"LATERAL (", "a subquery in FROM sees no columns of the tables before it: write it as a column, or use JOIN"},
    {"SUBSTRING ( _ FROM", characters},
    {"LEFT (", characters},
    {"RIGHT (", characters},
    {"/ /", "/ divides integers to an integer: write / for //"},
    {"* *", powers},
    {"^", powers},
};

static const dialect_entry functions[] = {
    {"date_trunc datetrunc time_bucket date_part datepart year quarter month week day dayofweek dayofyear dayname "
     "monthname hour minute second to_char date_format dateformat",
     parts},
    {"date_add date_sub dateadd datesub add_months adddate subdate", moments},
    {"date_diff datediff timestampdiff age", "julianday(b) - julianday(a) is the days between two dates"},
    {"now today getdate curdate sysdate localtimestamp", "write datetime('now') for the present time, in UTC"},
    {"to_date to_timestamp str_to_date strptime make_date epoch_ms from_unixtime", literals},
    {"unnest explode list_value array", lists},
    {"list array_agg collect_list list_agg", "json_group_array(v) makes a list of the values of a group"},
    {"string_agg listagg", "group_concat(v, ', ') joins the values of a group"},
    {"generate_series range",
     "numbers are WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
     "SELECT i FROM n"},
    {"regexp regexp_matches regexp_match regexp_like regexp_extract regexp_replace regexp_full_match rlike", patterns},
    {"top", limits},
    {"cube rollup", groupings},
    {"arg_max arg_min argmax argmin max_by min_by",
     "beside max(v), the only min or max of a SELECT, other columns are those of its row"},
    {"any_value arbitrary first last", "max(v) gives a value of each group"},
    {"approx_count_distinct uniq", "count(DISTINCT v) counts exactly"},
    {"median quantile quantile_cont quantile_disc approx_quantile percentile percentile_cont percentile_disc",
     statistics},
    {"stddev stddev_samp stddev_pop stdev variance var_samp var_pop",
     "of an array, stddev(v) and variance(v) are those of a sample"},
    {"len char_length character_length strlen", "length(text) counts the characters"},
    {"strpos position charindex locate contains", "instr(text, part) is the position of a part, or 0"},
    {"left right", characters},
    {"concat concat_ws", "a || b joins texts"},
    {"isnull nvl", "coalesce(a, b) is a, or b where a is NULL"},
    {"greatest least", "max(a, b) is the greatest, and min(a, b) the least of several values"},
    {"if", "iif(condition, a, b), or CASE WHEN condition THEN a ELSE b END"},
    {"truncate", "trunc(x) drops the digits after the decimal point"},
    {"rand", "abs(random()) % n is a random number below n"},
};

static const dialect_entry statements[] = {
    {"DESCRIBE DESC SUMMARIZE", "the columns of an array are SELECT name, role, datatype FROM tessera_schema('db:t')"},
    {"SHOW",
     "tables are SELECT name FROM sqlite_schema, arrays in a folder SELECT path FROM tessera_objects('folder')"},
    {"FROM", "FROM comes after the columns: SELECT * FROM t"},
    {"PIVOT UNPIVOT", "for a column of each value, write max(v) FILTER (WHERE name = 'a') AS a"},
};

/* ---- Finding them ------------------------------------------------------------------------------------------------ */

/* Moves to the next of the words that blanks separate, the first one behind `word` + *size. Returns NULL at the end. */
static const char *dialect_next(const char *word, size_t *size) {
  word += *size;
  word += strspn(word, " ");
  *size = strcspn(word, " ");
  return *size ? word : NULL;
}

/* Returns true if a token is what a word of a phrase stands for. */
static bool dialect_is(const tsx_token *token, const char *word, size_t size) {
  if (size == 1 && *word == '\'') return token->kind == TSX_TOKEN_STRING;
  if (size == 1 && *word == '#') return token->kind == TSX_TOKEN_NUMBER;
  if (size == 1 && *word == '[') return token->kind == TSX_TOKEN_NAME && *token->text == '[';
  if (size == 1 && *word == '_') return token->kind == TSX_TOKEN_WORD || token->kind == TSX_TOKEN_NAME;
  return (token->kind == TSX_TOKEN_WORD || token->kind == TSX_TOKEN_MARK) && token->size == size &&
         !sqlite3_strnicmp(token->text, word, (int)size);
}

static bool dialect_equals(const tsx_token *token, const char *named, size_t size) {
  return token->kind != TSX_TOKEN_END && token->size == size && !memcmp(token->text, named, size);
}

/* Returns true if the tokens begin with a phrase, and the error names one of them or the one behind. */
static bool dialect_begins(tsx_tokens tokens, const char *phrase, const char *named, size_t named_size) {
  size_t size = 0;
  bool meant = false;
  for (const char *word = phrase; (word = dialect_next(word, &size)); tsx_tokens_next(&tokens)) {
    if (!dialect_is(&tokens.token, word, size)) return false;
    meant |= dialect_equals(&tokens.token, named, named_size);
  }
  return meant || dialect_equals(&tokens.token, named, named_size);
}

static const char *dialect_phrase(const char *text, const char *named, size_t size) {
  for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
    for (tsx_tokens t = tsx_tokens_of(text); t.token.kind != TSX_TOKEN_END; tsx_tokens_next(&t))
      if (dialect_begins(t, phrases[i].words, named, size)) return phrases[i].advice;
  return NULL;
}

/* Returns the advice of the entry that has the name among its words, or NULL. */
static const char *dialect_word(const dialect_entry *entries, size_t count, const char *named, size_t size) {
  for (size_t i = 0; i < count; i++) {
    size_t length = 0;
    for (const char *word = entries[i].words; (word = dialect_next(word, &length));)
      if (length == size && !sqlite3_strnicmp(word, named, (int)size)) return entries[i].advice;
  }
  return NULL;
}

/* Returns true if the text has the name in double quotes. */
static bool dialect_quotes(const char *text, const char *named, size_t size) {
  for (tsx_tokens t = tsx_tokens_of(text); t.token.kind != TSX_TOKEN_END; tsx_tokens_next(&t))
    if (t.token.kind == TSX_TOKEN_NAME && *t.token.text == '"' && t.token.size == size + 2 &&
        !memcmp(t.token.text + 1, named, size))
      return true;
  return false;
}

/* Finds what comes after `words` in a message. *size: up to `end`, or to the end of the message. */
static const char *dialect_named(const char *message, const char *words, const char *end, size_t *size) {
  const char *at = strstr(message, words);
  if (!at) return NULL;
  at += strlen(words);
  const char *stop = end ? strstr(at, end) : NULL;
  *size = stop ? (size_t)(stop - at) : strlen(at);
  return at;
}

const char *tsx_dialect_advice(const char *text, const char *message) {
  size_t size;
  const char *named = dialect_named(message, "no such function: ", NULL, &size);
  if (named) return dialect_word(functions, sizeof functions / sizeof *functions, named, size);
  if ((named = dialect_named(message, "expected a SELECT, not '", "'", &size)))
    return dialect_word(statements, sizeof statements / sizeof *statements, named, size);
  if ((named = dialect_named(message, "near \"", "\": syntax error", &size)) ||
      (named = dialect_named(message, "unrecognized token: \"", "\"", &size)) ||
      (named = dialect_named(message, "no such table: ", NULL, &size)))
    return dialect_phrase(text, named, size);
  if (!(named = dialect_named(message, "no such column: ", NULL, &size))) return NULL;
  if (dialect_quotes(text, named, size)) return "double quotes are for names, and texts are in single quotes: 'text'";
  return dialect_phrase(text, named, size);
}

int tsx_dialect_explain(const char *text, tsr_error *error) {
  const char *advice = error->code == TSR_ERROR ? tsx_dialect_advice(text, error->message) : NULL;
  char before[sizeof error->message];
  if (!advice) return error->code;
  memcpy(before, error->message, sizeof before);
  return tsx_fail(error, TSR_ERROR, "%s; %s", before, advice);
}
